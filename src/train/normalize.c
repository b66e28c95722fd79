/* SPDX-License-Identifier: MIT */
/* The mean and the standard deviation of each channel of cases. A network normalises its inputs by them. */
#include "base/memory.h"
#include "base/status.h"
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>

/* Sums of a channel. Its first sample is subtracted from all, so that large means cost no digits. */
typedef struct moments {
  double origin, sum, squares;
} moments;

static void add_samples(moments *m, const float *samples, size_t count, bool first) {
  if (first)
    m->origin = (double)samples[0];
  for (size_t i = 0; i < count; i++) {
    double value = (double)samples[i] - m->origin;
    m->sum += value;
    m->squares += value * value;
  }
}

static gconv_status measure(const gconv_dataset *data, size_t room, size_t *cases, float *inputs, moments *sums) {
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  size_t channels = (size_t)info->channels, plane = (size_t)info->height * (size_t)info->width;
  for (size_t first = 0; first < info->cases; first += room) {
    size_t count = info->cases - first < room ? info->cases - first : room;
    for (size_t i = 0; i < count; i++)
      cases[i] = first + i;
    GCONV_TRY(gconv_dataset_read(data, 0, cases, count, inputs, NULL));
    for (size_t i = 0; i < count; i++)
      for (size_t c = 0; c < channels; c++)
        add_samples(&sums[c], inputs + (i * channels + c) * plane, plane, first + i == 0);
  }
  return GCONV_OK;
}

gconv_status gconv_network_normalize(gconv_network *network, const gconv_dataset *data) {
  enum { FLOATS = 1 << 20 };
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  size_t channels = (size_t)info->channels, plane = (size_t)info->height * (size_t)info->width;
  size_t room = FLOATS / (channels * plane) + 1, *cases = malloc(room * sizeof *cases);
  float *inputs = malloc(room * channels * plane * sizeof *inputs), *mean = calloc(channels, sizeof *mean);
  float *std = calloc(channels, sizeof *std);
  moments *sums = calloc(channels, sizeof *sums);
  gconv_status status = cases && inputs && mean && std && sums
                            ? measure(data, room, cases, inputs, sums)
                            : gconv_fail(GCONV_NO_MEMORY, "no memory for means of %zu columns", channels);
  for (size_t c = 0; c < channels && status == GCONV_OK; c++) {
    double count = (double)info->cases * (double)plane, mean_of = sums[c].sum / count;
    double variance = sums[c].squares / count - mean_of * mean_of;
    mean[c] = (float)(sums[c].origin + mean_of);
    std[c] = variance > 0 ? (float)sqrt(variance) : 1;
    if (!(std[c] > 0)) /* a column that is constant up to rounding */
      std[c] = 1;
  }
  if (status == GCONV_OK) {
    free(network->mean);
    free(network->std);
    network->mean = mean;
    network->std = std;
    network->mean_count = network->std_count = info->channels;
    mean = std = NULL;
  }
  free(mean);
  free(std);
  free(sums);
  free(cases);
  free(inputs);
  return status;
}

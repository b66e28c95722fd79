/* SPDX-License-Identifier: MIT */
/* The mean and the standard deviation of each channel of cases. A network normalises its inputs by them. */
#include "base/memory.h"
#include "data/dataset.h"
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

typedef struct channel_moments {
  moments *all;
  size_t channels, plane;
} channel_moments;

static void add_cases(void *context, size_t first, size_t count, const float *inputs, const float *targets) {
  const channel_moments *m = context;
  for (size_t i = 0; i < count; i++)
    for (size_t c = 0; c < m->channels; c++)
      add_samples(&m->all[c], inputs + (i * m->channels + c) * m->plane, m->plane, first + i == 0);
}

gconv_status gconv_network_normalize(gconv_network *network, const gconv_dataset *data) {
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  size_t channels = (size_t)info->channels, plane = (size_t)info->height * (size_t)info->width;
  GCONV_FREED float *mean = calloc(channels, sizeof *mean), *std = calloc(channels, sizeof *std);
  GCONV_FREED moments *sums = calloc(channels, sizeof *sums);
  GCONV_NEED_MEMORY(mean && std && sums, "no memory for means of %zu columns", channels);
  GCONV_TRY(gconv_dataset_each(data, false, add_cases, &(channel_moments){sums, channels, plane}));
  for (size_t c = 0; c < channels; c++) {
    double count = (double)info->cases * (double)plane, mean_of = sums[c].sum / count;
    double variance = sums[c].squares / count - mean_of * mean_of;
    mean[c] = (float)(sums[c].origin + mean_of);
    std[c] = variance > 0 ? (float)sqrt(variance) : 1;
    if (!(std[c] > 0)) /* a column that is constant up to rounding */
      std[c] = 1;
  }
  free(network->mean);
  free(network->std);
  network->mean = gconv_taken(&mean);
  network->std = gconv_taken(&std);
  network->mean_count = network->std_count = info->channels;
  return GCONV_OK;
}

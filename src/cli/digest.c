/* SPDX-License-Identifier: MIT */
/* The digest of a job, for --resume: jobs with different results have different digests. */
#include "base/checksum.h"
#include "cli/bank.h"
#include "cli/job.h"
#include "image/layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void add_bytes(uint64_t *hash, const void *bytes, size_t size) {
  *hash = gconv_fnv1a(*hash, bytes, size);
}

/* Adds a text with its final 0, so that "a" "bc" and "ab" "c" differ. */
static void add_text(uint64_t *hash, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_text(uint64_t *hash, const char *format, ...) {
  char text[512];
  GCONV_FORMAT(text, sizeof text, format);
  add_bytes(hash, text, strlen(text) + 1);
}

static void add_filter(uint64_t *hash, const gconv_filter *filter) {
  add_text(hash, "%d %d %d %d %a %a", (int)filter->rows, (int)filter->columns, (int)filter->anchor_row,
           (int)filter->anchor_column, (double)filter->divisor, (double)filter->offset);
  add_bytes(hash, filter->taps, (size_t)filter->rows * (size_t)filter->columns * sizeof *filter->taps);
}

static void add_bank(uint64_t *hash, const gconv_bank *bank) {
  add_text(hash, "bank %d %d %d %d biases %d", (int)bank->filters, (int)bank->channels, (int)bank->rows, (int)bank->columns,
           bank->biases != NULL);
  add_bytes(hash, bank->weights, gconv_count_weights(bank) * sizeof *bank->weights);
  if (bank->biases)
    add_bytes(hash, bank->biases, (size_t)bank->filters * sizeof *bank->biases);
  if (bank->has_geometry)
    add_text(hash, "its own %d %d %d %d %d %d %d %d %d %d %d", bank->same_upper, bank->same_lower, (int)bank->pad_top,
             (int)bank->pad_left, (int)bank->pad_bottom, (int)bank->pad_right, (int)bank->stride_y, (int)bank->stride_x,
             (int)bank->dilation_y, (int)bank->dilation_x, (int)bank->groups);
}

/* Adds layers with their weights, and the normalisation of the input. */
static void add_network(uint64_t *hash, const gconv_network *network) {
  for (size_t i = 0; i < network->count; i++) {
    const gconv_layer *layer = &network->layers[i];
    if (layer->border != GCONV_BORDER_ZERO)
      add_text(hash, "border %d %a", (int)layer->border, layer->border_value);
    add_text(hash, "layer %d %d %d %d %d %d %d %d %d %d %d %d %d %a", (int)layer->kind, (int)layer->padding, layer->pad_top,
             layer->pad_left, layer->pad_bottom, layer->pad_right, layer->stride_y, layer->stride_x, layer->dilation_y,
             layer->dilation_x, layer->groups, layer->flip, (int)layer->activation, (double)layer->slope);
    if (layer->window_y > 0 || layer->from > 0)
      add_text(hash, "window %d %d from %d", layer->window_y, layer->window_x, layer->from);
    if (layer->bank)
      add_bank(hash, layer->bank);
  }
  if (network->features)
    add_text(hash, "features %016" PRIx64, gconv_fnv1a(GCONV_FNV1A_BASIS, network->features, strlen(network->features)));
  for (size_t k = 0; k < network->class_count && network->features; k++) {
    add_bytes(hash, network->classes[k], strlen(network->classes[k]) + 1);
    add_bytes(hash, network->palette ? network->palette + 3 * k : NULL, network->palette ? 3 : 0);
  }
  if (network->graph)
    add_text(hash, "graph %016" PRIx64, network->graph_digest);
  add_text(hash, "network %d %d %d", network->channels, network->mean_count, network->std_count);
  if (network->white > 0 || network->order != GCONV_ORDER_DEFAULT)
    add_text(hash, "white %.9g order %d", (double)network->white, (int)network->order);
  add_bytes(hash, network->mean, (size_t)network->mean_count * sizeof(float));
  add_bytes(hash, network->std, (size_t)network->std_count * sizeof(float));
}

static void add_filters(uint64_t *hash, const gconv_filters *filters) {
  for (size_t k = 0; k < filters->count; k++)
    add_filter(hash, &filters->items[k]);
}

/* Adds the samples of a second picture, such as --mask, and their type. */
static void add_mask(uint64_t *hash, const gconv_image *mask) {
  if (!mask->data)
    return;
  const size_t row = gconv_samples_of(mask) * gconv_type_bytes(mask->type);
  add_text(hash, "mask %s %d %d %d %d", gconv_type_name(mask->type), (int)mask->width, (int)mask->height,
           (int)mask->channels, mask->alpha);
  for (size_t plane = 0; plane < gconv_planes_of(mask); plane++)
    for (int32_t y = 0; y < mask->height; y++)
      add_bytes(hash, gconv_row_at(mask, plane, y), row);
}

gconv_status gconv_job_digest(const gconv_main_job *job, uint64_t *digest) {
  uint64_t hash = GCONV_FNV1A_BASIS;
  char *settings = gconv_job_describe_settings(job->settings);
  GCONV_NEED_MEMORY(settings, "out of memory");
  add_text(&hash, "gconv %s", gconv_version());
  add_filters(&hash, &job->filters);
  for (size_t i = 0; i < job->before_count && job->before; i++)
    add_filters(&hash, &job->before[i]);
  for (size_t i = 0; i < job->layer_count && job->banks; i++)
    add_bank(&hash, &job->banks[i]);
  for (size_t i = 0; i <= job->before_count && job->has_networks; i++)
    add_network(&hash, &job->networks[i]);
  if (job->svm)
    add_text(&hash, "svm %016" PRIx64, job->svm_digest);
  add_mask(&hash, &job->mask);
  for (size_t i = 0; i <= job->before_count && job->arithmetic; i++)
    if (job->arithmetic[i].statistic)
      add_text(&hash, "statistic %zu %s", i, job->arithmetic[i].statistic);
    else if (job->arithmetic[i].given) {
      add_text(&hash, "arithmetic %zu %d %a", i, (int)job->arithmetic[i].kind, job->arithmetic[i].amount);
      add_mask(&hash, &job->arithmetic[i].other);
    }
  add_mask(&hash, &job->weights);
  add_bytes(&hash, settings, strlen(settings) + 1);
  free(settings);
  *digest = hash;
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
#include "batch/digest.h"
#include "base/checksum.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add_bytes(uint64_t *hash, const void *bytes, size_t size) {
  *hash = gconv_fnv1a(*hash, bytes, size);
}

/* With its final 0, so that "a" "bc" and "ab" "c" differ. */
static void add_text(uint64_t *hash, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_text(uint64_t *hash, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  add_bytes(hash, text, strlen(text) + 1);
}

static void add_filter(uint64_t *hash, const gconv_filter *filter) {
  add_text(hash, "%d %d %d %d %a %a", (int)filter->rows, (int)filter->columns, (int)filter->anchor_row,
           (int)filter->anchor_column, (double)filter->divisor, (double)filter->offset);
  add_bytes(hash, filter->taps, (size_t)filter->rows * (size_t)filter->columns * sizeof *filter->taps);
}

static void add_options(uint64_t *hash, const gconv_options *options) {
  add_text(hash, "flip %d border %d %a", options->flip, (int)options->border, options->border_value);
  add_text(hash, "padding %d %d %d %d %d", (int)options->padding, (int)options->pad_top, (int)options->pad_bottom,
           (int)options->pad_left, (int)options->pad_right);
  add_text(hash, "stride %d %d dilation %d %d", (int)options->stride_y, (int)options->stride_x, (int)options->dilation_y,
           (int)options->dilation_x);
  add_text(hash, "gray %d linear %d alpha %d combine %d", options->gray, options->linear, (int)options->alpha,
           (int)options->combine);
  add_text(hash, "scale %a offset %a range %d", options->scale, options->offset, (int)options->range);
  add_text(hash, "type %d %d", options->keep_type, options->keep_type ? 0 : (int)options->output_type);
  add_text(hash, "algorithm %s", options->algorithm ? options->algorithm : "auto");
  add_bytes(hash, options->without ? options->without : "", options->without ? strlen(options->without) + 1 : 1);
}

uint64_t gconv_batch_digest(const gconv_batch *batch) {
  uint64_t hash = GCONV_FNV1A_BASIS;
  add_text(&hash, "gconv %s", gconv_version());
  for (size_t k = 0; k < batch->filters->count; k++)
    add_filter(&hash, &batch->filters->items[k]);
  add_options(&hash, &batch->options);
  add_text(&hash, "format %s quality %d level %d", batch->outputs->format->name, batch->jpeg_quality, batch->png_level);
  return hash;
}

/* A bank and how it is applied. */
static void add_layer(uint64_t *hash, const gconv_layer *layer) {
  const gconv_bank *bank = layer->bank;
  size_t taps =
      (size_t)bank->filters * (size_t)bank->channels * (size_t)bank->rows * (size_t)bank->columns * sizeof *bank->weights;
  add_text(hash, "bank %d %d %d %d biases %d", (int)bank->filters, (int)bank->channels, (int)bank->rows, (int)bank->columns,
           bank->biases != NULL);
  add_bytes(hash, bank->weights, taps);
  if (bank->biases)
    add_bytes(hash, bank->biases, (size_t)bank->filters * sizeof *bank->biases);
  if (bank->has_geometry)
    add_text(hash, "its own %d %d %d %d %d %d %d %d %d %d %d", bank->same_upper, bank->same_lower, (int)bank->pad_top,
             (int)bank->pad_left, (int)bank->pad_bottom, (int)bank->pad_right, (int)bank->stride_y, (int)bank->stride_x,
             (int)bank->dilation_y, (int)bank->dilation_x, (int)bank->groups);
  add_text(hash, "padding %d %d %d %d %d groups %d flip %d", (int)layer->padding, (int)layer->pad_top, (int)layer->pad_left,
           (int)layer->pad_bottom, (int)layer->pad_right, (int)layer->groups, layer->flip);
  add_text(hash, "stride %d %d dilation %d %d", (int)layer->stride_y, (int)layer->stride_x, (int)layer->dilation_y,
           (int)layer->dilation_x);
  add_text(hash, "activation %d %a algorithm %s", (int)layer->activation, (double)layer->slope,
           layer->algorithm ? layer->algorithm : "");
}

static void add_numbers(uint64_t *hash, const float *numbers, int32_t count) {
  add_text(hash, "%d numbers", numbers ? (int)count : 0);
  if (numbers)
    add_bytes(hash, numbers, (size_t)count * sizeof *numbers);
}

uint64_t gconv_bank_digest(const gconv_bank_batch *job) {
  const gconv_network_options *options = &job->options;
  uint64_t hash = gconv_batch_digest(&job->common);
  for (size_t i = 0; i < job->layer_count; i++)
    add_layer(&hash, &job->layers[i]);
  add_numbers(&hash, options->mean, options->mean_count);
  add_numbers(&hash, options->std, options->std_count);
  add_text(&hash, "math %d combine %d algorithm %s", (int)options->math, (int)options->combine,
           options->algorithm ? options->algorithm : "auto");
  add_text(&hash, "presentation %d gray %d nhwc %d tone %a %a %d %d %d", (int)job->presentation, job->gray, job->nhwc,
           job->tone.scale, job->tone.offset, (int)job->tone.range, job->tone.fit, (int)job->tone.type);
  return hash;
}

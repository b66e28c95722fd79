/* SPDX-License-Identifier: MIT */
/*
 * Many images through a network of layers. Images of one shape go in batches: while one batch is convolved and its results
 * are written, the next is decoded. So memory is bounded by two batches.
 */
#ifndef GCONV_BATCH_BANKS_H
#define GCONV_BATCH_BANKS_H

#include "batch/pipeline.h"
#include "batch/tone.h"

/* What the K outputs of an image become. */
typedef enum gconv_presentation {
  GCONV_PRESENT_TENSOR,   /* one array, N x K x P x Q, where the format holds one */
  GCONV_PRESENT_PICTURES, /* a picture each; where a bank is applied to each of 3 channels by itself, in colour */
  GCONV_PRESENT_MOSAIC,   /* one picture with all of them as tiles */
  GCONV_PRESENT_COMBINED, /* one picture of what was combined */
  GCONV_PRESENT_LABELS    /* one picture with a colour for each filter: of argmax */
} gconv_presentation;

typedef struct gconv_bank_batch {
  gconv_batch common; /* without filters and options */
  const gconv_layer *layers;
  size_t layer_count;
  gconv_network_options options;
  gconv_presentation presentation;
  gconv_tone tone;
  bool one_tensor; /* all inputs go into the one array at outputs->paths[0], in their order */
  bool gray;       /* images are made grey first */
  bool nhwc;       /* arrays of four dimensions are N x H x W x C, read and written */
  int batch;       /* images at a time; 0: by memory */
} gconv_bank_batch;

/* Runs all inputs, and otherwise as gconv_batch_run(). */
gconv_status gconv_bank_batch_run(const gconv_bank_batch *job, gconv_batch_summary *summary, gconv_message *message);

/* Reads an input, as the network will see it; *image stays empty if that fails. */
gconv_status gconv_bank_image_read(const gconv_bank_batch *job, const char *path, gconv_image *image);

/* How many results an image has: what gconv_outputs_name() is to name. */
size_t gconv_bank_results(const gconv_bank_batch *job);

/* Makes result number `result` of frame `frame` of what the network yielded, as a file can hold it, on up to `threads`
 * threads: *picture, which must be empty, is owned by the caller. */
gconv_status gconv_bank_present(const gconv_bank_batch *job, const gconv_image *maps, int32_t frame, size_t result,
                                int threads, gconv_image *picture);

/* N x H x W x C as it was read, N x C x H x W by its names, to what its names say: or back, which is the other way round. */
gconv_status gconv_to_nchw(gconv_image *image);
gconv_status gconv_to_nhwc(gconv_image *image);

#endif

/* SPDX-License-Identifier: MIT */
/* What a job takes besides its convolutions, told from the headers of its images before any is decoded. */
#ifndef GCONV_BATCH_ESTIMATE_H
#define GCONV_BATCH_ESTIMATE_H

#include "batch/pipeline.h"

enum { GCONV_MOST_HEADERS = 32 }; /* a sample tells enough of thousands of images */

/* Some inputs of a job: their headers, and estimates, in milliseconds of one thread, of what all of these take together. */
typedef struct gconv_sample {
  gconv_image headers[GCONV_MOST_HEADERS];
  size_t count;
  double first_ms; /* until the first one is decoded */
  double reading_ms, writing_ms;
  double spared_ms;  /* the part of writing_ms that a GPU can take over */
  double jpeg_ms;    /* the part of reading_ms that its decoder can take over */
  double jpeg_bytes; /* of the files that it would decode */
} gconv_sample;

/* Reads headers of inputs at equal distances into a zeroed sample; those that cannot be read are left out, and so is what
 * comes through a pipe. */
void gconv_sample_take(const gconv_batch *batch, gconv_sample *sample);

/* The job as gconv_device_choose() takes it, but for filters, options and whether the CPU begins, with the decoder of a GPU
 * if that is of any use. Valid as long as the sample, which is not empty. */
gconv_job gconv_sample_job(const gconv_batch *batch, const gconv_sample *sample);

/* Whether a GPU can compress the results: as PNG of level 1, which is the default. */
bool gconv_estimate_gpu_makes_png(const gconv_batch *batch);

/* Whether the results of an input may come from a GPU in parts: a few files, all of which are open at once, and none that
 * cannot be taken back. */
bool gconv_estimate_may_come_in_parts(const gconv_batch *batch, char *const *paths, size_t count);

/* Whether the pixels of the inputs are wanted on the host, which then decodes what a GPU could: to verify, or for stages
 * before the convolution. */
bool gconv_estimate_wants_pixels(const gconv_batch *batch);

/* Whether the inputs are so few that a GPU's decoder, which takes up to a second to start, finds little left to do: a thread
 * or two of a CPU are through with them by then. By the inputs and options alone. */
bool gconv_sample_is_little(const gconv_batch *batch, const gconv_sample *sample);
bool gconv_estimate_is_little(const gconv_batch *batch);

/* Whether the CPU may do the first images of a job that a GPU is wanted for, until that is ready: where it does not matter
 * which images these are, as the same bits come out. So both are kept to algorithms of the exact family, and these must take
 * a thread less time than the rest of its work on an image. Then *without (for free()) is what no plan of the job may
 * choose, for gconv_options. */
bool gconv_sample_cpu_may_begin(const gconv_batch *batch, const gconv_sample *sample, char **without);

#endif

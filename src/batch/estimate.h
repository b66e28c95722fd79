/* SPDX-License-Identifier: MIT */
/* What a job takes beside its convolutions, told from the headers of its images before any is decoded. */
#ifndef GCONV_BATCH_ESTIMATE_H
#define GCONV_BATCH_ESTIMATE_H

#include "batch/pipeline.h"

enum { GCONV_MOST_HEADERS = 32 }; /* a sample tells enough of thousands of images */

/* Reads the headers of inputs at equal distances into headers[GCONV_MOST_HEADERS], the caller's to free; returns how many
 * could be read, adds to job->host_ms what reading and writing these takes one thread, and to job->spared_ms the part of it
 * that a GPU takes over, and sets job->hidden_ms. What comes through a pipe is left alone. */
size_t gconv_estimate_headers(const gconv_batch *batch, gconv_image *headers, gconv_job *job);

/* Whether results are such as a GPU makes: PNG of level 1, which is the default. */
bool gconv_estimate_gpu_makes_png(const gconv_batch *batch);

/* Whether the results of an input may come from a GPU in parts: a few files, all of which are open at once, and none that
 * cannot be taken back. */
bool gconv_estimate_may_come_in_parts(const gconv_batch *batch, char *const *paths, size_t count);

/* Whether the pixels of the inputs are wanted on the host, which then decodes what a GPU could: to verify, or for stages
 * before the convolution. */
bool gconv_estimate_wants_pixels(const gconv_batch *batch);

/* Whether the inputs are so few that a GPU's decoder, which takes up to a second to start, finds little left to do: a thread
 * or two of a CPU are through with them by then. By the inputs and options alone. */
bool gconv_estimate_is_little(const gconv_batch *batch);

/* Whether the CPU may do the first images of a job that a GPU is wanted for, until that is ready: where it does not matter
 * which images these are, as the same bits come out. So both are kept to algorithms of the exact family, and these must take
 * a thread of `cpu` less time than the rest of its work on an image. Then *without (for free()) is what no plan of the job
 * may choose, for gconv_options. */
bool gconv_estimate_cpu_may_begin(const gconv_batch *batch, gconv_device *cpu, char **without);

#endif

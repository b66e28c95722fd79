/* SPDX-License-Identifier: MIT */
#include "batch/estimate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static double samples_of(const gconv_image *header) {
  return (double)header->frames * header->height * header->width * header->channels;
}

/* Milliseconds until the image in the file is decoded: compressed bytes tell that better than pixels do, some 100 MB/s for
 * JPEG and PNG; what is not compressed is read 20 times as fast. */
static double decoding_ms(const char *path, const gconv_image *header) {
  struct stat file;
  if (stat(path, &file) != 0)
    return 0;
  double samples = samples_of(header);
  bool compressed = (double)file.st_size < 0.9 * samples * (double)gconv_type_bytes(header->type);
  return (double)file.st_size / (compressed ? 1e5 : 2e6);
}

/* Bytes of samples that a thread writes in a millisecond, roughly: as measured on an EPYC with photos filtered by Sobel's.
 */
static double encoding_rate(const gconv_batch *batch) {
  const char *format = batch->outputs->format->name;
  if (strcmp(format, "png") == 0 && batch->png_level != GCONV_PNG_STORED)
    return batch->png_level <= 1 ? 7e5 : 4e4;
  return strcmp(format, "jpeg") == 0 ? 5e5 : 1.5e6;
}

/* Milliseconds of a thread that writes what becomes of the image. */
static double encoding_ms(const gconv_batch *batch, const gconv_image *header) {
  const gconv_options *options = &batch->options;
  gconv_type type = gconv_batch_output_type(options, batch->outputs->format, header->type);
  bool one = options->combine != GCONV_COMBINE_NONE && options->combine != GCONV_COMBINE_STACK;
  double results = !one && batch->filters ? (double)batch->filters->count : 1;
  double samples = samples_of(header) / options->stride_y / options->stride_x;
  return results * samples * (double)gconv_type_bytes(type) / encoding_rate(batch);
}

bool gconv_estimate_gpu_makes_png(const gconv_batch *batch) {
  return strcmp(batch->outputs->format->name, "png") == 0 && (batch->png_level == 0 || batch->png_level == 1);
}

bool gconv_estimate_may_come_in_parts(const gconv_batch *batch, char *const *paths, size_t count) {
  const size_t most = 8;
  bool may = count <= most && !batch->verify;
  for (size_t n = 0; n < count && may; n++)
    may = !gconv_output_is_sent(paths[n]);
  return may;
}

bool gconv_estimate_wants_pixels(const gconv_batch *batch) {
  return batch->verify || batch->options.gray || batch->options.linear;
}

/* The part of encoding_ms() that a GPU does, which leaves writing the file: a quarter, as measured with an H200. */
static double spared_ms(const gconv_batch *batch, double encoding) {
  const gconv_options *options = &batch->options;
  bool whole = batch->verify || options->linear || options->alpha == GCONV_ALPHA_PREMULTIPLY ||
               options->range == GCONV_RANGE_MINMAX; /* plans have stages on the host then */
  return !whole && gconv_estimate_gpu_makes_png(batch) ? 0.75 * encoding : 0;
}

size_t gconv_estimate_headers(const gconv_batch *batch, gconv_image *headers, gconv_job *job) {
  const gconv_inputs *inputs = batch->inputs;
  size_t count = 0, samples = inputs->count < GCONV_MOST_HEADERS ? inputs->count : GCONV_MOST_HEADERS;
  for (size_t i = 0; i < samples; i++) {
    const char *path = inputs->items[i * inputs->count / samples].path;
    if (!gconv_input_is_file(path) || gconv_image_read_header(path, &headers[count], NULL) != GCONV_OK)
      continue;
    double decoding = decoding_ms(path, &headers[count]), encoding = encoding_ms(batch, &headers[count]);
    job->hidden_ms = count == 0 ? decoding : job->hidden_ms;
    job->host_ms += decoding + encoding;
    job->spared_ms += spared_ms(batch, encoding);
    count++;
  }
  return count;
}

bool gconv_estimate_is_little(const gconv_batch *batch) {
  const size_t most = 16; /* of which all headers are read */
  const double most_ms = 2000;
  gconv_image headers[GCONV_MOST_HEADERS] = {{0}};
  gconv_job job = {.likes = headers};
  if (batch->inputs->count > most)
    return false;
  size_t count = gconv_estimate_headers(batch, headers, &job);
  for (size_t i = 0; i < count; i++)
    gconv_image_free(&headers[i]);
  return job.host_ms < most_ms;
}

/* ---- Whether the CPU may begin ------------------------------------------------------------------------------------- */

/* Whether all algorithms of this name, on any device, are of the exact family. */
static bool is_exact(const char *name) {
  const gconv_algorithm_info *algorithm;
  for (size_t i = 0; (algorithm = gconv_algorithm_at(i)); i++)
    if (strcmp(algorithm->name, name) == 0 && !algorithm->exact)
      return false;
  return true;
}

/* The names of all algorithms that are not, with commas between. NULL without memory. */
static char *name_inexact(void) {
  const gconv_algorithm_info *algorithm;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out)
    return NULL;
  for (size_t i = 0; (algorithm = gconv_algorithm_at(i)); i++)
    if (!is_exact(algorithm->name))
      fprintf(out, "%s%s", ftell(out) > 0 ? "," : "", algorithm->name);
  if (fclose(out) == 0)
    return text;
  free(text);
  return NULL;
}

/* Milliseconds of a thread that filters images like `like` by algorithms of the exact family; HUGE_VAL if there is no way.
 */
static double filtering_ms(const gconv_batch *batch, gconv_device *cpu, const gconv_image *like, const char *without) {
  gconv_options options = batch->options;
  gconv_plan *plan = NULL;
  options.without = without;
  options.keep_type = false;
  options.output_type = gconv_batch_output_type(&batch->options, batch->outputs->format, like->type);
  if (gconv_plan_create(cpu, like, batch->filters, &options, &plan) != GCONV_OK)
    return HUGE_VAL;
  double milliseconds = gconv_plan_get_info(plan)->estimate_ms;
  gconv_plan_free(plan);
  return milliseconds;
}

/* How many times as large all images are together as the first of them. */
static double count_firsts(const gconv_image *headers, size_t count) {
  double samples = 0;
  for (size_t i = 0; i < count; i++)
    samples += samples_of(&headers[i]);
  return samples / samples_of(&headers[0]);
}

bool gconv_estimate_cpu_may_begin(const gconv_batch *batch, gconv_device *cpu, char **without) {
  const gconv_options *options = &batch->options;
  gconv_image headers[GCONV_MOST_HEADERS] = {{0}};
  gconv_job job = {.likes = headers};
  if (batch->verify || (options->without && options->without[0]) || (options->algorithm && !is_exact(options->algorithm)))
    return false;
  *without = name_inexact();
  size_t count = *without ? gconv_estimate_headers(batch, headers, &job) : 0;
  bool may = count > 0 && count_firsts(headers, count) * filtering_ms(batch, cpu, &headers[0], *without) < job.host_ms;
  for (size_t i = 0; i < count; i++)
    gconv_image_free(&headers[i]);
  if (!may) {
    free(*without);
    *without = NULL;
  }
  return may;
}

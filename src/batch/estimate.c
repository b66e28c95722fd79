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

/* Bytes of such a file that a thread reads in a millisecond, until the image is decoded: compressed bytes tell that better
 * than pixels do. As measured on a Xeon, and the last one roughly. */
static double decoding_rate(const gconv_row_reader *reader, double bytes) {
  const gconv_image *header = gconv_row_reader_header(reader);
  const char *format = gconv_row_reader_format(reader)->name;
  if (strcmp(format, "jpeg") == 0)
    return 7e4;
  bool compressed = bytes < 0.9 * samples_of(header) * (double)gconv_type_bytes(header->type);
  return strcmp(format, "png") == 0 && compressed ? 2e5 : 2e6;
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

/* Adds an input, if it can be read. */
static void add_input(const gconv_batch *batch, const char *path, gconv_sample *sample) {
  gconv_read_options options = {.max_pixels = batch->max_pixels, .threads = 1};
  gconv_row_reader *reader = NULL;
  struct stat file;
  if (!gconv_input_is_file(path) || stat(path, &file) != 0 || gconv_row_reader_open(path, &options, &reader) != GCONV_OK)
    return;
  gconv_image *header = &sample->headers[sample->count];
  *header = *gconv_row_reader_header(reader);
  header->icc = NULL; /* it stays the reader's */
  header->icc_bytes = 0;
  double bytes = (double)file.st_size, decoding = bytes / decoding_rate(reader, bytes),
         encoding = encoding_ms(batch, header);
  sample->first_ms = sample->count == 0 ? decoding : sample->first_ms;
  sample->reading_ms += decoding;
  sample->writing_ms += encoding;
  sample->spared_ms += spared_ms(batch, encoding);
  if (gconv_row_reader_may_be_jpeg(reader)) {
    sample->jpeg_ms += decoding;
    sample->jpeg_bytes += bytes;
  }
  sample->count++;
  gconv_row_reader_close(reader);
}

void gconv_sample_take(const gconv_batch *batch, gconv_sample *sample) {
  const gconv_inputs *inputs = batch->inputs;
  size_t most = inputs->count < GCONV_MOST_HEADERS ? inputs->count : GCONV_MOST_HEADERS;
  for (size_t i = 0; i < most; i++)
    add_input(batch, inputs->items[i * inputs->count / most].path, sample);
}

gconv_job gconv_sample_job(const gconv_batch *batch, const gconv_sample *sample) {
  double share = (double)batch->inputs->count / (double)sample->count;
  bool decodes = batch->decoder == GCONV_DECODER_AUTO && !gconv_estimate_wants_pixels(batch);
  return (gconv_job){.likes = sample->headers,
                     .like_count = sample->count,
                     .images = batch->inputs->count,
                     .hidden_ms = sample->first_ms,
                     .host_ms = share * (sample->reading_ms + sample->writing_ms),
                     .spared_ms = share * sample->spared_ms,
                     .decoding_ms = decodes ? share * sample->jpeg_ms : 0,
                     .jpeg_bytes = share * sample->jpeg_bytes};
}

bool gconv_sample_is_little(const gconv_batch *batch, const gconv_sample *sample) {
  const size_t most = 16; /* of which all headers are read */
  const double most_ms = 2000;
  return batch->inputs->count <= most && sample->reading_ms + sample->writing_ms < most_ms;
}

bool gconv_estimate_is_little(const gconv_batch *batch) {
  gconv_sample sample = {.count = 0};
  gconv_sample_take(batch, &sample);
  return gconv_sample_is_little(batch, &sample);
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

bool gconv_sample_cpu_may_begin(const gconv_batch *batch, const gconv_sample *sample, char **without) {
  const gconv_options *options = &batch->options;
  gconv_device *cpu = NULL; /* of one thread: how many the job has is to make no difference */
  if (sample->count == 0 || batch->verify || (options->without && options->without[0]) ||
      (options->algorithm && !is_exact(options->algorithm)) || gconv_device_open("cpu", 1, &cpu) != GCONV_OK)
    return false;
  *without = name_inexact();
  double firsts = count_firsts(sample->headers, sample->count);
  bool may =
      *without && firsts * filtering_ms(batch, cpu, &sample->headers[0], *without) < sample->reading_ms + sample->writing_ms;
  gconv_device_close(cpu);
  if (!may) {
    free(*without);
    *without = NULL;
  }
  return may;
}

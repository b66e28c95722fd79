/* SPDX-License-Identifier: MIT */
#include "batch/worth.h"
#include "device/decoder.h"
#include "image/gpu_codec.h"
#include "image/layout.h"

#include <stdio.h>
#include <string.h>

/* The work that a GPU must take off one thread of the CPU, in ms, to be worth its start. On a machine with an H200 and 16
 * cores, the CPU alone was faster for 60 photos of 3840 x 2160, and a GPU for 100. The GPU's decoder of JPEGs
 * was slower than the CPU's for 150 photos, and faster for 400. */
static const double WORTH_GPU_MS = 3000, WORTH_DECODER_MS = 15000;

/* The time of a CPU thread for the part of making a PNG that a GPU can do, and for decoding a JPEG: ns for each byte of
 * samples, measured on that machine. */
static const double PNG_NS = 1.2, JPEG_NS = 2.2;

/* The most headers that are read. Spread over the inputs, they suffice for thousands of images. */
enum { MOST_HEADERS = 32 };

/* ---- What a GPU may do ---------------------------------------------------------------------------------------------- */

bool gconv_gpu_makes_png(const gconv_batch *batch, const gconv_format_info *format) {
  return format && strcmp(format->name, "png") == 0 && (batch->png_level == 0 || batch->png_level == 1);
}

/* Returns the stages of the operation that the host does: flags GCONV_HOST_BEFORE, GCONV_HOST_AFTER. */
static int host_stages(const gconv_batch *batch) {
  const gconv_operation_type *type = batch->operation->type;
  return type->host_stages ? type->host_stages(batch->operation) : GCONV_HOST_BEFORE | GCONV_HOST_AFTER;
}

bool gconv_gpu_may_decode(const gconv_batch *batch) {
  return !batch->verify && !(host_stages(batch) & GCONV_HOST_BEFORE);
}

bool gconv_gpu_may_send_parts(const gconv_batch *batch, char *const *paths, size_t count) {
  const size_t most = 8;
  bool may = count <= most && !batch->verify;
  for (size_t n = 0; n < count && may; n++)
    may = !gconv_path_is_sent(paths[n]);
  return may;
}

/* ---- The work ------------------------------------------------------------------------------------------------------- */

/* The work of the inputs that were looked at. */
typedef struct work {
  gconv_image like; /* the header of the last input */
  double like_ms;   /* ms that a GPU saves for an image like it, without decoding */
  size_t count;
  double spared_ms, decoding_ms;
  char obstacle[192]; /* why no GPU can do the work; "" if one can */
} work;

/* Returns the milliseconds in which a thread executes the operation on an image like `like`, and compresses the results.
 * Returns 0 if no plan can be made: the reason is reported when the image is read. */
static double spared_by(const gconv_batch *batch, gconv_device *cpu, const gconv_image *like, work *w) {
  gconv_plan *plan = NULL;
  if (gconv_plan_outline(cpu, like, batch->operation, 0, &plan) != GCONV_OK)
    return 0;
  double milliseconds = gconv_plan_get_info(plan)->estimate_ms;
  if (plan->type->find_gpu_obstacle && !w->obstacle[0])
    plan->type->find_gpu_obstacle(plan, w->obstacle, sizeof w->obstacle);
  if (gconv_gpu_makes_png(batch, batch->outputs->format) && !batch->verify && !(host_stages(batch) & GCONV_HOST_AFTER))
    for (size_t i = 0; i < gconv_plan_outputs(plan); i++)
      milliseconds += gconv_pixel_bytes(gconv_plan_output_header(plan, i)) * PNG_NS * 1e-6;
  gconv_plan_free(plan);
  return milliseconds;
}

/* Adds an input, if it can be read. Pipes are not read. */
static void add_input(const gconv_batch *batch, gconv_device *cpu, const gconv_input *input, work *w) {
  gconv_read_options options = {
      .max_pixels = batch->max_pixels, .unrounded = batch->unrounded, .planes = batch->outputs->planes};
  gconv_row_reader *reader = NULL;
  if (!gconv_path_is_file(input->file) || gconv_row_reader_open(input->path, &options, &reader) != GCONV_OK)
    return;
  gconv_image header = gconv_header_of(gconv_row_reader_header(reader));
  if (batch->nhwc)
    gconv_header_to_nchw(&header);
  if (w->count == 0 || !gconv_image_same_shape(&header, &w->like))
    w->like_ms = spared_by(batch, cpu, &header, w);
  w->like = header;
  w->spared_ms += w->like_ms;
  w->decoding_ms += gconv_row_reader_may_be_jpeg(reader) ? gconv_pixel_bytes(&header) * JPEG_NS * 1e-6 : 0;
  w->count++;
  gconv_row_reader_close(reader);
}

/* ---- The rule ------------------------------------------------------------------------------------------------------- */

/* Writes a time, such as "280 ms" or "1.5 s". */
static void print_time(char *text, size_t size, double milliseconds) {
  if (milliseconds < 1000)
    snprintf(text, size, "%.0f ms", milliseconds);
  else
    snprintf(text, size, "%.3g s", milliseconds * 1e-3);
}

static gconv_worth judge(double spared_ms, double decoding_ms) {
  gconv_worth worth = {.decoder = decoding_ms > WORTH_DECODER_MS};
  double counted = worth.decoder ? spared_ms + decoding_ms : spared_ms;
  char spared[32], least[32];
  worth.gpu = worth.decoder || counted > WORTH_GPU_MS;
  print_time(spared, sizeof spared, counted);
  print_time(least, sizeof least, worth.decoder ? WORTH_DECODER_MS : WORTH_GPU_MS);
  snprintf(worth.reason, sizeof worth.reason,
           "a GPU would take about %s of one thread's work off the CPU, and is started from %s on", spared, least);
  return worth;
}

static gconv_worth look_at_inputs(const gconv_batch *batch) {
  const gconv_inputs *inputs = batch->inputs;
  size_t most = inputs->count < MOST_HEADERS ? inputs->count : MOST_HEADERS;
  gconv_device *cpu = NULL; /* with one thread, so that the result does not depend on the run's threads */
  work w = {.count = 0};
  if (gconv_device_open("cpu", 1, &cpu) == GCONV_OK)
    for (size_t i = 0; i < most; i++)
      add_input(batch, cpu, &inputs->items[i * inputs->count / most], &w);
  gconv_device_close(cpu);
  double each = w.count > 0 ? (double)inputs->count / (double)w.count : 0;
  bool decodes = batch->decoder == GCONV_DECODER_AUTO && gconv_gpu_may_decode(batch) && !gconv_device_decoder_obstacle();
  gconv_worth worth = judge(each * w.spared_ms, decodes ? each * w.decoding_ms : 0);
  worth.gpu_can = !w.obstacle[0];
  worth.hindered = worth.gpu && !worth.gpu_can;
  if (!worth.gpu_can)
    snprintf(worth.reason, sizeof worth.reason, "%s", w.obstacle);
  return worth;
}

gconv_worth gconv_worth_find(const gconv_batch *batch, bool looks) {
  const gconv_operation *operation = batch->operation;
  gconv_worth worth = looks ? look_at_inputs(batch) : (gconv_worth){.gpu_can = true};
  worth.cpu_can = !gconv_operation_lacks(operation, "cpu");
  worth.gpu_can = worth.gpu_can && !gconv_operation_lacks(operation, "cuda");
  return worth;
}

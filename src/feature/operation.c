/* SPDX-License-Identifier: MIT */
/* Features as an operation: tiles of rows, spread over the threads of the CPU, or bands of rows on a GPU (gpu.h). */
#include "operation/operation.h"
#include "bank/column_notes.h"
#include "base/arguments.h"
#include "base/clock.h"
#include "base/control.h"
#include "base/memory.h"
#include "device/device.h"
#include "feature/gpu.h"
#include "image/colour.h"

enum { STRIP = 2 * GCONV_TILE_HEIGHT }; /* rows that a chain makes at a time on a CPU */

typedef struct feature_operation {
  gconv_operation base;
  gconv_feature_list list;
  int32_t channels;         /* 1, 3, or 0: as many as the image has */
  gconv_column_notes notes; /* owned: means and deviations of the features that a model learned; count 0: not known */
} feature_operation;

typedef struct feature_plan {
  gconv_plan base;
  const feature_operation *operation;
  int32_t channels;          /* how many channels get features */
  gconv_feature_work *works; /* owned: one for each thread, one on a GPU; NULL in an outline */
  int threads;
  gconv_feature_gpu *gpu;   /* owned: on a GPU; else NULL */
  gconv_feature_look *look; /* owned: NULL if it is not known what the model learned */
} feature_plan;

static bool is_gpu(const gconv_device *device) {
  return device->type != &gconv_device_type_cpu;
}

/* ---- Samples ---------------------------------------------------------------------------------------------------------- */

/* Where the samples of a channel come from. */
typedef struct source {
  const gconv_image *image; /* the rows of the image from `first` on */
  int32_t first, frame, channel;
  bool greys; /* the image is RGB, and its grey is wanted */
} source;

enum { PIECE = 256 }; /* pixels that are converted at a time */

static void fetch_planar(const source *s, int32_t y, int32_t x, int32_t count, float *row) {
  const gconv_image *image = s->image;
  size_t plane = (size_t)s->frame * (size_t)image->channels + (size_t)s->channel;
  const uint8_t *from = gconv_row_at(image, plane, y - s->first);
  gconv_colour_to_float_row(image->type, from + (size_t)x * gconv_type_bytes(image->type), row, (size_t)count);
}

/* Converts a few interleaved pixels, and picks the channel, or makes grey. */
static void fetch_piece(const source *s, const uint8_t *from, size_t count, float *row) {
  const gconv_image *image = s->image;
  float pixels[4 * PIECE];
  size_t step = (size_t)image->channels, at = (size_t)s->channel;
  if (s->greys) {
    step = 1 + image->alpha;
    at = 0;
    if (image->type == GCONV_F32)
      gconv_colour_grey_row(image->type, image->channels, image->alpha, from, pixels, count);
    else
      gconv_colour_grey_to_float_row(image->type, image->channels, image->alpha, from, pixels, count);
  } else {
    gconv_colour_to_float_row(image->type, from, pixels, count * step);
  }
  for (size_t i = 0; i < count; i++)
    row[i] = pixels[i * step + at];
}

static void fetch(const void *context, int32_t y, int32_t x, int32_t count, float *row) {
  const source *s = context;
  const gconv_image *image = s->image;
  if (image->planar || image->channels == 1) {
    fetch_planar(s, y, x, count, row);
    return;
  }
  const size_t pixel = (size_t)image->channels * gconv_type_bytes(image->type);
  const uint8_t *from = (const uint8_t *)image->data + (size_t)s->frame * image->plane_bytes +
                        (size_t)(y - s->first) * image->row_bytes + (size_t)x * pixel;
  for (int32_t at = 0; at < count; at += PIECE)
    fetch_piece(s, from + (size_t)at * pixel, (size_t)(count - at < PIECE ? count - at : PIECE), row + at);
}

/* ---- Executing -------------------------------------------------------------------------------------------------------- */

/* The rows of an output that are being made: from `first` on. */
typedef struct making {
  const feature_plan *plan;
  const gconv_image *in, *out;
  int32_t in_row, first, frame;
  size_t across; /* tiles side by side */
} making;

/* Makes a channel of the tile whose place is in `work`. `to` is its first pixel in the channel's first feature. */
static void make_part(const making *job, size_t channel, gconv_feature_work *work, float *to) {
  const gconv_image *like = &job->plan->base.like, *out = job->out;
  const int32_t colours = like->channels - like->alpha;
  source from = {job->in, job->in_row, job->frame, colours == 1 ? 0 : (int32_t)channel, job->plan->channels < colours};
  gconv_feature_tile_make(work, fetch, &from, to, out->plane_bytes / sizeof(float), out->row_bytes / sizeof(float));
}

/* Makes one channel of a tile. The channels of a tile are turns in a row. */
static void make_tile(void *context, size_t turn, int seat) {
  const making *job = context;
  const feature_plan *plan = job->plan;
  const gconv_image *out = job->out;
  const size_t channels = (size_t)plan->channels, tile = turn / channels, channel = turn % channels;
  const int32_t outputs = plan->operation->list.outputs;
  gconv_feature_work *work = &plan->works[seat];
  int32_t row = (int32_t)(tile / job->across) * GCONV_TILE_HEIGHT, column = (int32_t)(tile % job->across) * GCONV_TILE_WIDTH;
  work->y = job->first + row;
  work->x = column;
  work->rows = out->height - row < GCONV_TILE_HEIGHT ? out->height - row : GCONV_TILE_HEIGHT;
  work->columns = out->width - column < GCONV_TILE_WIDTH ? out->width - column : GCONV_TILE_WIDTH;
  size_t plane = (size_t)job->frame * channels * (size_t)outputs + channel * (size_t)outputs;
  float *to = (float *)(void *)((uint8_t *)out->data + plane * out->plane_bytes + (size_t)row * out->row_bytes) + column;
  make_part(job, channel, work, to);
}

static gconv_status make_rows(const feature_plan *plan, const gconv_image *in, int32_t in_row, int32_t first,
                              gconv_image *out, gconv_timings *timings) {
  double start = gconv_now_ms();
  making job = {.plan = plan, .in = in, .out = out, .in_row = in_row, .first = first};
  job.across = ((size_t)out->width + GCONV_TILE_WIDTH - 1) / GCONV_TILE_WIDTH;
  size_t down = ((size_t)out->height + GCONV_TILE_HEIGHT - 1) / GCONV_TILE_HEIGHT;
  for (; job.frame < out->frames; job.frame++)
    gconv_threads_run_or_stop(plan->base.device->threads, job.across * down * (size_t)plan->channels, make_tile, &job);
  timings->kernel_ms += gconv_now_ms() - start;
  return gconv_control_check();
}

/* Makes rows on a GPU, band by band. */
static gconv_status make_there(const feature_plan *plan, const gconv_image *in, int32_t in_row, int32_t first,
                               const gconv_image *out, gconv_timings *timings) {
  const int32_t band = gconv_feature_gpu_rows(&plan->base.like, out->channels);
  for (int32_t frame = 0; frame < out->frames; frame++)
    for (int32_t row = 0; row < out->height; row += band) {
      gconv_image window = *in, part = *out, made;
      window.frames = part.frames = 1;
      window.data = (uint8_t *)in->data + (size_t)frame * (in->planar ? (size_t)in->channels : 1) * in->plane_bytes;
      part.data =
          (uint8_t *)out->data + (size_t)frame * (size_t)out->channels * out->plane_bytes + (size_t)row * out->row_bytes;
      part.height = out->height - row < band ? out->height - row : band;
      GCONV_TRY(gconv_feature_gpu_make(plan->gpu, &window, in_row, first + row, part.height, &made, timings));
      GCONV_TRY(gconv_feature_gpu_fetch(plan->gpu, &made, &part, timings));
    }
  return GCONV_OK;
}

/* Compares the features of a tile in the middle of some rows with those that the model learned. The features that the GPU
 * made stay in its memory, so the CPU computes this tile again. */
static gconv_status look_there(const feature_plan *plan, const gconv_image *window, int32_t window_row, int32_t first,
                               int32_t count) {
  const gconv_image *like = &plan->base.like;
  gconv_image part = *plan->base.outputs;
  if (!plan->look || like->frames > 1)
    return GCONV_OK;
  part.height = count < GCONV_TILE_HEIGHT ? count : GCONV_TILE_HEIGHT;
  part.width = like->width < GCONV_TILE_WIDTH ? like->width : GCONV_TILE_WIDTH;
  GCONV_TRY(gconv_image_allocate(&part));
  const making job = {.plan = plan, .in = window, .out = &part, .in_row = window_row, .first = first};
  gconv_feature_work *work = &plan->works[0];
  work->y = first + (count - part.height) / 2;
  work->x = (like->width - part.width) / 2;
  work->rows = part.height;
  work->columns = part.width;
  for (size_t c = 0; c < (size_t)plan->channels; c++)
    make_part(&job, c, work,
              (float *)part.data + c * (size_t)plan->operation->list.outputs * (part.plane_bytes / sizeof(float)));
  gconv_feature_look_add(plan->look, &part, first, count, like->height);
  gconv_image_free(&part);
  return GCONV_OK;
}

static gconv_status make_rows_there(gconv_plan *base, const gconv_image *window, bool there, int32_t window_row,
                                    int32_t first, int32_t count, gconv_image *out, gconv_timings *timings) {
  if (there) /* such as features of features */
    return gconv_fail(GCONV_UNSUPPORTED, "on a GPU, features of pixels must be the first operation of a chain");
  GCONV_TRY(look_there((const feature_plan *)base, window, window_row, first, count));
  return gconv_feature_gpu_make(((const feature_plan *)base)->gpu, window, window_row, first, count, out, timings);
}

static gconv_status execute_rows(gconv_plan *base, const gconv_image *window, int32_t window_row, int32_t first,
                                 gconv_image *outputs, gconv_timings *timings) {
  const feature_plan *plan = (const feature_plan *)base;
  GCONV_TRY(plan->gpu ? make_there(plan, window, window_row, first, outputs, timings)
                      : make_rows(plan, window, window_row, first, outputs, timings));
  gconv_feature_look_add(plan->look, outputs, first, outputs->height, base->like.height);
  return GCONV_OK;
}

static gconv_status execute(gconv_plan *plan, const gconv_plan_input *in, gconv_image *outputs, gconv_timings *timings) {
  return execute_rows(plan, in->image, 0, 0, outputs, timings);
}

/* Tiles have fixed places. */
static int32_t row_step(const gconv_plan *plan) {
  return plan->like.frames == 1 ? GCONV_TILE_HEIGHT : 0;
}

static void rows_needed(const gconv_plan *base, int32_t first, int32_t count, int32_t *begin, int32_t *end) {
  const feature_plan *plan = (const feature_plan *)base;
  const int32_t reach = plan->operation->list.reach, height = base->like.height;
  *begin = first < reach ? 0 : first - reach;
  *end = first + count < height - reach ? first + count + reach : height;
}

/* ---- Explanation and memory ------------------------------------------------------------------------------------------- */

static void explain(const gconv_plan *base, FILE *text) {
  const feature_plan *plan = (const feature_plan *)base;
  const gconv_feature_list *list = &plan->operation->list;
  char *names = gconv_feature_list_text(list);
  fprintf(text, "features of pixels: %s\n", names ? names : "");
  fprintf(text, "  %d of each of %d channels; they depend on pixels up to %d rows and columns away\n", (int)list->outputs,
          (int)plan->channels, (int)list->reach);
  free(names);
}

static void find_need(const gconv_plan *base, gconv_need *need) {
  const feature_plan *plan = (const feature_plan *)base;
  need->fixed = is_gpu(base->device)
                    ? gconv_feature_gpu_bytes(&plan->operation->list, &base->like, plan->channels)
                    : (double)gconv_feature_work_bytes(&plan->operation->list) * gconv_threads_count(base->device->threads);
}

/* ---- The plan --------------------------------------------------------------------------------------------------------- */

static void free_plan(gconv_plan *base) {
  feature_plan *plan = (feature_plan *)base;
  for (int i = 0; i < plan->threads && plan->works; i++)
    gconv_feature_work_end(&plan->works[i]);
  gconv_feature_gpu_free(plan->gpu);
  gconv_feature_look_end(plan->look);
  free(plan->works);
  free(plan);
}

static gconv_status check_image(const gconv_image *like, int32_t wanted, int32_t *channels) {
  const int32_t colours = like->channels - like->alpha;
  *channels = wanted > 0 ? wanted : colours;
  if (wanted == 0 || colours == wanted || ((colours == 1 || colours == 3) && (wanted == 1 || wanted == 3)))
    if (wanted != 1 || colours == 1 || !like->planar)
      return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT, "features of %s images are wanted, and this one has %d %schannels",
                    wanted == 1 ? "grey" : "RGB", (int)colours, like->planar ? "planes of " : "");
}

static gconv_status begin_works(feature_plan *plan) {
  const bool there = is_gpu(plan->base.device);
  const int count = there ? plan->look != NULL : gconv_threads_count(plan->base.device->threads);
  if (there)
    GCONV_TRY(
        gconv_feature_gpu_create(plan->base.device, &plan->operation->list, &plan->base.like, plan->channels, &plan->gpu));
  GCONV_NEW(plan->works, (size_t)count + 1, "no memory for a plan");
  for (; plan->threads < count; plan->threads++)
    GCONV_TRY(gconv_feature_work_begin(&plan->operation->list, plan->base.like.height, plan->base.like.width,
                                       &plan->works[plan->threads]));
  return GCONV_OK;
}

/* Returns the nanoseconds a pixel that a thread of a CPU with AVX2 takes: some for each tap of a scale, in y and in x, and
 * some for each output. src/batch/worth.c decides by them whether a GPU is worth its start. */
static double nanoseconds(const gconv_feature_list *list) {
  const double tap = 0.3, output = 0.5;
  double sum = output * list->outputs;
  for (size_t s = 0; s < list->scale_count; s++)
    sum += tap * list->scales[s].radius * (list->scales[s].planes & ~(1U << GCONV_PLANE_SMOOTH) ? 3 : 1);
  return sum;
}

static void fill_info(feature_plan *plan) {
  gconv_plan_info *info = &plan->base.info;
  gconv_plan_describe(&plan->base, "features", "fp32");
  info->channels = plan->channels;
  info->filters = plan->operation->list.outputs;
  info->rows = info->columns = 2 * plan->operation->list.reach + 1;
  info->workspace_bytes = gconv_feature_work_bytes(&plan->operation->list);
  info->estimate_ms =
      1e-6 * nanoseconds(&plan->operation->list) * plan->channels * info->frames * info->height * (double)info->width;
}

/* Warns if the picture has colours and the model learned grey pictures, or the reverse. */
static void warn_of_channels(const feature_plan *plan) {
  const gconv_image *like = &plan->base.like;
  const int32_t colours = like->channels - like->alpha;
  if (colours != plan->channels)
    gconv_warn_once("other channels than were learned",
                    plan->channels == 1
                        ? "a picture has colours, and the model learned grey ones: it is made grey"
                        : "a picture is grey, and the model learned colours: it is taken for RGB of equal parts");
}

static gconv_status begin(feature_plan *plan) {
  const gconv_column_notes *notes = &plan->operation->notes;
  if (notes->count > 0) {
    warn_of_channels(plan);
    plan->look = gconv_feature_look_begin(notes);
    GCONV_NEED_MEMORY(plan->look, "no memory for a plan");
  }
  return begin_works(plan);
}

static gconv_status fill_plan(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *base) {
  feature_plan *plan = (feature_plan *)base;
  plan->operation = (const feature_operation *)operation;
  const gconv_image *like = order->like;
  GCONV_TRY(check_image(like, plan->operation->channels, &plan->channels));
  if (plan->operation->list.outputs > INT32_MAX / plan->channels)
    return gconv_fail(GCONV_TOO_LARGE, "features of %d channels are too many", (int)plan->channels);
  GCONV_NEW(base->outputs, 1, "no memory for a plan");
  base->output_count = 1;
  *base->outputs = gconv_header_with(like, GCONV_F32, plan->channels * plan->operation->list.outputs, true);
  fill_info(plan);
  return order->extent == GCONV_PLAN_WHOLE ? begin(plan) : GCONV_OK;
}

static const gconv_plan_type feature_plan_type = {.bytes = sizeof(feature_plan),
                                                  .free = free_plan,
                                                  .execute = execute,
                                                  .row_step = row_step,
                                                  .rows_needed = rows_needed,
                                                  .execute_rows = execute_rows,
                                                  .make_rows_there = make_rows_there,
                                                  .explain = explain,
                                                  .find_need = find_need};

/* ---- The operation ---------------------------------------------------------------------------------------------------- */

static void free_operation(gconv_operation *base) {
  feature_operation *operation = (feature_operation *)base;
  gconv_feature_list_free(&operation->list);
  gconv_column_notes_free(&operation->notes);
  free(operation);
}

static int32_t strip(const gconv_operation *base, const gconv_plan_order *order) {
  const feature_operation *operation = (const feature_operation *)base;
  const int32_t channels = operation->channels > 0 ? operation->channels : order->like->channels - order->like->alpha;
  return is_gpu(order->device) ? gconv_feature_gpu_rows(order->like, (double)channels * operation->list.outputs) : STRIP;
}

static const gconv_operation_type feature_type = {.name = "features of pixels",
                                                  .free = free_operation,
                                                  .plan_type = &feature_plan_type,
                                                  .fill_plan = fill_plan,
                                                  .strip = strip,
                                                  .shares = true};

gconv_status gconv_operation_features(const char *features, int32_t channels, gconv_operation **result) {
  GCONV_NEED(features);
  GCONV_NEED_AS(result, "operation");
  if (channels != 0 && channels != 1 && channels != 3)
    return gconv_fail(GCONV_BAD_ARGUMENT, "channels is %d: it must be 0, 1 or 3", (int)channels);
  feature_operation *operation;
  GCONV_NEW(operation, 1, "no memory for an operation");
  operation->base = (gconv_operation){&feature_type, 1, NULL};
  operation->channels = channels;
  gconv_status status = gconv_feature_list_read(features, &operation->list);
  if (status != GCONV_OK) {
    free(operation);
    return status;
  }
  *result = &operation->base;
  return GCONV_OK;
}

gconv_status gconv_features_expect(gconv_operation *base, const gconv_column_notes *notes) {
  GCONV_NEED_AS(base, "operation");
  GCONV_NEED(notes);
  feature_operation *operation = (feature_operation *)base;
  if (base->type != &feature_type)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the operation does not make features of pixels");
  if (operation->channels == 0 || !notes->means || !notes->deviations ||
      notes->count != (size_t)operation->channels * (size_t)operation->list.outputs)
    return GCONV_OK; /* older models have no notes */
  gconv_column_notes_free(&operation->notes);
  return gconv_column_notes_copy(notes, &operation->notes);
}

/* SPDX-License-Identifier: MIT */
/*
 * An operation that wraps another one, and computes with its result and a second image: the input, or an image in memory.
 * The wrapped operation makes rows of its result. Then the host combines them with the same rows of the second image.
 */
#include "base/arguments.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "base/nodata.h"
#include "base/status.h"
#include "base/threads.h"
#include "gconv_science.h"
#include "image/colour.h"
#include "operation/operation.h"

#include <math.h>
#include <string.h>

typedef struct arithmetic {
  gconv_operation base;
  gconv_arithmetic kind;
  float amount;
  gconv_image other;      /* owned: floats of one channel, or of the result's; without pixels, the input takes its place */
  gconv_operation *owner; /* NULL, or the operation that owns the pixels of `other`; this operation is one of its users */
} arithmetic;

typedef struct arithmetic_plan {
  gconv_plan base;
  gconv_image made; /* owned: the inner plan's result, if its shape is not that of the outputs; else without pixels */
  float *rows;      /* owned: [seats][2][samples] */
  uint8_t *marks;   /* owned: [seats][samples]: 1 for samples of no data */
} arithmetic_plan;

static const arithmetic *operation_of(const arithmetic_plan *plan) {
  return (const arithmetic *)plan->base.operation;
}

/* ---- The kinds -------------------------------------------------------------------------------------------------------- */

static const char *const names[] = {"add",  "subtract", "subtract_from", "multiply", "divide", "divide_into",
                                    "flat", "mix",      "max",           "min",      "hypot",  "brightness"};
enum { KINDS = sizeof names / sizeof *names };

const char *gconv_arithmetic_name(gconv_arithmetic kind) {
  return (unsigned)kind < KINDS ? names[kind] : NULL;
}

/* out = kind(x, y) of `count` samples. If x or y is NaN, out is NaN, also for max and min. */
GCONV_VECTOR_LOOP(compute,
                  (gconv_arithmetic kind, float a, const float *restrict x, const float *restrict y, float *restrict out,
                   size_t count),
                  (kind, a, x, y, out, count)) {
#define EACH(value)                                                                                                         \
  for (size_t i = 0; i < count; i++)                                                                                        \
    out[i] = value;                                                                                                         \
  break
  switch (kind) {
  case GCONV_ADD:
    EACH(x[i] + y[i]);
  case GCONV_SUBTRACT:
    EACH(x[i] - y[i]);
  case GCONV_SUBTRACT_FROM:
    EACH(y[i] - x[i]);
  case GCONV_MULTIPLY:
    EACH(x[i] * y[i]);
  case GCONV_DIVIDE:
  case GCONV_FLAT:
    EACH(x[i] / y[i]);
  case GCONV_DIVIDE_INTO:
    EACH(y[i] / x[i]);
  case GCONV_MIX:
    EACH(fmaf(a, x[i] - y[i], y[i]));
  case GCONV_MAX:
    EACH(x[i] > y[i] || isnan(x[i]) ? x[i] : y[i]);
  case GCONV_MIN:
    EACH(x[i] < y[i] || isnan(x[i]) ? x[i] : y[i]);
  case GCONV_HYPOT:
    EACH((float)sqrt((double)x[i] * (double)x[i] + (double)y[i] * (double)y[i]));
  case GCONV_BRIGHTNESS:
    EACH(y[i] + x[i]);
  }
#undef EACH
}

/* ---- Rows ------------------------------------------------------------------------------------------------------------- */

/* Rows of a result. `x` has the inner plan's rows, and may be `out`. Row 0 of `in` is row in_row of the image, and row 0 of
 * `x` and `out` is row `first`. */
typedef struct work {
  const arithmetic_plan *plan;
  const gconv_image *in, *x, *out;
  int32_t in_row, first;
} work;

/* Copies the one sample of each pixel to all channels. */
static void spread(const float *one, float *all, size_t pixels, size_t channels) {
  for (size_t i = 0; i < pixels; i++)
    for (size_t c = 0; c < channels; c++)
      all[i * channels + c] = one[i];
}

/* Returns a row of the second image as floats, in `room` or where the image has them. */
static const float *second_row(const work *w, size_t plane, int32_t row, float *room) {
  const arithmetic *a = operation_of(w->plan);
  const gconv_image *out = w->out;
  if (!a->other.data) {
    gconv_colour_to_float_row(w->in->type, gconv_row_at(w->in, plane, w->first + row - w->in_row), room,
                              gconv_samples_of(out));
    return room;
  }
  const bool one = a->other.channels == 1;
  const float *found = gconv_row_at(&a->other, 0, w->first + row);
  if (!one || out->planar || out->channels == 1)
    return found;
  spread(found, room, (size_t)out->width, (size_t)out->channels);
  return room;
}

/* For brightness: writes, for each channel, the grey of the result `x` minus the grey of the input. */
static void find_differences(const work *w, int32_t row, const float *x, float *differences) {
  const gconv_image *in = w->in;
  const size_t pixels = (size_t)in->width, channels = (size_t)in->channels, each = 1 + (size_t)in->alpha;
  float grey[2 * 256];
  for (size_t first = 0; first < pixels; first += 256) {
    const size_t count = pixels - first < 256 ? pixels - first : 256;
    const uint8_t *from =
        (const uint8_t *)gconv_row_at(in, 0, w->first + row - w->in_row) + first * channels * gconv_type_bytes(in->type);
    gconv_colour_grey_to_float_row(in->type, in->channels, in->alpha, from, grey, count);
    for (size_t i = 0; i < count; i++)
      for (size_t c = 0; c < channels; c++)
        differences[(first + i) * channels + c] = x[(first + i) * each] - grey[i * each];
  }
}

static void compute_row(const work *w, size_t plane, int32_t row, float *room, uint8_t *marks) {
  const arithmetic *a = operation_of(w->plan);
  const gconv_image *out = w->out, *in = w->in;
  const size_t samples = gconv_samples_of(out), channels = (size_t)out->channels;
  float *to = gconv_row_at(out, plane, row);
  const float *x = gconv_row_at(w->x, plane, row), *y = second_row(w, plane, row, room);
  float *result = room + samples;
  if (a->kind == GCONV_BRIGHTNESS) {
    find_differences(w, row, x, to);
    x = to;
  }
  compute(a->kind, a->amount, x, y, result, samples);
  for (size_t i = channels - 1; out->alpha && i < samples; i += channels)
    result[i] = a->kind == GCONV_BRIGHTNESS ? y[i] : x[i];
  if (out->has_nodata) {
    gconv_nodata_mark(out, x, samples, marks);
    for (size_t i = 0; i < samples; i++)
      result[i] = marks[i] ? x[i] : result[i];
    for (size_t i = 0; a->other.data && i < samples; i++)
      if (isnan(y[i])) /* no data of the second image */
        gconv_nodata_store(out, result, i);
    const void *input = gconv_row_at(in, plane, w->first + row - w->in_row);
    if (!a->other.data && gconv_nodata_mark(in, input, samples, marks))
      for (size_t i = 0; i < samples; i++)
        if (marks[i])
          gconv_nodata_store(out, result, i);
  }
  memcpy(to, result, samples * sizeof *result);
}

enum { ROWS_A_TURN = 16 };

static void compute_turn(void *context, size_t turn, int seat) {
  const work *w = context;
  const size_t turns = (size_t)(w->out->height - 1) / ROWS_A_TURN + 1, samples = gconv_samples_of(w->out);
  const int32_t first = (int32_t)(turn % turns) * ROWS_A_TURN;
  for (int32_t row = first; row < first + ROWS_A_TURN && row < w->out->height; row++)
    compute_row(w, turn / turns, row, w->plan->rows + (size_t)seat * 2 * samples, w->plan->marks + (size_t)seat * samples);
}

static void compute_rows(const work *w, gconv_timings *timings) {
  const double begin = gconv_now_ms();
  const size_t turns = (size_t)(w->out->height - 1) / ROWS_A_TURN + 1;
  gconv_threads_run(gconv_device_threads(w->plan->base.device), gconv_planes_of(w->out) * turns, compute_turn, (void *)w);
  timings->finish_ms += gconv_now_ms() - begin;
}

/* ---- Execution ------------------------------------------------------------------------------------------------------- */

/* Sets *x to an image with room for the inner plan's result: `outputs` itself, if that result has the same shape. */
static gconv_status find_room(arithmetic_plan *plan, gconv_image *outputs, gconv_image **x) {
  *x = outputs;
  if (operation_of(plan)->kind != GCONV_BRIGHTNESS)
    return GCONV_OK;
  if (plan->made.data && plan->made.height != outputs->height)
    gconv_image_free(&plan->made);
  if (!plan->made.data) {
    plan->made = gconv_header_of(&plan->base.inner->outputs[0]);
    plan->made.height = outputs->height;
    GCONV_TRY(gconv_image_allocate(&plan->made));
  }
  *x = &plan->made;
  return GCONV_OK;
}

static gconv_status execute_rows(gconv_plan *base, const gconv_image *window, int32_t window_row, int32_t first,
                                 gconv_image *outputs, gconv_timings *timings) {
  arithmetic_plan *plan = (arithmetic_plan *)base;
  gconv_image *x;
  GCONV_TRY(find_room(plan, outputs, &x));
  GCONV_TRY(gconv_plan_execute_rows(plan->base.inner, &(gconv_input_rows){window, window_row}, first, x, 1, timings));
  compute_rows(&(work){plan, window, x, outputs, window_row, first}, timings);
  return GCONV_OK;
}

static gconv_status execute(gconv_plan *base, const gconv_plan_input *in, gconv_image *outputs, gconv_timings *timings) {
  arithmetic_plan *plan = (arithmetic_plan *)base;
  gconv_image *x;
  GCONV_TRY(find_room(plan, outputs, &x));
  GCONV_TRY(gconv_image_copy_metadata(outputs, in->image));
  GCONV_TRY(plan->base.inner->type->execute(plan->base.inner, in, x, timings));
  compute_rows(&(work){plan, in->image, x, outputs, 0, 0}, timings);
  return GCONV_OK;
}

static void explain(const gconv_plan *base, FILE *text) {
  const arithmetic_plan *plan = (const arithmetic_plan *)base;
  const arithmetic *a = operation_of(plan);
  plan->base.inner->type->explain(plan->base.inner, text);
  fprintf(text, "then %s", gconv_arithmetic_name(a->kind));
  if (a->kind == GCONV_MIX)
    fprintf(text, " %g", (double)a->amount);
  fprintf(text, " with %s, in float32\n", a->other.data ? "another image" : "the input");
}

/* Computes the inner result again, and verifies it in float64. Repeats the arithmetic, and compares all bits. */
static gconv_status verify(gconv_plan *base, const gconv_image *in, const gconv_image *outputs, double tolerance,
                           double budget, gconv_verification *result) {
  arithmetic_plan *plan = (arithmetic_plan *)base;
  gconv_timings times = {0};
  GCONV_ENDED_BY(gconv_image_free) gconv_image x = gconv_header_of(&plan->base.inner->outputs[0]);
  GCONV_ENDED_BY(gconv_image_free) gconv_image again = gconv_header_of(&base->outputs[0]);
  GCONV_TRY(gconv_image_allocate(&x));
  GCONV_TRY(gconv_image_allocate(&again));
  GCONV_TRY(plan->base.inner->type->execute(plan->base.inner, &(gconv_plan_input){.image = in}, &x, &times));
  GCONV_TRY(gconv_plan_hold(plan->base.inner, in, &x, tolerance, budget, result));
  compute_rows(&(work){plan, in, &x, &again, 0, 0}, &times);
  for (size_t p = 0; p < gconv_planes_of(outputs); p++)
    for (int32_t y = 0; y < outputs->height; y++)
      if (memcmp(gconv_row_at(&again, p, y), gconv_row_at(outputs, p, y), gconv_samples_of(outputs) * sizeof(float)) != 0)
        return gconv_fail(GCONV_MISMATCH, "row %d of %s differs from a second computation", (int)y,
                          gconv_arithmetic_name(operation_of(plan)->kind));
  return GCONV_OK;
}

static void find_need(const gconv_plan *base, gconv_need *need) {
  const arithmetic_plan *plan = (const arithmetic_plan *)base;
  plan->base.inner->type->find_need(plan->base.inner, need);
  const double bytes = gconv_pixel_bytes(&plan->base.inner->outputs[0]), height = plan->base.inner->outputs[0].height;
  need->verify += 2 * bytes;
  if (operation_of(plan)->kind != GCONV_BRIGHTNESS)
    return;
  need->image += bytes;
  need->row += bytes / height;
}

/* ---- The plan -------------------------------------------------------------------------------------------------------- */

static void free_plan(gconv_plan *base) {
  arithmetic_plan *plan = (arithmetic_plan *)base;
  gconv_image_free(&plan->made);
  gconv_release(plan->rows);
  gconv_release(plan->marks);
  free(base);
}

static gconv_status check_second(const arithmetic *a, const gconv_image *result, const gconv_image *like) {
  const gconv_image *other = a->other.data ? &a->other : like;
  const char *name = gconv_arithmetic_name(a->kind), *what = a->other.data ? "the second image" : "the input";
  if (other->width != result->width || other->height != result->height)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: the result has %d x %d pixels, and %s %d x %d: both must have one size", name,
                      (int)result->width, (int)result->height, what, (int)other->width, (int)other->height);
  const bool same = other->channels == result->channels && (other->planar == result->planar || result->channels == 1);
  if (same || (a->other.data && other->channels == 1))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s: the result has %d channel%s, and %s %d: leave out --gray and the like%s", name,
                    (int)result->channels, result->channels == 1 ? "" : "s", what, (int)other->channels,
                    a->other.data ? ", or take a grey second image" : "");
}

static const gconv_plan_type arithmetic_plan_type = {.bytes = sizeof(arithmetic_plan),
                                                     .free = free_plan,
                                                     .execute = execute,
                                                     .execute_rows = execute_rows,
                                                     .explain = explain,
                                                     .verify = verify,
                                                     .find_need = find_need};

static gconv_status fill_plan(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *base) {
  const arithmetic *a = (const arithmetic *)operation;
  arithmetic_plan *plan = (arithmetic_plan *)base;
  GCONV_TRY(gconv_plan_wrap(order, operation, base));
  if (base->outputs[0].type != GCONV_F32)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: the operation before it makes %s: it must make floats",
                      gconv_arithmetic_name(a->kind), gconv_type_name(base->outputs[0].type));
  if (a->kind == GCONV_BRIGHTNESS) {
    const int colours = order->like->channels - order->like->alpha;
    if (order->like->planar || colours > 3 || base->outputs[0].channels != 1 + order->like->alpha)
      return gconv_fail(GCONV_BAD_ARGUMENT,
                        "brightness: it needs a picture without planes, and an operation that makes grey");
    base->outputs[0].channels = order->like->channels;
    base->outputs[0].row_bytes = (size_t)order->like->channels * (size_t)base->outputs[0].width * sizeof(float);
    base->outputs[0].plane_bytes = base->outputs[0].row_bytes * (size_t)base->outputs[0].height;
    base->info.out_channels = order->like->channels;
  }
  GCONV_TRY(check_second(a, &base->outputs[0], order->like));
  if (order->extent != GCONV_PLAN_WHOLE)
    return GCONV_OK;
  const size_t seats = (size_t)gconv_threads_count(gconv_device_threads(order->device));
  const size_t room[] = {seats, 2 * sizeof(float), gconv_samples_of(&base->outputs[0])};
  const size_t marks[] = {seats, gconv_samples_of(&base->outputs[0])};
  GCONV_TRY(gconv_allocate(gconv_checked_product(3, room), "rows of an image", (void **)&plan->rows));
  return gconv_allocate(gconv_checked_product(2, marks), "rows of an image", (void **)&plan->marks);
}

/* ---- The operation --------------------------------------------------------------------------------------------------- */

static void free_arithmetic(gconv_operation *base) {
  arithmetic *a = (arithmetic *)base;
  if (a->owner)
    gconv_operation_free(a->owner);
  else
    gconv_image_free(&a->other);
  free(a);
}

static double other_bytes(const gconv_operation *base) {
  const arithmetic *a = (const arithmetic *)base;
  return gconv_operation_held_bytes(base->inner) + (a->other.data ? gconv_pixel_bytes(&a->other) : 0);
}

static gconv_status keep_exact(const gconv_operation *base, gconv_operation **exact);

static const gconv_operation_type arithmetic_type = {.name = "arithmetic between images",
                                                     .free = free_arithmetic,
                                                     .held_bytes = other_bytes,
                                                     .plan_type = &arithmetic_plan_type,
                                                     .minds_nodata = true,
                                                     .fill_plan = fill_plan,
                                                     .keep_exact = keep_exact};

/* Makes the operation. Takes over `inner` and, if there is no owner, the second image, even if it fails. */
static gconv_status make(const arithmetic *like, gconv_operation *inner, gconv_operation *owner, gconv_operation **result) {
  arithmetic *a = calloc(1, sizeof *a);
  if (!a) {
    gconv_image gone = like->other;
    gconv_operation_free(inner);
    if (!owner)
      gconv_image_free(&gone);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for an operation");
  }
  *a = *like;
  a->base = (gconv_operation){&arithmetic_type, 1, inner};
  a->owner = owner ? gconv_operation_share(owner) : NULL;
  *result = &a->base;
  return GCONV_OK;
}

static gconv_status keep_exact(const gconv_operation *base, gconv_operation **exact) {
  const arithmetic *a = (const arithmetic *)base;
  gconv_operation *inner = NULL;
  GCONV_TRY(gconv_operation_keep_exact(base->inner, &inner));
  return !inner ? GCONV_OK : make(a, inner, (gconv_operation *)base, exact);
}

/* Divides the image by the mean of each channel, of which NaN is no part. */
static gconv_status make_flat(gconv_image *image) {
  const size_t channels = (size_t)image->channels, samples = (size_t)image->width * channels;
  for (size_t c = 0; c < channels; c++) {
    double sum = 0, count = 0;
    for (int32_t y = 0; y < image->height; y++)
      for (size_t i = c; i < samples; i += channels) {
        const float sample = ((const float *)gconv_row_at(image, 0, y))[i];
        sum += isnan(sample) ? 0 : (double)sample;
        count += !isnan(sample);
      }
    const double mean = sum / count;
    if (!(mean > 0 && isfinite(mean)))
      return gconv_fail(GCONV_BAD_ARGUMENT, "flat: channel %zu of the second image has the mean %g: a flat field is bright",
                        c + 1, mean);
    for (int32_t y = 0; y < image->height; y++)
      for (size_t i = c; i < samples; i += channels)
        ((float *)gconv_row_at(image, 0, y))[i] /= (float)mean;
  }
  return GCONV_OK;
}

/* Sets *other to the second image as floats, which are divided by their mean for GCONV_FLAT. */
static gconv_status take_other(gconv_arithmetic kind, const gconv_image *from, gconv_image *other) {
  GCONV_TRY(gconv_check_source(from, "the second image"));
  GCONV_TRY(gconv_check_pixels(from, "the second image"));
  if (from->frames != 1 || (from->planar && from->channels > 1))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: the second image has %d frames%s: it is one picture, pixel by pixel",
                      gconv_arithmetic_name(kind), (int)from->frames, from->planar ? " and planes" : "");
  GCONV_ENDED_BY(gconv_image_free)
  gconv_image made = {
      .type = GCONV_F32, .frames = 1, .height = from->height, .width = from->width, .channels = from->channels};
  GCONV_TRY(gconv_image_allocate(&made));
  GCONV_FREED uint8_t *marks = calloc(gconv_samples_of(&made), 1);
  bool any = false;
  GCONV_NEED_MEMORY(marks, "no memory for a row");
  for (int32_t y = 0; y < made.height; y++) {
    float *row = gconv_row_at(&made, 0, y);
    gconv_colour_to_float_row(from->type, gconv_row_at(from, 0, y), row, gconv_samples_of(&made));
    const bool missing =
        from->has_nodata && gconv_nodata_mark(from, gconv_row_at(from, 0, y), gconv_samples_of(&made), marks);
    for (size_t i = 0; missing && i < gconv_samples_of(&made); i++)
      row[i] = marks[i] ? NAN : row[i];
    any |= missing;
  }
  if (any)
    gconv_warn("%s: where the second image has no data, results have none: NaN or their number of no data; of integers "
               "that have no such number, black",
               gconv_arithmetic_name(kind));
  if (kind == GCONV_FLAT)
    GCONV_TRY(make_flat(&made));
  *other = made;
  made = (gconv_image){0};
  return GCONV_OK;
}

gconv_status gconv_operation_arithmetic(gconv_operation *operation, gconv_arithmetic kind, double amount,
                                        const gconv_image *other, gconv_operation **result) {
  GCONV_NEED(operation, result);
  arithmetic a = {.kind = kind, .amount = (float)amount};
  if (!gconv_arithmetic_name(kind))
    return gconv_fail(GCONV_BAD_ARGUMENT, "kind: there is no arithmetic of the number %d", (int)kind);
  if (!isfinite((float)amount))
    return gconv_fail(GCONV_BAD_ARGUMENT, "amount: %g is no finite number", amount);
  if (gconv_operation_outputs(operation) != 1)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: the operation before it makes %zu images of one: combine them",
                      gconv_arithmetic_name(kind), gconv_operation_outputs(operation));
  if (kind == GCONV_BRIGHTNESS && other)
    return gconv_fail(GCONV_BAD_ARGUMENT, "brightness: it takes no second image");
  if (kind == GCONV_FLAT && !other)
    return gconv_fail(GCONV_BAD_ARGUMENT, "flat: name the picture of a flat field");
  if (other)
    GCONV_TRY(take_other(kind, other, &a.other));
  return make(&a, gconv_operation_share(operation), NULL, result);
}

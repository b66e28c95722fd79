/* SPDX-License-Identifier: MIT */
/*
 * An operation that wraps another one, and limits it to a rectangle or by a mask. The wrapped operation makes its result.
 * Then the result is blended with the input on the host.
 *
 * By rows, only the rows of the rectangle are made; all others are copies of the input.
 */
#include "base/arguments.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/element.h"
#include "base/memory.h"
#include "base/nodata.h"
#include "base/status.h"
#include "base/threads.h"
#include "image/colour.h"
#include "operation/losses.h"
#include "operation/verify.h"

#include <math.h>
#include <string.h>

typedef struct within {
  gconv_operation base;
  gconv_area area;        /* its mask is not used */
  gconv_image mask;       /* owned: one channel of weights; without pixels if there is no mask */
  gconv_operation *owner; /* NULL, or the operation that owns the mask's pixels; this operation is one of its users */
  bool warned;            /* a warning said that the rectangle reaches beyond an image; changed atomically */
} within;

typedef struct within_plan {
  gconv_plan base;
  gconv_scope scope; /* clipped to the image */
} within_plan;

/* ---- Weights --------------------------------------------------------------------------------------------------------- */

/* Stores the weights of a row. `grey` has a grey sample for each pixel, followed by alpha if there is one. A weight is the
 * grey sample times alpha. Returns false if a sample is not from 0 to 1. */
static bool store_weights(gconv_type type, bool alpha, const void *grey, void *weights, size_t pixels) {
  double white = gconv_level_of_white(type);
  for (size_t i = 0; i < pixels; i++) {
    double weight = gconv_stored_at(type, grey, alpha ? 2 * i : i);
    double opacity = alpha ? gconv_stored_at(type, grey, 2 * i + 1) : white;
    if (!(weight >= 0 && weight <= white && opacity >= 0 && opacity <= white))
      return false;
    gconv_store_at(type, weights, i, weight * opacity / white);
  }
  return true;
}

static gconv_status check_mask(const gconv_image *mask) {
  if (mask->frames != 1 || (mask->planar && mask->channels > 1) || mask->channels > 4)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "a mask of %d frames and %d channels: it is one picture, grey or in colour, with or without alpha",
                      (int)mask->frames, (int)mask->channels);
  int32_t colours = mask->channels - mask->alpha;
  if (colours != 1 && colours != 3)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a mask of %d channels%s: it is grey or RGB, with or without alpha",
                      (int)mask->channels, mask->alpha ? " with alpha" : ", none of which is alpha");
  return GCONV_OK;
}

/* Makes *weights, of one channel: the grey of the mask times its alpha. */
static gconv_status make_weights(const gconv_image *mask, gconv_image *weights) {
  GCONV_ENDED_BY(gconv_image_free)
  gconv_image made = {.type = mask->type, .frames = 1, .height = mask->height, .width = mask->width, .channels = 1};
  GCONV_TRY(check_mask(mask));
  GCONV_TRY(gconv_image_allocate(&made));
  size_t pixels = (size_t)mask->width;
  GCONV_FREED void *grey = malloc(pixels * 2 * gconv_type_bytes(mask->type));
  GCONV_NEED_MEMORY(grey, "no memory for a mask");
  for (int32_t y = 0; y < mask->height; y++) {
    gconv_colour_grey_row(mask->type, mask->channels, mask->alpha, gconv_row_at(mask, 0, y), grey, pixels);
    if (!store_weights(mask->type, mask->alpha, grey, gconv_row_at(&made, 0, y), pixels))
      return gconv_fail(GCONV_BAD_ARGUMENT, "row %d of the mask has a sample that is not from 0 to 1", (int)y);
  }
  *weights = made;
  made = (gconv_image){0};
  return GCONV_OK;
}

/* ---- The operation --------------------------------------------------------------------------------------------------- */

static void free_within(gconv_operation *base) {
  within *w = (within *)base;
  if (w->owner)
    gconv_operation_free(w->owner);
  else
    gconv_image_free(&w->mask);
  free(w);
}

static double mask_bytes(const gconv_operation *base) {
  const within *w = (const within *)base;
  return gconv_operation_held_bytes(base->inner) + (w->mask.data ? gconv_pixel_bytes(&w->mask) : 0);
}

static int host_stages(const gconv_operation *base) {
  return GCONV_HOST_BEFORE | GCONV_HOST_AFTER; /* the blend needs the input's pixels */
}

/* ---- The blend ------------------------------------------------------------------------------------------------------- */

enum { ROWS_A_TURN = 16 };

/* A row that is blended: `count` pixels of `channels` samples. */
typedef struct pixels {
  const void *weights, *in;
  void *out;
  size_t channels, count;
} pixels;

/* At weight 0 the output gets the bits of the input, at white it keeps the bits of the result. For integers the weighted sum
 * yields exactly these bits. For floats it does not, so floats are copied or left. Both types are constants wherever this
 * function is inlined. */
GCONV_INLINE void blend_samples(gconv_type type, gconv_type mask, const pixels *p) {
  const double white = gconv_level_of_white(mask);
  for (size_t i = 0, k = 0; i < p->count; i++) {
    double weight = gconv_stored_at(mask, p->weights, i), rest = white - weight;
    for (size_t end = k + p->channels; k < end; k++) {
      double applied = gconv_stored_at(type, p->out, k), input = gconv_stored_at(type, p->in, k);
      double sum = (weight * applied + rest * input) / white;
      if (type != GCONV_F32)
        gconv_store_at(type, p->out, k, sum);
      else if (weight == 0)
        ((float *)p->out)[k] = ((const float *)p->in)[k];
      else if (weight != white)
        gconv_store_at(type, p->out, k, sum);
    }
  }
}

GCONV_INLINE void blend_type(gconv_type type, gconv_type mask, const pixels *p) {
  if (mask == GCONV_U8)
    blend_samples(type, GCONV_U8, p);
  else if (mask == GCONV_U16)
    blend_samples(type, GCONV_U16, p);
  else
    blend_samples(type, GCONV_F32, p);
}

GCONV_VECTOR_LOOP(blend_pixels, (gconv_type type, gconv_type mask, const pixels *p), (type, mask, p)) {
  if (type == GCONV_U8)
    blend_type(GCONV_U8, mask, p);
  else if (type == GCONV_U16)
    blend_type(GCONV_U16, mask, p);
  else
    blend_type(GCONV_F32, mask, p);
}

/* Rows of a result. `out` first has the inner operation's rows within the rectangle, and is then blended with `in`. */
typedef struct blend {
  const within_plan *plan;
  const gconv_image *in, *out;
  int32_t in_row, out_row; /* the rows of the image with which `in` and `out` begin */
} blend;

/* Blends as blend_samples() does, for images in which a number stands for no data. If the weight is not 0, and the input or
 * the result is no data, the blend is no data. */
static void blend_around_nodata(const gconv_image *image, gconv_type mask, const pixels *p) {
  const double white = gconv_level_of_white(mask);
  for (size_t i = 0, k = 0; i < p->count; i++)
    for (size_t end = k + p->channels; k < end; k++) {
      double weight = gconv_stored_at(mask, p->weights, i) / white, applied = gconv_stored_at(image->type, p->out, k);
      double input = gconv_stored_at(image->type, p->in, k), none = image->nodata;
      bool is_none = applied == none || input == none || (isnan(none) && (isnan(applied) || isnan(input)));
      if (weight == 0)
        gconv_store_at(image->type, p->out, k, input);
      else if (is_none)
        gconv_nodata_store(image, p->out, k);
      else if (weight < 1)
        gconv_store_at(image->type, p->out, k, weight * applied + (1 - weight) * input);
    }
}

static void blend_row(const blend *b, size_t plane, int32_t row) {
  const gconv_scope *inside = &b->plan->scope;
  const gconv_image *in = b->in, *out = b->out, *mask = inside->mask;
  size_t channels = out->planar ? 1 : (size_t)out->channels, pixel = channels * gconv_type_bytes(out->type);
  const uint8_t *from = gconv_row_at(in, plane, b->out_row + row - b->in_row);
  uint8_t *to = gconv_row_at(out, plane, row);
  int32_t y = b->out_row + row;
  size_t left = (size_t)inside->left * pixel, right = (size_t)inside->right * pixel, end = (size_t)out->width * pixel;
  if (y < inside->top || y >= inside->bottom) {
    memcpy(to, from, end);
    return;
  }
  memcpy(to, from, left);
  memcpy(to + right, from + right, end - right);
  if (!mask)
    return;
  pixels part = {.weights = (const uint8_t *)gconv_row_at(mask, 0, y) + (size_t)inside->left * gconv_type_bytes(mask->type),
                 .in = from + left,
                 .out = to + left,
                 .channels = channels,
                 .count = (size_t)(inside->right - inside->left)};
  if (b->plan->base.like.has_nodata)
    blend_around_nodata(&b->plan->base.like, mask->type, &part);
  else
    blend_pixels(out->type, mask->type, &part);
}

static int32_t turns_of(const gconv_image *image) {
  return (image->height - 1) / ROWS_A_TURN + 1;
}

static void blend_turn(void *context, size_t turn, int seat) {
  const blend *b = context;
  size_t turns = (size_t)turns_of(b->out);
  int32_t first = (int32_t)(turn % turns) * ROWS_A_TURN;
  for (int32_t row = first; row < first + ROWS_A_TURN && row < b->out->height; row++)
    blend_row(b, turn / turns, row);
}

static void blend_rows(const blend *b, gconv_timings *timings) {
  double begin = gconv_now_ms();
  gconv_threads_run(gconv_device_threads(b->plan->base.device), gconv_planes_of(b->out) * (size_t)turns_of(b->out),
                    blend_turn, (void *)b);
  timings->finish_ms += gconv_now_ms() - begin;
}

/* ---- Execution ------------------------------------------------------------------------------------------------------- */

static gconv_status execute_rows(gconv_plan *base, const gconv_image *window, int32_t window_row, int32_t first,
                                 gconv_image *outputs, gconv_timings *timings) {
  const within_plan *plan = (const within_plan *)base;
  int32_t begin = plan->scope.top > first ? plan->scope.top - first : 0, end = plan->scope.bottom - first;
  end = end < outputs->height ? end : outputs->height;
  begin -= begin % gconv_plan_row_step(base); /* strips begin at multiples of the step; `first` is one */
  if (begin < end) {
    gconv_image part = *outputs;
    part.data = gconv_row_at(outputs, 0, begin);
    part.height = end - begin;
    GCONV_TRY(
        gconv_plan_execute_rows(base->inner, &(gconv_input_rows){window, window_row}, first + begin, &part, 1, timings));
  }
  blend_rows(&(blend){plan, window, outputs, window_row, first}, timings);
  return GCONV_OK;
}

static gconv_status execute(gconv_plan *base, const gconv_plan_input *in, gconv_image *outputs, gconv_timings *timings) {
  const within_plan *plan = (const within_plan *)base;
  bool some_rows = plan->scope.bottom - plan->scope.top < base->like.height;
  if (some_rows && gconv_plan_row_step(base) > 0) {
    GCONV_TRY(gconv_image_copy_metadata(outputs, in->image));
    return execute_rows(base, in->image, 0, 0, outputs, timings);
  }
  GCONV_TRY(base->inner->type->execute(base->inner, in, outputs, timings));
  blend_rows(&(blend){plan, in->image, outputs, 0, 0}, timings);
  return GCONV_OK;
}

static gconv_status measure(gconv_plan *base, const gconv_image *in, gconv_image *outputs, int runs, double *milliseconds) {
  const within_plan *plan = (const within_plan *)base;
  gconv_timings times = {0};
  GCONV_TRY(gconv_plan_measure(base->inner, in, outputs, runs, milliseconds));
  blend_rows(&(blend){plan, in, outputs, 0, 0}, &times);
  return GCONV_OK;
}

/* ---- Verification and explanation ------------------------------------------------------------------------------------- */

static void explain(const gconv_plan *base, FILE *text) {
  const within_plan *plan = (const within_plan *)base;
  const gconv_scope *r = &plan->scope;
  fprintf(text, "only within %d x %d pixels from column %d, row %d on%s: all others are the input's\n", r->right - r->left,
          r->bottom - r->top, r->left, r->top, plan->scope.mask ? ", as far as the mask says" : "");
  base->inner->type->explain(base->inner, text);
}

/* The inner plan compares blended samples with float64, and all other samples with the input. */
static gconv_status verify(gconv_plan *base, const gconv_image *in, const gconv_image *outputs, double tolerance,
                           double budget, gconv_verification *result) {
  within_plan *plan = (within_plan *)base;
  plan->scope.input = in;
  gconv_status status = gconv_plan_hold(base->inner, in, outputs, tolerance, budget, result);
  plan->scope.input = NULL;
  return status;
}

static void find_need(const gconv_plan *base, gconv_need *need) {
  base->inner->type->find_need(base->inner, need);
}

/* ---- The plan -------------------------------------------------------------------------------------------------------- */

static gconv_status check_count(size_t outputs) {
  if (outputs == 1)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "within a region or by a mask, one image becomes one, and here it becomes %zu: name one filter, or "
                    "combine them (--combine)",
                    outputs);
}

static void print_shape(const gconv_image *image, char text[96]) {
  snprintf(text, 96, "%d x %d, %d channel%s%s, %s", (int)image->width, (int)image->height, (int)image->channels,
           image->channels == 1 ? "" : "s", image->frames > 1 ? ", several frames" : "", gconv_type_name(image->type));
}

static gconv_status check_result(const gconv_plan *inner, const gconv_image *like) {
  char is[96], was[96];
  GCONV_TRY(check_count(inner->output_count));
  if (gconv_image_same_shape(&inner->outputs[0], like))
    return GCONV_OK;
  print_shape(&inner->outputs[0], is);
  print_shape(like, was);
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "within a region or by a mask, the rest of the image stays: so the result must have its size, channels "
                    "and type (%s), and here it has others (%s): leave out options that change them (--padding, --stride, "
                    "--gray, --alpha drop, --depth), and choose a format that holds them",
                    was, is);
}

static gconv_status check_mask_size(const gconv_image *mask, const gconv_image *like) {
  if (mask->width == like->width && mask->height == like->height)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "the mask has %d x %d pixels, and the image %d x %d: a mask has the size of its image", (int)mask->width,
                    (int)mask->height, (int)like->width, (int)like->height);
}

/* "100x80+10-20" */
static void print_area(const gconv_area *area, char text[64]) {
  snprintf(text, 64, "%dx%d%+d%+d", (int)area->width, (int)area->height, (int)area->x, (int)area->y);
}

static int32_t clip(int64_t at, int32_t most) {
  return at < 0 ? 0 : at > most ? most : (int32_t)at;
}

static gconv_status clip_area(within *w, const gconv_image *like, bool warns, gconv_scope *inside) {
  const gconv_area *area = &w->area;
  *inside = (gconv_scope){.right = like->width, .bottom = like->height};
  if (area->width == 0)
    return GCONV_OK;
  char text[64];
  print_area(area, text);
  *inside = (gconv_scope){.left = clip(area->x, like->width),
                          .top = clip(area->y, like->height),
                          .right = clip((int64_t)area->x + area->width, like->width),
                          .bottom = clip((int64_t)area->y + area->height, like->height)};
  int32_t width = inside->right - inside->left, height = inside->bottom - inside->top;
  if (width <= 0 || height <= 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the region %s lies outside the image, which has %d x %d pixels", text,
                      (int)like->width, (int)like->height);
  if (warns && (width < area->width || height < area->height) && !__atomic_exchange_n(&w->warned, true, __ATOMIC_RELAXED))
    gconv_warn("the region %s reaches beyond an image of %d x %d pixels: %d x %d of it are filtered there", text,
               (int)like->width, (int)like->height, (int)width, (int)height);
  return GCONV_OK;
}

static const gconv_plan_type within_plan_type = {.bytes = sizeof(within_plan),
                                                 .execute = execute,
                                                 .execute_rows = execute_rows,
                                                 .measure = measure,
                                                 .explain = explain,
                                                 .verify = verify,
                                                 .find_need = find_need};

static gconv_status fill_plan(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *base) {
  within *w = (within *)operation;
  within_plan *plan = (within_plan *)base;
  if (w->mask.data)
    GCONV_TRY(check_mask_size(&w->mask, order->like));
  GCONV_TRY(clip_area(w, order->like, order->extent == GCONV_PLAN_WHOLE, &plan->scope));
  plan->scope.mask = w->mask.data ? &w->mask : NULL;
  GCONV_TRY(gconv_plan_wrap(order, operation, base));
  base->last = base->inner;
  gconv_plan_set_scope(base->inner, &plan->scope);
  return check_result(base->inner, &base->like);
}

static gconv_status keep_exact(const gconv_operation *base, gconv_operation **exact);

static const gconv_operation_type within_type = {.name = "filters within a region or by a mask",
                                                 .free = free_within,
                                                 .held_bytes = mask_bytes,
                                                 .plan_type = &within_plan_type,
                                                 .minds_nodata = true,
                                                 .fill_plan = fill_plan,
                                                 .keep_exact = keep_exact,
                                                 .host_stages = host_stages};

/* Makes the operation. Takes over `inner` and, if there is no owner, the mask, even if it fails. */
static gconv_status make(gconv_operation *inner, const gconv_area *area, const gconv_image *mask, gconv_operation *owner,
                         gconv_operation **result) {
  within *w = calloc(1, sizeof *w);
  if (!w) {
    gconv_image gone = *mask;
    gconv_operation_free(inner);
    if (!owner)
      gconv_image_free(&gone);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for an operation");
  }
  *w = (within){.base = {&within_type, 1, inner}, .area = *area, .mask = *mask};
  w->owner = owner ? gconv_operation_share(owner) : NULL;
  *result = &w->base;
  return GCONV_OK;
}

static gconv_status keep_exact(const gconv_operation *base, gconv_operation **exact) {
  const within *w = (const within *)base;
  gconv_operation *inner = NULL;
  GCONV_TRY(gconv_operation_keep_exact(base->inner, &inner));
  return !inner ? GCONV_OK : make(inner, &w->area, &w->mask, (gconv_operation *)base, exact);
}

gconv_status gconv_operation_within(gconv_operation *operation, const gconv_area *area, gconv_operation **result) {
  gconv_image mask = {0};
  GCONV_NEED(operation, area, result);
  GCONV_NEED_KNOWN(area);
  if (area->mask)
    GCONV_TRY(gconv_check_source(area->mask, "the mask"));
  if (area->mask)
    GCONV_TRY(gconv_check_pixels(area->mask, "the mask"));
  if (area->width < 0 || area->height < 0 || (area->width == 0) != (area->height == 0))
    return gconv_fail(GCONV_BAD_ARGUMENT, "a region of %d x %d pixels: it has at least one", (int)area->width,
                      (int)area->height);
  GCONV_TRY(check_count(gconv_operation_outputs(operation)));
  if (area->mask)
    GCONV_TRY(make_weights(area->mask, &mask));
  return make(gconv_operation_share(operation), area, &mask, NULL, result);
}

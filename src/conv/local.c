/* SPDX-License-Identifier: MIT */
/*
 * Local statistics: variance, standard deviation and contrast of the samples in a window around each pixel.
 *
 * The variance of n samples is (sum d^2 - (sum d)^2 / n) / n for d = x - c and any c. If c is far from the samples, the
 * difference loses digits. So c is a sample nearby, the same for a tile of a row. Sums are float64: first down the columns
 * of a window, then along them. Each row is computed anew, because running sums would keep the rounding errors of bright
 * stars that have left the window.
 */
#include "base/arguments.h"
#include "base/clock.h"
#include "base/control.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "base/nodata.h"
#include "conv/plan.h"
#include "gconv_science.h"
#include "kernels/border.h"
#include "operation/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TILE = 64 /* results of a row that share c, at least */ };

typedef struct local {
  gconv_operation base;
  gconv_statistic statistic;
  int32_t rows, columns;
  gconv_options options;
} local;

typedef struct local_plan {
  gconv_plan base;
  const local *of;
  gconv_image source; /* header of the input, with the user's number for no data */
  gconv_epilogue epilogue;
  double unit;   /* statistics are multiplied by it before the epilogue */
  size_t room;   /* columns under a tile */
  double *rooms; /* owned; for each thread: [4][room], [3][tile] */
  int32_t tile;  /* results of a tile */
} local_plan;

/* Rows of a result: row 0 of `in` is row in_row of the image, row 0 of `out` is row `first`. */
typedef struct work {
  const local_plan *plan;
  const gconv_image *in, *out;
  int32_t in_row, first;
} work;

/* ---- Samples --------------------------------------------------------------------------------------------------------- */

static gconv_border border_of(const local *l) {
  return l->options.border == GCONV_BORDER_NORMALIZE ? GCONV_BORDER_ZERO : l->options.border;
}

/* Returns the alpha of the pixel under a result, in levels of results. Alpha is never no data. */
static double find_alpha(const work *w, size_t frame, int64_t y, int64_t x) {
  const gconv_image *in = w->in;
  const gconv_options *o = &w->plan->of->options;
  const void *row = gconv_row_at(in, frame, y * o->stride_y - w->in_row);
  const size_t channels = (size_t)in->channels;
  return gconv_stored_at(in->type, row, ((size_t)(x * o->stride_x) + 1) * channels - 1) *
         (double)w->plan->epilogue.alpha_scale;
}

/* Loads `count` samples of a channel as float64, from column x on. Samples that are left out become NaN. */
static void load_row(const work *w, size_t plane, size_t channel, int64_t y, int64_t x, size_t count, double *to) {
  const local *l = w->plan->of;
  const gconv_image *in = w->in, *source = &w->plan->source;
  const int64_t at_y = gconv_border_index(border_of(l), y, w->plan->base.like.height);
  const size_t step = in->planar ? 1 : (size_t)in->channels;
  const void *row = gconv_row_at(in, plane, at_y == GCONV_OUTSIDE ? 0 : at_y - w->in_row);
  const double outside =
      l->options.border == GCONV_BORDER_NORMALIZE ? (double)NAN : l->options.border_value * (double)gconv_white(in->type);
  const double none = source->has_nodata ? source->nodata : (double)NAN;
  const bool keeps = l->options.nan == GCONV_NAN_KEEP;
  for (size_t k = 0; k < count; k++) {
    int64_t at_x = x + (int64_t)k;
    if (at_x < 0 || at_x >= in->width)
      at_x = gconv_border_index(border_of(l), at_x, in->width);
    if (at_y == GCONV_OUTSIDE || at_x == GCONV_OUTSIDE) {
      to[k] = outside;
      continue;
    }
    const size_t i = (size_t)at_x * step + channel;
    const double v = gconv_stored_at(in->type, row, i);
    const bool is_none = source->has_nodata && (v == none || (isnan(v) && isnan(none)));
    to[k] = is_none || (!keeps && !isfinite(v)) ? (double)NAN : isnan(v) ? INFINITY : v; /* sums of an infinity become NaN */
  }
}

GCONV_VECTOR_LOOP(add_row, (const double *v, double c, size_t count, double *n, double *sum, double *squares),
                  (v, c, count, n, sum, squares)) {
  for (size_t i = 0; i < count; i++) {
    const double there = v[i] == v[i] ? 1 : 0, d = there > 0 ? v[i] - c : 0;
    n[i] += there;
    sum[i] += d;
    squares[i] += d * d;
  }
}

GCONV_VECTOR_LOOP(add_columns, (const double *of, size_t columns, size_t stride, size_t count, double *to),
                  (of, columns, stride, count, to)) {
  for (size_t i = 0; i < count; i++)
    to[i] = of[i * stride];
  for (size_t s = 1; s < columns; s++)
    for (size_t i = 0; i < count; i++)
      to[i] += of[i * stride + s];
}

/* Returns the statistic of n samples, from `sum`, their sum of v - c, and `squares`, their sum of (v - c)^2. x is v - c of
 * the sample in the middle. */
static double find_statistic(gconv_statistic statistic, double n, double sum, double squares, double x) {
  const double mean = sum / n, variance = (squares - sum * mean) / n;
  const double std = variance > 0 ? sqrt(variance) : variance - variance; /* NaN stays */
  return statistic == GCONV_VARIANCE ? std * std : statistic == GCONV_STD ? std : std == 0 ? 0 : (x - mean) / std;
}

/* ---- Rows ------------------------------------------------------------------------------------------------------------ */

static void store(const work *w, size_t plane, size_t channel, int64_t y, int64_t x, double value) {
  const gconv_image *out = w->out;
  void *row = gconv_row_at(out, plane, y - w->first);
  const size_t i = (size_t)x * (out->planar ? 1 : (size_t)out->channels) + channel;
  if (isnan(value) && out->has_nodata)
    gconv_nodata_store(out, row, i);
  else
    gconv_store_sample(out->type, gconv_finish((float)value, &w->plan->epilogue), row, i);
}

static void make_tile(const work *w, size_t plane, size_t channel, int64_t y, int64_t x, double *room) {
  const local_plan *plan = w->plan;
  const local *l = plan->of;
  const gconv_options *o = &l->options;
  const size_t count = (size_t)(w->out->width - x < plan->tile ? w->out->width - x : plan->tile);
  const size_t under = (count - 1) * (size_t)o->stride_x + (size_t)l->columns, tile = (size_t)plan->tile;
  double *v = room, *columns[3] = {room + plan->room, room + 2 * plan->room, room + 3 * plan->room};
  double *sums[3] = {room + 4 * plan->room, room + 4 * plan->room + tile, room + 4 * plan->room + 2 * tile};
  const int64_t left = x * o->stride_x - l->columns / 2;
  double c;
  load_row(w, plane, channel, y * o->stride_y, x * o->stride_x, 1, &c);
  c = isfinite(c) ? c : 0;
  memset(columns[0], 0, 3 * plan->room * sizeof(double));
  for (int32_t r = 0; r < l->rows; r++) {
    load_row(w, plane, channel, y * o->stride_y + r - l->rows / 2, left, under, v);
    add_row(v, c, under, columns[0], columns[1], columns[2]);
  }
  for (size_t k = 0; k < 3; k++)
    add_columns(columns[k], (size_t)l->columns, (size_t)o->stride_x, count, sums[k]);
  load_row(w, plane, channel, y * o->stride_y, left, under, v);
  for (size_t i = 0; i < count; i++) {
    const double middle = v[i * (size_t)o->stride_x + (size_t)(l->columns / 2)];
    const bool gone = isnan(middle) && (o->preserves || o->nan == GCONV_NAN_SKIP || l->statistic == GCONV_CONTRAST);
    const double value = gone ? (double)NAN : find_statistic(l->statistic, sums[0][i], sums[1][i], sums[2][i], middle - c);
    store(w, plane, channel, y, x + (int64_t)i, isnan(value) ? value : value * plan->unit);
  }
}

static void make_row(void *context, size_t turn, int seat) {
  const work *w = context;
  const gconv_image *in = &w->plan->base.like, *out = w->out;
  const size_t height = (size_t)out->height, plane = turn / height;
  const int64_t y = w->first + (int64_t)(turn % height);
  double *room = w->plan->rooms + (size_t)seat * (4 * w->plan->room + 3 * (size_t)w->plan->tile);
  for (size_t c = 0; c < (in->planar ? 1 : (size_t)out->channels); c++)
    for (int64_t x = 0; x < out->width; x += w->plan->tile)
      if (in->alpha && c + 1 == (size_t)in->channels) /* alpha is copied */
        for (int64_t i = x; i < x + w->plan->tile && i < out->width; i++) {
          void *row = gconv_row_at(out, plane, y - w->first);
          gconv_store_sample(out->type, (float)find_alpha(w, plane, y, i), row, (size_t)i * (size_t)out->channels + c);
        }
      else
        make_tile(w, plane, c, y, x, room);
}

static gconv_status run(const work *w, gconv_timings *timings) {
  const double begin = gconv_now_ms();
  gconv_threads_run_or_stop(gconv_device_threads(w->plan->base.device), gconv_planes_of(w->out) * (size_t)w->out->height,
                            make_row, (void *)w);
  timings->kernel_ms += gconv_now_ms() - begin;
  return gconv_control_check();
}

/* ---- The plan -------------------------------------------------------------------------------------------------------- */

static gconv_status execute(gconv_plan *base, const gconv_plan_input *in, gconv_image *outputs, gconv_timings *timings) {
  GCONV_TRY(gconv_image_copy_metadata(outputs, in->image));
  return run(&(work){(local_plan *)base, in->image, outputs, 0, 0}, timings);
}

static gconv_status execute_rows(gconv_plan *base, const gconv_image *window, int32_t window_row, int32_t first,
                                 gconv_image *outputs, gconv_timings *timings) {
  return run(&(work){(local_plan *)base, window, outputs, window_row, first}, timings);
}

static int32_t row_step(const gconv_plan *base) {
  return ((const local_plan *)base)->of->options.border == GCONV_BORDER_WRAP ? 0 : 1;
}

static void rows_needed(const gconv_plan *base, int32_t first, int32_t count, int32_t *begin, int32_t *end) {
  const local *l = ((const local_plan *)base)->of;
  const int64_t from = (int64_t)first * l->options.stride_y - l->rows / 2;
  const int64_t to = (int64_t)(first + count - 1) * l->options.stride_y - l->rows / 2 + l->rows;
  *begin = base->like.height;
  *end = 0;
  for (int64_t y = from; y < to; y++) {
    const int64_t at = gconv_border_index(border_of(l), y, base->like.height);
    *begin = at != GCONV_OUTSIDE && at < *begin ? (int32_t)at : *begin;
    *end = at != GCONV_OUTSIDE && at >= *end ? (int32_t)at + 1 : *end;
  }
}

static void explain(const gconv_plan *base, FILE *text) {
  const local *l = ((const local_plan *)base)->of;
  fprintf(text, "%s of %d x %d samples, of sums in float64\n", gconv_statistic_name(l->statistic), l->rows, l->columns);
}

/* Computes a result by the definition: the mean first, then the squares of differences. */
static gconv_expectation expect(const void *context, const gconv_sample_place *at, double got) {
  const work *w = context;
  const local *l = w->plan->of;
  const gconv_options *o = &l->options;
  const gconv_image *in = w->in;
  const gconv_epilogue *e = &w->plan->epilogue;
  const size_t plane = in->planar ? (size_t)at->frame * (size_t)in->channels + (size_t)at->channel : (size_t)at->frame;
  const size_t channel = in->planar ? 0 : (size_t)at->channel;
  double n = 0, mean = 0, squares = 0, largest = 0, v, middle;
  if (in->alpha && at->channel + 1 == in->channels) {
    const double alpha = find_alpha(w, plane, at->y, at->x);
    return w->out->type == GCONV_F32
               ? (gconv_expectation){alpha, fabs(alpha) * 0x1p-22}
               : (gconv_expectation){isnan(alpha) ? 0 : fmin(fmax(alpha, 0), (double)gconv_white(w->out->type)), 0.51};
  }
  for (int pass = 0; pass < 2; pass++) {
    for (int32_t i = 0; i < l->rows * l->columns; i++) {
      const int64_t y = (int64_t)at->y * o->stride_y + i / l->columns - l->rows / 2;
      load_row(w, plane, channel, y, (int64_t)at->x * o->stride_x + i % l->columns - l->columns / 2, 1, &v);
      if (isnan(v))
        continue;
      n += pass == 0;
      mean += pass == 0 ? v : 0;
      squares += pass == 0 ? 0 : (v - mean) * (v - mean);
      largest = fmax(largest, fabs(v));
    }
    mean /= pass == 0 ? n : 1;
  }
  load_row(w, plane, channel, (int64_t)at->y * o->stride_y, (int64_t)at->x * o->stride_x, 1, &middle);
  const bool gone = isnan(middle) && (o->preserves || o->nan == GCONV_NAN_SKIP || l->statistic == GCONV_CONTRAST);
  v = gone ? (double)NAN : find_statistic(l->statistic, n, 0, squares, middle - mean) * w->plan->unit;
  if (isnan(v))
    return (gconv_expectation){w->out->has_nodata ? w->out->nodata : w->out->type == GCONV_F32 ? (double)NAN : 0, 0};
  double y = v * ((double)e->scale + (double)e->scale_low) + (double)e->offset;
  y = e->absolute ? fabs(y) : y;
  y = e->center ? y / 2 + (double)e->middle : y;
  if (w->out->type != GCONV_F32)
    return (gconv_expectation){fmin(fmax(y, 0), (double)gconv_white(w->out->type)), 0.5 + 1e-5 * fabs(y)};
  return (gconv_expectation){y, fabs(y) * 0x1p-21 + 1e-9 * largest * fabs((double)e->scale) * w->plan->unit};
}

static gconv_status verify(gconv_plan *base, const gconv_image *in, const gconv_image *outputs, double tolerance,
                           double budget, gconv_verification *result) {
  const work w = {(local_plan *)base, in, outputs, 0, 0};
  gconv_comparison comparison = {.threads = gconv_device_threads(base->device),
                                 .out = outputs,
                                 .tolerance = tolerance,
                                 .step = gconv_compare_step(budget, base->info.flop, outputs->height),
                                 .expect = expect,
                                 .context = &w,
                                 .scope = base->scope};
  return gconv_compare_frames(&comparison, result);
}

static void find_need(const gconv_plan *base, gconv_need *need) {
  const local_plan *plan = (const local_plan *)base;
  need->fixed = (double)gconv_threads_count(gconv_device_threads(base->device)) *
                (4.0 * (double)plan->room + 3.0 * plan->tile) * sizeof(double);
}

static void free_plan(gconv_plan *base) {
  gconv_release(((local_plan *)base)->rooms);
  free(base);
}

static const gconv_plan_type local_plan_type = {.bytes = sizeof(local_plan),
                                                .free = free_plan,
                                                .execute = execute,
                                                .row_step = row_step,
                                                .rows_needed = rows_needed,
                                                .execute_rows = execute_rows,
                                                .explain = explain,
                                                .verify = verify,
                                                .find_need = find_need};

static gconv_status fill_plan(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *base) {
  const local *l = (const local *)operation;
  local_plan *plan = (local_plan *)base;
  const gconv_image *like = order->like;
  const gconv_options *o = &l->options;
  bool kept = true;
  if (like->planar && like->alpha)
    return gconv_fail(GCONV_BAD_ARGUMENT, "planar images with alpha have no %s: clear `alpha` to take it for a channel",
                      gconv_statistic_name(l->statistic));
  GCONV_NEW(base->outputs, 1, "no memory for a plan");
  gconv_image *out = base->outputs;
  *out = gconv_header_of(like);
  out->type = gconv_filter_output_type(o, like->type);
  out->alpha = like->alpha && o->alpha != GCONV_ALPHA_DROP;
  out->channels -= like->alpha - out->alpha;
  out->height = (like->height - 1) / o->stride_y + 1;
  out->width = (like->width - 1) / o->stride_x + 1;
  plan->of = l;
  plan->source = gconv_header_of(like);
  if (o->sets_nodata) {
    plan->source.has_nodata = true;
    plan->source.nodata = o->nodata;
  }
  out->has_nodata = plan->source.has_nodata;
  out->nodata = out->has_nodata ? gconv_nodata_as(&plan->source, out->type, &kept) : 0;
  plan->epilogue = gconv_make_epilogue(o, like->type, out->type);
  const double white = (double)gconv_white(like->type);
  plan->unit = l->statistic == GCONV_CONTRAST                             ? white
               : l->statistic == GCONV_VARIANCE && out->type == GCONV_F32 ? 1 / white
                                                                          : 1;
  plan->tile = l->columns > TILE ? l->columns : TILE;
  plan->tile = plan->tile < out->width ? plan->tile : out->width; /* keeps `room` small if strides are large */
  plan->room = ((size_t)plan->tile - 1) * (size_t)o->stride_x + (size_t)l->columns;
  base->output_count = 1;
  gconv_plan_describe(base, "direct", "fp64");
  base->info.flop = 2.0 * out->frames * out->channels * out->height * out->width * l->rows * l->columns;
  if (order->extent != GCONV_PLAN_WHOLE)
    return GCONV_OK;
  gconv_warn_of_nodata(&plan->source, out);
  const size_t sizes[] = {(size_t)gconv_threads_count(gconv_device_threads(order->device)),
                          4 * plan->room + 3 * (size_t)plan->tile, sizeof(double)};
  return gconv_allocate(gconv_checked_product(3, sizes), "rows of an image", (void **)&plan->rooms);
}

/* ---- The operation --------------------------------------------------------------------------------------------------- */

static const char *const names[] = {"variance", "std", "contrast"};

const char *gconv_statistic_name(gconv_statistic statistic) {
  return (unsigned)statistic < sizeof names / sizeof *names ? names[statistic] : NULL;
}

static void free_local(gconv_operation *base) {
  free(base);
}

static const gconv_operation_type local_type = {.name = "local statistics",
                                                .free = free_local,
                                                .plan_type = &local_plan_type,
                                                .minds_nodata = true,
                                                .fill_plan = fill_plan};

gconv_status gconv_operation_local(gconv_statistic statistic, int32_t rows, int32_t columns, const gconv_options *options,
                                   gconv_operation **result) {
  GCONV_NEED(options, result);
  local *l;
  const gconv_options o = gconv_options_filled(options);
  if (!gconv_statistic_name(statistic))
    return gconv_fail(GCONV_BAD_ARGUMENT, "statistic: no statistic has the number %d", (int)statistic);
  GCONV_TRY(gconv_check_value("rows", rows, 1, 4096));
  GCONV_TRY(gconv_check_value("columns", columns, 1, 4096));
  GCONV_TRY(gconv_options_check(&o));
  if (o.weights || o.gray || o.linear || o.mix || o.padding != GCONV_PADDING_SAME || o.dilation_y > 1 || o.dilation_x > 1 ||
      o.range > GCONV_RANGE_SIGNED || o.alpha == GCONV_ALPHA_FILTER || o.nan == GCONV_NAN_ZERO)
    return gconv_fail(
        GCONV_UNSUPPORTED,
        "%s is for samples as they are stored: it takes no weights, no dilation, no padding but same, no range "
        "but clamp, abs and signed, no alpha that is filtered, and no --nan zero",
        names[statistic]);
  if (o.combine != GCONV_COMBINE_NONE)
    return gconv_fail(GCONV_UNSUPPORTED, "%s has one result, which is not combined: leave out --combine", names[statistic]);
  if (o.least_weight != gconv_options_default().least_weight)
    return gconv_fail(GCONV_UNSUPPORTED, "%s takes any share of the samples: leave out --least-weight", names[statistic]);
  if (strcmp(o.algorithm, "auto") != 0 && strcmp(o.algorithm, "direct") != 0)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s has the algorithm direct alone, and not %.40s: leave out --algorithm, or give it "
                      "to the stage that it is for, before its --then",
                      names[statistic], o.algorithm);
  GCONV_NEW(l, 1, "no memory for an operation");
  *l = (local){.base = {&local_type, 1, NULL}, .statistic = statistic, .rows = rows, .columns = columns, .options = o};
  l->options.algorithm = l->options.without = NULL; /* the caller's */
  *result = &l->base;
  return GCONV_OK;
}

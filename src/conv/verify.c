/* SPDX-License-Identifier: MIT */
/*
 * Verification: the convolution and all that follows it once more in float64, one tap after the other, with the error that
 * is allowed at each sample. Only the stage before (grey, linear light, premultiplication) is taken as it is.
 */
#include "base/memory.h"
#include "conv/plan.h"
#include "conv/stages.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A value and how far a correct program may be from it. */
typedef struct expectation {
  double value, allowed;
} expectation;

/* Everything that a row of the comparison needs. */
typedef struct row_check {
  const gconv_plan *plan;
  const gconv_pass *pass;
  const gconv_image *in;  /* as convolved */
  const gconv_image *out; /* the output that is compared, number `output` of the plan, `k` of the pass */
  size_t output;
  int32_t k;
  double largest;   /* max |x| of the finite samples of the input, in levels, the border's constant included */
  bool finite;      /* whether all samples of the input are */
  double *tap_sums; /* sum |tap| of each filter */
  double low, high; /* minmax: the limits of the frame, and the error they may have */
  double limits_allowed;
  double tolerance;          /* < 0: the stated bound */
  double budget;             /* multiply-adds for an output; INFINITY: all rows are compared */
  gconv_verification *worst; /* of each row */
} row_check;

/* Roundings of the epilogue: each of its few operations is off by u = 2^-24 relative to its result. */
static const double EPILOGUE = 8 * 0x1p-24;

/* ---- Responses in float64 ---- */

static double level_of(const gconv_image *image, int64_t plane, int64_t y, int64_t index) {
  const uint8_t *row = (const uint8_t *)image->data + (size_t)plane * image->plane_bytes + (size_t)y * image->row_bytes;
  if (image->type == GCONV_U8)
    return row[index];
  if (image->type == GCONV_U16)
    return ((const uint16_t *)(const void *)row)[index];
  return (double)((const float *)(const void *)row)[index];
}

/* The level at (y, x), inside or outside. */
static double sample_at(const row_check *check, int64_t plane, int64_t y, int64_t x, int32_t c) {
  const gconv_problem *problem = &check->pass->problem;
  y = gconv_border_index(problem->border, y, problem->height);
  x = gconv_border_index(problem->border, x, problem->width);
  if (y == GCONV_OUTSIDE || x == GCONV_OUTSIDE)
    return (double)problem->border_level;
  return level_of(check->in, plane, y, x * problem->channels + c);
}

static expectation response(const row_check *check, int32_t k, int64_t plane, int64_t p, int64_t q, int32_t c) {
  const gconv_problem *problem = &check->pass->problem;
  const float *tap = check->pass->weights + (int64_t)k * problem->rows * problem->columns;
  int64_t top = p * problem->stride_y - problem->pad_top, left = q * problem->stride_x - problem->pad_left;
  double sum = 0;
  bool finite = true;
  for (int64_t r = 0; r < problem->rows; r++)
    for (int64_t s = 0; s < problem->columns; s++, tap++) {
      if (*tap == 0 && check->finite)
        continue;
      double x = sample_at(check, plane, top + r * problem->dilation_y, left + s * problem->dilation_x, c);
      finite = finite && isfinite(x);
      sum += (double)*tap * x;
    }
  double divisor = (double)gconv_divisors(problem, check->pass->weights)[k];
  double bias = (double)gconv_biases(problem, check->pass->weights)[k];
  double reach = check->tap_sums[k] * check->largest; /* what a sum in float32 may grow to */
  double bound = finite && reach < FLT_MAX ? check->pass->algorithm->error_bound(problem) * reach / fabs(divisor) : INFINITY;
  double value = sum / divisor + bias;
  return (expectation){value, bound + EPILOGUE * (fabs(sum / divisor) + fabs(bias))};
}

static expectation combined_response(const row_check *check, int64_t plane, int64_t p, int64_t q, int32_t c) {
  const gconv_problem *problem = &check->pass->problem;
  if (!gconv_is_combined(problem))
    return response(check, check->k, plane, p, q, c);
  gconv_combine how = problem->epilogue.combine;
  expectation all = {how == GCONV_COMBINE_MAX ? -DBL_MAX : 0, 0};
  for (int32_t k = 0; k < problem->filters; k++) {
    expectation one = response(check, k, plane, p, q, c);
    if (how == GCONV_COMBINE_MAX)
      all.value = fmax(all.value, one.value);
    else
      all.value += how == GCONV_COMBINE_SUM ? one.value : one.value * one.value;
    all.allowed = how == GCONV_COMBINE_MAX ? fmax(all.allowed, one.allowed) : all.allowed + one.allowed;
    all.allowed += EPILOGUE * fabs(one.value);
  }
  if (how == GCONV_COMBINE_MAGNITUDE)
    all.value = sqrt(all.value);
  return all;
}

static expectation alpha_below_anchor(const row_check *check, int64_t plane, int64_t p, int64_t q) {
  const gconv_problem *problem = &check->pass->problem;
  int64_t y = p * problem->stride_y - problem->pad_top + problem->anchor_y;
  int64_t x = q * problem->stride_x - problem->pad_left + problem->anchor_x;
  double alpha = sample_at(check, plane, y, x, problem->channels - 1) / (double)gconv_white(problem->in_type);
  return (expectation){alpha, EPILOGUE * fabs(alpha)};
}

/* ---- From responses to outputs, in units where white is 1 ---- */

static double srgb(double linear) {
  double v = fabs(linear);
  v = v <= 0.0031308 ? 12.92 * v : 1.055 * pow(v, 1 / 2.4) - 0.055;
  return copysign(v, linear);
}

/* Scale, offset, abs and the sRGB curve, of a colour. */
static expectation finish_colour(const row_check *check, expectation v) {
  const gconv_options *options = &check->plan->options;
  v.value = v.value * options->scale + options->offset;
  v.allowed = v.allowed * fabs(options->scale) + EPILOGUE * (fabs(v.value) + fabs(options->offset));
  if (options->range == GCONV_RANGE_ABS)
    v.value = fabs(v.value);
  if (options->linear) { /* the curve is steepest at 0, by 12.92; above 1 it flattens */
    v.allowed = 12.92 * v.allowed + EPILOGUE;
    v.value = srgb(v.value);
    v.allowed += EPILOGUE * fabs(v.value);
  }
  return v;
}

static expectation divide_by_alpha(expectation colour, expectation alpha) {
  if (alpha.value - alpha.allowed <= 0) /* whether it is divided at all hangs on rounding: nothing can be said */
    return (expectation){0, alpha.value + alpha.allowed <= 0 ? 0 : INFINITY};
  double least = alpha.value - alpha.allowed;
  expectation quotient = {colour.value / alpha.value, 0};
  quotient.allowed = (colour.allowed + fabs(quotient.value) * alpha.allowed) / least + EPILOGUE * fabs(quotient.value);
  return quotient;
}

/* Where a sample of the output comes from: the filter and channel that made it. */
typedef struct sample_origin {
  int32_t k, channel;
  bool kept_alpha;
} sample_origin;

static sample_origin origin_of(const row_check *check, int32_t channel) {
  const gconv_problem *problem = &check->pass->problem;
  bool stacked = problem->epilogue.combine == GCONV_COMBINE_STACK;
  int32_t in_channels = check->in->channels - problem->keep_alpha;
  bool alpha = problem->keep_alpha && channel == check->out->channels - 1;
  return (sample_origin){stacked && !alpha ? channel / in_channels : check->k,
                         stacked && !alpha ? channel % in_channels : channel, alpha};
}

/* What an output sample should be, before range minmax or signed and before its type: white is 1. */
static expectation expect(row_check *check, int32_t frame, int64_t p, int64_t q, int32_t channel) {
  const gconv_problem *problem = &check->pass->problem;
  const gconv_options *options = &check->plan->options;
  sample_origin origin = origin_of(check, channel);
  int64_t plane = (int64_t)frame * problem->planes + (check->in->planar ? origin.channel : 0);
  int32_t c = check->in->planar ? 0 : origin.channel;
  if (origin.kept_alpha)
    return alpha_below_anchor(check, plane, p, q);
  check->k = origin.k;
  double white = (double)gconv_white(problem->in_type);
  expectation v = combined_response(check, plane, p, q, c);
  v = (expectation){v.value / white, v.allowed / white};
  bool alpha = check->out->alpha && channel == check->out->channels - 1;
  if (options->alpha == GCONV_ALPHA_PREMULTIPLY && check->plan->before && check->out->alpha) {
    if (alpha)
      return v;
    expectation below = combined_response(check, plane, p, q, problem->channels - 1);
    v = divide_by_alpha(v, below);
  }
  if (alpha && check->plan->options.linear) { /* filtered as a channel, but never through the curve */
    v.value = v.value * options->scale + options->offset;
    v.allowed = v.allowed * fabs(options->scale) + EPILOGUE * (fabs(v.value) + fabs(options->offset));
    v.value = options->range == GCONV_RANGE_ABS ? fabs(v.value) : v.value;
    return v;
  }
  return finish_colour(check, v);
}

static double saturate(double level, double white) {
  return level > white ? white : level > 0 ? level : 0;
}

/* Brings the expectation to levels: both ends of what is allowed are saturated, then each may be rounded by half a level. */
static expectation round_and_saturate(expectation v, double white) {
  double value = v.value * white, allowed = v.allowed * white + EPILOGUE * white;
  expectation stored = {saturate(value, white), 0};
  stored.allowed =
      fmax(saturate(value + allowed, white) - stored.value, stored.value - saturate(value - allowed, white)) + 0.5;
  return stored;
}

/* Minmax or signed, then the levels of the output with their rounding. */
static expectation store(const row_check *check, expectation v, bool colour) {
  gconv_range range = check->plan->options.range;
  gconv_type type = check->out->type;
  if (range == GCONV_RANGE_MINMAX && colour) {
    double span = check->high - check->low;
    if (span == 0 && check->limits_allowed == 0)
      return (expectation){0, 0};
    if (span <= 2 * check->limits_allowed)
      return (expectation){0, INFINITY};
    v.value = (v.value - check->low) / span;
    v.allowed = (v.allowed + 3 * check->limits_allowed) / (span - 2 * check->limits_allowed) + EPILOGUE;
  }
  bool kept = check->pass->problem.keep_alpha || check->plan->options.alpha == GCONV_ALPHA_PREMULTIPLY;
  if (range == GCONV_RANGE_SIGNED && type != GCONV_F32 && (colour || !(check->out->alpha && kept))) {
    v.value = v.value / 2 + 0.5;
    v.allowed = v.allowed / 2 + EPILOGUE;
  }
  if (type == GCONV_F32)
    return v;
  return round_and_saturate(v, (double)gconv_white(type));
}

/* ---- Comparing ---- */

static void compare_row(void *context, size_t turn, int thread) {
  const row_check *shared = context;
  row_check check = *shared; /* with its own k */
  (void)thread;
  const gconv_image *out = check.out;
  gconv_verification *worst = &shared->worst[turn % (size_t)out->height];
  int64_t p = (int64_t)(turn % (size_t)out->height);
  int32_t frame = (int32_t)(turn / (size_t)out->height);
  double worst_excess = -INFINITY;
  *worst = (gconv_verification){.output = check.output, .frame = frame, .y = (int32_t)p};
  for (int64_t q = 0; q < out->width; q++)
    for (int32_t c = 0; c < out->channels; c++) {
      bool colour = !(out->alpha && c == out->channels - 1);
      expectation v = store(&check, expect(&check, frame, p, q, c), colour);
      if (check.tolerance >= 0 && isfinite(v.allowed))
        v.allowed = check.tolerance;
      int64_t plane = (int64_t)frame * (out->planar ? out->channels : 1) + (out->planar ? c : 0);
      double got = level_of(out, plane, p, out->planar ? q : q * out->channels + c), error = fabs(got - v.value);
      if (isnan(error) && (isnan(got) == isnan(v.value) || !isfinite(v.allowed)))
        error = 0; /* not a number, and rightly so */
      else if (isnan(error))
        error = INFINITY;
      if (!isfinite(got) && !check.finite && !check.pass->algorithm->info.exact)
        error = 0; /* algorithms that do not take taps one by one may carry what is not finite further */
      worst->compared++;
      if (isfinite(v.allowed))
        worst->most_allowed = fmax(worst->most_allowed, v.allowed);
      double excess = isinf(v.allowed) ? -INFINITY : error - v.allowed;
      if (excess > 0 && worst_excess <= 0 ? true : (excess > 0) == (worst_excess > 0) && error > worst->max_error) {
        worst_excess = excess;
        worst->max_error = error;
        worst->allowed = v.allowed;
        worst->x = (int32_t)q;
        worst->channel = c;
        worst->got = got;
        worst->expected = v.value;
      }
    }
}

/* The smallest and largest colour of a row, into its verification's got and expected; the error allowed into `allowed`. */
static void limits_of_row(void *context, size_t turn, int thread) {
  const row_check *shared = context;
  row_check check = *shared;
  (void)thread;
  int64_t p = (int64_t)(turn % (size_t)check.out->height);
  int32_t frame = (int32_t)(turn / (size_t)check.out->height);
  gconv_verification *row = &shared->worst[p];
  *row = (gconv_verification){.got = INFINITY, .expected = -INFINITY};
  for (int64_t q = 0; q < check.out->width; q++)
    for (int32_t c = 0; c < check.out->channels - check.out->alpha; c++) {
      expectation v = expect(&check, frame, p, q, c);
      row->got = fmin(row->got, v.value);
      row->expected = fmax(row->expected, v.value);
      row->allowed = fmax(row->allowed, isinf(v.allowed) ? 0 : v.allowed);
    }
}

/* Rows of one frame at a time, every step-th and the last: a turn of gconv_threads_run() is the number of one. */
typedef struct frame_rows {
  row_check *check;
  gconv_turn *function;
  size_t first, height, step;
} frame_rows;

static size_t row_count(size_t height, size_t step) {
  return (height - 1 + step - 1) / step + 1;
}

static size_t row_at(size_t turn, size_t height, size_t step) {
  return turn * step < height ? turn * step : height - 1;
}

static void run_frame_row(void *context, size_t turn, int thread) {
  const frame_rows *rows = context;
  rows->function(rows->check, rows->first + row_at(turn, rows->height, rows->step), thread);
}

static void run_frame(row_check *check, int32_t frame, size_t step, gconv_turn *function) {
  size_t height = (size_t)check->out->height;
  frame_rows rows = {check, function, (size_t)frame * height, height, step};
  gconv_threads_run(check->plan->device->threads, row_count(height, step), run_frame_row, &rows);
}

/* The distance of the rows that the budget allows. */
static size_t choose_step(const row_check *check) {
  const gconv_problem *problem = &check->pass->problem;
  double taps = (double)gconv_tap_count(problem) / (gconv_is_combined(problem) ? 1 : problem->filters);
  double rows = check->budget / (taps * check->out->width * check->out->channels * check->out->frames);
  double step = check->out->height / fmax(rows, 2);
  return step > 1 ? (size_t)ceil(step) : 1;
}

static void find_limits(row_check *check, int32_t frame) {
  run_frame(check, frame, 1, limits_of_row);
  check->low = INFINITY;
  check->high = -INFINITY;
  check->limits_allowed = 0;
  for (int32_t y = 0; y < check->out->height; y++) {
    check->low = fmin(check->low, check->worst[y].got);
    check->high = fmax(check->high, check->worst[y].expected);
    check->limits_allowed = fmax(check->limits_allowed, check->worst[y].allowed);
  }
}

/* Keeps in `all` the worse of two: a mismatch before a match, then the larger error. */
static void merge(gconv_verification *all, const gconv_verification *one) {
  uint64_t compared = all->compared + one->compared;
  double most_allowed = fmax(all->most_allowed, one->most_allowed);
  bool bad = one->max_error > one->allowed, was_bad = all->max_error > all->allowed;
  if (all->compared == 0 || (bad && !was_bad) || (bad == was_bad && one->max_error > all->max_error))
    *all = *one;
  all->compared = compared;
  all->most_allowed = most_allowed;
}

static void compare_output(row_check *check, gconv_verification *result) {
  size_t height = (size_t)check->out->height, step = choose_step(check);
  for (int32_t frame = 0; frame < check->out->frames; frame++) {
    if (check->plan->options.range == GCONV_RANGE_MINMAX)
      find_limits(check, frame);
    run_frame(check, frame, step, compare_row);
    for (size_t i = 0; i < row_count(height, step); i++)
      merge(result, &check->worst[row_at(i, height, step)]);
  }
}

/* The largest finite |x| of a row; *finite becomes false if there are others. Without their signs, floats are ordered as the
 * integers of their bits are, infinities and NaN above all: the first loop becomes vector code. */
static float largest_of_row(const uint8_t *row, int64_t samples, bool *finite) {
  uint32_t most = 0, infinity = UINT32_C(0x7f800000);
  for (int64_t i = 0; i < samples; i++) {
    uint32_t bits;
    memcpy(&bits, row + i * 4, sizeof bits);
    bits &= UINT32_C(0x7fffffff);
    most = bits > most ? bits : most;
  }
  float largest = 0;
  if (most < infinity) {
    memcpy(&largest, &most, sizeof largest);
    return largest;
  }
  *finite = false;
  for (int64_t i = 0; i < samples; i++) {
    float x;
    memcpy(&x, row + i * 4, sizeof x);
    largest = isfinite(x) ? fmaxf(largest, fabsf(x)) : largest;
  }
  return largest;
}

/* The largest finite |sample|, or for integers the largest there can be; *finite tells whether there are others. */
static double largest_level(const gconv_image *image, bool *finite) {
  *finite = true;
  if (image->type != GCONV_F32)
    return (double)gconv_white(image->type);
  float largest = 0;
  int64_t planes = (int64_t)image->frames * (image->planar ? image->channels : 1);
  int64_t samples = (int64_t)image->width * (image->planar ? 1 : image->channels);
  for (int64_t plane = 0; plane < planes; plane++)
    for (int64_t y = 0; y < image->height; y++) {
      const uint8_t *row = (const uint8_t *)image->data + (size_t)plane * image->plane_bytes + (size_t)y * image->row_bytes;
      largest = fmaxf(largest, largest_of_row(row, samples, finite));
    }
  return (double)largest;
}

static void sum_taps(const gconv_pass *pass, double *sums) {
  int64_t plane = (int64_t)pass->problem.rows * pass->problem.columns;
  for (int32_t k = 0; k < pass->problem.filters; k++) {
    sums[k] = 0;
    for (int64_t t = 0; t < plane; t++)
      sums[k] += fabs((double)pass->weights[k * plane + t]);
  }
}

static gconv_status compare_pass(const gconv_plan *plan, const gconv_pass *pass, const gconv_image *in,
                                 const gconv_image *outputs, row_check check, gconv_verification *result) {
  check.plan = plan;
  check.pass = pass;
  check.in = in;
  check.largest = fmax(largest_level(in, &check.finite), fabs((double)pass->problem.border_level));
  check.tap_sums = calloc((size_t)pass->problem.filters, sizeof *check.tap_sums);
  check.worst = calloc((size_t)pass->problem.out_height, sizeof *check.worst);
  gconv_status status = GCONV_OK;
  if (check.tap_sums && check.worst) {
    sum_taps(pass, check.tap_sums);
    for (size_t i = 0; i < gconv_pass_outputs(pass); i++) {
      check.output = pass->first_output + i;
      check.out = &outputs[check.output];
      check.k = (int32_t)i;
      compare_output(&check, result);
    }
  } else {
    status = gconv_fail(GCONV_NO_MEMORY, "no memory to verify with");
  }
  free(check.tap_sums);
  free(check.worst);
  return status;
}

/* `how` holds tolerance and budget. */
static gconv_status verify(gconv_plan *plan, const gconv_image *in, const gconv_image *outputs, row_check how,
                           gconv_verification *result) {
  *result = (gconv_verification){0};
  if (!gconv_plan_fits(plan, in) || !in->data)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the image has another shape or type than the plan was made for, or no pixels");
  for (size_t i = 0; i < plan->output_count; i++)
    if (!outputs[i].data || gconv_plan_fit_image(&plan->outputs[i], "an output", (gconv_image *)&outputs[i]) != GCONV_OK)
      return gconv_fail(GCONV_BAD_ARGUMENT, "the outputs to verify are not those of this plan");
  gconv_image convolved = *in;
  if (plan->before) {
    convolved = plan->convolved;
    GCONV_TRY(gconv_image_allocate(&convolved));
  }
  gconv_status status = GCONV_OK;
  if (plan->before)
    status = gconv_run_before(plan->device->threads, &plan->options, in, &convolved);
  for (size_t i = 0; i < plan->pass_count && status == GCONV_OK; i++)
    status = compare_pass(plan, &plan->passes[i], &convolved, outputs, how, result);
  if (plan->before)
    gconv_image_free(&convolved);
  GCONV_TRY(status);
  if (result->max_error > result->allowed)
    return gconv_fail(GCONV_MISMATCH,
                      "output %zu, frame %d, row %d, column %d, channel %d is %.9g, but float64 gives %.9g: the difference "
                      "%.3g is over the %.3g allowed",
                      result->output, result->frame, result->y, result->x, result->channel, result->got, result->expected,
                      result->max_error, result->allowed);
  return GCONV_OK;
}

gconv_status gconv_plan_verify(gconv_plan *plan, const gconv_image *in, const gconv_image *outputs, double tolerance,
                               gconv_verification *result) {
  return verify(plan, in, outputs, (row_check){.tolerance = tolerance, .budget = INFINITY}, result);
}

gconv_status gconv_plan_spot_check(gconv_plan *plan, const gconv_image *in, const gconv_image *outputs, double budget,
                                   gconv_verification *result) {
  return verify(plan, in, outputs, (row_check){.tolerance = -1, .budget = budget}, result);
}

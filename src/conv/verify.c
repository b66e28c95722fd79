/* SPDX-License-Identifier: MIT */
/*
 * Verification: computes the convolution and all steps after it again in float64, one tap after the other, together with the
 * error that is allowed at each sample. It does not check the stage before the convolution (grey, linear light,
 * premultiplication): it starts from that stage's result.
 */
#include "conv/verify.h"
#include "base/memory.h"
#include "operation/verify.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef gconv_expectation expectation;

/* The smallest and largest colour, and the error that they may have. */
typedef struct limits {
  double low, high, allowed;
} limits;

static void widen(limits *all, limits by) {
  *all = (limits){fmin(all->low, by.low), fmax(all->high, by.high), fmax(all->allowed, by.allowed)};
}

typedef struct row_check {
  const gconv_filter_plan *plan;
  const gconv_pass *pass;
  const gconv_image *in;  /* the image to convolve */
  const gconv_image *out; /* the output that is compared: number k of the pass */
  int32_t k;
  double largest;              /* max |x| of the finite samples of the input and of the border's constant, in levels */
  bool finite;                 /* whether all samples of the input are finite */
  double *tap_sums;            /* sum |tap| of each filter */
  limits frame;                /* for minmax: the limits of the frame */
  int32_t in_row;              /* the row of the image with which `in` begins */
  const gconv_holes *holes;    /* where `in` has no data; NULL: nowhere */
  const gconv_hole_row *known; /* the sums of a row of one channel; NULL: sums are computed */
} row_check;

/* The error of the epilogue, relative to its result: each of its few operations is off by u = 2^-24. */
static const double EPILOGUE = 8 * 0x1p-24;

/* ---- Responses in float64 ---- */

/* Returns the level at (y, x), which may be outside the image. */
static double sample_at(const row_check *check, int32_t frame, int64_t y, int64_t x, int32_t c) {
  const gconv_problem *problem = &check->pass->problem;
  y = gconv_border_index(problem->border, y, problem->height);
  x = gconv_border_index(problem->border, x, problem->width);
  if (y == GCONV_OUTSIDE || x == GCONV_OUTSIDE)
    return (double)problem->border_level;
  return gconv_sample_at(check->in, frame, c, y - check->in_row, x);
}

/* Returns whether the sample at (y, x) is no data. The place may be outside the image. */
static bool is_hole(const row_check *check, int32_t frame, int64_t y, int64_t x, int32_t c) {
  const gconv_problem *problem = &check->pass->problem;
  y = gconv_border_index(problem->border, y, problem->height);
  x = gconv_border_index(problem->border, x, problem->width);
  return y != GCONV_OUTSIDE && x != GCONV_OUTSIDE && gconv_holes_at(check->holes, check->in, frame, c, y - check->in_row, x);
}

/* Returns the state of the sum of filter k, by the samples of no data under its taps. */
static gconv_sample_state state_of_sum(const row_check *check, int32_t k, int32_t frame, int64_t p, int64_t q, int32_t c) {
  const gconv_problem *problem = &check->pass->problem;
  const float *tap = check->pass->weights + (int64_t)k * problem->rows * problem->columns;
  int64_t top = p * problem->stride_y - problem->pad_top, left = q * problem->stride_x - problem->pad_left;
  if (check->known)
    return (gconv_sample_state)check->known->states[(int64_t)(k - check->known->first) * check->known->width + q];
  bool holes = false, data = false, positive = false, negative = false;
  for (int64_t r = 0; r < problem->rows; r++)
    for (int64_t s = 0; s < problem->columns; s++, tap++) {
      if (*tap == 0)
        continue;
      bool hole = is_hole(check, frame, top + r * problem->dilation_y, left + s * problem->dilation_x, c);
      holes |= hole;
      data |= !hole;
      positive |= *tap > 0;
      negative |= *tap < 0;
    }
  return !holes ? GCONV_SAMPLE_WHOLE : data && !(positive && negative) ? GCONV_SAMPLE_MENDED : GCONV_SAMPLE_NO_DATA;
}

static expectation response(const row_check *check, int32_t k, int32_t frame, int64_t p, int64_t q, int32_t c) {
  const gconv_problem *problem = &check->pass->problem;
  const float *tap = check->pass->weights + (int64_t)k * problem->rows * problem->columns;
  int64_t top = p * problem->stride_y - problem->pad_top, left = q * problem->stride_x - problem->pad_left;
  double sum = 0, all = 0, there = 0; /* sums of taps, if there are holes */
  bool finite = true;
  for (int64_t r = 0; r < problem->rows && !check->known; r++)
    for (int64_t s = 0; s < problem->columns; s++, tap++) {
      if (gconv_is_mark(*tap) || (*tap == 0 && check->finite))
        continue;
      all += (double)*tap;
      if (check->holes && is_hole(check, frame, top + r * problem->dilation_y, left + s * problem->dilation_x, c))
        continue;
      there += (double)*tap;
      double x = sample_at(check, frame, top + r * problem->dilation_y, left + s * problem->dilation_x, c);
      finite = finite && isfinite(x);
      sum += (double)*tap * x;
    }
  if (there != all)
    sum *= all / there;
  if (check->known)
    sum = check->known->sums[(int64_t)(k - check->known->first) * check->known->width + q];
  double divisor = (double)gconv_divisors(problem, check->pass->weights)[k];
  double bias = (double)gconv_biases(problem, check->pass->weights)[k];
  double reach = check->tap_sums[k] * check->largest; /* the largest sum that float32 may reach */
  /* Floats below FLT_MIN have fewer bits. So a rounding may be off by FLT_TRUE_MIN, and a transform may lose a response. */
  double taps = (double)problem->rows * (double)problem->columns;
  double least = check->pass->algorithm->spreads ? (double)FLT_MIN : (taps + 4) * (double)FLT_TRUE_MIN * (1 + fabs(divisor));
  double lost = reach > 0 ? least : 0;
  double relative = check->pass->algorithm->error_bound(problem) * reach;
  double bound = finite && reach < FLT_MAX ? (relative + lost) / fabs(divisor) : INFINITY;
  double value = sum / divisor + bias;
  return (expectation){value, bound + EPILOGUE * (fabs(sum / divisor) + fabs(bias))};
}

/* Returns the expected response of filter `number`, or of all filters if they are combined. */
static expectation combined_response(const row_check *check, int32_t number, int32_t frame, int64_t p, int64_t q,
                                     int32_t c) {
  const gconv_problem *problem = &check->pass->problem;
  if (!gconv_is_combined(problem))
    return response(check, number, frame, p, q, c);
  gconv_combine how = problem->epilogue.combine;
  expectation all = {how == GCONV_COMBINE_MAX ? -DBL_MAX : 0, 0};
  for (int32_t k = 0; k < problem->filters; k++) {
    expectation one = response(check, k, frame, p, q, c);
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

static expectation alpha_below_anchor(const row_check *check, int32_t frame, int64_t p, int64_t q) {
  const gconv_problem *problem = &check->pass->problem;
  int64_t y = p * problem->stride_y - problem->pad_top + problem->anchor_y;
  int64_t x = q * problem->stride_x - problem->pad_left + problem->anchor_x;
  double alpha = sample_at(check, frame, y, x, problem->channels - 1) / (double)gconv_white(problem->in_type);
  return (expectation){alpha, EPILOGUE * fabs(alpha)};
}

/* ---- From responses to outputs, in units where white is 1 ---- */

static double srgb(double linear) {
  double v = fabs(linear);
  v = v <= 0.0031308 ? 12.92 * v : 1.055 * pow(v, 1 / 2.4) - 0.055;
  return copysign(v, linear);
}

/* Applies scale, offset and abs; then the sRGB curve, except to an alpha that is filtered as a channel. */
static expectation finish_sample(const gconv_options *options, expectation v, bool alpha) {
  v.value = v.value * options->scale + options->offset;
  v.allowed = v.allowed * fabs(options->scale) + EPILOGUE * (fabs(v.value) + fabs(options->offset));
  if (options->range == GCONV_RANGE_ABS && !alpha)
    v.value = fabs(v.value);
  if (options->linear && !alpha) { /* the curve is steepest at 0, by 12.92; above 1 it flattens */
    v.allowed = 12.92 * v.allowed + EPILOGUE;
    v.value = srgb(v.value);
    v.allowed += EPILOGUE * fabs(v.value);
  }
  return v;
}

static expectation divide_by_alpha(expectation colour, expectation alpha) {
  if (alpha.value - alpha.allowed <= 0) /* rounding decides whether colours are divided at all: any result is allowed */
    return (expectation){0, alpha.value + alpha.allowed <= 0 ? 0 : INFINITY};
  double least = alpha.value - alpha.allowed;
  expectation quotient = {colour.value / alpha.value, 0};
  quotient.allowed = (colour.allowed + fabs(quotient.value) * alpha.allowed) / least + EPILOGUE * fabs(quotient.value);
  return quotient;
}

/* The filter and the channel from which a sample of the output is made. */
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

/* Returns the state of an output sample, by the samples of no data under its anchor and under the taps of its filters. */
static gconv_sample_state state_of_sample(const row_check *check, int32_t frame, int64_t p, int64_t q, int32_t channel) {
  const gconv_problem *problem = &check->pass->problem;
  sample_origin origin = origin_of(check, channel);
  if (!check->holes || origin.kept_alpha)
    return GCONV_SAMPLE_WHOLE;
  int64_t y = p * problem->stride_y - problem->pad_top + (int64_t)problem->anchor_y;
  int64_t x = q * problem->stride_x - problem->pad_left + (int64_t)problem->anchor_x;
  if (is_hole(check, frame, y, x, origin.channel))
    return GCONV_SAMPLE_NO_DATA;
  bool combined = gconv_is_combined(problem);
  gconv_sample_state worst = GCONV_SAMPLE_WHOLE;
  for (int32_t k = combined ? 0 : origin.k; k < (combined ? problem->filters : origin.k + 1); k++) {
    gconv_sample_state state = state_of_sum(check, k, frame, p, q, origin.channel);
    worst = state > worst ? state : worst;
  }
  return worst;
}

/* Returns what an output sample should be, before range minmax or signed, and before its conversion. White is 1. */
static expectation expect(const row_check *check, int32_t frame, int64_t p, int64_t q, int32_t channel) {
  const gconv_problem *problem = &check->pass->problem;
  const gconv_options *options = &check->plan->options;
  sample_origin origin = origin_of(check, channel);
  if (origin.kept_alpha)
    return alpha_below_anchor(check, frame, p, q);
  double white = (double)gconv_white(problem->in_type);
  expectation v = combined_response(check, origin.k, frame, p, q, origin.channel);
  v = (expectation){v.value / white, v.allowed / white};
  bool alpha = check->out->alpha && channel == check->out->channels - 1;
  if (options->alpha == GCONV_ALPHA_PREMULTIPLY && check->plan->before && check->out->alpha) {
    if (alpha)
      return v;
    expectation below = combined_response(check, origin.k, frame, p, q, problem->channels - 1);
    v = divide_by_alpha(v, below);
  }
  return finish_sample(options, v, alpha);
}

static double saturate(double level, double least, double most) {
  return level > most ? most : level > least ? level : isnan(level) ? 0 : least;
}

/* Converts an expectation to levels from `least` to `most`. Both ends of the allowed range are saturated, then rounding may
 * take half a level. */
static expectation round_and_saturate(expectation v, double white, double least, double most) {
  double value = v.value * white, allowed = v.allowed * white + EPILOGUE * white;
  expectation stored = {saturate(value, least, most), 0};
  stored.allowed =
      fmax(saturate(value + allowed, least, most) - stored.value, stored.value - saturate(value - allowed, least, most)) +
      0.5;
  return stored;
}

/* Converts an expectation to a level of the range wrap. If rounding errors let v be cut to either of two levels, both
 * are allowed. If the two levels are white and 0, any level is allowed. */
static expectation cut_and_wrap(expectation v, double white) {
  double value = v.value * white, allowed = v.allowed * white + EPILOGUE * white;
  double least = trunc(value - allowed), most = trunc(value + allowed);
  double first = least - floor(least / (white + 1)) * (white + 1);
  if (most - least > 1 || first + (most - least) > white || !(fabs(value) < 0x1p31))
    return (expectation){0, INFINITY};
  return (expectation){first + (most - least) / 2, 0.5};
}

/* Applies the range minmax or signed, and converts to levels of the output with their rounding. */
static expectation store(const row_check *check, expectation v, bool colour) {
  gconv_range range = check->plan->options.range;
  gconv_type type = check->out->type;
  if (range == GCONV_RANGE_MINMAX && colour) {
    double span = check->frame.high - check->frame.low, allowed = check->frame.allowed;
    if (span == 0 && allowed == 0)
      return (expectation){0, 0};
    if (span <= 2 * allowed)
      return (expectation){0, INFINITY};
    v.value = (v.value - check->frame.low) / span;
    v.allowed = (v.allowed + 3 * allowed) / (span - 2 * allowed) + EPILOGUE;
  }
  if (range == GCONV_RANGE_SIGNED && colour) {
    v.value = v.value / 2 + 0.5;
    v.allowed = v.allowed / 2 + EPILOGUE;
  }
  if (type == GCONV_F32)
    return v;
  if (range == GCONV_RANGE_WRAP && colour)
    return cut_and_wrap(v, (double)gconv_white(type));
  const double white = (double)gconv_white_of_result(check->in->type, type);
  return type == GCONV_I16 ? round_and_saturate(v, white, INT16_MIN, INT16_MAX) : round_and_saturate(v, white, 0, white);
}

/* ---- Comparing ---- */

static gconv_expectation expect_sample(const void *context, const gconv_sample_place *at, double got) {
  const row_check *check = context;
  bool colour = !(check->out->alpha && at->channel == check->out->channels - 1);
  if (state_of_sample(check, at->frame, at->y, at->x, at->channel) == GCONV_SAMPLE_NO_DATA)
    return (expectation){check->out->type == GCONV_F32 ? (double)(float)check->plan->base.outputs[0].nodata
                                                       : check->plan->base.outputs[0].nodata,
                         0};
  expectation v = store(check, expect(check, at->frame, at->y, at->x, at->channel), colour);
  if (!isfinite(got) && !check->finite && !check->pass->algorithm->info.exact)
    v.allowed = INFINITY; /* algorithms that do not take taps one by one may spread infinities and NaN */
  return v;
}

typedef struct limits_job {
  const row_check *check;
  int32_t frame;
  limits *rows; /* [height] */
} limits_job;

static void find_row_limits(void *context, size_t turn, int seat) {
  const limits_job *job = context;
  const gconv_image *out = job->check->out;
  limits row = {INFINITY, -INFINITY, 0};
  for (int64_t q = 0; q < out->width; q++)
    for (int32_t c = 0; c < out->channels - out->alpha; c++) {
      if (state_of_sample(job->check, job->frame, (int64_t)turn, q, c) == GCONV_SAMPLE_NO_DATA)
        continue;
      expectation v = expect(job->check, job->frame, (int64_t)turn, q, c);
      if (isfinite(v.value) && isfinite((float)v.value)) /* minmax is the range of finite values */
        widen(&row, (limits){v.value, v.value, isinf(v.allowed) ? 0 : v.allowed});
    }
  job->rows[turn] = row;
}

static gconv_status find_limits(row_check *check, int32_t frame) {
  const size_t height = (size_t)check->out->height;
  limits_job job = {check, frame, calloc(height, sizeof *job.rows)};
  GCONV_NEED_MEMORY(job.rows, "no memory to verify with");
  gconv_threads_run(check->plan->base.device->threads, height, find_row_limits, &job);
  check->frame = job.rows[0];
  for (size_t y = 1; y < height; y++)
    widen(&check->frame, job.rows[y]);
  free(job.rows);
  return GCONV_OK;
}

/* Returns the distance between rows that are compared, by the budget of multiply-adds for an output. */
static size_t choose_step(const row_check *check, double budget) {
  const gconv_problem *problem = &check->pass->problem;
  double taps = (double)gconv_tap_count(problem) / (gconv_is_combined(problem) ? 1 : problem->filters);
  double rows = budget / (taps * check->out->width * check->out->channels * check->out->frames);
  double step = check->out->height / fmax(rows, 2);
  return step > 1 ? (size_t)ceil(step) : 1;
}

/* Returns the largest finite |x| of a row. Sets *finite to false if an x is not finite. Without signs, floats have the order
 * of their bits as integers, with infinities and NaN last. So the loop becomes vector code. */
static float largest_of_row(const uint8_t *row, int64_t samples, bool *finite) {
  uint32_t most = 0, others = 0, infinity = UINT32_C(0x7f800000);
  for (int64_t i = 0; i < samples; i++) {
    uint32_t bits;
    memcpy(&bits, row + i * 4, sizeof bits);
    bits &= UINT32_C(0x7fffffff);
    others |= bits >= infinity;
    most = bits < infinity && bits > most ? bits : most;
  }
  float largest;
  memcpy(&largest, &most, sizeof largest);
  *finite = *finite && !others;
  return largest;
}

/* Returns the largest finite |sample| of an image; for integers, the level of white. Sets *finite: all samples are
 * finite. */
static double largest_level(const gconv_image *image, bool *finite) {
  *finite = true;
  if (image->type != GCONV_F32)
    return (double)gconv_white(image->type);
  float largest = 0;
  for (size_t plane = 0; plane < gconv_planes_of(image); plane++)
    for (int64_t y = 0; y < image->height; y++)
      largest = fmaxf(largest, largest_of_row(gconv_row_at(image, plane, y), (int64_t)gconv_samples_of(image), finite));
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

static gconv_status compare_output(row_check *check, const gconv_comparison *comparison, gconv_verification *result) {
  for (int32_t frame = 0; frame < check->out->frames; frame++) {
    if (check->plan->options.range == GCONV_RANGE_MINMAX)
      GCONV_TRY(find_limits(check, frame));
    GCONV_TRY(gconv_compare_frame(comparison, frame, result));
  }
  return GCONV_OK;
}

gconv_status gconv_pass_verify(const gconv_filter_plan *plan, const gconv_pass *pass, const gconv_image *in,
                               const gconv_holes *holes, const gconv_image *outputs, double tolerance, double budget,
                               gconv_verification *result) {
  row_check check = {.plan = plan, .pass = pass, .in = in, .holes = holes->marks ? holes : NULL};
  gconv_comparison comparison = {plan->base.device->threads, NULL, 0, tolerance, 1, expect_sample, &check, plan->base.scope};
  check.largest = fmax(largest_level(in, &check.finite), fabs((double)pass->problem.border_level));
  GCONV_NEW(check.tap_sums, (size_t)pass->problem.filters, "no memory to verify with");
  sum_taps(pass, check.tap_sums);
  gconv_status status = GCONV_OK;
  for (size_t i = 0; i < gconv_pass_outputs(pass) && status == GCONV_OK; i++) {
    comparison.output = pass->first_output + i;
    comparison.out = check.out = &outputs[comparison.output];
    comparison.step = choose_step(&check, budget);
    check.k = (int32_t)i;
    status = compare_output(&check, &comparison, result);
  }
  free(check.tap_sums);
  return status;
}

/* ---- Single samples ---- */

struct gconv_expected {
  row_check check;
};

gconv_expected *gconv_expected_make(const gconv_filter_plan *plan, const gconv_pass *pass, const gconv_image *in,
                                    const gconv_holes *holes, int32_t in_row, int32_t k) {
  gconv_expected *expected = calloc(1, sizeof *expected);
  if (!expected)
    return NULL;
  expected->check = (row_check){.plan = plan,
                                .pass = pass,
                                .in = in,
                                .in_row = in_row,
                                .holes = holes->marks ? holes : NULL,
                                .out = &plan->base.outputs[pass->first_output + (size_t)k],
                                .k = k,
                                .finite = true,
                                .tap_sums = calloc((size_t)pass->problem.filters, sizeof(double))}; /* no bound is needed */
  if (expected->check.tap_sums)
    return expected;
  free(expected);
  return NULL;
}

void gconv_expected_free(gconv_expected *expected) {
  if (!expected)
    return;
  free(expected->check.tap_sums);
  free(expected);
}

const gconv_image *gconv_expected_output(const gconv_expected *expected) {
  return expected->check.out;
}

int32_t gconv_expected_channel(const gconv_expected *expected, int32_t channel) {
  const row_check *check = &expected->check;
  sample_origin origin = origin_of(check, channel);
  return origin.kept_alpha ? check->in->channels - 1 : origin.channel;
}

int32_t gconv_expected_filter(const gconv_expected *expected, int32_t channel) {
  return origin_of(&expected->check, channel).k;
}

gconv_sample_state gconv_expected_sample(const gconv_expected *expected, const gconv_hole_row *row, int32_t frame, int64_t y,
                                         int64_t x, int32_t channel, double *value) {
  row_check with = expected->check;
  const row_check *check = &with;
  with.known = row;
  const gconv_filter_plan *plan = check->plan;
  sample_origin origin = origin_of(check, channel);
  gconv_sample_state state = state_of_sample(check, frame, y, x, channel);
  if (state != GCONV_SAMPLE_MENDED)
    return state;
  bool colour = !(check->out->alpha && channel == check->out->channels - 1);
  if (plan->after && !plan->parts_alpha)
    *value = combined_response(check, origin.k, frame, y, x, origin.channel).value /
             (double)gconv_white(check->pass->problem.in_type);
  else
    *value = store(check, expect(check, frame, y, x, channel), colour).value;
  return state;
}

double gconv_expected_response(const gconv_expected *expected, int32_t frame, int64_t y, int64_t x, int32_t channel) {
  if (state_of_sample(&expected->check, frame, y, x, channel) == GCONV_SAMPLE_NO_DATA)
    return (double)NAN;
  double value = expect(&expected->check, frame, y, x, channel).value;
  return expected->check.plan->options.range == GCONV_RANGE_SIGNED ? value / 2 + 0.5 : value;
}

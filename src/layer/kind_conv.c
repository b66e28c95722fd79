/* SPDX-License-Identifier: MIT */
/* Convolutions, with bias and activation: how they are explained and verified. Algorithms solve them. */
#include "layer/kind.h"

#include <float.h>
#include <math.h>

/* ---- Explanation ---- */

static void print_border(FILE *text, const gconv_step *pads) {
  const gconv_layer_problem *problem = &pads->whole;
  const int32_t below = problem->out_height - problem->pad_top - problem->height,
                behind = problem->out_width - problem->pad_left - problem->width;
  fprintf(text, "  border %s", gconv_border_name(pads->border));
  if (pads->border == GCONV_BORDER_CONSTANT)
    fprintf(text, ":%.6g", (double)pads->outside);
  fprintf(text, ": the input is padded by %d above, %d below, %d before and %d behind, as a tensor of its own\n",
          problem->pad_top, below > 0 ? below : 0, problem->pad_left, behind > 0 ? behind : 0);
}

/* Says which tensors stay 16 bits wide. */
static void print_kept(FILE *text, const gconv_layer_problem *problem) {
  if (problem->in_kept || problem->out_kept)
    fprintf(text, "  %s %s between layers; sums and activations are float32\n",
            !problem->out_kept  ? "the input stays"
            : !problem->in_kept ? "the output stays"
                                : "input and output stay",
            problem->math == GCONV_MATH_BF16 ? "bfloat16" : "float16");
}

static void explain(const gconv_step *step, const gconv_step *pads, FILE *text) {
  const gconv_layer_problem *problem = &step->problem;
  const gconv_layer_info *info = &step->info;
  if (info->each)
    fprintf(text, "  each channel by itself: channels count as images\n");
  const gconv_layer_problem *padding = pads ? &pads->whole : &step->whole;
  fprintf(text, "  %d filters of %d x %d x %d, %d %s, padding %d above and %d before, stride %d,%d, dilation %d,%d\n",
          info->filters, info->channels / info->groups, info->rows, info->columns, info->groups,
          info->groups == 1 ? "group" : "groups", padding->pad_top, padding->pad_left, problem->stride_y, problem->stride_x,
          problem->dilation_y, problem->dilation_x);
  if (pads)
    print_border(text, pads);
  fprintf(text, "  activation %s", gconv_activation_name(step->softmax ? GCONV_ACTIVATION_SOFTMAX : problem->activation));
  if (problem->activation == GCONV_ACTIVATION_LEAKY ||
      (problem->activation == GCONV_ACTIVATION_SIGMOID && problem->slope != 1))
    fprintf(text, " %.6g", (double)problem->slope);
  fprintf(text, "; algorithm %s, math %s, %s\n", info->algorithm, info->math, gconv_family(info->exact));
  print_kept(text, problem);
  if (info->batch < info->images)
    fprintf(text, "  %d images at a time, so that the workspace stays below %.3g MB\n", info->batch,
            (double)problem->workspace_limit * 1e-6);
  fprintf(text, "  work %.3g GFLOP, workspace %.3g MB, error of a sum at most %.3g of %s + |bias|\n", info->flop * 1e-9,
          (double)info->workspace_bytes * 1e-6, info->error_bound,
          info->bound_of_largest ? "(sum |weight|) * (largest |x|)" : "sum |weight * x|");
}

/* ---- Verification ---- */

static double activate(const gconv_layer_problem *problem, double v) {
  switch (problem->activation) {
  case GCONV_ACTIVATION_RELU:
    return v < 0 ? 0 : v;
  case GCONV_ACTIVATION_LEAKY:
    return v < 0 ? v * (double)problem->slope : v;
  case GCONV_ACTIVATION_SIGMOID:
    return 1 / (1 + exp(-v * (double)problem->slope));
  case GCONV_ACTIVATION_TANH:
    return tanh(v);
  case GCONV_ACTIVATION_NONE:
  case GCONV_ACTIVATION_SOFTMAX:
    break;
  }
  return v;
}

/* Returns the error after the activation: `allowed` times its steepest slope, plus its own error, which is a rounding or the
 * error of exp in activation.h. */
static double activate_error(const gconv_layer_problem *problem, double allowed, double v) {
  switch (problem->activation) {
  case GCONV_ACTIVATION_LEAKY:
    return allowed * fmax(1, fabs((double)problem->slope)) + GCONV_UNIT * fabs(v);
  case GCONV_ACTIVATION_SIGMOID: /* a rounding of slope * v is no more than 0.28 roundings of the result: x s'(x) < 0.28 */
    return allowed * fabs((double)problem->slope) / 4 + 0x1p-20 * fabs(v) + 0.28 * GCONV_UNIT;
  case GCONV_ACTIVATION_TANH:
    return allowed + 0x1p-20 * fabs(v);
  case GCONV_ACTIVATION_NONE:
  case GCONV_ACTIVATION_RELU:
  case GCONV_ACTIVATION_SOFTMAX:
    break;
  }
  return allowed;
}

/* The sums over the taps of one output. */
typedef struct sums {
  double value;     /* w x */
  double magnitude; /* |w| (|x| + its error) */
  double carried;   /* |w| * error of x */
  double weights;   /* |w|, of all taps */
} sums;

static sums sum_at(const gconv_verified_layer *job, int32_t n, int32_t k, int32_t p, int32_t q) {
  const gconv_layer_problem *problem = &job->step->problem;
  int32_t channels = problem->channels / problem->groups, first = k / (problem->filters / problem->groups) * channels;
  const float *weight = job->step->solver->weights + k * gconv_layer_taps(problem);
  sums s = {0};
  for (int32_t c = 0; c < channels; c++) {
    int64_t plane = ((int64_t)n * problem->channels + first + c) * problem->height * problem->width;
    for (int32_t r = 0; r < problem->rows; r++)
      for (int32_t t = 0; t < problem->columns; t++, weight++) {
        int64_t y = (int64_t)p * problem->stride_y - problem->pad_top + (int64_t)r * problem->dilation_y;
        int64_t x = (int64_t)q * problem->stride_x - problem->pad_left + (int64_t)t * problem->dilation_x;
        double w = (double)*weight;
        s.weights += fabs(w);
        if (y < 0 || y >= problem->height || x < 0 || x >= problem->width)
          continue;
        double v = job->in->value[plane + y * problem->width + x], e = job->in->allowed[plane + y * problem->width + x];
        s.value += w * v;
        s.magnitude += fabs(w) * (fabs(v) + e);
        s.carried += fabs(w) * e;
      }
  }
  return s;
}

/* Returns the largest |x|, with its error, of the channels that filter k of image n sees. */
static double largest_of(const gconv_verified_layer *job, int32_t n, int32_t k) {
  const gconv_layer_problem *problem = &job->step->problem;
  int32_t channels = problem->channels / problem->groups, group = k / (problem->filters / problem->groups);
  int64_t plane = gconv_layer_plane(problem), count = channels * plane;
  int64_t first = ((int64_t)n * problem->channels + (int64_t)group * channels) * plane;
  double largest = 0;
  for (int64_t i = first; i < first + count; i++)
    largest = fmax(largest, fabs(job->in->value[i]) + job->in->allowed[i]);
  return largest;
}

static void verify(const gconv_verified_layer *job, size_t turn) {
  const gconv_layer_problem *problem = &job->step->problem;
  const gconv_solver *solver = job->step->solver;
  const double bound = solver->choice.algorithm->error_bound(problem);
  int32_t n = (int32_t)(turn / (size_t)problem->filters), k = (int32_t)(turn % (size_t)problem->filters);
  double bias = (double)gconv_layer_biases(problem, solver->weights)[k];
  bool mixes = solver->choice.algorithm->bound_of_largest;
  double largest = mixes ? largest_of(job, n, k) : 0;
  size_t i = turn * (size_t)problem->out_height * (size_t)problem->out_width;
  for (int32_t p = 0; p < problem->out_height; p++)
    for (int32_t q = 0; q < problem->out_width; q++, i++) {
      sums s = sum_at(job, n, k, p, q);
      double magnitude = mixes ? s.weights * largest : s.magnitude;
      bool certain = isfinite(s.value) && magnitude < FLT_MAX; /* else a sum in float32 may overflow */
      double allowed = certain ? bound * (magnitude + fabs(bias)) + s.carried : INFINITY;
      job->out->value[i] = activate(problem, s.value + bias);
      job->out->allowed[i] = activate_error(problem, allowed, job->out->value[i]);
    }
}

GCONV_LAYER_WORK(conv, true, false, gconv_layer_resolve_conv, GCONV_ROWS_AFTER_ANY, explain, verify, GCONV_BY_ALGORITHMS,
                 GCONV_BY_ALGORITHMS, GCONV_BY_ALGORITHMS);

/* SPDX-License-Identifier: MIT */
/*
 * direct64: the definition with sums in float64. It is for filters of so many taps that a chain of float32 loses digits,
 * such as filters as large as a picture.
 *
 * The product of a weight and a sample is exact, and a sum of n of them is off by n * 2^-53. It is rounded to float32 once,
 * before the bias. A row of weights is multiplied by neighbouring samples, so LANES products are added side by side. The
 * lanes are added at the end, in their order. So results are the same on all processors. One task is one output plane.
 */
#include "base/cpu.h"
#include "planes.h"

enum { LANES = 16 };

/* Adds weights[i] * samples[i * step] to lanes[i % LANES]. */
GCONV_VECTOR_LOOP(add_row,
                  (const float *restrict weights, const float *restrict samples, int64_t count, int64_t step,
                   double *restrict lanes),
                  (weights, samples, count, step, lanes)) {
  int64_t i = 0;
  for (; step == 1 && i + LANES <= count; i += LANES)
    for (int lane = 0; lane < LANES; lane++)
      lanes[lane] += (double)weights[i + lane] * (double)samples[i + lane];
  for (; i < count; i++)
    lanes[i % LANES] += (double)weights[i] * (double)samples[i * step];
}

/* For `count` taps, `dilation` apart, the first at place `at`: first_inside() returns the number of the first tap at place 0
 * or after. first_behind() returns the number of the first tap at place `size` or after. Both return `count` if there is
 * none. */
static int64_t first_inside(int64_t at, int64_t dilation, int64_t count) {
  int64_t first = at >= 0 ? 0 : (-at + dilation - 1) / dilation;
  return first < count ? first : count;
}
static int64_t first_behind(int64_t at, int64_t dilation, int64_t count, int64_t size) {
  return first_inside(at - size, dilation, count);
}

static float sum_at(const gconv_layer_execution *e, int32_t n, int32_t k, int32_t p, int32_t q) {
  const gconv_layer_problem *problem = e->problem;
  const int64_t channels = problem->channels / problem->groups, first = k / (problem->filters / problem->groups) * channels;
  const int64_t top = (int64_t)p * problem->stride_y - problem->pad_top;
  const int64_t left = (int64_t)q * problem->stride_x - problem->pad_left;
  const int64_t begin = first_inside(left, problem->dilation_x, problem->columns);
  const int64_t end = first_behind(left, problem->dilation_x, problem->columns, problem->width);
  const float *weight = e->weights + k * gconv_layer_taps(problem);
  double lanes[LANES] = {0}, sum = 0;
  for (int64_t c = 0; c < channels; c++) {
    const float *plane = e->in + ((int64_t)n * problem->channels + first + c) * problem->height * problem->width;
    for (int64_t r = 0; r < problem->rows; r++, weight += problem->columns) {
      const int64_t y = top + r * problem->dilation_y;
      if (y >= 0 && y < problem->height && begin < end)
        add_row(weight + begin, plane + y * problem->width + left + begin * problem->dilation_x, end - begin,
                problem->dilation_x, lanes);
    }
  }
  for (int lane = 0; lane < LANES; lane++)
    sum += lanes[lane];
  return (float)sum;
}

static gconv_status execute(const gconv_layer_execution *e) {
  return gconv_layer_each_output(e, sum_at);
}

/* Long rows of taps take some 8 times as long as in float32; short rows take as long as in reference.c. */
static double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  double slower = problem->columns >= LANES && problem->dilation_x == 1 ? 8 : 220;
  return machine->launch_ms + gconv_layer_flop(problem) / 2 / (machine->fma_per_ms / slower);
}

const gconv_layer_algorithm gconv_layer_algorithm_cpu_direct64 = {
    .info = {"direct64", "cpu", "sums in float64, where a chain of float32 would lose digits", false},
    .supports = gconv_layer_takes_fp32,
    .tasks = gconv_layer_planes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_float64_bound,
};

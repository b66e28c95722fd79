/* SPDX-License-Identifier: MIT */
/*
 * dense: layers whose filters see the whole image, so a filter has one output: the last layers of classifiers, and layers of
 * squeeze and excitation. A warp computes an output: its lanes share the taps, and add up their sums in a fixed tree.
 *
 * Loads of weights bound the speed. A warp loads its first 1,024 weights while the previous kernel is at work.
 */
#include "../../core/behind.cuh"
#include "../../core/launch.cuh"
#include "../../graph/tail.cuh"
#include "kernels/layer_algorithm.h"

namespace {

constexpr int THREADS = 128, TOGETHER = 8; /* loads of a lane under way at a time */

struct dense_arguments {
  gconv_layer_problem problem;
  const float *in, *weights, *biases;
  float *out;
  int64_t taps;
  gconv_gpu_tail tail;
};

/* Loads WIDE numbers of each of TOGETHER pieces. Past the last tap, they are 0. */
template <int WIDE> DEVICE void load(const float *from, int64_t first, int64_t taps, float (&v)[TOGETHER][WIDE]) {
  UNROLLED_FOR (int i = 0; i < TOGETHER; i++) {
    const int64_t at = first + i * (32 * WIDE);
    if (at >= taps)
      UNROLLED_FOR (int e = 0; e < WIDE; e++)
        v[i][e] = 0;
    else if constexpr (WIDE == 4)
      load_four(from + at, v[i]);
    else
      v[i][0] = from[at];
  }
}

template <int WIDE> __global__ void __launch_bounds__(THREADS) dense(const __grid_constant__ dense_arguments a) {
  const gconv_layer_problem &p = a.problem;
  const int32_t lane = threadIdx.x % 32, k = (int32_t)(blockIdx.x * (THREADS / 32) + threadIdx.x / 32);
  const int64_t piece = 32 * WIDE * TOGETHER;
  const float *weights = a.weights + (k < p.filters ? k : 0) * a.taps;
  float w[TOGETHER][WIDE], x[TOGETHER][WIDE];
  load<WIDE>(weights, lane * WIDE, a.taps, w);
  follow_kernel_before();
  if (k >= p.filters)
    return;
  for (int64_t image = 0; image < p.images; image++) {
    float sum = 0;
    for (int64_t first = 0; first < a.taps; first += piece) {
      if (a.taps > piece)
        load<WIDE>(weights, first + lane * WIDE, a.taps, w);
      load<WIDE>(a.in + image * a.taps, first + lane * WIDE, a.taps, x);
      UNROLLED_FOR (int i = 0; i < TOGETHER; i++)
        UNROLLED_FOR (int e = 0; e < WIDE; e++)
          sum = fmaf(w[i][e], x[i][e], sum);
    }
    UNROLLED_FOR (int half = 16; half > 0; half /= 2)
      sum += __shfl_xor_sync(UINT32_MAX, sum, half);
    const int64_t place = image * p.filters + k;
    if (lane == 0)
      a.out[place] = follow_sum(a.tail, gconv_activate(&p, sum + a.biases[k]), k, place);
  }
}

const char *supports(const gconv_layer_problem *p) {
  return p->math != GCONV_MATH_FP32                       ? "math other than fp32"
         : p->groups != 1                                 ? "groups"
         : p->rows != p->height || p->columns != p->width ? "filters that do not see the whole image"
         : p->pad_top != 0 || p->pad_left != 0            ? "padding"
         : p->out_height != 1 || p->out_width != 1        ? "several outputs of a filter"
         : (p->dilation_y != 1 && p->rows > 1) || (p->dilation_x != 1 && p->columns > 1) ? "dilation"
                                                                                         : NULL;
}

bool is_aligned(const void *data) {
  return (uintptr_t)data % sizeof(float4) == 0;
}

gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *p = e->problem;
  dense_arguments a = {*p, e->in, e->weights, gconv_layer_biases(p, e->weights), e->out, gconv_layer_taps(p)};
  a.tail = tail_of(e->tail);
  const bool fours = a.taps % 4 == 0 && is_aligned(a.in) && is_aligned(a.weights);
  CUDA_TRY(launch_behind(fours ? dense<4> : dense<1>, (unsigned)divide_up(p->filters, THREADS / 32), THREADS, 0,
                         (cudaStream_t)e->stream, a));
  return GCONV_OK;
}

/* Images are taken one after the other. */
double cost(const gconv_layer_problem *p, const gconv_machine *machine) {
  const double taps = (double)gconv_layer_taps(p), rounds = ceil(p->filters / (16.0 * machine->units));
  return machine->launch_ms + 4 * taps * p->filters / (0.7 * machine->bytes_per_ms) +
         5e-4 * rounds * p->images * ceil(taps / 1024);
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_dense = {
    .info = {"dense", "cuda", "filters that see the whole image, as those of a classifier's last layers", false},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
    .tails = GCONV_TAILS_SHORT,
};

/* SPDX-License-Identifier: MIT */
/*
 * depthwise: filters of one channel, one or several for each channel, as in MobileNet, in the order of the definition.
 *
 * There is little to compute for a sample: caches and instructions bound the speed. A thread computes a strip: outputs of a
 * column, one below the other, which share the samples that it loads. With 3 x 3 or 5 x 5 taps the loops are unrolled, and
 * all loads of a row are under way at a time. Strips are numbered through all filters, so small images fill a GPU, too.
 */
#include "../../core/behind.cuh"
#include "../../core/launch.cuh"
#include "../../graph/tail.cuh"
#include "kernels/layer_algorithm.h"

namespace {

constexpr int THREADS = 128, TALL = 4; /* outputs of a thread, with filters of 3 x 3 or 5 x 5 */

struct depthwise_arguments {
  gconv_layer_problem problem;
  const float *in, *weights, *biases;
  float *out;
  int64_t count;      /* strips */
  int32_t strips;     /* of a column */
  uint32_t per_group; /* filters of a channel */
  gconv_gpu_tail tail;
};

/* The outputs of a thread: the first of a strip of filter k of an image. */
struct strip {
  int64_t plane;
  int32_t k, x, y;
  const float *in;
};

template <class Index> DEVICE strip strip_of(const depthwise_arguments &a, int64_t i, int32_t tall) {
  const gconv_layer_problem &p = a.problem;
  const Index line = (Index)i / (Index)p.out_width, plane = line / (Index)a.strips, image = plane / (Index)p.filters;
  const int32_t k = (int32_t)(plane - image * (Index)p.filters), channel = (int32_t)((uint32_t)k / a.per_group);
  return {(int64_t)plane, k, (int32_t)((Index)i - line * (Index)p.out_width),
          (int32_t)(line - plane * (Index)a.strips) * tall,
          a.in + ((int64_t)image * p.channels + channel) * ((int64_t)p.height * p.width)};
}

DEVICE void store(const depthwise_arguments &a, const strip &s, int32_t row, float sum) {
  const gconv_layer_problem &p = a.problem;
  const int64_t place = (s.plane * p.out_height + row) * p.out_width + s.x;
  a.out[place] = follow_sum(a.tail, gconv_activate(&p, sum + __ldg(a.biases + s.k)), s.k, place);
}

/* SIZE: rows and columns of the filter; STRIDE: the stride of both directions. */
template <int SIZE, int STRIDE, class Index>
__global__ void __launch_bounds__(THREADS) convolve_strips(const __grid_constant__ depthwise_arguments a) {
  const gconv_layer_problem &p = a.problem;
  follow_kernel_before();
  for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < a.count; i += (int64_t)gridDim.x * THREADS) {
    const strip s = strip_of<Index>(a, i, TALL);
    const float *weight = a.weights + s.k * (SIZE * SIZE);
    const int32_t x = s.x * STRIDE - p.pad_left, y = s.y * STRIDE - p.pad_top;
    float sums[TALL] = {}, w[SIZE * SIZE];
    UNROLLED_FOR (int t = 0; t < SIZE * SIZE; t++)
      w[t] = __ldg(weight + t);
    UNROLLED_FOR (int row = 0; row < (TALL - 1) * STRIDE + SIZE; row++) {
      const float *from = s.in + (int64_t)(y + row) * p.width + x;
      const bool there = (uint32_t)(y + row) < (uint32_t)p.height;
      float v[SIZE];
      UNROLLED_FOR (int c = 0; c < SIZE; c++)
        v[c] = there && (uint32_t)(x + c) < (uint32_t)p.width ? from[c] : 0.0f;
      UNROLLED_FOR (int t = 0; t < TALL; t++)
        UNROLLED_FOR (int c = 0; c < SIZE; c++)
          if (row - t * STRIDE >= 0 && row - t * STRIDE < SIZE)
            sums[t] = fmaf(w[(row - t * STRIDE) * SIZE + c], v[c], sums[t]);
    }
    UNROLLED_FOR (int t = 0; t < TALL; t++)
      if (s.y + t < p.out_height)
        store(a, s, s.y + t, sums[t]);
  }
}

__global__ void __launch_bounds__(THREADS) convolve(const __grid_constant__ depthwise_arguments a) {
  const gconv_layer_problem &p = a.problem;
  follow_kernel_before();
  for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < a.count; i += (int64_t)gridDim.x * THREADS) {
    const strip s = strip_of<uint64_t>(a, i, 1);
    const float *weight = a.weights + (int64_t)s.k * p.rows * p.columns;
    float sum = 0;
    for (int32_t r = 0; r < p.rows; r++) {
      const int32_t row = s.y * p.stride_y - p.pad_top + r * p.dilation_y;
      UNROLLED_8_FOR(int32_t c = 0; c < p.columns; c++) {
        const int32_t column = s.x * p.stride_x - p.pad_left + c * p.dilation_x;
        const bool inside = (uint32_t)row < (uint32_t)p.height && (uint32_t)column < (uint32_t)p.width;
        sum = fmaf(__ldg(weight + r * p.columns + c), inside ? s.in[(int64_t)row * p.width + column] : 0.0f, sum);
      }
    }
    store(a, s, s.y, sum);
  }
}

const char *supports(const gconv_layer_problem *problem) {
  return problem->math != GCONV_MATH_FP32       ? "math other than fp32"
         : problem->groups != problem->channels ? "several channels to a filter"
                                                : NULL;
}

typedef void (*kernel)(depthwise_arguments);

/* Returns the kernel whose threads compute several outputs, or NULL if it does not take the filter. */
kernel strips_of(const gconv_layer_problem *p) {
  const bool plain = p->rows == p->columns && p->stride_y == p->stride_x && p->dilation_y == 1 && p->dilation_x == 1;
  const bool few = (int64_t)p->images * p->filters * p->out_height * p->out_width < INT32_MAX;
  if (!plain || !few || p->stride_y > 2)
    return NULL;
  return p->rows == 3   ? p->stride_y == 1 ? convolve_strips<3, 1, uint32_t> : convolve_strips<3, 2, uint32_t>
           : p->rows == 5 ? p->stride_y == 1 ? convolve_strips<5, 1, uint32_t> : convolve_strips<5, 2, uint32_t>
                          : NULL;
}

gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *p = e->problem;
  const kernel strips = strips_of(p);
  depthwise_arguments a = {*p, e->in, e->weights, gconv_layer_biases(p, e->weights), e->out};
  a.strips = strips ? (p->out_height - 1) / TALL + 1 : p->out_height;
  a.count = (int64_t)p->images * p->filters * a.strips * p->out_width;
  a.per_group = (uint32_t)(p->filters / p->groups);
  a.tail = tail_of(e->tail);
  CUDA_TRY(launch_behind(strips ? strips : convolve, blocks_for(a.count, THREADS, 1 << 20), THREADS, 0,
                         (cudaStream_t)e->stream, a));
  return GCONV_OK;
}

/* Counts the instructions for each tap of an output, and for each output. */
double cost(const gconv_layer_problem *p, const gconv_machine *machine) {
  const double outputs = (double)p->images * p->filters * p->out_height * p->out_width;
  const double each = strips_of(p) ? 2.0 * p->rows * p->columns + 30 : 6.0 * p->rows * p->columns + 60;
  return machine->launch_ms + outputs * each / (0.5 * machine->fma_per_ms) +
         ((double)p->images * (double)gconv_layer_in_bytes(p) + outputs * 4) / machine->bytes_per_ms;
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_depthwise = {
    .info = {"depthwise", "cuda", "filters of one channel, as in MobileNet", true},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
    .tails = GCONV_TAILS_SHORT,
};

/* SPDX-License-Identifier: MIT */
/*
 * depthwise: filters of one channel, one or several for each channel, as in MobileNet. A thread makes an output, in the
 * order of the definition; outputs are numbered through all filters, so small images fill a GPU, too.
 *
 * There is little to compute for a sample: caches and instructions bound it. With 3 x 3 or 5 x 5 taps the loops are
 * unrolled, and all loads of an output are under way at a time.
 */
#include "../../core/launch.cuh"
#include "kernels/activation.h"
#include "kernels/layer_algorithm.h"

namespace {

constexpr int THREADS = 256;

struct depthwise_arguments {
  gconv_layer_problem problem;
  const float *in, *weights, *biases;
  float *out;
  int64_t count;      /* outputs */
  uint32_t per_group; /* filters of a channel */
};

/* SIZE: rows and columns of the filter; 0: any. */
template <int SIZE> __global__ void __launch_bounds__(THREADS) convolve(const __grid_constant__ depthwise_arguments a) {
  const gconv_layer_problem &p = a.problem;
  const int32_t rows = SIZE ? SIZE : p.rows, columns = SIZE ? SIZE : p.columns;
  for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < a.count; i += (int64_t)gridDim.x * THREADS) {
    const int64_t line = quotient(i, p.out_width), plane = quotient(line, p.out_height), image = quotient(plane, p.filters);
    const int32_t k = (int32_t)(plane - image * p.filters), channel = (int32_t)((uint32_t)k / a.per_group);
    const int32_t y = (int32_t)(line - plane * p.out_height) * p.stride_y - p.pad_top;
    const int32_t x = (int32_t)(i - line * p.out_width) * p.stride_x - p.pad_left;
    const float *in = a.in + (image * p.channels + channel) * ((int64_t)p.height * p.width);
    const float *weight = a.weights + (int64_t)k * rows * columns;
    float sum = 0;
    UNROLLED_8_FOR(int32_t r = 0; r < rows; r++) {
      const int32_t row = y + r * p.dilation_y;
      UNROLLED_8_FOR(int32_t s = 0; s < columns; s++) {
        const int32_t column = x + s * p.dilation_x;
        const bool inside = (uint32_t)row < (uint32_t)p.height && (uint32_t)column < (uint32_t)p.width;
        sum = fmaf(__ldg(weight + r * columns + s), inside ? __ldg(in + (int64_t)row * p.width + column) : 0.0f, sum);
      }
    }
    a.out[i] = gconv_activate(&p, sum + __ldg(a.biases + k));
  }
}

const char *supports(const gconv_layer_problem *problem) {
  return problem->math != GCONV_MATH_FP32       ? "math other than fp32"
         : problem->groups != problem->channels ? "several channels to a filter"
                                                : NULL;
}

gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *p = e->problem;
  depthwise_arguments a = {*p, e->in, e->weights, gconv_layer_biases(p, e->weights), e->out};
  a.count = (int64_t)p->images * p->filters * p->out_height * p->out_width;
  a.per_group = (uint32_t)(p->filters / p->groups);
  const int size = p->rows == p->columns ? p->rows : 0;
  (size == 3   ? convolve<3>
   : size == 5 ? convolve<5>
               : convolve<0>)<<<blocks_for(a.count, THREADS, 1 << 20), THREADS, 0, (cudaStream_t)e->stream>>>(a);
  CUDA_TRY(cudaGetLastError());
  return GCONV_OK;
}

/* Counts instructions: six of a tap, 60 of an output. */
double cost(const gconv_layer_problem *p, const gconv_machine *machine) {
  const double outputs = (double)p->images * p->filters * p->out_height * p->out_width;
  return machine->launch_ms + outputs * (6.0 * p->rows * p->columns + 60) / (0.5 * machine->fma_per_ms) +
         outputs * 4 / machine->bytes_per_ms;
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_depthwise = {
    .info = {"depthwise", "cuda", "filters of one channel, as in MobileNet", true},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
};

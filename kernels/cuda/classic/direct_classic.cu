/* SPDX-License-Identifier: MIT */
/*
 * direct-classic: the first kernel of every course. A thread makes one output sample, from global memory.
 *
 *      input                       output
 *      . . . . . . . .             . . . . . . . .        thread (q, p) reads the R x S samples under the filter, tap
 *      . +-------+ . .             . . . . . . . .        by tap, and writes one:
 *      . | R x S | . .    ---->    . . . Y . . . .
 *      . |       | . .             . . . . . . . .            y(p, q) = sum over r, s of
 *      . +-------+ . .             . . . . . . . .                      tap[r][s] * x(p + r - R/2, q + s - S/2)
 *
 * Arithmetic: 2 R S flop an output. Bytes: R S samples are read, but neighbouring threads read nearly the same, so all reads
 * but the first come from the caches. Memory itself sees each sample once: 8 bytes an output (f32), as little as can be.
 *
 * The bound is neither memory nor arithmetic, but the instructions around each multiply-add. A tap takes dozens: is the
 * place above, below, left or right of the image? where is it? load it, load the tap, convert the sample. On an H200, 73
 * were counted for each multiply-add (7 x 7, f32): 61 in the loop over s (by its machine code), the others once a row or
 * once an output. A multiprocessor issues 128 instructions of threads a cycle, whatever they do, so this kernel reaches 1%
 * of the peak.
 *
 * The taps are kernel parameters, which lie in constant memory: all threads of a warp want the same tap at the same time,
 * and get it in one access. (A __constant__ array would do as well. But there is one for the whole program, and a second
 * convolution in another stream would overwrite it.) Taps that do not fit there are read from global memory.
 */
#include "classic.cuh"

namespace {

enum { BLOCK_WIDTH = 32, BLOCK_HEIGHT = 8, CONSTANT_TAPS = 7936 }; /* constants of a kernel: 32 KB, less the arguments */

template <int TAPS> struct parameters : arguments {
  const float *weights;
  float taps[TAPS]; /* K x R x S; or 1 that is not used: they are in `weights` alone */
};

template <class In, int TAPS> DEVICE float sum_of_filter(const parameters<TAPS> &a, const place &at, int32_t k) {
  const gconv_problem &problem = a.problem;
  const int64_t top = at.p * problem.stride_y - problem.pad_top, left = at.q * problem.stride_x - problem.pad_left;
  int64_t tap = (int64_t)k * problem.rows * problem.columns;
  float sum = 0.0f;
  for (int64_t r = 0; r < problem.rows; r++)
    for (int64_t s = 0; s < problem.columns; s++, tap++) {
      const float x =
          sample_at<In>(problem, at.in, a.in_row, top + r * problem.dilation_y, left + s * problem.dilation_x, at.c);
      sum = fmaf(TAPS > 1 ? a.taps[tap] : a.weights[tap], x, sum);
    }
  return sum;
}

template <class In, class Out, int TAPS>
__global__ void __launch_bounds__(1024) convolve(const __grid_constant__ parameters<TAPS> a) {
  const gconv_problem &problem = a.problem;
  const int64_t channels = (int64_t)problem.images * problem.planes * problem.channels;
  const int64_t own_row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y, rows = (int64_t)gridDim.y * blockDim.y;
  const int64_t own_column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, columns = (int64_t)gridDim.x * blockDim.x;
  for (int64_t z = blockIdx.z; z < channels; z += gridDim.z) {
    uint8_t *out;
    place at = begin_channel(a, z, &out);
    for (at.p = own_row; at.p < problem.out_height; at.p += rows)
      for (at.q = own_column; at.q < problem.out_width; at.q += columns)
        store_sample<In, Out>(a, a.weights, at, out + at.p * a.out_row + at.q * a.out_pixel,
                              [&](int32_t k) { return sum_of_filter<In>(a, at, k); });
  }
}

/* ---- The host ---- */

template <class In, class Out, int TAPS> void launch(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const dim3 block = block_for(problem, 1024, BLOCK_WIDTH, BLOCK_HEIGHT);
  parameters<TAPS> a = {common_arguments(execution), execution->weights, {}};
  for (int64_t t = 0; TAPS > 1 && t < gconv_tap_count(problem); t++)
    a.taps[t] = execution->host_weights[t];
  convolve<In, Out, TAPS><<<grid_of(problem, block), block, 0, (cudaStream_t)execution->stream>>>(a);
}

gconv_status execute(const gconv_execution *execution) {
  const bool fit = gconv_tap_count(execution->problem) <= CONSTANT_TAPS;
  return launch_by_types(execution->problem, [&](auto in, auto out) {
    auto *start = fit ? launch<decltype(in), decltype(out), CONSTANT_TAPS> : launch<decltype(in), decltype(out), 1>;
    start(execution);
  });
}

const char *supports(const gconv_problem *) {
  return NULL;
}

/* 25 a tap is an early guess, a third of what was counted. `auto` never takes a classic by its own name; direct passes this
 * on for what it leaves to it. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  return classic_ms(problem, machine, 25.0 * problem->rows * problem->columns + 60);
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_direct_classic = {
    .info = {"direct-classic", "cuda", "a thread an output, from global memory: to learn from", true},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
    .classic = true,
};

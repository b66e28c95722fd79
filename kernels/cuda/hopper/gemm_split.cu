/* SPDX-License-Identifier: MIT */
/* gemm-split: layers of small images, whose sums are shared among blocks (split.cuh). */
#include "split.cuh"
#include "tensor.cuh"

namespace {

using namespace split_layers;

typedef split_layers::cut split_cut;

const char *supports(const gconv_layer_problem *p) {
  return p->math != GCONV_MATH_FP32 && p->math != GCONV_MATH_TF32 ? "math other than fp32 and tf32"
         : p->groups != 1                                         ? "groups"
         : !split_layers::cut_problem(p).fits                     ? "filters or images too large"
                                                                  : NULL;
}

/* ---- Weights in slices of 32 taps, in the order of a warp's lanes; then the places of taps, and scales ---- */

size_t weight_floats(const split_cut &c) {
  return (size_t)c.filter_tiles * (size_t)c.filters * (size_t)c.slices * DEPTH;
}

size_t prepared_floats(const gconv_layer_problem *p) {
  const split_cut c = split_layers::cut_problem(p);
  return weight_floats(c) + 2 * (size_t)c.slices * DEPTH + (size_t)p->filters;
}

/* Returns the divisor of a filter's weights: 1, or a power of two if all weights are tiny, or some are huge. */
float scale_of(const float *weights, int64_t taps) {
  float largest = 0;
  for (int64_t i = 0; i < taps; i++)
    largest = std::max(largest, std::fabs(weights[i]));
  return largest < 0x1p-100f ? 0x1p-24f : largest >= 0x1p126f ? 0x1p24f : 1;
}

gconv_status prepare(const gconv_layer_problem *p, const float *weights, float *prepared) {
  const split_cut c = split_layers::cut_problem(p);
  const int64_t taps = gconv_layer_taps(p), of_slice = (int64_t)c.filters * DEPTH;
  int32_t *places = (int32_t *)(prepared + weight_floats(c));
  float *scales = (float *)(places + 2 * c.slices * (int64_t)DEPTH);
  for (int32_t k = 0; k < p->filters; k++)
    scales[k] = scale_of(weights + k * taps, taps);
  /* The order of weights, the innermost first: 4 numbers of a lane, 32 lanes, groups of 8 taps, groups of 16 filters. */
  for (int64_t i = 0; i < (int64_t)weight_floats(c); i++) {
    const int64_t slice = i / of_slice, at = i % of_slice, e = at % 4, lane = at / 4 % 32, group = at / 128;
    const int64_t tall = group / (DEPTH / 8), deep = group % (DEPTH / 8);
    const int64_t k = slice / c.slices * c.filters + tall * 16 + lane / 4 + e % 2 * 8;
    const int64_t tap = slice % c.slices * DEPTH + deep * 8 + lane % 4 + e / 2 * 4;
    prepared[i] = k < p->filters && tap < taps ? weights[k * taps + tap] / scales[k] : 0.0f;
  }
  for (int64_t i = 0; i < (int64_t)c.slices * DEPTH; i++) {
    const int64_t area = (int64_t)p->rows * p->columns, channel = i / area;
    const int64_t y = i % area / p->columns * p->dilation_y, x = i % p->columns * p->dilation_x;
    places[2 * i] = i < taps ? (int32_t)(channel * gconv_layer_plane(p) + y * p->width + x) : 0;
    places[2 * i + 1] = (int32_t)(i < taps ? y << 16 | x : (int64_t)OUTSIDE << 16);
  }
  return GCONV_OK;
}

/* ---- Execution ---- */

typedef void (*kernel)(split_arguments);

kernel kernel_of(const gconv_layer_problem *p, const split_cut &c) {
  const bool one = p->math == GCONV_MATH_TF32;
  return c.filters == 32 ? one ? convolve_split<32, 1> : convolve_split<32, 3>
         : one ? convolve_split<64, 1>
                         : convolve_split<64, 3>;
}

gconv_status acquire(const gconv_layer_execution *e, void **state) {
  if (const char *obstacle = tensor::available())
    return gconv_fail(GCONV_UNSUPPORTED, "%s", obstacle);
  const split_cut c = split_layers::cut_problem(e->problem);
  GCONV_TRY(allow_shared(kernel_of(e->problem, c), SHARED_BYTES));
  return keep_cut(c, state);
}

/* Returns whether the samples of four neighbouring outputs are four neighbours of a plane. */
bool takes_fours(const gconv_layer_problem *p) {
  return p->rows == 1 && p->columns == 1 && p->stride_y == 1 && p->stride_x == 1 && p->pad_top == 0 && p->pad_left == 0 &&
         gconv_layer_plane(p) % 4 == 0 && p->out_height == p->height && p->out_width == p->width;
}

gconv_status execute(const gconv_layer_execution *e) {
  const split_cut &c = kept_cut<split_cut>(e);
  const gconv_layer_problem *p = e->problem;
  const float *prepared = gconv_layer_prepared(p, e->weights);
  split_arguments a = {};
  a.c = c, a.problem = *p;
  a.in = e->in, a.out = e->out;
  a.weights = prepared, a.taps = (const int2 *)(prepared + weight_floats(c));
  a.scales = (const float *)(a.taps + (int64_t)c.slices * DEPTH);
  a.biases = gconv_layer_biases(p, e->weights);
  a.pixels = (int64_t)p->images * p->out_height * p->out_width;
  a.plane = divisor::of((int64_t)p->out_height * p->out_width), a.width = divisor::of(p->out_width);
  a.tail = tail_of(e->tail);
  a.fours = takes_fours(p) && (uintptr_t)e->in % 16 == 0;
  const dim3 grid((unsigned)c.pixel_tiles, (unsigned)c.filter_tiles, (unsigned)c.splits);
  CUDA_TRY(launch_clusters_behind(kernel_of(p, c), grid, (unsigned)c.splits, BLOCK, (size_t)split_layers::block_bytes(c),
                                  (cudaStream_t)e->stream, a));
  CUDA_TRY(cudaPeekAtLastError());
  return GCONV_OK;
}

/* ---- Estimates ---- */

/* `measured` is the time that an H200 took, relative to the estimate. It depends on the math, and on whether samples are
 * loaded by fours. */
double cost(const gconv_layer_problem *p, const gconv_machine *machine) {
  const split_cut c = split_layers::cut_problem(p);
  const double measured = takes_fours(p) ? 0.9 : p->math == GCONV_MATH_TF32 ? 1.05 : 1.25;
  return machine->launch_ms + measured * c.cycles * (double)PROCESSORS / machine->units / CYCLES_PER_MS;
}

/* The bound is found as in tensor.cuh: an instruction adds 8 products of a slice; slices are added as floats. Low digits are
 * cut off instead of rounded, so each low digit may be off by 2 u * u. */
double error_bound(const gconv_layer_problem *p) {
  const split_cut c = split_layers::cut_problem(p);
  const double u = 0x1p-11, rounded = ((double)c.slices / 4 + c.splits + 4) * 0x1p-22, instructions = DEPTH / 8;
  return p->math == GCONV_MATH_TF32 ? 2.1 * u + rounded + instructions * 0x1p-22
                                    : 5.2 * u * u + rounded + 3 * instructions * 0x1p-22;
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_gemm_split = {
    .info = {"gemm-split", "cuda", "small images, with sums shared among blocks, on tensor cores", false},
    .available = tensor::available,
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
    .acquire = acquire,
    .dismiss = free,
    .tails = GCONV_TAILS_SHORT,
};

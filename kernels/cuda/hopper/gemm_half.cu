/* SPDX-License-Identifier: MIT */
/* gemm-half: layers in float16 or bfloat16, as --math says, whose tensors keep this type between layers (half.cuh). */
#include "device/overflow_cuda.h"
#include "half.cuh"
#include "tensor.cuh"

namespace {

using namespace half_layers;

typedef half_layers::cut half_cut;

const char *supports(const gconv_layer_problem *p) {
  return p->math != GCONV_MATH_FP16 && p->math != GCONV_MATH_BF16 ? "math other than fp16 and bf16"
         : p->groups != 1                                         ? "groups"
         : is_curved(p)                                           ? "activations but relu and leaky"
         : !half_layers::cut_problem(p).fits                      ? "filters too large for shared memory"
                                                                  : NULL;
}

size_t workspace_bytes(const gconv_layer_problem *p) {
  gconv_layer_problem kept = *p;
  kept.in_kept = true;
  return half_layers::cut_problem(p).packs ? (size_t)p->images * (size_t)gconv_layer_in_bytes(&kept) : 0;
}

/* ---- Weights ---- */

size_t prepared_floats(const gconv_layer_problem *p) {
  const half_cut c = half_layers::cut_problem(p);
  return ((size_t)half_layers::weight_bytes(c) / 4 + (size_t)c.filters) * (size_t)c.filter_tiles;
}

/* Writes weights in the order in which tensor cores read them: steps, then the two units of 8 numbers of a step, then
 * columns (filter_of()). After the weights comes 1 / scale of each filter. */
template <class E> void prepare_as(const gconv_layer_problem *p, const float *weights, float *prepared) {
  const half_cut c = half_layers::cut_problem(p);
  const int64_t taps = gconv_layer_taps(p), count = half_layers::weight_bytes(c) / 2;
  float *scales = prepared + (size_t)half_layers::weight_bytes(c) / 4 * (size_t)c.filter_tiles;
  uint16_t *to = (uint16_t *)prepared;
  tensor::scale_filters(p, weights, E::SCALED, c.filters * c.filter_tiles, scales);
  for (int32_t tile = 0; tile < c.filter_tiles; tile++)
    for (int64_t i = 0; i < count; i++, to++) {
      const int32_t step = (int32_t)(i / (STEP_NUMBERS * c.filters)), at = (int32_t)(i % (STEP_NUMBERS * c.filters));
      const int32_t k = tile * c.filters + half_layers::filter_of(c.filters, at / 8 % c.filters),
                    n = at / (8 * c.filters) * 8 + at % 8;
      const int64_t source = half_layers::weight_of(c, p, k, step, n);
      float left;
      *to = E::round(source < 0 ? 0.0f : weights[source] / scales[source / taps], &left);
    }
}

gconv_status prepare(const gconv_layer_problem *p, const float *weights, float *prepared) {
  p->math == GCONV_MATH_BF16 ? prepare_as<tensor::bf16>(p, weights, prepared)
                             : prepare_as<tensor::fp16>(p, weights, prepared);
  return GCONV_OK;
}

/* ---- Execution ---- */

typedef void (*kernel)(half_arguments);

template <class E, int N> kernel kernel_as(bool pairs, bool kept) {
  return pairs  ? kept ? convolve_half<E, N, true, true> : convolve_half<E, N, true, false>
          : kept ? convolve_half<E, N, false, true>
                : convolve_half<E, N, false, false>;
}
template <class E> kernel kernel_of(const half_cut &c, bool kept) {
  return c.filters == 8    ? kernel_as<E, 8>(c.pairs, kept)
         : c.filters == 16 ? kernel_as<E, 16>(c.pairs, kept)
         : c.filters == 32 ? kernel_as<E, 32>(c.pairs, kept)
         : c.filters == 64 ? kernel_as<E, 64>(c.pairs, kept)
         : kept            ? convolve_half<E, 128, false, true>
                           : convolve_half<E, 128, false, false>;
}
kernel kernel_of(const gconv_layer_problem *p, const half_cut &c) {
  return p->math == GCONV_MATH_BF16 ? kernel_of<tensor::bf16>(c, p->out_kept) : kernel_of<tensor::fp16>(c, p->out_kept);
}

/* What a plan keeps: how many blocks of the kernel a multiprocessor holds, and where overflows are noted. */
struct state {
  half_cut c;
  int blocks;
  int32_t *overflow;
};

gconv_status acquire(const gconv_layer_execution *e, void **result) {
  if (const char *obstacle = tensor::available())
    return gconv_fail(GCONV_UNSUPPORTED, "%s", obstacle);
  state *made = (state *)malloc(sizeof *made);
  if (!made)
    return gconv_fail(GCONV_NO_MEMORY, "out of memory");
  *made = {half_layers::cut_problem(e->problem), 1, gconv_cuda_overflow()};
  *result = made;
  const kernel run = kernel_of(e->problem, made->c);
  GCONV_TRY(allow_shared(run, BLOCK_BYTES));
  CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&made->blocks, run, made->c.workers * tensor::GROUP,
                                                         (size_t)block_bytes(made->c)));
  made->blocks = std::max(made->blocks, 1);
  return GCONV_OK;
}

/* Converts the input's floats to a kept tensor in the workspace. */
template <class E> cudaError_t keep_as(const gconv_layer_execution *e) {
  const gconv_layer_problem *p = e->problem;
  const int64_t plane = gconv_layer_plane(p), units = gconv_layer_kept_channels(p->channels) / 8;
  const int64_t blocks = std::min<int64_t>((plane * units * p->images + 255) / 256, 16 * multiprocessors());
  return launch_behind(keep_floats<E>, (unsigned)blocks, 256, 0, (cudaStream_t)e->stream, e->in, (int64_t)p->images, plane,
                       p->channels, (int32_t)units, (uint4 *)e->workspace, ((const state *)e->state)->overflow);
}

gconv_status execute(const gconv_layer_execution *e) {
  const state *s = (const state *)e->state;
  const half_cut &c = s->c;
  const gconv_layer_problem *p = e->problem;
  const float *prepared = gconv_layer_prepared(p, e->weights);
  half_arguments a = {};
  a.c = c, a.problem = *p;
  a.in = c.packs ? e->workspace : (const void *)e->in, a.out = e->out;
  a.weights = (const uint8_t *)prepared;
  a.filter_scales = prepared + (size_t)half_layers::weight_bytes(c) / 4 * (size_t)c.filter_tiles;
  a.biases = gconv_layer_biases(p, e->weights);
  a.across = divisor::of(c.across), a.down = divisor::of(c.down);
  a.parts = divisor::of(c.parts), a.columns = divisor::of(c.in_columns), a.rows = divisor::of(c.in_rows);
  a.in_line = divisor::of(c.in_columns * c.parts), a.lines_together = std::max(tensor::GROUP / (c.in_columns * c.parts), 1);
  a.stages = (uint32_t)(c.chunks * c.steps / c.stage_steps);
  a.line = straight_of(p, false);
  a.slopes = slopes_of(e->tail), a.overflow = s->overflow;
  a.kept = (int32_t)gconv_layer_kept_channels(p->filters);
  if (c.packs)
    CUDA_TRY(p->math == GCONV_MATH_BF16 ? keep_as<tensor::bf16>(e) : keep_as<tensor::fp16>(e));
  const int64_t at_a_time = std::max<int64_t>((int64_t)multiprocessors() * s->blocks / c.filter_tiles, 1);
  const int64_t needed = (c.tiles + c.workers - 1) / c.workers, rounds = (needed + at_a_time - 1) / at_a_time;
  const dim3 grid((unsigned)((needed + rounds - 1) / rounds), (unsigned)c.filter_tiles);
  CUDA_TRY(
      launch_behind(kernel_of(p, c), grid, c.workers * tensor::GROUP, (size_t)block_bytes(c), (cudaStream_t)e->stream, a));
  CUDA_TRY(cudaPeekAtLastError());
  return GCONV_OK;
}

/* ---- Estimates ---- */

double cost(const gconv_layer_problem *p, const gconv_machine *machine) {
  const half_cut c = half_layers::cut_problem(p);
  const double products =
      (double)c.tiles * 64 * heights_of(c.filters) * c.chunks * c.steps * STEP_NUMBERS * c.filters * c.filter_tiles;
  const double bytes = (double)p->images * (double)(gconv_layer_in_bytes(p) + gconv_layer_out_bytes(p));
  const double packed = c.packs ? 2.0 * (double)workspace_bytes(p) + (double)p->images * (double)gconv_layer_in_bytes(p) : 0;
  const double ms =
      std::max(products / (0.5 * 2048 * machine->units * CYCLES_PER_MS), bytes / (0.7 * machine->bytes_per_ms));
  return ms + packed / (0.7 * machine->bytes_per_ms) + machine->launch_ms * (c.packs ? 2 : 1);
}

/* Weights, samples and a kept output are rounded by u = 2^-11 (bf16: 2^-8). Sums lose 2^-22 an instruction (tensor.cuh). In
 * float16, samples below 2^-14 have fewer bits. So the bound is relative to the largest sample, if that is 2^-3 or more. */
double error_bound(const gconv_layer_problem *p) {
  const double u = p->math == GCONV_MATH_BF16 ? 0x1p-8 : 0x1p-11;
  const half_cut c = half_layers::cut_problem(p);
  return 3.2 * u + ((double)c.chunks * c.steps + 4) * 0x1p-22;
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_gemm_half = {
    .info = {"gemm-half", "cuda", "numbers of 16 bits, which stay so between layers, on tensor cores", false},
    .available = tensor::available,
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .bound_of_largest = true,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
    .acquire = acquire,
    .dismiss = free,
    .tails = GCONV_TAILS_SLOPES,
    .keeps = true,
};

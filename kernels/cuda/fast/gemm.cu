/* SPDX-License-Identifier: MIT */
/*
 * gemm: the product of im2col, without making its matrix (implicit GEMM).
 *
 * The sums are a product of matrices: K x RS taps by RS x PQ samples. Row (r, s) of the samples is the input, shifted by r
 * rows and s columns. A block makes a tile of that product: F filters for each of its warps, by a piece of some output rows.
 * It copies the input rows that its taps reach into shared memory once, as floats, with borders resolved. It never makes the
 * matrix of samples: a tap reads the same samples at another offset. Each thread holds F x V sums in registers.
 *
 * Neighbouring outputs use the same samples, one tap later. This makes the kernel fast. Samples of a row whose numbers are
 * equal modulo D = dilation * channels form a phase. Within a phase, tap s of output v lies on sample v + s. A thread has V
 * neighbouring outputs of a phase. So it needs one new sample for each tap, which replaces the oldest in a window of
 * registers:
 *
 *     tap 0   a b c d e f g h        window, V = 8
 *     tap 1   b c d e f g h i        i replaces a; unrolling renames the registers, nothing is moved
 *     tap 2   c d e f g h i j
 *
 * For F = V = 8, a tap costs 64 multiply-adds, one load of a sample, and two loads of four taps, which are the same for all
 * threads of a warp. The kernel does 2 K R S flop a sample, and moves only the bytes of input and output. On an H200, 64
 * filters of 7 x 7 reach 35 TFLOP/s, 64 of 31 x 31 reach 41.
 *
 * gemm is the fastest for several filters (banks of Gabor filters, learned ones). A single small filter is faster without
 * staging (direct). With a stride in x above 1, outputs do not share samples in this way. Then a thread has V outputs that
 * are far apart, and a tap loads V samples.
 *
 * Each sum adds the taps in the order of the definition: the exact family.
 *
 * gemm_cut.cuh cuts a problem into tiles. gemm_sum.cuh stages and multiplies. This file stores the sums.
 */
#include "../core/alpha.cuh"
#include "../core/launch.cuh"
#include "gemm_sum.cuh"

#include <math.h>

namespace {

/* ---- Storing ---- */

/* Threads store the sums of a tile directly if possible. Otherwise the sums go through shared memory, where they are
 * combined, or brought into the order of the output. */

/* Returns the address of row `i` of a tile in the output of filter k, or NULL past the last row. */
DEVICE uint8_t *out_row(const cut &a, const origin &at, int32_t i, int32_t k) {
  const int64_t p = at.row + (int64_t)i * a.out_step;
  return p < a.problem.out_height ? at.out + p * a.out_row + k * a.out_filter : NULL;
}

/* Finishes a sum. For combined values, divisor is 1 and bias 0. */
DEVICE float value_of(const cut &a, float sum, float divisor, float bias) {
  const gconv_epilogue &epilogue = a.problem.epilogue;
  return a.plain ? fmaf(sum, epilogue.scale, epilogue.offset) : gconv_finish(gconv_response(sum, divisor, bias), &epilogue);
}

/* Stores four values from sample `sample` of a row on; values past the end of the row are left out. */
DEVICE void put_four(const cut &a, const float (&y)[4], uint8_t *row, int64_t sample) {
  const gconv_problem &problem = a.problem;
  const int64_t left = (int64_t)problem.out_width * problem.channels - sample;
  const int count = left < 4 ? (int)left : 4;
  BY_TYPE(problem.out_type, Type, store_four(y, (Type *)row + sample, 0, count));
}

/* Stores one value at sample `i` of a tile's row, if the output has that sample. */
DEVICE void put_one(const cut &a, const origin &at, float y, uint8_t *row, int32_t i) {
  const gconv_problem &problem = a.problem;
  const int32_t v = i / a.phases, phase = at.phase + i % a.phases;
  const int64_t sample = (at.column + v) * a.out_phases + phase, q = sample / problem.channels;
  const int32_t c = (int32_t)(sample - q * problem.channels);
  uint8_t *to = row + q * a.out_pixel + c * a.out_channel;
  if (phase >= a.out_phases || q >= problem.out_width || (problem.keep_alpha && c == problem.channels - 1))
    return;
  store_as(problem.out_type, y, to);
}

/* Stores a thread's outputs directly. This needs a plain epilogue and a single phase: then outputs are neighbours. */
template <class Out, int F, int V>
DEVICE void store_directly(const cut &a, const origin &at, const thread_place &my, int32_t filter_tile,
                           const float (&sums)[F][V]) {
  const float scale = a.problem.epilogue.scale, offset = a.problem.epilogue.offset;
  const int64_t sample = at.column + my.group * V, left = a.problem.out_width - sample;
  int32_t k = filter_tile * F * a.filter_warps + my.filter_warp;
  uint8_t *row = out_row(a, at, my.row, k);
  if (!my.used || !row)
    return;
  Out *to = (Out *)row + sample;
  UNROLLED_FOR (int f = 0; f < F && k < a.problem.filters; f++, k += a.filter_warps) {
    float y[V];
    UNROLLED_FOR (int v = 0; v < V; v++)
      y[v] = fmaf(sums[f][v], scale, offset);
    if (left >= V) {
      UNROLLED_FOR (int v = 0; v < V; v += 4)
        store_four({y[v], y[v + 1], y[v + 2], y[v + 3]}, to, v, 4);
    } else {
      UNROLLED_FOR (int v = 0; v < V; v++)
        if (v < left)
          gconv_store(y[v], to + v);
    }
    to = (Out *)((uint8_t *)to + a.filter_warps * a.out_filter);
  }
}

/* Returns the place of exchanged sum `i` in shared memory. There, sums have the order of the output: rows of groups, where a
 * group has V samples of each phase. After each group, SKEW floats stay unused, so that groups use all banks. */
DEVICE int32_t skewed(const cut &a, int32_t i) {
  return i + (int32_t)__umulhi(i, a.group_inverse) * SKEW;
}

template <int V, bool SLIDING>
DEVICE void exchange(const cut &a, const thread_place &my, const float (&sums)[V], float *to) {
  const int32_t row = my.row * a.groups * V * a.phases;
  to += my.filter_warp * a.exchange_pitch;
  if (!my.used)
    return;
  if (SLIDING) {
    to += skewed(a, row + my.group * V * a.phases) + my.phase;
    UNROLLED_FOR (int v = 0; v < V; v++, to += a.phases)
      *to = sums[v];
  } else {
    UNROLLED_FOR (int v = 0; v < V; v++)
      to[skewed(a, row + (my.group + v * a.groups) * a.phases + my.phase)] = sums[v];
  }
}

/* One warp stores a row of `length` exchanged sums, from number `first` on. */
DEVICE void store_row(const cut &a, const origin &at, int32_t first, int32_t length, const float *sums, float divisor,
                      float bias, uint8_t *row) {
  const int32_t lane = threadIdx.x % 32;
  if (!row)
    return;
  if (!a.fours) {
    for (int32_t i = lane; i < length; i += 32)
      put_one(a, at, value_of(a, sums[skewed(a, first + i)], divisor, bias), row, i);
    return;
  }
  const int64_t sample = at.column * a.out_phases, samples = (int64_t)a.problem.out_width * a.out_phases;
  for (int32_t i = 4 * lane; i < length && sample + i < samples; i += 4 * 32) {
    const float4 four = *(const float4 *)(sums + skewed(a, first + i));
    const float y[4] = {value_of(a, four.x, divisor, bias), value_of(a, four.y, divisor, bias),
                        value_of(a, four.z, divisor, bias), value_of(a, four.w, divisor, bias)};
    put_four(a, y, row, sample + i);
  }
}

/* Stores the responses of one filter of each warp, from filter `first` on. A warp stores one row at a time. */
template <int V> __device__ void store_filters(const cut &a, const origin &at, int32_t first, const float *sums) {
  const gconv_problem &problem = a.problem;
  const int32_t length = V * a.groups * a.phases;
  for (int32_t i = threadIdx.x / 32; i < a.filter_warps * a.rows; i += blockDim.x / 32) {
    const int32_t f = i / a.rows, row = i - f * a.rows, k = first + f;
    if (k >= problem.filters)
      continue;
    const float divisor = a.plain ? 1.0f : gconv_divisors(&problem, a.weights)[k];
    const float bias = a.plain ? 0.0f : gconv_biases(&problem, a.weights)[k];
    store_row(a, at, row * length, length, sums + f * a.exchange_pitch, divisor, bias, out_row(a, at, row, k));
  }
}

/* Combines the sums into `values`, which has the layout of the sums. Each thread combines values of its own. */
__device__ void combine_filters(const cut &a, int32_t first, const float *sums, float *values) {
  const gconv_problem &problem = a.problem;
  const gconv_combine combine = problem.epilogue.combine;
  const float *divisors = gconv_divisors(&problem, a.weights), *biases = gconv_biases(&problem, a.weights);
  const int32_t filters = min(a.filter_warps, problem.filters - first);
  for (int32_t i = threadIdx.x; i < a.exchange_pitch; i += blockDim.x) {
    float value = values[i];
    for (int32_t f = 0; f < filters; f++) {
      const float response = gconv_response(sums[f * a.exchange_pitch + i], divisors[first + f], biases[first + f]);
      value = first + f == 0 ? gconv_combine_first(combine, response) : gconv_combine_next(combine, value, response);
    }
    values[i] = first + filters < problem.filters ? value : gconv_combine_last(combine, value);
  }
}

template <int V> __device__ void store_combined(const cut &a, const origin &at, const float *values) {
  const int32_t length = V * a.groups * a.phases;
  for (int32_t row = threadIdx.x / 32; row < a.rows; row += blockDim.x / 32)
    store_row(a, at, row * length, length, values, 1.0f, 0.0f, out_row(a, at, row, 0));
}

/* Finishes a block's sums of one tile of filters. The filters of a tile are dealt to the warps F times, so that the filters
 * of one round follow each other. */
template <int F, int V, bool SLIDING>
DEVICE void finish_tile(const cut &a, const origin &at, const thread_place &my, int32_t filter_tile,
                        const float (&sums)[F][V], float *shared, float *values) {
  const bool combined = gconv_is_combined(&a.problem);
  if (SLIDING && !combined && a.fours && a.plain && a.phases == 1) {
    BY_TYPE(a.problem.out_type, Type, store_directly<Type>(a, at, my, filter_tile, sums));
    return;
  }
  ROLLED_FOR (int f = 0; f < F; f++) {
    const int32_t first = (filter_tile * F + f) * a.filter_warps;
    if (first >= a.problem.filters)
      return;
    __syncthreads();
    UNROLLED_FOR (int k = 0; k < F; k++) /* unrolled, because registers have no run-time index */
      if (k == f)
        exchange<V, SLIDING>(a, my, sums[k], shared);
    __syncthreads();
    if (combined)
      combine_filters(a, first, shared, values);
    else
      store_filters<V>(a, at, first, shared);
  }
}

/* ---- The kernel ---- */

/* Processes the tiles of a block for one tile of filters. `again`: it is not the block's first tile of outputs. */
template <int F, int V, bool SLIDING>
DEVICE void make_tiles(const cut &a, origin at, const thread_place &my, int32_t filters, bool again, float *taps) {
  const gconv_problem &problem = a.problem;
  float *samples = taps + a.tap_floats, *exchanged = samples + a.exchange_at, *values = samples + a.sample_floats;
  for (int32_t pass = 0; pass < a.passes; pass++, at.row += (int64_t)a.rows * a.out_step) {
    float sums[F][V] = {};
    for (int32_t r = 0; r < problem.rows; r += a.chunk_rows)
      for (int32_t s = 0; s < problem.columns; s += a.chunk_columns) {
        const chunk part = {r, min(a.chunk_rows, problem.rows - r), s, min(a.chunk_columns, problem.columns - s)};
        if (pass == 0)
          stage<V, SLIDING>(a, at, part, filters, again && a.one_chunk, taps, samples);
        multiply<F, V, SLIDING>(a, my, part, taps, samples + pass * a.rows * a.row_stride * a.row_pitch, sums);
      }
    finish_tile<F, V, SLIDING>(a, at, my, filters, sums, exchanged, values);
    if (gconv_is_combined(&problem) && filters == a.filter_tiles - 1) {
      __syncthreads();
      store_combined<V>(a, at, values);
    }
  }
}

template <int F, int V, bool SLIDING>
__global__ void __launch_bounds__(32 * MOST_WARPS, 2) multiply_tiles(const __grid_constant__ cut a) {
  extern __shared__ float4 shared[];
  const thread_place my = thread_place_of(a);
  for (int64_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const origin at = origin_of<V>(a, tile);
    for (int32_t filters = at.filter_tile; filters < a.filter_tiles; filters += a.filter_blocks)
      make_tiles<F, V, SLIDING>(a, at, my, filters, tile != blockIdx.x, (float *)shared);
  }
}

/* ---- Launching ---- */

/* Launches as many blocks as the device runs at a time. Each block finds its place and stages its taps only once. */
template <int F, int V, bool SLIDING> void launch_tiles(const cut &a, cudaStream_t stream) {
  const int threads = MOST_WARPS / a.filter_warps * a.filter_warps * 32;
  const size_t bytes = (size_t)(a.tap_floats + a.sample_floats + a.value_floats) * sizeof(float);
  const int64_t blocks = blocks_at_a_time<multiply_tiles<F, V, SLIDING>>(threads, bytes);
  multiply_tiles<F, V, SLIDING><<<blocks_for(a.tiles, 1, blocks), (unsigned)threads, bytes, stream>>>(a);
}

/* Launches the kernel for `each` filters of a thread. */
template <bool SLIDING> void launch_filters(int32_t each, const cut &a, cudaStream_t stream) {
  each == 8   ? launch_tiles<8, 8, SLIDING>(a, stream)
  : each == 4 ? launch_tiles<4, 8, SLIDING>(a, stream)
  : each == 2 ? launch_tiles<2, 16, SLIDING>(a, stream)
              : launch_tiles<1, 16, SLIDING>(a, stream);
}

size_t prepared_floats(const gconv_problem *problem) {
  const filter_cut filters = cut_filters(problem->filters);
  return (size_t)filters.tiles * (size_t)problem->rows * (size_t)problem->columns * (size_t)tap_pitch_of(filters);
}

/* Writes the taps in the order in which blocks stage them: by tiles of filters, taps, warps, and the `each` filters of a
 * warp. A warp's filters are not neighbours, but in each round of finish_tile() the warps have neighbouring filters. */
gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  const filter_cut filters = cut_filters(problem->filters);
  const int64_t count = (int64_t)problem->rows * problem->columns, pitch = tap_pitch_of(filters);
  for (int64_t i = 0; i < (int64_t)prepared_floats(problem); i++) {
    int64_t lane = i % pitch, t = i / pitch % count, tile = i / pitch / count;
    int64_t warp = lane / filters.each, k = (tile * filters.each + lane % filters.each) * filters.warps + warp;
    prepared[i] = warp < filters.warps && k < problem->filters ? taps[k * count + t] : 0.0f;
  }
  return GCONV_OK;
}

gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const filter_cut filters = cut_filters(problem->filters);
  cut a = cut_problem(problem, filters);
  static_cast<arguments &>(a) = common_arguments(execution);
  a.weights = execution->weights;
  a.taps = gconv_prepared(problem, execution->weights);
  a.fours = a.phases == a.out_phases && !problem->keep_alpha && is_dense<false>(execution);
  a.plain = is_plain(execution, 0, problem->filters) ||
            (gconv_is_combined(problem) && gconv_is_plain(&problem->epilogue)); /* scale and offset, after combining */
  auto *launch = problem->stride_x == 1 ? launch_filters<true> : launch_filters<false>;
  launch(filters.each, a, (cudaStream_t)execution->stream);
  if (problem->keep_alpha)
    launch_alpha(execution);
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

const char *supports(const gconv_problem *problem) {
  if ((int64_t)problem->dilation_x * problem->channels > INT32_MAX / 2)
    return "a dilation of more than 2^30 samples";
  return NULL;
}

/* Assumes the part of the peak rate that was measured on an H200. This part is lower where sums are exchanged before they
 * are stored. The time is at least that of the memory traffic. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const bool exchanged = gconv_is_combined(problem) || problem->channels > 1 || problem->dilation_x > 1;
  const filter_cut filters = cut_filters(problem->filters);
  const double efficiency = (filters.each < 4 ? 0.35 : 0.6) * (exchanged ? 0.7 : 1);
  double computing = cut_cost(cut_problem(problem, filters), filters) / (efficiency * machine->fma_per_ms / 32);
  double outputs = gconv_is_combined(problem) ? 1 : problem->filters;
  double planes = (double)channels_of(problem);
  double in = (double)problem->height * problem->width * (double)gconv_type_bytes(problem->in_type);
  double out = (double)problem->out_height * problem->out_width * (double)gconv_type_bytes(problem->out_type);
  double moving = planes * (in + outputs * out) / (0.7 * machine->bytes_per_ms);
  return fmax(computing, moving) + machine->launch_ms * (problem->keep_alpha ? 2 : 1);
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_gemm = {
    .info = {"gemm", "cuda", "a product of matrices whose patches are never laid out", true},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
};

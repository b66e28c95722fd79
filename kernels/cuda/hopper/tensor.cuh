/* SPDX-License-Identifier: MIT */
/*
 * Layers on Hopper's tensor cores: implicit GEMM without patches. tensor_cut.cuh explains units, planes, positions, chunks
 * and steps.
 *
 * First, a kernel packs the input into planes of units, of 16-bit numbers or TF32, with zeros around the image
 * (pack_planes). Then, for each unit of channels, the samples that a tile needs at one tap are one piece of one plane. No
 * patches are made; only in mode NARROW do units repeat samples, some S / stride times.
 *
 * A block of the multiplication has two warpgroups that multiply, and four more warps (multiply_layer()). Pieces of planes
 * come one chunk at a time, and weights in steps, to rings in shared memory (cp.async.bulk). An instruction (wgmma)
 * multiplies 64 filters by 256 positions, 2 units deep. Both operands are in shared memory, the sums in registers. If shared
 * memory has room for all weights and an item's planes, the two warpgroups take turns: one stores while the other
 * multiplies. (Layers of few taps and many filters have their own kernel, tensor_flow.cuh, filters of 1 x 1 have
 * tensor_points.cuh.)
 *
 * With two digits, a float32 v is high + low, each rounded to the precision u of a digit, so that |v - high - low| <= u^2
 * |v|. Of the four products of digits, low times low is left out. For float16 (u = 2^-11), images and filters are
 * scaled by powers of two (scale.h).
 */
#pragma once

#include "../core/launch.cuh"
#include "../graph/tail.cuh"
#include "device/cuda_error.h"
#include "tensor_points.cuh"
#include "tensor_weights.cuh"

#include <cuda_runtime_api.h>
#include <stdlib.h>

namespace tensor {

/* ---- Kernels ---- */

/* One warp finds the places of outputs for one of the warpgroups that multiply. */
DEVICE void find_all_out_places(const arguments &a, const memory &m, int32_t consumer) {
  auto &slots = m.barriers->out_places[consumer];
  ring r;
  for (uint32_t number = blockIdx.x; number < a.c.items; number += gridDim.x) {
    const item it = item_of(a, number);
    slots.wait_empty(r);
    find_out_places(a, it, it.tile + (a.c.sets == 2 ? consumer : 0), m.out_places + (consumer * 2 + r.place) * POSITIONS);
    barrier_arrive(&slots.full[r.place]);
    r.advance(2);
  }
}

DEVICE void begin(const arguments &a, const memory &m) {
  const uint32_t readers = 4 * CONSUMERS;
  for (int32_t i = threadIdx.x; i < a.c.steps; i += THREADS)
    m.steps[i] = a.steps[i];
  if (threadIdx.x == 0) {
    m.barriers->weights.begin(a.c.slots, 1, readers);
    for (int set = 0; set < a.c.sets; set++)
      m.barriers->planes[set].begin(a.c.buffers, 1, readers / a.c.sets);
    for (int i = 0; i < CONSUMERS; i++) {
      m.barriers->out_places[i].begin(2, 32, GROUP);
      barrier_init(&m.barriers->turn[i], 4);
    }
    barrier_init_done();
  }
  __syncthreads();
}

/* Warps 0 to 7 multiply and store. Lane 0 of warp 8 copies weights, lane 0 of warp 9 copies planes. Warps 10 and 11 find the
 * places of outputs. Warps 8 to 11 need few registers. If each of their threads has 40, a thread that multiplies has 232, of
 * which 128 hold sums. JOINED: is_joined(). Such layers have their own kernel: its code would make other layers up to 6%
 * slower. */
template <class E, int D, bool JOINED>
__global__ void __launch_bounds__(THREADS, 1) multiply_layer(const __grid_constant__ arguments a) {
#ifdef HOPPER
  extern __shared__ uint8_t shared[];
  const memory m = memory_of(a.c, shared + (128 - shared_address(shared) % 128) % 128);
  begin(a, m);
  admit_kernel_behind();
  await_kernel_before();
  const int32_t consumer = threadIdx.x / GROUP, warp = threadIdx.x / 32;
  if (consumer == CONSUMERS) {
    registers_down<40>();
    if (warp >= WARPS - CONSUMERS)
      find_all_out_places(a, m, WARPS - 1 - warp);
    else if (threadIdx.x % 32 == 0 && warp == CONSUMERS * GROUP / 32)
      copy_weights(a, m);
    else if (threadIdx.x % 32 == 0)
      copy_planes(a, m);
    return;
  }
  registers_up<232>();
  const bool not_finite = a.not_finite && !a.partial && *a.not_finite;
  rings r;
  const places p = places_of(a.c, m, consumer);
  ring out_slot;
  uint32_t turn_parity = 0;
  float *exchange = m.exchange + warp * 16 * pitch_of<1>();
  for (uint32_t number = blockIdx.x; number < a.c.items; number += gridDim.x) {
    const item it = item_of(a, number);
    const int32_t filter_tile = it.filter_tile + (a.c.sets == 2 ? 0 : consumer);
    const int32_t row = filter_tile * ROWS + warp % 4 * 16 + threadIdx.x % 32 / 4;
    const finish f[2] = {finish_of(a, it.group, row), finish_of(a, it.group, row + 8)};
    const int64_t tile = it.tile + (a.c.sets == 2 ? consumer : 0);
    const out_place *out_places = m.out_places + (consumer * 2 + out_slot.place) * POSITIONS;
    float sums[128];
    if (a.c.alternate) /* the first warpgroup begins */
      barrier_wait(&m.barriers->turn[consumer], turn_parity ^ (consumer == 0));
    if (!JOINED && a.c.resident)
      multiply_resident<E, D>(a.c, p, it, r, sums);
    else
      multiply_passing<E, D>(a.c, p, it, r, sums);
    if (a.c.alternate && threadIdx.x % 32 == 0)
      barrier_arrive(&m.barriers->turn[1 - consumer]);
    turn_parity ^= 1;
    float4 *half = NULL;
    bool own = true;
    if (JOINED)
      own = meet_half(a, m, (tile * a.c.groups + it.group) * a.c.filter_tiles + filter_tile, &half, sums);
    m.barriers->out_places[consumer].wait_full(out_slot);
    if (own && a.c.how == BAND)
      store<E::U, JOINED>(a, it, tile, filter_tile, out_places, f, exchange, half, sums);
    else if (own)
      store<1, JOINED>(a, it, tile, filter_tile, out_places, f, exchange, half, sums);
    barrier_arrive(&m.barriers->out_places[consumer].empty[out_slot.place]);
    out_slot.advance(2);
    if (own && not_finite)
      mend(&a, it.group, position_of(a, tile), tile < a.c.tiles ? end_of(a, tile) : 0, filter_tile * ROWS + warp % 4 * 16);
  }
#endif
}

/* ---- Host ---- */

/* Returns NULL on a Hopper GPU, otherwise the reason why the algorithm cannot run. */
inline const char *available() {
  return capability() == 9 ? NULL : "it is made for GPUs of compute capability 9.0 (Hopper)";
}

/* The state of a plan: the algorithm that a chooser has chosen (otherwise NULL), and the cut. */
template <class Cut> struct kept {
  const gconv_layer_algorithm *row; /* the first member: chooser reads it without knowing Cut */
  Cut c;
};
template <class Cut> gconv_status keep_cut(const Cut &c, void **state) {
  kept<Cut> *made = (kept<Cut> *)malloc(sizeof *made);
  if (!made)
    return gconv_fail(GCONV_NO_MEMORY, "out of memory");
  *made = {NULL, c};
  *state = made;
  return GCONV_OK;
}
template <class Cut> const Cut &kept_cut(const gconv_layer_execution *e) {
  return ((const kept<Cut> *)e->state)->c;
}

/* The measured time of 15 layers on an H200, divided by the estimates of their cuts. An estimate alone is only good for
 * comparing cuts. */
constexpr double MEASURED = 1.35;

/* Launches the kernels after the multiplication. */
inline gconv_status finish_layer(const arguments &a, int processors, cudaStream_t stream) {
  if (a.partial) {
    const int64_t plane = (int64_t)a.problem.out_height * a.problem.out_width;
    const int64_t count = plane * a.problem.filters * a.problem.images;
    const int wide = plane % 4 == 0 && (uintptr_t)a.out % 16 == 0 ? 4 : 1;
    const unsigned blocks = (unsigned)std::min<int64_t>((count / wide + 255) / 256, 16 * processors);
    CUDA_TRY(launch_behind(wide == 4 ? finish_sums<4> : finish_sums<1>, blocks, 256, 0, stream, a, plane, count));
  }
  CUDA_TRY(cudaPeekAtLastError());
  return GCONV_OK;
}

/* The members of an algorithm that multiplies numbers of kind E, with D digits each. */
template <class E, int D> struct product {
  static constexpr int32_t TOGETHER = TILE_UNITS * ROWS * E::U; /* numbers of a step of a filter tile */

  /* Returns the floats of the weights, of 1 / scale of each filter, and of the entries of the steps, in this order. */
  static size_t prepared_floats(const gconv_layer_problem *p) {
    const cut c = cut_problem(p, E::U, D);
    return (size_t)weight_bytes(c) / 4 + (size_t)p->filters + (size_t)c.steps;
  }

  static gconv_status prepare(const gconv_layer_problem *p, const float *weights, float *prepared) {
    const cut c = cut_problem(p, E::U, D);
    const std::vector<tap> taps = taps_of(c, p);
    float *scales = prepared + weight_bytes(c) / 4;
    scale_filters(p, weights, E::SCALED, p->filters, scales);
    for (int32_t i = 0; i < c.steps; i++) {
      const uint32_t entry = (uint32_t)taps[2 * i].at | (uint32_t)(taps[2 * i + 1].at - taps[2 * i].at) << 16;
      memcpy(scales + p->filters + i, &entry, sizeof entry);
    }
    std::vector<int32_t> sources(source_count(p));
    fill_sources(p, sources.data());
    for (size_t i = 0; i < sources.size(); i++)
      write_digits<E, D>(scaled_weight(weights, gconv_layer_taps(p), sources[i], scales) * gain_of(c, (int64_t)i / TOGETHER),
                         (int64_t)i, TOGETHER, (typename E::number *)prepared);
    return GCONV_OK;
  }

  static size_t source_count(const gconv_layer_problem *p) {
    return (size_t)weight_bytes(cut_problem(p, E::U, D)) / sizeof(typename E::number) / D;
  }

  static void fill_sources(const gconv_layer_problem *p, int32_t *sources) {
    const cut c = cut_problem(p, E::U, D);
    const std::vector<tap> taps = taps_of(c, p);
    for (int32_t tile = 0; tile < c.groups * c.filter_tiles; tile++)
      for (int32_t step = 0; step < c.chunks * c.steps; step++)
        for (int32_t i = 0; i < TOGETHER; i++) {
          const weight_place at = c.flow.steps ? held_weight(i) : weight_place{i / E::U % ROWS, i / E::U / ROWS, i % E::U};
          const int32_t row = tile % c.filter_tiles * ROWS + at.row, group = tile / c.filter_tiles;
          const tap &t = taps[step % c.steps * TILE_UNITS + at.unit];
          *sources++ = (int32_t)weight_at(c, p, group, row, step / c.steps, t, at.number);
        }
  }

  static gconv_status prepare_again(const gconv_layer_execution *e, const int32_t *sources) {
    const cut &c = kept_cut<cut>(e);
    const gconv_layer_problem *p = e->problem;
    const int64_t taps = gconv_layer_taps(p), count = weight_bytes(c) / (int64_t)sizeof(typename E::number) / D;
    float *prepared = (float *)gconv_layer_prepared(p, e->weights), *scales = prepared + weight_bytes(c) / 4;
    const cudaStream_t stream = (cudaStream_t)e->stream;
    if (E::SCALED)
      find_filter_scales<<<(unsigned)p->filters, 128, 0, stream>>>(e->weights, taps, scales);
    prepare_digits<E, D><<<(unsigned)std::min<int64_t>((count + 255) / 256, 4096), 256, 0, stream>>>(
        e->weights, taps, sources, count, TOGETHER, c, scales, (typename E::number *)prepared);
    CUDA_TRY(cudaPeekAtLastError());
    return GCONV_OK;
  }

  static size_t workspace_bytes(const gconv_layer_problem *p) {
    const cut c = cut_problem(p, E::U, D);
    return scale_bytes(c, p) + laid_bytes(c) + partial_bytes(c, p);
  }

  static gconv_status acquire(const gconv_layer_execution *e, void **state) {
    if (const char *obstacle = available())
      return gconv_fail(GCONV_UNSUPPORTED, "%s", obstacle);
    const cut c = cut_problem(e->problem, E::U, D);
    GCONV_TRY(allow_shared(product_of(c), SHARED_BYTES));
    if (c.flow.steps)
      GCONV_TRY(allow_shared(flow_of(c), SHARED_BYTES));
    return keep_cut(c, state);
  }

  static auto product_of(const cut &c) {
    return is_joined(c) ? multiply_layer<E, D, true> : multiply_layer<E, D, false>;
  }
  static auto flow_of(const cut &c) {
    return !has_own_scales(c) ? flow_layer<D> : c.chunks > 1 ? points_layer<D, true> : points_layer<D, false>;
  }

  static arguments arguments_of(const gconv_layer_execution *e, const cut &c) {
    arguments a = {};
    const gconv_layer_problem *p = e->problem;
    const float *prepared = gconv_layer_prepared(p, e->weights);
    a.c = c;
    a.problem = *p;
    a.in = e->in, a.out = e->out;
    a.weights = (const uint8_t *)prepared;
    a.steps = (const uint32_t *)(prepared + weight_bytes(c) / 4 + p->filters);
    a.filter_scales = E::SCALED ? prepared + weight_bytes(c) / 4 : NULL;
    a.maxima = E::SCALED && !has_own_scales(c) ? (const uint32_t *)e->workspace : NULL;
    a.biases = gconv_layer_biases(p, e->weights);
    a.plain_weights = e->weights;
    /* A filter is padded with weights of 0. A sample that only padding multiplies lies beyond the filter's reach, and must
     * not make an output NaN if it is infinite. `mixes`: there may be such samples. With one digit, and units of channels,
     * they lie in rows after the filter's last row. */
    const bool mixes = !has_own_scales(c) && (E::SCALED || c.how != WIDE || c.row_chunks * c.chunk_rows > p->rows);
    a.not_finite = mixes ? (const uint32_t *)e->workspace + (int64_t)p->images * p->groups : NULL;
    a.planes = (uint8_t *)e->workspace + scale_bytes(c, p);
    a.digit_bytes = laid_bytes(c) / D;
    a.alike = !E::SCALED || c.segments > 1 || p->images == 1;
    float *sums = (float *)(a.planes + laid_bytes(c));
    a.parts = is_joined(c) ? 1 : c.splits;
    a.partial = a.parts > 1 ? sums : is_curved(p) ? e->out : NULL;
    if (is_joined(c))
      a.halves = (float4 *)sums, a.ready = (uint32_t *)e->workspace + (int64_t)p->images * p->groups + 1;
    a.straight = straight_of(p, a.partial), a.slopes = slopes_of(e->tail);
    a.pitch = divisor::of(c.pitch), a.rows = divisor::of(c.rows), a.strips = divisor::of(c.strips);
    a.segment_tiles = divisor::of(c.segment_tiles);
    a.filter_tiles = divisor::of(c.filter_tiles / (CONSUMERS / c.sets)), a.groups = divisor::of(c.groups);
    a.splits = divisor::of(c.splits);
    return a;
  }

  static gconv_status execute(const gconv_layer_execution *e) {
    const cut &c = kept_cut<cut>(e);
    const gconv_layer_problem *p = e->problem;
    const arguments a = arguments_of(e, c);
    const cudaStream_t stream = (cudaStream_t)e->stream;
    const int processors = multiprocessors();
    const int64_t images = (int64_t)p->images * c.groups;
    if (a.not_finite || a.ready)
      CUDA_TRY(cudaMemsetAsync(e->workspace, 0, zero_bytes(c, p), stream));
    if (a.maxima) {
      const int64_t count = (int64_t)c.channels * p->height * p->width;
      const int64_t parts = std::clamp<int64_t>(8 * processors / images, 1, (count + 8191) / 8192);
      uint32_t *maxima = (uint32_t *)e->workspace;
      find_maxima<<<(unsigned)(parts * images), 256, 0, stream>>>(e->in, count, (int32_t)parts, maxima, maxima + images);
    }
    if (c.flow.steps) {
      const int64_t pairs = (int64_t)c.flow.pairs * c.groups, blocks = std::max<int64_t>(processors / pairs, 1) * pairs;
      const int threads = has_own_scales(c) ? POINT_THREADS : THREADS;
      CUDA_TRY(launch_behind(flow_of(c), (unsigned)blocks, threads, flow_bytes(c), stream, a));
      return finish_layer(a, processors, stream);
    }
    const int64_t planes = (int64_t)c.groups * c.units * c.phases * c.variants;
    const dim3 pack_grid((unsigned)((c.positions + PACK_THREADS - 1) / PACK_THREADS), (unsigned)planes);
    CUDA_TRY(launch_behind(pack_planes<E, D>, pack_grid, PACK_THREADS, 0, stream, a));
    /* If weights stay in shared memory, all items of a block must have the same filters. Numbers of items count filters
     * first (item_of()), so the distance of a block's items becomes a multiple of the number of different filters. */
    const int64_t different = (int64_t)a.filter_tiles.by * c.groups;
    int64_t grid = std::min<int64_t>(c.items, processors);
    if (c.resident && grid < c.items && grid % different)
      grid = std::max(grid / different, (int64_t)1) * different;
    CUDA_TRY(launch_behind(product_of(c), (unsigned)grid, THREADS, shared_bytes(c), stream, a));
    return finish_layer(a, processors, stream);
  }

  static const char *supports(const gconv_layer_problem *p) {
    if ((p->math == GCONV_MATH_FP32) != (D == 2))
      return D == 2 ? "math other than fp32" : "math fp32, which it would round";
    if (gconv_layer_taps(p) > INT32_MAX / p->filters)
      return "more than 2^31 weights";
    const cut c = cut_problem(p, E::U, D);
    if ((int64_t)c.groups * c.units * c.phases * c.variants > 65535)
      return "more than 65535 planes of channels";
    return c.cycles < HUGE_VAL ? NULL : "filters or images too large for a tile";
  }

  static double cost(const gconv_layer_problem *p, const gconv_machine *machine) {
    const cut c = cut_problem(p, E::U, D);
    const double ms = MEASURED * c.cycles * (double)PROCESSORS / machine->units / CYCLES_PER_MS;
    const double in = 4.0 * p->images * p->channels * p->height * p->width;
    const bool maxima = E::SCALED && !has_own_scales(c);
    const double all = ms + machine->launch_ms + (maxima ? in / machine->bytes_per_ms + 2 * machine->launch_ms : 0);
    return std::max(all - 0.009, machine->launch_ms + 0.003);
  }

  /* Each number is rounded to D digits of precision u = 2^-11 (bf16: 2^-8). For D = 2, the product of the low digits is left
   * out. An instruction adds exact products and the sum so far, aligned to the largest, and cuts off what is below some
   * 2^-24 of it. On an H200, with positive products throughout, an instruction loses 2^-24.5 of the sum. The bound counts
   * 2^-22. */
  static double error_bound(const gconv_layer_problem *p) {
    const cut c = cut_problem(p, E::U, D);
    const double u = sizeof(typename E::number) == 2 && !E::SCALED ? 0x1p-8 : 0x1p-11;
    const double digits = D == 2 ? 3.1 * u * u : 2.1 * u, instructions = (double)c.chunks * c.steps * (D == 2 ? 3 : 1);
    return digits + (instructions + c.splits + 4) * 0x1p-22;
  }
};

/* ---- Algorithms of products ---- */

/* Makes an algorithm whose functions are the members of P. */
template <class P> constexpr gconv_layer_algorithm algorithm_of(const char *name, const char *help) {
  gconv_layer_algorithm row = {};
  row.info = {name, "cuda", help, false};
  row.available = available;
  row.supports = P::supports;
  row.workspace_bytes = P::workspace_bytes;
  row.execute = P::execute;
  row.cost = P::cost;
  row.error_bound = P::error_bound;
  row.bound_of_largest = true;
  row.prepared_floats = P::prepared_floats;
  row.prepare = P::prepare;
  row.source_count = P::source_count;
  row.fill_sources = P::fill_sources;
  row.prepare_again = P::prepare_again;
  row.acquire = P::acquire;
  row.dismiss = free;
  row.tails = GCONV_TAILS_SLOPES;
  return row;
}

/* The members of an algorithm that has no kernels, and calls another algorithm: ROW_OF(problem) says which one. ROW_OF takes
 * longer than many products. So a plan calls it once, and keeps the answer in front of the chosen algorithm's cut. */
template <auto ROW_OF> struct chooser {
  typedef gconv_layer_algorithm algorithm;
  static const algorithm *row_of(const gconv_layer_problem *p) {
    return ROW_OF(p);
  }
  static const algorithm *row_of(const gconv_layer_execution *e) {
    return *(const algorithm *const *)e->state; /* kept::row */
  }
  /* Calls a function of the chosen algorithm. */
  template <auto MEMBER, class Of, class... More> static auto pass(const Of *of, More... more) {
    return (row_of(of)->*MEMBER)(of, more...);
  }
  static constexpr decltype(algorithm::supports) supports = pass<&algorithm::supports>;
  static constexpr decltype(algorithm::workspace_bytes) workspace_bytes = pass<&algorithm::workspace_bytes>;
  static constexpr decltype(algorithm::cost) cost = pass<&algorithm::cost>;
  static constexpr decltype(algorithm::error_bound) error_bound = pass<&algorithm::error_bound>;
  static constexpr decltype(algorithm::prepared_floats) prepared_floats = pass<&algorithm::prepared_floats>;
  static constexpr decltype(algorithm::prepare) prepare = pass<&algorithm::prepare>;
  static constexpr decltype(algorithm::source_count) source_count = pass<&algorithm::source_count>;
  static constexpr decltype(algorithm::fill_sources) fill_sources = pass<&algorithm::fill_sources>;
  static constexpr decltype(algorithm::execute) execute = pass<&algorithm::execute>;
  static constexpr decltype(algorithm::prepare_again) prepare_again = pass<&algorithm::prepare_again>;

  static gconv_status acquire(const gconv_layer_execution *e, void **state) {
    const algorithm *row = ROW_OF(e->problem);
    GCONV_TRY(row->acquire(e, state));
    *(const algorithm **)*state = row;
    return GCONV_OK;
  }
};

} // namespace tensor

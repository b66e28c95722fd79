/* SPDX-License-Identifier: MIT */
/*
 * separable, to the right: all problems that separable_walk.cuh does not take. The kernel filters down the columns, then
 * along the rows, on tensor cores.
 *
 * A filter of rank r is the sum of r columns times rows (factor.h): r * (R + S) multiply-adds a sample instead of R * S.
 * Even so, to keep up with a memory of 4 TB/s, a filter of 31 x 31 would need all multiply-adds of a GPU of 60 TFLOP/s.
 * Tensor cores have ten times as many, for products of matrices. A filter along one direction is such a product: 16 output
 * rows by 8 columns are T (16 x k) * X (k x 8). T has the column of the filter on its diagonals; k is 16 + R - 1, rounded
 * up.
 *
 * Tensor cores multiply float16 and add in float32. So a number becomes two float16, the nearest one and the remainder,
 * which have 22 bits together. The product of two such pairs takes three products. The product of the two low parts is left
 * out: it is below the precision of float32. Levels of u8 are one float16. So the result is as good as with float32
 * (error_bound()), not as with float16.
 *
 *     columns  x ->                     A warp has 16 output rows and goes to the right. For each group of 8 columns it
 *   +----+----+----+----+- ...          computes T * X. The results are in the registers in which the next product wants
 *   | :: | :: | :: | <- | X             its left factor; they only have to be split. The last GROUPS groups are the window.
 *   +----+----+----+----+- ...          The window times the matrix of the filter's row gives the next 8 output columns.
 *     window  ^^^^^^^^^   T * X         Nothing leaves the registers between the two directions.
 *
 * A block has several such strips of 16 rows, and one warp for each channel. In each step it copies 64 or 128 bytes of all
 * input rows that it needs to shared memory, asynchronously. It splits them into float16 by channels, in the order in which
 * the tensor cores want them. It multiplies, and stores the outputs from shared memory in whole words.
 *
 * Speed: for a sample, tensor cores do 3 * (16 * chunks + 8 * GROUPS) multiply-adds, 264 for 31 x 31 with 2 digits each.
 * Filters of rank r take r times as many.
 *
 * Values of f32 are scaled by a power of two, so that they fit into float16. A block has one scale. This scale shrinks when
 * the block loads a larger value, so the error is relative to the largest value. If a value is not finite, the block
 * computes its outputs by the definition, because 0 * infinity must not appear where the filter does not reach.
 */
#pragma once

#include "separable_input.cuh"
#include "separable_output.cuh"

namespace {

/* ---- Tensor cores ---- */

/* sums += a * b, 16 x 8 += 16 x 8 * 8 x 8; float16 in pairs. */
DEVICE void multiply_half(float (&sums)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a0), "r"(a1), "r"(b));
}

/* sums += a * b, 16 x 8 += 16 x 16 * 16 x 8. */
DEVICE void multiply(float (&sums)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
  multiply_half(sums, a0, a1, b0);
  multiply_half(sums, a2, a3, b1);
#endif
}

/* ---- The two directions ---- */

/* The latest groups that multiply_columns() has computed. They are the left factor of multiply_rows(). */
template <int GROUPS> struct window { uint32_t high[GROUPS - 1 + AT_ONCE][2], low[GROUPS - 1 + AT_ONCE][2]; };

/* Multiplies the matrix of a column by AT_ONCE groups of X, for new groups of the window. `x`: the lane's first word. */
template <class In, int WEIGHT_DIGITS, int GROUPS>
DEVICE void multiply_columns(const uint4 *taps, int chunks, const uint8_t *x, const team &who, int first,
                             window<GROUPS> &w) {
  const int lane = who.lane;
  float sums[AT_ONCE][4] = {};
  ROLLED_FOR (int chunk = 0; chunk < chunks; chunk++, x += 4 * PITCH * 16, taps += 2 * LANES) {
    const uint4 high = taps[lane], low = WEIGHT_DIGITS > 1 ? taps[LANES + lane] : make_uint4(0, 0, 0, 0);
    UNROLLED_FOR (int j = 0; j < AT_ONCE; j++) {
      const int group = first + j; /* 4 words for u8, 8 for other types */
      uint4 b = make_uint4(0, 0, 0, 0);
      if (sizeof(In) == 1)
        *(uint2 *)&b = *(const uint2 *)(x + who.word[group / 2] + group * 64);
      else
        b = *(const uint4 *)(x + who.word[group] + group * 128);
      multiply(sums[j], high.x, high.y, high.z, high.w, b.x, b.y);
      if (WEIGHT_DIGITS > 1)
        multiply(sums[j], low.x, low.y, low.z, low.w, b.x, b.y);
      if (splitting<In>::DIGITS > 1)
        multiply(sums[j], high.x, high.y, high.z, high.w, b.z, b.w);
    }
  }
  UNROLLED_FOR (int j = 0; j < AT_ONCE; j++) {
    split(sums[j][0], sums[j][1], w.high[GROUPS - 1 + j][0], w.low[GROUPS - 1 + j][0]);
    split(sums[j][2], sums[j][3], w.high[GROUPS - 1 + j][1], w.low[GROUPS - 1 + j][1]);
  }
}

/* The fragments of the matrix of a row. First come fragments for pairs of groups that begin at an even group, then
 * fragments for pairs that begin at an odd group. The tensor cores want four registers from a multiple of four on, so pairs
 * of the window always begin at an even group. */
template <int GROUPS> struct row_fragments { static constexpr int EVEN = (GROUPS + 1) / 2, ODD = GROUPS / 2 + 1; };

/* Multiplies the window and the matrix of a row. Adds the result to the sums of AT_ONCE groups of outputs. */
template <int WEIGHT_DIGITS, int GROUPS>
DEVICE void multiply_rows(const uint4 *taps, const window<GROUPS> &w, float (&sums)[AT_ONCE][4]) {
  constexpr int EVEN = row_fragments<GROUPS>::EVEN, ODD = row_fragments<GROUPS>::ODD;
  const int lane = threadIdx.x % LANES;
  UNROLLED_FOR (int i = 0; i < EVEN + ODD; i++) {
    const uint4 pair = taps[i * LANES + lane];
    const int m = i < EVEN ? 2 * i : 2 * (i - EVEN) - 1; /* first of the fragment's groups; one may not exist */
    UNROLLED_FOR (int j = i < EVEN ? 0 : 1; j < AT_ONCE; j += 2) {
      const auto add = [&](const auto &groups, uint32_t first, uint32_t second) {
        const auto &one = groups[m < 0 ? j : j + m];
        if (m >= 0 && m + 1 < GROUPS)
          multiply(sums[j], one[0], one[1], groups[j + m + 1][0], groups[j + m + 1][1], first, second);
        else
          multiply_half(sums[j], one[0], one[1], m < 0 ? second : first);
      };
      add(w.high, pair.x, pair.y);
      add(w.low, pair.x, pair.y);
      if (WEIGHT_DIGITS > 1)
        add(w.high, pair.z, pair.w);
    }
  }
}

/* ---- The windows of several pairs, in shared memory ---- */

/* Returns the lane's place in the first window of its warp. */
template <int GROUPS> DEVICE uint4 *ring_of(const separable_arguments &a, const tile &t) {
  return (uint4 *)(t.shared + a.rings) + threadIdx.x / LANES * a.filters * a.pairs * (GROUPS - 1) * LANES +
         threadIdx.x % LANES;
}

template <int GROUPS> DEVICE void load_window(const uint4 *ring, window<GROUPS> &w) {
  UNROLLED_FOR (int m = 0; m < GROUPS - 1; m++) {
    uint4 group = ring[m * LANES];
    w.high[m][0] = group.x, w.high[m][1] = group.y, w.low[m][0] = group.z, w.low[m][1] = group.w;
  }
}

template <int GROUPS> DEVICE void store_window(const window<GROUPS> &w, uint4 *ring) {
  UNROLLED_FOR (int m = 0; m < GROUPS - 1; m++)
    ring[m * LANES] = make_uint4(w.high[m][0], w.high[m][1], w.low[m][0], w.low[m][1]);
}

/* Makes room for AT_ONCE new groups. */
template <int GROUPS> DEVICE void shift_window(window<GROUPS> &w) {
  UNROLLED_FOR (int m = 0; m < GROUPS - 1; m++)
    UNROLLED_FOR (int i = 0; i < 2; i++) {
      w.high[m][i] = w.high[m + AT_ONCE][i];
      w.low[m][i] = w.low[m + AT_ONCE][i];
    }
}

DEVICE uint32_t scale_pair(uint32_t pair, __half2 factor) {
  return bits_of(__hmul2(*(__half2 *)&pair, factor));
}

/* Multiplies the values of the window by a power of two below 1. */
template <int GROUPS> __device__ void scale_window(window<GROUPS> &w, float factor) {
  for (int i = 0; i < 4 && factor < 1; i++, factor *= 0x1p14f) { /* after 2^-56, all float16 are 0 */
    __half2 part = __float2half2_rn(fmaxf(factor, 0x1p-14f));
    UNROLLED_FOR (int m = 0; m < GROUPS - 1; m++)
      UNROLLED_FOR (int i = 0; i < 2; i++) {
        w.high[m][i] = scale_pair(w.high[m][i], part);
        w.low[m][i] = scale_pair(w.low[m][i], part);
      }
  }
}

/* ---- The kernel ---- */

__device__ tile make_tile(const separable_arguments &a, uint8_t *shared) {
  const gconv_problem &problem = a.problem;
  const unsigned beside = blockIdx.x % a.segments, rest = blockIdx.x / a.segments;
  const int below = rest % a.row_blocks;
  const plane_rows plane = plane_of(a, (int)(rest / a.row_blocks));
  tile t;
  t.shared = shared;
  t.quads = 4 * (a.strips + a.chunks - 1);
  t.row = below * a.strips * STRIP;
  t.rows = min(a.strips * STRIP, problem.out_height - t.row);
  t.column = beside * a.segment;
  t.end = min(t.column + a.segment, problem.out_width);
  t.in = plane.in;
  t.out = plane.out + t.row * a.out_row;
  return t;
}

/* Finds the input rows that the block needs. Rows that only zero taps use are copies of the last row. */
__device__ void find_sources(const separable_arguments &a, const tile &t) {
  const gconv_problem &problem = a.problem;
  const int needed = t.rows + (problem.rows - 1) * problem.dilation_y;
  for (int i = threadIdx.x; i < 4 * t.quads; i += blockDim.x)
    ((int32_t *)(t.shared + a.sources))[i] =
        (int32_t)gconv_border_index(problem.border, (int64_t)t.row - problem.pad_top + min(i, needed - 1), problem.height);
}

/* Copies the fragments to shared memory, and empties the windows there. */
__device__ void load_fragments(const separable_arguments &a, const tile &t, int ring_words) {
  for (int i = threadIdx.x; i < a.fragment_words; i += blockDim.x)
    ((uint4 *)(t.shared + a.taps))[i] = a.fragments[i];
  for (int i = threadIdx.x; i < ring_words; i += blockDim.x)
    ((uint4 *)(t.shared + a.rings))[i] = make_uint4(0, 0, 0, 0);
}

/* Does one warp's part of a step: filters AT_ONCE groups of columns from pixel `first` on in both directions, and stages the
 * results. MANY: for all pairs of all filters, with windows in shared memory; else for one pair, in registers. */
template <class In, int WEIGHT_DIGITS, int GROUPS, bool MANY>
DEVICE void advance(const separable_arguments &a, const tile &t, const team &who, const uint8_t *split, window<GROUPS> &w,
                    int first, float unscale, bool plain) {
  constexpr int ROW_WORDS = (row_fragments<GROUPS>::EVEN + row_fragments<GROUPS>::ODD) * LANES;
  const uint8_t *x = split + (who.channel * t.quads + 4 * who.strip + who.lane % 4) * PITCH * 16;
  const uint4 *taps = (const uint4 *)(t.shared + a.taps);
  uint4 *ring = ring_of<GROUPS>(a, t);
  float values[AT_ONCE][4] = {};
  ROLLED_FOR (int k = 0; k < (MANY ? a.filters : 1); k++) {
    float sums[AT_ONCE][4] = {};
    ROLLED_FOR (int i = 0; i < (MANY ? a.pairs : 1); i++) {
      if (MANY)
        load_window(ring, w);
      multiply_columns<In, WEIGHT_DIGITS>(taps, a.chunks, x, who, first / GROUP, w);
      multiply_rows<WEIGHT_DIGITS>(taps + a.chunks * 2 * LANES, w, sums);
      shift_window(w);
      if (MANY) {
        store_window(w, ring);
        ring += (GROUPS - 1) * LANES;
        taps += a.chunks * 2 * LANES + ROW_WORDS;
      }
    }
    if (plain)
      finish_plain(sums, unscale, a.problem.epilogue.offset, values);
    else
      respond(a, sums, unscale, k, values);
  }
  if (!plain)
    finish(a.problem, values);
  stage(a, t, who, values, first);
}

/* Finds a new scale if the scale is too large for the step at `column`, and copies the step again. Returns 0 if a sample is
 * infinite or NaN. */
__device__ __noinline__ float find_scale(const separable_arguments &a, tile t, float before, int column, int end) {
  await_all_copies();
  fetch<float>(a, t, column, end);
  await_all_copies();
  return fminf(new_scale(largest_copied(a, t)), before);
}

/* Multiplies the windows by a power of two below 1. */
template <int GROUPS, bool MANY>
DEVICE void scale_windows(const separable_arguments &a, const tile &t, window<GROUPS> &w, float factor) {
  if (!MANY)
    scale_window(w, factor);
  uint4 *ring = ring_of<GROUPS>(a, t);
  for (int i = 0; MANY && i < a.filters * a.pairs; i++, ring += (GROUPS - 1) * LANES) {
    load_window(ring, w);
    scale_window(w, factor);
    store_window(w, ring);
  }
}

/* How sums become values, at the current scale of the levels. */
struct units {
  float unscale; /* plain: from sums to output samples; otherwise from sums to levels, without the scale of the filter */
  bool plain;
};

template <class In> DEVICE units units_of(const separable_arguments &a, float scale) {
  const float back = 1.0f / scale;
  const auto both = [&] { return a.unscale * back * a.problem.epilogue.scale; };
  units u;
  u.plain = a.plain && (sizeof(In) < 4 || (fabsf(both()) > 0x1p-100f && fabsf(both()) < 0x1p100f));
  u.unscale = u.plain ? both() : back;
  return u;
}

/* Finishes and stores a step of a strip, whose first output column is `column`. */
template <class In, int WEIGHT_DIGITS, int GROUPS, bool MANY>
DEVICE void compute(const separable_arguments &a, const tile &t, const team &who, const uint8_t *split, window<GROUPS> &w,
                    const units &u, int column) {
  constexpr int STEP = step_of<In>();
  UNROLLED_FOR (int first = 0; first < STEP; first += AT_ONCE * GROUP)
    advance<In, WEIGHT_DIGITS, GROUPS, MANY>(a, t, who, split, w, first, u.unscale, u.plain);
  if (a.problem.keep_alpha)
    stage_alpha<In>(a, t, who, column, STEP);
  join(who);
  write(a, t, who, column, STEP);
}

/* The number of threads to compile for, which limits registers. u8 up to 5 groups gets 80 registers, so three blocks of 256
 * threads fit. Otherwise a thread gets 128 registers, so two blocks fit. If the window would take more than half of these
 * (above 9 groups), it gets 255. */
template <class In> constexpr int bound_of(int groups) {
  return groups > 9 ? 256 : sizeof(In) == 1 && groups <= 5 ? 768 : 512;
}

/* Block: a warp for each strip and convolved channel. Grid: segments side by side, then blocks of strips one below the
 * other, then planes of all images. While a warp computes a step, the next is copied. Then the warp converts the next step,
 * and starts to copy the step after it. */
template <class In, int WEIGHT_DIGITS, int GROUPS, bool MANY>
__global__ void __launch_bounds__(bound_of<In>(GROUPS), 1) convolve(const __grid_constant__ separable_arguments a) {
  constexpr int STEP = step_of<In>(), LAG = GROUP * (GROUPS - 1); /* LAG: columns from the outputs to the inputs */
  extern __shared__ uint4 memory[];
  const tile t = make_tile(a, (uint8_t *)memory);
  const team who = make_team<In>(a);
  const int end = t.end + a.left + LAG + GROUP; /* end of the input columns that are needed */
  window<GROUPS> w = {};
  float scale = sizeof(In) == 4 ? LARGEST_SCALE : INTEGER_SCALE;
  units u = units_of<In>(a, scale);
  find_sources(a, t);
  load_fragments(a, t, MANY ? (int)blockDim.x * a.filters * a.pairs * (GROUPS - 1) : 0);
  __syncthreads();
  fetch<In>(a, t, t.column + a.left, end);
  int turn = 0;
  for (int column = t.column - LAG - STEP; column < t.end;
       column += STEP, turn ^= 1) {                /* first column of the outputs; the first steps have none */
    const int next = column + STEP + LAG + a.left; /* first input column of the next step */
    if (column >= t.column - LAG)
      compute<In, WEIGHT_DIGITS, GROUPS, MANY>(a, t, who, t.shared + (turn ^ 1) * a.split, w, u, column);
    if (column + STEP >= t.end)
      break;
    await_all_copies();
    uint8_t *split = t.shared + turn * a.split;
    const bool fits = convert<In>(a, t, split, scale);
    const bool more = column + 2 * STEP < t.end;
    if (more)
      fetch<In>(a, t, next + STEP, end);
    if (sizeof(In) < 4) {
      __syncthreads();
    } else if (__syncthreads_or(!fits)) {
      const float before = scale;
      scale = find_scale(a, t, before, next, end);
      if (scale == 0)
        break;
      u = units_of<In>(a, scale);
      scale_windows<GROUPS, MANY>(a, t, w, scale / before);
      convert<In>(a, t, split, scale);
      if (more)
        fetch<In>(a, t, next + STEP, end);
      __syncthreads();
    }
  }
  if (sizeof(In) == 4 && scale == 0)
    define_any(a, t);
}

} // namespace

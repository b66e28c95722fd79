/* SPDX-License-Identifier: MIT */
/*
 * separable, floats and one filter of rank 1 that reaches over at most 65 rows: along the rows, then down the columns, on
 * tensor cores.
 *
 *      input rows            a block: 256 samples of a row, 32 for each of its warps, and 16 rows at a time
 *    +-----+-----+-----+
 *    | 0 0 | 1 1 | 2 2 | 16 rows    Of 16 samples by 8 rows, the filter's row makes Y^T = T * X^T: T, 16 samples by those
 *    +-----+-----+-----+            that they need, has the row on its diagonals.
 *       |     |     |
 *       v     v     v               Y^T is where the next product wants its left factor. Times the matrix of the column it
 *    +-----+-----+-----+            adds to the sums of the GROUPS + 1 eights of output rows that 16 input rows reach; two
 *    | 0 0 | 1 1 | 2 2 |            of them are finished then, and the others move up by being written to other registers
 *    +-----+-----+-----+            than they were read from.
 *
 * Numbers are two float16 each, and samples have a scale, as in separable_tensor.cuh; each warp has its own, and a new one
 * is laid on the sums, too. The block copies input rows to shared memory, with what the filter reaches beside them, two
 * steps ahead, borders included. Channels that are interleaved are taps that lie so many samples apart: only the ends of
 * rows know of them.
 *
 * Every other strip goes up, so that the rows that strips share are read at about the same time, and once from memory.
 *
 * Where a sample is not finite, sums that are not finite are computed again by the definition, because 0 * infinity must not
 * appear where the filter does not reach.
 *
 * The arithmetic, a sample: 3 * (16 * TURNS + 8 * (GROUPS + 1)) multiply-adds of tensor cores, 288 for 31 x 31, and some 25
 * other instructions.
 */
#ifndef GCONV_CUDA_SEPARABLE_WALK_CUH
#define GCONV_CUDA_SEPARABLE_WALK_CUH

#include "copies.cuh"
#include "separable_weights.cuh"

namespace {
namespace walk {

enum {
  TILE = 16,           /* samples of a product */
  TILES = 2,           /* of a warp */
  SPAN = TILES * TILE, /* samples of a warp */
  ROWS = 16,           /* of a step */
  SLOTS = 3            /* steps in shared memory */
};

/* Warps of a block, side by side; and blocks of a multiprocessor, for which registers are limited. */
__host__ __device__ constexpr int warps_of(int groups) {
  return groups > 5 ? 4 : 8;
}
constexpr int BLOCKS = 2;

struct walk_arguments {
  arguments common;
  const float *weights;   /* of the plan */
  const uint4 *fragments; /* of this filter: see write_filter() */
  int32_t filter;
  int32_t turns;                 /* products of 16 samples that an output needs, along the row */
  int32_t pitch;                 /* of a row in shared memory, in words of 4 samples */
  int32_t left;                  /* from a block's first output to its first input sample: a multiple of 4 */
  int32_t reach;                 /* samples of an input row that some output needs, from sample 0 on */
  int32_t lead;                  /* rows from the first that an output needs to the last */
  int32_t samples;               /* of an output row */
  int32_t across, strips, strip; /* blocks side by side; one below the other; output rows of each */
  float unscale, divisor, bias;  /* unscale: from sums to responses */
  float factor;                  /* plain: from sums to output samples, but for the offset */
  bool plain;                    /* nothing to the epilogue but scale and offset, to floats in rows of aligned pairs */
};

/* Where a block is, and a thread in it. Rows are counted from the block's first, down or up. */
struct block_place {
  const uint8_t *in; /* the planes, from row 0 on */
  uint8_t *out;
  uint4 *slots;                 /* shared memory */
  int32_t *offsets;             /* of patches in an input row, in bytes; -1: outside */
  int32_t first;                /* output sample of the block */
  int32_t in_row, out_row;      /* numbers of the first rows */
  int32_t down;                 /* from a row to the next: 1 or -1 */
  int64_t in_step, out_step;    /* the same in bytes */
  int32_t calm_begin, calm_end; /* a step from a row between these on has rows that all lie inside */
  int32_t rows;                 /* output rows */
  int32_t words;                /* of 4 samples, of an input row that the block needs */
  int32_t inner, outer;         /* words from `inner` to `outer` - 1 lie wholly inside the row */
  int32_t patches;              /* samples of the others */
};

/* ---- Input ---- */

template <int BYTES> __device__ __forceinline__ void copy_bytes(void *to, const uint8_t *from) {
#if __CUDA_ARCH__ >= 800
  const uint32_t address = (uint32_t)__cvta_generic_to_shared(to);
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from) : "memory");
#else
  for (int i = 0; i < BYTES / 4; i++)
    ((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
#endif
}

/* Number of patch i among the samples of a row. */
__device__ __forceinline__ int patch_place(const block_place &at, int i) {
  return i < 4 * at.inner ? i : i + 4 * (at.outer - at.inner);
}

/* Finds which words lie inside, and where the samples of the others come from. */
__device__ __forceinline__ void find_patches(const walk_arguments &a, block_place &at) {
  const gconv_problem &problem = a.common.problem;
  const int C = problem.channels, first = at.first + a.left;
  const int before = min(max(-first, 0), 4 * at.words);
  at.inner = (before + 3) / 4;
  at.outer = min(max((problem.width * C - first) >> 2, at.inner), at.words);
  at.patches = 4 * (at.words - at.outer + at.inner);
#pragma unroll 1
  for (int i = threadIdx.x; i < at.patches; i += blockDim.x) {
    const int sample = first + patch_place(at, i), x = (sample - (sample < 0 ? C - 1 : 0)) / C;
    const int64_t inside = sample < a.reach ? gconv_border_index(problem.border, x, problem.width) : GCONV_OUTSIDE;
    at.offsets[i] = inside == GCONV_OUTSIDE ? -1 : (int)(inside * C + sample - x * C) * 4;
  }
}

/* Words of an input row that a block needs, and from a row to the next in shared memory: so many that lanes of two rows meet
 * different banks. */
__host__ __device__ constexpr int words_for(int warps, int turns) {
  return (warps * SPAN + TILE * (turns - 1)) / 4;
}
__host__ __device__ constexpr int pitch_for(int warps, int turns) {
  return (words_for(warps, turns) + 3) / 8 * 8 + 4;
}

/* The words of a step that a thread copies: of each two rows of its warp, one behind the other, words `lane` + i.
 * TURNS: 0 if they are not known here. */
template <int WARPS, int TURNS> struct own_words {
  int lane, words, pitch;

  __device__ __forceinline__ own_words(int the_lane, int turns)
      : lane(the_lane), words(words_for(WARPS, TURNS > 0 ? TURNS : turns)),
        pitch(pitch_for(WARPS, TURNS > 0 ? TURNS : turns)) {}

  __device__ __forceinline__ bool has(int i) const {
    return i + LANES <= 2 * words || i + lane < 2 * words;
  }
  __device__ __forceinline__ bool is_second(int i) const {
    return i >= words || (i + LANES > words && i + lane >= words);
  }
  /* From the thread's first word of a step in shared memory. */
  __device__ __forceinline__ int offset(int row, int i) const {
    return row * pitch + i + (is_second(i) ? pitch - words : 0);
  }
};

/* The input row that stands for row `y`; NULL: the border's level does. */
__device__ __forceinline__ const uint8_t *source_row(const walk_arguments &a, const block_place &at, int y) {
  const gconv_problem &problem = a.common.problem;
  const int64_t source = (unsigned)y < (unsigned)problem.height ? y : gconv_border_index(problem.border, y, problem.height);
  return source == GCONV_OUTSIDE ? NULL : at.in + source * a.common.in_row;
}

/* Begins to copy the patches of a row of the warp, from input row `from`. */
__device__ __forceinline__ void fetch_patches(const block_place &at, int lane, float level, uint4 *row,
                                              const uint8_t *from) {
#pragma unroll 1
  for (int i = lane; i < at.patches; i += LANES) {
    float *to = (float *)row + patch_place(at, i);
    const int offset = at.offsets[i];
    if (offset < 0)
      *to = level;
    else
      copy_bytes<4>(to, from + offset);
  }
}

/* Begins to copy the own words of a step from row `first_row` on, where rows lie outside. It must not take long: all other
 * blocks wait for those at the edges in the end. */
template <int WARPS>
__device__ __noinline__ void fetch_edge(const walk_arguments &a, block_place at, uint4 *slot, int first_row) {
  const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const float level = a.common.problem.border_level;
#pragma unroll 1
  for (int i = 0; i < 2 * ROWS / (2 * WARPS); i++) {
    const int row = i / 2 * 2 * WARPS + 2 * warp + i % 2;
    const uint8_t *from = source_row(a, at, at.in_row + at.down * (first_row + row));
    uint4 *to = slot + row * a.pitch;
#pragma unroll 1
    for (int word = lane; word < at.words; word += LANES)
      if (!from)
        *(float4 *)(to + word) = make_float4(level, level, level, level);
      else if (word >= at.inner && word < at.outer)
        copy_bytes<16>(to + word, from + ((int64_t)at.first + a.left + 4 * word) * 4);
    if (from)
      fetch_patches(at, lane, level, to, from);
  }
}

/* Begins to copy the input rows of a step from `first_row` on; `from` is the thread's first word. */
template <int WARPS, int TURNS>
__device__ __forceinline__ void fetch(const walk_arguments &a, const block_place &at, const own_words<WARPS, TURNS> &own,
                                      int warp, uint4 *slot, int first_row, const uint8_t *from) {
  uint4 *to = slot + 2 * warp * own.pitch + own.lane;
  if (first_row < at.calm_begin || first_row > at.calm_end) {
    fetch_edge<WARPS>(a, at, slot, first_row);
  } else {
#pragma unroll
    for (int row = 0; row < ROWS; row += 2 * WARPS, from += 2 * WARPS * at.in_step) {
      const uint8_t *from_second = from + at.in_step - own.words * 16;
      if (at.patches == 0) {
#pragma unroll(TURNS > 0 ? 8 : 1)
        for (int i = 0; i < 2 * own.words; i += LANES)
          if (own.has(i))
            copy_bytes<16>(to + own.offset(row, i), (own.is_second(i) ? from_second : from) + i * 16);
      } else {
#pragma unroll 1
        for (int i = 0; i < 2 * own.words; i += LANES) {
          const int word = i + own.lane - (own.is_second(i) ? own.words : 0);
          if (own.has(i) && word >= at.inner && word < at.outer)
            copy_bytes<16>(to + own.offset(row, i), (own.is_second(i) ? from_second : from) + i * 16);
        }
        const uint8_t *line = from - ((int64_t)at.first + a.left + 4 * own.lane) * 4;
        for (int i = 0; i < 2; i++, line += at.in_step)
          fetch_patches(at, own.lane, a.common.problem.border_level, to - own.lane + (row + i) * own.pitch, line);
      }
    }
  }
  commit_copies();
}

/* ---- The two directions ---- */

/* Y^T of 16 rows: their responses to the filter's row, eights of rows by tiles. `x` are the lane's first four samples.
 * Returns the largest magnitudes of all samples, scaled. */
template <int TURNS>
__device__ __forceinline__ uint32_t lay_rows(int turns, int pitch, const uint4 *taps, const float4 *x, float scale,
                                             float (&y)[2][TILES][4]) {
  uint32_t most = 0;
#pragma unroll(TURNS > 0 ? TURNS + TILES : 1)
  for (int s = 0; s < turns + TILES - 1; s++) {
    uint4 parts[2]; /* of samples: high, then low */
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const float4 four = x[8 * i * pitch + 4 * s];
      split(scale * four.x, scale * four.y, parts[i].x, parts[i].z);
      split(scale * four.z, scale * four.w, parts[i].y, parts[i].w);
      most = larger_pair(larger_pair(most, parts[i].x), parts[i].y);
    }
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
      if (s >= tile && s < turns + tile) {
        const uint4 h = taps[2 * LANES * (s - tile)], l = taps[2 * LANES * (s - tile) + LANES]; /* of T */
#pragma unroll
        for (int i = 0; i < 2; i++)
          multiply(y[i][tile], h.x, h.y, h.z, h.w, parts[i].x, parts[i].y);
#pragma unroll
        for (int i = 0; i < 2; i++)
          multiply(y[i][tile], h.x, h.y, h.z, h.w, parts[i].z, parts[i].w);
#pragma unroll
        for (int i = 0; i < 2; i++)
          multiply(y[i][tile], l.x, l.y, l.z, l.w, parts[i].x, parts[i].y);
      }
  }
  return most;
}

/* Adds what 16 rows of Y bring to the sums of the GROUPS + 1 eights of output rows that they reach, of which they finish the
 * last two; before, sums were two further on. */
template <int GROUPS>
__device__ __forceinline__ void lay_columns(const uint4 *taps, const float (&y)[2][TILES][4],
                                            float (&sums)[GROUPS + 1][TILES][4]) {
  uint32_t h[TILES][4], l[TILES][4];
#pragma unroll
  for (int tile = 0; tile < TILES; tile++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      split(y[i / 2][tile][i % 2 * 2], y[i / 2][tile][i % 2 * 2 + 1], h[tile][i], l[tile][i]);
#pragma unroll
  for (int e = GROUPS; e >= 0; e--) {
    const uint4 b = taps[e * LANES];
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        sums[e][tile][i] = e >= 2 ? sums[e >= 2 ? e - 2 : 0][tile][i] : 0.0f;
      multiply(sums[e][tile], h[tile][0], h[tile][1], h[tile][2], h[tile][3], b.x, b.y);
      multiply(sums[e][tile], l[tile][0], l[tile][1], l[tile][2], l[tile][3], b.x, b.y);
      multiply(sums[e][tile], h[tile][0], h[tile][1], h[tile][2], h[tile][3], b.z, b.w);
    }
  }
}

/* The largest of all lanes' numbers. */
__device__ __forceinline__ uint32_t largest_of_warp(uint32_t x) {
  for (int distance = LANES / 2; distance > 0; distance /= 2)
    x = max(x, __shfl_xor_sync(~0u, x, distance));
  return x;
}

/* The scale, a power of two, that suits the samples that a warp meets in a step, `width` of each row; 0 if one is not
 * finite. */
__device__ __noinline__ float suitable_scale(const float *samples, int row_floats, int width) {
  float most = 0;
  for (int i = threadIdx.x % LANES; i < width; i += LANES)
    for (int row = 0; row < ROWS; row++)
      most = larger_magnitude(most, samples[row * row_floats + i]);
  return scale_for(largest_of_warp(__float_as_uint(most) & 0x7fffffffu));
}

/* ---- Output ---- */

/* Stores one value, wherever its place is. */
__device__ __forceinline__ void store_sample(const walk_arguments &a, const block_place &at, int row, int sample, float y) {
  const gconv_problem &problem = a.common.problem;
  const int C = problem.channels, q = sample / C, c = sample - q * C, p = at.out_row + at.down * row;
  uint8_t *pixel = at.out + p * a.common.out_row + q * a.common.out_pixel, *to = pixel + c * a.common.out_channel;
  if (problem.keep_alpha && c == C - 1) {
    if (a.filter > 0 && problem.epilogue.combine == GCONV_COMBINE_STACK)
      return; /* it is there once, with the first filter */
    y = kept_alpha<float>(problem, at.in, a.common.in_row, p, q);
    to = pixel + a.common.out_alpha;
  }
  if (problem.out_type == GCONV_U8)
    gconv_store(y, to);
  else if (problem.out_type == GCONV_U16)
    gconv_store(y, (uint16_t *)to);
  else
    gconv_store(y, (float *)to);
}

/* Stores an eight of finished rows: of each tile, a lane has samples `sample` and the next, of `row` and the next. `to` is
 * the place of the first. */
__device__ __forceinline__ void store_whole(const block_place &at, const float (&sums)[TILES][4], float factor, float offset,
                                            uint8_t *to) {
#pragma unroll
  for (int i = 0; i < 2; i++, to += at.out_step)
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
      *(float2 *)(to + 4 * TILE * tile) = {fmaf(sums[tile][i], factor, offset), fmaf(sums[tile][i + 2], factor, offset)};
}

/* The same where some have no place. */
__device__ __forceinline__ void store_part(const walk_arguments &a, const block_place &at, int row, int sample,
                                           const float (&sums)[TILES][4], float back, uint8_t *to) {
  const float offset = a.common.problem.epilogue.offset;
#pragma unroll
  for (int i = 0; i < 2; i++, to += at.out_step)
    if (row + i >= 0 && row + i < at.rows)
#pragma unroll
      for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int j = 0; j < 2; j++)
          if (sample + TILE * tile + j < a.samples)
            ((float *)to)[TILE * tile + j] =
                fmaf(sums[tile][i + 2 * j] * a.unscale * back, a.common.problem.epilogue.scale, offset);
}

/* The same, sample by sample. */
__device__ __forceinline__ void store_each(const walk_arguments &a, const block_place &at, int row, int sample,
                                           const float (&sums)[TILES][4], float back) {
  float copies[TILES * 4];
#pragma unroll
  for (int i = 0; i < TILES * 4; i++)
    copies[i] = sums[i / 4][i % 4];
#pragma unroll 1
  for (int i = 0; i < TILES * 4; i++) {
    const int p = row + i % 2, x = sample + i / 4 * TILE + i / 2 % 2;
    if (p >= 0 && p < at.rows && x < a.samples) {
      const float response = gconv_response(copies[i] * a.unscale * back, a.divisor, a.bias);
      store_sample(a, at, p, x, gconv_finish(response, &a.common.problem.epilogue));
    }
  }
}

/* The warp's outputs from `sample` on in rows `begin` to `end` - 1, by the definition. */
__device__ __noinline__ void redo(const walk_arguments &a, block_place at, int sample, int begin, int end) {
  const gconv_problem &problem = a.common.problem;
  sample += threadIdx.x % LANES;
  const int q = sample / problem.channels, c = sample % problem.channels;
  const float *taps = a.weights + (int64_t)a.filter * problem.rows * problem.columns;
  for (int row = max(begin, 0); row < min(end, at.rows) && sample < a.samples; row++) {
    const int64_t top = (int64_t)at.out_row + at.down * row - problem.pad_top, left = (int64_t)q - problem.pad_left;
    float sum = 0;
    for (int r = 0; r < problem.rows; r++)
      for (int s = 0; s < problem.columns; s++)
        sum = fmaf(taps[r * problem.columns + s],
                   sample_at<float>(problem, at.in, a.common.in_row, top + (int64_t)r * problem.dilation_y,
                                    left + (int64_t)s * problem.dilation_x, c),
                   sum);
    store_sample(a, at, row, sample, gconv_finish(gconv_response(sum, a.divisor, a.bias), &problem.epilogue));
  }
}

/* ---- The kernel ---- */

template <int WARPS> __device__ __forceinline__ block_place find_place(const walk_arguments &a, uint4 *slots) {
  const gconv_problem &problem = a.common.problem;
  const unsigned beside = blockIdx.x % a.across, rest = blockIdx.x / a.across;
  const int sheet = rest / a.strips, strip = rest - sheet * a.strips;
  const int image = sheet / problem.planes, plane = sheet - image * problem.planes;
  const int top = strip * a.strip, end = min(top + a.strip, problem.out_height);
  block_place at;
  at.in = a.common.in + image * a.common.in_image + plane * a.common.in_plane;
  at.out = a.common.out + image * a.common.out_image + plane * a.common.out_plane;
  at.slots = slots;
  at.offsets = (int32_t *)(slots + SLOTS * ROWS * a.pitch);
  at.first = beside * (WARPS * SPAN);
  at.down = strip % 2 == 0 ? -1 : 1;
  at.rows = end - top;
  at.out_row = at.down > 0 ? top : end - 1;
  at.in_row = at.out_row - problem.pad_top + (at.down > 0 ? 0 : a.lead);
  at.in_step = at.down * a.common.in_row;
  at.out_step = at.down * a.common.out_row;
  at.words = words_for(WARPS, a.turns);
  find_patches(a, at);
  at.calm_begin = at.down > 0 ? -at.in_row : at.in_row - problem.height + 1;
  at.calm_end = at.down > 0 ? problem.height - ROWS - at.in_row : at.in_row - ROWS + 1;
  return at;
}

/* Whether this thread has a finished sum that is not finite. */
__device__ __forceinline__ bool is_odd(const float (&sums)[TILES][4]) {
  bool odd = false;
#pragma unroll
  for (int i = 0; i < 4 * TILES; i++)
    odd = odd || !(fabsf(sums[i / 4][i % 4]) < INFINITY);
  return odd;
}

/* Grid: blocks side by side, then one below the other, then planes of all images. TURNS: 0 if they are not known here. */
template <int GROUPS, int TURNS>
__global__ void __launch_bounds__(warps_of(GROUPS) * LANES, BLOCKS) convolve(const __grid_constant__ walk_arguments a) {
  constexpr int WARPS = warps_of(GROUPS);
  extern __shared__ uint4 memory[];
  const int turns = TURNS > 0 ? TURNS : a.turns;
  /* These stay in registers: to find them again takes long, and the compiler would. */
  const int warp = __shfl_sync(~0u, threadIdx.x / LANES, 0), lane = __shfl_sync(~0u, threadIdx.x, threadIdx.x) % LANES;
  const own_words<WARPS, TURNS> own(lane, turns);
  const int fragment_words = (2 * turns + GROUPS + 1) * LANES, step_words = ROWS * own.pitch;
  uint4 *const slots = memory + fragment_words;
  const block_place at = find_place<WARPS>(a, slots);
  for (int i = threadIdx.x; i < fragment_words; i += WARPS * LANES) /* there are columns for both ways */
    memory[i] = a.fragments[i < 2 * turns * LANES || at.down > 0 ? i : i + (GROUPS + 1) * LANES];
  __syncthreads();
  const int first = at.first + warp * SPAN, sample = first + lane / 4 * 2;
  const uint4 *const tile = slots + warp * (SPAN / 4);
  float sums[GROUPS + 1][TILES][4] = {};
  float scale = 0x1p114f, back = 0x1p-114f; /* scale: of the samples; it only ever shrinks, from the largest that there is */
  float factor = 0;                         /* from sums to outputs; 0 if that must be two multiplications */
  int odd_begin = at.rows, odd_end = 0, odd_until = INT32_MIN, slot = 0;
  bool fits = false;         /* nothing is known of a first step */
  int p = -8 * (GROUPS - 2); /* each step finishes the eights of rows from p - 8 and from p on */
  const uint8_t *from = at.in + (at.in_row + at.down * 2 * warp) * a.common.in_row +
                        ((int64_t)at.first + a.left + 4 * lane) * 4; /* this thread's first word of a step */
  uint8_t *to = at.out + (at.out_row + at.down * (p - 8 + lane % 4 * 2)) * a.common.out_row + (int64_t)sample * 4;
  for (int i = 0; i < SLOTS - 1; i++, from += ROWS * at.in_step)
    fetch(a, at, own, warp, slots + i * step_words, i * ROWS, from);
#pragma unroll 1
  for (; p - 8 < at.rows; p += ROWS, from += ROWS * at.in_step, to += ROWS * at.out_step) {
    await_copies<SLOTS - 2>();
    __syncthreads();
    fetch(a, at, own, warp, slots + (slot == 0 ? (SLOTS - 1) * step_words : slot - step_words),
          p + 8 * (GROUPS - 2) + (SLOTS - 1) * ROWS, from);
    if (first < a.samples) {
      float y[2][TILES][4];
      bool finite = true;
      do {
        if (!fits) {
          const float next = suitable_scale((const float *)(tile + slot), 4 * own.pitch, SPAN + TILE * (turns - 1));
          finite = next > 0;
          if (finite && next < scale) {
#pragma unroll
            for (int i = 0; i < (GROUPS + 1) * TILES * 4; i++)
              sums[i / TILES / 4][i / 4 % TILES][i % 4] *= next * back;
            scale = next, back = 1.0f / next;
            factor = fabsf(a.factor * back) > 0x1p-100f && fabsf(a.factor * back) < 0x1p100f ? a.factor * back : 0;
          }
        }
#pragma unroll
        for (int i = 0; i < 2 * TILES * 4; i++)
          y[i / TILES / 4][i / 4 % TILES][i % 4] = 0;
        const uint32_t most = lay_rows<TURNS>(turns, own.pitch, memory + lane,
                                              (const float4 *)tile + slot + lane / 4 * own.pitch + lane % 4, scale, y);
        fits = !__any_sync(~0u, max(most & 0xffff, most >> 16) > LARGEST_BITS);
      } while (!fits && finite);
      if (!finite) { /* all sums that this step adds to are lost */
        odd_until = p + 8 * GROUPS;
        fits = true;
      }
      lay_columns<GROUPS>(memory + 2 * turns * LANES + lane, y, sums);
      const bool whole = a.plain && factor != 0 && p - 8 >= 0 && p + 8 <= at.rows && first + SPAN <= a.samples;
      if (whole) {
        store_whole(at, sums[GROUPS], factor, a.common.problem.epilogue.offset, to);
        store_whole(at, sums[GROUPS - 1], factor, a.common.problem.epilogue.offset, to + 8 * at.out_step);
      } else {
#pragma unroll
        for (int i = 0; i < 2; i++) {
          const int eight = p - 8 + 8 * i + lane % 4 * 2;
          if (a.plain)
            store_part(a, at, eight, sample, sums[GROUPS - i], back, to + 8 * i * at.out_step);
          else
            store_each(a, at, eight, sample, sums[GROUPS - i], back);
        }
      }
      if (p - 8 < odd_until && __any_sync(~0u, is_odd(sums[GROUPS]) || is_odd(sums[GROUPS - 1]))) {
        odd_begin = min(odd_begin, p - 8);
        odd_end = p + 8;
      }
    }
    slot = slot == (SLOTS - 1) * step_words ? 0 : slot + step_words;
  }
  await_copies<0>();
  __syncwarp(); /* other lanes have stored where redo() does */
  redo(a, at, first, odd_begin, odd_end);
}

} // namespace walk
} // namespace

#endif

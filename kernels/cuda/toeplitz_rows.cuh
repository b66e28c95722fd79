/* SPDX-License-Identifier: MIT */
/* toeplitz: products of windows and bands, and staging the input rows for the windows. */
#pragma once

#include "common.cuh"
#include "copies.cuh"

namespace {

enum { LANES = 32, WARPS = 4 };                         /* warps of a block */
enum { BLOCK = 8, TILE = 16 * BLOCK, HALF = TILE / 2 }; /* output samples of a window, of a warp, of half of its windows */
enum { CHUNK = 16 /* bytes loaded at once */, MOST_DIGITS = 3 };

/* The factors from the sum of a filter, in quanta, to its response. */
struct scaling {
  float multiplier; /* the quantum, divided by the divisor if that is a power of two */
  float divisor;    /* otherwise the divisor */
  float bias;
};

struct banded_arguments {
  arguments common;
  const uint32_t *bands;     /* of each filter: the lanes' parts of the right factors (add_byte()) */
  const scaling *scalings;   /* [K] */
  int32_t samples;           /* of an output row: Q * C */
  int32_t left;              /* start of the window of output sample 0, in samples; a multiple of 4 */
  int32_t rows, words;       /* of the bands of a filter */
  int32_t reach;             /* end of the input samples of a row that outputs need */
  int32_t whole;             /* samples of an input row that may be loaded 16 bytes at a time; 0 if rows are not aligned */
  int64_t in_step, out_step; /* bytes from one row of a phase of the dilation to the next */
  int32_t across;            /* warps of a block side by side, if warps go down the rows */
  int32_t strips, strip;     /* strips of a phase of the dilation, and rows of a strip */
  bool combined;             /* the responses of all filters are combined */
  bool dense;                /* output samples are neighbours */
  float scale, offset;       /* of the epilogue */
  uint4 level;               /* level of the border, as a chunk of samples */
};

/* ---- Products ---- */

/* c += a * b: sixteen windows of 16 bytes, eight outputs. Lane 4 g + t has bytes 4 t .. 4 t + 3 of windows g and g + 8, and
 * of output g. Its sums are those of window g, outputs 2 t and 2 t + 1, then those of window g + 8. */
__device__ __forceinline__ void multiply(int (&c)[4], uint32_t a0, uint32_t a1, uint32_t b) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(b));
#else
  asm("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+r"(c[0]), "+r"(c[1])
      : "r"(a0), "r"(b));
  asm("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+r"(c[2]), "+r"(c[3])
      : "r"(a1), "r"(b));
#endif
}

/* The same for 32 bytes. a2, a3 and d are the second half. */
__device__ __forceinline__ void multiply(int (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b,
                                         uint32_t d) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b), "r"(d));
#else
  multiply(c, a0, a1, b);
  multiply(c, a2, a3, d);
#endif
}

/* A lane's part of sixteen windows: for each byte of a sample, W words of windows g and g + 8. */
template <int P, int W> struct windows { uint32_t byte[P][W][2]; };

/* sums[p + d] += byte p of the windows * digit d of the taps, for all p and d. */
template <int P, int W, int D>
__device__ __forceinline__ void add_products(const windows<P, W> &x, const uint32_t (&band)[D][W],
                                             int (&sums)[D + P - 1][4]) {
  UNROLLED_FOR (int p = 0; p < P; p++)
    UNROLLED_FOR (int d = 0; d < D; d++) {
      UNROLLED_FOR (int w = 0; w + 1 < W; w += 2)
        multiply(sums[p + d], x.byte[p][w][0], x.byte[p][w][1], x.byte[p][w + 1][0], x.byte[p][w + 1][1], band[d][w],
                 band[d][w + 1]);
      if (W % 2 == 1)
        multiply(sums[p + d], x.byte[p][W - 1][0], x.byte[p][W - 1][1], band[d][W - 1]);
    }
}

/* ---- Samples ---- */

/* gconv_border_index() in 32 bits, for sizes up to 2^29 and positions up to 2^30 away. */
__device__ __forceinline__ int index_of(gconv_border border, int i, int size) {
  if ((unsigned)i < (unsigned)size)
    return i;
  if (border == GCONV_BORDER_ZERO || border == GCONV_BORDER_CONSTANT)
    return GCONV_OUTSIDE;
  if (border == GCONV_BORDER_REPLICATE || size == 1)
    return i < 0 ? 0 : size - 1;
  const int period = border == GCONV_BORDER_WRAP ? size : border == GCONV_BORDER_SYMMETRIC ? 2 * size : 2 * size - 2;
  int j = i % period;
  j = j < 0 ? j + period : j;
  return j < size ? j : border == GCONV_BORDER_SYMMETRIC ? 2 * size - 1 - j : period - j;
}

/* Returns the place in its row of sample number `sample`, which may be outside; or GCONV_OUTSIDE. */
__device__ __forceinline__ int place_of(const gconv_problem &problem, int sample) {
  const int channels = problem.channels;
  const int x = sample >= 0 ? sample / channels : -((channels - 1 - sample) / channels);
  const int at = index_of(problem.border, x, problem.width);
  return at == GCONV_OUTSIDE ? GCONV_OUTSIDE : at * channels + (sample - x * channels);
}

/* Bytes of a staged row for `tiles` tiles side by side: their windows, from a multiple of 16 bytes on. */
__host__ __device__ constexpr int pitch_of(int tiles, int words, int sample_bytes) {
  return ((tiles * TILE - BLOCK + 16 * words) * sample_bytes + 12 + 15) / CHUNK * CHUNK;
}

/* Returns where the windows of the tile at `tile` begin in a staged row. */
template <class In> __device__ __forceinline__ int lead_of(const banded_arguments &a) {
  return a.left * (int)sizeof(In) & (CHUNK - 1);
}

__device__ __forceinline__ uint32_t load_word(uint32_t shared) {
  uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(shared));
  return word;
}

__device__ __forceinline__ void store_word(uint32_t shared, uint32_t word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared), "r"(word) : "memory");
}

/* Input rows on their way to shared memory, for a warp or a block. They are copied in chunks of 16 bytes. Chunks begin ..
 * end - 1 reach beyond the ends of a row; their samples are loaded one by one from their places. */
struct row_source {
  const uint8_t *in;
  int first;      /* first sample of the first chunk */
  int begin, end; /* of the chunks at a border */
  int *places;    /* places of their samples in a row, or GCONV_OUTSIDE */
};

/* Finds what THREADS threads, a warp or the block, stage of rows of so many chunks. `places` has room for all samples at the
 * border. The threads must synchronise before they stage. */
template <class In, int THREADS>
__device__ __forceinline__ row_source make_source(const banded_arguments &a, const uint8_t *in, int first, int chunks,
                                                  int *places) {
  constexpr int N = CHUNK / sizeof(In);
  row_source s = {in, first, chunks, 0, places};
  for (int chunk = 0; chunk < chunks; chunk++) {
    const int left = first + chunk * N;
    if (left < a.reach && (left < 0 || left + N > a.whole)) {
      s.begin = min(s.begin, chunk);
      s.end = chunk + 1;
    }
  }
  for (int i = threadIdx.x % THREADS; i < (s.end - s.begin) * N; i += THREADS)
    places[i] = place_of(a.common.problem, first + s.begin * N + i);
  return s;
}

/* Stages one sample of up to four rows, which are `pitch` samples apart. Four loads are under way at a time. */
template <class In>
__device__ __forceinline__ void stage_places(const banded_arguments &a, const uint8_t *in, int y, int place, int rows,
                                             In *to, int pitch) {
  const gconv_problem &problem = a.common.problem;
  In samples[4];
  bool outside[4];
  UNROLLED_FOR (int i = 0; i < 4; i++) {
    const int source = index_of(problem.border, y + i * problem.dilation_y, problem.height);
    outside[i] = source == GCONV_OUTSIDE || place == GCONV_OUTSIDE;
    samples[i] = __ldg((const In *)(in + (outside[i] ? 0 : source) * a.common.in_row) + (outside[i] ? 0 : place));
  }
  UNROLLED_FOR (int i = 0; i < 4; i++)
    if (i < rows)
      to[i * pitch] = outside[i] ? (In)problem.border_level : samples[i];
}

/* Stages the chunks at a border, for input rows y, y + step .. */
template <class In, int THREADS>
__device__ __forceinline__ void stage_border(const banded_arguments &a, const row_source &s, int y, int rows, int chunks,
                                             uint8_t *to) {
  constexpr int N = CHUNK / sizeof(In);
  for (int i = threadIdx.x % THREADS; i < (s.end - s.begin) * N; i += THREADS)
    for (int row = 0; row < rows; row += 4)
      stage_places(a, s.in, y + row * a.common.problem.dilation_y, s.places[i], min(4, rows - row),
                   (In *)(to + row * chunks * CHUNK) + s.begin * N + i, chunks * N);
}

/* Starts to stage `rows` rows: input rows y, y + step .. */
template <class In, int THREADS>
__device__ __forceinline__ void stage_rows(const banded_arguments &a, const row_source &s, int y, int rows, int chunks,
                                           uint8_t *to) {
  constexpr int N = CHUNK / sizeof(In);
  const gconv_problem &problem = a.common.problem;
  const int thread = threadIdx.x % THREADS;
  for (int i = thread; i < rows * chunks; i += THREADS) {
    const int row = i / chunks, chunk = i - row * chunks, left = s.first + chunk * N;
    if (chunk >= s.begin && chunk < s.end)
      continue;
    const int source = index_of(problem.border, y + row * problem.dilation_y, problem.height);
    if (source == GCONV_OUTSIDE)
      *(uint4 *)(to + i * CHUNK) = a.level;
    else if (left >= 0 && left + N <= a.whole)
      copy_async<CHUNK>(shared_address(to + i * CHUNK), s.in + source * a.common.in_row + left * (int)sizeof(In));
  }
  stage_border<In, THREADS>(a, s, y, rows, chunks, to);
}

/* Loads the windows of a tile from a staged row. `from` is the lane's first sample. */
template <int W> __device__ __forceinline__ void load_windows(const uint8_t *from, windows<1, W> &x) {
  UNROLLED_FOR (int i = 0; i < 2 * W; i++)
    x.byte[0][i / 2][i % 2] = *(const uint32_t *)(from + HALF * (i % 2) + 16 * (i / 2));
}
template <int W> __device__ __forceinline__ void load_windows(const uint8_t *from, windows<2, W> &x) {
  UNROLLED_FOR (int i = 0; i < 2 * W; i++) {
    const uint2 samples = *(const uint2 *)(from + 2 * (HALF * (i % 2) + 16 * (i / 2)));
    x.byte[0][i / 2][i % 2] = __byte_perm(samples.x, samples.y, 0x6420);
    x.byte[1][i / 2][i % 2] = __byte_perm(samples.x, samples.y, 0x7531);
  }
}

} // namespace

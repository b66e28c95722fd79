/* SPDX-License-Identifier: MIT */
/* toeplitz: products of windows and bands, staging the input rows for the windows, and storing results. */
#pragma once

#include "../core/copies.cuh"
#include "../core/launch.cuh"
#include "../core/store.cuh"

namespace {

enum { WARPS = 4 };                                         /* warps of a block */
enum { OUTPUTS = 8, TILE = 16 * OUTPUTS, HALF = TILE / 2 }; /* outputs of a window, a warp, half a warp */
enum { CHUNK = 16 /* bytes loaded at once */, MOST_DIGITS = 3 };

/* The factors from the sum of a filter, in quanta, to its response. */
struct scaling {
  float multiplier; /* the quantum, divided by the divisor if that is a power of two */
  float divisor;    /* 1 if it is part of the multiplier, otherwise that of the filter; tiny multipliers: both times 2^64 */
  float bias;
};

struct banded_arguments : arguments {
  const uint32_t *bands;     /* bands of each filter: the lanes' parts of the right factors (add_byte()) */
  const scaling *scalings;   /* [K] */
  int32_t samples;           /* samples of an output row: Q * C */
  int32_t left;              /* start of the window of output sample 0, in samples; a multiple of 4 */
  int32_t rows, words;       /* rows and words of the bands of a filter */
  int32_t reach;             /* end of the input samples of a row that outputs need */
  int32_t in_samples;        /* samples of an input row, which are loaded 16 bytes at a time */
  int64_t in_step, out_step; /* bytes from one row of a phase of the dilation to the next */
  int32_t across;            /* warps of a block side by side, if warps go down the rows */
  int32_t strips, strip;     /* strips of a phase of the dilation, and rows of a strip */
  bool combined;             /* the responses of all filters are combined */
  bool dense;                /* output samples are neighbours */
  float scale, offset;       /* scale and offset of the epilogue */
  uint4 level;               /* level of the border, as a chunk of samples */
};

/* ---- Products ---- */

/* c += a * b: sixteen windows of 32 bytes, eight outputs. Lane 4 g + t has bytes 4 t .. 4 t + 3 of windows g and g + 8 (a0,
 * a1) and of output g (b), and the bytes 16 further on (a2, a3, d). Its sums are outputs 2 t and 2 t + 1 of window g, then
 * of window g + 8. */
DEVICE void multiply(int (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b, uint32_t d) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b), "r"(d));
#else
  const uint32_t a[4] = {a0, a1, a2, a3};
  UNROLLED_FOR (int i = 0; i < 4; i++) /* GPUs before Ampere multiply eight windows of 16 bytes at a time */
    asm("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+r"(c[i % 2 * 2]), "+r"(c[i % 2 * 2 + 1])
        : "r"(a[i]), "r"(i < 2 ? b : d));
#endif
}

/* ---- Samples ---- */

/* Bytes of a staged row for `tiles` tiles side by side: their windows, after a lead of 12 bytes at most, rounded up. */
__host__ __device__ constexpr int pitch_of(int tiles, int words, int sample_bytes) {
  return ((tiles * TILE - OUTPUTS + 16 * words) * sample_bytes + 12 + 15) / CHUNK * CHUNK;
}

/* Returns how many bytes lie before the first window in a staged row, which begins at a multiple of 16 bytes. */
template <class In> DEVICE int lead_of(const banded_arguments &a) {
  return a.left * (int)sizeof(In) & (CHUNK - 1);
}

/* The input rows that a warp or a block copies to shared memory, in chunks of 16 bytes. Chunks begin .. end - 1 reach beyond
 * the ends of a row: their samples are loaded one by one. */
struct row_source {
  const uint8_t *in;
  int first;      /* first sample of the first chunk */
  int begin, end; /* the chunks at a border */
  int *places;    /* where the samples of these chunks lie in a row, or GCONV_OUTSIDE */
};

/* Finds the chunks that THREADS threads, a warp or the block, stage of rows of `chunks` chunks. `places` has room for all
 * samples at the border. The threads must synchronise before they stage. */
template <class In, int THREADS>
DEVICE row_source make_source(const banded_arguments &a, const uint8_t *in, int first, int chunks, int *places) {
  constexpr int N = CHUNK / sizeof(In);
  row_source s = {in, first, chunks, 0, places};
  for (int chunk = 0; chunk < chunks; chunk++) {
    const int left = first + chunk * N;
    if (left < a.reach && (left < 0 || left + N > a.in_samples)) {
      s.begin = min(s.begin, chunk);
      s.end = chunk + 1;
    }
  }
  for (int i = threadIdx.x % THREADS; i < (s.end - s.begin) * N; i += THREADS)
    places[i] = sample_in_row(a.problem, first + s.begin * N + i);
  return s;
}

/* Stages one sample of up to four rows, which are `pitch` samples apart. Four loads are under way at a time. */
template <class In>
DEVICE void stage_places(const banded_arguments &a, const uint8_t *in, int y, int place, int rows, In *to, int pitch) {
  const gconv_problem &problem = a.problem;
  In samples[4];
  bool outside[4];
  UNROLLED_FOR (int i = 0; i < 4; i++) {
    const int source = index_of(problem.border, y + i * problem.dilation_y, problem.height);
    outside[i] = source == GCONV_OUTSIDE || place == GCONV_OUTSIDE;
    samples[i] = __ldg((const In *)(in + (outside[i] ? 0 : source) * a.in_row) + (outside[i] ? 0 : place));
  }
  UNROLLED_FOR (int i = 0; i < 4; i++)
    if (i < rows)
      to[i * pitch] = outside[i] ? (In)problem.border_level : samples[i];
}

/* Stages the chunks at a border, for input rows y, y + step .. */
template <class In, int THREADS>
DEVICE void stage_border(const banded_arguments &a, const row_source &s, int y, int rows, int chunks, uint8_t *to) {
  constexpr int N = CHUNK / sizeof(In);
  for (int i = threadIdx.x % THREADS; i < (s.end - s.begin) * N; i += THREADS)
    for (int row = 0; row < rows; row += 4)
      stage_places(a, s.in, y + row * a.problem.dilation_y, s.places[i], min(4, rows - row),
                   (In *)(to + row * chunks * CHUNK) + s.begin * N + i, chunks * N);
}

/* Starts to stage `rows` rows: input rows y, y + step .. */
template <class In, int THREADS>
DEVICE void stage_rows(const banded_arguments &a, const row_source &s, int y, int rows, int chunks, uint8_t *to) {
  constexpr int N = CHUNK / sizeof(In);
  const gconv_problem &problem = a.problem;
  const int thread = threadIdx.x % THREADS;
  for (int i = thread; i < rows * chunks; i += THREADS) {
    const int row = i / chunks, chunk = i - row * chunks, left = s.first + chunk * N;
    if (chunk >= s.begin && chunk < s.end)
      continue;
    const int source = index_of(problem.border, y + row * problem.dilation_y, problem.height);
    if (source == GCONV_OUTSIDE)
      *(uint4 *)(to + i * CHUNK) = a.level;
    else if (left >= 0 && left + N <= a.in_samples)
      copy_async<CHUNK>(shared_address(to + i * CHUNK), s.in + source * a.in_row + left * (int)sizeof(In));
  }
  stage_border<In, THREADS>(a, s, y, rows, chunks, to);
}

/* ---- From sums of products to stored samples ---- */

/* The four neighbouring samples that a lane stores in an output row of its warp. */
struct outlet {
  const uint8_t *in; /* the plane from which kept alpha is read */
  uint8_t *out;      /* the plane of filter 0 */
  int first, samples;
};

DEVICE outlet make_outlet(const banded_arguments &a, const uint8_t *in, uint8_t *out, int tile) {
  return {in, out, tile + 4 * (int)(threadIdx.x % LANES), a.samples};
}

/* Joins the sums of the digits in float32. SMALL: there are one or three digits; then the two lowest fit into one int32.
 * (The index N > 2 is 1 where it is used. In other instances it is 0, to stay inside the array.) */
template <bool SMALL, int N> DEVICE float join(const int (&sums)[N][4], int i) {
  static_assert(!SMALL || N != 2);
  float sum = (float)sums[N - 1][i];
  UNROLLED_FOR (int n = N - 2; n > (SMALL ? 1 : -1); n--)
    sum = fmaf(sum, 256.0f, (float)sums[n][i]);
  return SMALL && N > 2 ? fmaf(sum, 65536.0f, (float)(sums[N > 2][i] * 256 + sums[0][i])) : sum;
}

/* Writes the sums of a tile to shared memory, in the order of samples. */
template <bool SMALL, int N> DEVICE void stage_sums(const int (&sums)[N][4], float *stage) {
  const int lane = threadIdx.x % LANES;
  float2 *at = (float2 *)(stage + OUTPUTS * (lane / 4) + 2 * (lane % 4));
  at[0] = make_float2(join<SMALL>(sums, 0), join<SMALL>(sums, 1));
  at[HALF / 2] = make_float2(join<SMALL>(sums, 2), join<SMALL>(sums, 3));
}

/* kept_alpha() for sample `sample` of row p. */
template <class In> __device__ float alpha_at(const arguments &a, const uint8_t *plane, int sample, int p) {
  const gconv_problem &problem = a.problem;
  const int y = index_of(problem.border, p - problem.pad_top + problem.anchor_y, problem.height);
  const int x = sample_in_row(problem, sample + (problem.anchor_x - problem.pad_left) * problem.channels);
  float alpha = problem.border_level;
  if (y != GCONV_OUTSIDE && x != GCONV_OUTSIDE)
    alpha = ((const In *)(plane + y * a.in_row))[x];
  return gconv_scale(alpha, problem.epilogue.alpha_scale, problem.epilogue.alpha_scale_low, 0.0f);
}

/* Stores sample by sample, for outputs whose neighbours are not adjacent in memory. Leaves out alpha that is kept. */
template <class Out> DEVICE void store_apart(const arguments &a, const outlet &to, uint8_t *row, const float (&y)[4]) {
  int q = to.first / a.problem.channels, c = to.first - q * a.problem.channels;
  UNROLLED_FOR (int i = 0; i < 4; i++) {
    if (to.first + i < to.samples && !(a.problem.keep_alpha && c == a.problem.channels - 1))
      gconv_store(y[i], (Out *)(row + q * a.out_pixel + c * a.out_channel));
    c++;
    if (c == a.problem.channels)
      q++, c = 0;
  }
}

/* Stores finished values of row p in the output of filter k, then alpha that is kept. Stacked responses have one alpha. */
template <class In, class Out>
DEVICE void store(const banded_arguments &a, const outlet &to, int k, int p, const float (&y)[4]) {
  uint8_t *row = to.out + k * a.out_filter + p * a.out_row;
  if (a.dense)
    store_four(y, (Out *)row, to.first, to.samples - to.first);
  else
    store_apart<Out>(a, to, row, y);
  const int channels = a.problem.channels;
  if (!a.problem.keep_alpha || (k > 0 && a.problem.epilogue.combine == GCONV_COMBINE_STACK))
    return;
  ROLLED_FOR (int sample = to.first; sample < min(to.first + 4, to.samples); sample++)
    if (sample % channels == channels - 1)
      gconv_store(alpha_at<In>(a, to.in, sample, p), (Out *)(row + sample / channels * a.out_pixel + a.out_alpha));
}

/* Stores N words, or at the end of a row only the first `count` bytes of them. */
template <int N> DEVICE void store_bytes(const uint32_t (&words)[N], uint8_t *at, int count) {
  if (count >= 4 * N)
    UNROLLED_FOR (int i = 0; i < N; i++)
      __stcs((uint32_t *)at + i, words[i]);
  else
    UNROLLED_FOR (int i = 0; i + 1 < 4 * N; i++)
      if (i < count)
        at[i] = (uint8_t)(words[i / 4] >> 8 * (i % 4));
}

/* Returns `value`. The compiler keeps the result in a register instead of computing it again. */
DEVICE uint32_t keep(uint32_t value) {
  return __shfl_sync(~0u, value, threadIdx.x % LANES);
}

/* The samples that a lane stores in a row of a tile, if the epilogue is only scale and offset. */
struct plain_outlet {
  int first, count; /* first of four output samples; how many of them lie in the row (less than 1: none) */
  bool whole;       /* all samples of the tile lie in the row */
  uint32_t chosen;  /* selects bytes from two lanes' words */
  float scale, offset;

  DEVICE plain_outlet(const banded_arguments &a, const outlet &to) {
    const int lane = threadIdx.x % LANES;
    const bool odd = lane % 2 == 1;
    first = to.first - 4 * lane + OUTPUTS * (lane / 4) + (lane % 4 & 2) * 2 + (odd ? HALF : 0);
    count = to.samples - first;
    whole = to.first - 4 * lane + TILE <= to.samples;
    chosen = keep(odd ? 0x3276 : 0x5410);
    scale = a.scalings[0].multiplier * a.scale;
    offset = a.offset;
  }

  /* Returns the levels of the lane's four sums. The product of a value and 2^-149 is rounded so that its bits are the
   * nearest integer; negative values become 0. Sums of three digits are rounded down to 256 quanta: see error_bound(). */
  template <int D> DEVICE uint32_t levels(const int (&sums)[D][4]) const {
    int32_t level[4];
    UNROLLED_FOR (int i = 0; i < 4; i++) {
      const int sum = D == 1 ? sums[0][i] : sums[D - 1][i] * 256 + (sums[D > 1][i] + (sums[0][i] >> 8));
      level[i] = __float_as_int(fmaf((float)sum, D == 1 ? scale : 256 * scale, offset) * 0x1p-149f);
    }
    return saturate_four(level);
  }

  /* Turns outputs 2 t, 2 t + 1 of windows g and g + 8 into four neighbours: of window g in even lanes, g + 8 in odd ones. */
  DEVICE uint32_t exchange(uint32_t bytes) const {
    return __byte_perm(bytes, __shfl_xor_sync(~0u, bytes, 1), chosen);
  }
};

/* Combines the responses of filter k with earlier responses, which are in `values`. Returns true if all filters are
 * combined; then y is the result. */
DEVICE bool combine(const gconv_problem &problem, int k, float (&y)[4], float *values) {
  const gconv_combine how = problem.epilogue.combine;
  float before[4] = {};
  if (k > 0)
    load_four(values, before);
  UNROLLED_FOR (int i = 0; i < 4; i++)
    before[i] = k == 0 ? gconv_combine_first(how, y[i]) : gconv_combine_next(how, before[i], y[i]);
  if (k + 1 < problem.filters) {
    *(float4 *)values = pack_four(before, 0.0f);
    return false;
  }
  UNROLLED_FOR (int i = 0; i < 4; i++)
    y[i] = gconv_combine_last(how, before[i]);
  return true;
}

/* Finishes and stores this lane's four sums of filter k at row p. */
template <class In>
DEVICE void finish(const banded_arguments &a, const outlet &to, int k, int p, const scaling &s, const float *sums,
                   float *values) {
  const gconv_problem &problem = a.problem;
  const float4 sum = *(const float4 *)sums;
  float y[4] = {sum.x * s.multiplier, sum.y * s.multiplier, sum.z * s.multiplier, sum.w * s.multiplier};
  if (s.divisor != 1.0f || s.bias != 0.0f)
    UNROLLED_FOR (int i = 0; i < 4; i++)
      y[i] = gconv_response(y[i], s.divisor, s.bias);
  if (a.combined) {
    if (!combine(problem, k, y, values))
      return;
    k = 0;
  }
  UNROLLED_FOR (int i = 0; i < 4; i++)
    y[i] = gconv_finish(y[i], &problem.epilogue);
  BY_TYPE(problem.out_type, Type, store<In, Type>(a, to, k, p, y));
}

/* Finishes and stores the sums of filter k: `rows` rows p, p + step .. of X tiles side by side. The stage of the warp has
 * the sums of X * Y rows, then the combined values of them. */
template <class In, bool SMALL, int X, int Y, int N>
DEVICE void finish_rows(const banded_arguments &a, const outlet &to, int k, int p, int end, const int (&sums)[X][Y][N][4],
                        float *stage) {
  const int own = 4 * (threadIdx.x % LANES);
  const scaling s = a.scalings[k];
  __syncwarp(); /* all lanes have read the stage */
  UNROLLED_FOR (int i = 0; i < X * Y; i++)
    stage_sums<SMALL>(sums[i / Y][i % Y], stage + i * TILE);
  __syncwarp();
  ROLLED_FOR (int i = 0; i < X * Y; i++) {
    const outlet tile = {to.in, to.out, to.first + i / Y * TILE, to.samples};
    const int row = p + i % Y * a.problem.dilation_y;
    if (row < end)
      finish<In>(a, tile, k, row, s, stage + i * TILE + own, stage + (X * Y + i) * TILE + own);
  }
}

} // namespace

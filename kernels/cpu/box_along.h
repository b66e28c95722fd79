/* SPDX-License-Identifier: MIT */
/*
 * A part of box.c: the sums along a row of columns.
 *
 * Along a row, each sum needs the sum before it. So the differences d of a vector are summed up in a few steps. Each step
 * adds the vector to itself, moved by 1, 2, 4 ... pixels:
 *
 *     d0 d1 d2 d3  ->  d0 d0+d1 d1+d2 d2+d3  ->  d0 d0+d1 d0+d1+d2 d0+d1+d2+d3,  plus the last sum of the vector before
 */
#pragma once

#include "base/cpu.h"
#include "kernels/cpu/levels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

enum {
  MOST_CHANNELS = 4,
  FEW = 3,        /* filters of up to so many columns have no running sum: columns are added anew for each output */
  FEW_NARROW = 7, /* the same, for columns of 16 bits */
};

/* A running sum along a row, for each channel. entering[i] is added to the sum of sample i, and leaving[i] is subtracted.
 * last[c] is the sum of the pixel before the first. A run of whole vectors leaves the sum of its last pixel there, but
 * add_avx512_of() neither needs nor leaves it. The functions below write sum * tap, as a float, or, if `levels`, rounded to
 * the type as gconv_to_level() does. They take whole pixels. Up to SLACK floats are written beyond `count`. */
typedef struct box_run {
  const void *entering, *leaving; /* uint16_t if narrow, else uint32_t */
  bool narrow, levels;
  gconv_type type;
  size_t S; /* columns under the filter */
  uint32_t last[MOST_CHANNELS];
  float tap;
} box_run;

static uint32_t column_of(const box_run *run, const void *columns, size_t i) {
  return run->narrow ? ((const uint16_t *)columns)[i] : ((const uint32_t *)columns)[i];
}

static void run_plain(box_run *run, size_t channels, size_t count, float *to) {
  for (size_t i = 0; i < count; i += channels)
    for (size_t c = 0; c < channels; c++) {
      run->last[c] += column_of(run, run->entering, i + c) - column_of(run, run->leaving, i + c);
      to[i + c] = (float)run->last[c] * run->tap;
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
/* Where lanes of a vector come from. Lane i is a sample of channel i % channels, counted from the vector's first channel.
 * moved[k][i] is lane i - channels * 2^k; below 0: none. Lane i of the next vector continues the sum in lane before[i]. */
typedef struct box_lanes {
  int32_t moved[4][16], before[16];
} box_lanes;

static box_lanes lanes_of(int32_t channels, int32_t lanes) {
  box_lanes l;
  for (int32_t i = 0; i < lanes; i++) {
    for (int32_t k = 0; k < 4; k++)
      l.moved[k][i] = i - (channels << k);
    l.before[i] = lanes - channels + i % channels;
  }
  return l;
}

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define UNROLL _Pragma("GCC unroll 4")

AVX512 GCONV_INLINE __m512i columns_avx512(const void *columns, const bool narrow, size_t i) {
  return narrow ? _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)((const uint16_t *)columns + i)))
                : _mm512_loadu_si512((const uint32_t *)columns + i);
}

/* channels and narrow are constants where this is inlined. Sums of 64 samples start at 0, and the last sum before them is
 * added at the end. So the 64 samples need not wait for the samples before them. */
AVX512 GCONV_INLINE void run_avx512_of(box_run *run, const int32_t channels, const bool narrow, size_t count, void *to) {
  const box_lanes lanes = lanes_of(channels, 16);
  const __m512 tap = _mm512_set1_ps(run->tap);
  const __m512i before = _mm512_loadu_si512(lanes.before);
  const size_t bytes = gconv_type_bytes(run->type);
  __m512i moved[4], last = _mm512_maskz_loadu_epi32((__mmask16)((1 << channels) - 1), run->last);
  __mmask16 from[4];
  for (int k = 0; k < 4; k++) {
    moved[k] = _mm512_loadu_si512(lanes.moved[k]);
    from[k] = _mm512_cmpge_epi32_mask(moved[k], _mm512_setzero_si512());
  }
  last = _mm512_permutexvar_epi32(_mm512_sub_epi32(before, _mm512_set1_epi32(16 - channels)), last);
  for (size_t i = 0; i < count; i += 64) {
    __m512 values[4];
    __m512i sum = _mm512_setzero_si512();
    UNROLL for (size_t v = 0; v < 4; v++) {
      __m512i d = _mm512_sub_epi32(columns_avx512(run->entering, narrow, i + 16 * v),
                                   columns_avx512(run->leaving, narrow, i + 16 * v));
      for (int k = 0; channels << k < 16; k++)
        d = _mm512_add_epi32(d, _mm512_maskz_permutexvar_epi32(from[k], moved[k], d));
      sum = v == 0 ? d : _mm512_add_epi32(d, _mm512_permutexvar_epi32(before, sum));
      if (v > 0 && 16 % channels != 0)
        last = _mm512_permutexvar_epi32(before, last);
      d = _mm512_add_epi32(sum, last);
      values[v] = _mm512_mul_ps(_mm512_cvtepu32_ps(d), tap);
      if (v == 3)
        last = _mm512_permutexvar_epi32(before, d);
    }
    if (run->levels)
      gconv_put_bounded_levels_avx512(run->type, values, count - i, (uint8_t *)to + i * bytes);
    else
      UNROLL for (size_t v = 0; v < 4; v++) _mm512_storeu_ps((float *)to + i + 16 * v, values[v]);
  }
  if (count % 64 == 0)
    _mm512_mask_storeu_epi32(run->last, (__mmask16)((1 << channels) - 1), last);
}

/* Adds the columns under each output anew, which is faster than a running sum if these columns are few. */
AVX512 GCONV_INLINE void add_avx512_of(const box_run *run, size_t channels, const bool narrow, size_t count, void *to) {
  const __m512 tap = _mm512_set1_ps(run->tap);
  const size_t bytes = gconv_type_bytes(run->type);
  for (size_t i = 0; i < count; i += 64) {
    __m512i sums[4];
    __m512 values[4];
    UNROLL for (size_t v = 0; v < 4; v++) sums[v] = columns_avx512(run->leaving, narrow, i + channels + 16 * v);
    for (size_t s = 2; s <= run->S; s++)
      UNROLL for (size_t v = 0; v < 4; v++) sums[v] =
          _mm512_add_epi32(sums[v], columns_avx512(run->leaving, narrow, i + s * channels + 16 * v));
    UNROLL for (size_t v = 0; v < 4; v++) values[v] = _mm512_mul_ps(_mm512_cvtepu32_ps(sums[v]), tap);
    if (run->levels)
      gconv_put_bounded_levels_avx512(run->type, values, count - i, (uint8_t *)to + i * bytes);
    else
      UNROLL for (size_t v = 0; v < 4; v++) _mm512_storeu_ps((float *)to + i + 16 * v, values[v]);
  }
}

AVX512 static void run_avx512(box_run *run, int32_t channels, size_t count, void *to) {
  if (run->narrow && run->S <= FEW_NARROW) {
    add_avx512_of(run, (size_t)channels, true, count, to);
    return;
  }
  if (run->S <= FEW) {
    add_avx512_of(run, (size_t)channels, false, count, to);
    return;
  }
#define RUN(c)                                                                                                              \
  if (channels == c)                                                                                                        \
  run->narrow ? run_avx512_of(run, c, true, count, to) : run_avx512_of(run, c, false, count, to)
  RUN(1);
  RUN(2);
  RUN(3);
  RUN(4);
#undef RUN
}

#define AVX2 __attribute__((target("avx2,fma")))
AVX2 GCONV_INLINE __m256i columns_avx2(const void *columns, bool narrow, size_t i) {
  return narrow ? _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)columns + i)))
                : _mm256_loadu_si256((const __m256i *)(const void *)((const uint32_t *)columns + i));
}

/* Converts unsigned integers: upper and lower 16 bits become floats without rounding, and their sum is rounded once. */
AVX2 GCONV_INLINE __m256 floats_avx2(__m256i sum) {
  const __m256 high = _mm256_cvtepi32_ps(_mm256_srli_epi32(sum, 16));
  const __m256 low = _mm256_cvtepi32_ps(_mm256_and_si256(sum, _mm256_set1_epi32(65535)));
  return _mm256_fmadd_ps(high, _mm256_set1_ps(65536.0f), low);
}

AVX2 GCONV_INLINE void run_avx2_of(box_run *run, const int32_t channels, size_t count, float *to) {
  const box_lanes lanes = lanes_of(channels, 8);
  const __m256 tap = _mm256_set1_ps(run->tap);
  const __m256i before = _mm256_loadu_si256((const __m256i *)(const void *)lanes.before);
  __m256i moved[4], from[4], last = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)run->last));
  for (int k = 0; k < 4; k++) {
    moved[k] = _mm256_loadu_si256((const __m256i *)(const void *)lanes.moved[k]);
    from[k] = _mm256_cmpgt_epi32(moved[k], _mm256_set1_epi32(-1));
  }
  last = _mm256_permutevar8x32_epi32(last, _mm256_sub_epi32(before, _mm256_set1_epi32(8 - channels)));
  for (size_t i = 0; i < count; i += 8) {
    __m256i d = _mm256_sub_epi32(columns_avx2(run->entering, run->narrow, i), columns_avx2(run->leaving, run->narrow, i));
    for (int k = 0; channels << k < 8; k++)
      d = _mm256_add_epi32(d, _mm256_and_si256(from[k], _mm256_permutevar8x32_epi32(d, moved[k])));
    d = _mm256_add_epi32(d, last);
    _mm256_storeu_ps(to + i, _mm256_mul_ps(floats_avx2(d), tap));
    last = _mm256_permutevar8x32_epi32(d, before);
  }
  if (count % 8 == 0)
    _mm_storeu_si128((__m128i *)(void *)run->last, _mm256_castsi256_si128(last));
}

AVX2 static void run_avx2(box_run *run, int32_t channels, size_t count, float *to) {
#define RUN(c)                                                                                                              \
  if (channels == c)                                                                                                        \
  run_avx2_of(run, c, count, to)
  RUN(1);
  RUN(2);
  RUN(3);
  RUN(4);
#undef RUN
}
#endif

static void run_along(box_run *run, int32_t channels, size_t count, void *to) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (gconv_cpu_isa() == GCONV_ISA_AVX512)
    run_avx512(run, channels, count, to);
  else if (gconv_cpu_isa() == GCONV_ISA_AVX2)
    run_avx2(run, channels, count, to);
  else
#endif
    run_plain(run, (size_t)channels, count, to);
}

enum { MULTIPLE = 48 }; /* a multiple of 1, 2, 3 and 4 channels */

#define ADD(type)                                                                                                           \
  for (; i + MULTIPLE <= count; i += MULTIPLE)                                                                              \
    for (size_t j = 0; j < MULTIPLE; j++)                                                                                   \
  sums[j] += ((const type *)columns)[i + j]
/* Adds columns i, i + MULTIPLE ... to sums[i], for all i < MULTIPLE. Columns after the last multiple are left. */
GCONV_VECTOR_LOOP(add_columns, (bool narrow, const void *columns, size_t count, uint32_t *restrict sums),
                  (narrow, columns, count, sums)) {
  size_t i = 0;
  if (narrow)
    ADD(uint16_t);
  else
    ADD(uint32_t);
}
#undef ADD

/* Sums up the first `count` columns: all that lie under the first output, except its last pixel. */
static void begin_run(box_run *run, const void *columns, size_t channels, size_t count) {
  uint32_t sums[MULTIPLE] = {0};
  add_columns(run->narrow, columns, count, sums);
  for (size_t j = 0; j < MULTIPLE; j += channels)
    for (size_t c = 0; c < channels; c++)
      run->last[c] += sums[j + c];
  for (size_t i = count / MULTIPLE * MULTIPLE; i < count; i += channels)
    for (size_t c = 0; c < channels; c++)
      run->last[c] += column_of(run, columns, i + c);
}

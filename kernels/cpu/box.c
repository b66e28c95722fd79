/* SPDX-License-Identifier: MIT */
/*
 * box: means and sums over a rectangle of any size, whose taps are all the same, by running sums of integers.
 *
 * The sum of the R samples under the filter is kept for each column of the image. From one output row to the next, the
 * samples of one input row enter these sums, and samples of another row leave. Along the row, a running sum of S columns
 * does the same: one column enters, one leaves. So an output costs two additions and two subtractions, whatever R and S are.
 *
 *     columns[x] += row below[x] - row above[x]
 *     sum[x] = sum[x - 1] + columns[x + S - 1] - columns[x - 1]
 *
 * Integers do not drift: a sum is exact, wherever a thread began. It is rounded to float32, multiplied by the tap, and
 * stored as all sums are (rows.h). The bits differ from the exact family's, whose chain of additions rounds more often.
 * Floats, and sums of more than 32 bits, go another way (box_float.c).
 *
 * Along a row, each sum needs the one before. A vector of differences d is therefore summed up in a few steps, each of which
 * adds the vector to itself, moved by 1, 2, 4 ... pixels:
 *
 *     d0 d1 d2 d3  ->  d0 d0+d1 d1+d2 d2+d3  ->  d0 d0+d1 d0+d1+d2 d0+d1+d2+d3,  plus the last sum of the vector before
 */
#include "base/cpu.h"
#include "base/memory.h"
#include "kernels/cpu/box_float.h"
#include "kernels/cpu/levels.h"
#include "kernels/cpu/rows.h"
#include "tile.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

enum {
  FRONT = 16,   /* zeros before the first column, which "leave" at the first sum */
  SLACK = 64,   /* columns and sums that vectors read and write beyond the last one */
  PIECE = 3072, /* the most samples that are summed and stored at a time: whole pixels and vectors, also half of it */
  NEAR = 16384, /* bytes of a row of columns that stays in L1, with samples and results, until the next row */
  MOST_CHANNELS = 4,
};

/* ---- Columns ---- */

/* The sums of all columns for the current output row, and facts about the problem. If `narrow`, sums have 16 bits. */
typedef struct box_columns {
  const gconv_execution *execution;
  gconv_span span; /* pixels from the first tap of the first output to the last tap of the last */
  bool narrow;
  void *sums;        /* the sum of each sample of the span: uint16_t if narrow, else uint32_t */
  uint8_t *constant; /* a row of the border's constant, as wide as the image */
  uint32_t outside;  /* the sum of a column outside of the image, where the border is a constant */
  bool levels;       /* the epilogue only rounds: a level is sum * tap, rounded */
  bool copies;       /* columns outside of the image are copies of others in the span, or constant */
  int64_t left_end;  /* if so: samples of the span up to the last that a column on the left is a copy of */
} box_columns;

/* Returns whether the sums of columns fit into 16 bits. */
static bool is_narrow(const gconv_problem *problem) {
  return problem->in_type == GCONV_U8 && problem->rows * 255 <= UINT16_MAX;
}

#define MOVE(from, to)                                                                                                      \
  do {                                                                                                                      \
    if (leaving)                                                                                                            \
      for (size_t i = 0; i < count; i++)                                                                                    \
        ((to *)columns)[i] = (to)(((to *)columns)[i] + ((const from *)entering)[i] - ((const from *)leaving)[i]);           \
    else                                                                                                                    \
      for (size_t i = 0; i < count; i++)                                                                                    \
        ((to *)columns)[i] = (to)(((to *)columns)[i] + ((const from *)entering)[i]);                                        \
  } while (0)
/* Adds the samples of the row `entering` to the sums, and subtracts those of the row `leaving`, unless it is NULL. */
GCONV_VECTOR_LOOP(move,
                  (gconv_type type, bool narrow, const void *restrict entering, const void *restrict leaving, size_t count,
                   void *restrict columns),
                  (type, narrow, entering, leaving, count, columns)) {
  if (narrow)
    MOVE(uint8_t, uint16_t);
  else if (type == GCONV_U8)
    MOVE(uint8_t, uint32_t);
  else
    MOVE(uint16_t, uint32_t);
}
#undef MOVE

/* Returns the samples of row y, which may be outside the image. */
static const uint8_t *row_at(const box_columns *b, int64_t y) {
  y = gconv_border_index(b->execution->problem->border, y, b->execution->problem->height);
  return y == GCONV_OUTSIDE ? b->constant : gconv_input_row(b->execution, y);
}

static void *sums_at(const box_columns *b, int64_t sample) {
  return (uint8_t *)b->sums + sample * (b->narrow ? 2 : 4);
}

/* Moves columns first .. end - 1, samples of the span within the image. */
static void move_inside(const box_columns *b, const uint8_t *entering, const uint8_t *leaving, int64_t first, int64_t end) {
  const gconv_problem *problem = b->execution->problem;
  const int64_t at = (first + b->span.first * problem->channels) * (int64_t)gconv_type_bytes(problem->in_type);
  if (first < end)
    move(problem->in_type, b->narrow, entering + at, leaving ? leaving + at : NULL, (size_t)(end - first),
         sums_at(b, first));
}

/* Moves columns first .. end - 1 of the span, which are outside of the image. Columns of a constant border do not change. */
static void move_outside(const box_columns *b, const uint8_t *entering, const uint8_t *leaving, int64_t first, int64_t end) {
  const gconv_problem *problem = b->execution->problem;
  const size_t channels = (size_t)problem->channels, pixel = channels * gconv_type_bytes(problem->in_type);
  for (int64_t i = first; i < end; i++)
    if (b->span.columns[i] != GCONV_OUTSIDE) {
      const size_t at = (size_t)b->span.columns[i] * pixel;
      move(problem->in_type, b->narrow, entering + at, leaving ? leaving + at : NULL, channels,
           sums_at(b, i * (int64_t)channels));
    }
}

/* Copies columns first .. end - 1 of the span, which are outside of the image, from those inside. */
static void copy_outside(const box_columns *b, int64_t first, int64_t end) {
  const int64_t channels = b->execution->problem->channels;
  for (int64_t i = first; i < end; i++)
    if (b->span.columns[i] != GCONV_OUTSIDE)
      memcpy(sums_at(b, i * channels), sums_at(b, (b->span.columns[i] - b->span.first) * channels),
             (size_t)channels * (b->narrow ? 2 : 4));
}

/* Sets `copies` and `left_end`. */
static void find_copies(box_columns *b) {
  b->copies = true;
  for (int64_t i = 0; i < b->span.count; i++) {
    if (i == b->span.left)
      i = b->span.right;
    const int64_t from = i < b->span.count ? b->span.columns[i] : GCONV_OUTSIDE, place = from - b->span.first;
    if (from == GCONV_OUTSIDE)
      continue;
    b->copies = b->copies && place >= b->span.left && place < b->span.right;
    if (i < b->span.left && (place + 1) * b->execution->problem->channels > b->left_end)
      b->left_end = (place + 1) * b->execution->problem->channels;
  }
}

/* Moves all columns outside of the image, if they are no copies. */
static void move_borders(const box_columns *b, const uint8_t *entering, const uint8_t *leaving) {
  if (b->copies)
    return;
  move_outside(b, entering, leaving, 0, b->span.left);
  move_outside(b, entering, leaving, b->span.right, b->span.count);
}

/* Makes all columns of the first output row. */
static void begin_columns(const box_columns *b) {
  const gconv_problem *problem = b->execution->problem;
  const int64_t channels = problem->channels, top = (int64_t)b->execution->first_row - problem->pad_top;
  for (int64_t i = 0; i < b->span.count * channels; i++) {
    const int64_t pixel = i / channels;
    const bool inside = pixel >= b->span.left && pixel < b->span.right;
    const uint32_t sum = inside || b->span.columns[pixel] != GCONV_OUTSIDE ? 0 : b->outside;
    if (b->narrow)
      ((uint16_t *)b->sums)[i] = (uint16_t)sum;
    else
      ((uint32_t *)b->sums)[i] = sum;
  }
  for (int64_t r = 0; r < problem->rows; r++) {
    const uint8_t *entering = row_at(b, top + r);
    move_inside(b, entering, NULL, b->span.left * channels, b->span.right * channels);
    move_borders(b, entering, NULL);
  }
  if (b->copies) {
    copy_outside(b, 0, b->span.left);
    copy_outside(b, b->span.right, b->span.count);
  }
}

/* ---- Along a row ---- */

/* A running sum along a row, for each channel. entering[i] is added to the sum of sample i, and leaving[i] is subtracted.
 * last[c] is the sum of the pixel before the first; a run leaves the sum of its last pixel there. The functions below write
 * sum * tap, as a float, or, if `levels`, rounded to the type as gconv_to_level() does. They take whole pixels. Up to SLACK
 * floats are written beyond `count`. */
typedef struct box_run {
  const void *entering, *leaving; /* uint16_t if narrow, else uint32_t */
  bool narrow, levels;
  gconv_type type;
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
 * moved[k][i] is lane i - channels * 2^k. before[i] is the lane with the last sum of lane i's channel in the next vector. */
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

/* channels and narrow are constants where this is inlined. The sums of 64 samples begin with 0 and get the last sum
 * before them at the end, so that 64 samples need not wait for those before. */
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

AVX512 static void run_avx512(box_run *run, int32_t channels, size_t count, void *to) {
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

/* Sums up the first `count` columns: all that lie under the first output, except those that enter with it. */
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

/* Returns whether runs can write levels: this takes AVX-512, and sums times the tap that are not near 2^31. */
static bool can_round(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const double most = (double)gconv_white(problem->in_type) * problem->rows * problem->columns * execution->weights[0];
  return gconv_cpu_isa() == GCONV_ISA_AVX512 && fabs(most) < 0x1p30 && gconv_only_rounds(execution);
}

/* Fetches samples first .. end - 1 of the span, as far as they are inside the image, of a row. */
static void expect(const box_columns *b, const uint8_t *row, int64_t first, int64_t end) {
  const int64_t bytes = (int64_t)gconv_type_bytes(b->execution->problem->in_type),
                channels = b->execution->problem->channels;
  end = end < b->span.right * channels ? end : b->span.right * channels;
  for (int64_t at = first * bytes; at < end * bytes; at += 64)
    __builtin_prefetch(row + b->span.first * channels * bytes + at);
}

/* Makes and stores output row p. Columns are moved shortly before they enter the sums. If `entering` is NULL, they are moved
 * already. */
static void make_row(const box_columns *b, int32_t p, const uint8_t *entering, const uint8_t *leaving, float *sums) {
  const gconv_problem *problem = b->execution->problem;
  const int64_t channels = problem->channels, far = (problem->columns - 1) * channels;
  const int64_t count = problem->out_width * channels, end = b->span.right * channels;
  const bool near = (uint8_t *)sums_at(b, count) - (uint8_t *)sums_at(b, 0) <= NEAR;
  const int64_t piece = near ? PIECE : PIECE / 2;
  int64_t moved = entering ? b->span.left * channels : end;
  box_run run = {.narrow = b->narrow, .levels = b->levels, .type = problem->out_type, .tap = b->execution->weights[0]};
  for (int64_t first = 0; first < count; first += piece) {
    const int64_t some = count - first < piece ? count - first : piece, last = far + first + some;
    const int64_t needed = first == 0 && b->left_end > last ? b->left_end : last;
    if (moved < end && moved < needed) {
      if (!near) {
        expect(b, entering, needed, needed + piece);
        expect(b, leaving, needed, needed + piece);
      }
      move_inside(b, entering, leaving, moved, needed < end ? needed : end);
      moved = needed;
      if (b->copies && first == 0)
        copy_outside(b, 0, b->span.left);
      if (b->copies && moved >= end)
        copy_outside(b, b->span.right, b->span.count);
    }
    if (first == 0)
      begin_run(&run, b->sums, (size_t)channels, (size_t)far);
    run.entering = sums_at(b, far + first);
    run.leaving = sums_at(b, first - channels);
    void *to = sums;
    if (b->levels)
      to = gconv_output_row(b->execution, 0, p) + (size_t)first * gconv_type_bytes(problem->out_type);
    run_along(&run, problem->channels, (size_t)some, to);
    if (!b->levels)
      gconv_store_samples(b->execution, p, (size_t)first, (size_t)some, sums, PIECE);
  }
}

/* ---- The descriptor ---- */

static size_t constant_bytes(const gconv_problem *problem) {
  return gconv_round_up((size_t)problem->width * (size_t)problem->channels * gconv_type_bytes(problem->in_type), 64);
}
static size_t column_floats(const gconv_problem *problem) {
  return gconv_round_up(FRONT + (size_t)gconv_reach(problem) * (size_t)problem->channels + SLACK, 16);
}

/* Returns whether sums may not fit into integers of 32 bits. */
static bool is_float(const gconv_problem *problem) {
  return problem->in_type == GCONV_F32 || (double)gconv_white(problem->in_type) * problem->rows * problem->columns >= 0x1p32;
}

/* Returns the bytes of columns, sums of a piece, places of border columns, and a row of the constant. */
static size_t workspace_bytes(const gconv_problem *problem) {
  if (is_float(problem))
    return gconv_box_float_workspace(problem);
  size_t words = column_floats(problem) + PIECE + SLACK;
  return words * sizeof(float) + (size_t)gconv_reach(problem) * sizeof(int64_t) + constant_bytes(problem);
}

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  if (is_float(problem)) {
    gconv_box_float(execution);
    return GCONV_OK;
  }
  uint32_t *columns = execution->workspace;
  float *sums = (float *)(void *)columns + column_floats(problem);
  int64_t *places = (int64_t *)(void *)(sums + PIECE + SLACK);
  box_columns b = {.execution = execution,
                   .narrow = is_narrow(problem),
                   .sums = columns + FRONT,
                   .outside = (uint32_t)problem->border_level * (uint32_t)problem->rows,
                   .levels = can_round(execution)};
  b.span = gconv_span_of(problem, -problem->pad_left, gconv_reach(problem), places);
  b.constant = (uint8_t *)(places + b.span.count);
  find_copies(&b);
  memset(columns, 0, FRONT * sizeof *columns);
  gconv_fill_outside(problem, b.constant);
  begin_columns(&b);
  make_row(&b, execution->first_row, NULL, NULL, sums);
  for (int32_t p = execution->first_row + 1; p < execution->end_row; p++) {
    const int64_t top = (int64_t)p - problem->pad_top;
    const uint8_t *entering = row_at(&b, top + problem->rows - 1), *leaving = row_at(&b, top - 1);
    move_borders(&b, entering, leaving);
    make_row(&b, p, entering, leaving, sums);
  }
  return GCONV_OK;
}

static const char *supports(const gconv_problem *problem) {
  if (problem->structure.box == 0)
    return "filters whose taps are not all the same";
  if (problem->stride_x != 1 || problem->stride_y != 1 || problem->dilation_x != 1 || problem->dilation_y != 1)
    return "strides and dilations";
  if (problem->in_type != GCONV_F32 &&
      !(problem->border_level >= 0 && problem->border_level <= gconv_white(problem->in_type) &&
        rintf(problem->border_level) == problem->border_level))
    return "a border that is no level";
  return NULL;
}

/* The sum is rounded to float32, and so is its product with the tap. */
static double error_bound(const gconv_problem *problem) {
  return is_float(problem) ? gconv_box_float_bound(problem) : gconv_rounding_bound(2);
}

static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const double sample = is_float(problem)              ? gconv_box_float_ns(problem)
                        : problem->in_type == GCONV_U8 ? 0.28
                                                       : 0.45; /* ns */
  double rows = (double)problem->images * problem->planes * problem->out_height;
  double samples = rows * (double)problem->out_width * problem->channels;
  return gconv_cpu_ms(problem, machine, samples * sample * 1e-6, ceil(rows / problem->rows));
}

const gconv_algorithm gconv_algorithm_cpu_box = {
    .info = {"box", "cpu", "running sums, for means and sums over a rectangle of any size", false},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
};

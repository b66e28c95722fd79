/* SPDX-License-Identifier: MIT */
/*
 * box: means and sums over a rectangle of any size, whose taps are all the same, by running sums of integers.
 *
 * The sum of the R samples under the filter is kept for each column of the image. From one output row to the next, the
 * samples of one input row enter these sums, and those of another leave. Along the row, a running sum of S columns does the
 * same: one column enters, one leaves. So an output costs two additions and two subtractions, whatever R and S are.
 *
 *     columns[x] += row below[x] - row above[x]
 *     sum[x] = sum[x - 1] + columns[x + S - 1] - columns[x - 1]
 *
 * Integers do not drift: a sum is exact, wherever a thread began. It is rounded to float32, multiplied by the tap, and goes
 * the way of all sums (rows.h). The bits are not those of the exact family, whose chain of additions rounds more often.
 *
 * Along a row, each sum needs the one before. A vector of differences d is therefore summed up in a few steps, each of which
 * adds the vector to itself, moved by 1, 2, 4 ... pixels:
 *
 *     d0 d1 d2 d3  ->  d0 d0+d1 d1+d2 d2+d3  ->  d0 d0+d1 d0+d1+d2 d0+d1+d2+d3,  plus the last sum of the vector before
 */
#include "base/cpu.h"
#include "base/memory.h"
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
  PIECE = 3072, /* samples that are summed and stored at a time: whole pixels and vectors */
  MOST_CHANNELS = 4,
};

/* ---- Columns ---- */

/* One input row enters the sums, and one leaves. `leaving`: NULL if none does. */
GCONV_INLINE void move_of(gconv_type type, const void *restrict entering, const void *restrict leaving, size_t count,
                          uint32_t *restrict columns) {
  if (type == GCONV_U8 && leaving)
    for (size_t i = 0; i < count; i++)
      columns[i] += (uint32_t)((const uint8_t *)entering)[i] - ((const uint8_t *)leaving)[i];
  else if (type == GCONV_U8)
    for (size_t i = 0; i < count; i++)
      columns[i] += ((const uint8_t *)entering)[i];
  else if (leaving)
    for (size_t i = 0; i < count; i++)
      columns[i] += (uint32_t)((const uint16_t *)entering)[i] - ((const uint16_t *)leaving)[i];
  else
    for (size_t i = 0; i < count; i++)
      columns[i] += ((const uint16_t *)entering)[i];
}
GCONV_INLINE void move_body(gconv_type type, const void *restrict entering, const void *restrict leaving, size_t count,
                            uint32_t *restrict columns) {
  move_of(type, entering, leaving, count, columns);
}
GCONV_VECTORIZED(move,
                 (gconv_type type, const void *restrict entering, const void *restrict leaving, size_t count,
                  uint32_t *restrict columns),
                 (type, entering, leaving, count, columns))

/* The columns of the rows at hand, and what is known of the problem. */
typedef struct box_columns {
  const gconv_execution *execution;
  gconv_span span;   /* pixels from the first tap of the first output to the last tap of the last */
  uint32_t *sums;    /* of each sample of the span */
  uint8_t *constant; /* a row of the border's constant, as wide as the image */
  uint32_t outside;  /* the sum of a column outside of the image, where the border is a constant */
} box_columns;

/* The samples of row y, from the first that the span has. */
static const uint8_t *row_at(const box_columns *b, int64_t y) {
  const gconv_problem *problem = b->execution->problem;
  y = gconv_border_index(problem->border, y, problem->height);
  const uint8_t *samples = y == GCONV_OUTSIDE ? b->constant : gconv_input_row(b->execution, y);
  return samples + (b->span.first + b->span.left) * problem->channels * (int64_t)gconv_type_bytes(problem->in_type);
}

/* The first input row of output row p. */
static int64_t top_of(const gconv_problem *problem, int32_t p) {
  return (int64_t)p - problem->pad_top;
}

/* Columns of the image, for output row p; those of row p - 1 before, unless p is the first row. */
static void move_columns(box_columns *b, int32_t p) {
  const gconv_problem *problem = b->execution->problem;
  int64_t channels = problem->channels, top = top_of(problem, p);
  uint32_t *sums = b->sums + b->span.left * channels;
  size_t count = (size_t)((b->span.right - b->span.left) * channels);
  if (p > b->execution->first_row) {
    move(problem->in_type, row_at(b, top + problem->rows - 1), row_at(b, top - 1), count, sums);
    return;
  }
  memset(sums, 0, count * sizeof *sums);
  for (int64_t r = 0; r < problem->rows; r++)
    move(problem->in_type, row_at(b, top + r), NULL, count, sums);
}

/* Columns beyond the image are those of the pixels whose samples they have. */
static void copy_columns(const box_columns *b, int64_t first, int64_t end) {
  int64_t channels = b->execution->problem->channels;
  for (int64_t i = first; i < end; i++)
    for (int64_t c = 0, x = b->span.columns[i]; c < channels; c++)
      b->sums[i * channels + c] = x == GCONV_OUTSIDE ? b->outside : b->sums[(x - b->span.first) * channels + c];
}

/* ---- Along a row ---- */

/* A running sum along a row, for each channel. entering[i] is added to the sum of sample i, and leaving[i] is subtracted.
 * last[c] is the sum of the pixel before the first; a run leaves the sum of its last pixel there. Functions write the sum
 * times the tap to to[i]. They take whole pixels, and their vectors write up to SLACK floats beyond `count`. */
typedef struct box_run {
  const uint32_t *entering, *leaving;
  uint32_t last[MOST_CHANNELS];
  float tap;
} box_run;

static void run_plain(box_run *run, size_t channels, size_t count, float *to) {
  for (size_t i = 0; i < count; i += channels)
    for (size_t c = 0; c < channels; c++) {
      run->last[c] += run->entering[i + c] - run->leaving[i + c];
      to[i + c] = (float)(int32_t)run->last[c] * run->tap;
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
/* Lane i of a vector of `lanes` is a sample of channel i % channels. moved[k] takes lane i from lane i - channels * 2^k;
 * before[i] is the lane that has the last sum of the channel that lane i of the next vector has. */
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
AVX512 GCONV_INLINE void run_avx512_of(box_run *run, const int32_t channels, size_t count, float *to) {
  const box_lanes lanes = lanes_of(channels, 16);
  const __m512 tap = _mm512_set1_ps(run->tap);
  const __m512i before = _mm512_loadu_si512(lanes.before);
  __m512i moved[4], last = _mm512_maskz_loadu_epi32((__mmask16)((1 << channels) - 1), run->last);
  __mmask16 from[4];
  for (int k = 0; k < 4; k++) {
    moved[k] = _mm512_loadu_si512(lanes.moved[k]);
    from[k] = _mm512_cmpge_epi32_mask(moved[k], _mm512_setzero_si512());
  }
  last = _mm512_permutexvar_epi32(_mm512_sub_epi32(before, _mm512_set1_epi32(16 - channels)), last);
  for (size_t i = 0; i < count; i += 16) {
    __m512i d = _mm512_sub_epi32(_mm512_loadu_si512(run->entering + i), _mm512_loadu_si512(run->leaving + i));
    for (int k = 0; channels << k < 16; k++)
      d = _mm512_add_epi32(d, _mm512_maskz_permutexvar_epi32(from[k], moved[k], d));
    d = _mm512_add_epi32(d, last);
    _mm512_storeu_ps(to + i, _mm512_mul_ps(_mm512_cvtepi32_ps(d), tap));
    last = _mm512_permutexvar_epi32(before, d);
  }
  if (count % 16 == 0)
    _mm512_mask_storeu_epi32(run->last, (__mmask16)((1 << channels) - 1), last);
}

AVX512 static void run_avx512(box_run *run, int32_t channels, size_t count, float *to) {
  if (channels == 1)
    run_avx512_of(run, 1, count, to);
  else if (channels == 2)
    run_avx512_of(run, 2, count, to);
  else if (channels == 3)
    run_avx512_of(run, 3, count, to);
  else
    run_avx512_of(run, 4, count, to);
}

#define AVX2 __attribute__((target("avx2,fma")))
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
    __m256i d = _mm256_sub_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(run->entering + i)),
                                 _mm256_loadu_si256((const __m256i *)(const void *)(run->leaving + i)));
    for (int k = 0; channels << k < 8; k++)
      d = _mm256_add_epi32(d, _mm256_and_si256(from[k], _mm256_permutevar8x32_epi32(d, moved[k])));
    d = _mm256_add_epi32(d, last);
    _mm256_storeu_ps(to + i, _mm256_mul_ps(_mm256_cvtepi32_ps(d), tap));
    last = _mm256_permutevar8x32_epi32(d, before);
  }
  if (count % 8 == 0)
    _mm_storeu_si128((__m128i *)(void *)run->last, _mm256_castsi256_si128(last));
}

AVX2 static void run_avx2(box_run *run, int32_t channels, size_t count, float *to) {
  if (channels == 1)
    run_avx2_of(run, 1, count, to);
  else if (channels == 2)
    run_avx2_of(run, 2, count, to);
  else if (channels == 3)
    run_avx2_of(run, 3, count, to);
  else
    run_avx2_of(run, 4, count, to);
}
#endif

static void run_along(box_run *run, int32_t channels, size_t count, float *to) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (gconv_cpu_isa() == GCONV_ISA_AVX512) {
    run_avx512(run, channels, count, to);
    return;
  }
  if (gconv_cpu_isa() == GCONV_ISA_AVX2) {
    run_avx2(run, channels, count, to);
    return;
  }
#endif
  run_plain(run, (size_t)channels, count, to);
}

/* Makes and stores output row p from its columns. */
static void make_row(const box_columns *b, int32_t p, float *sums) {
  const gconv_problem *problem = b->execution->problem;
  size_t channels = (size_t)problem->channels, far = (size_t)(problem->columns - 1) * channels;
  size_t count = (size_t)problem->out_width * channels;
  box_run run = {.entering = b->sums + far, .leaving = b->sums - channels, .tap = b->execution->weights[0]};
  for (size_t i = 0; i < far; i += channels)
    for (size_t c = 0; c < channels; c++)
      run.last[c] += b->sums[i + c];
  for (size_t first = 0; first < count; first += PIECE) {
    size_t some = count - first < PIECE ? count - first : PIECE;
    run_along(&run, problem->channels, some, sums);
    gconv_store_samples(b->execution, p, first, some, sums, PIECE);
    run.entering += some;
    run.leaving += some;
  }
}

/* ---- The descriptor ---- */

static size_t constant_bytes(const gconv_problem *problem) {
  return gconv_round_up((size_t)problem->width * (size_t)problem->channels * gconv_type_bytes(problem->in_type), 64);
}
static size_t column_floats(const gconv_problem *problem) {
  return gconv_round_up(FRONT + (size_t)gconv_reach(problem) * (size_t)problem->channels + SLACK, 16);
}

/* Columns, the sums of a piece, the places of border columns, a row of the constant. */
static size_t workspace_bytes(const gconv_problem *problem) {
  size_t words = column_floats(problem) + PIECE + SLACK;
  return words * sizeof(float) + (size_t)gconv_reach(problem) * sizeof(int64_t) + constant_bytes(problem);
}

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  uint32_t *columns = execution->workspace;
  float *sums = (float *)(void *)columns + column_floats(problem);
  int64_t *places = (int64_t *)(void *)(sums + PIECE + SLACK);
  box_columns b = {.execution = execution, .sums = columns + FRONT};
  b.span = gconv_span_of(problem, -problem->pad_left, gconv_reach(problem), places);
  b.constant = (uint8_t *)(places + b.span.count);
  b.outside = (uint32_t)problem->border_level * (uint32_t)problem->rows;
  memset(columns, 0, FRONT * sizeof *columns);
  for (int64_t i = 0; i < (int64_t)problem->width * problem->channels; i++)
    if (problem->in_type == GCONV_U8)
      b.constant[i] = (uint8_t)problem->border_level;
    else
      ((uint16_t *)(void *)b.constant)[i] = (uint16_t)problem->border_level;
  for (int32_t p = execution->first_row; p < execution->end_row; p++) {
    move_columns(&b, p);
    copy_columns(&b, 0, b.span.left);
    copy_columns(&b, b.span.right, b.span.count);
    make_row(&b, p, sums);
  }
  return GCONV_OK;
}

static const char *supports(const gconv_problem *problem) {
  const float white = gconv_white(problem->in_type);
  if (problem->structure.box == 0)
    return "filters whose taps are not all the same";
  if (problem->in_type == GCONV_F32)
    return "samples that are floats: running sums of them would drift";
  if (problem->stride_x != 1 || problem->stride_y != 1 || problem->dilation_x != 1 || problem->dilation_y != 1)
    return "strides and dilations";
  if (!(problem->border_level >= 0 && problem->border_level <= white &&
        rintf(problem->border_level) == problem->border_level))
    return "a border that is no level";
  return (double)white * problem->rows * problem->columns >= 0x1p31 ? "sums beyond 31 bits" : NULL;
}

/* The sum is rounded to float32, and so is its product with the tap. */
static double error_bound(const gconv_problem *problem) {
  (void)problem;
  return gconv_rounding_bound(2);
}

/* A strip sums up all its columns once. */
static int32_t row_step(const gconv_problem *problem) {
  return problem->rows + 32;
}

static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const double move = 0.1, run = 0.25; /* nanoseconds a sample */
  double step = row_step(problem), rows = (double)problem->images * problem->planes * problem->out_height;
  double samples = rows * (double)problem->out_width * problem->channels;
  return gconv_cpu_ms(problem, machine, samples * (run + move + move * problem->rows / step) * 1e-6, ceil(rows / step));
}

const gconv_algorithm gconv_algorithm_cpu_box = {
    .info = {"box", "cpu", "running sums, for means and sums over a rectangle of any size", false},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .row_step = row_step,
};

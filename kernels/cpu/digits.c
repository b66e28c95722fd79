/* SPDX-License-Identifier: MIT */
/*
 * digits: computes direct for bytes by sums of integers, with the same bits.
 *
 * An instruction of AVX-512 VNNI multiplies four bytes of samples by four bytes of taps, and adds the products to a sum of
 * 32 bits, for 16 sums at once. So taps become integers of three digits:
 *
 *     tap = (65536 * third + 256 * second + first) / 2^shift, each digit in -128 .. 127
 *
 * A quad is four samples that lie under four taps of an output. A quad is made once, and serves several outputs:
 *
 *     filter                    quads                                       made for each   serve
 *     1 row                     4 samples of a row, a pixel apart           input row       1 output row
 *     4 or 8 rows               samples of 4 rows, one below the other      output row      1 output row
 *     2, 3, 6 or 7 rows         the same                                    2 output rows   2 output rows
 *     5 or 9 rows; one column   the same                                    4 input rows    4 output rows
 *
 * The sum of integers differs from the sum of float32: taps are rounded to integers, and float32 rounds after each addition.
 * The filter alone gives a bound of the difference (digits_filter.c). A level is the sum, truncated or rounded. If the
 * sum of integers is further than the bound from the limit between two levels, both sums have the same level. Else the level
 * is in doubt: mend() computes it again in float32, as direct does. In noise, one sample in 2000 is in doubt.
 *
 * A window is flat if all samples under the filter are equal, as in a white sky. Its sum may lie exactly on the limit
 * between two levels: scipy.ndimage truncates levels, and a mean of equal samples is their level. All flat windows would
 * then be in doubt. So digits_filter.c finds out whether float32 keeps the level of each flat window. If it does, the result
 * is the sample itself. In smooth areas, too, many sums are nearly integers. Where most windows are flat, the next rows are
 * copied. Where most sums are in doubt, they are computed in floats at once (digits_way).
 */
#include "base/cpu.h"
#include "base/memory.h"
#include "kernels/cpu/digits_filter.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define TARGET GCONV_DIGITS_TARGET
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum {
  STEP = 64,    /* samples that are made at a time */
  FEW = 2,      /* samples in doubt, of STEP, that are made one by one */
  SUMS = 8,     /* vectors of sums that are made at a time, at most: rows of a tile x vectors side by side */
  BLOCK = 4096, /* samples of an output row for which quads are kept, about */
  LEAD = 64,    /* bytes that vectors may read before a row */
  SLACK = 128,  /* bytes that vectors may read after a row */
};

/* ---- The workspace ---- */

/* The quads of samples under four taps, and the digits of these taps. */
typedef struct digits_source {
  const uint8_t *quads;
  int32_t digits[GCONV_DIGITS][4];
} digits_source;

/* Sizes, and where the parts of the workspace begin: a ring of input rows with their borders at 0, then a ring of quads,
 * sources, pointers to rows, ways, and the columns of a span. */
typedef struct places {
  size_t block;                  /* samples of an output row that are made before the next block */
  size_t row, rows, quad, quads; /* bytes of a row and rows of the ring; bytes of a row of quads, and their number */
  size_t quads_at, sources, pointers, ways, columns, end;
} places;

static places places_of(const gconv_problem *problem) {
  const size_t channels = (size_t)problem->channels, unit = STEP * channels;
  const size_t samples = (size_t)problem->out_width * channels, blocks = (samples + BLOCK - 1) / BLOCK;
  places at = {.block = gconv_round_up((samples + blocks - 1) / blocks, unit),
               .quads = (size_t)gconv_digits_groups(problem)};
  const size_t reach = at.block + (size_t)(problem->columns - 1) * channels;
  at.rows = problem->rows == 1 ? 1 : 4 * at.quads;
  /* An odd number of cache lines: rows at a distance of a power of two would use the same lines of L1. */
  at.row = gconv_round_up(LEAD + reach + SLACK, 64) | 64;
  at.quad = gconv_round_up(LEAD + 4 * (reach + STEP), 64) | 64;
  at.quads_at = at.rows * at.row;
  at.sources = at.quads_at + at.quads * at.quad;
  at.pointers =
      gconv_round_up(at.sources + (size_t)gconv_digits_most_taps(problem) * sizeof(digits_source), GCONV_ALIGNMENT);
  at.ways = at.pointers + at.rows * sizeof(uint8_t *);
  at.columns = gconv_round_up(at.ways + at.block / STEP, GCONV_ALIGNMENT);
  at.end = at.columns + (at.block / channels + (size_t)problem->columns) * sizeof(int64_t);
  return at;
}

size_t gconv_digits_workspace(const gconv_problem *problem) {
  return places_of(problem).end;
}

/* The way to compute 64 samples of a tile. The way that would have been the best for them is tried first for the 64 samples
 * below. So flat areas, and smooth areas where most samples are in doubt, need no sums of integers. */
typedef enum digits_way { BY_INTEGERS, BY_FLOATS, BY_COPIES } digits_way;

typedef struct walk {
  const gconv_execution *execution;
  const gconv_digits_filter *filter;
  places at;
  uint8_t *memory;
  digits_source *sources;
  const uint8_t **rows; /* input rows of the tile, from the sample under the first tap of the block's first output on */
  gconv_span span;
  size_t first, samples;      /* the first sample of the block, and how many it has */
  int64_t loaded, end;        /* input rows of the strip: how many have been loaded, and how many there are */
  int64_t top;                /* the first input row of the tile, counted from the first of the strip */
  size_t row_slot, quad_slot; /* where this row is in its ring, and the tile's first quads in theirs */
  int32_t p, count;           /* first output row of the tile, and how many are wanted */
  uint8_t *ways;              /* a digits_way for every STEP samples of the block */
  const uint8_t *next[4];     /* rows of the image to prefetch: roughly what the next tile will load */
} walk;

/* row_at() returns input row i of the tile in its ring, and quads_at() row i of the tile's quads in their ring. */
static uint8_t *row_at(const walk *w, size_t i) {
  size_t slot = w->row_slot + i;
  return w->memory + (slot < w->at.rows ? slot : slot - w->at.rows) * w->at.row + LEAD;
}

static uint8_t *quads_at(const walk *w, size_t i) {
  size_t slot = w->quad_slot + i;
  return w->memory + w->at.quads_at + (slot < w->at.quads ? slot : slot - w->at.quads) * w->at.quad + LEAD;
}

/* Returns how many quads of a row the vectors of results need. */
static size_t quads_along(const walk *w) {
  const gconv_problem *problem = w->execution->problem;
  return gconv_round_up(w->samples, STEP) + (size_t)(problem->columns - 1) * (size_t)problem->channels;
}

/* ---- Quads ---- */

/* Makes the quads of a row: quad i has bytes i, i + C, i + 2 C and i + 3 C. The first quad is number -16. */
TARGET static void make_along(const uint8_t *row, int32_t channels, size_t samples, uint8_t *to) {
  uint8_t bytes_of[64];
  for (int i = 0; i < 64; i++)
    bytes_of[i] = (uint8_t)(i / 4 + i % 4 * channels);
  const __m512i at = _mm512_loadu_si512(bytes_of);
  for (int64_t i = -16; i < (int64_t)samples; i += 16) {
    __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)(row + i)); /* at most 15 + 3 * 4 + 1 are needed */
    _mm512_storeu_si512(to + 4 * i, _mm512_permutexvar_epi8(at, _mm512_castsi256_si512(bytes)));
  }
}

/* Makes the quads of 64 samples of four rows. Instructions interleave bytes within each quarter of a vector. So the samples
 * are first moved to the quarters where they are needed. */
TARGET static void make_64_down(const uint8_t *const *rows, size_t i, uint8_t *to) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i row[4];
  UNROLL for (int r = 0; r < 4; r++) row[r] = _mm512_permutexvar_epi32(order, _mm512_loadu_si512(rows[r] + i));
  const __m512i low0 = _mm512_unpacklo_epi8(row[0], row[1]), high0 = _mm512_unpackhi_epi8(row[0], row[1]);
  const __m512i low1 = _mm512_unpacklo_epi8(row[2], row[3]), high1 = _mm512_unpackhi_epi8(row[2], row[3]);
  _mm512_storeu_si512(to + 4 * i, _mm512_unpacklo_epi16(low0, low1));
  _mm512_storeu_si512(to + 4 * i + 64, _mm512_unpackhi_epi16(low0, low1));
  _mm512_storeu_si512(to + 4 * i + 128, _mm512_unpacklo_epi16(high0, high1));
  _mm512_storeu_si512(to + 4 * i + 192, _mm512_unpackhi_epi16(high0, high1));
}

TARGET static void make_down(const uint8_t *const *rows, size_t samples, uint8_t *to) {
  for (size_t i = 0; i < samples; i += STEP)
    make_64_down(rows, i, to);
}

/* Loads the input rows of the tile that the ring does not have yet, up to the last one that the strip needs. Later rows lie
 * only under taps of 0, or under outputs that are not used. */
static void load_rows(walk *w) {
  const int64_t first = w->execution->first_row - (int64_t)w->execution->problem->pad_top;
  for (size_t i = 0; i < w->at.rows; i++) {
    uint8_t *row = row_at(w, i);
    w->rows[i] = row;
    if (w->top + (int64_t)i == w->loaded && w->loaded < w->end)
      gconv_load_bytes(w->execution, first + w->loaded++, &w->span, row);
  }
}

/* Makes the quads of the tile. If tiles have 4 rows, all but the last quads have been made for the tile before. */
static void make_quads(walk *w) {
  const gconv_problem *problem = w->execution->problem;
  const size_t samples = quads_along(w);
  if (problem->rows == 1) {
    make_along(w->rows[0], problem->channels, samples, quads_at(w, 0));
    return;
  }
  const bool kept = w->top > 0 && gconv_digits_tile_rows(problem) == 4;
  for (size_t i = kept ? w->at.quads - 1 : 0; i < w->at.quads; i++)
    make_down(w->rows + 4 * i, samples, quads_at(w, i));
}

/* Finds the rows of the image to prefetch while a tile is computed. Processors prefetch rows near each other by themselves.
 * (gconv_expect_load() would prefetch a whole row at once; then filters of one column take a tenth longer.) */
static void find_next_rows(walk *w) {
  const gconv_execution *execution = w->execution;
  const gconv_problem *problem = execution->problem;
  if (execution->in_row <= GCONV_NEAR)
    return;
  const int64_t most = execution->first_row - (int64_t)problem->pad_top + w->end - 1;
  for (int64_t j = 0; j < 4; j++) {
    int64_t y = execution->first_row - (int64_t)problem->pad_top + w->loaded + j;
    y = gconv_clamp(y, 0, most < problem->height ? most : problem->height - 1);
    w->next[j] = gconv_input_row(execution, y) + w->first;
  }
}

static void find_sources(walk *w) {
  const gconv_digits_taps *taps = (const void *)(w->filter + 1);
  for (int32_t i = 0; i < w->filter->count; i++)
    w->sources[i].quads = quads_at(w, (size_t)taps[i].group) + 4 * (int64_t)taps[i].sample;
}

/* ---- Doubt ---- */

/* Packs levels of 32 bits to bytes, with saturation. */
GCONV_INLINE TARGET __m512i pack(const __m512i *levels) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i low = _mm512_packs_epi32(levels[0], levels[1]), high = _mm512_packs_epi32(levels[2], levels[3]);
  return _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high));
}

/* Makes the sums of 64 samples of row j of the tile, from sample x of the block on, as direct does. */
GCONV_INLINE TARGET void sum_floats(const walk *w, int32_t j, size_t x, __m512 *sums) {
  const gconv_problem *problem = w->execution->problem;
  const float *taps = w->execution->weights;
  UNROLL for (int v = 0; v < 4; v++) sums[v] = _mm512_setzero_ps();
  for (int32_t r = 0; r < problem->rows; r++) {
    const uint8_t *row = w->rows[j + r] + x;
    for (int32_t s = 0; s < problem->columns; s++, row += problem->channels) {
      const __m512 tap = _mm512_set1_ps(*taps++);
      UNROLL for (int v = 0; v < 4; v++) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(row + 16 * v));
        sums[v] = _mm512_fmadd_ps(tap, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)), sums[v]);
      }
    }
  }
}

/* Converts 64 sums that the epilogue does not change to bytes, as pixel.h does. All sums are finite; if they are cut, they
 * are at least 0 and below 256. Sets a bit in *doubt for each sum in doubt: near an integer, or, if sums are rounded, nearly
 * half-way between two. */
GCONV_INLINE TARGET __m512i levels_of_floats(const walk *w, const __m512 *sums, uint64_t *doubt) {
  const bool cut = w->execution->problem->epilogue.wrap;
  const __m512 middle = _mm512_set1_ps(cut ? 0.5f : 0.0f), clear = _mm512_set1_ps(w->filter->clear);
  __m512i levels[4];
  *doubt = 0;
  UNROLL for (int v = 0; v < 4; v++) {
    levels[v] = cut ? _mm512_cvttps_epi32(sums[v]) : _mm512_cvtps_epi32(sums[v]);
    const __m512 beyond = _mm512_sub_ps(sums[v], _mm512_add_ps(_mm512_cvtepi32_ps(levels[v]), middle));
    *doubt |= (uint64_t)_mm512_cmp_ps_mask(_mm512_abs_ps(beyond), clear, _CMP_GT_OQ) << 16 * v;
  }
  return pack(levels);
}

/* Returns the bits of `wanted` whose windows, of 64, are flat in `rows` input rows. First compares the last corner with the
 * first corner: they differ in most windows that are not flat. */
TARGET static uint64_t find_flat(const walk *w, int32_t j, int32_t rows, size_t x, uint64_t wanted) {
  const gconv_problem *problem = w->execution->problem;
  const __m512i first = _mm512_loadu_si512(w->rows[j] + x);
  const uint8_t *corner = w->rows[j + rows - 1] + (problem->columns - 1) * problem->channels + x;
  if (_mm512_mask_cmpeq_epi8_mask(wanted, first, _mm512_loadu_si512(corner)) == 0)
    return 0;
  __m512i other = _mm512_setzero_si512();
  for (int32_t r = 0; r < rows; r++) {
    const uint8_t *row = w->rows[j + r] + x;
    for (int32_t s = 0; s < problem->columns; s++, row += problem->channels)
      other = _mm512_ternarylogic_epi32(other, first, _mm512_loadu_si512(row), 0xf6); /* other | (first ^ row) */
  }
  return _mm512_mask_testn_epi8_mask(wanted, other, other);
}

/* Returns one level, as direct computes it. */
TARGET static uint8_t level_of(const walk *w, int32_t j, size_t x) {
  const gconv_problem *problem = w->execution->problem;
  const float *taps = w->execution->weights;
  float sum = 0;
  for (int32_t r = 0; r < problem->rows; r++) {
    const uint8_t *row = w->rows[j + r] + x;
    for (int32_t s = 0; s < problem->columns; s++, row += problem->channels)
      sum = fmaf(*taps++, (float)*row, sum);
  }
  return (uint8_t)gconv_digits_level(problem, sum);
}

/* Computes 64 samples of a row as direct does. Returns the best way for the samples below. */
TARGET static digits_way make_floats(const walk *w, int32_t j, size_t x) {
  const size_t count = w->samples - x < STEP ? w->samples - x : STEP;
  __m512 sums[4];
  uint64_t doubt = 0;
  sum_floats(w, j, x, sums);
  if (!gconv_digits_keep_sums(&w->execution->problem->epilogue)) {
    float values[STEP];
    UNROLL for (int v = 0; v < 4; v++) _mm512_storeu_ps(values + 16 * v, sums[v]);
    gconv_store_samples(w->execution, w->p + j, w->first + x, count, values, STEP);
    return BY_INTEGERS;
  }
  const __m512i levels = levels_of_floats(w, sums, &doubt);
  _mm512_mask_storeu_epi8(gconv_output_row(w->execution, 0, w->p + j) + w->first + x, UINT64_MAX >> (STEP - count), levels);
  if (w->filter->keeps_flat && doubt == UINT64_MAX &&
      find_flat(w, j, w->execution->problem->rows, x, UINT64_MAX) == UINT64_MAX)
    return BY_COPIES;
  return __builtin_popcountll(doubt) > FEW ? BY_FLOATS : BY_INTEGERS;
}

/* Computes the samples in doubt again: bit i of `doubt` stands for sample x + i. Returns the best way for samples below. */
TARGET static digits_way mend(const walk *w, int32_t j, size_t x, uint64_t doubt) {
  uint8_t *to = gconv_output_row(w->execution, 0, w->p + j) + w->first + x;
  const uint64_t flat = w->filter->keeps_doubts ? find_flat(w, j, w->execution->problem->rows, x, doubt) : 0;
  if (flat)
    _mm512_mask_storeu_epi8(to, flat, _mm512_loadu_si512(w->rows[j] + x));
  doubt &= ~flat;
  if (__builtin_popcountll(doubt) > FEW)
    return make_floats(w, j, x);
  for (; doubt; doubt &= doubt - 1)
    to[__builtin_ctzll(doubt)] = level_of(w, j, x + (size_t)__builtin_ctzll(doubt));
  return flat == UINT64_MAX && w->filter->keeps_flat ? BY_COPIES : BY_INTEGERS;
}

/* Returns the way for the tile below: copies if all rows of this tile vote for them, floats if half of the rows do. */
static digits_way most_of(const int32_t *votes, int32_t rows) {
  return votes[BY_COPIES] == rows ? BY_COPIES : 2 * votes[BY_FLOATS] >= rows ? BY_FLOATS : BY_INTEGERS;
}

/* Mends 64 samples of each row of a tile: doubt[j] has their bits for row j. */
TARGET __attribute__((noinline)) static void mend_tile(walk *w, size_t x, const uint64_t *doubt) {
  const size_t left = w->samples - x;
  const uint64_t here = left < STEP ? ((uint64_t)1 << left) - 1 : UINT64_MAX;
  int32_t votes[3] = {0};
  for (int32_t j = 0; j < w->count; j++)
    if (doubt[j] & here)
      votes[mend(w, j, x, doubt[j] & here)]++;
  w->ways[x / STEP] = (uint8_t)most_of(votes, w->count);
}

/* Computes 64 samples of each row of a tile without integers, in the way that the tile above voted for. Returns false, and
 * writes nothing, if the vote was for copies, but the windows are not flat. */
TARGET __attribute__((noinline)) static bool make_otherwise(walk *w, size_t x) {
  uint8_t *way = &w->ways[x / STEP];
  const size_t left = w->samples - x;
  const uint64_t here = left < STEP ? ((uint64_t)1 << left) - 1 : UINT64_MAX;
  if (*way == BY_COPIES) {
    const bool flat = find_flat(w, 0, w->execution->problem->rows + w->count - 1, x, here) == here;
    for (int32_t j = 0; j < w->count && flat; j++)
      _mm512_mask_storeu_epi8(gconv_output_row(w->execution, 0, w->p + j) + w->first + x, here,
                              _mm512_loadu_si512(w->rows[0] + x));
    *way = flat ? BY_COPIES : BY_INTEGERS;
    return flat;
  }
  int32_t votes[3] = {0};
  for (int32_t j = 0; j < w->count; j++)
    votes[make_floats(w, j, x)]++;
  *way = (uint8_t)most_of(votes, w->count);
  return true;
}

/* ---- Sums ---- */

/* Adds the products of 16 V samples of J output rows. sum[d][j * V + v] is the sum for digit d, row j of the tile and vector
 * v. */
GCONV_INLINE TARGET void add_digits(const digits_source *source, size_t x, const int digits, const int J, const int V,
                                    __m512i sum[GCONV_DIGITS][SUMS]) {
  __m512i quads[4];
  UNROLL for (int v = 0; v < V; v++) quads[v] = _mm512_loadu_si512(source->quads + 4 * x + 64 * (size_t)v);
  UNROLL for (int d = 0; d < digits; d++) UNROLL for (int j = 0; j < J; j++) {
    const __m512i taps = _mm512_set1_epi32(source->digits[d][j]);
    UNROLL for (int v = 0; v < V; v++) {
      sum[d][j * V + v] = _mm512_dpbusd_epi32(sum[d][j * V + v], quads[v], taps);
      __asm__("" : "+v"(sum[d][j * V + v])); /* else GCC would move sums between registers */
    }
  }
}

/* Makes 16 V sums of J output rows. */
GCONV_INLINE TARGET void make_sums(const walk *w, size_t x, const int J, const int V, __m512i sums[SUMS]) {
  __m512i sum[GCONV_DIGITS][SUMS];
  UNROLL for (int i = 0; i < J * V; i++) {
    sum[0][i] = _mm512_set1_epi32(w->filter->start);
    sum[1][i] = sum[2][i] = _mm512_setzero_si512();
  }
  const digits_source *source = w->sources, *end = source + w->filter->count, *tall = source + w->filter->tall;
  for (; source < tall; source++)
    add_digits(source, x, 3, J, V, sum);
  for (; source < end; source++)
    add_digits(source, x, 2, J, V, sum);
  UNROLL for (int i = 0; i < J * V; i++) {
    __m512i high = _mm512_add_epi32(_mm512_slli_epi32(sum[2][i], 8), sum[1][i]);
    sums[i] = _mm512_add_epi32(_mm512_slli_epi32(high, 8), sum[0][i]);
  }
}

/* Makes a tile: J rows of the block, 64 samples at a time, with sums for V vectors of 16 side by side. */
GCONV_INLINE TARGET void make_tile(walk *w, const int J, const int V) {
  const __m512i shift = _mm512_set1_epi32(w->filter->shift), up = _mm512_set1_epi32(32 - w->filter->shift);
  const __m512i width = _mm512_sllv_epi32(_mm512_set1_epi32(w->filter->width), up);
  uint8_t *to[4];
  for (int j = 0; j < w->count; j++)
    to[j] = gconv_output_row(w->execution, 0, w->p + j) + w->first;
  for (size_t x = 0; x < w->samples; x += STEP) {
    if (w->ways[x / STEP] != BY_INTEGERS && make_otherwise(w, x))
      continue;
    __m512i levels[4][4];
    uint64_t doubt[4] = {0}, any = 0;
    UNROLL for (int j = 0; j < J; j++) __builtin_prefetch(w->next[j] + x, 0, 2);
    UNROLL for (int h = 0; h < 4; h += V) {
      __m512i sums[SUMS];
      make_sums(w, x + 16 * (size_t)h, J, V, sums);
      UNROLL for (int j = 0; j < J; j++) UNROLL for (int v = 0; v < V; v++) {
        doubt[j] |= (uint64_t)_mm512_cmplt_epu32_mask(_mm512_sllv_epi32(sums[j * V + v], up), width) << 16 * (h + v);
        levels[j][h + v] = _mm512_srav_epi32(sums[j * V + v], shift);
      }
    }
    const size_t left = w->samples - x;
    UNROLL for (int j = 0; j < J; j++) {
      if (j >= w->count)
        break;
      any |= doubt[j];
      if (left >= STEP)
        _mm512_storeu_si512(to[j] + x, pack(levels[j]));
      else
        _mm512_mask_storeu_epi8(to[j] + x, ((uint64_t)1 << left) - 1, pack(levels[j]));
    }
    if (any)
      mend_tile(w, x, doubt);
  }
}

#define TILE(J, V)                                                                                                          \
  TARGET static void make_tile_of_##J(walk *w) {                                                                            \
    make_tile(w, J, V);                                                                                                     \
  }
TILE(1, 4)
TILE(2, 4)
TILE(4, 2)

/* ---- The loop ---- */

static void make_block(walk *w) {
  const gconv_execution *execution = w->execution;
  const gconv_problem *problem = execution->problem;
  const int32_t J = gconv_digits_tile_rows(problem), rows = execution->end_row - execution->first_row;
  w->loaded = 0;
  w->row_slot = w->quad_slot = 0;
  memset(w->ways, BY_INTEGERS, w->at.block / STEP);
  w->end = (int64_t)rows + problem->rows - 1;
  for (int32_t row = 0; row < rows; row += J) {
    w->top = row;
    w->p = execution->first_row + row;
    w->count = rows - row < J ? rows - row : J;
    load_rows(w);
    make_quads(w);
    if (row == 0 || w->at.quads > 1)
      find_sources(w);
    find_next_rows(w);
    (J == 1 ? make_tile_of_1 : J == 2 ? make_tile_of_2 : make_tile_of_4)(w);
    w->row_slot = w->row_slot + (size_t)J < w->at.rows ? w->row_slot + (size_t)J : 0;
    w->quad_slot = w->quad_slot + 1 < w->at.quads ? w->quad_slot + 1 : 0;
  }
}

bool gconv_digits_execute(const gconv_execution *execution, const float *prepared) {
  const gconv_problem *problem = execution->problem;
  const gconv_digits_filter *filter = (const void *)prepared;
  if (filter->count == 0 || !gconv_is_dense(execution))
    return false;
  uint8_t *memory = execution->workspace;
  walk w = {.execution = execution, .filter = filter, .at = places_of(problem), .memory = memory};
  for (int j = 0; j < 4; j++)
    w.next[j] = memory;
  w.sources = (void *)(memory + w.at.sources);
  w.rows = (void *)(memory + w.at.pointers);
  w.ways = memory + w.at.ways;
  for (int32_t i = 0; i < filter->count; i++)
    memcpy(w.sources[i].digits, ((const gconv_digits_taps *)(const void *)(filter + 1))[i].digits,
           sizeof w.sources[i].digits);
  const size_t samples = (size_t)problem->out_width * (size_t)problem->channels;
  for (w.first = 0; w.first < samples; w.first += w.at.block) {
    w.samples = samples - w.first < w.at.block ? samples - w.first : w.at.block;
    const int64_t pixel = (int64_t)w.first / problem->channels, pixels = (int64_t)w.samples / problem->channels;
    w.span =
        gconv_span_of(problem, pixel - problem->pad_left, pixels + problem->columns - 1, (void *)(memory + w.at.columns));
    make_block(&w);
  }
  return true;
}

#else /* other processors have no such instruction, or gconv does not use it */

size_t gconv_digits_workspace(const gconv_problem *problem) {
  return 0;
}

bool gconv_digits_execute(const gconv_execution *execution, const float *prepared) {
  return false;
}

#endif

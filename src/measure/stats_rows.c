/* SPDX-License-Identifier: MIT */
#include "measure/stats_rows.h"
#include "base/cpu.h"
#include "image/layout.h"

#include <math.h>
#include <stdlib.h>

/* ---- Responses ------------------------------------------------------------------------------------------------------- */

enum {
  LANES = 64, /* partial sums of a channel: samples that lie LANES pixels apart are added up */
  /* so many blocks of LANES pixels have sums of squares of u8 that fit into 32 bits, as a Laplacian is at most 1020 */
  MOST_BLOCKS = 2000
};

/*
 * Adds the responses at `count` samples of row b that have neighbours on both sides. sums: [4][LANES * step] of Laplacians,
 * their squares, |noise|, and how many are finite. With v = a - 2 b + c of each column, the Laplacian is
 * v + (b[-1] - 2 b + b[1]), and the response of the noise filter is v[-1] - 2 v + v[1].
 */
#define RESPONSES(name, sample, wide, finite)                                                                               \
  GCONV_VECTOR_LOOP(name,                                                                                                   \
                    (const sample *restrict a, const sample *restrict b, const sample *restrict c, size_t count,            \
                     size_t step, wide *restrict sums),                                                                     \
                    (a, b, c, count, step, sums)) {                                                                         \
    const size_t block = LANES * step;                                                                                      \
    wide *restrict laplacians = sums, *restrict squares = sums + block;                                                     \
    wide *restrict noises = sums + 2 * block, *restrict counts = sums + 3 * block;                                          \
    for (size_t first = 0; first < count; first += block) {                                                                 \
      const size_t end = count - first < block ? count - first : block;                                                     \
      for (size_t k = 0; k < end; k++) {                                                                                    \
        const ptrdiff_t i = (ptrdiff_t)(first + k), l = i - (ptrdiff_t)step,                                                \
                        r = i + (ptrdiff_t)step; /* l < 0: to the left */                                                   \
        const wide x = (wide)b[i], v = (wide)a[i] - 2 * x + (wide)c[i];                                                     \
        const wide vl = (wide)a[l] - 2 * (wide)b[l] + (wide)c[l], vr = (wide)a[r] - 2 * (wide)b[r] + (wide)c[r];            \
        const wide laplacian = v + (wide)b[l] - 2 * x + (wide)b[r], noise = vl - 2 * v + vr;                                \
        const bool there = finite(noise);                                                                                   \
        laplacians[k] += there ? laplacian : 0;                                                                             \
        squares[k] += there ? laplacian * laplacian : 0;                                                                    \
        noises[k] += !there ? 0 : noise < 0 ? -noise : noise;                                                               \
        counts[k] += there;                                                                                                 \
      }                                                                                                                     \
    }                                                                                                                       \
  }
#define ALWAYS(value) true
#define IS_FINITE(value) ((value) - (value) == 0)
RESPONSES(respond_u8, uint8_t, int32_t, ALWAYS)
RESPONSES(respond_u16, uint16_t, double, ALWAYS)
RESPONSES(respond_f32, float, double, IS_FINITE)

/* Adds the Laplacian of a pixel at the left or right end, where the neighbour that exists replaces the other. */
static void respond_at_end(gconv_type type, const void *const rows[3], size_t x, size_t pixels, size_t step,
                           gconv_stats_sums *sums) {
  const size_t left = x > 0 ? x - 1 : pixels > 1 ? 1 : 0, right = x + 1 < pixels ? x + 1 : left;
  for (size_t c = 0; c < step; c++) {
    const double centre = gconv_stored_at(type, rows[1], x * step + c);
    const double beside = gconv_stored_at(type, rows[1], (x > 0 ? left : right) * step + c) +
                          gconv_stored_at(type, rows[1], (x + 1 < pixels ? right : left) * step + c);
    const double laplacian =
        gconv_stored_at(type, rows[0], x * step + c) + gconv_stored_at(type, rows[2], x * step + c) + beside - 4 * centre;
    if (!isfinite(laplacian))
      continue;
    sums[c].laplacian += laplacian;
    sums[c].squares += laplacian * laplacian;
    sums[c].laplacians++;
  }
}

/* Adds LANES sums of each channel, in their order. */
#define ADD_LANES(lanes)                                                                                                    \
  for (size_t k = 0; k < LANES * step; k++) {                                                                               \
    gconv_stats_sums *to = &sums[k % step];                                                                                 \
    to->laplacian += (double)(lanes)[k];                                                                                    \
    to->squares += (double)(lanes)[LANES * step + k];                                                                       \
    to->noise += inside ? (double)(lanes)[2 * LANES * step + k] : 0;                                                        \
    to->laplacians += (uint64_t)(lanes)[3 * LANES * step + k];                                                              \
    to->noises += inside ? (uint64_t)(lanes)[3 * LANES * step + k] : 0;                                                     \
  }

void gconv_stats_responses(gconv_type type, const void *const rows[3], size_t pixels, size_t step, bool inside,
                           gconv_stats_sums *sums) {
  enum { ALL = 4 * LANES * GCONV_STATS_STEPS };
  const size_t size = gconv_type_bytes(type), most = MOST_BLOCKS * LANES;
  respond_at_end(type, rows, 0, pixels, step, sums);
  if (pixels > 1)
    respond_at_end(type, rows, pixels - 1, pixels, step, sums);
  for (size_t first = 1; first + 1 < pixels; first += most) {
    const size_t count = (pixels - 1 - first < most ? pixels - 1 - first : most) * step, at = first * step * size;
    const uint8_t *a = (const uint8_t *)rows[0] + at, *b = (const uint8_t *)rows[1] + at, *c = (const uint8_t *)rows[2] + at;
    if (type == GCONV_U8) {
      int32_t lanes[ALL] = {0};
      respond_u8(a, b, c, count, step, lanes);
      ADD_LANES(lanes)
      continue;
    }
    double lanes[ALL] = {0};
    if (type == GCONV_U16)
      respond_u16((const uint16_t *)(const void *)a, (const uint16_t *)(const void *)b, (const uint16_t *)(const void *)c,
                  count, step, lanes);
    else
      respond_f32((const float *)(const void *)a, (const float *)(const void *)b, (const float *)(const void *)c, count,
                  step, lanes);
    ADD_LANES(lanes)
  }
}

/* ---- Levels ---------------------------------------------------------------------------------------------------------- */

enum { TABLES = 4 /* tables for neighbouring pixels, because increments of one count would wait for each other */ };

/* With a constant `step`, the compiler unrolls the inner loop. */
GCONV_INLINE void count_pixels(const uint8_t *row, size_t pixels, size_t step, uint32_t (*tables)[256]) {
  const size_t block = TABLES * step, samples = pixels * step, whole = samples / block * block;
  for (size_t i = 0; i < whole; i += block)
    for (size_t k = 0; k < block; k++)
      tables[k][row[i + k]]++;
  for (size_t i = whole; i < samples; i++)
    tables[i - whole][row[i]]++;
}

enum { MOST_AT_A_TIME = 1 << 30 /* pixels whose counts fit into 32 bits */ };

static void count_u8(const uint8_t *rows, size_t row_bytes, size_t count, size_t pixels, size_t step, uint64_t *counts) {
  uint32_t tables[TABLES * GCONV_STATS_STEPS][256] = {{0}};
  for (size_t y = 0; y < count; y++) {
    const uint8_t *row = rows + y * row_bytes;
    if (step == 1)
      count_pixels(row, pixels, 1, tables);
    else if (step == 3)
      count_pixels(row, pixels, 3, tables);
    else
      count_pixels(row, pixels, step, tables);
  }
  for (size_t k = 0; k < TABLES * step; k++)
    for (size_t i = 0; i < 256; i++)
      counts[k % step * 256 + i] += tables[k][i];
}

void gconv_stats_count(gconv_type type, const void *rows, size_t row_bytes, size_t count, size_t pixels, size_t step,
                       uint64_t *counts) {
  const size_t fit = pixels < MOST_AT_A_TIME ? MOST_AT_A_TIME / pixels : 1;
  for (size_t y = 0; type == GCONV_U8 && y < count; y += fit)
    count_u8((const uint8_t *)rows + y * row_bytes, row_bytes, count - y < fit ? count - y : fit, pixels, step, counts);
  for (size_t y = 0; type == GCONV_U16 && y < count; y++) {
    const uint16_t *row = (const uint16_t *)(const void *)((const uint8_t *)rows + y * row_bytes);
    for (size_t i = 0; i < pixels; i++)
      for (size_t c = 0; c < step; c++)
        counts[c * 65536 + row[i * step + c]]++;
  }
}

/* differences[i] = |a - b - c + d| of the block whose upper left sample is number i. */
GCONV_VECTOR_LOOP(find_blocks_u8,
                  (const uint8_t *restrict a, const uint8_t *restrict b, size_t count, size_t step,
                   uint16_t *restrict differences),
                  (a, b, count, step, differences)) {
  for (size_t i = 0; i < count; i++) {
    const int16_t d = (int16_t)(a[i] - a[i + step] - b[i] + b[i + step]);
    differences[i] = (uint16_t)(d < 0 ? -d : d);
  }
}

enum { BLOCK_BINS_U8 = 511, BLOCK_BINS_U16 = 131071, AT_A_TIME = 1536 /* samples; a multiple of 2 * step */ };

/* Neighbouring blocks are counted in two tables, `counts` and `other`, because increments of one count would wait. */
static void count_blocks_u8(const uint8_t *a, const uint8_t *b, size_t samples, size_t step, uint64_t *counts) {
  uint16_t differences[AT_A_TIME];
  uint32_t other[GCONV_STATS_STEPS * BLOCK_BINS_U8] = {0};
  for (size_t first = 0; first + step < samples; first += AT_A_TIME) {
    const size_t count = samples - step - first < AT_A_TIME ? samples - step - first : AT_A_TIME;
    find_blocks_u8(a + first, b + first, count, step, differences);
    for (size_t c = 0; c < step; c++) {
      size_t i = c;
      for (; i + 2 * step < count; i += 4 * step) {
        counts[c * BLOCK_BINS_U8 + differences[i]]++;
        other[c * BLOCK_BINS_U8 + differences[i + 2 * step]]++;
      }
      if (i < count)
        counts[c * BLOCK_BINS_U8 + differences[i]]++;
    }
  }
  for (size_t i = 0; i < step * BLOCK_BINS_U8; i++)
    counts[i] += other[i];
}

static void count_blocks_u16(const uint16_t *a, const uint16_t *b, size_t samples, size_t step, uint64_t *counts) {
  for (size_t i = 0; i + step < samples; i += 2 * step)
    for (size_t c = 0; c < step; c++) {
      const size_t l = i + c, r = l + step;
      counts[c * BLOCK_BINS_U16 + (size_t)abs(a[l] - a[r] - b[l] + b[r])]++;
    }
}

void gconv_stats_count_blocks(gconv_type type, const void *const rows[2], size_t pixels, size_t step, uint64_t *counts) {
  if (type == GCONV_U8)
    count_blocks_u8(rows[0], rows[1], pixels * step, step, counts);
  else
    count_blocks_u16(rows[0], rows[1], pixels * step, step, counts);
}

/* ---- Floats ---------------------------------------------------------------------------------------------------------- */

void gconv_stats_floats(const float *row, size_t pixels, size_t step, double unit, gconv_stats_sums *sums) {
  for (size_t c = 0; c < step; c++) {
    gconv_stats_sums s = {.least = INFINITY, .most = -INFINITY};
    double sum = 0;
    for (size_t x = 0; x < pixels; x++) {
      const double value = (double)row[x * step + c];
      if (!isfinite(value))
        continue;
      sum += value;
      s.count++;
      s.least = value < s.least ? value : s.least;
      s.most = value > s.most ? value : s.most;
      s.black += value <= 0;
      s.white += value >= unit;
    }
    s.mean = s.count > 0 ? sum / (double)s.count : 0;
    for (size_t x = 0; x < pixels; x++) {
      const double deviation = (double)row[x * step + c] - s.mean;
      s.spread += isfinite(deviation) ? deviation * deviation : 0;
    }
    gconv_stats_sums_add(&sums[c], &s);
  }
}

void gconv_stats_sums_add(gconv_stats_sums *a, const gconv_stats_sums *b) {
  a->laplacian += b->laplacian;
  a->squares += b->squares;
  a->noise += b->noise;
  a->laplacians += b->laplacians;
  a->noises += b->noises;
  a->black += b->black;
  a->white += b->white;
  if (b->count == 0)
    return;
  if (a->count == 0) {
    a->least = b->least;
    a->most = b->most;
  }
  /* means and spreads of two sets, by Chan, Golub and LeVeque (1979) */
  const double both = (double)(a->count + b->count), apart = b->mean - a->mean;
  a->spread += b->spread + apart * apart * ((double)a->count * (double)b->count / both);
  a->mean += apart * ((double)b->count / both);
  a->least = b->least < a->least ? b->least : a->least;
  a->most = b->most > a->most ? b->most : a->most;
  a->count += b->count;
}

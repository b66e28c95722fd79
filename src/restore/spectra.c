/* SPDX-License-Identifier: MIT */
/*
 * Products of spectra in float32, in three dimensions or two. The real and the imaginary parts of the points are two images,
 * or two parts of one image. Both are multiplied by the spectrum of real taps, so that their products do not mix.
 *
 * Points are [z][part][y][x]. Transforms along z and y go down columns (kernels/cpu/fft_columns.h), 16 neighbours at a time.
 * Along x, 16 rows at a time are transposed, transformed, multiplied, and transformed back. Spectra stay in the order in
 * which the transforms leave them. Gaps between rows and planes keep the points of a column in different sets of the L1
 * cache.
 */
#include "base/control.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "restore/restore.h"

#include <string.h>

enum { LANES = 16 };

static size_t round_up(size_t size) {
  return (size + LANES - 1) / LANES * LANES;
}

static float *points_at(const gconv_spectra *s, size_t z, size_t part, size_t y) {
  return s->points + z * s->plane + part * s->part + y * s->pitch;
}

/* ---- Loops ----------------------------------------------------------------------------------------------------------- */

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

/* The source of lane l of the new rows i and i + s, which exchange groups of s lanes. */
#define LOW(l, s) ((l) & (s) ? LANES + (l) - (s) : (l))
#define HIGH(l, s) ((l) & (s) ? LANES + (l) : (l) + (s))
#define EACH_LANE(of, s)                                                                                                    \
  of(0, s), of(1, s), of(2, s), of(3, s), of(4, s), of(5, s), of(6, s), of(7, s), of(8, s), of(9, s), of(10, s), of(11, s), \
      of(12, s), of(13, s), of(14, s), of(15, s)
#define CHANGE_PLACES(s)                                                                                                    \
  for (size_t i = 0; i < LANES; i++)                                                                                        \
    if (!(i & (s))) {                                                                                                       \
      const lanes a = v[i], b = v[i + (s)];                                                                                 \
      v[i] = __builtin_shufflevector(a, b, EACH_LANE(LOW, s));                                                              \
      v[i + (s)] = __builtin_shufflevector(a, b, EACH_LANE(HIGH, s));                                                       \
    }

/* Transposes 16 x 16 floats. */
GCONV_INLINE void transpose(const float *from, size_t pitch, float *to, size_t to_pitch) {
  lanes v[LANES];
  for (size_t k = 0; k < LANES; k++)
    v[k] = *(const lanes *)(const void *)(from + k * pitch);
  CHANGE_PLACES(8)
  CHANGE_PLACES(4)
  CHANGE_PLACES(2)
  CHANGE_PLACES(1)
  for (size_t k = 0; k < LANES; k++)
    *(lanes *)(void *)(to + k * to_pitch) = v[k];
}

/* Transposes 16 rows of real and imaginary parts to [columns][part][16], or, with `back`, the reverse. columns: a multiple
 * of 16. */
GCONV_VECTOR_LOOP(transpose_rows, (float *rows, size_t pitch, size_t im, size_t columns, float *transposed, bool back),
                  (rows, pitch, im, columns, transposed, back)) {
  for (size_t x = 0; x < columns; x += LANES)
    for (size_t part = 0; part < 2; part++) {
      float *row = rows + part * im + x, *to = transposed + x * 2 * LANES + part * LANES;
      if (back)
        transpose(to, (size_t)2 * LANES, row, pitch);
      else
        transpose(row, pitch, to, (size_t)2 * LANES);
    }
}

/* points = points * h, points * conj(h), or, with noise, points * conj(h) / (|h|^2 + noise); times `scale`. */
GCONV_VECTOR_LOOP(multiply,
                  (float *restrict points, const float *restrict h, size_t columns, gconv_spectra_way way, float noise,
                   float scale),
                  (points, h, columns, way, noise, scale)) {
  const float sign = way == GCONV_SPECTRA_TIMES ? 1 : -1;
  for (size_t x = 0; x < columns; x++, points += 2 * LANES, h += 2 * LANES)
    for (size_t k = 0; k < LANES; k++) {
      const float size = h[k] * h[k] + h[LANES + k] * h[LANES + k];
      const float factor = way == GCONV_SPECTRA_WIENER ? scale / (size + noise) : scale;
      const float re = h[k] * factor, im = sign * h[LANES + k] * factor, p = points[k], q = points[LANES + k];
      points[k] = p * re - q * im;
      points[LANES + k] = q * re + p * im;
    }
}

/* ---- A run ----------------------------------------------------------------------------------------------------------- */

typedef struct run {
  const gconv_spectra *s;
  const gconv_spectra_use *use; /* of load_turn() and store_turn() */
  gconv_spectra_way way;
  float noise;
} run;

void gconv_spectra_along_z(const gconv_spectra *s, size_t y, bool forward) {
  if (s->along[0].size > 1)
    gconv_fft_mixed_columns(&s->along[0], points_at(s, 0, 0, y), s->plane, s->part, s->pitch, forward);
}

static void load_turn(void *context, size_t y, int seat) {
  const run *r = context;
  const gconv_spectra *s = r->s;
  for (size_t i = 0; i < 2 * s->along[0].size; i++) {
    float *row = points_at(s, i / 2, i % 2, y);
    memset(row, 0, s->pitch * sizeof *row);
    r->use->load(r->use->user, i / 2, y, i % 2, row);
  }
  gconv_spectra_along_z(s, y, true);
}

/* Transforms `count` columns of plane z along y, from column x on. */
static void along_y(const gconv_spectra *s, size_t z, size_t x, size_t count, bool forward) {
  gconv_fft_mixed_columns(&s->along[1], points_at(s, z, 0, 0) + x, s->pitch, s->part, count, forward);
}

/* Transforms 16 rows of plane z along x, from row y on, multiplies them, and transforms them back. */
static void along_x(const run *r, size_t z, size_t y, int seat) {
  const gconv_spectra *s = r->s;
  const bool making = r->way == GCONV_SPECTRA_MAKE;
  const size_t columns = s->along[2].size, all = round_up(columns);
  const float scale = (float)(1.0 / ((double)s->along[0].size * (double)s->along[1].size * (double)columns));
  float *rows = points_at(s, z, 0, y), *h = s->psf + (z * round_up(s->along[1].size) + y) * all * 2;
  float *room = making ? h : s->rooms + (size_t)seat * all * 2 * LANES;
  transpose_rows(rows, s->pitch, s->part, all, room, false);
  gconv_fft_mixed_columns(&s->along[2], room, (size_t)2 * LANES, LANES, LANES, true);
  if (making)
    return;
  multiply(room, h, columns, r->way, r->noise, scale);
  gconv_fft_mixed_columns(&s->along[2], room, (size_t)2 * LANES, LANES, LANES, false);
  transpose_rows(rows, s->pitch, s->part, all, room, true);
}

static void plane_turn(void *context, size_t z, int seat) {
  const run *r = context;
  along_y(r->s, z, 0, r->s->pitch, true);
  for (size_t y = 0; y < r->s->along[1].size; y += LANES)
    along_x(r, z, y, seat);
  if (r->way != GCONV_SPECTRA_MAKE)
    along_y(r->s, z, 0, r->s->pitch, false);
}

/* Parts of the only plane, a picture, for all threads: columns along y, one way and the other; rows along x. */
static void forward_turn(void *context, size_t turn, int seat) {
  along_y(((const run *)context)->s, 0, turn * LANES, LANES, true);
}

static void back_turn(void *context, size_t turn, int seat) {
  along_y(((const run *)context)->s, 0, turn * LANES, LANES, false);
}

static void rows_turn(void *context, size_t turn, int seat) {
  along_x(context, 0, turn * LANES, seat);
}

static void store_turn(void *context, size_t y, int seat) {
  const run *r = context;
  const gconv_spectra *s = r->s;
  gconv_spectra_along_z(s, y, false);
  for (size_t i = 0; i < 2 * s->along[0].size; i++)
    r->use->store(r->use->user, i / 2, y, i % 2, points_at(s, i / 2, i % 2, y));
}

void gconv_spectra_multiply(const gconv_spectra *s, gconv_spectra_way way, float noise) {
  run r = {.s = s, .way = way, .noise = noise};
  if (s->along[0].size > 1) {
    gconv_threads_run_or_stop(s->threads, s->along[0].size, plane_turn, &r);
    return;
  }
  gconv_threads_run_or_stop(s->threads, s->pitch / LANES, forward_turn, &r);
  gconv_threads_run_or_stop(s->threads, round_up(s->along[1].size) / LANES, rows_turn, &r);
  if (way != GCONV_SPECTRA_MAKE)
    gconv_threads_run_or_stop(s->threads, s->pitch / LANES, back_turn, &r);
}

void gconv_spectra_run(const gconv_spectra *s, const gconv_spectra_use *use, gconv_spectra_way way, float noise) {
  run r = {.s = s, .use = use};
  gconv_threads_run_or_stop(s->threads, s->along[1].size, load_turn, &r);
  gconv_spectra_multiply(s, way, noise);
  gconv_threads_run_or_stop(s->threads, s->along[1].size, store_turn, &r);
}

/* ---- Making ---------------------------------------------------------------------------------------------------------- */

static gconv_status make(gconv_spectra *s, const size_t least[3]) {
  for (size_t i = 0; i < 3; i++)
    GCONV_TRY(gconv_fft_mixed_make(least[i], &s->along[i]));
  const size_t depth = s->along[0].size, rows = round_up(s->along[1].size), columns = round_up(s->along[2].size);
  s->pitch = columns / LANES % 2 ? columns : columns + LANES;
  s->part = rows * s->pitch;
  s->plane = 2 * s->part + LANES;
  const size_t points[] = {depth, s->plane, sizeof(float)}, psf[] = {depth, rows, columns, 2 * sizeof(float)};
  const size_t rooms[] = {(size_t)gconv_threads_count(s->threads), columns, 2 * LANES * sizeof(float)};
  const size_t bytes = gconv_checked_product(3, points);
  GCONV_TRY(gconv_allocate_workspace(bytes, "the spectrum of the image", (void **)&s->points));
  GCONV_TRY(gconv_allocate_workspace(gconv_checked_product(4, psf), "the spectrum of the PSF", (void **)&s->psf));
  GCONV_TRY(gconv_allocate(gconv_checked_product(3, rooms), "lines", (void **)&s->rooms));
  return gconv_control_zeros(s->points, bytes);
}

gconv_status gconv_spectra_make(const size_t least[3], const float *taps, const int32_t size[3], const int32_t centre[3],
                                gconv_threads *threads, gconv_spectra *s) {
  *s = (gconv_spectra){.threads = threads};
  const gconv_status status = make(s, least);
  if (status != GCONV_OK) {
    gconv_spectra_free(s);
    return status;
  }
  for (int32_t i = 0; i < size[0] * size[1] * size[2]; i++) {
    const int32_t at[] = {i / size[2] / size[1], i / size[2] % size[1], i % size[2]};
    size_t to[3];
    for (size_t k = 0; k < 3; k++)
      to[k] = ((size_t)at[k] + s->along[k].size - (size_t)centre[k]) % s->along[k].size;
    points_at(s, to[0], 0, to[1])[to[2]] += taps[i];
  }
  for (size_t y = 0; y < s->along[1].size; y++)
    gconv_spectra_along_z(s, y, true);
  gconv_spectra_multiply(s, GCONV_SPECTRA_MAKE, 0);
  return GCONV_OK;
}

void gconv_spectra_free(gconv_spectra *s) {
  for (size_t i = 0; i < 3; i++)
    gconv_release(s->along[i].twiddles);
  gconv_release(s->points);
  gconv_release(s->psf);
  gconv_release(s->rooms);
  *s = (gconv_spectra){0};
}

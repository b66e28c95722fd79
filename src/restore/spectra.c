/* SPDX-License-Identifier: MIT */
/*
 * Products of spectra in float32, in three dimensions or two. Real and imaginary parts are two images, or two parts of one:
 * what is multiplied is the spectrum of real taps, and so they stay apart.
 *
 * Points are [z][part][y][x]. Transforms along z and y go down columns (kernels/cpu/fft_columns.h), 16 neighbours at a time.
 * Along x, 16 rows at a time change places with their columns, are transformed, multiplied, and transformed back. Spectra
 * stay in the order in which the transforms leave them. Gaps between rows and planes keep the points of a column in
 * different sets of the first cache.
 */
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

/* Lane l of the two vectors that become rows i and i + s: halves of s lanes change places. */
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

/* 16 rows of real and imaginary parts become [columns][part][16], or the other way; columns are a multiple of 16. */
GCONV_VECTOR_LOOP(turn_rows, (float *rows, size_t pitch, size_t im, size_t columns, float *turned, bool back),
                  (rows, pitch, im, columns, turned, back)) {
  for (size_t x = 0; x < columns; x += LANES)
    for (size_t part = 0; part < 2; part++) {
      float *row = rows + part * im + x, *to = turned + x * 2 * LANES + part * LANES;
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
  gconv_spectra *s;
  const gconv_spectra_use *use; /* NULL: the points are the taps, of which the spectrum is made */
} run;

static void load_turn(void *context, size_t y, int seat) {
  const run *r = context;
  const gconv_spectra *s = r->s;
  (void)seat;
  for (size_t i = 0; r->use && i < 2 * s->along[0].size; i++) {
    float *row = points_at(s, i / 2, i % 2, y);
    memset(row, 0, s->pitch * sizeof *row);
    r->use->load(r->use->user, i / 2, y, i % 2, row);
  }
  if (s->along[0].size > 1)
    gconv_fft_mixed_columns(&s->along[0], points_at(s, 0, 0, y), s->plane, s->part, s->pitch, true);
}

static void plane_turn(void *context, size_t z, int seat) {
  const run *r = context;
  const gconv_spectra *s = r->s;
  const size_t columns = s->along[2].size, all = round_up(columns);
  const float scale = (float)(1.0 / ((double)s->along[0].size * (double)s->along[1].size * (double)columns));
  float *points = points_at(s, z, 0, 0), *room = s->rooms + (size_t)seat * all * 2 * LANES;
  gconv_fft_mixed_columns(&s->along[1], points, s->pitch, s->part, s->pitch, true);
  for (size_t y = 0; y < s->along[1].size; y += LANES) {
    float *h = s->psf + (z * round_up(s->along[1].size) + y) * all * 2;
    turn_rows(points + y * s->pitch, s->pitch, s->part, all, r->use ? room : h, false);
    gconv_fft_mixed_columns(&s->along[2], r->use ? room : h, (size_t)2 * LANES, LANES, LANES, true);
    if (!r->use)
      continue;
    multiply(room, h, columns, r->use->way, r->use->noise, scale);
    gconv_fft_mixed_columns(&s->along[2], room, (size_t)2 * LANES, LANES, LANES, false);
    turn_rows(points + y * s->pitch, s->pitch, s->part, all, room, true);
  }
  if (r->use)
    gconv_fft_mixed_columns(&s->along[1], points, s->pitch, s->part, s->pitch, false);
}

static void store_turn(void *context, size_t y, int seat) {
  const run *r = context;
  const gconv_spectra *s = r->s;
  (void)seat;
  if (s->along[0].size > 1)
    gconv_fft_mixed_columns(&s->along[0], points_at(s, 0, 0, y), s->plane, s->part, s->pitch, false);
  for (size_t i = 0; i < 2 * s->along[0].size; i++)
    r->use->store(r->use->user, i / 2, y, i % 2, points_at(s, i / 2, i % 2, y));
}

void gconv_spectra_run(gconv_spectra *s, const gconv_spectra_use *use) {
  run r = {s, use};
  gconv_threads_run(s->threads, s->along[1].size, load_turn, &r);
  gconv_threads_run(s->threads, s->along[0].size, plane_turn, &r);
  if (use)
    gconv_threads_run(s->threads, s->along[1].size, store_turn, &r);
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
  memset(s->points, 0, bytes);
  return GCONV_OK;
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
  gconv_spectra_run(s, NULL);
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

/* ---- Convolutions ---------------------------------------------------------------------------------------------------- */

typedef struct convolving {
  const float *in;
  float *out;
  const int32_t *in_size, *out_size; /* planes, rows, columns */
  size_t channels, channel;
  int64_t half, before; /* rows that each part makes; rows of the input before the first of them that it needs */
} convolving;

static void load_row(void *user, size_t z, size_t y, size_t part, float *row) {
  const convolving *c = user;
  const int64_t at = (int64_t)y + (int64_t)part * c->half - c->before;
  if (z >= (size_t)c->in_size[0] || at < 0 || at >= c->in_size[1])
    return;
  const float *from = c->in + ((z * (size_t)c->in_size[1] + (size_t)at) * (size_t)c->in_size[2]) * c->channels + c->channel;
  if (c->channels == 1)
    memcpy(row, from, (size_t)c->in_size[2] * sizeof *row);
  else
    for (size_t x = 0; x < (size_t)c->in_size[2]; x++)
      row[x] = from[x * c->channels];
}

static void store_row(void *user, size_t z, size_t y, size_t part, const float *row) {
  const convolving *c = user;
  const int64_t of_part = (int64_t)y - c->before, at = of_part + (int64_t)part * c->half;
  if (z >= (size_t)c->out_size[0] || of_part < 0 || of_part >= c->half || at >= c->out_size[1])
    return;
  float *to = c->out + ((z * (size_t)c->out_size[1] + (size_t)at) * (size_t)c->out_size[2]) * c->channels + c->channel;
  if (c->channels == 1)
    memcpy(to, row, (size_t)c->out_size[2] * sizeof *row);
  else
    for (size_t x = 0; x < (size_t)c->out_size[2]; x++)
      to[x * c->channels] = row[x];
}

/* The upper and the lower half of the result are the two parts; the input's halves overlap. */
void gconv_spectra_convolve(gconv_spectra *s, const float *in, const int32_t in_size[3], float *out,
                            const int32_t out_size[3], int32_t channels) {
  const bool grows = out_size[1] > in_size[1] || out_size[0] > in_size[0] || out_size[2] > in_size[2];
  convolving c = {.in = in, .out = out, .in_size = in_size, .out_size = out_size, .channels = (size_t)channels};
  c.half = (out_size[1] + 1) / 2;
  c.before = grows ? out_size[1] - in_size[1] : 0;
  const gconv_spectra_use use = {
      .way = grows ? GCONV_SPECTRA_TIMES : GCONV_SPECTRA_TIMES_CONJUGATE, .load = load_row, .store = store_row, .user = &c};
  for (c.channel = 0; c.channel < c.channels; c.channel++)
    gconv_spectra_run(s, &use);
}

/* SPDX-License-Identifier: MIT */
/*
 * Richardson-Lucy of volumes on the CPU. Memory bounds its speed, so an iteration goes through the points of the spectra
 * only four times. H and H^T each take a pass over planes (transforms along y and x, and products), and a pass over rows
 * (transforms along z, and the loops over samples between them).
 *
 * The two parts of the points are halves of the image along y: row y of part p is row y + p * half of x, and of the image. H
 * makes `half` rows of each part. H^T makes `used` rows of each part, and adds up the rows where the parts overlap. So one
 * turn processes rows of x that are `half` apart.
 */
#include "base/memory.h"
#include "restore/lucy_cpu.h"

#include <string.h>

enum {
  ROOMS = 6, /* rows of a thread */
  ROWS = 8   /* rows of a turn, in each plane: neighbouring rows are loaded faster */
};

typedef enum step {
  LOAD_ONES,  /* 1 where the image is there */
  LOAD_IMAGE, /* the image, 0 where it is missing */
  DIVIDE,
  LOAD_GUESS,
  INVERT,   /* inverse = 1 / up, 0 where that is small */
  ESTIMATE, /* guess = x = up * inverse */
  CORRECT
} step;

struct gconv_lucy_volume {
  gconv_lucy *l;
  gconv_spectra spectra;
  gconv_threads *threads;
  size_t half, used, channel;
  step step;
  bool loaded, loads; /* the points hold the guess; they shall hold it after this pass */
  double *turns;      /* owned: [half][GCONV_LUCY_SUMS] */
  float *rooms;       /* owned: [threads][ROOMS][columns of x] */
};

static float *row_at(const gconv_lucy_volume *v, size_t z, size_t part, size_t y) {
  return v->spectra.points + z * v->spectra.plane + part * v->spectra.part + y * v->spectra.pitch;
}

/* Returns the thread's ROOMS rows, and sets *sums to the sums of the turn. */
static float *begin_turn(const gconv_lucy_volume *v, size_t turn, int seat, double **sums) {
  *sums = v->turns + turn * GCONV_LUCY_SUMS;
  return v->rooms + (size_t)seat * ROOMS * (size_t)v->l->large_size[2];
}

/* Returns samples of one channel as neighbours: where they are, or copied to `room`. */
static float *take(float *from, size_t channels, size_t count, float *room) {
  if (channels == 1 || !from)
    return from;
  for (size_t x = 0; x < count; x++)
    room[x] = from[x * channels];
  return room;
}

static void put(const float *row, size_t channels, size_t count, float *to) {
  for (size_t x = 0; row != to && x < count; x++)
    to[x * channels] = row[x];
}

static void zero(const gconv_lucy_volume *v, float *row, size_t from) {
  memset(row + from, 0, (v->spectra.pitch - from) * sizeof *row);
}

static void zero_rows(const gconv_lucy_volume *v, size_t y) {
  for (size_t i = 0; i < 2 * v->spectra.along[0].size; i++)
    zero(v, row_at(v, i / 2, i % 2, y), 0);
}

/* ---- Rows of the image --------------------------------------------------------------------------------------------- */

static void image_row(const gconv_lucy_volume *v, size_t at, float *row, float *room, double *sums) {
  const gconv_lucy *l = v->l;
  const size_t channels = (size_t)l->r->channels, count = (size_t)l->r->size[2];
  const float *y = take(l->y + at * count * channels + v->channel, channels, count, room);
  if (v->step == DIVIDE)
    gconv_lucy_divide(l, y, row, count, sums);
  else
    for (size_t x = 0; x < count; x++)
      row[x] = isnan(y[x]) ? 0 : v->step == LOAD_ONES ? 1 : y[x];
}

static void image_turn(void *context, size_t turn, int seat) {
  const gconv_lucy_volume *v = context;
  const int32_t *size = v->l->r->size;
  const size_t begin = turn * ROWS, end = begin + ROWS < v->half ? begin + ROWS : v->half;
  double *sums;
  float *room = begin_turn(v, turn, seat, &sums);
  for (size_t y = begin; y < end && v->step == DIVIDE; y++)
    gconv_spectra_along_z(&v->spectra, y, false);
  for (size_t i = 0; i < 2 * v->spectra.along[0].size; i++)
    for (size_t at = begin; at < end; at++) {
      const size_t z = i / 2, y = at + i % 2 * v->half;
      const bool there = z < (size_t)size[0] && y < (size_t)size[1];
      float *row = row_at(v, z, i % 2, at);
      if (there)
        image_row(v, z * (size_t)size[1] + y, row, room, sums);
      zero(v, row, there ? (size_t)size[2] : 0);
    }
  for (size_t at = begin; at < end; at++) {
    gconv_spectra_along_z(&v->spectra, at, true);
    for (size_t y = at + v->half; y < v->spectra.along[1].size; y += v->half)
      zero_rows(v, y);
  }
}

/* ---- Rows of x ------------------------------------------------------------------------------------------------------- */

/* Does the step in row `at` of x, where the last convolution is `up`. Returns that row of the next guess, or NULL. */
static const float *large_row(const gconv_lucy_volume *v, size_t at, const float *up, float *room, double *sums) {
  gconv_lucy *l = v->l;
  const size_t channels = (size_t)l->r->channels, count = (size_t)l->large_size[2];
  const size_t first = at * count * channels + v->channel;
  float *guess = take(l->guess + first, channels, count, room), *x = channels == 1 ? l->x + first : room + count;
  if (v->step == LOAD_GUESS)
    return guess;
  if (v->step == INVERT) {
    for (size_t i = 0; i < count; i++)
      l->inverse[first + i * channels] = up[i] > GCONV_LUCY_LEAST_WEIGHT ? 1 / up[i] : 0;
    return NULL;
  }
  float *inverse =
      take((l->corrected && v->step == CORRECT ? l->corrected : l->inverse) + first, channels, count, room + 2 * count);
  if (v->step == CORRECT) {
    float *last = take(l->last_step ? l->last_step + first : NULL, channels, count, room + 3 * count);
    const float *before = l->before ? take(l->before + first, channels, count, room + 4 * count) : guess;
    gconv_lucy_correct(&(gconv_lucy_row){guess, up, inverse, before, x, last}, count, sums);
    if (last)
      put(last, channels, count, l->last_step + first);
  } else {
    for (size_t i = 0; i < count; i++)
      x[i] = up[i] * inverse[i] > 0 ? up[i] * inverse[i] : 0;
    put(x, channels, count, l->guess + first);
  }
  put(x, channels, count, l->x + first);
  return x;
}

/* Does the step in row y of plane z of x. One part of the points has this row, or both have shares that are added. */
static void part_rows(const gconv_lucy_volume *v, size_t z, size_t y, float *room, double *sums) {
  const gconv_lucy *l = v->l;
  const size_t count = (size_t)l->large_size[2];
  float *a = y < v->used ? row_at(v, z, 0, y) : NULL, *up = room + 5 * count;
  float *b = y >= v->half && y - v->half < v->used ? row_at(v, z, 1, y - v->half) : NULL;
  const bool there = z < (size_t)l->large_size[0] && y < (size_t)l->large_size[1];
  const float *next = NULL;
  if (there && a && b && v->step != LOAD_GUESS)
    for (size_t x = 0; x < count; x++)
      up[x] = a[x] + b[x];
  if (there)
    next = large_row(v, z * (size_t)l->large_size[1] + y, a && b ? up : a ? a : b, room, sums);
  for (size_t part = 0; part < 2 && v->loads; part++) {
    float *row = part ? b : a;
    if (row && next)
      memcpy(row, next, count * sizeof *row);
    if (row)
      zero(v, row, next ? count : 0);
  }
}

static void large_turn(void *context, size_t turn, int seat) {
  const gconv_lucy_volume *v = context;
  const size_t half = v->half, begin = turn * ROWS, end = begin + ROWS < half ? begin + ROWS : half;
  double *sums;
  float *room = begin_turn(v, turn, seat, &sums);
  for (size_t at = begin; at < end; at++)
    for (size_t y = at; y < v->used && v->step != LOAD_GUESS; y += half)
      gconv_spectra_along_z(&v->spectra, y, false);
  for (size_t first = begin; first < v->used + half; first += half)
    for (size_t z = 0; z < v->spectra.along[0].size; z++)
      for (size_t y = first; y < first + end - begin && y < v->used + half; y++)
        part_rows(v, z, y, room, sums);
  for (size_t at = begin; at < end; at++)
    for (size_t y = at; y < v->spectra.along[1].size && v->loads; y += half)
      if (y < v->used)
        gconv_spectra_along_z(&v->spectra, y, true);
      else
        zero_rows(v, y);
}

/* ---- Steps ----------------------------------------------------------------------------------------------------------- */

/* Does a step in all rows. Sums are added up in the order of turns. */
static void run(gconv_lucy_volume *v, step next, bool loads, double *sums) {
  v->step = next;
  v->loads = loads;
  memset(v->turns, 0, v->half * GCONV_LUCY_SUMS * sizeof *v->turns);
  gconv_threads_run_or_stop(v->threads, (v->half - 1) / ROWS + 1, next <= DIVIDE ? image_turn : large_turn, v);
  for (size_t i = 0; sums && i < v->half * GCONV_LUCY_SUMS; i++)
    sums[i % GCONV_LUCY_SUMS] += v->turns[i];
}

/* With one channel and no prediction, the next guess stays in the points. */
void gconv_lucy_volume_update(gconv_lucy_volume *v, double sums[GCONV_LUCY_SUMS]) {
  const size_t channels = (size_t)v->l->r->channels;
  for (v->channel = 0; v->channel < channels; v->channel++) {
    if (!v->loaded)
      run(v, LOAD_GUESS, true, NULL);
    gconv_spectra_multiply(&v->spectra, GCONV_SPECTRA_TIMES_CONJUGATE, 0);
    run(v, DIVIDE, true, sums);
    gconv_spectra_multiply(&v->spectra, GCONV_SPECTRA_TIMES, 0);
    v->loaded = channels == 1 && !v->l->r->options->accelerated;
    run(v, CORRECT, v->loaded, sums);
  }
}

static gconv_status make(gconv_lucy_volume *v) {
  const gconv_lucy *l = v->l;
  const gconv_psf *psf = l->r->psf;
  v->threads = gconv_device_threads(l->r->device);
  v->half = ((size_t)l->r->size[1] + 1) / 2;
  v->used = v->half + (size_t)psf->size[1] - 1;
  const size_t least[] = {(size_t)l->large_size[0], v->used, (size_t)l->large_size[2]};
  GCONV_TRY(gconv_spectra_make(least, psf->turned, psf->size, (const int32_t[3]){0}, v->threads, &v->spectra));
  GCONV_ALLOCATE(v->turns, v->half * GCONV_LUCY_SUMS * sizeof *v->turns, "sums");
  const size_t rooms[] = {(size_t)gconv_threads_count(v->threads), ROOMS, least[2], sizeof *v->rooms};
  GCONV_ALLOCATE(v->rooms, gconv_checked_product(4, rooms), "rows");
  return GCONV_OK;
}

gconv_status gconv_lucy_volume_begin(gconv_lucy *l, gconv_lucy_volume **volume) {
  gconv_lucy_volume *v;
  GCONV_NEW(v, 1, "no memory for a volume");
  *volume = v;
  v->l = l;
  GCONV_TRY(make(v));
  for (; v->channel < (size_t)l->r->channels; v->channel++) {
    run(v, LOAD_ONES, true, NULL);
    gconv_spectra_multiply(&v->spectra, GCONV_SPECTRA_TIMES, 0);
    run(v, INVERT, false, NULL);
    run(v, LOAD_IMAGE, true, NULL);
    gconv_spectra_multiply(&v->spectra, GCONV_SPECTRA_TIMES, 0);
    v->loaded = l->r->channels == 1;
    run(v, ESTIMATE, v->loaded, NULL);
  }
  return GCONV_OK;
}

void gconv_lucy_volume_free(gconv_lucy_volume *v) {
  if (!v)
    return;
  gconv_spectra_free(&v->spectra);
  gconv_release(v->turns);
  gconv_release(v->rooms);
  free(v);
}

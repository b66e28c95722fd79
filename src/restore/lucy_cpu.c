/* SPDX-License-Identifier: MIT */
/*
 * Richardson-Lucy on the CPU. Both convolutions are plans of plain filters, which choose the fastest algorithm for the PSF:
 * direct for a small one, separable for a column times a row, Fourier transforms of tiles for a large one. Volumes use
 * products of spectra (lucy_volume.c).
 */
#include "restore/lucy_cpu.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 14 /* samples of a turn */ };

typedef struct state {
  gconv_threads *threads;
  gconv_operation *operations[2];
  gconv_plan *plans[2];                  /* H, H^T */
  gconv_image image, blurred, large, up; /* headers: ratio -> up by H^T, large -> blurred by H */
  gconv_lucy_volume *volume;             /* for volumes, which have no plans; else NULL */
  double *turns;                         /* owned: sums of turns, [chunks][GCONV_LUCY_SUMS] */
  double sums[GCONV_LUCY_SUMS];
} state;

static size_t clip(size_t first, size_t count) {
  return count - first < CHUNK ? count - first : CHUNK;
}

static double *sums_of(const gconv_lucy *l, size_t turn) {
  return ((const state *)l->state)->turns + GCONV_LUCY_SUMS * turn;
}

static void divide_turn(void *context, size_t turn, int seat) {
  const gconv_lucy *l = context;
  const size_t at = turn * CHUNK;
  gconv_lucy_divide(l, l->y + at, l->ratio + at, clip(at, l->count), sums_of(l, turn));
}

static void correct_turn(void *context, size_t turn, int seat) {
  const gconv_lucy *l = context;
  const state *s = l->state;
  const size_t at = turn * CHUNK;
  const gconv_lucy_row row = {.guess = l->guess + at,
                              .up = (const float *)s->up.data + at,
                              .inverse = (l->corrected ? l->corrected : l->inverse) + at,
                              .before = (l->before ? l->before : l->guess) + at,
                              .x = l->x + at,
                              .last = l->last_step ? l->last_step + at : NULL};
  gconv_lucy_correct(&row, clip(at, l->large_count), sums_of(l, turn));
}

static void predict_turn(void *context, size_t turn, int seat) {
  const gconv_lucy *l = context;
  const size_t at = turn * CHUNK, count = clip(at, l->large_count);
  gconv_lucy_predict(l->x + at, l->before + at, gconv_lucy_step(((const state *)l->state)->sums), l->guess + at, count);
}

/* corrected = inverse times the factors of total variation, in a row. */
static void vary_row(void *context, size_t turn, int seat) {
  const gconv_lucy *l = context;
  const size_t row = (size_t)l->large_size[2] * (size_t)l->r->channels;
  const float lambda = (float)l->r->options->total_variation;
  for (size_t i = turn * row; i < (turn + 1) * row; i++)
    l->corrected[i] = l->inverse[i] * gconv_lucy_variation(l, l->r->channels, lambda, (int64_t)i);
}

/* Runs a loop over `count` samples, and adds up its sums in their order. */
static void run_loop(gconv_lucy *l, gconv_turn *turn, size_t count) {
  state *s = l->state;
  const size_t turns = (count - 1) / CHUNK + 1;
  memset(s->turns, 0, turns * sizeof s->sums);
  gconv_threads_run_or_stop(s->threads, turns, turn, l);
  for (size_t i = 0; i < turns; i++)
    for (size_t k = 0; k < GCONV_LUCY_SUMS; k++)
      s->sums[k] += s->turns[GCONV_LUCY_SUMS * i + k];
}

/* ---- Steps ----------------------------------------------------------------------------------------------------------- */

static gconv_status project(gconv_lucy *l) {
  state *s = l->state;
  memset(s->sums, 0, sizeof s->sums);
  if (s->volume)
    return GCONV_OK; /* update() does both convolutions */
  s->large.data = l->guess;
  GCONV_TRY(gconv_plan_execute(s->plans[0], &s->large, &s->blurred, 1, NULL));
  run_loop(l, divide_turn, l->count);
  return GCONV_OK;
}

static gconv_status update(gconv_lucy *l) {
  state *s = l->state;
  if (l->corrected)
    gconv_threads_run_or_stop(s->threads, (size_t)l->large_size[0] * (size_t)l->large_size[1], vary_row, l);
  if (s->volume) {
    gconv_lucy_volume_update(s->volume, s->sums);
    return GCONV_OK;
  }
  GCONV_TRY(gconv_plan_execute(s->plans[1], &s->image, &s->up, 1, NULL));
  run_loop(l, correct_turn, l->large_count);
  return GCONV_OK;
}

static gconv_status predict_guess(gconv_lucy *l) {
  gconv_threads_run_or_stop(((state *)l->state)->threads, (l->large_count - 1) / CHUNK + 1, predict_turn, l);
  return GCONV_OK;
}

static gconv_status get_sums(gconv_lucy *l, double sums[GCONV_LUCY_SUMS]) {
  memcpy(sums, ((state *)l->state)->sums, sizeof((state *)l->state)->sums);
  return GCONV_OK;
}

static gconv_status finish(gconv_lucy *l, const float *x) {
  const gconv_restored *r = l->r;
  const size_t row = (size_t)r->size[2] * (size_t)r->channels, rows = (size_t)r->size[1];
  for (size_t i = 0; i < (size_t)r->size[0] * rows; i++) {
    const size_t large = ((size_t)l->first[0] + i / rows) * (size_t)l->large_size[1] + (size_t)l->first[1] + i % rows;
    memcpy(r->samples + i * row, x + (large * (size_t)l->large_size[2] + (size_t)l->first[2]) * (size_t)r->channels,
           row * sizeof(float));
  }
  return GCONV_OK;
}

/* ---- Memory and plans ------------------------------------------------------------------------------------------------ */

static gconv_image header_of(int32_t height, int32_t width, int32_t channels, float *data) {
  const size_t row = (size_t)width * (size_t)channels * sizeof(float);
  return (gconv_image){.type = GCONV_F32,
                       .frames = 1,
                       .height = height,
                       .width = width,
                       .channels = channels,
                       .row_bytes = row,
                       .plane_bytes = row * (size_t)height,
                       .data = data};
}

static gconv_status allocate(gconv_lucy *l, size_t count, const char *what, float **samples) {
  return gconv_allocate_workspace(count * sizeof(float), what, (void **)samples);
}

static void release(gconv_lucy *l, float *samples) {
  gconv_release(samples);
}

/* Plans correlate. So H, a convolution without padding, gets the mirrored PSF, and H^T, with full padding, the PSF itself.
 */
static gconv_status plan(gconv_lucy *l, state *s) {
  const gconv_psf *psf = l->r->psf;
  for (int which = 0; which < 2; which++) {
    gconv_filter filter = {.name = "psf",
                           .rows = psf->size[1],
                           .columns = psf->size[2],
                           .divisor = 1,
                           .taps = which == 0 ? psf->turned : psf->taps};
    const gconv_filters filters = {.items = &filter, .count = 1};
    gconv_options options = gconv_options_default();
    options.padding = which == 0 ? GCONV_PADDING_VALID : GCONV_PADDING_FULL;
    GCONV_TRY(gconv_operation_filters(&filters, &options, &s->operations[which]));
    GCONV_TRY(
        gconv_plan_create(l->r->device, which == 0 ? &s->large : &s->image, s->operations[which], 0, &s->plans[which]));
  }
  return GCONV_OK;
}

static gconv_status prepare(gconv_lucy *l, state *s) {
  const gconv_restored *r = l->r;
  s->threads = gconv_device_threads(r->device);
  l->y = r->samples;
  GCONV_ALLOCATE(s->turns, (l->large_count / CHUNK + 1) * sizeof s->sums, "sums");
  s->image = s->blurred = header_of(r->size[1], r->size[2], r->channels, l->ratio);
  s->large = header_of(l->large_size[1], l->large_size[2], r->channels, l->guess);
  return r->psf->size[0] > 1 ? GCONV_OK : plan(l, s);
}

static gconv_status begin(gconv_lucy *l) {
  state *s = calloc(1, sizeof *s);
  l->state = s;
  GCONV_NEED_MEMORY(s, "no memory for the restored image");
  GCONV_TRY(prepare(l, s));
  if (l->last_step)
    memset(l->last_step, 0, l->large_count * sizeof(float));
  if (l->r->psf->size[0] > 1)
    return gconv_lucy_volume_begin(l, &s->volume);
  for (size_t i = 0; i < l->count; i++)
    l->ratio[i] = isfinite(l->y[i]);
  GCONV_TRY(gconv_plan_execute(s->plans[1], &s->image, &s->up, 1, NULL));
  const float *up = s->up.data;
  for (size_t i = 0; i < l->large_count; i++)
    l->inverse[i] = up[i] > GCONV_LUCY_LEAST_WEIGHT ? 1 / up[i] : 0;
  for (size_t i = 0; i < l->count; i++)
    l->ratio[i] = isfinite(l->y[i]) ? l->y[i] : 0;
  GCONV_TRY(gconv_plan_execute(s->plans[1], &s->image, &s->up, 1, NULL));
  for (size_t i = 0; i < l->large_count; i++) {
    const float value = up[i] * l->inverse[i];
    l->guess[i] = l->x[i] = value > 0 ? value : 0;
  }
  return GCONV_OK;
}

static void end(gconv_lucy *l) {
  state *s = l->state;
  for (int which = 0; s && which < 2; which++) {
    gconv_plan_free(s->plans[which]);
    gconv_operation_free(s->operations[which]);
  }
  if (s) {
    gconv_lucy_volume_free(s->volume);
    gconv_image_free(&s->up);
    gconv_release(s->turns);
  }
  free(s);
}

const gconv_lucy_type gconv_lucy_type_cpu = {.allocate = allocate,
                                             .release = release,
                                             .begin = begin,
                                             .project = project,
                                             .update = update,
                                             .predict = predict_guess,
                                             .sums = get_sums,
                                             .finish = finish,
                                             .end = end};

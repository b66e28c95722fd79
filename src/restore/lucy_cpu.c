/* SPDX-License-Identifier: MIT */
/*
 * Richardson-Lucy on the CPU. Both convolutions are plans of plain filters, which take the fastest algorithm for the PSF:
 * short ones directly, those of one column times one row as separable, large ones by Fourier transforms of tiles. In three
 * dimensions, they are products of spectra (spectra.c).
 */
#include "base/cpu.h"
#include "base/memory.h"
#include "restore/lucy.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 14 /* samples of a turn */ };

typedef struct state {
  gconv_threads *threads;
  gconv_operation *operations[2];
  gconv_plan *plans[2];                  /* H, H^T */
  gconv_image image, blurred, large, up; /* headers: ratio -> up by H^T, large -> blurred by H */
  gconv_spectra spectra;                 /* of volumes, in place of plans */
  double *turns;                         /* owned: sums of turns, [chunks][4] */
  double sums[GCONV_LUCY_SUMS];
} state;

/* ---- Loops ----------------------------------------------------------------------------------------------------------- */

enum { LANES = 16 /* partial sums, so that loops become vector code */ };

static double add_lanes(const double lanes[LANES]) {
  double sum = 0;
  for (size_t k = 0; k < LANES; k++)
    sum += lanes[k];
  return sum;
}

/* A loop over `count` samples, with statements for each sample i, and its lane k. */
#define EACH_SAMPLE(...)                                                                                                    \
  do {                                                                                                                      \
    const size_t whole = count / LANES * LANES;                                                                             \
    for (size_t first = 0; first < whole; first += LANES)                                                                   \
      for (size_t k = 0; k < LANES; k++) {                                                                                  \
        const size_t i = first + k;                                                                                         \
        __VA_ARGS__                                                                                                         \
      }                                                                                                                     \
    for (size_t i = whole; i < count; i++) {                                                                                \
      const size_t k = i - whole;                                                                                           \
      __VA_ARGS__                                                                                                           \
    }                                                                                                                       \
  } while (0)

/* ratio = y / blurred, 0 where y is missing. Sets sums[0] to the sum of `blurred` where y is there. */
GCONV_VECTOR_LOOP(divide, (const float *restrict y, float *restrict ratio, float least, size_t count, double *sums),
                  (y, ratio, least, count, sums)) {
  double flux[LANES] = {0};
  EACH_SAMPLE({
    const float blurred = ratio[i] > least ? ratio[i] : least;
    const bool there = y[i] == y[i];
    flux[k] += there ? (double)ratio[i] : 0;
    ratio[i] = there ? y[i] / blurred : 0;
  });
  sums[0] = add_lanes(flux);
}

static void add_deviance(const float *y, const float *blurred, float least, size_t count, double *sums) {
  double sum = 0;
  for (size_t i = 0; i < count; i++)
    if (isfinite(y[i]))
      sum += gconv_lucy_deviance((double)y[i], (double)(blurred[i] > least ? blurred[i] : least));
  sums[1] = sum;
}

/* x = guess * up * inverse, not below 0. Sets the sums of (x - before)^2 and of x^2. */
GCONV_VECTOR_LOOP(correct,
                  (const float *restrict guess, const float *restrict up, const float *restrict inverse, const float *before,
                   float *restrict x, size_t count, double *sums),
                  (guess, up, inverse, before, x, count, sums)) {
  double change[LANES] = {0}, size[LANES] = {0};
  EACH_SAMPLE({
    const float product = guess[i] * up[i] * inverse[i], v = product > 0 ? product : 0;
    const double d = (double)(v - before[i]);
    x[i] = v;
    change[k] += d * d;
    size[k] += (double)v * (double)v;
  });
  sums[0] = add_lanes(change);
  sums[1] = add_lanes(size);
}

/* Biggs and Andrews: products of this step, x - guess, with the one before it, which becomes this step. */
GCONV_VECTOR_LOOP(compare_steps,
                  (const float *restrict x, const float *restrict guess, float *restrict last, size_t count, double *sums),
                  (x, guess, last, count, sums)) {
  double product[LANES] = {0}, size[LANES] = {0};
  EACH_SAMPLE({
    const float step = x[i] - guess[i];
    product[k] += (double)step * (double)last[i];
    size[k] += (double)last[i] * (double)last[i];
    last[i] = step;
  });
  sums[2] = add_lanes(product);
  sums[3] = add_lanes(size);
}

/* guess = x + step * (x - before), not below 0. */
GCONV_VECTOR_LOOP(predict,
                  (const float *restrict x, const float *restrict before, float step, float *restrict guess, size_t count),
                  (x, before, step, guess, count)) {
  for (size_t i = 0; i < count; i++) {
    const float v = x[i] + step * (x[i] - before[i]);
    guess[i] = v > 0 ? v : 0;
  }
}

static size_t clip(size_t first, size_t count) {
  return count - first < CHUNK ? count - first : CHUNK;
}

static void divide_turn(void *context, size_t turn, int seat) {
  const gconv_lucy *l = context;
  const size_t at = turn * CHUNK, count = clip(at, l->count);
  double *sums = ((state *)l->state)->turns + 4 * turn;
  (void)seat;
  if (l->r->options->deviance)
    add_deviance(l->y + at, l->ratio + at, l->least, count, sums);
  divide(l->y + at, l->ratio + at, l->least, count, sums);
}

static void correct_turn(void *context, size_t turn, int seat) {
  const gconv_lucy *l = context;
  const state *s = l->state;
  const size_t at = turn * CHUNK, count = clip(at, l->large_count);
  const float *before = l->before ? l->before : l->guess, *inverse = l->corrected ? l->corrected : l->inverse;
  (void)seat;
  correct(l->guess + at, (const float *)s->up.data + at, inverse + at, before + at, l->x + at, count, s->turns + 4 * turn);
  if (l->last_step)
    compare_steps(l->x + at, l->guess + at, l->last_step + at, count, s->turns + 4 * turn);
}

static void predict_turn(void *context, size_t turn, int seat) {
  const gconv_lucy *l = context;
  const size_t at = turn * CHUNK, count = clip(at, l->large_count);
  (void)seat;
  predict(l->x + at, l->before + at, gconv_lucy_step(((state *)l->state)->sums), l->guess + at, count);
}

/* corrected = inverse, with total variation, of a row. */
static void vary_row(void *context, size_t turn, int seat) {
  const gconv_lucy *l = context;
  const size_t row = (size_t)l->large_size[2] * (size_t)l->r->channels;
  const float lambda = (float)l->r->options->total_variation;
  (void)seat;
  for (size_t i = turn * row; i < (turn + 1) * row; i++)
    l->corrected[i] = l->inverse[i] * gconv_lucy_variation(l, l->r->channels, lambda, (int64_t)i);
}

/* Runs a loop over `count` samples, and adds up its sums in their order. */
static void run_loop(gconv_lucy *l, gconv_turn *turn, size_t count, double *sums, size_t kinds) {
  const state *s = l->state;
  const size_t turns = (count - 1) / CHUNK + 1;
  gconv_threads_run(s->threads, turns, turn, l);
  for (size_t k = 0; k < kinds; k++) {
    sums[k] = 0;
    for (size_t i = 0; i < turns; i++)
      sums[k] += s->turns[4 * i + k];
  }
}

/* ---- Steps ----------------------------------------------------------------------------------------------------------- */

static gconv_status convolve(gconv_lucy *l, int which) {
  state *s = l->state;
  s->large.data = l->guess;
  if (s->spectra.points) {
    gconv_spectra_convolve(&s->spectra, which == 0 ? l->guess : l->ratio, which == 0 ? l->large_size : l->r->size,
                           which == 0 ? l->ratio : (float *)s->up.data, which == 0 ? l->r->size : l->large_size,
                           l->r->channels);
    return GCONV_OK;
  }
  return gconv_plan_execute(s->plans[which], which == 0 ? &s->large : &s->image, which == 0 ? &s->blurred : &s->up, 1, NULL);
}

static gconv_status project(gconv_lucy *l) {
  GCONV_TRY(convolve(l, 0));
  run_loop(l, divide_turn, l->count, ((state *)l->state)->sums, GCONV_LUCY_CHANGE);
  return GCONV_OK;
}

static gconv_status update(gconv_lucy *l) {
  state *s = l->state;
  GCONV_TRY(convolve(l, 1));
  if (l->corrected)
    gconv_threads_run(s->threads, (size_t)l->large_size[0] * (size_t)l->large_size[1], vary_row, l);
  run_loop(l, correct_turn, l->large_count, s->sums + GCONV_LUCY_CHANGE, l->last_step ? 4 : 2);
  return GCONV_OK;
}

static gconv_status predict_guess(gconv_lucy *l) {
  gconv_threads_run(((state *)l->state)->threads, (l->large_count - 1) / CHUNK + 1, predict_turn, l);
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
  (void)l;
  GCONV_TRY(gconv_allocate_workspace(count * sizeof(float), what, (void **)samples));
  memset(*samples, 0, count * sizeof(float));
  return GCONV_OK;
}

static void release(gconv_lucy *l, float *samples) {
  (void)l;
  gconv_release(samples);
}

/* H convolves without padding; H^T correlates with full padding, which is a convolution with the PSF turned. */
static gconv_status plan(gconv_lucy *l, state *s) {
  const gconv_psf *psf = l->r->psf;
  if (psf->size[0] > 1) {
    const size_t least[] = {(size_t)l->large_size[0], (size_t)(l->large_size[1] + 1) / 2 + (size_t)psf->size[1],
                            (size_t)l->large_size[2]};
    return gconv_spectra_make(least, psf->turned, psf->size, (const int32_t[3]){0}, s->threads, &s->spectra);
  }
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
  GCONV_ALLOCATE(s->turns, (l->large_count / CHUNK + 1) * 4 * sizeof(double), "sums");
  s->image = s->blurred = header_of(r->size[1], r->size[2], r->channels, l->ratio);
  s->large = header_of(l->large_size[1], l->large_size[2], r->channels, l->guess);
  if (r->psf->size[0] > 1) {
    s->up = header_of(l->large_size[1], l->large_size[2], r->channels, NULL);
    s->up.frames = l->large_size[0];
    GCONV_TRY(gconv_image_allocate(&s->up));
  }
  return plan(l, s);
}

static gconv_status begin(gconv_lucy *l) {
  state *s = calloc(1, sizeof *s);
  l->state = s;
  GCONV_NEED_MEMORY(s, "no memory for the restored image");
  GCONV_TRY(prepare(l, s));
  for (size_t i = 0; i < l->count; i++)
    l->ratio[i] = isfinite(l->y[i]);
  GCONV_TRY(convolve(l, 1));
  const float *up = s->up.data;
  for (size_t i = 0; i < l->large_count; i++)
    l->inverse[i] = up[i] > GCONV_LUCY_LEAST_WEIGHT ? 1 / up[i] : 0;
  for (size_t i = 0; i < l->count; i++)
    l->ratio[i] = isfinite(l->y[i]) ? l->y[i] : 0;
  GCONV_TRY(convolve(l, 1));
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
    gconv_spectra_free(&s->spectra);
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

/* SPDX-License-Identifier: MIT */
/*
 * Richardson-Lucy: x becomes x / w * H^T(M y / H x), where w = H^T(M).
 *
 * x is larger than the image by the PSF, so that each sample of the image sees only what is estimated: H is a convolution
 * without padding, H^T one with full padding. M is 1 on samples that count. Where w is small, little is known of x: it
 * becomes 0 there. Both convolutions are plans of plain filters, which take the fastest algorithm for the PSF: short ones
 * directly, those of one column times one row as separable, large ones by Fourier transforms of tiles. In three dimensions,
 * they are products of spectra (spectra.c).
 */
#include "base/cpu.h"
#include "base/memory.h"
#include "restore/restore.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 14 /* samples of a turn */ };
static const float LEAST_WEIGHT = 0.01F; /* as Bertero and Boccacci take it */

typedef struct lucy {
  const gconv_restored *r;
  gconv_threads *threads;
  gconv_operation *operations[2];
  gconv_plan *plans[2];                  /* H, H^T */
  gconv_image image, blurred, large, up; /* headers: ratio -> up by H^T, large -> blurred by H */
  gconv_spectra spectra;                 /* of volumes, in place of plans */
  int32_t large_size[3];                 /* of x: planes, rows, columns */
  size_t count, large_count;             /* samples of the image, and of x */
  const float *y;                        /* the image; NaN is missing */
  float *ratio, *x, *before, *guess, *corrected, *last_step, *inverse; /* owned */
  double *sums;                                                        /* owned: [chunks][4] */
  float least;                                                         /* the least H x that divides */
  float step;                                                          /* of the prediction, 0..1 */
  float calm;   /* of total variation: the length of a gradient that counts half */
  double total; /* the sum of y */
} lucy;

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
  for (size_t i = 0; i < count; i++) {
    const double b = blurred[i] > least ? (double)blurred[i] : (double)least, v = (double)y[i];
    if (isfinite(v))
      sum += 2 * ((v > 0 ? v * log(v / b) : 0) - v + b);
  }
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
  const lucy *l = context;
  const size_t at = turn * CHUNK, count = clip(at, l->count);
  (void)seat;
  if (l->r->options->deviance)
    add_deviance(l->y + at, l->ratio + at, l->least, count, l->sums + 4 * turn);
  divide(l->y + at, l->ratio + at, l->least, count, l->sums + 4 * turn);
}

static void correct_turn(void *context, size_t turn, int seat) {
  const lucy *l = context;
  const size_t at = turn * CHUNK, count = clip(at, l->large_count);
  (void)seat;
  const float *before = l->r->options->accelerated ? l->before : l->guess;
  const float *inverse = l->r->options->total_variation > 0 ? l->corrected : l->inverse;
  correct(l->guess + at, (const float *)l->up.data + at, inverse + at, before + at, l->x + at, count, l->sums + 4 * turn);
  if (l->last_step)
    compare_steps(l->x + at, l->guess + at, l->last_step + at, count, l->sums + 4 * turn);
}

static void predict_turn(void *context, size_t turn, int seat) {
  const lucy *l = context;
  const size_t at = turn * CHUNK, count = clip(at, l->large_count);
  (void)seat;
  predict(l->x + at, l->before + at, l->step, l->guess + at, count);
}

/* Runs a loop over `count` samples, and adds up its sums in their order. */
static void run_loop(lucy *l, gconv_turn *turn, size_t count, double sums[4]) {
  const size_t turns = (count - 1) / CHUNK + 1;
  gconv_threads_run(l->threads, turns, turn, l);
  memset(sums, 0, 4 * sizeof *sums);
  for (size_t i = 0; i < turns; i++)
    for (size_t k = 0; k < 4; k++)
      sums[k] += l->sums[4 * i + k];
}

/* ---- Total variation ------------------------------------------------------------------------------------------------- */

/* A part of the gradient of the guess at a sample, by differences to the next one along z, y or x, over its length; 0 beyond
 * the image. Small gradients are not made as long as others: else each iteration would turn noise around, by a share of
 * lambda. */
static float slope(const lucy *l, const int64_t place[3], size_t c, size_t axis) {
  const int32_t *size = l->large_size;
  const int64_t steps[] = {(int64_t)size[1] * size[2], size[2], 1};
  const float *at = l->guess + (place[0] * steps[0] + place[1] * steps[1] + place[2]) * l->r->channels + c;
  float differences[3], sum = l->calm * l->calm;
  if (place[axis] < 0)
    return 0;
  for (size_t i = 0; i < 3; i++) {
    differences[i] = place[i] + 1 < size[i] ? at[steps[i] * l->r->channels] - at[0] : 0;
    sum += differences[i] * differences[i];
  }
  return differences[axis] / sqrtf(sum);
}

/* corrected = inverse / (1 - lambda * div(gradient / |gradient|)) of a row. */
static void vary_row(void *context, size_t turn, int seat) {
  const lucy *l = context;
  const size_t channels = (size_t)l->r->channels, row = (size_t)l->large_size[2] * channels, rows = (size_t)l->large_size[1];
  const float lambda = (float)l->r->options->total_variation;
  (void)seat;
  for (size_t i = 0; i < row; i++) {
    const int64_t place[3] = {(int64_t)(turn / rows), (int64_t)(turn % rows), (int64_t)(i / channels)};
    float divergence = 0;
    for (size_t axis = 0; axis < 3; axis++) {
      const int64_t before[3] = {place[0] - (axis == 0), place[1] - (axis == 1), place[2] - (axis == 2)};
      divergence += slope(l, place, i % channels, axis) - slope(l, before, i % channels, axis);
    }
    const float factor = 1 - lambda * divergence;
    l->corrected[turn * row + i] = l->inverse[turn * row + i] / (factor > 0.1F ? factor : 0.1F);
  }
}

/* ---- Iterations ------------------------------------------------------------------------------------------------------ */

static gconv_status convolve(lucy *l, int which) {
  if (l->spectra.points) {
    const float *volume = which == 0 ? l->guess : l->ratio;
    gconv_spectra_convolve(&l->spectra, volume, which == 0 ? l->large_size : l->r->size,
                           which == 0 ? l->ratio : (float *)l->up.data, which == 0 ? l->r->size : l->large_size,
                           l->r->channels);
    return GCONV_OK;
  }
  const gconv_image *in = which == 0 ? &l->large : &l->image;
  return gconv_plan_execute(l->plans[which], in, which == 0 ? &l->blurred : &l->up, 1, NULL);
}

static void exchange(float **a, float **b) {
  float *other = *a;
  *a = *b;
  *b = other;
}

/* The guess is corrected to x, and the next guess follows: x itself, or what the last steps predict. */
static gconv_status iterate(lucy *l, gconv_deconvolve_step *step) {
  const gconv_deconvolve_options *options = l->r->options;
  double sums[4];
  l->large.data = l->guess;
  GCONV_TRY(convolve(l, 0)); /* ratio = H guess */
  run_loop(l, divide_turn, l->count, sums);
  step->flux = sums[0] / l->total;
  step->deviance = options->deviance ? sums[1] / (double)l->count : NAN;
  GCONV_TRY(convolve(l, 1)); /* up = H^T ratio */
  if (options->total_variation > 0)
    gconv_threads_run(l->threads, (size_t)l->large_size[0] * (size_t)l->large_size[1], vary_row, l);
  if (options->accelerated)
    exchange(&l->x, &l->before);
  run_loop(l, correct_turn, l->large_count, sums);
  step->change = sums[1] > 0 ? sqrt(sums[0] / sums[1]) : 0;
  if (!options->accelerated) {
    exchange(&l->guess, &l->x);
    return GCONV_OK;
  }
  l->step = sums[3] > 0 ? (float)fmin(fmax(sums[2] / sums[3], 0), 1) : 0;
  run_loop(l, predict_turn, l->large_count, sums);
  return GCONV_OK;
}

/* The first estimate: H^T(M y) / w, a blurred image of the same flux. Sets `inverse`. */
static gconv_status begin(lucy *l) {
  size_t there = 0;
  for (size_t i = 0; i < l->count; i++) {
    there += isfinite(l->y[i]);
    l->ratio[i] = isfinite(l->y[i]);
    l->total += isfinite(l->y[i]) ? (double)l->y[i] : 0;
  }
  if (there == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "no sample of the image counts: all are NaN, infinite or no data");
  l->least = (float)(1e-6 * l->total / (double)there);
  l->calm = (float)(fmax(4 * l->r->options->total_variation, 1e-6) * l->total / (double)there) + 1e-30F;
  l->least = l->least > 1e-30F ? l->least : 1e-30F;
  GCONV_TRY(convolve(l, 1));
  const float *up = l->up.data;
  for (size_t i = 0; i < l->large_count; i++)
    l->inverse[i] = up[i] > LEAST_WEIGHT ? 1 / up[i] : 0;
  for (size_t i = 0; i < l->count; i++)
    l->ratio[i] = isfinite(l->y[i]) ? l->y[i] : 0;
  GCONV_TRY(convolve(l, 1));
  for (size_t i = 0; i < l->large_count; i++) {
    const float value = up[i] * l->inverse[i];
    l->guess[i] = l->x[i] = value > 0 ? value : 0;
  }
  return GCONV_OK;
}

static gconv_status run(lucy *l, gconv_restored *r) {
  const gconv_deconvolve_options *options = r->options;
  const int32_t count = options->iterations > 0 ? options->iterations : 20;
  gconv_deconvolve_step *step = &r->told->last;
  GCONV_TRY(begin(l));
  for (int32_t k = 1; k <= count && !r->stopped; k++) {
    *step = (gconv_deconvolve_step){.frame = r->frame, .iteration = k, .count = count};
    GCONV_TRY(iterate(l, step));
    r->stopped = options->report && !options->report(step, options->user);
    if (step->change < options->change)
      break;
  }
  const size_t row = (size_t)r->size[2] * (size_t)r->channels, rows = (size_t)r->size[1];
  size_t first[3]; /* of the image in x */
  for (size_t i = 0; i < 3; i++)
    first[i] = (size_t)(r->psf->size[i] - 1 - r->psf->centre[i]);
  for (size_t i = 0; i < (size_t)r->size[0] * rows; i++) {
    const size_t large_row = (first[0] + i / rows) * (size_t)l->large_size[1] + first[1] + i % rows;
    memcpy(r->samples + i * row,
           (options->accelerated ? l->x : l->guess) +
               (large_row * (size_t)l->large_size[2] + first[2]) * (size_t)r->channels,
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

static gconv_status allocate(lucy *l) {
  const gconv_deconvolve_options *options = l->r->options;
  float **large[] = {&l->x,
                     options->accelerated ? &l->before : NULL,
                     &l->guess,
                     &l->inverse,
                     options->total_variation > 0 ? &l->corrected : NULL,
                     options->accelerated ? &l->last_step : NULL};
  for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
    if (!large[i])
      continue;
    GCONV_TRY(gconv_allocate_workspace(l->large_count * sizeof(float), "the restored image", (void **)large[i]));
    memset(*large[i], 0, l->large_count * sizeof(float));
  }
  GCONV_TRY(gconv_allocate_workspace(l->count * sizeof(float), "the blurred image", (void **)&l->ratio));
  return gconv_allocate((l->large_count / CHUNK + 1) * 4 * sizeof(double), "sums", (void **)&l->sums);
}

/* H convolves without padding; H^T correlates with full padding, which is a convolution with the PSF turned. */
static gconv_status plan(lucy *l) {
  const gconv_psf *psf = l->r->psf;
  if (psf->size[0] > 1) {
    const size_t least[] = {(size_t)l->large_size[0], (size_t)(l->large_size[1] + 1) / 2 + (size_t)psf->size[1],
                            (size_t)l->large_size[2]};
    l->up = header_of(l->large_size[1], l->large_size[2], l->r->channels, NULL);
    l->up.frames = l->large_size[0];
    GCONV_TRY(gconv_image_allocate(&l->up));
    return gconv_spectra_make(least, psf->turned, psf->size, (const int32_t[3]){0}, l->threads, &l->spectra);
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
    GCONV_TRY(gconv_operation_filters(&filters, &options, &l->operations[which]));
    GCONV_TRY(
        gconv_plan_create(l->r->device, which == 0 ? &l->large : &l->image, l->operations[which], 0, &l->plans[which]));
  }
  return GCONV_OK;
}

gconv_status gconv_restore_richardson_lucy(gconv_restored *r) {
  lucy l = {.r = r, .threads = gconv_device_threads(r->device), .y = r->samples, .count = 1, .large_count = 1};
  double samples = r->channels;
  for (size_t i = 0; i < 3; i++) {
    const double size = (double)r->size[i] + r->psf->size[i] - 1;
    samples *= size;
    l.large_size[i] = size <= INT32_MAX ? (int32_t)size : 0;
    l.count *= (size_t)r->size[i];
    l.large_count *= (size_t)l.large_size[i];
  }
  l.count *= (size_t)r->channels;
  l.large_count *= (size_t)r->channels;
  if (l.large_count == 0 || samples > 0x1p60)
    return gconv_fail(GCONV_TOO_LARGE, "the image and the PSF together have %.0f samples", samples);
  gconv_status status = allocate(&l);
  l.image = l.blurred = header_of(r->size[1], r->size[2], r->channels, l.ratio);
  l.large = header_of(l.large_size[1], l.large_size[2], r->channels, l.guess);
  GCONV_THEN(status, plan(&l));
  GCONV_THEN(status, run(&l, r));
  for (int which = 0; which < 2; which++) {
    gconv_plan_free(l.plans[which]);
    gconv_operation_free(l.operations[which]);
  }
  gconv_spectra_free(&l.spectra);
  gconv_image_free(&l.up);
  float *all[] = {l.ratio, l.x, l.before, l.guess, l.corrected, l.last_step, l.inverse};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    gconv_release(all[i]);
  gconv_release(l.sums);
  return status;
}

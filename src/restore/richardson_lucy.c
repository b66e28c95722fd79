/* SPDX-License-Identifier: MIT */
/*
 * Richardson-Lucy: x becomes x / w * H^T(M y / H x), where w = H^T(M).
 *
 * x is larger than the image by the PSF, so that it has all samples on which the image depends: H is a convolution without
 * padding, H^T one with full padding. M is 0 at missing samples of the image, and 1 at all others. Where w is small, little
 * is known of x, which becomes 0 there. The loops over samples are functions of the device (lucy.h).
 */
#include "base/control.h"
#include "base/memory.h"
#include "restore/lucy.h"

#include <string.h>

static void exchange(float **a, float **b) {
  float *other = *a;
  *a = *b;
  *b = other;
}

/* Corrects the guess, which becomes x, and makes the next guess: x itself, in the same memory, or what the last steps
 * predict. Fetches the sums only with `look`, because it has to wait for a GPU. */
static gconv_status iterate(gconv_lucy *l, const gconv_lucy_type *type, bool look, gconv_deconvolve_step *step) {
  const gconv_deconvolve_options *options = l->r->options;
  double sums[GCONV_LUCY_SUMS];
  GCONV_TRY(type->project(l));
  if (options->accelerated)
    exchange(&l->x, &l->before);
  GCONV_TRY(type->update(l));
  if (options->accelerated)
    GCONV_TRY(type->predict(l));
  if (!look)
    return GCONV_OK;
  GCONV_TRY(type->sums(l, sums));
  step->flux = sums[GCONV_LUCY_FLUX] / l->total;
  step->deviance = options->deviance ? sums[GCONV_LUCY_DEVIANCE] / (double)l->count : NAN;
  step->change = sums[GCONV_LUCY_SIZE] > 0 ? sqrt(sums[GCONV_LUCY_CHANGE] / sums[GCONV_LUCY_SIZE]) : 0;
  return GCONV_OK;
}

static gconv_status run(gconv_lucy *l, const gconv_lucy_type *type) {
  gconv_restored *r = l->r;
  const gconv_deconvolve_options *options = r->options;
  const int32_t count = options->iterations > 0 ? options->iterations : 20;
  gconv_deconvolve_step *step = &r->done->last;
  GCONV_TRY(type->begin(l));
  for (int32_t k = 1; k <= count && !r->stopped; k++) {
    *step = (gconv_deconvolve_step){.frame = r->frame, .iteration = k, .count = count};
    GCONV_TRY(iterate(l, type, options->report || options->change > 0 || k == count, step));
    GCONV_TRY(gconv_control_check());
    r->stopped = options->report && !options->report(step, options->user);
    if (step->change < options->change)
      break;
  }
  return type->finish(l, l->x);
}

static gconv_status measure(gconv_lucy *l) {
  size_t there = 0;
  const float *y = l->r->samples;
  for (size_t i = 0; i < l->count; i++) {
    there += isfinite(y[i]);
    l->total += isfinite(y[i]) ? (double)y[i] : 0;
  }
  if (there == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "no sample of the image counts: all are NaN, infinite or no data");
  l->least = (float)(1e-6 * l->total / (double)there);
  l->epsilon = (float)(fmax(4 * l->r->options->total_variation, 1e-6) * l->total / (double)there) + 1e-30F;
  l->least = l->least > 1e-30F ? l->least : 1e-30F;
  return GCONV_OK;
}

gconv_status gconv_restore_richardson_lucy(gconv_restored *r) {
  const gconv_lucy_type *type = GCONV_OF_DEVICE(r->device, gconv_lucy_type);
  const bool accelerated = r->options->accelerated, varies = r->options->total_variation > 0;
  gconv_lucy l = {.r = r, .count = (size_t)r->channels, .large_count = (size_t)r->channels};
  double samples = r->channels;
  for (size_t i = 0; i < 3; i++) {
    const double size = (double)r->size[i] + r->psf->size[i] - 1;
    samples *= size;
    l.large_size[i] = size <= INT32_MAX ? (int32_t)size : 0;
    l.first[i] = r->psf->size[i] - 1 - r->psf->centre[i];
    l.count *= (size_t)r->size[i];
    l.large_count *= (size_t)l.large_size[i];
  }
  if (l.large_count == 0 || samples > 0x1p60)
    return gconv_fail(GCONV_TOO_LARGE, "the image and the PSF together have %.0f samples", samples);
  float **const arrays[] = {&l.ratio, &l.guess, &l.inverse, &l.x, &l.before, &l.last_step, &l.corrected};
  const size_t count = sizeof arrays / sizeof *arrays;
  gconv_status status = measure(&l);
  for (size_t i = 0; i < count; i++)
    if (i < 3 || (i < 6 ? accelerated : varies))
      GCONV_THEN(status, type->allocate(&l, i > 0 ? l.large_count : l.count, "the restored image", arrays[i]));
  l.x = accelerated ? l.x : l.guess;
  GCONV_THEN(status, run(&l, type));
  type->end(&l);
  l.x = accelerated ? l.x : NULL;
  for (size_t i = 0; i < count; i++)
    type->release(&l, *arrays[i]);
  return status;
}

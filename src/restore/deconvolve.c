/* SPDX-License-Identifier: MIT */
/* Deconvolution: the public function. Prepares the PSF, and restores the frames of an image one after the other. */
#include "base/arguments.h"
#include "base/memory.h"
#include "base/nodata.h"
#include "image/colour.h"
#include "image/layout.h"
#include "restore/restore.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The point spread function ------------------------------------------------------------------------------------- */

/* Sets the taps to those of `planes`, which have one size, divided by their sum. clamps: negative taps become 0. */
static gconv_status fill_psf(const gconv_filter *planes, bool clamps, gconv_psf *psf, gconv_deconvolved *done) {
  const size_t plane = (size_t)psf->size[1] * (size_t)psf->size[2], count = (size_t)psf->size[0] * plane;
  double sum = 0, mass = 0, moments[3] = {0};
  for (size_t i = 0; i < count; i++) {
    const gconv_filter *filter = &planes[i / plane];
    const float tap = filter->taps[i % plane] / filter->divisor;
    const size_t at[] = {i / plane, i % plane / (size_t)psf->size[2], i % (size_t)psf->size[2]};
    psf->taps[i] = tap < 0 && clamps ? 0 : tap;
    done->psf_negative += tap < 0;
    sum += (double)psf->taps[i];
    mass += fabs((double)psf->taps[i]);
    for (size_t k = 0; k < 3; k++)
      moments[k] += fabs((double)psf->taps[i]) * (double)at[k];
  }
  if (!(sum > 0 && isfinite(sum)))
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "the PSF %s has the sum %g: a point spread function is the picture of a point, and "
                      "its sum is above 0",
                      planes->name ? planes->name : "", sum);
  for (size_t i = 0; i < count; i++) {
    psf->taps[i] = (float)((double)psf->taps[i] / sum);
    psf->turned[count - 1 - i] = psf->taps[i];
  }
  done->psf_sum = sum;
  for (size_t k = 0; k < 3; k++)
    psf->centre[k] = (int32_t)floor(moments[k] / mass + 0.5);
  done->psf_plane = psf->centre[0];
  done->psf_row = psf->centre[1];
  done->psf_column = psf->centre[2];
  return GCONV_OK;
}

static gconv_status take_psf(const gconv_filter *planes, int32_t count, bool clamps, gconv_psf *psf,
                             gconv_deconvolved *done) {
  gconv_filter_analysis found;
  for (int32_t k = 0; k < count; k++) {
    GCONV_TRY(gconv_filter_analyze(&planes[k], &found));
    if (planes[k].rows != planes->rows || planes[k].columns != planes->columns)
      return gconv_fail(GCONV_BAD_ARGUMENT, "plane %d of the PSF has %d x %d taps, and the first one %d x %d", k + 1,
                        planes[k].rows, planes[k].columns, planes->rows, planes->columns);
  }
  *psf = (gconv_psf){.size = {count, planes->rows, planes->columns}};
  const size_t sizes[] = {(size_t)count, (size_t)planes->rows, (size_t)planes->columns, sizeof(float)};
  const size_t bytes = gconv_checked_product(4, sizes);
  if (bytes > INT32_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "the PSF has more than %d taps", INT32_MAX / 4);
  GCONV_TRY(gconv_allocate(bytes, "the PSF", (void **)&psf->taps));
  GCONV_TRY(gconv_allocate(bytes, "the PSF", (void **)&psf->turned));
  return fill_psf(planes, clamps, psf, done);
}

/* ---- Frames ---------------------------------------------------------------------------------------------------------- */

/* Returns where channel c of row y of a frame begins. Sets *step to the samples from a pixel to the next. */
static void *place_of(const gconv_image *image, int32_t frame, size_t y, int32_t c, size_t *step) {
  const size_t plane = image->planar ? (size_t)frame * (size_t)image->channels + (size_t)c : (size_t)frame;
  *step = image->planar ? 1 : (size_t)image->channels;
  return (uint8_t *)gconv_row_at(image, plane, (int64_t)y) + (image->planar ? 0 : (size_t)c * gconv_type_bytes(image->type));
}

static float *samples_of(const gconv_restored *r, int32_t plane) {
  return r->samples + (size_t)plane * (size_t)r->size[1] * (size_t)r->size[2] * (size_t)r->channels;
}

/* The context of load_row() and store_row(), each call of which processes one row of a frame. */
typedef struct frame {
  gconv_restored *r;
  const gconv_image *image;
  gconv_image *result;
  int32_t plane;  /* the frame's plane in r->samples */
  size_t row;     /* samples of a row of the image */
  bool clamps;    /* Richardson-Lucy, which takes counts of light: samples below 0 become 0 */
  float *floats;  /* owned: [threads][row] */
  uint8_t *marks; /* owned: [threads][row] */
} frame;

/* Copies the colours of a row to r->samples, as floats. Counts missing and negative samples. */
static void load_row(void *context, size_t y, int seat) {
  const frame *f = context;
  gconv_restored *r = f->r;
  const gconv_image *image = f->image;
  float *to = samples_of(r, f->plane), *floats = f->floats + (size_t)seat * f->row;
  uint8_t *marks = f->marks + (size_t)seat * f->row;
  uint64_t missing = 0, below = 0;
  for (int32_t c = 0; c < (image->planar ? r->channels : 1); c++) {
    size_t step;
    const void *from = place_of(image, r->frame + f->plane, y, c, &step);
    gconv_colour_to_float_row(image->type, from, floats, f->row);
    gconv_nodata_mark(image, from, f->row, marks);
    for (size_t i = 0; i < f->row; i++) {
      const size_t channel = image->planar ? (size_t)c : i % step;
      if (channel >= (size_t)r->channels)
        continue;
      const bool there = isfinite(floats[i]) && !marks[i], negative = there && floats[i] < 0;
      missing += !there;
      below += negative;
      to[(y * (size_t)image->width + i / step) * (size_t)r->channels + channel] = !there                  ? NAN
                                                                                  : negative && f->clamps ? 0
                                                                                                          : floats[i];
    }
  }
  __atomic_fetch_add(&r->done->missing, missing, __ATOMIC_RELAXED);
  __atomic_fetch_add(&r->done->negative, below, __ATOMIC_RELAXED);
}

/* Copies a row of r->samples to the result, and the alpha of the image. */
static void store_row(void *context, size_t y, int seat) {
  const frame *f = context;
  const gconv_restored *r = f->r;
  const gconv_image *image = f->image;
  const float *samples = samples_of(r, f->plane);
  for (int32_t c = 0; c < image->channels; c++) {
    size_t step, from_step;
    float *to = place_of(f->result, r->frame + f->plane, y, c, &step);
    const uint8_t *alpha = place_of(image, r->frame + f->plane, y, c, &from_step);
    for (size_t x = 0; x < (size_t)image->width; x++)
      if (c < r->channels)
        to[x * step] = samples[(y * (size_t)image->width + x) * (size_t)r->channels + (size_t)c];
      else
        gconv_colour_to_float_row(image->type, alpha + x * from_step * gconv_type_bytes(image->type), &to[x * step], 1);
  }
}

static gconv_status restore_frames(gconv_restored *r, frame *f) {
  gconv_threads *threads = gconv_device_threads(r->device);
  const size_t sizes[] = {(size_t)r->size[0], (size_t)r->size[1], (size_t)r->size[2], (size_t)r->channels, sizeof(float)};
  const size_t rows[] = {(size_t)gconv_threads_count(threads), f->row, sizeof(float)};
  GCONV_TRY(gconv_allocate(gconv_checked_product(5, sizes), "a frame", (void **)&r->samples));
  GCONV_TRY(gconv_allocate(gconv_checked_product(3, rows), "rows", (void **)&f->floats));
  GCONV_TRY(gconv_allocate(gconv_checked_product(2, rows), "rows", (void **)&f->marks));
  for (r->frame = 0; r->frame < f->image->frames; r->frame += r->size[0]) {
    for (f->plane = 0; f->plane < r->size[0]; f->plane++)
      gconv_threads_run(threads, (size_t)r->size[1], load_row, f);
    if (!r->stopped)
      GCONV_TRY(f->clamps ? gconv_restore_richardson_lucy(r) : gconv_restore_wiener(r));
    for (f->plane = 0; f->plane < r->size[0]; f->plane++)
      gconv_threads_run(threads, (size_t)r->size[1], store_row, f);
  }
  return GCONV_OK;
}

/* ---- The public function --------------------------------------------------------------------------------------------- */

static gconv_status check_options(const gconv_deconvolve_options *o) {
  GCONV_TRY(GCONV_CHECK_KNOWN(o, "options"));
  if ((unsigned)o->method > GCONV_WIENER)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->method: there is none of the number %d", (int)o->method);
  if (o->psf_planes < 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->psf_planes: %d is below 0", (int)o->psf_planes);
  if (o->iterations < 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->iterations: %d is below 0", (int)o->iterations);
  const double numbers[] = {o->total_variation, o->change, o->noise};
  static const char *const names[] = {"total_variation", "change", "noise"};
  for (size_t i = 0; i < 3; i++)
    if (!(numbers[i] >= 0 && numbers[i] < 1e6))
      return gconv_fail(GCONV_BAD_ARGUMENT, "options->%s is %g: it must be at least 0, and below 1e6", names[i], numbers[i]);
  if (o->noise > 0 && o->noise < FLT_MIN) /* 0 / 0 where the PSF passes nothing */
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->noise is %g: float32 has no such small numbers: take at least %g",
                      o->noise, (double)FLT_MIN);
  return GCONV_OK;
}

gconv_status gconv_deconvolve(gconv_device *device, const gconv_image *image, const gconv_filter *psf,
                              const gconv_deconvolve_options *options, gconv_image *result, gconv_deconvolved *told) {
  GCONV_NEED(device, image, psf, options, result);
  GCONV_TRY(check_options(options));
  GCONV_TRY(gconv_check_source(image, "image"));
  GCONV_TRY(gconv_check_pixels(image, "image"));
  gconv_psf taken = {0};
  gconv_deconvolved found = {.last = {.change = NAN, .flux = NAN, .deviance = NAN}};
  gconv_image made = gconv_header_with(image, GCONV_F32, image->channels, image->planar);
  made.alpha = image->alpha;
  gconv_restored r = {.device = device,
                      .psf = &taken,
                      .options = options,
                      .size = {options->psf_planes > 1 ? image->frames : 1, image->height, image->width},
                      .channels = image->channels - image->alpha,
                      .done = &found};
  frame f = {.r = &r,
             .image = image,
             .result = &made,
             .row = gconv_samples_of(image),
             .clamps = options->method == GCONV_RICHARDSON_LUCY};
  const int32_t planes = options->psf_planes > 1 ? options->psf_planes : 1;
  gconv_status status = take_psf(psf, planes, f.clamps, &taken, &found);
  GCONV_THEN(status, gconv_image_allocate(&made));
  GCONV_THEN(status, gconv_image_copy_metadata(&made, image));
  GCONV_THEN(status, restore_frames(&r, &f));
  gconv_release(taken.taps);
  gconv_release(taken.turned);
  gconv_release(r.samples);
  gconv_release(f.floats);
  gconv_release(f.marks);
  if (status != GCONV_OK) {
    gconv_image_free(&made);
    return status;
  }
  *result = made;
  if (told)
    *told = found;
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
/* Deconvolution: what callers see. Takes the PSF and the frames of an image apart, and puts the results together. */
#include "base/arguments.h"
#include "base/memory.h"
#include "base/nodata.h"
#include "image/colour.h"
#include "restore/restore.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The point spread function ------------------------------------------------------------------------------------- */

/* Sets the taps: divided by their sum; negative ones become 0 if `counts`. */
static gconv_status fill_psf(const gconv_filter *filter, bool counts, gconv_psf *psf, gconv_deconvolved *told) {
  const size_t count = (size_t)psf->rows * (size_t)psf->columns;
  double sum = 0, y = 0, x = 0, mass = 0;
  for (size_t i = 0; i < count; i++) {
    const bool negative = filter->taps[i] < 0;
    psf->taps[i] = negative && counts ? 0 : filter->taps[i];
    told->psf_negative += negative;
    sum += (double)psf->taps[i];
    mass += fabs((double)psf->taps[i]);
    y += fabs((double)psf->taps[i]) * (double)(i / (size_t)psf->columns);
    x += fabs((double)psf->taps[i]) * (double)(i % (size_t)psf->columns);
  }
  if (!(sum > 0 && isfinite(sum)))
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "the PSF %s has the sum %g: a point spread function is the picture of a point, and "
                      "its sum is above 0",
                      filter->name ? filter->name : "", sum);
  for (size_t i = 0; i < count; i++) {
    psf->taps[i] = (float)((double)psf->taps[i] / sum);
    psf->turned[count - 1 - i] = psf->taps[i];
  }
  told->psf_sum = sum / (double)filter->divisor;
  told->psf_row = psf->row = (int32_t)floor(y / mass + 0.5);
  told->psf_column = psf->column = (int32_t)floor(x / mass + 0.5);
  return GCONV_OK;
}

static gconv_status take_psf(const gconv_filter *filter, bool counts, gconv_psf *psf, gconv_deconvolved *told) {
  gconv_filter_analysis found;
  GCONV_TRY(gconv_filter_analyze(filter, &found));
  psf->rows = filter->rows;
  psf->columns = filter->columns;
  const size_t bytes = (size_t)psf->rows * (size_t)psf->columns * sizeof(float);
  GCONV_TRY(gconv_allocate(bytes, "the PSF", (void **)&psf->taps));
  GCONV_TRY(gconv_allocate(bytes, "the PSF", (void **)&psf->turned));
  return fill_psf(filter, counts, psf, told);
}

/* ---- Frames ---------------------------------------------------------------------------------------------------------- */

/* Where a sample of a frame lies in an image, planar or not. */
static size_t place_of(const gconv_image *image, int32_t frame, int32_t y, int32_t c, size_t *step) {
  const size_t plane = image->planar ? (size_t)frame * (size_t)image->channels + (size_t)c : (size_t)frame;
  *step = image->planar ? 1 : (size_t)image->channels;
  return plane * image->plane_bytes + (size_t)y * image->row_bytes +
         (image->planar ? 0 : (size_t)c * gconv_type_bytes(image->type));
}

/* Loads a frame's colours as floats. Counts missing and, if `counts`, negative samples. */
static gconv_status load_frame(const gconv_image *image, bool counts, gconv_restored *r) {
  const size_t row = (size_t)image->width * (image->planar ? 1 : (size_t)image->channels);
  GCONV_FREED float *floats = malloc(row * sizeof *floats);
  GCONV_FREED uint8_t *marks = malloc(row);
  GCONV_NEED_MEMORY(floats && marks, "no memory for a row");
  for (int32_t y = 0; y < image->height; y++)
    for (int32_t c = 0; c < (image->planar ? r->channels : 1); c++) {
      size_t step;
      const void *from = (const uint8_t *)image->data + place_of(image, r->frame, y, c, &step);
      gconv_colour_to_float_row(image->type, from, floats, row);
      gconv_nodata_mark(image, from, row, marks);
      for (size_t i = 0; i < row; i++) {
        const size_t channel = image->planar ? (size_t)c : i % step;
        if (channel >= (size_t)r->channels)
          continue;
        const bool there = isfinite(floats[i]) && !marks[i], negative = there && floats[i] < 0;
        r->told->missing += !there;
        r->told->negative += negative;
        r->samples[((size_t)y * (size_t)image->width + i / step) * (size_t)r->channels + channel] = !there ? NAN
                                                                                                    : negative && counts
                                                                                                        ? 0
                                                                                                        : floats[i];
      }
    }
  return GCONV_OK;
}

static void store_frame(const gconv_restored *r, const gconv_image *image, gconv_image *result) {
  for (int32_t y = 0; y < image->height; y++)
    for (int32_t c = 0; c < image->channels; c++) {
      size_t step, from_step;
      float *to = (float *)(void *)((uint8_t *)result->data + place_of(result, r->frame, y, c, &step));
      const uint8_t *alpha = (const uint8_t *)image->data + place_of(image, r->frame, y, c, &from_step);
      for (size_t x = 0; x < (size_t)image->width; x++)
        if (c < r->channels)
          to[x * step] = r->samples[((size_t)y * (size_t)image->width + x) * (size_t)r->channels + (size_t)c];
        else
          gconv_colour_to_float_row(image->type, alpha + x * from_step * gconv_type_bytes(image->type), &to[x * step], 1);
    }
}

static gconv_status restore_frames(gconv_restored *r, const gconv_image *image, gconv_image *result) {
  const bool counts = r->options->method == GCONV_RICHARDSON_LUCY;
  const size_t sizes[] = {(size_t)r->height, (size_t)r->width, (size_t)r->channels, sizeof(float)};
  GCONV_TRY(gconv_allocate(gconv_checked_product(4, sizes), "a frame", (void **)&r->samples));
  for (r->frame = 0; r->frame < image->frames; r->frame++) {
    GCONV_TRY(load_frame(image, counts, r));
    if (!r->stopped)
      GCONV_TRY(counts ? gconv_restore_richardson_lucy(r) : gconv_restore_wiener(r));
    store_frame(r, image, result);
  }
  return GCONV_OK;
}

/* ---- The whole ------------------------------------------------------------------------------------------------------- */

static gconv_status check_options(const gconv_deconvolve_options *o) {
  if ((unsigned)o->method > GCONV_WIENER)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->method: there is none of the number %d", (int)o->method);
  if (o->iterations < 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->iterations: %d is below 0", (int)o->iterations);
  const double numbers[] = {o->total_variation, o->change, o->noise};
  static const char *const names[] = {"total_variation", "change", "noise"};
  for (size_t i = 0; i < 3; i++)
    if (!(numbers[i] >= 0 && numbers[i] < 1e6))
      return gconv_fail(GCONV_BAD_ARGUMENT, "options->%s: %g is no number from 0 on", names[i], numbers[i]);
  return GCONV_OK;
}

gconv_status gconv_deconvolve(gconv_device *device, const gconv_image *image, const gconv_filter *psf,
                              const gconv_deconvolve_options *options, gconv_image *result, gconv_deconvolved *told) {
  GCONV_NEED(device, image, psf, options, result);
  GCONV_TRY(check_options(options));
  GCONV_TRY(gconv_check_source(image, "image"));
  GCONV_TRY(gconv_check_pixels(image, "image"));
  if (strcmp(gconv_device_get_info(device)->name, "cpu") != 0)
    return gconv_fail(GCONV_UNSUPPORTED, "deconvolution runs on the CPU alone: take the device cpu");
  gconv_psf taken = {0};
  gconv_deconvolved found = {.last = {.change = NAN, .flux = NAN, .deviance = NAN}};
  gconv_image made = {.type = GCONV_F32,
                      .frames = image->frames,
                      .height = image->height,
                      .width = image->width,
                      .channels = image->channels,
                      .planar = image->planar,
                      .alpha = image->alpha};
  gconv_restored r = {.device = device,
                      .psf = &taken,
                      .options = options,
                      .height = image->height,
                      .width = image->width,
                      .channels = image->channels - (image->alpha && image->channels > 1),
                      .told = &found};
  gconv_status status = take_psf(psf, options->method == GCONV_RICHARDSON_LUCY, &taken, &found);
  GCONV_THEN(status, gconv_image_allocate(&made));
  GCONV_THEN(status, gconv_image_copy_metadata(&made, image));
  GCONV_THEN(status, restore_frames(&r, image, &made));
  gconv_release(taken.taps);
  gconv_release(taken.turned);
  gconv_release(r.samples);
  if (status != GCONV_OK) {
    gconv_image_free(&made);
    return status;
  }
  *result = made;
  if (told)
    *told = found;
  return GCONV_OK;
}

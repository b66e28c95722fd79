/* SPDX-License-Identifier: MIT */
/*
 * Volumes with samples that are missing, and weights w: normalised convolution (conv/weighted.h) in three dimensions. Two
 * volumes are filtered, w * x and w. The steps before and after are those of images, whose frames are planes here.
 */
#include "volume/holes.h"
#include "base/arguments.h"
#include "base/memory.h"
#include "base/nodata.h"
#include "conv/weighted.h"
#include "image/layout.h"
#include "kernels/border.h"

#include <math.h>
#include <stdlib.h>

struct gconv_volume_holes {
  gconv_weighted_plan plan; /* first member; its frames are the planes of a slab */
  bool plain;               /* no sample is missing, and none has a weight: `values` does all */
  gconv_image output;       /* header of the result */
  gconv_options options;
  const gconv_volume_kernel *kernel;
  gconv_volume *values, *shares; /* shares: NULL if no response is divided */
  gconv_image weights;           /* owned: a plane for all, or one for each; without pixels if there are none */
  int32_t stride_z, frames;
  int32_t begin, first; /* in an execution: the first plane of the input's window, and of the result's slab */
  gconv_weighted_filter filter;
  gconv_pass pass; /* where planes are sampled */
};

/* ---- A response in float64 ------------------------------------------------------------------------------------------- */

/* Adds the product of a plane of taps and plane `at` of the samples. GCONV_OUTSIDE: that plane is outside of the volume. */
static void add_plane(const gconv_volume_holes *h, const gconv_weighted_images *images, const gconv_volume_term *term,
                      int64_t at, double factor, const gconv_weighted_place *place, double sums[3]) {
  const gconv_filter *taps = &term->plane;
  const gconv_image *value = &images->value, *share = &images->share;
  const gconv_border border = h->options.border == GCONV_BORDER_NORMALIZE ? GCONV_BORDER_ZERO : h->options.border;
  const double share_outside = h->options.border == GCONV_BORDER_NORMALIZE ? 0 : 1;
  const size_t step = (size_t)value->channels;
  for (int32_t r = 0; r < taps->rows; r++)
    for (int32_t s = 0; s < taps->columns; s++) {
      const int64_t y = gconv_border_index(border, place->y * h->options.stride_y + r - taps->anchor_row, value->height);
      const int64_t x = gconv_border_index(border, place->x * h->options.stride_x + s - taps->anchor_column, value->width);
      const double tap = factor * (double)taps->taps[(int64_t)r * taps->columns + s] / (double)taps->divisor;
      const bool inside = at != GCONV_OUTSIDE && y != GCONV_OUTSIDE && x != GCONV_OUTSIDE;
      const size_t i = inside ? (size_t)(at - h->begin) * (value->plane_bytes / sizeof(float)) +
                                    ((size_t)y * (size_t)value->width + (size_t)x) * step + place->channel
                              : 0;
      const double product = tap * (double)(inside ? ((const float *)value->data)[i] : h->filter.outside);
      sums[0] += product;
      sums[1] += tap * (inside ? (double)((const float *)share->data)[i] : share_outside);
      sums[2] += fabs(product);
    }
}

static double respond(const gconv_weighted_plan *plan, const gconv_weighted_images *images,
                      const gconv_weighted_filter *filter, const gconv_weighted_place *place, double *error) {
  const gconv_volume_holes *h = (const gconv_volume_holes *)plan;
  const gconv_volume_taps *taps = &h->kernel->of[0];
  const gconv_border border = h->options.border == GCONV_BORDER_NORMALIZE ? GCONV_BORDER_ZERO : h->options.border;
  double sums[3] = {0};
  for (size_t j = 0; j < taps->count; j++)
    for (int32_t k = 0; k < taps->terms[j].count; k++)
      if (taps->terms[j].line[k] != 0) {
        const int64_t z = ((int64_t)h->first + (int64_t)place->plane) * h->stride_z + k - taps->terms[j].anchor;
        add_plane(h, images, &taps->terms[j], gconv_border_index(border, z, h->frames), (double)taps->terms[j].line[k],
                  place, sums);
      }
  return gconv_weighted_quotient(plan, images, filter, sums, error);
}

/* ---- Making ---------------------------------------------------------------------------------------------------------- */

/* Finds the sum of the taps, and of their magnitudes. */
static void sum_taps(const gconv_volume_taps *taps, double *sum, double *size) {
  *sum = *size = 0;
  for (size_t j = 0; j < taps->count; j++) {
    const gconv_filter *plane = &taps->terms[j].plane;
    double of_plane[2] = {0}, of_line[2] = {0};
    for (size_t i = 0; i < (size_t)plane->rows * (size_t)plane->columns; i++) {
      of_plane[0] += (double)plane->taps[i] / (double)plane->divisor;
      of_plane[1] += fabs((double)plane->taps[i] / (double)plane->divisor);
    }
    for (int32_t k = 0; k < taps->terms[j].count; k++) {
      of_line[0] += (double)taps->terms[j].line[k];
      of_line[1] += fabs((double)taps->terms[j].line[k]);
    }
    *sum += of_plane[0] * of_line[0];
    *size += of_plane[1] * of_line[1];
  }
}

static gconv_status take_weights(gconv_volume_holes *h, const gconv_image *weights, const gconv_image *like) {
  gconv_image tall = *weights;
  GCONV_TRY(gconv_check_source(weights, "the weights"));
  GCONV_TRY(gconv_check_pixels(weights, "the weights"));
  if (weights->width != like->width || weights->height != like->height ||
      (weights->frames != 1 && weights->frames != like->frames))
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "the weights are %d planes of %d x %d pixels, and the volume %d of %d x %d: they are a plane for "
                      "all, or one for each",
                      weights->frames, weights->width, weights->height, like->frames, like->width, like->height);
  if (weights->frames > 1 && (weights->plane_bytes != weights->row_bytes * (size_t)weights->height ||
                              weights->frames > INT32_MAX / weights->height))
    return gconv_fail(GCONV_UNSUPPORTED, "the weights have gaps between their planes, or more than 2^31 rows");
  tall.height = weights->height * weights->frames; /* as one image, so that all planes are scaled by one largest weight */
  tall.frames = 1;
  GCONV_TRY(gconv_weighted_make_weights(&tall, &h->weights));
  h->weights.height = weights->height;
  h->weights.frames = weights->frames;
  h->weights.plane_bytes = h->weights.row_bytes * (size_t)weights->height;
  h->plan.weights = &h->weights;
  return GCONV_OK;
}

static gconv_status make(gconv_volume_holes *h, gconv_device *device, const gconv_image *like, const char *spec,
                         const gconv_volume_options *options) {
  gconv_volume_options inner = *options;
  gconv_weighted_plan *plan = &h->plan;
  gconv_image middle = gconv_header_of(like);
  double sum, size;
  middle.type = GCONV_F32;
  middle.has_nodata = false;
  h->options = options->plain;
  gconv_weighted_split_options(like->type, false, &inner.plain);
  h->filter.outside = (float)inner.plain.border_value;
  GCONV_TRY(gconv_volume_create(device, &middle, spec, &inner, &h->values));
  h->kernel = gconv_volume_kernel_of(h->values);
  inner.plain = options->plain;
  gconv_weighted_split_options(like->type, true, &inner.plain);
  plan->source = gconv_header_of(like);
  if (h->options.sets_nodata) {
    plan->source.has_nodata = true;
    plan->source.nodata = h->options.nodata;
  }
  plan->divides = gconv_weighted_divides(&h->options) || (plan->source.has_nodata && h->options.nan != GCONV_NAN_ZERO);
  if (h->kernel->count > 1)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: a magnitude of several filters is not made of volumes with missing samples: "
                      "fill the holes first",
                      spec);
  sum_taps(&h->kernel->of[0], &sum, &size);
  if (plan->divides) {
    GCONV_TRY(gconv_weighted_check_sum(spec, sum, size));
    GCONV_TRY(gconv_volume_create(device, &middle, spec, &inner, &h->shares));
  }
  if (h->options.weights)
    GCONV_TRY(take_weights(h, h->options.weights, like));
  h->pass.problem = (gconv_problem){
      .height = like->height, .width = like->width, .stride_y = h->options.stride_y, .stride_x = h->options.stride_x};
  h->filter.pass = &h->pass;
  h->filter.sum = sum;
  h->filter.size = size;
  plan->options = &h->options;
  plan->middle = middle;
  plan->filters = 1;
  plan->of = &h->filter;
  plan->respond = respond;
  plan->preserves = h->options.preserves || h->options.nan == GCONV_NAN_SKIP ||
                    (plan->source.has_nodata && h->options.nan == GCONV_NAN_KEEP);
  plan->exact = gconv_volume_is_exact(h->values);
  plan->base.device = device;
  plan->base.output_count = 1;
  return GCONV_OK;
}

/* Finds the header of the result: that of the sums, with the type and the number for no data that the options ask for. */
static gconv_status find_output(gconv_volume_holes *h) {
  bool kept = true;
  h->output = *gconv_volume_output(h->values);
  h->output.type = gconv_filter_output_type(&h->options, h->plan.source.type);
  h->output.has_nodata = h->plan.source.has_nodata;
  h->output.nodata = h->output.has_nodata ? gconv_nodata_as(&h->plan.source, h->output.type, &kept) : 0;
  return h->output.type <= GCONV_F32 ? GCONV_OK : gconv_fail(GCONV_UNSUPPORTED, "results of volumes are u8, u16 or f32");
}

gconv_status gconv_volume_holes_create(gconv_device *device, const gconv_image *like, const char *spec,
                                       const gconv_volume_options *options, gconv_volume_holes **holes) {
  gconv_volume_holes *h;
  gconv_volume_options filled = *options;
  filled.plain = gconv_options_filled(&options->plain);
  GCONV_TRY(gconv_options_check(&filled.plain));
  GCONV_NEW(h, 1, "no memory for a volume");
  h->plain = !gconv_wants_weights(&filled.plain) && !like->has_nodata;
  h->stride_z = options->stride_z + (options->stride_z == 0);
  h->frames = like->frames;
  gconv_status status = GCONV_OK;
  if (h->plain)
    status = gconv_volume_create(device, like, spec, &filled, &h->values);
  else if (options->there)
    status = gconv_fail(GCONV_UNSUPPORTED, "missing samples and weights are made on the host: give a volume in its memory");
  else
    status = make(h, device, like, spec, &filled);
  if (status == GCONV_OK && !h->plain)
    status = find_output(h);
  if (status == GCONV_OK)
    *holes = h;
  else
    gconv_volume_holes_free(h);
  return status;
}

void gconv_volume_holes_free(gconv_volume_holes *h) {
  if (!h)
    return;
  gconv_volume_free(h->values);
  gconv_volume_free(h->shares);
  gconv_image_free(&h->weights);
  free(h);
}

const gconv_image *gconv_volume_holes_output(const gconv_volume_holes *h) {
  return h->plain ? gconv_volume_output(h->values) : &h->output;
}

int32_t gconv_volume_holes_step(const gconv_volume_holes *h, double *bytes) {
  const int32_t step = gconv_volume_step(h->values, bytes);
  if (bytes && !h->plain) { /* two volumes, and their products, weights and sums */
    const double plane = gconv_pixel_bytes(&h->plan.middle) / h->frames;
    *bytes = 2 * (*bytes + plane * (2.0 * step * h->stride_z + h->kernel->of[0].terms[0].count));
  }
  return step;
}

void gconv_volume_holes_needed(const gconv_volume_holes *h, int32_t first, int32_t count, int32_t *begin, int32_t *end) {
  gconv_volume_planes_needed(h->values, first, count, begin, end);
  const int32_t from = first * h->stride_z, to = (first + count - 1) * h->stride_z + 1; /* planes under the anchor */
  *begin = from < *begin ? from : *begin;
  *end = to > *end ? to : *end;
}

/* ---- Execution ------------------------------------------------------------------------------------------------------- */

/* Convolves planes of w * x, or of w. Allocates *sums, with as many planes as `out` has. */
static gconv_status convolve(gconv_volume *volume, const gconv_image *in, int32_t begin, int32_t first,
                             const gconv_image *out, gconv_image *sums) {
  *sums = *gconv_volume_output(volume);
  sums->frames = out->frames;
  GCONV_TRY(gconv_image_allocate(sums));
  return gconv_volume_execute(volume, in, begin, first, sums);
}

static gconv_status execute_slab(gconv_volume_holes *h, const gconv_image *in, int32_t in_plane, int32_t first,
                                 const gconv_image *out) {
  gconv_image sums[2] = {{0}, {0}}, under = *in;
  gconv_weighted_images images = {.in = in, .in_plane = in_plane, .sums = {&sums[0], &sums[1]}};
  h->begin = in_plane;
  h->first = first;
  gconv_status status = gconv_weighted_prepare(&h->plan, &images);
  images.divides = h->plan.divides; /* also for slabs without holes: bits must not depend on where slabs end */
  GCONV_THEN(status, convolve(h->values, &images.value, in_plane, first, out, &sums[0]));
  if (images.divides)
    GCONV_THEN(status, convolve(h->shares, &images.share, in_plane, first, out, &sums[1]));
  under.data = (uint8_t *)in->data + (size_t)(first * h->stride_z - in_plane) * in->plane_bytes;
  under.plane_bytes *= (size_t)h->stride_z;
  under.frames = out->frames;
  images.in = &under; /* the planes under the anchor */
  GCONV_THEN(status, gconv_weighted_finish(&h->plan, &images, out));
  gconv_image_free(&images.value);
  gconv_image_free(&images.share);
  gconv_image_free(&sums[0]);
  gconv_image_free(&sums[1]);
  return status;
}

gconv_status gconv_volume_holes_execute(gconv_volume_holes *h, const gconv_image *in, int32_t in_plane, int32_t first,
                                        gconv_image *out) {
  const int32_t step = gconv_volume_step(h->values, NULL);
  if (h->plain)
    return gconv_volume_execute(h->values, in, in_plane, first, out);
  for (int32_t at = 0; at < out->frames; at += step) {
    const gconv_image slab = gconv_frames_of(out, at, out->frames - at < step ? out->frames - at : step);
    GCONV_TRY(execute_slab(h, in, in_plane, first + at, &slab));
  }
  return GCONV_OK;
}

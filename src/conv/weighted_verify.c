/* SPDX-License-Identifier: MIT */
/* Verifies results of weighted filters: each is computed again in float64. */
#include "base/memory.h"
#include "conv/weighted.h"
#include "operation/verify.h"

#include <math.h>

typedef struct expecting {
  const gconv_weighted_plan *plan;
  const gconv_weighted_images *images;
  size_t output;
  double largest; /* if the algorithms are not exact: sum |tap| of all filters, times the largest sample; else 0 */
  gconv_epilogue epilogue, alpha;
} expecting;

/* Finds where a sample of a result comes from. If filters are not combined, returns the number of the sample's filter. */
static size_t find_place(const expecting *e, const gconv_sample_place *at, gconv_weighted_place *place) {
  const gconv_image *middle = &e->plan->middle;
  const size_t channel = (size_t)at->channel % (size_t)middle->channels;
  *place = (gconv_weighted_place){.plane = (size_t)at->frame, .channel = channel, .y = at->y, .x = at->x};
  if (middle->planar) {
    place->plane = (size_t)at->frame * (size_t)middle->channels + channel;
    place->channel = 0;
  }
  return e->plan->options->combine == GCONV_COMBINE_NONE ? e->output : (size_t)(at->channel / middle->channels);
}

/* Returns the combined response. *error becomes the sum of the filters' products (gconv_weighted_response()). */
static double combine(const expecting *e, const gconv_weighted_place *place, double *error) {
  const gconv_combine how = e->plan->options->combine;
  double combined = 0, size = 0;
  *error = 0;
  for (size_t k = 0; k < e->plan->filters; k++) {
    const gconv_weighted_filter *filter = &e->plan->of[k];
    const double v = gconv_weighted_response(e->plan, e->images, filter, place, &size) + (double)filter->bias;
    *error += size;
    combined = how == GCONV_COMBINE_MAGNITUDE ? combined + v * v
               : how == GCONV_COMBINE_SUM     ? combined + v
               : isnan(v) || isnan(combined)  ? (double)NAN
                                              : (k == 0 ? v : fmax(combined, v));
  }
  return how == GCONV_COMBINE_MAGNITUDE ? sqrt(combined) : combined;
}

static gconv_expectation expect(const void *context, const gconv_sample_place *at, double got) {
  const expecting *e = context;
  const gconv_weighted_plan *plan = e->plan;
  const gconv_image *out = &plan->base.outputs[e->output];
  const bool is_alpha = out->alpha && at->channel + 1 == out->channels;
  const gconv_epilogue *epilogue = is_alpha ? &e->alpha : &e->epilogue;
  const gconv_combine how = plan->options->combine;
  gconv_weighted_place place;
  double size = 0, v;
  const size_t k = find_place(e, at, &place);
  if (is_alpha && plan->keeps_alpha)
    return (gconv_expectation){got, INFINITY};
  if (how != GCONV_COMBINE_NONE && how != GCONV_COMBINE_STACK)
    v = combine(e, &place, &size);
  else
    v = gconv_weighted_response(plan, e->images, &plan->of[k], &place, &size) + (double)plan->of[k].bias;
  if (gconv_weighted_puts_back(plan, e->images, &plan->of[how == GCONV_COMBINE_NONE ? k : 0], &place))
    v = (double)NAN;
  if (isnan(v))
    return (gconv_expectation){out->has_nodata ? out->nodata : out->type == GCONV_F32 ? (double)NAN : 0, 0};
  size = fmax(size, e->largest); /* fft spreads errors of large samples to sums of small products */
  double y = v * ((double)epilogue->scale + (double)epilogue->scale_low) + (double)epilogue->offset;
  y = epilogue->absolute ? fabs(y) : y;
  y = epilogue->center ? y / 2 + (double)epilogue->middle : y;
  if (out->type != GCONV_F32)
    y = fmin(fmax(y, 0), (double)gconv_white(out->type));
  /* Divisions magnify errors by at most 4 = 1 / FEW (weighted_sums.c). */
  const double bound = (plan->base.info.error_bound * 4 + 0x1p-21) * size * fabs((double)epilogue->scale);
  return (gconv_expectation){y, bound + (out->type == GCONV_F32 ? fabs(y) * 0x1p-22 : 0.5)};
}

static double find_largest(const gconv_weighted_plan *plan, const gconv_image *value) {
  const size_t samples =
      (size_t)value->frames * (value->plane_bytes / sizeof(float)) * (value->planar ? (size_t)value->channels : 1);
  double largest = 0, sizes = 0;
  for (size_t i = 0; i < samples; i++) { /* gcc 12 for arm64 fails at fmax() of floats in a loop */
    const double size = fabs((double)((const float *)value->data)[i]);
    largest = size > largest ? size : largest;
  }
  for (size_t k = 0; k < plan->filters; k++) {
    largest = fmax(largest, fabs((double)plan->of[k].outside));
    sizes += plan->of[k].size;
  }
  return sizes * largest;
}

static gconv_status compare(expecting *e, const gconv_image *outputs, double tolerance, double budget,
                            gconv_verification *result) {
  const gconv_weighted_plan *plan = e->plan;
  for (size_t o = 0; o < plan->base.output_count; o++) {
    gconv_options alpha = *plan->options;
    alpha.range = GCONV_RANGE_CLAMP;
    e->output = o;
    e->epilogue = gconv_make_epilogue(plan->options, plan->source.type, outputs[o].type);
    e->alpha = gconv_make_epilogue(&alpha, plan->source.type, outputs[o].type);
    gconv_comparison comparison = {.threads = plan->base.device->threads,
                                   .out = &outputs[o],
                                   .output = o,
                                   .tolerance = tolerance,
                                   .step = gconv_compare_step(budget, plan->base.info.flop, outputs[o].height),
                                   .expect = expect,
                                   .context = e,
                                   .scope = plan->base.scope};
    GCONV_TRY(gconv_compare_frames(&comparison, result));
  }
  return GCONV_OK;
}

gconv_status gconv_weighted_verify(gconv_plan *base, const gconv_image *in, const gconv_image *outputs, double tolerance,
                                   double budget, gconv_verification *result) {
  const gconv_weighted_plan *plan = (const gconv_weighted_plan *)base;
  gconv_weighted_images images = {.in = in};
  gconv_status status = gconv_weighted_prepare(plan, &images);
  expecting e = {.plan = plan, .images = &images};
  if (status == GCONV_OK && !plan->exact)
    e.largest = find_largest(plan, &images.value);
  GCONV_THEN(status, compare(&e, outputs, tolerance, budget, result));
  gconv_image_free(&images.value);
  gconv_image_free(&images.share);
  return status;
}

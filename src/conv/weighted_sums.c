/* SPDX-License-Identifier: MIT */
/* The work of weighted filters on the host, before and after their two convolutions. */
#include "base/cpu.h"
#include "base/element.h"
#include "base/memory.h"
#include "base/nodata.h"
#include "base/threads.h"
#include "conv/weighted.h"
#include "kernels/border.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* If |sum(t * w)| is below this part of sum |t|, the sums of algorithms that are not exact are computed again. */
static const double FEW = 1.0 / 4;

GCONV_INLINE float level(gconv_type type, const void *row, size_t i) {
  return type == GCONV_U8    ? (float)((const uint8_t *)row)[i]
         : type == GCONV_U16 ? (float)((const uint16_t *)row)[i]
                             : ((const float *)row)[i];
}

/* Returns whether a sample is missing: it is the number for no data, or, with finite_only, it is not finite. */
GCONV_INLINE bool is_missing(const gconv_image *source, bool finite_only, float x) {
  float none = (float)source->nodata;
  return (source->has_nodata && (x == none || (none != none && x != x))) || (finite_only && !(fabsf(x) <= 3.402823466e38F));
}

/* ---- Before ---------------------------------------------------------------------------------------------------------- */

typedef struct preparing {
  const gconv_weighted_plan *plan;
  gconv_weighted_images *images;
  int missing, weighted; /* whether a sample is missing, and whether a weight is not 1; changed atomically */
} preparing;

/* A row of `count` pixels. A pixel has `channels` samples; the first `made` of them are convolved. */
typedef struct source_row {
  const gconv_image *source;
  const void *in;
  const float *weights; /* NULL: all are 1 */
  float *value, *share;
  size_t count, channels, made;
  bool finite_only, as_zero;
} source_row;

GCONV_INLINE uint32_t make_typed(gconv_type type, const source_row *r) {
  uint32_t any = 0;
  for (size_t i = 0; i < r->count; i++) {
    const float w = r->weights ? r->weights[i] : 1;
    for (size_t c = 0; c < r->made; c++) {
      const float x = level(type, r->in, i * r->channels + c);
      const bool gone = is_missing(r->source, r->finite_only, x);
      const float weight = gone && !r->as_zero ? 0 : w;
      r->share[i * r->made + c] = weight;
      r->value[i * r->made + c] = gone || weight == 0 ? 0 : weight * x;
      any |= (uint32_t)gone | (uint32_t)(weight != 1) << 1;
    }
  }
  return any;
}

GCONV_INLINE uint32_t make_sized(gconv_type type, source_row *r) {
  if (r->channels == 1) { /* with this constant, compilers make vector code */
    r->channels = r->made = 1;
    return make_typed(type, r);
  }
  return make_typed(type, r);
}

GCONV_VECTOR_LOOP(make_row, (gconv_type type, source_row *r, uint32_t *any), (type, r, any)) {
  *any = type == GCONV_U8    ? make_sized(GCONV_U8, r)
         : type == GCONV_U16 ? make_sized(GCONV_U16, r)
                             : make_sized(GCONV_F32, r);
}

static void prepare_row(void *context, size_t turn, int seat) {
  preparing *p = context;
  const gconv_weighted_plan *plan = p->plan;
  gconv_weighted_images *images = p->images;
  const gconv_image *source = &plan->source;
  size_t height = (size_t)images->in->height, plane = turn / height, y = turn % height;
  size_t channels = source->planar ? 1 : (size_t)source->channels;
  const gconv_image *weights = plan->weights;
  const size_t weights_plane = weights && weights->frames > 1 ? (size_t)images->in_plane + plane : 0;
  source_row row = {.source = source,
                    .in = gconv_row_at(images->in, plane, y),
                    .weights = weights ? gconv_row_at(weights, weights_plane, (size_t)images->in_row + y) : NULL,
                    .value = gconv_row_at(&images->value, plane, y),
                    .share = gconv_row_at(&images->share, plane, y),
                    .count = (size_t)source->width,
                    .channels = channels,
                    .made = plan->middle.planar ? 1 : (size_t)plan->middle.channels,
                    .finite_only = source->type == GCONV_F32 && plan->options->nan != GCONV_NAN_KEEP,
                    .as_zero = plan->options->nan == GCONV_NAN_ZERO};
  uint32_t any = 0;
  make_row(source->type, &row, &any);
  if (any & 1)
    __atomic_store_n(&p->missing, 1, __ATOMIC_RELAXED);
  if (any & 2)
    __atomic_store_n(&p->weighted, 1, __ATOMIC_RELAXED);
}

gconv_status gconv_weighted_prepare(const gconv_weighted_plan *plan, gconv_weighted_images *images) {
  preparing p = {.plan = plan, .images = images};
  gconv_image *const made[] = {&images->value, &images->share};
  for (size_t i = 0; i < 2; i++) {
    *made[i] = plan->middle;
    made[i]->height = images->in->height;
    GCONV_TRY(gconv_image_allocate(made[i]));
  }
  gconv_threads_run(plan->base.device->threads, gconv_planes_of(images->in) * (size_t)images->in->height, prepare_row, &p);
  images->any_missing = p.missing;
  images->divides = plan->divides && (p.weighted || plan->options->border == GCONV_BORDER_NORMALIZE);
  return GCONV_OK;
}

/* ---- A response in float64 ------------------------------------------------------------------------------------------- */

double gconv_weighted_quotient(const gconv_weighted_plan *plan, const gconv_weighted_images *images,
                               const gconv_weighted_filter *filter, const double sums[3], double *error) {
  const double share = sums[1];
  if (error)
    *error = sums[2];
  if (!images->divides)
    return sums[0];
  if (fabs(share) < plan->options->least_weight * filter->size || share == 0)
    return (double)NAN;
  if (error)
    *error *= fabs(filter->sum / share);
  return filter->sum * sums[0] / share;
}

double gconv_weighted_response(const gconv_weighted_plan *plan, const gconv_weighted_images *images,
                               const gconv_weighted_filter *filter, const gconv_weighted_place *at, double *error) {
  const gconv_problem *problem = &filter->pass->problem;
  const size_t step = plan->middle.planar ? 1 : (size_t)plan->middle.channels;
  const float *taps = filter->pass->weights + (int64_t)filter->index * problem->rows * problem->columns;
  const double divisor = (double)gconv_divisors(problem, filter->pass->weights)[filter->index];
  const double outside = plan->options->border == GCONV_BORDER_NORMALIZE ? 0 : 1;
  double sums[3] = {0}; /* of products, of weights, of the products' sizes */
  for (int64_t r = 0; r < problem->rows; r++) {
    int64_t y = gconv_border_index(problem->border, at->y * problem->stride_y - problem->pad_top + r * problem->dilation_y,
                                   problem->height);
    const float *values = y == GCONV_OUTSIDE ? NULL : gconv_row_at(&images->value, at->plane, (size_t)(y - images->in_row));
    const float *shares = y == GCONV_OUTSIDE ? NULL : gconv_row_at(&images->share, at->plane, (size_t)(y - images->in_row));
    for (int64_t s = 0; s < problem->columns; s++) {
      int64_t x = gconv_border_index(
          problem->border, at->x * problem->stride_x - problem->pad_left + s * problem->dilation_x, problem->width);
      const bool is_inside = values && x != GCONV_OUTSIDE;
      const size_t i = is_inside ? (size_t)x * step + at->channel : 0;
      const double tap = (double)taps[r * problem->columns + s] / divisor;
      const double product = tap * (is_inside ? (double)values[i] : (double)filter->outside);
      if (gconv_is_mark(taps[r * problem->columns + s]))
        continue;
      sums[0] += product;
      sums[1] += tap * (is_inside ? (double)shares[i] : outside);
      sums[2] += fabs(product);
    }
  }
  return gconv_weighted_quotient(plan, images, filter, sums, error);
}

/* ---- After ----------------------------------------------------------------------------------------------------------- */

/* One output, some rows of it. */
typedef struct finishing {
  const gconv_weighted_plan *plan;
  const gconv_weighted_images *images;
  const gconv_image *out;
  size_t first_filter, filters; /* the filters that make it */
  gconv_epilogue colour, alpha;
  float *rows;    /* two rows of responses for each thread */
  size_t samples; /* of such a row */
  /* Counts of missing results, changed atomically. */
  uint64_t lost;  /* integers that became 0, because they have no number for missing */
  uint64_t empty; /* too few samples lie under the taps */
} finishing;

/* Divides a row of sums by the sums of weights. A result is NaN if the sum of weights is below `least`. */
GCONV_VECTOR_LOOP(divide_row, (const float *value, const float *share, double sum, float least, size_t count, float *out),
                  (value, share, sum, least, count, out)) {
  for (size_t i = 0; i < count; i++) {
    const double quotient = sum * (double)value[i] / (double)share[i];
    out[i] = fabsf(share[i]) < least || share[i] == 0 ? NAN : (float)quotient;
  }
}

/* Computes responses again where the sum of weights is small, so that the quotient may be inaccurate. */
static void mend_row(const finishing *f, const gconv_weighted_filter *filter, size_t plane, size_t y, const float *share,
                     float *out) {
  const size_t step = f->plan->middle.planar ? 1 : (size_t)f->plan->middle.channels;
  const double few = FEW * filter->size, none = f->plan->options->least_weight * filter->size / 2;
  gconv_weighted_place at = {.plane = plane, .y = f->images->first + (int64_t)y};
  for (size_t i = 0; i < f->samples; i++) {
    const double weight = fabs((double)share[i]);
    if (weight >= few || weight < none)
      continue;
    at.x = (int64_t)(i / step);
    at.channel = i % step;
    out[i] = (float)f->plan->respond(f->plan, f->images, filter, &at, NULL);
  }
}

/* Makes the responses of filter k in row y. */
static void respond(const finishing *f, size_t k, size_t plane, size_t y, float *out) {
  const gconv_weighted_filter *filter = &f->plan->of[k];
  const gconv_weighted_images *images = f->images;
  const float *value = gconv_row_at(&images->sums[0][k], plane, y);
  if (!images->divides) {
    memcpy(out, value, f->samples * sizeof *out);
  } else {
    const float *share = gconv_row_at(&images->sums[1][k], plane, y);
    divide_row(value, share, filter->sum, (float)(f->plan->options->least_weight * filter->size), f->samples, out);
    if (!f->plan->exact)
      mend_row(f, filter, plane, y, share, out);
  }
  for (size_t i = 0; i < f->samples && filter->bias != 0; i++)
    out[i] += filter->bias;
}

/* Where channel c of a result lies in the output: a row, the first sample, and the distance to the next. */
typedef struct target {
  void *row;
  size_t first, step;
} target;

static target find_target(const gconv_image *out, size_t frame, size_t channel, size_t y) {
  const size_t channels = (size_t)out->channels;
  return out->planar ? (target){gconv_row_at(out, frame * channels + channel, y), 0, 1}
                     : (target){gconv_row_at(out, frame, y), channel, channels};
}

/* Marks a result as missing. Returns whether the type has no number for that. */
static bool store_missing(const gconv_image *out, void *row, size_t i) {
  if (out->has_nodata)
    gconv_nodata_store(out, row, i);
  else
    gconv_store_sample(out->type, NAN, row, i);
  return !out->has_nodata && out->type != GCONV_F32;
}

bool gconv_weighted_puts_back(const gconv_weighted_plan *plan, const gconv_weighted_images *images,
                              const gconv_weighted_filter *filter, const gconv_weighted_place *at) {
  const gconv_problem *problem = &filter->pass->problem;
  const gconv_image *source = &plan->source;
  const int64_t y = at->y * problem->stride_y - problem->pad_top + problem->anchor_y;
  const int64_t x = at->x * problem->stride_x - problem->pad_left + problem->anchor_x;
  if (!plan->preserves || !images->any_missing || y < 0 || y >= problem->height || x < 0 || x >= problem->width)
    return false;
  const void *row = gconv_row_at(images->in, at->plane, (size_t)(y - images->in_row));
  const size_t i = source->planar ? (size_t)x : (size_t)x * (size_t)source->channels + at->channel;
  return is_missing(source, source->type == GCONV_F32 && plan->options->nan != GCONV_NAN_KEEP, level(source->type, row, i));
}

/* Stores channel c of a row of responses, and marks missing results. Returns how many of these became 0. */
static uint64_t store_channel(finishing *f, const gconv_weighted_place *row, size_t c, size_t first_channel,
                              const float *responses) {
  const size_t step = f->plan->middle.planar ? 1 : (size_t)f->plan->middle.channels;
  const size_t planes = f->plan->middle.planar ? (size_t)f->plan->middle.channels : 1;
  const size_t channel = first_channel + c + row->plane % planes, y = (size_t)row->y;
  const target to = find_target(f->out, row->plane / planes, channel, y);
  const bool is_alpha = f->out->alpha && channel + 1 == (size_t)f->out->channels;
  const gconv_epilogue *epilogue = is_alpha ? &f->alpha : &f->colour;
  const bool scans = f->plan->preserves && f->images->any_missing, from_floats = f->plan->source.type == GCONV_F32;
  gconv_weighted_place at = {row->plane, c, f->images->first + row->y, 0};
  uint64_t lost = 0, empty = 0;
  for (size_t x = 0; x < (size_t)f->out->width; x++) {
    const float v = responses[x * step + c];
    const size_t i = to.first + x * to.step;
    at.x = (int64_t)x;
    gconv_store_sample(f->out->type, gconv_finish(v, epilogue), to.row, i);
    if (scans && gconv_weighted_puts_back(f->plan, f->images, &f->plan->of[f->first_filter], &at))
      lost += store_missing(f->out, to.row, i);
    else if (v != v && (!from_floats || f->images->divides)) {
      lost += store_missing(f->out, to.row, i);
      empty++;
    }
  }
  if (empty > 0)
    __atomic_fetch_add(&f->empty, empty, __ATOMIC_RELAXED);
  return lost;
}

/* Copies alpha that is kept from the pixels under the anchor. */
static void copy_alpha(const finishing *f, const gconv_weighted_place *row) {
  const gconv_problem *problem = &f->plan->of[f->first_filter].pass->problem;
  const gconv_image *in = f->images->in, *out = f->out;
  const int64_t y = (f->images->first + row->y) * problem->stride_y - problem->pad_top + problem->anchor_y;
  const float outside = f->plan->options->border == GCONV_BORDER_CONSTANT
                            ? (float)f->plan->options->border_value * gconv_white(f->plan->source.type)
                            : 0;
  const int64_t from_row = gconv_border_index(problem->border, y, problem->height);
  const target to = find_target(out, row->plane, (size_t)out->channels - 1, (size_t)row->y);
  for (int64_t q = 0; q < out->width; q++) {
    int64_t x =
        gconv_border_index(problem->border, q * problem->stride_x - problem->pad_left + problem->anchor_x, problem->width);
    float a = outside;
    if (from_row != GCONV_OUTSIDE && x != GCONV_OUTSIDE)
      a = level(in->type, gconv_row_at(in, row->plane, (size_t)(from_row - f->images->in_row)),
                (size_t)x * (size_t)in->channels + (size_t)in->channels - 1);
    gconv_store_sample(out->type, gconv_scale(a, f->colour.alpha_scale, f->colour.alpha_scale_low, 0), to.row,
                       to.first + (size_t)q * to.step);
  }
}

static void combine_rows(gconv_combine combine, size_t k, const float *responses, float *combined, size_t samples) {
  for (size_t i = 0; i < samples; i++) /* NaN stays: comparisons for the maximum would drop it */
    combined[i] = k == 0                         ? gconv_combine_first(combine, responses[i])
                  : combined[i] != combined[i]   ? combined[i]
                  : responses[i] != responses[i] ? responses[i]
                                                 : gconv_combine_next(combine, combined[i], responses[i]);
}

static void finish_row(void *context, size_t turn, int seat) {
  finishing *f = context;
  const gconv_image *middle = &f->plan->middle;
  const size_t height = (size_t)f->out->height, channels = middle->planar ? 1 : (size_t)middle->channels;
  const gconv_weighted_place row = {.plane = turn / height, .y = (int64_t)(turn % height)};
  float *responses = f->rows + (size_t)seat * 2 * f->samples, *combined = responses + f->samples;
  const gconv_combine combine = f->plan->options->combine;
  const bool combines = combine != GCONV_COMBINE_NONE && combine != GCONV_COMBINE_STACK;
  uint64_t lost = 0;
  for (size_t k = 0; k < f->filters; k++) {
    respond(f, f->first_filter + k, row.plane, (size_t)row.y, responses);
    if (combines)
      combine_rows(combine, k, responses, combined, f->samples);
    for (size_t c = 0; c < channels && !combines; c++)
      lost += store_channel(f, &row, c, k * (size_t)middle->channels, responses);
  }
  for (size_t i = 0; i < f->samples && combines; i++)
    combined[i] = gconv_combine_last(combine, combined[i]);
  for (size_t c = 0; c < channels && combines; c++)
    lost += store_channel(f, &row, c, 0, combined);
  if (f->plan->keeps_alpha && f->out->alpha)
    copy_alpha(f, &row);
  if (lost > 0)
    __atomic_fetch_add(&f->lost, lost, __ATOMIC_RELAXED);
}

gconv_status gconv_weighted_finish(const gconv_weighted_plan *plan, const gconv_weighted_images *images,
                                   const gconv_image *outputs) {
  gconv_threads *threads = plan->base.device->threads;
  gconv_options alpha = *plan->options;
  const bool alone = plan->options->combine == GCONV_COMBINE_NONE;
  uint64_t lost = 0, empty = 0;
  alpha.range = GCONV_RANGE_CLAMP;
  for (size_t o = 0; o < plan->base.output_count; o++) {
    finishing f = {.plan = plan,
                   .images = images,
                   .out = &outputs[o],
                   .first_filter = alone ? o : 0,
                   .filters = alone ? 1 : plan->filters,
                   .colour = gconv_make_epilogue(plan->options, plan->source.type, outputs[o].type),
                   .alpha = gconv_make_epilogue(&alpha, plan->source.type, outputs[o].type)};
    f.samples = gconv_samples_of(&images->sums[0][f.first_filter]);
    GCONV_FREED float *rows = malloc((size_t)gconv_threads_count(threads) * 2 * f.samples * sizeof *rows);
    GCONV_NEED_MEMORY(rows, "no memory for rows of %zu samples", f.samples);
    f.rows = rows;
    gconv_threads_run(threads, gconv_planes_of(&images->sums[0][f.first_filter]) * (size_t)outputs[o].height, finish_row,
                      &f);
    lost += f.lost;
    empty += f.empty;
  }
  if (empty > 0 && plan->options->nan == GCONV_NAN_FILL)
    gconv_warn_once(
        "holes that stay",
        "%llu results, or more, stay missing: their holes are larger than the filter; a larger filter fills them",
        (unsigned long long)empty);
  if (lost > 0)
    gconv_warn_once("missing samples in integers",
                    "%llu results, or more, are missing, and integers have no number for that: they are 0: --depth float "
                    "makes them NaN, --nodata V names a number",
                    (unsigned long long)lost);
  return GCONV_OK;
}

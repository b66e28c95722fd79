/* SPDX-License-Identifier: MIT */
/*
 * Plain filters over samples with weights: normalised convolution. A missing sample has the weight 0. Any other sample has
 * the weight that the user gives it, or 1. With taps t, samples x and weights w, a response is
 *
 *     sum t * sum(t * w * x) / sum(t * w)
 *
 * so holes and the outside of the image do not count, and a flat image stays flat. The two sums are plain convolutions, of
 * the products w * x and of the weights, by any algorithm on any device. The division follows on the host.
 *
 * Where |sum(t * w)| is less than a share (gconv_options.least_weight) of sum |t|, too little is known: the result is
 * missing. The errors of algorithms that are not exact are in proportion to sum |t|. The division would magnify them where
 * few taps lie on samples. So if |sum(t * w)| is below FEW * sum |t|, both sums are computed again in float64
 * (weighted_sums.c).
 */
#pragma once

#include "conv/plan.h"

struct gconv_weighted_filter;
struct gconv_weighted_images;
struct gconv_weighted_place;

/* The plan. Images between the stages are f32, with the levels of the input, and without alpha that is kept. */
typedef struct gconv_weighted_plan {
  gconv_plan base;
  const gconv_options *options;
  const gconv_image *weights;  /* one channel of f32, from 0 to 1; NULL: all are 1 */
  gconv_image source;          /* header of the input, with the user's number for no data */
  gconv_image middle;          /* header of the images between the stages */
  gconv_plan *values, *shares; /* convolve w * x, and w; shares is NULL if no response is divided */
  size_t filters;
  bool keeps_alpha, preserves, exact, divides;
  /* Computes a response in float64. It is gconv_weighted_response(), but volumes have a function of their own. */
  double (*respond)(const struct gconv_weighted_plan *plan, const struct gconv_weighted_images *images,
                    const struct gconv_weighted_filter *filter, const struct gconv_weighted_place *at, double *error);
  struct gconv_weighted_filter *of; /* owned, [filters] */
} gconv_weighted_plan;

/* A filter of the plan. */
typedef struct gconv_weighted_filter {
  /* The pass that convolves w with the filter, or, without shares, the pass of w * x. A pass of w * x may lack taps that lie
   * on zeros outside the image. */
  const gconv_pass *pass;
  size_t index;     /* its number in the pass */
  float outside;    /* the level of border pixels of w * x */
  double sum, size; /* the sum of all t / divisor, and of all |t / divisor| */
  float bias;       /* in levels of the input */
} gconv_weighted_filter;

/* The images of an execution: rows of the input from in_row on, and the images that are made from them. */
typedef struct gconv_weighted_images {
  const gconv_image *in;
  gconv_image value, share; /* owned: w * x, and w */
  gconv_image *sums[2];     /* owned, [filters]: the convolved value and share; sums[1] may be NULL */
  int32_t in_row, first;    /* the row of the image with which `in` begins; the row with which outputs begin */
  int32_t in_plane;         /* for volumes: the plane with which `in` begins */
  bool any_missing, divides;
} gconv_weighted_images;

/* Returns whether options divide responses by sums of weights. */
bool gconv_weighted_divides(const gconv_options *options);
/* Refuses a filter whose taps sum to 0, for such options: `sum` is their sum, `size` the sum of their absolute values. */
gconv_status gconv_weighted_check_sum(const char *name, double sum, double size);
/* Makes *weights from a picture: grey times alpha, divided by the largest of these products. */
gconv_status gconv_weighted_make_weights(const gconv_image *picture, gconv_image *weights);
/* Changes the user's options to those of one of the two convolutions: of weights if `of_shares`, else of products w * x,
 * which have the levels of `type`. */
void gconv_weighted_split_options(gconv_type type, bool of_shares, gconv_options *options);

/* Makes images->value and images->share of images->in. */
gconv_status gconv_weighted_prepare(const gconv_weighted_plan *plan, gconv_weighted_images *images);

/* Makes the outputs from images->sums: divides, combines, scales, and puts missing samples back. */
gconv_status gconv_weighted_finish(const gconv_weighted_plan *plan, const gconv_weighted_images *images,
                                   const gconv_image *outputs);

/* The place of a sample of a result, in an image between the stages. */
typedef struct gconv_weighted_place {
  size_t plane, channel; /* a frame, or a plane of a planar image; the channel of an interleaved image, else 0 */
  int64_t y, x;
} gconv_weighted_place;

/* Computes a response in float64; NaN if too little is known. If `error` is not NULL, *error becomes the sum of |t * w * x|.
 * The error of the algorithms' sums is in proportion to it. */
double gconv_weighted_response(const gconv_weighted_plan *plan, const gconv_weighted_images *images,
                               const gconv_weighted_filter *filter, const gconv_weighted_place *at, double *error);

/* Returns the response for three sums: of products t * w * x, of t * w, and of |t * w * x|. */
double gconv_weighted_quotient(const gconv_weighted_plan *plan, const gconv_weighted_images *images,
                               const gconv_weighted_filter *filter, const double sums[3], double *error);

/* Returns whether the input sample under the anchor is missing, and the result is to be missing, too. */
bool gconv_weighted_puts_back(const gconv_weighted_plan *plan, const gconv_weighted_images *images,
                              const gconv_weighted_filter *filter, const gconv_weighted_place *at);

/* For the table of functions (weighted_verify.c). */
gconv_status gconv_weighted_verify(gconv_plan *base, const gconv_image *in, const gconv_image *outputs, double tolerance,
                                   double budget, gconv_verification *result);

/* SPDX-License-Identifier: MIT */
/*
 * Plain filters over samples with weights: normalised convolution. A sample that is missing has weight 0, any other the
 * weight that the user gives it, or 1. With taps t, samples x and weights w, a response is
 *
 *     sum t * sum(t * w * x) / sum(t * w)
 *
 * so holes and the outside of the image take no part, and a flat image stays flat. The two sums are plain convolutions, of
 * the products w * x and of the weights, by any algorithm on any device. The division follows on the host.
 *
 * Where |sum(t * w)| is less than a share (gconv_options.least_weight) of sum |t|, too little is known: the result is
 * missing. Algorithms that are not exact have errors in proportion to sum |t|, which the division would magnify where few
 * taps lie on samples: below FEW of sum |t|, both sums are computed once more in float64 (weighted_sums.c).
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
  gconv_image source;          /* header of the input, with the number for no data that the user gives */
  gconv_image middle;          /* header of the images between the stages */
  gconv_plan *values, *shares; /* convolve w * x, and w; shares is NULL if no response is divided */
  size_t filters;
  bool keeps_alpha, preserves, exact, divides;
  /* Computes a response in float64: gconv_weighted_response(), or, of volumes, a function of theirs. */
  double (*respond)(const struct gconv_weighted_plan *plan, const struct gconv_weighted_images *images,
                    const struct gconv_weighted_filter *filter, const struct gconv_weighted_place *at, double *error);
  struct gconv_weighted_filter *of; /* owned, [filters] */
} gconv_weighted_plan;

/* A filter of the plan. */
typedef struct gconv_weighted_filter {
  /* The pass that convolves w with it, or, without shares, w * x. That of w * x may lack taps that lie on zeros outside. */
  const gconv_pass *pass;
  size_t index;     /* its number in the pass */
  float outside;    /* the level of border pixels of w * x */
  double sum, size; /* sum t / divisor, sum |t / divisor| */
  float bias;       /* in levels of the input */
} gconv_weighted_filter;

/* The images of an execution: rows of the input from in_row on, and what is made of them. */
typedef struct gconv_weighted_images {
  const gconv_image *in;
  gconv_image value, share; /* owned: w * x, and w */
  gconv_image *sums[2];     /* owned, [filters]: the convolved value and share; sums[1] may be NULL */
  int32_t in_row, first;    /* the row of the image with which `in` begins; the row with which outputs begin */
  int32_t in_plane;         /* of volumes: the plane with which `in` begins */
  bool any_missing, divides;
} gconv_weighted_images;

/* Returns whether options divide responses by sums of weights; refuses filters whose taps sum to 0 then: `sum`, and the sum
 * of their sizes. */
bool gconv_weighted_divides(const gconv_options *options);
gconv_status gconv_weighted_check_sum(const char *name, double sum, double size);
/* Makes *weights of a picture: grey times alpha, in proportion to the largest weight. */
gconv_status gconv_weighted_make_weights(const gconv_image *picture, gconv_image *weights);
/* Sets options to those with which products and weights are convolved, of levels of `type`. */
void gconv_weighted_split_options(gconv_type type, bool of_shares, gconv_options *options);

/* Makes images->value and images->share of images->in. */
gconv_status gconv_weighted_prepare(const gconv_weighted_plan *plan, gconv_weighted_images *images);

/* Makes the outputs of images->sums: divides, combines, scales, and puts missing samples back. */
gconv_status gconv_weighted_finish(const gconv_weighted_plan *plan, const gconv_weighted_images *images,
                                   const gconv_image *outputs);

/* The place of a sample of a result, in an image between the stages. */
typedef struct gconv_weighted_place {
  size_t plane, channel; /* a frame, or a plane of a planar image; a channel of an interleaved one, else 0 */
  int64_t y, x;
} gconv_weighted_place;

/* Computes a response in float64; NaN if too little is known. *error, unless it is NULL, becomes the sum of the products'
 * sizes, in proportion to which sums may be off. */
double gconv_weighted_response(const gconv_weighted_plan *plan, const gconv_weighted_images *images,
                               const gconv_weighted_filter *filter, const gconv_weighted_place *at, double *error);

/* Returns the response of the sums of products, of weights and of the products' sizes. */
double gconv_weighted_quotient(const gconv_weighted_plan *plan, const gconv_weighted_images *images,
                               const gconv_weighted_filter *filter, const double sums[3], double *error);

/* Returns whether the sample of the input under the anchor is missing, and to be put back. */
bool gconv_weighted_puts_back(const gconv_weighted_plan *plan, const gconv_weighted_images *images,
                              const gconv_weighted_filter *filter, const gconv_weighted_place *at);

/* For the table of functions (weighted_verify.c). */
gconv_status gconv_weighted_verify(gconv_plan *base, const gconv_image *in, const gconv_image *outputs, double tolerance,
                                   double budget, gconv_verification *result);

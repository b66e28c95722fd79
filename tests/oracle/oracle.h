/* SPDX-License-Identifier: MIT */
/*
 * What is computed, a second time: every definition of gconv.h in float64 and in the plainest loops there are. It shares no
 * line with the product, of which it knows nothing but the types of the public header.
 *
 *     gconv_oracle_create()   responses of all filters, the slow part
 *     gconv_oracle_expect()   one output: for each sample its value and how far from it an algorithm may be
 *
 * Every number from the responses on is a gconv_oracle_sample, a value with a radius, so that the bound of the algorithm is
 * carried through combine, scale and range to the very sample that is compared.
 *
 * What gconv.h leaves open is settled here:
 *  - All is computed in units of 1 = white (u8 / 255, u16 / 65535, f32 as it is). A filter's offset is in levels, so it is
 *    divided by 255 or 65535.
 *  - gray of integer samples is rounded to the sample type before it is filtered, except in linear light.
 *  - linear and premultiply happen to the image before its border is drawn. The curve is applied to a constant border as
 *    well, and alpha does not change it.
 *  - sRGB curves are odd: f(-v) = -f(v); beyond 1 they go on. Alpha has no curve.
 *  - A stack of filters with alpha filtered along has as many alphas as filters, and is not marked as having alpha.
 *  - Where alpha is premultiplied, colours are divided before scale, offset and range, which leave alpha alone; a
 *    colour whose alpha is not above 0 becomes 0.
 *  - Alpha that is filtered is scaled and ranged as colours are, but has no sRGB curve, and minmax leaves it alone.
 *  - Alpha kept aside is that of the position of the anchor, by the rule of the border where that lies outside.
 */
#ifndef GCONV_TESTS_ORACLE_H
#define GCONV_TESTS_ORACLE_H

#include "gconv.h"

/* A number that is known to be within `error` of `value`; the error is infinite where nothing can be said. */
typedef struct gconv_oracle_sample {
  double value, error;
} gconv_oracle_sample;

/* The shape of every output, all of them equal. */
typedef struct gconv_oracle_shape {
  size_t outputs;
  gconv_type type;
  int32_t frames, height, width, channels; /* height or width is 0 where the filter finds no place in the image */
  bool alpha;
} gconv_oracle_shape;

typedef struct gconv_oracle gconv_oracle;

/* What the options ask for, without computing it. Filters of different sizes need padding `same`. */
gconv_oracle_shape gconv_oracle_get_shape(const gconv_image *in, const gconv_filters *filters, const gconv_options *options);

/* Computes the responses of all filters. `filters` must outlive the oracle. NULL if the shape is empty or memory is. */
gconv_oracle *gconv_oracle_create(const gconv_image *in, const gconv_filters *filters, const gconv_options *options);
/* NULL is allowed. */
void gconv_oracle_free(gconv_oracle *oracle);

/* How far a response may be off, before the divisor: relative * (sum |tap|) * max |sample| + least. */
typedef struct gconv_oracle_bound {
  double relative, least;
} gconv_oracle_bound;

/* Fills samples[((n * P + p) * Q + q) * C + c] with output number `output` in units of its samples (levels for integers,
 * saturated but not rounded). The error is what an algorithm may be off whose responses are within the bound; it holds the
 * half level of rounding. False without memory. */
bool gconv_oracle_expect(const gconv_oracle *oracle, size_t output, gconv_oracle_bound bound, gconv_oracle_sample *samples);

/* Sample (n, y, x, c) of an image of any type and layout. */
double gconv_oracle_sample_at(const gconv_image *image, int32_t n, int32_t y, int32_t x, int32_t c);

/* 255, 65535 or 1: the sample that is white. */
double gconv_oracle_white(gconv_type type);

#endif

/* SPDX-License-Identifier: MIT */
/* How the values of maps become samples of pictures: of a whole picture or, once all rows have been surveyed, of some rows.
 */
#pragma once

#include "gconv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The planes that make a picture, or rows of them, each without gaps: 1 to 4. */
typedef struct gconv_planes {
  const float *plane[4];
  int32_t count, height, width;
} gconv_planes;

/* The curve of a value v, in units where 1 is white: v * factor + shift, or its absolute value. */
typedef struct gconv_curve {
  double factor, shift;
  bool absolute;
} gconv_curve;

/* A survey of the values of a picture: the least and the largest finite value, and a sample of them. */
typedef struct gconv_survey {
  int64_t plane, all; /* values of a plane, and of all planes */
  float low, high;
  float *sample; /* owned */
  size_t count;
} gconv_survey;

enum { GCONV_SURVEY_SAMPLE = 1 << 15, GCONV_SURVEY_BYTES = 4 * GCONV_SURVEY_SAMPLE }; /* values that are kept */

/* True if the curve depends on the values. */
bool gconv_tone_surveys(const gconv_tone *tone);

/* Begins a survey of a picture of `count` planes. */
gconv_status gconv_survey_begin(int32_t count, int32_t height, int32_t width, gconv_survey *survey);
/* Adds rows of all planes, from `first` on. The result does not depend on how the rows are divided. */
void gconv_survey_add(gconv_survey *survey, const gconv_planes *rows, int32_t first);
void gconv_survey_free(gconv_survey *survey);

/* Returns the curve of a picture. With minmax, a picture without two different values becomes 0. `survey` has all values of
 * the picture; it is used only if the tone needs it. */
gconv_curve gconv_tone_curve(const gconv_tone *tone, gconv_survey *survey);

/* Returns a value on the curve, where 1 is white. It is neither clamped nor rounded. */
double gconv_tone_value(gconv_curve curve, float value);

/* Puts a row of `width` values into every `step`-th sample of `row`, from sample `first` on. */
void gconv_tone_put_row(gconv_type type, gconv_curve curve, const float *from, int32_t width, void *row, size_t first,
                        ptrdiff_t step);
/* Puts planes into the first channels of an interleaved picture, the first pixel at (top, left). */
void gconv_tone_put(gconv_type type, gconv_curve curve, const gconv_planes *from, gconv_image *picture, int32_t top,
                    int32_t left);

#ifdef __cplusplus
}
#endif

/* SPDX-License-Identifier: MIT */
/*
 * Stages of the host before and after a convolution: grey, linear light, premultiplied alpha, sample types.
 *
 * Each function works on one row of interleaved pixels and keeps no state, so rows may be spread over threads. `channels`
 * counts alpha, which is the last channel if `alpha` is set. `in` and `out` do not overlap, unless they are the same pointer
 * and the samples have the same size. Rows need only the alignment of their samples.
 */
#pragma once

#include "gconv.h"

/* Computes grey from the samples as stored: Y' = 0.299 R + 0.587 G + 0.114 B (BT.601), the exact sum, rounded to the nearest
 * level (ties to even). For f32, the sum is taken in float from left to right. Alpha is copied. `out` has one channel, or
 * two with alpha. Images that are grey already are copied: channels - alpha is 1 or 3. */
void gconv_colour_grey_row(gconv_type type, int channels, bool alpha, const void *in, void *out, size_t pixels);

/* Writes the same grey of RGB or RGBA samples as fractions of white, not rounded to levels: the exact sum divided by white
 * is rounded to float once. */
void gconv_colour_grey_to_float_row(gconv_type type, int channels, bool alpha, const void *in, float *out, size_t pixels);

/* Undoes the sRGB curve of IEC 61966-2-1: samples become linear light, 1 is white. Alpha is only scaled to [0, 1]. Each
 * result is computed by the formula in double, and rounded to float once. f32 samples are sRGB with 1 as white. The curve
 * continues above 1, and below 0 as an odd function. */
void gconv_colour_linear_row(gconv_type type, int channels, bool alpha, const void *in, float *out, size_t pixels);

/* Applies the sRGB curve: linear light becomes sRGB, 1 is white. Alpha is copied. Results are not rounded to levels. */
void gconv_colour_srgb_row(int channels, bool alpha, const float *in, float *out, size_t pixels);

/* Computes grey from linear light: Y = 0.2126 R + 0.7152 G + 0.0722 B (BT.709), in float from left to right. Alpha is
 * copied. Images that are grey already are copied: channels - alpha is 1 or 3. */
void gconv_colour_luminance_row(int channels, bool alpha, const float *in, float *out, size_t pixels);

/* Rows of interleaved pixels, for gconv_colour_mix_rows(). */
typedef struct gconv_colour_rows {
  gconv_type type;
  int channels;
  size_t pixels, rows;
  const void *in;
  void *out;                  /* does not overlap `in` */
  size_t in_bytes, out_bytes; /* bytes from row to row */
} gconv_colour_rows;
/* Makes channel c the sum over d of mixing[c][d] times channel d. The sum is taken in float32 in the order of d, or in
 * integers where the result is equal. For integer types, the sum is rounded to nearest even and saturated. With `wrap`, it
 * is cut towards 0 and taken modulo 256 or 65536, as GCONV_RANGE_WRAP does. */
void gconv_colour_mix_rows(const gconv_colour_rows *rows, const float mixing[4][4], bool wrap);

/* Copies all channels except the last, alpha. `out` has channels - 1. */
void gconv_colour_drop_alpha_row(gconv_type type, int channels, const void *in, void *out, size_t pixels);

/* gconv_colour_premultiply_row() multiplies the colours by the last channel, alpha in [0, 1];
 * gconv_colour_unpremultiply_row() divides them by it. Both set colours to 0 where alpha is 0 or negative. A filter can make
 * alpha negative. */
void gconv_colour_premultiply_row(int channels, float *row, size_t pixels);
void gconv_colour_unpremultiply_row(int channels, float *row, size_t pixels);

/* Converts stored samples to float: v / 255 or v / 65535, correctly rounded. f32 stays as it is. */
void gconv_colour_to_float_row(gconv_type type, const void *in, float *out, size_t samples);

/* Converts floats to stored samples: v * 255 or v * 65535 in float, rounded to nearest even, saturated. NaN becomes 0. f32
 * stays as it is. */
void gconv_colour_from_float_row(gconv_type type, const float *in, void *out, size_t samples);

/* SPDX-License-Identifier: MIT */
/*
 * The one definition of how a sum of products becomes a stored sample, compiled for the host and for CUDA. Every operation
 * below is correctly rounded on both, so both yield the same bits.
 *
 * Integer samples are convolved as levels (0 .. 255, 0 .. 65535), not as fractions of white. Integers are exact in float32.
 * So filters of integers and dyadic fractions give exact sums, and a result exactly half-way between two levels is rounded
 * to even. The division by the level of white is part of the epilogue's scale.
 */
#pragma once

#include "kernels/border.h"

#include <math.h>

/* The operations on a sum before it is stored. */
typedef struct gconv_epilogue {
  gconv_combine combine;
  /* y = v * (scale + scale_low) + offset, in units of output samples. scale_low is the part of the scale that float32 cannot
   * hold. So v / 255 of u8 input is rounded once. It is 0 for f32 input. */
  float scale, scale_low, offset;
  bool absolute;                      /* |y| */
  bool center;                        /* y / 2 + middle: the range "signed" */
  float middle;                       /* half the level of white */
  bool wrap;                          /* integer results are made by gconv_cut_level(), in place of gconv_to_level() */
  float alpha_scale, alpha_scale_low; /* the factor from input to output levels, for alpha that is kept */
} gconv_epilogue;

/* Returns the response of one filter from its sum of products. */
GCONV_BOTH float gconv_response(float sum, float divisor, float bias) {
  if (divisor != 1.0f)
    sum = sum / divisor;
  if (bias != 0.0f)
    sum = sum + bias;
  return sum;
}

/* To combine responses, call gconv_combine_first() for filter 0, gconv_combine_next() for the others, and
 * gconv_combine_last() at the end. */
GCONV_BOTH float gconv_combine_first(gconv_combine combine, float response) {
  return combine == GCONV_COMBINE_MAGNITUDE ? fmaf(response, response, 0.0f) : response;
}

GCONV_BOTH float gconv_combine_next(gconv_combine combine, float combined, float response) {
  switch (combine) {
  case GCONV_COMBINE_MAGNITUDE:
    return fmaf(response, response, combined);
  case GCONV_COMBINE_SUM:
    return combined + response;
  case GCONV_COMBINE_MAX:
  case GCONV_COMBINE_ARGMAX: /* its caller keeps the number of the filter with the largest response */
    return response > combined ? response : combined;
  case GCONV_COMBINE_NONE: /* these do not combine samples */
  case GCONV_COMBINE_STACK:
    break;
  }
  return response;
}

GCONV_BOTH float gconv_combine_last(gconv_combine combine, float combined) {
  return combine == GCONV_COMBINE_MAGNITUDE ? sqrtf(combined) : combined;
}

/* Returns v * (scale + low) + offset. */
GCONV_BOTH float gconv_scale(float v, float scale, float low, float offset) {
  if (low != 0.0f)
    offset = fmaf(v, low, offset);
  return fmaf(v, scale, offset);
}

/* Returns the value in units of output samples, not yet rounded or saturated. */
GCONV_BOTH float gconv_finish(float v, const gconv_epilogue *epilogue) {
  float y = gconv_scale(v, epilogue->scale, epilogue->scale_low, epilogue->offset);
  if (epilogue->absolute)
    y = fabsf(y);
  if (epilogue->center)
    y = fmaf(y, 0.5f, epilogue->middle);
  return y;
}

/* Returns whether scale and offset are all that gconv_finish() applies. */
GCONV_BOTH bool gconv_is_plain(const gconv_epilogue *epilogue) {
  return epilogue->scale_low == 0.0f && !epilogue->absolute && !epilogue->center;
}

/* gconv_to_level() rounds to an integer level in two steps. gconv_saturate() limits y to 0 .. white, NaN becoming 0, and
 * adds 2^23. Between 2^23 and 2^24 the spacing of float32 is 1. So the addition rounds to the nearest integer, ties to even.
 * gconv_level_bits() then takes this integer from the low bits. */
GCONV_BOTH float gconv_saturate(float y, float white) {
  y = y > 0.0f ? y : 0.0f;
  y = y < white ? y : white;
  return y + 8388608.0f;
}

GCONV_BOTH uint32_t gconv_level_bits(float saturated) {
  union {
    float value;
    uint32_t bits;
  } shifted;
  shifted.value = saturated;
  return shifted.bits & 0xffffu;
}

GCONV_BOTH uint32_t gconv_to_level(float y, float white) {
  return gconv_level_bits(gconv_saturate(y, white));
}

/* Stores sample i of a row of u8, u16 or f32, rounded and saturated. */
GCONV_BOTH void gconv_store_sample(gconv_type type, float y, void *row, size_t i) {
  if (type == GCONV_U8)
    ((uint8_t *)row)[i] = (uint8_t)gconv_to_level(y, 255.0f);
  else if (type == GCONV_U16)
    ((uint16_t *)row)[i] = (uint16_t)gconv_to_level(y, 65535.0f);
  else
    ((float *)row)[i] = y;
}

/* Rounds to an int16: saturates, NaN becoming 0, and rounds ties to even, as gconv_to_level() does. The addition leads to
 * 2^23 .. 2^24. There, the low bits of a float32 are those of the integer, also of a negative one. */
GCONV_BOTH int16_t gconv_to_int16(float y) {
  y = y == y ? y : 0.0f;
  y = y > -32768.0f ? y : -32768.0f;
  y = y < 32767.0f ? y : 32767.0f;
  return (int16_t)gconv_level_bits(y + 12582912.0f);
}

/* Truncates a value towards 0, to an int32; returns 0 if it does not fit. Its low bits are the level of the range "wrap",
 * which only the CPU has. */
static inline uint32_t gconv_cut_level(float y) {
  return y > -2147483648.0f && y < 2147483648.0f ? (uint32_t)(int32_t)y : 0;
}

#ifdef __cplusplus
/* Stores a finished value as a sample of the type. */
GCONV_BOTH void gconv_store(float y, uint8_t *to) {
  *to = (uint8_t)gconv_to_level(y, 255.0f);
}
GCONV_BOTH void gconv_store(float y, uint16_t *to) {
  *to = (uint16_t)gconv_to_level(y, 65535.0f);
}
GCONV_BOTH void gconv_store(float y, float *to) {
  *to = y;
}
#endif

/* Returns the level of white: 255, 65535, 1. */
GCONV_BOTH float gconv_white(gconv_type type) {
  return type == GCONV_U8 ? 255.0f : type == GCONV_U16 ? 65535.0f : 1.0f;
}

/* Returns the level of white in results of the type `out` from images of the type `in`: i16 has the levels of the image. */
GCONV_BOTH float gconv_white_of_result(gconv_type in, gconv_type out) {
  return gconv_white(out == GCONV_I16 ? in : out);
}

/* SPDX-License-Identifier: MIT */
#include "image/colour.h"
#include "base/cpu.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

/* ---- Grey of stored samples ---- */

/* (299 R + 587 G + 114 B) / 1000 to the nearest, ties to even. The sum is at most 65535 * 1000: 32 bits hold it. */
static uint32_t luma(uint32_t red, uint32_t green, uint32_t blue) {
  uint32_t sum = 299 * red + 587 * green + 114 * blue, level = sum / 1000, rest = sum % 1000;
  return level + (rest + (level & 1) > 500);
}

static void grey_u8(int channels, bool alpha, const uint8_t *in, uint8_t *out, size_t pixels) {
  for (size_t i = 0; i < pixels; i++, in += channels) {
    *out++ = (uint8_t)luma(in[0], in[1], in[2]);
    if (alpha)
      *out++ = in[3];
  }
}

static void grey_u16(int channels, bool alpha, const uint16_t *in, uint16_t *out, size_t pixels) {
  for (size_t i = 0; i < pixels; i++, in += channels) {
    *out++ = (uint16_t)luma(in[0], in[1], in[2]);
    if (alpha)
      *out++ = in[3];
  }
}

static void weigh_f32(const float weights[3], int channels, bool alpha, const float *in, float *out, size_t pixels) {
  for (size_t i = 0; i < pixels; i++, in += channels) {
    *out++ = weights[0] * in[0] + weights[1] * in[1] + weights[2] * in[2];
    if (alpha)
      *out++ = in[3];
  }
}

static void copy_row(const void *in, void *out, size_t bytes) {
  if (in != out && bytes > 0)
    memcpy(out, in, bytes);
}

void gconv_colour_grey_row(gconv_type type, int channels, bool alpha, const void *in, void *out, size_t pixels) {
  static const float bt601[3] = {0.299f, 0.587f, 0.114f};
  if (channels - alpha < 3)
    copy_row(in, out, pixels * (size_t)channels * gconv_type_bytes(type));
  else if (type == GCONV_U8)
    grey_u8(channels, alpha, in, out, pixels);
  else if (type == GCONV_U16)
    grey_u16(channels, alpha, in, out, pixels);
  else
    weigh_f32(bt601, channels, alpha, in, out, pixels);
}

/* The sum is a whole number below 2^26, so its quotient in double is rounded to float as the exact one is. */
static float exact_grey(uint32_t red, uint32_t green, uint32_t blue, double white) {
  return (float)((double)(299 * red + 587 * green + 114 * blue) / (1000 * white));
}

void gconv_colour_grey_to_float_row(gconv_type type, int channels, bool alpha, const void *in, float *out, size_t pixels) {
  const uint8_t *narrow = in;
  const uint16_t *wide = in;
  if (type == GCONV_F32) {
    gconv_colour_grey_row(type, channels, alpha, in, out, pixels);
    return;
  }
  for (size_t i = 0; i < pixels; i++, narrow += channels, wide += channels)
    if (type == GCONV_U8) {
      *out++ = exact_grey(narrow[0], narrow[1], narrow[2], 255.0);
      if (alpha)
        *out++ = (float)narrow[3] / 255.0f;
    } else {
      *out++ = exact_grey(wide[0], wide[1], wide[2], 65535.0);
      if (alpha)
        *out++ = (float)wide[3] / 65535.0f;
    }
}

void gconv_colour_drop_alpha_row(gconv_type type, int channels, const void *in, void *out, size_t pixels) {
  size_t sample = gconv_type_bytes(type), step = (size_t)channels * sample, kept = step - sample;
  const uint8_t *from = in;
  uint8_t *to = out;
  for (size_t i = 0; i < pixels; i++, from += step, to += kept)
    memcpy(to, from, kept);
}

void gconv_colour_luminance_row(int channels, bool alpha, const float *in, float *out, size_t pixels) {
  static const float bt709[3] = {0.2126f, 0.7152f, 0.0722f};
  if (channels - alpha < 3)
    copy_row(in, out, pixels * (size_t)channels * sizeof *in);
  else
    weigh_f32(bt709, channels, alpha, in, out, pixels);
}

/* ---- The sRGB curve ---- */

/* Returns 1 / the n-th root (n is 3 or 5) of a positive normal float, to 1e-12. The exponent divided by -n, in the bits of a
 * float, gives a start that is right to 4%. Each of Newton's steps squares the error. There is no table, no branch and no
 * division, so compilers turn loops over it into vector code; with pow() they cannot. */
GCONV_INLINE double inverse_root(double x, int n) {
  float seed = (float)x;
  uint32_t bits;
  memcpy(&bits, &seed, sizeof bits);
  /* The bits of a float are 2^23 * (127 + its log2), minus up to 0.09 of that unit: 0.045 on average, in x and in the
   * result. */
  const uint32_t one = 0x3f800000, mean = 377487, divisor = (uint32_t)n;
  bits = one + one / divisor - bits / divisor - (mean + mean / divisor);
  memcpy(&seed, &bits, sizeof bits);
  double r = (double)seed;
  for (int step = 0; step < 4; step++) {
    double square = r * r, power = (n == 3 ? square : square * square) * r;
    r += r * (1.0 - x * power) * (1.0 / n);
  }
  return r;
}

/* t = (v + 0.055) / 1.055, then t^2.4 = (t * fifth root of t)^2. Infinities and NaN stay as they are. */
GCONV_INLINE float linear_of(float sample) {
  double v = fabs((double)sample), t = (v + 0.055) * (1 / 1.055), r = inverse_root(t, 5), square = r * r;
  double curved = t * t * square * square, low = v * (1 / 12.92); /* t * (t r^4) is the square root of the result */
  double light = v <= 0.04045 ? low : curved * curved;
  light = v <= (double)FLT_MAX ? light : v;
  return (float)copysign(light, (double)sample);
}

/* 1.055 v^(5/12) - 0.055, where v^(5/12) = v^(1/4) * v^(1/6) = s^(1/2) * s^(1/3) of s = v^(1/2). */
GCONV_INLINE float srgb_of(float light) {
  double v = fabs((double)light), s = sqrt(v), r = inverse_root(s, 3);
  double curved = 1.055 * sqrt(s) * (s * r * r) - 0.055, low = 12.92 * v;
  double sample = v <= 0.0031308 ? low : curved;
  sample = v <= (double)FLT_MAX ? sample : v;
  return (float)copysign(sample, (double)light);
}

GCONV_VECTOR_LOOP(linear_all, (const float *in, float *out, size_t samples), (in, out, samples)) {
  for (size_t i = 0; i < samples; i++)
    out[i] = linear_of(in[i]);
}

GCONV_VECTOR_LOOP(srgb_all, (const float *in, float *out, size_t samples), (in, out, samples)) {
  for (size_t i = 0; i < samples; i++)
    out[i] = srgb_of(in[i]);
}

static float linear_of_u8[256], linear_of_u16[65536];

static void fill_table(float *table, int white) {
  for (int i = 0; i <= white; i++) {
    double v = (double)i / white;
    table[i] = (float)(v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
  }
}

static void fill_u8_table(void) {
  fill_table(linear_of_u8, UINT8_MAX);
}

static void fill_u16_table(void) {
  fill_table(linear_of_u16, UINT16_MAX);
}

static void linear_u8(const uint8_t *in, float *out, size_t samples) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill_u8_table);
  for (size_t i = 0; i < samples; i++)
    out[i] = linear_of_u8[in[i]];
}

static void linear_u16(const uint16_t *in, float *out, size_t samples) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill_u16_table);
  for (size_t i = 0; i < samples; i++)
    out[i] = linear_of_u16[in[i]];
}

void gconv_colour_linear_row(gconv_type type, int channels, bool alpha, const void *in, float *out, size_t pixels) {
  size_t step = (size_t)channels, samples = pixels * step;
  if (type == GCONV_U8) {
    const uint8_t *levels = in;
    linear_u8(levels, out, samples);
    for (size_t i = step - 1; alpha && i < samples; i += step)
      out[i] = (float)levels[i] / 255.0f;
  } else if (type == GCONV_U16) {
    const uint16_t *levels = in;
    linear_u16(levels, out, samples);
    for (size_t i = step - 1; alpha && i < samples; i += step)
      out[i] = (float)levels[i] / 65535.0f;
  } else if (alpha) {
    const float *values = in;
    for (size_t i = 0; i < samples; i++)
      out[i] = i % step == step - 1 ? values[i] : linear_of(values[i]);
  } else {
    linear_all(in, out, samples);
  }
}

void gconv_colour_srgb_row(int channels, bool alpha, const float *in, float *out, size_t pixels) {
  size_t step = (size_t)channels, samples = pixels * step;
  if (alpha)
    for (size_t i = 0; i < samples; i++)
      out[i] = i % step == step - 1 ? in[i] : srgb_of(in[i]);
  else
    srgb_all(in, out, samples);
}

/* ---- Premultiplied alpha ---- */

void gconv_colour_premultiply_row(int channels, float *row, size_t pixels) {
  for (size_t i = 0; i < pixels; i++, row += channels) {
    float alpha = row[channels - 1];
    for (int c = 0; c < channels - 1; c++)
      row[c] = alpha > 0 ? row[c] * alpha : 0;
  }
}

void gconv_colour_unpremultiply_row(int channels, float *row, size_t pixels) {
  for (size_t i = 0; i < pixels; i++, row += channels) {
    float alpha = row[channels - 1];
    for (int c = 0; c < channels - 1; c++)
      row[c] = alpha > 0 ? row[c] / alpha : 0;
  }
}

/* ---- Sample types ---- */

void gconv_colour_to_float_row(gconv_type type, const void *in, float *out, size_t samples) {
  if (type == GCONV_U8) {
    const uint8_t *levels = in;
    for (size_t i = 0; i < samples; i++)
      out[i] = (float)levels[i] / 255.0f;
  } else if (type == GCONV_U16) {
    const uint16_t *levels = in;
    for (size_t i = 0; i < samples; i++)
      out[i] = (float)levels[i] / 65535.0f;
  } else {
    copy_row(in, out, samples * sizeof *out);
  }
}

/* Rounds 0 .. white to the nearest level. The comparisons are false for NaN, so NaN becomes 0. From 2^23 on, floats have
 * no fractions: adding 2^23 rounds to nearest even, as the processor does in its default mode. */
static inline float level_of(float value, float white) {
  float scaled = value * white;
  scaled = scaled > 0 ? scaled : 0;
  scaled = scaled < white ? scaled : white;
  return (scaled + 8388608.0f) - 8388608.0f;
}

void gconv_colour_from_float_row(gconv_type type, const float *in, void *out, size_t samples) {
  if (type == GCONV_U8) {
    uint8_t *levels = out;
    for (size_t i = 0; i < samples; i++)
      levels[i] = (uint8_t)(int)level_of(in[i], 255.0f);
  } else if (type == GCONV_U16) {
    uint16_t *levels = out;
    for (size_t i = 0; i < samples; i++)
      levels[i] = (uint16_t)(int)level_of(in[i], 65535.0f);
  } else {
    copy_row(in, out, samples * sizeof *in);
  }
}

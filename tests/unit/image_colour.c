/* SPDX-License-Identifier: MIT */
/* The colour stages against their formulas in double. */
#include "image/colour.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double linear_formula(double v) {
  double a = fabs(v);
  return copysign(a <= 0.04045 ? a / 12.92 : pow((a + 0.055) / 1.055, 2.4), v);
}

static double srgb_formula(double v) {
  double a = fabs(v);
  return copysign(a <= 0.0031308 ? 12.92 * a : 1.055 * pow(a, 1 / 2.4) - 0.055, v);
}

/* Equal to the formula rounded to float, or its neighbour where the double is within a hair of the middle. */
static void assert_rounded(float got, double formula) {
  if (fabs((double)got - formula) > 0.5001 * fabs((double)nextafterf((float)formula, INFINITY) - (double)(float)formula))
    fail_msg("%.9g is not %.17g rounded", (double)got, formula);
}

static void test_grey_of_levels(void **state) {
  (void)state;
  for (int red = 0; red < 256; red += 3)
    for (int green = 0; green < 256; green++)
      for (int blue = 0; blue < 256; blue += 5) {
        const uint8_t in[4] = {(uint8_t)red, (uint8_t)green, (uint8_t)blue, 77};
        const uint16_t wide[3] = {(uint16_t)(red * 257), (uint16_t)(green * 257), (uint16_t)(blue * 257)};
        uint8_t out[3] = {0, 0, 99};
        uint16_t wide_out[2] = {0, 99};
        /* rint() is to even; the sums are exact in double */
        double sum = 299.0 * red + 587.0 * green + 114.0 * blue;
        gconv_colour_grey_row(GCONV_U8, 4, true, in, out, 1);
        gconv_colour_grey_row(GCONV_U16, 3, false, wide, wide_out, 1);
        assert_int_equal(out[0], (int)rint(sum / 1000));
        assert_int_equal(out[1], 77);
        assert_int_equal(out[2], 99);
        assert_int_equal(wide_out[0], (int)rint(sum * 257 / 1000));
        assert_int_equal(wide_out[1], 99);
      }
}

static void test_grey_of_rows(void **state) {
  (void)state;
  const uint16_t rgba[8] = {65535, 65535, 65535, 1, 65535, 0, 0, 2};
  uint16_t grey[4];
  gconv_colour_grey_row(GCONV_U16, 4, true, rgba, grey, 2);
  assert_memory_equal(grey, ((uint16_t[]){65535, 1, 19595, 2}), sizeof grey);
  const float rgb[6] = {1, 0, 0, 0.5f, 0.25f, -3};
  float y[2];
  gconv_colour_grey_row(GCONV_F32, 3, false, rgb, y, 2);
  assert_true(y[0] == 0.299f);
  assert_true(fabs(y[1] - (0.299 * 0.5 + 0.587 * 0.25 - 0.114 * 3)) < 1e-7);
  uint8_t same[4];
  gconv_colour_grey_row(GCONV_U8, 2, true, "abcd", same, 2);
  assert_memory_equal(same, "abcd", 4);
}

static void test_luminance(void **state) {
  (void)state;
  const float rgba[8] = {1, 0, 0, 0.25f, 1, 1, 1, 0.5f};
  float y[4];
  gconv_colour_luminance_row(4, true, rgba, y, 2);
  assert_true(y[0] == 0.2126f && y[1] == 0.25f && fabsf(y[2] - 1) < 2e-7f && y[3] == 0.5f);
  gconv_colour_luminance_row(2, true, rgba, y, 2);
  assert_memory_equal(y, rgba, sizeof y);
}

static void test_linear_of_levels(void **state) {
  (void)state;
  for (int v = 0; v < 65536; v++) {
    const uint16_t wide[2] = {(uint16_t)v, (uint16_t)v};
    const uint8_t level = (uint8_t)v;
    float out[2];
    gconv_colour_linear_row(GCONV_U16, 2, true, wide, out, 1);
    assert_rounded(out[0], linear_formula(v / 65535.0));
    assert_rounded(out[1], v / 65535.0);
    gconv_colour_linear_row(GCONV_U8, 1, false, &level, out, 1);
    assert_rounded(out[0], linear_formula(level / 255.0));
  }
}

static void check_curves(float v) {
  float out[2];
  gconv_colour_linear_row(GCONV_F32, 1, false, &v, out, 1);
  assert_rounded(out[0], linear_formula((double)v));
  gconv_colour_srgb_row(1, false, &v, out, 1);
  assert_rounded(out[0], srgb_formula((double)v));
}

static void test_curves_of_floats(void **state) {
  (void)state;
  for (int i = -30000; i <= 30000; i++)
    check_curves((float)i / 20000.0f);
  for (float v = 1e-38f; v < 1e15f; v *= 1.37f)
    check_curves(v);
  const float special[4] = {INFINITY, -INFINITY, NAN, -0.0f};
  float out[4];
  gconv_colour_srgb_row(1, false, special, out, 4);
  assert_true(out[0] > FLT_MAX && out[1] < -FLT_MAX && isnan(out[2]) && out[3] == 0 && signbit(out[3]));
  gconv_colour_linear_row(GCONV_F32, 1, false, special, out, 4);
  assert_true(out[0] > FLT_MAX && out[1] < -FLT_MAX && isnan(out[2]) && out[3] == 0 && signbit(out[3]));
}

static void test_curves_leave_alpha(void **state) {
  (void)state;
  const float rgba[8] = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.25f};
  float out[8], back[8];
  gconv_colour_linear_row(GCONV_F32, 4, true, rgba, out, 2);
  assert_true(out[0] < 0.22f && out[3] == 0.5f && out[6] < 0.22f && out[7] == 0.25f);
  gconv_colour_srgb_row(4, true, out, back, 2);
  for (int i = 0; i < 8; i++)
    assert_true(fabsf(back[i] - rgba[i]) < 1e-7f);
}

/* There and back again: every level of both types. */
static void test_levels_survive(void **state) {
  (void)state;
  for (int v = 0; v < 65536; v++) {
    const uint16_t wide = (uint16_t)v;
    uint16_t wide_back;
    float light, curved;
    gconv_colour_linear_row(GCONV_U16, 1, false, &wide, &light, 1);
    gconv_colour_srgb_row(1, false, &light, &curved, 1);
    gconv_colour_from_float_row(GCONV_U16, &curved, &wide_back, 1);
    assert_int_equal(wide_back, v);
    gconv_colour_to_float_row(GCONV_U16, &wide, &curved, 1);
    gconv_colour_from_float_row(GCONV_U16, &curved, &wide_back, 1);
    assert_int_equal(wide_back, v);
  }
}

static void test_premultiply(void **state) {
  (void)state;
  float row[9] = {0.5f, 0.25f, 0.5f, 1, INFINITY, 0, 0.3f, 0.6f, 1};
  gconv_colour_premultiply_row(3, row, 3);
  assert_true(row[0] == 0.25f && row[1] == 0.125f && row[2] == 0.5f && row[3] == 0 && row[4] == 0 && row[5] == 0);
  gconv_colour_unpremultiply_row(3, row, 3);
  assert_true(row[0] == 0.5f && row[1] == 0.25f && row[2] == 0.5f && row[3] == 0 && row[6] == 0.3f && row[7] == 0.6f);
  row[2] = -0.1f;
  gconv_colour_unpremultiply_row(3, row, 1);
  assert_true(row[0] == 0 && row[1] == 0 && row[2] == -0.1f);
}

static void test_to_float(void **state) {
  (void)state;
  uint8_t levels[256];
  float out[256];
  for (int v = 0; v < 256; v++)
    levels[v] = (uint8_t)v;
  gconv_colour_to_float_row(GCONV_U8, levels, out, 256);
  for (int v = 0; v < 256; v++)
    assert_true(out[v] == (float)(v / 255.0));
  float copy[256];
  gconv_colour_to_float_row(GCONV_F32, out, copy, 256);
  assert_memory_equal(copy, out, sizeof copy);
}

static void test_from_float(void **state) {
  (void)state;
  const float in[] = {0, 1, -1, 2, NAN, INFINITY, -INFINITY, 0.5f, 1.5f / 255, 2.5f / 255, -0.0f, 1e30f};
  enum { COUNT = sizeof in / sizeof in[0] };
  const uint8_t expected[COUNT] = {0, 255, 0, 255, 0, 255, 0, 128, 2, 2, 0, 255};
  uint8_t out[COUNT];
  uint16_t wide[COUNT];
  gconv_colour_from_float_row(GCONV_U8, in, out, COUNT);
  assert_memory_equal(out, expected, COUNT);
  gconv_colour_from_float_row(GCONV_U16, in, wide, COUNT);
  assert_int_equal(wide[1], 65535);
  assert_int_equal(wide[4], 0);
  assert_int_equal(wide[7], 32768); /* 32767.5 to even */
  float copy[COUNT];
  gconv_colour_from_float_row(GCONV_F32, in, copy, COUNT);
  assert_memory_equal(copy, in, sizeof in);
}

/* A row of pixels whose channels are mixed, against sums in double. */
static void check_mixed(gconv_type type, int channels, bool wrap, bool integers, size_t pixels) {
  enum { MOST = 500 * 4 };
  static uint16_t in[MOST * 2], out[MOST * 2]; /* as large as floats */
  const double white = type == GCONV_U8 ? 255 : 65535;
  float mixing[4][4] = {{0}};
  for (int c = 0; c < channels; c++)
    for (int d = 0; d < channels; d++)
      mixing[c][d] = integers ? (float)(rand() % 9 - 4) : (float)(rand() % 2001 - 1000) / 700;
  for (size_t i = 0; i < pixels * (size_t)channels; i++)
    if (type == GCONV_U8)
      ((uint8_t *)in)[i] = (uint8_t)rand();
    else if (type == GCONV_U16)
      in[i] = (uint16_t)rand();
    else
      ((float *)in)[i] = (float)(rand() % 1000) / 999;
  const gconv_colour_rows rows = {type, channels, pixels, 1, in, out, 0, 0};
  gconv_colour_mix_rows(&rows, (const float(*)[4])mixing, wrap);
  for (size_t i = 0; i < pixels * (size_t)channels; i++) {
    double sum = 0, most = 0;
    for (size_t d = 0, first = i - i % (size_t)channels; d < (size_t)channels; d++) {
      double sample = type == GCONV_U8    ? ((uint8_t *)in)[first + d]
                      : type == GCONV_U16 ? in[first + d]
                                          : (double)((float *)in)[first + d];
      sum += (double)mixing[i % (size_t)channels][d] * sample;
      most += fabs((double)mixing[i % (size_t)channels][d] * sample);
    }
    if (type == GCONV_F32) {
      assert_true(fabs((double)((float *)out)[i] - sum) <= 4e-7 * most);
      continue;
    }
    double got = type == GCONV_U8 ? ((uint8_t *)out)[i] : out[i];
    double level = wrap ? trunc(sum) : rint(fmin(fmax(sum, 0), white));
    double wrong = fabs(fmod(got - level, white + 1));
    wrong = fmin(wrong, white + 1 - wrong);
    if (wrong > (integers ? 0 : 1) || (wrong > 0 && fabs(sum * 2 - rint(sum * 2)) > 0.1))
      fail_msg("type %d, %d channels, sample %zu: %g for %g", (int)type, channels, i, got, sum);
  }
}

static void test_mix(void **state) {
  (void)state;
  static const size_t pixels[] = {1, 2, 17, 63, 64, 65, 200, 500};
  srand(7);
  for (int channels = 1; channels <= 4; channels++)
    for (int type = GCONV_U8; type <= GCONV_F32; type++)
      for (int kind = 0; kind < 4; kind++)
        for (size_t i = 0; i < sizeof pixels / sizeof pixels[0]; i++)
          check_mixed((gconv_type)type, channels, kind & 1, kind & 2, pixels[i]);
}

/* NaN is mixed with the channels of its own pixel only. */
static void test_mix_of_nan(void **state) {
  (void)state;
  float in[3 * 200], out[3 * 200];
  const float mixing[4][4] = {{1, 1, 1}, {0, 1, 1}, {1, 1, 1}};
  for (int i = 0; i < 600; i++)
    in[i] = i == 300 ? NAN : 1;
  gconv_colour_mix_rows(&(gconv_colour_rows){GCONV_F32, 3, 200, 1, in, out, 0, 0}, mixing, false);
  for (int i = 0; i < 600; i++)
    assert_int_equal(isnan(out[i]) != 0, i == 300 || i == 302);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_grey_of_levels),
      cmocka_unit_test(test_grey_of_rows),
      cmocka_unit_test(test_luminance),
      cmocka_unit_test(test_linear_of_levels),
      cmocka_unit_test(test_curves_of_floats),
      cmocka_unit_test(test_curves_leave_alpha),
      cmocka_unit_test(test_levels_survive),
      cmocka_unit_test(test_premultiply),
      cmocka_unit_test(test_to_float),
      cmocka_unit_test(test_from_float),
      cmocka_unit_test(test_mix),
      cmocka_unit_test(test_mix_of_nan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

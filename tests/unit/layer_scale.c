/* SPDX-License-Identifier: MIT */
/* Scales of tensor cores' digits: for a largest sample or weight of any magnitude, two digits of float16 hold all bits that
 * the error bound counts on, and scaling back is exact. The digits are those that kernels/cuda/layer makes, emulated. */
#include "kernels/scale.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static float of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Rounds to float16: 11 bits, and no unit below 2^-24. */
static double half(double v) {
  int exponent;
  frexp(v, &exponent);
  double unit = ldexp(1, exponent - 11 > -24 ? exponent - 11 : -24);
  return nearbyint(v / unit) * unit;
}

static void two_digits_hold_any_number(void **state) {
  (void)state;
  for (uint32_t bits = 1; bits < 0x7f800000; bits += 4057) {
    const double x = (double)of_bits(bits);
    const int exponent = gconv_scale_exponent(bits);
    const float scale = ldexpf(1, exponent), back = ldexpf(1, -exponent);
    if (!isnormal(scale) || !isnormal(back) || scale * back != 1)
      fail_msg("%a: the scale 2^%d cannot be undone", x, exponent);
    const double scaled = x * (double)scale, high = half(scaled), low = half(scaled - high);
    if (!(scaled < 0x1p15))
      fail_msg("%a becomes %a: its digits are out of range", x, scaled);
    if (fabs(scaled - high - low) * (double)back > fmax(0x1p-22 * x, 0x1p-150))
      fail_msg("%a, scaled by 2^%d: its digits err by %a of it", x, exponent, fabs(scaled - high - low) / scaled);
  }
}

static void what_is_not_finite_is_not_scaled(void **state) {
  (void)state;
  assert_int_equal(gconv_scale_exponent(0x7f800000), 0);
  assert_int_equal(gconv_scale_exponent(0x7fc00000), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(two_digits_hold_any_number),
                                     cmocka_unit_test(what_is_not_finite_is_not_scaled)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

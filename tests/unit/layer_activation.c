/* SPDX-License-Identifier: MIT */
/* Activations: the vector code of the CPU has the bits of activation.h, these are what they were when the exact family
 * began, and they are near what libm says. GCONV_ISA selects the vectors. */
#include "kernels/activation.h"
#include "kernels/cpu/layer/stage.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEP = 9973, BATCH = 1027 }; /* of all floats by their bits, every STEP-th; not a multiple of any vector */

static const gconv_activation all[] = {GCONV_ACTIVATION_SIGMOID, GCONV_ACTIVATION_TANH, GCONV_ACTIVATION_RELU,
                                       GCONV_ACTIVATION_LEAKY, GCONV_ACTIVATION_NONE};

static gconv_layer_problem problem_of(gconv_activation activation) {
  return (gconv_layer_problem){.activation = activation, .slope = activation == GCONV_ACTIVATION_LEAKY ? 0.25F : 1};
}

static float of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* NaN stays NaN; its other bits do not count. */
static bool same(float a, float b) {
  return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b));
}

static void check_vectors(const float *values, size_t count) {
  float results[BATCH];
  for (size_t a = 0; a < sizeof all / sizeof *all; a++) {
    gconv_layer_problem problem = problem_of(all[a]);
    memcpy(results, values, count * sizeof *values);
    gconv_layer_activate(&problem, results, count);
    for (size_t i = 0; i < count; i++)
      if (!same(results[i], gconv_activate(&problem, values[i])))
        fail_msg("activation %d of %a is %a in vectors", (int)all[a], (double)values[i], (double)results[i]);
  }
}

/* Infinities, NaN, both zeros, the smallest and largest denormals, and neighbours of where the formulas change. */
static void odd_numbers(void **state) {
  static const uint32_t odd[] = {0x7f800000, 0x7fc00000, 0x7f800001, 0, 1, 0x007fffff, 0x00800000, 0x7f7fffff, 0x42ae0000};
  static const float edges[] = {87, 43.5F, 0.25F, 1, 0.34657359F, 88.7F, 103.9F, 17.33F, 9.01F};
  float values[BATCH];
  size_t count = 0;
  (void)state;
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
    for (uint32_t sign = 0; sign < 2; sign++)
      values[count++] = of_bits(odd[i] | sign << 31);
  for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
    for (int away = -8; away <= 8; away++)
      for (int sign = -1; sign <= 1; sign += 2)
        values[count++] = (float)sign * of_bits(bits_of(edges[i]) + (uint32_t)away);
  check_vectors(values, count);
  for (size_t length = 0; length < 70; length++) /* of vectors that are not full */
    check_vectors(values + length, length);
}

static void all_floats(void **state) {
  float values[BATCH];
  size_t count = 0;
  (void)state;
  for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += STEP) {
    values[count++] = of_bits((uint32_t)bits);
    if (count == BATCH) {
      check_vectors(values, count);
      count = 0;
    }
  }
  check_vectors(values, count);
}

/* The exact family never changes: hashes of the results of 2026, of every STEP-th float that is a number. */
static void the_bits_stay(void **state) {
  static const uint64_t hashes[] = {UINT64_C(0x6c5a8be4a7561168), UINT64_C(0x59669fe81f170b92), UINT64_C(0x02ff61bfee830d8d),
                                    UINT64_C(0x5b4b6c3abd84b866)};
  (void)state;
  for (size_t a = 0; a < sizeof hashes / sizeof *hashes; a++) {
    gconv_layer_problem problem = problem_of(all[a]);
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a, of whole numbers */
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += STEP) {
      float value = of_bits((uint32_t)bits);
      if (!isnan(value))
        hash = (hash ^ bits_of(gconv_activate(&problem, value))) * UINT64_C(1099511628211);
    }
    assert_true(hash == hashes[a]);
  }
}

static void near_libm(void **state) {
  (void)state;
  for (double v = -100; v < 100; v += 0.00731) {
    double sigmoid = 1 / (1 + exp(-(double)(float)v)), squashed = tanh((double)(float)v);
    assert_true(fabs((double)gconv_sigmoid((float)v) - sigmoid) <= 0x1p-21 * sigmoid + 1e-37);
    assert_true(fabs((double)gconv_tanh((float)v) - squashed) <= 0x1p-21 * fabs(squashed));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(odd_numbers), cmocka_unit_test(all_floats),
                                     cmocka_unit_test(the_bits_stay), cmocka_unit_test(near_libm)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

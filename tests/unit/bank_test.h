/* SPDX-License-Identifier: MIT */
/* What the tests of banks share. */
#ifndef GCONV_TESTS_BANK_TEST_H
#define GCONV_TESTS_BANK_TEST_H

#include "filter_test.h"

/* Reads what must be readable. */
static inline gconv_bank bank_good(const char *spec, const char *syntax) {
  gconv_bank bank = {0};
  logged[0] = '\0';
  if (gconv_bank_read(spec, syntax, &bank) != GCONV_OK)
    fail_msg("'%s': %s", spec, gconv_last_error());
  return bank;
}

/* Reads what must fail, with this status and a text that has `fragment` in it. */
static inline void bank_bad(const char *spec, const char *syntax, gconv_status status, const char *fragment) {
  gconv_bank bank = {0};
  gconv_status got = gconv_bank_read(spec, syntax, &bank);
  if (got != status || !strstr(gconv_last_error(), fragment))
    fail_msg("'%s': status %d, \"%s\"; expected status %d and \"%s\"", spec, got, got ? gconv_last_error() : "", status,
             fragment);
  assert_null(bank.weights);
}

static inline void assert_shape(const gconv_bank *bank, int32_t filters, int32_t channels, int32_t rows, int32_t columns) {
  assert_int_equal(bank->filters, filters);
  assert_int_equal(bank->channels, channels);
  assert_int_equal(bank->rows, rows);
  assert_int_equal(bank->columns, columns);
}

static inline size_t weights_of(const gconv_bank *bank) {
  return (size_t)bank->filters * (size_t)bank->channels * (size_t)bank->rows * (size_t)bank->columns;
}

/* Equal bits. */
static inline void assert_floats(const float *got, const float *expected, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (memcmp(&got[i], &expected[i], sizeof *got) != 0)
      fail_msg("number %zu is %.9g, expected %.9g", i, (double)got[i], (double)expected[i]);
}

#endif

/* SPDX-License-Identifier: MIT */
/* border.h against rows of letters, written out by hand. */
#include "kernels/border.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Positions -(n+2) .. of "abcd" and of shorter rows, as they must read; '.' is the constant. */
static void check(gconv_border border, const char *row, int64_t first, const char *expected) {
  int64_t size = (int64_t)strlen(row);
  for (size_t i = 0; expected[i]; i++) {
    int64_t index = gconv_border_index(border, first + (int64_t)i, size);
    assert_in_range(index + 1, 0, (uintmax_t)size);
    assert_int_equal(index == GCONV_OUTSIDE ? '.' : row[index], expected[i]);
  }
}

static void zero_and_constant(void **state) {
  (void)state;
  check(GCONV_BORDER_ZERO, "abcd", -3, "...abcd...");
  check(GCONV_BORDER_CONSTANT, "abcd", -3, "...abcd...");
  check(GCONV_BORDER_ZERO, "a", -2, "..a..");
}

static void replicate(void **state) {
  (void)state;
  check(GCONV_BORDER_REPLICATE, "abcd", -5, "aaaaaabcdddddd");
  check(GCONV_BORDER_REPLICATE, "a", -2, "aaaaa");
}

static void symmetric(void **state) {
  (void)state;
  check(GCONV_BORDER_SYMMETRIC, "abcd", -9, "aabcddcbaabcddcbaabcd");
  check(GCONV_BORDER_SYMMETRIC, "abcdefgh", -10, "ghhgfedcbaabcdefghhgfedcbaab");
  check(GCONV_BORDER_SYMMETRIC, "ab", -5, "aabbaabbaa");
  check(GCONV_BORDER_SYMMETRIC, "a", -2, "aaaaa");
}

static void reflect101(void **state) {
  (void)state;
  check(GCONV_BORDER_REFLECT101, "abcd", -7, "babcdcbabcdcbabcd");
  check(GCONV_BORDER_REFLECT101, "abcdefgh", -9, "fghgfedcbabcdefghgfedcbabc");
  check(GCONV_BORDER_REFLECT101, "ab", -4, "abababab");
  check(GCONV_BORDER_REFLECT101, "a", -2, "aaaaa");
}

static void wrap(void **state) {
  (void)state;
  check(GCONV_BORDER_WRAP, "abcd", -6, "cdabcdabcdabcd");
  check(GCONV_BORDER_WRAP, "abcdefgh", -9, "habcdefghabcdefgha");
  check(GCONV_BORDER_WRAP, "a", -2, "aaaaa");
}

static void far_away(void **state) {
  (void)state;
  const int64_t far = INT64_C(1) << 40;
  for (int border = GCONV_BORDER_REPLICATE; border <= GCONV_BORDER_WRAP; border++)
    for (int64_t size = 1; size < 8; size++)
      for (int64_t i = -3; i < 4; i++) {
        assert_in_range(gconv_border_index((gconv_border)border, far + i, size), 0, (uintmax_t)size - 1);
        assert_in_range(gconv_border_index((gconv_border)border, -far + i, size), 0, (uintmax_t)size - 1);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(zero_and_constant), cmocka_unit_test(replicate), cmocka_unit_test(symmetric),
      cmocka_unit_test(reflect101),        cmocka_unit_test(wrap),      cmocka_unit_test(far_away)};
  return cmocka_run_group_tests_name("border", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Stores of numbers: what was appended is there, in memory and in a file. */
#include "data/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 700001 };

static void fill(gconv_store *store) {
  for (uint32_t i = 0; i < COUNT;) {
    uint32_t numbers[1000], count = 0;
    while (count < i % 999 + 1 && i < COUNT)
      numbers[count++] = i++ * 2654435761u;
    assert_int_equal(gconv_store_append(store, numbers, count * sizeof *numbers), GCONV_OK);
  }
  assert_int_equal(gconv_store_finish(store), GCONV_OK);
  assert_int_equal(store->size, COUNT * sizeof(uint32_t));
  for (uint32_t i = 0; i < COUNT; i++)
    assert_int_equal(((const uint32_t *)(const void *)store->bytes)[i], i * 2654435761u);
}

static void test_limits(void **state) {
  (void)state;
  const uint64_t limits[] = {0, 1, 4096, 1 << 20, COUNT * 4 - 1, COUNT * 4};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    gconv_store store = {.limit = limits[i]};
    fill(&store);
    assert_int_equal(store.mapped, limits[i] > 0 && limits[i] < COUNT * 4);
    gconv_store_free(&store);
  }
}

static void test_no_folder(void **state) {
  (void)state;
  gconv_store store = {.limit = 1};
  setenv("TMPDIR", "/nowhere/at/all", 1);
  assert_int_equal(gconv_store_append(&store, "1234", 4), GCONV_IO_ERROR);
  assert_non_null(strstr(gconv_last_error(), "/nowhere/at/all: cannot keep"));
  assert_non_null(strstr(gconv_last_error(), "TMPDIR names another folder"));
  unsetenv("TMPDIR");
  gconv_store_free(&store);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits), cmocka_unit_test(test_no_folder)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* What is remembered of this machine: where, and what happens where that is not possible. */
#include "base/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/gconv-test.XXXXXX";

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

/* Each argument is the value of a variable, or NULL to have it unset. */
static void set_variables(const char *gconv, const char *xdg, const char *home) {
  const char *const names[] = {"GCONV_CACHE", "XDG_CACHE_HOME", "HOME"}, *const values[] = {gconv, xdg, home};
  for (int i = 0; i < 3; i++)
    assert_int_equal(values[i] ? setenv(names[i], values[i], 1) : unsetenv(names[i]), 0);
}

static void expect_path(const char *expected) {
  char *path = gconv_cache_path("a");
  if (expected)
    assert_string_equal(path, expected);
  else
    assert_null(path);
  free(path);
}

static void write_raw(const char *path, const char *bytes, size_t size) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  fclose(file);
}

static void the_folder_follows_the_environment(void **state) {
  (void)state;
  set_variables("here", "/x", "/h");
  expect_path("here/a");
  set_variables(NULL, "/x", "/h");
  expect_path("/x/gconv/a");
  set_variables(NULL, NULL, "/h");
  expect_path("/h/.cache/gconv/a");
  set_variables(NULL, "relative", "/h");
  expect_path("/h/.cache/gconv/a");
  set_variables(NULL, "", "relative");
  expect_path(NULL);
  set_variables(NULL, NULL, NULL);
  expect_path(NULL);
  set_variables("", "/x", "/h");
  expect_path(NULL);
}

static void without_a_folder_nothing_is_remembered(void **state) {
  (void)state;
  set_variables(NULL, NULL, NULL);
  assert_false(gconv_cache_write("a", "text"));
  assert_null(gconv_cache_read("a"));
}

static void what_is_written_is_read(void **state) {
  (void)state;
  set_variables(NULL, NULL, folder);
  assert_null(gconv_cache_read("a"));
  assert_true(gconv_cache_write("a", "first, and longer\n"));
  assert_true(gconv_cache_write("a", "second\n"));
  char *text = gconv_cache_read("a");
  assert_string_equal(text, "second\n");
  free(text);
  assert_true(gconv_cache_write("empty", ""));
  text = gconv_cache_read("empty");
  assert_string_equal(text, "");
  free(text);
}

static void what_is_no_file_is_not_read(void **state) {
  (void)state;
  set_variables("odd", NULL, NULL);
  assert_int_equal(mkdir("odd", 0700), 0);
  assert_int_equal(mkdir("odd/folder", 0700), 0);
  assert_int_equal(mkfifo("odd/pipe", 0600), 0);
  assert_int_equal(symlink("nowhere", "odd/broken"), 0);
  const char *const names[] = {"folder", "pipe", "broken"};
  for (int i = 0; i < 3; i++)
    assert_null(gconv_cache_read(names[i]));
  assert_false(gconv_cache_write("folder", "text"));
  assert_false(gconv_cache_write("pipe", "text"));
  char *huge = calloc(1, (1 << 20) + 1);
  write_raw("odd/huge", huge, (1 << 20) + 1);
  free(huge);
  assert_null(gconv_cache_read("huge"));
}

static void a_folder_that_cannot_be_is_no_failure(void **state) {
  (void)state;
  write_raw("file", "x", 1);
  set_variables("file/below", NULL, NULL);
  assert_false(gconv_cache_write("a", "text"));
  assert_null(gconv_cache_read("a"));
  set_variables("/proc/gconv", NULL, NULL); /* where not even root makes folders */
  assert_false(gconv_cache_write("a", "text"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_folder_follows_the_environment),
      cmocka_unit_test(without_a_folder_nothing_is_remembered),
      cmocka_unit_test(what_is_written_is_read),
      cmocka_unit_test(what_is_no_file_is_not_read),
      cmocka_unit_test(a_folder_that_cannot_be_is_no_failure),
  };
  return cmocka_run_group_tests_name("base/cache", tests, make_folder, remove_folder);
}

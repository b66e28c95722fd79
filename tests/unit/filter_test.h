/* SPDX-License-Identifier: MIT */
/* What the tests of filters share: a folder of their own to work in, files made of strings, and what was logged last. */
#ifndef GCONV_TESTS_FILTER_TEST_H
#define GCONV_TESTS_FILTER_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gconv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static char logged[4096];
static gconv_log_level logged_level;

static inline void keep_log(gconv_log_level level, const char *text, void *user) {
  (void)user;
  logged_level = level;
  snprintf(logged, sizeof logged, "%s", text);
}

/* A group's setup: works in an empty folder from then on. */
static inline int enter_folder(void **state) {
  (void)state;
  char folder[] = "/tmp/gconv-filter-XXXXXX";
  gconv_set_log(keep_log, NULL);
  return mkdtemp(folder) && chdir(folder) == 0 ? 0 : 1;
}

/* A group's teardown: removes the folder, in which are files only. */
static inline int leave_folder(void **state) {
  (void)state;
  return system("rm -rf \"$PWD\"") == 0 ? 0 : 1;
}

static inline void write_bytes(const char *name, const void *bytes, size_t size) {
  FILE *file = fopen(name, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static inline void write_string(const char *name, const char *text) {
  write_bytes(name, text, strlen(text));
}

/* Reads what must be readable. */
static inline gconv_filters read_good(const char *spec, const char *syntax) {
  gconv_filters list = {0};
  logged[0] = '\0';
  gconv_status status = gconv_filters_read(spec, syntax, &list);
  if (status != GCONV_OK)
    fail_msg("'%s': %s", spec, gconv_last_error());
  return list;
}

/* Reads what must fail, with this status and a text that has `fragment` in it. */
static inline void read_bad(const char *spec, const char *syntax, gconv_status status, const char *fragment) {
  gconv_filters list = {0};
  gconv_status got = gconv_filters_read(spec, syntax, &list);
  if (got != status || !strstr(gconv_last_error(), fragment))
    fail_msg("'%s': status %d, \"%s\"; expected status %d and \"%s\"", spec, got, got ? gconv_last_error() : "", status,
             fragment);
  assert_int_equal(list.count, 0);
  gconv_filters_free(&list);
}

static inline void assert_taps(const gconv_filter *filter, int32_t rows, int32_t columns, const float *taps) {
  assert_int_equal(filter->rows, rows);
  assert_int_equal(filter->columns, columns);
  for (int32_t i = 0; i < rows * columns; i++)
    if (!(filter->taps[i] == taps[i]))
      fail_msg("%s: tap %d is %.9g, expected %.9g", filter->name, i, (double)filter->taps[i], (double)taps[i]);
}

#endif

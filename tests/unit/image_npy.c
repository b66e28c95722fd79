/* SPDX-License-Identifier: MIT */
/* .npy files by hand: headers in every shape, byte orders, Fortran order, and what must be refused. */
#include "base/npy_header.h"
#include "gconv.h"
#include "image/rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];

/* Writes magic, version, length, `dict` and the elements to the file. */
static void write_npy(int version, const char *dict, const void *items, size_t bytes) {
  uint8_t prefix[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', (uint8_t)version, 0};
  size_t length = strlen(dict);
  prefix[8] = (uint8_t)(length & 255);
  prefix[9] = (uint8_t)(length >> 8);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fwrite(prefix, 1, version == 1 ? 10 : 12, file);
  fwrite(dict, 1, length, file);
  fwrite(items, 1, bytes, file);
  assert_int_equal(fclose(file), 0);
}

static gconv_image read_good(void) {
  gconv_image image = {0};
  if (gconv_image_read(path, NULL, &image) != GCONV_OK)
    fail_msg("%s", gconv_last_error());
  return image;
}

static void expect_bad(const char *dict, gconv_status expected, const char *words) {
  static const uint8_t zeros[256];
  gconv_image image = {0};
  write_npy(1, dict, zeros, sizeof zeros);
  gconv_status status = gconv_image_read(path, NULL, &image);
  if (status != expected || !strstr(gconv_last_error(), words))
    fail_msg("%s: status %d, not %d with '%s': %s", dict, (int)status, (int)expected, words, gconv_last_error());
  assert_null(image.data);
}

static void test_headers(void **state) {
  (void)state;
  static const char *const dicts[] = {
      "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n",
      "{'shape':(2,3),'descr':'<u1','fortran_order':False}",
      " { \"fortran_order\" : False ,\n\"shape\":( 2L , 3L, ) , \"descr\": \"=u1\" , } ",
      "{'descr': '>u1', 'fortran_order': False, 'shape': (2, 3, 1)}",
  };
  for (size_t i = 0; i < sizeof dicts / sizeof dicts[0]; i++)
    for (int version = 1; version <= 3; version++) {
      write_npy(version, dicts[i], "abcdef", 6);
      gconv_image image = read_good();
      assert_true(image.type == GCONV_U8 && image.height == 2 && image.width == 3 && image.channels == 1 && !image.planar);
      assert_memory_equal(image.data, "abcdef", 6);
      gconv_image_free(&image);
    }
}

static void test_types(void **state) {
  (void)state;
  write_npy(1, "{'descr': '>u2', 'fortran_order': False, 'shape': (1, 2)}", "\1\2\3\4", 4);
  gconv_image image = read_good();
  assert_true(((uint16_t *)image.data)[0] == 0x0102 && ((uint16_t *)image.data)[1] == 0x0304);
  gconv_image_free(&image);
  write_npy(1, "{'descr': '<u2', 'fortran_order': False, 'shape': (1, 2)}", "\1\2\3\4", 4);
  image = read_good();
  assert_true(((uint16_t *)image.data)[0] == 0x0201 && ((uint16_t *)image.data)[1] == 0x0403);
  gconv_image_free(&image);
  write_npy(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (1, 1)}", "\xc0\x20\0\0", 4);
  image = read_good();
  assert_true(image.type == GCONV_F32 && ((float *)image.data)[0] == -2.5f);
  gconv_image_free(&image);
  write_npy(1, "{'descr': '>f8', 'fortran_order': False, 'shape': (1, 1)}", "\xc0\x04\0\0\0\0\0\0", 8);
  image = read_good();
  assert_true(image.type == GCONV_F32 && ((float *)image.data)[0] == -2.5f);
  gconv_image_free(&image);
}

static void test_halves_and_bools(void **state) {
  (void)state;
  static const char *const dicts[] = {"{'descr': '<f2', 'fortran_order': False, 'shape': (2, 2)}",
                                      "{'descr': '>f2', 'fortran_order': False, 'shape': (2, 2)}",
                                      "{'descr': '<f2', 'fortran_order': True, 'shape': (2, 2)}"};
  static const char *const bytes[] = {"\0\xc1\1\0\0\xfc\xff\x7b", "\xc1\0\0\1\xfc\0\x7b\xff", "\0\xc1\0\xfc\1\0\xff\x7b"};
  for (int i = 0; i < 3; i++) {
    write_npy(1, dicts[i], bytes[i], 8);
    gconv_image image = read_good();
    const float *samples = image.data;
    assert_true(image.type == GCONV_F32 && samples[0] == -2.5f && samples[1] == 0x1p-24f);
    assert_true(samples[2] == -INFINITY && samples[3] == 65504);
    gconv_image_free(&image);
  }
  write_npy(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (1, 3)}", "\1\0\7", 3);
  gconv_image image = read_good();
  assert_int_equal(image.type, GCONV_U8);
  assert_memory_equal(image.data, "\xff\0\xff", 3);
  gconv_image_free(&image);
}

/* The bytes count up in Fortran order; `place` says where in C order each must be. */
static void check_fortran(const char *dict, int dimensions, const size_t shape[4], const char *type) {
  uint8_t items[256] = {0}, expected[256] = {0};
  size_t count = 1, strides[4] = {0};
  for (int d = dimensions; d-- > 0;) {
    strides[d] = count;
    count *= shape[d];
  }
  for (size_t i = 0; i < count; i++) {
    size_t rest = i, place = 0;
    for (int d = 0; d < dimensions; rest /= shape[d++])
      place += rest % shape[d] * strides[d];
    items[i] = expected[place] = (uint8_t)(i + 1);
  }
  double doubles[256] = {0};
  for (size_t i = 0; i < count; i++)
    doubles[i] = items[i];
  bool is_double = strcmp(type, "f8") == 0;
  write_npy(1, dict, is_double ? (const void *)doubles : items, is_double ? count * 8 : count);
  gconv_image image = read_good();
  for (size_t i = 0; i < count; i++)
    assert_int_equal(is_double ? (int)((float *)image.data)[i] : ((uint8_t *)image.data)[i], expected[i]);
  gconv_image_free(&image);
}

static void test_fortran_order(void **state) {
  (void)state;
  check_fortran("{'descr': '|u1', 'fortran_order': True, 'shape': (3, 5)}", 2, (size_t[4]){3, 5}, "u1");
  check_fortran("{'descr': '|u1', 'fortran_order': True, 'shape': (3, 5, 4)}", 3, (size_t[4]){3, 5, 4}, "u1");
  check_fortran("{'descr': '|u1', 'fortran_order': True, 'shape': (3, 4, 5)}", 3, (size_t[4]){3, 4, 5}, "u1");
  check_fortran("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 5, 7)}", 4, (size_t[4]){2, 3, 5, 7}, "u1");
  check_fortran("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3, 5, 7)}", 4, (size_t[4]){2, 3, 5, 7}, "f8");
}

static int remarks;
static void count_remarks(gconv_log_level level, const char *text, void *user) {
  (void)user;
  remarks += level == GCONV_LOG_REMARK && strstr(text, "float64");
}

static void test_lost_digits_are_remarked(void **state) {
  (void)state;
  const double exact[2] = {0.5, 1e30 - 1e30}, inexact[2] = {0.5, 0.1};
  const char *dict = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2)}";
  gconv_set_log(count_remarks, NULL);
  write_npy(1, dict, exact, sizeof exact);
  gconv_image image = read_good();
  gconv_image_free(&image);
  assert_int_equal(remarks, 0);
  write_npy(1, dict, inexact, sizeof inexact);
  image = read_good();
  assert_true(((float *)image.data)[1] == 0.1f);
  gconv_image_free(&image);
  assert_int_equal(remarks, 1);
  gconv_set_log(NULL, NULL);
}

static void test_refused(void **state) {
  (void)state;
#define SHAPE(text) "{'descr': '|u1', 'fortran_order': False, 'shape': " text "}"
#define TYPE(text) "{'descr': " text ", 'fortran_order': False, 'shape': (1, 1)}"
  expect_bad(SHAPE("(0, 3)"), GCONV_BAD_FILE, "dimension 1 of the array is 0");
  expect_bad(SHAPE("(3,)"), GCONV_UNSUPPORTED, "an array of 1 dimension; an image is");
  expect_bad(SHAPE("()"), GCONV_UNSUPPORTED, "0 dimensions");
  expect_bad(SHAPE("(1,1,1,1,1)"), GCONV_UNSUPPORTED, "5 dimensions");
  expect_bad(SHAPE("(1,1,1,1,1,1,1,1,1)"), GCONV_UNSUPPORTED, "more than 8");
  expect_bad(SHAPE("(1, -1)"), GCONV_BAD_FILE, "whole number");
  expect_bad(SHAPE("(1, 1"), GCONV_BAD_FILE, "',' or ')'");
  expect_bad(SHAPE("(1 1)"), GCONV_BAD_FILE, "',' or ')'");
  expect_bad(SHAPE("1"), GCONV_BAD_FILE, "parentheses");
  expect_bad(SHAPE("(99999999999999999999, 1)"), GCONV_BAD_FILE, "smaller number");
  expect_bad(SHAPE("(4294967296, 4294967296)"), GCONV_TOO_LARGE, "larger than any memory");
  expect_bad(SHAPE("(1, 4294967296)"), GCONV_BAD_FILE, "2^31");
  expect_bad(SHAPE("(100000, 100000)"), GCONV_BAD_FILE, "promises");
  expect_bad(TYPE("'|O'"), GCONV_UNSUPPORTED, "'|O'");
  expect_bad(TYPE("'<c8'"), GCONV_UNSUPPORTED, "'<c8'");
  expect_bad(TYPE("'<U12'"), GCONV_UNSUPPORTED, "'<U12'");
  expect_bad(TYPE("[('a', '<f4')]"), GCONV_UNSUPPORTED, "records");
  expect_bad(TYPE("'u1"), GCONV_UNSUPPORTED, "type");
  expect_bad(TYPE("'"), GCONV_UNSUPPORTED, "type");
  expect_bad("{'descr': '|u1', 'fortran_order': False}", GCONV_BAD_FILE, "'shape' is missing");
  expect_bad("{'descr': '|u1', 'descr': '|u1'}", GCONV_BAD_FILE, "'descr' is there twice");
  expect_bad("{'colour': 1}", GCONV_BAD_FILE, "'colour' is not known");
  expect_bad("{'descr' '|u1'}", GCONV_BAD_FILE, "expected ':'");
  expect_bad("{'descr': '|u1' 'shape': (1, 1)}", GCONV_BAD_FILE, "',' or '}'");
  expect_bad("{'fortran_order': Maybe}", GCONV_BAD_FILE, "True or False");
  expect_bad("{'fortran_order': Tru", GCONV_BAD_FILE, "True or False");
  expect_bad("{'descr", GCONV_BAD_FILE, "closing quote");
  expect_bad("{descr", GCONV_BAD_FILE, "quoted");
  expect_bad("hello", GCONV_BAD_FILE, "'{'");
  expect_bad("", GCONV_BAD_FILE, "'{'");
}

static void test_versions_and_lengths(void **state) {
  (void)state;
  gconv_image image = {0};
  write_npy(4, "{}", "", 0);
  assert_int_equal(gconv_image_read(path, NULL, &image), GCONV_UNSUPPORTED);
  assert_non_null(strstr(gconv_last_error(), "version 4"));
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fwrite("\x93NUMPY\2\0\xff\xff\xff\xff", 1, 12, file);
  fclose(file);
  assert_int_equal(gconv_image_read(path, NULL, &image), GCONV_TOO_LARGE);
  assert_non_null(strstr(gconv_last_error(), "claims 4294967295 bytes"));
}

/* The elements begin at a multiple of 64 bytes, and the header is read as it was written. */
static void test_written_header(void **state) {
  (void)state;
  for (int dimensions = 0; dimensions <= GCONV_NPY_DIMENSIONS; dimensions++) {
    gconv_npy_header header = {.kind = 'f', .item_bytes = 4, .dimensions = dimensions, .fortran_order = dimensions % 2},
                     back;
    for (int d = 0; d < dimensions; d++)
      header.shape[d] = (size_t)d * 31 % 7 + 1;
    gconv_sink *sink;
    assert_int_equal(gconv_sink_open(path, &sink), GCONV_OK);
    assert_int_equal(gconv_npy_header_write(sink, &header), GCONV_OK);
    assert_int_equal(gconv_sink_commit(sink, false), GCONV_OK);
    gconv_source source;
    assert_int_equal(gconv_source_open(path, &source), GCONV_OK);
    assert_int_equal(gconv_npy_header_read(&source, &back), GCONV_OK);
    assert_int_equal(source.position % 64, 0);
    assert_int_equal(source.position, source.size);
    gconv_source_close(&source);
    assert_true(back.kind == 'f' && back.item_bytes == 4 && back.dimensions == dimensions);
    assert_int_equal(back.fortran_order, header.fortran_order);
    assert_memory_equal(back.shape, header.shape, sizeof back.shape);
  }
}

/* 2 x 3 planes of 5 x 4, the last row of the last plane first. */
static void test_rows_in_any_order(void **state) {
  (void)state;
  gconv_image header = {.type = GCONV_F32, .frames = 2, .channels = 3, .height = 5, .width = 4, .planar = true};
  gconv_write_options options = {.format = gconv_format_by_name("npy")};
  gconv_row_writer *writer;
  assert_int_equal(gconv_row_writer_open(path, &options, &header, &writer), GCONV_OK);
  assert_true(gconv_row_writer_is_free(writer));
  float row[4];
  for (int i = 6 * 5; i-- > 0;) {
    for (int x = 0; x < 4; x++)
      row[x] = (float)(4 * i + x);
    assert_int_equal(gconv_row_writer_write_at(writer, i / 5, i % 5, row, sizeof row, 1), GCONV_OK);
    if (i == 1)
      assert_int_equal(gconv_row_writer_write_at(writer, 6, 0, row, sizeof row, 1), GCONV_BAD_ARGUMENT);
    if (i == 2)
      assert_int_equal(gconv_row_writer_write_at(writer, 0, 4, row, sizeof row, 2), GCONV_BAD_ARGUMENT);
  }
  assert_int_equal(gconv_row_writer_write_at(writer, 0, 0, row, sizeof row, 1), GCONV_BAD_ARGUMENT); /* all are there */
  assert_int_equal(gconv_row_writer_commit(writer), GCONV_OK);
  gconv_image image = read_good();
  assert_true(image.frames == 2 && image.channels == 3 && image.height == 5 && image.width == 4);
  for (int i = 0; i < 6 * 5 * 4; i++)
    assert_true(((const float *)image.data)[i] == (float)i);
  gconv_image_free(&image);
  header.planar = false;
  assert_int_equal(gconv_row_writer_open(path, &options, &header, &writer), GCONV_OK);
  assert_false(gconv_row_writer_is_free(writer));
  gconv_row_writer_discard(writer);
  header.planar = true;
  assert_int_equal(gconv_row_writer_open("/dev/null", &options, &header, &writer), GCONV_OK);
  assert_false(gconv_row_writer_is_free(writer));
  gconv_row_writer_discard(writer);
}

static int make_file(void **state) {
  (void)state;
  snprintf(path, sizeof path, "/tmp/gconv-test-XXXXXX");
  int file = mkstemp(path);
  return file < 0 ? -1 : close(file);
}

static int remove_file(void **state) {
  (void)state;
  return unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_headers),
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_halves_and_bools),
      cmocka_unit_test(test_fortran_order),
      cmocka_unit_test(test_lost_digits_are_remarked),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_versions_and_lengths),
      cmocka_unit_test(test_written_header),
      cmocka_unit_test(test_rows_in_any_order),
  };
  return cmocka_run_group_tests(tests, make_file, remove_file);
}

/* SPDX-License-Identifier: MIT */
/* Pages of a TIFF by their numbers, and frames that are turned. */
#include "image_test.h"

#include "image/format.h"

#ifdef GCONV_WITH_TIFF
enum { PAGES = 4, WIDTH = 7, HEIGHT = 5 };

/* A page has the number of the page in all its samples. */
static void write_pages(const char *path) {
  gconv_image image = {.type = GCONV_U8, .frames = PAGES, .height = HEIGHT, .width = WIDTH, .channels = 1};
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  for (size_t i = 0; i < PAGES * image.plane_bytes; i++)
    ((uint8_t *)image.data)[i] = (uint8_t)(i / image.plane_bytes + 1);
  assert_int_equal(gconv_image_write(path, NULL, &image), GCONV_OK);
  gconv_image_free(&image);
}

/* Opens the page, and reads its rows to `samples`. */
static gconv_status read_page(const char *path, const char *member, uint8_t samples[HEIGHT * WIDTH], int32_t *frames) {
  gconv_source source;
  gconv_reader reader = {0};
  assert_int_equal(gconv_source_open(path, &source), GCONV_OK);
  source.member = member;
  gconv_status status = gconv_reader_open(&reader, &source, 1000);
  *frames = reader.header.frames;
  if (status == GCONV_OK)
    status = gconv_reader_rows(&reader, samples, WIDTH, HEIGHT);
  gconv_reader_close(&reader);
  gconv_source_close(&source);
  return status;
}

static void test_page_by_number(void **state) {
  (void)state;
  uint8_t samples[HEIGHT * WIDTH];
  int32_t frames;
  write_pages(path_of("x.tif"));
  for (int page = 1; page <= PAGES; page++) {
    char member[] = {(char)('0' + page), '\0'};
    assert_int_equal(read_page(path_of("x.tif"), member, samples, &frames), GCONV_OK);
    assert_int_equal(frames, 1);
    for (int i = 0; i < HEIGHT * WIDTH; i++)
      assert_int_equal(samples[i], page);
  }
  assert_int_equal(read_page(path_of("x.tif"), NULL, samples, &frames), GCONV_OK);
  assert_int_equal(frames, PAGES);
}

static void test_pages_that_are_not_there(void **state) {
  (void)state;
  uint8_t samples[HEIGHT * WIDTH];
  int32_t frames;
  write_pages(path_of("x.tif"));
  assert_int_equal(read_page(path_of("x.tif"), "5", samples, &frames), GCONV_BAD_ARGUMENT);
  assert_non_null(strstr(gconv_last_error(), "has no page 5: there are 4"));
  static const char *const wrong[] = {"0", "-1", "x", "1x", "", "99999999999999999999"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_int_equal(read_page(path_of("x.tif"), wrong[i], samples, &frames), GCONV_BAD_ARGUMENT);
    assert_non_null(strstr(gconv_last_error(), "is no page"));
  }
}
#else
static void test_page_by_number(void **state) {
  (void)state;
  skip();
}
#define test_pages_that_are_not_there test_page_by_number
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_page_by_number),
      cmocka_unit_test(test_pages_that_are_not_there),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

/* SPDX-License-Identifier: MIT */
/* gconv_image_compare() of pixels in memory: rows with gaps, planes, and a file against pixels. */
#include "gconv.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>
#include <unistd.h>

enum { WIDTH = 21, HEIGHT = 33 };

static gconv_image make(int32_t channels, bool planar) {
  gconv_image image = {
      .type = GCONV_U8, .frames = 1, .height = HEIGHT, .width = WIDTH, .channels = channels, .planar = planar};
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  uint8_t *data = image.data;
  for (int i = 0; i < HEIGHT * WIDTH * channels; i++)
    data[i] = (uint8_t)(i * 37 % 251);
  return image;
}

static gconv_difference compare(const gconv_image *a, const gconv_image *b) {
  const gconv_compared x = {.image = a}, y = {.image = b};
  gconv_difference found;
  assert_int_equal(gconv_image_compare(&x, &y, NULL, &found), GCONV_OK);
  return found;
}

/* The same pixels, in rows with `gap` bytes between them. */
static gconv_image spread(const gconv_image *image, size_t gap) {
  gconv_image wide = *image;
  wide.row_bytes += gap;
  wide.plane_bytes = wide.row_bytes * (size_t)wide.height;
  wide.data = malloc(wide.plane_bytes);
  assert_non_null(wide.data);
  memset(wide.data, 0x5a, wide.plane_bytes);
  for (int32_t y = 0; y < wide.height; y++)
    memcpy((uint8_t *)wide.data + (size_t)y * wide.row_bytes, (uint8_t *)image->data + (size_t)y * image->row_bytes,
           image->row_bytes);
  return wide;
}

static void test_rows_with_gaps(void **state) {
  (void)state;
  gconv_image image = make(3, false), wide = spread(&image, 13);
  gconv_difference found = compare(&image, &wide);
  assert_int_equal(found.differing, 0);
  assert_true(isinf(found.psnr) && found.largest == 0);
  assert_true(fabs(found.ssim - 1) < 1e-12);
  uint8_t *sample = (uint8_t *)wide.data + 17 * wide.row_bytes + 5 * 3 + 1;
  *sample ^= 64;
  found = compare(&image, &wide);
  assert_int_equal(found.differing, 1);
  assert_true(found.y == 17 && found.x == 5 && found.channel == 1);
  assert_true(found.largest == 64.0 / 255 && fabs(found.mean * (double)found.samples - 64.0 / 255) < 1e-12);
  free(wide.data);
  gconv_image_free(&image);
}

static void test_planes(void **state) {
  (void)state;
  gconv_image a = make(6, true), b = make(6, true);
  ((uint8_t *)b.data)[4 * b.plane_bytes + 2 * b.row_bytes + 7] ^= 1;
  gconv_difference found = compare(&a, &b);
  assert_true(found.differing == 1 && found.channel == 4 && found.y == 2 && found.x == 7);
  gconv_image_free(&a);
  gconv_image_free(&b);
}

static void test_a_file_against_pixels(void **state) {
  (void)state;
  char path[] = "/tmp/gconv-compare-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  gconv_image image = make(1, false);
  const gconv_write_options options = {.format = gconv_format_by_name("png")};
  assert_int_equal(gconv_image_write(path, &options, &image), GCONV_OK);
  const gconv_compared a = {.path = path}, b = {.image = &image};
  gconv_difference found;
  assert_int_equal(gconv_image_compare(&a, &b, NULL, &found), GCONV_OK);
  assert_int_equal(found.differing, 0);
  unlink(path);
  gconv_image_free(&image);
}

static void test_refusals(void **state) {
  (void)state;
  gconv_image a = make(1, false), b = make(3, false), none = a;
  none.data = NULL;
  const gconv_compared x = {.image = &a}, y = {.image = &b}, z = {.image = &none};
  gconv_difference found = {.mean = 7};
  assert_int_equal(gconv_image_compare(&x, &y, NULL, &found), GCONV_BAD_ARGUMENT);
  assert_non_null(strstr(gconv_last_error(), "only images of one shape"));
  assert_int_equal(gconv_image_compare(&x, &z, NULL, &found), GCONV_BAD_ARGUMENT);
  assert_non_null(strstr(gconv_last_error(), "has no pixels"));
  assert_true(found.mean == 7);
  gconv_image_free(&a);
  gconv_image_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows_with_gaps),
      cmocka_unit_test(test_planes),
      cmocka_unit_test(test_a_file_against_pixels),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

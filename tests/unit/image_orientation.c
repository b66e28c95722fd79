/* SPDX-License-Identifier: MIT */
/* The eight orientations against the definition of EXIF: where row 0 and column 0 of the stored image are seen. */
#include "image/orientation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* The stored pixel that is seen at (x, y) of the upright image; width and height are those of the stored one. EXIF 2.32, tag
 * 0x0112: "row 0 is the visual top, column 0 the visual left side" and so on. */
static void stored_place(int orientation, int x, int y, int width, int height, int *stored_x, int *stored_y) {
  const int last_x = width - 1, last_y = height - 1;
  const int places[9][2] = {{0, 0},
                            {x, y},                   /* row 0 at the top, column 0 at the left */
                            {last_x - x, y},          /* top, right */
                            {last_x - x, last_y - y}, /* bottom, right */
                            {x, last_y - y},          /* bottom, left */
                            {y, x},                   /* left, top */
                            {y, last_y - x},          /* right, top */
                            {last_x - y, last_y - x}, /* right, bottom */
                            {last_x - y, x}};         /* left, bottom */
  *stored_x = places[orientation][0];
  *stored_y = places[orientation][1];
}

/* A sample that encodes its own position. */
static uint8_t sample_at(size_t x, size_t y, size_t byte) {
  return (uint8_t)(x * 7 + y * 31 + byte * 101 + (x >> 5) + (y >> 3));
}

static void fill(const gconv_image *image, size_t pixel_bytes) {
  for (int y = 0; y < image->height; y++)
    for (int x = 0; x < image->width; x++)
      for (size_t b = 0; b < pixel_bytes; b++)
        ((uint8_t *)image->data)[(size_t)y * image->row_bytes + (size_t)x * pixel_bytes + b] =
            sample_at((size_t)x, (size_t)y, b);
}

static void check(int orientation, gconv_type type, int channels, int width, int height) {
  gconv_image image = {.type = type,
                       .frames = 1,
                       .height = height,
                       .width = width,
                       .channels = channels,
                       .pixels_per_metre_x = 11,
                       .pixels_per_metre_y = 22};
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  size_t pixel_bytes = (size_t)channels * gconv_type_bytes(type);
  fill(&image, pixel_bytes);
  assert_int_equal(gconv_orient(&image, orientation), GCONV_OK);
  bool turned = orientation >= 5;
  assert_int_equal(image.width, turned ? height : width);
  assert_int_equal(image.height, turned ? width : height);
  assert_true(image.pixels_per_metre_x == (turned ? 22 : 11) && image.pixels_per_metre_y == (turned ? 11 : 22));
  for (int y = 0; y < image.height; y++)
    for (int x = 0; x < image.width; x++) {
      int from_x, from_y;
      stored_place(orientation, x, y, width, height, &from_x, &from_y);
      const uint8_t *pixel = (const uint8_t *)image.data + (size_t)y * image.row_bytes + (size_t)x * pixel_bytes;
      for (size_t b = 0; b < pixel_bytes; b++)
        if (pixel[b] != sample_at((size_t)from_x, (size_t)from_y, b))
          fail_msg("orientation %d, %s x %d, %d x %d: wrong at %d, %d", orientation, gconv_type_name(type), channels, width,
                   height, x, y);
    }
  gconv_image_free(&image);
}

static void test_all_eight(void **state) {
  (void)state;
  static const int sizes[][2] = {{1, 1}, {1, 9}, {9, 1}, {2, 3}, {64, 64}, {65, 130}, {127, 63}};
  for (int orientation = 1; orientation <= 8; orientation++)
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
      for (int channels = 1; channels <= 4; channels++)
        for (gconv_type type = GCONV_U8; type <= GCONV_F32; type++)
          check(orientation, type, channels, sizes[i][0], sizes[i][1]);
}

/* A TIFF header with a directory of two entries, the second of which is the orientation. */
static size_t make_exif(uint8_t *bytes, bool big, uint8_t orientation) {
  static const uint8_t little_endian[] = {'I', 'I', 42, 0,    8, 0, 0, 0, 2, 0, 0x00, 1, 3, 0, 1, 0, 0, 0, 9,
                                          0,   0,   0,  0x12, 1, 3, 0, 1, 0, 0, 0,    0, 0, 0, 0, 0, 0, 0, 0};
  static const uint8_t big_endian[] = {'M', 'M', 0, 42,   0,    0, 0, 8, 0, 2, 1, 0x00, 0, 3, 0, 0, 0, 1, 0,
                                       9,   0,   0, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0,    0, 0, 0, 0, 0, 0, 0};
  memcpy(bytes, big ? big_endian : little_endian, sizeof big_endian);
  bytes[big ? 31 : 30] = orientation;
  return sizeof big_endian;
}

static void test_exif(void **state) {
  (void)state;
  uint8_t bytes[64];
  for (int big = 0; big <= 1; big++)
    for (int orientation = 1; orientation <= 8; orientation++) {
      size_t size = make_exif(bytes, big, (uint8_t)orientation);
      assert_int_equal(gconv_exif_orientation(bytes, size), orientation);
    }
}

/* Copies on the heap, so that a sanitizer sees a read behind the end. */
static void test_damaged_exif(void **state) {
  (void)state;
  uint8_t bytes[64];
  for (int big = 0; big <= 1; big++) {
    size_t size = make_exif(bytes, big, 6);
    for (size_t cut = 0; cut < size - 4; cut++) {
      uint8_t *copy = test_malloc(cut + 1);
      memcpy(copy, bytes, cut);
      assert_int_equal(gconv_exif_orientation(copy, cut), 1);
      test_free(copy);
    }
    for (size_t place = 0; place < size; place++) {
      uint8_t *copy = test_malloc(size);
      memcpy(copy, bytes, size);
      copy[place] = 0xff;
      int orientation = gconv_exif_orientation(copy, size);
      assert_true(orientation == 1 || orientation == 6);
      test_free(copy);
    }
  }
  size_t size = make_exif(bytes, true, 9);
  assert_int_equal(gconv_exif_orientation(bytes, size), 1);
  make_exif(bytes, true, 0);
  assert_int_equal(gconv_exif_orientation(bytes, size), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_eight),
      cmocka_unit_test(test_exif),
      cmocka_unit_test(test_damaged_exif),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

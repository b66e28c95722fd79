/* SPDX-License-Identifier: MIT */
/* The eight orientations against the definition of EXIF: where row 0 and column 0 of the stored image are seen. */
#include "image/orientation.h"

#include <setjmp.h>
#include <stdarg.h>

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_eight),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

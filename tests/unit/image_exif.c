/* SPDX-License-Identifier: MIT */
/* EXIF: what is read of it, what is kept, and that damaged blocks are read within their bounds. */
#include "image/exif.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Reads a block; what is kept of it must be readable, upright, and the same when it is read again. Returns the orientation,
 * 0 if there is none, or the block is damaged. */
static int orientation_of(const uint8_t *bytes, size_t size) {
  gconv_exif exif, again;
  uint8_t *copy = test_malloc(gconv_exif_room(size)), *copy_again;
  size_t copy_size = 0, again_size = 0;
  if (gconv_exif_read(bytes, size, copy, &copy_size, &exif)) {
    test_free(copy);
    return 0;
  }
  assert_in_range(copy_size, 8, gconv_exif_room(size));
  gconv_exif_set_size(copy, copy_size, 70000, 80);
  copy_again = test_malloc(gconv_exif_room(copy_size));
  assert_null(gconv_exif_read(copy, copy_size, copy_again, &again_size, &again));
  assert_int_equal(again.damaged, 0);
  assert_int_equal(again_size, copy_size);
  assert_in_range(again.orientation, 0, 1);
  assert_memory_equal(copy, copy_again, copy_size);
  test_free(copy);
  test_free(copy_again);
  return exif.orientation;
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
      assert_int_equal(orientation_of(bytes, size), orientation);
    }
}

/* Copies on the heap, so that a sanitizer sees a read behind the end. */
static void test_damaged(void **state) {
  (void)state;
  uint8_t bytes[64];
  for (int big = 0; big <= 1; big++) {
    size_t size = make_exif(bytes, big, 6);
    for (size_t cut = 0; cut < size - 4; cut++) {
      uint8_t *copy = test_malloc(cut + 1);
      memcpy(copy, bytes, cut);
      assert_int_equal(orientation_of(copy, cut), 0);
      test_free(copy);
    }
    for (size_t place = 0; place < size; place++) {
      uint8_t *copy = test_malloc(size);
      memcpy(copy, bytes, size);
      copy[place] = 0xff;
      int orientation = orientation_of(copy, size);
      assert_true(orientation == 0 || orientation == 6);
      test_free(copy);
    }
  }
  size_t size = make_exif(bytes, true, 9);
  assert_int_equal(orientation_of(bytes, size), 0);
  make_exif(bytes, true, 0);
  assert_int_equal(orientation_of(bytes, size), 0);
}

/* The camera's directory with the width of the picture, a thumbnail, and entries that lie. */
static void test_kept(void **state) {
  (void)state;
  static const uint8_t block[] = {
      'I',  'I',  42,   0,    8,    0,    0, 0,                                  /* the main directory is at 8 */
      3,    0,                                                                   /* entries */
      0x69, 0x87, 4,    0,    1,    0,    0, 0, 50,  0, 0,  0,                   /* the camera's directory is at 50 */
      0x0f, 0x01, 2,    0,    0xff, 0xff, 0, 0, 8,   0, 0,  0,                   /* a text behind the end */
      0x25, 0x88, 4,    0,    1,    0,    0, 0, 8,   0, 0,  0,                   /* GPS is the main directory */
      68,   0,    0,    0,                                                       /* the thumbnail's directory */
      1,    0,                                                                   /* at 50 */
      0x02, 0xa0, 3,    0,    1,    0,    0, 0, 100, 0, 0,  0,                   /* the width is 100 */
      0,    0,    0,    0,                                                       /* no next one */
      1,    0,    0x01, 0x02, 4,    0,    1, 0, 0,   0, 86, 0, 0, 0, 0, 0, 0, 0, /* at 68: its JPEG is at 86 */
      0xff, 0xd8, 0xff, 0xd9};
  uint8_t copy[sizeof block + 4];
  size_t size = 0;
  gconv_exif exif;
  assert_null(gconv_exif_read(block, sizeof block, copy, &size, &exif));
  assert_int_equal(exif.damaged, 2);
  assert_int_equal(size, 68);
  assert_int_equal(copy[8], 1);
  assert_int_equal(copy[60], 100);
  gconv_exif_set_size(copy, size, 70000, 80);
  assert_int_equal(copy[54], 4);
  assert_int_equal(copy[60] | copy[61] << 8 | copy[62] << 16, 70000);
  for (size_t i = 22; i < 50; i++)
    assert_int_equal(copy[i], 0);
}

/* What is kept may be smaller than the block, so that its entries share their bytes too often there. */
static void test_shared_values(void **state) {
  (void)state;
  enum { ENTRIES = 16, VALUE = 208, VALUE_BYTES = 250 };
  uint8_t bytes[600] = {'I', 'I', 42, 0, 8, 0, 0, 0, ENTRIES, 0};
  for (int i = 0; i < ENTRIES; i++) {
    const uint8_t entry[12] = {(uint8_t)i, 0x90, 7, 0, VALUE_BYTES, 0, 0, 0, VALUE, 0, 0, 0};
    memcpy(bytes + 10 + 12 * i, entry, sizeof entry);
  }
  assert_int_equal(orientation_of(bytes, sizeof bytes), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_exif),
      cmocka_unit_test(test_shared_values),
      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

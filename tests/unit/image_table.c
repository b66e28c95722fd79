/* SPDX-License-Identifier: MIT */
/* The table of formats, and images in memory. */
#include "base/memory.h"
#include "image/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_every_row_is_complete(void **state) {
  (void)state;
  size_t count = 0;
  for (; gconv_format_at(count); count++) {
    const gconv_format *format = (const gconv_format *)gconv_format_at(count);
    assert_ptr_equal(gconv_format_by_name(format->info.name), &format->info);
    assert_true(format->info.extensions[0] != '\0' && format->info.help[0] != '\0');
    bool holds = format->info.holds[GCONV_U8] || format->info.holds[GCONV_U16] || format->info.holds[GCONV_F32];
    assert_true(holds == format->info.writes);
    assert_true(format->sniff && format->open && format->read_rows);
    assert_true((format->start && format->write_rows) == format->info.writes);
    assert_false(format->sniff((const uint8_t *)"", 0));
  }
  assert_in_range(count, 6, 100);
  assert_null(gconv_format_at(count));
}

static void test_names_and_paths(void **state) {
  (void)state;
  assert_string_equal(gconv_format_by_name("PNG")->name, "png");
  assert_string_equal(gconv_format_by_name("jpg")->name, "jpeg");
  assert_null(gconv_format_by_name("gif"));
  assert_null(gconv_format_by_name(""));
  assert_null(gconv_format_by_name("pn"));
  assert_string_equal(gconv_format_by_path("a/b.PnG")->name, "png");
  assert_string_equal(gconv_format_by_path("x.tar.ppm")->name, "pnm");
  assert_string_equal(gconv_format_by_path("x.pgm")->name, "pnm");
  assert_string_equal(gconv_format_by_path("x.pam")->name, "pam");
  assert_string_equal(gconv_format_by_path("x.jfif")->name, "jpeg");
  assert_null(gconv_format_by_path("png"));
  assert_null(gconv_format_by_path("folder.png/file"));
  assert_null(gconv_format_by_path("x."));
  assert_null(gconv_format_by_path("-"));
}

static void test_the_type_stored(void **state) {
  (void)state;
  const gconv_format_info *png = gconv_format_by_name("png"), *jpeg = gconv_format_by_name("jpeg");
  const gconv_format_info *pfm = gconv_format_by_name("pfm"), *npy = gconv_format_by_name("npy");
  assert_int_equal(gconv_format_type(png, GCONV_U8), GCONV_U8);
  assert_int_equal(gconv_format_type(png, GCONV_U16), GCONV_U16);
  assert_int_equal(gconv_format_type(png, GCONV_F32), GCONV_U16);
  assert_int_equal(gconv_format_type(jpeg, GCONV_U16), GCONV_U8);
  assert_int_equal(gconv_format_type(jpeg, GCONV_F32), GCONV_U8);
  assert_int_equal(gconv_format_type(pfm, GCONV_U8), GCONV_F32);
  assert_int_equal(gconv_format_type(npy, GCONV_F32), GCONV_F32);
}

static void test_types(void **state) {
  (void)state;
  assert_int_equal(gconv_type_bytes(GCONV_U8), 1);
  assert_int_equal(gconv_type_bytes(GCONV_U16), 2);
  assert_int_equal(gconv_type_bytes(GCONV_F32), 4);
  assert_string_equal(gconv_type_name(GCONV_U8), "u8");
  assert_string_equal(gconv_type_name(GCONV_U16), "u16");
  assert_string_equal(gconv_type_name(GCONV_F32), "f32");
}

static void test_allocate(void **state) {
  (void)state;
  gconv_image image = {.type = GCONV_U16, .frames = 2, .height = 5, .width = 7, .channels = 3};
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  assert_int_equal(image.row_bytes, 7 * 3 * 2);
  assert_int_equal(image.plane_bytes, 5 * 7 * 3 * 2);
  assert_int_equal((uintptr_t)image.data % 64, 0);
  memset(image.data, 1, 2 * image.plane_bytes);
  gconv_image_free(&image);
  assert_null(image.data);

  image = (gconv_image){.type = GCONV_F32, .frames = 2, .height = 5, .width = 7, .channels = 9, .planar = true};
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  assert_int_equal(image.row_bytes, 7 * 4);
  assert_int_equal(image.plane_bytes, 5 * 7 * 4);
  memset(image.data, 1, 2 * 9 * image.plane_bytes);
  gconv_image_free(&image);
  gconv_image_free(NULL);
}

static void test_allocate_refuses(void **state) {
  (void)state;
  gconv_image image = {.frames = 1, .height = 0, .width = 7, .channels = 3};
  assert_int_equal(gconv_image_allocate(&image), GCONV_BAD_ARGUMENT);
  image = (gconv_image){.frames = 1, .height = 1, .width = -1, .channels = 3};
  assert_int_equal(gconv_image_allocate(&image), GCONV_BAD_ARGUMENT);
  image = (gconv_image){.frames = 1, .height = 1, .width = 1, .channels = 5};
  assert_int_equal(gconv_image_allocate(&image), GCONV_BAD_ARGUMENT);
  image = (gconv_image){.type = GCONV_F32, .frames = INT32_MAX, .height = INT32_MAX, .width = INT32_MAX, .channels = 4};
  assert_int_equal(gconv_image_allocate(&image), GCONV_TOO_LARGE);
  image.planar = true;
  image.channels = INT32_MAX;
  assert_int_equal(gconv_image_allocate(&image), GCONV_TOO_LARGE);
  image = (gconv_image){.type = GCONV_F32, .frames = 1, .height = INT32_MAX, .width = INT32_MAX, .channels = 1};
  assert_int_equal(gconv_image_allocate(&image), GCONV_NO_MEMORY); /* 2^64 - 2^34 + 4 bytes fit in size_t */
  assert_null(image.data);
}

static void test_same_shape(void **state) {
  (void)state;
  const gconv_image like = {.type = GCONV_U16, .frames = 2, .height = 3, .width = 4, .channels = 2, .row_bytes = 16};
  gconv_image others[7] = {like, like, like, like, like, like, like}, same = like;
  same.row_bytes = 64;
  assert_true(gconv_image_same_shape(&like, &same));
  others[0].type = GCONV_F32;
  others[1].frames = 1;
  others[2].height = 4;
  others[3].width = 3;
  others[4].channels = 1;
  others[5].planar = true;
  others[6].alpha = true;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_false(gconv_image_same_shape(&like, &others[i]));
}

static void test_copy_metadata(void **state) {
  (void)state;
  gconv_image from = {.icc_bytes = 200, .pixels_per_metre_x = 100, .pixels_per_metre_y = 200}, to = {0};
  assert_int_equal(gconv_allocate(200, "a profile", &from.icc), GCONV_OK);
  memset(from.icc, 7, 200);
  for (int twice = 0; twice < 2; twice++) {
    assert_int_equal(gconv_image_copy_metadata(&to, &from), GCONV_OK);
    assert_ptr_not_equal(to.icc, from.icc);
    assert_int_equal(to.icc_bytes, 200);
    assert_memory_equal(to.icc, from.icc, 200);
    assert_true(to.pixels_per_metre_x == 100 && to.pixels_per_metre_y == 200);
  }
  assert_int_equal(gconv_image_copy_metadata(&to, &to), GCONV_OK);
  assert_int_equal(to.icc_bytes, 200);
  gconv_image_free(&from);
  char *text = NULL;
  assert_int_equal(gconv_allocate(8, "a text", (void **)&text), GCONV_OK);
  to.left_out = text;
  assert_int_equal(gconv_image_copy_metadata(&to, &from), GCONV_OK);
  assert_null(to.icc);
  assert_true(to.pixels_per_metre_x == 0);
  assert_ptr_equal(to.left_out, text);
  gconv_image_free(&to);
}

static void test_icc_fault(void **state) {
  (void)state;
  uint8_t profile[132] = {0};
  gconv_image image = {.channels = 3, .icc = profile, .icc_bytes = sizeof profile};
  memcpy(profile + 16, "RGB ", 4);
  assert_null(gconv_icc_fault(&image, false));
  assert_non_null(gconv_icc_fault(&image, true));
  profile[3] = sizeof profile; /* its size, big-endian */
  memcpy(profile + 36, "acsp", 4);
  assert_null(gconv_icc_fault(&image, true));
  profile[131] = 1; /* a tag, for which there is no room */
  assert_non_null(gconv_icc_fault(&image, true));
  image.channels = 2;
  assert_non_null(gconv_icc_fault(&image, false));
  memcpy(profile + 16, "GRAY", 4);
  assert_null(gconv_icc_fault(&image, false));
  image.icc_bytes = 127;
  assert_non_null(gconv_icc_fault(&image, false));
}

static void test_swap_bytes(void **state) {
  (void)state;
  uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  gconv_swap_bytes(bytes, 4, 2);
  assert_memory_equal(bytes, ((uint8_t[]){2, 1, 4, 3, 6, 5, 8, 7}), 8);
  gconv_swap_bytes(bytes, 2, 4);
  assert_memory_equal(bytes, ((uint8_t[]){3, 4, 1, 2, 7, 8, 5, 6}), 8);
  gconv_swap_bytes(bytes, 1, 8);
  assert_memory_equal(bytes, ((uint8_t[]){6, 5, 8, 7, 2, 1, 4, 3}), 8);
  gconv_swap_bytes(bytes, 8, 1);
  assert_memory_equal(bytes, ((uint8_t[]){6, 5, 8, 7, 2, 1, 4, 3}), 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_row_is_complete),
      cmocka_unit_test(test_names_and_paths),
      cmocka_unit_test(test_the_type_stored),
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_allocate),
      cmocka_unit_test(test_allocate_refuses),
      cmocka_unit_test(test_same_shape),
      cmocka_unit_test(test_copy_metadata),
      cmocka_unit_test(test_icc_fault),
      cmocka_unit_test(test_swap_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Pages of a TIFF by their numbers, and EXIF in BigTIFF. */
#include "image_test.h"

#include "image/format.h"

#ifdef GCONV_WITH_TIFF
#include "image/tiff.h"

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

/* EXIF of an exposure of 1/8000 s, big-endian, with a directory for the camera at 26. */
static uint8_t small_exif[] = {
    'M', 'M', 0,    42,   0, 0, 0,    8,                                  /* the main directory */
    0,   1,   0x87, 0x69, 0, 4, 0,    0,   0, 1, 0, 0, 0, 26, 0, 0, 0, 0, /* that for the camera */
    0,   1,   0x82, 0x9a, 0, 5, 0,    0,   0, 1, 0, 0, 0, 44, 0, 0, 0, 0, /* the fraction */
    0,   0,   0,    1,    0, 0, 0x1f, 0x40};

/* Writes a page of one pixel with that EXIF, and returns the size of the file. */
static size_t write_exif(bool big, uint8_t bytes[1000]) {
  const gconv_image header = {.exif = small_exif, .exif_bytes = sizeof small_exif};
  gconv_image description = {0};
  gconv_tiff_file file = {.name = "x.tif"};
  uint8_t pixel = 7;
  assert_int_equal(gconv_tiff_open(&file, big ? "w8" : "w"), GCONV_OK);
  gconv_tiff.TIFFSetField(file.handle, TIFFTAG_IMAGEWIDTH, 1);
  gconv_tiff.TIFFSetField(file.handle, TIFFTAG_IMAGELENGTH, 1);
  gconv_tiff.TIFFSetField(file.handle, TIFFTAG_BITSPERSAMPLE, 8);
  gconv_tiff.TIFFSetField(file.handle, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  assert_int_equal(gconv_tiff_write_exif(&file, big, &header, &description), GCONV_OK);
  assert_null(description.comment);
  assert_true(gconv_tiff.TIFFWriteRawStrip(file.handle, 0, &pixel, 1) == 1);
  assert_true(gconv_tiff.TIFFWriteDirectory(file.handle));
  size_t size = (size_t)file.end;
  assert_in_range(size, 1, 1000);
  memcpy(bytes, file.memory, size);
  gconv_tiff_close(&file);
  return size;
}

/* Files above 4 GB are BigTIFF, whose directories have larger entries. */
static void test_exif_in_bigtiff(void **state) {
  (void)state;
  for (int big = 0; big <= 1; big++) {
    uint8_t bytes[1000];
    size_t size = write_exif(big, bytes);
    gconv_source source;
    gconv_reader reader;
    assert_int_equal(bytes[2], big ? 43 : 42);
    gconv_source_of_bytes("x.tif", bytes, size, &source);
    assert_int_equal(gconv_reader_open(&reader, &source, 1000), GCONV_OK);
    assert_string_equal(reader.note, "");
    assert_non_null(reader.header.exif);
    const uint32_t fraction[2] = {1, 8000};
    const uint8_t *exif = reader.header.exif;
    size_t end = reader.header.exif_bytes, found = 0;
    for (size_t i = 0; i + sizeof fraction <= end; i++)
      found += memcmp(exif + i, fraction, sizeof fraction) == 0;
    assert_int_equal(found, 1);
    gconv_reader_close(&reader);
  }
}
#else
static void test_page_by_number(void **state) {
  (void)state;
  skip();
}
#define test_pages_that_are_not_there test_page_by_number
#define test_exif_in_bigtiff test_page_by_number
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_page_by_number),
      cmocka_unit_test(test_pages_that_are_not_there),
      cmocka_unit_test(test_exif_in_bigtiff),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

/* SPDX-License-Identifier: MIT */
/* Images out and in again, whole and by rows with guard bytes around them; and writing that must be refused. */
#include "base/memory.h"
#include "image/format.h"
#include "image_test.h"

#include <math.h>
#include <unistd.h>

static void assert_same(const gconv_image *a, const gconv_image *b) {
  assert_int_equal(a->type, b->type);
  assert_int_equal(a->frames, b->frames);
  assert_int_equal(a->height, b->height);
  assert_int_equal(a->width, b->width);
  assert_int_equal(a->channels, b->channels);
  assert_int_equal(a->planar, b->planar);
  assert_memory_equal(a->data, b->data, a->plane_bytes * (size_t)a->frames * (a->planar ? (size_t)a->channels : 1));
}

/* ---- Out and in ---- */

static void round_trip(const char *name, gconv_type type, int channels, int height, int width) {
  gconv_image image = make_image(type, 1, height, width, channels, false), back = {0};
  image.pixels_per_metre_x = image.pixels_per_metre_y = 5000;
  const char *path = path_of(name);
  if (gconv_image_write(path, NULL, &image) != GCONV_OK || gconv_image_read(path, NULL, &back) != GCONV_OK)
    fail_msg("%s", gconv_last_error());
  assert_same(&image, &back);
  assert_int_equal(back.alpha, strstr(name, "npy") || strstr(name, "fits") ? false : image.alpha);
  gconv_image header;
  const gconv_format_info *format;
  assert_int_equal(gconv_image_read_header(path, &header, &format), GCONV_OK);
  assert_ptr_equal(format, gconv_format_by_path(path));
  assert_null(header.data);
  assert_true(header.width == width && header.height == height && header.channels == channels && header.type == type);
  if (strcmp(format->name, "png") == 0)
    assert_true(header.pixels_per_metre_x == 5000 && back.pixels_per_metre_y == 5000);
  gconv_image_free(&header);
  gconv_image_free(&image);
  gconv_image_free(&back);
}

static void test_lossless_round_trips(void **state) {
  (void)state;
  static const int sizes[][2] = {{1, 1}, {1, 300}, {300, 1}, {31, 33}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (int channels = 1; channels <= 4; channels++)
      for (size_t f = 0; gconv_format_at(f); f++)
        for (gconv_type type = GCONV_U8; type <= GCONV_F32; type++) {
          const gconv_format *format = (const gconv_format *)gconv_format_at(f);
          char name[16];
          snprintf(name, sizeof name, "x.%s", format->info.name);
          const bool frames = format == &gconv_format_fits && channels > 1;                /* its colours are frames */
          const bool product = strcmp(format->info.name, "exr") == 0 && channels % 2 == 0; /* alpha times its colours */
          bool lossy = format->info.quality || frames || product;
          if (!lossy && format->info.holds[type] && (format->alpha || channels % 2 == 1))
            round_trip(name, type, channels, sizes[i][0], sizes[i][1]);
        }
}

static void test_planar_round_trips(void **state) {
  (void)state;
  for (gconv_type type = GCONV_U8; type <= GCONV_F32; type++)
    for (int frames = 1; frames <= 3; frames++) {
      gconv_image image = make_image(type, frames, 5, 7, 6, true), back = {0};
      assert_int_equal(gconv_image_write(path_of("x.npy"), NULL, &image), GCONV_OK);
      assert_int_equal(gconv_image_read(path_of("x.npy"), NULL, &back), GCONV_OK);
      assert_same(&image, &back);
      gconv_image_free(&image);
      gconv_image_free(&back);
    }
}

/* Interleaved frames are written as N x C x H x W too. */
static void test_frames_are_transposed(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U16, 2, 5, 7, 3, false), back = {0};
  assert_int_equal(gconv_image_write(path_of("x.npy"), NULL, &image), GCONV_OK);
  assert_int_equal(gconv_image_read(path_of("x.npy"), NULL, &back), GCONV_OK);
  assert_true(back.planar && back.frames == 2 && back.channels == 3 && back.height == 5 && back.width == 7);
  const uint16_t *in = image.data, *out = back.data;
  for (int n = 0; n < 2; n++)
    for (int y = 0; y < 5; y++)
      for (int x = 0; x < 7; x++)
        for (int c = 0; c < 3; c++)
          assert_int_equal(out[((n * 3 + c) * 5 + y) * 7 + x], in[((n * 5 + y) * 7 + x) * 3 + c]);
  gconv_image_free(&image);
  gconv_image_free(&back);
}

static void test_jpeg_is_near(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U8, 1, 64, 48, 3, false), back = {0};
  for (int i = 0; i < 64 * 48 * 3; i++) /* a gradient */
    ((uint8_t *)image.data)[i] = (uint8_t)(i / (48 * 3) * 3 + i % 3 * 20);
  image.pixels_per_metre_x = image.pixels_per_metre_y = 300 / 0.0254;
  gconv_write_options options = {.quality = 100};
  assert_int_equal(gconv_image_write(path_of("x.jpg"), &options, &image), GCONV_OK);
  assert_int_equal(gconv_image_read(path_of("x.jpg"), NULL, &back), GCONV_OK);
  assert_int_equal(back.width * 1000 + back.height, 48064);
  assert_true(fabs(back.pixels_per_metre_x - 300 / 0.0254) < 1e-9);
  for (int i = 0; i < 64 * 48 * 3; i++)
    assert_true(abs(((uint8_t *)image.data)[i] - ((uint8_t *)back.data)[i]) <= 2);
  gconv_image_free(&image);
  gconv_image_free(&back);
}

/* The memory that reading one of the fuzzers' JPEGs takes: they are 11 x 9, of colours at half the size. */
static size_t jpeg_bytes(const char *name) {
  char path[1024];
  gconv_row_reader *reader = NULL;
  snprintf(path, sizeof path, "%s/tests/fuzz/corpus/jpeg/%s", GCONV_SOURCE_FOLDER, name);
  assert_int_equal(gconv_row_reader_open(path, NULL, &reader), GCONV_OK);
  size_t bytes = gconv_row_reader_bytes(reader);
  gconv_row_reader_close(reader);
  return bytes;
}

static void test_jpeg_coefficients_count(void **state) {
  (void)state;
  size_t coefficients = jpeg_bytes("progressive") - jpeg_bytes("baseline"), all = 2 * 11 * 9 * 3 / 2;
  assert_in_range(coefficients, all - 2, all); /* rounded down */
}

/* ---- Rows: a few at a time, far apart, with guard bytes between and around ---- */

static void read_piecemeal(const char *name, const gconv_image *expected) {
  enum { GUARD = 32, POISON = 0xa5 };
  gconv_row_reader *reader = NULL;
  assert_int_equal(gconv_row_reader_open(path_of(name), NULL, &reader), GCONV_OK);
  const gconv_image *header = gconv_row_reader_header(reader);
  assert_int_equal(header->height, expected->height);
  assert_int_equal(header->width, expected->width);
  assert_int_equal(gconv_row_reader_is_in_order(reader), strstr(name, ".pfm") == NULL);
  size_t bytes = expected->row_bytes, stride = bytes + GUARD;
  int32_t left = expected->frames * (expected->planar ? expected->channels : 1) * expected->height;
  uint8_t *rows = test_malloc(GUARD + 3 * stride);
  const uint8_t *next = expected->data;
  while (left > 0) {
    int32_t count = left < 3 ? left : 3;
    memset(rows, POISON, GUARD + 3 * stride);
    if (gconv_row_reader_read(reader, rows + GUARD, stride, count) != GCONV_OK)
      fail_msg("%s: %s", name, gconv_last_error());
    for (int32_t i = 0; i < count; i++, next += bytes)
      assert_memory_equal(rows + GUARD + (size_t)i * stride, next, bytes);
    for (int32_t i = 0; i <= count; i++)
      for (size_t g = 0; g < GUARD; g++)
        assert_int_equal(rows[(size_t)i * stride + g], POISON);
    left -= count;
  }
  gconv_image none = {0};
  assert_int_equal(gconv_row_reader_read(reader, rows, stride, 1), GCONV_BAD_ARGUMENT);
  assert_int_equal(gconv_row_reader_image(reader, &none), GCONV_BAD_ARGUMENT);
  test_free(rows);
  gconv_row_reader_close(reader);
}

static void write_piecemeal(const char *name, const gconv_image *image) {
  char path[128];
  gconv_row_writer *writer = NULL;
  snprintf(path, sizeof path, "%s", path_of(name));
  assert_int_equal(gconv_row_writer_open(path, NULL, image, &writer), GCONV_OK);
  const uint8_t *next = image->data;
  int32_t rows = image->frames * (image->planar ? image->channels : 1) * image->height;
  for (int32_t y = 0, count; y < rows; y += count, next += (size_t)count * image->row_bytes) {
    count = rows - y < 2 ? rows - y : 2;
    assert_int_equal(gconv_row_writer_write(writer, next, image->row_bytes, count), GCONV_OK);
  }
  assert_int_equal(gconv_row_writer_write(writer, image->data, image->row_bytes, 1), GCONV_BAD_ARGUMENT);
  assert_int_equal(gconv_row_writer_commit(writer), GCONV_OK);
}

/* Nothing appears that is not whole. */
static void test_rows_missing(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U8, 1, 7, 13, 3, false);
  char path[128];
  snprintf(path, sizeof path, "%s", path_of("missing.png"));
  for (int turn = 0; turn < 2; turn++) {
    gconv_row_writer *writer = NULL;
    assert_int_equal(gconv_row_writer_open(path, NULL, &image, &writer), GCONV_OK);
    assert_int_equal(gconv_row_writer_write(writer, image.data, image.row_bytes, 6), GCONV_OK);
    if (turn == 0)
      expect_error(gconv_row_writer_commit(writer), GCONV_BAD_ARGUMENT, "1 rows are missing");
    else
      gconv_row_writer_discard(writer);
    assert_int_not_equal(access(path, F_OK), 0);
  }
  gconv_image_free(&image);
}

static void test_rows_piecemeal(void **state) {
  (void)state;
  static const struct {
    const char *name;
    gconv_type type;
    int channels;
    bool planar;
  } cases[] = {{"p.png", GCONV_U8, 4, false},  {"p.png", GCONV_U16, 3, false}, {"p.ppm", GCONV_U8, 3, false},
               {"p.pgm", GCONV_U16, 1, false}, {"p.pam", GCONV_U16, 4, false}, {"p.pfm", GCONV_F32, 3, false},
               {"p.npy", GCONV_F32, 2, false}, {"p.npy", GCONV_U8, 6, true}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    gconv_image image = make_image(cases[i].type, 1, 7, 13, cases[i].channels, cases[i].planar);
    write_piecemeal(cases[i].name, &image);
    read_piecemeal(cases[i].name, &image);
    gconv_image_free(&image);
  }
}

static void test_jpeg_piecemeal(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U8, 1, 37, 29, 3, false), whole = {0};
  write_piecemeal("p.jpg", &image);
  assert_int_equal(gconv_image_read(path_of("p.jpg"), NULL, &whole), GCONV_OK);
  read_piecemeal("p.jpg", &whole);
  gconv_image_free(&image);
  gconv_image_free(&whole);
}

/* ---- Writing that is refused ---- */

static void test_write_refuses(void **state) {
  (void)state;
  gconv_image rgba = make_image(GCONV_U8, 1, 2, 2, 4, false), floats = make_image(GCONV_F32, 1, 2, 2, 3, false);
  gconv_image planes = make_image(GCONV_U8, 1, 2, 2, 3, true),
              wide = {.frames = 1, .height = 1, .width = 70000, .channels = 1};
  assert_int_equal(gconv_image_allocate(&wide), GCONV_OK);
  memset(wide.data, 0, 70000);
  expect_error(gconv_image_write(path_of("y.jpg"), NULL, &rgba), GCONV_UNSUPPORTED, "has no alpha: write .png");
  expect_error(gconv_image_write(path_of("y.ppm"), NULL, &rgba), GCONV_UNSUPPORTED, "has no alpha");
  expect_error(gconv_image_write(path_of("y.png"), NULL, &floats), GCONV_UNSUPPORTED,
               "does not hold f32 samples; it holds u16");
  expect_error(gconv_image_write(path_of("y.pfm"), NULL, &rgba), GCONV_UNSUPPORTED, "does not hold u8");
  expect_error(gconv_image_write(path_of("y.png"), NULL, &planes), GCONV_UNSUPPORTED, "write .npy");
  expect_error(gconv_image_write(path_of("y.jpg"), NULL, &wide), GCONV_UNSUPPORTED, "70000 x 1");
  expect_error(gconv_image_write(path_of("y.gif"), NULL, &rgba), GCONV_BAD_ARGUMENT, "known extension");
  expect_error(gconv_image_write("-", NULL, &rgba), GCONV_BAD_ARGUMENT, "give 'format'");
  expect_error(gconv_image_write(path_of("none/y.png"), NULL, &rgba), GCONV_IO_ERROR, "folder");
  expect_error(gconv_image_write(path_of("y.png"), &(gconv_write_options){.png_level = 10}, &rgba), GCONV_BAD_ARGUMENT,
               "level");
  expect_error(gconv_image_write(path_of("y.jpg"), &(gconv_write_options){.quality = 101}, &rgba), GCONV_BAD_ARGUMENT,
               "quality");
  assert_int_not_equal(access(path_of("y.jpg"), F_OK), 0);
  assert_int_not_equal(access(path_of("y.png"), F_OK), 0);
  gconv_image_free(&rgba);
  gconv_image_free(&floats);
  gconv_image_free(&planes);
  gconv_image_free(&wide);
}

static void test_keep_existing(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U8, 1, 2, 2, 1, false);
  gconv_write_options options = {.keep_existing = true};
  uint8_t bytes[100];
  write_file(path_of("kept.pgm"), "mine", 4);
  expect_error(gconv_image_write(path_of("kept.pgm"), &options, &image), GCONV_EXISTS, "kept.pgm");
  assert_int_equal(read_file(path_of("kept.pgm"), bytes, sizeof bytes), 4);
  assert_int_equal(gconv_image_write(path_of("fresh.pgm"), &options, &image), GCONV_OK);
  options.keep_existing = false;
  assert_int_equal(gconv_image_write(path_of("kept.pgm"), &options, &image), GCONV_OK);
  assert_int_equal(read_file(path_of("kept.pgm"), bytes, sizeof bytes), strlen("P5\n2 2\n255\n") + 4);
  gconv_image_free(&image);
}

/* Formats that fail half-way leave the old file, and no other file. */
static void test_failure_leaves_the_old_file(void **state) {
  (void)state;
  gconv_image wide = {.frames = 1, .height = 1, .width = 70000, .channels = 1};
  uint8_t bytes[100];
  write_file(path_of("old.jpg"), "old", 3);
  assert_int_equal(gconv_image_allocate(&wide), GCONV_OK);
  expect_error(gconv_image_write(path_of("old.jpg"), NULL, &wide), GCONV_UNSUPPORTED, "old.jpg");
  assert_int_equal(read_file(path_of("old.jpg"), bytes, sizeof bytes), 3);
  gconv_image_free(&wide);

  gconv_image image = make_image(GCONV_U8, 1, 2, 2, 1, false);
  expect_error(gconv_image_write("/dev/full", &(gconv_write_options){.format = gconv_format_by_name("png")}, &image),
               GCONV_IO_ERROR, "No space left");
  expect_error(gconv_image_write("/dev/full", &(gconv_write_options){.format = gconv_format_by_name("jpeg")}, &image),
               GCONV_IO_ERROR, "No space left");
  gconv_image_free(&image);
}

/* A profile that does not fit the colours is left out; one that does comes back byte by byte. */
static void test_icc(void **state) {
  (void)state;
  static const char *const names[] = {"i.png", "i.jpg"};
  for (size_t i = 0; i < 2; i++)
    for (int channels = 1; channels <= 3; channels += 2) {
      gconv_image image = make_image(GCONV_U8, 1, 4, 4, channels, false), back = {0};
      image.icc_bytes = 70000; /* more than one segment of a JPEG */
      assert_int_equal(gconv_allocate(image.icc_bytes, "a profile", &image.icc), GCONV_OK);
      uint8_t *icc = image.icc;
      memset(icc, 0, image.icc_bytes);
      memcpy(icc, ((uint8_t[]){0, 1, 0x11, 0x70}), 4);
      memcpy(icc + 8, ((uint8_t[]){4, 0x20, 0, 0}), 4);
      memcpy(icc + 12, "mntrGRAYXYZ ", 12);
      memcpy(icc + 36, "acsp", 4);
      memcpy(icc + 68, ((uint8_t[]){0, 0, 0xf6, 0xd6, 0, 1, 0, 0, 0, 0, 0xd3, 0x2d}), 12); /* D50, as every profile has */
      assert_int_equal(gconv_image_write(path_of(names[i]), NULL, &image), GCONV_OK);
      assert_int_equal(gconv_image_read(path_of(names[i]), NULL, &back), GCONV_OK);
      assert_int_equal(back.icc_bytes, channels == 1 ? 70000 : 0);
      if (channels == 1)
        assert_memory_equal(back.icc, image.icc, image.icc_bytes);
      gconv_image_free(&image);
      gconv_image_free(&back);
    }
}

/* A complete image is read even if its writer keeps the pipe open. */
static void test_short_file_from_an_open_pipe(void **state) {
  (void)state;
  char file[75] = "P5\n8 8\n255\n", path[32];
  gconv_image image = {0};
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(write(ends[1], file, sizeof file), sizeof file);
  snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
  alarm(60);
  assert_int_equal(gconv_image_read(path, NULL, &image), GCONV_OK);
  alarm(0);
  assert_int_equal(image.height, 8);
  gconv_image_free(&image);
  close(ends[0]);
  close(ends[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lossless_round_trips),
      cmocka_unit_test(test_planar_round_trips),
      cmocka_unit_test(test_frames_are_transposed),
      cmocka_unit_test(test_jpeg_is_near),
      cmocka_unit_test(test_jpeg_coefficients_count),
      cmocka_unit_test(test_rows_missing),
      cmocka_unit_test(test_rows_piecemeal),
      cmocka_unit_test(test_jpeg_piecemeal),
      cmocka_unit_test(test_write_refuses),
      cmocka_unit_test(test_keep_existing),
      cmocka_unit_test(test_failure_leaves_the_old_file),
      cmocka_unit_test(test_icc),
      cmocka_unit_test(test_short_file_from_an_open_pipe),
  };
  return cmocka_run_group_tests_name("image/files", tests, make_folder, remove_folder);
}

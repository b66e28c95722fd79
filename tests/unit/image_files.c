/* SPDX-License-Identifier: MIT */
/* Files out and in again, rows with guard bytes around them, and everything that must be refused. */
#include "base/memory.h"
#include "image/format.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

/* A path in the folder of this test; valid until the next call but one. */
static const char *path_of(const char *name) {
  static char paths[2][128];
  static int turn;
  turn = !turn;
  snprintf(paths[turn], sizeof paths[turn], "%s/%s", folder, name);
  return paths[turn];
}

static void write_file(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static size_t read_file(const char *path, uint8_t *bytes, size_t room) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t size = fread(bytes, 1, room, file);
  assert_true(size < room);
  fclose(file);
  return size;
}

/* An image of this shape, of noise (always the same), every sample value being possible; f32 in [-1, 3). */
static gconv_image make_image(gconv_type type, int frames, int height, int width, int channels, bool planar) {
  gconv_image image = {
      .type = type, .frames = frames, .height = height, .width = width, .channels = channels, .planar = planar};
  image.alpha = !planar && (channels == 2 || channels == 4);
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  size_t samples = (size_t)frames * (size_t)height * (size_t)width * (size_t)channels;
  uint32_t seed = 12345;
  for (size_t i = 0; i < samples; i++) {
    seed = seed * 1664525 + 1013904223;
    if (type == GCONV_U8)
      ((uint8_t *)image.data)[i] = (uint8_t)(seed >> 24);
    else if (type == GCONV_U16)
      ((uint16_t *)image.data)[i] = (uint16_t)(seed >> 16);
    else
      ((float *)image.data)[i] = (float)(seed >> 8) / 4194304.0f - 1;
  }
  return image;
}

static void assert_same(const gconv_image *a, const gconv_image *b) {
  assert_int_equal(a->type, b->type);
  assert_int_equal(a->frames, b->frames);
  assert_int_equal(a->height, b->height);
  assert_int_equal(a->width, b->width);
  assert_int_equal(a->channels, b->channels);
  assert_int_equal(a->planar, b->planar);
  assert_memory_equal(a->data, b->data, a->plane_bytes * (size_t)a->frames * (a->planar ? (size_t)a->channels : 1));
}

static void expect_error(gconv_status got, gconv_status expected, const char *words) {
  if (got != expected || !strstr(gconv_last_error(), words))
    fail_msg("status %d, not %d with '%s': %s", (int)got, (int)expected, words, gconv_last_error());
}

static void expect_bad_file(const void *bytes, size_t size, gconv_status expected, const char *words) {
  gconv_image image = {0};
  write_file(path_of("bad"), bytes, size);
  expect_error(gconv_image_read(path_of("bad"), NULL, &image), expected, words);
  assert_null(image.data);
  assert_null(image.icc);
}

#define EXPECT_BAD(text, expected, words) expect_bad_file(text, sizeof text - 1, expected, words)

static void expect_samples(const void *bytes, size_t size, gconv_type type, int channels, const void *samples,
                           size_t count) {
  gconv_image image = {0};
  write_file(path_of("good"), bytes, size);
  if (gconv_image_read(path_of("good"), NULL, &image) != GCONV_OK)
    fail_msg("%s", gconv_last_error());
  assert_int_equal(image.type, type);
  assert_int_equal(image.channels, channels);
  assert_int_equal(image.width * image.height * image.channels, count);
  assert_memory_equal(image.data, samples, count * gconv_type_bytes(type));
  gconv_image_free(&image);
}

#define EXPECT_U8(text, channels, ...)                                                                                      \
  expect_samples(text, sizeof text - 1, GCONV_U8, channels, ((uint8_t[]){__VA_ARGS__}), sizeof((uint8_t[]){__VA_ARGS__}))
#define EXPECT_U16(text, channels, ...)                                                                                     \
  expect_samples(text, sizeof text - 1, GCONV_U16, channels, ((uint16_t[]){__VA_ARGS__}),                                   \
                 sizeof((uint16_t[]){__VA_ARGS__}) / 2)
#define EXPECT_F32(text, channels, ...)                                                                                     \
  expect_samples(text, sizeof text - 1, GCONV_F32, channels, ((float[]){__VA_ARGS__}), sizeof((float[]){__VA_ARGS__}) / 4)

/* ---- Out and in ---- */

static void round_trip(const char *name, gconv_type type, int channels, int height, int width) {
  gconv_image image = make_image(type, 1, height, width, channels, false), back = {0};
  image.pixels_per_metre_x = image.pixels_per_metre_y = 5000;
  const char *path = path_of(name);
  if (gconv_image_write(path, NULL, &image) != GCONV_OK || gconv_image_read(path, NULL, &back) != GCONV_OK)
    fail_msg("%s", gconv_last_error());
  assert_same(&image, &back);
  assert_int_equal(back.alpha, strstr(name, "npy") ? false : image.alpha);
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
          if (strcmp(format->info.name, "jpeg") != 0 && format->info.holds[type] && (format->alpha || channels % 2 == 1))
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
  gconv_write_options options = {.jpeg_quality = 100};
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

/* ---- Files by hand ---- */

static void test_pnm(void **state) {
  (void)state;
  EXPECT_U8("P1\n# bits\n3 2\n1 0 1\n010", 1, 0, 255, 0, 255, 0, 255);
  EXPECT_U8("P1 3 1 1 0 # end\n1", 1, 0, 255, 0);
  EXPECT_U8("P4\n10 2\n\x80\x40\xff\x00", 1, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255);
  EXPECT_U8("P2 # grey\n# more\r3\t1 #\n255\n0 128 255", 1, 0, 128, 255);
  EXPECT_U8("P2\n3 1\n2\n0 1 2\n", 1, 0, 128, 255);
  EXPECT_U8("P2 2 1 10 1 3", 1, 26, 76); /* 25.5 and 76.5, to even */
  EXPECT_U8("P3\n1 2\n255\n1 2 3\n4 5 6", 3, 1, 2, 3, 4, 5, 6);
  EXPECT_U8("P5\n3 1\n15\n\x00\x07\x0f", 1, 0, 119, 255);
  EXPECT_U8("P5\n1 1\n255\n\nrest", 1, 10); /* one white space only: the pixel is a line feed */
  EXPECT_U8("P5#c\n2 1 255#d\nab", 1, 'a', 'b');
  EXPECT_U16("P5\n2 1\n65535\n\x01\x02\xff\xfe", 1, 0x0102, 0xfffe);
  EXPECT_U16("P6\n1 1\n1023\n\x00\x00\x02\x00\x03\xff", 3, 0, 32800, 65535);
  EXPECT_U16("P2\n2 1\n256 1 256", 1, 256, 65535);
}

static void test_pam(void **state) {
  (void)state;
  EXPECT_U8("P7\nWIDTH 2\nHEIGHT 1\nDEPTH 2\nMAXVAL 255\nTUPLTYPE GRAYSCALE_ALPHA\nENDHDR\nabcd", 2, 'a', 'b', 'c', 'd');
  EXPECT_U8("P7\n# c\nTUPLTYPE BLACKANDWHITE\nMAXVAL 1\nDEPTH 1\nHEIGHT  1\nWIDTH 2\nENDHDR\n\x01\x00", 1, 255, 0);
  EXPECT_U16("P7\nWIDTH 1\nHEIGHT 1\nDEPTH 4\nMAXVAL 65535\nTUPLTYPE RGB_ALPHA\nENDHDR\n\x00\x01\x00\x02\x00\x03\x00\x04", 4,
             1, 2, 3, 4);
  EXPECT_U8("P7\nWIDTH 1\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nENDHDR\nabcd", 4, 'a', 'b', 'c', 'd');
  EXPECT_BAD("P7\nWIDTH 1\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE CMYK\nENDHDR\nabcd", GCONV_UNSUPPORTED, "CMYK");
  EXPECT_BAD("P7\nWIDTH 1\nHEIGHT 1\nDEPTH 2\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\nabcd", GCONV_UNSUPPORTED, "depth 2");
  EXPECT_BAD("P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nENDHDR\nabcd", GCONV_BAD_FILE, "MAXVAL");
  EXPECT_BAD("P7\nWIDTH 1x\nHEIGHT 1\nDEPTH 1\nMAXVAL 3\nENDHDR\nabcd", GCONV_BAD_FILE, "WIDTH");
  EXPECT_BAD("P7\nWIDTH 99999999999\nHEIGHT 1\nDEPTH 1\nMAXVAL 3\nENDHDR\nabcd", GCONV_BAD_FILE, "WIDTH");
  EXPECT_BAD("P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nMAXVAL 65536\nENDHDR\nabcd", GCONV_BAD_FILE, "maxval");
  EXPECT_BAD("P7\nWIDTH 1\nHEIGHT 1\n", GCONV_BAD_FILE, "too early");
}

static void test_bad_pnm(void **state) {
  (void)state;
  EXPECT_BAD("P5\n0 1\n255\n", GCONV_BAD_FILE, "0 x 1");
  EXPECT_BAD("P5\n1 1\n0\na", GCONV_BAD_FILE, "maxval of 0");
  EXPECT_BAD("P5\n1 1\n65536\nab", GCONV_BAD_FILE, "maxval");
  EXPECT_BAD("P5\n3000000000 1\n255\nab", GCONV_BAD_FILE, "width");
  EXPECT_BAD("P5\n-1 1\n255\nab", GCONV_BAD_FILE, "width is not");
  EXPECT_BAD("P5\n1x 1\n255\nab", GCONV_BAD_FILE, "width is not");
  EXPECT_BAD("P5\n2 2\n255\nabc", GCONV_BAD_FILE, "too early");
  EXPECT_BAD("P5\n2", GCONV_BAD_FILE, "too early");
  EXPECT_BAD("P4\n9 2\nabc", GCONV_BAD_FILE, "too early");
  EXPECT_BAD("P2\n2 1\n100\n1 101", GCONV_BAD_FILE, "over 100");
  EXPECT_BAD("P2\n2 1\n100\n1 x    ", GCONV_BAD_FILE, "not a whole number");
  EXPECT_BAD("P2\n3 1\n100\n1 2      ", GCONV_BAD_FILE, "too early");
  EXPECT_BAD("P5\n2 1\n100\na\xff", GCONV_BAD_FILE, "255, over the maxval of 100");
  EXPECT_BAD("P1\n2 1\n12", GCONV_BAD_FILE, "not 0 or 1");
  EXPECT_BAD("P1\n2 1\n1  ", GCONV_BAD_FILE, "too early");
}

static void test_pfm(void **state) {
  (void)state;
  EXPECT_F32("Pf\n1 2\n-1.0\n\x00\x00\x80\x3f\x00\x00\x00\xc0", 1, -2, 1);
  EXPECT_F32("Pf\r1 2 1 \x3f\x80\x00\x00\xc0\x00\x00\x00", 1, -2, 1);
  EXPECT_F32("PF\n1 1\n2.5e0\n\x3f\x80\x00\x00\xc0\x00\x00\x00\x00\x00\x00\x00", 3, 1, -2, 0);
  EXPECT_BAD("Pf\n1 2\n0.0\n12345678", GCONV_BAD_FILE, "scale");
  EXPECT_BAD("Pf\n1 2\nx\n12345678", GCONV_BAD_FILE, "scale");
  EXPECT_BAD("Pf\n1 0\n1\n12345678", GCONV_BAD_FILE, "size of 0");
  EXPECT_BAD("Pf\n1 4294967297\n1\n12345678", GCONV_BAD_FILE, "4294967297");
  EXPECT_BAD("Pf\n1 y\n1\n12345678", GCONV_BAD_FILE, "size y");
  EXPECT_BAD("Pf\n1 2\n1\n1234567", GCONV_BAD_FILE, "too early");
  EXPECT_BAD("Pf\n1 2", GCONV_BAD_FILE, "too early");
  EXPECT_BAD("Pf\n1 2 1111111111111111111111111111111111111111\n", GCONV_BAD_FILE, "PFM header");
}

static void test_unknown_files(void **state) {
  (void)state;
  gconv_image image = {0};
  EXPECT_BAD("", GCONV_BAD_FILE, "empty");
  EXPECT_BAD("x", GCONV_BAD_FILE, "png, jpeg, pnm, pam, pfm, npy");
  EXPECT_BAD("hello, this is no image", GCONV_BAD_FILE, "not an image");
  EXPECT_BAD("GIF89a..........", GCONV_UNSUPPORTED, "a GIF file");
  EXPECT_BAD("RIFF....WEBPVP8 ", GCONV_UNSUPPORTED, "a WebP file");
  EXPECT_BAD("II*\0............", GCONV_UNSUPPORTED, "a TIFF file");
  EXPECT_BAD("MM\0*............", GCONV_UNSUPPORTED, "convert");
  EXPECT_BAD("BM..............", GCONV_UNSUPPORTED, "a BMP file");
  EXPECT_BAD("\0\0\0\x18"
             "ftypheic....",
             GCONV_UNSUPPORTED, "a HEIC file");
  expect_error(gconv_image_read(path_of("missing"), NULL, &image), GCONV_IO_ERROR, "No such file");
  expect_error(gconv_image_read(folder, NULL, &image), GCONV_IO_ERROR, "folder");
  expect_error(gconv_image_read_header(path_of("bad"), &image, NULL), GCONV_UNSUPPORTED, "HEIC");
}

/* Headers that promise more than there is, or than is allowed: refused before memory is taken. */
static void test_bombs(void **state) {
  (void)state;
  gconv_image image = {0};
  EXPECT_BAD("P5\n100000 100000\n255\n", GCONV_BAD_FILE, "promises 10000000000 bytes");
  EXPECT_BAD("Pf\n2147483647 2147483647\n-1\n", GCONV_BAD_FILE, "promises");
  /* a PNG of 100000 x 100000 pixels, up to its IDAT */
  static const uint8_t png[] = {0x89, 'P',  'N',  'G',  13,   10,   26, 10, 0,    0,    0,   13,  'I', 'H',
                                'D',  'R',  0,    1,    0x86, 0xa0, 0,  1,  0x86, 0xa0, 8,   2,   0,   0,
                                0,    0x27, 0x30, 0x9c, 0x9f, 0,    0,  0,  0,    'I',  'D', 'A', 'T'};
  uint8_t bytes[sizeof png];
  memcpy(bytes, png, sizeof png);
  write_file(path_of("bomb.png"), bytes, sizeof bytes);
  gconv_status status = gconv_image_read(path_of("bomb.png"), NULL, &image);
  expect_error(status, GCONV_TOO_LARGE, "is 100000 x 100000 pixels; the limit is 1073741824: raise it with --max-pixels");
  assert_int_equal(gconv_image_read_header(path_of("bomb.png"), &image, NULL), GCONV_OK);
  assert_int_equal(image.width, 100000);
  gconv_image_free(&image);

  gconv_read_options options = {.max_pixels = 5};
  write_file(path_of("six.pgm"), "P5 3 2 255 abcdef", 17);
  expect_error(gconv_image_read(path_of("six.pgm"), &options, &image), GCONV_TOO_LARGE, "3 x 2 pixels; the limit is 5");
  options.max_pixels = 6;
  assert_int_equal(gconv_image_read(path_of("six.pgm"), &options, &image), GCONV_OK);
  gconv_image_free(&image);
}

/* ---- Every file cut at every sixteenth, and near its end ---- */

static void expect_cut_fails(const char *name) {
  enum { ROOM = 200000 };
  uint8_t *bytes = test_malloc(ROOM);
  size_t size = read_file(path_of(name), bytes, ROOM);
  for (size_t sixteenth = 0; sixteenth < 16 + 3; sixteenth++) {
    size_t cut = sixteenth < 16 ? size * sixteenth / 16 : size - (sixteenth - 15);
    gconv_image image = {0};
    write_file(path_of("cut"), bytes, cut);
    if (gconv_image_read(path_of("cut"), NULL, &image) != GCONV_BAD_FILE)
      fail_msg("%s cut to %zu of %zu bytes was not refused: %s", name, cut, size, gconv_last_error());
    assert_null(image.data);
  }
  test_free(bytes);
}

static void test_cut_files(void **state) {
  (void)state;
  static const char *const names[] = {"c.png", "c.jpg", "c.ppm", "c.pam", "c.npy"};
  gconv_image image = make_image(GCONV_U8, 1, 50, 60, 3, false), floats = make_image(GCONV_F32, 1, 20, 30, 1, false);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    assert_int_equal(gconv_image_write(path_of(names[i]), NULL, &image), GCONV_OK);
    expect_cut_fails(names[i]);
  }
  assert_int_equal(gconv_image_write(path_of("c.pfm"), NULL, &floats), GCONV_OK);
  expect_cut_fails("c.pfm");
  gconv_image_free(&image);
  gconv_image_free(&floats);
}

/* One bit wrong anywhere in a PNG is noticed: every chunk has a CRC. */
static void test_corrupt_png(void **state) {
  (void)state;
  enum { ROOM = 20000 };
  static uint8_t bytes[ROOM];
  gconv_image image = make_image(GCONV_U8, 1, 9, 11, 4, false), back = {0};
  image.pixels_per_metre_x = image.pixels_per_metre_y = 100;
  assert_int_equal(gconv_image_write(path_of("x.png"), NULL, &image), GCONV_OK);
  size_t size = read_file(path_of("x.png"), bytes, ROOM);
  for (size_t place = 0; place < size; place++) {
    bytes[place] ^= 16;
    write_file(path_of("corrupt"), bytes, size);
    if (gconv_image_read(path_of("corrupt"), NULL, &back) == GCONV_OK)
      fail_msg("byte %zu of %zu", place, size);
    bytes[place] ^= 16;
  }
  gconv_image_free(&image);
}

/* Noise in the data of a JPEG: an error or an image, never anything worse. */
static void test_corrupt_jpeg(void **state) {
  (void)state;
  enum { ROOM = 20000 };
  static uint8_t bytes[ROOM];
  gconv_image image = make_image(GCONV_U8, 1, 24, 24, 3, false), back = {0};
  assert_int_equal(gconv_image_write(path_of("x.jpg"), NULL, &image), GCONV_OK);
  size_t size = read_file(path_of("x.jpg"), bytes, ROOM);
  size_t refused = 0;
  for (size_t place = 2; place < size; place++) {
    bytes[place] ^= 0xff;
    write_file(path_of("corrupt"), bytes, size);
    refused += gconv_image_read(path_of("corrupt"), NULL, &back) != GCONV_OK;
    gconv_image_free(&back);
    bytes[place] ^= 0xff;
  }
  assert_true(refused > size / 20);
  gconv_image_free(&image);
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
  expect_error(gconv_image_write("-", NULL, &rgba), GCONV_BAD_ARGUMENT, "--format");
  expect_error(gconv_image_write(path_of("none/y.png"), NULL, &rgba), GCONV_IO_ERROR, "folder");
  expect_error(gconv_image_write(path_of("y.png"), &(gconv_write_options){.png_level = 10}, &rgba), GCONV_BAD_ARGUMENT,
               "level");
  expect_error(gconv_image_write(path_of("y.jpg"), &(gconv_write_options){.jpeg_quality = 101}, &rgba), GCONV_BAD_ARGUMENT,
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

/* Formats that fail when half is written leave the old file, and nothing beside it. */
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

/* ---- The folder ---- */

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/gconv-test-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lossless_round_trips),
      cmocka_unit_test(test_planar_round_trips),
      cmocka_unit_test(test_frames_are_transposed),
      cmocka_unit_test(test_jpeg_is_near),
      cmocka_unit_test(test_jpeg_coefficients_count),
      cmocka_unit_test(test_rows_piecemeal),
      cmocka_unit_test(test_rows_missing),
      cmocka_unit_test(test_jpeg_piecemeal),
      cmocka_unit_test(test_pnm),
      cmocka_unit_test(test_pam),
      cmocka_unit_test(test_bad_pnm),
      cmocka_unit_test(test_pfm),
      cmocka_unit_test(test_unknown_files),
      cmocka_unit_test(test_bombs),
      cmocka_unit_test(test_cut_files),
      cmocka_unit_test(test_corrupt_png),
      cmocka_unit_test(test_corrupt_jpeg),
      cmocka_unit_test(test_write_refuses),
      cmocka_unit_test(test_keep_existing),
      cmocka_unit_test(test_failure_leaves_the_old_file),
      cmocka_unit_test(test_icc),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

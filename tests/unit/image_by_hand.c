/* SPDX-License-Identifier: MIT */
/* Files made by hand, or damaged: what readers take of them, and what they must refuse. */
#include "image_test.h"

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
  EXPECT_U8("P5 2 1#a longer note\n255#and one more\nab", 1, 'a', 'b');
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
#ifdef GCONV_WITH_WEBP
  EXPECT_BAD("RIFF....WEBPVP8 ", GCONV_BAD_FILE, "damaged WebP");
#else
  EXPECT_BAD("RIFF....WEBPVP8 ", GCONV_UNSUPPORTED, "a WebP file, which is not read here (only png");
#endif
#ifdef GCONV_WITH_TIFF
  EXPECT_BAD("II*\0............", GCONV_BAD_FILE, "damaged TIFF");
  EXPECT_BAD("MM\0*............", GCONV_BAD_FILE, "damaged TIFF");
#else
  EXPECT_BAD("II*\0............", GCONV_UNSUPPORTED, "this gconv was built without libtiff");
  EXPECT_BAD("MM\0+............", GCONV_UNSUPPORTED, "a BigTIFF file");
#endif
  EXPECT_BAD("GIF89a..........", GCONV_UNSUPPORTED, "a GIF file");
  EXPECT_BAD("PK\3\4............", GCONV_BAD_FILE, "not a whole zip archive");
  EXPECT_BAD("\x89HDF\r\n\x1a\n....", GCONV_UNSUPPORTED, "an HDF5 file");
  EXPECT_BAD("\x1f\x8b..............", GCONV_BAD_FILE, "its gzip data are damaged");
  char dicom[132] = {0};
  memcpy(dicom + 128, "DICM", 4);
  expect_bad_file(dicom, sizeof dicom, GCONV_UNSUPPORTED, "a DICOM file");
  EXPECT_BAD("\0\0\0\x0c"
             "jP  ....",
             GCONV_UNSUPPORTED, "a JPEG 2000 file");
  expect_error(gconv_image_read(path_of("missing"), NULL, &image), GCONV_IO_ERROR, "No such file");
  expect_error(gconv_image_read(folder, NULL, &image), GCONV_IO_ERROR, "folder");
  expect_error(gconv_image_read_header(path_of("bad"), &image, NULL), GCONV_UNSUPPORTED, "JPEG 2000");
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
  expect_error(status, GCONV_TOO_LARGE, "is 100000 x 100000 pixels; the limit is 1073741824: raise it with 'max_pixels'");
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pnm),       cmocka_unit_test(test_pam),           cmocka_unit_test(test_bad_pnm),
      cmocka_unit_test(test_pfm),       cmocka_unit_test(test_unknown_files), cmocka_unit_test(test_bombs),
      cmocka_unit_test(test_cut_files), cmocka_unit_test(test_corrupt_png),   cmocka_unit_test(test_corrupt_jpeg),
  };
  return cmocka_run_group_tests_name("image/by hand", tests, make_folder, remove_folder);
}

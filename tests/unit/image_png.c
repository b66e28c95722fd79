/* SPDX-License-Identifier: MIT */
/* PNG from its parts to files: prefix codes, row filters, deflate, strips; judged by zlib and by libpng themselves. */
#include "base/checksum.h"
#include "base/memory.h"
#include "image/format.h"
#include "image/huffman.h"
#include "image/png_strip.h"
#include "png_cut.h"

#include <png.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

static uint32_t seed = 1;

/* 0 .. below - 1 */
static uint32_t draw(uint32_t below) {
  seed = seed * 1664525 + 1013904223;
  return (uint32_t)(((uint64_t)seed * below) >> 32);
}

/* ---- Checksums ---- */

static void test_checksums(void **state) {
  (void)state;
  uint8_t bytes[3000];
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (uint8_t)(i < 1000 ? 255 : draw(256));
  for (size_t cut = 0; cut <= sizeof bytes; cut += 1 + cut / 3) {
    size_t rest = sizeof bytes - cut;
    assert_int_equal(gconv_crc32(gconv_crc32(0, bytes, cut), bytes + cut, rest), crc32(0, bytes, sizeof bytes));
    uint32_t first = gconv_adler32(1, bytes, cut), second = gconv_adler32(1, bytes + cut, rest);
    assert_int_equal(first, adler32(1, bytes, (uInt)cut));
    assert_int_equal(gconv_adler32(first, bytes + cut, rest), adler32(1, bytes, sizeof bytes));
    assert_int_equal(gconv_adler32_combine(first, second, rest), adler32(1, bytes, sizeof bytes));
  }
  uint64_t far = UINT64_C(3) << 31;
  assert_int_equal(gconv_adler32_combine(0xfff0fff0, 0x12345678, far),
                   adler32_combine(0xfff0fff0, 0x12345678, (z_off_t)far));
}

/* ---- Prefix codes ---- */

/* The sum of 2^-length is 1, and no symbol that is more frequent has a longer code. */
static void check_code(const uint32_t *counts, int symbols, int longest, const uint8_t *lengths) {
  uint64_t sum = 0;
  for (int i = 0; i < symbols; i++) {
    assert_true(lengths[i] <= longest);
    assert_true(counts[i] == 0 || lengths[i] > 0);
    sum += lengths[i] ? UINT64_C(1) << (longest - lengths[i]) : 0;
    for (int k = 0; k < symbols; k++)
      assert_false(counts[i] > counts[k] && counts[k] > 0 && lengths[i] > lengths[k]);
  }
  assert_int_equal(sum, UINT64_C(1) << longest);
}

static void test_huffman(void **state) {
  (void)state;
  uint32_t counts[GCONV_HUFFMAN_SYMBOLS];
  uint8_t lengths[GCONV_HUFFMAN_SYMBOLS];
  for (int turn = 0; turn < 200; turn++) {
    int symbols = turn % 4 ? 2 + (int)draw(GCONV_HUFFMAN_SYMBOLS - 1) : 19, longest = turn % 4 ? 15 : 7;
    for (int i = 0; i < symbols; i++)
      counts[i] = draw(3) ? draw(1u << draw(20)) : 0;
    gconv_huffman_lengths(counts, symbols, longest, lengths);
    check_code(counts, symbols, longest, lengths);
  }
  for (int symbols = 2; symbols <= 30; symbols++) { /* Fibonacci's numbers make the deepest trees */
    counts[0] = counts[1] = 1;
    for (int i = 2; i < symbols; i++)
      counts[i] = counts[i - 1] + counts[i - 2];
    gconv_huffman_lengths(counts, symbols, 15, lengths);
    check_code(counts, symbols, 15, lengths);
    assert_int_equal(lengths[symbols - 1], 1);
    assert_int_equal(lengths[0], symbols - 1 < 15 ? symbols - 1 : 15);
  }
  memset(counts, 0, sizeof counts);
  counts[7] = 5;
  gconv_huffman_lengths(counts, 10, 15, lengths);
  assert_memory_equal(lengths, ((uint8_t[]){1, 0, 0, 0, 0, 0, 0, 1, 0, 0}), 10);
}

/* The example of RFC 1951, 3.2.2: lengths 3, 3, 3, 3, 3, 2, 4, 4. */
static void test_canonical_codes(void **state) {
  (void)state;
  uint16_t codes[8];
  gconv_huffman_codes((uint8_t[]){3, 3, 3, 3, 3, 2, 4, 4}, 8, codes);
  assert_memory_equal(codes, ((uint16_t[]){2 /* 010 */, 6, 1, 5, 3, 0, 7 /* 1110 */, 15}), sizeof codes);
}

/* ---- Row filters ---- */

static int predict(int filter, int left, int up, int corner) {
  int p = left + up - corner, a = abs(p - left), b = abs(p - up), c = abs(p - corner);
  int paeth = a <= b && a <= c ? left : b <= c ? up : corner;
  return ((int[]){0, left, up, (left + up) / 2, paeth})[filter];
}

static void test_filters(void **state) {
  (void)state;
  static const size_t pixels[] = {1, 2, 3, 4, 6, 8};
  for (int turn = 0; turn < 3000; turn++) {
    size_t pixel = pixels[draw(6)], bytes = pixel * (1 + draw(100));
    int filter = (int)draw(GCONV_PNG_FILTERS);
    uint8_t row[800], above[800], out[801];
    for (size_t i = 0; i < bytes; i++) {
      row[i] = (uint8_t)(draw(2) ? draw(256) : draw(2) * 255);
      above[i] = (uint8_t)(draw(2) ? draw(256) : draw(2) * 255);
    }
    out[bytes] = 0x5a;
    gconv_png_filter_row(filter, row, above, bytes, pixel, out);
    assert_int_equal(out[bytes], 0x5a);
    for (size_t i = 0; i < bytes; i++) {
      bool first = i < pixel;
      int predicted = predict(filter, first ? 0 : row[i - pixel], above[i], first ? 0 : above[i - pixel]);
      assert_int_equal(out[i], (uint8_t)(row[i] - predicted));
    }
  }
}

/* ---- Deflate ---- */

enum { NOISE = 2, GREY = 5, AGAIN, UNEVEN }; /* kinds of content: see below */

/* Content of several kinds: constant, few values, noise, repeated rows, copies from here and there, grey pixels, noise that
 * comes again after a megabyte of nothing, and noise of rare and frequent values by turns of 300 bytes. */
static void fill(uint8_t *bytes, size_t size, size_t line, size_t pixel, int kind) {
  const size_t far = (1 << 20) + 3002; /* a multiple of 3 */
  for (size_t i = 0; i < size; i++) {
    size_t x = i % line, like = (size_t)draw(8) * line + draw(16) * pixel;
    if (x == 0)
      bytes[i] = (uint8_t)draw(5);
    else if (kind == 0)
      bytes[i] = 7;
    else if (kind == 1)
      bytes[i] = (uint8_t)draw(3);
    else if (kind == GREY)
      bytes[i] = (x - 1) % pixel > 0 ? bytes[i - 1] : (uint8_t)draw(64);
    else if (kind == AGAIN)
      bytes[i] = i < 3000 ? (uint8_t)draw(256) : i > far && i < far + 3000 ? bytes[i - far] : 9;
    else if (kind == UNEVEN)
      bytes[i] = i / 300 % 2 ? (uint8_t)(200 + draw(56)) : (uint8_t)draw(4);
    else if (kind == NOISE)
      bytes[i] = (uint8_t)draw(256);
    else if (kind == 3)
      bytes[i] = i >= line ? bytes[i - line] : (uint8_t)draw(256);
    else /* copies from here and there */
      bytes[i] = draw(8) && like <= i && like > 0 ? bytes[i - like] : (uint8_t)draw(40);
  }
}

/* What zlib makes of raw deflate: the bytes it came from, and whether it ended. */
static void inflate_expect(const uint8_t *in, size_t in_size, const uint8_t *expected, size_t size, bool ends) {
  uint8_t *out = test_malloc(size + 1);
  z_stream stream = {.next_in = (Bytef *)in, .avail_in = (uInt)in_size, .next_out = out, .avail_out = (uInt)size + 1};
  assert_int_equal(inflateInit2(&stream, -15), Z_OK);
  int result = inflate(&stream, Z_SYNC_FLUSH);
  if (result != (ends ? Z_STREAM_END : Z_OK))
    fail_msg("inflate() says %d: %s", result, stream.msg ? stream.msg : "");
  assert_int_equal(stream.avail_in, 0);
  assert_int_equal(stream.total_out, size);
  assert_memory_equal(out, expected, size);
  if (!ends) { /* at a byte: a stored block can follow */
    stream.next_in = (Bytef[]){1, 1, 0, 0xfe, 0xff, 42};
    stream.avail_in = 6;
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_int_equal(out[size], 42);
  }
  inflateEnd(&stream);
  test_free(out);
}

/* Compresses content of that kind; returns the bytes made. No block is longer than stored, in parts of 64 KB. */
static size_t deflate_as(gconv_png_deflater *deflater, size_t rows, size_t width, size_t pixel, int kind, bool matches,
                         bool last) {
  enum { GUARD = 64 };
  gconv_png_lines lines = {.line = width * pixel + 1, .pixel = pixel, .matches = matches};
  lines.size = rows * lines.line;
  uint8_t *bytes = test_malloc(lines.size + GCONV_PNG_DEFLATE_SLACK);
  memset(bytes + lines.size, 7, GCONV_PNG_DEFLATE_SLACK); /* as the constant content: it must not be taken for more of it */
  fill(bytes, lines.size, lines.line, pixel, kind);
  lines.bytes = bytes;
  size_t bound = gconv_png_deflate_bound(lines.size);
  uint8_t *out = test_malloc(bound + GUARD);
  memset(out + bound, 0xa5, GUARD);
  size_t size = gconv_png_deflate(deflater, &lines, last, out);
  assert_true(size <= lines.size + (lines.size / GCONV_PNG_BLOCK_BYTES + 1) * 4 * 5 + 6);
  for (int i = 0; i < GUARD; i++)
    assert_int_equal(out[bound + (size_t)i], 0xa5);
  inflate_expect(out, size, bytes, lines.size, last);
  if (kind == 0 && lines.line > 1000 && rows > 100 && matches)
    assert_true(size < lines.size / 100);
  test_free(out);
  test_free(bytes);
  return size;
}

static void deflate_once(gconv_png_deflater *deflater, size_t rows, size_t width, size_t pixel, int kind, bool last) {
  deflate_as(deflater, rows, width, pixel, kind, draw(2), last);
}

static void test_deflate(void **state) {
  (void)state;
  static const size_t pixels[] = {1, 2, 3, 4, 6, 8};
  gconv_png_deflater *deflater;
  assert_int_equal(gconv_png_deflater_create(&deflater), GCONV_OK);
  for (int turn = 0; turn < 300; turn++)
    deflate_once(deflater, 1 + draw(40), 1 + draw(200), pixels[draw(6)], (int)draw(5), draw(2));
  for (int kind = 0; kind < 5; kind++)
    for (int p = 0; p < 6; p++) {
      deflate_once(deflater, 700, 1 + draw(900), pixels[p], kind, draw(2)); /* many blocks */
      deflate_once(deflater, 1, 100000 + draw(9), pixels[p], kind, true);   /* longer lines than the window */
      deflate_once(deflater, 20000, 1, pixels[p], kind, true);
    }
  gconv_png_deflater_free(deflater);
}

/* Matches: found of single pixels, not of what came too long ago, and told of by a trial. */
static void test_deflate_matches(void **state) {
  (void)state;
  gconv_png_deflater *deflater;
  assert_int_equal(gconv_png_deflater_create(&deflater), GCONV_OK);
  for (int kind = 0; kind <= UNEVEN; kind++)
    for (int matches = 0; matches < 2; matches++)
      deflate_as(deflater, 1, 500000, 3, kind, matches, true);
  size_t with = deflate_as(deflater, 300, 1000, 3, GREY, true, false);
  size_t without = deflate_as(deflater, 300, 1000, 3, GREY, false, false);
  assert_true(with < without / 4 * 3);

  enum { LINE = 3 * 300 + 1, LINES = 12 };
  uint8_t bytes[LINES * LINE + GCONV_PNG_DEFLATE_SLACK] = {0};
  gconv_png_lines lines = {.bytes = bytes, .size = sizeof bytes - GCONV_PNG_DEFLATE_SLACK, .line = LINE, .pixel = 3};
  fill(bytes, lines.size, LINE, 3, NOISE);
  assert_true(gconv_png_deflate_try_matches(deflater, &lines) > gconv_png_deflate_try_literals(deflater, &lines) / 4 * 3);
  for (size_t y = 1; y < LINES; y++) /* pixels of the line before, in another order */
    for (size_t x = 0; x < 300; x++)
      memcpy(bytes + y * LINE + 1 + 3 * x, bytes + (y - 1) * LINE + 1 + 3 * (x * 7 % 300), 3);
  assert_true(gconv_png_deflate_try_matches(deflater, &lines) < gconv_png_deflate_try_literals(deflater, &lines) / 4 * 3);
  gconv_png_deflater_free(deflater);
}

/* ---- The choice of a filter ---- */

/* Filters by their bits without matches and with them. */
static gconv_png_choice choose(const uint64_t *without, const uint64_t *with, int *tried) {
  gconv_png_choice choice = gconv_png_choice_begin(without);
  *tried = 0;
  for (int turn = 0; turn < GCONV_PNG_FILTERS; turn++) {
    const int filter = gconv_png_choice_turn(&choice, turn);
    const bool wanted = gconv_png_choice_wants(&choice, filter, choice.pay);
    *tried |= wanted << filter;
    gconv_png_choice_take(&choice, filter, wanted, with[filter]);
  }
  return choice;
}

static void test_choice(void **state) {
  (void)state;
  static const struct {
    uint64_t without[GCONV_PNG_FILTERS], with[GCONV_PNG_FILTERS];
    int best, tried; /* a bit each */
    bool matches;
  } cases[] = {
      {{9000, 4000, 3200, 3500, 3300}, {1, 1, 3150, 1, 1}, GCONV_PNG_UP, 4, false}, /* they do not pay: by less than 1/32 */
      /* once they pay, filters that are near are tried, and none at all */
      {{9000, 5000, 3200, 3500, 3300}, {2800, 1, 3000, 2900, 3100}, GCONV_PNG_NONE, 1 + 4 + 8 + 16, true},
      {{6000, 5000, 3200, 3500, 3300}, {500, 1, 3300, 600, 600}, GCONV_PNG_NONE, 1 + 4 + 8 + 16, true}, /* a drawing */
      {{3200, 3200, 3200, 3200, 3200}, {9999, 1, 1, 1, 1}, GCONV_PNG_NONE, 1, false}, /* the first of equals */
      {{3200, 3300, 3200, 9999, 3200}, {3000, 2000, 2000, 1, 3100}, GCONV_PNG_SUB, 1 + 2 + 4 + 16, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int tried;
    const gconv_png_choice choice = choose(cases[i].without, cases[i].with, &tried);
    assert_int_equal(tried, cases[i].tried);
    assert_int_equal(choice.best, cases[i].best);
    assert_int_equal(choice.matches, cases[i].matches);
  }
}

/* ---- Files ---- */

static char path[64];

typedef struct bytes_read {
  uint8_t *bytes;
  size_t size;
} bytes_read;

static bytes_read read_file(void) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  bytes_read result = {.size = (size_t)ftell(file)};
  rewind(file);
  result.bytes = test_malloc(result.size + 1);
  assert_int_equal(fread(result.bytes, 1, result.size, file), result.size);
  fclose(file);
  return result;
}

static _Noreturn void png_failed(png_structp png, png_const_charp text) {
  (void)png;
  print_error("libpng: %s\n", text);
  abort();
}

/* libpng, by itself, reads the image's own samples. Its warnings count as failures. */
static void expect_by_libpng(const gconv_image *image) {
  static const int colours[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGBA};
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, png_failed, png_failed);
  png_infop info = png_create_info_struct(png), end = png_create_info_struct(png);
  png_init_io(png, file);
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
  png_read_info(png, info);
  assert_int_equal(png_get_image_width(png, info), image->width);
  assert_int_equal(png_get_image_height(png, info), image->height);
  assert_int_equal(png_get_color_type(png, info), colours[image->channels - 1]);
  assert_int_equal(png_get_bit_depth(png, info), image->type == GCONV_U16 ? 16 : 8);
  if (image->type == GCONV_U16)
    png_set_swap(png);
  uint8_t *row = test_malloc(image->row_bytes);
  for (int32_t y = 0; y < image->height; y++) {
    png_read_row(png, row, NULL);
    assert_memory_equal(row, (uint8_t *)image->data + (size_t)y * image->row_bytes, image->row_bytes);
  }
  png_read_end(png, end);
  assert_int_equal(fgetc(file), EOF);
  test_free(row);
  png_destroy_read_struct(&png, &info, &end);
  fclose(file);
}

/* Kinds: constant, smooth with a little noise, noise. */
static gconv_image make_image(gconv_type type, int32_t height, int32_t width, int channels, int kind) {
  gconv_image image = {.type = type, .frames = 1, .height = height, .width = width, .channels = channels};
  image.alpha = channels % 2 == 0;
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  size_t count = image.plane_bytes / gconv_type_bytes(type), line = (size_t)width * (size_t)channels;
  for (size_t i = 0; i < count; i++) {
    uint32_t value = kind == 0 ? 0x8117 : kind == 1 ? (uint32_t)(i % line + i / line) * 64 + draw(512) : draw(65536);
    if (type == GCONV_U8)
      ((uint8_t *)image.data)[i] = (uint8_t)(value >> 8);
    else
      ((uint16_t *)image.data)[i] = (uint16_t)value;
  }
  return image;
}

static void write_or_fail(const gconv_image *image, int level, int threads) {
  gconv_write_options options = {.png_level = level, .threads = threads};
  if (gconv_image_write(path, &options, image) != GCONV_OK)
    fail_msg("%s", gconv_last_error());
}

/* All thread counts make the same file, and it is right. */
static void check_file(const gconv_image *image, int level) {
  write_or_fail(image, level, 1);
  bytes_read one = read_file();
  expect_by_libpng(image);
  for (int i = 0; i < (level > 5 ? 1 : 3); i++) {
    write_or_fail(image, level, ((int[]){2, 3, 7})[i]);
    bytes_read other = read_file();
    assert_int_equal(one.size, other.size);
    assert_memory_equal(one.bytes, other.bytes, one.size);
    test_free(other.bytes);
  }
  test_free(one.bytes);
}

static void test_small_files(void **state) {
  (void)state;
  static const int32_t sizes[][2] = {{1, 1}, {1, 2}, {2, 1}, {3, 3}, {1, 700}, {700, 1}, {17, 31}, {100, 90}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (int channels = 1; channels <= 4; channels++)
      for (int type = GCONV_U8; type <= GCONV_U16; type++)
        for (int kind = 0; kind < 3; kind++) {
          gconv_image image = make_image((gconv_type)type, sizes[i][0], sizes[i][1], channels, kind);
          check_file(&image, kind == 2 ? (int)i + 1 : 1);
          gconv_image_free(&image);
        }
}

/* Each has several strips. */
static void test_large_files(void **state) {
  (void)state;
  static const int32_t sizes[][2] = {{1500, 1400}, {3, 700000}, {1100000, 1}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (int kind = 0; kind < 3; kind++) {
      gconv_image image = make_image(kind == 1 ? GCONV_U16 : GCONV_U8, sizes[i][0], sizes[i][1], i == 2 ? 2 : 3, kind);
      check_file(&image, 1);
      gconv_image_free(&image);
    }
}

static void test_levels(void **state) {
  (void)state;
  size_t sizes[10];
  gconv_image image = make_image(GCONV_U8, 540, 500, 3, 1); /* two strips */
  for (int level = 0; level <= 9; level++) {
    check_file(&image, level == 0 ? GCONV_PNG_STORED : level);
    bytes_read file = read_file();
    sizes[level] = file.size;
    test_free(file.bytes);
  }
  assert_in_range(sizes[0], image.plane_bytes, image.plane_bytes + image.plane_bytes / 100);
  assert_true(sizes[1] < sizes[0] / 2);
  assert_true(sizes[9] <= sizes[1]);
  assert_true(sizes[9] <= sizes[6] && sizes[6] <= sizes[2]);
  write_or_fail(&image, 0, 0); /* the default */
  bytes_read file = read_file();
  assert_int_equal(file.size, sizes[1]);
  test_free(file.bytes);
  gconv_image_free(&image);
}

/* Noise in nearly grey pixels, of which many come again. */
static size_t size_of_noise(int32_t height, int32_t width) {
  gconv_image image = {.type = GCONV_U8, .frames = 1, .height = height, .width = width, .channels = 3};
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  seed = 1;
  for (size_t i = 0; i < image.plane_bytes; i += 3) {
    uint32_t grey = 80 + draw(33) + draw(33) + draw(33);
    for (size_t c = 0; c < 3; c++)
      ((uint8_t *)image.data)[i + c] = (uint8_t)(grey + draw(3));
  }
  check_file(&image, 1);
  gconv_image_free(&image);
  bytes_read file = read_file();
  test_free(file.bytes);
  return file.size;
}

/* Rows longer than what trials look at are seen to be noise all the same: the pixels take as little in any shape. */
static void test_wide_noise(void **state) {
  (void)state;
  size_t narrow = size_of_noise(600, 2000), wide = size_of_noise(6, 200000);
  assert_true(wide < narrow + narrow / 200);
}

/* Rows that come a few at a time, or many, with gaps between them, make the same file. */
static void test_rows_piecemeal(void **state) {
  (void)state;
  static const uint32_t most[] = {1, 50, 900, 2500};
  gconv_image image = make_image(GCONV_U16, 2400, 300, 3, 1); /* six strips */
  const gconv_format *format = (const gconv_format *)gconv_format_by_name("png");
  write_or_fail(&image, 1, 1);
  bytes_read whole = read_file();
  for (int turn = 0; turn < 8; turn++) {
    gconv_write_options options = {.png_level = 1, .threads = 1 + turn % 2};
    gconv_writer writer = {.format = format, .name = path, .header = &image, .options = &options};
    assert_int_equal(gconv_sink_open(path, &writer.sink), GCONV_OK);
    assert_int_equal(format->start(&writer), GCONV_OK);
    size_t stride = image.row_bytes + 100;
    uint8_t *rows = test_malloc((size_t)image.height * stride);
    for (int32_t y = 0, count; y < image.height; y += count) {
      count = (int32_t)draw(most[turn / 2]) + 1;
      count = count < image.height - y ? count : image.height - y;
      for (int32_t i = 0; i < count; i++)
        memcpy(rows + (size_t)i * stride, (uint8_t *)image.data + (size_t)(y + i) * image.row_bytes, image.row_bytes);
      assert_int_equal(format->write_rows(&writer, rows, stride, count), GCONV_OK);
      memset(rows, 0x77, (size_t)count * stride); /* they are the caller's again */
    }
    test_free(rows);
    assert_int_equal(format->finish(&writer), GCONV_OK);
    format->end(&writer);
    free(writer.state);
    assert_int_equal(gconv_sink_commit(writer.sink, false), GCONV_OK);
    bytes_read piecemeal = read_file();
    assert_int_equal(piecemeal.size, whole.size);
    assert_memory_equal(piecemeal.bytes, whole.bytes, whole.size);
    test_free(piecemeal.bytes);
  }
  test_free(whole.bytes);
  gconv_image_free(&image);
}

/* A strip as bytes, which come in pieces. */
static void write_strip_as_bytes(gconv_row_writer *writer, const png_cut *strip, int32_t rows) {
  for (size_t at = 0, size; at < strip->size; at += size) {
    size = draw((uint32_t)strip->size) + 1;
    size = size < strip->size - at ? size : strip->size - at;
    bool last = at + size == strip->size;
    gconv_part part = {.count = last ? rows : 0, .bytes = strip->chunk + at, .size = size, .adler = last ? strip->adler : 1};
    assert_int_equal(gconv_row_writer_write_part(writer, &part), GCONV_OK);
  }
}

/* Strips that were made elsewhere, some of them or all, and others between, make the same file. */
static void test_parts(void **state) {
  (void)state;
  enum { MOST = 16 };
  png_cut strips[MOST];
  for (int turn = 0; turn < 24; turn++) {
    gconv_image image = make_image(turn % 2 ? GCONV_U16 : GCONV_U8, 2100, 400, 1 + turn % 4, turn % 3);
    write_or_fail(&image, 1, 1);
    bytes_read whole = read_file();
    size_t count = png_cut_strips(whole.bytes, whole.size, strips, MOST);
    gconv_write_options options = {.png_level = 1, .threads = 1 + turn % 3};
    gconv_row_writer *writer = NULL;
    assert_int_equal(gconv_row_writer_open(path, &options, &image, &writer), GCONV_OK);
    int32_t row = 0;
    bool below = false;
    for (size_t i = 0; i < count; i++) {
      const int32_t rows = (int32_t)(strips[i].lines / (image.row_bytes + 1));
      const uint8_t *samples = (const uint8_t *)image.data + (size_t)row * image.row_bytes;
      if (turn < 3 || draw(2)) {
        write_strip_as_bytes(writer, &strips[i], rows);
        below = true;
      } else {
        gconv_part part = {.count = 1 + (int32_t)draw((uint32_t)rows), .samples = samples, .row_bytes = image.row_bytes};
        part.above = below ? samples - image.row_bytes : NULL;
        assert_int_equal(gconv_row_writer_write_part(writer, &part), GCONV_OK);
        part = (gconv_part){.count = rows - part.count,
                            .samples = samples + (size_t)part.count * image.row_bytes,
                            .row_bytes = image.row_bytes};
        if (part.count > 0)
          assert_int_equal(gconv_row_writer_write_part(writer, &part), GCONV_OK);
        below = false;
      }
      row += rows;
    }
    assert_int_equal(row, image.height);
    assert_int_equal(gconv_row_writer_commit(writer), GCONV_OK);
    bytes_read parts = read_file();
    assert_int_equal(parts.size, whole.size);
    assert_memory_equal(parts.bytes, whole.bytes, whole.size);
    test_free(parts.bytes);
    test_free(whole.bytes);
    gconv_image_free(&image);
  }
}

static void expect_refused(const char *name, int level, int32_t held, int32_t count) {
  gconv_image image = make_image(GCONV_U8, 40, 30, 3, 1);
  gconv_write_options options = {.png_level = level, .format = gconv_format_by_name(name), .threads = 1};
  gconv_row_writer *writer = NULL;
  assert_int_equal(gconv_row_writer_open(path, &options, &image, &writer), GCONV_OK);
  if (held > 0)
    assert_int_equal(gconv_row_writer_write(writer, image.data, image.row_bytes, held), GCONV_OK);
  gconv_part part = {.count = count, .bytes = "bytes", .size = 5, .adler = 1};
  assert_int_equal(gconv_row_writer_write_part(writer, &part), GCONV_BAD_ARGUMENT);
  gconv_row_writer_discard(writer);
  gconv_image_free(&image);
}

static void test_parts_that_do_not_fit(void **state) {
  (void)state;
  expect_refused("png", 6, 0, 40);
  expect_refused("png", GCONV_PNG_STORED, 0, 40);
  expect_refused("png", 1, 3, 10);
  expect_refused("png", 1, 0, 41);
  expect_refused("png", 1, 0, -1);
  expect_refused("pnm", 1, 0, 40);
}

static void test_full_disk(void **state) {
  (void)state;
  if (access("/dev/full", W_OK) != 0)
    skip();
  gconv_image image = make_image(GCONV_U8, 2000, 2000, 3, 2);
  for (int threads = 1; threads <= 4; threads++) {
    gconv_write_options options = {.format = gconv_format_by_name("png"), .threads = threads};
    assert_int_equal(gconv_image_write("/dev/full", &options, &image), GCONV_IO_ERROR);
    assert_non_null(strstr(gconv_last_error(), "/dev/full: cannot write"));
  }
  gconv_image_free(&image);
}

static void test_too_wide(void **state) {
  (void)state;
  uint8_t none[8] = {0};
  gconv_image image = {.type = GCONV_U16, .frames = 1, .height = 1, .width = 500000000, .channels = 3, .data = none};
  assert_int_equal(gconv_image_write(path, NULL, &image), GCONV_UNSUPPORTED);
  assert_non_null(strstr(gconv_last_error(), "up to a gigabyte"));
}

static int make_path(void **state) {
  (void)state;
  snprintf(path, sizeof path, "/tmp/gconv-png-%ld.png", (long)getpid());
  return 0;
}

static int remove_path(void **state) {
  (void)state;
  unlink(path);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_checksums),       cmocka_unit_test(test_huffman),
      cmocka_unit_test(test_canonical_codes), cmocka_unit_test(test_filters),
      cmocka_unit_test(test_deflate),         cmocka_unit_test(test_deflate_matches),
      cmocka_unit_test(test_choice),          cmocka_unit_test(test_small_files),
      cmocka_unit_test(test_large_files),     cmocka_unit_test(test_levels),
      cmocka_unit_test(test_full_disk),       cmocka_unit_test(test_wide_noise),
      cmocka_unit_test(test_rows_piecemeal),  cmocka_unit_test(test_too_wide),
      cmocka_unit_test(test_parts),           cmocka_unit_test(test_parts_that_do_not_fit),
  };
  return cmocka_run_group_tests(tests, make_path, remove_path);
}

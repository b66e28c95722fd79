/* SPDX-License-Identifier: MIT */
/* PNGs that ISA-L inflates against libpng, which alone reads what cannot be rewound: the same pixels, or the same complaint.
 */
#include "base/memory.h"
#include "image/format.h"
#include "image/metadata.h"
#include "image/png_filter.h"
#include "image/png_inflate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

/* ---- Who reads ---- */

static int given, refused; /* calls of gconv_png_inflate_rows(), and those that returned false */

bool __real_gconv_png_inflate_rows(gconv_png_inflate *inflate, uint8_t *rows, size_t row_bytes, int32_t count);
bool __wrap_gconv_png_inflate_rows(gconv_png_inflate *inflate, uint8_t *rows, size_t row_bytes, int32_t count);

/* The linker puts it in the other one's place. */
bool __wrap_gconv_png_inflate_rows(gconv_png_inflate *inflate, uint8_t *rows, size_t row_bytes, int32_t count) {
  bool right = __real_gconv_png_inflate_rows(inflate, rows, row_bytes, count);
  given++;
  refused += !right;
  return right;
}

#ifdef GCONV_WITH_ISAL
enum { WITH_ISAL = 1 };
#else
enum { WITH_ISAL = 0 };
#endif

static uint32_t seed = 1;

/* 0 .. below - 1 */
static uint32_t draw(uint32_t below) {
  seed = seed * 1664525 + 1013904223;
  return (uint32_t)(((uint64_t)seed * below) >> 32);
}

/* ---- Files ---- */

typedef struct made_png {
  uint8_t *bytes;
  size_t size;
} made_png;

static void add_chunk(made_png *png, const char *type, const void *bytes, size_t size) {
  png->bytes = test_realloc(png->bytes, png->size + size + 12);
  uint8_t *out = png->bytes + png->size;
  for (int i = 0; i < 4; i++)
    out[i] = (uint8_t)(size >> (24 - 8 * i));
  memcpy(out + 4, type, 4);
  if (size > 0)
    memcpy(out + 8, bytes, size);
  uint32_t crc = (uint32_t)crc32(0, out + 4, (uInt)size + 4);
  for (int i = 0; i < 4; i++)
    out[8 + size + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
  png->size += size + 12;
}

static made_png begin_png(uint32_t height, uint32_t width, int depth, int colour, bool interlaced) {
  made_png png = {.bytes = test_malloc(8), .size = 8};
  memcpy(png.bytes, "\x89PNG\r\n\x1a\n", 8);
  uint8_t header[13] = {(uint8_t)(width >> 24),
                        (uint8_t)(width >> 16),
                        (uint8_t)(width >> 8),
                        (uint8_t)width,
                        0,
                        0,
                        (uint8_t)(height >> 8),
                        (uint8_t)height,
                        (uint8_t)depth,
                        (uint8_t)colour,
                        0,
                        0,
                        interlaced};
  add_chunk(&png, "IHDR", header, sizeof header);
  return png;
}

/* The stream as IDAT chunks of up to `most` bytes, some of them empty; the first has the two bytes that tell its window. */
static void add_pixels(made_png *png, const uint8_t *stream, size_t size, uint32_t most) {
  for (size_t at = 0, part; at < size; at += part) {
    part = draw(most) + (at == 0 ? 2 : 0);
    part = part < size - at ? part : size - at;
    add_chunk(png, "IDAT", stream + at, part);
  }
}

/* Random filters and pixels, some of them copies. `line` is the bytes of a line; a line begins with its filter's number. */
static void draw_lines(uint8_t *lines, size_t rows, size_t line) {
  size_t count = rows * line, few = draw(2) ? 256 : 3;
  for (size_t i = 0; i < count; i++) {
    size_t back = (size_t)draw(8) * line + draw(16);
    lines[i] = (uint8_t)(i % line == 0 ? draw(5) : back > 0 && back <= i && draw(4) ? lines[i - back] : draw((uint32_t)few));
  }
}

/* Compressed by zlib, with the full window: libpng and others announce a smaller one for small images. */
static uint8_t *compress_lines(const uint8_t *lines, size_t bytes, int level, size_t *size) {
  uLongf bound = compressBound(bytes);
  uint8_t *stream = test_malloc(bound);
  assert_int_equal(compress2(stream, &bound, lines, bytes, level), Z_OK);
  *size = bound;
  return stream;
}

static uint8_t *make_stream(size_t rows, size_t line, size_t *size) {
  uint8_t *lines = test_malloc(rows * line);
  draw_lines(lines, rows, line);
  int level = 1 + (int)draw(9);
  if (rows * line > 100000 && level > 5) /* levels above search longer, for seconds, and write nothing of another kind */
    level = 5;
  uint8_t *stream = compress_lines(lines, rows * line, level, size);
  test_free(lines);
  return stream;
}

/* The seven passes of an interlaced image, with `bits` a pixel. */
static uint8_t *make_interlaced(uint32_t height, uint32_t width, uint32_t bits, size_t *size) {
  static const uint8_t x[] = {0, 4, 0, 2, 0, 1, 0}, y[] = {0, 0, 4, 0, 2, 0, 1},
                       steps[][2] = {{8, 8}, {8, 8}, {4, 8}, {4, 4}, {2, 4}, {2, 2}, {1, 2}};
  uint8_t *lines = test_malloc((size_t)height * ((size_t)width * bits / 8 + 2) * 2 + 100);
  size_t used = 0;
  for (int i = 0; i < 7; i++) {
    size_t columns = 0, rows = 0;
    for (uint32_t at = x[i]; at < width; at += steps[i][0])
      columns++;
    for (uint32_t at = y[i]; at < height; at += steps[i][1])
      rows++;
    size_t line = (columns * bits + 7) / 8 + 1;
    if (columns > 0)
      draw_lines(lines + used, rows, line);
    used += columns > 0 ? rows * line : 0;
  }
  uint8_t *stream = compress_lines(lines, used, 1 + (int)draw(9), size);
  test_free(lines);
  return stream;
}

/* ---- Two readers ---- */

/* `step` rows at a time; the text of a failure is copied. */
static gconv_status read_png(const made_png *png, bool rewinds, int32_t step, gconv_image *image, char text[200]) {
  gconv_source source;
  gconv_reader reader;
  gconv_source_of_bytes("a PNG", png->bytes, png->size, &source);
  if (!rewinds)
    source.size = UINT64_MAX;
  gconv_status status = gconv_reader_open(&reader, &source, UINT64_MAX);
  if (status == GCONV_OK)
    status = gconv_image_allocate(&reader.header);
  if (status == GCONV_OK) {
    *image = reader.header;
    reader.header.data = NULL;
    gconv_metadata_disown(&reader.header);
    uint8_t *next = image->data;
    for (int32_t y = 0, count; y < image->height && status == GCONV_OK; y += count) {
      count = image->height - y < step ? image->height - y : step;
      status = gconv_reader_rows(&reader, next, image->row_bytes, count);
      next += (size_t)count * image->row_bytes;
    }
  }
  if (status != GCONV_OK)
    snprintf(text, 200, "%s", gconv_last_error());
  gconv_reader_close(&reader);
  return status;
}

/* Both ways agree, in their words too. True if they read it. */
static bool agree(const made_png *png, int32_t step) {
  gconv_image fast = {0}, slow = {0};
  char fast_text[200] = "", slow_text[200] = "";
  given = refused = 0;
  gconv_status slow_status = read_png(png, false, step, &slow, slow_text);
  assert_int_equal(given, 0);
  gconv_status fast_status = read_png(png, true, step, &fast, fast_text);
  assert_int_equal(fast_status, slow_status);
  assert_string_equal(fast_text, slow_text);
  if (slow_status == GCONV_OK)
    assert_memory_equal(fast.data, slow.data, slow.plane_bytes);
  gconv_image_free(&fast);
  gconv_image_free(&slow);
  return slow_status == GCONV_OK;
}

/* And ISA-L inflated it, to the end. */
static void agree_by_isal(const made_png *png, int32_t step) {
  assert_true(agree(png, step));
  assert_int_equal(given > 0, WITH_ISAL);
  assert_int_equal(refused, 0);
}

static const int channels_of[] = {[0] = 1, [2] = 3, [3] = 1, [4] = 2, [6] = 4};

/* Every colour type and depth, interlaced or not, with palettes and tRNS. A palette may be too short for some samples. */
static void test_all_kinds(void **state) {
  (void)state;
  static const int colours[] = {0, 2, 3, 4, 6};
  int readable = 0, turns = 600;
  for (int turn = 0; turn < turns; turn++) {
    int colour = colours[draw(5)], depth = colour == 0 ? 1 << draw(5) : colour == 3 ? 1 << draw(4) : 8 << draw(2);
    bool large = turn % 60 < 2, interlaced = draw(4) == 0;
    uint32_t height = 1 + draw(large ? 1500 : 40), width = 1 + draw(large ? 900 : 60), bits = channels_of[colour] * depth;
    uint8_t entries[768];
    for (int i = 0; i < 768; i++)
      entries[i] = (uint8_t)draw(256);
    made_png png = begin_png(height, width, depth, colour, interlaced);
    bool plain = !interlaced && colour != 3 && depth >= 8; /* ISA-L inflates it */
    uint32_t count = draw(2) ? 1u << (depth & 15) : 1 + draw(1u << (depth & 15));
    if (colour == 3)
      add_chunk(&png, "PLTE", entries, 3 * (size_t)count);
    if (draw(2) && colour == 3)
      add_chunk(&png, "tRNS", entries + 100, 1 + draw(count));
    else if (draw(2) && (colour == 0 || colour == 2)) {
      add_chunk(&png, "tRNS", entries, colour ? 6 : 2);
      plain = false;
    }
    size_t size;
    uint8_t *stream = interlaced ? make_interlaced(height, width, bits, &size)
                                 : make_stream(height, ((size_t)width * bits + 7) / 8 + 1, &size);
    add_pixels(&png, stream, size, draw(2) ? 300 : 100000);
    if (draw(2))
      add_chunk(&png, "tEXt", "Comment\0after the pixels", 24);
    add_chunk(&png, "IEND", NULL, 0);
    bool right = agree(&png, draw(2) ? INT32_MAX : 1 + (int32_t)draw(50));
    assert_true(right || colour == 3);
    assert_int_equal(given > 0, WITH_ISAL && plain);
    assert_int_equal(refused, 0);
    readable += right;
    test_free(png.bytes);
    test_free(stream);
  }
  assert_in_range(readable, turns * 8 / 10, turns);
}

/* A first chunk that is too short to tell the window is left to libpng, with all that follow. */
static void test_short_first_chunk(void **state) {
  (void)state;
  size_t size;
  uint8_t *stream = make_stream(30, 61, &size);
  for (size_t first = 0; first < 4; first++) {
    made_png png = begin_png(30, 20, 8, 2, false);
    add_chunk(&png, "IDAT", stream, first);
    add_chunk(&png, "IDAT", stream + first, size - first);
    add_chunk(&png, "IEND", NULL, 0);
    assert_true(agree(&png, 7));
    assert_int_equal(given > 0, WITH_ISAL && first >= 2);
    assert_int_equal(refused, 0);
    test_free(png.bytes);
  }
  test_free(stream);
}

/* ImageMagick writes EXIF, times and texts behind the pixels: nothing of them is wanted, and no row is read twice. */
static void test_chunks_behind(void **state) {
  (void)state;
  size_t size;
  uint8_t *stream = make_stream(30, 61, &size);
  made_png png = begin_png(30, 20, 8, 2, false);
  add_pixels(&png, stream, size, 300);
  add_chunk(&png, "eXIf", "MM\0\x2a\0\0\0\x08\0\0\0\0\0\0", 14);
  add_chunk(&png, "tEXt", "date:create\0today", 17);
  add_chunk(&png, "tIME", "\x07\xea\x0b\x17\0\x35\x26", 7);
  add_chunk(&png, "IEND", NULL, 0);
  agree_by_isal(&png, INT32_MAX);
  test_free(png.bytes);
  test_free(stream);
}

/* What the head of a chunk looks like stands in another chunk, and is none. */
static void test_false_head(void **state) {
  (void)state;
  size_t size;
  uint8_t *stream = make_stream(30, 61, &size);
  made_png png = begin_png(30, 20, 8, 2, false);
  add_chunk(&png, "gAMA", "\0\0\0\x8eIDAT", 8);
  add_chunk(&png, "tEXt", "\0\0\0\x8eIDAT", 8);
  add_pixels(&png, stream, size, 300);
  add_chunk(&png, "IEND", NULL, 0);
  agree_by_isal(&png, INT32_MAX);
  test_free(png.bytes);
  test_free(stream);
}

/* Lines that are longer than a piece of inflated bytes, or just as long. */
static void test_wide_rows(void **state) {
  (void)state;
  static const uint32_t widths[] = {65533, 65534, 65535, 65536, 131069, 131070, 262143, 262144, 400000};
  for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
    size_t size;
    uint8_t *stream = make_stream(3, widths[i] + 1, &size);
    made_png png = begin_png(3, widths[i], 8, 0, false);
    add_pixels(&png, stream, size, 100000);
    add_chunk(&png, "IEND", NULL, 0);
    agree_by_isal(&png, 1 + (int32_t)draw(3));
    test_free(png.bytes);
    test_free(stream);
  }
}

/* Every byte of a file wrong, and the file cut everywhere. */
static void test_damaged(void **state) {
  (void)state;
  size_t size;
  uint8_t *stream = make_stream(9, 22, &size);
  made_png png = begin_png(9, 7, 8, 2, false);
  add_pixels(&png, stream, size, 80);
  add_chunk(&png, "tIME", "\x07\xe8\x01\x01\x01\x01\x01", 7);
  add_chunk(&png, "IEND", NULL, 0);
  assert_true(agree(&png, INT32_MAX));
  for (size_t i = 8; i < png.size; i++)
    for (int bit = 0; bit < 8; bit += 3) {
      png.bytes[i] ^= (uint8_t)(1 << bit);
      assert_false(agree(&png, bit ? 4 : INT32_MAX));
      png.bytes[i] ^= (uint8_t)(1 << bit);
    }
  for (png.size--; png.size > 0; png.size--)
    assert_false(agree(&png, 4));
  test_free(png.bytes);
  test_free(stream);
}

enum fault {
  TOO_FEW_ROWS,
  TOO_MANY_ROWS,
  WRONG_ADLER,
  WRONG_MIDDLE,
  SMALL_WINDOW,
  CUT_STREAM,
  MORE_BYTES,
  ANOTHER_PIXEL_CHUNK,
  UNKNOWN_CRITICAL_CHUNK,
  LATE_GAMMA,
  NO_END,
  FAULTS
};

/* A large file whose chunks have the right checksums, and something else is wrong or odd, mostly late. */
static made_png make_faulty(enum fault fault) {
  enum { HEIGHT = 1100, LINE = 901 };
  size_t size, rows = fault == TOO_FEW_ROWS ? HEIGHT - 1 : fault == TOO_MANY_ROWS ? HEIGHT + 1 : HEIGHT;
  uint8_t *stream = make_stream(rows, LINE, &size);
  made_png png = begin_png(HEIGHT, LINE / 3, 8, 2, false);
  if (fault == WRONG_ADLER)
    stream[size - 1] ^= 1;
  if (fault == WRONG_MIDDLE)
    stream[size / 2] ^= 0x55;
  if (fault == SMALL_WINDOW) { /* 512 bytes are announced, and copies are from other lines */
    stream[0] = 0x18;
    stream[1] = (uint8_t)(31 - 0x1800 % 31);
  }
  if (fault == MORE_BYTES)
    stream = test_realloc(stream, ++size);
  add_pixels(&png, stream, fault == CUT_STREAM ? size - 3 : size, 50000);
  if (fault == ANOTHER_PIXEL_CHUNK)
    add_chunk(&png, "IDAT", "more", 4);
  if (fault == UNKNOWN_CRITICAL_CHUNK)
    add_chunk(&png, "QQQQ", "what", 4);
  if (fault == LATE_GAMMA)
    add_chunk(&png, "gAMA", "\0\0\x20\0", 4);
  if (fault != NO_END)
    add_chunk(&png, "IEND", NULL, 0);
  test_free(stream);
  return png;
}

static void test_faulty(void **state) {
  (void)state;
  seed = 1;
  for (int fault = 0; fault < FAULTS; fault++) {
    made_png png = make_faulty((enum fault)fault);
    bool readable = agree(&png, INT32_MAX);
    assert_int_equal(given > 0, WITH_ISAL && fault != SMALL_WINDOW);
    assert_int_equal(refused, given > 0);
    assert_int_equal(agree(&png, 100), readable);
    /* libpng's verdict: a warning at most, also where other pixels have another checksum that it has not read by then. */
    if (fault != WRONG_MIDDLE)
      assert_int_equal(readable, fault == TOO_MANY_ROWS || fault == MORE_BYTES || fault == ANOTHER_PIXEL_CHUNK ||
                                     fault == UNKNOWN_CRITICAL_CHUNK || fault == LATE_GAMMA);
    test_free(png.bytes);
  }
}

/* A row filter with an invalid number. */
static void test_bad_filter(void **state) {
  (void)state;
  uint8_t lines[60] = {[20] = 5}, stream[200];
  uLongf size = sizeof stream;
  assert_int_equal(compress2(stream, &size, lines, sizeof lines, 6), Z_OK);
  made_png png = begin_png(3, 19, 8, 0, false);
  add_chunk(&png, "IDAT", stream, size);
  add_chunk(&png, "IEND", NULL, 0);
  assert_false(agree(&png, INT32_MAX));
  assert_false(agree(&png, 1));
  test_free(png.bytes);
}

/* The memory that reading takes at most, by a process that begins with what this one has now. */
static size_t peak_of_reading(const made_png *png, uint8_t *row, size_t width, int32_t rows) {
  struct rusage before, after;
  gconv_source source;
  gconv_reader reader;
  getrusage(RUSAGE_SELF, &before);
  gconv_source_of_bytes("a PNG", png->bytes, png->size, &source);
  bool right = gconv_reader_open(&reader, &source, UINT64_MAX) == GCONV_OK;
  for (int32_t y = 0; y < rows && right; y++)
    right = gconv_reader_rows(&reader, row, width, 1) == GCONV_OK;
  gconv_reader_close(&reader);
  getrusage(RUSAGE_SELF, &after);
  return right ? (size_t)(after.ru_maxrss - before.ru_maxrss) << 10 : SIZE_MAX;
}

/* Of long rows, few are in memory. */
static void test_long_rows(void **state) {
  (void)state;
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  skip(); /* the sanitizer keeps memory that was freed */
#endif
#endif
  enum { HEIGHT = 10, WIDTH = 8 << 20 };
  z_stream zlib = {0};
  uint8_t *line = test_calloc(1, WIDTH + 1), *stream = test_malloc(1 << 20);
  assert_int_equal(deflateInit(&zlib, 1), Z_OK);
  zlib.next_out = stream;
  zlib.avail_out = 1 << 20;
  for (int y = 0; y < HEIGHT; y++) {
    zlib.next_in = line;
    zlib.avail_in = WIDTH + 1;
    assert_int_equal(deflate(&zlib, y == HEIGHT - 1 ? Z_FINISH : Z_NO_FLUSH), y == HEIGHT - 1 ? Z_STREAM_END : Z_OK);
  }
  made_png png = begin_png(HEIGHT, WIDTH, 8, 0, false);
  add_chunk(&png, "IDAT", stream, zlib.total_out);
  add_chunk(&png, "IEND", NULL, 0);
  deflateEnd(&zlib);
  int status;
  pid_t child = fork();
  if (child == 0)
    _exit(peak_of_reading(&png, line, WIDTH, HEIGHT) < (size_t)6 * WIDTH ? 0 : 1);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  test_free(png.bytes);
  test_free(stream);
  test_free(line);
}

/* Who reads on after a failure gets no pixels: of an interlaced file, which is read as a whole, they were never set. */
static void test_read_on(void **state) {
  (void)state;
  uint8_t row[8];
  made_png png = begin_png(3, 8, 8, 0, true);
  add_chunk(&png, "IDAT", "\x78\x01", 2);
  add_chunk(&png, "IEND", NULL, 0);
  gconv_source source;
  gconv_reader reader;
  gconv_source_of_bytes("a PNG", png.bytes, png.size, &source);
  assert_int_equal(gconv_reader_open(&reader, &source, UINT64_MAX), GCONV_OK);
  assert_int_equal(gconv_reader_rows(&reader, row, sizeof row, 1), GCONV_BAD_FILE);
  assert_int_equal(gconv_reader_rows(&reader, row, sizeof row, 1), GCONV_BAD_ARGUMENT);
  gconv_reader_close(&reader);
  test_free(png.bytes);
}

/* Closed before the end. */
static void test_left_early(void **state) {
  (void)state;
  made_png png = make_faulty(FAULTS);
  for (int32_t rows = 0; rows < 1100; rows += 1 + (int32_t)draw(200)) {
    gconv_source source;
    gconv_reader reader;
    gconv_source_of_bytes("a PNG", png.bytes, png.size, &source);
    assert_int_equal(gconv_reader_open(&reader, &source, UINT64_MAX), GCONV_OK);
    uint8_t *buffer = test_malloc((size_t)rows * 900 + 1);
    if (rows > 0)
      assert_int_equal(gconv_reader_rows(&reader, buffer, 900, rows), GCONV_OK);
    gconv_reader_close(&reader);
    test_free(buffer);
  }
  test_free(png.bytes);
}

static void test_unfilter(void **state) {
  (void)state;
  static const size_t pixels[] = {1, 2, 3, 4, 6, 8};
  for (int turn = 0; turn < 3000; turn++) {
    size_t pixel = pixels[draw(6)], bytes = pixel * (1 + draw(100));
    int filter = (int)draw(GCONV_PNG_FILTERS);
    uint8_t *row = test_malloc(bytes), *above = test_malloc(bytes), *filtered = test_malloc(bytes),
            *out = test_malloc(bytes); /* each with guards of cmocka around it */
    for (size_t i = 0; i < bytes; i++) {
      row[i] = (uint8_t)(draw(2) ? draw(256) : draw(2) * 255);
      above[i] = (uint8_t)(draw(2) ? draw(256) : draw(2) * 255);
    }
    gconv_png_filter_row(filter, row, above, bytes, pixel, filtered);
    gconv_png_unfilter_row(filter, filtered, above, bytes, pixel, out);
    assert_memory_equal(out, row, bytes);
    test_free(row);
    test_free(above);
    test_free(filtered);
    test_free(out);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_kinds),     cmocka_unit_test(test_wide_rows),  cmocka_unit_test(test_short_first_chunk),
      cmocka_unit_test(test_chunks_behind), cmocka_unit_test(test_false_head), cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_faulty),        cmocka_unit_test(test_bad_filter), cmocka_unit_test(test_left_early),
      cmocka_unit_test(test_unfilter),      cmocka_unit_test(test_long_rows),  cmocka_unit_test(test_read_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

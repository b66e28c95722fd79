/* SPDX-License-Identifier: MIT */
/* The fast PNG reader against libpng, which alone reads what cannot be rewound: the same pixels, or the same complaint. */
#include "base/memory.h"
#include "base/threads.h"
#include "image/format.h"
#include "image/png_filter.h"

#include <pthread.h>
#include <semaphore.h>
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

static made_png begin_png(uint32_t height, uint32_t width, int depth, int colour) {
  made_png png = {.bytes = test_malloc(8), .size = 8};
  memcpy(png.bytes, "\x89PNG\r\n\x1a\n", 8);
  uint8_t header[13] = {(uint8_t)(width >> 24), (uint8_t)(width >> 16), (uint8_t)(width >> 8), (uint8_t)width, 0, 0,
                        (uint8_t)(height >> 8), (uint8_t)height,        (uint8_t)depth,        (uint8_t)colour};
  add_chunk(&png, "IHDR", header, sizeof header);
  return png;
}

/* The stream as IDAT chunks of up to `most` bytes, some of them empty. */
static void add_pixels(made_png *png, const uint8_t *stream, size_t size, uint32_t most) {
  for (size_t at = 0, part; at < size; at += part) {
    part = draw(most) + (at == 0 ? 2 : 0);
    part = part < size - at ? part : size - at;
    add_chunk(png, "IDAT", stream + at, part);
  }
}

/* Lines of random filters and pixels, some of them copies, compressed by zlib. */
static uint8_t *make_stream(size_t rows, size_t line, size_t *size) {
  size_t count = rows * line, few = draw(2) ? 256 : 3;
  uint8_t *lines = test_malloc(count);
  for (size_t i = 0; i < count; i++) {
    size_t back = (size_t)draw(8) * line + draw(16);
    lines[i] = (uint8_t)(i % line == 0 ? draw(5) : back > 0 && back <= i && draw(4) ? lines[i - back] : draw((uint32_t)few));
  }
  uLongf bound = compressBound(count);
  uint8_t *stream = test_malloc(bound);
  assert_int_equal(compress2(stream, &bound, lines, count, 1 + (int)draw(9)), Z_OK);
  test_free(lines);
  *size = bound;
  return stream;
}

/* ---- Two readers ---- */

/* `step` rows at a time, on `shared` threads unless that is NULL; the text of a failure is copied. */
static gconv_status read_png(const made_png *png, bool rewinds, int threads, gconv_threads *shared, int32_t step,
                             gconv_image *image, char text[200]) {
  gconv_source source;
  gconv_reader reader;
  gconv_source_of_bytes("a PNG", png->bytes, png->size, &source);
  if (!rewinds)
    source.size = UINT64_MAX;
  gconv_status status = gconv_reader_open(&reader, &source, UINT64_MAX);
  reader.threads = threads;
  reader.shared = shared;
  if (status == GCONV_OK)
    status = gconv_image_allocate(&reader.header);
  if (status == GCONV_OK) {
    *image = reader.header;
    reader.header.data = NULL;
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

/* Both readers agree, in their words too. True if they read it. */
static bool agree(const made_png *png, int threads, int32_t step) {
  gconv_image fast = {0}, slow = {0};
  char fast_text[200] = "", slow_text[200] = "";
  gconv_status fast_status = read_png(png, true, threads, NULL, step, &fast, fast_text);
  gconv_status slow_status = read_png(png, false, 1, NULL, step, &slow, slow_text);
  assert_int_equal(fast_status, slow_status);
  assert_string_equal(fast_text, slow_text);
  if (slow_status == GCONV_OK)
    assert_memory_equal(fast.data, slow.data, slow.plane_bytes);
  gconv_image_free(&fast);
  gconv_image_free(&slow);
  return slow_status == GCONV_OK;
}

static void test_all_kinds(void **state) {
  (void)state;
  static const int colours[] = {0, 4, 2, 6};
  for (int turn = 0; turn < 120; turn++) {
    int channels = 1 + (int)draw(4), depth = draw(2) ? 8 : 16;
    bool large = turn % 12 < 2;
    uint32_t height = 1 + draw(large ? 1500 : 40), width = 1 + draw(large ? 900 : 60);
    size_t pixel = (size_t)(channels * depth / 8), size;
    uint8_t *stream = make_stream(height, width * pixel + 1, &size);
    made_png png = begin_png(height, width, depth, colours[channels - 1]);
    add_pixels(&png, stream, size, draw(2) ? 300 : 100000);
    if (draw(2))
      add_chunk(&png, "tEXt", "Comment\0after the pixels", 24);
    add_chunk(&png, "IEND", NULL, 0);
    assert_true(agree(&png, 1 + turn % 4, draw(2) ? INT32_MAX : 1 + (int32_t)draw(50)));
    test_free(png.bytes);
    test_free(stream);
  }
}

/* Files of 3 MB, in which several threads begin, at blocks with copies of what came before. */
static void test_threads_begin_amidst(void **state) {
  (void)state;
  enum { HEIGHT = 1600, LINE = 2701 };
  for (int turn = 0; turn < 6; turn++) {
    uint8_t *lines = test_malloc(HEIGHT * LINE);
    for (size_t i = 0, back = 1, end = 0; i < HEIGHT * LINE; i++) {
      if (i >= end) { /* noise and copies by turns, often near ones */
        back = draw(2) ? 0 : 1 + draw(draw(2) ? 20 : 32000);
        end = i + 3 + draw(turn % 2 ? 20 : 200);
      }
      lines[i] = (uint8_t)(i % LINE == 0 ? draw(5) : back > 0 && back <= i ? lines[i - back] : draw(256));
    }
    uLongf size = compressBound(HEIGHT * LINE);
    uint8_t *stream = test_malloc(size);
    assert_int_equal(compress2(stream, &size, lines, HEIGHT * LINE, 1 + turn), Z_OK);
    made_png png = begin_png(HEIGHT, LINE / 3, 8, 2);
    add_pixels(&png, stream, size, 300000);
    add_chunk(&png, "IEND", NULL, 0);
    assert_true(agree(&png, 2 + turn % 3 * 3, turn % 2 ? 100 : INT32_MAX));
    test_free(png.bytes);
    test_free(stream);
    test_free(lines);
  }
}

/* Palettes, which may be too short for some samples, and grey of few bits, with tRNS or without. */
static void test_samples(void **state) {
  (void)state;
  for (int turn = 0; turn < 300; turn++) {
    bool palette = draw(3) > 0;
    int depth = 1 << draw(4);
    uint32_t height = 1 + draw(40), width = 1 + draw(70);
    uint8_t entries[768] = {0};
    for (int i = 0; i < 768; i++)
      entries[i] = (uint8_t)draw(256);
    made_png png = begin_png(height, width, depth, palette ? 3 : 0);
    uint32_t colours = draw(2) ? 1u << depth : 1 + draw(1u << depth);
    if (palette)
      add_chunk(&png, "PLTE", entries, 3 * (size_t)colours);
    if (draw(2) && palette)
      add_chunk(&png, "tRNS", entries + 100, 1 + draw(colours));
    else if (draw(2) && !palette)
      add_chunk(&png, "tRNS", (uint8_t[]){0, (uint8_t)draw(256)}, 2);
    size_t size;
    uint8_t *stream = make_stream(height, ((size_t)width * (size_t)depth + 7) / 8 + 1, &size);
    add_pixels(&png, stream, size, 5000);
    add_chunk(&png, "IEND", NULL, 0);
    agree(&png, 1 + turn % 2, draw(2) ? INT32_MAX : 1 + (int32_t)draw(50));
    test_free(png.bytes);
    test_free(stream);
  }
}

/* Every byte of a file wrong, and the file cut everywhere. */
static void test_damaged(void **state) {
  (void)state;
  size_t size;
  uint8_t *stream = make_stream(9, 22, &size);
  made_png png = begin_png(9, 7, 8, 2);
  add_pixels(&png, stream, size, 80);
  add_chunk(&png, "tIME", "\x07\xe8\x01\x01\x01\x01\x01", 7);
  add_chunk(&png, "IEND", NULL, 0);
  assert_true(agree(&png, 1, INT32_MAX));
  for (size_t i = 8; i < png.size; i++)
    for (int bit = 0; bit < 8; bit += 3) {
      png.bytes[i] ^= (uint8_t)(1 << bit);
      assert_false(agree(&png, 1, bit ? 4 : INT32_MAX));
      png.bytes[i] ^= (uint8_t)(1 << bit);
    }
  for (png.size--; png.size > 0; png.size--)
    assert_false(agree(&png, 1, 4));
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
  made_png png = begin_png(HEIGHT, LINE / 3, 8, 2);
  if (fault == WRONG_ADLER)
    stream[size - 1] ^= 1;
  if (fault == WRONG_MIDDLE)
    stream[size / 2] ^= 0x55;
  if (fault == SMALL_WINDOW) { /* 16 KB are announced */
    stream[0] = 0x68;
    stream[1] = (uint8_t)(31 - 0x6800 % 31);
  }
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
  for (int fault = 0; fault < FAULTS; fault++) {
    made_png png = make_faulty((enum fault)fault);
    bool readable = agree(&png, 1, INT32_MAX);
    assert_int_equal(agree(&png, 2, INT32_MAX), readable);
    assert_int_equal(agree(&png, 2, 100), readable);
    assert_int_equal(readable, fault == TOO_MANY_ROWS || fault == ANOTHER_PIXEL_CHUNK || fault == UNKNOWN_CRITICAL_CHUNK ||
                                   fault == LATE_GAMMA); /* libpng's verdict: a warning at most */
    test_free(png.bytes);
  }
}

/* A number of a filter that there is not. */
static void test_bad_filter(void **state) {
  (void)state;
  uint8_t lines[60] = {[20] = 5}, stream[200];
  uLongf size = sizeof stream;
  assert_int_equal(compress2(stream, &size, lines, sizeof lines, 6), Z_OK);
  made_png png = begin_png(3, 19, 8, 0);
  add_chunk(&png, "IDAT", stream, size);
  add_chunk(&png, "IEND", NULL, 0);
  assert_false(agree(&png, 1, INT32_MAX));
  assert_false(agree(&png, 1, 1));
  test_free(png.bytes);
}

/* Has a thread of a pool of two for itself, until all is read by the other one. */
struct occupied {
  gconv_threads *threads;
  sem_t begun, over;
};

static void occupy(void *context, size_t turn, int seat) {
  struct occupied *o = context;
  (void)turn;
  (void)seat;
  sem_post(&o->begun);
  sem_wait(&o->over);
}

static void *occupy_one(void *argument) {
  struct occupied *o = argument;
  gconv_threads_run(o->threads, 1, occupy, o);
  return NULL;
}

/* The row filters meet something wrong while the stream's own thread waits for its turn on the only thread that is left. */
static void test_threads_wait_for_turns(void **state) {
  (void)state;
  enum {
    HEIGHT = 30,
    WIDTH = 60000,
    LINE = 8 * WIDTH + 1,
    WRONG = 15
  }; /* a line is a piece, and takes the filter a millisecond */
  uint8_t *lines = test_calloc(HEIGHT, LINE);
  for (size_t i = 0; i < HEIGHT; i++)
    lines[i * LINE] = i == WRONG ? GCONV_PNG_FILTERS : GCONV_PNG_PAETH;
  uLongf size = compressBound(HEIGHT * LINE);
  uint8_t *stream = test_malloc(size);
  assert_int_equal(compress2(stream, &size, lines, HEIGHT * LINE, 1), Z_OK);
  made_png png = begin_png(HEIGHT, WIDTH, 16, 6);
  add_pixels(&png, stream, size, 100000);
  add_chunk(&png, "IEND", NULL, 0);
  struct occupied o = {0};
  pthread_t occupant;
  sem_init(&o.begun, 0, 0);
  sem_init(&o.over, 0, 0);
  assert_int_equal(gconv_threads_create(2, &o.threads), GCONV_OK);
  assert_int_equal(pthread_create(&occupant, NULL, occupy_one, &o), 0);
  sem_wait(&o.begun);
  alarm(60); /* it was for ever */
  for (int turn = 0; turn < 16; turn++) {
    gconv_image image = {0};
    char text[200];
    assert_int_equal(read_png(&png, true, 2, o.threads, INT32_MAX, &image, text), GCONV_BAD_FILE);
    gconv_image_free(&image);
  }
  alarm(0);
  sem_post(&o.over);
  pthread_join(occupant, NULL);
  gconv_threads_free(o.threads);
  sem_destroy(&o.begun);
  sem_destroy(&o.over);
  test_free(png.bytes);
  test_free(stream);
  test_free(lines);
}

/* The memory that reading takes at most, by a process that begins with what this one has now. */
static size_t peak_of_reading(const made_png *png, uint8_t *row, size_t width, int32_t rows) {
  struct rusage before, after;
  gconv_source source;
  gconv_reader reader;
  getrusage(RUSAGE_SELF, &before);
  gconv_source_of_bytes("a PNG", png->bytes, png->size, &source);
  bool right = gconv_reader_open(&reader, &source, UINT64_MAX) == GCONV_OK;
  reader.threads = 2;
  for (int32_t y = 0; y < rows && right; y++)
    right = gconv_reader_rows(&reader, row, width, 1) == GCONV_OK;
  gconv_reader_close(&reader);
  getrusage(RUSAGE_SELF, &after);
  return right ? (size_t)(after.ru_maxrss - before.ru_maxrss) << 10 : SIZE_MAX;
}

/* Of rows so long that one is a piece, few are ahead. */
static void test_long_rows(void **state) {
  (void)state;
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
  made_png png = begin_png(HEIGHT, WIDTH, 8, 0);
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
  made_png png = begin_png(3, 8, 8, 0);
  png.bytes[28] = 1; /* interlaced */
  uint32_t crc = (uint32_t)crc32(0, png.bytes + 12, 17);
  for (int i = 0; i < 4; i++)
    png.bytes[29 + i] = (uint8_t)(crc >> (24 - 8 * i));
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

/* Closed before the end, in the middle of what the other thread does. */
static void test_threads_are_left(void **state) {
  (void)state;
  made_png png = make_faulty(FAULTS);
  for (int32_t rows = 0; rows < 1100; rows += 1 + (int32_t)draw(200)) {
    gconv_source source;
    gconv_reader reader;
    gconv_source_of_bytes("a PNG", png.bytes, png.size, &source);
    assert_int_equal(gconv_reader_open(&reader, &source, UINT64_MAX), GCONV_OK);
    reader.threads = 2;
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

/* An argument, such as test_threads*, tells which of them. */
int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_kinds),
      cmocka_unit_test(test_threads_begin_amidst),
      cmocka_unit_test(test_samples),
      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_faulty),
      cmocka_unit_test(test_bad_filter),
      cmocka_unit_test(test_threads_are_left),
      cmocka_unit_test(test_unfilter),
      cmocka_unit_test(test_threads_wait_for_turns),
      cmocka_unit_test(test_long_rows),
      cmocka_unit_test(test_read_on),
  };
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}

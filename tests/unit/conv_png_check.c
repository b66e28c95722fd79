/* SPDX-License-Identifier: MIT */
/* The picture that a GPU is held to: that its PNG is right, made of what it should be, and that a wrong bit is seen. */
#include "base/checksum.h"
#include "conv/png_check.h"
#include "png_cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROOM = 1 << 20, STRIPS = GCONV_PNG_CHECK_STRIPS };

/* What a GPU would make. */
typedef struct made {
  gconv_png_check *check;
  gconv_png_strip strips[STRIPS];
  uint8_t chunks[ROOM];
  size_t size;
} made;

static void make(const int *filters, made *m) {
  *m = (made){.check = NULL};
  assert_int_equal(gconv_png_check_create(&m->check), GCONV_OK);
  const int32_t height = gconv_png_check_picture(m->check)->height;
  for (size_t i = 0; i < STRIPS; i++) {
    gconv_png_strip *strip = &m->strips[i];
    size_t size;
    const uint8_t *chunk = gconv_png_check_chunk(m->check, i, filters[i], &size, &strip->adler);
    strip->first_row = (int32_t)i * GCONV_PNG_CHECK_ROWS;
    strip->rows = height - strip->first_row < GCONV_PNG_CHECK_ROWS ? height - strip->first_row : GCONV_PNG_CHECK_ROWS;
    strip->offset = m->size;
    strip->size = (uint32_t)size;
    memcpy(m->chunks + m->size, chunk, size);
    m->size += size;
  }
}

static gconv_status judge(made *m) {
  return gconv_png_check_strips(m->check, m->strips, m->chunks, m->size);
}

/* Reads the chunks as zlib does, and undoes the filters. */
static void test_pixels(void **state) {
  (void)state;
  static made m;
  for (int filter = 0; filter < GCONV_PNG_FILTERS; filter++) {
    make((const int[]){filter, (filter + 1) % GCONV_PNG_FILTERS}, &m);
    const gconv_image *picture = gconv_png_check_picture(m.check);
    const size_t row_bytes = picture->row_bytes, size = (row_bytes + 1) * (size_t)picture->height;
    uint8_t *lines = test_calloc(size + 1, 1), *above = test_calloc(row_bytes, 1), *row = test_calloc(row_bytes, 1);
    z_stream stream = {.next_out = lines, .avail_out = (uInt)size + 1};
    assert_int_equal(inflateInit(&stream), Z_OK);
    for (size_t i = 0; i < STRIPS; i++) {
      const uint8_t *chunk = m.chunks + m.strips[i].offset;
      assert_int_equal(png_cut_be32(chunk) + 12, m.strips[i].size);
      assert_int_equal(crc32(0, chunk + 4, m.strips[i].size - 8), png_cut_be32(chunk + m.strips[i].size - 4));
      stream.next_in = (z_const Bytef *)(chunk + 8);
      stream.avail_in = m.strips[i].size - 12;
      assert_in_range(inflate(&stream, Z_SYNC_FLUSH), Z_OK, Z_STREAM_END);
      assert_int_equal(stream.avail_in, 0);
    }
    assert_int_equal(stream.total_out, size);
    inflateEnd(&stream);
    for (int32_t y = 0; y < picture->height; y++) {
      const uint8_t *line = lines + (size_t)y * (row_bytes + 1);
      gconv_png_unfilter_row(line[0], line + 1, above, row_bytes, (size_t)picture->channels, row);
      assert_memory_equal(row, (const uint8_t *)picture->data + (size_t)y * row_bytes, row_bytes);
      memcpy(above, row, row_bytes);
    }
    test_free(lines);
    test_free(above);
    test_free(row);
    assert_int_equal(judge(&m), GCONV_OK);
    gconv_png_check_free(m.check);
  }
}

/* The first strip begins with a block that is stored, and another follows; in the second, a code is as long as may be. */
static void test_blocks(void **state) {
  (void)state;
  static made m;
  make((const int[]){GCONV_PNG_NONE, GCONV_PNG_SUB}, &m);
  const uint8_t *first = m.chunks + 8 + 2;
  assert_int_equal(first[0] & 7, 0);
  assert_int_equal(first[1] | first[2] << 8, 65535);
  const size_t parts = 65535 + 5 + 65535 + 5 + 2 + 5, block = 131072 + 3 * 5;
  assert_int_equal(parts, block);
  assert_int_equal(first[block] & 7, 4);
  const uint8_t *second = m.chunks + m.strips[1].offset + 8;
  assert_int_equal(second[0] & 7, 5);
  assert_true(m.strips[1].size < (m.strips[1].rows * gconv_png_check_picture(m.check)->row_bytes) / 2);
  gconv_png_check_free(m.check);
}

/* Each strip as an image of its own is what png_write.c makes of literals: else a GPU would leave it to the host. */
static void test_choice(void **state) {
  (void)state;
  static made m;
  char path[] = "/tmp/gconv-png-check-XXXXXX";
  close(mkstemp(path));
  make((const int[]){0, 0}, &m);
  gconv_png_deflater *deflater;
  assert_int_equal(gconv_png_deflater_create(&deflater), GCONV_OK);
  for (size_t i = 0; i < STRIPS; i++) {
    gconv_image image = *gconv_png_check_picture(m.check);
    const size_t line = image.row_bytes + 1;
    image.data = (uint8_t *)image.data + (size_t)m.strips[i].first_row * image.row_bytes;
    image.height = m.strips[i].rows;
    gconv_write_options options = {.format = gconv_format_by_name("png"), .png_level = 1, .threads = 1};
    assert_int_equal(gconv_image_write(path, &options, &image), GCONV_OK);
    uint8_t *file = test_malloc(ROOM), *lines = test_calloc(ROOM, 1), *again = test_malloc(ROOM);
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    const size_t size = fread(file, 1, ROOM, stream);
    fclose(stream);
    png_cut strip = {.size = 0};
    assert_int_equal(png_cut_strips(file, size, &strip, 1), 1);
    uLongf line_bytes = ROOM;
    z_stream inflater = {.next_in = (z_const Bytef *)(strip.chunk + 8), .avail_in = (uInt)strip.size - 12};
    inflater.next_out = lines;
    inflater.avail_out = (uInt)line_bytes;
    assert_int_equal(inflateInit(&inflater), Z_OK);
    inflate(&inflater, Z_SYNC_FLUSH);
    assert_int_equal(inflater.total_out, line * (size_t)image.height);
    inflateEnd(&inflater);
    const gconv_png_lines literals = {lines, line * (size_t)image.height, line, 3, GCONV_PNG_LITERALS};
    const size_t made_bytes = gconv_png_deflate(deflater, &literals, true, again);
    assert_int_equal(made_bytes, strip.size - 12 - 2);
    assert_memory_equal(again, strip.chunk + 10, made_bytes);
    test_free(file);
    test_free(lines);
    test_free(again);
  }
  gconv_png_deflater_free(deflater);
  gconv_png_check_free(m.check);
  unlink(path);
}

static void test_wrong_bits(void **state) {
  (void)state;
  static made m;
  make((const int[]){GCONV_PNG_PAETH, GCONV_PNG_UP}, &m);
  for (size_t at = 0; at < m.size; at += at < 40 || at + 40 > m.size ? 1 : 3001) {
    m.chunks[at] ^= 1 << at % 8;
    assert_int_equal(judge(&m), GCONV_UNSUPPORTED);
    m.chunks[at] ^= 1 << at % 8;
  }
  const gconv_png_strip right = m.strips[1];
  for (int i = 0; i < 6; i++) {
    m.strips[1].adler += i == 0;
    m.strips[1].size -= i == 1;
    m.strips[1].size = i == 2 ? 0 : m.strips[1].size;
    m.strips[1].offset += i == 3;
    m.strips[1].rows -= i == 4;
    m.strips[1].offset = i == 5 ? UINT64_MAX : m.strips[1].offset;
    assert_int_equal(judge(&m), GCONV_UNSUPPORTED);
    m.strips[1] = right;
  }
  assert_int_equal(judge(&m), GCONV_OK);
  gconv_png_check_free(m.check);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pixels),
      cmocka_unit_test(test_blocks),
      cmocka_unit_test(test_choice),
      cmocka_unit_test(test_wrong_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

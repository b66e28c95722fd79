/* SPDX-License-Identifier: MIT */
/* The picture that a GPU is held to: that its PNG is right, made of what it should be, and that a wrong bit is seen. */
#include "base/checksum.h"
#include "codec_cuda/png_check.h"
#include "image/png_encode.h"
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

static void make(made *m) {
  *m = (made){.check = NULL};
  assert_int_equal(gconv_png_check_create(&m->check), GCONV_OK);
  for (size_t i = 0; i < STRIPS; i++) {
    gconv_png_strip *strip = &m->strips[i];
    const uint8_t *chunk = gconv_png_check_chunk(m->check, strip, i);
    strip->offset = m->size;
    memcpy(m->chunks + m->size, chunk, strip->size);
    m->size += strip->size;
  }
}

static gconv_status judge(made *m) {
  return gconv_png_check_strips(m->check, m->strips, m->chunks, m->size);
}

static void put(FILE *file, const void *bytes, size_t size) {
  assert_int_equal(fwrite(bytes, 1, size, file), size);
}

/* Framed as a file, they are the picture. */
static void test_pixels(void **state) {
  (void)state;
  static made m;
  make(&m);
  const gconv_image *picture = gconv_png_check_picture(m.check);
  uint32_t adler = m.strips[0].adler;
  adler = gconv_adler32_combine(adler, m.strips[1].adler, (uint64_t)m.strips[1].rows * (picture->row_bytes + 1));
  uint8_t header[12 + 13] = {0}, tail[12 + 4], end[12];
  gconv_png_put_be32(header + 8, (uint32_t)picture->width);
  gconv_png_put_be32(header + 12, (uint32_t)picture->height);
  header[16] = 8;
  header[17] = 2;
  gconv_png_put_be32(tail + 8, adler);
  char path[] = "/tmp/gconv-png-check-XXXXXX";
  FILE *file = fdopen(mkstemp(path), "wb");
  assert_non_null(file);
  put(file, "\x89PNG\r\n\x1a\n", 8);
  put(file, header, gconv_png_frame_chunk(header, "IHDR", 13));
  put(file, m.chunks, m.size);
  put(file, tail, gconv_png_frame_chunk(tail, "IDAT", 4));
  put(file, end, gconv_png_frame_chunk(end, "IEND", 0));
  assert_int_equal(fclose(file), 0);
  gconv_image image = {0};
  assert_int_equal(gconv_image_read(path, NULL, &image), GCONV_OK);
  assert_int_equal(image.plane_bytes, picture->plane_bytes);
  assert_memory_equal(image.data, picture->data, picture->plane_bytes);
  gconv_image_free(&image);
  unlink(path);
  assert_int_equal(judge(&m), GCONV_OK);
  gconv_png_check_free(m.check);
}

/* The first strip begins with a block that is stored, and another follows; in the second, a code is as long as may be. */
static void test_blocks(void **state) {
  (void)state;
  static made m;
  make(&m);
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
static void test_literals(void **state) {
  (void)state;
  static made m;
  make(&m);
  gconv_png_deflater *deflater;
  assert_int_equal(gconv_png_deflater_create(&deflater), GCONV_OK);
  for (size_t i = 0; i < STRIPS; i++) {
    png_cut strip = {.chunk = m.chunks + m.strips[i].offset, .size = m.strips[i].size};
    uint8_t *lines = test_calloc(ROOM, 1), *again = test_malloc(ROOM);
    const size_t head = i == 0 ? 2 : 0, line = gconv_png_check_picture(m.check)->row_bytes + 1;
    z_stream inflater = {.next_in = (z_const Bytef *)(strip.chunk + 8 + head), .avail_in = (uInt)(strip.size - 12 - head)};
    inflater.next_out = lines;
    inflater.avail_out = ROOM;
    assert_int_equal(inflateInit2(&inflater, -15), Z_OK);
    inflate(&inflater, Z_SYNC_FLUSH);
    assert_int_equal(inflater.total_out, line * (size_t)m.strips[i].rows);
    inflateEnd(&inflater);
    assert_int_equal(gconv_adler32(1, lines, inflater.total_out), m.strips[i].adler);
    const gconv_png_lines literals = {lines, inflater.total_out, line, 3, false};
    const size_t made_bytes = gconv_png_deflate(deflater, &literals, i + 1 == STRIPS, again);
    assert_int_equal(made_bytes, strip.size - 12 - head);
    assert_memory_equal(again, strip.chunk + 8 + head, made_bytes);
    test_free(lines);
    test_free(again);
  }
  gconv_png_deflater_free(deflater);
  gconv_png_check_free(m.check);
}

static void test_wrong_bits(void **state) {
  (void)state;
  static made m;
  make(&m);
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
      cmocka_unit_test(test_literals),
      cmocka_unit_test(test_wrong_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Every image reader, fed with anything (libFuzzer). PNGs are read twice, by the fast reader and by libpng alone, which must
 * agree: the same pixels, or both refuse.
 *
 * Checksums would stop all changes of a PNG at the gate, so inputs that begin with a 0 byte are only the makings of one: the
 * next bytes are its header, the rest a raw deflate stream, around which a PNG with right checksums is put.
 */
#include "base/checksum.h"
#include "image/format.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_PIXELS = 1 << 16, MAKINGS = 6 };

/* Reads the image in rows of `step`; `rewinds`: whether the source can go back, which the fast PNG reader needs. */
static gconv_status read_image(uint8_t *bytes, size_t size, bool rewinds, int threads, int32_t step, gconv_image *image) {
  gconv_source source;
  gconv_reader reader = {0};
  gconv_source_of_bytes("input", bytes, size, &source);
  if (!rewinds)
    source.size = UINT64_MAX;
  gconv_status status = gconv_reader_open(&reader, &source, MOST_PIXELS);
  reader.threads = threads;
  if (status == GCONV_OK)
    status = gconv_image_allocate(&reader.header);
  if (status == GCONV_OK) {
    *image = reader.header;
    reader.header.data = reader.header.icc = NULL;
    uint8_t *next = image->data;
    memset(next, 0x55, image->row_bytes * (size_t)gconv_reader_row_count(&reader));
    for (int64_t left = gconv_reader_row_count(&reader); left > 0 && status == GCONV_OK; left -= step) {
      step = left < step ? (int32_t)left : step;
      status = gconv_reader_rows(&reader, next, image->row_bytes, step);
      next += (size_t)step * image->row_bytes;
    }
  }
  gconv_reader_close(&reader);
  return status;
}

static void compare(uint8_t *bytes, size_t size) {
  for (int turn = 0; turn < 2; turn++) {
    gconv_image fast = {0}, slow = {0};
    int32_t step = turn ? 3 : INT32_MAX;
    gconv_status fast_status = read_image(bytes, size, true, turn + 1, step, &fast);
    gconv_status slow_status = read_image(bytes, size, false, 1, step, &slow);
    if ((fast_status == GCONV_OK) != (slow_status == GCONV_OK))
      abort();
    if (slow_status == GCONV_OK && memcmp(fast.data, slow.data, slow.row_bytes * (size_t)slow.height) != 0)
      abort();
    gconv_image_free(&fast);
    gconv_image_free(&slow);
  }
}

static size_t put_be32(uint8_t *bytes, uint32_t value) {
  for (int i = 0; i < 4; i++)
    bytes[i] = (uint8_t)(value >> (24 - 8 * i));
  return 4;
}

static size_t put_chunk(uint8_t *out, const char *type, const uint8_t *bytes, size_t size) {
  put_be32(out, (uint32_t)size);
  memcpy(out + 4, type, 4);
  if (size > 0)
    memcpy(out + 8, bytes, size);
  put_be32(out + 8 + size, gconv_crc32(0, out + 4, size + 4));
  return size + 12;
}

/* The Adler-32 of what zlib gets out of the deflate stream, and how many bytes of it make that; all, if it is no good. */
static uint32_t adler_of(const uint8_t *deflated, size_t size, size_t *used) {
  static uint8_t out[1 << 20];
  z_stream stream = {.next_in = (Bytef *)deflated, .avail_in = (uInt)size, .next_out = out, .avail_out = sizeof out};
  *used = size;
  if (inflateInit2(&stream, -15) != Z_OK)
    return 0;
  if (inflate(&stream, Z_FINISH) == Z_STREAM_END)
    *used = size - stream.avail_in;
  size_t made = stream.total_out;
  inflateEnd(&stream);
  return gconv_adler32(1, out, made);
}

/* The file made of the makings; *size is set. */
static uint8_t *make_png(const uint8_t *makings, const uint8_t *deflated, size_t deflated_size, size_t *size) {
  static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, colours[4] = {0, 2, 4, 6};
  uint8_t *out = malloc(deflated_size + 200), *stream = malloc(deflated_size + 6), header[13] = {0};
  if (!out || !stream)
    abort();
  put_be32(header, 1 + makings[0]);
  put_be32(header + 4, 1 + makings[1]);
  header[8] = makings[2] & 1 ? 16 : 8;
  header[9] = colours[makings[2] >> 1 & 3];
  memcpy(out, signature, sizeof signature);
  size_t at = sizeof signature, used;
  at += put_chunk(out + at, "IHDR", header, sizeof header);
  stream[0] = 0x78;
  stream[1] = 0x01;
  uint32_t adler = adler_of(deflated, deflated_size, &used);
  memcpy(stream + 2, deflated, used);
  size_t stream_size = 2 + used + put_be32(stream + 2 + used, adler ^ (makings[3] == 255));
  size_t cut = 2 + makings[4] * (stream_size - 2) / 256; /* two chunks */
  at += put_chunk(out + at, "IDAT", stream, cut);
  at += put_chunk(out + at, "IDAT", stream + cut, stream_size - cut);
  if (makings[5] & 1)
    at += put_chunk(out + at, "tEXt", (const uint8_t *)"Key\0text", 8);
  *size = at + put_chunk(out + at, "IEND", NULL, 0);
  free(stream);
  return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *bytes;
  if (size > 1 + MAKINGS && data[0] == 0) {
    bytes = make_png(data + 1, data + 1 + MAKINGS, size - 1 - MAKINGS, &size);
  } else {
    bytes = malloc(size + 1);
    if (!bytes)
      abort();
    memcpy(bytes, data, size);
  }
  compare(bytes, size);
  free(bytes);
  return 0;
}

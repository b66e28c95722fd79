/* SPDX-License-Identifier: MIT */
#include "make_png.h"
#include "base/checksum.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

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

uint8_t *make_png(const uint8_t *makings, const uint8_t *deflated, size_t deflated_size, size_t *size) {
  static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, colours[4] = {0, 2, 4, 6};
  uint8_t *out = malloc(deflated_size + 200), *stream = malloc(deflated_size + 6), header[13] = {0};
  const uint8_t kind = makings[2];
  if (!out || !stream)
    abort();
  put_be32(header, 1 + makings[0]);
  put_be32(header + 4, 1 + makings[1]);
  header[8] = kind & 1 ? 16 : 8;
  header[9] = colours[kind >> 1 & 3];
  header[12] = kind >> 3 & 1; /* interlaced */
  bool palette = header[9] == 0 && kind & 0x40;
  if (header[9] == 0 && kind >> 4 & 3) /* of few bits */
    header[8] = (uint8_t)(1 << ((kind >> 4 & 3) - 1));
  if (palette)
    header[9] = 3;
  memcpy(out, signature, sizeof signature);
  size_t at = sizeof signature, used;
  at += put_chunk(out + at, "IHDR", header, sizeof header);
  if (palette)
    at += put_chunk(out + at, "PLTE", (const uint8_t *)"0a1b2c3d4e5f", 12);
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

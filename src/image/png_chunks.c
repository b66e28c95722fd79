/* SPDX-License-Identifier: MIT */
#include "image/png_chunks.h"
#include "base/checksum.h"

#include <string.h>

enum { MOST_CHUNK_BYTES = 1 << 20 }; /* of what may follow the pixels */

static uint32_t be32_at(const uint8_t *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool read_bytes(gconv_png_chunks *chunks, void *bytes, size_t size) {
  size_t got = 0;
  return gconv_source_read(chunks->source, bytes, size, &got) == GCONV_OK && got == size;
}

static bool is_type(const gconv_png_chunks *chunks, const char *name) {
  return memcmp(chunks->type, name, 4) == 0;
}

/* Goes from the end of a chunk's bytes to the beginning of the next one's. */
static bool next_chunk(gconv_png_chunks *chunks) {
  uint8_t crc[4], head[8];
  if (!read_bytes(chunks, crc, sizeof crc) || be32_at(crc) != chunks->crc || !read_bytes(chunks, head, sizeof head))
    return false;
  chunks->left = be32_at(head);
  memcpy(chunks->type, head + 4, 4);
  chunks->crc = gconv_crc32(0, chunks->type, 4);
  return chunks->left <= INT32_MAX;
}

/* Reads some of the chunk, at most `most` bytes. */
static bool read_some(gconv_png_chunks *chunks, uint8_t *bytes, size_t most, size_t *got) {
  *got = chunks->left < most ? chunks->left : most;
  if (!read_bytes(chunks, bytes, *got))
    return false;
  chunks->crc = gconv_crc32(chunks->crc, bytes, *got);
  chunks->left -= *got;
  return true;
}

void gconv_png_chunks_begin(gconv_png_chunks *chunks, gconv_source *source, uint32_t first_bytes) {
  *chunks = (gconv_png_chunks){.source = source, .type = "IDAT", .left = first_bytes, .crc = gconv_crc32(0, "IDAT", 4)};
}

bool gconv_png_chunks_read(gconv_png_chunks *chunks, uint8_t *bytes, size_t wanted, size_t *got) {
  size_t some;
  for (*got = 0; *got < wanted; *got += some) {
    while (chunks->left == 0 && is_type(chunks, "IDAT"))
      if (!next_chunk(chunks))
        return false;
    if (!is_type(chunks, "IDAT"))
      return true;
    if (!read_some(chunks, bytes + *got, wanted - *got, &some))
      return false;
  }
  return true;
}

bool gconv_png_chunks_skip_to_end(gconv_png_chunks *chunks) {
  uint8_t unused[4096], crc[4];
  size_t some;
  for (;;) {
    if (is_type(chunks, "IEND"))
      return chunks->left == 0 && read_bytes(chunks, crc, sizeof crc) && be32_at(crc) == chunks->crc;
    bool text = is_type(chunks, "tEXt") || is_type(chunks, "zTXt") || is_type(chunks, "iTXt") || is_type(chunks, "tIME");
    if (!text || chunks->left > MOST_CHUNK_BYTES)
      return false;
    while (chunks->left > 0)
      if (!read_some(chunks, unused, sizeof unused, &some))
        return false;
    if (!next_chunk(chunks))
      return false;
  }
}

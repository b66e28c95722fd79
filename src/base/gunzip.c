/* SPDX-License-Identifier: MIT */
/* Sources that decompress files of gzip. */
#include "base/gunzip.h"

#include <stdlib.h>
#include <zlib.h>

typedef struct unzipping {
  gconv_source file;
  z_stream stream;
  bool ended; /* a member is complete, and no other has begun */
} unzipping;

static gconv_status unzip(void *state, void *bytes, size_t size, size_t *got) {
  unzipping *u = state;
  u->stream.next_out = bytes;
  u->stream.avail_out = (uInt)(size < 1 << 30 ? size : 1 << 30);
  *got = 0;
  while (*got == 0) {
    const uint8_t *in = u->stream.next_in;
    size_t count = u->stream.avail_in;
    if (count == 0)
      GCONV_TRY(gconv_source_next(&u->file, &in, &count));
    if (count == 0 && u->ended)
      return GCONV_OK;
    if (count == 0)
      return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early, within the gzip data", u->file.name);
    if (u->ended && inflateReset(&u->stream) != Z_OK) /* a further member */
      return gconv_fail(GCONV_BAD_FILE, "%s: cannot be decompressed", u->file.name);
    u->stream.next_in = (Bytef *)in;
    u->stream.avail_in = (uInt)count;
    int result = inflate(&u->stream, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      return gconv_fail(GCONV_BAD_FILE, "%s: its gzip data are damaged: %s", u->file.name,
                        u->stream.msg ? u->stream.msg : "it cannot be decompressed");
    u->ended = result == Z_STREAM_END;
    *got = (size_t)(u->stream.next_out - (Bytef *)bytes);
  }
  return GCONV_OK;
}

static void finish(void *state) {
  unzipping *u = state;
  inflateEnd(&u->stream);
  gconv_source_close(&u->file);
  free(u);
}

gconv_status gconv_source_open_unzipped(const char *path, gconv_source *source) {
  GCONV_TRY(gconv_source_open(path, source));
  return gconv_source_unzip(source);
}

gconv_status gconv_source_unzip(gconv_source *source) {
  enum { WINDOW = 15, GZIP = 16 };
  const uint8_t *bytes;
  const char *member = source->member;
  size_t got;
  GCONV_TRY(gconv_source_peek(source, 2, &bytes, &got));
  if (got < 2 || bytes[0] != 0x1f || bytes[1] != 0x8b)
    return GCONV_OK;
  unzipping *u = calloc(1, sizeof *u);
  if (!u || inflateInit2(&u->stream, WINDOW + GZIP) != Z_OK) {
    free(u);
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory to decompress it", source->name);
  }
  u->file = *source;
  const gconv_status status = gconv_source_of_function(u->file.name, unzip, finish, u, source);
  source->member = member;
  return status;
}

uint64_t gconv_source_packed_bytes(const gconv_source *source) {
  return source->fill == unzip ? ((const unzipping *)source->state)->file.size : 0;
}

gconv_status gconv_source_has_unzipped(gconv_source *source, bool *more) {
  const uint8_t *bytes;
  size_t got = 0;
  if (source->fill == unzip)
    GCONV_TRY(gconv_source_peek(source, 1, &bytes, &got));
  *more = got > 0;
  return GCONV_OK;
}

gconv_status gconv_source_check_unzipped(gconv_source *source) {
  bool more;
  return gconv_source_has_unzipped(source, &more);
}

/* SPDX-License-Identifier: MIT */
/*
 * The reader of the format FUZZ_SUBJECT, fed with anything (libFuzzer). Everything is read in two ways, which must agree:
 * the same pixels, or both refuse. One can go back in its source, which ISA-L needs for PNG; the other reads as from a pipe,
 * for PNG by libpng and zlib alone. ISA-L may accept codes that zlib refuses as incomplete. The images of a file are
 * counted, those of a pipe found one by one: all must be the same. Archives are not read from pipes.
 *
 * Checksums would stop all changes of a PNG at the gate, so inputs for PNG that begin with a 0 byte are only the makings of
 * one: the next bytes are its header, the rest a raw deflate stream, around which a PNG with right checksums is put.
 */
#include "image/format.h"
#include "image/metadata.h"
#include "make_png.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_PIXELS = 1 << 16 };

/* Makes room for another image behind those of a pipe that were read. */
static uint8_t *add_image(gconv_image *image, const gconv_image *header, uint8_t *next) {
  size_t bytes = image->row_bytes * (size_t)gconv_image_row_count(header), used = (size_t)(next - (uint8_t *)image->data);
  gconv_image more = *image;
  more.frames++;
  if (gconv_image_allocate(&more) != GCONV_OK)
    abort();
  memcpy(more.data, image->data, used);
  memset((uint8_t *)more.data + used, 0x55, bytes);
  gconv_release(image->data);
  *image = more;
  return (uint8_t *)more.data + used;
}

/* Reads the image at hand, which has another shape than the first. */
static gconv_status read_apart(gconv_reader *reader, int32_t step) {
  gconv_image image = {.type = reader->header.type,
                       .frames = 1,
                       .height = reader->header.height,
                       .width = reader->header.width,
                       .channels = reader->header.channels};
  gconv_status status = gconv_image_allocate(&image);
  for (int32_t left = image.height, some; left > 0 && status == GCONV_OK; left -= some) {
    some = left < step ? left : step;
    status = gconv_reader_rows(reader, image.data, image.row_bytes, some);
  }
  gconv_image_free(&image);
  return status;
}

/* Reads the image in rows of `step`; `rewinds`: whether the source can go back, which ISA-L needs for PNG. */
static gconv_status read_image(uint8_t *bytes, size_t size, bool rewinds, int32_t step, gconv_image *image) {
  gconv_source source;
  gconv_reader reader = {0};
  bool more = true;
  gconv_source_of_bytes("input", bytes, size, &source);
  if (!rewinds)
    source.size = UINT64_MAX;
  gconv_status status = gconv_reader_open(&reader, &source, MOST_PIXELS);
  if (status == GCONV_OK && reader.format->look_behind)
    status = reader.format->look_behind(&reader);
  if (status == GCONV_OK && reader.apart[0]) {
    reader.header.frames = 1;
    reader.one_by_one = true;
  }
  if (status == GCONV_OK)
    status = gconv_reader_check_whole(&reader);
  if (status == GCONV_OK)
    status = gconv_image_allocate(&reader.header);
  if (status == GCONV_OK) {
    *image = reader.header;
    reader.header.data = NULL;
    gconv_metadata_disown(&reader.header);
    uint8_t *next = image->data;
    memset(next, 0x55, image->row_bytes * (size_t)gconv_image_row_count(&reader.header));
    while (more && status == GCONV_OK) {
      for (int64_t left = gconv_image_row_count(&reader.header), some; left > 0 && status == GCONV_OK; left -= some) {
        some = left < step ? left : step;
        status = gconv_reader_rows(&reader, next, image->row_bytes, (int32_t)some);
        next += (size_t)some * image->row_bytes;
      }
      if (status == GCONV_OK)
        status = gconv_reader_next(&reader, &more);
      while (status == GCONV_OK && more && reader.apart[0]) {
        status = read_apart(&reader, step);
        if (status == GCONV_OK)
          status = gconv_reader_next(&reader, &more);
      }
      if (status == GCONV_OK && more)
        next = add_image(image, &reader.header, next);
    }
  }
  gconv_reader_close(&reader);
  return status;
}

static size_t bytes_of(const gconv_image *image) {
  return (size_t)image->frames * (size_t)(image->planar ? image->channels : 1) * (size_t)image->height * image->row_bytes;
}

/* Whether the last error is of zlib, which refuses codes that ISA-L takes. */
static bool is_incomplete_code(void) {
  static const char *const words[] = {"invalid code lengths set", "invalid literal/lengths set", "invalid distances set",
                                      "invalid code -- missing end-of-block"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strstr(gconv_last_error(), words[i]))
      return true;
  return false;
}

static void compare(uint8_t *bytes, size_t size) {
  for (int turn = 0; turn < 2; turn++) {
    gconv_image fast = {0}, slow = {0};
    int32_t step = turn ? 3 : INT32_MAX;
    gconv_status fast_status = read_image(bytes, size, true, step, &fast);
    gconv_status slow_status = read_image(bytes, size, false, step, &slow);
    if (slow_status == GCONV_UNSUPPORTED) /* an archive */
      slow_status = fast_status;
    bool lenient = fast_status == GCONV_OK && slow_status != GCONV_OK && is_incomplete_code();
    if ((fast_status == GCONV_OK) != (slow_status == GCONV_OK) && !lenient)
      abort();
    if (slow_status == GCONV_OK && slow.data && memcmp(fast.data, slow.data, bytes_of(&slow)) != 0)
      abort();
    gconv_image_free(&fast);
    gconv_image_free(&slow);
  }
}

/* A copy that begins and ends where a check for overruns sees it. */
static uint8_t *copy_of(const uint8_t *data, size_t size) {
  uint8_t *bytes = malloc(size > 0 ? size : 1);
  if (!bytes)
    abort();
  if (size > 0)
    memcpy(bytes, data, size);
  return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bool makings = strcmp(FUZZ_SUBJECT, "png") == 0 && size > 1 + MAKINGS && data[0] == 0;
  uint8_t *bytes = makings ? make_png(data + 1, data + 1 + MAKINGS, size - 1 - MAKINGS, &size) : copy_of(data, size);
  const gconv_format *format = gconv_format_by_content(bytes, size < 16 ? size : 16);
  if (!format)
    format = gconv_format_by_content(bytes, size < GCONV_FOREIGN_BYTES ? size : GCONV_FOREIGN_BYTES);
  if (format && &format->info == gconv_format_by_name(FUZZ_SUBJECT))
    compare(bytes, size);
  free(bytes);
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* Pictures of bytes in memory: what is decoded and encoded there equals what is read from files and written to them, for
 * every format, type and kind of metadata, from memory and by functions of the caller. Cut and damaged bytes fail as files
 * do. */
#include "gconv_embed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                                                    \
  ((condition)                                                                                                              \
       ? (void)0                                                                                                            \
       : (fprintf(stderr, "%s:%d: %s: %s; %s\n", __FILE__, __LINE__, current, #condition, gconv_last_error()), exit(1)))

static char current[128]; /* what is tried, for failures */
static char folder[] = "/tmp/gconv-bytes-XXXXXX";
static const char name[] = "picture"; /* of the file, and of the bytes: so both have the same error texts */

typedef struct bytes {
  uint8_t *data;
  size_t size;
} bytes;

static bytes read_file(void) {
  FILE *file = fopen(name, "rb");
  bytes all = {0};
  CHECK(file && fseek(file, 0, SEEK_END) == 0);
  all.size = (size_t)ftell(file);
  rewind(file);
  all.data = malloc(all.size + 1);
  CHECK(all.data && fread(all.data, 1, all.size, file) == all.size);
  fclose(file);
  return all;
}

static void write_file(const uint8_t *data, size_t size) {
  FILE *file = fopen(name, "wb");
  CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

/* ---- Functions of a caller ---- */

typedef struct stream {
  bytes all;
  size_t at;    /* bytes read, or written, so far */
  size_t piece; /* the most bytes of a call */
  size_t most;  /* reading fails after so many bytes, and writing as well */
} stream;

static int64_t read_some(void *user, void *to, size_t size) {
  stream *s = user;
  size_t count = s->all.size - s->at < size ? s->all.size - s->at : size;
  count = count < s->piece ? count : s->piece;
  if (s->at + count > s->most)
    return -1;
  memcpy(to, s->all.data + s->at, count);
  s->at += count;
  return (int64_t)count;
}

static bool write_some(void *user, const void *from, size_t size) {
  stream *s = user;
  if (s->at + size > s->most)
    return false;
  s->all.data = realloc(s->all.data, s->at + size + 1);
  CHECK(s->all.data);
  memcpy(s->all.data + s->at, from, size);
  s->all.size = s->at += size;
  return true;
}

static int64_t read_too_much(void *user, void *to, size_t size) {
  (void)user, (void)to;
  return (int64_t)size + 1;
}

/* ---- Comparing ---- */

static void check_block(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  CHECK((a != NULL) == (b != NULL) && a_bytes == b_bytes);
  CHECK(!a || memcmp(a, b, a_bytes) == 0);
}

static void check_same(const gconv_image *a, const gconv_image *b) {
  CHECK(gconv_image_same_shape(a, b));
  CHECK(a->row_bytes == b->row_bytes && a->plane_bytes == b->plane_bytes);
  if (a->data)
    check_block(a->data, a->plane_bytes * (size_t)a->frames * (a->planar ? (size_t)a->channels : 1), b->data,
                b->plane_bytes * (size_t)b->frames * (b->planar ? (size_t)b->channels : 1));
  check_block(a->icc, a->icc_bytes, b->icc, b->icc_bytes);
  check_block(a->exif, a->exif_bytes, b->exif, b->exif_bytes);
  check_block(a->xmp, a->xmp_bytes, b->xmp, b->xmp_bytes);
  check_block(a->tags, a->tags_bytes, b->tags, b->tags_bytes);
  check_block(a->comment, a->comment ? strlen(a->comment) : 0, b->comment, b->comment ? strlen(b->comment) : 0);
  CHECK(a->pixels_per_metre_x == b->pixels_per_metre_x && a->pixels_per_metre_y == b->pixels_per_metre_y);
  CHECK(a->unitless_x == b->unitless_x && a->jpeg_quality == b->jpeg_quality && a->lossless == b->lossless);
  CHECK(a->cmyk == b->cmyk && a->has_nodata == b->has_nodata);
}

static void check_text(const char *expected) {
  CHECK(strcmp(gconv_last_error(), expected) == 0);
}

/* Reads the bytes as a file, from memory that ends where they end, and through a function: all three agree. A function gets
 * the first of several images alone, and may tell of damage in other words. */
static void check_reading(const uint8_t *data, size_t size, bool whole) {
  gconv_image by_file = {0}, by_memory = {0}, by_function = {0};
  uint8_t *exact = malloc(size > 0 ? size : 1);
  CHECK(exact);
  memcpy(exact, data, size);
  write_file(data, size);
  gconv_status status = gconv_image_read(name, NULL, &by_file);
  char text[1024];
  snprintf(text, sizeof text, "%s", gconv_last_error());
  const gconv_bytes_in in = {.name = name, .data = exact, .size = size};
  CHECK(gconv_image_decode(&in, NULL, &by_memory) == status);
  if (status != GCONV_OK)
    check_text(text);
  check_same(&by_file, &by_memory);
  stream s = {.all = {exact, size}, .piece = 1 + size / 3, .most = SIZE_MAX};
  const gconv_bytes_in function = {.name = name, .read = read_some, .user = &s};
  gconv_status streamed = gconv_image_decode(&function, NULL, &by_function);
  CHECK(!whole || streamed == GCONV_OK);
  if (status == GCONV_OK && streamed == GCONV_OK && by_file.frames == by_function.frames)
    check_same(&by_file, &by_function);
  gconv_image_free(&by_file);
  gconv_image_free(&by_memory);
  gconv_image_free(&by_function);
  const gconv_format_info *of_file = NULL, *of_memory = NULL;
  status = gconv_image_read_header(name, &by_file, &of_file);
  CHECK(gconv_image_decode_header(&in, &by_memory, &of_memory) == status && of_file == of_memory);
  check_same(&by_file, &by_memory);
  gconv_image_free(&by_file);
  gconv_image_free(&by_memory);
  free(exact);
}

/* Cuts the bytes, and damages them one byte at a time, at some 40 places each. */
static void check_damage(const bytes *all) {
  size_t step = all->size / 40 + 1;
  for (size_t i = 0; i < all->size; i += i < 40 ? 3 : step) {
    check_reading(all->data, i, false);
    all->data[i] ^= 0x41;
    check_reading(all->data, all->size, false);
    all->data[i] ^= 0x41;
  }
}

/* ---- Pictures ---- */

static gconv_image draw(gconv_type type, int32_t channels, int32_t frames) {
  gconv_image image = {.type = type, .frames = frames, .height = 23, .width = 31, .channels = channels};
  unsigned seed = 7;
  image.alpha = channels % 2 == 0;
  CHECK(gconv_image_allocate(&image) == GCONV_OK);
  size_t count = image.plane_bytes * (size_t)frames / gconv_type_bytes(type);
  for (size_t i = 0; i < count; i++) {
    unsigned level = (seed = seed * 1103515245u + 12345u) >> 16 & 0xff;
    if (type == GCONV_U8)
      ((uint8_t *)image.data)[i] = (uint8_t)level;
    else if (type == GCONV_F32)
      ((float *)image.data)[i] = (float)level / 255;
    else
      ((uint16_t *)image.data)[i] = (uint16_t)(level * 257 + 1);
  }
  return image;
}

/* Lends metadata of all kinds to an image; take_back() must follow. EXIF: one entry, the maker "gc". */
static void lend_metadata(gconv_image *image) {
  static uint8_t exif[] = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x0f, 1, 2, 0, 3, 0, 0, 0, 'g', 'c', 0, 0, 0, 0, 0, 0};
  static char xmp[] = "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><a/></x:xmpmeta>", comment[] = "drawn";
  image->exif = exif;
  image->exif_bytes = sizeof exif;
  image->xmp = xmp;
  image->xmp_bytes = sizeof xmp - 1;
  image->comment = comment;
  image->pixels_per_metre_x = image->pixels_per_metre_y = 3000;
}

static void take_back(gconv_image *image) {
  image->exif = image->xmp = image->comment = NULL;
  gconv_image_free(image);
}

/* Writes the image to a file, to memory and through a function: all have the same bytes, which are read again. */
static void check_picture(const gconv_image *image, const gconv_write_options *options, gconv_bytes_out *out, bool damage) {
  stream s = {.most = SIZE_MAX};
  gconv_bytes_out function = {.name = name, .write = write_some, .user = &s};
  CHECK(gconv_image_write(name, options, image) == GCONV_OK);
  bytes expected = read_file();
  CHECK(gconv_image_encode(out, options, image) == GCONV_OK);
  check_block(out->data, out->size, expected.data, expected.size);
  CHECK(out->room >= out->size);
  CHECK(gconv_image_encode(&function, options, image) == GCONV_OK && !function.data);
  check_block(s.all.data, function.size, expected.data, expected.size);
  check_reading(expected.data, expected.size, true);
  if (damage)
    check_damage(&expected);
  stream narrow = {.most = expected.size / 2};
  function.user = &narrow;
  CHECK(gconv_image_encode(&function, options, image) == GCONV_IO_ERROR && function.size == 0);
  check_text("picture: cannot write: the caller's function write() failed");
  free(narrow.all.data);
  free(s.all.data);
  free(expected.data);
}

static void check_format(const gconv_format_info *format, gconv_bytes_out *out) {
  for (int type = GCONV_U8; type <= GCONV_I16; type++)
    for (int32_t channels = 1; channels <= 4; channels++)
      for (int32_t frames = 1; frames <= 3; frames += 2) {
        gconv_image image = draw((gconv_type)type, channels, frames);
        gconv_write_options options = {.format = format, .lossless = channels == 1, .threads = 2};
        if (format->compression)
          options.tiff_compression = (gconv_tiff_compression)((type + channels) % 4);
        snprintf(current, sizeof current, "%s, %s, %d channels, %d frames", format->name, gconv_type_name((gconv_type)type),
                 channels, frames);
        lend_metadata(&image);
        if (gconv_format_check(format, &image) == GCONV_OK)
          check_picture(&image, &options, out, type == GCONV_U8 && channels == 3 && frames == 1);
        else
          CHECK(gconv_image_encode(out, &options, &image) == GCONV_UNSUPPORTED && out->size == 0);
        take_back(&image);
      }
}

/* ---- Members, limits and wrong calls ---- */

static void check_members(gconv_bytes_out *out) {
  gconv_image image = draw(GCONV_U8, 1, 3), page = {0};
  gconv_write_options options = {.format = gconv_format_by_name("tiff")};
  CHECK(gconv_image_encode(out, &options, &image) == GCONV_OK);
  gconv_bytes_in in = {.member = "2", .data = out->data, .size = out->size};
  CHECK(gconv_image_decode(&in, NULL, &page) == GCONV_OK && page.frames == 1);
  check_block(page.data, page.plane_bytes, (const uint8_t *)image.data + image.plane_bytes, image.plane_bytes);
  gconv_image_free(&page);
  in.member = "4";
  CHECK(gconv_image_decode(&in, NULL, &page) == GCONV_BAD_ARGUMENT && !page.data);
  const gconv_read_options small = {.max_pixels = 100};
  in.member = NULL;
  CHECK(gconv_image_decode(&in, &small, &page) == GCONV_TOO_LARGE);
  gconv_image_free(&image);
}

static void check_wrong_calls(gconv_bytes_out *out) {
  gconv_image image = draw(GCONV_U8, 3, 1), read = {0};
  gconv_write_options none = {0}, png = {.format = gconv_format_by_name("png")};
  gconv_bytes_in in = {0};
  gconv_bytes_out bad = {.room = 5};
  snprintf(current, sizeof current, "wrong calls");
  CHECK(gconv_image_decode(&in, NULL, &read) == GCONV_BAD_ARGUMENT && strstr(gconv_last_error(), "from->data"));
  in.data = "";
  CHECK(gconv_image_decode(&in, NULL, &read) == GCONV_BAD_FILE);
  in = (gconv_bytes_in){.read = read_too_much};
  CHECK(gconv_image_decode(&in, NULL, &read) == GCONV_BAD_ARGUMENT && strstr(gconv_last_error(), "read()"));
  stream s = {.all = {(uint8_t *)image.data, 600}, .piece = 600, .most = 0};
  in = (gconv_bytes_in){.read = read_some, .user = &s};
  CHECK(gconv_image_decode(&in, NULL, &read) == GCONV_IO_ERROR && strstr(gconv_last_error(), "read() failed"));
  CHECK(gconv_image_encode(out, &none, &image) == GCONV_BAD_ARGUMENT && strstr(gconv_last_error(), "options->format"));
  CHECK(gconv_image_encode(&bad, &png, &image) == GCONV_BAD_ARGUMENT && strstr(gconv_last_error(), "to->room"));
  bad = (gconv_bytes_out){.data = image.data, .room = 100};
  CHECK(gconv_image_encode(&bad, &png, &image) == GCONV_BAD_ARGUMENT && strstr(gconv_last_error(), "to->data"));
  bad.room = 0;
  CHECK(gconv_image_encode(&bad, &png, &image) == GCONV_BAD_ARGUMENT && strstr(gconv_last_error(), "to->data"));
  gconv_image_free(&image);
}

int main(void) {
  gconv_bytes_out out = {.name = name};
  if (!mkdtemp(folder) || chdir(folder) != 0)
    return 1;
  for (size_t i = 0; gconv_format_at(i); i++)
    if (gconv_format_at(i)->writes)
      check_format(gconv_format_at(i), &out);
  check_members(&out);
  check_wrong_calls(&out);
  free(out.data);
  unlink(name);
  return chdir("/") != 0 || rmdir(folder) != 0;
}

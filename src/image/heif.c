/* SPDX-License-Identifier: MIT */
/*
 * Reading HEIC and AVIF, of phones and the web, by libheif: 8, 10 and 12 bits, with alpha. One picture is read: the main
 * one, or FILE:NUMBER. libheif rotates and crops it as the file says, so the orientation in EXIF is ignored. All of the file
 * is kept in memory, and the whole picture is decoded at the first row.
 */
#include "base/library.h"
#include "image/format.h"
#include "image/metadata.h"

#include <string.h>

#include <libheif/heif.h>

static struct {
#define CALL(name) __typeof__(&name) name;
#include "image/heif_calls.def"
#undef CALL
} heif;

static const gconv_symbol symbols[] = {
#define CALL(function) {#function, &heif.function},
#include "image/heif_calls.def"
#undef CALL
    {NULL, NULL}};
GCONV_LOADS(static, load_library, GCONV_HEIF_FILE, symbols, "HEIC and AVIF need libheif")

static gconv_status load(const char *name) {
  GCONV_TRY(load_library(name));
  heif.heif_init(NULL); /* the first call loads the decoders; later calls only count */
  return GCONV_OK;
}

typedef struct reading {
  uint8_t *bytes; /* owned: all bytes of the file */
  size_t size;
  struct heif_context *file;
  struct heif_image_handle *handle;
  struct heif_image *image; /* NULL: not decoded yet */
  const uint8_t *pixels;    /* of the image */
  int stride, white;        /* bytes from row to row; the level of white in the file: 255, 1023, 4095 */
  bool premultiplied;
} reading;

static bool sniff(const uint8_t *bytes, size_t size) {
  static const char brands[] = "heic heix heim heis hevc hevx hevm hevs mif1 msf1 avif avis";
  if (size < 12 || memcmp(bytes + 4, "ftyp", 4) != 0)
    return false;
  for (const char *brand = brands; strlen(brand) >= 4; brand += brand[4] ? 5 : 4)
    if (memcmp(bytes + 8, brand, 4) == 0)
      return true;
  return false;
}

static gconv_status check(const gconv_reader *reader, struct heif_error error) {
  const char *name = reader->source->name;
  if (error.code == heif_error_Ok)
    return GCONV_OK;
  if (error.subcode == heif_suberror_Security_limit_exceeded)
    return gconv_fail(GCONV_TOO_LARGE, "%s: beyond a limit of libheif: %.120s", name, error.message);
  if (error.code == heif_error_Memory_allocation_error)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %s", name);
  if (error.code == heif_error_Unsupported_filetype || error.code == heif_error_Unsupported_feature ||
      error.code == heif_error_Plugin_loading_error)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: libheif does not read it: %.120s; its decoders may be packages of their own: "
                      "libheif-plugin-libde265 for HEIC, libheif-plugin-dav1d for AVIF",
                      name, error.message);
  return gconv_fail(GCONV_BAD_FILE, "%s: damaged HEIC or AVIF: %.120s", name, error.message);
}

/* Takes the ICC profile. If the file has code numbers (nclx) in place of a profile, reports colours that are not sRGB. */
static gconv_status read_colours(gconv_reader *reader) {
  const reading *r = reader->state;
  const enum heif_color_profile_type type = heif.heif_image_handle_get_color_profile_type(r->handle);
  const size_t size = heif.heif_image_handle_get_raw_color_profile_size(r->handle);
  if (type == heif_color_profile_type_nclx) {
    struct heif_color_profile_nclx *its = NULL;
    if (heif.heif_image_handle_get_nclx_color_profile(r->handle, &its).code != heif_error_Ok || !its)
      return GCONV_OK;
    const bool usual = its->color_primaries <= 2 || its->color_primaries == 5 || its->color_primaries == 6;
    char text[80];
    snprintf(text, sizeof text, "its colours (primaries %d, transfer %d of ITU-T H.273)", (int)its->color_primaries,
             (int)its->transfer_characteristics);
    if (!usual || its->transfer_characteristics == heif_transfer_characteristic_linear ||
        its->transfer_characteristics >= heif_transfer_characteristic_ITU_R_BT_2100_0_PQ)
      gconv_reader_lose(reader, text);
    heif.heif_nclx_color_profile_free(its);
    return GCONV_OK;
  }
  if (type == heif_color_profile_type_not_present || size == 0 || !gconv_reader_has_room(reader, size))
    return GCONV_OK;
  GCONV_FREED void *profile = NULL;
  GCONV_TRY(gconv_allocate(size, "an ICC profile", &profile));
  GCONV_TRY(check(reader, heif.heif_image_handle_get_raw_color_profile(r->handle, profile)));
  return gconv_metadata_set_icc(&reader->header, profile, size);
}

/* Takes EXIF and XMP. A block of EXIF begins with a number of 4 bytes: how many bytes to skip after it. */
static gconv_status read_metadata(gconv_reader *reader) {
  enum { MOST_BLOCKS = 64 };
  const reading *r = reader->state;
  heif_item_id ids[MOST_BLOCKS];
  const int count = heif.heif_image_handle_get_list_of_metadata_block_IDs(r->handle, NULL, ids, MOST_BLOCKS);
  for (int i = 0; i < count && i < MOST_BLOCKS; i++) {
    const char *type = heif.heif_image_handle_get_metadata_type(r->handle, ids[i]);
    const char *content = heif.heif_image_handle_get_metadata_content_type(r->handle, ids[i]);
    const size_t size = heif.heif_image_handle_get_metadata_size(r->handle, ids[i]);
    const bool exif = type && strcmp(type, "Exif") == 0 && size > 4;
    const bool xmp = content && strcmp(content, "application/rdf+xml") == 0;
    if (!exif && !xmp)
      gconv_reader_lose(reader, type ? type : "a block without a type");
    if ((!exif && !xmp) || size == 0 || !gconv_reader_has_room(reader, size))
      continue;
    GCONV_FREED uint8_t *block = NULL;
    GCONV_ALLOCATE(block, size, "metadata");
    GCONV_TRY(check(reader, heif.heif_image_handle_get_metadata(r->handle, ids[i], block)));
    const size_t skipped = exif ? gconv_bytes_number(block, 4, true) + 4 : 0;
    if (exif && skipped < size)
      GCONV_TRY(gconv_metadata_set_exif(&reader->header, block + skipped, size - skipped));
    else if (xmp)
      GCONV_TRY(gconv_metadata_set_xmp(&reader->header, block, size));
  }
  return GCONV_OK;
}

/* Finds the picture that is wanted. */
static gconv_status find_picture(gconv_reader *reader) {
  enum { MOST_PICTURES = 4096 };
  reading *r = reader->state;
  heif_item_id ids[MOST_PICTURES];
  int64_t index;
  const int count = heif.heif_context_get_number_of_top_level_images(r->file);
  if (count > MOST_PICTURES)
    return gconv_fail(GCONV_TOO_LARGE, "%s: %d pictures; the limit is %d", reader->source->name, count, (int)MOST_PICTURES);
  if (!reader->member) {
    if (count > 1)
      gconv_reader_note(reader, "of its %d pictures, the main one is read: FILE:NUMBER is another", count);
    if (memcmp(r->bytes + 8, "avis", 4) == 0 || memcmp(r->bytes + 8, "hevc", 4) == 0)
      gconv_reader_note(reader, "it is a film, whose main picture is read");
    return check(reader, heif.heif_context_get_primary_image_handle(r->file, &r->handle));
  }
  GCONV_TRY(gconv_reader_find_number(reader, count, &index));
  heif.heif_context_get_list_of_top_level_image_IDs(r->file, ids, count);
  return check(reader, heif.heif_context_get_image_handle(r->file, ids[index], &r->handle));
}

static gconv_status open_heif(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(reading), "a HEIF", &reader->state));
  GCONV_TRY(load(reader->source->name));
  reading *r = reader->state;
  gconv_image *header = &reader->header;
  GCONV_TRY(gconv_reader_read_all(reader, SIZE_MAX / 2, &r->bytes, &r->size));
  r->file = heif.heif_context_alloc();
  GCONV_NEED_MEMORY(r->file, "no memory for a HEIF");
  heif.heif_context_set_max_decoding_threads(r->file, gconv_threads_allowed(0));
  GCONV_TRY(check(reader, heif.heif_context_read_from_memory_without_copy(r->file, r->bytes, r->size, NULL)));
  GCONV_TRY(find_picture(reader));
  enum { OTHER_IMAGES = LIBHEIF_AUX_IMAGE_FILTER_OMIT_ALPHA | LIBHEIF_AUX_IMAGE_FILTER_OMIT_DEPTH };
  const int bits = heif.heif_image_handle_get_luma_bits_per_pixel(r->handle);
  header->width = heif.heif_image_handle_get_width(r->handle);
  header->height = heif.heif_image_handle_get_height(r->handle);
  if (bits < 8 || bits > 16 || header->width < 1 || header->height < 1)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: has %d x %d pixels of %d bits: 8 to 16 bits are read", reader->source->name,
                      header->width, header->height, bits);
  header->frames = 1;
  header->type = bits > 8 ? GCONV_U16 : GCONV_U8;
  header->alpha = heif.heif_image_handle_has_alpha_channel(r->handle) != 0;
  header->channels = header->alpha ? 4 : 3;
  r->white = (1 << bits) - 1;
  r->premultiplied = header->alpha && heif.heif_image_handle_is_premultiplied_alpha(r->handle);
  reader->orientation = 1;
  if (heif.heif_image_handle_has_depth_image(r->handle))
    gconv_reader_lose(reader, "an image of depths");
  if (heif.heif_image_handle_get_number_of_auxiliary_images(r->handle, OTHER_IMAGES) > 0)
    gconv_reader_lose(reader, "auxiliary images (such as a map of gain)");
  reader->bytes += (size_t)(3 * gconv_image_frame_bytes(header)); /* planes of the decoder, and what libheif makes of them */
  GCONV_TRY(gconv_reader_check_expansion(reader, 1));
  GCONV_TRY(read_colours(reader));
  return read_metadata(reader);
}

static void close_heif(gconv_reader *reader) {
  const reading *r = reader->state;
  if (!r)
    return;
  if (r->image)
    heif.heif_image_release(r->image);
  if (r->handle)
    heif.heif_image_handle_release(r->handle);
  if (r->file)
    heif.heif_context_free(r->file);
  gconv_release(r->bytes);
}

/* Levels of 10 or 12 bits become exact fractions of white. */
static gconv_status unround(gconv_reader *reader) {
  if (((const reading *)reader->state)->white % UINT8_MAX != 0)
    reader->header.type = GCONV_F32;
  return GCONV_OK;
}

static gconv_status decode(gconv_reader *reader) {
  reading *r = reader->state;
  const gconv_image *header = &reader->header;
  const bool wide = r->white > UINT8_MAX;
  const enum heif_chroma chroma = header->alpha ? (wide ? heif_chroma_interleaved_RRGGBBAA_LE : heif_chroma_interleaved_RGBA)
                                                : (wide ? heif_chroma_interleaved_RRGGBB_LE : heif_chroma_interleaved_RGB);
  struct heif_decoding_options *options = heif.heif_decoding_options_alloc();
  GCONV_NEED_MEMORY(options, "no memory to decode %s", reader->source->name);
  options->strict_decoding = 1;
  const struct heif_error error = heif.heif_decode_image(r->handle, &r->image, heif_colorspace_RGB, chroma, options);
  heif.heif_decoding_options_free(options);
  GCONV_TRY(check(reader, error));
  r->pixels = heif.heif_image_get_plane_readonly(r->image, heif_channel_interleaved, &r->stride);
  const int width = heif.heif_image_get_width(r->image, heif_channel_interleaved);
  const int height = heif.heif_image_get_height(r->image, heif_channel_interleaved);
  const int bits = heif.heif_image_get_bits_per_pixel_range(r->image, heif_channel_interleaved);
  if (r->pixels && width == header->width && height == header->height && bits <= 16 && (1 << bits) - 1 == r->white)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_FILE, "%s: damaged HEIC or AVIF: it has %d x %d pixels of %d bits, other than its header says",
                    reader->source->name, width, height, bits);
}

static void convert_row(const gconv_reader *reader, const uint8_t *from, void *row) {
  const reading *r = reader->state;
  const size_t channels = (size_t)reader->header.channels, samples = (size_t)reader->header.width * channels;
  const uint32_t white = (uint32_t)r->white, half = white / 2;
  for (size_t i = 0; i < samples; i++) {
    uint32_t level = white > UINT8_MAX ? (uint32_t)gconv_bytes_number(from + 2 * i, 2, false) : from[i];
    if (r->premultiplied && i % channels < 3) {
      const size_t at = i - i % channels + 3;
      const uint32_t alpha = white > UINT8_MAX ? (uint32_t)gconv_bytes_number(from + 2 * at, 2, false) : from[at];
      level = alpha == 0 ? 0 : level >= alpha ? white : (level * white + alpha / 2) / alpha;
    }
    if (reader->header.type == GCONV_F32)
      ((float *)row)[i] = (float)((double)level / white);
    else if (reader->header.type == GCONV_U16)
      ((uint16_t *)row)[i] = (uint16_t)((level * (uint64_t)UINT16_MAX + half) / white);
    else
      ((uint8_t *)row)[i] = (uint8_t)level;
  }
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  const reading *r = reader->state;
  if (!r->image)
    GCONV_TRY(decode(reader));
  for (size_t i = 0; i < (size_t)count; i++)
    convert_row(reader, r->pixels + ((size_t)reader->rows_read + i) * (size_t)r->stride, (uint8_t *)rows + i * row_bytes);
  return GCONV_OK;
}

const gconv_format gconv_format_heif = {
    .info = {.name = "heif",
             .extensions = "heic heif hif avif",
             .help = "HEIC of phones and AVIF of the web: read, 8 to 12 bits, with alpha",
             .reads = true},
    .members = true,
    .opens_whole = true,
    .sniff = sniff,
    .open = open_heif,
    .read_rows = read_rows,
    .unround = unround,
    .close = close_heif,
};

/* SPDX-License-Identifier: MIT */
/* Reading JPEG: baseline and progressive files, grey, YCbCr, RGB, CMYK and YCCK. */
#include "image/jpeg.h"
#include "image/metadata.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { PHOTOSHOP_MARKER = JPEG_APP0 + 13 };

static bool sniff(const uint8_t *bytes, size_t size) {
  return size >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

static void ignore_start(j_decompress_ptr read) {}

static boolean fill_input(j_decompress_ptr read) {
  jpeg_session *session = (jpeg_session *)read->err;
  size_t size;
  gconv_status status = gconv_source_next(session->reader->source, &session->source.next_input_byte, &size);
  if (status == GCONV_OK && size == 0)
    status = gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early, in its JPEG data", session->name);
  if (status != GCONV_OK)
    gconv_jpeg_fail(session, status);
  session->source.bytes_in_buffer = size;
  return TRUE;
}

static void skip_input(j_decompress_ptr read, long size) {
  struct jpeg_source_mgr *source = read->src;
  for (size_t left = size > 0 ? (size_t)size : 0; left > 0;) {
    if (source->bytes_in_buffer == 0)
      fill_input(read);
    size_t step = left < source->bytes_in_buffer ? left : source->bytes_in_buffer;
    source->next_input_byte += step;
    source->bytes_in_buffer -= step;
    left -= step;
  }
}

/* Each scan of a progressive file covers the whole image, and may have only a few bytes. A malicious file has thousands of
 * scans. Encoders make about ten; the format can use a few dozen. */
static void check_scans(j_common_ptr info) {
  enum { MAX_SCANS = 100 };
  jpeg_session *session = (jpeg_session *)info->err;
  if (session->read.input_scan_number > MAX_SCANS)
    gconv_jpeg_fail(session, gconv_fail(GCONV_TOO_LARGE, "%s: a JPEG of more than %d scans: convert it to a baseline one",
                                        session->name, MAX_SCANS));
}

/* ---- Metadata ---- */

static uint8_t next_byte(j_decompress_ptr read) {
  if (read->src->bytes_in_buffer == 0)
    fill_input(read);
  read->src->bytes_in_buffer--;
  return *read->src->next_input_byte++;
}

/* Appends the current segment to the list of those kept. libjpeg's jpeg_save_markers() does so, too, but without a limit,
 * and walks the whole list each time, which is slow for a file of many tiny segments. Here, segments are skipped once
 * GCONV_MOST_METADATA bytes are kept. */
static boolean keep_marker(j_decompress_ptr read) {
  jpeg_session *session = (jpeg_session *)read->err;
  size_t high = next_byte(read), size = high << 8 | next_byte(read);
  size = size >= 2 ? size - 2 : 0;
  jpeg_saved_marker_ptr marker = NULL;
  session->enough |= session->saved + sizeof *marker + size > GCONV_MOST_METADATA;
  if (!session->enough) {
    marker = (*read->mem->alloc_large)((j_common_ptr)read, JPOOL_IMAGE, sizeof *marker + size);
    *marker = (struct jpeg_marker_struct){.marker = (UINT8)read->unread_marker,
                                          .original_length = (unsigned)size,
                                          .data_length = (unsigned)size,
                                          .data = (JOCTET *)(marker + 1)};
    session->saved += sizeof *marker + size;
  }
  for (size_t done = 0, some; done < size; done += some) {
    if (read->src->bytes_in_buffer == 0)
      fill_input(read);
    some = size - done < read->src->bytes_in_buffer ? size - done : read->src->bytes_in_buffer;
    if (marker)
      memcpy(marker->data + done, read->src->next_input_byte, some);
    read->src->next_input_byte += some;
    read->src->bytes_in_buffer -= some;
  }
  if (!marker)
    return TRUE;
  *(session->last ? &session->last->next : &read->marker_list) = marker;
  session->last = marker;
  return TRUE;
}

static const char more_xmp[] = "http://ns.adobe.com/xmp/extension/", pictures_prefix[] = "MPF";

static bool has_prefix(jpeg_saved_marker_ptr marker, const char *prefix, size_t bytes) {
  return marker->marker == GCONV_JPEG_EXIF && marker->data_length >= bytes && memcmp(marker->data, prefix, bytes) == 0;
}

/* Returns how many pictures the file has (CIPA DC-007). The first is this one; views, previews or gain maps follow it. */
static int64_t count_pictures(const uint8_t *bytes, size_t size) {
  enum { NUMBER_OF_IMAGES = 0xb001, HEAD_BYTES = 8, ENTRY_BYTES = 12 };
  if (size < HEAD_BYTES)
    return 1;
  bool big = bytes[0] == 'M';
  uint64_t at = gconv_bytes_number(bytes + 4, 4, big);
  if (at > size - 2)
    return 1;
  uint64_t entries = gconv_bytes_number(bytes + at, 2, big);
  for (at += 2; entries > 0 && at + ENTRY_BYTES <= size; at += ENTRY_BYTES, entries--)
    if (gconv_bytes_number(bytes + at, 2, big) == NUMBER_OF_IMAGES)
      return (int64_t)gconv_bytes_number(bytes + at + 8, 4, big);
  return 1;
}

/* Returns whether the segment has IPTC (captions, credits): Photoshop's resource 0x0404. */
static bool has_iptc(jpeg_saved_marker_ptr marker) {
  static const char resource[] = {'8', 'B', 'I', 'M', 4, 4};
  return marker->marker == PHOTOSHOP_MARKER && memmem(marker->data, marker->data_length, resource, sizeof resource);
}

/* Reports a segment that is not read, of APP1 to APP12. Ducky has only Photoshop's quality: it is not reported. */
static void lose_segment(gconv_reader *reader, jpeg_saved_marker_ptr marker) {
  int number = marker->marker - JPEG_APP0;
  size_t length = 0;
  char word[16] = "", name[40];
  for (; length < sizeof word - 1 && length < marker->data_length && isalnum(marker->data[length]); length++)
    word[length] = (char)marker->data[length];
  snprintf(name, sizeof name, "segment APP%d%s%s%s", number, word[0] ? " (" : "", word, word[0] ? ")" : "");
  if (number < 13 && strcmp(word, "Ducky") != 0 && strcmp(word, "ICC") != 0 && strcmp(word, "MPF") != 0)
    gconv_reader_lose(reader, name);
}

/* EXIF and XMP that do not fit into a segment continue in others, in ways that few programs know: these are left out. */
static gconv_status keep_segment(gconv_reader *reader, jpeg_saved_marker_ptr marker, size_t *left_out) {
  size_t size = marker->data_length;
  gconv_image *header = &reader->header;
  if (has_iptc(marker))
    gconv_reader_lose(reader, "IPTC");
  if (marker->marker == JPEG_APP0 + 2 && size > sizeof pictures_prefix &&
      memcmp(marker->data, pictures_prefix, sizeof pictures_prefix) == 0)
    reader->pictures = count_pictures((const uint8_t *)marker->data + sizeof pictures_prefix, size - sizeof pictures_prefix);
  if (marker->marker == JPEG_COM)
    return gconv_reader_add_comment(reader, marker->data, size);
  if (has_prefix(marker, gconv_jpeg_exif, sizeof gconv_jpeg_exif)) {
    *left_out += header->exif != NULL;
    return gconv_metadata_set_exif(header, marker->data + sizeof gconv_jpeg_exif, size - sizeof gconv_jpeg_exif);
  }
  if (has_prefix(marker, gconv_jpeg_xmp, sizeof gconv_jpeg_xmp)) {
    *left_out += header->xmp != NULL;
    return gconv_metadata_set_xmp(header, marker->data + sizeof gconv_jpeg_xmp, size - sizeof gconv_jpeg_xmp);
  }
  if (has_prefix(marker, more_xmp, sizeof more_xmp))
    ++*left_out;
  else
    lose_segment(reader, marker);
  return GCONV_OK;
}

static void read_metadata(jpeg_session *session) {
  size_t left_out = 0;
  gconv_status status = GCONV_OK;
  for (jpeg_saved_marker_ptr marker = session->read.marker_list; marker && status == GCONV_OK; marker = marker->next)
    status = keep_segment(session->reader, marker, &left_out);
  if (status != GCONV_OK)
    gconv_jpeg_fail(session, status);
  session->reader->bytes += session->saved;
  session->reader->held = session->saved;
  if (session->enough)
    gconv_reader_has_room(session->reader, GCONV_MOST_METADATA + 1); /* adds a note to the reader */
  if (left_out > 0)
    gconv_reader_note(session->reader, "%zu further segment%s of its EXIF or XMP %s left out: the first of each is kept",
                      left_out, left_out > 1 ? "s" : "", left_out > 1 ? "are" : "is");
}

/* Returns the quality at which libjpeg's table for brightness is nearest to the file's, by the sum of absolute differences;
 * 0 if the file has no such table. */
static int estimate_quality(struct jpeg_decompress_struct *read) {
  static const uint8_t brightness[DCTSIZE2] = {16, 11, 10, 16, 24,  40,  51,  61,  12, 12, 14, 19, 26,  58,  60,  55,
                                               14, 13, 16, 24, 40,  57,  69,  56,  14, 17, 22, 29, 51,  87,  80,  62,
                                               18, 22, 37, 56, 68,  109, 103, 77,  24, 35, 55, 64, 81,  104, 113, 92,
                                               49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99};
  int number = read->comp_info[0].quant_tbl_no;
  const JQUANT_TBL *table = number >= 0 && number < NUM_QUANT_TBLS ? read->quant_tbl_ptrs[number] : NULL;
  int best = 0;
  long least = LONG_MAX;
  for (int quality = 1; quality <= 100 && table; quality++) {
    long scale = jpeg_quality_scaling(quality), error = 0;
    for (int i = 0; i < DCTSIZE2; i++) {
      long step = (brightness[i] * scale + 50) / 100;
      error += labs((step < 1 ? 1 : step > 255 ? 255 : step) - (long)table->quantval[i]);
    }
    if (error <= least) {
      least = error;
      best = quality;
    }
  }
  return best;
}

/* libjpeg joins the segments of the profile in memory from malloc(). */
static void read_icc(jpeg_session *session) {
  JOCTET *bytes = NULL;
  unsigned size = 0;
  if (!jpeg_read_icc_profile(&session->read, &bytes, &size))
    return;
  gconv_status status = gconv_metadata_set_icc(&session->reader->header, bytes, size);
  free(bytes);
  if (status != GCONV_OK)
    gconv_jpeg_fail(session, status);
}

static void read_density(jpeg_session *session) {
  enum { PER_INCH = 1, PER_CENTIMETRE = 2 };
  const struct jpeg_decompress_struct *read = &session->read;
  double metre = read->density_unit == PER_INCH ? 1 / 0.0254 : read->density_unit == PER_CENTIMETRE ? 100 : 0;
  if (!read->saw_JFIF_marker || read->X_density == 0 || read->Y_density == 0)
    return;
  if (metre == 0)
    gconv_metadata_set_unitless(&session->reader->header, read->X_density, read->Y_density);
  session->reader->header.pixels_per_metre_x = read->X_density * metre;
  session->reader->header.pixels_per_metre_y = read->Y_density * metre;
}

/* Returns the bytes of all coefficients, which libjpeg keeps if a component comes in several scans; else 0. */
static size_t coefficient_bytes(struct jpeg_decompress_struct *read) {
  size_t pixels = (size_t)read->image_width * read->image_height, bytes = 0;
  if (!jpeg_has_multiple_scans(read))
    return 0;
  for (int c = 0; c < read->num_components; c++)
    bytes += pixels * sizeof(JCOEF) * (size_t)(read->comp_info[c].h_samp_factor * read->comp_info[c].v_samp_factor) /
             (size_t)(read->max_h_samp_factor * read->max_v_samp_factor);
  return bytes;
}

static bool is_cmyk(const jpeg_session *session) {
  return session->read.jpeg_color_space == JCS_CMYK || session->read.jpeg_color_space == JCS_YCCK;
}

/* Returns why the decoders of GPUs cannot take the file, or NULL. They know only the common ratios of chroma subsampling. */
static const char *find_obstacle(jpeg_session *session) {
  struct jpeg_decompress_struct *read = &session->read;
  const jpeg_component_info *parts = read->comp_info;
  if (read->progressive_mode)
    return "it is progressive";
  if (read->arith_code)
    return "its coding is arithmetic";
  if (read->data_precision != 8)
    return "it has not 8 bits a sample";
  if (read->jpeg_color_space != JCS_YCbCr)
    return "it is grey, or not of the colours YCbCr";
  if (jpeg_has_multiple_scans(read))
    return "its colours come in several scans";
  if (session->warning[0])
    return "it is damaged";
  if (parts[0].h_samp_factor > 2 || parts[0].v_samp_factor > 2 || parts[1].h_samp_factor != 1 ||
      parts[1].v_samp_factor != 1 || parts[2].h_samp_factor != 1 || parts[2].v_samp_factor != 1)
    return "its colours are sampled in an uncommon way";
  return NULL;
}

static void read_header(jpeg_session *session) {
  struct jpeg_decompress_struct *read = &session->read;
  gconv_image *header = &session->header;
  read->err = &session->errors;
  jpeg_create_decompress(read);
  session->last = NULL;
  session->source = (struct jpeg_source_mgr){.init_source = ignore_start,
                                             .fill_input_buffer = fill_input,
                                             .skip_input_data = skip_input,
                                             .resync_to_restart = jpeg_resync_to_restart,
                                             .term_source = ignore_start};
  session->progress.progress_monitor = check_scans;
  read->src = &session->source;
  read->progress = &session->progress;
  jpeg_set_marker_processor(read, GCONV_JPEG_EXIF, keep_marker);
  jpeg_set_marker_processor(read, JPEG_COM, keep_marker);
  for (int number = 2; number <= 13; number++) /* 2: ICC profiles, and pictures after this one; 13: Photoshop */
    jpeg_set_marker_processor(read, JPEG_APP0 + number, keep_marker);
  jpeg_read_header(read, TRUE);

  *header = (gconv_image){.type = GCONV_U8, .frames = 1};
  header->width = (int32_t)read->image_width;
  header->height = (int32_t)read->image_height;
  header->channels = read->jpeg_color_space == JCS_GRAYSCALE ? 1 : 3;
  read->out_color_space = is_cmyk(session) ? JCS_CMYK : header->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
}

/* Sets what the first image of a file decides for all its images. */
static void take_header(jpeg_session *session) {
  gconv_reader *reader = session->reader;
  reader->header = session->header;
  reader->header.jpeg_quality = estimate_quality(&session->read);
  reader->bytes = coefficient_bytes(&session->read);
  read_metadata(session);
  read_density(session);
  if (is_cmyk(session))
    gconv_reader_tell_of_cmyk(reader);
  else
    read_icc(session);
  reader->obstacle = find_obstacle(session);
}

static gconv_status open_jpeg(gconv_reader *reader) {
  GCONV_TRY(gconv_jpeg_create(reader->source->name, &reader->state));
  jpeg_session *session = reader->state;
  session->reader = reader;
  GCONV_TRY(gconv_jpeg_run(session, read_header));
  session->data = reader->source->position - session->source.bytes_in_buffer;
  reader->open_ended = !gconv_source_can_rewind(reader->source);
  return gconv_jpeg_run(session, take_header);
}

static gconv_status look_behind(gconv_reader *reader) {
  const jpeg_session *session = reader->state;
  uint64_t end = 0;
  if (!gconv_source_can_rewind(reader->source) || reader->pictures > 1)
    return GCONV_OK;
  GCONV_TRY(gconv_jpeg_find_end(reader->source, session->data, &end));
  if (end > 0)
    GCONV_TRY(gconv_reader_look_behind(reader, end, sniff));
  if (reader->open_ended)
    reader->obstacle = "other images follow it";
  return GCONV_OK;
}

static void close_jpeg(gconv_reader *reader) {
  jpeg_session *session = reader->state;
  if (!session)
    return;
  if (session->warning[0])
    gconv_reader_note(reader, "damaged JPEG, parts of the picture may be wrong: %s", session->warning);
  jpeg_destroy_decompress(&session->read); /* does nothing if it was not created */
  gconv_release(session->cmyk);
}

/* JPEGs of four colours come from Adobe programs, which store 255 - ink. An ink c over black k leaves (255 - c)(255 - k) /
 * 255 of white. It is rounded and clipped as in Pillow's convert("RGB"): n - MULDIV255(c, n), n = 255 - k. */
static void rgb_of_cmyk(const uint8_t *in, uint8_t *out, int32_t pixels) {
  for (int32_t i = 0; i < pixels; i++, in += 4, out += 3)
    for (int c = 0; c < 3; c++) {
      int white = in[3], product = (255 - in[c]) * white + 128;
      int level = white - (((product >> 8) + product) >> 8);
      out[c] = (uint8_t)(level > 0 ? level : 0);
    }
}

static void start_rows(jpeg_session *session) {
  jpeg_start_decompress(&session->read);
  if (!is_cmyk(session))
    return;
  void *row = NULL;
  gconv_status status = gconv_allocate((size_t)session->read.output_width * 4, "a row of a JPEG", &row);
  session->cmyk = row;
  if (status != GCONV_OK)
    gconv_jpeg_fail(session, status);
}

/* The last rows are read together with the end mark, so that a file cut there is not taken for complete. */
static void read_some_rows(jpeg_session *session) {
  if (session->row == 0)
    start_rows(session);
  for (int32_t i = 0; i < session->count; i++) {
    uint8_t *row = session->rows + (size_t)i * session->row_bytes;
    JSAMPROW target = session->cmyk ? session->cmyk : row;
    jpeg_read_scanlines(&session->read, &target, 1);
    if (session->cmyk)
      rgb_of_cmyk(session->cmyk, row, session->header.width);
  }
  if (session->read.output_scanline == session->read.output_height)
    jpeg_finish_decompress(&session->read);
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  jpeg_session *session = reader->state;
  session->rows = rows;
  session->row_bytes = row_bytes;
  session->count = count;
  GCONV_TRY(gconv_jpeg_run(session, read_some_rows));
  session->row += count;
  return GCONV_OK;
}

/* A source may have several JPEG files, one after the other. All must have the shape of the first; only its metadata are
 * kept. Bytes that libjpeg got and did not use are first given back to the source. */
static gconv_status next_image(gconv_reader *reader, bool *more) {
  jpeg_session *session = reader->state;
  reader->source->begin -= session->source.bytes_in_buffer;
  reader->source->position -= session->source.bytes_in_buffer;
  session->source.bytes_in_buffer = 0;
  *more = false;
  if (reader->pictures > 1)
    return GCONV_OK;
  GCONV_TRY(gconv_reader_look_for_next(reader, sniff, more));
  if (!*more)
    return GCONV_OK;
  jpeg_destroy_decompress(&session->read);
  gconv_release(session->cmyk);
  session->cmyk = NULL;
  session->row = 0;
  session->image++;
  GCONV_TRY(gconv_jpeg_run(session, read_header));
  return gconv_reader_check_next(reader, session->image + 1, &session->header);
}

const gconv_format gconv_format_jpeg = {
    .info = {.name = "jpeg",
             .extensions = "jpg jpeg jpe jfif",
             .help = "JPEG: 8 bits, lossy",
             .reads = true,
             .writes = true,
             .holds = {true, false, false},
             .quality = true},
    .metadata = GCONV_HOLDS_ALL,
    .sniff = sniff,
    .open = open_jpeg,
    .look_behind = look_behind,
    .read_rows = read_rows,
    .next = next_image,
    .close = close_jpeg,
    .start = gconv_jpeg_start,
    .write_rows = gconv_jpeg_write_rows,
    .finish = gconv_jpeg_finish,
    .end = gconv_jpeg_end,
};

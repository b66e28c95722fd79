/* SPDX-License-Identifier: MIT */
/*
 * JPEG by libjpeg-turbo. Reads baseline and progressive files: grey, YCbCr, RGB, CMYK and YCCK. Writes grey and YCbCr.
 *
 * Calls of libjpeg may longjmp(). As in png.c, each such call is made in a step: a function that has all it needs in its
 * session.
 */
#include "image/format.h"
#include "image/metadata.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h> /* after jpeglib.h, whose version decides which messages exist */

enum { EXIF_MARKER = JPEG_APP0 + 1 /* and XMP's */, PHOTOSHOP_MARKER = JPEG_APP0 + 13 };

typedef struct jpeg_session {
  struct jpeg_error_mgr errors; /* libjpeg knows the session by this first member */
  jmp_buf failed;
  gconv_status status; /* the error, after a jump */
  const char *name;    /* of the file */
  gconv_reader *reader;
  gconv_writer *writer;
  gconv_image header; /* of the image at hand; of the first one, the reader has it */
  int32_t image;      /* its number, from 0 */
  int32_t row;        /* of its rows: the next to be read */
  uint64_t data;      /* position of the coded data of the first image, behind the head of its first scan */
  struct jpeg_decompress_struct read;
  struct jpeg_compress_struct write;
  struct jpeg_source_mgr source;
  struct jpeg_destination_mgr sink;
  struct jpeg_progress_mgr progress;
  uint8_t *cmyk;                 /* a row of 4 samples a pixel, if the image is CMYK */
  char warning[JMSG_LENGTH_MAX]; /* libjpeg's first; "": none */

  /* Segments of metadata that are kept. */
  jpeg_saved_marker_ptr last;
  size_t saved; /* bytes */
  bool enough;  /* there were more than GCONV_MOST_METADATA */

  /* Arguments of the steps that read and write rows. */
  uint8_t *rows;
  const uint8_t *const_rows;
  size_t row_bytes;
  int32_t count;

  uint8_t output[65536];
} jpeg_session;

typedef void jpeg_step(jpeg_session *session);

static gconv_status run(jpeg_session *session, jpeg_step *step) {
  session->status = GCONV_OK;
  if (setjmp(session->failed) == 0)
    step(session);
  return session->status;
}

static _Noreturn void fail(jpeg_session *session, gconv_status status) {
  session->status = status;
  longjmp(session->failed, 1);
}

static _Noreturn void on_error(j_common_ptr info) {
  jpeg_session *session = (jpeg_session *)info->err;
  int code = info->err->msg_code;
  char text[JMSG_LENGTH_MAX];
  info->err->format_message(info, text);
  if (code == JERR_OUT_OF_MEMORY)
    fail(session, gconv_fail(GCONV_NO_MEMORY, "no memory for a JPEG"));
  bool unsupported = code == JERR_BAD_PRECISION || code == JERR_SOF_UNSUPPORTED || code == JERR_CONVERSION_NOTIMPL;
#if JPEG_LIB_VERSION < 70 /* the headers of later ABIs do not have this code */
  unsupported = unsupported || code == JERR_ARITH_NOTIMPL;
#endif
  if (unsupported)
    fail(session, gconv_fail(GCONV_UNSUPPORTED, "%s: a kind of JPEG that is not read here: %s", session->name, text));
  gconv_status status = session->reader ? GCONV_BAD_FILE : GCONV_BAD_ARGUMENT;
  fail(session,
       gconv_fail(status, "%s: %s JPEG: %s", session->name, session->reader ? "damaged" : "cannot be written as", text));
}

/* Negative levels are warnings. After those listed here, libjpeg would continue with grey or shifted blocks; half an image
 * is an error for us. After the others, pixels may be wrong all the same: the first is told as a warning when the file was
 * read. */
static void on_message(j_common_ptr info, int level) {
  static const int fatal[] = {JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE, JWRN_JPEG_EOF, JWRN_MUST_RESYNC, JWRN_ARITH_BAD_CODE};
  jpeg_session *session = (jpeg_session *)info->err;
  if (level >= 0)
    return;
  for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
    if (info->err->msg_code == fatal[i])
      on_error(info);
  if (session->warning[0] == '\0')
    info->err->format_message(info, session->warning);
}

static gconv_status create_session(const char *name, void **state) {
  GCONV_TRY(gconv_format_state(sizeof(jpeg_session), "a JPEG", state));
  jpeg_session *session = *state;
  jpeg_std_error(&session->errors);
  session->errors.error_exit = on_error;
  session->errors.emit_message = on_message;
  session->name = name;
  return GCONV_OK;
}

/* ---- Reading ---- */

static bool sniff(const uint8_t *bytes, size_t size) {
  return size >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

static void ignore_start(j_decompress_ptr read) {
  (void)read;
}

static boolean fill_input(j_decompress_ptr read) {
  jpeg_session *session = (jpeg_session *)read->err;
  size_t size;
  gconv_status status = gconv_source_next(session->reader->source, &session->source.next_input_byte, &size);
  if (status == GCONV_OK && size == 0)
    status = gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early, in its JPEG data", session->name);
  if (status != GCONV_OK)
    fail(session, status);
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

/* Each scan of a progressive file covers the whole image, and may have only a few bytes. A malicious file has thousands.
 * Encoders make about ten; the format can use a few dozen. */
static void check_scans(j_common_ptr info) {
  enum { MAX_SCANS = 100 };
  jpeg_session *session = (jpeg_session *)info->err;
  if (session->read.input_scan_number > MAX_SCANS)
    fail(session, gconv_fail(GCONV_TOO_LARGE, "%s: a JPEG of more than %d scans: convert it to a baseline one",
                             session->name, MAX_SCANS));
}

/* ---- Metadata ---- */

static uint8_t next_byte(j_decompress_ptr read) {
  if (read->src->bytes_in_buffer == 0)
    fill_input(read);
  read->src->bytes_in_buffer--;
  return *read->src->next_input_byte++;
}

/* Puts the segment at hand behind those that were kept, as jpeg_save_markers() does; but that goes through the list from its
 * beginning each time, and a file may have a segment every five bytes. Nor has it a limit: beyond GCONV_MOST_METADATA, all
 * segments are passed over. */
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

/* What a segment begins with: its size counts the final 0. */
static const char exif_prefix[] = "Exif\0", xmp_prefix[] = "http://ns.adobe.com/xap/1.0/",
                  more_xmp_prefix[] = "http://ns.adobe.com/xmp/extension/";

static bool has_prefix(jpeg_saved_marker_ptr marker, const char *prefix, size_t bytes) {
  return marker->marker == EXIF_MARKER && marker->data_length >= bytes && memcmp(marker->data, prefix, bytes) == 0;
}

static const char pictures_prefix[] = "MPF";

/* CIPA DC-007: the number of pictures, of which all but the first stand behind this one: views, previews, maps of gain. */
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

/* Photoshop's resource 0x0404: captions, credits. */
static bool has_iptc(jpeg_saved_marker_ptr marker) {
  static const char resource[] = {'8', 'B', 'I', 'M', 4, 4};
  return marker->marker == PHOTOSHOP_MARKER && memmem(marker->data, marker->data_length, resource, sizeof resource);
}

/* EXIF and XMP that do not fit into one segment go on in others, in ways that few programs know: those are left out. */
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
  if (has_prefix(marker, exif_prefix, sizeof exif_prefix)) {
    *left_out += header->exif != NULL;
    return gconv_metadata_set_exif(header, marker->data + sizeof exif_prefix, size - sizeof exif_prefix);
  }
  if (has_prefix(marker, xmp_prefix, sizeof xmp_prefix)) {
    *left_out += header->xmp != NULL;
    return gconv_metadata_set_xmp(header, marker->data + sizeof xmp_prefix, size - sizeof xmp_prefix);
  }
  *left_out += has_prefix(marker, more_xmp_prefix, sizeof more_xmp_prefix);
  return GCONV_OK;
}

static void read_metadata(jpeg_session *session) {
  size_t left_out = 0;
  gconv_status status = GCONV_OK;
  for (jpeg_saved_marker_ptr marker = session->read.marker_list; marker && status == GCONV_OK; marker = marker->next)
    status = keep_segment(session->reader, marker, &left_out);
  if (status != GCONV_OK)
    fail(session, status);
  session->reader->bytes += session->saved;
  session->reader->held = session->saved;
  if (session->enough)
    gconv_reader_has_room(session->reader, GCONV_MOST_METADATA + 1); /* a note */
  if (left_out > 0)
    gconv_reader_note(session->reader, "%zu further segment%s of its EXIF or XMP %s left out: the first of each is kept",
                      left_out, left_out > 1 ? "s" : "", left_out > 1 ? "are" : "is");
}

/* The quality by which libjpeg's own tables would be as coarse as the file's: the average ratio of their numbers is that of
 * jpeg_quality_scaling(). Encoders with tables of other kinds get the quality that is nearest. */
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
  gconv_image *header = &session->reader->header;
  JOCTET *bytes = NULL;
  unsigned size = 0;
  if (!jpeg_read_icc_profile(&session->read, &bytes, &size))
    return;
  gconv_status status = gconv_allocate(size, "an ICC profile", &header->icc);
  if (status == GCONV_OK) {
    memcpy(header->icc, bytes, size);
    header->icc_bytes = size;
  }
  free(bytes);
  if (status != GCONV_OK)
    fail(session, status);
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

/* If a component comes in several scans, libjpeg keeps all coefficients. */
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

/* Returns why the decoders of GPUs cannot take the file, or NULL. They know only the common ratios of colour. */
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
  jpeg_set_marker_processor(read, EXIF_MARKER, keep_marker);
  jpeg_set_marker_processor(read, JPEG_COM, keep_marker);
  jpeg_set_marker_processor(read, JPEG_APP0 + 2, keep_marker); /* ICC profiles, and pictures behind this one */
  jpeg_set_marker_processor(read, PHOTOSHOP_MARKER, keep_marker);
  jpeg_read_header(read, TRUE);

  *header = (gconv_image){.type = GCONV_U8, .frames = 1};
  header->width = (int32_t)read->image_width;
  header->height = (int32_t)read->image_height;
  header->channels = read->jpeg_color_space == JCS_GRAYSCALE ? 1 : 3;
  read->out_color_space = is_cmyk(session) ? JCS_CMYK : header->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
}

/* What the first image of a file tells of all. */
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
  GCONV_TRY(create_session(reader->source->name, &reader->state));
  jpeg_session *session = reader->state;
  session->reader = reader;
  GCONV_TRY(run(session, read_header));
  session->data = reader->source->position - session->source.bytes_in_buffer;
  reader->open_ended = !gconv_source_can_rewind(reader->source);
  return run(session, take_header);
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
  if (status != GCONV_OK)
    fail(session, status);
  session->cmyk = row;
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
  GCONV_TRY(run(session, read_some_rows));
  session->row += count;
  return GCONV_OK;
}

/* Of several images that lie one behind the other, each is a file of its own. They have the shape of the first, whose
 * metadata count. What libjpeg has not used of the bytes that it got is given back first. */
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
  GCONV_TRY(run(session, read_header));
  return gconv_reader_check_next(reader, session->image + 1, &session->header);
}

/* ---- Writing ---- */

static void start_output(j_compress_ptr write) {
  jpeg_session *session = (jpeg_session *)write->err;
  session->sink.next_output_byte = session->output;
  session->sink.free_in_buffer = sizeof session->output;
}

static void send_output(jpeg_session *session, size_t size) {
  gconv_status status = gconv_sink_write(session->writer->sink, session->output, size);
  if (status != GCONV_OK)
    fail(session, status);
}

static boolean empty_output(j_compress_ptr write) {
  jpeg_session *session = (jpeg_session *)write->err;
  send_output(session, sizeof session->output);
  start_output(write);
  return TRUE;
}

static void end_output(j_compress_ptr write) {
  jpeg_session *session = (jpeg_session *)write->err;
  send_output(session, sizeof session->output - session->sink.free_in_buffer);
}

/* JFIF stores whole dots an inch, in 16 bits. */
static void set_density(jpeg_session *session) {
  const gconv_image *header = session->writer->header;
  double x = round(header->pixels_per_metre_x * 0.0254), y = round(header->pixels_per_metre_y * 0.0254);
  bool inches = x >= 1 && y >= 1;
  if (!inches) { /* ratios may be no whole numbers */
    bool whole = header->unitless_x == round(header->unitless_x) && header->unitless_y == round(header->unitless_y);
    x = round(header->unitless_x * (whole ? 1 : 100));
    y = round(header->unitless_y * (whole ? 1 : 100));
  }
  if (!(x >= 1 && x <= UINT16_MAX && y >= 1 && y <= UINT16_MAX))
    return;
  session->write.density_unit = inches;
  session->write.X_density = (UINT16)x;
  session->write.Y_density = (UINT16)y;
}

/* From quality 90 on, colours are stored at full resolution (4:4:4); below, at half of it in both directions (4:2:0). Users
 * who ask for quality want sharp edges of colour, too. */
static void set_quality(jpeg_session *session) {
  enum { FULL_COLOUR_QUALITY = 90 };
  int quality = session->writer->options->quality;
  jpeg_set_quality(&session->write, quality, TRUE);
  if (quality >= FULL_COLOUR_QUALITY)
    session->write.comp_info[0].h_samp_factor = session->write.comp_info[0].v_samp_factor = 1;
}

static void write_bytes(struct jpeg_compress_struct *write, const void *bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    jpeg_write_m_byte(write, ((const uint8_t *)bytes)[i]);
}

/* Writes a segment: `prefix`, then the bytes, if they fit into one. */
static void write_segment(jpeg_session *session, int marker, const char *what, const char *prefix, size_t prefix_bytes,
                          const void *bytes, size_t size) {
  const size_t most = 0xffff - 2 - prefix_bytes;
  if (!bytes)
    return;
  if (size > most) {
    gconv_warn("%s: %s is left out: it has %zu bytes, a segment of a JPEG holds %zu", session->name, what, size, most);
    return;
  }
  jpeg_write_m_header(&session->write, marker, (unsigned)(prefix_bytes + size));
  write_bytes(&session->write, prefix, prefix_bytes);
  write_bytes(&session->write, bytes, size);
}

static void write_metadata(jpeg_session *session) {
  const gconv_image *header = session->writer->header;
  write_segment(session, EXIF_MARKER, "EXIF", exif_prefix, sizeof exif_prefix, header->exif, header->exif_bytes);
  write_segment(session, EXIF_MARKER, "XMP", xmp_prefix, sizeof xmp_prefix, header->xmp, header->xmp_bytes);
  if (header->comment)
    write_segment(session, JPEG_COM, "its comment", NULL, 0, header->comment, strlen(header->comment));
}

static void write_header(jpeg_session *session) {
  struct jpeg_compress_struct *write = &session->write;
  const gconv_image *header = session->writer->header;
  write->err = &session->errors;
  jpeg_create_compress(write);
  session->sink = (struct jpeg_destination_mgr){
      .init_destination = start_output, .empty_output_buffer = empty_output, .term_destination = end_output};
  write->dest = &session->sink;
  write->image_width = (JDIMENSION)header->width;
  write->image_height = (JDIMENSION)header->height;
  write->input_components = header->channels;
  write->in_color_space = header->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(write);
  set_quality(session);
  set_density(session);
  jpeg_start_compress(write, TRUE);
  write_metadata(session);
  if (header->icc)
    jpeg_write_icc_profile(write, header->icc, (unsigned)header->icc_bytes);
}

static gconv_status start(gconv_writer *writer) {
  if (writer->header->width > JPEG_MAX_DIMENSION || writer->header->height > JPEG_MAX_DIMENSION)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: %d x %d pixels are too many for JPEG, which has at most %ld x %ld: write .png",
                      writer->name, writer->header->width, writer->header->height, JPEG_MAX_DIMENSION, JPEG_MAX_DIMENSION);
  GCONV_TRY(create_session(writer->name, &writer->state));
  jpeg_session *session = writer->state;
  session->writer = writer;
  return run(session, write_header);
}

static void write_some_rows(jpeg_session *session) {
  for (int32_t i = 0; i < session->count; i++) {
    JSAMPROW row =
        (JSAMPROW)(uintptr_t)(session->const_rows + (size_t)i * session->row_bytes); /* libjpeg only reads the rows */
    jpeg_write_scanlines(&session->write, &row, 1);
  }
}

static gconv_status write_rows(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count) {
  jpeg_session *session = writer->state;
  session->const_rows = rows;
  session->row_bytes = row_bytes;
  session->count = count;
  return run(session, write_some_rows);
}

static void write_end(jpeg_session *session) {
  jpeg_finish_compress(&session->write);
}

static gconv_status finish(gconv_writer *writer) {
  return run(writer->state, write_end);
}

static void end(gconv_writer *writer) {
  jpeg_session *session = writer->state;
  if (session)
    jpeg_destroy_compress(&session->write);
}

const gconv_format gconv_format_jpeg = {
    .info = {.name = "jpeg",
             .extensions = "jpg jpeg jpe jfif",
             .help = "JPEG: 8 bits, lossy",
             .reads = true,
             .writes = true,
             .holds = {true, false, false},
             .quality = true},
    .alpha = false,
    .metadata = GCONV_HOLDS_ALL,
    .sniff = sniff,
    .open = open_jpeg,
    .look_behind = look_behind,
    .read_rows = read_rows,
    .next = next_image,
    .close = close_jpeg,
    .start = start,
    .write_rows = write_rows,
    .finish = finish,
    .end = end,
};

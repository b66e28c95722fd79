/* SPDX-License-Identifier: MIT */
/* Writing JPEG: grey and YCbCr, baseline. */
#include "image/jpeg.h"

#include <math.h>
#include <string.h>

static void start_output(j_compress_ptr write) {
  jpeg_session *session = (jpeg_session *)write->err;
  session->sink.next_output_byte = session->output;
  session->sink.free_in_buffer = sizeof session->output;
}

static void send_output(jpeg_session *session, size_t size) {
  gconv_status status = gconv_sink_write(session->writer->sink, session->output, size);
  if (status != GCONV_OK)
    gconv_jpeg_fail(session, status);
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
  write_segment(session, GCONV_JPEG_EXIF, "EXIF", gconv_jpeg_exif, sizeof gconv_jpeg_exif, header->exif, header->exif_bytes);
  write_segment(session, GCONV_JPEG_EXIF, "XMP", gconv_jpeg_xmp, sizeof gconv_jpeg_xmp, header->xmp, header->xmp_bytes);
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

gconv_status gconv_jpeg_start(gconv_writer *writer) {
  if (writer->header->width > JPEG_MAX_DIMENSION || writer->header->height > JPEG_MAX_DIMENSION)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: %d x %d pixels are too many for JPEG, which has at most %ld x %ld: write .png",
                      writer->name, writer->header->width, writer->header->height, JPEG_MAX_DIMENSION, JPEG_MAX_DIMENSION);
  GCONV_TRY(gconv_jpeg_create(writer->name, &writer->state));
  jpeg_session *session = writer->state;
  session->writer = writer;
  return gconv_jpeg_run(session, write_header);
}

static void write_some_rows(jpeg_session *session) {
  for (int32_t i = 0; i < session->count; i++) {
    JSAMPROW row =
        (JSAMPROW)(uintptr_t)(session->const_rows + (size_t)i * session->row_bytes); /* libjpeg only reads the rows */
    jpeg_write_scanlines(&session->write, &row, 1);
  }
}

gconv_status gconv_jpeg_write_rows(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count) {
  jpeg_session *session = writer->state;
  session->const_rows = rows;
  session->row_bytes = row_bytes;
  session->count = count;
  return gconv_jpeg_run(session, write_some_rows);
}

static void write_end(jpeg_session *session) {
  jpeg_finish_compress(&session->write);
}

gconv_status gconv_jpeg_finish(gconv_writer *writer) {
  return gconv_jpeg_run(writer->state, write_end);
}

void gconv_jpeg_end(gconv_writer *writer) {
  jpeg_session *session = writer->state;
  if (session)
    jpeg_destroy_compress(&session->write);
}

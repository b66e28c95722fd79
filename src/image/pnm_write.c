/* SPDX-License-Identifier: MIT */
/* Writing PNM and PAM. */
#include "image/pnm.h"

#include <stdio.h>
#include <string.h>

/* How many rows of the current frame are written. Before the first one, the header of the frame is written. */
typedef struct written {
  int32_t rows;
} written;

gconv_status gconv_pnm_start(gconv_writer *writer) {
  return gconv_format_state(sizeof(written), "a PNM", &writer->state);
}

static gconv_status write_text(gconv_writer *writer, const char *text) {
  return gconv_sink_write(writer->sink, text, strlen(text));
}

static int maxval_of(const gconv_image *image) {
  return image->type == GCONV_U16 ? UINT16_MAX : UINT8_MAX;
}

static gconv_status write_pnm_header(gconv_writer *writer) {
  const gconv_image *header = writer->header;
  char text[64];
  snprintf(text, sizeof text, "P%c\n%d %d\n%d\n", header->channels == 3 ? '6' : '5', header->width, header->height,
           maxval_of(header));
  return write_text(writer, text);
}

static gconv_status write_pam_header(gconv_writer *writer) {
  static const char *const types[] = {"GRAYSCALE", "GRAYSCALE_ALPHA", "RGB", "RGB_ALPHA"};
  const gconv_image *header = writer->header;
  char text[160];
  snprintf(text, sizeof text, "P7\nWIDTH %d\nHEIGHT %d\nDEPTH %d\nMAXVAL %d\nTUPLTYPE %s\nENDHDR\n", header->width,
           header->height, header->channels, maxval_of(header), types[header->channels - 1]);
  return write_text(writer, text);
}

/* Writes the most significant byte first, a few samples at a time, so that the row is not changed. */
static gconv_status write_u16(gconv_sink *sink, const uint16_t *row, size_t samples) {
  enum { PIECE = 4096 };
  uint8_t bytes[2 * PIECE];
  for (size_t done = 0; done < samples; done += PIECE) {
    size_t count = samples - done < PIECE ? samples - done : PIECE;
    for (size_t i = 0; i < count; i++) {
      bytes[2 * i] = (uint8_t)(row[done + i] >> 8);
      bytes[2 * i + 1] = (uint8_t)(row[done + i] & 255);
    }
    GCONV_TRY(gconv_sink_write(sink, bytes, 2 * count));
  }
  return GCONV_OK;
}

static gconv_status write_row(gconv_writer *writer, const void *row) {
  const gconv_image *header = writer->header;
  written *state = writer->state;
  size_t samples = (size_t)header->width * (size_t)header->channels;
  if (state->rows == 0)
    GCONV_TRY(writer->format == &gconv_format_pam ? write_pam_header(writer) : write_pnm_header(writer));
  state->rows = (state->rows + 1) % header->height;
  return header->type == GCONV_U16 ? write_u16(writer->sink, row, samples) : gconv_sink_write(writer->sink, row, samples);
}

gconv_status gconv_pnm_write_rows(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count) {
  for (size_t i = 0; i < (size_t)count; i++)
    GCONV_TRY(write_row(writer, (const uint8_t *)rows + i * row_bytes));
  return GCONV_OK;
}

/* Nothing is left to do: the row after a complete frame begins a new one. */
gconv_status gconv_pnm_add_frame(gconv_writer *writer) {
  return GCONV_OK;
}

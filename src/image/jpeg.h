/* SPDX-License-Identifier: MIT */
/*
 * JPEG by libjpeg-turbo: what its parts share.
 *
 *   jpeg_session.c  a session with libjpeg, and its errors
 *   jpeg_write.c    writing
 *   jpeg.c          reading, and the row of the format
 *
 * Calls of libjpeg may longjmp(). As in png.c, each such call is made in a step: a function that has all it needs in its
 * session.
 */
#pragma once

#include "image/format.h"

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

enum { GCONV_JPEG_EXIF = JPEG_APP0 + 1 /* the segment of EXIF, and of XMP */ };

/* The prefixes of segments of EXIF and XMP. Their sizes count the final 0, as segments have it. */
static const char gconv_jpeg_exif[] = "Exif\0", gconv_jpeg_xmp[] = "http://ns.adobe.com/xap/1.0/";

typedef struct jpeg_session {
  struct jpeg_error_mgr errors; /* libjpeg knows the session by this first member */
  jmp_buf failed;
  gconv_status status; /* the error, after a jump */
  const char *name;    /* the file's name */
  gconv_reader *reader;
  gconv_writer *writer;
  gconv_image header; /* header of the current image; the reader has the first image's */
  int32_t image;      /* number of the current image, from 0 */
  int32_t row;        /* next row of the current image to be read */
  uint64_t data;      /* position of the coded data of the first image, after the head of its first scan */
  struct jpeg_decompress_struct read;
  struct jpeg_compress_struct write;
  struct jpeg_source_mgr source;
  struct jpeg_destination_mgr sink;
  struct jpeg_progress_mgr progress;
  uint8_t *cmyk;                 /* a row of 4 samples a pixel, if the image is CMYK */
  char warning[JMSG_LENGTH_MAX]; /* libjpeg's first warning; "": none */

  /* Segments of metadata that are kept. */
  jpeg_saved_marker_ptr last;
  size_t saved; /* bytes of these segments */
  bool enough;  /* segments beyond GCONV_MOST_METADATA were skipped */

  /* Arguments of the steps that read and write rows. */
  uint8_t *rows;
  const uint8_t *const_rows;
  size_t row_bytes;
  int32_t count;

  uint8_t output[65536];
} jpeg_session;

typedef void jpeg_step(jpeg_session *session);

/* Runs a step of a session. Returns why it failed, if it did. */
gconv_status gconv_jpeg_run(jpeg_session *session, jpeg_step *step);
/* Ends the current step: gconv_jpeg_run() returns `status`. */
_Noreturn void gconv_jpeg_fail(jpeg_session *session, gconv_status status);
/* Makes the state of a reader or writer. */
gconv_status gconv_jpeg_create(const char *name, void **state);

/* ---- Functions for the row of the format (jpeg.c) ---- */

gconv_status gconv_jpeg_start(gconv_writer *writer);
gconv_status gconv_jpeg_write_rows(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count);
gconv_status gconv_jpeg_finish(gconv_writer *writer);
void gconv_jpeg_end(gconv_writer *writer);

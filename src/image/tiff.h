/* SPDX-License-Identifier: MIT */
/*
 * TIFF and BigTIFF by libtiff: what the parts share.
 *
 *   tiff_file.c     libtiff: loading it, its files, its messages
 *   tiff_page.c     what a page holds, by its tags
 *   directory.c     entries of directories, for tags that libtiff does not know, and for EXIF
 *   tiff_exif.c     EXIF, from and to directories of the file
 *   tiff_samples.c  samples of a file to samples of an image
 *   tiff_read.c     opening: pages, metadata
 *   tiff_decode.c   pixels, page after page, by rows
 *   tiff_write.c    writing
 *   tiff.c          the row of the format
 *
 * libtiff is loaded when the first TIFF is read or written. It depends on so many libraries that linking to it would make
 * every start of the program 3 ms longer.
 */
#pragma once

#include "image/format.h"

#include <tiffio.h>

/* ---- libtiff ---- */

/* The functions of libtiff, by their names. Valid after gconv_tiff_open(). */
typedef struct gconv_libtiff {
#define CALL(name) __typeof__(&name) name;
#include "image/tiff_calls.def"
#undef CALL
} gconv_libtiff;
extern gconv_libtiff gconv_tiff;

/* A file that one thread has open: libtiff's handle, and the position where it reads or writes. */
typedef struct gconv_tiff_file {
  const char *name; /* the file's name, for error texts */
  TIFF *handle;
  const gconv_source *source; /* for reading: it can go back */
  gconv_sink *sink;           /* for writing: it can seek; NULL: the file is made in `memory` */
  uint8_t *memory;            /* owned */
  size_t room;
  uint64_t position, end; /* where libtiff reads or writes next; the end of the file */
  uint32_t unknown;       /* unknown tags of the directories that were read since this was set to 0 */
  uint64_t left;          /* bytes of directories and their values that libtiff may still read; not counted while decoding */
  bool decoding;          /* pixels are being decoded: warnings are about their damage */
  bool warned;
  char ignored[200];   /* the first warning of a tag that libtiff leaves out; "": none */
  gconv_status status; /* the first failure of source or sink; `text` says what it was */
  char text[400];      /* the first error text, of source, sink or libtiff; "": none */
} gconv_tiff_file;

/* All values of directories together have at most this many times the bytes of the file, and 64 MiB more; so have all strips
 * and tiles together. It is more than once the file, because some of them may share their bytes. */
enum { GCONV_TIFF_MOST_SHARED = 64 };
static inline uint64_t gconv_tiff_most_claimed(uint64_t file_bytes) {
  const uint64_t always = 64 << 20;
  return file_bytes < UINT64_MAX / 2 / GCONV_TIFF_MOST_SHARED ? always + GCONV_TIFF_MOST_SHARED * file_bytes : UINT64_MAX;
}

/* Opens the file. Its `name` and its `source` or `sink` are set, all else is 0. The mode is "rm" (m: without mapping the
 * file), "w" or, for BigTIFF, "w8". gconv_tiff_close() must follow in any case. */
gconv_status gconv_tiff_open(gconv_tiff_file *file, const char *mode);
/* Frees all. A file that was being written may be incomplete. */
void gconv_tiff_close(gconv_tiff_file *file);
/* Fails with the status and the text of libtiff's failure. If libtiff left no text, `what` stands for it. */
gconv_status gconv_tiff_fail(gconv_tiff_file *file, const char *what);

/* Fails with GCONV_UNSUPPORTED: "a TIFF of WHAT, which is not read here". */
gconv_status gconv_tiff_refuse(const gconv_tiff_file *file, const char *what);

/* Writes bytes to the end of a file that is being written. */
gconv_status gconv_tiff_append(gconv_tiff_file *file, const void *bytes, size_t size);

/* ---- EXIF ---- */

/* Reads the EXIF of the page whose directory is at this position into the reader's header. */
gconv_status gconv_tiff_read_exif(gconv_reader *reader, const gconv_source *source, uint64_t directory);
/* Writes the header's EXIF: as tags of the page being written, and as directories. `big`: the file is a BigTIFF. The
 * description in EXIF becomes the comment of `description`, unless that has a comment; the caller frees it. */
gconv_status gconv_tiff_write_exif(gconv_tiff_file *file, bool big, const gconv_image *header, gconv_image *description);

/* ---- Pages ---- */

/* How the pixels of a page are read. */
typedef enum gconv_tiff_way {
  GCONV_TIFF_STORED, /* strips that are not compressed: any rows, at their place in the file */
  GCONV_TIFF_BLOCKS, /* strip by strip, or tile by tile */
  GCONV_TIFF_LINES,  /* strips that are too large to be decoded as a whole: line by line */
  GCONV_TIFF_COLOURS /* block by block, with colours that libtiff converts: 8-bit RGB */
} gconv_tiff_way;

/* What the samples of a page are in the file. */
typedef enum gconv_tiff_kind {
  GCONV_TIFF_DIRECT, /* u8, u16 or f32, as images have them */
  GCONV_TIFF_BITS,   /* unsigned, of 1 to 15 bits: scaled to u8 or u16, unless they are indices of a palette */
  GCONV_TIFF_NUMBERS /* other integers and floats: become f32, with the same values */
} gconv_tiff_kind;

/* How samples become colours. */
typedef enum gconv_tiff_colour {
  GCONV_TIFF_PLAIN,
  GCONV_TIFF_INVERTED, /* white is 0 */
  GCONV_TIFF_PALETTE,
  GCONV_TIFF_INDICES, /* indices of a palette, as they are */
  GCONV_TIFF_CMYK,
  GCONV_TIFF_PREMULTIPLIED /* colours were multiplied by alpha, the last sample */
} gconv_tiff_colour;

typedef struct gconv_tiff_page {
  gconv_image header; /* the page as an image; owns nothing */
  int orientation;    /* 1 to 8 */
  gconv_tiff_way way;
  gconv_tiff_kind kind;
  gconv_tiff_colour colour;
  uint16_t bits, samples; /* in the file: bits of a sample, samples of a pixel */
  uint16_t format, compression, photometric, predictor;
  bool tiled;
  bool separate;         /* each sample has planes of its own */
  bool swapped;          /* samples are not in the byte order of this machine; libtiff undoes that */
  bool reversed;         /* the lowest bit of each byte comes first; libtiff undoes that, too */
  bool holes;            /* the file leaves out blocks, as GDAL does where nothing was stored: they are no data, or 0 */
  bool own;              /* tiff_decode.c decodes blocks without libtiff: they are stored, or compressed by Deflate */
  int32_t width, height; /* size of a block; a strip is as wide as the page */
  int32_t across, down;  /* how many blocks the page has across and down */
  size_t row_bytes;      /* bytes of a row of a block in the file; if planes are separate, of one plane */
  uint8_t palette[3 * 256];
} gconv_tiff_page;

/* Describes the page whose directory the handle is at. GCONV_UNSUPPORTED if such pages are not read. */
gconv_status gconv_tiff_look(gconv_tiff_file *file, gconv_tiff_page *page);
/* Returns whether the file leaves out a strip or tile of the current page. */
bool gconv_tiff_is_hole(const gconv_tiff_file *file, uint32_t block);
/* Prepares the handle for reading the pixels of its current page. */
void gconv_tiff_prepare(gconv_tiff_file *file, const gconv_tiff_page *page);

/* ---- Samples ---- */

/* Undoes byte order and predictor of a row of a block that was not decoded by libtiff, in place. `spare` has room for a
 * row. */
void gconv_tiff_undo(const gconv_tiff_page *page, uint8_t *row, uint8_t *spare);

/* Unpacks `count` pixels of a row, of a plane if the page has separate ones, to samples of the image's type: page->samples a
 * pixel. Adds what float32 loses to *rounding. */
void gconv_tiff_unpack(const gconv_tiff_page *page, const uint8_t *row, int32_t count, int plane, void *samples,
                       gconv_rounding *rounding);
/* Makes colours of unpacked samples: `pixels` of the image. `pixels` may be `samples`, unless the image has another number
 * of channels. Returns whether colours were lost because they were larger than their alpha. */
bool gconv_tiff_colours(const gconv_tiff_page *page, void *samples, int32_t count, void *pixels);

/* ---- Parts of the row ---- */

gconv_status gconv_tiff_take_palette(gconv_reader *reader, gconv_palette *palette);
gconv_status gconv_tiff_open_reader(gconv_reader *reader);
gconv_status gconv_tiff_read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count);
gconv_status gconv_tiff_next_page(gconv_reader *reader, bool *more);
void gconv_tiff_close_reader(gconv_reader *reader);

double gconv_tiff_held_bytes(const gconv_image *header, const gconv_write_options *options, int how);
gconv_status gconv_tiff_start(gconv_writer *writer);
gconv_status gconv_tiff_write_rows(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count);
gconv_status gconv_tiff_add_frame(gconv_writer *writer);
int32_t gconv_tiff_row_step(const gconv_writer *writer);
gconv_status gconv_tiff_finish(gconv_writer *writer);
void gconv_tiff_end(gconv_writer *writer);

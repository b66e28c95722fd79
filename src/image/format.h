/* SPDX-License-Identifier: MIT */
/*
 * What a file format offers: a row that says all that is known of it, in a file of its own (png.c, jpeg.c), and its name in
 * the table, formats.def.
 *
 * Reading and writing go by rows, in order from the top, so that a later stage can start before the last row is there and a
 * huge image need not be in memory at once. A format that cannot go by rows (interlaced PNG, PFM from the bottom up) does
 * the work at its first row.
 */
#ifndef GCONV_IMAGE_FORMAT_H
#define GCONV_IMAGE_FORMAT_H

#include "base/element.h"
#include "base/file.h"
#include "base/memory.h"
#include "gconv.h"
#include "image/gpu_codec.h"
#include "image/layout.h"

typedef struct gconv_format gconv_format;

/* An image being read. */
typedef struct gconv_reader {
  const gconv_format *format;
  gconv_source *source;
  const char *member; /* which of the file's images is wanted: its name, or its number from 1; NULL: all of them */
  gconv_image header; /* set by open(): all but data, row_bytes and plane_bytes; owns its metadata, as the file has them */
  bool open_ended;    /* set by open() or look_behind(): `header` is of the first image, and more may follow: of a pipe, of a
                         file whose images are not counted, or of images that differ */
  char apart[320];    /* set by open(), with open_ended: why the images, header.frames of them, are not frames of one */
  bool one_by_one;    /* such images are read, each by itself */
  int64_t pictures;   /* set by open(): if above 1, so many are in the file, and the first is read; a warning says so */
  bool next_asked;    /* gconv_reader_next() was called */
  uint64_t end;       /* set by open() of formats of one image: where it ends in the source; 0: not known */
  bool foreign;       /* set by the format: what follows the last image is none; a warning says so */
  bool out_of_order;  /* set by open(): rows come only when the whole image is read: gconv_reader_whole() */
  size_t bytes;       /* set by open(): memory in proportion to the image or the file that reading takes besides the rows */
  size_t held;        /* set by open(): what of that is taken from open() on, such as all bytes of a file */
  int orientation;    /* 1 to 8, as in EXIF; 1: as it is. open() may set it where the format has one besides EXIF and XMP;
                         if not, gconv_reader_open() looks into these; applied after the rows are read */
  size_t comment_bytes;  /* of header.comment: gconv_metadata_add_comment() counts them */
  char note[480];        /* what of the file is damaged or left out, for a warning when it was read; "": nothing */
  char lost[200];        /* names of metadata that no image has a place for: gconv_reader_lose(); "": there are none */
  const char *obstacle;  /* why GPUs do not decode the file: "it is progressive"; NULL: they do. Set by open() of JPEG */
  gconv_threads *shared; /* on one of which rows are read, if any: set after gconv_reader_open() */
  bool again, strip;     /* gconv_read_options */
  uint64_t max_pixels;   /* of a frame: checked by gconv_reader_open() between open() and the first row */
  bool used;             /* pixels were asked for, as rows or as a file for a GPU: only then are warnings given */
  bool left_out;         /* some metadata were: gconv_reader_has_room() ... */
  bool comments_left;    /* ... or comments: gconv_reader_add_comment() */
  bool failed;           /* gconv_reader_rows() did: nothing is read any more */
  int64_t rows_read;     /* of gconv_image_row_count(&header); counted by gconv_reader_rows() */
  void *state;           /* the format's own; of gconv_format_state() */
  uint8_t *whole;        /* all rows, where they were wanted piecemeal of a format that cannot: gconv_reader_whole() */
} gconv_reader;

/* How an image comes to its writer, and where that writes. */
enum {
  GCONV_IN_PARTS = 1, /* write_rows() is called for some rows at a time */
  GCONV_TO_PIPE = 2   /* to a sink that cannot seek */
};

/* An image being written. */
typedef struct gconv_writer {
  const gconv_format *format;
  const char *name; /* of the file, for error texts */
  gconv_sink *sink;
  bool grows;                         /* more frames follow than the header has: add_frame() */
  const gconv_image *header;          /* shapes, type, alpha and metadata; its pixels are not looked at */
  const gconv_write_options *options; /* never NULL, defaults filled in */
  void *state;                        /* the format's own, of gconv_format_state() */
} gconv_writer;

/* Bytes of metadata that are kept of a file at most: of all kinds together, and of all comments. What goes beyond is left
 * out, and a note says so. */
enum { GCONV_MOST_METADATA = 16 << 20, GCONV_MOST_COMMENTS = 1 << 20 };

/* Pixels that a byte of a file may become, in images that are large. */
enum { GCONV_MOST_EXPANSION = 1 << 18 };

/* Metadata that a format may hold. Of ICC profiles, some formats take not all: with GCONV_HOLDS_COLOUR_ICC, those of RGB
 * alone, as grey is written as RGB; with GCONV_HOLDS_WHOLE_ICC, none that is damaged, as readers would refuse the file. A
 * format that holds EXIF and no resolution keeps the resolution that is in the EXIF. */
enum {
  GCONV_HOLDS_EXIF = 1,
  GCONV_HOLDS_XMP = 2,
  GCONV_HOLDS_COMMENT = 4,
  GCONV_HOLDS_RESOLUTION = 8,
  GCONV_HOLDS_ICC = 16,
  GCONV_HOLDS_COLOUR_ICC = 32,
  GCONV_HOLDS_WHOLE_ICC = 64,
  GCONV_HOLDS_ALL = GCONV_HOLDS_EXIF | GCONV_HOLDS_XMP | GCONV_HOLDS_COMMENT | GCONV_HOLDS_RESOLUTION | GCONV_HOLDS_ICC
};

/* Tags of TIFF, and the number of no data: gconv_image.tags. */
enum { GCONV_HOLDS_TAGS = 128 };

struct gconv_format {
  gconv_format_info info;
  bool alpha; /* 2 and 4 channels can be written, as grey + alpha and RGBA; unless `plain`, the last is alpha for readers */
  bool plain; /* the last of 2 and 4 channels may be one like any other */
  bool members; /* open() minds reader->member; false: a file has one image, which no member names */
  bool number;  /* start() does better if it knows whether one frame comes or several */
  int metadata; /* that start() writes, of those above: the header has no others then. Its profile fits its colours */
  /* write_rows() works on the shared threads by itself; else it is called on one of these. The same of read_rows(). */
  bool threads, reads_on_threads;

  bool opens_whole;   /* open() reads all bytes of the file, from files, too */
  int most_expansion; /* bytes of metadata that a byte of the file may be inflated to; 0: they are not compressed */

  /* Whether a file that begins with these bytes (at least 16; fewer if it is shorter) is of this format. */
  bool (*sniff)(const uint8_t *bytes, size_t size);
  /* Reads the header only: no memory in proportion to the pixels is taken. */
  gconv_status (*open)(gconv_reader *reader);
  /* Reads the next `count` rows to rows + i * row_bytes. */
  gconv_status (*read_rows)(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count);
  /* NULL, or: called behind open() where pixels will be read. Looks at the bytes behind the image, which takes time. */
  gconv_status (*look_behind)(gconv_reader *reader);
  /* NULL, or, of an open-ended reader whose rows are all read: whether another image follows. Its rows are read next, and it
   * has the shape of the first, GCONV_BAD_FILE says where it has not; unless reader->apart is set: then the header and the
   * orientation become its own. */
  gconv_status (*next)(gconv_reader *reader, bool *more);
  /* NULL, or: gconv_read_options.unrounded. Called behind open(), and sets header.type to GCONV_F32 where samples would be
   * rounded. */
  gconv_status (*unround)(gconv_reader *reader);
  /* NULL, or: gconv_read_options.palette. Called behind open(); makes the header that of numbers, if there is a palette. */
  gconv_status (*take_palette)(gconv_reader *reader, gconv_palette *palette);
  /* NULL, or: gconv_read_options.planes. Called behind open(). */
  void (*take_planes)(gconv_reader *reader, int32_t planes);
  /* After success or failure of open(): frees what the state owns. NULL: that is nothing. */
  void (*close)(gconv_reader *reader);

  /* NULL: writing takes no more than some strips, or rows. Else the bytes that it takes besides those, in proportion to the
   * picture, a frame, or the file; `how`: of GCONV_IN_PARTS and GCONV_TO_PIPE. Told before start(), for
   * gconv_row_writer_bytes().
   */
  double (*held_bytes)(const gconv_image *header, const gconv_write_options *options, int how);
  gconv_status (*start)(gconv_writer *writer);
  gconv_status (*write_rows)(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count);
  /* NULL, or: writes `count` rows of a planar image, from number `first` of all its planes on, in any order of calls, to a
   * sink that can seek. Of one image, either this or write_rows() is called. */
  gconv_status (*write_rows_at)(gconv_writer *writer, int64_t first, const void *rows, size_t row_bytes, int32_t count);
  /* NULL, or: header->frames has grown by one, before the rows of that frame. GCONV_UNSUPPORTED says why it cannot. With
   * `frames_differ`, the header may have another shape by then; if the frame was counted before, frames is as it was. */
  gconv_status (*add_frame)(gconv_writer *writer);
  bool frames_differ;
  /* NULL, or: gconv_row_writer_write_part() of bytes, or of samples below such. */
  gconv_status (*write_part)(gconv_writer *writer, const gconv_part *part);
  /* The rows that write_rows() takes best at a time; NULL: any number. */
  int32_t (*row_step)(const gconv_writer *writer);
  /* Writes what follows the last row; NULL: nothing does. */
  gconv_status (*finish)(gconv_writer *writer);
  /* After success or failure of start(): frees what the state owns. NULL: that is nothing. */
  void (*end)(gconv_writer *writer);
};

/* ---- The formats ---- */

#define FORMAT(name) extern const gconv_format gconv_format_##name;
#include "image/formats.def"
#undef FORMAT

/* The format of a file that begins with these bytes, or NULL. */
const gconv_format *gconv_format_by_content(const uint8_t *bytes, size_t size);

/* Writes their names into text[0 .. size), for messages: "png, jpeg, ...". */
void gconv_formats_list(char *text, size_t size);

/* Fails for a file of no format that is read here, which begins with these bytes, GCONV_FOREIGN_BYTES of them if it has as
 * many: says which kind of file it is, and what makes one of it that is read. */
enum { GCONV_FOREIGN_BYTES = 352 }; /* NIfTI tells itself last */
gconv_status gconv_fail_unknown(const char *name, const uint8_t *bytes, size_t size);

/* ---- Reading ---- */

/* Finds the format of `source` by its content and reads the header, of frames that are at most `max_pixels` large. Needs
 * gconv_reader_close() in any case; the source stays the caller's. */
gconv_status gconv_reader_open(gconv_reader *reader, gconv_source *source, uint64_t max_pixels);

/* Reads the next `count` rows (no more than there are) to rows + i * row_bytes. The last of them succeeds only if the file
 * is complete; after a failure, nothing is read any more. */
gconv_status gconv_reader_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count);

/* GCONV_TOO_LARGE if all frames together are more than `max_pixels`, GCONV_UNSUPPORTED if they are not alike. */
gconv_status gconv_reader_check_whole(const gconv_reader *reader);

/* GCONV_TOO_LARGE if the file, by its bytes, cannot be pictures of as many pixels as so many frames have: a few hundred
 * bytes may ask for gigabytes of one colour. Not checked of pipes, unless open() has read them as a whole. */
gconv_status gconv_reader_check_expansion(const gconv_reader *reader, int32_t frames);

/* When all rows are read: whether another image follows, which is read next. False if the reader is not open-ended. */
gconv_status gconv_reader_next(gconv_reader *reader, bool *more);

/* For open() of formats that number their images: *index, from 0, of the one that reader->member names, of `count`. */
gconv_status gconv_reader_find_number(const gconv_reader *reader, int64_t count, int64_t *index);

/* For formats of which several may lie one behind the other: what follows an image that ends at position `end` of a file.
 * Sets reader->open_ended if it is another one, by `sniff`; or reader->foreign. */
gconv_status gconv_reader_look_behind(gconv_reader *reader, uint64_t end, bool (*sniff)(const uint8_t *bytes, size_t size));
/* For formats of one image: tells of what follows it, which begins with these bytes. */
void gconv_reader_tell_of_rest(gconv_reader *reader, const uint8_t *bytes, size_t size);
/* Where pixels will be read: looks at what follows the image in its file. */
gconv_status gconv_reader_look(gconv_reader *reader);
/* For next(): *more: what the source has next is another image. If it is anything else, sets reader->foreign. */
gconv_status gconv_reader_look_for_next(gconv_reader *reader, bool (*sniff)(const uint8_t *bytes, size_t size), bool *more);
/* For next(): GCONV_BAD_FILE unless image `number`, from 1, has the shape of the first one. */
gconv_status gconv_reader_check_next(const gconv_reader *reader, int32_t number, const gconv_image *header);

/* Frees what the reader holds, the header with it, and zeroes it. */
void gconv_reader_close(gconv_reader *reader);

/* What the file has that is not read, as far as open() knows, for gconv_release(); NULL: nothing. */
gconv_status gconv_reader_describe_rest(const gconv_reader *reader, char **rest);

/* Adds a text to the reader's note, which is one warning in the end. */
void gconv_reader_note(gconv_reader *reader, const char *format, ...) GCONV_PRINTF(2, 3);

/* For open(): the file has CMYK, which becomes RGB: sets header.cmyk, and adds a note. */
void gconv_reader_tell_of_cmyk(gconv_reader *reader);

/* For open(): metadata of that name are left out, which nothing but --strip asks for: a warning names them when the file was
 * read. */
void gconv_reader_lose(gconv_reader *reader, const char *name);

/* For open(): whether `size` more bytes of metadata are to be kept. If not, which GCONV_MOST_METADATA decides, there is a
 * note. */
bool gconv_reader_has_room(gconv_reader *reader, size_t size);
/* For open(): gconv_metadata_add_comment(), up to GCONV_MOST_COMMENTS. */
gconv_status gconv_reader_add_comment(gconv_reader *reader, const void *bytes, size_t size);

/* For open() of formats that are read as a whole: all bytes of the source, for gconv_release(), which count as reader->held.
 * GCONV_TOO_LARGE if they are more than `limit`, or than source->max_bytes allows. */
gconv_status gconv_reader_read_all(gconv_reader *reader, size_t limit, uint8_t **bytes, size_t *size);

/* For open(): GCONV_BAD_FILE if the file is known to have fewer than `bytes` left. */
gconv_status gconv_reader_expect(const gconv_reader *reader, size_t bytes);

/* Reads all rows of an image to rows + i * row_bytes. */
typedef gconv_status gconv_read_all_rows(gconv_reader *reader, uint8_t *rows, size_t row_bytes);

/* For read_rows() of formats that cannot go by rows: calls read_all once, straight into `rows` if all are wanted at once,
 * else into memory from which later calls are served. */
gconv_status gconv_reader_whole(gconv_reader *reader, gconv_read_all_rows *read_all, void *rows, size_t row_bytes,
                                int32_t count);

/* ---- Details that formats share ---- */

/* Makes the state of a reader or writer: zeroed memory, which is freed behind close() and end(). `what` is for the error
 * text: "a PNG". */
gconv_status gconv_format_state(size_t bytes, const char *what, void **state);

/* The rows of all frames, and of all planes of each. Only the header counts. */
int64_t gconv_image_row_count(const gconv_image *image);
/* The bytes of all samples of one frame, of all its planes. */
double gconv_image_frame_bytes(const gconv_image *image);

/* What is wrong with the ICC profile of `image`, or NULL: it is not of such colours, grey or RGB, as the image has; or, if
 * it has to be `whole`, it is damaged. */
const char *gconv_icc_fault(const gconv_image *image, bool whole);

/* Finds damage without decoding, because the decoders of GPUs do not report it. Returns whether a JPEG file, of one scan,
 * ends with its end mark, and whether its coded data have no marks but those for restarts, in their order, if the file
 * announces restarts. This does not find damage that changes codes but no marks, or files that were cut and got an end mark.
 */
bool gconv_jpeg_is_whole(const uint8_t *bytes, size_t size);

/* Of a JPEG file whose coded data begin at `at`: *end is the position behind its end mark; 0 if there is none. */
gconv_status gconv_jpeg_find_end(const gconv_source *source, uint64_t at, uint64_t *end);

/* Of a .npy file whose header was read: the bytes of its elements. */
size_t gconv_npy_bytes(const gconv_reader *reader);
/* gconv_format.take_planes of arrays. */
void gconv_npy_take_planes(gconv_reader *reader, int32_t planes);

/* Reverses the bytes of each item, in place; item_bytes is 1, 2, 4 or 8. */
void gconv_swap_bytes(void *items, size_t count, size_t item_bytes);

#endif

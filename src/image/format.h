/* SPDX-License-Identifier: MIT */
/*
 * The interface of file formats. Each format has a row, struct gconv_format, in a file of its own (png.c, jpeg.c). Its name
 * stands in the table, formats.def.
 *
 * Reading and writing go by rows, in order from the top, so that a later stage can start before the last row is there and a
 * huge image need not be in memory at once. A format that cannot go by rows (interlaced PNG, PFM from the bottom up) does
 * the work at its first row.
 */
#pragma once

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
  bool open_ended;  /* set by open() or look_behind(): `header` belongs to the first image, and more may follow, as in pipes,
                       in files whose images are not counted, and in files whose images differ */
  char apart[400];  /* set by open(), with open_ended: why the images cannot be frames of one image; "": they can */
  bool one_by_one;  /* the caller reads each image by itself, even if `apart` is set */
  int64_t pictures; /* set by open(): if above 1, how many pictures the file has; the first is read, and a warning says so */
  bool next_asked;  /* gconv_reader_next() was called */
  uint64_t end; /* set by open() of formats of one image: the position in the source where the image ends; 0: not known */
  bool foreign; /* set by the format: something that is no image follows the last image; a warning says so */
  bool out_of_order; /* set by open(): rows come only when the whole image is read: gconv_reader_whole() */
  size_t bytes;      /* set by open(): memory that reading takes besides rows, if it grows with the image or file */
  size_t held;       /* set by open(): how many of `bytes` are taken from open() on, such as all bytes of a file */
  int orientation;   /* 1 to 8, as in EXIF; 1: upright. open() may set it, if the format has an orientation of its own; else
                        gconv_reader_open() takes it from EXIF or XMP. It is applied after the rows are read */
  size_t comment_bytes;  /* length of header.comment, kept for gconv_metadata_add_comment() */
  char note[480];        /* what is damaged in the file, or left out: gconv_reader_close() warns of it; "": nothing */
  char lost[200];        /* names of metadata that no image has a place for: gconv_reader_lose(); "": there are none */
  const char *obstacle;  /* set by open() of JPEG: why GPUs do not decode the file: "it is progressive"; NULL: they do */
  gconv_threads *shared; /* NULL, or threads: one of them reads the rows; set after gconv_reader_open() */
  bool again, strip;     /* as in gconv_read_options */
  uint64_t max_pixels;   /* the most pixels of a frame; gconv_reader_open() checks this before any row is read */
  bool used;             /* pixels were asked for, as rows or as a file for a GPU: only then are warnings given */
  bool left_out;         /* some metadata were left out, and gconv_reader_has_room() added a note */
  bool comments_left;    /* some comments were left out, and gconv_reader_add_comment() added a note */
  bool failed;           /* reading rows, or looking for another image, failed: nothing is read any more */
  int64_t rows_read;     /* rows that gconv_reader_rows() has read, of gconv_image_row_count(&header) */
  void *state;           /* the format's own data, made by gconv_format_state(); NULL: none (yet) */
  uint8_t *whole;        /* NULL, or all rows: gconv_reader_whole() made them for a caller that takes some rows at a time */

  gconv_rounding rounding; /* set by reading rows: what float32 has lost; gconv_reader_close() tells it */
} gconv_reader;

/* How the rows of an image reach their writer, and where it writes. */
enum {
  GCONV_IN_PARTS = 1, /* write_rows() is called for some rows at a time */
  GCONV_TO_PIPE = 2   /* the sink cannot seek */
};

/* An image being written. */
typedef struct gconv_writer {
  const gconv_format *format;
  const char *name; /* the file's name, for error texts */
  gconv_sink *sink;
  bool grows;                         /* add_frame() may add further frames than the header has */
  const gconv_image *header;          /* shape, type, alpha and metadata; its pixels are not used */
  const gconv_write_options *options; /* never NULL, defaults filled in */
  void *state;                        /* the format's own data, made by gconv_format_state() */
} gconv_writer;

/* The most bytes of metadata that are kept of a file: of all kinds together, and of its comments. A note names metadata that
 * are left out. */
enum { GCONV_MOST_METADATA = 16 << 20, GCONV_MOST_COMMENTS = 1 << 20 };

/* The most pixels that a byte of a file may stand for. gconv_reader_check_expansion() checks this for large images. */
enum { GCONV_MOST_EXPANSION = 1 << 18 };

/* Metadata that a format may hold. Two of the flags limit which ICC profiles are written. GCONV_HOLDS_COLOUR_ICC: only
 * profiles of RGB, as the format writes grey as RGB. GCONV_HOLDS_WHOLE_ICC: no damaged profiles, as readers would refuse the
 * file. A format that holds EXIF but no resolution keeps the resolution that is in the EXIF. */
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

/* Defines a function that loads the library of a format at its first file, and fails if that cannot be used: "FILE: `needs`,
 * which cannot be used: the file was not found". `scope`: static, or empty. */
#define GCONV_LOADS(scope, function, file, symbols_, needs)                                                                 \
  scope gconv_status function(const char *name) {                                                                           \
    static const char *const files[] = {file, NULL};                                                                        \
    static gconv_library library = {.files = files, .symbols = symbols_};                                                   \
    const char *trouble = gconv_library_load(&library);                                                                     \
    return trouble ? gconv_fail(GCONV_UNSUPPORTED, "%s: %s, which cannot be used: %s", name, needs, trouble) : GCONV_OK;    \
  }

/* One more kind of metadata: tags of TIFF (gconv_image.tags), and the number that stands for no data. */
enum { GCONV_HOLDS_TAGS = 128 };

/* Or cards of a FITS (gconv_image.tags begins with GCONV_FITS_MARK). */
enum { GCONV_HOLDS_CARDS = 256 };
#define GCONV_FITS_MARK "FITS\r\n\0"

struct gconv_format {
  gconv_format_info info;
  bool alpha;   /* 2 and 4 channels can be written; unless `plain`, readers of the file take the last for alpha */
  bool plain;   /* the last of 2 or 4 channels need not be alpha */
  bool members; /* open() goes to the image that reader->member names; false: members are refused */
  bool number;  /* start() does better if it knows whether one frame comes or several */
  int metadata; /* GCONV_HOLDS_...: what start() writes. All other metadata, and an ICC profile that does not fit the
                   colours, are removed from the header before start() */
  /* threads: write_rows() spreads its work over the shared threads; false: it is called on one of them. reads_on_threads
   * says the same of read_rows(). */
  bool threads, reads_on_threads;

  bool opens_whole;   /* open() reads all bytes of the file into memory, even if it is no pipe */
  int most_expansion; /* the most bytes of metadata that a byte of the file may inflate to; 0: they are not compressed */

  /* Returns whether a file that begins with these bytes (16, or if no format knows these, GCONV_FOREIGN_BYTES; fewer if it
   * is shorter) is of this format. */
  bool (*sniff)(const uint8_t *bytes, size_t size);
  /* Reads the header only: no memory in proportion to the pixels is taken. */
  gconv_status (*open)(gconv_reader *reader);
  /* Reads the next `count` rows to rows + i * row_bytes. */
  gconv_status (*read_rows)(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count);
  /* Looks at the bytes after the image, which takes time. Called after open() if pixels will be read. May be NULL. */
  gconv_status (*look_behind)(gconv_reader *reader);
  /* Called when all rows of an open-ended reader were read: says whether another image follows, and begins it. It must have
   * the shape of the first, else GCONV_BAD_FILE. But if reader->apart is set, it may have another shape: the reader gets its
   * header and orientation. May be NULL. */
  gconv_status (*next)(gconv_reader *reader, bool *more);
  /* Does gconv_read_options.unrounded: sets header.type to GCONV_F32 if samples would be rounded. May be NULL. */
  gconv_status (*unround)(gconv_reader *reader);
  /* Does gconv_read_options.palette. Called after open(). If there is a palette, rows will be its numbers, and the header
   * describes such an image. May be NULL. */
  gconv_status (*take_palette)(gconv_reader *reader, gconv_palette *palette);
  /* Does gconv_read_options.planes. Called after open(). May be NULL. */
  void (*take_planes)(gconv_reader *reader, int32_t planes);
  /* Frees what the state owns, after success or failure of open(). NULL: it owns nothing. */
  void (*close)(gconv_reader *reader);

  /* Returns the bytes that writing takes besides some rows or strips, in proportion to the picture, a frame, or the file.
   * NULL: none. `how`: GCONV_IN_PARTS, GCONV_TO_PIPE. Called before start(), by gconv_row_writer_bytes(). */
  double (*held_bytes)(const gconv_image *header, const gconv_write_options *options, int how);
  gconv_status (*start)(gconv_writer *writer);
  gconv_status (*write_rows)(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count);
  /* Writes `count` rows of a planar image to a sink that can seek, in any order of calls. `first` counts rows through all
   * planes. For one image, either this or write_rows() is called. May be NULL. */
  gconv_status (*write_rows_at)(gconv_writer *writer, int64_t first, const void *rows, size_t row_bytes, int32_t count);
  /* Begins another frame, before its rows; header->frames counts it already. GCONV_UNSUPPORTED says why the format cannot
   * take it. With `frames_differ`, the header may have changed to another shape. May be NULL. */
  gconv_status (*add_frame)(gconv_writer *writer);
  bool frames_differ;
  /* Does gconv_row_writer_write_part() for parts that are bytes, and for samples below such a part. May be NULL. */
  gconv_status (*write_part)(gconv_writer *writer, const gconv_part *part);
  /* Returns how many rows write_rows() best gets at a time; NULL: any number. */
  int32_t (*row_step)(const gconv_writer *writer);
  /* Writes the end of the file, after the last row; NULL: there is none. */
  gconv_status (*finish)(gconv_writer *writer);
  /* Frees what the state owns, after success or failure of start(). NULL: it owns nothing. */
  void (*end)(gconv_writer *writer);
};

/* ---- The formats ---- */

#define FORMAT(name) extern const gconv_format gconv_format_##name;
#include "image/formats.def"
#undef FORMAT

extern const gconv_format gconv_format_raw;

/* Returns the format of a file that begins with these bytes, or NULL. */
const gconv_format *gconv_format_by_content(const uint8_t *bytes, size_t size);

/* Writes the names of all formats into text[0 .. size), for messages: "png, jpeg, ...". */
void gconv_formats_list(char *text, size_t size);

/* Fails for a file that no format reads. The text says which kind of file it is, and how to convert it. `bytes` are the
 * first GCONV_FOREIGN_BYTES of the file, or all if it has fewer. */
enum { GCONV_FOREIGN_BYTES = 352 }; /* the last mark is NIfTI's, at byte 344 */
gconv_status gconv_fail_unknown(const char *name, const uint8_t *bytes, size_t size);

/* ---- Reading ---- */

/* Finds the format of `source` by its content and reads the header. GCONV_TOO_LARGE if a frame has more than `max_pixels`.
 * gconv_reader_close() must follow in any case; the source stays the caller's. */
gconv_status gconv_reader_open(gconv_reader *reader, gconv_source *source, uint64_t max_pixels);

/* Reads the next `count` rows (no more than are left) to rows + i * row_bytes. The last row succeeds only if the file is
 * complete. After a failure, nothing is read any more. */
gconv_status gconv_reader_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count);

/* Fails with GCONV_TOO_LARGE if all frames together have more than `max_pixels`, GCONV_UNSUPPORTED if frames differ. */
gconv_status gconv_reader_check_whole(const gconv_reader *reader);

/* Fails with GCONV_TOO_LARGE if `frames` frames have more pixels than pictures in a file of this size can have: a few
 * hundred bytes may ask for gigabytes of one colour. A pipe is checked only if open() has read it as a whole. */
gconv_status gconv_reader_check_expansion(const gconv_reader *reader, int32_t frames);

/* When all rows were read: says whether another image follows, and begins it. *more is false unless the reader is
 * open-ended. */
gconv_status gconv_reader_next(gconv_reader *reader, bool *more);

/* For open() of formats that number their images from 1 to `count`: finds the image that reader->member names. *index is its
 * number from 0. GCONV_BAD_ARGUMENT if there is no such image. */
gconv_status gconv_reader_find_number(const gconv_reader *reader, int64_t count, int64_t *index);

/* For formats whose images may lie one after the other: looks at the bytes from position `end` of a file on, where an image
 * ends. Sets reader->open_ended if `sniff` takes them for another image; else reader->foreign, unless they are blank. */
gconv_status gconv_reader_look_behind(gconv_reader *reader, uint64_t end, bool (*sniff)(const uint8_t *bytes, size_t size));
/* For formats of one image: `bytes` follow the image. Adds a note if they are another image; sets reader->foreign if they
 * are something else, unless they are blank. */
void gconv_reader_tell_of_rest(gconv_reader *reader, const uint8_t *bytes, size_t size);
/* Looks at what follows the image in its file. Called if pixels will be read. */
gconv_status gconv_reader_look(gconv_reader *reader);
/* For next(): *more says whether the source has another image next. If not, sets reader->foreign, unless what follows is
 * blank. */
gconv_status gconv_reader_look_for_next(gconv_reader *reader, bool (*sniff)(const uint8_t *bytes, size_t size), bool *more);
/* For next(): GCONV_BAD_FILE unless image `number`, from 1, has the shape of the first one. */
gconv_status gconv_reader_check_next(const gconv_reader *reader, int32_t number, const gconv_image *header);

/* Frees what the reader holds, the header with it, and zeroes it. */
void gconv_reader_close(gconv_reader *reader);

/* Sets *rest to a text, for gconv_release(), that names what open() knows and does not read; NULL: there is nothing. */
gconv_status gconv_reader_describe_rest(const gconv_reader *reader, char **rest);

/* Adds a text to the reader's note. gconv_reader_close() makes one warning of all texts. */
void gconv_reader_note(gconv_reader *reader, const char *format, ...) GCONV_PRINTF(2, 3);

/* For open(): the file has CMYK, which becomes RGB: sets header.cmyk, and adds a note. */
void gconv_reader_tell_of_cmyk(gconv_reader *reader);

/* For open(): records that metadata of this name are not read. A warning will name them, unless --strip was given. */
void gconv_reader_lose(gconv_reader *reader, const char *name);

/* For open(): returns whether `size` more bytes of metadata may be kept. If GCONV_MOST_METADATA forbids it, adds a note. */
bool gconv_reader_has_room(gconv_reader *reader, size_t size);
/* For open(): calls gconv_metadata_add_comment(), up to GCONV_MOST_COMMENTS. */
gconv_status gconv_reader_add_comment(gconv_reader *reader, const void *bytes, size_t size);

/* For open() of formats that are read as a whole: reads all bytes of the source into *bytes, for gconv_release(), and counts
 * them in reader->held. GCONV_TOO_LARGE if they are more than `limit`, or than source->max_bytes allows. */
gconv_status gconv_reader_read_all(gconv_reader *reader, size_t limit, uint8_t **bytes, size_t *size);

/* For open(): GCONV_BAD_FILE if the file is known to have fewer than `bytes` left. */
gconv_status gconv_reader_expect(const gconv_reader *reader, size_t bytes);

/* Reads all rows of an image to rows + i * row_bytes. */
typedef gconv_status gconv_read_all_rows(gconv_reader *reader, uint8_t *rows, size_t row_bytes);

/* For read_rows() of formats that cannot go by rows: calls read_all once. If all rows are wanted at once, it reads them
 * straight into `rows`; else into memory, from which this and later calls copy rows. */
gconv_status gconv_reader_whole(gconv_reader *reader, gconv_read_all_rows *read_all, void *rows, size_t row_bytes,
                                int32_t count);

/* ---- Details that formats share ---- */

/* Makes the state of a reader or writer: zeroed memory, freed after close() and end(). `what` is for the error text: "a
 * PNG". */
gconv_status gconv_format_state(size_t bytes, const char *what, void **state);

/* Returns the number of rows of all frames; of a planar image, of all planes. Only the header counts. */
int64_t gconv_image_row_count(const gconv_image *image);
/* Returns the bytes of all samples of one frame, with all its planes. */
double gconv_image_frame_bytes(const gconv_image *image);

/* Returns what is wrong with the ICC profile of `image`, or NULL. It must be for the colours of the image, grey or RGB. With
 * `whole`, it is also checked for damage. */
const char *gconv_icc_fault(const gconv_image *image, bool whole);

/* Finds damage without decoding, because the decoders of GPUs do not report it. Returns true if a JPEG file of one scan ends
 * with its end mark, and its coded data have no other marks than restarts. If the file announces restarts, their marks must
 * be in order. This does not find damage that changes codes but no marks, or files that were cut and got an end mark. */
bool gconv_jpeg_is_whole(const uint8_t *bytes, size_t size);

/* Finds the end mark of a JPEG file whose coded data begin at `at`. *end becomes the position after it; 0: there is
 * none. */
gconv_status gconv_jpeg_find_end(const gconv_source *source, uint64_t at, uint64_t *end);

/* Returns the bytes of all elements of a .npy file whose header was read. */
size_t gconv_npy_bytes(const gconv_reader *reader);
/* Does gconv_format.take_planes for arrays. */
void gconv_npy_take_planes(gconv_reader *reader, int32_t planes);

/* Reverses the bytes of each item, in place; item_bytes is 1, 2, 4 or 8. */
void gconv_swap_bytes(void *items, size_t count, size_t item_bytes);

/* SPDX-License-Identifier: MIT */
/* Reads and writes images by rows, from the top, so that they need not be in memory at once. A planar image has the rows of
 * all its planes, one plane after the other. */
#pragma once

#include "base/both.h"
#include "gconv.h"

GCONV_C_BEGIN

typedef struct gconv_row_reader gconv_row_reader;
typedef struct gconv_row_writer gconv_row_writer;

/* Returns whether MEMBER of PATH:MEMBER says what the samples of a file without a header are: "640x480x3:u16le". */
bool gconv_is_raw_member(const char *member);
/* Opens the image at `path`, PATH or PATH:MEMBER, and reads its header. */
gconv_status gconv_row_reader_open(const char *path, const gconv_read_options *options, gconv_row_reader **reader);
/* Returns the image without pixels, as the file has it, before EXIF orientation. Valid until the reader is closed. */
const gconv_image *gconv_row_reader_header(const gconv_row_reader *reader);
/* Returns whether rows can be read as the file has them, upright and in bounded memory. False for interlaced PNG, PFM, .npy
 * in Fortran order, and photos that EXIF rotates: gconv_image_read() reads them. */
bool gconv_row_reader_is_in_order(const gconv_row_reader *reader);
/* Returns whether the image, or the current frame, is stored turned or mirrored. */
bool gconv_row_reader_is_turned(const gconv_row_reader *reader);
/* Returns about how many bytes reading takes besides the rows: a progressive JPEG is decoded as a whole, and a photo that
 * EXIF rotates is copied. */
size_t gconv_row_reader_bytes(const gconv_row_reader *reader);
/* gconv_row_reader_held_bytes() returns how many bytes the reader holds from the beginning, with the metadata.
 * gconv_row_reader_metadata_bytes() returns how many of these are metadata; every result gets a copy of the metadata. */
size_t gconv_row_reader_held_bytes(const gconv_row_reader *reader);
size_t gconv_row_reader_metadata_bytes(const gconv_row_reader *reader);
/* Returns about the most bytes that opening `path` (PATH or PATH:MEMBER) may take, by the size of the file. 0 for a pipe,
 * whose size is not known. */
double gconv_row_reader_opening_bytes(const char *path);
/* From now on, one of these threads at a time reads the rows, or the caller in place of a thread. So everything that shares
 * the threads keeps at most as many processors busy as there are threads. Called before the first row. */
void gconv_row_reader_share(gconv_row_reader *reader, gconv_threads *threads);
/* Reads the next `count` rows to samples + i * row_bytes. GCONV_BAD_ARGUMENT unless `count` is 1 to the number of rows left.
 * After a failure to read, the reader can only be closed. */
gconv_status gconv_row_reader_read(gconv_row_reader *reader, void *samples, size_t row_bytes, int32_t count);
/* Reads the whole image, or all of the current frame, in place of rows, as gconv_image_read() yields it. Afterwards, only
 * the next frame can begin, or the reader be closed. *image is empty, or an earlier image. If that has the same shape,
 * its memory is used again: the system need not clear new pages, which takes 4 ms for 25 MB. */
gconv_status gconv_row_reader_image(gconv_row_reader *reader, gconv_image *image);
/* gconv_row_reader_has_frames() returns whether the file has several images, or may have. gconv_row_reader_is_open_ended()
 * returns whether their number is not known: they come from a pipe, or were not counted. */
bool gconv_row_reader_has_frames(const gconv_row_reader *reader);
bool gconv_row_reader_is_open_ended(const gconv_row_reader *reader);
/* Returns whether the images of the file have different shapes or orientations: then each is read by itself. */
bool gconv_row_reader_frames_differ(const gconv_row_reader *reader);
/* Returns whether all of the file must be read for its first frame, as frames do not lie one after the other. */
bool gconv_row_reader_is_scattered(const gconv_row_reader *reader);
/* Returns whether the path can be opened once more to read the rows again: not a pipe, nor a file of several images. */
bool gconv_row_reader_can_begin_again(const gconv_row_reader *reader);
/* Begins the first frame; after all rows of a frame, begins the next one. *found is false after the last. From now on, the
 * reader's header, rows and image are this frame's. Not for planar images. */
gconv_status gconv_row_reader_next_frame(gconv_row_reader *reader, bool *found);
/* Returns whether all rows of the current frame were read. */
bool gconv_row_reader_is_through(const gconv_row_reader *reader);
/* Says whether another frame follows the current one, whose rows were all read. At a pipe, waits for more bytes. */
gconv_status gconv_row_reader_more_frames(gconv_row_reader *reader, bool *more);
/* NULL is allowed. */
void gconv_row_reader_close(gconv_row_reader *reader);

/* Does gconv_image_read_header() for an image that will be read with these options. max_pixels is not checked. */
gconv_status gconv_image_read_header_as(const char *path, const gconv_read_options *options, gconv_image *image);

/* Fails if a value of the options is out of its range, even if the format does not use it. */
gconv_status gconv_write_options_check(const gconv_write_options *options);

/* Returns about how many bytes writing an image like `header` takes in proportion to the picture, besides its rows and some
 * strips. The options have a format. `in_parts`: the rows do not come all at once. */
double gconv_row_writer_bytes(const gconv_write_options *options, const gconv_image *header, bool in_parts, bool to_pipe);
/* Returns how many rows are best written at a time: multiples of this number, and the last rows of the image, are taken
 * without a copy and compressed by all threads. Any other number is right, too. */
int32_t gconv_row_writer_step(const gconv_row_writer *writer);
/* Writes the next `count` rows, from samples + i * row_bytes. GCONV_BAD_ARGUMENT unless 1 <= count <= rows missing. */
gconv_status gconv_row_writer_write(gconv_row_writer *writer, const void *samples, size_t row_bytes, int32_t count);
/* Returns whether rows may be written in any order, by gconv_row_writer_write_at(): rows of a planar image to a .npy file
 * that is no pipe. */
bool gconv_row_writer_is_free(const gconv_row_writer *writer);
/* Writes `count` rows of plane `plane` (of all frames) from `row` on. Every row must be written once, and none by
 * gconv_row_writer_write(). */
gconv_status gconv_row_writer_write_at(gconv_row_writer *writer, int64_t plane, int32_t row, const void *samples,
                                       size_t row_bytes, int32_t count);
/* Begins to write an image like `header`, as gconv_image_write() does. `path` must outlive the writer. If `grows`,
 * the header has two frames or more, and more may come by gconv_row_writer_add_frame(). */
gconv_status gconv_row_writer_open_growing(const char *path, const gconv_write_options *options, const gconv_image *header,
                                           bool grows, gconv_row_writer **writer);
/* Does the same for a known number of frames. */
static inline gconv_status gconv_row_writer_open(const char *path, const gconv_write_options *options,
                                                 const gconv_image *header, gconv_row_writer **writer) {
  return gconv_row_writer_open_growing(path, options, header, false, writer);
}
/* Returns whether files of several frames begin differently from files of one. */
bool gconv_format_minds_number(const gconv_format_info *format);
/* Begins another frame, of the shape of `like`. `counted`: the header that the writer was opened with has counted it.
 * GCONV_UNSUPPORTED if the format must know the number of frames before, or cannot hold frames of several shapes. */
gconv_status gconv_row_writer_add_frame(gconv_row_writer *writer, const gconv_image *like, bool counted);
/* Lets gconv_row_writer_commit() keep a file that it replaces, as PATH.orig: gconv_sink_back_up(). */
void gconv_row_writer_back_up(gconv_row_writer *writer);
/* Does gconv_image_write(), and keeps a file that it replaces in this way. */
gconv_status gconv_image_replace(const char *path, const gconv_write_options *options, const gconv_image *image);
/* Lets the file appear at another path of the same file system. Not for a file that is written through a pipe. */
gconv_status gconv_row_writer_rename(gconv_row_writer *writer, const char *path);
/* Both functions end the writer, and free it even after a failure. gconv_row_writer_commit() lets the file appear, if all
 * rows were written; gconv_row_writer_discard() lets nothing appear. */
gconv_status gconv_row_writer_commit(gconv_row_writer *writer);
void gconv_row_writer_discard(gconv_row_writer *writer); /* NULL is allowed */

GCONV_C_END

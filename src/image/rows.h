/* SPDX-License-Identifier: MIT */
/* Images by rows, from the top: for those that need not, or cannot, be in memory at once. The rows of a planar image are
 * those of all its planes, one after the other. */
#ifndef GCONV_IMAGE_ROWS_H
#define GCONV_IMAGE_ROWS_H

#include "base/both.h"
#include "gconv.h"

GCONV_C_BEGIN

typedef struct gconv_row_reader gconv_row_reader;
typedef struct gconv_row_writer gconv_row_writer;

/* Opens the image at `path`, PATH or PATH:MEMBER, and reads its header. */
gconv_status gconv_row_reader_open(const char *path, const gconv_read_options *options, gconv_row_reader **reader);
/* All but the pixels; as the file has it, before EXIF orientation. Valid until the reader is closed. */
const gconv_image *gconv_row_reader_header(const gconv_row_reader *reader);
/* Whether rows can be read as the file has them, upright and in bounded memory. False for interlaced PNG, PFM, .npy in
 * Fortran order, and photos that EXIF turns: those are for gconv_image_read(). */
bool gconv_row_reader_is_in_order(const gconv_row_reader *reader);
/* About how many bytes reading takes besides the rows: a progressive JPEG is decoded as a whole, and a photo that EXIF turns
 * is copied. */
size_t gconv_row_reader_bytes(const gconv_row_reader *reader);
/* How many of them it holds from the beginning; and the bytes of the image's metadata, which every result gets a copy of. */
size_t gconv_row_reader_held_bytes(const gconv_row_reader *reader);
size_t gconv_row_reader_metadata_bytes(const gconv_row_reader *reader);
/* About the most that opening `path` (PATH or PATH:MEMBER) may take, by the size of the file. 0 for a pipe, into which
 * nobody looks before it is read. */
double gconv_row_reader_opening_bytes(const char *path);
/* Before the first row: from now on, rows are read by one of these threads at a time, or by the caller in its place, so that
 * all who share them keep no more processors busy than there are threads. */
void gconv_row_reader_share(gconv_row_reader *reader, gconv_threads *threads);
/* Reads the next `count` rows to samples + i * row_bytes. GCONV_BAD_ARGUMENT unless it is 1 to what is left, and after a
 * failure to read, which leaves nothing but closing. */
gconv_status gconv_row_reader_read(gconv_row_reader *reader, void *samples, size_t row_bytes, int32_t count);
/* Instead of rows, the whole image, as gconv_image_read() yields it; nothing but closing is left then. *image is empty, or
 * the last one, whose memory serves again if the shape is the same: the system need not clear new pages then, 4 ms for 25
 * MB.
 */
gconv_status gconv_row_reader_image(gconv_row_reader *reader, gconv_image *image);
/* Whether the file has several images in one, or may have: a pipe whose images were not counted. */
bool gconv_row_reader_has_frames(const gconv_row_reader *reader);
bool gconv_row_reader_is_open_ended(const gconv_row_reader *reader);
/* Whether the images of the file have different shapes, or stand differently: then each is read by itself. */
bool gconv_row_reader_frames_differ(const gconv_row_reader *reader);
/* Whether the frames are not one behind the other, so that all must be read for the first. */
bool gconv_row_reader_is_scattered(const gconv_row_reader *reader);
/* Whether the same rows can be read again after opening the path once more: not from a pipe, or of one image of several. */
bool gconv_row_reader_can_begin_again(const gconv_row_reader *reader);
/* Begins the first frame, or, after all of its rows, the next one; *found is false after the last. Header, rows and image of
 * the reader are those of this frame alone from now on. Not for planar images. */
gconv_status gconv_row_reader_next_frame(gconv_row_reader *reader, bool *found);
/* Whether all rows of the frame at hand were read. */
bool gconv_row_reader_is_through(const gconv_row_reader *reader);
/* Whether another frame follows the one whose rows were all read. Waits for a pipe. */
gconv_status gconv_row_reader_more_frames(gconv_row_reader *reader, bool *more);
/* NULL is allowed. */
void gconv_row_reader_close(gconv_row_reader *reader);

/* gconv_image_read_header() of an image that is read with these options, of which max_pixels does not count here. */
gconv_status gconv_image_read_header_as(const char *path, const gconv_read_options *options, gconv_image *image);

/* Fails if a number of the options is out of its range, whatever is written. */
gconv_status gconv_write_options_check(const gconv_write_options *options);

/* Begins an image like `header`, whose profile must outlive the writer, as `path` must; otherwise as gconv_image_write(). */
gconv_status gconv_row_writer_open(const char *path, const gconv_write_options *options, const gconv_image *header,
                                   gconv_row_writer **writer);
/* About how many bytes writing an image like `header` takes in proportion to the picture, besides its rows and some strips.
 * The options have a format. `in_parts`: the rows do not come all at once. */
double gconv_row_writer_bytes(const gconv_write_options *options, const gconv_image *header, bool in_parts, bool to_pipe);
/* How many rows are best written at a time: multiples of this number, and the last rows of the image, are taken without a
 * copy and compressed by all threads. Any other number is right, too. */
int32_t gconv_row_writer_step(const gconv_row_writer *writer);
/* Writes the next `count` rows, from samples + i * row_bytes. GCONV_BAD_ARGUMENT unless it is 1 to what is missing. */
gconv_status gconv_row_writer_write(gconv_row_writer *writer, const void *samples, size_t row_bytes, int32_t count);
/* Whether rows may be written in any order, by gconv_row_writer_write_at(): those of planar images to a .npy file that is no
 * pipe. */
bool gconv_row_writer_is_free(const gconv_row_writer *writer);
/* Writes `count` rows of plane `plane` (of all frames) from `row` on. Every row must be written once, and none by
 * gconv_row_writer_write(). */
gconv_status gconv_row_writer_write_at(gconv_row_writer *writer, int64_t plane, int32_t row, const void *samples,
                                       size_t row_bytes, int32_t count);
/* gconv_row_writer_open() of a file that `grows`: the header has two frames or more, and others may be added to them. */
gconv_status gconv_row_writer_open_growing(const char *path, const gconv_write_options *options, const gconv_image *header,
                                           bool grows, gconv_row_writer **writer);
/* Whether a file of the format is begun otherwise if several frames come. */
bool gconv_format_minds_number(const gconv_format_info *format);
/* Begins another frame, of the shape of `like`, where their number was not known; `counted`: but for this one, which the
 * header had. GCONV_UNSUPPORTED if the format must know it, or cannot hold frames of several shapes. */
gconv_status gconv_row_writer_add_frame(gconv_row_writer *writer, const gconv_image *like, bool counted);
/* Lets the file appear at another path of the same file system, for which it must not be written through a pipe. */
gconv_status gconv_row_writer_rename(gconv_row_writer *writer, const char *path);
/* Ends the writer: the file appears, if all rows were written, or nothing does. Both free it, in success and failure. */
gconv_status gconv_row_writer_commit(gconv_row_writer *writer);
void gconv_row_writer_discard(gconv_row_writer *writer); /* NULL is allowed */

GCONV_C_END
#endif

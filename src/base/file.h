/* SPDX-License-Identifier: MIT */
/* Bytes in and out: sources that can be looked into before they are read, and sinks that replace a file whole or not at all.
 */
#ifndef GCONV_BASE_FILE_H
#define GCONV_BASE_FILE_H

#include "base/status.h"

/* ---- Sources ---- */

typedef struct gconv_source {
  const char *name; /* the path, or "standard input"; owned by the caller of gconv_source_open() */
  int file;
  uint8_t *buffer; /* bytes read ahead: buffer[begin .. end) */
  size_t begin, end;
  uint64_t position; /* bytes handed out so far */
  uint64_t size;     /* of a regular file; UINT64_MAX where it is not known */
} gconv_source;

/* Opens `path`; "-" is standard input. Folders are refused. The source is closed by gconv_source_close() in any case. */
gconv_status gconv_source_open(const char *path, gconv_source *source);
void gconv_source_close(gconv_source *source);

/* A source of bytes that are in memory and stay the caller's; it is not closed. `name` is for error texts. */
void gconv_source_of_bytes(const char *name, uint8_t *bytes, size_t size, gconv_source *source);

/* Makes up to `wanted` (at most 4096) next bytes visible at *bytes without handing them out; *got is smaller only at the
 * end. */
gconv_status gconv_source_peek(gconv_source *source, size_t wanted, const uint8_t **bytes, size_t *got);

/* Hands out up to `wanted` bytes; *got is smaller only at the end. Large reads (from 4096 bytes on) go straight into
 * `bytes`. */
gconv_status gconv_source_read(gconv_source *source, void *bytes, size_t wanted, size_t *got);

/* Hands out exactly `wanted` bytes; GCONV_BAD_FILE "...: the file ends too early, in <what>" if there are fewer. */
gconv_status gconv_source_read_exactly(gconv_source *source, void *bytes, size_t wanted, const char *what);

/* Goes to a position up to the end, back or ahead. False where that cannot be: on a pipe, or standard input. */
bool gconv_source_can_rewind(const gconv_source *source);
gconv_status gconv_source_rewind(gconv_source *source, uint64_t position);

/* Hands out what is buffered, reading more if nothing is; *got = 0 only at the end. Valid until the next call. */
gconv_status gconv_source_next(gconv_source *source, const uint8_t **bytes, size_t *got);

/* Reads all the rest, at most `limit` bytes (GCONV_TOO_LARGE), into memory for gconv_release(); a 0 byte is added behind. */
gconv_status gconv_source_read_all(gconv_source *source, size_t limit, uint8_t **bytes, size_t *size);

/* All bytes of the file, from its beginning, into memory for gconv_release(); the source stays where it is.
 * GCONV_UNSUPPORTED for what is no regular file. */
gconv_status gconv_source_copy(const gconv_source *source, uint8_t **bytes, size_t *size);

/* ---- Sinks ---- */

typedef struct gconv_sink gconv_sink;

/* Opens a file beside `path`, to become `path` at gconv_sink_commit(); "-" is standard output. Symbolic links are followed:
 * the file that they name is replaced. Something that is no regular file (/dev/null, a pipe) is written directly. The mode
 * is that of the file replaced, else 0666 without the umask. */
gconv_status gconv_sink_open(const char *path, gconv_sink **sink);

/* Buffered. After a failure the sink may only be discarded. */
gconv_status gconv_sink_write(gconv_sink *sink, const void *bytes, size_t size);

/* Bytes that gconv_sink_write() was given so far. */
uint64_t gconv_sink_position(const gconv_sink *sink);

/* Whether bytes can be written in any order: to a regular file, which does not appear before it is committed. */
bool gconv_sink_can_seek(const gconv_sink *sink);
/* Asks the disk for room for a file of `bytes`, so that a full one shows before all is written: GCONV_IO_ERROR. Nothing
 * where the file system cannot tell. */
gconv_status gconv_sink_reserve(gconv_sink *sink, uint64_t bytes);
/* Writes bytes where they shall be in the file. What is in no such piece, and was not written before, is 0. */
gconv_status gconv_sink_write_at(gconv_sink *sink, uint64_t position, const void *bytes, size_t size);

/* Writes the rest, closes, and renames. With keep_existing, GCONV_EXISTS if there is a file of that name by now. The sink is
 * gone, whatever the outcome; on failure the file at `path` is as it was before. */
gconv_status gconv_sink_commit(gconv_sink *sink, bool keep_existing);

/* Drops what was written; NULL is allowed. */
void gconv_sink_discard(gconv_sink *sink);

/* "<folder>/.<name>.gconv-", for free(): what is written to become `path` is called so, with GCONV_TEMPORARY_LETTERS letters
 * and digits behind it. NULL without memory. */
char *gconv_temporary_beginning(const char *path);
enum { GCONV_TEMPORARY_LETTERS = 6 };

#endif

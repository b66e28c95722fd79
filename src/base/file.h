/* SPDX-License-Identifier: MIT */
/* Bytes in and out. A source can be inspected before it is read. A sink replaces a file completely or not at all. */
#pragma once

#include "base/status.h"

/* ---- Sources ---- */

typedef struct gconv_source {
  const char *name;   /* the path, or "standard input"; owned by the caller of gconv_source_open() */
  const char *member; /* the MEMBER of PATH:MEMBER, a part of `name`; NULL: none was named */
  int file;
  uint8_t *buffer; /* bytes read ahead: buffer[begin .. end) */
  size_t begin, end;
  uint64_t position;  /* bytes handed out so far */
  uint64_t size;      /* of a regular file; UINT64_MAX where it is not known */
  uint64_t max_bytes; /* that may be taken into memory as a whole, where a format needs that; 0: any number */
  /* Of gconv_source_of_function(). */
  gconv_status (*fill)(void *state, void *bytes, size_t size, size_t *got);
  void (*finish)(void *state);
  void *state;
} gconv_source;

/* Opens `path`; "-" is standard input. Folders are refused. The source is closed by gconv_source_close() in any case. */
gconv_status gconv_source_open(const char *path, gconv_source *source);
void gconv_source_close(gconv_source *source);

/* The length of PATH in PATH:MEMBER, which ends at the first ':' after the name of a file, or after "-". It is all of
 * `spec` if that names a file or folder itself, or if there is no such ':'. */
size_t gconv_member_split(const char *spec);

/* As gconv_source_open(), of PATH or PATH:MEMBER. */
gconv_status gconv_source_open_member(const char *spec, gconv_source *source);

/* As gconv_source_open(). A file that gzip compressed is read as what it holds. */
gconv_status gconv_source_open_unzipped(const char *path, gconv_source *source);

/* A source of bytes that are in memory and stay the caller's; it is not closed. `name` is for error texts. */
void gconv_source_of_bytes(const char *name, uint8_t *bytes, size_t size, gconv_source *source);

/* A source of bytes that fill() yields: up to `size` of them, and *got = 0 only at the end. gconv_source_close() calls
 * finish(), which frees the state, and is needed in any case. */
gconv_status gconv_source_of_function(const char *name,
                                      gconv_status (*fill)(void *state, void *bytes, size_t size, size_t *got),
                                      void (*finish)(void *state), void *state, gconv_source *source);

/* Shows up to `wanted` (at most 4096) next bytes at *bytes without consuming them. *got is smaller only at the end. */
gconv_status gconv_source_peek(gconv_source *source, size_t wanted, const uint8_t **bytes, size_t *got);

/* Reads up to `wanted` bytes. *got is smaller only at the end. Large reads (from 4096 bytes on) go directly into `bytes`. */
gconv_status gconv_source_read(gconv_source *source, void *bytes, size_t wanted, size_t *got);

/* Reads what is there, 1 to `wanted` bytes, and waits only if there is nothing. *got = 0 only at the end. */
gconv_status gconv_source_read_some(gconv_source *source, void *bytes, size_t wanted, size_t *got);

/* Waits until that does not have to wait, for `milliseconds` at most. Returns whether it came to that. True for sources
 * that cannot tell, such as those of what gzip compressed. */
bool gconv_source_wait(const gconv_source *source, int milliseconds);

/* Reads exactly `wanted` bytes. If there are fewer: GCONV_BAD_FILE "...: the file ends too early, in <what>". */
gconv_status gconv_source_read_exactly(gconv_source *source, void *bytes, size_t wanted, const char *what);

/* Moves to a position up to the end, back or ahead. Returns false on a pipe or standard input, which cannot move. */
bool gconv_source_can_rewind(const gconv_source *source);
gconv_status gconv_source_rewind(gconv_source *source, uint64_t position);

/* Passes over `count` bytes. GCONV_BAD_FILE if there are fewer. */
gconv_status gconv_source_skip(gconv_source *source, uint64_t count);
/* Reads up to `wanted` bytes at a position, of a source that can go back. *got is smaller only at the end. The position of
 * the source does not change. Several threads may call it at the same time. */
gconv_status gconv_source_read_at(const gconv_source *source, uint64_t position, void *bytes, size_t wanted, size_t *got);

/* Returns the buffered bytes, and reads more if there are none. *got = 0 only at the end. Valid until the next call. */
gconv_status gconv_source_next(gconv_source *source, const uint8_t **bytes, size_t *got);

/* Reads the rest of the source into memory for gconv_release(), followed by a 0 byte. GCONV_TOO_LARGE above `limit` bytes.
 */
gconv_status gconv_source_read_all(gconv_source *source, size_t limit, uint8_t **bytes, size_t *size);

/* Reads all bytes of the file, from its beginning, into memory for gconv_release(). The position of the source does not
 * change. GCONV_UNSUPPORTED if it is not a regular file. */
gconv_status gconv_source_copy(const gconv_source *source, uint8_t **bytes, size_t *size);

/* ---- Sinks ---- */

/* How many files this process may have open at a time (ulimit -n), without those that any process needs. At least 1. */
int32_t gconv_files_allowed(void);

typedef struct gconv_sink gconv_sink;

/* Opens a temporary file beside `path`, which gconv_sink_commit() renames to `path`. "-" is standard output. Symbolic links
 * are followed: the file that they name is replaced. If `path` exists and is not a regular file (/dev/null, a pipe), it is
 * written directly. The mode is that of the replaced file, but for its set-user-ID, set-group-ID and sticky bits; that of a
 * new file is 0666 without the umask. The temporary file is locked (flock) as long as it exists under its own name. */
gconv_status gconv_sink_open(const char *path, gconv_sink **sink);

/* Writes with a buffer. After a failure, only gconv_sink_discard() may be called. */
gconv_status gconv_sink_write(gconv_sink *sink, const void *bytes, size_t size);

/* Writes text of any length, as printf() makes it. */
gconv_status gconv_sink_print(gconv_sink *sink, const char *format, ...) GCONV_PRINTF(2, 3);

/* Writes what is in the buffer, for a reader of a pipe that waits for it. */
gconv_status gconv_sink_flush(gconv_sink *sink);

/* Returns the number of bytes given to gconv_sink_write() so far. */
uint64_t gconv_sink_position(const gconv_sink *sink);

/* Returns whether bytes can be written in any order. That needs a regular file that does not appear before it is committed.
 */
bool gconv_sink_can_seek(const gconv_sink *sink);
/* Asks the file system for space for a file of `bytes`, so that a full disk fails early, with GCONV_IO_ERROR. Does nothing
 * if the file system cannot tell. */
gconv_status gconv_sink_reserve(gconv_sink *sink, uint64_t bytes);
/* Writes bytes at a position of the file. Bytes that are never written are 0. */
gconv_status gconv_sink_write_at(gconv_sink *sink, uint64_t position, const void *bytes, size_t size);

/* Lets gconv_sink_commit() rename the file to another path, of the same file system. For sinks that can seek. */
gconv_status gconv_sink_rename(gconv_sink *sink, const char *path);
/* Reads back `size` bytes that were written at a position. */
gconv_status gconv_sink_read_at(gconv_sink *sink, uint64_t position, void *bytes, size_t size);

/* Writes the rest, closes, and renames. With keep_existing, GCONV_EXISTS if a file of that name exists by now. The sink is
 * freed in any case. After a failure, the file at `path` is as it was before. */
gconv_status gconv_sink_commit(gconv_sink *sink, bool keep_existing);

/* The end of a file that was written by steps: commits it if `status`, theirs, is GCONV_OK, and discards it otherwise.
 * Returns the failure, if there is one. */
gconv_status gconv_sink_end(gconv_sink *sink, gconv_status status);

/* Writes a file of these bytes, whole or not at all. */
gconv_status gconv_file_write(const char *path, const void *bytes, size_t size);

/* Drops what was written, and frees the sink. NULL is allowed. */
void gconv_sink_discard(gconv_sink *sink);

/* Returns "<folder>/.<name>.gconv-", for free(). The temporary file for `path` has this name and GCONV_TEMPORARY_LETTERS
 * letters and digits after it. NULL without memory. */
char *gconv_temporary_beginning(const char *path);
enum { GCONV_TEMPORARY_LETTERS = 6 };

/* Removes what processes that are gone left of files that were to become paths[0 .. count). Files of a process that is still
 * at work are locked, and stay. Of each folder, `most` entries are looked at. *removed counts. GCONV_NO_MEMORY; a folder
 * that cannot be read or written is passed over. */
gconv_status gconv_remove_leftovers(char *const *paths, size_t count, size_t most, size_t *removed);

/* From now on, writing to a pipe without a reader ends the process by SIGPIPE, unless it ignores that, as it ends other
 * programs. By default it is a failure. */
void gconv_end_process_when_unread(void);

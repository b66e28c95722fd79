/* SPDX-License-Identifier: MIT */
/* Reads and writes bytes. A source can be inspected before it is read. A sink replaces a file completely or not at all. */
#pragma once

#include "base/status.h"

/* ---- Sources ---- */

typedef struct gconv_source {
  const char *name;   /* the path, or "standard input"; owned by the caller of gconv_source_open() */
  const char *member; /* MEMBER of PATH:MEMBER, which is a part of `name`; NULL: none was named */
  int file;
  uint8_t *buffer; /* bytes read ahead: buffer[begin .. end) */
  size_t begin, end;
  uint64_t position;  /* bytes handed out so far */
  uint64_t size;      /* bytes of a regular file; UINT64_MAX: not known */
  uint64_t max_bytes; /* the most bytes that may be read into memory at once, if a format needs all of them; 0: no limit */
  /* For gconv_source_of_function(). */
  gconv_status (*fill)(void *state, void *bytes, size_t size, size_t *got);
  void (*finish)(void *state);
  void *state;
} gconv_source;

/* Opens `path`; "-" is standard input. Folders are refused. Call gconv_source_close(), on failure too. */
gconv_status gconv_source_open(const char *path, gconv_source *source);
void gconv_source_close(gconv_source *source);

/* Returns the length of PATH in PATH:MEMBER. PATH ends at the first ':' that follows the name of a file, or "-". If `spec`
 * itself names a file or folder, or has no such ':', PATH is all of it. */
size_t gconv_member_split(const char *spec);

/* Does what gconv_source_open() does, for PATH or PATH:MEMBER. */
gconv_status gconv_source_open_member(const char *spec, gconv_source *source);

/* Opens `path`, as gconv_source_open() does. If gzip compressed the file, the source has the decompressed bytes. */
gconv_status gconv_source_open_unzipped(const char *path, gconv_source *source);

/* Makes a source of bytes in memory, which the caller keeps. It is not closed. `name` is for error texts. */
void gconv_source_of_bytes(const char *name, uint8_t *bytes, size_t size, gconv_source *source);

/* Makes a source of the bytes that fill() yields: up to `size` bytes at a time, and *got = 0 only at the end. Call
 * gconv_source_close(), on failure too; it calls finish(), which frees the state. */
gconv_status gconv_source_of_function(const char *name,
                                      gconv_status (*fill)(void *state, void *bytes, size_t size, size_t *got),
                                      void (*finish)(void *state), void *state, gconv_source *source);

/* Sets *bytes to the next bytes, without consuming them: up to `wanted`, which is at most 4096. *got is smaller only at the
 * end. */
gconv_status gconv_source_peek(gconv_source *source, size_t wanted, const uint8_t **bytes, size_t *got);

/* Reads up to `wanted` bytes. *got is smaller only at the end. Large reads (from 4096 bytes on) go directly into `bytes`. */
gconv_status gconv_source_read(gconv_source *source, void *bytes, size_t wanted, size_t *got);

/* Reads the bytes that are there, 1 to `wanted`. Waits only if there are none. *got = 0 only at the end. */
gconv_status gconv_source_read_some(gconv_source *source, void *bytes, size_t wanted, size_t *got);

/* Waits until bytes can be read, for `milliseconds` at most. Returns false if the time ran out first. Returns true for
 * sources that cannot know, such as compressed files. */
bool gconv_source_wait(const gconv_source *source, int milliseconds);

/* Reads exactly `wanted` bytes. If there are fewer, fails with GCONV_BAD_FILE "...: the file ends too early, in <what>". */
gconv_status gconv_source_read_exactly(gconv_source *source, void *bytes, size_t wanted, const char *what);

/* gconv_source_rewind() moves to a position up to the end, back or ahead. gconv_source_can_rewind() returns whether the
 * source can move: a pipe and standard input cannot. */
bool gconv_source_can_rewind(const gconv_source *source);
gconv_status gconv_source_rewind(gconv_source *source, uint64_t position);

/* Skips `count` bytes. Fails with GCONV_BAD_FILE if there are fewer. */
gconv_status gconv_source_skip(gconv_source *source, uint64_t count);
/* Reads up to `wanted` bytes at a position, from a source that can move. *got is smaller only at the end. The position of
 * the source does not change. Several threads may call it at the same time. */
gconv_status gconv_source_read_at(const gconv_source *source, uint64_t position, void *bytes, size_t wanted, size_t *got);

/* Returns the buffered bytes, and reads more if there are none. *got = 0 only at the end. Valid until the next call. */
gconv_status gconv_source_next(gconv_source *source, const uint8_t **bytes, size_t *got);

/* Reads the rest of the source into memory, followed by a 0 byte; free it with gconv_release(). Fails with GCONV_TOO_LARGE
 * above `limit` bytes. */
gconv_status gconv_source_read_all(gconv_source *source, size_t limit, uint8_t **bytes, size_t *size);

/* Reads all bytes of the file, from its beginning, into memory; free it with gconv_release(). The position of the source
 * does not change. Fails with GCONV_UNSUPPORTED if it is not a regular file. */
gconv_status gconv_source_copy(const gconv_source *source, uint8_t **bytes, size_t *size);

/* ---- Sinks ---- */

/* Returns how many files this process may open at a time (ulimit -n), without those that all processes have open; at
 * least 1. */
int32_t gconv_files_allowed(void);

typedef struct gconv_sink gconv_sink;

/* Opens a temporary file beside `path`, which gconv_sink_commit() renames to `path`. "-" is standard output. Symbolic links
 * are followed: the file that they name is replaced. If `path` exists and is not a regular file (/dev/null, a pipe), it is
 * written directly. The file gets the mode of the replaced file, without set-user-ID, set-group-ID and sticky bits. A new
 * file gets 0666 without the umask. The temporary file is locked (flock) as long as it has its temporary name. */
gconv_status gconv_sink_open(const char *path, gconv_sink **sink);

/* Writes with a buffer. After a failure, only gconv_sink_discard() may be called. */
gconv_status gconv_sink_write(gconv_sink *sink, const void *bytes, size_t size);

/* Writes text of any length, as printf() makes it. */
gconv_status gconv_sink_print(gconv_sink *sink, const char *format, ...) GCONV_PRINTF(2, 3);

/* Writes the bytes in the buffer, for a reader of a pipe that waits for them. */
gconv_status gconv_sink_flush(gconv_sink *sink);

/* Returns the number of bytes given to gconv_sink_write() so far. */
uint64_t gconv_sink_position(const gconv_sink *sink);

/* Returns whether bytes can be written in any order: the sink must be a regular file that does not appear before it is
 * committed. */
bool gconv_sink_can_seek(const gconv_sink *sink);
/* Asks the file system for space for a file of `bytes` bytes. So if the disk is full, it fails early, with GCONV_IO_ERROR.
 * Does nothing on file systems that cannot reserve space. */
gconv_status gconv_sink_reserve(gconv_sink *sink, uint64_t bytes);
/* Writes bytes at a position of the file. Bytes that are never written are 0. */
gconv_status gconv_sink_write_at(gconv_sink *sink, uint64_t position, const void *bytes, size_t size);

/* Lets gconv_sink_commit() rename the file to another path on the same file system. For sinks that can seek. */
gconv_status gconv_sink_rename(gconv_sink *sink, const char *path);
/* Reads back `size` bytes that were written at a position. */
gconv_status gconv_sink_read_at(gconv_sink *sink, uint64_t position, void *bytes, size_t size);

/* Writes the rest, closes the file, and renames it. With keep_existing, fails with GCONV_EXISTS if a file of that name
 * exists by now. Frees the sink, on failure too. After a failure, the file at `path` is as it was before. */
gconv_status gconv_sink_commit(gconv_sink *sink, bool keep_existing);

/* Lets gconv_sink_commit() keep a file that it replaces under the name PATH.orig, and fail with GCONV_EXISTS if there is an
 * older file of this name. */
void gconv_sink_back_up(gconv_sink *sink);

/* Fails with GCONV_EXISTS if there is an older file PATH.orig. (Not if that is `path` itself by a second name, as a run that
 * was killed leaves it.) */
gconv_status gconv_backup_check(const char *path);
/* Renames `result` to `path`. A file that was there is then PATH.orig. After a failure, it is at `path` as before. On a file
 * system without links, there is PATH.orig alone for a moment. */
gconv_status gconv_backup_replace(const char *path, const char *result);

/* Ends a file that was written in several steps: commits it if `status`, the outcome of these steps, is GCONV_OK, and
 * discards it otherwise. Returns the failure, if there is one. */
gconv_status gconv_sink_end(gconv_sink *sink, gconv_status status);

/* Writes a file of these bytes, completely or not at all. */
gconv_status gconv_file_write(const char *path, const void *bytes, size_t size);

/* Drops the written bytes, and frees the sink. NULL is allowed. */
void gconv_sink_discard(gconv_sink *sink);

/* Returns "<folder>/.<name>.gconv-", with which the name of the temporary file for `path` begins. GCONV_TEMPORARY_LETTERS
 * letters and digits follow there. Release it with free(). Returns NULL without memory. */
char *gconv_temporary_beginning(const char *path);
enum { GCONV_TEMPORARY_LETTERS = 6 };

/* The folder of temporary files: $TMPDIR, /var/tmp, or /tmp. */
const char *gconv_temporary_folder(void);
/* Opens a file without a name in that folder, which disappears when it is closed. Returns its descriptor; -1 with errno if
 * the file cannot be made. */
int gconv_open_unnamed(void);

/* Removes temporary files for paths[0 .. count) that dead processes have left. Files of a running process are locked, and
 * stay. Looks at `most` entries of each folder. Sets *removed to how many files it removed. Skips folders that it cannot
 * read or write. May fail with GCONV_NO_MEMORY. */
gconv_status gconv_remove_leftovers(char *const *paths, size_t count, size_t most, size_t *removed);

/* From now on, writing to a pipe without a reader ends the process by SIGPIPE, as in other programs, unless the process
 * ignores this signal. By default, such a write is a failure. */
void gconv_end_process_when_unread(void);

/* SPDX-License-Identifier: MIT */
/* Reads inputs: files and standard input, which can be inspected before they are read. */
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 65536, PEEK_BYTES = 4096, SMALL_BYTES = 4096 };
enum { MOST_NEXT = 1 << 30 }; /* bytes that gconv_source_next() returns at a time: zlib counts in 32 bits */
enum { LENT = -2 };           /* `file` of a source of bytes, whose buffer belongs to the caller and has all bytes */

/* Returns whether gconv_source_of_bytes() made the source. The buffer of such a source is never written. */
static bool is_of_bytes(const gconv_source *source) {
  return source->file == LENT;
}

gconv_status gconv_source_open(const char *path, gconv_source *source) {
  bool standard = strcmp(path, "-") == 0;
  *source = (gconv_source){.name = standard ? "standard input" : path, .file = -1, .size = UINT64_MAX};
  source->file = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (source->file < 0)
    return gconv_fail(GCONV_IO_ERROR, "%s: cannot open: %s", path, strerror(errno));
  struct stat status;
  if (fstat(source->file, &status) == 0) {
    if (S_ISDIR(status.st_mode))
      return gconv_fail(GCONV_IO_ERROR, "%s: is a folder, not a file", source->name);
    if (S_ISREG(status.st_mode) && !standard)
      source->size = (uint64_t)status.st_size;
  }
  GCONV_ALLOCATE(source->buffer, BUFFER_BYTES, "a read buffer");
  return GCONV_OK;
}

/* Returns whether the first `length` characters name a file, or standard input. */
static bool is_file(const char *spec, size_t length) {
  struct stat status;
  if (length == 1 && spec[0] == '-')
    return true;
  GCONV_FREED char *path = strndup(spec, length);
  return path && stat(path, &status) == 0 && !S_ISDIR(status.st_mode);
}

size_t gconv_member_split(const char *spec) {
  struct stat status;
  size_t whole = strlen(spec);
  if (stat(spec, &status) == 0)
    return whole;
  for (size_t length = strcspn(spec, ":"); length < whole; length += 1 + strcspn(spec + length + 1, ":"))
    if (is_file(spec, length))
      return length;
  return whole;
}

gconv_status gconv_source_open_member(const char *spec, gconv_source *source) {
  size_t length = gconv_member_split(spec);
  GCONV_FREED char *path = strndup(spec, length);
  *source = (gconv_source){.name = spec, .file = -1};
  GCONV_NEED_MEMORY(path, "no memory for a file name");
  gconv_status status = gconv_source_open(path, source);
  if (strcmp(path, "-") != 0 || spec[length] != '\0')
    source->name = spec;
  source->member = spec[length] == ':' ? spec + length + 1 : NULL;
  return status;
}

void gconv_source_close(gconv_source *source) {
  if (!is_of_bytes(source))
    gconv_release(source->buffer);
  if (source->file > STDIN_FILENO)
    close(source->file);
  if (source->finish)
    source->finish(source->state);
  *source = (gconv_source){.file = -1};
}

void gconv_source_of_bytes(const char *name, uint8_t *bytes, size_t size, gconv_source *source) {
  *source = (gconv_source){.name = name, .file = LENT, .buffer = bytes, .end = size, .size = size};
}

gconv_status gconv_source_of_function(const char *name,
                                      gconv_status (*fill)(void *state, void *bytes, size_t size, size_t *got),
                                      void (*finish)(void *state), void *state, gconv_source *source) {
  *source = (gconv_source){.name = name, .file = -1, .size = UINT64_MAX, .fill = fill, .finish = finish, .state = state};
  GCONV_ALLOCATE(source->buffer, BUFFER_BYTES, "a read buffer");
  return GCONV_OK; /* on failure, too, gconv_source_close() calls finish() */
}

/* Calls read(2), or fill(), once. Calls read(2) again if a signal interrupted it. *got = 0 at the end. */
static gconv_status read_some(gconv_source *source, void *bytes, size_t size, size_t *got) {
  ssize_t count;
  *got = 0;
  if (is_of_bytes(source))
    return GCONV_OK;
  if (source->fill)
    return source->fill(source->state, bytes, size, got);
  do
    count = read(source->file, bytes, size < SSIZE_MAX ? size : SSIZE_MAX);
  while (count < 0 && errno == EINTR);
  if (count < 0)
    return gconv_fail(GCONV_IO_ERROR, "%s: cannot read: %s", source->name, strerror(errno));
  *got = (size_t)count;
  return GCONV_OK;
}

/* Takes up to `wanted` bytes from the buffer. */
static size_t take(gconv_source *source, void *bytes, size_t wanted) {
  size_t ready = source->end - source->begin, taken = wanted < ready ? wanted : ready;
  if (taken > 0)
    memcpy(bytes, source->buffer + source->begin, taken);
  source->begin += taken;
  source->position += taken;
  return taken;
}

gconv_status gconv_source_peek(gconv_source *source, size_t wanted, const uint8_t **bytes, size_t *got) {
  if (wanted > PEEK_BYTES)
    wanted = PEEK_BYTES;
  if (!is_of_bytes(source) && source->begin > BUFFER_BYTES - PEEK_BYTES) {
    memmove(source->buffer, source->buffer + source->begin, source->end - source->begin);
    source->end -= source->begin;
    source->begin = 0;
  }
  size_t count = 1;
  while (source->end - source->begin < wanted && count > 0) {
    GCONV_TRY(read_some(source, source->buffer + source->end, BUFFER_BYTES - source->end, &count));
    source->end += count;
  }
  size_t ready = source->end - source->begin;
  *bytes = source->buffer + source->begin;
  *got = wanted < ready ? wanted : ready;
  return GCONV_OK;
}

/* Fills the buffer, which is empty. *got = 0 at the end. */
static gconv_status refill(gconv_source *source, size_t *got) {
  *got = 0;
  if (is_of_bytes(source))
    return GCONV_OK;
  source->begin = source->end = 0;
  GCONV_TRY(read_some(source, source->buffer, BUFFER_BYTES, &source->end));
  *got = source->end;
  return GCONV_OK;
}

gconv_status gconv_source_read(gconv_source *source, void *bytes, size_t wanted, size_t *got) {
  size_t done = take(source, bytes, wanted), count = 1;
  while (done < wanted && count > 0) {
    uint8_t *to = (uint8_t *)bytes + done;
    if (wanted - done < SMALL_BYTES) {
      GCONV_TRY(refill(source, &count));
      done += take(source, to, wanted - done);
      continue;
    }
    if (!is_of_bytes(source)) /* the buffer is empty, and no longer has the bytes before the position */
      source->begin = source->end = 0;
    GCONV_TRY(read_some(source, to, wanted - done, &count));
    done += count;
    source->position += count;
  }
  *got = done;
  return GCONV_OK;
}

gconv_status gconv_source_read_some(gconv_source *source, void *bytes, size_t wanted, size_t *got) {
  if (source->begin == source->end && wanted < SMALL_BYTES)
    GCONV_TRY(refill(source, got));
  *got = take(source, bytes, wanted);
  if (*got > 0 || wanted < SMALL_BYTES || is_of_bytes(source))
    return GCONV_OK;
  source->begin = source->end = 0;
  GCONV_TRY(read_some(source, bytes, wanted, got));
  source->position += *got;
  return GCONV_OK;
}

bool gconv_source_wait(const gconv_source *source, int milliseconds) {
  struct pollfd file = {.fd = source->file, .events = POLLIN};
  if (source->begin < source->end || source->file < 0)
    return true;
  return poll(&file, 1, milliseconds) != 0; /* if it failed, reading reports why */
}

gconv_status gconv_source_read_exactly(gconv_source *source, void *bytes, size_t wanted, const char *what) {
  size_t got = 0;
  GCONV_TRY(gconv_source_read(source, bytes, wanted, &got));
  if (got < wanted)
    return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early, in %s", source->name, what);
  return GCONV_OK;
}

bool gconv_source_can_rewind(const gconv_source *source) {
  return source->size != UINT64_MAX;
}

gconv_status gconv_source_rewind(gconv_source *source, uint64_t position) {
  uint64_t ahead = position - source->position; /* negative numbers wrap around to huge ones */
  uint64_t back = source->position - position;
  if (is_of_bytes(source)) {
    source->begin = (size_t)position;
  } else if (position >= source->position && ahead <= source->end - source->begin) {
    source->begin += (size_t)ahead;
  } else if (position < source->position && back <= source->begin) {
    source->begin -= (size_t)back;
  } else {
    if (lseek(source->file, (off_t)position, SEEK_SET) < 0)
      return gconv_fail(GCONV_IO_ERROR, "%s: cannot read again: %s", source->name, strerror(errno));
    source->begin = source->end = 0;
  }
  source->position = position;
  return GCONV_OK;
}

gconv_status gconv_source_skip(gconv_source *source, uint64_t count) {
  uint8_t passed[SMALL_BYTES];
  if (gconv_source_can_rewind(source) && count <= source->size - source->position)
    return gconv_source_rewind(source, source->position + count);
  for (size_t some; count > 0; count -= some) {
    some = count < sizeof passed ? (size_t)count : sizeof passed;
    GCONV_TRY(gconv_source_read_exactly(source, passed, some, "the bytes to skip"));
  }
  return GCONV_OK;
}

gconv_status gconv_source_read_at(const gconv_source *source, uint64_t position, void *bytes, size_t wanted, size_t *got) {
  *got = 0;
  if (is_of_bytes(source)) {
    *got = position < source->end ? (size_t)(source->end - position) : 0;
    *got = wanted < *got ? wanted : *got;
    if (*got > 0)
      memcpy(bytes, source->buffer + position, *got);
    return GCONV_OK;
  }
  ssize_t count = 1;
  while (*got < wanted && count != 0 && position + *got <= INT64_MAX) {
    size_t most = wanted - *got < SSIZE_MAX ? wanted - *got : SSIZE_MAX;
    count = pread(source->file, (uint8_t *)bytes + *got, most, (off_t)(position + *got));
    if (count < 0 && errno != EINTR)
      return gconv_fail(GCONV_IO_ERROR, "%s: cannot read: %s", source->name, strerror(errno));
    *got += count > 0 ? (size_t)count : 0;
  }
  return GCONV_OK;
}

gconv_status gconv_source_next(gconv_source *source, const uint8_t **bytes, size_t *got) {
  if (source->begin == source->end)
    GCONV_TRY(refill(source, got));
  *bytes = source->buffer + source->begin;
  *got = source->end - source->begin < MOST_NEXT ? source->end - source->begin : MOST_NEXT;
  source->position += *got;
  source->begin += *got;
  return GCONV_OK;
}

gconv_status gconv_source_read_all(gconv_source *source, size_t limit, uint8_t **bytes, size_t *size) {
  size_t capacity = source->size < limit ? (size_t)source->size : BUFFER_BYTES, used = 0;
  GCONV_FREED uint8_t *memory = NULL;
  for (;;) {
    uint8_t *larger;
    GCONV_ALLOCATE(larger, capacity + 1, "the contents of a file");
    if (used > 0)
      memcpy(larger, memory, used);
    gconv_release(memory);
    memory = larger;
    size_t got = 0;
    GCONV_TRY(gconv_source_read(source, memory + used, capacity + 1 - used, &got));
    used += got;
    if (used > limit)
      return gconv_fail(GCONV_TOO_LARGE, "%s: larger than the %zu bytes allowed here", source->name, limit);
    if (used <= capacity)
      break;
    capacity = gconv_room(capacity + 1) < limit ? gconv_room(capacity + 1) : limit;
  }
  memory[used] = 0;
  *bytes = gconv_taken(&memory);
  *size = used;
  return GCONV_OK;
}

gconv_status gconv_source_copy(const gconv_source *source, uint8_t **bytes, size_t *size) {
  if ((source->file < 0 && !is_of_bytes(source)) || source->size > PTRDIFF_MAX)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: is not a regular file", source->name);
  GCONV_ENDED_BY(gconv_source_close) gconv_source again = {.file = -1}; /* the position of `source` stays */
  if (is_of_bytes(source))
    gconv_source_of_bytes(source->name, source->buffer, source->end, &again);
  else
    GCONV_TRY(gconv_source_open_member(source->name, &again));
  return gconv_source_read_all(&again, PTRDIFF_MAX, bytes, size);
}

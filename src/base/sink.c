/* SPDX-License-Identifier: MIT */
/* Writes outputs: each to a file beside its target, which is renamed when it is complete, or to bytes of a caller. */
#include "base/bytes.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 262144, UNFINISHED_SLOTS = 4096, MOST_TRIES = 100 };

struct gconv_sink {
  char *path;      /* the final path, with links resolved; "-" for standard output */
  char *temporary; /* the file that is written; NULL: `path` itself is written */
  int slot;        /* its index in `unfinished`, or -1 */
  int file;
  gconv_bytes_out *out; /* it gets the bytes; NULL: a file gets them */
  bool replaces;        /* it replaces a file, whose mode it gets */
  bool backs_up;        /* a file that it replaces is kept */
  mode_t mode;
  uint64_t position; /* bytes given to gconv_sink_write() so far */
  size_t used;       /* how many of them are still in the buffer */
  uint8_t *buffer;   /* NULL: a write to memory needs none */
};

/* The temporary names of all open sinks, for a signal handler, which may run at any moment. So each slot is one atomic
 * pointer. After `ending` is set, names are no longer freed. */
static _Atomic(const char *) unfinished[UNFINISHED_SLOTS];
static atomic_int creating; /* threads that may have made a file that is not in `unfinished` yet */
static atomic_bool ending;  /* no more files may be made */

void gconv_remove_unfinished(void) {
  atomic_store(&ending, true);
  for (int i = 0; i < 1000 && atomic_load(&creating) > 0; i++) /* wait at most a second, in case a file system hangs */
    poll(NULL, 0, 1);
  for (int i = 0; i < UNFINISHED_SLOTS; i++) {
    const char *name = atomic_load(&unfinished[i]);
    if (name)
      unlink(name);
  }
}

static int remember_unfinished(const char *name) {
  for (int i = 0; i < UNFINISHED_SLOTS; i++) {
    const char *empty = NULL;
    if (atomic_compare_exchange_strong(&unfinished[i], &empty, name))
      return i;
  }
  return -1;
}

static void free_sink(gconv_sink *sink) {
  if (sink->slot >= 0) {
    atomic_store(&unfinished[sink->slot], NULL);
    if (atomic_load(&ending)) { /* after the slot was emptied: the handler may have read it before */
      atomic_store(&unfinished[sink->slot], sink->temporary);
      sink->temporary = NULL;
    }
  }
  if (sink->file > STDERR_FILENO)
    close(sink->file);
  gconv_release(sink->buffer);
  free(sink->temporary);
  free(sink->path);
  free(sink);
}

void gconv_sink_discard(gconv_sink *sink) {
  if (!sink)
    return;
  if (sink->temporary)
    unlink(sink->temporary);
  if (sink->out)
    sink->out->size = 0;
  free_sink(sink);
}

/* Replaces the end of a temporary name by random letters and digits, so that other files are unlikely to have the name. */
static void draw_letters(char *name) {
  static const char all[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  static atomic_uint drawn;
  uint8_t numbers[GCONV_TEMPORARY_LETTERS];
  char *letters = name + strlen(name) - GCONV_TEMPORARY_LETTERS;
  if (getrandom(numbers, sizeof numbers, 0) != (ssize_t)sizeof numbers) { /* if it fails, the process number and a counter */
    unsigned number = atomic_fetch_add(&drawn, 1) + 1009 * (unsigned)getpid();
    memset(numbers, 0, sizeof numbers);
    memcpy(numbers, &number, sizeof number);
  }
  for (int i = 0; i < GCONV_TEMPORARY_LETTERS; i++)
    letters[i] = all[numbers[i] % (sizeof all - 1)];
}

/* Creates a new file, and holds a lock on it as long as it is open. The lock tells gconv_remove_leftovers() that the file is
 * being written. If that function has locked or removed the file before, this fails with EEXIST. On file systems without
 * locks, gconv_remove_leftovers() removes nothing. Returns -1 with errno on failure. */
static int create_locked(const char *name, mode_t mode) {
  struct stat status;
  int file = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (file < 0)
    return -1;
  bool lost = flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!lost && !(lstat(name, &status) != 0 && errno == ENOENT))
    return file;
  unlink(name);
  close(file);
  errno = EEXIST;
  return -1;
}

/* Creates the temporary file and stores its name. No signal handler can run in between: signals are blocked in this thread,
 * and a handler in another thread waits. Returns -1 with errno on failure. */
static int create_temporary(gconv_sink *sink) {
  sigset_t all, before;
  int file = -1, error = EINTR;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  atomic_fetch_add(&creating, 1);
  for (int i = 0; i < MOST_TRIES && file < 0 && (i == 0 || error == EEXIST) && !atomic_load(&ending); i++) {
    draw_letters(sink->temporary);
    file = create_locked(sink->temporary, sink->replaces ? 0600 : 0666);
    error = errno;
  }
  if (file >= 0)
    sink->slot = remember_unfinished(sink->temporary);
  atomic_fetch_sub(&creating, 1);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = error;
  return file;
}

/* Says why no file could be made at sink->path. */
static gconv_status fail_to_create(const gconv_sink *sink, int error) {
  if (error == ENOENT)
    return gconv_fail(GCONV_IO_ERROR, "%s: the folder to write it in does not exist", sink->path);
  return gconv_fail(GCONV_IO_ERROR, "%s: cannot write there: %s%s", sink->path, strerror(error),
                    error == EMFILE ? ": raise the limit (ulimit -n), or apply fewer filters at a time" : "");
}

/* Creates and opens "<folder>/.<name>.gconv-XXXXXX". A new file gets the mode that the umask leaves. A file that replaces
 * another is private until it is finished. Then it gets the mode of the replaced file, without the set-user-ID and
 * set-group-ID bits, which were given to the old content. */
static gconv_status open_temporary(gconv_sink *sink, const struct stat *replaced) {
  GCONV_FREED char *beginning = gconv_temporary_beginning(sink->path);
  sink->temporary = beginning ? gconv_format_text("%sXXXXXX", beginning) : NULL;
  GCONV_NEED_MEMORY(sink->temporary, "no memory for a file name");
  sink->replaces = replaced != NULL;
  sink->mode = replaced ? replaced->st_mode & 0777 : 0;
  sink->file = create_temporary(sink);
  if (sink->file >= 0)
    return GCONV_OK;
  int error = errno;
  free(sink->temporary);
  sink->temporary = NULL;
  return fail_to_create(sink, error);
}

/* Opens an existing pipe or device. `follows`: its path is a link to something without a name, such as /dev/stdout. If a
 * regular file has taken its place meanwhile, fails: the file would be overwritten, not replaced. */
static gconv_status open_special(gconv_sink *sink, const char *path, bool follows) {
  struct stat status;
  sink->file = open(sink->path, O_WRONLY | O_CLOEXEC | O_NOCTTY | (follows ? 0 : O_NOFOLLOW));
  if (sink->file < 0)
    return gconv_fail(GCONV_IO_ERROR, "%s: cannot open for writing: %s", path, strerror(errno));
  if (fstat(sink->file, &status) == 0 && S_ISREG(status.st_mode))
    return gconv_fail(GCONV_IO_ERROR, "%s: became another file while it was opened", path);
  return GCONV_OK;
}

static gconv_status open_path(gconv_sink *sink, const char *path) {
  if (strcmp(path, "-") == 0) {
    sink->file = STDOUT_FILENO;
    sink->path = strdup(path);
    return sink->path ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for a file name");
  }
  char *target = realpath(path, NULL);
  if (!target && errno == ENOMEM)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a file name");
  if (!target && errno == ELOOP)
    return gconv_fail(GCONV_IO_ERROR, "%s: cannot write there: %s", path, strerror(errno));
  struct stat link_status, status;
  bool is_pipe =
      !target && errno == ENOENT && stat(path, &status) == 0; /* /dev/stdout is a link to something without a name */
  if (!target && !is_pipe && errno == ENOENT && lstat(path, &link_status) == 0 &&
      S_ISLNK(link_status.st_mode)) /* if lstat() finds no link, the file came into being meanwhile */
    return gconv_fail(GCONV_IO_ERROR, "%s: is a symbolic link to a file that does not exist: name that file", path);
  sink->path = target ? target : strdup(path);
  GCONV_NEED_MEMORY(sink->path, "no memory for a file name");
  bool exists = stat(sink->path, &status) == 0;
  if (exists && S_ISDIR(status.st_mode))
    return gconv_fail(GCONV_IO_ERROR, "%s: is a folder: name the file to write", path);
  if (exists && S_ISREG(status.st_mode) && access(sink->path, W_OK) != 0) /* rename() would not check this */
    return gconv_fail(GCONV_IO_ERROR, "%s: cannot be replaced: %s: make it writable (chmod u+w), or name another file", path,
                      strerror(errno));
  if (!exists || S_ISREG(status.st_mode))
    return open_temporary(sink, exists ? &status : NULL);
  return open_special(sink, path, is_pipe);
}

int32_t gconv_files_allowed(void) {
  enum { SPARE_FILES = 32 }; /* standard streams, libraries, folders, files of the caller */
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT32_MAX)
    return INT32_MAX;
  return limit.rlim_cur > SPARE_FILES ? (int32_t)limit.rlim_cur - SPARE_FILES : 1;
}

/* Opens `path`, or, if that is NULL, sink->out. */
static gconv_status open_sink(gconv_sink *sink, const char *path) {
  if (!sink->out || sink->out->write)
    GCONV_ALLOCATE(sink->buffer, BUFFER_BYTES, "a write buffer");
  if (path)
    return open_path(sink, path);
  sink->out->size = 0;
  sink->path = strdup(gconv_bytes_name(sink->out->name));
  return sink->path ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for an output");
}

static gconv_status make_sink(const char *path, gconv_bytes_out *out, gconv_sink **result) {
  gconv_sink *sink;
  GCONV_NEW(sink, 1, "no memory for an output");
  *sink = (gconv_sink){.file = -1, .slot = -1, .out = out};
  gconv_status status = open_sink(sink, path);
  if (status == GCONV_OK)
    *result = sink;
  else
    gconv_sink_discard(sink);
  return status;
}

gconv_status gconv_sink_open(const char *path, gconv_sink **result) {
  return make_sink(path, NULL, result);
}

gconv_status gconv_sink_open_bytes(gconv_bytes_out *out, gconv_sink **result) {
  return make_sink(NULL, out, result);
}

static atomic_bool ends_when_unread;

void gconv_end_process_when_unread(void) {
  atomic_store(&ends_when_unread, true);
}

/* Does what write() does, but for a pipe without a reader, fails with EPIPE and without a signal. This thread blocks SIGPIPE
 * meanwhile, and removes the signal if it is pending. */
static ssize_t write_unkilled(int file, const void *bytes, size_t size) {
  sigset_t pipe, before, pending;
  if (atomic_load_explicit(&ends_when_unread, memory_order_relaxed))
    return write(file, bytes, size);
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  bool was_pending = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  ssize_t count = write(file, bytes, size);
  int error = errno;
  while (count < 0 && error == EPIPE && !was_pending && sigtimedwait(&pipe, NULL, &(struct timespec){0}) < 0 &&
         errno == EINTR)
    ;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = error;
  return count;
}

/* Writes all bytes at a position in the file; -1: after the last write. */
static gconv_status write_to_file(gconv_sink *sink, off_t position, const uint8_t *bytes, size_t size) {
  while (size > 0) {
    size_t most = size < SSIZE_MAX ? size : SSIZE_MAX;
    ssize_t count = position < 0 ? write_unkilled(sink->file, bytes, most) : pwrite(sink->file, bytes, most, position);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return gconv_fail(GCONV_IO_ERROR, "%s: cannot write: %s",
                        strcmp(sink->path, "-") == 0 ? "standard output" : sink->path, strerror(errno));
    bytes += count;
    position += position < 0 ? 0 : count;
    size -= (size_t)count;
  }
  return GCONV_OK;
}

/* Writes bytes after all earlier bytes of gconv_sink_write(). sink->position already counts them. */
static gconv_status append(gconv_sink *sink, const uint8_t *bytes, size_t size) {
  return sink->out ? gconv_bytes_put(sink->out, sink->position - size, bytes, size) : write_to_file(sink, -1, bytes, size);
}

static gconv_status flush(gconv_sink *sink) {
  size_t used = sink->used;
  sink->used = 0;
  return used > 0 ? append(sink, sink->buffer, used) : GCONV_OK;
}

gconv_status gconv_sink_write(gconv_sink *sink, const void *bytes, size_t size) {
  if (size > BUFFER_BYTES - sink->used)
    GCONV_TRY(flush(sink));
  sink->position += size;
  if (size > BUFFER_BYTES || !sink->buffer)
    return append(sink, bytes, size);
  memcpy(sink->buffer + sink->used, bytes, size);
  sink->used += size;
  return GCONV_OK;
}

gconv_status gconv_sink_print(gconv_sink *sink, const char *format, ...) {
  GCONV_FREED char *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (length < 0)
    text = NULL;
  GCONV_NEED_MEMORY(text, "no memory for a line of text");
  return gconv_sink_write(sink, text, (size_t)length);
}

gconv_status gconv_sink_flush(gconv_sink *sink) {
  return flush(sink);
}

uint64_t gconv_sink_position(const gconv_sink *sink) {
  return sink->position;
}

bool gconv_sink_can_seek(const gconv_sink *sink) {
  return sink->temporary != NULL || (sink->out && !sink->out->write);
}

gconv_status gconv_sink_reserve(gconv_sink *sink, uint64_t bytes) {
  GCONV_TRY(flush(sink));
  if (sink->out)
    return gconv_bytes_reserve(sink->out, bytes);
  if (fallocate(sink->file, 0, 0, (off_t)bytes) == 0 || errno != ENOSPC)
    return GCONV_OK;
  bool much = bytes >= 1000000000;
  return gconv_fail(GCONV_IO_ERROR, "%s: needs %.3g %s, but its disk does not have that much room", sink->path,
                    (double)bytes * (much ? 1e-9 : 1e-6), much ? "GB" : "MB");
}

gconv_status gconv_sink_write_at(gconv_sink *sink, uint64_t position, const void *bytes, size_t size) {
  GCONV_TRY(flush(sink));
  return sink->out ? gconv_bytes_put(sink->out, position, bytes, size) : write_to_file(sink, (off_t)position, bytes, size);
}

gconv_status gconv_sink_rename(gconv_sink *sink, const char *path) {
  char *target = realpath(path, NULL);
  if (!target)
    target = strdup(path);
  GCONV_NEED_MEMORY(target, "no memory for a file name");
  free(sink->path);
  sink->path = target;
  return GCONV_OK;
}

gconv_status gconv_sink_read_at(gconv_sink *sink, uint64_t position, void *bytes, size_t size) {
  GCONV_TRY(flush(sink));
  if (sink->out)
    return gconv_bytes_get(sink->out, position, bytes, size);
  for (size_t done = 0; done < size;) {
    ssize_t count = pread(sink->file, (uint8_t *)bytes + done, size - done, (off_t)(position + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return gconv_fail(GCONV_IO_ERROR, "%s: cannot read back what was written: %s", sink->path,
                        count < 0 ? strerror(errno) : "it is shorter");
    done += (size_t)count;
  }
  return GCONV_OK;
}

static gconv_status rename_to_path(gconv_sink *sink, bool keep_existing) {
  if (keep_existing) { /* link() fails if the name exists; rename() would replace the file */
    if (link(sink->temporary, sink->path) == 0) {
      unlink(sink->temporary);
      return GCONV_OK;
    }
    if (errno == EEXIST || access(sink->path, F_OK) == 0)
      return gconv_fail(GCONV_EXISTS, "%s: exists and is kept", sink->path);
  }
  if (sink->backs_up)
    return gconv_backup_replace(sink->path, sink->temporary);
  if (rename(sink->temporary, sink->path) != 0)
    return gconv_fail(GCONV_IO_ERROR, "%s: cannot rename the finished file to this name: %s", sink->path, strerror(errno));
  return GCONV_OK;
}

void gconv_sink_back_up(gconv_sink *sink) {
  sink->backs_up = true;
}

/* A network file system may report a full disk only when a file is closed. The temporary file must stay locked until it has
 * its final name. So a copy of the descriptor is closed, which also reports the error. If no descriptor is free for a copy,
 * fsync() reports the error, but takes longer. */
static gconv_status finish_temporary(gconv_sink *sink) {
  if (sink->replaces && fchmod(sink->file, sink->mode) != 0) { /* not a failure: some file systems have no modes */
  }
  int copy = fcntl(sink->file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if ((copy >= 0 ? close(copy) : fsync(sink->file)) == 0)
    return GCONV_OK;
  return gconv_fail(GCONV_IO_ERROR, "%s: cannot write: %s", sink->path, strerror(errno));
}

static gconv_status close_special(gconv_sink *sink) {
  int file = sink->file;
  sink->file = -1;
  if (file <= STDERR_FILENO || close(file) == 0)
    return GCONV_OK;
  return gconv_fail(GCONV_IO_ERROR, "%s: cannot write: %s", sink->path, strerror(errno));
}

gconv_status gconv_sink_commit(gconv_sink *sink, bool keep_existing) {
  gconv_status status = flush(sink);
  GCONV_THEN(status, sink->temporary ? finish_temporary(sink) : close_special(sink));
  if (sink->temporary)
    GCONV_THEN(status, rename_to_path(sink, keep_existing));
  if (status == GCONV_OK)
    free_sink(sink);
  else
    gconv_sink_discard(sink);
  return status;
}

gconv_status gconv_sink_end(gconv_sink *sink, gconv_status status) {
  if (status == GCONV_OK)
    return gconv_sink_commit(sink, false);
  gconv_sink_discard(sink);
  return status;
}

gconv_status gconv_file_write(const char *path, const void *bytes, size_t size) {
  gconv_sink *sink = NULL;
  GCONV_TRY(gconv_sink_open(path, &sink));
  return gconv_sink_end(sink, gconv_sink_write(sink, bytes, size));
}

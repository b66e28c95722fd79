/* SPDX-License-Identifier: MIT */
#include "base/cache.h"
#include "base/file.h"
#include "base/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 20 };

/* Returns "$<variable><below>/<name>", or NULL if the variable is no absolute path, as the XDG base directory specification
 * demands. */
static char *path_below(const char *variable, const char *below, const char *name) {
  const char *folder = getenv(variable);
  return folder && folder[0] == '/' ? gconv_format_text("%s%s/%s", folder, below, name) : NULL;
}

char *gconv_cache_path(const char *name) {
  const char *folder = getenv("GCONV_CACHE");
  if (folder)
    return folder[0] ? gconv_format_text("%s/%s", folder, name) : NULL;
  char *path = path_below("XDG_CACHE_HOME", "/gconv", name);
  return path ? path : path_below("HOME", "/.cache/gconv", name);
}

/* Returns NULL if the file is not regular, is too large, or cannot be read to its end. */
static char *read_file(int file) {
  struct stat status;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > MOST_BYTES)
    return NULL;
  size_t size = (size_t)status.st_size, done = 0;
  char *text = malloc(size + 1);
  while (text && done < size) {
    ssize_t got = read(file, text + done, size - done);
    if (got <= 0)
      break;
    done += (size_t)got;
  }
  if (text && done < size) {
    free(text);
    return NULL;
  }
  if (text)
    text[size] = '\0';
  return text;
}

char *gconv_cache_read(const char *name) {
  char *path = gconv_cache_path(name);
  int file =
      path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1; /* O_NONBLOCK: a pipe of this name must not block us */
  char *text = file >= 0 ? read_file(file) : NULL;
  if (file >= 0)
    close(file);
  free(path);
  return text;
}

/* Makes the folders of `path`, readable by the user alone. Errors are ignored here: opening the file will report them. */
static void make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(path, 0700);
    *slash = '/';
  }
}

bool gconv_cache_write(const char *name, const char *text) {
  char *path = gconv_cache_path(name);
  struct stat status;
  gconv_sink *sink = NULL;
  bool done = false;
  if (path) {
    make_folders(path);
    bool regular =
        stat(path, &status) != 0 || S_ISREG(status.st_mode); /* anything else would be written into, not replaced */
    if (regular && gconv_sink_open(path, &sink) == GCONV_OK) {
      done = gconv_sink_write(sink, text, strlen(text)) == GCONV_OK;
      if (done)
        done = gconv_sink_commit(sink, false) == GCONV_OK;
      else
        gconv_sink_discard(sink);
    }
  }
  free(path);
  return done;
}

/* SPDX-License-Identifier: MIT */
#include "base/library.h"
#include "image/tiff.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- Loading ---- */

gconv_libtiff gconv_tiff;

static const gconv_symbol symbols[] = {
#define CALL(function) {#function, &gconv_tiff.function},
#include "image/tiff_calls.def"
#undef CALL
    {NULL, NULL}};
GCONV_LOADS(static, load, GCONV_TIFF_FILE, symbols, "TIFF needs libtiff")

/* ---- Messages: none is printed ---- */

static void keep_error(gconv_tiff_file *file, const char *format, va_list arguments) {
  if (file->text[0] == '\0')
    vsnprintf(file->text, sizeof file->text, format, arguments);
}

/* Handles a warning about a directory. Counts unknown tags. Keeps the first warning of a tag that libtiff leaves out because
 * its value is damaged. Other warnings do not matter here. */
static void keep_directory_warning(gconv_tiff_file *file, const char *format, const char *text) {
  bool unknown = strncmp(format, "Unknown field", 13) == 0;
  file->unknown += unknown;
  if (!unknown && strstr(text, "ignor") && file->ignored[0] == '\0')
    snprintf(file->ignored, sizeof file->ignored, "%.199s", text);
}

/* Handles a warning. While pixels are decoded, warnings tell of damage. If the decoder of JPEG goes on with grey or shifted
 * blocks, it is an error, as in jpeg_session.c. The warning about LZW codes in the order of the first edition of TIFF is
 * ignored: libtiff decodes them. */
static void keep_warning(gconv_tiff_file *file, const char *module, const char *format, va_list arguments) {
  char text[300];
  vsnprintf(text, sizeof text, format, arguments);
  bool fatal = strstr(text, "Corrupt JPEG data") || strstr(text, "Premature end");
  if (!file->decoding)
    keep_directory_warning(file, format, text);
  if (!file->decoding || !module || strstr(text, "Old-style LZW codes"))
    return;
  if (fatal && file->text[0] == '\0')
    snprintf(file->text, sizeof file->text, "%s", text);
  if (!fatal && !file->warned)
    gconv_warn("%s: damaged TIFF: %s", file->name, text);
  file->warned = true;
}

#if TIFFLIB_VERSION >= 20221213
static int on_error(TIFF *handle, void *user, const char *module, const char *format, va_list arguments) {
  keep_error(user, format, arguments);
  return 1;
}

static int on_warning(TIFF *handle, void *user, const char *module, const char *format, va_list arguments) {
  keep_warning(user, module, format, arguments);
  return 1;
}
#else
/* Before libtiff 4.5, all files of a process share the functions that handle messages. */
static void on_error(thandle_t file, const char *module, const char *format, va_list arguments) {
  if (file)
    keep_error((gconv_tiff_file *)file, format, arguments);
}

static void on_warning(thandle_t file, const char *module, const char *format, va_list arguments) {
  if (file)
    keep_warning((gconv_tiff_file *)file, module, format, arguments);
}

static void set_handlers(void) {
  gconv_tiff.TIFFSetErrorHandler(NULL);
  gconv_tiff.TIFFSetWarningHandler(NULL);
  gconv_tiff.TIFFSetErrorHandlerExt(on_error);
  gconv_tiff.TIFFSetWarningHandlerExt(on_warning);
}
#endif

/* Returns what libtiff does not support, if its error text says that; NULL: the file is damaged. */
static const char *find_unsupported(const char *text) {
  static const struct {
    const char *text, *what;
  } kinds[] = {
      {"different values per sample for \"BitsPerSample\"", "samples of different sizes, such as 5, 6 and 5 bits"},
      {"different values per sample for \"SampleFormat\"", "samples of different kinds, such as integers beside floats"},
      {"different values per sample", "tags that differ from sample to sample"},
      {"can not handle image", "colours in planes of their own that libtiff does not convert"},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (strstr(text, kinds[i].text))
      return kinds[i].what;
  return NULL;
}

gconv_status gconv_tiff_refuse(const gconv_tiff_file *file, const char *what) {
  return gconv_fail(
      GCONV_UNSUPPORTED,
      "%s: a TIFF of %s, which is not read here: convert it first, for example with vips: vips copy IN OUT.tif", file->name,
      what);
}

gconv_status gconv_tiff_fail(gconv_tiff_file *file, const char *what) {
  const char *text = file->text[0] ? file->text : what;
  size_t name = strlen(file->name);
  if (strncmp(text, file->name, name) == 0 && strncmp(text + name, ": ", 2) == 0) /* libtiff puts the name in front, too */
    text += name + 2;
  if (file->status != GCONV_OK)
    return gconv_set_error(file->status, text);
  if (file->source && find_unsupported(text))
    return gconv_tiff_refuse(file, find_unsupported(text));
  if (strstr(text, "ut of memory"))
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a TIFF", file->name);
  return gconv_fail(file->source ? GCONV_BAD_FILE : GCONV_IO_ERROR, "%s: %s: %s", file->name,
                    file->source ? "damaged TIFF" : "cannot be written as TIFF", text);
}

/* ---- Bytes ---- */

/* Notes a failure of source or sink, whose text is the thread's last error. */
static void note(gconv_tiff_file *file, gconv_status status) {
  if (status == GCONV_OK || file->status != GCONV_OK)
    return;
  file->status = status;
  snprintf(file->text, sizeof file->text, "%s", gconv_last_error());
}

/* Pages may share values, such as an ICC profile. But thousands of directories of a hundred bytes, each of which names the
 * same megabyte, would take hours. */
static gconv_status count_read(gconv_tiff_file *file, size_t size) {
  if (file->decoding)
    return GCONV_OK;
  if (size > file->left)
    return gconv_fail(GCONV_TOO_LARGE,
                      "%s: its directories share their values so often that all together are more than %d times as large as "
                      "the file: that is the limit",
                      file->name, GCONV_TIFF_MOST_SHARED);
  file->left -= size;
  return GCONV_OK;
}

static tmsize_t read_bytes(thandle_t handle, void *bytes, tmsize_t size) {
  gconv_tiff_file *file = (gconv_tiff_file *)handle;
  size_t got = (size_t)size;
  gconv_status status = GCONV_OK;
  if (file->source) {
    status = count_read(file, (size_t)size);
    GCONV_THEN(status, gconv_source_read_at(file->source, file->position, bytes, (size_t)size, &got));
  } else if (file->position > file->end || (uint64_t)size > file->end - file->position) {
    return 0;
  } else if (file->sink) {
    status = gconv_sink_read_at(file->sink, file->position, bytes, (size_t)size);
  } else {
    memcpy(bytes, file->memory + file->position, (size_t)size);
  }
  note(file, status);
  if (status != GCONV_OK)
    return -1;
  file->position += got;
  return (tmsize_t)got;
}

/* Makes the memory large enough for `size` bytes. */
static gconv_status make_room(gconv_tiff_file *file, uint64_t size) {
  uint8_t *larger;
  if (size <= file->room)
    return GCONV_OK;
  size_t room = gconv_room((size_t)size);
  GCONV_ALLOCATE(larger, room, "a TIFF");
  if (file->end > 0)
    memcpy(larger, file->memory, (size_t)file->end);
  gconv_release(file->memory);
  file->memory = larger;
  file->room = room;
  return GCONV_OK;
}

/* Writes at file->position. There may be a gap before it: libtiff leaves room for a directory, and writes its values
 * first. */
static gconv_status put_bytes(gconv_tiff_file *file, const void *bytes, size_t size) {
  static const uint8_t zeros[4096];
  uint64_t at = file->position, gap = at > file->end ? at - file->end : 0;
  if (gap > sizeof zeros)
    return gconv_fail(GCONV_IO_ERROR, "%s: cannot be written as TIFF: a gap of %llu bytes", file->name,
                      (unsigned long long)gap);
  if (!file->sink) {
    GCONV_TRY(make_room(file, at + size));
    memset(file->memory + file->end, 0, (size_t)gap);
    memcpy(file->memory + at, bytes, size);
    return GCONV_OK;
  }
  if (at < file->end)
    return gconv_sink_write_at(file->sink, at, bytes, size);
  GCONV_TRY(gconv_sink_write(file->sink, zeros, (size_t)gap));
  return gconv_sink_write(file->sink, bytes, size);
}

static tmsize_t write_bytes(thandle_t handle, void *bytes, tmsize_t size) {
  gconv_tiff_file *file = (gconv_tiff_file *)handle;
  if (file->source)
    return -1;
  gconv_status status = put_bytes(file, bytes, (size_t)size);
  note(file, status);
  if (status != GCONV_OK)
    return -1;
  file->position += (size_t)size;
  file->end = file->position > file->end ? file->position : file->end;
  return size;
}

gconv_status gconv_tiff_append(gconv_tiff_file *file, const void *bytes, size_t size) {
  file->position = file->end;
  bool done = write_bytes((thandle_t)file, (void *)(uintptr_t)bytes, (tmsize_t)size) == (tmsize_t)size;
  return done ? GCONV_OK : gconv_tiff_fail(file, "its end cannot be written");
}

static toff_t seek_bytes(thandle_t handle, toff_t offset, int whence) {
  gconv_tiff_file *file = (gconv_tiff_file *)handle;
  file->position = whence == SEEK_SET ? offset : whence == SEEK_CUR ? file->position + offset : file->end + offset;
  return file->position;
}

static toff_t size_of_file(thandle_t handle) {
  return ((gconv_tiff_file *)handle)->end;
}

static int close_bytes(thandle_t handle) {
  return 0;
}

/* ---- Files ---- */

#if TIFFLIB_VERSION >= 20221213
/* Limits what libtiff allocates at once to some times the size of the file, whatever the file promises. */
static TIFF *open_handle(gconv_tiff_file *file, const char *mode) {
  const uint64_t least = 64 << 20, times = 16;
  TIFFOpenOptions *options = gconv_tiff.TIFFOpenOptionsAlloc();
  if (!options)
    return NULL;
  gconv_tiff.TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, file);
  gconv_tiff.TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, file);
  if (file->source && file->end < INT64_MAX / 32)
    gconv_tiff.TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)(least + times * file->end));
  TIFF *handle = gconv_tiff.TIFFClientOpenExt(file->name, mode, (thandle_t)file, read_bytes, write_bytes, seek_bytes,
                                              close_bytes, size_of_file, NULL, NULL, options);
  gconv_tiff.TIFFOpenOptionsFree(options);
  return handle;
}
#else
static TIFF *open_handle(gconv_tiff_file *file, const char *mode) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, set_handlers);
  return gconv_tiff.TIFFClientOpen(file->name, mode, (thandle_t)file, read_bytes, write_bytes, seek_bytes, close_bytes,
                                   size_of_file, NULL, NULL);
}
#endif

gconv_status gconv_tiff_open(gconv_tiff_file *file, const char *mode) {
  GCONV_TRY(load(file->name));
  if (file->source) {
    file->end = file->source->size;
    file->left = gconv_tiff_most_claimed(file->end);
  }
  file->handle = open_handle(file, mode);
  return file->handle ? GCONV_OK : gconv_tiff_fail(file, "its header is not one of TIFF");
}

void gconv_tiff_close(gconv_tiff_file *file) {
  if (file->handle)
    gconv_tiff.TIFFClose(file->handle);
  gconv_release(file->memory);
  *file = (gconv_tiff_file){0};
}

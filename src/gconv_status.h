/* SPDX-License-Identifier: MIT */
/* A part of gconv.h: what every call reports, and where warnings go. */
#ifndef GCONV_STATUS_H
#define GCONV_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lets a compiler hold the arguments of a function to its format, as it does for printf(). */
#if defined(__GNUC__)
#define GCONV_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define GCONV_PRINTF(text, first)
#endif

/* Turns the rows of a list, such as GCONV_EACH_LAYER_KIND, into the values of an enumeration. */
#define GCONV_LISTED(name, value) value,

/* These two enclose the declarations of a header: functions have C linkage, and a shared library exports them. */
#if defined(__cplusplus)
#define GCONV_API_BEGIN _Pragma("GCC visibility push(default)") extern "C" {
#define GCONV_API_END                                                                                                       \
  }                                                                                                                         \
  _Pragma("GCC visibility pop")
#else
#define GCONV_API_BEGIN _Pragma("GCC visibility push(default)")
#define GCONV_API_END _Pragma("GCC visibility pop")
#endif

GCONV_API_BEGIN

typedef enum gconv_status {
  GCONV_OK = 0,
  GCONV_BAD_ARGUMENT, /* the caller's request is wrong: an argument, option or name is unknown or does not fit */
  GCONV_BAD_FILE,     /* the contents of a file are not what its format demands */
  GCONV_IO_ERROR,     /* the system refused to open, read, write or rename */
  GCONV_EXISTS,       /* the output exists and the caller asked to keep it */
  GCONV_TOO_LARGE,    /* over a limit that has a name, such as max_pixels */
  GCONV_NO_MEMORY,    /* an allocation failed, on the host or on the device */
  GCONV_UNSUPPORTED,  /* understood, but not by this algorithm, device, format or build */
  GCONV_DEVICE_ERROR, /* the device failed */
  GCONV_MISMATCH,     /* a verification found an error larger than allowed */
  GCONV_STOPPED       /* the caller stopped the call: gconv_control_use() in gconv_embed.h */
} gconv_status;

/* The text of the last failure in this thread: one or a few sentences without a final newline. Never NULL; "" before any
 * failure. Valid until the next failing call in the same thread. */
const char *gconv_last_error(void);

/* "1.2.3" */
const char *gconv_version(void);
/* Names and versions of the libraries that this one was built with, for bug reports: "libpng 1.6.39", or "no CUDA" for a
 * part that was left out. NULL past the end. Static storage. */
const char *gconv_built_with(size_t index);

/* Where warnings and, if wanted, remarks go. */
typedef enum gconv_log_level { GCONV_LOG_WARNING, GCONV_LOG_REMARK } gconv_log_level;
typedef void gconv_log_function(gconv_log_level level, const char *text, void *user);

/* Set before other threads use the library. NULL (the default) drops everything. The function may be called from any
 * thread; text has no final newline. */
void gconv_set_log(gconv_log_function *function, void *user);

/* Removes every output of this process that is not complete yet; finished outputs stay. Async-signal-safe: it is meant for a
 * signal handler that then ends the process. No output can be begun afterwards. */
void gconv_remove_unfinished(void);

GCONV_API_END
#endif

/* SPDX-License-Identifier: MIT */
/* How failures are reported. Each function that can fail ends with `return gconv_fail(GCONV_..., "what, where, remedy")`. */
#pragma once

#include "base/both.h"
#include "gconv.h"

#include <stdarg.h>

GCONV_C_BEGIN

/* Sets this thread's last error to the formatted text. Returns `status`. */
gconv_status gconv_fail(gconv_status status, const char *format, ...) GCONV_PRINTF(2, 3);

/* Sets this thread's last error to `text`, which is cut if it is too long. It is for failures of other threads. Returns
 * `status`. */
gconv_status gconv_set_error(gconv_status status, const char *text);
/* Fails with GCONV_NO_MEMORY and "out of memory". */
gconv_status gconv_no_memory(void);

/* Puts "<formatted text>: " in front of this thread's last error, which then says which part of the program failed. Returns
 * `status`. */
gconv_status gconv_fail_in(gconv_status status, const char *format, ...) GCONV_PRINTF(2, 3);

/* Sends a warning or a remark to the function of gconv_set_log(). */
void gconv_warn(const char *format, ...) GCONV_PRINTF(1, 2);
void gconv_remark(const char *format, ...) GCONV_PRINTF(1, 2);

/* Returns whether gconv_set_log() was given a function. If not, code need not spend time on finding out whether to warn. */
bool gconv_log_is_heard(void);

/* Warns once a run. `kind` says in a few words what is lost, such as "metadata left out"; it must be static text. The first
 * warning of a kind goes to the function of gconv_set_log(), and later ones are only counted: call it once for each image
 * with this loss. Thread-safe. */
void gconv_warn_once(const char *kind, const char *format, ...) GCONV_PRINTF(2, 3);

/* Begins a run: all kinds are new again. gconv_batch_run() calls it. */
void gconv_warnings_begin(void);

/* Writes the kinds that came up more than once, with their counts, such as "metadata left out: 12 images, clamped: 3
 * images"; "" if there is none. If `size` bytes do not hold the text, it is cut. */
void gconv_warnings_sum(char *text, size_t size);

GCONV_C_END
/* Returns from the calling function if `expression` is not GCONV_OK. */
#define GCONV_TRY(expression)                                                                                               \
  do {                                                                                                                      \
    gconv_status gconv_try_status = (expression);                                                                           \
    if (gconv_try_status != GCONV_OK)                                                                                       \
      return gconv_try_status;                                                                                              \
  } while (0)

/* A step of a function that must free something at its end. If `status` is GCONV_OK, evaluates `expression`, and sets
 * `status` to the result. Otherwise does nothing. */
#define GCONV_THEN(status, expression) ((status) = (status) == GCONV_OK ? (expression) : (status))

/* Formats the arguments after `format`, the last named argument of the calling function, and writes them into text[0 ..
 * size). */
#define GCONV_FORMAT(text, size, format)                                                                                    \
  do {                                                                                                                      \
    va_list gconv_arguments;                                                                                                \
    va_start(gconv_arguments, format);                                                                                      \
    vsnprintf(text, size, format, gconv_arguments);                                                                         \
    va_end(gconv_arguments);                                                                                                \
  } while (0)

/* After an allocation: if `made` is NULL or false, the calling function returns GCONV_NO_MEMORY with the formatted text. */
#define GCONV_NEED_MEMORY(made, ...)                                                                                        \
  do {                                                                                                                      \
    if (!(made))                                                                                                            \
      return gconv_fail(GCONV_NO_MEMORY, __VA_ARGS__);                                                                      \
  } while (0)

/* Lets `pointer` point to `count` new items of zeros, which are released with free(). Without memory, returns as
 * GCONV_NEED_MEMORY() does. */
#define GCONV_NEW(pointer, count, ...)                                                                                      \
  do {                                                                                                                      \
    (pointer) = calloc(count, sizeof *(pointer));                                                                           \
    GCONV_NEED_MEMORY(pointer, __VA_ARGS__);                                                                                \
  } while (0)

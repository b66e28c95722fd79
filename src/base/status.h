/* SPDX-License-Identifier: MIT */
/* How failures are reported. Every function that can fail ends with `return gconv_fail(GCONV_..., "what, where, remedy")`.
 */
#pragma once

#include "base/both.h"
#include "gconv.h"

#include <stdarg.h>

GCONV_C_BEGIN

/* Sets this thread's last error to the formatted text. Returns `status`. */
gconv_status gconv_fail(gconv_status status, const char *format, ...) GCONV_PRINTF(2, 3);

/* Sets it to `text`, cut where it is too long: for a failure of another thread. Returns `status`. */
gconv_status gconv_set_error(gconv_status status, const char *text);
/* GCONV_NO_MEMORY: "out of memory". */
gconv_status gconv_no_memory(void);

/* Puts "<formatted text>: " in front of this thread's last error, to say which part of the program failed. Returns `status`.
 */
gconv_status gconv_fail_in(gconv_status status, const char *format, ...) GCONV_PRINTF(2, 3);

/* Sends a warning or a remark to the function of gconv_set_log(). */
void gconv_warn(const char *format, ...) GCONV_PRINTF(1, 2);
void gconv_remark(const char *format, ...) GCONV_PRINTF(1, 2);

/* Whether there is such a function: else a warning that is dear to find out need not be. */
bool gconv_log_is_heard(void);

/* Warns once a run. `kind` says in a few words what is lost, such as "metadata left out"; it must be static text. The first
 * warning of a kind goes to the function of gconv_set_log(), and later ones are only counted: call it once for each image
 * that is concerned. Thread-safe. */
void gconv_warn_once(const char *kind, const char *format, ...) GCONV_PRINTF(2, 3);

/* Begins a run: all kinds are new again. gconv_batch_run() calls it. */
void gconv_warnings_begin(void);

/* Sums up the kinds that came up more than once, such as "metadata left out: 12 images, clamped: 3 images"; "" if there is
 * none. The text is cut where `size` bytes do not hold it. */
void gconv_warnings_sum(char *text, size_t size);

GCONV_C_END
/* Returns from the calling function if `expression` is not GCONV_OK. */
#define GCONV_TRY(expression)                                                                                               \
  do {                                                                                                                      \
    gconv_status gconv_try_status = (expression);                                                                           \
    if (gconv_try_status != GCONV_OK)                                                                                       \
      return gconv_try_status;                                                                                              \
  } while (0)

/* A step of a function that frees something at its end: `status` becomes the result of `expression`, which is only evaluated
 * if all steps before it were GCONV_OK. */
#define GCONV_THEN(status, expression) ((status) = (status) == GCONV_OK ? (expression) : (status))

/* Writes what follows `format`, the last named argument of the calling function, into text[0 .. size) by that format. */
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

/* Lets `pointer` point to `count` new items, all of zeros, for free(), with GCONV_NEED_MEMORY(). */
#define GCONV_NEW(pointer, count, ...)                                                                                      \
  do {                                                                                                                      \
    (pointer) = calloc(count, sizeof *(pointer));                                                                           \
    GCONV_NEED_MEMORY(pointer, __VA_ARGS__);                                                                                \
  } while (0)

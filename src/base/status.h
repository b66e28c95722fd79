/* SPDX-License-Identifier: MIT */
/* How failures are reported. Every function that can fail ends with `return gconv_fail(GCONV_..., "what, where, remedy")`.
 */
#ifndef GCONV_BASE_STATUS_H
#define GCONV_BASE_STATUS_H

#include "gconv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets this thread's last error to the formatted text. Returns `status`. */
gconv_status gconv_fail(gconv_status status, const char *format, ...) GCONV_PRINTF(2, 3);

/* Sets it to `text`, cut where it is too long: for a failure of another thread. Returns `status`. */
gconv_status gconv_set_error(gconv_status status, const char *text);

/* Puts "<formatted text>: " in front of this thread's last error, to say which part of the program failed. Returns `status`.
 */
gconv_status gconv_fail_in(gconv_status status, const char *format, ...) GCONV_PRINTF(2, 3);

/* Sends a warning or a remark to the function of gconv_set_log(). */
void gconv_warn(const char *format, ...) GCONV_PRINTF(1, 2);
void gconv_remark(const char *format, ...) GCONV_PRINTF(1, 2);
/* Sends a warning that was not sent since gconv_set_log(): what holds for a whole run is said once. */
void gconv_warn_once(const char *format, ...) GCONV_PRINTF(1, 2);

#ifdef __cplusplus
}
#endif
/* Returns from the calling function if `expression` is not GCONV_OK. */
#define GCONV_TRY(expression)                                                                                               \
  do {                                                                                                                      \
    gconv_status gconv_try_status = (expression);                                                                           \
    if (gconv_try_status != GCONV_OK)                                                                                       \
      return gconv_try_status;                                                                                              \
  } while (0)

#endif

/* SPDX-License-Identifier: MIT */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 10240 }; /* room for two paths, each as long as Linux allows, and a sentence */

static _Thread_local char last_error[TEXT_BYTES];
static gconv_log_function *log_function;
static void *log_user;

const char *gconv_last_error(void) {
  return last_error;
}

gconv_status gconv_fail(gconv_status status, const char *format, ...) {
  char text[TEXT_BYTES]; /* a copy, because the arguments may point into last_error */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  memcpy(last_error, text, sizeof text);
  return status;
}

/* Appends what there is room for; of strncat(), the compilers of Ubuntu warn that it may truncate. */
static void append(char text[TEXT_BYTES], const char *more) {
  size_t length = strlen(text), bytes = strnlen(more, TEXT_BYTES - 1 - length);
  memcpy(text + length, more, bytes);
  text[length + bytes] = '\0';
}

gconv_status gconv_fail_in(gconv_status status, const char *format, ...) {
  char text[TEXT_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  append(text, ": ");
  append(text, last_error);
  memcpy(last_error, text, sizeof text);
  return status;
}

gconv_status gconv_set_error(gconv_status status, const char *text) {
  return gconv_fail(status, "%s", text);
}

void gconv_set_log(gconv_log_function *function, void *user) {
  log_function = function;
  log_user = user;
}

static void log_text(gconv_log_level level, const char *format, va_list arguments) GCONV_PRINTF(2, 0);
static void log_text(gconv_log_level level, const char *format, va_list arguments) {
  if (!log_function)
    return;
  char text[TEXT_BYTES];
  vsnprintf(text, sizeof text, format, arguments);
  log_function(level, text, log_user);
}

void gconv_warn(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  log_text(GCONV_LOG_WARNING, format, arguments);
  va_end(arguments);
}

void gconv_remark(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  log_text(GCONV_LOG_REMARK, format, arguments);
  va_end(arguments);
}

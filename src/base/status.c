/* SPDX-License-Identifier: MIT */
#include "base/status.h"
#include "base/checksum.h"

#include <pthread.h>
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

gconv_status gconv_fail_in(gconv_status status, const char *format, ...) {
  char text[TEXT_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  strncat(text, ": ", sizeof text - 1 - strlen(text));
  strncat(text, last_error, sizeof text - 1 - strlen(text));
  memcpy(last_error, text, sizeof text);
  return status;
}

gconv_status gconv_set_error(gconv_status status, const char *text) {
  return gconv_fail(status, "%s", text);
}

/* Checksums of the warnings that are said once. */
enum { MOST_SAID = 64 };
static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t said[MOST_SAID];
static size_t said_count;

void gconv_set_log(gconv_log_function *function, void *user) {
  pthread_mutex_lock(&said_lock);
  said_count = 0;
  pthread_mutex_unlock(&said_lock);
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

/* Returns whether the text is new. If there are too many to remember, none is. */
static bool is_first(const char *text) {
  uint64_t hash = gconv_fnv1a(GCONV_FNV1A_BASIS, text, strlen(text));
  pthread_mutex_lock(&said_lock);
  bool first = said_count < MOST_SAID;
  for (size_t i = 0; i < said_count && first; i++)
    first = said[i] != hash;
  if (first)
    said[said_count++] = hash;
  pthread_mutex_unlock(&said_lock);
  return first;
}

void gconv_warn_once(const char *format, ...) {
  char text[TEXT_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (is_first(text))
    gconv_warn("%s", text);
}

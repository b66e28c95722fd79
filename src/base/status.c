/* SPDX-License-Identifier: MIT */
#include "base/status.h"
#include "base/fields.h"

#include <pthread.h>
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
  GCONV_FORMAT(text, sizeof text, format);
  gconv_name_fields(text);
  memcpy(last_error, text, sizeof text);
  return status;
}

/* Appends as much of `more` as there is room for. With strncat(), compilers of Ubuntu would warn that it may truncate. */
static void append(char text[TEXT_BYTES], const char *more) {
  size_t length = strlen(text), bytes = strnlen(more, TEXT_BYTES - 1 - length);
  memcpy(text + length, more, bytes);
  text[length + bytes] = '\0';
}

gconv_status gconv_fail_in(gconv_status status, const char *format, ...) {
  char text[TEXT_BYTES];
  GCONV_FORMAT(text, sizeof text, format);
  append(text, ": ");
  append(text, last_error);
  gconv_name_fields(text);
  memcpy(last_error, text, sizeof text);
  return status;
}

gconv_status gconv_set_error(gconv_status status, const char *text) {
  return gconv_fail(status, "%s", text);
}

gconv_status gconv_no_memory(void) {
  return gconv_set_error(GCONV_NO_MEMORY, "out of memory");
}

void gconv_set_log(gconv_log_function *function, void *user) {
  log_function = function;
  log_user = user;
}

bool gconv_log_is_heard(void) {
  return log_function;
}

static void log_text(gconv_log_level level, const char *format, va_list arguments) GCONV_PRINTF(2, 0);
static void log_text(gconv_log_level level, const char *format, va_list arguments) {
  if (!log_function)
    return;
  char text[TEXT_BYTES];
  vsnprintf(text, sizeof text, format, arguments);
  gconv_name_fields(text);
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

/* ---- Once a run ---- */

/* Kinds of warnings, and how often each came up. If there are more kinds than fit, later kinds warn each time. */
enum { MOST_KINDS = 32 };
static struct {
  const char *kind;
  size_t count;
} warned[MOST_KINDS];
static size_t warned_kinds;
static pthread_mutex_t warned_lock = PTHREAD_MUTEX_INITIALIZER;

/* Counts a warning. Returns how many of its kind there were before. */
static size_t count_warning(const char *kind) {
  size_t i = 0, before = 0;
  pthread_mutex_lock(&warned_lock);
  while (i < warned_kinds && strcmp(warned[i].kind, kind) != 0)
    i++;
  if (i == warned_kinds && i < MOST_KINDS)
    warned[warned_kinds++].kind = kind;
  if (i < MOST_KINDS)
    before = warned[i].count++;
  pthread_mutex_unlock(&warned_lock);
  return before;
}

void gconv_warn_once(const char *kind, const char *format, ...) {
  va_list arguments;
  if (count_warning(kind) > 0)
    return;
  va_start(arguments, format);
  log_text(GCONV_LOG_WARNING, format, arguments);
  va_end(arguments);
}

void gconv_warnings_begin(void) {
  pthread_mutex_lock(&warned_lock);
  memset(warned, 0, sizeof warned);
  warned_kinds = 0;
  pthread_mutex_unlock(&warned_lock);
}

void gconv_warnings_sum(char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  pthread_mutex_lock(&warned_lock);
  for (size_t i = 0; i < warned_kinds && used < size; i++)
    if (warned[i].count > 1)
      used +=
          (size_t)snprintf(text + used, size - used, "%s%s: %zu images", used ? ", " : "", warned[i].kind, warned[i].count);
  pthread_mutex_unlock(&warned_lock);
}

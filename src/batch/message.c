/* SPDX-License-Identifier: MIT */
#include "batch/texts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

gconv_status gconv_complain(gconv_message *message, gconv_status status, const char *format, ...) {
  char text[sizeof message->text];
  if (!message || !format)
    return status;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  memcpy(message->text, text, sizeof text);
  return status;
}

gconv_status gconv_complain_memory(gconv_message *message) {
  return gconv_complain(message, GCONV_NO_MEMORY, "out of memory");
}

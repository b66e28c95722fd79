/* SPDX-License-Identifier: MIT */
/* Failures above the library: what gconv_last_error() is below it, handed from callee to caller. */
#ifndef GCONV_BATCH_MESSAGE_H
#define GCONV_BATCH_MESSAGE_H

#include "base/status.h"

/* Why something failed: one or a few sentences without a final newline. */
typedef struct gconv_message {
  char text[10240]; /* as long as gconv_last_error() may be */
} gconv_message;

/* Sets the text, cut where it is too long, and returns `status`. The arguments may point into the old text. */
gconv_status gconv_complain(gconv_message *message, gconv_status status, const char *format, ...) GCONV_PRINTF(3, 4);

/* GCONV_NO_MEMORY, with its text. */
gconv_status gconv_complain_memory(gconv_message *message);

#endif

/* SPDX-License-Identifier: MIT */
/* The arguments of the functions of gconv_jobs.h: what lists of a caller must have (base/arguments.h). */
#ifndef GCONV_BATCH_ARGUMENTS_H
#define GCONV_BATCH_ARGUMENTS_H

#include "base/arguments.h"
#include "gconv_jobs.h"

/* Fails in the calling function, which has a `message`, if a pointer is NULL. */
#define GCONV_NEED_TOLD(pointer, message)                                                                                   \
  do {                                                                                                                      \
    gconv_status gconv_need_status = gconv_check_given(pointer, #pointer, __func__);                                        \
    if (gconv_need_status != GCONV_OK)                                                                                      \
      return gconv_complain(message, gconv_need_status, "%s", gconv_last_error());                                          \
  } while (0)

/* Fail if a text, or a list of them, is missing. `name` is for the error. */
gconv_status gconv_check_texts(const gconv_texts *texts, const char *name, gconv_message *message);
gconv_status gconv_check_inputs(const gconv_inputs *inputs, gconv_message *message);

/* Fails if outputs lack a path, or do not tell which are those of each input. NULL: they are one array of all. */
gconv_status gconv_check_outputs(const gconv_outputs *outputs, const gconv_inputs *inputs, gconv_message *message);

#endif

/* SPDX-License-Identifier: MIT */
/* Messages, lists of texts, and checks of the arguments of gconv_jobs.h (base/arguments.h has those of gconv.h). */
#ifndef GCONV_NAMES_TEXTS_H
#define GCONV_NAMES_TEXTS_H

#include "base/arguments.h"
#include "base/status.h"
#include "gconv_jobs.h"

/* GCONV_NO_MEMORY, with its text. */
gconv_status gconv_complain_memory(gconv_message *message);

/* gconv_texts_add(), as a status: GCONV_NO_MEMORY with its text if the text is NULL or there is no memory for the list. */
gconv_status gconv_texts_append(gconv_texts *texts, char *text, gconv_message *message);

/* Orders two elements of gconv_texts.items, for qsort() and bsearch(). */
int gconv_texts_compare(const void *a, const void *b);

/* Fails in the calling function, which has a `message`, if a pointer is NULL. */
#define GCONV_NEED_TOLD(pointer, message)                                                                                   \
  do {                                                                                                                      \
    gconv_status gconv_need_status = gconv_check_given(pointer, #pointer, __func__);                                        \
    if (gconv_need_status != GCONV_OK)                                                                                      \
      return gconv_complain(message, gconv_need_status, "%s", gconv_last_error());                                          \
  } while (0)

/* Fails if one of the texts is missing. `name` of the list is for the error. */
gconv_status gconv_check_texts(const gconv_texts *texts, const char *name, gconv_message *message);

/* Fails if an input or a text of the inputs is missing. */
gconv_status gconv_check_inputs(const gconv_inputs *inputs, gconv_message *message);

/* Fails if a path is missing, or if the outputs do not tell which paths belong to each input. `inputs` is NULL if all
 * results go into one array. */
gconv_status gconv_check_outputs(const gconv_outputs *outputs, const gconv_inputs *inputs, gconv_message *message);

#endif

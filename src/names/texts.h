/* SPDX-License-Identifier: MIT */
/* Messages, lists of texts, and checks of the arguments of gconv_jobs.h. (base/arguments.h checks those of gconv.h.) */
#pragma once

#include "base/arguments.h"
#include "base/status.h"
#include "gconv_jobs.h"

/* Copies the text of a failure from gconv_last_error() to the message of a caller of gconv_jobs.h, and returns `status`. */
gconv_status gconv_tell(gconv_status status, gconv_message *message);
/* Does gconv_texts_add(), and returns a status: GCONV_NO_MEMORY if the text is NULL or there is no memory for the list. */
gconv_status gconv_texts_append(gconv_texts *texts, char *text);
/* Orders two elements of gconv_texts.items, for qsort() and bsearch(). */
int gconv_texts_compare(const void *a, const void *b);
/* Sorts a list, which may be empty. */
void gconv_texts_sort(gconv_texts *texts);
/* Texts with their numbers, to be sorted by text and then by number: so equal texts lie beside each other. */
typedef struct gconv_key {
  char *text; /* owned */
  size_t number;
} gconv_key;

/* Sorts `count` keys. Each has its text. */
void gconv_keys_sort(gconv_key *keys, size_t count);
/* Frees the texts and the keys. NULL is allowed. */
void gconv_keys_free(gconv_key *keys, size_t count);

/* Returns a failure from the calling function if `message`, or one of the pointers after it, is NULL. */
#define GCONV_NEED_TOLD(message, ...)                                                                                       \
  do {                                                                                                                      \
    GCONV_NEED(message);                                                                                                    \
    GCONV_TRY(gconv_tell(gconv_check_given(GCONV_POINTERS(__VA_ARGS__), #__VA_ARGS__, __func__), message));                 \
  } while (0)

/* Fails if one of the texts is missing. name: the list's, for the error. */
gconv_status gconv_check_texts(const gconv_texts *texts, const char *name);
/* Fails if an input or a text of the inputs is missing. */
gconv_status gconv_check_inputs(const gconv_inputs *inputs);
/* Fails if a path is missing, or if the outputs do not tell which paths belong to each input. `inputs` is NULL if all
 * results go into one array. */
gconv_status gconv_check_outputs(const gconv_outputs *outputs, const gconv_inputs *inputs);

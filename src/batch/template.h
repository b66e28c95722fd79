/* SPDX-License-Identifier: MIT */
/* Braces in the argument of -o: {stem} is a field of a template, {{ and }} are braces of a name. */
#ifndef GCONV_BATCH_TEMPLATE_H
#define GCONV_BATCH_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* What the fields of a template stand for, for one result. */
typedef struct gconv_template_values {
  const char *stem;
  int stem_length;
  const char *suffix; /* behind the stem; "" for none */
  const char *extension;
  int extension_length;
  const char *filter;
  size_t index, index_count; /* from 1 */
  size_t frame, frame_count;
} gconv_template_values;

/* Whether there is a folder at `path`. */
bool gconv_is_folder(const char *path);

/* Whether `output` has a field; not if there is a folder that is called just that. */
bool gconv_template_is_one(const char *output);

/* The path that `output` names where it is no template: as it stands if it has no {, or is an existing folder, else with the
 * doubled braces made single ones. Owned by the caller; NULL without memory. */
char *gconv_template_plain(const char *output);

/* Whether it has the field `name`. */
bool gconv_template_has(const char *template, const char *name);

/* A template without fields that names `path`. Owned by the caller; NULL without memory. */
char *gconv_template_escape(const char *path);

/* The folder that all results of the template have in common: the one before its first field, "" or with a slash at the end.
 * Owned by the caller; NULL without memory. */
char *gconv_template_folder(const char *template);

/* Writes `length` bytes of a template with the values of its fields. Where one is no field, returns it, and its length in
 * *wrong; else NULL. */
const char *gconv_template_expand(FILE *out, const char *part, size_t length, const gconv_template_values *values,
                                  size_t *wrong);

#endif

/* SPDX-License-Identifier: MIT */
/* Braces in the argument of -o: {stem} is a field of a template, {{ and }} stand for braces of a name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The values of the fields of a template, for one result. */
typedef struct gconv_template_values {
  const char *stem;
  int stem_length;
  const char *suffix; /* follows the stem; "": none */
  const char *extension;
  int extension_length;
  const char *filter;
  size_t index, index_count; /* number of the result, from 1; number of all results */
  size_t frame, frame_count;
} gconv_template_values;

/* Returns whether `output` has a field. The exact name of an existing folder is no template. */
bool gconv_template_is_one(const char *output);
/* Returns the path that `output` names if it is no template: doubled braces become single ones, except in the name of an
 * existing folder. Owned by the caller; NULL without memory. */
char *gconv_template_plain(const char *output);
/* Returns whether the template has the field `name`. */
bool gconv_template_has(const char *template, const char *name);
/* Makes a template without fields that names `path`: its braces are doubled. Owned by the caller; NULL without memory. */
char *gconv_template_escape(const char *path);
/* Returns the folder before the first field of the template, in which all results lie: "", or with a slash at the end. Owned
 * by the caller; NULL without memory. */
char *gconv_template_folder(const char *template);
/* Writes `length` bytes of a template with the values of its fields. Returns NULL, or the place of braces that hold no known
 * field, and sets *wrong to their length. */
const char *gconv_template_expand(FILE *out, const char *part, size_t length, const gconv_template_values *values,
                                  size_t *wrong);

/* SPDX-License-Identifier: MIT */
/* The interface of a syntax of filter files. Each syntax is one file (matrix.c vips.c imagemagick.c opencv.c array.c npy.c)
 * and one row in the table of syntaxes.c. */
#pragma once

#include "filter/filter.h"

typedef struct gconv_content {
  const char *name; /* the path, for error texts */
  uint8_t *bytes;   /* `size` bytes, and a 0 after them */
  size_t size;
} gconv_content;

typedef struct gconv_syntax {
  const char *name; /* as gconv_filters_read() takes it */
  const char *help; /* one line */
  /* Returns whether the content has the shape of this syntax. Several syntaxes may return true for one file; then the user
   * must choose. This must be fast: numbers need not be checked. */
  bool (*recognise)(const gconv_content *content);
  /* Appends the filters of the content, without names. On failure, the caller drops the filters that were appended. */
  gconv_status (*parse)(const gconv_content *content, gconv_filters *list);
} gconv_syntax;

extern const gconv_syntax gconv_syntax_matrix, gconv_syntax_vips, gconv_syntax_imagemagick, gconv_syntax_opencv,
    gconv_syntax_array, gconv_syntax_npy;

/* Returns whether the first line of a text could begin a vips matrix: it has 2 to 4 numbers. The first two are width and
 * height: positive integers written with digits only ("3", not "3.0"), within the limits of a filter. */
bool gconv_vips_promises(const gconv_content *content, int32_t *width, int32_t *height);

/* Returns whether the text begins like an array in brackets, or with the text that array.c allows before a bracket. This
 * distinguishes an array on the command line from a name. */
bool gconv_array_begins(const gconv_content *content);

/* Finds the syntax called `name`. If there is none, fails with GCONV_BAD_ARGUMENT, and lists the known names. */
gconv_status gconv_syntax_by_name(const char *name, const gconv_syntax **syntax);

/* Finds the syntax of the content. npy and opencv are recognised by their first bytes. Otherwise, the first of these
 * applies: a line "# syntax: NAME" before the first number; array, if it recognises the content; the only syntax that
 * recognises the content. Fails with GCONV_BAD_FILE if two syntaxes recognise it. If none does, *syntax is matrix, whose
 * errors say what a filter looks like. Fails with GCONV_UNSUPPORTED, and names the format, if the content has another known
 * format. */
gconv_status gconv_syntax_find(const gconv_content *content, const gconv_syntax **syntax);

/* Fails, and says what the user can do, if the content is of another known kind: MATLAB's binary .mat, an image, an archive,
 * a format of networks. */
gconv_status gconv_refuse_foreign(const gconv_content *content);

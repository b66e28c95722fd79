/* SPDX-License-Identifier: MIT */
/* The table of syntaxes, and how the syntax of a file is found. */
#include "filter/text.h"

#include <string.h>

static const gconv_syntax *const syntaxes[] = {
    &gconv_syntax_matrix, &gconv_syntax_vips,  &gconv_syntax_imagemagick,
    &gconv_syntax_opencv, &gconv_syntax_array, &gconv_syntax_npy,
};
enum { SYNTAXES = sizeof syntaxes / sizeof *syntaxes, NAMES_BYTES = 128 };

const char *gconv_filter_syntax_at(size_t index) {
  return index < SYNTAXES ? syntaxes[index]->name : NULL;
}

/* Returns the names of all syntaxes: "matrix, vips, imagemagick ..." */
static const char *list_names(char text[NAMES_BYTES]) {
  text[0] = '\0';
  for (size_t i = 0; i < SYNTAXES; i++) {
    strncat(text, i == 0 ? "" : ", ", NAMES_BYTES - strlen(text) - 1);
    strncat(text, syntaxes[i]->name, NAMES_BYTES - strlen(text) - 1);
  }
  return text;
}

static const gconv_syntax *by_name(const char *name, size_t length) {
  for (size_t i = 0; i < SYNTAXES; i++)
    if (strlen(syntaxes[i]->name) == length && memcmp(syntaxes[i]->name, name, length) == 0)
      return syntaxes[i];
  return NULL;
}

gconv_status gconv_syntax_by_name(const char *name, const gconv_syntax **syntax) {
  *syntax = by_name(name, strlen(name));
  if (*syntax)
    return GCONV_OK;
  char names[NAMES_BYTES];
  return gconv_fail(GCONV_BAD_ARGUMENT, "there is no syntax of filters called '%s'; known are %s", name, list_names(names));
}

/* Reads a comment "# syntax: NAME" before the first field. *stated stays NULL if there is none. */
static gconv_status find_statement(const gconv_content *content, const gconv_syntax **stated) {
  static const char words[] = "# syntax: ";
  const size_t length = sizeof words - 1;
  gconv_text text = gconv_text_begin(content);
  gconv_field field;
  do {
    if (gconv_text_field(&text, &field))
      return GCONV_OK;
    if ((size_t)(text.end - text.at) < length || memcmp(text.at, words, length) != 0)
      continue;
    const char *name = text.at + length, *end = name;
    while (*end >= 'a' && *end <= 'z')
      end++;
    *stated = by_name(name, (size_t)(end - name));
    if (*stated)
      return GCONV_OK;
    char names[NAMES_BYTES];
    return gconv_fail(GCONV_BAD_FILE, "%s:%zu: the comment '# syntax: %.*s' names no known syntax; known are %s", text.name,
                      text.line, (int)(end - name < 24 ? end - name : 24), name, list_names(names));
  } while (gconv_text_next_line(&text));
  return GCONV_OK;
}

gconv_status gconv_syntax_find(const gconv_content *content, const gconv_syntax **syntax) {
  static const gconv_syntax *const marked[] = {&gconv_syntax_npy, &gconv_syntax_opencv}; /* known by their first bytes */
  const gconv_syntax *found = NULL;
  for (size_t i = 0; i < sizeof marked / sizeof *marked; i++)
    if (marked[i]->recognise(content)) {
      *syntax = marked[i];
      return GCONV_OK;
    }
  GCONV_TRY(gconv_refuse_foreign(content));
  GCONV_TRY(gconv_text_check(content));
  GCONV_TRY(find_statement(content, &found));
  if (!found && gconv_syntax_array.recognise(content)) /* first: a row of an array looks like a row of a matrix */
    found = &gconv_syntax_array;
  for (size_t i = 0; i < SYNTAXES && !found; i++) {
    if (!syntaxes[i]->recognise(content))
      continue;
    for (size_t j = i + 1; j < SYNTAXES; j++)
      if (syntaxes[j]->recognise(content))
        return gconv_fail(GCONV_BAD_FILE,
                          "%s: can be read in two ways, as '%s' (%s) and as '%s' (%s): say which with --filter-format %s or "
                          "--filter-format %s, or by a first line '# syntax: %s' or '# syntax: %s'",
                          content->name, syntaxes[i]->name, syntaxes[i]->help, syntaxes[j]->name, syntaxes[j]->help,
                          syntaxes[i]->name, syntaxes[j]->name, syntaxes[i]->name, syntaxes[j]->name);
    found = syntaxes[i];
  }
  *syntax = found ? found : &gconv_syntax_matrix; /* the errors of the plain matrix explain what is expected */
  return GCONV_OK;
}

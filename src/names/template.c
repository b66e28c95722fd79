/* SPDX-License-Identifier: MIT */
#include "names/template.h"
#include "base/folders.h"

#include <stdlib.h>
#include <string.h>

/* ---- Braces -------------------------------------------------------------------------------------------------------- */

static bool is_doubled(const char *at, const char *end) {
  return (*at == '{' || *at == '}') && at + 1 < end && at[1] == *at;
}

/* Returns the bytes before the first field; all bytes if there is no field. */
static size_t fixed_length(const char *template) {
  const char *at = template, *end = at + strlen(at);
  for (; at < end; at++)
    if (is_doubled(at, end))
      at++;
    else if (*at == '{')
      break;
  return (size_t)(at - template);
}

static char *undouble(const char *text, size_t length) {
  const char *end = text + length;
  char *plain = malloc(length + 1), *to = plain;
  for (; plain && text < end; text++) {
    *to++ = *text;
    if (is_doubled(text, end))
      text++;
  }
  if (plain)
    *to = '\0';
  return plain;
}

bool gconv_template_is_one(const char *output) {
  return output[fixed_length(output)] != '\0' && !gconv_is_folder(output);
}

char *gconv_template_plain(const char *output) {
  bool literal = !strchr(output, '{') || gconv_is_folder(output);
  return literal ? strdup(output) : undouble(output, strlen(output));
}

bool gconv_template_has(const char *template, const char *name) {
  size_t length = strlen(name);
  for (const char *at = template, *end = at + strlen(at); at < end; at++)
    if (is_doubled(at, end))
      at++;
    else if (*at == '{' && strncmp(at + 1, name, length) == 0 && at[1 + length] == '}')
      return true;
  return false;
}

char *gconv_template_escape(const char *path) {
  char *template = malloc(2 * strlen(path) + 1), *to = template;
  if (!template)
    return NULL;
  for (; *path; path++) {
    *to++ = *path;
    if (*path == '{' || *path == '}')
      *to++ = *path;
  }
  *to = '\0';
  return template;
}

char *gconv_template_folder(const char *template) {
  size_t length = fixed_length(template);
  while (length > 0 && template[length - 1] != '/')
    length--;
  return undouble(template, length);
}

/* ---- Fields -------------------------------------------------------------------------------------------------------- */

static int digits(size_t number) {
  return snprintf(NULL, 0, "%zu", number);
}

/* Writes the value of the field whose name is the `length` bytes at `name`. Returns false if there is no such field. */
static bool put_value(FILE *out, const char *name, size_t length, const gconv_template_values *values) {
  if (length == 4 && memcmp(name, "stem", 4) == 0)
    fprintf(out, "%.*s%s", values->stem_length, values->stem, values->suffix);
  else if (length == 3 && memcmp(name, "ext", 3) == 0)
    fprintf(out, "%.*s", values->extension_length, values->extension);
  else if (length == 6 && (memcmp(name, "filter", 6) == 0 || memcmp(name, "output", 6) == 0))
    fputs(values->filter, out);
  else if (length == 5 && memcmp(name, "index", 5) == 0)
    fprintf(out, "%0*zu", digits(values->index_count), values->index);
  else if (length == 5 && memcmp(name, "frame", 5) == 0)
    fprintf(out, "%0*zu", digits(values->frame_count), values->frame);
  else
    return false;
  return true;
}

const char *gconv_template_expand(FILE *out, const char *part, size_t length, const gconv_template_values *values,
                                  size_t *wrong) {
  const char *end = part + length;
  for (const char *at = part; at < end; at++) {
    if (*at != '{' || is_doubled(at, end)) {
      fputc(*at, out);
      at += is_doubled(at, end);
      continue;
    }
    size_t name = strcspn(at + 1, "{}/");
    bool closed = at[1 + name] == '}';
    if (!closed || !put_value(out, at + 1, name, values)) {
      *wrong = name + (closed ? 2 : 1);
      return at;
    }
    at += name + 1;
  }
  return NULL;
}

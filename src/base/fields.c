/* SPDX-License-Identifier: MIT */
/* Texts name options of the command line. For callers of the library, this file replaces options by names of fields. */
#include "base/fields.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool names_options;

void gconv_name_options(void) {
  names_options = true;
}

/* Phrases, and the texts that replace them. A replacement must not be longer. */
static const struct {
  const char *option, *field;
} others[] = {
    {"--decode gpu", "decoder=gpu"},
    {"--depth float", "float32"},
    {"--depth", "'type'"},
    {"--filter-format", "'syntax'"},
    {"--layout nchw", "axes=NCHW"},
    {"--layout nhwc", "axes=NHWC"},
    {"--no-clobber", "existing"},
    {"--scale standard", "scaling=standard"},
    {"--skip-existing", "existing=skip"},
    {"-d cpu", "cpu"},
    {"-d cuda", "cuda"},
    {"-o results/", "results/"},
    {"with --raw", "in syntax"},
};

/* Words that are the value of an option if they stand after it. */
static const char values[] = " _NAME N abs deflate drop magnitude mean minmax mosaic none npy premultiply same signed ";

/* Returns the bytes of the word at the beginning of the text, which ends before a blank or a punctuation mark. A full stop
 * that is followed by more of the word counts as a byte of the word. */
static size_t word_bytes(const char *text) {
  size_t bytes = strcspn(text, " ,.:;)'");
  return text[bytes] == '.' && text[bytes + 1] > ' ' ? bytes + 1 : bytes;
}

/* Returns whether the text begins with a blank and a value. */
static bool is_value(const char *text) {
  char word[16];
  size_t length = text[0] == ' ' ? word_bytes(text + 1) : 0;
  if (length == 0 || length + 3 > sizeof word)
    return false;
  snprintf(word, sizeof word, " %.*s ", (int)length, text + 1);
  return strstr(values, word);
}

/* If the text begins with an option, replaces it by its field at *to, which moves on. Returns the option's bytes, or 0. */
static size_t replace_option(const char *from, char **to) {
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    size_t bytes = strlen(others[i].option), length = strlen(others[i].field);
    if (strncmp(from, others[i].option, bytes) == 0 && word_bytes(from + bytes) == 0) {
      memcpy(*to, others[i].field, length);
      *to += length;
      return bytes;
    }
  }
  size_t bytes = strspn(from, "-abcdefghijklmnopqrstuvwxyz");
  if (bytes < 3 || strncmp(from, "--", 2) != 0 || word_bytes(from + bytes) > 0)
    return 0;
  bool has_value = is_value(from + bytes);
  if (!has_value)
    *(*to)++ = '\'';
  for (size_t i = 2; i < bytes; i++) /* --max-pixels: 'max_pixels' */
    *(*to)++ = from[i] == '-' ? '_' : from[i];
  *(*to)++ = has_value ? '=' : '\'';
  return has_value ? bytes + 1 : bytes;
}

void gconv_name_fields(char *text) {
  char *to = text, before = '\0';
  if (names_options)
    return;
  for (const char *from = text; *from;) {
    size_t bytes = before == ' ' || before == '(' ? replace_option(from, &to) : 0;
    if (bytes == 0)
      *to++ = *from;
    from += bytes > 0 ? bytes : 1;
    before = from[-1];
  }
  *to = '\0';
}

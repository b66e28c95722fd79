/* SPDX-License-Identifier: MIT */
#include "cli/documented.h"
#include "base/suggest.h"
#include "cli/common.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Kinds of rows. WORD: words with commas between, and their meaning. GPU_ALGORITHM: a name, and what it is for. TOPIC: a
 * file, and one of its headings. NAME: names in a table, with commas between, and their description there. */
typedef enum kind { WORD, GPU_ALGORITHM, TOPIC, NAME } kind;

static const struct {
  kind kind;
  const char *name, *text;
} rows[] = {
#define ROW(kind, name, text) {kind, name, text},
#include "documented.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

/* ---- Words ---- */

const char *gconv_documented_words_at(size_t index) {
  for (size_t i = 0; i < ROWS; i++)
    if (rows[i].kind == WORD && index-- == 0)
      return rows[i].name;
  return NULL;
}

static bool print_rows(kind of, const char *word) {
  bool printed = false;
  for (size_t i = 0; i < ROWS; i++)
    if (rows[i].kind == of && gconv_find_word(rows[i].name, ',', word, strlen(word))) {
      printf("%s: %s\n", rows[i].name, rows[i].text);
      printed = true;
    }
  return printed;
}

bool gconv_documented_print_meaning(const char *word) {
  return print_rows(WORD, word);
}

bool gconv_documented_print_name(const char *word) {
  return print_rows(NAME, word);
}

/* ---- Headings ---- */

/* True if two words are equal, or differ by an s at the end of one. */
static bool is_same(const char *a, size_t length_a, const char *b, size_t length_b) {
  size_t length = length_a < length_b ? length_a : length_b;
  bool plural_a = length_a == length + 1 && (a[length] == 's' || a[length] == 'S');
  bool plural_b = length_b == length + 1 && (b[length] == 's' || b[length] == 'S');
  return strncasecmp(a, b, length) == 0 && (length_a == length_b || plural_a || plural_b);
}

static bool is_in_heading(const char *heading, const char *word) {
  static const char between[] = " ,.:?!()'/";
  for (const char *at = heading; *at; at += strcspn(at, between), at += strspn(at, between))
    if (is_same(at, strcspn(at, between), word, strlen(word)))
      return true;
  return strcasestr(heading, word) && strchr(word, ' ');
}

bool gconv_documented_print_places(const char *word) {
  static const char too_common[] =
      "that, what, with, from, this, than, they, then, have, come, those, other, others, ways, nothing";
  enum { SHORTEST = 3 }; /* letters: shorter words are such as "of" and "to" */
  bool printed = false;
  if (strlen(word) < SHORTEST || gconv_find_word(too_common, ',', word, strlen(word)))
    return false;
  for (size_t i = 0; i < ROWS; i++)
    if (rows[i].kind == TOPIC && is_in_heading(rows[i].text, word)) {
      printf("%s%s: %s\n", printed ? "" : "In the documentation:\n", rows[i].name, rows[i].text);
      printed = true;
    }
  return printed;
}

/* ---- Algorithms ---- */

bool gconv_documented_print_algorithm(const char *word) {
  bool printed = false;
  for (size_t i = 0; i < ROWS && !gconv_has_gpu_algorithms(); i++)
    if (rows[i].kind == GPU_ALGORITHM && strcasecmp(rows[i].name, word) == 0) {
      printf("cuda  %-13s  %s (not here: this gconv was built without CUDA)\n", rows[i].name, rows[i].text);
      printed = true;
    }
  return printed;
}

const char *gconv_documented_lack(const char *algorithm) {
  for (size_t i = 0; i < ROWS && !gconv_has_gpu_algorithms(); i++)
    if (rows[i].kind == GPU_ALGORITHM && strcasecmp(rows[i].name, algorithm) == 0)
      return "this algorithm is for GPUs, and this gconv was built without CUDA: gconv algorithms lists those of this build";
  return NULL;
}

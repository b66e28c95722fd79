/* SPDX-License-Identifier: MIT */
/* Reads the text of networks, "4*(conv 16 3x3 relu), conv 1 3x3, residual" (docs/learning.md), into a list of specs, one a
 * layer. net_make.c makes layers of them. */
#include "bank/kind.h"
#include "bank/network_file.h"
#include "base/arguments.h"
#include "base/lists.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "filter/number.h"
#include "train/net_spec.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NESTED = 16 /* the most open parentheses */ };

static const char *const option_names[] = {"valid", "same", "dilation", "groups"};
enum { OPTIONS = 4 };

/* The words that begin a layer: "dense", which is a convolution of the whole input, and all kinds of layers. */
#define ROW(name, value) #name,
static const char *const words[] = {"dense", GCONV_EACH_LAYER_KIND(ROW)};
#undef ROW
enum { WORDS = 1 + GCONV_EACH_LAYER_KIND(GCONV_COUNTED) };

/* ---- Errors ---- */

gconv_status gconv_net_fail_at(const gconv_net_reader *r, gconv_status status, const char *begin, const char *end,
                               const char *format, ...) {
  enum { SHOWN = 40 };
  char reason[512], quote[SHOWN + 1];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  size_t length = (size_t)(end - begin), shown = length < SHOWN ? length : SHOWN;
  memcpy(quote, begin, shown);
  quote[shown] = '\0';
  gconv_make_printable(quote);
  gconv_make_printable(reason);
  if (length == 0)
    return gconv_fail(status, "the network's text, at its end: %s", reason);
  return gconv_fail(status, "the network's text, at \"%s\"%s (character %zu): %s", quote, shown < length ? "..." : "",
                    (size_t)(begin - r->text) + 1, reason);
}

/* ---- Words ---- */

static void skip_spaces(gconv_net_reader *r) {
  while (isspace((unsigned char)*r->at))
    r->at++;
}

/* Returns the end of the word at r->at. A word ends before a space, comma, parenthesis or '*'. */
static const char *end_of_word(const gconv_net_reader *r) {
  const char *end = r->at;
  while (*end && !isspace((unsigned char)*end) && !strchr(",()*", *end))
    end++;
  return end;
}

/* Returns the end of what an error quotes: the word, or one character if there is no word. */
static const char *end_of_sign(const gconv_net_reader *r) {
  const char *end = end_of_word(r);
  return end > r->at || !*end ? end : end + 1;
}

static bool is_word(const char *begin, const char *end, const char *word) {
  size_t length = (size_t)(end - begin);
  return strlen(word) == length && strncmp(begin, word, length) == 0;
}

/* Returns the number of the word begin .. end among the names, or -1. */
static int find_word(const char *begin, const char *end, const char *const *names, int count) {
  for (int i = 0; i < count; i++)
    if (is_word(begin, end, names[i]))
      return i;
  return -1;
}

/* Compares the word begin .. end with the names. *best becomes the most similar name. */
static void suggest(const char *begin, const char *end, const char *const *names, int count, gconv_suggestion *best) {
  char word[64];
  size_t length = (size_t)(end - begin);
  if (length >= sizeof word)
    return;
  memcpy(word, begin, length);
  word[length] = '\0';
  for (int i = 0; i < count; i++)
    gconv_suggest(best, word, names[i]);
}

/* Reads the next word, a whole number from 1 on. */
static gconv_status read_count(gconv_net_reader *r, const char *what, int32_t *count) {
  skip_spaces(r);
  const char *end = end_of_word(r);
  if (!gconv_count_read(r->at, end, count) || *count < 1)
    return gconv_net_fail_at(r, GCONV_BAD_ARGUMENT, r->at, end_of_sign(r), "%s is expected, a whole number from 1 on", what);
  r->at = end;
  return GCONV_OK;
}

/* ---- Layers ---- */

/* Reads "5x5" or "5x5/2". */
static gconv_status read_size(gconv_net_reader *r, gconv_net_spec *s) {
  skip_spaces(r);
  const char *end = end_of_word(r), *x = memchr(r->at, 'x', (size_t)(end - r->at));
  const char *slash = memchr(r->at, '/', (size_t)(end - r->at)), *end_columns = slash ? slash : end;
  bool good = x && x < end_columns && gconv_count_read(r->at, x, &s->rows) &&
              gconv_count_read(x + 1, end_columns, &s->columns) && s->rows > 0 && s->columns > 0;
  if (good && slash)
    good = gconv_count_read(slash + 1, end, &s->stride) && s->stride > 0;
  if (!good)
    return gconv_net_fail_at(
        r, GCONV_BAD_ARGUMENT, r->at, end_of_sign(r),
        "the size of the filters is expected, rows x columns, and /stride if that is not 1: 3x3 or 5x5/2");
  if (s->stride > GCONV_NET_LARGEST_EXTENT)
    return gconv_net_fail_at(r, GCONV_TOO_LARGE, r->at, end, "a stride is at most %d", GCONV_NET_LARGEST_EXTENT);
  GCONV_TRY(gconv_filter_check_size("the network's text", s->rows, s->columns));
  r->at = end;
  return GCONV_OK;
}

/* Reads the word begin .. end if it is an activation, such as "leaky=0.1". */
static gconv_status read_activation(const gconv_net_reader *r, const char *begin, const char *end, gconv_net_spec *s,
                                    bool *is_one) {
  const char *equals = NULL;
  *is_one = gconv_activation_find(begin, end, &s->activation, &equals);
  if (!*is_one)
    return GCONV_OK;
  double slope = s->activation == GCONV_ACTIVATION_LEAKY ? 0.01 : s->activation == GCONV_ACTIVATION_SIGMOID ? 1 : 0;
  if (equals && !gconv_activation_has_slope(s->activation))
    return gconv_net_fail_at(r, GCONV_BAD_ARGUMENT, begin, end, "only leaky and sigmoid have a slope");
  if (equals && (gconv_number_read(equals + 1, end, &slope) || !((float)slope > 0)))
    return gconv_net_fail_at(r, GCONV_BAD_ARGUMENT, begin, end, "the slope is a number above 0, as in leaky=0.1");
  s->slope = (float)slope;
  return GCONV_OK;
}

static gconv_status read_option(gconv_net_reader *r, int option, gconv_net_spec *s) {
  switch (option) {
  case 0:
  case 1:
    s->valid = option == 0;
    return GCONV_OK;
  case 2:
    return read_count(r, "the dilation", &s->dilation);
  default:
    return read_count(r, "the number of groups", &s->groups);
  }
}

static bool is_name(const char *begin, const char *end) {
  bool good = begin < end && (isalpha((unsigned char)*begin) || *begin == '_');
  for (const char *c = begin; c < end; c++)
    good = good && (isalnum((unsigned char)*c) || *c == '_');
  return good;
}

static gconv_status read_name(gconv_net_reader *r, gconv_net_name *name) {
  skip_spaces(r);
  const char *end = end_of_word(r);
  if (!is_name(r->at, end))
    return gconv_net_fail_at(
        r, GCONV_BAD_ARGUMENT, r->at, end_of_sign(r),
        "a name for the output of a layer is expected, of letters, digits and _, such as: conv 16 3x3 relu as a");
  *name = (gconv_net_name){r->at, (size_t)(end - r->at)};
  r->at = end;
  return GCONV_OK;
}

/* Reads "as NAME" at the end of a layer, if it is there. */
static gconv_status read_as(gconv_net_reader *r, gconv_net_spec *s) {
  skip_spaces(r);
  const char *end = end_of_word(r);
  if (!is_word(r->at, end, "as"))
    return GCONV_OK;
  r->at = end;
  return read_name(r, &s->own);
}

/* Reads counts, sizes and names that follow the name of a layer, up to its words. */
static gconv_status read_arguments(gconv_net_reader *r, gconv_net_spec *s, unsigned text) {
  if (text & GCONV_TEXT_FILTERS)
    GCONV_TRY(read_count(r, s->dense ? "the number of outputs of a dense layer" : "the number of filters of a convolution",
                         &s->filters));
  if ((text & GCONV_TEXT_SIZE) && !s->dense)
    GCONV_TRY(read_size(r, s));
  if (text & GCONV_TEXT_WINDOW) {
    s->stride = 0;
    GCONV_TRY(read_size(r, s));
  }
  if (text & GCONV_TEXT_FACTOR) {
    GCONV_TRY(read_count(r, "the factor by which shuffle enlarges", &s->rows));
    s->columns = s->rows;
  }
  if (text & GCONV_TEXT_NAME) {
    skip_spaces(r);
    if (*r->at && *r->at != ',' && *r->at != ')' && !is_word(r->at, end_of_word(r), "as"))
      GCONV_TRY(read_name(r, &s->other));
  }
  return GCONV_OK;
}

/* Reads the words after the sizes: in any order, each once, up to "as". */
static gconv_status read_words(gconv_net_reader *r, gconv_net_spec *s, unsigned text) {
  const bool geometry = (text & GCONV_TEXT_GEOMETRY) && !s->dense;
  bool seen[2 + OPTIONS] = {false}; /* the activation, the padding, dilation, groups */
  for (skip_spaces(r); *r->at && *r->at != ',' && *r->at != ')'; skip_spaces(r)) {
    const char *begin = r->at, *end = end_of_word(r);
    bool activation = false;
    if (is_word(begin, end, "as"))
      return GCONV_OK;
    GCONV_TRY(read_activation(r, begin, end, s, &activation));
    const char *sign = begin + strcspn(begin, ":="), *end_name = sign < end ? sign : end;
    int option = !geometry ? -1 : find_word(begin, end_name, option_names, OPTIONS);
    if (option >= 0 && end_name < end && option < 2) /* same and valid take no number */
      option = -1;
    if (!activation && option < 0) {
      gconv_suggestion best = {0};
      suggest(begin, end, gconv_activation_words, GCONV_ACTIVATIONS, &best);
      if (geometry)
        suggest(begin, end, option_names, OPTIONS, &best);
      return gconv_net_fail_at(
          r, GCONV_BAD_ARGUMENT, begin, end_of_sign(r),
          "after the sizes of %s comes an activation (none, relu, leaky=SLOPE, sigmoid=SLOPE, tanh, softmax)%s, "
          "or a comma%s%s%s",
          s->dense ? "dense" : gconv_layer_kind_name(s->kind), geometry ? ", valid, same, dilation:D, groups:G" : "",
          best.name[0] ? ": did you mean " : "", best.name, best.name[0] ? "?" : "");
    }
    int number = activation ? 0 : option < 2 ? 1 : option;
    if (seen[number])
      return gconv_net_fail_at(r, GCONV_BAD_ARGUMENT, begin, end, "this layer already has a word of this kind");
    seen[number] = true;
    r->at = option >= 0 && end_name < end ? end_name + 1 : end;
    if (option >= 0)
      GCONV_TRY(read_option(r, option, s));
  }
  return GCONV_OK;
}

static gconv_status add_spec(gconv_net_reader *r, const gconv_net_spec *s) {
  if (r->count == GCONV_NETWORK_MAX_LAYERS)
    return gconv_net_fail_at(r, GCONV_TOO_LARGE, s->begin, s->end, "a network has at most %d layers",
                             GCONV_NETWORK_MAX_LAYERS);
  gconv_net_spec *specs = gconv_grown(r->specs, r->count, sizeof *specs);
  GCONV_NEED_MEMORY(specs, "no memory for a network");
  r->specs = specs;
  r->specs[r->count++] = *s;
  return GCONV_OK;
}

/* Lists the kinds of layers: "dense K, conv K RxS, mean, ... or prelu". */
static const char *list_layers(char *text, size_t size) {
  size_t used = (size_t)snprintf(text, size, "dense K");
  for (int i = 0; i + 1 < WORDS && used < size; i++) {
    const unsigned takes = gconv_layer_form_of((gconv_layer_kind)i)->text;
    used +=
        (size_t)snprintf(text + used, size - used, "%s%s%s%s%s%s", i + 2 < WORDS ? ", " : " or ", words[i + 1],
                         takes & GCONV_TEXT_FILTERS ? " K" : "", takes & (GCONV_TEXT_SIZE | GCONV_TEXT_WINDOW) ? " RxS" : "",
                         takes & GCONV_TEXT_FACTOR ? " N" : "", takes & GCONV_TEXT_NAME ? " NAME" : "");
  }
  return text;
}

static gconv_status read_layer(gconv_net_reader *r) {
  gconv_net_spec s = {.begin = r->at, .rows = 1, .columns = 1, .stride = 1, .dilation = 1, .groups = 1};
  const char *end = end_of_word(r);
  int word = find_word(r->at, end, words, WORDS);
  if (word < 0) {
    char names[300];
    gconv_suggestion best = {0};
    suggest(r->at, end, words, WORDS, &best);
    return gconv_net_fail_at(r, GCONV_BAD_ARGUMENT, r->at, end_of_sign(r), "a layer is %s%s%s%s",
                             list_layers(names, sizeof names), best.name[0] ? ": did you mean " : "", best.name,
                             best.name[0] ? "?" : "");
  }
  s.dense = word == 0;
  s.kind = s.dense ? GCONV_LAYER_CONV : (gconv_layer_kind)(word - 1);
  r->at = end;
  const unsigned text = gconv_layer_form_of(s.kind)->text;
  GCONV_TRY(read_arguments(r, &s, text));
  if (text & GCONV_TEXT_ACTIVATION)
    GCONV_TRY(read_words(r, &s, text));
  GCONV_TRY(read_as(r, &s));
  s.end = r->at;
  while (s.end > s.begin && isspace((unsigned char)s.end[-1]))
    s.end--;
  if (s.activation == GCONV_ACTIVATION_SOFTMAX && s.filters == 1)
    return gconv_net_fail_at(
        r, GCONV_BAD_ARGUMENT, s.begin, s.end,
        "softmax of one output is 1, whatever the input: for one output take sigmoid, for two classes 2 softmax");
  return add_spec(r, &s);
}

static gconv_status read_list(gconv_net_reader *r);

/* Reads "( ... )", after a number and '*' if there is one, and repeats the specs in the parentheses. */
static gconv_status read_repeat(gconv_net_reader *r, int32_t times) {
  const char *open = r->at++;
  if (++r->nested > MOST_NESTED)
    return gconv_net_fail_at(r, GCONV_TOO_LARGE, open, open + 1, "more than %d parentheses are open at a time", MOST_NESTED);
  size_t first = r->count;
  GCONV_TRY(read_list(r));
  if (*r->at != ')')
    return gconv_net_fail_at(r, GCONV_BAD_ARGUMENT, open, open + 1, "this parenthesis is not closed");
  r->at++;
  r->nested--;
  size_t count = r->count - first;
  for (int32_t i = 1; i < times; i++)
    for (size_t j = 0; j < count; j++) {
      gconv_net_spec copy = r->specs[first + j];
      GCONV_TRY(add_spec(r, &copy));
    }
  return GCONV_OK;
}

static gconv_status read_item(gconv_net_reader *r) {
  skip_spaces(r);
  if (*r->at == '(')
    return read_repeat(r, 1);
  if (!isdigit((unsigned char)*r->at))
    return read_layer(r);
  int32_t times = 1;
  GCONV_TRY(read_count(r, "how often layers are repeated", &times));
  skip_spaces(r);
  if (*r->at == '*')
    r->at++;
  skip_spaces(r);
  if (*r->at != '(')
    return gconv_net_fail_at(r, GCONV_BAD_ARGUMENT, r->at, end_of_sign(r),
                             "after a number come the layers that are repeated, in parentheses: 4*(conv 16 3x3 relu)");
  return read_repeat(r, times);
}

/* Reads items up to the end of the text, or a ')'. */
static gconv_status read_list(gconv_net_reader *r) {
  for (;;) {
    GCONV_TRY(read_item(r));
    skip_spaces(r);
    if (*r->at != ',')
      return GCONV_OK;
    r->at++;
  }
}

gconv_status gconv_net_read(gconv_net_reader *r) {
  skip_spaces(r);
  if (!*r->at)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the network's text is empty: write layers with commas between them, such as "
                                          "\"dense 63 tanh, dense 26 softmax\"");
  GCONV_TRY(read_list(r));
  if (*r->at)
    return gconv_net_fail_at(r, GCONV_BAD_ARGUMENT, r->at, end_of_sign(r), "a comma is expected between layers");
  return GCONV_OK;
}

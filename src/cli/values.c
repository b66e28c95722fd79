/* SPDX-License-Identifier: MIT */
/* The kinds of values that many options have. */
#include "base/memory.h"
#include "base/suggest.h"
#include "cli/options.h"
#include "gconv_learn.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- Flags and texts ------------------------------------------------------------------------------------------------- */

gconv_status gconv_take_flag(const gconv_given *given) {
  *(bool *)given->field = true;
  return GCONV_OK;
}

void gconv_print_flag(FILE *out, const void *field) {
  fputs(*(const bool *)field ? "yes" : "no", out);
}

gconv_status gconv_take_text(const gconv_given *given) {
  *(const char **)given->field = given->value;
  return GCONV_OK;
}

void gconv_print_text(FILE *out, const void *field) {
  const char *text = *(const char *const *)field;
  fputs(text ? text : "", out);
}

gconv_status gconv_take_once(const gconv_given *given) {
  const char *before = *(const char **)given->field;
  if (before)
    return gconv_refuse("given twice, before with %s", before);
  return gconv_take_text(given);
}

gconv_status gconv_take_texts(const gconv_given *given) {
  return gconv_texts_add(given->field, strdup(given->value)) ? GCONV_OK : gconv_no_memory();
}

/* ---- Filters --------------------------------------------------------------------------------------------------------- */

/* True if the text may be a list of names or paths of filters with commas between; false for taps, and for a file. */
static bool may_be_list(const char *text) {
  return (isalpha((unsigned char)text[0]) || strchr("_./", text[0])) && !strpbrk(text, "[](){}*;\n") &&
         access(text, F_OK) != 0;
}

/* True if a part of the list belongs to the filter before it. */
static bool is_parameter(const char *part) {
  size_t name = strcspn(part, ":=,");
  return part[name] == '=' || !(isalpha((unsigned char)part[0]) || strchr("_./", part[0]));
}

bool gconv_filters_split(const char *list, gconv_texts *specs) {
  bool several = may_be_list(list);
  for (const char *begin = list, *end; begin; begin = *end ? end + 1 : NULL) {
    end = several ? begin + strcspn(begin, ",") : begin + strlen(begin);
    while (*end && (end[1] == '\0' || is_parameter(end + 1 + strspn(end + 1, " "))))
      end += 1 + strcspn(end + 1, ",");
    begin += strspn(begin, several ? " " : "");
    if (!gconv_texts_add(specs, strndup(begin, (size_t)(end - begin))))
      return false;
  }
  return true;
}

gconv_status gconv_take_filters(const gconv_given *given) {
  return gconv_filters_split(given->value, given->field) ? GCONV_OK : gconv_no_memory();
}

/* ---- Numbers --------------------------------------------------------------------------------------------------------- */

gconv_status gconv_take_number(const gconv_given *given) {
  double other;
  if (gconv_parse_float(given->value, given->field))
    return GCONV_OK;
  bool is_number = gconv_parse_number(given->value, &other);
  return gconv_refuse("this takes a number%s, such as 0.5, 1/8 or 1e-3",
                      is_number ? " that float32 has, 0 or from 1e-45 to 3.4e38" : "");
}

void gconv_print_number(FILE *out, const void *field) {
  fprintf(out, "%a", *(const double *)field);
}

gconv_status gconv_take_numbers(const gconv_given *given) {
  gconv_numbers *numbers = given->field;
  const int most = (int)strlen(given->value) + 1;
  GCONV_FREED double *parsed = calloc((size_t)most, sizeof *parsed);
  float *items = calloc((size_t)most, sizeof *items);
  int count = parsed && items ? gconv_parse_floats(given->value, ',', most, parsed) : 0;
  for (int i = 0; i < count; i++)
    items[i] = (float)parsed[i];
  free(count > 0 ? numbers->items : items);
  if (count == 0)
    return gconv_refuse("this takes a number (up to 3.4e38), or one for each channel with commas between");
  *numbers = (gconv_numbers){items, count};
  return GCONV_OK;
}

void gconv_print_numbers(FILE *out, const void *field) {
  const gconv_numbers *numbers = field;
  for (int i = 0; i < numbers->count; i++)
    fprintf(out, "%s%a", i > 0 ? "," : "", (double)numbers->items[i]);
}

gconv_status gconv_take_integer(const gconv_given *given) {
  int64_t integer;
  if (gconv_parse_integer(given->value, given->option->least, given->option->most, &integer)) {
    *(int *)given->field = (int)integer;
    return GCONV_OK;
  }
  if (given->option->takes)
    return gconv_refuse("this takes %s", given->option->takes);
  return gconv_refuse("this takes an integer from %d to %d", given->option->least, given->option->most);
}

void gconv_print_integer(FILE *out, const void *field) {
  fprintf(out, "%d", *(const int *)field);
}

gconv_status gconv_take_pair(const gconv_given *given) {
  int32_t numbers[2], *pair = given->field;
  int count = gconv_parse_integers(given->value, ',', 2, 1, given->option->most, numbers);
  if (count == 0)
    return gconv_refuse("this takes one or two integers from 1 to %d: N or Y,X", given->option->most);
  pair[0] = numbers[0];
  pair[1] = numbers[count - 1];
  return GCONV_OK;
}

void gconv_print_pair(FILE *out, const void *field) {
  const int32_t *pair = field;
  fprintf(out, "%d,%d", pair[0], pair[1]);
}

gconv_status gconv_take_count(const gconv_given *given) {
  uint64_t count;
  if (!gconv_parse_count(given->value, &count))
    return gconv_refuse("this takes %s (k, M and G may follow the number)", given->option->takes);
  *(uint64_t *)given->field = count;
  return GCONV_OK;
}

void gconv_print_count(FILE *out, const void *field) {
  fprintf(out, "%" PRIu64, *(const uint64_t *)field);
}

gconv_status gconv_take_share(const gconv_given *given) {
  double *share = given->field;
  if (!gconv_parse_share(given->value, share) || !(*share > 0 && *share < 1))
    return gconv_refuse("this takes a share above 0 and below 100%%, such as 20%% or 0.2");
  return GCONV_OK;
}

gconv_status gconv_take_positive(const gconv_given *given) {
  double *number = given->field;
  if (!gconv_parse_number(given->value, number) || !(*number > 0))
    return gconv_refuse("this takes a number above 0");
  return GCONV_OK;
}

gconv_status gconv_take_from_zero(const gconv_given *given) {
  double *number = given->field;
  if (!gconv_parse_number(given->value, number) || *number < 0)
    return gconv_refuse("this takes %s", given->option->takes);
  return GCONV_OK;
}

/* ---- Words ----------------------------------------------------------------------------------------------------------- */

bool gconv_option_word(const gconv_option *option, size_t index, char word[64]) {
  const char *at = option->words ? option->words : option->word_at ? option->word_at(index) : NULL;
  for (; option->words && at && index > 0; index--) {
    at = strchr(at, '|');
    at = at ? at + 1 : NULL;
  }
  if (at)
    snprintf(word, 64, "%.*s", (int)strcspn(at, "|"), at);
  return at != NULL;
}

/* Returns the synonym for a name of `length` letters; NULL: none. */
static const gconv_synonym *find_synonym(const gconv_option *option, const char *value, size_t length) {
  for (const gconv_synonym *row = option->synonyms; row && row->words; row++)
    if (gconv_find_word(row->words, ' ', value, length))
      return row;
  return NULL;
}

gconv_status gconv_option_meaning(const gconv_option *option, const char *value, gconv_texts *owned, const char **meaning) {
  size_t length = strcspn(value, ":");
  const gconv_synonym *found = find_synonym(option, value, length);
  char *text = NULL;
  *meaning = value;
  if (!found)
    return GCONV_OK;
  if (found->unclear)
    return gconv_refuse("%s", found->unclear);
  if (asprintf(&text, "%s%s", found->value, value + length) < 0)
    return gconv_no_memory();
  *meaning = text;
  return gconv_texts_add(owned, text) ? GCONV_OK : gconv_no_memory();
}

gconv_status gconv_option_find_word(const gconv_option *option, const char *value, int *index) {
  gconv_suggestion best = {0};
  char list[512] = "", word[64];
  size_t used = 0;
  for (int i = 0; gconv_option_word(option, (size_t)i, word); i++) {
    if (strcasecmp(word, value) == 0) {
      *index = i;
      return GCONV_OK;
    }
    gconv_suggest(&best, value, word);
    if (used < sizeof list)
      used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", word);
  }
  const char *lack = option->lack ? option->lack(value) : NULL;
  if (lack)
    return gconv_refuse("%s", lack);
  if (best.name[0])
    return gconv_refuse("did you mean %s? There are %s", best.name, list);
  return gconv_refuse("there are %s", list);
}

bool gconv_option_has_value(const gconv_option *option, const char *word) {
  char value[64];
  bool found = find_synonym(option, word, strlen(word)) != NULL;
  for (size_t i = 0; !found && gconv_option_word(option, i, value); i++)
    found = strcasecmp(value, word) == 0;
  return found;
}

gconv_status gconv_option_find_words(const gconv_option *option, const char *list) {
  for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
    char word[64];
    int index;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
    gconv_status status = gconv_option_find_word(option, word, &index);
    if (status != GCONV_OK)
      return gconv_fail(status, "there is no algorithm '%s': %s", word, gconv_last_error());
  }
  return list[0] ? GCONV_OK : gconv_refuse("this takes names with commas between");
}

gconv_status gconv_take_word(const gconv_given *given) {
  int index = 0;
  if (given->value)
    GCONV_TRY(gconv_option_find_word(given->option, given->value, &index));
  *(int *)given->field = given->option->least + index;
  return GCONV_OK;
}

gconv_status gconv_take_name(const gconv_given *given) {
  int index;
  GCONV_TRY(gconv_option_find_word(given->option, given->value, &index));
  *(const char **)given->field = given->option->word_at(index >= 0 ? (size_t)index : 0);
  return GCONV_OK;
}

/* ---- Borders and windows --------------------------------------------------------------------------------------------- */

gconv_status gconv_take_border(const gconv_given *given) {
  gconv_given_border *border = given->field;
  double value = 0;
  int index = GCONV_BORDER_CONSTANT;
  if (strncmp(given->value, "constant:", 9) == 0) {
    if (!gconv_parse_float(given->value + 9, &value))
      return gconv_refuse("constant takes a number, such as constant:0.5");
  } else {
    GCONV_TRY(gconv_option_find_word(given->option, given->value, &index));
    if (index == GCONV_BORDER_CONSTANT)
      return gconv_refuse("constant takes a value, such as constant:0.5");
  }
  *border = (gconv_given_border){(gconv_border)index, value, true};
  return GCONV_OK;
}

void gconv_print_border(FILE *out, const void *field) {
  const gconv_given_border *border = field;
  fprintf(out, "%d %a", (int)border->border, border->value);
}

gconv_status gconv_take_windows(const gconv_given *given) {
  int32_t numbers[2] = {0, 0};
  if (gconv_parse_integers(given->value, ':', 2, 1, 1 << 24, numbers) == 0)
    return gconv_refuse("this takes S or S:HOP, such as 200:50: windows of S samples, which begin every HOP samples");
  *(gconv_windows *)given->field = (gconv_windows){numbers[0], numbers[1]};
  return GCONV_OK;
}

/* ---- Values of commands that learn ----------------------------------------------------------------------------------- */

gconv_status gconv_take_batch(const gconv_given *given) {
  uint64_t count = SIZE_MAX;
  if (strcmp(given->value, "full") != 0 && !gconv_parse_count(given->value, &count))
    return gconv_refuse("this takes a number of cases from 1 on, or full");
  *(size_t *)given->field = (size_t)count;
  return GCONV_OK;
}

gconv_status gconv_take_elimination(const gconv_given *given) {
  gconv_training_options *training = given->field;
  double numbers[2];
  int count = gconv_parse_floats(given->value, ':', 2, numbers);
  if (count == 0 || (count == 2 && numbers[1] <= 0))
    return gconv_refuse("this takes lambda, and after a colon the scale of the weights: 1e-4:1");
  training->elimination = numbers[0];
  training->elimination_scale = count == 2 ? numbers[1] : training->elimination_scale;
  return GCONV_OK;
}

gconv_status gconv_take_separator(const gconv_given *given) {
  bool tab = strcmp(given->value, "tab") == 0 || strcmp(given->value, "\\t") == 0;
  char letter = tab ? '\t' : given->value[0];
  if (!letter || (!tab && given->value[1]) || strchr("\"\n\r.+-0123456789", letter))
    return gconv_refuse("this takes one character, such as ';', or tab");
  *(char *)given->field = letter;
  return GCONV_OK;
}

gconv_status gconv_take_size(const gconv_given *given) {
  int32_t *size = given->field, numbers[2];
  int count = gconv_parse_integers(given->value, 'x', 2, 1, given->option->most, numbers);
  if (count == 0)
    return gconv_refuse("this takes a size from 1 to %d, such as 7, or ROWSxCOLUMNS, such as 5x9", given->option->most);
  size[0] = numbers[0];
  size[1] = numbers[count - 1];
  return GCONV_OK;
}

/* Keeps 0 as -1: in the options of the library, a tube of 0 means the default, and a negative one has the width 0. */
gconv_status gconv_take_tube(const gconv_given *given) {
  double *number = given->field;
  GCONV_TRY(gconv_take_from_zero(given));
  *number = *number == 0 ? -1 : *number;
  return GCONV_OK;
}

gconv_status gconv_take_megabytes(const gconv_given *given) {
  const double most = 1e9; /* no machine has so much */
  double number;
  if (!gconv_parse_number(given->value, &number) || !(number > 0 && number <= most))
    return gconv_refuse("this takes a number of megabytes above 0, such as 1000");
  *(uint64_t *)given->field = (uint64_t)fmax(1, number * 1e6);
  return GCONV_OK;
}

gconv_status gconv_take_powers(const gconv_given *given) {
  enum { MOST_POWERS = 1000 };
  double p[3] = {0};
  bool good = gconv_parse_floats(given->value, ':', 3, p) == 3 && p[2] != 0;
  for (int i = 0; i < 3; i++)
    good = good && fabs(p[i]) <= MOST_POWERS;
  if (!good || !((p[1] - p[0]) / p[2] >= 0 && (p[1] - p[0]) / p[2] < MOST_POWERS))
    return gconv_refuse("this takes exponents of 2: the first, the last and the step, such as -5:15:2");
  *(gconv_powers *)given->field = (gconv_powers){p[0], p[1], p[2]};
  return GCONV_OK;
}

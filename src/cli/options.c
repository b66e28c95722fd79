/* SPDX-License-Identifier: MIT */
#include "cli/options.h"
#include "base/suggest.h"
#include "cli/numbers.h"

#include <stdlib.h>
#include <string.h>

/* ---- Values -------------------------------------------------------------------------------------------------------- */

static void *field_of(const gconv_option *option, void *settings) {
  return (char *)settings + option->field;
}

gconv_status gconv_option_flag(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)value;
  (void)message;
  *(bool *)field_of(option, settings) = true;
  return GCONV_OK;
}

gconv_status gconv_option_text(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)message;
  *(const char **)field_of(option, settings) = value;
  return GCONV_OK;
}

gconv_status gconv_option_text_once(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  const char **text = field_of(option, settings);
  if (*text)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "given twice, before with %s", *text);
  *text = value;
  return GCONV_OK;
}

gconv_status gconv_option_texts(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  return gconv_texts_add(field_of(option, settings), strdup(value)) ? GCONV_OK : gconv_complain_memory(message);
}

gconv_status gconv_option_number(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  if (!gconv_parse_number(value, field_of(option, settings)))
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes a number, such as 0.5, 1/8 or 1e-3");
  return GCONV_OK;
}

gconv_status gconv_option_integer(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  int64_t integer;
  if (!gconv_parse_integer(value, option->least, option->most, &integer))
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes an integer from %d to %d", option->least, option->most);
  *(int *)field_of(option, settings) = (int)integer;
  return GCONV_OK;
}

gconv_status gconv_option_choice(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  return gconv_option_find(option->choices, value, field_of(option, settings), message);
}

gconv_status gconv_option_find(const char *const *names, const char *value, int *index, gconv_message *message) {
  gconv_suggestion best = {0};
  char list[256] = "";
  size_t used = 0;
  for (int i = 0; names[i]; i++) {
    if (strcmp(names[i], value) == 0) {
      *index = i;
      return GCONV_OK;
    }
    gconv_suggest(&best, value, names[i]);
    if (used < sizeof list)
      used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
  }
  if (best.name[0])
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "did you mean %s? There are %s", best.name, list);
  return gconv_complain(message, GCONV_BAD_ARGUMENT, "there are %s", list);
}

/* ---- Parsing ------------------------------------------------------------------------------------------------------- */

static const gconv_option *find_letter(const gconv_option *table, char letter) {
  for (; table->name; table++)
    if (table->letter == letter)
      return table;
  return NULL;
}

/* The option whose name are the `length` letters at `name`. */
static const gconv_option *find_name(const gconv_option *table, const char *name, size_t length) {
  for (; table->name; table++)
    if (strlen(table->name) == length && memcmp(table->name, name, length) == 0)
      return table;
  return NULL;
}

/* An option, or "--"; "-" is standard input or output. */
static bool is_option(const char *word) {
  return word[0] == '-' && word[1] != '\0';
}

static bool takes_value(const gconv_option *option) {
  return option->value && option->value[0] != '[';
}

/* Whether `name` is one of the words in `also`, which blanks part. */
static bool is_called(const char *also, const char *name) {
  size_t length = strlen(name);
  for (const char *at = also; at && *at; at += strcspn(at, " "), at += strspn(at, " "))
    if (strcspn(at, " ") == length && memcmp(at, name, length) == 0)
      return true;
  return false;
}

/* The option that `name` may have meant: by what others call it, or by its letters. */
static void find_meant(const gconv_option *table, const char *name, gconv_suggestion *best) {
  for (; table->name; table++) {
    if (is_called(table->also, name)) {
      snprintf(best->name, sizeof best->name, "%s", table->name);
      return;
    }
    gconv_suggest(best, name, table->name);
  }
}

/* "-rv": letters of options that take no value. */
static bool are_flags(const gconv_option *table, const char *word) {
  for (const char *letter = word + 1; *letter; letter++) {
    const gconv_option *option = find_letter(table, *letter);
    if (!option || takes_value(option))
      return false;
  }
  return true;
}

static gconv_status complain_unknown(const gconv_option *table, const char *word, int length, gconv_message *message) {
  if (are_flags(table, word))
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "unknown option %s: options of one letter stand apart: -%c -%c%s",
                          word, word[1], word[2], word[3] ? " ..." : "");
  const gconv_option *glued = word[1] == '-' ? NULL : find_letter(table, word[1]);
  if (glued && takes_value(glued))
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "unknown option %s: the value stands apart: -%c %s", word, word[1],
                          word + 2 + (word[2] == '='));
  char name[64];
  snprintf(name, sizeof name, "%.*s", length - 2 > 0 ? length - 2 : 0, word + 2);
  gconv_suggestion best = {0};
  if (word[1] == '-')
    find_meant(table, name, &best);
  if (best.name[0])
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "unknown option %.*s: did you mean --%s?", length, word, best.name);
  return gconv_complain(message, GCONV_BAD_ARGUMENT, "unknown option %.*s: --help lists all", length, word);
}

/* Parses the option that begins at words[*at], and leaves *at at its last word. */
static gconv_status parse_option(const gconv_option *table, int count, char *const *words, int *at, void *settings,
                                 bool *help, gconv_message *message) {
  const char *word = words[*at], *equals = word[1] == '-' ? strchr(word, '=') : NULL;
  int length = equals ? (int)(equals - word) : (int)strlen(word);
  const gconv_option *option = NULL;
  if (word[1] == '-')
    option = find_name(table, word + 2, (size_t)length - 2);
  else if (length == 2)
    option = find_letter(table, word[1]);
  if (!option)
    return complain_unknown(table, word, length, message);
  *help = !option->parse;
  if (*help)
    return GCONV_OK;
  const char *value = equals ? equals + 1 : NULL;
  if (value && !option->value)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "%.*s takes no value, and got %s", length, word, value);
  if (!value && takes_value(option)) {
    if (*at + 1 >= count)
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "%s needs a value: %s %s", word, word, option->value);
    value = words[++*at];
  }
  gconv_status status = option->parse(option, value, settings, message);
  while (status == GCONV_OK && option->several && !equals && *at + 1 < count && !is_option(words[*at + 1]))
    status = option->parse(option, value = words[++*at], settings, message);
  if (status == GCONV_OK)
    return GCONV_OK;
  return gconv_complain(message, status, "%.*s%s%s: %s", length, word, value ? " " : "", value ? value : "", message->text);
}

gconv_status gconv_options_parse(const gconv_option *table, int count, char *const *words, void *settings,
                                 gconv_texts *operands, bool *help, gconv_message *message) {
  bool options = true;
  for (int i = 0; i < count && !*help; i++) {
    const char *word = words[i];
    if (options && strcmp(word, "--") == 0)
      options = false;
    else if (options && is_option(word))
      GCONV_TRY(parse_option(table, count, words, &i, settings, help, message));
    else if (!gconv_texts_add(operands, strdup(word)))
      return gconv_complain_memory(message);
  }
  return GCONV_OK;
}

/* ---- Help ---------------------------------------------------------------------------------------------------------- */

enum { HELP_COLUMN = 30, LINE_WIDTH = 100 };

/* Prints `text` from HELP_COLUMN on, in lines of at most LINE_WIDTH; `column` is where the line stands. */
static void print_wrapped(FILE *out, int column, const char *text) {
  while (*text) {
    if (column < HELP_COLUMN)
      fprintf(out, "%*s", HELP_COLUMN - column, "");
    else
      fprintf(out, "\n%*s", HELP_COLUMN, "");
    size_t length = strlen(text), room = LINE_WIDTH - HELP_COLUMN;
    if (length > room)
      for (length = room; length > 1 && text[length] != ' ';)
        length--;
    fprintf(out, "%.*s", (int)length, text);
    text += length + strspn(text + length, " ");
    column = LINE_WIDTH;
  }
  fputc('\n', out);
}

static void print_option(FILE *out, const gconv_option *option) {
  char name[96];
  const char *gap = option->value && option->value[0] != '[' ? " " : "", *value = option->value ? option->value : "";
  int length = option->letter ? snprintf(name, sizeof name, "  -%c, --%s%s%s", option->letter, option->name, gap, value)
                              : snprintf(name, sizeof name, "      --%s%s%s", option->name, gap, value);
  fputs(name, out);
  print_wrapped(out, length + 1 < HELP_COLUMN ? length : LINE_WIDTH, option->help);
}

void gconv_options_print(FILE *out, const gconv_option *table) {
  for (; table->name; table++) {
    if (table->group)
      fprintf(out, "\n%s:\n", table->group);
    print_option(out, table);
  }
}

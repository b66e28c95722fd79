/* SPDX-License-Identifier: MIT */
#include "cli/options.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/terminal.h"

#include <string.h>

/* ---- Rows ------------------------------------------------------------------------------------------------------------ */

const gconv_option *gconv_option_next(gconv_option_walk *walk) {
  for (;;) {
    const gconv_option *row = walk->row++;
    if ((row->heading || row->name) && (!walk->back || row->of_maps))
      return row;
    if (row->maps) {
      walk->back = walk->row;
      walk->row = row->maps;
    } else if (!row->heading && !row->name) { /* the end of a table */
      if (!walk->back)
        return NULL;
      walk->row = walk->back;
      walk->back = NULL;
    }
  }
}

const gconv_option *gconv_option_next_named(gconv_option_walk *walk) {
  const gconv_option *row = gconv_option_next(walk);
  while (row && row->heading)
    row = gconv_option_next(walk);
  return row;
}

/* True if the letters are one of `words`, which have blanks between. */
static bool is_among(const char *words, const char *name, size_t length) {
  const char *found = gconv_find_word(words, ' ', name, length);
  return found && memcmp(found, name, length) == 0;
}

const gconv_option *gconv_option_find(const gconv_option *table, const char *word, size_t length) {
  const gconv_option *other = NULL, *row;
  for (gconv_option_walk walk = {table, NULL}; (row = gconv_option_next_named(&walk));)
    if (word[1] != '-' ? length == 2 && row->letter == word[1] : is_among(row->name, word + 2, length - 2))
      return row;
    else if (word[1] == '-' && is_among(row->also, word + 2, length - 2))
      other = row;
  return other;
}

static const gconv_option *find_letter(const gconv_option *table, char letter) {
  return gconv_option_find(table, (char[]){'-', letter}, 2);
}

bool gconv_option_takes_value(const gconv_option *option) {
  return option->value && option->value[0] != '[';
}

bool gconv_option_takes_file(const gconv_option *option) {
  return option->kind == &gconv_value_filters ||
         (option->value && (strncmp(option->value, "PATH", 4) == 0 || strncmp(option->value, "FILE", 4) == 0));
}

/* ---- Parsing --------------------------------------------------------------------------------------------------------- */

/* True for an option, or "--"; "-" is standard input or output. */
static bool is_option(const char *word) {
  return word[0] == '-' && word[1] != '\0';
}

/* Finds the option that `name` may mean: one that has it as `near`, or one of a similar name. */
static void find_meant(const gconv_option *table, const char *name, bool elsewhere, gconv_suggestion *best) {
  const gconv_option *row;
  for (gconv_option_walk walk = {table, NULL}; (row = gconv_option_next_named(&walk));) {
    if (is_among(row->near, name, strlen(name))) {
      snprintf(best->name, sizeof best->name, "%s", row->name);
      return;
    }
    if (!elsewhere) /* its text helps more than the name of a similar option */
      gconv_suggest(best, name, row->name);
  }
}

/* True for a word such as "-rv": letters of options that take no value. */
static bool are_flags(const gconv_option *table, const char *word) {
  for (const char *letter = word + 1; *letter; letter++) {
    const gconv_option *option = find_letter(table, *letter);
    if (!option || gconv_option_takes_value(option))
      return false;
  }
  return true;
}

static gconv_status complain_unknown(const gconv_option *table, const char *lists_all, const char *word, int length) {
  if (are_flags(table, word))
    return gconv_refuse("unknown option %s: options of one letter stand apart: -%c -%c%s", word, word[1], word[2],
                        word[3] ? " ..." : "");
  const gconv_option *glued = word[1] == '-' ? NULL : find_letter(table, word[1]);
  if (glued && gconv_option_takes_value(glued))
    return gconv_refuse("unknown option %s: the value stands apart: -%c %s", word, word[1], word + 2 + (word[2] == '='));
  char name[64];
  snprintf(name, sizeof name, "%.*s", length - 2 > 0 ? length - 2 : 0, word + 2);
  gconv_suggestion best = {.any = true};
  /* An option of the main job, such as --range, is meant, and no work for other programs. */
  const gconv_option *main_job = gconv_command_filter.options;
  const char *elsewhere = gconv_option_find(main_job, word, (size_t)length) ? NULL : gconv_elsewhere(name);
  if (word[1] == '-')
    find_meant(table, name, elsewhere, &best);
  if (elsewhere && best.name[0] == '\0')
    return gconv_refuse("%.*s: %s", length, word, elsewhere);
  if (best.name[0])
    return gconv_refuse("unknown option %.*s: did you mean --%s?", length, word, best.name);
  return gconv_refuse("unknown option %.*s: %s lists all", length, word, lists_all);
}

typedef struct parsing {
  const gconv_option *table;
  const char *lists_all;
  int count;
  char *const *words;
  gconv_parsed *parsed;
  const gconv_option *given[256]; /* the first options; later ones are not checked for exclusion */
  size_t given_count;
} parsing;

static gconv_status take_value(parsing *p, const gconv_option *option, const char *value) {
  void *record = p->parsed->record;
  if (value)
    GCONV_TRY(gconv_option_meaning(option, value, &p->parsed->meanings, &value));
  const gconv_given given = {option, value, record, (char *)record + option->field};
  return option->kind->parse(&given);
}

/* True if `word` is a further value of the option. An image after filters is an input instead. */
static bool is_further_value(const gconv_option *option, const char *word) {
  const gconv_format_info *image = option->kind == &gconv_value_filters ? gconv_format_by_path(word) : NULL;
  return option->several && !is_option(word) && (!image || strcmp(image->name, "npy") == 0);
}

/* Stores the option's name in the field that its row names as `noted`, unless an earlier option did. */
static void note(void *record, const gconv_option *option) {
  const char **name = (const char **)(void *)((char *)record + option->noted);
  if (!*name)
    *name = option->name;
}

/* Parses the option that begins at words[*at]. Sets *at to its last word. */
static gconv_status parse_option(parsing *p, int *at) {
  const char *word = p->words[*at], *equals = word[1] == '-' ? strchr(word, '=') : NULL;
  int length = equals ? (int)(equals - word) : (int)strlen(word);
  const gconv_option *option = gconv_option_find(p->table, word, (size_t)length);
  if (!option)
    return complain_unknown(p->table, p->lists_all, word, length);
  p->parsed->help = !option->kind;
  if (p->parsed->help)
    return GCONV_OK;
  const char *value = equals ? equals + 1 : NULL;
  if (value && !option->value)
    return gconv_refuse("%.*s takes no value, and got %s", length, word, value);
  if (!value && gconv_option_takes_value(option)) {
    if (*at + 1 >= p->count)
      return gconv_refuse("%s needs a value: %s %s", word, word, option->value);
    value = p->words[++*at];
  }
  bool may_follow = option->kind == &gconv_value_file_or_output && *at + 1 < p->count;
  if (!value && may_follow && !is_option(p->words[*at + 1]))
    value = p->words[++*at];
  gconv_status status = take_value(p, option, value);
  while (status == GCONV_OK && !equals && *at + 1 < p->count && is_further_value(option, p->words[*at + 1]))
    status = take_value(p, option, value = p->words[++*at]);
  if (status != GCONV_OK)
    return gconv_fail(status, "%.*s%s%s: %s", length, word, value ? " " : "", value ? value : "", gconv_last_error());
  if (option->noted > 0)
    note(p->parsed->record, option);
  if (p->given_count < sizeof p->given / sizeof *p->given)
    p->given[p->given_count++] = option;
  return GCONV_OK;
}

/* Refuses options that exclude each other. */
static gconv_status check_excluded(const parsing *p) {
  for (size_t i = 0; i < p->given_count; i++)
    for (size_t j = 0; j < p->given_count; j++) {
      const gconv_option *option = p->given[i], *other = p->given[j];
      if (!is_among(option->excludes, other->name, strlen(other->name)))
        continue;
      if (option->excluded)
        return gconv_refuse(option->excluded, other->name);
      return gconv_refuse("--%s and --%s exclude each other", option->name, other->name);
    }
  return GCONV_OK;
}

gconv_status gconv_options_parse(const gconv_option *table, const char *lists_all, int count, char *const *words,
                                 gconv_parsed *parsed) {
  parsing p = {.table = table, .lists_all = lists_all, .count = count, .words = words, .parsed = parsed};
  bool options = true;
  for (int i = 0; i < count && !parsed->help; i++) {
    if (options && strcmp(words[i], "--") == 0)
      options = false;
    else if (options && is_option(words[i]))
      GCONV_TRY(parse_option(&p, &i));
    else if (!gconv_texts_add(&parsed->operands, strdup(words[i])))
      return gconv_no_memory();
  }
  return parsed->help ? GCONV_OK : check_excluded(&p);
}

void gconv_options_release(const gconv_option *table, void *record) {
  const gconv_option *row;
  for (gconv_option_walk walk = {table, NULL}; (row = gconv_option_next_named(&walk));)
    if (row->kind && row->kind->release)
      row->kind->release((char *)record + row->field);
}

/* ---- Help ------------------------------------------------------------------------------------------------------------ */

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

void gconv_option_print(FILE *out, const gconv_option *option) {
  char name[96];
  const char *gap = gconv_option_takes_value(option) ? " " : "", *value = option->value ? option->value : "";
  int length = option->letter ? snprintf(name, sizeof name, "  -%c, --%s%s%s", option->letter, option->name, gap, value)
                              : snprintf(name, sizeof name, "      --%s%s%s", option->name, gap, value);
  fputs(name, out);
  print_wrapped(out, length + 1 < HELP_COLUMN ? length : LINE_WIDTH, option->help);
}

/* Prints words with commas between, in place of blanks. */
static void print_words(FILE *out, const char *before, const char *words) {
  for (const char *at = words; *at; at += strcspn(at, " "), at += strspn(at, " "))
    fprintf(out, "%s%s%.*s", at == words ? "" : ", ", before, (int)strcspn(at, " "), at);
}

void gconv_option_print_more(FILE *out, const gconv_option *option) {
  if (option->also) {
    fputs("\nAlso called ", out);
    print_words(out, "--", option->also);
    fputs(".\n", out);
  }
  if (option->synonyms)
    fputs("\nOther words for values:\n", out);
  for (const gconv_synonym *row = option->synonyms; row && row->words; row++) {
    fputs("  ", out);
    print_words(out, "", row->words);
    fputs(row->unclear ? ": " : ": taken for ", out);
    gconv_put_lines(out, row->unclear ? row->unclear : row->value);
    fputc('\n', out);
  }
  if (option->drawing)
    fprintf(out, "\n%s", option->drawing);
}

void gconv_options_print(FILE *out, const gconv_option *table) {
  gconv_option_walk walk = {table, NULL};
  const gconv_option *row = gconv_option_next(&walk);
  if (row && !row->heading)
    fputs("\nOptions:\n", out);
  for (; row; row = gconv_option_next(&walk))
    if (row->heading)
      fprintf(out, "\n%s:\n", row->heading);
    else
      gconv_option_print(out, row);
}

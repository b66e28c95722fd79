/* SPDX-License-Identifier: MIT */
/*
 * Options, each declared once, as a row of the table of its command. The row says all that is known of an option: it parses
 * and checks the value, prints --help, completes words, and tells --resume whether the value changes results. A new option
 * is a field of the command's record, its row, and the code that uses the field.
 */
#pragma once

#include "base/status.h"
#include "gconv_jobs.h"

#include <stddef.h>
#include <stdio.h>

/* For requests that are wrong: gconv_last_error() says why. */
#define gconv_refuse(...) gconv_fail(GCONV_BAD_ARGUMENT, __VA_ARGS__)

typedef struct gconv_option gconv_option;

/* Words of other programs for a value. A list of these ends with a row of zeroes. */
typedef struct gconv_synonym {
  const char *words;   /* with blanks between: "edge nearest" */
  const char *value;   /* the value here, "replicate"; what follows a colon stays: "gpu:1" is "cuda:1" */
  const char *unclear; /* or, where the words mean different things in different programs: what they mean, and the value for
                          each */
} gconv_synonym;

/* An option as it was given. */
typedef struct gconv_given {
  const gconv_option *option;
  const char *value; /* NULL if it takes none, or was given without an optional one; lives as long as the record */
  void *record;      /* of the command */
  void *field;       /* in the record: where the value belongs */
} gconv_given;

/* A kind of value: how it is read from a command line, and written so that equal values have equal texts. */
typedef struct gconv_kind {
  /* Stores the value. On failure gconv_last_error() says what would be right; the option's name is put in front by the
   * caller. */
  gconv_status (*parse)(const gconv_given *given);
  void (*print)(FILE *out, const void *field); /* NULL: values of the kind change no results */
  void (*release)(void *field);                /* frees what parse() put there; NULL: nothing */
} gconv_kind;

struct gconv_option {
  const char *heading;      /* a row that is no option: what stands above the rows that follow in --help */
  const gconv_option *maps; /* a row that is no option: those rows of another table that have `of_maps` stand here */
  bool of_maps;             /* gconv classify, which makes maps by the main job, has the row, too */
  char letter;              /* 'i' for -i; 0: none */
  const char *name;         /* "input" for --input */
  const char *value;      /* what follows, as --help has it: "N"; "[=TOL]" may be left out; "PATH" or "FILE", with or without
                             "..." behind it: shells complete names of files; NULL: nothing */
  const gconv_kind *kind; /* NULL: the option asks for help, and ends the parsing */
  size_t field;           /* where in the record of the command */
  bool changes_results;   /* results of another value are other results: it is part of the digest of --resume */
  const char *help;
  const char *also; /* other names that are taken for it, with blanks between; NULL: none */
  const char *near; /* names that people may try, and mean something else by: an error asks whether they mean this option */
  const gconv_synonym *synonyms; /* of values; NULL: none */
  const char *drawing;           /* shows what the values mean, in lines, for `gconv help NAME`; NULL: none */
  bool several;                  /* words that follow the value are further values, up to the next option */
  size_t noted;                  /* where in the record its name is noted, of several the first; 0: nowhere */
  int least, most;               /* the limits of an integer; for a word, `least` is the value of the first */
  const char *takes; /* what the value has to be, for the error of a wrong one: "a number of groups, from 1 on" */
  const char *words; /* the values, for checks and completion: "cpu|gpu|auto"; NULL: word_at() lists them */
  const char *(*word_at)(size_t index);  /* the values, up to NULL; NULL too: any value is taken */
  const char *(*lack)(const char *word); /* why a word is no value here, though it is one elsewhere; NULL: not known */
  const char *excludes;                  /* the names of options that it cannot stand beside, with blanks between */
  const char *excluded; /* the error then, in which %s is the name of the other; NULL: "--a and --b exclude each other" */
};

/* A row, by its columns: a letter, or 0; name; value; the kind, of kinds.def; the field of the record. A field of another
 * type than the kind stores does not compile. */
#define GCONV_OPTION(record_, letter_, name_, value_, kind_, field_, ...)                                                   \
  {                                                                                                                         \
    .letter = letter_, .name = name_, .value = value_, .kind = &gconv_value_##kind_,                                        \
    .field = offsetof(record_, field_) + GCONV_OF_KIND(((record_ *)0)->field_, kind_), __VA_ARGS__                          \
  }
/* 0. Enumerations are stored as int. */
#define GCONV_OF_KIND(field, kind)                                                                                          \
  (0 * sizeof(char[__builtin_types_compatible_p(__typeof__(field), gconv_stored_##kind) ||                                  \
                           (__builtin_types_compatible_p(int, gconv_stored_##kind) && sizeof(field) == sizeof(int))         \
                       ? 1                                                                                                  \
                       : -1]))
#define GCONV_HEADING(text)                                                                                                 \
  { .heading = text }
/* The end of each table. */
#define GCONV_OPTIONS_END                                                                                                   \
  {.letter = 'h', .name = "help", .help = "print this help"}, {                                                             \
    .name = NULL                                                                                                            \
  }

/* ---- Kinds of values ---- */

/* Numbers with commas between; owned. */
typedef struct gconv_numbers {
  float *items;
  int count;
} gconv_numbers;

/* Powers of two, with exponents from `first` to `last` in steps of `step`, which may be negative; 0: not given. */
typedef struct gconv_powers {
  double first, last, step;
} gconv_powers;

/* What lies outside an image, by --border. */
typedef struct gconv_given_border {
  gconv_border border;
  double value; /* of constant */
  bool given;
} gconv_given_border;

/* Windows of a signal: samples of each, and from one to the next; 0: not given. */
typedef struct gconv_windows {
  int32_t samples, hop;
} gconv_windows;

#define GCONV_KIND(name, type, print, text)                                                                                 \
  typedef type gconv_stored_##name;                                                                                         \
  enum { gconv_prints_##name = sizeof #print != sizeof "no" };                                                              \
  gconv_status gconv_take_##name(const gconv_given *given);                                                                 \
  extern const gconv_kind gconv_value_##name;
#include "cli/kinds.def"
#undef GCONV_KIND

/* What the rows of kinds.def name. */
typedef void gconv_prints(FILE *out, const void *field);
gconv_prints gconv_print_flag, gconv_print_text, gconv_print_number, gconv_print_numbers, gconv_print_integer,
    gconv_print_pair, gconv_print_count, gconv_print_border, gconv_print_padding, gconv_print_activation, gconv_print_format,
    gconv_print_region;

/* Appends the filters of a list with commas: "sobel_x,gaussian:size=9,sigma=2" are two. A part belongs to the filter before
 * it if it is name=value, or begins like no name. False without memory. */
bool gconv_filters_split(const char *list, gconv_texts *specs);

/* Copies word number `index` of the option into `word`; false past the last. */
bool gconv_option_word(const gconv_option *option, size_t index, char word[64]);

/* GCONV_OK and what `value` is called here: `value` itself where it is no synonym, else a new text, which *owned keeps, too.
 * The message says what an unclear word may mean. */
gconv_status gconv_option_meaning(const gconv_option *option, const char *value, gconv_texts *owned, const char **meaning);

/* Whether the word is one of the values, or of their synonyms. */
bool gconv_option_has_value(const gconv_option *option, const char *word);

/* GCONV_OK if each name of a list with commas is a word of the option, else a failure. */
gconv_status gconv_option_find_words(const gconv_option *option, const char *list);

/* GCONV_OK and the index of `value` among the words of the option, or a failure that lists them. */
gconv_status gconv_option_find_word(const gconv_option *option, const char *value, int *index);

/* ---- Numbers as people write them, strictly: the whole word or nothing (numbers.c) ---- */

/* A decimal number such as -1, 0.5 or 1e-3, in *number. False for anything else: "0.5x", "0,5", "nan", "inf", "0x10", "", or
 * what overflows. */
bool gconv_parse_number(const char *text, double *number);
/* The same of a number that is computed with in float32: what overflows there, or becomes 0, is refused. */
bool gconv_parse_float(const char *text, double *number);
/* A share, "20%" or "0.2"; its range is not checked. */
bool gconv_parse_share(const char *text, double *share);

/* A decimal integer from least to most, in *integer. False for anything else. */
bool gconv_parse_integer(const char *text, int64_t least, int64_t most, int64_t *integer);

/* A positive count with k, M or G (thousands, millions, thousands of millions) behind it or not: "500M". */
bool gconv_parse_count(const char *text, uint64_t *count);

/* `limit` or fewer integers from least to most with `between` between them, ',', 'x' or ':'; how many there are, or 0 if it
 * is anything else. */
int gconv_parse_integers(const char *text, char between, int limit, int64_t least, int64_t most, int32_t *integers);
/* The same of numbers, as gconv_parse_float() takes them. */
int gconv_parse_floats(const char *text, char between, int limit, double *numbers);

/* ---- Tables ---- */

/* Goes through a table: begins with {.row = table}. */
typedef struct gconv_option_walk {
  const gconv_option *row, *back; /* the next row; where to go on behind the rows of another table, or NULL */
} gconv_option_walk;

/* The next row, an option or a heading; NULL past the end. */
const gconv_option *gconv_option_next(gconv_option_walk *walk);
/* The same, past headings. */
const gconv_option *gconv_option_next_named(gconv_option_walk *walk);

/* The option that `word` names, of which `length` letters count: "-x" or "--name", or another name of it; NULL: none. */
const gconv_option *gconv_option_find(const gconv_option *table, const char *word, size_t length);

/* Whether a word must follow it. */
bool gconv_option_takes_value(const gconv_option *option);

/* Whether its value may be the name of a file or folder: filters are files, too. */
bool gconv_option_takes_file(const gconv_option *option);

/* What the words of a command line come to. */
typedef struct gconv_parsed {
  void *record;         /* of the command */
  gconv_texts operands; /* words that are no options */
  gconv_texts meanings; /* values that were given by synonyms, as they are called here */
  bool help;            /* --help was among them, and ended the parsing */
} gconv_parsed;

/* Parses `words`: options of the table into parsed->record, the rest into its operands. -x VALUE..., --name VALUE,
 * --name=VALUE; "--" ends the options; of an option given twice, the last counts, unless its kind refuses.
 * GCONV_BAD_ARGUMENT names the word that is wrong; `lists_all` is the command that lists the options. */
gconv_status gconv_options_parse(const gconv_option *table, const char *lists_all, int count, char *const *words,
                                 gconv_parsed *parsed);

/* Frees what options have put into the record. */
void gconv_options_release(const gconv_option *table, void *record);

/* Prints an option for --help; those of a table, below their headings. */
void gconv_option_print(FILE *out, const gconv_option *option);
void gconv_options_print(FILE *out, const gconv_option *table);

/* Prints what `gconv help NAME` says besides: synonyms, and the drawing. */
void gconv_option_print_more(FILE *out, const gconv_option *option);

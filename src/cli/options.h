/* SPDX-License-Identifier: MIT */
/*
 * Each option is declared once, as a row of its command's table. From the row follow the parsing and the check of its value,
 * its text in --help, completion, and whether --resume regards the value. A new option is a field of the command's record,
 * its row, and the code that uses the field.
 */
#pragma once

#include "base/status.h"
#include "gconv_jobs.h"

#include <stddef.h>
#include <stdio.h>

/* Fails because the request is wrong. */
#define gconv_refuse(...) gconv_fail(GCONV_BAD_ARGUMENT, __VA_ARGS__)

typedef struct gconv_option gconv_option;

/* Words of other programs for a value. A list of these ends with a row of zeros. */
typedef struct gconv_synonym {
  const char *words;   /* with blanks between: "edge nearest" */
  const char *value;   /* gconv's value, "replicate"; what follows a colon stays: "gpu:1" is "cuda:1" */
  const char *unclear; /* if programs differ in what the words mean: the error, with these meanings and gconv's values */
} gconv_synonym;

/* An option as it was given. */
typedef struct gconv_given {
  const gconv_option *option;
  const char *value; /* NULL if there is none; lives as long as the record */
  void *record;      /* record of the command */
  void *field;       /* in the record: where the value belongs */
} gconv_given;

/* A kind of value: how it is read from a command line, and written so that equal values have equal texts. */
typedef struct gconv_kind {
  /* Stores the value. The error says what would be right; callers put the option's name in front. */
  gconv_status (*parse)(const gconv_given *given);
  void (*print)(FILE *out, const void *field); /* NULL: values of the kind change no results */
  void (*release)(void *field);                /* frees what parse() put there; NULL: nothing */
} gconv_kind;

struct gconv_option {
  const char *heading;      /* a row that is no option: the heading of the rows that follow in --help */
  const gconv_option *maps; /* a row that is no option: the rows of another table that have `of_maps` follow here */
  bool of_maps;             /* the row also belongs to gconv classify, which makes maps by the main job */
  char letter;              /* 'i' for -i; 0: none */
  const char *name;         /* "input" for --input */
  const char *value; /* the value's name in --help: "N"; "[=TOL]" is optional; for "PATH" and "FILE", also with "...", shells
                        complete names of files; NULL: there is no value */
  const gconv_kind *kind; /* NULL: the option asks for help, and ends the parsing */
  size_t field;           /* where in the record of the command */
  bool changes_results;   /* the value changes results: it is part of the digest of --resume */
  const char *help;
  const char *also;              /* other names of the option, with blanks between; NULL: none */
  const char *near;              /* names that may mean this or something else: the error asks whether this is meant */
  const gconv_synonym *synonyms; /* synonyms of values; NULL: none */
  const char *drawing;           /* shows what the values mean, in lines, for `gconv help NAME`; NULL: none */
  bool several;                  /* words that follow the value are further values, up to the next option */
  size_t noted;      /* a field of the record that gets the name of the first option given that has it here; 0: none */
  int least, most;   /* the limits of an integer; for a word, `least` is the value of the first word */
  const char *takes; /* what the value has to be, for the error: "a number of groups, from 1 on" */
  const char *words; /* the values, for checks and completion: "cpu|gpu|auto"; NULL: word_at() lists them */
  const char *(*word_at)(size_t index);  /* lists the values, up to NULL. If both are NULL, any value is taken */
  const char *(*lack)(const char *word); /* why a word is not a value in this build; NULL: not known */
  const char *excludes;                  /* the names of options that exclude this one, with blanks between */
  const char *excluded; /* the error in this case, with %s for the other's name; NULL: "--a and --b exclude each other" */
};

/* A row: a letter, or 0; the name; the value's name; the kind, of kinds.def; the field of the record, of the kind's type. */
#define GCONV_OPTION(record_, letter_, name_, value_, kind_, field_, ...)                                                   \
  {                                                                                                                         \
    .letter = letter_, .name = name_, .value = value_, .kind = &gconv_value_##kind_,                                        \
    .field = offsetof(record_, field_) + GCONV_OF_KIND(((record_ *)0)->field_, kind_), __VA_ARGS__                          \
  }
/* Is 0 if the field has the type that the kind stores, else does not compile. Enumerations are stored as int. */
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

/* A list of numbers; owned. */
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
  double value; /* the value that `constant` has */
  bool given;
} gconv_given_border;

/* Windows of a signal: samples of a window, and from one window to the next; 0: not given. */
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

/* The functions and kinds of kinds.def. */
typedef void gconv_prints(FILE *out, const void *field);
gconv_prints gconv_print_flag, gconv_print_text, gconv_print_number, gconv_print_numbers, gconv_print_integer,
    gconv_print_pair, gconv_print_count, gconv_print_border, gconv_print_padding, gconv_print_activation, gconv_print_format,
    gconv_print_region;

/* Appends the filters of a list with commas: "sobel_x,gaussian:size=9,sigma=2" are two. A part that is name=value, or cannot
 * begin a name, belongs to the filter before it. False: out of memory. */
bool gconv_filters_split(const char *list, gconv_texts *specs);

/* Copies the option's value number `index` into `word`; false past the last. */
bool gconv_option_word(const gconv_option *option, size_t index, char word[64]);

/* Sets *meaning to what `value` means: to `value` itself or, for a synonym, to a new text, which `owned` keeps. If programs
 * differ in what the word means, the error lists the meanings. */
gconv_status gconv_option_meaning(const gconv_option *option, const char *value, gconv_texts *owned, const char **meaning);

/* True if the word is a value or a synonym of one. */
bool gconv_option_has_value(const gconv_option *option, const char *word);

/* Fails unless each name of a list with commas is a value of the option. */
gconv_status gconv_option_find_words(const gconv_option *option, const char *list);

/* Finds the index of `value` among the values of the option. The error lists the values. */
gconv_status gconv_option_find_word(const gconv_option *option, const char *value, int *index);

/* ---- Numbers as people write them; the whole word must be a number (numbers.c) ---- */

/* Reads a number such as -1, 0.5, 1/8 or 1e-3. False for "0.5x", "0,5", "nan", "inf", "0x10", "", "1/0" and overflow. */
bool gconv_parse_number(const char *text, double *number);
/* Does the same for a number that will be float32: false if it overflows there, or becomes 0. */
bool gconv_parse_float(const char *text, double *number);
/* Reads a share, "20%" or "0.2"; its range is not checked. */
bool gconv_parse_share(const char *text, double *share);

/* Reads a decimal integer from least to most. False for anything else. */
bool gconv_parse_integer(const char *text, int64_t least, int64_t most, int64_t *integer);

/* Reads a positive count, with or without k, M or G (thousands, millions, thousands of millions) after it: "500M". */
bool gconv_parse_count(const char *text, uint64_t *count);

/* Reads up to `limit` integers from least to most, with ',', 'x' or ':' between. Returns how many; 0: anything else. */
int gconv_parse_integers(const char *text, char between, int limit, int64_t least, int64_t most, int32_t *integers);
/* Does the same for numbers, as gconv_parse_float() reads them. */
int gconv_parse_floats(const char *text, char between, int limit, double *numbers);

/* ---- Tables ---- */

/* An iterator over the rows of a table; begins as {.row = table}. */
typedef struct gconv_option_walk {
  const gconv_option *row;  /* the next row */
  const gconv_option *back; /* while it is in the table that a row names as `maps`: the row after that row; else NULL */
} gconv_option_walk;

/* Return the next row, an option or a heading, and the next option; NULL at the end. */
const gconv_option *gconv_option_next(gconv_option_walk *walk);
const gconv_option *gconv_option_next_named(gconv_option_walk *walk);

/* Returns the option that the first `length` letters of `word` name: "-x", "--name", or another of its names; NULL: none. */
const gconv_option *gconv_option_find(const gconv_option *table, const char *word, size_t length);

/* True if a word must follow the option. */
bool gconv_option_takes_value(const gconv_option *option);

/* True if the value may be the name of a file or folder: filters are files, too. */
bool gconv_option_takes_file(const gconv_option *option);

/* A parsed command line. */
typedef struct gconv_parsed {
  void *record;         /* record of the command */
  gconv_texts operands; /* words that are no options */
  gconv_texts meanings; /* owns values that were given by synonyms */
  bool help;            /* --help was given, and ended the parsing */
} gconv_parsed;

/* Parses `words`: values of options go into parsed->record, other words into parsed->operands. Options are -x VALUE...,
 * --name VALUE or --name=VALUE; "--" ends them. Of an option given twice, the last value counts, unless its kind refuses.
 * The error names the wrong word, and `lists_all`, the command that lists the options. */
gconv_status gconv_options_parse(const gconv_option *table, const char *lists_all, int count, char *const *words,
                                 gconv_parsed *parsed);

/* Frees what options have put into the record. */
void gconv_options_release(const gconv_option *table, void *record);

/* Print one option for --help, or a table with its headings. */
void gconv_option_print(FILE *out, const gconv_option *option);
void gconv_options_print(FILE *out, const gconv_option *table);

/* Prints what only `gconv help NAME` shows: other names, synonyms, and the drawing. */
void gconv_option_print_more(FILE *out, const gconv_option *option);

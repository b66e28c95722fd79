/* SPDX-License-Identifier: MIT */
/*
 * Options, each declared once, as a row of the table in table.c. The row says all that is known of an option: it parses and
 * checks the value, prints --help, completes words, and tells --resume whether the value changes results. A new option is a
 * row, and the code that uses its value.
 */
#ifndef GCONV_CLI_OPTIONS_H
#define GCONV_CLI_OPTIONS_H

#include "cli/settings.h"

#include <stdio.h>

/* The commands that an option may belong to, as bits. */
enum {
  GCONV_OF_FILTER = 1,
  GCONV_OF_MAKE = 2,
  GCONV_OF_INFO = 4,
  GCONV_OF_BANK_INFO = 8,
  GCONV_OF_BANK_SHOW = 16,
  GCONV_OF_BANK_CONVERT = 32,
  GCONV_OF_BENCH = 64,
  GCONV_OF_TUNE = 128,
  GCONV_OF_REST = 256, /* commands that have --help alone */
  GCONV_OF_COMPARE = 512,
  GCONV_OF_FIT = 1024,
  GCONV_OF_TRAIN = 2048,
  GCONV_OF_CLASSIFY = 4096,
  GCONV_OF_SVM = 8192,
  GCONV_OF_RUNS = GCONV_OF_FILTER | GCONV_OF_CLASSIFY,
  GCONV_OF_MAKE_INFO = GCONV_OF_MAKE | GCONV_OF_INFO,
  GCONV_OF_BANK_PARTS = GCONV_OF_BANK_INFO | GCONV_OF_BANK_SHOW | GCONV_OF_BANK_CONVERT,
  GCONV_OF_BENCH_TUNE = GCONV_OF_BENCH | GCONV_OF_TUNE,
  GCONV_OF_LEARN = GCONV_OF_TRAIN | GCONV_OF_CLASSIFY,
  GCONV_OF_TRAIN_SVM = GCONV_OF_TRAIN | GCONV_OF_SVM,
  GCONV_OF_TABLES = GCONV_OF_LEARN | GCONV_OF_SVM,
  GCONV_OF_SANDBOXED =
      GCONV_OF_FILTER | GCONV_OF_MAKE_INFO | GCONV_OF_BANK_PARTS | GCONV_OF_COMPARE | GCONV_OF_FIT | GCONV_OF_TABLES
};

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
  const char *value; /* NULL if it takes none, or was given without an optional one; lives as long as the settings */
  gconv_settings *settings;
  void *field; /* in the settings: where the value belongs */
  gconv_message *message;
} gconv_given;

/* A kind of value: how it is read from a command line, and written so that equal values have equal texts. */
typedef struct gconv_kind {
  /* Stores the value. On failure the message says what would be right; the option's name is put in front by the caller. */
  gconv_status (*parse)(const gconv_given *given);
  void (*print)(FILE *out, const void *field); /* NULL: values of the kind change no results */
} gconv_kind;

struct gconv_option {
  const char *heading;    /* a row that is no option: what stands above the rows that follow in --help */
  unsigned of;            /* the commands that have it: GCONV_OF_... */
  char letter;            /* 'i' for -i; 0: none */
  const char *name;       /* "input" for --input */
  const char *value;      /* what follows, as --help has it: "N"; "[=TOL]" may be left out; "PATH" or "FILE", with or without
                             "..." behind it: shells complete names of files; NULL: nothing */
  const gconv_kind *kind; /* NULL: the option asks for help, and ends the parsing */
  size_t field;           /* where in gconv_settings */
  bool changes_results;   /* results of another value are other results: it is part of the digest of --resume */
  const char *help;
  const char *also; /* other names that are taken for it, with blanks between; NULL: none */
  const char *near; /* names that people may try, and mean something else by: an error asks whether they mean this option */
  const gconv_synonym *synonyms; /* of values; NULL: none */
  const char *drawing;           /* shows what the values mean, in lines, for `gconv help NAME`; NULL: none */
  bool several;                  /* words that follow the value are further values, up to the next option */
  bool of_banks;                 /* makes the job one of banks */
  int least, most;               /* the limits of an integer; for a word, `least` is the value of the first */
  const char *takes; /* what the value has to be, for the error of a wrong one: "a number of groups, from 1 on" */
  const char *words; /* the values, for checks and completion: "cpu|gpu|auto"; NULL: word_at() lists them */
  const char *(*word_at)(size_t index);  /* the values, up to NULL; NULL too: any value is taken */
  const char *(*lack)(const char *word); /* why a word is no value here, though it is one elsewhere; NULL: not known */
  const char *excludes;                  /* the names of options that it cannot stand beside, with blanks between */
  const char *excluded; /* the error then, in which %s is the name of the other; NULL: "--a and --b exclude each other" */
};

/* Ended by a row without heading and name. */
extern const gconv_option gconv_option_table[];

/* ---- Kinds of values (values.c) ---- */

extern const gconv_kind gconv_value_flag;    /* bool: true */
extern const gconv_kind gconv_value_text;    /* const char * */
extern const gconv_kind gconv_value_once;    /* the same, NULL before: refused when given twice */
extern const gconv_kind gconv_value_texts;   /* gconv_texts: a copy is appended */
extern const gconv_kind gconv_value_filters; /* the same, of lists with commas, completed as filters */
extern const gconv_kind gconv_value_number;  /* double: finite */
extern const gconv_kind gconv_value_numbers; /* gconv_numbers: with commas between */
extern const gconv_kind gconv_value_integer; /* int or int32_t: least to most */
extern const gconv_kind gconv_value_pair;    /* int32_t[2]: N or Y,X, from 1 on */
extern const gconv_kind gconv_value_count;   /* uint64_t: from 1 on; k, M and G may follow */
extern const gconv_kind gconv_value_word; /* int, or an enumeration: least + the index of the word; least without a value */
extern const gconv_kind gconv_value_name; /* const char *: the word, in static storage where it is from word_at() */

/* Those of few options: of filter (filter_values.c), of learning (learn_values.c), and of bench (bench_values.c). */
extern const gconv_kind gconv_value_border, gconv_value_alpha, gconv_value_file_or_output, gconv_value_padding,
    gconv_value_activation, gconv_value_format, gconv_value_algorithm, gconv_value_without, gconv_value_device,
    gconv_value_shard, gconv_value_verify, gconv_value_then, gconv_value_region, gconv_value_tolerance;
extern const gconv_kind gconv_value_windows, gconv_value_batch, gconv_value_elimination, gconv_value_separator;
extern const gconv_kind gconv_value_algorithms, gconv_value_images, gconv_value_types, gconv_value_sizes, gconv_value_blocks,
    gconv_value_sweep;

/* Those of learning (learn_values.c). */
extern const gconv_kind gconv_value_share; /* double: "20%" or "0.2", above 0 and below 1 */
extern const gconv_kind gconv_value_size;  /* int32_t[2]: N, or ROWSxCOLUMNS, from 1 on */
extern const gconv_kind gconv_value_ridge; /* double: from 0 on */

/* Those of svm (svm_values.c). */
extern const gconv_kind gconv_value_positive;  /* double: above 0 */
extern const gconv_kind gconv_value_tube;      /* double: from 0 on; 0 is stored as -1, as 0 is the default */
extern const gconv_kind gconv_value_megabytes; /* uint64_t: bytes of a number of MB above 0 */
extern const gconv_kind gconv_value_powers;    /* gconv_powers: "-5:15:2" */

/* The print() of kinds that store a const char *. */
void gconv_print_text(FILE *out, const void *field);

/* Appends the filters of a list with commas: "sobel_x,gaussian:size=9,sigma=2" are two. A part belongs to the filter before
 * it if it is name=value, or begins like no name. False without memory. */
bool gconv_filters_split(const char *list, gconv_texts *specs);

/* Copies word number `index` of the option into `word`; false past the last. */
bool gconv_option_word(const gconv_option *option, size_t index, char word[64]);

/* GCONV_OK and what `value` is called here: `value` itself where it is no synonym. What is returned lives as long as the
 * settings. The message says what an unclear word may mean. */
gconv_status gconv_option_meaning(const gconv_option *option, const char *value, gconv_settings *settings,
                                  const char **meaning, gconv_message *message);

/* Whether the word is one of the values, or of their synonyms. */
bool gconv_option_has_value(const gconv_option *option, const char *word);

/* GCONV_OK if each name of a list with commas is a word of the option, else a message. */
gconv_status gconv_option_find_words(const gconv_option *option, const char *list, gconv_message *message);

/* GCONV_OK and the index of `value` among the words of the option, or a message that lists them. */
gconv_status gconv_option_find_word(const gconv_option *option, const char *value, int *index, gconv_message *message);

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

/* `limit` or fewer integers from least to most with commas between them; how many there are, or 0 if it is anything else. */
int gconv_parse_integers(const char *text, int limit, int64_t least, int64_t most, int32_t *integers);

/* ---- Tables ---- */

/* The first row from `row` on that belongs to `command`, an option or a heading; NULL: none. */
const gconv_option *gconv_option_next(const gconv_option *row, unsigned command);

/* The option that `word` names, of which `length` letters count: "-x" or "--name", or another name of it; NULL: none. */
const gconv_option *gconv_option_find(unsigned command, const char *word, size_t length);

/* Whether a word must follow it. */
bool gconv_option_takes_value(const gconv_option *option);

/* Whether its value may be the name of a file or folder: filters are files, too. */
bool gconv_option_takes_file(const gconv_option *option);

/* Parses `words`: options of `command` into *settings, the rest into *operands. -x VALUE..., --name VALUE, --name=VALUE;
 * "--" ends the options; of an option given twice, the last counts, unless its kind refuses. *help becomes true if it is
 * asked for. GCONV_BAD_ARGUMENT names the word that is wrong. */
gconv_status gconv_options_parse(unsigned command, int count, char *const *words, gconv_settings *settings,
                                 gconv_texts *operands, bool *help, gconv_message *message);

/* Prints an option for --help; those of a command, below their headings. */
void gconv_option_print(FILE *out, const gconv_option *option);
void gconv_options_print(FILE *out, unsigned command);

/* Prints what `gconv help NAME` says besides: synonyms, and the drawing. */
void gconv_option_print_more(FILE *out, const gconv_option *option);

/* What of the settings changes results, as text, for the digest of --resume: equal texts, equal results. For free(); NULL
 * without memory. */
char *gconv_options_digest(const gconv_settings *settings);

#endif

/* SPDX-License-Identifier: MIT */
/* Options declared once, in a table: it parses them, checks them, and prints --help. */
#ifndef GCONV_CLI_OPTIONS_H
#define GCONV_CLI_OPTIONS_H

#include "batch/message.h"
#include "batch/texts.h"

#include <stdio.h>

typedef struct gconv_option gconv_option;

/* Stores `value` (NULL if the option takes none, or was given without an optional one) in *settings, the structure that the
 * table is for. On failure the message says what would be right; the option's name is put in front by the caller. */
typedef gconv_status gconv_option_parser(const gconv_option *option, const char *value, void *settings,
                                         gconv_message *message);

struct gconv_option {
  const char *group; /* the heading above it in --help; NULL: that of the option before */
  char letter;       /* 'i' for -i; 0: none */
  const char *name;  /* "input" for --input; NULL ends the table */
  const char *value; /* what follows, as --help has it: "PATH"; "[=TOL]" may be left out; NULL: nothing */
  const char *help;
  const char *also;           /* names that people may try instead, with blanks between, for an error to know; NULL: none */
  gconv_option_parser *parse; /* NULL: the option asks for help, and ends the parsing */
  bool several;               /* words that follow the value are further values, up to the next option */
  size_t field;               /* where in the settings, for the parsers below */
  int least, most;            /* for gconv_option_integer */
  const char *const *choices; /* for gconv_option_choice; ended by NULL */
};

gconv_option_parser gconv_option_flag;      /* bool: true */
gconv_option_parser gconv_option_text;      /* const char *: the value, which lives as long as the arguments */
gconv_option_parser gconv_option_text_once; /* the same, NULL before: refused when given twice */
gconv_option_parser gconv_option_texts;     /* gconv_texts: a copy is appended */
gconv_option_parser gconv_option_number;    /* double: finite */
gconv_option_parser gconv_option_integer;   /* int: least to most */
gconv_option_parser gconv_option_choice;    /* int: the index in choices */

enum { GCONV_OPTION_NAMES = 16 }; /* room for those of any enumeration, with the NULL behind them */

/* GCONV_OK and the index of `value` in `names` (ended by NULL), or a message that lists them. */
gconv_status gconv_option_find(const char *const *names, const char *value, int *index, gconv_message *message);

/* Parses `words`: options of `table` into *settings, the rest into *operands. -x VALUE..., --name VALUE, --name=VALUE; "--"
 * ends the options; of an option given twice, the last counts, unless its parser refuses. *help becomes true if it is asked
 * for. GCONV_BAD_ARGUMENT names the word that is wrong. */
gconv_status gconv_options_parse(const gconv_option *table, int count, char *const *words, void *settings,
                                 gconv_texts *operands, bool *help, gconv_message *message);

/* Prints the table for --help. */
void gconv_options_print(FILE *out, const gconv_option *table);

#endif

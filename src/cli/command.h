/* SPDX-License-Identifier: MIT */
/* A subcommand: one file cmd_NAME.c, one descriptor in it, one row in the table of command.c. */
#ifndef GCONV_CLI_COMMAND_H
#define GCONV_CLI_COMMAND_H

#include "cli/options.h"

/* What the program ends with. */
enum {
  GCONV_EXIT_OK = 0,
  GCONV_EXIT_FAILED = 1, /* everything that was asked for failed */
  GCONV_EXIT_USAGE = 2,  /* the request is wrong: nothing was done */
  GCONV_EXIT_PARTLY = 3  /* some of it failed */
};

typedef struct gconv_command gconv_command;

struct gconv_command {
  const char *name;
  const char *synopsis; /* what follows "gconv ": "make SPEC... [OPTION...]" */
  const char *help;     /* one line */
  const char *details;  /* printed by --help after the options; may be NULL */
  const gconv_option *options;
  /* Does the work with the words behind the name of the command; returns what the program ends with. */
  int (*run)(const gconv_command *command, int count, char *const *words);
};

extern const gconv_command gconv_command_algorithms, gconv_command_bank, gconv_command_bench, gconv_command_devices,
    gconv_command_filter, gconv_command_filters, gconv_command_help, gconv_command_info, gconv_command_make,
    gconv_command_tune;

/* The subcommands, in the order of the help; NULL past the end. */
const gconv_command *gconv_command_at(size_t index);
/* The subcommand of this name, or NULL. */
const gconv_command *gconv_command_find(const char *name);
/* Says that there is no such subcommand, with the name that may have been meant; returns GCONV_EXIT_USAGE. */
int gconv_command_unknown(const char *name);

/* The last rows of every table of options. */
#define GCONV_OPTIONS_END                                                                                                   \
  {.letter = 'h', .name = "help", .help = "print this help", .parse = NULL}, {                                              \
    .name = NULL                                                                                                            \
  }

/* Parses the words of a command by its table. False if there is nothing left to do, with *status for the end of the program:
 * after --help, which is printed, or after a mistake, which is said. */
bool gconv_command_parse(const gconv_command *command, int count, char *const *words, void *settings, gconv_texts *operands,
                         int *status);

/* Prints how a command is used, with its options. */
void gconv_command_print(FILE *out, const gconv_command *command);

/* For commands that write what they make of `specs`, filters or banks as -f takes them, to `output`, which may be NULL.
 * False, and it is said, if it would replace one of their files. */
bool gconv_command_may_write(const gconv_texts *specs, bool banks, const char *output);

/* For commands that take no words: says so and returns GCONV_EXIT_USAGE if there are some, else GCONV_EXIT_OK. */
int gconv_command_refuse(const gconv_command *command, const gconv_texts *operands);

#endif

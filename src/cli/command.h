/* SPDX-License-Identifier: MIT */
/* A subcommand: one file cmd_NAME.c, with its record, its rows and its descriptor; one row in commands.def. */
#pragma once

#include "cli/common.h"

/* The exit statuses. */
enum {
  GCONV_EXIT_OK = 0,
  GCONV_EXIT_FAILED = 1, /* everything that was asked for failed */
  GCONV_EXIT_USAGE = 2,  /* the request is wrong: nothing was done */
  GCONV_EXIT_PARTLY = 3  /* some of it failed */
};

typedef struct gconv_command {
  const char *name;              /* "make"; "bank info" is a part of bank */
  const char *synopsis;          /* what follows "gconv ": "make SPEC... [OPTION...]" */
  const char *help;              /* one line */
  const char *details;           /* printed by --help after the options; may be NULL */
  void (*more)(FILE *out);       /* prints what comes after the details; may be NULL */
  const gconv_option *options;   /* NULL: the only option is --help */
  size_t record_bytes;           /* bytes of its record: GCONV_RECORD_BYTES(); 0: it is a gconv_common */
  void (*begin)(void *settings); /* sets the defaults of options; NULL: zeros */
  void (*end)(void *settings);   /* frees fields that options do not free; NULL: nothing */
  /* The words that are no options. NONE: they are refused. ANY: the command checks them. FILES: completion offers files.
   * FILTERS: completion offers filters and files. ALL: every word is such a word, even if it begins with - (gconv help). */
  enum { GCONV_WORDS_NONE, GCONV_WORDS_ANY, GCONV_WORDS_FILES, GCONV_WORDS_FILTERS, GCONV_WORDS_ALL } words;
  /* The command writes files that no option names. */
  bool writes;
  /* Does the work of the record `settings`. Returns the exit status. */
  int (*run)(void *settings, const gconv_texts *words);
} gconv_command;

#define GCONV_COMMAND(name) extern const gconv_command gconv_command_##name;
#include "cli/commands.def"
#undef GCONV_COMMAND

/* ---- commands.c ---- */

/* The subcommands, in the order of the help; NULL past the end. */
const gconv_command *gconv_command_at(size_t index);
/* Returns the command's rows of options. */
const gconv_option *gconv_command_options(const gconv_command *command);
/* True if the command is a part of another, whose help describes it. */
bool gconv_command_is_part(const gconv_command *command);
/* The subcommand of this name, or NULL. */
const gconv_command *gconv_command_find(const char *name);
/* Finds the subcommand that the first word names, or the first two; *used is how many. NULL: none. */
const gconv_command *gconv_command_choose(int count, char *const *words, int *used);
/* Prints how a command is used, with its options. */
void gconv_command_print(FILE *out, const gconv_command *command);

/* Runs a command with the words after its name. Returns the exit status. */
int gconv_command_run(const gconv_command *command, int count, char *const *words);

/* ---- run.c ---- */

/* Finds the command in the words after the program's name, and runs it. Returns the exit status. */
int gconv_run(int count, char *const *words);

/* ---- complete.c ---- */

/* Completes the last of the words after the program's name: prints a candidate a line, for shells (docs/gconv.bash,
 * docs/gconv.zsh). The line ":files" asks the shell for names of files, too. Returns the exit status. */
int gconv_complete(int count, char *const *words);

/* ---- words.c ---- */

/* Returns the built-in filter that has the word, up to a colon, as one of its names; NULL: none. */
const gconv_builtin_info *gconv_word_builtin(const char *word);

/* True if the word, perhaps with parameters, is the name of a built-in or shipped filter. Files do not matter. */
bool gconv_word_is_filter(const char *word);

/* Puts the path of the shipped filter of this name into `path`. False: there is none. */
bool gconv_shipped_path(const char *name, char path[4096]);

/* Lists the names of the shipped filters, sorted, into *names, which must be empty. False if the folder cannot be read. */
bool gconv_shipped_names(gconv_texts *names);

/* ---- Functions of single commands ---- */

/* Prints a line on an algorithm, with `before` in front of its help. `obstacle`: why it cannot be used, or NULL. */
void gconv_algorithm_print(const gconv_algorithm_info *algorithm, const char *obstacle, const char *before);

/* Prints the formats of images, a line each. */
void gconv_formats_print(FILE *out);

/* Prints the built-in and shipped filters that have each of the words in their names or descriptions; returns how many. */
size_t gconv_filters_list(const gconv_texts *words);

/* ---- command.c ---- */

/* If writing `output`, which may be NULL, would replace a file that is read, prints an error and returns false. `specs` are
 * what is read: filters, or banks if `banks`, as -f takes them. */
bool gconv_command_may_write(const gconv_texts *specs, bool banks, const char *output);

/* Prints the last error. Returns exit_status. */
int gconv_say_failed(int exit_status);

/* Returns the exit status of a command. If `status` is a failure, prints the last error first; GCONV_BAD_ARGUMENT is a
 * mistake in the request. `failed`: something else failed, and its error was printed. */
int gconv_command_end(gconv_status status, bool failed);

/* Does gconv_command_end() with failed == false. */
int gconv_say_end(gconv_status status);

/* Counts for a command that does several things independently. Errors are printed before. */
typedef struct gconv_tally {
  size_t done, failed; /* `done` counts the failed ones, too */
  size_t wrong;        /* failures that are mistakes in the request, such as a file that does not exist */
} gconv_tally;
void gconv_tally_add(gconv_tally *tally, const char *path, gconv_status status);
/* Returns the exit status of the command. */
int gconv_tally_end(const gconv_tally *tally);

/* GCONV_BAD_ARGUMENT, with the error that -i gives, unless `path` is a file, a folder, FILE:MEMBER or "-". */
gconv_status gconv_check_is_there(const char *path);

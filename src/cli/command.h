/* SPDX-License-Identifier: MIT */
/* A subcommand: one file cmd_NAME.c, with its record, its rows and its descriptor; one row in commands.def. */
#pragma once

#include "cli/common.h"

/* What the program ends with. */
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
  const gconv_option *options;   /* NULL: --help alone */
  size_t record_bytes;           /* of its record: GCONV_RECORD_BYTES(); 0: a gconv_common */
  void (*begin)(void *settings); /* sets what holds where no option is given; NULL: zeros */
  void (*end)(void *settings);   /* frees what the rows of options do not; NULL: nothing */
  /* What words it takes besides options. NONE: others are refused. ANY: the command checks them. FILES: completion offers
   * files. FILTERS: completion offers filters and files. ALL: words that begin with - are no options either (gconv help). */
  enum { GCONV_WORDS_NONE, GCONV_WORDS_ANY, GCONV_WORDS_FILES, GCONV_WORDS_FILTERS, GCONV_WORDS_ALL } words;
  /* Writes files that no option names: by its words, or its own. */
  bool writes;
  /* Does the work of the record `settings`; returns what the program ends with. */
  int (*run)(void *settings, const gconv_texts *words);
} gconv_command;

#define GCONV_COMMAND(name) extern const gconv_command gconv_command_##name;
#include "cli/commands.def"
#undef GCONV_COMMAND

/* ---- commands.c ---- */

/* The subcommands, in the order of the help; NULL past the end. */
const gconv_command *gconv_command_at(size_t index);
/* Its rows. */
const gconv_option *gconv_command_options(const gconv_command *command);
/* Whether it is a part of another, whose help tells of it. */
bool gconv_command_is_part(const gconv_command *command);
/* The subcommand of this name, or NULL. */
const gconv_command *gconv_command_find(const char *name);
/* The subcommand that the first one or two words name, or NULL; *used tells how many. */
const gconv_command *gconv_command_choose(int count, char *const *words, int *used);
/* Prints how a command is used, with its options. */
void gconv_command_print(FILE *out, const gconv_command *command);

/* Does what the words behind the name of the command ask for. Returns what the program ends with. */
int gconv_command_run(const gconv_command *command, int count, char *const *words);

/* ---- run.c ---- */

/* Does what the words behind the name of the program ask for: finds the command that is meant. */
int gconv_run(int count, char *const *words);

/* ---- complete.c ---- */

/* Prints what the last of the words, those behind the name of the program, may become: a candidate a line, for shells
 * (docs/gconv.bash, docs/gconv.zsh). The line ":files" asks the shell for the names of files, too. Returns what the program
 * ends with. */
int gconv_complete(int count, char *const *words);

/* ---- words.c ---- */

/* The built-in filter that the word, perhaps with parameters, names by any of its names; NULL: none. */
const gconv_builtin_info *gconv_word_builtin(const char *word);

/* Whether the word, perhaps with parameters, is the name of a built-in or shipped filter, whatever files there are. */
bool gconv_word_is_filter(const char *word);

/* Puts the path of the shipped filter of this name into `path`. False: there is none. */
bool gconv_shipped_path(const char *name, char path[4096]);

/* Lists the names of the shipped filters, sorted, into *names, which must be empty. False if the folder cannot be read. */
bool gconv_shipped_names(gconv_texts *names);

/* ---- Of single commands ---- */

/* Prints a line on an algorithm, with `before` in front of its help; obstacle: what keeps it from being used, or NULL. */
void gconv_algorithm_print(const gconv_algorithm_info *algorithm, const char *obstacle, const char *before);

/* Prints the built-in and shipped filters that have each of the words in their names or descriptions; returns how many. */
size_t gconv_filters_list(const gconv_texts *words);

/* ---- command.c ---- */

/* For commands that write what they make of `specs`, filters or banks as -f takes them, to `output`, which may be NULL.
 * False, and it is said, if it would replace one of their files. */
bool gconv_command_may_write(const gconv_texts *specs, bool banks, const char *output);

/* Says the last error. Returns the exit status that is given. */
int gconv_say_failed(int exit_status);

/* Returns the exit status of a command. If `status` is a failure, says the last error first; GCONV_BAD_ARGUMENT is a mistake
 * in the request. `failed`: something else failed, and that was said before. */
int gconv_command_end(gconv_status status, bool failed);

/* The same, where nothing else can have failed. */
int gconv_say_end(gconv_status status);

/* How a command went that does several things, each for itself. Failures are told of before. */
typedef struct gconv_tally {
  size_t done, failed; /* done: all, whether they failed or not */
  size_t wrong;        /* of those that failed, mistakes in the request, such as the name of no file */
} gconv_tally;
void gconv_tally_add(gconv_tally *tally, const char *path, gconv_status status);
/* What the command ends with. */
int gconv_tally_end(const gconv_tally *tally);

/* GCONV_BAD_ARGUMENT, as -i says it, if `path` is no file or folder, FILE:MEMBER, or "-". */
gconv_status gconv_check_is_there(const char *path);

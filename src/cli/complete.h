/* SPDX-License-Identifier: MIT */
/* Completion of command lines in a shell: gconv complete. */
#ifndef GCONV_CLI_COMPLETE_H
#define GCONV_CLI_COMPLETE_H

/* Prints what the last of the words, those behind the name of the program, may become: a candidate a line, for shells
 * (docs/gconv.bash); nothing where it is a file, or anything. Returns what the program ends with. */
int gconv_complete(int count, char *const *words);

#endif

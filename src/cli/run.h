/* SPDX-License-Identifier: MIT */
/* The program behind main(): finds the command that is meant, and runs it. */
#ifndef GCONV_CLI_RUN_H
#define GCONV_CLI_RUN_H

/* Does what the words behind the name of the program ask for; returns the exit status of the program. */
int gconv_run(int count, char *const *words);

#endif

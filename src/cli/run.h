/* SPDX-License-Identifier: MIT */
/* Which command is meant. */
#ifndef GCONV_CLI_RUN_H
#define GCONV_CLI_RUN_H

/* Does what the words behind the name of the program ask; returns what it ends with. */
int gconv_run(int count, char *const *words);

#endif

/* SPDX-License-Identifier: MIT */
/* --threads, which several subcommands have. */
#ifndef GCONV_CLI_THREADS_H
#define GCONV_CLI_THREADS_H

#include <stdbool.h>

/* The option's help, and the most that it takes: scripts name the processors of one machine, and run on others. */
#define GCONV_THREADS_HELP "number of CPU threads, no more than processors; default: one for each"
enum { GCONV_MOST_THREADS = 4096 };

/* How many threads the library will use where `wanted` are asked for (0: not given). Says so, unless `quiet`, if that is
 * fewer. */
int gconv_settle_threads(int wanted, bool quiet);

#endif

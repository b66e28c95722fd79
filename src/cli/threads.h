/* SPDX-License-Identifier: MIT */
/* --threads, which several subcommands have. */
#ifndef GCONV_CLI_THREADS_H
#define GCONV_CLI_THREADS_H

#include <stdbool.h>

/* The option's help, and the most that it takes: scripts name the processors of one machine, and run on others. */
#define GCONV_THREADS_HELP "number of CPU threads, no more than processors; default: one for each"
enum { GCONV_MOST_THREADS = 4096 };

/* What the library makes of `wanted` threads; 0: not given. Where that is fewer, says so unless `quiet`. */
int gconv_settle_threads(int wanted, bool quiet);

#endif

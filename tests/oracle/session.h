/* SPDX-License-Identifier: MIT */
/* What the programs share that try every algorithm of a device on cases drawn by lot: words, devices, failures. */
#ifndef GCONV_TESTS_SESSION_H
#define GCONV_TESTS_SESSION_H

#include "gconv.h"

enum { GCONV_THREAD_COUNTS = 4 };
extern const int gconv_thread_counts[GCONV_THREAD_COUNTS];

/* The first member of what a program knows of its run. */
typedef struct gconv_session {
  const char *device_name, *algorithm; /* as asked for; NULL: all */
  uint64_t seed, cases;
  bool single; /* one case alone: */
  uint64_t only;
  gconv_device *device;                    /* under test */
  gconv_device *cpus[GCONV_THREAD_COUNTS]; /* with so many threads; the first one computes what cpu/reference says */
  int failures;
} gconv_session;

/* Takes the words of the command line, where `cases` is the default, and opens the devices. Returns whether there is work to
 * do; else *status is what to exit with, and why has been printed. */
bool gconv_session_open(gconv_session *session, const char *program, uint64_t cases, int count, char *const *words,
                        int *status);
void gconv_session_close(gconv_session *session);

/* Whether the algorithm is one of the device, and asked for. */
bool gconv_session_has(const gconv_session *session, const gconv_algorithm_info *algorithm);

/* Calls run_case() for the one case, or for all of them until too many have failed. `verbose`: it is to tell what the case
 * is.
 */
void gconv_session_run(gconv_session *session, void (*run_case)(gconv_session *session, uint64_t number, bool verbose));

/* Counts a failure of an algorithm at case `number`, and prints how to see it again, what is wrong, and what the case is.
 * Returns false. */
bool gconv_session_fail(gconv_session *session, uint64_t number, const char *algorithm, const char *wrong, const char *what);

#endif

/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77, MOST_FAILURES = 20 };

const int gconv_thread_counts[GCONV_THREAD_COUNTS] = {1, 2, 3, 7};

static bool parse(gconv_session *s, int count, char *const *words) {
  for (int i = 1; i + 1 < count; i += 2) {
    const char *value = words[i + 1];
    if (strcmp(words[i], "--device") == 0)
      s->device_name = value;
    else if (strcmp(words[i], "--algorithm") == 0)
      s->algorithm = value;
    else if (strcmp(words[i], "--seed") == 0)
      s->seed = strtoull(value, NULL, 10);
    else if (strcmp(words[i], "--cases") == 0)
      s->cases = strtoull(value, NULL, 10);
    else if (strcmp(words[i], "--case") == 0)
      s->only = strtoull(value, NULL, 10), s->single = true;
    else
      return false;
  }
  return count % 2 == 1;
}

static int open_devices(gconv_session *s) {
  setenv("GCONV_MOST_THREADS", "8", 0); /* on small machines, too */
  for (size_t i = 0; i < GCONV_THREAD_COUNTS; i++)
    if (gconv_device_open("cpu", gconv_thread_counts[i], &s->cpus[i]) != GCONV_OK) {
      printf("FAILED: cannot open the CPU: %s\n", gconv_last_error());
      return EXIT_FAILURE;
    }
  if (gconv_device_open(s->device_name, 0, &s->device) == GCONV_OK)
    return EXIT_SUCCESS;
  bool skip = strcmp(s->device_name, "cpu") != 0;
  printf("%s: %s\n", skip ? "skipped: no GPU" : "FAILED", gconv_last_error());
  return skip ? SKIPPED : EXIT_FAILURE;
}

bool gconv_session_open(gconv_session *session, const char *program, uint64_t cases, int count, char *const *words,
                        int *status) {
  *session = (gconv_session){.device_name = "cpu", .seed = 1, .cases = cases};
  *status = EXIT_FAILURE;
  if (!parse(session, count, words)) {
    printf("usage: %s [--device cpu|cuda] [--seed S] [--cases N] [--case I] [--algorithm NAME]\n", program);
    return false;
  }
  *status = open_devices(session);
  if (*status == EXIT_SUCCESS)
    return true;
  gconv_session_close(session);
  return false;
}

void gconv_session_close(gconv_session *session) {
  gconv_device_close(session->device);
  for (size_t i = 0; i < GCONV_THREAD_COUNTS; i++)
    gconv_device_close(session->cpus[i]);
}

void gconv_session_run(gconv_session *session, void (*run_case)(gconv_session *session, uint64_t number, bool verbose)) {
  if (session->single)
    run_case(session, session->only, true);
  for (uint64_t i = 0; !session->single && i < session->cases && session->failures < MOST_FAILURES; i++)
    run_case(session, i, false);
}

bool gconv_session_has(const gconv_session *session, const gconv_algorithm_info *algorithm) {
  return strncmp(session->device_name, algorithm->device, strlen(algorithm->device)) == 0 &&
         (!session->algorithm || strcmp(session->algorithm, algorithm->name) == 0);
}

bool gconv_session_fail(gconv_session *session, uint64_t number, const char *algorithm, const char *wrong,
                        const char *what) {
  printf("FAILED --device %s --seed %" PRIu64 " --case %" PRIu64 " --algorithm %s: %s\n  %s\n", session->device_name,
         session->seed, number, algorithm, wrong, what);
  session->failures++;
  return false;
}

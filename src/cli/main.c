/* SPDX-License-Identifier: MIT */
/* The program: signals, standard streams, its beginning and its end. */
#include "base/fields.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/job.h"
#include "cli/memory_limit.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Removes unfinished results, and lets the signal end the program: a shell that runs a loop of commands sees the signal, and
 * ends its loop, too. Does nothing more than noting the signal if the command wants to save something first. */
static void end_by_signal(int number) {
  sigset_t self;
  if (gconv_interrupt_take(number))
    return;
  gconv_say_no_more();
  gconv_job_say_interrupted();
  gconv_interrupt_tell();
  gconv_remove_unfinished();
  sigemptyset(&self);
  sigaddset(&self, number);
  signal(number, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &self, NULL);
  raise(number);
  _exit(128 + number);
}

static void watch_signals(void) {
  static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};
  struct sigaction action = {.sa_handler = end_by_signal};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    struct sigaction old;
    if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* nohup stays in force */
      sigaction(ends[i], &action, NULL);
  }
  signal(SIGPIPE, SIG_IGN); /* commands that write files go on if the reader of their output goes away */
  signal(SIGXFSZ, SIG_IGN); /* so that a file beyond the limit (ulimit -f) is an error */
}

/* Asks for SIGXCPU a second before the hard limit of processor time, where the kernel kills the process. The signal comes at
 * the soft limit, which `ulimit -t` sets as high as the hard one. */
static void ask_for_warning(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_max != RLIM_INFINITY && limit.rlim_max > 1 &&
      limit.rlim_cur >= limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max - 1;
    setrlimit(RLIMIT_CPU, &limit);
  }
}

/* Opens /dev/null in place of each standard stream that is closed. Otherwise the next file to be opened would get the
 * stream's number, and reports would be written into that file. */
static void open_standard_streams(void) {
  int file; /* for reading only, so that writing still fails */
  do
    file = open("/dev/null", O_RDONLY);
  while (file >= 0 && file <= STDERR_FILENO);
  if (file > STDERR_FILENO)
    close(file);
}

/* CUDA makes 8 queues of work for each GPU, which takes half of the time to create and destroy a context: on an H200, one
 * queue saves 45 ms at the start and 40 ms at the end. But in a batch, an image's results would wait in that queue for other
 * images' uploads, 6 ms each time. Two queues avoid this wait, and cost 10 ms at the start. */
static void ask_for_few_queues(void) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "2", 0);
}

/* ---- Stacks ---- */

/* Each thread has at least this stack: texts of errors take 10 KB each, and the default may be small (ulimit -s, musl). */
enum { STACK_BYTES = 1 << 20 };

typedef struct call {
  int count;
  char **words;
  int status;
} call;

static void *run_command(void *argument) {
  call *c = argument;
  c->status = gconv_run(c->count - 1, c->words + 1);
  return NULL;
}

static void enlarge_stacks(void) {
  pthread_attr_t attributes;
  size_t bytes;
  if (pthread_getattr_default_np(&attributes) != 0)
    return;
  if (pthread_attr_getstacksize(&attributes, &bytes) == 0 && bytes < STACK_BYTES &&
      pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0)
    pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

/* Runs the call in this thread, or in another if this thread's stack is small. */
static void run_on_stack(call *c) {
  pthread_t thread;
  struct rlimit limit;
  bool small = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < STACK_BYTES;
  if (small && pthread_create(&thread, NULL, run_command, c) == 0)
    pthread_join(thread, NULL);
  else
    run_command(c);
}

/* Ends the process without destructors: a thread may still be starting CUDA, whose driver must not end meanwhile. */
static int end(int status) {
#ifndef GCONV_ENDS_BY_EXIT /* builds for tests set it: their counters and sanitizers report in destructors */
  fflush(NULL);
  _exit(status);
#endif
  return status;
}

int main(int count, char **words) {
  call c = {.count = count, .words = words};
  gconv_name_options();
  open_standard_streams();
  watch_signals();
  ask_for_warning();
  ask_for_few_queues();
  enlarge_stacks();
#ifndef GCONV_WITHOUT_SANDBOX /* builds for tests set it: they write counters and logs elsewhere */
  gconv_memory_limit_permit();
  gconv_sandbox_permit();
#endif
  run_on_stack(&c);
  if (gconv_output_is_lost() && c.status == GCONV_EXIT_OK)
    c.status = GCONV_EXIT_FAILED;
  return end(c.status);
}

/* SPDX-License-Identifier: MIT */
/*
 * Makes calls of the C library fail, to see what becomes of a program: as a shared object for LD_PRELOAD, where the calls
 * of all libraries fail; or, compiled with FAULTS_WRAP and linked with --wrap, in a program whose memory is a sanitizer's.
 *
 * $FAULT is KIND:FIRST:PERIOD: of the calls of that kind, counted from 1, number FIRST fails, and, if PERIOD is not 0, every
 * PERIOD-th one after it. KIND is memory, write (the disk is full), short (writes take half of what they are given; one
 * byte alone is taken), interrupt (writes), read, slow (reads take 20 ms), open, rename, exists (link() finds that somebody
 * else made the file), close or thread. At the end, the calls of the kind, those that failed, and the most slow ones that
 * were under way at a time are written to the file that $FAULT_LOG names.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef enum kind { NONE, MEMORY, WRITE, SHORT, INTERRUPT, READ, SLOW, OPEN, RENAME, EXISTS, CLOSE, THREAD, KINDS } kind;

static kind wanted;
static unsigned long first, period;
static atomic_ulong calls, failures, slow, most_slow;

static void stop(void) {
  wanted = NONE;
}

/* What counts lines writes its files when the program ends: they shall be whole. Not before main(), or it comes too late. */
static void stop_at_exit(void) {
  static atomic_flag done = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&done))
    atexit(stop);
}

/* Whether this call fails. */
static int fails(kind of) {
  if (of != wanted)
    return 0;
  unsigned long number = atomic_fetch_add(&calls, 1) + 1;
  int failing = number == first || (period > 0 && number > first && (number - first) % period == 0);
  failures += (unsigned long)failing;
  return failing;
}

static void begin(void) {
  static const char *const names[KINDS] = {"",     "memory", "write",  "short",  "interrupt", "read",
                                           "slow", "open",   "rename", "exists", "close",     "thread"};
  const char *text = getenv("FAULT");
  size_t length = text ? strcspn(text, ":") : 0;
  for (kind k = MEMORY; length > 0 && k < KINDS; k++)
    if (strlen(names[k]) == length && strncmp(names[k], text, length) == 0 &&
        sscanf(text + length, ":%lu:%lu", &first, &period) == 2)
      wanted = k;
}

#ifdef FAULTS_WRAP
__attribute__((constructor)) static void begin_program(void) {
  begin();
}
#else
/* Not before main(): libraries that prepare themselves there, as CUDA's does, are not ours to test. */
static int (*main_of_program)(int, char **, char **);

static int begin_main(int count, char **words, char **environment) {
  begin();
  return main_of_program(count, words, environment);
}

int __libc_start_main(int (*main)(int, char **, char **), int count, char **words, void (*init)(void), void (*fini)(void),
                      void (*linker_fini)(void), void *stack_end);

int __libc_start_main(int (*main)(int, char **, char **), int count, char **words, void (*init)(void), void (*fini)(void),
                      void (*linker_fini)(void), void *stack_end) {
  main_of_program = main;
  __typeof__(&__libc_start_main) real = (__typeof__(&__libc_start_main))dlsym(RTLD_NEXT, "__libc_start_main");
  return real(begin_main, count, words, init, fini, linker_fini, stack_end);
}
#endif

__attribute__((destructor)) static void end(void) {
  const char *path = getenv("FAULT_LOG");
  stop();
  FILE *log = path ? fopen(path, "w") : NULL;
  if (log)
    fprintf(log, "%lu %lu %lu\n", calls, failures, most_slow);
  if (log)
    fclose(log);
}

#ifndef FAULTS_WRAP
/* gconv ends without destructors. */
void _exit(int status) {
  end();
  ((__typeof__(&_exit))dlsym(RTLD_NEXT, "_exit"))(status);
  abort();
}
#endif

#ifdef FAULTS_WRAP
#define NAME(name) __wrap_##name
#define REAL(name) __real_##name
#define DECLARE(result, name, ...)                                                                                          \
  result __real_##name(__VA_ARGS__);                                                                                        \
  result __wrap_##name(__VA_ARGS__);
#else
#define NAME(name) name
#define DECLARE(result, name, ...)
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#endif

/* ---- Memory -------------------------------------------------------------------------------------------------------- */

#ifdef FAULTS_WRAP
#define REAL_MALLOC __real_malloc
#define REAL_CALLOC __real_calloc
#define REAL_REALLOC __real_realloc
#define REAL_ALIGNED __real_aligned_alloc
#else /* dlsym() itself allocates */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
#define REAL_MALLOC __libc_malloc
#define REAL_CALLOC __libc_calloc
#define REAL_REALLOC __libc_realloc
#define REAL_ALIGNED __libc_memalign
#endif

DECLARE(void *, malloc, size_t)
DECLARE(void *, calloc, size_t, size_t)
DECLARE(void *, realloc, void *, size_t)
DECLARE(void *, aligned_alloc, size_t, size_t)
DECLARE(char *, strdup, const char *)
DECLARE(char *, strndup, const char *, size_t)
DECLARE(FILE *, open_memstream, char **, size_t *)

static void *refuse(void) {
  errno = ENOMEM;
  return NULL;
}

void *NAME(malloc)(size_t size) {
  return fails(MEMORY) ? refuse() : REAL_MALLOC(size);
}

void *NAME(calloc)(size_t count, size_t size) {
  return fails(MEMORY) ? refuse() : REAL_CALLOC(count, size);
}

void *NAME(realloc)(void *memory, size_t size) {
  return fails(MEMORY) ? refuse() : REAL_REALLOC(memory, size);
}

void *NAME(aligned_alloc)(size_t alignment, size_t size) {
  return fails(MEMORY) ? refuse() : REAL_ALIGNED(alignment, size);
}

#ifdef FAULTS_WRAP /* the C library's own calls are not wrapped */
char *__wrap_strdup(const char *text) {
  return fails(MEMORY) ? refuse() : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size) {
  return fails(MEMORY) ? refuse() : __real_strndup(text, size);
}

FILE *__wrap_open_memstream(char **text, size_t *size) {
  return fails(MEMORY) ? refuse() : __real_open_memstream(text, size);
}

int __wrap_asprintf(char **text, const char *format, ...);
int __wrap_asprintf(char **text, const char *format, ...) {
  va_list arguments;
  if (fails(MEMORY))
    return -1;
  va_start(arguments, format);
  int length = vasprintf(text, format, arguments);
  va_end(arguments);
  return length;
}
#else
int posix_memalign(void **memory, size_t alignment, size_t size) {
  if (fails(MEMORY))
    return ENOMEM;
  *memory = __libc_memalign(alignment, size);
  return *memory ? 0 : ENOMEM;
}
#endif

/* ---- Files --------------------------------------------------------------------------------------------------------- */

DECLARE(ssize_t, write, int, const void *, size_t)
DECLARE(ssize_t, read, int, void *, size_t)
DECLARE(int, open64, const char *, int, ...)
DECLARE(int, rename, const char *, const char *)
DECLARE(int, link, const char *, const char *)
DECLARE(int, close, int)

static int fail_with(int error) {
  errno = error;
  return -1;
}

ssize_t NAME(write)(int file, const void *bytes, size_t size) {
  if (file <= STDERR_FILENO)
    return REAL(write)(file, bytes, size);
  if (fails(WRITE))
    return fail_with(ENOSPC);
  if (fails(INTERRUPT))
    return fail_with(EINTR);
  return REAL(write)(file, bytes, fails(SHORT) ? (size + 1) / 2 : size);
}

/* Long enough for another thread to come here as well, if nothing keeps it. */
static void be_slow(void) {
  unsigned long now = atomic_fetch_add(&slow, 1) + 1, most = atomic_load(&most_slow);
  while (now > most && !atomic_compare_exchange_weak(&most_slow, &most, now)) {
  }
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  atomic_fetch_sub(&slow, 1);
}

ssize_t NAME(read)(int file, void *bytes, size_t size) {
  if (fails(SLOW))
    be_slow();
  return fails(READ) ? fail_with(EIO) : REAL(read)(file, bytes, size);
}

int NAME(open64)(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  stop_at_exit();
  return fails(OPEN) ? fail_with(EMFILE) : REAL(open64)(path, flags, mode);
}

int NAME(rename)(const char *from, const char *to) {
  return fails(RENAME) ? fail_with(EIO) : REAL(rename)(from, to);
}

int NAME(link)(const char *from, const char *to) {
  return fails(RENAME) ? fail_with(EPERM) : fails(EXISTS) ? fail_with(EEXIST) : REAL(link)(from, to);
}

/* The file is closed all the same, as by Linux. */
int NAME(close)(int file) {
  int result = REAL(close)(file);
  return file > STDERR_FILENO && fails(CLOSE) ? fail_with(EIO) : result;
}

/* ---- Threads ------------------------------------------------------------------------------------------------------- */

typedef void *routine(void *);
DECLARE(int, pthread_create, pthread_t *, const pthread_attr_t *, routine *, void *)

int NAME(pthread_create)(pthread_t *thread, const pthread_attr_t *attributes, routine *function, void *argument) {
  return fails(THREAD) ? EAGAIN : REAL(pthread_create)(thread, attributes, function, argument);
}

/* SPDX-License-Identifier: MIT */
#include "cli/memory_limit.h"

#include <inttypes.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
  PROGRAM_BYTES = 8 << 20, /* the program with its libraries, as src/batch/memory.c counts it */
  LEAST_BYTES = 16 << 20   /* for lists of files and the like: errors can then say how much --memory is needed */
};

static bool permitted, limited;
static struct rlimit before;

void gconv_memory_limit_permit(void) {
  permitted = true;
}

/* Returns the bytes that the kernel counts for this process now; 0: not known. */
static uint64_t bytes_now(void) {
  FILE *file = fopen("/proc/self/statm", "re");
  uint64_t pages = 0;
  bool known = file && fscanf(file, "%*u %*u %*u %*u %*u %" SCNu64, &pages) == 1; /* private pages that can be written */
  if (file)
    fclose(file);
  return known ? pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Lets freed pixels go back to the system. Otherwise glibc has blocks of up to 32 MiB in a heap for each thread, and keeps
 * the heap's memory as long as any block in it is used. */
static void keep_no_freed_memory(void) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
}

void gconv_memory_limit_begin(uint64_t memory) {
  if (memory > 0)
    keep_no_freed_memory();
  uint64_t now = permitted && memory > 0 ? bytes_now() : 0;
  uint64_t most = memory > PROGRAM_BYTES + LEAST_BYTES ? memory - PROGRAM_BYTES : LEAST_BYTES;
  if (now == 0 || most > UINT64_MAX / 2 || getrlimit(RLIMIT_DATA, &before) != 0 || before.rlim_cur <= now + most)
    return;
  const struct rlimit limit = {.rlim_cur = now + most, .rlim_max = before.rlim_max};
  limited = setrlimit(RLIMIT_DATA, &limit) == 0;
}

void gconv_memory_limit_end(void) {
  if (limited)
    setrlimit(RLIMIT_DATA, &before);
  limited = false;
}

gconv_status gconv_memory_limit_explain(uint64_t memory, gconv_status status) {
  if (!limited || status != GCONV_NO_MEMORY)
    return status;
  return gconv_fail(status, "%s: --memory allows %.0f MB: raise it", gconv_last_error(), ceil((double)memory / 1e6));
}

/* SPDX-License-Identifier: MIT */
/*
 * What holds for all fuzzers: options of the sanitizers, and bounds. No input may take more time of the processors, or more
 * memory at once, than a constant and so much for each of its bytes: else the fuzzer fails, and keeps the input. The
 * constants are what the library takes for small inputs, with sanitizers; the rest is what is promised of every parser.
 *
 * The linker leads libFuzzer's call of LLVMFuzzerTestOneInput() here (--wrap).
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <sanitizer/allocator_interface.h>

#ifndef FUZZ_SECONDS
#define FUZZ_SECONDS 1 /* of any input */
#endif
enum { NANOSECONDS_A_BYTE = 100000, MOST_BYTES = 200 << 20, BYTES_A_BYTE = 4096 };

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
int __real_LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int __wrap_LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* Headers may promise anything: what cannot be had is refused as by a system that has no memory. */
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1:max_allocation_size_mb=64";
}

const char *__ubsan_default_options(void) {
  return "print_stacktrace=1";
}

/* ---- Memory -------------------------------------------------------------------------------------------------------- */

static atomic_llong now, most; /* bytes since the input began */

static void on_malloc(const volatile void *memory, size_t size) {
  (void)memory;
  long long bytes = atomic_fetch_add(&now, (long long)size) + (long long)size, before = atomic_load(&most);
  while (bytes > before && !atomic_compare_exchange_weak(&most, &before, bytes))
    continue;
}

static void on_free(const volatile void *memory) {
  if (memory)
    atomic_fetch_sub(&now, (long long)__sanitizer_get_allocated_size(memory));
}

/* ---- Both ---------------------------------------------------------------------------------------------------------- */

/* Of all inputs: what bounds are chosen by. */
static double longest;
static long long largest;

static void tell_most(void) {
  fprintf(stderr, "most of one input: %.3f s, %.1f MiB\n", longest, (double)largest / (1 << 20));
}

/* Of all threads. */
static double processor_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void begin(void) {
  static int begun;
  if (!begun++ && (atexit(tell_most) != 0 || !__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free)))
    abort();
  atomic_store(&now, 0);
  atomic_store(&most, 0);
}

int __wrap_LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  begin();
  double start = processor_seconds(), allowed = FUZZ_SECONDS + (double)size * NANOSECONDS_A_BYTE * 1e-9;
  int result = __real_LLVMFuzzerTestOneInput(data, size);
  double seconds = processor_seconds() - start;
  long long bytes = atomic_load(&most), allowed_bytes = MOST_BYTES + (long long)size * BYTES_A_BYTE;
  longest = seconds > longest ? seconds : longest;
  largest = bytes > largest ? bytes : largest;
  if (seconds <= allowed && bytes <= allowed_bytes)
    return result;
  fprintf(stderr, "%zu bytes took %.3f s, of %.3f allowed, and %.1f MiB, of %.1f\n", size, seconds, allowed,
          (double)bytes / (1 << 20), (double)allowed_bytes / (1 << 20));
  abort();
}

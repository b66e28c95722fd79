/* SPDX-License-Identifier: MIT */
/* What holds for all fuzzers. */

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

/* Headers may promise anything: what cannot be had is refused as by a system that has no memory. */
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1:max_allocation_size_mb=64";
}

const char *__ubsan_default_options(void) {
  return "print_stacktrace=1";
}

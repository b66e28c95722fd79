/* SPDX-License-Identifier: MIT */
#include "base/memory.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 }; /* bytes */

bool gconv_multiply(size_t a, size_t b, size_t *product) {
  if (b != 0 && a > SIZE_MAX / b) {
    *product = SIZE_MAX;
    return false;
  }
  *product = a * b;
  return true;
}

size_t gconv_checked_product(size_t count, const size_t *factors) {
  size_t product = 1;
  for (size_t i = 0; i < count; i++)
    if (!gconv_multiply(product, factors[i], &product))
      return SIZE_MAX;
  return product;
}

int64_t gconv_common_multiple(int64_t a, int64_t b) {
  int64_t x = a, y = b;
  while (y != 0) {
    int64_t rest = x % y;
    x = y;
    y = rest;
  }
  return a / x * b;
}

/* Allocates whole huge pages for `least` bytes or more, otherwise whole cache lines. */
static gconv_status allocate(size_t bytes, size_t least, const char *what, void **memory) {
  bool large = bytes >= least;
  size_t unit = large ? HUGE_PAGE : GCONV_ALIGNMENT;
  size_t rounded = bytes == 0 ? unit : (bytes + unit - 1) / unit * unit;
  bool possible = rounded >= bytes && bytes <= PTRDIFF_MAX, by_caller = false;
  void *result = NULL;
  if (possible)
    by_caller = gconv_allocate_by_caller(rounded, unit, &result);
  if (possible && !by_caller)
    result = aligned_alloc(unit, rounded);
  GCONV_NEED_MEMORY(result, "no memory for %s (%.1f MiB)", what, (double)bytes / 1048576);
#ifdef MADV_HUGEPAGE
  if (large && !by_caller) /* otherwise the system makes and clears its pages one by one: 16 ms for 25 MB instead of 4 */
    madvise(result, rounded, MADV_HUGEPAGE);
#endif
  *memory = result;
  return GCONV_OK;
}

gconv_status gconv_allocate(size_t bytes, const char *what, void **memory) {
  return allocate(bytes, 4 * HUGE_PAGE, what, memory);
}

gconv_status gconv_allocate_workspace(size_t bytes, const char *what, void **memory) {
  return allocate(bytes, HUGE_PAGE / 8, what, memory);
}

void gconv_make_pages(void *memory, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = ((uintptr_t)memory + page - 1) / page * page,
                  end = ((uintptr_t)memory + bytes) / page * page;
  if (end > first)
    madvise((void *)first, end - first, MADV_POPULATE_WRITE);
#else
#endif
}

void gconv_release(void *memory) {
  if (!gconv_release_to_caller(memory))
    free(memory);
}

size_t gconv_held_bytes(const void *memory) {
  const size_t bytes = gconv_bytes_of_caller(memory);
  return bytes > 0 ? bytes : malloc_usable_size((void *)memory);
}

uint64_t gconv_memory_there(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_C(1) << 30, limit;
  FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");
  if (file && fscanf(file, "%" SCNu64, &limit) == 1 && limit < bytes)
    bytes = limit;
  if (file)
    fclose(file);
  return bytes;
}

void *gconv_grown(void *items, size_t count, size_t size) {
  size_t bytes;
  if (count & (count - 1))
    return items;
  return gconv_multiply(count ? 2 * count : 1, size, &bytes) ? realloc(items, bytes) : NULL;
}

size_t gconv_room(size_t needed) {
  size_t room = 4096;
  while (room < needed && room <= SIZE_MAX / 4)
    room *= 2;
  return room < needed ? SIZE_MAX : room;
}

bool gconv_close_text(FILE *stream, char **text) {
  bool whole = fclose(stream) == 0; /* if the text cannot be shortened to its length, *text is NULL, but fclose() succeeds */
  if (whole && *text)
    return true;
  free(*text);
  *text = NULL;
  return false;
}

char *gconv_format_text(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *text = length < 0 ? NULL : malloc((size_t)length + 1);
  if (!text)
    return NULL;
  va_start(arguments, format);
  vsnprintf(text, (size_t)length + 1, format, arguments);
  va_end(arguments);
  return text;
}

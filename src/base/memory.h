/* SPDX-License-Identifier: MIT */
/* Memory, and arithmetic on sizes. Includes <stdlib.h> and <stdio.h>. */
#pragma once

#include "base/both.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>

enum { GCONV_ALIGNMENT = 64 }; /* a cache line, and the widest vector */

GCONV_C_BEGIN

/* Sets *product = a * b. If that does not fit, sets *product = SIZE_MAX, and returns false. */
bool gconv_multiply(size_t a, size_t b, size_t *product);

/* Returns the product of `count` factors, or SIZE_MAX if it does not fit. No allocation of SIZE_MAX succeeds. */
size_t gconv_checked_product(size_t count, const size_t *factors);

/* Returns the least common multiple of two numbers from 1 to 2^31. */
int64_t gconv_common_multiple(int64_t a, int64_t b);

/* Allocates `bytes` (at least 1), aligned to GCONV_ALIGNMENT. The contents are undefined. `what` is for the error text: "the
 * image". Free with gconv_release(). */
gconv_status gconv_allocate(size_t bytes, const char *what, void **memory);

/* Does what gconv_allocate() does, for a thread's workspace, which is used again and again. From 256 KiB on, it has whole
 * huge pages of 2 MiB, which need fewer entries of the processor's page tables. For many blocks, this would waste
 * memory. */
gconv_status gconv_allocate_workspace(size_t bytes, const char *what, void **memory);

/* Lets the system make all pages that lie wholly in this memory at once; otherwise it makes each page when it is first
 * written. The contents stay, even if other threads write at the same time. Does nothing if the system cannot do this. */
void gconv_make_pages(void *memory, size_t bytes);

/* Frees memory of gconv_allocate(), gconv_allocate_workspace() and malloc(). NULL is allowed. */
void gconv_release(void *memory);

/* Returns how many bytes memory that gconv_release() can free takes; 0 for NULL. */
size_t gconv_held_bytes(const void *memory);

/* Allocates with the allocator of gconv_set_allocator() (allocator.c). Returns false if there is none, or if the block is
 * too small for it. Else *memory is the block, or NULL if the allocator failed. */
bool gconv_allocate_by_caller(size_t bytes, size_t alignment, void **memory);
/* Releases such a block. Returns false if `memory` is no such block. */
bool gconv_release_to_caller(void *memory);
/* Returns how many bytes such a block has; 0 if none is at `memory`. */
size_t gconv_bytes_of_caller(const void *memory);

/* Stands before the declaration of a variable with an initial value. Where its scope ends, function(&variable) is called. */
#define GCONV_ENDED_BY(function) __attribute__((cleanup(function)))

/* Stands before the declaration of a pointer with an initial value: NULL, or memory of malloc() or gconv_allocate(). The
 * memory is freed wherever the scope of the pointer ends. */
#define GCONV_FREED GCONV_ENDED_BY(gconv_free_at)
static inline void gconv_free_at(void *pointer) {
  gconv_release(*(void **)pointer);
}

/* Returns the pointer at `pointer`, and sets it to NULL: so memory under GCONV_FREED gets another owner. */
static inline void *gconv_taken(void *pointer) {
  void *taken = *(void **)pointer;
  *(void **)pointer = NULL;
  return taken;
}

/* Lets `pointer` point to memory of gconv_allocate(). Without memory, the calling function returns the failure. */
#define GCONV_ALLOCATE(pointer, bytes, what) GCONV_TRY(gconv_allocate(bytes, what, (void **)(void *)&(pointer)))

/* Returns the bytes of memory that the machine has, or the limit of the control group if that is less. Linux may promise
 * more memory than there is: then a large allocation succeeds, but using it ends the process. So large sizes are compared
 * with this number first. */
uint64_t gconv_memory_there(void);

/* Every list that grows item by item grows by this function. Returns `items`, an array of `count` items of `size` bytes from
 * malloc(), with room for one more item. If `count` is 0 or a power of two, the array is moved to twice the room. So no
 * capacity needs to be kept, and each item is copied twice on average, however long the list becomes. Without memory,
 * returns NULL, without an error text; `items` is then as it was. */
void *gconv_grown(void *items, size_t count, size_t size);

/* Gives `items` room for one more item, by gconv_grown(). Without memory, returns as GCONV_NEED_MEMORY() does. */
#define GCONV_GROW(items, count, ...)                                                                                       \
  do {                                                                                                                      \
    void *gconv_grown_items = gconv_grown(items, count, sizeof *(items));                                                   \
    GCONV_NEED_MEMORY(gconv_grown_items, __VA_ARGS__);                                                                      \
    (items) = gconv_grown_items;                                                                                            \
  } while (0)

/* Returns the room of every buffer that grows by parts: the least power of two that holds `needed` bytes, at least 4096. If
 * that does not fit, returns SIZE_MAX, and no allocation of SIZE_MAX succeeds. */
size_t gconv_room(size_t needed);

/* Returns the formatted text; release it with free(). Returns NULL without memory. */
char *gconv_format_text(const char *format, ...) GCONV_PRINTF(1, 2);

/* Closes a stream of open_memstream(). If memory ran out, frees *text, sets it to NULL, and returns false. */
bool gconv_close_text(FILE *stream, char **text);

GCONV_C_END

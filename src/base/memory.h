/* SPDX-License-Identifier: MIT */
/* Memory, and arithmetic on sizes. */
#pragma once

#include "base/both.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>

enum { GCONV_ALIGNMENT = 64 }; /* a cache line, and the widest vector */

GCONV_C_BEGIN

/* *product = a * b. If that does not fit, *product = SIZE_MAX, and the result is false. */
bool gconv_multiply(size_t a, size_t b, size_t *product);

/* Returns the product of `count` factors, or SIZE_MAX if it does not fit. No allocation of SIZE_MAX succeeds. */
size_t gconv_product(size_t count, const size_t *factors);

/* The least common multiple of two numbers from 1 to 2^31. */
int64_t gconv_common_multiple(int64_t a, int64_t b);

/* Allocates `bytes` (at least 1), aligned to GCONV_ALIGNMENT. The contents are undefined. `what` is for the error text: "the
 * image". Free with gconv_release(). */
gconv_status gconv_allocate(size_t bytes, const char *what, void **memory);

/* The same for a thread's workspace, which is used again and again. From 256 KiB on it has whole huge pages of 2 MiB, which
 * need fewer entries of the processor's page tables. For many blocks that would take too much memory. */
gconv_status gconv_allocate_workspace(size_t bytes, const char *what, void **memory);

/* Has the system make the pages that lie wholly in this memory, which it would do one by one as they are written to. The
 * contents stay, whoever writes meanwhile. Does nothing where the system cannot do this. */
void gconv_make_pages(void *memory, size_t bytes);

/* NULL is allowed. */
void gconv_release(void *memory);

/* Before the declaration of a variable that has a value: wherever its scope ends, function(&variable) is called. */
#define GCONV_ENDED_BY(function) __attribute__((cleanup(function)))

/* Before the declaration of a pointer that has a value: it is freed wherever its scope ends. */
#define GCONV_FREED GCONV_ENDED_BY(gconv_free_at)
static inline void gconv_free_at(void *pointer) {
  free(*(void **)pointer);
}

/* Bytes of memory that the machine has, or the limit of the control group where that is less. Where Linux promises more than
 * there is, allocations succeed that end the process once they are used: what may be so large is compared with this. */
uint64_t gconv_memory_there(void);

/* Every list that grows item by item grows by this function. Returns `items`, an array of `count` items of `size` bytes from
 * malloc(), with room for one more. It is moved to twice the room whenever `count` is 0 or a power of two: so no capacity
 * needs to be kept, and each item is copied twice on average, however long the list becomes. NULL without memory: `items` is
 * as it was, and there is no error text. */
void *gconv_grown(void *items, size_t count, size_t size);

/* Every buffer that grows by parts has this room: the least power of two that holds `needed` bytes, at least 4096; SIZE_MAX,
 * of which no allocation succeeds, if that does not fit. */
size_t gconv_room(size_t needed);

/* Returns a copy of the formatted text, for free(); NULL without memory. */
char *gconv_format_text(const char *format, ...) GCONV_PRINTF(1, 2);

/* Closes a stream of open_memstream(). Returns false if memory ran out: then *text is freed and NULL. */
bool gconv_close_text(FILE *stream, char **text);

GCONV_C_END

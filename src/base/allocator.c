/* SPDX-License-Identifier: MIT */
/* Large blocks from an allocator of the caller. A list has the blocks with their allocators, so that each block goes back to
 * its own. The list is short, because blocks have 1 MiB or more. If no caller sets an allocator, it is not searched. */
#include "base/memory.h"
#include "gconv_embed.h"

#include <pthread.h>
#include <stdatomic.h>

enum { LARGE = 1 << 20 }; /* bytes */

typedef struct block {
  void *memory;
  size_t bytes;
  gconv_allocator from;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the variables below, except `used` */
static gconv_allocator current;
static block *blocks;
static size_t count;
static atomic_bool used; /* an allocator is set, or there are blocks of one */

gconv_status gconv_set_allocator(const gconv_allocator *allocator) {
  if (allocator && (!allocator->allocate || !allocator->release))
    return gconv_fail(GCONV_BAD_ARGUMENT, "gconv_set_allocator(): allocator->%s is NULL",
                      allocator->allocate ? "release" : "allocate");
  pthread_mutex_lock(&lock);
  current = allocator ? *allocator : (gconv_allocator){0};
  atomic_store(&used, allocator || count > 0);
  pthread_mutex_unlock(&lock);
  return GCONV_OK;
}

bool gconv_allocate_by_caller(size_t bytes, size_t alignment, void **memory) {
  if (bytes < LARGE || !atomic_load_explicit(&used, memory_order_acquire))
    return false;
  pthread_mutex_lock(&lock);
  const gconv_allocator from = current;
  pthread_mutex_unlock(&lock);
  if (!from.allocate)
    return false;
  void *made = from.allocate(bytes, alignment, from.user);
  pthread_mutex_lock(&lock);
  block *grown = made ? realloc(blocks, (count + 1) * sizeof *blocks) : NULL;
  if (grown) {
    blocks = grown;
    blocks[count++] = (block){made, bytes, from};
    atomic_store(&used, true); /* another thread may have removed the allocator meanwhile */
  }
  pthread_mutex_unlock(&lock);
  if (made && !grown)
    from.release(made, from.user);
  *memory = grown ? made : NULL;
  return true;
}

bool gconv_release_to_caller(void *memory) {
  if (!memory || !atomic_load_explicit(&used, memory_order_acquire))
    return false;
  gconv_allocator from = {0};
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < count && !from.release; i++)
    if (blocks[i].memory == memory) {
      from = blocks[i].from;
      blocks[i] = blocks[--count];
    }
  atomic_store(&used, current.allocate || count > 0);
  pthread_mutex_unlock(&lock);
  if (from.release)
    from.release(memory, from.user);
  return from.release != NULL;
}

size_t gconv_bytes_of_caller(const void *memory) {
  if (!memory || !atomic_load_explicit(&used, memory_order_acquire))
    return 0;
  size_t bytes = 0;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < count && bytes == 0; i++)
    if (blocks[i].memory == memory)
      bytes = blocks[i].bytes;
  pthread_mutex_unlock(&lock);
  return bytes;
}

/* SPDX-License-Identifier: MIT */
#include "svm/cache.h"

#include <stdlib.h>

static const uint32_t none = UINT32_MAX;

void gconv_svm_cache_forget(gconv_svm_cache *cache) {
  for (size_t i = 0; i < cache->count; i++)
    cache->slot_of[i] = none;
  cache->newest = cache->oldest = none;
  cache->used = 0;
}

gconv_status gconv_svm_cache_make(size_t count, size_t slots, gconv_svm_cache *cache) {
  *cache = (gconv_svm_cache){.count = count, .slots = slots};
  cache->slot_of = malloc((count + 1) * sizeof *cache->slot_of);
  cache->member_of = malloc((slots + 1) * sizeof *cache->member_of);
  cache->newer = malloc((slots + 1) * sizeof *cache->newer);
  cache->older = malloc((slots + 1) * sizeof *cache->older);
  GCONV_NEED_MEMORY(cache->slot_of && cache->member_of && cache->newer && cache->older,
                    "no memory for the cache of %zu rows", slots);
  gconv_svm_cache_forget(cache);
  return GCONV_OK;
}

void gconv_svm_cache_free(gconv_svm_cache *cache) {
  free(cache->slot_of);
  free(cache->member_of);
  free(cache->newer);
  free(cache->older);
  *cache = (gconv_svm_cache){0};
}

static void leave(gconv_svm_cache *cache, uint32_t slot) {
  uint32_t newer = cache->newer[slot], older = cache->older[slot];
  *(newer == none ? &cache->newest : &cache->older[newer]) = older;
  *(older == none ? &cache->oldest : &cache->newer[older]) = newer;
}

static void enter(gconv_svm_cache *cache, uint32_t slot) {
  cache->newer[slot] = none;
  cache->older[slot] = cache->newest;
  *(cache->newest == none ? &cache->oldest : &cache->newer[cache->newest]) = slot;
  cache->newest = slot;
}

/* Returns a slot for a row that is not in the cache: a free slot, or the slot of the least recently used row. */
static uint32_t take_slot(gconv_svm_cache *cache) {
  if (cache->used < cache->slots)
    return (uint32_t)cache->used++;
  uint32_t slot = cache->oldest;
  leave(cache, slot);
  cache->slot_of[cache->member_of[slot]] = none;
  return slot;
}

size_t gconv_svm_cache_take(gconv_svm_cache *cache, const uint32_t *wanted, size_t count, uint32_t *slots,
                            uint32_t *missing) {
  size_t found = 0;
  for (size_t k = 0; k < count; k++) { /* first the rows that are in the cache, so that none of them is evicted */
    uint32_t slot = cache->slot_of[wanted[k]];
    if (slot != none) {
      leave(cache, slot);
      enter(cache, slot);
    }
  }
  for (size_t k = 0; k < count; k++) {
    uint32_t slot = cache->slot_of[wanted[k]];
    if (slot == none) {
      slot = take_slot(cache);
      enter(cache, slot);
      cache->slot_of[wanted[k]] = slot;
      cache->member_of[slot] = wanted[k];
      missing[found++] = (uint32_t)k;
    }
    slots[k] = slot;
  }
  return found;
}

/* SPDX-License-Identifier: MIT */
/* A cache of rows of a matrix with a fixed number of slots. It evicts the least recently used row. */
#pragma once

#include "base/status.h"

/* Zero-initialise before first use. */
typedef struct gconv_svm_cache {
  size_t count;                  /* rows of the matrix */
  size_t slots, used;            /* used: slots that hold a row */
  uint32_t *slot_of, *member_of; /* owned. slot_of: the slot of each row; member_of: the row of each slot */
  uint32_t *newer, *older;       /* owned: the slots as a list, by their last use; its ends are `newest` and `oldest` */
  uint32_t newest, oldest;
} gconv_svm_cache;

gconv_status gconv_svm_cache_make(size_t count, size_t slots, gconv_svm_cache *cache);
/* Empties the cache. */
void gconv_svm_cache_forget(gconv_svm_cache *cache);
/* Sets slots[k] to the slot of row wanted[k], for k < count. Returns the number of missing rows: rows that were not in the
 * cache. missing[] gets their k, and the caller computes them. At most cache->slots different rows may be wanted. */
size_t gconv_svm_cache_take(gconv_svm_cache *cache, const uint32_t *wanted, size_t count, uint32_t *slots,
                            uint32_t *missing);
void gconv_svm_cache_free(gconv_svm_cache *cache);

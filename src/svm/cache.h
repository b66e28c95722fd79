/* SPDX-License-Identifier: MIT */
/* Which rows of a matrix are in which slots of a memory that has room for some of them: those that were used last. */
#ifndef GCONV_SVM_CACHE_H
#define GCONV_SVM_CACHE_H

#include "base/status.h"

/* Zero-initialise before first use. */
typedef struct gconv_svm_cache {
  size_t count;                  /* rows of the matrix */
  size_t slots, used;            /* rows that fit; that are there */
  uint32_t *slot_of, *member_of; /* owned: of rows, and of slots */
  uint32_t *newer, *older;       /* owned: of slots: a list by use, with ends first and last */
  uint32_t newest, oldest;
} gconv_svm_cache;

gconv_status gconv_svm_cache_make(size_t count, size_t slots, gconv_svm_cache *cache);
/* Empties it. */
void gconv_svm_cache_forget(gconv_svm_cache *cache);
/* slots[k] = where row wanted[k] is, or is to be made: these k are missing[0 .. the result). At most `slots` different rows
 * may be wanted. */
size_t gconv_svm_cache_take(gconv_svm_cache *cache, const uint32_t *wanted, size_t count, uint32_t *slots,
                            uint32_t *missing);
void gconv_svm_cache_free(gconv_svm_cache *cache);

#endif

/* SPDX-License-Identifier: MIT */
/* A growing array of bytes that may be larger than memory. */
#pragma once

#include "base/status.h"

enum { GCONV_STORE_MEMORY = 1 << 30 }; /* bytes in memory, unless the store has another limit */

/* Up to `limit` bytes are in memory. A larger store is in an unnamed temporary file in $TMPDIR, /var/tmp or /tmp, which
 * gconv_store_finish() maps. Zero-initialise before first use. */
typedef struct gconv_store {
  uint64_t size;  /* bytes that were appended, without dropped ones */
  uint64_t limit; /* the most bytes in memory; 0: GCONV_STORE_MEMORY */
  uint8_t *bytes; /* all bytes, or those that are not in the file yet; after gconv_store_finish(), all bytes */
  size_t used;    /* how much of `bytes` is in use, before the store is mapped */
  size_t room;
  int file; /* the file's descriptor + 1; 0: there is no file */
  bool mapped;
  size_t dropped; /* bytes in front of `bytes`, which gconv_store_drop() took off */
} gconv_store;

/* Appends bytes. GCONV_IO_ERROR, with the folder's name, if the file cannot be written. */
gconv_status gconv_store_append(gconv_store *store, const void *bytes, size_t size);

/* Call it after the last append. All bytes can then be read at store->bytes. */
gconv_status gconv_store_finish(gconv_store *store);

/* Finishes `made`, and puts it in the place of *store, which is freed. `made` is then empty. */
gconv_status gconv_store_replace(gconv_store *store, gconv_store *made);

/* After gconv_store_finish(): forgets the first `size` bytes. */
void gconv_store_drop(gconv_store *store, size_t size);

/* Continues a hash (base/checksum.h) with the size and the bytes. After gconv_store_finish(). */
uint64_t gconv_store_digest(const gconv_store *store, uint64_t hash);

/* Frees all and zeroes the store. */
void gconv_store_free(gconv_store *store);

/* SPDX-License-Identifier: MIT */
/*
 * EXIF, fed with anything (libFuzzer). What is kept of a block must be whole, upright and no larger than it may be, also
 * after the size of the image was written into it; nothing further is dropped when it is read again.
 */
#include "image/exif.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Memory that ends where a check for overruns sees it. */
static uint8_t *allocate(size_t size) {
  uint8_t *bytes = malloc(size > 0 ? size : 1);
  if (!bytes)
    abort();
  return bytes;
}

/* Returns whether the block is read; its copy is *copy, for free(), of *copy_size bytes, in memory of just that size. */
static bool keep(const uint8_t *block, size_t size, uint8_t **copy, size_t *copy_size, gconv_exif *exif) {
  uint8_t *room = allocate(gconv_exif_room(size));
  const char *fault = gconv_exif_read(block, size, room, copy_size, exif);
  if (!fault && *copy_size > gconv_exif_room(size))
    abort();
  *copy = fault ? NULL : allocate(*copy_size);
  if (!fault)
    memcpy(*copy, room, *copy_size);
  free(room);
  return !fault;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *copy = NULL, *again = NULL;
  size_t copy_size = 0, again_size = 0;
  gconv_exif exif, second;
  if (!keep(data, size, &copy, &copy_size, &exif))
    return 0;
  if (exif.orientation < 0 || exif.orientation > 8)
    abort();
  gconv_exif_set_size(copy, copy_size, 70000, 3);
  if (!keep(copy, copy_size, &again, &again_size, &second) || second.orientation > 1 || second.damaged > 0)
    abort();
  free(copy);
  free(again);
  return 0;
}

/* SPDX-License-Identifier: MIT */
/* What the parts of src/batch share besides the types of gconv_jobs.h. */
#ifndef GCONV_BATCH_TEXTS_H
#define GCONV_BATCH_TEXTS_H

#include "base/status.h"
#include "gconv_jobs.h"

/* GCONV_NO_MEMORY, with its text. */
gconv_status gconv_complain_memory(gconv_message *message);

/* `items`, an array of `count` elements of `size` bytes, with room for one more: it is moved to twice the room whenever
 * `count` is 0 or a power of two, so no capacity needs to be kept. NULL without memory, and `items` is as it was. */
void *gconv_grown(void *items, size_t count, size_t size);

#endif

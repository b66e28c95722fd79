/* SPDX-License-Identifier: MIT */
/* What can be told of the damage of a JPEG file without decoding it: the decoders of GPUs say nothing of it. */
#ifndef GCONV_IMAGE_JPEG_CHECK_H
#define GCONV_IMAGE_JPEG_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the file, of one scan, ends with its end mark, and has no marks within its coded data but those for restarts, in
 * their order, where it says that it has some. What this leaves are damages that change codes, and no marks, and files that
 * were cut and got an end mark. */
bool gconv_jpeg_is_whole(const uint8_t *bytes, size_t size);

#endif

/* SPDX-License-Identifier: MIT */
/* Finds damage of a JPEG file without decoding it, because the decoders of GPUs do not report damage. */
#ifndef GCONV_IMAGE_JPEG_CHECK_H
#define GCONV_IMAGE_JPEG_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns whether the file, of one scan, ends with its end mark, and whether its coded data have no marks but those for
 * restarts, in their order, if the file announces restarts. This does not find damage that changes codes but no marks, or
 * files that were cut and got an end mark. */
bool gconv_jpeg_is_whole(const uint8_t *bytes, size_t size);

#endif

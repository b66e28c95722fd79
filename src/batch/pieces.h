/* SPDX-License-Identifier: MIT */
/* Cutting a result into images that a format for photos can hold. */
#ifndef GCONV_BATCH_PIECES_H
#define GCONV_BATCH_PIECES_H

#include "batch/texts.h"

/* Makes *piece (zeroed) frame `frame` of `image`, interleaved where it has at most 4 channels. Pixels and metadata are those
 * of `image`, not a copy, unless they had to be interleaved: free with gconv_piece_free() before `image`. */
gconv_status gconv_piece_take(const gconv_image *image, int32_t frame, gconv_image *piece);

/* Frees what *piece has of its own, and zeroes it. */
void gconv_piece_free(const gconv_image *image, gconv_image *piece);

#endif

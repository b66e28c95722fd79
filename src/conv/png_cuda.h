/* SPDX-License-Identifier: MIT */
/*
 * PNG made by a GPU: the same bytes that src/image/png_write.c makes at level 1.
 *
 * Filtered photos are strips of GCONV_PNG_LITERALS nearly always: row filters, histograms, prefix codes and bits packed side
 * by side, all of which a GPU does in a fraction of a millisecond, while a processor takes 40 for 4K. Matches are
 * looked for in the samples of the strips, as decisions depend on them, but not in the strips: those that have some are left
 * to the host.
 */
#ifndef GCONV_CONV_PNG_CUDA_H
#define GCONV_CONV_PNG_CUDA_H

#include "gconv.h"
#include "image/png_strip.h"

#include <cuda_runtime_api.h>

/* Makes strips of one image at a time, of one shape. */
typedef struct gconv_png_encoder gconv_png_encoder;

/* Whether images like this, compressed at this level (of gconv_write_options), are made here: interleaved u8 or u16 of 1 to
 * 4 channels, whose rows have up to half a megabyte, at level 1. Where this is false, an encoder must not be made. */
bool gconv_png_device_can(const gconv_image *header, int level);

/* For images of this shape and type, on the device that is current. Takes all memory that it will need: about 2.5 times that
 * of the image, on the device; at least 1 MB of the first call for a device, which lets that make a small picture
 * (png_check.h) in that memory, while others wait.
 * GCONV_NO_MEMORY; GCONV_UNSUPPORTED if its bytes are not the CPU's. */
gconv_status gconv_png_encoder_create(const gconv_image *shape, gconv_png_encoder **encoder);
/* NULL is allowed. */
void gconv_png_encoder_free(gconv_png_encoder *encoder);
/* Those on the device; and what they will be for images of this shape, if the device was checked before. */
size_t gconv_png_encoder_bytes(const gconv_png_encoder *encoder);
size_t gconv_png_bytes_for(const gconv_image *shape);

/* Makes the strips of `image`, whose pixels are on the device, its rows row_bytes apart. All is left to the stream; pixels
 * and encoder are in use until that has come to it. */
gconv_status gconv_png_encode(gconv_png_encoder *encoder, const gconv_image *image, cudaStream_t stream);

/* Then: the strips from the top, and, on the device, the chunks of those that were made, one behind the other. */
const gconv_png_strip *gconv_png_encoder_strips(const gconv_png_encoder *encoder, size_t *count);
const uint8_t *gconv_png_encoder_chunks(const gconv_png_encoder *encoder);

#endif

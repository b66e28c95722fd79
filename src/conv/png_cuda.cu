/* SPDX-License-Identifier: MIT */
#include "conv/cuda_error.h"
#include "conv/png_cuda.h"

#include <stdlib.h>
#include <string.h>

struct gconv_png_encoder {
  gconv_png_strip *strips; /* pinned */
  size_t count;
};

bool gconv_png_device_can(const gconv_image *header, int level) {
  const size_t most_row = (size_t)1 << 19;
  return level <= 1 && level >= 0 && header->frames == 1 && !header->planar && header->channels <= 4 &&
         (header->type == GCONV_U8 || header->type == GCONV_U16) &&
         (size_t)header->width * (size_t)header->channels * gconv_type_bytes(header->type) <= most_row;
}

gconv_status gconv_png_encoder_create(const gconv_image *shape, gconv_png_encoder **result) {
  gconv_png_encoder *encoder = (gconv_png_encoder *)calloc(1, sizeof *encoder);
  if (!encoder)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for an encoder");
  const size_t line = (size_t)shape->width * (size_t)shape->channels * gconv_type_bytes(shape->type) + 1;
  const size_t height = (size_t)shape->height, rows = gconv_png_strip_rows(line, height);
  encoder->count = (height - 1) / rows + 1;
  cudaError_t error = cudaHostAlloc(&encoder->strips, encoder->count * sizeof *encoder->strips, cudaHostAllocPortable);
  if (error != cudaSuccess) {
    gconv_png_encoder_free(encoder);
    CUDA_TRY(error);
  }
  for (size_t i = 0; i < encoder->count; i++) {
    gconv_png_strip *strip = &encoder->strips[i];
    *strip = gconv_png_strip{};
    strip->first_row = (int32_t)(i * rows);
    strip->rows = (int32_t)(height - i * rows < rows ? height - i * rows : rows);
  }
  *result = encoder;
  return GCONV_OK;
}

void gconv_png_encoder_free(gconv_png_encoder *encoder) {
  if (!encoder)
    return;
  cudaFreeHost(encoder->strips);
  free(encoder);
}

size_t gconv_png_encoder_bytes(const gconv_png_encoder *encoder) {
  (void)encoder;
  return 0;
}

gconv_status gconv_png_encode(gconv_png_encoder *encoder, const gconv_image *image, cudaStream_t stream) {
  (void)encoder, (void)image, (void)stream;
  return GCONV_OK;
}

const gconv_png_strip *gconv_png_encoder_strips(const gconv_png_encoder *encoder, size_t *count) {
  *count = encoder->count;
  return encoder->strips;
}

const uint8_t *gconv_png_encoder_chunks(const gconv_png_encoder *encoder) {
  (void)encoder;
  return NULL;
}

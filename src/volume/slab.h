/* SPDX-License-Identifier: MIT */
/* Slabs of planes in memory of a device, and the loops over their samples between two plans (slab_cpu.c, slab_cuda.cu). */
#pragma once

#include "device/device.h"
#include "kernels/pixel.h"

GCONV_C_BEGIN

/* How the responses of a filter become samples. If a magnitude is wanted, the responses of all filters but the last become
 * squares, which are added up. */
typedef struct gconv_slab_finish {
  gconv_image sums;     /* the responses: f32, without gaps */
  const float *squares; /* the squares of earlier filters, added up; NULL: there are none */
  float *to_squares;    /* where to store squares; NULL: samples are stored */
  gconv_epilogue epilogue;
} gconv_slab_finish;

/* Images are in memory of the device. If a function has two images, they have one shape. On a GPU, work goes into the
 * stream. */
typedef struct gconv_slab_type {
  bool apart;   /* the device has memory of its own */
  void *stream; /* for gconv_plan_execute_device() */
  /* allocate() sets image->data, row_bytes and plane_bytes, without gaps. release() frees the memory; NULL is allowed. */
  gconv_status (*allocate)(gconv_device *device, gconv_image *image);
  void (*release)(gconv_device *device, gconv_image *image);
  /* Copy between the host and the device. On return, the copy is complete. NULL: the device has no memory of its own. */
  gconv_status (*upload)(gconv_device *device, const gconv_image *host, const gconv_image *there);
  gconv_status (*download)(gconv_device *device, const gconv_image *there, const gconv_image *host);
  /* Copies planes. `to` may overlap `from` if it begins before `from`. */
  gconv_status (*move)(gconv_device *device, const gconv_image *from, const gconv_image *to);
  gconv_status (*fill)(gconv_device *device, const gconv_image *to, float value);
  /* to = fmaf(factor, from, adds ? to : 0), of f32 without gaps. */
  gconv_status (*add)(gconv_device *device, const gconv_image *from, const gconv_image *to, float factor, bool adds);
  gconv_status (*finish)(gconv_device *device, const gconv_slab_finish *how, const gconv_image *out);
} gconv_slab_type;

extern const gconv_slab_type gconv_slab_type_cpu;
#ifdef GCONV_WITH_CUDA
extern const gconv_slab_type gconv_slab_type_cuda;
#endif

/* gconv_slab_square() returns the square of a response plus the squares of earlier filters. gconv_slab_store() stores a
 * sample of the result. */
GCONV_BOTH float gconv_slab_square(float sum, const float *squares, size_t i) {
  return fmaf(sum, sum, squares ? squares[i] : 0.0F);
}
GCONV_BOTH void gconv_slab_store(const gconv_slab_finish *how, gconv_type type, float sum, size_t i, void *row, size_t at) {
  const float response = how->squares ? sqrtf(gconv_slab_square(sum, how->squares, i)) : sum;
  gconv_store_sample(type, gconv_finish(response, &how->epilogue), row, at);
}

GCONV_C_END

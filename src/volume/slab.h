/* SPDX-License-Identifier: MIT */
/* Slabs of planes in memory of a device, and what is done to them between plans (slab_cpu.c, slab_cuda.cu). */
#pragma once

#include "device/device.h"
#include "kernels/pixel.h"

GCONV_C_BEGIN

/* How sums become samples, or squares of the filters whose magnitude is taken. */
typedef struct gconv_slab_finish {
  gconv_image sums;     /* f32, without gaps */
  const float *squares; /* of the filters before; NULL: there are none */
  float *to_squares;    /* of filters that others follow, else NULL: then samples are stored */
  gconv_epilogue epilogue;
} gconv_slab_finish;

/* Images are in memory of the device, and those of two arguments have one shape. On a GPU, work goes into the stream. */
typedef struct gconv_slab_type {
  bool apart;   /* memory of the device is not the host's */
  void *stream; /* for gconv_plan_execute_device() */
  /* Gives an image like the header memory without gaps; and takes it away, if it has some. */
  gconv_status (*allocate)(gconv_device *device, gconv_image *image);
  void (*release)(gconv_device *device, gconv_image *image);
  /* Copy between the host and the device; NULL: there is one memory. Pixels are there on return. */
  gconv_status (*upload)(gconv_device *device, const gconv_image *host, const gconv_image *there);
  gconv_status (*download)(gconv_device *device, const gconv_image *there, const gconv_image *host);
  /* Copies planes. `to` may overlap `from`, before it. */
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

/* Returns a sum with the squares of the filters before, as gconv_slab_finish says; and stores a sample of a result. */
GCONV_BOTH float gconv_slab_square(float sum, const float *squares, size_t i) {
  return fmaf(sum, sum, squares ? squares[i] : 0.0F);
}
GCONV_BOTH void gconv_slab_store(const gconv_slab_finish *how, gconv_type type, float sum, size_t i, void *row, size_t at) {
  const float response = how->squares ? sqrtf(gconv_slab_square(sum, how->squares, i)) : sum;
  gconv_store_sample(type, gconv_finish(response, &how->epilogue), row, at);
}

GCONV_C_END

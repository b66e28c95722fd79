/* SPDX-License-Identifier: MIT */
/* What the files of support vector machines on a GPU share. */
#pragma once

#include "device/cuda_error.h"
#include "device/device.h"
#include "device/guest_cuda.h"
#include "kernels/cuda/svm/rows.h"
#include "svm/gpu.h"

/* Device memory that can grow. */
typedef struct gconv_svm_gpu_room {
  void *memory; /* owned */
  size_t bytes;
} gconv_svm_gpu_room;

/* Cases in device memory, which the struct owns. */
typedef struct gconv_svm_gpu_own {
  gconv_svm_gpu_cases cases;
  gconv_svm_gpu_room numbers, norms;
} gconv_svm_gpu_own;

struct gconv_svm_gpu {
  gconv_device *device; /* freeing the struct does not use it, because it may be closed before */
  int index;            /* the device's */
  gconv_svm_formula formula;
  size_t columns;
  cudaStream_t stream;
  gconv_svm_gpu_own own;
  /* For predictions (gpu_values.cu): */
  gconv_svm_gpu_own rows;
  gconv_svm_gpu_room begins, by_vector, values, sums;
  size_t classes, wide; /* as in gconv_svm_gpu_model */
};

/* Enlarges `room` to `bytes` bytes if it is smaller; its contents are then lost. */
gconv_status gconv_svm_gpu_need(const gconv_svm_gpu *gpu, size_t bytes, const char *what, gconv_svm_gpu_room *room);
void gconv_svm_gpu_release(gconv_svm_gpu_room *room);
/* Copies rows to the device. */
gconv_status gconv_svm_gpu_put(gconv_svm_gpu *gpu, const gconv_svm_row *rows, size_t count, gconv_svm_gpu_own *own);
/* Returns the free bytes of device memory; 0 if CUDA fails. */
size_t gconv_svm_gpu_left(void);

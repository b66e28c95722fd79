/* SPDX-License-Identifier: MIT */
/* Predictions of rows: their kernel values at all support vectors in float64, then the sums of each class. */
#include "svm/gpu_parts.h"

#include <algorithm>

gconv_status gconv_svm_gpu_set_model(gconv_svm_gpu *gpu, const gconv_svm_gpu_model *model) {
  const size_t vectors = gpu->own.cases.count;
  gconv_cuda_guest guest(gpu->index);
  gpu->classes = model->classes;
  gpu->wide = model->wide;
  GCONV_TRY(gconv_svm_gpu_need(gpu, (model->classes + 1) * sizeof(uint32_t), "the classes", &gpu->begins));
  GCONV_TRY(gconv_svm_gpu_need(gpu, (vectors * model->wide + 1) * sizeof(double), "the coefficients", &gpu->by_vector));
  CUDA_TRY(cudaMemcpyAsync(gpu->begins.memory, model->begins, (model->classes + 1) * sizeof(uint32_t),
                           cudaMemcpyHostToDevice, gpu->stream));
  CUDA_TRY(cudaMemcpyAsync(gpu->by_vector.memory, model->by_vector, vectors * model->wide * sizeof(double),
                           cudaMemcpyHostToDevice, gpu->stream));
  return CUDA_STATUS(cudaStreamSynchronize(gpu->stream));
}

gconv_status gconv_svm_gpu_sum(gconv_svm_gpu *gpu, const gconv_svm_row *rows, size_t count, double *sums) {
  enum { VALUES = 1 << 26 }; /* kernel values at a time */
  const size_t vectors = std::max<size_t>(gpu->own.cases.count, 1), arrays = gpu->classes * gpu->wide;
  const size_t part = std::max<size_t>(std::min<size_t>(VALUES / vectors, count), 1);
  gconv_cuda_guest guest(gpu->index);
  GCONV_TRY(gconv_svm_gpu_need(gpu, vectors * part * sizeof(double), "kernel values", &gpu->values));
  GCONV_TRY(gconv_svm_gpu_need(gpu, arrays * part * sizeof(double), "sums", &gpu->sums));
  for (size_t first = 0; first < count; first += part) {
    const size_t some = std::min(part, count - first);
    GCONV_TRY(gconv_svm_gpu_put(gpu, rows + first, some, &gpu->rows));
    double *const values = (double *)gpu->values.memory, *const found = (double *)gpu->sums.memory;
    if (gpu->own.cases.count > 0)
      gconv_svm_gpu_values(&gpu->formula, &gpu->own.cases, &gpu->rows.cases, some, values, part, gpu->stream);
    gconv_svm_gpu_sums(values, part, some, (const double *)gpu->by_vector.memory, gpu->wide,
                       (const uint32_t *)gpu->begins.memory, gpu->classes, found, gpu->stream);
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaMemcpy2DAsync(sums + first, count * sizeof(double), found, part * sizeof(double), some * sizeof(double),
                               arrays, cudaMemcpyDeviceToHost, gpu->stream));
    CUDA_TRY(cudaStreamSynchronize(gpu->stream));
  }
  return GCONV_OK;
}

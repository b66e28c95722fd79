/* SPDX-License-Identifier: MIT */
/* The part of cuBLAS that is used: types and numbers of cublas_api.h, which have not changed since version 11; and the state
 * that a plan or network keeps. */
#pragma once

#include "base/library.h"
#include "device/cuda_error.h"

#include <cuda_runtime.h>
#include <stdlib.h>

#include <memory>

/* Returns from the calling function if a call of cuBLAS fails. */
#define CUBLAS_TRY(expression)                                                                                              \
  do {                                                                                                                      \
    int cublas_try_status = (expression);                                                                                   \
    if (cublas_try_status != CUBLAS_OK)                                                                                     \
      return cublas_failure(cublas_try_status, #expression);                                                                \
  } while (0)

namespace {

typedef struct cublasContext *cublas_handle;
enum { CUBLAS_OK = 0, CUBLAS_NOT_INITIALIZED = 1, CUBLAS_ALLOCATION_FAILED = 3 };
enum { CUBLAS_NOT_TRANSPOSED = 0, CUBLAS_TRANSPOSED = 1 };
enum { CUBLAS_PEDANTIC = 2, CUBLAS_TF32 = 3 };

/* The functions, and their names in the library.
 *
 *     sgemm_batched    C (m x n) = alpha * A (m x k) * B (k x n) + beta * C, for `batch` matrices at equal distances
 *     sgemv            y (m) = alpha * A (m x n) * x (n) + beta * y
 *     sgemv, A transposed: y (n) = alpha * A' (n x m) * x (m) + beta * y
 *     sger             A (m x n) = alpha * x (m) * y' (n) + A
 *
 * cuBLAS takes matrices by columns. Ours are by rows, so cuBLAS sees them transposed: patches are n x CRS, taps CRS x K, and
 * the product is n x K. */
#define CUBLAS_CALLS(CALL)                                                                                                  \
  CALL(create, "cublasCreate_v2", cublas_handle *)                                                                          \
  CALL(destroy, "cublasDestroy_v2", cublas_handle)                                                                          \
  CALL(set_stream, "cublasSetStream_v2", cublas_handle, cudaStream_t)                                                       \
  CALL(set_workspace, "cublasSetWorkspace_v2", cublas_handle, void *, size_t)                                               \
  CALL(set_math_mode, "cublasSetMathMode", cublas_handle, int)                                                              \
  CALL(sgemm_batched, "cublasSgemmStridedBatched", cublas_handle, int, int, int m, int n, int k, const float *alpha,        \
       const float *A, int lda, long long a_distance, const float *B, int ldb, long long b_distance, const float *beta,     \
       float *C, int ldc, long long c_distance, int batch)                                                                  \
  CALL(sgemv, "cublasSgemv_v2", cublas_handle, int, int m, int n, const float *alpha, const float *A, int lda,              \
       const float *x, int incx, const float *beta, float *y, int incy)                                                     \
  CALL(sger, "cublasSger_v2", cublas_handle, int m, int n, const float *alpha, const float *x, int incx, const float *y,    \
       int incy, float *A, int lda)
#define CUBLAS_POINTER(call, name, ...) int (*cublas_##call)(__VA_ARGS__);
#define CUBLAS_SYMBOL(call, name, ...) {name, &cublas_##call},
CUBLAS_CALLS(CUBLAS_POINTER)

/* Turns a failure into a status. If memory runs out while cuBLAS makes a handle, it reports "not initialized". */
gconv_status cublas_failure(int status, const char *expression) {
  if (status == CUBLAS_ALLOCATION_FAILED || status == CUBLAS_NOT_INITIALIZED)
    return gconv_fail(GCONV_NO_MEMORY, "cuBLAS has no memory on the GPU: status %d of %s", status, expression);
  return gconv_fail(GCONV_DEVICE_ERROR, "cuBLAS: status %d of %s", status, expression);
}

const char *const cublas_files[] = {"libcublas.so.13", "libcublas.so.12", NULL};
const gconv_symbol cublas_symbols[] = {CUBLAS_CALLS(CUBLAS_SYMBOL){NULL, NULL}};
gconv_library cublas = {cublas_files, cublas_symbols, "", 0};

const char *available(void) {
  return gconv_library_load(&cublas);
}

/* A handle and the workspace that cuBLAS may use. */
struct cublas_state {
  cublas_handle handle;
  void *workspace;
  size_t workspace_bytes;
  void *stream; /* on which the handle works */
};

/* Returns the workspace of cuBLAS: the 32 MiB that it asks for on Hopper, but at most a quarter of the limit. */
size_t cublas_workspace_bytes(size_t limit) {
  size_t recommended = (size_t)32 << 20, quarter = limit / 4 / 256 * 256;
  return recommended < quarter ? recommended : quarter;
}

void dismiss(void *memory) {
  cublas_state *state = (cublas_state *)memory;
  if (state->handle)
    cublas_destroy(state->handle);
  cudaFree(state->workspace);
  free(state);
}

/* Sets the stream. cuBLAS then drops its workspace, so it is set again. */
gconv_status set_stream(cublas_state *state, void *stream) {
  CUBLAS_TRY(cublas_set_stream(state->handle, (cudaStream_t)stream));
  CUBLAS_TRY(cublas_set_workspace(state->handle, state->workspace, state->workspace_bytes));
  state->stream = stream;
  return GCONV_OK;
}

/* Makes cuBLAS work on `stream`. Call it before each use, because the last use may have had another stream. */
gconv_status cublas_go_to(cublas_state *state, void *stream) {
  return state->stream == stream ? GCONV_OK : set_stream(state, stream);
}

/* Makes a state that works on `stream` in mode `math`. dismiss() frees it. */
gconv_status cublas_acquire(void *stream, size_t bytes, int math, void **result) {
  std::unique_ptr<cublas_state, decltype(&dismiss)> state((cublas_state *)calloc(1, sizeof(cublas_state)), dismiss);
  if (!state)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the state of cuBLAS");
  state->workspace_bytes = bytes;
  CUDA_TRY(cudaMalloc(&state->workspace, bytes));
  CUBLAS_TRY(cublas_create(&state->handle));
  GCONV_TRY(set_stream(state.get(), stream));
  CUBLAS_TRY(cublas_set_math_mode(state->handle, math));
  *result = state.release();
  return GCONV_OK;
}

} // namespace

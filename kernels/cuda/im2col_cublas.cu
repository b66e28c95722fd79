/* SPDX-License-Identifier: MIT */
/*
 * im2col-cublas: the patch matrix of im2col, multiplied by cuBLAS.
 *
 * It is what many programs do, and shows what the best product of matrices can make of a patch matrix: for K filters of
 * R x S taps, 2 K R S flop a sample at cuBLAS's rate, and 8 R S bytes for writing and reading the matrix. cuBLAS is loaded
 * when it is first needed; making its handle takes a tenth of a second.
 *
 * The arithmetic is float32 throughout (pedantic mode: no TF32, no emulation), but cuBLAS adds the products in an order of
 * its own, so it is not of the exact family. The bound is that of a chain all the same: in a sum of T products in any order,
 * each product is rounded at most once by itself and takes part in at most T - 1 additions, so it is off by at most (1 +
 * u)^T - 1 <= T u / (1 - T u), relative to itself (Higham, 3.1).
 */
#include "base/library.h"
#include "conv/cuda_error.h"
#include "patches.cuh"

#include <stdlib.h>

namespace {

/* ---- cuBLAS, as far as it is needed: the types and numbers of cublas_api.h, which did not change since version 11 ---- */

typedef struct cublasContext *cublas_handle;
enum { CUBLAS_OK = 0, CUBLAS_NOT_TRANSPOSED = 0, CUBLAS_PEDANTIC = 2 };

int (*cublas_create)(cublas_handle *);
int (*cublas_destroy)(cublas_handle);
int (*cublas_set_stream)(cublas_handle, cudaStream_t);
int (*cublas_set_workspace)(cublas_handle, void *, size_t);
int (*cublas_set_math_mode)(cublas_handle, int);
/* C (m x n) = alpha * A (m x k) * B (k x n) + beta * C, all by columns. */
int (*cublas_sgemm)(cublas_handle, int, int, int m, int n, int k, const float *alpha, const float *A, int lda,
                    const float *B, int ldb, const float *beta, float *C, int ldc);
/* y (m) = alpha * A (m x n) * x (n) + beta * y */
int (*cublas_sgemv)(cublas_handle, int, int m, int n, const float *alpha, const float *A, int lda, const float *x, int incx,
                    const float *beta, float *y, int incy);

const char *const cublas_files[] = {"libcublas.so.13", "libcublas.so.12", NULL};
const gconv_symbol cublas_symbols[] = {
    {"cublasCreate_v2", &cublas_create},
    {"cublasDestroy_v2", &cublas_destroy},
    {"cublasSetStream_v2", &cublas_set_stream},
    {"cublasSetWorkspace_v2", &cublas_set_workspace},
    {"cublasSetMathMode", &cublas_set_math_mode},
    {"cublasSgemm_v2", &cublas_sgemm},
    {"cublasSgemv_v2", &cublas_sgemv},
    {NULL, NULL},
};
gconv_library cublas = {cublas_files, cublas_symbols, "", 0};

const char *available(void) {
  return gconv_library_load(&cublas);
}

bool started(void) {
  return gconv_library_is_loaded(&cublas);
}

/* Returns from the calling function if a call of cuBLAS fails. */
#define CUBLAS_TRY(expression)                                                                                              \
  do {                                                                                                                      \
    int cublas_try_status = (expression);                                                                                   \
    if (cublas_try_status != CUBLAS_OK)                                                                                     \
      return gconv_fail(GCONV_DEVICE_ERROR, "cuBLAS: status %d of %s", cublas_try_status, #expression);                     \
  } while (0)

/* ---- State: a handle and the workspace that cuBLAS may use ---- */

struct cublas_state {
  cublas_handle handle;
  void *workspace;
};

/* 32 MiB is what cuBLAS asks for on Hopper; a quarter of a smaller limit. */
size_t state_bytes(const gconv_problem *problem) {
  size_t recommended = (size_t)32 << 20, quarter = problem->workspace_limit / 4 / 256 * 256;
  return recommended < quarter ? recommended : quarter;
}

void dismiss(void *memory) {
  cublas_state *state = (cublas_state *)memory;
  if (state->handle)
    cublas_destroy(state->handle);
  cudaFree(state->workspace);
  free(state);
}

gconv_status fill_state(const gconv_execution *execution, cublas_state *state) {
  CUDA_TRY(cudaMalloc(&state->workspace, state_bytes(execution->problem)));
  CUBLAS_TRY(cublas_create(&state->handle));
  CUBLAS_TRY(cublas_set_stream(state->handle, (cudaStream_t)execution->stream));
  CUBLAS_TRY(cublas_set_workspace(state->handle, state->workspace, state_bytes(execution->problem)));
  CUBLAS_TRY(cublas_set_math_mode(state->handle, CUBLAS_PEDANTIC));
  return GCONV_OK;
}

gconv_status acquire(const gconv_execution *execution, void **state) {
  cublas_state *made = (cublas_state *)calloc(1, sizeof *made);
  if (!made)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the state of cuBLAS");
  gconv_status status = fill_state(execution, made);
  if (status == GCONV_OK)
    *state = made;
  else
    dismiss(made);
  return status;
}

/* ---- The product ---- */

/* sums = taps * patches. cuBLAS reads matrices by columns, hence ours, which are by rows, as transposed: patches is n x RS,
 * taps RS x K, and the product n x K. */
gconv_status multiply(const gconv_execution *execution, const chunk &part) {
  const gconv_problem *problem = execution->problem;
  const cublas_state *state = (const cublas_state *)execution->state;
  const float one = 1.0f, zero = 0.0f;
  const int depth = (int)taps_of(problem);
  if (problem->filters == 1)
    CUBLAS_TRY(cublas_sgemv(state->handle, CUBLAS_NOT_TRANSPOSED, part.columns, depth, &one, part.patches, part.pitch,
                            execution->weights, 1, &zero, part.sums, 1));
  else
    CUBLAS_TRY(cublas_sgemm(state->handle, CUBLAS_NOT_TRANSPOSED, CUBLAS_NOT_TRANSPOSED, part.columns, problem->filters,
                            depth, &one, part.patches, part.pitch, execution->weights, depth, &zero, part.sums, part.pitch));
  return GCONV_OK;
}

int64_t columns_of(const gconv_problem *problem) {
  return chunk_columns(problem, (int64_t)(problem->workspace_limit - state_bytes(problem)));
}

size_t workspace_bytes(const gconv_problem *problem) {
  return chunk_bytes(problem, columns_of(problem));
}

gconv_status execute(const gconv_execution *execution) {
  return convolve_chunks(execution, columns_of(execution->problem),
                         [=](const chunk &part) { return multiply(execution, part); });
}

const char *supports(const gconv_problem *problem) {
  if (taps_of(problem) > INT32_MAX)
    return "filters of more than 2^31 taps";
  return columns_of(problem) == 0 ? "32 columns of its patch matrix would exceed the workspace" : NULL;
}

double cost(const gconv_problem *problem, const gconv_machine *machine) {
  return patches_ms(problem, columns_of(problem), machine) + gconv_problem_flop(problem) / 2 / (0.6 * machine->fma_per_ms);
}

} // namespace

/* Members in the order of the structure: C++17 has no names here. */
extern "C" const gconv_algorithm gconv_algorithm_cuda_im2col_cublas = {
    {"im2col-cublas", "cuda", "patch matrix in chunks, multiplied by cuBLAS", false},
    available,
    supports,
    workspace_bytes,
    execute,
    cost,
    gconv_chain_bound,
    NULL, /* prepared_floats */
    NULL, /* prepare */
    NULL, /* row_step */
    acquire,
    dismiss,
    300, /* start_ms: cuBLAS is large */
    started,
};

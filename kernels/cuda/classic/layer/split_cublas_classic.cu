/* SPDX-License-Identifier: MIT */
/* split-cublas-classic: patches of all images, then a call of cuBLAS for each image (split.cuh). im2col-cublas multiplies
 * many images in a call. */
#include "../../library/cublas.cuh"
#include "../../library/finish.cuh"
#include "split.cuh"

namespace {

/* All matrices are transposed (cublas.cuh). Groups have their own rows of the matrix. */
gconv_status multiply(const gconv_layer_execution *e, int64_t n, int64_t group) {
  const gconv_layer_problem *problem = e->problem;
  cublas_state *state = (cublas_state *)e->state;
  const float one = 1, zero = 0;
  const int64_t filters = filters_of_group(problem), taps = gconv_layer_taps(problem);
  const int64_t plane = (int64_t)problem->out_height * problem->out_width;
  const float *matrix = (const float *)e->workspace + (n * matrix_rows(*problem) + group * taps) * plane;
  float *out = e->out + (n * problem->filters + group * filters) * plane;
  CUBLAS_TRY(cublas_sgemm_batched(state->handle, CUBLAS_NOT_TRANSPOSED, CUBLAS_NOT_TRANSPOSED, (int)plane, (int)filters,
                                  (int)taps, &one, matrix, (int)plane, 0, e->weights + group * filters * taps, (int)taps, 0,
                                  &zero, out, (int)plane, 0, 1));
  return GCONV_OK;
}

gconv_status execute(const gconv_layer_execution *e) {
  GCONV_TRY(launch_matrices(e));
  GCONV_TRY(cublas_go_to((cublas_state *)e->state, e->stream));
  for (int64_t n = 0; n < e->problem->images; n++)
    for (int64_t g = 0; g < e->problem->groups; g++)
      GCONV_TRY(multiply(e, n, g));
  return launch_finish(e);
}

const char *supports(const gconv_layer_problem *problem) {
  if (gconv_layer_taps(problem) > INT32_MAX || (int64_t)problem->out_height * problem->out_width > INT32_MAX)
    return "more than 2^31 taps or pixels";
  return gconv_layer_takes_fp32(problem);
}

gconv_status acquire(const gconv_layer_execution *e, void **state) {
  return cublas_acquire(e->stream, cublas_workspace_bytes(e->problem->workspace_limit), CUBLAS_PEDANTIC, state);
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_split_cublas_classic = {
    .info = {"split-cublas-classic", "cuda", "patches, then a call of cuBLAS for each image: to learn from", false},
    .available = available,
    .supports = supports,
    .workspace_bytes = matrices_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = library_bound,
    .acquire = acquire,
    .dismiss = dismiss,
};

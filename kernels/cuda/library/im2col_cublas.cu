/* SPDX-License-Identifier: MIT */
/*
 * im2col-cublas: the matrix of patches (patches.cuh), multiplied by cuBLAS in float32 (pedantic mode) or TF32 (--math).
 *
 * Most frameworks began with this. A chunk is some whole images, which cuBLAS takes as a batch, or a part of one image.
 * cuBLAS adds in an order of its own, so the bound is for sums in any order.
 */
#include "../classic/layer/patches.cuh"
#include "cublas.cuh"
#include "finish.cuh"

#include <algorithm>

namespace {

/* plane: output pixels of an image; images: images of a chunk, at least 1; pixels: how many pixels of each image a chunk
 * has; pitch: columns for which the matrix of patches has room. */
struct chunking {
  int64_t plane, images, pixels, pitch;
};

/* Returns the chunks of a problem. `pitch` is 0 if not even 128 columns fit. */
chunking chunking_of(const gconv_layer_problem *problem) {
  const size_t bytes = problem->workspace_limit - cublas_workspace_bytes(problem->workspace_limit);
  const int64_t pitch = chunk_columns(problem, bytes), plane = (int64_t)problem->out_height * problem->out_width;
  return {plane, pitch >= plane ? std::min<int64_t>(pitch / plane, problem->images) : 1, std::min(pitch, plane), pitch};
}

/* Computes the sums of a group, for `images` images from `image` on, and their pixels first .. first + pixels - 1. All
 * matrices are transposed (cublas.cuh). */
gconv_status multiply(const gconv_layer_execution *e, const chunking &c, int64_t g, int64_t image, int64_t images,
                      int64_t first, int64_t pixels) {
  const gconv_layer_problem *problem = e->problem;
  cublas_state *state = (cublas_state *)e->state;
  const float one = 1, zero = 0;
  const int64_t filters = filters_of_group(problem), taps = gconv_layer_taps(problem);
  float *out = e->out + (image * problem->filters + g * filters) * c.plane + first;
  GCONV_TRY(cublas_go_to(state, e->stream));
  CUBLAS_TRY(cublas_sgemm_batched(state->handle, CUBLAS_NOT_TRANSPOSED, CUBLAS_NOT_TRANSPOSED, (int)pixels, (int)filters,
                                  (int)taps, &one, (const float *)e->workspace, (int)c.pitch, c.plane,
                                  e->weights + g * filters * taps, (int)taps, 0, &zero, out, (int)c.plane,
                                  problem->filters * c.plane, (int)images));
  return GCONV_OK;
}

gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  const chunking c = chunking_of(problem);
  for (int64_t g = 0; g < problem->groups; g++)
    for (int64_t image = 0; image < problem->images; image += c.images)
      for (int64_t first = 0; first < c.plane; first += c.pixels) {
        const int64_t images = std::min(problem->images - image, c.images), pixels = std::min(c.plane - first, c.pixels);
        GCONV_TRY(launch_patches(e, g, image * c.plane + first, images > 1 ? images * c.plane : pixels, c.pitch));
        GCONV_TRY(multiply(e, c, g, image, images, first, pixels));
      }
  return launch_finish(e);
}

size_t workspace_bytes(const gconv_layer_problem *problem) {
  const chunking c = chunking_of(problem);
  return (size_t)c.pitch * (size_t)gconv_layer_taps(problem) * sizeof(float);
}

const char *supports(const gconv_layer_problem *problem) {
  if (problem->math != GCONV_MATH_FP32 && problem->math != GCONV_MATH_TF32)
    return "math other than fp32 and tf32";
  if (gconv_layer_taps(problem) > INT32_MAX || (int64_t)problem->out_height * problem->out_width > INT32_MAX)
    return "more than 2^31 taps or pixels";
  return chunking_of(problem).pitch > 0 ? NULL : "128 columns of its patch matrix would exceed the workspace";
}

gconv_status acquire(const gconv_layer_execution *e, void **state) {
  return cublas_acquire(e->stream, cublas_workspace_bytes(e->problem->workspace_limit),
                        e->problem->math == GCONV_MATH_TF32 ? CUBLAS_TF32 : CUBLAS_PEDANTIC, state);
}

double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  const chunking c = chunking_of(problem);
  const double rate = problem->math == GCONV_MATH_TF32 ? 3 : 0.55;
  return 1.8 * patches_ms(problem, c.pitch, machine) + gconv_layer_flop(problem) / 2 / (rate * machine->fma_per_ms) +
         (double)pixels_of(problem) * problem->filters * 8 / machine->bytes_per_ms;
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_im2col_cublas = {
    .info = {"im2col-cublas", "cuda", "patch matrix in chunks, multiplied by cuBLAS", false},
    .available = available,
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = library_bound,
    .acquire = acquire,
    .dismiss = dismiss,
    .library = true,
};

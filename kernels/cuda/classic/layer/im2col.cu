/* SPDX-License-Identifier: MIT */
/*
 * im2col: one kernel makes the matrix of patches (patches.cuh), another multiplies it by the weights (product.cuh).
 *
 * This is the way of the textbooks. R * S times the input is written and read again, so it pays only with some 64 filters or
 * more. gemm computes the same product without the matrix, and is nearly always faster. The taps are in the order of the
 * definition.
 */
#include "patches.cuh"

#include <math.h>

namespace {

/* Stores a sum, with bias and activation. Column `column` is pixel number first + column of all images. */
struct store_output {
  gconv_layer_problem problem;
  const float *biases; /* biases of the group */
  float *out;          /* output of the group's first filter in the first image */
  int64_t first, plane;

  __device__ void operator()(int, int64_t filter, int64_t column, float sum) const {
    const int64_t number = first + column, image = quotient(number, plane), pixel = number - image * plane;
    out[(image * problem.filters + filter) * plane + pixel] = activate(problem, sum + __ldg(biases + filter));
  }
};

int64_t weights_pitch(const gconv_layer_problem *problem) {
  return operand_pitch(filters_of_group(problem));
}

size_t prepared_matrix_floats(const gconv_layer_problem *problem) {
  return (size_t)(problem->groups * gconv_layer_taps(problem) * weights_pitch(problem));
}

/* Returns the columns of a chunk; 0 if none fit. The prepared weights count against the workspace limit, too. */
int64_t columns_of(const gconv_layer_problem *problem) {
  const size_t prepared = prepared_matrix_floats(problem) * sizeof(float);
  return prepared < problem->workspace_limit ? chunk_columns(problem, problem->workspace_limit - prepared) : 0;
}

gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  const int64_t filters = filters_of_group(problem), taps = gconv_layer_taps(problem), pixels = pixels_of(problem);
  const int64_t plane = (int64_t)problem->out_height * problem->out_width;
  product m = {};
  m.b = (const float *)e->workspace;
  m.a_pitch = weights_pitch(problem);
  m.b_pitch = columns_of(problem);
  m.depth = taps;
  m.filters = filters;
  for (int64_t g = 0; g < problem->groups; g++)
    for (int64_t first = 0; first < pixels; first += m.b_pitch) {
      m.a = gconv_layer_prepared(problem, e->weights) + g * taps * m.a_pitch;
      m.columns = pixels - first < m.b_pitch ? pixels - first : m.b_pitch;
      GCONV_TRY(launch_patches(e, g, first, m.columns, m.b_pitch));
      store_output store = {*problem, gconv_layer_biases(problem, e->weights) + g * filters, e->out + g * filters * plane,
                            first, plane};
      launch_product(m, 1, store, e->stream);
      CUDA_TRY(cudaGetLastError());
    }
  return GCONV_OK;
}

size_t workspace_bytes(const gconv_layer_problem *problem) {
  return (size_t)columns_of(problem) * (size_t)gconv_layer_taps(problem) * sizeof(float);
}

const char *supports(const gconv_layer_problem *problem) {
  if (problem->math != GCONV_MATH_FP32)
    return "math other than fp32";
  if (filters_of_group(problem) > 65535 * (int64_t)TILE_FILTERS)
    return "more than 4 million filters";
  return columns_of(problem) == 0 ? "128 columns of its patch matrix would exceed the workspace" : NULL;
}

/* [group][tap][filter] */
gconv_status prepare_matrix(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  const int64_t filters = filters_of_group(problem), taps = gconv_layer_taps(problem), pitch = weights_pitch(problem);
  for (int64_t g = 0; g < problem->groups; g++, weights += filters * taps)
    for (int64_t t = 0; t < taps; t++)
      for (int64_t k = 0; k < pitch; k++)
        *prepared++ = k < filters ? weights[k * taps + t] : 0;
  return GCONV_OK;
}

double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  const double filters = (double)divide_up(filters_of_group(problem), TILE_FILTERS) * TILE_FILTERS * problem->groups;
  const double multiplications = (double)pixels_of(problem) * filters * (double)gconv_layer_taps(problem);
  const double outputs = (double)pixels_of(problem) * filters, storing = 25; /* instructions of an output */
  const double tiles = filters / TILE_FILTERS * (double)divide_up(pixels_of(problem), TILE_COLUMNS);
  const double idle = fmax(machine->units / tiles, 1); /* small images leave multiprocessors without a tile */
  return 2 * patches_ms(problem, columns_of(problem), machine) +
         idle * (multiplications + storing * outputs) / (0.5 * machine->fma_per_ms);
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_im2col = {
    .info = {"im2col", "cuda", "patch matrix in chunks, multiplied by a product of matrices", true},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
    .prepared_floats = prepared_matrix_floats,
    .prepare = prepare_matrix,
};

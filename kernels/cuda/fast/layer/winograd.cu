/* SPDX-License-Identifier: MIT */
/*
 * winograd: F(2 x 2, 3 x 3) in float32 (winograd.h): a kernel that transforms the input, a batched product
 * (product.cuh), and a kernel that transforms the sums into outputs.
 *
 * winograd needs 2.25 times fewer multiplications. But the transformed tiles, 4 times as large as input and output, go
 * through memory. So it is faster only with many channels and filters; 64 are enough.
 */
#include "../../core/defined.cuh"
#include "../../core/product.cuh"
#include "kernels/winograd.h"

namespace {

constexpr int POINTS = GCONV_WINOGRAD_POINTS;

struct tiling {
  int64_t tiles_x, tiles_y, tiles; /* tiles of 2 x 2 outputs, across and down an image; of all images */
  int64_t tile_pitch, filter_pitch;
  int64_t channels, filters; /* channels and filters of a group */
};

tiling tiling_of(const gconv_layer_problem *problem) {
  tiling t;
  t.tiles_x = divide_up(problem->out_width, 2);
  t.tiles_y = divide_up(problem->out_height, 2);
  t.tiles = t.tiles_x * t.tiles_y * problem->images;
  t.tile_pitch = operand_pitch(t.tiles);
  t.channels = problem->channels / problem->groups;
  t.filters = filters_of_group(problem);
  t.filter_pitch = operand_pitch(t.filters);
  return t;
}

/* Replaces d by B' d, for four columns or rows (winograd.h). */
DEVICE void transform(float &a, float &b, float &c, float &d) {
  const float first = a - c, second = b + c, third = c - b, fourth = b - d;
  a = first, b = second, c = third, d = fourth;
}

/* A thread transforms a tile of a channel. V is [point][channel][tile]. Grid: x counts tiles, y channels; threads stride. */
__global__ void transform_input(const __grid_constant__ gconv_layer_problem problem, const __grid_constant__ tiling t,
                                const float *in, float *v) {
  const int64_t tile = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (tile >= t.tiles)
    return;
  const int64_t image = quotient(tile, t.tiles_x * t.tiles_y), place = tile - image * t.tiles_x * t.tiles_y;
  const int64_t top = place / t.tiles_x * 2 - problem.pad_top, left = place % t.tiles_x * 2 - problem.pad_left;
  for (int64_t c = blockIdx.y; c < t.channels; c += gridDim.y) {
    const float *plane = in + (image * problem.channels + c) * problem.height * problem.width;
    float d[4][4];
    UNROLLED_FOR (int y = 0; y < 4; y++)
      UNROLLED_FOR (int x = 0; x < 4; x++)
        d[y][x] = top + y >= 0 && top + y < problem.height && left + x >= 0 && left + x < problem.width
                      ? __ldg(plane + (top + y) * problem.width + left + x)
                      : 0.0f;
    UNROLLED_FOR (int x = 0; x < 4; x++)
      transform(d[0][x], d[1][x], d[2][x], d[3][x]);
    UNROLLED_FOR (int y = 0; y < 4; y++)
      transform(d[y][0], d[y][1], d[y][2], d[y][3]);
    float *to = v + c * t.tile_pitch + tile;
    UNROLLED_FOR (int i = 0; i < POINTS; i++)
      to[i * t.channels * t.tile_pitch] = d[i / 4][i % 4];
  }
}

/* M is [point][filter][tile]. */
struct store_point {
  float *m;
  int64_t filters, tile_pitch;

  __device__ void operator()(int point, int64_t filter, int64_t tile, float sum) const {
    m[(point * filters + filter) * tile_pitch + tile] = sum;
  }
};

/* What transform_output() reads and writes, from the group's first channel or filter on. */
struct group_tensors {
  const float *in, *weights, *biases;
  float *out;
};

/* A thread computes the 2 x 2 outputs of a tile for a filter. A sample that is not finite spreads over its tile, and large
 * samples may overflow in the transforms. Outputs that are not finite are computed again by the definition. Grid: x counts
 * tiles, y filters; threads stride. */
__global__ void transform_output(const __grid_constant__ gconv_layer_problem problem, const __grid_constant__ tiling t,
                                 const __grid_constant__ group_tensors group, const float *m) {
  const int64_t tile = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (tile >= t.tiles)
    return;
  const int64_t image = quotient(tile, t.tiles_x * t.tiles_y), place = tile - image * t.tiles_x * t.tiles_y;
  const int64_t p = place / t.tiles_x * 2, q = place % t.tiles_x * 2;
  for (int64_t k = blockIdx.y; k < t.filters; k += gridDim.y) {
    const float *from = m + k * t.tile_pitch + tile;
    float half[2][4];
    UNROLLED_FOR (int x = 0; x < 4; x++) {
      float column[4];
      UNROLLED_FOR (int y = 0; y < 4; y++)
        column[y] = __ldcs(from + (4 * y + x) * t.filters * t.tile_pitch);
      half[0][x] = column[0] + column[1] + column[2];
      half[1][x] = column[1] - column[2] - column[3];
    }
    float *to = group.out + ((image * problem.filters + k) * problem.out_height + p) * problem.out_width + q;
    const float *in = group.in + image * problem.channels * gconv_layer_plane(&problem);
    const float *weights = group.weights + k * gconv_layer_taps(&problem), bias = __ldg(group.biases + k);
    UNROLLED_FOR (int y = 0; y < 2; y++) {
      const float sums[] = {half[y][0] + half[y][1] + half[y][2], half[y][1] - half[y][2] - half[y][3]};
      UNROLLED_FOR (int x = 0; x < 2; x++)
        if (p + y < problem.out_height && q + x < problem.out_width) {
          const float sum = isfinite(sums[x]) ? sums[x] : defined_sum(&problem, in, weights, p + y, q + x);
          to[y * problem.out_width + x] = activate(problem, sum + bias);
        }
    }
  }
}

gconv_status execute_group(const gconv_layer_execution *e, const tiling &t, int64_t g) {
  const gconv_layer_problem *problem = e->problem;
  const cudaStream_t stream = (cudaStream_t)e->stream;
  float *v = (float *)e->workspace, *m = v + POINTS * t.channels * t.tile_pitch;
  const group_tensors group = {e->in + g * t.channels * gconv_layer_plane(problem),
                               e->weights + g * t.filters * gconv_layer_taps(problem),
                               gconv_layer_biases(problem, e->weights) + g * t.filters,
                               e->out + g * t.filters * problem->out_height * problem->out_width};
  dim3 grid((unsigned)divide_up(t.tiles, 128), (unsigned)(t.channels < 65535 ? t.channels : 65535));
  transform_input<<<grid, 128, 0, stream>>>(*problem, t, group.in, v);
  CUDA_TRY(cudaGetLastError());
  product work = {};
  work.a = gconv_layer_prepared(problem, e->weights) + g * POINTS * t.channels * t.filter_pitch;
  work.b = v;
  work.a_pitch = t.filter_pitch, work.b_pitch = t.tile_pitch;
  work.a_matrix = t.channels * t.filter_pitch, work.b_matrix = t.channels * t.tile_pitch;
  work.depth = t.channels, work.filters = t.filters, work.columns = t.tiles;
  launch_product(work, POINTS, store_point{m, t.filters, t.tile_pitch}, stream);
  CUDA_TRY(cudaGetLastError());
  grid.y = (unsigned)(t.filters < 65535 ? t.filters : 65535);
  transform_output<<<grid, 128, 0, stream>>>(*problem, t, group, m);
  CUDA_TRY(cudaGetLastError());
  return GCONV_OK;
}

gconv_status execute(const gconv_layer_execution *e) {
  const tiling t = tiling_of(e->problem);
  for (int64_t g = 0; g < e->problem->groups; g++)
    GCONV_TRY(execute_group(e, t, g));
  return GCONV_OK;
}

size_t workspace_bytes(const gconv_layer_problem *problem) {
  const tiling t = tiling_of(problem);
  return (size_t)(POINTS * (t.channels + t.filters) * t.tile_pitch) * sizeof(float);
}

const char *supports(const gconv_layer_problem *problem) {
  if (filters_of_group(problem) > 65535 * (int64_t)TILE_FILTERS)
    return "more than 4 million filters";
  return gconv_winograd_obstacle(problem);
}

/* ---- The weights ---- */

size_t transformed_floats(const gconv_layer_problem *problem) {
  const tiling t = tiling_of(problem);
  return (size_t)(problem->groups * POINTS * t.channels * t.filter_pitch);
}

/* [group][point][channel][filter] */
gconv_status prepare_transformed(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  const tiling t = tiling_of(problem);
  for (size_t i = 0; i < transformed_floats(problem); i++)
    prepared[i] = 0;
  for (int64_t g = 0; g < problem->groups; g++)
    for (int64_t k = 0; k < t.filters; k++)
      for (int64_t c = 0; c < t.channels; c++, weights += 9)
        gconv_winograd_filter(weights, prepared + (g * POINTS * t.channels + c) * t.filter_pitch + k,
                              t.channels * t.filter_pitch);
  return GCONV_OK;
}

double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  const tiling t = tiling_of(problem);
  const double filters = (double)divide_up(t.filters, TILE_FILTERS) * TILE_FILTERS;
  const double multiplications = POINTS * (double)t.tile_pitch * filters * (double)t.channels * problem->groups;
  const double floats = (double)t.tiles * (double)(t.channels + t.filters) * (2 * POINTS + 4) * problem->groups;
  return 3 * problem->groups * machine->launch_ms + 3e-5 * (double)t.channels +
         multiplications / (0.6 * machine->fma_per_ms) + floats * 4 / machine->bytes_per_ms;
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_winograd = {
    .info = {"winograd", "cuda", "3 x 3 filters on 2 x 2 outputs with 16 multiplications for 36", false},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_winograd_bound,
    .bound_of_largest = true,
    .prepared_floats = transformed_floats,
    .prepare = prepare_transformed,
};

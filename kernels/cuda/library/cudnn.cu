/* SPDX-License-Identifier: MIT */
/*
 * cudnn: NVIDIA's library for deep learning, for comparison.
 *
 *     image, any type     padded planes, float       sums, float           image
 *     +-----------+       +-------------+            +-----------+         +-----------+
 *     |           | gather|             |  cudnn     | filter 0  | finish  |           |
 *     |           | ----> |             | ---------> | filter 1  | ------> |           |
 *     +-----------+       +-------------+            +-----------+         +-----------+
 *
 * cuDNN knows only tensors of floats, and a border of zeros. So a gather kernel copies the samples of a channel, with their
 * borders, into a plane so large that the filters never leave it. For cuDNN, each plane is an image of one channel, and the
 * K filters are its output channels. A second kernel finishes and stores the sums. Planes go in chunks, and large planes in
 * bands of rows. All chunks have one shape, so that the limit of workspace holds and one choice of algorithm serves all.
 *
 * The kernels of cuDNN are made for dozens of channels. With one channel, they leave most of the machine idle: 14 Gpix/s at
 * 9 x 9 on an H200. `auto` hardly ever takes this algorithm.
 *
 * Of cuDNN's algorithms, those that multiply matrices are allowed, explicitly or implicitly, in float32 (no TF32). They add
 * the R * S products in an order of their own. The bound of a chain holds for them, with one more rounding of each product
 * in case they are not fused. Winograd and FFT are not allowed, because their errors have no such bound.
 */
#include "../core/launch.cuh"
#include "../core/store.cuh"
#include "cudnn.cuh"

/* ---- The chunks ---- */

/* One call of cuDNN convolves `planes` planes (of images, planes and channels), `rows` output rows of each. */
struct chunk {
  int32_t planes, rows;
  int32_t in_rows, in_columns; /* of a plane with its borders */
  int64_t in_floats, out_floats;
};

static int64_t all_planes(const gconv_problem *problem) {
  return (int64_t)problem->images * problem->planes * (problem->channels - problem->keep_alpha);
}

static chunk chunk_of(const gconv_problem *problem, int64_t planes, int64_t rows) {
  int64_t in_rows = (rows - 1) * problem->stride_y + (int64_t)(problem->rows - 1) * problem->dilation_y + 1;
  int64_t in_columns = gconv_reach(problem);
  return {(int32_t)planes,     (int32_t)rows,        (int32_t)in_rows,
          (int32_t)in_columns, in_rows * in_columns, rows * problem->out_width * problem->filters};
}

/* Half of the limit is for tensors, half for cuDNN's own workspace. cuDNN's indices have 32 bits. */
static int64_t most_floats(const gconv_problem *problem) {
  int64_t most = (int64_t)(problem->workspace_limit / 2 / sizeof(float));
  return most < INT32_MAX / 2 ? most : INT32_MAX / 2;
}

static bool fits(const gconv_problem *problem, const chunk &c) {
  return c.planes * (c.in_floats + c.out_floats) + 16 <= most_floats(problem);
}

/* Finds a chunk: as many whole planes as fit; otherwise a band of one plane, as many rows as fit. Returns false if not even
 * one row fits. */
static bool find_chunk(const gconv_problem *problem, chunk *c) {
  int64_t most = most_floats(problem), planes = all_planes(problem);
  if (gconv_reach(problem) > most || (int64_t)problem->rows * problem->dilation_y > most ||
      (int64_t)problem->out_width * problem->filters > most)
    return false;
  *c = chunk_of(problem, 1, problem->out_height);
  int64_t count = most / (c->in_floats + c->out_floats + 16);
  planes = planes < 65535 ? planes : 65535; /* the limit of a grid */
  c->planes = (int32_t)(count < planes ? count : planes);
  if (count > 0)
    return true;
  int64_t row =
      chunk_of(problem, 1, 2).in_floats - chunk_of(problem, 1, 1).in_floats + problem->out_width * problem->filters;
  int64_t rows = (most - chunk_of(problem, 1, 1).in_floats) / row;
  *c = chunk_of(problem, 1, rows > 0 ? rows : 1);
  return rows > 0 && fits(problem, *c);
}

/* The floats of the tensors of a chunk. Each tensor begins at a multiple of 64 bytes. */
static int64_t in_floats(const chunk &c) {
  return (c.planes * c.in_floats + 15) / 16 * 16;
}

/* ---- The kernels before and after cuDNN ---- */

/* The chunk begins at plane number `first` and output row `top`. */
struct chunk_arguments {
  arguments common;
  const float *weights;
  chunk shape;
  int64_t planes; /* planes of all chunks */
  int64_t first, top;
  float *in, *out; /* the tensors */
};

/* Returns the image, plane and channel of plane number `index`. */
struct plane_place {
  int64_t image, plane;
  int32_t c;
};

DEVICE plane_place place_of(const gconv_problem &problem, int64_t index) {
  int32_t channels = problem.channels - problem.keep_alpha;
  int64_t plane = index / channels, image = plane / problem.planes;
  return {image, plane - image * problem.planes, (int32_t)(index - plane * channels)};
}

/* Grid: x counts columns, y rows (threads stride), z the planes of the chunk. */
template <class In> __global__ void gather(const __grid_constant__ chunk_arguments k) {
  const arguments &a = k.common;
  const gconv_problem &problem = a.problem;
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  if (x >= k.shape.in_columns || k.first + blockIdx.z >= k.planes)
    return;
  const plane_place at = place_of(problem, k.first + blockIdx.z);
  const uint8_t *in = a.in + at.image * a.in_image + at.plane * a.in_plane;
  float *to = k.in + blockIdx.z * k.shape.in_floats;
  for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < k.shape.in_rows; y += gridDim.y * blockDim.y)
    to[(int64_t)y * k.shape.in_columns + x] = sample_at<In>(
        problem, in, a.in_row, k.top * problem.stride_y - problem.pad_top + y, (int64_t)x - problem.pad_left, at.c);
}

/* The same for output columns and rows. */
template <class In, class Out> __global__ void finish(const __grid_constant__ chunk_arguments k) {
  const arguments &a = k.common;
  const gconv_problem &problem = a.problem;
  const int q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= problem.out_width || k.first + blockIdx.z >= k.planes)
    return;
  const plane_place plane = place_of(problem, k.first + blockIdx.z);
  place at = {0, q, plane.c, a.in + plane.image * a.in_image + plane.plane * a.in_plane};
  uint8_t *out = a.out + plane.image * a.out_image + plane.plane * a.out_plane + q * a.out_pixel;
  const int64_t filter_floats = (int64_t)k.shape.rows * problem.out_width;
  for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < k.shape.rows; row += gridDim.y * blockDim.y) {
    at.p = k.top + row;
    if (at.p >= problem.out_height)
      return;
    const float *sums = k.out + blockIdx.z * k.shape.out_floats + (int64_t)row * problem.out_width + q;
    uint8_t *pixel = out + at.p * a.out_row;
    store_responses<Out>(a, k.weights, at.c, pixel, [&](int32_t filter) { return sums[filter * filter_floats]; });
    if (problem.keep_alpha && at.c == 0)
      keep_alpha<In, Out>(a, at, pixel);
  }
}

/* ---- The state of a plan ---- */

static gconv_status describe(const gconv_problem *problem, const chunk &c, cudnn_state *state) {
  CUDNN_TRY(CreateTensorDescriptor(&state->in));
  CUDNN_TRY(SetTensor4dDescriptor(state->in, FORMAT_NCHW, DATA_FLOAT, c.planes, 1, c.in_rows, c.in_columns));
  CUDNN_TRY(CreateTensorDescriptor(&state->out));
  CUDNN_TRY(
      SetTensor4dDescriptor(state->out, FORMAT_NCHW, DATA_FLOAT, c.planes, problem->filters, c.rows, problem->out_width));
  CUDNN_TRY(CreateFilterDescriptor(&state->filter));
  CUDNN_TRY(
      SetFilter4dDescriptor(state->filter, DATA_FLOAT, FORMAT_NCHW, problem->filters, 1, problem->rows, problem->columns));
  CUDNN_TRY(CreateConvolutionDescriptor(&state->convolution));
  CUDNN_TRY(SetConvolution2dDescriptor(state->convolution, 0, 0, problem->stride_y, problem->stride_x, problem->dilation_y,
                                       problem->dilation_x, CROSS_CORRELATION, DATA_FLOAT));
  CUDNN_TRY(SetConvolutionMathType(state->convolution, FMA_MATH));
  return GCONV_OK;
}

/* Tries whether `algorithm` works with at most `most` bytes of workspace, by running it on whatever the tensors hold. This
 * is necessary because cuDNN names some algorithms as possible and then refuses them. Returns GCONV_UNSUPPORTED or
 * GCONV_NO_MEMORY without a message. */
static gconv_status try_algorithm(const gconv_execution *execution, const chunk &c, int algorithm, size_t most,
                                  cudnn_state *state) {
  const float one = 1, zero = 0;
  float *in = (float *)execution->workspace;
  state->algorithm = algorithm;
  if (cudnn.GetConvolutionForwardWorkspaceSize(state->handle, state->in, state->filter, state->convolution, state->out,
                                               algorithm, &state->workspace_bytes) != 0 ||
      state->workspace_bytes > most)
    return GCONV_UNSUPPORTED;
  if (state->workspace_bytes > 0 && cudaMalloc(&state->workspace, state->workspace_bytes) != cudaSuccess)
    return GCONV_NO_MEMORY;
  int status =
      cudnn.ConvolutionForward(state->handle, &one, state->in, in, state->filter, execution->weights, state->convolution,
                               algorithm, state->workspace, state->workspace_bytes, &zero, state->out, in + in_floats(c));
  if (status == 0)
    return GCONV_OK;
  cudaFree(state->workspace);
  state->workspace = NULL;
  return is_out_of_memory(status) ? GCONV_NO_MEMORY : GCONV_UNSUPPORTED;
}

/* Chooses the first algorithm with a bound that works; the fastest comes first. For one channel, GEMM was measured at 7
 * times the rate of the others. cuDNN's own advice names one of those. */
static gconv_status choose(const gconv_execution *execution, const chunk &c, cudnn_state *state) {
  static const int bounded[] = {GEMM, IMPLICIT_PRECOMP_GEMM, IMPLICIT_GEMM};
  bool enough = true;
  for (int algorithm : bounded) {
    gconv_status status = try_algorithm(execution, c, algorithm, execution->problem->workspace_limit / 2, state);
    if (status == GCONV_OK)
      return GCONV_OK;
    enough = enough && status != GCONV_NO_MEMORY;
    cudaGetLastError();
  }
  if (!enough)
    return gconv_fail(GCONV_NO_MEMORY, "no memory on the GPU for the workspace of cuDNN");
  return gconv_fail(GCONV_UNSUPPORTED, "cuDNN %zu has no algorithm for this within the limit of workspace",
                    cudnn.GetVersion());
}

static gconv_status fill_state(const gconv_execution *execution, cudnn_state *state) {
  chunk c = {};
  find_chunk(execution->problem, &c);
  CUDNN_TRY(Create(&state->handle));
  CUDNN_TRY(SetStream(state->handle, (cudaStream_t)execution->stream));
  GCONV_TRY(describe(execution->problem, c, state));
  return choose(execution, c, state);
}

static gconv_status acquire(const gconv_execution *execution, void **result) {
  return make_state(fill_state, execution, result);
}

/* ---- Launching ---- */

static dim3 grid_over(int64_t columns, int64_t rows, int32_t planes, dim3 block) {
  return dim3(blocks_for(columns, block.x, INT32_MAX), blocks_for(rows, block.y, 65535), (unsigned)planes);
}

/* Runs one chunk, whose place is in *a. */
template <class In, class Out> static gconv_status run_chunk(const gconv_execution *execution, const chunk_arguments *a) {
  const cudnn_state *state = (const cudnn_state *)execution->state;
  const gconv_problem *problem = execution->problem;
  const float one = 1, zero = 0;
  const dim3 block(64, 4);
  cudaStream_t stream = (cudaStream_t)execution->stream;
  gather<In><<<grid_over(a->shape.in_columns, a->shape.in_rows, a->shape.planes, block), block, 0, stream>>>(*a);
  CUDA_TRY(cudaGetLastError());
  CUDNN_TRY(ConvolutionForward(state->handle, &one, state->in, a->in, state->filter, execution->weights, state->convolution,
                               state->algorithm, state->workspace, state->workspace_bytes, &zero, state->out, a->out));
  finish<In, Out><<<grid_over(problem->out_width, a->shape.rows, a->shape.planes, block), block, 0, stream>>>(*a);
  CUDA_TRY(cudaGetLastError());
  return GCONV_OK;
}

template <class In, class Out> static gconv_status run(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  chunk_arguments a = {};
  CUDNN_TRY(SetStream(((const cudnn_state *)execution->state)->handle, (cudaStream_t)execution->stream));
  a.common = common_arguments(execution);
  a.weights = execution->weights;
  a.planes = all_planes(problem);
  find_chunk(problem, &a.shape);
  a.in = (float *)execution->workspace;
  a.out = a.in + in_floats(a.shape);
  for (a.first = 0; a.first < a.planes; a.first += a.shape.planes)
    for (a.top = 0; a.top < problem->out_height; a.top += a.shape.rows) {
      GCONV_TRY((run_chunk<In, Out>(execution, &a)));
    }
  return GCONV_OK;
}

static gconv_status execute(const gconv_execution *execution) {
  return with_type(execution->problem->in_type, [&](auto in) {
    return with_type(execution->problem->out_type, [&](auto out) { return run<decltype(in), decltype(out)>(execution); });
  });
}

static const char *supports(const gconv_problem *problem) {
  chunk c = {};
  return find_chunk(problem, &c) ? NULL : "one row of its tensors would exceed half of the workspace";
}

static size_t workspace_bytes(const gconv_problem *problem) {
  chunk c = {};
  find_chunk(problem, &c);
  return (size_t)(in_floats(c) + c.planes * c.out_floats) * sizeof(float);
}

static double error_bound(const gconv_problem *problem) {
  double n = ((double)problem->rows * problem->columns + 1) * 0x1p-24;
  return n < 0.5 ? n / (1 - n) : 1;
}

/* Costs in units of one multiply-add at the peak, measured on an H200: TAP for each tap, SAMPLE for each sample. */
static const double TAP = 18, SAMPLE = 750;

static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  double taps = (double)problem->rows * problem->columns, sums = gconv_problem_flop(problem) / (2 * taps);
  return 5 * machine->launch_ms + sums * (SAMPLE + TAP * taps) / machine->fma_per_ms;
}

extern "C" const gconv_algorithm gconv_algorithm_cuda_cudnn = {
    .info = {"cudnn", "cuda", "NVIDIA's cuDNN on planes of float32, by products of matrices", false},
    .available = available,
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .acquire = acquire,
    .dismiss = dismiss,
    .library = true,
};

/* SPDX-License-Identifier: MIT */
/*
 * direct: every thread computes a few pixels of a few filters. Samples come through the caches, weights through shared
 * memory.
 *
 *     weights of a block of F filters, 64 taps at a time       pixels of a block of threads, numbered through all images
 *     +-- tap 0: F --+-- tap 1: F --+-- ...                    | 128 of step 0 | 128 of step 1 | ... N steps
 *     shared memory; one address for all threads               thread t has number t of each step
 *
 * For each tap, a thread does N loads of samples, which are adjacent for the threads of a warp, F / 4 loads of four weights,
 * and F * N multiply-adds: 64 for 4 + 4 loads with 16 filters. Pixels are numbered through all images, so no size of image
 * leaves threads idle. Whether a sample is inside the image is checked by some 5 instructions for each of the N samples, a
 * quarter of all instructions.
 *
 * direct takes any problem, and is the fastest for few channels and filters. If a tile of the input fits into shared memory,
 * tiled saves the checks. Small windows on one or three channels have their own kernel (direct_small.cuh).
 */
#include "../../core/launch.cuh"
#include "../../core/weights.cuh"
#include "direct_small.cuh"

namespace {

constexpr int THREADS = 128, TAPS = 64; /* taps whose weights are in shared memory at a time */

struct direct_arguments : block_arguments {
  int64_t pixels, tiles; /* N * P * Q; tiles of pixels */
};

/* The N pixels of a thread. */
template <int N> struct pixels {
  const float *corner[N]; /* the sample under the first tap, even if it is outside */
  int y[N], x[N];
  float *out[N]; /* output of the block's first filter; NULL past the last pixel */
};

template <int N> DEVICE void find_pixels(const direct_arguments &a, int64_t tile, int64_t group, pixels<N> *at) {
  const gconv_layer_problem &problem = a.problem;
  const int64_t plane = (int64_t)problem.out_height * problem.out_width, in_plane = (int64_t)problem.height * problem.width;
  const int64_t channel = group * (problem.channels / problem.groups), filter = group * (problem.filters / problem.groups);
  UNROLLED_FOR (int i = 0; i < N; i++) {
    const int64_t number = (tile * N + i) * THREADS + threadIdx.x;
    const int64_t image = quotient(number, plane), pixel = number - image * plane;
    const int p = (int)quotient(pixel, problem.out_width), q = (int)(pixel - (int64_t)p * problem.out_width);
    at->y[i] = p * problem.stride_y - problem.pad_top;
    at->x[i] = q * problem.stride_x - problem.pad_left;
    at->corner[i] = a.in + (image * problem.channels + channel) * in_plane + (int64_t)at->y[i] * problem.width + at->x[i];
    at->out[i] = a.out + (image * problem.filters + filter) * plane + pixel;
    if (number >= a.pixels) {
      at->y[i] = INT32_MIN / 2; /* so far outside that no offset leads inside */
      at->out[i] = NULL;
    }
  }
}

/* Steps through the taps, with the distance of a tap's samples from the samples of the first tap. */
struct tap_walk {
  int r, s;
  int64_t channel, row, at; /* distances of the channel, the row of taps, and the tap */
};

DEVICE void next_tap(const gconv_layer_problem &problem, tap_walk *t) {
  t->at += problem.dilation_x;
  if (++t->s < problem.columns)
    return;
  t->s = 0;
  t->row += (int64_t)problem.dilation_y * problem.width;
  if (++t->r == problem.rows) {
    t->r = 0;
    t->row = t->channel += (int64_t)problem.height * problem.width;
  }
  t->at = t->row;
}

template <int F, int N> __global__ void __launch_bounds__(THREADS, 4) convolve(const __grid_constant__ direct_arguments a) {
  __shared__ __align__(16) float weights[TAPS * F];
  const gconv_layer_problem &problem = a.problem;
  const int64_t number = block_number(), tile = number / a.blocks % a.tiles, block = number % a.blocks;
  const int64_t group = number / a.blocks / a.tiles;
  if (group >= problem.groups)
    return;
  const int taps = (int)gconv_layer_taps(&problem);
  const float *from = a.weights + (group * a.blocks + block) * F * taps;
  pixels<N> at;
  find_pixels(a, tile, group, &at);
  float sums[F][N] = {};
  tap_walk t = {};
  for (int first = 0; first < taps; first += TAPS) {
    const int count = min(taps - first, (int)TAPS);
    __syncthreads();
    copy_weights(weights, from + (int64_t)first * F, count * F);
    __syncthreads();
#pragma unroll(N == 4 ? 2 : 8) /* with few threads, more loads are under way at a time */
    for (int i = 0; i < count; i++, next_tap(problem, &t)) {
      float x[N];
      const int below = t.r * problem.dilation_y, right = t.s * problem.dilation_x;
      UNROLLED_FOR (int n = 0; n < N; n++)
        x[n] =
            (unsigned)(at.y[n] + below) < (unsigned)problem.height && (unsigned)(at.x[n] + right) < (unsigned)problem.width
                ? __ldg(at.corner[n] + t.at)
                : 0.0f;
      add_tap<F, N>(sums, weights + i * F, x);
    }
  }
  const int64_t filters = problem.filters / problem.groups, plane = (int64_t)problem.out_height * problem.out_width;
  UNROLLED_FOR (int k = 0; k < F; k++)
    if (block * F + k < filters) {
      const float bias = __ldg(a.biases + group * filters + block * F + k);
      UNROLLED_FOR (int n = 0; n < N; n++)
        if (at.out[n])
          at.out[n][(block * F + k) * plane] = activate(problem, sums[k][n] + bias);
    }
}

/* ---- Launching ---- */

/* Returns the pixels of a thread: as many as registers allow, but fewer if that would leave multiprocessors idle. */
int thread_pixels(const gconv_layer_problem *problem) {
  const int64_t pixels = (int64_t)problem->images * problem->out_height * problem->out_width;
  const int64_t blocks = blocks_of_group(problem) * problem->groups;
  int N = 4;
  while (N > 1 && divide_up(pixels, N * THREADS) * blocks < MANY_BLOCKS)
    N /= 2;
  return N;
}

/* The state is the number of multiprocessors, because asking for it takes as long as a launch. */
gconv_status acquire(const gconv_layer_execution *, void **state) {
  *state = (void *)(intptr_t)multiprocessors();
  return GCONV_OK;
}
void dismiss(void *) {}

gconv_status execute(const gconv_layer_execution *e) {
  if (const small::part part = small::find_part(e->problem); part.launch) {
    part.launch(e, (int32_t)(intptr_t)e->state);
    return CUDA_STATUS(cudaGetLastError());
  }
  direct_arguments a = {block_arguments_of(e)};
  a.pixels = (int64_t)e->problem->images * e->problem->out_height * e->problem->out_width;
  return launch_for(e->problem, thread_pixels(e->problem), [&]<int F, int N>() {
    a.tiles = divide_up(a.pixels, N * THREADS);
    convolve<F, N><<<grid_of(a.tiles * a.blocks * a.problem.groups), THREADS, 0, (cudaStream_t)e->stream>>>(a);
  });
}

size_t prepared_floats_of(const gconv_layer_problem *problem) {
  const small::part part = small::find_part(problem);
  return part.launch ? (size_t)problem->filters * (size_t)part.pitch : prepared_floats(problem);
}

gconv_status prepare_either(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  const small::part part = small::find_part(problem);
  if (!part.launch)
    return prepare(problem, weights, prepared);
  small::prepare(part, problem, weights, prepared);
  return GCONV_OK;
}

/* Counts a thread's instructions: multiply-adds, other instructions of a tap, and 1500 instructions apart from its taps. An
 * H200 reaches 0.62 of its peak. */
double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  if (const small::part part = small::find_part(problem); part.launch)
    return small::cost(part, problem, machine);
  const double F = block_filters(problem), N = thread_pixels(problem);
  const double pixels = (double)problem->images * problem->out_height * problem->out_width;
  const double blocks = ceil(pixels / (N * THREADS)) * (double)blocks_of_group(problem) * problem->groups;
  const double instructions = (F * N + F / 4 + 7 * N + 8) * (double)gconv_layer_taps(problem) + 1500;
  const double late = lateness(blocks, 4, machine) * (blocks <= 4 * machine->units ? 2 : 1);
  return machine->launch_ms + blocks * THREADS * instructions * late / (0.62 * machine->fma_per_ms) +
         pixels * problem->filters * 4 / machine->bytes_per_ms;
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_direct = {
    .info = {"direct", "cuda", "pixels x filters in registers, samples through the caches; any problem", true},
    .supports = block_obstacle,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
    .prepared_floats = prepared_floats_of,
    .prepare = prepare_either,
    .acquire = acquire,
    .dismiss = dismiss,
};

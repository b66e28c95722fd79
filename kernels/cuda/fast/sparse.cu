/* SPDX-License-Identifier: MIT */
/*
 * sparse: only the taps that are not 0.
 *
 * Some filters are mostly zeros: motion blur is a line of taps in a square of zeros, a ring has taps only on its rim, and a
 * filter with holes (a-trous) uses a fraction of its frame. The host lists the taps that are not 0. Each entry has a tap,
 * and the offset of the sample by which the tap is multiplied:
 *
 *     . . . a        tap a, offset 3
 *     . . b .   ->   tap b, offset 2 + pitch
 *     . c . .        tap c, offset 1 + 2 * pitch
 *
 * The list is a parameter of the kernel, so a tap and its offset are in uniform registers. The samples are in a tile in
 * shared memory, where the offset is the same for all outputs. A thread has 4 x 4 outputs. For each tap it does 16 loads,
 * each at the place of an output plus the offset, and 16 multiply-adds.
 *
 * Speed: each multiply-add loads 4 bytes from shared memory. Shared memory delivers 128 bytes a cycle, and a multiprocessor
 * can do 128 multiply-adds a cycle. So the kernel reaches a quarter of the peak, but spends nothing on zeros. It is the
 * fastest where fewer than about a quarter of the taps are not 0. A line of 15 taps takes as long as a copy.
 *
 * The results have the bits of the exact family. A tap of 0 would add 0 * x, which is +0 or -0 if x is finite. This changes
 * only a sum of -0 (after an underflow), to +0. The epilogue hides this difference, because its offset is never -0. If a
 * tile holds an infinity or a NaN, 0 * x is not 0. Such tiles use all taps.
 */
#include "../core/tile.cuh"
#include "kernels/sparse.h"

/* ---- The kernel ---- */

/* The outputs of a thread: GROUPS samples in each of ROWS neighbouring rows. Those of a row are LANES samples apart. */
enum { GROUPS = 4, ROWS = 4, OUTPUTS = GROUPS * ROWS, MOST_WARPS = 8 };

struct listed_tap {
  float tap;
  int32_t offset; /* offset of the sample by which the tap is multiplied, in floats of the tile */
};

/* The launch does filters first .. first + filters - 1. The list has the taps filter by filter; ends[f] is where the
 * taps of filter f end. */
enum { MOST_FILTERS = 64 };
template <int MOST> struct sparse_arguments : arguments {
  tile_shape shape;
  const float *weights;
  int32_t first, filters;
  int32_t ends[MOST_FILTERS];
  listed_tap list[MOST];
};

/* Adds one tap to all sums. places[i] is the place of the sample that a tap of offset 0 has for output i. */
DEVICE void add_tap(float tap, int offset, const float *tile, const int (&places)[OUTPUTS], float (&sums)[OUTPUTS]) {
  UNROLLED_FOR (int i = 0; i < OUTPUTS; i++)
    sums[i] = fmaf(tap, tile[places[i] + offset], sums[i]);
}

/* Adds all taps of a filter, including taps of 0. This is for tiles with samples that are not finite. */
DEVICE void add_all_taps(const gconv_problem &problem, int pitch, const float *taps, const float *tile,
                         const int (&places)[OUTPUTS], float (&sums)[OUTPUTS]) {
  ROLLED_FOR (int r = 0; r < problem.rows; r++)
    ROLLED_FOR (int s = 0; s < problem.columns; s++, taps++)
      if (!gconv_is_mark(*taps))
        add_tap(*taps, r * problem.dilation_y * pitch + s * problem.dilation_x * problem.channels, tile, places, sums);
}

/* Returns whether all samples of the tile are finite. All threads get the same answer. */
__device__ bool is_finite(const tile_shape &shape, const float *tile) {
  bool not_finite = false;
  for (int row = threadIdx.y; row < shape.rows; row += blockDim.y)
    for (int t = threadIdx.x; t < shape.samples; t += LANES)
      not_finite |= !(fabsf(tile[row * shape.pitch + t]) <= 3.402823466e38f);
  return !__syncthreads_or(not_finite);
}

/* The place of a thread's outputs: rows p .. p + ROWS - 1, pixels q[g], channels c[g]. */
struct output_places {
  plane_rows plane;
  int64_t p, q[GROUPS];
  int c[GROUPS];
};

/* Stores the values of one filter. Alpha that is kept is stored in place of its value. */
template <class In, class Out>
DEVICE void store_outputs(const arguments &a, const output_places &at, int filter, const float (&values)[OUTPUTS]) {
  const gconv_problem &problem = a.problem;
  const bool with_alpha = filter == 0 || problem.epilogue.combine == GCONV_COMBINE_NONE;
  UNROLLED_FOR (int g = 0; g < GROUPS; g++) {
    uint8_t *pixel = at.plane.out + filter * a.out_filter + at.p * a.out_row + at.q[g] * a.out_pixel;
    bool alpha = problem.keep_alpha && at.c[g] == problem.channels - 1;
    if (at.q[g] >= problem.out_width)
      continue;
    if (alpha)
      ROLLED_FOR (int j = 0; j < ROWS && at.p + j < problem.out_height && with_alpha; j++)
        gconv_store(kept_alpha<In>(problem, at.plane.in, a.in_row, at.p + j, at.q[g]),
                    (Out *)(pixel + j * a.out_row + a.out_alpha));
    else
      UNROLLED_FOR (int j = 0; j < ROWS; j++)
        if (at.p + j < problem.out_height)
          gconv_store(values[j * GROUPS + g], (Out *)(pixel + j * a.out_row + at.c[g] * a.out_channel));
  }
}

/* Computes and stores the outputs of a thread, from a tile that is filled. */
template <class In, int MOST>
DEVICE void make_outputs(const sparse_arguments<MOST> &a, const output_places &at, const float *tile,
                         const int (&places)[OUTPUTS], bool finite) {
  const gconv_problem &problem = a.problem;
  float values[OUTPUTS];
  int t = 0;
  for (int f = 0; f < a.filters; f++) {
    float sums[OUTPUTS] = {};
    if (finite)
      UNROLLED_2_FOR (; t < a.ends[f]; t++)
        add_tap(a.list[t].tap, a.list[t].offset, tile, places, sums);
    else
      add_all_taps(problem, a.shape.pitch, a.weights + (int64_t)(a.first + f) * problem.rows * problem.columns, tile, places,
                   sums);
    if (!take_sums(problem, a.weights, a.first + f, problem.filters, sums, values))
      continue;
    int filter = gconv_is_combined(&problem) ? 0 : a.first + f;
    with_type(problem.out_type, [&](auto out) { store_outputs<In, decltype(out)>(a, at, filter, values); });
  }
}

/* Processes all tiles of a block that begin at sample `begin` of a row. The block strides over rows and planes. */
template <class In, int MOST> DEVICE void make_tiles(const sparse_arguments<MOST> &a, int64_t begin, float *tile) {
  const gconv_problem &problem = a.problem;
  const int64_t pixel = begin / problem.channels;
  const int first =
      (int)(begin - pixel * problem.channels) + (int)threadIdx.x;   /* the thread's first sample, counted from that pixel */
  const int64_t left = pixel * problem.stride_x - problem.pad_left; /* in pixels */
  output_places at;
  int places[OUTPUTS];
  UNROLLED_FOR (int g = 0; g < GROUPS; g++) {
    int q = (first + g * LANES) / problem.channels;
    at.q[g] = pixel + q;
    at.c[g] = first + g * LANES - q * problem.channels;
    UNROLLED_FOR (int j = 0; j < ROWS; j++)
      places[j * GROUPS + g] = (int)(threadIdx.y * ROWS + j) * problem.stride_y * a.shape.pitch +
                               q * problem.stride_x * problem.channels + at.c[g];
  }
  for (int64_t z = blockIdx.z; z < (int64_t)problem.images * problem.planes; z += gridDim.z) {
    at.plane = plane_of<true>(a, z);
    for (int64_t row = (int64_t)blockIdx.y * a.shape.out_rows; row < problem.out_height;
         row += (int64_t)gridDim.y * a.shape.out_rows) {
      fill_tile<In>(a, a.shape, at.plane.in, row * problem.stride_y - problem.pad_top, left, tile);
      at.p = row + threadIdx.y * ROWS;
      make_outputs<In>(a, at, tile, places, sizeof(In) < 4 || is_finite(a.shape, tile));
      __syncthreads(); /* the tile is read until here, and filled again after it */
    }
  }
}

/* Block: one warp for each row of threads. Grid: x counts tiles along a row, y rows of tiles, z planes of all images. Blocks
 * stride over tiles beyond the grid. */
template <class In, int MOST>
__global__ void __launch_bounds__(LANES *MOST_WARPS) sparse(const __grid_constant__ sparse_arguments<MOST> k) {
  extern __shared__ float4 memory[];
  const int64_t samples = (int64_t)k.problem.out_width * k.problem.channels;
  for (int64_t begin = (int64_t)blockIdx.x * k.shape.across; begin < samples; begin += (int64_t)gridDim.x * k.shape.across)
    make_tiles<In>(k, begin, (float *)memory);
}

/* ---- The host's part ---- */

/* Finds the largest tile, of up to 8 warps, that fits into shared memory. Returns its warps; 0: none fits. */
static int warps_that_fit(const gconv_problem *problem, tile_shape *shape) {
  int64_t most = (int64_t)shared_limit();
  for (int warps = MOST_WARPS; warps > 0; warps /= 2)
    if (lay_out_plainly(problem, warps * ROWS, GROUPS * LANES, most, shape))
      return warps;
  return 0;
}

/* Launches the kernel for `count` filters from `first` on. Their taps begin at number `from` of the prepared list. */
template <class In, int MOST>
static gconv_status launch(const gconv_execution *execution, int32_t first, int32_t count, size_t from) {
  const gconv_problem *problem = execution->problem;
  sparse_arguments<MOST> a = {common_arguments(execution), {}, execution->weights, first, count, {}, {}};
  unsigned warps = (unsigned)warps_that_fit(problem, &a.shape);
  const float *counts = gconv_prepared(problem, execution->host_weights), *taps = counts + problem->filters + from;
  const float *rows = taps + problem->structure.nonzero_taps, *columns = rows + problem->structure.nonzero_taps;
  int32_t t = 0;
  for (int32_t k = 0; k < count; k++)
    for (a.ends[k] = t + (int32_t)counts[first + k]; t < a.ends[k]; t++)
      a.list[t] = {taps[t], (int32_t)rows[t] * problem->dilation_y * a.shape.pitch +
                                (int32_t)columns[t] * problem->dilation_x * problem->channels};
  auto *kernel = sparse<In, MOST>;
  if (a.shape.bytes > 48 << 10)
    GCONV_TRY(allow_shared(kernel, a.shape.bytes));
  kernel<<<grid_for(problem, &a.shape), dim3(LANES, warps), a.shape.bytes, (cudaStream_t)execution->stream>>>(a);
  return CUDA_STATUS(cudaGetLastError());
}

/* The most taps that one launch takes as parameters. The kernel is compiled for two sizes: FEW_TAPS fit into the 4 KB that
 * parameters had before CUDA 12.1, MANY_TAPS into the 32 KB since then. */
enum { FEW_TAPS = 400, MANY_TAPS = 3900 };

/* Runs all filters. Each launch gets as many as fit into its parameters. */
template <class In> static gconv_status run(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const float *counts = gconv_prepared(problem, execution->host_weights);
  size_t from = 0;
  for (int32_t first = 0, count; first < problem->filters; first += count) {
    size_t taps = 0;
    for (count = 0; first + count < problem->filters && count < MOST_FILTERS; count++) {
      if (taps + (size_t)counts[first + count] > MANY_TAPS)
        break;
      taps += (size_t)counts[first + count];
    }
    auto *launcher = taps <= FEW_TAPS ? launch<In, FEW_TAPS> : launch<In, MANY_TAPS>;
    GCONV_TRY(launcher(execution, first, count, from));
    from += taps;
  }
  return GCONV_OK;
}

static gconv_status execute(const gconv_execution *execution) {
  return with_type(execution->problem->in_type, [&](auto in) { return run<decltype(in)>(execution); });
}

static const char *supports(const gconv_problem *problem) {
  tile_shape shape;
  /* The problem has the number of taps of all filters together, not of each. So this check is stricter than need be for
   * several filters. */
  if (problem->structure.nonzero_taps > MANY_TAPS &&
      (gconv_is_combined(problem) || (int64_t)problem->rows * problem->columns > MANY_TAPS))
    return "more than 3900 taps are not 0";
  if (gconv_is_combined(problem) && problem->filters > MOST_FILTERS)
    return "more than 64 filters are combined";
  return warps_that_fit(problem, &shape) > 0 ? NULL : "its tile would not fit in the shared memory of the GPU";
}

/* Costs in units of one multiply-add at the peak, measured on an H200: FILL for each sample of the tile, BEGIN and STORE for
 * each output, TAP for each tap of an output. Even strides use only half of the banks, so a tap costs twice as much. */
static const double FILL = 30, BEGIN = 80, STORE = 60, TAP = 4.3;

static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  tile_shape shape = {};
  warps_that_fit(problem, &shape);
  double samples = (double)samples_of(problem);
  double filled = (double)shape.rows * shape.samples / ((double)shape.out_rows * shape.across);
  double tap = problem->stride_x % 2 == 0 ? 2 * TAP : TAP;
  double work = BEGIN + FILL * filled + STORE * problem->filters + tap * (double)problem->structure.nonzero_taps;
  return 2 * machine->launch_ms + 0.004 + samples * work / machine->fma_per_ms;
}

extern "C" const gconv_algorithm gconv_algorithm_cuda_sparse = {
    .info = {"sparse", "cuda", "only the taps that are not 0, from tiles in shared memory", true},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
    .prepared_floats = gconv_sparse_floats,
    .prepare = gconv_sparse_prepare,
    .leaves_out_marks = true,
};

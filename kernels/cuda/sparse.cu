/* SPDX-License-Identifier: MIT */
/*
 * sparse: only the taps that are not 0.
 *
 * Motion blur is a line of taps in a square of zeros, the rim of a ring likewise, and a filter with holes (a-trous) has a
 * fraction of the taps of its frame. The host lists the taps that count with the place of the sample that each meets:
 *
 *      . . . a        tap a, offset 3               The list is a parameter of the kernel, so that a tap and its offset
 * stand . . b .   ->   tap b, offset 2 + pitch       in uniform registers; samples are in a tile in shared memory, where an
 *      . c . .        tap c, offset 1 + 2 * pitch   offset is the same for all outputs. A thread makes 4 x 4 outputs: for
 *                                                   each tap 16 loads, at its places + the offset, and 16 multiply-adds.
 *
 * The arithmetic: a load of 4 bytes for each multiply-add, where shared memory has 128 bytes a cycle for the 128
 * multiply-adds that a multiprocessor could do: a quarter of the peak, but none of it spent on zeros. So it wins where fewer
 * than about a quarter of the taps count; a line of 15 taps takes as long as a copy.
 *
 * The bits are those of the exact family: a tap of 0 would add 0 * x, which is +0 or -0 as long as x is finite, and changes
 * no sum but that of -0 (from underflow), to +0; the offset of the epilogue, which is never -0, makes the two equal. In
 * tiles that hold an infinity or a NaN, which zeros do not pass over, all taps are taken.
 */
#include "conv/sparse.h"
#include "tile.cuh"

/* ---- The kernel ---- */

/* Outputs of a thread: GROUPS samples of a row, a warp's width apart, in each of ROWS rows, one below the other. */
enum { GROUPS = 4, ROWS = 4, OUTPUTS = GROUPS * ROWS, MOST_WARPS = 8 };

struct listed_tap {
  float tap;
  int32_t offset; /* of the sample that it meets, in floats of the tile */
};

/* The filters first .. first + filters - 1; the list has the taps of one after those of the other, `ends` where each ends.
 */
enum { MOST_FILTERS = 64 };
template <int MOST> struct sparse_arguments {
  arguments common;
  tile_shape shape;
  const float *weights;
  int32_t first, filters;
  int32_t ends[MOST_FILTERS];
  listed_tap list[MOST];
};

/* Lays a tap on all outputs; `places` are those of the samples that a tap of offset 0 meets. */
__device__ __forceinline__ void lay_tap(float tap, int offset, const float *tile, const int (&places)[OUTPUTS],
                                        float (&sums)[OUTPUTS]) {
#pragma unroll
  for (int i = 0; i < OUTPUTS; i++)
    sums[i] = fmaf(tap, tile[places[i] + offset], sums[i]);
}

/* All taps of a filter, for a tile that is not finite. */
__device__ __forceinline__ void lay_all(const gconv_problem &problem, int pitch, const float *taps, const float *tile,
                                        const int (&places)[OUTPUTS], float (&sums)[OUTPUTS]) {
#pragma unroll 1
  for (int r = 0; r < problem.rows; r++)
#pragma unroll 1
    for (int s = 0; s < problem.columns; s++)
      lay_tap(*taps++, r * problem.dilation_y * pitch + s * problem.dilation_x * problem.channels, tile, places, sums);
}

/* Whether all samples of the tile are finite; the same answer for all threads. */
__device__ bool is_finite(const tile_shape &shape, const float *tile) {
  bool strange = false;
  for (int row = threadIdx.y; row < shape.rows; row += blockDim.y)
    for (int t = threadIdx.x; t < shape.samples; t += LANES)
      strange |= !(fabsf(tile[row * shape.pitch + t]) <= 3.402823466e38f);
  return !__syncthreads_or(strange);
}

/* Where a thread's outputs are: rows p ..., of each pixel q and its channel c. */
struct output_places {
  const uint8_t *in; /* row 0 of the planes */
  uint8_t *out;
  int64_t p, q[GROUPS];
  int c[GROUPS];
};

/* Stores the values of filter `filter`, with kept alpha. */
template <class In, class Out>
__device__ __forceinline__ void store_outputs(const arguments &a, const output_places &at, int filter,
                                              const float (&values)[OUTPUTS]) {
  const gconv_problem &problem = a.problem;
  const bool with_alpha = filter == 0 || problem.epilogue.combine == GCONV_COMBINE_NONE;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    uint8_t *pixel = at.out + filter * a.out_filter + at.p * a.out_row + at.q[g] * a.out_pixel;
    bool alpha = problem.keep_alpha && at.c[g] == problem.channels - 1;
    if (at.q[g] >= problem.out_width)
      continue;
    if (alpha)
#pragma unroll 1
      for (int j = 0; j < ROWS && at.p + j < problem.out_height && with_alpha; j++)
        gconv_store(kept_alpha<In>(problem, at.in, a.in_row, at.p + j, at.q[g]),
                    (Out *)(pixel + j * a.out_row + a.out_alpha));
    else
#pragma unroll
      for (int j = 0; j < ROWS; j++)
        if (at.p + j < problem.out_height)
          gconv_store(values[j * GROUPS + g], (Out *)(pixel + j * a.out_row + at.c[g] * a.out_channel));
  }
}

/* Makes the outputs of a thread from a tile that is filled. */
template <class In, int MOST>
__device__ __forceinline__ void make_outputs(const sparse_arguments<MOST> &k, const output_places &at, const float *tile,
                                             const int (&places)[OUTPUTS], bool finite) {
  const arguments &a = k.common;
  const gconv_problem &problem = a.problem;
  float values[OUTPUTS];
  int t = 0;
  for (int f = 0; f < k.filters; f++) {
    float sums[OUTPUTS] = {};
    if (finite)
#pragma unroll 2
      for (; t < k.ends[f]; t++)
        lay_tap(k.list[t].tap, k.list[t].offset, tile, places, sums);
    else
      lay_all(problem, k.shape.pitch, k.weights + (int64_t)(k.first + f) * problem.rows * problem.columns, tile, places,
              sums);
    if (!take_sums(problem, k.weights, k.first + f, problem.filters, sums, values))
      continue;
    int filter = gconv_is_combined(&problem) ? 0 : k.first + f;
    if (problem.out_type == GCONV_U8)
      store_outputs<In, uint8_t>(a, at, filter, values);
    else if (problem.out_type == GCONV_U16)
      store_outputs<In, uint16_t>(a, at, filter, values);
    else
      store_outputs<In, float>(a, at, filter, values);
  }
}

/* The tiles of a block that begin at sample `begin` of a row, in all rows and planes that it strides to. */
template <class In, int MOST>
__device__ __forceinline__ void make_tiles(const sparse_arguments<MOST> &k, int64_t begin, float *tile) {
  const arguments &a = k.common;
  const gconv_problem &problem = a.problem;
  const int64_t pixel = begin / problem.channels;
  const int first = (int)(begin - pixel * problem.channels) + (int)threadIdx.x; /* sample from that pixel on */
  const int64_t left = pixel * problem.stride_x - problem.pad_left;             /* in pixels */
  output_places at;
  int places[OUTPUTS];
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    int q = (first + g * LANES) / problem.channels;
    at.q[g] = pixel + q;
    at.c[g] = first + g * LANES - q * problem.channels;
#pragma unroll
    for (int j = 0; j < ROWS; j++)
      places[j * GROUPS + g] = (int)(threadIdx.y * ROWS + j) * problem.stride_y * k.shape.pitch +
                               q * problem.stride_x * problem.channels + at.c[g];
  }
  for (int64_t z = blockIdx.z; z < (int64_t)problem.images * problem.planes; z += gridDim.z) {
    int64_t image = problem.planes == 1 ? z : z / problem.planes, plane = z - image * problem.planes;
    at.in = a.in + image * a.in_image + plane * a.in_plane;
    at.out = a.out + image * a.out_image + plane * a.out_plane;
    for (int64_t row = (int64_t)blockIdx.y * k.shape.out_rows; row < problem.out_height;
         row += (int64_t)gridDim.y * k.shape.out_rows) {
      fill_tile<In>(a, k.shape, at.in, row * problem.stride_y - problem.pad_top, left, tile);
      at.p = row + threadIdx.y * ROWS;
      make_outputs<In>(k, at, tile, places, sizeof(In) < 4 || is_finite(k.shape, tile));
      __syncthreads(); /* before the tile is filled again */
    }
  }
}

/* Block: a warp a row of threads. Grid: x over the tiles of a row of them, y over rows of tiles, z over planes of all
 * images; what is beyond the grid is strided over. */
template <class In, int MOST>
__global__ void __launch_bounds__(LANES *MOST_WARPS) sparse(const __grid_constant__ sparse_arguments<MOST> k) {
  extern __shared__ float4 memory[];
  const int64_t samples = (int64_t)k.common.problem.out_width * k.common.problem.channels;
  for (int64_t begin = (int64_t)blockIdx.x * k.shape.across; begin < samples; begin += (int64_t)gridDim.x * k.shape.across)
    make_tiles<In>(k, begin, (float *)memory);
}

/* ---- The host's part ---- */

/* The largest tile, of 8 warps or fewer, that fits; the warps, or 0 if there is none. */
static int warps_that_fit(const gconv_problem *problem, tile_shape *shape) {
  int64_t most = (int64_t)shared_limit();
  for (int warps = MOST_WARPS; warps > 0; warps /= 2)
    if (lay_out_plainly(problem, warps * ROWS, GROUPS * LANES, most, shape))
      return warps;
  return 0;
}

/* Launches for `count` filters from `first` on, whose taps begin at number `from` of those that are prepared. */
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
  GCONV_TRY(allow_shared(kernel, a.shape.bytes));
  kernel<<<grid_for(problem, &a.shape), dim3(LANES, warps), a.shape.bytes, (cudaStream_t)execution->stream>>>(a);
  CUDA_TRY(cudaGetLastError());
  return GCONV_OK;
}

/* Taps that one launch can take as parameters: few, as in the 4 KB that launches took from the beginning, or many. */
enum { FEW_TAPS = 400, MANY_TAPS = 3900 };

/* All filters, as many at a time as parameters hold. */
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
  static gconv_status (*const runs[])(const gconv_execution *) = {run<uint8_t>, run<uint16_t>, run<float>};
  return runs[execution->problem->in_type](execution);
}

static const char *supports(const gconv_problem *problem) {
  tile_shape shape;
  /* What is known are the taps of all filters together; a filter that has fewer needs to be no exception. */
  if (problem->structure.nonzero_taps > MANY_TAPS &&
      (gconv_is_combined(problem) || (int64_t)problem->rows * problem->columns > MANY_TAPS))
    return "more than 3900 taps are not 0";
  if (gconv_is_combined(problem) && problem->filters > MOST_FILTERS)
    return "more than 64 filters are combined";
  return warps_that_fit(problem, &shape) > 0 ? NULL : "its tile would not fit in the shared memory of the GPU";
}

/* In units of the time of a multiply-add at the peak, measured on an H200: what filling a tile takes for each of its
 * samples, what an output takes beside its taps, and a tap, for which samples of even strides are in half as many banks. */
static const double FILL = 30, BEGIN = 80, STORE = 60, TAP = 4.3;

static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  tile_shape shape = {};
  warps_that_fit(problem, &shape);
  double samples = (double)problem->images * problem->planes * problem->channels * problem->out_height * problem->out_width;
  double filled = (double)shape.rows * shape.samples / ((double)shape.out_rows * shape.across);
  double tap = problem->stride_x % 2 == 0 ? 2 * TAP : TAP;
  double work = BEGIN + FILL * filled + STORE * problem->filters + tap * (double)problem->structure.nonzero_taps;
  return 2 * machine->launch_ms + 0.004 + samples * work / machine->fma_per_ms;
}

/* Members in the order of the structure, as C++17 has no names here; the others are 0. */
extern "C" const gconv_algorithm gconv_algorithm_cuda_sparse = {
    {"sparse", "cuda", "only the taps that are not 0, from tiles in shared memory", true},
    NULL, /* available */
    supports,
    NULL, /* workspace_bytes */
    execute,
    cost,
    gconv_chain_bound,
    gconv_sparse_floats,
    gconv_sparse_prepare,
};

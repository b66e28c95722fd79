/* SPDX-License-Identifier: MIT */
/*
 * tiled: tiles as in classic/tiled_classic.cu, but each thread computes a strip of V = 16 neighbouring outputs of a row.
 *
 *     the tile that a block reads                     a thread
 *     +---------------------------------+
 *     |  halo: half a filter            |             taps    t0 t1 t2 ...                 operands in uniform registers
 *     |    +-----------------------+    |             window  x0 x1 x2 ... x30             registers
 *     |    | outputs               |    |                      |
 *     |    +-----------------------+    |             sums    y0 = t0 x0 + t1 x1 + ..      16 of them
 *     +---------------------------------+                     y1 = t0 x1 + t1 x2 + ..
 *
 * A thread loads windows of V + 15 samples into registers: 8 loads of 16 bytes for 16 x 16 multiply-adds, half of what
 * shared memory delivers in that time. The classic kernel has a load for each multiply-add. Taps are kernel parameters. From
 * 90 x 90 on, they are too many, and come from memory. So the rate of multiply-adds is the limit, for any size of the
 * filter. While the tile is filled, borders are resolved and integers become floats.
 *
 * This is the exact algorithm for large filters. `direct`, whose sums slide through registers, needs no tile and is faster
 * for small filters. The classic kernel takes the problems that strips do not take: strides along rows, dilations of more
 * than 32 samples, and tiles that do not fit into shared memory, from some 180 x 180 on. Taps are added in the order r, s of
 * the exact family.
 */
#include "../core/tile.cuh"

/* ---- A thread computes a strip of V samples ---- */

enum { V = 16, RUN = 16, STRIP_THREADS = 256 };

struct strip_shape {
  tile_shape tile;
  int32_t stage,
      stage_pitch; /* where finished outputs are staged, in floats from the start of the tile; floats from row to row */
  int64_t bytes;   /* shared memory of a block in all */
};

/* MOST: the taps that parameters hold; 0: they are read from `weights`. */
template <int MOST> struct strip_arguments : arguments {
  strip_shape shape;
  const float *weights;
  int32_t first, filters; /* the filters of this launch */
  int32_t pitch;          /* floats of a row of taps: an even number */
  float taps[MOST > 0 ? MOST : 1];
};

/* Adds N taps to V sums. `x` is the sample for the first tap and the first output; it is at a multiple of 16 bytes. */
template <int N> DEVICE void add_run(const float *taps, const float *x, float (&sums)[V]) {
  constexpr int FOURS = (V + N - 1 + 3) / 4;
  float window[4 * FOURS];
  UNROLLED_FOR (int i = 0; i < FOURS; i++)
    load_four(x + 4 * i, window + 4 * i);
  UNROLLED_FOR (int s = 0; s < N; s++)
    UNROLLED_FOR (int v = 0; v < V; v++)
      sums[v] = fmaf(taps[s], window[v + s], sums[v]);
}

/* Adds a row of taps: first runs of 16, then the remaining taps. So every inner loop is unrolled. */
DEVICE void add_taps(const float *taps, int count, const float *x, float (&sums)[V]) {
  ROLLED_FOR (; count > RUN; count -= RUN, taps += RUN, x += RUN)
    add_run<RUN>(taps, x, sums);
#define CASE(N)                                                                                                             \
  case N:                                                                                                                   \
    return add_run<N>(taps, x, sums);
  switch (count) {
    CASE(1)
    CASE(2)
    CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16)
  }
#undef CASE
}

/* The place of a thread's strip. Neighbouring threads have neighbouring rows, so that they use different banks. In these
 * blocks, x is therefore the row, and y the strip along it. */
struct strip {
  int row, card, number; /* place of the outputs in the tile: row, pile, place within the pile */
};

DEVICE strip strip_of(const tile_shape &shape) {
  const int across = threadIdx.y;
  if (shape.piles == 1)
    return {(int)threadIdx.x, 0, across * V};
  return {(int)threadIdx.x, across % shape.piles, across / shape.piles * V};
}

/* Writes the finished values of a strip to the stage, in the order of the image. store_stage() reads them there. */
DEVICE void stage_strip(const strip_shape &shape, const strip &at, const float (&y)[V], float *stage) {
  const int piles = shape.tile.piles;
  float *to = stage + at.row * shape.stage_pitch + at.number * piles + at.card;
  if (piles == 1) {
    UNROLLED_FOR (int v = 0; v < V; v += 4)
      *(float4 *)(to + v) = make_float4(y[v], y[v + 1], y[v + 2], y[v + 3]);
  } else {
    UNROLLED_FOR (int v = 0; v < V; v++)
      to[v * piles] = y[v];
  }
}

/* The place of an output tile: its first row and pixel, and its planes. */
struct tile_place {
  int64_t row, pixel;
  plane_rows plane;
};

/* Stores `count` finished values of a tile row p, from sample `first` on, for any layout of the output. Alpha that is kept
 * is stored in place of its value. */
template <class In, class Out>
DEVICE void store_pixels(const arguments &a, const tile_place &at, const float (&y)[4], int64_t p, int first, int count,
                         int filter) {
  const gconv_problem &problem = a.problem;
  uint8_t *row = at.plane.out + p * a.out_row + filter * a.out_filter;
  UNROLLED_FOR (int j = 0; j < 4; j++) {
    if (j >= count)
      return;
    int pixel = (first + j) / problem.channels, c = first + j - pixel * problem.channels;
    int64_t q = at.pixel + pixel;
    if (!problem.keep_alpha || c < problem.channels - 1)
      gconv_store(y[j], (Out *)(row + q * a.out_pixel + c * a.out_channel));
    else if (filter == 0 || problem.epilogue.combine == GCONV_COMBINE_NONE)
      gconv_store(kept_alpha<In>(problem, at.plane.in, a.in_row, p, q), (Out *)(row + q * a.out_pixel + a.out_alpha));
  }
}

/* Stores the staged outputs of filter `filter`. A warp takes one row at a time. */
template <class In, class Out>
DEVICE void store_stage(const arguments &a, const strip_shape &shape, const tile_place &at, const float *stage, int filter) {
  const gconv_problem &problem = a.problem;
  const int id = threadIdx.y * blockDim.x + threadIdx.x, warps = blockDim.x * blockDim.y / LANES;
  const bool dense =
      a.out_channel == sizeof(Out) && a.out_pixel == problem.channels * (int)sizeof(Out) && !problem.keep_alpha;
  const int64_t left = (problem.out_width - at.pixel) * problem.channels, down = problem.out_height - at.row;
  const int samples = (int)(left < shape.tile.across ? left : shape.tile.across);
  const int rows = (int)(down < shape.tile.out_rows ? down : shape.tile.out_rows);
  uint8_t *to = at.plane.out + filter * a.out_filter + (at.row + id / LANES) * a.out_row +
                at.pixel * problem.channels * (int)sizeof(Out);
  for (int row = id / LANES; row < rows && id / LANES < warps; row += warps, to += warps * a.out_row)
    for (int first = id % LANES * 4; first < samples; first += LANES * 4) {
      float y[4];
      load_four(stage + row * shape.stage_pitch + first, y);
      if (dense)
        store_four(y, (Out *)to, first, samples - first);
      else
        store_pixels<In, Out>(a, at, y, at.row + row, first, samples - first, filter);
    }
}

/* Computes the sums of filter number `filter` of the launch. */
template <int MOST> DEVICE void add_filter(const strip_arguments<MOST> &k, int filter, const float *x, float (&sums)[V]) {
  const int columns = k.problem.columns, rows = k.problem.rows, pitch = MOST > 0 ? k.pitch : columns;
  const int step = k.problem.dilation_y * k.shape.tile.pitch;
  const float *taps = MOST > 0 ? k.taps + filter * rows * pitch : k.weights + (int64_t)(k.first + filter) * rows * columns;
  UNROLLED_FOR (int v = 0; v < V; v++)
    sums[v] = 0.0f;
  ROLLED_FOR (int r = 0; r < rows; r++, taps += pitch, x += step)
    add_taps(taps, columns, x, sums);
}

/* Computes and stores all outputs of a tile that is filled. */
template <class In, int MOST>
DEVICE void make_strips(const strip_arguments<MOST> &a, const tile_place &at, const strip &mine, const float *tile,
                        float *stage) {
  const gconv_problem &problem = a.problem;
  const tile_shape &shape = a.shape.tile;
  /* Threads without a strip compute, too, but their results are dropped. Only if all threads of a warp take part are taps
   * read through uniform registers. */
  const bool combined = gconv_is_combined(&problem), busy = mine.number * shape.piles < shape.across;
  const int column = busy ? mine.card * shape.pile + mine.number : 0;
  const float *x = tile + mine.row * problem.stride_y * shape.pitch + column;
  float values[V];
  for (int f = 0; f < a.filters; f++) {
    float sums[V];
    add_filter(a, f, x, sums);
    if (!take_sums(problem, a.weights, a.first + f, problem.filters, sums, values))
      continue;
    __syncthreads(); /* the stage may be the tile itself, or still hold the previous filter */
    if (busy)
      stage_strip(a.shape, mine, values, stage);
    __syncthreads();
    int filter = combined ? 0 : a.first + f;
    with_type(problem.out_type, [&](auto out) { store_stage<In, decltype(out)>(a, a.shape, at, stage, filter); });
  }
}

/* Grid: x counts tiles along a row, y rows of tiles, z planes of all images. Blocks stride over tiles beyond the grid. */
template <class In, int MOST>
__global__ void __launch_bounds__(STRIP_THREADS, 3) strips(const __grid_constant__ strip_arguments<MOST> a) {
  extern __shared__ float4 memory[];
  float *tile = (float *)memory, *stage = tile + a.shape.stage;
  const gconv_problem &problem = a.problem;
  const strip mine = strip_of(a.shape.tile);
  const int across = a.shape.tile.across / problem.channels; /* pixels */
  tile_place at;
  for (int64_t z = blockIdx.z; z < (int64_t)problem.images * problem.planes; z += gridDim.z) {
    at.plane = plane_of<true>(a, z);
    for (at.row = (int64_t)blockIdx.y * a.shape.tile.out_rows; at.row < problem.out_height;
         at.row += (int64_t)gridDim.y * a.shape.tile.out_rows)
      for (at.pixel = (int64_t)blockIdx.x * across; at.pixel < problem.out_width; at.pixel += (int64_t)gridDim.x * across) {
        fill_tile<In>(a, a.shape.tile, at.plane.in, at.row * problem.stride_y - problem.pad_top, at.pixel - problem.pad_left,
                      tile);
        make_strips<In>(a, at, mine, tile, stage);
        __syncthreads(); /* the tile is read until here, and filled again after it */
      }
  }
}

/* ---- Launching ---- */

/* Chooses where finished outputs are staged: in the tile, if no further filter reads it, otherwise after it. */
static void place_stage(const gconv_problem *problem, strip_shape *shape) {
  bool alone = problem->filters == 1 || gconv_is_combined(problem);
  int64_t pitch = (shape->tile.across / 4 | 1) * 4, bytes = pitch * shape->tile.out_rows * (int64_t)sizeof(float);
  shape->stage = alone ? 0 : shape->tile.bytes / (int32_t)sizeof(float);
  shape->stage_pitch = (int32_t)pitch;
  shape->bytes = !alone ? shape->tile.bytes + bytes : shape->tile.bytes > bytes ? shape->tile.bytes : bytes;
}

static bool shape_strips(const gconv_problem *problem, dim3 block, int64_t most, strip_shape *shape) {
  int64_t piles = (int64_t)problem->channels * problem->dilation_x;
  if (piles > block.x)
    return false;
  int64_t outputs = block.x / piles * V, across = outputs * piles; /* outputs of a pile; of all piles */
  int64_t pile = (outputs + problem->columns - 1 + 3) / 4 * 4, samples = across + (problem->columns - 1) * piles;
  if (!lay_out(problem, (int32_t)block.y, across, piles, pile, samples, most, &shape->tile))
    return false;
  place_stage(problem, shape);
  return shape->bytes <= most;
}

/* The most taps that one launch takes as parameters. The kernel is compiled for FEW_TAPS, which fit into the 4 KB that
 * parameters had before CUDA 12.1, for MANY_TAPS, which fit into the 32 KB since then, and for more. */
enum { FEW_TAPS = 800, MANY_TAPS = 8000 };

/* Returns the floats from one row of taps to the next. The number is even, because constants are read in pairs. */
static int32_t tap_pitch(const gconv_problem *problem) {
  return (problem->columns + 1) / 2 * 2;
}

/* Chooses the block of `strips`: the size that the user asked for, unless it is smaller than a warp, which cannot fill a
 * tile; otherwise 8 strips across, or a multiple of the piles near that. The rows are a multiple of eight, and make up 256
 * threads. There are fewer rows if the tile would not fit. Returns false if no block has a tile that fits. */
static bool find_strips(const gconv_problem *problem, dim3 *block, strip_shape *shape) {
  int64_t most = (int64_t)shared_limit(), piles = (int64_t)problem->channels * problem->dilation_x;
  int32_t hinted = problem->block_width * problem->block_height;
  if (problem->stride_x != 1 || piles > 32)
    return false;
  *block = dim3((unsigned)problem->block_width, (unsigned)problem->block_height);
  if (hinted >= LANES && hinted <= STRIP_THREADS && shape_strips(problem, *block, most, shape))
    return true;
  int across = (int)(piles < 8 ? 8 / piles * piles : piles);
  for (*block = dim3(across, STRIP_THREADS / across / 8 * 8); block->y >= 8; block->y = block->y / 16 * 8)
    if (shape_strips(problem, *block, most, shape))
      return true;
  return false;
}

/* Launches `strips` for `count` filters from `first` on. */
template <class In, int MOST>
static gconv_status launch_strips(const gconv_execution *execution, dim3 block, const strip_shape *shape, int32_t first,
                                  int32_t count) {
  const gconv_problem *problem = execution->problem;
  strip_arguments<MOST> a = {common_arguments(execution), *shape, execution->weights, first, count, tap_pitch(problem), {}};
  const float *tap = execution->host_weights + (int64_t)first * problem->rows * problem->columns;
  for (int row = 0; MOST > 0 && row < count * problem->rows; row++)
    for (int s = 0; s < problem->columns; s++)
      a.taps[row * a.pitch + s] = *tap++;
  auto *kernel = strips<In, MOST>;
  if (shape->bytes > 48 << 10)
    GCONV_TRY(allow_shared(kernel, shape->bytes));
  kernel<<<grid_for(problem, &shape->tile), dim3(block.y, block.x), shape->bytes, (cudaStream_t)execution->stream>>>(a);
  return CUDA_STATUS(cudaGetLastError());
}

/* Runs all filters. Each launch gets as many filters as fit into its parameters. If one filter, or all filters of a
 * combination, do not fit, one launch gets all filters, with their taps in memory. */
template <class In> static gconv_status run_strips(const gconv_execution *execution, dim3 block, const strip_shape *shape) {
  const gconv_problem *problem = execution->problem;
  int64_t taps = (int64_t)tap_pitch(problem) * problem->rows;
  if (taps > MANY_TAPS / (gconv_is_combined(problem) ? problem->filters : 1))
    return launch_strips<In, 0>(execution, block, shape, 0, problem->filters);
  int32_t most = problem->filters * taps <= FEW_TAPS ? problem->filters : (int32_t)(MANY_TAPS / taps);
  for (int32_t first = 0; first < problem->filters; first += most) {
    int32_t count = problem->filters - first < most ? problem->filters - first : most;
    auto *launch = count * taps <= FEW_TAPS ? launch_strips<In, FEW_TAPS> : launch_strips<In, MANY_TAPS>;
    GCONV_TRY(launch(execution, block, shape, first, count));
  }
  return GCONV_OK;
}

static gconv_status execute(const gconv_execution *execution) {
  dim3 block;
  strip_shape shape;
  if (!find_strips(execution->problem, &block, &shape))
    return gconv_algorithm_cuda_tiled_classic.execute(execution);
  return with_type(execution->problem->in_type, [&](auto in) { return run_strips<decltype(in)>(execution, block, &shape); });
}

static const char *supports(const gconv_problem *problem) {
  dim3 block;
  strip_shape shape;
  return find_strips(problem, &block, &shape) ? NULL : gconv_algorithm_cuda_tiled_classic.supports(problem);
}

/* Costs in units of one multiply-add at the peak, measured on an H200: FILL for each sample of the tile, STORE and BEGIN for
 * each output, and TAP for each multiply-add. */
static const double FILL = 20, STORE = 50, BEGIN = 25, TAP = 1.3;

static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  dim3 block;
  strip_shape shape;
  if (!find_strips(problem, &block, &shape))
    return gconv_algorithm_cuda_tiled_classic.cost(problem, machine);
  double taps = (double)problem->rows * problem->columns;
  double samples = (double)samples_of(problem);
  double filled = (double)shape.tile.rows * shape.tile.samples / ((double)shape.tile.out_rows * shape.tile.across);
  double dealing = shape.tile.piles > 1 ? 2 : 1, conversion = problem->in_type == GCONV_F32 ? 1 : 1.6;
  double work = BEGIN + FILL * filled * dealing * conversion + problem->filters * (STORE + TAP * taps);
  return 2 * machine->launch_ms + 0.002 + samples * work / machine->fma_per_ms;
}

extern "C" const gconv_algorithm gconv_algorithm_cuda_tiled = {
    .info = {"tiled", "cuda", "tiles in shared memory, read from there in strips", true},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
};

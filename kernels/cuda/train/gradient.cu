/* SPDX-License-Identifier: MIT */
/*
 * The exact gradient of a convolution's weights. For each case and each band of its output rows:
 *
 *     gradient[k][t] = sum over the places of the band of  dz[k][place] * x[under tap t of place]
 *
 * Each sum is a chain from the first place to the last.
 *
 *     shared memory: two stages of some rows                    registers: sums
 *     x:  channels x rows under the outputs x columns           a thread has a piece, which is TAPS neighbouring taps of
 *     dz: filters x rows x columns                              a filter's row, and FILTERS filters
 *
 * A thread takes four places at a time. It reads the 4 + TAPS - 1 samples under its taps, and four gradients of each of its
 * filters, sixteen bytes at a time. With them it does 4 TAPS FILTERS multiply-adds: for filters of 3 columns, 96 with 10
 * reads. Most threads of a warp have the same filters, so that one read of gradients serves them all. The pitches of rows
 * and channels are chosen so that eight threads read x from different banks.
 *
 * While threads use one stage, the next rows are copied into the other one: by Hopper's copy engine (TMA) or, if that does
 * not support the tensors, by warps of their own. The first of these warps also sums the gradients of the biases.
 *
 * The copy engine begins at columns that are multiples of four, SHIFT columns before the first sample that is needed.
 * STRIDED: taps or places are not neighbours, so a piece is one tap, whose samples are read one by one.
 */
#include "gradient_stage.cuh"
#include "layers.h"

namespace {

enum : int {
  MOST_FILTERS = 16,
  MOST_PIECES = 48,
  MOST_THREADS = 160, /* the most threads of a block; 128 if FILTERS is 8 */
  COPYING = 4,        /* the most warps that copy */
  BLOCKS = 4,         /* in a multiprocessor */
  SHARED_BYTES = 55 << 10
};

struct gradient_arguments : staging {
  float *leaves;
  int64_t parameters;    /* floats of a leaf */
  int32_t taps;          /* taps of a filter */
  int32_t of_row;        /* pieces of a row of a filter */
  int32_t pieces, tiles; /* pieces of a block; blocks for all pieces of a filter */
  int32_t blocks;        /* for all filters of a group */
  int32_t copying;       /* how many of a block's warps copy: the last warps */
  int32_t bands, band_rows;
};

/* How many vectors of four samples four places need. */
template <int TAPS, int SHIFT> constexpr int FOURS = (SHIFT + 4 + TAPS - 1 + 3) / 4;

/* Adds the places of a row in their order, four at a time. apart: floats between the gradients of two filters. */
template <int TAPS, int FILTERS, int SHIFT, bool STRIDED>
DEVICE void add_row(const float *dz, int32_t apart, const float *x, int32_t step, int32_t columns,
                    float (&sums)[FILTERS][TAPS]) {
  UNROLLED_2_FOR (; columns > 0; columns -= 4, dz += 4, x += 4 * step) {
    float samples[4 * FOURS<TAPS, SHIFT>];
    if (STRIDED) {
      UNROLLED_FOR (int i = 0; i < 4; i++)
        samples[i] = x[i * step];
    } else {
      UNROLLED_FOR (int i = 0; i < FOURS<TAPS, SHIFT>; i++)
        load_four(x + 4 * i, samples + 4 * i);
    }
    UNROLLED_FOR (int k = 0; k < FILTERS; k++) {
      float gradients[4];
      load_four(dz + k * apart, gradients);
      UNROLLED_FOR (int i = 0; i < 4; i++)
        if (i == 0 || i < columns)
          UNROLLED_FOR (int t = 0; t < TAPS; t++)
            sums[k][t] = fmaf(samples[SHIFT + i + t], gradients[i], sums[k][t]);
    }
  }
}

/* Adds the gradients of a row, for a bias. */
DEVICE void add_row(const float *dz, int32_t columns, float &sum) {
  for (; columns > 0; columns -= 4, dz += 4) {
    float gradients[4];
    load_four(dz, gradients);
    UNROLLED_FOR (int i = 0; i < 4; i++)
      if (i < columns)
        sum += gradients[i];
  }
}

/* Stores the sums of the first `filters` filters and `taps` taps. */
template <int TAPS, int FILTERS>
DEVICE void store_sums(float *to, int64_t pitch, int32_t filters, int32_t taps, const float (&sums)[FILTERS][TAPS]) {
  UNROLLED_FOR (int i = 0; i < FILTERS; i++)
    UNROLLED_FOR (int t = 0; t < TAPS; t++)
      if (i < filters && t < taps)
        to[i * pitch + t] = sums[i][t];
}

template <int TAPS, int FILTERS, int SHIFT, bool STRIDED>
__global__ void __launch_bounds__(FILTERS == 8 ? 128 : MOST_THREADS, BLOCKS)
    sum_weights(const __grid_constant__ gradient_arguments a) {
  extern __shared__ __align__(128) float shared[];
  const gconv_layer_problem &p = a.p;
  const int32_t tile = (int32_t)blockIdx.y % a.tiles, block = (int32_t)blockIdx.y / a.tiles % a.blocks,
                group = (int32_t)blockIdx.y / a.tiles / a.blocks;
  const int64_t leaf = blockIdx.x, image = leaf / a.bands;
  const int32_t first_row = (int32_t)(leaf - image * a.bands) * a.band_rows;
  const int32_t last_row = min(first_row + a.band_rows, p.out_height), of_group = p.filters / p.groups;
  const int32_t first_filter = block << a.filters_log2, filters = min(1 << a.filters_log2, of_group - first_filter);
  /* Threads that sum have a piece and filters. Threads that copy have a number from 0 on. */
  const int32_t channels = p.channels / p.groups, of_channel = p.rows * a.of_row, all = channels * of_channel;
  const int32_t first = tile * a.pieces, pieces = min(a.pieces, all - first);
  const int32_t at = (int32_t)threadIdx.x / pieces, piece = first + (int32_t)threadIdx.x - at * pieces;
  const int32_t k = at * FILTERS, c = piece / of_channel, r = (piece - c * of_channel) / a.of_row;
  const int32_t s = (piece - c * of_channel - r * a.of_row) * TAPS;
  const int32_t first_channel = first / of_channel, some = (first + pieces - 1) / of_channel - first_channel + 1;
  const int32_t copying = 32 * a.copying, number = (int32_t)threadIdx.x - ((int32_t)blockDim.x - copying);
  const bool sums_weights = number < 0 && k < filters, sums_bias = tile == 0 && number >= 0 && number < filters;

  const int32_t apart = a.rows * a.columns;
  const int32_t place = (c - first_channel) * a.x_plane + r * p.dilation_y * a.x_pitch + s * p.dilation_x;
  const int32_t chunks = (last_row - first_row + a.rows - 1) / a.rows * chunks_across(a);
  const stage_source source = {image, group * of_group + first_filter, filters, group * channels + first_channel, some};
#ifdef COPY_ENGINE
  __shared__ uint64_t arrived[2];
  if (a.boxes && number == 0) {
    hopper::barrier_init(&arrived[0], 1);
    hopper::barrier_init(&arrived[1], 1);
    hopper::barrier_init_done();
  }
  __syncthreads();
#endif
  float sums[FILTERS][TAPS] = {}, bias = 0;
  ROLLED_FOR (int32_t i = -1; i < chunks; i++) {
#ifdef COPY_ENGINE
    if (a.boxes && number == 0 && i + 1 < chunks)
      fill_by_boxes(a, source, chunk_of(a, i + 1, first_row, last_row), shared + (i + 1) % 2 * a.floats,
                    &arrived[(i + 1) % 2]);
    if (a.boxes && i >= 0)
      hopper::barrier_wait(&arrived[i % 2], i / 2 % 2);
#endif
    if (!a.boxes && number >= 0 && i + 1 < chunks)
      fill_by_threads(a, source, chunk_of(a, i + 1, first_row, last_row), number, copying, shared + (i + 1) % 2 * a.floats);
    if (i >= 0) {
      const chunk of = chunk_of(a, i, first_row, last_row);
      const float *gradients = shared + i % 2 * a.floats, *samples = gradients + a.dz_floats + place;
      for (int32_t row = 0; row < of.rows; row++, gradients += a.columns, samples += p.stride_y * a.x_pitch)
        if (sums_weights)
          add_row<TAPS, FILTERS, SHIFT, STRIDED>(gradients + k * apart, apart, samples, p.stride_x, of.columns, sums);
        else if (sums_bias)
          add_row(gradients + number * apart, of.columns, bias);
    }
    await_all_copies();
    __syncthreads();
  }

  const int64_t filter = (int64_t)group * of_group + first_filter;
  float *to = a.leaves + leaf * a.parameters;
  if (sums_bias)
    to[(int64_t)p.filters * a.taps + filter + number] = bias;
  if (sums_weights)
    store_sums(to + (filter + k) * a.taps + (c * p.rows + r) * p.columns + s, a.taps, filters - k, p.columns - s, sums);
}

/* ---- Launching ---- */

/* Returns the least number from `floats` on that is `wanted` modulo 32. */
int32_t padded(int32_t floats, int32_t wanted) {
  return floats + ((wanted - floats) % 32 + 32) % 32;
}

/* The properties of a kernel that set_tile() needs. */
struct tile_kind {
  bool strided;
  int32_t fours; /* vectors of four samples that are read at a time */
};

/* Returns the worst bank conflict of eight threads with neighbouring pieces. Shared memory serves eight threads together. */
int bank_conflicts(const gradient_arguments &a) {
  int most = 0;
  for (int32_t first = 0; first < MOST_PIECES; first += 8) {
    int counts[8] = {};
    for (int32_t piece = first; piece < first + 8; piece++) {
      const int32_t row = piece / a.of_row, channel = row / a.p.rows;
      const int32_t at = channel * a.x_plane + (row - channel * a.p.rows) * a.p.dilation_y * a.x_pitch;
      most = std::max(most, ++counts[(at / 4 + piece % a.of_row) % 8]);
    }
  }
  return most;
}

/* Chooses the width of boxes with the fewest bank conflicts. The rows of a box have no padding between them. */
void set_box(gradient_arguments *a, int32_t x_rows, int32_t reach) {
  int best = INT32_MAX;
  for (int32_t pitch = reach; pitch < reach + 32; pitch += 4) {
    gradient_arguments tried = *a;
    tried.x_pitch = pitch;
    tried.x_plane = x_rows * pitch;
    if (bank_conflicts(tried) < best) {
      best = bank_conflicts(tried);
      a->x_pitch = pitch;
      a->x_plane = x_rows * pitch;
    }
  }
}

/* Sets the rows and columns of outputs in a stage. Returns false if the stage does not fit into shared memory. */
bool set_tile(gradient_arguments *a, tile_kind kind, int32_t rows, int32_t columns) {
  const gconv_layer_problem &p = a->p;
  a->rows = rows;
  a->columns = (columns + 3) / 4 * 4;
  if (is_huge(*a, rows, a->columns))
    return false;
  a->dz_pitch = a->columns;
  a->dz_plane = rows * a->columns;
  const int32_t x_rows = rows_under(p, rows);
  if (a->boxes) {
    set_box(a, x_rows, a->columns + 4 * (a->of_row + kind.fours - 2));
  } else if (kind.strided) { /* pieces are taps, 1 float apart */
    a->x_pitch = padded((a->columns - 1) * p.stride_x + (p.columns - 1) * p.dilation_x + 1, a->of_row);
    a->x_plane = padded(x_rows * a->x_pitch, a->of_row * p.rows % 32);
  } else { /* pieces are 4 floats apart */
    a->x_pitch = padded(a->columns + 4 * (a->of_row + kind.fours - 2), 4 * a->of_row);
    a->x_plane = padded(x_rows * a->x_pitch, 4 * a->of_row * p.rows % 32);
  }
  set_floats(a, 0);
  return 2 * a->floats * (int64_t)sizeof(float) <= SHARED_BYTES;
}

/* Finds the most rows that fit or, for wide images, a part of a row. Boxes have few rows, since a box arrives as a whole. */
bool find_tile(gradient_arguments *a, tile_kind kind) {
  int32_t rows = std::min(a->band_rows, a->boxes ? (63 + a->p.out_width) / a->p.out_width : 8), columns = a->p.out_width;
  while (!set_tile(a, kind, rows, columns))
    if (rows > 1)
      rows = (rows + 1) / 2;
    else if (columns > 32)
      columns = (columns + 1) / 2 / 4 * 4;
    else
      return false;
  return true;
}

/* True if the copy engine supports the tensors. Then *a is changed to use it. */
template <class Kernel> bool takes_boxes(gradient_arguments *a, tile_kind kind, Kernel kernel, int64_t cases) {
  gradient_arguments boxed = *a;
  boxed.boxes = true;
  if (!may_have_boxes(*a, kernel) || !find_tile(&boxed, kind) || !map_boxes(&boxed, cases))
    return false;
  *a = boxed;
  return true;
}

/* Starts the kernel. BOXED: the copy engine copies. Returns false if the copy engine or the GPU does not support the
 * layer. */
template <int TAPS, int FILTERS, int SHIFT, bool BOXED, bool STRIDED = false>
bool start(gradient_arguments a, dim3 grid, int64_t cases, cudaStream_t stream) {
  const auto kernel = sum_weights<TAPS, FILTERS, SHIFT, STRIDED>;
  const tile_kind kind = {STRIDED, FOURS<TAPS, SHIFT>};
  a.shift = SHIFT;
  const int32_t summing = ((1 << a.filters_log2) / FILTERS * a.pieces + 31) / 32;
  a.copying = BOXED ? 1 : std::min((FILTERS == 8 ? 128 : MOST_THREADS) / 32 - summing, (int32_t)COPYING);
  if (BOXED ? !takes_boxes(&a, kind, kernel, cases) : !find_tile(&a, kind))
    return false;
  const int bytes = 2 * a.floats * (int)sizeof(float);
  if (allow_shared(kernel, bytes) != GCONV_OK) {
    cudaGetLastError(); /* a GPU with less shared memory: not a failure */
    return false;
  }
  kernel<<<grid, 32 * (unsigned)(summing + a.copying), (size_t)bytes, stream>>>(a);
  return true;
}

/* Pieces have 1 tap for filters of 1 column, 3 taps up to 3 columns, and 4 taps for more. Kernels exist for
 * the shifts of usual paddings. */
template <int FILTERS>
bool start_boxed(int taps, int shift, const gradient_arguments &a, dim3 grid, int64_t cases, cudaStream_t stream) {
  switch (8 * taps + shift) {
  case 8:
    return start<1, FILTERS, 0, true>(a, grid, cases, stream);
  case 24:
    return start<3, FILTERS, 0, true>(a, grid, cases, stream);
  case 24 + 3:
    return start<3, FILTERS, 3, true>(a, grid, cases, stream);
  case 32:
    return start<4, FILTERS, 0, true>(a, grid, cases, stream);
  case 32 + 1:
    return start<4, FILTERS, 1, true>(a, grid, cases, stream);
  case 32 + 2:
    return start<4, FILTERS, 2, true>(a, grid, cases, stream);
  default:
    return false;
  }
}

template <int FILTERS>
bool start_for(int taps, bool strided, const gradient_arguments &a, dim3 grid, int64_t cases, cudaStream_t stream) {
  if (strided)
    return start<1, FILTERS, 0, false, true>(a, grid, cases, stream);
  if (start_boxed<FILTERS>(taps, (4 - a.p.pad_left % 4) % 4, a, grid, cases, stream))
    return true;
  return taps == 1   ? start<1, FILTERS, 0, false>(a, grid, cases, stream)
         : taps == 3 ? start<3, FILTERS, 0, false>(a, grid, cases, stream)
                     : start<4, FILTERS, 0, false>(a, grid, cases, stream);
}

} // namespace

bool gconv_learn_cuda_gradient(const gconv_learn_own *own, const float *x, const float *dz, int64_t cases, float *leaves,
                               cudaStream_t stream) {
  const gconv_layer_problem &p = own->layer.problem;
  gradient_arguments a = {};
  a.p = p;
  a.x = x;
  a.dz = dz;
  a.leaves = leaves;
  a.parameters = (int64_t)own->layer.parameters;
  const bool strided = p.stride_x > 1 || (p.dilation_x > 1 && p.columns > 1);
  const int32_t taps = strided || p.columns == 1 ? 1 : p.columns <= 3 ? 3 : 4; /* in a piece */
  if (gconv_layer_taps(&p) > 1 << 24 || (int64_t)p.out_height * p.out_width > 1 << 28)
    return false;
  a.taps = (int32_t)gconv_layer_taps(&p);
  a.of_row = (p.columns + taps - 1) / taps;
  const int32_t channels = p.channels / p.groups, filters = p.filters / p.groups, all = channels * p.rows * a.of_row;
  a.tiles = (all + MOST_PIECES - 1) / MOST_PIECES;
  a.pieces = (all + a.tiles - 1) / a.tiles;
  a.tiles = (all + a.pieces - 1) / a.pieces;
  while (1 << a.filters_log2 < std::min<int32_t>(filters, MOST_FILTERS))
    a.filters_log2++;
  /* Threads have 8 filters each, or 2 if that would leave fewer than 32 threads. */
  const bool many = a.filters_log2 >= 3 && (a.pieces << a.filters_log2) / 8 >= 32;
  a.filters_log2 = std::max(a.filters_log2, 1);
  a.blocks = (filters + (1 << a.filters_log2) - 1) >> a.filters_log2;
  a.bands = gconv_learn_bands(&p);
  a.band_rows = gconv_learn_band_rows(&p);
  a.channels = std::min(channels, (a.pieces - 2) / (p.rows * a.of_row) + 2);
  const int64_t grid_y = (int64_t)a.tiles * a.blocks * p.groups;
  if (cases * a.bands > INT32_MAX || grid_y > 65535)
    return false;
  const dim3 grid((unsigned)(cases * a.bands), (unsigned)grid_y);
  return many ? start_for<8>(taps, strided, a, grid, cases, stream) : start_for<2>(taps, strided, a, grid, cases, stream);
}

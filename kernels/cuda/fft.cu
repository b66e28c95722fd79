/* SPDX-License-Identifier: MIT */
/*
 * fft: products of spectra, tile by tile (overlap-save), for large filters.
 *
 * A tile of N x N samples is transformed, multiplied by the spectrum of the filter and transformed back; of the result,
 * N - R + 1 rows and N - S + 1 columns are not touched by its wrapping around. The work is the same for any filter, but for
 * the part of the tile that is lost: some 60 instructions a sample and N * N / ((N - R + 1) * (N - S + 1)), where direct
 * takes R * S.
 *
 * Not of the exact family. See error_bound() for what is stated. An infinity or a NaN spreads over its tile and the one that
 * shares its points.
 */
#include "base/memory.h"
#include "common.cuh"
#include "fft_tile.cuh"

#include <math.h>

namespace {

/* ---- Sizes ---- */

int extent_y(const gconv_problem *problem) {
  return (problem->rows - 1) * problem->dilation_y + 1;
}
int extent_x(const gconv_problem *problem) {
  return (problem->columns - 1) * problem->dilation_x + 1;
}

/* How the output is cut into tiles of `size`. */
struct cutting {
  int size;
  int valid_y, valid_x, first_x; /* as in tile_arguments */
  int64_t tiles_y, tiles_x, tiles;
};

/* valid_x is a multiple of 8 and tiles begin there, if that costs little: loads and stores of 8 neighbours are of whole
 * sectors of memory then. */
cutting cut(const gconv_problem *problem, int size) {
  cutting c = {};
  c.size = size;
  c.valid_y = (size - extent_y(problem) + 1) / problem->stride_y * problem->stride_y;
  c.valid_x = (size - extent_x(problem) + 1) / problem->stride_x * problem->stride_x;
  if (c.valid_y < 1 || c.valid_x < 1)
    return c;
  int first = (problem->pad_left % 8 + 8) % 8 ? 8 - (problem->pad_left % 8 + 8) % 8 : 0;
  int aligned = (c.valid_x - first) / 8 * 8;
  if (problem->stride_x == 1 && aligned >= 0.93 * c.valid_x) {
    c.first_x = first;
    c.valid_x = aligned;
  }
  c.tiles_y = (problem->out_height - 1) / (c.valid_y / problem->stride_y) + 1;
  c.tiles_x = (problem->out_width - 1) / (c.valid_x / problem->stride_x) + 1;
  c.tiles = c.tiles_y * c.tiles_x * problem->planes * (problem->channels - problem->keep_alpha) * problem->images;
  return c;
}

/* Shared memory that a block of the current device may ask for, and its multiprocessors. */
size_t shared_limit(void) {
  int device = 0, bytes = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return (size_t)bytes;
}
int multiprocessors(void) {
  int device = 0, count = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

/* ---- The tile engine ---- */

/* What depends on the size of its tiles. */
struct tile_engine {
  int size, radix; /* N, A */
  size_t shared;
  int threads, blocks; /* of a block; of a multiprocessor */
  double work;         /* multiply-adds that would take as long as a real point, measured on an H200 */
  void (*kernel)(tile_arguments);
};

template <int A> tile_engine engine_of(double work) {
  using shape = tile_shape<A>;
  return {shape::SIZE, A, shape::SHARED, shape::THREADS, shape::BLOCKS, work, convolve_tiles<A>};
}

const tile_engine engines[] = {engine_of<8>(120), engine_of<16>(135), engine_of<20>(140)};

/* Multiply-adds that would take as long as all tiles: pairs of tiles go to the multiprocessors in rounds. */
double work_of(const tile_engine &engine, const cutting &c) {
  int64_t at_a_time = (int64_t)multiprocessors() * engine.blocks, pairs = (c.tiles + 1) / 2;
  int64_t rounds = (pairs - 1) / at_a_time + 1;
  return (double)(rounds * at_a_time) * 2 * engine.size * engine.size * engine.work;
}

/* The fastest engine for the problem, NULL if its filters are too large for all. */
const tile_engine *choose_engine(const gconv_problem *problem) {
  const tile_engine *best = NULL;
  double least = INFINITY;
  size_t limit = shared_limit();
  for (const tile_engine &engine : engines) {
    cutting c = cut(problem, engine.size);
    if (c.valid_y < 1 || c.valid_x < 1 || engine.shared > limit || work_of(engine, c) >= least)
      continue;
    best = &engine;
    least = work_of(engine, c);
  }
  return best;
}

/* ---- The spectra of filters, on the host in float64 ---- */

struct complex64 {
  double re, im;
};

/* The frequency at a position of a line of A * 8: the first pass leaves residues modulo A, eight of each together. */
int frequency_at(int position, int A) {
  return position / 8 + A * (position % 8);
}

/* to[f] = sum over i of taps[i * distance] * exp(2 pi i f * (i * dilation) / N): the conjugate of what convolution takes,
 * as this is correlation. circle[e] = exp(2 pi i e / N). */
void transform_taps(const complex64 *taps, int count, int distance, int dilation, int f, const complex64 *circle, int N,
                    complex64 *to) {
  *to = {};
  int step = (int)((int64_t)f * dilation % N);
  for (int i = 0, e = 0; i < count; i++, e = (e + step) % N) {
    const complex64 w = circle[e], t = taps[(int64_t)i * distance];
    to->re += t.re * w.re - t.im * w.im;
    to->im += t.re * w.im + t.im * w.re;
  }
}

/* The place of point (y, x) of a spectrum in the order of use by multiply_columns(), in points. */
int64_t place_of(int y, int x, int A) {
  int warp = x / 8, m = y / 8, i = y % 8, lane = m % 4 * 8 + x % 8;
  return ((int64_t)(warp * (A / 4) + m / 4) * 4 + i / 2) * 64 + 2 * lane + i % 2;
}

/* memory: N + S + R * N numbers. */
void make_spectrum(const gconv_problem *problem, const float *taps, int A, complex64 *memory, float *to) {
  const int R = problem->rows, S = problem->columns, N = 8 * A;
  complex64 *circle = memory, *row = circle + N, *rows = row + S;
  for (int j = 0; j < N; j++)
    circle[j] = {cos(2 * M_PI * j / N), sin(2 * M_PI * j / N)};
  for (int r = 0; r < R; r++) {
    for (int s = 0; s < S; s++)
      row[s] = {(double)taps[(int64_t)r * S + s], 0};
    for (int f = 0; f < N; f++)
      transform_taps(row, S, 1, problem->dilation_x, f, circle, N, &rows[r * N + f]);
  }
  for (int y = 0; y < N; y++)
    for (int x = 0; x < N; x++) {
      complex64 sum;
      transform_taps(rows + frequency_at(x, A), R, N, problem->dilation_y, frequency_at(y, A), circle, N, &sum);
      float *point = to + 2 * place_of(y, x, A);
      point[0] = (float)(sum.re / ((double)N * N));
      point[1] = (float)(sum.im / ((double)N * N));
    }
}

/* What is prepared: 8 * (A + 2) twists, then the spectra. */
size_t twist_floats(int A) {
  return 2 * 8 * (size_t)(A + 2);
}

size_t prepared_floats(const gconv_problem *problem) {
  const tile_engine *engine = choose_engine(problem);
  return twist_floats(engine->radix) + 2 * (size_t)problem->filters * engine->size * engine->size;
}

gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  const tile_engine *engine = choose_engine(problem);
  const int A = engine->radix, N = engine->size;
  void *memory = NULL;
  GCONV_TRY(gconv_allocate(((size_t)N + problem->columns + (size_t)problem->rows * N) * sizeof(complex64),
                           "the spectrum of a filter", &memory));
  for (int j = 0; j < 8; j++)
    for (int k = 0; k < A + 2; k++) {
      prepared[2 * (j * (A + 2) + k)] = (float)cos(2 * M_PI * j * k / N);
      prepared[2 * (j * (A + 2) + k) + 1] = (float)-sin(2 * M_PI * j * k / N);
    }
  prepared += twist_floats(A);
  for (int k = 0; k < problem->filters; k++)
    make_spectrum(problem, taps + (int64_t)k * problem->rows * problem->columns, A, (complex64 *)memory,
                  prepared + 2 * (int64_t)k * N * N);
  gconv_release(memory);
  return GCONV_OK;
}

/* ---- Alpha that is kept ---- */

/* Grid: x over the pixels of a row, y over rows, z over planes of all images; all strided. */
template <class In, class Out> __global__ void copy_alpha(const __grid_constant__ arguments a) {
  const gconv_problem &problem = a.problem;
  place at;
  for (int64_t z = blockIdx.z; z < (int64_t)problem.images * problem.planes; z += gridDim.z) {
    int64_t image = z / problem.planes, plane = z % problem.planes;
    at.in = a.in + image * a.in_image + plane * a.in_plane;
    uint8_t *out = a.out + image * a.out_image + plane * a.out_plane;
    for (at.p = blockIdx.y; at.p < problem.out_height; at.p += gridDim.y)
      for (at.q = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at.q < problem.out_width;
           at.q += (int64_t)gridDim.x * blockDim.x)
        keep_alpha<In, Out>(a, at, out + at.p * a.out_row + at.q * a.out_pixel);
  }
}

typedef void alpha_kernel(arguments);
#define OUTPUTS(In)                                                                                                         \
  { copy_alpha<In, uint8_t>, copy_alpha<In, uint16_t>, copy_alpha<In, float> }
alpha_kernel *const alpha_kernels[3][3] = {OUTPUTS(uint8_t), OUTPUTS(uint16_t), OUTPUTS(float)};

void launch_alpha(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  dim3 grid(blocks_for(problem->out_width, 128, 1024), blocks_for(problem->out_height, 1, 65535),
            blocks_for((int64_t)problem->images * problem->planes, 1, 65535));
  alpha_kernels[problem->in_type][problem->out_type]<<<grid, 128, 0, (cudaStream_t)execution->stream>>>(
      common_arguments(execution));
}

/* ---- Execution ---- */

int64_t blocks_of(const gconv_problem *problem, const tile_engine *engine) {
  int64_t most = (int64_t)multiprocessors() * engine->blocks, pairs = (cut(problem, engine->size).tiles + 1) / 2;
  return pairs < most ? pairs : most;
}

/* For several filters: the spectrum of each block's tile, and what is combined of it. */
size_t workspace_bytes(const gconv_problem *problem) {
  const tile_engine *engine = choose_engine(problem);
  size_t tile = (size_t)engine->size * engine->size * sizeof(float2);
  return problem->filters == 1 ? 0 : (size_t)blocks_of(problem, engine) * tile * (gconv_is_combined(problem) ? 2 : 1);
}

/* Whether scale and offset are all there is to the epilogue. */
bool is_plain(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *epilogue = &problem->epilogue;
  bool plain = epilogue->scale_low == 0 && !epilogue->absolute && !epilogue->center && !gconv_is_combined(problem);
  for (int32_t k = 0; k < problem->filters; k++)
    plain = plain && gconv_divisors(problem, execution->host_weights)[k] == 1 &&
            gconv_biases(problem, execution->host_weights)[k] == 0;
  return plain;
}

gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const tile_engine *engine = choose_engine(problem);
  const cutting c = cut(problem, engine->size);
  const int64_t blocks = blocks_of(problem, engine), points = (int64_t)engine->size * engine->size;
  tile_arguments a = {};
  a.common = common_arguments(execution);
  a.weights = execution->weights;
  a.twists = (const float2 *)gconv_prepared(problem, execution->weights);
  a.spectra = (const float4 *)((const float *)a.twists + twist_floats(engine->radix));
  a.kept = (float4 *)execution->workspace;
  a.combined = (float2 *)execution->workspace + blocks * points;
  a.valid_y = c.valid_y;
  a.valid_x = c.valid_x;
  a.first_x = c.first_x;
  a.tiles_y = (int32_t)c.tiles_y;
  a.tiles_x = (int32_t)c.tiles_x;
  a.colours = problem->channels - problem->keep_alpha;
  a.tiles = (int32_t)c.tiles;
  a.plain = is_plain(execution);
  cudaFuncSetAttribute(engine->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)engine->shared);
  engine->kernel<<<(unsigned)blocks, engine->threads, engine->shared, (cudaStream_t)execution->stream>>>(a);
  if (problem->keep_alpha)
    launch_alpha(execution);
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

/* ---- The descriptor ---- */

const char *supports(const gconv_problem *problem) {
  if (problem->in_type == GCONV_F32 && problem->channels % 2 == 0 && !problem->keep_alpha)
    return "colours may be divided by alpha later, and it does not keep alphas of 0 at 0";
  if (problem->stride_y > 4 || problem->stride_x > 4)
    return "strides above 4: it computes all samples between";
  const tile_engine *engine = choose_engine(problem);
  if (!engine)
    return "filters that span more pixels than a tile";
  if (cut(problem, engine->size).tiles > INT32_MAX / 2)
    return "images this large";
  return NULL;
}

double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const tile_engine *engine = choose_engine(problem);
  return machine->launch_ms + problem->filters * work_of(*engine, cut(problem, engine->size)) / machine->fma_per_ms;
}

/* Each of the 2 log2 N^2 levels of butterflies adds independent errors of at most about 4 u to the root mean square of its
 * values (Higham, Accuracy and Stability, 24.1), which is max |x| at most on the way there, and (sum |tap|) * max |x| on the
 * way back; such errors add as their squares do. 16 deviations are never seen. The certain bound grows with N in place of
 * the square root of log N, and is a hundred times as large. */
double error_bound(const gconv_problem *problem) {
  const tile_engine *engine = choose_engine(problem);
  return 16 * 4 * 0x1p-24 * sqrt(4.0 * log2(engine->size) + 2);
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_fft = {
    {"fft", "cuda", "products of spectra, tile by tile, for large filters", false},
    NULL, /* available */
    supports,
    workspace_bytes,
    execute,
    cost,
    error_bound,
    prepared_floats,
    prepare,
    NULL, /* row_step */
    NULL, /* acquire */
    NULL, /* dismiss */
};

/* SPDX-License-Identifier: MIT */
/*
 * Rows of the RBF kernel by tensor cores of int8, which multiply 28 times as fast as tensor cores of float64. Sums of x y
 * are integers, made of digits (digits.cuh). They differ a little from the sums in float64 that the exact family demands;
 * nearly all values e^(-gamma d) still round to the same float32. A value too close to the midpoint of two float32 numbers
 * is unsure, and is recomputed in float64. Three kernels run one after the other:
 *
 *     multiply_digits    computes all values, stores NaN for unsure ones, and counts these for each tile
 *     mend_values        recomputes the unsure values, of tiles with up to MOST_UNSURE of them
 *     mend_tiles         recomputes all values of tiles with more than MOST_UNSURE unsure ones, as rows.cu does
 *
 * multiply_digits: a cluster of two blocks computes BLOCK_ROWS rows at TILE points per block. A warp copies digits of
 * PIECE_COLUMNS columns at a time into a ring in shared memory. Both blocks need the digits of the same rows, so each copies
 * half of them to both. Two warpgroups multiply, each 64 rows by 64 points. A value takes five int32 sums, for i + j = 2 to
 * 6, which fill all registers. While one warpgroup computes values from its sums, the other one multiplies.
 */
#include "rows.h"

#include "../core/device.cuh"
#include "../hopper/ring.cuh"
#include "digits.cuh"
#include "mend.cuh"

#include <algorithm>

namespace {

using namespace svm_digits;
using namespace svm_mend;
using svm_tiles::POWERS;

enum {
  BLOCKS = 2, /* in a cluster */
  BLOCK_ROWS = 2 * TILE,
  CONSUMERS = 256,
  BLOCK_THREADS = CONSUMERS + 128, /* with a warpgroup of producers, of which one thread copies */
  LINES = BLOCK_ROWS + TILE,
  RING = 8,
  STAGE_BYTES = 3 * PIECE,
  SHARE = 2 * PIECE / BLOCKS,           /* bytes of the rows' digits that a block copies to both */
  WEIGHTS = 5,                          /* values of i + j */
  STAGGER = 5,                          /* each item begins this many pieces after the first piece of the item before */
  FEWEST_COLUMNS = RING * PIECE_COLUMNS /* with fewer, lines of a tile might be overwritten while they are read */
};
/* If a larger part of all values is unsure, float64 is as fast. On an H200, an unsure value takes as long as 100 others, and
 * half as many are unsure as the maxima of the bounds predict. */
constexpr double MOST_OF_ALL = 1.0 / 100;
static_assert((int)BLOCK_ROWS % (BLOCKS * TILE) == 0 || (int)(BLOCKS * TILE) % BLOCK_ROWS == 0, "tiles are padded for both");

struct block_memory {
  uint8_t stages[RING][STAGE_BYTES];
  line lines[2][LINES]; /* lines of this tile and the next */
  double powers[POWERS];
  hopper::slot_barriers<RING> ring;
};

/* The arguments of multiply_digits(). */
struct work {
  const uint8_t *rows, *points; /* digits */
  const line *row_lines, *point_lines;
  uint32_t *unsure; /* counts: [tile of 64 x 64][warp] */
  double gamma, columns;
  uint32_t steps, high, items; /* high: blocks of rows; items: work items of clusters */
  size_t row_count, count, padded;
};

#ifdef HOPPER
using namespace hopper;

DEVICE uint32_t rank_in_cluster() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/* The producer, which is one thread, copies the points of its own block, and a share of the rows to both blocks. Clusters
 * begin with different columns, so that they do not read the same lines of the L2 cache at the same time. */
DEVICE void copy(const work &w, block_memory &m, uint32_t rank) {
  const uint32_t share = rank * SHARE;
  const size_t tile_bytes = (size_t)w.steps * PIECE;
  ring at;
  uint32_t number = 0;
  for (uint32_t item = blockIdx.x / BLOCKS; item < w.items; item += gridDim.x / BLOCKS, number++) {
    const size_t row = item % w.high, point = (size_t)item / w.high * BLOCKS + rank;
    const uint8_t *rows = w.rows + (2 * row + share / PIECE) * tile_bytes + share % PIECE;
    const uint8_t *points = w.points + point * tile_bytes;
    uint32_t piece = item * STAGGER % w.steps;
    for (uint32_t step = 0; step < w.steps; step++) {
      uint64_t *full = &m.ring.full[at.place];
      uint8_t *to = m.stages[at.place];
      m.ring.wait_empty(at);
      barrier_expect(full, STAGE_BYTES + (step == 0 ? sizeof *m.lines : 0));
      if (step == 0) { /* these replace the lines of the last tile but one, which all warps have used */
        bulk_copy(m.lines[number % 2], w.row_lines + row * BLOCK_ROWS, BLOCK_ROWS * sizeof(line), full);
        bulk_copy(m.lines[number % 2] + BLOCK_ROWS, w.point_lines + point * TILE, TILE * sizeof(line), full);
      }
      bulk_copy_to_all(to + share, rows + (size_t)piece * PIECE, SHARE, full, (1 << BLOCKS) - 1);
      bulk_copy(to + 2 * PIECE, points + (size_t)piece * PIECE, PIECE, full);
      at.advance(RING);
      if (++piece == w.steps)
        piece = 0;
    }
  }
}

/* Loads one digit of 16 rows and 32 columns, as the fragment that multiply_int8() takes. */
DEVICE void load_digits(uint32_t (&a)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(address)
               : "memory");
}

/* The sums of a thread, c[w] for i + j = 2 + w. multiply_int8() says which rows and points they belong to. */
struct sums {
  int32_t c[WEIGHTS][TILE / 2];

  DEVICE void clear() {
    UNROLLED_FOR (int w = 0; w < WEIGHTS; w++)
      UNROLLED_FOR (int i = 0; i < TILE / 2; i++)
        c[w][i] = 0;
  }
  /* Returns T / 256^2, as float64. A 64-bit integer is converted by its halves, each the mantissa of a float64. */
  DEVICE double at(int i) const {
    const int64_t low = (int64_t)c[4][i] + (int64_t)c[3][i] * 256 + (int64_t)c[2][i] * 65536 + (int64_t)c[1][i] * 16777216;
    const uint64_t all = (uint64_t)low + ((uint64_t)(uint32_t)c[0][i] << 32);
    const double high_half = __hiloint2double(0x45300000, (int)((uint32_t)(all >> 32) ^ 0x80000000u));
    const double low_half = __hiloint2double(0x43300000, (int)(uint32_t)all);
    return high_half - (0x1p84 + 0x1p63 + 0x1p52) + low_half;
  }
};

DEVICE void release(block_memory &m, uint32_t place) {
  __syncwarp();
  if (threadIdx.x % 32 < BLOCKS)
    barrier_arrive_there(&m.ring.empty[place], threadIdx.x % 32);
}

/* Multiplies the digits of a tile. The caller releases the stage of the last columns, `last`. */
DEVICE void multiply(const work &w, block_memory &m, ring &at, sums &own, uint32_t &last) {
  const uint32_t group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const uint32_t base = shared_address(m.stages);
  const uint32_t from = base + group * PIECE + (warp * 16 + lane % 16) * UNIT + lane / 16 * UNIT_BYTES;
  /* A descriptor of wgmma, in units of 16 bytes: bits 0 .. 15 the address, 16 .. 31 the distance of 16 columns; `far`, bits
   * 32 and up, the distance of 8 lines. */
  const uint32_t points = ((base + 2 * PIECE) & 0x3ffff) >> 4 | (UNIT_BYTES >> 4) << 16;
  const uint64_t far = (uint64_t)(8 * UNIT >> 4) << 32;
  uint32_t a[2][DIGITS][4];
  auto add = [&](int half, uint32_t step) {
    m.ring.wait_full(at);
    UNROLLED_FOR (int i = 0; i < DIGITS; i++)
      load_digits(a[half][i], from + at.place * STAGE_BYTES + 2 * i * UNIT_BYTES);
    const uint32_t digits = points + at.place * (STAGE_BYTES >> 4);
    multiply_begin();
    UNROLLED_FOR (int weight = 0; weight < WEIGHTS; weight++)
      UNROLLED_FOR (int i = 0; i < DIGITS; i++)
        if (weight - i >= 0 && weight - i < DIGITS)
          multiply_int8(own.c[weight], a[half][i], far | (digits + (2 * (weight - i) * UNIT_BYTES >> 4)));
    multiply_commit();
    multiply_wait<1>(); /* the multiplication before this one is done */
    if (step > 0)
      release(m, last);
    last = at.place;
    at.advance(RING);
  };
  for (uint32_t step = 0; step < w.steps; step += 2) { /* w.steps is even: an odd last step would take too many registers */
    add(0, step);
    add(1, step + 1);
  }
  multiply_wait<0>();
}

/* Returns the maxima of the bounds of a tile's points. */
DEVICE bounds largest_of(const line *points) {
  bounds most = points[threadIdx.x % 32].most;
  const bounds other = points[threadIdx.x % 32 + 32].most;
  UNROLLED_FOR (int i = 0; i < (int)(sizeof most / sizeof(float)); i++) {
    float &value = ((float *)&most)[i];
    value = fmaxf(value, ((const float *)&other)[i]);
    UNROLLED_FOR (int by = 16; by > 0; by /= 2)
      value = fmaxf(value, __shfl_xor_sync(~0u, value, by));
  }
  return most;
}

/* Computes values from sums, and stores them. */
DEVICE void store(const work &w, const block_memory &m, const line *lines, const sums &own, size_t first_row,
                  size_t first_point) {
  enum { SOME = 4 }; /* pairs at a time, so that operations overlap */
  const uint32_t group = threadIdx.x / 128, lane = threadIdx.x % 32, high = (uint32_t)((w.row_count + TILE - 1) / TILE);
  const line *points = lines + BLOCK_ROWS;
  const bounds most = largest_of(points);
  const double scale = svm_tiles::quick_scale(w.gamma);
  uint32_t unsure = 0;
  UNROLLED_FOR (int h = 0; h < 2; h++) {
    const uint32_t row = threadIdx.x / 32 * 16 + lane / 4 + 8 * h;
    if (first_row + row >= w.row_count)
      continue;
    const double norm = lines[row].norm, factor = lines[row].scale * -131072;
    const double reach = w.gamma * largest_difference(lines[row].most, most, w.columns);
    const bool near = reach < 0x1p-27, far = !(reach < 0.5); /* NaN is far */
    const uint32_t margin = near ? svm_tiles::MARGIN + 1 + (uint32_t)(reach * 0x1.01p53) : (uint32_t)svm_tiles::MIDDLE;
    float *to = lines[row].to + first_point + lane % 4 * 2;
    UNROLLED_FOR (int j = 0; j < TILE / 8; j += SOME) {
      float values[SOME][2];
      UNROLLED_FOR (int e = 0; e < SOME; e++)
        UNROLLED_FOR (int l = 0; l < 2; l++) {
          const uint32_t at = 8 * (j + e) + lane % 4 * 2 + l;
          const double difference = fma(own.at(4 * (j + e) + 2 * h + l) * factor, points[at].scale, points[at].norm + norm);
          bool doubt;
          const float value =
              svm_tiles::quick_exponential(difference > 0.0 ? difference : 0.0, scale, m.powers, margin, doubt);
          const bool there = first_point + at < w.count;
          doubt = (doubt || far) && there;
          unsure += doubt;
          values[e][l] = doubt ? __int_as_float(0x7fffffff) : there ? value : 0.0f;
        }
      UNROLLED_FOR (int e = 0; e < SOME; e++)
        if (first_point + 8 * (j + e) < w.padded)
          *(float2 *)(to + 8 * (j + e)) = make_float2(values[e][0], values[e][1]);
    }
  }
  unsure = __reduce_add_sync(~0u, unsure);
  if (lane == 0 && first_row / TILE + group < high && first_point < w.padded)
    w.unsure[(first_point / TILE * high + first_row / TILE + group) * 4 + threadIdx.x / 32 % 4] = unsure;
}

DEVICE void make_values(const work &w, block_memory &m, uint32_t rank) {
  ring at;
  uint32_t number = 0, last = 0;
  sums own;
  for (uint32_t item = blockIdx.x / BLOCKS; item < w.items; item += gridDim.x / BLOCKS, number++) {
    own.clear();
    multiply(w, m, at, own, last);
    release(m, last);
    store(w, m, m.lines[number % 2], own, (size_t)(item % w.high) * BLOCK_ROWS,
          ((size_t)item / w.high * BLOCKS + rank) * TILE);
  }
}
#endif

__global__ void __launch_bounds__(BLOCK_THREADS, 1) multiply_digits(work w) {
#ifdef HOPPER
  extern __shared__ __align__(128) uint8_t bytes[];
  block_memory &m = *(block_memory *)bytes;
  const uint32_t rank = rank_in_cluster();
  if (threadIdx.x < POWERS)
    m.powers[threadIdx.x] = svm_tiles::power_of(threadIdx.x);
  if (threadIdx.x == 0) {
    m.ring.begin(RING, 1, BLOCKS * CONSUMERS / 32);
    barrier_init_done();
  }
  cluster_wait();
  if (threadIdx.x < CONSUMERS) {
    registers_up<232>();
    make_values(w, m, rank);
  } else {
    registers_down<40>();
    if (threadIdx.x == CONSUMERS)
      copy(w, m, rank);
    __syncwarp();
  }
  cluster_wait(); /* the other block still copies to this one, and arrives at its barriers */
#endif
}

/* ---- Host ---- */

/* The layout of the memory of digits. Points and rows are padded to the tiles that a cluster needs. */
struct layout {
  size_t points, rows, steps;                                            /* padded lines; pieces of a line, an even number */
  size_t point_digits, row_digits, point_lines, row_lines, unsure, most; /* offsets */
  size_t bytes;

  layout(size_t count, size_t most_rows, size_t pitch) {
    const size_t together = std::max<size_t>(BLOCK_ROWS, (size_t)BLOCKS * TILE);
    points = (count + together - 1) / together * together;
    rows = (most_rows + together - 1) / together * together;
    steps = (pitch + 2 * PIECE_COLUMNS - 1) / (2 * PIECE_COLUMNS) * 2;
    point_digits = 0;
    row_digits = point_digits + points * steps * (PIECE / TILE);
    point_lines = row_digits + rows * steps * (PIECE / TILE);
    row_lines = point_lines + points * sizeof(line);
    unsure = row_lines + rows * sizeof(line);
    most = unsure + points / TILE * (rows / TILE) * 4 * sizeof(uint32_t);
    bytes = most + sizeof(bounds);
  }
};

/* Raises the limit of a kernel's dynamic shared memory on the current device. */
template <auto KERNEL> bool allow(int bytes) {
  return cudaFuncSetAttribute(KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess;
}

/* Returns the configuration of multiply_digits() for one cluster. It points to *cluster. */
cudaLaunchConfig_t find_launch(cudaLaunchAttribute *cluster) {
  cudaLaunchConfig_t config = {};
  cluster->id = cudaLaunchAttributeClusterDimension;
  cluster->val.clusterDim = {BLOCKS, 1, 1};
  config.gridDim = dim3(BLOCKS);
  config.blockDim = dim3(BLOCK_THREADS);
  config.dynamicSmemBytes = sizeof(block_memory);
  config.attrs = cluster;
  config.numAttrs = 1;
  return config;
}

void start_multiplication(const work &w, int clusters, cudaStream_t stream) {
  cudaLaunchAttribute cluster = {};
  cudaLaunchConfig_t config = find_launch(&cluster);
  config.gridDim = dim3((unsigned)std::min<size_t>(w.items, (size_t)clusters) * BLOCKS);
  config.stream = stream;
  cudaLaunchKernelEx(&config, multiply_digits, w);
}

void cut(const gconv_svm_gpu_cases *cases, const uint32_t *numbers, size_t count, size_t lines, const layout &at,
         uint8_t *digits, void *made, float *const *to, bounds *most, cudaStream_t stream) {
  cut_lines<<<(unsigned)(lines / CUT_LINES), CUT_THREADS, 0, stream>>>(*cases, numbers, count, (uint32_t)at.steps, digits,
                                                                       (line *)made, to, most);
}

} // namespace

size_t gconv_svm_gpu_digits_bytes(size_t count, size_t most_rows, size_t columns) {
  cudaFuncAttributes kernel;
  const bool may =
      capability() == 9 && cudaFuncGetAttributes(&kernel, multiply_digits) == cudaSuccess && kernel.binaryVersion == 90;
  return may && columns >= FEWEST_COLUMNS && columns <= MOST_COLUMNS ? layout(count, most_rows, columns).bytes : 0;
}

/* Measured on an H200: a row saves 1.1e-14 s for each point and column, a row of padding costs 2.5 times that, and the other
 * kernels take 40 us. */
bool gconv_svm_gpu_digits_pay(size_t rows, size_t count, size_t columns) {
  const double padded = (double)((rows + BLOCK_ROWS - 1) / BLOCK_ROWS * BLOCK_ROWS);
  return ((double)rows - 2.5 * (padded - (double)rows)) * (double)count * (double)columns > 4e9;
}

cudaError_t gconv_svm_gpu_digits_make(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *cases,
                                      const uint32_t *members, size_t count, size_t most_rows, void *memory,
                                      cudaStream_t stream, gconv_svm_gpu_digits *digits) {
  const layout at(count, most_rows, cases->pitch);
  uint8_t *const bytes = (uint8_t *)memory;
  bounds most = {};
  cudaLaunchAttribute cluster = {};
  *digits = {bytes, count, most_rows, 0, false};
  cudaMemsetAsync(bytes + at.most, 0, sizeof most, stream);
  cut(cases, members, count, at.points, at, bytes + at.point_digits, bytes + at.point_lines, NULL,
      (bounds *)(bytes + at.most), stream);
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess)
    error = cudaMemcpyAsync(&most, bytes + at.most, sizeof most, cudaMemcpyDeviceToHost, stream);
  if (error == cudaSuccess)
    error = cudaStreamSynchronize(stream);
  if (error != cudaSuccess)
    return error;
  const cudaLaunchConfig_t config = find_launch(&cluster);
  if (!allow<multiply_digits>(sizeof(block_memory)) || !allow<mend_tiles>(svm_tiles::RING_BYTES) ||
      cudaOccupancyMaxActiveClusters(&digits->clusters, multiply_digits, &config) != cudaSuccess || digits->clusters == 0) {
    cudaGetLastError(); /* this device cannot run the kernels: digits->serve stays false */
    return cudaSuccess;
  }
  /* Two neighbouring float32 numbers have 2^29 float64 numbers between them. Up to 2^53 gamma D of these on either side of
   * the midpoint are unsure. */
  const double unsure = formula->gamma * largest_difference(most, most, (double)cases->pitch) * 0x1p25;
  digits->serve = formula->form == GCONV_SVM_FORM_EXP && !formula->direct && formula->gamma > 0 && unsure < MOST_OF_ALL;
  return cudaSuccess;
}

void gconv_svm_gpu_rows_by_digits(const gconv_svm_formula *formula, const gconv_svm_gpu_cases *cases, const uint32_t *wanted,
                                  float *const *rows, size_t row_count, const uint32_t *members,
                                  const gconv_svm_gpu_digits *digits, cudaStream_t stream) {
  const size_t count = digits->count;
  const layout at(count, digits->most_rows, cases->pitch);
  uint8_t *const bytes = (uint8_t *)digits->memory;
  const size_t row_blocks = (row_count + BLOCK_ROWS - 1) / BLOCK_ROWS, high = (row_count + TILE - 1) / TILE;
  const size_t padded = gconv_svm_padded(count), tiles = high * ((padded + TILE - 1) / TILE);
  uint32_t *const unsure = (uint32_t *)(bytes + at.unsure);
  const work w = {bytes + at.row_digits,
                  bytes + at.point_digits,
                  (const line *)(bytes + at.row_lines),
                  (const line *)(bytes + at.point_lines),
                  unsure,
                  formula->gamma,
                  (double)cases->pitch,
                  (uint32_t)at.steps,
                  (uint32_t)row_blocks,
                  (uint32_t)(row_blocks * (at.points / (BLOCKS * TILE))),
                  row_count,
                  count,
                  padded};
  cut(cases, wanted, row_count, row_blocks * BLOCK_ROWS, at, bytes + at.row_digits, bytes + at.row_lines, rows, NULL,
      stream);
  start_multiplication(w, digits->clusters, stream);
  mend_values<<<(unsigned)tiles, MEND_THREADS, 0, stream>>>(*formula, (uint32_t)high, unsure, *cases, wanted, rows,
                                                            row_count, members, count);
  mend_tiles<<<(unsigned)tiles, svm_tiles::THREADS, svm_tiles::RING_BYTES, stream>>>(
      *formula, (uint32_t)high, unsure, *cases, wanted, rows, row_count, members, count, padded);
}

/* SPDX-License-Identifier: MIT */
/* A tile of the input in shared memory: what tiled and sparse have in common. */
#ifndef GCONV_CUDA_TILE_CUH
#define GCONV_CUDA_TILE_CUH

#include "common.cuh"
#include "conv/cuda_error.h"

#include <cuda_pipeline_primitives.h>

namespace {

/* ---- The tile ---- */

/* A tile row is dealt to `piles` like cards: sample t of the row goes to pile t % piles, as number t / piles. With as many
 * piles as lie between neighbouring taps (channels x dilation), the samples that the taps of an output meet lie side by
 * side, however the image has them. */
enum { LANES = 32 };

struct tile_shape {
  int32_t rows, samples;    /* of input in the tile; samples of a row, whatever their channels */
  int32_t piles, pile;      /* piles of a row, floats of each */
  int32_t pitch;            /* floats from a tile row to the next: an odd number of fours, so that the 8 lanes that are */
                            /*   served at a time, which read the same fours of 8 rows, find them in different banks */
  int32_t out_rows, across; /* of output; samples of a row */
  int32_t bytes;            /* of the tile */
};

/* Stores an element of a row as a level, without waiting for it if it is one (an asynchronous copy from sm_80 on). */
__device__ __forceinline__ void copy_sample(float *to, const float *from) {
  __pipeline_memcpy_async(to, from, sizeof(float));
}
__device__ __forceinline__ float level_of(uint8_t sample) {
  return level_of_bits(0x4b000000u | sample);
}
__device__ __forceinline__ float level_of(uint16_t sample) {
  return level_of_bits(0x4b000000u | sample);
}

/* A thread's walk along a row, sample `lane`, lane + 32, lane + 64 ..., as places among piles: what the division of the
 * sample by their number would say, without dividing each time. */
struct dealer {
  int piles, card, number, next_card, next_number;

  __device__ __forceinline__ dealer(int lane, int count)
      : piles(count), card(lane % count), number(lane / count), next_card(LANES % count), next_number(LANES / count) {}
  __device__ __forceinline__ void next() {
    card += next_card;
    number += next_number + (card >= piles);
    card -= card >= piles ? piles : 0;
  }
};

/* A thread's part of a tile row whose samples `from`, `from` + 1 ... all lie in the image. Integers are loaded several at a
 * time, so that their latencies overlap. */
template <bool DEALT>
__device__ __forceinline__ void fill_inside(const tile_shape &shape, const float *from, int lane, dealer at, float *to) {
#pragma unroll 5
  for (int t = lane; t < shape.samples; t += LANES) {
    copy_sample(to + (DEALT ? at.card * shape.pile + at.number : t), from + t);
    if (DEALT)
      at.next();
  }
}

template <bool DEALT, class In>
__device__ __forceinline__ void fill_inside(const tile_shape &shape, const In *from, int lane, dealer at, float *to) {
  constexpr int AT_ONCE = 5; /* the samples of most tiles, 128 and a halo of 32 */
  for (int first = lane; first < shape.samples; first += AT_ONCE * LANES) {
    In samples[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
      if (first + i * LANES < shape.samples)
        samples[i] = from[first + i * LANES];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      if (first + i * LANES < shape.samples)
        to[DEALT ? at.card * shape.pile + at.number : first + i * LANES] = level_of(samples[i]);
      if (DEALT)
        at.next();
    }
  }
}

/* The same for any row, NULL if it lies outside; `left` is the pixel of the row that goes first. */
template <class In>
__device__ __forceinline__ void fill_at_border(const gconv_problem &problem, const tile_shape &shape, const In *row,
                                               int64_t left, int lane, dealer at, float *to) {
  dealer pixel(lane, problem.channels);
  for (int t = lane; t < shape.samples; t += LANES) {
    int64_t x = row ? gconv_border_index(problem.border, left + pixel.number, problem.width) : GCONV_OUTSIDE;
    to[at.card * shape.pile + at.number] =
        x == GCONV_OUTSIDE ? problem.border_level : (float)row[x * problem.channels + pixel.card];
    at.next();
    pixel.next();
  }
}

/* Fills the tile whose first pixel is number `left` of input row `top` of a plane, either of which may be outside. A warp
 * takes a row at a time; threads that do not fill a warp help not. */
template <class In>
__device__ __forceinline__ void fill_tile(const arguments &a, const tile_shape &shape, const uint8_t *plane, int64_t top,
                                          int64_t left, float *tile) {
  const gconv_problem &problem = a.problem;
  const int id = threadIdx.y * blockDim.x + threadIdx.x, lane = id % LANES, warps = blockDim.x * blockDim.y / LANES;
  const int64_t first = left * problem.channels;
  const bool inside = first >= 0 && first + shape.samples <= (int64_t)problem.width * problem.channels;
  const dealer at(lane, shape.piles);
  for (int row = id / LANES; row < shape.rows && id / LANES < warps; row += warps) {
    int64_t y = gconv_border_index(problem.border, top + row, problem.height);
    const In *from = y == GCONV_OUTSIDE ? nullptr : (const In *)(plane + y * a.in_row);
    float *to = tile + row * shape.pitch;
    if (!inside || !from)
      fill_at_border(problem, shape, from, left, lane, at, to);
    else if (shape.piles == 1)
      fill_inside<false>(shape, from + first, lane, at, to);
    else
      fill_inside<true>(shape, from + first, lane, at, to);
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
}

/* ---- From sums to values ---- */

/* Takes the sums of filter number `filter` of `filters` that are combined, or not: values become what is to be stored, if
 * they are the last; whether they are. All conditions are the same for all values, and most epilogues are plain: so each is
 * asked once, not for every value. */
template <int N>
__device__ __forceinline__ bool take_sums(const gconv_problem &problem, const float *weights, int filter, int filters,
                                          float (&sums)[N], float (&values)[N]) {
  const gconv_epilogue &epilogue = problem.epilogue;
  const float divisor = gconv_divisors(&problem, weights)[filter], bias = gconv_biases(&problem, weights)[filter];
  if (divisor != 1.0f || bias != 0.0f)
#pragma unroll
    for (int i = 0; i < N; i++)
      sums[i] = gconv_response(sums[i], divisor, bias);
  if (!gconv_is_combined(&problem)) {
#pragma unroll
    for (int i = 0; i < N; i++)
      values[i] = sums[i];
  } else {
#pragma unroll
    for (int i = 0; i < N; i++)
      values[i] = filter == 0 ? gconv_combine_first(epilogue.combine, sums[i])
                              : gconv_combine_next(epilogue.combine, values[i], sums[i]);
    if (filter + 1 < filters)
      return false;
#pragma unroll
    for (int i = 0; i < N; i++)
      values[i] = gconv_combine_last(epilogue.combine, values[i]);
  }
  if (epilogue.scale_low == 0.0f && !epilogue.absolute && !epilogue.center)
#pragma unroll
    for (int i = 0; i < N; i++)
      values[i] = fmaf(values[i], epilogue.scale, epilogue.offset); /* gconv_finish() of a plain one */
  else
#pragma unroll
    for (int i = 0; i < N; i++)
      values[i] = gconv_finish(values[i], &epilogue);
  return true;
}

/* ---- Launching ---- */

/* Shared memory that a block may have. */
inline int64_t shared_bytes(void) {
  int device = 0, bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
    cudaGetLastError();
  return bytes > 0 ? bytes : 48 << 10;
}

/* A tile for out_rows x across output samples that are dealt to `piles`, in piles of `pile` floats that are filled with
 * `samples` samples in all; false if that exceeds `most` bytes. */
inline bool lay_out(const gconv_problem *problem, int32_t out_rows, int64_t across, int64_t piles, int64_t pile,
                    int64_t samples, int64_t most, tile_shape *shape) {
  int64_t rows = (int64_t)(out_rows - 1) * problem->stride_y + (int64_t)(problem->rows - 1) * problem->dilation_y + 1;
  if (samples > most || pile > most || rows > most)
    return false;
  int64_t pitch = ((pile * piles + 3) / 4 | 1) * 4, bytes = rows * pitch * (int64_t)sizeof(float);
  if (bytes > most)
    return false;
  *shape = {(int32_t)rows,  (int32_t)samples, (int32_t)piles,  (int32_t)pile,
            (int32_t)pitch, out_rows,         (int32_t)across, (int32_t)bytes};
  return true;
}

/* A tile whose rows are as those of the image, for any stride and dilation: `across` outputs of a row, whatever their
 * channels. */
inline bool lay_out_plainly(const gconv_problem *problem, int32_t out_rows, int32_t across, int64_t most,
                            tile_shape *shape) {
  int32_t channels = problem->channels;
  int64_t pixels = (across + 2 * channels - 3) / channels; /* from the pixel of the first sample to that of the last */
  int64_t reach = pixels * problem->stride_x + (int64_t)(problem->columns - 1) * problem->dilation_x + 1;
  return lay_out(problem, out_rows, across, 1, reach * channels, reach * channels, most, shape);
}

inline dim3 grid_for(const gconv_problem *problem, const tile_shape *shape) {
  return dim3(blocks_for((int64_t)problem->out_width * problem->channels, shape->across, INT32_MAX),
              blocks_for(problem->out_height, shape->out_rows, 65535),
              blocks_for((int64_t)problem->images * problem->planes, 1, 65535));
}

template <class Kernel> gconv_status allow_shared(Kernel *kernel, int64_t bytes) {
  if (bytes > 48 << 10)
    CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
  return GCONV_OK;
}

} // namespace

#endif

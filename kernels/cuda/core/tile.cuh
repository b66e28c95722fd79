/* SPDX-License-Identifier: MIT */
/* A tile of the input in shared memory. The kernels of tiled and sparse use it. */
#pragma once

#include "copies.cuh"
#include "launch.cuh"
#include "store.cuh"

namespace {

/* The shape of a tile. Each tile row is divided into `piles`, as cards are dealt: sample t goes to pile t % piles, as number
 * t / piles. The number of piles is the distance of neighbouring taps in samples (channels x dilation). So the samples under
 * the taps of one output are contiguous, for any layout of the image. */
struct tile_shape {
  int32_t rows, samples;    /* input rows of the tile, and samples of a row of all channels */
  int32_t piles, pile;      /* piles of a row, and floats of each pile */
  int32_t pitch;            /* floats from one tile row to the next: an odd multiple of 4. 8 lanes are served at a time, */
                            /* and read the same columns of 8 rows: these lie in different banks */
  int32_t out_rows, across; /* output rows of the tile, and output samples of a row */
  int32_t bytes;            /* size of the tile in shared memory */
};

/* A tile is filled in blocks of columns, each AT_ONCE warps wide. That is enough for the whole row of most tiles: 128
 * samples and a halo of 32. A warp fills one row at a time, and each of its threads fills AT_ONCE samples of this row. */
enum { AT_ONCE = 5 };

/* The part of a thread in filling: its warp, the number of warps, and its lane. Each warp fills rows from row `warp` on.
 * The threads of a last, incomplete warp begin after the last row, and so do nothing. */
struct filler {
  int warp, warps, lane;
};

DEVICE filler filler_of(const tile_shape &shape) {
  const int id = threadIdx.y * blockDim.x + threadIdx.x, warps = blockDim.x * blockDim.y / LANES;
  return {id / LANES < warps ? id / LANES : shape.rows, warps, id % LANES};
}

/* Returns the place of sample t within its tile row. */
DEVICE int place_in_row(const tile_shape &shape, int t) {
  return t % shape.piles * shape.pile + t / shape.piles;
}

/* Fills the samples from `begin` on of each row, for a tile that lies inside the image. `from` is the tile's first sample.
 * Floats are copied asynchronously (from sm_80 on). Integers are all loaded before the first is stored, so that their
 * latencies overlap. DEALT: there is more than one pile. */
template <bool DEALT, class In>
DEVICE void fill_inside(const tile_shape &shape, const uint8_t *from, int64_t in_row, int begin, const filler &mine,
                        float *tile) {
  const int first = begin + mine.lane,
            left = shape.samples - first; /* sample i * LANES exists if that is less than `left` */
  int places[AT_ONCE];
  UNROLLED_FOR (int i = 0; i < AT_ONCE; i++)
    places[i] = DEALT ? place_in_row(shape, first + i * LANES) : i * LANES;
  float *to = tile + mine.warp * shape.pitch + (DEALT ? 0 : first);
  const In *row = (const In *)(from + mine.warp * in_row) + first;
  const int64_t next = mine.warps * in_row;
  for (int y = mine.warp; y < shape.rows; y += mine.warps) {
    In samples[AT_ONCE];
    UNROLLED_FOR (int i = 0; i < AT_ONCE; i++)
      if (i * LANES < left && sizeof(In) == sizeof(float))
        copy_async<sizeof(float)>(to + places[i], row + i * LANES);
      else if (i * LANES < left)
        samples[i] = row[i * LANES];
    UNROLLED_FOR (int i = 0; i < AT_ONCE; i++)
      if (i * LANES < left && sizeof(In) < sizeof(float))
        to[places[i]] = level_of(samples[i]);
    row = (const In *)((const uint8_t *)row + next);
    to += mine.warps * shape.pitch;
  }
}

/* fill_inside() for a tile that may lie partly or wholly outside the image. Its first sample is at row `top` and pixel
 * `left` of the plane. */
template <class In>
DEVICE void fill_anywhere(const arguments &a, const tile_shape &shape, const uint8_t *plane, int64_t top, int64_t left,
                          int begin, const filler &mine, float *tile) {
  const gconv_problem &problem = a.problem;
  int places[AT_ONCE];
  int64_t sources[AT_ONCE]; /* the thread's samples, counted along the image row */
  UNROLLED_FOR (int i = 0; i < AT_ONCE; i++) {
    int t = begin + mine.lane + i * LANES, pixel = t / problem.channels;
    int64_t x = gconv_border_index(problem.border, left + pixel, problem.width);
    places[i] = place_in_row(shape, t);
    sources[i] = x == GCONV_OUTSIDE ? GCONV_OUTSIDE : x * problem.channels + t - pixel * problem.channels;
  }
  for (int row = mine.warp; row < shape.rows; row += mine.warps) {
    int64_t y = gconv_border_index(problem.border, top + row, problem.height);
    const In *from = (const In *)(plane + (y == GCONV_OUTSIDE ? 0 : y) * a.in_row);
    UNROLLED_FOR (int i = 0; i < AT_ONCE; i++) {
      bool outside = y == GCONV_OUTSIDE || sources[i] == GCONV_OUTSIDE;
      if (begin + mine.lane + i * LANES < shape.samples)
        tile[row * shape.pitch + places[i]] = outside ? problem.border_level : level_of(from[sources[i]]);
    }
  }
}

/* Fills a tile. Its first sample is at row `top` and pixel `left` of a plane; both may be outside. */
template <class In>
DEVICE void fill_tile(const arguments &a, const tile_shape &shape, const uint8_t *plane, int64_t top, int64_t left,
                      float *tile) {
  const gconv_problem &problem = a.problem;
  const filler mine = filler_of(shape);
  const int64_t first = left * problem.channels;
  const bool inside = first >= 0 && first + shape.samples <= (int64_t)problem.width * problem.channels && top >= 0 &&
                      top + shape.rows <= problem.height;
  const uint8_t *from = plane + top * a.in_row + first * (int64_t)sizeof(In);
  for (int begin = 0; begin < shape.samples; begin += AT_ONCE * LANES)
    if (!inside)
      fill_anywhere<In>(a, shape, plane, top, left, begin, mine, tile);
    else if (shape.piles == 1)
      fill_inside<false, In>(shape, from, a.in_row, begin, mine, tile);
    else
      fill_inside<true, In>(shape, from, a.in_row, begin, mine, tile);
  commit_copies();
  await_copies<0>();
  __syncthreads();
}

/* ---- From sums to values ---- */

/* Finishes the sums of filter number `filter`. If filters are combined, it only collects them until the last one. Returns
 * whether `values` are ready to be stored. The conditions are the same for all values, so each is tested only once. */
template <int N>
DEVICE bool take_sums(const gconv_problem &problem, const float *weights, int filter, int filters, float (&sums)[N],
                      float (&values)[N]) {
  const gconv_epilogue &epilogue = problem.epilogue;
  const float divisor = gconv_divisors(&problem, weights)[filter], bias = gconv_biases(&problem, weights)[filter];
  if (divisor != 1.0f || bias != 0.0f)
    UNROLLED_FOR (int i = 0; i < N; i++)
      sums[i] = gconv_response(sums[i], divisor, bias);
  if (!gconv_is_combined(&problem)) {
    UNROLLED_FOR (int i = 0; i < N; i++)
      values[i] = sums[i];
  } else {
    UNROLLED_FOR (int i = 0; i < N; i++)
      values[i] = filter == 0 ? gconv_combine_first(epilogue.combine, sums[i])
                              : gconv_combine_next(epilogue.combine, values[i], sums[i]);
    if (filter + 1 < filters)
      return false;
    UNROLLED_FOR (int i = 0; i < N; i++)
      values[i] = gconv_combine_last(epilogue.combine, values[i]);
  }
  /* This is gconv_is_plain(), written out: a call would change the machine code of tiled and sparse. */
  if (epilogue.scale_low == 0.0f && !epilogue.absolute && !epilogue.center)
    UNROLLED_FOR (int i = 0; i < N; i++)
      values[i] = fmaf(values[i], epilogue.scale, epilogue.offset);
  else
    UNROLLED_FOR (int i = 0; i < N; i++)
      values[i] = gconv_finish(values[i], &epilogue);
  return true;
}

/* ---- Launching ---- */

/* Shapes a tile for out_rows x across output samples. It has `piles` piles of `pile` floats, and `samples` samples of a row
 * are filled. Returns false if the tile is larger than `most` bytes. */
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

/* Shapes a tile whose rows are like those of the image, for any stride and dilation. `across` is the number of output
 * samples of a row, of all channels. */
inline bool lay_out_plainly(const gconv_problem *problem, int32_t out_rows, int32_t across, int64_t most,
                            tile_shape *shape) {
  int32_t channels = problem->channels;
  int64_t pixels = (across + 2 * channels - 3) / channels; /* pixels between the first sample and the last */
  int64_t reach = pixels * problem->stride_x + (int64_t)(problem->columns - 1) * problem->dilation_x + 1;
  return lay_out(problem, out_rows, across, 1, reach * channels, reach * channels, most, shape);
}

inline dim3 grid_for(const gconv_problem *problem, const tile_shape *shape) {
  return hinted_grid(problem, dim3(blocks_for((int64_t)problem->out_width * problem->channels, shape->across, INT32_MAX),
                                   blocks_for(problem->out_height, shape->out_rows, 65535),
                                   blocks_for((int64_t)problem->images * problem->planes, 1, 65535)));
}

} // namespace

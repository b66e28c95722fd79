/* SPDX-License-Identifier: MIT */
/* fft: from the image to the points of tiles, and back. */
#pragma once

#include "../core/launch.cuh"
#include "../core/store.cuh"

namespace {

/* How all samples are cut into tiles. Two tiles share points: a sample of one is the real part of a point, a sample of the
 * other its imaginary part. Taps are real, so h * (a + ib) = h * a + i (h * b): the tiles do not mix, except by rounding. */
struct cutting {
  int32_t height, width;    /* height and width of a tile, in points */
  int32_t valid_y, valid_x; /* rows and columns of a tile that are stored, before striding */
  int32_t first_x;          /* the first column that is stored */
  int32_t tiles_y, tiles_x; /* tiles of a channel, in both directions */
  int32_t tiles, pairs;     /* tiles and pairs of all images, planes and channels */
};

struct tiling : arguments, cutting {
  const float *weights;
  int32_t colours; /* channels that are filtered, all but alpha that is kept */
  bool plain;      /* the epilogue is only scale and offset */
};

/* A tile: where its samples are in the input and in the output. */
struct real_tile {
  const uint8_t *in; /* the plane, from the first sample of the tile's channel on */
  uint8_t *out;      /* the output's plane, from the first sample of this channel on */
  int32_t top, left; /* place of its first point in the image */
  int32_t p, q;      /* its first output pixel */
};

/* A last tile without a partner is paired with itself. */
struct tile_pair {
  real_tile first, second;
  bool two;
};

__device__ inline real_tile locate_tile(const tiling &t, int index) {
  const gconv_problem &problem = t.problem;
  int rest = index / t.colours, colour = index - rest * t.colours;
  int plane = rest / (t.tiles_y * t.tiles_x);
  rest -= plane * (t.tiles_y * t.tiles_x);
  int row = rest / t.tiles_x, column = rest - row * t.tiles_x, image = plane / problem.planes;
  plane -= image * problem.planes;
  int bytes = sample_bytes(problem.in_type);
  real_tile tile;
  tile.in = t.in + image * t.in_image + plane * t.in_plane + colour * bytes;
  tile.out = t.out + image * t.out_image + plane * t.out_plane + colour * t.out_channel;
  tile.top = row * t.valid_y - problem.pad_top;
  tile.left = column * t.valid_x - problem.pad_left - t.first_x;
  tile.p = row * (t.valid_y / problem.stride_y);
  tile.q = column * (t.valid_x / problem.stride_x);
  return tile;
}

/* Two threads of the block find the places of the tiles of a pair, and put them into shared memory. If all threads found
 * them, this would take a tenth of their time. Does nothing after the last pair. */
DEVICE void locate_pair(const tiling &t, int pair, tile_pair *shared) {
  const int half = threadIdx.x;
  if (half > 1 || 2 * pair >= t.tiles)
    return;
  const bool two = 2 * pair + 1 < t.tiles;
  real_tile *tile = half == 0 ? &shared->first : &shared->second;
  *tile = locate_tile(t, 2 * pair + (two ? half : 0));
  if (half == 0)
    shared->two = two;
}

/* ---- From memory to points ---- */

template <class In> DEVICE float level_at(const In *sample) {
  return level_of(__ldg(sample));
}

/* Returns whether `rows` rows of both tiles, from row y on, and `columns` columns lie inside the image. */
DEVICE bool lie_inside(const gconv_problem &problem, const tile_pair &pair, int y, int rows, int columns) {
  const int top = pair.first.top + y, other = pair.second.top + y, left = pair.first.left, other_left = pair.second.left;
  return min(min(top, other), min(left, other_left)) >= 0 && max(top, other) + rows <= problem.height &&
         max(left, other_left) + columns <= problem.width;
}

/* Loads N points that are STEP pixels of `channels` samples apart, from `first` and `second` on. */
template <class In, int STEP, int N>
DEVICE void load_points(const In *first, const In *second, int channels, float2 (&points)[N]) {
  UNROLLED_FOR (int i = 0; i < N; i++)
    points[i] = make_float2(level_at(first + i * STEP * channels), level_at(second + i * STEP * channels));
}

/* Loads the points of columns x, x + STEP .. of row y, for two tiles that lie inside the image there. */
template <class In, int STEP, int N>
DEVICE void load_inside(const arguments &a, const tile_pair &pair, int y, int x, float2 (&points)[N]) {
  const int channels = a.problem.channels, left = pair.first.left + x, other_left = pair.second.left + x;
  const In *first = (const In *)(pair.first.in + (pair.first.top + y) * a.in_row) + (int64_t)left * channels;
  const In *second = (const In *)(pair.second.in + (pair.second.top + y) * a.in_row) + (int64_t)other_left * channels;
  if (channels == 1) /* with constant distances, the loop is faster */
    load_points<In, STEP>(first, second, 1, points);
  else
    load_points<In, STEP>(first, second, channels, points);
}

/* ---- From points to memory ---- */

/* Turns sums of filter k into finished values. If filters are combined and more follow, it keeps the combined values at
 * before[i * step]. */
template <int N> DEVICE void finish_points(const tiling &t, int k, float2 *before, int step, float2 (&points)[N]) {
  const gconv_problem &problem = t.problem;
  const gconv_epilogue &epilogue = problem.epilogue;
  if (t.plain) {
    UNROLLED_FOR (int i = 0; i < N; i++)
      points[i] = make_float2(fmaf(points[i].x, epilogue.scale, epilogue.offset),
                              fmaf(points[i].y, epilogue.scale, epilogue.offset));
    return;
  }
  const float divisor = gconv_divisors(&problem, t.weights)[k], bias = gconv_biases(&problem, t.weights)[k];
  const bool combined = gconv_is_combined(&problem);
  UNROLLED_FOR (int i = 0; i < N; i++) {
    float2 value = make_float2(gconv_response(points[i].x, divisor, bias), gconv_response(points[i].y, divisor, bias));
    if (combined && k == 0)
      value = make_float2(gconv_combine_first(epilogue.combine, value.x), gconv_combine_first(epilogue.combine, value.y));
    else if (combined) {
      float2 old = before[i * step];
      value = make_float2(gconv_combine_next(epilogue.combine, old.x, value.x),
                          gconv_combine_next(epilogue.combine, old.y, value.y));
    }
    if (combined && k + 1 < problem.filters) {
      before[i * step] = value;
      continue;
    }
    if (combined)
      value = make_float2(gconv_combine_last(epilogue.combine, value.x), gconv_combine_last(epilogue.combine, value.y));
    points[i] = make_float2(gconv_finish(value.x, &epilogue), gconv_finish(value.y, &epilogue));
  }
}

/* Stores points of row y that are STEP columns apart, from column x on, if they are outputs. x may be negative. PART 0
 * stores the real parts, PART 1 the imaginary parts. */
template <class Out, int STEP, int PART, int N>
DEVICE void store_part(const tiling &t, int k, const real_tile &tile, int y, int x, const float2 (&points)[N]) {
  const gconv_problem &problem = t.problem;
  const int stride = problem.stride_x, limit = min(t.valid_x, (problem.out_width - tile.q) * stride);
  const int down = problem.stride_y == 1 ? y : y / problem.stride_y;
  if (y >= t.valid_y || down * problem.stride_y != y || tile.p + down >= problem.out_height)
    return;
  uint8_t *row = tile.out + k * t.out_filter + (tile.p + down) * t.out_row;
  if (stride == 1) {
    uint8_t *to = row + (tile.q + x) * t.out_pixel;
    const int64_t step = STEP * t.out_pixel;
    UNROLLED_FOR (int i = 0; i < N; i++, to += step)
      if ((unsigned)(x + STEP * i) < (unsigned)limit)
        gconv_store(PART == 0 ? points[i].x : points[i].y, (Out *)to);
    return;
  }
  UNROLLED_FOR (int i = 0; i < N; i++) {
    int q = (x + STEP * i) / stride;
    if ((unsigned)(x + STEP * i) < (unsigned)limit && q * stride == x + STEP * i)
      gconv_store(PART == 0 ? points[i].x : points[i].y, (Out *)(row + (tile.q + q) * t.out_pixel));
  }
}

/* Stores finished points of both tiles as output of filter k. If filters are combined, the last one has their output. */
template <int STEP, int N>
DEVICE void store_points(const tiling &t, int k, const tile_pair &pair, int y, int x, const float2 (&points)[N]) {
  const bool combined = gconv_is_combined(&t.problem);
  if (combined && k + 1 < t.problem.filters)
    return;
  k = combined ? 0 : k;
  BY_TYPE(t.problem.out_type, Out, {
    store_part<Out, STEP, 0>(t, k, pair.first, y, x, points);
    if (pair.two)
      store_part<Out, STEP, 1>(t, k, pair.second, y, x, points);
  });
}

/* ---- Sums that are not finite ---- */

/* A NaN or an infinity spreads over the two tiles that share points, since every point of a transform depends on every
 * sample. Transforms of large samples may also overflow where the sums of the definition do not. A sum that depends on a
 * point that is not finite is not finite either. So finite sums are right, and all others are computed again. Images of
 * integers need no such check: their sums overflow only if the taps add up to more than 1e33. */

/* Adds 0 times each sum to `check`, which stays 0 while all sums are finite, and becomes NaN otherwise. */
template <int N> DEVICE void check_sums(const float2 (&sums)[N], float *check) {
  UNROLLED_FOR (int i = 0; i < N; i++)
    *check = fmaf(sums[i].x, 0.0f, fmaf(sums[i].y, 0.0f, *check));
}

/* Computes and stores the outputs in columns x, x + step ... of row y of both tiles, by the definition. */
DEVICE void mend_row(const tiling &t, const tile_pair &pair, int y, int x, int step) {
  const auto sum_of = [&](const real_tile &tile, int k) {
    return defined_sum(t, t.weights, k, tile.in, tile.top + y, tile.left + t.first_x + x, 0);
  };
  for (; x < t.valid_x; x += step) {
    if (x < 0 || x % t.problem.stride_x != 0 || y % t.problem.stride_y != 0)
      continue;
    float2 before;
    for (int k = 0; k < t.problem.filters; k++) {
      float2 sums[] = {make_float2(sum_of(pair.first, k), sum_of(pair.second, k))};
      finish_points(t, k, &before, 1, sums);
      store_points<1>(t, k, pair, y, x, sums);
    }
  }
}

} // namespace

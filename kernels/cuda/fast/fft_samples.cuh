/* SPDX-License-Identifier: MIT */
/* fft: from the image to the points of tiles, and back. */
#pragma once

#include "../core/launch.cuh"
#include "../core/store.cuh"

namespace {

/* How all samples are cut into tiles. Two tiles share their points: one is the real parts, the other the imaginary parts. */
struct tiling : arguments {
  const float *weights;
  int32_t valid_y, valid_x; /* valid output pixels of a tile, before striding */
  int32_t first_x;          /* first valid column */
  int32_t tiles_y, tiles_x;
  int32_t colours; /* channels that are filtered, all but alpha that is kept */
  int32_t tiles;   /* tiles of all images, planes and channels */
  bool plain;      /* the epilogue is only scale and offset */
};

/* A tile: where its samples are in the input and in the output. */
struct real_tile {
  const uint8_t *in; /* the plane, from the first sample of the tile's channel on */
  uint8_t *out;      /* the same in the output */
  int32_t top, left; /* place of its first point in the image */
  int32_t p, q;      /* its first output pixel */
};

/* Two tiles that share points. A last tile without a partner is paired with itself. */
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

/* Two threads of the block find the places of the tiles of a pair, and put them into shared memory. If all threads did so,
 * it would take as long as a tenth of their points. */
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

/* Loads N points that are STEP columns apart and lie inside the image, from `first` and `second` on. */
template <class In, int STEP, int N>
DEVICE void load_inner(const In *first, const In *second, int channels, float2 (&points)[N]) {
  if (channels == 1) { /* with constant distances, the loop is faster */
    UNROLLED_FOR (int i = 0; i < N; i++)
      points[i] = make_float2(level_at(first + i * STEP), level_at(second + i * STEP));
    return;
  }
  UNROLLED_FOR (int i = 0; i < N; i++)
    points[i] = make_float2(level_at(first + i * STEP * channels), level_at(second + i * STEP * channels));
}

/* Loads the points of columns x, x + STEP .. of row y, for two tiles that lie inside the image there. */
template <class In, int STEP, int N>
DEVICE void load_inside(const arguments &a, const tile_pair &pair, int y, int x, float2 (&points)[N]) {
  const real_tile &first = pair.first, &second = pair.second;
  const int channels = a.problem.channels;
  load_inner<In, STEP, N>((const In *)(first.in + (first.top + y) * a.in_row) + (int64_t)(first.left + x) * channels,
                          (const In *)(second.in + (second.top + y) * a.in_row) + (int64_t)(second.left + x) * channels,
                          channels, points);
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

/* Stores points of valid row y that are STEP columns apart, from valid column x on. x may be negative; only valid points are
 * stored. PART 0 stores the real parts, PART 1 the imaginary parts. */
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

/* Finishes and stores points of both tiles as output of filter k. */
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

/* ---- Samples that are not finite ---- */

/* Transforms spread a NaN or an infinity over all points of the two tiles that share them: every point depends on every
 * sample, and the twists multiply an infinity by 0, or subtract it from itself. So one point tells, from the product with
 * the spectrum on. */
DEVICE bool is_spoilt(float2 point) {
  return !(fabsf(point.x) < INFINITY && fabsf(point.y) < INFINITY);
}

/* Computes outputs of all filters again, by the definition, and stores them: those of valid row y that are `step` columns
 * apart, from valid column x on. */
DEVICE void mend_points(const tiling *t, const tile_pair *pair, int y, int x, int step, int count) {
  const gconv_problem &problem = t->problem;
  const int down = y / problem.stride_y;
  for (int part = 0; part <= (int)pair->two; part++) {
    const real_tile &tile = part == 0 ? pair->first : pair->second;
    const int limit = min(t->valid_x, (problem.out_width - tile.q) * problem.stride_x);
    if (y >= t->valid_y || down * problem.stride_y != y || tile.p + down >= problem.out_height)
      continue;
    for (int i = 0, column = x; i < count; i++, column += step) {
      const int q = column / problem.stride_x;
      if ((unsigned)column >= (unsigned)limit || q * problem.stride_x != column)
        continue;
      const auto sum_of = [&](int k) {
        return defined_sum(*t, t->weights, k, tile.in, tile.top + y, tile.left + t->first_x + column, 0);
      };
      uint8_t *to = tile.out + (tile.p + down) * t->out_row + (tile.q + q) * t->out_pixel;
      BY_TYPE(problem.out_type, Out, store_responses<Out>(*t, t->weights, 0, to, sum_of));
    }
  }
}

} // namespace

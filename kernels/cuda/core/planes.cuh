/* SPDX-License-Identifier: MIT */
/* Tiles of some channels of an image in shared memory, plane by plane, with zeros outside the image. Also used by
 * training. */
#pragma once

#include "copies.cuh"

namespace {

/* A part of an image: rows x columns samples of each channel, from (top, left) on; some may lie outside. A channel has
 * height x width samples, and the first channel begins at `image`. */
struct planes_part {
  const float *image;
  int32_t height, width, channels, top, left, rows, columns;
};

/* Where a part is copied to. pitch, plane: floats from a row to the next, and from a channel to the next. warp: the number
 * of this warp among the `warps` warps that copy. */
struct planes_copy {
  float *to;
  int32_t pitch, plane, warp, warps;
};

/* Copies columns from `first` on. `lanes` lanes (up to 32) share a row: each copies WIDTH neighbouring floats, COPIES times,
 * 32 WIDTH floats apart. A warp takes 32 / lanes rows at a time. */
template <int WIDTH, int COPIES>
DEVICE void copy_columns(const planes_part &part, const planes_copy &copy, int32_t first, int32_t lanes) {
  const int32_t lane = (int32_t)threadIdx.x % 32, at_once = 32 / lanes, own = lane / lanes;
  const int32_t column = first + WIDTH * (lane - own * lanes), step = copy.warps * at_once;
  if (own >= at_once)
    return;
  bool inside[COPIES];
  UNROLLED_FOR (int i = 0; i < COPIES; i++)
    inside[i] = (unsigned)(part.left + column + 32 * WIDTH * i) < (unsigned)part.width;
  const int64_t next_channel = (int64_t)(part.height - part.rows) * part.width;
  int32_t row = copy.warp * at_once + own, c = 0;
  const float *from = part.image + ((int64_t)part.top + row) * part.width + part.left + column;
  uint32_t place = shared_address(copy.to + row * copy.pitch + column);
  while (true) {
    for (; row >= part.rows; row -= part.rows, from += next_channel, place += 4 * (copy.plane - part.rows * copy.pitch))
      c++;
    if (c >= part.channels)
      break;
    const bool row_inside = (unsigned)(part.top + row) < (unsigned)part.height;
    UNROLLED_FOR (int i = 0; i < COPIES; i++)
      copy_async_or_zero<4 * WIDTH>(place + 128 * WIDTH * i, from + 32 * WIDTH * i, row_inside && inside[i]);
    row += step;
    from += (int64_t)step * part.width;
    place += 4 * step * copy.pitch;
  }
}

/* Starts to copy a part to shared memory. WIDTH: 4 if the image, `left`, widths and distances are multiples of 16 bytes,
 * else 1. */
template <int WIDTH> DEVICE void copy_planes(const planes_part &part, const planes_copy &copy) {
  int32_t first = 0;
  for (; first + 64 * WIDTH <= part.columns; first += 64 * WIDTH)
    copy_columns<WIDTH, 2>(part, copy, first, 32);
  for (; first < part.columns; first += 32 * WIDTH)
    copy_columns<WIDTH, 1>(part, copy, first, min((part.columns - first) / WIDTH, 32));
}

} // namespace

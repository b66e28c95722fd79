/* SPDX-License-Identifier: MIT */
/*
 * A stage of the kernels for gradients of weights, in shared memory: the gradients of some filters at neighbouring places of
 * one image, and the samples of some channels under these places.
 *
 *     dz: filters x rows x dz_pitch
 *     x:  channels x (rows under these rows) x x_pitch
 *
 * Hopper's copy engine fills a stage by two boxes or, if it does not support the tensors, threads fill it. Boxes begin at
 * columns that are multiples of four, `shift` columns before the first sample that is needed.
 */
#pragma once

#include "../core/planes.cuh"
#include "kernels/layer_problem.h"
#include "tensor_map.cuh"

#include <algorithm>

namespace {

struct staging {
  gconv_layer_problem p;
  const float *x, *dz;
  int32_t filters_log2, channels;                      /* log2 of the filters in a stage; channels in a stage */
  int32_t rows, columns;                               /* the most outputs in a stage; columns are a multiple of four */
  bool whole;                                          /* a partial stage is filled up with zeros */
  int32_t dz_pitch, dz_plane, x_pitch, x_plane, shift; /* pitch: floats of a row; plane: of a filter or channel */
  int32_t dz_floats, floats;                           /* floats of the gradients, which come first; floats of the stage */
  bool boxes;                                          /* the copy engine copies */
  CUtensorMap x_map, dz_map;
};

/* The outputs in a stage. */
struct chunk {
  int32_t p0, rows, q0, columns;
};
DEVICE int32_t chunks_across(const staging &a) {
  return (a.p.out_width + a.columns - 1) / a.columns;
}
DEVICE chunk chunk_of(const staging &a, int32_t number, int32_t first_row, int32_t last_row) {
  const int32_t across = chunks_across(a), down = number / across;
  chunk at;
  at.p0 = first_row + down * a.rows;
  at.q0 = (number - down * across) * a.columns;
  at.rows = min(a.rows, last_row - at.p0);
  at.columns = min(a.columns, a.p.out_width - at.q0);
  return at;
}

/* The image, filters and channels that a stage is filled from. */
struct stage_source {
  int64_t image;
  int32_t filter, filters, channel, channels; /* the first filter, how many; the first channel, how many */
};

/* Returns the part of a stage that a chunk fills. */
DEVICE chunk filled_of(const staging &a, chunk of) {
  return {of.p0, a.whole ? a.rows : of.rows, of.q0, a.whole ? a.columns : of.columns};
}

/* Copies the gradients of a chunk, sixteen bytes at a time (WIDTH 4) or four (WIDTH 1). Stores 0 outside the filters, rows
 * and columns. This is thread `number` of `threads`. It finds its next place by additions, without a division. */
template <int WIDTH>
DEVICE void load_gradients(const staging &a, stage_source source, chunk of, int32_t number, int32_t threads, float *to) {
  const chunk all = filled_of(a, of);
  const int32_t wide = all.columns / WIDTH, lines = all.rows << a.filters_log2;
  const int32_t down = threads / wide, right = threads - down * wide;
  int32_t line = number / wide, at = number - line * wide;
  const int64_t plane = (int64_t)a.p.out_height * a.p.out_width;
  const float *dz = a.dz + (source.image * a.p.filters + source.filter) * plane + (int64_t)of.p0 * a.p.out_width + of.q0;
  for (; line < lines; line += down, at += right) {
    if (at >= wide) {
      at -= wide;
      if (++line == lines)
        break;
    }
    const int32_t row = line >> a.filters_log2, k = line - (row << a.filters_log2), column = at * WIDTH;
    const int32_t place = k * a.dz_plane + row * a.dz_pitch + column;
    copy_async_or_zero<4 * WIDTH>(shared_address(to + place), dz + k * plane + row * a.p.out_width + column,
                                  k < source.filters && row < of.rows && column < of.columns);
  }
}

/* Returns the samples under a chunk. */
DEVICE planes_part samples_of(const staging &a, stage_source source, chunk of) {
  const gconv_layer_problem &p = a.p;
  const chunk all = filled_of(a, of);
  return {a.x + (source.image * p.channels + source.channel) * p.height * p.width,
          p.height,
          p.width,
          source.channels,
          of.p0 * p.stride_y - p.pad_top,
          of.q0 * p.stride_x - p.pad_left,
          (all.rows - 1) * p.stride_y + (p.rows - 1) * p.dilation_y + 1,
          (all.columns - 1) * p.stride_x + (p.columns - 1) * p.dilation_x + 1};
}

/* Starts to fill a stage. This is thread `number` of `threads`, which are whole warps. */
DEVICE void fill_by_threads(const staging &a, stage_source source, chunk of, int32_t number, int32_t threads, float *stage) {
  if (a.p.out_width % 4 == 0 && ((uintptr_t)a.dz & 15) == 0)
    load_gradients<4>(a, source, of, number, threads, stage);
  else
    load_gradients<1>(a, source, of, number, threads, stage);
  copy_planes<1>(samples_of(a, source, of), {stage + a.dz_floats, a.x_pitch, a.x_plane, number / 32, threads / 32});
}

#ifdef COPY_ENGINE
/* Starts to fill a stage by the copy engine. One thread calls it. */
DEVICE void fill_by_boxes(const staging &a, stage_source source, chunk of, float *stage, uint64_t *arrived) {
  hopper::barrier_expect(arrived, 4 * ((a.dz_plane << a.filters_log2) + a.channels * a.x_plane));
  copy_box(a.dz_map, of.q0, of.p0, source.filter, (int32_t)source.image, stage, arrived);
  copy_box(a.x_map, of.q0 * a.p.stride_x - a.p.pad_left - a.shift, of.p0 * a.p.stride_y - a.p.pad_top, source.channel,
           (int32_t)source.image, stage + a.dz_floats, arrived);
}
#endif

/* ---- Host ---- */

/* True if a stage of so many outputs is larger than any shared memory. Then int32_t may not count its floats. */
inline bool is_huge(const staging &a, int32_t rows, int32_t columns) {
  const gconv_layer_problem &p = a.p;
  const double x_rows = (rows - 1.0) * p.stride_y + (p.rows - 1.0) * p.dilation_y + 1;
  const double x_columns = (columns - 1.0) * p.stride_x + (p.columns - 1.0) * p.dilation_x + 1;
  return a.channels * x_rows * x_columns + (double)(1 << a.filters_log2) * rows * columns > 1 << 17;
}

/* Returns how many rows of samples are under `rows` rows of outputs. */
inline int32_t rows_under(const gconv_layer_problem &p, int32_t rows) {
  return (rows - 1) * p.stride_y + (p.rows - 1) * p.dilation_y + 1;
}

/* Sets the floats of a stage. extra: floats after the samples. */
inline void set_floats(staging *a, int32_t extra) {
  a->dz_floats = ((a->dz_plane << a->filters_log2) + 31) / 32 * 32;
  a->floats = a->dz_floats + (a->channels * a->x_plane + extra + 31) / 32 * 32;
}

/* True if this GPU has a copy engine, and the sizes and addresses of the tensors suit it. */
template <class Kernel> bool may_have_boxes(const staging &a, Kernel kernel) {
  cudaFuncAttributes attributes;
  return a.p.width % 4 == 0 && a.p.out_width % 4 == 0 && ((uintptr_t)a.x | (uintptr_t)a.dz) % 16 == 0 &&
         cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90 &&
         attributes.binaryVersion >= 90;
}

/* Makes the tensor maps for boxes. False if a box is too large. */
inline bool map_boxes(staging *a, int64_t cases) {
  const gconv_layer_problem &p = a->p;
  const int32_t x_rows = a->x_plane / a->x_pitch, rows = a->dz_plane / a->dz_pitch, filters = 1 << a->filters_log2;
  return std::max({a->x_pitch, x_rows, a->channels, a->dz_pitch, rows, filters}) <= 256 &&
         make_tensor_map({a->x, cases, p.channels, p.height, p.width, a->channels, x_rows, a->x_pitch}, &a->x_map) &&
         make_tensor_map({a->dz, cases, p.filters, p.out_height, p.out_width, filters, rows, a->dz_pitch}, &a->dz_map);
}

} // namespace

/* SPDX-License-Identifier: MIT */
/*
 * Smoothing in y, then in x, with all derivatives that are wanted. The kernel that smooths in x also computes the features
 * from them.
 *
 * In y, the lanes of a warp have neighbouring columns, and each has V rows of its own; samples come through the caches. In
 * x, a warp has 256 outputs of a row, each lane V neighbours; a row of a pass is copied to shared memory. A gap after each V
 * floats lets lanes, which are V floats apart, read different banks. Outputs go through shared memory, too, so that
 * they are stored in order.
 *
 * For each tap of all three orders, a pixel takes 16 additions and multiply-adds, and some 1.3 loads. The multiply-adds are
 * the bound: 20 features at sigmas of 1 to 16 take 1744 of them per pixel.
 */
#include "../core/launch.cuh"
#include "kernels/feature_math.h"
#include "slide.cuh"

extern __shared__ float gconv_feature_memory[];

namespace {

constexpr int MOST_WARPS = 8, CHUNK = LANES * V; /* CHUNK: outputs of a row that a warp makes */

/* ---- Places ---- */

__host__ DEVICE int32_t all_rows(const gconv_feature_tiles &t) { /* the rows of a tile, with its rim */
  return t.tile_rows + 2 * t.rim;
}
__host__ DEVICE int32_t plane_columns(const gconv_feature_tiles &t) {
  return t.overlap ? t.tile_columns + 2 * t.rim : t.width;
}
__host__ DEVICE int32_t pass_columns(const gconv_feature_tiles &t, int32_t radius) {
  return t.overlap ? t.tile_columns + 2 * (t.rim + radius) : t.width;
}

/* A tile's place in the image. */
struct tile_place {
  int32_t y, x, end_y, end_x; /* the first row and column; the row and column after the last */
};

DEVICE tile_place place_of(const gconv_feature_tiles &t, int32_t tile) {
  tile_place p;
  p.y = t.first + tile / t.across * t.tile_rows;
  p.x = tile % t.across * t.tile_columns;
  p.end_y = min(p.y + t.tile_rows, t.first + t.rows);
  p.end_x = min(p.x + t.tile_columns, t.width);
  return p;
}

DEVICE float origin_of(const gconv_feature_samples &s, int32_t width, const tile_place &p) {
  const float sample = s.plane[(int64_t)(p.y - s.top) * width + p.x];
  return isfinite(sample) ? sample : 0.0f;
}

/* ---- In y ---- */

template <int ORDERS, bool PRODUCT>
__global__ void __launch_bounds__(LANES *MOST_WARPS)
    smooth_columns(const __grid_constant__ gconv_feature_tiles t, const __grid_constant__ gconv_feature_taps taps,
                   const __grid_constant__ gconv_feature_samples s, float *passes, int64_t pass_floats) {
  const int32_t columns = pass_columns(t, taps.radius), count = t.across * t.down;
  const int32_t column = (int32_t)blockIdx.x * LANES + (int32_t)threadIdx.x;
  const int32_t row = ((int32_t)blockIdx.y * (int32_t)blockDim.y + (int32_t)threadIdx.y) * V;
  if (column >= columns || row >= all_rows(t))
    return;
  for (int32_t tile = (int32_t)blockIdx.z; tile < count; tile += (int32_t)gridDim.z) {
    const tile_place p = place_of(t, tile);
    const int32_t y = p.y - t.rim + row, end = min(p.end_y + t.rim, t.height);
    if (y >= end || y + V <= 0)
      continue;
    const int32_t x = t.overlap ? far_index(s.border, p.x - t.rim - taps.radius + column, t.width) : column;
    const float origin = s.origins ? origin_of(s, t.width, p) : 0.0f;
    const int64_t pitch = t.width, base = (int64_t)(y - s.top) * pitch + x;
    sums<true, (ORDERS > 1), (ORDERS > 2)> sum;
    auto sample = [&](int64_t at) {
      return PRODUCT ? s.plane[at] * s.second[at] : s.origins ? s.plane[at] - origin : s.plane[at];
    };
    if (y - taps.radius >= max(s.top, 0) && y + V - 1 + taps.radius < min(s.top + s.rows, t.height)) {
      slide(
          taps, [&](int v) { return sample(base + v * pitch); },
          [&](int c, int u) { return sample(base + (int64_t)(c * V + u + V) * pitch); },
          [&](int c, int u) { return sample(base - (int64_t)(c * V + u + 1) * pitch); }, &sum);
    } else { /* some samples lie beyond the border, or beyond the rows of the source */
      const bool near = taps.radius + V < t.height;
      auto at = [&](int32_t i) {
        const int32_t from = near ? near_index(s.border, y + i, t.height) : far_index(s.border, y + i, t.height);
        return sample((int64_t)min(max(from - s.top, 0), s.rows - 1) * pitch + x);
      };
      slide(
          taps, [&](int v) { return at(v); }, [&](int c, int u) { return at(c * V + u + V); },
          [&](int c, int u) { return at(-(c * V + u + 1)); }, &sum);
    }
    float *to = passes + ((int64_t)tile * all_rows(t) + row) * columns + column;
    UNROLLED_FOR (int v = 0; v < V; v++)
      if (y + v >= 0 && y + v < end) {
        to[(int64_t)v * columns] = sum.zero[v];
        if (ORDERS > 1)
          to[pass_floats + (int64_t)v * columns] = sum.one[v];
        if (ORDERS > 2)
          to[2 * pass_floats + (int64_t)v * columns] = sum.two[v];
      }
  }
}

/* ---- In x ---- */

/* The CHUNK columns of a plane's row that a warp makes. */
struct line {
  float *shared;
  int32_t lane, first; /* column of the plane */
  int32_t apron;       /* floats of shared memory before column `first`, a multiple of V */
};

/* Returns the place of number `at` of the row in shared memory. There is a gap after each V floats. */
__host__ DEVICE int32_t spread(int32_t at) {
  return at + at / V;
}

/* Copies a row of a pass to shared memory, and smooths it there. */
template <bool ZERO, bool ONE, bool TWO>
DEVICE void smooth_line(const line &l, const gconv_feature_tiles &t, const gconv_feature_taps &taps, const float *row,
                        sums<ZERO, ONE, TWO> *sum) {
  const int32_t columns = pass_columns(t, taps.radius), begin = l.first - l.apron + (t.overlap ? taps.radius : 0);
  const int32_t count = CHUNK + 2 * l.apron;
  __syncwarp();
  if (begin >= 0 && begin + count <= columns) {
    UNROLLED_4_FOR (int32_t i = l.lane; i < count; i += LANES)
      l.shared[spread(i)] = row[begin + i];
  } else {
    ROLLED_FOR (int32_t i = l.lane; i < count; i += LANES) {
      int32_t at = begin + i;
      if (!t.overlap && (at < 0 || at >= columns))
        at = far_index(GCONV_BORDER_REFLECT101, at, columns);
      l.shared[spread(i)] = row[min(max(at, 0), columns - 1)];
    }
  }
  __syncwarp();
  const float *at = l.shared + spread(l.apron) + (V + 1) * l.lane;
  slide(
      taps, [&](int v) { return at[v]; }, [&](int c, int u) { return at[(V + 1) * (c + 1) + u]; },
      [&](int c, int u) { return at[V - 1 - u - (V + 1) * (c + 1)]; }, sum);
}

/* Stores a row's values: column i of the plane, for begin <= i < end, goes to to[i - shift]. */
DEVICE void store(const line &l, const float *values, float *to, int32_t begin, int32_t end, int32_t shift) {
  __syncwarp();
  UNROLLED_FOR (int v = 0; v < V; v++)
    l.shared[(V + 1) * l.lane + v] = values[v];
  __syncwarp();
  UNROLLED_FOR (int v = 0; v < V; v++) {
    const int32_t at = v * LANES + l.lane, column = l.first + at;
    if (column >= begin && column < end)
      to[column - shift] = l.shared[spread(at)];
  }
}

enum planes_made {
  SMOOTH, /* the Gaussian */
  SLOPES, /* the Gaussian and its derivatives of order 1 */
  ALL,    /* the Gaussian and its derivatives of orders 1 and 2 */
  TENSOR  /* the Gaussian of each of three passes */
};

/* Stores a row's results: columns of its tile go to features, columns of the tile and its rim to kept planes. */
struct line_outputs {
  const line &l;
  int64_t in_feature, in_plane; /* the row's place in features, and in planes */
  int32_t rim, end, columns;    /* columns rim .. end - 1 of the plane's `columns` are in the tile */
  bool inside;                  /* the row is in the tile, not in its rim */

  DEVICE void put(float *to, const float *values) const {
    if (to && inside)
      store(l, values, to + in_feature, rim, end, rim);
  }
  DEVICE void keep(float *to, const float *values) const {
    if (to)
      store(l, values, to + in_plane, 0, columns, 0);
  }
};

/* Stores the eigenvalues of the structure tensor, whose three entries are smoothed by the Gaussian. */
DEVICE void put_tensor(const line_outputs &w, const gconv_feature_tiles &t, const gconv_feature_taps &taps,
                       const float *from, int64_t pass_floats, const gconv_feature_outputs &out) {
  float xx[V], xy[V], yy[V];
  sums<true, false, false> sum;
  float *const into[3] = {xx, xy, yy};
  UNROLLED_FOR (int i = 0; i < 3; i++) {
    smooth_line(w.l, t, taps, from + i * pass_floats, &sum);
    UNROLLED_FOR (int v = 0; v < V; v++)
      into[i][v] = sum.zero[v];
  }
  UNROLLED_FOR (int v = 0; v < V; v++)
    gconv_feature_split(xx[v], xy[v], yy[v], &xx[v], &yy[v]);
  w.put(out.tensor[0], xx);
  w.put(out.tensor[1], yy);
}

/* Stores the Gaussian alone, subtracted from another feature, or plus the tile's origin. `values` may change. */
DEVICE void put_smooth(const line_outputs &w, const gconv_feature_outputs &out, float origin, float (&values)[V]) {
  UNROLLED_FOR (int v = 0; v < V; v++) {
    const int32_t column = w.l.first + w.l.lane * V + v;
    if (out.from && column >= w.rim && column < w.end)
      values[v] = out.from[w.in_feature + column - w.rim] - values[v];
    else if (out.origins)
      values[v] = values[v] + origin;
  }
  w.put(out.smooth, values);
}

/* Stores the features that are made of derivatives. `flat` has the derivatives of order 0 in y. */
template <int MADE>
DEVICE void put_derivatives(const line_outputs &w, const gconv_feature_tiles &t, const gconv_feature_taps &taps,
                            const float *from, int64_t pass_floats, const gconv_feature_outputs &out,
                            sums<true, (MADE >= SLOPES), (MADE >= ALL)> &flat) {
  w.keep(out.kept_x, flat.one);
  sums<true, (MADE >= ALL), false> steep; /* order 1 in y: y, xy */
  smooth_line(w.l, t, taps, from + pass_floats, &steep);
  w.keep(out.kept_y, steep.zero);
  if (out.gradient) {
    UNROLLED_FOR (int v = 0; v < V; v++)
      steep.zero[v] = gconv_feature_magnitude(flat.one[v], steep.zero[v]);
    w.put(out.gradient, steep.zero);
  }
  if constexpr (MADE == ALL) {
    sums<true, false, false> bent; /* order 2 in y: yy */
    smooth_line(w.l, t, taps, from + 2 * pass_floats, &bent);
    if (out.log) {
      float values[V];
      UNROLLED_FOR (int v = 0; v < V; v++)
        values[v] = flat.two[v] + bent.zero[v];
      w.put(out.log, values);
    }
    if (out.hessian[0]) {
      UNROLLED_FOR (int v = 0; v < V; v++)
        gconv_feature_split(flat.two[v], steep.one[v], bent.zero[v], &flat.two[v], &bent.zero[v]);
      w.put(out.hessian[0], flat.two);
      w.put(out.hessian[1], bent.zero);
    }
  }
}

template <int MADE>
__global__ void __launch_bounds__(LANES *MOST_WARPS, 3)
    smooth_lines(const __grid_constant__ gconv_feature_tiles t, const __grid_constant__ gconv_feature_taps taps,
                 const float *passes, int64_t pass_floats, const __grid_constant__ gconv_feature_outputs out,
                 const __grid_constant__ gconv_feature_samples origins) {
  const int32_t row = (int32_t)(blockIdx.y * blockDim.y + threadIdx.y), count = t.across * t.down;
  const int32_t rim = t.overlap ? t.rim : 0, apron = (taps.radius + V - 1) / V * V;
  const line l = {gconv_feature_memory + (int32_t)threadIdx.y * spread(CHUNK + 2 * apron), (int32_t)threadIdx.x,
                  (int32_t)blockIdx.x * CHUNK, apron};
  if (row >= all_rows(t))
    return;
  for (int32_t tile = (int32_t)blockIdx.z; tile < count; tile += (int32_t)gridDim.z) {
    const tile_place p = place_of(t, tile);
    const int32_t y = p.y - t.rim + row;
    if (y < 0 || y >= min(p.end_y + t.rim, t.height))
      continue;
    const int64_t number = (int64_t)tile * all_rows(t) + row; /* number of the row among those of all tiles */
    const float *from = passes + number * pass_columns(t, taps.radius);
    const line_outputs w = {l,
                            (int64_t)(y - t.first) * t.width + p.x,
                            number * plane_columns(t),
                            rim,
                            rim + p.end_x - p.x,
                            plane_columns(t),
                            y >= p.y && y < p.end_y};
    if constexpr (MADE == TENSOR) {
      put_tensor(w, t, taps, from, pass_floats, out);
    } else {
      sums<true, (MADE >= SLOPES), (MADE >= ALL)> flat; /* order 0 in y: the Gaussian, x, xx */
      smooth_line(l, t, taps, from, &flat);
      w.keep(out.kept, flat.zero);
      if (out.smooth && w.inside)
        put_smooth(w, out, out.origins ? origin_of(origins, t.width, p) : 0.0f, flat.zero);
      if constexpr (MADE != SMOOTH)
        put_derivatives<MADE>(w, t, taps, from, pass_floats, out, flat);
    }
  }
}

/* ---- Launches ---- */

dim3 grid_of(const gconv_feature_tiles *t, int32_t columns, int32_t each, int32_t rows, int32_t rows_each) {
  const int64_t tiles = (int64_t)t->across * t->down;
  return dim3((unsigned)divide_up(columns, each), (unsigned)divide_up(rows, rows_each),
              (unsigned)(tiles < 65535 ? tiles : 65535));
}

} // namespace

size_t gconv_feature_pass_floats(const gconv_feature_tiles *t, int32_t radius) {
  return (size_t)t->across * (size_t)t->down * (size_t)all_rows(*t) * (size_t)pass_columns(*t, radius);
}

size_t gconv_feature_plane_floats(const gconv_feature_tiles *t) {
  return (size_t)t->across * (size_t)t->down * (size_t)all_rows(*t) * (size_t)plane_columns(*t);
}

int gconv_feature_orders(const gconv_feature_outputs *o) {
  return o->log || o->hessian[0] || o->tensor[0] ? 3 : o->gradient || o->kept_x ? 2 : 1;
}

void gconv_feature_columns(const gconv_feature_tiles *tiles, const gconv_feature_taps *taps,
                           const gconv_feature_samples *source, int orders, float *passes, cudaStream_t stream) {
  const int32_t groups = (all_rows(*tiles) + V - 1) / V, warps = groups < MOST_WARPS ? groups : MOST_WARPS;
  const dim3 grid = grid_of(tiles, pass_columns(*tiles, taps->radius), LANES, groups, warps),
             threads(LANES, (unsigned)warps);
  auto *kernel = source->second ? smooth_columns<1, true>
                 : orders == 1  ? smooth_columns<1, false>
                 : orders == 2  ? smooth_columns<2, false>
                                : smooth_columns<3, false>;
  kernel<<<grid, threads, 0, stream>>>(*tiles, *taps, *source, passes,
                                       (int64_t)gconv_feature_pass_floats(tiles, taps->radius));
}

void gconv_feature_lines(const gconv_feature_tiles *tiles, const gconv_feature_taps *taps, const float *passes,
                         const gconv_feature_outputs *outputs, cudaStream_t stream) {
  const int32_t rows = all_rows(*tiles), warps = rows < MOST_WARPS ? rows : MOST_WARPS;
  const dim3 grid = grid_of(tiles, plane_columns(*tiles), CHUNK, rows, warps), threads(LANES, (unsigned)warps);
  const size_t bytes = (size_t)warps * (size_t)spread(CHUNK + 2 * ((taps->radius + V - 1) / V * V)) * sizeof(float);
  const gconv_feature_samples none = {};
  const int orders = gconv_feature_orders(outputs);
  auto *kernel = outputs->tensor[0] ? smooth_lines<TENSOR>
                 : orders == 3      ? smooth_lines<ALL>
                 : orders == 2      ? smooth_lines<SLOPES>
                                    : smooth_lines<SMOOTH>;
  kernel<<<grid, threads, bytes, stream>>>(*tiles, *taps, passes, (int64_t)gconv_feature_pass_floats(tiles, taps->radius),
                                           *outputs, outputs->origins ? *outputs->origins : none);
}

/* SPDX-License-Identifier: MIT */
/* Features that are differences of a smoothed plane, and planes of an image's samples. A thread makes a pixel. */
#include "../core/unroll.cuh"
#include "feature.h"
#include "kernels/feature_math.h"

namespace {

constexpr int LANES = 32, WARPS = 8;

/* ---- Samples of a tile's plane ---- */

/* The samples of the tile that a pixel lies in. */
struct view {
  const float *plane; /* where the sample of pixel (0, 0) of the image would be */
  int32_t height, width;
  int64_t pitch;
};

DEVICE view view_of(const gconv_feature_tiles &t, const float *kept, int32_t y, int32_t x) {
  const int32_t down = (y - t.first) / t.tile_rows, across = x / t.tile_columns;
  const int64_t rows = t.tile_rows + 2 * t.rim, columns = t.tile_columns + 2 * t.rim;
  const float *tile = kept + ((int64_t)down * t.across + across) * rows * columns;
  const int64_t top = t.first + (int64_t)down * t.tile_rows - t.rim, left = (int64_t)across * t.tile_columns - t.rim;
  return {tile - top * columns - left, t.height, t.width, columns};
}

DEVICE float sample_at(const view &w, int32_t y, int32_t x) {
  return w.plane[y * w.pitch + x];
}

/* Returns sample i of a line of `count`. Beyond its ends, the line continues as in gconv_feature_fill_linear() of
 * src/feature. */
template <class Line> DEVICE float extended(Line line, int32_t i, int32_t count) {
  if (i >= 0 && i < count)
    return line(i);
  const int32_t end = i < 0 ? 0 : count - 1, back = i < 0 ? 1 : -1;
  const float last = line(end), before = count > 1 ? line(end + back) : last;
  if (i == -1 || i == count)
    return last + (last - before);
  const float third = count > 2 ? line(end + 2 * back) : 2 * before - last;
  return 4 * (last - before) + third;
}

__device__ __noinline__ float linear_at(const view &w, int32_t y, int32_t x) {
  return extended(
      [&](int32_t column) { return extended([&](int32_t row) { return sample_at(w, row, column); }, y, w.height); }, x,
      w.width);
}

/* ---- Features ---- */

/* Calls make(view, y, x) for the thread's pixels of a tile. blockIdx.y is the number of the row of tiles. */
template <class Make> DEVICE void each_pixel(const gconv_feature_tiles &t, const float *kept, Make make) {
  const int32_t x = (int32_t)(blockIdx.x * LANES + threadIdx.x);
  const int32_t first = t.first + (int32_t)blockIdx.y * t.tile_rows, end = min(first + t.tile_rows, t.first + t.rows);
  if (x >= t.width)
    return;
  const view w = view_of(t, kept, first, x);
  for (int32_t y = first + (int32_t)threadIdx.y; y < end; y += WARPS)
    make(w, y, x);
}

__global__ void __launch_bounds__(LANES *WARPS)
    make_edges(const __grid_constant__ gconv_feature_tiles t, const float *kept, float *out) {
  each_pixel(t, kept, [&](const view &w, int32_t y, int32_t x) {
    float patch[3][3]; /* the border is symmetric: beside the image, it repeats the last sample */
    UNROLLED_FOR (int i = 0; i < 3; i++)
      UNROLLED_FOR (int j = 0; j < 3; j++)
        patch[i][j] = sample_at(w, min(max(y + i - 1, 0), t.height - 1), min(max(x + j - 1, 0), t.width - 1));
    out[(int64_t)(y - t.first) * t.width + x] = gconv_feature_sobel(&patch[1][1], 3);
  });
}

__global__ void __launch_bounds__(LANES *WARPS)
    make_texture(const __grid_constant__ gconv_feature_tiles t, const float *kept, float *large, float *small) {
  each_pixel(t, kept, [&](const view &w, int32_t y, int32_t x) {
    const bool inner = y >= 2 && y + 2 < t.height && x >= 2 && x + 2 < t.width;
    float patch[5][5];
    UNROLLED_FOR (int i = 0; i < 5; i++)
      UNROLLED_FOR (int j = 0; j < 5; j++)
        if ((i - 2) * (i - 2) + (j - 2) * (j - 2) <= 4)
          patch[i][j] = inner ? sample_at(w, y + i - 2, x + j - 2) : linear_at(w, y + i - 2, x + j - 2);
    const int64_t at = (int64_t)(y - t.first) * t.width + x;
    gconv_feature_bend(&patch[2][2], 5, &large[at], &small[at]);
  });
}

/* ---- Samples ---- */

template <class Sample> DEVICE float float_of(const gconv_image &image, int32_t channel, bool greys, const Sample *pixel) {
  const bool is_float = sizeof(Sample) == sizeof(float);
  const float white = sizeof(Sample) == 1 ? 255.0f : 65535.0f;
  if (!greys)
    return is_float ? (float)pixel[channel] : (float)pixel[channel] / white;
  if (is_float)
    return 0.299f * (float)pixel[0] + 0.587f * (float)pixel[1] + 0.114f * (float)pixel[2];
  const uint32_t sum = 299 * (uint32_t)pixel[0] + 587 * (uint32_t)pixel[1] + 114 * (uint32_t)pixel[2];
  return (float)((double)sum / (1000 * (double)white));
}

template <class Sample>
__global__ void convert(const __grid_constant__ gconv_image image, int32_t channel, bool greys, int32_t rows, float *plane) {
  const int32_t x = (int32_t)(blockIdx.x * LANES + threadIdx.x);
  const uint8_t *from = (const uint8_t *)image.data + (image.planar ? (size_t)channel * image.plane_bytes : 0);
  const int32_t step = image.planar ? 1 : image.channels;
  for (int32_t y = (int32_t)(blockIdx.y * WARPS + threadIdx.y); y < rows; y += (int32_t)gridDim.y * WARPS)
    if (x < image.width)
      plane[(int64_t)y * image.width + x] =
          float_of(image, image.planar ? 0 : channel, greys,
                   (const Sample *)(from + (size_t)y * image.row_bytes) + (int64_t)x * step);
}

dim3 grid_of(int32_t width, int32_t rows) {
  const int64_t down = divide_up(rows, WARPS);
  return dim3((unsigned)divide_up(width, LANES), (unsigned)(down < 65535 ? down : 65535));
}

dim3 tile_grid(const gconv_feature_tiles *t) {
  return dim3((unsigned)divide_up(t->width, LANES), (unsigned)t->down);
}

} // namespace

void gconv_feature_edges(const gconv_feature_tiles *tiles, const float *kept, float *out, cudaStream_t stream) {
  make_edges<<<tile_grid(tiles), dim3(LANES, WARPS), 0, stream>>>(*tiles, kept, out);
}

void gconv_feature_texture(const gconv_feature_tiles *tiles, const float *kept, float *large, float *small,
                           cudaStream_t stream) {
  make_texture<<<tile_grid(tiles), dim3(LANES, WARPS), 0, stream>>>(*tiles, kept, large, small);
}

void gconv_feature_convert(const gconv_image *image, int32_t channel, bool greys, int32_t rows, float *plane,
                           cudaStream_t stream) {
  auto *kernel = image->type == GCONV_U8 ? convert<uint8_t> : image->type == GCONV_U16 ? convert<uint16_t> : convert<float>;
  kernel<<<grid_of(image->width, rows), dim3(LANES, WARPS), 0, stream>>>(*image, channel, greys, rows, plane);
}

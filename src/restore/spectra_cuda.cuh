/* SPDX-License-Identifier: MIT */
/* Products of spectra on a GPU: what spectra.c does on the CPU, with the same sizes and radices. lucy_cuda.cu and
 * wiener_cuda.cu have the functions that load and store samples. */
#pragma once

#include "base/memory.h"
#include "device/cuda_error.h"
#include "device/device.h"
#include "kernels/cpu/fft_columns.h"
#include "kernels/cuda/fast/spectra.cuh"

namespace {

/* The spectrum of taps, and memory for spectra of images, on a GPU. All work goes into one stream. */
struct spectra {
  gconv_fft_mixed along[3]; /* z, y, x; owned */
  spectra_axis axes[3];
  float2 *points, *h, *twiddles; /* owned */
  int pitch;
  cudaStream_t stream;
};

inline void free_spectra(spectra *s) {
  for (gconv_fft_mixed &along : s->along)
    gconv_release(along.twiddles);
  cudaFree(s->points);
  cudaFree(s->h);
  cudaFree(s->twiddles);
  *s = {};
}

inline size_t shared_bytes(const spectra_axis &axis) {
  return ((size_t)axis.size + axis.size % 2 + (size_t)axis.size * axis.pitch) * sizeof(float2);
}

/* Sets how many lines a block transforms: so many that several blocks fit on a multiprocessor, or one. */
inline gconv_status make_axis(const gconv_fft_mixed *along, bool rows, const float2 *twiddles, spectra_axis *axis) {
  axis->size = (int)along->size;
  axis->twiddles = twiddles;
  for (int k = 0; k < SPECTRA_STAGES - 1 && along->radices[k] > 0; k++)
    axis->radices[k] = (signed char)along->radices[k];
  for (axis->lines_log = rows ? 3 : 5; axis->lines_log >= 0; axis->lines_log--) {
    axis->pitch = (1 << axis->lines_log) + (rows && axis->lines_log > 0); /* rows are transposed */
    if (shared_bytes(*axis) <= (56 << 10) || (axis->lines_log == 0 && shared_bytes(*axis) <= shared_limit() - 1024))
      return GCONV_OK;
  }
  return gconv_fail(GCONV_UNSUPPORTED,
                    "a GPU transforms lines of at most %zu points, and these have %d: take the device cpu",
                    (shared_limit() - 1024) / 16, axis->size);
}

template <spectra_way WAY>
gconv_status launch_across(const spectra *s, int axis, const spectra_across &a, int outer, float2 *points,
                           const spectra_product &product) {
  const spectra_axis &along = s->axes[axis];
  const size_t bytes = shared_bytes(along);
  const int64_t blocks = outer * (((a.across - 1) >> along.lines_log) + 1);
  GCONV_TRY(allow_shared(transform_across<WAY>, (int64_t)bytes));
  transform_across<WAY><<<(unsigned)blocks, SPECTRA_THREADS, bytes, s->stream>>>(along, a, points, product);
  return CUDA_STATUS(cudaGetLastError());
}

inline spectra_across along_y(const spectra *s, int used, int first, int stored) {
  return {s->pitch, s->pitch, (int64_t)s->axes[1].size * s->pitch, used, first, stored};
}
inline spectra_across along_z(const spectra *s, int used, int stored) {
  return {(int64_t)s->axes[1].size * s->pitch, (int64_t)s->axes[1].size * s->pitch, 0, used, 0, stored};
}

inline int64_t row_blocks(const spectra *s, const spectra_lines &lines) {
  return (((int64_t)lines.rows * lines.planes - 1) >> s->axes[2].lines_log) + 1;
}

template <class Load>
gconv_status launch_rows(const spectra *s, float2 *points, const spectra_lines &lines, const Load &load) {
  const size_t bytes = shared_bytes(s->axes[2]);
  GCONV_TRY(allow_shared(transform_rows<Load>, (int64_t)bytes));
  transform_rows<Load><<<(unsigned)row_blocks(s, lines), SPECTRA_THREADS, bytes, s->stream>>>(
      s->axes[2], {points, s->pitch, s->axes[1].size}, lines, load);
  return CUDA_STATUS(cudaGetLastError());
}

/* Loads lines, multiplies spectra, and stores lines. totals: [row_blocks(s, out)][SUMS]. */
template <int SUMS, class Load, class Store>
gconv_status run_spectra(const spectra *s, const spectra_lines &in, const Load &load, const spectra_product &product,
                         const spectra_lines &out, const Store &store, double *totals) {
  const size_t bytes = shared_bytes(s->axes[2]);
  const int used = in.first + in.rows;
  GCONV_TRY(launch_rows(s, s->points, in, load));
  if (s->axes[0].size > 1) {
    GCONV_TRY(launch_across<SPECTRA_FORWARD>(s, 1, along_y(s, used, 0, s->axes[1].size), in.planes, s->points, product));
    GCONV_TRY(launch_across<SPECTRA_MULTIPLY>(s, 0, along_z(s, in.planes, out.planes), 1, s->points, product));
    GCONV_TRY(launch_across<SPECTRA_BACKWARD>(s, 1, along_y(s, s->axes[1].size, out.first, out.rows), out.planes, s->points,
                                              product));
  } else
    GCONV_TRY(launch_across<SPECTRA_MULTIPLY>(s, 1, along_y(s, used, out.first, out.rows), 1, s->points, product));
  GCONV_TRY(allow_shared(transform_rows_back<SUMS, Store>, (int64_t)bytes));
  transform_rows_back<SUMS><<<(unsigned)row_blocks(s, out), SPECTRA_THREADS, bytes, s->stream>>>(
      s->axes[2], {s->points, s->pitch, s->axes[1].size}, out, store, totals);
  return CUDA_STATUS(cudaGetLastError());
}

/* Makes the spectrum of taps in host memory. sizes: planes, rows, columns. */
inline gconv_status make_spectrum(spectra *s, const gconv_device *device, const float *taps, const int32_t size[3],
                                  const int32_t centre[3]) {
  const int z = s->axes[0].size, y = s->axes[1].size, count = size[0] * size[1] * size[2];
  const size_t points = (size_t)z * y * s->pitch * sizeof(float2);
  float *there = (float *)s->points;
  const spectra_points h = {s->h, s->pitch, y};
  CUDA_TRY(cudaMemsetAsync(s->points, 0, points, s->stream));
  CUDA_TRY(cudaMemsetAsync(s->h, 0, points, s->stream));
  CUDA_TRY(cudaMemcpyAsync(there, taps, (size_t)count * sizeof *taps, cudaMemcpyHostToDevice, s->stream));
  place_taps<<<(unsigned)((count - 1) / SPECTRA_THREADS + 1), SPECTRA_THREADS, 0, s->stream>>>(
      there, make_int3(size[2], size[1], size[0]), make_int3(centre[2], centre[1], centre[0]),
      make_int3(s->axes[2].size, y, z), h);
  GCONV_TRY(launch_rows(s, s->h, {0, y, z}, spectra_load_points{h}));
  GCONV_TRY(launch_across<SPECTRA_FORWARD>(s, 1, along_y(s, y, 0, y), z, s->h, {}));
  if (z > 1)
    GCONV_TRY(launch_across<SPECTRA_FORWARD>(s, 0, along_z(s, z, z), 1, s->h, {}));
  CUDA_TRY(cudaMemsetAsync(s->points, 0, points, s->stream));
  return CUDA_STATUS(cudaStreamSynchronize(s->stream));
}

/* Makes spectra of at least `least` planes, rows and columns. Free them with free_spectra(), also on failure. */
inline gconv_status make_spectra_of(const gconv_device *device, const size_t least[3], const float *taps,
                                    const int32_t size[3], const int32_t centre[3], cudaStream_t stream, spectra *s) {
  size_t twiddles = 0;
  *s = {};
  s->stream = stream;
  for (int i = 0; i < 3; i++) {
    if (least[i] > 1 << 20)
      return gconv_fail(GCONV_TOO_LARGE, "a GPU restores images of up to %d rows and columns: take the device cpu", 1 << 20);
    GCONV_TRY(gconv_fft_mixed_make(least[i], &s->along[i]));
    twiddles += s->along[i].size;
  }
  GCONV_TRY(gconv_cuda_allocate(device, twiddles * sizeof(float2), "twiddle factors", (void **)&s->twiddles));
  float2 *at = s->twiddles;
  for (int i = 0; i < 3; at += s->along[i++].size) {
    GCONV_TRY(gconv_cuda_upload(at, s->along[i].twiddles, s->along[i].size * sizeof(float2)));
    GCONV_TRY(make_axis(&s->along[i], i == 2, at, &s->axes[i]));
  }
  s->pitch = (s->axes[2].size + 15) / 16 * 16;
  const size_t bytes[] = {s->along[0].size, s->along[1].size, (size_t)s->pitch, sizeof(float2)};
  const size_t all = gconv_checked_product(4, bytes);
  GCONV_TRY(gconv_cuda_allocate(device, all, "the spectrum of the image", (void **)&s->points));
  GCONV_TRY(gconv_cuda_allocate(device, all, "the spectrum of the PSF", (void **)&s->h));
  return make_spectrum(s, device, taps, size, centre);
}

} // namespace

/* SPDX-License-Identifier: MIT */
/* Wiener's filter on a GPU: what wiener.c does on the CPU, by products of spectra (spectra_cuda.cuh). */
#include "device/cuda_error.h"
#include "device/guest_cuda.h"
#include "restore/restore.h"
#include "restore/spectra_cuda.cuh"

static const cudaStream_t STREAM = cudaStreamPerThread;

namespace {

struct colours {
  const gconv_wiener_place *planes, *rows, *columns;
  float *samples;
  int depth, height, width, channels, channel; /* channel: of part 0; the next one is part 1 */
  float mean[2];
};

/* Returns a point of the extended image minus the mean: the weighted sum of up to two samples along each axis. */
struct load_colours {
  colours c;
  DEVICE float load(int z, int y, int x, int part) const {
    const gconv_wiener_place of[] = {c.planes[z], c.rows[y], c.columns[x]};
    float sum = 0;
    for (int k = 0; k < 8 && c.channel + part < c.channels; k++) {
      const int a = k >> 2, b = k >> 1 & 1, d = k & 1;
      const float weight =
          (a ? of[0].share : 1 - of[0].share) * (b ? of[1].share : 1 - of[1].share) * (d ? of[2].share : 1 - of[2].share);
      if (weight <= 0)
        continue;
      const float v = c.samples[(((int64_t)of[0].at[a] * c.height + of[1].at[b]) * c.width + of[2].at[d]) * c.channels +
                                c.channel + part];
      sum += isfinite(v) ? weight * (v - c.mean[part]) : 0;
    }
    return sum;
  }
  DEVICE float2 operator()(int z, int y, int x) const {
    return make_float2(load(z, y, x, 0), load(z, y, x, 1));
  }
};

struct store_colours {
  colours c;
  DEVICE int fetch(int, int, int) const {
    return 0;
  }
  DEVICE void operator()(int z, int y, int x, float2 point, int, double *) const {
    float *to = c.samples + (((int64_t)z * c.height + y) * c.width + x) * c.channels + c.channel;
    if (x >= c.width)
      return;
    to[0] = point.x + c.mean[0];
    if (c.channel + 1 < c.channels)
      to[1] = point.y + c.mean[1];
  }
};

struct memory {
  spectra s;
  float *samples;
  gconv_wiener_place *places;
};

gconv_status restore(const gconv_wiener *w, memory *m) {
  const gconv_restored *r = w->r;
  const size_t bytes = (size_t)r->size[0] * r->size[1] * r->size[2] * r->channels * sizeof(float);
  GCONV_TRY(make_spectra_of(r->device, w->least, r->psf->taps, r->psf->size, r->psf->centre, STREAM, &m->s));
  const int sizes[] = {m->s.axes[0].size, m->s.axes[1].size, m->s.axes[2].size};
  GCONV_TRY(gconv_cuda_allocate(r->device, bytes, "the image", (void **)&m->samples));
  GCONV_TRY(gconv_cuda_allocate(r->device, (size_t)(sizes[0] + sizes[1] + sizes[2]) * sizeof *m->places, "the edges",
                                (void **)&m->places));
  colours c = {m->places,  m->places + sizes[0], m->places + sizes[0] + sizes[1], m->samples, r->size[0], r->size[1],
               r->size[2], r->channels};
  GCONV_TRY(gconv_cuda_upload(m->samples, r->samples, bytes));
  for (int i = 0, at = 0; i < 3; at += sizes[i++])
    GCONV_TRY(gconv_cuda_upload(m->places + at, w->places[i], (size_t)sizes[i] * sizeof *m->places));
  const float scale = (float)(1.0 / ((double)sizes[0] * sizes[1] * sizes[2]));
  for (; c.channel < c.channels; c.channel += 2) {
    for (int part = 0; part < 2; part++)
      c.mean[part] = c.channel + part < c.channels ? w->means[c.channel + part] : 0;
    GCONV_TRY((run_spectra<0>(&m->s, {0, sizes[1], sizes[0]}, load_colours{c}, {m->s.h, 2, w->noise, scale},
                              {0, r->size[1], r->size[0]}, store_colours{c}, nullptr)));
  }
  CUDA_TRY(cudaMemcpyAsync(r->samples, m->samples, bytes, cudaMemcpyDeviceToHost, STREAM));
  return CUDA_STATUS(cudaStreamSynchronize(STREAM));
}

} // namespace

extern "C" gconv_status gconv_wiener_cuda(const gconv_wiener *w) {
  gconv_cuda_guest guest(w->r->device->index);
  memory m = {};
  const gconv_status status = restore(w, &m);
  free_spectra(&m.s);
  cudaFree(m.samples);
  cudaFree(m.places);
  return status;
}

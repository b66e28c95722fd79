/* SPDX-License-Identifier: MIT */
/* Richardson-Lucy on a GPU: convolutions are products of spectra, and the kernels that store their samples also process the
 * samples (spectra_cuda.cuh). Sums are added in a fixed order. */
#include "device/cuda_error.h"
#include "device/guest_cuda.h"
#include "device/transfer_cuda.h"
#include "restore/lucy.h"
#include "restore/spectra_cuda.cuh"

static const cudaStream_t STREAM = cudaStreamPerThread;
enum { THREADS = SPECTRA_THREADS, PROJECT_SUMS = GCONV_LUCY_CHANGE, UPDATE_SUMS = GCONV_LUCY_SUMS - GCONV_LUCY_CHANGE };

namespace {

struct state {
  spectra s;
  double *totals, *sums;      /* one allocation: [PROJECT_SUMS] and [UPDATE_SUMS] of each block, then [GCONV_LUCY_SUMS] */
  int64_t projected, updated; /* blocks of project() and of update() */
};

/* Samples that are loaded or stored: row y of part 0 is row y - before of the image, that of part 1 lies `half` below. */
struct map {
  int height, width, channels, channel, half, before;
  DEVICE int64_t place(int z, int y, int x) const {
    return (((int64_t)z * height + y) * width + x) * channels + channel;
  }
};

struct load_samples {
  map at;
  const float *from;
  DEVICE float load(int z, int y, int x) const {
    return y >= 0 && y < at.height && x < at.width ? from[at.place(z, y, x)] : 0;
  }
  DEVICE float2 operator()(int z, int y, int x) const {
    return make_float2(load(z, y - at.before, x), load(z, y - at.before + at.half, x));
  }
};

/* For each sample i, calls f = each.fetch(i), and then each(i, value, f, sums). */
template <class Each> struct store_samples {
  map at;
  Each each;
  struct fetched {
    decltype(each.fetch(0)) of[2];
  };
  DEVICE bool has(int y, int x) const {
    return y < at.height && x < at.width;
  }
  DEVICE fetched fetch(int z, int y, int x) const {
    fetched f;
    UNROLLED_FOR (int part = 0; part < 2; part++)
      if (has(y - at.before + part * at.half, x))
        f.of[part] = each.fetch(at.place(z, y - at.before + part * at.half, x));
    return f;
  }
  DEVICE void operator()(int z, int y, int x, float2 point, const fetched &f, double *sums) const {
    UNROLLED_FOR (int part = 0; part < 2; part++)
      if (has(y - at.before + part * at.half, x))
        each(at.place(z, y - at.before + part * at.half, x), part ? point.y : point.x, f.of[part], sums);
  }
};

struct divide {
  const float *y;
  float *ratio, least;
  bool deviance;
  DEVICE float fetch(int64_t i) const {
    return y[i];
  }
  DEVICE void operator()(int64_t i, float blurred, float observed, double *sums) const {
    const float b = blurred > least ? blurred : least;
    const bool there = observed == observed;
    sums[GCONV_LUCY_FLUX] += there ? (double)blurred : 0;
    if (deviance && there)
      sums[GCONV_LUCY_DEVIANCE] += gconv_lucy_deviance((double)observed, (double)b);
    ratio[i] = there ? observed / b : 0;
  }
};

struct correct {
  const float *guess, *inverse, *before;
  float *x, *last; /* last: NULL if not accelerated */
  DEVICE float4 fetch(int64_t i) const {
    const float old = guess[i];
    return make_float4(old, inverse[i], before == guess ? old : before[i], last ? last[i] : 0);
  }
  DEVICE void operator()(int64_t i, float up, float4 of, double *sums) const {
    const float product = of.x * up * of.y, v = product > 0 ? product : 0, d = v - of.z, step = v - of.x;
    x[i] = v;
    sums[GCONV_LUCY_CHANGE - PROJECT_SUMS] += (double)d * (double)d;
    sums[GCONV_LUCY_SIZE - PROJECT_SUMS] += (double)v * (double)v;
    if (!last)
      return;
    sums[GCONV_LUCY_PRODUCT - PROJECT_SUMS] += (double)step * (double)of.w;
    sums[GCONV_LUCY_LAST - PROJECT_SUMS] += (double)of.w * (double)of.w;
    last[i] = step;
  }
};

struct invert {
  float *inverse;
  DEVICE float fetch(int64_t) const {
    return 0;
  }
  DEVICE void operator()(int64_t i, float up, float, double *) const {
    inverse[i] = up > GCONV_LUCY_LEAST_WEIGHT ? 1 / up : 0;
  }
};

struct estimate {
  const float *inverse;
  float *guess, *x;
  DEVICE float fetch(int64_t i) const {
    return inverse[i];
  }
  DEVICE void operator()(int64_t i, float up, float inverted, double *) const {
    const float value = up * inverted;
    guess[i] = x[i] = value > 0 ? value : 0;
  }
};

/* ---- Loops ---- */

/* ratio = y, or 1 if `ones`; 0 where y is missing. */
__global__ void observe(const float *y, float *ratio, bool ones, int64_t count) {
  for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < count; i += (int64_t)gridDim.x * THREADS)
    ratio[i] = y[i] != y[i] ? 0 : ones ? 1 : y[i];
}

__global__ void predict_samples(const float *x, const float *before, const double *sums, float *guess, int64_t count) {
  const float step = gconv_lucy_step(sums);
  for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < count; i += (int64_t)gridDim.x * THREADS) {
    const float v = fmaf(step, x[i] - before[i], x[i]);
    guess[i] = v > 0 ? v : 0;
  }
}

__global__ void vary(gconv_lucy l, int channels, float lambda) {
  for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < (int64_t)l.large_count;
       i += (int64_t)gridDim.x * THREADS)
    l.corrected[i] = l.inverse[i] * gconv_lucy_variation(&l, channels, lambda, i);
}

/* Block k adds up column k of totals[blocks][gridDim.x]. */
__global__ void add_totals(const double *totals, int64_t blocks, double *sums) {
  __shared__ double all[THREADS];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < blocks; i += THREADS)
    sum += totals[i * gridDim.x + blockIdx.x];
  all[threadIdx.x] = sum;
  for (unsigned half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      all[threadIdx.x] += all[threadIdx.x + half];
  }
  if (threadIdx.x == 0)
    sums[blockIdx.x] = all[0];
}

unsigned grid_for(size_t count) {
  return blocks_for((int64_t)count, THREADS, 1 << 14);
}

/* ---- Steps ---- */

/* Convolves all channels. `which`: 0 is H, whose results are as large as the image; 1 is H^T. */
template <int SUMS, class Each>
gconv_status convolve(const gconv_lucy *l, int which, const float *from, const Each &each, double *totals) {
  const gconv_restored *r = l->r;
  const state *st = (const state *)l->state;
  const int32_t *in = which == 0 ? l->large_size : r->size, *out = which == 0 ? r->size : l->large_size;
  const int half = (out[1] + 1) / 2, before = which == 0 ? 0 : out[1] - in[1];
  const float scale = (float)(1.0 / ((double)st->s.axes[0].size * st->s.axes[1].size * st->s.axes[2].size));
  const spectra_product product = {st->s.h, which == 0, 0, scale};
  const spectra_lines loaded = {0, half + r->psf->size[1] - 1, in[0]}, stored = {before, half, out[0]};
  for (int c = 0; c < r->channels; c++, totals += row_blocks(&st->s, stored) * SUMS) {
    const load_samples load = {{in[1], in[2], r->channels, c, half, before}, from};
    const store_samples<Each> store = {{out[1], out[2], r->channels, c, half, before}, each};
    GCONV_TRY((run_spectra<SUMS>(&st->s, loaded, load, product, stored, store, totals)));
  }
  return GCONV_OK;
}

gconv_status project(gconv_lucy *l) {
  gconv_cuda_guest guest(l->r->device->index);
  const state *st = (const state *)l->state;
  const divide each = {l->y, l->ratio, l->least, l->r->options->deviance};
  GCONV_TRY((convolve<PROJECT_SUMS>(l, 0, l->guess, each, st->totals)));
  add_totals<<<PROJECT_SUMS, THREADS, 0, STREAM>>>(st->totals, st->projected, st->sums);
  return CUDA_STATUS(cudaGetLastError());
}

gconv_status update(gconv_lucy *l) {
  gconv_cuda_guest guest(l->r->device->index);
  const state *st = (const state *)l->state;
  double *totals = st->totals + st->projected * PROJECT_SUMS;
  if (l->corrected)
    vary<<<grid_for(l->large_count), THREADS, 0, STREAM>>>(*l, l->r->channels, (float)l->r->options->total_variation);
  const correct each = {l->guess, l->corrected ? l->corrected : l->inverse, l->before ? l->before : l->guess, l->x,
                        l->last_step};
  GCONV_TRY((convolve<UPDATE_SUMS>(l, 1, l->ratio, each, totals)));
  add_totals<<<UPDATE_SUMS, THREADS, 0, STREAM>>>(totals, st->updated, st->sums + PROJECT_SUMS);
  return CUDA_STATUS(cudaGetLastError());
}

gconv_status predict(gconv_lucy *l) {
  gconv_cuda_guest guest(l->r->device->index);
  predict_samples<<<grid_for(l->large_count), THREADS, 0, STREAM>>>(l->x, l->before, ((const state *)l->state)->sums,
                                                                    l->guess, (int64_t)l->large_count);
  return CUDA_STATUS(cudaGetLastError());
}

gconv_status get_sums(gconv_lucy *l, double sums[GCONV_LUCY_SUMS]) {
  gconv_cuda_guest guest(l->r->device->index);
  CUDA_TRY(cudaMemcpyAsync(sums, ((const state *)l->state)->sums, GCONV_LUCY_SUMS * sizeof *sums, cudaMemcpyDeviceToHost,
                           STREAM));
  return CUDA_STATUS(cudaStreamSynchronize(STREAM));
}

/* ---- Memory ---- */

gconv_status allocate(gconv_lucy *l, size_t count, const char *what, float **samples) {
  gconv_cuda_guest guest(l->r->device->index);
  return gconv_cuda_allocate(l->r->device, count * sizeof(float), what, (void **)samples);
}

void release(gconv_lucy *l, float *samples) {
  gconv_cuda_guest guest(l->r->device->index);
  cudaFree(samples);
}

/* Returns a dense image with the pixels `from`, which are on the host or on the GPU. */
gconv_image image_of(const gconv_restored *r, float *from) {
  const gconv_image shape = {
      .type = GCONV_F32, .frames = r->size[0], .height = r->size[1], .width = r->size[2], .channels = r->channels};
  return gconv_dense_image(&shape, from);
}

gconv_status prepare(gconv_lucy *l, state *st) {
  const gconv_restored *r = l->r;
  const gconv_psf *psf = r->psf;
  const size_t least[] = {(size_t)l->large_size[0], (size_t)(l->large_size[1] + 1) / 2 + (size_t)psf->size[1],
                          (size_t)l->large_size[2]};
  const int32_t origin[3] = {};
  GCONV_TRY(make_spectra_of(r->device, least, psf->turned, psf->size, origin, STREAM, &st->s));
  st->projected = r->channels * row_blocks(&st->s, {0, (r->size[1] + 1) / 2, r->size[0]});
  st->updated = r->channels * row_blocks(&st->s, {0, (l->large_size[1] + 1) / 2, l->large_size[0]});
  const size_t sums = (size_t)(st->projected * PROJECT_SUMS + st->updated * UPDATE_SUMS);
  GCONV_TRY(gconv_cuda_allocate(r->device, (sums + GCONV_LUCY_SUMS) * sizeof(double), "sums", (void **)&st->totals));
  st->sums = st->totals + sums;
  GCONV_TRY(gconv_cuda_allocate(r->device, l->count * sizeof(float), "the image", (void **)&l->y));
  const gconv_image host = image_of(r, r->samples), there = image_of(r, l->y);
  return gconv_upload((gconv_slabs *)r->device->state, r->device->threads, &there, &host, STREAM);
}

gconv_status begin(gconv_lucy *l) {
  gconv_cuda_guest guest(l->r->device->index);
  state *st = (state *)calloc(1, sizeof *st);
  l->state = st;
  GCONV_NEED_MEMORY(st, "no memory for the restored image");
  GCONV_TRY(prepare(l, st));
  if (l->last_step)
    CUDA_TRY(cudaMemsetAsync(l->last_step, 0, l->large_count * sizeof(float), STREAM));
  for (int ones = 1; ones >= 0; ones--) {
    observe<<<grid_for(l->count), THREADS, 0, STREAM>>>(l->y, l->ratio, ones, (int64_t)l->count);
    GCONV_TRY(ones ? convolve<0>(l, 1, l->ratio, invert{l->inverse}, st->totals)
                   : convolve<0>(l, 1, l->ratio, estimate{l->inverse, l->guess, l->x}, st->totals));
  }
  return GCONV_OK;
}

gconv_status finish(gconv_lucy *l, const float *x) {
  gconv_cuda_guest guest(l->r->device->index);
  const gconv_restored *r = l->r;
  const gconv_image host = image_of(r, r->samples), there = image_of(r, l->ratio);
  gconv_image from = there; /* the image's part of x */
  from.row_bytes = (size_t)l->large_size[2] * (size_t)r->channels * sizeof(float);
  from.plane_bytes = from.row_bytes * (size_t)l->large_size[1];
  from.data = (uint8_t *)x + (size_t)l->first[0] * from.plane_bytes + (size_t)l->first[1] * from.row_bytes +
              (size_t)l->first[2] * (size_t)r->channels * sizeof(float);
  GCONV_TRY(gconv_copy_on_device(&from, &there, STREAM));
  return gconv_download((gconv_slabs *)r->device->state, r->device->threads, &there, &host, STREAM);
}

void end(gconv_lucy *l) {
  gconv_cuda_guest guest(l->r->device->index);
  state *st = (state *)l->state;
  cudaStreamSynchronize(STREAM);
  if (st) {
    free_spectra(&st->s);
    cudaFree(st->totals);
  }
  cudaFree(l->y);
  free(st);
}

} // namespace

extern "C" const gconv_lucy_type gconv_lucy_type_cuda = {allocate, release,  begin,  project, update,
                                                         predict,  get_sums, finish, end};

/* SPDX-License-Identifier: MIT */
/*
 * Support vector machines over pixels whose features are in device memory. The GPU counts votes. For probabilities, sums are
 * copied to the host, and the CPU couples them. If a model does not fit float32, features are copied to the host, and
 * float64 predicts. Both are done in pieces, so that they take little host memory.
 */
#include "device/device.h"
#include "device/guest_cuda.h"
#include "device/timeline_cuda.h"
#include "kernels/cuda/svm/pixels.h"
#include "svm/pixels.h"

#include <algorithm>
#include <cmath>
#include <stdlib.h>

enum {
  PIECE = 1 << 20,      /* pixels whose sums are in device memory */
  HOST_PIECE = 1 << 16, /* pixels whose sums or features are in host memory */
  TURN = 1024           /* pixels whose sums a thread couples at a time */
};

struct gconv_svm_there {
  gconv_device *device;
  const gconv_svm *model;
  const gconv_svm_lean *form;
  gconv_timeline line;
  gconv_svm_pixels machine; /* its arrays are in device memory, as are `arrays`, `sums` and `out` */
  gconv_svm_gpu_range range;
  void *arrays[6]; /* owned: points, coefficients, begins, rho, least, most */
  double *sums;    /* owned */
  float *out;      /* owned */
  size_t out_floats;
  void *host; /* owned: host memory for a piece */
};

static gconv_status put(gconv_svm_there *there, int array, const void *from, size_t bytes) {
  GCONV_TRY(gconv_cuda_allocate(there->device, std::max<size_t>(bytes, 1), "support vectors", &there->arrays[array]));
  return gconv_cuda_upload(there->arrays[array], from, bytes);
}

/* Bytes of host memory for a piece: sums or features; values; probabilities; rows; planes; classes. */
static size_t host_bytes(const gconv_svm_info *info) {
  const size_t classes = info->class_count, sums = classes * (classes - 1);
  const size_t doubles = std::max(sums, (info->columns + 1) / 2) + info->pair_count + classes;
  return HOST_PIECE * (doubles * sizeof(double) + (info->columns + classes + 1) * sizeof(float));
}

static gconv_status put_model(gconv_svm_there *there) {
  const gconv_svm *model = there->model;
  const gconv_svm_info *info = &model->info;
  const gconv_svm_pixels *m = &there->form->machine;
  const size_t vectors = m->begins[m->classes];
  GCONV_TRY(put(there, 0, m->points, vectors * m->columns * sizeof(float)));
  GCONV_TRY(put(there, 1, m->coefficients, vectors * m->wide * sizeof(float)));
  GCONV_TRY(put(there, 2, m->begins, (m->classes + 1) * sizeof(uint32_t)));
  GCONV_TRY(put(there, 3, model->rho, info->pair_count * sizeof(double)));
  there->machine = *m;
  there->machine.points = (const float *)there->arrays[0];
  there->machine.coefficients = (const float *)there->arrays[1];
  there->machine.begins = (const uint32_t *)there->arrays[2];
  there->range.lower = model->range.lower;
  there->range.upper = model->range.upper;
  if (model->range.least) {
    GCONV_TRY(put(there, 4, model->range.least, m->columns * sizeof(double)));
    GCONV_TRY(put(there, 5, model->range.most, m->columns * sizeof(double)));
    there->range.least = (const double *)there->arrays[4];
    there->range.most = (const double *)there->arrays[5];
  }
  const size_t sums = m->classes * m->wide * (size_t)PIECE * sizeof(double);
  return gconv_cuda_allocate(there->device, sums, "sums", (void **)&there->sums);
}

static gconv_status fill(gconv_svm_there *there) {
  const gconv_svm_info *info = &there->model->info;
  const bool fits = there->form->machine.columns > 0;
  gconv_cuda_guest guest(there->device->index);
  GCONV_TRY(gconv_timeline_make(&there->line));
  if (!fits || info->probabilities) {
    there->host = malloc(host_bytes(info));
    GCONV_NEED_MEMORY(there->host, "no memory for predictions");
  }
  return fits ? put_model(there) : GCONV_OK;
}

gconv_status gconv_svm_there_create(gconv_device *device, const gconv_svm *model, const gconv_svm_lean *form,
                                    gconv_svm_there **result) {
  gconv_svm_there *there = (gconv_svm_there *)calloc(1, sizeof *there);
  GCONV_NEED_MEMORY(there, "no memory for a model");
  there->device = device;
  there->model = model;
  there->form = form;
  const gconv_status status = fill(there);
  if (status != GCONV_OK) {
    gconv_svm_there_free(there);
    return status;
  }
  *result = there;
  return GCONV_OK;
}

void gconv_svm_there_free(gconv_svm_there *there) {
  if (!there)
    return;
  gconv_cuda_guest guest(there->device->index);
  for (void *array : there->arrays)
    cudaFree(array);
  cudaFree(there->sums);
  cudaFree(there->out);
  gconv_timeline_free(&there->line);
  gconv_svm_leave_gpu((gconv_svm *)there->model, there->device); /* the device may be closed before the model is freed */
  free(there->host);
  free(there);
}

/* ---- Pieces ---- */

/* The planes in device memory: features, and the predictions. */
struct planes {
  const float *in;
  float *out;
  size_t in_plane, out_plane;
};

static gconv_status sum_piece(gconv_svm_there *there, const planes &p, size_t first, size_t count) {
  gconv_svm_gpu_pixel_sums(&there->machine, &there->range, p.in + first, p.in_plane, count, PIECE, there->sums,
                           there->line.stream);
  return CUDA_STATUS(cudaGetLastError());
}

static gconv_status vote_piece(gconv_svm_there *there, const planes &p, size_t first, size_t count) {
  GCONV_TRY(sum_piece(there, p, first, count));
  gconv_svm_gpu_pixel_votes(there->machine.classes, (const double *)there->arrays[3], there->sums, count, PIECE,
                            p.out + first, p.out_plane, there->line.stream);
  return CUDA_STATUS(cudaGetLastError());
}

/* A piece in host memory, and its parts. */
struct host_piece {
  double *sums, *values, *probabilities; /* sums: if float64 predicts, the columns as floats */
  float *rows, *planes;
  int32_t *classes;
  size_t count;
  const gconv_svm *model;
  bool failed; /* set atomically: a turn of couple_turn() had no memory */
};

static host_piece cut(const gconv_svm_there *there, size_t count) {
  const gconv_svm_info *info = &there->model->info;
  const size_t classes = info->class_count, sums = std::max(classes * (classes - 1), (info->columns + 1) / 2);
  host_piece h = {};
  h.count = count;
  h.model = there->model;
  h.sums = (double *)there->host;
  h.values = h.sums + sums * HOST_PIECE;
  h.probabilities = h.values + info->pair_count * HOST_PIECE;
  h.rows = (float *)(h.probabilities + classes * HOST_PIECE);
  h.planes = h.rows + info->columns * HOST_PIECE;
  h.classes = (int32_t *)(h.planes + classes * HOST_PIECE);
  return h;
}

static gconv_status put_planes(gconv_svm_there *there, const host_piece &h, const planes &p, size_t first) {
  const bool probable = there->model->info.probabilities;
  gconv_svm_put_planes(there->model, h.classes, probable ? h.probabilities : NULL, h.count, h.planes, h.count);
  CUDA_TRY(cudaMemcpy2DAsync(p.out + first, p.out_plane * sizeof(float), h.planes, h.count * sizeof(float),
                             h.count * sizeof(float), there->model->info.class_count, cudaMemcpyHostToDevice,
                             there->line.stream));
  return CUDA_STATUS(cudaStreamSynchronize(there->line.stream));
}

static void couple_turn(void *context, size_t turn, int seat) {
  host_piece *h = (host_piece *)context;
  const size_t first = turn * TURN, count = std::min<size_t>(TURN, h->count - first);
  if (gconv_svm_lean_decide(h->model, h->sums + first, h->count, count, h->values + first * h->model->info.pair_count, NULL,
                            h->probabilities + first * h->model->info.class_count) != GCONV_OK)
    __atomic_store_n(&h->failed, true, __ATOMIC_RELAXED);
}

static gconv_status couple_piece(gconv_svm_there *there, const planes &p, size_t first, size_t count) {
  host_piece h = cut(there, count);
  GCONV_TRY(sum_piece(there, p, first, count));
  CUDA_TRY(cudaMemcpy2DAsync(h.sums, count * sizeof(double), there->sums, PIECE * sizeof(double), count * sizeof(double),
                             there->machine.classes * there->machine.wide, cudaMemcpyDeviceToHost, there->line.stream));
  CUDA_TRY(cudaStreamSynchronize(there->line.stream));
  gconv_threads_run(there->device->threads, (count + TURN - 1) / TURN, couple_turn, &h);
  GCONV_NEED_MEMORY(!h.failed, "no memory for predictions");
  return put_planes(there, h, p, first);
}

static gconv_status predict_piece(gconv_svm_there *there, const planes &p, size_t first, size_t count) {
  const gconv_svm_info *info = &there->model->info;
  host_piece h = cut(there, count);
  const float *columns = (const float *)h.sums;
  CUDA_TRY(cudaMemcpy2DAsync(h.sums, count * sizeof(float), p.in + first, p.in_plane * sizeof(float), count * sizeof(float),
                             info->columns, cudaMemcpyDeviceToHost, there->line.stream));
  CUDA_TRY(cudaStreamSynchronize(there->line.stream));
  for (size_t c = 0; c < info->columns; c++)
    for (size_t i = 0; i < count; i++)
      h.rows[i * info->columns + c] = std::isfinite(columns[c * count + i]) ? columns[c * count + i] : 0;
  const gconv_svm_results results = {h.classes, NULL, info->probabilities ? h.probabilities : NULL};
  GCONV_TRY(gconv_svm_predict(there->model, there->device, h.rows, count, &results));
  return put_planes(there, h, p, first);
}

/* ---- All ---- */

static gconv_status room_for(gconv_svm_there *there, size_t floats) {
  if (floats <= there->out_floats)
    return GCONV_OK;
  cudaFree(there->out);
  there->out = NULL;
  there->out_floats = 0;
  GCONV_TRY(gconv_cuda_allocate(there->device, floats * sizeof(float), "classes of pixels", (void **)&there->out));
  there->out_floats = floats;
  return GCONV_OK;
}

gconv_status gconv_svm_there_make(gconv_svm_there *there, const gconv_image *in, gconv_image *out, gconv_timings *timings) {
  const gconv_svm_info *info = &there->model->info;
  const size_t count = (size_t)in->height * (size_t)in->width;
  const bool fits = there->form->machine.columns > 0, here = !fits || info->probabilities;
  gconv_cuda_guest guest(there->device->index);
  GCONV_TRY(room_for(there, count * info->class_count));
  const planes p = {(const float *)in->data, there->out, in->plane_bytes / sizeof(float), count};
  gconv_image made = {};
  made.type = GCONV_F32;
  made.frames = 1;
  made.height = in->height;
  made.width = in->width;
  made.channels = (int32_t)info->class_count;
  made.planar = true;
  made.data = there->out;
  made.row_bytes = (size_t)in->width * sizeof(float);
  made.plane_bytes = count * sizeof(float);
  GCONV_TRY(gconv_timeline_mark(&there->line, BEGIN));
  const size_t piece = here ? HOST_PIECE : PIECE;
  for (size_t first = 0; first < count; first += piece) {
    const size_t some = std::min(piece, count - first);
    GCONV_TRY(!fits                 ? predict_piece(there, p, first, some)
              : info->probabilities ? couple_piece(there, p, first, some)
                                    : vote_piece(there, p, first, some));
  }
  gconv_svm_gpu_clear_planes(p.in, p.in_plane, info->columns, count, p.out, p.out_plane, info->class_count,
                             there->line.stream);
  CUDA_TRY(cudaGetLastError());
  GCONV_TRY(gconv_timeline_mark(&there->line, CONVOLVED));
  CUDA_TRY(cudaStreamSynchronize(there->line.stream)); /* the next stage has a stream of its own */
  *out = made;
  return gconv_timeline_add(&there->line, BEGIN, CONVOLVED, &timings->kernel_ms);
}

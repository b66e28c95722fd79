/* SPDX-License-Identifier: MIT */
#include "conv/cuda_error.h"
#include "conv/transfer_cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
  SLAB_BYTES = 2 << 20, /* smaller ones cost more to wait for, larger ones more to pin */
  SLABS_AT_WORK = 3,    /* of a transfer: one is filled, one is on the bus, one waits */
  MOST_SLABS = 12       /* four transfers at a time: more do not make the bus faster */
};

typedef struct slab {
  uint8_t *memory;
  cudaEvent_t moved; /* recorded behind the copy between it and the GPU */
} slab;

struct gconv_slabs {
  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t returned;
  slab all[MOST_SLABS]; /* the first `made` */
  int made;
  slab *free[MOST_SLABS]; /* the first `free_count` are not at work */
  int free_count;
};

/* ---- The pool ---- */

static gconv_status make_slab(gconv_slabs *slabs) {
  slab *made = &slabs->all[slabs->made];
  CUDA_TRY(cudaEventCreateWithFlags(&made->moved, cudaEventDisableTiming));
  cudaError_t error = cudaHostAlloc(&made->memory, SLAB_BYTES, cudaHostAllocPortable);
  if (error != cudaSuccess)
    cudaEventDestroy(made->moved);
  CUDA_TRY(error);
  slabs->made++;
  slabs->free[slabs->free_count++] = made;
  return GCONV_OK;
}

gconv_status gconv_slabs_create(gconv_slabs **result) {
  gconv_slabs *slabs = (gconv_slabs *)calloc(1, sizeof *slabs);
  if (!slabs)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a device");
  pthread_mutex_init(&slabs->lock, NULL);
  pthread_cond_init(&slabs->returned, NULL);
  gconv_status status = GCONV_OK;
  while (slabs->made < SLABS_AT_WORK && status == GCONV_OK)
    status = make_slab(slabs);
  if (status != GCONV_OK) {
    gconv_slabs_free(slabs);
    return status;
  }
  *result = slabs;
  return GCONV_OK;
}

void gconv_slabs_free(gconv_slabs *slabs) {
  if (!slabs)
    return;
  for (int i = 0; i < slabs->made; i++) {
    cudaFreeHost(slabs->all[i].memory);
    cudaEventDestroy(slabs->all[i].moved);
  }
  pthread_cond_destroy(&slabs->returned);
  pthread_mutex_destroy(&slabs->lock);
  free(slabs);
}

/* Takes up to `wanted` slabs (at least 1), and fewer where others have them; waits until there is one. */
static gconv_status take_slabs(gconv_slabs *slabs, int wanted, slab **taken, int *count) {
  gconv_status status = GCONV_OK;
  pthread_mutex_lock(&slabs->lock);
  while (slabs->free_count < wanted && slabs->made < MOST_SLABS && status == GCONV_OK)
    status = make_slab(slabs);
  while (slabs->free_count == 0 && slabs->made > 0)
    pthread_cond_wait(&slabs->returned, &slabs->lock);
  for (*count = 0; *count < wanted && slabs->free_count > 0;)
    taken[(*count)++] = slabs->free[--slabs->free_count];
  pthread_mutex_unlock(&slabs->lock);
  return *count > 0 ? GCONV_OK : status; /* what could not be pinned is done without */
}

static void return_slabs(gconv_slabs *slabs, slab *const *taken, int count) {
  pthread_mutex_lock(&slabs->lock);
  for (int i = 0; i < count; i++)
    slabs->free[slabs->free_count++] = taken[i];
  pthread_cond_broadcast(&slabs->returned);
  pthread_mutex_unlock(&slabs->lock);
}

/* ---- Between an image and a slab ---- */

size_t gconv_dense_row_bytes(const gconv_image *image) {
  return (size_t)image->width * (image->planar ? 1 : (size_t)image->channels) * gconv_type_bytes(image->type);
}

size_t gconv_all_rows(const gconv_image *image) {
  return (size_t)image->frames * (image->planar ? (size_t)image->channels : 1) * (size_t)image->height;
}

/* A transfer: bytes are numbered as they lie on the device. */
typedef struct transfer {
  const gconv_image *device, *host;
  size_t dense;  /* bytes of a row that count: what follows, up to the device's row_bytes, is a gap */
  size_t bytes;  /* of all rows on the device */
  bool straight; /* the host has them in the same places */
} transfer;

static transfer make_transfer(const gconv_image *device, const gconv_image *host) {
  transfer t = {device, host, gconv_dense_row_bytes(device), device->row_bytes * gconv_all_rows(device), false};
  bool one_plane = gconv_all_rows(device) == (size_t)device->height;
  t.straight =
      t.dense == device->row_bytes && host->row_bytes == t.dense && (one_plane || host->plane_bytes == device->plane_bytes);
  return t;
}

/* Copies bytes begin .. begin + size - 1 of the transfer from the host to `memory`, or back. */
static void copy_part(const transfer *t, size_t begin, size_t size, uint8_t *memory, bool up) {
  size_t pitch = t->straight ? t->bytes : t->device->row_bytes, dense = t->straight ? t->bytes : t->dense;
  for (size_t step; size > 0; begin += step, size -= step, memory += step) {
    size_t row = begin / pitch, byte = begin % pitch, height = (size_t)t->host->height;
    step = pitch - byte < size ? pitch - byte : size;
    if (byte >= dense)
      continue;
    size_t useful = dense - byte < step ? dense - byte : step;
    uint8_t *host =
        (uint8_t *)t->host->data + row / height * t->host->plane_bytes + row % height * t->host->row_bytes + byte;
    memcpy(up ? memory : host, up ? host : memory, useful);
  }
}

/* ---- Between a slab and the device ---- */

static size_t part_bytes(const transfer *t, size_t begin) {
  return t->bytes - begin < SLAB_BYTES ? t->bytes - begin : (size_t)SLAB_BYTES;
}

/* Sends the part of the image that begins at `begin` on its way, from or to the slab. */
static gconv_status move_part(const transfer *t, size_t begin, slab *through, bool up, cudaStream_t stream) {
  uint8_t *there = (uint8_t *)t->device->data + begin;
  CUDA_TRY(cudaMemcpyAsync(up ? there : through->memory, up ? through->memory : there, part_bytes(t, begin),
                           up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream));
  CUDA_TRY(cudaEventRecord(through->moved, stream));
  return GCONV_OK;
}

static gconv_status upload_parts(const transfer *t, slab *const *slabs, int count, cudaStream_t stream) {
  size_t part = 0;
  for (size_t begin = 0; begin < t->bytes; begin += SLAB_BYTES, part++) {
    slab *next = slabs[part % count];
    CUDA_TRY(cudaEventSynchronize(next->moved)); /* of the part before in this slab; at once if there was none */
    copy_part(t, begin, part_bytes(t, begin), next->memory, true);
    GCONV_TRY(move_part(t, begin, next, true, stream));
  }
  return GCONV_OK;
}

static gconv_status download_parts(const transfer *t, slab *const *slabs, int count, cudaStream_t stream) {
  size_t parts = (t->bytes - 1) / SLAB_BYTES + 1;
  for (size_t part = 0; part < parts && part < (size_t)count; part++) {
    CUDA_TRY(cudaStreamWaitEvent(stream, slabs[part]->moved, 0)); /* an upload in another stream may still read it */
    GCONV_TRY(move_part(t, part * SLAB_BYTES, slabs[part], false, stream));
  }
  for (size_t part = 0; part < parts; part++) {
    slab *next = slabs[part % count];
    CUDA_TRY(cudaEventSynchronize(next->moved));
    copy_part(t, part * SLAB_BYTES, part_bytes(t, part * SLAB_BYTES), next->memory, false);
    if (part + count < parts)
      GCONV_TRY(move_part(t, (part + count) * SLAB_BYTES, next, false, stream));
  }
  return GCONV_OK;
}

typedef gconv_status part_mover(const transfer *, slab *const *, int, cudaStream_t);

static gconv_status move_image(gconv_slabs *slabs, const transfer *t, part_mover *move, cudaStream_t stream) {
  slab *taken[SLABS_AT_WORK];
  size_t parts = (t->bytes - 1) / SLAB_BYTES + 1;
  int count = 0, wanted = parts < SLABS_AT_WORK ? (int)parts : SLABS_AT_WORK;
  GCONV_TRY(take_slabs(slabs, wanted, taken, &count));
  gconv_status status = move(t, taken, count, stream);
  if (status != GCONV_OK)
    cudaStreamSynchronize(stream); /* nothing is on its way to or from a slab that others take */
  return_slabs(slabs, taken, count);
  return status;
}

gconv_status gconv_upload(gconv_slabs *slabs, const gconv_image *device, const gconv_image *host, cudaStream_t stream) {
  transfer t = make_transfer(device, host);
  return move_image(slabs, &t, upload_parts, stream);
}

gconv_status gconv_download(gconv_slabs *slabs, const gconv_image *device, const gconv_image *host, cudaStream_t stream) {
  transfer t = make_transfer(device, host);
  return move_image(slabs, &t, download_parts, stream);
}

/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "device/cuda_error.h"
#include "device/guest_cuda.h"
#include "device/transfer_cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  SLAB_BYTES = 1 << 20, /* smaller slabs cost more in waiting */
  BLOCK_SLABS = 4,      /* slabs are pinned in blocks, because each call takes half a millisecond */
  MOST_SLABS = 64,      /* in all; many, because a receiver of parts keeps its slabs while it works */
  LANE_SLABS = 2,       /* a part of an image is copied into one slab while the bus reads an earlier part from the other */
  MOST_LANES = 4        /* threads of a transfer; more do not make the bus faster */
};

typedef struct slab {
  uint8_t *memory;
  cudaEvent_t moved; /* recorded after the slab's last copy from or to the GPU */
} slab;

struct gconv_slabs {
  int device;
  pthread_mutex_t lock; /* guards all fields below */
  pthread_cond_t returned;
  slab all[MOST_SLABS]; /* the first `made` exist; every BLOCK_SLABS-th owns the memory of its block */
  int made;
  slab *free[MOST_SLABS]; /* the first `free_count` are free */
  int free_count;
};

/* ---- The pool ---- */

static gconv_status make_block(gconv_slabs *slabs) {
  slab *block = &slabs->all[slabs->made];
  for (int i = 0; i < BLOCK_SLABS; i++)
    if (!block[i].moved)
      CUDA_TRY(cudaEventCreateWithFlags(&block[i].moved, cudaEventDisableTiming));
  CUDA_TRY(cudaHostAlloc(&block->memory, BLOCK_SLABS * SLAB_BYTES, cudaHostAllocPortable));
  for (int i = 0; i < BLOCK_SLABS; i++) {
    block[i].memory = block->memory + i * SLAB_BYTES;
    slabs->free[slabs->free_count++] = &block[i];
  }
  slabs->made += BLOCK_SLABS;
  return GCONV_OK;
}

gconv_status gconv_slabs_create(int device, gconv_slabs **result) {
  gconv_slabs *slabs = (gconv_slabs *)calloc(1, sizeof *slabs);
  GCONV_NEED_MEMORY(slabs, "no memory for a device");
  slabs->device = device;
  pthread_mutex_init(&slabs->lock, NULL);
  pthread_cond_init(&slabs->returned, NULL);
  gconv_status status = make_block(slabs);
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
  for (int i = 0; i < slabs->made; i += BLOCK_SLABS)
    cudaFreeHost(slabs->all[i].memory);
  for (int i = 0; i < MOST_SLABS; i++)
    if (slabs->all[i].moved)
      cudaEventDestroy(slabs->all[i].moved);
  pthread_cond_destroy(&slabs->returned);
  pthread_mutex_destroy(&slabs->lock);
  free(slabs);
}

/* Takes the slabs of a lane, or fewer if others have them. Waits until there is one. */
static int take_slabs(gconv_slabs *slabs, slab **taken) {
  int count = 0;
  pthread_mutex_lock(&slabs->lock);
  if (slabs->free_count < LANE_SLABS && slabs->made < MOST_SLABS)
    make_block(slabs); /* if pinning fails, the slabs that exist are enough: there is at least one block */
  while (slabs->free_count == 0)
    pthread_cond_wait(&slabs->returned, &slabs->lock);
  while (count < LANE_SLABS && slabs->free_count > 0)
    taken[count++] = slabs->free[--slabs->free_count];
  pthread_mutex_unlock(&slabs->lock);
  return count;
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

gconv_image gconv_dense_image(const gconv_image *shape, void *pixels) {
  gconv_image image = *shape;
  image.data = pixels;
  image.row_bytes = gconv_dense_row_bytes(&image);
  image.plane_bytes = image.row_bytes * (size_t)image.height;
  return image;
}

/* Returns whether there is no gap between planes. */
static bool is_one_plane(const gconv_image *image) {
  return image->plane_bytes == image->row_bytes * (size_t)image->height;
}

gconv_status gconv_copy_on_device(const gconv_image *from, const gconv_image *to, cudaStream_t stream) {
  const bool at_once = is_one_plane(from) && is_one_plane(to);
  const size_t all = gconv_all_rows(from), rows = at_once ? all : (size_t)from->height;
  for (size_t i = 0; i < all / rows; i++)
    CUDA_TRY(cudaMemcpy2DAsync((uint8_t *)to->data + i * to->plane_bytes, to->row_bytes,
                               (const uint8_t *)from->data + i * from->plane_bytes, from->row_bytes,
                               gconv_dense_row_bytes(from), rows, cudaMemcpyDeviceToDevice, stream));
  return GCONV_OK;
}

/* A transfer: bytes are numbered as they lie on the device. */
typedef struct transfer {
  const gconv_image *device, *host;
  size_t dense;  /* bytes of samples in a row; from there to the device's row_bytes is a gap */
  size_t bytes;  /* bytes of all rows on the device */
  bool straight; /* the host has the bytes in the same places */
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

/* Returns the number of parts of the image; each fits into a slab. */
static size_t part_count(const transfer *t) {
  return (t->bytes - 1) / SLAB_BYTES + 1;
}

static size_t part_bytes(const transfer *t, size_t part) {
  size_t rest = t->bytes - part * SLAB_BYTES;
  return rest < SLAB_BYTES ? rest : (size_t)SLAB_BYTES;
}

/* Starts to copy bytes between the slab and the device. */
static gconv_status move_bytes(slab *through, uint8_t *device, size_t bytes, bool up, cudaStream_t stream) {
  CUDA_TRY(cudaMemcpyAsync(up ? device : through->memory, up ? through->memory : device, bytes,
                           up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream));
  return CUDA_STATUS(cudaEventRecord(through->moved, stream));
}

static gconv_status move_part(const transfer *t, size_t part, slab *through, bool up, cudaStream_t stream) {
  return move_bytes(through, (uint8_t *)t->device->data + part * SLAB_BYTES, part_bytes(t, part), up, stream);
}

/* Receives parts begin .. end - 1 in their order. start(part, slab) starts to copy a part from the device. take(part, slab)
 * is called when the part is in the slab. Meanwhile, the next parts are copied into other slabs. */
template <class Start, class Take>
static gconv_status receive_parts(size_t begin, size_t end, slab *const *slabs, size_t count, cudaStream_t stream,
                                  Start start, Take take) {
  for (size_t part = begin; part < end && part < begin + count; part++) {
    CUDA_TRY(cudaStreamWaitEvent(stream, slabs[part % count]->moved, 0)); /* another upload may still read it */
    GCONV_TRY(start(part, slabs[part % count]));
  }
  for (size_t part = begin; part < end; part++) {
    slab *next = slabs[part % count];
    CUDA_TRY(cudaEventSynchronize(next->moved));
    take(part, next);
    if (part + count < end)
      GCONV_TRY(start(part + count, next));
  }
  return GCONV_OK;
}

/* Copies parts begin .. end - 1, using `count` slabs in turn. */
static gconv_status upload_parts(const transfer *t, size_t begin, size_t end, slab *const *slabs, int count,
                                 cudaStream_t stream) {
  for (size_t part = begin; part < end; part++) {
    slab *next = slabs[part % count];
    CUDA_TRY(cudaEventSynchronize(next->moved)); /* waits for the part before in this slab, if there was one */
    copy_part(t, part * SLAB_BYTES, part_bytes(t, part), next->memory, true);
    GCONV_TRY(move_part(t, part, next, true, stream));
  }
  return GCONV_OK;
}

static gconv_status download_parts(const transfer *t, size_t begin, size_t end, slab *const *slabs, int count,
                                   cudaStream_t stream) {
  return receive_parts(
      begin, end, slabs, (size_t)count, stream,
      [=](size_t part, slab *into) { return move_part(t, part, into, false, stream); },
      [=](size_t part, slab *from) { copy_part(t, part * SLAB_BYTES, part_bytes(t, part), from->memory, false); });
}

/* ---- Lanes ---- */

/* A transfer shared by threads: each lane has an equal share of the parts. */
typedef struct lanes {
  gconv_slabs *slabs;
  const transfer *t;
  bool up;
  cudaStream_t stream;
  size_t count;
  pthread_mutex_t lock; /* guards the fields below */
  gconv_status status;
  char why[256]; /* why it failed: the error text belongs to the thread, and the caller may be another thread */
} lanes;

static gconv_status move_lane(const lanes *l, size_t lane) {
  size_t parts = part_count(l->t), begin = parts * lane / l->count, end = parts * (lane + 1) / l->count;
  slab *taken[LANE_SLABS];
  gconv_cuda_guest guest(l->slabs->device);
  int count = take_slabs(l->slabs, taken);
  gconv_status status = l->up ? upload_parts(l->t, begin, end, taken, count, l->stream)
                              : download_parts(l->t, begin, end, taken, count, l->stream);
  if (status != GCONV_OK)
    cudaStreamSynchronize(l->stream); /* no copy from or to a slab may be under way when the slab is given back */
  return_slabs(l->slabs, taken, count);
  return status;
}

static void take_lane(void *context, size_t lane, int thread) {
  lanes *l = (lanes *)context;
  gconv_status status = move_lane(l, lane);
  if (status == GCONV_OK)
    return;
  pthread_mutex_lock(&l->lock);
  l->status = status;
  snprintf(l->why, sizeof l->why, "%s", gconv_last_error());
  pthread_mutex_unlock(&l->lock);
}

static gconv_status move_image(gconv_slabs *slabs, gconv_threads *threads, const transfer *t, bool up, cudaStream_t stream) {
  lanes l = {slabs, t, up, stream, part_count(t) / (2 * LANE_SLABS), PTHREAD_MUTEX_INITIALIZER, GCONV_OK, ""};
  size_t most =
      (size_t)gconv_threads_count(threads) < MOST_LANES ? (size_t)gconv_threads_count(threads) : (size_t)MOST_LANES;
  l.count = l.count < 1 ? 1 : l.count > most ? most : l.count;
  if (l.count == 1)
    return move_lane(&l, 0);
  if (!up) /* otherwise, threads that other work shares would wait for the kernel */
    CUDA_TRY(cudaStreamSynchronize(stream));
  gconv_threads_run(threads, l.count, take_lane, &l);
  return l.status == GCONV_OK ? GCONV_OK : gconv_fail(l.status, "%s", l.why);
}

gconv_status gconv_upload(gconv_slabs *slabs, gconv_threads *threads, const gconv_image *device, const gconv_image *host,
                          cudaStream_t stream) {
  transfer t = make_transfer(device, host);
  return move_image(slabs, threads, &t, true, stream);
}

gconv_status gconv_download(gconv_slabs *slabs, gconv_threads *threads, const gconv_image *device, const gconv_image *host,
                            cudaStream_t stream) {
  transfer t = make_transfer(device, host);
  return move_image(slabs, threads, &t, false, stream);
}

/* ---- In parts ---- */

gconv_status gconv_download_bytes(gconv_slabs *slabs, const void *device, size_t bytes, size_t unit, size_t step,
                                  gconv_take_bytes *take, void *user, cudaStream_t stream, double *waited_ms) {
  slab *taken[LANE_SLABS];
  size_t units = SLAB_BYTES / unit; /* of a part */
  if (units > step)
    units -= units % step;
  const size_t most = units * unit, parts = (bytes - 1) / most + 1;
  const auto size_of = [=](size_t part) { return part + 1 < parts ? most : bytes - part * most; };
  int count = take_slabs(slabs, taken);
  double free = gconv_now_ms(); /* when take() returned for the part before */
  gconv_status status = receive_parts(
      0, parts, taken, (size_t)count, stream,
      [=](size_t part, slab *into) {
        return move_bytes(into, (uint8_t *)device + part * most, size_of(part), false, stream);
      },
      [&](size_t part, slab *from) {
        *waited_ms += gconv_now_ms() - free;
        take(user, from->memory, size_of(part));
        free = gconv_now_ms();
      });
  if (status != GCONV_OK)
    cudaStreamSynchronize(stream); /* no copy to a slab may be under way when the slab is given back */
  return_slabs(slabs, taken, count);
  return status;
}

/* SPDX-License-Identifier: MIT */
/*
 * Decodes JPEG files on a GPU. nvJPEG undoes the coding and the cosine transform. Some GPUs, such as A100 and H100, have
 * engines for that. make_pixels() then makes pixels of the planes, as libjpeg-turbo does. The engines round the transform
 * as libjpeg does by default, so the pixels are the same, bit for bit. nvJPEG is loaded when the first file is decoded.
 *
 * An engine takes 2 ms for a megabyte of a file. nvJPEG serves one call at a time, but all engines work on the files of a
 * call. So the requests of several threads are collected during a call, and one of the threads makes the next call for all.
 */
#include "base/checksum.h"
#include "base/library.h"
#include "codec_cuda/codec.cuh"
#include "codec_cuda/jpeg_known.h"
#include "device/cuda_error.h"
#include "device/guest_cuda.h"

#include <pthread.h>
#include <stdlib.h>

/* ---- The part of nvJPEG that is used, declared here so that building does not need nvJPEG ---- */

namespace {

typedef struct nvjpegHandle *nvjpegHandle_t;
typedef struct nvjpegJpegState *nvjpegJpegState_t;

enum { BACKEND_HYBRID = 1, BACKEND_HARDWARE = 3, OUTPUT_YUV = 1, CSS_444 = 0, CSS_422 = 1, CSS_420 = 2, CSS_440 = 3 };
enum { COMPONENTS = 4, ALLOCATOR_FAILURE = 5, ARCH_MISMATCH = 7 };

/* nvjpegImage_t */
struct nvjpeg_image {
  unsigned char *channel[COMPONENTS];
  size_t pitch[COMPONENTS];
};

#define NVJPEG_CALLS(CALL)                                                                                                  \
  CALL(CreateEx, int backend, void *device_allocator, void *pinned_allocator, unsigned flags, nvjpegHandle_t *)             \
  CALL(Destroy, nvjpegHandle_t)                                                                                             \
  CALL(GetHardwareDecoderInfo, nvjpegHandle_t, unsigned *engines, unsigned *cores_of_each)                                  \
  CALL(JpegStateCreate, nvjpegHandle_t, nvjpegJpegState_t *)                                                                \
  CALL(JpegStateDestroy, nvjpegJpegState_t)                                                                                 \
  CALL(GetImageInfo, nvjpegHandle_t, const unsigned char *, size_t, int *components, int *sampling, int *widths,            \
       int *heights)                                                                                                        \
  CALL(DecodeBatchedInitialize, nvjpegHandle_t, nvjpegJpegState_t, int count, int threads, int output)                      \
  CALL(DecodeBatched, nvjpegHandle_t, nvjpegJpegState_t, const unsigned char *const *, const size_t *, nvjpeg_image *,      \
       cudaStream_t)

struct {
#define MEMBER(name, ...) int (*name)(__VA_ARGS__);
  NVJPEG_CALLS(MEMBER)
} nvjpeg;

#define SYMBOL(name, ...) {"nvjpeg" #name, &nvjpeg.name},
const char *const files[] = {"libnvjpeg.so.13", "libnvjpeg.so.12", NULL};
const gconv_symbol symbols[] = {NVJPEG_CALLS(SYMBOL){NULL, NULL}};
gconv_library library = {files, symbols, "", 0};

} // namespace

const char *gconv_jpeg_obstacle(void) {
  return gconv_library_load(&library);
}

/* ---- From planes to pixels ---- */

namespace {

/* Y, Cb and Cr. The latter two may have half as many columns or rows. */
struct planes {
  const uint8_t *data[3];
  size_t pitch[3];
  int32_t width, height;   /* size of Y and the image */
  int32_t columns, rows;   /* size of Cb and Cr */
  bool halved_x, halved_y; /* Cb and Cr have half as many columns; half as many rows */
};

/* Returns the share of a column of Cb or Cr in row y of the image: the nearest sample or, if rows are halved, 3 times the
 * nearest sample plus the second nearest. */
__device__ int column(const planes &p, int part, int32_t y, int32_t column) {
  column = min(max(column, 0), p.columns - 1);
  int32_t row = p.halved_y ? y / 2 : y;
  const uint8_t *near = p.data[part] + row * p.pitch[part] + column;
  if (!p.halved_y)
    return *near;
  int32_t beyond = min(max(row + (y % 2 ? 1 : -1), 0), p.rows - 1);
  return 3 * *near + p.data[part][beyond * p.pitch[part] + column];
}

/* Returns Cb or Cr of a pixel, interpolated and rounded as libjpeg's "fancy upsampling" does (jdsample.c): weights 3 and 1
 * along each axis that is halved, halves rounded up and down in turn. Images of up to 2 columns of colour are not
 * interpolated. */
__device__ int colour(const planes &p, int part, int32_t y, int32_t x) {
  if (!p.halved_x)
    return p.halved_y ? (column(p, part, y, x) + 1 + y % 2) >> 2 : column(p, part, y, x);
  if (p.columns <= 2)
    return p.data[part][(p.halved_y ? y / 2 : y) * p.pitch[part] + x / 2];
  int sum = 3 * column(p, part, y, x / 2) + column(p, part, y, x / 2 + (x % 2 ? 1 : -1));
  return p.halved_y ? (sum + 8 - x % 2) >> 4 : (sum + 1 + x % 2) >> 2;
}

__device__ uint32_t clamp_level(int level) {
  return (uint32_t)min(max(level, 0), 255);
}

/* Makes four pixels a thread: 12 bytes. Computes in fixed point with 16 bits, as libjpeg does (jdcolor.c). */
__global__ void __launch_bounds__(256) make_pixels(const planes p, uint8_t *out, size_t out_row) {
  const int32_t first = 4 * (blockIdx.x * blockDim.x + threadIdx.x), y = blockIdx.y;
  if (first >= p.width)
    return;
  uint8_t levels[12];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int32_t x = min(first + i, p.width - 1);
    const int luma = p.data[0][y * p.pitch[0] + x], cb = colour(p, 1, y, x) - 128, cr = colour(p, 2, y, x) - 128;
    levels[3 * i] = (uint8_t)clamp_level(luma + ((91881 * cr + 32768) >> 16));
    levels[3 * i + 1] = (uint8_t)clamp_level(luma + ((-22554 * cb - 46802 * cr + 32768) >> 16));
    levels[3 * i + 2] = (uint8_t)clamp_level(luma + ((116130 * cb + 32768) >> 16));
  }
  uint8_t *pixel = out + y * out_row + 3 * (size_t)first; /* a multiple of 4 */
  const int count = 3 * min(4, p.width - first);
#pragma unroll
  for (int i = 0; i < 12; i += 4) {
    if (i + 4 <= count)
      *(uint32_t *)(pixel + i) =
          levels[i] | (uint32_t)levels[i + 1] << 8 | (uint32_t)levels[i + 2] << 16 | (uint32_t)levels[i + 3] << 24;
    else
      for (int k = i; k < count && k < i + 4; k++)
        pixel[k] = levels[k];
  }
}

/* ---- Calls for several threads ---- */

/* A file that a thread wants decoded. */
struct request {
  const unsigned char *jpeg;
  size_t size;
  nvjpeg_image target;
  bool done;
  int error; /* error of nvJPEG, or cudaError_t as a negative number */
  request *next;
};

enum { MOST_FILES = 8 }; /* the most files of a call: GPUs have up to 7 engines so far */

} // namespace

struct gconv_gpu_decoder {
  nvjpegHandle_t handle;
  int device;
  int files; /* files of a call: one for each engine */
  /* Used by the thread that makes a call: `busy` guards them. */
  nvjpegJpegState_t state;
  bool ready; /* `state` is ready for a call */
  cudaStream_t stream;
  cudaEvent_t end;
  pthread_mutex_t lock; /* guards the members below */
  pthread_cond_t changed;
  bool busy;
  request *first, **last;
};

static int make_ready(gconv_gpu_decoder *decoder) {
  if (decoder->ready)
    return 0;
  return nvjpeg.DecodeBatchedInitialize(decoder->handle, decoder->state, decoder->files, 1, OUTPUT_YUV);
}

/* Decodes up to decoder->files files by one call. Engines without a file decode the last file again, and write the same
 * bytes to the same place: to prepare for another number of files would take 10 ms, as long as a call. */
static int call(gconv_gpu_decoder *decoder, request *const *requests, int count) {
  const unsigned char *data[MOST_FILES];
  size_t sizes[MOST_FILES];
  nvjpeg_image targets[MOST_FILES];
  for (int i = 0; i < decoder->files; i++) {
    const request *wanted = requests[i < count ? i : count - 1];
    data[i] = wanted->jpeg;
    sizes[i] = wanted->size;
    targets[i] = wanted->target;
  }
  int error = make_ready(decoder);
  if (error == 0)
    error = nvjpeg.DecodeBatched(decoder->handle, decoder->state, data, sizes, targets, decoder->stream);
  cudaError_t failure = cudaEventRecord(decoder->end, decoder->stream);
  if (failure == cudaSuccess)
    failure = cudaEventSynchronize(decoder->end); /* the thread sleeps, so that others have its processor */
  cudaGetLastError();
  decoder->ready = error == 0 && failure == cudaSuccess;
  return error != 0 ? error : -(int)failure;
}

/* If a call for several files fails, each file gets a call of its own, which shows the files that nvJPEG refuses. */
static void serve(gconv_gpu_decoder *decoder, request *const *requests, int count) {
  cudaSetDevice(decoder->device);
  int error = call(decoder, requests, count);
  for (int i = 0; i < count; i++)
    requests[i]->error = error == 0 || count == 1 ? error : call(decoder, &requests[i], 1);
}

/* Decodes the files that threads are waiting for. Called under the lock, which is released during the call. */
static void serve_all(gconv_gpu_decoder *decoder) {
  request *requests[MOST_FILES];
  int count = 0;
  for (; decoder->first && count < decoder->files; decoder->first = decoder->first->next)
    requests[count++] = decoder->first;
  if (!decoder->first)
    decoder->last = &decoder->first;
  decoder->busy = true;
  pthread_mutex_unlock(&decoder->lock);
  serve(decoder, requests, count);
  pthread_mutex_lock(&decoder->lock);
  decoder->busy = false;
  for (int i = 0; i < count; i++)
    requests[i]->done = true;
  pthread_cond_broadcast(&decoder->changed);
}

static void wait_for(gconv_gpu_decoder *decoder, request *wanted) {
  pthread_mutex_lock(&decoder->lock);
  *decoder->last = wanted;
  decoder->last = &wanted->next;
  while (!wanted->done)
    if (!decoder->busy)
      serve_all(decoder);
    else
      pthread_cond_wait(&decoder->changed, &decoder->lock);
  pthread_mutex_unlock(&decoder->lock);
}

int gconv_jpeg_backlog(gconv_gpu_decoder *decoder) {
  int waiting = 0;
  pthread_mutex_lock(&decoder->lock);
  for (const request *r = decoder->first; r; r = r->next)
    waiting++;
  int calls = waiting / decoder->files + decoder->busy;
  pthread_mutex_unlock(&decoder->lock);
  return calls;
}

/* ---- One file ---- */

/* Finds how the file samples its colours, and lays out the planes in `room`. */
static gconv_status lay_out(const gconv_gpu_decoder *decoder, gconv_gpu_memory *room, const request *wanted,
                            const gconv_image *image, planes *p) {
  int components, sampling, widths[COMPONENTS], heights[COMPONENTS];
  int error = nvjpeg.GetImageInfo(decoder->handle, wanted->jpeg, wanted->size, &components, &sampling, widths, heights);
  if (error != 0 || components != 3 || widths[0] != image->width || heights[0] != image->height)
    return gconv_fail(GCONV_BAD_FILE, "nvJPEG cannot read the header (%d)", error);
  if (sampling != CSS_444 && sampling != CSS_422 && sampling != CSS_420 && sampling != CSS_440)
    return gconv_fail(GCONV_UNSUPPORTED, "its colours are sampled in an uncommon way");
  p->halved_x = sampling == CSS_422 || sampling == CSS_420;
  p->halved_y = sampling == CSS_440 || sampling == CSS_420;
  p->width = image->width;
  p->height = image->height;
  p->columns = p->halved_x ? (p->width + 1) / 2 : p->width;
  p->rows = p->halved_y ? (p->height + 1) / 2 : p->height;
  size_t begin[4] = {0};
  for (int i = 0; i < 3; i++) {
    p->pitch[i] = ((size_t)(i == 0 ? p->width : p->columns) + 255) / 256 * 256;
    begin[i + 1] = begin[i] + p->pitch[i] * (size_t)(i == 0 ? p->height : p->rows);
  }
  if (begin[3] > room->bytes) {
    cudaFree(room->data);
    *room = gconv_gpu_memory{};
    CUDA_TRY(cudaMalloc(&room->data, begin[3]));
    room->bytes = begin[3];
  }
  for (int i = 0; i < 3; i++)
    p->data[i] = (uint8_t *)room->data + begin[i];
  return GCONV_OK;
}

gconv_status gconv_jpeg_decode(gconv_gpu_decoder *decoder, gconv_gpu_memory *room, const void *jpeg, size_t size,
                               const gconv_image *image, void *stream) {
  request wanted = {};
  planes p = {};
  wanted.jpeg = (const unsigned char *)jpeg;
  wanted.size = size;
  GCONV_TRY(lay_out(decoder, room, &wanted, image, &p));
  for (int i = 0; i < 3; i++) {
    wanted.target.channel[i] = (unsigned char *)p.data[i];
    wanted.target.pitch[i] = p.pitch[i];
  }
  wait_for(decoder, &wanted);
  if (wanted.error < 0)
    CUDA_TRY((cudaError_t)-wanted.error);
  if (wanted.error > 0)
    return gconv_fail(GCONV_BAD_FILE, "nvJPEG refuses the file (%d)", wanted.error);
  const dim3 blocks((unsigned)(p.width + 1023) / 1024, (unsigned)p.height);
  make_pixels<<<blocks, 256, 0, (cudaStream_t)stream>>>(p, (uint8_t *)image->data, image->row_bytes);
  return CUDA_STATUS(cudaGetLastError());
}

/* ---- The decoder ---- */

/* Uses the engines of the GPU if it has some, else kernels and the CPU. */
static gconv_status start(gconv_gpu_decoder *decoder) {
  int error = nvjpeg.CreateEx(BACKEND_HARDWARE, NULL, NULL, 0, &decoder->handle);
  unsigned engines = 1, cores = 1;
  if (error == ARCH_MISMATCH)
    error = nvjpeg.CreateEx(BACKEND_HYBRID, NULL, NULL, 0, &decoder->handle);
  else if (error == 0)
    nvjpeg.GetHardwareDecoderInfo(decoder->handle, &engines, &cores);
  decoder->files = engines < 1 ? 1 : engines > MOST_FILES ? (int)MOST_FILES : (int)engines;
  if (error == 0)
    error = nvjpeg.JpegStateCreate(decoder->handle, &decoder->state);
  if (error == 0)
    error = make_ready(decoder);
  decoder->ready = error == 0;
  if (error != 0)
    return gconv_fail(error == ALLOCATOR_FAILURE ? GCONV_NO_MEMORY : GCONV_UNSUPPORTED, "nvJPEG cannot be started (%d)",
                      error);
  CUDA_TRY(cudaStreamCreateWithFlags(&decoder->stream, cudaStreamNonBlocking));
  return CUDA_STATUS(cudaEventCreateWithFlags(&decoder->end, cudaEventBlockingSync | cudaEventDisableTiming));
}

/* Decodes the known file (jpeg_known.h) to memory that it allocates at *room, and compares the pixels. */
static gconv_status hold_to_known(gconv_gpu_decoder *decoder, gconv_gpu_memory *planes, void **room) {
  uint8_t pixels[GCONV_KNOWN_JPEG_HEIGHT * GCONV_KNOWN_JPEG_WIDTH * 3];
  gconv_image image = {};
  image.width = GCONV_KNOWN_JPEG_WIDTH;
  image.height = GCONV_KNOWN_JPEG_HEIGHT;
  image.row_bytes = GCONV_KNOWN_JPEG_WIDTH * 3;
  CUDA_TRY(cudaMalloc(room, sizeof pixels));
  image.data = *room;
  GCONV_TRY(gconv_jpeg_decode(decoder, planes, gconv_known_jpeg, GCONV_KNOWN_JPEG_BYTES, &image, decoder->stream));
  CUDA_TRY(cudaMemcpyAsync(pixels, image.data, sizeof pixels, cudaMemcpyDeviceToHost, decoder->stream));
  CUDA_TRY(cudaStreamSynchronize(decoder->stream));
  if (gconv_crc32(0, pixels, sizeof pixels) != GCONV_KNOWN_JPEG_CRC)
    return gconv_fail(GCONV_UNSUPPORTED, "nvJPEG makes other pixels than the CPU here");
  return GCONV_OK;
}

/* Checks that the decoder makes the pixels that the CPU makes, because GPUs decode by different means. */
static gconv_status check(gconv_gpu_decoder *decoder) {
  gconv_gpu_memory planes = {};
  void *room = NULL;
  gconv_status status = hold_to_known(decoder, &planes, &room);
  cudaFree(planes.data);
  cudaFree(room);
  return status;
}

static void end(gconv_gpu_decoder *decoder) {
  if (decoder->end)
    cudaEventDestroy(decoder->end);
  if (decoder->stream)
    cudaStreamDestroy(decoder->stream);
  if (decoder->state)
    nvjpeg.JpegStateDestroy(decoder->state);
  if (decoder->handle)
    nvjpeg.Destroy(decoder->handle);
  pthread_cond_destroy(&decoder->changed);
  pthread_mutex_destroy(&decoder->lock);
  free(decoder);
}

static gconv_status create(int device, gconv_gpu_decoder **result) {
  gconv_gpu_decoder *decoder = (gconv_gpu_decoder *)calloc(1, sizeof *decoder);
  GCONV_NEED_MEMORY(decoder, "no memory for a decoder");
  decoder->device = device;
  decoder->last = &decoder->first;
  pthread_mutex_init(&decoder->lock, NULL);
  pthread_cond_init(&decoder->changed, NULL);
  gconv_status status = start(decoder);
  GCONV_THEN(status, check(decoder));
  if (status != GCONV_OK) {
    end(decoder);
    return status;
  }
  *result = decoder;
  return GCONV_OK;
}

/* Returns the decoder of a device. Like the device's context, it lives as long as the process, because it takes half as long
 * to end a decoder as to start one. */
gconv_status gconv_jpeg_start(int device, gconv_gpu_decoder **decoder) {
  enum { MOST_DEVICES = 64 };
  static pthread_mutex_t lock[MOST_DEVICES];
  static gconv_gpu_decoder *decoders[MOST_DEVICES];
  const char *obstacle = gconv_jpeg_obstacle();
  if (obstacle)
    return gconv_fail(GCONV_UNSUPPORTED, "%s", obstacle);
  if (device >= MOST_DEVICES)
    return gconv_fail(GCONV_UNSUPPORTED, "only the first %d GPUs decode", MOST_DEVICES);
  gconv_cuda_guest guest(device);
  pthread_mutex_lock(&lock[device]); /* zeroes are an initialised mutex on Linux */
  gconv_status status = decoders[device] ? GCONV_OK : create(device, &decoders[device]);
  *decoder = decoders[device];
  pthread_mutex_unlock(&lock[device]);
  return status;
}

/* SPDX-License-Identifier: MIT */
/*
 * Makes PNG on a GPU, with the same bytes that src/image/png_encode.c makes at level 1.
 *
 * Nearly all strips of photos are coded without matches. They take row filters, histograms, prefix codes and the packing of
 * bits. A GPU does that in a fraction of a millisecond, where a processor takes 40 ms for a 4K image. Whether a strip is
 * coded with matches is decided by a sample of its rows (png_trials.cuh). Strips with matches are left to the host.
 */
#include "codec_cuda/codec.cuh"
#include "codec_cuda/png_blocks.cuh"
#include "codec_cuda/png_check.h"
#include "device/cuda_error.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* A gconv_gpu_png with the members that only this file uses. */
struct png_encoder : gconv_gpu_png {
  png_job job;
  void *memory;            /* device memory with the arrays of the job */
  gconv_png_strip *pinned; /* the strips of the job, in host memory */
};

/* Returns whether images of this shape can be encoded. */
static bool can(const gconv_image *image) {
  const size_t most_row = (size_t)1 << 19, most_strips = 65535;
  const size_t row_bytes = (size_t)image->width * (size_t)image->channels * gconv_type_bytes(image->type);
  return image->frames == 1 && !image->planar && image->channels <= 4 &&
         (image->type == GCONV_U8 || image->type == GCONV_U16) && row_bytes <= most_row &&
         (size_t)image->height / gconv_png_strip_rows(row_bytes + 1, (size_t)image->height) < most_strips;
}

/* ---- Memory ---- */

enum { SHARED_BESIDE = 4096 }; /* static shared memory of try_matches(), in bytes */

static size_t round_up(size_t size) {
  return (size + 255) / 256 * 256;
}

static void set_shape(png_job *job, const gconv_image *shape, size_t strip_rows) {
  const size_t slack = GCONV_PNG_DEFLATE_SLACK, sample_bytes = gconv_type_bytes(shape->type);
  job->pixel = (uint32_t)((size_t)shape->channels * sample_bytes);
  job->row_bytes = (uint32_t)shape->width * job->pixel;
  job->line = job->row_bytes + 1;
  job->swap = sample_bytes == 2;
  job->height = (uint32_t)shape->height;
  job->strip_rows = (uint32_t)strip_rows;
  job->strips = (job->height - 1) / job->strip_rows + 1;
  const size_t strip = (size_t)job->strip_rows * job->line;
  job->strip_blocks = (uint32_t)((strip - 1) / BLOCK_BYTES + 1);
  job->strip_room = round_up(strip + slack);
  const gconv_png_sample sample = gconv_png_sample_of(job->line, 0, job->strip_rows);
  job->sample_room = round_up(sample.count * job->line + slack);
  job->chunks_room = round_up(job->strips * gconv_png_chunk_bound(strip)); /* the last word is written as a whole */
}

/* Places the arrays of a job in memory, from `base` on. Returns their bytes. */
static size_t deal_out(png_job *job, uint8_t *base) {
  size_t bytes = 0;
  const size_t tried = (size_t)job->strips * GCONV_PNG_FILTERS;
  auto take = [&](auto *&part, size_t size) {
    part = (decltype(+part))(base + bytes);
    bytes += round_up(size);
  };
  take(job->samples, tried * job->sample_room);
  take(job->trials, tried * sizeof *job->trials);
  take(job->lines, job->strips * job->strip_room);
  take(job->blocks, (size_t)job->strips * job->strip_blocks * sizeof *job->blocks);
  take(job->made, job->strips * sizeof *job->made);
  take(job->chunks, job->chunks_room);
  return bytes;
}

static png_job job_of(const gconv_image *shape, size_t strip_rows) {
  png_job job = {};
  set_shape(&job, shape, strip_rows);
  return job;
}

static png_job usual_job_of(const gconv_image *shape) {
  const size_t line = (size_t)shape->width * (size_t)shape->channels * gconv_type_bytes(shape->type) + 1;
  return job_of(shape, gconv_png_strip_rows(line, (size_t)shape->height));
}

static gconv_status allocate(png_encoder *encoder, size_t bytes, size_t strips) {
  int device, shared;
  CUDA_TRY(cudaGetDevice(&device));
  CUDA_TRY(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  if (sizeof(match_room) + SHARED_BESIDE > (size_t)shared)
    return gconv_fail(GCONV_UNSUPPORTED, "this GPU's blocks have too little shared memory to make PNG");
  CUDA_TRY(cudaFuncSetAttribute(try_matches, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(match_room)));
  CUDA_TRY(cudaMalloc(&encoder->memory, bytes));
  encoder->bytes = bytes;
  CUDA_TRY(cudaHostAlloc(&encoder->pinned, strips * sizeof *encoder->pinned, cudaHostAllocPortable));
  encoder->strips = encoder->pinned;
  return GCONV_OK;
}

/* Sets the job of the encoder, whose memory must suffice. Returns the end of the job's arrays. */
static uint8_t *set_job(png_encoder *encoder, const png_job *job) {
  encoder->job = *job;
  const size_t bytes = deal_out(&encoder->job, (uint8_t *)encoder->memory);
  encoder->strip_count = encoder->job.strips;
  encoder->chunks = (const uint8_t *)encoder->job.chunks;
  return (uint8_t *)encoder->memory + bytes;
}

void gconv_png_free(gconv_gpu_png *png) {
  png_encoder *encoder = static_cast<png_encoder *>(png);
  if (!encoder)
    return;
  cudaFree(encoder->memory);
  cudaFreeHost(encoder->pinned);
  free(encoder);
}

size_t gconv_png_bytes(const gconv_image *image) {
  if (!can(image))
    return 0;
  png_job job = usual_job_of(image);
  return deal_out(&job, NULL);
}

/* ---- Work ---- */

gconv_status gconv_png_encode(gconv_gpu_png *png, const gconv_image *image, void *any_stream) {
  const png_encoder *encoder = static_cast<const png_encoder *>(png);
  const cudaStream_t stream = (cudaStream_t)any_stream;
  png_job job = encoder->job;
  job.image = (const uint8_t *)image->data;
  job.stride = image->row_bytes;
  const dim3 trials(job.strips, GCONV_PNG_FILTERS), blocks(job.strip_blocks, job.strips);
  const size_t most_chunk = (size_t)job.strip_rows * job.line + 64 * job.strip_blocks;
  const dim3 parts((unsigned)(most_chunk / (CRC_THREADS * CRC_BYTES) + 2), job.strips);
  CUDA_TRY(cudaMemsetAsync(job.chunks, 0, job.chunks_room, stream));
  try_literals<<<trials, TRIAL_THREADS, 0, stream>>>(job);
  try_matches<<<trials, TRIAL_THREADS, sizeof(match_room), stream>>>(job);
  filter_lines<<<blocks, FILTER_THREADS, 0, stream>>>(job);
  describe_blocks<<<blocks, CODE_THREADS, 0, stream>>>(job);
  lay_out<<<1, LAYOUT_THREADS, 0, stream>>>(job);
  pack<<<blocks, PACK_THREADS, 0, stream>>>(job);
  put_crc<<<parts, CRC_THREADS, 0, stream>>>(job);
  CUDA_TRY(cudaGetLastError());
  return CUDA_STATUS(
      cudaMemcpyAsync(encoder->pinned, job.made, job.strips * sizeof *job.made, cudaMemcpyDeviceToHost, stream));
}

/* ---- The check of a GPU ---- */

/* Encodes the picture, and copies its chunks to the host. */
static gconv_status make_known(png_encoder *encoder, const gconv_image *picture, void *pixels, uint8_t *chunks,
                               cudaStream_t stream) {
  gconv_image image = *picture;
  image.data = pixels;
  CUDA_TRY(cudaMemcpyAsync(pixels, picture->data, picture->plane_bytes, cudaMemcpyHostToDevice, stream));
  GCONV_TRY(gconv_png_encode(encoder, &image, stream));
  CUDA_TRY(cudaMemcpyAsync(chunks, encoder->job.chunks, encoder->job.chunks_room, cudaMemcpyDeviceToHost, stream));
  return CUDA_STATUS(cudaStreamSynchronize(stream));
}

/* Encodes the picture of the check, and compares the chunks. `pixels`: device memory for its pixels. */
static gconv_status hold_to_cpu(png_encoder *encoder, gconv_png_check *check, void *pixels) {
  const size_t size = encoder->job.chunks_room;
  cudaStream_t stream;
  CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  uint8_t *chunks = (uint8_t *)malloc(size);
  gconv_status status = chunks ? make_known(encoder, gconv_png_check_picture(check), pixels, chunks, stream)
                               : gconv_fail(GCONV_NO_MEMORY, "no memory for a check of PNG");
  GCONV_THEN(status, gconv_png_check_strips(check, encoder->strips, chunks, size));
  cudaStreamDestroy(stream);
  free(chunks);
  return status;
}

/* Allocates memory for the job. The check uses the same memory first, because freeing other memory would wait for all work
 * of the device. */
static gconv_status fill_and_check(png_encoder *encoder, const png_job *job, gconv_png_check *check) {
  const gconv_image *picture = gconv_png_check_picture(check);
  png_job known = job_of(picture, GCONV_PNG_CHECK_ROWS), wanted = *job;
  const size_t for_check = deal_out(&known, NULL) + round_up(picture->plane_bytes), for_job = deal_out(&wanted, NULL);
  const size_t strips = known.strips > wanted.strips ? known.strips : wanted.strips;
  GCONV_TRY(allocate(encoder, for_check > for_job ? for_check : for_job, strips));
  GCONV_TRY(hold_to_cpu(encoder, check, set_job(encoder, &known)));
  set_job(encoder, job);
  return GCONV_OK;
}

static gconv_status fill(png_encoder *encoder, const png_job *job) {
  png_job wanted = *job;
  GCONV_TRY(allocate(encoder, deal_out(&wanted, NULL), wanted.strips));
  set_job(encoder, job);
  return GCONV_OK;
}

/* The result of the check of a device. If the device is neither right nor wrong, it was not checked yet. */
typedef struct judgement {
  bool right, wrong;
  char why[200];
} judgement;

static gconv_status check_first(png_encoder *encoder, const png_job *job, judgement *known) {
  gconv_png_check *check;
  GCONV_TRY(gconv_png_check_create(&check));
  gconv_status status = fill_and_check(encoder, job, check);
  gconv_png_check_free(check);
  known->right = status == GCONV_OK;
  known->wrong = status == GCONV_UNSUPPORTED; /* other failures may not come again, so they are not remembered */
  if (known->wrong)
    snprintf(known->why, sizeof known->why, "%s", gconv_last_error());
  return status;
}

/* Checks the current device at the first call. Other threads wait until that is done. */
static gconv_status fill_checked(png_encoder *encoder, const png_job *job) {
  enum { MOST_DEVICES = 64 };
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static judgement judgements[MOST_DEVICES];
  judgement none = {};
  int device;
  CUDA_TRY(cudaGetDevice(&device));
  if (device >= MOST_DEVICES)
    return check_first(encoder, job, &none);
  judgement *known = &judgements[device];
  pthread_mutex_lock(&lock);
  const bool right = known->right;
  gconv_status status = GCONV_OK;
  if (known->wrong)
    status = gconv_fail(GCONV_UNSUPPORTED, "%s", known->why);
  else if (!right)
    status = check_first(encoder, job, known);
  pthread_mutex_unlock(&lock);
  return right ? fill(encoder, job) : status;
}

gconv_status gconv_png_create(const gconv_image *shape, gconv_gpu_png **result) {
  const png_job job = usual_job_of(shape);
  png_encoder *encoder = (png_encoder *)calloc(1, sizeof *encoder);
  GCONV_NEED_MEMORY(encoder, "no memory for a PNG encoder");
  gconv_status status = fill_checked(encoder, &job);
  if (status != GCONV_OK) {
    gconv_png_free(encoder);
    return status;
  }
  *result = encoder;
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
/* Filters a photo whose pixels are in the memory of a GPU, on a stream of this program: example_cuda FILTER IN OUT.png.
 * What it made is freed by the end of the process.
 * nvcc example_cuda.cu $(pkg-config --cflags --libs --static gconv) -o example_cuda */
#include <cuda_runtime.h>
#include <gconv/gconv.h>
#include <stdio.h>

#define TRY(call)                                                                                                           \
  if (int status = (int)(call))                                                                                             \
  return fprintf(stderr, "%s: %d %s\n", #call, status, gconv_last_error()), 1

/* N, C, H, W of an interleaved image, and the bytes from one to the next, in `pitch` bytes a row on the GPU. */
static gconv_array describe(const gconv_image *image, void *data, size_t pitch) {
  const int64_t c = image->channels, size = (int64_t)gconv_type_bytes(image->type), row = (int64_t)pitch;
  return {data, image->type, {1, c, image->height, image->width}, {row * image->height, size, row, c * size}};
}

int main(int argc, char **argv) {
  gconv_image photo = {}, edges = {};
  gconv_filters filters = {};
  gconv_options options = gconv_options_default();
  gconv_operation *operation = NULL;
  gconv_device *device = NULL;
  gconv_plan *plan = NULL;
  cudaStream_t stream;
  void *in, *out;
  size_t in_pitch, out_pitch;
  if (argc != 4)
    return fprintf(stderr, "usage: %s FILTER IN OUT\n", argv[0]), 2;
  TRY(gconv_filters_read(argv[1], NULL, &filters));
  TRY(gconv_operation_filters(&filters, &options, &operation));
  TRY(gconv_image_read(argv[2], NULL, &photo));
  TRY(gconv_device_open("cuda:0", 0, &device));
  TRY(gconv_plan_create(device, &photo, operation, 0, &plan));
  edges = *gconv_plan_output_header(plan, 0);
  TRY(gconv_image_allocate(&edges));
  TRY(cudaStreamCreate(&stream));
  TRY(cudaMallocPitch(&in, &in_pitch, photo.row_bytes, photo.height));
  TRY(cudaMallocPitch(&out, &out_pitch, edges.row_bytes, edges.height));
  gconv_array from = describe(&photo, in, in_pitch), to = describe(&edges, out, out_pitch);
  TRY(cudaMemcpy2DAsync(in, in_pitch, photo.data, photo.row_bytes, photo.row_bytes, photo.height, cudaMemcpyDefault,
                        stream));
  TRY(gconv_plan_execute_device(plan, &from, &to, 1, stream)); /* between other work of the stream; nothing is waited for */
  TRY(cudaMemcpy2DAsync(edges.data, edges.row_bytes, out, out_pitch, edges.row_bytes, edges.height, cudaMemcpyDefault,
                        stream));
  TRY(cudaStreamSynchronize(stream));
  TRY(gconv_image_write(argv[3], NULL, &edges));
  return 0;
}

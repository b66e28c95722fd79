/* SPDX-License-Identifier: MIT */
/*
 * Layers on a GPU. The image is uploaded as it is, and becomes float32 there; layers pass their results to each other
 * through two buffers in turn, and only the last layer's results come back.
 */
#include "device/guest_cuda.h"
#include "device/overflow_cuda.h"
#include "device/transfer_cuda.h"
#include "graph/gpu.h"
#include "kernels/cuda/fast/layer/pointwise.h"
#include "layer/kind.h"
#include "layer/network_cuda.cuh"
#include "layer/network_kernels.cuh"

#include <stdlib.h>

void gconv_network_release_run(void *memory) {
  network_run *run = (network_run *)memory;
  if (!run)
    return;
  gconv_cuda_guest guest(run->network->base.device->index);
  for (size_t i = 0; i < run->network->count; i++) /* before the stream, which handles of cuBLAS and cuDNN refer to */
    if (run->network->steps[i].solver)
      gconv_solver_gpu_close(run->network->steps[i].solver);
  cudaFree(run->buffers[0]);
  cudaFree(run->buffers[1]);
  cudaFree(run->kept);
  cudaFree(run->workspace);
  cudaFree(run->normal);
  gconv_timeline_free(&run->timeline);
  free(run);
}

/* ---- Preparing ---- */

static size_t image_bytes(const gconv_image *image) {
  return gconv_dense_row_bytes(image) * gconv_all_rows(image);
}

/* True if uploaded pixels are the tensor already. */
static bool uploads_tensor(const gconv_network_plan *network) {
  gconv_image raw = gconv_dense_image(&network->seen, NULL);
  return !network->by_rows && gconv_input_is_tensor(&network->input, &raw);
}

static bool needs_input(const gconv_network_plan *network) {
  for (size_t i = 0; i < network->count; i++)
    if (!network->steps[i].graph && gconv_layer_work_of(network->steps[i].kind)->needs_input)
      return true;
  return false;
}

/* Returns the buffer for the tensor that the first layer sees. */
static void *input_buffer(const network_run *run) {
  return run->kept ? run->kept : run->buffers[0];
}

/* Returns the number of the tensor that the last layer makes. */
static size_t made_tensor(const gconv_network_plan *network) {
  return network->merged ? 1 : network->count;
}

/* True if the kernel of all layers also makes classes. */
static bool merges_argmax(const gconv_network_plan *network) {
  return network->merged && network->combine == GCONV_COMBINE_ARGMAX;
}

/* Returns the number of the tensor that is the output. */
static size_t last_tensor(const gconv_network_plan *network) {
  return made_tensor(network) + (network->combine != GCONV_COMBINE_NONE && !merges_argmax(network));
}

static void need(network_run *run, size_t tensor, size_t bytes) {
  size_t *most = &run->bytes[tensor % 2];
  *most = bytes > *most ? bytes : *most;
}

static gconv_status allocate_buffers(network_run *run) {
  const gconv_network_plan *network = run->network;
  const gconv_step *first = &network->steps[0];
  size_t workspace = 0;
  gconv_image most = network->seen; /* the parts of an input that are uploaded at a time */
  if (network->input.rows < most.height)
    most.height = network->input.rows;
  const size_t input = (size_t)gconv_layer_in_bytes(&first->problem) * (size_t)first->images;
  need(run, 0, input);
  if (needs_input(network))
    GCONV_TRY(gconv_cuda_allocate(network->base.device, input, "the input of the network", &run->kept));
  if (!uploads_tensor(network))
    need(run, 1, image_bytes(&most));
  for (size_t i = network->merged ? network->count - 1 : 0; i < network->count; i++) {
    const gconv_step *step = &network->steps[i];
    need(run, network->merged ? 1 : i + 1, (size_t)gconv_layer_out_bytes(&step->problem) * (size_t)step->images);
    if (step->solver && step->solver->choice.workspace_bytes > workspace)
      workspace = step->solver->choice.workspace_bytes;
  }
  if (network->combine != GCONV_COMBINE_NONE)
    need(run, last_tensor(network), image_bytes(&network->out));
  GCONV_TRY(gconv_cuda_allocate(network->base.device, run->bytes[0], "the tensors", &run->buffers[0]));
  GCONV_TRY(gconv_cuda_allocate(network->base.device, run->bytes[1], "the tensors", &run->buffers[1]));
  return workspace > 0 ? gconv_cuda_allocate(network->base.device, workspace, "the workspace", &run->workspace) : GCONV_OK;
}

static float *tensor_of(const network_run *run, const route &way, size_t tensor) {
  return tensor == last_tensor(run->network) ? way.out : tensor == 0 ? (float *)way.in : (float *)run->buffers[tensor % 2];
}

/* Returns the route within the run's own buffers. */
route gconv_network_own_route(const network_run *run) {
  return {(const float *)input_buffer(run), (float *)run->buffers[last_tensor(run->network) % 2], run->timeline.stream,
          NULL};
}

/* Uploads means and deviations, if layers in one kernel normalise their input. */
static gconv_status prepare_normal(network_run *run) {
  const gconv_input *input = &run->network->input;
  const size_t bytes = (size_t)input->channels * sizeof(float);
  if (!run->network->merged || (!input->mean && !input->std))
    return GCONV_OK;
  GCONV_TRY(gconv_cuda_allocate(run->network->base.device, 2 * bytes, "means", (void **)&run->normal));
  float *numbers = (float *)malloc(2 * bytes);
  if (!numbers)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a network");
  for (int32_t c = 0; c < input->channels; c++) {
    numbers[c] = input->mean ? input->mean[c] : 0.0f;
    numbers[input->channels + c] = input->std ? input->std[c] : 1.0f;
  }
  const gconv_status status = gconv_cuda_upload(run->normal, numbers, 2 * bytes);
  free(numbers);
  return status;
}

static gconv_status fill_run(network_run *run) {
  gconv_cuda_guest guest(run->network->base.device->index);
  GCONV_TRY(gconv_timeline_make(&run->timeline));
  GCONV_TRY(allocate_buffers(run));
  GCONV_TRY(prepare_normal(run));
  const gconv_node_work work = gconv_step_work(run->network, run->workspace, run->timeline.stream);
  for (size_t i = 0; i < run->network->count; i++)
    if (run->network->steps[i].solver)
      GCONV_TRY(gconv_solver_gpu_open(run->network->steps[i].solver, &work));
  CUDA_TRY(cudaStreamSynchronize(run->timeline.stream)); /* executions may go into any stream */
  return GCONV_OK;
}

gconv_status gconv_network_prepare_run(const gconv_network_plan *network, void **result) {
  network_run *run = (network_run *)calloc(1, sizeof *run);
  if (!run)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a network");
  run->network = network;
  const gconv_status status = fill_run(run);
  if (status != GCONV_OK) {
    gconv_network_release_run(run);
    return status;
  }
  *result = run;
  return GCONV_OK;
}

/* ---- From an image to a tensor ---- */

/* Converts `pixels`, which lie without gaps, to floats in the input's buffer. */
template <class Sample>
static gconv_status convert_as(const network_run *run, const void *pixels, int32_t in_rows, int64_t first_row,
                               cudaStream_t stream) {
  const gconv_input *input = &run->network->input;
  conversion c = {};
  c.plane = (int64_t)input->rows * input->width;
  c.pixels = (int64_t)in_rows * input->width;
  c.first = first_row * input->width;
  c.channels = input->channels;
  c.file_channels = input->file_channels;
  c.planar = input->planar;
  c.white = input->white;
  dim3 grid(blocks_for(c.plane), (unsigned)(input->images < 65535 ? input->images : 65535));
  for (int32_t channel = 0; channel < input->channels; channel++) {
    c.mean = input->mean ? input->mean[channel] : 0;
    c.std = input->std ? input->std[channel] : 1;
    normalize<Sample><<<grid, THREADS, 0, stream>>>(c, channel, gconv_input_channel(input, channel), (const Sample *)pixels,
                                                    (float *)input_buffer(run), input->images);
    CUDA_TRY(cudaGetLastError());
  }
  return GCONV_OK;
}

static gconv_status convert(const network_run *run, const void *pixels, int32_t in_rows, int64_t first_row,
                            cudaStream_t stream) {
  switch (run->network->input.type) {
  case GCONV_U8:
    return convert_as<uint8_t>(run, pixels, in_rows, first_row, stream);
  case GCONV_U16:
    return convert_as<uint16_t>(run, pixels, in_rows, first_row, stream);
  default:
    return convert_as<float>(run, pixels, in_rows, first_row, stream);
  }
}

/* Returns the row of the image that the input's tensor begins with, in an execution for row `first` on. */
static int64_t input_row(const gconv_network_plan *network, int64_t first) {
  int64_t begin, end;
  gconv_network_input_rows(network, first, &begin, &end);
  return begin;
}

/* Uploads pixels, and makes the first layer's input of them. The upload is timed by itself. */
gconv_status gconv_network_upload(network_run *run, const gconv_image *in, int64_t in_row, int64_t first) {
  const gconv_network_plan *network = run->network;
  gconv_slabs *slabs = (gconv_slabs *)network->base.device->state;
  bool tensor = uploads_tensor(network);
  gconv_image raw = gconv_dense_image(in, tensor ? input_buffer(run) : run->buffers[1]);
  int64_t first_row = input_row(network, first) - in_row;
  GCONV_TRY(gconv_upload(slabs, network->base.device->threads, &raw, in, run->timeline.stream));
  GCONV_TRY(gconv_timeline_mark(&run->timeline, UPLOADED));
  return tensor ? GCONV_OK : convert(run, raw.data, in->height, first_row, run->timeline.stream);
}

/* ---- Layers ---- */

/* Pads the input of a layer, for the network's output from row `first` on. */
static gconv_status run_padding(const network_run *run, const route &way, size_t i, int64_t first) {
  const gconv_step *step = &run->network->steps[i];
  const gconv_padding_job how = gconv_padding_job_of(run->network, step, first);
  const int64_t planes = (int64_t)step->images * step->problem.channels;
  pad_input<<<blocks_for(planes * how.rows * how.columns), THREADS, 0, way.stream>>>(how, tensor_of(run, way, i),
                                                                                     tensor_of(run, way, i + 1), planes);
  return CUDA_STATUS(cudaGetLastError());
}

/* Runs a layer without an algorithm, for the network's output from row `first` on. */
static gconv_status run_plain(const network_run *run, const route &way, size_t i, int64_t first) {
  const gconv_step *step = &run->network->steps[i];
  const gconv_layer_planes planes =
      gconv_step_planes(run->network, step, first, tensor_of(run, way, i), way.in, tensor_of(run, way, i + 1));
  gconv_layer_work_of(step->kind)->gpu->forward(&planes, way.stream);
  return CUDA_STATUS(cudaGetLastError());
}

/* Runs all layers in one kernel, on the input's tensor or on way.planes, which may have gaps between planes, and fewer rows.
 */
static gconv_status run_merged(const network_run *run, const route &way) {
  const gconv_network_plan *network = run->network;
  const gconv_step *last = &network->steps[network->count - 1];
  gconv_pointwise work = {};
  work.images = last->images;
  work.pixels = work.in_plane = (int64_t)network->input.rows * network->input.width;
  work.in = way.in;
  if (way.planes) {
    work.in = (const float *)way.planes->data;
    work.in_plane = (int64_t)(way.planes->plane_bytes / sizeof(float));
    work.pixels = (int64_t)way.planes->height * network->input.width;
    work.mean = run->normal;
    work.deviation = run->normal ? run->normal + network->input.channels : NULL;
  }
  work.in_image = work.in_plane * network->input.channels;
  work.out = tensor_of(run, way, made_tensor(network));
  work.softmax = last->softmax;
  work.argmax = merges_argmax(network);
  work.out_plane = (int64_t)last->problem.out_height * last->problem.out_width;
  work.out_image = work.argmax ? work.out_plane : work.out_plane * last->problem.filters;
  work.count = (int32_t)network->count;
  for (size_t i = 0; i < network->count; i++) {
    work.layers[i] = &network->steps[i].problem;
    work.weights[i] = network->steps[i].solver->there;
  }
  gconv_pointwise_execute(&work, way.stream);
  return CUDA_STATUS(cudaGetLastError());
}

/* Sets rows begin .. end - 1 of all planes that step i yields to zero. */
static gconv_status clear_rows(const network_run *run, size_t i, int32_t begin, int32_t end) {
  const gconv_step *step = &run->network->steps[i];
  size_t row = (size_t)step->problem.out_width * sizeof(float),
         planes = (size_t)step->images * (size_t)step->problem.filters;
  if (end <= begin)
    return GCONV_OK;
  char *rows = (char *)run->buffers[(i + 1) % 2] + (size_t)begin * row;
  size_t pitch = row * (size_t)step->problem.out_height, width = (size_t)(end - begin) * row;
  return CUDA_STATUS(cudaMemset2DAsync(rows, pitch, 0, width, planes, run->timeline.stream));
}

/* Clears the rows outside the layer's whole output, which are padding of the next layer. */
static gconv_status clear_outside(const network_run *run, size_t i, int64_t first) {
  const gconv_step *step = &run->network->steps[i];
  int32_t rows = step->problem.out_height, begin, end;
  gconv_rows_inside(first * step->out_band.scale - step->out_band.shift, rows, step->whole.out_height, &begin, &end);
  GCONV_TRY(clear_rows(run, i, 0, begin));
  return clear_rows(run, i, end, rows);
}

gconv_status gconv_network_run_steps(const network_run *run, const route &way, int64_t first) {
  const gconv_network_plan *network = run->network;
  if (network->merged)
    GCONV_TRY(run_merged(run, way));
  const gconv_node_work work = gconv_step_work(network, run->workspace, way.stream);
  for (size_t i = network->merged ? network->count : 0; i < network->count; i++) {
    const gconv_step *step = &network->steps[i];
    float *const from = tensor_of(run, way, i), *const to = tensor_of(run, way, i + 1);
    GCONV_TRY(step->graph    ? gconv_graph_step_execute(step, first, from, to, way.stream)
              : step->pads   ? run_padding(run, way, i, first)
              : step->solver ? gconv_solver_gpu_run(step->solver, &work, from, to, run->workspace)
                             : run_plain(run, way, i, first));
    if (network->steps[i].softmax) {
      gconv_layer_gpu_soften(&network->steps[i].problem, network->steps[i].images, to, way.stream);
      CUDA_TRY(cudaGetLastError());
    }
    if (network->by_rows && i + 1 < network->count)
      GCONV_TRY(clear_outside(run, i, first));
  }
  if (network->combine == GCONV_COMBINE_NONE || merges_argmax(network))
    return GCONV_OK;
  int64_t plane = (int64_t)network->out.height * network->out.width;
  int64_t count = (int64_t)network->out.frames * network->out.channels * plane;
  combine<<<blocks_for(count), THREADS, 0, way.stream>>>(network->combine, tensor_of(run, way, made_tensor(network)),
                                                         way.out, plane, count, network->combined, network->filters);
  return CUDA_STATUS(cudaGetLastError());
}

gconv_status gconv_network_download(const network_run *run, const gconv_image *out) {
  const gconv_network_plan *network = run->network;
  gconv_image result = gconv_dense_image(&network->out, gconv_network_own_route(run).out);
  return gconv_download((gconv_slabs *)network->base.device->state, network->base.device->threads, &result, out,
                        run->timeline.stream);
}

static gconv_status end_execution(const network_run *run, const gconv_image *out, gconv_timings *timings) {
  const gconv_timeline *line = &run->timeline;
  GCONV_TRY(gconv_timeline_mark(line, CONVOLVED));
  GCONV_TRY(gconv_network_download(run, out));
  GCONV_TRY(gconv_timeline_mark(line, DOWNLOADED));
  CUDA_TRY(cudaStreamSynchronize(line->stream));
  gconv_cuda_tell_overflow();
  GCONV_TRY(gconv_timeline_add(line, BEGIN, UPLOADED, &timings->upload_ms));
  GCONV_TRY(gconv_timeline_add(line, UPLOADED, CONVOLVED, &timings->kernel_ms));
  return gconv_timeline_add(line, CONVOLVED, DOWNLOADED, &timings->download_ms);
}

/* ---- From and to memory of the device ---- */

static bool is_without_gaps(const gconv_image *image) {
  gconv_image dense = gconv_dense_image(image, NULL);
  return image->row_bytes == dense.row_bytes && image->plane_bytes == dense.plane_bytes;
}

/* Does the work of gconv_network_upload() for pixels in memory of the device, which may be the first layer's input already.
 * By rows, layers in one kernel take planes as they are. */
static gconv_status take(network_run *run, const gconv_image *in, int64_t in_row, int64_t first, route *way) {
  const gconv_network_plan *network = run->network;
  const int64_t first_row = input_row(network, first) - in_row;
  const bool planes = in->type == GCONV_F32 && in->planar && network->input.channels == in->channels;
  const bool tensor = uploads_tensor(network), dense = is_without_gaps(in);
  if (network->by_rows && network->merged && planes && first_row == 0 && in->row_bytes == gconv_dense_row_bytes(in)) {
    way->planes = in;
    return GCONV_OK;
  }
  way->in = (const float *)(tensor && dense ? in->data : input_buffer(run));
  const gconv_image raw = gconv_dense_image(in, tensor ? input_buffer(run) : run->buffers[1]);
  if (!dense)
    GCONV_TRY(gconv_copy_on_device(in, &raw, way->stream));
  return tensor ? GCONV_OK : convert(run, dense ? in->data : raw.data, in->height, first_row, way->stream);
}

gconv_status gconv_network_execute_run(void *memory, const gconv_image *in, bool there, int64_t in_row, int64_t first,
                                       const gconv_image *out, gconv_timings *timings) {
  network_run *run = (network_run *)memory;
  route way = gconv_network_own_route(run);
  gconv_cuda_guest guest(run->network->base.device->index);
  GCONV_TRY(gconv_timeline_mark(&run->timeline, BEGIN));
  if (there)
    GCONV_TRY(gconv_timeline_mark(&run->timeline, UPLOADED));
  GCONV_TRY(there ? take(run, in, in_row, first, &way) : gconv_network_upload(run, in, in_row, first));
  GCONV_TRY(gconv_network_run_steps(run, way, first));
  return end_execution(run, out, timings);
}

gconv_status gconv_network_run_device(void *memory, const gconv_image *in, const gconv_image *out, void *stream) {
  network_run *run = (network_run *)memory;
  gconv_cuda_guest guest(run->network->base.device->index);
  route way = gconv_network_own_route(run);
  way.stream = stream ? (cudaStream_t)stream : cudaStreamLegacy; /* to graphs, NULL means the CPU */
  GCONV_TRY(take(run, in, 0, 0, &way));
  if (is_without_gaps(out)) {
    way.out = (float *)out->data;
    return gconv_network_run_steps(run, way, 0);
  }
  GCONV_TRY(gconv_network_run_steps(run, way, 0));
  gconv_image result = gconv_dense_image(&run->network->out, way.out);
  return gconv_copy_on_device(&result, out, way.stream);
}

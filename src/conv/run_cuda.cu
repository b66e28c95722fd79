/* SPDX-License-Identifier: MIT */
/* Executes passes on a GPU, where buffers, weights and results stay. Host code only; the kernels are in kernels/cuda. */
#include "base/clock.h"
#include "base/memory.h"
#include "conv/run.h"
#include "conv/send_cuda.h"
#include "device/cuda_error.h"
#include "device/guest_cuda.h"
#include "device/timeline_cuda.h"

#include <cuda_runtime_api.h>
#include <string.h>

/* The data for executing the passes of a plan: buffers on the device, and a stream. */
struct cuda_run {
  gconv_device *device;
  const gconv_pass *source; /* the plan's passes */
  gconv_pass *passes;       /* copies, whose weights are on the device */
  size_t count;
  gconv_timeline timeline;
  gconv_image in;       /* the input, with its pixels on the device */
  gconv_image *outputs; /* the outputs of all passes, with their pixels on the device */
  size_t output_count;
  uint8_t *output_memory; /* the pixels of all outputs, one output after the other */
  void *workspace;
  size_t bytes;                 /* bytes of all memory above, and of the filters */
  gconv_gpu_memory decoding;    /* memory for decoding JPEGs; empty until the first */
  void **states;                /* the states of the passes, made by acquire() */
  gconv_target *targets;        /* room for the outputs of a pass */
  const gconv_gpu_codec *codec; /* NULL: this build has none */
  gconv_gpu_png *encoder;       /* for results like the first output; NULL until a PNG is wanted */
  bool without_encoder;         /* there is no memory for an encoder */
};

/* Sets row_bytes and plane_bytes of an image on the device. Every row begins at a multiple of 16 bytes, the widest access.
 * Returns the bytes of the image, rounded up to 256, or SIZE_MAX if that overflows. */
static size_t lay_out(gconv_image *image) {
  size_t bytes;
  image->row_bytes = (gconv_dense_row_bytes(image) + 15) / 16 * 16;
  image->plane_bytes = image->row_bytes * (size_t)image->height;
  if (!gconv_multiply(image->row_bytes, gconv_all_rows(image), &bytes) || bytes > PTRDIFF_MAX)
    return SIZE_MAX;
  return (bytes + 255) / 256 * 256;
}

static void release(void *memory) {
  cuda_run *run = (cuda_run *)memory;
  if (!run)
    return;
  gconv_cuda_guest guest(run->device->index);
  for (size_t i = 0; run->states && i < run->count; i++)
    if (run->states[i])
      run->passes[i].algorithm->dismiss(run->states[i]);
  for (size_t i = 0; run->passes && i < run->count; i++)
    cudaFree(run->passes[i].weights);
  if (run->encoder)
    run->codec->free_png(run->encoder);
  cudaFree(run->decoding.data);
  cudaFree(run->in.data);
  cudaFree(run->output_memory);
  cudaFree(run->workspace);
  gconv_timeline_free(&run->timeline);
  free(run->passes);
  free(run->outputs);
  free(run->states);
  free(run->targets);
  free(run);
}

static gconv_image input_shape(const gconv_problem *problem) {
  gconv_image image = {};
  image.type = problem->in_type;
  image.frames = problem->images;
  image.height = problem->height;
  image.width = problem->width;
  image.planar = problem->planes > 1;
  image.channels = image.planar ? problem->planes : problem->channels;
  return image;
}

/* Allocates memory that the run keeps. */
static gconv_status take(cuda_run *run, size_t bytes, const char *what, void **memory) {
  GCONV_TRY(gconv_cuda_allocate(run->device, bytes, what, memory));
  run->bytes += bytes;
  return GCONV_OK;
}

static gconv_status upload_weights(cuda_run *run) {
  for (size_t i = 0; i < run->count; i++) {
    gconv_pass *pass = &run->passes[i];
    size_t bytes = pass->weight_count * sizeof(float);
    const float *host = run->source[i].weights;
    GCONV_TRY(take(run, bytes, "the filters", (void **)&pass->weights));
    CUDA_TRY(cudaMemcpyAsync(pass->weights, host, bytes, cudaMemcpyHostToDevice, run->timeline.stream));
  }
  return GCONV_OK;
}

/* Returns an execution of a pass without samples. */
static gconv_execution bare_execution(const cuda_run *run, size_t pass) {
  gconv_execution execution = {};
  execution.problem = &run->passes[pass].problem;
  execution.weights = run->passes[pass].weights;
  execution.host_weights = run->source[pass].weights;
  execution.state = run->states[pass];
  execution.workspace = run->workspace;
  execution.stream = run->timeline.stream;
  return execution;
}

static gconv_status acquire_states(cuda_run *run) {
  for (size_t i = 0; i < run->count; i++) {
    if (!run->passes[i].algorithm->acquire)
      continue;
    gconv_execution execution = bare_execution(run, i);
    GCONV_TRY(run->passes[i].algorithm->acquire(&execution, &run->states[i]));
    CUDA_TRY(cudaGetLastError());
  }
  return GCONV_OK;
}

/* Allocates outputs like `headers`. The outputs of a pass lie at equal distances, as kernels expect. */
static gconv_status make_outputs(cuda_run *run, const gconv_image *headers) {
  size_t total = 0;
  for (size_t i = 0; i < run->output_count; i++) {
    run->outputs[i] = headers[i];
    size_t bytes = lay_out(&run->outputs[i]);
    total = bytes <= PTRDIFF_MAX - total ? total + bytes : SIZE_MAX;
  }
  GCONV_TRY(take(run, total, "the results", (void **)&run->output_memory));
  uint8_t *next = run->output_memory;
  for (size_t i = 0; i < run->output_count; i++) {
    run->outputs[i].data = next;
    next += lay_out(&run->outputs[i]);
  }
  return GCONV_OK;
}

static gconv_status fill_run(cuda_run *run, const gconv_image *outputs) {
  gconv_cuda_guest guest(run->device->index);
  GCONV_TRY(gconv_timeline_make(&run->timeline));
  size_t workspace = 0;
  for (size_t i = 0; i < run->count; i++)
    workspace = run->passes[i].workspace_bytes > workspace ? run->passes[i].workspace_bytes : workspace;
  run->in = input_shape(&run->passes[0].problem);
  size_t bytes = lay_out(&run->in);
  GCONV_TRY(take(run, bytes, "the image", &run->in.data));
  GCONV_TRY(make_outputs(run, outputs));
  if (workspace > 0)
    GCONV_TRY(take(run, workspace, "the workspace", &run->workspace));
  GCONV_TRY(upload_weights(run));
  GCONV_TRY(acquire_states(run));
  CUDA_TRY(cudaStreamSynchronize(run->timeline.stream)); /* executions may go into any stream */
  return GCONV_OK;
}

static gconv_status prepare(gconv_device *device, const gconv_pass *passes, size_t count, const gconv_image *outputs,
                            void **result) {
  cuda_run *run = (cuda_run *)calloc(1, sizeof *run);
  GCONV_NEED_MEMORY(run, "no memory for a plan");
  run->device = device;
  run->codec = gconv_gpu_codec_of(device->type->name);
  run->source = passes;
  run->count = count;
  size_t filters = 0;
  for (size_t i = 0; i < count; i++) {
    filters = (size_t)passes[i].problem.filters > filters ? (size_t)passes[i].problem.filters : filters;
    run->output_count = passes[i].first_output + gconv_pass_outputs(&passes[i]);
  }
  run->passes = (gconv_pass *)calloc(count, sizeof *run->passes);
  run->outputs = (gconv_image *)calloc(run->output_count, sizeof *run->outputs);
  run->states = (void **)calloc(count, sizeof *run->states);
  run->targets = (gconv_target *)calloc(filters, sizeof *run->targets);
  gconv_status status = GCONV_OK;
  if (!run->passes || !run->outputs || !run->states || !run->targets) {
    status = gconv_fail(GCONV_NO_MEMORY, "no memory for a plan");
  } else {
    memcpy(run->passes, passes, count * sizeof *passes);
    for (size_t i = 0; i < count; i++)
      run->passes[i].weights = NULL; /* release() must not free the host's weights */
    status = fill_run(run, outputs);
  }
  if (status != GCONV_OK) {
    release(run);
    return status;
  }
  *result = run;
  return GCONV_OK;
}

static size_t held_bytes(const void *memory) {
  const cuda_run *run = (const cuda_run *)memory;
  return run->bytes + run->decoding.bytes + (run->encoder ? run->encoder->bytes : 0);
}

static size_t png_bytes(const gconv_image *output) {
  const gconv_gpu_codec *codec = gconv_gpu_codec_of("cuda");
  return codec ? codec->png_bytes(output) : 0;
}

/* ---- Execution ---- */

static gconv_status convolve_images(cuda_run *run, const gconv_image *in, const gconv_image *outputs, cudaStream_t stream) {
  for (size_t i = 0; i < run->count; i++) {
    gconv_pass *pass = &run->passes[i];
    gconv_execution bare = bare_execution(run, i), execution;
    gconv_bind(pass, in, outputs + pass->first_output, run->targets, &execution);
    execution.host_weights = bare.host_weights;
    execution.state = bare.state;
    execution.workspace = bare.workspace;
    execution.stream = stream;
    gconv_status status = pass->algorithm->execute(&execution);
    GCONV_TRY(gconv_cuda_outcome(run->device, pass->algorithm->info.name, status));
  }
  return GCONV_OK;
}

static gconv_status convolve(cuda_run *run) {
  return convolve_images(run, &run->in, run->outputs, run->timeline.stream);
}

/* Convolves the image on the device, and downloads the outputs. */
static gconv_status convolve_and_download(cuda_run *run, gconv_image *outputs, gconv_timings *timings) {
  gconv_slabs *slabs = (gconv_slabs *)run->device->state;
  GCONV_TRY(gconv_timeline_mark(&run->timeline, UPLOADED));
  GCONV_TRY(convolve(run));
  GCONV_TRY(gconv_timeline_mark(&run->timeline, CONVOLVED));
  for (size_t i = 0; i < run->output_count; i++)
    GCONV_TRY(gconv_download(slabs, run->device->threads, &run->outputs[i], &outputs[i], run->timeline.stream));
  GCONV_TRY(gconv_timeline_mark(&run->timeline, DOWNLOADED));
  CUDA_TRY(cudaStreamSynchronize(run->timeline.stream));
  GCONV_TRY(gconv_timeline_add(&run->timeline, UPLOADED, CONVOLVED, &timings->kernel_ms));
  return gconv_timeline_add(&run->timeline, CONVOLVED, DOWNLOADED, &timings->download_ms);
}

static gconv_status execute(void *memory, const gconv_image *in, gconv_image *outputs, gconv_timings *timings) {
  cuda_run *run = (cuda_run *)memory;
  gconv_cuda_guest guest(run->device->index);
  GCONV_TRY(gconv_timeline_mark(&run->timeline, BEGIN));
  GCONV_TRY(gconv_upload((gconv_slabs *)run->device->state, run->device->threads, &run->in, in, run->timeline.stream));
  GCONV_TRY(convolve_and_download(run, outputs, timings));
  return gconv_timeline_add(&run->timeline, BEGIN, UPLOADED, &timings->upload_ms);
}

/* Decodes a JPEG to the input. The host measures the time, as the call may decode other files, too. */
static gconv_status decode(cuda_run *run, const void *jpeg, size_t size, gconv_timings *timings) {
  double start = gconv_now_ms();
  gconv_gpu_decoder *decoder = gconv_device_decoder(run->device);
  GCONV_TRY(run->codec->decode(decoder, &run->decoding, jpeg, size, &run->in, run->timeline.stream));
  timings->decode_ms += gconv_now_ms() - start;
  return GCONV_OK;
}

static gconv_status execute_jpeg(void *memory, const void *jpeg, size_t size, gconv_image *outputs, gconv_timings *timings) {
  cuda_run *run = (cuda_run *)memory;
  gconv_cuda_guest guest(run->device->index);
  GCONV_TRY(decode(run, jpeg, size, timings));
  return convolve_and_download(run, outputs, timings);
}

/* ---- From and to memory of the device ---- */

/* Returns whether kernels can read and write an image: its rows begin at multiples of their widest access. */
static bool is_aligned(const gconv_image *image) {
  return ((uintptr_t)image->data | image->row_bytes | image->plane_bytes) % 16 == 0;
}

/* Returns whether the caller's outputs of a pass are aligned, and lie at equal distances, as kernels expect. */
static bool are_alike(const gconv_image *outputs, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const gconv_image *o = &outputs[i];
    if (!is_aligned(o) || o->row_bytes != outputs->row_bytes || o->plane_bytes != outputs->plane_bytes ||
        (i > 1 && (const uint8_t *)o->data - (const uint8_t *)outputs[i - 1].data !=
                      (const uint8_t *)outputs[1].data - (const uint8_t *)outputs->data))
      return false;
  }
  return true;
}

static gconv_status execute_device(void *memory, const gconv_image *in, const gconv_image *outputs, void *caller) {
  cuda_run *run = (cuda_run *)memory;
  cudaStream_t stream = (cudaStream_t)caller;
  gconv_cuda_guest guest(run->device->index);
  bool in_place = true;
  for (size_t i = 0; i < run->count; i++)
    in_place = in_place && are_alike(outputs + run->passes[i].first_output, gconv_pass_outputs(&run->passes[i]));
  if (!is_aligned(in)) {
    GCONV_TRY(gconv_copy_on_device(in, &run->in, stream));
    in = &run->in;
  }
  GCONV_TRY(convolve_images(run, in, in_place ? outputs : run->outputs, stream));
  for (size_t i = 0; i < run->output_count && !in_place; i++)
    GCONV_TRY(gconv_copy_on_device(&run->outputs[i], &outputs[i], stream));
  return GCONV_OK;
}

/* ---- To a taker ---- */

/* Makes the encoder, once, if its memory is a small part of the memory that is left. Later plans need memory, too. */
static gconv_status make_encoder(cuda_run *run) {
  const size_t least_left = 8;
  size_t available = 0, total = 0;
  GCONV_TRY(run->codec->create_png(&run->outputs[0], &run->encoder));
  CUDA_TRY(cudaMemGetInfo(&available, &total));
  if (available / least_left >= run->encoder->bytes)
    return GCONV_OK;
  run->codec->free_png(run->encoder);
  run->encoder = NULL;
  return gconv_fail(GCONV_NO_MEMORY, "little memory is left");
}

/* Returns whether the GPU makes a PNG of an output. */
static bool encodes(cuda_run *run, const gconv_taker *taker, size_t output) {
  if (!taker->png || run->without_encoder || png_bytes(&run->outputs[0]) == 0)
    return false;
  if (!run->encoder && make_encoder(run) != GCONV_OK) {
    run->without_encoder = true;
    gconv_remark("%s makes no PNG, the CPU does: %s", run->device->info.name, gconv_last_error());
  }
  return run->encoder && gconv_image_same_shape(&run->outputs[0], &run->outputs[output]);
}

/* If the GPU makes a PNG of an output, queues this work in the stream. */
static gconv_status encode(cuda_run *run, const gconv_taker *taker, size_t output) {
  GCONV_TRY(gconv_timeline_mark(&run->timeline, CONVOLVED));
  if (encodes(run, taker, output))
    GCONV_TRY(run->codec->encode_png(run->encoder, &run->outputs[output], run->timeline.stream));
  return gconv_timeline_mark(&run->timeline, ENCODED);
}

/* Waits for encode(). The thread sleeps, as images of other threads may come first on the GPU. */
static gconv_status await_encoding(const cuda_run *run, gconv_timings *timings) {
  CUDA_TRY(cudaEventSynchronize(run->timeline.events[ENCODED]));
  return gconv_timeline_add(&run->timeline, CONVOLVED, ENCODED, &timings->encode_ms);
}

/* Convolves the image on the device, and sends the results to the taker in parts. */
static gconv_status convolve_and_send(cuda_run *run, const gconv_taker *taker, gconv_timings *timings) {
  GCONV_TRY(gconv_timeline_mark(&run->timeline, UPLOADED));
  GCONV_TRY(convolve(run));
  GCONV_TRY(encode(run, taker, 0));
  GCONV_TRY(await_encoding(run, timings));
  GCONV_TRY(gconv_timeline_add(&run->timeline, UPLOADED, CONVOLVED, &timings->kernel_ms));
  gconv_way way = {(gconv_slabs *)run->device->state, taker, 0, 1, run->timeline.stream, &timings->download_ms};
  way.step = taker->begin(taker->user);
  for (way.output = 0; way.output < run->output_count; way.output++) {
    if (way.output > 0) {
      GCONV_TRY(encode(run, taker, way.output));
      GCONV_TRY(await_encoding(run, timings));
    }
    GCONV_TRY(encodes(run, taker, way.output) ? gconv_send_png(&way, run->encoder, &run->outputs[way.output])
                                              : gconv_send_rows(&way, &run->outputs[way.output]));
  }
  return GCONV_OK;
}

static gconv_status execute_parts(void *memory, const gconv_image *in, const void *jpeg, size_t size,
                                  const gconv_taker *taker, gconv_timings *timings) {
  cuda_run *run = (cuda_run *)memory;
  gconv_cuda_guest guest(run->device->index);
  if (jpeg) {
    GCONV_TRY(decode(run, jpeg, size, timings));
    return convolve_and_send(run, taker, timings);
  }
  GCONV_TRY(gconv_timeline_mark(&run->timeline, BEGIN));
  GCONV_TRY(gconv_upload((gconv_slabs *)run->device->state, run->device->threads, &run->in, in, run->timeline.stream));
  GCONV_TRY(convolve_and_send(run, taker, timings));
  return gconv_timeline_add(&run->timeline, BEGIN, UPLOADED, &timings->upload_ms);
}

/* ---- Measuring ---- */

/* Copies of a run's input and outputs. Measuring goes through them in turn, so that no cache has the last data. */
enum { MOST_COPIES = 64 };
static const size_t ROTATED_BYTES = (size_t)256 << 20; /* several times the largest L2 */

struct rotation {
  int copies;
  void *inputs[MOST_COPIES];
  uint8_t *outputs[MOST_COPIES];
};

/* Puts copy number i in the place of the run's own buffers. */
static void rotate(cuda_run *run, const rotation *turns, int i) {
  ptrdiff_t shift = turns->outputs[i % turns->copies] - run->output_memory;
  run->in.data = turns->inputs[i % turns->copies];
  run->output_memory += shift;
  for (size_t k = 0; k < run->output_count; k++)
    run->outputs[k].data = (uint8_t *)run->outputs[k].data + shift;
}

static gconv_status make_copies(cuda_run *run, rotation *turns, size_t in_bytes, size_t out_bytes) {
  turns->inputs[0] = run->in.data;
  turns->outputs[0] = run->output_memory;
  size_t wanted = ROTATED_BYTES / (in_bytes + out_bytes) + 1;
  for (turns->copies = 1; turns->copies < MOST_COPIES && (size_t)turns->copies < wanted; turns->copies++) {
    int i = turns->copies;
    cudaError_t error = cudaMalloc(&turns->inputs[i], in_bytes);
    if (error == cudaSuccess)
      error = cudaMemcpyAsync(turns->inputs[i], run->in.data, in_bytes, cudaMemcpyDeviceToDevice, run->timeline.stream);
    if (error == cudaSuccess)
      error = cudaMalloc(&turns->outputs[i], out_bytes);
    if (error != cudaSuccess)
      cudaFree(turns->inputs[i]);
    CUDA_TRY(error);
  }
  return GCONV_OK;
}

static gconv_status measure(void *memory, const gconv_image *in, gconv_image *outputs, int runs, double *milliseconds) {
  cuda_run *run = (cuda_run *)memory;
  gconv_timings timings = {};
  gconv_cuda_guest guest(run->device->index);
  GCONV_TRY(execute(run, in, outputs, &timings)); /* warms up, and uploads */
  gconv_image shape = run->in;
  size_t in_bytes = lay_out(&shape), out_bytes = 0;
  for (size_t i = 0; i < run->output_count; i++) {
    shape = run->outputs[i];
    out_bytes += lay_out(&shape);
  }
  rotation turns = {};
  gconv_status status = make_copies(run, &turns, in_bytes, out_bytes);
  for (int i = -3; i < runs && status == GCONV_OK; i++) {
    double unused;
    rotate(run, &turns, i + 3);
    status = gconv_timeline_time(
        &run->timeline, [=] { return convolve(run); }, i < 0 ? &unused : &milliseconds[i]);
  }
  if (turns.copies > 0)
    rotate(run, &turns, 0);
  for (int i = 1; i < turns.copies; i++) {
    cudaFree(turns.inputs[i]);
    cudaFree(turns.outputs[i]);
  }
  return status;
}

extern "C" const gconv_run_type gconv_run_type_cuda = {prepare,      execute,       release,    measure,   NULL,
                                                       execute_jpeg, execute_parts, held_bytes, png_bytes, execute_device};

/* SPDX-License-Identifier: MIT */
/* A plan on a GPU. Its steps are recorded once as a CUDA graph, and each run replays this graph. The host then starts all
 * kernels by one call, so that small kernels do not wait for the host. */
#include "base/memory.h"
#include "device/cuda_error.h"
#include "device/guest_cuda.h"
#include "device/overflow_cuda.h"
#include "graph/gpu.h"
#include "graph/tail.h"

#include <cuda_runtime.h>
#include <stdlib.h>

typedef struct gpu_plan {
  int device;
  cudaStream_t stream;
  cudaGraphExec_t recorded;
  void *arena, *constants;
} gpu_plan;

/* ---- Memory ---- */

enum { ALIGNED = 256 };

static size_t aligned(size_t bytes) {
  return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Returns whether a step reads the elements of a constant input on the GPU. The host reads constants that shapes depend on,
 * and weights and biases of convolutions, which are inputs 1 and 2. */
static bool is_read_there(const gconv_graph_step *step, int32_t input) {
  const gconv_node_kind *kind = step->node->kind;
  return !step->view && !(gconv_solver_solves(kind) && input > 0) &&
         !(input < 32 && (kind->known | kind->unread) >> input & 1);
}

/* Marks the constants that the tail of a step reads. */
static void find_constants_of(const gconv_graph_plan *p, const gconv_tail *tail, bool *needed) {
  for (int32_t i = 0; i < tail->count; i++)
    for (int32_t k = 0; k < tail->steps[i].inputs; k++)
      if (tail->steps[i].source[k] == GCONV_TAIL_CHANNEL || tail->steps[i].source[k] == GCONV_TAIL_TENSOR)
        needed[tail->steps[i].tensor[k] - p->tensors] = true;
}

/* Marks the constants that are needed on the GPU: constants that steps read there, and outputs of the graph. */
static void find_constants(const gconv_graph_plan *p, bool *needed) {
  for (size_t i = 0; i < p->step_count; i++)
    if (p->steps[i].work.fused.tail)
      find_constants_of(p, p->steps[i].work.fused.tail, needed);
  for (size_t i = 0; i < p->step_count; i++)
    for (int32_t k = 0; k < p->steps[i].work.in_count; k++)
      if (p->steps[i].in[k] >= 0 && p->steps[i].work.in[k] && is_read_there(&p->steps[i], k))
        needed[p->steps[i].in[k]] = true;
  for (size_t i = 0; i < p->graph->output_count; i++)
    needed[p->graph->outputs[i]] = true;
  for (size_t i = 0; i < p->graph->value_count; i++)
    needed[i] = needed[i] && p->tensors[i].data && p->block_of[i] < 0;
}

static gconv_status upload_constants(gconv_graph_plan *p, gpu_plan *gpu) {
  size_t bytes = 0, at = 0;
  GCONV_FREED bool *needed = (bool *)calloc(p->graph->value_count + 1, sizeof *needed);
  GCONV_NEED_MEMORY(needed, "%s: no memory for a plan", p->graph->path);
  find_constants(p, needed);
  for (size_t i = 0; i < p->graph->value_count; i++)
    bytes += needed[i] ? aligned(gconv_tensor_bytes(&p->tensors[i])) : 0;
  GCONV_TRY(gconv_cuda_allocate(p->options.device, bytes + ALIGNED, "the constants of a network", &gpu->constants));
  for (size_t i = 0; i < p->graph->value_count; i++) {
    gconv_tensor *t = &p->tensors[i];
    if (!needed[i])
      continue;
    t->there = (char *)gpu->constants + at;
    at += aligned(gconv_tensor_bytes(t));
    if (gconv_tensor_bytes(t) > 0)
      GCONV_TRY(gconv_cuda_upload(t->there, t->data, gconv_tensor_bytes(t)));
  }
  return GCONV_OK;
}

/* Gives the results of steps their places. */
static gconv_status allocate(gconv_graph_plan *p, gpu_plan *gpu) {
  GCONV_TRY(gconv_cuda_allocate(p->options.device, p->arena_bytes + ALIGNED, "the results of nodes", &gpu->arena));
  char *arena = (char *)gpu->arena;
  for (size_t i = 0; i < p->step_count; i++)
    if (p->steps[i].workspace_bytes > 0)
      p->steps[i].work.workspace = arena + p->steps[i].workspace_at;
  for (size_t i = 0; i < p->graph->value_count; i++)
    if (p->block_of[i] >= 0)
      p->tensors[i].there = arena + p->blocks[p->block_of[i]].at + p->offset_of[i];
  return upload_constants(p, gpu);
}

/* ---- Recording ---- */

static gconv_status enqueue(gconv_graph_plan *p, cudaStream_t stream) {
  for (size_t i = 0; i < p->step_count; i++) {
    gconv_graph_step *s = &p->steps[i];
    s->work.stream = stream;
    const gconv_status status = s->view ? GCONV_OK : s->node->kind->cuda(&s->work, s->node->kind);
    if (status != GCONV_OK)
      return gconv_graph_fail_node(p->graph, s->node, status);
  }
  return GCONV_OK;
}

/* Runs all steps once, so that algorithms make the memory that they need. Then records them. */
static gconv_status record(gconv_graph_plan *p, gpu_plan *gpu) {
  cudaGraph_t graph = NULL;
  GCONV_TRY(enqueue(p, gpu->stream));
  CUDA_TRY(cudaStreamSynchronize(gpu->stream));
  CUDA_TRY(cudaStreamBeginCapture(gpu->stream, cudaStreamCaptureModeThreadLocal));
  const gconv_status status = enqueue(p, gpu->stream);
  const cudaError_t ended = cudaStreamEndCapture(gpu->stream, &graph);
  cudaError_t made = cudaSuccess;
  if (status == GCONV_OK && ended == cudaSuccess)
    made = cudaGraphInstantiate(&gpu->recorded, graph, 0);
  if (graph)
    cudaGraphDestroy(graph);
  GCONV_TRY(status);
  CUDA_TRY(ended);
  return CUDA_STATUS(made);
}

gconv_status gconv_graph_gpu_open(gconv_graph_plan *p) {
  gpu_plan *gpu = (gpu_plan *)calloc(1, sizeof *gpu);
  GCONV_NEED_MEMORY(gpu, "%s: no memory for a plan", p->graph->path);
  p->gpu = gpu;
  gpu->device = p->options.device->index;
  gconv_cuda_guest guest(gpu->device);
  CUDA_TRY(cudaStreamCreateWithFlags(&gpu->stream, cudaStreamNonBlocking));
  GCONV_TRY(allocate(p, gpu));
  return record(p, gpu);
}

void gconv_graph_gpu_close(void *memory) {
  gpu_plan *gpu = (gpu_plan *)memory;
  if (!gpu)
    return;
  gconv_cuda_guest guest(gpu->device);
  if (gpu->recorded)
    cudaGraphExecDestroy(gpu->recorded);
  cudaFree(gpu->arena);
  cudaFree(gpu->constants);
  if (gpu->stream)
    cudaStreamDestroy(gpu->stream);
  cudaGetLastError();
  free(gpu);
}

/* ---- Runs ---- */

gconv_status gconv_graph_gpu_run(const gconv_graph_plan *p, void *stream) {
  const gpu_plan *gpu = (const gpu_plan *)p->gpu;
  return CUDA_STATUS(cudaGraphLaunch(gpu->recorded, (cudaStream_t)stream));
}

gconv_status gconv_graph_gpu_run_and_wait(const gconv_graph_plan *p) {
  const gpu_plan *gpu = (const gpu_plan *)p->gpu;
  gconv_cuda_guest guest(gpu->device);
  GCONV_TRY(gconv_graph_gpu_run(p, gpu->stream));
  CUDA_TRY(cudaStreamSynchronize(gpu->stream));
  gconv_cuda_tell_overflow();
  return GCONV_OK;
}

static gconv_status copy(const gconv_graph_plan *p, void *to, const void *from, size_t bytes) {
  const gpu_plan *gpu = (const gpu_plan *)p->gpu;
  gconv_cuda_guest guest(gpu->device);
  CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, gpu->stream));
  return CUDA_STATUS(cudaStreamSynchronize(gpu->stream));
}

gconv_status gconv_graph_gpu_write(const gconv_graph_plan *p, const gconv_tensor *to, const void *from) {
  return copy(p, to->there, from, gconv_tensor_bytes(to));
}

gconv_status gconv_graph_gpu_read(const gconv_graph_plan *p, const gconv_tensor *from, void *to) {
  return copy(p, to, from->there, gconv_tensor_bytes(from));
}

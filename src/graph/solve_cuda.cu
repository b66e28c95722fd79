/* SPDX-License-Identifier: MIT */
/* Convolutions of nodes on a GPU, by the algorithms of layers. */
#include "device/cuda_error.h"
#include "device/guest_cuda.h"
#include "graph/gpu.h"
#include "graph/tail.h"

/* Returns an execution without tensors. */
static gconv_layer_execution execution_of(const gconv_solver *solver, void *workspace, void *stream) {
  gconv_layer_execution execution = {};
  execution.problem = &solver->choice.problem;
  execution.weights = solver->there;
  execution.state = solver->state;
  execution.workspace = workspace;
  execution.stream = stream;
  return execution;
}

/* Brings the weights, and makes what the algorithm keeps with them. */
static gconv_status bring_weights(gconv_solver *solver, const gconv_node_work *work) {
  const gconv_layer_algorithm *algorithm = solver->choice.algorithm;
  const size_t bytes = solver->weight_count * sizeof(float);
  GCONV_TRY(gconv_cuda_allocate(work->options->device, bytes, "the weights", (void **)&solver->there));
  GCONV_TRY(gconv_cuda_upload(solver->there, solver->weights, bytes));
  if (!algorithm->acquire)
    return GCONV_OK;
  const gconv_layer_execution execution = execution_of(solver, work->workspace, work->stream);
  cudaGetLastError(); /* forgets errors from before acquire() */
  GCONV_TRY(algorithm->acquire(&execution, &solver->state));
  return CUDA_STATUS(cudaGetLastError());
}

gconv_status gconv_solver_gpu_open(gconv_solver *solver, const gconv_node_work *work) {
  if (solver->there)
    return GCONV_OK;
  solver->gpu = work->options->device->index;
  const gconv_status status = bring_weights(solver, work);
  if (status != GCONV_OK)
    gconv_solver_gpu_close(solver); /* the next call brings them again */
  return status;
}

gconv_status gconv_solver_gpu_run(const gconv_solver *solver, const gconv_node_work *work, const float *in, float *out,
                                  void *workspace) {
  const gconv_layer_problem *p = &solver->choice.problem;
  const size_t in_floats = (size_t)gconv_layer_in_bytes(p) / sizeof(float);
  const size_t out_floats = (size_t)gconv_layer_out_bytes(p) / sizeof(float);
  const int32_t turns = gconv_layer_turns(p, solver->choice.images);
  const bool together = solver->choice.algorithm->tails >= solver->choice.tail && turns == 1;
  gconv_layer_execution execution = execution_of(solver, workspace, work->stream);
  gconv_gpu_tail tail;
  if (work->fused.tail && together && gconv_tail_shorten(work->fused.tail, &tail))
    execution.tail = &tail;
  for (int32_t turn = 0; turn < turns; turn++) {
    const size_t first = (size_t)gconv_layer_turn_first(p, solver->choice.images, turn);
    execution.in = in + first * in_floats;
    execution.out = out + first * out_floats;
    const gconv_status status = solver->choice.algorithm->execute(&execution);
    GCONV_TRY(gconv_cuda_outcome(work->options->device, solver->choice.algorithm->info.name, status));
  }
  if (!work->fused.tail || together)
    return GCONV_OK;
  const gconv_gpu_elements job = gconv_tail_gpu_job(work);
  return gconv_gpu_elements_run(&job, work->stream);
}

void gconv_solver_gpu_close(gconv_solver *solver) {
  if (!solver->there) /* on the CPU, cudaFree(NULL) would start CUDA */
    return;
  gconv_cuda_guest guest(solver->gpu);
  if (solver->state)
    solver->choice.algorithm->dismiss(solver->state);
  cudaFree(solver->there);
  solver->there = NULL;
  solver->state = NULL;
}

/* SPDX-License-Identifier: MIT */
/* Plans of graphs on a GPU. All results are in memory of the device, and all steps are recorded as one CUDA graph
 * (plan_cuda.cu). solve_cuda.cu computes convolutions. */
#pragma once

#include "graph/graph.h"
#include "graph/solve.h"

GCONV_C_BEGIN

#ifdef GCONV_WITH_CUDA
/* Gives a plan its arena on the GPU, uploads the constants that its steps read there, and records its steps. For this
 * function and all below, the device must be the current one. */
gconv_status gconv_graph_gpu_open(gconv_graph_plan *plan);
/* Frees what gconv_graph_gpu_open() made. NULL is allowed. */
void gconv_graph_gpu_close(void *gpu);
/* Puts a run of all steps into a stream. The input is in memory of the device: in->there. */
gconv_status gconv_graph_gpu_run(const gconv_graph_plan *plan, void *stream);
/* Copy elements between the host and a tensor of the plan, and wait until they are copied. */
gconv_status gconv_graph_gpu_write(const gconv_graph_plan *plan, const gconv_tensor *to, const void *from);
gconv_status gconv_graph_gpu_read(const gconv_graph_plan *plan, const gconv_tensor *from, void *to);
/* Runs all steps, and waits for the results. */
gconv_status gconv_graph_gpu_run_and_wait(const gconv_graph_plan *plan);

/* At the first call, uploads the weights of a solver, and lets its algorithm acquire its state. Later calls do nothing. */
gconv_status gconv_solver_gpu_open(gconv_solver *solver, const gconv_node_work *work);
/* Puts the convolution and its tail into work->stream. */
gconv_status gconv_solver_gpu_run(const gconv_solver *solver, const gconv_node_work *work, const float *in, float *out,
                                  void *workspace);
void gconv_solver_gpu_close(gconv_solver *solver);
#else
static inline gconv_status gconv_gpu_is_missing(void) {
  return gconv_fail(GCONV_UNSUPPORTED, "this build has no CUDA");
}
#define gconv_graph_gpu_open(plan) ((void)(plan), gconv_gpu_is_missing())
#define gconv_graph_gpu_close(gpu) ((void)(gpu))
#define gconv_graph_gpu_write(plan, to, from) ((void)(plan), (void)(to), (void)(from), gconv_gpu_is_missing())
#define gconv_graph_gpu_read(plan, from, to) ((void)(plan), (void)(from), (void)(to), gconv_gpu_is_missing())
#define gconv_graph_gpu_run(plan, stream) ((void)(plan), (void)(stream), gconv_gpu_is_missing())
#define gconv_graph_gpu_run_and_wait(plan) ((void)(plan), gconv_gpu_is_missing())
#define gconv_solver_gpu_open(solver, work) ((void)(solver), (void)(work), gconv_gpu_is_missing())
#define gconv_solver_gpu_run(solver, work, in, out, workspace)                                                              \
  ((void)(solver), (void)(work), (void)(in), (void)(out), (void)(workspace), gconv_gpu_is_missing())
#define gconv_solver_gpu_close(solver) ((void)(solver))
#endif

/* Returns whether a plan is made for a GPU. */
static inline bool gconv_graph_is_on_gpu(const gconv_graph_options *options) {
  return options->device->type != &gconv_device_type_cpu;
}

GCONV_C_END

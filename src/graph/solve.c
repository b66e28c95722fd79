/* SPDX-License-Identifier: MIT */
#include "graph/solve.h"
#include "base/memory.h"
#include "graph/gpu.h"
#include "graph/tail.h"

#include <string.h>

static const size_t DEFAULT_WORKSPACE = (size_t)256 << 20;

/* Returns the bytes that workspaces may take. */
static size_t limit_of(const gconv_node_work *work) {
  return work->options->workspace_bytes > 0 ? work->options->workspace_bytes : DEFAULT_WORKSPACE;
}

static const char *wanted_by(const gconv_node_work *work) {
  return work->options->algorithm ? work->options->algorithm : "auto";
}

gconv_status gconv_solver_choose(const gconv_node_work *work, gconv_layer_choice *choice) {
  choice->whole.math = work->options->math;
  choice->whole.threads = work->threads ? gconv_threads_count(work->threads) : 1;
  choice->whole.workspace_limit = limit_of(work);
  choice->problem = choice->whole;
  choice->images = choice->chosen_for = choice->whole.images;
  return gconv_layer_choose(work->options->device, work->options->without, wanted_by(work), choice, NULL);
}

static gconv_status choose(const gconv_node_work *work, gconv_layer_choice *choice) {
  const bool is_auto = strcmp(wanted_by(work), "auto") == 0;
  gconv_status status = gconv_solver_choose(work, choice);
  GCONV_THEN(status, gconv_layer_check_rounding(choice->algorithm, &choice->problem, is_auto));
  if (status != GCONV_OK)
    gconv_fail_in(status, "cannot be solved");
  return status;
}

gconv_status gconv_solver_create(const gconv_node_work *work, const gconv_layer_problem *problem, gconv_solver **solver) {
  gconv_solver *made;
  GCONV_NEW(made, 1, "has no memory for its weights");
  made->constant = true;
  for (int32_t i = 1; i < work->in_count; i++)
    made->constant = made->constant && (!work->in[i] || work->in[i]->data);
  made->choice.whole = *problem;
  made->choice.tail = gconv_graph_is_on_gpu(work->options) ? gconv_tail_of_gpu(&work->fused) : GCONV_TAILS_NONE;
  const gconv_status status = choose(work, &made->choice);
  if (status == GCONV_OK)
    *solver = made;
  else
    gconv_solver_free(made);
  return status;
}

void gconv_solver_free(void *prepared) {
  gconv_solver *solver = prepared;
  if (solver) {
    gconv_solver_gpu_close(solver);
    gconv_release(solver->weights);
  }
  free(solver);
}

/* Returns the workspace of one thread, in whole cache lines. */
static size_t seat_bytes(const gconv_solver *solver) {
  return (solver->choice.workspace_bytes + GCONV_ALIGNMENT - 1) / GCONV_ALIGNMENT * GCONV_ALIGNMENT;
}

size_t gconv_solver_workspace(const gconv_solver *solver, const gconv_node_work *work) {
  const bool seats = work->threads && !gconv_graph_is_on_gpu(work->options);
  return seat_bytes(solver) * (seats ? (size_t)gconv_threads_count(work->threads) : 1);
}

gconv_status gconv_solver_open(gconv_solver *solver, float **weights) {
  *weights = NULL;
  if (solver->packed && solver->constant)
    return GCONV_OK;
  if (!solver->weights)
    GCONV_TRY(
        gconv_layer_new_weights(solver->choice.algorithm, &solver->choice.problem, &solver->weights, &solver->weight_count));
  *weights = solver->weights;
  return GCONV_OK;
}

gconv_status gconv_solver_pack(gconv_solver *solver) {
  const gconv_layer_problem *problem = &solver->choice.problem;
  const gconv_layer_algorithm *algorithm = solver->choice.algorithm;
  solver->packed = false;
  if (algorithm->prepare)
    GCONV_TRY(algorithm->prepare(problem, solver->weights, solver->weights + gconv_layer_weight_floats(problem)));
  solver->packed = true;
  return GCONV_OK;
}

gconv_status gconv_solver_run(gconv_solver *solver, const gconv_node_work *work, const float *in, float *out,
                              void *workspace) {
  if (work->stream) {
    GCONV_TRY(gconv_solver_gpu_open(solver, work));
    return gconv_solver_gpu_run(solver, work, in, out, workspace);
  }
  return gconv_layer_execute_cpu(solver->choice.algorithm, &solver->choice.problem, solver->choice.images, solver->weights,
                                 in, out, work->threads, workspace, seat_bytes(solver));
}

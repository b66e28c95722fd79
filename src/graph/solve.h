/* SPDX-License-Identifier: MIT */
/* Solves convolutions of nodes by algorithms of layers, which are chosen as for layers. Constant weights are packed once,
 * others in each run. */
#pragma once

#include "graph/choose.h"
#include "graph/node.h"

GCONV_C_BEGIN

typedef struct gconv_solver {
  gconv_layer_choice choice;
  bool constant, packed;
  float *weights; /* owned: K x C / groups x R x S weights, K biases, and what the algorithm prepares (layer_problem.h) */
  size_t weight_count; /* number of all these weights */
  float *there;        /* on a GPU: owned, a copy of the weights; else NULL */
  void *state;         /* on a GPU: what the algorithm acquired; NULL: nothing */
  int gpu;             /* the number of the GPU that `there` and `state` are on */
} gconv_solver;

/* Chooses an algorithm for choice->whole, whose shapes, strides and padding are set, as gconv_solver_create() does. */
gconv_status gconv_solver_choose(const gconv_node_work *work, gconv_layer_choice *choice);

/* Chooses an algorithm for a problem whose shapes, strides and padding are set; math and the limit of the workspace come
 * from the node's options. Inputs of the node after the first one are weights and biases. */
gconv_status gconv_solver_create(const gconv_node_work *work, const gconv_layer_problem *problem, gconv_solver **solver);
/* Frees a gconv_solver: it is release() of kinds that prepare one. NULL is allowed. */
void gconv_solver_free(void *solver);
/* Returns whether algorithms of layers solve nodes of the kind. */
static inline bool gconv_solver_solves(const gconv_node_kind *kind) {
  return kind->release == gconv_solver_free;
}

/* Returns the bytes of workspace of a run, in whole cache lines. */
size_t gconv_solver_workspace(const gconv_solver *solver, const gconv_node_work *work);

/* Sets *weights to room for weights and biases if a run needs them (again), or to NULL. Then gconv_solver_pack() lets the
 * algorithm prepare them. */
gconv_status gconv_solver_open(gconv_solver *solver, float **weights);
gconv_status gconv_solver_pack(gconv_solver *solver);

/* Solves the problem: in the memory of the host or, for cuda() of kinds, of the GPU. */
gconv_status gconv_solver_run(gconv_solver *solver, const gconv_node_work *work, const float *in, float *out,
                              void *workspace);

GCONV_C_END

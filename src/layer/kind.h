/* SPDX-License-Identifier: MIT */
/*
 * What each kind of layers computes. A kind is a row of GCONV_EACH_LAYER_KIND (gconv_network.h) and a record in a file of
 * its own, kind_<name>.c, which does not compile before it has every field. src/bank/kind.h describes kinds in files and
 * texts.
 */
#pragma once

#include "bank/kind.h"
#include "base/both.h"
#include "kernels/layer_planes.h"
#include "layer/network.h"

GCONV_C_BEGIN

/* The shape of the input of a layer, N x C x H x W, and of the first layer's input. */
typedef struct gconv_layer_input {
  int32_t images;
  gconv_layer_shape shape, first;
} gconv_layer_input;

/* ---- Verification ---- */

#define GCONV_UNIT 0x1p-24 /* the largest relative error of rounding to float32 */

/* A tensor in float64, and the error of each value that a correct program may have. Both are owned, in one block. */
typedef struct gconv_field {
  double *value, *allowed;
  size_t count;
} gconv_field;

typedef struct gconv_verified_layer {
  const gconv_step *step;
  const gconv_field *in, *input; /* in: input of the layer; input: input of the first layer */
  gconv_field *out;
} gconv_verified_layer;

/* ---- Training ---- */

/* A layer and its inputs, of one case. */
typedef struct gconv_layer_case {
  const gconv_layer_problem *problem; /* for pools, rows, columns and strides are those of windows */
  const float *parameters;            /* of the layer, as kernels/learn_problem.h has them */
  const float *x, *other;             /* x: its input; other: its second input, or NULL */
} gconv_layer_case;

/* ---- The records ---- */

/* Whether some rows of an output can be made of some rows of the input. */
typedef enum gconv_layer_rows {
  GCONV_ROWS_AFTER_ANY,     /* always */
  GCONV_ROWS_AFTER_NO_STEP, /* if no layer before it has a stride: rows of the network's input are the same rows */
  GCONV_ROWS_ALL            /* never: each output needs all rows */
} gconv_layer_rows;

typedef struct gconv_layer_work {
  /* Algorithms solve the kind (kernels/layer_algorithms.def), and training has products of its own for it. So the record has
   * no forward(), teach() and gpu. */
  bool by_algorithms;
  bool needs_input; /* it takes the input of the first layer, too */
  /* Resolves the layer: fills all of the step except algorithm and weights. `where` is for errors: "layer 2". */
  gconv_status (*resolve)(const gconv_layer *layer, const char *where, const gconv_layer_input *in, gconv_step *step);
  gconv_layer_rows rows;
  /* Writes how the layer is computed. pads: the step before, which pads the input, or NULL. */
  void (*explain)(const gconv_step *step, const gconv_step *pads, FILE *text);
  /* Computes plane number `plane` of the output in float64, and the error that a correct program may have. */
  void (*verify)(const gconv_verified_layer *layer, size_t plane);
  /* Makes plane number `plane` of the output, in runs and in training. */
  void (*forward)(const gconv_layer_planes *planes, size_t plane);
  const gconv_layer_gpu *gpu;
  /* True for kinds that run only as nodes of a graph (src/graph). They have learn() and teach() for training, or training
   * has products of its own for them. learn() makes the output y of one case, in place of forward(). teach() makes dx from
   * dz, the gradient of y, adds to `dother` unless that is NULL, and sets the gradient of the parameters. */
  bool in_graphs;
  void (*learn)(const gconv_layer_case *at, float *y);
  void (*teach)(const gconv_layer_case *at, const float *dz, float *dx, float *dother, float *gradient);
} gconv_layer_work;

/* Defines the record of a kind, with all fields in this order. */
#define GCONV_LAYER_WORK(name, by_algorithms, needs_input, resolve, rows, explain, verify, forward, teach, gpu)             \
  const gconv_layer_work gconv_layer_work_##name = {by_algorithms, needs_input, resolve, rows, explain, verify,             \
                                                    forward,       gpu,         false,   NULL, teach}

/* Defines the record of a kind that runs in graphs alone, and is trained on the CPU. */
#define GCONV_LAYER_OF_GRAPHS(name, learns, teaches)                                                                        \
  const gconv_layer_work gconv_layer_work_##name = {                                                                        \
      .resolve = gconv_layer_resolve_bare, .in_graphs = true, .learn = learns, .teach = teaches}

/* Values in place of a function or of `gpu`: algorithms do the work, or the kind cannot do it, and an error says so. */
#define GCONV_BY_ALGORITHMS NULL
#define GCONV_CANNOT_BE_TRAINED NULL
#define GCONV_NOT_ON_A_GPU NULL
#ifdef GCONV_WITH_CUDA
#define GCONV_ON_A_GPU(name) &gconv_layer_gpu_##name
#else
#define GCONV_ON_A_GPU(name) NULL
#endif

#define GCONV_LAYER_WORK_ROW(name, value) extern const gconv_layer_work gconv_layer_work_##name;
GCONV_EACH_LAYER_KIND(GCONV_LAYER_WORK_ROW)

const gconv_layer_work *gconv_layer_work_of(gconv_layer_kind kind);

/* Returns the planes of a layer without an algorithm, for the network's output from row `first` on. By rows, `input`, the
 * network's input, has more rows than x. */
static inline gconv_layer_planes gconv_step_planes(const gconv_network_plan *network, const gconv_step *step, int64_t first,
                                                   const float *x, const float *input, float *y) {
  const gconv_band *own = &step->out_band, *all = &network->in_band;
  const int64_t width = step->problem.width, before = first * own->scale - own->shift - (first * all->scale - all->shift);
  gconv_layer_planes planes = {&step->problem, step->images, x, input, network->input.rows * width, y};
  planes.input += network->by_rows ? before * width : 0;
  return planes;
}

/* gconv_layer_resolve_conv() is resolve() of convolutions, gconv_layer_resolve_bare() of kinds whose shapes follow from
 * gconv_layer_form.follow(). */
gconv_status gconv_layer_resolve_conv(const gconv_layer *layer, const char *where, const gconv_layer_input *in,
                                      gconv_step *step);
gconv_status gconv_layer_resolve_bare(const gconv_layer *layer, const char *where, const gconv_layer_input *in,
                                      gconv_step *step);

GCONV_C_END

/* SPDX-License-Identifier: MIT */
/*
 * The engine of the CPU. It computes the layers before the dense tail of a network case by case, and the tail slice by slice
 * (kernels/learn_problem.h defines tail and slice), so that the numbers of a thread stay in its caches.
 *
 * A step is cut into tasks. A task has 2^n neighbouring cases or slices, and yields the sum of their gradients. This sum is
 * a branch of the tree by which all gradients are added. So neither the number of tasks nor the number of threads changes a
 * bit of the result.
 *
 * A network with both parts is computed chunk by chunk: all cases of a chunk forward through the first part, then its slices
 * forward and backward through the tail, then all its cases backward through the first part.
 */
#pragma once

#include "kernels/cpu/train/conv.h"
#include "kernels/cpu/train/dense.h"
#include "train/engine.h"
#include "train/tree.h"

enum {
  GCONV_CPU_LEAST_TASKS = 8,    /* the fewest tasks of a step that has as many cases or slices */
  GCONV_CPU_SMALL = 1 << 16,    /* the most parameters of a network that adds its gradients quickly */
  GCONV_CPU_LEAST_WORK = 400000 /* multiplications of a step that are worth waking other threads for */
};

/* A layer, and the place of its parameters in the arrays of the engine. */
typedef struct gconv_cpu_layer {
  const gconv_learn_layer *layer;
  const struct gconv_cpu_type *type; /* before the tail */
  gconv_learn_conv conv;   /* before the tail: the convolution; for an upconv, the convolution that it transposes */
  gconv_learn_dense dense; /* in the tail */
  size_t at, parameters;   /* offset and number of its parameters; number 0: no weights */
  size_t weights;          /* how many of the parameters are weights, not biases */
  size_t panel;            /* offset of its transposed weights */
  float *norms;            /* owned, of batchnorm: lists of numbers of the channels (norm_cpu.c) */
  float *transposed;       /* owned, of an upconv: memory for its weights while they are converted */
  bool is_source;          /* its output is the second input of a later layer */
  size_t skip;             /* of a source: offset, in skips, of the gradient to which later layers add */
  size_t value;            /* before the tail: offset of its input in the values of a case */
  size_t bands;
} gconv_cpu_layer;

/* The workspace of a thread. */
typedef struct gconv_cpu_seat {
  float *values;            /* values of a case, before the tail: the inputs of all layers, and the last output */
  float *gradients[2];      /* gradients of the values of a case, or of a slice */
  float *skips;             /* the gradients of sources of a case */
  float *workspace;         /* workspace of convolutions */
  float *slice;             /* the inputs of all layers of the tail, and the last output */
  float *transposed;        /* the gradient of a slice, transposed */
  float *inputs, *targets;  /* inputs and targets of a slice, as the data set has them */
  gconv_tree cases, slices; /* sums of a task */
  gconv_tree bands;         /* sums of a case */
} gconv_cpu_seat;

typedef struct gconv_cpu_engine {
  gconv_engine_order order;
  const gconv_learn_net *net;
  gconv_cpu_layer *layers;
  size_t tail;       /* the first layer of the tail */
  size_t first, all; /* first: parameters before the tail; all: all parameters */
  float *arrays[GCONV_LEARN_ARRAYS];
  float *panels;          /* transposed weights */
  size_t in, out, target; /* floats of a case: of the input, the output, the target */
  size_t values;          /* floats of a case before the tail */
  size_t norms;           /* layers of batch normalisation, all before the tail */
  double *norm_sums;      /* owned: two sums of each channel of a layer, for each case of a step */
  size_t norm_width;      /* numbers of a case in norm_sums */
  float *chunk_skips;     /* owned, with batch normalisation: the skips of all cases */
  size_t skips;           /* floats of the gradients of sources */
  size_t last_value;      /* offset of the last output before the tail, in the values of a case */
  size_t features;        /* floats of a case's input of the tail */
  size_t boundary;        /* floats of the gradient that a case keeps between two parts of a step */
  size_t largest;         /* floats of the largest gradient of a case, and of a slice */
  bool mixed;             /* there are layers before the tail, and a tail */
  size_t chunk;           /* cases of a chunk */
  double work;            /* multiplications of a case */
  size_t seats;
  gconv_cpu_seat *seat;
  size_t case_tasks, slice_tasks;                        /* the number of partial sums */
  float **case_sums, **slice_sums;                       /* [0] of each is a part of the gradient */
  gconv_tree case_chunks, slice_chunks;                  /* sums of several chunks */
  float *chunk_values, *chunk_gradients, *chunk_targets; /* for a chunk of a network with both parts */
  double *losses;
  size_t losses_room;
} gconv_cpu_engine;

static inline bool is_trained(const gconv_cpu_engine *e, size_t i) {
  return e->layers[i].parameters > 0;
}

/* ---- Shared by engine_cpu.c and pass_cpu.c --------------------------------------------------------------------------- */

static inline size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

static inline size_t padded(size_t floats) { /* with the slack that kernels may read */
  return (floats + GCONV_STAGE_SLACK + 15) / 16 * 16;
}

static inline size_t divide_up(size_t a, size_t b) {
  return a / b + (a % b != 0);
}

/* True if a layer writes its output, and is differentiated, row by row. */
static inline bool yields_rows(const gconv_learn_layer *layer) {
  return layer->kind == GCONV_LAYER_CONV && layer->problem.activation != GCONV_ACTIVATION_SOFTMAX;
}

/* True if about half of the layer's output is 0. */
static inline bool yields_zeros(const gconv_learn_layer *layer) {
  return layer->parameters > 0 && layer->problem.activation == GCONV_ACTIVATION_RELU;
}

/* Returns the most tasks of a pass. Many tasks balance the work: 15,360 cases are 120 slices, which 8 tasks of 16 would
 * split into 64 and 56. But each task has a sum of gradients, so their memory limits them. */
static inline size_t most_tasks(const gconv_cpu_engine *e) {
  return larger(GCONV_CPU_LEAST_TASKS, (e->all <= GCONV_CPU_SMALL ? 16 : 4) * e->seats);
}

/* Returns how many cases or slices a task has if a pass has `count`: a power of two. */
static inline size_t task_size(const gconv_cpu_engine *e, size_t count) {
  size_t wanted = most_tasks(e), size = 1;
  while (count > wanted * size)
    size *= 2;
  return size;
}

static inline bool wakes_threads(const gconv_cpu_engine *e, size_t cases) {
  return e->work * (double)cases >= GCONV_CPU_LEAST_WORK;
}

/* ---- Layers before the tail (layer_cpu.c) ---------------------------------------------------------------------------- */

/* A layer of a case, and where its numbers are. */
typedef struct gconv_cpu_case {
  gconv_cpu_engine *e;
  gconv_cpu_seat *seat;
  size_t layer;
  const float *x, *other; /* its first and second input */
  const float *input;     /* of the network */
  double *sums;           /* with batch normalisation, in a backward pass: two sums of each channel */
} gconv_cpu_case;

/* How layers of some kinds are computed before the tail. */
typedef struct gconv_cpu_type {
  gconv_status (*prepare)(gconv_cpu_engine *e, size_t i);
  /* Convert parameters from the layout of gconv_learn_net to the engine's, and back. */
  void (*take)(const gconv_cpu_layer *own, const float *plain, float *parameters);
  void (*give)(const gconv_cpu_layer *own, const float *parameters, float *plain);
  /* True if a pass needs transposed weights; learns: a backward pass, too. NULL: never. */
  bool (*transposes)(size_t i, bool learns);
  /* Computes y, in the layout `output`. */
  void (*forward)(const gconv_cpu_case *at, float *y, const gconv_learn_layout *output);
  /* Sets the gradient of the parameters, in `leaf`, from dz, the gradient of the sums. NULL: there are none, or inputs()
   * does it. */
  void (*weights)(const gconv_cpu_case *at, const float *dz, float *leaf);
  /* Computes dx, the gradient of x or, if `sums`, of the sums of the layer before. Adds the gradient of `other` to dother,
   * unless that is NULL. */
  void (*inputs)(const gconv_cpu_case *at, const float *dz, bool sums, float *dx, float *dother, float *leaf);
} gconv_cpu_type;

/* take() and give() of layers whose parameters have the layout of gconv_learn_net. */
void gconv_cpu_copy_parameters(const gconv_cpu_layer *own, const float *from, float *to);

/* Batch normalisation (norm_cpu.c). Each such layer begins a segment of a step. A segment begins when all cases of the step
 * have passed the segments before it. */
extern const gconv_cpu_type gconv_cpu_batchnorm;
static inline bool is_norm(const gconv_cpu_engine *e, size_t i) {
  return i < e->tail && e->net->layers[i].kind == GCONV_LAYER_BATCHNORM;
}
/* Set the means and deviations for forward(): to the running ones, or to those of the step, from e->norm_sums, the sums of
 * the inputs of layer i of `cases` cases. */
void gconv_norm_of_running(gconv_cpu_engine *e, size_t i);
void gconv_norm_of_step(gconv_cpu_engine *e, size_t i, size_t cases);
/* Sums an input of layer i into sums[]. */
void gconv_norm_sum(const gconv_cpu_engine *e, size_t i, const float *x, double *sums);
/* Sets the means of gradients for inputs(), from the sums that weights() made of all cases. */
void gconv_norm_of_gradients(gconv_cpu_engine *e, size_t i, size_t cases);
/* Moves the running mean and variance of all layers towards those of the step. */
void gconv_norm_keep(gconv_cpu_engine *e, size_t cases);

const gconv_cpu_type *gconv_cpu_type_of(const gconv_learn_layer *layer);

/* Runs the cases forward. learns: also runs them backward, and stores the sum of their gradients (pass_cpu.c). */
gconv_status gconv_engine_cpu_pass(gconv_cpu_engine *e, const gconv_learn_cases *cases, bool learns, gconv_learn_sums *sums);

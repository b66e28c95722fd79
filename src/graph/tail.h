/* SPDX-License-Identifier: MIT */
/* Tails: element-wise nodes that are computed with the convolution before them. On the CPU, the loops of these nodes run on
 * each piece of outputs while it is in the cache, and the bits are the same. On a GPU, the epilogue of the convolution
 * computes short tails, and one more kernel all others. fuse.c makes tails. */
#pragma once

#include "graph/elementwise.h"
#include "graph/graph.h"
#include "kernels/cuda/graph/graph.h"
#include "kernels/layer_algorithm.h"

GCONV_C_BEGIN

enum { GCONV_TAIL_STEPS = 8 };

/* Where an input of a loop comes from. */
typedef enum gconv_tail_source {
  GCONV_TAIL_VALUE,   /* the outputs so far */
  GCONV_TAIL_KEPT,    /* the outputs before the step that keeps them */
  GCONV_TAIL_NUMBER,  /* the one number of the tensor */
  GCONV_TAIL_CHANNEL, /* the tensor has a number for each channel */
  GCONV_TAIL_TENSOR   /* the tensor has the shape of the output */
} gconv_tail_source;

typedef struct gconv_tail_step {
  gconv_element_loop *loop;
  int32_t code; /* gconv_elementwise */
  gconv_elementwise_settings settings;
  gconv_tail_source source[GCONV_LOOP_INPUTS];
  const gconv_tensor *tensor[GCONV_LOOP_INPUTS];
  int32_t inputs;
  bool keeps; /* the outputs before this step are kept */
} gconv_tail_step;

struct gconv_tail {
  gconv_layer_tail layer; /* of the convolution's problem */
  int64_t channels, plane;
  bool blocks; /* the outputs are in blocks of channels (tensor.h) */
  gconv_tail_step steps[GCONV_TAIL_STEPS];
  int32_t count;
};

/* Begins a tail without steps, for outputs of this shape. */
void gconv_tail_begin(gconv_tail *tail, const gconv_tensor *out);

/* Adds the node `next` to the tail of `step`. `value` is the output so far, `kept` a value that was kept, or -1. ready[v]
 * says whether value v is computed before the step runs. Returns false if the node cannot be added. */
bool gconv_tail_add(gconv_graph_step *step, const gconv_graph_step *next, int32_t value, int32_t kept, const bool *ready);

/* Ends a tail of the CPU. If its last four steps are a hard swish, one loop takes their place. Sets layer.adds and
 * layer.clamps. */
void gconv_tail_end(gconv_tail *tail);
/* Sets the memory of a tail's outputs. Must be called before each run. */
void gconv_tail_set_out(gconv_tail *tail, const float *out);

/* Returns whether a tail can be applied to outputs in blocks of channels. NULL is allowed. */
bool gconv_tail_takes_blocks(const gconv_tail *tail);
/* Returns whether a GPU can compute the last step of a tail. `in_memory`: its first step finds outputs in memory, and may
 * take them twice. */
bool gconv_tail_suits_gpu(const gconv_tail *tail, bool in_memory);
/* Returns which tails an algorithm on a GPU must be able to compute for a node. */
gconv_layer_tails gconv_tail_of_gpu(const gconv_node_fused *fused);
/* Writes a tail for the epilogues of a GPU's algorithms. False if it has steps that they do not compute. */
bool gconv_tail_shorten(const gconv_tail *tail, gconv_gpu_tail *to);
/* Returns the tail of a node as a job in the memory of its outputs on a GPU. */
gconv_gpu_elements gconv_tail_gpu_job(const gconv_node_work *work);
/* Appends a node's tail, if it has one, to a chain. */
void gconv_tail_append(const gconv_node_work *work, gconv_gpu_elements *job);

/* Returns whether two tails have the same steps and constants. Both may be NULL. */
bool gconv_tail_same(const gconv_tail *a, const gconv_tail *b);

GCONV_C_END

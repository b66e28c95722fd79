/* SPDX-License-Identifier: MIT */
/* The engine of a GPU: engine_cuda_make.cu makes and frees it, engine_cuda.cu runs its steps. */
#pragma once

#include "kernels/cuda/train/dense.h"
#include "kernels/cuda/train/resident.h"
#include "train/cases_cuda.h"
#include "train/plans_cuda.h"

enum {
  GCONV_CUDA_STEPS = 1024,     /* the most steps that are started at a time */
  GCONV_CUDA_STEPS_READ = 64,  /* the same, if the host reads the cases of each */
  GCONV_CUDA_GRAPH_STEPS = 16, /* the most steps of a CUDA graph */
  GCONV_CUDA_LAYERS = 32,      /* the most layers of a kernel that updates parameters */
  GCONV_CUDA_BUFFERS = 3 /* for gradients of values: one is read, one written; a gradient of parameters may read the third */
};

/* Steps of some number of cases as CUDA graphs, which start without the host. */
struct gconv_cuda_graphs {
  size_t cases; /* 0: there are none */
  /* The graphs contain these: */
  const float *inputs;
  const gconv_held_cases *held;
  const size_t *numbers;
  cudaGraphExec_t one, many; /* 1 and GCONV_CUDA_GRAPH_STEPS steps; many: NULL until it is needed */
};

struct gconv_cuda_engine {
  gconv_engine_order order;
  const gconv_learn_net *net;
  gconv_learn_net weighted; /* a copy of *net, with weights of classes in device memory */
  gconv_learn_own *layers;
  cudaStream_t stream, beside;          /* `beside` computes losses during the backward pass, which does not need them */
  cudaStream_t weights;                 /* computes gradients of parameters while gradients of inputs are computed */
  cudaEvent_t forward, found;           /* forward: the outputs are computed; found: the losses are computed */
  cudaEvent_t ready;                    /* the numbers that another stream waits for are computed */
  cudaEvent_t used[GCONV_CUDA_BUFFERS]; /* gradients[i] was read for a gradient of parameters */
  void **owned;                         /* device memory */
  size_t owned_count;
  float *arrays[GCONV_LEARN_ARRAYS];
  uint8_t *are_weights; /* for each parameter: 1 if it is a weight */
  size_t room;          /* the most cases at a time */
  float **values;       /* inputs of each layer, and the last output, in device memory; the array is in host memory */
  float *targets;       /* of the cases whose inputs are values[0] */
  float *inputs_room, *targets_room; /* memory for them; a step of all data uses the held arrays instead */
  float *gradients[GCONV_CUDA_BUFFERS];
  float *leaves, *case_sums, *chunk_sums;
  double *losses;
  uint32_t *hits;
  size_t losses_room;
  gconv_learn_outcome *outcomes; /* one for each step that is started; pinned host memory */
  gconv_learn_outcome *many;     /* the same in device memory */
  gconv_learn_step *steps;       /* the steps that are started, in device memory */
  gconv_learn_control *control;  /* what these steps share, in device memory */
  gconv_cuda_graphs graphs[2];   /* of whole batches, and of a last batch that is smaller */
  uint32_t *bad;                 /* 1: a parameter is not finite, pinned host memory */
  gconv_cuda_cases cases;
  gconv_learn_plans plans;
  gconv_learn_tensor **tensors;     /* [layers], in host memory; NULL: its gradient is computed by chains */
  bool *dense;                      /* [layers], in host memory: tensor cores compute the dense layer */
  gconv_learn_parts *parts;         /* [layers], in host memory: the gradients of the parameters */
  gconv_resident *resident;         /* NULL: the network is not resident */
  const gconv_held_cases *arranged; /* the cases that the resident network already has, in their order; or NULL */
  /* For the steps that run: */
  size_t started;
  gconv_learn_cases rest; /* the cases of the pass after these steps */
  double best, factor;    /* if loss * factor of the first step is below `best`, the parameters before it are the best */
};

/* For gconv_engine_type: create() and destroy(). */
gconv_status gconv_cuda_engine_create(const gconv_engine_order *order, void **result);
void gconv_cuda_engine_free(void *state);

/* Frees `count` graphs, whose addresses or numbers change. */
void gconv_cuda_graphs_drop(gconv_cuda_graphs *graphs, size_t count);

/* Returns for how many cases chains are computed at a time: a power of two, in the tail a power of two slices. */
size_t gconv_cuda_chunk_of(const gconv_learn_own *own);

inline bool gconv_is_power_of_two(int64_t n) {
  return (n & (n - 1)) == 0;
}

/* SPDX-License-Identifier: MIT */
/* Algorithms for layers: each is a descriptor in one file of kernels/, and a row in layer_algorithms.def. */
#pragma once

#include "kernels/layer_problem.h"

/* One call of an algorithm. Addresses are of the device's memory. Weights and workspace are aligned to 64 bytes. The images
 * may be in the middle of a larger batch, so in and out are only aligned to 4. */
typedef struct gconv_layer_execution {
  const gconv_layer_problem *problem;
  const float *weights;              /* weights, biases, and what prepare() wrote (layer_problem.h) */
  const float *in;                   /* N x C x H x W */
  float *out;                        /* N x K x P x Q */
  void *state;                       /* what acquire() made; NULL without one */
  void *workspace;                   /* workspace_bytes() of it; on the CPU each thread has its own; contents undefined */
  size_t task;                       /* CPU: the number of the part, below tasks(). CUDA: not used, one call does all */
  void *stream;                      /* cudaStream_t */
  const struct gconv_gpu_tail *tail; /* CUDA: operations on outputs after the activation (kernels/cuda/graph/graph.h), for
                                        algorithms that take tails; NULL: none */
} gconv_layer_execution;

/* The operations after a convolution that an algorithm on a GPU can compute with it. */
typedef enum gconv_layer_tails {
  GCONV_TAILS_NONE,
  GCONV_TAILS_SLOPES, /* PRelu with a slope for each filter, where the problem has no activation */
  GCONV_TAILS_SHORT,  /* the operations that a gconv_gpu_tail can have */
  GCONV_TAILS_ALL     /* any chain of operations, by one more kernel (kernels/cuda/graph/elementwise.cu) */
} gconv_layer_tails;

typedef struct gconv_layer_algorithm {
  gconv_algorithm_info info;

  const char *(*available)(void); /* as in gconv_algorithm */

  /* Returns NULL if the algorithm can solve the problem, else why not: "filters other than 3 x 3". Algorithms on tensor
   * cores, which round their products, support one problem->math each; the others only support GCONV_MATH_FP32. */
  const char *(*supports)(const gconv_layer_problem *problem);

  /* CPU: returns the number of independent parts of the work. Each call does one; their order must not change the result. */
  size_t (*tasks)(const gconv_layer_problem *problem);

  /* Returns the bytes of the workspace, which grow with problem->images; on the CPU, each thread has one. NULL: there is
   * none. If all workspaces exceed problem->workspace_limit, the network executes the problem in several parts, with fewer
   * images. */
  size_t (*workspace_bytes)(const gconv_layer_problem *problem);

  /* As in gconv_algorithm. */
  gconv_status (*execute)(const gconv_layer_execution *execution);
  double (*cost)(const gconv_layer_problem *problem, const gconv_machine *machine);

  /* The largest |error| of sum + bias, relative to sum |weight * x| + |bias| of the output. If `bound_of_largest`, it is
   * relative to (sum |weight|) * (largest |x| of the group's channels of the image) + |bias|: for algorithms that mix
   * neighbours (winograd) or lose the smallest products (gemm-3xfp16, gemm-6xbf16). */
  double (*error_bound)(const gconv_layer_problem *problem);
  bool bound_of_largest;

  /* As in gconv_algorithm. */
  size_t (*prepared_floats)(const gconv_layer_problem *problem);
  gconv_status (*prepare)(const gconv_layer_problem *problem, const float *weights, float *prepared);

  /* CUDA. Weights that change, as in training, are prepared anew by the device. First, on the host, fill_sources() names the
   * weight that each number of prepare() is made of; -1: the number is 0. Then prepare_again() makes these numbers on the
   * stream. It finds `sources`, and all other things that prepare() writes, in memory of the device. A count of 0: the
   * algorithm cannot do this for the problem. NULL: prepare() writes only constants and unchanged weights. */
  size_t (*source_count)(const gconv_layer_problem *problem);
  void (*fill_sources)(const gconv_layer_problem *problem, int32_t *sources);
  gconv_status (*prepare_again)(const gconv_layer_execution *execution, const int32_t *sources);

  /* CUDA; as in gconv_algorithm. acquire() gets the very problem that execute() will get each time. */
  gconv_status (*acquire)(const gconv_layer_execution *execution, void **state);
  void (*dismiss)(void *state);

  /* CPU: supports() understands problems whose input or output is in blocks of channels. Others never get such problems. */
  bool blocks;

  /* CPU: problems may have gaps between channels. If rows of the output begin at a multiple of row_step of the whole output,
   * they have the same bits as in the whole. 0: no gaps. */
  int32_t row_step;

  /* The algorithm is made of a library that may be missing. `auto` never takes it, so that choices do not depend on what is
   * installed; users ask for it by name. */
  bool library;

  gconv_layer_tails tails; /* CUDA: the tails that execute() can compute */
  bool keeps;              /* CUDA: it reads and writes kept tensors (layer_problem.h) */
} gconv_layer_algorithm;

#ifdef __cplusplus
extern "C" {
#endif

#define LAYER_ALGORITHM(device, name) extern const gconv_layer_algorithm gconv_layer_algorithm_##device##_##name;
#include "kernels/layer_algorithms.def"
#undef LAYER_ALGORITHM

/* The algorithms of this build in the order of layer_algorithms.def; NULL past the end. */
const gconv_layer_algorithm *gconv_layer_algorithm_row(size_t index);

/* 2 * N * K * C/G * R * S * P * Q */
double gconv_layer_flop(const gconv_layer_problem *problem);

/* gconv_rounding_bound() of a chain of fused multiply-adds and the addition of the bias: of C/G * R * S + 1 roundings. */
double gconv_layer_chain_bound(const gconv_layer_problem *problem);

/* gconv_rounding_bound() of a sum in float64, which is rounded once to float32, and once more with the bias. */
double gconv_layer_float64_bound(const gconv_layer_problem *problem);

/* supports() of algorithms that solve any problem, but only in float32. */
const char *gconv_layer_takes_fp32(const gconv_layer_problem *problem);

#ifdef __cplusplus
}
#endif

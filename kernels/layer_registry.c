/* SPDX-License-Identifier: MIT */
/* The table of algorithms for layers, made from layer_algorithms.def. */
#include "kernels/layer_algorithm.h"

/* Without CUDA, the rows of cuda are left out. */
#define ROW_cpu(name) &gconv_layer_algorithm_cpu_##name,
#ifdef GCONV_WITH_CUDA
#define ROW_cuda(name) &gconv_layer_algorithm_cuda_##name,
#else
#define ROW_cuda(name)
#endif

static const gconv_layer_algorithm *const rows[] = {
#define LAYER_ALGORITHM(device, name) ROW_##device(name)
#include "kernels/layer_algorithms.def"
#undef LAYER_ALGORITHM
};

const gconv_layer_algorithm *gconv_layer_algorithm_row(size_t index) {
  return index < sizeof rows / sizeof rows[0] ? rows[index] : NULL;
}

const gconv_algorithm_info *gconv_layer_algorithm_at(size_t index) {
  const gconv_layer_algorithm *algorithm = gconv_layer_algorithm_row(index);
  return algorithm ? &algorithm->info : NULL;
}

const char *gconv_layer_algorithm_obstacle(size_t index) {
  const gconv_layer_algorithm *algorithm = gconv_layer_algorithm_row(index);
  return algorithm && algorithm->available ? algorithm->available() : NULL;
}

double gconv_layer_flop(const gconv_layer_problem *problem) {
  double outputs = (double)problem->images * problem->filters * problem->out_height * problem->out_width;
  return 2 * outputs * (double)gconv_layer_taps(problem);
}

double gconv_layer_chain_bound(const gconv_layer_problem *problem) {
  double n = ((double)gconv_layer_taps(problem) + 1) * 0x1p-24;
  return n < 0.5 ? n / (1 - n) : 1;
}

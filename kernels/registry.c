/* SPDX-License-Identifier: MIT */
/* The table of algorithms, made from algorithms.def. */
#include "kernels/algorithm.h"

/* Without CUDA, the rows of cuda are left out. */
#define ROW_cpu(name) &gconv_algorithm_cpu_##name,
#ifdef GCONV_WITH_CUDA
#define ROW_cuda(name) &gconv_algorithm_cuda_##name,
#else
#define ROW_cuda(name)
#endif

static const gconv_algorithm *const rows[] = {
#define ALGORITHM(device, name) ROW_##device(name)
#include "kernels/algorithms.def"
#undef ALGORITHM
};

const gconv_algorithm *gconv_algorithm_row(size_t index) {
  return index < sizeof rows / sizeof rows[0] ? rows[index] : NULL;
}

const gconv_algorithm_info *gconv_algorithm_at(size_t index) {
  const gconv_algorithm *algorithm = gconv_algorithm_row(index);
  return algorithm ? &algorithm->info : NULL;
}

const char *gconv_algorithm_obstacle(size_t index) {
  const gconv_algorithm *algorithm = gconv_algorithm_row(index);
  return algorithm && algorithm->available ? algorithm->available() : NULL;
}

double gconv_problem_flop(const gconv_problem *problem) {
  double samples = (double)problem->images * problem->planes * (problem->channels - problem->keep_alpha) *
                   problem->out_height * problem->out_width;
  return 2.0 * samples * (double)gconv_tap_count(problem);
}

double gconv_chain_bound(const gconv_problem *problem) {
  double n = (double)problem->rows * problem->columns * 0x1p-24;
  return n < 0.5 ? n / (1 - n) : 1;
}

/* SPDX-License-Identifier: MIT */
/* The tables of algorithms, made from algorithms.def and layer_algorithms.def. */
#include "kernels/algorithm.h"
#include "kernels/layer_algorithm.h"

#include <string.h>

/* Without CUDA, the rows of cuda are left out. */
#define ROW_cpu(table, name) &gconv_##table##_cpu_##name,
#ifdef GCONV_WITH_CUDA
#define ROW_cuda(table, name) &gconv_##table##_cuda_##name,
#else
#define ROW_cuda(table, name)
#endif

static const gconv_algorithm *const rows[] = {
#define ALGORITHM(device, name) ROW_##device(algorithm, name)
#include "kernels/algorithms.def"
#undef ALGORITHM
};

static const gconv_layer_algorithm *const layer_rows[] = {
#define LAYER_ALGORITHM(device, name) ROW_##device(layer_algorithm, name)
#include "kernels/layer_algorithms.def"
#undef LAYER_ALGORITHM
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

const char *gconv_takes_all(const gconv_problem *problem) {
  return NULL;
}

double gconv_problem_flop(const gconv_problem *problem) {
  double samples = (double)problem->images * problem->planes * (problem->channels - problem->keep_alpha) *
                   problem->out_height * problem->out_width;
  return 2.0 * samples * (double)gconv_tap_count(problem);
}

double gconv_rounding_bound(double roundings) {
  double n = roundings * 0x1p-24;
  return n < 0.5 ? n / (1 - n) : 1;
}

double gconv_chain_bound(const gconv_problem *problem) {
  if (problem->structure.gain == 0) /* nothing is known of the taps */
    return gconv_rounding_bound((double)problem->rows * problem->columns);
  return problem->structure.chain;
}

double gconv_float64_bound(const gconv_problem *problem) {
  return 0x1p-24 + (double)problem->rows * problem->columns * 0x1p-52;
}

bool gconv_leaves_out_marks(const gconv_algorithm *algorithm, const gconv_problem *problem) {
  return problem->structure.marks == 0 || problem->in_type != GCONV_F32 || algorithm->leaves_out_marks ||
         strcmp(algorithm->info.device, "cpu") == 0;
}

const gconv_layer_algorithm *gconv_layer_algorithm_row(size_t index) {
  return index < sizeof layer_rows / sizeof layer_rows[0] ? layer_rows[index] : NULL;
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
  return gconv_rounding_bound((double)gconv_layer_taps(problem) + 1);
}

double gconv_layer_float64_bound(const gconv_layer_problem *problem) {
  return 2 * 0x1p-24 + (double)gconv_layer_taps(problem) * 0x1p-52;
}

const char *gconv_layer_takes_fp32(const gconv_layer_problem *problem) {
  return problem->math == GCONV_MATH_FP32 ? NULL : "math other than fp32";
}

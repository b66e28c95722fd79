/* SPDX-License-Identifier: MIT */
/*
 * gemm-3xfp16: accuracy of the class of float32 from tensor cores, with numbers of 16 bits. Each float32 becomes two float16
 * digits, 22 bits together, and three products of digits make one product (tensor.cuh). At best a third of 990 TFLOP/s. This
 * is the fastest algorithm if there is enough to multiply.
 *
 * The digits have a range of 2^-24 to 2^16. So inputs are scaled by the largest magnitude of their image and group, which
 * takes a pass over the input, and filters by their own largest magnitude. Numbers 2^17 times smaller than the largest lose
 * bits. Therefore the error bound is relative to the largest number.
 *
 * First layers, with few channels, have their own kernel where it is estimated to be faster; it needs no pass over the input
 * (gather.cuh).
 */
#include "gather.cuh"

namespace {

typedef tensor::product<tensor::fp16, 2> planes;

/* Returns the cut for gathered patches. Its `cycles` are infinite if planes are faster. */
gather::cut gathered_cut(const gconv_layer_problem *problem) {
  gather::cut c = gather::cut_problem(problem);
  if (!(c.cycles < tensor::MEASURED * tensor::cut_problem(problem, tensor::fp16::U, 2).cycles))
    c.cycles = HUGE_VAL;
  return c;
}
bool is_gathered(const gather::cut &c) {
  return c.cycles < HUGE_VAL;
}

/* Which of the two kernels a layer uses, found once, and its state. */
struct chosen_state {
  gather::cut gathered;
  void *planes; /* the state of the other kernel; NULL where patches are gathered */
};

struct chosen {
  static const char *supports(const gconv_layer_problem *problem) {
    return problem->math == GCONV_MATH_FP32 && is_gathered(gathered_cut(problem)) ? NULL : planes::supports(problem);
  }
  static size_t workspace_bytes(const gconv_layer_problem *problem) {
    return is_gathered(gathered_cut(problem)) ? 0 : planes::workspace_bytes(problem);
  }
  static size_t prepared_floats(const gconv_layer_problem *problem) {
    const gather::cut c = gathered_cut(problem);
    return is_gathered(c) ? gather::layer::prepared_floats(c) : planes::prepared_floats(problem);
  }
  static gconv_status prepare(const gconv_layer_problem *problem, const float *weights, float *prepared) {
    const gather::cut c = gathered_cut(problem);
    return is_gathered(c) ? gather::layer::prepare(problem, c, weights, prepared)
                          : planes::prepare(problem, weights, prepared);
  }
  static size_t source_count(const gconv_layer_problem *problem) {
    return is_gathered(gathered_cut(problem)) ? 0 : planes::source_count(problem);
  }
  static void fill_sources(const gconv_layer_problem *problem, int32_t *sources) {
    planes::fill_sources(problem, sources);
  }
  static gconv_status prepare_again(const gconv_layer_execution *execution, const int32_t *sources) {
    gconv_layer_execution e = *execution;
    e.state = ((const chosen_state *)execution->state)->planes;
    return planes::prepare_again(&e, sources);
  }
  static double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
    const gather::cut c = gathered_cut(problem);
    return is_gathered(c) ? gather::layer::cost(c, machine) : planes::cost(problem, machine);
  }
  static double error_bound(const gconv_layer_problem *problem) {
    const gather::cut c = gathered_cut(problem);
    return is_gathered(c) ? gather::layer::error_bound(c) : planes::error_bound(problem);
  }
  static gconv_status acquire(const gconv_layer_execution *execution, void **state) {
    chosen_state *s = (chosen_state *)calloc(1, sizeof *s);
    if (!s)
      return gconv_fail(GCONV_NO_MEMORY, "out of memory");
    s->gathered = gathered_cut(execution->problem);
    const gconv_status status =
        is_gathered(s->gathered) ? gather::layer::acquire(s->gathered) : planes::acquire(execution, &s->planes);
    if (status != GCONV_OK)
      dismiss(s);
    else
      *state = s;
    return status;
  }
  static void dismiss(void *state) {
    free(((chosen_state *)state)->planes);
    free(state);
  }
  static gconv_status execute(const gconv_layer_execution *execution) {
    const chosen_state *s = (const chosen_state *)execution->state;
    if (is_gathered(s->gathered))
      return gather::layer::execute(execution, s->gathered);
    gconv_layer_execution e = *execution;
    e.state = s->planes;
    return planes::execute(&e);
  }
};

constexpr gconv_layer_algorithm row() {
  gconv_layer_algorithm row = tensor::algorithm_of<chosen>(
      "gemm-3xfp16", "fp32-class products of three float16 products each, on tensor cores", true);
  row.dismiss = chosen::dismiss;
  return row;
}

} // namespace

extern "C" constexpr gconv_layer_algorithm gconv_layer_algorithm_cuda_gemm_3xfp16 = row();

/* SPDX-License-Identifier: MIT */
#include "device/cuda_error.h"
#include "train/plans_cuda.h"

#include <algorithm>
#include <stdlib.h>
#include <string.h>

namespace {

/* ---- Problems ---- */

gconv_layer_problem forward_problem(const gconv_layer_problem *layer, size_t images) {
  gconv_layer_problem p = *layer;
  p.images = (int32_t)images;
  p.math = GCONV_MATH_FP32;
  p.workspace_limit = 0;
  if (p.activation == GCONV_ACTIVATION_SOFTMAX)
    p.activation = GCONV_ACTIVATION_NONE;
  return p;
}

gconv_layer_problem inputs_problem(const gconv_layer_problem *layer, size_t images) {
  gconv_layer_problem p = forward_problem(layer, images);
  std::swap(p.channels, p.filters);
  std::swap(p.height, p.out_height);
  std::swap(p.width, p.out_width);
  p.pad_top = (p.rows - 1) * p.dilation_y - layer->pad_top;
  p.pad_left = (p.columns - 1) * p.dilation_x - layer->pad_left;
  p.activation = GCONV_ACTIVATION_NONE;
  return p;
}

enum : size_t { WORKSPACE_BYTES = 256 << 20 };

size_t workspace_of(const gconv_layer_algorithm *row, const gconv_layer_problem *problem) {
  return row->workspace_bytes ? row->workspace_bytes(problem) : 0;
}

bool takes(const gconv_layer_algorithm *row, const gconv_layer_problem *problem, bool exact) {
  return strcmp(row->info.device, "cuda") == 0 && !row->library && !strstr(row->info.name, "-classic") &&
         (!row->available || !row->available()) && (exact ? row->info.exact : row->info.exact || row->prepare_again) &&
         !row->supports(problem) && (!row->source_count || row->source_count(problem) > 0) &&
         workspace_of(row, problem) <= WORKSPACE_BYTES;
}

/* Returns the estimated time of a step. An algorithm that rounds prepares its weights anew in each step, and must be faster
 * by a fifth: for the 16 channels of a denoiser, gemm-3xfp16 had the smaller estimate, but steps took 740 us instead of
 * 510. */
double price_of(const gconv_layer_algorithm *row, const gconv_layer_problem *problem, const gconv_machine *machine) {
  return row->cost(problem, machine) * (row->info.exact ? 1 : 1.25);
}

/* Returns the algorithm that is estimated to be the fastest; NULL: none supports the problem. It may round products only if
 * the order allows it. */
const gconv_layer_algorithm *choose(const gconv_engine_order *order, gconv_layer_problem *problem) {
  const gconv_machine *machine = &order->device->machine;
  const gconv_layer_algorithm *best = NULL, *row;
  gconv_math best_math = GCONV_MATH_FP32;
  for (const gconv_math math : {GCONV_MATH_FP32, order->math}) {
    problem->math = math;
    for (size_t i = 0; (row = gconv_layer_algorithm_row(i)) != NULL; i++)
      if (takes(row, problem, order->exact)) {
        gconv_layer_problem other = *problem;
        other.math = best_math;
        if (!best || price_of(row, problem, machine) < price_of(best, &other, machine)) {
          best = row;
          best_math = math;
        }
      }
  }
  problem->math = best_math;
  return best;
}

/* ---- Where weights come from ---- */

/* Returns the number of the parameter that is weight i of a plan. inputs: a plan for the gradient of inputs, whose filters
 * are rotated. Forward plans have weights, then biases, in the order of the parameters. */
int32_t parameter_of(const gconv_learn_own *own, bool inputs, int64_t i) {
  const gconv_layer_problem *p = &own->layer.problem; /* K filters of C / G channels; rotated, C filters of K / G */
  const int64_t first = (int64_t)own->layer.weights;
  if (!inputs)
    return (int32_t)(first + i);
  const int64_t plane = (int64_t)p->rows * p->columns, filters = p->filters / p->groups, channels = p->channels / p->groups;
  const int64_t tap = i % plane, k = i / plane % filters, c = i / plane / filters, group = c / channels;
  return (int32_t)(first + ((group * filters + k) * channels + c - group * channels) * plane + plane - 1 - tap);
}

enum { MARK = 1 << 30 };

/* Writes numbers in place of weights, and lets the algorithm prepare them. */
gconv_status prepare_numbers(const gconv_learn_plan *plan, size_t numbered, int32_t from, int32_t *weights) {
  memset(weights, 0, plan->floats * sizeof *weights);
  for (size_t i = 0; i < numbered; i++)
    weights[i] = from + (int32_t)i;
  float *prepared = (float *)gconv_layer_prepared(&plan->problem, (const float *)weights);
  return plan->algorithm->prepare ? plan->algorithm->prepare(&plan->problem, (const float *)weights, prepared) : GCONV_OK;
}

/* Finds the copies of each weight by preparing numbers in place of weights, twice. Prepared values that differ by MARK are
 * copies, equal values are constants. *copies is false for an algorithm that does not only copy. */
gconv_status find_sources(const gconv_learn_plan *plan, const gconv_learn_own *own, bool inputs, int32_t *sources,
                          int32_t *constants, bool *copies) {
  const size_t weights = own->layer.parameters - (size_t)own->layer.problem.filters;
  const size_t numbered = inputs ? weights : own->layer.parameters;
  if (plan->again_count) { /* the weights are copies; prepare_again() computes the prepared weights */
    *copies = true;
    GCONV_TRY(prepare_numbers(plan, 0, 0, constants));
    for (size_t i = 0; i < plan->floats; i++)
      sources[i] = i < numbered ? parameter_of(own, inputs, (int64_t)i) : -1;
    return GCONV_OK;
  }
  int32_t *other = (int32_t *)malloc(plan->floats * sizeof *other);
  GCONV_NEED_MEMORY(other, "no memory for training");
  gconv_status status = prepare_numbers(plan, numbered, 1, constants);
  GCONV_THEN(status, prepare_numbers(plan, numbered, 1 + MARK, other));
  *copies = true;
  for (size_t i = 0; i < plan->floats && status == GCONV_OK; i++) {
    const bool copy = other[i] == constants[i] + MARK && constants[i] > 0 && (size_t)constants[i] <= numbered;
    *copies = *copies && (copy || other[i] == constants[i]);
    sources[i] = copy ? parameter_of(own, inputs, constants[i] - 1) : -1;
  }
  free(other);
  return status;
}

/* ---- Making plans ---- */

gconv_status make_plan(const gconv_engine_order *order, const gconv_learn_own *own, bool inputs, size_t images,
                       gconv_learn_plans *plans, gconv_learn_plan *plan) {
  plan->problem = inputs ? inputs_problem(&own->layer.problem, images) : forward_problem(&own->layer.problem, images);
  plan->algorithm = choose(order, &plan->problem);
  if (!plan->algorithm)
    return GCONV_OK;
  plan->at = plans->floats;
  plan->floats = (size_t)gconv_layer_weight_floats(&plan->problem);
  if (plan->algorithm->prepared_floats)
    plan->floats = (plan->floats + plan->algorithm->prepared_floats(&plan->problem) + 15) / 16 * 16;
  plans->floats += plan->floats;
  if (plan->algorithm->source_count) {
    plan->again = plans->again;
    plan->again_count = plan->algorithm->source_count(&plan->problem);
    plans->again += plan->again_count;
  }
  plans->workspace_bytes = std::max(plans->workspace_bytes, workspace_of(plan->algorithm, &plan->problem));
  return GCONV_OK;
}

/* True if the gradient of inputs is a convolution: each input takes part in neighbouring outputs. */
bool gradient_is_convolution(const gconv_learn_own *own) {
  const gconv_layer_problem *p = &own->layer.problem;
  return p->stride_y == 1 && p->stride_x == 1;
}

/* Fills the arrays that all plans share, on the host. */
gconv_status fill_sources(gconv_learn_plans *plans, const gconv_learn_own *layers, int32_t *sources, int32_t *constants) {
  for (size_t i = 0; i < plans->count; i++)
    for (int inputs = 0; inputs < 2; inputs++) {
      gconv_learn_plan *plan = inputs ? &plans->inputs[i] : &plans->forward[i];
      bool copies = true;
      if (plan->algorithm)
        GCONV_TRY(find_sources(plan, &layers[i], inputs == 1, sources + plan->at, constants + plan->at, &copies));
      if (!copies)
        plan->algorithm = NULL;
      if (plan->again_count)
        plan->algorithm->fill_sources(&plan->problem, sources + plans->floats + plan->again);
    }
  return GCONV_OK;
}

gconv_status upload(gconv_learn_plans *plans, const gconv_learn_own *layers) {
  const size_t bytes = plans->floats * sizeof(float), all = bytes + plans->again * sizeof(int32_t);
  int32_t *sources = (int32_t *)malloc(all), *constants = (int32_t *)malloc(bytes);
  gconv_status status = sources && constants ? fill_sources(plans, layers, sources, constants)
                                             : gconv_fail(GCONV_NO_MEMORY, "no memory for training");
  cudaError_t error = cudaSuccess;
  if (status == GCONV_OK && bytes > 0) {
    error = cudaMalloc(&plans->weights, bytes);
    if (error == cudaSuccess)
      error = cudaMalloc(&plans->sources, all);
    if (error == cudaSuccess && plans->workspace_bytes > 0)
      error = cudaMalloc(&plans->workspace, plans->workspace_bytes);
    if (error == cudaSuccess)
      status = gconv_cuda_upload(plans->weights, constants, bytes);
    if (error == cudaSuccess && status == GCONV_OK)
      status = gconv_cuda_upload(plans->sources, sources, all);
  }
  free(sources);
  free(constants);
  CUDA_TRY(error);
  return status;
}

gconv_layer_execution execution_of(const gconv_learn_plans *plans, const gconv_learn_plan *plan, cudaStream_t stream) {
  gconv_layer_execution execution = {};
  execution.problem = &plan->problem;
  execution.weights = plans->weights + plan->at;
  execution.state = plan->state;
  execution.workspace = plans->workspace;
  execution.stream = stream;
  return execution;
}

gconv_status acquire(gconv_learn_plans *plans, gconv_learn_plan *plan) {
  const gconv_layer_execution execution = execution_of(plans, plan, NULL);
  return plan->algorithm && plan->algorithm->acquire ? plan->algorithm->acquire(&execution, &plan->state) : GCONV_OK;
}

__global__ void place(const int32_t *sources, const float *parameters, int64_t count, float *weights) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (int64_t)blockDim.x)
    if (sources[i] >= 0)
      weights[i] = parameters[sources[i]];
}

} // namespace

gconv_status gconv_learn_plans_make(const gconv_engine_order *order, const gconv_learn_own *layers, size_t images,
                                    gconv_learn_plans *plans) {
  const gconv_learn_net *net = order->net;
  *plans = {};
  plans->forward = (gconv_learn_plan *)calloc(net->count, sizeof *plans->forward);
  plans->inputs = (gconv_learn_plan *)calloc(net->count, sizeof *plans->inputs);
  GCONV_NEED_MEMORY(plans->forward && plans->inputs, "no memory for training");
  plans->count = net->count;
  for (size_t i = 0; i < net->count; i++)
    if (layers[i].layer.parameters && !layers[i].in_tail && layers[i].layer.parameters < MARK / 2 && images <= INT32_MAX) {
      GCONV_TRY(make_plan(order, &layers[i], false, images, plans, &plans->forward[i]));
      if (i > 0 && gradient_is_convolution(&layers[i]))
        GCONV_TRY(make_plan(order, &layers[i], true, images, plans, &plans->inputs[i]));
    }
  GCONV_TRY(upload(plans, layers));
  for (size_t i = 0; i < net->count; i++) {
    GCONV_TRY(acquire(plans, &plans->forward[i]));
    GCONV_TRY(acquire(plans, &plans->inputs[i]));
  }
  return GCONV_OK;
}

void gconv_learn_plans_free(gconv_learn_plans *plans) {
  for (size_t i = 0; i < 2 * plans->count; i++) {
    const gconv_learn_plan *plan = i < plans->count ? &plans->forward[i] : &plans->inputs[i - plans->count];
    if (plan->state)
      plan->algorithm->dismiss(plan->state);
  }
  cudaFree(plans->weights);
  cudaFree(plans->sources);
  cudaFree(plans->workspace);
  free(plans->forward);
  free(plans->inputs);
  *plans = {};
}

static gconv_status prepare_again(const gconv_learn_plans *plans, const gconv_learn_plan *plan, cudaStream_t stream) {
  const gconv_layer_execution execution = execution_of(plans, plan, stream);
  return plan->algorithm && plan->again_count
             ? plan->algorithm->prepare_again(&execution, plans->sources + plans->floats + plan->again)
             : GCONV_OK;
}

gconv_status gconv_learn_plans_place(const gconv_learn_plans *plans, const float *parameters, cudaStream_t stream) {
  const size_t blocks = (plans->floats + 255) / 256;
  if (blocks > 0)
    place<<<(unsigned)std::min<size_t>(blocks, 65535), 256, 0, stream>>>(plans->sources, parameters, (int64_t)plans->floats,
                                                                         plans->weights);
  for (size_t i = 0; i < plans->count; i++) {
    GCONV_TRY(prepare_again(plans, &plans->forward[i], stream));
    GCONV_TRY(prepare_again(plans, &plans->inputs[i], stream));
  }
  return GCONV_OK;
}

gconv_status gconv_learn_plan_run(const gconv_learn_plans *plans, const gconv_learn_plan *plan, const float *in, float *out,
                                  cudaStream_t stream) {
  gconv_layer_execution execution = execution_of(plans, plan, stream);
  execution.in = in;
  execution.out = out;
  return plan->algorithm->execute(&execution);
}

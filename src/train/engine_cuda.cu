/* SPDX-License-Identifier: MIT */
/*
 * The engine of a GPU. A step computes the layers one by one, with kernels for each (kernels/cuda/train/layers.h). Small
 * networks of dense layers are trained inside one kernel (resident.h). Parameters and data stay on the device. Several steps
 * are started before the host waits for their losses.
 */
#include "device/cuda_error.h"
#include "device/guest_cuda.h"
#include "kernels/cuda/train/layers.h"
#include "kernels/cuda/train/resident.h"
#include "layer/kind.h"
#include "train/cases_cuda.h"
#include "train/plans_cuda.h"

#include <algorithm>
#include <math.h>
#include <stdlib.h>
#include <string.h>

namespace {

enum {
  MOST_STEPS = 64,  /* the most steps that are started at a time */
  BUFFERS = 3,      /* for gradients of values: one is read, one is written, a gradient of parameters may read the third */
  EVALUATED = 1024, /* cases of an evaluation at a time; fewer if their values exceed EVALUATED_BYTES */
  EVALUATED_BYTES = 256 << 20,
  LEAVES_BYTES = 256 << 20 /* memory for chains of gradients at a time */
};

struct engine {
  gconv_engine_order order;
  const gconv_learn_net *net;
  gconv_learn_net weighted; /* a copy of *net, with weights of classes in device memory */
  gconv_learn_own *layers;
  cudaStream_t stream, beside; /* `beside` computes losses during the backward pass, which does not need them */
  cudaStream_t weights;        /* computes gradients of parameters while gradients of inputs are computed */
  cudaEvent_t forward, found;  /* forward: the outputs are computed; found: the losses are computed */
  cudaEvent_t ready;           /* what another stream waits for is computed */
  cudaEvent_t used[BUFFERS];   /* gradients[i] was read for a gradient of parameters */
  void **owned;                /* device memory */
  size_t owned_count;
  float *arrays[GCONV_LEARN_ARRAYS];
  uint8_t *are_weights; /* for each parameter: 1 if it is a weight */
  size_t room;          /* the most cases at a time */
  float **values;       /* inputs of each layer, and the last output, in device memory; the array is in host memory */
  float *gradients[BUFFERS], *targets;
  float *leaves, *case_sums, *chunk_sums;
  double *losses;
  uint32_t *hits;
  size_t losses_room;
  gconv_learn_outcome *outcomes; /* one for each step that is started; pinned host memory */
  gconv_learn_outcome *many;     /* in device memory: a kernel of many steps would wait for the bus to `outcomes` */
  uint32_t *stop, *bad; /* stop: a loss is not finite, device memory; bad: a parameter is not finite, pinned host memory */
  gconv_cuda_cases cases;
  gconv_learn_plans plans;
  gconv_learn_tensor **tensors;     /* [layers], in host memory; NULL: its gradient is computed by chains */
  gconv_resident *resident;         /* NULL: the network is not resident */
  const gconv_held_cases *arranged; /* the cases that the resident network has already, in their order; or NULL */
  /* For the steps that run: */
  size_t started;
  gconv_learn_cases rest; /* the cases of the pass after these steps */
  double best, factor;    /* if loss * factor of the first step is below `best`, the parameters before it are the best */
};

/* ---- Making one ---- */

template <class T> gconv_status allocate(engine *e, size_t count, const char *what, T **memory) {
  void **owned = (void **)realloc(e->owned, (e->owned_count + 1) * sizeof *owned);
  GCONV_NEED_MEMORY(owned, "no memory for training");
  e->owned = owned;
  size_t bytes = count > SIZE_MAX / sizeof(T) - 1 ? SIZE_MAX : (count + 1) * sizeof(T);
  GCONV_TRY(gconv_cuda_allocate(e->order.device, bytes, what, (void **)memory));
  e->owned[e->owned_count++] = *memory;
  CUDA_TRY(cudaMemsetAsync(*memory, 0, bytes, e->stream));
  return GCONV_OK;
}

/* Changes the shape of a dense layer's input to channels of one place. */
void flatten(gconv_layer_problem *p) {
  p->channels *= p->height * p->width;
  p->height = p->width = p->rows = p->columns = 1;
  p->stride_y = p->stride_x = p->dilation_y = p->dilation_x = 1;
}

gconv_status prepare_layer(engine *e, size_t i, size_t tail) {
  gconv_learn_own *own = &e->layers[i];
  own->layer = e->net->layers[i];
  gconv_layer_problem *p = &own->layer.problem;
  const gconv_layer_work *work = gconv_layer_work_of(own->layer.kind);
  if (!work->by_algorithms && !(work->gpu && work->gpu->backward))
    return gconv_fail(GCONV_UNSUPPORTED, "layer %zu, %s, is trained on the CPU alone: take the device cpu", i + 1,
                      gconv_layer_kind_name(own->layer.kind));
  if (!own->layer.parameters)
    return GCONV_OK;
  own->in_tail = i >= tail;
  if (own->in_tail)
    flatten(p);
  const size_t count = (size_t)gconv_layer_taps(p);
  GCONV_TRY(allocate(e, count, "the taps of a layer", &own->taps));
  gconv_learn_tap *taps = (gconv_learn_tap *)malloc(count * sizeof *taps);
  GCONV_NEED_MEMORY(taps, "no memory for training");
  gconv_learn_make_taps(p, taps);
  /* In the engine's stream, which clears the memory. */
  const cudaError_t error = cudaMemcpyAsync(own->taps, taps, count * sizeof *taps, cudaMemcpyHostToDevice, e->stream);
  free(taps);
  CUDA_TRY(error);
  CUDA_TRY(cudaMemsetAsync(e->are_weights + own->layer.weights, 1, count * (size_t)p->filters, e->stream));
  return GCONV_OK;
}

/* True if tensor cores may compute the gradient of a layer. False for sums of few numbers or filters: chains are as fast. */
bool wants_tensor(const engine *e, const gconv_learn_own *own) {
  const gconv_layer_problem *p = &own->layer.problem;
  return own->layer.parameters && !own->in_tail && !e->order.exact &&
         ((p->filters / p->groups >= 16 && gconv_layer_taps(p) >= 27) || e->order.math != GCONV_MATH_FP32);
}

/* Returns how many cases' chains are computed at a time: a power of two; in the tail, a power of two slices. */
size_t chunk_of(const gconv_learn_own *own) {
  const size_t unit = own->in_tail ? GCONV_LEARN_SLICE : 1;
  size_t cases = unit;
  while (gconv_learn_leaves(own, (int64_t)(2 * cases)) * own->layer.parameters * sizeof(float) <= LEAVES_BYTES &&
         cases < (size_t)1 << 40)
    cases *= 2;
  return cases;
}

bool is_power_of_two(int64_t n) {
  return (n & (n - 1)) == 0;
}

gconv_status prepare_sums(engine *e) {
  e->tensors = (gconv_learn_tensor **)calloc(e->net->count, sizeof *e->tensors);
  GCONV_NEED_MEMORY(e->tensors, "no memory for training");
  size_t leaves = 0, case_sums = 0, chunk_sums = 0;
  for (size_t i = 0; i < e->net->count; i++) {
    const gconv_learn_own *own = &e->layers[i];
    if (wants_tensor(e, own))
      gconv_learn_tensor_make(own, (int64_t)e->order.batch, e->order.math, &e->tensors[i]);
    if (e->tensors[i])
      leaves = std::max(leaves, gconv_learn_tensor_floats(e->tensors[i]));
    if (!own->layer.parameters || e->tensors[i])
      continue;
    const size_t chunk = chunk_of(own), cases = std::min(chunk, e->order.batch);
    const size_t chunks = (e->order.batch + chunk - 1) / chunk;
    leaves = std::max(leaves, (size_t)gconv_learn_leaves(own, (int64_t)cases) * own->layer.parameters);
    if (!own->in_tail && !is_power_of_two(gconv_learn_bands(&own->layer.problem)))
      case_sums = std::max(case_sums, cases * own->layer.parameters);
    chunk_sums = std::max(chunk_sums, chunks > 1 ? chunks * own->layer.parameters : 0);
  }
  GCONV_TRY(allocate(e, leaves, "the gradients of cases", &e->leaves));
  GCONV_TRY(allocate(e, case_sums, "the gradients of cases", &e->case_sums));
  return allocate(e, chunk_sums, "the gradients of cases", &e->chunk_sums);
}

gconv_status prepare_values(engine *e) {
  const char what[] = "the values of a batch (a smaller --batch needs less)";
  size_t all = gconv_learn_in_floats(&e->net->layers[0]), largest = all;
  for (size_t i = 0; i < e->net->count; i++) {
    all += gconv_learn_out_floats(&e->net->layers[i]);
    largest = std::max(largest, gconv_learn_out_floats(&e->net->layers[i]));
  }
  const size_t evaluated = EVALUATED_BYTES / sizeof(float) / all;
  e->room = std::max({e->order.batch, std::min<size_t>(EVALUATED, evaluated), (size_t)1});
  for (size_t i = 0; i < e->net->count; i++)
    if (e->plans.forward[i].algorithm)
      e->room = e->order.batch; /* the number of cases for which plans are made */
  e->values = (float **)calloc(e->net->count + 1, sizeof *e->values);
  GCONV_NEED_MEMORY(e->values, "no memory for training");
  for (size_t i = 0; i <= e->net->count; i++) {
    const size_t floats = i ? gconv_learn_out_floats(&e->net->layers[i - 1]) : gconv_learn_in_floats(&e->net->layers[0]);
    GCONV_TRY(allocate(e, e->room * floats, what, &e->values[i]));
  }
  for (int i = 0; i < BUFFERS; i++)
    GCONV_TRY(allocate(e, e->order.batch * largest, what, &e->gradients[i]));
  return allocate(e, e->room * gconv_learn_target_floats(e->net), what, &e->targets);
}

gconv_status upload_class_weights(engine *e) {
  const size_t classes = gconv_learn_outputs(e->net);
  float *copy = NULL;
  if (!e->net->class_weights)
    return GCONV_OK;
  GCONV_TRY(allocate(e, classes, "the weights of classes", &copy));
  CUDA_TRY(cudaMemcpyAsync(copy, e->net->class_weights, classes * sizeof *copy, cudaMemcpyHostToDevice, e->stream));
  CUDA_TRY(cudaStreamSynchronize(e->stream));
  e->weighted.class_weights = copy;
  return GCONV_OK;
}

gconv_status fill_engine(engine *e) {
  const size_t tail = gconv_learn_tail(e->net);
  CUDA_TRY(cudaStreamCreateWithFlags(&e->stream, cudaStreamNonBlocking));
  CUDA_TRY(cudaStreamCreateWithFlags(&e->beside, cudaStreamNonBlocking));
  /* A stream of low priority: the gradient of inputs is urgent, since all layers before wait for it. */
  int low = 0, high = 0;
  CUDA_TRY(cudaDeviceGetStreamPriorityRange(&low, &high));
  CUDA_TRY(cudaStreamCreateWithPriority(&e->weights, cudaStreamNonBlocking, low));
  CUDA_TRY(cudaEventCreateWithFlags(&e->ready, cudaEventDisableTiming));
  for (int i = 0; i < BUFFERS; i++)
    CUDA_TRY(cudaEventCreateWithFlags(&e->used[i], cudaEventDisableTiming));
  CUDA_TRY(cudaEventCreateWithFlags(&e->forward, cudaEventDisableTiming));
  CUDA_TRY(cudaEventCreateWithFlags(&e->found, cudaEventDisableTiming));
  e->layers = (gconv_learn_own *)calloc(e->net->count, sizeof *e->layers);
  GCONV_NEED_MEMORY(e->layers, "no memory for training");
  for (int i = 0; i < GCONV_LEARN_ARRAYS; i++)
    GCONV_TRY(allocate(e, e->net->parameters, "the parameters", &e->arrays[i]));
  GCONV_TRY(allocate(e, e->net->parameters, "the parameters", &e->are_weights));
  GCONV_TRY(allocate(e, 1, "the parameters", &e->stop));
  CUDA_TRY(cudaStreamSynchronize(e->stream)); /* all arrays are 0 now */
  for (size_t i = 0; i < e->net->count; i++)
    GCONV_TRY(prepare_layer(e, i, tail));
  GCONV_TRY(gconv_learn_plans_make(&e->order, e->layers, e->order.batch, &e->plans));
  GCONV_TRY(prepare_values(e));
  GCONV_TRY(upload_class_weights(e));
  GCONV_TRY(gconv_resident_make(e->net, e->order.batch, &e->resident));
  GCONV_TRY(prepare_sums(e));
  const size_t steps = std::max<size_t>(MOST_STEPS, GCONV_RESIDENT_STEPS);
  GCONV_TRY(allocate(e, GCONV_RESIDENT_STEPS, "the losses", &e->many));
  CUDA_TRY(cudaHostAlloc(&e->outcomes, steps * sizeof *e->outcomes, cudaHostAllocDefault));
  CUDA_TRY(cudaHostAlloc(&e->bad, sizeof *e->bad, cudaHostAllocDefault));
  *e->bad = 0;
  GCONV_TRY(gconv_cuda_cases_make(&e->order, e->room, e->stream, &e->cases));
  CUDA_TRY(cudaStreamSynchronize(e->stream));
  return GCONV_OK;
}

void destroy(void *state) {
  engine *e = (engine *)state;
  if (!e)
    return;
  gconv_cuda_guest guest(e->order.device->index);
  if (e->stream)
    cudaStreamSynchronize(e->stream);
  if (e->beside)
    cudaStreamSynchronize(e->beside);
  if (e->weights)
    cudaStreamSynchronize(e->weights);
  gconv_cuda_cases_free(&e->cases);
  gconv_resident_free(e->resident);
  gconv_learn_plans_free(&e->plans);
  for (size_t i = 0; i < e->owned_count; i++)
    cudaFree(e->owned[i]);
  cudaFree(e->losses);
  cudaFree(e->hits);
  cudaFreeHost(e->outcomes);
  cudaFreeHost(e->bad);
  if (e->forward)
    cudaEventDestroy(e->forward);
  if (e->found)
    cudaEventDestroy(e->found);
  if (e->ready)
    cudaEventDestroy(e->ready);
  for (int i = 0; i < BUFFERS; i++)
    if (e->used[i])
      cudaEventDestroy(e->used[i]);
  if (e->weights)
    cudaStreamDestroy(e->weights);
  if (e->beside)
    cudaStreamDestroy(e->beside);
  if (e->stream)
    cudaStreamDestroy(e->stream);
  for (size_t i = 0; i < e->net->count && e->tensors; i++)
    free(e->tensors[i]);
  free(e->tensors);
  free(e->owned);
  free(e->values);
  free(e->layers);
  free(e);
}

gconv_status create(const gconv_engine_order *order, void **result) {
  engine *e = (engine *)calloc(1, sizeof *e);
  GCONV_NEED_MEMORY(e, "no memory for training");
  e->order = *order;
  e->net = order->net;
  e->weighted = *order->net;
  gconv_cuda_guest guest(order->device->index);
  const gconv_status status = fill_engine(e);
  if (status != GCONV_OK) {
    destroy(e);
    return gconv_fail_in(status, "training on %s", order->device->info.name);
  }
  *result = e;
  return GCONV_OK;
}

/* The next call that returns a status reports failures. */
void set(void *state, gconv_learn_array array, const float *values) {
  engine *e = (engine *)state;
  gconv_cuda_guest guest(e->order.device->index);
  cudaMemcpyAsync(e->arrays[array], values, e->net->parameters * sizeof *values, cudaMemcpyHostToDevice, e->stream);
  cudaStreamSynchronize(e->stream);
  if (array == GCONV_LEARN_PARAMETERS)
    *e->bad = 0;
}

void get(const void *state, gconv_learn_array array, float *values) {
  const engine *e = (const engine *)state;
  gconv_cuda_guest guest(e->order.device->index);
  cudaStreamSynchronize(e->stream);
  cudaMemcpy(values, e->arrays[array], e->net->parameters * sizeof *values, cudaMemcpyDeviceToHost);
}

void copy_array(engine *e, gconv_learn_array from, gconv_learn_array to) {
  cudaMemcpyAsync(e->arrays[to], e->arrays[from], e->net->parameters * sizeof(float), cudaMemcpyDeviceToDevice, e->stream);
}

void keep(void *state) {
  engine *e = (engine *)state;
  gconv_cuda_guest guest(e->order.device->index);
  copy_array(e, GCONV_LEARN_PARAMETERS, GCONV_LEARN_BEST);
}

/* Steps set `bad` at a parameter that is not finite; it never becomes finite again. */
bool is_finite(const void *state) {
  const engine *e = (const engine *)state;
  gconv_cuda_guest guest(e->order.device->index);
  cudaStreamSynchronize(e->stream);
  return *(volatile uint32_t *)e->bad == 0;
}

/* ---- A pass over cases ---- */

gconv_status make_room_for_losses(engine *e, size_t cases) {
  if (cases <= e->losses_room)
    return GCONV_OK;
  CUDA_TRY(cudaStreamSynchronize(e->stream));
  cudaFree(e->losses);
  cudaFree(e->hits);
  e->losses = NULL;
  e->hits = NULL;
  e->losses_room = 0;
  CUDA_TRY(cudaMalloc(&e->losses, cases * sizeof *e->losses));
  CUDA_TRY(cudaMalloc(&e->hits, cases * sizeof *e->hits));
  e->losses_room = cases;
  return GCONV_OK;
}

/* Runs cases first .. first + count - 1 of `cases` forward. */
gconv_status run_forward(engine *e, const gconv_learn_cases *cases, size_t first, size_t count) {
  const gconv_learn_net *net = e->net;
  GCONV_TRY(gconv_cuda_cases_load(&e->cases, cases, first, count, e->values[0], e->targets));
  GCONV_TRY(gconv_learn_plans_place(&e->plans, e->arrays[GCONV_LEARN_PARAMETERS], e->stream));
  for (size_t i = 0; i < net->count; i++) {
    const gconv_learn_own *own = &e->layers[i];
    if (e->plans.forward[i].algorithm)
      GCONV_TRY(gconv_learn_plan_run(&e->plans, &e->plans.forward[i], e->values[i], e->values[i + 1], e->stream));
    else if (own->layer.parameters)
      gconv_learn_cuda_forward(own, e->arrays[GCONV_LEARN_PARAMETERS], e->values[i], (int64_t)count, e->values[i + 1],
                               e->stream);
    else {
      const gconv_layer_problem *p = &own->layer.problem;
      const gconv_layer_planes planes = {
          p, (int64_t)count, e->values[i], e->values[0], (int64_t)p->height * p->width, e->values[i + 1]};
      gconv_layer_work_of(own->layer.kind)->gpu->forward(&planes, e->stream);
    }
    if (own->layer.problem.activation == GCONV_ACTIVATION_SOFTMAX)
      gconv_layer_gpu_soften(&own->layer.problem, (int64_t)count, e->values[i + 1], e->stream);
  }
  return GCONV_OK;
}

/* Computes the losses of `count` cases after their forward pass, and stores them from number `at` on. */
void find_losses(engine *e, size_t count, size_t at, cudaStream_t stream) {
  gconv_learn_cuda_losses(&e->weighted, e->values[e->net->count], e->targets, (int64_t)count, e->losses + at, e->hits + at,
                          stream);
}

/* Computes the gradient of a layer's parameters. Cases are taken in chunks: the chains of a chunk are summed by a tree, then
 * the chunks. */
void find_gradient(engine *e, const gconv_learn_own *own, const float *x, const float *dz, size_t count) {
  const gconv_learn_layer *layer = &own->layer;
  float *gradient = e->arrays[GCONV_LEARN_GRADIENT] + layer->weights;
  const int64_t floats = (int64_t)layer->parameters, bands = own->in_tail ? 1 : gconv_learn_bands(&layer->problem);
  const size_t chunk = chunk_of(own), chunks = (count + chunk - 1) / chunk;
  for (size_t i = 0; i < chunks; i++) {
    const size_t first = i * chunk, cases = std::min(chunk, count - first);
    float *sum = chunks > 1 ? e->chunk_sums + i * layer->parameters : gradient;
    const int64_t leaves = gconv_learn_leaves(own, (int64_t)cases), trees = leaves / bands;
    gconv_learn_cuda_weights(own, x + first * gconv_learn_in_floats(layer), dz + first * gconv_learn_out_floats(layer),
                             (int64_t)cases, leaves > 1 ? e->leaves : sum, e->weights);
    if (is_power_of_two(bands) && leaves > 1) { /* the trees of the cases are branches of one tree */
      gconv_learn_cuda_tree(e->leaves, 1, leaves, floats, sum, e->weights);
    } else if (leaves > 1) {
      gconv_learn_cuda_tree(e->leaves, trees, bands, floats, trees > 1 ? e->case_sums : sum, e->weights);
      if (trees > 1)
        gconv_learn_cuda_tree(e->case_sums, 1, trees, floats, sum, e->weights);
    }
  }
  if (chunks > 1)
    gconv_learn_cuda_tree(e->chunk_sums, 1, (int64_t)chunks, floats, gradient, e->weights);
}

/* Starts to compute the gradient of layer i's parameters, from gradients[from], in a stream of its own. */
gconv_status start_parameters(engine *e, size_t i, int from, size_t count) {
  const gconv_learn_own *own = &e->layers[i];
  if (!own->layer.parameters)
    return GCONV_OK;
  CUDA_TRY(cudaEventRecord(e->ready, e->stream));
  CUDA_TRY(cudaStreamWaitEvent(e->weights, e->ready, 0));
  if (e->tensors[i])
    gconv_learn_cuda_tensor(e->tensors[i], e->values[i], e->gradients[from], (int64_t)count, e->leaves,
                            e->arrays[GCONV_LEARN_GRADIENT] + own->layer.weights, e->weights);
  else
    find_gradient(e, own, e->values[i], e->gradients[from], count);
  CUDA_TRY(cudaEventRecord(e->used[from], e->weights));
  return GCONV_OK;
}

/* Runs backward through the layers. Each layer reads a buffer of gradients, and writes the next buffer. */
gconv_status run_backward(engine *e, size_t count) {
  int from = 0;
  gconv_learn_cuda_outputs(&e->weighted, e->values[e->net->count], e->targets, (int64_t)count,
                           (float)gconv_learn_factor(e->net, count), e->gradients[from], e->stream);
  for (size_t i = e->net->count; i-- > 0;) {
    const gconv_learn_own *own = &e->layers[i];
    const int to = (from + 1) % BUFFERS;
    float *dz = e->gradients[from], *dx = e->gradients[to];
    if (i + 1 < e->net->count || e->net->loss != GCONV_LOSS_CROSS_ENTROPY)
      gconv_learn_cuda_differentiate(own, e->values[i + 1], dz, (int64_t)count, e->stream);
    GCONV_TRY(start_parameters(e, i, from, count));
    CUDA_TRY(cudaStreamWaitEvent(e->stream, e->used[to], 0)); /* does not wait if nothing reads that buffer */
    if (i > 0 && e->plans.inputs[i].algorithm)
      GCONV_TRY(gconv_learn_plan_run(&e->plans, &e->plans.inputs[i], dz, dx, e->stream));
    else if (i > 0 && !own->layer.parameters)
      gconv_layer_work_of(own->layer.kind)->gpu->backward(&own->layer.problem, (int64_t)count, dz, dx, e->stream);
    else if (i > 0)
      gconv_learn_cuda_inputs(own, e->arrays[GCONV_LEARN_PARAMETERS], dz, (int64_t)count, dx, e->stream);
    from = to;
  }
  /* The update needs all gradients of parameters. */
  CUDA_TRY(cudaEventRecord(e->ready, e->weights));
  CUDA_TRY(cudaStreamWaitEvent(e->stream, e->ready, 0));
  return GCONV_OK;
}

/* Waits for the steps that run; the outcomes are then complete. */
gconv_status finish(engine *e) {
  CUDA_TRY(cudaGetLastError());
  CUDA_TRY(cudaStreamSynchronize(e->stream));
  return GCONV_OK;
}

void sum_losses(engine *e, size_t cases, size_t step, cudaStream_t stream) {
  gconv_learn_cuda_sum_losses(e->losses, e->hits, (int64_t)cases, &e->outcomes[step], e->stop, stream);
}

gconv_status begin(engine *e, const gconv_learn_cases *cases, size_t losses, const gconv_held_cases **held) {
  GCONV_TRY(make_room_for_losses(e, losses));
  return gconv_cuda_cases_begin(&e->cases, cases, held);
}

/* Computes the gradient of cases first .. first + count - 1, and stores their losses for step `step`. */
gconv_status find_gradients(engine *e, const gconv_learn_cases *cases, size_t first, size_t count, size_t step) {
  GCONV_TRY(run_forward(e, cases, first, count));
  CUDA_TRY(cudaEventRecord(e->forward, e->stream));
  CUDA_TRY(cudaStreamWaitEvent(e->beside, e->forward, 0));
  find_losses(e, count, 0, e->beside);
  sum_losses(e, count, step, e->beside);
  CUDA_TRY(cudaEventRecord(e->found, e->beside));
  GCONV_TRY(run_backward(e, count));
  CUDA_TRY(cudaStreamWaitEvent(e->stream, e->found, 0));
  return GCONV_OK;
}

gconv_status evaluate(void *state, const gconv_learn_cases *cases, gconv_learn_sums *sums) {
  engine *e = (engine *)state;
  const gconv_held_cases *held;
  gconv_cuda_guest guest(e->order.device->index);
  GCONV_TRY(begin(e, cases, cases->count, &held));
  for (size_t at = 0; at < cases->count; at += e->room) {
    const size_t count = std::min(e->room, cases->count - at);
    GCONV_TRY(run_forward(e, cases, at, count));
    find_losses(e, count, at, e->stream);
  }
  sum_losses(e, cases->count, 0, e->stream);
  GCONV_TRY(finish(e));
  *sums = {e->outcomes[0].loss, (size_t)e->outcomes[0].hits};
  return GCONV_OK;
}

void start_update(engine *e, const gconv_learn_step *step) {
  gconv_learn_cuda_update(step, e->are_weights, (int64_t)e->net->parameters, e->arrays[GCONV_LEARN_GRADIENT],
                          e->arrays[GCONV_LEARN_PARAMETERS], e->arrays[GCONV_LEARN_FIRST], e->arrays[GCONV_LEARN_SECOND],
                          e->stop, e->bad, e->stream);
}

/* ---- Several steps ---- */

/* Starts steps of a resident network. */
gconv_status take_resident(engine *e, const gconv_learn_cases *cases, const gconv_held_cases *held,
                           const gconv_learn_step *steps, size_t count, double best) {
  gconv_resident_run run = {held->inputs, held->targets, e->cases.numbers, std::min(cases->count, count * e->order.batch)};
  const bool all = run.cases == gconv_dataset_get_info(cases->data)->cases && e->order.batch == run.cases;
  run.same = all && e->arranged == held; /* full batches keep the order of the data */
  e->arranged = all ? held : NULL;
  run.parameters = e->arrays[GCONV_LEARN_PARAMETERS];
  run.first = e->arrays[GCONV_LEARN_FIRST];
  run.second = e->arrays[GCONV_LEARN_SECOND];
  run.are_weights = e->are_weights;
  const bool many = gconv_resident_steps(e->resident) > 1;
  run.outcomes = many ? e->many : e->outcomes;
  run.bad = e->bad;
  run.best = e->arrays[GCONV_LEARN_BEST];
  run.best_loss = best;
  run.factor = gconv_learn_loss_factor(e->net, run.cases);
  GCONV_TRY(gconv_resident_start(e->resident, &run, steps, count, e->stream));
  if (many)
    CUDA_TRY(cudaMemcpyAsync(e->outcomes, e->many, count * sizeof *e->many, cudaMemcpyDeviceToHost, e->stream));
  return GCONV_OK;
}

gconv_status take_step(engine *e, const gconv_learn_cases *cases, const gconv_learn_step *step, size_t i, double best) {
  const size_t first = i * e->order.batch, count = std::min(e->order.batch, cases->count - first);
  GCONV_TRY(find_gradients(e, cases, first, count, i));
  if (best > -INFINITY) {
    GCONV_TRY(finish(e));
    if (e->outcomes[i].loss * gconv_learn_loss_factor(e->net, count) < best)
      keep(e);
  }
  start_update(e, step);
  return GCONV_OK;
}

gconv_status start(void *state, const gconv_learn_cases *cases, const gconv_learn_step *steps, size_t count, double best) {
  engine *e = (engine *)state;
  const gconv_held_cases *held;
  gconv_cuda_guest guest(e->order.device->index);
  GCONV_TRY(begin(e, cases, e->order.batch, &held));
  const bool resident = held && gconv_resident_takes(e->resident, steps[0].optimizer);
  count = std::min(count, resident ? gconv_resident_steps(e->resident) : (size_t)MOST_STEPS);
  const size_t of_pass = (cases->count + e->order.batch - 1) / e->order.batch;
  if (!resident || !gconv_resident_has_slices(e->resident))
    count = std::min(count, of_pass);
  else if (of_pass > 1 || cases->count < e->order.batch)
    count = 1; /* the next step has other cases */
  if (!resident)
    CUDA_TRY(cudaMemsetAsync(e->stop, 0, sizeof *e->stop, e->stream));
  const bool single = resident && e->order.batch <= GCONV_LEARN_SLICE && best > -INFINITY;
  if (single) /* its kernel keeps no best parameters: the parameters before the step are kept until its loss is known */
    copy_array(e, GCONV_LEARN_PARAMETERS, GCONV_LEARN_GRADIENT);
  if (resident)
    GCONV_TRY(take_resident(e, cases, held, steps, count, best));
  for (size_t i = 0; i < count && !resident; i++)
    GCONV_TRY(take_step(e, cases, &steps[i], i, best));
  e->started = count;
  const size_t taken = std::min(cases->count, count * e->order.batch);
  e->rest = {cases->data, cases->epoch, cases->numbers + taken, cases->count - taken, cases->in_order};
  e->best = single ? best : -INFINITY;
  e->factor = gconv_learn_loss_factor(e->net, cases->count);
  return GCONV_OK;
}

void prepare(void *state, const gconv_learn_cases *next) {
  engine *e = (engine *)state;
  gconv_cuda_guest guest(e->order.device->index);
  if (e->rest.count > 0)
    next = &e->rest;
  if (next)
    gconv_cuda_cases_prepare(&e->cases, next, std::min(e->order.batch, next->count));
}

gconv_status await(void *state, gconv_learn_sums *sums, size_t *taken) {
  engine *e = (engine *)state;
  gconv_cuda_guest guest(e->order.device->index);
  GCONV_TRY(finish(e));
  if (e->outcomes[0].loss * e->factor < e->best)
    copy_array(e, GCONV_LEARN_GRADIENT, GCONV_LEARN_BEST);
  bool finite = true;
  for (*taken = 0; *taken < e->started && finite; ++*taken) {
    sums[*taken] = {e->outcomes[*taken].loss, (size_t)e->outcomes[*taken].hits};
    finite = isfinite(sums[*taken].loss);
  }
  return GCONV_OK;
}

/* ---- What was chosen ---- */

bool differs(const gconv_learn_plan *plan) {
  return plan->algorithm && !plan->algorithm->info.exact;
}

bool is_exact(const void *state) {
  const engine *e = (const engine *)state;
  for (size_t i = 0; i < e->net->count; i++)
    if (e->tensors[i] || differs(&e->plans.forward[i]) || differs(&e->plans.inputs[i]))
      return false;
  return true;
}

/* Writes which algorithms compute the convolutions. */
void explain(const void *state, FILE *text) {
  const engine *e = (const engine *)state;
  const char *before = "";
  for (size_t i = 0; i < e->net->count; i++) {
    const gconv_learn_plan *forward = &e->plans.forward[i], *inputs = &e->plans.inputs[i];
    if (!forward->algorithm)
      continue;
    fprintf(text, "%slayer %zu: forward by %s, its inputs' gradient by %s, its weights' by %s", before, i + 1,
            forward->algorithm->info.name,
            i == 0              ? "nothing"
            : inputs->algorithm ? inputs->algorithm->info.name
                                : "chains",
            e->tensors[i] ? "tensor cores" : "chains");
    before = "; ";
  }
  if (!*before)
    fputs(e->resident ? "all layers stay in one kernel" : "each layer has kernels of its own", text);
}

} // namespace

extern "C" const gconv_engine_type gconv_engine_cuda = {"cuda", create,   destroy, set,   get,      keep,    is_finite, NULL,
                                                        NULL,   evaluate, start,   await, is_exact, explain, prepare};

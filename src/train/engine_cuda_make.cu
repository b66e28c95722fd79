/* SPDX-License-Identifier: MIT */
/* Makes and frees the engine of a GPU: its streams, and its memory on the device. */
#include "device/cuda_error.h"
#include "device/guest_cuda.h"
#include "layer/kind.h"
#include "train/engine_cuda.h"

#include <algorithm>
#include <stdlib.h>

using engine = gconv_cuda_engine;

enum {
  EVALUATED = 1024, /* cases of an evaluation at a time; fewer if their values exceed EVALUATED_BYTES */
  EVALUATED_BYTES = 256 << 20,
  LEAVES_BYTES = 256 << 20 /* memory for chains of gradients at a time */
};

size_t gconv_cuda_chunk_of(const gconv_learn_own *own) {
  const size_t unit = own->in_tail ? GCONV_LEARN_SLICE : 1;
  size_t cases = unit;
  while (gconv_learn_leaves(own, (int64_t)(2 * cases)) * own->layer.parameters * sizeof(float) <= LEAVES_BYTES &&
         cases < (size_t)1 << 40)
    cases *= 2;
  return cases;
}

namespace {

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

/* True if tensor cores may compute the gradient of a layer. With few filters or taps, chains of float32 are as fast. */
bool wants_tensor(const engine *e, const gconv_learn_own *own) {
  const gconv_layer_problem *p = &own->layer.problem;
  return own->layer.parameters && !own->in_tail && !e->order.exact &&
         ((p->filters / p->groups >= 16 && gconv_layer_taps(p) >= 27) || e->order.math != GCONV_MATH_FP32);
}

/* Chooses the dense layers that tensor cores compute, and allocates their leaves, which are read when parameters are
 * updated. A resident network has none: its kernel is faster. */
gconv_status prepare_dense(engine *e) {
  const int64_t batch = (int64_t)e->order.batch;
  e->dense = (bool *)calloc(e->net->count, sizeof *e->dense);
  e->parts = (gconv_learn_parts *)calloc(e->net->count, sizeof *e->parts);
  GCONV_NEED_MEMORY(e->dense && e->parts, "no memory for training");
  for (size_t i = 0; i < e->net->count; i++) {
    const gconv_learn_layer *layer = &e->layers[i].layer;
    e->dense[i] = !e->order.exact && !e->resident && gconv_dense_suits(&e->layers[i], batch);
    float *leaves = e->arrays[GCONV_LEARN_GRADIENT] + layer->weights;
    if (e->dense[i])
      GCONV_TRY(
          allocate(e, (size_t)gconv_dense_most_parts(&e->layers[i], batch) * layer->parameters, "the gradients", &leaves));
    e->parts[i] = {leaves, (int64_t)layer->weights, (int64_t)layer->parameters, 1};
  }
  return GCONV_OK;
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
    if (!own->layer.parameters || e->tensors[i] || e->dense[i])
      continue;
    const size_t chunk = gconv_cuda_chunk_of(own), cases = std::min(chunk, e->order.batch);
    const size_t chunks = (e->order.batch + chunk - 1) / chunk;
    leaves = std::max(leaves, (size_t)gconv_learn_leaves(own, (int64_t)cases) * own->layer.parameters);
    if (!own->in_tail && !gconv_is_power_of_two(gconv_learn_bands(&own->layer.problem)))
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
      e->room = e->order.batch; /* plans are made for this number of cases */
  e->values = (float **)calloc(e->net->count + 1, sizeof *e->values);
  GCONV_NEED_MEMORY(e->values, "no memory for training");
  for (size_t i = 0; i <= e->net->count; i++) {
    const size_t floats = i ? gconv_learn_out_floats(&e->net->layers[i - 1]) : gconv_learn_in_floats(&e->net->layers[0]);
    GCONV_TRY(allocate(e, e->room * floats, what, &e->values[i]));
  }
  e->inputs_room = e->values[0];
  for (int i = 0; i < GCONV_CUDA_BUFFERS; i++)
    GCONV_TRY(allocate(e, e->order.batch * largest, what, &e->gradients[i]));
  GCONV_TRY(allocate(e, e->room * gconv_learn_target_floats(e->net), what, &e->targets_room));
  e->targets = e->targets_room;
  return GCONV_OK;
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
  for (int i = 0; i < GCONV_CUDA_BUFFERS; i++)
    CUDA_TRY(cudaEventCreateWithFlags(&e->used[i], cudaEventDisableTiming));
  CUDA_TRY(cudaEventCreateWithFlags(&e->forward, cudaEventDisableTiming));
  CUDA_TRY(cudaEventCreateWithFlags(&e->found, cudaEventDisableTiming));
  e->layers = (gconv_learn_own *)calloc(e->net->count, sizeof *e->layers);
  GCONV_NEED_MEMORY(e->layers, "no memory for training");
  for (int i = 0; i < GCONV_LEARN_ARRAYS; i++)
    GCONV_TRY(allocate(e, e->net->parameters, "the parameters", &e->arrays[i]));
  GCONV_TRY(allocate(e, e->net->parameters, "the parameters", &e->are_weights));
  GCONV_TRY(allocate(e, 1, "the steps", &e->control));
  CUDA_TRY(cudaStreamSynchronize(e->stream)); /* all arrays are 0 now */
  for (size_t i = 0; i < e->net->count; i++)
    GCONV_TRY(prepare_layer(e, i, tail));
  GCONV_TRY(gconv_learn_plans_make(&e->order, e->layers, e->order.batch, &e->plans));
  GCONV_TRY(prepare_values(e));
  GCONV_TRY(upload_class_weights(e));
  GCONV_TRY(gconv_resident_make(e->net, e->order.batch, &e->resident));
  GCONV_TRY(prepare_dense(e));
  GCONV_TRY(prepare_sums(e));
  const size_t steps = std::max<size_t>(GCONV_CUDA_STEPS, GCONV_RESIDENT_STEPS);
  GCONV_TRY(allocate(e, steps, "the losses", &e->many));
  GCONV_TRY(allocate(e, steps, "the steps", &e->steps));
  CUDA_TRY(cudaHostAlloc(&e->outcomes, steps * sizeof *e->outcomes, cudaHostAllocDefault));
  CUDA_TRY(cudaHostAlloc(&e->bad, sizeof *e->bad, cudaHostAllocDefault));
  *e->bad = 0;
  GCONV_TRY(gconv_cuda_cases_make(&e->order, e->room, e->stream, &e->cases));
  CUDA_TRY(cudaStreamSynchronize(e->stream));
  return GCONV_OK;
}

} // namespace

void gconv_cuda_graphs_drop(gconv_cuda_graphs *graphs, size_t count) {
  for (gconv_cuda_graphs *own = graphs; own < graphs + count; own++) {
    if (own->one)
      cudaGraphExecDestroy(own->one);
    if (own->many)
      cudaGraphExecDestroy(own->many);
    *own = {};
  }
}

void gconv_cuda_engine_free(void *state) {
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
  gconv_cuda_graphs_drop(e->graphs, 2);
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
  for (int i = 0; i < GCONV_CUDA_BUFFERS; i++)
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
  free(e->dense);
  free(e->parts);
  free(e->owned);
  free(e->values);
  free(e->layers);
  free(e);
}

gconv_status gconv_cuda_engine_create(const gconv_engine_order *order, void **result) {
  engine *e = (engine *)calloc(1, sizeof *e);
  GCONV_NEED_MEMORY(e, "no memory for training");
  e->order = *order;
  e->net = order->net;
  e->weighted = *order->net;
  gconv_cuda_guest guest(order->device->index);
  const gconv_status status = fill_engine(e);
  if (status != GCONV_OK) {
    gconv_cuda_engine_free(e);
    return gconv_fail_in(status, "training on %s", order->device->info.name);
  }
  *result = e;
  return GCONV_OK;
}

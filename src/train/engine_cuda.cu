/* SPDX-License-Identifier: MIT */
/*
 * The steps of the engine of a GPU. A step computes the layers one by one, with kernels for each
 * (kernels/cuda/train/layers.h). Small networks of dense layers are trained inside one kernel (resident.h). Parameters and
 * data stay on the device. Several steps are started before the host waits for their losses.
 */
#include "device/cuda_error.h"
#include "device/guest_cuda.h"
#include "layer/kind.h"
#include "train/engine_cuda.h"

#include <algorithm>
#include <math.h>

using engine = gconv_cuda_engine;

namespace {

/* Failures of set() and get() are reported by the next call that returns a status. */
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

/* A step sets `bad` if a parameter is not finite. Such a parameter never becomes finite again. */
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
  gconv_cuda_graphs_drop(e->graphs, 2); /* they contain these addresses */
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

/* Loads cases first .. first + count - 1 of `cases`. */
gconv_status load(engine *e, const gconv_learn_cases *cases, size_t first, size_t count) {
  e->values[0] = e->inputs_room;
  e->targets = e->targets_room;
  return gconv_cuda_cases_load(&e->cases, cases, first, count, e->values[0], e->targets);
}

/* Runs the loaded cases forward. */
gconv_status run_forward(engine *e, size_t count) {
  const gconv_learn_net *net = e->net;
  const float *parameters = e->arrays[GCONV_LEARN_PARAMETERS];
  GCONV_TRY(gconv_learn_plans_place(&e->plans, parameters, e->stream));
  for (size_t i = 0; i < net->count; i++) {
    const gconv_learn_own *own = &e->layers[i];
    if (e->plans.forward[i].algorithm)
      GCONV_TRY(gconv_learn_plan_run(&e->plans, &e->plans.forward[i], e->values[i], e->values[i + 1], e->stream));
    else if (e->dense[i])
      gconv_dense_forward(own, e->order.math, parameters, e->values[i], (int64_t)count, e->values[i + 1], e->stream);
    else if (own->layer.parameters)
      gconv_learn_cuda_forward(own, parameters, e->values[i], (int64_t)count, e->values[i + 1], e->stream);
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
  const size_t chunk = gconv_cuda_chunk_of(own), chunks = (count + chunk - 1) / chunk;
  for (size_t i = 0; i < chunks; i++) {
    const size_t first = i * chunk, cases = std::min(chunk, count - first);
    float *sum = chunks > 1 ? e->chunk_sums + i * layer->parameters : gradient;
    const int64_t leaves = gconv_learn_leaves(own, (int64_t)cases), trees = leaves / bands;
    gconv_learn_cuda_weights(own, x + first * gconv_learn_in_floats(layer), dz + first * gconv_learn_out_floats(layer),
                             (int64_t)cases, leaves > 1 ? e->leaves : sum, e->weights);
    if (gconv_is_power_of_two(bands) && leaves > 1) { /* the trees of the cases are branches of one tree */
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
  if (e->dense[i])
    gconv_dense_weights(own, e->order.math, e->values[i], e->gradients[from], (int64_t)count, (float *)e->parts[i].leaves,
                        e->weights);
  else if (e->tensors[i])
    gconv_learn_cuda_tensor(e->tensors[i], e->values[i], e->gradients[from], (int64_t)count, e->leaves,
                            e->arrays[GCONV_LEARN_GRADIENT] + own->layer.weights, e->weights);
  else
    find_gradient(e, own, e->values[i], e->gradients[from], count);
  CUDA_TRY(cudaEventRecord(e->used[from], e->weights));
  return GCONV_OK;
}

/* True if dz, the gradient of layer i's outputs, already is the gradient of its sums. */
bool is_differentiated(const engine *e, size_t i) {
  const bool soft = e->layers[i].layer.problem.activation == GCONV_ACTIVATION_SOFTMAX;
  return i + 1 < e->net->count ? e->dense[i + 1] && !soft : !soft || e->net->loss == GCONV_LOSS_CROSS_ENTROPY;
}

/* Runs backward through the layers. Each layer reads a buffer of gradients, and writes the next buffer. */
gconv_status run_backward(engine *e, size_t count) {
  const size_t last = e->net->count - 1;
  const bool cross = e->net->loss == GCONV_LOSS_CROSS_ENTROPY;
  bool is_read[GCONV_CUDA_BUFFERS] = {}; /* for a gradient of parameters */
  int from = 0;
  gconv_learn_cuda_outputs(&e->weighted, cross || !is_differentiated(e, last) ? NULL : &e->layers[last], e->values[last + 1],
                           e->targets, (int64_t)count, (float)gconv_learn_factor(e->net, count), e->gradients[from],
                           e->stream);
  for (size_t i = last + 1; i-- > 0;) {
    const gconv_learn_own *own = &e->layers[i];
    const int to = (from + 1) % GCONV_CUDA_BUFFERS;
    float *dz = e->gradients[from], *dx = e->gradients[to];
    if (!is_differentiated(e, i))
      gconv_learn_cuda_differentiate(own, e->values[i + 1], dz, (int64_t)count, e->stream);
    GCONV_TRY(start_parameters(e, i, from, count));
    is_read[from] = is_read[from] || own->layer.parameters;
    if (is_read[to])
      CUDA_TRY(cudaStreamWaitEvent(e->stream, e->used[to], 0));
    if (i > 0 && e->plans.inputs[i].algorithm)
      GCONV_TRY(gconv_learn_plan_run(&e->plans, &e->plans.inputs[i], dz, dx, e->stream));
    else if (i > 0 && !own->layer.parameters)
      gconv_layer_work_of(own->layer.kind)->gpu->backward(&own->layer.problem, (int64_t)count, dz, dx, e->stream);
    else if (i > 0 && e->dense[i])
      gconv_dense_backward(own, is_differentiated(e, i - 1) ? &e->layers[i - 1] : NULL, e->order.math,
                           e->arrays[GCONV_LEARN_PARAMETERS], dz, e->values[i], (int64_t)count, dx, e->stream);
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

gconv_status get_outcomes(engine *e, size_t count) {
  CUDA_TRY(cudaMemcpyAsync(e->outcomes, e->many, count * sizeof *e->many, cudaMemcpyDeviceToHost, e->stream));
  return GCONV_OK;
}

void sum_losses(engine *e, size_t cases, cudaStream_t stream) {
  gconv_learn_cuda_sum_losses(e->losses, e->hits, (int64_t)cases, gconv_learn_loss_factor(e->net, cases), e->many,
                              e->control, stream);
}

gconv_status begin(engine *e, const gconv_learn_cases *cases, size_t losses, double best, const gconv_held_cases **held) {
  const gconv_learn_control control = {0, 0, 0, best};
  GCONV_TRY(make_room_for_losses(e, losses));
  CUDA_TRY(cudaMemcpyAsync(e->control, &control, sizeof control, cudaMemcpyHostToDevice, e->stream));
  return gconv_cuda_cases_begin(&e->cases, cases, held);
}

gconv_status evaluate(void *state, const gconv_learn_cases *cases, gconv_learn_sums *sums) {
  engine *e = (engine *)state;
  const gconv_held_cases *held;
  gconv_cuda_guest guest(e->order.device->index);
  GCONV_TRY(begin(e, cases, cases->count, -INFINITY, &held));
  for (size_t at = 0; at < cases->count; at += e->room) {
    const size_t count = std::min(e->room, cases->count - at);
    GCONV_TRY(load(e, cases, at, count));
    GCONV_TRY(run_forward(e, count));
    find_losses(e, count, at, e->stream);
  }
  sum_losses(e, cases->count, e->stream);
  GCONV_TRY(get_outcomes(e, 1));
  GCONV_TRY(finish(e));
  *sums = {e->outcomes[0].loss, (size_t)e->outcomes[0].hits};
  return GCONV_OK;
}

/* ---- A step ---- */

gconv_status update(engine *e, size_t count) {
  gconv_learn_parts parts[GCONV_CUDA_LAYERS];
  const gconv_learn_arrays arrays = {e->arrays[GCONV_LEARN_PARAMETERS], e->arrays[GCONV_LEARN_FIRST],
                                     e->arrays[GCONV_LEARN_SECOND], e->arrays[GCONV_LEARN_BEST], e->are_weights};
  for (size_t i = 0, some = 0; i < e->net->count; i++) {
    if (e->layers[i].layer.parameters) {
      parts[some] = e->parts[i];
      parts[some++].count = e->dense[i] ? gconv_dense_parts(&e->layers[i], (int64_t)count) : 1;
    }
    if (some == GCONV_CUDA_LAYERS || (some > 0 && i + 1 == e->net->count)) {
      gconv_learn_cuda_update(e->steps, parts, some, &arrays, e->control, e->bad, e->stream);
      some = 0;
    }
  }
  return GCONV_OK;
}

/* Enqueues a step of `count` cases: the loaded ones, or the next ones of `held`. Losses are computed beside the backward
 * pass, which does not need them. */
gconv_status enqueue_step(engine *e, const gconv_held_cases *held, size_t count) {
  if (held && e->values[0] == e->inputs_room)
    gconv_cuda_cases_take(&e->cases, held, e->control, count, e->values[0], e->targets);
  GCONV_TRY(run_forward(e, count));
  CUDA_TRY(cudaEventRecord(e->forward, e->stream));
  CUDA_TRY(cudaStreamWaitEvent(e->beside, e->forward, 0));
  find_losses(e, count, 0, e->beside);
  sum_losses(e, count, e->beside);
  CUDA_TRY(cudaEventRecord(e->found, e->beside));
  GCONV_TRY(run_backward(e, count));
  CUDA_TRY(cudaStreamWaitEvent(e->stream, e->found, 0));
  return update(e, count);
}

/* ---- Several steps as a CUDA graph ---- */

gconv_status capture(engine *e, const gconv_held_cases *held, size_t cases, int steps, cudaGraphExec_t *made) {
  cudaGraph_t graph = NULL;
  gconv_status status = GCONV_OK;
  CUDA_TRY(cudaStreamBeginCapture(e->stream, cudaStreamCaptureModeRelaxed));
  for (int i = 0; i < steps; i++)
    GCONV_THEN(status, enqueue_step(e, held, cases));
  cudaError_t error = cudaStreamEndCapture(e->stream, &graph);
  if (error == cudaSuccess && status == GCONV_OK)
    error = cudaGraphInstantiate(made, graph, 0);
  if (graph)
    cudaGraphDestroy(graph);
  GCONV_TRY(status);
  CUDA_TRY(error);
  return GCONV_OK;
}

/* Starts `count` steps of `cases` cases each. */
gconv_status launch_steps(engine *e, const gconv_held_cases *held, size_t cases, size_t count) {
  gconv_cuda_graphs *graphs = &e->graphs[cases < e->order.batch];
  if (count == 0)
    return GCONV_OK;
  if (graphs->cases != cases || graphs->inputs != e->values[0] || graphs->held != held ||
      graphs->numbers != e->cases.numbers) {
    gconv_cuda_graphs_drop(graphs, 1);
    *graphs = {cases, e->values[0], held, e->cases.numbers, NULL, NULL};
  }
  for (; count >= GCONV_CUDA_GRAPH_STEPS; count -= GCONV_CUDA_GRAPH_STEPS) {
    if (!graphs->many)
      GCONV_TRY(capture(e, held, cases, GCONV_CUDA_GRAPH_STEPS, &graphs->many));
    CUDA_TRY(cudaGraphLaunch(graphs->many, e->stream));
  }
  for (; count > 0; count--) {
    if (!graphs->one)
      GCONV_TRY(capture(e, held, cases, 1, &graphs->one));
    CUDA_TRY(cudaGraphLaunch(graphs->one, e->stream));
  }
  return GCONV_OK;
}

/* Starts steps of cases that the device holds. all: each step takes all data, in their order. */
gconv_status take_held(engine *e, const gconv_held_cases *held, const gconv_learn_cases *cases, bool all, size_t count) {
  const size_t whole = all ? count : std::min(count, cases->count / e->order.batch);
  e->values[0] = all ? held->inputs : e->inputs_room;
  e->targets = all ? held->targets : e->targets_room;
  GCONV_TRY(launch_steps(e, held, std::min(e->order.batch, cases->count), whole));
  return launch_steps(e, held, cases->count % e->order.batch, count - whole);
}

/* Starts steps of cases that the host reads. */
gconv_status take_read(engine *e, const gconv_learn_cases *cases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const size_t first = i * e->order.batch, some = std::min(e->order.batch, cases->count - first);
    GCONV_TRY(load(e, cases, first, some));
    GCONV_TRY(launch_steps(e, NULL, some, 1));
  }
  return GCONV_OK;
}

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
  run.outcomes = e->many;
  run.bad = e->bad;
  run.best = e->arrays[GCONV_LEARN_BEST];
  run.best_loss = best;
  run.factor = gconv_learn_loss_factor(e->net, run.cases);
  return gconv_resident_start(e->resident, &run, steps, count, e->stream);
}

gconv_status start(void *state, const gconv_learn_cases *cases, const gconv_learn_step *steps, size_t count, double best) {
  engine *e = (engine *)state;
  const gconv_held_cases *held;
  gconv_cuda_guest guest(e->order.device->index);
  GCONV_TRY(begin(e, cases, e->order.batch, best, &held));
  const bool resident = held && gconv_resident_takes(e->resident, steps[0].optimizer);
  const bool all = held && cases->in_order && cases->count == e->order.batch;
  const size_t most = held ? (size_t)GCONV_CUDA_STEPS : (size_t)GCONV_CUDA_STEPS_READ;
  count = std::min(count, resident ? gconv_resident_steps(e->resident) : most);
  const size_t of_pass = (cases->count + e->order.batch - 1) / e->order.batch;
  if (resident && gconv_resident_has_slices(e->resident))
    count = of_pass > 1 || cases->count < e->order.batch ? 1 : count; /* the next step has other cases */
  else if (resident || !all)
    count = std::min(count, of_pass);
  const bool single = resident && e->order.batch <= GCONV_LEARN_SLICE && best > -INFINITY;
  if (single) /* its kernel does not keep the best parameters, so those before the step are copied until its loss is known */
    copy_array(e, GCONV_LEARN_PARAMETERS, GCONV_LEARN_GRADIENT);
  CUDA_TRY(cudaMemcpyAsync(e->steps, steps, count * sizeof *steps, cudaMemcpyHostToDevice, e->stream));
  if (resident)
    GCONV_TRY(take_resident(e, cases, held, steps, count, best));
  else if (held)
    GCONV_TRY(take_held(e, held, cases, all, count));
  else
    GCONV_TRY(take_read(e, cases, count));
  GCONV_TRY(get_outcomes(e, count));
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
    if (e->dense[i] || e->tensors[i] || differs(&e->plans.forward[i]) || differs(&e->plans.inputs[i]))
      return false;
  return true;
}

/* Writes which algorithms compute the convolutions. */
void explain(const void *state, FILE *text) {
  const engine *e = (const engine *)state;
  const char *before = "";
  for (size_t i = 0; i < e->net->count; i++) {
    const gconv_learn_plan *forward = &e->plans.forward[i], *inputs = &e->plans.inputs[i];
    if (e->dense[i]) {
      fprintf(text, "%slayer %zu by tensor cores", before, i + 1);
      before = "; ";
    }
    if (!forward->algorithm)
      continue;
    fprintf(text, "%slayer %zu: forward by %s, gradient of inputs by %s, gradient of weights by %s", before, i + 1,
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

extern "C" const gconv_engine_type gconv_engine_cuda = {gconv_cuda_engine_create,
                                                        gconv_cuda_engine_free,
                                                        set,
                                                        get,
                                                        keep,
                                                        is_finite,
                                                        NULL,
                                                        NULL,
                                                        evaluate,
                                                        start,
                                                        await,
                                                        is_exact,
                                                        explain,
                                                        prepare};

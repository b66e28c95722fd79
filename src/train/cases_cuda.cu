/* SPDX-License-Identifier: MIT */
#include "data/dataset.h"
#include "device/cuda_error.h"
#include "train/cases_cuda.h"

#include <algorithm>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- Reading on the host ---- */

namespace {

enum { READ_AT_A_TIME = 16 }; /* cases of a turn */

struct reading {
  const gconv_cuda_cases *own;
  const gconv_learn_cases *cases;
  size_t first, count;
  float *inputs, *targets;
  pthread_mutex_t lock;
  gconv_status status; /* the first failure, with its text */
  char error[1024];
};

gconv_status check_classes(const reading *r, size_t begin, size_t count) {
  const gconv_learn_net *net = r->own->order->net;
  const size_t outputs = gconv_learn_outputs(net);
  for (size_t n = begin; net->classes && n < begin + count; n++)
    if (!(r->targets[n] >= 0 && r->targets[n] < (float)outputs))
      return gconv_fail(GCONV_BAD_ARGUMENT, "case %zu of the data has the class %g, of %zu that are counted from 0 on",
                        r->cases->numbers[r->first + n], (double)r->targets[n], outputs);
  return GCONV_OK;
}

gconv_status read_some(const reading *r, size_t begin, size_t count) {
  const gconv_cuda_cases *own = r->own;
  GCONV_TRY(gconv_dataset_read(r->cases->data, r->cases->epoch, r->cases->numbers + r->first + begin, count,
                               r->inputs + begin * own->in, r->targets + begin * own->target));
  return check_classes(r, begin, count);
}

void read_turn(void *context, size_t turn, int seat) {
  reading *r = (reading *)context;
  const size_t begin = turn * READ_AT_A_TIME;
  const gconv_status status = read_some(r, begin, std::min<size_t>(READ_AT_A_TIME, r->count - begin));
  if (status == GCONV_OK)
    return;
  pthread_mutex_lock(&r->lock);
  if (r->status == GCONV_OK) {
    r->status = status;
    snprintf(r->error, sizeof r->error, "%s", gconv_last_error());
  }
  pthread_mutex_unlock(&r->lock);
}

gconv_status read_cases(const gconv_cuda_cases *own, const gconv_learn_cases *cases, size_t first, size_t count,
                        float *inputs, float *targets) {
  reading r = {own, cases, first, count, inputs, targets, PTHREAD_MUTEX_INITIALIZER, GCONV_OK, ""};
  gconv_threads_run(own->order->device->threads, (count + READ_AT_A_TIME - 1) / READ_AT_A_TIME, read_turn, &r);
  return r.status == GCONV_OK ? GCONV_OK : gconv_set_error(r.status, r.error);
}

/* ---- Moving to the device ---- */

__global__ void normalize(float *x, size_t count, size_t plane, size_t channels, const float *mean, const float *std) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (size_t)blockDim.x) {
    const size_t c = i / plane % channels;
    x[i] = (x[i] - mean[c]) / std[c];
  }
}

/* Reads cases into the next stage, and copies them by a stream that does not wait for earlier steps. */
gconv_status fill_stage(gconv_cuda_cases *own, const gconv_learn_cases *cases, size_t first, size_t count) {
  const size_t stage = own->turn % GCONV_CUDA_STAGES, at = own->room * own->in;
  float *staged = own->staged[stage], *arrived = own->arrived[stage];
  own->ahead.count = 0;
  CUDA_TRY(cudaEventSynchronize(own->there[stage])); /* a batch that was read ahead, but not used, may still be copied */
  CUDA_TRY(cudaEventSynchronize(own->copied[stage]));
  GCONV_TRY(read_cases(own, cases, first, count, staged, staged + at));
  CUDA_TRY(cudaMemcpyAsync(arrived, staged, count * own->in * sizeof *staged, cudaMemcpyHostToDevice, own->copying));
  CUDA_TRY(cudaMemcpyAsync(arrived + at, staged + at, count * own->target * sizeof *staged, cudaMemcpyHostToDevice,
                           own->copying));
  CUDA_TRY(cudaEventRecord(own->there[stage], own->copying));
  return GCONV_OK;
}

/* True if the next stage has these cases already. */
bool is_ahead(const gconv_cuda_cases *own, const gconv_learn_cases *cases, size_t first, size_t count) {
  const gconv_ahead_cases *a = &own->ahead;
  return a->count == count && a->data == cases->data && a->epoch == cases->epoch &&
         memcmp(a->numbers, cases->numbers + first, count * sizeof *a->numbers) == 0;
}

gconv_status move(gconv_cuda_cases *own, const gconv_learn_cases *cases, size_t first, size_t count, float *x,
                  float *targets) {
  if (!is_ahead(own, cases, first, count))
    GCONV_TRY(fill_stage(own, cases, first, count));
  own->ahead.count = 0;
  const size_t stage = own->turn++ % GCONV_CUDA_STAGES, inputs = count * own->in;
  const float *arrived = own->arrived[stage];
  CUDA_TRY(cudaStreamWaitEvent(own->stream, own->there[stage], 0));
  CUDA_TRY(cudaMemcpyAsync(x, arrived, inputs * sizeof *x, cudaMemcpyDeviceToDevice, own->stream));
  CUDA_TRY(cudaMemcpyAsync(targets, arrived + own->room * own->in, count * own->target * sizeof *targets,
                           cudaMemcpyDeviceToDevice, own->stream));
  CUDA_TRY(cudaEventRecord(own->copied[stage], own->stream));
  const size_t channels = (size_t)own->order->net->layers[0].problem.channels;
  if (own->mean)
    normalize<<<(unsigned)std::min<size_t>((inputs + 255) / 256, 65535), 256, 0, own->stream>>>(
        x, inputs, own->in / channels, channels, own->mean, own->std);
  return GCONV_OK;
}

/* Copies the whole data set to the device. */
gconv_status hold(gconv_cuda_cases *own, const gconv_learn_cases *cases, gconv_held_cases *held) {
  const size_t all = gconv_dataset_get_info(cases->data)->cases;
  CUDA_TRY(cudaMalloc(&held->inputs, all * own->in * sizeof(float)));
  CUDA_TRY(cudaMalloc(&held->targets, all * own->target * sizeof(float)));
  size_t *numbers = (size_t *)malloc(own->room * sizeof *numbers);
  GCONV_NEED_MEMORY(numbers, "no memory for the data");
  gconv_status status = GCONV_OK;
  for (size_t at = 0; at < all && status == GCONV_OK; at += own->room) {
    const size_t count = std::min(own->room, all - at);
    for (size_t i = 0; i < count; i++)
      numbers[i] = at + i;
    const gconv_learn_cases some = {cases->data, cases->epoch, numbers, count};
    status = move(own, &some, 0, count, held->inputs + at * own->in, held->targets + at * own->target);
  }
  free(numbers);
  if (status == GCONV_OK)
    held->data = cases->data;
  return status;
}

void drop(gconv_held_cases *held) {
  cudaFree(held->inputs);
  cudaFree(held->targets);
  *held = {};
}

/* Sets *worth: whether the data set is the same in each epoch, and takes at most half of the free memory. */
gconv_status is_worth_holding(const gconv_cuda_cases *own, const gconv_dataset *data, bool *worth) {
  size_t available = 0, total = 0;
  CUDA_TRY(cudaMemGetInfo(&available, &total));
  const size_t cases = gconv_dataset_get_info(data)->cases;
  *worth = !data->varies && cases <= available / 2 / sizeof(float) / (own->in + own->target);
  return GCONV_OK;
}

gconv_status upload(const float *values, size_t count, float **copy) {
  if (!values)
    return GCONV_OK;
  CUDA_TRY(cudaMalloc(copy, count * sizeof **copy));
  return gconv_cuda_upload(*copy, values, count * sizeof **copy);
}

} // namespace

gconv_status gconv_cuda_cases_begin(gconv_cuda_cases *own, const gconv_learn_cases *cases, const gconv_held_cases **held) {
  gconv_held_cases *found = NULL, *empty = NULL;
  for (gconv_held_cases *h = own->held; h < own->held + GCONV_CUDA_HELD; h++) {
    if (h->data == cases->data)
      found = h;
    else if (!h->data && !empty)
      empty = h;
  }
  *held = NULL;
  bool worth = false;
  if (!found && empty)
    GCONV_TRY(is_worth_holding(own, cases->data, &worth));
  if (worth) {
    const gconv_status status = hold(own, cases, empty);
    if (status != GCONV_OK) {
      drop(empty);
      return status;
    }
    found = empty;
  }
  if (!found)
    return GCONV_OK;
  if (cases->count > own->numbers_room) {
    cudaFree(own->numbers);
    own->numbers = NULL;
    own->numbers_room = own->in_order = 0;
    CUDA_TRY(cudaMalloc(&own->numbers, cases->count * sizeof *own->numbers));
    own->numbers_room = cases->count;
  }
  *held = found;
  if (cases->in_order && cases->count <= own->in_order)
    return GCONV_OK;
  CUDA_TRY(cudaMemcpyAsync(own->numbers, cases->numbers, cases->count * sizeof *own->numbers, cudaMemcpyHostToDevice,
                           own->stream));
  own->in_order = cases->in_order ? cases->count : 0;
  return GCONV_OK;
}

gconv_status gconv_cuda_cases_load(gconv_cuda_cases *own, const gconv_learn_cases *cases, size_t first, size_t count,
                                   float *x, float *targets) {
  const gconv_held_cases *held = NULL;
  for (const gconv_held_cases *h = own->held; h < own->held + GCONV_CUDA_HELD; h++)
    if (h->data == cases->data)
      held = h;
  if (!held)
    return move(own, cases, first, count, x, targets);
  const size_t *numbers = own->numbers + first;
  gconv_learn_cuda_take(held->inputs, numbers, NULL, 0, (int64_t)count, (int64_t)own->in, x, own->stream);
  gconv_learn_cuda_take(held->targets, numbers, NULL, 0, (int64_t)count, (int64_t)own->target, targets, own->stream);
  return GCONV_OK;
}

void gconv_cuda_cases_take(const gconv_cuda_cases *own, const gconv_held_cases *held, const gconv_learn_control *control,
                           size_t count, float *x, float *targets) {
  const int64_t batch = (int64_t)own->order->batch, cases = (int64_t)count;
  gconv_learn_cuda_take(held->inputs, own->numbers, control, batch, cases, (int64_t)own->in, x, own->stream);
  gconv_learn_cuda_take(held->targets, own->numbers, control, batch, cases, (int64_t)own->target, targets, own->stream);
}

void gconv_cuda_cases_prepare(gconv_cuda_cases *own, const gconv_learn_cases *cases, size_t count) {
  gconv_ahead_cases *ahead = &own->ahead;
  for (const gconv_held_cases *h = own->held; h < own->held + GCONV_CUDA_HELD; h++)
    if (h->data == cases->data)
      return;
  if (!ahead->numbers)
    ahead->numbers = (size_t *)malloc(own->room * sizeof *ahead->numbers);
  if (!ahead->numbers || count > own->room || fill_stage(own, cases, 0, count) != GCONV_OK)
    return;
  memcpy(ahead->numbers, cases->numbers, count * sizeof *ahead->numbers);
  ahead->data = cases->data;
  ahead->epoch = cases->epoch;
  ahead->count = count;
}

gconv_status gconv_cuda_cases_make(const gconv_engine_order *order, size_t room, cudaStream_t stream,
                                   gconv_cuda_cases *made) {
  *made = {};
  made->order = order;
  made->stream = stream;
  made->in = gconv_learn_in_floats(&order->net->layers[0]);
  made->target = gconv_learn_target_floats(order->net);
  made->room = room;
  const size_t channels = (size_t)order->net->layers[0].problem.channels;
  GCONV_TRY(upload(order->mean, channels, &made->mean));
  GCONV_TRY(upload(order->std, channels, &made->std));
  CUDA_TRY(cudaStreamCreateWithFlags(&made->copying, cudaStreamNonBlocking));
  const size_t bytes = room * (made->in + made->target) * sizeof(float);
  for (int i = 0; i < GCONV_CUDA_STAGES; i++) {
    CUDA_TRY(cudaHostAlloc(&made->staged[i], bytes, cudaHostAllocDefault));
    GCONV_TRY(gconv_cuda_allocate(order->device, bytes, "the data of a batch", (void **)&made->arrived[i]));
    CUDA_TRY(cudaEventCreateWithFlags(&made->there[i], cudaEventDisableTiming));
    CUDA_TRY(cudaEventCreateWithFlags(&made->copied[i], cudaEventDisableTiming));
  }
  return GCONV_OK;
}

void gconv_cuda_cases_free(gconv_cuda_cases *cases) {
  if (cases->copying) /* a batch that was read ahead may still be copied */
    cudaStreamSynchronize(cases->copying);
  for (gconv_held_cases *h = cases->held; h < cases->held + GCONV_CUDA_HELD; h++)
    drop(h);
  for (int i = 0; i < GCONV_CUDA_STAGES; i++) {
    cudaFreeHost(cases->staged[i]);
    cudaFree(cases->arrived[i]);
    if (cases->there[i])
      cudaEventDestroy(cases->there[i]);
    if (cases->copied[i])
      cudaEventDestroy(cases->copied[i]);
  }
  if (cases->copying)
    cudaStreamDestroy(cases->copying);
  cudaFree(cases->mean);
  cudaFree(cases->std);
  cudaFree(cases->numbers);
  free(cases->ahead.numbers);
  *cases = {};
}

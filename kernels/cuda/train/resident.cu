/* SPDX-License-Identifier: MIT */
/*
 * Trains small dense networks in shared memory. There, values and gradients of a layer are [output][case]. Weights are
 * [output][input], with the bias after the inputs. A step has four parts, with a barrier of the block between them:
 *
 *   1. forward, layer by layer; then the copy of the next step's inputs begins
 *   2. softmax, and the gradient of the sums of the last layer
 *   3. the gradients of the other layers' sums, from the last layer to the first
 *   4. the gradients of all weights, and the update
 *
 * Shared memory delivers one number per lane to one warp per cycle, while four warps multiply. So each number is used
 * several times. In parts 1 and 3, a lane has 1, 2 or 4 neighbouring cases, and its warp some outputs, whose weights all
 * lanes share. In part 4, the lanes of a warp are a table of outputs and inputs. In parts 1 and 3 with several slices, the
 * lanes are a table of outputs and cases. Rows of values begin at odd multiples of 16 bytes, so that lanes that read one
 * column of neighbouring rows have no bank conflicts. Only loops of multiply-adds are unrolled: a step is so short that
 * fetching its instructions counts.
 *
 * One slice. On GPUs with clusters, four blocks take the steps together. A step of a network 64-63-26 with 32 cases is bound
 * by latency: chains of 64, 63, 26 and 32 multiply-adds, an activation, a softmax and an update run one after the other. So
 * the blocks share all parts, and wait for each other only twice per step:
 *
 *   - Each block computes some outputs of the first layers for all cases, and sends them to the block of the case.
 *   - Each block computes all outputs of the last layer for its cases, and sends the gradients of their sums to all blocks.
 *   - Each block then does 3 and 4 for its outputs, and updates their weights. It sends the weights of the last layer to all
 *     blocks. They arrive together with the outputs of the next step.
 *
 * Numbers are sent without a barrier of the cluster: the receiver counts the bytes that arrive. One more warp computes the
 * losses while the others go on.
 *
 * Several slices. Each block does 1 to 4 for some slices, and writes the gradients of a slice as a leaf. After a barrier of
 * all blocks, they share the parameters: each parameter is updated by the sum of its leaves. The blocks read the new
 * parameters as soon as they are written, and go on with the next step. If a block has one slice, its inputs stay in shared
 * memory.
 *
 *   resident_net.cuh      the layout of shared memory, and clusters       resident_steps.cuh    the kernel of one slice
 *   resident_pass.cuh     parts 1 to 4                                    resident_slices.cuh   the kernel of several slices
 *   resident_cases.cuh    the last layer in a cluster                     this file             the host
 *   resident_tiles.cuh    parts 1 to 3 of a whole slice
 */
#include "../core/device.cuh"
#include "resident.h"
#include "resident_slices.cuh"
#include "resident_steps.cuh"

#include <stdlib.h>

namespace {

int32_t row_of(int32_t floats) { /* rounded up to an odd multiple of four */
  const int32_t fours = (floats + 3) / 4;
  return 4 * (fours | 1);
}

/* Lays a network out in shared memory for up to `cases` cases. by_cases: blocks share the cases of the last layer. arrays:
 * how many arrays the optimiser has. twice: there is room for the inputs of the next step, too. Returns false if the layout
 * takes more than `bytes`. */
bool lay_out(const gconv_learn_net *net, size_t cases, bool by_cases, int arrays, bool twice, int64_t bytes,
             resident_net *made) {
  *made = {};
  made->count = (int32_t)net->count;
  made->room = cases <= 32 ? 32 : cases <= 64 ? 64 : 128;
  made->pitch = made->room + 4;
  made->loss = net->loss;
  made->classes = net->classes;
  made->inputs = (int32_t)gconv_learn_in_floats(&net->layers[0]);
  made->outputs = (int32_t)gconv_learn_outputs(net);
  made->rows = made->inputs + (int32_t)gconv_learn_target_floats(net);
  int64_t at = 0;
  const auto take = [&](int64_t floats) {
    const int64_t from = at;
    at += floats;
    return (int32_t)from;
  };
  for (size_t i = 0; i < net->count; i++) {
    const gconv_learn_layer *layer = &net->layers[i];
    resident_layer *l = &made->layers[i];
    l->inputs = (int32_t)gconv_learn_in_floats(layer);
    l->outputs = (int32_t)gconv_learn_out_floats(layer);
    l->weights = (int64_t)layer->weights;
    l->activation = layer->problem.activation;
    l->slope = layer->problem.slope;
    l->by_cases = by_cases && i + 1 == net->count;
    l->w_pitch = !l->by_cases ? row_of(l->inputs + 1) : l->outputs > 16 && l->outputs <= 32 ? 32 : (l->outputs + 3) / 4 * 4;
    l->w = take((int64_t)l->w_pitch * (l->by_cases ? l->inputs + 1 : l->outputs));
  }
  made->first = (int32_t)at;
  made->second = (int32_t)(2 * at);
  at *= 1 + arrays;
  const int64_t pitch = made->pitch;
  for (int32_t i = 0; i < made->count; i++) {
    resident_layer *l = &made->layers[i];
    l->x = take(pitch * (i == 0 ? made->rows : l->inputs));
    l->dz_pitch = l->by_cases ? row_of(l->outputs + 1) : (int32_t)pitch;
    l->dz = take(l->dz_pitch * (l->by_cases ? made->room : l->outputs));
  }
  if (by_cases) {
    made->y = take(made->layers[net->count - 1].dz_pitch * made->room);
    made->ones = take(made->room);
    made->arrivals = take(2 * ARRIVALS + CLUSTER);
  } else {
    made->y = take(pitch * made->outputs);
    made->soft = take(net->loss == GCONV_LOSS_CROSS_ENTROPY ? pitch * made->outputs : 0);
  }
  made->next = -1;
  if (twice)
    made->next = take(pitch * made->rows);
  made->floats = (int32_t)at;
  return at * (int64_t)sizeof(float) <= bytes;
}

} // namespace

struct gconv_resident {
  gconv_learn_net net;
  size_t batch, slices;
  resident_net for_arrays[3]; /* with 0, 1 and 2 arrays of the optimiser; count 0: it does not fit */
  resident_net for_slices;    /* count 0: it does not fit */
  bool has_clusters;
  unsigned blocks; /* for several slices */
  /* In device memory: */
  gconv_learn_step *steps;
  float *arranged; /* blocks of inputs and targets */
  size_t arranged_steps;
  gconv_learn_outcome *of_cases; /* outcomes of the cases of arranged_steps steps */
  int32_t *numbers;              /* this and the following fields are for struct together */
  float *leaves, *changed;
  double *losses;
  uint32_t *hits;
  unsigned *arrived;
};

static const resident_net *net_for(const gconv_resident *resident, gconv_optimizer optimizer) {
  const int arrays = optimizer == GCONV_OPTIMIZER_SGD ? 0 : optimizer == GCONV_OPTIMIZER_MOMENTUM ? 1 : 2;
  return resident->slices > 1 ? &resident->for_slices : &resident->for_arrays[arrays];
}

bool gconv_resident_takes(const gconv_resident *resident, gconv_optimizer optimizer) {
  return resident && net_for(resident, optimizer)->count > 0;
}

size_t gconv_resident_steps(const gconv_resident *resident) {
  return resident->slices > 1 ? (size_t)GCONV_RESIDENT_PASSES : resident->arranged_steps;
}

bool gconv_resident_has_slices(const gconv_resident *resident) {
  return resident->slices > 1;
}

void gconv_resident_free(gconv_resident *resident) {
  if (!resident)
    return;
  void *const owned[] = {resident->steps,   resident->arranged, resident->of_cases, resident->numbers, resident->leaves,
                         resident->changed, resident->losses,   resident->hits,     resident->arrived};
  for (void *memory : owned)
    cudaFree(memory);
  free(resident);
}

static bool is_for(const gconv_learn_net *net, size_t batch) {
  const gconv_learn_layer *last = &net->layers[net->count - 1];
  bool fits = net->count <= LAYERS && !net->class_weights && gconv_learn_tail(net) == 0 && net->parameters < 1 << 20 &&
              batch <= (size_t)GCONV_RESIDENT_SLICES * GCONV_LEARN_SLICE;
  for (size_t i = 0; i < net->count; i++) {
    const gconv_learn_layer *layer = &net->layers[i];
    const bool soft = layer->problem.activation == GCONV_ACTIVATION_SOFTMAX;
    fits = fits && layer->kind == GCONV_LAYER_CONV && (!soft || (layer == last && net->loss == GCONV_LOSS_CROSS_ENTROPY)) &&
           (!soft || layer->problem.filters <= GCONV_SOFTMAX_PART) && gconv_learn_in_floats(layer) <= 16384 &&
           gconv_learn_out_floats(layer) <= 16384;
  }
  return fits;
}

/* Allocates the arrays for the inputs and targets of a kernel's steps, and those that blocks share (struct together). */
static gconv_status allocate_for(gconv_resident *made) {
  const resident_net *net = made->slices > 1 ? &made->for_slices : &made->for_arrays[0];
  const size_t step = made->slices * (size_t)net->rows * (size_t)net->pitch * sizeof(float);
  made->arranged_steps = made->slices > 1 ? 1 : ARRANGED_BYTES / step;
  if (made->arranged_steps > GCONV_RESIDENT_STEPS)
    made->arranged_steps = GCONV_RESIDENT_STEPS;
  CUDA_TRY(cudaMalloc(&made->arranged, made->arranged_steps * step));
  CUDA_TRY(cudaMalloc(&made->steps, GCONV_RESIDENT_STEPS * sizeof *made->steps));
  cudaFuncAttributes kernel; /* a GPU with clusters may run code that was compiled for GPUs without them */
  CUDA_TRY(cudaFuncGetAttributes(&kernel, take_steps<GCONV_OPTIMIZER_SGD, 32, CLUSTER>));
  made->has_clusters = kernel.ptxVersion >= 90 && kernel.binaryVersion >= 90;
  if (made->slices == 1) {
    CUDA_TRY(cudaMalloc(&made->of_cases, made->arranged_steps * (size_t)net->room * sizeof *made->of_cases));
    return GCONV_OK;
  }
  const unsigned units = (unsigned)multiprocessors();
  made->blocks = made->slices < units ? (unsigned)made->slices : units;
  const size_t places = (size_t)net->first;
  CUDA_TRY(cudaMalloc(&made->numbers, places * sizeof *made->numbers));
  CUDA_TRY(cudaMalloc(&made->leaves, made->slices * places * sizeof *made->leaves));
  CUDA_TRY(cudaMalloc(&made->changed, 2 * places * sizeof *made->changed));
  CUDA_TRY(cudaMalloc(&made->losses, made->slices * sizeof *made->losses));
  CUDA_TRY(cudaMalloc(&made->hits, made->slices * sizeof *made->hits));
  CUDA_TRY(cudaMalloc(&made->arrived, sizeof *made->arrived));
  number_places<<<1, WORKING>>>(*net, net->first, made->numbers);
  CUDA_TRY(cudaStreamSynchronize(cudaStreamLegacy)); /* the non-blocking stream of steps does not wait for this one */
  return GCONV_OK;
}

gconv_status gconv_resident_make(const gconv_learn_net *net, size_t batch, gconv_resident **resident) {
  *resident = NULL;
  if (!is_for(net, batch))
    return GCONV_OK;
  gconv_resident *made = (gconv_resident *)calloc(1, sizeof *made);
  if (!made)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for training");
  made->net = *net;
  made->batch = batch;
  made->slices = (batch + GCONV_LEARN_SLICE - 1) / GCONV_LEARN_SLICE;
  const int64_t bytes = (int64_t)shared_limit() - STATIC_BYTES;
  bool any = false;
  for (int arrays = 0; arrays < 3 && made->slices == 1; arrays++)
    if (lay_out(net, batch, true, arrays, true, bytes, &made->for_arrays[arrays]) ||
        lay_out(net, batch, true, arrays, false, bytes, &made->for_arrays[arrays]))
      any = true;
    else
      made->for_arrays[arrays].count = 0;
  if (made->slices > 1 && lay_out(net, GCONV_LEARN_SLICE, false, 0, false, bytes, &made->for_slices))
    any = true;
  else
    made->for_slices.count = 0;
  const gconv_status status = any ? allocate_for(made) : GCONV_OK;
  if (any && status == GCONV_OK)
    *resident = made;
  else
    gconv_resident_free(made);
  return status;
}

template <int ROOM, int BLOCKS>
static gconv_status start_steps(const gconv_resident *resident, const resident_net &net, const run_of &run,
                                gconv_optimizer optimizer, size_t count, cudaStream_t stream) {
  const auto start = [&](auto kernel) {
    GCONV_TRY(allow_shared(kernel, net.floats * (int64_t)sizeof(float)));
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {BLOCKS, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(BLOCKS);
    config.blockDim = dim3(STEP_THREADS);
    config.dynamicSmemBytes = (size_t)net.floats * sizeof(float);
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = BLOCKS > 1;
    CUDA_TRY(cudaLaunchKernelEx(&config, kernel, net, run, (const gconv_learn_step *)resident->steps, (int32_t)count));
    sum_steps<<<((unsigned)count + SUMMING - 1) / SUMMING, 32 * SUMMING, 0, stream>>>(net, run, (int32_t)count);
    return GCONV_OK;
  };
  switch (optimizer) {
  case GCONV_OPTIMIZER_ADAM:
    return start(take_steps<GCONV_OPTIMIZER_ADAM, ROOM, BLOCKS>);
  case GCONV_OPTIMIZER_MOMENTUM:
    return start(take_steps<GCONV_OPTIMIZER_MOMENTUM, ROOM, BLOCKS>);
  case GCONV_OPTIMIZER_RPROP:
    return start(take_steps<GCONV_OPTIMIZER_RPROP, ROOM, BLOCKS>);
  case GCONV_OPTIMIZER_SGD:
    return start(take_steps<GCONV_OPTIMIZER_SGD, ROOM, BLOCKS>);
  }
  return gconv_fail(GCONV_BAD_ARGUMENT, "there is no optimiser number %d", (int)optimizer);
}

static gconv_status start_large_steps(const gconv_resident *resident, resident_net net, run_of run,
                                      const gconv_resident_run *given, size_t count, cudaStream_t stream) {
  together of = {(int32_t)((given->cases + GCONV_LEARN_SLICE - 1) / GCONV_LEARN_SLICE),
                 net.first,
                 resident->numbers,
                 given->are_weights,
                 resident->leaves,
                 resident->changed,
                 resident->losses,
                 resident->hits,
                 resident->arrived,
                 given->best,
                 given->factor,
                 given->best_loss};
  const gconv_learn_step *steps = resident->steps;
  int32_t taken = (int32_t)count;
  void *arguments[] = {&net, &run, &steps, &taken, &of};
  GCONV_TRY(allow_shared(take_large_steps, net.floats * (int64_t)sizeof(float)));
  prepare_grid<<<((unsigned)of.places + 255) / 256, 256, 0, stream>>>(of);
  CUDA_TRY(cudaLaunchCooperativeKernel(take_large_steps, dim3(resident->blocks), dim3(WORKING), arguments,
                                       (size_t)net.floats * sizeof(float), stream));
  return GCONV_OK;
}

gconv_status gconv_resident_start(gconv_resident *resident, const gconv_resident_run *run, const gconv_learn_step *steps,
                                  size_t count, cudaStream_t stream) {
  resident_net net = *net_for(resident, steps[0].optimizer);
  const run_of of = {resident->arranged, (int64_t)run->cases, (int32_t)resident->batch, run->parameters, run->first,
                     run->second,        run->outcomes,       resident->of_cases,       run->bad};
  const size_t last = resident->slices > 1 ? run->cases : run->cases - (count - 1) * resident->batch;
  net.factor = (float)gconv_learn_factor(&resident->net, resident->slices > 1 ? run->cases : resident->batch);
  net.last_factor = (float)gconv_learn_factor(&resident->net, last < resident->batch ? last : resident->batch);
  if (!run->same)
    arrange<<<1024, 256, 0, stream>>>(net, run->inputs, run->targets, run->numbers, (int64_t)run->cases,
                                      (int64_t)resident->batch, (int64_t)resident->slices,
                                      resident->slices > 1 ? (int64_t)1 : (int64_t)count, resident->arranged);
  CUDA_TRY(cudaMemcpyAsync(resident->steps, steps, count * sizeof *steps, cudaMemcpyHostToDevice, stream));
  if (resident->slices > 1)
    return start_large_steps(resident, net, of, run, count, stream);
  const gconv_optimizer optimizer = steps[0].optimizer;
  const auto start = resident->has_clusters ? net.room == 32   ? start_steps<32, CLUSTER>
                                              : net.room == 64 ? start_steps<64, CLUSTER>
                                                               : start_steps<128, CLUSTER>
                     : net.room == 32 ? start_steps<32, 1>
                     : net.room == 64       ? start_steps<64, 1>
                                            : start_steps<128, 1>;
  return start(resident, net, of, optimizer, count, stream);
}

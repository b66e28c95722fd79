/* SPDX-License-Identifier: MIT */
/* The steps of a network's plan: layers with their shapes, the algorithm of each, and which of them go together. */
#include "base/memory.h"
#include "layer/kind.h"
#include "operation/tuning.h"
#ifdef GCONV_WITH_CUDA
#include "kernels/cuda/fast/layer/pointwise.h"
#endif

#include <math.h>
#include <string.h>

static const size_t DEFAULT_WORKSPACE = (size_t)256 << 20;

/* Fills the info of a step. `input` has the shape of the layer's input before padding. */
static void fill_info(gconv_step *step, const gconv_layer_problem *input) {
  const gconv_layer_problem *problem = &step->problem;
  gconv_layer_problem all = step->whole;
  all.images = step->images;
  bool each = step->info.each;
  double estimate = step->info.estimate_ms;
  const gconv_layer_algorithm *algorithm = step->solver ? step->solver->choice.algorithm : NULL;
  const char *kind = step->graph ? "graph" : step->pads ? "padding" : gconv_layer_kind_name(step->kind);
  step->info = (gconv_layer_info){.algorithm = algorithm ? algorithm->info.name : kind,
                                  .math = gconv_math_name(algorithm ? problem->math : GCONV_MATH_FP32),
                                  .exact = step->graph ? false : !algorithm || algorithm->info.exact,
                                  .each = each,
                                  .images = step->images,
                                  .channels = problem->channels,
                                  .height = input->height,
                                  .width = input->width,
                                  .filters = problem->filters,
                                  .rows = problem->rows,
                                  .columns = problem->columns,
                                  .groups = problem->groups,
                                  .out_height = all.out_height,
                                  .out_width = problem->out_width,
                                  .batch = problem->images,
                                  .flop = algorithm ? gconv_layer_flop(&all)
                                                    : (double)step->images * all.channels * all.height * all.width,
                                  .workspace_bytes = step->solver ? step->solver->choice.workspace_bytes : 0,
                                  .error_bound = algorithm ? algorithm->error_bound(problem) : 0,
                                  .bound_of_largest = algorithm && algorithm->bound_of_largest,
                                  .estimate_ms = estimate};
}

static gconv_layer_shape shape_of(const gconv_image *image) {
  return (gconv_layer_shape){.channels = image->channels, .height = image->height, .width = image->width};
}

/* Resolves layer number `index`, and appends its steps. network->out is the header of its input, and becomes the header of
 * its output. */
static gconv_status resolve_layer(gconv_network_plan *network, const gconv_layer *layer, size_t index,
                                  const gconv_network_options *options, const gconv_image *first) {
  gconv_step pads = {0}, *step;
  gconv_step made = {0};
  gconv_image *shape = &network->out;
  char where[32];
  snprintf(where, sizeof where, "layer %zu", index + 1);
  const gconv_layer_input in = {shape->frames, shape_of(shape), shape_of(first)};
  const gconv_layer_work *work = gconv_layer_work_of(layer->kind);
  if (network->base.device->type != &gconv_device_type_cpu && !work->by_algorithms && !work->gpu)
    return gconv_fail(GCONV_UNSUPPORTED, "%s, %s, is done on the CPU alone: take the device cpu", where,
                      gconv_layer_kind_name(layer->kind));
  GCONV_TRY(work->resolve(layer, where, &in, &made));
  GCONV_TRY(gconv_layer_take_border(layer, where, &made, &pads));
  made.layer = pads.layer = index;
  if (pads.pads)
    network->steps[network->count++] = pads;
  step = &network->steps[network->count++];
  *step = made;
  step->problem.math = options->math;
  step->problem.workspace_limit = options->workspace_bytes > 0 ? options->workspace_bytes : DEFAULT_WORKSPACE;
  step->whole = step->problem;
  shape->channels = step->out_channels;
  shape->height = step->problem.out_height;
  shape->width = step->problem.out_width;
  return GCONV_OK;
}

/* Returns the problem with the input of a step's layer before padding. */
static const gconv_layer_problem *unpadded(const gconv_network_plan *network, const gconv_step *step) {
  return step > network->steps && step[-1].pads ? &step[-1].whole : &step->whole;
}

/* Chooses the algorithm of a step, and fills its info. */
static gconv_status make_step(gconv_network_plan *network, gconv_step *step, const gconv_layer *layer,
                              const gconv_network_options *options, const char *wanted, FILE *reasons) {
  if (step->graph)
    step->info.estimate_ms = step->images * step->graph->estimate_ms;
  if (step->graph || step->pads || !gconv_layer_work_of(step->kind)->by_algorithms) {
    fill_info(step, &step->whole);
    return GCONV_OK;
  }
  fprintf(reasons, "layer %zu, %d filters of %d x %d x %d, %s%s:\n", step->layer + 1, step->problem.filters,
          layer->bank->channels, layer->bank->rows, layer->bank->columns,
          strcmp(wanted, "auto") != 0 ? "as asked for" : "the cheapest of", gconv_device_prices(network->base.device).unit);
  GCONV_NEW(step->solver, 1, "no memory for a network");
  step->solver->constant = true;
  gconv_layer_choice *choice = &step->solver->choice;
  *choice = (gconv_layer_choice){
      .whole = step->whole, .problem = step->problem, .images = step->images, .chosen_for = step->chosen_for};
  const gconv_status status = gconv_layer_choose(network->base.device, options->without, wanted, choice, reasons);
  if (status != GCONV_OK)
    return gconv_fail_in(status, "layer %zu", step->layer + 1);
  step->problem = choice->problem;
  step->info.estimate_ms = choice->estimate_ms;
  fill_info(step, unpadded(network, step));
  return GCONV_OK;
}

#ifdef GCONV_WITH_CUDA
/* Returns the estimate for one kernel of all layers: the tensors between layers cost nothing. */
static double merged_ms(const gconv_network_plan *network, const gconv_prices *prices) {
  const gconv_step *first = &network->steps[0], *last = &network->steps[network->count - 1];
  const double pixels = (double)last->images * last->whole.out_height * last->whole.out_width;
  double bytes = pixels * sizeof(float) * (first->whole.channels + last->whole.filters), sums = 0;
  for (size_t i = 0; i < network->count; i++)
    sums += 0.5 * network->steps[i].info.flop;
  return fmax(sums / (0.4 * prices->machine.fma_per_ms), bytes / (0.7 * prices->machine.bytes_per_ms));
}

/* Merges layers of 1 x 1 filters into one kernel on a GPU, if it is estimated to be faster, or if the user names it. */
static void merge_steps(gconv_network_plan *network, const gconv_layer *layers, const gconv_network_options *options,
                        bool any_algorithm, FILE *reasons) {
  const gconv_layer_algorithm *row = &gconv_layer_algorithm_cuda_pointwise;
  const gconv_layer_problem *problems[GCONV_POINTWISE_LAYERS];
  const gconv_prices prices = gconv_device_prices(network->base.device);
  double apart = 0;
  bool named = options->algorithm && strcmp(options->algorithm, row->info.name) == 0;
  bool free = !options->algorithm || strcmp(options->algorithm, "auto") == 0;
  const bool plain = network->input.step == 1 && network->input.white == gconv_white(network->input.type);
  bool can = plain && !network->steps[0].graph && network->base.device->type == &gconv_device_type_cuda &&
             network->count <= GCONV_POINTWISE_LAYERS && (named || free) && !options->without &&
             options->math == GCONV_MATH_FP32;
  for (size_t i = 0; i < network->count && can; i++) {
    const gconv_step *step = &network->steps[i];
    problems[i] = &step->whole;
    can = gconv_layer_work_of(step->kind)->by_algorithms && !step->pads && !step->info.each &&
          (any_algorithm || !layers[step->layer].algorithm) && (!step->softmax || i + 1 == network->count) &&
          step->images == network->steps[0].images;
    apart += step->info.estimate_ms;
  }
  if (!can || gconv_pointwise_obstacle(problems, (int32_t)network->count) || (!named && merged_ms(network, &prices) > apart))
    return;
  for (size_t i = 0; i < network->count; i++) {
    gconv_step *step = &network->steps[i];
    step->problem.images = step->images;
    step->problem.math = GCONV_MATH_FP32;
    step->solver->choice = (gconv_layer_choice){.problem = step->problem, .images = step->images, .algorithm = row};
    step->info.estimate_ms = merged_ms(network, &prices) / (double)network->count;
    fill_info(step, &step->whole);
  }
  network->merged = true;
  fprintf(reasons, "all layers are filters of 1 x 1: one kernel, %s\n", row->info.name);
}
#endif

/* Returns the bytes of the tensors of one image: the input, the two buffers between layers, which take turns, and the
 * output. */
static double tensor_bytes(const gconv_network_plan *network) {
  const gconv_step *steps = network->steps;
  double in = 4.0 * network->input.channels * network->input.height * network->input.width, between[2] = {0, 0}, out = 0;
  for (size_t i = 0; i < network->count; i++) {
    out = 4.0 * steps[i].out_channels * steps[i].whole.out_height * steps[i].whole.out_width;
    if (i + 1 < network->count)
      between[i % 2] = fmax(between[i % 2], out);
  }
  return in + between[0] + between[1] + out;
}

/* Sets how many images algorithms are chosen for. If batches may have any size, the number follows from the shape of one
 * image. On the CPU it is 1, as times grow with the number. On a GPU, which only many small images fill, it is a full batch:
 * all that fit into FULL_BATCH bytes of tensors, up to 64. */
static void set_chosen_for(gconv_network_plan *network, bool any_batch) {
  static const double FULL_BATCH = 256 << 20;
  const int32_t most = network->base.device->type == &gconv_device_type_cpu ? 1 : 64;
  double fits = fmin(fmax(FULL_BATCH / tensor_bytes(network), 1), most);
  for (size_t i = 0; i < network->count; i++) {
    gconv_step *step = &network->steps[i];
    step->chosen_for = any_batch ? (int32_t)fits * (step->images / network->input.images) : step->images;
  }
}

/* Makes the only step of a network that is a graph. */
static gconv_status resolve_graph(gconv_network_plan *network, const gconv_graph *graph, int32_t rows) {
  network->count = 1;
  const gconv_step *step = &network->steps[0];
  GCONV_TRY(gconv_graph_step_make(graph, &network->how, rows, &network->out, &network->steps[0]));
  network->by_rows = step->cut.rows > 0;
  if (network->by_rows) {
    network->out.height = step->problem.out_height;
    network->input.rows = step->problem.height;
  }
  return GCONV_OK;
}

/* Lets convolutions one after the other go through an image by bands of rows, on the CPU. */
static gconv_status roll_steps(gconv_network_plan *network) {
  gconv_solver *solvers[GCONV_ROLLING_MOST];
  size_t count = 0;
  for (size_t i = 0; i <= network->count && !network->by_rows; i++) {
    gconv_step *step = &network->steps[i];
    if (i < network->count && step->solver && count < GCONV_ROLLING_MOST) {
      solvers[count++] = step->solver;
      if (!step->softmax)
        continue;
      step++;
    }
    gconv_step *first = step - count;
    for (size_t done = 0, made; done < count; done += made) {
      GCONV_TRY(gconv_rolling_make(solvers + done, count - done, GCONV_ROLLING_LEAST, network->base.device->threads,
                                   &first[done].rolling));
      made = first[done].rolling ? first[done].rolling->count : 1;
      for (size_t k = 0; k + 1 < made; k++)
        first[done + k].inner = true;
    }
    count = 0;
  }
  return GCONV_OK;
}

/* Returns the name of the algorithm that a layer shall have. */
static const char *wanted_for(const gconv_layer *layer, const gconv_network_options *options) {
  return layer && layer->algorithm ? layer->algorithm : options->algorithm ? options->algorithm : "auto";
}

/* Keeps tensors between two layers in 16 bits, if math allows it, and if an algorithm that does so may solve both layers. */
static void keep_tensors(gconv_network_plan *network, const gconv_layer *layers, const gconv_network_options *options,
                         bool any_algorithm) {
  const gconv_layer_algorithm *keeper = gconv_layer_keeper(network->base.device, options->without, options->math);
  for (size_t i = 0; keeper && !network->by_rows && i + 1 < network->count; i++) {
    bool can = true;
    for (gconv_step *step = &network->steps[i]; step <= &network->steps[i + 1]; step++) {
      can = can && !step->graph && !step->pads && gconv_layer_work_of(step->kind)->by_algorithms;
      const char *wanted = !can || any_algorithm ? "auto" : wanted_for(&layers[step->layer], options);
      can = can && (strcmp(wanted, "auto") == 0 || strcmp(wanted, keeper->info.name) == 0);
    }
    gconv_step *first = &network->steps[i], *second = first + 1;
    if (!can || first->softmax || !gconv_layer_keep(keeper, &first->whole, &second->whole))
      continue;
    first->problem.out_kept = second->problem.in_kept = true;
  }
}

gconv_status gconv_network_make_steps(gconv_network_plan *network, const gconv_network_operation *operation,
                                      const gconv_network_options *options, int32_t rows, bool any_algorithm) {
  const gconv_image first = network->out;
  const gconv_layer *layers = operation->layers;
  size_t size = 0;
  network->how = (gconv_graph_options){.device = network->base.device,
                                       .algorithm = options->algorithm,
                                       .without = options->without,
                                       .math = options->math,
                                       .workspace_bytes = options->workspace_bytes};
  for (size_t i = 0; i < operation->count; i++)
    GCONV_TRY(resolve_layer(network, &layers[i], i, options, &first));
  if (operation->graph)
    GCONV_TRY(resolve_graph(network, operation->graph, rows));
  set_chosen_for(network, options->any_batch);
  if (rows > 0 && gconv_network_can_cut_rows(network))
    GCONV_TRY(gconv_network_cut_rows(network, rows));
  gconv_network_options as_asked = *options;
  as_asked.algorithm = any_algorithm ? "auto" : options->algorithm;
  gconv_network_lay_blocks(network, layers, &as_asked);
  keep_tensors(network, layers, options, any_algorithm);
  FILE *reasons = open_memstream(&network->reasons, &size);
  GCONV_NEED_MEMORY(reasons, "no memory for a network");
  gconv_status status = GCONV_OK;
  for (size_t i = 0; i < network->count && status == GCONV_OK; i++) {
    gconv_step *step = &network->steps[i];
    const gconv_layer *layer = step->graph ? NULL : &layers[step->layer];
    const char *wanted = wanted_for(layer, options);
    status = make_step(network, step, layer, options, any_algorithm ? "auto" : wanted, reasons);
    if (status == GCONV_OK && step->solver && !any_algorithm)
      status = gconv_layer_check_rounding(step->solver->choice.algorithm, &step->problem, strcmp(wanted, "auto") == 0);
  }
#ifdef GCONV_WITH_CUDA
  if (status == GCONV_OK)
    merge_steps(network, layers, options, any_algorithm, reasons);
#endif
  if (status == GCONV_OK && network->base.device->type == &gconv_device_type_cpu)
    status = roll_steps(network);
  if (!gconv_close_text(reasons, &network->reasons) && status == GCONV_OK)
    status = gconv_fail(GCONV_NO_MEMORY, "no memory for a network");
  return status;
}

/* SPDX-License-Identifier: MIT */
/* Making plans of networks. */
#include "base/memory.h"
#include "kernels/pixel.h"
#include "layer/kind.h"
#include "operation/tuning.h"
#ifdef GCONV_WITH_CUDA
#include "kernels/cuda/fast/layer/pointwise.h"
#endif

#include <math.h>
#include <string.h>

static const size_t DEFAULT_WORKSPACE = (size_t)256 << 20;

/* ---- Steps ---- */

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

/* Sets how the outputs of the last layer are combined. */
static void make_combination(gconv_network_plan *network, gconv_combine combine) {
  const gconv_step *last = &network->steps[network->count - 1];
  network->filters = last->problem.filters;
  network->combine = combine;
  if (network->by_channel) { /* N * C images of K channels are N images of C * K */
    network->out.channels *= network->input.channels;
    network->out.frames = network->input.images;
  }
  if (combine == GCONV_COMBINE_NONE)
    return;
  network->combined = combine == GCONV_COMBINE_ARGMAX ? network->out.channels : network->filters;
  network->out.channels /= network->combined;
}

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

static gconv_status make_steps(gconv_network_plan *network, const gconv_network_operation *operation,
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

static void fill_plan_info(gconv_network_plan *network) {
  const gconv_layer_info *first = &network->steps[network->steps[0].pads].info;
  const gconv_image *like = &network->base.like, *out = &network->out;
  gconv_plan_info *plan = &network->base.info;
  *plan = (gconv_plan_info){.device = network->base.device->info.name,
                            .exact = true,
                            .frames = like->frames,
                            .channels = like->channels,
                            .height = like->height,
                            .width = like->width,
                            .filters = network->filters,
                            .rows = first->rows,
                            .columns = first->columns,
                            .out_height = network->steps[network->count - 1].info.out_height,
                            .out_width = out->width,
                            .out_channels = out->channels,
                            .input_type = like->type,
                            .output_type = network->base.outputs[0].type};
  for (size_t i = 0; i < network->count; i++) {
    const gconv_layer_info *info = &network->steps[i].info;
    plan->exact = plan->exact && info->exact;
    if (network->steps[i].solver) {
      plan->algorithm = !plan->algorithm || strcmp(plan->algorithm, info->algorithm) == 0 ? info->algorithm : "several";
      plan->math = !plan->math || strcmp(plan->math, info->math) == 0 ? info->math : "several";
    }
    plan->flop += info->flop;
    plan->estimate_ms += info->estimate_ms;
    plan->error_bound = fmax(plan->error_bound, info->error_bound);
    plan->workspace_bytes = info->workspace_bytes > plan->workspace_bytes ? info->workspace_bytes : plan->workspace_bytes;
    plan->bytes +=
        4.0 * info->images *
        ((double)info->channels * info->height * info->width + (double)info->filters * info->out_height * info->out_width);
  }
  plan->algorithm = plan->algorithm ? plan->algorithm : first->algorithm;
  plan->math = plan->math ? plan->math : first->math;
}

gconv_image gconv_network_further_maps(const gconv_network_plan *network, size_t i) {
  gconv_image maps = network->steps[0].further[i];
  if (network->by_channel) {
    maps.channels *= network->input.channels;
    maps.frames = network->input.images;
  }
  return maps;
}

/* Makes the presenter of one of several outputs: for one picture, unless arrays are wanted. */
static gconv_status make_presenter_of(const gconv_network_options *options, const gconv_image *maps,
                                      const gconv_network_plan *network, gconv_presenter *presenter) {
  static const gconv_presentation kinds[] = {GCONV_PRESENT_IMAGE, GCONV_PRESENT_COMBINED, GCONV_PRESENT_MOSAIC};
  gconv_network_options one = *options;
  gconv_status status = GCONV_UNSUPPORTED;
  if (options->presentation == GCONV_PRESENT_TENSOR)
    return gconv_presenter_make(options, maps, maps->channels, &network->seen, true, presenter);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds && status == GCONV_UNSUPPORTED; i++) {
    one.presentation = kinds[i];
    gconv_presenter_free(presenter);
    status = gconv_presenter_make(&one, maps, maps->channels, &network->seen, true, presenter);
  }
  return status;
}

/* Returns whether the network takes the order BGR: it gets blue first, or grey three times. */
static bool takes_blue_first(const gconv_network_plan *network, const gconv_network_options *options) {
  return options->order == GCONV_ORDER_BGR && network->input.step != 1;
}

static gconv_status make_further(gconv_network_plan *network, const gconv_network_options *options) {
  const size_t count = network->steps[0].further_count;
  GCONV_NEW(network->further, count + 1, "no memory for a network");
  for (size_t i = 0; i < count; i++) {
    const gconv_image maps = gconv_network_further_maps(network, i);
    GCONV_TRY(make_presenter_of(options, &maps, network, &network->further[i]));
    network->further[i].reversed = takes_blue_first(network, options) && network->further[i].kind == GCONV_PRESENT_IMAGE;
    network->base.outputs[network->base.output_count++] = gconv_presenter_header(&network->further[i], maps.frames);
  }
  return GCONV_OK;
}

static gconv_status make_outputs(gconv_network_plan *network, const gconv_network_options *options) {
  gconv_image maps = network->out;
  const gconv_step *first = &network->steps[0];
  maps.height = network->steps[network->count - 1].whole.out_height;
  if (first->further_count > 0 && options->combine != GCONV_COMBINE_NONE)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a network with %zu outputs cannot combine them: choose one",
                      first->further_count + 1);
  if (first->further_count > 0 && (network->luma || network->alphas))
    return gconv_fail(GCONV_UNSUPPORTED, "a network with %zu outputs takes neither --luma nor --alpha filter: choose one",
                      first->further_count + 1);
  if (network->alphas && maps.channels != 3)
    return gconv_fail(GCONV_UNSUPPORTED, "the network makes %d channels, and --alpha filter takes 3: leave it out",
                      maps.channels);
  if (network->luma && (options->presentation != GCONV_PRESENT_IMAGE || maps.channels != 1 ||
                        options->combine != GCONV_COMBINE_NONE || gconv_tone_surveys(&options->tone)))
    return gconv_fail(GCONV_UNSUPPORTED,
                      "luma is for networks that make one channel from one, and for --range clamp: leave out --luma");
  network->greys = first->further_count == 0 && network->input.step == 0 && options->presentation == GCONV_PRESENT_IMAGE &&
                   maps.channels == 3;
  if (network->greys)
    maps.channels = 1;
  if (network->alphas) {
    maps.channels++;
    maps.frames /= 2;
  }
  gconv_image coloured = network->base.like; /* the image that a result of --luma resembles */
  if (options->alpha == GCONV_ALPHA_DROP && coloured.alpha && coloured.channels > 1) {
    coloured.channels--;
    coloured.alpha = false;
  }
  const gconv_image *in = network->luma ? &coloured : &network->seen;
  GCONV_TRY(first->further_count > 0
                ? make_presenter_of(options, &maps, network, &network->presenter)
                : gconv_presenter_make(options, &maps, network->filters, in, first->graph, &network->presenter));
  if (network->presenter.alpha || network->luma) {
    GCONV_TRY(gconv_resizing_make(in->height, maps.height, &network->rows));
    GCONV_TRY(gconv_resizing_make(in->width, maps.width, &network->columns));
  }
  network->presenter.reversed = takes_blue_first(network, options) && network->presenter.kind == GCONV_PRESENT_IMAGE;
  size_t count = gconv_presenter_outputs(&network->presenter);
  GCONV_NEW(network->base.outputs, count + first->further_count, "no memory for a network");
  for (size_t i = 0; i < count; i++)
    network->base.outputs[i] = gconv_presenter_header(&network->presenter, maps.frames);
  network->base.output_count = count;
  return make_further(network, options);
}

/* Sets whether transparent pixels get colours of their neighbours. They do if a result keeps alpha, and the network does not
 * take alpha as a channel beside the colours. */
static void set_bleeding(gconv_network_plan *network) {
  const gconv_presenter *p = &network->presenter;
  network->bleeds = p->alpha && (p->planes < p->channels || network->alphas || network->by_channel);
  for (size_t i = 0; i < network->steps[0].further_count; i++)
    network->bleeds =
        network->bleeds || (network->further[i].alpha && network->further[i].planes < network->further[i].channels);
  network->bleeds = network->bleeds && network->base.like.alpha && !network->base.like.planar;
}

/* Returns the number that is white in the result. A model whose colours are integers makes levels. Integers of one or two
 * channels may be numbers of classes, for which it is 1. */
static float level_of_white(const gconv_network_plan *network) {
  const gconv_step *first = &network->steps[0];
  const gconv_tensor *made = first->graph && first->further_count == 0 ? gconv_graph_plan_output(first->graph, 0) : NULL;
  return !made || network->out.channels < 3 ? 1
         : made->type == GCONV_TENSOR_U8    ? 255
         : made->type == GCONV_TENSOR_U16   ? 65535
                                            : 1;
}

static gconv_status fill_network(gconv_network_plan *network, const gconv_network_operation *operation, int32_t rows,
                                 gconv_type kept, bool any_algorithm) {
  gconv_network_options options = operation->options;
  options.white = options.white > 0 ? options.white : 1;
  if (any_algorithm)
    options.algorithm = "auto", options.without = NULL;
  if (options.presentation == GCONV_PRESENT_IMAGE && options.tone.keep_type)
    options.tone.type = options.tone.format ? gconv_format_type(options.tone.format, kept) : kept;
  if (options.presentation == GCONV_PRESENT_IMAGE)
    options.tone.scale /= (double)options.white;
  GCONV_TRY(gconv_network_make_input(network, operation, &options));
  const gconv_image *like = &network->seen;
  const int32_t channels = network->input.channels;
  network->alphas = network->input.alphas;
  if (network->alphas && network->base.device->type != &gconv_device_type_cpu)
    return gconv_fail(GCONV_UNSUPPORTED, "alpha goes through a network on the CPU alone: take -d cpu, or leave out --alpha");
  network->by_channel = operation->channels == 1 && channels > 1;
  if (network->by_channel && like->frames > INT32_MAX / channels)
    return gconv_fail(GCONV_TOO_LARGE, "%d images of %d channels: take fewer images at a time", like->frames, channels);
  network->out = (gconv_image){.type = GCONV_F32,
                               .frames = network->by_channel ? like->frames * channels : network->input.images,
                               .height = like->height,
                               .width = like->width,
                               .channels = network->by_channel ? 1 : channels,
                               .planar = true};
  GCONV_TRY(make_steps(network, operation, &options, rows, any_algorithm));
  make_combination(network, options.combine);
  if (options.presentation == GCONV_PRESENT_IMAGE)
    options.tone.scale /= (double)level_of_white(network);
  GCONV_TRY(make_outputs(network, &options));
  set_bleeding(network);
  fill_plan_info(network);
  network->type = GCONV_OF_DEVICE(network->base.device, gconv_network_type);
  return GCONV_OK;
}

/* Gives the solver of a layer its weights, rotated if the layer says so, unless it has them. */
static gconv_status prepare_weights(const gconv_layer *layer, gconv_solver *solver) {
  float *weights;
  GCONV_TRY(gconv_solver_open(solver, &weights));
  if (!weights)
    return GCONV_OK;
  gconv_layer_copy_weights(layer, weights);
  return gconv_solver_pack(solver);
}

typedef struct weights_job {
  const gconv_network_plan *network;
  const gconv_layer *layers;
} weights_job;

static void prepare_step(void *context, size_t i, int seat) {
  const weights_job *job = context;
  const gconv_step *step = &job->network->steps[i];
  if (step->solver)
    (void)prepare_weights(&job->layers[step->layer], step->solver); /* a failure comes again, with its reason */
}

/* Prepares what only executions need: weights and buffers. */
static gconv_status prepare(gconv_network_plan *network, const gconv_network_operation *operation) {
  weights_job job = {network, operation->layers};
  if (network->base.device->type == &gconv_device_type_cpu)
    gconv_threads_run(network->base.device->threads, network->count, prepare_step, &job);
  for (size_t i = 0; i < network->count; i++)
    if (network->steps[i].graph)
      GCONV_TRY(gconv_graph_step_allocate(&network->steps[i]));
    else if (network->steps[i].solver)
      GCONV_TRY(prepare_weights(&operation->layers[network->steps[i].layer], network->steps[i].solver));
  return network->type->prepare(network, &network->run);
}

gconv_status gconv_network_fill(const gconv_plan_order *order, const gconv_operation *base, gconv_plan *plan) {
  const gconv_network_operation *operation = (const gconv_network_operation *)base;
  gconv_network_plan *network = (gconv_network_plan *)plan;
  GCONV_NEW(network->steps, 2 * operation->count + 1, "no memory for a network");
  gconv_device_enter(order->device);
  gconv_status status =
      fill_network(network, operation, order->rows, order->kept, order->extent == GCONV_PLAN_OUTLINE_OF_ANY);
  if (status == GCONV_OK && order->extent == GCONV_PLAN_WHOLE)
    status = prepare(network, operation);
  gconv_device_leave(order->device);
  return status;
}

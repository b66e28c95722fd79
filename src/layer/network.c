/* SPDX-License-Identifier: MIT */
/* Making plans of networks: steps (network_steps.c), outputs, weights. */
#include "base/memory.h"
#include "layer/kind.h"

#include <math.h>
#include <string.h>

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
  GCONV_TRY(gconv_network_make_steps(network, operation, &options, rows, any_algorithm));
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

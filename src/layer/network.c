/* SPDX-License-Identifier: MIT */
/* Networks: made once, executed many times. */
#include "layer/network.h"
#include "base/memory.h"
#include "conv/pixel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const size_t DEFAULT_WORKSPACE = (size_t)256 << 20;

const char *gconv_math_name(gconv_math math) {
  static const char *const names[] = {"fp32", "tf32", "fp16", "bf16"};
  return (size_t)math < sizeof names / sizeof names[0] ? names[math] : NULL;
}

const char *gconv_activation_name(gconv_activation activation) {
  static const char *const names[] = {"none", "relu", "leaky", "sigmoid", "tanh"};
  return (size_t)activation < sizeof names / sizeof names[0] ? names[activation] : NULL;
}

int32_t gconv_step_turns(const gconv_step *step) {
  return (step->images - 1) / step->problem.images + 1;
}

int32_t gconv_step_first(const gconv_step *step, int32_t turn) {
  int64_t first = (int64_t)turn * step->problem.images, last = step->images - step->problem.images;
  return (int32_t)(first < last ? first : last);
}

size_t gconv_step_in_floats(const gconv_step *step) {
  const gconv_layer_problem *p = &step->problem;
  return (size_t)p->channels * (size_t)p->height * (size_t)p->width;
}

size_t gconv_step_out_floats(const gconv_step *step) {
  const gconv_layer_problem *p = &step->problem;
  return (size_t)p->filters * (size_t)p->out_height * (size_t)p->out_width;
}

/* ---- Checks ---- */

static gconv_status check_options(const gconv_network_options *options, const gconv_input *input) {
  const int32_t channels = input->channels;
  if (options->mean && options->mean_count != 1 && options->mean_count != channels)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%d means for %d channel%s: give one, or one each", options->mean_count, channels,
                      channels == 1 ? "" : "s");
  if (options->std && options->std_count != 1 && options->std_count != channels)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%d standard deviations for %d channel%s: give one, or one each",
                      options->std_count, channels, channels == 1 ? "" : "s");
  for (int32_t c = 0; options->mean && c < options->mean_count; c++)
    if (!isfinite(options->mean[c]))
      return gconv_fail(GCONV_BAD_ARGUMENT, "mean %d is not a finite number", c + 1);
    else if (input->type != GCONV_F32 && fabsf(options->mean[c]) > 1) /* meant in levels, and far from any sample */
      return gconv_fail(GCONV_BAD_ARGUMENT,
                        "a mean of %g, but of %s images 0 is black and 1 is white: for level L give L / %g",
                        (double)options->mean[c], gconv_type_name(input->type), (double)gconv_white(input->type));
  for (int32_t c = 0; options->std && c < options->std_count; c++)
    if (!isfinite(options->std[c]) || options->std[c] <= 0)
      return gconv_fail(GCONV_BAD_ARGUMENT, "standard deviation %d is not a finite number above 0", c + 1);
  if (options->math < GCONV_MATH_FP32 || options->math > GCONV_MATH_BF16)
    return gconv_fail(GCONV_BAD_ARGUMENT, "there is no math number %d", (int)options->math);
  if (options->combine < GCONV_COMBINE_NONE || options->combine > GCONV_COMBINE_ARGMAX ||
      options->combine == GCONV_COMBINE_STACK)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the outputs of a layer cannot be combined by %s",
                      options->combine == GCONV_COMBINE_STACK ? "stack: they are a stack already" : "that");
  return GCONV_OK;
}

static gconv_status check_like(const gconv_image *like) {
  if (like->frames < 1 || like->height < 1 || like->width < 1 || like->channels < 1)
    return gconv_fail(GCONV_BAD_ARGUMENT, "an input of %d frames, %d x %d pixels and %d channels: all must be at least 1",
                      like->frames, like->width, like->height, like->channels);
  return GCONV_OK;
}

/* ---- Creation ---- */

/* C of each, or NULL if none are given. */
static gconv_status copy_numbers(const float *numbers, int32_t count, int32_t channels, float **copy) {
  if (!numbers)
    return GCONV_OK;
  *copy = malloc((size_t)channels * sizeof **copy);
  if (!*copy)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a network");
  for (int32_t c = 0; c < channels; c++)
    (*copy)[c] = numbers[count == 1 ? 0 : c];
  return GCONV_OK;
}

static gconv_status make_input(const gconv_image *like, const gconv_layer *first, const gconv_network_options *options,
                               gconv_input *input) {
  *input = (gconv_input){.type = like->type,
                         .planar = like->planar,
                         .images = like->frames,
                         .channels = first->bank ? gconv_layer_channels(first, like->channels, like->alpha) : like->channels,
                         .height = like->height,
                         .width = like->width,
                         .rows = like->height,
                         .file_channels = like->channels};
  if (input->channels < like->channels)
    gconv_remark("alpha is left out: the first layer takes the %d channels before it", input->channels);
  else if (like->alpha && like->channels > 1)
    gconv_remark("alpha is a channel like any other to a bank of %d channels", input->channels);
  GCONV_TRY(check_options(options, input));
  GCONV_TRY(copy_numbers(options->mean, options->mean_count, input->channels, &input->mean));
  return copy_numbers(options->std, options->std_count, input->channels, &input->std);
}

bool gconv_input_is_tensor(const gconv_input *input, const gconv_image *image) {
  size_t row = (size_t)input->width * sizeof(float);
  return input->type == GCONV_F32 && !input->mean && !input->std && input->channels == input->file_channels &&
         (input->planar || input->channels == 1) && image->row_bytes == row &&
         image->plane_bytes == row * (size_t)input->height;
}

static void fill_info(gconv_step *step) {
  const gconv_layer_problem *problem = &step->problem;
  gconv_layer_problem all = step->whole;
  all.images = step->images;
  bool each = step->info.each;
  double estimate = step->info.estimate_ms;
  step->info = (gconv_layer_info){.algorithm = step->algorithm->info.name,
                                  .math = gconv_math_name(problem->math),
                                  .exact = step->algorithm->info.exact,
                                  .each = each,
                                  .images = step->images,
                                  .channels = problem->channels,
                                  .height = all.height,
                                  .width = problem->width,
                                  .filters = problem->filters,
                                  .rows = problem->rows,
                                  .columns = problem->columns,
                                  .groups = problem->groups,
                                  .out_height = all.out_height,
                                  .out_width = problem->out_width,
                                  .batch = problem->images,
                                  .flop = gconv_layer_flop(&all),
                                  .workspace_bytes = step->workspace_bytes,
                                  .error_bound = step->algorithm->error_bound(problem),
                                  .bound_of_largest = step->algorithm->bound_of_largest,
                                  .estimate_ms = estimate};
}

/* Resolves layer number `index`, whose input is a tensor of the network's `out` header; which becomes that of its output.
 */
static gconv_status resolve_step(gconv_network *network, const gconv_layer *layer, size_t index,
                                 const gconv_network_options *options) {
  gconv_step *step = &network->steps[index];
  gconv_image *shape = &network->out;
  char where[32];
  snprintf(where, sizeof where, "layer %zu", index + 1);
  GCONV_TRY(gconv_layer_resolve(layer, where, shape->frames, shape->channels, shape->height, shape->width, step));
  step->problem.math = options->math;
  step->problem.workspace_limit = options->workspace_bytes > 0 ? options->workspace_bytes : DEFAULT_WORKSPACE;
  step->whole = step->problem;
  shape->channels = step->out_channels;
  shape->height = step->problem.out_height;
  shape->width = step->problem.out_width;
  return GCONV_OK;
}

/* Decides how it is solved. */
static gconv_status make_step(gconv_network *network, const gconv_layer *layer, size_t index,
                              const gconv_network_options *options, FILE *reasons) {
  gconv_step *step = &network->steps[index];
  const char *wanted = layer->algorithm ? layer->algorithm : options->algorithm ? options->algorithm : "auto";
  fprintf(reasons, "layer %zu, %d filters of %d x %d x %d, %s\n", index + 1, step->problem.filters, layer->bank->channels,
          layer->bank->rows, layer->bank->columns, strcmp(wanted, "auto") != 0 ? "as asked for:" : "the cheapest of:");
  gconv_status status = gconv_layer_choose(network->device, options, wanted, step, reasons);
  if (status != GCONV_OK)
    return gconv_fail_in(status, "layer %zu", index + 1);
  fill_info(step);
  return gconv_layer_weights(layer, step);
}

/* What becomes of the outputs of the last layer. */
static void make_combination(gconv_network *network, gconv_combine combine) {
  const gconv_step *last = &network->steps[network->count - 1];
  network->filters = last->problem.filters;
  network->combine = combine;
  if (combine == GCONV_COMBINE_NONE)
    return;
  network->combined = combine == GCONV_COMBINE_ARGMAX ? network->out.channels : network->filters;
  network->out.channels /= network->combined;
}

static gconv_status make_steps(gconv_network *network, const gconv_layer *layers, const gconv_network_options *options) {
  size_t size = 0;
  for (size_t i = 0; i < network->count; i++)
    GCONV_TRY(resolve_step(network, &layers[i], i, options));
  if (options->rows > 0)
    GCONV_TRY(gconv_network_cut_rows(network, options->rows));
  FILE *reasons = open_memstream(&network->reasons, &size);
  if (!reasons)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a network");
  gconv_status status = GCONV_OK;
  for (size_t i = 0; i < network->count && status == GCONV_OK; i++)
    status = make_step(network, &layers[i], i, options, reasons);
  if (!gconv_close_text(reasons, &network->reasons) && status == GCONV_OK)
    status = gconv_fail(GCONV_NO_MEMORY, "no memory for a network");
  return status;
}

static const gconv_network_type *type_of(const gconv_device *device) {
#ifdef GCONV_WITH_CUDA
  if (device->type == &gconv_device_type_cuda)
    return &gconv_network_type_cuda;
#endif
  return device->type == &gconv_device_type_cpu ? &gconv_network_type_cpu : NULL;
}

static gconv_status fill_network(gconv_network *network, const gconv_layer *layers, const gconv_network_options *options) {
  const gconv_image *like = &network->like;
  GCONV_TRY(make_input(like, &layers[0], options, &network->input));
  network->out = (gconv_image){.type = GCONV_F32,
                               .frames = like->frames,
                               .height = like->height,
                               .width = like->width,
                               .channels = network->input.channels,
                               .planar = true};
  GCONV_TRY(make_steps(network, layers, options));
  make_combination(network, options->combine);
  network->type = type_of(network->device);
  return network->type->prepare(network, &network->run);
}

gconv_status gconv_network_create(gconv_device *device, const gconv_image *like, const gconv_layer *layers, size_t count,
                                  const gconv_network_options *options, gconv_network **result) {
  static const gconv_network_options defaults;
  if (count == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a network of no layers: there must be at least one");
  GCONV_TRY(check_like(like));
  gconv_network *network = calloc(1, sizeof *network);
  gconv_step *steps = calloc(count, sizeof *steps);
  if (!network || !steps) {
    free(network);
    free(steps);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a network");
  }
  network->device = device;
  network->steps = steps;
  network->count = count;
  network->like = *like;
  network->like.data = network->like.icc = NULL;
  gconv_device_enter(device);
  gconv_status status = fill_network(network, layers, options ? options : &defaults);
  if (status != GCONV_OK) {
    gconv_network_free(network);
    return status;
  }
  *result = network;
  return GCONV_OK;
}

void gconv_network_free(gconv_network *network) {
  if (!network)
    return;
  if (network->type)
    network->type->release(network->run);
  for (size_t i = 0; i < network->count; i++)
    gconv_release(network->steps[i].weights);
  free(network->steps);
  free(network->input.mean);
  free(network->input.std);
  free(network->reasons);
  free(network);
}

const gconv_image *gconv_network_output_header(const gconv_network *network) {
  return &network->out;
}

const gconv_layer_info *gconv_network_get_info(const gconv_network *network, size_t layer) {
  return layer < network->count ? &network->steps[layer].info : NULL;
}

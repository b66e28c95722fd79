/* SPDX-License-Identifier: MIT */
/* The input of a network: the image that it sees, and the tensor that its first layer takes. */
#include "base/memory.h"
#include "kernels/pixel.h"
#include "layer/network.h"
#include "operation/stages.h"

#include <math.h>

/* ---- Checks ---- */

static gconv_status check_count(const char *what, int32_t count, int32_t channels) {
  if (count == 1 || count == channels)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT, "%d %s for %d channel%s: give one, or one each", count, what, channels,
                    channels == 1 ? "" : "s");
}

/* Fails unless the options fit the input, such as the counts of means and deviations. `stored` is the type of the samples in
 * the file, before they became grey. */
static gconv_status check_options(const gconv_network_options *options, const gconv_input *input, gconv_type stored) {
  if (options->mean)
    GCONV_TRY(check_count("means", options->mean_count, input->channels));
  if (options->std)
    GCONV_TRY(check_count("standard deviations", options->std_count, input->channels));
  for (int32_t c = 0; options->mean && c < options->mean_count; c++)
    if (stored != GCONV_F32 && fabsf(options->mean[c]) > options->white) /* given in levels, it seems: no sample is near */
      return gconv_fail(GCONV_BAD_ARGUMENT,
                        "a mean of %g, but of %s images 0 is black and %g is white: for level L give L / %g, or --white %g "
                        "for a network that takes levels",
                        (double)options->mean[c], gconv_type_name(stored), (double)options->white,
                        (double)gconv_white(stored), (double)gconv_white(stored));
  return GCONV_OK;
}

/* Sets *warned, and returns whether it was false: whether the warning is due. */
static bool is_first(const bool *warned) {
  return !__atomic_exchange_n((bool *)warned, true, __ATOMIC_RELAXED);
}

/* Warns once if images have another size than the network was made for. (Networks for rows of tables have sizes of 1.) */
static void warn_of_size(const gconv_image *like, const gconv_network_operation *operation) {
  if (operation->graph || (operation->height <= 1 && operation->width <= 1) ||
      (like->height == operation->height && like->width == operation->width) || !is_first(&operation->warned_size))
    return;
  gconv_warn(
      "the network was made for %d x %d pixels (height, width), and gets %d x %d: its layers are applied to that size, but "
      "its file does not say that the results are good",
      operation->height, operation->width, like->height, like->width);
}

/* ---- The tensor ---- */

/* Sets *copy to a number for each channel; if `numbers` is NULL, does nothing. */
static gconv_status copy_numbers(const float *numbers, int32_t count, int32_t channels, float **copy) {
  if (!numbers)
    return GCONV_OK;
  *copy = malloc((size_t)channels * sizeof **copy);
  GCONV_NEED_MEMORY(*copy, "no memory for a network");
  for (int32_t c = 0; c < channels; c++)
    (*copy)[c] = numbers[count == 1 ? 0 : c];
  return GCONV_OK;
}

/* Returns how many channels of an image the first layer gets. */
static int32_t taken_channels(const gconv_image *like, const gconv_network_operation *operation) {
  const gconv_layer *first = &operation->layers[0]; /* a graph has none */
  bool alpha = like->alpha && like->channels > 1;
  if (operation->graph && operation->channels == 0)
    return like->channels - alpha;
  if (operation->channels == 3 && like->channels - alpha == 1 && !like->planar)
    return 3; /* grey, three times */
  if (operation->channels == 1 && alpha && operation->options.alpha == GCONV_ALPHA_FILTER)
    return like->channels; /* each by itself */
  if (operation->channels > 0)
    return alpha && operation->channels != like->channels ? like->channels - 1 : like->channels;
  return first->bank ? gconv_layer_channels(first, like->channels, like->alpha) : like->channels - alpha;
}

/* Fails unless a graph takes images of this size, which its file may fix. */
static gconv_status check_graph_input(const gconv_network_operation *operation, const gconv_input *input) {
  if (!operation->graph)
    return GCONV_OK;
  if ((operation->height > 0 && operation->height != input->height) ||
      (operation->width > 0 && operation->width != input->width))
    return gconv_fail(GCONV_UNSUPPORTED,
                      "the network takes images of %d x %d pixels (height, width; 0: any) alone, and this one has %d x %d: "
                      "resize it, or export the model for any size: tiles of its size would have seams",
                      operation->height, operation->width, input->height, input->width);
  if (operation->channels > 1 && operation->channels != input->channels)
    return gconv_fail(GCONV_UNSUPPORTED, "the network takes images of %d channels, and this one has %d%s",
                      operation->channels, input->channels,
                      input->channels == 1 ? "; a grey image can be saved as RGB" : "");
  return GCONV_OK;
}

/* Sets which channels of the image become channels of the tensor. `colours`: channels of the image without alpha. */
static void order_channels(const gconv_network_options *options, int32_t colours, gconv_input *input) {
  const bool bgr = options->order == GCONV_ORDER_BGR && input->channels == 3;
  const bool grey = colours == 1 && input->channels == 3;
  input->first = bgr && !grey ? 2 : 0;
  input->step = grey ? 0 : bgr ? -1 : 1;
}

static gconv_status make_tensor(const gconv_image *like, gconv_type stored, const gconv_network_operation *operation,
                                const gconv_network_options *options, gconv_input *input) {
  *input = (gconv_input){.type = like->type,
                         .planar = like->planar,
                         .channels = taken_channels(like, operation),
                         .height = like->height,
                         .width = like->width,
                         .rows = like->height,
                         .file_channels = like->channels,
                         .white = gconv_white(like->type) / options->white};
  if (options->order == GCONV_ORDER_BGR && operation->channels != 1 && input->channels != 1 && input->channels != 3)
    return gconv_fail(GCONV_UNSUPPORTED, "the order bgr is one of three colours, and the network gets %d channels",
                      input->channels);
  order_channels(options, like->channels - (like->alpha && like->channels > 1), input);
  input->alphas = options->presentation == GCONV_PRESENT_IMAGE && options->alpha == GCONV_ALPHA_FILTER && like->alpha &&
                  input->channels > 1 && input->channels != like->channels && !like->planar;
  if (input->alphas && like->frames > INT32_MAX / 2)
    return gconv_fail(GCONV_TOO_LARGE, "%d images with alpha: take fewer images at a time", like->frames);
  input->images = like->frames * (1 + input->alphas);
  GCONV_TRY(check_graph_input(operation, input));
  if (input->channels < like->channels && options->presentation != GCONV_PRESENT_IMAGE) {
    if (is_first(&operation->warned_alpha))
      gconv_warn("alpha is left out: the first layer takes the %d channels before it", input->channels);
  } else if (input->channels == like->channels && like->alpha && like->channels > 1)
    gconv_remark("alpha is a channel like any other to a bank of %d channels", input->channels);
  warn_of_size(like, operation);
  GCONV_TRY(check_options(options, input, stored));
  GCONV_TRY(copy_numbers(options->mean, options->mean_count, input->channels, &input->mean));
  return copy_numbers(options->std, options->std_count, input->channels, &input->std);
}

bool gconv_input_is_tensor(const gconv_input *input, const gconv_image *image) {
  size_t row = (size_t)input->width * sizeof(float);
  return input->type == GCONV_F32 && !input->mean && !input->std && input->channels == input->file_channels &&
         input->step == 1 && input->white == 1 && (input->planar || input->channels == 1) && image->row_bytes == row &&
         image->plane_bytes == row * (size_t)input->height;
}

/* ---- The image that the network sees ---- */

/* Sets whether a network of one channel gets brightness alone, and its result the colours of the image. For a grey image,
 * luma changes nothing. */
static gconv_status choose_luma(const gconv_network_options *options, const gconv_image *like, bool *luma) {
  *luma = options->luma && like->channels - (like->alpha && like->channels > 1) == 3;
  if (*luma && like->planar)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "luma is for pictures, and for arrays of H x W x 3: in this one, channels come first");
  if (*luma && options->gray)
    return gconv_fail(GCONV_UNSUPPORTED, "luma keeps the colours of an image, and gray drops them: choose one");
  if (*luma && like->alpha && options->alpha == GCONV_ALPHA_FILTER)
    return gconv_fail(GCONV_UNSUPPORTED, "with luma, alpha does not go through the network: it is enlarged by cubic "
                                         "interpolation, or left out by --alpha drop");
  return GCONV_OK;
}

/* Makes the header of the image that the first layer gets. */
static gconv_status make_seen(gconv_network_plan *network, const gconv_network_options *options) {
  network->before = gconv_options_default();
  GCONV_TRY(choose_luma(options, &network->base.like, &network->luma));
  network->before.gray = options->gray || network->luma;
  network->before.alpha = options->alpha == GCONV_ALPHA_DROP ? GCONV_ALPHA_DROP : GCONV_ALPHA_KEEP;
  network->before.sets_type = true;
  network->before.output_type = options->presentation == GCONV_PRESENT_TENSOR ? GCONV_F32 : options->tone.type;
  network->grays = gconv_needs_before(&network->base.like, &network->before);
  return gconv_before_header(&network->base.like, &network->before, &network->seen);
}

gconv_status gconv_network_make_input(gconv_network_plan *network, const gconv_network_operation *operation,
                                      const gconv_network_options *options) {
  GCONV_TRY(make_seen(network, options));
  return make_tensor(&network->seen, network->base.like.type, operation, options, &network->input);
}

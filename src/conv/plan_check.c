/* SPDX-License-Identifier: MIT */
/* Checks the image, filters and options of a plan, before the plan decides anything. */
#include "conv/plan.h"

#include <float.h>
#include <math.h>

static bool same_size_and_anchor(const gconv_filter *a, const gconv_filter *b) {
  return a->rows == b->rows && a->columns == b->columns && a->anchor_row == b->anchor_row &&
         a->anchor_column == b->anchor_column;
}

bool gconv_filters_have_one_frame(const gconv_filters *filters) {
  for (size_t k = 1; k < filters->count; k++)
    if (!same_size_and_anchor(&filters->items[0], &filters->items[k]))
      return false;
  return true;
}

gconv_type gconv_filter_output_type(const gconv_options *options, gconv_type input) {
  gconv_type wanted = options->sets_type ? options->output_type : input;
  return options->format ? gconv_format_type(options->format, wanted) : wanted;
}

static gconv_status check_image(const gconv_image *image, const gconv_options *options) {
  if (image->planar && image->alpha)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "planar images with alpha cannot be filtered: clear `alpha` to filter it as a channel");
  if (options->mix && (image->planar || image->alpha))
    return gconv_fail(GCONV_BAD_ARGUMENT, "channels can only be mixed in interleaved images without alpha");
  if (options->mix && image->channels != options->mix)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "the matrix mixes %d channels, and the image has %d: it needs a row and a column for each channel",
                      options->mix, image->channels);
  if (options->mix && gconv_filter_output_type(options, image->type) != image->type)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "mixing the channels of a %s image gives results of %s: no other type can be asked for",
                      gconv_type_name(image->type), gconv_type_name(image->type));
  if (options->range == GCONV_RANGE_WRAP && image->alpha && options->alpha == GCONV_ALPHA_FILTER)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "the range wrap cannot be used where alpha is filtered: take another range or alpha "
                      "keep, or clear `alpha` to filter it as a colour");
  return GCONV_OK;
}

static gconv_status check_border(const gconv_image *like, const gconv_options *options) {
  if (options->border == GCONV_BORDER_CONSTANT && like->type != GCONV_F32 &&
      gconv_filter_output_type(options, like->type) != GCONV_F32 &&
      !(options->border_value >= 0 && options->border_value <= 1))
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "the constant of the border is %g, but image and results are integers (%s), where 0 is black, 1 is "
                      "white, and nothing lies beyond: for level L give L / %g; float results take any number",
                      options->border_value, gconv_type_name(like->type), (double)gconv_white(like->type));
  return GCONV_OK;
}

/* Refuses a constant border whose colour would change. All channels of the border have the same number, alpha included. The
 * option alpha premultiply divides colours by alpha, and linear light applies a curve to colours alone. Only two constants
 * keep their colour: 0, transparent black, and 1, opaque white. */
static gconv_status check_border_of_alpha(const gconv_image *like, const gconv_options *options) {
  double value = options->border_value;
  bool alpha = like->alpha && !like->planar && options->alpha != GCONV_ALPHA_DROP;
  if (options->border != GCONV_BORDER_CONSTANT || !alpha || value == 0 || value == 1)
    return GCONV_OK;
  if (options->alpha == GCONV_ALPHA_PREMULTIPLY)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "the constant of the border, %g, counts for alpha, too, and alpha premultiply divides by it, so that "
                      "all outside would be white: take the constant 0 or 1, another border, or alpha keep",
                      value);
  bool outside = options->padding == GCONV_PADDING_FULL || options->padding == GCONV_PADDING_EXPLICIT;
  if (options->linear && (options->alpha == GCONV_ALPHA_FILTER || outside))
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "the constant of the border, %g, counts for alpha, too, which is no light and has no sRGB curve: in "
                      "linear light take the constant 0 or 1, another border, or alpha drop",
                      value);
  return GCONV_OK;
}

/* Refuses outputs of i16 if samples pass a stage before or after the convolution: kernels alone make i16. */
static gconv_status check_i16(const gconv_image *like, const gconv_options *options) {
  if (gconv_filter_output_type(options, like->type) != GCONV_I16)
    return GCONV_OK;
  const bool premultiplied = like->alpha && options->alpha == GCONV_ALPHA_PREMULTIPLY;
  const char *what = options->linear                             ? "linear light"
                     : premultiplied                             ? "premultiplied alpha"
                     : like->has_nodata                          ? "images with samples of no data"
                     : options->range > GCONV_RANGE_ABS          ? "ranges other than clamp and abs"
                     : gconv_range_parts_alpha(like, options, 1) ? "the range abs where alpha is filtered"
                                                                 : NULL;
  return !what ? GCONV_OK
               : gconv_fail(GCONV_UNSUPPORTED,
                            "results of i16 are responses to the samples as they are stored. They cannot be made "
                            "with %s: take f32",
                            what);
}

/* Refuses an offset that makes integer results all white or all black, whatever the image is. The user probably meant
 * levels. */
static gconv_status check_offset(const gconv_image *like, const gconv_filters *filters, const gconv_options *options) {
  bool integers = like->type != GCONV_F32 && gconv_filter_output_type(options, like->type) <= GCONV_U16;
  if (!integers || options->combine != GCONV_COMBINE_NONE || options->range != GCONV_RANGE_CLAMP ||
      fabs(options->offset) <= 1 || fabs(options->offset) > (double)FLT_MAX) /* refused elsewhere */
    return GCONV_OK;
  for (size_t k = 0; k < filters->count; k++) {
    const gconv_filter *filter = &filters->items[k];
    double sums[2] = {0, 0}; /* sums of negative and of positive taps: bounds of the responses to an image in 0 .. 1 */
    for (size_t i = 0; i < (size_t)filter->rows * (size_t)filter->columns; i++) {
      double tap = (double)filter->taps[i] / (double)filter->divisor * options->scale;
      sums[tap > 0] += tap;
    }
    bool white = sums[0] + options->offset >= 1, black = sums[1] + options->offset <= 0;
    if (filter->offset == 0 && (white || black))
      return gconv_fail(GCONV_BAD_ARGUMENT,
                        "with %s, the offset %g makes every image %s all over: 1 is white, so for level L give L / %g",
                        filter->name ? filter->name : "a filter", options->offset, white ? "white" : "black",
                        (double)gconv_white(like->type));
  }
  return GCONV_OK;
}

/* Returns whether the filter sums to 0, apart from rounding. */
static bool sums_to_zero(const gconv_filter *filter) {
  double sum = 0, magnitude = 0;
  for (size_t i = 0; i < (size_t)filter->rows * (size_t)filter->columns; i++) {
    sum += (double)filter->taps[i];
    magnitude += fabs((double)filter->taps[i]);
  }
  return fabs(sum) <= 1e-6 * magnitude;
}

static gconv_status check_premultiply(const gconv_image *like, const gconv_filters *filters, const gconv_options *options) {
  if (options->alpha != GCONV_ALPHA_PREMULTIPLY || !like->alpha)
    return GCONV_OK;
  if (options->combine != GCONV_COMBINE_NONE)
    return gconv_fail(GCONV_BAD_ARGUMENT, "alpha premultiply divides each response by its alpha, so responses cannot be "
                                          "combined: use combine none, or alpha keep");
  for (size_t k = 0; k < filters->count; k++)
    if (sums_to_zero(&filters->items[k]))
      return gconv_fail(GCONV_BAD_ARGUMENT,
                        "alpha premultiply divides by the filtered alpha, and %s sums to 0: use alpha keep",
                        filters->items[k].name ? filters->items[k].name : "a filter");
  return GCONV_OK;
}

/* Refuses a stack with an alpha for each filter in linear light: the stage that applies the sRGB curve does not know which
 * channels are alphas. */
static gconv_status check_stack(const gconv_image *like, const gconv_filters *filters, const gconv_options *options) {
  if (options->combine == GCONV_COMBINE_STACK && filters->count > 1 && options->linear && like->alpha &&
      options->alpha == GCONV_ALPHA_FILTER)
    return gconv_fail(GCONV_BAD_ARGUMENT, "linear light cannot be used for a stack with an alpha for each filter: use alpha "
                                          "keep, or combine none");
  return GCONV_OK;
}

gconv_status gconv_filter_plan_check(const gconv_image *like, const gconv_filters *filters, const gconv_options *options) {
  GCONV_TRY(check_image(like, options));
  GCONV_TRY(check_i16(like, options));
  GCONV_TRY(check_border(like, options));
  GCONV_TRY(check_border_of_alpha(like, options));
  GCONV_TRY(check_offset(like, filters, options));
  GCONV_TRY(check_premultiply(like, filters, options));
  return check_stack(like, filters, options);
}

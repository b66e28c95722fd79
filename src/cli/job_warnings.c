/* SPDX-License-Identifier: MIT */
/* Warnings of options that are allowed together, but whose results most users do not expect. */
#include "cli/command.h"
#include "cli/job.h"
#include "cli/job_holes.h"
#include "cli/terminal.h"
#include "image/layout.h"

#include <math.h>

/* ---- Rims: a blur darkens its rim by the zeros outside the image, and a filter that finds edges finds one there ---- */

/* How far from the edges of the image a rim goes, in pixels. */
typedef struct reach {
  int64_t x, y;
} reach;

static double sum_of(const gconv_filter *filter) {
  double sum = 0;
  for (size_t i = 0; i < (size_t)filter->rows * (size_t)filter->columns; i++)
    sum += (double)filter->taps[i];
  return sum / (double)filter->divisor;
}

/* What a filter makes of the pixels at the edges of an image with black outside. */
typedef enum rim { NO_RIM, DARK_RIM, FALSE_EDGE, OTHER_RIM } rim;

/* Finds the kind of rim. If a tap beside the anchor is not 0, it lies outside the image for some pixels of the rim. */
static rim find_rim_of(const gconv_filter *filter) {
  double sum = sum_of(filter), magnitude = 0;
  bool beside = false, negative = false;
  for (int32_t r = 0; r < filter->rows; r++)
    for (int32_t s = 0; s < filter->columns; s++) {
      double tap = (double)filter->taps[(size_t)r * (size_t)filter->columns + (size_t)s] / (double)filter->divisor;
      beside |= tap != 0 && (r != filter->anchor_row || s != filter->anchor_column);
      negative |= tap < 0;
      magnitude += fabs(tap);
    }
  return !beside ? NO_RIM : fabs(sum) <= 1e-3 * magnitude ? FALSE_EDGE : !negative ? DARK_RIM : OTHER_RIM;
}

/* Returns the first filter that makes a rim; NULL: none. */
static const gconv_filter *find_filter(const gconv_filters *filters, rim *kind) {
  for (size_t i = 0; i < filters->count; i++)
    if ((*kind = find_rim_of(&filters->items[i])) != NO_RIM)
      return &filters->items[i];
  return NULL;
}

/* Returns the number of taps before the anchor, or after it if these are more. */
static int64_t taps_beside(int32_t taps, int32_t anchor) {
  return anchor > taps - 1 - anchor ? anchor : taps - 1 - anchor;
}

/* Returns how far the filters of a stage reach. */
static reach reach_of(const gconv_filters *filters, const gconv_layer *layer) {
  reach far = {0, 0};
  for (size_t i = 0; i < filters->count; i++) {
    const gconv_filter *filter = &filters->items[i];
    int64_t x = taps_beside(filter->columns, filter->anchor_column), y = taps_beside(filter->rows, filter->anchor_row);
    far.x = x > far.x ? x : far.x;
    far.y = y > far.y ? y : far.y;
  }
  return (reach){far.x * (layer->dilation_x > 0 ? layer->dilation_x : 1),
                 far.y * (layer->dilation_y > 0 ? layer->dilation_y : 1)};
}

/* Returns the first filter that makes a rim, and the rim's width after all stages: each later stage widens it. */
static const gconv_filter *find_rim(const gconv_main_job *job, reach *width, rim *kind) {
  const gconv_filter *found = NULL;
  *width = (reach){0, 0};
  for (size_t i = 0; i < job->layer_count; i++) {
    const gconv_filters *filters = i == job->before_count ? &job->filters : &job->before[i];
    const gconv_layer *layer = &job->layers[i];
    if (!found && layer->padding != GCONV_LAYER_VALID)
      found = find_filter(filters, kind);
    reach far = reach_of(filters, layer);
    width->x += found ? far.x : 0;
    width->y += found ? far.y : 0;
  }
  return found;
}

/* True if a pixel of the mask is neither black nor transparent. */
static bool counts(const gconv_image *mask, int64_t y, int64_t x) {
  size_t sample = gconv_type_bytes(mask->type), colours = (size_t)(mask->channels - mask->alpha) * sample;
  const uint8_t *pixel = (const uint8_t *)gconv_row_at(mask, 0, y) + (size_t)x * (size_t)mask->channels * sample;
  bool colour = false, opaque = !mask->alpha;
  for (size_t i = 0; i < colours; i++)
    colour |= pixel[i] != 0;
  for (size_t i = 0; i < sample && mask->alpha; i++)
    opaque |= pixel[colours + i] != 0;
  return colour && opaque;
}

static bool is_within(const gconv_area *area, int64_t y, int64_t x) {
  return area->width == 0 ||
         (x >= area->x && x < (int64_t)area->x + area->width && y >= area->y && y < (int64_t)area->y + area->height);
}

/* True if a pixel of the rim lies in the region, and the mask, which has the size of the image, does not hide it. */
static bool mask_shows(const gconv_image *mask, const gconv_area *area, reach width) {
  for (int64_t y = 0; y < mask->height; y++)
    for (int64_t x = 0; x < mask->width; x++) {
      bool on_rim = y < width.y || y >= mask->height - width.y || x < width.x || x >= mask->width - width.x;
      if (on_rim && is_within(area, y, x) && counts(mask, y, x))
        return true;
    }
  return false;
}

/* True if the rim shows in results. Without a mask, sizes of images are unknown: of a region, only X and Y are checked. */
static bool shows(const gconv_main_job *job, reach width) {
  const gconv_area *area = &job->area;
  bool packed = !job->mask.planar || job->mask.channels == 1; /* other masks are refused later */
  if (job->mask.data)
    return packed && mask_shows(&job->mask, area, width);
  return area->width == 0 || area->x < width.x || area->y < width.y;
}

static void warn_of_rims(const gconv_main_job *job) {
  static const char *const effects[] = {[NO_RIM] = "",
                                        [DARK_RIM] = "the rim darkens",
                                        [FALSE_EDGE] = "the rim becomes a frame of false edges",
                                        [OTHER_RIM] = "the rim becomes brighter or darker than it should"};
  reach width;
  rim kind = NO_RIM;
  if (job->border_given || gconv_hole_options_leave_out(job->holes) || job->has_banks ||
      (job->arithmetic && job->arithmetic[job->before_count].statistic))
    return;
  const gconv_filter *filter = find_rim(job, &width, &kind);
  if (filter && shows(job, width))
    gconv_say("warning: %s: %s, as black lies outside the image%s: --border replicate avoids it (--border zero, if it is "
              "meant)",
              filter->name, effects[kind],
              kind == FALSE_EDGE && job->options.range == GCONV_RANGE_MINMAX ? ", and takes most of the range" : "");
}

/* ---- Other warnings ---- */

/* Returns the first of several filters that makes two derivatives, such as sobel; NULL: none. */
static const char *find_gradient(const gconv_texts *specs) {
  const char *found = NULL;
  for (size_t i = 0; specs->count > 1 && i < specs->count && !found; i++) {
    gconv_filters filters = {0};
    if (gconv_word_builtin(specs->items[i]) && gconv_filters_read(specs->items[i], NULL, &filters) == GCONV_OK &&
        filters.gradient)
      found = specs->items[i];
    gconv_filters_free(&filters);
  }
  return found;
}

/* Warns that, unlike -f sobel, which makes one picture of edges, -f sobel,prewitt makes four of derivatives. */
static void warn_of_derivatives(const gconv_main_job *job) {
  if (job->has_banks || job->has_networks || job->combine_given)
    return;
  const char *gradient = find_gradient(job->specs);
  if (gradient)
    gconv_say("warning: %s: beside other filters it gives its two derivatives, a result each: name it alone for the "
              "magnitude of both (--combine none, if derivatives are meant)",
              gradient);
}

/* --alpha premultiply filters alpha, so taps that sum to 2 double it. Colours stay as they are, because they are divided by
 * this alpha. A sum of 0 is refused later. */
static void warn_of_sums(const gconv_main_job *job) {
  const double tolerance = 0.01;
  bool premultiply = !job->has_banks && job->options.alpha == GCONV_ALPHA_PREMULTIPLY, warned = false;
  for (size_t i = 0; premultiply && i < job->filters.count && !warned; i++) {
    double sum = sum_of(&job->filters.items[i]);
    warned = fabs(sum) > tolerance && fabs(sum - 1) > tolerance;
    if (warned)
      gconv_say("warning: %s: its taps sum to %.4g, by which --alpha premultiply multiplies alpha, and --scale is for "
                "colours alone: divide the taps, so that their sum is 1",
                job->filters.items[i].name, sum);
  }
}

/* Blurs that are written out or measured, such as PSFs, often lack their divisor. */
static void warn_of_brightness(const gconv_main_job *job) {
  const double tolerance = 0.01;
  const bool elsewhere = job->has_banks || job->options.alpha == GCONV_ALPHA_PREMULTIPLY || /* warn_of_sums() */
                         job->options.range == GCONV_RANGE_MINMAX;                          /* which sets the brightness */
  for (size_t i = 0; i <= job->before_count && !elsewhere; i++) {
    const gconv_filters *filters = i == job->before_count ? &job->filters : &job->before[i];
    for (size_t k = 0; k < filters->count && job->options.scale == 1; k++) {
      const double sum = sum_of(&filters->items[k]);
      if (find_rim_of(&filters->items[k]) != DARK_RIM || fabs(sum - 1) <= tolerance)
        continue;
      gconv_say("warning: %s: its taps sum to %.4g, so that the image gets %.4g times as bright: --normalize divides by the "
                "sum",
                filters->items[k].name, sum, sum);
      return;
    }
  }
}

/* With an option that only banks have, such as --batch, plain filters are applied as a bank, and the pictures of a bank are
 * stretched to full contrast. Nobody expects --batch to change pixels. */
static void warn_of_stretching(const gconv_main_job *job) {
  bool pictures = job->network.presentation != GCONV_PRESENT_TENSOR && job->network.tone.fit;
  if (job->made_bank && pictures)
    gconv_say(
        "warning: --%s makes a bank of the filters, and pictures of banks are stretched to full contrast: leave it out, or "
        "give --range clamp for levels as they are",
        job->made_bank);
}

void gconv_job_warn(const gconv_main_job *job) {
  if (job->common->quiet)
    return;
  warn_of_rims(job);
  warn_of_stretching(job);
  warn_of_derivatives(job);
  warn_of_sums(job);
  warn_of_brightness(job);
}

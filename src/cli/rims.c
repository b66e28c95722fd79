/* SPDX-License-Identifier: MIT */
/* A blur takes the zeros outside the image for black, and so darkens its rim. */
#include "cli/job.h"
#include "cli/terminal.h"

#include <math.h>

/* How far from the edges of the image a rim goes, in pixels. */
typedef struct reach {
  int64_t x, y;
} reach;

double gconv_job_sum_of(const gconv_filter *filter) {
  double sum = 0;
  for (size_t i = 0; i < (size_t)filter->rows * (size_t)filter->columns; i++)
    sum += (double)filter->taps[i];
  return sum / (double)filter->divisor;
}

/* Whether the filter blurs: it has several taps, none is below 0, and their sum is 1. */
static bool is_blur(const gconv_filter *filter) {
  size_t positive = 0;
  for (size_t i = 0; i < (size_t)filter->rows * (size_t)filter->columns; i++) {
    if (filter->taps[i] < 0)
      return false;
    positive += filter->taps[i] > 0;
  }
  return positive > 1 && fabs(gconv_job_sum_of(filter) - 1) < 1e-3;
}

static const gconv_filter *find_blur(const gconv_filters *filters) {
  for (size_t i = 0; i < filters->count; i++)
    if (is_blur(&filters->items[i]))
      return &filters->items[i];
  return NULL;
}

/* The taps of a filter before or behind its anchor, whichever are more. */
static int64_t taps_beside(int32_t taps, int32_t anchor) {
  return anchor > taps - 1 - anchor ? anchor : taps - 1 - anchor;
}

/* How far the filters of a stage see. */
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

/* The first blur that darkens a rim, and how wide that is behind all stages: each later one spreads it. */
static const gconv_filter *find_rim(const gconv_main_job *job, reach *rim) {
  const gconv_settings *settings = job->settings;
  const gconv_filter *blur = NULL;
  *rim = (reach){0, 0};
  for (size_t i = 0; i <= settings->before_count; i++) {
    bool last = i == settings->before_count;
    const gconv_filters *filters = last ? &job->filters : &job->before[i];
    const gconv_layer *layer = last ? &settings->last.layer : &settings->before[i].layer;
    if (!blur && layer->padding != GCONV_LAYER_VALID)
      blur = find_blur(filters);
    reach far = reach_of(filters, layer);
    rim->x += blur ? far.x : 0;
    rim->y += blur ? far.y : 0;
  }
  return blur;
}

/* Whether a pixel of the mask is not black, nor transparent. */
static bool counts(const gconv_image *mask, int64_t y, int64_t x) {
  size_t sample = gconv_type_bytes(mask->type), colours = (size_t)(mask->channels - mask->alpha) * sample;
  const uint8_t *pixel =
      (const uint8_t *)mask->data + (size_t)y * mask->row_bytes + (size_t)x * (size_t)mask->channels * sample;
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

/* Whether the rim of a mask, which has the size of the image, has a pixel within the region that counts. */
static bool mask_shows(const gconv_image *mask, const gconv_area *area, reach rim) {
  for (int64_t y = 0; y < mask->height; y++)
    for (int64_t x = 0; x < mask->width; x++) {
      bool on_rim = y < rim.y || y >= mask->height - rim.y || x < rim.x || x >= mask->width - rim.x;
      if (on_rim && is_within(area, y, x) && counts(mask, y, x))
        return true;
    }
  return false;
}

/* Without a mask, the size of the images is not known yet: of a region, only the left and the upper rim are. */
static bool shows(const gconv_main_job *job, reach rim) {
  const gconv_area *area = &job->settings->area;
  bool packed = !job->mask.planar || job->mask.channels == 1; /* else it is refused later */
  if (job->mask.data)
    return packed && mask_shows(&job->mask, area, rim);
  return area->width == 0 || area->x < rim.x || area->y < rim.y;
}

void gconv_job_warn_of_dark_rims(const gconv_main_job *job) {
  const gconv_settings *settings = job->settings;
  reach rim;
  if (settings->quiet || settings->border_given || job->has_banks)
    return;
  const gconv_filter *blur = find_rim(job, &rim);
  if (blur && shows(job, rim))
    gconv_say(
        "warning: %s: the rim darkens, as black lies outside the image: --border replicate avoids it (--border zero, if "
        "it is meant)",
        blur->name);
}

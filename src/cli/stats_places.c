/* SPDX-License-Identifier: MIT */
/* Single samples for gconv stats: a rectangle of the image, its samples as numbers, and where the extremes are. */
#include "base/printable.h"
#include "cli/stats.h"
#include "cli/terminal.h"
#include "image/layout.h"

#include <math.h>
#include <string.h>

gconv_status gconv_stats_cut(const char *path, const gconv_area *area, gconv_image *image) {
  if (area->width == 0)
    return GCONV_OK;
  if (area->x < 0 || area->y < 0 || (int64_t)area->x + area->width > image->width ||
      (int64_t)area->y + area->height > image->height)
    return gconv_refuse("--region: %s has %d x %d pixels, and the rectangle ends at %lld x %lld", path, (int)image->width,
                        (int)image->height, (long long)area->x + area->width, (long long)area->y + area->height);
  const size_t pixel = (image->planar ? 1 : (size_t)image->channels) * gconv_type_bytes(image->type);
  image->data = (uint8_t *)image->data + (size_t)area->y * image->row_bytes + (size_t)area->x * pixel;
  image->width = area->width;
  image->height = area->height;
  return GCONV_OK;
}

/* A position in an image. Frames and channels count from 0 on. */
typedef struct position {
  int32_t frame, channel, y, x;
} position;

/* Returns a sample in the unit of the report; NaN if it is missing. */
static double sample_at(const gconv_image *image, double unit, position p) {
  const size_t channels = (size_t)image->channels;
  const size_t plane = image->planar ? (size_t)p.frame * channels + (size_t)p.channel : (size_t)p.frame;
  const size_t i = image->planar ? (size_t)p.x : (size_t)p.x * channels + (size_t)p.channel;
  const double value = gconv_stored_at(image->type, gconv_row_at(image, plane, p.y), i);
  const bool missing = image->has_nodata && value == image->nodata;
  return missing ? (double)NAN : image->type == GCONV_F32 && unit > 0 ? value * unit : value;
}

void gconv_stats_print_values(const char *path, const gconv_image *image, double unit, const gconv_stats *stats,
                              bool headed) {
  headed |= image->frames > 1 || image->channels > 1;
  position p = {0};
  for (p.frame = 0; p.frame < image->frames; p.frame++)
    for (p.channel = 0; p.channel < image->channels; p.channel++) {
      if (headed)
        gconv_print(stdout, "# %s, frame %d, %s\n", path, (int)p.frame + 1, stats->channels[p.channel].name);
      for (p.y = 0; p.y < image->height; p.y++)
        for (p.x = 0; p.x < image->width; p.x++)
          printf("%.9g%c", sample_at(image, unit, p), p.x + 1 < image->width ? ' ' : '\n');
    }
}

void gconv_stats_find_places(const gconv_image *image, double unit, const gconv_area *area, gconv_stats_place *places) {
  position p;
  for (p.channel = 0; p.channel < image->channels; p.channel++) {
    double least = INFINITY, most = -INFINITY;
    gconv_stats_place *place = &places[p.channel];
    *place = (gconv_stats_place){{-1, -1, -1}, {-1, -1, -1}};
    for (p.frame = 0; p.frame < image->frames; p.frame++)
      for (p.y = 0; p.y < image->height; p.y++)
        for (p.x = 0; p.x < image->width; p.x++) {
          const double value = sample_at(image, unit, p);
          const gconv_stats_place here = {{area->x + p.x, area->y + p.y, p.frame}, {area->x + p.x, area->y + p.y, p.frame}};
          if (isfinite(value) && value < least) {
            least = value;
            memcpy(place->min, here.min, sizeof here.min);
          }
          if (isfinite(value) && value > most) {
            most = value;
            memcpy(place->max, here.max, sizeof here.max);
          }
        }
  }
}

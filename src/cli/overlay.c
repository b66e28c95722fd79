/* SPDX-License-Identifier: MIT */
#include "cli/overlay.h"
#include "cli/evaluation.h"
#include "cli/page.h"
#include "image/layout.h"

#include <string.h>

typedef enum layer { PICTURE, TRUTH, PREDICTION, ERRORS, LAYERS } layer;

unsigned gconv_overlay_number(const gconv_image *image, int32_t y, int32_t x) {
  return (unsigned)gconv_stored_at(image->type, gconv_row_at(image, 0, y), (size_t)x * (size_t)image->channels);
}

/* Sets the colour of a class; black if the number is no class. */
static void put_class(const gconv_overlay *o, unsigned number, uint8_t colour[3]) {
  static const uint8_t black[3] = {0};
  memcpy(colour, o->classes[number] >= 0 ? o->colours + 3 * o->classes[number] : black, 3);
}

/* Finds the colour of a pixel of a layer. The pixel stands for step x step pixels, and has the colour of the first that is
 * labelled or, for errors, that is wrong. False: there is none. */
static bool find_colour(const gconv_overlay *o, layer what, int32_t step, int32_t y, int32_t x, uint8_t colour[3]) {
  static const uint8_t right_wrong[2][3] = {{40, 160, 40}, {230, 20, 20}};
  bool found = false;
  for (int32_t v = y * step; v < o->mask->height && v < (y + 1) * step; v++)
    for (int32_t u = x * step; u < o->mask->width && u < (x + 1) * step; u++) {
      unsigned wanted = gconv_overlay_number(o->mask, v, u), got = gconv_overlay_number(o->map, v, u);
      if (wanted == 0 && what != PREDICTION)
        continue;
      if (what == ERRORS && (!found || wanted != got))
        memcpy(colour, right_wrong[wanted != got], 3);
      else if (what != ERRORS && !found)
        put_class(o, what == PREDICTION ? got : wanted, colour);
      found = true;
    }
  return found;
}

static void put_layer(FILE *out, const gconv_overlay *o, layer what, const gconv_image *picture, int32_t step) {
  static const char *const titles[] = {"picture", "truth", "prediction", "errors"};
  gconv_image drawn = {.type = GCONV_U8, .frames = 1, .channels = 3, .height = picture->height, .width = picture->width};
  if (gconv_image_allocate(&drawn) != GCONV_OK)
    return;
  for (int32_t y = 0; y < drawn.height; y++)
    for (int32_t x = 0; x < drawn.width; x++) {
      const uint8_t *from = (const uint8_t *)gconv_row_at(picture, 0, y) + 3 * x;
      uint8_t *to = (uint8_t *)gconv_row_at(&drawn, 0, y) + 3 * x, colour[3];
      bool over = what != PICTURE && find_colour(o, what, step, y, x, colour);
      for (int c = 0; c < 3; c++)
        to[c] = over ? (uint8_t)((2 * from[c] + 3 * colour[c]) / 5) : what == ERRORS ? from[c] / 2 : from[c];
    }
  fprintf(out, "<figure><figcaption>%s</figcaption>", titles[what]);
  gconv_page_image(out, &drawn, titles[what], 1);
  fputs("</figure>", out);
  gconv_image_free(&drawn);
}

void gconv_overlay_put(FILE *out, const gconv_overlay *o) {
  enum { SIDE = 240 };
  gconv_image image = {0}, small = {0};
  bool good = gconv_image_read(o->path, NULL, &image) == GCONV_OK && image.frames == 1 && image.height == o->mask->height &&
              image.width == o->mask->width && o->map->height == o->mask->height && o->map->width == o->mask->width;
  const int32_t longer = image.height > image.width ? image.height : image.width, step = good ? (longer - 1) / SIDE + 1 : 1;
  if (good && gconv_evaluation_shrink(&image, step, &small) == GCONV_OK) {
    gconv_page_cell(out, "h3", o->path);
    fprintf(out, "\n<p>%.2f%% of %llu labelled pixels right</p>\n<div class='layers'>",
            100 * (1 - (double)o->wrong / (double)o->labelled), (unsigned long long)o->labelled);
    for (int what = PICTURE; what < LAYERS; what++)
      put_layer(out, o, (layer)what, &small, step);
    fputs("</div>\n", out);
  }
  gconv_image_free(&image);
  gconv_image_free(&small);
}

/* SPDX-License-Identifier: MIT */
/* Draws a bank as a contact sheet: a tile for each filter, with its weights as squares. 0 is mid-grey; positive weights are
 * brighter, negative ones equally darker. Filters of 3 channels are in colour. Other filters have a tile for each channel,
 * side by side. */
#include "bank/bank.h"
#include "base/arguments.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
  GOOD_TILE = 96,    /* pixels: tiles are not zoomed beyond this */
  GOOD_SHEET = 1600, /* pixels: sheets are not zoomed beyond this, on any side */
  BACKGROUND = 24,
  ZERO = 128,
  RANGE = 127 /* the levels between ZERO and the largest weight */
};
static const double good_aspect = 4.0 / 3; /* of a sheet: width / height */

/* The layout of a sheet. Sizes are in pixels, unless a comment says otherwise. Filters are arranged in rows, and so are the
 * channels of a filter. */
typedef struct layout {
  int64_t zoom, tile_gap, filter_gap;
  int64_t tile_width, tile_height;
  int64_t across, down;                /* tiles of a filter */
  int64_t filter_width, filter_height; /* without the gap */
  int64_t columns, rows;               /* filters in a row, and rows of filters */
  int64_t width, height;               /* width and height of the sheet */
} layout;

static bool is_coloured(const gconv_bank *bank) {
  return bank->channels == 3;
}

/* Returns how many of `count` things of this size to put side by side, so that the sheet has a good shape and few empty
 * places. */
static int64_t choose_columns(int64_t count, int64_t width, int64_t height) {
  const double empty_cost = 8; /* a sheet with an eighth empty is as bad as one of twice the width */
  double ideal = sqrt((double)count * good_aspect * (double)height / (double)width), best_score = INFINITY;
  int64_t best = 1, first = (int64_t)(ideal / 2), last = (int64_t)(ideal * 2) + 1;
  for (int64_t columns = first < 1 ? 1 : first; columns <= last && columns <= count; columns++) {
    int64_t places = (count + columns - 1) / columns * columns;
    double score = fabs(log2((double)columns / ideal)) + empty_cost * (double)(places - count) / (double)places;
    if (score < best_score) {
      best_score = score;
      best = columns;
    }
  }
  return best_score < INFINITY ? best : count; /* few flat things all go into one row */
}

static int64_t extent(int64_t count, int64_t size, int64_t gap) {
  return count * (size + gap) - gap;
}

static layout lay_out(const gconv_bank *bank, int64_t zoom, int64_t columns) {
  layout l = {.zoom = zoom, .tile_width = bank->columns * zoom, .tile_height = bank->rows * zoom};
  const int64_t tiles = is_coloured(bank) ? 1 : bank->channels,
                side = l.tile_width > l.tile_height ? l.tile_width : l.tile_height;
  const int64_t too_wide = 4; /* width / height of a sheet that has one filter a row, and one row of tiles a filter */
  l.tile_gap = 1 + side / 48;
  l.filter_gap = (tiles > 1 ? 2 : 1) * (1 + side / 24);
  bool wide = tiles * l.tile_width > too_wide * bank->filters * l.tile_height;
  l.across = wide ? choose_columns(tiles, l.tile_width, l.tile_height) : tiles;
  l.down = (tiles + l.across - 1) / l.across;
  l.filter_width = extent(l.across, l.tile_width, l.tile_gap);
  l.filter_height = extent(l.down, l.tile_height, l.tile_gap);
  l.columns =
      columns > 0 ? columns : choose_columns(bank->filters, l.filter_width + l.filter_gap, l.filter_height + l.filter_gap);
  if (l.columns > bank->filters)
    l.columns = bank->filters;
  l.rows = (bank->filters + l.columns - 1) / l.columns;
  l.width = extent(l.columns, l.filter_width, l.filter_gap) + 2 * l.filter_gap;
  l.height = extent(l.rows, l.filter_height, l.filter_gap) + 2 * l.filter_gap;
  return l;
}

/* Finds the largest zoom for which tiles and sheet have a good size. */
static layout choose_layout(const gconv_bank *bank, const gconv_bank_sheet *sheet) {
  if (sheet->zoom > 0)
    return lay_out(bank, sheet->zoom, sheet->columns);
  int64_t side = bank->rows > bank->columns ? bank->rows : bank->columns;
  int64_t zoom = side < GOOD_TILE ? GOOD_TILE / side : 1;
  layout l = lay_out(bank, zoom, sheet->columns);
  while (zoom > 1 && (l.width > GOOD_SHEET || l.height > GOOD_SHEET))
    l = lay_out(bank, --zoom, sheet->columns);
  return l;
}

static double largest(const float *weights, size_t count) {
  double most = 0;
  for (size_t i = 0; i < count; i++) {
    double size = fabs((double)weights[i]);
    most = size > most ? size : most; /* fmax() here makes gcc 12 for arm64 fail with an internal error */
  }
  return most;
}

static uint8_t level(float weight, double most) {
  return (uint8_t)(most > 0 ? lrint(ZERO + RANGE * ((double)weight / most)) : ZERO);
}

/* Draws one channel, or three in colour, at x, y. */
static void draw_tile(const gconv_bank *bank, const layout *l, const float *weights, double most, int64_t y, int64_t x,
                      gconv_image *image) {
  const size_t planes = (size_t)image->channels, plane = (size_t)bank->rows * (size_t)bank->columns;
  for (int64_t r = 0; r < bank->rows; r++) {
    uint8_t *first = (uint8_t *)image->data + (size_t)(y + r * l->zoom) * image->row_bytes + (size_t)x * planes, *to = first;
    for (int64_t s = 0; s < bank->columns; s++)
      for (int64_t i = 0; i < l->zoom; i++)
        for (size_t c = 0; c < planes; c++)
          *to++ = level(weights[c * plane + (size_t)(r * bank->columns + s)], most);
    for (int64_t i = 1; i < l->zoom; i++)
      memcpy(first + (size_t)i * image->row_bytes, first, (size_t)(to - first));
  }
}

static void draw_filter(const gconv_bank *bank, const layout *l, int64_t k, double most, gconv_image *image) {
  const size_t plane = (size_t)bank->rows * (size_t)bank->columns, filter = plane * (size_t)bank->channels;
  const float *weights = bank->weights + (size_t)k * filter;
  int64_t y = l->filter_gap + k / l->columns * (l->filter_height + l->filter_gap);
  int64_t x = l->filter_gap + k % l->columns * (l->filter_width + l->filter_gap);
  int64_t tiles = is_coloured(bank) ? 1 : bank->channels;
  if (most < 0)
    most = largest(weights, filter);
  for (int64_t t = 0; t < tiles; t++)
    draw_tile(bank, l, weights + (size_t)t * plane, most, y + t / l->across * (l->tile_height + l->tile_gap),
              x + t % l->across * (l->tile_width + l->tile_gap), image);
}

gconv_status gconv_bank_draw(const gconv_bank *bank, const gconv_bank_sheet *sheet, gconv_image *image) {
  static const gconv_bank_sheet defaults = {0};
  GCONV_NEED(bank, image);
  GCONV_TRY(gconv_bank_check(bank));
  GCONV_NEED_KNOWN(sheet);
  sheet = sheet ? sheet : &defaults;
  if (sheet->zoom < 0 || sheet->columns < 0 || sheet->zoom > GCONV_BANK_MAX_ZOOM)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a sheet with zoom %d and %d columns; neither is below 0, and zoom at most %d",
                      sheet->zoom, sheet->columns, GCONV_BANK_MAX_ZOOM);
  const layout l = choose_layout(bank, sheet);
  if (l.width > INT32_MAX || l.height > INT32_MAX || (uint64_t)l.width * (uint64_t)l.height > GCONV_DEFAULT_MAX_PIXELS)
    return gconv_fail(GCONV_TOO_LARGE,
                      "a sheet of %" PRId64 " x %" PRId64 " pixels for %d x %d filters; the limit is %" PRIu64 " pixels",
                      l.width, l.height, bank->filters, bank->channels, GCONV_DEFAULT_MAX_PIXELS);
  gconv_image made = {.type = GCONV_U8,
                      .frames = 1,
                      .height = (int32_t)l.height,
                      .width = (int32_t)l.width,
                      .channels = is_coloured(bank) ? 3 : 1};
  GCONV_TRY(gconv_image_allocate(&made));
  memset(made.data, BACKGROUND, made.row_bytes * (size_t)made.height);
  double most = sheet->one_scale ? largest(bank->weights, gconv_bank_weights(bank)) : -1;
  for (int64_t k = 0; k < bank->filters; k++)
    draw_filter(bank, &l, k, most, &made);
  *image = made;
  return GCONV_OK;
}

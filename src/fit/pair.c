/* SPDX-License-Identifier: MIT */
/*
 * Adds the samples of a pair of images to the sums of a fit.
 *
 * Both images are read by rows, a band at a time. A band is cut into tiles. Samples of a tile are converted to float64,
 * where 1 is white, and border pixels are added. Bands and tiles are the same on every machine, and so are the sums.
 */
#include "base/arguments.h"
#include "base/control.h"
#include "base/element.h"
#include "fit/fit.h"
#include "image/row_band.h"
#include "kernels/border.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  BAND = 64,      /* rows of targets that are in memory at a time */
  TILE = 4096,    /* targets of a row in a tile */
  HELD_BAND = 16, /* BAND and TILE if a part is held out: smaller, to have more blocks to choose from */
  HELD_TILE = 1024
};

/* ---- A pair ---------------------------------------------------------------------------------------------------------- */

enum { BEFORE, AFTER }; /* indices of pair.sides */

typedef struct pair {
  gconv_fit *fit;
  gconv_threads *threads;
  gconv_row_band sides[2];       /* before, after */
  int32_t out_height, out_width; /* how many rows and columns of places the filter has */
  int32_t top, left;             /* the row and column of `after` for the first place */
  int32_t before_top,
      before_left; /* the row and column of `before` under the filter's first tap at that place; negative: border pixels */
  int32_t band, tile;
  double held;
  size_t planes, step; /* step: distance of samples of the same channel */
  int32_t colours;     /* channels of a plane that count */
  double *of_level[2]; /* owned: for each side, a table that converts levels to numbers where 1 is white; NULL: floats */
  gconv_fit_patch *patch;
  size_t patch_plane;
  int32_t patch_channel, patch_y, patch_x; /* the place of the patch among the targets */
  double *x, *t, *counts;                  /* owned: samples of a tile, as in gconv_windows */
  size_t x_stride;

  int32_t first, rows;              /* the band */
  int32_t column, columns, channel; /* the tile */
  size_t block;                     /* its number in the pair */
  bool bad;                         /* the tile has a sample that is not finite */
} pair;

static gconv_status check_shapes(const pair *p) {
  const gconv_image *a = &p->sides[0].header, *b = &p->sides[1].header;
  char before[128], after[128];
  bool sizes = a->frames == b->frames && a->height == b->height && a->width == b->width &&
               a->channels - a->alpha == b->channels - b->alpha;
  if (sizes && (a->planar == b->planar || (a->channels == 1 && b->channels == 1)) &&
      (!a->planar || a->channels == b->channels))
    return GCONV_OK;
  if (sizes)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s and %s are no pair: one has its channels as planes (N x C x H x W), the other pixel by pixel",
                      p->sides[0].name, p->sides[1].name);
  gconv_row_band_describe(&p->sides[BEFORE], before);
  gconv_row_band_describe(&p->sides[AFTER], after);
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s is %s, and %s is %s: a pair must have one size, and the same colours",
                    p->sides[0].name, before, p->sides[1].name, after);
}

static gconv_status find_places(pair *p) {
  const gconv_fit *fit = p->fit;
  const gconv_image *like = &p->sides[0].header;
  p->top = fit->whole ? 0 : fit->rows / 2;
  p->left = fit->whole ? 0 : fit->columns / 2;
  p->before_top = p->top - fit->rows / 2;
  p->before_left = p->left - fit->columns / 2;
  p->out_height = fit->whole ? like->height : like->height - fit->rows + 1;
  p->out_width = fit->whole ? like->width : like->width - fit->columns + 1;
  if (p->out_height < 1 || p->out_width < 1)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: a filter of %d rows and %d columns does not fit into an image of %d rows and %d columns: take a "
                      "smaller one, or say what lies outside (--border)",
                      p->sides[0].name, fit->rows, fit->columns, like->height, like->width);
  p->band = p->held > 0 && p->held < 1 ? HELD_BAND : fit->rows > BAND ? fit->rows : BAND;
  p->band = p->band < p->out_height ? p->band : p->out_height;
  p->tile = p->held > 0 && p->held < 1 ? HELD_TILE : TILE;
  p->tile = p->tile < p->out_width ? p->tile : p->out_width;
  p->step = like->planar ? 1 : (size_t)like->channels;
  p->planes = (size_t)like->frames * (like->planar ? (size_t)like->channels : 1);
  p->colours = like->planar ? 1 : like->channels - like->alpha;
  return GCONV_OK;
}

static gconv_status make_levels(gconv_type type, double **of_level) {
  enum { LEVELS = 65536 };
  if (type == GCONV_F32)
    return GCONV_OK;
  GCONV_TRY(gconv_allocate(LEVELS * sizeof **of_level, "the levels", (void **)of_level));
  for (size_t i = 0; i < LEVELS; i++)
    (*of_level)[i] = (double)i / gconv_level_of_white(type);
  return GCONV_OK;
}

static gconv_status allocate(pair *p) {
  const gconv_fit *fit = p->fit;
  p->x_stride = (size_t)p->tile + (size_t)fit->columns - 1;
  size_t rows = (size_t)p->band + (size_t)fit->rows - 1;
  size_t x = rows * p->x_stride + GCONV_MOMENTS_SLACK, t = (size_t)p->band * (size_t)p->tile;
  GCONV_TRY(gconv_allocate_workspace(x * sizeof *p->x, "samples of the images", (void **)&p->x));
  GCONV_TRY(gconv_allocate_workspace(t * sizeof *p->t, "samples of the images", (void **)&p->t));
  GCONV_TRY(gconv_allocate_workspace(t * sizeof *p->counts, "samples of the images", (void **)&p->counts));
  memset(p->x, 0, x * sizeof *p->x);
  for (size_t i = 0; i < 2; i++) {
    GCONV_TRY(make_levels(p->sides[i].header.type, &p->of_level[i]));
    GCONV_TRY(gconv_row_band_reserve(&p->sides[i], (int32_t)rows + 2 * fit->rows));
  }
  return GCONV_OK;
}

/* ---- Samples --------------------------------------------------------------------------------------------------------- */

/* Loads channel `channel` of `count` pixels of row y from column `x` on, inside the image, as numbers where 1 is white. */
static void load_inside(const pair *p, int which, int32_t y, int32_t channel, int32_t x, int32_t count, double *to) {
  const gconv_row_band *s = &p->sides[which];
  const void *row = gconv_row_band_row(s, y);
  const double *of_level = p->of_level[which];
  size_t step = s->header.planar ? 1 : (size_t)s->header.channels, first = (size_t)x * step + (size_t)channel;
  if (s->header.type == GCONV_U8)
    for (int32_t i = 0; i < count; i++)
      to[i] = of_level[((const uint8_t *)row)[first + (size_t)i * step]];
  else if (s->header.type == GCONV_U16)
    for (int32_t i = 0; i < count; i++)
      to[i] = of_level[((const uint16_t *)row)[first + (size_t)i * step]];
  else
    for (int32_t i = 0; i < count; i++)
      to[i] = (double)((const float *)row)[first + (size_t)i * step];
}

/* Loads row i of the tile of `before`, with border pixels. */
static void load_before(const pair *p, int32_t i) {
  const gconv_row_band *s = &p->sides[0];
  const gconv_fit *fit = p->fit;
  int32_t count = p->columns + fit->columns - 1, width = s->header.width;
  int64_t x = (int64_t)p->before_left + p->column;
  int64_t y = gconv_border_index(fit->border, (int64_t)p->before_top + p->first + i, s->header.height);
  double outside = fit->border == GCONV_BORDER_CONSTANT ? fit->border_value : 0, *to = p->x + (size_t)i * p->x_stride;
  if (y == GCONV_OUTSIDE) {
    for (int32_t k = 0; k < count; k++)
      to[k] = outside;
    return;
  }
  int32_t begin = x < 0 ? (int32_t)(-x < count ? -x : count) : 0;
  int32_t end = width - x < count ? (int32_t)(width - x) : count;
  if (end > begin)
    load_inside(p, BEFORE, (int32_t)y, p->channel, (int32_t)(x + begin), end - begin, to + begin);
  for (int32_t k = 0; k < count; k++) {
    if (k == begin && end > begin)
      k = end;
    if (k >= count)
      break;
    int64_t at = gconv_border_index(fit->border, x + k, width);
    to[k] = outside;
    if (at != GCONV_OUTSIDE)
      load_inside(p, BEFORE, (int32_t)y, p->channel, (int32_t)at, 1, &to[k]);
  }
}

/* Loads targets, and marks those that count. Integers count unless they are black or white. */
static void load_after(const pair *p, int32_t y, int32_t channel, int32_t x, int32_t count, double *t, double *counts) {
  bool levels = p->of_level[AFTER] != NULL;
  load_inside(p, AFTER, y, channel, x, count, t);
  for (int32_t i = 0; i < count; i++) {
    counts[i] = levels && (t[i] <= 0 || t[i] >= 1) ? 0 : 1;
    t[i] *= counts[i];
  }
}

static bool are_finite(const double *values, int32_t count) {
  double sum = 0;
  for (int32_t i = 0; i < count; i++)
    sum += values[i] * 0;
  return sum == 0;
}

/* Loads one row a turn: the first turns load rows of `before`, the others rows of `after`. */
static void load_row(void *context, size_t turn, int seat) {
  pair *p = context;
  int32_t rows = p->rows + p->fit->rows - 1, i = (int32_t)turn - rows;
  const double *loaded = i < 0 ? p->x + turn * p->x_stride : p->t + (size_t)i * (size_t)p->tile;
  const gconv_row_band *s = &p->sides[i < 0 ? 0 : 1];
  if (i < 0)
    load_before(p, (int32_t)turn);
  else
    load_after(p, p->top + p->first + i, p->channel, p->left + p->column, p->columns, p->t + (size_t)i * (size_t)p->tile,
               p->counts + (size_t)i * (size_t)p->tile);
  if (s->header.type == GCONV_F32 && !are_finite(loaded, i < 0 ? p->columns + p->fit->columns - 1 : p->columns))
    __atomic_store_n(&p->bad, true, __ATOMIC_RELAXED);
}

/* Fails, and names the place of the first sample in memory that is not finite. */
static gconv_status complain_of_number(const pair *p) {
  for (size_t i = 0; i < 2; i++) {
    const gconv_row_band *s = &p->sides[i];
    int32_t begin = s->image ? 0 : s->first, end = s->image ? s->header.height : s->next;
    for (int32_t y = begin; s->header.type == GCONV_F32 && y < end; y++)
      for (int32_t x = 0; x < s->header.width; x++) {
        double value;
        load_inside(p, (int)i, y, p->channel, x, 1, &value);
        if (!isfinite(value))
          return gconv_fail(GCONV_BAD_FILE, "%s: the sample at x %d, y %d, channel %d%s is %s: all must be numbers", s->name,
                            x, y, s->header.planar ? (int)(s->plane % (size_t)s->header.channels) : p->channel,
                            s->header.frames > 1 ? " of a frame" : "", isnan(value) ? "NaN" : "infinite");
      }
  }
  return gconv_fail(GCONV_BAD_FILE, "%s, %s: a sample is no number", p->sides[0].name, p->sides[1].name);
}

/* ---- Patches --------------------------------------------------------------------------------------------------------- */

static int32_t patch_side(int32_t size, int32_t most) {
  int32_t half = size / 2 > 32 ? size / 2 : 32;
  half = half < most ? half : most;
  return half < size ? half : size;
}

static gconv_status allocate_patch(gconv_fit_patch *patch) {
  size_t t = (size_t)patch->height * (size_t)patch->width * sizeof *patch->t;
  size_t x = ((size_t)patch->x_height * (size_t)patch->x_width + GCONV_MOMENTS_SLACK) * sizeof *patch->x;
  GCONV_TRY(gconv_allocate(x, "samples of the images", (void **)&patch->x));
  GCONV_TRY(gconv_allocate(t, "samples of the images", (void **)&patch->t));
  GCONV_TRY(gconv_allocate(t, "samples of the images", (void **)&patch->counts));
  memset(patch->x, 0, x);
  memset(patch->t, 0, t);
  memset(patch->counts, 0, t);
  return GCONV_OK;
}

/* Keeps the middle of the pair as a patch, of the middle colour of the first frame, if there is room for another. */
static gconv_status begin_patch(pair *p) {
  gconv_fit_sums *sums = p->fit->sums;
  const gconv_image *like = &p->sides[0].header;
  if (sums->patch_count == GCONV_FIT_PATCHES)
    return GCONV_OK;
  gconv_fit_patch *patch = &sums->patches[sums->patch_count++];
  int32_t colour = (like->channels - like->alpha) / 2;
  int32_t reach_y = GCONV_FIT_PATCH_MARGIN + p->fit->rows, reach_x = GCONV_FIT_PATCH_MARGIN + p->fit->columns;
  patch->height = patch_side(p->out_height, GCONV_FIT_PATCH_SIDE);
  patch->width = patch_side(p->out_width, GCONV_FIT_PATCH_SIDE * GCONV_FIT_PATCH_SIDE / patch->height);
  p->patch_y = p->top + (p->out_height - patch->height) / 2;
  p->patch_x = p->left + (p->out_width - patch->width) / 2;
  patch->top = p->patch_y < reach_y ? p->patch_y : reach_y;
  patch->left = p->patch_x < reach_x ? p->patch_x : reach_x;
  int32_t below = like->height - p->patch_y - patch->height, right = like->width - p->patch_x - patch->width;
  patch->x_height = patch->top + patch->height + (below < reach_y ? below : reach_y);
  patch->x_width = patch->left + patch->width + (right < reach_x ? right : reach_x);
  gconv_status status = allocate_patch(patch);
  if (status != GCONV_OK)
    patch->height = 0;
  p->patch = patch;
  p->patch_plane = like->planar ? (size_t)colour : 0;
  p->patch_channel = like->planar ? 0 : colour;
  return status;
}

/* Copies the rows of the patch that the band has. */
static void copy_patch(const pair *p) {
  gconv_fit_patch *patch = p->patch;
  const gconv_row_band *before = &p->sides[BEFORE];
  if (!patch || before->plane != p->patch_plane)
    return;
  int32_t y = p->before_top + p->first;
  for (int32_t i = 0; i < p->rows + p->fit->rows - 1; i++) {
    int32_t row = y + i - (p->patch_y - patch->top);
    if (row >= 0 && row < patch->x_height)
      load_inside(p, BEFORE, y + i, p->patch_channel, p->patch_x - patch->left, patch->x_width,
                  patch->x + (size_t)row * (size_t)patch->x_width);
  }
  for (int32_t i = 0; i < p->rows; i++) {
    int32_t row = p->top + p->first + i - p->patch_y;
    if (row >= 0 && row < patch->height)
      load_after(p, p->top + p->first + i, p->patch_channel, p->patch_x, patch->width,
                 patch->t + (size_t)row * (size_t)patch->width, patch->counts + (size_t)row * (size_t)patch->width);
  }
}

/* ---- Bands and tiles ------------------------------------------------------------------------------------------------- */

/* Returns whether the block is held out: one of each 1 / held blocks, the last one. */
static bool is_held(const pair *p) {
  return floor((double)(p->block + 1) * p->held) > floor((double)p->block * p->held);
}

static gconv_status add_tile(pair *p) {
  gconv_fit_sums *sums = p->fit->sums;
  const gconv_windows windows = {.x = p->x,
                                 .x_stride = p->x_stride,
                                 .t = p->t,
                                 .counts = p->counts,
                                 .t_stride = (size_t)p->tile,
                                 .height = p->rows,
                                 .width = p->columns};
  for (p->channel = 0; p->channel < p->colours; p->channel++) {
    gconv_threads_run(p->threads, (size_t)(2 * p->rows + p->fit->rows - 1), load_row, p);
    if (p->bad)
      return complain_of_number(p);
    gconv_moments_add(is_held(p) ? sums->held : sums->fitted, p->threads, &windows);
  }
  return GCONV_OK;
}

/* Reads the rows that the band needs. Border pixels above and below the image may mirror up to fit->rows of its rows. */
static gconv_status read_band(pair *p) {
  gconv_row_band *before = &p->sides[0], *after = &p->sides[1];
  int32_t rows = p->fit->rows, height = before->header.height, begin = p->before_top + p->first;
  int32_t end = begin + p->rows + rows - 1;
  if (p->fit->whole) {
    begin = begin < height - 1 - rows ? begin : height - 1 - rows;
    end = end > rows + 1 ? end : rows + 1;
  }
  gconv_row_band_want(before, begin > 0 ? begin : 0, end < height ? end : height);
  gconv_row_band_want(after, p->top + p->first, p->top + p->first + p->rows);
  return gconv_row_band_read(p->sides, p->threads);
}

static gconv_status add_band(pair *p) {
  GCONV_TRY(read_band(p));
  copy_patch(p);
  for (p->column = 0; p->column < p->out_width; p->column += p->tile, p->block++) {
    p->columns = p->out_width - p->column < p->tile ? p->out_width - p->column : p->tile;
    GCONV_TRY(gconv_control_check());
    GCONV_TRY(add_tile(p));
  }
  return GCONV_OK;
}

static gconv_status add_planes(pair *p) {
  const gconv_image *like = &p->sides[0].header;
  for (size_t plane = 0; plane < p->planes; plane++) {
    bool is_alpha = like->planar && like->alpha && plane % (size_t)like->channels == (size_t)like->channels - 1;
    for (p->first = 0; p->first < p->out_height && !is_alpha; p->first += p->band) {
      p->rows = p->out_height - p->first < p->band ? p->out_height - p->first : p->band;
      GCONV_TRY(gconv_control_step("fitting", ((double)plane + (double)p->first / p->out_height) / (double)p->planes));
      GCONV_TRY(add_band(p));
    }
    GCONV_TRY(gconv_row_band_next_plane(&p->sides[0]));
    GCONV_TRY(gconv_row_band_next_plane(&p->sides[1]));
  }
  return GCONV_OK;
}

static void remember_types(gconv_fit_sums *sums, double before, double after) {
  sums->mixed = sums->mixed || (sums->white_before != 0 && sums->white_before != before);
  sums->white_after = sums->white_after == 0 || sums->white_after == after ? after : 1;
  sums->white_before = sums->white_before == 0 ? before : sums->white_before;
}

static gconv_status add(pair *p, const gconv_compared *before, const gconv_compared *after) {
  const gconv_fit *fit = p->fit;
  const bool whole = fit->whole && fit->border == GCONV_BORDER_WRAP;
  GCONV_TRY(gconv_row_band_open(before, "the image before", fit->max_pixels, whole, &p->sides[0]));
  GCONV_TRY(gconv_row_band_open(after, "the image after", fit->max_pixels, false, &p->sides[1]));
  GCONV_TRY(check_shapes(p));
  GCONV_TRY(find_places(p));
  GCONV_TRY(allocate(p));
  GCONV_TRY(begin_patch(p));
  GCONV_TRY(add_planes(p));
  remember_types(fit->sums, gconv_level_of_white(p->sides[0].header.type), gconv_level_of_white(p->sides[1].header.type));
  if (p->held > 0 && fit->sums->held->samples + fit->sums->held->clipped == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s is too small to hold out %g%% of it: it has %zu blocks", p->sides[0].name,
                      100 * p->held, p->block);
  return GCONV_OK;
}

gconv_status gconv_fit_add_pair(gconv_fit *fit, gconv_threads *threads, const gconv_compared *before,
                                const gconv_compared *after, double held) {
  pair p = {.fit = fit, .threads = threads, .held = held};
  gconv_status status = add(&p, before, after);
  for (size_t i = 0; i < 2; i++) {
    gconv_row_band_close(&p.sides[i]);
    gconv_release(p.of_level[i]);
  }
  gconv_release(p.x);
  gconv_release(p.t);
  gconv_release(p.counts);
  return status;
}

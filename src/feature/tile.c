/* SPDX-License-Identifier: MIT */
/* A tile of an image becomes its features: source -> smoothed in y -> smoothed in x -> formulas of kinds.c. */
#include "base/memory.h"
#include "feature/feature.h"
#include "kernels/border.h"

#include <math.h>
#include <string.h>

enum { BUFFERS = 1 + GCONV_PLANES + GCONV_SMOOTH_ORDERS + GCONV_FEATURE_SPARE };

/* ---- Memory ----------------------------------------------------------------------------------------------------------- */

/* A row has room for a tile, its halo on both sides, and the samples that gconv_smooth() may compute past the end. */
static size_t pitch_of(const gconv_feature_list *list) {
  size_t width = GCONV_TILE_WIDTH + 2 * (size_t)list->reach + GCONV_SMOOTH_WIDTH;
  return (width + GCONV_SMOOTH_WIDTH - 1) / GCONV_SMOOTH_WIDTH * GCONV_SMOOTH_WIDTH;
}

static size_t plane_floats(const gconv_feature_list *list) {
  return pitch_of(list) * (GCONV_TILE_HEIGHT + 2 * (size_t)list->reach + 1);
}

size_t gconv_feature_work_bytes(const gconv_feature_list *list) {
  return BUFFERS * plane_floats(list) * sizeof(float);
}

gconv_status gconv_feature_work_begin(const gconv_feature_list *list, int32_t height, int32_t width,
                                      gconv_feature_work *work) {
  const size_t floats = plane_floats(list), bytes = gconv_feature_work_bytes(list);
  void *memory = NULL;
  GCONV_TRY(gconv_allocate_workspace(bytes, "features of pixels", &memory));
  memset(memory, 0, bytes); /* smoothing reads samples past the end of a row; their results are not used */
  *work = (gconv_feature_work){.list = list, .height = height, .width = width, .pitch = pitch_of(list), .memory = memory};
  float *next = work->memory + (size_t)list->reach * work->pitch + (size_t)list->reach; /* the first pixel of the tile */
  work->source = next;
  for (int i = 0; i < GCONV_PLANES; i++)
    work->planes[i] = next += floats;
  for (int i = 0; i < GCONV_SMOOTH_ORDERS; i++)
    work->passes[i] = next += floats;
  for (int i = 0; i < GCONV_FEATURE_SPARE; i++)
    work->spare[i] = next += floats;
  return GCONV_OK;
}

void gconv_feature_work_end(gconv_feature_work *work) {
  gconv_release(work->memory);
  *work = (gconv_feature_work){0};
}

/* ---- Borders ---------------------------------------------------------------------------------------------------------- */

static float *row_at(const gconv_feature_work *work, float *plane, int32_t y) {
  return plane + (ptrdiff_t)y * (ptrdiff_t)work->pitch;
}

static bool is_outside(int32_t i, int32_t size) {
  return i < 0 || i >= size;
}

/* A border pixel repeats a pixel that is at most as far from the edge as itself. So the tile or its rim has that pixel. */
void gconv_feature_fill_border(const gconv_feature_work *work, gconv_border border, int32_t rim, float *plane) {
  for (int32_t y = -rim; y < work->rows + rim; y++) {
    float *row = row_at(work, plane, y);
    if (is_outside(work->y + y, work->height))
      continue;
    for (int32_t x = -rim; x < 0 && work->x + x < 0; x++)
      row[x] = row[gconv_border_index(border, work->x + x, work->width) - work->x];
    for (int32_t x = work->columns + rim - 1; x >= 0 && work->x + x >= work->width; x--)
      row[x] = row[gconv_border_index(border, work->x + x, work->width) - work->x];
  }
  for (int32_t y = -rim; y < work->rows + rim; y++) {
    if (!is_outside(work->y + y, work->height))
      continue;
    int32_t from = (int32_t)(gconv_border_index(border, work->y + y, work->height) - work->y);
    memcpy(row_at(work, plane, y) - rim, row_at(work, plane, from) - rim, (size_t)(work->columns + 2 * rim) * sizeof(float));
  }
}

/* Writes two samples beyond a line of `count` samples, whose last two are *(end - step) and *end. With them, g[i] = (f[i +
 * 1] - f[i - 1]) / 2 equals numpy.gradient() at the end, and (g[i + 1] - g[i - 1]) / 2 equals numpy.gradient() of
 * numpy.gradient(). */
static void extend(float *end, ptrdiff_t step, int32_t count) {
  float last = end[0], before = count > 1 ? end[-step] : last, third = count > 2 ? end[-2 * step] : 2 * before - last;
  end[step] = last + (last - before);
  end[2 * step] = 4 * (last - before) + third;
}

void gconv_feature_fill_linear(const gconv_feature_work *work, int32_t rim, float *plane) {
  const ptrdiff_t pitch = (ptrdiff_t)work->pitch;
  (void)rim; /* fills as if it were 2 */
  bool top = work->y == 0, bottom = work->y + work->rows >= work->height - 1;
  bool left = work->x == 0, right = work->x + work->columns >= work->width - 1;
  for (int32_t x = -2; x < work->columns + 2; x++) {
    if (is_outside(work->x + x, work->width))
      continue;
    if (top)
      extend(plane + x, -pitch, work->height);
    if (bottom)
      extend(row_at(work, plane, work->height - 1 - work->y) + x, pitch, work->height);
  }
  for (int32_t y = -2; y < work->rows + 2; y++) {
    float *row = row_at(work, plane, y);
    if (left)
      extend(row, -1, work->width);
    if (right)
      extend(row + (work->width - 1 - work->x), 1, work->width);
  }
}

/* ---- Smoothing -------------------------------------------------------------------------------------------------------- */

/* Smooths in y, into `passes`, for all columns that smooth_rows() will read. */
static void smooth_columns(gconv_feature_work *work, const gconv_scale *scale, const float *from, int32_t rim,
                           const bool wanted[GCONV_SMOOTH_ORDERS]) {
  const ptrdiff_t begin = -(ptrdiff_t)rim * (ptrdiff_t)work->pitch - (rim + scale->radius);
  gconv_smoothing pass = {.in = from + begin,
                          .in_pitch = work->pitch,
                          .step = work->pitch,
                          .radius = scale->radius,
                          .out_pitch = work->pitch,
                          .rows = (size_t)(work->rows + 2 * rim),
                          .width = (size_t)(work->columns + 2 * (rim + scale->radius))};
  for (int d = 0; d < GCONV_SMOOTH_ORDERS; d++) {
    pass.taps[d] = scale->taps[d];
    pass.out[d] = wanted[d] ? work->passes[d] + begin : NULL;
  }
  gconv_smooth(&pass);
}

/* Smooths pass number `order` in x. out[d] gets derivative d in x, unless out[d] is NULL. */
static void smooth_rows(gconv_feature_work *work, const gconv_scale *scale, int order, int32_t rim,
                        float *const out[GCONV_SMOOTH_ORDERS]) {
  const ptrdiff_t begin = -(ptrdiff_t)rim * (ptrdiff_t)work->pitch - rim;
  gconv_smoothing pass = {.in = work->passes[order] + begin,
                          .in_pitch = work->pitch,
                          .step = 1,
                          .radius = scale->radius,
                          .out_pitch = work->pitch,
                          .rows = (size_t)(work->rows + 2 * rim),
                          .width = (size_t)(work->columns + 2 * rim)};
  for (int d = 0; d < GCONV_SMOOTH_ORDERS; d++) {
    pass.taps[d] = scale->taps[d];
    pass.out[d] = out[d] ? out[d] + begin : NULL;
  }
  gconv_smooth(&pass);
}

void gconv_feature_smooth(gconv_feature_work *work, const gconv_scale *scale, const float *from, int32_t rim, float *to) {
  static const bool smooth_alone[GCONV_SMOOTH_ORDERS] = {true};
  float *const out[GCONV_SMOOTH_ORDERS] = {to};
  smooth_columns(work, scale, from, rim, smooth_alone);
  smooth_rows(work, scale, 0, rim, out);
}

static void make_planes(gconv_feature_work *work, const gconv_scale *scale) {
  /* The planes of each order in y, by the order in x. */
  static const int planes[GCONV_SMOOTH_ORDERS][GCONV_SMOOTH_ORDERS] = {
      {GCONV_PLANE_SMOOTH, GCONV_PLANE_X, GCONV_PLANE_XX}, {GCONV_PLANE_Y, GCONV_PLANE_XY, -1}, {GCONV_PLANE_YY, -1, -1}};
  float *out[GCONV_SMOOTH_ORDERS][GCONV_SMOOTH_ORDERS];
  bool wanted[GCONV_SMOOTH_ORDERS] = {false};
  for (int y = 0; y < GCONV_SMOOTH_ORDERS; y++)
    for (int x = 0; x < GCONV_SMOOTH_ORDERS; x++) {
      bool wants = planes[y][x] >= 0 && scale->planes >> planes[y][x] & 1;
      out[y][x] = wants ? work->planes[planes[y][x]] : NULL;
      wanted[y] |= wants;
    }
  smooth_columns(work, scale, work->source, scale->rim, wanted);
  for (int y = 0; y < GCONV_SMOOTH_ORDERS; y++)
    if (wanted[y])
      smooth_rows(work, scale, y, scale->rim, out[y]);
}

/* ---- A tile ----------------------------------------------------------------------------------------------------------- */

/* Fetches the samples that the scales of a convention need. Returns whether there are such scales. */
static bool fetch(gconv_feature_work *work, gconv_convention convention, gconv_feature_source *source, const void *context) {
  int32_t reach = -1;
  for (size_t i = 0; i < work->list->scale_count; i++) {
    const gconv_scale *scale = &work->list->scales[i];
    if (scale->convention == convention && scale->radius + scale->rim > reach)
      reach = scale->radius + scale->rim;
  }
  if (reach < 0)
    return false;
  int32_t left = work->x - reach, right = work->x + work->columns + reach;
  left = left < 0 ? 0 : left;
  right = right < work->width ? right : work->width;
  for (int32_t y = -reach; y < work->rows + reach; y++)
    if (!is_outside(work->y + y, work->height))
      source(context, work->y + y, left, right - left, row_at(work, work->source, y) + (left - work->x));
  work->origin = 0;
  if (convention == GCONV_SMOOTH_SKIMAGE && isfinite(work->source[0]))
    work->origin = work->source[0];
  for (int32_t y = -reach; y < work->rows + reach && work->origin != 0; y++) {
    float *row = row_at(work, work->source, y);
    for (int32_t x = left - work->x; x < right - work->x && !is_outside(work->y + y, work->height); x++)
      row[x] -= work->origin;
  }
  gconv_feature_fill_border(work, convention == GCONV_SMOOTH_VIGRA ? GCONV_BORDER_REFLECT101 : GCONV_BORDER_REPLICATE, reach,
                            work->source);
  return true;
}

void gconv_feature_tile_make(gconv_feature_work *work, gconv_feature_source *source, const void *context, float *out,
                             size_t plane, size_t pitch) {
  const gconv_feature_list *list = work->list;
  for (int convention = GCONV_SMOOTH_VIGRA; convention <= GCONV_SMOOTH_SKIMAGE; convention++) {
    if (!fetch(work, (gconv_convention)convention, source, context))
      continue;
    for (size_t s = 0; s < list->scale_count; s++) {
      if (list->scales[s].convention != (gconv_convention)convention || !list->scales[s].planes)
        continue;
      make_planes(work, &list->scales[s]);
      for (size_t i = 0; i < list->count; i++) {
        const gconv_feature *feature = &list->items[i];
        float *first = out + (size_t)feature->output * plane, *const outs[] = {first, first + plane};
        if (feature->scale == s)
          feature->kind->make(work, feature, outs, pitch);
      }
    }
  }
}

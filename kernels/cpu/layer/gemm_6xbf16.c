/* SPDX-License-Identifier: MIT */
/*
 * gemm-6xbf16: about the accuracy of float32 from products of tiles of bfloat16 (AMX). Each float32 is split into three
 * bfloat16, x = x1 + x2 + x3. Each part has the first 8 bits of the rest that the parts before it left. Of the nine products
 * of two such sums, the six largest are added up in float32:
 *
 *   w x = w1 x3 + w1 x2 + w2 x2 + w2 x1 + w3 x1 + w1 x1
 *
 * An instruction adds the product of 16 x 32 weights and 32 x 16 samples to 16 filters of 16 pixels, in 16 cycles. So six of
 * them compute 85 multiply-adds a cycle; vectors of AVX-512 compute 32.
 *
 *   weights   a tile has 16 filters in rows, and 16 pairs of weights in columns
 *   samples   a tile has 16 pairs of samples in rows, and 16 pixels in columns
 *
 * A pair is the samples of two neighbouring channels. The samples of a task are staged as planes of pairs. A row of a tile
 * is 16 neighbours in a plane, at a place that depends on the tap; so all taps read the same planes. The rows of a tile are
 * in neighbouring planes, which are equally far apart. A step is one such product of 16 pairs:
 *
 *   many channels   one tap, and 16 pairs of channels (or fewer: channels are divided evenly)
 *   few channels    several neighbouring taps; for each of them, there is a plane of shifted samples
 *
 * With a stride, planes are divided into sheets, as stage.h divides a channel into phases: neighbouring outputs then read
 * neighbours. Rows of outputs follow each other in the planes, with the border pixels between them. So vectors of 16 pixels
 * pass over the ends of rows, and are almost full even for images of 7 x 7. Their sums at border pixels are dropped.
 *
 * A task has some rows, columns and filters. It computes all its pixels for 32 filters, then for the next 32.
 */
#include "base/cpu.h"
#include "gemm_6xbf16_cut.h"

#include <string.h>

static size_t tasks(const gconv_layer_problem *problem) {
  const layout l = layout_of(problem);
  const cut c = cut_of(&l);
  return (size_t)tasks_of(&l, &c);
}

/* ---- The workspace: offsets of steps, planes of two channels, sums, planes of pairs ---- */

static size_t offset_floats(const layout *l) {
  return ((size_t)l->steps * 2 + 15) / 16 * 16;
}

static size_t copy_floats(const cut *c) {
  return (size_t)c->plane;
}

static size_t sums_floats(const cut *c) {
  return (size_t)vectors_of(c) * SIDE * MOST_FILTERS;
}

static size_t workspace_bytes(const gconv_layer_problem *problem) {
  const layout l = layout_of(problem);
  const cut c = cut_of(&l);
  return (offset_floats(&l) + 2 * copy_floats(&c) + sums_floats(&c) + (size_t)planes_of(&l) * (size_t)c.plane +
          GCONV_STAGE_SLACK) *
         sizeof(float);
}

/* ---- Weights: [group][block][step][split] tiles, then a scale for each filter ----
 *
 * Tiles take numbers below the normal range for 0, and sums of large samples must not overflow in between. So samples are
 * halved. The weights of a filter are multiplied by a power of 2, after which the largest is between 1 and 2. Then the
 * filter's sums are multiplied by its scale. */

static size_t group_bytes(const layout *l) {
  return (size_t)l->blocks * (size_t)l->steps * SPLITS * TILE_BYTES;
}

static size_t prepared_floats(const gconv_layer_problem *problem) {
  const layout l = layout_of(problem);
  return (size_t)problem->groups * group_bytes(&l) / sizeof(float) + (size_t)problem->filters;
}

/* Returns the exponent of 2 by which the weights of a filter are divided. */
static int exponent_of(const float *weights, int64_t count) {
  float largest = 0;
  int exponent;
  for (int64_t i = 0; i < count; i++)
    largest = fabsf(weights[i]) > largest || weights[i] != weights[i] ? fabsf(weights[i]) : largest;
  if (largest == 0 || !isfinite(largest))
    return 0;
  frexpf(largest, &exponent);
  return exponent - 1;
}

/* Returns the nearest bfloat16, as the 16 bits that a float32 begins with. Numbers below the normal range become 0, as in
 * tiles. */
static uint16_t round_to_bfloat16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x)
    return (uint16_t)(bits >> 16 | 0x40);
  if ((bits & 0x7f800000) == 0)
    return (uint16_t)(bits >> 16 & 0x8000);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float widen(uint16_t bfloat16) {
  const uint32_t bits = (uint32_t)bfloat16 << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Writes the weights of one step and filter, as row `row` of its tiles. `weights` are those of the filter. */
static void prepare_row(const layout *l, const float *weights, int exponent, int32_t gy, int32_t gx, int32_t slice, int row,
                        uint16_t *tiles) {
  const int32_t R = l->problem.rows, S = l->problem.columns;
  for (int32_t i = 0; i < l->depth * 2; i++) {
    const int32_t pair = l->slices > 1 ? slice * l->depth + i / 2 : i / 2 % l->pairs, c = 2 * pair + i % 2;
    const int32_t near = l->slices > 1 ? 0 : i / 2 / l->pairs;
    const int32_t r = first_tap(gy, l->near_y, R) + near / l->near_x, s = first_tap(gx, l->near_x, S) + near % l->near_x;
    if (c >= l->channels || r < gy * l->near_y || s < gx * l->near_x)
      continue;
    float rest = ldexpf(weights[((int64_t)c * R + r) * S + s], -exponent);
    for (int split = 0; split < SPLITS; split++) {
      const uint16_t part = round_to_bfloat16(rest);
      tiles[split * TILE_BYTES / 2 + row * SIDE * 2 + i] = part;
      rest -= widen(part);
    }
  }
}

static gconv_status prepare(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  const layout l = layout_of(problem);
  const int64_t taps = gconv_layer_taps(problem);
  float *scales = prepared + (size_t)problem->groups * group_bytes(&l) / sizeof(float);
  memset(prepared, 0, (size_t)problem->groups * group_bytes(&l));
  for (int32_t k = 0; k < problem->filters; k++) {
    const int32_t group = k / l.filters, filter = k % l.filters;
    const int exponent = exponent_of(weights + k * taps, taps);
    scales[k] = ldexpf(2, exponent); /* samples are halved */
    uint16_t *tiles = (uint16_t *)((uint8_t *)prepared + (size_t)group * group_bytes(&l)) +
                      (int64_t)(filter / SIDE) * l.steps * SPLITS * TILE_BYTES / 2;
    for (int32_t step = 0; step < l.steps; step++, tiles += SPLITS * TILE_BYTES / 2)
      prepare_row(&l, weights + k * taps, exponent, step / l.groups_x / l.slices, step % l.groups_x,
                  step / l.groups_x % l.slices, filter % SIDE, tiles);
  }
  return GCONV_OK;
}

/* ---- A task ---- */

typedef struct walk {
  const layout *l;
  const cut *c;
  int32_t first_row, rows, first_column, columns; /* of outputs */
  const float *in, *weights;                      /* of the group: its first channel, and its first filter */
  int64_t *offsets;
  float *copies[2], *sums;
  uint32_t *planes;
  bool tiny; /* there are samples below GCONV_TINY that are not 0 */
} walk;

/* Returns the pairs from the first plane of sheet (y, x) to its plane `number`. */
static int64_t plane_at(const walk *w, int32_t y, int32_t x, int64_t number) {
  return (((int64_t)y * w->l->period_x + x) * w->l->slices * w->l->depth + number) * SPLITS * w->c->plane;
}

/* Sets the offset of each step, in bytes. */
static void fill_offsets(const walk *w) {
  const layout *l = w->l;
  const gconv_layer_problem *problem = &l->problem;
  int64_t *to = w->offsets;
  for (int32_t gy = 0; gy < l->groups_y; gy++)
    for (int32_t slice = 0; slice < l->slices; slice++)
      for (int32_t gx = 0; gx < l->groups_x; gx++) { /* neighbouring taps read the same samples, which are in the L1 cache */
        const int64_t y = (int64_t)first_tap(gy, l->near_y, problem->rows) * problem->dilation_y,
                      x = (int64_t)first_tap(gx, l->near_x, problem->columns) * problem->dilation_x;
        const int64_t plane =
            plane_at(w, (int32_t)(y % problem->stride_y), (int32_t)(x % problem->stride_x), slice * l->depth);
        *to++ = (plane + y / problem->stride_y * w->c->pitch + x / problem->stride_x) * (int64_t)sizeof(uint32_t);
      }
}

/* The columns of a row of a plane, from..end - 1, that are inside the image. The first is column `x` of the image. */
typedef struct inside {
  int64_t from, end, x;
} inside;

static inside columns_inside(const walk *w, int64_t left) {
  const int64_t stride = w->l->problem.stride_x, width = w->l->problem.width;
  const int64_t count = w->columns + w->l->reach_x;
  inside i;
  left += w->first_column * stride;
  i.from = left < 0 ? gconv_clamp(gconv_divide_up(-left, stride), 0, count) : 0;
  i.end = left < width ? gconv_clamp(gconv_divide_up(width - left, stride), i.from, count) : i.from;
  i.x = left + i.from * stride;
  return i;
}

GCONV_VECTOR_LOOP(take_second, (const float *restrict row, int64_t count, float *restrict to), (row, count, to)) {
  for (int64_t i = 0; i < count; i++)
    to[i] = row[2 * i];
}

/* Copies every stride-th sample of a row. */
static void take(const float *row, int64_t stride, int64_t count, float *to) {
  if (stride == 1)
    gconv_layer_copy_row(row, to, count);
  else if (stride == 2)
    take_second(row, count, to);
  else
    for (int64_t i = 0; i < count; i++)
      to[i] = row[stride * i];
}

/* A plane of a channel: row 0 is row `top` of the image, or a row above it. */
typedef struct source {
  inside in;
  int64_t top, rows, pitch;
} source;

/* Returns the first sample of row i of a plane that is inside the image; NULL: there is none. */
static const float *row_of(const walk *w, const source *s, const float *channel, int64_t i) {
  const gconv_layer_problem *problem = &w->l->problem;
  const int64_t y = s->top + i * problem->stride_y;
  return y >= 0 && y < problem->height && s->in.end > s->in.from ? channel + y * problem->width + s->in.x : NULL;
}

/* Copies a plane, with zeros outside the image. */
static void copy_plane(const walk *w, const source *s, const float *channel, float *to) {
  for (int64_t i = 0; i < s->rows; i++, to += s->pitch) {
    const float *row = row_of(w, s, channel, i);
    const int64_t from = row ? s->in.from : s->pitch, end = row ? s->in.end : s->pitch;
    for (int64_t k = 0; k < from; k++)
      to[k] = 0;
    for (int64_t k = end; k < s->pitch; k++)
      to[k] = 0;
    if (row)
      take(row, w->l->problem.stride_x, end - from, to + from);
  }
}

/* Splits a plane of two channels, the second of which may be NULL, row by row. */
static void split_rows(walk *w, const source *s, const float *a, const float *b, uint32_t *to) {
  const int64_t part = w->c->plane;
  for (int64_t i = 0; i < s->rows; i++, to += s->pitch) {
    const float *row = row_of(w, s, a, i);
    const int64_t from = row ? s->in.from : s->pitch, end = row ? s->in.end : s->pitch;
    for (int split = 0; split < SPLITS; split++) {
      memset(to + split * part, 0, (size_t)from * sizeof *to);
      memset(to + split * part + end, 0, (size_t)(s->pitch - end) * sizeof *to);
    }
    if (row)
      w->tiny |= gconv_split_pairs(row, b ? row_of(w, s, b, i) : NULL, end - from, to + from, part);
  }
}

/* Prefetches the samples of a plane that is staged soon. */
static void fetch_plane(const walk *w, const source *s, const float *channel) {
  for (int64_t i = 0; i < s->rows; i++) {
    const float *row = row_of(w, s, channel, i);
    for (int64_t k = 0; row && k < (s->in.end - s->in.from) * w->l->problem.stride_x; k += 16)
      FETCH(row + k);
  }
}

/* Stages a plane of the channels a and b; b may be NULL. Its place for output (0, 0) has the sample in row `top` and column
 * `left` of the image. Short rows are copied first, so that vectors pass over their ends. */
static void fill_plane(walk *w, const float *a, const float *b, int64_t top, int64_t left, uint32_t *to) {
  const gconv_layer_problem *problem = &w->l->problem;
  const source s = {.in = columns_inside(w, left),
                    .top = top + (int64_t)w->first_row * problem->stride_y,
                    .rows = w->rows + w->l->reach_y,
                    .pitch = w->c->pitch};
  const int64_t ahead = 4 * gconv_layer_plane(problem);
  fetch_plane(w, &s, a + ahead);
  fetch_plane(w, &s, b ? b + ahead : a + ahead);
  if (problem->stride_x == 1 && w->columns >= LONG_ROW) {
    split_rows(w, &s, a, b, to);
    return;
  }
  copy_plane(w, &s, a, w->copies[0]);
  if (b)
    copy_plane(w, &s, b, w->copies[1]);
  w->tiny |= gconv_split_pairs(w->copies[0], b ? w->copies[1] : NULL, s.rows * s.pitch, to, w->c->plane);
}

static void fill_sheet(walk *w, const float *in, int32_t sheet_y, int32_t sheet_x) {
  const layout *l = w->l;
  const gconv_layer_problem *problem = &l->problem;
  const int64_t channel = gconv_layer_plane(problem);
  const int32_t near = l->near_y * l->near_x;
  for (int32_t i = 0; i < near; i++)
    for (int32_t u = 0; u < l->pairs; u++) {
      const float *a = in + 2 * u * channel;
      fill_plane(w, a, 2 * u + 1 < l->channels ? a + channel : NULL,
                 sheet_y + (int64_t)(i / l->near_x) * problem->dilation_y - problem->pad_top,
                 sheet_x + (int64_t)(i % l->near_x) * problem->dilation_x - problem->pad_left,
                 w->planes + plane_at(w, sheet_y, sheet_x, i * l->pairs + u));
    }
  for (int32_t u = near * l->pairs; u < l->slices * l->depth; u++)
    memset(w->planes + plane_at(w, sheet_y, sheet_x, u), 0, (size_t)(SPLITS * w->c->plane) * sizeof(uint32_t));
}

/* Returns whether samples under the filter at an output are not 0, but all below GCONV_TINY. Padding is 0. */
static bool sees_tiny(const walk *w, int64_t row, int64_t column) {
  const gconv_layer_problem *problem = &w->l->problem;
  const int64_t top = row * problem->stride_y - problem->pad_top, left = column * problem->stride_x - problem->pad_left;
  float largest = 0;
  for (int64_t c = 0; c < w->l->channels && largest < GCONV_TINY; c++)
    for (int64_t r = 0; r < problem->rows; r++)
      for (int64_t s = 0; s < problem->columns; s++) {
        const int64_t y = top + r * problem->dilation_y, x = left + s * problem->dilation_x;
        if (y >= 0 && y < problem->height && x >= 0 && x < problem->width)
          largest = fmaxf(largest, fabsf(w->in[c * gconv_layer_plane(problem) + y * problem->width + x]));
      }
  return largest > 0 && largest < GCONV_TINY;
}

/* Replaces outputs of a row by the sums of the definition where tiles fail: an infinity minus its first bfloat16 is NaN,
 * sums in between may overflow, and tiles take the parts of tiny samples for 0. Sums of tiny samples are below 2^-60. */
static void define_row(const walk *w, const float *sums, float scale, int64_t k, int64_t row, float bias,
                       const gconv_layer_bounds *bounds, float *out) {
  const gconv_layer_problem *problem = &w->l->problem;
  const float *weights = w->weights + k * gconv_layer_taps(problem);
  for (int64_t x = 0; x < w->columns; x++) {
    const int64_t y = w->first_row + row, column = w->first_column + x;
    if (isfinite(sums[x] * scale + bias) && !(w->tiny && fabsf(sums[x]) < 0x1p-60F && sees_tiny(w, y, column)))
      continue;
    const float sum = gconv_layer_sum(problem, w->in, weights, y, column) + bias,
                most = sum > bounds->high ? bounds->high : sum;
    out[x] = most < bounds->low ? bounds->low : most;
  }
}

/* Stores the sums of some filters, from filter k of the group on. `out` is the first filter's output at the task's first
 * pixel. */
static void finish(const walk *w, int64_t pitch, const float *scales, const float *biases, int64_t k, int32_t filters,
                   float *out) {
  const gconv_layer_problem *problem = &w->l->problem;
  const gconv_layer_bounds bounds = gconv_layer_bounds_of(problem);
  const int64_t plane = (int64_t)problem->out_height * problem->out_width;
  for (int32_t f = 0; f < filters; f++, out += plane) {
    for (int32_t row = 0; row < w->rows; row++) {
      const float *sums = w->sums + f * pitch + row * w->c->pitch;
      float *to = out + (int64_t)row * problem->out_width;
      if (!gconv_tiles_finish(sums, scales[f], biases[f], &bounds, w->columns, to) || w->tiny)
        define_row(w, sums, scales[f], k + f, row, biases[f], &bounds, to);
    }
    if (bounds.enough)
      continue;
    const bool whole = w->columns == problem->out_width;
    for (int32_t row = 0; row < (whole ? 1 : w->rows); row++)
      gconv_layer_activate(problem, out + (int64_t)row * problem->out_width,
                           (size_t)w->columns * (size_t)(whole ? w->rows : 1));
  }
}

static void make_filters(const walk *w, int32_t first, int32_t end, const uint8_t *weights, const float *scales,
                         const float *biases, float *out) {
  const layout *l = w->l;
  const int64_t vectors = gconv_divide_up((w->rows - 1) * w->c->pitch + w->columns, SIDE),
                block = (int64_t)l->steps * SPLITS * TILE_BYTES;
  const int64_t plane = (int64_t)l->problem.out_height * l->problem.out_width;
  for (int32_t b = first; b < end; b += TOGETHER) {
    gconv_tile_product p = {.weights = weights + b * block,
                            .samples = (const uint8_t *)w->planes,
                            .block = block,
                            .row = w->c->plane * SPLITS * (int64_t)sizeof(uint32_t),
                            .split = w->c->plane * (int64_t)sizeof(uint32_t),
                            .offsets = w->offsets,
                            .steps = l->steps,
                            .sums = w->sums,
                            .pitch = vectors * SIDE};
    gconv_tiles_multiply(&p, smaller(end - b, TOGETHER), vectors);
    finish(w, vectors * SIDE, scales + b * SIDE, biases + b * SIDE, b * SIDE,
           smaller(l->filters - b * SIDE, smaller(end - b, TOGETHER) * SIDE), out + b * SIDE * plane);
  }
}

static gconv_status execute(const gconv_layer_execution *e) {
  const layout l = layout_of(e->problem);
  const cut c = cut_of(&l);
  const gconv_layer_problem *problem = &l.problem;
  const size_t parts = (size_t)c.parts, pieces = (size_t)c.pieces, bands = (size_t)c.bands;
  const int64_t image_group = (int64_t)(e->task / parts / pieces / bands),
                group = image_group % problem->groups; /* n * G + g */
  walk w = {.l = &l, .c = &c, .offsets = e->workspace};
  w.copies[0] = (float *)e->workspace + offset_floats(&l);
  w.copies[1] = w.copies[0] + copy_floats(&c);
  w.sums = w.copies[1] + copy_floats(&c);
  w.planes = (void *)(w.sums + sums_floats(&c));
  w.first_row = (int32_t)(e->task / parts / pieces % bands) * c.rows;
  w.rows = smaller(problem->out_height - w.first_row, c.rows);
  w.first_column = (int32_t)(e->task / parts % pieces) * c.columns;
  w.columns = smaller(problem->out_width - w.first_column, c.columns);
  const int32_t first = (int32_t)(e->task % parts) * c.part_blocks;
  const float *prepared = gconv_layer_prepared(e->problem, e->weights);
  const float *in = e->in + image_group * l.channels * gconv_layer_plane(problem);
  w.in = in;
  w.weights = e->weights + group * l.filters * gconv_layer_taps(problem);
  fill_offsets(&w);
  for (int32_t y = 0; y < l.period_y; y++)
    for (int32_t x = 0; x < l.period_x; x++)
      fill_sheet(&w, in, y, x);
  gconv_tiles_begin(smaller(l.filters, SIDE), l.depth);
  make_filters(&w, first, smaller(first + c.part_blocks, l.blocks),
               (const uint8_t *)prepared + (size_t)group * group_bytes(&l),
               prepared + (size_t)problem->groups * group_bytes(&l) / sizeof(float) + group * l.filters,
               gconv_layer_biases(e->problem, e->weights) + group * l.filters,
               e->out + (image_group * l.filters * problem->out_height + w.first_row) * problem->out_width + w.first_column);
  gconv_tiles_end();
  return GCONV_OK;
}

/* ---- The descriptor ---- */

static const char *available(void) {
  return gconv_cpu_tiles() ? NULL : "this processor does not multiply tiles of bfloat16 (AMX), or $GCONV_ISA is set";
}

/* The rests that splitting leaves, 2^-26 of the weight and of the sample, and the three products that are left out, w2 x3,
 * w3 x2 and w3 x3, are together less than 2^-22. A step has 6 products. Each product rounds 17 times; one of
 * these roundings is of the whole sum. */
static double bound(const gconv_layer_problem *problem) {
  const layout l = layout_of(problem);
  const double roundings = 6 * ((double)l.steps + 17) + 1;
  return 0x1p-22 + (roundings < 0x1p22 ? roundings * 0x1p-24 / (1 - roundings * 0x1p-24) : 1);
}

/* The times of other algorithms are those of the reference CPU, which has no tiles. To compare with them, a cycle counts as
 * 25 multiply-adds. The cost does not depend on the number of threads. */
static double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  gconv_layer_problem any_threads = *problem;
  any_threads.threads = 0;
  const layout l = layout_of(&any_threads);
  const cut c = cut_of(&l);
  return gconv_layer_cpu_ms(problem, machine, task_cycles(&l, &c) * (double)tasks_of(&l, &c) * 25, 0);
}

const gconv_layer_algorithm gconv_layer_algorithm_cpu_gemm_6xbf16 = {
    .info = {"gemm-6xbf16", "cpu", "products of tiles of bfloat16 (AMX), six for each in float32", false},
    .available = available,
    .supports = gconv_layer_takes_fp32,
    .tasks = tasks,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = bound,
    .bound_of_largest = true, /* tiles lose products that are very small beside the largest */
    .prepared_floats = prepared_floats,
    .prepare = prepare,
};

/* SPDX-License-Identifier: MIT */
#include "conv/hole_sums.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "kernels/border.h"
#include "kernels/factor.h"

#include <math.h>
#include <string.h>

/* ---- Making one ------------------------------------------------------------------------------------------------------ */

/* Finds a column and a row for each filter, if every filter is their product up to the precision of float32. */
static gconv_status find_factors(gconv_hole_summer *summer) {
  const double most_residual = 0x1p-23;
  const gconv_problem *problem = &summer->pass->problem;
  size_t taps = (size_t)problem->rows * (size_t)problem->columns, pair = (size_t)(problem->rows + problem->columns);
  bool all = problem->rows > 1 && problem->columns > 1;
  GCONV_NEW(summer->factors, (size_t)problem->filters * pair, "no memory for results of no data");
  for (int32_t k = 0; k < problem->filters && all; k++) {
    gconv_structure found = {0};
    GCONV_TRY(gconv_factor(summer->pass->weights + (size_t)k * taps, problem->rows, problem->columns, 1,
                           summer->factors + (size_t)k * pair, &found));
    all = found.rank == 1 && found.residual <= most_residual;
  }
  if (!all) {
    free(summer->factors);
    summer->factors = NULL;
  }
  return GCONV_OK;
}

static void find_ends(gconv_hole_summer *summer) {
  const gconv_problem *problem = &summer->pass->problem;
  size_t taps = (size_t)problem->rows * (size_t)problem->columns;
  for (size_t k = 0; k < (size_t)problem->filters; k++) {
    double sum = 0, size = 0;
    for (size_t i = 0; i < taps; i++) {
      sum += (double)summer->pass->weights[k * taps + i];
      size += fabs((double)summer->pass->weights[k * taps + i]);
    }
    summer->ends[2 * k] = sum;
    summer->ends[2 * k + 1] = fabs(sum) == size;
  }
}

gconv_status gconv_hole_summer_make(const gconv_pass *pass, const gconv_holes *holes, const gconv_image *convolved,
                                    int32_t in_row, gconv_hole_summer *summer) {
  const gconv_problem *problem = &pass->problem;
  *summer = (gconv_hole_summer){.pass = pass, .holes = holes, .convolved = convolved, .in_row = in_row};
  summer->extent = (size_t)(problem->out_width - 1) * (size_t)problem->stride_x +
                   (size_t)(problem->columns - 1) * (size_t)problem->dilation_x + 1;
  summer->columns = malloc(summer->extent * sizeof *summer->columns);
  summer->ends = malloc((size_t)problem->filters * 2 * sizeof *summer->ends);
  GCONV_NEED_MEMORY(summer->columns && summer->ends, "no memory for results of no data");
  for (size_t i = 0; i < summer->extent; i++)
    summer->columns[i] = (int32_t)gconv_border_index(problem->border, (int64_t)i - problem->pad_left, problem->width);
  find_ends(summer);
  return find_factors(summer);
}

void gconv_hole_summer_free(gconv_hole_summer *summer) {
  free(summer->columns);
  free(summer->factors);
  free(summer->ends);
}

/* ---- Rows ------------------------------------------------------------------------------------------------------------ */

/* Three numbers for each column: the weighted sum of samples, the sum of weights, and how many samples are no data. */
typedef struct triple {
  double *value, *weight, *gone;
} triple;

static triple triple_at(double *memory, size_t length) {
  return (triple){memory, memory + length, memory + 2 * length};
}

enum { PLACES = 16 }; /* sums that are computed at a time */

static triple below_of(const gconv_hole_summer *s, double *workspace) {
  return triple_at(workspace, s->extent + PLACES * (size_t)s->pass->problem.stride_x);
}

static triple sums_of(const gconv_hole_summer *s, double *workspace) {
  const size_t length = (size_t)s->pass->problem.out_width + PLACES;
  return triple_at(below_of(s, workspace).gone + s->extent + PLACES * (size_t)s->pass->problem.stride_x, length);
}

size_t gconv_hole_workspace(const gconv_hole_summer *summer) {
  const gconv_problem *problem = &summer->pass->problem;
  return 3 * (summer->extent + PLACES * (size_t)problem->stride_x + (size_t)problem->out_width + PLACES);
}

/* A row of the image below the taps. add_typed() adds columns begin .. end - 1 of it, times `tap`, to `to`. */
typedef struct source_row {
  const void *samples; /* NULL: outside of the image */
  const uint8_t *marks;
  const int32_t *columns;
  size_t channels, channel;
  double outside;
} source_row;

GCONV_INLINE void add_typed(gconv_type type, const source_row *from, size_t begin, size_t end, double tap,
                            const triple *to) {
  for (size_t i = begin; i < end; i++) {
    int32_t x = from->columns[i];
    bool inside = from->samples && x != GCONV_OUTSIDE;
    size_t at = inside ? (size_t)x * from->channels + from->channel : 0;
    bool gone = inside && from->marks[at];
    double value = inside ? gconv_stored_at(type, from->samples, at) : from->outside;
    to->value[i] += gone ? 0 : tap * value;
    to->weight[i] += gone ? 0 : tap;
    to->gone[i] += gone;
  }
}

static void add_row(gconv_type type, const source_row *from, size_t begin, size_t end, double tap, const triple *to) {
  if (type == GCONV_U8)
    add_typed(GCONV_U8, from, begin, end, tap, to);
  else if (type == GCONV_U16)
    add_typed(GCONV_U16, from, begin, end, tap, to);
  else
    add_typed(GCONV_F32, from, begin, end, tap, to);
}

static void clear(const triple *t, size_t begin, size_t end) {
  size_t bytes = (end - begin) * sizeof(double);
  memset(t->value + begin, 0, bytes);
  memset(t->weight + begin, 0, bytes);
  memset(t->gone + begin, 0, bytes);
}

/* A row of taps, and which columns lie below it at the first place. */
typedef struct tap_row {
  const float *taps;
  size_t count, first, stride, dilation;
} tap_row;

/* Adds the columns below the taps to PLACES places from q on, in registers. Without holes, the taps are the weights. */
GCONV_INLINE void add_places(const triple *from, const tap_row *row, size_t q, size_t stride, bool holes, const triple *to) {
  double value[PLACES], weight[PLACES], gone[PLACES];
  memcpy(value, to->value + q, sizeof value);
  memcpy(weight, to->weight + q, sizeof weight);
  memcpy(gone, to->gone + q, sizeof gone);
  for (size_t c = 0; c < row->count; c++) {
    const size_t first = row->first + c * row->dilation + q * stride;
    const double tap = (double)row->taps[c];
    for (size_t i = 0; i < PLACES && tap != 0; i++) {
      const size_t at = first + i * stride;
      value[i] += tap * from->value[at];
      weight[i] += holes ? tap * from->weight[at] : tap;
      gone[i] += holes ? from->gone[at] : 0;
    }
  }
  memcpy(to->value + q, value, sizeof value);
  memcpy(to->weight + q, weight, sizeof weight);
  memcpy(to->gone + q, gone, sizeof gone);
}

/* Adds the columns below the taps to places 0 .. count - 1, and to some unused places after them. */
GCONV_VECTOR_LOOP(add_taps, (const triple *from, const tap_row *row, bool holes, size_t count, const triple *to),
                  (from, row, holes, count, to)) {
  for (size_t q = 0; q < count; q += PLACES)
    if (row->stride > 1)
      add_places(from, row, q, row->stride, holes, to);
    else if (holes)
      add_places(from, row, q, 1, true, to);
    else
      add_places(from, row, q, 1, false, to);
}

static source_row find_row(const gconv_hole_summer *s, int64_t y, size_t plane, size_t channel) {
  const gconv_problem *problem = &s->pass->problem;
  const gconv_image *in = s->convolved;
  source_row row = {.columns = s->columns,
                    .channels = in->planar ? 1 : (size_t)in->channels,
                    .channel = channel,
                    .outside = (double)problem->border_level};
  y = gconv_border_index(problem->border, y, problem->height);
  if (y == GCONV_OUTSIDE)
    return row;
  size_t at = (size_t)(y - s->in_row);
  row.samples = gconv_row_at(in, plane, y - s->in_row);
  row.marks = s->holes->marks + plane * s->holes->plane + at * s->holes->row;
  return row;
}

/* Returns whether some samples of the row are no data. */
static bool has_holes(const source_row *row, int32_t width) {
  bool any = false;
  for (size_t x = 0; row->samples && x < (size_t)width && !any; x++)
    any = row->marks[x * row->channels + row->channel];
  return any;
}

/* Computes the states and sums of places 0 .. count - 1 from the triples `of`. */
static void conclude(const triple *of, size_t count, const double *ends, double *sums, uint8_t *states) {
  for (size_t q = 0; q < count; q++) {
    bool gone = of->gone[q] > 0, mends = ends[1] != 0 && of->weight[q] != 0;
    states[q] = !gone ? GCONV_SAMPLE_WHOLE : mends ? GCONV_SAMPLE_MENDED : GCONV_SAMPLE_NO_DATA;
    sums[q] = states[q] == GCONV_SAMPLE_MENDED ? of->value[q] * (ends[0] / of->weight[q]) : of->value[q];
  }
}

void gconv_hole_sum_row(const gconv_hole_summer *s, int64_t p, size_t plane, size_t channel, int32_t begin, int32_t end,
                        double *workspace, gconv_hole_row *row) {
  const gconv_problem *problem = &s->pass->problem;
  const size_t stride = (size_t)problem->stride_x, dilation = (size_t)problem->dilation_x, count = (size_t)(end - begin);
  const size_t columns = (size_t)problem->columns;
  const size_t first = (size_t)begin * stride, last = (size_t)(end - 1) * stride + (columns - 1) * dilation + 1;
  const triple below = below_of(s, workspace), sums = sums_of(s, workspace);
  for (int32_t k = row->first; k < row->first + row->filters; k++) {
    const float *taps = s->pass->weights + (int64_t)k * problem->rows * problem->columns;
    const float *column = s->factors ? s->factors + (int64_t)k * (problem->rows + problem->columns) : NULL;
    clear(&sums, 0, count);
    clear(&below, first, last);
    for (int32_t r = 0; r < problem->rows; r++) {
      source_row from =
          find_row(s, p * problem->stride_y - problem->pad_top + (int64_t)r * problem->dilation_y, plane, channel);
      if (column && column[r] != 0)
        add_row(s->convolved->type, &from, first, last, (double)column[r], &below);
      if (column)
        continue;
      clear(&below, first, last);
      add_row(s->convolved->type, &from, first, last, 1, &below);
      const tap_row of = {taps, columns, first, stride, dilation};
      add_taps(&below, &of, has_holes(&from, s->convolved->width), count, &sums);
      taps += columns;
    }
    if (column) {
      const tap_row of = {column + problem->rows, columns, first, stride, dilation};
      add_taps(&below, &of, true, count, &sums);
    }
    size_t at = (size_t)(k - row->first) * (size_t)row->width + (size_t)begin;
    conclude(&sums, count, &s->ends[2 * (size_t)k], row->sums + at, row->states + at);
  }
}

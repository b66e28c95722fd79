/* SPDX-License-Identifier: MIT */
#include "conv/hole_sums.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "kernels/border.h"
#include "kernels/factor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Making one ------------------------------------------------------------------------------------------------------ */

/* Finds a column and a row for each filter, if all have them as exactly as float32 tells. */
static gconv_status find_factors(gconv_hole_summer *summer) {
  const double most_residual = 0x1p-23;
  const gconv_problem *problem = &summer->pass->problem;
  size_t taps = (size_t)problem->rows * (size_t)problem->columns, pair = (size_t)(problem->rows + problem->columns);
  bool all = problem->rows > 1 && problem->columns > 1;
  summer->factors = malloc((size_t)problem->filters * pair * sizeof *summer->factors);
  if (!summer->factors)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for results of no data");
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
  if (!summer->columns || !summer->ends)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for results of no data");
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

/* Three numbers a column: what is there, times its weight; its weight; and how many samples are no data. */
typedef struct triple {
  double *value, *weight, *gone;
} triple;

static triple triple_at(double *memory, size_t length) {
  return (triple){memory, memory + length, memory + 2 * length};
}

size_t gconv_hole_workspace(const gconv_hole_summer *summer) {
  return 3 * (summer->extent + (size_t)summer->pass->problem.out_width);
}

GCONV_INLINE double level(gconv_type type, const void *row, size_t i) {
  return type == GCONV_U8    ? ((const uint8_t *)row)[i]
         : type == GCONV_U16 ? ((const uint16_t *)row)[i]
                             : (double)((const float *)row)[i];
}

/* Adds the row below the taps to columns begin .. end - 1 of `to`, times `tap`. */
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
    double value = inside ? level(type, from->samples, at) : from->outside;
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

/* Adds the columns below a tap to places 0 .. count - 1. */
GCONV_INLINE void add_tap_body(const triple *from, size_t first, size_t step, double tap, size_t count, const triple *to) {
  const double *value = from->value + first, *weight = from->weight + first, *gone = from->gone + first;
  double *to_value = to->value, *to_weight = to->weight, *to_gone = to->gone;
  for (size_t q = 0; q < count && step == 1; q++) {
    to_value[q] += tap * value[q];
    to_weight[q] += tap * weight[q];
    to_gone[q] += gone[q];
  }
  for (size_t q = 0; q < count && step != 1; q++) {
    to_value[q] += tap * value[q * step];
    to_weight[q] += tap * weight[q * step];
    to_gone[q] += gone[q * step];
  }
}
GCONV_VECTORIZED(add_tap, (const triple *from, size_t first, size_t step, double tap, size_t count, const triple *to),
                 (from, first, step, tap, count, to))

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
  row.samples = (const uint8_t *)in->data + plane * in->plane_bytes + at * in->row_bytes;
  row.marks = s->holes->marks + plane * s->holes->plane + at * s->holes->row;
  return row;
}

/* The states and sums of places 0 .. count - 1, of which all is added up. */
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
  const size_t first = (size_t)begin * stride,
               last = (size_t)(end - 1) * stride + (size_t)(problem->columns - 1) * dilation + 1;
  const triple below = triple_at(workspace, s->extent),
               sums = triple_at(workspace + 3 * s->extent, (size_t)problem->out_width);
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
      for (int32_t c = 0; c < problem->columns; c++, taps++)
        if (*taps != 0)
          add_tap(&below, first + (size_t)c * dilation, stride, (double)*taps, count, &sums);
    }
    for (int32_t c = 0; c < problem->columns && column; c++)
      if (column[problem->rows + c] != 0)
        add_tap(&below, first + (size_t)c * dilation, stride, (double)column[problem->rows + c], count, &sums);
    size_t at = (size_t)(k - row->first) * (size_t)row->width + (size_t)begin;
    conclude(&sums, count, &s->ends[2 * (size_t)k], row->sums + at, row->states + at);
  }
}

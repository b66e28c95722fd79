/* SPDX-License-Identifier: MIT */
/*
 * box: means and sums over a rectangle of any size, whose taps are all the same, by running sums of integers.
 *
 * The sum of the R samples under the filter is kept for each column of the image. From one output row to the next, the
 * samples of one input row enter these sums, and samples of another row leave. Along the row, a running sum of S columns
 * does the same: one column enters, one leaves. So an output costs two additions and two subtractions, whatever R and S are.
 *
 *     columns[x] += row below[x] - row above[x]
 *     sum[x] = sum[x - 1] + columns[x + S - 1] - columns[x - 1]
 *
 * Integers do not drift: a sum is exact, wherever a thread began. It is rounded to float32, multiplied by the tap, and
 * stored as all sums are (rows.h). The bits differ from those of the exact family, whose chain of additions rounds more
 * often. box_float.c computes sums of floats, and sums of more than 32 bits.
 */
#include "base/cpu.h"
#include "base/memory.h"
#include "kernels/cpu/box_along.h"
#include "kernels/cpu/box_float.h"
#include "kernels/cpu/rows.h"
#include "kernels/factor.h"
#include "tile.h"

#include <math.h>
#include <string.h>

enum {
  FRONT = 16,   /* zeros before the first column, which "leave" at the first sum */
  SLACK = 64,   /* columns and sums that vectors read and write beyond the last one */
  PIECE = 3072, /* the most samples that are summed and stored at a time; PIECE / 2 is whole pixels and whole vectors */
  NEAR = 16384, /* if the sums of all columns have at most so many bytes, they stay in L1 from row to row */
};

/* ---- Columns ---- */

/* The sums of all columns for the current output row, and facts about the problem. If `narrow`, sums have 16 bits. */
typedef struct box_columns {
  const gconv_execution *execution;
  gconv_span span; /* pixels from the first tap of the first output to the last tap of the last */
  bool narrow;
  void *sums;        /* the sum of each sample of the span: uint16_t if narrow, else uint32_t */
  uint8_t *constant; /* a row of the border's constant, as wide as the image */
  uint32_t outside;  /* the sum of a column outside of the image, where the border is a constant */
  bool levels;       /* the epilogue only rounds: a level is sum * tap, rounded */
  bool copies;       /* each column outside of the image is constant, or a copy of a column of the span inside the image */
  int64_t left_end;  /* if copies: the end, in samples of the span, of the columns that are copied to the left border */
} box_columns;

/* Returns whether the sums of columns fit into 16 bits. */
static bool is_narrow(const gconv_problem *problem) {
  return problem->in_type == GCONV_U8 && problem->rows * 255 <= UINT16_MAX;
}

#define MOVE(from, to)                                                                                                      \
  do {                                                                                                                      \
    if (leaving)                                                                                                            \
      for (size_t i = 0; i < count; i++)                                                                                    \
        ((to *)columns)[i] = (to)(((to *)columns)[i] + ((const from *)entering)[i] - ((const from *)leaving)[i]);           \
    else                                                                                                                    \
      for (size_t i = 0; i < count; i++)                                                                                    \
        ((to *)columns)[i] = (to)(((to *)columns)[i] + ((const from *)entering)[i]);                                        \
  } while (0)
/* Adds the samples of the row `entering` to the sums, and subtracts the samples of `leaving`, unless it is NULL. */
GCONV_VECTOR_LOOP(move,
                  (gconv_type type, bool narrow, const void *restrict entering, const void *restrict leaving, size_t count,
                   void *restrict columns),
                  (type, narrow, entering, leaving, count, columns)) {
  if (narrow)
    MOVE(uint8_t, uint16_t);
  else if (type == GCONV_U8)
    MOVE(uint8_t, uint32_t);
  else
    MOVE(uint16_t, uint32_t);
}
#undef MOVE

/* Returns the samples of row y, which may be outside the image. */
static const uint8_t *row_at(const box_columns *b, int64_t y) {
  y = gconv_border_index(b->execution->problem->border, y, b->execution->problem->height);
  return y == GCONV_OUTSIDE ? b->constant : gconv_input_row(b->execution, y);
}

static void *sums_at(const box_columns *b, int64_t sample) {
  return (uint8_t *)b->sums + sample * (b->narrow ? 2 : 4);
}

/* Moves the sums of samples first .. end - 1 of the span, which are inside the image. */
static void move_inside(const box_columns *b, const uint8_t *entering, const uint8_t *leaving, int64_t first, int64_t end) {
  const gconv_problem *problem = b->execution->problem;
  const int64_t at = (first + b->span.first * problem->channels) * (int64_t)gconv_type_bytes(problem->in_type);
  if (first < end)
    move(problem->in_type, b->narrow, entering + at, leaving ? leaving + at : NULL, (size_t)(end - first),
         sums_at(b, first));
}

/* Moves the sums of pixels first .. end - 1 of the span, which are outside of the image. Constant ones do not change. */
static void move_outside(const box_columns *b, const uint8_t *entering, const uint8_t *leaving, int64_t first, int64_t end) {
  const gconv_problem *problem = b->execution->problem;
  const size_t channels = (size_t)problem->channels, pixel = channels * gconv_type_bytes(problem->in_type);
  for (int64_t i = first; i < end; i++)
    if (b->span.columns[i] != GCONV_OUTSIDE) {
      const size_t at = (size_t)b->span.columns[i] * pixel;
      move(problem->in_type, b->narrow, entering + at, leaving ? leaving + at : NULL, channels,
           sums_at(b, i * (int64_t)channels));
    }
}

/* Copies the sums of pixels first .. end - 1 of the span, which are outside of the image, from pixels inside. */
static void copy_outside(const box_columns *b, int64_t first, int64_t end) {
  const int64_t channels = b->execution->problem->channels;
  for (int64_t i = first; i < end; i++)
    if (b->span.columns[i] != GCONV_OUTSIDE)
      memcpy(sums_at(b, i * channels), sums_at(b, (b->span.columns[i] - b->span.first) * channels),
             (size_t)channels * (b->narrow ? 2 : 4));
}

/* Sets `copies` and `left_end`. */
static void find_copies(box_columns *b) {
  b->copies = true;
  for (int64_t i = 0; i < b->span.count; i++) {
    if (i == b->span.left)
      i = b->span.right;
    const int64_t from = i < b->span.count ? b->span.columns[i] : GCONV_OUTSIDE, place = from - b->span.first;
    if (from == GCONV_OUTSIDE)
      continue;
    b->copies = b->copies && place >= b->span.left && place < b->span.right;
    if (i < b->span.left && (place + 1) * b->execution->problem->channels > b->left_end)
      b->left_end = (place + 1) * b->execution->problem->channels;
  }
}

/* Moves all columns outside of the image, unless they are copies. */
static void move_borders(const box_columns *b, const uint8_t *entering, const uint8_t *leaving) {
  if (b->copies)
    return;
  move_outside(b, entering, leaving, 0, b->span.left);
  move_outside(b, entering, leaving, b->span.right, b->span.count);
}

/* Computes all columns for the first output row. */
static void begin_columns(const box_columns *b) {
  const gconv_problem *problem = b->execution->problem;
  const int64_t channels = problem->channels, top = (int64_t)b->execution->first_row - problem->pad_top;
  for (int64_t i = 0; i < b->span.count * channels; i++) {
    const int64_t pixel = i / channels;
    const bool inside = pixel >= b->span.left && pixel < b->span.right;
    const uint32_t sum = inside || b->span.columns[pixel] != GCONV_OUTSIDE ? 0 : b->outside;
    if (b->narrow)
      ((uint16_t *)b->sums)[i] = (uint16_t)sum;
    else
      ((uint32_t *)b->sums)[i] = sum;
  }
  for (int64_t r = 0; r < problem->rows; r++) {
    const uint8_t *entering = row_at(b, top + r);
    move_inside(b, entering, NULL, b->span.left * channels, b->span.right * channels);
    move_borders(b, entering, NULL);
  }
  if (b->copies) {
    copy_outside(b, 0, b->span.left);
    copy_outside(b, b->span.right, b->span.count);
  }
}

/* Returns whether runs can write levels: this takes AVX-512, and sums times the tap that are not near 2^31. */
static bool can_round(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const double most = (double)gconv_white(problem->in_type) * problem->rows * problem->columns * execution->weights[0];
  return gconv_cpu_isa() == GCONV_ISA_AVX512 && fabs(most) < 0x1p30 && gconv_only_rounds(execution);
}

/* Prefetches samples first .. end - 1 of the span from a row, as far as they are inside the image. */
static void prefetch(const box_columns *b, const uint8_t *row, int64_t first, int64_t end) {
  const int64_t bytes = (int64_t)gconv_type_bytes(b->execution->problem->in_type),
                channels = b->execution->problem->channels;
  end = end < b->span.right * channels ? end : b->span.right * channels;
  for (int64_t at = first * bytes; at < end * bytes; at += 64)
    __builtin_prefetch(row + b->span.first * channels * bytes + at);
}

/* Computes and stores output row p. Moves columns shortly before they enter the sums. If `entering` is NULL, columns have
 * been moved already. */
static void make_row(const box_columns *b, int32_t p, const uint8_t *entering, const uint8_t *leaving, float *sums) {
  const gconv_problem *problem = b->execution->problem;
  const int64_t channels = problem->channels, far = (problem->columns - 1) * channels;
  const int64_t count = problem->out_width * channels, end = b->span.right * channels;
  const bool near = (uint8_t *)sums_at(b, count) - (uint8_t *)sums_at(b, 0) <= NEAR;
  const int64_t piece = near ? PIECE : PIECE / 2;
  int64_t moved = entering ? b->span.left * channels : end;
  box_run run = {.narrow = b->narrow,
                 .levels = b->levels,
                 .type = problem->out_type,
                 .S = (size_t)problem->columns,
                 .tap = b->execution->weights[0]};
  for (int64_t first = 0; first < count; first += piece) {
    const int64_t some = count - first < piece ? count - first : piece, last = far + first + some;
    const int64_t needed = first == 0 && b->left_end > last ? b->left_end : last;
    if (moved < end && moved < needed) {
      if (!near) {
        prefetch(b, entering, needed, needed + piece);
        prefetch(b, leaving, needed, needed + piece);
      }
      move_inside(b, entering, leaving, moved, needed < end ? needed : end);
      moved = needed;
      if (b->copies && first == 0)
        copy_outside(b, 0, b->span.left);
      if (b->copies && moved >= end)
        copy_outside(b, b->span.right, b->span.count);
    }
    if (first == 0)
      begin_run(&run, b->sums, (size_t)channels, (size_t)far);
    run.entering = sums_at(b, far + first);
    run.leaving = sums_at(b, first - channels);
    void *to = sums;
    if (b->levels)
      to = gconv_output_row(b->execution, 0, p) + (size_t)first * gconv_type_bytes(problem->out_type);
    run_along(&run, problem->channels, (size_t)some, to);
    if (!b->levels)
      gconv_store_samples(b->execution, p, (size_t)first, (size_t)some, sums, PIECE);
  }
}

/* ---- The descriptor ---- */

static size_t constant_bytes(const gconv_problem *problem) {
  return gconv_round_up((size_t)problem->width * (size_t)problem->channels * gconv_type_bytes(problem->in_type), 64);
}
static size_t column_floats(const gconv_problem *problem) {
  return gconv_round_up(FRONT + (size_t)gconv_reach(problem) * (size_t)problem->channels + SLACK, 16);
}

/* Returns whether sums may not fit into integers of 32 bits. */
static bool is_float(const gconv_problem *problem) {
  return problem->in_type == GCONV_F32 || (double)gconv_white(problem->in_type) * problem->rows * problem->columns >= 0x1p32;
}

/* Returns the bytes of columns, sums of a piece, places of border columns, and a row of the constant. */
static size_t workspace_bytes(const gconv_problem *problem) {
  if (is_float(problem))
    return gconv_box_float_workspace(problem);
  size_t words = column_floats(problem) + PIECE + SLACK;
  return words * sizeof(float) + (size_t)gconv_reach(problem) * sizeof(int64_t) + constant_bytes(problem);
}

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  if (is_float(problem)) {
    gconv_box_float(execution);
    return GCONV_OK;
  }
  uint32_t *columns = execution->workspace;
  float *sums = (float *)(void *)columns + column_floats(problem);
  int64_t *places = (int64_t *)(void *)(sums + PIECE + SLACK);
  box_columns b = {.execution = execution,
                   .narrow = is_narrow(problem),
                   .sums = columns + FRONT,
                   .outside = (uint32_t)problem->border_level * (uint32_t)problem->rows,
                   .levels = can_round(execution)};
  b.span = gconv_span_of(problem, -problem->pad_left, gconv_reach(problem), places);
  b.constant = (uint8_t *)(places + b.span.count);
  find_copies(&b);
  memset(columns, 0, FRONT * sizeof *columns);
  gconv_fill_outside(problem, b.constant);
  begin_columns(&b);
  make_row(&b, execution->first_row, NULL, NULL, sums);
  for (int32_t p = execution->first_row + 1; p < execution->end_row; p++) {
    const int64_t top = (int64_t)p - problem->pad_top;
    const uint8_t *entering = row_at(&b, top + problem->rows - 1), *leaving = row_at(&b, top - 1);
    move_borders(&b, entering, leaving);
    make_row(&b, p, entering, leaving, sums);
  }
  return GCONV_OK;
}

static const char *supports(const gconv_problem *problem) {
  if (problem->structure.box == 0)
    return "filters whose taps are not all the same";
  if (problem->stride_x != 1 || problem->stride_y != 1 || problem->dilation_x != 1 || problem->dilation_y != 1)
    return "strides and dilations";
  if (problem->in_type != GCONV_F32 &&
      !(problem->border_level >= 0 && problem->border_level <= gconv_white(problem->in_type) &&
        rintf(problem->border_level) == problem->border_level))
    return "a border that is no level";
  return NULL;
}

/* The sum is rounded to float32, and so is its product with the tap, unless both are integers up to 2^24. */
static double error_bound(const gconv_problem *problem) {
  if (gconv_sums_are_exact(problem, &problem->structure.integers, 1))
    return 0;
  return is_float(problem) ? gconv_box_float_bound(problem) : gconv_rounding_bound(2);
}

static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const double sample = is_float(problem)              ? gconv_box_float_ns(problem)
                        : problem->in_type == GCONV_U8 ? 0.28
                                                       : 0.48; /* ns */
  double rows = (double)problem->images * problem->planes * problem->out_height;
  double samples = rows * (double)problem->out_width * problem->channels;
  return gconv_cpu_ms(problem, machine, samples * sample * 1e-6, ceil(rows / problem->rows));
}

const gconv_algorithm gconv_algorithm_cpu_box = {
    .info = {"box", "cpu", "running sums, for means and sums over a rectangle of any size", false},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
};

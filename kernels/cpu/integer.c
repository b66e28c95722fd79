/* SPDX-License-Identifier: MIT */
/*
 * integer: u8 images and filters of small integers (Sobel, Laplacian, binomials), in 16-bit arithmetic.
 *
 * Taps are integers times a power of two. Sums of bytes times such taps are exact in float32, so that sums of integers give
 * the same bits (problem.h). Here an instruction multiplies two neighbouring bytes by two taps and adds the products, for as
 * many outputs as a vector has words of 16 bits. Outputs at even and at odd places have a vector each:
 *
 *     bytes of a row, from a tap on       a0 a1  a2 a3  a4 a5 ..
 *     times, for outputs 0, 2, 4 ..       t1 t2  t1 t2  t1 t2 ..  ->  sums of 16 bits
 *     times, for outputs 1, 3, 5 ..       t0 t1  t0 t1  t0 t1 ..  ->  sums of 16 bits
 *
 * So such a unit of one load has up to three taps of grey images. Neighbouring taps of RGB are not on neighbouring bytes:
 * there, each tap is a unit, t 0 and 0 t. Taps that are 0 are left out. For the same outputs, the algorithm direct needs two
 * multiply-adds of float32 vectors a tap, and it converts samples to floats and back.
 *
 * Sums wrap around modulo 2^16. They begin at `low`, the amount by which they can fall below 0. So the complete sum is in 0
 * .. 65535 if the absolute values of all taps sum up to no more than 257. A sum of two products saturates at 32767. So
 * neither the positive nor the negative taps of a pair sum up to more than 128.
 *
 * A larger filter that is a column times a row goes in two steps: the sums along each row are kept, 16 bits each, and are
 * then added down the columns:
 *
 *     input row  ->  sums along it  ->  a ring of such rows  ->  sums down the columns
 *
 * The two steps need no other bounds: the final sum is right modulo 2^16, whatever wraps around in between.
 *
 * If the column is 1 c 1, as in Sobel and binomials of 3 x 3, the sums along a row stay in registers: the next rows of
 * results need them, too. So SHARED rows of results are made at a time, from SHARED + 2 input rows.
 *
 * Three kinds of results stay integers. First, results of u8 and i16 that need no more than a division by a power of two,
 * |y| and rounding. Second, results of the range "wrap" that need no more than a division by an integer. Third, means: sums
 * n of taps that are not negative, whose levels are n times a factor below 1, rounded. That product is computed in integers
 * if this is right for every possible n (find_quotient). Then taps may even be integers times any number, such as 1/9, whose
 * sums are not exact in float32. All other results become float32, and are stored as all sums are (rows.h).
 */
#include "base/memory.h"
#include "integer_filter.h"

#include <string.h>

enum {
  SLACK = 128, /* bytes that vectors read beyond the end of a row */
  PIECE = 512, /* samples whose sums are kept at a time, about */
  PIECES = 8,  /* without floats, about PIECES * PIECE bytes of results are computed at a time */
  SHARED = 4,  /* the most rows of results that are made at a time */
};

/* ---- Execution ---- */

/* The arguments of the sums of one filter. */
typedef struct integer_sum {
  const uint8_t **sources; /* one for each unit: where its bytes begin, for the current output row */
  integer_taps *taps;
  size_t count;
  bool down;      /* sources are rows of sums, one for each tap; the taps are `even` */
  uint16_t low;   /* by how much the sums are too large */
  uint16_t begin; /* the number with which sums begin: `low`, and what rounding adds */
  float unit;     /* for sums that become floats */
  int shift;      /* levels are sum / 2^shift, rounded, computed without floats; -1: floats are needed */
  bool absolute;
  /* With `wrap`, levels are the low bits of sum * factor / 2^16 / 2^shift, cut to an integer. If the factor is 0, they are
   * the low bits of the sum. */
  bool wrap;
  uint16_t factor, half; /* without `wrap`: of an integer_quotient, or 0 */
  bool shared;           /* rows share sums: where the rows lie from the sources on, and the tap of the middle one */
  int16_t middle;
  size_t distance[SHARED + 2];
} integer_sum;

/* What becomes of sums: levels of u8; of 16 bits (int16, or u16 of the range "wrap"); floats; a row of the ring. */
typedef enum integer_kind { AS_LEVELS, AS_WORDS, AS_FLOATS, AS_ROW } integer_kind;

/* Calls a function of the template. It gets usual counts of units or rows as constants, so that compilers unroll its loop.
 */
#define BY_COUNT(function, sum, ...)                                                                                        \
  ((sum)->down && (sum)->count == 3   ? function(sum, true, 3, __VA_ARGS__)                                                 \
   : (sum)->down && (sum)->count == 5 ? function(sum, true, 5, __VA_ARGS__)                                                 \
   : (sum)->down                      ? function(sum, true, (sum)->count, __VA_ARGS__)                                      \
   : (sum)->count == 1                ? function(sum, false, 1, __VA_ARGS__)                                                \
   : (sum)->count == 2                ? function(sum, false, 2, __VA_ARGS__)                                                \
   : (sum)->count == 3                ? function(sum, false, 3, __VA_ARGS__)                                                \
   : (sum)->count == 4                ? function(sum, false, 4, __VA_ARGS__)                                                \
   : (sum)->count == 5                ? function(sum, false, 5, __VA_ARGS__)                                                \
   : (sum)->count == 6                ? function(sum, false, 6, __VA_ARGS__)                                                \
   : (sum)->count == 9                ? function(sum, false, 9, __VA_ARGS__)                                                \
                                      : function(sum, false, (sum)->count, __VA_ARGS__))
enum { MOST_FEW = 9 };

typedef struct integer_few {
  const uint8_t *sources[MOST_FEW];
  integer_taps taps[MOST_FEW];
} integer_few;

/* Returns a copy of a sum, with its sources and taps in *few if they are few. So the compiler knows that stores of results
 * do not change them. */
static inline integer_sum copy_of(const integer_sum *sum, const size_t count, integer_few *few) {
  integer_sum copy = *sum;
  if (count > MOST_FEW)
    return copy;
  memcpy(few->sources, sum->sources, count * sizeof *few->sources);
  memcpy(few->taps, sum->taps, count * sizeof *few->taps);
  copy.sources = few->sources;
  copy.taps = few->taps;
  return copy;
}

#define TEMPLATE "integer_template.h"
#include "each_isa.h"

/* Sizes, and where the parts of the workspace begin. At 0 is a ring of input rows with their borders. In two steps, the ring
 * has sums along input rows, and `line` is one input row. For each filter follow its sums of a piece, and an integer_sum
 * with its sources and taps. The columns of a span come last. */
typedef struct places {
  size_t row, ring_rows, shared, piece, stride, units; /* bytes; rows, of a group of results; pixels, floats of a piece */
  size_t line, sums, filters, sources, taps, columns, end;
} places;

static places places_of(const gconv_problem *problem) {
  size_t filters = (size_t)problem->filters, unit = 128, shared = may_share(problem) ? SHARED : 1;
  places at = {.ring_rows = (size_t)(problem->rows - 1) * (size_t)problem->dilation_y + shared,
               .shared = shared,
               .piece = PIECE / (size_t)problem->channels / unit * unit,
               .stride = PIECE,
               .units = (filter_bytes(problem) - sizeof(integer_filter)) / sizeof(integer_unit)};
  /* An odd number of cache lines: rows at a distance of a power of two would use the same lines of L1. */
  const size_t line = gconv_round_up((size_t)gconv_reach(problem) * (size_t)problem->channels + SLACK, 64) | 64;
  const size_t samples = (size_t)problem->out_width * (size_t)problem->channels;
  at.row = goes_in_two(problem) ? gconv_round_up(samples * sizeof(uint16_t) + SLACK * sizeof(uint16_t), 64) | 64 : line;
  at.line = at.ring_rows * at.row;
  at.sums = at.line + (goes_in_two(problem) ? line : 0);
  at.filters = at.sums + filters * shared * at.stride * sizeof(float);
  at.sources = at.filters + gconv_round_up(filters * sizeof(integer_sum), GCONV_ALIGNMENT);
  at.taps = at.sources + filters * at.units * sizeof(uint8_t *);
  at.columns = gconv_round_up(at.taps + filters * at.units * sizeof(integer_taps), GCONV_ALIGNMENT);
  at.end = at.columns + (size_t)gconv_reach(problem) * sizeof(int64_t);
  return at;
}

typedef struct walk {
  const gconv_execution *execution;
  places at;
  uint8_t *ring;
  float *sums;
  integer_sum *filters;
  bool levels;       /* no filter needs floats */
  bool two;          /* in two steps; filters[0] is the step down the columns */
  integer_sum along; /* the step along rows */
  int32_t count;     /* rows of results that are made at a time */
} walk;

/* Returns the shift by which sums of filter k become levels of u8 or i16. Returns -1 if a shift is not enough, or if the
 * largest sum plus half a level would not fit into 16 bits. */
static int shift_of_filter(const gconv_execution *execution, int32_t k, const integer_filter *filter) {
  int exponent;
  float divisor = gconv_divisors(execution->problem, execution->weights)[k];
  bool exact = frexpf(divisor, &exponent) == 0.5f && only_scales(execution, k);
  const int shift = exact ? shift_of(filter->unit * execution->problem->epilogue.scale / divisor) : -1;
  return shift > 0 && filter->low + filter->most + (1 << (shift - 1)) > UINT16_MAX ? -1 : shift;
}

static void begin_filters(walk *w, uint8_t *memory) {
  const gconv_problem *problem = w->execution->problem;
  w->levels = true;
  for (int32_t k = 0; k < problem->filters; k++) {
    const integer_filter *filter = filter_at(w->execution, k);
    integer_sum *sum = &w->filters[k];
    *sum = (integer_sum){.sources = (void *)(memory + w->at.sources + (size_t)k * w->at.units * sizeof(uint8_t *)),
                         .taps = (void *)(memory + w->at.taps + (size_t)k * w->at.units * sizeof(integer_taps)),
                         .count = (size_t)filter->count,
                         .low = (uint16_t)filter->low,
                         .unit = filter->unit,
                         .shared = filter->shares,
                         .middle = filter->middle,
                         .shift = shift_of_filter(w->execution, k, filter),
                         .absolute = problem->epilogue.absolute};
    if (problem->epilogue.wrap) {
      sum->wrap = true;
      sum->shift = find_wrap(w->execution, k, filter->unit, filter->low, filter->most, &sum->factor);
    } else if (sum->shift < 0 && filter->quotient.factor > 0 && gconv_is_dense(w->execution)) {
      sum->factor = filter->quotient.factor;
      sum->half = filter->quotient.half;
      sum->shift = filter->quotient.shift;
    }
    w->levels = w->levels && sum->shift >= 0;
    sum->begin = sum->low;
    if (problem->out_type == GCONV_U8 && sum->shift > 0 && !sum->absolute && !sum->wrap && sum->factor == 0)
      sum->begin = (uint16_t)(sum->low + (1 << (sum->shift - 1)) - 1);
    for (int32_t i = 0; i < filter->count; i++)
      sum->taps[i] = units_in(filter)[i].taps;
  }
}

/* Divides a filter of two steps: its first units become the step along rows, the others the step down the columns. The
 * sources along rows never change, as each input row is loaded to the same place. */
static void begin_steps(walk *w) {
  const integer_filter *filter = filter_at(w->execution, 0);
  const integer_unit *units = units_in(filter);
  integer_sum *down = &w->filters[0];
  w->along = *down;
  w->along.begin = 0;
  for (int32_t i = 0; i < filter->count; i++)
    w->along.sources[i] = w->ring + w->at.line + (size_t)units[i].column * step_of(w->execution->problem);
  down->down = true;
  down->sources += filter->count;
  down->taps += filter->count;
  down->count = (size_t)filter->down;
  for (int32_t i = 0; i < filter->down; i++)
    down->taps[i] = units[filter->count + i].taps;
}

/* Points the sources of all filters to the rows under an output row, of which the first is in slot `begin` of the ring. If
 * rows share sums, finds how far the slots are from the beginning of the ring, to which the sources then point. */
static void find_sources(walk *w, size_t begin) {
  const gconv_problem *problem = w->execution->problem;
  for (int32_t k = 0; k < problem->filters; k++) {
    const integer_filter *filter = filter_at(w->execution, k);
    const integer_unit *units = units_in(filter) + (w->two ? filter->count : 0);
    for (size_t i = 0; i < w->filters[k].count; i++) {
      size_t slot = filter->shares ? 0 : begin + (size_t)units[i].row * (size_t)problem->dilation_y;
      slot = slot < w->at.ring_rows ? slot : slot - w->at.ring_rows;
      w->filters[k].sources[i] = w->ring + slot * w->at.row + (size_t)units[i].column * step_of(problem);
    }
    for (size_t r = 0; filter->shares && r < w->at.ring_rows; r++)
      w->filters[k].distance[r] = (begin + r) % w->at.ring_rows * w->at.row;
  }
}

/* Fills a slot of the ring from row y of the image. */
static void load_row(walk *w, int64_t y, const gconv_span *span, size_t slot) {
  const gconv_problem *problem = w->execution->problem;
  uint8_t *to = w->ring + slot * w->at.row;
  gconv_load_bytes(w->execution, y, span, w->two ? w->ring + w->at.line : to);
  if (w->two)
    GCONV_CALL_ISA(make, (&w->along, AS_ROW, 0, (size_t)problem->out_width * (size_t)problem->channels, (void *[]){to}));
}

/* Makes a piece of w->count output rows from row p on: `count` samples from sample `first` on. */
static void make_piece(walk *w, int32_t p, size_t first, size_t count) {
  const gconv_execution *execution = w->execution;
  const gconv_problem *problem = execution->problem;
  const integer_kind kind = !w->levels ? AS_FLOATS : problem->out_type == GCONV_U8 ? AS_LEVELS : AS_WORDS;
  void *rows[SHARED]; /* those that nobody wants go to where floats go */
  for (int32_t k = 0; k < problem->filters; k++) {
    for (int32_t r = 0; r < (int32_t)w->at.shared; r++)
      rows[r] = w->levels && r < w->count
                    ? (void *)(gconv_output_row(execution, k, p + r) + first * gconv_type_bytes(problem->out_type))
                    : w->sums + (size_t)(k + r) * w->at.stride;
    GCONV_CALL_ISA(make, (&w->filters[k], kind, first, count, rows));
    for (int32_t r = 0; w->levels && problem->keep_alpha && r < w->count; r++)
      if (k == 0 || problem->epilogue.combine == GCONV_COMBINE_NONE)
        gconv_store_alpha(execution, k, p + r, first, count);
  }
  for (int32_t r = 0; !w->levels && r < w->count; r++)
    gconv_store_samples(execution, p + r, first, count, w->sums + (size_t)r * w->at.stride, w->at.stride);
}

static void make_rows(walk *w, int32_t p) {
  const gconv_problem *problem = w->execution->problem;
  const size_t pieces = w->levels ? PIECES / gconv_type_bytes(problem->out_type) / w->at.shared : 1;
  const int64_t width = problem->out_width, piece = (int64_t)(w->at.piece * pieces);
  const size_t channels = (size_t)problem->channels;
  for (int64_t first = 0; first < width; first += piece) {
    const int64_t count = width - first < piece ? width - first : piece;
    for (int32_t r = 0; r < w->count; r++) {
      gconv_expect_store(w->execution, p + r, first, count);
      gconv_expect_load(w->execution, (int64_t)p + r - problem->pad_top + (int64_t)w->at.ring_rows,
                        first - problem->pad_left + problem->anchor_x, count);
    }
    make_piece(w, p, (size_t)first * channels, (size_t)count * channels);
  }
}

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  uint8_t *memory = execution->workspace;
  walk w = {.execution = execution, .at = places_of(problem), .ring = memory, .two = goes_in_two(problem)};
  w.sums = (void *)(memory + w.at.sums);
  w.filters = (void *)(memory + w.at.filters);
  begin_filters(&w, memory);
  if (w.two)
    begin_steps(&w);
  const gconv_span span =
      gconv_span_of(problem, -(int64_t)problem->pad_left, gconv_reach(problem), (void *)(memory + w.at.columns));
  uint8_t *past = memory + (w.two ? w.at.line : 0) + (size_t)gconv_reach(problem) * (size_t)problem->channels;
  for (size_t row = 0; row < (w.two ? 1 : w.at.ring_rows); row++)
    past[row * w.at.row] = 0; /* the last byte's neighbour has a tap of 0: any value would do, but memcheck wants one */
  const int64_t begin = execution->first_row, ring = (int64_t)w.at.ring_rows;
  int64_t loaded = begin; /* rows before this one have been in the ring */
  for (int32_t p = execution->first_row; p < execution->end_row; p += w.count) {
    w.count = !w.filters[0].shared ? 1 : execution->end_row - p < SHARED ? execution->end_row - p : SHARED;
    for (; loaded < p + ring - (int64_t)w.at.shared + w.count; loaded++)
      load_row(&w, loaded - problem->pad_top, &span, (size_t)((loaded - begin) % ring));
    find_sources(&w, (size_t)((p - begin) % ring));
    make_rows(&w, p);
  }
  return GCONV_OK;
}

/* ---- The descriptor ---- */

static size_t workspace_bytes(const gconv_problem *problem) {
  return places_of(problem).end;
}

static const char *supports(const gconv_problem *problem) {
  const gconv_integers *integers = &problem->structure.integers;
  if (problem->in_type != GCONV_U8)
    return "samples other than u8";
  if (problem->stride_y != 1 || problem->stride_x != 1)
    return "strides";
  if (problem->border_level != rintf(problem->border_level) || problem->border_level < 0 || problem->border_level > 255)
    return "the constant border is no level of the input";
  if (integers->unit == 0 && problem->structure.step > 0 &&
      quotient_of(problem, (double)problem->structure.step, problem->structure.steps, 1).factor > 0)
    return workspace_bytes(problem) > ((size_t)1 << 31) ? "its rows would exceed 2 GiB a thread" : NULL;
  if (!gconv_is_of_bytes(integers) || integers->positive + integers->negative > MOST_WEIGHT)
    return "taps that are not small integers times a power of two, or whose integers add up to more than 257";
  return workspace_bytes(problem) > ((size_t)1 << 31) ? "its rows would exceed 2 GiB a thread" : NULL;
}

/* load, store and pair are nanoseconds of the reference CPU (tile.c): to move a sample, to compute a level, and for two
 * taps. They were measured against direct on a machine with AVX2. CPUs without AVX2 have vectors of half the width, and take
 * three times as long. */
static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const double load = 0.06, store = 0.1, pair = 0.013, slower = gconv_cpu_fuses() ? 1 : 3;
  const double rows = (double)problem->images * problem->planes * problem->out_height;
  const double filter = store + pair / 8 * (goes_in_two(problem) ? cost_of_two(problem) : cost_of_one(problem));
  const double thread_ms = rows * problem->out_width * problem->channels * (load + problem->filters * filter) * 1e-6;
  return gconv_cpu_ms(problem, machine, slower * thread_ms, rows);
}

const gconv_algorithm gconv_algorithm_cpu_integer = {
    .info = {"integer", "cpu", "small integers as taps on u8: sums of 16 bits", true},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
};

/* SPDX-License-Identifier: MIT */
/*
 * box, floats: sums over a rectangle of any size, without a subtraction.
 *
 * A running sum of floats from which samples are subtracted drifts, and a NaN never leaves it. Here, each sum is made of the
 * samples under the filter alone, and costs about the same for any size.
 *
 * Columns. Output rows are taken in blocks of B rows; R = m B + r with r < B. The rows under output row i of block k are
 *
 *     rows kB + i ... (k+1)B + r - 1      `front`: sums from the end of these rows upwards, made once a block
 *     m - 1 groups of B rows              `middle`: the same rows for all of the block
 *     rows kB + R ... kB + R + i - 1      `entered`: one more row for each output row
 *
 * So a sample of an output row takes four additions. The B rows that entered during a block are a group of later blocks. The
 * sum of n = m - 1 groups is made in the same way, on a larger scale: groups are taken n at a time. When n groups are
 * complete, each is replaced by the sum of itself and the groups after it. From then on, `since` adds up the groups that
 * follow. The `middle` of a block is one of the replaced groups plus `since`.
 *
 * Samples are multiplied by the tap as they are added, so that sums of large samples do not overflow. The sums of groups are
 * float64. All others are float32, in chains of at most B + r additions. The border continues the sums of the columns as it
 * would continue the image.
 *
 * Rows. The sum of S neighbours is made by doubling: with w[x] the sum of k neighbours from x on,
 *
 *     2 k:      w[x] + w[x + k]
 *     2 k + 1:  w[x] + w[x + k] + v[x + 2 k]
 *
 * So S neighbours take log2 S steps, and an output depends only on the samples under the filter.
 */
#include "kernels/cpu/box_float.h"
#include "kernels/cpu/rows.h"

#include <math.h>
#include <string.h>

enum {
  LEAST_BLOCK = 8, /* output rows of a block, unless the filter has fewer rows */
  MOST_BLOCK = 12,
  CHUNK = 64,   /* a multiple of the samples whose sums are in registers */
  COPIED = 128, /* samples of a row that are copied at a time where chunks cannot read the image: a multiple of CHUNK */
  SLACK = 64,   /* floats that are read and written beyond the last one */
  PIECE = 3072, /* samples of an output row that are made at a time, at least: whole pixels and vectors */
};

/* ---- Sizes ---- */

typedef struct sizes {
  int64_t B, m, r; /* rows of a block; R = m B + r */
  int64_t groups;  /* m - 1 */
  int64_t C, S;
  int64_t width; /* samples of a row of sums, a multiple of COPIED */
  int64_t row;   /* floats of a row of the columns' sums, with border pixels */
  int64_t piece; /* samples of an output row that are made at a time */
} sizes;

/* Chooses B so that (r + 3) / B is small: `front` has r = R % B rows more than the block. */
static int64_t block_of(int64_t R) {
  int64_t best = LEAST_BLOCK;
  if (R <= LEAST_BLOCK)
    return R;
  for (int64_t B = best + 1; B <= R && B <= MOST_BLOCK; B++)
    if ((R % B + 3) * best < (R % best + 3) * B)
      best = B;
  return best;
}

static sizes sizes_of(const gconv_problem *problem) {
  sizes z = {.B = block_of(problem->rows), .C = problem->channels, .S = problem->columns};
  const int64_t outputs = problem->out_width * z.C, halo = (z.S - 1) * z.C;
  z.m = problem->rows / z.B;
  z.r = problem->rows % z.B;
  z.groups = z.m - 1;
  z.width = (int64_t)gconv_round_up((size_t)(problem->width * z.C), COPIED);
  /* from the first column of the image or of the span to the last */
  z.row = (problem->width + gconv_reach(problem) + (int64_t)fabs((double)problem->pad_left)) * z.C + COPIED + SLACK;
  z.piece = (int64_t)gconv_round_up((size_t)(2 * halo), PIECE);
  z.piece = z.piece < PIECE ? PIECE : z.piece;
  z.piece = z.piece < outputs ? z.piece : outputs;
  return z;
}

static size_t line_count(const sizes *z) {
  return (size_t)(2 * z->B + z->r);
}

/* ---- The state of a strip ---- */

/* A block, as the loops of box_float_template.h need it. */
typedef struct box_block {
  const float *const *front, *const *entering; /* B + r rows, of which the first `from` are not read; `enter` rows */
  int64_t B, r, from, to, enter;               /* output rows from .. to - 1 are made */
  float tap;
  const float *middle; /* for each sample: the sum of the groups; NULL: there are none */
  float *entered;      /* for each sample: takes the sum of all rows that enter; NULL: it is not needed */
  float *out;          /* B rows, `row` apart */
  int64_t row;
} box_block;

typedef struct strip {
  const gconv_execution *execution;
  sizes z;
  gconv_span span;
  int64_t low, high;           /* columns of the image that are summed: low .. high - 1 */
  const uint8_t **lines;       /* rows of the image: `front`, then `entering` */
  const float **copied;        /* such rows in `copies` */
  double *groups, *since;      /* n rows: the sums of groups; the sums of the groups since the last multiple of n */
  float *middle, *entered;     /* a row each */
  float *copies, *rows, *sums; /* `rows`: the sums of columns; column span.first is at rows */
  uint8_t *constant;           /* a row of the border's constant */
} strip;

size_t gconv_box_float_workspace(const gconv_problem *problem) {
  const sizes z = sizes_of(problem);
  size_t bytes = ((size_t)z.groups + 2) * (size_t)z.width * sizeof(double) + 2 * line_count(&z) * sizeof(void *);
  bytes += (line_count(&z) * COPIED + (size_t)(z.B * z.row) + (size_t)(z.piece + z.S * z.C) + SLACK) * sizeof(float);
  bytes += (size_t)gconv_reach(problem) * sizeof(int64_t);
  return bytes + (size_t)(problem->width * z.C) * gconv_type_bytes(problem->in_type) + 64;
}

/* Finds the columns of the image that pixels of the span need. */
static void find_columns(strip *s) {
  s->low = s->span.first + s->span.left;
  s->high = s->span.first + s->span.right;
  for (int64_t i = 0; i < s->span.count; i++) {
    const bool inside = i >= s->span.left && i < s->span.right;
    const int64_t column = inside ? s->span.first + i : s->span.columns[i];
    if (column == GCONV_OUTSIDE)
      continue;
    s->low = s->low == s->high ? column : column < s->low ? column : s->low;
    s->high = column >= s->high ? column + 1 : s->high;
  }
}

static strip strip_of(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  strip s = {.execution = execution, .z = sizes_of(problem), .groups = execution->workspace};
  const size_t lines = line_count(&s.z);
  s.since = s.groups + s.z.groups * s.z.width;
  s.middle = (float *)(void *)(s.since + s.z.width);
  s.entered = s.middle + s.z.width;
  int64_t *columns = (int64_t *)(void *)(s.entered + s.z.width);
  s.lines = (const uint8_t **)(void *)(columns + gconv_reach(problem));
  s.copied = (const float **)(void *)(s.lines + lines);
  s.copies = (float *)(void *)(s.copied + lines);
  s.sums = s.copies + lines * COPIED;
  s.rows = s.sums + s.z.piece + s.z.S * s.z.C + SLACK;
  s.constant = (uint8_t *)(s.rows + s.z.B * s.z.row);
  s.span = gconv_span_of(problem, -problem->pad_left, gconv_reach(problem), columns);
  find_columns(&s);
  if (s.low < s.span.first && s.low < s.high)
    s.rows += (s.span.first - s.low) * s.z.C;
  for (size_t i = 0; i < lines; i++)
    s.copied[i] = s.copies + i * COPIED;
  gconv_fill_outside(problem, s.constant);
  return s;
}

/* ---- Columns ---- */

#define TEMPLATE "kernels/cpu/box_float_template.h"
#include "kernels/cpu/each_isa.h"

/* Sums up the n groups before a block: the groups up to a multiple of n, and the groups since then. */
GCONV_VECTOR_LOOP(add_groups, (const double *until, const double *since, int64_t width, float *middle),
                  (until, since, width, middle)) {
  if (since)
    for (int64_t i = 0; i < width; i++)
      middle[i] = (float)(until[i] + since[i]);
  else
    for (int64_t i = 0; i < width; i++)
      middle[i] = (float)until[i];
}

GCONV_VECTOR_LOOP(keep_group, (const float *entered, bool is_first, int64_t width, double *group, double *since),
                  (entered, is_first, width, group, since)) {
  for (int64_t i = 0; i < width; i++) {
    group[i] = (double)entered[i];
    since[i] = is_first ? group[i] : since[i] + group[i];
  }
}

/* Replaces each of n groups by the sum of itself and the groups after it. */
GCONV_VECTOR_LOOP(sum_groups, (double *groups, int64_t first, int64_t n, int64_t width), (groups, first, n, width)) {
  for (int64_t g = n - 2; g >= first; g--)
    for (int64_t i = 0; i < width; i++)
      groups[g * width + i] += groups[(g + 1) * width + i];
}

/* Returns the samples of row y, counted from the first row under output row 0. */
static const uint8_t *line_at(const strip *s, int64_t y) {
  const gconv_problem *problem = s->execution->problem;
  y = gconv_border_index(problem->border, y - problem->pad_top, problem->height);
  return y == GCONV_OUTSIDE ? s->constant : gconv_input_row(s->execution, y);
}

/* Prefetches a row that enters during the next block. */
static void expect_line(const strip *s, int64_t y) {
  gconv_expect_load(s->execution, y - s->execution->problem->pad_top, s->low, s->high - s->low);
}

/* Copies samples x .. x + count - 1 of the rows begin .. end - 1, as float32. */
static void copy_lines(const strip *s, int64_t begin, int64_t end, int64_t x, int64_t count) {
  const gconv_type type = s->execution->problem->in_type;
  for (int64_t i = begin; i < end; i++) {
    float *to = s->copies + i * COPIED;
    for (int64_t k = 0; k < COPIED; k++)
      to[k] = k < count ? gconv_level_at(type, s->lines[i], x + k) : 0;
  }
}

/* Makes the sums of all columns for a block, whose rows are s->lines. */
static void sum_block(const strip *s, box_block *b) {
  const int64_t first = s->low * s->z.C, end = s->high * s->z.C, fronts = b->B + b->r;
  const bool is_float = s->execution->problem->in_type == GCONV_F32;
  const int64_t direct = is_float ? (end - first) / CHUNK * CHUNK : 0;
  b->front = (const float *const *)(const void *)s->lines;
  b->entering = b->front + fronts;
  GCONV_CALL_ISA(box_chunks, (b, first, 0, direct));
  b->front = s->copied;
  b->entering = b->front + fronts;
  for (int64_t x = first + direct; x < end; x += COPIED) {
    const int64_t count = end - x < COPIED ? end - x : COPIED;
    copy_lines(s, b->from, fronts, x, count);
    copy_lines(s, fronts, fronts + b->enter, x, count);
    GCONV_CALL_ISA(box_chunks, (b, 0, x - first, count));
  }
}

/* Computes the sums of all columns for output rows from .. to - 1 of block k. If `from` is B + r, computes no row, only the
 * group. goes_on: another block follows. */
static void make_block(const strip *s, int64_t k, int64_t from, int64_t to, bool goes_on) {
  const sizes *z = &s->z;
  const int64_t n = z->groups, place = n > 0 ? (k + n) % n : 0, fronts = z->B + z->r; /* k >= -n */
  double *group = s->groups + place * z->width; /* sums of block k - n, and of all blocks up to the next multiple of n */
  const bool keeps = n > 0 && goes_on;
  box_block b = {.B = z->B, .r = z->r, .from = from, .to = to, .tap = s->execution->weights[0], .row = z->row};
  b.enter = keeps ? to : to - 1;
  b.out = s->rows + (s->low - s->span.first) * z->C;
  b.middle = n > 0 && from < z->B ? s->middle : NULL;
  b.entered = keeps ? s->entered : NULL;
  for (int64_t i = from; i < fronts; i++)
    s->lines[i] = line_at(s, k * z->B + i);
  for (int64_t i = 0; i < b.enter; i++)
    s->lines[fronts + i] = line_at(s, k * z->B + z->m * z->B + z->r + i);
  if (b.middle)
    add_groups(group, place > 0 ? s->since : NULL, z->width, s->middle);
  sum_block(s, &b);
  if (keeps)
    keep_group(s->entered, place == 0, z->width, group, s->since);
}

/* Computes the groups of the n blocks before block k, which would exist if the strip had begun earlier. */
static void begin_groups(const strip *s, int64_t k) {
  const int64_t n = s->z.groups;
  memset(s->since, 0, (size_t)s->z.width * sizeof *s->since);
  for (int64_t before = k - n; before < k; before++) {
    make_block(s, before, s->z.B + s->z.r, s->z.B, true);
    if ((before + n) % n == n - 1)
      sum_groups(s->groups, n - 1 - (before - (k - n)), n, s->z.width); /* earlier groups were not computed */
  }
}

/* ---- Rows ---- */

/* Sets the border pixels of a row of the columns' sums. */
static void fill_border(const strip *s, float *row) {
  const gconv_problem *problem = s->execution->problem;
  const int64_t C = s->z.C, constant = GCONV_OUTSIDE;
  const float outside = (float)((double)problem->border_level * problem->rows * (double)s->execution->weights[0]);
  for (int64_t i = 0; i < s->span.count; i++) {
    if (i == s->span.left)
      i = s->span.right;
    if (i >= s->span.count)
      return;
    const int64_t column = s->span.columns[i];
    for (int64_t c = 0; c < C; c++)
      row[i * C + c] = column == constant ? outside : row[(column - s->span.first) * C + c];
  }
}

/* Sets s->sums[x] to the sum of the S neighbours from row[x] on, for each x < count. */
static void sum_neighbours(const strip *s, const float *row, int64_t count) {
  const int64_t S = s->z.S, C = s->z.C;
  const float *from = row;
  int bit = 0;
  while (S >> (bit + 1) > 0)
    bit++;
  if (bit == 0)
    memcpy(s->sums, row, (size_t)count * sizeof *row);
  for (int64_t k = 1; bit > 0; from = s->sums) {
    const int64_t next = S >> --bit;
    GCONV_CALL_ISA(box_double, (from, k * C, next % 2 == 1 ? row + 2 * k * C : NULL, count + (S - next) * C, s->sums));
    k = next;
  }
}

static void store_row(const strip *s, int32_t p, float *row) {
  const int64_t outputs = s->execution->problem->out_width * s->z.C;
  fill_border(s, row);
  for (int64_t first = 0; first < outputs; first += s->z.piece) {
    const int64_t count = outputs - first < s->z.piece ? outputs - first : s->z.piece;
    gconv_expect_store(s->execution, p, first / s->z.C, count / s->z.C);
    sum_neighbours(s, row + first, count);
    gconv_store_samples(s->execution, p, (size_t)first, (size_t)count, s->sums, (size_t)s->z.piece);
  }
}

/* ---- The descriptor's functions ---- */

void gconv_box_float(const gconv_execution *execution) {
  const strip s = strip_of(execution);
  const int64_t B = s.z.B, first = execution->first_row, end = execution->end_row;
  begin_groups(&s, first / B);
  for (int64_t k = first / B; k * B < end; k++) {
    const int64_t from = k * B < first ? first - k * B : 0, to = end - k * B < B ? end - k * B : B;
    make_block(&s, k, from, to, k * B + B < end);
    for (int64_t i = from; i < to; i++) {
      if (k * B + B + i < end)
        expect_line(&s, k * B + B + i + execution->problem->rows - 1);
      store_row(&s, (int32_t)(k * B + i), s.rows + i * s.z.row);
    }
    if (s.z.groups > 0 && k % s.z.groups == s.z.groups - 1)
      sum_groups(s.groups, 0, s.z.groups, s.z.width);
  }
}

/* A sum of a column adds three parts, which are chains of up to B + r additions. A sum along a row is rounded whenever the
 * number of its neighbours doubles or grows by one. */
double gconv_box_float_bound(const gconv_problem *problem) {
  const sizes z = sizes_of(problem);
  const double chain = (double)(z.B + z.r) * (gconv_cpu_fuses() ? 1 : 2), along = 2 * floor(log2((double)z.S));
  return gconv_rounding_bound(chain + 3 + along) + (double)z.m * 0x1p-52;
}

double gconv_box_float_ns(const gconv_problem *problem) {
  return 0.55 + 0.11 * floor(log2((double)problem->columns));
}

/* SPDX-License-Identifier: MIT */
/* The structure of filters: pairs of columns and rows, integers, zeros.
 *
 * Pairs are found by crosses instead of singular vectors. A matrix minus column_j * row_i / a_ij has zeros in row i and
 * column j, and its rank is one less (Wedderburn 1934). Taking the largest entry as a_ij keeps entries from growing
 * (Gaussian elimination with complete pivoting). The residual is computed, not estimated. And integers may stay integers;
 * singular vectors are not made of integers. */
#include "kernels/factor.h"
#include "base/memory.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The most reads of entries to find pairs, some tenths of a second: each pair reads all entries. But LEAST_PAIRS pairs are
 * always looked for: without them, a Gaussian of thousands of pixels would take millions of taps. Gaussians, boxes and
 * products are one pair, an unsharp mask and a difference of Gaussians two, a Laplacian of a Gaussian three. */
static const double MAX_WORK = 1e8;
enum { LEAST_PAIRS = 3 };

/* A residual of 0 says that pairs are of integers. Those of others are at least this, however well they fit. */
static const double LEAST_RESIDUAL = 0x1p-53;

typedef struct matrix {
  double *values;
  int32_t rows, columns;
} matrix;

/* A cross: a row and a column of the matrix a. The pivot is the entry that both share. Subtracting the cross leaves
 * a - column * row / pivot. */
typedef struct cross {
  int32_t row, column;
  double divisor; /* divisor of the row; the column is divided by pivot / divisor */
} cross;

static double *at(const matrix *m, int32_t r, int32_t s) {
  return &m->values[(size_t)r * (size_t)m->columns + (size_t)s];
}

static double sum_of_magnitudes(const matrix *m) {
  double sum = 0;
  for (size_t i = 0; i < (size_t)m->rows * (size_t)m->columns; i++)
    sum += fabs(m->values[i]);
  return sum;
}

/* Returns whether all entries are integers so small that float32 and float64 certainly hold their sums. */
static bool is_integer(const matrix *m) {
  for (size_t i = 0; i < (size_t)m->rows * (size_t)m->columns; i++)
    if (fabs(m->values[i]) > 0x1p23 || m->values[i] != rint(m->values[i]))
      return false;
  return true;
}

/* Returns the greatest common divisor of integers that pass is_integer(); 0 if both are 0. */
static int32_t greatest_divisor(int32_t a, int32_t b) {
  while (b != 0) {
    int32_t rest = a % b;
    a = b;
    b = rest;
  }
  return a < 0 ? -a : a;
}

static int32_t divisor_of_row(const matrix *m, int32_t row) {
  int32_t divisor = 0;
  for (int32_t s = 0; s < m->columns && divisor != 1; s++)
    divisor = greatest_divisor((int32_t)*at(m, row, s), divisor);
  return divisor;
}

/* The outer loop is over rows, because the entries of a row are neighbours in memory. */
static void find_divisors_of_columns(const matrix *m, int32_t *divisors) {
  memset(divisors, 0, (size_t)m->columns * sizeof *divisors);
  for (int32_t r = 0; r < m->rows; r++)
    for (int32_t s = 0; s < m->columns; s++)
      if (divisors[s] != 1)
        divisors[s] = greatest_divisor((int32_t)*at(m, r, s), divisors[s]);
}

/* Finds a cross of integers: the row divided by its greatest common divisor d, and the column divided by pivot / d. If the
 * rank is 1, there always is one. `divisors` has room for the greatest common divisor of each column: with these divisors,
 * each entry is read only a few times. */
static bool find_integer_cross(const matrix *m, int32_t *divisors, cross *found) {
  find_divisors_of_columns(m, divisors);
  for (int32_t r = 0; r < m->rows; r++) {
    int32_t divisor = divisor_of_row(m, r);
    for (int32_t s = 0; s < m->columns && divisor != 0; s++) {
      int32_t entry = (int32_t)*at(m, r, s);
      if (entry == 0 || divisors[s] % (entry / divisor) != 0)
        continue;
      *found = (cross){r, s, (double)divisor};
      return true;
    }
  }
  return false;
}

/* Finds the cross of the largest entry. Column and row each get its square root as divisor, so that neither overflows. */
static cross find_largest(const matrix *m) {
  cross found = {0, 0, 0};
  double largest = 0;
  for (int32_t r = 0; r < m->rows; r++)
    for (int32_t s = 0; s < m->columns; s++)
      if (fabs(*at(m, r, s)) > largest) {
        largest = fabs(*at(m, r, s));
        found = (cross){r, s, sqrt(largest)};
      }
  return found;
}

/* Writes the pair of a cross as float32, and subtracts the product of the rounded pair from the matrix. */
static void take_away(const matrix *m, const cross *c, float *column, float *row) {
  double pivot = *at(m, c->row, c->column) / c->divisor;
  for (int32_t r = 0; r < m->rows; r++)
    column[r] = (float)(*at(m, r, c->column) / pivot);
  for (int32_t s = 0; s < m->columns; s++)
    row[s] = (float)(*at(m, c->row, s) / c->divisor);
  for (int32_t r = 0; r < m->rows; r++)
    for (int32_t s = 0; s < m->columns; s++)
      *at(m, r, s) -= (double)column[r] * (double)row[s];
}

static double size_of_pair(const matrix *m, const float *column, const float *row) {
  double columns = 0, rows = 0;
  for (int32_t r = 0; r < m->rows; r++)
    columns += fabs((double)column[r]);
  for (int32_t s = 0; s < m->columns; s++)
    rows += fabs((double)row[s]);
  return columns * rows;
}

static void fill(matrix *m, const float *taps) {
  for (size_t i = 0; i < (size_t)m->rows * (size_t)m->columns; i++)
    m->values[i] = (double)taps[i];
}

/* Subtracts crosses until the residual is small, or `most` are done. `scratch` has room for a pair, and `divisors` for one
 * number a column. */
static void find_pairs(matrix *m, int32_t most, bool integer, float *pairs, float *scratch, int32_t *divisors,
                       gconv_structure *structure) {
  double all = sum_of_magnitudes(m), size = 0, rest = all;
  double enough = integer ? 0 : GCONV_FACTOR_TOLERANCE * all;
  int32_t rank = 0;
  for (; rest > enough && rank < most; rank++) {
    cross c = find_largest(m);
    if (integer && !find_integer_cross(m, divisors, &c))
      break;
    float *column = pairs ? pairs + (size_t)rank * (size_t)(m->rows + m->columns) : scratch, *row = column + m->rows;
    take_away(m, &c, column, row);
    size += size_of_pair(m, column, row);
    rest = sum_of_magnitudes(m);
    if (integer && !is_integer(m)) /* entries have grown too large */
      break;
  }
  structure->rank = rest <= enough ? rank : GCONV_RANK_HIGH;
  structure->residual = all > 0 && !integer ? fmax(rest / all, LEAST_RESIDUAL) : 0;
  structure->growth = all > 0 ? size / all : 1;
}

/* Finds out whether a filter is one pair, as Gaussians and boxes are, in two passes over the taps and without a matrix,
 * which takes twice the memory of the taps. The pair, which is written to `pair`, is the one that find_pairs() finds. */
static bool is_one_pair(const float *taps, int32_t rows, int32_t columns, float *pair, gconv_structure *structure) {
  const size_t count = (size_t)rows * (size_t)columns;
  size_t peak = 0;
  double all = 0, rest = 0, down = 0, across = 0;
  for (size_t i = 0; i < count; i++) {
    all += fabs((double)taps[i]);
    peak = fabsf(taps[i]) > fabsf(taps[peak]) ? i : peak;
  }
  if (taps[peak] == 0)
    return false;
  const double divisor = sqrt(fabs((double)taps[peak])), pivot = (double)taps[peak] / divisor;
  const size_t peak_row = peak / (size_t)columns, peak_column = peak % (size_t)columns;
  float *column = pair, *row = pair + rows;
  for (size_t s = 0; s < (size_t)columns; s++) {
    row[s] = (float)((double)taps[peak_row * (size_t)columns + s] / divisor);
    across += fabs((double)row[s]);
  }
  for (size_t r = 0; r < (size_t)rows && rest <= GCONV_FACTOR_TOLERANCE * all; r++) {
    column[r] = (float)((double)taps[r * (size_t)columns + peak_column] / pivot);
    down += fabs((double)column[r]);
    for (size_t s = 0; s < (size_t)columns; s++)
      rest += fabs((double)taps[r * (size_t)columns + s] - (double)column[r] * (double)row[s]);
  }
  structure->rank = 1;
  structure->residual = fmax(rest / all, LEAST_RESIDUAL);
  structure->growth = down * across / all;
  return rest <= GCONV_FACTOR_TOLERANCE * all;
}

static bool are_integers(const float *taps, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (fabsf(taps[i]) > 0x1p23f || taps[i] != rintf(taps[i]))
      return false;
  return true;
}

gconv_status gconv_factor(const float *taps, int32_t rows, int32_t columns, int32_t most, float *pairs,
                          gconv_structure *structure) {
  const size_t count = (size_t)rows * (size_t)columns, pair = (size_t)rows + (size_t)columns;
  void *memory = NULL;
  GCONV_TRY(gconv_allocate(pair * sizeof(float) + (size_t)columns * sizeof(int32_t), "a pair of factors", &memory));
  int32_t *divisors = memory;
  float *scratch = (float *)memory + columns;
  const bool integer = are_integers(taps, count);
  if (!integer && most > 0 && is_one_pair(taps, rows, columns, pairs ? pairs : scratch, structure)) {
    gconv_release(memory);
    return GCONV_OK;
  }
  void *values = NULL;
  gconv_status status =
      gconv_allocate(gconv_checked_product(2, (size_t[]){count, sizeof(double)}), "the factors of a filter", &values);
  if (status == GCONV_OK) {
    matrix m = {values, rows, columns};
    fill(&m, taps);
    find_pairs(&m, most, integer, pairs, scratch, divisors, structure);
    if (integer && structure->rank == GCONV_RANK_HIGH) {
      fill(&m, taps);
      find_pairs(&m, most, false, pairs, scratch, divisors, structure);
    }
    gconv_release(values);
  }
  gconv_release(memory);
  return status;
}

static size_t pair_floats(const gconv_problem *problem) {
  return (size_t)problem->rows + (size_t)problem->columns;
}

size_t gconv_factor_floats(const gconv_problem *problem) {
  return (size_t)problem->filters * (size_t)problem->structure.rank * pair_floats(problem);
}

/* Writes the factors of one filter. gconv_factor() writes it pair by pair; `pairs` has room for the pairs of a filter. */
static gconv_status factor_filter(const gconv_problem *problem, const float *taps, float *pairs, float *factors) {
  size_t R = (size_t)problem->rows, S = (size_t)problem->columns, rank = (size_t)problem->structure.rank;
  float *columns = factors, *rows = factors + rank * R;
  gconv_structure structure;
  memset(pairs, 0, rank * pair_floats(problem) * sizeof(float));
  GCONV_TRY(gconv_factor(taps, problem->rows, problem->columns, problem->structure.rank, pairs, &structure));
  for (size_t i = 0; i < rank; i++) {
    memcpy(columns + i * R, pairs + i * (R + S), R * sizeof(float));
    memcpy(rows + i * S, pairs + i * (R + S) + R, S * sizeof(float));
  }
  return GCONV_OK;
}

gconv_status gconv_factor_filters(const gconv_problem *problem, const float *taps, float *factors) {
  size_t floats = (size_t)problem->structure.rank * pair_floats(problem);
  size_t plane = (size_t)problem->rows * (size_t)problem->columns;
  GCONV_FREED void *pairs = NULL;
  GCONV_TRY(gconv_allocate(floats * sizeof(float), "the factors of a filter", &pairs));
  for (size_t k = 0; k < (size_t)problem->filters; k++)
    GCONV_TRY(factor_filter(problem, taps + k * plane, pairs, factors + k * floats));
  return GCONV_OK;
}

/* ---- Integers ---- */

/* Units are from 2^-64 to 2^64, so that all products and sums are in the range of float32. */
enum { FARTHEST_UNIT = 64 };

/* Returns the exponent of the lowest bit of a finite number other than 0. */
static int lowest_bit(float tap) {
  uint32_t bits;
  memcpy(&bits, &tap, sizeof bits);
  uint32_t exponent = bits >> 23 & 0xff, fraction = bits & 0x7fffff;
  return exponent > 0 ? (int)exponent - 150 + __builtin_ctz(fraction | 0x800000) : __builtin_ctz(fraction) - 149;
}

gconv_integers gconv_find_integers(const float *taps, int64_t count) {
  const gconv_integers none = {.unit = 0};
  int lowest = FARTHEST_UNIT + 1;
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(taps[i])) {
      return none;
    } else if (taps[i] != 0) {
      int bit = lowest_bit(taps[i]);
      lowest = bit < lowest ? bit : lowest;
    }
  if (lowest > FARTHEST_UNIT)
    lowest = 0;
  gconv_integers found = {.unit = ldexpf(1, lowest)};
  const double inverse = ldexp(1, -lowest);
  for (int64_t i = 0; i < count; i++) {
    double integer = (double)taps[i] * inverse;
    if (lowest < -FARTHEST_UNIT || (found.positive + found.negative + fabs(integer)) * 255 >= 0x1p24)
      return none;
    *(integer > 0 ? &found.positive : &found.negative) += (int32_t)fabs(integer);
    found.least = integer < found.least ? (int32_t)integer : found.least;
    found.largest = integer > found.largest ? (int32_t)integer : found.largest;
  }
  return found;
}

/* Widens the bounds of some filters by the bounds of one more filter. */
static void add_integers(gconv_integers *all, const gconv_integers *one) {
  all->unit = fminf(all->unit, one->unit);
  all->least = one->least < all->least ? one->least : all->least;
  all->largest = one->largest > all->largest ? one->largest : all->largest;
  all->positive = one->positive > all->positive ? one->positive : all->positive;
  all->negative = one->negative > all->negative ? one->negative : all->negative;
}

/* Finds the step of a single filter, if it has one (problem.h). */
static void find_step(const gconv_problem *problem, const float *taps, gconv_structure *structure) {
  const int64_t count = (int64_t)problem->rows * problem->columns;
  float least = INFINITY;
  double sum = 0;
  if (problem->filters != 1 || gconv_divisors(problem, taps)[0] != 1 || gconv_biases(problem, taps)[0] != 0)
    return;
  for (int64_t i = 0; i < count; i++)
    least = taps[i] > 0 && taps[i] < least ? taps[i] : least;
  if (!(least > FLT_MIN && least < INFINITY))
    return;
  for (int64_t i = 0; i < count; i++) {
    float integer = rintf(taps[i] / least);
    if (!(integer >= 0 && integer <= 127) ||
        fabs((double)integer * (double)least - (double)taps[i]) > 0x1p-23 * (double)taps[i])
      return;
    sum += (double)integer;
  }
  if (sum * 255 >= 0x1p24)
    return;
  structure->step = least;
  structure->steps = (int32_t)sum;
}

/* ---- Sums ---- */

/* Returns the largest error of sum = fmaf(tap, x, sum) over the taps, relative to (sum |tap|) * max |x|. A step rounds a sum
 * that is at most the sum of |tap| so far and the error so far, so it adds at most 2^-24 of that. It never adds more than
 * |tap|: the sum before it is a float, too, and is at most |tap| away. So the bound is at most 1 for any number of taps. */
static double error_of_chain(const float *taps, int64_t count) {
  double sum = 0, error = 0;
  for (int64_t i = 0; i < count; i++) {
    double tap = fabs((double)taps[i]);
    sum += tap;
    error += fmin((sum + error) * 0x1p-24, tap);
  }
  return sum > 0 ? error / sum * (1 + 0x1p-20) : 0; /* the factor is for the roundings of this loop */
}

bool gconv_sums_are_exact(const gconv_problem *problem, const gconv_integers *integers, double growth) {
  const double positive = integers->positive, negative = integers->negative;
  const double level = fmax((double)gconv_white(problem->in_type), fabs((double)problem->border_level));
  const double most = growth > 1 || problem->border_level < 0 ? growth * (positive + negative) : fmax(positive, negative);
  return problem->in_type != GCONV_F32 && integers->unit > 0 && problem->border_level == rintf(problem->border_level) &&
         most * level < 0x1p24;
}

static void find_sums(const gconv_problem *problem, const float *weights, gconv_structure *structure) {
  int64_t plane = (int64_t)problem->rows * problem->columns;
  bool exact = gconv_sums_are_exact(problem, &structure->integers, 1);
  for (int64_t k = 0; k < problem->filters; k++) {
    double sum = 0;
    for (int64_t i = 0; i < plane; i++)
      sum += fabs((double)weights[k * plane + i]);
    structure->gain = fmax(structure->gain, sum / fabs((double)gconv_divisors(problem, weights)[k]));
    if (!exact)
      structure->chain = fmax(structure->chain, error_of_chain(weights + k * plane, plane));
  }
}

/* Returns the value of all taps, if there is one filter and its taps are equal; else 0. */
static float find_box(const gconv_problem *problem, const float *taps) {
  bool same = problem->filters == 1 && isfinite(taps[0]);
  for (int64_t i = 1; i < gconv_tap_count(problem) && same; i++)
    same = taps[i] == taps[0];
  return same ? taps[0] : 0;
}

/* ---- All filters ---- */

/* Returns the most pairs that can save anything: r * (R + S) < R * S. */
static int32_t most_pairs(int32_t rows, int32_t columns) {
  return (int32_t)(((int64_t)rows * columns - 1) / ((int64_t)rows + columns));
}

/* Returns how many pairs to look for: `most`, or fewer if the filters are large. */
static int32_t pairs_to_find(const gconv_problem *problem, int32_t most) {
  double affordable = fmax(MAX_WORK / (double)gconv_tap_count(problem) - 1, LEAST_PAIRS);
  return affordable < most ? (int32_t)affordable : most;
}

static gconv_status find_rank(const gconv_problem *problem, const float *taps, gconv_structure *all) {
  int64_t plane = (int64_t)problem->rows * problem->columns;
  int32_t most = most_pairs(problem->rows, problem->columns), looked_for = pairs_to_find(problem, most);
  for (int32_t k = 0; k < problem->filters && all->rank != GCONV_RANK_HIGH; k++) {
    gconv_structure one;
    GCONV_TRY(gconv_factor(taps + k * plane, problem->rows, problem->columns, looked_for, NULL, &one));
    all->rank = one.rank == GCONV_RANK_HIGH || one.rank > all->rank ? one.rank : all->rank;
    all->residual = fmax(all->residual, one.residual);
    all->growth = fmax(all->growth, one.growth);
  }
  if (all->rank == GCONV_RANK_HIGH && looked_for < most)
    all->rank = GCONV_RANK_UNKNOWN;
  return GCONV_OK;
}

const char *gconv_factor_obstacle(const gconv_problem *problem) {
  return problem->structure.rank == GCONV_RANK_HIGH
             ? "the rank of the filter is so high that columns and rows would take more taps"
         : problem->structure.rank == GCONV_RANK_UNKNOWN
             ? "the filter is no sum of few columns times rows; so large a filter is not searched for more of them"
             : NULL;
}

gconv_status gconv_find_structure(const gconv_problem *problem, const float *taps, gconv_structure *structure) {
  int64_t plane = (int64_t)problem->rows * problem->columns;
  gconv_structure all = {.growth = 1, .integers = gconv_find_integers(taps, plane)};
  for (int32_t k = 1; k < problem->filters && all.integers.unit > 0; k++) {
    gconv_integers one = gconv_find_integers(taps + k * plane, plane);
    add_integers(&all.integers, &one);
  }
  if (all.integers.unit == 0)
    find_step(problem, taps, &all);
  for (int64_t i = 0; i < gconv_tap_count(problem); i++)
    if (taps[i] != 0)
      all.nonzero_taps++;
    else
      all.marks += gconv_is_mark(taps[i]);
  find_sums(problem, taps, &all);
  GCONV_TRY(find_rank(problem, taps, &all));
  all.box = find_box(problem, taps);
  *structure = all;
  return GCONV_OK;
}

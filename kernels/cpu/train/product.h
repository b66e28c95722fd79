/* SPDX-License-Identifier: MIT */
/*
 * The two matrix products of training. Their tiles keep their sums in registers:
 *
 *   gather: out[i][m] = sum over r of a[r][i] * b[offsets[r] + m]      outputs of a layer, and gradients of its inputs
 *   outer:  sums[i][k] (+)= sum over m of x[offsets[i] + m] * g[m][k]    gradients of weights
 *
 * Each sum is a chain of fmaf from +0 in the order of r, or of m.
 *
 * About half of relu's outputs are 0, and products with them can be left out. gather may get a list of the rows r to add,
 * and outer has a variant with a list of the m where x is not 0. The caller excludes the two cases that would
 * change bits: 0 times infinity is NaN, and +0 added to a sum of -0 makes it +0.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { GCONV_LEARN_SLACK = 48 }; /* floats after the last one of b that gather may read, and of sums that outer may write */

typedef struct gconv_gather {
  const float *a; /* one row of a_pitch floats for each offset */
  int64_t a_pitch;
  const int64_t *offsets;
  int64_t count;
  int64_t out_pitch;    /* a multiple of the lanes, at least the computed columns */
  const int64_t *parts; /* if not NULL: r takes `count` values from parts[0] on, then `count` from parts[1] on ... */
  int64_t part_count;
} gconv_gather;

typedef struct gconv_outer {
  const int64_t *offsets; /* an offset for each row of the result */
  int64_t rows, x_pitch;  /* rows of x, and their pitch: m takes `columns` neighbours of each row */
  int64_t columns;
  int64_t g_pitch;   /* floats from g[m] to g[m + 1]: a multiple of the lanes */
  int64_t g_gap;     /* floats of g between rows */
  int64_t out_pitch; /* floats of a row of the result: a multiple of the lanes */
  bool begins;       /* sums begin at 0; else at the sums in memory */
} gconv_outer;

/* The operands of gconv_learn_outer_listed(): sums[i][k] += sum over the m of an ascending list of x[m] * g[m -
 * offsets[i]][k]. */
typedef struct gconv_listed {
  const int32_t *list;
  int64_t count;
  int64_t g_pitch, out_pitch;
} gconv_listed;

/* Returns `count`, rounded up to whole vectors of this processor. */
int64_t gconv_learn_padded(int64_t count);

/* Computes out[i * out_pitch + m] for i < rows and m < columns, with columns rounded up to whole vectors. */
void gconv_learn_gather(const gconv_gather *gather, int64_t rows, int64_t columns, const float *b, float *out);

/* gconv_learn_outer() and gconv_learn_outer_listed() compute sums[i * out_pitch + k] for i < count and k < filters, with
 * filters rounded up to whole vectors. */
void gconv_learn_outer(const gconv_outer *outer, int64_t count, int64_t filters, const float *x, const float *g,
                       float *sums);

void gconv_learn_outer_listed(const gconv_listed *listed, const int64_t *offsets, int64_t count, int64_t filters,
                              const float *x, const float *g, float *sums);

/* Lists the m < count where x[m] is not 0, and returns their number. It may read GCONV_LEARN_SLACK floats after x. The list
 * must have room for count + GCONV_LEARN_SLACK numbers. */
int64_t gconv_learn_list(const float *x, int64_t count, int32_t *list);

/* Sets marks[i] to whether any x[i * pitch + m], m < count, is not 0. If `count` is less than a vector, it is rounded up to
 * a vector. */
void gconv_learn_mark(const float *x, int64_t rows, int64_t pitch, int64_t count, bool *marks);

/* Returns whether any sums[i * pitch + k], i < rows, k < columns, is 0. */
bool gconv_learn_any_zero(const float *sums, int64_t rows, int64_t pitch, int64_t columns);

/* Returns the least abs(x[i]) that is not 0, or infinity if there is none. */
float gconv_learn_least(const float *x, int64_t count);

/* Returns whether no x[i] is infinite or NaN. */
bool gconv_learn_finite(const float *x, int64_t count);

/* Sets to[f * to_pitch + i] = from[i * from_pitch + f] for i < rows and f < columns. */
void gconv_learn_transpose(const float *from, int64_t from_pitch, int64_t rows, int64_t columns, float *to,
                           int64_t to_pitch);

/* SPDX-License-Identifier: MIT */
/* Loops of products of matrices whose elements have the type NUMBER. product.c includes this file for each type; NAME()
 * makes the names of its functions. */

/* For columns that are neighbours in b: a[k] times a row of b is added to all sums. */
static void NAME(add_rows)(const job *j, const NUMBER *a, int64_t first, int64_t count, NUMBER *restrict out) {
  for (int64_t i = 0; i < count; i++)
    out[i] = 0;
  for (int64_t k = 0; k < j->p->k; k++) {
    const NUMBER *restrict row = (const NUMBER *)j->b + k * j->p->b_row + first;
    const NUMBER factor = a[k * j->p->a_column];
    for (int64_t i = 0; i < count; i++)
      out[i] += factor * row[i];
  }
}

/* For elements of a column that are neighbours in b: eight columns at a time, so that sums do not wait for each other. */
static void NAME(add_columns)(const job *j, const NUMBER *a, int64_t first, int64_t count, NUMBER *restrict out) {
  enum { SOME = 8, LINE = 64 / sizeof(NUMBER) };
  for (int64_t i = 0; i < count; i += SOME) {
    const int64_t left = count - i < SOME ? count - i : SOME;
    NUMBER sums[SOME] = {0};
    const NUMBER *columns[SOME];
    for (int64_t l = 0; l < SOME; l++)
      columns[l] = (const NUMBER *)j->b + (first + i + (l < left ? l : 0)) * j->p->b_column;
    for (int64_t k = 0; k < j->p->k; k++) {
      for (int64_t l = 0; k % LINE == 0 && l < SOME; l++)
        __builtin_prefetch(columns[l] + k + SOME * j->p->b_column, 0,
                           2); /* the next columns, which are farther away than processors prefetch */
      for (int64_t l = 0; l < SOME; l++)
        sums[l] += a[k * j->p->a_column] * columns[l][k];
    }
    for (int64_t l = 0; l < left; l++)
      out[i + l] = sums[l];
  }
}

/* Part i is some columns of a row of the product. */
static void NAME(multiply)(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const NUMBER *c = j->c;
  for (int64_t i = begin; i < end; i++) {
    const int64_t row = i / j->parts, first = i % j->parts * WIDE, left = j->p->n - first, count = left < WIDE ? left : WIDE;
    NUMBER *out = (NUMBER *)j->out + row * j->p->n + first;
    (j->p->panels       ? ADD_PANELS
     : j->p->b_row == 1 ? NAME(add_columns)
                        : NAME(add_rows))(j, (const NUMBER *)j->a + row * j->p->a_row, first, count, out);
    for (int64_t x = 0; x < count && j->p->alpha != 1; x++)
      out[x] *= (NUMBER)j->p->alpha;
    for (int64_t x = 0; x < count && c; x++)
      out[x] += (NUMBER)j->p->beta * c[row * j->c_row + (first + x) * j->c_column];
  }
}

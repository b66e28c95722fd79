/* SPDX-License-Identifier: MIT */
/* The loops of box_float.c, which explains `front`, `middle` and `entered`, for one kind of vector (each_isa.h). */

enum { NAME(SIDE) = 4, NAME(ACROSS) = 4 * LANES }; /* vectors side by side, and their samples, which divide CHUNK */

/* Makes the sums of NAME(ACROSS) columns in a block. They are samples x and up of the rows that are read, and samples `at`
 * and up of `middle`, `out` and `entered`. The first loop sums `front` upwards; the second sums the rows that enter,
 * downwards. */
GCONV_INLINE TARGET void NAME(box_chunk)(const box_block *b, int64_t x, int64_t at) {
  float front[MOST_BLOCK][NAME(ACROSS)];
  const VECTOR tap = SPREAD(&b->tap);
  VECTOR sum[NAME(SIDE)], middle[NAME(SIDE)];
  UNROLL for (int v = 0; v < NAME(SIDE); v++) {
    sum[v] = ZERO;
    middle[v] = b->middle ? LOAD(b->middle + at + v * LANES) : ZERO;
  }
  for (int64_t i = b->B + b->r - 1; i >= b->from; i--) {
    const float *line = b->front[i] + x;
    UNROLL for (int v = 0; v < NAME(SIDE); v++) sum[v] = ADD_PRODUCT(LOAD(line + v * LANES), tap, sum[v]);
    if (i < b->B)
      UNROLL for (int v = 0; v < NAME(SIDE); v++) STORE(front[i] + v * LANES, sum[v]);
  }
  UNROLL for (int v = 0; v < NAME(SIDE); v++) sum[v] = ZERO;
  for (int64_t i = 0; i < b->to; i++) {
    float *out = b->out + i * b->row + at;
    if (i >= b->from)
      UNROLL for (int v = 0; v < NAME(SIDE); v++) STORE(out + v * LANES, (LOAD(front[i] + v * LANES) + sum[v]) + middle[v]);
    if (i == b->enter)
      return;
    const float *line = b->entering[i] + x;
    UNROLL for (int v = 0; v < NAME(SIDE); v++) sum[v] = ADD_PRODUCT(LOAD(line + v * LANES), tap, sum[v]);
  }
  if (b->entered)
    UNROLL for (int v = 0; v < NAME(SIDE); v++) STORE(b->entered + at + v * LANES, sum[v]);
}

/* Does the same for `count` columns. */
static TARGET void NAME(box_chunks)(const box_block *b, int64_t x, int64_t at, int64_t count) {
  for (int64_t i = 0; i < count; i += NAME(ACROSS))
    NAME(box_chunk)(b, x + i, at + i);
}

/* For i < count: to[i] = from[i] + from[i + step]; if `more` is not NULL, more[i] is added, too. `to` may be `from`. */
static TARGET void NAME(box_double)(const float *from, int64_t step, const float *more, int64_t count, float *to) {
  if (more)
    for (int64_t i = 0; i < count; i += LANES)
      STORE(to + i, (LOAD(from + i) + LOAD(from + i + step)) + LOAD(more + i));
  else
    for (int64_t i = 0; i < count; i += LANES)
      STORE(to + i, LOAD(from + i) + LOAD(from + i + step));
}

/* SPDX-License-Identifier: MIT */
#include "product.h"
#include "../layer/product.h"

#include <string.h>

/* The most rows, vectors and shapes of tiles; the most rows of a tile of gconv_learn_outer_listed(). */
enum { MOST_ROWS = 8, MOST_VECTORS = 6, MOST_SHAPES = 3, MOST_LISTED = 9 };

typedef void gather_tile(const gconv_gather *gather, const float *a, const float *b, float *out);
typedef void outer_tile(const gconv_outer *outer, const int64_t *offsets, const float *x, const float *g, float *sums);
typedef void listed_tile(const gconv_listed *listed, const int64_t *offsets, const float *x, const float *g, float *sums);

/* A kind of tiles: the most rows and vectors that they have. */
typedef struct tile_shape {
  int rows, vectors;
} tile_shape;

/* The functions of a kind of processor, one for each tile of N rows times V vectors up to the shapes. */
typedef struct tile_set {
  int lanes;                      /* floats of a vector */
  tile_shape shapes[MOST_SHAPES]; /* for gather, in ascending order of vectors; outer uses the first shape */
  gather_tile *gather[MOST_ROWS + 1][MOST_VECTORS + 1];
  outer_tile *outer[MOST_ROWS + 1][MOST_VECTORS + 1];
  listed_tile *listed[MOST_LISTED + 1][3];
  tile_shape listed_shape;
  int64_t (*list)(const float *x, int64_t count, int32_t *list);
  void (*mark)(const float *x, int64_t rows, int64_t pitch, int64_t count, bool *marks);
  bool (*any_zero)(const float *sums, int64_t rows, int64_t pitch, int64_t columns);
} tile_set;

#define TEMPLATE "train/product_template.h"
#include "../each_isa.h"

static const tile_set *tiles_here(void) {
  return OF_THIS_PROCESSOR(&tiles);
}

int64_t gconv_learn_padded(int64_t count) {
  int64_t lanes = tiles_here()->lanes;
  return gconv_divide_up(count, lanes) * lanes;
}

/* Returns the number of loads of vectors, factors and offsets that tiles of a shape need for a row of `a`. */
static int64_t loads_of(const tile_shape *shape, int64_t rows, int64_t vectors) {
  int64_t across = gconv_divide_up(vectors, shape->vectors), down = gconv_divide_up(rows, shape->rows);
  return down * vectors + across * (rows + down);
}

/* Returns the shape with the fewest loads. */
static tile_shape choose_shape(const tile_set *set, int64_t rows, int64_t vectors) {
  const tile_shape *best = &set->shapes[0];
  for (int i = 1; i < MOST_SHAPES && set->shapes[i].rows > 0; i++)
    if (loads_of(&set->shapes[i], rows, vectors) < loads_of(best, rows, vectors))
      best = &set->shapes[i];
  return *best;
}

/* `count` items in parts of about equal size. */
typedef struct parts {
  int64_t count, size, rest; /* the first `rest` parts have one item more than `size` */
} parts;

static parts cut_into(int64_t items, int64_t most) {
  const int64_t count = gconv_divide_up(items, most);
  return count ? (parts){count, items / count, items % count} : (parts){0};
}

static int64_t begin_of_part(const parts *p, int64_t i) {
  return p->size * i + (i < p->rest ? i : p->rest);
}

/* The rows and vectors of a product, cut into tiles that are at most as large as a shape. */
typedef struct cut {
  parts down, across;
  int64_t tiles;
} cut;

static cut cut_product(int64_t rows, int64_t vectors, const tile_shape *shape) {
  const parts down = cut_into(rows, shape->rows), across = cut_into(vectors, shape->vectors);
  return (cut){down, across, down.count * across.count};
}

/* A tile: N rows from n on, V vectors from v on. */
typedef struct tile {
  int64_t n, N, v, V;
} tile;

/* Returns tile number i. Tiles are numbered down a column of tiles, then down the next column. */
static tile tile_at(const cut *c, int64_t i) {
  const int64_t across = i / c->down.count, down = i - across * c->down.count;
  const int64_t n = begin_of_part(&c->down, down), v = begin_of_part(&c->across, across);
  return (tile){n, begin_of_part(&c->down, down + 1) - n, v, begin_of_part(&c->across, across + 1) - v};
}

void gconv_learn_gather(const gconv_gather *gather, int64_t rows, int64_t columns, const float *b, float *out) {
  const tile_set *set = tiles_here();
  const int64_t vectors = gconv_divide_up(columns, set->lanes);
  const tile_shape shape = choose_shape(set, rows, vectors);
  const cut c = cut_product(rows, vectors, &shape);
  for (int64_t i = 0; i < c.tiles; i++) {
    const tile t = tile_at(&c, i);
    const int64_t column = t.v * set->lanes;
    set->gather[t.N][t.V](gather, gather->a + t.n, b + column, out + t.n * gather->out_pitch + column);
  }
}

void gconv_learn_outer(const gconv_outer *outer, int64_t count, int64_t filters, const float *x, const float *g,
                       float *sums) {
  const tile_set *set = tiles_here();
  const cut c = cut_product(count, gconv_divide_up(filters, set->lanes), &set->shapes[0]);
  for (int64_t i = 0; i < c.tiles; i++) {
    const tile t = tile_at(&c, i);
    const int64_t filter = t.v * set->lanes;
    set->outer[t.N][t.V](outer, outer->offsets + t.n, x, g + filter, sums + t.n * outer->out_pitch + filter);
  }
}

void gconv_learn_outer_listed(const gconv_listed *listed, const int64_t *offsets, int64_t count, int64_t filters,
                              const float *x, const float *g, float *sums) {
  const tile_set *set = tiles_here();
  const cut c = cut_product(count, gconv_divide_up(filters, set->lanes), &set->listed_shape);
  for (int64_t i = 0; i < c.tiles; i++) {
    const tile t = tile_at(&c, i);
    const int64_t filter = t.v * set->lanes;
    set->listed[t.N][t.V](listed, offsets + t.n, x, g + filter, sums + t.n * listed->out_pitch + filter);
  }
}

int64_t gconv_learn_list(const float *x, int64_t count, int32_t *list) {
  return tiles_here()->list(x, count, list);
}

void gconv_learn_mark(const float *x, int64_t rows, int64_t pitch, int64_t count, bool *marks) {
  tiles_here()->mark(x, rows, pitch, count, marks);
}

bool gconv_learn_any_zero(const float *sums, int64_t rows, int64_t pitch, int64_t columns) {
  return tiles_here()->any_zero(sums, rows, pitch, columns);
}

GCONV_VECTOR_LOOP(find_infinite, (const float *x, int64_t count, uint32_t *found), (x, count, found)) {
  uint32_t any = 0;
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, x + i, sizeof bits);
    any |= (bits & 0x7f800000u) == 0x7f800000u;
  }
  *found = any;
}

GCONV_VECTOR_LOOP(find_least, (const float *x, int64_t count, uint32_t *found), (x, count, found)) {
  uint32_t least = 0xffffffffu;
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, x + i, sizeof bits);
    bits = (bits << 1) - 1; /* without the sign; 0 becomes the largest number */
    least = bits < least ? bits : least;
  }
  *found = least;
}

float gconv_learn_least(const float *x, int64_t count) {
  uint32_t found;
  find_least(x, count, &found);
  uint32_t bits = found == 0xffffffffu ? 0x7f800000u : (found + 1) >> 1;
  float least;
  memcpy(&least, &bits, sizeof least);
  return least;
}

bool gconv_learn_finite(const float *x, int64_t count) {
  uint32_t found;
  find_infinite(x, count, &found);
  return found == 0;
}

void gconv_learn_transpose(const float *from, int64_t from_pitch, int64_t rows, int64_t columns, float *to,
                           int64_t to_pitch) {
  static const float zeros[GCONV_PRODUCT_LANES] = {0};
  static const gconv_layer_bounds endless = {.enough = true, .low = -INFINITY, .high = INFINITY};
  const gconv_product *product = gconv_product_here();
  int64_t lanes = product->lanes, whole_rows = rows / lanes * lanes, whole_columns = columns / lanes * lanes;
  for (int64_t i = 0; i < whole_rows; i += lanes)
    for (int64_t f = 0; f < whole_columns; f += lanes)
      product->turn(from + i * from_pitch + f, from_pitch, zeros, &endless, to + f * to_pitch + i, to_pitch);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t f = i < whole_rows ? whole_columns : 0; f < columns; f++)
      to[f * to_pitch + i] = from[i * from_pitch + f] + 0.0f;
}

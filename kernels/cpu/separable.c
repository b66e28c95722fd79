/* SPDX-License-Identifier: MIT */
/*
 * separable: filters that are sums of few columns times rows.
 *
 * A filter of rank r is the sum of r outer products (factor.h). It takes r passes of R taps down the columns and one pass
 * of r * S taps along the rows: r * (R + S) multiply-adds a sample instead of R * S.
 *
 *      input rows, as they are            middle, 6 rows of a piece              outputs
 *      . . . . . . . .                    . . . . . . . .                        . . . . . . . .
 *      . . . . . . . .  R taps down ->    . . m m m m . .  r * S taps along ->   . . y y y y . .
 *
 * A band of 6 output rows is made piece by piece, from left to right, so that the middle stays in L1. Columns come first,
 * because there a tile shares its loads among 6 rows, and converts samples to floats as it loads them (tile.c). Along the
 * rows, a load serves the taps whose samples are whole vectors apart (tile.c). All pairs are added in one chain.
 *
 * Border pixels are copies of pixels inside, in the middle as in the image. If the pixels inside are not among the samples
 * of the piece, and in rows that are shorter than some vectors, pixels are first loaded into a chunk of floats.
 *
 * separable is not of the exact family, because the order of additions differs. With a chain of R and one of r * S
 * roundings, the error of a response is at most residual + growth * gamma(R + r * S), relative to (sum |tap|) * max |x|.
 * Integer filters with integer factors (Sobel, binomials, boxes) still give exact sums of integer samples, if these stay
 * below 2^24.
 *
 * separable_long.c takes long filters, and filters whose chains would be off by more than half a level of the result.
 */
#include "base/memory.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/separable_long.h"
#include "kernels/cpu/short_rows.h"
#include "kernels/factor.h"
#include "tile.h"

#include <math.h>
#include <string.h>

enum {
  CHUNK = GCONV_TILE_SAMPLES, /* floats of a row of the chunk; also the most floats that tiles write beyond a row */
  PIECE = 512,                /* samples of a piece, about */
  PIECE_OF_BYTES = 1152,      /* the same, if samples are bytes */
  LINE = 16,                  /* floats of a cache line */
  BLOCK = 768 << 10,          /* bytes of input rows under the band of a block */
  MOST_COPIED = 64,           /* border pixels on a side that are copied from others */
};

/* ---- Sizes ---- */

/* Samples of a row are counted from the sample under the first tap of the first output on. */
typedef struct sizes {
  size_t C, R, S, rank;
  size_t pairs; /* pairs of a column and a row, of all filters together */
  size_t band;  /* output rows that are made at a time; they are `apart` rows from each other */
  size_t apart;
  size_t lines;   /* input rows under the taps of a band, dilation_y apart */
  size_t halo;    /* samples under the taps of a row of outputs beyond the number of its outputs */
  size_t outputs; /* samples of a piece of the result: whole pixels */
  size_t piece;   /* samples of a piece of the result, as if the stride were 1 */
  size_t block;   /* samples of the result whose bands are made one below the other, so that their input stays in L2 */
  size_t row;     /* floats of a row of the middle */
} sizes;

static sizes sizes_of(const gconv_problem *problem) {
  sizes z = {.C = (size_t)problem->channels,
             .R = (size_t)problem->rows,
             .S = (size_t)problem->columns,
             .rank = (size_t)problem->structure.rank};
  const size_t piece = problem->in_type == GCONV_U8 ? PIECE_OF_BYTES : PIECE;
  const size_t unit = CHUNK * z.C, stride = (size_t)problem->stride_x, pixels = piece / (z.C * stride);
  const bool tiles = problem->dilation_y % problem->stride_y == 0; /* neighbours among the lines make neighbouring sums */
  z.pairs = (size_t)problem->filters * z.rank;
  z.apart = tiles ? (size_t)(problem->dilation_y / problem->stride_y) : 1;
  z.band = tiles ? GCONV_TILE_ROWS : 1;
  z.lines = z.R + z.band - 1;
  z.halo = (z.S - 1) * (size_t)problem->dilation_x * z.C;
  z.outputs = stride == 1 ? piece / unit * unit : (pixels > 0 ? pixels : 1) * z.C;
  z.piece = z.outputs * stride;
  const size_t fit = BLOCK / (z.lines * gconv_type_bytes(problem->in_type)) / stride, least = 2 * z.halo / stride;
  z.block = gconv_round_up(fit > least ? fit : least, z.outputs);
  z.row = gconv_round_up(LINE + z.halo + z.piece + CHUNK, LINE) | LINE; /* an odd number of cache lines */
  return z;
}

/* The taps of a pair that are used. For integer samples, taps of 0 are left out. For floats, all taps are used, because 0
 * times an infinity is NaN. */
typedef struct extent {
  size_t first, count; /* of the column: all others are 0 */
  size_t only;         /* of the row: the only one that is not 0, or SIZE_MAX */
} extent;

/* The current band, and where its parts are in the workspace. */
typedef struct sweep {
  const gconv_execution *execution;
  const gconv_problem *problem;
  sizes z;
  int32_t first;   /* first output row */
  size_t count;    /* output rows: z.band, or 1 */
  bool levels;     /* sums only have to be rounded, and none is near 2^31 */
  bool whole;      /* `rows` has all rows; rows outside the image point to `constant` */
  size_t lead;     /* floats before a row of the middle, so that the samples after its halo begin a cache line */
  extent *extents; /* of each pair */
  const void **rows;
  const float **sources, **chunk_rows;
  float *chunk, *middle, *sums; /* z.lines x CHUNK; z.pairs x z.band x z.row; filters x (z.piece + CHUNK) */
  float *outside;               /* for each pair: the sum of a column of the border's level */
  uint8_t *constant;            /* a row of the border's level, if that is a sample; else NULL */
} sweep;

/* Lays the parts out in `memory`, which may be NULL. Returns the bytes of all parts, or SIZE_MAX if they are too many. */
static size_t lay_out(const gconv_problem *problem, uint8_t *memory, sweep *s) {
  const sizes z = sizes_of(problem);
  const size_t middle = gconv_checked_product(4, (size_t[]){z.pairs, z.band, z.row, sizeof(float)});
  const size_t sums = gconv_checked_product(3, (size_t[]){(size_t)problem->filters, z.piece + CHUNK, sizeof(float)});
  const size_t sources = z.rank * z.S > z.lines ? z.rank * z.S : z.lines;
  if (middle > SIZE_MAX / 16 || sums > SIZE_MAX / 16)
    return SIZE_MAX;
  size_t end = 0;
  *s = (sweep){.problem = problem, .z = z, .lead = (LINE - z.halo % LINE) % LINE};
#define PART(name, bytes) (s->name = memory ? (void *)(memory + end) : NULL, end += gconv_round_up(bytes, GCONV_ALIGNMENT))
  PART(chunk, z.lines * CHUNK * sizeof(float));
  PART(middle, middle);
  PART(sums, sums);
  PART(rows, z.lines * sizeof(void *));
  PART(chunk_rows, z.lines * sizeof(float *));
  PART(sources, sources * sizeof(float *));
  PART(outside, z.pairs * sizeof(float));
  PART(extents, z.pairs * sizeof(extent));
  PART(constant, (size_t)problem->width * z.C * gconv_type_bytes(problem->in_type));
#undef PART
  return end;
}

/* ---- Down the columns ---- */

/* Returns the factors of filter k: its columns, then its rows, in the order of gconv_factor_filters(). */
static const float *factors_of(const sweep *s, size_t k) {
  return gconv_prepared(s->problem, s->execution->weights) + k * s->z.rank * (s->z.R + s->z.S);
}

/* Return the column and the row of taps of a pair. */
static const float *column_of(const sweep *s, size_t pair) {
  return factors_of(s, pair / s->z.rank) + pair % s->z.rank * s->z.R;
}
static const float *row_of(const sweep *s, size_t pair) {
  return factors_of(s, pair / s->z.rank) + s->z.rank * s->z.R + pair % s->z.rank * s->z.S;
}

static extent extent_of(const sweep *s, size_t pair) {
  const float *column = column_of(s, pair), *row = row_of(s, pair);
  extent e = {.count = s->z.R, .only = SIZE_MAX};
  size_t taps = 0;
  if (s->problem->in_type == GCONV_F32 || !isfinite(s->problem->border_level))
    return e;
  for (; e.count > 1 && column[e.first] == 0; e.count--)
    e.first++;
  while (e.count > 1 && column[e.first + e.count - 1] == 0)
    e.count--;
  for (size_t i = 0; i < s->z.S; i++)
    if (row[i] != 0) {
      taps++;
      e.only = i;
    }
  if (taps != 1)
    e.only = SIZE_MAX;
  return e;
}

/* Returns the input row of line i of the band. It may be outside of the image. */
static int64_t line_at(const sweep *s, size_t i) {
  return (int64_t)s->first * s->problem->stride_y - s->problem->pad_top + (int64_t)i * s->problem->dilation_y;
}

static void find_rows(sweep *s) {
  s->whole = true;
  for (size_t i = 0; i < s->z.R + s->count - 1; i++) {
    const int64_t y = gconv_border_index(s->problem->border, line_at(s, i), s->problem->height);
    s->rows[i] = y == GCONV_OUTSIDE ? s->constant : gconv_input_row(s->execution, y);
    s->whole = s->whole && s->rows[i];
  }
}

/* Applies all columns of taps to rows of samples, from sample `first` on. Writes the sums to the middle's rows, from float
 * `to` on. */
static void add_columns(const sweep *s, gconv_type type, const void *const *rows, size_t first, size_t samples, size_t to) {
  for (size_t pair = 0; pair < s->z.pairs; pair++) {
    const extent *e = &s->extents[pair];
    const gconv_tile_column column = {
        .type = type, .rows = rows + e->first, .R = (int32_t)e->count, .count = (int32_t)s->count};
    gconv_tile_columns(&column, first, column_of(s, pair) + e->first, samples, s->middle + pair * s->z.band * s->z.row + to,
                       s->z.row);
  }
}

/* Makes positions x .. end - 1 of the middle, whose rows begin with position `begin`, from a chunk of floats. Returns the
 * position after the last one that was made. */
static int64_t fill_chunk(const sweep *s, int64_t begin, int64_t x, int64_t end) {
  const int64_t C = s->problem->channels, pixel = x / C, wanted = (end - pixel * C + C - 1) / C;
  const int64_t pixels = wanted < CHUNK / C ? wanted : CHUNK / C;
  for (size_t i = 0; i < s->z.R + s->count - 1; i++)
    gconv_load_pixels(s->execution, line_at(s, i), pixel - s->problem->pad_left, 1, pixels, s->chunk + i * CHUNK);
  add_columns(s, GCONV_F32, (const void *const *)s->chunk_rows, 0, CHUNK, s->lead + (size_t)(pixel * C - begin));
  return (pixel + pixels) * C;
}

/* Makes positions x .. end - 1 of the middle, which are in the image. Returns the position after the last one that was made:
 * end, or less if the row has too few samples for a chunk. Samples at the end of a row may be made twice. */
static int64_t fill_inside(const sweep *s, int64_t begin, int64_t x, int64_t end) {
  const int64_t left = s->problem->pad_left * (int64_t)s->z.C, right = left + s->problem->width * (int64_t)s->z.C;
  while (s->whole && x < end) {
    int64_t samples = (int64_t)gconv_round_up((size_t)(end - x), CHUNK);
    samples = samples < right - x ? samples : (right - x) / CHUNK * CHUNK;
    if (samples == 0 && right - CHUNK < (left > begin ? left : begin))
      break;
    x = samples == 0 ? right - CHUNK : x;
    samples = samples == 0 ? CHUNK : samples;
    add_columns(s, s->problem->in_type, s->rows, (size_t)(x - left), (size_t)samples, s->lead + (size_t)(x - begin));
    x += samples;
  }
  return x;
}

/* Makes pixels first .. first + count - 1 of the middle, which are outside of the image. Returns false, and makes
 * nothing, unless the border is a constant, or copies columns that are at positions `begin` to `end`. */
static bool copy_border(const sweep *s, int64_t begin, int64_t end, int64_t first, int64_t count) {
  const gconv_problem *problem = s->problem;
  const int64_t C = problem->channels;
  int64_t from[MOST_COPIED];
  if (count > MOST_COPIED)
    return false;
  for (int64_t i = 0; i < count; i++) {
    const int64_t column = gconv_border_index(problem->border, first + i - problem->pad_left, problem->width);
    from[i] = column == GCONV_OUTSIDE ? GCONV_OUTSIDE : (column + problem->pad_left) * C;
    if (from[i] != GCONV_OUTSIDE && (from[i] < begin || from[i] + C > end))
      return false;
  }
  for (size_t pair = 0; pair < s->z.pairs; pair++)
    for (size_t j = 0; j < s->count; j++) {
      float *row = s->middle + (pair * s->z.band + j) * s->z.row + s->lead - begin;
      for (int64_t i = 0; i < count; i++)
        for (int64_t c = 0; c < C; c++)
          row[(first + i) * C + c] = from[i] == GCONV_OUTSIDE ? s->outside[pair] : row[from[i] + c];
    }
  return true;
}

/* Computes positions x .. end - 1 of the middle, whose rows begin with position `begin`. Border pixels are copied from the
 * pixels inside after these are computed. If that is not possible, the left border comes first, because a chunk writes more
 * pixels than it is asked for. */
static void fill_middle(const sweep *s, int64_t begin, int64_t x, int64_t end) {
  const int64_t C = s->problem->channels, left = s->problem->pad_left * C, right = left + s->problem->width * C;
  const int64_t from = x > left ? x : left, to = end < right ? end : right;
  const int64_t left_end = left < end ? left : end, right_begin = x > right ? x : right;
  int64_t made = from < to ? fill_inside(s, begin, from, to) : x;
  if (x < left_end && !copy_border(s, begin, made, x / C, (left_end - x) / C)) {
    for (int64_t at = x; at < left_end;)
      at = fill_chunk(s, begin, at, left_end);
    made = from < to ? fill_inside(s, begin, from, to) : left_end;
  }
  while (from < to && made < to)
    made = fill_chunk(s, begin, made, to);
  if (right_begin < end && !copy_border(s, begin, made, right_begin / C, (end - right_begin) / C))
    for (int64_t at = right_begin; at < end;)
      at = fill_chunk(s, begin, at, end);
}

/* Moves the last `halo` floats of the middle's rows to the beginning of the rows, where the next piece needs them. */
static void keep_halo(const sweep *s) {
  for (size_t pair = 0; pair < s->z.pairs; pair++)
    for (size_t j = 0; j < s->count; j++) {
      float *row = s->middle + (pair * s->z.band + j) * s->z.row + s->lead;
      memmove(row, row + s->z.piece, s->z.halo * sizeof *row);
    }
}

/* ---- Along the rows ---- */

/* Applies the rows of all pairs of filter k along row j of the band. `samples` counts the samples of the piece, as if the
 * stride were 1. */
static void add_row(const sweep *s, size_t k, size_t j, size_t samples, float *sums) {
  const sizes *z = &s->z;
  const size_t distance = (size_t)s->problem->dilation_x * z->C, stride = (size_t)s->problem->stride_x;
  const float *taps = factors_of(s, k) + z->rank * z->R,
              *middle = s->middle + (k * z->rank * z->band + j) * z->row + s->lead;
  size_t t = 0;
  for (size_t i = 0; i < z->rank; i++)
    s->sources[i] = middle + i * z->band * z->row;
  gconv_tile_lines lines = {.sources = s->sources, .taps = taps, .count = z->rank, .length = z->S, .distance = distance};
  if (stride == 1 && z->rank == 1 && s->extents[k].only != SIZE_MAX) {
    s->sources[0] += s->extents[k].only * distance;
    gconv_tile_list(s->sources, taps + s->extents[k].only, 1, samples, sums);
    return;
  }
  if (stride == 1 && gconv_tile_along(&lines, GCONV_F32, samples, sums))
    return;
  for (size_t i = 0; i < z->rank; i++)
    for (size_t n = 0; n < z->S; n++)
      s->sources[t++] = middle + i * z->band * z->row + n * distance;
  gconv_tile_list(s->sources, taps, t, samples, sums);
  for (size_t q = 1; stride > 1 && q * stride * z->C < samples; q++)
    memmove(sums + q * z->C, sums + q * stride * z->C, z->C * sizeof *sums);
}

/* Does what add_row() does for all rows of the band and the only filter, rounds the sums to levels, and stores them. Returns
 * false, and does nothing, if there is no loop for this. */
static bool add_levels(const sweep *s, size_t first, size_t samples) {
  const sizes *z = &s->z;
  const gconv_type type = s->problem->out_type;
  const size_t distance = (size_t)s->problem->dilation_x * z->C;
  const float *taps = factors_of(s, 0) + z->rank * z->R;
  uint8_t *levels[GCONV_TILE_ROWS];
  for (size_t i = 0; i < z->rank; i++)
    s->sources[i] = s->middle + i * z->band * z->row + s->lead;
  for (size_t j = 0; j < s->count; j++)
    levels[j] = gconv_output_row(s->execution, 0, s->first + (int32_t)(j * z->apart)) + first * gconv_type_bytes(type);
  const gconv_short_rows rows = {.lines = s->sources,
                                 .taps = taps,
                                 .count = z->rank,
                                 .length = z->S,
                                 .distance = distance,
                                 .rows = s->count,
                                 .pitch = z->row};
  if (gconv_short_levels(&rows, type, samples, levels))
    return true;
  if (s->extents[0].only != SIZE_MAX)
    return false;
  const gconv_tile_lines lines = {
      .sources = s->sources, .taps = taps, .count = z->rank, .length = z->S, .distance = distance};
  for (size_t j = 0; j < s->count; j++) {
    if (!gconv_tile_along(&lines, type, samples, levels[j]))
      return false;
    for (size_t i = 0; i < z->rank; i++)
      s->sources[i] += z->row;
  }
  return true;
}

/* Returns whether all sums are far below 2^31, where conversions to integers saturate. */
static bool is_bounded(const sweep *s) {
  double most = 0;
  for (size_t pair = 0; pair < s->z.pairs; pair++) {
    const float *column = column_of(s, pair), *row = row_of(s, pair);
    double down = 0, along = 0;
    for (size_t r = 0; r < s->z.R; r++)
      down += fabs((double)column[r]);
    for (size_t i = 0; i < s->z.S; i++)
      along += fabs((double)row[i]);
    most += down * along;
  }
  const double level = fmax((double)gconv_white(s->problem->in_type), fabs((double)s->problem->border_level));
  return s->problem->in_type != GCONV_F32 && most * level < 0x1p30;
}

/* ---- The loops ---- */

/* Makes `count` samples of the band from sample `first` of the result on. */
static void make_piece(const sweep *s, size_t first, size_t count, bool is_first) {
  const gconv_problem *problem = s->problem;
  const sizes *z = &s->z;
  const size_t stride = (size_t)problem->stride_x, samples = (count / z->C - 1) * stride * z->C + z->C;
  const int64_t begin = (int64_t)(first * stride); /* a whole piece is computed to its end, the next piece's halo */
  const int64_t end = begin + (int64_t)((count == z->outputs ? z->piece : samples) + z->halo);
  const int64_t pixel = (int64_t)(first / z->C), pixels = (int64_t)(count / z->C);
  for (size_t j = 0; j < s->count; j++) {
    gconv_expect_store(s->execution, s->first + (int32_t)(j * z->apart), pixel, pixels);
    if (problem->in_type == GCONV_F32) /* for integers, the processor's own prefetching suffices */
      gconv_expect_load(s->execution, line_at(s, z->lines + j),
                        pixel * problem->stride_x - problem->pad_left + problem->anchor_x, pixels * problem->stride_x);
  }
  if (!is_first)
    keep_halo(s);
  fill_middle(s, begin, is_first ? begin : begin + (int64_t)z->halo, end);
  if (s->levels && add_levels(s, first, samples))
    return;
  for (size_t j = 0; j < s->count; j++) {
    for (size_t k = 0; k < (size_t)problem->filters; k++)
      add_row(s, k, j, samples, s->sums + k * (z->piece + CHUNK));
    gconv_store_samples(s->execution, s->first + (int32_t)(j * z->apart), first, count, s->sums, z->piece + CHUNK);
  }
}

/* Makes samples first .. end - 1 of the output rows c, c + z.apart, c + 2 * z.apart ..., band by band. The last band is
 * moved up so that it has all rows. Some rows are then made twice, which takes less time than making rows one by one. */
static void make_block(sweep *s, int32_t c, size_t first, size_t end) {
  const int32_t apart = (int32_t)s->z.apart, rows = (s->execution->end_row - c - 1) / apart + 1;
  s->count = rows < (int32_t)s->z.band ? 1 : s->z.band;
  for (int32_t j = 0; j < rows; j += (int32_t)s->count) {
    if (j + (int32_t)s->count > rows)
      j = rows - (int32_t)s->count;
    s->first = c + j * apart;
    find_rows(s);
    for (size_t x = first; x < end; x += s->z.outputs)
      make_piece(s, x, end - x < s->z.outputs ? end - x : s->z.outputs, x == first);
  }
}

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const size_t samples = (size_t)problem->out_width * (size_t)problem->channels;
  if (gconv_separable_is_long(problem)) {
    gconv_separable_long(execution);
    return GCONV_OK;
  }
  sweep s;
  lay_out(problem, execution->workspace, &s);
  s.execution = execution;
  for (size_t pair = 0; pair < s.z.pairs; pair++)
    s.extents[pair] = extent_of(&s, pair);
  s.levels = problem->stride_x == 1 && gconv_only_rounds(execution) && is_bounded(&s);
  if (!gconv_fill_outside(problem, s.constant))
    s.constant = NULL;
  for (size_t pair = 0; pair < s.z.pairs; pair++) {
    s.outside[pair] = 0;
    for (size_t r = 0; r < s.z.R; r++)
      s.outside[pair] = fmaf(column_of(&s, pair)[r], problem->border_level, s.outside[pair]);
  }
  /* Vectors also compute lanes beyond the last samples, which are dropped. If these lanes held denormal numbers, vectors
   * would take up to 20 times as long. */
  memset(s.chunk, 0, (size_t)((uint8_t *)s.sums - (uint8_t *)s.chunk)); /* the chunk and the middle */
  for (size_t i = 0; i < s.z.lines; i++)
    s.chunk_rows[i] = s.chunk + i * CHUNK;
  for (size_t x = 0; x < samples; x += s.z.block)
    for (int32_t c = 0; c < (int32_t)s.z.apart && execution->first_row + c < execution->end_row; c++)
      make_block(&s, execution->first_row + c, x, samples - x < s.z.block ? samples : x + s.z.block);
  return GCONV_OK;
}

/* ---- The descriptor ---- */

static size_t workspace_bytes(const gconv_problem *problem) {
  sweep s;
  return gconv_separable_is_long(problem) ? gconv_separable_long_workspace(problem) : lay_out(problem, NULL, &s);
}

static double error_bound(const gconv_problem *problem) {
  if (gconv_separable_is_long(problem))
    return gconv_separable_long_bound(problem);
  return gconv_separable_bound(problem, (double)problem->rows + (double)problem->structure.rank * problem->columns);
}

static const char *supports(const gconv_problem *problem) {
  const char *obstacle = gconv_factor_obstacle(problem);
  if (obstacle)
    return obstacle;
  if (error_bound(problem) > 1e-3)
    return "its columns and rows would lose too many digits";
  return workspace_bytes(problem) > ((size_t)1 << 31) ? "its rows would exceed 2 GiB a thread" : NULL;
}

/* If rows are long, their taps share loads. If the rank is above 1, one chain adds the products of all rows. */
static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const double shared = problem->columns > 16 ? 0.7 : problem->columns > 8 && problem->structure.rank > 1 ? 0.9 : 1;
  double rank = problem->structure.rank, down = rank * problem->rows, along = rank * problem->columns * shared;
  bool tiles = sizes_of(problem).band == GCONV_TILE_ROWS;
  return gconv_tile_ms(problem, machine, tiles ? down : 0, tiles ? along : along + down);
}

const gconv_algorithm gconv_algorithm_cpu_separable = {
    .info = {"separable", "cpu", "few columns times rows, for filters of low rank", false},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .prepared_floats = gconv_factor_floats,
    .prepare = gconv_factor_filters,
};

/* SPDX-License-Identifier: MIT */
#include "kernels/cpu/window.h"
#include "base/memory.h"
#include "kernels/cpu/rows.h"

#include <string.h>

/* ---- Layout ---- */

enum { UNIT = 64, PIECE = 512, LINE = 16 }; /* floats of a cache line */

int32_t gconv_tap_period(int32_t stride, int32_t dilation) {
  return (int32_t)(gconv_common_multiple(stride, dilation) / dilation);
}

size_t gconv_window_halo(const gconv_problem *problem) {
  size_t pixels = (size_t)(problem->columns - 1) * (size_t)problem->dilation_x / (size_t)problem->stride_x;
  return pixels * (size_t)problem->channels;
}

static void set_block(const gconv_problem *problem, gconv_layout *layout, size_t block) {
  layout->block = block;
  layout->phase = gconv_round_up(block + gconv_window_halo(problem) + GCONV_WINDOW_SLACK + LINE, LINE);
  /* An odd number of cache lines: rows at a distance of a power of two would use the same lines of L1. */
  layout->row = layout->phases * layout->phase | 16;
}

gconv_layout gconv_layout_of(const gconv_problem *problem, int32_t band, size_t ring_bytes) {
  int32_t period = gconv_tap_period(problem->stride_x, problem->dilation_x);
  gconv_layout layout = {.classes = gconv_tap_period(problem->dilation_y, problem->stride_y),
                         .step = gconv_tap_period(problem->stride_y, problem->dilation_y)};
  layout.band = layout.step == 1 ? band : 1;
  layout.phases = (size_t)(problem->columns < period ? problem->columns : period);
  layout.ring_rows = (size_t)problem->rows + (size_t)layout.band - 1;
  size_t unit = UNIT * (size_t)problem->channels, samples = (size_t)problem->out_width * (size_t)problem->channels;
  layout.piece = unit * (PIECE / unit);
  size_t block = layout.piece, most = gconv_round_up(samples, layout.piece);
  set_block(problem, &layout, block);
  size_t fixed = layout.row - layout.phases * block, all = ring_bytes / sizeof(float) / layout.ring_rows;
  if (all > fixed)
    block = (all - fixed) / layout.phases / layout.piece * layout.piece;
  block = block < layout.piece ? layout.piece : block > most ? most : block;
  size_t blocks = (samples + block - 1) / block; /* of about equal width */
  set_block(problem, &layout, gconv_round_up((samples + blocks - 1) / blocks, layout.piece));
  return layout;
}

/* ---- Workspace: ring, a row of the border's constant, sums, row pointers, offsets, flags, and the algorithm's part ---- */

typedef struct places {
  size_t constant, sums, rows, lines, offsets, flags, extra, end;
} places;

static size_t row_pointers(const gconv_problem *problem, const gconv_layout *layout) {
  return (size_t)(layout->band - 1) * (size_t)layout->step + (size_t)problem->rows;
}

/* Returns whether pieces can read the rows of the image. Then only the first and last pieces need the ring. */
static bool is_in_place(const gconv_problem *problem) {
  return problem->in_type == GCONV_F32 && problem->stride_x == 1;
}

static places places_of(const gconv_problem *problem, const gconv_layout *layout, size_t extra) {
  places at;
  const size_t pointers = gconv_round_up(row_pointers(problem, layout) * sizeof(float *), GCONV_ALIGNMENT);
  at.constant = layout->ring_rows * layout->row * sizeof(float);
  at.sums = at.constant + (is_in_place(problem) ? layout->row * sizeof(float) : 0);
  at.rows = at.sums + (size_t)problem->filters * (size_t)layout->band * layout->piece * sizeof(float);
  at.lines = at.rows + pointers;
  at.offsets = at.lines + pointers;
  at.flags = at.offsets + gconv_round_up((size_t)problem->columns * sizeof(int64_t), GCONV_ALIGNMENT);
  at.extra = at.flags + gconv_round_up(layout->ring_rows, GCONV_ALIGNMENT);
  at.end = at.extra + extra;
  return at;
}

size_t gconv_window_bytes(const gconv_problem *problem, const gconv_layout *layout, size_t extra) {
  size_t sums =
      gconv_checked_product(4, (size_t[]){(size_t)problem->filters, (size_t)layout->band, layout->piece, sizeof(float)});
  size_t ring = gconv_checked_product(3, (size_t[]){layout->ring_rows + 1, layout->row, sizeof(float)});
  if (sums > SIZE_MAX / 8 || ring > SIZE_MAX / 8 || extra > SIZE_MAX / 8)
    return SIZE_MAX;
  return places_of(problem, layout, extra).end;
}

/* ---- The loop ---- */

typedef struct walk {
  gconv_window window;
  const gconv_problem *problem;
  float *ring, *constant;
  const float **rows;  /* rows in the ring */
  const float **lines; /* rows in the image, or the constant row */
  bool in_place;
  size_t inside, beyond; /* samples inside .. beyond - 1 of the block are computed from `lines` */
  bool *flags;           /* for each row of the ring: whether it is finite */
  bool check_finite;
  int64_t first_row;  /* output row j of the class is first_row + j * classes */
  int64_t loaded;     /* all lattice rows before this row have been in the ring */
  size_t slot;        /* the slot of the ring for lattice row `loaded` */
  size_t shift;       /* floats before a row, so that the samples after the left border begin a cache line */
  size_t first_pixel; /* first output pixel of the block */
  size_t pixels;
  /* First and end of the pixels that are loaded of a row: all, or those left and right of `lines`. They are kept here, as
   * divisions by `channels` for each row would take a tenth of a small picture's time. */
  int64_t loads[2][2];
} walk;

static void fill_offsets(const gconv_problem *problem, const gconv_layout *layout, int64_t *offsets) {
  for (int64_t s = 0; s < problem->columns; s++)
    offsets[s] = s % (int64_t)layout->phases * (int64_t)layout->phase +
                 s * problem->dilation_x / problem->stride_x * problem->channels;
}

/* Returns whether all values are finite. Only a finite number minus itself is 0. */
static bool is_finite(const float *row, size_t count) {
  float sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += row[i] - row[i];
  return sum == 0.0f;
}

/* Returns the row of the image of a lattice row. It may be outside. */
static int64_t row_of(const walk *w, int64_t lattice) {
  const gconv_problem *problem = w->problem;
  return w->first_row * problem->stride_y - problem->pad_top + lattice * problem->dilation_y;
}

/* Converts a lattice row into the ring. If some pieces read the image, converts only the samples under the other pieces. */
static void load(walk *w, int64_t lattice) {
  const gconv_problem *problem = w->problem;
  const gconv_layout *layout = &w->window.layout;
  const size_t slot = w->slot, channels = (size_t)problem->channels;
  const int64_t y = row_of(w, lattice), left = (int64_t)w->first_pixel * problem->stride_x - problem->pad_left;
  float *row = w->ring + slot * layout->row + w->shift;
  if (w->inside < w->beyond) {
    for (int i = 0; i < 2; i++)
      if (w->loads[i][0] < w->loads[i][1])
        gconv_load_pixels(w->window.execution, y, left + w->loads[i][0], 1, w->loads[i][1] - w->loads[i][0],
                          row + w->loads[i][0] * problem->channels);
    return;
  }
  const int64_t count = w->loads[0][1];
  for (size_t f = 0; f < layout->phases; f++) {
    int64_t residue = f == 0 ? 0 : (int64_t)f * problem->dilation_x % problem->stride_x;
    gconv_load_pixels(w->window.execution, y, left + residue, problem->stride_x, count, row + f * layout->phase);
  }
  if (w->check_finite) {
    w->flags[slot] = true;
    for (size_t f = 0; f < layout->phases && problem->in_type == GCONV_F32; f++)
      w->flags[slot] = w->flags[slot] && is_finite(row + f * layout->phase, (size_t)count * channels);
  }
}

/* Finds the part of the block whose taps lie inside the image, with a margin for vectors on both sides. */
static void find_inside(walk *w) {
  const int64_t channels = (int64_t)w->problem->channels, unit = UNIT * channels, width = (int64_t)w->pixels * channels;
  const int64_t left = ((int64_t)w->first_pixel - w->problem->pad_left) * channels;
  const int64_t right = w->problem->width * channels - GCONV_WINDOW_SLACK - LINE;
  const int64_t first = left < LINE ? (LINE - left + unit - 1) / unit * unit : 0;
  const int64_t end = right - left - (int64_t)gconv_window_halo(w->problem);
  const int64_t beyond = end >= width + UNIT ? width : end / unit * unit;
  const bool some = w->in_place && first < beyond;
  w->inside = some ? (size_t)first : 0;
  w->beyond = some ? (size_t)beyond : 0;
  const int64_t halo = (int64_t)gconv_window_halo(w->problem) / channels, count = (int64_t)w->pixels + halo;
  w->loads[0][0] = 0;
  w->loads[0][1] = !some ? count : first > 0 ? first / channels + halo : 0;
  w->loads[1][0] = some && beyond < width ? beyond / channels : count;
  w->loads[1][1] = count;
}

/* Points `lines` to lattice rows `top`, top + 1 ... in the image, so that sample 0 of the block has the index 0. */
static void find_lines(walk *w, int64_t top) {
  const int64_t left = ((int64_t)w->first_pixel - w->problem->pad_left) * w->problem->channels;
  for (size_t i = 0; i < row_pointers(w->problem, &w->window.layout); i++) {
    const int64_t y = gconv_border_index(w->problem->border, row_of(w, top + (int64_t)i), w->problem->height);
    const float *row = (const void *)(y == GCONV_OUTSIDE ? NULL : gconv_input_row(w->window.execution, y));
    w->lines[i] = row ? row + left : w->constant;
  }
}

enum { FORESEEN_STEP = 8 }; /* if output rows are further apart than this, most rows between them are not needed */

/* Prefetches the rows that the next band will load, in the columns of this piece. A prefetch for each piece is faster than
 * one for the whole band. */
static void prefetch_next(const walk *w, int64_t pixel, int64_t pixels) {
  const gconv_problem *problem = w->problem;
  const gconv_layout *layout = &w->window.layout;
  if (layout->step > FORESEEN_STEP)
    return;
  const int64_t left = pixel * problem->stride_x - problem->pad_left + problem->anchor_x;
  for (int64_t i = 0; i < (int64_t)layout->band * layout->step; i++)
    gconv_expect_load(w->window.execution, row_of(w, w->loaded + i), left, pixels * problem->stride_x);
}

/* Loads the rows that output rows j .. j + count - 1 of the class need, and sets pointers to them. */
static void load_band(walk *w, int64_t j, int32_t count) {
  const gconv_layout *layout = &w->window.layout;
  int64_t top = j * layout->step, needed = (int64_t)(count - 1) * layout->step + w->problem->rows;
  if (w->loaded < top) {
    w->loaded = top;
    w->slot = (size_t)top % layout->ring_rows;
  }
  for (; w->loaded < top + needed; w->loaded++) {
    load(w, w->loaded);
    w->slot = w->slot + 1 < layout->ring_rows ? w->slot + 1 : 0;
  }
  w->window.finite = true;
  size_t pointers = row_pointers(w->problem, layout), slot = (size_t)top % layout->ring_rows;
  for (size_t i = 0; i < pointers; i++, slot = slot + 1 < layout->ring_rows ? slot + 1 : 0) {
    w->rows[i] = w->ring + slot * layout->row + w->shift;
    if (w->check_finite && i < (size_t)needed)
      w->window.finite = w->window.finite && w->flags[slot];
  }
  if (w->inside < w->beyond)
    find_lines(w, top);
  w->window.count = count;
}

/* Returns the number of the class's j-th output row. */
static int32_t output_row(const walk *w, int64_t j) {
  return (int32_t)(w->first_row + j * w->window.layout.classes);
}

static void make_band(walk *w, int64_t j, gconv_make_piece *make_piece) {
  gconv_window *window = &w->window;
  const gconv_layout *layout = &window->layout;
  size_t channels = (size_t)w->problem->channels, samples = w->pixels * channels;
  size_t stride = (size_t)layout->band * layout->piece;
  window->width = samples;
  int64_t pixel = (int64_t)w->first_pixel;
  for (window->first = 0; window->first < samples; window->first += window->samples) {
    const size_t end = window->first < w->inside ? w->inside : window->first < w->beyond ? w->beyond : samples;
    window->samples = end - window->first < layout->piece ? end - window->first : layout->piece;
    const int64_t pixels = (int64_t)(window->samples / channels);
    for (int32_t i = 0; i < window->count; i++)
      gconv_expect_store(window->execution, output_row(w, j + i), pixel, pixels);
    prefetch_next(w, pixel, pixels);
    window->rows = window->first >= w->inside && window->first < w->beyond ? w->lines : w->rows;
    make_piece(window);
    for (int32_t i = 0; i < window->count; i++)
      gconv_store_samples(window->execution, output_row(w, j + i), (size_t)pixel * channels, window->samples,
                          window->sums + (size_t)i * layout->piece, stride);
    pixel += pixels;
  }
}

/* Processes the rows of a class within the strip. The last band is moved up so that it has all rows. Some rows are made
 * twice, which takes less time than a tile of fewer rows. */
static void walk_class(walk *w, int64_t rows, gconv_make_piece *make_piece) {
  int32_t band = w->window.layout.band;
  w->loaded = 0;
  w->slot = 0;
  for (int64_t j = 0; j < rows; j += band) {
    int32_t count = rows < band ? (int32_t)rows : band;
    if (j + count > rows)
      j = rows - count;
    load_band(w, j, count);
    make_band(w, j, make_piece);
  }
}

/* Clears the floats after the rows of the ring, which vectors load together with the last samples. Their sums are dropped,
 * but if they were denormal numbers, computing them would take up to 30 times as long. */
static void clear_behind(const walk *w) {
  const gconv_layout *layout = &w->window.layout;
  const size_t halo = gconv_window_halo(w->problem), samples = w->pixels * (size_t)w->problem->channels;
  for (size_t slot = 0; slot < layout->ring_rows; slot++)
    for (size_t f = 0; f < layout->phases; f++)
      memset(w->ring + slot * layout->row + w->shift + f * layout->phase + samples + halo, 0,
             (gconv_round_up(samples, UNIT) - samples) * sizeof(float));
}

void gconv_walk(const gconv_execution *execution, const gconv_layout *layout, bool check_finite,
                gconv_make_piece *make_piece) {
  const gconv_problem *problem = execution->problem;
  uint8_t *memory = execution->workspace;
  places at = places_of(problem, layout, 0);
  int64_t *offsets = (void *)(memory + at.offsets);
  const float **rows = (void *)(memory + at.rows);
  walk w = {.problem = problem,
            .ring = (void *)memory,
            .constant = (void *)(memory + at.constant),
            .rows = rows,
            .lines = (void *)(memory + at.lines),
            .in_place = is_in_place(problem) && !check_finite,
            .flags = (void *)(memory + at.flags),
            .check_finite = check_finite,
            .window = {.execution = execution,
                       .layout = *layout,
                       .rows = rows,
                       .offsets = offsets,
                       .sums = (void *)(memory + at.sums),
                       .extra = memory + at.extra}};
  fill_offsets(problem, layout, offsets);
  for (size_t i = 0; i < layout->row && w.in_place; i++)
    w.constant[i] = problem->border_level;
  size_t block = layout->block / (size_t)problem->channels, width = (size_t)problem->out_width;
  for (w.first_pixel = 0; w.first_pixel < width; w.first_pixel += block) {
    w.pixels = width - w.first_pixel < block ? width - w.first_pixel : block;
    w.shift = w.first_pixel == 0 && layout->phases == 1
                  ? (LINE - (size_t)problem->pad_left * (size_t)problem->channels % LINE) % LINE
                  : 0;
    find_inside(&w);
    clear_behind(&w);
    for (int32_t c = 0; c < layout->classes && execution->first_row + c < execution->end_row; c++) {
      w.first_row = execution->first_row + c;
      walk_class(&w, (execution->end_row - w.first_row - 1) / layout->classes + 1, make_piece);
    }
  }
}

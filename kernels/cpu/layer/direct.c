/* SPDX-License-Identifier: MIT */
/*
 * direct: sums tap by tap, as the definition of a layer does (reference.c), but for several filters and pixels at a time.
 * The lanes of a vector are neighbouring pixels of a row.
 *
 * A tile is F filters times V vectors of neighbouring pixels. Its sums stay in registers from the first tap to the last. For
 * each tap, V vectors of the input and F weights are loaded for F * V multiply-adds:
 *
 *              filters  vectors  registers             loads for multiply-adds
 *   AVX-512    8        3 of 16  24 + 3 + 1 of 32      11        24
 *   AVX2       4        3 of 8   12 + 3 + 1 of 16      7         12
 *
 * So the multiply-adds are the limit, for any size of filter. The input is staged (stage.h), which resolves strides and
 * borders. The sums of many filters are computed for some pixels, then for the next pixels. So the input under
 * these pixels stays in the L1 or L2 cache. The weights are read in the order in which prepare() wrote them.
 *
 * If rows of outputs do not fill vectors, the rows are joined: a vector may begin at the end of one staged row and go on in
 * the next. (Staged rows are `pitch` floats apart.) The reach_x sums between one row and the next belong to no output, and
 * are dropped. For 56 x 56 pixels and a 3 x 3 filter, 2 in 58 sums are dropped; separate rows would waste 8 in 64.
 *
 * It is slower than gemm for many channels and small images: with 7 x 7 pixels, a quarter of the lanes is wasted.
 */
#include "blocks.h"
#include "stage.h"

#include <string.h>

enum {
  MOST_FILTERS = 8,        /* filters of a tile */
  MOST_VECTORS = 6,        /* vectors of a tile */
  MOST_LANES = 16,         /* floats of a vector */
  STAGED_FLOATS = 1 << 17, /* 512 KiB: half of an L2 cache */
  CACHE_LINE = 16,         /* floats */
  WINDOW_FLOATS = 4 << 10, /* floats of the input that a run of tiles reads: 16 KiB */
  LEAST_PIXELS = 192,      /* outputs of a task's band, if the image has more */
  REFERENCE_FILTERS = 4,   /* filters of the reference CPU's largest tile */
  REFERENCE_VECTORS = 3,   /* vectors of this tile */
};

typedef struct walk walk;

/* Computes out[f * pitch + i] = biases[f] + the sum over all taps, for F filters f and the pixels i = 0 .. V * lanes - 1 at
 * x. */
typedef void tile_function(const walk *w, const float *x, const float *weights, const float *biases, float *out,
                           int64_t pitch);

typedef struct tile_set {
  int lanes, filters;                                       /* floats of a vector; filters of the largest tile */
  tile_function *tiles[MOST_FILTERS + 1][MOST_VECTORS + 1]; /* [F][V]; NULL if there are too few registers */
} tile_set;

/* A task: some output rows of an image, some filters of a group. */
struct walk {
  const gconv_layer_problem *problem;
  gconv_layer_stage stage;
  const tile_set *set;
  int32_t channels, taps; /* C / G and R * S */
  const int64_t *offsets; /* where each tap reads */
  const float *weights;   /* prepared; from the task's first filter on */
  const float *biases;
  float *out;  /* from the task's first filter and row on */
  float *sums; /* MOST_FILTERS x MOST_VECTORS x MOST_LANES, for tiles that cross the end of a row */
};

/* A run: `length` neighbouring staged pixels from x on. Of each `pitch` pixels, only the first `width` are outputs; in `out`
 * they lie without gaps. */
typedef struct run {
  const float *x;
  float *out;
  int64_t length, width, pitch;
} run;

#define TEMPLATE "layer/direct_template.h"
#include "../each_isa.h"

/* ---- Tasks: images, groups, bands of rows, parts of a group's filters ---- */

typedef struct cut {
  int32_t bands, band_rows; /* rows of a band; the last may have fewer */
  int32_t parts, part_blocks;
} cut;

static gconv_blocks blocks_of_group(const gconv_layer_problem *problem) {
  return gconv_blocks_of(problem->filters / problem->groups, OF_THIS_PROCESSOR(&tiles)->filters);
}

/* Cuts bands as high as the stage has room for, or lower if there would be too few tasks. Then cuts parts of filters. */
static cut cut_of(const gconv_layer_problem *problem) {
  int64_t others = (int64_t)problem->images * problem->groups;
  gconv_layer_stage stage = gconv_layer_stage_of(problem, 0, MOST_LANES);
  int64_t staged_row = (int64_t)problem->channels / problem->groups * stage.phases_y * stage.phases_x * stage.pitch;
  int64_t fitting = stage.in_place ? problem->out_height : STAGED_FLOATS / staged_row - stage.reach_y;
  int64_t most = gconv_clamp(fitting, (int64_t)stage.reach_y + 1, problem->out_height);
  int64_t wanted = gconv_divide_up(problem->out_height, gconv_divide_up(gconv_layer_least_tasks(problem), others));
  int64_t rows = gconv_clamp(wanted, gconv_divide_up(LEAST_PIXELS, stage.pitch), most);
  cut c;
  c.bands = (int32_t)gconv_divide_up(problem->out_height, gconv_clamp(rows, 1, problem->out_height));
  c.band_rows = (int32_t)gconv_divide_up(problem->out_height, c.bands);
  c.bands = (int32_t)gconv_divide_up(problem->out_height, c.band_rows);
  gconv_blocks b = blocks_of_group(problem);
  c.part_blocks = (int32_t)gconv_divide_up(b.count, gconv_divide_up(gconv_layer_least_tasks(problem), others * c.bands));
  c.parts = (int32_t)gconv_divide_up(b.count, c.part_blocks);
  return c;
}

static size_t tasks(const gconv_layer_problem *problem) {
  cut c = cut_of(problem);
  return (size_t)problem->images * (size_t)problem->groups * (size_t)c.bands * (size_t)c.parts;
}

/* ---- From tiles to the output ---- */

/* Copies the sums of F filters for `count` pixels of the run to the output, from pixel `start` on. Leaves out the sums
 * between rows. */
static void store_pieces(const walk *w, const run *r, int64_t start, int64_t count, int F, int64_t pitch) {
  int64_t plane = gconv_layer_out_plane(w->problem);
  for (int64_t i = start; i < start + count;) {
    int64_t row = i / r->pitch, q = i % r->pitch;
    int64_t piece = gconv_clamp(r->width - q, 0, start + count - i);
    for (int f = 0; f < F && piece > 0; f++) {
      float *to = r->out + f * plane + row * r->width + q;
      memcpy(to, w->sums + f * pitch + i - start, (size_t)piece * sizeof(float));
      gconv_layer_activate(w->problem, to, (size_t)piece);
    }
    i += q < r->width ? piece : r->pitch - q;
  }
}

static int most_vectors(const walk *w, int F) {
  return w->set->tiles[F][MOST_VECTORS] ? MOST_VECTORS : 3;
}

/* Returns whether a run is a row: then all its pixels are outputs, and tiles are stored directly. */
static bool is_row(const run *r) {
  return r->length == r->width;
}

/* Makes a tile of F filters. r->out is the output of the first filter. In rows, the activation is left to make_block(). */
static void make_tile(const walk *w, const run *r, const float *weights, const float *biases, int64_t start, int F, int V) {
  int64_t n = (int64_t)V * w->set->lanes, row = start / r->pitch, q = start % r->pitch;
  int64_t plane = gconv_layer_out_plane(w->problem);
  tile_function *tile = w->set->tiles[F][V];
  if (is_row(r) && n <= r->width) {
    tile(w, r->x + start, weights, biases, r->out + start, plane);
  } else if (q + n <= r->width) {
    float *out = r->out + row * r->width + q;
    tile(w, r->x + start, weights, biases, out, plane);
    for (int f = 0; f < F; f++)
      gconv_layer_activate(w->problem, out + f * plane, (size_t)n);
  } else {
    tile(w, r->x + start, weights, biases, w->sums, n);
    store_pieces(w, r, start, start + n < r->length ? n : r->length - start, F, n);
  }
}

/* Makes a block of F filters, for pixels from .. end - 1 of the run. If the last tile would reach beyond the end of the run,
 * it is moved back to end there, and makes some pixels again. A tile reaches beyond only if the run is shorter than a
 * vector. */
static void make_block(const walk *w, const run *r, const float *weights, const float *biases, int F, int64_t from,
                       int64_t end) {
  int64_t lanes = w->set->lanes, fitting = gconv_clamp(r->length / lanes, 1, most_vectors(w, F)), least = from;
  int64_t plane = gconv_layer_out_plane(w->problem), behind = from;
  for (int64_t start = from; start < end;) {
    int64_t V = gconv_clamp(gconv_divide_up(end - start, lanes), 1, fitting);
    V = V > 3 && V < MOST_VECTORS ? 3 : V;
    int64_t at = start + V * lanes > r->length ? r->length - V * lanes : start;
    at = at < 0 ? 0 : at;
    make_tile(w, r, weights, biases, at, F, (int)V);
    least = at < least ? at : least;
    behind = at + V * lanes;
    start += V * lanes;
  }
  for (int f = 0; f < F && is_row(r) && behind <= r->width; f++)
    gconv_layer_activate(w->problem, r->out + f * plane + least, (size_t)(behind - least));
}

/* Makes `count` blocks of F filters each, from filter k of the task on, for all pixels of the run. All blocks are made for
 * one piece of the run, then for the next piece. A piece has as many tiles as find their input in the L1 cache, but at least
 * one: the longer the piece, the longer are the rows of outputs that are written. */
static void make_blocks(const walk *w, run r, int32_t k, int F, int32_t count) {
  int64_t plane = gconv_layer_out_plane(w->problem), depth = (int64_t)w->channels * w->taps;
  int64_t tile = (int64_t)most_vectors(w, F) * w->set->lanes;
  int64_t window =
      (int64_t)w->channels * w->problem->rows * w->stage.phases_x; /* floats of the window of one pixel, roughly */
  int64_t step = gconv_clamp(WINDOW_FLOATS / window / tile, 1, r.length) * tile;
  r.out += k * plane;
  for (int64_t from = 0; from < r.length; from += step) {
    run here = r;
    for (int32_t b = 0; b < count; b++, here.out += F * plane)
      make_block(w, &here, w->weights + (k + b * F) * depth, w->biases + k + b * F, F, from,
                 gconv_clamp(from + step, 0, r.length));
  }
}

/* Makes the filters of blocks first .. end - 1, for one run. */
static void make_run(const walk *w, run r, const gconv_blocks *b, int32_t first, int32_t end) {
  int32_t larger = (int32_t)gconv_clamp(b->larger, first, end), start = gconv_block_start(b, first);
  if (larger > first)
    make_blocks(w, r, 0, b->size + 1, larger - first);
  if (end > larger)
    make_blocks(w, r, gconv_block_start(b, larger) - start, b->size, end - larger);
}

/* Makes rows separately or joined, whichever needs fewer vectors. */
static void make_rows(const walk *w, const float *x, int32_t rows, const gconv_blocks *b, int32_t first, int32_t end) {
  int64_t width = w->problem->out_width, joined = (rows - 1) * w->stage.pitch + width, lanes = w->set->lanes;
  run r = {x, w->out, joined, width, w->stage.pitch};
  if (gconv_divide_up(joined, lanes) < rows * gconv_divide_up(width, lanes)) {
    make_run(w, r, b, first, end);
    return;
  }
  r.length = width;
  for (int32_t p = 0; p < rows; p++, r.x += r.pitch, r.out += width)
    make_run(w, r, b, first, end);
}

/* ---- The descriptor ---- */

enum { SUMS_FLOATS = MOST_FILTERS * MOST_VECTORS * MOST_LANES };

static size_t workspace_bytes(const gconv_layer_problem *problem) {
  gconv_layer_stage stage = gconv_layer_stage_of(problem, cut_of(problem).band_rows, MOST_LANES);
  return (gconv_layer_offset_floats(problem) + SUMS_FLOATS +
          gconv_layer_stage_floats(&stage, problem->channels / problem->groups)) *
         sizeof(float);
}

static gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  cut c = cut_of(problem);
  gconv_blocks b = blocks_of_group(problem);
  int32_t part = (int32_t)(e->task % (size_t)c.parts), band = (int32_t)(e->task / (size_t)c.parts % (size_t)c.bands);
  int64_t image_group = (int64_t)(e->task / (size_t)c.parts / (size_t)c.bands); /* n * G + g */
  int32_t first_row = band * c.band_rows, rows = (int32_t)gconv_clamp(problem->out_height - first_row, 0, c.band_rows);
  int32_t first = part * c.part_blocks, end = (int32_t)gconv_clamp(first + c.part_blocks, 0, b.count);
  int32_t filters = problem->filters / problem->groups;
  int64_t k = image_group % problem->groups * filters + gconv_block_start(&b, first);
  int64_t plane = gconv_layer_out_plane(problem);
  walk w = {.problem = problem, .set = OF_THIS_PROCESSOR(&tiles)};
  w.stage = gconv_layer_stage_of(problem, c.band_rows, MOST_LANES);
  w.channels = problem->channels / problem->groups;
  w.taps = problem->rows * problem->columns;
  w.offsets = e->workspace;
  w.sums = (float *)e->workspace + gconv_layer_offset_floats(problem);
  w.weights = gconv_layer_prepared(problem, e->weights) + k * gconv_layer_taps(problem);
  w.biases = gconv_layer_biases(problem, e->weights) + k;
  w.out = e->out + (image_group * filters + gconv_block_start(&b, first)) * plane + (int64_t)first_row * problem->out_width;
  gconv_layer_stage_offsets(&w.stage, problem, e->workspace);
  const float *in = e->in + image_group * w.channels * gconv_layer_in_plane(problem);
  in = gconv_layer_stage_fill(&w.stage, problem, in, w.channels, first_row, rows, w.sums + SUMS_FLOATS);
  make_rows(&w, in, rows, &b, first, end);
  return GCONV_OK;
}

static size_t prepared_floats(const gconv_layer_problem *problem) {
  return (size_t)(problem->filters * gconv_layer_taps(problem));
}

static gconv_status prepare(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  gconv_blocks b = blocks_of_group(problem);
  gconv_blocks_prepare(&b, problem, weights, prepared);
  return GCONV_OK;
}

/* A tap of a tile takes the longest of three times: 1 for each multiply-add; for the loads, 1 for each weight and 1.7 for
 * each vector of pixels, as most of these cross a cache line; and 4, the latency of a sum. */
static double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  const double vector = GCONV_REFERENCE_LANES;
  gconv_blocks b = gconv_blocks_of(problem->filters / problem->groups, REFERENCE_FILTERS);
  gconv_layer_problem any_threads = *problem; /* choices do not depend on the number of threads */
  any_threads.threads = 0;
  cut c = cut_of(&any_threads);
  gconv_layer_stage stage = gconv_layer_stage_of(problem, c.band_rows, MOST_LANES);
  double F = (double)problem->filters / problem->groups / b.count;
  double V = fmin(REFERENCE_VECTORS, ceil((double)stage.pitch * c.band_rows / vector));
  double waits = fmax(fmax(F * V, F + 1.7 * V), 4) / (F * V);
  double apart = ceil((double)problem->out_width / vector) * c.band_rows;
  double joined = ceil(((c.band_rows - 1.0) * (double)stage.pitch + problem->out_width) / vector);
  double lanes = fmin(apart, joined) * vector / ((double)c.band_rows * problem->out_width); /* lanes for each pixel */
  double outputs = (double)problem->images * problem->out_height * problem->out_width * problem->filters;
  double rate =
      problem->rows * problem->columns == 1 ? 0.85 : 0.96; /* part of the peak, measured; 1 x 1 finds nothing in L1 */
  double multiplications = outputs * (double)gconv_layer_taps(problem) * lanes * waits / rate;
  double staged = (double)problem->images * problem->channels * problem->height * problem->width * c.parts;
  /* With a stride of more than a cache line, each staged sample comes from a line of its own. */
  double moving_ns = outputs * 0.1 + (problem->stride_x > CACHE_LINE ? staged * 3 : 0);
  moving_ns += 400.0 * problem->images * problem->groups * c.bands * c.parts; /* to begin a task */
  return gconv_layer_cpu_ms(problem, machine, multiplications, moving_ns);
}

const gconv_layer_algorithm gconv_layer_algorithm_cpu_direct = {
    .info = {"direct", "cpu", "filters x pixels in registers; pixels side by side in vectors", true},
    .supports = gconv_layer_takes_fp32,
    .tasks = tasks,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
    .row_step = 1,
};

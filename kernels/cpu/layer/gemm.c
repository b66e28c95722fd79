/* SPDX-License-Identifier: MIT */
/*
 * gemm: the layer as a product of two matrices, weights (K x C R S) and patches (C R S x pixels). The matrix of patches is
 * never made. Neighbouring filters are neighbours in vectors.
 *
 * A tile is N neighbouring pixels of a row times V = 2 vectors of filters, with its sums in registers. For each tap, V
 * vectors of weights and N samples, each spread over a vector, are loaded for N * V multiply-adds:
 *
 *              pixels  vectors  registers             loads for multiply-adds
 *   AVX-512    14      2 of 16  28 + 2 + 1 of 32      16        28
 *   AVX2       6       2 of 8   12 + 2 + 1 of 16      8         12
 *
 * A row of pixels is cut into tiles of about equal width. Narrower tiles are as fast, so rows may have any length. The
 * filters, however, should fill the vectors. Samples are read from their places in the staged input (stage.h). So the
 * patches are only an arrangement of addresses.
 *
 * If a layer yields one pixel of each image, like a dense layer, the images of a batch are the pixels of a row. Then
 * [pixel][filter] is the output itself, and nothing is transposed.
 *
 * An input in blocks of channels is read in the same way: a panel then has the offsets of all taps of all its channels.
 * Sums become an output in blocks without being transposed.
 *
 * A panel is all taps of a few channels. Panels are processed one after the other. So the panel's weights, in the order in
 * which prepare() wrote them, stay in the L2 cache for all pixels of a task. From panel to panel, the sums are kept in
 * memory, as float32. At the end, the sums are transposed: [pixel][filter] becomes [filter][pixel]. That takes about as long
 * as half a tap. So the algorithm `direct` is faster for few taps.
 */
#include "gemm_cut.h"

#include <math.h>
#include <string.h>

static size_t tasks(const gconv_layer_problem *problem) {
  cut c = cut_of(problem);
  size_t images = c.dense ? 1 : (size_t)problem->images;
  return images * (size_t)problem->groups * (size_t)c.bands * (size_t)c.pieces * (size_t)c.parts;
}

/* A task: some columns of some output rows of an image, for some blocks of filters. */
typedef struct walk {
  const gconv_layer_problem *problem;
  cut cut;
  gconv_layer_stage stage;
  gconv_block_stage blocks; /* of an input in blocks of channels */
  const gconv_product *set;
  int64_t *offsets;
  float *sums, *staged;
  int32_t first_row, rows, first_column, columns, first, end; /* first .. end - 1: vectors of filters */
} walk;

/* Applies a panel to all pixels of the band. x is the samples of the panel's first channel. */
static void add_panel(const walk *w, gconv_panel *p, const float *x, float *sums, int V) {
  int64_t width = w->columns, rows = w->rows, pitch = w->problem->in_blocks ? w->blocks.pitch : w->stage.pitch;
  if (pitch == width * p->step) { /* rows are neighbours, too */
    width *= rows;
    rows = 1;
  }
  for (int64_t row = 0; row < rows; row++, x += pitch, sums += width * V * w->set->lanes)
    gconv_product_row(w->set, p, x, width, V, sums);
}

/* Returns whether the samples of a piece are copied, so that they are contiguous. Without the copy, each tile of a 1 x 1
 * filter would read as many pages of memory as there are channels. */
static bool is_packed(const gconv_layer_problem *problem, const cut *c, const gconv_layer_stage *stage) {
  return c->pieces > 1 && !c->dense && stage->step == 1 && problem->rows * problem->columns == 1;
}

static const float *pack(const walk *w, const float *x, int32_t channels) {
  for (int32_t c = 0; c < channels; c++)
    memcpy(w->staged + (int64_t)c * w->cut.piece, x + c * w->stage.channel, (size_t)w->columns * sizeof *x);
  return w->staged;
}

/* Stages channels c .. c + slice - 1 of the group. Returns the samples of the task's first pixel. */
static const float *stage_channels(const walk *w, const float *in, int32_t c, int32_t slice, int64_t first) {
  const gconv_layer_problem *problem = w->problem;
  if (problem->in_blocks) {
    const gconv_block_window window = {first + c, slice, w->first_row, w->rows, w->first_column, w->columns};
    gconv_block_stage_offsets(&w->blocks, problem, first + c, slice, w->offsets);
    return gconv_block_stage_fill(&w->blocks, problem, in, &window, w->staged);
  }
  const float *x = gconv_layer_stage_fill(&w->stage, problem, in + (first + c) * gconv_layer_in_plane(problem), slice,
                                          w->first_row, w->rows, w->staged) +
                   w->first_column * w->stage.step;
  return is_packed(problem, &w->cut, &w->stage) ? pack(w, x, slice) : x;
}

/* Returns the weights of the block that begins with vector v for the channels from c on; `weights` are those of the group.
 */
static const float *weights_of(const walk *w, const float *weights, int32_t v, int32_t c) {
  const gconv_layer_problem *problem = w->problem;
  const int64_t taps = problem->rows * problem->columns, V = vectors_of_block(v, w->end);
  return weights + (v * gconv_layer_taps(problem) + c * taps * V) * w->set->lanes;
}

/* Applies all taps of the task's filters. `weights` are the group's prepared weights, `in` is the image, and `first` the
 * group's first channel. */
static void add_channels(const walk *w, const float *weights, const float *in, int64_t first) {
  const gconv_layer_problem *problem = w->problem;
  int32_t channels = problem->channels / problem->groups;
  int64_t pixels = (int64_t)w->rows * w->columns;
  const bool packed = is_packed(problem, &w->cut, &w->stage), blocks = problem->in_blocks;
  gconv_panel p = {.offsets = w->offsets,
                   .channel = packed ? w->cut.piece : w->stage.channel,
                   .step = blocks ? w->blocks.step : w->stage.step,
                   .taps = problem->rows * problem->columns};
  for (int32_t c = 0; c < channels; c += w->cut.channels) {
    int32_t slice = (int32_t)gconv_clamp(w->cut.channels, 0, channels - c);
    p.channels = slice;
    p.begins = c == 0;
    if (is_flat(problem) || blocks) {
      p.taps = p.channels * problem->rows * problem->columns;
      p.channels = 1;
    }
    const float *x = stage_channels(w, in, c, slice, first);
    float *sums = w->sums;
    for (int32_t v = w->first; v < w->end; v += VECTORS) {
      const int V = vectors_of_block(v, w->end);
      p.half =
          !problem->out_blocks && V == 1 && 2 * (problem->filters / problem->groups - v * w->set->lanes) <= w->set->lanes;
      p.weights = weights_of(w, weights, v, c);
      gconv_panel_expect(
          &p, v + VECTORS < w->end ? weights_of(w, weights, v + VECTORS, c) : weights_of(w, weights, w->first, c + slice),
          (int64_t)p.channels * p.taps * V * w->set->lanes);
      add_panel(w, &p, x, sums, V);
      sums += pixels * V * w->set->lanes;
    }
  }
}

/* ---- From sums to the output ---- */

/* Stores the sums of a task with biases and activation. `biases` begins with the group's first filter. `out` is the output
 * of the group's first filter at the task's first pixel. */
static void finish(const walk *w, const float *biases, float *out) {
  int64_t filters = w->problem->filters / w->problem->groups, lanes = w->set->lanes;
  int64_t pixels = (int64_t)w->rows * w->columns, plane = gconv_layer_out_plane(w->problem);
  const bool whole = w->columns == w->problem->out_width; /* rows are neighbours */
  const int64_t runs = whole ? 1 : w->rows, run = pixels / runs;
  const float *sums = w->sums;
  for (int32_t first = w->first; first < w->end; first += VECTORS) {
    const int V = vectors_of_block(first, w->end);
    for (int v = 0; v < V; v++)
      for (int64_t i = 0; i < runs; i++) {
        int64_t k = (first + v) * lanes;
        gconv_product_finish(w->set, w->problem, sums + (i * run * V + v) * lanes, V * lanes, run, biases + k, filters - k,
                             out + k * plane + i * w->problem->out_width);
      }
    sums += pixels * V * lanes;
  }
}

/* Does the same for an output in blocks of channels. `out` is where the image's block 0 has the task's first pixel; `first`
 * is the group's first filter. */
static void finish_blocks(const walk *w, const float *biases, int64_t first, float *out) {
  const float *sums = w->sums;
  for (int32_t v = w->first; v < w->end; v += VECTORS) {
    const int V = vectors_of_block(v, w->end);
    const int64_t k = v * w->set->lanes;
    gconv_product_finish_blocks(w->set, w->problem, sums, V, w->rows, w->columns, biases + k, first + k, out);
    sums += (int64_t)w->rows * w->columns * V * w->set->lanes;
  }
}

/* Stores the sums of a dense layer, whose output is [image][filter]. `out` is the output of the group's first filter for the
 * task's first image. */
static void finish_dense(const walk *w, const float *biases, float *out) {
  const int64_t filters = w->problem->filters / w->problem->groups;
  const float *sums = w->sums;
  for (int32_t v = w->first; v < w->end; v += VECTORS) {
    const int64_t k = v * w->set->lanes, pitch = vectors_of_block(v, w->end) * w->set->lanes;
    gconv_layer_finish(w->problem, sums, pitch, biases + k, gconv_clamp(filters - k, 0, pitch), w->columns, out + k);
    sums += w->columns * pitch;
  }
}

/* ---- Tasks with one panel: sums of a few pixels at a time never leave the L1 cache ---- */

/* Lists what a tile of a 1 x 1 filter prefetches: soon[t] is the offset of the cache line that it asks for with tap t. These
 * lines have the samples of the next piece of the row, which begins `ahead` floats after this one. A block of channels has
 * GCONV_BLOCK taps, and a tile has fewer pixels, so there is a tap for the line of each pixel. Processors do not prefetch
 * these pieces by themselves. */
static void fill_soon(const walk *w, int64_t ahead, int64_t *soon) {
  const int64_t taps = w->problem->channels / w->problem->groups;
  for (int64_t t = 0; t < taps; t++)
    soon[t] = ahead + t / GCONV_BLOCK * w->blocks.block + t % GCONV_BLOCK * w->blocks.step;
}

/* Makes vectors of filters begin .. end - 1 of `count` neighbouring pixels. `weights` and `biases` are those of the group,
 * whose first filter is `first`. `x` has the samples of the first pixel, and `out` is that pixel in block 0 of the image.
 * new_weights: the weights are not in the caches yet. `soon`: what fill_soon() lists, for the last filters; or NULL. */
static void make_pixels(const walk *w, gconv_panel *p, const float *weights, const float *biases, int64_t first,
                        const float *x, int64_t count, int32_t begin, int32_t end, bool new_weights, const int64_t *soon,
                        float *out) {
  const int64_t lanes = w->set->lanes, depth = gconv_layer_taps(w->problem);
  const int64_t block = gconv_layer_out_plane(w->problem) * GCONV_BLOCK;
  gconv_layer_bounds bounds;
  for (int32_t v = begin; v < end; v += VECTORS) {
    const int V = vectors_of_block(v, end);
    const int64_t k = v * lanes;
    p->weights = weights + k * depth;
    if (new_weights)
      gconv_panel_expect(p, p->weights + V * depth * lanes, V * depth * lanes);
    p->soon = soon && v + V >= end ? x : NULL;
    p->soon_offsets = soon;
    const float *added = gconv_layer_added(w->problem, out + (first + k) / GCONV_BLOCK * block, &bounds);
    for (int64_t b = 0; b < V * lanes && added; b += GCONV_BLOCK) /* gcc leaves out calls of functions that only prefetch */
      for (int64_t i = 0; i < count; i++)
        FETCH(added + b / GCONV_BLOCK * block + i * GCONV_BLOCK);
    gconv_product_row(w->set, p, x, count, V, w->sums);
    gconv_product_finish_blocks(w->set, w->problem, w->sums, V, 1, count, biases + k, first + k, out);
  }
}

/* Makes a task with one panel. As many filters as have weights that fit into the L2 cache are applied to a few pixels at a
 * time. */
static void make_blocks(const walk *w, const float *weights, const float *biases, const float *in, int64_t channel,
                        int64_t filter, float *out) {
  const gconv_layer_problem *problem = w->problem;
  const int32_t channels = problem->channels / problem->groups;
  const int64_t block_floats = gconv_layer_taps(problem) * VECTORS * w->set->lanes;
  const int32_t together = VECTORS * (int32_t)gconv_clamp(WHOLE_PANEL_FLOATS / block_floats, 1, INT16_MAX);
  gconv_panel p = {.offsets = w->offsets, .step = w->blocks.step, .channels = 1, .begins = true};
  int64_t width = w->columns, rows = w->rows, *soon = NULL;
  p.taps = (int32_t)gconv_layer_taps(problem);
  p.soon_step = p.step;
  const float *x = stage_channels(w, in, 0, channels, channel);
  if (w->blocks.pitch == width * p.step && width == problem->out_width) { /* rows are neighbours */
    width *= rows;
    rows = 1;
  }
  const int64_t piece = chunk_pixels(problem);
  if (w->blocks.in_place && problem->rows * problem->columns == 1) {
    soon = w->offsets + channels;
    fill_soon(w, piece * p.step, soon);
  }
  for (int32_t v = w->first, end; v < w->end; v = end) {
    end = v + together < w->end ? v + together : w->end;
    for (int64_t row = 0; row < rows; row++)
      for (int64_t i = 0, count; i < width; i += count) {
        const float *from = x + row * w->blocks.pitch + i * p.step;
        count = gconv_clamp(width - i, 0, piece);
        make_pixels(w, &p, weights, biases, filter, from, count, v, end, row + i == 0, soon,
                    out + (row * problem->out_width + i) * GCONV_BLOCK);
      }
  }
}

/* ---- The descriptor ---- */

static size_t offset_floats(const gconv_layer_problem *problem, const cut *c) {
  gconv_layer_problem like = *problem;
  like.rows *= is_flat(problem) || problem->in_blocks ? c->channels : 1;
  like.rows *= has_one_panel(problem) && like.columns == 1 ? 2 : 1; /* with what tiles of 1 x 1 prefetch */
  return gconv_layer_offset_floats(&like);
}

static void fill_offsets(const walk *w) {
  int32_t taps = is_flat(w->problem) ? w->cut.channels * w->problem->rows * w->problem->columns : 0;
  gconv_layer_stage_offsets(&w->stage, w->problem, w->offsets);
  for (int32_t i = 0; i < taps; i++)
    w->offsets[i] = i;
}

/* Returns the floats of sums in the workspace, which has offsets of taps, sums, and the staged channels of a panel. */
static size_t sums_floats(const gconv_layer_problem *problem, const cut *c) {
  if (has_one_panel(problem))
    return (size_t)chunk_pixels(problem) * VECTORS * (size_t)gconv_product_here()->lanes;
  return (size_t)c->part * (size_t)gconv_product_here()->lanes * (size_t)c->band_rows * (size_t)c->piece;
}

static size_t workspace_bytes(const gconv_layer_problem *problem) {
  cut c = cut_of(problem);
  gconv_layer_stage stage = stage_of(problem, c.band_rows);
  const gconv_block_stage blocks = gconv_block_stage_of(problem, c.band_rows, c.piece);
  size_t staged = problem->in_blocks               ? gconv_block_stage_floats(&blocks, c.channels)
                  : is_packed(problem, &c, &stage) ? (size_t)c.channels * (size_t)c.piece + GCONV_STAGE_SLACK
                                                   : gconv_layer_stage_floats(&stage, c.channels);
  return (offset_floats(problem, &c) + sums_floats(problem, &c) + staged) * sizeof(float);
}

static gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  walk w = {.problem = problem, .cut = cut_of(problem), .set = gconv_product_here(), .offsets = e->workspace};
  size_t parts = (size_t)w.cut.parts, pieces = (size_t)w.cut.pieces, bands = (size_t)w.cut.bands;
  int64_t image_group = (int64_t)(e->task / parts / pieces / bands), group = image_group % problem->groups; /* n * G + g */
  w.stage = stage_of(problem, w.cut.band_rows);
  w.blocks = gconv_block_stage_of(problem, w.cut.band_rows, w.cut.piece);
  w.sums = (float *)e->workspace + offset_floats(problem, &w.cut);
  w.staged = w.sums + sums_floats(problem, &w.cut);
  w.first_row = (int32_t)(e->task / parts / pieces % bands) * w.cut.band_rows;
  w.rows = (int32_t)gconv_clamp(problem->out_height - w.first_row, 0, w.cut.band_rows);
  w.first_column = (int32_t)(e->task / parts % pieces) * w.cut.piece;
  w.columns = (int32_t)gconv_clamp((w.cut.dense ? problem->images : problem->out_width) - w.first_column, 0, w.cut.piece);
  w.first = (int32_t)(e->task % parts) * w.cut.part;
  w.end = (int32_t)gconv_clamp(w.first + w.cut.part, 0, vectors_of_group(problem));
  if (!problem->in_blocks)
    fill_offsets(&w);
  int64_t channels = problem->channels / problem->groups, filters = problem->filters / problem->groups;
  const int64_t plane = gconv_layer_out_plane(problem), image = image_group / problem->groups;
  const int64_t pixel = (int64_t)w.first_row * problem->out_width + w.first_column;
  const float *biases = gconv_layer_biases(problem, e->weights) + group * filters;
  const float *weights = gconv_layer_prepared(problem, e->weights) +
                         group * vectors_of_group(problem) * w.set->lanes * gconv_layer_taps(problem);
  const float *in =
      e->in + image * gconv_layer_image_floats(problem->channels, gconv_layer_in_plane(problem), problem->in_blocks);
  float *block = e->out + image * gconv_layer_image_floats(problem->filters, plane, true) + pixel * GCONV_BLOCK;
  if (has_one_panel(problem)) {
    make_blocks(&w, weights, biases, in, group * channels, group * filters, block);
    gconv_product_end_blocks();
    return GCONV_OK;
  }
  add_channels(&w, weights, in, group * channels);
  if (w.cut.dense) {
    finish_dense(&w, biases, e->out + (int64_t)w.first_column * problem->filters + group * filters);
  } else if (problem->out_blocks) {
    finish_blocks(&w, biases, group * filters, block);
    gconv_product_end_blocks();
  } else {
    finish(&w, biases, e->out + image_group * filters * plane + pixel);
  }
  return GCONV_OK;
}

static size_t prepared_floats(const gconv_layer_problem *problem) {
  return (size_t)problem->groups * (size_t)vectors_of_group(problem) * (size_t)gconv_product_here()->lanes *
         (size_t)gconv_layer_taps(problem);
}

/* Writes the weights in the order in which blocks read them: for each block, tap after tap, the weights of its filters, and
 * zeros in place of missing filters. */
static gconv_status prepare(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  const int64_t depth = gconv_layer_taps(problem), filters = problem->filters / problem->groups;
  const int64_t lanes = gconv_product_here()->lanes;
  const int32_t vectors = vectors_of_group(problem), part = cut_of(problem).part;
  for (int32_t g = 0; g < problem->groups; g++, weights += filters * depth)
    for (int32_t v = 0, V; v < vectors; v += V) {
      V = vectors_of_block(v, (int32_t)gconv_clamp((v / part + 1) * part, 0, vectors));
      const int64_t first = v * lanes, width = V * lanes;
      for (int64_t i = 0; i < width; i++)
        for (int64_t t = 0; t < depth; t++)
          prepared[t * width + i] = first + i < filters ? weights[(first + i) * depth + t] : 0;
      prepared += depth * width;
    }
  return GCONV_OK;
}

/* A tap of a tile takes a cycle for each multiply-add or each load, whichever are more, and at least 4 cycles, the latency
 * of a multiply-add. */
static double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  double outputs = (double)problem->images * problem->out_height * problem->out_width * problem->filters;
  double width = is_dense(problem) ? problem->images : problem->out_width; /* pixels of the rows that are cut into tiles */
  double vectors = ceil((double)problem->filters / problem->groups / GCONV_REFERENCE_LANES);
  double N = width / ceil(width / REFERENCE_PIXELS), V = vectors > 1 ? 2 : 1;
  double waits = fmax(fmax(N * V, N + V + 1), 4) / (N * V);
  double lanes = vectors * GCONV_REFERENCE_LANES * problem->groups / problem->filters; /* for each filter, with padding */
  double rate = problem->rows * problem->columns == 1 && !is_dense(problem) ? 0.75 : 0.97; /* 1 x 1 finds little in L1 */
  if (problem->in_blocks)
    rate = 0.97;
  double multiplications = outputs * (double)gconv_layer_taps(problem) * lanes * waits / rate;
  double moving_ns = outputs * ((problem->out_blocks ? 0.03 : 0.1) +
                                0.1 * fmin(1, outputs / (1 << 21))); /* slower if they leave the caches */
  return gconv_layer_cpu_ms(problem, machine, multiplications, moving_ns);
}

static const char *supports(const gconv_layer_problem *problem) {
  if ((problem->in_blocks || problem->out_blocks) && is_dense(problem))
    return "blocks of channels of one pixel";
  const char *obstacle = gconv_layer_takes_blocks(problem, gconv_product_here()->lanes);
  return obstacle ? obstacle : gconv_layer_takes_fp32(problem);
}

const gconv_layer_algorithm gconv_layer_algorithm_cpu_gemm = {
    .info = {"gemm", "cpu", "weights times patches that are never laid out; filters side by side in vectors", true},
    .supports = supports,
    .blocks = true,
    .tasks = tasks,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
    .row_step = 1,
};

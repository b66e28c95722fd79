/* SPDX-License-Identifier: MIT */
/* Cuts images into tiles: finds their sizes and places. tile_reach.c finds which elements a tile needs. */
#include "base/memory.h"
#include "graph/gpu.h"
#include "graph/tail.h"
#include "graph/tile.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SMALLEST = 32 };

/* ---- Tiles ---- */

/* Rounds the size of a tile so that the last one ends with the image, and begins at a multiple of the stride. */
static int64_t fit_size(const gconv_graph_tiles *t, int32_t axis, double wanted) {
  const int64_t size = t->in[axis], stride = t->stride[axis], rest = size % stride;
  if (wanted >= (double)size)
    return size;
  const int64_t fitted = rest + ((int64_t)wanted + stride - 1) / stride * stride;
  return fitted < size ? fitted : size;
}

/* A tile makes elements first .. *last - 1 of a value that has `all` elements along the axis. Finds *last. */
static gconv_status find_end(gconv_graph_tiles *t, int32_t axis, int32_t value, int64_t all, int64_t at, int64_t first,
                             int64_t *last) {
  const int64_t stop = at + t->size[axis];
  int64_t low = first, high = all; /* the tile makes elements before `low`; those from `high` on need inputs after it */
  gconv_tile_range need;
  if (stop >= t->in[axis]) {
    *last = high;
    return GCONV_OK;
  }
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    GCONV_TRY(gconv_tile_follow_back(t, axis, value, (gconv_tile_range){middle, middle + 1}, &need));
    if (need.end <= stop)
      low = middle + 1;
    else
      high = middle;
  }
  *last = low;
  return GCONV_OK;
}

/* Cuts an axis into tiles of t->size[axis] inputs. *cut is false if a tile is too small for the inputs of one result. */
static gconv_status cut_axis(gconv_graph_tiles *t, int32_t axis, bool *cut) {
  const int64_t farthest = t->in[axis] - t->size[axis], stride = t->stride[axis];
  const int32_t result = t->whole->graph->outputs[0];
  gconv_release(t->tiles[axis]);
  t->tiles[axis] = NULL;
  t->count[axis] = 0;
  void *memory = NULL;
  GCONV_TRY(gconv_allocate((size_t)(t->cut.out[axis] + 1) * sizeof(gconv_tile), "the tiles of an image", &memory));
  t->tiles[axis] = memory;
  *cut = true;
  for (int64_t first = 0, last; first < t->cut.out[axis]; first = last) {
    gconv_tile_range need;
    GCONV_TRY(gconv_tile_follow_back(t, axis, result, (gconv_tile_range){first, first + 1}, &need));
    int64_t at = need.begin / stride * stride;
    at = at < farthest ? at : farthest;
    GCONV_TRY(find_end(t, axis, result, t->cut.out[axis], at, first, &last));
    if (last <= first || t->count[axis] >= t->cut.out[axis]) {
      *cut = false;
      return GCONV_OK;
    }
    t->tiles[axis][t->count[axis]++] = (gconv_tile){at, {first, last}};
  }
  return GCONV_OK;
}

/* Makes the tiles along an axis as small as their number allows, so that they are of similar size and overlap little. */
static gconv_status balance(gconv_graph_tiles *t, int32_t axis) {
  const int64_t count = t->count[axis], stride = t->stride[axis], rest = t->in[axis] % stride;
  int64_t high = (t->size[axis] - rest) / stride, low = t->in[axis] / count / stride - 1; /* too few strides */
  bool cut;
  if (count == 1)
    return GCONV_OK;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    t->size[axis] = rest + middle * stride;
    cut = t->size[axis] > 0;
    if (cut)
      GCONV_TRY(cut_axis(t, axis, &cut));
    if (cut && t->count[axis] == count)
      high = middle;
    else
      low = middle;
  }
  t->size[axis] = rest + high * stride;
  return cut_axis(t, axis, &cut);
}

/* Cuts the height into bands of t->cut.rows rows of the result. Sets t->size[0] to the most rows of the image that a band
 * needs. */
static gconv_status cut_bands(gconv_graph_tiles *t) {
  const int64_t rows = t->cut.rows, count = (t->cut.out[0] - 1) / rows + 1, stride = t->stride[0];
  int64_t most = 1;
  void *memory = NULL;
  GCONV_TRY(gconv_allocate((size_t)count * sizeof(gconv_tile), "the bands of an image", &memory));
  t->tiles[0] = memory;
  t->count[0] = count;
  for (int64_t i = 0; i < count; i++) {
    const gconv_tile_range core = {i * rows, (i + 1) * rows < t->cut.out[0] ? (i + 1) * rows : t->cut.out[0]};
    gconv_tile_range need;
    GCONV_TRY(gconv_tile_follow_back(t, 0, t->whole->graph->outputs[0], core, &need));
    t->tiles[0][i] = (gconv_tile){need.begin / stride * stride, core};
    most = need.end - t->tiles[0][i].at > most ? need.end - t->tiles[0][i].at : most;
  }
  t->size[0] = fit_size(t, 0, (double)most);
  for (int64_t i = 0, farthest = t->in[0] - t->size[0]; i < count; i++)
    t->tiles[0][i].at = t->tiles[0][i].at < farthest ? t->tiles[0][i].at : farthest;
  return GCONV_OK;
}

/* Fails if a node computes something else in a tile than in the whole image: if sizes of values do not fit a part of the
 * image, or constants that follow from the size of the image differ. */
static gconv_status compare_plans(const gconv_graph_tiles *t) {
  const gconv_graph_plan *whole = t->whole, *plan = t->plan;
  if (plan->step_count != whole->step_count)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: what is computed depends on the size of the image: it is not cut into tiles",
                      whole->graph->path);
  for (size_t i = 0; i < plan->step_count; i++) {
    const gconv_graph_step *s = &plan->steps[i], *other = &whole->steps[i];
    const gconv_node_fused *f = &s->work.fused, *g = &other->work.fused;
    const size_t scales =
        s->work.out[0] && s->work.out[0]->axes > 1 ? (size_t)s->work.out[0]->shape[1] * sizeof *f->scale : 0;
    bool same = s->node == other->node && f->activation == g->activation && f->slope == g->slope && !f->scale == !g->scale &&
                !f->shift == !g->shift && (!f->scale || memcmp(f->scale, g->scale, scales) == 0) &&
                (!f->shift || memcmp(f->shift, g->shift, scales) == 0) && gconv_tail_same(f->tail, g->tail);
    for (int32_t k = 0; k < s->work.in_count && same; k++) {
      const gconv_tensor *a = s->work.in[k], *b = other->work.in[k];
      const bool constant = a && b && s->in[k] >= 0 && t->up[0][s->in[k]] == 0 && whole->block_of[s->in[k]] == -1 &&
                            !(k < 32 && (s->node->kind->known | s->node->kind->unread) >> k & 1);
      if (constant && a->data != b->data)
        same = a->data && b->data && a->type == b->type && gconv_tensor_bytes(a) == gconv_tensor_bytes(b) &&
               memcmp(a->data, b->data, gconv_tensor_bytes(a)) == 0;
    }
    for (int32_t k = 0; k < s->work.out_count && same; k++) {
      const gconv_tensor *a = s->work.out[k], *b = other->work.out[k];
      for (int32_t axis = 0; a && b && axis < GCONV_TILE_AXES && same; axis++) {
        const int64_t up = t->up[axis][s->out[k]], down = t->down[axis][s->out[k]];
        same = up == 0 ? gconv_tensor_elements(a) == gconv_tensor_elements(b)
                       : (a->axes == GCONV_TILE_FIRST + GCONV_TILE_AXES && b->axes == a->axes &&
                          (b->shape[GCONV_TILE_FIRST + axis] - a->shape[GCONV_TILE_FIRST + axis]) * down ==
                              (t->in[axis] - t->size[axis]) * up);
      }
    }
    if (!same)
      return gconv_fail(GCONV_UNSUPPORTED,
                        "%s: node '%s' (%s) depends on the size of the image, so the image cannot be cut into tiles",
                        whole->graph->path, s->node->name, s->node->kind->name);
  }
  return GCONV_OK;
}

/* Plans a tile. */
static gconv_status plan_tile(gconv_graph_tiles *t) {
  const gconv_tensor input = {.type = GCONV_TENSOR_F32,
                              .axes = GCONV_TILE_FIRST + GCONV_TILE_AXES,
                              .shape = {1, t->channels, t->size[0], t->size[1]}};
  gconv_graph_options options = t->whole->options;
  options.any_size = true;
  gconv_graph_plan_free(t->plan);
  t->plan = NULL;
  GCONV_TRY(gconv_graph_plan_create(t->whole->graph, &input, &options, &t->plan));
  return compare_plans(t);
}

static gconv_status fail_most(const gconv_graph_tiles *t) {
  return gconv_fail(GCONV_UNSUPPORTED,
                    "%s: its results depend on so much of the image that tiles of it need more than %zu MB of memory",
                    t->whole->graph->path, t->cut.most >> 20);
}

/* Returns an estimate of the bytes that a pixel of a tile needs. */
static double pixel_bytes(const gconv_graph_tiles *t) {
  return (double)t->whole->arena_bytes / ((double)t->in[0] * (double)t->in[1]);
}

/* Chooses the size: the largest part of the image for which the memory suffices, in tiles as square as the image allows. */
static gconv_status choose_size(gconv_graph_tiles *t) {
  bool cut[GCONV_TILE_AXES] = {false, false};
  for (double area = (double)t->cut.most / pixel_bytes(t); area >= SMALLEST * SMALLEST; area *= 0.7) {
    const double side = sqrt(area);
    const int32_t narrow = t->in[0] < t->in[1] ? 0 : 1;
    t->size[narrow] = fit_size(t, narrow, side);
    t->size[1 - narrow] = fit_size(t, 1 - narrow, fmax(side, area / (double)t->size[narrow]));
    for (int32_t axis = 0; axis < GCONV_TILE_AXES; axis++)
      GCONV_TRY(cut_axis(t, axis, &cut[axis]));
    if (!cut[0] || !cut[1])
      break;
    for (int32_t axis = 0; axis < GCONV_TILE_AXES; axis++)
      GCONV_TRY(balance(t, axis));
    GCONV_TRY(plan_tile(t));
    if (t->plan->arena_bytes <= t->cut.most)
      return GCONV_OK;
  }
  return fail_most(t);
}

/* Cuts the height into bands, and chooses the width of their tiles: the widest for which the memory suffices. But it is at
 * most twice the height, as more rows save more of what overlaps than a greater width. Low tiles are wider, up to WIDEST
 * times the height and WIDE columns: they have little memory, and are many. */
static gconv_status choose_width(gconv_graph_tiles *t) {
  enum { WIDEST = 4, WIDE = 256 };
  bool cut;
  GCONV_TRY(cut_bands(t));
  const double height = (double)t->size[0], most = fmax(fmax(2 * height, fmin(WIDEST * height, WIDE)), SMALLEST);
  for (double width = fmin((double)t->cut.most / pixel_bytes(t) / height, most); width >= SMALLEST; width *= 0.7) {
    t->size[1] = fit_size(t, 1, width);
    GCONV_TRY(cut_axis(t, 1, &cut));
    if (!cut)
      break;
    GCONV_TRY(balance(t, 1));
    GCONV_TRY(plan_tile(t));
    if (t->plan->arena_bytes <= t->cut.most)
      return GCONV_OK;
  }
  return fail_most(t);
}

/* ---- Measuring the whole image ---- */

/* Lists the steps that need moments, each with its pass. Steps that depend on no other moments are in the first pass. */
static gconv_status list_measured(gconv_graph_tiles *t) {
  const gconv_graph_plan *p = t->whole;
  GCONV_FREED size_t *passes = calloc(p->graph->value_count + 1, sizeof *passes); /* passes before a value is known */
  t->measured = calloc(p->step_count + 1, sizeof *t->measured);
  t->runs = calloc(p->step_count + 1, sizeof *t->runs);
  t->wanted = calloc(p->graph->value_count + 1, sizeof *t->wanted);
  if (!passes || !t->measured || !t->runs || !t->wanted)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for tiles", p->graph->path);
  for (size_t i = 0; i < p->step_count; i++) {
    const gconv_graph_step *s = &p->steps[i];
    size_t before = s->added >= 0 ? passes[s->added] : 0;
    for (int32_t k = 0; k < s->work.in_count; k++)
      before = s->in[k] >= 0 && passes[s->in[k]] > before ? passes[s->in[k]] : before;
    const bool measured = gconv_tile_is_measured(t, s);
    if (measured) {
      t->measured[t->measured_count++] =
          (gconv_measured){.step = i, .pass = before, .value = s->in[0], .channels = s->work.in[0]->shape[1]};
      t->measurings = before + 1 > t->measurings ? before + 1 : t->measurings;
    }
    for (int32_t k = 0; k < s->work.out_count; k++)
      if (s->out[k] >= 0)
        passes[s->out[k]] = before + measured;
  }
  t->pass = t->measurings;
  return GCONV_OK;
}

/* Shares the elements of a value among the tiles of an axis: each tile measures those that it makes first. */
static gconv_status share_measuring(gconv_graph_tiles *t, gconv_measured *m, int32_t axis) {
  const int64_t all = t->whole->tensors[m->value].shape[GCONV_TILE_FIRST + axis];
  int64_t first = 0;
  void *memory = NULL;
  GCONV_TRY(gconv_allocate((size_t)t->count[axis] * sizeof *m->ends[axis], "the tiles of an image", &memory));
  m->ends[axis] = memory;
  for (int64_t i = 0; i < t->count[axis]; i++) {
    const int64_t at = t->tiles[axis][i].at;
    gconv_tile_range need = {at, 0};
    if (first < all)
      GCONV_TRY(gconv_tile_follow_back(t, axis, m->value, (gconv_tile_range){first, first + 1}, &need));
    if (first < all && need.begin >= at)
      GCONV_TRY(find_end(t, axis, m->value, all, at, first, &first));
    m->ends[axis][i] = first;
  }
  const gconv_graph_step *s = &t->whole->steps[m->step];
  return first == all ? GCONV_OK : gconv_tile_refuse(t->whole, s);
}

static gconv_status make_measured(gconv_graph_tiles *t) {
  for (size_t i = 0; i < t->measured_count; i++) {
    gconv_measured *m = &t->measured[i];
    for (int32_t axis = 0; axis < GCONV_TILE_AXES; axis++)
      GCONV_TRY(share_measuring(t, m, axis));
    GCONV_NEW(m->moments, (size_t)t->cut.images * (size_t)m->channels, "%s: no memory for tiles", t->whole->graph->path);
  }
  return GCONV_OK;
}

static gconv_status fill(gconv_graph_tiles *t) {
  const gconv_graph *g = t->whole->graph;
  const gconv_tensor *in = gconv_graph_plan_input(t->whole, 0), *out = gconv_graph_plan_output(t->whole, 0);
  if (g->input_count != 1 || in->axes != GCONV_TILE_FIRST + GCONV_TILE_AXES ||
      out->axes != GCONV_TILE_FIRST + GCONV_TILE_AXES || in->shape[0] != 1 || out->type != GCONV_TENSOR_F32)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: only graphs from one image to one image are cut into tiles", g->path);
  t->channels = in->shape[1];
  t->filters = out->shape[1];
  t->needed = calloc(g->value_count + 1, sizeof *t->needed);
  for (int32_t axis = 0; axis < GCONV_TILE_AXES; axis++) {
    t->up[axis] = calloc(g->value_count + 1, sizeof **t->up);
    t->down[axis] = calloc(g->value_count + 1, sizeof **t->down);
    if (!t->needed || !t->up[axis] || !t->down[axis])
      return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for tiles", g->path);
    t->in[axis] = in->shape[GCONV_TILE_FIRST + axis];
    GCONV_TRY(gconv_tile_find_stride(t, axis));
  }
  GCONV_TRY(list_measured(t));
  GCONV_TRY(t->cut.rows > 0 ? choose_width(t) : choose_size(t));
  return make_measured(t);
}

gconv_status gconv_graph_tiles_create(const gconv_graph_plan *whole, const gconv_graph_cut *cut, gconv_graph_tiles **tiles) {
  gconv_graph_tiles *made;
  GCONV_NEW(made, 1, "%s: no memory for tiles", whole->graph->path);
  made->whole = whole;
  made->cut = *cut;
  const gconv_status status = fill(made);
  made->whole = NULL;
  if (status == GCONV_OK)
    *tiles = made;
  else
    gconv_graph_tiles_free(made);
  return status;
}

void gconv_graph_tiles_free(gconv_graph_tiles *t) {
  if (!t)
    return;
  gconv_graph_plan_free(t->plan);
  for (int32_t axis = 0; axis < GCONV_TILE_AXES; axis++) {
    gconv_release(t->tiles[axis]);
    free(t->up[axis]);
    free(t->down[axis]);
  }
  for (size_t i = 0; i < t->measured_count; i++) {
    for (int32_t axis = 0; axis < GCONV_TILE_AXES; axis++)
      gconv_release(t->measured[i].ends[axis]);
    free(t->measured[i].moments);
  }
  free(t->measured);
  free(t->runs);
  free(t->wanted);
  free(t->needed);
  free(t);
}

gconv_status gconv_graph_tiles_allocate(gconv_graph_tiles *t) {
  return gconv_graph_plan_allocate(t->plan);
}

const gconv_graph_plan *gconv_graph_tiles_plan(const gconv_graph_tiles *t) {
  return t->plan;
}

void gconv_graph_tiles_tell(const gconv_graph_tiles *t, char *text, size_t size) {
  const int used = snprintf(text, size, "%" PRId64 " tiles of %" PRId64 " x %" PRId64 " (height, width)",
                            t->count[0] * t->count[1], t->size[0], t->size[1]);
  if (t->measurings > 0 && used > 0 && (size_t)used < size)
    snprintf(text + used, size - (size_t)used, "; before the result is made, %zu passes measure the whole image",
             t->measurings);
}

/* SPDX-License-Identifier: MIT */
/* Cuts images into tiles: what results depend on, and the sizes and places of tiles. */
#include "base/memory.h"
#include "graph/gpu.h"
#include "graph/tail.h"
#include "graph/tile.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_STRIDE = 1 << 16, SMALLEST = 32 };

/* ---- What a result depends on ---- */

static bool flows(const gconv_graph_step *s, int32_t input) {
  return s->work.in[input] && s->in[input] >= 0 &&
         !(input < 32 && (s->node->kind->unread | s->node->kind->known) >> input & 1);
}

static gconv_status fail_all(const gconv_graph_plan *p, const gconv_graph_step *s) {
  return gconv_fail(GCONV_UNSUPPORTED, "%s: node '%s' (%s) sees the whole image, so it cannot be cut into tiles",
                    p->graph->path, s->node->name, s->node->kind->name);
}

/* Whether pixels have a place in an input of a step. They have none in constants, and in what follows from moments alone. */
static bool has_pixels(const gconv_graph_tiles *t, const gconv_graph_step *s, int32_t input, int32_t axis) {
  return flows(s, input) && t->whole->block_of[s->in[input]] >= 0 && t->up[axis][s->in[input]] != 0;
}

/* Whether a step needs the moments of its input 0. */
static bool is_measured(const gconv_graph_tiles *t, const gconv_graph_step *s) {
  const gconv_tensor *in = s->work.in_count > 0 ? s->work.in[0] : NULL;
  return in && has_pixels(t, s, 0, 0) && s->node->kind->reach == GCONV_REACH_WINDOW &&
         in->axes == GCONV_TILE_FIRST + GCONV_TILE_AXES &&
         s->node->kind->window(&s->work, 0, GCONV_TILE_FIRST).denominator == GCONV_BY_MOMENTS;
}

/* Sets *window to the window of an input of a step. *there is false if no place in the input belongs to one in the output.
 */
static gconv_status find_window(const gconv_graph_tiles *t, const gconv_graph_step *s, int32_t input, int32_t axis,
                                gconv_node_window *window, bool *there) {
  const gconv_tensor *in = s->work.in[input], *out = s->work.out[0];
  const int32_t axes = GCONV_TILE_FIRST + GCONV_TILE_AXES, own = GCONV_TILE_FIRST + axis;
  *window = (gconv_node_window){1, 1, 0, 0};
  *there = has_pixels(t, s, input, axis);
  if (!*there)
    return GCONV_OK;
  if (!out || in->axes != axes || s->node->kind->reach == GCONV_REACH_ALL)
    return fail_all(t->whole, s);
  if (input == 0 && is_measured(t, s) && t->cut.images > 0 && in->type == GCONV_TENSOR_F32) {
    *there = out->axes == axes && out->shape[own] == in->shape[own];
    return GCONV_OK;
  }
  if (s->node->kind->reach == GCONV_REACH_WINDOW)
    *window = s->node->kind->window(&s->work, input, own);
  if (out->axes != axes || (s->node->kind->reach == GCONV_REACH_POINT && in->shape[own] != out->shape[own]))
    return fail_all(t->whole, s);
  return window->denominator > 0 ? GCONV_OK : fail_all(t->whole, s);
}

static int64_t divide_down(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && a < 0);
}

/* Sets *need to the inputs that a range of elements of a value needs. */
static gconv_status follow_back(gconv_graph_tiles *t, int32_t axis, int32_t value, gconv_tile_range core,
                                gconv_tile_range *need) {
  const gconv_graph_plan *p = t->whole;
  for (size_t i = 0; i < p->graph->value_count; i++)
    t->needed[i] = (gconv_tile_range){INT64_MAX, 0};
  t->needed[value] = core;
  for (size_t i = p->step_count; i-- > 0;) {
    const gconv_graph_step *s = &p->steps[i];
    gconv_tile_range out = {INT64_MAX, 0};
    for (int32_t k = 0; k < s->work.out_count; k++)
      if (s->work.out[k] && s->out[k] >= 0 && t->needed[s->out[k]].end > 0) {
        const gconv_tile_range r = t->needed[s->out[k]];
        out = (gconv_tile_range){r.begin < out.begin ? r.begin : out.begin, r.end > out.end ? r.end : out.end};
      }
    for (int32_t k = 0; k < s->work.in_count && out.end > 0; k++) {
      gconv_node_window w;
      bool there;
      GCONV_TRY(find_window(t, s, k, axis, &w, &there));
      if (!there)
        continue;
      const int64_t size = s->work.in[k]->shape[GCONV_TILE_FIRST + axis];
      const int64_t begin = divide_down(out.begin * w.numerator, w.denominator) - w.before;
      const int64_t end = -divide_down(-(out.end - 1) * w.numerator, w.denominator) + w.after + 1;
      gconv_tile_range *r = &t->needed[s->in[k]];
      const gconv_tile_range mine = {begin < 0 ? 0 : begin < size ? begin : size - 1, end < 1 ? 1 : end < size ? end : size};
      r->begin = mine.begin < r->begin ? mine.begin : r->begin;
      r->end = mine.end > r->end ? mine.end : r->end;
    }
    if (s->added >= 0 && t->up[axis][s->added] != 0 && out.end > 0) { /* it has the shape of the output */
      gconv_tile_range *r = &t->needed[s->added];
      r->begin = out.begin < r->begin ? out.begin : r->begin;
      r->end = out.end > r->end ? out.end : r->end;
    }
  }
  *need = t->needed[p->graph->inputs[0]];
  return GCONV_OK;
}

/* Whether an input that does not come from the image has several elements along height or width, which a tile would begin
 * anew. Those of lists that normalise channels lie along channels. */
static bool has_pattern(const gconv_graph_step *s, int32_t input) {
  const gconv_node_kind *kind = s->node->kind;
  const gconv_tensor *t = s->work.in[input];
  const bool beside =
      kind->reach == GCONV_REACH_POINT || kind->memory == GCONV_MEMORY_JOINED; /* elements meet the image's */
  if (!t || !beside || (t->axes == 1 && kind->memory == GCONV_MEMORY_OWN))
    return false;
  return (t->axes > 0 && t->shape[t->axes - 1] > 1) || (t->axes > 1 && t->shape[t->axes - 2] > 1);
}

/* Whether elements of a value that a tail takes meet those of the output, which are the input's, times up / down; or the
 * value has one number for a channel. */
static bool meets(const gconv_graph_tiles *t, int32_t axis, int32_t value, int64_t up, int64_t down) {
  const gconv_tensor *added = &t->whole->tensors[value];
  if (t->up[axis][value] != 0)
    return t->up[axis][value] == up && t->down[axis][value] == down;
  return gconv_tensor_count(added, added->axes > GCONV_TILE_AXES ? added->axes - GCONV_TILE_AXES : 0, added->axes) == 1;
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Finds how many elements each value has for an element of the input, and the stride: the least common multiple of what
 * tiles must begin at. */
static gconv_status find_stride(gconv_graph_tiles *t, int32_t axis) {
  const gconv_graph_plan *p = t->whole;
  int64_t stride = 1, *all_up = t->up[axis], *all_down = t->down[axis];
  all_up[p->graph->inputs[0]] = all_down[p->graph->inputs[0]] = 1;
  for (size_t i = 0; i < p->step_count; i++) {
    const gconv_graph_step *s = &p->steps[i];
    int64_t up = 0, down = 1;
    for (int32_t k = 0; k < s->work.in_count; k++) {
      gconv_node_window w;
      bool there;
      GCONV_TRY(find_window(t, s, k, axis, &w, &there));
      if (!there) {
        if (has_pattern(s, k))
          return fail_all(p, s);
        continue;
      }
      int64_t more = all_up[s->in[k]] * w.denominator, less = all_down[s->in[k]] * w.numerator;
      const int64_t divisor = common_divisor(more, less);
      more /= divisor;
      less /= divisor;
      if (more > MOST_STRIDE || less > MOST_STRIDE || (up != 0 && (more != up || less != down)))
        return fail_all(p, s);
      up = more;
      down = less;
    }
    if (s->added >= 0 && !meets(t, axis, s->added, up, down))
      return fail_all(p, s);
    for (int32_t k = 0; k < s->work.out_count; k++)
      if (s->work.out[k] && s->out[k] >= 0) {
        all_up[s->out[k]] = up;
        all_down[s->out[k]] = down;
      }
    stride = stride / common_divisor(stride, down) * down;
    if (stride > MOST_STRIDE)
      return fail_all(p, s);
  }
  t->stride[axis] = stride;
  t->scale_up[axis] = all_up[p->graph->outputs[0]];
  t->scale_down[axis] = all_down[p->graph->outputs[0]];
  return t->scale_up[axis] > 0
             ? GCONV_OK
             : gconv_fail(GCONV_UNSUPPORTED, "%s: its output does not depend on its input", p->graph->path);
}

/* ---- Tiles ---- */

/* Rounds the size of a tile so that the last one ends with the image, and begins at a multiple of the stride. */
static int64_t fit_size(const gconv_graph_tiles *t, int32_t axis, double wanted) {
  const int64_t size = t->in[axis], stride = t->stride[axis], rest = size % stride;
  if (wanted >= (double)size)
    return size;
  const int64_t fitted = rest + ((int64_t)wanted + stride - 1) / stride * stride;
  return fitted < size ? fitted : size;
}

/* Sets *last to the end of the elements of a value, which has `all`, that a tile makes from `first` on. */
static gconv_status find_end(gconv_graph_tiles *t, int32_t axis, int32_t value, int64_t all, int64_t at, int64_t first,
                             int64_t *last) {
  const int64_t behind = at + t->size[axis];
  int64_t low = first, high = all; /* elements before `low` are good, those from `high` on are not known to be good */
  gconv_tile_range need;
  if (behind >= t->in[axis]) {
    *last = high;
    return GCONV_OK;
  }
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    GCONV_TRY(follow_back(t, axis, value, (gconv_tile_range){middle, middle + 1}, &need));
    if (need.end <= behind)
      low = middle + 1;
    else
      high = middle;
  }
  *last = low;
  return GCONV_OK;
}

/* Cuts an axis into tiles of t->size[axis] inputs. *cut is false if they are too small for what a result depends on. */
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
    GCONV_TRY(follow_back(t, axis, result, (gconv_tile_range){first, first + 1}, &need));
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

/* Makes the tiles along an axis as small as their number allows: so they have about the same size, and little is computed
 * twice. */
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
    GCONV_TRY(follow_back(t, 0, t->whole->graph->outputs[0], core, &need));
    t->tiles[0][i] = (gconv_tile){need.begin / stride * stride, core};
    most = need.end - t->tiles[0][i].at > most ? need.end - t->tiles[0][i].at : most;
  }
  t->size[0] = fit_size(t, 0, (double)most);
  for (int64_t i = 0, farthest = t->in[0] - t->size[0]; i < count; i++)
    t->tiles[0][i].at = t->tiles[0][i].at < farthest ? t->tiles[0][i].at : farthest;
  return GCONV_OK;
}

/* Fails if a node does something else in a tile than in the whole image: values have other sizes than a part of the image
 * has, or constants that follow from the size of the image differ. */
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
      const bool constant = a && b && s->in[k] >= 0 && t->up[0][s->in[k]] == 0 && whole->block_of[s->in[k]] < 0 &&
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
                        "%s: what node '%s' (%s) does depends on the size of the image, so it cannot be cut into tiles",
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

/* Returns about the bytes of a pixel of a tile. */
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
 * most WIDEST times the height, so that a plan for few rows takes little memory. */
static gconv_status choose_width(gconv_graph_tiles *t) {
  enum { WIDEST = 4 };
  bool cut;
  GCONV_TRY(cut_bands(t));
  const double height = (double)t->size[0];
  for (double width = fmin((double)t->cut.most / pixel_bytes(t) / height, WIDEST * height); width >= SMALLEST;
       width *= 0.7) {
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

/* ---- What is measured of the whole image ---- */

/* Lists the steps that need moments, each with its pass: those that need no other moments are in the first. */
static gconv_status list_measured(gconv_graph_tiles *t) {
  const gconv_graph_plan *p = t->whole;
  GCONV_FREED size_t *passes = calloc(p->graph->value_count + 1, sizeof *passes); /* that come before a value is known */
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
    const bool measured = is_measured(t, s);
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

/* Shares the elements of a value among the tiles of an axis: each measures those that it makes and the tiles before it do
 * not. */
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
      GCONV_TRY(follow_back(t, axis, m->value, (gconv_tile_range){first, first + 1}, &need));
    if (first < all && need.begin >= at)
      GCONV_TRY(find_end(t, axis, m->value, all, at, first, &first));
    m->ends[axis][i] = first;
  }
  const gconv_graph_step *s = &t->whole->steps[m->step];
  return first == all ? GCONV_OK : fail_all(t->whole, s);
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
    GCONV_TRY(find_stride(t, axis));
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

/* SPDX-License-Identifier: MIT */
/* Finds, node by node, which elements of the image a result depends on: how far tiles overlap, and where they may begin. */
#include "graph/tail.h"
#include "graph/tile.h"

#include <string.h>

enum { MOST_STRIDE = 1 << 16 };

/* Returns whether elements of an input are read to compute elements of the outputs. */
static bool flows(const gconv_graph_step *s, int32_t input) {
  return s->work.in[input] && s->in[input] >= 0 &&
         !(input < 32 && (s->node->kind->unread | s->node->kind->known) >> input & 1);
}

gconv_status gconv_tile_refuse(const gconv_graph_plan *p, const gconv_graph_step *s) {
  return gconv_fail(GCONV_UNSUPPORTED, "%s: node '%s' (%s) sees the whole image, so it cannot be cut into tiles",
                    p->graph->path, s->node->name, s->node->kind->name);
}

/* Returns whether an input has places of the image. Constants, and results that depend only on moments, have none. */
static bool has_pixels(const gconv_graph_tiles *t, const gconv_graph_step *s, int32_t input, int32_t axis) {
  return flows(s, input) && t->whole->block_of[s->in[input]] != -1 && t->up[axis][s->in[input]] != 0;
}

bool gconv_tile_is_measured(const gconv_graph_tiles *t, const gconv_graph_step *s) {
  const gconv_tensor *in = s->work.in_count > 0 ? s->work.in[0] : NULL;
  return in && has_pixels(t, s, 0, 0) && s->node->kind->reach == GCONV_REACH_WINDOW &&
         in->axes == GCONV_TILE_FIRST + GCONV_TILE_AXES &&
         s->node->kind->window(&s->work, 0, GCONV_TILE_FIRST).denominator == GCONV_BY_MOMENTS;
}

/* Sets *window to the window of an input of a step. *there is false if the input has no places of the image. */
static gconv_status find_window(const gconv_graph_tiles *t, const gconv_graph_step *s, int32_t input, int32_t axis,
                                gconv_node_window *window, bool *there) {
  const gconv_tensor *in = s->work.in[input], *out = s->work.out[0];
  const int32_t axes = GCONV_TILE_FIRST + GCONV_TILE_AXES, own = GCONV_TILE_FIRST + axis;
  *window = (gconv_node_window){1, 1, 0, 0};
  *there = has_pixels(t, s, input, axis);
  if (!*there)
    return GCONV_OK;
  if (!out || in->axes != axes || s->node->kind->reach == GCONV_REACH_ALL)
    return gconv_tile_refuse(t->whole, s);
  if (input == 0 && gconv_tile_is_measured(t, s) && t->cut.images > 0 && in->type == GCONV_TENSOR_F32) {
    *there = out->axes == axes && out->shape[own] == in->shape[own];
    return GCONV_OK;
  }
  if (s->node->kind->reach == GCONV_REACH_WINDOW)
    *window = s->node->kind->window(&s->work, input, own);
  if (out->axes != axes || (s->node->kind->reach == GCONV_REACH_POINT && in->shape[own] != out->shape[own]))
    return gconv_tile_refuse(t->whole, s);
  return window->denominator > 0 ? GCONV_OK : gconv_tile_refuse(t->whole, s);
}

static int64_t divide_down(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && a < 0);
}

gconv_status gconv_tile_follow_back(gconv_graph_tiles *t, int32_t axis, int32_t value, gconv_tile_range core,
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

/* Returns whether an input that does not depend on the image has several elements along height or width: each tile would
 * start at the first of them. Lists that normalise channels lie along channels. */
static bool has_pattern(const gconv_graph_step *s, int32_t input) {
  const gconv_node_kind *kind = s->node->kind;
  const gconv_tensor *t = s->work.in[input];
  const bool beside = kind->reach == GCONV_REACH_POINT ||
                      kind->memory == GCONV_MEMORY_JOINED; /* its elements are combined with those of the image */
  if (!t || !beside || (t->axes == 1 && kind->memory == GCONV_MEMORY_OWN))
    return false;
  return (t->axes > 0 && t->shape[t->axes - 1] > 1) || (t->axes > 1 && t->shape[t->axes - 2] > 1);
}

/* Returns whether a value that a tail takes has the places of the output, which are those of the image times up / down; or
 * has one number for each channel. */
static bool has_places(const gconv_graph_tiles *t, int32_t axis, int32_t value, int64_t up, int64_t down) {
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

gconv_status gconv_tile_find_stride(gconv_graph_tiles *t, int32_t axis) {
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
          return gconv_tile_refuse(p, s);
        continue;
      }
      int64_t more = all_up[s->in[k]] * w.denominator, less = all_down[s->in[k]] * w.numerator;
      const int64_t divisor = common_divisor(more, less);
      more /= divisor;
      less /= divisor;
      if (more > MOST_STRIDE || less > MOST_STRIDE || (up != 0 && (more != up || less != down)))
        return gconv_tile_refuse(p, s);
      up = more;
      down = less;
    }
    if (s->added >= 0 && !has_places(t, axis, s->added, up, down))
      return gconv_tile_refuse(p, s);
    for (int32_t k = 0; k < s->work.out_count; k++)
      if (s->work.out[k] && s->out[k] >= 0) {
        all_up[s->out[k]] = up;
        all_down[s->out[k]] = down;
      }
    stride = stride / common_divisor(stride, down) * down;
    if (stride > MOST_STRIDE)
      return gconv_tile_refuse(p, s);
  }
  t->stride[axis] = stride;
  t->scale_up[axis] = all_up[p->graph->outputs[0]];
  t->scale_down[axis] = all_down[p->graph->outputs[0]];
  return t->scale_up[axis] > 0
             ? GCONV_OK
             : gconv_fail(GCONV_UNSUPPORTED, "%s: its output does not depend on its input", p->graph->path);
}

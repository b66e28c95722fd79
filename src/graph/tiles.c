/* SPDX-License-Identifier: MIT */
#include "graph/tiles.h"
#include "base/memory.h"
#include "graph/gpu.h"
#include "graph/tail.h"
#include "kernels/cuda/graph/graph.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { AXES = 2 /* height and width: axes 2 and 3 of tensors */, FIRST = 2, MOST_STRIDE = 1 << 16, SMALLEST = 32 };

/* A range of elements along an axis: begin .. end - 1. */
typedef struct range {
  int64_t begin, end;
} range;

/* A tile along one axis: inputs at .. at + size - 1 make outputs core.begin .. core.end - 1. */
typedef struct tile {
  int64_t at;
  range core;
} tile;

struct gconv_graph_tiles {
  const gconv_graph_plan *whole; /* during gconv_graph_tiles_create() */
  gconv_graph_plan *plan;
  range *needed;                  /* owned: of each value, while needs are followed */
  int64_t *up[AXES], *down[AXES]; /* owned: the element of a value is the input's, times up / down; 0: it has none */
  gconv_graph_cut cut;
  int64_t in[AXES], channels, filters; /* shape of the image as the graph gets it; its channels; channels of the result */
  int64_t size[AXES], stride[AXES], scale_up[AXES], scale_down[AXES];
  tile *tiles[AXES]; /* owned */
  int64_t count[AXES];
};

/* ---- What a result depends on ---- */

static bool flows(const gconv_graph_step *s, int32_t input) {
  return s->work.in[input] && s->in[input] >= 0 &&
         !(input < 32 && (s->node->kind->unread | s->node->kind->known) >> input & 1);
}

static gconv_status fail_all(const gconv_graph_plan *p, const gconv_graph_step *s) {
  return gconv_fail(GCONV_UNSUPPORTED, "%s: node '%s' (%s) sees the whole image, so it cannot be cut into tiles",
                    p->graph->path, s->node->name, s->node->kind->name);
}

/* Sets *window to the window of an input of a step. A value of a constant has none: `flows` is false. */
static gconv_status find_window(const gconv_graph_plan *p, const gconv_graph_step *s, int32_t input, int32_t axis,
                                gconv_node_window *window, bool *there) {
  const gconv_tensor *in = s->work.in[input], *out = s->work.out[0];
  *window = (gconv_node_window){1, 1, 0, 0};
  *there = flows(s, input) && p->block_of[s->in[input]] >= 0;
  if (!*there)
    return GCONV_OK;
  if (!out || in->axes != FIRST + AXES || out->axes != FIRST + AXES || s->node->kind->reach == GCONV_REACH_ALL)
    return fail_all(p, s);
  if (s->node->kind->reach == GCONV_REACH_WINDOW)
    *window = s->node->kind->window(&s->work, input, FIRST + axis);
  else if (in->shape[FIRST + axis] != out->shape[FIRST + axis])
    return fail_all(p, s);
  return window->denominator > 0 ? GCONV_OK : fail_all(p, s);
}

static int64_t divide_down(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && a < 0);
}

/* Sets *need to the inputs that outputs begin .. end - 1 need. */
static gconv_status follow_back(gconv_graph_tiles *t, int32_t axis, range core, range *need) {
  const gconv_graph_plan *p = t->whole;
  for (size_t i = 0; i < p->graph->value_count; i++)
    t->needed[i] = (range){INT64_MAX, 0};
  t->needed[p->graph->outputs[0]] = core;
  for (size_t i = p->step_count; i-- > 0;) {
    const gconv_graph_step *s = &p->steps[i];
    range out = {INT64_MAX, 0};
    for (int32_t k = 0; k < s->work.out_count; k++)
      if (s->work.out[k] && s->out[k] >= 0 && t->needed[s->out[k]].end > 0) {
        const range r = t->needed[s->out[k]];
        out = (range){r.begin < out.begin ? r.begin : out.begin, r.end > out.end ? r.end : out.end};
      }
    for (int32_t k = 0; k < s->work.in_count && out.end > 0; k++) {
      gconv_node_window w;
      bool there;
      GCONV_TRY(find_window(p, s, k, axis, &w, &there));
      if (!there)
        continue;
      const int64_t size = s->work.in[k]->shape[FIRST + axis];
      const int64_t begin = divide_down(out.begin * w.numerator, w.denominator) - w.before;
      const int64_t end = -divide_down(-(out.end - 1) * w.numerator, w.denominator) + w.after + 1;
      range *r = &t->needed[s->in[k]];
      const range mine = {begin < 0 ? 0 : begin < size ? begin : size - 1, end < 1 ? 1 : end < size ? end : size};
      r->begin = mine.begin < r->begin ? mine.begin : r->begin;
      r->end = mine.end > r->end ? mine.end : r->end;
    }
    if (s->added >= 0 && t->up[axis][s->added] != 0 && out.end > 0) { /* it has the shape of the output */
      range *r = &t->needed[s->added];
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
      GCONV_TRY(find_window(p, s, k, axis, &w, &there));
      if (!there || all_up[s->in[k]] == 0) {
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
    if (s->added >= 0 && (all_up[s->added] != up || all_down[s->added] != down)) /* its elements meet the output's */
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

/* Sets *last to the end of the outputs that a tile makes, from `first` on. */
static gconv_status find_end(gconv_graph_tiles *t, int32_t axis, int64_t at, int64_t first, int64_t *last) {
  const int64_t behind = at + t->size[axis];
  int64_t low = first,
          high = t->cut.out[axis]; /* outputs before `low` are good, outputs from `high` on are not known to be good */
  range need;
  if (behind >= t->in[axis]) {
    *last = high;
    return GCONV_OK;
  }
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    GCONV_TRY(follow_back(t, axis, (range){middle, middle + 1}, &need));
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
  gconv_release(t->tiles[axis]);
  t->tiles[axis] = NULL;
  t->count[axis] = 0;
  void *memory = NULL;
  GCONV_TRY(gconv_allocate((size_t)(t->cut.out[axis] + 1) * sizeof(tile), "the tiles of an image", &memory));
  t->tiles[axis] = memory;
  *cut = true;
  for (int64_t first = 0, last; first < t->cut.out[axis]; first = last) {
    range need;
    GCONV_TRY(follow_back(t, axis, (range){first, first + 1}, &need));
    int64_t at = need.begin / stride * stride;
    at = at < farthest ? at : farthest;
    GCONV_TRY(find_end(t, axis, at, first, &last));
    if (last <= first || t->count[axis] >= t->cut.out[axis]) {
      *cut = false;
      return GCONV_OK;
    }
    t->tiles[axis][t->count[axis]++] = (tile){at, {first, last}};
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
  GCONV_TRY(gconv_allocate((size_t)count * sizeof(tile), "the bands of an image", &memory));
  t->tiles[0] = memory;
  t->count[0] = count;
  for (int64_t i = 0; i < count; i++) {
    const range core = {i * rows, (i + 1) * rows < t->cut.out[0] ? (i + 1) * rows : t->cut.out[0]};
    range need;
    GCONV_TRY(follow_back(t, 0, core, &need));
    t->tiles[0][i] = (tile){need.begin / stride * stride, core};
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
      const bool constant = a && b && s->in[k] >= 0 && t->up[0][s->in[k]] == 0 &&
                            !(k < 32 && (s->node->kind->known | s->node->kind->unread) >> k & 1);
      if (constant && a->data != b->data)
        same = a->data && b->data && a->type == b->type && gconv_tensor_bytes(a) == gconv_tensor_bytes(b) &&
               memcmp(a->data, b->data, gconv_tensor_bytes(a)) == 0;
    }
    for (int32_t k = 0; k < s->work.out_count && same; k++) {
      const gconv_tensor *a = s->work.out[k], *b = other->work.out[k];
      for (int32_t axis = 0; a && b && axis < AXES && same; axis++) {
        const int64_t up = t->up[axis][s->out[k]], down = t->down[axis][s->out[k]];
        same = up == 0 || (a->axes == FIRST + AXES && b->axes == a->axes &&
                           (b->shape[FIRST + axis] - a->shape[FIRST + axis]) * down == (t->in[axis] - t->size[axis]) * up);
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
  const gconv_tensor input = {
      .type = GCONV_TENSOR_F32, .axes = FIRST + AXES, .shape = {1, t->channels, t->size[0], t->size[1]}};
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
  bool cut[AXES] = {false, false};
  for (double area = (double)t->cut.most / pixel_bytes(t); area >= SMALLEST * SMALLEST; area *= 0.7) {
    const double side = sqrt(area);
    const int32_t narrow = t->in[0] < t->in[1] ? 0 : 1;
    t->size[narrow] = fit_size(t, narrow, side);
    t->size[1 - narrow] = fit_size(t, 1 - narrow, fmax(side, area / (double)t->size[narrow]));
    for (int32_t axis = 0; axis < AXES; axis++)
      GCONV_TRY(cut_axis(t, axis, &cut[axis]));
    if (!cut[0] || !cut[1])
      break;
    for (int32_t axis = 0; axis < AXES; axis++)
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

static gconv_status fill(gconv_graph_tiles *t) {
  const gconv_graph *g = t->whole->graph;
  const gconv_tensor *in = gconv_graph_plan_input(t->whole, 0), *out = gconv_graph_plan_output(t->whole, 0);
  if (g->input_count != 1 || in->axes != FIRST + AXES || out->axes != FIRST + AXES || in->shape[0] != 1 ||
      out->type != GCONV_TENSOR_F32)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: only graphs from one image to one image are cut into tiles", g->path);
  t->channels = in->shape[1];
  t->filters = out->shape[1];
  t->needed = calloc(g->value_count + 1, sizeof *t->needed);
  for (int32_t axis = 0; axis < AXES; axis++) {
    t->up[axis] = calloc(g->value_count + 1, sizeof **t->up);
    t->down[axis] = calloc(g->value_count + 1, sizeof **t->down);
    if (!t->needed || !t->up[axis] || !t->down[axis])
      return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for tiles", g->path);
    t->in[axis] = in->shape[FIRST + axis];
    GCONV_TRY(find_stride(t, axis));
  }
  return t->cut.rows > 0 ? choose_width(t) : choose_size(t);
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
  for (int32_t axis = 0; axis < AXES; axis++) {
    gconv_release(t->tiles[axis]);
    free(t->up[axis]);
    free(t->down[axis]);
  }
  free(t->needed);
  free(t);
}

gconv_status gconv_graph_tiles_allocate(gconv_graph_tiles *t) {
  return gconv_graph_plan_allocate(t->plan);
}

/* ---- Rows of the image that a band needs ---- */

/* The place in an image of `size` of element `at` of a padded one: reflected, or the last if the image is too small. */
static int64_t reflect(int64_t at, int64_t size) {
  const int64_t mirrored = 2 * (size - 1) - at;
  return at < size ? at : mirrored >= 0 ? mirrored : size - 1;
}

static void find_rows(const gconv_graph_tiles *t, const tile *y, int64_t *begin, int64_t *end) {
  const int64_t height = t->cut.in[0], behind = y->at + t->size[0];
  *begin = reflect(y->at, height);
  *end = behind < height ? behind : height;
  if (behind > height && reflect(behind - 1, height) < *begin)
    *begin = reflect(behind - 1, height);
}

void gconv_graph_tiles_rows(const gconv_graph_tiles *t, int64_t first, int64_t *begin, int64_t *end) {
  find_rows(t, &t->tiles[0][first / t->cut.rows], begin, end);
}

int64_t gconv_graph_tiles_most_rows(const gconv_graph_tiles *t) {
  int64_t most = 1, begin, end;
  for (int64_t i = 0; i < t->count[0]; i++) {
    find_rows(t, &t->tiles[0][i], &begin, &end);
    most = end - begin > most ? end - begin : most;
  }
  return most;
}

/* ---- Runs ---- */

/* Fills the input of a plan from rows of the image, from row `top` and column `left` of the padded image on. */
static gconv_status put_input(const gconv_graph_plan *plan, const gconv_graph_cut *cut, const gconv_graph_rows *rows,
                              int64_t top, int64_t left, void *stream) {
  const gconv_tensor *input = gconv_graph_plan_input(plan, 0);
  const int64_t channels = input->shape[1], height = input->shape[2], width = input->shape[3], all = cut->in[1];
  const int64_t there = all - left < width ? (all > left ? all - left : 0) : width;
  if (stream) {
    const gconv_gpu_put job = {.from = rows->data,
                               .first = rows->first,
                               .from_rows = rows->rows,
                               .all_height = cut->in[0],
                               .all_width = all,
                               .to = input->there,
                               .channels = channels,
                               .height = height,
                               .width = width,
                               .top = top,
                               .left = left};
    return gconv_gpu_put_run(&job, stream);
  }
  for (int64_t c = 0, at = 0; c < channels; c++)
    for (int64_t y = 0; y < height; y++, at += width) {
      const float *row = rows->data + (c * rows->rows + reflect(top + y, cut->in[0]) - rows->first) * all;
      if (input->type == GCONV_TENSOR_F64) {
        for (int64_t x = 0; x < width; x++)
          ((double *)input->data)[at + x] = (double)row[reflect(left + x, all)];
        continue;
      }
      float *to = (float *)input->data + at;
      memcpy(to, row + left, (size_t)there * sizeof *to);
      for (int64_t x = there; x < width; x++)
        to[x] = row[reflect(left + x, all)];
    }
  return GCONV_OK;
}

/* Runs a plan: on a GPU, in a stream. */
static gconv_status run_plan(gconv_graph_plan *plan, void *stream) {
  return stream ? gconv_graph_gpu_run(plan, stream) : gconv_graph_plan_run(plan);
}

/* Copies a rectangle of numbers of any type as float32: `height` rows of each of `planes` planes. */
static gconv_status copy_numbers(const gconv_tensor *from, int64_t at, int64_t from_width, int64_t from_plane, float *to,
                                 int64_t to_width, int64_t to_plane, int64_t planes, int64_t height, int64_t width,
                                 void *stream) {
  if (stream) {
    const gconv_gpu_take job = {.from = (const char *)from->there + at * (int64_t)gconv_tensor_type_bytes(from->type),
                                .type = from->type,
                                .from_width = from_width,
                                .from_plane = from_plane,
                                .to_width = to_width,
                                .to_plane = to_plane,
                                .planes = planes,
                                .height = height,
                                .width = width,
                                .to = to};
    return gconv_gpu_take_run(&job, stream);
  }
  switch (from->type) {
#define COPY(name, type, number)                                                                                            \
  case GCONV_TENSOR_##name:                                                                                                 \
    for (int64_t c = 0; c < planes; c++)                                                                                    \
      for (int64_t y = 0; y < height; y++)                                                                                  \
        for (int64_t x = 0; x < width; x++)                                                                                 \
          to[c * to_plane + y * to_width + x] =                                                                             \
              (float)((const type *)from->data)[at + c * from_plane + y * from_width + x];                                  \
    break;
    GCONV_EACH_TENSOR_TYPE(COPY)
  }
  return GCONV_OK;
}

static gconv_status run_tile(gconv_graph_tiles *t, const tile *y, const tile *x, const gconv_graph_rows *in,
                             const gconv_graph_rows *out, void *stream) {
  const gconv_tensor *output = gconv_graph_plan_output(t->plan, 0);
  const int64_t made_width = output->shape[3], all = t->cut.out[1];
  const int64_t top = y->core.begin - y->at / t->scale_down[0] * t->scale_up[0];
  const int64_t left = x->core.begin - x->at / t->scale_down[1] * t->scale_up[1];
  const int64_t height = y->core.end - y->core.begin, width = x->core.end - x->core.begin;
  GCONV_TRY(put_input(t->plan, &t->cut, in, y->at, x->at, stream));
  GCONV_TRY(run_plan(t->plan, stream));
  if (top < 0 || left < 0 || top + height > output->shape[2] || left + width > made_width)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: a tile does not have its result", t->plan->graph->path);
  return copy_numbers(output, top * made_width + left, made_width, output->shape[2] * made_width,
                      out->data + (y->core.begin - out->first) * all + x->core.begin, all, out->rows * all, t->filters,
                      height, width, stream);
}

gconv_status gconv_graph_tiles_run(gconv_graph_tiles *t, const gconv_graph_rows *in, const gconv_graph_rows *out,
                                   void *stream) {
  for (int64_t y = 0; y < t->count[0]; y++) {
    const tile *row = &t->tiles[0][y];
    const bool wanted = row->core.begin >= out->first && row->core.begin < out->first + out->rows;
    for (int64_t x = 0; x < t->count[1] && wanted; x++)
      GCONV_TRY(run_tile(t, row, &t->tiles[1][x], in, out, stream));
  }
  return GCONV_OK;
}

gconv_status gconv_graph_copy_output(const gconv_graph_plan *plan, size_t number, const int64_t kept[2], float *out,
                                     void *stream) {
  const gconv_tensor *output = gconv_graph_plan_output(plan, number);
  const bool image = output->axes >= 3; /* rows and columns are the last axes */
  const int64_t height = image ? output->shape[output->axes - 2] : 1, width = image ? output->shape[output->axes - 1] : 1;
  const int64_t planes = gconv_tensor_elements(output) / (height * width), rows = image ? kept[0] : 1;
  const int64_t columns = image ? kept[1] : 1;
  return copy_numbers(output, 0, width, height * width, out, columns, rows * columns, planes, rows, columns, stream);
}

gconv_status gconv_graph_run_whole(gconv_graph_plan *plan, const gconv_graph_cut *cut, const float *in, float *out,
                                   void *stream) {
  const gconv_graph_rows rows = {(float *)in, 0, cut->in[0]};
  GCONV_TRY(put_input(plan, cut, &rows, 0, 0, stream));
  GCONV_TRY(run_plan(plan, stream));
  return gconv_graph_copy_output(plan, 0, cut->out, out, stream);
}

const gconv_graph_plan *gconv_graph_tiles_plan(const gconv_graph_tiles *t) {
  return t->plan;
}

void gconv_graph_tiles_tell(const gconv_graph_tiles *t, char *text, size_t size) {
  snprintf(text, size, "%" PRId64 " tiles of %" PRId64 " x %" PRId64 " (height, width)", t->count[0] * t->count[1],
           t->size[0], t->size[1]);
}

/* SPDX-License-Identifier: MIT */
/*
 * ConvTranspose, in one and two dimensions: each input adds the filter, times its own value, to the output. Along an axis of
 * stride s, with P pads before,
 *
 *     y[s q + f - P] = sum over j of x[q - j] w[s j + f],    f = 0 .. s - 1, j = 0 .. ceil(R / s) - 1
 *
 * For each f, that is a convolution of x with every s-th tap. So it is one convolution with K s s filters, which an
 * algorithm of layers solves, and then the results of all f are interleaved. Filters with a dilation get zeros between their
 * taps.
 */
#include "bank/onnx_rules.h"
#include "graph/move.h"
#include "graph/plain_conv.h"
#include "graph/solve.h"

#include <inttypes.h>
#include <string.h>

enum { X, WEIGHTS, BIASES };
enum { AXES = 2 /* height and width; of one dimension, the height is 1 */, LARGEST = 1 << 20 };
typedef struct settings {
  gconv_auto_pad padding;
  gconv_node_integers stride, dilation, kernel, pads, more, wanted; /* more: output_padding; wanted: output_shape */
  int64_t groups;
} settings;

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  s->groups = gconv_onnx_integer_of(node, "group", 1);
  GCONV_TRY(gconv_node_attribute_list(node, "strides", 1, LARGEST, &s->stride, NULL));
  GCONV_TRY(gconv_node_attribute_list(node, "dilations", 1, LARGEST, &s->dilation, NULL));
  GCONV_TRY(gconv_node_attribute_list(node, "kernel_shape", 1, LARGEST, &s->kernel, NULL));
  GCONV_TRY(gconv_node_attribute_list(node, "pads", -LARGEST, LARGEST, &s->pads, NULL));
  GCONV_TRY(gconv_node_attribute_list(node, "output_padding", 0, LARGEST, &s->more, NULL));
  GCONV_TRY(gconv_node_attribute_list(node, "output_shape", 1, LARGEST, &s->wanted, NULL));
  return gconv_node_attribute_auto_pad(node, &s->padding);
}

/* ---- Shapes ---- */

typedef struct axis {
  int64_t size, taps, stride, dilation, before, outputs;
  int64_t some; /* taps of the convolution: ceil(extent / stride) */
} axis;

static int64_t number_of(const gconv_node_integers *list, int32_t which, int64_t otherwise) {
  return which >= 0 && which < list->count ? list->number[which] : otherwise;
}

static gconv_status resolve_axis(const gconv_node_work *work, int32_t axes, int32_t which, axis *a) {
  const settings *s = work->settings;
  const int32_t at = which - (AXES - axes); /* the axis of the image; -1: images of one dimension have no height */
  *a = (axis){1, 1, 1, 1, 0, 1, 1};
  if (at < 0)
    return GCONV_OK;
  a->size = work->in[X]->shape[2 + at];
  a->taps = work->in[WEIGHTS]->shape[2 + at];
  a->stride = number_of(&s->stride, at, 1);
  a->dilation = number_of(&s->dilation, at, 1);
  if (a->size < 1 || a->taps < 1 || a->size > LARGEST || a->taps > LARGEST / a->dilation || a->size > LARGEST / a->stride)
    return gconv_fail(GCONV_BAD_FILE, "has %" PRId64 " pixels, %" PRId64 " taps and a stride of %" PRId64 " along an axis",
                      a->size, a->taps, a->stride);
  if (number_of(&s->kernel, at, a->taps) != a->taps)
    return gconv_fail(GCONV_BAD_FILE, "has a kernel_shape that is not the size of its weights");
  const int64_t extent = (a->taps - 1) * a->dilation + 1, more = number_of(&s->more, at, 0);
  const int64_t whole = (a->size - 1) * a->stride + extent + more;
  const int64_t same = s->wanted.count > 0 ? number_of(&s->wanted, at, 0) : a->size * a->stride;
  const bool automatic =
      s->wanted.count > 0 || s->padding == GCONV_AUTO_PAD_SAME_UPPER || s->padding == GCONV_AUTO_PAD_SAME_LOWER;
  const int64_t cut = automatic ? (whole > same ? whole - same : 0) : 0;
  a->some = (extent - 1) / a->stride + 1;
  a->before = automatic                            ? (s->padding == GCONV_AUTO_PAD_SAME_UPPER ? cut / 2 : cut - cut / 2)
              : s->padding == GCONV_AUTO_PAD_VALID ? 0
                                                   : number_of(&s->pads, at, 0);
  a->outputs =
      automatic ? same : whole - a->before - (s->padding == GCONV_AUTO_PAD_VALID ? 0 : number_of(&s->pads, axes + at, 0));
  return a->outputs > 0 ? GCONV_OK : gconv_fail(GCONV_BAD_FILE, "leaves no output: its pads are larger than its result");
}

static gconv_status resolve(const gconv_node_work *work, int32_t *axes, axis both[AXES]) {
  const settings *s = work->settings;
  const gconv_tensor *x = work->in[X], *w = work->in[WEIGHTS];
  *axes = x->axes - 2;
  if (*axes < 1 || *axes > AXES || w->axes != x->axes)
    return gconv_fail(GCONV_UNSUPPORTED, "takes tensors of %d axes and filters of %d: both must have 3, or both 4", x->axes,
                      w->axes);
  const struct {
    const gconv_node_integers *list;
    int32_t each;
  } lists[] = {{&s->stride, 1}, {&s->dilation, 1}, {&s->kernel, 1}, {&s->pads, 2}, {&s->more, 1}, {&s->wanted, 1}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (lists[i].list->count > 0 && lists[i].list->count != lists[i].each * *axes)
      return gconv_fail(GCONV_BAD_FILE, "has an attribute of %d numbers, where its dimensions need %d", lists[i].list->count,
                        lists[i].each * *axes);
  for (int32_t i = 0; i < AXES; i++)
    GCONV_TRY(resolve_axis(work, *axes, i, &both[i]));
  return GCONV_OK;
}

static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *x = work->in[X], *w = work->in[WEIGHTS];
  axis both[AXES];
  int32_t axes;
  GCONV_TRY(gconv_node_need_real(work, 0, work->in_count - 1));
  GCONV_TRY(resolve(work, &axes, both));
  const int64_t channels = x->shape[1], phases = both[0].stride * both[1].stride;
  if (s->groups < 1 || channels < 1 || channels > LARGEST || w->shape[1] > LARGEST / s->groups ||
      channels % s->groups != 0 || w->shape[0] != channels || x->shape[0] < 1 || x->shape[0] > INT32_MAX ||
      w->shape[1] * s->groups < 1 || w->shape[1] * s->groups > INT32_MAX / phases)
    return gconv_fail(GCONV_BAD_FILE,
                      "has filters for %" PRId64 " channels in %" PRId64 " groups, and its input has %" PRId64 " channels",
                      w->shape[0], s->groups, channels);
  const int64_t filters = w->shape[1] * s->groups;
  const gconv_tensor maps = {
      .axes = 4, .shape = {x->shape[0], filters * phases, both[0].size + both[0].some, both[1].size + both[1].some}};
  const gconv_tensor taps = {.axes = 4, .shape = {filters * phases, channels / s->groups, both[0].some, both[1].some}};
  GCONV_TRY(gconv_tensor_check(&maps));
  GCONV_TRY(gconv_tensor_check(&taps));
  const gconv_tensor *b = work->in_count > BIASES ? work->in[BIASES] : NULL;
  if (b && (b->axes != 1 || b->shape[0] != filters))
    return gconv_fail(GCONV_BAD_FILE, "has biases that are not one number for each of %" PRId64 " filters", filters);
  const int64_t image[4] = {x->shape[0], filters, both[AXES - axes].outputs, both[1].outputs};
  gconv_node_set(work, 0, x->type, 2 + axes, image);
  return GCONV_OK;
}

static gconv_node_window window(const gconv_node_work *work, int32_t input, int32_t which) {
  axis both[AXES] = {{0}};
  int32_t axes;
  const settings *s = work->settings;
  if (input != X || s->wanted.count > 0 || resolve(work, &axes, both) != GCONV_OK) /* it was resolved before */
    return (gconv_node_window){1, 0, 0, 0};
  const axis *a = &both[which - 2 + AXES - axes];
  const int64_t shift = a->before > 0 ? a->before / a->stride + 1 : 0;
  const int64_t back = a->before < 0 ? -a->before / a->stride + 1 : 0;
  return (gconv_node_window){1, a->stride, a->some - 1 + back, shift};
}

/* ---- Runs ---- */

static gconv_layer_problem problem_of(const gconv_node_work *work, const axis both[AXES]) {
  const settings *s = work->settings;
  const int64_t phases = both[0].stride * both[1].stride;
  return (gconv_layer_problem){.images = (int32_t)work->in[X]->shape[0],
                               .channels = (int32_t)work->in[X]->shape[1],
                               .height = (int32_t)both[0].size,
                               .width = (int32_t)both[1].size,
                               .filters = (int32_t)(work->in[WEIGHTS]->shape[1] * s->groups * phases),
                               .rows = (int32_t)both[0].some,
                               .columns = (int32_t)both[1].some,
                               .groups = (int32_t)s->groups,
                               .pad_top = (int32_t)both[0].some - 1,
                               .pad_left = (int32_t)both[1].some - 1,
                               .stride_y = 1,
                               .stride_x = 1,
                               .dilation_y = 1,
                               .dilation_x = 1,
                               .out_height = (int32_t)(both[0].size + both[0].some - 1),
                               .out_width = (int32_t)(both[1].size + both[1].some - 1)};
}

static gconv_status prepare(const gconv_node_work *work, const gconv_node_kind *kind, void **solver) {
  axis both[AXES];
  int32_t axes;
  if (work->in[X]->type == GCONV_TENSOR_F64) /* computed by plain loops */
    return GCONV_OK;
  GCONV_TRY(resolve(work, &axes, both));
  const gconv_layer_problem problem = problem_of(work, both);
  return gconv_solver_create(work, &problem, (gconv_solver **)solver);
}

static size_t map_elements(const gconv_layer_problem *p) {
  return (size_t)p->images * (size_t)p->filters * (size_t)p->out_height * (size_t)p->out_width;
}

static size_t weight_elements(const gconv_layer_problem *p) {
  return ((size_t)gconv_layer_taps(p) + 1) * (size_t)p->filters;
}

/* The workspace has the solver's workspace, or the weights of float64; then the results of the convolution. */
static size_t workspace(const gconv_node_work *work) {
  const gconv_solver *solver = work->prepared;
  axis both[AXES];
  int32_t axes;
  if (solver)
    return gconv_solver_workspace(solver, work) + map_elements(&solver->choice.whole) * sizeof(float);
  if (resolve(work, &axes, both) != GCONV_OK)
    return 0;
  const gconv_layer_problem p = problem_of(work, both);
  return (weight_elements(&p) + map_elements(&p)) * sizeof(double);
}

static void tell(const void *prepared, char *text, size_t size) {
  if (!prepared) {
    snprintf(text, size, "in float64");
    return;
  }
  const gconv_layer_choice *choice = &((const gconv_solver *)prepared)->choice;
  snprintf(text, size, "as %d filters of %d x %d x %d and interleaved, algorithm %s", choice->whole.filters,
           choice->whole.channels / choice->whole.groups, choice->whole.rows, choice->whole.columns,
           choice->algorithm->info.name);
}

/* Returns the tap of an axis that is tap `t` of the convolution for phase f; -1: there is none, and the weight is 0. */
static int64_t tap_of(const axis *a, int64_t f, int64_t t) {
  const int64_t at = f + a->stride * (a->some - 1 - t);
  return at % a->dilation == 0 && at / a->dilation < a->taps ? at / a->dilation : -1;
}

/* Makes the weights of the convolution: filter (k, fy, fx) of channel c has taps of w[c][k]. They have the type of w. */
static void fill(const gconv_node_work *work, const axis both[AXES], const gconv_layer_problem *p, void *weights) {
  const settings *s = work->settings;
  const size_t bytes = gconv_tensor_type_bytes(work->in[WEIGHTS]->type);
  const uint8_t *from = work->in[WEIGHTS]->data;
  const uint8_t *biases = work->in_count > BIASES && work->in[BIASES] ? work->in[BIASES]->data : NULL;
  const int64_t each = work->in[WEIGHTS]->shape[1], channels = p->channels / s->groups, plane = both[0].taps * both[1].taps;
  const int64_t phases = both[0].stride * both[1].stride;
  uint8_t *to = weights, *to_biases = to + bytes * (size_t)gconv_layer_taps(p) * (size_t)p->filters;
  memset(weights, 0, bytes * weight_elements(p));
  for (int64_t filter = 0; filter < p->filters; filter++) {
    const int64_t k = filter / phases, fy = filter % phases / both[1].stride, fx = filter % both[1].stride;
    for (int64_t c = k / each * channels; c < (k / each + 1) * channels; c++)
      for (int64_t y = 0; y < p->rows; y++)
        for (int64_t x = 0; x < p->columns; x++, to += bytes) {
          const int64_t row = tap_of(&both[0], fy, y), column = tap_of(&both[1], fx, x);
          if (row >= 0 && column >= 0)
            memcpy(to, from + bytes * (size_t)((c * each + k % each) * plane + row * both[1].taps + column), bytes);
        }
    if (biases)
      memcpy(to_biases + bytes * (size_t)filter, biases + bytes * (size_t)k, bytes);
  }
}

/* The results q of a phase that lie in the output: the first, their number, and the place of the first in the output. */
typedef struct part {
  int64_t first, count, to;
} part;

static part part_of(const axis *a, int64_t f) {
  const int64_t shift = a->before - f, made = a->size + a->some - 1;
  part p = {.first = shift > 0 ? (shift + a->stride - 1) / a->stride : 0};
  p.to = p.first * a->stride - shift;
  p.count = p.to < a->outputs ? (a->outputs - 1 - p.to) / a->stride + 1 : 0;
  if (p.count > made - p.first)
    p.count = made > p.first ? made - p.first : 0;
  return p;
}

/* Returns whether the first result of every phase lies in the output, and all phases have the same number of results. */
static bool is_even(const axis *a) {
  return a->before == 0 && a->outputs % a->stride == 0 && a->outputs <= (a->size + a->some - 1) * a->stride;
}

static gconv_status interleave(const gconv_node_work *work, const axis both[AXES], const gconv_layer_problem *p,
                               const void *maps) {
  const size_t bytes = gconv_tensor_type_bytes(work->out[0]->type);
  const int64_t width = both[1].outputs, area = both[0].outputs * width, plane = (int64_t)p->out_height * p->out_width;
  const int64_t phases = both[0].stride * both[1].stride, planes = (int64_t)p->images * p->filters / phases;
  if (work->stream && is_even(&both[0]) && is_even(&both[1])) { /* neighbours of all phases are written together */
    gconv_move all = {0};
    gconv_move_add(&all, planes, phases * plane, area);
    gconv_move_add(&all, both[0].outputs / both[0].stride, p->out_width, both[0].stride * width);
    gconv_move_add(&all, both[0].stride, both[1].stride * plane, width);
    gconv_move_add(&all, width / both[1].stride, 1, both[1].stride);
    gconv_move_add(&all, both[1].stride, plane, 1);
    return gconv_move_run(work, &all, bytes, maps, gconv_node_data(work, work->out[0]));
  }
  for (int64_t f = 0; f < phases; f++) {
    const part y = part_of(&both[0], f / both[1].stride), x = part_of(&both[1], f % both[1].stride);
    gconv_move move = {0};
    gconv_move_add(&move, planes, phases * plane, area);
    gconv_move_add(&move, y.count, p->out_width, both[0].stride * width);
    gconv_move_add(&move, x.count, 1, both[1].stride);
    GCONV_TRY(gconv_move_run(work, &move, bytes,
                             (const uint8_t *)maps + bytes * (size_t)(f * plane + y.first * p->out_width + x.first),
                             (uint8_t *)gconv_node_data(work, work->out[0]) + bytes * (size_t)(y.to * width + x.to)));
  }
  return GCONV_OK;
}

/* Sets all outputs to the bias: some outputs lie outside of all filters. */
static gconv_status fill_biases(const gconv_node_work *work, const gconv_layer_problem *p, const void *biases) {
  const gconv_tensor *out = work->out[0];
  const int64_t area = gconv_tensor_count(out, 2, out->axes), filters = out->shape[1];
  gconv_move move = {0};
  gconv_move_add(&move, out->shape[0], 0, filters * area);
  gconv_move_add(&move, filters, p->filters / filters, area);
  gconv_move_add(&move, area, 0, 1);
  return gconv_move_run(work, &move, gconv_tensor_type_bytes(out->type), biases, gconv_node_data(work, out));
}

/* Interleaves the results of the convolution. Outputs that no filter reaches get the bias. */
static gconv_status finish(const gconv_node_work *work, const axis both[AXES], const gconv_layer_problem *p,
                           const void *biases, const void *maps) {
  for (int32_t i = 0; i < AXES; i++)
    if (both[i].before < 0 || both[i].outputs + both[i].before > (both[i].size + both[i].some - 1) * both[i].stride) {
      GCONV_TRY(fill_biases(work, p, biases));
      break;
    }
  return interleave(work, both, p, maps);
}

static gconv_status run_float64(const gconv_node_work *work, const axis both[AXES]) {
  const gconv_layer_problem p = problem_of(work, both);
  double *weights = work->workspace, *biases = weights + gconv_layer_taps(&p) * p.filters, *maps = biases + p.filters;
  fill(work, both, &p, weights);
  gconv_plain_conv(work, &p, GCONV_TENSOR_F64, work->in[X]->data, weights, biases, maps);
  return finish(work, both, &p, biases, maps);
}

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_solver *solver = work->prepared;
  axis both[AXES];
  float *weights;
  int32_t axes;
  GCONV_TRY(resolve(work, &axes, both));
  if (!solver)
    return run_float64(work, both);
  const gconv_layer_problem *p = &solver->choice.whole;
  float *maps = (float *)work->workspace + gconv_solver_workspace(solver, work) / sizeof *maps;
  GCONV_TRY(gconv_solver_open(solver, &weights));
  if (weights) {
    fill(work, both, p, weights);
    GCONV_TRY(gconv_solver_pack(solver));
  }
  GCONV_TRY(gconv_solver_run(solver, work, gconv_node_data(work, work->in[X]), maps, work->workspace));
  return finish(work, both, p, gconv_layer_biases(p, work->stream ? solver->there : solver->weights), maps);
}

static rules transpose_rules = {STRING("auto_pad"),
                                INTS("dilations", 1, NEWEST),
                                INT("group", 1, NEWEST),
                                INTS("kernel_shape", 1, NEWEST),
                                INTS("output_padding", 1, NEWEST),
                                INTS("output_shape", 1, NEWEST),
                                INTS("pads", 1, NEWEST),
                                INTS("strides", 1, NEWEST),
                                END};

const gconv_node_kind gconv_node_kinds_conv_transpose[] = {
    GCONV_NODE_KIND_OF("ConvTranspose", 1, NEWEST, 2, 3, 1, 1, 0, 0, GCONV_MEMORY_OWN, GCONV_REACH_WINDOW, transpose_rules,
                       0, sizeof(settings), parse, shape, run, run, workspace, window, prepare, gconv_solver_free, tell,
                       NULL, NULL, NULL, GCONV_FUSES_NOTHING, GCONV_BLOCKS_NEVER),
    GCONV_NODE_KIND_END,
};

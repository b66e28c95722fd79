/* SPDX-License-Identifier: MIT */
/* Convolutions in one and two dimensions. The algorithms of layers solve them, and are chosen as for layers. Nodes that
 * follow and only scale and shift channels go into the weights; the algorithm computes an activation. */
#include "graph/conv.h"
#include "graph/gpu.h"
#include "graph/plain_conv.h"
#include "graph/solve.h"
#include "graph/tail.h"

#include <inttypes.h>

enum { X, WEIGHTS, BIASES };
enum { AXES = 2 /* height and width; of one dimension, the height is 1 */, LARGEST_EXTENT = 1 << 30 };

typedef gconv_conv_settings settings;

/* ---- Attributes ---- */

gconv_status gconv_conv_parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *given) {
  settings *s = given;
  s->groups = gconv_onnx_integer_of(node, "group", 1);
  GCONV_TRY(gconv_node_attribute_list(node, "strides", 1, LARGEST_EXTENT, &s->strides, NULL));
  GCONV_TRY(gconv_node_attribute_list(node, "dilations", 1, LARGEST_EXTENT, &s->dilations, NULL));
  GCONV_TRY(gconv_node_attribute_list(node, "kernel_shape", 1, LARGEST_EXTENT, &s->kernel, NULL));
  GCONV_TRY(gconv_node_attribute_list(node, "pads", 0, LARGEST_EXTENT, &s->pads, NULL));
  return gconv_node_attribute_auto_pad(node, &s->padding);
}

/* ---- Shapes ---- */

/* One axis of the image: 0 is height, 1 is width. */
typedef struct axis {
  int64_t size, taps, stride, dilation, before, after, outputs;
} axis;

/* Returns number `i` of a list that has one for each of `axes` axes, for axis `which`; `otherwise` if there is none. */
static int64_t number_of(const gconv_node_integers *list, int32_t axes, int32_t which, int64_t otherwise) {
  const int32_t first = AXES - axes; /* for one dimension: the width */
  return list->count > 0 && which >= first ? list->number[which - first] : otherwise;
}

static gconv_status check_count(const char *name, const gconv_node_integers *list, int32_t wanted) {
  return list->count == 0 || list->count == wanted
             ? GCONV_OK
             : gconv_fail(GCONV_BAD_FILE, "has %d numbers as %s, where its dimensions need %d", list->count, name, wanted);
}

static gconv_status resolve_axis(const settings *s, const gconv_tensor *x, const gconv_tensor *w, int32_t axes,
                                 int32_t which, axis *a) {
  const int32_t from = 2 + which - (AXES - axes); /* the axis of the tensors */
  const bool there = which >= AXES - axes;
  const gconv_node_integers ends = {{s->pads.number[axes], s->pads.number[axes + 1]}, s->pads.count};
  *a = (axis){.size = there ? x->shape[from] : 1,
              .taps = there ? w->shape[from] : 1,
              .stride = number_of(&s->strides, axes, which, 1),
              .dilation = number_of(&s->dilations, axes, which, 1)};
  if (a->size < 1 || a->taps < 1 || a->size > LARGEST_EXTENT || a->taps > LARGEST_EXTENT / a->dilation)
    return gconv_fail(GCONV_BAD_FILE, "has %" PRId64 " pixels and %" PRId64 " taps along an axis", a->size, a->taps);
  if (number_of(&s->kernel, axes, which, a->taps) != a->taps)
    return gconv_fail(GCONV_BAD_FILE, "has a kernel_shape that is not the size of its weights");
  const int64_t extent = (a->taps - 1) * a->dilation + 1;
  a->outputs = (a->size - 1) / a->stride + 1;
  const int64_t missing = (a->outputs - 1) * a->stride + extent - a->size;
  if (s->padding == GCONV_AUTO_PAD_SAME_UPPER || s->padding == GCONV_AUTO_PAD_SAME_LOWER) {
    a->before = missing > 0 ? (missing + (s->padding == GCONV_AUTO_PAD_SAME_LOWER)) / 2 : 0;
    a->after = missing > 0 ? missing - a->before : 0;
    return GCONV_OK;
  }
  if (s->padding == GCONV_AUTO_PAD_NOTSET) {
    a->before = number_of(&s->pads, axes, which, 0);
    a->after = number_of(&ends, axes, which, 0);
  }
  if (a->size + a->before + a->after > LARGEST_EXTENT)
    return gconv_fail(GCONV_BAD_FILE, "has an input of %" PRId64 " pixels along an axis with its pads: %d are the most",
                      a->size + a->before + a->after, LARGEST_EXTENT);
  if (a->size + a->before + a->after < extent)
    return gconv_fail(GCONV_BAD_FILE, "leaves no output: its filter spans %" PRId64 " of %" PRId64 " pixels", extent,
                      a->size + a->before + a->after);
  a->outputs = (a->size + a->before + a->after - extent) / a->stride + 1;
  return GCONV_OK;
}

/* Resolves height and width. Sets *axes to the number of dimensions of the images: 1 or 2. */
static gconv_status resolve(const settings *s, const gconv_tensor *x, const gconv_tensor *w, int32_t *axes,
                            axis both[AXES]) {
  *axes = x->axes - 2;
  if (*axes < 1 || *axes > AXES || w->axes != x->axes)
    return gconv_fail(GCONV_UNSUPPORTED, "convolves tensors of %d axes with filters of %d: both must have 3, or both 4",
                      x->axes, w->axes);
  GCONV_TRY(check_count("strides", &s->strides, *axes));
  GCONV_TRY(check_count("dilations", &s->dilations, *axes));
  GCONV_TRY(check_count("kernel_shape", &s->kernel, *axes));
  GCONV_TRY(check_count("pads", &s->pads, 2 * *axes));
  for (int32_t i = 0; i < AXES; i++)
    GCONV_TRY(resolve_axis(s, x, w, *axes, i, &both[i]));
  return GCONV_OK;
}

static gconv_status check_channels(const settings *s, const gconv_tensor *x, const gconv_tensor *w, const gconv_tensor *b) {
  const int64_t channels = x->shape[1], filters = w->shape[0];
  if (x->shape[0] < 1 || x->shape[0] > INT32_MAX || channels < 1 || channels > INT32_MAX || filters < 1 ||
      filters > INT32_MAX || s->groups < 1 || s->groups > INT32_MAX)
    return gconv_fail(GCONV_BAD_FILE,
                      "has %" PRId64 " images of %" PRId64 " channels, %" PRId64 " filters, %" PRId64 " groups", x->shape[0],
                      channels, filters, s->groups);
  if (channels % s->groups != 0 || filters % s->groups != 0 || w->shape[1] != channels / s->groups)
    return gconv_fail(GCONV_BAD_FILE,
                      "has filters of %" PRId64 " channels in %" PRId64 " groups, and its input has %" PRId64 " channels",
                      w->shape[1], s->groups, channels);
  if (b && (b->axes != 1 || b->shape[0] != filters))
    return gconv_fail(GCONV_BAD_FILE, "has biases that are not one number for each of %" PRId64 " filters", filters);
  return GCONV_OK;
}

gconv_status gconv_conv_find(const settings *s, const gconv_tensor *x, const gconv_tensor *w, const gconv_tensor *b,
                             gconv_layer_problem *problem, gconv_tensor *result) {
  axis both[AXES];
  int32_t axes;
  GCONV_TRY(resolve(s, x, w, &axes, both));
  GCONV_TRY(check_channels(s, x, w, b));
  *result =
      (gconv_tensor){.axes = 2 + axes, .shape = {x->shape[0], w->shape[0], both[AXES - axes].outputs, both[1].outputs}};
  *problem = (gconv_layer_problem){.images = (int32_t)x->shape[0],
                                   .channels = (int32_t)x->shape[1],
                                   .height = (int32_t)both[0].size,
                                   .width = (int32_t)both[1].size,
                                   .filters = (int32_t)w->shape[0],
                                   .rows = (int32_t)both[0].taps,
                                   .columns = (int32_t)both[1].taps,
                                   .groups = (int32_t)s->groups,
                                   .pad_top = (int32_t)both[0].before,
                                   .pad_left = (int32_t)both[1].before,
                                   .stride_y = (int32_t)both[0].stride,
                                   .stride_x = (int32_t)both[1].stride,
                                   .dilation_y = (int32_t)both[0].dilation,
                                   .dilation_x = (int32_t)both[1].dilation,
                                   .out_height = (int32_t)both[0].outputs,
                                   .out_width = (int32_t)both[1].outputs};
  return GCONV_OK;
}

gconv_node_window gconv_conv_window(const settings *s, const gconv_tensor *x, const gconv_tensor *w, int32_t which) {
  axis both[AXES] = {{0}};
  int32_t axes;
  if (resolve(s, x, w, &axes, both) != GCONV_OK) /* it was resolved before */
    return (gconv_node_window){1, 0, 0, 0};
  const axis *a = &both[which - 2 + AXES - axes];
  return (gconv_node_window){a->stride, 1, a->before,
                             (a->taps - 1) * a->dilation > a->before ? (a->taps - 1) * a->dilation - a->before : 0};
}

static const gconv_tensor *biases_of(const gconv_node_work *work) {
  return work->in_count > BIASES ? work->in[BIASES] : NULL;
}

static gconv_status find(const gconv_node_work *work, gconv_layer_problem *problem, gconv_tensor *result) {
  return gconv_conv_find(work->settings, work->in[X], work->in[WEIGHTS], biases_of(work), problem, result);
}

static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_layer_problem problem;
  gconv_tensor result;
  GCONV_TRY(gconv_node_need_real(work, 0, work->in_count - 1));
  GCONV_TRY(find(work, &problem, &result));
  gconv_node_set(work, 0, work->in[X]->type, result.axes, result.shape);
  return GCONV_OK;
}

static gconv_node_window window(const gconv_node_work *work, int32_t input, int32_t which) {
  return input == X ? gconv_conv_window(work->settings, work->in[X], work->in[WEIGHTS], which)
                    : (gconv_node_window){1, 0, 0, 0};
}

/* ---- Runs ---- */

gconv_status gconv_conv_problem(const gconv_node_work *work, gconv_layer_problem *problem) {
  gconv_tensor result;
  const gconv_tensor *in = work->in[X], *out = work->out[0];
  GCONV_TRY(find(work, problem, &result));
  problem->activation = work->fused.activation;
  problem->slope = work->fused.slope;
  problem->in_blocks = in->blocks && !gconv_tensor_is_point(in);
  problem->out_blocks = out->blocks && !gconv_tensor_is_point(out);
  if (work->fused.tail && !gconv_graph_is_on_gpu(work->options))
    problem->tail = &work->fused.tail->layer;
  return GCONV_OK;
}

/* Chooses an algorithm of layers. float64 is computed by plain loops. */
static gconv_status prepare(const gconv_node_work *work, const gconv_node_kind *kind, void **solver) {
  gconv_layer_problem problem;
  if (work->in[X]->type == GCONV_TENSOR_F64)
    return GCONV_OK;
  GCONV_TRY(gconv_conv_problem(work, &problem));
  if (work->fused.tail)
    work->fused.tail->blocks = problem.out_blocks;
  return gconv_solver_create(work, &problem, (gconv_solver **)solver);
}

static size_t workspace(const gconv_node_work *work) {
  return work->prepared ? gconv_solver_workspace(work->prepared, work) : 0;
}

static void tell(const void *prepared, char *text, size_t size) {
  if (!prepared) {
    snprintf(text, size, "in float64");
    return;
  }
  const gconv_layer_choice *choice = &((const gconv_solver *)prepared)->choice;
  const gconv_layer_problem *problem = &choice->whole;
  snprintf(text, size, "%d filters of %d x %d x %d, stride %d, algorithm %s%s", problem->filters,
           problem->channels / problem->groups, problem->rows, problem->columns, problem->stride_y,
           choice->algorithm->info.name, problem->out_kept ? ", kept in 16 bits" : "");
}

/* Writes weights and biases, multiplied and shifted as fused nodes say. */
static void fill(const gconv_node_work *work, const gconv_layer_problem *problem, float *weights) {
  const gconv_node_fused *fused = &work->fused;
  const int64_t taps = gconv_layer_taps(problem);
  const float *from = work->in[WEIGHTS]->data;
  const float *biases = work->in_count > BIASES && work->in[BIASES] ? work->in[BIASES]->data : NULL;
  for (int64_t k = 0; k < problem->filters; k++) {
    const float scale = fused->scale ? fused->scale[k] : 1, bias = biases ? biases[k] : 0;
    for (int64_t t = 0; t < taps; t++)
      weights[k * taps + t] = from[k * taps + t] * scale;
    weights[problem->filters * taps + k] = fused->shift ? bias * scale + fused->shift[k] : bias;
  }
}

gconv_status gconv_conv_open(const gconv_node_work *work) {
  gconv_solver *solver = work->prepared;
  float *weights;
  GCONV_TRY(gconv_solver_open(solver, &weights));
  if (!weights)
    return GCONV_OK;
  fill(work, &solver->choice.problem, weights);
  return gconv_solver_pack(solver);
}

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_solver *solver = work->prepared;
  if (!solver) {
    gconv_layer_problem problem;
    gconv_tensor result;
    GCONV_TRY(find(work, &problem, &result));
    const gconv_tensor *biases = biases_of(work);
    gconv_plain_conv(work, &problem, GCONV_TENSOR_F64, work->in[X]->data, work->in[WEIGHTS]->data,
                     biases ? biases->data : NULL, work->out[0]->data);
    return GCONV_OK;
  }
  GCONV_TRY(gconv_conv_open(work));
  if (work->fused.tail)
    gconv_tail_set_out(work->fused.tail, work->out[0]->data);
  return gconv_solver_run(solver, work, gconv_node_data(work, work->in[X]), gconv_node_data(work, work->out[0]),
                          work->workspace);
}

const gconv_node_kind gconv_node_kinds_conv[] = {
    GCONV_NODE_KIND_OF("Conv", 1, GCONV_NEWEST_OPSET, 2, 3, 1, 1, 0, 0, GCONV_MEMORY_OWN, GCONV_REACH_WINDOW,
                       gconv_onnx_conv_rules, 0, sizeof(settings), gconv_conv_parse, shape, run, run, workspace, window,
                       prepare, gconv_solver_free, tell, NULL, NULL, NULL, GCONV_FUSES_ALL, GCONV_BLOCKS_EITHER),
    GCONV_NODE_KIND_END,
};

/* SPDX-License-Identifier: MIT */
/* Normalisation by means and deviations, and softmax. Sums are float64, in a fixed order. */
#include "bank/onnx_rules.h"
#include "graph/moments.h"
#include "graph/tail.h"
#include "kernels/activation.h"
#include "kernels/cuda/graph/graph.h"

#include <inttypes.h>
#include <string.h>
#include <tgmath.h>

typedef enum member { BATCH, INSTANCE, GROUP, LAYER, RMS, ACROSS_CHANNELS, SOFTMAX, LOG_SOFTMAX, HARDMAX, LP } member;

typedef struct settings {
  float epsilon, alpha, beta, bias;
  int64_t axis, groups, size, power;
  int32_t opset;
} settings;

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  const bool softmax = kind->code >= SOFTMAX && kind->code <= HARDMAX;
  s->opset = opset;
  s->epsilon = gconv_onnx_number_of(node, "epsilon", 1e-5F);
  s->alpha = gconv_onnx_number_of(node, "alpha", 1e-4F);
  s->beta = gconv_onnx_number_of(node, "beta", 0.75F);
  s->bias = gconv_onnx_number_of(node, "bias", 1);
  s->axis = gconv_onnx_integer_of(node, "axis", softmax && opset < 13 ? 1 : -1);
  s->groups = gconv_onnx_integer_of(node, "num_groups", 1);
  s->size = gconv_onnx_integer_of(node, "size", 1);
  s->power = gconv_onnx_integer_of(node, "p", 2);
  if (kind->code == LP && s->power != 1 && s->power != 2)
    return gconv_fail(GCONV_BAD_FILE, "has a 'p' of %" PRId64 ", not 1 or 2", s->power);
  if (s->size < 1 || s->size > INT32_MAX || (kind->code == GROUP && !gconv_onnx_find_attribute(node, "num_groups")))
    return gconv_fail(GCONV_BAD_FILE, "has no size or number of groups from 1 on");
  if (gconv_onnx_integer_of(node, "training_mode", 0) != 0)
    return gconv_fail(GCONV_UNSUPPORTED, "is in training mode, in which it normalises by its own batch");
  return GCONV_OK;
}

/* ---- Shapes ---- */

/* Fails unless inputs first .. last are lists of `count` numbers. */
static gconv_status need_lists(const gconv_node_work *work, int32_t first, int32_t last, int64_t count) {
  for (int32_t i = first; i <= last && i < work->in_count; i++) {
    const gconv_tensor *t = work->in[i];
    if (!t)
      continue;
    GCONV_TRY(gconv_node_need_type(work, i, work->in[0]->type));
    if (t->axes != 1 || t->shape[0] != count)
      return gconv_fail(GCONV_BAD_FILE, "needs as input %d a list of %" PRId64 " numbers", i, count);
  }
  return GCONV_OK;
}

static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  int32_t axis = 0;
  GCONV_TRY(gconv_node_need_real(work, 0, 0));
  if (kind->code <= GROUP || kind->code == ACROSS_CHANNELS) {
    if (in->axes < 2)
      return gconv_fail(GCONV_BAD_FILE, "normalises channels of a tensor that has none");
  } else if (in->axes > 0 || s->axis != -1)
    GCONV_TRY(gconv_tensor_axis(s->axis, in->axes, &axis));
  const int64_t channels = in->axes > 1 ? in->shape[1] : 0;
  if (kind->code == BATCH || kind->code == INSTANCE)
    GCONV_TRY(need_lists(work, 1, 4, channels));
  if (kind->code == GROUP && (s->groups < 1 || channels % s->groups != 0))
    return gconv_fail(GCONV_BAD_FILE, "has %" PRId64 " groups of %" PRId64 " channels", s->groups, channels);
  if (kind->code == GROUP)
    GCONV_TRY(need_lists(work, 1, 2, s->opset < 21 ? s->groups : channels));
  for (int32_t i = 1; (kind->code == LAYER || kind->code == RMS) && i < work->in_count; i++)
    if (work->in[i]) {
      const gconv_tensor *both[] = {in, work->in[i]};
      gconv_tensor result;
      GCONV_TRY(gconv_node_need_type(work, i, in->type));
      GCONV_TRY(gconv_node_broadcast(&(gconv_node_work){.in = both, .in_count = 2}, &result));
      if (result.axes != in->axes || gconv_tensor_elements(&result) != gconv_tensor_elements(in))
        return gconv_fail(GCONV_BAD_FILE, "has a factor or a bias that is larger than the tensor that it normalises");
    }
  gconv_tensor moments = *in; /* means, and 1 / deviations, of LayerNormalization */
  for (int32_t i = 1; i < work->out_count; i++)
    if (work->out[i] && kind->code != LAYER)
      return gconv_fail(GCONV_UNSUPPORTED, "has means or deviations as further outputs, which gconv does not compute");
  for (int32_t i = axis; kind->code == LAYER && i < in->axes; i++)
    moments.shape[i] = 1;
  gconv_node_set_like(work, 1, &moments);
  gconv_node_set_like(work, 2, &moments);
  gconv_node_set_like(work, 0, in);
  return GCONV_OK;
}

/* ---- Loops ---- */

typedef struct job {
  const gconv_node_work *work;
  const settings *s;
  member member;
  const void *in;
  void *out;
  int64_t plane, channels, inner; /* elements of a channel; channels; distance of neighbours along the axis */
} job;

/* Returns the place in input number `input`, which is broadcast to input 0, of element `at` of input 0. */
static int64_t place(const gconv_node_work *work, int32_t input, int64_t at) {
  int64_t step[GCONV_TENSOR_AXES], found = 0;
  gconv_node_steps(work->in[input], work->in[0], step);
  for (int32_t i = work->in[0]->axes - 1; i >= 0; i--) {
    found += at % work->in[0]->shape[i] * step[i];
    at /= work->in[0]->shape[i];
  }
  return found;
}

/* Returns the number of groups. InstanceNormalization has one for each factor: fuse.c may give it more channels. */
static int64_t groups_on_cpu(const gconv_node_work *work, int32_t code) {
  return code == GROUP ? ((const settings *)work->settings)->groups : gconv_tensor_elements(work->in[1]);
}

/* Returns whether an input has only axes that are normalised. */
static bool fits(const job *j, int32_t input) {
  int32_t axis = 0;
  return gconv_tensor_axis(j->s->axis, j->work->in[0]->axes, &axis) == GCONV_OK &&
         j->work->in[input]->axes <= j->work->in[0]->axes - axis;
}

#define NAME(name) name##_f32
#define REAL float
#include "graph/normalize_loops.h"
#define NAME(name) name##_f64
#define REAL double
#include "graph/normalize_loops.h"

typedef void part(void *context, int64_t begin, int64_t end);

/* Returns the loop of a kind for floats, or for doubles. */
static part *loop_of(int32_t code, bool wide) {
  static part *const loops[][2] = {
      [BATCH] = {normalize_batch_f32, normalize_batch_f64}, [INSTANCE] = {normalize_group_f32, normalize_group_f64},
      [GROUP] = {normalize_group_f32, normalize_group_f64}, [LAYER] = {normalize_layer_f32, normalize_layer_f64},
      [RMS] = {normalize_layer_f32, normalize_layer_f64},   [ACROSS_CHANNELS] = {across_channels_f32, across_channels_f64},
      [SOFTMAX] = {along_axis_f32, along_axis_f64},         [LOG_SOFTMAX] = {along_axis_f32, along_axis_f64},
      [HARDMAX] = {along_axis_f32, along_axis_f64},         [LP] = {along_axis_f32, along_axis_f64}};
  return loops[code][wide];
}

/* ---- The table ---- */

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  const int64_t all = gconv_tensor_elements(in);
  job j = {.work = work, .s = s, .member = (member)kind->code, .in = in->data, .out = work->out[0]->data, .inner = 1};
  part *const loop = loop_of(kind->code, in->type == GCONV_TENSOR_F64);
  int32_t axis = 0;
  if (all == 0)
    return GCONV_OK;
  if (kind->code <= GROUP || kind->code == ACROSS_CHANNELS) {
    j.channels = in->shape[1];
    j.plane = gconv_tensor_count(in, 2, in->axes);
    const int64_t planes = in->shape[0] * j.channels, grain = (1 << 14) / (j.plane + 1) + 1;
    const int64_t parts = kind->code == BATCH             ? planes
                          : kind->code == ACROSS_CHANNELS ? all / j.channels
                                                          : in->shape[0] * groups_on_cpu(work, kind->code);
    gconv_node_share(work, parts, kind->code == BATCH ? grain : kind->code == ACROSS_CHANNELS ? 256 : 1, loop, &j);
    return GCONV_OK;
  }
  if (in->axes > 0)
    GCONV_TRY(gconv_tensor_axis(s->axis, in->axes, &axis));
  const bool to_the_end = kind->code == LAYER || kind->code == RMS || (kind->code != LP && s->opset < 13);
  j.plane = to_the_end ? gconv_tensor_count(in, axis, in->axes) : in->axes > 0 ? in->shape[axis] : 1;
  j.inner = to_the_end ? 1 : gconv_tensor_count(in, axis + 1, in->axes);
  gconv_node_share(work, all / j.plane, (1 << 12) / j.plane + 1, loop, &j);
  return GCONV_OK;
}

/* ---- On a GPU ---- */

static const float *floats_there(const gconv_node_work *work, int32_t input) {
  return input < work->in_count && work->in[input] ? work->in[input]->there : NULL;
}

static int64_t groups_of(const gconv_node_work *work, bool by_channel) {
  return by_channel ? work->in[0]->shape[1] : ((const settings *)work->settings)->groups;
}

static gconv_status cuda_channels(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  gconv_gpu_normalize on_gpu = {.how = kind->code == BATCH ? GCONV_NORM_BATCH : GCONV_NORM_GROUP,
                                .in = in->there,
                                .factor = floats_there(work, 1),
                                .bias = floats_there(work, 2),
                                .mean = floats_there(work, 3),
                                .variance = floats_there(work, 4),
                                .out = work->out[0]->there,
                                .images = in->shape[0],
                                .channels = in->shape[1],
                                .groups = groups_of(work, kind->code != GROUP),
                                .plane = gconv_tensor_count(in, 2, in->axes),
                                .by_group = kind->code == GROUP && s->opset < 21,
                                .epsilon = s->epsilon,
                                .parts = work->workspace};
  const gconv_tail *tail = work->fused.tail;
  const bool together = tail && gconv_tail_shorten(tail, &on_gpu.tail);
  on_gpu.tail.length = together ? on_gpu.tail.length : 0;
  GCONV_TRY(gconv_gpu_normalize_run(&on_gpu, work->stream));
  if (!tail || together)
    return GCONV_OK;
  const gconv_gpu_elements rest = gconv_tail_gpu_job(work);
  return gconv_gpu_elements_run(&rest, work->stream);
}

/* On a GPU, groups are added up in parts. */
static size_t workspace_of(const gconv_node_work *work, bool by_channel) {
  return gconv_node_is_for_gpu(work) ? gconv_gpu_normalize_bytes(work->in[0]->shape[0], groups_of(work, by_channel)) : 0;
}
static size_t workspace_instance(const gconv_node_work *work) {
  return workspace_of(work, true);
}
static size_t workspace_group(const gconv_node_work *work) {
  return workspace_of(work, false);
}

static gconv_status cuda_layer(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  int32_t axis = 0;
  if (in->axes > 0)
    GCONV_TRY(gconv_tensor_axis(s->axis, in->axes, &axis));
  gconv_gpu_rows on_gpu = {.in = in->there,
                           .out = work->out[0]->there,
                           .rows = gconv_tensor_count(in, 0, axis),
                           .count = gconv_tensor_count(in, axis, in->axes),
                           .axes = in->axes,
                           .factor.data = floats_there(work, 1),
                           .bias.data = floats_there(work, 2),
                           .centred = kind->code == LAYER,
                           .epsilon = s->epsilon};
  memcpy(on_gpu.size, in->shape, sizeof on_gpu.size);
  if (on_gpu.factor.data)
    gconv_node_steps(work->in[1], in, on_gpu.factor.step);
  if (on_gpu.bias.data)
    gconv_node_steps(work->in[2], in, on_gpu.bias.step);
  if (work->out_count > 1 && work->out[1])
    on_gpu.means = work->out[1]->there;
  if (work->out_count > 2 && work->out[2])
    on_gpu.inverses = work->out[2]->there;
  return gconv_gpu_rows_run(&on_gpu, work->stream);
}

static gconv_status cuda_along(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  const int64_t all = gconv_tensor_elements(in);
  const bool to_the_end = kind->code != LP && s->opset < 13;
  int32_t axis = 0;
  if (in->axes > 0)
    GCONV_TRY(gconv_tensor_axis(s->axis, in->axes, &axis));
  gconv_gpu_axis on_gpu = {.how = kind->code == SOFTMAX       ? GCONV_ALONG_SOFTMAX
                                  : kind->code == LOG_SOFTMAX ? GCONV_ALONG_LOG_SOFTMAX
                                  : kind->code == HARDMAX     ? GCONV_ALONG_HARDMAX
                                  : s->power == 1             ? GCONV_ALONG_L1
                                                              : GCONV_ALONG_L2,
                           .in = in->there,
                           .out = work->out[0]->there,
                           .count = to_the_end     ? gconv_tensor_count(in, axis, in->axes)
                                    : in->axes > 0 ? in->shape[axis]
                                                   : 1,
                           .inner = to_the_end ? 1 : gconv_tensor_count(in, axis + 1, in->axes)};
  on_gpu.lines = on_gpu.count > 0 ? all / on_gpu.count : 0;
  return gconv_gpu_axis_run(&on_gpu, work->stream);
}

static gconv_status cuda_across(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  const gconv_gpu_across on_gpu = {.in = in->there,
                                   .out = work->out[0]->there,
                                   .images = in->shape[0],
                                   .channels = in->shape[1],
                                   .plane = gconv_tensor_count(in, 2, in->axes),
                                   .size = s->size,
                                   .alpha = s->alpha,
                                   .beta = s->beta,
                                   .bias = s->bias};
  return gconv_gpu_across_run(&on_gpu, work->stream);
}

/* BatchNormalization by constants scales and shifts channels, so a convolution before it can compute it. */
static bool affine(const gconv_node_work *work, const gconv_node_kind *kind, int32_t input, float *scale, float *shift) {
  enum { GAMMA = 1, BETA, MEAN, VARIANCE, INPUTS };
  const settings *s = work->settings;
  const float *of[INPUTS] = {NULL};
  for (int32_t i = GAMMA; i < INPUTS && work->in[0]->type == GCONV_TENSOR_F32; i++)
    of[i] = work->in[i]->data;
  if (input != 0 || !of[GAMMA] || !of[BETA] || !of[MEAN] || !of[VARIANCE])
    return false;
  for (int64_t c = 0; c < work->out[0]->shape[1]; c++) {
    const double factor = (double)of[GAMMA][c] / sqrt((double)of[VARIANCE][c] + (double)s->epsilon);
    scale[c] = (float)factor;
    shift[c] = (float)((double)of[BETA][c] - (double)of[MEAN][c] * factor);
  }
  return true;
}

/* From opset 13 on, Softmax and its relatives see only the axis that they normalise. Before, they see all axes from it
 * on. */
static gconv_node_window window(const gconv_node_work *work, int32_t input, int32_t axis) {
  const settings *s = work->settings;
  int32_t own;
  const bool stays = s->opset >= 13 && gconv_tensor_axis(s->axis, work->in[0]->axes, &own) == GCONV_OK && own != axis;
  return (gconv_node_window){1, stays, 0, 0};
}

static rules batch = {FLOAT("epsilon", 1, NEWEST),
                      FLOAT("momentum", 1, NEWEST),
                      INT("training_mode", 14, NEWEST),
                      FIXED("spatial", GCONV_ONNX_AN_INT, 1, 1, 8),
                      NEEDED("is_test", 1, 6),
                      INTS("consumed_inputs", 1, 5),
                      END};
static rules epsilon = {FLOAT("epsilon", 1, NEWEST), END};
static rules group = {FLOAT("epsilon", 1, NEWEST), INT("num_groups", 18, NEWEST), INT("stash_type", 21, NEWEST), END};
static rules layer = {FLOAT("epsilon", 1, NEWEST), INT("axis", 1, NEWEST), INT("stash_type", 17, NEWEST), END};
static rules across = {FLOAT("alpha", 1, NEWEST), FLOAT("beta", 1, NEWEST), FLOAT("bias", 1, NEWEST), INT("size", 1, NEWEST),
                       END};
static rules axis_rules = {INT("axis", 1, NEWEST), END}, lp = {INT("axis", 1, NEWEST), INT("p", 1, NEWEST), END};

#define ROW(name, since, least, most, outs, memory, reach, rules, code, cuda, workspace)                                    \
  GCONV_NODE_KIND(name, since, NEWEST, least, most, 1, outs, 0, 0, memory, reach, rules, code, sizeof(settings), parse,     \
                  shape, run, cuda, workspace, (reach) == GCONV_REACH_WINDOW ? window : NULL, NULL, NULL)
#define PLANES(name, since, rules, code, workspace)                                                                         \
  GCONV_NODE_KIND_OF(name, since, NEWEST, 3, 3, 1, 1, 0, 0, GCONV_MEMORY_OWN, GCONV_REACH_WINDOW, rules, code,              \
                     sizeof(settings), parse, shape, run, cuda_channels, workspace, gconv_node_by_moments, NULL, NULL,      \
                     NULL, NULL, NULL, NULL, GCONV_FUSES_TAILS_ON_GPU, GCONV_BLOCKS_NEVER)
#define OWN GCONV_MEMORY_OWN
#define ALL GCONV_REACH_ALL
const gconv_node_kind gconv_node_kinds_normalize[] = {
    GCONV_NODE_KIND_OF("BatchNormalization", 1, NEWEST, 5, 5, 1, 5, 0, 0, OWN, GCONV_REACH_POINT, batch, BATCH,
                       sizeof(settings), parse, shape, run, cuda_channels, NULL, NULL, NULL, NULL, NULL, affine, NULL, NULL,
                       GCONV_FUSES_TAILS_ON_GPU, GCONV_BLOCKS_NEVER),
    PLANES("InstanceNormalization", 6, epsilon, INSTANCE, workspace_instance),
    PLANES("GroupNormalization", 18, group, GROUP, workspace_group),
    ROW("LayerNormalization", 17, 2, 3, 3, OWN, ALL, layer, LAYER, cuda_layer, NULL),
    ROW("RMSNormalization", 23, 2, 2, 1, OWN, ALL, layer, RMS, cuda_layer, NULL),
    ROW("LRN", 1, 1, 1, 1, OWN, GCONV_REACH_POINT, across, ACROSS_CHANNELS, cuda_across, NULL),
    ROW("Softmax", 1, 1, 1, 1, OWN, GCONV_REACH_WINDOW, axis_rules, SOFTMAX, cuda_along, NULL),
    ROW("LogSoftmax", 1, 1, 1, 1, OWN, GCONV_REACH_WINDOW, axis_rules, LOG_SOFTMAX, cuda_along, NULL),
    ROW("Hardmax", 1, 1, 1, 1, OWN, GCONV_REACH_WINDOW, axis_rules, HARDMAX, cuda_along, NULL),
    ROW("LpNormalization", 1, 1, 1, 1, OWN, GCONV_REACH_WINDOW, lp, LP, cuda_along, NULL),
    GCONV_NODE_KIND_END,
};

/* SPDX-License-Identifier: MIT */
/* Nodes that compute each element by itself. Inputs are broadcast as NumPy does. elementwise.c has the loops. */
#include "bank/onnx_rules.h"
#include "base/memory.h"
#include "graph/elementwise.h"
#include "graph/move.h"
#include "graph/tail.h"
#include "kernels/cuda/graph/graph.h"

#include <math.h>
#include <string.h>

typedef gconv_elementwise_settings settings;

static bool makes_bools(int32_t code) {
  return code == IS_NAN || code == IS_INF || (code >= EQUAL && code < WHERE);
}

/* ---- Shapes ---- */

/* Inputs have one type, but for the condition of Where and the exponent of Pow. */
static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  const int32_t first = kind->code == WHERE;
  gconv_tensor result = {.type = work->in[first]->type};
  if (first)
    GCONV_TRY(gconv_node_need_type(work, 0, GCONV_TENSOR_BOOL));
  for (int32_t i = first; i < work->in_count; i++) {
    if (!work->in[i])
      return gconv_fail(GCONV_BAD_FILE, "lacks its input %d", i);
    if (kind->code != POW || i == 0)
      GCONV_TRY(gconv_node_need_type(work, i, result.type));
    if (!gconv_elementwise_loop(kind->code, work->in[i]->type))
      return gconv_fail(GCONV_UNSUPPORTED, "is not done for %s numbers", gconv_tensor_type_name(work->in[i]->type));
  }
  GCONV_TRY(gconv_node_broadcast(work, &result));
  result.type = makes_bools(kind->code) ? GCONV_TENSOR_BOOL : result.type;
  gconv_node_set_like(work, 0, &result);
  return GCONV_OK;
}

/* Up to opset 6, input 1 has some neighbouring axes of input 0, and is repeated along the other axes; without `broadcast`,
 * both have one shape. Gives input 1 a shape that NumPy's rules repeat in the same way. */
static gconv_status align_old(const gconv_node_work *work, const gconv_node_kind *kind, gconv_tensor *aligned) {
  const settings *s = work->settings;
  const gconv_tensor *a = work->in[0], *b = work->in[1];
  const bool slope = kind->code == PRELU;
  *aligned = *b;
  int64_t axis = slope ? 1 : s->axis < 0 ? (int64_t)a->axes - b->axes : s->axis;
  if (gconv_tensor_elements(b) == 1 && b->axes <= 1)
    return GCONV_OK;
  if (!slope && !s->by_suffix && a->axes != b->axes)
    return gconv_fail(GCONV_BAD_FILE, "does not broadcast, and its inputs differ in their number of axes");
  if (!slope && !s->by_suffix)
    axis = 0;
  if (axis < 0 || axis > (int64_t)a->axes - b->axes)
    return gconv_fail(GCONV_BAD_FILE, "has a second input that does not fit the axes of the first from %lld on",
                      (long long)axis);
  for (int32_t i = 0; i < b->axes; i++)
    if (b->shape[i] != a->shape[axis + i] && b->shape[i] != 1)
      return gconv_fail(GCONV_BAD_FILE, "has a second input whose shape does not fit the first");
  for (; aligned->axes < a->axes - axis; aligned->axes++)
    aligned->shape[aligned->axes] = 1;
  return GCONV_OK;
}

static gconv_status shape_old(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_tensor aligned;
  GCONV_TRY(gconv_node_need_type(work, 1, work->in[0]->type));
  if (!gconv_elementwise_loop(kind->code, work->in[0]->type))
    return gconv_fail(GCONV_UNSUPPORTED, "is not done for %s numbers", gconv_tensor_type_name(work->in[0]->type));
  GCONV_TRY(align_old(work, kind, &aligned));
  gconv_node_set_like(work, 0, work->in[0]);
  return GCONV_OK;
}

/* The slope of PRelu is broadcast to the shape of x; x is never broadcast. */
static gconv_status shape_prelu(const gconv_node_work *work, const gconv_node_kind *kind) {
  GCONV_TRY(shape(work, kind));
  if (work->out[0]->axes != work->in[0]->axes || gconv_tensor_elements(work->out[0]) != gconv_tensor_elements(work->in[0]))
    return gconv_fail(GCONV_BAD_FILE, "has a slope whose shape does not fit its input");
  return GCONV_OK;
}

static gconv_status shape_mean(const gconv_node_work *work, const gconv_node_kind *kind) {
  GCONV_TRY(gconv_node_need_real(work, 0, work->in_count - 1));
  return shape(work, kind);
}

/* Min and max of Clip are inputs of one element, from opset 11 on. */
static gconv_status shape_clip(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor_type type = work->in[0]->type;
  for (int32_t i = 1; i < work->in_count; i++) {
    GCONV_TRY(gconv_node_need_type(work, i, type));
    if (work->in[i] && gconv_tensor_elements(work->in[i]) != 1)
      return gconv_fail(GCONV_BAD_FILE, "has a bound that is not one number");
  }
  if (!gconv_elementwise_loop(MAX, type))
    return gconv_fail(GCONV_UNSUPPORTED, "is not done for %s numbers", gconv_tensor_type_name(type));
  gconv_node_set_like(work, 0, work->in[0]);
  return GCONV_OK;
}

/* ---- Runs ---- */

static bool has_zero(const gconv_tensor *t) {
  const int64_t count = gconv_tensor_elements(t);
  for (int64_t i = 0; i < count; i++)
    if (gconv_tensor_integer(t, i) == 0)
      return true;
  return false;
}

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  const bool whole = !gconv_tensor_type_is_real(work->in[0]->type);
  if (whole && (kind->code == DIV || kind->code == MOD) && has_zero(work->in[1]))
    return gconv_fail(GCONV_BAD_FILE, "divides integers by 0");
  gconv_node_loop(work, work->in, work->in_count, gconv_elementwise_loop(kind->code, work->in[work->in_count - 1]->type),
                  work->out[0]);
  return GCONV_OK;
}

static gconv_status run_old(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_tensor aligned;
  GCONV_TRY(align_old(work, kind, &aligned));
  const gconv_tensor *pair[2] = {work->in[0], &aligned};
  gconv_node_work inner = *work;
  inner.in = pair;
  return run(&inner, kind);
}

/* Operators of any number of inputs combine the first two, then the result and the next. */
static gconv_status run_many(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_element_loop *loop = gconv_elementwise_loop(kind->code, work->in[0]->type);
  const gconv_tensor *pair[2] = {work->in[0], work->in[0]};
  if (work->in_count == 1)
    memmove(work->out[0]->data, work->in[0]->data, gconv_tensor_bytes(work->in[0]));
  for (int32_t i = 1; i < work->in_count; i++) {
    pair[1] = work->in[i];
    gconv_node_loop(work, pair, 2, loop, work->out[0]);
    pair[0] = work->out[0];
  }
  return GCONV_OK;
}

static gconv_status run_mean(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor_type type = work->out[0]->type;
  double memory;
  const int64_t number = work->in_count;
  const gconv_tensor count = {.type = GCONV_TENSOR_I64, .data = (void *)&number}, divisor = {.type = type, .data = &memory};
  const gconv_tensor *pair[2] = {work->out[0], &divisor};
  gconv_tensor_convert(&count, &divisor, 0, 1);
  GCONV_TRY(run_many(work, kind));
  gconv_node_loop(work, pair, 2, gconv_elementwise_loop(DIV, type), work->out[0]);
  return GCONV_OK;
}

/* Clips by the larger of x and the lower bound, then by the smaller of that and the upper bound. */
static void clip_by(const gconv_node_work *work, const gconv_tensor *low, const gconv_tensor *high) {
  const gconv_tensor_type type = work->out[0]->type;
  const gconv_tensor *pair[2] = {work->in[0], low};
  if (low)
    gconv_node_loop(work, pair, 2, gconv_elementwise_loop(MAX, type), work->out[0]);
  pair[0] = low ? work->out[0] : pair[0];
  pair[1] = high;
  if (high)
    gconv_node_loop(work, pair, 2, gconv_elementwise_loop(MIN, type), work->out[0]);
  if (!low && !high)
    memmove(work->out[0]->data, work->in[0]->data, gconv_tensor_bytes(work->in[0]));
}

static gconv_status run_clip(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *low = work->in_count > 1 ? work->in[1] : NULL, *high = work->in_count > 2 ? work->in[2] : NULL;
  const gconv_tensor_type type = work->in[0]->type;
  settings s = *(const settings *)work->settings;
  gconv_node_work inner = *work;
  inner.settings = &s;
  if (!gconv_tensor_type_is_real(type) || (type != GCONV_TENSOR_F32 && (low || high))) {
    clip_by(work, low, high);
    return GCONV_OK;
  }
  s.low = low ? *(const float *)low->data : s.low;
  s.high = high ? *(const float *)high->data : s.high;
  gconv_node_loop(&inner, work->in, 1, gconv_elementwise_loop(kind->code, type), work->out[0]);
  return GCONV_OK;
}

/* Pow may have an exponent of another type than its base, which is also that of the result. An integer to the power of a
 * floating-point number is computed in float64. */
static gconv_status run_pow(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *in[2] = {work->in[0], work->in[1]};
  const bool roots = !gconv_tensor_type_is_real(in[0]->type) && gconv_tensor_type_is_real(in[1]->type);
  const gconv_tensor_type type = roots ? GCONV_TENSOR_F64 : in[0]->type;
  const size_t each = gconv_tensor_type_bytes(type);
  gconv_tensor wide[3] = {*in[0], *in[1], *work->out[0]}; /* the same tensors, of this type */
  const gconv_tensor *pair[2] = {&wide[0], &wide[1]};
  size_t count = 0;
  void *memory = NULL;
  for (int i = 0; i < 3; i++)
    count += wide[i].type == type ? 0 : (size_t)gconv_tensor_elements(&wide[i]);
  GCONV_TRY(gconv_allocate(count * each, "numbers of another type", &memory));
  uint8_t *next = memory;
  for (int i = 0; i < 3; i++) {
    if (wide[i].type == type)
      continue;
    wide[i].type = type;
    wide[i].data = next;
    next += (size_t)gconv_tensor_elements(&wide[i]) * each;
    if (i < 2)
      gconv_tensor_convert(in[i], &wide[i], 0, gconv_tensor_elements(in[i]));
  }
  gconv_node_loop(work, pair, 2, gconv_elementwise_loop(kind->code, type), &wide[2]);
  if (roots)
    gconv_tensor_convert(&wide[2], work->out[0], 0, gconv_tensor_elements(work->out[0]));
  gconv_release(memory);
  return GCONV_OK;
}

/* ---- On a GPU ---- */

/* A chain without operations. */
static gconv_gpu_elements begin(const gconv_node_work *work, const gconv_tensor *out) {
  gconv_gpu_elements job = {.axes = out->axes, .out = out->there, .type = work->in[work->in_count - 1]->type};
  job.out_type = out->type;
  memcpy(job.size, out->shape, sizeof job.size);
  if (job.axes == 0)
    job.size[job.axes++] = 1;
  return job;
}

/* Appends an operation with `count` operands. Operand number `chained` is the result so far; -1: none is. */
static gconv_gpu_operation *append(const gconv_node_work *work, int32_t code, int32_t count, int32_t chained,
                                   gconv_gpu_elements *job) {
  const settings *s = work->settings;
  gconv_gpu_operation *operation = &job->chain[job->length++];
  *operation = (gconv_gpu_operation){.code = code,
                                     .alpha = s->alpha,
                                     .beta = s->beta,
                                     .low = s->low,
                                     .high = s->high,
                                     .approximate = s->approximate,
                                     .remainder = s->remainder,
                                     .count = count,
                                     .chained = chained};
  return operation;
}

static void set_operand(const gconv_tensor *tensor, const gconv_tensor *out, gconv_gpu_operand *operand) {
  operand->data = tensor->there;
  gconv_node_steps(tensor, out, operand->step);
}

/* One operation of up to three inputs. */
static gconv_status launch(const gconv_node_work *work, const gconv_tensor *const *inputs, int32_t count, int32_t code) {
  gconv_gpu_elements job = begin(work, work->out[0]);
  gconv_gpu_operation *operation = append(work, code, count, -1, &job);
  for (int32_t i = 0; i < count; i++)
    set_operand(inputs[i], work->out[0], &operation->operand[i]);
  gconv_tail_append(work, &job);
  return gconv_gpu_elements_run(&job, work->stream);
}

static gconv_status check_divisor(const gconv_node_work *work, const gconv_node_kind *kind) {
  if (gconv_tensor_type_is_real(work->in[0]->type) || (kind->code != DIV && kind->code != MOD))
    return GCONV_OK;
  if (!work->in[1]->data)
    return gconv_fail(GCONV_UNSUPPORTED, "divides integers by what depends on the pixels of the image, which GPUs do not");
  return has_zero(work->in[1]) ? gconv_fail(GCONV_BAD_FILE, "divides integers by 0") : GCONV_OK;
}

static gconv_status cuda(const gconv_node_work *work, const gconv_node_kind *kind) {
  GCONV_TRY(check_divisor(work, kind));
  return launch(work, work->in, work->in_count, kind->code);
}

static gconv_status cuda_pow(const gconv_node_work *work, const gconv_node_kind *kind) {
  GCONV_TRY(gconv_node_need_type(work, 1, work->in[0]->type));
  return cuda(work, kind);
}

static gconv_status cuda_old(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_tensor aligned;
  GCONV_TRY(align_old(work, kind, &aligned));
  const gconv_tensor *pair[2] = {work->in[0], &aligned};
  GCONV_TRY(check_divisor(work, kind));
  return launch(work, pair, 2, kind->code);
}

static gconv_status cuda_many(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *pair[2] = {work->in[0], work->in[0]};
  if (work->in_count == 1) {
    gconv_move all = {0};
    gconv_move_add(&all, gconv_tensor_elements(work->in[0]), 1, 1);
    return gconv_move_run(work, &all, gconv_tensor_type_bytes(work->in[0]->type), work->in[0]->there, work->out[0]->there);
  }
  for (int32_t i = 1; i < work->in_count; i++) {
    pair[1] = work->in[i];
    GCONV_TRY(launch(work, pair, 2, kind->code));
    pair[0] = work->out[0];
  }
  return GCONV_OK;
}

static gconv_status cuda_mean(const gconv_node_work *work, const gconv_node_kind *kind) {
  GCONV_TRY(gconv_node_need_type(work, 0, GCONV_TENSOR_F32));
  GCONV_TRY(cuda_many(work, kind));
  gconv_gpu_elements job = begin(work, work->out[0]);
  gconv_gpu_operation *divide = append(work, DIV, 2, -1, &job);
  set_operand(work->out[0], work->out[0], &divide->operand[0]);
  divide->operand[1].number = (float)work->in_count;
  return gconv_gpu_elements_run(&job, work->stream);
}

/* Bounds that are constant floats are numbers of the operation; others are inputs of Max and Min. */
static gconv_status cuda_clip(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *low = work->in_count > 1 ? work->in[1] : NULL, *high = work->in_count > 2 ? work->in[2] : NULL;
  const gconv_tensor *pair[2] = {work->in[0], NULL};
  if (work->in[0]->type == GCONV_TENSOR_F32 && (!low || low->data) && (!high || high->data)) {
    gconv_gpu_elements job = begin(work, work->out[0]);
    gconv_gpu_operation *clip = append(work, kind->code, 1, -1, &job);
    set_operand(work->in[0], work->out[0], &clip->operand[0]);
    clip->low = low ? *(const float *)low->data : clip->low;
    clip->high = high ? *(const float *)high->data : clip->high;
    return gconv_gpu_elements_run(&job, work->stream);
  }
  for (int32_t i = 0; i < 2; i++) {
    pair[1] = i == 0 ? low : high;
    if (!pair[1])
      continue;
    GCONV_TRY(launch(work, pair, 2, i == 0 ? MAX : MIN));
    pair[0] = work->out[0];
  }
  return pair[0] == work->out[0]
             ? GCONV_OK
             : cuda_many(&(gconv_node_work){.in = work->in, .in_count = 1, .out = work->out, .stream = work->stream}, kind);
}

/* ---- Fusing ---- */

/* Sets numbers[c] to the constant's value for channel c, axis 1 of `out`. Returns false unless it is the same along all
 * other axes. */
static bool read_channels(const gconv_tensor *constant, const gconv_tensor *out, float *numbers) {
  const int32_t channel_axis = constant ? constant->axes - (out->axes - 1) : 0;
  if (!constant || !constant->data || constant->type != GCONV_TENSOR_F32 || constant->axes > out->axes)
    return false;
  for (int32_t i = 0; i < constant->axes; i++)
    if (i != channel_axis && constant->shape[i] != 1)
      return false;
  const bool each = channel_axis >= 0 && constant->shape[channel_axis] != 1;
  for (int64_t c = 0; c < out->shape[1]; c++)
    numbers[c] = ((const float *)constant->data)[each ? c : 0];
  return true;
}

static bool affine(const gconv_node_work *work, const gconv_node_kind *kind, int32_t input, float *scale, float *shift) {
  float *numbers = kind->code == MUL || kind->code == DIV ? scale : shift, *others = numbers == scale ? shift : scale;
  const bool reversed = input == 1;
  if ((kind->code == DIV && reversed) || !read_channels(work->in[1 - input], work->out[0], numbers))
    return false;
  for (int64_t c = 0; c < work->out[0]->shape[1]; c++) {
    others[c] = others == shift ? 0 : kind->code == SUB && reversed ? -1 : 1;
    numbers[c] = kind->code == DIV ? 1 / numbers[c] : kind->code == SUB && !reversed ? -numbers[c] : numbers[c];
    if (!isfinite(numbers[c])) /* as a weight, it would make NaN of samples that are 0 */
      return false;
  }
  return true;
}

static bool activation(const gconv_node_work *work, const gconv_node_kind *kind, gconv_activation *result, float *slope) {
  const settings *s = work->settings;
  const gconv_tensor *low = work->in_count > 1 ? work->in[1] : NULL, *high = work->in_count > 2 ? work->in[2] : NULL;
  const float least = low && low->data ? *(const float *)low->data : low ? -1 : s->low;
  *slope = kind->code == LEAKY ? s->alpha : 1;
  *result = kind->code == LEAKY     ? GCONV_ACTIVATION_LEAKY
            : kind->code == SIGMOID ? GCONV_ACTIVATION_SIGMOID
            : kind->code == TANH    ? GCONV_ACTIVATION_TANH
                                    : GCONV_ACTIVATION_RELU;
  return kind->code != CLIP || (least == 0 && !high && s->high == INFINITY);
}

static bool element(const gconv_node_work *work, const gconv_node_kind *kind, gconv_element_loop **loop,
                    gconv_elementwise_settings *result, int32_t *inputs) {
  const settings *s = work->settings;
  *result = *s;
  *loop = gconv_elementwise_loop(kind->code, GCONV_TENSOR_F32);
  for (int32_t i = 0; i < work->in_count; i++)
    if (work->in[i] && work->in[i]->type != GCONV_TENSOR_F32)
      return false;
  if (kind->code == CLIP) { /* its bounds are inputs, too */
    const gconv_tensor *low = work->in_count > 1 ? work->in[1] : NULL, *high = work->in_count > 2 ? work->in[2] : NULL;
    if ((low && !low->data) || (high && !high->data))
      return false;
    result->low = low ? *(const float *)low->data : result->low;
    result->high = high ? *(const float *)high->data : result->high;
    *inputs = 1;
  }
  return *loop != NULL;
}

/* ---- Attributes ---- */

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *given) {
  static const struct {
    gconv_elementwise operation;
    const char *alpha, *beta; /* the names of the attributes, and their defaults */
    float alpha_default, beta_default;
  } known[] = {{LEAKY, "alpha", "", 0.01F, 0},
               {THRESHOLDED, "alpha", "", 1, 0},
               {HARD_SIGMOID, "alpha", "beta", 0.2F, 0.5F},
               {SWISH, "alpha", "", 1, 0},
               {ELU, "alpha", "", 1, 0},
               {CELU, "alpha", "", 1, 0},
               {SELU, "alpha", "gamma", 1.67326319F, 1.05070102F},
               {SHRINK, "lambd", "bias", 0.5F, 0}};
  static const char *const directions[] = {"LEFT", "RIGHT", NULL};
  settings *s = given;
  const gconv_onnx_attribute *approximate = gconv_onnx_find_attribute(node, "approximate");
  const char *text = approximate && approximate->text ? approximate->text : "none";
  int32_t direction = -1;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].operation == (gconv_elementwise)kind->code) {
      s->alpha = gconv_onnx_number_of(node, known[i].alpha, known[i].alpha_default);
      s->beta = gconv_onnx_number_of(node, known[i].beta, known[i].beta_default);
    }
  GCONV_TRY(gconv_node_attribute_choice(node, "direction", directions, &direction));
  if (kind->code == BIT_SHIFT && direction < 0)
    return gconv_fail(GCONV_BAD_FILE, "has no direction: LEFT or RIGHT");
  s->left = direction == 0;
  s->finds_positive = gconv_onnx_integer_of(node, "detect_positive", 1) != 0;
  s->finds_negative = gconv_onnx_integer_of(node, "detect_negative", 1) != 0;
  s->low = gconv_onnx_number_of(node, "min", -INFINITY);
  s->high = gconv_onnx_number_of(node, "max", INFINITY);
  s->axis = gconv_onnx_integer_of(node, "axis", -1);
  s->by_suffix = gconv_onnx_integer_of(node, "broadcast", 0) != 0;
  s->remainder = gconv_onnx_integer_of(node, "fmod", 0) != 0;
  s->approximate = strcmp(text, "tanh") == 0;
  if (!s->approximate && strcmp(text, "none") != 0)
    return gconv_onnx_fail_node(node, GCONV_UNSUPPORTED, "approximates by '%.40s': tanh and none are known", text);
  return GCONV_OK;
}

static rules none = {END}, alpha = {FLOAT("alpha", 1, NEWEST), END},
             alpha_beta = {FLOAT("alpha", 1, NEWEST), FLOAT("beta", 1, NEWEST), END},
             alpha_gamma = {FLOAT("alpha", 1, NEWEST), FLOAT("gamma", 1, NEWEST), END},
             bounds = {FLOAT("min", 1, 10), FLOAT("max", 1, 10), END}, approximate = {STRING("approximate"), END},
             old_one = {INTS("consumed_inputs", 1, 5), END},
             old_alpha = {FLOAT("alpha", 1, NEWEST), INTS("consumed_inputs", 1, 5), END},
             old_rules = {INT("axis", 1, 6), INT("broadcast", 1, 6), END}, fmod_rule = {INT("fmod", 1, NEWEST), END},
             shrink = {FLOAT("lambd", 1, NEWEST), FLOAT("bias", 1, NEWEST), END}, direction = {STRING("direction"), END},
             infinities = {INT("detect_positive", 1, NEWEST), INT("detect_negative", 1, NEWEST), END};

/* ---- The table ---- */

#define ROW(name, since, until, least, most, memory, rules, code, shape, run, cuda)                                         \
  GCONV_NODE_KIND(name, since, until, least, most, 1, 1, 0, 0, memory, GCONV_REACH_POINT, rules, code, sizeof(settings),    \
                  parse, shape, run, cuda, NULL, NULL, NULL, NULL)
#define FUSED(name, since, until, least, most, rules, code, shape, run, cuda, affine, activation, fuses)                    \
  GCONV_NODE_KIND_OF(name, since, until, least, most, 1, 1, 0, 0, GCONV_MEMORY_IN_PLACE, GCONV_REACH_POINT, rules, code,    \
                     sizeof(settings), parse, shape, run, cuda, NULL, NULL, NULL, NULL, NULL, affine, activation, element,  \
                     fuses, GCONV_BLOCKS_ALIKE)
#define ACTIVATION(name, since, rules, code)                                                                                \
  FUSED(name, since, NEWEST, 1, 1, rules, code, shape, run, cuda, NULL, activation, GCONV_FUSES_NOTHING)
#define AFFINE(name, since, code)                                                                                           \
  FUSED(name, since, NEWEST, 2, 2, none, code, shape, run, cuda, affine, NULL, GCONV_FUSES_TAILS_ON_GPU)
#define ONE(name, since, rules, code, cuda)                                                                                 \
  FUSED(name, since, NEWEST, 1, 1, rules, code, shape, run, cuda, NULL, NULL, GCONV_FUSES_NOTHING)
#define TWO(name, since, rules, code, cuda)                                                                                 \
  ROW(name, since, NEWEST, 2, 2, GCONV_MEMORY_IN_PLACE, rules, code, shape, run, cuda)
#define OLD(name, code) ROW(name, 6, 6, 2, 2, GCONV_MEMORY_IN_PLACE, old_rules, code, shape_old, run_old, cuda_old)
#define TEST(name, since, least, rules, code, cuda)                                                                         \
  ROW(name, since, NEWEST, least, least, GCONV_MEMORY_OWN, rules, code, shape, run, cuda)
#define MANY(name, since, code, shape, run, cuda)                                                                           \
  ROW(name, since, NEWEST, 1, GCONV_ANY_NUMBER, GCONV_MEMORY_OWN, none, code, shape, run, cuda)
const gconv_node_kind gconv_node_kinds_elementwise[] = {
    ACTIVATION("Relu", 1, old_one, RELU),
    ACTIVATION("LeakyRelu", 1, old_alpha, LEAKY),
    ONE("ThresholdedRelu", 1, alpha, THRESHOLDED, cuda),
    ACTIVATION("Sigmoid", 1, old_one, SIGMOID),
    ACTIVATION("Tanh", 1, old_one, TANH),
    FUSED("Clip", 6, 10, 1, 1, bounds, CLIP, shape_clip, run_clip, cuda_clip, NULL, activation, GCONV_FUSES_NOTHING),
    FUSED("Clip", 11, NEWEST, 1, 3, none, CLIP, shape_clip, run_clip, cuda_clip, NULL, activation, GCONV_FUSES_NOTHING),
    ONE("HardSigmoid", 6, alpha_beta, HARD_SIGMOID, cuda),
    ONE("HardSwish", 14, none, HARD_SWISH, cuda),
    ONE("Swish", 24, alpha, SWISH, cuda),
    ONE("Elu", 6, alpha, ELU, cuda),
    ONE("Selu", 6, alpha_gamma, SELU, cuda),
    ONE("Celu", 12, alpha, CELU, cuda),
    ONE("Softplus", 1, none, SOFTPLUS, cuda),
    ONE("Softsign", 1, none, SOFTSIGN, cuda),
    ONE("Mish", 18, none, MISH, cuda),
    ONE("Gelu", 20, approximate, GELU, cuda),
    ONE("Shrink", 9, shrink, SHRINK, GCONV_NOT_ON_CUDA),
    ONE("Erf", 9, none, ERF, cuda),
    ONE("Sqrt", 6, none, SQRT, cuda),
    ONE("Exp", 6, none, EXP, cuda),
    ONE("Log", 6, none, LOG, cuda),
    ONE("Sin", 7, none, SIN, cuda),
    ONE("Cos", 7, none, COS, cuda),
    ONE("Tan", 7, none, TAN, GCONV_NOT_ON_CUDA),
    ONE("Asin", 7, none, ASIN, GCONV_NOT_ON_CUDA),
    ONE("Acos", 7, none, ACOS, GCONV_NOT_ON_CUDA),
    ONE("Atan", 7, none, ATAN, GCONV_NOT_ON_CUDA),
    ONE("Sinh", 9, none, SINH, GCONV_NOT_ON_CUDA),
    ONE("Cosh", 9, none, COSH, GCONV_NOT_ON_CUDA),
    ONE("Asinh", 9, none, ASINH, GCONV_NOT_ON_CUDA),
    ONE("Acosh", 9, none, ACOSH, GCONV_NOT_ON_CUDA),
    ONE("Atanh", 9, none, ATANH, GCONV_NOT_ON_CUDA),
    ONE("Abs", 6, none, ABS, cuda),
    ONE("Neg", 6, none, NEG, cuda),
    ONE("Reciprocal", 6, none, RECIPROCAL, cuda),
    ONE("Floor", 6, none, FLOOR, cuda),
    ONE("Ceil", 6, none, CEIL, cuda),
    ONE("Round", 11, none, ROUND, cuda),
    ONE("Sign", 9, none, SIGN, cuda),
    ONE("BitwiseNot", 18, none, BITWISE_NOT, GCONV_NOT_ON_CUDA),
    TEST("IsNaN", 9, 1, none, IS_NAN, cuda),
    TEST("IsInf", 10, 1, infinities, IS_INF, GCONV_NOT_ON_CUDA),
    ONE("Not", 1, none, NOT, cuda),
    OLD("Add", ADD),
    OLD("Sub", SUB),
    OLD("Mul", MUL),
    OLD("Div", DIV),
    OLD("Pow", POW),
    OLD("PRelu", PRELU),
    AFFINE("Add", 7, ADD),
    AFFINE("Sub", 7, SUB),
    AFFINE("Mul", 7, MUL),
    AFFINE("Div", 7, DIV),
    FUSED("PRelu", 7, NEWEST, 2, 2, none, PRELU, shape_prelu, run, cuda, NULL, NULL, GCONV_FUSES_NOTHING),
    ROW("Mod", 10, NEWEST, 2, 2, GCONV_MEMORY_IN_PLACE, fmod_rule, MOD, shape, run, cuda),
    ROW("Pow", 7, NEWEST, 2, 2, GCONV_MEMORY_OWN, none, POW, shape, run_pow, cuda_pow),
    TWO("BitShift", 11, direction, BIT_SHIFT, GCONV_NOT_ON_CUDA),
    TWO("BitwiseAnd", 18, none, BITWISE_AND, GCONV_NOT_ON_CUDA),
    TWO("BitwiseOr", 18, none, BITWISE_OR, GCONV_NOT_ON_CUDA),
    TWO("BitwiseXor", 18, none, BITWISE_XOR, GCONV_NOT_ON_CUDA),
    MANY("Min", 6, MIN, shape, run_many, cuda_many),
    MANY("Max", 6, MAX, shape, run_many, cuda_many),
    MANY("Sum", 6, ADD, shape, run_many, cuda_many),
    MANY("Mean", 6, ADD, shape_mean, run_mean, cuda_mean),
    TEST("Equal", 7, 2, none, EQUAL, cuda),
    TEST("Less", 7, 2, none, LESS, cuda),
    TEST("LessOrEqual", 12, 2, none, LESS_EQUAL, cuda),
    TEST("Greater", 7, 2, none, GREATER, cuda),
    TEST("GreaterOrEqual", 12, 2, none, GREATER_EQUAL, cuda),
    TEST("And", 7, 2, none, AND, cuda),
    TEST("Or", 7, 2, none, OR, cuda),
    TEST("Xor", 7, 2, none, XOR, cuda),
    TEST("Where", 9, 3, none, WHERE, cuda),
    GCONV_NODE_KIND_END,
};

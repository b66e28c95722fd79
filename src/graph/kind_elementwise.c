/* SPDX-License-Identifier: MIT */
/* Element-wise nodes. Inputs are broadcast as NumPy does. elementwise.c has the loops, and elementwise_gpu.c runs the nodes
 * on a GPU. */
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

/* All inputs have one type, except the condition of Where and the exponent of Pow. */
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
      return gconv_fail(GCONV_UNSUPPORTED, "is not computed for %s numbers", gconv_tensor_type_name(work->in[i]->type));
  }
  GCONV_TRY(gconv_node_broadcast(work, &result));
  result.type = makes_bools(kind->code) ? GCONV_TENSOR_BOOL : result.type;
  gconv_node_set_like(work, 0, &result);
  return GCONV_OK;
}

static gconv_status shape_old(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_tensor aligned;
  GCONV_TRY(gconv_node_need_type(work, 1, work->in[0]->type));
  if (!gconv_elementwise_loop(kind->code, work->in[0]->type))
    return gconv_fail(GCONV_UNSUPPORTED, "is not computed for %s numbers", gconv_tensor_type_name(work->in[0]->type));
  GCONV_TRY(gconv_elementwise_align_old(work, kind, &aligned));
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
    return gconv_fail(GCONV_UNSUPPORTED, "is not computed for %s numbers", gconv_tensor_type_name(type));
  gconv_node_set_like(work, 0, work->in[0]);
  return GCONV_OK;
}

/* ---- Runs ---- */

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  const bool whole = !gconv_tensor_type_is_real(work->in[0]->type);
  if (whole && (kind->code == DIV || kind->code == MOD) && gconv_elementwise_has_zero(work->in[1]))
    return gconv_fail(GCONV_BAD_FILE, "divides integers by 0");
  gconv_node_loop(work, work->in, work->in_count, gconv_elementwise_loop(kind->code, work->in[work->in_count - 1]->type),
                  work->out[0]);
  return GCONV_OK;
}

static gconv_status run_old(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_tensor aligned;
  GCONV_TRY(gconv_elementwise_align_old(work, kind, &aligned));
  const gconv_tensor *pair[2] = {work->in[0], &aligned};
  gconv_node_work inner = *work;
  inner.in = pair;
  return run(&inner, kind);
}

/* Operators of any number of inputs combine the first two inputs, then the result with the next input, and so on. */
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

/* The result of Pow has the type of the base; the exponent may have another type. An integer to the power of a
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
  const bool hard =
      kind->code == HARD_SIGMOID || kind->code == HARD_SWISH; /* as constants, compilers fold them into branches */
  s->low = hard ? 0 : gconv_onnx_number_of(node, "min", -INFINITY);
  s->high = hard ? 1 : gconv_onnx_number_of(node, "max", INFINITY);
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
  FUSED(name, since, NEWEST, 1, 1, rules, code, shape, run, gconv_elementwise_cuda, NULL, activation, GCONV_FUSES_NOTHING)
#define AFFINE(name, since, code)                                                                                           \
  FUSED(name, since, NEWEST, 2, 2, none, code, shape, run, gconv_elementwise_cuda, affine, NULL, GCONV_FUSES_TAILS_ON_GPU)
#define ON(name, since, rules, code, cuda)                                                                                  \
  FUSED(name, since, NEWEST, 1, 1, rules, code, shape, run, cuda, NULL, NULL, GCONV_FUSES_NOTHING)
#define ONE(name, since, rules, code) ON(name, since, rules, code, gconv_elementwise_cuda)
#define ONE_ON_CPU(name, since, rules, code) ON(name, since, rules, code, GCONV_NOT_ON_CUDA)
#define TWO_ON_CPU(name, since, rules, code)                                                                                \
  ROW(name, since, NEWEST, 2, 2, GCONV_MEMORY_IN_PLACE, rules, code, shape, run, GCONV_NOT_ON_CUDA)
#define OLD(name, code)                                                                                                     \
  ROW(name, 6, 6, 2, 2, GCONV_MEMORY_IN_PLACE, old_rules, code, shape_old, run_old, gconv_elementwise_cuda_old)
#define TEST(name, since, least, rules, code, cuda)                                                                         \
  ROW(name, since, NEWEST, least, least, GCONV_MEMORY_OWN, rules, code, shape, run, cuda)
#define MANY(name, since, code, shape, run, cuda)                                                                           \
  ROW(name, since, NEWEST, 1, GCONV_ANY_NUMBER, GCONV_MEMORY_OWN, none, code, shape, run, cuda)
const gconv_node_kind gconv_node_kinds_elementwise[] = {
    ACTIVATION("Relu", 1, old_one, RELU),
    ACTIVATION("LeakyRelu", 1, old_alpha, LEAKY),
    ONE("ThresholdedRelu", 1, alpha, THRESHOLDED),
    ACTIVATION("Sigmoid", 1, old_one, SIGMOID),
    ACTIVATION("Tanh", 1, old_one, TANH),
    FUSED("Clip", 6, 10, 1, 1, bounds, CLIP, shape_clip, run_clip, gconv_elementwise_cuda_clip, NULL, activation,
          GCONV_FUSES_NOTHING),
    FUSED("Clip", 11, NEWEST, 1, 3, none, CLIP, shape_clip, run_clip, gconv_elementwise_cuda_clip, NULL, activation,
          GCONV_FUSES_NOTHING),
    ONE("HardSigmoid", 6, alpha_beta, HARD_SIGMOID),
    ONE("HardSwish", 14, none, HARD_SWISH),
    ONE("Swish", 24, alpha, SWISH),
    ONE("Elu", 6, alpha, ELU),
    ONE("Selu", 6, alpha_gamma, SELU),
    ONE("Celu", 12, alpha, CELU),
    ONE("Softplus", 1, none, SOFTPLUS),
    ONE("Softsign", 1, none, SOFTSIGN),
    ONE("Mish", 18, none, MISH),
    ONE("Gelu", 20, approximate, GELU),
    ONE_ON_CPU("Shrink", 9, shrink, SHRINK),
    ONE("Erf", 9, none, ERF),
    ONE("Sqrt", 6, none, SQRT),
    ONE("Exp", 6, none, EXP),
    ONE("Log", 6, none, LOG),
    ONE("Sin", 7, none, SIN),
    ONE("Cos", 7, none, COS),
    ONE_ON_CPU("Tan", 7, none, TAN),
    ONE_ON_CPU("Asin", 7, none, ASIN),
    ONE_ON_CPU("Acos", 7, none, ACOS),
    ONE_ON_CPU("Atan", 7, none, ATAN),
    ONE_ON_CPU("Sinh", 9, none, SINH),
    ONE_ON_CPU("Cosh", 9, none, COSH),
    ONE_ON_CPU("Asinh", 9, none, ASINH),
    ONE_ON_CPU("Acosh", 9, none, ACOSH),
    ONE_ON_CPU("Atanh", 9, none, ATANH),
    ONE("Abs", 6, none, ABS),
    ONE("Neg", 6, none, NEG),
    ONE("Reciprocal", 6, none, RECIPROCAL),
    ONE("Floor", 6, none, FLOOR),
    ONE("Ceil", 6, none, CEIL),
    ONE("Round", 11, none, ROUND),
    ONE("Sign", 9, none, SIGN),
    ONE_ON_CPU("BitwiseNot", 18, none, BITWISE_NOT),
    TEST("IsNaN", 9, 1, none, IS_NAN, gconv_elementwise_cuda),
    TEST("IsInf", 10, 1, infinities, IS_INF, GCONV_NOT_ON_CUDA),
    ONE("Not", 1, none, NOT),
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
    FUSED("PRelu", 7, NEWEST, 2, 2, none, PRELU, shape_prelu, run, gconv_elementwise_cuda, NULL, NULL, GCONV_FUSES_NOTHING),
    ROW("Mod", 10, NEWEST, 2, 2, GCONV_MEMORY_IN_PLACE, fmod_rule, MOD, shape, run, gconv_elementwise_cuda),
    ROW("Pow", 7, NEWEST, 2, 2, GCONV_MEMORY_OWN, none, POW, shape, run_pow, gconv_elementwise_cuda_pow),
    TWO_ON_CPU("BitShift", 11, direction, BIT_SHIFT),
    TWO_ON_CPU("BitwiseAnd", 18, none, BITWISE_AND),
    TWO_ON_CPU("BitwiseOr", 18, none, BITWISE_OR),
    TWO_ON_CPU("BitwiseXor", 18, none, BITWISE_XOR),
    MANY("Min", 6, MIN, shape, run_many, gconv_elementwise_cuda_many),
    MANY("Max", 6, MAX, shape, run_many, gconv_elementwise_cuda_many),
    MANY("Sum", 6, ADD, shape, run_many, gconv_elementwise_cuda_many),
    MANY("Mean", 6, ADD, shape_mean, run_mean, gconv_elementwise_cuda_mean),
    TEST("Equal", 7, 2, none, EQUAL, gconv_elementwise_cuda),
    TEST("Less", 7, 2, none, LESS, gconv_elementwise_cuda),
    TEST("LessOrEqual", 12, 2, none, LESS_EQUAL, gconv_elementwise_cuda),
    TEST("Greater", 7, 2, none, GREATER, gconv_elementwise_cuda),
    TEST("GreaterOrEqual", 12, 2, none, GREATER_EQUAL, gconv_elementwise_cuda),
    TEST("And", 7, 2, none, AND, gconv_elementwise_cuda),
    TEST("Or", 7, 2, none, OR, gconv_elementwise_cuda),
    TEST("Xor", 7, 2, none, XOR, gconv_elementwise_cuda),
    TEST("Where", 9, 3, none, WHERE, gconv_elementwise_cuda),
    GCONV_NODE_KIND_END,
};

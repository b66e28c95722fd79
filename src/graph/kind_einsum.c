/* SPDX-License-Identifier: MIT */
/* Einsum: sums of products of elements. A text, such as "bhid,bhjd->bhij", says which axes are multiplied and summed. */
#include "bank/onnx_rules.h"
#include "graph/node.h"

#include <ctype.h>
#include <string.h>

/* Labels of axes: letters, and axes of an ellipsis, counted from its last one. */
enum { LETTERS = 52, LABELS = LETTERS + GCONV_TENSOR_AXES, MOST_INPUTS = 8, MOST_TEXT = 255 };
enum {
  MOST_PRODUCTS = 1 << 16 /* for each element of inputs and output; three matrices of 256 x 256 need as many */
};

typedef struct settings {
  char text[MOST_TEXT + 1]; /* without blanks */
} settings;

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(node, "equation");
  size_t length = 0;
  for (const char *c = a && a->text ? a->text : ""; *c; c++) {
    if (length == MOST_TEXT)
      return gconv_fail(GCONV_UNSUPPORTED, "has an equation of more than %d letters", MOST_TEXT);
    if (!isspace((unsigned char)*c))
      s->text[length++] = *c;
  }
  return a && a->text ? GCONV_OK : gconv_fail(GCONV_BAD_FILE, "has no equation");
}

/* ---- The equation ---- */

/* The labels of the axes of a tensor. */
typedef struct term {
  int32_t count, label[GCONV_TENSOR_AXES];
  int32_t ellipsis; /* the place of an ellipsis among them; -1: none */
} term;

typedef struct equation {
  term in[MOST_INPUTS], out;
  int64_t size[LABELS]; /* 0: no input has the label. Sizes of 1 are repeated */
  int32_t covered;      /* axes of an ellipsis */
} equation;

static gconv_status fail_text(const settings *s) {
  return gconv_fail(GCONV_BAD_FILE, "has the equation '%.60s', which is not valid for its inputs", s->text);
}

/* Letters of ASCII, whatever the locale says. */
static bool is_letter(int c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Reads letters and one ellipsis, up to another character. */
static gconv_status read_term(const settings *s, const char **at, term *t) {
  *t = (term){.ellipsis = -1};
  for (;; ++*at) {
    const char c = **at;
    if (c == '.' && t->ellipsis < 0 && strncmp(*at, "...", 3) == 0) {
      t->ellipsis = t->count;
      *at += 2;
      continue;
    }
    if (!is_letter(c))
      return GCONV_OK;
    if (t->count == GCONV_TENSOR_AXES)
      return fail_text(s);
    t->label[t->count++] = c >= 'a' ? c - 'a' : c - 'A' + LETTERS / 2;
  }
}

/* Replaces the ellipsis by the labels of its last `axes` axes. */
static gconv_status open_ellipsis(const settings *s, int32_t axes, term *t) {
  if (t->ellipsis < 0)
    return axes == 0 ? GCONV_OK : fail_text(s);
  if (axes < 0 || t->count + axes > GCONV_TENSOR_AXES)
    return fail_text(s);
  memmove(t->label + t->ellipsis + axes, t->label + t->ellipsis, (size_t)(t->count - t->ellipsis) * sizeof *t->label);
  for (int32_t i = 0; i < axes; i++)
    t->label[t->ellipsis + i] = LETTERS + axes - 1 - i;
  t->count += axes;
  return GCONV_OK;
}

/* Notes the sizes of the labels of an input. */
static gconv_status take_input(const settings *s, const gconv_tensor *tensor, equation *e, term *t) {
  const int32_t axes = t->ellipsis < 0 ? 0 : tensor->axes - t->count;
  GCONV_TRY(open_ellipsis(s, axes, t));
  e->covered = axes > e->covered ? axes : e->covered;
  if (t->count != tensor->axes)
    return fail_text(s);
  for (int32_t i = 0; i < t->count; i++) {
    int64_t *size = &e->size[t->label[i]];
    const int64_t mine = tensor->shape[i];
    if (mine == 0)
      return gconv_fail(GCONV_UNSUPPORTED, "takes a tensor without elements");
    if (*size > 1 && mine > 1 && *size != mine)
      return fail_text(s);
    for (int32_t k = 0; k < i; k++) /* only a square has a diagonal */
      if (t->label[k] == t->label[i] && tensor->shape[k] != mine)
        return fail_text(s);
    *size = mine > *size ? mine : *size;
  }
  return GCONV_OK;
}

/* Without "->", the output has the ellipsis, then the letters that stand once, in the order of ASCII. */
static gconv_status imply_output(const settings *s, term *out) {
  int32_t seen[256] = {0};
  *out = (term){.ellipsis = strstr(s->text, "...") ? 0 : -1};
  for (const char *c = s->text; *c; c++)
    seen[(unsigned char)*c]++;
  for (int32_t c = 'A'; c <= 'z'; c++)
    if (is_letter(c) && seen[c] == 1) {
      if (out->count == GCONV_TENSOR_AXES)
        return gconv_fail(GCONV_UNSUPPORTED, "makes a tensor of more than %d axes", GCONV_TENSOR_AXES);
      out->label[out->count++] = c >= 'a' ? c - 'a' : c - 'A' + LETTERS / 2;
    }
  return GCONV_OK;
}

static gconv_status read_equation(const gconv_node_work *work, equation *e) {
  const settings *s = work->settings;
  const char *at = s->text;
  bool used[LABELS] = {0};
  *e = (equation){.covered = 0};
  for (int32_t i = 0; i < work->in_count; i++) {
    GCONV_TRY(read_term(s, &at, &e->in[i]));
    GCONV_TRY(take_input(s, work->in[i], e, &e->in[i]));
    if (i + 1 < work->in_count && *at++ != ',')
      return fail_text(s);
  }
  if (strncmp(at, "->", 2) == 0) {
    at += 2;
    GCONV_TRY(read_term(s, &at, &e->out));
  } else if (!*at)
    GCONV_TRY(imply_output(s, &e->out));
  if (*at)
    return fail_text(s);
  GCONV_TRY(open_ellipsis(s, e->covered, &e->out));
  for (int32_t i = 0; i < e->out.count; i++) {
    if (e->size[e->out.label[i]] == 0 || used[e->out.label[i]])
      return fail_text(s);
    used[e->out.label[i]] = true;
  }
  return GCONV_OK;
}

static bool is_taken(gconv_tensor_type type) {
  return gconv_tensor_type_is_real(type) || type == GCONV_TENSOR_I32 || type == GCONV_TENSOR_I64;
}

/* Fails if there are very many products for each element. */
static gconv_status check_products(const gconv_node_work *work, const equation *e) {
  int64_t elements = 1, products = 1;
  for (int32_t i = 0; i < e->out.count; i++)
    if (__builtin_mul_overflow(elements, e->size[e->out.label[i]], &elements))
      return gconv_fail(GCONV_TOO_LARGE, "makes too many elements");
  for (int32_t i = 0; i < work->in_count; i++)
    elements = elements > INT64_MAX - (1LL << 41) ? elements : elements + gconv_tensor_elements(work->in[i]);
  for (int32_t label = 0; label < LABELS; label++)
    if (e->size[label] > 0 && __builtin_mul_overflow(products, e->size[label], &products))
      products = INT64_MAX;
  return products / MOST_PRODUCTS <= elements
             ? GCONV_OK
             : gconv_fail(GCONV_TOO_LARGE,
                          "needs more than %d products for each of its elements: split it into products of two tensors",
                          MOST_PRODUCTS);
}

static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  equation e;
  int64_t sizes[GCONV_TENSOR_AXES];
  if (work->in_count > MOST_INPUTS)
    return gconv_fail(GCONV_UNSUPPORTED, "has %d inputs: %d are the most", work->in_count, MOST_INPUTS);
  if (!is_taken(work->in[0]->type))
    return gconv_fail(GCONV_UNSUPPORTED, "is not computed for %s numbers", gconv_tensor_type_name(work->in[0]->type));
  for (int32_t i = 1; i < work->in_count; i++)
    GCONV_TRY(gconv_node_need_type(work, i, work->in[0]->type));
  GCONV_TRY(read_equation(work, &e));
  GCONV_TRY(check_products(work, &e));
  for (int32_t i = 0; i < e.out.count; i++)
    sizes[i] = e.size[e.out.label[i]];
  gconv_node_set(work, 0, work->in[0]->type, e.out.count, sizes);
  return GCONV_OK;
}

/* ---- Runs ---- */

/* An axis of the output, or one that is summed. step: the distance of neighbours of each input along the axis. */
typedef struct line {
  int64_t size, step[MOST_INPUTS];
} line;

typedef struct job {
  const gconv_node_work *work;
  line kept[GCONV_TENSOR_AXES], summed[LABELS];
  int32_t kept_count, summed_count;
  int64_t count; /* products of an output */
} job;

static line line_of(const gconv_node_work *work, const equation *e, int32_t label) {
  line l = {.size = e->size[label]};
  for (int32_t i = 0; i < work->in_count; i++)
    for (int32_t axis = 0; axis < e->in[i].count; axis++) /* a label that stands twice is a diagonal */
      if (e->in[i].label[axis] == label && work->in[i]->shape[axis] > 1)
        l.step[i] += gconv_tensor_count(work->in[i], axis + 1, work->in[i]->axes);
  return l;
}

/* Finds the element of each input at place `i` of some axes, counted from the element `from`. */
static void find_places(const line *lines, int32_t count, int64_t i, int32_t inputs, const int64_t *from, int64_t *to) {
  memcpy(to, from, (size_t)inputs * sizeof *to);
  for (int32_t axis = count - 1; axis >= 0; i /= lines[axis--].size)
    for (int32_t k = 0; k < inputs; k++)
      to[k] += i % lines[axis].size * lines[axis].step[k];
}

/* The last summed axis is the inner loop. */
#define SUM(name, NUMBER, WIDE)                                                                                             \
  static void sum_##name(void *context, int64_t begin, int64_t end) {                                                       \
    static const int64_t zeros[MOST_INPUTS] = {0};                                                                          \
    const job *j = context;                                                                                                 \
    const int32_t inputs = j->work->in_count, outer = j->summed_count > 0 ? j->summed_count - 1 : 0;                        \
    const line one = {.size = 1}, *inner = j->summed_count > 0 ? &j->summed[outer] : &one;                                  \
    int64_t first[MOST_INPUTS], at[MOST_INPUTS];                                                                            \
    for (int64_t o = begin; o < end; o++) {                                                                                 \
      WIDE sum = 0;                                                                                                         \
      find_places(j->kept, j->kept_count, o, inputs, zeros, first);                                                         \
      for (int64_t i = 0; i < j->count / inner->size; i++) {                                                                \
        find_places(j->summed, outer, i, inputs, first, at);                                                                \
        for (int64_t x = 0; x < inner->size; x++) {                                                                         \
          WIDE product = ((const NUMBER *)j->work->in[0]->data)[at[0] + x * inner->step[0]];                                \
          for (int32_t k = 1; k < inputs; k++)                                                                              \
            product *= ((const NUMBER *)j->work->in[k]->data)[at[k] + x * inner->step[k]];                                  \
          sum += product;                                                                                                   \
        }                                                                                                                   \
      }                                                                                                                     \
      ((NUMBER *)j->work->out[0]->data)[o] = (NUMBER)sum;                                                                   \
    }                                                                                                                       \
  }
SUM(f32, float, double)
SUM(f64, double, double)
SUM(u32, uint32_t, uint32_t)
SUM(u64, uint64_t, uint64_t)

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  void (*const sum)(void *, int64_t, int64_t) = work->in[0]->type == GCONV_TENSOR_F32   ? sum_f32
                                                : work->in[0]->type == GCONV_TENSOR_F64 ? sum_f64
                                                : work->in[0]->type == GCONV_TENSOR_I32 ? sum_u32
                                                                                        : sum_u64;
  job j = {.work = work, .count = 1};
  bool kept[LABELS] = {0};
  equation e;
  GCONV_TRY(read_equation(work, &e));
  for (; j.kept_count < e.out.count; j.kept_count++) {
    kept[e.out.label[j.kept_count]] = true;
    j.kept[j.kept_count] = line_of(work, &e, e.out.label[j.kept_count]);
  }
  for (int32_t label = 0; label < LABELS; label++)
    if (e.size[label] > 0 && !kept[label]) {
      j.summed[j.summed_count++] = line_of(work, &e, label);
      j.count *= e.size[label];
    }
  gconv_node_share(work, gconv_tensor_elements(work->out[0]), (1 << 13) / j.count + 1, sum, &j);
  return GCONV_OK;
}

static rules equation_rule = {STRING("equation"), END};

const gconv_node_kind gconv_node_kinds_einsum[] = {
    GCONV_NODE_KIND("Einsum", 12, NEWEST, 1, GCONV_ANY_NUMBER, 1, 1, 0, 0, GCONV_MEMORY_OWN, GCONV_REACH_ALL, equation_rule,
                    0, sizeof(settings), parse, shape, run, GCONV_NOT_ON_CUDA, NULL, NULL, NULL, NULL),
    GCONV_NODE_KIND_END,
};

/* SPDX-License-Identifier: MIT */
/* Products of matrices: MatMul and Gemm. A sum is one chain of float32, from the first product to the last. */
#include "bank/onnx_rules.h"
#include "graph/node.h"
#include "kernels/cuda/graph/graph.h"

#include <inttypes.h>

enum { MATMUL, GEMM };

typedef struct settings {
  float alpha, beta;
  bool turns_a, turns_b; /* transposed */
} settings;

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  (void)kind;
  (void)opset;
  s->alpha = gconv_onnx_number_of(node, "alpha", 1);
  s->beta = gconv_onnx_number_of(node, "beta", 1);
  s->turns_a = gconv_onnx_integer_of(node, "transA", 0) != 0;
  s->turns_b = gconv_onnx_integer_of(node, "transB", 0) != 0;
  return GCONV_OK;
}

/* Matrices a, M x K, and b, K x N: element (m, k) of a is a[m * a_row + k * a_column], and so on. */
typedef struct product {
  int64_t m, n, k, a_row, a_column, b_row, b_column;
  gconv_tensor stack; /* the axes before those of the matrices, broadcast */
} product;

static gconv_status fail(const gconv_tensor *a, const gconv_tensor *b) {
  char first[160], second[160];
  gconv_tensor_shape_text(a, first, sizeof first);
  gconv_tensor_shape_text(b, second, sizeof second);
  return gconv_fail(GCONV_BAD_FILE, "multiplies matrices of %s and of %s, which do not fit together", first, second);
}

/* The axes before the last two. */
static gconv_tensor stack_of(const gconv_tensor *t) {
  gconv_tensor stack = *t;
  stack.axes = t->axes > 2 ? t->axes - 2 : 0;
  return stack;
}

/* A vector as the first factor is a row, as the second a column. */
static gconv_status find(const gconv_node_work *work, product *p) {
  const settings *s = work->settings;
  const gconv_tensor *a = work->in[0], *b = work->in[1], a_stack = stack_of(a), b_stack = stack_of(b);
  const gconv_tensor *stacks[] = {&a_stack, &b_stack};
  if (a->axes < 1 || b->axes < 1)
    return fail(a, b);
  const int64_t a_high = a->axes > 1 ? a->shape[a->axes - 2] : 1, a_wide = a->shape[a->axes - 1];
  const int64_t b_high = b->axes > 1 ? b->shape[b->axes - 2] : b->shape[0], b_wide = b->axes > 1 ? b->shape[b->axes - 1] : 1;
  p->m = s->turns_a ? a_wide : a_high;
  p->k = s->turns_a ? a_high : a_wide;
  p->n = s->turns_b ? b_high : b_wide;
  p->a_row = s->turns_a ? 1 : a_wide;
  p->a_column = s->turns_a ? a_wide : 1;
  p->b_row = s->turns_b ? 1 : b_wide;
  p->b_column = s->turns_b ? b_wide : 1;
  p->stack.type = GCONV_TENSOR_F32;
  if (p->k != (s->turns_b ? b_wide : b_high))
    return fail(a, b);
  return gconv_node_broadcast(&(gconv_node_work){.in = stacks, .in_count = 2}, &p->stack);
}

static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *a = work->in[0], *b = work->in[1];
  product p;
  for (int32_t i = 0; i < work->in_count; i++)
    GCONV_TRY(gconv_node_need_type(work, i, GCONV_TENSOR_F32));
  if (kind->code == GEMM && (a->axes != 2 || b->axes != 2))
    return fail(a, b);
  GCONV_TRY(find(work, &p));
  gconv_tensor out = p.stack;
  if (out.axes + 2 > GCONV_TENSOR_AXES)
    return gconv_fail(GCONV_UNSUPPORTED, "makes a tensor of more than %d axes", GCONV_TENSOR_AXES);
  if (a->axes > 1)
    out.shape[out.axes++] = p.m;
  if (b->axes > 1)
    out.shape[out.axes++] = p.n;
  if (work->in_count > 2 && work->in[2]) { /* C of Gemm is broadcast to the product */
    const gconv_tensor *both[] = {&out, work->in[2]};
    gconv_tensor covered;
    GCONV_TRY(gconv_node_broadcast(&(gconv_node_work){.in = both, .in_count = 2}, &covered));
    if (covered.axes != 2 || covered.shape[0] != p.m || covered.shape[1] != p.n)
      return gconv_fail(GCONV_BAD_FILE, "adds a tensor that is larger than its product");
  }
  gconv_node_set_like(work, 0, &out);
  return GCONV_OK;
}

/* ---- Runs ---- */

enum { WIDE = 512 /* columns at a time, which stay in the first cache */ };

typedef struct job {
  const product *p;
  const settings *s;
  const float *a, *b, *c;
  float *out;
  int64_t parts, c_row, c_column; /* parts of a row; steps of c: 0 where it is repeated */
} job;

/* Columns that are neighbours in b: a[k] times a row of b is added to all sums. */
static void add_rows(const job *j, const float *a, int64_t first, int64_t count, float *restrict out) {
  for (int64_t i = 0; i < count; i++)
    out[i] = 0;
  for (int64_t k = 0; k < j->p->k; k++) {
    const float *restrict row = j->b + k * j->p->b_row + first;
    const float factor = a[k * j->p->a_column];
    for (int64_t i = 0; i < count; i++)
      out[i] += factor * row[i];
  }
}

/* Rows of K that are neighbours in b: eight columns at a time, so that sums do not wait for each other. */
static void add_columns(const job *j, const float *a, int64_t first, int64_t count, float *restrict out) {
  enum { SOME = 8 };
  for (int64_t i = 0; i < count; i += SOME) {
    const int64_t left = count - i < SOME ? count - i : SOME;
    float sums[SOME] = {0};
    const float *columns[SOME];
    for (int64_t l = 0; l < SOME; l++)
      columns[l] = j->b + (first + i + (l < left ? l : 0)) * j->p->b_column;
    for (int64_t k = 0; k < j->p->k; k++)
      for (int64_t l = 0; l < SOME; l++)
        sums[l] += a[k * j->p->a_column] * columns[l][k];
    for (int64_t l = 0; l < left; l++)
      out[i + l] = sums[l];
  }
}

/* Part i is some columns of a row of the product. */
static void multiply(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  for (int64_t i = begin; i < end; i++) {
    const int64_t row = i / j->parts, first = i % j->parts * WIDE, left = j->p->n - first, count = left < WIDE ? left : WIDE;
    float *out = j->out + row * j->p->n + first;
    (j->p->b_row == 1 ? add_columns : add_rows)(j, j->a + row * j->p->a_row, first, count, out);
    for (int64_t x = 0; x < count && j->s->alpha != 1; x++)
      out[x] *= j->s->alpha;
    for (int64_t x = 0; x < count && j->c; x++)
      out[x] += j->s->beta * j->c[row * j->c_row + (first + x) * j->c_column];
  }
}

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *c = work->in_count > 2 ? work->in[2] : NULL, a_stack = stack_of(work->in[0]),
                     b_stack = stack_of(work->in[1]);
  int64_t a_step[GCONV_TENSOR_AXES], b_step[GCONV_TENSOR_AXES], c_step[GCONV_TENSOR_AXES] = {0};
  product p;
  (void)kind;
  GCONV_TRY(find(work, &p));
  if (c)
    gconv_node_steps(c, work->out[0], c_step);
  gconv_node_steps(&a_stack, &p.stack, a_step);
  gconv_node_steps(&b_stack, &p.stack, b_step);
  for (int64_t i = 0; i < gconv_tensor_elements(&p.stack); i++) {
    int64_t a = 0, b = 0, rest = i;
    for (int32_t axis = p.stack.axes - 1; axis >= 0; axis--) {
      a += rest % p.stack.shape[axis] * a_step[axis];
      b += rest % p.stack.shape[axis] * b_step[axis];
      rest /= p.stack.shape[axis];
    }
    job j = {.p = &p,
             .s = work->settings,
             .a = (const float *)work->in[0]->data + a * p.m * p.k,
             .b = (const float *)work->in[1]->data + b * p.k * p.n,
             .c = c ? c->data : NULL,
             .out = (float *)work->out[0]->data + i * p.m * p.n,
             .parts = (p.n + WIDE - 1) / WIDE,
             .c_row = c_step[0],
             .c_column = c_step[1]};
    gconv_node_share(work, p.m * j.parts, (1 << 15) / (p.k * WIDE + 1) + 1, multiply, &j);
  }
  return GCONV_OK;
}

static gconv_status cuda(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *c = work->in_count > 2 ? work->in[2] : NULL, a_stack = stack_of(work->in[0]),
                     b_stack = stack_of(work->in[1]);
  int64_t c_step[GCONV_TENSOR_AXES] = {0};
  product p;
  (void)kind;
  GCONV_TRY(find(work, &p));
  gconv_gpu_product on_gpu = {.a = work->in[0]->there,
                              .b = work->in[1]->there,
                              .out = work->out[0]->there,
                              .m = p.m,
                              .n = p.n,
                              .k = p.k,
                              .a_row = p.a_row,
                              .a_column = p.a_column,
                              .b_row = p.b_row,
                              .b_column = p.b_column,
                              .alpha = s->alpha,
                              .beta = s->beta,
                              .axes = p.stack.axes};
  if (c) {
    gconv_node_steps(c, work->out[0], c_step);
    on_gpu.c = c->there;
    on_gpu.c_row = c_step[0];
    on_gpu.c_column = c_step[1];
  }
  gconv_node_steps(&a_stack, &p.stack, on_gpu.a_step);
  gconv_node_steps(&b_stack, &p.stack, on_gpu.b_step);
  for (int32_t i = 0; i < p.stack.axes; i++) {
    on_gpu.size[i] = p.stack.shape[i];
    on_gpu.a_step[i] *= p.m * p.k;
    on_gpu.b_step[i] *= p.k * p.n;
  }
  return gconv_gpu_product_run(&on_gpu, work->stream);
}

static rules none = {END};
static rules gemm = {FLOAT("alpha", 1, NEWEST), FLOAT("beta", 1, NEWEST), INT("transA", 1, NEWEST), INT("transB", 1, NEWEST),
                     END};

#define ROW(name, since, least, most, rules, code)                                                                          \
  GCONV_NODE_KIND(name, since, NEWEST, least, most, 1, 1, 0, 0, GCONV_MEMORY_OWN, GCONV_REACH_ALL, rules, code,             \
                  sizeof(settings), parse, shape, run, cuda, NULL, NULL, NULL, NULL)
const gconv_node_kind gconv_node_kinds_product[] = {
    ROW("MatMul", 1, 2, 2, none, MATMUL),
    ROW("Gemm", 7, 2, 3, gemm, GEMM),
    GCONV_NODE_KIND_END,
};

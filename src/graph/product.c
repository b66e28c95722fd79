/* SPDX-License-Identifier: MIT */
#include "graph/product.h"
#include "base/cpu.h"

#include <string.h>

static gconv_status fail(const gconv_tensor *a, const gconv_tensor *b) {
  char first[160], second[160];
  gconv_tensor_shape_text(a, first, sizeof first);
  gconv_tensor_shape_text(b, second, sizeof second);
  return gconv_fail(GCONV_BAD_FILE, "multiplies matrices of %s and of %s, which do not fit together", first, second);
}

/* Returns a tensor with only the axes before the last two. */
static gconv_tensor stack_of(const gconv_tensor *t) {
  gconv_tensor stack = *t;
  stack.axes = t->axes > 2 ? t->axes - 2 : 0;
  return stack;
}

gconv_status gconv_product_find(const gconv_tensor *a, const gconv_tensor *b, bool turns_a, bool turns_b, gconv_product *p) {
  const gconv_tensor a_stack = stack_of(a), b_stack = stack_of(b), *stacks[] = {&a_stack, &b_stack};
  if (a->axes < 1 || b->axes < 1)
    return fail(a, b);
  const int64_t a_high = a->axes > 1 ? a->shape[a->axes - 2] : 1, a_wide = a->shape[a->axes - 1];
  const int64_t b_high = b->axes > 1 ? b->shape[b->axes - 2] : b->shape[0], b_wide = b->axes > 1 ? b->shape[b->axes - 1] : 1;
  *p = (gconv_product){.m = turns_a ? a_wide : a_high,
                       .n = turns_b ? b_high : b_wide,
                       .k = turns_a ? a_high : a_wide,
                       .a_row = turns_a ? 1 : a_wide,
                       .a_column = turns_a ? a_wide : 1,
                       .b_row = turns_b ? 1 : b_wide,
                       .b_column = turns_b ? b_wide : 1,
                       .stack.type = a->type,
                       .alpha = 1,
                       .beta = 1};
  if (p->k != (turns_b ? b_wide : b_high))
    return fail(a, b);
  return gconv_node_broadcast(&(gconv_node_work){.in = stacks, .in_count = 2}, &p->stack);
}

gconv_status gconv_product_shape(const gconv_product *p, const gconv_tensor *a, const gconv_tensor *b, gconv_tensor *out) {
  *out = p->stack;
  if (out->axes + 2 > GCONV_TENSOR_AXES)
    return gconv_fail(GCONV_UNSUPPORTED, "makes a tensor of more than %d axes", GCONV_TENSOR_AXES);
  if (a->axes > 1)
    out->shape[out->axes++] = p->m;
  if (b->axes > 1)
    out->shape[out->axes++] = p->n;
  return GCONV_OK;
}

/* ---- Runs ---- */

enum { WIDE = 512 /* columns at a time, which stay in the first cache */ };

typedef struct job {
  const gconv_product *p;
  const void *a, *b, *c;
  void *out;
  int64_t parts, c_row, c_column; /* parts of a row; steps of c: 0 where it is repeated */
} job;

GCONV_VECTOR_LOOP(add_panel,
                  (const float *restrict panel, const float *restrict a, int64_t step, int64_t rows, float *restrict out),
                  (panel, a, step, rows, out)) {
  float sums[GCONV_PRODUCT_PANEL] = {0};
  for (int64_t k = 0; k < rows; k++)
    for (int i = 0; i < GCONV_PRODUCT_PANEL; i++)
      sums[i] += a[k * step] * panel[k * GCONV_PRODUCT_PANEL + i];
  for (int i = 0; i < GCONV_PRODUCT_PANEL; i++)
    out[i] = sums[i];
}

/* Computes `count` columns from `first` on, a multiple of GCONV_PRODUCT_PANEL. */
static void add_panels(const job *j, const float *a, int64_t first, int64_t count, float *out) {
  float sums[GCONV_PRODUCT_PANEL];
  for (int64_t i = 0; i < count; i += GCONV_PRODUCT_PANEL) {
    add_panel(j->p->panels + (first + i) * j->p->k, a, j->p->a_column, j->p->k, sums);
    memcpy(out + i, sums, (size_t)(count - i < GCONV_PRODUCT_PANEL ? count - i : GCONV_PRODUCT_PANEL) * sizeof *out);
  }
}

size_t gconv_product_panel_floats(const gconv_product *p) {
  return (size_t)((p->n + GCONV_PRODUCT_PANEL - 1) / GCONV_PRODUCT_PANEL * GCONV_PRODUCT_PANEL * p->k);
}

typedef struct panels_job {
  const gconv_product *p;
  const float *b;
  float *panels;
} panels_job;

static void make_panels(void *context, int64_t begin, int64_t end) {
  enum { LINE = 64 / sizeof(float), AHEAD = 4 }; /* rows at a time: their part of a panel stays in the L1 cache */
  const panels_job *j = context;
  const gconv_product *p = j->p;
  float *panels = j->panels + begin * GCONV_PRODUCT_PANEL * p->k;
  for (int64_t n = begin * GCONV_PRODUCT_PANEL; n < end * GCONV_PRODUCT_PANEL; n += GCONV_PRODUCT_PANEL)
    for (int64_t first = 0; first < p->k; first += LINE)
      for (int64_t i = 0; i < GCONV_PRODUCT_PANEL; i++) {
        const float *from = j->b + (n + i < p->n ? n + i : 0) * p->b_column;
        if (first + AHEAD * LINE < p->k) /* processors do not foresee so many rows */
          __builtin_prefetch(from + (first + AHEAD * LINE) * p->b_row);
        for (int64_t k = first; k < first + LINE && k < p->k; k++)
          panels[(k + (n / GCONV_PRODUCT_PANEL - begin) * p->k) * GCONV_PRODUCT_PANEL + i] =
              n + i < p->n ? from[k * p->b_row] : 0;
      }
}

void gconv_product_panels(const gconv_node_work *work, const gconv_product *p, const float *b, float *panels) {
  panels_job made = {p, b, panels};
  gconv_node_share(work, (p->n + GCONV_PRODUCT_PANEL - 1) / GCONV_PRODUCT_PANEL, 1, make_panels, &made);
}

#define NAME(name) name##_f32
#define NUMBER float
#define ADD_PANELS add_panels
#include "graph/product_loops.h"
#undef NAME
#undef ADD_PANELS
#define ADD_PANELS NAME(add_rows)
#undef NUMBER
#define NAME(name) name##_f64
#define NUMBER double
#include "graph/product_loops.h"
#undef NAME
#undef NUMBER
#define NAME(name) name##_u32
#define NUMBER uint32_t
#include "graph/product_loops.h"
#undef NAME
#undef NUMBER
#define NAME(name) name##_u64
#define NUMBER uint64_t
#include "graph/product_loops.h"
#undef NAME
#undef NUMBER

/* Sums of signed integers have the same bits as those of unsigned ones. */
static void (*const loops[GCONV_TENSOR_TYPES])(void *context, int64_t begin, int64_t end) = {
    [GCONV_TENSOR_F32] = multiply_f32, [GCONV_TENSOR_F64] = multiply_f64, [GCONV_TENSOR_I32] = multiply_u32,
    [GCONV_TENSOR_U32] = multiply_u32, [GCONV_TENSOR_I64] = multiply_u64, [GCONV_TENSOR_U64] = multiply_u64};

bool gconv_product_takes(gconv_tensor_type type) {
  return loops[type];
}

/* Returns the place of element `at` of a stack in a tensor that is broadcast to it. */
static int64_t place(const gconv_tensor *stack, const int64_t *step, int64_t at) {
  int64_t found = 0;
  for (int32_t axis = stack->axes - 1; axis >= 0; at /= stack->shape[axis--])
    found += at % stack->shape[axis] * step[axis];
  return found;
}

void gconv_product_steps(const gconv_product *p, const gconv_tensor *a, const gconv_tensor *b,
                         int64_t a_step[GCONV_TENSOR_AXES], int64_t b_step[GCONV_TENSOR_AXES]) {
  const gconv_tensor a_stack = stack_of(a), b_stack = stack_of(b);
  gconv_node_steps(&a_stack, &p->stack, a_step);
  gconv_node_steps(&b_stack, &p->stack, b_step);
  for (int32_t i = 0; i < p->stack.axes; i++) {
    a_step[i] *= p->m * p->k;
    b_step[i] *= p->k * p->n;
  }
}

void gconv_product_run(const gconv_node_work *work, const gconv_product *p, const gconv_tensor *a, const gconv_tensor *b,
                       const gconv_tensor *c, const gconv_tensor *out) {
  const int64_t bytes = (int64_t)gconv_tensor_type_bytes(a->type);
  int64_t a_step[GCONV_TENSOR_AXES], b_step[GCONV_TENSOR_AXES], c_step[GCONV_TENSOR_AXES] = {0};
  if (c)
    gconv_node_steps(c, out, c_step);
  gconv_product_steps(p, a, b, a_step, b_step);
  for (int64_t i = 0; i < gconv_tensor_elements(&p->stack); i++) {
    job j = {.p = p,
             .a = (const uint8_t *)a->data + place(&p->stack, a_step, i) * bytes,
             .b = (const uint8_t *)b->data + place(&p->stack, b_step, i) * bytes,
             .c = c ? c->data : NULL,
             .out = (uint8_t *)out->data + i * p->m * p->n * bytes,
             .parts = (p->n + WIDE - 1) / WIDE,
             .c_row = c_step[0],
             .c_column = c_step[1]};
    gconv_node_share(work, p->m * j.parts, (1 << 15) / (p->k * WIDE + 1) + 1, loops[a->type], &j);
  }
}

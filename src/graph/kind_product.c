/* SPDX-License-Identifier: MIT */
/* Products of matrices: MatMul and Gemm. */
#include "bank/onnx_rules.h"
#include "base/memory.h"
#include "graph/gpu.h"
#include "graph/product.h"
#include "kernels/cuda/graph/graph.h"

#include <string.h>

enum { MATMUL, GEMM };

typedef struct settings {
  float alpha, beta;
  bool turns_a, turns_b; /* transposed */
} settings;

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  s->alpha = gconv_onnx_number_of(node, "alpha", 1);
  s->beta = gconv_onnx_number_of(node, "beta", 1);
  s->turns_a = gconv_onnx_integer_of(node, "transA", 0) != 0;
  s->turns_b = gconv_onnx_integer_of(node, "transB", 0) != 0;
  return GCONV_OK;
}

static gconv_status find(const gconv_node_work *work, gconv_product *p) {
  const settings *s = work->settings;
  GCONV_TRY(gconv_product_find(work->in[0], work->in[1], s->turns_a, s->turns_b, p));
  p->alpha = s->alpha;
  p->beta = s->beta;
  return GCONV_OK;
}

static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *a = work->in[0], *b = work->in[1];
  gconv_product p;
  gconv_tensor out;
  for (int32_t i = 1; i < work->in_count; i++)
    GCONV_TRY(gconv_node_need_type(work, i, a->type));
  if (kind->code == GEMM || !gconv_product_takes(a->type))
    GCONV_TRY(gconv_node_need_real(work, 0, 0));
  if (kind->code == GEMM && (a->axes != 2 || b->axes != 2))
    return gconv_fail(GCONV_BAD_FILE, "multiplies tensors of %d and %d axes, not matrices", a->axes, b->axes);
  GCONV_TRY(find(work, &p));
  GCONV_TRY(gconv_product_shape(&p, a, b, &out));
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

/* A plan keeps a constant second matrix in panels if it has at most so many bytes. */
static const size_t MOST_PANELS = (size_t)16 << 20;

static gconv_status prepare(const gconv_node_work *work, const gconv_node_kind *kind, void **panels) {
  const gconv_tensor *b = work->in[1];
  if (kind->code != GEMM || !b->data || b->type != GCONV_TENSOR_F32 || gconv_tensor_bytes(b) > MOST_PANELS ||
      gconv_graph_is_on_gpu(work->options))
    return GCONV_OK;
  gconv_product p;
  GCONV_TRY(find(work, &p));
  GCONV_TRY(gconv_allocate_workspace(gconv_product_panel_floats(&p) * sizeof(float), "a constant matrix", panels));
  gconv_product_panels(work, &p, b->data, *panels);
  return GCONV_OK;
}

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_product p;
  GCONV_TRY(find(work, &p));
  p.panels = work->prepared;
  gconv_product_run(work, &p, work->in[0], work->in[1], work->in_count > 2 ? work->in[2] : NULL, work->out[0]);
  return GCONV_OK;
}

static gconv_status cuda(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *c = work->in_count > 2 ? work->in[2] : NULL;
  int64_t c_step[GCONV_TENSOR_AXES] = {0};
  gconv_product p;
  GCONV_TRY(gconv_node_need_type(work, 0, GCONV_TENSOR_F32));
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
                              .alpha = p.alpha,
                              .beta = p.beta,
                              .axes = p.stack.axes};
  if (c) {
    gconv_node_steps(c, work->out[0], c_step);
    on_gpu.c = c->there;
    on_gpu.c_row = c_step[0];
    on_gpu.c_column = c_step[1];
  }
  gconv_product_steps(&p, work->in[0], work->in[1], on_gpu.a_step, on_gpu.b_step);
  memcpy(on_gpu.size, p.stack.shape, (size_t)p.stack.axes * sizeof *on_gpu.size);
  return gconv_gpu_product_run(&on_gpu, work->stream);
}

static rules none = {END};
static rules gemm = {FLOAT("alpha", 1, NEWEST), FLOAT("beta", 1, NEWEST), INT("transA", 1, NEWEST),
                     INT("transB", 1, NEWEST),  INT("broadcast", 1, 6),   END};

#define ROW(name, since, least, most, rules, code)                                                                          \
  GCONV_NODE_KIND(name, since, NEWEST, least, most, 1, 1, 0, 0, GCONV_MEMORY_OWN, GCONV_REACH_ALL, rules, code,             \
                  sizeof(settings), parse, shape, run, cuda, NULL, NULL, prepare, gconv_release)
const gconv_node_kind gconv_node_kinds_product[] = {
    ROW("MatMul", 1, 2, 2, none, MATMUL),
    ROW("Gemm", 1, 2, 3, gemm, GEMM),
    GCONV_NODE_KIND_END,
};

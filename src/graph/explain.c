/* SPDX-License-Identifier: MIT */
/* Writes errors of nodes, and explanations of plans. */
#include "graph/graph.h"

gconv_status gconv_graph_fail_node(const gconv_graph *g, const gconv_graph_node *node, gconv_status status) {
  char text[1000];
  snprintf(text, sizeof text, "%s", gconv_last_error());
  return gconv_fail(status, "%s: node '%s' (%s) %s", g->path, node->name, node->kind->name, text);
}

void gconv_graph_plan_explain(const gconv_graph_plan *p, FILE *text) {
  fprintf(text,
          "graph: %zu nodes run; %zu follow from constants and shapes, %zu are needed for no output, %zu are "
          "fused\n",
          p->step_count, p->folded, p->dead, p->fused);
  fprintf(text, "memory: %.3g MB for all results, %.3g MB of constants\n", (double)p->arena_bytes * 1e-6,
          (double)(p->constant_bytes + p->folded_bytes) * 1e-6);
  for (size_t i = 0; i < p->step_count; i++) {
    const gconv_graph_step *s = &p->steps[i];
    char shape[200] = "", how[160] = "";
    bool blocks = false;
    for (int32_t k = 0; k < s->work.out_count && !*shape; k++)
      if (s->work.out[k]) {
        gconv_tensor_shape_text(s->work.out[k], shape, sizeof shape);
        blocks = s->work.out[k]->blocks;
      }
    if (s->node->kind->tell)
      s->node->kind->tell(s->work.prepared, how, sizeof how);
    fprintf(text, "  %s '%s': %s%s%s%s%s%s%s%s\n", s->node->kind->name, s->node->name, shape,
            blocks ? " in blocks of channels" : "", s->last > (int32_t)i ? " in bands of rows" : "",
            s->view ? ", a view" : "", *how ? ", " : "", how, s->fused ? ", with " : "", s->fused ? s->fused : "");
  }
}

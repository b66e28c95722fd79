/* SPDX-License-Identifier: MIT */
/* Finds the kinds of a model's operators. One error names all operators that have no kind. */
#include "base/memory.h"
#include "base/printable.h"
#include "graph/graph.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 80 };

typedef struct unknown {
  const gconv_onnx_model *model;
  char text[800]; /* "MatMul (node 'm'), Loop (node 'l')" */
  size_t kinds, called;
} unknown;

const char *const gconv_graph_branch_names[2] = {"else_branch", "then_branch"};

bool gconv_graph_is_operator(const gconv_onnx_node *n, const char *type) {
  return n->type && strcmp(n->type, type) == 0 && gconv_onnx_is_standard(n);
}

const gconv_node_kind *gconv_graph_kind_of(const gconv_onnx_node *n, uint64_t opset) {
  char name[160]; /* tables name operators that are not of the standard with their domain */
  if (gconv_onnx_is_standard(n))
    return gconv_node_kind_find(n->type, opset);
  snprintf(name, sizeof name, "%s.%s", n->domain ? n->domain : "", n->type ? n->type : "");
  return gconv_node_kind_find(name, opset);
}

static gconv_status note_unknown(void *context, const gconv_onnx_node *n);

static gconv_status note_branches(unknown *u, const gconv_onnx_node *n) {
  const gconv_onnx_branch_taker take = {.node = note_unknown, .context = u};
  for (int i = 0; i < 2; i++)
    GCONV_TRY(gconv_onnx_branch_follow(u->model, n, gconv_graph_branch_names[i], &take, &u->called));
  return GCONV_OK;
}

static bool has_kind_of_other_opset(const char *name) {
  const gconv_node_kind *kind;
  for (size_t i = 0; (kind = gconv_node_kind_at(i)); i++)
    if (name && strcmp(kind->name, name) == 0)
      return true;
  return false;
}

/* Adds the operator of a node that has no kind: "MatMul", "com.microsoft.Gelu", or "Add of opset 6". */
static gconv_status note_unknown(void *context, const gconv_onnx_node *n) {
  unknown *u = context;
  char entry[400];
  const size_t room = sizeof u->text, used = strlen(u->text);
  if (gconv_graph_is_operator(n, "If") && u->model->opset > 0)
    return note_branches(u, n);
  if (gconv_graph_kind_of(n, u->model->opset) || gconv_graph_is_operator(n, "Constant"))
    return GCONV_OK;
  const char *output = gconv_onnx_output(n), *called = n->name && *n->name ? n->name : output ? output : "";
  GCONV_FREED char *type = gconv_printable_copy(n->type ? n->type : "(no type)", SHOWN_BYTES);
  GCONV_FREED char *domain = gconv_printable_copy(n->domain ? n->domain : "", SHOWN_BYTES);
  GCONV_FREED char *name = gconv_printable_copy(called, SHOWN_BYTES);
  if (!type || !domain || !name)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a graph", u->model->file->path);
  int end = snprintf(entry, sizeof entry, "%s%s%s", domain, *domain ? "." : "", type);
  if (gconv_onnx_is_standard(n) && u->model->opset == 0)
    end += snprintf(entry + end, sizeof entry - (size_t)end, " of an opset that the model does not say");
  else if (gconv_onnx_is_standard(n) && has_kind_of_other_opset(n->type))
    end += snprintf(entry + end, sizeof entry - (size_t)end, " of opset %" PRIu64, u->model->opset);
  snprintf(entry + end, sizeof entry - (size_t)end, " (");
  if (strstr(u->text, entry))
    return GCONV_OK;
  u->kinds++;
  if (used + strlen(entry) + SHOWN_BYTES + 12 < room)
    snprintf(u->text + used, room - used, "%s%snode '%s')", used > 0 ? ", " : "", entry, name);
  return GCONV_OK;
}

gconv_status gconv_graph_check_operators(const gconv_onnx_model *m) {
  unknown u = {.model = m};
  GCONV_TRY(gconv_onnx_model_follow(m, note_unknown, &u));
  return u.kinds == 0 ? GCONV_OK
                      : gconv_fail(GCONV_UNSUPPORTED, "%s: the model has %zu operator%s that no kind of nodes does: %s",
                                   m->file->path, u.kinds, u.kinds == 1 ? "" : "s", u.text);
}

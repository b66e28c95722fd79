/* SPDX-License-Identifier: MIT */
/* Plans a graph for inputs of one size: infers shapes, folds results that follow from constants alone, drops nodes that no
 * output needs, and gives results their places in the arena. */
#include "base/control.h"
#include "base/memory.h"
#include "base/printable.h"
#include "graph/conv.h"
#include "graph/gpu.h"
#include "graph/rolling.h"
#include "kernels/cuda/graph/graph.h"

#include <stdlib.h>
#include <string.h>

/* The most bytes that planning computes from constants, beyond the bytes of these constants: for one node, and for all nodes
 * together. A larger result is computed in runs. */
static const size_t MOST_FOLDED = (size_t)1 << 22, MOST_FOLDED_TOGETHER = (size_t)1 << 25;

static gconv_status no_memory(const gconv_graph *g) {
  return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a plan", g->path);
}

/* Gives a tensor memory that the plan owns. */
static gconv_status give_memory(gconv_graph_plan *p, gconv_tensor *t) {
  void **owned = gconv_grown(p->owned, p->owned_count, sizeof *owned);
  if (!owned)
    return no_memory(p->graph);
  p->owned = owned;
  GCONV_TRY(gconv_allocate(gconv_tensor_bytes(t), "a constant", &owned[p->owned_count]));
  t->data = owned[p->owned_count++];
  return GCONV_OK;
}

/* Makes a tensor of float32 one of float64, if the plan is in float64. */
static gconv_status widen(gconv_graph_plan *p, gconv_tensor *t) {
  const gconv_tensor narrow = *t;
  if (!p->options.in_float64 || t->type != GCONV_TENSOR_F32)
    return GCONV_OK;
  t->type = GCONV_TENSOR_F64;
  if (!narrow.data)
    return GCONV_OK;
  GCONV_TRY(give_memory(p, t));
  gconv_tensor_convert(&narrow, t, 0, gconv_tensor_elements(t));
  return GCONV_OK;
}

/* ---- Inputs ---- */

static gconv_status fail_input(const gconv_graph *g, const gconv_graph_value *v, const gconv_tensor *given) {
  char want[200], have[200];
  GCONV_FREED char *name = gconv_printable_copy(v->name, 80);
  gconv_tensor_shape_text(&v->tensor, want, sizeof want);
  gconv_tensor_shape_text(given, have, sizeof have);
  return gconv_fail(
      GCONV_UNSUPPORTED, "%s: takes as its input '%s' %s numbers of %s (a size of 0 is any), not %s numbers of %s", g->path,
      name ? name : "", gconv_tensor_type_name(v->tensor.type), want, gconv_tensor_type_name(given->type), have);
}

static gconv_status take_input(gconv_graph_plan *p, size_t number, const gconv_tensor *given) {
  const gconv_graph_value *v = &p->graph->values[p->graph->inputs[number]];
  bool fits = given->type == v->tensor.type && (!v->said || given->axes == v->tensor.axes);
  if (gconv_tensor_check(given) != GCONV_OK)
    return gconv_fail_in(GCONV_TOO_LARGE, "%s: input %zu", p->graph->path, number);
  const int32_t held = p->options.any_size && given->axes == 4 ? 2 : given->axes; /* axes whose sizes must be these */
  for (int32_t i = 0; fits && v->said && i < held; i++)
    fits = v->tensor.shape[i] == 0 || v->tensor.shape[i] == given->shape[i];
  if (!fits)
    return fail_input(p->graph, v, given);
  gconv_tensor *t = &p->tensors[p->graph->inputs[number]];
  *t = *given;
  t->narrow = v->tensor.narrow;
  return widen(p, t);
}

/* ---- Shapes and folding ---- */

/* Sets the lists of tensors of a step. Outputs after the first one are NULL if nothing takes them. */
static void point(gconv_graph_plan *p, gconv_graph_step *step, const gconv_graph_node *node, const gconv_tensor **pointers) {
  gconv_tensor **out = (gconv_tensor **)(pointers + node->in_count);
  step->node = node;
  step->in = node->in;
  step->out = node->out;
  step->added = -1;
  for (int32_t i = 0; i < node->in_count; i++)
    pointers[i] = node->in[i] >= 0 ? &p->tensors[node->in[i]] : NULL;
  for (int32_t i = 0; i < node->out_count; i++)
    out[i] = node->out[i] >= 0 && (i == 0 || p->graph->values[node->out[i]].taken) ? &p->tensors[node->out[i]] : NULL;
  step->work = (gconv_node_work){.settings = node->settings,
                                 .opset = (int32_t)p->graph->opset,
                                 .in_count = node->in_count,
                                 .out_count = node->out_count,
                                 .in = pointers,
                                 .out = out,
                                 .options = &p->options};
}

static gconv_status infer(const gconv_graph_step *step) {
  const gconv_node_kind *kind = step->node->kind;
  const gconv_node_work *work = &step->work;
  for (int32_t i = 0; i < work->in_count && kind->most_in == GCONV_ANY_NUMBER; i++)
    if (!work->in[i])
      return gconv_fail(GCONV_BAD_FILE, "lacks its input %d", i);
  for (int32_t i = 0; i < work->in_count; i++)
    if ((i < 32 && kind->known >> i & 1) && work->in[i] && !work->in[i]->data)
      return gconv_fail(GCONV_UNSUPPORTED,
                        "takes input %d from what depends on the pixels of the image: this input must be constant", i);
  GCONV_TRY(kind->shape(work, kind));
  for (int32_t i = 0; i < work->out_count; i++)
    if (work->out[i])
      GCONV_TRY(gconv_tensor_check(work->out[i]));
  return GCONV_OK;
}

/* Returns whether the outputs follow from constants, and are small. */
static bool can_fold(const gconv_graph_plan *p, const gconv_graph_step *step) {
  const gconv_node_kind *kind = step->node->kind;
  size_t bytes = 0, given = 0;
  for (int32_t i = 0; i < step->work.in_count; i++) {
    if (step->work.in[i] && !step->work.in[i]->data && !(i < 32 && kind->unread >> i & 1))
      return false;
    given += step->work.in[i] && step->work.in[i]->data ? gconv_tensor_bytes(step->work.in[i]) : 0;
  }
  if (gconv_solver_solves(kind)) /* much work */
    return false;
  for (int32_t i = 0; i < step->work.out_count && kind->memory != GCONV_MEMORY_VIEW; i++)
    bytes += step->work.out[i] ? gconv_tensor_bytes(step->work.out[i]) : 0;
  const size_t most = MOST_FOLDED + 2 * given, together = MOST_FOLDED_TOGETHER + 4 * p->constant_bytes;
  return bytes <= most && p->folded_bytes <= together && bytes <= together - p->folded_bytes;
}

static gconv_status fold(gconv_graph_plan *p, gconv_graph_step *step) {
  const gconv_node_kind *kind = step->node->kind;
  gconv_node_work *work = &step->work;
  p->folded++;
  if (kind->memory == GCONV_MEMORY_VIEW) {
    work->out[0]->data = work->in[0]->data;
    return GCONV_OK;
  }
  for (int32_t i = 0; i < work->out_count; i++)
    if (work->out[i]) {
      GCONV_TRY(give_memory(p, work->out[i]));
      p->folded_bytes += gconv_tensor_bytes(work->out[i]);
    }
  gconv_status status = GCONV_OK;
  if (kind->workspace)
    status = gconv_allocate(kind->workspace(work), "a node's workspace", &work->workspace);
  GCONV_THEN(status, kind->run(work, kind));
  gconv_release(work->workspace);
  work->workspace = NULL;
  return status;
}

/* Finds whether the conditions of a branch, and of those around it, choose it. */
static gconv_status is_chosen(const gconv_graph_plan *p, int32_t branch, bool *chosen) {
  *chosen = true;
  if (branch == 0)
    return GCONV_OK;
  const gconv_graph_branch *b = &p->graph->branches[branch - 1];
  GCONV_TRY(is_chosen(p, b->outer, chosen));
  if (!*chosen)
    return GCONV_OK;
  const gconv_tensor *t = &p->tensors[b->condition];
  if (!t->data)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: node '%s' (If) chooses between its branches by what depends on the pixels of the image: the "
                      "condition must follow from constants and from shapes",
                      p->graph->path, b->name);
  if (t->type != GCONV_TENSOR_BOOL || gconv_tensor_elements(t) != 1)
    return gconv_fail(GCONV_BAD_FILE, "%s: node '%s' (If) has a condition that is not one bool", p->graph->path, b->name);
  *chosen = *(const bool *)t->data == b->wanted;
  return GCONV_OK;
}

static void leave_out(const gconv_graph_step *step) {
  for (int32_t i = 0; i < step->work.out_count; i++)
    ((gconv_tensor **)step->work.out)[i] = NULL;
}

static gconv_status follow(gconv_graph_plan *p) {
  const gconv_tensor **pointers = p->pointers;
  bool chosen;
  for (size_t i = 0; i < p->graph->node_count; i++) {
    const gconv_graph_node *node = &p->graph->nodes[i];
    point(p, &p->steps[i], node, pointers);
    pointers += node->in_count + node->out_count;
    GCONV_TRY(is_chosen(p, node->branch, &chosen));
    if (!chosen) {
      leave_out(&p->steps[i]);
      continue;
    }
    gconv_status status = infer(&p->steps[i]);
    if (status == GCONV_OK && can_fold(p, &p->steps[i]))
      status = fold(p, &p->steps[i]);
    if (status != GCONV_OK)
      return gconv_graph_fail_node(p->graph, node, status);
  }
  return GCONV_OK;
}

/* ---- Nodes that are needed ---- */

static bool is_folded(const gconv_graph_step *step) {
  for (int32_t i = 0; i < step->work.out_count; i++)
    if (step->work.out[i])
      return step->work.out[i]->data;
  return true; /* nothing takes its results */
}

/* Keeps the steps whose results are needed for the outputs. Outputs of steps that nothing takes become NULL. */
static gconv_status keep_needed(gconv_graph_plan *p) {
  const gconv_graph *g = p->graph;
  GCONV_FREED bool *needed = calloc(g->value_count + 1, sizeof *needed);
  GCONV_FREED bool *lives = calloc(g->node_count + 1, sizeof *lives);
  if (!needed || !lives)
    return no_memory(g);
  for (size_t i = 0; i < g->output_count; i++)
    needed[g->outputs[i]] = true;
  for (size_t i = g->node_count; i-- > 0;) {
    const gconv_graph_step *step = &p->steps[i];
    const gconv_graph_node *node = step->node;
    for (int32_t k = 0; k < node->out_count && !is_folded(step); k++)
      if (node->out[k] >= 0 && needed[node->out[k]])
        lives[i] = true;
      else if (k > 0 || node->kind->most_out == GCONV_ANY_NUMBER)
        ((gconv_tensor **)step->work.out)[k] = NULL;
    for (int32_t k = 0; k < node->in_count && lives[i]; k++)
      if (node->in[k] >= 0 && !(k < 32 && node->kind->unread >> k & 1))
        needed[node->in[k]] = true;
  }
  size_t kept = 0;
  for (size_t i = 0; i < g->node_count; i++)
    if (lives[i])
      p->steps[kept++] = p->steps[i];
  p->dead = g->node_count - kept - p->folded;
  p->step_count = kept;
  return GCONV_OK;
}

/* Returns the first tensor of a node whose type of elements kernels for GPUs do not take; NULL: there is none. */
static const gconv_tensor *other_type(const gconv_node_work *work) {
  for (int32_t i = 0; i < work->in_count + work->out_count; i++) {
    const gconv_tensor *t = i < work->in_count ? work->in[i] : work->out[i - work->in_count];
    if (t && !gconv_gpu_has_type(t->type))
      return t;
  }
  return NULL;
}

/* Whether the weights of a convolution depend on the pixels of the image. */
static bool has_open_weights(const gconv_graph_step *step) {
  bool open = false;
  for (int32_t k = 1; k < step->work.in_count && gconv_solver_solves(step->node->kind); k++)
    open = open || (step->work.in[k] && !step->work.in[k]->data);
  return open;
}

/* Sets the memory on a GPU of all tensors of a step. */
static void lay_there(const gconv_node_work *work, void *there) {
  for (int32_t i = 0; i < work->in_count; i++)
    if (work->in[i])
      ((gconv_tensor *)work->in[i])->there = there;
  for (int32_t i = 0; i < work->out_count; i++)
    if (work->out[i])
      work->out[i]->there = there;
}

/* Returns whether cuda() refuses the step. If so, the last error is the end of a sentence about the node. */
static bool is_refused(const gconv_graph_step *step) {
  static char nowhere; /* offsets are added to its address, and nothing is read or written there */
  const gconv_node_kind *kind = step->node->kind;
  gconv_node_work work = step->work;
  if (!kind->cuda || gconv_solver_solves(kind))
    return false;
  work.stream = GCONV_GPU_NOWHERE;
  lay_there(&work, &nowhere);
  const gconv_status status = kind->cuda(&work, kind);
  lay_there(&work, NULL);
  return status == GCONV_UNSUPPORTED;
}

void gconv_graph_gpu_obstacle(const gconv_graph_plan *p, char *text, size_t size) {
  size_t used = 0;
  *text = '\0';
  for (size_t i = 0; i < p->step_count; i++) {
    const gconv_node_kind *kind = p->steps[i].node->kind;
    bool told = kind->cuda || kind->memory == GCONV_MEMORY_VIEW;
    for (size_t k = 0; k < i && !told; k++)
      told = strcmp(p->steps[k].node->kind->name, kind->name) == 0;
    if (!told && used < size)
      used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "no GPU computes nodes of the kinds ",
                               kind->name);
  }
  for (size_t i = 0; i < p->step_count && used == 0; i++)
    if (other_type(&p->steps[i].work))
      used = (size_t)snprintf(text, size, "no GPU computes %s with numbers of %s", p->steps[i].node->kind->name,
                              gconv_tensor_type_name(other_type(&p->steps[i].work)->type));
    else if (has_open_weights(&p->steps[i]))
      used = (size_t)snprintf(text, size, "no GPU computes %s with weights that depend on the pixels of the image",
                              p->steps[i].node->kind->name);
    else if (is_refused(&p->steps[i]))
      used = (size_t)snprintf(text, size, "on a GPU, node '%s' (%s) %s", p->steps[i].node->name,
                              p->steps[i].node->kind->name, gconv_last_error());
}

static gconv_status check_device(const gconv_graph_plan *p) {
  char text[500] = "";
  if (gconv_graph_is_on_gpu(&p->options))
    gconv_graph_gpu_obstacle(p, text, sizeof text);
  return !*text ? GCONV_OK : gconv_fail(GCONV_UNSUPPORTED, "%s: %s: take -d cpu", p->graph->path, text);
}

/* Calls prepare() of each step, and asks for its workspace. */
static gconv_status prepare_steps(gconv_graph_plan *p) {
  for (size_t i = 0; i < p->step_count; i++) {
    gconv_graph_step *s = &p->steps[i];
    const gconv_node_kind *kind = s->node->kind;
    s->work.threads = p->options.device->threads;
    const gconv_status status = kind->prepare ? kind->prepare(&s->work, kind, &s->work.prepared) : GCONV_OK;
    if (status != GCONV_OK)
      return gconv_graph_fail_node(p->graph, s->node, status);
  }
  GCONV_TRY(gconv_graph_keep(p));
  for (size_t i = 0; i < p->step_count; i++) {
    gconv_graph_step *s = &p->steps[i];
    const gconv_node_kind *kind = s->node->kind;
    if (s->work.prepared && gconv_solver_solves(kind)) { /* float64 has no solver */
      const gconv_layer_choice *choice = &((const gconv_solver *)s->work.prepared)->choice;
      p->estimate_ms += choice->estimate_ms;
      p->weight_bytes += gconv_layer_weight_bytes(choice->algorithm, &choice->problem);
    }
    s->workspace_bytes = kind->workspace ? kind->workspace(&s->work) : 0;
  }
  return GCONV_OK;
}

/* ---- Plans ---- */

static gconv_status fill(gconv_graph_plan *p, const gconv_tensor *inputs) {
  const gconv_graph *g = p->graph;
  size_t pointers = 1;
  for (size_t i = 0; i < g->node_count; i++)
    pointers += (size_t)g->nodes[i].in_count + (size_t)g->nodes[i].out_count;
  p->tensors = calloc(g->value_count + 1, sizeof *p->tensors);
  p->steps = calloc(g->node_count + 1, sizeof *p->steps);
  p->pointers = calloc(pointers, sizeof *p->pointers);
  if (!p->tensors || !p->steps || !p->pointers)
    return no_memory(g);
  for (size_t i = 0; i < g->value_count; i++) {
    if (!g->values[i].constant)
      continue;
    p->tensors[i] = g->values[i].tensor;
    GCONV_TRY(widen(p, &p->tensors[i]));
    p->constant_bytes += gconv_tensor_bytes(&p->tensors[i]);
  }
  for (size_t i = 0; i < g->input_count; i++)
    GCONV_TRY(take_input(p, i, &inputs[i]));
  GCONV_TRY(follow(p));
  GCONV_TRY(keep_needed(p));
  GCONV_TRY(check_device(p));
  GCONV_TRY(gconv_graph_fuse(p));
  GCONV_TRY(gconv_graph_lay_blocks(p));
  GCONV_TRY(prepare_steps(p));
  GCONV_TRY(gconv_graph_roll(p));
  return gconv_graph_place(p);
}

gconv_status gconv_graph_plan_create(const gconv_graph *graph, const gconv_tensor *inputs,
                                     const gconv_graph_options *options, gconv_graph_plan **plan) {
  gconv_graph_plan *made;
  GCONV_NEW(made, 1, "%s: no memory for a plan", graph->path);
  made->graph = graph;
  made->options = *options;
  const gconv_status status = fill(made, inputs);
  if (status == GCONV_OK)
    *plan = made;
  else
    gconv_graph_plan_free(made);
  return status;
}

void gconv_graph_plan_free(gconv_graph_plan *p) {
  if (!p)
    return;
  gconv_graph_plan_free_description(p);
  for (size_t i = 0; i < p->step_count; i++) {
    gconv_graph_step *step = &p->steps[i];
    if (step->node && step->node->kind->release)
      step->node->kind->release(step->work.prepared);
    gconv_rolling_free(step->rolling);
    gconv_release(step->work.fused.scale);
    gconv_release(step->work.fused.shift);
    free(step->work.fused.tail);
    free(step->fused);
  }
  for (size_t i = 0; i < p->owned_count; i++)
    gconv_release(p->owned[i]);
  gconv_release(p->arena);
  gconv_graph_gpu_close(p->gpu);
  free(p->tensors);
  free(p->block_of);
  free(p->offset_of);
  free(p->blocks);
  free(p->steps);
  free(p->pointers);
  free(p->owned);
  free(p);
}

gconv_status gconv_graph_plan_allocate(gconv_graph_plan *p) {
  void *memory = NULL;
  if (gconv_graph_is_on_gpu(&p->options))
    return gconv_graph_gpu_open(p);
  if (p->arena_bytes > gconv_memory_there())
    return gconv_fail(GCONV_NO_MEMORY, "%s: the results of its nodes need %zu MB at a time, which is more than there is",
                      p->graph->path, p->arena_bytes >> 20);
  GCONV_TRY(gconv_allocate_workspace(p->arena_bytes, "the results of nodes", &memory));
  p->arena = memory;
  for (size_t i = 0; i < p->step_count; i++)
    if (p->steps[i].workspace_bytes > 0)
      p->steps[i].work.workspace = p->arena + p->steps[i].workspace_at;
  for (size_t i = 0; i < p->graph->value_count; i++)
    if (p->block_of[i] >= 0)
      p->tensors[i].data = p->arena + p->blocks[p->block_of[i]].at + p->offset_of[i];
  return GCONV_OK;
}

const gconv_tensor *gconv_graph_plan_input(const gconv_graph_plan *p, size_t number) {
  return &p->tensors[p->graph->inputs[number]];
}

const gconv_tensor *gconv_graph_plan_output(const gconv_graph_plan *p, size_t number) {
  return &p->tensors[p->graph->outputs[number]];
}

gconv_status gconv_graph_plan_run_step(const gconv_graph_plan *p, size_t number) {
  const gconv_graph_step *s = &p->steps[number];
  const gconv_status status = s->view || (size_t)s->first < number ? GCONV_OK
                              : s->rolling                         ? gconv_graph_roll_step(p, s)
                                                                   : s->node->kind->run(&s->work, s->node->kind);
  return status == GCONV_OK ? GCONV_OK : gconv_graph_fail_node(p->graph, s->node, status);
}

/* Prepares the weights of a convolution. If it fails, it does so again when the step runs, with the reason. */
static void open_step(void *context, size_t i, int seat) {
  const gconv_graph_step *s = &((const gconv_graph_plan *)context)->steps[i];
  const gconv_solver *solver = strcmp(s->node->kind->name, "Conv") == 0 ? s->work.prepared : NULL;
  if (solver && solver->constant)
    (void)gconv_conv_open(&s->work);
}

static gconv_status run_steps(const gconv_graph_plan *p) {
  for (size_t i = 0; i < p->step_count; i++) {
    GCONV_TRY(gconv_control_step("running a network", (double)i / (double)p->step_count));
    GCONV_TRY(gconv_graph_plan_run_step(p, i));
  }
  return GCONV_OK;
}

gconv_status gconv_graph_plan_run(gconv_graph_plan *p) {
  if (p->gpu)
    return gconv_graph_gpu_run_and_wait(p);
  if (!p->opened)
    gconv_threads_run(p->options.device->threads, p->step_count, open_step, p);
  p->opened = true;
  gconv_threads_stay_awake(p->options.device->threads, true);
  const gconv_status status = run_steps(p);
  gconv_threads_stay_awake(p->options.device->threads, false);
  return status;
}

/* SPDX-License-Identifier: MIT */
/* A network as a graph of nodes, as its file has it (onnx.c), and its plan for inputs of one size (plan.c, place.c,
 * arena.c). */
#pragma once

#include "bank/network_file.h"
#include "graph/node.h"

#include <stdio.h>

GCONV_C_BEGIN

/* ---- The graph ---- */

enum { GCONV_GRAPH_MOST_NODES = 16384, GCONV_GRAPH_MOST_VALUES = 1 << 17, GCONV_GRAPH_KEPT_CALLS = 4 };

/* A tensor that a node takes or makes. */
typedef struct gconv_graph_value {
  char *name;          /* owned; as in the file: it may have characters that cannot be printed */
  gconv_tensor tensor; /* of constants, with owned data; of inputs and outputs, the type and, if `said`, the file's shape */
  bool constant, input;
  bool taken;    /* a node takes it, or it is an output */
  bool external; /* for constants: the numbers are in a file beside the model */
  bool said;     /* for inputs and outputs: the file says the shape. Sizes that the file leaves open are 0 */
  int32_t maker; /* the number of the node that makes it; -1: none */
  int32_t other; /* the number of another node that makes it, in the other branch of an If; -1: none */
} gconv_graph_value;

/* A branch of an If. Nodes of both branches are nodes of the graph. A plan has the nodes of the branch that the condition
 * chooses, so the condition must follow from constants and shapes. */
typedef struct gconv_graph_branch {
  char *name;        /* owned: of the If; printable */
  int32_t condition; /* the number of a value */
  bool wanted;       /* the condition that chooses this branch */
  int32_t outer;     /* the branch that the If is in: its number + 1; 0: none */
} gconv_graph_branch;

typedef struct gconv_graph_node {
  const gconv_node_kind *kind;
  char *name;     /* owned: printable */
  void *settings; /* owned */
  int32_t in_count, out_count;
  int32_t *in, *out; /* owned: numbers of values; -1: left out */
  int32_t branch;    /* the branch that it is in: its number + 1; 0: none */
} gconv_graph_node;

typedef struct gconv_graph {
  gconv_graph_head head;
  char *path; /* owned: for errors */
  uint64_t opset;
  gconv_graph_value *values;
  gconv_graph_node *nodes;      /* each after the nodes whose results it and its branch's condition take */
  gconv_graph_branch *branches; /* each after the branch around it */
  size_t value_count, node_count, branch_count;
  int32_t *inputs, *outputs; /* numbers of values, in the order of the file; initialisers are not inputs */
  size_t input_count, output_count;
  void *calls[GCONV_GRAPH_KEPT_CALLS]; /* plans that are kept between calls (call.c); changed atomically */
} gconv_graph;

/* Reads an open ONNX model. If there are operators that no kind knows, the error names all of them. */
gconv_status gconv_graph_read(gconv_bank_file *file, gconv_graph **graph);
/* Whether a node is an operator of the standard with this name. */
bool gconv_graph_is_operator(const gconv_onnx_node *node, const char *name);
/* Returns the kind of a node's operator in an opset; NULL if there is none. */
const gconv_node_kind *gconv_graph_kind_of(const gconv_onnx_node *node, uint64_t opset);
/* Fails if the model, or a branch of an If, has operators that no kind computes. The error names all of them. */
gconv_status gconv_graph_check_operators(const gconv_onnx_model *model);
/* The attributes of If that are its branches: [0] for a false condition, [1] for a true one. */
extern const char *const gconv_graph_branch_names[2];
/* Moves each node after the nodes whose results it needs (sort.c). Fails if they form a circle. */
gconv_status gconv_graph_sort(gconv_graph *graph);
/* If a graph is a chain of layers, appends them to *network, which is empty except for its arrays. `file` is the model of
 * the graph. *rows: it makes N x K numbers, not N x K x P x Q. Fails with GCONV_UNSUPPORTED if the graph is no chain of
 * layers; on failure the caller frees *network. */
gconv_status gconv_graph_read_chain(gconv_bank_file *file, const gconv_graph *graph, gconv_network *network, bool *rows);
/* Puts the file and the node before the last error, which is the end of a sentence. Returns the status. */
gconv_status gconv_graph_fail_node(const gconv_graph *graph, const gconv_graph_node *node, gconv_status status);
/* Makes the graph of a network of layers, as it would be in an ONNX model, without the network's mean and std (import.c). */
gconv_status gconv_graph_of_network(const gconv_network *network, gconv_graph **graph);
/* Frees the graph. NULL is allowed. */
void gconv_graph_free(gconv_graph *graph);

/* ---- Plans ---- */

/* A node of a plan. */
typedef struct gconv_graph_step {
  const gconv_graph_node *node;
  const int32_t *in, *out; /* numbers of values: the node's, but `out` is the output of the last node fused with it */
  gconv_node_work work;    /* with tensors of the plan */
  bool view;               /* its output is the memory of its input: nothing runs */
  int32_t added;           /* the value that its tail takes from another node; -1: none */
  char *fused;             /* owned: the nodes that were fused with it, for people; or NULL */
  size_t workspace_bytes, workspace_at;
  struct gconv_rolling *rolling; /* owned: of this step and those behind it, which run with it by bands (roll.c); or NULL */
  int32_t first, last;           /* the steps that run together with this one; both are its own number if none does */
} gconv_graph_step;

enum { GCONV_GRAPH_INNER = -2 };

/* A piece of the arena, for a value and its views, or for a workspace. */
typedef struct gconv_arena_block {
  size_t bytes, at;
  int32_t first, last; /* the first and the last step that need it; -1: before all steps; step_count: after them */
  int32_t value;       /* the value that lies in it; -1: a workspace */
} gconv_arena_block;

typedef struct gconv_graph_plan {
  const gconv_graph *graph;
  gconv_graph_options options;
  gconv_tensor *tensors; /* one for each value; `data`: of constants and folded values, and later in the arena */
  int32_t *block_of;     /* one for each value: its block; -1: none; GCONV_GRAPH_INNER: it is never whole (roll.c) */
  size_t *offset_of;     /* one for each value: the byte of its block where it begins */
  gconv_graph_step *steps;
  size_t step_count;
  gconv_arena_block *blocks;
  size_t block_count;
  size_t arena_bytes, constant_bytes, folded_bytes;
  size_t weight_bytes;        /* of convolutions, as algorithms take them */
  double estimate_ms;         /* of all convolutions */
  size_t folded, dead, fused; /* numbers of nodes that were folded, that no output needs, and that were fused with others */
  bool opened;                /* on the CPU: the weights of convolutions are prepared, as far as they are constant */
  uint8_t *arena;             /* NULL until gconv_graph_plan_allocate(), and on a GPU */
  void *gpu;                  /* owned: its part on a GPU (gpu.h); NULL until gconv_graph_plan_allocate(), and on the CPU */
  void **owned;               /* the memory of results that were folded */
  size_t owned_count;
  const gconv_tensor **pointers; /* the lists `in` and `out` of all steps */
  void *description;             /* of gconv_graph_plan_describe(); NULL until it is asked for; changed atomically */
} gconv_graph_plan;

/* Plans the graph for inputs of these types and shapes, one for each of graph->inputs. If an input has elements, shapes may
 * depend on them, and each run must get the same elements. The graph, and what the options point to, must outlive the plan.
 */
gconv_status gconv_graph_plan_create(const gconv_graph *graph, const gconv_tensor *inputs,
                                     const gconv_graph_options *options, gconv_graph_plan **plan);
/* Frees the plan. NULL is allowed. */
void gconv_graph_plan_free(gconv_graph_plan *plan);

/* Gives the plan its arena. Sets `data` of the tensors; on a GPU, `there`. */
gconv_status gconv_graph_plan_allocate(gconv_graph_plan *plan);

/* Return an input, to be filled before each run, and an output, which is valid until the next run. */
const gconv_tensor *gconv_graph_plan_input(const gconv_graph_plan *plan, size_t number);
const gconv_tensor *gconv_graph_plan_output(const gconv_graph_plan *plan, size_t number);

/* On the CPU, lets an input or output lie in memory of the caller for the next runs, so that it is not copied. Returns false
 * if it must be copied: if it is constant, lent already, or shares its memory with other values, or if the memory is not
 * aligned to its elements. gconv_graph_plan_take_back() ends this for all of them. */
bool gconv_graph_plan_lend(gconv_graph_plan *plan, int32_t value, const void *memory);
void gconv_graph_plan_take_back(gconv_graph_plan *plan);

/* Runs all steps, on the threads of the CPU or on the GPU. */
gconv_status gconv_graph_plan_run(gconv_graph_plan *plan);
/* Runs one step on the CPU. */
gconv_status gconv_graph_plan_run_step(const gconv_graph_plan *plan, size_t number);

/* Writes why the plan cannot run on a GPU: "no GPU computes nodes of the kinds A, B"; or an empty text if it can. The plan
 * must not have memory yet: then only constants have elements. May change the last error. */
void gconv_graph_gpu_obstacle(const gconv_graph_plan *plan, char *text, size_t size);

/* Writes the memory, and the steps with their shapes, one a line. */
void gconv_graph_plan_explain(const gconv_graph_plan *plan, FILE *text);

/* Describes the steps for users, *count of them, in memory of the plan. Returns NULL if there is no memory. */
const struct gconv_node_info *gconv_graph_plan_describe(const gconv_graph_plan *plan, size_t *count);
void gconv_graph_plan_free_description(gconv_graph_plan *plan);

/* Frees what gconv_network_run() keeps in a graph. */
void gconv_graph_free_calls(gconv_graph *graph);

/* Fuses nodes with the nodes before them where both kinds allow it (fuse.c). */
gconv_status gconv_graph_fuse(gconv_graph_plan *plan);

/* Finds which results are in blocks of channels, and sets `blocks` of their tensors (blocks.c). */
gconv_status gconv_graph_lay_blocks(gconv_graph_plan *plan);
/* Lets convolutions on a GPU hand their results to each other in 16 bits, where math allows it (keep.c). */
gconv_status gconv_graph_keep(gconv_graph_plan *plan);

/* Lets convolutions one after the other go through the image by bands of rows. Sets first and last of all steps. Then runs
 * all steps that run with the first of them (roll.c). */
gconv_status gconv_graph_roll(gconv_graph_plan *plan);
gconv_status gconv_graph_roll_step(const gconv_graph_plan *plan, const gconv_graph_step *first);

/* Gives each result of the steps its place in the arena (place.c). */
gconv_status gconv_graph_place(gconv_graph_plan *plan);

/* Places all blocks in one piece of memory, so that blocks that are needed at the same time do not overlap (arena.c). Sets
 * `at` of each. Fails if the memory would exceed the address space. */
gconv_status gconv_arena_lay(gconv_arena_block *blocks, size_t count, size_t *bytes);

GCONV_C_END

/* SPDX-License-Identifier: MIT */
/* The reader of graphs from ONNX models, their plans and their runs, fed with anything (libFuzzer). Graphs that are taken
 * are planned for small inputs and, if they need little memory, run. */
#include "base/memory.h"
#include "graph/image.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SIZE = 8, MOST_INPUTS = 8, MOST_BYTES = 1 << 20 };

static void demand(bool holds) {
  if (!holds)
    abort();
}

static gconv_status read_graph(uint8_t *bytes, size_t size, gconv_graph **graph) {
  gconv_bank_file *file = NULL;
  gconv_status status = gconv_bank_file_open_bytes("input", bytes, size, "onnx", &file);
  GCONV_THEN(status, gconv_graph_read(file, graph));
  gconv_bank_file_close(file);
  return status;
}

/* Fills the shapes of the inputs, with SIZE where the model leaves one open. */
static bool make_inputs(const gconv_graph *graph, gconv_tensor inputs[MOST_INPUTS]) {
  for (size_t i = 0; i < graph->input_count && i < MOST_INPUTS; i++) {
    inputs[i] = graph->values[graph->inputs[i]].tensor;
    for (int32_t axis = 0; axis < inputs[i].axes; axis++)
      inputs[i].shape[axis] = inputs[i].shape[axis] > 0 ? inputs[i].shape[axis] : axis == 0 ? 1 : SIZE;
  }
  return graph->input_count <= MOST_INPUTS;
}

static void run_plan(gconv_graph_plan *plan) {
  demand(gconv_graph_plan_allocate(plan) == GCONV_OK);
  memset(plan->arena, 0x3C, plan->arena_bytes);
  for (size_t i = 0; i < plan->graph->input_count; i++)
    memset(gconv_graph_plan_input(plan, i)->data, 0, gconv_tensor_bytes(gconv_graph_plan_input(plan, i)));
  if (gconv_graph_plan_run(plan) == GCONV_OK)
    for (size_t i = 0; i < plan->graph->output_count; i++)
      demand(gconv_graph_plan_output(plan, i)->data != NULL);
}

static void try_graph(const gconv_graph *graph, gconv_device *device) {
  const gconv_graph_options options = {.device = device};
  gconv_tensor inputs[MOST_INPUTS] = {{0}};
  gconv_graph_plan *plan = NULL;
  size_t steps;
  if (!make_inputs(graph, inputs) || gconv_graph_plan_create(graph, inputs, &options, &plan) != GCONV_OK)
    return;
  demand(gconv_graph_plan_describe(plan, &steps) != NULL && steps == plan->step_count + graph->input_count);
  if (plan->arena_bytes <= MOST_BYTES)
    run_plan(plan);
  gconv_graph_plan_free(plan);
}

/* The graph as one of images, with all outputs, and with each of them alone. */
static void try_images(const gconv_graph *graph, gconv_device *device) {
  for (size_t i = 0; i <= graph->output_count && i < MOST_INPUTS; i++) {
    gconv_graph *made = NULL;
    const char *output = i < graph->output_count ? graph->values[graph->outputs[i]].name : NULL;
    if (gconv_graph_make_image(graph, output, &made) == GCONV_OK)
      try_graph(made, device);
    gconv_graph_free_image(made);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static gconv_device *device;
  uint8_t *bytes = malloc(size ? size : 1); /* no more than there are, so that a step too far is seen */
  gconv_graph *graph = NULL;
  demand(bytes != NULL);
  if (!device)
    demand(gconv_device_open("cpu", 1, &device) == GCONV_OK);
  if (size > 0)
    memcpy(bytes, data, size);
  if (read_graph(bytes, size, &graph) == GCONV_OK) {
    try_graph(graph, device);
    try_images(graph, device);
  }
  gconv_graph_free(graph);
  free(bytes);
  return 0;
}

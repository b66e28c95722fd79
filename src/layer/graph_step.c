/* SPDX-License-Identifier: MIT */
/* A network that is a graph of nodes (src/graph), as a step of a plan: image after image through one plan of the graph. */
#include "base/memory.h"
#include "layer/network.h"

#include <string.h>

/* Images whose results need more bytes at a time are cut into tiles, where the graph allows it. */
static const size_t MOST_RESULTS = (size_t)256 << 20;

/* Sets the header of what the graph makes of an image: a tensor 1 x C x H x W; or less, such as 1 x C of a classifier. */
static gconv_status take_output(const gconv_graph_plan *plan, gconv_image *shape) {
  const gconv_tensor *t = gconv_graph_plan_output(plan, 0);
  int64_t sizes[4] = {1, 1, 1, 1}; /* N, C, H, W */
  char text[200];
  gconv_tensor_shape_text(t, text, sizeof text);
  for (int32_t i = 0; i < t->axes && t->axes <= 4; i++)
    sizes[t->axes == 3 && i > 0 ? i + 1 : t->axes == 1 ? 1 : i] = t->shape[i];
  bool good = t->axes <= 4 && sizes[0] == 1;
  for (int i = 1; i < 4; i++)
    good = good && sizes[i] >= 1 && sizes[i] <= INT32_MAX;
  if (!good)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: makes a tensor of %s of an image: here it is 1 x C x H x W", plan->graph->path,
                      text);
  shape->channels = (int32_t)sizes[1];
  shape->height = (int32_t)sizes[2];
  shape->width = (int32_t)sizes[3];
  return GCONV_OK;
}

static gconv_status make_plan(const gconv_graph *graph, const gconv_graph_options *options, gconv_image *shape,
                              gconv_graph_plan **plan) {
  const gconv_tensor input = {
      .type = GCONV_TENSOR_F32, .axes = 4, .shape = {1, shape->channels, shape->height, shape->width}};
  GCONV_TRY(gconv_graph_plan_create(graph, &input, options, plan));
  return take_output(*plan, shape);
}

gconv_status gconv_graph_step_make(const gconv_graph *graph, const gconv_graph_options *options, gconv_image *shape,
                                   gconv_step *step) {
  gconv_layer_problem *problem = &step->problem;
  *step = (gconv_step){.images = shape->frames};
  *problem = (gconv_layer_problem){.images = shape->frames,
                                   .channels = shape->channels,
                                   .height = shape->height,
                                   .width = shape->width,
                                   .rows = 1,
                                   .columns = 1,
                                   .groups = 1,
                                   .stride_y = 1,
                                   .stride_x = 1,
                                   .dilation_y = 1,
                                   .dilation_x = 1};
  GCONV_TRY(make_plan(graph, options, shape, &step->graph));
  if (graph->output_count > 1)
    gconv_warn_once("further outputs", "%s: has %zu outputs: the first is the result, and the others are left out",
                    graph->path, graph->output_count);
  step->out_channels = problem->filters = shape->channels;
  problem->out_height = shape->height;
  problem->out_width = shape->width;
  step->whole = *problem;
  if (step->graph->arena_bytes > MOST_RESULTS &&
      gconv_graph_tiles_create(step->graph, MOST_RESULTS, &step->tiles) != GCONV_OK)
    gconv_remark("%s; the whole image needs %zu MB for the results of nodes", gconv_last_error(),
                 step->graph->arena_bytes >> 20);
  return GCONV_OK;
}

gconv_status gconv_graph_step_allocate(const gconv_step *step) {
  return step->tiles ? gconv_graph_tiles_allocate(step->tiles) : gconv_graph_plan_allocate(step->graph);
}

/* Copies numbers of any type as float32. */
static void copy_numbers(const gconv_tensor *from, float *to) {
  const int64_t count = gconv_tensor_elements(from);
  switch (from->type) {
#define COPY(name, type, number)                                                                                            \
  case GCONV_TENSOR_##name:                                                                                                 \
    for (int64_t i = 0; i < count; i++)                                                                                     \
      to[i] = (float)((const type *)from->data)[i];                                                                         \
    return;
    GCONV_EACH_TENSOR_TYPE(COPY)
  }
}

gconv_status gconv_graph_step_execute(const gconv_step *step, const float *in, float *out) {
  const gconv_tensor *input = gconv_graph_plan_input(step->graph, 0), *output = gconv_graph_plan_output(step->graph, 0);
  const size_t in_floats = gconv_step_in_floats(step), out_floats = gconv_step_out_floats(step);
  for (size_t i = 0; i < (size_t)step->images; i++) {
    if (step->tiles) {
      GCONV_TRY(gconv_graph_tiles_run(step->tiles, in + i * in_floats, out + i * out_floats));
      continue;
    }
    memcpy(input->data, in + i * in_floats, in_floats * sizeof *in);
    GCONV_TRY(gconv_graph_plan_run(step->graph));
    copy_numbers(output, out + i * out_floats);
  }
  return GCONV_OK;
}

gconv_status gconv_graph_find_outputs(const gconv_graph *graph, int32_t channels, int32_t height, int32_t width,
                                      int32_t *outputs) {
  static const int32_t sizes[] = {256, 61, 509, 28, 1024};
  gconv_device *device = NULL;
  gconv_status status = GCONV_UNSUPPORTED;
  GCONV_TRY(gconv_device_open("cpu", 1, &device));
  const gconv_graph_options options = {.device = device};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes && status != GCONV_OK; i++) {
    gconv_graph_plan *plan = NULL;
    gconv_image shape = {.channels = channels > 0 ? channels : 3,
                         .height = height > 0 ? height : sizes[i],
                         .width = width > 0 ? width : sizes[i]};
    status = make_plan(graph, &options, &shape, &plan);
    *outputs = shape.channels;
    gconv_graph_plan_free(plan);
  }
  gconv_device_close(device);
  return status;
}

/* SPDX-License-Identifier: MIT */
/* A network that is a graph of nodes (src/graph), as a step of a plan: image after image through one plan of the graph. */
#include "base/memory.h"
#include "layer/network.h"

#include <string.h>

/* Images whose results need more bytes at a time are cut into tiles, where the graph allows it. A GPU has memory of its own,
 * and needs large tiles to be busy. */
static size_t most_results(const gconv_graph_options *options) {
  return (size_t)256 << (options->device->type == &gconv_device_type_cpu ? 20 : 24);
}

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

/* Plans the graph for images of this size. *shape becomes the header of its result. */
static gconv_status make_plan(const gconv_graph *graph, const gconv_graph_options *options, gconv_image *shape,
                              gconv_graph_plan **plan) {
  const gconv_tensor input = {
      .type = GCONV_TENSOR_F32, .axes = 4, .shape = {1, shape->channels, shape->height, shape->width}};
  GCONV_TRY(gconv_graph_plan_create(graph, &input, options, plan));
  return take_output(*plan, shape);
}

/* ---- Sides that must be multiples ---- */

enum { LARGEST_MULTIPLE = 128 };

/* Whether a result has a whole number of elements for each input, or the other way round. */
static bool is_ratio(int32_t made, int32_t size) {
  return made % size == 0 || size % made == 0;
}

/* Returns how many elements a result has of `size` inputs, if it has `made` of `padded` ones; 0: that is no whole number. */
static int32_t cut(int32_t made, int32_t padded, int32_t size) {
  const int64_t whole = (int64_t)made * size;
  return whole % padded == 0 && is_ratio(made, padded) ? (int32_t)(whole / padded) : 0;
}

/* Plans the graph for images whose sides are padded to multiples of 2, 4, 8 ...: the first for which it works. *shape
 * becomes the header of its result for an image of this size, without the padded part. */
static gconv_status make_padded_plan(const gconv_graph *graph, const gconv_graph_options *options, gconv_image *shape,
                                     gconv_graph_plan **plan) {
  for (int32_t multiple = 2; multiple <= LARGEST_MULTIPLE; multiple *= 2) {
    gconv_image padded = *shape;
    padded.height = (shape->height + multiple - 1) / multiple * multiple;
    padded.width = (shape->width + multiple - 1) / multiple * multiple;
    gconv_image made = padded;
    if ((padded.height == shape->height && padded.width == shape->width) || padded.height < 1 || padded.width < 1)
      continue;
    if (make_plan(graph, options, &made, plan) != GCONV_OK) {
      gconv_graph_plan_free(*plan);
      *plan = NULL;
      continue;
    }
    made.height = cut(made.height, padded.height, shape->height);
    made.width = cut(made.width, padded.width, shape->width);
    if (made.height > 0 && made.width > 0) {
      *shape = made;
      return GCONV_OK;
    }
    gconv_graph_plan_free(*plan);
    *plan = NULL;
  }
  return GCONV_UNSUPPORTED;
}

/* Plans the graph for images as they are, or padded: where it cannot be planned otherwise, or where its result would have
 * some rows or columns more or fewer than the image, as networks have that shrink an image and enlarge it again. */
static gconv_status make_any_plan(const gconv_graph *graph, const gconv_graph_options *options, gconv_image *shape,
                                  gconv_graph_plan **plan) {
  const gconv_image image = *shape;
  gconv_graph_plan *padded = NULL;
  char text[1000]; /* why it cannot be planned for this size */
  const gconv_status status = make_plan(graph, options, shape, plan);
  if (status == GCONV_OK ? is_ratio(shape->height, image.height) && is_ratio(shape->width, image.width)
                         : status != GCONV_BAD_FILE && status != GCONV_UNSUPPORTED)
    return status;
  snprintf(text, sizeof text, "%s", gconv_last_error());
  gconv_image made = image;
  if (make_padded_plan(graph, options, &made, &padded) == GCONV_OK) {
    gconv_graph_plan_free(*plan);
    *plan = padded;
    *shape = made;
    return GCONV_OK;
  }
  return status == GCONV_OK ? GCONV_OK : gconv_fail(status, "%s", text);
}

/* ---- The step ---- */

gconv_status gconv_graph_step_make(const gconv_graph *graph, const gconv_graph_options *options, int32_t rows,
                                   gconv_image *shape, gconv_step *step) {
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
  GCONV_TRY(make_any_plan(graph, options, shape, &step->graph));
  if (graph->output_count > 1)
    gconv_warn_once("further outputs", "%s: has %zu outputs: the first is the result, and the others are left out",
                    graph->path, graph->output_count);
  step->out_channels = problem->filters = shape->channels;
  problem->out_height = shape->height;
  problem->out_width = shape->width;
  step->whole = *problem;
  step->cut = (gconv_graph_cut){.in = {problem->height, problem->width},
                                .out = {problem->out_height, problem->out_width},
                                .most = most_results(options),
                                .rows = rows < problem->out_height ? rows : problem->out_height};
  if (rows > 0 && gconv_graph_tiles_create(step->graph, &step->cut, &step->tiles) == GCONV_OK) {
    problem->height = (int32_t)gconv_graph_tiles_most_rows(step->tiles);
    problem->out_height = step->cut.rows;
    return GCONV_OK;
  }
  const char *why = rows > 0 ? strstr(gconv_last_error(), ": ") : NULL; /* after the name of the file */
  step->uncut = why ? strdup(why + 2) : NULL;
  step->cut.rows = 0;
  if (step->graph->arena_bytes > step->cut.most &&
      gconv_graph_tiles_create(step->graph, &step->cut, &step->tiles) != GCONV_OK)
    gconv_remark("%s; the whole image needs %zu MB for the results of nodes", gconv_last_error(),
                 step->graph->arena_bytes >> 20);
  return GCONV_OK;
}

gconv_status gconv_graph_step_allocate(const gconv_step *step) {
  return step->tiles ? gconv_graph_tiles_allocate(step->tiles) : gconv_graph_plan_allocate(step->graph);
}

void gconv_graph_step_rows(const gconv_step *step, int32_t first, int64_t *begin, int64_t *end) {
  gconv_graph_tiles_rows(step->tiles, first < step->whole.out_height ? first : step->whole.out_height - 1, begin, end);
}

gconv_status gconv_graph_step_execute(const gconv_step *step, int64_t first, const float *in, float *out, void *stream) {
  const size_t in_floats = gconv_step_in_floats(step), out_floats = gconv_step_out_floats(step);
  gconv_graph_rows from = {(float *)in, 0, step->problem.height}, to = {out, first, step->problem.out_height};
  int64_t end;
  if (step->cut.rows > 0)
    gconv_graph_step_rows(step, (int32_t)first, &from.first, &end);
  for (int32_t i = 0; i < step->images; i++, from.data += in_floats, to.data += out_floats)
    GCONV_TRY(step->tiles ? gconv_graph_tiles_run(step->tiles, &from, &to, stream)
                          : gconv_graph_run_whole(step->graph, &step->cut, from.data, to.data, stream));
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

/* SPDX-License-Identifier: MIT */
/* A network that is a graph of nodes (src/graph), as a step of a plan: image after image through one plan of the graph. */
#include "base/memory.h"
#include "layer/network.h"

#include <string.h>

/* Returns the most bytes of results at a time. Images that need more are cut into tiles, if the graph allows it. A GPU is
 * only busy with larger tiles. With this size, photos of 8K go through DnCNN in less than 2 GB. */
static size_t most_results(const gconv_graph_options *options) {
  return (size_t)384 << 20 << (options->device->type == &gconv_device_type_cpu ? 0 : 2);
}

/* Sets *shape to the sizes of an output of the graph for one image: a tensor 1 x C x H x W, or one with fewer axes, such as
 * 1 x C of a classifier. */
static gconv_status take_output(const gconv_graph_plan *plan, size_t number, gconv_image *shape) {
  const gconv_tensor *t = gconv_graph_plan_output(plan, number);
  int64_t sizes[4] = {1, 1, 1, 1}; /* N, C, H, W */
  char text[200];
  gconv_tensor_shape_text(t, text, sizeof text);
  for (int32_t i = 0; i < t->axes && t->axes <= 4; i++)
    sizes[t->axes == 3 && i > 0 ? i + 1 : t->axes == 1 ? 1 : i] = t->shape[i];
  bool good = t->axes <= 4 && sizes[0] == 1;
  for (int i = 1; i < 4; i++)
    good = good && sizes[i] >= 1 && sizes[i] <= INT32_MAX;
  if (!good)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: makes a tensor of %s from an image, and not 1 x C x H x W", plan->graph->path,
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
  return take_output(*plan, 0, shape);
}

/* ---- Sides that must be multiples ---- */

/* Multiples that are tried: those of networks that halve sides, then those of other blocks and windows. */
static const int32_t multiples[] = {2, 4,  8,  16, 32, 64, 128, 3,  6, 12, 24, 48, 96,
                                    5, 10, 20, 40, 7,  14, 28,  56, 9, 18, 36, 15, 30};

/* Returns whether one size is a multiple of the other. */
static bool is_ratio(int32_t made, int32_t size) {
  return made % size == 0 || size % made == 0;
}

/* Returns the side of a result of a side `size`, if a side `padded` makes a side `made`; 0: it would be no whole number. */
static int32_t side_of(int32_t made, int32_t padded, int32_t size) {
  const int64_t whole = (int64_t)made * size;
  return whole % padded == 0 && is_ratio(made, padded) ? (int32_t)(whole / padded) : 0;
}

/* Returns whether a result is enlarged as much along both sides. If not, it is a table, such as 1 x 2394 x 4. */
static bool is_picture(const gconv_image *made, const gconv_image *padded) {
  return (int64_t)made->height * padded->width == (int64_t)made->width * padded->height;
}

/* Changes the sides of *made, the result of `padded`, to the sides of the result of *shape: in proportion or, if `grows`, by
 * how much `multiple` more rows and columns enlarge the result. (Results of networks that cut off rims grow so.) Returns
 * false if there are no such sides. */
static bool find_sides(const gconv_graph *graph, const gconv_graph_options *options, const gconv_image *shape,
                       const gconv_image *padded, int32_t multiple, bool grows, gconv_image *made) {
  const int32_t height = side_of(made->height, padded->height, shape->height),
                width = side_of(made->width, padded->width, shape->width);
  gconv_graph_plan *larger = NULL;
  gconv_image more = *padded;
  if (height > 0 && width > 0 && is_picture(made, padded)) {
    made->height = height;
    made->width = width;
    return true;
  }
  more.height += multiple;
  more.width += multiple;
  const bool planned = grows && make_plan(graph, options, &more, &larger) == GCONV_OK;
  gconv_graph_plan_free(larger);
  const int64_t gain = planned ? more.height - made->height : 0, rows = gain * (padded->height - shape->height),
                columns = gain * (padded->width - shape->width);
  if (gain <= 0 || more.width - made->width != gain || rows % multiple != 0 || columns % multiple != 0)
    return false;
  made->height -= (int32_t)(rows / multiple);
  made->width -= (int32_t)(columns / multiple);
  return made->height > 0 && made->width > 0;
}

/* Plans the graph for images whose sides are padded to multiples of a number: of the first number that works. *shape becomes
 * the header of its result for an image of this size, without the padded part. *fits becomes the first number for which the
 * graph can be planned; 0: none. */
static gconv_status make_padded_plan(const gconv_graph *graph, const gconv_graph_options *options, bool grows,
                                     gconv_image *shape, gconv_graph_plan **plan, int32_t *fits) {
  *fits = 0;
  for (size_t i = 0; i < sizeof multiples / sizeof *multiples; i++) {
    const int32_t multiple = multiples[i];
    gconv_image padded = *shape;
    padded.height = (shape->height + multiple - 1) / multiple * multiple;
    padded.width = (shape->width + multiple - 1) / multiple * multiple;
    gconv_image made = padded;
    if ((padded.height == shape->height && padded.width == shape->width) || padded.height < 1 || padded.width < 1)
      continue;
    const bool planned = make_plan(graph, options, &made, plan) == GCONV_OK;
    *fits = planned && *fits == 0 ? multiple : *fits;
    if (planned && find_sides(graph, options, shape, &padded, multiple, grows, &made)) {
      *shape = made;
      return GCONV_OK;
    }
    gconv_graph_plan_free(*plan);
    *plan = NULL;
  }
  return GCONV_UNSUPPORTED;
}

/* Plans the graph for images as they are. If that fails, plans it for padded images. It also does so if the result would
 * have some rows or columns more or fewer than the image. (Networks that shrink an image and enlarge it again make such
 * results.) */
static gconv_status make_any_plan(const gconv_graph *graph, const gconv_graph_options *options, gconv_image *shape,
                                  gconv_graph_plan **plan) {
  const gconv_image image = *shape;
  gconv_graph_plan *padded = NULL;
  char text[1000]; /* why it cannot be planned for this size */
  int32_t fits;
  const gconv_status status = make_plan(graph, options, shape, plan);
  if (status == GCONV_OK ? is_ratio(shape->height, image.height) && is_ratio(shape->width, image.width)
                         : status != GCONV_BAD_FILE && status != GCONV_UNSUPPORTED)
    return status;
  snprintf(text, sizeof text, "%s", gconv_last_error());
  gconv_image made = image;
  if (make_padded_plan(graph, options, status != GCONV_OK, &made, &padded, &fits) == GCONV_OK) {
    gconv_graph_plan_free(*plan);
    *plan = padded;
    *shape = made;
    return GCONV_OK;
  }
  if (status != GCONV_OK && fits > 0)
    return gconv_fail(status,
                      "%s: sides that are multiples of %d fit; the result is no picture that could be cut, so resize or pad "
                      "the image before",
                      text, fits);
  return status == GCONV_OK ? GCONV_OK : gconv_fail(status, "%s", text);
}

/* ---- Further outputs ---- */

/* Finds the headers of the outputs after the first one, for images like `image`. */
static gconv_status make_further(const gconv_image *image, gconv_step *step) {
  const gconv_graph_plan *plan = step->graph;
  const int64_t *planned = gconv_graph_plan_input(plan, 0)->shape;
  const size_t count = plan->graph->output_count - 1;
  if (count > 0 && plan->options.device->type != &gconv_device_type_cpu)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: its %zu outputs are computed together on the CPU alone: take the device cpu, or "
                      "choose one of them",
                      plan->graph->path, count + 1);
  GCONV_NEW(step->further, count + 1, "no memory for a network");
  step->further_count = count;
  for (size_t i = 0; i < count; i++) {
    gconv_image *header = &step->further[i];
    *header = (gconv_image){.type = GCONV_F32, .frames = image->frames, .planar = true};
    GCONV_TRY(take_output(plan, i + 1, header));
    const gconv_image padded = {.height = (int32_t)planned[2], .width = (int32_t)planned[3]};
    const bool is_padded = padded.height != image->height || padded.width != image->width;
    if (is_padded && (header->height > 1 || header->width > 1)) {
      const bool picture = is_picture(header, &padded);
      header->height = picture ? side_of(header->height, padded.height, image->height) : 0;
      header->width = side_of(header->width, padded.width, image->width);
    }
    if (header->height < 1 || header->width < 1)
      return gconv_fail(GCONV_UNSUPPORTED, "%s: output %zu has no whole number of pixels of an image of %d x %d",
                        plan->graph->path, i + 2, image->height, image->width);
  }
  return GCONV_OK;
}

/* Keeps the further outputs of the last run, which was of image `frame`. */
static gconv_status keep_further(const gconv_step *step, size_t frame) {
  for (size_t i = 0; i < step->further_count; i++) {
    const gconv_image *kept = &step->further[i];
    const size_t count = (size_t)kept->channels * (size_t)kept->height * (size_t)kept->width;
    GCONV_TRY(gconv_graph_copy_output(step->graph, i + 1, (int64_t[]){kept->height, kept->width},
                                      (float *)kept->data + frame * count, NULL));
  }
  return GCONV_OK;
}

/* ---- The step ---- */

/* Returns the rows of a band if all bands have about the same number, at most `most`; 0 if `most` is 0: no bands. */
static int32_t share_rows(int32_t height, int32_t most) {
  const int32_t bands = most > 0 ? (height - 1) / most + 1 : 1;
  return most > 0 ? (height - 1) / bands + 1 : 0;
}

gconv_status gconv_graph_step_make(const gconv_graph *graph, const gconv_graph_options *options, int32_t rows,
                                   gconv_image *shape, gconv_step *step) {
  gconv_layer_problem *problem = &step->problem;
  const gconv_image image = *shape;
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
  GCONV_TRY(make_further(&image, step));
  step->out_channels = problem->filters = shape->channels;
  problem->out_height = shape->height;
  problem->out_width = shape->width;
  step->whole = *problem;
  step->cut = (gconv_graph_cut){.in = {problem->height, problem->width},
                                .out = {problem->out_height, problem->out_width},
                                .most = most_results(options),
                                .rows = share_rows(problem->out_height, rows)};
  if (step->further_count > 0) { /* several outputs are made from the whole image */
    step->cut.rows = 0;
    return GCONV_OK;
  }
  step->cut.images = rows > 0 && options->device->type == &gconv_device_type_cpu ? shape->frames : 0;
  if (rows > 0 && gconv_graph_tiles_create(step->graph, &step->cut, &step->tiles) == GCONV_OK) {
    problem->height = (int32_t)gconv_graph_tiles_most_rows(step->tiles);
    problem->out_height = step->cut.rows;
    return GCONV_OK;
  }
  const char *why = rows > 0 ? strstr(gconv_last_error(), ": ") : NULL; /* after the name of the file */
  step->uncut = why ? strdup(why + 2) : NULL;
  step->cut.rows = step->cut.images = 0;
  if (step->graph->arena_bytes > step->cut.most &&
      gconv_graph_tiles_create(step->graph, &step->cut, &step->tiles) != GCONV_OK)
    gconv_remark("%s; the whole image needs %zu MB for the results of nodes", gconv_last_error(),
                 step->graph->arena_bytes >> 20);
  return GCONV_OK;
}

gconv_status gconv_graph_step_allocate(const gconv_step *step) {
  for (size_t i = 0; i < step->further_count; i++)
    GCONV_TRY(gconv_image_allocate(&step->further[i]));
  return step->tiles ? gconv_graph_tiles_allocate(step->tiles) : gconv_graph_plan_allocate(step->graph);
}

void gconv_graph_step_rows(const gconv_step *step, int32_t first, int64_t *begin, int64_t *end) {
  gconv_graph_tiles_rows(step->tiles, first < step->whole.out_height ? first : step->whole.out_height - 1, begin, end);
}

gconv_status gconv_graph_step_execute(const gconv_step *step, int64_t first, const float *in, float *out, void *stream) {
  const size_t in_floats = gconv_step_in_floats(step), out_floats = gconv_step_out_floats(step);
  gconv_graph_rows from = {(float *)in, 0, step->problem.height, 0}, to = {out, first, step->problem.out_height, 0};
  int64_t end;
  if (step->cut.rows > 0)
    gconv_graph_step_rows(step, (int32_t)first, &from.first, &end);
  for (int32_t i = 0; i < step->images; i++, from.image++, from.data += in_floats, to.data += out_floats) {
    GCONV_TRY(step->tiles ? gconv_graph_tiles_run(step->tiles, &from, &to, stream)
                          : gconv_graph_run_whole(step->graph, &step->cut, from.data, to.data, stream));
    GCONV_TRY(keep_further(step, (size_t)i));
  }
  return GCONV_OK;
}

gconv_status gconv_graph_find_outputs(const gconv_graph *graph, int32_t channels, int32_t height, int32_t width,
                                      int32_t *outputs) {
  static const int32_t sizes[] = {256, 61, 509, 28, 1024, 2520};
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

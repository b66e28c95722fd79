/* SPDX-License-Identifier: MIT */
/* The order of the inputs, and which inputs are executed together. */
#include "base/memory.h"
#include "batch/carry.h"
#include "batch/cost.h"
#include "image/layout.h"
#include "image/metadata.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* An input, and the numbers by which it is ordered. */
typedef struct shaped {
  gconv_image header; /* without metadata */
  double metadata;    /* bytes of metadata */
  size_t input;       /* its number */
  size_t first;       /* by shape: number of the first input of the same shape; by size: a class of sizes */
} shaped;

static int compare_firsts(const void *a, const void *b) {
  const shaped *x = a, *y = b;
  int order = (x->first > y->first) - (x->first < y->first);
  return order ? order : (x->input > y->input) - (x->input < y->input);
}

/* ---- By size -------------------------------------------------------------------------------------------------------- */

/* Returns the class of a file's size. Each class has half the size of the class before. Large files come first, so that the
 * last worker is not left with a large file. (The size of the file is the best estimate of the time that an image takes.)
 * Files of one class keep their order. All files below 64 KiB are one class. Files of unknown size come first. */
static size_t class_of(const char *path) {
  enum { SMALL_BITS = 16 };
  struct stat file;
  if (strcmp(path, "-") == 0 || stat(path, &file) != 0 || !S_ISREG(file.st_mode))
    return 0;
  size_t class = 64;
  for (uint64_t bytes = (uint64_t)file.st_size >> SMALL_BITS; bytes > 0; bytes /= 2)
    class --;
  return class;
}

/* Each input is a group. */
static void order_by_size(gconv_run *run, shaped *inputs) {
  size_t count = run->range_count = run->batch->inputs->count;
  for (size_t i = 0; i < count; i++)
    inputs[i] = (shaped){.input = i, .first = class_of(run->batch->inputs->items[i].file)};
  qsort(inputs, count, sizeof *inputs, compare_firsts);
  for (size_t i = 0; i < count; i++) {
    run->order[i] = inputs[i].input;
    run->ranges[i] = (gconv_group_range){.first = i, .count = 1};
  }
}

/* ---- By shape -------------------------------------------------------------------------------------------------------- */

/* Reads the header of an input. An unreadable header has no frames: it fails when it is decoded. Pipes are not read. */
static shaped look_at(const gconv_run *run, size_t input) {
  const gconv_batch *batch = run->batch;
  const gconv_input *from = &batch->inputs->items[input];
  GCONV_ENDED_BY(gconv_image_free) gconv_image whole = {0};
  if (!gconv_path_is_file(from->file) || gconv_image_read_header_as(from->path, &run->reading, &whole) != GCONV_OK)
    return (shaped){.input = input, .first = input};
  shaped found = {gconv_header_of(&whole), (double)gconv_metadata_bytes(&whole), input, input};
  if (batch->nhwc)
    gconv_header_to_nchw(&found.header);
  return found;
}

/* Cuts `alike` inputs of one shape, which begin at run->order[first], into groups. */
static void cut(gconv_run *run, gconv_worker *planner, const shaped *inputs, size_t first, size_t alike) {
  const gconv_image *header = &inputs->header;
  double metadata = 0;
  for (size_t i = 0; i < alike; i++)
    metadata = fmax(metadata, inputs[i].metadata);
  size_t most = header->frames == 1 && run->operation->type->batches && !run->operation->type->of_photos
                    ? gconv_choose_count(planner, header, alike, metadata)
                    : 1;
  for (size_t i = 0, count; i < alike; i += count) {
    count = alike - i < most ? alike - i : most;
    run->ranges[run->range_count++] =
        (gconv_group_range){.first = first + i, .count = count, .header = *header, .metadata = metadata};
  }
}

static int compare_shaped(const void *a, const void *b) {
  const gconv_image *p = &((const shaped *)a)->header, *q = &((const shaped *)b)->header;
  const int32_t x[] = {(int32_t)p->type, p->frames, p->height, p->width, p->channels, p->planar, p->alpha};
  const int32_t y[] = {(int32_t)q->type, q->frames, q->height, q->width, q->channels, q->planar, q->alpha};
  for (size_t i = 0; i < sizeof x / sizeof *x; i++)
    if (x[i] != y[i])
      return x[i] > y[i] ? 1 : -1;
  return compare_firsts(a, b);
}

/* Puts images of one shape together, in their order. An image of several frames stays alone. With one array of all results,
 * the inputs keep their order, and only neighbours are put together. Sorting is fast even if no two shapes are the same. */
static void order_by_shape(gconv_run *run, gconv_worker *planner, shaped *inputs) {
  size_t count = run->batch->inputs->count;
  if (!run->batch->one_array)
    qsort(inputs, count, sizeof *inputs, compare_shaped);
  for (size_t i = 1; i < count; i++)
    if (inputs[i].header.frames == 1 && gconv_image_same_shape(&inputs[i - 1].header, &inputs[i].header))
      inputs[i].first = inputs[i - 1].first;
  qsort(inputs, count, sizeof *inputs, compare_firsts);
  for (size_t i = 0, end; i < count; i = end) {
    for (end = i; end < count && inputs[end].first == inputs[i].first; end++)
      run->order[end] = inputs[end].input;
    cut(run, planner, &inputs[i], i, end - i);
  }
}

/* ---- One array ------------------------------------------------------------------------------------------------------- */

/* Refuses an input whose header could not be read, and says why. */
static gconv_status check_header(const gconv_run *run, const gconv_input *input, const gconv_image *header) {
  if (header->frames > 0)
    return GCONV_OK;
  if (!gconv_path_is_file(input->file))
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: one array of several images cannot begin before all shapes are known, and the shape of an image "
                      "from a pipe is not: name a folder (-o results/ --format npy)",
                      input->path);
  GCONV_ENDED_BY(gconv_image_free) gconv_image again = {0};
  return gconv_image_read_header_as(input->path, &run->reading, &again);
}

/* Refuses inputs of different shapes for one array. */
static gconv_status check_one_shape(const gconv_run *run, const shaped *looked) {
  const gconv_batch *batch = run->batch;
  const gconv_input *inputs = batch->inputs->items;
  for (size_t i = 0; i < batch->inputs->count && batch->one_array; i++) {
    GCONV_TRY(check_header(run, &inputs[i], &looked[i].header));
    gconv_image other = looked[i].header;
    other.frames = looked[0].header.frames;
    if (!gconv_image_same_shape(&looked[0].header, &other))
      return gconv_fail(GCONV_BAD_ARGUMENT,
                        "%s: one array cannot hold the results of %s and %s, which differ in size, channels or type: "
                        "name a folder (-o results/ --format npy)",
                        batch->outputs->paths.items[0], inputs[0].path, inputs[i].path);
  }
  return GCONV_OK;
}

static void place_in_array(gconv_run *run) {
  int32_t frame = 0;
  for (size_t g = 0; g < run->range_count; g++) {
    run->ranges[g].frame = frame;
    frame += run->ranges[g].header.frames * (int32_t)run->ranges[g].count;
  }
}

static gconv_status group_by_shape(gconv_run *run, shaped *looked) {
  gconv_worker planner = {.run = run, .threads = run->threads, .memory.budget = &run->budget};
  GCONV_TRY(gconv_devices_cpu(run->devices, 0, &planner.cpu));
  int64_t frames = 0;
  GCONV_TRY(check_one_shape(run, looked));
  for (size_t i = 0; i < run->batch->inputs->count; i++)
    frames += looked[i].header.frames;
  if (run->batch->one_array && frames > INT32_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "%s: one array of so many images: divide them", run->batch->outputs->paths.items[0]);
  order_by_shape(run, &planner, looked);
  if (run->batch->one_array)
    place_in_array(run);
  return GCONV_OK;
}

gconv_status gconv_groups_make(gconv_run *run) {
  size_t count = run->batch->inputs->count;
  run->order = calloc(count + 1, sizeof *run->order);
  run->ranges = calloc(count + 1, sizeof *run->ranges);
  GCONV_FREED shaped *inputs = calloc(count + 1, sizeof *inputs);
  GCONV_NEED_MEMORY(run->order && run->ranges && inputs, "out of memory");
  if (!run->operation->type->batches && !run->batch->one_array) {
    order_by_size(run, inputs);
    return GCONV_OK;
  }
  for (size_t i = 0; i < count; i++)
    inputs[i] = look_at(run, i);
  return group_by_shape(run, inputs);
}

/* SPDX-License-Identifier: MIT */
/* The order of the inputs, and which of them go together. */
#include "batch/layout.h"
#include "batch/run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- One by one ------------------------------------------------------------------------------------------------------ */

/* An input's place: a class of file sizes, of which each is half of the one before, and the number of the input. */
struct place {
  int class;
  size_t input;
};

static int compare_places(const void *a, const void *b) {
  const struct place *x = a, *y = b;
  return x->class != y->class ? (x->class > y->class) - (x->class < y->class)
                              : (x->input > y->input) - (x->input < y->input);
}

/* Large files come first, so that the last worker is not left with one: compressed bytes tell best how long an image takes.
 * Files that are about as large keep their order, and all below 64 KiB do. Sizes that are not known come first. */
static int class_of(const char *path) {
  enum { SMALL_BITS = 16 };
  struct stat file;
  if (strcmp(path, "-") == 0 || stat(path, &file) != 0 || !S_ISREG(file.st_mode))
    return 0;
  int class = 64;
  for (uint64_t bytes = (uint64_t)file.st_size >> SMALL_BITS; bytes > 0; bytes /= 2)
    class --;
  return class;
}

static gconv_status order_by_size(gconv_run *run) {
  size_t count = run->batch->inputs->count;
  struct place *places = calloc(count + 1, sizeof *places);
  if (!places)
    return gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  for (size_t i = 0; i < count; i++)
    places[i] = (struct place){class_of(run->batch->inputs->items[i].file), i};
  qsort(places, count, sizeof *places, compare_places);
  for (size_t i = 0; i < count; i++) {
    run->order[i] = places[i].input;
    run->groups[i] = (gconv_group){.first = i, .count = 1};
  }
  run->group_count = count;
  free(places);
  return GCONV_OK;
}

/* ---- By shape -------------------------------------------------------------------------------------------------------- */

/* A header that cannot be read has no frames: its failure shows when it is decoded. Standard input is not looked into. */
static gconv_image read_header(const gconv_batch *batch, size_t input) {
  const gconv_input *from = &batch->inputs->items[input];
  gconv_read_options options = {.unrounded = batch->unrounded};
  gconv_image whole = {0};
  if (!gconv_input_is_file(from->file) || gconv_image_read_header_as(from->path, &options, &whole) != GCONV_OK)
    return (gconv_image){0};
  gconv_image header = gconv_header_of(&whole);
  gconv_image_free(&whole);
  if (batch->nhwc)
    gconv_header_to_nchw(&header);
  return header;
}

/* Cuts run->order[first .. end - 1], which are of one shape, into groups. */
static void cut(gconv_run *run, gconv_worker *planner, const gconv_image *header, size_t first, size_t end) {
  size_t alike = end - first;
  size_t most = header->frames == 1 && !run->operation->type->of_photos ? gconv_choose_count(planner, header, alike) : 1;
  for (size_t i = first, count; i < end; i += count) {
    count = end - i < most ? end - i : most;
    run->groups[run->group_count++] = (gconv_group){.first = i, .count = count, .header = *header};
  }
}

/* Puts images of one shape together, in their order. One array has all in their order: there, only neighbours are put
 * together. */
static void order_by_shape(gconv_run *run, gconv_worker *planner, const gconv_image *headers, bool *taken) {
  size_t count = run->batch->inputs->count, ordered = 0;
  for (size_t i = 0; i < count; i++) {
    if (taken[i])
      continue;
    size_t first = ordered;
    for (size_t j = i; j < count; j++)
      if (!taken[j] && (j == i || (headers[i].frames == 1 && gconv_image_same_shape(&headers[i], &headers[j])))) {
        run->order[ordered++] = j;
        taken[j] = true;
      } else if (run->batch->one_array) {
        break;
      }
    cut(run, planner, &headers[i], first, ordered);
  }
}

/* ---- One array ------------------------------------------------------------------------------------------------------- */

/* Refuses an input whose header could not be read, and says why. */
static gconv_status check_header(const gconv_input *input, const gconv_image *header) {
  if (header->frames > 0)
    return GCONV_OK;
  if (!gconv_input_is_file(input->file))
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: what comes through a pipe is not known in time for one array of several images: name a folder "
                      "(-o results/ --format npy)",
                      input->path);
  gconv_image again = {0};
  gconv_status status = gconv_image_read_header(input->path, &again, NULL);
  gconv_image_free(&again);
  return status;
}

/* What goes into one array has one shape. */
static gconv_status check_one_shape(const gconv_batch *batch, const gconv_image *headers) {
  const gconv_input *inputs = batch->inputs->items;
  for (size_t i = 0; i < batch->inputs->count && batch->one_array; i++) {
    GCONV_TRY(check_header(&inputs[i], &headers[i]));
    gconv_image other = headers[i];
    other.frames = headers[0].frames;
    if (!gconv_image_same_shape(&headers[0], &other))
      return gconv_fail(GCONV_BAD_ARGUMENT,
                        "%s: one array cannot hold the results of %s and %s, which have different shapes: name a folder "
                        "(-o results/ --format npy)",
                        batch->outputs->paths.items[0], inputs[0].path, inputs[i].path);
  }
  return GCONV_OK;
}

static void place_in_array(gconv_run *run) {
  int32_t frame = 0;
  for (size_t g = 0; g < run->group_count; g++) {
    run->groups[g].frame = frame;
    frame += run->groups[g].header.frames * (int32_t)run->groups[g].count;
  }
}

static gconv_status group_by_shape(gconv_run *run, const gconv_image *headers, bool *taken) {
  gconv_worker planner = {.run = run, .threads = run->threads};
  GCONV_TRY(gconv_devices_cpu(run->devices, 0, &planner.cpu));
  int64_t frames = 0;
  GCONV_TRY(check_one_shape(run->batch, headers));
  for (size_t i = 0; i < run->batch->inputs->count; i++)
    frames += headers[i].frames;
  if (run->batch->one_array && frames > INT32_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "%s: one array of so many images: divide them", run->batch->outputs->paths.items[0]);
  order_by_shape(run, &planner, headers, taken);
  if (run->batch->one_array)
    place_in_array(run);
  return GCONV_OK;
}

gconv_status gconv_groups_make(gconv_run *run) {
  size_t count = run->batch->inputs->count;
  run->order = calloc(count + 1, sizeof *run->order);
  run->groups = calloc(count + 1, sizeof *run->groups);
  if (!run->order || !run->groups)
    return gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  if (!run->operation->type->batches)
    return order_by_size(run);
  gconv_image *headers = calloc(count + 1, sizeof *headers);
  bool *taken = calloc(count + 1, sizeof *taken);
  gconv_status status = headers && taken ? GCONV_OK : gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  for (size_t i = 0; i < count && status == GCONV_OK; i++)
    headers[i] = read_header(run->batch, i);
  if (status == GCONV_OK)
    status = group_by_shape(run, headers, taken);
  free(headers);
  free(taken);
  return status;
}

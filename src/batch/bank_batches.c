/* SPDX-License-Identifier: MIT */
/* Which images of a bank job go together. */
#include "batch/bank_run.h"

#include <stdlib.h>
#include <string.h>

/* Gives the header of an array its sizes by the layout of the job. */
static void turn_header(const gconv_bank_batch *job, gconv_image *header) {
  if (!job->nhwc || !header->planar)
    return;
  int32_t height = header->channels, width = header->height;
  header->channels = header->width;
  header->height = height;
  header->width = width;
}

void gconv_bank_read_headers(gconv_bank_run *r) {
  gconv_image *headers = r->headers;
  const gconv_inputs *inputs = r->job->common.inputs;
  for (size_t i = 0; i < inputs->count; i++) {
    if (!gconv_input_is_file(inputs->items[i].path) ||
        gconv_image_read_header(inputs->items[i].path, &headers[i], NULL) != GCONV_OK)
      headers[i] = (gconv_image){0};
    gconv_image header = headers[i];
    gconv_image_free(&headers[i]);
    headers[i] = header;
    headers[i].data = headers[i].icc = NULL;
    turn_header(r->job, &headers[i]);
    if (r->job->gray)
      gconv_image_to_gray(&headers[i]); /* what cannot be made grey fails when it is decoded */
  }
}

/* Cuts run.order[first .. end - 1], which are of one shape, into batches, and adds up what they cost. */
static gconv_status cut_group(gconv_bank_run *r, const gconv_image *header, size_t first, size_t end, gconv_bank_cost *total,
                              gconv_message *message) {
  gconv_bank_cost cost = {0};
  size_t alike = end - first;
  bool known = header->frames > 0 && gconv_bank_find_cost(r, header, &cost) == GCONV_OK;
  if (known && r->job->common.memory > 0)
    gconv_bank_find_reader(r, r->order + first, alike, &cost);
  total->cpu_ms += cost.cpu_ms * (double)alike;
  total->gpu_ms += cost.gpu_ms * (double)alike;
  for (size_t i = first; i < end;) {
    gconv_message why;
    gconv_bank_group *group = &r->batches[r->batch_count++];
    *group = (gconv_bank_group){.count = 1}; /* what is not known fails when it is decoded */
    if (known && gconv_bank_choose_cut(r, header, &cost, r->order[i], alike, group, &why) != GCONV_OK &&
        !(group->refused = strdup(why.text)))
      return gconv_complain_memory(message);
    group->first = i;
    group->count = end - i < group->count ? end - i : group->count;
    i += group->count;
  }
  return GCONV_OK;
}

static gconv_status put_together(gconv_bank_run *r, bool *taken, gconv_bank_cost *total, gconv_message *message) {
  size_t count = r->job->common.inputs->count;
  const gconv_image *headers = r->headers;
  for (size_t i = 0; i < count; i++)
    taken[i] = gconv_bank_pass_over(r, i);
  for (size_t i = 0; i < count; i++) {
    if (taken[i])
      continue;
    size_t first = r->order_count;
    for (size_t j = i; j < count; j++)
      if (!taken[j] && (j == i || (headers[i].frames == 1 && gconv_image_same_shape(&headers[i], &headers[j])))) {
        r->order[r->order_count++] = j;
        taken[j] = true;
      } else if (r->job->one_tensor) {
        break;
      }
    GCONV_TRY(cut_group(r, &headers[i], first, r->order_count, total, message));
  }
  return GCONV_OK;
}

gconv_status gconv_bank_make_batches(gconv_bank_run *r, gconv_bank_cost *total, gconv_message *message) {
  bool *taken = calloc(r->job->common.inputs->count, sizeof *taken);
  if (!taken)
    return gconv_complain_memory(message);
  gconv_status status = put_together(r, taken, total, message);
  free(taken);
  return status;
}

/* Refuses an input whose header could not be read, and says why. */
static gconv_status check_header(const char *path, const gconv_image *header, gconv_message *message) {
  if (header->frames > 0)
    return GCONV_OK;
  if (!gconv_input_is_file(path))
    return gconv_complain(
        message, GCONV_BAD_ARGUMENT,
        "%s: what comes through a pipe is not known in time for one array of several images: name a folder "
        "(-o results/ --format npy)",
        path);
  gconv_image again = {0};
  gconv_status status = gconv_bank_keep_text(message, gconv_image_read_header(path, &again, NULL));
  gconv_image_free(&again);
  return status;
}

gconv_status gconv_bank_check_one_shape(const gconv_bank_run *r, gconv_message *message) {
  const gconv_image *headers = r->headers;
  for (size_t i = 0; i < r->job->common.inputs->count && r->job->one_tensor; i++) {
    GCONV_TRY(check_header(r->job->common.inputs->items[i].path, &headers[i], message));
    gconv_image other = headers[i];
    other.frames = headers[0].frames;
    if (!gconv_image_same_shape(&headers[0], &other))
      return gconv_complain(message, GCONV_BAD_ARGUMENT,
                            "%s: one array cannot hold the results of %s and %s, which have different shapes: name a folder "
                            "(-o results/ --format npy)",
                            r->job->common.outputs->paths.items[0], r->job->common.inputs->items[0].path,
                            r->job->common.inputs->items[i].path);
  }
  return GCONV_OK;
}

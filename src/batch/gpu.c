/* SPDX-License-Identifier: MIT */
/* A GPU decodes JPEG files, and sends results in parts: rows, or parts of PNG files that it makes. */
#include "base/clock.h"
#include "base/memory.h"
#include "batch/carry.h"
#include "batch/cost.h"
#include "batch/execute.h"
#include "batch/files.h"
#include "batch/item.h"
#include "batch/worth.h"
#include "image/gpu_codec.h"

/* ---- Results in parts ------------------------------------------------------------------------------------------------ */

/* The files of all results are open at once, and the memory of their writers must fit into --memory. A result that several
 * threads compress is written faster as a whole. */
double gconv_parts_bytes(const gconv_group *group, double whole) {
  gconv_worker *worker = group->worker;
  const gconv_batch *batch = worker->run->batch;
  const gconv_item *item = &group->items[0];
  double bytes = whole + ((double)item->count - 1) * (5 << 20) * worker->threads;
  bool may = group->count == 1 && !worker->run->operation->type->batches &&
             gconv_gpu_may_send_parts(batch, item->paths, item->count) &&
             (gconv_gpu_makes_png(batch, item->format) || worker->threads == 1) &&
             (batch->memory == 0 || bytes <= (double)worker->run->budget.bytes);
  return may ? bytes : 0;
}

/* The results of a group, which are written as they come. */
typedef struct sending {
  gconv_group *group;
  const gconv_image *in;      /* the results get the profile and the resolution of this image */
  gconv_row_writer **writers; /* one for each output; NULL: the output is not wanted */
  bool begun;                 /* results have come */
} sending;

/* Opens the files when the first results come. */
static int32_t begin_results(void *user) {
  sending *s = user;
  s->begun = true;
  return gconv_group_open_files(s->group, 0, s->group->items[0].count, s->in, s->group->worker->threads, NULL, s->writers);
}

static void take_part(void *user, size_t output, const gconv_part *part) {
  sending *s = user;
  gconv_row_writer **writer = &s->writers[output];
  double begin = gconv_now_ms();
  gconv_status status = *writer ? gconv_row_writer_write_part(*writer, part) : GCONV_OK;
  if (status != GCONV_OK)
    gconv_group_drop_file(s->group, output, writer, status);
  s->group->common.encode_ms += gconv_now_ms() - begin;
}

/* Does gconv_plan_execute_parts(), into the files of the results. Once results have come, sets group->streamed, and counts
 * the results. GCONV_UNSUPPORTED if they cannot come in parts. */
static gconv_status execute_parts(gconv_group *group, const gconv_image *in, const void *jpeg, size_t size) {
  gconv_item *item = &group->items[0];
  gconv_timings *timings = &group->common.timings;
  sending s = {.group = group, .in = in};
  gconv_taker taker = {.begin = begin_results,
                       .take = take_part,
                       .user = &s,
                       .png = gconv_gpu_makes_png(group->worker->run->batch, item->format)};
  GCONV_FREED gconv_row_writer **writers =
      gconv_plan_outputs(group->plan) == item->count ? calloc(item->count, sizeof *writers) : NULL;
  if (!writers)
    return GCONV_UNSUPPORTED;
  s.writers = writers;
  gconv_status status = gconv_plan_execute_parts(group->plan, in, jpeg, size, &taker, timings);
  group->streamed = s.begun;
  if (s.begun) {
    if (gconv_group_keep_text(group, status) != GCONV_OK)
      gconv_item_add_error(item, item->input->path, group->why.text);
    gconv_group_close_files(group, 0, item->count, s.writers, status);
  }
  group->common.encode_ms += timings->encode_ms;
  return status;
}

gconv_status gconv_group_execute_pixels(gconv_group *group, bool in_parts) {
  gconv_status status = GCONV_UNSUPPORTED;
  gconv_group_look(group);
  if (in_parts)
    status = execute_parts(group, &group->image, NULL, 0);
  if (status != GCONV_OK && !group->streamed)
    status = gconv_group_execute(group);
  if (status == GCONV_OK)
    gconv_group_describe(group);
  return status;
}

/* ---- JPEG ------------------------------------------------------------------------------------------------------------ */

static gconv_status execute_jpeg(gconv_group *group, const gconv_image *header, const void *jpeg, size_t size) {
  GCONV_TRY(gconv_group_prepare_results(group));
  return gconv_plan_execute_jpeg(group->plan, jpeg, size, header, group->worker->memory.results, &group->common.timings);
}

/* Decodes and convolves, in parts or at once. If that fails before results were begun, returns GCONV_OK: the CPU decodes. */
static gconv_status decode_and_convolve(gconv_group *group, const gconv_image *header, const void *jpeg, size_t size,
                                        bool in_parts) {
  gconv_status status = GCONV_UNSUPPORTED;
  if (in_parts)
    status = execute_parts(group, header, jpeg, size);
  if (status == GCONV_UNSUPPORTED && !group->streamed)
    status = execute_jpeg(group, header, jpeg, size);
  if (status == GCONV_OK) {
    gconv_group_describe(group);
    group->common.decode_ms += group->common.timings.decode_ms;
  } else if (!group->streamed) {
    if (!group->remark[0])
      snprintf(group->remark, sizeof group->remark, "not decoded by a GPU: %.400s", gconv_last_error());
    return GCONV_OK;
  }
  return status;
}

gconv_status gconv_group_convolve_jpeg(gconv_group *group, gconv_row_reader *reader, double whole) {
  gconv_worker *worker = group->worker;
  GCONV_FREED void *jpeg = NULL;
  size_t size = 0;
  if (!gconv_devices_decode(worker->run->devices, worker->index))
    return GCONV_OK;
  double parts = gconv_parts_bytes(group, whole);
  GCONV_TRY(gconv_worker_admit(worker, parts > 0 ? parts : whole, "a GPU takes images whole, and -d cpu does not"));
  double begin = gconv_now_ms();
  if (gconv_row_reader_jpeg(reader, &jpeg, &size) != GCONV_OK)
    return GCONV_OK;
  group->common.decode_ms += gconv_now_ms() - begin;
  GCONV_TRY(gconv_group_take_plan(group, 0, false));
  return decode_and_convolve(group, gconv_row_reader_header(reader), jpeg, size, parts > 0);
}

/* SPDX-License-Identifier: MIT */
/* The device of a job of banks, and its networks. */
#include "batch/bank_run.h"
#include "batch/clock.h"

#include <stdio.h>
#include <string.h>

static bool cpu_has_algorithm(const char *algorithm) {
  const gconv_algorithm_info *info;
  for (size_t i = 0; algorithm && (info = gconv_layer_algorithm_at(i)); i++)
    if (strcmp(info->device, "cpu") == 0 && strcmp(info->name, algorithm) == 0)
      return true;
  return !algorithm || strcmp(algorithm, "auto") == 0;
}

/* Whether the CPU has the algorithms that are asked for. */
static bool cpu_suffices(const gconv_bank_run *r) {
  bool good = cpu_has_algorithm(r->job->options.algorithm);
  for (size_t i = 0; i < r->job->layer_count; i++)
    good = good && cpu_has_algorithm(r->job->layers[i].algorithm);
  return good;
}

gconv_status gconv_bank_begin_device(gconv_bank_run *r, const gconv_bank_cost *total, gconv_message *message) {
  const char *name = r->job->common.device;
  if (strcmp(name, "auto") == 0 && cpu_suffices(r)) {
    gconv_job job = {.likes = r->headers, .like_count = 1, .images = r->job->common.inputs->count};
    job.cpu_ms = total->cpu_ms;
    job.gpu_ms = total->gpu_ms;
    GCONV_TRY(gconv_bank_keep_text(message, gconv_device_choose(r->planner, &job, &r->choice)));
    name = r->choice.name;
  }
  return gconv_bank_keep_text(message, gconv_device_open_begin(name, r->threads, &r->opening));
}

gconv_status gconv_bank_wait_for_device(gconv_bank_run *r) {
  if (r->device)
    return GCONV_OK;
  double begin = gconv_batch_clock_ms();
  gconv_status status = gconv_bank_keep_text(&r->why, gconv_device_open_end(r->opening, &r->device));
  r->opening = NULL;
  r->summary->device_wait_ms = gconv_batch_clock_ms() - begin;
  if (status != GCONV_OK)
    return status;
  r->summary->device = *gconv_device_get_info(r->device);
  r->summary->device_start_ms = gconv_device_start_ms(r->device);
  memcpy(r->summary->device_reason, r->choice.reason, sizeof r->summary->device_reason);
  return GCONV_OK;
}

void gconv_bank_drop_network(gconv_bank_run *r) {
  gconv_network_free(r->network);
  gconv_image_free(&r->maps);
  r->network = NULL;
}

static gconv_status make_network(gconv_bank_run *r, gconv_device *device, const gconv_image *like, int32_t rows) {
  gconv_network_options options = r->job->options;
  options.rows = rows;
  r->at = device;
  r->part = like->frames;
  return gconv_network_create(device, like, r->job->layers, r->job->layer_count, &options, &r->network);
}

/* The CPU for images that a GPU has no memory for, if the user left the device open; else NULL. */
static gconv_device *spare_of(const gconv_bank_run *r) {
  return strcmp(r->job->common.device, "auto") == 0 && cpu_suffices(r) ? r->planner : NULL;
}

bool gconv_bank_on_gpu(const gconv_bank_run *r) {
  return strncmp(gconv_device_get_info(r->device)->name, "cuda", 4) == 0;
}

static gconv_status make_on_cpu(gconv_bank_run *r, const gconv_image *like, int32_t rows, gconv_status status) {
  gconv_device *spare = spare_of(r);
  if (!spare)
    return status;
  snprintf(r->remark, sizeof r->remark, "%s, so the CPU takes it", gconv_last_error());
  return make_network(r, spare, like, rows);
}

gconv_status gconv_bank_whole_network(gconv_bank_run *r, const gconv_image *like, bool bands_may) {
  gconv_image part = *like;
  part.frames = r->part;
  r->cold = !r->network || r->rows != 0 || r->asked != like->frames || !gconv_network_fits(r->network, &part);
  part.frames = like->frames;
  if (!r->cold)
    return GCONV_OK;
  gconv_bank_drop_network(r);
  r->rows = 0;
  r->asked = like->frames;
  r->remark[0] = '\0';
  gconv_status status = make_network(r, r->device, &part, 0);
  while (status == GCONV_NO_MEMORY && gconv_bank_on_gpu(r) && part.frames > 1) {
    part.frames = (part.frames + 1) / 2;
    snprintf(r->remark, sizeof r->remark, "%s, so it takes %d image%s at a time", gconv_last_error(), part.frames,
             part.frames == 1 ? "" : "s");
    status = make_network(r, r->device, &part, 0);
  }
  return status == GCONV_NO_MEMORY && gconv_bank_on_gpu(r) && !bands_may ? make_on_cpu(r, like, 0, status) : status;
}

gconv_status gconv_bank_rows_network(gconv_bank_run *r, const gconv_image *like, int32_t rows) {
  r->cold = !r->network || r->rows != rows || !gconv_network_fits(r->network, like);
  if (!r->cold)
    return GCONV_OK;
  gconv_bank_drop_network(r);
  r->rows = rows;
  r->remark[0] = '\0';
  gconv_status status = make_network(r, r->device, like, rows);
  while (status == GCONV_NO_MEMORY && gconv_bank_on_gpu(r) && rows > GCONV_BANK_LEAST_ROWS) {
    rows = (rows + 1) / 2;
    snprintf(r->remark, sizeof r->remark, "%s, so it takes %d rows at a time", gconv_last_error(), rows);
    status = make_network(r, r->device, like, rows);
  }
  return status == GCONV_NO_MEMORY && gconv_bank_on_gpu(r) ? make_on_cpu(r, like, r->rows, status) : status;
}

/* SPDX-License-Identifier: MIT */
/* Arrays of maps: of an image each, or one of all. */
#include "batch/bank_run.h"

#include <string.h>

gconv_status gconv_bank_array_open(const gconv_bank_run *r, const char *path, const gconv_image *maps, int32_t frames,
                                   gconv_row_writer **writer) {
  const gconv_batch *common = &r->job->common;
  gconv_image header = *maps;
  header.frames = frames;
  if (r->job->nhwc) {
    header.channels = maps->height;
    header.height = maps->width;
    header.width = maps->channels;
  }
  gconv_write_options options = {.format = common->outputs->format,
                                 .keep_existing = common->existing != GCONV_EXISTING_REPLACE};
  return gconv_row_writer_open(path, &options, &header, writer);
}

/* Writes `count` rows that lie one behind the other. */
static gconv_status write_rows(gconv_row_writer *writer, const gconv_image *rows, size_t count) {
  gconv_status status = GCONV_OK;
  for (size_t at = 0, step; at < count && status == GCONV_OK; at += step) {
    step = count - at < (1 << 20) ? count - at : 1 << 20;
    status = gconv_row_writer_write(writer, (uint8_t *)rows->data + at * rows->row_bytes, rows->row_bytes, (int32_t)step);
  }
  return status;
}

/* Writes rows of maps as N x H x W x C, where the rows of a frame come in order. */
static gconv_status add_nhwc(gconv_row_writer *writer, const gconv_image *rows) {
  gconv_image copy = *rows;
  copy.data = NULL;
  gconv_status status = gconv_image_allocate(&copy);
  if (status != GCONV_OK)
    return status;
  for (size_t i = 0; i < (size_t)rows->channels; i++)
    memcpy((uint8_t *)copy.data + i * copy.plane_bytes, (const uint8_t *)rows->data + i * rows->plane_bytes,
           copy.plane_bytes);
  status = gconv_to_nhwc(&copy);
  if (status == GCONV_OK)
    status = write_rows(writer, &copy, (size_t)copy.channels * (size_t)copy.height);
  gconv_image_free(&copy);
  return status;
}

gconv_status gconv_bank_array_add(const gconv_bank_run *r, gconv_row_writer *writer, int32_t frame, const gconv_image *rows,
                                  int32_t first) {
  if (r->job->nhwc)
    return add_nhwc(writer, rows);
  for (int32_t c = 0; c < rows->channels; c++) {
    gconv_image plane = *rows;
    plane.data = (uint8_t *)rows->data + (size_t)c * rows->plane_bytes;
    int64_t number = (int64_t)frame * rows->channels + c;
    gconv_status status = gconv_row_writer_is_free(writer)
                              ? gconv_row_writer_write_at(writer, number, first, plane.data, plane.row_bytes, plane.height)
                              : write_rows(writer, &plane, (size_t)plane.height);
    if (status != GCONV_OK)
      return status;
  }
  return GCONV_OK;
}

gconv_status gconv_bank_array_add_frames(const gconv_bank_run *r, gconv_row_writer *writer, int32_t to,
                                         const gconv_image *maps, int32_t first, int32_t count) {
  gconv_status status = GCONV_OK;
  for (int32_t i = 0; i < count && status == GCONV_OK; i++) {
    gconv_image frame = *maps;
    frame.data = (uint8_t *)maps->data + (size_t)(first + i) * (size_t)maps->channels * maps->plane_bytes;
    status = gconv_bank_array_add(r, writer, to + i, &frame, 0);
  }
  return status;
}

gconv_status gconv_bank_tensor_open(gconv_bank_run *r, const gconv_image *maps) {
  const gconv_batch *common = &r->job->common;
  int64_t frames = 0;
  if (r->writer)
    return GCONV_OK;
  for (size_t i = 0; i < common->inputs->count; i++)
    frames += r->headers[i].frames;
  if (frames > INT32_MAX)
    return gconv_set_error(GCONV_TOO_LARGE, "one array of so many images: divide them");
  return gconv_bank_array_open(r, common->outputs->paths.items[0], maps, (int32_t)frames, &r->writer);
}

gconv_status gconv_bank_tensor_finish(gconv_bank_run *r, gconv_message *message) {
  if (!r->writer)
    return GCONV_OK;
  gconv_row_writer *writer = r->writer;
  r->writer = NULL;
  if (r->summary->failed > 0 || r->summary->begun < r->job->common.inputs->count) {
    gconv_row_writer_discard(writer);
    r->summary->written = 0;
    return GCONV_OK;
  }
  gconv_status status = gconv_bank_keep_text(message, gconv_row_writer_commit(writer));
  if (status != GCONV_OK)
    r->summary->written = 0;
  if (status != GCONV_EXISTS) /* it was not there when the run began */
    return status;
  if (r->job->common.existing == GCONV_EXISTING_KEEP)
    return gconv_complain(message, status, "%s: exists and is kept (--no-clobber)", r->job->common.outputs->paths.items[0]);
  r->summary->passed += 1;
  return GCONV_OK;
}

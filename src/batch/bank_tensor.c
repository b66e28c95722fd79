/* SPDX-License-Identifier: MIT */
/* One array of the results of all images. */
#include "batch/bank_run.h"

/* Opens the one tensor: its frames are those of all inputs. */
static gconv_status open_tensor(gconv_bank_run *r) {
  const gconv_batch *common = &r->job->common;
  gconv_image header = *gconv_network_output_header(r->network);
  header.frames = 0;
  for (size_t i = 0; i < common->inputs->count; i++)
    header.frames += r->headers[i].frames;
  if (r->job->nhwc) {
    int32_t channels = header.channels;
    header.channels = header.height;
    header.height = header.width;
    header.width = channels;
  }
  gconv_write_options options = {.format = common->outputs->format,
                                 .keep_existing = common->existing != GCONV_EXISTING_REPLACE};
  return gconv_row_writer_open(common->outputs->paths.items[0], &options, &header, &r->writer);
}

gconv_status gconv_bank_append_tensor(gconv_bank_run *r) {
  if (!r->writer)
    GCONV_TRY(open_tensor(r));
  gconv_image *maps = &r->maps;
  if (r->job->nhwc)
    GCONV_TRY(gconv_to_nhwc(maps));
  size_t rows = (size_t)maps->frames * (size_t)maps->channels * (size_t)maps->height;
  gconv_status status = GCONV_OK;
  for (size_t at = 0, step; at < rows && status == GCONV_OK; at += step) {
    step = rows - at < (1 << 20) ? rows - at : 1 << 20;
    status = gconv_row_writer_write(r->writer, (uint8_t *)maps->data + at * maps->row_bytes, maps->row_bytes, (int32_t)step);
  }
  if (r->job->nhwc)
    gconv_image_free(maps); /* another shape than the network yields */
  return status;
}

gconv_status gconv_bank_finish_tensor(gconv_bank_run *r, gconv_message *message) {
  if (!r->writer)
    return GCONV_OK;
  gconv_row_writer *writer = r->writer;
  r->writer = NULL;
  if (r->summary->failed > 0) {
    gconv_row_writer_discard(writer);
    r->summary->written = 0;
    return GCONV_OK;
  }
  return gconv_bank_keep_text(message, gconv_row_writer_commit(writer));
}

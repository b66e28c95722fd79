/* SPDX-License-Identifier: MIT */
#include "batch/files.h"

#include <stdlib.h>

gconv_status gconv_frame_name(gconv_frame *frame) {
  const gconv_batch *batch = frame->batch;
  for (size_t n = 0; n < frame->results; n++) {
    free(frame->made[n]);
    frame->made[n] = NULL;
    GCONV_TRY(gconv_outputs_name_frame(batch->inputs, batch->outputs, frame->input, n, frame->number, &frame->made[n]));
    frame->paths[n] = frame->made[n];
  }
  return GCONV_OK;
}

gconv_status gconv_frame_settle_names(gconv_frame *frame, gconv_row_writer **writers) {
  bool more, undecided = !frame->shared && !frame->named && frame->total == 0 && frame->number == 1;
  if (!undecided)
    return GCONV_OK;
  GCONV_TRY(gconv_row_reader_more_frames(frame->reader, &more));
  gconv_status status = more ? gconv_frame_name(frame) : GCONV_OK;
  frame->refused = status != GCONV_OK;
  for (size_t n = 0; n < frame->results && more && writers && status == GCONV_OK; n++)
    if (writers[n])
      status = gconv_row_writer_rename(writers[n], frame->paths[n]);
  return status;
}

bool gconv_frame_is_shared(const gconv_frame *frame) {
  return frame && frame->shared;
}

gconv_status gconv_frame_take_writer(gconv_frame *frame, const gconv_format_info *format, size_t n, gconv_image *header,
                                     gconv_row_writer **writer) {
  bool more = false;
  *writer = frame->writers[n];
  frame->writers[n] = NULL;
  bool known = frame->total > 0 || (frame->number == 2 && frame->counted);
  if (frame->number > 1)
    return *writer ? gconv_row_writer_add_frame(*writer, header, known) : GCONV_OK;
  bool waits = gconv_format_minds_number(format);
  if (waits && frame->total == 0 && gconv_row_reader_is_through(frame->reader))
    GCONV_TRY(gconv_row_reader_more_frames(frame->reader, &more));
  frame->counted = more;
  header->frames = frame->total > 0 ? (int32_t)frame->total : more ? 2 : 1;
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
/* One array of the results of all inputs, in which each group writes its frames. */
#include "batch/layout.h"
#include "batch/run.h"

#include <stdlib.h>

struct gconv_joint {
  const gconv_run *run;
  pthread_mutex_t lock;     /* guards all below */
  gconv_row_writer *writer; /* NULL before the first frame */
};

gconv_status gconv_joint_create(const gconv_run *run, gconv_joint **result) {
  gconv_joint *array = calloc(1, sizeof *array);
  if (!array)
    return gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  array->run = run;
  pthread_mutex_init(&array->lock, NULL);
  *result = array;
  return GCONV_OK;
}

/* The frames of all inputs. */
static int32_t count_frames(const gconv_run *run) {
  const gconv_group *last = &run->groups[run->group_count - 1];
  return last->frame + last->header.frames * (int32_t)last->count;
}

static gconv_status open_writer(gconv_joint *array, const gconv_image *like) {
  const gconv_batch *batch = array->run->batch;
  gconv_write_options options = {.format = batch->outputs->format,
                                 .keep_existing = batch->existing != GCONV_EXISTING_REPLACE};
  gconv_image header = gconv_header_of(like);
  header.frames = count_frames(array->run);
  if (batch->nhwc)
    gconv_header_to_nhwc(&header);
  return gconv_row_writer_open(batch->outputs->paths.items[0], &options, &header, &array->writer);
}

gconv_status gconv_joint_add(gconv_joint *array, const gconv_image *like, int32_t frame, const gconv_image *rows,
                             int32_t first) {
  gconv_status status = GCONV_OK;
  pthread_mutex_lock(&array->lock);
  if (!array->writer)
    status = open_writer(array, like);
  if (status == GCONV_OK)
    status = gconv_rows_add(array->writer, array->run->batch->nhwc, frame, rows, first);
  pthread_mutex_unlock(&array->lock);
  return status;
}

gconv_status gconv_joint_close(gconv_joint *array, bool good) {
  gconv_status status = GCONV_OK;
  if (!array)
    return GCONV_OK;
  if (array->writer && good)
    status = gconv_row_writer_commit(array->writer);
  else if (array->writer)
    gconv_row_writer_discard(array->writer);
  pthread_mutex_destroy(&array->lock);
  free(array);
  return status;
}

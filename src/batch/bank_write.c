/* SPDX-License-Identifier: MIT */
/* The results of a batch: files of their own for each image. */
#include "batch/bank_run.h"
#include "batch/clock.h"
#include "batch/loop.h"

#include <stdlib.h>
#include <string.h>

/* Writing the results of a batch, each of which is a turn. */
typedef struct writing {
  gconv_bank_run *r;
  const gconv_bank_loaded *l;
  gconv_report *reports; /* [l->count] */
  gconv_texts *errors;   /* [l->count] */
  size_t *first;         /* [l->count + 1]: the first turn of each image */
  int threads;           /* of one result */
  pthread_mutex_t lock;  /* guards reports and errors */
} writing;

static void count_result(writing *w, size_t image, const char *path, gconv_status status, const char *why) {
  gconv_report *report = &w->reports[image];
  bool skipped = status == GCONV_EXISTS && w->r->job->common.existing == GCONV_EXISTING_SKIP;
  gconv_message trouble;
  bool noted = status != GCONV_OK || gconv_bank_note(w->r, w->l->inputs[image], path, &trouble) == GCONV_OK;
  pthread_mutex_lock(&w->lock); /* not before: to note a result, all of it is read */
  report->written += status == GCONV_OK;
  report->passed += skipped;
  report->failed += status != GCONV_OK && !skipped;
  if (status != GCONV_OK && !skipped)
    gconv_bank_add_error(&w->errors[image], path, status, why);
  if (!noted)
    gconv_texts_add(&w->errors[image], strdup(trouble.text));
  pthread_mutex_unlock(&w->lock);
}

/* Makes the pictures of `count` frames, from `first` on, and puts them into one image as its frames. */
static gconv_status present_frames(const writing *w, int32_t first, int32_t count, size_t result, gconv_image *pictures) {
  GCONV_TRY(gconv_bank_present(w->r->job, &w->r->maps, first, result, w->threads, pictures));
  if (count == 1)
    return GCONV_OK;
  gconv_image one = *pictures;
  pictures->frames = count;
  pictures->data = NULL;
  gconv_status status = gconv_image_allocate(pictures);
  for (int32_t i = 0; i < count && status == GCONV_OK; i++) {
    if (i > 0) {
      gconv_image_free(&one);
      status = gconv_bank_present(w->r->job, &w->r->maps, first + i, result, w->threads, &one);
    }
    if (status == GCONV_OK)
      gconv_bank_copy_frame(&one, pictures, i);
  }
  gconv_image_free(&one);
  return status;
}

static gconv_status write_picture(const writing *w, const char *path, int32_t first, int32_t count, size_t result) {
  const gconv_batch *common = &w->r->job->common;
  gconv_write_options options = {.format = common->outputs->format,
                                 .keep_existing = common->existing != GCONV_EXISTING_REPLACE,
                                 .jpeg_quality = common->jpeg_quality,
                                 .png_level = common->png_level,
                                 .threads = w->threads};
  gconv_image picture = {0};
  gconv_status status = present_frames(w, first, count, result, &picture);
  if (status == GCONV_OK)
    status = gconv_image_write(path, &options, &picture);
  gconv_image_free(&picture);
  return status;
}

/* Writes the maps of all frames of an image as one array. */
static gconv_status write_frames(const writing *w, size_t image, const char *path) {
  int32_t first = w->l->first_frames[image], count = w->l->first_frames[image + 1] - first;
  gconv_row_writer *writer = NULL;
  gconv_status status = gconv_bank_array_open(w->r, path, &w->r->maps, count, &writer);
  if (status != GCONV_OK)
    return status;
  status = gconv_bank_array_add_frames(w->r, writer, 0, &w->r->maps, first, count);
  if (status == GCONV_OK)
    return gconv_row_writer_commit(writer);
  gconv_row_writer_discard(writer);
  return status;
}

static void write_result(void *context, size_t turn) {
  writing *w = context;
  const gconv_batch *common = &w->r->job->common;
  size_t image = 0;
  while (turn >= w->first[image + 1])
    image++;
  size_t n = turn - w->first[image];
  int32_t first = w->l->first_frames[image], frames = w->l->first_frames[image + 1] - first;
  size_t files = w->reports[image].output_count / gconv_bank_results(w->r->job); /* of each result: one a frame, or one */
  const char *path = w->reports[image].outputs[n];
  gconv_message why;
  gconv_status status = GCONV_OK;
  double begin = gconv_batch_clock_ms();
  if (gconv_bank_is_done(w->r, w->l->inputs[image], n)) {
    pthread_mutex_lock(&w->lock);
    w->reports[image].passed++;
    pthread_mutex_unlock(&w->lock);
    return;
  }
  if (common->existing != GCONV_EXISTING_REPLACE && gconv_output_exists(path))
    status = gconv_complain(&why, GCONV_EXISTS, "exists and is kept (--no-clobber)");
  else if (common->outputs->make_folders)
    status = gconv_outputs_make_folders(path, &why);
  if (status == GCONV_OK) {
    bool whole = w->r->job->presentation == GCONV_PRESENT_TENSOR;
    status = gconv_bank_keep_text(
        &why, whole ? write_frames(w, image, path)
                    : write_picture(w, path, first + (int32_t)(n % files), files == 1 ? frames : 1, n / files));
  }
  count_result(w, image, path, status, why.text);
  pthread_mutex_lock(&w->lock);
  w->reports[image].encode_ms += gconv_batch_clock_ms() - begin;
  pthread_mutex_unlock(&w->lock);
}

static gconv_status append_tensor(gconv_bank_run *r, const gconv_bank_loaded *l, gconv_report *reports) {
  double begin = gconv_batch_clock_ms();
  gconv_status status = gconv_bank_tensor_open(r, &r->maps);
  if (status == GCONV_OK)
    status = gconv_bank_array_add_frames(r, r->writer, r->frame, &r->maps, 0, r->maps.frames);
  r->frame += r->maps.frames;
  for (size_t i = 0; i < l->count; i++)
    reports[i].encode_ms = (gconv_batch_clock_ms() - begin) / (double)l->count;
  return status;
}

gconv_status gconv_bank_write_batch(gconv_bank_run *r, const gconv_bank_loaded *l, gconv_report *reports,
                                    gconv_texts *errors) {
  if (r->job->one_tensor)
    return append_tensor(r, l, reports);
  size_t *first = calloc(l->count + 1, sizeof *first);
  if (!first)
    return gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  for (size_t i = 0; i < l->count; i++)
    first[i + 1] = first[i] + reports[i].output_count;
  int share = first[l->count] < (size_t)r->threads ? r->threads / (int)first[l->count] : 1;
  writing w = {r, l, reports, errors, first, share, PTHREAD_MUTEX_INITIALIZER};
  gconv_loop_run(r->threads, first[l->count], write_result, &w);
  free(first);
  return GCONV_OK;
}

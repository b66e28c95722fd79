/* SPDX-License-Identifier: MIT */
/* Decoding the images of a bank job, a batch ahead of the one at work. */
#include "batch/bank_run.h"
#include "batch/clock.h"
#include "batch/loop.h"

#include <stdlib.h>
#include <string.h>

gconv_status gconv_bank_image_read(const gconv_bank_batch *job, const char *path, gconv_image *image) {
  gconv_read_options options = {.max_pixels = job->common.max_pixels, .threads = 1};
  gconv_status status = gconv_image_read(path, &options, image);
  if (status == GCONV_OK && job->nhwc && image->planar)
    status = gconv_to_nchw(image);
  if (status == GCONV_OK && job->gray)
    status = gconv_image_to_gray(image);
  if (status != GCONV_OK)
    gconv_image_free(image);
  return status;
}

typedef struct decoding {
  const gconv_bank_run *r;
  const gconv_bank_group *batch;
  gconv_image *images;
  double *ms;
  char **errors;
} decoding;

static void decode(void *context, size_t turn) {
  const decoding *d = context;
  const char *path = d->r->job->common.inputs->items[d->r->order[d->batch->first + turn]].path;
  double begin = gconv_batch_clock_ms();
  if (gconv_bank_image_read(d->r->job, path, &d->images[turn]) != GCONV_OK)
    d->errors[turn] = strdup(gconv_last_error());
  d->ms[turn] = gconv_batch_clock_ms() - begin;
}

void gconv_bank_copy_frame(const gconv_image *from, gconv_image *to, int32_t frame) {
  size_t planes = to->planar ? (size_t)to->channels : 1;
  for (size_t i = 0; i < planes * (size_t)from->frames; i++)
    memcpy((uint8_t *)to->data + ((size_t)frame * planes + i) * to->plane_bytes,
           (const uint8_t *)from->data + i * from->plane_bytes, to->plane_bytes);
}

/* Copies images into one, one behind the other, and frees each as soon as it is copied. */
static void copy_all(gconv_bank_loaded *l, gconv_image *images) {
  for (size_t i = 0, at = 0; i < l->batch->count; i++) {
    if (!images[i].data)
      continue;
    gconv_bank_copy_frame(&images[i], &l->image, l->first_frames[at++]);
    gconv_image_free(&images[i]);
  }
}

/* Makes one image of those that could be read, and are of the shape of the first. */
static gconv_status join(gconv_bank_loaded *l, const decoding *d) {
  const gconv_image *first = NULL;
  int32_t frames = 0;
  for (size_t i = 0; i < l->batch->count; i++) {
    size_t input = d->r->order[l->batch->first + i];
    const gconv_image *header = &d->r->headers[input], *like = first ? first : header->frames > 0 ? header : NULL;
    bool fits = d->images[i].data && (!like || gconv_image_same_shape(like, &d->images[i]));
    if (!fits) {
      l->failed[l->errors.count] = input;
      const char *text = d->errors[i] ? d->errors[i] : "it changed while it was waiting for its turn";
      if (!gconv_texts_add(&l->errors, strdup(text)))
        return gconv_set_error(GCONV_NO_MEMORY, "out of memory");
      gconv_image_free(&d->images[i]);
      continue;
    }
    first = first ? first : &d->images[i];
    l->inputs[l->count] = input;
    l->decode_ms[l->count] = d->ms[i];
    l->first_frames[l->count++] = frames;
    frames += d->images[i].frames;
  }
  l->first_frames[l->count] = frames;
  if (!first)
    return GCONV_OK;
  l->image = *first;
  if (l->count == 1) { /* as it is */
    ((gconv_image *)first)->data = ((gconv_image *)first)->icc = NULL;
    return GCONV_OK;
  }
  l->image.frames = frames;
  l->image.data = l->image.icc = NULL;
  gconv_status status = gconv_image_allocate(&l->image);
  if (status == GCONV_OK)
    copy_all(l, d->images);
  return status;
}

static gconv_status load(const gconv_bank_run *r, const gconv_bank_group *batch, gconv_bank_loaded *l) {
  decoding d = {r, batch, calloc(batch->count, sizeof *d.images), calloc(batch->count, sizeof *d.ms),
                calloc(batch->count, sizeof *d.errors)};
  *l = (gconv_bank_loaded){.batch = batch};
  l->inputs = calloc(batch->count, sizeof *l->inputs);
  l->failed = calloc(batch->count, sizeof *l->failed);
  l->decode_ms = calloc(batch->count, sizeof *l->decode_ms);
  l->first_frames = calloc(batch->count + 1, sizeof *l->first_frames);
  gconv_status status = GCONV_OK;
  if (d.images && d.ms && d.errors && l->inputs && l->failed && l->decode_ms && l->first_frames) {
    if (batch->rows == 0 && !batch->refused) {
      gconv_loop_run(r->threads, batch->count, decode, &d);
      status = join(l, &d);
    }
  } else {
    status = gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  }
  for (size_t i = 0; i < batch->count; i++) {
    if (d.images)
      gconv_image_free(&d.images[i]);
    if (d.errors)
      free(d.errors[i]);
  }
  free(d.images);
  free(d.ms);
  free(d.errors);
  return status;
}

void gconv_bank_unload(gconv_bank_loaded *l) {
  gconv_image_free(&l->image);
  gconv_texts_free(&l->errors);
  free(l->inputs);
  free(l->failed);
  free(l->decode_ms);
  free(l->first_frames);
  *l = (gconv_bank_loaded){0};
}

static void *load_in_thread(void *argument) {
  gconv_bank_loader *l = argument;
  l->status = gconv_bank_keep_text(&l->why, load(l->r, l->batch, &l->result));
  return NULL;
}

/* Whether there is memory to decode this batch while the one before is at work. */
static bool has_room(const gconv_bank_run *r, size_t batch) {
  return batch == 0 || r->batches[batch - 1].bytes + r->batches[batch].loading <= (double)r->memory;
}

void gconv_bank_begin_loading(const gconv_bank_run *r, size_t batch, gconv_bank_loader *l) {
  *l = (gconv_bank_loader){.r = r, .batch = batch < r->batch_count ? &r->batches[batch] : NULL};
  if (l->batch && has_room(r, batch))
    l->started = pthread_create(&l->thread, NULL, load_in_thread, l) == 0;
}

gconv_status gconv_bank_end_loading(gconv_bank_loader *l, gconv_bank_loaded *result, gconv_message *why) {
  if (l->started)
    pthread_join(l->thread, NULL);
  else
    load_in_thread(l);
  *result = l->result;
  *why = l->why;
  return l->status;
}

/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "batch/files.h"
#include "batch/item.h"
#include "image/layout.h"

#include <stdlib.h>
#include <string.h>

typedef struct loading {
  gconv_group *group;
  gconv_row_reader *reader; /* the open reader of the only item; NULL: each item is opened here */
  gconv_image *images;      /* [group->count] */
  char **errors;            /* [group->count]; owned, NULL: it was read */
} loading;

static gconv_status read_whole(const loading *l, const char *path, gconv_image *image) {
  const gconv_batch *batch = l->group->worker->run->batch;
  gconv_row_reader *reader = l->reader;
  if (!reader)
    GCONV_TRY(gconv_row_reader_open(path, &l->group->worker->run->reading, &reader));
  if (l->group->count == 1) /* uses the memory of the last pixels again */
    *image = gconv_holding_take_input(&l->group->worker->memory, gconv_row_reader_header(reader));
  gconv_status status = gconv_row_reader_image(reader, image);
  if (!l->reader)
    gconv_row_reader_close(reader);
  return status == GCONV_OK && batch->nhwc && image->planar ? gconv_to_nchw(image) : status;
}

static void decode(void *context, size_t turn, int seat) {
  const loading *l = context;
  gconv_item *item = &l->group->items[turn];
  double begin = gconv_now_ms();
  if (read_whole(l, item->input->path, &l->images[turn]) != GCONV_OK) {
    l->errors[turn] = strdup(gconv_last_error());
    gconv_image_free(&l->images[turn]);
  }
  item->outcome.report.decode_ms += gconv_now_ms() - begin;
}

/* Takes items out of the group that could not be read, or do not have the shape of the group, and reports them. */
static void drop_unread(loading *l) {
  gconv_group *group = l->group;
  size_t kept = 0;
  const gconv_image *like = group->range->header.frames > 0 ? &group->range->header : NULL;
  for (size_t i = 0; i < group->count; i++) {
    gconv_item *item = &group->items[i];
    bool read = l->images[i].data != NULL;
    bool fits = read && (!like || gconv_image_same_shape(like, &l->images[i]));
    if (!fits) {
      gconv_item_fail(item, read ? "the file changed while it was waiting for its turn"
                                 : (l->errors[i] ? l->errors[i] : "out of memory"));
      gconv_image_free(&l->images[i]);
      gconv_item_hand_in(l->group->worker->run, item);
      continue;
    }
    if (kept < i) {
      group->items[kept] = *item;
      l->images[kept] = l->images[i];
      l->images[i] = (gconv_image){0};
    }
    kept++;
  }
  group->count = kept;
}

static void copy_frames(const gconv_image *from, gconv_image *to, int32_t frame) {
  size_t planes = to->planar ? (size_t)to->channels : 1;
  for (size_t i = 0; i < planes * (size_t)from->frames; i++)
    memcpy((uint8_t *)to->data + ((size_t)frame * planes + i) * to->plane_bytes,
           (const uint8_t *)from->data + i * from->plane_bytes, to->plane_bytes);
}

/* Copies all images into one, and frees each as soon as it is copied. A single image is taken as it is. */
static gconv_status join(loading *l) {
  gconv_group *group = l->group;
  int32_t frames = 0;
  for (size_t i = 0; i < group->count; i++) {
    gconv_item *item = &group->items[i];
    item->first_frame = frames;
    item->frames = l->images[i].frames;
    frames += item->frames;
  }
  if (group->count == 1) {
    group->image = l->images[0];
    l->images[0] = (gconv_image){0};
    return GCONV_OK;
  }
  gconv_image header = gconv_header_of(&l->images[0]);
  header.frames = frames;
  group->image = gconv_holding_take_input(&l->group->worker->memory, &header);
  if (!group->image.data) {
    group->image = header;
    GCONV_TRY(gconv_image_allocate(&group->image));
  }
  for (size_t i = 0; i < group->count; i++) {
    copy_frames(&l->images[i], &group->image, group->items[i].first_frame);
    gconv_image_free(&l->images[i]);
  }
  return GCONV_OK;
}

gconv_status gconv_group_load(gconv_group *group, gconv_row_reader *reader) {
  size_t count = group->count;
  loading l = {.group = group,
               .reader = reader,
               .images = calloc(count, sizeof *l.images),
               .errors = calloc(count, sizeof *l.errors)};
  gconv_status status = l.images && l.errors ? GCONV_OK : gconv_no_memory();
  if (status == GCONV_OK) {
    gconv_threads_run(gconv_device_threads(group->worker->cpu), count, decode, &l);
    if (!group->frame)
      drop_unread(&l);
    else if (!l.images[0].data) /* a frame's failure is reported with the other frames */
      status = gconv_set_error(GCONV_BAD_FILE, l.errors[0] ? l.errors[0] : "out of memory");
    if (group->count > 0 && status == GCONV_OK)
      status = join(&l);
  }
  for (size_t i = 0; i < count; i++) {
    if (l.images)
      gconv_image_free(&l.images[i]);
    if (l.errors)
      free(l.errors[i]);
  }
  free(l.images);
  free(l.errors);
  return status;
}

/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "base/memory.h"
#include "batch/files.h"
#include "batch/item.h"
#include "image/layout.h"
#include "image/metadata.h"

/* Returns the options for a result of `format`, from an image of type `from`. If results have the format of their inputs,
 * they get the quality of `result`, which is the input's quality. */
static gconv_write_options make_options(const gconv_run *run, const gconv_format_info *format, gconv_type from,
                                        const gconv_image *result, int threads) {
  static const double white[] = {UINT8_MAX, UINT16_MAX, 1}; /* by gconv_type */
  const gconv_batch *batch = run->batch;
  bool own_quality = batch->outputs->same && batch->quality == 0;
  return (gconv_write_options){
      .format = format,
      .keep_existing = batch->existing == GCONV_EXISTING_KEEP || batch->existing == GCONV_EXISTING_SKIP,
      .quality = own_quality ? result->jpeg_quality : batch->quality,
      .lossless = batch->lossless || (own_quality && result->lossless),
      .png_level = batch->png_level,
      .store = batch->store,
      .unit = run->operation->type->batches ? 1 : white[from],
      .tiff_compression = batch->tiff_compression,
      .threads = threads,
      .strip = batch->strip,
      .palette = batch->palette,
  };
}

/* Makes the folder of result n, if folders are to be made. If that fails, counts the result as failed, and returns false. */
static bool make_folder(const gconv_run *run, gconv_group *group, gconv_item *item, size_t n) {
  gconv_status status = gconv_outputs_prepare(run->batch->outputs, item->paths[n]);
  if (status != GCONV_OK)
    gconv_item_count(group, item, n, status);
  return status == GCONV_OK;
}

/* ---- By rows --------------------------------------------------------------------------------------------------------- */

/* Begins the file of result n. Returns NULL if the result is not wanted, or failed and was counted. */
static gconv_row_writer *open_file(gconv_group *group, size_t n, const gconv_image *from,
                                   const gconv_write_options *options) {
  gconv_run *run = group->worker->run;
  gconv_item *item = &group->items[0];
  gconv_image header = *gconv_plan_output_header(group->plan, n);
  gconv_row_writer *writer = NULL;
  if (!item->wanted[n] || !make_folder(run, group, item, n))
    return NULL;
  gconv_metadata_lend(&header, from);
  if (run->operation->type->batches && !run->operation->type->of_photos) { /* maps of a network are no photos */
    header.exif = header.tags = NULL;
    header.tags_bytes = 0;
    header.xmp = header.comment = NULL;
    header.exif_bytes = header.xmp_bytes = 0;
  }
  if (run->batch->nhwc)
    gconv_header_to_nhwc(&header);
  gconv_status status = GCONV_OK;
  gconv_frame *frame = group->frame;
  bool shared = gconv_frame_is_shared(frame), begins = !shared || frame->number == 1;
  if (shared)
    status = gconv_frame_take_writer(frame, item->format, n, &header, &writer);
  if (begins && status == GCONV_OK)
    status = gconv_row_writer_open_growing(item->paths[n], options, &header, frame && frame->counted, &writer);
  if (writer && run->batch->existing == GCONV_EXISTING_BACK_UP)
    gconv_row_writer_back_up(writer);
  if (status != GCONV_OK && !begins) {
    gconv_row_writer_discard(writer);
    writer = NULL;
  }
  if (status != GCONV_OK)
    gconv_item_count(group, item, n, status);
  return writer;
}

int32_t gconv_group_open_files(gconv_group *group, size_t first, size_t end, const gconv_image *from, int threads,
                               gconv_threads *shared, gconv_row_writer **writers) {
  gconv_write_options options = make_options(group->worker->run, group->items[0].format, from->type, from, threads);
  int32_t step = 1;
  options.shared = shared;
  for (size_t n = first; n < end && !group->worker->run->batch->one_array; n++) {
    writers[n] = open_file(group, n, from, &options);
    int32_t own = writers[n] ? gconv_row_writer_step(writers[n]) : 1;
    step = own > step ? own : step;
  }
  return step;
}

/* Returns whether an item, or its current frame, is the first of one array, which counts once. */
static bool begins_array(const gconv_group *group, const gconv_item *item) {
  return item->place == 0 && (!group->frame || group->frame->number == 1);
}

/* Ends result n, and counts it: commits it, or discards it if `status` is a failure. A shared file stays open. (A result
 * that has no writer was counted before.) */
static void close_file(gconv_group *group, size_t n, gconv_row_writer *writer, gconv_status status) {
  gconv_item *item = &group->items[0];
  if (writer && status == GCONV_OK && gconv_frame_is_shared(group->frame)) {
    group->frame->writers[n] = writer;
  } else if (group->worker->run->batch->one_array && status == GCONV_OK) {
    item->outcome.report.written += item->wanted[n] && begins_array(group, item);
  } else if (writer && status == GCONV_OK) {
    gconv_item_count(group, item, n, gconv_row_writer_commit(writer));
  } else {
    gconv_row_writer_discard(writer);
    item->outcome.report.failed += writer || (group->worker->run->batch->one_array && item->wanted[n]);
  }
}

void gconv_group_drop_file(gconv_group *group, size_t n, gconv_row_writer **writer, gconv_status status) {
  gconv_item_count(group, &group->items[0], n, status);
  gconv_row_writer_discard(*writer);
  *writer = NULL;
}

/* Gives the first image of a pipe its final names. */
static gconv_status settle_names(gconv_group *group, gconv_row_writer **writers) {
  gconv_item *item = &group->items[0];
  gconv_status status = gconv_frame_settle_names(group->frame, writers);
  if (status != GCONV_OK)
    gconv_item_add_error(item, item->input->path, gconv_last_error());
  for (size_t n = 0; n < item->count && status == GCONV_OK; n++) {
    status = gconv_outputs_prepare(group->worker->run->batch->outputs, item->paths[n]);
    if (status != GCONV_OK)
      gconv_item_add_error(item, item->paths[n], gconv_last_error());
  }
  return status;
}

void gconv_group_close_files(gconv_group *group, size_t first, size_t end, gconv_row_writer **writers, gconv_status status) {
  double begin = gconv_now_ms();
  if (status == GCONV_OK && group->frame)
    status = settle_names(group, writers);
  for (size_t n = first; n < end; n++) {
    close_file(group, n, writers[n], status);
    writers[n] = NULL;
  }
  group->common.encode_ms += gconv_now_ms() - begin;
}

/* Writes `count` rows that lie one after the other. */
static gconv_status write_rows(gconv_row_writer *writer, const gconv_image *rows, size_t count) {
  gconv_status status = GCONV_OK;
  for (size_t at = 0, step; at < count && status == GCONV_OK; at += step) {
    step = count - at < (1 << 20) ? count - at : 1 << 20;
    status = gconv_row_writer_write(writer, (uint8_t *)rows->data + at * rows->row_bytes, rows->row_bytes, (int32_t)step);
  }
  return status;
}

/* Adds rows, with their channels as the last axis. */
static gconv_status add_transposed(gconv_row_writer *writer, const gconv_image *rows) {
  GCONV_ENDED_BY(gconv_image_free) gconv_image transposed = {0};
  GCONV_TRY(gconv_to_nhwc(rows, &transposed));
  return write_rows(writer, &transposed, (size_t)transposed.channels * (size_t)transposed.height);
}

/* Adds rows of all planes of a frame, from row `first` on. */
static gconv_status add_rows(gconv_row_writer *writer, bool nhwc, int32_t frame, const gconv_image *rows, int32_t first) {
  if (!rows->planar)
    return gconv_row_writer_write(writer, rows->data, rows->row_bytes, rows->height);
  if (nhwc)
    return add_transposed(writer, rows);
  for (int32_t c = 0; c < rows->channels; c++) {
    gconv_image plane = *rows;
    plane.data = (uint8_t *)rows->data + (size_t)c * rows->plane_bytes;
    int64_t number = (int64_t)frame * rows->channels + c;
    GCONV_TRY(gconv_row_writer_is_free(writer)
                  ? gconv_row_writer_write_at(writer, number, first, plane.data, plane.row_bytes, plane.height)
                  : write_rows(writer, &plane, (size_t)plane.height));
  }
  return GCONV_OK;
}

/* ---- One array of all results ---------------------------------------------------------------------------------------- */

static gconv_status open_array(gconv_run *run, const gconv_image *like) {
  const gconv_batch *batch = run->batch;
  const gconv_group_range *last = &run->ranges[run->range_count - 1];
  gconv_write_options options = make_options(run, batch->outputs->format, last->header.type, like, 0);
  gconv_image header = gconv_header_of(like);
  header.frames = last->frame + last->header.frames * (int32_t)last->count;
  if (batch->nhwc)
    gconv_header_to_nhwc(&header);
  run->array_like = gconv_header_of(like);
  GCONV_TRY(gconv_row_writer_open(batch->outputs->paths.items[0], &options, &header, &run->array));
  if (batch->existing == GCONV_EXISTING_BACK_UP)
    gconv_row_writer_back_up(run->array);
  return GCONV_OK;
}

/* Fails unless a result has the shape of the first one. (The pages of a TIFF may differ.) */
static gconv_status check_alike(const gconv_run *run, const gconv_image *like) {
  gconv_image other = *like;
  other.frames = run->array_like.frames;
  if (gconv_image_same_shape(&run->array_like, &other))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "its images differ in size, channels or type, and one array holds images that are alike: name a folder "
                    "(-o results/ --format npy)");
}

/* Adds rows of a frame to the one array. Thread-safe. `like`: the header of a result. */
static gconv_status add_to_frame(gconv_run *run, const gconv_image *like, int32_t frame, const gconv_image *rows,
                                 int32_t first) {
  gconv_status status = GCONV_OK;
  pthread_mutex_lock(&run->array_lock);
  if (!run->array)
    status = open_array(run, like);
  GCONV_THEN(status, check_alike(run, like));
  GCONV_THEN(status, add_rows(run->array, run->batch->nhwc, frame, rows, first));
  pthread_mutex_unlock(&run->array_lock);
  return status;
}

gconv_status gconv_group_add_rows(const gconv_group *group, size_t n, gconv_row_writer *writer, const gconv_image *rows,
                                  int32_t first) {
  gconv_run *run = group->worker->run;
  if (run->batch->one_array)
    return add_to_frame(run, gconv_plan_output_header(group->plan, n), group->range->frame, rows, first);
  int32_t frame = gconv_frame_is_shared(group->frame) ? (int32_t)group->frame->number - 1 : 0;
  return add_rows(writer, run->batch->nhwc, frame, rows, first);
}

gconv_status gconv_array_close(gconv_run *run, bool good) {
  if (run->array && good)
    return gconv_row_writer_commit(run->array);
  if (run->array)
    gconv_row_writer_discard(run->array);
  return GCONV_OK;
}

static gconv_status add_to_array(gconv_group *group) {
  gconv_worker *worker = group->worker;
  double begin = gconv_now_ms();
  gconv_status status = GCONV_OK;
  for (int32_t i = 0; i < group->image.frames && status == GCONV_OK; i++) {
    gconv_image rows = gconv_frames_of(&worker->memory.results[0], i, 1);
    status = add_to_frame(worker->run, &worker->memory.results[0], group->range->frame + i, &rows, 0);
  }
  group->common.encode_ms = gconv_now_ms() - begin;
  for (size_t i = 0; i < group->count && status == GCONV_OK; i++)
    group->items[i].outcome.report.written = begins_array(group, &group->items[i]);
  return status;
}

/* ---- Whole ----------------------------------------------------------------------------------------------------------- */

/* The work of writing a group's results: each result is a turn. */
typedef struct writing {
  gconv_group *group;
  size_t *first; /* [count + 1]: the first turn of each item; owned */
  int threads;   /* threads of each result */
} writing;

static gconv_status write_whole(const gconv_run *run, const char *path, const gconv_write_options *options,
                                const gconv_image *image) {
  bool backs_up = run->batch->existing == GCONV_EXISTING_BACK_UP;
  return backs_up ? gconv_image_replace(path, options, image) : gconv_image_write(path, options, image);
}

/* Writes planes as an image whose last axis is the channels: as pixels of a picture, or as an NHWC array. */
static gconv_status write_transposed(const gconv_run *run, const char *path, const gconv_write_options *options,
                                     const gconv_image *image, bool picture) {
  GCONV_ENDED_BY(gconv_image_free) gconv_image transposed = {0};
  gconv_image whole = *image;
  GCONV_TRY(gconv_to_nhwc(image, &transposed));
  whole.planar = false;
  whole.data = transposed.data;
  whole.row_bytes = (size_t)image->width * (size_t)image->channels * gconv_type_bytes(image->type);
  whole.plane_bytes = whole.row_bytes * (size_t)image->height;
  return write_whole(run, path, options, picture ? &whole : &transposed);
}

/* Writes frame `frame` of a result, or all of its frames if the format holds several. Formats of pictures have interleaved
 * pixels of up to 4 channels. */
static gconv_status write_piece(const writing *w, const gconv_item *item, const char *path, const gconv_image *result,
                                int32_t frame) {
  const gconv_run *run = w->group->worker->run;
  gconv_write_options options = make_options(run, item->format, w->group->image.type, result, w->threads);
  bool picture = !item->format->tensors, single = gconv_outputs_are_apart(run->batch->outputs, item->format);
  gconv_image piece = gconv_frames_of(result, item->first_frame + (single ? frame : 0), single ? 1 : item->frames);
  if (picture && piece.channels == 1)
    piece.planar = false; /* the same bytes either way */
  bool transposes = piece.planar && (picture ? piece.channels <= 4 : run->batch->nhwc);
  return transposes ? write_transposed(run, path, &options, &piece, picture) : write_whole(run, path, &options, &piece);
}

static void write_result(void *context, size_t turn, int seat) {
  const writing *w = context;
  const gconv_run *run = w->group->worker->run;
  size_t i = 0;
  while (turn >= w->first[i + 1])
    i++;
  gconv_item *item = &w->group->items[i];
  size_t n = turn - w->first[i], pieces = item->count / w->group->worker->memory.result_count;
  if (!item->wanted[n] || !make_folder(run, w->group, item, n))
    return;
  gconv_status status =
      write_piece(w, item, item->paths[n], &w->group->worker->memory.results[n / pieces], (int32_t)(n % pieces));
  gconv_item_count(w->group, item, n, status);
}

/* Writes a frame whose results share their files with other frames. */
static gconv_status write_shared(gconv_group *group) {
  gconv_worker *worker = group->worker;
  gconv_item *item = &group->items[0];
  GCONV_FREED gconv_row_writer **writers = calloc(item->count, sizeof *writers);
  GCONV_NEED_MEMORY(writers, "out of memory");
  gconv_group_open_files(group, 0, item->count, &group->image, worker->threads, gconv_device_threads(worker->cpu), writers);
  for (size_t n = 0; n < item->count; n++) {
    gconv_status status = writers[n] ? gconv_group_add_rows(group, n, writers[n], &worker->memory.results[n], 0) : GCONV_OK;
    if (status != GCONV_OK)
      gconv_group_drop_file(group, n, &writers[n], status);
  }
  gconv_group_close_files(group, 0, item->count, writers, GCONV_OK);
  return GCONV_OK;
}

/* Checks that an item has a result for each name. */
static gconv_status check_frames(const gconv_worker *worker, const gconv_item *item) {
  bool apart = gconv_outputs_are_apart(worker->run->batch->outputs, item->format);
  size_t pieces = apart ? (size_t)item->frames : 1;
  if (worker->memory.result_count * pieces == item->count)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%d frames, where %zu could be told beforehand: read a file instead of a pipe, or write .npy or .tif",
                    item->frames, item->count / worker->memory.result_count);
}

gconv_status gconv_group_write(gconv_group *group) {
  gconv_worker *worker = group->worker;
  if (worker->run->batch->one_array)
    return add_to_array(group);
  if (gconv_frame_is_shared(group->frame))
    return write_shared(group);
  if (group->frame)
    GCONV_TRY(gconv_frame_settle_names(group->frame, NULL));
  for (size_t i = 0; i < group->count; i++)
    GCONV_TRY(check_frames(worker, &group->items[i]));
  GCONV_FREED size_t *first = calloc(group->count + 1, sizeof *first);
  GCONV_NEED_MEMORY(first, "out of memory");
  for (size_t i = 0; i < group->count; i++)
    first[i + 1] = first[i] + group->items[i].count;
  writing w = {group, first, 1};
  size_t turns = first[group->count];
  w.threads = turns < (size_t)worker->threads ? worker->threads / (int)turns : 1;
  double begin = gconv_now_ms();
  gconv_threads_run(gconv_device_threads(worker->cpu), turns, write_result, &w);
  group->common.encode_ms = gconv_now_ms() - begin;
  return GCONV_OK;
}

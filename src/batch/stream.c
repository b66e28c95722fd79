/* SPDX-License-Identifier: MIT */
/*
 * An image that goes by rows, from file to file. Memory does not grow with its height. While a strip is filtered, later rows
 * are read, and earlier strips are written.
 *
 * There are three stages: reading, filtering and writing. Each has a thread that mostly waits. The work itself is done on
 * the threads of the plan, which all stages share. So all processors are busy, and no more threads work than the plan has.
 *
 * The input goes through a ring of windows. A window has the input rows of a strip; rows that the next strip needs too are
 * copied. An input that is in memory as a whole needs no copies. Each output is a ring of strips that lie one after the
 * other in memory, so that a slow writer gets many strips at once.
 *
 * A plan may have several passes, and each reads the input again. A survey is a pass that finds the range of a picture. A
 * mosaic takes a pass for each row of tiles. If more results are wanted than files may be open, the passes are repeated for
 * the other results. (To keep results in a temporary file takes longer than to read and convolve again.)
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/threads.h"
#include "batch/carry.h"
#include "batch/cost.h"
#include "batch/files.h"
#include "batch/item.h"
#include "image/layout.h"

#include <string.h>

enum { MOST_STRIPS = 1 << 24 }; /* an image of 50 TB: a header with more must be wrong */

typedef struct span {
  int32_t begin, end;
} span;

typedef enum stage { READ, FILTERED, WRITTEN, STAGES } stage;

typedef struct flow {
  gconv_group *group;
  gconv_item *item; /* the only item. A result is wanted until it is made, or has failed */
  gconv_plan *plan;
  gconv_row_reader *reader;   /* at its first row; NULL: the image is in memory */
  gconv_row_reader *again;    /* the reader of later passes; owned */
  bool was_read;              /* a pass has read the input */
  bool looks;                 /* this first pass looks for properties that results cannot show */
  const gconv_image *from;    /* the image whose metadata go into the results */
  gconv_threads *threads;     /* threads of the plan; stages overlap if there are two or more */
  gconv_row_writer **writers; /* [count]; NULL: the pass of this result has not begun, or has ended, or the result failed */
  size_t first, end;          /* results that are written in this pass */
  gconv_plan_pass pass;

  int32_t step;                            /* rows that a writer wants at a time, at most */
  int32_t strip, strips;                   /* output rows of a strip; number of strips */
  int32_t room;                            /* rows that a window can hold */
  span *spans;                             /* [strips]: the input rows of each strip; beginnings and ends never go back */
  gconv_image windows[GCONV_MOST_WINDOWS]; /* the rows of spans[i] are in window i % window_count */
  int32_t window_count;
  gconv_image *outputs; /* [count], each of `slots` strips: strip i is in slot i % slots */
  gconv_image *parts;   /* [count]: the current strip of each output */
  void *memory;         /* memory of all windows and outputs */
  size_t count;
  int32_t slots;

  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t changed;
  int32_t done[STAGES]; /* strips that each stage has finished */
  gconv_status status;  /* why the flow ends early */
  gconv_message why;
} flow;

static const char *const out_of_memory = "no memory to carry an image by rows";

/* ---- Strips ---- */

/* Finds the input rows of each strip, and from them the size of a window. With a mirrored border, the last strips may need
 * earlier rows than the strips before them. So spans are widened until neither beginnings nor ends go back. */
static gconv_status plan_spans(const gconv_plan *plan, flow *f) {
  int32_t height = f->pass.end - f->pass.first, least = INT32_MAX, most = 0;
  f->strips = (height - 1) / f->strip + 1;
  f->room = 0;
  GCONV_NEW(f->spans, f->strips, "%s", out_of_memory);
  for (int32_t i = f->strips; i-- > 0;) {
    span *s = &f->spans[i];
    int32_t first = i * f->strip;
    gconv_plan_rows_needed(plan, f->pass.first + first, height - first < f->strip ? height - first : f->strip, &s->begin,
                           &s->end);
    s->begin = least = s->begin < least ? s->begin : least;
  }
  for (int32_t i = 0; i < f->strips; i++) {
    span *s = &f->spans[i];
    s->end = most = s->end > most ? s->end : most;
    f->room = s->end - s->begin > f->room ? s->end - s->begin : f->room;
  }
  return GCONV_OK;
}

/* ---- Buffers ---- */

/* Gives an image of `rows` rows its place in f->memory, after *used bytes, and adds its bytes to *used. Without f->memory,
 * only counts. */
static gconv_status place_rows(const flow *f, const gconv_image *like, int32_t rows, size_t *used, gconv_image *image) {
  *image = gconv_header_of(like);
  image->frames = 1;
  image->height = rows;
  image->has_nodata = false;
  image->row_bytes = gconv_image_row_bytes(image);
  image->plane_bytes = image->row_bytes * (size_t)rows;
  image->data = f->memory ? (uint8_t *)f->memory + *used : NULL;
  const size_t factors[] = {image->row_bytes, (size_t)rows, image->planar ? (size_t)image->channels : 1};
  size_t bytes = gconv_checked_product(3, factors);
  GCONV_NEED_MEMORY(bytes <= PTRDIFF_MAX - *used - GCONV_ALIGNMENT, "%s", out_of_memory);
  *used += (bytes + GCONV_ALIGNMENT - 1) / GCONV_ALIGNMENT * GCONV_ALIGNMENT;
  return GCONV_OK;
}

/* Returns whether output k gets pixels in this pass. */
static bool needs_pixels(const flow *f, size_t k) {
  bool wanted = !f->plan->type->leaves_out || (k >= f->first && k < f->end && f->item->wanted[k]);
  return wanted && !f->pass.surveys;
}

/* Places all windows and outputs in the memory, and counts its bytes. */
static gconv_status place_all(flow *f, size_t *used) {
  int64_t rows = (int64_t)f->slots * f->strip;
  *used = 0;
  for (int32_t i = 0; f->reader && i < f->window_count && i <= f->strips; i++) /* one more window, to skip the last rows */
    GCONV_TRY(place_rows(f, &f->group->image, f->room, used, &f->windows[i]));
  for (size_t k = 0; k < f->count; k++) {
    const gconv_image *header = gconv_plan_output_header(f->plan, k);
    if (needs_pixels(f, k))
      GCONV_TRY(place_rows(f, header, (int32_t)(rows < header->height ? rows : header->height), used, &f->outputs[k]));
  }
  return GCONV_OK;
}

/* Allocates all buffers of a pass, as one block, so that the system makes and clears few pages. */
static gconv_status make_buffers(flow *f) {
  size_t bytes;
  f->strip = gconv_strip_rows(f->plan, f->step);
  GCONV_TRY(plan_spans(f->plan, f));
  gconv_depth d = gconv_strip_depth(gconv_threads_count(f->threads), f->step, f->strip,
                                    (uint64_t)f->strip * gconv_strip_output_bytes(f->plan));
  f->window_count = d.windows;
  f->slots = d.strips < f->strips ? d.strips : f->strips;
  GCONV_TRY(place_all(f, &bytes));
  GCONV_TRY(gconv_allocate_workspace(bytes, "strips of images", &f->memory));
  return place_all(f, &bytes);
}

static void free_buffers(flow *f) {
  gconv_release(f->memory);
  f->memory = NULL;
  memset(f->windows, 0, sizeof f->windows);
  memset(f->outputs, 0, f->count * sizeof *f->outputs);
  free(f->spans);
  f->spans = NULL;
}

/* ---- From stage to stage ---- */

/* Waits until the stage has finished `count` strips. Returns false if the flow has failed. */
static bool wait_for(flow *f, stage s, int32_t count) {
  pthread_mutex_lock(&f->lock);
  while (f->status == GCONV_OK && f->done[s] < count)
    pthread_cond_wait(&f->changed, &f->lock);
  bool go = f->status == GCONV_OK;
  pthread_mutex_unlock(&f->lock);
  return go;
}

static void advance(flow *f, stage s, int32_t count) {
  pthread_mutex_lock(&f->lock);
  f->done[s] += count;
  pthread_cond_broadcast(&f->changed);
  pthread_mutex_unlock(&f->lock);
}

/* Lets the flow fail with the last error of this thread, unless it has failed before. Returns false. */
static bool give_up(flow *f, gconv_status status) {
  pthread_mutex_lock(&f->lock);
  if (f->status == GCONV_OK) {
    f->status = status;
    gconv_complain(&f->why, status, "%s", gconv_last_error());
  }
  pthread_cond_broadcast(&f->changed);
  pthread_mutex_unlock(&f->lock);
  return false;
}

/* ---- Reading ---- */

static void *row_at(const gconv_image *image, int32_t row) {
  return (uint8_t *)image->data + (size_t)row * image->row_bytes;
}

/* Skips rows that no strip needs: reads them into the window. */
static gconv_status skip_rows(flow *f, const gconv_image *window, int32_t count) {
  gconv_status status = GCONV_OK;
  for (int32_t some; count > 0 && status == GCONV_OK; count -= some) {
    some = count < f->room ? count : f->room;
    status = gconv_row_reader_read(f->reader, window->data, window->row_bytes, some);
  }
  return status;
}

static gconv_image *window_of(flow *f, int32_t strip) {
  return &f->windows[strip % f->window_count];
}

/* Fills the window of strip i. Copies rows that the window before has, too. */
static gconv_status fill_window(flow *f, int32_t i) {
  const span *s = &f->spans[i];
  gconv_image *window = window_of(f, i);
  int32_t had = i > 0 ? s[-1].end : 0, kept = had > s->begin ? had - s->begin : 0;
  if (!f->reader) {
    *window = f->group->image;
    window->data = row_at(window, s->begin);
  }
  window->height = s->end - s->begin;
  if (f->reader && kept > 0)
    memcpy(window->data, row_at(window_of(f, i - 1), s->begin - s[-1].begin), (size_t)kept * window->row_bytes);
  else if (f->reader)
    GCONV_TRY(skip_rows(f, window, s->begin - had));
  if (f->reader && kept < window->height)
    GCONV_TRY(gconv_row_reader_read(f->reader, row_at(window, kept), window->row_bytes, window->height - kept));
  if (f->looks)
    gconv_look_at(&f->item->outcome.look, window, kept, f->threads); /* at the new rows */
  return GCONV_OK;
}

/* Reads the input of strip i. If i = f->strips, reads the rest of the file, which shows whether the file is whole. */
static bool read_strip(flow *f, int32_t i) {
  if (!wait_for(f, FILTERED, i - f->window_count + 1)) /* the window is free */
    return false;
  double start = gconv_now_ms();
  gconv_status status = GCONV_OK;
  if (i < f->strips)
    status = fill_window(f, i);
  else if (f->reader)
    status = skip_rows(f, window_of(f, i), f->group->image.height - f->spans[f->strips - 1].end);
  f->group->common.decode_ms += gconv_now_ms() - start;
  if (status != GCONV_OK)
    return give_up(f, status);
  advance(f, READ, 1);
  return true;
}

static void *read_all(void *argument) {
  flow *f = argument;
  for (int32_t i = 0; i <= f->strips && read_strip(f, i); i++) {
  }
  return NULL;
}

/* ---- Filtering ---- */

static int32_t first_row_of(const flow *f, int32_t strip) {
  return strip < f->strips ? f->pass.first + strip * f->strip : f->pass.end;
}

/* Returns the rows of strips i .. i + strips - 1 of an output, in the ring of its strips. */
static gconv_image kept_rows(const flow *f, size_t output, int32_t i, int32_t strips) {
  gconv_image part = f->outputs[output];
  part.data = part.data ? row_at(&part, i % f->slots * f->strip) : NULL;
  part.height = first_row_of(f, i + strips) - first_row_of(f, i);
  return part;
}

/* Reports to the caller how much of the only input is done, after `strips` strips of this pass. */
static void report_advance(const flow *f, int32_t strips) {
  const gconv_run *run = f->group->worker->run;
  if (!run->batch->advance || run->range_count > 1 || (f->end < f->count && !f->pass.surveys))
    return;
  const double share = f->pass.after > 0 ? f->pass.after - f->pass.before : 1; /* 1: the plan has one pass */
  run->batch->advance(f->pass.before + share * strips / f->strips, gconv_now_ms() - run->begin_ms, run->batch->user);
}

static bool filter_strip(flow *f, int32_t i) {
  if (!wait_for(f, READ, i + 1) || !wait_for(f, WRITTEN, i - f->slots + 1))
    return false;
  for (size_t k = 0; k < f->count; k++)
    f->parts[k] = kept_rows(f, k, i, 1);
  gconv_status status =
      gconv_plan_execute_rows(f->plan, &(gconv_input_rows){window_of(f, i), f->spans[i].begin}, first_row_of(f, i),
                              f->pass.surveys ? NULL : f->parts, gconv_plan_outputs(f->plan), &f->group->common.timings);
  if (status != GCONV_OK)
    return give_up(f, status);
  advance(f, FILTERED, 1);
  report_advance(f, i + 1);
  return true;
}

/* ---- Writing ---- */

typedef struct writing {
  flow *flow;
  int32_t strip, count;
} writing;

static void write_output(void *context, size_t turn, int seat) {
  const writing *w = context;
  flow *f = w->flow;
  size_t k = f->first + turn;
  gconv_image rows = kept_rows(f, k, w->strip, w->count);
  if (!f->item->wanted[k])
    return;
  gconv_status status = gconv_group_add_rows(f->group, k, f->writers[k], &rows, first_row_of(f, w->strip));
  if (status == GCONV_OK)
    return;
  gconv_group_drop_file(f->group, k, &f->writers[k], status);
  f->item->wanted[k] = false;
}

/* Returns whether writers work at the same time, each on one thread. If they are few, they work in turn, on all threads. */
static bool write_side_by_side(const flow *f) {
  return f->end - f->first > (size_t)gconv_threads_count(f->threads);
}

/* Writes strip i and the filtered strips after it in memory, at most a third of the ring. Returns how many; 0: failed. */
static int32_t write_strips(flow *f, int32_t i) {
  if (!wait_for(f, FILTERED, i + 1))
    return 0;
  pthread_mutex_lock(&f->lock);
  int32_t count = f->done[FILTERED] - i;
  pthread_mutex_unlock(&f->lock);
  int32_t together = f->slots - i % f->slots, third = (f->slots + 2) / 3;
  count = count < together ? count : together;
  count = count < third ? count : third;
  double start = gconv_now_ms();
  const size_t outputs = f->pass.surveys ? 0 : f->end - f->first;
  writing w = {f, i, count};
  if (write_side_by_side(f))
    gconv_threads_run(f->threads, outputs, write_output, &w);
  for (size_t k = 0; !write_side_by_side(f) && k < outputs; k++)
    write_output(&w, k, 0);
  f->group->common.encode_ms += gconv_now_ms() - start;
  advance(f, WRITTEN, count);
  return count;
}

static bool has_read_nothing(flow *f) {
  pthread_mutex_lock(&f->lock);
  bool nothing = f->status == GCONV_OK && f->done[READ] == 0;
  pthread_mutex_unlock(&f->lock);
  return nothing;
}

/* Lets the system map pages of the outputs until a strip is read: this thread would only wait. */
static void make_pages(flow *f) {
  const size_t part = (size_t)1 << 20;
  for (size_t k = 0; k < f->count; k++) {
    size_t count = f->outputs[k].data ? gconv_image_bytes(&f->outputs[k]) : 0;
    for (size_t i = 0; i < count && has_read_nothing(f); i += part)
      gconv_make_pages((uint8_t *)f->outputs[k].data + i, count - i < part ? count - i : part);
  }
}

static void *write_all(void *argument) {
  flow *f = argument;
  make_pages(f);
  for (int32_t i = 0, count; i < f->strips && (count = write_strips(f, i)) > 0; i += count) {
  }
  return NULL;
}

/* ---- A pass ---- */

/* Runs the stages. With several threads and strips, reading and writing have their own threads; otherwise this thread does
 * all, strip by strip. */
static void run_stages(flow *f) {
  pthread_t reader, writer;
  bool overlaps = gconv_threads_count(f->threads) > 1 && f->strips > 1;
  bool reads = overlaps && gconv_thread_start(&reader, read_all, f);
  bool writes = overlaps && gconv_thread_start(&writer, write_all, f);
  for (int32_t i = 0; i < f->strips; i++)
    if ((!reads && !read_strip(f, i)) || !filter_strip(f, i) || (!writes && write_strips(f, i) == 0))
      break;
  if (!reads)
    read_strip(f, f->strips);
  if (reads)
    pthread_join(reader, NULL);
  if (writes)
    pthread_join(writer, NULL);
}

/* Opens the input again, as an earlier pass has read it. */
static gconv_status open_again(flow *f) {
  gconv_read_options options = f->group->worker->run->reading;
  options.again = true;
  gconv_row_reader_close(f->again);
  f->again = NULL;
  GCONV_TRY(gconv_row_reader_open(f->item->input->path, &options, &f->again));
  f->reader = f->again;
  bool same = gconv_image_same_shape(gconv_row_reader_header(f->again), &f->group->image);
  return same && gconv_row_reader_is_in_order(f->again)
             ? GCONV_OK
             : gconv_set_error(GCONV_BAD_FILE, "the file changed while it was waiting for its turn");
}

/* Runs the pass that was begun. */
static gconv_status run_pass(flow *f) {
  if (f->was_read && f->reader)
    GCONV_TRY(open_again(f));
  f->looks = !f->was_read && f->group->worker->run->batch->watch;
  f->item->outcome.look = f->looks ? gconv_plan_look(f->plan) : f->item->outcome.look;
  f->was_read = true;
  memset(f->done, 0, sizeof f->done);
  gconv_status status = make_buffers(f);
  if (status == GCONV_OK) {
    if (f->reader)
      gconv_row_reader_share(f->reader, f->threads);
    run_stages(f);
    status = f->status == GCONV_OK ? GCONV_OK : gconv_set_error(f->status, f->why.text);
  }
  free_buffers(f);
  return status;
}

/* ---- All passes ---- */

static bool is_any_wanted(const flow *f) {
  for (size_t k = f->first; k < f->end; k++)
    if (f->item->wanted[k])
      return true;
  return false;
}

/* Makes results first .. end - 1, in passes `number` and later. */
static gconv_status make_results(flow *f, size_t number) {
  bool beside = write_side_by_side(f);
  gconv_status status = GCONV_OK;
  f->step = gconv_group_open_files(f->group, f->first, f->end, f->from, beside ? 1 : f->group->worker->threads,
                                   beside ? NULL : f->threads, f->writers);
  for (size_t k = f->first; k < f->end && !f->group->worker->run->batch->one_array; k++)
    f->item->wanted[k] = f->writers[k] != NULL;
  for (; number < gconv_plan_passes(f->plan) && status == GCONV_OK && is_any_wanted(f); number++) {
    status = gconv_plan_begin_pass(f->plan, number, &f->pass);
    GCONV_THEN(status, run_pass(f));
  }
  gconv_group_keep_text(f->group, status);
  gconv_group_close_files(f->group, f->first, f->end, f->writers, status);
  for (size_t k = f->first; k < f->end; k++)
    f->item->wanted[k] = false;
  return status;
}

/* Runs the surveys, and then makes the results, at most `writers` at a time. */
static gconv_status run_all(flow *f, size_t writers) {
  size_t number = 0;
  gconv_status status = gconv_plan_begin_pass(f->plan, 0, &f->pass);
  while (status == GCONV_OK && f->pass.surveys) {
    status = run_pass(f);
    GCONV_THEN(status, gconv_plan_begin_pass(f->plan, ++number, &f->pass));
  }
  gconv_group_keep_text(f->group, status);
  while (f->end < f->count && status == GCONV_OK) {
    f->first = f->end;
    f->end = f->count - f->first < writers ? f->count : f->first + writers;
    status = make_results(f, number);
  }
  return status;
}

static gconv_status begin(flow *f) {
  f->count = gconv_plan_outputs(f->plan);
  f->outputs = calloc(f->count, sizeof *f->outputs);
  f->parts = calloc(f->count, sizeof *f->parts);
  f->writers = calloc(f->count, sizeof *f->writers);
  GCONV_NEED_MEMORY(f->outputs && f->parts && f->writers, "%s", out_of_memory);
  if ((f->plan->outputs[0].height - 1) / gconv_strip_rows(f->plan, 1) >= MOST_STRIPS)
    return gconv_set_error(GCONV_TOO_LARGE, "the image is larger than any that could be carried by rows");
  return GCONV_OK;
}

gconv_status gconv_group_stream(gconv_group *group, gconv_row_reader *reader, size_t writers) {
  flow f = {.group = group,
            .item = &group->items[0],
            .plan = group->plan,
            .reader = reader,
            .from = reader ? gconv_row_reader_header(reader) : &group->image,
            .threads = gconv_device_threads(group->plan->device),
            .step = 1,
            .lock = PTHREAD_MUTEX_INITIALIZER,
            .changed = PTHREAD_COND_INITIALIZER};
  gconv_status status = begin(&f);
  if (status == GCONV_OK) {
    group->streamed = true;
    status = run_all(&f, writers);
    if (status != GCONV_OK)
      gconv_item_fail(f.item, group->why.text);
  }
  gconv_row_reader_close(f.again);
  free(f.outputs);
  free(f.parts);
  free(f.writers);
  pthread_cond_destroy(&f.changed);
  pthread_mutex_destroy(&f.lock);
  return status;
}

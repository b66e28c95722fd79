/* SPDX-License-Identifier: MIT */
/*
 * One image from file to file by rows: memory does not grow with its height, and while a strip is made, later rows are read
 * and earlier strips written.
 *
 * Three stages, each a thread that mostly waits: what they do, they do on the threads that all share, so that the processors
 * are kept busy by whichever stage has work, and by no more threads than there are.
 *
 * The input goes through a ring of windows, the rows that a strip needs; those that the next strip needs too are copied. An
 * input that is in memory as a whole is its own windows. The outputs are rings of strips that lie one behind the other, so
 * that the writers, where they are slowest, get many at once.
 *
 * A plan may want several passes over the input, which is read again for each: to survey the values of pictures that are
 * stretched before the first row of them is made, or to make a mosaic row of tiles by row of tiles. If there are more
 * results than may be open at a time, passes are repeated for the others. The other way would be to keep all results, or
 * what they are made of, in a temporary file: that takes longer than to read and convolve once more.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/threads.h"
#include "batch/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const size_t STRIP_BYTES = (size_t)3 << 20; /* of a strip, with what becomes of it, roughly */
enum { WINDOWS = 3, LEAST_SLOTS = 4, MOST_SLOTS = 4096 };
enum { MOST_STRIPS = 1 << 24 }; /* of 50 TB: a header that promises more lies */

typedef struct span {
  int32_t begin, end;
} span;

typedef enum stage { READ, FILTERED, WRITTEN, STAGES } stage;

typedef struct flow {
  gconv_worker *worker;
  gconv_task *task;
  gconv_item *item; /* the only one: its results are wanted until they are made, or have failed */
  gconv_plan *plan;
  gconv_row_reader *reader;   /* at its first row; NULL: the image is in memory */
  gconv_row_reader *again;    /* the same, after the first pass; owned */
  bool was_read;              /* by a pass */
  bool looks;                 /* whether the pass looks at what it reads: the first one */
  const gconv_image *from;    /* whose profile and resolution the results get */
  gconv_threads *threads;     /* the plan's, which reader and writers share: stages overlap if there are two or more */
  gconv_row_writer **writers; /* [count]; NULL: its pass has not come, or it is through, or failed */
  size_t first, end;          /* results that are written in this pass */
  gconv_plan_pass pass;

  int32_t step;                 /* rows that a writer wants at a time, at most */
  int32_t strip, strips;        /* output rows at a time; how many times */
  int32_t room;                 /* rows that a window can hold */
  span *spans;                  /* [strips] of input rows: strip i needs those of spans[i]; neither end ever goes back */
  gconv_image windows[WINDOWS]; /* rows spans[i] are in window i % window_count; their heights are those of the spans */
  int32_t window_count;
  gconv_image *outputs; /* [count], of `slots` strips each: strip i is in slot i % slots */
  gconv_image *parts;   /* [count]: of the outputs, the strip that is made */
  size_t count;
  int32_t slots;

  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t changed;
  int32_t done[STAGES]; /* strips that are through */
  gconv_status status;  /* why the flow ends early */
  gconv_message why;
} flow;

static size_t row_bytes_of(const gconv_image *image) {
  return (size_t)image->width * (size_t)image->channels * gconv_type_bytes(image->type);
}

/* Bytes of the outputs for one row of them. */
static size_t output_row_bytes(const gconv_plan *plan) {
  size_t bytes = 0;
  for (size_t i = 0; i < gconv_plan_outputs(plan); i++)
    bytes += row_bytes_of(gconv_plan_output_header(plan, i));
  return bytes;
}

static gconv_status no_memory(void) {
  return gconv_set_error(GCONV_NO_MEMORY, "no memory to carry an image by rows");
}

/* ---- Strips ---- */

/* Rows of a strip: as many as STRIP_BYTES hold, but at least twice those that are read for its first row alone, so that not
 * too many are copied for the next strip. A multiple of the plan's step, and, if that does not make it much larger, of
 * `preferred`, the writers'. */
static int32_t strip_rows(const gconv_plan *plan, const gconv_image *like, int64_t preferred) {
  int64_t step = gconv_plan_row_step(plan), height = gconv_plan_output_header(plan, 0)->height;
  int32_t begin, end;
  if (plan->operation->type->batches) /* the plan was made for so many */
    return (int32_t)(step < height ? step : height);
  gconv_plan_rows_needed(plan, 0, 1, &begin, &end);
  int64_t rows = (int64_t)(STRIP_BYTES / (row_bytes_of(like) + output_row_bytes(plan))), least = 2 * (int64_t)(end - begin);
  rows = rows > least ? rows : least;
  int64_t both = gconv_common_multiple(step, preferred);
  step = both <= rows + rows / 2 ? both : step;
  rows = (rows + step - 1) / step * step;
  return rows < height ? (int32_t)rows : (int32_t)height;
}

/* Finds out which rows each strip needs, and so the most that a window must hold. With a mirrored border, the last
 * strips need rows again that earlier ones had done with: so spans are widened until they never go back. */
static gconv_status plan_spans(const gconv_plan *plan, flow *f) {
  int32_t height = f->pass.end - f->pass.first, least = INT32_MAX, most = 0;
  f->strips = (height - 1) / f->strip + 1;
  f->room = 0;
  f->spans = calloc((size_t)f->strips, sizeof *f->spans);
  if (!f->spans)
    return no_memory();
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

static gconv_status allocate_rows(const gconv_image *like, int32_t rows, gconv_image *image) {
  gconv_image header = {.type = like->type,
                        .frames = 1,
                        .height = rows,
                        .width = like->width,
                        .channels = like->channels,
                        .planar = like->planar,
                        .alpha = like->alpha};
  gconv_status status = gconv_image_allocate(&header);
  if (status == GCONV_OK)
    *image = header;
  return status;
}

static void free_buffers(flow *f) {
  for (int32_t i = 0; f->reader && i < WINDOWS; i++)
    gconv_image_free(&f->windows[i]);
  for (size_t i = 0; f->outputs && i < f->count; i++)
    gconv_image_free(&f->outputs[i]);
  free(f->spans);
  f->spans = NULL;
}

/* How much is under way at a time. */
typedef struct depth {
  int32_t windows, slots;
} depth;

/* With one thread, what is at hand, and the window before it. Else one window is filtered, one ready and one filled; and the
 * slots hold three times what gives each thread of a writer two of its steps: a third is written, the others are filled. For
 * strips so large that they take long anyway, two of each will do. */
static depth choose_depth(int threads, int32_t writer_step, int32_t strip, uint64_t strip_bytes) {
  const uint64_t large = (uint64_t)16 << 20;
  if (threads == 1)
    return (depth){2, 1};
  if (strip_bytes > large)
    return (depth){2, 2};
  int64_t third = (2 * (int64_t)threads * writer_step + strip - 1) / strip, slots = 3 * third;
  return (depth){WINDOWS, slots < LEAST_SLOTS ? LEAST_SLOTS : slots < MOST_SLOTS ? (int32_t)slots : MOST_SLOTS};
}

/* Strips of an output that is written in this pass; one that is not has no pixels. */
static gconv_status make_output(flow *f, size_t k) {
  const gconv_image *header = gconv_plan_output_header(f->plan, k);
  int64_t rows = (int64_t)f->slots * f->strip;
  bool wanted = !f->plan->type->leaves_out || (k >= f->first && k < f->end && f->item->wanted[k]);
  if (!wanted || f->pass.surveys)
    return GCONV_OK;
  return allocate_rows(header, (int32_t)(rows < header->height ? rows : header->height), &f->outputs[k]);
}

/* For the strips of a pass. */
static gconv_status make_buffers(flow *f) {
  f->strip = strip_rows(f->plan, &f->task->image, f->step);
  GCONV_TRY(plan_spans(f->plan, f));
  depth d = choose_depth(gconv_threads_count(f->threads), f->step, f->strip, (uint64_t)f->strip * output_row_bytes(f->plan));
  f->window_count = d.windows;
  f->slots = d.slots < f->strips ? d.slots : f->strips;
  for (size_t k = 0; k < f->count; k++)
    GCONV_TRY(make_output(f, k));
  for (int32_t i = 0; f->reader && i < f->window_count && i <= f->strips; i++) /* one more skips the last rows */
    GCONV_TRY(allocate_rows(&f->task->image, f->room, &f->windows[i]));
  return GCONV_OK;
}

double gconv_stream_bytes(const gconv_plan *plan, size_t writers, int threads) {
  const uint64_t step_bytes = (uint64_t)1 << 20; /* a writer's, at most */
  const double least = 5 << 20; /* of a writer, a thread: PNG's strips, filtered and compressed, and rows that wait */
  int32_t strip = strip_rows(plan, &plan->like, 1), begin, end;
  uint64_t row_bytes = output_row_bytes(plan);
  gconv_plan_rows_needed(plan, 0, strip, &begin, &end);
  depth d = choose_depth(threads, (int32_t)(step_bytes / row_bytes) + 1, strip, (uint64_t)strip * row_bytes);
  uint64_t rows = (uint64_t)d.slots * (uint64_t)strip, height = (uint64_t)gconv_plan_get_info(plan)->out_height;
  uint64_t windows = (uint64_t)d.windows * (uint64_t)(end - begin) * row_bytes_of(&plan->like);
  double writer = fmax(least, 6.0 * (double)row_bytes / (double)gconv_plan_outputs(plan));
  gconv_need need = {0};
  plan->type->find_need(plan, &need);
  return (double)(windows + (rows < height ? rows : height) * row_bytes) + (double)writers * writer * threads + need.fixed +
         need.rows + need.row * strip;
}

/* ---- From stage to stage ---- */

/* Waits until `count` strips are through the stage; false if the flow has failed. */
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

/* The first failure, which is this thread's last, is that of the flow. False. */
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

/* Reads rows that nobody needs, by way of the window. */
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

/* Looks at the rows behind the first `kept` for what results cannot show, when they come for the first time. */
static void look_at_window(flow *f, const gconv_image *window, int32_t kept) {
  if (f->looks)
    gconv_look_at(&f->item->look, window, kept, f->threads);
}

/* Fills the window of strip i: rows that the window before it has are copied. */
static gconv_status fill_window(flow *f, int32_t i) {
  const span *s = &f->spans[i];
  gconv_image *window = window_of(f, i);
  int32_t had = i > 0 ? s[-1].end : 0, kept = had > s->begin ? had - s->begin : 0;
  if (!f->reader) {
    *window = f->task->image;
    window->data = row_at(window, s->begin);
  }
  window->height = s->end - s->begin;
  if (!f->reader) {
    look_at_window(f, window, kept);
    return GCONV_OK;
  }
  if (kept > 0)
    memcpy(window->data, row_at(window_of(f, i - 1), s->begin - s[-1].begin), (size_t)kept * window->row_bytes);
  else
    GCONV_TRY(skip_rows(f, window, s->begin - had));
  if (kept < window->height)
    GCONV_TRY(gconv_row_reader_read(f->reader, row_at(window, kept), window->row_bytes, window->height - kept));
  look_at_window(f, window, kept);
  return GCONV_OK;
}

/* Strip i; or i = strips: what is left, to the last row, which tells whether the file is whole. */
static bool read_strip(flow *f, int32_t i) {
  if (!wait_for(f, FILTERED, i - f->window_count + 1)) /* the window is free */
    return false;
  double start = gconv_now_ms();
  gconv_status status = GCONV_OK;
  if (i < f->strips)
    status = fill_window(f, i);
  else if (f->reader)
    status = skip_rows(f, window_of(f, i), f->task->image.height - f->spans[f->strips - 1].end);
  f->task->common.decode_ms += gconv_now_ms() - start;
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

/* Rows of the output from strip i on, `strips` of them, where they are kept. */
static gconv_image kept_rows(const flow *f, size_t output, int32_t i, int32_t strips) {
  gconv_image part = f->outputs[output];
  part.data = part.data ? row_at(&part, i % f->slots * f->strip) : NULL;
  part.height = first_row_of(f, i + strips) - first_row_of(f, i);
  return part;
}

static bool filter_strip(flow *f, int32_t i) {
  if (!wait_for(f, READ, i + 1) || !wait_for(f, WRITTEN, i - f->slots + 1))
    return false;
  for (size_t k = 0; k < f->count; k++)
    f->parts[k] = kept_rows(f, k, i, 1);
  gconv_status status =
      gconv_plan_execute_rows(f->plan, window_of(f, i), f->spans[i].begin, first_row_of(f, i),
                              f->pass.surveys ? NULL : f->parts, gconv_plan_outputs(f->plan), &f->task->common.timings);
  if (status != GCONV_OK)
    return give_up(f, status);
  advance(f, FILTERED, 1);
  return true;
}

/* ---- Writing ---- */

typedef struct writing {
  flow *flow;
  int32_t strip, count;
} writing;

static void write_output(void *context, size_t turn, int seat) {
  const writing *w = context;
  (void)seat;
  flow *f = w->flow;
  size_t k = f->first + turn;
  gconv_image rows = kept_rows(f, k, w->strip, w->count);
  if (!f->item->wanted[k])
    return;
  gconv_status status = gconv_task_add_rows(f->worker, f->task, k, f->writers[k], &rows, first_row_of(f, w->strip));
  if (status == GCONV_OK)
    return;
  gconv_item_count(f->worker->run, f->task, f->item, k, status);
  f->item->wanted[k] = false;
  if (f->writers[k])
    gconv_row_writer_discard(f->writers[k]);
  f->writers[k] = NULL;
}

/* Writers compress on the shared threads, one after the other; or, if there are many, side by side. */
static bool write_side_by_side(const flow *f) {
  return f->end - f->first > (size_t)gconv_threads_count(f->threads);
}

/* Strip i and those behind it that are filtered and in one piece with it, but no more than half of what is kept. Returns how
 * many: 0 after a failure. */
static int32_t write_strips(flow *f, int32_t i) {
  if (!wait_for(f, FILTERED, i + 1))
    return 0;
  pthread_mutex_lock(&f->lock);
  int32_t count = f->done[FILTERED] - i;
  pthread_mutex_unlock(&f->lock);
  int32_t together = f->slots - i % f->slots, half = (f->slots + 2) / 3;
  count = count < together ? count : together;
  count = count < half ? count : half;
  double start = gconv_now_ms();
  writing w = {f, i, count};
  if (!f->pass.surveys && write_side_by_side(f))
    gconv_threads_run(f->threads, f->end - f->first, write_output, &w);
  for (size_t k = 0; !f->pass.surveys && !write_side_by_side(f) && k < f->end - f->first; k++)
    write_output(&w, k, 0);
  f->task->common.encode_ms += gconv_now_ms() - start;
  advance(f, WRITTEN, count);
  return count;
}

static void *write_all(void *argument) {
  flow *f = argument;
  for (int32_t i = 0, count; i < f->strips && (count = write_strips(f, i)) > 0; i += count) {
  }
  return NULL;
}

/* ---- A pass ---- */

/* Reading and writing have threads, if there are several threads and strips. Otherwise they are done here, between the
 * strips. */
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

/* Opens the file of the input again, which an earlier pass has read. */
static gconv_status open_again(flow *f) {
  gconv_read_options options = gconv_run_reading(f->worker->run);
  options.again = true;
  gconv_row_reader_close(f->again);
  f->again = NULL;
  GCONV_TRY(gconv_row_reader_open(f->item->report.input->path, &options, &f->again));
  f->reader = f->again;
  bool same = gconv_image_same_shape(gconv_row_reader_header(f->again), &f->task->image);
  return same && gconv_row_reader_is_in_order(f->again)
             ? GCONV_OK
             : gconv_set_error(GCONV_BAD_FILE, "it changed while it was waiting for its turn");
}

/* All strips of the pass that was begun. */
static gconv_status run_pass(flow *f) {
  if (f->was_read && f->reader)
    GCONV_TRY(open_again(f));
  f->looks = !f->was_read && f->worker->run->batch->watch;
  f->item->look = f->looks ? gconv_plan_look(f->plan) : f->item->look;
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

/* Passes `number` and behind it that make results first .. end - 1. */
static gconv_status make_results(flow *f, size_t number) {
  bool beside = write_side_by_side(f);
  gconv_status status = GCONV_OK;
  f->step = gconv_task_open_files(f->worker, f->task, f->first, f->end, f->from, beside ? 1 : f->worker->threads,
                                  beside ? NULL : f->threads, f->writers);
  for (size_t k = f->first; k < f->end && !f->worker->run->batch->one_array; k++)
    f->item->wanted[k] = f->writers[k] != NULL;
  for (; number < gconv_plan_passes(f->plan) && status == GCONV_OK && is_any_wanted(f); number++) {
    status = gconv_plan_begin_pass(f->plan, number, &f->pass);
    if (status == GCONV_OK)
      status = run_pass(f);
  }
  gconv_task_keep_text(f->task, status);
  gconv_task_close_files(f->worker, f->task, f->first, f->end, f->writers, status);
  for (size_t k = f->first; k < f->end; k++)
    f->item->wanted[k] = false;
  return status;
}

/* Surveys first, then as many results at a time as may be open. */
static gconv_status run_all(flow *f, size_t writers) {
  size_t number = 0;
  gconv_status status = gconv_plan_begin_pass(f->plan, 0, &f->pass);
  while (status == GCONV_OK && f->pass.surveys) {
    status = run_pass(f);
    if (status == GCONV_OK)
      status = gconv_plan_begin_pass(f->plan, ++number, &f->pass);
  }
  gconv_task_keep_text(f->task, status);
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
  if (!f->outputs || !f->parts || !f->writers)
    return no_memory();
  if ((f->plan->outputs[0].height - 1) / strip_rows(f->plan, &f->task->image, 1) >= MOST_STRIPS)
    return gconv_set_error(GCONV_TOO_LARGE, "the image is larger than any that could be carried by rows");
  return GCONV_OK;
}

gconv_status gconv_task_stream(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader, size_t writers) {
  flow f = {.worker = worker,
            .task = task,
            .item = &task->items[0],
            .plan = task->plan,
            .reader = reader,
            .from = reader ? gconv_row_reader_header(reader) : &task->image,
            .threads = gconv_device_threads(task->plan->device),
            .step = 1,
            .lock = PTHREAD_MUTEX_INITIALIZER,
            .changed = PTHREAD_COND_INITIALIZER};
  gconv_status status = begin(&f);
  if (status == GCONV_OK) {
    task->streamed = true;
    status = run_all(&f, writers);
    if (status != GCONV_OK)
      gconv_item_fail(f.item, task->why.text);
  }
  gconv_row_reader_close(f.again);
  free(f.outputs);
  free(f.parts);
  free(f.writers);
  pthread_cond_destroy(&f.changed);
  pthread_mutex_destroy(&f.lock);
  return status;
}

/* SPDX-License-Identifier: MIT */
/*
 * Three stages, each a thread that mostly waits: what they do, they do on the threads that all share, so that the processors
 * are kept busy by whichever stage has work, and by no more threads than there are.
 *
 * The input goes through a ring of windows, the rows that a strip needs; those that the next strip needs too are copied. The
 * outputs are rings of strips that lie one behind the other, so that the writers, where they are slowest, get many at once.
 */
#include "batch/stream.h"
#include "base/memory.h"
#include "batch/clock.h"
#include "batch/message.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Images above are carried by rows. A strip, with what becomes of it, has about STRIP_BYTES. */
static const size_t STREAMED_BYTES = (size_t)8 << 20, STRIP_BYTES = (size_t)3 << 20;
enum { WINDOWS = 3, LEAST_SLOTS = 4, MOST_SLOTS = 4096 };
enum { MOST_STRIPS = 1 << 24 }; /* of 50 TB: a header that promises more lies */

/* Rows of the input. */
typedef struct window {
  gconv_image rows; /* its height is that of the span */
  int32_t first_row;
} window;

typedef struct span {
  int32_t begin, end;
} span;

typedef enum stage { READ, FILTERED, WRITTEN, STAGES } stage;

typedef struct flow {
  gconv_stream *stream;
  int32_t strip, strips; /* output rows at a time; how many times */
  int32_t room;          /* rows that a window can hold */
  span *spans;           /* [strips] of input rows: strip i needs those of spans[i]; neither end ever goes back */
  window windows[WINDOWS];
  int32_t window_count;
  gconv_image *outputs; /* [count], of `slots` strips each: strip i is in slot i % slots */
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

bool gconv_stream_pays(const gconv_image *like) {
  return (double)row_bytes_of(like) * like->height > (double)STREAMED_BYTES;
}

static gconv_status no_memory(void) {
  return gconv_set_error(GCONV_NO_MEMORY, "no memory to carry an image by rows");
}

/* ---- Strips ---- */

/* Rows of a strip: as many as STRIP_BYTES hold, but at least twice those that are read for its first row alone, so that not
 * too many are copied for the next strip. A multiple of the plan's step, and, if that does not make it much larger, of
 * `preferred`, the writers'. */
static int32_t strip_rows(const gconv_plan *plan, const gconv_image *like, int64_t preferred) {
  int64_t step = gconv_plan_row_step(plan), height = gconv_plan_get_info(plan)->out_height;
  int32_t begin, end;
  gconv_plan_rows_needed(plan, 0, 1, &begin, &end);
  int64_t rows = (int64_t)(STRIP_BYTES / (row_bytes_of(like) + output_row_bytes(plan))), least = 2 * (int64_t)(end - begin);
  rows = rows > least ? rows : least;
  int64_t both = gconv_common_multiple(step, preferred);
  step = both <= rows + rows / 2 ? both : step;
  rows = (rows + step - 1) / step * step;
  return rows < height ? (int32_t)rows : (int32_t)height;
}

/* Finds out which rows each strip needs, and so the most that a window must hold. Mirrored at the bottom, rows may be needed
 * again that earlier strips had done with. */
static gconv_status plan_spans(const gconv_plan *plan, flow *f) {
  int32_t height = gconv_plan_get_info(plan)->out_height, least = INT32_MAX, most = 0;
  f->strips = (height - 1) / f->strip + 1;
  if (f->strips > MOST_STRIPS)
    return gconv_set_error(GCONV_TOO_LARGE, "the image is larger than any that could be carried by rows");
  f->spans = calloc((size_t)f->strips, sizeof *f->spans);
  if (!f->spans)
    return no_memory();
  for (int32_t i = f->strips; i-- > 0;) {
    span *s = &f->spans[i];
    int32_t first = i * f->strip;
    gconv_plan_rows_needed(plan, first, height - first < f->strip ? height - first : f->strip, &s->begin, &s->end);
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
                        .alpha = like->alpha};
  gconv_status status = gconv_image_allocate(&header);
  if (status == GCONV_OK)
    *image = header;
  return status;
}

static void free_buffers(flow *f) {
  for (int32_t i = 0; i < WINDOWS; i++)
    gconv_image_free(&f->windows[i].rows);
  for (size_t i = 0; f->outputs && i < f->count; i++)
    gconv_image_free(&f->outputs[i]);
  free(f->outputs);
  free(f->spans);
}

/* The most that a writer wants at a time. */
static int32_t writers_step(const gconv_stream *stream) {
  int32_t step = 1;
  for (size_t i = 0; i < gconv_plan_outputs(stream->plan); i++) {
    int32_t own = stream->writers[i] ? gconv_row_writer_step(stream->writers[i]) : 1;
    step = own > step ? own : step;
  }
  return step;
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

static gconv_status make_buffers(flow *f) {
  const gconv_stream *stream = f->stream;
  const gconv_image *like = gconv_row_reader_header(stream->reader);
  size_t count = gconv_plan_outputs(stream->plan);
  int32_t step = writers_step(stream);
  f->strip = strip_rows(stream->plan, like, step);
  f->outputs = calloc(count, sizeof *f->outputs);
  if (!f->outputs)
    return no_memory();
  GCONV_TRY(plan_spans(stream->plan, f));
  int threads = gconv_threads_count(stream->threads);
  depth d = choose_depth(threads, step, f->strip, (uint64_t)f->strip * output_row_bytes(stream->plan));
  f->window_count = d.windows;
  for (int32_t i = 0; i < f->window_count && i <= f->strips; i++) /* one more skips the last rows */
    GCONV_TRY(allocate_rows(like, f->room, &f->windows[i].rows));
  f->slots = d.slots < f->strips ? d.slots : f->strips;
  int64_t rows = (int64_t)f->slots * f->strip, height = gconv_plan_get_info(stream->plan)->out_height;
  for (f->count = 0; f->count < count; f->count++)
    GCONV_TRY(allocate_rows(gconv_plan_output_header(stream->plan, f->count), (int32_t)(rows < height ? rows : height),
                            &f->outputs[f->count]));
  return GCONV_OK;
}

uint64_t gconv_stream_writer_bytes(int threads) {
  const uint64_t a_thread = (uint64_t)5 << 20; /* PNG: strips filtered and compressed, and rows that wait */
  return a_thread * (uint64_t)threads;
}

uint64_t gconv_stream_bytes(const gconv_plan *plan, const gconv_image *like, size_t writers, int threads) {
  const uint64_t step_bytes = (uint64_t)1 << 20; /* a writer's, at most */
  int32_t strip = strip_rows(plan, like, 1), begin, end;
  uint64_t row_bytes = output_row_bytes(plan);
  gconv_plan_rows_needed(plan, 0, strip, &begin, &end);
  depth d = choose_depth(threads, (int32_t)(step_bytes / row_bytes) + 1, strip, (uint64_t)strip * row_bytes);
  uint64_t rows = (uint64_t)d.slots * (uint64_t)strip, height = (uint64_t)gconv_plan_get_info(plan)->out_height;
  return (uint64_t)d.windows * (uint64_t)(end - begin) * row_bytes_of(like) + (rows < height ? rows : height) * row_bytes +
         writers * gconv_stream_writer_bytes(threads);
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
static gconv_status skip_rows(flow *f, const window *w, int32_t count) {
  gconv_status status = GCONV_OK;
  for (int32_t some; count > 0 && status == GCONV_OK; count -= some) {
    some = count < f->room ? count : f->room;
    status = gconv_row_reader_read(f->stream->reader, w->rows.data, w->rows.row_bytes, some);
  }
  return status;
}

/* Makes window i % window_count that of strip i: rows that the window before it has are copied. */
static gconv_status fill_window(flow *f, int32_t i) {
  const span *s = &f->spans[i];
  window *w = &f->windows[i % f->window_count], *before = &f->windows[(i + f->window_count - 1) % f->window_count];
  int32_t had = i > 0 ? f->spans[i - 1].end : 0, kept = had > s->begin ? had - s->begin : 0;
  w->first_row = s->begin;
  w->rows.height = s->end - s->begin;
  if (kept > 0)
    memcpy(w->rows.data, row_at(&before->rows, s->begin - before->first_row), (size_t)kept * w->rows.row_bytes);
  else
    GCONV_TRY(skip_rows(f, w, s->begin - had));
  if (kept == w->rows.height)
    return GCONV_OK;
  return gconv_row_reader_read(f->stream->reader, row_at(&w->rows, kept), w->rows.row_bytes, w->rows.height - kept);
}

/* Strip i; or i = strips: what is left, to the last row, which tells whether the file is whole. */
static bool read_strip(flow *f, int32_t i) {
  if (!wait_for(f, FILTERED, i - f->window_count + 1)) /* the window is free */
    return false;
  double start = gconv_batch_clock_ms();
  gconv_status status = i < f->strips
                            ? fill_window(f, i)
                            : skip_rows(f, &f->windows[i % f->window_count],
                                        gconv_row_reader_header(f->stream->reader)->height - f->spans[f->strips - 1].end);
  f->stream->decode_ms += gconv_batch_clock_ms() - start;
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
  int32_t height = gconv_plan_get_info(f->stream->plan)->out_height;
  return strip < f->strips ? strip * f->strip : height;
}

/* Rows of the output from strip i on, `strips` of them, where they are kept. */
static gconv_image kept_rows(const flow *f, size_t output, int32_t i, int32_t strips) {
  gconv_image part = f->outputs[output];
  part.data = row_at(&part, i % f->slots * f->strip);
  part.height = first_row_of(f, i + strips) - first_row_of(f, i);
  return part;
}

static bool filter_strip(flow *f, gconv_image *parts, int32_t i) {
  if (!wait_for(f, READ, i + 1) || !wait_for(f, WRITTEN, i - f->slots + 1))
    return false;
  for (size_t k = 0; k < f->count; k++)
    parts[k] = kept_rows(f, k, i, 1);
  const window *w = &f->windows[i % f->window_count];
  gconv_status status =
      gconv_plan_execute_rows(f->stream->plan, &w->rows, w->first_row, first_row_of(f, i), parts, &f->stream->timings);
  if (status != GCONV_OK)
    return give_up(f, status);
  advance(f, FILTERED, 1);
  return true;
}

/* ---- Writing ---- */

static void write_output(gconv_stream *stream, size_t output, const gconv_image *part) {
  gconv_row_writer **writer = &stream->writers[output];
  if (!*writer || gconv_row_writer_write(*writer, part->data, part->row_bytes, part->height) == GCONV_OK)
    return;
  gconv_row_writer_discard(*writer);
  *writer = NULL;
  stream->failed(stream->user, output);
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
  double start = gconv_batch_clock_ms();
  for (size_t k = 0; k < f->count; k++) {
    gconv_image part = kept_rows(f, k, i, count);
    write_output(f->stream, k, &part);
  }
  f->stream->encode_ms += gconv_batch_clock_ms() - start;
  advance(f, WRITTEN, count);
  return count;
}

static void *write_all(void *argument) {
  flow *f = argument;
  for (int32_t i = 0, count; i < f->strips && (count = write_strips(f, i)) > 0; i += count) {
  }
  return NULL;
}

/* ---- All stages ---- */

/* What has no thread of its own is done here, strip by strip. */
static void run_stages(flow *f, gconv_image *parts) {
  pthread_t reader, writer;
  bool overlaps = gconv_threads_count(f->stream->threads) > 1 && f->strips > 1;
  bool reads = overlaps && pthread_create(&reader, NULL, read_all, f) == 0;
  bool writes = overlaps && pthread_create(&writer, NULL, write_all, f) == 0;
  for (int32_t i = 0; i < f->strips; i++)
    if ((!reads && !read_strip(f, i)) || !filter_strip(f, parts, i) || (!writes && write_strips(f, i) == 0))
      break;
  if (!reads)
    read_strip(f, f->strips);
  if (reads)
    pthread_join(reader, NULL);
  if (writes)
    pthread_join(writer, NULL);
}

gconv_status gconv_stream_run(gconv_stream *stream) {
  flow f = {.stream = stream, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  gconv_image *parts = calloc(gconv_plan_outputs(stream->plan), sizeof *parts);
  gconv_status status = parts ? make_buffers(&f) : no_memory();
  gconv_row_reader_share(stream->reader, stream->threads);
  if (status == GCONV_OK) {
    run_stages(&f, parts);
    status = f.status == GCONV_OK ? GCONV_OK : gconv_set_error(f.status, f.why.text);
  }
  free_buffers(&f);
  free(parts);
  pthread_cond_destroy(&f.changed);
  pthread_mutex_destroy(&f.lock);
  return status;
}

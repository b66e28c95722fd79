/* SPDX-License-Identifier: MIT */
#include "batch/stream.h"
#include "batch/worker.h"

#include <stdlib.h>
#include <string.h>

/* Images above are carried by rows; strips of them, with those of their outputs, are cut to less. */
static const size_t STREAMED_BYTES = (size_t)64 << 20, STRIP_BYTES = (size_t)32 << 20;

/* The rows that are in memory: row first_row .. first_row + rows - 1 of the input, and a strip of each output. */
typedef struct buffers {
  gconv_image window; /* `room` rows are allocated; its height is `rows` */
  int32_t room, rows, first_row;
  int32_t strip; /* output rows at a time */
  struct span {
    int32_t begin, end;
  } * spans;            /* of input rows: strip i needs those of spans[i], and no later strip any before spans[i].begin */
  gconv_image *outputs; /* [count], of `strip` rows */
  size_t count;
} buffers;

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

/* ---- Buffers ---- */

/* A strip: as many rows as fit, but at least twice those that are read for its first row alone, so that not too many are
 * loaded again for the next strip; a multiple of the plan's step. */
static int32_t strip_rows(const gconv_plan *plan, const gconv_image *like) {
  int32_t step = gconv_plan_row_step(plan), height = gconv_plan_get_info(plan)->out_height, begin, end;
  gconv_plan_rows_needed(plan, 0, 1, &begin, &end);
  int64_t rows = (int64_t)(STRIP_BYTES / (row_bytes_of(like) + output_row_bytes(plan))), least = 2 * (int64_t)(end - begin);
  rows = rows > least ? rows : least;
  rows = (rows + step - 1) / step * step;
  return rows < height ? (int32_t)rows : height;
}

/* Finds out which rows each strip needs, and so the most that the window must hold. Mirrored at the bottom, rows may be
 * needed again that earlier strips had done with. */
static gconv_status plan_window(const gconv_plan *plan, buffers *b) {
  int32_t height = gconv_plan_get_info(plan)->out_height, strips = (height - 1) / b->strip + 1;
  b->spans = calloc((size_t)strips, sizeof *b->spans);
  if (!b->spans)
    return GCONV_NO_MEMORY;
  int32_t begin = INT32_MAX;
  for (int32_t i = strips; i-- > 0;) {
    int32_t first = i * b->strip, needed;
    gconv_plan_rows_needed(plan, first, height - first < b->strip ? height - first : b->strip, &needed, &b->spans[i].end);
    begin = needed < begin ? needed : begin;
    b->spans[i].begin = begin;
    int32_t rows = b->spans[i].end - begin;
    b->room = rows > b->room ? rows : b->room;
  }
  for (int32_t i = 1; i < strips; i++) /* what one strip has read, the next one still has */
    if (b->spans[i].end < b->spans[i - 1].end) {
      b->spans[i].end = b->spans[i - 1].end;
      int32_t rows = b->spans[i].end - b->spans[i].begin;
      b->room = rows > b->room ? rows : b->room;
    }
  return GCONV_OK;
}

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

static void free_buffers(buffers *b) {
  gconv_image_free(&b->window);
  for (size_t i = 0; b->outputs && i < b->count; i++)
    gconv_image_free(&b->outputs[i]);
  free(b->outputs);
  free(b->spans);
}

static gconv_status make_buffers(const gconv_stream *stream, buffers *b) {
  const gconv_image *like = gconv_row_reader_header(stream->reader);
  size_t count = gconv_plan_outputs(stream->plan);
  b->strip = strip_rows(stream->plan, like);
  b->outputs = calloc(count, sizeof *b->outputs);
  if (!b->outputs)
    return GCONV_NO_MEMORY;
  gconv_status status = plan_window(stream->plan, b);
  if (status == GCONV_OK)
    status = allocate_rows(like, b->room, &b->window);
  for (b->count = 0; b->count < count && status == GCONV_OK; b->count++)
    status = allocate_rows(gconv_plan_output_header(stream->plan, b->count), b->strip, &b->outputs[b->count]);
  return status;
}

/* ---- Reading ---- */

static uint8_t *window_row(const buffers *b, int32_t row) {
  return (uint8_t *)b->window.data + (size_t)row * b->window.row_bytes;
}

/* Moves the window on to row `begin`: rows before it are dropped, and read where they were not yet. */
static gconv_status drop_rows(gconv_stream *stream, buffers *b, int32_t begin) {
  int32_t kept = b->first_row + b->rows - begin;
  if (kept > 0) {
    memmove(b->window.data, window_row(b, begin - b->first_row), (size_t)kept * b->window.row_bytes);
    b->rows = kept;
    b->first_row = begin;
    return GCONV_OK;
  }
  for (int32_t next = b->first_row + b->rows, count; next < begin; next += count) {
    count = begin - next < b->room ? begin - next : b->room;
    gconv_status status = gconv_row_reader_read(stream->reader, b->window.data, b->window.row_bytes, count);
    if (status != GCONV_OK)
      return status;
  }
  b->rows = 0;
  b->first_row = begin;
  return GCONV_OK;
}

/* Makes the window hold the rows of the span. */
static gconv_status load_rows(gconv_stream *stream, buffers *b, const struct span *span) {
  double start = gconv_worker_clock_ms();
  gconv_status status = GCONV_OK;
  if (span->begin > b->first_row)
    status = drop_rows(stream, b, span->begin);
  int32_t missing = span->end - (b->first_row + b->rows);
  if (status == GCONV_OK && missing > 0)
    status = gconv_row_reader_read(stream->reader, window_row(b, b->rows), b->window.row_bytes, missing);
  if (status == GCONV_OK && missing > 0)
    b->rows += missing;
  b->window.height = b->rows;
  stream->decode_ms += gconv_worker_clock_ms() - start;
  return status;
}

/* ---- Strips ---- */

static void write_strip(gconv_stream *stream, const buffers *b) {
  double start = gconv_worker_clock_ms();
  for (size_t i = 0; i < b->count; i++) {
    const gconv_image *output = &b->outputs[i];
    if (!stream->writers[i] ||
        gconv_row_writer_write(stream->writers[i], output->data, output->row_bytes, output->height) == GCONV_OK)
      continue;
    gconv_row_writer_discard(stream->writers[i]);
    stream->writers[i] = NULL;
    stream->failed(stream->user, i);
  }
  stream->encode_ms += gconv_worker_clock_ms() - start;
}

static gconv_status carry_strip(gconv_stream *stream, buffers *b, int32_t first, int32_t count) {
  gconv_status status = load_rows(stream, b, &b->spans[first / b->strip]);
  for (size_t i = 0; i < b->count; i++)
    b->outputs[i].height = count;
  if (status == GCONV_OK)
    status = gconv_plan_execute_rows(stream->plan, &b->window, b->first_row, first, b->outputs, &stream->timings);
  if (status == GCONV_OK)
    write_strip(stream, b);
  return status;
}

gconv_status gconv_stream_run(gconv_stream *stream) {
  int32_t height = gconv_plan_get_info(stream->plan)->out_height,
          in_height = gconv_row_reader_header(stream->reader)->height;
  buffers b = {.count = 0};
  gconv_status status = make_buffers(stream, &b);
  for (int32_t first = 0, count; first < height && status == GCONV_OK; first += count) {
    count = height - first < b.strip ? height - first : b.strip;
    status = carry_strip(stream, &b, first, count);
  }
  if (status == GCONV_OK) /* to the last row, which tells whether the file is whole */
    status = drop_rows(stream, &b, in_height);
  free_buffers(&b);
  return status;
}

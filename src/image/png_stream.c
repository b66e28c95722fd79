/* SPDX-License-Identifier: MIT */
#include "image/png_stream.h"

#include "base/checksum.h"
#include "base/threads.h"
#include "image/png_filter.h"
#include "image/png_inflate.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
#ifndef GCONV_SMALL_PIECES
  PIECE_BYTES = 256 * 1024,   /* lines that are inflated at a time */
  PIECES = 8,                 /* in memory, at most: one is unfiltered, others wait or are made */
  BYTES_PER_HELPER = 4 << 20, /* of lines */
#else                         /* tests, as in png_inflate.c */
  PIECE_BYTES = 2048,
  PIECES = 3,
  BYTES_PER_HELPER = 2048,
#endif
  FEWEST = 2,          /* pieces: what is made, and the one before it, to which matches reach back */
  LONG_LINE = 1 << 20, /* bytes: eight such lines are too much to have ahead */
  MOST_ROW_BYTES = 1 << 28,
  MOST_HELPERS = 6, /* threads besides the two that inflate and unfilter */
};

/* Whole lines, each a filter's number and its differences. Before them is room for what matches reach back to, behind them
 * for what is written beyond. */
struct piece {
  uint8_t *memory, *lines;
  size_t count;
  bool right;
};

struct gconv_png_stream {
  gconv_reader *reader;
  size_t line_bytes, pixel, height; /* with the filter's number; bytes of a pixel of the file, 1 at least */
  bool swap;
  const gconv_png_samples *samples; /* NULL: pixels are as the file has them */

  gconv_png_inflate *inflate;

  /* The inflating side: the thread's own while it runs. */
  size_t lines_made;
  size_t piece_lines;
  struct piece *making;

  /* The unfiltering side. */
  uint8_t *above; /* the last row, as the file has it */
  uint8_t *row;   /* where pixels are not as the file has them: the next one */
  size_t line_in_piece, lines_taken;
  uint32_t adler; /* of the lines taken */

  uint32_t right_adler;        /* set before the last piece is handed over */
  struct piece pieces[PIECES]; /* by turns; those from `taken` on, below `made`, are the unfiltering side's */
  size_t count;                /* of pieces: as many as there will be, at most */
  bool threaded;
  pthread_t thread, helper[MOST_HELPERS];
  int helpers;
  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t changed;
  size_t made, taken;
  bool quit;
};

/* ---- Inflating ---- */

/* A turn. */
static void inflate_piece(void *context, size_t turn, int seat) {
  gconv_png_stream *stream = context;
  struct piece *piece = stream->making;
  (void)turn;
  (void)seat;
  size_t left = stream->height - stream->lines_made;
  piece->count = left < stream->piece_lines ? left : stream->piece_lines;
  piece->right = gconv_png_inflate_lines(stream->inflate, piece->lines, piece->count * stream->line_bytes);
  stream->lines_made += piece->count;
  if (piece->right && stream->lines_made == stream->height)
    piece->right = gconv_png_inflate_end(stream->inflate, &stream->right_adler);
}

/* What this reader does, it does at once, or on one of the shared threads: it waits for pieces on none of them. */
static void do_in_turn(gconv_png_stream *stream, gconv_turn *function, void *context) {
  if (stream->reader->shared)
    gconv_threads_run(stream->reader->shared, 1, function, context);
  else
    function(context, 0, 0);
}

static void make_piece(gconv_png_stream *stream, struct piece *piece) {
  stream->making = piece;
  do_in_turn(stream, inflate_piece, stream);
}

/* What helping once takes to its turn, and brings back. */
struct help {
  gconv_png_inflate *inflate;
  bool done;
};

/* A turn. */
static void help_once(void *context, size_t turn, int seat) {
  struct help *help = context;
  (void)turn;
  (void)seat;
  help->done = gconv_png_inflate_help(help->inflate);
}

/* False if there was nothing to help with. */
static bool help(gconv_png_stream *stream) {
  struct help help = {.inflate = stream->inflate};
  do_in_turn(stream, help_once, &help);
  return help.done;
}

/* Waits for a change, with the lock, or helps in the meantime. */
static void wait_or_help(gconv_png_stream *stream) {
  size_t made = stream->made, taken = stream->taken;
  pthread_mutex_unlock(&stream->lock);
  bool helped = help(stream);
  pthread_mutex_lock(&stream->lock);
  if (!helped && !stream->quit && made == stream->made && taken == stream->taken)
    pthread_cond_wait(&stream->changed, &stream->lock);
}

static void *inflate_ahead(void *argument) {
  gconv_png_stream *stream = argument;
  for (bool more = true; more;) {
    pthread_mutex_lock(&stream->lock);
    while (!stream->quit && stream->made == stream->taken + stream->count)
      wait_or_help(stream);
    bool quit = stream->quit;
    struct piece *piece = &stream->pieces[stream->made % stream->count];
    pthread_mutex_unlock(&stream->lock);
    if (quit)
      break;
    make_piece(stream, piece);
    more = piece->right && stream->lines_made < stream->height;
    pthread_mutex_lock(&stream->lock);
    stream->made++;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
  }
  return NULL;
}

static void *help_all_along(void *argument) {
  gconv_png_stream *stream = argument;
  while (gconv_png_inflate_wait(stream->inflate))
    help(stream);
  return NULL;
}

/* The piece whose lines are next. */
static const struct piece *current_piece(gconv_png_stream *stream) {
  struct piece *piece = &stream->pieces[stream->taken % stream->count];
  if (!stream->threaded) {
    if (stream->made == stream->taken) {
      make_piece(stream, piece);
      stream->made++;
    }
    return piece;
  }
  pthread_mutex_lock(&stream->lock);
  while (stream->made == stream->taken)
    wait_or_help(stream);
  pthread_mutex_unlock(&stream->lock);
  return piece;
}

static void free_piece(gconv_png_stream *stream) {
  stream->line_in_piece = 0;
  pthread_mutex_lock(&stream->lock);
  stream->taken++;
  pthread_cond_signal(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
}

/* ---- Rows ---- */

/* Rows of one piece on their way to the caller. */
struct rows_wanted {
  gconv_png_stream *stream;
  const struct piece *piece;
  uint8_t *rows;
  size_t row_bytes, count;
  bool right;
};

static bool unfilter(gconv_png_stream *stream, const uint8_t *line, const uint8_t *above, uint8_t *row) {
  if (line[0] >= GCONV_PNG_FILTERS)
    return false;
  gconv_png_unfilter_row(line[0], line + 1, above, stream->line_bytes - 1, stream->pixel, row);
  return true;
}

/* Rows that are pixels: each lies where the next one finds it, above. */
static bool unfilter_pixels(gconv_png_stream *stream, const struct rows_wanted *wanted, const uint8_t *line) {
  const size_t bytes = stream->line_bytes - 1;
  const uint8_t *above = stream->above;
  uint8_t *row = wanted->rows;
  for (size_t i = 0; i < wanted->count; i++, line += bytes + 1, row += wanted->row_bytes) {
    if (!unfilter(stream, line, above, row))
      return false;
    if (stream->swap && i > 0) /* the row before has served as the one above */
      gconv_swap_bytes(row - wanted->row_bytes, bytes / 2, 2);
    above = row;
  }
  memcpy(stream->above, above, bytes);
  if (stream->swap)
    gconv_swap_bytes(row - wanted->row_bytes, bytes / 2, 2);
  return true;
}

/* Rows that become pixels. */
static bool unfilter_samples(gconv_png_stream *stream, const struct rows_wanted *wanted, const uint8_t *line) {
  const size_t width = (size_t)stream->reader->header.width;
  for (size_t i = 0; i < wanted->count; i++, line += stream->line_bytes) {
    if (!unfilter(stream, line, stream->above, stream->row) ||
        !gconv_png_expand_row(stream->samples, stream->row, width, wanted->rows + i * wanted->row_bytes))
      return false;
    uint8_t *row = stream->row;
    stream->row = stream->above;
    stream->above = row;
  }
  return true;
}

/* A turn. */
static void unfilter_rows(void *context, size_t turn, int seat) {
  struct rows_wanted *wanted = context;
  gconv_png_stream *stream = wanted->stream;
  (void)turn;
  (void)seat;
  const uint8_t *line = wanted->piece->lines + stream->line_in_piece * stream->line_bytes;
  stream->adler = gconv_adler32(stream->adler, line, wanted->count * stream->line_bytes);
  stream->lines_taken += wanted->count;
  if (stream->lines_taken == stream->height && stream->adler != stream->right_adler)
    return;
  wanted->right = stream->samples ? unfilter_samples(stream, wanted, line) : unfilter_pixels(stream, wanted, line);
}

bool gconv_png_stream_rows(gconv_png_stream *stream, uint8_t *rows, size_t row_bytes, int32_t count) {
  for (size_t left = (size_t)count, some; left > 0; left -= some, rows += some * row_bytes) {
    const struct piece *piece = current_piece(stream);
    some = piece->count - stream->line_in_piece;
    some = some < left ? some : left;
    struct rows_wanted wanted = {stream, piece, rows, row_bytes, some, false};
    if (piece->right)
      do_in_turn(stream, unfilter_rows, &wanted);
    if (!wanted.right)
      return false;
    stream->line_in_piece += some;
    if (stream->line_in_piece == piece->count)
      free_piece(stream);
  }
  return true;
}

/* ---- Beginning and end ---- */

static bool allocate(gconv_png_stream *stream) {
  size_t bytes = GCONV_INFLATE_WINDOW + stream->piece_lines * stream->line_bytes + GCONV_INFLATE_BEYOND;
  void *memory;
  for (size_t i = 0; i < stream->count; i++) {
    if (gconv_allocate(bytes, "lines of a PNG", &memory) != GCONV_OK)
      return false;
    stream->pieces[i].memory = memory;
    stream->pieces[i].lines = stream->pieces[i].memory + GCONV_INFLATE_WINDOW;
  }
  if (gconv_allocate(stream->line_bytes, "a row of a PNG", &memory) != GCONV_OK)
    return false;
  stream->above = memset(memory, 0, stream->line_bytes);
  if (stream->samples && gconv_allocate(stream->line_bytes, "a row of a PNG", &memory) == GCONV_OK)
    stream->row = memory;
  return !stream->samples || stream->row;
}

/* A second thread, and more for a large image. */
static void start_threads(gconv_png_stream *stream, int threads) {
  bool small = stream->piece_lines >= stream->height; /* one piece: nothing to do ahead */
  stream->threaded = threads > 1 && !small && pthread_create(&stream->thread, NULL, inflate_ahead, stream) == 0;
  size_t helpers = stream->height * stream->line_bytes / BYTES_PER_HELPER;
  while (stream->threaded && stream->helpers + 2 < threads && stream->helpers < MOST_HELPERS &&
         (size_t)stream->helpers < helpers &&
         pthread_create(&stream->helper[stream->helpers], NULL, help_all_along, stream) == 0)
    stream->helpers++;
}

static void measure_lines(gconv_png_stream *stream, int threads) {
  const gconv_image *header = &stream->reader->header;
  size_t row_bytes = gconv_image_row_bytes(&stream->reader->header);
  stream->pixel = (size_t)header->channels * gconv_type_bytes(header->type);
  if (stream->samples) {
    row_bytes = ((size_t)header->width * (size_t)stream->samples->depth + 7) / 8;
    stream->pixel = 1;
  }
  stream->line_bytes = row_bytes + 1;
  stream->height = (size_t)header->height;
  stream->swap = header->type == GCONV_U16 && !gconv_host_is_big_endian();
  stream->piece_lines = PIECE_BYTES / stream->line_bytes + 1;
  if (stream->piece_lines > stream->height)
    stream->piece_lines = stream->height;
  size_t most = threads > 1 && stream->line_bytes < LONG_LINE ? PIECES : FEWEST,
         all = (stream->height - 1) / stream->piece_lines + 1;
  stream->count = all < most ? all : most;
}

gconv_png_stream *gconv_png_stream_open(gconv_reader *reader, const gconv_png_samples *samples, uint32_t first_bytes) {
  gconv_png_stream *stream = gconv_image_row_bytes(&reader->header) < MOST_ROW_BYTES ? calloc(1, sizeof *stream) : NULL;
  if (!stream)
    return NULL;
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->changed, NULL);
  stream->reader = reader;
  stream->samples = samples;
  stream->adler = 1;
  int threads = gconv_threads_allowed(reader->threads);
  threads = threads < MOST_HELPERS + 2 ? threads : MOST_HELPERS + 2;
  measure_lines(stream, threads);
  stream->inflate = gconv_png_inflate_open(reader->source, first_bytes, threads);
  if (!stream->inflate || !allocate(stream)) {
    gconv_png_stream_close(stream);
    return NULL;
  }
  start_threads(stream, threads);
  return stream;
}

void gconv_png_stream_close(gconv_png_stream *stream) {
  if (!stream)
    return;
  if (stream->threaded) {
    pthread_mutex_lock(&stream->lock);
    stream->quit = true;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    gconv_png_inflate_quit(stream->inflate);
    pthread_join(stream->thread, NULL);
    for (int i = 0; i < stream->helpers; i++)
      pthread_join(stream->helper[i], NULL);
  }
  gconv_png_inflate_close(stream->inflate);
  for (size_t i = 0; i < stream->count; i++)
    gconv_release(stream->pieces[i].memory);
  gconv_release(stream->above);
  gconv_release(stream->row);
  pthread_cond_destroy(&stream->changed);
  pthread_mutex_destroy(&stream->lock);
  free(stream);
}

/* SPDX-License-Identifier: MIT */
#include "image/png_stream.h"

#ifndef GCONV_WITH_ISAL

gconv_png_stream *gconv_png_stream_open(gconv_reader *reader, uint32_t first_bytes) {
  (void)reader, (void)first_bytes;
  return NULL;
}

bool gconv_png_stream_rows(gconv_png_stream *stream, uint8_t *rows, size_t row_bytes, int32_t count) {
  (void)stream, (void)rows, (void)row_bytes, (void)count;
  return false;
}

void gconv_png_stream_close(gconv_png_stream *stream) {
  (void)stream;
}

#else

#include "base/checksum.h"
#include "base/threads.h"
#include "image/png_filter.h"

#include <isa-l/igzip_lib.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
  INPUT_BYTES = 128 * 1024,
  PIECE_BYTES = 256 * 1024, /* lines that are inflated at a time */
  PIECES = 4,               /* in memory: one is unfiltered, others wait or are made */
  MOST_LINE_BYTES = 1 << 28,
  MOST_CHUNK_BYTES = 1 << 20, /* of what may follow the pixels */
};

/* Whole lines, each a filter's number and its differences. */
struct piece {
  uint8_t *lines;
  size_t count;
  bool right;
};

struct gconv_png_stream {
  gconv_reader *reader;
  size_t row_bytes, pixel, height;
  bool swap;

  /* The inflating side: the thread's own while it runs. */
  struct inflate_state inflate;
  uint8_t input[INPUT_BYTES];
  size_t chunk_left; /* of the IDAT chunk */
  uint32_t crc;
  bool begun; /* the head of the zlib stream was seen */
  size_t lines_made;
  size_t piece_lines;
  struct piece *making;

  /* The unfiltering side. */
  uint8_t *above; /* the last row, as the file has it */
  size_t line_in_piece;

  struct piece pieces[PIECES]; /* by turns; those from `taken` on, below `made`, are the unfiltering side's */
  bool threaded;
  pthread_t thread;
  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t changed;
  size_t made, taken;
  bool quit;
};

/* ---- Chunks ---- */

static uint32_t be32_at(const uint8_t *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool read_bytes(gconv_png_stream *stream, void *bytes, size_t size) {
  size_t got = 0;
  return gconv_source_read(stream->reader->source, bytes, size, &got) == GCONV_OK && got == size;
}

static bool end_chunk(gconv_png_stream *stream) {
  uint8_t crc[4];
  return read_bytes(stream, crc, sizeof crc) && be32_at(crc) == stream->crc;
}

/* Reads the length and the type of a chunk, whose CRC begins. */
static bool begin_chunk(gconv_png_stream *stream, uint8_t type[4]) {
  uint8_t head[8];
  if (!read_bytes(stream, head, sizeof head))
    return false;
  stream->chunk_left = be32_at(head);
  memcpy(type, head + 4, 4);
  stream->crc = gconv_crc32(0, type, 4);
  return stream->chunk_left <= INT32_MAX;
}

static bool is_type(const uint8_t type[4], const char *name) {
  return memcmp(type, name, 4) == 0;
}

/* Gives inflate() more of the IDAT chunks. False where they end: the pixels have not, yet. */
static bool feed(gconv_png_stream *stream) {
  uint8_t type[4];
  while (stream->chunk_left == 0)
    if (!end_chunk(stream) || !begin_chunk(stream, type) || !is_type(type, "IDAT"))
      return false;
  size_t size = stream->chunk_left < INPUT_BYTES ? stream->chunk_left : INPUT_BYTES;
  if (!read_bytes(stream, stream->input, size))
    return false;
  stream->crc = gconv_crc32(stream->crc, stream->input, size);
  stream->chunk_left -= size;
  stream->inflate.next_in = stream->input;
  stream->inflate.avail_in = (uint32_t)size;
  if (stream->begun)
    return true;
  /* zlib holds distances to the window that is announced; ISA-L might not: so only the full window is taken. */
  stream->begun = true;
  return size >= 2 && stream->input[0] == 0x78 && (stream->input[0] << 8 | stream->input[1]) % 31 == 0 &&
         !(stream->input[1] & 0x20);
}

/* Skips chunks that say nothing of pixels, to the end of the file's last one, IEND. All others are libpng's. */
static bool skip_to_end(gconv_png_stream *stream) {
  uint8_t type[4];
  for (;;) {
    if (!end_chunk(stream) || !begin_chunk(stream, type))
      return false;
    bool text = is_type(type, "tEXt") || is_type(type, "zTXt") || is_type(type, "iTXt") || is_type(type, "tIME");
    if (is_type(type, "IEND"))
      return stream->chunk_left == 0 && end_chunk(stream);
    if (!text || stream->chunk_left > MOST_CHUNK_BYTES)
      return false;
    for (size_t size; stream->chunk_left > 0; stream->chunk_left -= size) {
      size = stream->chunk_left < INPUT_BYTES ? stream->chunk_left : INPUT_BYTES;
      if (!read_bytes(stream, stream->input, size))
        return false;
      stream->crc = gconv_crc32(stream->crc, stream->input, size);
    }
  }
}

/* ---- Inflating ---- */

static bool inflate_exactly(gconv_png_stream *stream, uint8_t *out, size_t size) {
  struct inflate_state *inflate = &stream->inflate;
  inflate->next_out = out;
  inflate->avail_out = (uint32_t)size;
  while (inflate->avail_out > 0) {
    if (inflate->block_state == ISAL_BLOCK_FINISH || (inflate->avail_in == 0 && !feed(stream)))
      return false;
    if (isal_inflate(inflate) != ISAL_DECOMP_OK)
      return false;
  }
  return true;
}

/* After the last line: nothing but the checksum, which must be right, and the end. */
static bool inflate_end(gconv_png_stream *stream) {
  struct inflate_state *inflate = &stream->inflate;
  uint8_t more;
  inflate->next_out = &more;
  inflate->avail_out = 1;
  while (inflate->block_state != ISAL_BLOCK_FINISH) {
    if (isal_inflate(inflate) != ISAL_DECOMP_OK || inflate->avail_out == 0)
      return false;
    if (inflate->block_state != ISAL_BLOCK_FINISH && inflate->avail_in == 0 && !feed(stream))
      return false;
  }
  return inflate->avail_out == 1 && inflate->avail_in == 0 && stream->chunk_left == 0 && skip_to_end(stream);
}

/* A turn. */
static void inflate_piece(void *context, size_t turn, int seat) {
  gconv_png_stream *stream = context;
  struct piece *piece = stream->making;
  (void)turn;
  (void)seat;
  size_t left = stream->height - stream->lines_made;
  piece->count = left < stream->piece_lines ? left : stream->piece_lines;
  piece->right = inflate_exactly(stream, piece->lines, piece->count * (stream->row_bytes + 1));
  stream->lines_made += piece->count;
  if (piece->right && stream->lines_made == stream->height)
    piece->right = inflate_end(stream);
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

static void *inflate_ahead(void *argument) {
  gconv_png_stream *stream = argument;
  for (bool more = true; more;) {
    pthread_mutex_lock(&stream->lock);
    while (!stream->quit && stream->made == stream->taken + PIECES)
      pthread_cond_wait(&stream->changed, &stream->lock);
    bool quit = stream->quit;
    struct piece *piece = &stream->pieces[stream->made % PIECES];
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

/* The piece whose lines are next. */
static const struct piece *current_piece(gconv_png_stream *stream) {
  struct piece *piece = &stream->pieces[stream->taken % PIECES];
  if (!stream->threaded) {
    if (stream->made == stream->taken) {
      make_piece(stream, piece);
      stream->made++;
    }
    return piece;
  }
  pthread_mutex_lock(&stream->lock);
  while (stream->made == stream->taken)
    pthread_cond_wait(&stream->changed, &stream->lock);
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

/* A turn. */
static void unfilter_rows(void *context, size_t turn, int seat) {
  struct rows_wanted *wanted = context;
  gconv_png_stream *stream = wanted->stream;
  (void)turn;
  (void)seat;
  const uint8_t *line = wanted->piece->lines + stream->line_in_piece * (stream->row_bytes + 1), *above = stream->above;
  for (size_t i = 0; i < wanted->count; i++, line += stream->row_bytes + 1) {
    uint8_t *row = wanted->rows + i * wanted->row_bytes;
    if (line[0] >= GCONV_PNG_FILTERS)
      return;
    gconv_png_unfilter_row(line[0], line + 1, above, stream->row_bytes, stream->pixel, row);
    if (stream->swap && i > 0) /* the row before has served as the one above */
      gconv_swap_bytes(row - wanted->row_bytes, stream->row_bytes / 2, 2);
    above = row;
  }
  memcpy(stream->above, above, stream->row_bytes);
  if (stream->swap)
    gconv_swap_bytes(wanted->rows + (wanted->count - 1) * wanted->row_bytes, stream->row_bytes / 2, 2);
  wanted->right = true;
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
  void *memory;
  for (int i = 0; i < PIECES; i++) {
    if (gconv_allocate(stream->piece_lines * (stream->row_bytes + 1), "lines of a PNG", &memory) != GCONV_OK)
      return false;
    stream->pieces[i].lines = memory;
  }
  if (gconv_allocate(stream->row_bytes, "a row of a PNG", &memory) != GCONV_OK)
    return false;
  stream->above = memset(memory, 0, stream->row_bytes);
  return true;
}

static void begin_inflate(gconv_png_stream *stream, uint32_t first_bytes) {
  isal_inflate_init(&stream->inflate);
  stream->inflate.crc_flag = ISAL_ZLIB;
  stream->chunk_left = first_bytes;
  stream->crc = gconv_crc32(0, "IDAT", 4);
  bool small = stream->piece_lines >= stream->height; /* one piece: nothing to do ahead */
  stream->threaded =
      stream->reader->threads != 1 && !small && pthread_create(&stream->thread, NULL, inflate_ahead, stream) == 0;
}

gconv_png_stream *gconv_png_stream_open(gconv_reader *reader, uint32_t first_bytes) {
  size_t row_bytes = gconv_reader_row_bytes(reader);
  gconv_png_stream *stream = row_bytes < MOST_LINE_BYTES ? calloc(1, sizeof *stream) : NULL;
  if (!stream)
    return NULL;
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->changed, NULL);
  stream->reader = reader;
  stream->row_bytes = row_bytes;
  stream->pixel = (size_t)reader->header.channels * gconv_type_bytes(reader->header.type);
  stream->height = (size_t)reader->header.height;
  stream->swap = reader->header.type == GCONV_U16 && !gconv_host_is_big_endian();
  stream->piece_lines = PIECE_BYTES / (row_bytes + 1) + 1;
  if (stream->piece_lines > stream->height)
    stream->piece_lines = stream->height;
  if (!allocate(stream)) {
    gconv_png_stream_close(stream);
    return NULL;
  }
  begin_inflate(stream, first_bytes);
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
    pthread_join(stream->thread, NULL);
  }
  for (int i = 0; i < PIECES; i++)
    gconv_release(stream->pieces[i].lines);
  gconv_release(stream->above);
  pthread_cond_destroy(&stream->changed);
  pthread_mutex_destroy(&stream->lock);
  free(stream);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Writes PNG on all processors.
 *
 * The rows are cut into strips. How many rows a strip has depends on the image alone. png_encode.c makes an IDAT chunk of
 * each strip by itself: its blocks of deflate end at a byte, so that all chunks together are one stream. Threads take strips
 * in turn, and hand them in to be written in order. So the file is the same for any number of threads, and few strips are in
 * memory at a time.
 */
#include "base/checksum.h"
#include "base/element.h"
#include "base/threads.h"
#include "image/png.h"
#include "image/png_encode.h"
#include "image/png_metadata.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
  MOST_ROW_BYTES = 1 << 30, /* a strip fits into a chunk, and its sizes into zlib's 32 bits */
  SLOTS_PER_THREAD = 2,     /* one is worked on, one waits for its turn to be written */
};

/* A strip that is compressed, or waits to be written. */
struct slot {
  uint8_t *chunk; /* the whole IDAT */
  size_t chunk_bytes, line_bytes;
  uint32_t adler;
  bool ready; /* the chunk waits to be written */
};

struct state {
  gconv_writer *writer;
  gconv_threads *pool;                /* NULL: no threads but the caller's */
  bool shared;                        /* the pool belongs to the caller */
  gconv_png_strip_encoder **encoders; /* one a thread */
  struct slot *slots;
  int threads;
  size_t slot_count;
  gconv_png_shape shape;
  size_t height;

  size_t rows_taken; /* rows of the image that are done */
  uint8_t *above;    /* the last row compressed; zeros at first */
  uint8_t *held;     /* rows that wait for others; NULL until there are any */
  size_t held_rows, held_room;

  /* The rows being compressed. */
  const uint8_t *rows;
  size_t stride, row_count;

  pthread_mutex_t lock; /* guards all below, and slot.ready */
  pthread_cond_t written_more;
  bool writing;   /* a thread is writing, without the lock */
  size_t written; /* strips of these rows that are written */
  uint32_t adler; /* Adler-32 of all lines written; only the thread that writes uses it */
  gconv_status status;
  char error[512];
};

/* Writes a chunk of at most 16 bytes of data. */
static gconv_status write_small_chunk(gconv_writer *writer, const char *type, const uint8_t *bytes, size_t size) {
  uint8_t chunk[GCONV_PNG_CHUNK_HEAD + 16 + GCONV_PNG_CHUNK_TAIL];
  if (size > 0)
    memcpy(chunk + GCONV_PNG_CHUNK_HEAD, bytes, size);
  return gconv_sink_write(writer->sink, chunk, gconv_png_frame_chunk(chunk, type, size));
}

/* Makes the chunk of a strip that begins at row `begin` of the rows being compressed. */
static void make_chunk(const struct state *state, struct slot *slot, gconv_png_strip_encoder *encoder, size_t begin) {
  size_t left = state->row_count - begin, first_row = state->rows_taken + begin;
  gconv_png_rows rows = {.rows = state->rows + begin * state->stride, .stride = state->stride, .first = first_row == 0};
  rows.above = begin == 0 ? state->above : rows.rows - state->stride;
  rows.count = left < state->shape.strip_rows ? left : state->shape.strip_rows;
  rows.last = first_row + rows.count == state->height;
  slot->chunk_bytes = gconv_png_encode_strip(encoder, &rows, slot->chunk, &slot->adler);
  slot->line_bytes = rows.count * (state->shape.row_bytes + 1);
}

/* ---- Strips in order ---- */

/* Waits until the slot of strip `turn` is free; false after a failure. The strip that is next in order never waits. */
static bool wait_for_slot(struct state *state, size_t turn) {
  pthread_mutex_lock(&state->lock);
  while (state->status == GCONV_OK && turn >= state->written + state->slot_count)
    pthread_cond_wait(&state->written_more, &state->lock);
  bool go = state->status == GCONV_OK;
  pthread_mutex_unlock(&state->lock);
  return go;
}

/* Writes the next strip in order. Called with the lock held, and releases it while it writes. */
static void write_strip(struct state *state, struct slot *slot) {
  pthread_mutex_unlock(&state->lock);
  gconv_status status = gconv_sink_write(state->writer->sink, slot->chunk, slot->chunk_bytes);
  state->adler = gconv_adler32_combine(state->adler, slot->adler, slot->line_bytes);
  pthread_mutex_lock(&state->lock);
  if (status != GCONV_OK) { /* the error text is this thread's; the caller may be another thread */
    state->status = status;
    strncpy(state->error, gconv_last_error(), sizeof state->error - 1);
  }
  slot->ready = false;
  state->written++;
  pthread_cond_broadcast(&state->written_more);
}

/* Hands in a strip. One thread writes while others compress: if a thread is writing, the strip is left to it. */
static void hand_in(struct state *state, struct slot *slot) {
  pthread_mutex_lock(&state->lock);
  slot->ready = true;
  if (!state->writing) {
    state->writing = true;
    while (state->status == GCONV_OK && state->slots[state->written % state->slot_count].ready)
      write_strip(state, &state->slots[state->written % state->slot_count]);
    state->writing = false;
  }
  pthread_mutex_unlock(&state->lock);
}

static void do_strip(void *context, size_t turn, int thread) {
  struct state *state = context;
  struct slot *slot = &state->slots[turn % state->slot_count];
  if (!wait_for_slot(state, turn))
    return;
  make_chunk(state, slot, state->encoders[thread], turn * state->shape.strip_rows);
  hand_in(state, slot);
}

/* Compresses and writes rows. They begin where a strip begins, and end where one ends. */
static gconv_status write_strips(struct state *state, const uint8_t *rows, size_t stride, size_t count) {
  size_t strips = (count - 1) / state->shape.strip_rows + 1;
  state->rows = rows;
  state->stride = stride;
  state->row_count = count;
  state->written = 0;
  if (state->pool)
    gconv_threads_run(state->pool, strips, do_strip, state);
  for (size_t turn = 0; !state->pool && turn < strips; turn++)
    do_strip(state, turn, 0);
  if (state->status != GCONV_OK)
    return gconv_fail(state->status, "%s", state->error);
  memcpy(state->above, rows + (count - 1) * stride, state->shape.row_bytes);
  state->rows_taken += count;
  return GCONV_OK;
}

/* ---- Beginning ---- */

static gconv_status find_threads(struct state *state) {
  size_t strips = (state->height - 1) / state->shape.strip_rows + 1;
  int threads = state->writer->options->threads;
  state->pool = state->writer->options->shared;
  state->shared = state->pool != NULL;
  if (state->shared)
    return GCONV_OK;
  threads = gconv_threads_allowed(threads);
  if ((size_t)threads > strips)
    threads = (int)strips;
  return threads > 1 ? gconv_threads_create(threads, &state->pool) : GCONV_OK;
}

/* Makes threads and memory for compressing. Called only when rows come as samples: a GPU may make all chunks. */
static gconv_status prepare_to_compress(struct state *state) {
  if (state->slots)
    return GCONV_OK;
  GCONV_TRY(find_threads(state));
  state->threads = state->pool ? gconv_threads_count(state->pool) : 1;
  state->slot_count = state->threads > 1 ? SLOTS_PER_THREAD * (size_t)state->threads : 1;
  state->held_room = state->shape.strip_rows * (size_t)state->threads;
  state->slots = calloc(state->slot_count, sizeof *state->slots);
  state->encoders = calloc((size_t)state->threads, sizeof *state->encoders);
  GCONV_NEED_MEMORY(state->slots && state->encoders, "no memory for a PNG");
  for (int i = 0; i < state->threads; i++)
    GCONV_TRY(gconv_png_strip_encoder_create(&state->shape, &state->encoders[i]));
  for (size_t i = 0; i < state->slot_count; i++) {
    GCONV_ALLOCATE(state->slots[i].chunk, gconv_png_strip_encoder_room(state->encoders[0]), "a strip of a PNG");
  }
  return GCONV_OK;
}

/* Returns whether samples are numbers of a palette. */
static bool has_palette(const gconv_writer *writer) {
  return writer->options->palette && writer->header->channels == 1 && writer->header->type == GCONV_U8;
}

/* Writes all 256 colours, as samples may be any number. */
static gconv_status write_palette(gconv_writer *writer) {
  uint8_t chunk[GCONV_PNG_CHUNK_HEAD + sizeof writer->options->palette->colours + GCONV_PNG_CHUNK_TAIL];
  memcpy(chunk + GCONV_PNG_CHUNK_HEAD, writer->options->palette->colours, sizeof writer->options->palette->colours);
  return gconv_sink_write(writer->sink, chunk,
                          gconv_png_frame_chunk(chunk, "PLTE", sizeof writer->options->palette->colours));
}

static gconv_status write_header(gconv_writer *writer) {
  static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  static const uint8_t colours[] = {0, 4, 2, 6}; /* grey, grey + alpha, RGB, RGBA */
  const gconv_image *header = writer->header;
  uint8_t bytes[13] = {0}; /* the last three are 0: the one compression, the one set of filters, no interlacing */
  gconv_png_put_be32(bytes, (uint32_t)header->width);
  gconv_png_put_be32(bytes + 4, (uint32_t)header->height);
  bytes[8] = (uint8_t)(8 * gconv_type_bytes(header->type));
  bytes[9] = has_palette(writer) ? 3 : colours[header->channels - 1];
  GCONV_TRY(gconv_sink_write(writer->sink, signature, sizeof signature));
  return write_small_chunk(writer, "IHDR", bytes, sizeof bytes);
}

static gconv_status write_profile(gconv_writer *writer) {
  static const char name[] = "ICC profile\0"; /* the two zeros: the end of the name, and the method of compression */
  const gconv_image *header = writer->header;
  uLongf size = compressBound((uLong)header->icc_bytes);
  GCONV_FREED uint8_t *chunk = NULL;
  GCONV_ALLOCATE(chunk, GCONV_PNG_CHUNK_HEAD + sizeof name + size + GCONV_PNG_CHUNK_TAIL, "an ICC profile");
  uint8_t *bytes = chunk + GCONV_PNG_CHUNK_HEAD;
  memcpy(bytes, name, sizeof name);
  if (compress2(bytes + sizeof name, &size, header->icc, (uLong)header->icc_bytes, Z_DEFAULT_COMPRESSION) != Z_OK)
    return gconv_fail(GCONV_NO_MEMORY, "no memory to compress an ICC profile");
  return gconv_sink_write(writer->sink, chunk, gconv_png_frame_chunk(chunk, "iCCP", sizeof name + size));
}

static uint32_t resolution_of(double pixels_per_metre) {
  return pixels_per_metre < INT32_MAX ? (uint32_t)lround(pixels_per_metre) : INT32_MAX;
}

static gconv_status write_resolution(gconv_writer *writer) {
  const gconv_image *header = writer->header;
  uint8_t bytes[9];
  bool metres = header->pixels_per_metre_x > 0 && header->pixels_per_metre_y > 0;
  double least = header->unitless_x < header->unitless_y ? header->unitless_x : header->unitless_y;
  double scale = least < 1000 ? 1000 : 1; /* ratios need not be whole numbers */
  if (header->unitless_x == round(header->unitless_x) && header->unitless_y == round(header->unitless_y))
    scale = 1;
  gconv_png_put_be32(bytes, resolution_of(metres ? header->pixels_per_metre_x : scale * header->unitless_x));
  gconv_png_put_be32(bytes + 4, resolution_of(metres ? header->pixels_per_metre_y : scale * header->unitless_y));
  bytes[8] = metres; /* the unit: a metre, or none */
  return write_small_chunk(writer, "pHYs", bytes, sizeof bytes);
}

static gconv_status write_metadata(gconv_writer *writer) {
  const gconv_image *header = writer->header;
  if (header->icc)
    GCONV_TRY(write_profile(writer));
  if ((header->pixels_per_metre_x > 0 && header->pixels_per_metre_y > 0) || header->unitless_x > 0)
    GCONV_TRY(write_resolution(writer));
  return gconv_png_write_metadata(writer);
}

gconv_status gconv_png_start(gconv_writer *writer) {
  const gconv_image *header = writer->header;
  size_t pixel = (size_t)header->channels * gconv_type_bytes(header->type), row_bytes = (size_t)header->width * pixel;
  if (row_bytes > MOST_ROW_BYTES)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: rows of %zu bytes: this program writes PNG rows of up to a gigabyte",
                      writer->name, row_bytes);
  GCONV_TRY(gconv_format_state(sizeof(struct state), "a PNG", &writer->state));
  struct state *state = writer->state;
  pthread_mutex_init(&state->lock, NULL);
  pthread_cond_init(&state->written_more, NULL);
  state->writer = writer;
  state->height = (size_t)header->height;
  state->shape = (gconv_png_shape){.row_bytes = row_bytes, .pixel = pixel};
  state->shape.strip_rows = gconv_png_strip_rows(row_bytes + 1, state->height);
  state->shape.swap = header->type == GCONV_U16 && !gconv_host_is_big_endian();
  state->shape.level = writer->options->png_level == GCONV_PNG_STORED ? 0 : writer->options->png_level;
  state->adler = 1;
  void *above;
  GCONV_TRY(gconv_allocate(state->shape.row_bytes, "a row of a PNG", &above));
  state->above = memset(above, 0, state->shape.row_bytes);
  GCONV_TRY(write_header(writer));
  GCONV_TRY(write_metadata(writer));
  return has_palette(writer) ? write_palette(writer) : GCONV_OK;
}

/* ---- Rows ---- */

/* Copies rows to those held, as many as there is room for. Returns how many. */
static size_t hold(struct state *state, const uint8_t *rows, size_t stride, size_t count) {
  size_t room = state->held_room - state->held_rows, taken = count < room ? count : room;
  for (size_t i = 0; i < taken; i++)
    memcpy(state->held + (state->held_rows + i) * state->shape.row_bytes, rows + i * stride, state->shape.row_bytes);
  state->held_rows += taken;
  return taken;
}

/* Compresses whole strips, and the last strip, without a copy. Other rows are copied, and wait until there are enough to
 * keep all threads busy. */
gconv_status gconv_png_write_rows(gconv_writer *writer, const void *rows, size_t stride, int32_t row_count) {
  struct state *state = writer->state;
  const uint8_t *next = rows;
  GCONV_TRY(prepare_to_compress(state));
  for (size_t count = (size_t)row_count, taken; count > 0; count -= taken, next += taken * stride) {
    bool to_end = state->rows_taken + state->held_rows + count == state->height;
    if (state->held_rows == 0 && (count >= state->shape.strip_rows || to_end)) {
      taken = to_end ? count : count - count % state->shape.strip_rows;
      GCONV_TRY(write_strips(state, next, stride, taken));
      continue;
    }
    if (!state->held) {
      void *held;
      GCONV_TRY(gconv_allocate(state->held_room * state->shape.row_bytes, "rows of a PNG", &held));
      state->held = held;
    }
    taken = hold(state, next, stride, count);
    if (state->held_rows == state->held_room || (to_end && taken == count)) {
      GCONV_TRY(write_strips(state, state->held, state->shape.row_bytes, state->held_rows));
      state->held_rows = 0;
    }
  }
  return GCONV_OK;
}

/* Writes chunks that a GPU made as they are. Their last row is not known: samples that follow bring it in part->above. */
gconv_status gconv_png_write_part(gconv_writer *writer, const gconv_part *part) {
  struct state *state = writer->state;
  if (part->samples) {
    memcpy(state->above, part->above, state->shape.row_bytes);
    return gconv_png_write_rows(writer, part->samples, part->row_bytes, part->count);
  }
  if (state->held_rows > 0 && state->held_rows % state->shape.strip_rows == 0) {
    GCONV_TRY(write_strips(state, state->held, state->shape.row_bytes, state->held_rows));
    state->held_rows = 0;
  }
  if (state->shape.level != GCONV_PNG_FAST_LEVEL || state->held_rows > 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: takes chunks only of whole strips of level %d", writer->name,
                      GCONV_PNG_FAST_LEVEL);
  GCONV_TRY(gconv_sink_write(writer->sink, part->bytes, part->size));
  if (part->count > 0)
    state->adler = gconv_adler32_combine(state->adler, part->adler, (uint64_t)part->count * (state->shape.row_bytes + 1));
  state->rows_taken += (size_t)part->count;
  return GCONV_OK;
}

int32_t gconv_png_row_step(const gconv_writer *writer) {
  const struct state *state = writer->state;
  return (int32_t)state->shape.strip_rows;
}

gconv_status gconv_png_finish(gconv_writer *writer) {
  const struct state *state = writer->state;
  uint8_t adler[4];
  gconv_png_put_be32(adler, state->adler);
  GCONV_TRY(write_small_chunk(writer, "IDAT", adler, sizeof adler));
  return write_small_chunk(writer, "IEND", NULL, 0);
}

void gconv_png_end(gconv_writer *writer) {
  struct state *state = writer->state;
  if (!state)
    return;
  for (size_t i = 0; state->slots && i < state->slot_count; i++)
    gconv_release(state->slots[i].chunk);
  for (int i = 0; state->encoders && i < state->threads; i++)
    gconv_png_strip_encoder_free(state->encoders[i]);
  if (!state->shared)
    gconv_threads_free(state->pool);
  gconv_release(state->above);
  gconv_release(state->held);
  free(state->slots);
  free(state->encoders);
  pthread_cond_destroy(&state->written_more);
  pthread_mutex_destroy(&state->lock);
}

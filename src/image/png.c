/* SPDX-License-Identifier: MIT */
/*
 * PNG: every colour type and depth in, over libpng; what goes out is in png_write.c.
 *
 * libpng reports failures by longjmp(). So that no local variable lives across one, every call of it is made in a step, a
 * function that has all it needs in its session; run() is the only place that a failure can return to.
 */
#include "image/png.h"
#include "image/orientation.h"
#include "image/png_stream.h"

#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES_AHEAD = 12 << 20 }; /* what png_stream.c reads and inflates ahead, with two threads; and 4 rows */
enum { SRGB_GAMMA = 45455, GAMMA_SLACK = 1000 };

typedef struct png_session {
  png_structp png;
  png_infop info;
  jmp_buf failed;
  gconv_status status; /* why, after a jump */
  gconv_reader *reader;

  uint8_t last_head[8];     /* of a chunk: its length and type */
  gconv_png_stream *stream; /* which reads the rows; NULL: libpng does */
  bool goes_back;           /* which it read; libpng is to read them again */
  uint64_t pixels_begin;    /* where in the source */
  bool looked_up;           /* pixels, in: */
  gconv_png_samples samples;

  /* Arguments of the steps that read rows. */
  uint8_t *rows;
  size_t row_bytes;
  int32_t count;
} png_session;

typedef void png_step(png_session *session);

static gconv_status run(png_session *session, png_step *step) {
  session->status = GCONV_OK;
  if (setjmp(session->failed) == 0)
    step(session);
  return session->status;
}

static _Noreturn void fail(png_session *session, gconv_status status) {
  session->status = status;
  longjmp(session->failed, 1);
}

static _Noreturn void on_error(png_structp png, png_const_charp text) {
  png_session *session = png_get_error_ptr(png);
  fail(session, gconv_fail(GCONV_BAD_FILE, "%s: damaged PNG: %s", session->reader->source->name, text));
}

static void on_warning(png_structp png, png_const_charp text) {
  const png_session *session = png_get_error_ptr(png);
  gconv_remark("%s: PNG: %s", session->reader->source->name, text);
}

static void read_bytes(png_structp png, png_bytep bytes, size_t size) {
  png_session *session = png_get_io_ptr(png);
  gconv_status status = gconv_source_read_exactly(session->reader->source, bytes, size, "its PNG data");
  if (status != GCONV_OK)
    fail(session, status);
  if (size == sizeof session->last_head)
    memcpy(session->last_head, bytes, size);
}

static gconv_status create_session(gconv_reader *reader, png_session **result) {
  png_session *session = calloc(1, sizeof *session);
  if (!session)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a PNG");
  session->reader = reader;
  *result = session;
  session->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, session, on_error, on_warning);
  if (session->png)
    session->info = png_create_info_struct(session->png);
  if (!session->info)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a PNG");
  return GCONV_OK;
}

static bool sniff(const uint8_t *bytes, size_t size) {
  return size >= 8 && png_sig_cmp(bytes, 0, 8) == 0;
}

static void read_metadata(png_session *session) {
  gconv_image *header = &session->reader->header;
  png_uint_32 x, y, size;
  int unit, compression;
  if (png_get_pHYs(session->png, session->info, &x, &y, &unit) && unit == PNG_RESOLUTION_METER) {
    header->pixels_per_metre_x = x;
    header->pixels_per_metre_y = y;
  }
  png_charp name;
  png_bytep bytes;
  if (png_get_iCCP(session->png, session->info, &name, &compression, &bytes, &size)) {
    if (gconv_allocate(size, "an ICC profile", &header->icc) != GCONV_OK)
      fail(session, GCONV_NO_MEMORY);
    memcpy(header->icc, bytes, size);
    header->icc_bytes = size;
  }
  if (png_get_eXIf_1(session->png, session->info, &size, &bytes))
    session->reader->orientation = gconv_exif_orientation(bytes, size);
}

/* What the rows will be when read_image() has set its transformations. Only IHDR and tRNS matter; libpng's own answer is not
 * asked for, because for that it allocates rows. */
static void read_header(png_session *session) {
  static const uint8_t unused[] = "tEXt\0zTXt\0iTXt\0sPLT\0hIST"; /* passed over: a thousand of them could be large */
  png_structp png = session->png;
  gconv_image *header = &session->reader->header;
  png_set_read_fn(png, session, read_bytes);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* max_pixels is the limit, and it comes next */
  png_set_chunk_malloc_max(png, 16 << 20);                    /* ICC profiles of printers have up to 4 MB */
  png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, unused, (int)sizeof unused / 5);
  png_read_info(png, session->info);

  int colour = png_get_color_type(png, session->info), transparent = 0;
  png_get_tRNS(png, session->info, NULL, &transparent, NULL);
  header->type = png_get_bit_depth(png, session->info) == 16 ? GCONV_U16 : GCONV_U8;
  header->frames = 1;
  header->width = (int32_t)png_get_image_width(png, session->info);
  header->height = (int32_t)png_get_image_height(png, session->info);
  header->alpha = (colour & PNG_COLOR_MASK_ALPHA) || transparent > 0;
  header->channels = ((colour & PNG_COLOR_MASK_COLOR) ? 3 : 1) + header->alpha;
  session->reader->out_of_order = png_get_interlace_type(session->png, session->info) != PNG_INTERLACE_NONE;
  size_t row = gconv_image_row_bytes(header), pixels = row * (size_t)header->height, ahead = MOST_BYTES_AHEAD + 4 * row;
  size_t most = pixels + 2 * row; /* the row above, and one as the file has it */
  session->reader->bytes = most < ahead ? most : ahead;
  read_metadata(session);
}

static gconv_status open_png(gconv_reader *reader) {
  png_session *session = NULL;
  gconv_status status = create_session(reader, &session);
  reader->state = session;
  return status == GCONV_OK ? run(session, read_header) : status;
}

/* Viewers go by it where there is no profile. Told of images that are read, not of every look into a header. */
static void warn_of_gamma(const png_session *session) {
  const gconv_reader *reader = session->reader;
  png_fixed_point gamma; /* in 100,000ths */
  if (reader->rows_read == 0 || reader->again || reader->header.icc_bytes > 0 ||
      !png_get_gAMA_fixed(session->png, session->info, &gamma) ||
      (gamma >= SRGB_GAMMA - GAMMA_SLACK && gamma <= SRGB_GAMMA + GAMMA_SLACK))
    return;
  gconv_warn("%s: its gamma of %.3g is neither applied nor kept: viewers will take the result for sRGB, which is about %.3g",
             reader->source->name, gamma * 1e-5, SRGB_GAMMA * 1e-5);
}

static void close_png(gconv_reader *reader) {
  png_session *session = reader->state;
  if (session)
    warn_of_gamma(session);
  if (session)
    gconv_png_stream_close(session->stream);
  if (session)
    png_destroy_read_struct(&session->png, &session->info, NULL);
  free(session);
  reader->state = NULL;
}

/* Palettes, depths below 8 and tRNS are expanded; 16 bits become those of this machine. */
static void start_rows(png_session *session) {
  png_set_expand(session->png);
  if (!gconv_host_is_big_endian())
    png_set_swap(session->png);
  png_set_interlace_handling(session->png);
  png_read_update_info(session->png, session->info);
  if (png_get_rowbytes(session->png, session->info) != gconv_image_row_bytes(&session->reader->header))
    png_error(session->png, "rows of an unexpected size");
}

/* The last rows are read with all that follows them, so that a file that is cut there is not taken for a whole one. */
static void read_some_rows(png_session *session) {
  if (session->reader->rows_read == 0)
    start_rows(session);
  for (int32_t i = 0; i < session->count; i++)
    png_read_row(session->png, session->rows + (size_t)i * session->row_bytes, NULL);
  if (session->reader->rows_read + session->count == session->reader->header.height)
    png_read_end(session->png, NULL);
}

/* Each of the seven passes adds some pixels to some rows. */
static void read_interlaced(png_session *session) {
  start_rows(session);
  for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; pass++)
    for (int32_t y = 0; y < session->reader->header.height; y++)
      png_read_row(session->png, session->rows + (size_t)y * session->row_bytes, NULL);
  png_read_end(session->png, NULL);
}

static gconv_status read_all_interlaced(gconv_reader *reader, uint8_t *rows, size_t row_bytes) {
  png_session *session = reader->state;
  session->rows = rows;
  session->row_bytes = row_bytes;
  return run(session, read_interlaced);
}

/* ---- The common kinds, by a faster reader ---- */

static void add_palette(const png_session *session, gconv_png_samples *samples) {
  png_colorp colours;
  png_bytep alphas = NULL;
  int alpha_count = 0;
  samples->count = 0;
  png_get_PLTE(session->png, session->info, &colours, &samples->count);
  png_get_tRNS(session->png, session->info, &alphas, &alpha_count, NULL);
  for (int i = 0; i < samples->count && i < 256; i++) {
    uint8_t entry[4] = {colours[i].red, colours[i].green, colours[i].blue, i < alpha_count ? alphas[i] : 255};
    memcpy(samples->entries[i], entry, 4);
  }
}

static void add_greys(const png_session *session, gconv_png_samples *samples) {
  png_color_16p transparent = NULL;
  png_get_tRNS(session->png, session->info, NULL, NULL, &transparent);
  samples->count = 1 << samples->depth;
  for (int i = 0; i < samples->count; i++) {
    samples->entries[i][0] = (uint8_t)(i * 255 / (samples->count - 1));
    samples->entries[i][1] = transparent && (transparent->gray & (samples->count - 1)) == i ? 0 : 255;
  }
}

/* False for pixels that only libpng reads: interlaced ones, and those of 16 bits or of colours with tRNS. */
static bool find_samples(png_session *session) {
  int colour = png_get_color_type(session->png, session->info), depth = png_get_bit_depth(session->png, session->info);
  bool transparent = png_get_valid(session->png, session->info, PNG_INFO_tRNS), palette = colour == PNG_COLOR_TYPE_PALETTE;
  session->looked_up = palette || depth < 8 || (colour == PNG_COLOR_TYPE_GRAY && depth == 8 && transparent);
  session->samples.depth = depth;
  session->samples.channels = (size_t)session->reader->header.channels;
  if (palette)
    add_palette(session, &session->samples);
  else if (session->looked_up)
    add_greys(session, &session->samples);
  return png_get_interlace_type(session->png, session->info) == PNG_INTERLACE_NONE && (session->looked_up || !transparent);
}

/* libpng has read the head of the first IDAT chunk, and stands behind it. */
static void begin_stream(png_session *session) {
  const uint8_t *head = session->last_head;
  gconv_source *source = session->reader->source;
  if (!find_samples(session) || !gconv_source_can_rewind(source) || memcmp(head + 4, "IDAT", 4) != 0)
    return;
  session->pixels_begin = source->position;
  uint32_t first_bytes = (uint32_t)head[0] << 24 | (uint32_t)head[1] << 16 | (uint32_t)head[2] << 8 | head[3];
  session->stream = gconv_png_stream_open(session->reader, session->looked_up ? &session->samples : NULL, first_bytes);
}

/* The stream met something irregular: libpng reads it all again, and judges. */
static gconv_status go_back(png_session *session) {
  gconv_reader *reader = session->reader;
  session->goes_back = false;
  GCONV_TRY(gconv_source_rewind(reader->source, session->pixels_begin));
  void *row;
  GCONV_TRY(gconv_allocate(gconv_image_row_bytes(&reader->header), "a row of a PNG", &row));
  int64_t rows_read = reader->rows_read;
  gconv_status status = GCONV_OK;
  session->rows = row;
  session->count = 1;
  for (reader->rows_read = 0; reader->rows_read < rows_read && status == GCONV_OK; reader->rows_read++)
    status = run(session, read_some_rows);
  reader->rows_read = rows_read;
  gconv_release(row);
  return status;
}

static gconv_status read_by_libpng(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  png_session *session = reader->state;
  if (session->goes_back)
    GCONV_TRY(go_back(session));
  if (png_get_interlace_type(session->png, session->info) != PNG_INTERLACE_NONE)
    return gconv_reader_whole(reader, read_all_interlaced, rows, row_bytes, count);
  session->rows = rows;
  session->row_bytes = row_bytes;
  session->count = count;
  return run(session, read_some_rows);
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  png_session *session = reader->state;
  if (reader->rows_read == 0)
    begin_stream(session);
  if (session->stream && gconv_png_stream_rows(session->stream, rows, row_bytes, count))
    return GCONV_OK;
  session->goes_back = session->stream != NULL;
  gconv_png_stream_close(session->stream); /* on none of the shared threads, for which its own may be waiting */
  session->stream = NULL;
  return gconv_reader_in_turn(reader, read_by_libpng, rows, row_bytes, count);
}

const gconv_format gconv_format_png = {
    .info = {.name = "png",
             .extensions = "png",
             .help = "Portable Network Graphics: 8 and 16 bits, alpha, lossless",
             .reads = true,
             .writes = true,
             .holds = {true, true, false}},
    .alpha = true,
    .sniff = sniff,
    .open = open_png,
    .read_rows = read_rows,
    .close = close_png,
    .start = gconv_png_start,
    .write_rows = gconv_png_write_rows,
    .write_part = gconv_png_write_part,
    .threads = true,
    .row_step = gconv_png_row_step,
    .finish = gconv_png_finish,
    .end = gconv_png_end,
};

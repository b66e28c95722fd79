/* SPDX-License-Identifier: MIT */
/*
 * Reads PNG of every colour type and depth, by libpng; png_write.c writes PNG.
 *
 * A source may have several PNG files one after the other, as programs write them to pipes. They are read one by one, and
 * must have the shape of the first. Only the metadata of the first are kept.
 *
 * libpng reports failures by longjmp(). So that no local variable lives across a jump, every call of libpng is made in a
 * step: a function that has all it needs in its session. Every jump ends in run().
 */
#include "image/png.h"
#include "image/metadata.h"
#include "image/png_inflate.h"
#include "image/png_metadata.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SRGB_GAMMA = 45455, SLACK = 1000 }; /* in 100,000ths, as files have them */
enum {
  MOST_CHUNK = GCONV_MOST_METADATA, /* bytes that libpng may take for a chunk; ICC profiles of printers have up to 4 MB */
  MOST_EXPANSION = 1032,  /* zlib inflates a byte to at most this many: this bounds the ICC profile of a small file */
  LIBPNG_BYTES = 64 << 10 /* the most that libpng or zlib allocates at once for its own use */
};

typedef struct png_session {
  png_structp png;
  png_infop info;
  jmp_buf failed;
  gconv_status status; /* the error, after a jump */
  bool no_memory;      /* an allocation failed; libpng's text does not always say so */
  size_t most;         /* bytes that libpng may allocate at a time, while it reads the chunks before the rows */
  gconv_reader *reader;
  bool profile;        /* the file has an ICC profile */
  char icc_fault[100]; /* why libpng leaves the profile out; "": it is read, or there is none */
  bool has_code;       /* the file has a cICP chunk, which is `code` */
  uint8_t code[4];     /* primaries, curve, matrix, range */

  gconv_image header; /* header of the current image; the reader has the first image's */
  int32_t image;      /* number of the current image, from 0 */
  int32_t row;        /* next row of the current image to be read */
  uint64_t begin;     /* position of the current image in the source */
  uint64_t end;       /* in a file: the position after the current image; 0: not known */
  bool interlaced;
  uint8_t head[8];            /* the last 8 bytes that libpng read at once: after read_info(), the head of the first IDAT */
  bool plain;                 /* rows are in the file as in memory, except for the byte order */
  gconv_png_inflate *inflate; /* reads the rows; NULL: libpng does */
  bool again;                 /* libpng reads the file a second time, because `inflate` found something irregular */
  bool rows_begun;
  bool late;         /* metadata came after the pixels, through a pipe */
  int32_t rows_made; /* rows that libpng has made */

  /* Arguments of the steps that read rows. */
  uint8_t *rows;
  size_t row_bytes;
  int32_t count;
  bool numbers; /* samples are numbers of a palette */
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
  if (session->no_memory)
    fail(session, gconv_fail(GCONV_NO_MEMORY, "no memory for a PNG"));
  fail(session, gconv_fail(GCONV_BAD_FILE, "%s: damaged PNG: %s", session->reader->source->name, text));
}

static void on_warning(png_structp png, png_const_charp text) {
  png_session *session = png_get_error_ptr(png);
  if (strncmp(text, "iCCP: ", 6) == 0)
    snprintf(session->icc_fault, sizeof session->icc_fault, "%s", text + 6);
  if (session->again && !session->rows_begun) /* the first reading has given this warning */
    return;
  if (strncmp(text, "tRNS: ", 6) == 0)
    gconv_reader_note(session->reader, "its transparency (tRNS) is damaged: %s", text + 6);
  else
    gconv_remark("%s: PNG: %s", session->reader->source->name, text);
}

static void read_bytes(png_structp png, png_bytep bytes, size_t size) {
  png_session *session = png_get_io_ptr(png);
  gconv_status status = gconv_source_read_exactly(session->reader->source, bytes, size, "its PNG data");
  if (status != GCONV_OK)
    fail(session, status);
  if (size == sizeof session->head)
    memcpy(session->head, bytes, size);
}

static png_voidp allocate(png_structp png, png_alloc_size_t size) {
  png_session *session = png_get_mem_ptr(png);
  void *memory = size > session->most ? NULL : malloc(size);
  session->no_memory |= !memory && size <= session->most;
  return memory;
}

static void release(png_structp png, png_voidp memory) {
  free(memory);
}

static gconv_status create_png(png_session *session) {
  session->most = SIZE_MAX;
  session->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, session, on_error, on_warning, session, allocate, release);
  if (session->png)
    session->info = png_create_info_struct(session->png);
  GCONV_NEED_MEMORY(session->info, "no memory for a PNG");
  return GCONV_OK;
}

static void destroy_png(png_session *session) {
  png_destroy_read_struct(&session->png, &session->info, NULL);
  gconv_png_inflate_close(session->inflate);
  session->inflate = NULL;
}

static bool sniff(const uint8_t *bytes, size_t size) {
  return size >= 8 && png_sig_cmp(bytes, 0, 8) == 0;
}

static void read_metadata(png_session *session) {
  gconv_image *header = &session->reader->header;
  png_uint_32 x, y, size;
  int unit, compression;
  bool found = png_get_pHYs(session->png, session->info, &x, &y, &unit);
  if (found && unit == PNG_RESOLUTION_METER) {
    header->pixels_per_metre_x = x;
    header->pixels_per_metre_y = y;
  } else if (found) {
    gconv_metadata_set_unitless(header, x, y);
  }
  png_charp name;
  png_bytep bytes;
  session->profile = png_get_iCCP(session->png, session->info, &name, &compression, &bytes, &size) != 0;
  if (session->profile && gconv_reader_has_room(session->reader, size)) {
    if (gconv_metadata_set_icc(header, bytes, size) != GCONV_OK)
      fail(session, GCONV_NO_MEMORY);
    png_free_data(session->png, session->info, PNG_FREE_ICCP, 0);
  }
  if (!session->profile && session->icc_fault[0] && !session->again)
    gconv_reader_note(session->reader, "its ICC profile is left out: %s", session->icc_fault);
}

/* Returns the most memory that a chunk of this file can need. A chunk may promise any length: libpng would clear it all. */
static size_t most_of_chunk(const gconv_source *source) {
  uint64_t most = source->size < MOST_CHUNK / MOST_EXPANSION ? LIBPNG_BYTES + source->size * MOST_EXPANSION : MOST_CHUNK;
  return most < MOST_CHUNK ? (size_t)most : MOST_CHUNK;
}

/* Adds a note if the file is an animation (APNG): all pictures but the first are in chunks that libpng does not know. */
static void note_animation(gconv_reader *reader, const uint8_t *data, size_t size) {
  uint64_t pictures = size >= 4 ? gconv_bytes_number(data, 4, true) : 0;
  if (pictures > 1)
    gconv_reader_note(reader, "an animation (APNG) of %llu pictures: only the one that every program shows is read",
                      (unsigned long long)pictures);
}

/* Takes a chunk of metadata, or a chunk that is not read, from libpng. gconv_png_look_ahead() has taken metadata that follow
 * the pixels. It cannot do so in a pipe: there they come too late. */
static int take_chunk(png_structp png, png_unknown_chunkp chunk) {
  png_session *session = png_get_user_chunk_ptr(png);
  gconv_reader *reader = session->reader;
  const char *type = (const char *)chunk->name;
  if (!(chunk->name[0] & 0x20) && !session->rows_begun) /* capital: needed to show the picture */
    png_chunk_error(png, "unhandled critical chunk");
  if (session->again || session->image > 0)
    return 1;
  if (memcmp(type, "acTL", 4) == 0) {
    note_animation(reader, chunk->data, chunk->size);
  } else if (memcmp(type, "cICP", 4) == 0 && chunk->size == sizeof session->code) {
    memcpy(session->code, chunk->data, sizeof session->code);
    session->has_code = true;
  } else if (!session->rows_begun) {
    gconv_status status = gconv_png_take_chunk(reader, type, chunk->data, chunk->size);
    if (status != GCONV_OK)
      fail(session, status);
  } else if (!session->late && gconv_png_is_metadata(type, chunk->data, chunk->size)) {
    session->late = true;
    gconv_reader_note(reader, "EXIF, XMP or comments after its pixels are left out, and do not turn it: from a pipe they "
                              "come too late; name the file");
  }
  return 1;
}

static void read_info(png_session *session) {
  /* take_chunk() gets these one at a time: libpng would keep all, and a thousand of them could be large. */
  static const uint8_t own[] = GCONV_PNG_METADATA_CHUNKS "acTL\0cICP\0sPLT\0hIST\0pCAL\0sCAL\0bKGD\0sBIT\0oFFs";
  png_structp png = session->png;
  png_set_read_fn(png, session, read_bytes);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* max_pixels is the limit, and it comes next */
  png_set_chunk_malloc_max(png, MOST_CHUNK);
  png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_set_read_user_chunk_fn(png, session, take_chunk);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, own, (int)sizeof own / 5);
  session->most = most_of_chunk(session->reader->source);
  png_read_info(png, session->info);
  session->most = SIZE_MAX;
}

/* Sets the header to what rows will be after the transformations of start_rows(). Only IHDR and tRNS matter. libpng knows
 * the result only after it has allocated rows. */
static void read_header(png_session *session) {
  gconv_image *header = &session->header;
  read_info(session);
  png_structp png = session->png;
  *header = (gconv_image){0};
  int colour = png_get_color_type(png, session->info), transparent = 0;
  png_get_tRNS(png, session->info, NULL, &transparent, NULL);
  header->type = png_get_bit_depth(png, session->info) == 16 ? GCONV_U16 : GCONV_U8;
  header->frames = 1;
  header->width = (int32_t)png_get_image_width(png, session->info);
  header->height = (int32_t)png_get_image_height(png, session->info);
  header->alpha = (colour & PNG_COLOR_MASK_ALPHA) || transparent > 0;
  header->channels = ((colour & PNG_COLOR_MASK_COLOR) ? 3 : 1) + header->alpha;
  session->interlaced = png_get_interlace_type(png, session->info) != PNG_INTERLACE_NONE;
  session->plain = !session->interlaced && !(colour & PNG_COLOR_MASK_PALETTE) && !transparent &&
                   png_get_bit_depth(png, session->info) >= 8;
}

/* Sets what the first image of a file decides for all its images. */
static void take_header(gconv_reader *reader, const gconv_image *found) {
  gconv_image *header = &reader->header;
  header->type = found->type;
  header->frames = 1;
  header->width = found->width;
  header->height = found->height;
  header->channels = found->channels;
  header->alpha = found->alpha;
  reader->bytes = 3 * gconv_image_row_bytes(header) + gconv_png_inflate_bytes(header); /* libpng has two rows */
}

static gconv_status open_png(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(png_session), "a PNG", &reader->state));
  png_session *session = reader->state;
  session->reader = reader;
  session->begin = reader->source->position;
  GCONV_TRY(create_png(session));
  GCONV_TRY(run(session, read_header));
  take_header(reader, &session->header);
  reader->out_of_order = session->interlaced;
  GCONV_TRY(run(session, read_metadata));
  reader->open_ended = !gconv_source_can_rewind(reader->source);
  if (reader->open_ended)
    return GCONV_OK;
  GCONV_TRY(gconv_png_look_ahead(reader, png_get_uint_32(session->head), true, &session->end));
  return session->end > 0 ? gconv_reader_look_behind(reader, session->end, sniff) : GCONV_OK;
}

static bool is_near(png_fixed_point a, png_fixed_point b) {
  return a >= b - SLACK && a <= b + SLACK;
}

static bool has_other_primaries(const png_session *session) {
  static const png_fixed_point srgb[8] = {31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000};
  png_fixed_point found[8];
  bool other = false;
  if (!png_get_cHRM_fixed(session->png, session->info, &found[0], &found[1], &found[2], &found[3], &found[4], &found[5],
                          &found[6], &found[7]))
    return false;
  for (int i = 0; i < 8; i++)
    other |= !is_near(found[i], srgb[i]);
  return other;
}

/* Warns of colours that results do not keep. Without a profile, viewers go by the first of cICP, sRGB, and gAMA with cHRM
 * that the file has. Warns only if rows were read, not if only the header was. */
static void warn_of_colours(const png_session *session) {
  static const uint8_t srgb[] = {1, 13, 0};
  const gconv_reader *reader = session->reader;
  png_fixed_point gamma = SRGB_GAMMA;
  int intent;
  if (reader->rows_read == 0 || reader->again || session->profile)
    return;
  if (session->has_code) {
    if (memcmp(session->code, srgb, sizeof srgb) != 0)
      gconv_warn(
          "%s: its colours, of cICP %d/%d/%d, are not converted, and cICP is not kept: viewers will take the result for "
          "sRGB, which is 1/13/0",
          reader->source->name, session->code[0], session->code[1], session->code[2]);
    return;
  }
  if (png_get_sRGB(session->png, session->info, &intent))
    return;
  if (png_get_gAMA_fixed(session->png, session->info, &gamma) && !is_near(gamma, SRGB_GAMMA))
    gconv_warn(
        "%s: its gamma of %.3g is neither applied nor kept: viewers will take the result for sRGB, which is about %.3g",
        reader->source->name, gamma * 1e-5, SRGB_GAMMA * 1e-5);
  if (reader->header.channels >= 3 && has_other_primaries(session))
    gconv_warn("%s: its primaries (cHRM) differ from sRGB's, and are neither applied nor kept: viewers will take the "
               "result for sRGB",
               reader->source->name);
}

static void close_png(gconv_reader *reader) {
  png_session *session = reader->state;
  if (!session)
    return;
  warn_of_colours(session);
  destroy_png(session);
}

/* Does gconv_read_options.palette: rows will be numbers of a palette. */
static gconv_status take_palette(gconv_reader *reader, gconv_palette *palette) {
  png_session *session = reader->state;
  png_colorp colours = NULL;
  int count = 0;
  if (png_get_color_type(session->png, session->info) != PNG_COLOR_TYPE_PALETTE ||
      !png_get_PLTE(session->png, session->info, &colours, &count))
    return GCONV_OK;
  *palette = (gconv_palette){.count = count < 256 ? count : 256};
  for (int32_t i = 0; i < palette->count; i++) {
    palette->colours[i][0] = colours[i].red;
    palette->colours[i][1] = colours[i].green;
    palette->colours[i][2] = colours[i].blue;
  }
  session->numbers = true;
  reader->header.channels = 1;
  reader->header.alpha = false;
  return GCONV_OK;
}

/* Palettes, depths below 8 and tRNS are expanded; samples of 16 bits get the byte order of this machine. */
static void start_rows(png_session *session) {
  session->rows_begun = true;
  if (session->numbers)
    png_set_packing(session->png);
  else
    png_set_expand(session->png);
  if (!gconv_host_is_big_endian())
    png_set_swap(session->png);
  png_set_interlace_handling(session->png);
  png_read_update_info(session->png, session->info);
  if (png_get_rowbytes(session->png, session->info) != gconv_image_row_bytes(&session->reader->header))
    png_error(session->png, "rows of an unexpected size");
}

/* Reads what follows the pixels, so that a file that is cut there is refused. With `info`, libpng passes the chunks to
 * take_chunk(). Sources that can rewind do not need this: gconv_png_look_ahead() has read these chunks. */
static void read_end(png_session *session) {
  png_read_end(session->png, gconv_source_can_rewind(session->reader->source) ? NULL : session->info);
}

static void read_some_rows(png_session *session) {
  if (!session->rows_begun)
    start_rows(session);
  for (; session->rows_made < session->row; session->rows_made++) /* the second time: skips rows */
    png_read_row(session->png, NULL, NULL);
  for (int32_t i = 0; i < session->count; i++, session->rows_made++)
    png_read_row(session->png, session->rows + (size_t)i * session->row_bytes, NULL);
  if (session->rows_made == session->header.height)
    read_end(session);
}

/* Reads an image in seven passes, each of which adds some pixels to some rows. */
static void read_interlaced(png_session *session) {
  start_rows(session);
  for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; pass++)
    for (int32_t y = 0; y < session->header.height; y++)
      png_read_row(session->png, session->rows + (size_t)y * session->row_bytes, NULL);
  read_end(session);
}

static gconv_status read_by(png_session *session, png_step *step, uint8_t *rows, size_t row_bytes, int32_t count) {
  session->rows = rows;
  session->row_bytes = row_bytes;
  session->count = count;
  return run(session, step);
}

static gconv_status read_all_interlaced(gconv_reader *reader, uint8_t *rows, size_t row_bytes) {
  return read_by(reader->state, read_interlaced, rows, row_bytes, 0);
}

/* Lets libpng begin again at the beginning of the image. It then skips the rows that were read before. */
static gconv_status begin_again(png_session *session) {
  destroy_png(session);
  session->again = true;
  GCONV_TRY(gconv_source_rewind(session->reader->source, session->begin));
  GCONV_TRY(create_png(session));
  return run(session, read_info);
}

static gconv_status read_in_order(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  png_session *session = reader->state;
  if (session->row == 0 && session->plain)
    session->inflate = gconv_png_inflate_open(reader->source, png_get_uint_32(session->head), &reader->header);
  if (!session->inflate)
    return read_by(session, read_some_rows, rows, row_bytes, count);
  if (!gconv_png_inflate_rows(session->inflate, rows, row_bytes, count)) {
    GCONV_TRY(begin_again(session));
    return read_by(session, read_some_rows, rows, row_bytes, count);
  }
  size_t samples = gconv_image_row_bytes(&reader->header) / 2;
  bool swap = reader->header.type == GCONV_U16 && !gconv_host_is_big_endian();
  for (int32_t i = 0; swap && i < count; i++)
    gconv_swap_bytes((uint8_t *)rows + (size_t)i * row_bytes, samples, 2);
  return GCONV_OK;
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  png_session *session = reader->state;
  GCONV_TRY(session->interlaced ? gconv_reader_whole(reader, read_all_interlaced, rows, row_bytes, count)
                                : read_in_order(reader, rows, row_bytes, count));
  session->row += count;
  return GCONV_OK;
}

/* ---- Several images ---- */

/* Begins the image that the source has next. */
static gconv_status begin_image(png_session *session) {
  gconv_reader *reader = session->reader;
  destroy_png(session);
  session->begin = reader->source->position;
  session->rows_begun = session->again = false;
  session->rows_made = session->row = 0;
  session->image++;
  GCONV_TRY(create_png(session));
  GCONV_TRY(run(session, read_header));
  GCONV_TRY(gconv_reader_check_next(reader, session->image + 1, &session->header));
  if (session->interlaced != reader->out_of_order)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: image %d of it is %sinterlaced, the first is %s: divide them",
                      reader->source->name, session->image + 1, session->interlaced ? "" : "not ",
                      session->interlaced ? "not" : "so");
  bool file = gconv_source_can_rewind(reader->source);
  return file ? gconv_png_look_ahead(reader, png_get_uint_32(session->head), false, &session->end) : GCONV_OK;
}

static gconv_status next_image(gconv_reader *reader, bool *more) {
  png_session *session = reader->state;
  if (session->end > 0)
    GCONV_TRY(gconv_source_rewind(reader->source, session->end));
  GCONV_TRY(gconv_reader_look_for_next(reader, sniff, more));
  return *more ? begin_image(session) : GCONV_OK;
}

const gconv_format gconv_format_png = {
    .info = {.name = "png",
             .extensions = "png",
             .help = "Portable Network Graphics: 8 and 16 bits, alpha, lossless",
             .reads = true,
             .writes = true,
             .holds = {true, true, false},
             .level = true},
    .alpha = true,
    .metadata = GCONV_HOLDS_ALL | GCONV_HOLDS_WHOLE_ICC,
    .most_expansion = MOST_EXPANSION,
    .sniff = sniff,
    .open = open_png,
    .read_rows = read_rows,
    .next = next_image,
    .take_palette = take_palette,
    .close = close_png,
    .start = gconv_png_start,
    .write_rows = gconv_png_write_rows,
    .write_part = gconv_png_write_part,
    .threads = true,
    .row_step = gconv_png_row_step,
    .finish = gconv_png_finish,
    .end = gconv_png_end,
};

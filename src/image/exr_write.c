/* SPDX-License-Identifier: MIT */
/*
 * Writing OpenEXR: the channels R G B, or Y, with A, as floats, or half with --depth float16, in rows that ZIP compresses
 * without loss. Threads compress the chunks of a band, which are then written in their order: the file is the same for any
 * number of threads. Colours are multiplied by alpha, as readers of OpenEXR expect.
 */
#include "base/threads.h"
#include "image/colour.h"
#include "image/exr.h"

#include <string.h>

enum { CHUNK = 16 /* rows that ZIP compresses at a time */, MOST_CHUNKS = 64 };

typedef struct writing {
  const gconv_writer *writer;
  gconv_status status; /* of the sink */
  uint8_t *bytes;      /* owned: all bytes of the file, for a pipe */
  size_t size;
  exr_context_t file;
  exr_encode_pipeline_t chunks[MOST_CHUNKS];
  exr_result_t results[MOST_CHUNKS];
  gconv_threads *pool; /* NULL: no threads but the caller's */
  bool own_pool, ended;
  bool hidden;               /* a transparent pixel has colours */
  size_t sample_bytes, room; /* room: rows of the band */
  uint8_t *band;             /* owned: [room][width][channels], floats or halfs */
  float *row;                /* owned: a row of floats */
  int32_t first, count;      /* the first row of the band, and how many it has */
  gconv_elements_made made;
} writing;

/* Writes to the sink, or to memory if the sink cannot seek: the table of chunks, before all of them, is written last. */
static int64_t write_bytes(exr_const_context_t file, void *user, const void *from, uint64_t size, uint64_t offset,
                           exr_stream_error_func_ptr_t fail) {
  writing *w = user;
  if (w->ended || w->status != GCONV_OK)
    return -1;
  if (gconv_sink_can_seek(w->writer->sink)) {
    w->status = gconv_sink_write_at(w->writer->sink, offset, from, (size_t)size);
    return w->status == GCONV_OK ? (int64_t)size : -1;
  }
  const size_t end = (size_t)(offset + size), room = gconv_room(end);
  if (!w->bytes || (end > w->size && room > gconv_room(w->size))) {
    uint8_t *grown = realloc(w->bytes, room);
    if (!grown)
      return -1;
    w->bytes = grown;
  }
  memcpy(w->bytes + offset, from, (size_t)size);
  w->size = end > w->size ? end : w->size;
  return (int64_t)size;
}

static gconv_status check(const gconv_writer *writer, exr_result_t result) {
  const writing *w = writer->state;
  if (result == EXR_ERR_SUCCESS)
    return GCONV_OK;
  if (w->status != GCONV_OK)
    return w->status; /* its text is the last error */
  return gconv_fail(result == EXR_ERR_OUT_OF_MEMORY || result == EXR_ERR_WRITE_IO ? GCONV_NO_MEMORY : GCONV_UNSUPPORTED,
                    "%s: cannot be written as OpenEXR: %s", writer->name, gconv_exr.exr_get_default_error_message(result));
}

static bool is_half(const gconv_writer *writer) {
  return writer->options->store == GCONV_STORE_F16;
}

static double held_bytes(const gconv_image *header, const gconv_write_options *options, int how) {
  const double row = 3.0 * sizeof(float) * header->width * header->channels; /* in the band, packed and compressed */
  return row * CHUNK * gconv_threads_allowed(options->threads) +
         (how & GCONV_TO_PIPE ? 2 * gconv_image_frame_bytes(header) : 0);
}

/* Writes the header. */
static gconv_status begin(gconv_writer *writer) {
  writing *w = writer->state;
  const gconv_image *image = writer->header;
  static const char *const colours[] = {"R", "G", "B"};
  const exr_attr_box2i_t window = {{.x = 0, .y = 0}, {.x = image->width - 1, .y = image->height - 1}};
  const exr_attr_v2f_t centre = {.x = 0, .y = 0};
  const double x = image->pixels_per_metre_x, y = image->pixels_per_metre_y;
  const double aspect = x > 0 && y > 0 ? y / x : image->unitless_x > 0 ? image->unitless_y / image->unitless_x : 1;
  const exr_pixel_type_t type = is_half(writer) ? EXR_PIXEL_HALF : EXR_PIXEL_FLOAT;
  int part;
  GCONV_TRY(check(writer, gconv_exr.exr_add_part(w->file, NULL, EXR_STORAGE_SCANLINE, &part)));
  GCONV_TRY(check(writer, gconv_exr.exr_initialize_required_attr(w->file, part, &window, &window, (float)aspect, &centre, 1,
                                                                 EXR_LINEORDER_INCREASING_Y, EXR_COMPRESSION_ZIP)));
  for (int c = 0; c < image->channels; c++) {
    const char *name = image->channels % 2 == 0 && c == image->channels - 1 ? "A" : image->channels < 3 ? "Y" : colours[c];
    GCONV_TRY(check(writer, gconv_exr.exr_add_channel(w->file, part, name, type, EXR_PERCEPTUALLY_LOGARITHMIC, 1, 1)));
  }
  if (x > 0)
    GCONV_TRY(check(writer, gconv_exr.exr_attr_set_float(w->file, part, "xDensity", (float)(x * GCONV_EXR_INCH))));
  if (image->comment)
    GCONV_TRY(check(writer, gconv_exr.exr_attr_set_string(w->file, part, "comments", image->comment)));
  return check(writer, gconv_exr.exr_write_header(w->file));
}

static gconv_status start(gconv_writer *writer) {
  const gconv_image *image = writer->header;
  if (writer->options->store == GCONV_STORE_I16)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: exr holds float and float16, no int16: write .npy", writer->name);
  if (image->width > INT32_MAX / 4 / 4 / CHUNK)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: %d pixels in a row are too many for OpenEXR: write .tif", writer->name,
                      image->width);
  GCONV_TRY(gconv_format_state(sizeof(writing), "an OpenEXR", &writer->state));
  GCONV_TRY(gconv_exr_load(writer->name));
  writing *w = writer->state;
  w->writer = writer;
  w->sample_bytes = is_half(writer) ? 2 : sizeof(float);
  w->pool = writer->options->shared;
  const int wanted = (image->height - 1) / CHUNK + 1, allowed = gconv_threads_allowed(writer->options->threads);
  const int threads = w->pool ? gconv_threads_count(w->pool) : allowed < wanted ? allowed : wanted;
  w->own_pool = !w->pool && threads > 1;
  if (w->own_pool)
    GCONV_TRY(gconv_threads_create(threads, &w->pool));
  w->room = (size_t)CHUNK * (size_t)(threads < MOST_CHUNKS ? threads : MOST_CHUNKS);
  const size_t row = (size_t)image->width * (size_t)image->channels;
  GCONV_ALLOCATE(w->band, w->room * row * w->sample_bytes, "rows of an OpenEXR");
  GCONV_ALLOCATE(w->row, row * sizeof(float), "a row");
  exr_context_initializer_t functions = EXR_DEFAULT_CONTEXT_INITIALIZER;
  functions.error_handler_fn = gconv_exr_be_silent;
  functions.user_data = w;
  functions.write_fn = write_bytes;
  functions.zip_level = 1; /* at the library's default, floats take 2 to 3 times as long, and become no smaller */
  GCONV_TRY(check(writer, gconv_exr.exr_start_write(&w->file, writer->name, EXR_WRITE_FILE_DIRECTLY, &functions)));
  return begin(writer);
}

/* Stands in for the library's functions that write: the pipeline keeps the compressed bytes, and flush() writes them. */
static exr_result_t keep(exr_encode_pipeline_t *pipeline) {
  return EXR_ERR_SUCCESS;
}

static void encode_turn(void *context, size_t turn, int seat) {
  writing *w = context;
  const gconv_image *image = w->writer->header;
  exr_encode_pipeline_t *its = &w->chunks[turn];
  exr_chunk_info_t chunk;
  const size_t pixel = w->sample_bytes * (size_t)image->channels;
  exr_result_t result = gconv_exr.exr_write_scanline_chunk_info(w->file, 0, w->first + (int32_t)turn * CHUNK, &chunk);
  if (result == EXR_ERR_SUCCESS)
    result = gconv_exr.exr_encoding_initialize(w->file, 0, &chunk, its);
  for (int c = 0; c < its->channel_count && result == EXR_ERR_SUCCESS; c++) {
    const char name = its->channels[c].channel_name[0];
    const size_t place = name == 'A' ? (size_t)image->channels - 1 : name == 'G' ? 1 : name == 'B' ? 2 : 0;
    its->channels[c].encode_from_ptr = w->band + turn * CHUNK * pixel * (size_t)image->width + place * w->sample_bytes;
    its->channels[c].user_data_type = its->channels[c].data_type;
    its->channels[c].user_bytes_per_element = (int16_t)w->sample_bytes;
    its->channels[c].user_pixel_stride = (int32_t)pixel;
    its->channels[c].user_line_stride = (int32_t)pixel * image->width;
  }
  if (result == EXR_ERR_SUCCESS)
    result = gconv_exr.exr_encoding_choose_default_routines(w->file, 0, its);
  its->yield_until_ready_fn = its->write_fn = keep;
  if (result == EXR_ERR_SUCCESS)
    result = gconv_exr.exr_encoding_run(w->file, 0, its);
  w->results[turn] = result;
}

/* Compresses and writes the rows of the band. */
static gconv_status flush(gconv_writer *writer) {
  writing *w = writer->state;
  const size_t chunks = ((size_t)w->count + CHUNK - 1) / CHUNK;
  memset(w->chunks, 0, chunks * sizeof *w->chunks);
  if (w->pool)
    gconv_threads_run(w->pool, chunks, encode_turn, w);
  for (size_t turn = 0; !w->pool && turn < chunks; turn++)
    encode_turn(w, turn, 0);
  gconv_status status = GCONV_OK;
  for (size_t i = 0; i < chunks; i++) {
    exr_encode_pipeline_t *its = &w->chunks[i];
    const bool smaller = its->compressed_bytes < its->packed_bytes; /* readers take a chunk of full size for plain rows */
    GCONV_THEN(status, check(writer, w->results[i]));
    GCONV_THEN(status,
               check(writer, gconv_exr.exr_write_scanline_chunk(w->file, 0, w->first + (int32_t)i * CHUNK,
                                                                smaller ? its->compressed_buffer : its->packed_buffer,
                                                                smaller ? its->compressed_bytes : its->packed_bytes)));
    gconv_exr.exr_encoding_destroy(w->file, its);
  }
  w->first += w->count;
  w->count = 0;
  return status;
}

/* Puts a row into the band. */
static void hold(gconv_writer *writer, const void *row) {
  writing *w = writer->state;
  const int count = writer->header->channels;
  const size_t pixels = (size_t)writer->header->width, samples = pixels * (size_t)count;
  uint8_t *to = w->band + (size_t)w->count++ * samples * w->sample_bytes;
  memcpy(w->row, row, samples * sizeof(float));
  for (size_t i = 0; count % 2 == 0 && i < samples && !w->hidden; i++)
    w->hidden = w->row[i] != 0 && !(w->row[i - i % (size_t)count + (size_t)count - 1] > 0);
  if (count % 2 == 0)
    gconv_colour_premultiply_row(count, w->row, pixels);
  if (is_half(writer))
    gconv_elements_make('f', w->row, samples, 1, (uint16_t *)(void *)to, &w->made);
  else
    memcpy(to, w->row, samples * sizeof(float));
}

static gconv_status write_rows(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count) {
  writing *w = writer->state;
  for (int32_t y = 0; y < count; y++) {
    hold(writer, (const uint8_t *)rows + (size_t)y * row_bytes);
    if ((size_t)w->count == w->room || w->first + w->count == writer->header->height)
      GCONV_TRY(flush(writer));
  }
  return GCONV_OK;
}

static gconv_status finish(gconv_writer *writer) {
  writing *w = writer->state;
  GCONV_TRY(check(writer, gconv_exr.exr_finish(&w->file)));
  if (w->hidden)
    gconv_warn_once("colours of transparent pixels", "%s: the colours of transparent pixels are left out: OpenEXR has none",
                    writer->name);
  gconv_elements_warn(writer->name, 'f', &w->made);
  return w->bytes ? gconv_sink_write(writer->sink, w->bytes, w->size) : GCONV_OK;
}

static void end(gconv_writer *writer) {
  writing *w = writer->state;
  if (!w)
    return;
  w->ended = true;
  if (w->file)
    gconv_exr.exr_finish(&w->file);
  if (w->own_pool)
    gconv_threads_free(w->pool);
  gconv_release(w->band);
  gconv_release(w->row);
  free(w->bytes);
}

static bool sniff(const uint8_t *bytes, size_t size) {
  return size >= 4 && memcmp(bytes, "\x76\x2f\x31\x01", 4) == 0;
}

const gconv_format gconv_format_exr = {
    .info = {.name = "exr",
             .extensions = "exr",
             .help = "OpenEXR: floats or half; parts, layers and channels by name",
             .reads = true,
             .writes = true,
             .holds = {false, false, true},
             .stores = true},
    .alpha = true,
    .members = true,
    .metadata = GCONV_HOLDS_COMMENT | GCONV_HOLDS_RESOLUTION,
    .threads = true,
    .reads_on_threads = true,
    .sniff = sniff,
    .open = gconv_exr_open,
    .read_rows = gconv_exr_read_rows,
    .close = gconv_exr_close,
    .held_bytes = held_bytes,
    .start = start,
    .write_rows = write_rows,
    .finish = finish,
    .end = end,
};

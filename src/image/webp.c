/* SPDX-License-Identifier: MIT */
/*
 * WebP by libwebp, with and without loss, with alpha, ICC profile, EXIF and XMP. The frames of an animation are read as
 * whole canvases.
 *
 * The libraries are loaded when the first WebP is read or written. All of a file is in memory: the format has at most 16383
 * x 16383 pixels. Rows of an image are decoded as they are wanted.
 */
#include "base/control.h"
#include "base/library.h"
#include "image/format.h"
#include "image/metadata.h"

#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>
#include <webp/encode.h>
#include <webp/mux.h>

enum { RIFF_HEAD = 12 };
enum { MOST_FRAMES = 32768 }; /* 18 minutes at 30 a second; for each frame, libwebpdemux goes through all frames */

/* ---- The libraries ---- */

#define OF_WEBP
#define OF_WEBPDEMUX
#define OF_WEBPMUX
static struct {
#define CALL(name) __typeof__(&name) name;
#include "image/webp_calls.def"
#undef CALL
} webp;
#undef OF_WEBP
#undef OF_WEBPDEMUX
#undef OF_WEBPMUX
#define CALL(function) {#function, &webp.function},

static const gconv_symbol webp_symbols[] = {
#define OF_WEBP
#include "image/webp_calls.def"
#undef OF_WEBP
    {NULL, NULL}};
static const gconv_symbol demux_symbols[] = {
#define OF_WEBPDEMUX
#include "image/webp_calls.def"
#undef OF_WEBPDEMUX
    {NULL, NULL}};
static const gconv_symbol mux_symbols[] = {
#define OF_WEBPMUX
#include "image/webp_calls.def"
#undef OF_WEBPMUX
    {NULL, NULL}};

static gconv_status load(const char *name) {
  static const char *const files[][2] = {{GCONV_WEBP_FILE}, {GCONV_WEBPDEMUX_FILE}, {GCONV_WEBPMUX_FILE}};
  static gconv_library libraries[] = {{.files = files[0], .symbols = webp_symbols},
                                      {.files = files[1], .symbols = demux_symbols},
                                      {.files = files[2], .symbols = mux_symbols}};
  for (int i = 0; i < 3; i++) {
    const char *trouble = gconv_library_load(&libraries[i]);
    if (trouble)
      return gconv_fail(GCONV_UNSUPPORTED, "%s: WebP needs libwebp, which cannot be used: %s", name, trouble);
  }
  return GCONV_OK;
}

/* ---- Reading ---- */

typedef struct reading {
  uint8_t *bytes; /* all bytes of the file */
  size_t size;
  bool animated;
  int64_t first; /* the first frame that is wanted, from 0 */

  /* For an image that is decoded row by row: */
  WebPIDecoder *decoder;
  size_t given; /* bytes of the file that libwebp has */
  const uint8_t *pixels;
  int stride, ready; /* bytes from row to row; number of rows that are decoded */
} reading;

static bool sniff(const uint8_t *bytes, size_t size) {
  return size >= RIFF_HEAD && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0;
}

static gconv_status damaged(const gconv_reader *reader, const char *what) {
  return gconv_fail(GCONV_BAD_FILE, "%s: damaged WebP: %s", reader->source->name, what);
}

typedef gconv_status take_chunk(gconv_image *header, const void *bytes, size_t size);

/* Some programs put JPEG's mark before EXIF. */
static gconv_status take_exif(gconv_image *header, const void *bytes, size_t size) {
  size_t mark = size >= 6 && memcmp(bytes, "Exif\0\0", 6) == 0 ? 6 : 0;
  return gconv_metadata_set_exif(header, (const uint8_t *)bytes + mark, size - mark);
}

/* Calls `take` with the first chunk of this name, if there is one. */
static gconv_status read_chunk(gconv_reader *reader, const WebPDemuxer *file, const char *name, take_chunk *take) {
  WebPChunkIterator chunk;
  gconv_status status = GCONV_OK;
  if (!webp.WebPDemuxGetChunk(file, name, 1, &chunk))
    return GCONV_OK;
  if (chunk.chunk.size > 0 && gconv_reader_has_room(reader, chunk.chunk.size))
    status = take(&reader->header, chunk.chunk.bytes, chunk.chunk.size);
  webp.WebPDemuxReleaseChunkIterator(&chunk);
  return status;
}

/* Returns whether the file is one image that was coded without loss. */
static bool is_lossless(const reading *r) {
  enum { LOSSLESS = 2 };
  WebPBitstreamFeatures features;
  return webp.WebPGetFeaturesInternal(r->bytes, r->size, &features, WEBP_DECODER_ABI_VERSION) == VP8_STATUS_OK &&
         features.format == LOSSLESS;
}

static gconv_status read_header(gconv_reader *reader, const WebPDemuxer *file) {
  reading *r = reader->state;
  gconv_image *header = &reader->header;
  uint32_t flags = webp.WebPDemuxGetI(file, WEBP_FF_FORMAT_FLAGS), frames = webp.WebPDemuxGetI(file, WEBP_FF_FRAME_COUNT);
  r->animated = reader->out_of_order = (flags & ANIMATION_FLAG) != 0;
  if (frames < 1)
    return damaged(reader, "it has no image");
  if (frames > MOST_FRAMES)
    return gconv_fail(GCONV_TOO_LARGE, "%s: an animation of %u frames; the limit is %d: cut it into parts, as webpmux does",
                      reader->source->name, frames, MOST_FRAMES);
  header->type = GCONV_U8;
  header->lossless = is_lossless(r);
  header->frames = r->animated && !reader->member ? (int32_t)frames : 1;
  if (reader->member)
    GCONV_TRY(gconv_reader_find_number(reader, r->animated ? (int64_t)frames : 1, &r->first));
  header->width = (int32_t)webp.WebPDemuxGetI(file, WEBP_FF_CANVAS_WIDTH);
  header->height = (int32_t)webp.WebPDemuxGetI(file, WEBP_FF_CANVAS_HEIGHT);
  if (header->width > WEBP_MAX_DIMENSION || header->height > WEBP_MAX_DIMENSION) /* the canvas of an animation */
    return gconv_fail(GCONV_TOO_LARGE, "%s: an animation of %d x %d pixels; the limit of WebP is %d on a side",
                      reader->source->name, header->width, header->height, WEBP_MAX_DIMENSION);
  GCONV_TRY(gconv_reader_check_expansion(reader, (int32_t)frames)); /* all frames up to the wanted one are decoded */
  header->alpha = (flags & ALPHA_FLAG) != 0;
  header->channels = header->alpha ? 4 : 3;
  size_t canvas = (size_t)header->width * (size_t)header->height * 4;
  reader->bytes += (r->animated ? 3 : 1) * canvas;
  GCONV_TRY(read_chunk(reader, file, "ICCP", gconv_metadata_set_icc));
  GCONV_TRY(read_chunk(reader, file, "EXIF", take_exif));
  return read_chunk(reader, file, "XMP ", gconv_metadata_set_xmp);
}

static gconv_status open_webp(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(reading), "a WebP", &reader->state));
  GCONV_TRY(load(reader->source->name));
  reading *r = reader->state;
  GCONV_TRY(gconv_reader_read_all(reader, UINT32_MAX, &r->bytes, &r->size));
  uint64_t end = r->size >= RIFF_HEAD ? 8 + gconv_bytes_number(r->bytes + 4, 4, false) : UINT64_MAX;
  if (end < r->size)
    gconv_reader_tell_of_rest(reader, r->bytes + end, r->size - (size_t)end);
  const WebPData data = {r->bytes, r->size};
  WebPDemuxState state;
  WebPDemuxer *file = webp.WebPDemuxInternal(&data, 1, &state, WEBP_DEMUX_ABI_VERSION);
  gconv_status status = GCONV_OK;
  if (file && state == WEBP_DEMUX_DONE)
    status = read_header(reader, file);
  else
    status = damaged(reader, state == WEBP_DEMUX_PARSE_ERROR ? "its parts do not fit together" : "the file ends too early");
  if (file)
    webp.WebPDemuxDelete(file);
  return status;
}

static void close_webp(gconv_reader *reader) {
  const reading *r = reader->state;
  if (!r)
    return;
  if (r->decoder)
    webp.WebPIDelete(r->decoder);
  gconv_release(r->bytes);
}

/* Reads the canvases of the wanted frames. libwebpdemux draws each frame over the frames before it. */
static gconv_status read_frames(gconv_reader *reader, WebPAnimDecoder *decoder, uint8_t *rows, size_t row_bytes) {
  const gconv_image *header = &reader->header;
  const reading *r = reader->state;
  size_t width = (size_t)header->width, channels = (size_t)header->channels;
  for (int64_t frame = 0; frame < r->first + header->frames; frame++) {
    uint8_t *canvas;
    int time;
    if (!webp.WebPAnimDecoderGetNext(decoder, &canvas, &time))
      return damaged(reader, "a frame cannot be decoded");
    for (int32_t y = 0; frame >= r->first && y < header->height; y++, rows += row_bytes)
      for (size_t x = 0; x < width; x++)
        memcpy(rows + x * channels, canvas + ((size_t)y * width + x) * 4, channels);
  }
  if (!reader->again && !reader->member)
    gconv_warn("%s: an animation: its %d frames are read, their times are left out", reader->source->name, header->frames);
  return GCONV_OK;
}

static gconv_status read_animation(gconv_reader *reader, uint8_t *rows, size_t row_bytes) {
  const reading *r = reader->state;
  const WebPData data = {r->bytes, r->size};
  WebPAnimDecoderOptions options;
  if (!webp.WebPAnimDecoderOptionsInitInternal(&options, WEBP_DEMUX_ABI_VERSION))
    return gconv_fail(GCONV_UNSUPPORTED, "%s: this libwebpdemux is of another version", reader->source->name);
  options.color_mode = MODE_RGBA;
  WebPAnimDecoder *decoder = webp.WebPAnimDecoderNewInternal(&data, &options, WEBP_DEMUX_ABI_VERSION);
  if (!decoder)
    return damaged(reader, "its frames cannot be decoded");
  gconv_status status = read_frames(reader, decoder, rows, row_bytes);
  webp.WebPAnimDecoderDelete(decoder);
  return status;
}

static gconv_status read_all(gconv_reader *reader, uint8_t *rows, size_t row_bytes) {
  const reading *r = reader->state;
  const gconv_image *header = &reader->header;
  if (r->animated)
    return read_animation(reader, rows, row_bytes);
  size_t size = row_bytes * (size_t)(header->height - 1) + gconv_image_row_bytes(header);
  if (row_bytes > INT32_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "%s: rows of %zu bytes", reader->source->name, row_bytes);
  const uint8_t *read = header->channels == 4 ? webp.WebPDecodeRGBAInto(r->bytes, r->size, rows, size, (int)row_bytes)
                                              : webp.WebPDecodeRGBInto(r->bytes, r->size, rows, size, (int)row_bytes);
  return read ? GCONV_OK : damaged(reader, "its pixels cannot be decoded");
}

/* Gives libwebp the file part by part until it has decoded `wanted` rows. If all rows are wanted, it gets the whole file. */
static gconv_status decode_to(gconv_reader *reader, int32_t wanted) {
  enum { PARTS = 32 };
  reading *r = reader->state;
  const gconv_image *header = &reader->header;
  if (!r->decoder)
    r->decoder = webp.WebPINewRGB(header->channels == 4 ? MODE_RGBA : MODE_RGB, NULL, 0, 0);
  GCONV_NEED_MEMORY(r->decoder, "%s: no memory to decode a WebP", reader->source->name);
  while (r->ready < wanted || (wanted == header->height && r->given < r->size)) {
    size_t left = r->size - r->given, part = r->size / PARTS + 1;
    r->given += left < part ? left : part;
    VP8StatusCode code = webp.WebPIUpdate(r->decoder, r->bytes, r->given);
    r->pixels = webp.WebPIDecGetRGB(r->decoder, &r->ready, NULL, NULL, &r->stride);
    r->ready = r->pixels ? r->ready : 0;
    if ((code != VP8_STATUS_OK && code != VP8_STATUS_SUSPENDED) || (r->given == r->size && r->ready < wanted))
      return damaged(reader, "its pixels cannot be decoded");
  }
  return GCONV_OK;
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  const reading *r = reader->state;
  if (r->animated || count == reader->header.height)
    return gconv_reader_whole(reader, read_all, rows, row_bytes, count);
  GCONV_TRY(decode_to(reader, reader->rows_read + count));
  const uint8_t *next = r->pixels + (size_t)reader->rows_read * (size_t)r->stride;
  for (size_t i = 0; i < (size_t)count; i++)
    memcpy((uint8_t *)rows + i * row_bytes, next + i * (size_t)r->stride, gconv_image_row_bytes(&reader->header));
  return GCONV_OK;
}

/* ---- Writing ---- */

typedef struct writing {
  uint8_t *rows; /* all rows, RGB or RGBA */
  size_t row_bytes;
  int32_t count; /* rows that have come so far */
  WebPMemoryWriter file;
} writing;

static bool has_alpha(const gconv_writer *writer) {
  return writer->header->channels % 2 == 0;
}

static gconv_status start(gconv_writer *writer) {
  const gconv_image *header = writer->header;
  if (header->width > WEBP_MAX_DIMENSION || header->height > WEBP_MAX_DIMENSION)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: %d x %d pixels are too many for WebP, which has at most %d x %d: write .png",
                      writer->name, header->width, header->height, WEBP_MAX_DIMENSION, WEBP_MAX_DIMENSION);
  GCONV_TRY(gconv_format_state(sizeof(writing), "a WebP", &writer->state));
  GCONV_TRY(load(writer->name));
  writing *w = writer->state;
  webp.WebPMemoryWriterInit(&w->file);
  w->row_bytes = (size_t)header->width * (has_alpha(writer) ? 4 : 3);
  GCONV_ALLOCATE(w->rows, w->row_bytes * (size_t)header->height, "an image");
  return GCONV_OK;
}

/* Returns the memory for the rows, for libwebp's picture of them, and for its work. The figures are the largest measured,
 * with images of noise. Alpha is coded without loss. */
static double held_bytes(const gconv_image *header, const gconv_write_options *options, int how) {
  enum { HIGH_QUALITY = 90 };
  const double lossless = 38, high = 29, lossy = 22; /* bytes a pixel */
  double pixel = options->lossless || header->channels % 2 == 0 ? lossless : options->quality > HIGH_QUALITY ? high : lossy;
  return pixel * header->width * header->height;
}

/* WebP has no grey images: grey becomes RGB. */
static void copy_row(const uint8_t *row, size_t width, int32_t channels, uint8_t *out) {
  if (channels >= 3) {
    memcpy(out, row, width * (size_t)channels);
    return;
  }
  for (size_t x = 0; x < width; x++, row += channels) {
    for (int c = 0; c < 3; c++)
      *out++ = row[0];
    if (channels == 2)
      *out++ = row[1];
  }
}

static gconv_status write_rows(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count) {
  writing *w = writer->state;
  for (size_t i = 0; i < (size_t)count; i++)
    copy_row((const uint8_t *)rows + i * row_bytes, (size_t)writer->header->width, writer->header->channels,
             w->rows + (size_t)w->count++ * w->row_bytes);
  return GCONV_OK;
}

static gconv_status fail_to_write(const gconv_writer *writer, int code) {
  if (code == VP8_ENC_ERROR_USER_ABORT)
    return gconv_control_fail(gconv_control_here());
  if (code == VP8_ENC_ERROR_OUT_OF_MEMORY || code == VP8_ENC_ERROR_BITSTREAM_OUT_OF_MEMORY)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a WebP", writer->name);
  return gconv_fail(GCONV_UNSUPPORTED, "%s: libwebp cannot write it (error %d): write .png", writer->name, code);
}

/* Called by libwebp from time to time: 0 ends its work. */
static int go_on(int percent, const WebPPicture *picture) {
  return !gconv_control_stops(gconv_control_here());
}

static gconv_status encode(gconv_writer *writer, WebPPicture *picture) {
  writing *w = writer->state;
  const gconv_write_options *options = writer->options;
  WebPConfig config;
  if (!webp.WebPConfigInitInternal(&config, WEBP_PRESET_DEFAULT, (float)options->quality, WEBP_ENCODER_ABI_VERSION))
    return gconv_fail(GCONV_UNSUPPORTED, "%s: this libwebp is of another version", writer->name);
  if (options->lossless) {
    const float effort = 75; /* without loss, the quality is the effort */
    config.lossless = 1;
    config.exact = 1; /* keeps the colours of transparent pixels, too */
    config.quality = effort;
  }
  picture->use_argb = options->lossless;
  picture->width = writer->header->width;
  picture->height = writer->header->height;
  picture->writer = webp.WebPMemoryWrite;
  picture->custom_ptr = &w->file;
  picture->progress_hook = go_on;
  bool taken = has_alpha(writer) ? webp.WebPPictureImportRGBA(picture, w->rows, (int)w->row_bytes)
                                 : webp.WebPPictureImportRGB(picture, w->rows, (int)w->row_bytes);
  return taken && webp.WebPEncode(&config, picture) ? GCONV_OK : fail_to_write(writer, picture->error_code);
}

typedef struct chunk {
  const char *name;
  const void *bytes; /* NULL: there is none */
  size_t size;
} chunk;

/* Puts the chunks beside the coded image. */
static gconv_status write_with_chunks(const gconv_writer *writer, const WebPData *image, const chunk *chunks, size_t count) {
  WebPData file = {NULL, 0};
  WebPMux *mux = webp.WebPNewInternal(WEBP_MUX_ABI_VERSION);
  bool made = mux && webp.WebPMuxSetImage(mux, image, 0) == WEBP_MUX_OK;
  for (size_t i = 0; i < count && made; i++) {
    const WebPData data = {chunks[i].bytes, chunks[i].size};
    made = !data.bytes || webp.WebPMuxSetChunk(mux, chunks[i].name, &data, 0) == WEBP_MUX_OK;
  }
  made = made && webp.WebPMuxAssemble(mux, &file) == WEBP_MUX_OK;
  gconv_status status =
      made ? gconv_sink_write(writer->sink, file.bytes, file.size) : fail_to_write(writer, VP8_ENC_ERROR_OUT_OF_MEMORY);
  webp.WebPFree((void *)(uintptr_t)file.bytes);
  webp.WebPMuxDelete(mux);
  return status;
}

static gconv_status finish(gconv_writer *writer) {
  writing *w = writer->state;
  WebPPicture picture;
  if (!webp.WebPPictureInitInternal(&picture, WEBP_ENCODER_ABI_VERSION))
    return gconv_fail(GCONV_UNSUPPORTED, "%s: this libwebp is of another version", writer->name);
  gconv_status status = encode(writer, &picture);
  webp.WebPPictureFree(&picture);
  GCONV_TRY(status);
  const WebPData image = {w->file.mem, w->file.size};
  const gconv_image *header = writer->header;
  const chunk chunks[] = {{"ICCP", header->icc, header->icc_bytes},
                          {"EXIF", header->exif, header->exif_bytes},
                          {"XMP ", header->xmp, header->xmp_bytes}};
  if (chunks[0].bytes || header->exif || header->xmp)
    return write_with_chunks(writer, &image, chunks, sizeof chunks / sizeof chunks[0]);
  return gconv_sink_write(writer->sink, image.bytes, image.size);
}

static void end(gconv_writer *writer) {
  writing *w = writer->state;
  if (!w)
    return;
  gconv_release(w->rows);
  if (webp.WebPMemoryWriterClear)
    webp.WebPMemoryWriterClear(&w->file);
}

const gconv_format gconv_format_webp = {
    .info = {.name = "webp",
             .extensions = "webp",
             .help = "WebP: 8 bits, with loss unless lossless is asked for, RGB and RGBA",
             .reads = true,
             .writes = true,
             .holds = {true, false, false},
             .several = true,
             .quality = true,
             .lossless = true},
    .alpha = true,
    .members = true,
    .metadata = GCONV_HOLDS_EXIF | GCONV_HOLDS_XMP | GCONV_HOLDS_COLOUR_ICC,
    .opens_whole = true,
    .sniff = sniff,
    .open = open_webp,
    .read_rows = read_rows,
    .close = close_webp,
    .held_bytes = held_bytes,
    .start = start,
    .write_rows = write_rows,
    .finish = finish,
    .end = end,
};

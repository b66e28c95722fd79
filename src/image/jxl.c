/* SPDX-License-Identifier: MIT */
/*
 * JPEG XL by libjxl. Reading: 1 to 16 bits and floats, grey or RGB, with alpha, and the frames of animations as whole
 * canvases. All of the file is kept in memory. A first decoder goes through it for the header, the metadata and the number
 * of frames, without pixels; a second one decodes a frame at a time, on the reader's threads. Writing: without loss, all of
 * the image in memory.
 */
#include "base/library.h"
#include "base/threads.h"
#include "image/colour.h"
#include "image/format.h"
#include "image/metadata.h"

#include <stdlib.h>
#include <string.h>

#include <jxl/decode.h>
#include <jxl/encode.h>
#include <jxl/version.h>

enum { MOST_FRAMES = 32768 };

static struct {
#define CALL(name) __typeof__(&name) name;
#include "image/jxl_calls.def"
#undef CALL
} jxl;

static const gconv_symbol symbols[] = {
#define CALL(function) {#function, &jxl.function},
#include "image/jxl_calls.def"
#undef CALL
    {NULL, NULL}};
GCONV_LOADS(static, load, GCONV_JXL_FILE, symbols, "JPEG XL needs libjxl")

/* Before libjxl 0.9, functions of colours also take the format of the pixels. */
#if JPEGXL_NUMERIC_VERSION < JPEGXL_COMPUTE_NUMERIC_VERSION(0, 9, 0)
#define OF_PIXELS(decoder, format) decoder, format
#else
#define OF_PIXELS(decoder, format) decoder
#endif

typedef struct reading {
  uint8_t *bytes; /* owned: all bytes of the file */
  size_t size;
  JxlDecoder *scanner, *decoder;
  JxlPixelFormat format;
  bool premultiplied;
  int64_t first;   /* the first frame that is wanted, from 0 */
  int64_t decoded; /* how many frames were decoded, from `first` on */
  uint8_t *frame;  /* owned: the frame that was decoded last */
  JxlBoxType kind; /* the type of the box that is being read */
  uint8_t *box;    /* owned: what a box of metadata has so far; NULL: none is being read */
  size_t box_room;
} reading;

static bool sniff(const uint8_t *bytes, size_t size) {
  return (size >= 2 && memcmp(bytes, "\xff\x0a", 2) == 0) ||
         (size >= 12 && memcmp(bytes, "\0\0\0\x0cJXL \r\n\x87\n", 12) == 0);
}

static gconv_status damaged(const gconv_reader *reader, JxlDecoderStatus status) {
  return gconv_fail(GCONV_BAD_FILE, "%s: damaged JPEG XL: %s", reader->source->name,
                    status == JXL_DEC_NEED_MORE_INPUT ? "the file ends too early" : "its parts do not fit together");
}

static gconv_status begin(gconv_reader *reader, int events, JxlDecoder **decoder) {
  const reading *r = reader->state;
  *decoder = jxl.JxlDecoderCreate(NULL);
  GCONV_NEED_MEMORY(*decoder, "no memory to decode %s", reader->source->name);
  jxl.JxlDecoderSubscribeEvents(*decoder, events);
  jxl.JxlDecoderSetInput(*decoder, r->bytes, r->size); /* without JxlDecoderCloseInput(), which may print messages */
  return GCONV_OK;
}

/* ---- The header, and metadata ----------------------------------------------------------------------------------------- */

static gconv_status take_info(gconv_reader *reader) {
  reading *r = reader->state;
  gconv_image *header = &reader->header;
  JxlBasicInfo info;
  JxlExtraChannelInfo extra;
  if (jxl.JxlDecoderGetBasicInfo(r->scanner, &info) != JXL_DEC_SUCCESS)
    return damaged(reader, JXL_DEC_ERROR);
  if (info.xsize < 1 || info.ysize < 1 || info.xsize > INT32_MAX / 16 || info.ysize > INT32_MAX / 16)
    return gconv_fail(GCONV_TOO_LARGE, "%s: has %u x %u pixels; the limit is %d on a side", reader->source->name, info.xsize,
                      info.ysize, INT32_MAX / 16);
  for (uint32_t i = 0; i < info.num_extra_channels; i++)
    if (jxl.JxlDecoderGetExtraChannelInfo(r->scanner, i, &extra) == JXL_DEC_SUCCESS && extra.type == JXL_CHANNEL_BLACK)
      return gconv_fail(GCONV_UNSUPPORTED, "%s: has CMYK, which is not read from JPEG XL: djxl IN OUT.png (libjxl)",
                        reader->source->name);
  header->width = (int32_t)info.xsize;
  header->height = (int32_t)info.ysize;
  header->alpha = info.alpha_bits > 0;
  header->channels = (int32_t)info.num_color_channels + header->alpha;
  r->premultiplied = header->alpha && info.alpha_premultiplied;
  const uint32_t bits = info.bits_per_sample > info.alpha_bits ? info.bits_per_sample : info.alpha_bits;
  const bool levels = info.exponent_bits_per_sample + info.alpha_exponent_bits == 0 && bits <= 16 && !r->premultiplied;
  header->type = !levels ? GCONV_F32 : bits > 8 ? GCONV_U16 : GCONV_U8;
  r->format = (JxlPixelFormat){(uint32_t)header->channels,
                               header->type == GCONV_F32   ? JXL_TYPE_FLOAT
                               : header->type == GCONV_U16 ? JXL_TYPE_UINT16
                                                           : JXL_TYPE_UINT8,
                               JXL_NATIVE_ENDIAN, 0};
  if (info.num_extra_channels > (uint32_t)header->alpha) {
    const uint32_t more = info.num_extra_channels - (uint32_t)header->alpha;
    gconv_reader_note(reader, "%u further channel%s left out", more, more == 1 ? " is" : "s are");
  }
  reader->orientation = 1; /* libjxl rotates the image */
  header->frames = 1;
  return gconv_reader_check_expansion(reader, 1);
}

/* Takes the ICC profile of the pixels, unless they are sRGB. */
static gconv_status take_colours(gconv_reader *reader) {
  reading *r = reader->state;
  JxlColorEncoding its;
  size_t size = 0;
  if (jxl.JxlDecoderGetColorAsEncodedProfile(OF_PIXELS(r->scanner, &r->format), JXL_COLOR_PROFILE_TARGET_DATA, &its) ==
          JXL_DEC_SUCCESS &&
      its.transfer_function == JXL_TRANSFER_FUNCTION_SRGB && its.white_point == JXL_WHITE_POINT_D65 &&
      (its.color_space == JXL_COLOR_SPACE_GRAY || its.primaries == JXL_PRIMARIES_SRGB))
    return GCONV_OK;
  if (jxl.JxlDecoderGetICCProfileSize(OF_PIXELS(r->scanner, &r->format), JXL_COLOR_PROFILE_TARGET_DATA, &size) !=
          JXL_DEC_SUCCESS ||
      size == 0 || !gconv_reader_has_room(reader, size))
    return GCONV_OK;
  GCONV_FREED uint8_t *profile = NULL;
  GCONV_ALLOCATE(profile, size, "an ICC profile");
  if (jxl.JxlDecoderGetColorAsICCProfile(OF_PIXELS(r->scanner, &r->format), JXL_COLOR_PROFILE_TARGET_DATA, profile, size) !=
      JXL_DEC_SUCCESS)
    return damaged(reader, JXL_DEC_ERROR);
  return gconv_metadata_set_icc(&reader->header, profile, size);
}

/* Ends a box of metadata. A box of EXIF begins with a number of 4 bytes: how many bytes to skip after it. */
static gconv_status end_box(gconv_reader *reader) {
  reading *r = reader->state;
  if (!r->box)
    return GCONV_OK;
  const size_t size = r->box_room - jxl.JxlDecoderReleaseBoxBuffer(r->scanner);
  GCONV_FREED uint8_t *box = r->box;
  r->box = NULL;
  if (!gconv_reader_has_room(reader, size))
    return GCONV_OK;
  if (memcmp(r->kind, "xml ", 4) == 0)
    return gconv_metadata_set_xmp(&reader->header, box, size);
  const uint64_t skipped = size > 4 ? gconv_bytes_number(box, 4, true) + 4 : size;
  return skipped < size ? gconv_metadata_set_exif(&reader->header, box + skipped, size - (size_t)skipped) : GCONV_OK;
}

static gconv_status begin_box(gconv_reader *reader) {
  enum { FIRST_ROOM = 1 << 16 };
  reading *r = reader->state;
  GCONV_TRY(end_box(reader));
  if (jxl.JxlDecoderGetBoxType(r->scanner, r->kind, JXL_TRUE) != JXL_DEC_SUCCESS)
    return damaged(reader, JXL_DEC_ERROR);
  for (const char *known = "JXL ftypjxlcjxlpjxlljxlijbrdfreeskip"; *known; known += 4)
    if (memcmp(r->kind, known, 4) == 0)
      return GCONV_OK;
  if (memcmp(r->kind, "Exif", 4) != 0 && memcmp(r->kind, "xml ", 4) != 0) {
    gconv_reader_lose(reader, "boxes other than Exif and XMP");
    return GCONV_OK;
  }
  GCONV_ALLOCATE(r->box, FIRST_ROOM, "metadata");
  r->box_room = FIRST_ROOM;
  jxl.JxlDecoderSetBoxBuffer(r->scanner, r->box, r->box_room);
  return GCONV_OK;
}

static gconv_status grow_box(gconv_reader *reader) {
  reading *r = reader->state;
  const size_t used = r->box_room - jxl.JxlDecoderReleaseBoxBuffer(r->scanner);
  uint8_t *larger;
  if (r->box_room > GCONV_MOST_METADATA)
    return gconv_fail(GCONV_TOO_LARGE, "%s: has more than %d MiB of metadata", reader->source->name,
                      GCONV_MOST_METADATA >> 20);
  GCONV_ALLOCATE(larger, 2 * r->box_room, "metadata");
  memcpy(larger, r->box, used);
  gconv_release(r->box);
  r->box = larger;
  r->box_room *= 2;
  jxl.JxlDecoderSetBoxBuffer(r->scanner, r->box + used, r->box_room - used);
  return GCONV_OK;
}

/* Returns whether the file ends within a box: the size that the box states is larger than what is left of the file. */
static bool has_cut_box(const reading *r) {
  for (size_t at = 0; r->bytes[0] == 0 && r->size - at >= 8;) {
    uint64_t size = gconv_bytes_number(r->bytes + at, 4, true);
    if (size == 1 && r->size - at >= 16)
      size = gconv_bytes_number(r->bytes + at + 8, 8, true);
    if (size == 0) /* the last box, up to the end */
      return false;
    if (size < 8 || size > r->size - at)
      return true;
    at += (size_t)size;
  }
  return false;
}

/* Goes through the file, and counts its frames. */
static gconv_status scan(gconv_reader *reader, int64_t *frames) {
  reading *r = reader->state;
  JxlFrameHeader frame = {0};
  for (;;) {
    const JxlDecoderStatus status = jxl.JxlDecoderProcessInput(r->scanner);
    if (status == JXL_DEC_NEED_MORE_INPUT && frame.is_last && r->box && has_cut_box(r)) {
      gconv_reader_note(reader, "its last metadata are left out: the file ends within them");
      return GCONV_OK;
    }
    if (status == JXL_DEC_SUCCESS || (status == JXL_DEC_NEED_MORE_INPUT && frame.is_last))
      return end_box(reader);
    if (status == JXL_DEC_BASIC_INFO)
      GCONV_TRY(take_info(reader));
    else if (status == JXL_DEC_COLOR_ENCODING)
      GCONV_TRY(take_colours(reader));
    else if (status == JXL_DEC_BOX)
      GCONV_TRY(begin_box(reader));
    else if (status == JXL_DEC_BOX_NEED_MORE_OUTPUT)
      GCONV_TRY(grow_box(reader));
    else if (status != JXL_DEC_FRAME || jxl.JxlDecoderGetFrameHeader(r->scanner, &frame) != JXL_DEC_SUCCESS)
      return damaged(reader, status);
    else if (++*frames > MOST_FRAMES)
      return gconv_fail(GCONV_TOO_LARGE, "%s: an animation of more than %d frames, which is the limit", reader->source->name,
                        (int)MOST_FRAMES);
  }
}

static gconv_status open_jxl(gconv_reader *reader) {
  enum { WORK = 40 /* bytes a pixel that libjxl takes */ };
  GCONV_TRY(gconv_format_state(sizeof(reading), "a JPEG XL", &reader->state));
  GCONV_TRY(load(reader->source->name));
  reading *r = reader->state;
  gconv_image *header = &reader->header;
  int64_t frames = 0;
  GCONV_TRY(gconv_reader_read_all(reader, SIZE_MAX / 2, &r->bytes, &r->size));
  GCONV_TRY(begin(reader, JXL_DEC_BASIC_INFO | JXL_DEC_COLOR_ENCODING | JXL_DEC_FRAME | JXL_DEC_BOX, &r->scanner));
  jxl.JxlDecoderSetDecompressBoxes(r->scanner, JXL_TRUE);
  GCONV_TRY(scan(reader, &frames));
  jxl.JxlDecoderDestroy(r->scanner);
  r->scanner = NULL;
  if (frames < 1)
    return damaged(reader, JXL_DEC_NEED_MORE_INPUT);
  if (reader->member)
    GCONV_TRY(gconv_reader_find_number(reader, frames, &r->first));
  header->frames = reader->member ? 1 : (int32_t)frames;
  if (header->frames > 1)
    gconv_reader_note(reader, "an animation: its %d frames are read, their times are left out", header->frames);
  reader->bytes += (size_t)(gconv_image_frame_bytes(header) + (double)WORK * header->width * header->height);
  return gconv_reader_check_expansion(reader, (int32_t)frames);
}

static void close_jxl(gconv_reader *reader) {
  const reading *r = reader->state;
  if (!r)
    return;
  if (r->scanner)
    jxl.JxlDecoderDestroy(r->scanner);
  if (r->decoder)
    jxl.JxlDecoderDestroy(r->decoder);
  gconv_release(r->bytes);
  gconv_release(r->frame);
  gconv_release(r->box);
}

/* ---- Pixels ----------------------------------------------------------------------------------------------------------- */

typedef struct loop {
  void *decoder;
  JxlParallelRunFunction function;
  uint32_t first;
} loop;

static void do_turn(void *context, size_t turn, int seat) {
  const loop *l = context;
  l->function(l->decoder, l->first + (uint32_t)turn, (size_t)seat);
}

/* Runs a loop of libjxl on the threads of the reader; without such threads, in the caller's. */
static JxlParallelRetCode run_loop(void *threads, void *decoder, JxlParallelRunInit init, JxlParallelRunFunction function,
                                   uint32_t first, uint32_t end) {
  loop l = {decoder, function, first};
  const JxlParallelRetCode code = init(decoder, threads ? (size_t)gconv_threads_count(threads) : 1);
  if (code != 0 || first >= end)
    return code;
  if (threads)
    gconv_threads_run(threads, end - first, do_turn, &l);
  for (uint32_t turn = 0; !threads && turn < end - first; turn++)
    do_turn(&l, turn, 0);
  return 0;
}

static gconv_status decode_frame(gconv_reader *reader) {
  reading *r = reader->state;
  const gconv_image *header = &reader->header;
  const size_t row = gconv_image_row_bytes(header), size = row * (size_t)header->height;
  if (!r->decoder) {
    GCONV_ALLOCATE(r->frame, size, "an image");
    GCONV_TRY(begin(reader, JXL_DEC_FULL_IMAGE, &r->decoder));
    jxl.JxlDecoderSetParallelRunner(r->decoder, run_loop, reader->shared);
    jxl.JxlDecoderSkipFrames(r->decoder, (size_t)r->first);
  }
  JxlDecoderStatus status;
  while ((status = jxl.JxlDecoderProcessInput(r->decoder)) == JXL_DEC_NEED_IMAGE_OUT_BUFFER)
    if (jxl.JxlDecoderSetImageOutBuffer(r->decoder, &r->format, r->frame, size) != JXL_DEC_SUCCESS)
      return damaged(reader, JXL_DEC_ERROR);
  if (status != JXL_DEC_FULL_IMAGE)
    return damaged(reader, status);
  for (int32_t y = 0; y < header->height && r->premultiplied; y++)
    gconv_colour_unpremultiply_row(header->channels, (float *)(void *)(r->frame + (size_t)y * row), (size_t)header->width);
  r->decoded++;
  return GCONV_OK;
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  const reading *r = reader->state;
  const size_t bytes = gconv_image_row_bytes(&reader->header);
  for (int32_t i = 0; i < count; i++) {
    const int64_t row = reader->rows_read + i, height = reader->header.height;
    if (row >= r->decoded * height)
      GCONV_TRY(decode_frame(reader));
    memcpy((uint8_t *)rows + (size_t)i * row_bytes, r->frame + (size_t)(row % height) * bytes, bytes);
  }
  return GCONV_OK;
}

/* ---- Writing --------------------------------------------------------------------------------------------------------- */

typedef struct writing {
  uint8_t *pixels; /* owned */
  size_t used;
  JxlEncoder *encoder;
} writing;

/* Returns the bytes for the pixels and for libjxl's work. WORK is the most that was measured: with noise. */
static double held_bytes(const gconv_image *header, const gconv_write_options *options, int how) {
  enum { WORK = 66 /* bytes a pixel */ };
  return gconv_image_frame_bytes(header) + (double)WORK * header->width * header->height;
}

static gconv_status start(gconv_writer *writer) {
  const gconv_image *header = writer->header;
  const size_t factors[] = {gconv_image_row_bytes(header), (size_t)header->height};
  GCONV_TRY(gconv_format_state(sizeof(writing), "a JPEG XL", &writer->state));
  GCONV_TRY(load(writer->name));
  writing *w = writer->state;
  GCONV_ALLOCATE(w->pixels, gconv_checked_product(2, factors), "an image");
  w->encoder = jxl.JxlEncoderCreate(NULL);
  GCONV_NEED_MEMORY(w->encoder, "%s: no memory to encode it", writer->name);
  return GCONV_OK;
}

static gconv_status keep_rows(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count) {
  writing *w = writer->state;
  const size_t bytes = gconv_image_row_bytes(writer->header);
  for (size_t i = 0; i < (size_t)count; i++, w->used += bytes)
    memcpy(w->pixels + w->used, (const uint8_t *)rows + i * row_bytes, bytes);
  return GCONV_OK;
}

/* Tells the encoder what the image is. */
static bool set_header(const gconv_writer *writer) {
  JxlEncoder *encoder = ((const writing *)writer->state)->encoder;
  const gconv_image *header = writer->header;
  const bool floats = header->type == GCONV_F32, alpha = header->channels % 2 == 0;
  JxlBasicInfo info;
  JxlColorEncoding srgb;
  jxl.JxlEncoderInitBasicInfo(&info);
  info.xsize = (uint32_t)header->width;
  info.ysize = (uint32_t)header->height;
  info.bits_per_sample = 8 * (uint32_t)gconv_type_bytes(header->type);
  info.exponent_bits_per_sample = floats ? 8 : 0;
  info.num_color_channels = header->channels < 3 ? 1 : 3;
  info.num_extra_channels = alpha;
  info.alpha_bits = alpha ? info.bits_per_sample : 0;
  info.alpha_exponent_bits = alpha ? info.exponent_bits_per_sample : 0;
  info.uses_original_profile = JXL_TRUE;
  jxl.JxlColorEncodingSetToSRGB(&srgb, header->channels < 3);
  return jxl.JxlEncoderSetBasicInfo(encoder, &info) == JXL_ENC_SUCCESS &&
         (header->icc ? jxl.JxlEncoderSetICCProfile(encoder, header->icc, header->icc_bytes)
                      : jxl.JxlEncoderSetColorEncoding(encoder, &srgb)) == JXL_ENC_SUCCESS;
}

/* Adds EXIF, behind the 4 bytes that say where it begins, and XMP. */
static gconv_status add_metadata(gconv_writer *writer, bool *good) {
  JxlEncoder *encoder = ((const writing *)writer->state)->encoder;
  const gconv_image *header = writer->header;
  *good = !(header->exif || header->xmp) || jxl.JxlEncoderUseBoxes(encoder) == JXL_ENC_SUCCESS;
  if (*good && header->exif) {
    GCONV_FREED uint8_t *exif = calloc(header->exif_bytes + 4, 1);
    GCONV_NEED_MEMORY(exif, "%s: no memory for EXIF", writer->name);
    memcpy(exif + 4, header->exif, header->exif_bytes);
    *good = jxl.JxlEncoderAddBox(encoder, "Exif", exif, header->exif_bytes + 4, JXL_FALSE) == JXL_ENC_SUCCESS;
  }
  if (*good && header->xmp)
    *good =
        jxl.JxlEncoderAddBox(encoder, "xml ", (const uint8_t *)header->xmp, header->xmp_bytes, JXL_FALSE) == JXL_ENC_SUCCESS;
  return GCONV_OK;
}

static gconv_status finish(gconv_writer *writer) {
  enum { EFFORT = 3 /* of 1 to 9; 7, the default, takes several times as long, and files get 5% smaller */ };
  const writing *w = writer->state;
  const gconv_image *header = writer->header;
  const JxlPixelFormat format = {(uint32_t)header->channels,
                                 header->type == GCONV_F32   ? JXL_TYPE_FLOAT
                                 : header->type == GCONV_U16 ? JXL_TYPE_UINT16
                                                             : JXL_TYPE_UINT8,
                                 JXL_NATIVE_ENDIAN, 0};
  bool good;
  jxl.JxlEncoderSetParallelRunner(w->encoder, run_loop, writer->options->shared);
  JxlEncoderFrameSettings *settings = jxl.JxlEncoderFrameSettingsCreate(w->encoder, NULL);
  GCONV_NEED_MEMORY(settings, "%s: no memory to encode it", writer->name);
  GCONV_TRY(add_metadata(writer, &good));
  good = good && set_header(writer) && jxl.JxlEncoderSetFrameLossless(settings, JXL_TRUE) == JXL_ENC_SUCCESS &&
         jxl.JxlEncoderFrameSettingsSetOption(settings, JXL_ENC_FRAME_SETTING_EFFORT, EFFORT) == JXL_ENC_SUCCESS &&
         jxl.JxlEncoderAddImageFrame(settings, &format, w->pixels, w->used) == JXL_ENC_SUCCESS;
  jxl.JxlEncoderCloseInput(w->encoder);
  uint8_t piece[16384];
  for (JxlEncoderStatus status = JXL_ENC_NEED_MORE_OUTPUT; good && status == JXL_ENC_NEED_MORE_OUTPUT;) {
    uint8_t *next = piece;
    size_t room = sizeof piece;
    status = jxl.JxlEncoderProcessOutput(w->encoder, &next, &room);
    good = status != JXL_ENC_ERROR;
    GCONV_TRY(gconv_sink_write(writer->sink, piece, sizeof piece - room));
  }
  return good ? GCONV_OK : gconv_fail(GCONV_UNSUPPORTED, "%s: libjxl cannot write it: write .png or .tif", writer->name);
}

static void end(gconv_writer *writer) {
  const writing *w = writer->state;
  if (w && w->encoder)
    jxl.JxlEncoderDestroy(w->encoder);
  gconv_release(w ? w->pixels : NULL);
}

const gconv_format gconv_format_jxl = {
    .info = {.name = "jxl",
             .extensions = "jxl",
             .help = "JPEG XL: 1 to 16 bits, floats, alpha; animations read; written without loss",
             .reads = true,
             .writes = true,
             .holds = {true, true, true},
             .several = true},
    .alpha = true,
    .members = true,
    .metadata = GCONV_HOLDS_EXIF | GCONV_HOLDS_XMP | GCONV_HOLDS_ICC | GCONV_HOLDS_WHOLE_ICC,
    .threads = true,
    .reads_on_threads = true,
    .opens_whole = true,
    .sniff = sniff,
    .open = open_jxl,
    .read_rows = read_rows,
    .close = close_jxl,
    .held_bytes = held_bytes,
    .start = start,
    .write_rows = keep_rows,
    .finish = finish,
    .end = end,
};

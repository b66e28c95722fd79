/* SPDX-License-Identifier: MIT */
/* NumPy arrays as images: H x W and H x W x C (1 to 4 channels, interleaved), N x C x H x W (planar). Elements u1, u2 and f4
 * are samples as they are. f2 and f8 become f32. b1 is black for False and white for True. */
#include "base/element.h"
#include "base/npy_header.h"
#include "image/format.h"

#include <string.h>

enum { PIECE = 1024 }; /* elements that are converted at a time, on the stack */

typedef struct npy_state {
  gconv_npy_header file; /* while reading */
  bool lost;             /* an f8 was rounded */
  uint8_t *frame;        /* for writing an interleaved image of several frames: C planes of the current frame */
  int32_t frame_rows;    /* rows of the frame so far */
  uint64_t header_bytes; /* while writing */
  bool reserved;         /* space for writing in any order was reserved */
} npy_state;

/* ---- Reading ---- */

static gconv_status set_type(gconv_reader *reader, const gconv_npy_header *file) {
  bool is_float = file->kind == 'f', is_level = file->kind == 'b' || (file->kind == 'u' && file->item_bytes <= 2);
  if (!is_float && !is_level)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: an array of %c%zu; as an image, b1, u1, u2, f2, f4 and f8 are read: first use astype('u2') for "
                      "levels, astype('f4') for numbers",
                      reader->source->name, file->kind, file->item_bytes);
  reader->header.type = is_float ? GCONV_F32 : file->item_bytes == 2 ? GCONV_U16 : GCONV_U8;
  return GCONV_OK;
}

static gconv_status set_shape(gconv_reader *reader, const gconv_npy_header *file) {
  gconv_image *header = &reader->header;
  const char *name = reader->source->name;
  if (file->dimensions < 2 || file->dimensions > 4)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: an array of %d dimension%s; an image is H x W, H x W x C or N x C x H x W",
                      name, file->dimensions, file->dimensions == 1 ? "" : "s");
  for (int i = 0; i < file->dimensions; i++)
    if (file->shape[i] < 1 || file->shape[i] > INT32_MAX)
      return gconv_fail(GCONV_BAD_FILE, "%s: dimension %d of the array is %zu; it must be 1 to 2^31 - 1", name, i + 1,
                        file->shape[i]);
  if (file->dimensions == 3 && file->shape[2] > 4)
    return gconv_fail(
        GCONV_UNSUPPORTED,
        "%s: an array of %zu x %zu x %zu; in H x W x C there are 1 to 4 channels: save C x H x W as array[None], "
        "which is 1 x C x H x W",
        name, file->shape[0], file->shape[1], file->shape[2]);
  header->planar = file->dimensions == 4;
  const size_t *shape = file->shape + (header->planar ? 2 : 0);
  header->height = (int32_t)shape[0];
  header->width = (int32_t)shape[1];
  header->channels = header->planar ? (int32_t)file->shape[1] : file->dimensions == 3 ? (int32_t)shape[2] : 1;
  header->frames = header->planar ? (int32_t)file->shape[0] : 1;
  return GCONV_OK;
}

static gconv_status open_npy(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(npy_state), "an array", &reader->state));
  gconv_npy_header *file = &((npy_state *)reader->state)->file;
  GCONV_TRY(gconv_npy_header_read(reader->source, file));
  reader->out_of_order = file->fortran_order;
  GCONV_TRY(set_type(reader, file));
  GCONV_TRY(set_shape(reader, file));
  return gconv_reader_expect(reader, file->items * file->item_bytes);
}

static void close_npy(gconv_reader *reader) {
  const npy_state *state = reader->state;
  if (state && state->lost)
    gconv_remark("%s: float64 became float32, with rounding", reader->source->name);
}

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Reads the next elements, in the byte order of this machine. `size` is that of an element in the file. */
static gconv_status read_stored(gconv_reader *reader, void *items, size_t count, size_t size) {
  const npy_state *state = reader->state;
  GCONV_TRY(gconv_source_read_exactly(reader->source, items, count * size, "its elements"));
  if (size > 1 && state->file.big_endian != gconv_host_is_big_endian())
    gconv_swap_bytes(items, count, size);
  return GCONV_OK;
}

static gconv_status read_bools(gconv_reader *reader, uint8_t *samples, size_t count) {
  GCONV_TRY(read_stored(reader, samples, count, 1));
  for (size_t i = 0; i < count; i++)
    samples[i] = samples[i] ? UINT8_MAX : 0;
  return GCONV_OK;
}

/* Reads the next elements as samples. */
static gconv_status read_samples(gconv_reader *reader, void *samples, size_t count) {
  npy_state *state = reader->state;
  if (state->file.kind == 'b')
    return read_bools(reader, samples, count);
  if (state->file.kind == 'f' && state->file.item_bytes == 2)
    return gconv_elements_read(reader->source, (gconv_element){'f', 2, state->file.big_endian}, count, "its elements",
                               samples);
  if (state->file.item_bytes != sizeof(double))
    return read_stored(reader, samples, count, state->file.item_bytes);
  double piece[PIECE];
  float *out = samples;
  for (size_t done = 0; done < count; done += PIECE) {
    size_t step = smaller(count - done, PIECE);
    GCONV_TRY(read_stored(reader, piece, step, sizeof(double)));
    for (size_t i = 0; i < step; i++) {
      *out = (float)piece[i];
      state->lost |= (double)*out++ != piece[i] && piece[i] == piece[i]; /* NaN is never equal, but not rounded */
    }
  }
  return GCONV_OK;
}

/* In Fortran order, the first index runs fastest. The samples are distributed to rows by counting the indices. */
static gconv_status read_fortran(gconv_reader *reader, uint8_t *rows, size_t row_bytes) {
  const gconv_npy_header *file = &((const npy_state *)reader->state)->file;
  const gconv_image *header = &reader->header;
  size_t bytes = gconv_type_bytes(header->type), plane = row_bytes * (size_t)header->height;
  const size_t interleaved[4] = {row_bytes, bytes * (size_t)header->channels, bytes, 0};
  const size_t planar[4] = {plane * (size_t)header->channels, plane, row_bytes, bytes};
  const size_t *steps = header->planar ? planar : interleaved;
  size_t index[4] = {0, 0, 0, 0}, offset = 0;
  float piece[PIECE]; /* room for samples of any type, since none is larger */
  for (size_t left = file->items; left > 0;) {
    size_t count = smaller(left, PIECE);
    GCONV_TRY(read_samples(reader, piece, count));
    for (size_t i = 0; i < count; i++) {
      memcpy(rows + offset, (const uint8_t *)piece + i * bytes, bytes);
      for (int d = 0; d < file->dimensions; d++) {
        offset += steps[d];
        if (++index[d] < file->shape[d])
          break;
        offset -= steps[d] * file->shape[d];
        index[d] = 0;
      }
    }
    left -= count;
  }
  return GCONV_OK;
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  if (((const npy_state *)reader->state)->file.fortran_order)
    return gconv_reader_whole(reader, read_fortran, rows, row_bytes, count);
  size_t samples = gconv_image_row_bytes(&reader->header) / gconv_type_bytes(reader->header.type);
  for (size_t i = 0; i < (size_t)count; i++)
    GCONV_TRY(read_samples(reader, (uint8_t *)rows + i * row_bytes, samples));
  return GCONV_OK;
}

/* ---- Writing ---- */

/* Returns whether rows must be separated into planes: an array of four dimensions is N x C x H x W in the file. */
static bool is_transposed(const gconv_image *image) {
  return !image->planar && image->frames > 1 && image->channels > 1;
}

static gconv_npy_header header_of(const gconv_image *image) {
  size_t frames = (size_t)image->frames, channels = (size_t)image->channels;
  size_t height = (size_t)image->height, width = (size_t)image->width;
  gconv_npy_header file = {.kind = image->type == GCONV_F32 ? 'f' : 'u',
                           .item_bytes = gconv_type_bytes(image->type),
                           .big_endian = gconv_host_is_big_endian()};
  if (image->planar || image->frames > 1) {
    file.dimensions = 4;
    memcpy(file.shape, (size_t[]){frames, channels, height, width}, 4 * sizeof(size_t));
  } else {
    file.dimensions = image->channels == 1 ? 2 : 3;
    memcpy(file.shape, (size_t[]){height, width, channels}, 3 * sizeof(size_t));
  }
  return file;
}

static gconv_status start(gconv_writer *writer) {
  const gconv_image *image = writer->header;
  GCONV_TRY(gconv_format_state(sizeof(npy_state), "an array", &writer->state));
  if (is_transposed(image)) {
    size_t factors[] = {gconv_type_bytes(image->type), (size_t)image->channels, (size_t)image->width, (size_t)image->height};
    void *frame = NULL;
    GCONV_TRY(gconv_allocate(gconv_product(4, factors), "a frame", &frame));
    ((npy_state *)writer->state)->frame = frame;
  }
  gconv_npy_header file = header_of(image);
  GCONV_TRY(gconv_npy_header_write(writer->sink, &file));
  ((npy_state *)writer->state)->header_bytes = gconv_sink_position(writer->sink);
  return GCONV_OK;
}

/* Puts an interleaved row into the planes of the frame. Writes them when the frame is complete. */
static gconv_status write_transposed(gconv_writer *writer, const uint8_t *row) {
  npy_state *state = writer->state;
  const gconv_image *image = writer->header;
  size_t bytes = gconv_type_bytes(image->type), channels = (size_t)image->channels, width = (size_t)image->width;
  size_t plane = bytes * width * (size_t)image->height;
  for (size_t c = 0; c < channels; c++) {
    uint8_t *out = state->frame + c * plane + (size_t)state->frame_rows * width * bytes;
    for (size_t x = 0; x < width; x++)
      memcpy(out + x * bytes, row + (x * channels + c) * bytes, bytes);
  }
  if (++state->frame_rows < image->height)
    return GCONV_OK;
  state->frame_rows = 0;
  return gconv_sink_write(writer->sink, state->frame, channels * plane);
}

static gconv_status write_rows(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count) {
  const gconv_image *image = writer->header;
  size_t bytes = gconv_image_row_bytes(image);
  for (size_t i = 0; i < (size_t)count; i++) {
    const uint8_t *row = (const uint8_t *)rows + i * row_bytes;
    GCONV_TRY(is_transposed(image) ? write_transposed(writer, row) : gconv_sink_write(writer->sink, row, bytes));
  }
  return GCONV_OK;
}

static gconv_status write_rows_at(gconv_writer *writer, int64_t first, const void *rows, size_t row_bytes, int32_t count) {
  npy_state *state = writer->state;
  const gconv_image *image = writer->header;
  size_t bytes = gconv_image_row_bytes(image);
  if (!state->reserved)
    GCONV_TRY(gconv_sink_reserve(writer->sink, state->header_bytes + (uint64_t)gconv_image_row_count(image) * bytes));
  state->reserved = true;
  uint64_t position = state->header_bytes + (uint64_t)first * bytes;
  if (row_bytes == bytes)
    return gconv_sink_write_at(writer->sink, position, rows, bytes * (size_t)count);
  for (size_t i = 0; i < (size_t)count; i++)
    GCONV_TRY(gconv_sink_write_at(writer->sink, position + i * bytes, (const uint8_t *)rows + i * row_bytes, bytes));
  return GCONV_OK;
}

static void end(gconv_writer *writer) {
  const npy_state *state = writer->state;
  if (state)
    gconv_release(state->frame);
}

const gconv_format gconv_format_npy = {
    .info = {.name = "npy",
             .extensions = "npy",
             .help = "NumPy array: H x W, H x W x C or N x C x H x W of b1, u1, u2, f2, f4 or f8",
             .reads = true,
             .writes = true,
             .holds = {true, true, true},
             .multiframe = true,
             .planar = true},
    .alpha = true,
    .sniff = gconv_npy_sniff,
    .open = open_npy,
    .read_rows = read_rows,
    .close = close_npy,
    .start = start,
    .write_rows = write_rows,
    .write_rows_at = write_rows_at,
    .end = end,
};

/* SPDX-License-Identifier: MIT */
/* NumPy arrays as images: H x W, H x W x C (1 to 4 channels, interleaved), N x H x W (frames; the last axis is longer than
 * 4) and N x C x H x W (planar). Frames that are at most 4 wide are written as N x 1 x H x W. Elements u1, u2 and f4 are
 * samples as they are. All other numbers are converted to float32, and rounded if float32 does not have them. b1 is black
 * for False and white for True. */
#include "base/element.h"
#include "base/npy_header.h"
#include "image/format.h"

#include <string.h>

enum {
  PIECE = 1024,    /* elements that are converted at a time, on the stack */
  MOST_COLOURS = 4 /* the last axis of H x W x C; of a stack of frames, it is longer */
};

typedef struct npy_state {
  gconv_npy_header file;    /* header of the file that is read */
  uint8_t *frame;           /* for writing an interleaved image of several frames: C planes of the current frame */
  int32_t frame_rows;       /* rows of the frame so far */
  uint64_t header_bytes;    /* bytes of the header that was written */
  bool reserved;            /* space for writing in any order was reserved */
  gconv_element element;    /* type of the elements that are written */
  uint16_t *row;            /* NULL, or room for a row of elements, if samples are converted to them */
  bool several, grown;      /* `several`: the file was begun with several frames; `grown`: frames were added to them */
  gconv_elements_made made; /* counts what converting samples to elements has lost */
} npy_state;

/* ---- Reading ---- */

static void set_type(gconv_reader *reader, const gconv_npy_header *file) {
  bool is_level = file->kind == 'b' || (file->kind == 'u' && file->item_bytes <= 2);
  reader->header.type = !is_level ? GCONV_F32 : file->item_bytes == 2 ? GCONV_U16 : GCONV_U8;
}

/* Returns whether the array is a stack of frames: its last axis is too long to be colours. */
static bool is_stack(const gconv_npy_header *file) {
  return file->dimensions == 3 && file->shape[2] > MOST_COLOURS;
}

static gconv_status set_shape(gconv_reader *reader, const gconv_npy_header *file) {
  gconv_image *header = &reader->header;
  const char *name = reader->source->name;
  if (file->dimensions < 2 || file->dimensions > 4)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: an array of %d dimension%s; an image is H x W, H x W x C, N x H x W or N x C x H x W", name,
                      file->dimensions, file->dimensions == 1 ? "" : "s");
  for (int i = 0; i < file->dimensions; i++)
    if (file->shape[i] < 1 || file->shape[i] > INT32_MAX)
      return gconv_fail(GCONV_BAD_FILE, "%s: dimension %d of the array is %zu; it must be 1 to 2^31 - 1", name, i + 1,
                        file->shape[i]);
  header->planar = file->dimensions == 4;
  const size_t *shape = file->shape + (header->planar ? 2 : is_stack(file) ? 1 : 0);
  header->height = (int32_t)shape[0];
  header->width = (int32_t)shape[1];
  header->channels = header->planar                             ? (int32_t)file->shape[1]
                     : file->dimensions == 3 && !is_stack(file) ? (int32_t)shape[2]
                                                                : 1;
  header->frames = header->planar || is_stack(file) ? (int32_t)file->shape[0] : 1;
  return GCONV_OK;
}

/* Goes to the elements of the frame that reader->member names. */
static gconv_status choose_frame(gconv_reader *reader, const gconv_npy_header *file) {
  int64_t index = 0;
  size_t bytes = gconv_checked_product(3, (size_t[]){file->shape[1], file->shape[2], file->item_bytes});
  if (!is_stack(file))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: this array is no stack of frames, N x H x W: leave out the ':%s'",
                      reader->source->name, reader->member);
  if (file->fortran_order)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: frames of an array in Fortran order do not lie one after the other: take all of it",
                      reader->source->name);
  GCONV_TRY(gconv_reader_find_number(reader, reader->header.frames, &index));
  reader->header.frames = 1;
  return gconv_source_skip(reader->source, (uint64_t)index * bytes);
}

static gconv_status open_npy(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(npy_state), "an array", &reader->state));
  gconv_npy_header *file = &((npy_state *)reader->state)->file;
  GCONV_TRY(gconv_npy_header_read(reader->source, file));
  reader->out_of_order = file->fortran_order;
  set_type(reader, file);
  GCONV_TRY(set_shape(reader, file));
  reader->end = reader->source->position + file->items * file->item_bytes;
  GCONV_TRY(gconv_reader_expect(reader, file->items * file->item_bytes));
  return reader->member ? choose_frame(reader, file) : GCONV_OK;
}

/* Reads C x H x W as one planar image. Its elements lie as in a stack of C frames. */
void gconv_npy_take_planes(gconv_reader *reader, int32_t planes) {
  const gconv_npy_header *file = &((const npy_state *)reader->state)->file;
  gconv_image *header = &reader->header;
  if (file->dimensions != 3 || file->shape[0] != (size_t)planes || reader->member)
    return;
  if (file->shape[2] == (size_t)planes && !is_stack(file)) {
    gconv_reader_note(reader,
                      "an array of %zu x %zu x %zu is taken as H x W x C; one of C x H x W is clear with a fourth axis, "
                      "1 x C x H x W",
                      file->shape[0], file->shape[1], file->shape[2]);
    return;
  }
  header->planar = true;
  header->frames = 1;
  header->channels = planes;
  header->height = (int32_t)file->shape[1];
  header->width = (int32_t)file->shape[2];
}

size_t gconv_npy_bytes(const gconv_reader *reader) {
  const gconv_npy_header *file = &((const npy_state *)reader->state)->file;
  return file->items * file->item_bytes;
}

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Reads the next elements, in the byte order of this machine. `size`: bytes of an element in the file. */
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

/* Returns whether an integer of this magnitude is exact in float32. */
static bool is_single(uint64_t magnitude) {
  return magnitude < 1 << 24 || magnitude >> __builtin_ctzll(magnitude) < 1 << 24;
}

static uint64_t magnitude_of(int64_t number) {
  return number < 0 ? -(uint64_t)number : (uint64_t)number;
}

/* Converts an array of one type to float32. `rounds(x)`: whether float32 does not have x. */
#define CONVERT(type, rounds)                                                                                               \
  for (size_t i = 0; i < count; i++) {                                                                                      \
    type x = ((const type *)items)[i];                                                                                      \
    out[i] = (float)x;                                                                                                      \
    lost |= rounds;                                                                                                         \
  }

/* Returns whether an integer was rounded. */
static bool convert(const gconv_npy_header *file, const void *items, size_t count, float *out) {
  bool lost = false;
  switch (file->kind == 'f' ? 0 : file->kind == 'u' ? -(int)file->item_bytes : (int)file->item_bytes) {
  case 1:
    CONVERT(int8_t, false) break;
  case 2:
    CONVERT(int16_t, false) break;
  case 4:
    CONVERT(int32_t, !is_single(magnitude_of(x))) break;
  case 8:
    CONVERT(int64_t, !is_single(magnitude_of(x))) break;
  case -4:
    CONVERT(uint32_t, !is_single(x)) break;
  case -8:
    CONVERT(uint64_t, !is_single(x)) break;
  default:
    CONVERT(double, false) break;
  }
  return lost;
}

/* Reads the next elements as samples. */
static gconv_status read_samples(gconv_reader *reader, void *samples, size_t count) {
  const gconv_npy_header *file = &((const npy_state *)reader->state)->file;
  if (file->kind == 'b')
    return read_bools(reader, samples, count);
  if (file->kind == 'f' && file->item_bytes == 2)
    return gconv_elements_read(reader->source, (gconv_element){'f', 2, file->big_endian}, count, "its elements", samples);
  bool is_sample = reader->header.type != GCONV_F32 || (file->kind == 'f' && file->item_bytes == sizeof(float));
  if (is_sample)
    return read_stored(reader, samples, count, file->item_bytes);
  double piece[PIECE]; /* room for elements of any type, since none is larger */
  for (size_t done = 0; done < count; done += PIECE) {
    size_t step = smaller(count - done, PIECE);
    GCONV_TRY(read_stored(reader, piece, step, file->item_bytes));
    reader->rounding.integers |= convert(file, piece, step, (float *)samples + done);
    if (file->kind == 'f')
      gconv_rounding_add(&reader->rounding, piece, step);
  }
  return GCONV_OK;
}

/* In Fortran order, the first index runs fastest. The samples are distributed to rows by counting the indices. */
static gconv_status read_fortran(gconv_reader *reader, uint8_t *rows, size_t row_bytes) {
  const gconv_npy_header *file = &((const npy_state *)reader->state)->file;
  const gconv_image *header = &reader->header;
  size_t bytes = gconv_type_bytes(header->type), plane = row_bytes * (size_t)header->height;
  const size_t interleaved[4] = {row_bytes, bytes * (size_t)header->channels, bytes, 0};
  const size_t planar[4] = {plane * (size_t)header->channels, plane, row_bytes, bytes}, stack[3] = {plane, row_bytes, bytes};
  const size_t *steps = file->dimensions == 4 ? planar : header->planar || is_stack(file) ? stack : interleaved;
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

static gconv_element element_of(const gconv_writer *writer) {
  const gconv_image *image = writer->header;
  gconv_stored_type store = image->type == GCONV_F32 ? writer->options->store : GCONV_STORE_F32;
  return (gconv_element){.kind = store == GCONV_STORE_I16 || image->type == GCONV_I16 ? 'i'
                                 : image->type == GCONV_F32                           ? 'f'
                                                                                      : 'u',
                         .bytes = store != GCONV_STORE_F32 ? 2 : gconv_type_bytes(image->type),
                         .big_endian = gconv_host_is_big_endian()};
}

static gconv_npy_header header_of(const gconv_image *image, gconv_element element) {
  size_t frames = (size_t)image->frames, channels = (size_t)image->channels;
  size_t height = (size_t)image->height, width = (size_t)image->width;
  gconv_npy_header file = {.kind = element.kind, .item_bytes = element.bytes, .big_endian = element.big_endian};
  if (!image->planar && image->frames > 1 && image->channels == 1 && image->width > MOST_COLOURS) {
    file.dimensions = 3;
    memcpy(file.shape, (size_t[]){frames, height, width}, 3 * sizeof(size_t));
  } else if (image->planar || image->frames > 1) {
    file.dimensions = 4;
    memcpy(file.shape, (size_t[]){frames, channels, height, width}, 4 * sizeof(size_t));
  } else {
    file.dimensions = image->channels == 1 ? 2 : 3;
    memcpy(file.shape, (size_t[]){height, width, channels}, 3 * sizeof(size_t));
  }
  return file;
}

static size_t row_samples(const gconv_image *image) {
  return gconv_image_row_bytes(image) / gconv_type_bytes(image->type);
}

/* Separating a frame into planes needs all of the frame. */
static double held_bytes(const gconv_image *header, const gconv_write_options *options, int how) {
  return is_transposed(header) ? gconv_image_frame_bytes(header) : 0;
}

static gconv_status start(gconv_writer *writer) {
  const gconv_image *image = writer->header;
  GCONV_TRY(gconv_format_state(sizeof(npy_state), "an array", &writer->state));
  npy_state *state = writer->state;
  state->element = element_of(writer);
  state->several = image->frames > 1;
  if (writer->grows && !gconv_sink_can_seek(writer->sink))
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: several images came through a pipe, and an array begins with their number: write it to a file, "
                      "not to a pipe, or write pnm",
                      strcmp(writer->name, "-") == 0 ? "standard output" : writer->name);
  if (is_transposed(image)) {
    size_t factors[] = {state->element.bytes, (size_t)image->channels, (size_t)image->width, (size_t)image->height};
    GCONV_ALLOCATE(state->frame, gconv_checked_product(4, factors), "a frame");
  }
  if (writer->options->store != GCONV_STORE_F32) {
    GCONV_ALLOCATE(state->row, row_samples(image) * state->element.bytes, "a row");
  }
  gconv_npy_header file = header_of(image, state->element);
  GCONV_TRY(gconv_npy_header_write(writer->sink, &file));
  state->header_bytes = gconv_sink_position(writer->sink);
  return GCONV_OK;
}

/* Returns the elements of a row: the samples themselves, or converted to the type of the file. */
static const uint8_t *elements_of(const gconv_writer *writer, const void *row) {
  npy_state *state = writer->state;
  double unit = writer->options->unit > 0 ? writer->options->unit : 1;
  if (!state->row)
    return row;
  gconv_elements_make(state->element.kind, row, row_samples(writer->header), unit, state->row, &state->made);
  return (const uint8_t *)state->row;
}

/* Puts an interleaved row into the planes of the frame. Writes them when the frame is complete. */
static gconv_status write_transposed(gconv_writer *writer, const uint8_t *row) {
  npy_state *state = writer->state;
  const gconv_image *image = writer->header;
  size_t bytes = state->element.bytes, channels = (size_t)image->channels, width = (size_t)image->width;
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
  size_t bytes = row_samples(image) * ((const npy_state *)writer->state)->element.bytes;
  for (size_t i = 0; i < (size_t)count; i++) {
    const uint8_t *row = elements_of(writer, (const uint8_t *)rows + i * row_bytes);
    GCONV_TRY(is_transposed(image) ? write_transposed(writer, row) : gconv_sink_write(writer->sink, row, bytes));
  }
  return GCONV_OK;
}

static gconv_status write_rows_at(gconv_writer *writer, int64_t first, const void *rows, size_t row_bytes, int32_t count) {
  npy_state *state = writer->state;
  const gconv_image *image = writer->header;
  size_t bytes = row_samples(image) * state->element.bytes;
  if (!state->reserved)
    GCONV_TRY(gconv_sink_reserve(writer->sink, state->header_bytes + (uint64_t)gconv_image_row_count(image) * bytes));
  state->reserved = true;
  uint64_t position = state->header_bytes + (uint64_t)first * bytes;
  if (row_bytes == bytes && !state->row)
    return gconv_sink_write_at(writer->sink, position, rows, bytes * (size_t)count);
  for (size_t i = 0; i < (size_t)count; i++)
    GCONV_TRY(gconv_sink_write_at(writer->sink, position + i * bytes,
                                  elements_of(writer, (const uint8_t *)rows + i * row_bytes), bytes));
  return GCONV_OK;
}

/* Frames can be added only to an array of several frames: the array of a single image has fewer axes. */
static gconv_status add_frame(gconv_writer *writer) {
  npy_state *state = writer->state;
  if (!state->several)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: several images came through a pipe, and an array begins with their number: allow "
                      "more --memory, write pnm, or save them to a file first",
                      writer->name);
  state->grown = true;
  return GCONV_OK;
}

/* Writes the header again, with the number of frames. The header ends in spaces, nearly always enough for the digits. */
static gconv_status write_number(gconv_writer *writer) {
  const npy_state *state = writer->state;
  uint8_t bytes[GCONV_NPY_HEADER_BYTES];
  gconv_npy_header file = header_of(writer->header, state->element);
  size_t size = gconv_npy_header_format(&file, bytes);
  if (size != state->header_bytes)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: has too many frames for its header", writer->name);
  return gconv_sink_write_at(writer->sink, 0, bytes, size);
}

static gconv_status finish(gconv_writer *writer) {
  const npy_state *state = writer->state;
  if (state->grown)
    GCONV_TRY(write_number(writer));
  gconv_elements_warn(writer->name, state->element.kind, &state->made);
  return GCONV_OK;
}

static void end(gconv_writer *writer) {
  const npy_state *state = writer->state;
  gconv_release(state ? state->frame : NULL);
  gconv_release(state ? state->row : NULL);
}

const gconv_format gconv_format_npy = {
    .info = {.name = "npy",
             .extensions = "npy",
             .help = "NumPy array: H x W, H x W x C, N x H x W or N x C x H x W, of numbers or bools",
             .reads = true,
             .writes = true,
             .holds = {true, true, true, true},
             .multiframe = true,
             .tensors = true,
             .stores = true},
    .alpha = true,
    .plain = true,
    .number = true,
    .members = true,
    .sniff = gconv_npy_sniff,
    .open = open_npy,
    .take_planes = gconv_npy_take_planes,
    .read_rows = read_rows,
    .held_bytes = held_bytes,
    .start = start,
    .write_rows = write_rows,
    .write_rows_at = write_rows_at,
    .add_frame = add_frame,
    .finish = finish,
    .end = end,
};

/* SPDX-License-Identifier: MIT */
/* NIfTI, of brain imaging: a header of 348 bytes, or 540 of version 2, in either byte order, then numbers. The first axis is
 * along rows; the third and those after it are frames, as in nibabel's get_fdata().T. scl_slope 0 means no scale. */
#include "image/numbers.h"

#include <math.h>
#include <string.h>

enum { FIRST = 348, SECOND = 540 };

typedef struct nifti_state {
  gconv_numbers_file numbers;
} nifti_state;

/* Returns the version of a header, 0 for none, and its byte order. */
static int find_version(const uint8_t *bytes, size_t size, bool *big) {
  for (int order = 0; order < 2 && size >= 12; order++) {
    *big = order == 1;
    const uint64_t length = gconv_bytes_number(bytes, 4, *big);
    if (length == SECOND && memcmp(bytes + 4, "n+2\0\r\n\032\n", 8) == 0)
      return 2;
    if (length == FIRST && (size < FIRST || memcmp(bytes + 344, "n+1", 4) == 0))
      return 1;
  }
  return 0;
}

static bool sniff(const uint8_t *bytes, size_t size) {
  bool big;
  const int version = find_version(bytes, size, &big);
  return version == 2 || (version == 1 && size >= FIRST);
}

static double float_at(const uint8_t *at, size_t bytes, bool big) {
  const uint64_t bits = gconv_bytes_number(at, bytes, big);
  const uint32_t low = (uint32_t)bits;
  double value;
  float single;
  memcpy(&value, &bits, sizeof value);
  memcpy(&single, &low, sizeof single);
  return bytes == 8 ? value : (double)single;
}

/* Sets the type of the numbers, or the colours of pixels. */
static gconv_status take_type(gconv_reader *reader, int code, gconv_numbers_file *numbers) {
  static const struct {
    int code;
    char kind;
    uint8_t bytes, channels;
  } types[] = {{2, 'u', 1, 1},   {4, 'i', 2, 1},    {8, 'i', 4, 1},    {16, 'f', 4, 1},
               {64, 'f', 8, 1},  {128, 'u', 1, 3},  {256, 'i', 1, 1},  {512, 'u', 2, 1},
               {768, 'u', 4, 1}, {1024, 'i', 8, 1}, {1280, 'u', 8, 1}, {2304, 'u', 1, 4}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].code == code) {
      numbers->element.kind = types[i].kind;
      numbers->element.bytes = types[i].bytes;
      reader->header.channels = types[i].channels;
      reader->header.alpha = types[i].channels == 4;
      return GCONV_OK;
    }
  return gconv_fail(GCONV_UNSUPPORTED,
                    "%s: has numbers of the type %d of NIfTI: read are integers, floats of 32 and 64 bits, "
                    "and colours",
                    reader->source->name, code);
}

static gconv_status take_axes(gconv_reader *reader, const uint8_t *at, size_t bytes, bool big) {
  gconv_image *header = &reader->header;
  const uint64_t axes = gconv_bytes_number(at, bytes, big);
  double frames = 1;
  if (axes < 1 || axes > 7)
    return gconv_fail(GCONV_BAD_FILE, "%s: has %llu axes: NIfTI has 1 to 7", reader->source->name, (unsigned long long)axes);
  for (uint64_t i = 1; i <= axes; i++) {
    const uint64_t length = gconv_bytes_number(at + i * bytes, bytes, big);
    if (length < 1 || length > (bytes == 2 ? INT16_MAX : INT32_MAX))
      return gconv_fail(GCONV_BAD_FILE, "%s: axis %d has a length that is wrong", reader->source->name, (int)i);
    if (i == 1)
      header->width = (int32_t)length;
    else if (i == 2)
      header->height = (int32_t)length;
    else
      frames *= (double)length;
  }
  if (frames > INT32_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "%s: has more than 2^31 planes", reader->source->name);
  header->frames = (int32_t)frames;
  return GCONV_OK;
}

static gconv_status open_nifti(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(nifti_state), "a NIfTI", &reader->state));
  gconv_numbers_file *numbers = &((nifti_state *)reader->state)->numbers;
  uint8_t bytes[SECOND] = {0};
  gconv_image *header = &reader->header;
  bool big;
  GCONV_TRY(gconv_source_read_exactly(reader->source, bytes, FIRST, "its header"));
  const bool second = find_version(bytes, FIRST, &big) == 2;
  if (second)
    GCONV_TRY(gconv_source_read_exactly(reader->source, bytes + FIRST, SECOND - FIRST, "its header"));
  header->height = header->frames = 1;
  numbers->element.big_endian = big;
  GCONV_TRY(take_type(reader, (int)gconv_bytes_number(bytes + (second ? 12 : 70), 2, big), numbers));
  GCONV_TRY(take_axes(reader, bytes + (second ? 16 : 40), second ? 8 : 2, big));
  numbers->scale = float_at(bytes + (second ? 176 : 112), second ? 8 : 4, big);
  numbers->offset = float_at(bytes + (second ? 184 : 116), second ? 8 : 4, big);
  if (numbers->scale == 0 || !isfinite(numbers->scale) || !isfinite(numbers->offset) || header->channels > 1) {
    numbers->scale = 1;
    numbers->offset = 0;
  }
  gconv_numbers_set_type(numbers, header);
  const double begin = second ? (double)gconv_bytes_number(bytes + 168, 8, big) : float_at(bytes + 108, 4, big);
  const uint64_t read = second ? SECOND : FIRST;
  if (!(begin >= (double)read && begin <= 1e15))
    return gconv_fail(GCONV_BAD_FILE, "%s: its numbers begin at byte %g, inside the header", reader->source->name, begin);
  GCONV_TRY(gconv_source_skip(reader->source, (uint64_t)begin - read));
  const size_t sizes[] = {(size_t)header->width, (size_t)header->height, (size_t)header->frames, (size_t)header->channels,
                          numbers->element.bytes};
  gconv_reader_lose(reader, "the place and spacing of NIfTI (qform, sform, pixdim)");
  return gconv_reader_expect(reader, gconv_checked_product(5, sizes));
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  return gconv_numbers_read_rows(reader, &((const nifti_state *)reader->state)->numbers, rows, row_bytes, count);
}

const gconv_format gconv_format_nifti = {
    .info = {.name = "nifti",
             .extensions = "nii",
             .help = "NIfTI of brain imaging: volumes are read as frames, numbers of any type",
             .reads = true,
             .several = true},
    .sniff = sniff,
    .open = open_nifti,
    .read_rows = read_rows,
};

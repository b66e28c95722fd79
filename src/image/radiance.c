/* SPDX-License-Identifier: MIT */
/* Radiance HDR: lines of text, a blank line, the size, then pixels of three mantissas and an exponent (RGBE), mostly in
 * runs. A colour is mantissa * 2^(exponent - 136), as OpenCV and stb compute it. */
#include "image/format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 512, MOST_LINES = 1000 };

typedef struct radiance_state {
  uint8_t *row; /* owned: [4][width] or [width][4] */
} radiance_state;

static bool sniff(const uint8_t *bytes, size_t size) {
  return size >= 10 && (memcmp(bytes, "#?RADIANCE", 10) == 0 || memcmp(bytes, "#?RGBE", 6) == 0);
}

static gconv_status read_line(gconv_reader *reader, char line[LINE]) {
  size_t used = 0;
  for (;;) {
    uint8_t c;
    GCONV_TRY(gconv_source_read_exactly(reader->source, &c, 1, "its header"));
    if (c == '\n')
      break;
    if (used + 1 < LINE)
      line[used++] = (char)c;
  }
  line[used] = 0;
  return GCONV_OK;
}

static gconv_status read_size(gconv_reader *reader) {
  static const char *const signs[] = {"-+", "--", "+-", "++"}; /* of Y and X: the orientations 1 to 4 */
  char line[LINE], y, x;
  int height, width;
  GCONV_TRY(read_line(reader, line));
  if (sscanf(line, "%cY %9d %cX %9d", &y, &height, &x, &width) != 4 || height < 1 || width < 1)
    return gconv_fail(line[0] && line[1] == 'X' ? GCONV_UNSUPPORTED : GCONV_BAD_FILE,
                      "%s: its size is %.40s, and -Y HEIGHT +X WIDTH is expected", reader->source->name, line);
  for (int i = 0; i < 4; i++)
    if (signs[i][0] == y && signs[i][1] == x)
      reader->orientation = i + 1;
  reader->header.width = width;
  reader->header.height = height;
  return GCONV_OK;
}

static gconv_status open_radiance(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(radiance_state), "a Radiance HDR", &reader->state));
  char line[LINE] = "#";
  for (int i = 0; line[0]; i++) {
    GCONV_TRY(read_line(reader, line));
    if (i == MOST_LINES)
      return gconv_fail(GCONV_TOO_LARGE, "%s: a header of more than %d lines", reader->source->name, (int)MOST_LINES);
    if (strncmp(line, "FORMAT=", 7) == 0 && strcmp(line, "FORMAT=32-bit_rle_rgbe") != 0)
      return gconv_fail(GCONV_UNSUPPORTED, "%s: %.40s: only 32-bit_rle_rgbe is read here", reader->source->name, line);
    if (strncmp(line, "EXPOSURE=", 9) == 0 || strncmp(line, "COLORCORR=", 10) == 0)
      gconv_reader_note(reader, "its %.40s is not applied: samples are used as they are stored", line);
  }
  reader->header.type = GCONV_F32;
  reader->header.frames = 1;
  reader->header.channels = 3;
  GCONV_TRY(read_size(reader));
  return gconv_reader_check_expansion(reader, 1);
}

/* Reads one of the four planes of a row. It is stored as runs of equal bytes, and as bytes one by one. */
static gconv_status read_plane(gconv_reader *reader, uint8_t *to, size_t width) {
  for (size_t x = 0; x < width;) {
    uint8_t count, value;
    GCONV_TRY(gconv_source_read_exactly(reader->source, &count, 1, "its pixels"));
    const bool run = count > 128;
    const size_t length = run ? count - 128U : count;
    if (length == 0 || length > width - x)
      return gconv_fail(GCONV_BAD_FILE, "%s: a run is longer than its row", reader->source->name);
    if (run) {
      GCONV_TRY(gconv_source_read_exactly(reader->source, &value, 1, "its pixels"));
      memset(to + x, value, length);
    } else {
      GCONV_TRY(gconv_source_read_exactly(reader->source, to + x, length, "its pixels"));
    }
    x += length;
  }
  return GCONV_OK;
}

static void store(const uint8_t rgbe[4], float *out) {
  for (size_t c = 0; c < 3; c++)
    out[c] = rgbe[3] ? ldexpf((float)rgbe[c], rgbe[3] - 136) : 0;
}

/* Reads a row whose first pixel is in `pixel`. 1 1 1 n repeats the pixel before n times; after another such, 256 n times. */
static gconv_status read_pixels(gconv_reader *reader, uint8_t pixel[4], float *out, size_t width) {
  uint8_t before[4] = {0};
  int shift = 0;
  for (size_t x = 0; x < width;) {
    if (x > 0 && pixel[0] == 1 && pixel[1] == 1 && pixel[2] == 1) {
      const uint64_t length = shift < 32 ? (uint64_t)pixel[3] << shift : 0;
      if (length > width - x)
        return gconv_fail(GCONV_BAD_FILE, "%s: a run is longer than its row", reader->source->name);
      for (uint64_t i = 0; i < length; i++)
        store(before, out + 3 * x++);
      shift += 8;
    } else {
      store(pixel, out + 3 * x++);
      memcpy(before, pixel, 4);
      shift = 0;
    }
    if (x < width)
      GCONV_TRY(gconv_source_read_exactly(reader->source, pixel, 4, "its pixels"));
  }
  return GCONV_OK;
}

static gconv_status read_row(gconv_reader *reader, float *out) {
  radiance_state *state = reader->state;
  const size_t width = (size_t)reader->header.width;
  uint8_t first[4];
  GCONV_TRY(gconv_source_read_exactly(reader->source, first, 4, "its pixels"));
  if (first[0] != 2 || first[1] != 2 || first[2] > 127 || width < 8 || width > 32767)
    return read_pixels(reader, first, out, width);
  if ((size_t)first[2] << 8 != (width & 0x7f00) || first[3] != (width & 0xff))
    return gconv_fail(GCONV_BAD_FILE, "%s: a row has another width than the image", reader->source->name);
  for (size_t c = 0; c < 4; c++)
    GCONV_TRY(read_plane(reader, state->row + c * width, width));
  for (size_t x = 0; x < width; x++)
    store((const uint8_t[]){state->row[x], state->row[width + x], state->row[2 * width + x], state->row[3 * width + x]},
          out + 3 * x);
  return GCONV_OK;
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  radiance_state *state = reader->state;
  if (!state->row)
    GCONV_ALLOCATE(state->row, 4 * (size_t)reader->header.width, "a row");
  for (int32_t y = 0; y < count; y++)
    GCONV_TRY(read_row(reader, (float *)(void *)((uint8_t *)rows + (size_t)y * row_bytes)));
  return GCONV_OK;
}

static void close_radiance(gconv_reader *reader) {
  const radiance_state *state = reader->state;
  gconv_release(state ? state->row : NULL);
}

const gconv_format gconv_format_radiance = {
    .info = {.name = "radiance",
             .extensions = "hdr pic",
             .help = "Radiance HDR: colours brighter than white are read as floats",
             .reads = true},
    .sniff = sniff,
    .open = open_radiance,
    .read_rows = read_rows,
    .close = close_radiance,
};

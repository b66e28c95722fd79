/* SPDX-License-Identifier: MIT */
#include "image/numbers.h"

#include <math.h>
#include <string.h>

enum { PIECE = 1024 /* numbers that are converted at a time, on the stack */ };

/* True if stored numbers become levels by flipping their sign bit: int16 with the offset 32768. */
static bool is_shifted(const gconv_numbers_file *file) {
  return file->element.kind == 'i' && file->element.bytes == 2 && file->scale == 1 && file->offset == 32768;
}

static bool is_level(const gconv_numbers_file *file) {
  return is_shifted(file) ||
         (file->element.kind == 'u' && file->element.bytes <= 2 && file->scale == 1 && file->offset == 0);
}

void gconv_numbers_set_type(const gconv_numbers_file *file, gconv_image *header) {
  header->type = !is_level(file) ? GCONV_F32 : file->element.bytes == 1 ? GCONV_U8 : GCONV_U16;
  header->has_nodata = file->has_blank && is_level(file);
  header->nodata = header->has_nodata ? (double)file->blank + file->offset : 0;
}

/* Returns a number in double: float64 and integers of 64 bits would be rounded twice by way of float32. */
static double number_at(gconv_element e, const uint8_t *at) {
  const uint64_t bits = gconv_bytes_number(at, e.bytes, e.big_endian);
  const int unused = 64 - 8 * (int)e.bytes;
  double value;
  if (e.kind == 'f' && e.bytes == 8) {
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  return e.kind == 'f'   ? (double)gconv_element_read(e, at)
         : e.kind == 'u' ? (double)bits
                         : (double)((int64_t)(bits << unused) >> unused);
}

/* True if stored numbers are u64 with their sign bit flipped: int64 with the offset 2^63, in which float64 has steps of
 * 1024. */
static bool is_shifted_64(const gconv_numbers_file *file) {
  return file->element.kind == 'i' && file->element.bytes == 8 && file->scale == 1 && file->offset == 0x1p63;
}

static gconv_status read_numbers(gconv_reader *reader, const gconv_numbers_file *file, float *out, size_t count) {
  uint8_t piece[PIECE * 8];
  double numbers[PIECE];
  const gconv_element e = file->element;
  const bool whole = e.kind != 'f' && file->scale == 1 && file->offset == rint(file->offset);
  const bool shifted = is_shifted_64(file);
  for (size_t done = 0; done < count; done += PIECE) {
    const size_t step = count - done < PIECE ? count - done : PIECE;
    GCONV_TRY(gconv_source_read_exactly(reader->source, piece, step * e.bytes, "its numbers"));
    for (size_t i = 0; i < step; i++) {
      const uint8_t *at = piece + i * e.bytes;
      const double stored = number_at(e, at);
      const bool blank = file->has_blank && e.kind != 'f' && stored == (double)file->blank;
      const uint64_t bits = shifted ? gconv_bytes_number(at, 8, e.big_endian) ^ UINT64_C(1) << 63 : 0;
      numbers[i] = blank ? NAN : stored * file->scale + file->offset;
      out[done + i] = shifted && !blank ? (float)bits : (float)numbers[i];
      if (shifted && !blank)
        reader->rounding.integers |= out[done + i] == 0x1p64F || (uint64_t)out[done + i] != bits;
      else
        reader->rounding.integers |= whole && !blank && (double)out[done + i] != numbers[i];
    }
    if (!whole && e.bytes == sizeof(double))
      gconv_rounding_add(&reader->rounding, numbers, step);
  }
  return GCONV_OK;
}

gconv_status gconv_numbers_read_rows(gconv_reader *reader, const gconv_numbers_file *file, void *rows, size_t row_bytes,
                                     int32_t count) {
  const size_t samples = gconv_image_row_bytes(&reader->header) / gconv_type_bytes(reader->header.type);
  for (int32_t y = 0; y < count; y++) {
    uint8_t *row = (uint8_t *)rows + (size_t)y * row_bytes;
    if (!is_level(file)) {
      GCONV_TRY(read_numbers(reader, file, (float *)(void *)row, samples));
      continue;
    }
    GCONV_TRY(gconv_source_read_exactly(reader->source, row, samples * file->element.bytes, "its numbers"));
    if (file->element.bytes == 2 && file->element.big_endian != gconv_host_is_big_endian())
      gconv_swap_bytes(row, samples, 2);
    for (size_t i = 0; is_shifted(file) && i < samples; i++)
      ((uint16_t *)(void *)row)[i] ^= 0x8000;
  }
  return GCONV_OK;
}

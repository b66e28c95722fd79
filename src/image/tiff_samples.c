/* SPDX-License-Identifier: MIT */
/* Samples of TIFF files to samples of images. */
#include "base/element.h"
#include "image/tiff.h"

#include <math.h>
#include <string.h>

/* ---- Undoing predictors ---- */

/* Each sample is stored as its difference from the same channel of the pixel before. `step`: samples a pixel. */
#define UNDO_DIFFERENCES(type, name)                                                                                        \
  static void name(type *samples, size_t count, size_t step) {                                                              \
    if (step == 1) {                                                                                                        \
      type sum = 0;                                                                                                         \
      for (size_t i = 0; i < count; i++)                                                                                    \
        samples[i] = sum = (type)(sum + samples[i]);                                                                        \
    } else if (step == 3) {                                                                                                 \
      type a = 0, b = 0, c = 0;                                                                                             \
      for (size_t i = 0; i + 3 <= count; i += 3) {                                                                          \
        samples[i] = a = (type)(a + samples[i]);                                                                            \
        samples[i + 1] = b = (type)(b + samples[i + 1]);                                                                    \
        samples[i + 2] = c = (type)(c + samples[i + 2]);                                                                    \
      }                                                                                                                     \
    } else {                                                                                                                \
      for (size_t i = step; i < count; i++)                                                                                 \
        samples[i] = (type)(samples[i] + samples[i - step]);                                                                \
    }                                                                                                                       \
  }
UNDO_DIFFERENCES(uint8_t, undo_u8)
UNDO_DIFFERENCES(uint16_t, undo_u16)
UNDO_DIFFERENCES(uint32_t, undo_u32)

/* Floats are stored as their first bytes, then their second bytes and so on, with differences between those (Adobe's
 * technical note 3). In either byte order, the first byte has the sign. */
static void undo_floats(uint8_t *row, size_t count, size_t step, uint8_t *spare) {
  undo_u8(row, 4 * count, step);
  memcpy(spare, row, 4 * count);
  for (size_t i = 0; i < count; i++)
    for (size_t byte = 0; byte < 4; byte++)
      row[4 * i + (gconv_host_is_big_endian() ? byte : 3 - byte)] = spare[byte * count + i];
}

void gconv_tiff_undo(const gconv_tiff_page *page, uint8_t *row, uint8_t *spare) {
  size_t bytes = page->bits / 8, step = page->separate ? 1 : page->samples;
  if (bytes < 1)
    return;
  size_t count = page->row_bytes / bytes;
  if (page->predictor == PREDICTOR_FLOATINGPOINT) {
    undo_floats(row, count, step, spare);
    return;
  }
  if (page->swapped && bytes > 1)
    gconv_swap_bytes(row, count, bytes);
  if (page->predictor != PREDICTOR_HORIZONTAL)
    return;
  if (bytes == 1)
    undo_u8(row, count, step);
  else if (bytes == 2)
    undo_u16((uint16_t *)(void *)row, count, step);
  else
    undo_u32((uint32_t *)(void *)row, count, step);
}

/* ---- Unpacking ---- */

static void copy_samples(const uint8_t *row, size_t count, size_t bytes, size_t step, uint8_t *out) {
  if (step == 1)
    memcpy(out, row, count * bytes);
  else if (bytes == 1)
    for (size_t i = 0; i < count; i++)
      out[i * step] = row[i];
  else if (bytes == 2)
    for (size_t i = 0; i < count; i++)
      memcpy(out + i * step * 2, row + i * 2, 2);
  else
    for (size_t i = 0; i < count; i++)
      memcpy(out + i * step * 4, row + i * 4, 4);
}

/* Unpacks samples of 1 to 15 bits, the highest bit first. Scales all but indices of a palette to 0 .. 255 or 0 .. 65535. */
static void unpack_bits(const gconv_tiff_page *page, const uint8_t *row, size_t count, size_t step, void *out) {
  uint32_t most = (UINT32_C(1) << page->bits) - 1, window = 0, white = page->bits <= 8 ? UINT8_MAX : UINT16_MAX;
  bool scaled = page->colour != GCONV_TIFF_PALETTE && page->colour != GCONV_TIFF_INDICES;
  unsigned ready = 0;
  for (size_t i = 0; i < count; i++) {
    for (; ready < page->bits; ready += 8)
      window = window << 8 | *row++;
    ready -= page->bits;
    uint32_t value = window >> ready & most;
    if (scaled)
      value = (value * white + most / 2) / most;
    if (page->bits <= 8)
      ((uint8_t *)out)[i * step] = (uint8_t)value;
    else
      ((uint16_t *)out)[i * step] = (uint16_t)value;
  }
}

/* Returns whether `value` differs from the file's integer at `at`, from which it was converted. */
static bool is_rounded(const gconv_tiff_page *page, const uint8_t *at, float value) {
  size_t bytes = page->bits / 8;
  uint64_t bits = gconv_bytes_number(at, bytes, gconv_host_is_big_endian()), sign = UINT64_C(1) << (page->bits - 1);
  if (page->format == SAMPLEFORMAT_INT && (bits & sign))
    bits = sign - (bits ^ sign);
  return fabsf(value) >= 0x1p64f || (uint64_t)fabsf(value) != bits;
}

static void unpack_numbers(const gconv_tiff_page *page, const uint8_t *row, size_t count, size_t step, float *out,
                           gconv_rounding *rounding) {
  char kind = page->format == SAMPLEFORMAT_IEEEFP ? 'f' : page->format == SAMPLEFORMAT_INT ? 'i' : 'u';
  gconv_element element = {kind, page->bits / 8, gconv_host_is_big_endian()};
  if (kind == 'f' && element.bytes == sizeof(double))
    gconv_rounding_add(rounding, row, count);
  for (size_t i = 0; i < count; i++, row += element.bytes) {
    out[i * step] = gconv_element_read(element, row);
    rounding->integers |= kind != 'f' && is_rounded(page, row, out[i * step]);
  }
}

void gconv_tiff_unpack(const gconv_tiff_page *page, const uint8_t *row, int32_t count, int plane, void *samples,
                       gconv_rounding *rounding) {
  size_t bytes = gconv_type_bytes(page->header.type), step = page->separate ? page->samples : 1;
  size_t total = (size_t)count * (page->separate ? 1 : page->samples);
  uint8_t *out = (uint8_t *)samples + (size_t)plane * bytes;
  if (page->kind == GCONV_TIFF_NUMBERS)
    unpack_numbers(page, row, total, step, (float *)(void *)out, rounding);
  else if (page->kind == GCONV_TIFF_BITS)
    unpack_bits(page, row, total, step, out);
  else
    copy_samples(row, total, bytes, step, out);
}

/* ---- Colours ---- */

static void invert(const gconv_tiff_page *page, void *samples, size_t count) {
  size_t step = page->samples; /* only the first sample of a pixel is brightness */
  for (size_t i = 0; i < count; i++)
    if (page->header.type == GCONV_U8)
      ((uint8_t *)samples)[i * step] ^= UINT8_MAX;
    else
      ((uint16_t *)samples)[i * step] ^= UINT16_MAX;
}

static void look_up(const gconv_tiff_page *page, const uint8_t *indices, size_t count, uint8_t *pixels) {
  for (size_t i = count; i-- > 0;)
    memcpy(pixels + 3 * i, page->palette + (size_t)3 * indices[i], 3);
}

/* An ink c over black k gives the level (white - c)(white - k) / white, rounded as in jpeg.c. */
#define RGB_OF_CMYK(type, wide, white, name)                                                                                \
  static void name(const type *inks, size_t count, type *pixels) {                                                          \
    for (size_t i = 0; i < count; i++)                                                                                      \
      for (int c = 0; c < 3; c++) {                                                                                         \
        wide left = (wide)(white)-inks[4 * i + 3];                                                                          \
        pixels[3 * i + (size_t)c] = (type)(left - ((wide)inks[4 * i + (size_t)c] * left + (white) / 2) / (white));          \
      }                                                                                                                     \
  }
RGB_OF_CMYK(uint8_t, uint32_t, UINT8_MAX, rgb_of_cmyk8)
RGB_OF_CMYK(uint16_t, uint64_t, UINT16_MAX, rgb_of_cmyk16)

/* Divides colours by alpha. Returns whether some colours were lost: integers larger than their alpha, or floats that are not
 * 0 where alpha is 0. */
static bool divide_by_alpha(const gconv_tiff_page *page, void *samples, size_t count) {
  size_t step = page->samples, last = step - 1;
  bool lost = false;
  for (size_t i = 0; i < count; i++)
    for (size_t c = 0; c < last; c++) {
      size_t at = i * step + c, alpha_at = i * step + last;
      if (page->header.type == GCONV_F32) {
        float *s = samples;
        lost |= s[alpha_at] == 0 && s[at] != 0;
        s[at] = s[alpha_at] != 0 ? s[at] / s[alpha_at] : 0;
      } else if (page->header.type == GCONV_U16) {
        uint16_t *s = samples;
        lost |= s[at] > s[alpha_at];
        uint64_t alpha = s[alpha_at], value = alpha ? ((uint64_t)s[at] * UINT16_MAX + alpha / 2) / alpha : 0;
        s[at] = (uint16_t)(value < UINT16_MAX ? value : UINT16_MAX);
      } else {
        uint8_t *s = samples;
        lost |= s[at] > s[alpha_at];
        uint32_t alpha = s[alpha_at], value = alpha ? (s[at] * (uint32_t)UINT8_MAX + alpha / 2) / alpha : 0;
        s[at] = (uint8_t)(value < UINT8_MAX ? value : UINT8_MAX);
      }
    }
  return lost;
}

bool gconv_tiff_colours(const gconv_tiff_page *page, void *samples, int32_t count, void *pixels) {
  switch (page->colour) {
  case GCONV_TIFF_PALETTE:
    look_up(page, samples, (size_t)count, pixels);
    break;
  case GCONV_TIFF_CMYK:
    if (page->header.type == GCONV_U8)
      rgb_of_cmyk8(samples, (size_t)count, pixels);
    else
      rgb_of_cmyk16(samples, (size_t)count, pixels);
    break;
  case GCONV_TIFF_INVERTED:
    invert(page, samples, (size_t)count);
    break;
  case GCONV_TIFF_PREMULTIPLIED:
    return divide_by_alpha(page, samples, (size_t)count);
  case GCONV_TIFF_INDICES:
  case GCONV_TIFF_PLAIN:
    break;
  }
  return false;
}

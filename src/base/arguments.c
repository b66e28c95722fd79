/* SPDX-License-Identifier: MIT */
#include "base/arguments.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

gconv_status gconv_check_given(const void *const *pointers, size_t count, const char *names, const char *function) {
  for (size_t i = 0; i < count; i++) {
    int length = (int)strcspn(names, ",");
    if (!pointers[i])
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s(): %.*s is NULL", function, length, names);
    names += names[length] ? length + 2 : length;
  }
  return GCONV_OK;
}

gconv_status gconv_check_reserved(const uint64_t *reserved, size_t words, const char *name) {
  uint64_t all = 0;
  for (size_t i = 0; i < words; i++)
    all |= reserved[i];
  if (!all)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s->reserved is not 0: begin with zeros, {0}, or take the library of the program's version", name);
}

gconv_status gconv_check_value(const char *what, int64_t value, int64_t least, int64_t most) {
  if (value > INT32_MAX && most <= INT32_MAX) /* for some compilers, enumerations have no sign: -1 arrives as 4294967295 */
    value = (int32_t)value;
  if (value >= least && value <= most)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s is %" PRId64 ": it must be %" PRId64 " to %" PRId64, what, value, least, most);
}

gconv_status gconv_check_scaling(double scale, double offset, gconv_range range, gconv_type type) {
  if (!isfinite(scale) || !isfinite(offset))
    return gconv_fail(GCONV_BAD_ARGUMENT, "scale and offset must be finite numbers, and are %g and %g", scale, offset);
  GCONV_TRY(gconv_check_value("range", range, GCONV_RANGE_CLAMP, GCONV_RANGE_WRAP));
  return gconv_check_value("type", type, GCONV_U8, GCONV_I16);
}

gconv_status gconv_check_palette(const gconv_palette *palette) {
  return palette ? gconv_check_value("the count of the palette", palette->count, 0, 256) : GCONV_OK;
}

/* ---- Types ---- */

size_t gconv_type_bytes(gconv_type type) {
  static const size_t bytes[] = {1, 2, 4, 2};
  return (unsigned)type < sizeof bytes / sizeof bytes[0] ? bytes[type] : 0;
}

const char *gconv_type_name(gconv_type type) {
  static const char *const names[] = {"u8", "u16", "f32", "i16"};
  return (unsigned)type < sizeof names / sizeof names[0] ? names[type] : NULL;
}

/* ---- Images ---- */

/* row_bytes() returns the bytes of a row without gaps. count_planes() returns the number of planes: one for each frame, or,
 * in planar images, for each channel of each frame. The products cannot overflow: of their factors, two are below 2^31, and
 * the third is at most 4. */
static size_t row_bytes(const gconv_image *image) {
  return (size_t)image->width * (image->planar ? 1 : (size_t)image->channels) * gconv_type_bytes(image->type);
}
static size_t count_planes(const gconv_image *image) {
  return (size_t)image->frames * (image->planar ? (size_t)image->channels : 1);
}

gconv_status gconv_check_header(const gconv_image *image, const char *what) {
  GCONV_TRY(GCONV_CHECK_KNOWN(image, what));
  if (gconv_type_bytes(image->type) == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s has samples of type %d: there are u8, u16, f32 and i16, 0 to 3", what,
                      (int)image->type);
  if (image->frames < 1 || image->height < 1 || image->width < 1 || image->channels < 1)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s has %d frames, %d x %d pixels and %d channels: all must be at least 1", what,
                      image->frames, image->width, image->height, image->channels);
  if (!image->planar && image->channels > 4)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s is interleaved and has %d channels: it can have 1 to 4", what,
                      image->channels);
  if (image->alpha && image->channels < 2)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s has no channel but alpha", what);
  const size_t factors[] = {row_bytes(image), (size_t)image->height, count_planes(image)};
  if (gconv_checked_product(3, factors) == SIZE_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "%s of %d x %d x %d x %d samples is larger than any memory", what, image->frames,
                      image->height, image->width, image->channels);
  return GCONV_OK;
}

gconv_status gconv_check_source(const gconv_image *image, const char *what) {
  GCONV_TRY(gconv_check_header(image, what));
  return image->type != GCONV_I16
             ? GCONV_OK
             : gconv_fail(GCONV_UNSUPPORTED, "%s has samples of i16, which are results alone: convert them to f32", what);
}

gconv_status gconv_check_pixels(const gconv_image *image, const char *what) {
  GCONV_TRY(gconv_check_header(image, what));
  if (!image->data)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s has no pixels: its data is NULL", what);
  size_t sample = gconv_type_bytes(image->type), plane = 0, all = 0, planes = count_planes(image);
  bool fits = gconv_multiply(image->row_bytes, (size_t)image->height, &plane) &&
              gconv_multiply(planes > 1 ? image->plane_bytes : plane, planes, &all) && all <= PTRDIFF_MAX;
  if (!fits)
    return gconv_fail(GCONV_TOO_LARGE, "%s has %zu bytes from a row and %zu from a plane to the next: more than any memory",
                      what, image->row_bytes, image->plane_bytes);
  bool overlap = (image->height > 1 && image->row_bytes < row_bytes(image)) ||
                 (planes > 1 && image->plane_bytes < plane - image->row_bytes + row_bytes(image));
  bool split = (uintptr_t)image->data % sample || (image->height > 1 && image->row_bytes % sample) ||
               (planes > 1 && image->plane_bytes % sample);
  if (overlap || split)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s has %zu bytes from a row and %zu from a plane to the next: these overlap, or split a sample", what,
                      image->row_bytes, image->plane_bytes);
  return GCONV_OK;
}

/* Returns the number of bytes from the first to the last byte of an image with pixels. */
static uintptr_t reach(const gconv_image *image) {
  return (uintptr_t)((count_planes(image) - 1) * image->plane_bytes + (size_t)(image->height - 1) * image->row_bytes +
                     row_bytes(image));
}

/* Returns whether all rows of an image begin at multiples of `distance` after the first row. */
static bool steps_by(const gconv_image *image, size_t distance) {
  return (image->height == 1 || image->row_bytes == distance) &&
         (count_planes(image) == 1 || image->plane_bytes % distance == 0);
}

/* Returns whether two images share a byte. Rows of one image may lie in gaps between rows of the other. This is recognised
 * if both have the same distance from row to row; else the result is true. */
static bool overlap(const gconv_image *a, const gconv_image *b) {
  uintptr_t at = (uintptr_t)a->data, bt = (uintptr_t)b->data;
  if (at >= bt + reach(b) || bt >= at + reach(a))
    return false;
  size_t distance = a->height > 1 ? a->row_bytes : b->row_bytes; /* may be 0 if both have one row */
  if (row_bytes(a) > distance || row_bytes(b) > distance || !steps_by(a, distance) || !steps_by(b, distance))
    return true;
  /* the bytes from the beginning of a row of a to the next beginning of a row of b */
  size_t behind = (size_t)(bt >= at ? (bt - at) % distance : distance - 1 - (at - bt - 1) % distance);
  return behind < row_bytes(a) || distance - behind < row_bytes(b);
}

gconv_status gconv_check_apart(const gconv_image *a, const char *what, const gconv_image *b, const char *other) {
  if (!a->data || !b->data || !overlap(a, b))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s and %s share memory: pixels are read after their neighbours are written; give %s "
                    "memory of its own",
                    what, other, what);
}

/* ---- Filters ---- */

gconv_status gconv_filter_check_size(const char *where, int64_t rows, int64_t columns) {
  if (rows < 1 || columns < 1)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: a filter of %" PRId64 " rows and %" PRId64 " columns; it needs at least 1 of each", where, rows,
                      columns);
  if (rows > GCONV_FILTER_MAX_SIDE || columns > GCONV_FILTER_MAX_SIDE)
    return gconv_fail(GCONV_TOO_LARGE, "%s: a filter of %" PRId64 " rows and %" PRId64 " columns; the limit is %d of each",
                      where, rows, columns, GCONV_FILTER_MAX_SIDE);
  if (rows * columns > GCONV_FILTER_MAX_TAPS)
    return gconv_fail(GCONV_TOO_LARGE, "%s: a filter of %" PRId64 " x %" PRId64 " taps; the limit is %d taps", where, rows,
                      columns, GCONV_FILTER_MAX_TAPS);
  return GCONV_OK;
}

gconv_status gconv_filter_check(const gconv_filter *filter) {
  const char *name = filter->name ? filter->name : "filter";
  GCONV_TRY(gconv_filter_check_size(name, filter->rows, filter->columns));
  if (!filter->taps)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: has no taps", name);
  if (filter->anchor_row < 0 || filter->anchor_row >= filter->rows || filter->anchor_column < 0 ||
      filter->anchor_column >= filter->columns)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: its anchor (%d, %d) lies outside of its %d x %d taps", name,
                      filter->anchor_row, filter->anchor_column, filter->rows, filter->columns);
  if (!isfinite(filter->divisor) || filter->divisor == 0 || !isfinite(filter->offset))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: its divisor and offset must be finite, and the divisor not 0", name);
  for (size_t i = 0; i < (size_t)filter->rows * (size_t)filter->columns; i++)
    if (!isfinite(filter->taps[i]))
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s: tap %zu is not finite", name, i);
  return GCONV_OK;
}

gconv_status gconv_filters_check(const gconv_filters *filters) {
  if (filters->count == 0 || !filters->items)
    return gconv_fail(GCONV_BAD_ARGUMENT, "there is no filter to convolve with");
  for (size_t k = 0; k < filters->count; k++)
    GCONV_TRY(gconv_filter_check(&filters->items[k]));
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
#include "image/orientation.h"
#include "base/memory.h"

#include <string.h>

/*
 * How the stored image must be changed to stand upright:
 *   1 not at all     2 mirrored left to right     3 rotated by 180 degrees    4 mirrored top to bottom
 *   5 transposed     6 rotated clockwise          7 transposed and rotated    8 rotated anticlockwise
 * From 5 on, rows become columns. The axes of the stored image are read forwards or backwards.
 */
static bool is_transposed(int orientation) {
  return orientation >= 5;
}
static bool runs_backwards_in_x(int orientation) {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}
static bool runs_backwards_in_y(int orientation) {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

void gconv_orient_header(gconv_image *image, int orientation) {
  if (!is_transposed(orientation))
    return;
  int32_t width = image->width;
  image->width = image->height;
  image->height = width;
  double resolution = image->pixels_per_metre_x;
  image->pixels_per_metre_x = image->pixels_per_metre_y;
  image->pixels_per_metre_y = resolution;
  resolution = image->unitless_x;
  image->unitless_x = image->unitless_y;
  image->unitless_y = resolution;
}

/* How to go through the stored image in the order of the upright one, from its first pixel: `step_x` bytes to the next
 * column, `step_y` to the next row. */
typedef struct traversal {
  const uint8_t *first;
  ptrdiff_t step_x, step_y;
} traversal;

static traversal plan_traversal(const gconv_image *stored, size_t pixel_bytes, int orientation) {
  ptrdiff_t along_x = (ptrdiff_t)pixel_bytes, along_y = (ptrdiff_t)stored->row_bytes;
  const uint8_t *first = stored->data;
  if (runs_backwards_in_x(orientation)) {
    first += (stored->width - 1) * along_x;
    along_x = -along_x;
  }
  if (runs_backwards_in_y(orientation)) {
    first += (stored->height - 1) * along_y;
    along_y = -along_y;
  }
  return is_transposed(orientation) ? (traversal){first, along_y, along_x} : (traversal){first, along_x, along_y};
}

/* Copies a block of pixels. It is inlined with a constant `bytes`, so that a pixel takes one or two moves. */
static inline void copy_block(uint8_t *out, size_t row_bytes, traversal from, int32_t width, int32_t height, size_t bytes) {
  for (int32_t y = 0; y < height; y++) {
    const uint8_t *in = from.first + y * from.step_y;
    uint8_t *to = out + (size_t)y * row_bytes;
    for (int32_t x = 0; x < width; x++, in += from.step_x, to += bytes)
      memcpy(to, in, bytes);
  }
}

static void copy_block_of(uint8_t *out, size_t row_bytes, traversal from, int32_t width, int32_t height, size_t bytes) {
  switch (bytes) {
  case 1:
    copy_block(out, row_bytes, from, width, height, 1);
    break;
  case 3:
    copy_block(out, row_bytes, from, width, height, 3);
    break;
  case 4:
    copy_block(out, row_bytes, from, width, height, 4);
    break;
  case 6:
    copy_block(out, row_bytes, from, width, height, 6);
    break;
  default:
    copy_block(out, row_bytes, from, width, height, bytes);
  }
}

static void turn_frame(const gconv_image *image, const gconv_image *upright, int orientation, size_t frame) {
  enum { BLOCK = 64 }; /* two blocks of 64 x 64 pixels of 3 bytes stay in a first-level cache of 32 KiB */
  size_t pixel_bytes = (size_t)image->channels * gconv_type_bytes(image->type);
  traversal from = plan_traversal(image, pixel_bytes, orientation);
  from.first += frame * image->plane_bytes;
  for (int32_t y = 0; y < upright->height; y += BLOCK)
    for (int32_t x = 0; x < upright->width; x += BLOCK) {
      int32_t width = upright->width - x < BLOCK ? upright->width - x : BLOCK;
      int32_t height = upright->height - y < BLOCK ? upright->height - y : BLOCK;
      traversal block = {from.first + x * from.step_x + y * from.step_y, from.step_x, from.step_y};
      uint8_t *out =
          (uint8_t *)upright->data + frame * upright->plane_bytes + (size_t)y * upright->row_bytes + (size_t)x * pixel_bytes;
      copy_block_of(out, upright->row_bytes, block, width, height, pixel_bytes);
    }
}

gconv_status gconv_orient(gconv_image *image, int orientation) {
  if (orientation <= 1)
    return GCONV_OK;
  gconv_image upright = *image;
  gconv_orient_header(&upright, orientation);
  upright.data = NULL;
  GCONV_TRY(gconv_image_allocate(&upright));
  for (int32_t frame = 0; frame < image->frames; frame++)
    turn_frame(image, &upright, orientation, (size_t)frame);
  gconv_release(image->data);
  *image = upright;
  return GCONV_OK;
}

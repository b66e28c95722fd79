/* SPDX-License-Identifier: MIT */
/* The algorithms of the CPU on images that are wider than their blocks and higher than their bands, which drawn cases of the
 * oracle are not: bit by bit for the exact family, within the stated bound for the others. */
#include "base/cpu.h"
#include "base/status.h"
#include "bench/make_plan.h"
#include "device/device.h"
#include "gconv.h"
#include "kernels/factor.h"
#include "kernels/pixel.h"

#include <fenv.h>
#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef enum contents { ORDINARY, SPARSE, SEPARABLE, RANK_2, SMOOTH, SHARP, FEW, INTEGERS, EXTREME, MEAN, BOX } contents;

typedef struct shape {
  gconv_type type, out;
  int32_t height, width, channels, rows, columns, filters;
  contents taps;
  int32_t stride_y, stride_x, dilation_y, dilation_x; /* 0 means 1 */
  gconv_border border;
  gconv_padding padding;
  gconv_combine combine;
  gconv_range range;
  bool alpha, infinite;
} shape;

static const shape shapes[] = {
    {GCONV_U8, GCONV_U8, 40, 700, 3, 3, 3, 1, ORDINARY, .border = GCONV_BORDER_ZERO},
    {GCONV_U8, GCONV_U8, 37, 500, 3, 5, 5, 1, ORDINARY, .border = GCONV_BORDER_REFLECT101},
    {GCONV_U8, GCONV_U8, 23, 301, 4, 1, 7, 1, ORDINARY, .alpha = true},
    {GCONV_U8, GCONV_U8, 23, 301, 4, 7, 1, 1, ORDINARY, .border = GCONV_BORDER_ZERO},
    {GCONV_U8, GCONV_F32, 19, 333, 1, 2, 3, 2, ORDINARY, .border = GCONV_BORDER_WRAP},
    {GCONV_U16, GCONV_U8, 31, 222, 2, 4, 4, 1, ORDINARY, .border = GCONV_BORDER_SYMMETRIC},
    {GCONV_U16, GCONV_U16, 31, 222, 2, 6, 3, 3, ORDINARY, .combine = GCONV_COMBINE_MAX},
    {GCONV_F32, GCONV_F32, 29, 1201, 1, 8, 8, 1, ORDINARY, .border = GCONV_BORDER_REPLICATE},
    {GCONV_F32, GCONV_F32, 29, 401, 1, 9, 5, 1, ORDINARY, .infinite = true},
    {GCONV_U8, GCONV_U8, 14, 6000, 1, 60, 2, 1, ORDINARY, .padding = GCONV_PADDING_FULL},
    {GCONV_U8, GCONV_U8, 50, 300, 3, 3, 3, 1, ORDINARY, .dilation_y = 3, .dilation_x = 2},
    {GCONV_U8, GCONV_U8, 50, 900, 3, 3, 5, 1, ORDINARY, .stride_y = 2, .stride_x = 2},
    {GCONV_U8, GCONV_U8, 50, 900, 1, 5, 5, 1, ORDINARY, .stride_y = 2, .stride_x = 3, .dilation_y = 3, .dilation_x = 2},
    {GCONV_U8, GCONV_U8, 50, 900, 1, 2, 3, 1, ORDINARY, .stride_y = 4, .stride_x = 6, .dilation_y = 2, .dilation_x = 4},
    {GCONV_U8, GCONV_U8, 40, 700, 3, 9, 9, 1, SPARSE, .border = GCONV_BORDER_ZERO},
    {GCONV_F32, GCONV_F32, 40, 300, 3, 9, 9, 1, SPARSE, .infinite = true},
    {GCONV_F32, GCONV_F32, 40, 300, 1, 7, 7, 2, SPARSE, .combine = GCONV_COMBINE_MAGNITUDE},
    {GCONV_U8, GCONV_U8, 40, 300, 1, 7, 7, 2, SPARSE, .stride_x = 2, .dilation_y = 2},
    {GCONV_U8, GCONV_F32, 40, 700, 3, 9, 9, 1, SEPARABLE, .border = GCONV_BORDER_ZERO},
    {GCONV_F32, GCONV_F32, 40, 300, 4, 15, 15, 1, SEPARABLE, .border = GCONV_BORDER_REFLECT101},
    {GCONV_F32, GCONV_F32, 40, 500, 3, 15, 11, 1, RANK_2, .border = GCONV_BORDER_WRAP},
    {GCONV_U16, GCONV_F32, 40, 500, 1, 11, 13, 3, RANK_2, .combine = GCONV_COMBINE_SUM},
    {GCONV_U8, GCONV_F32, 50, 900, 1, 9, 9, 1, SEPARABLE, .stride_y = 2, .stride_x = 3, .dilation_y = 3, .dilation_x = 2},
    {GCONV_U8, GCONV_U8, 25, 900, 3, 3, 3, 1, SMOOTH, .border = GCONV_BORDER_REFLECT101}, /* sums become levels at once */
    {GCONV_U8, GCONV_U8, 25, 1601, 1, 5, 5, 1, SMOOTH, .border = GCONV_BORDER_ZERO},
    {GCONV_U16, GCONV_U16, 25, 700, 2, 4, 7, 1, SMOOTH, .border = GCONV_BORDER_WRAP},
    {GCONV_U8, GCONV_U8, 25, 333, 4, 3, 3, 1, SMOOTH, .border = GCONV_BORDER_ZERO},
    {GCONV_U16, GCONV_U16, 25, 500, 3, 9, 9, 1, SMOOTH, .border = GCONV_BORDER_REFLECT101},
    {GCONV_U8, GCONV_U8, 25, 901, 3, 2, 11, 1, SMOOTH, .border = GCONV_BORDER_ZERO},
    {GCONV_U8, GCONV_U16, 25, 901, 1, 13, 13, 1, SMOOTH, .border = GCONV_BORDER_ZERO},
    {GCONV_U8, GCONV_U8, 25, 500, 3, 15, 15, 1, SMOOTH, .border = GCONV_BORDER_SYMMETRIC},
    {GCONV_U8, GCONV_U8, 25, 900, 3, 7, 7, 1, SHARP, .border = GCONV_BORDER_REFLECT101},
    {GCONV_U16, GCONV_U16, 25, 900, 1, 13, 13, 1, SHARP, .border = GCONV_BORDER_ZERO},
    {GCONV_U8, GCONV_U8, 25, 1301, 1, 5, 33, 1, SMOOTH, .border = GCONV_BORDER_ZERO},
    {GCONV_U8, GCONV_U8, 25, 701, 3, 21, 31, 1, SHARP, .border = GCONV_BORDER_WRAP},
    {GCONV_U16, GCONV_U16, 25, 533, 2, 4, 69, 1, SHARP, .border = GCONV_BORDER_REFLECT101},
    {GCONV_U8, GCONV_U8, 25, 333, 4, 3, 21, 1, SMOOTH, .border = GCONV_BORDER_ZERO},
    {GCONV_U8, GCONV_U8, 25, 900, 3, 9, 9, 2, FEW, .border = GCONV_BORDER_REFLECT101, .combine = GCONV_COMBINE_SUM},
    {GCONV_U16, GCONV_F32, 25, 700, 1, 7, 20, 1, FEW, .border = GCONV_BORDER_ZERO},
    {GCONV_F32, GCONV_F32, 25, 700, 1, 7, 20, 1, FEW, .infinite = true},
    {GCONV_U8, GCONV_U8, 60, 450, 4, 15, 15, 1, ORDINARY, .border = GCONV_BORDER_REFLECT101},
    {GCONV_U16, GCONV_F32, 40, 300, 3, 9, 20, 1, ORDINARY, .dilation_x = 2, .padding = GCONV_PADDING_VALID},
    {GCONV_F32, GCONV_F32, 50, 44, 1, 70, 66, 1, ORDINARY, .border = GCONV_BORDER_WRAP},
    {GCONV_U8, GCONV_F32, 4, 90, 3, 9, 9, 1, SEPARABLE, .border = GCONV_BORDER_ZERO},
    {GCONV_U8, GCONV_F32, 20, 700, 3, 5, 35, 1, SEPARABLE, .border = GCONV_BORDER_ZERO}, /* long rows: taps share loads */
    {GCONV_F32, GCONV_F32, 20, 600, 1, 5, 70, 1, RANK_2, .border = GCONV_BORDER_WRAP},
    {GCONV_U16, GCONV_F32, 60, 1500, 3, 7, 7, 1, ORDINARY, .border = GCONV_BORDER_REPLICATE}, /* fft: several blocks */
    {GCONV_U8, GCONV_F32, 70, 2300, 1, 17, 3, 1, ORDINARY, .border = GCONV_BORDER_ZERO},
    {GCONV_F32, GCONV_F32, 160, 130, 1, 70, 2, 1, ORDINARY, .padding = GCONV_PADDING_FULL},
    {GCONV_U8, GCONV_F32, 420, 8, 3, 300, 3, 1, ORDINARY, .border = GCONV_BORDER_SYMMETRIC}, /* fft: tiles of 512 and more */
    {GCONV_F32, GCONV_F32, 300, 8, 1, 700, 2, 1, ORDINARY, .padding = GCONV_PADDING_FULL},
    {GCONV_U8, GCONV_F32, 10, 330, 1, 3, 300, 1, ORDINARY, .border = GCONV_BORDER_ZERO},
    {GCONV_U8, GCONV_F32, 1200, 30, 1, 3, 3, 1, ORDINARY, .dilation_y = 140, .border = GCONV_BORDER_WRAP},
    {GCONV_U16, GCONV_F32, 60, 40, 1, 2, 3, 1, ORDINARY, .dilation_y = 2047, .dilation_x = 1000,
     .border = GCONV_BORDER_WRAP},
    {GCONV_U8, GCONV_U8, 40, 700, 3, 3, 3, 1, INTEGERS, .border = GCONV_BORDER_REFLECT101},
    {GCONV_U8, GCONV_U8, 37, 1300, 1, 5, 5, 1, INTEGERS, .border = GCONV_BORDER_WRAP},
    {GCONV_U8, GCONV_U8, 23, 301, 4, 1, 7, 1, INTEGERS, .alpha = true},
    {GCONV_U8, GCONV_F32, 19, 333, 2, 2, 3, 2, INTEGERS, .combine = GCONV_COMBINE_MAGNITUDE},
    {GCONV_U8, GCONV_U8, 31, 222, 3, 9, 4, 3, INTEGERS, .border = GCONV_BORDER_SYMMETRIC, .dilation_y = 2, .dilation_x = 3},
    {GCONV_U8, GCONV_U8, 14, 400, 1, 3, 3, 1, INTEGERS, .padding = GCONV_PADDING_FULL},
    {GCONV_U8, GCONV_U8, 20, 500, 1, 1, 2, 1, EXTREME, .border = GCONV_BORDER_ZERO},
    {GCONV_U8, GCONV_F32, 20, 500, 1, 1, 2, 1, EXTREME, .border = GCONV_BORDER_ZERO},
    {GCONV_U8, GCONV_F32, 20, 900, 1, 1, 3, 2, EXTREME, .border = GCONV_BORDER_REPLICATE},
    {GCONV_U8, GCONV_F32, 9, 130, 1, 16, 16, 1, EXTREME, .border = GCONV_BORDER_WRAP},
    {GCONV_U8, GCONV_U8, 90, 1100, 3, 11, 7, 1, BOX, .border = GCONV_BORDER_REFLECT101}, /* several strips and pieces */
    {GCONV_U8, GCONV_F32, 19, 333, 1, 8, 5, 1, BOX, .border = GCONV_BORDER_WRAP},
    {GCONV_U16, GCONV_U16, 70, 1700, 2, 40, 2, 1, BOX, .border = GCONV_BORDER_ZERO},
    {GCONV_U16, GCONV_F32, 23, 301, 4, 1, 90, 1, BOX, .alpha = true},
    {GCONV_U8, GCONV_U8, 13, 60, 3, 15, 140, 1, BOX, .border = GCONV_BORDER_SYMMETRIC}, /* wider than the image */
    {GCONV_U8, GCONV_U8, 14, 400, 1, 9, 9, 1, BOX, .padding = GCONV_PADDING_FULL},
    {GCONV_U8, GCONV_U8, 40, 700, 3, 3, 3, 1, MEAN, .border = GCONV_BORDER_REFLECT101},
    {GCONV_U8, GCONV_U8, 23, 400, 4, 1, 33, 1, MEAN, .alpha = true},
    {GCONV_U8, GCONV_U8, 23, 300, 1, 15, 17, 1, MEAN, .border = GCONV_BORDER_REPLICATE},
    {GCONV_U8, GCONV_U8, 23, 700, 3, 1, 33, 1, ORDINARY, .border = GCONV_BORDER_ZERO}, /* one row: its taps share loads */
    {GCONV_F32, GCONV_F32, 23, 1500, 1, 1, 9, 1, ORDINARY, .border = GCONV_BORDER_SYMMETRIC, .dilation_x = 5},
    {GCONV_U8, GCONV_U8, 40, 700, 3, 3, 3, 1, ORDINARY, .range = GCONV_RANGE_WRAP},
    {GCONV_U8, GCONV_U8, 23, 301, 4, 1, 7, 1, ORDINARY, .alpha = true, .range = GCONV_RANGE_WRAP},
    {GCONV_U8, GCONV_U16, 40, 700, 3, 3, 3, 2, INTEGERS, .range = GCONV_RANGE_WRAP},
    {GCONV_U16, GCONV_U16, 31, 222, 2, 4, 4, 1, ORDINARY, .range = GCONV_RANGE_WRAP},
    {GCONV_F32, GCONV_U8, 31, 500, 1, 5, 5, 1, ORDINARY, .range = GCONV_RANGE_WRAP},
    {GCONV_U8, GCONV_U8, 40, 300, 3, 3, 3, 2, INTEGERS, .combine = GCONV_COMBINE_STACK, .range = GCONV_RANGE_WRAP},
};

/* ---- Making ---- */

static uint32_t lot = 1;

static uint32_t draw(uint32_t below) {
  lot = lot * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)(lot >> 8) * below >> 24);
}

static float draw_tap(void) {
  return (float)draw(2001) / 1000.0f - 1.0f;
}

static gconv_image make_image(const shape *s) {
  gconv_image image = {
      .type = s->type, .frames = 1, .height = s->height, .width = s->width, .channels = s->channels, .alpha = s->alpha};
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  size_t samples = (size_t)s->height * (size_t)s->width * (size_t)s->channels;
  for (size_t i = 0; i < samples; i++)
    if (s->type == GCONV_U8)
      ((uint8_t *)image.data)[i] = s->taps == EXTREME ? (draw(8) ? 255 : 0) : (uint8_t)draw(256);
    else if (s->type == GCONV_U16)
      ((uint16_t *)image.data)[i] = (uint16_t)draw(65536);
    else
      ((float *)image.data)[i] = (float)draw(1 << 20) * 0x1p-19f - 1.0f;
  if (s->infinite)
    ((float *)image.data)[samples / 2 + 5] = INFINITY;
  return image;
}

/* A column times a row, whose sum is 1; no two taps of a row are the same. */
static float smooth_tap(const shape *s, int32_t r, int32_t c) {
  const float down = (float)(s->rows * (s->rows + 1) / 2), along = (float)(s->columns * (s->columns + 1) / 2);
  return (float)(r + 1) / down * ((float)(c + 1) / along);
}

static float tap_of(const shape *s, const float *columns, const float *rows, int32_t r, int32_t c) {
  switch (s->taps) {
  case SPARSE:
    return r == c || r == 0 ? draw_tap() : 0;
  case SEPARABLE:
    return columns[r] * rows[c];
  case RANK_2:
    return columns[r] * rows[c] + columns[r + s->rows] * rows[c + s->columns];
  case SMOOTH:
    return smooth_tap(s, r, c);
  case SHARP: /* of rank 2 */
    return (r == s->rows / 2 && c == s->columns / 2 ? 2 : 0) - smooth_tap(s, r, c);
  case FEW: /* of one column, neither at its ends nor at those of rows */
    return c == s->columns - 2 && r > 0 && r < s->rows - 2 ? draw_tap() : 0;
  case INTEGERS:
    return (float)((int)draw(7) - 3) * 0.25f;
  case EXTREME: /* all that 16 bits hold: 127 and -128, 255 without a sign, or as many taps of 1 */
    if (s->columns == 2)
      return c == 0 ? 127 : -128;
    return s->columns == 3 ? (c == 0 ? 127 : c == 1 ? 127 : 3) : 1;
  case BOX:
    return 1.0f / (float)(s->rows * s->columns);
  case MEAN: /* integers times what is no power of 2, of 257 together at most */
    return (float)(1 + draw(s->rows * s->columns < 100 ? 3 : 1)) / (float)(s->rows * s->columns);
  default:
    return draw_tap();
  }
}

static void make_filter(const shape *s, gconv_filter *filter) {
  float columns[256], rows[256];
  for (int i = 0; i < 256; i++) {
    columns[i] = draw_tap();
    rows[i] = draw_tap();
  }
  *filter = (gconv_filter){
      .rows = s->rows, .columns = s->columns, .anchor_row = s->rows / 2, .anchor_column = s->columns / 2, .divisor = 2};
  if (s->taps == MEAN || s->taps == SMOOTH || s->taps == SHARP)
    filter->divisor = 1;
  filter->taps = malloc((size_t)s->rows * (size_t)s->columns * sizeof(float));
  filter->name = strdup("test");
  assert_non_null(filter->taps);
  for (int32_t r = 0; r < s->rows; r++)
    for (int32_t c = 0; c < s->columns; c++)
      filter->taps[r * s->columns + c] = tap_of(s, columns, rows, r, c);
}

static gconv_filters make_filters(const shape *s) {
  gconv_filters filters = {.items = calloc((size_t)s->filters, sizeof(gconv_filter)), .count = (size_t)s->filters};
  assert_non_null(filters.items);
  for (size_t k = 0; k < filters.count; k++)
    make_filter(s, &filters.items[k]);
  return filters;
}

static gconv_options options_of(const shape *s) {
  gconv_options o = gconv_options_default();
  o.stride_y = s->stride_y ? s->stride_y : 1;
  o.stride_x = s->stride_x ? s->stride_x : 1;
  o.dilation_y = s->dilation_y ? s->dilation_y : 1;
  o.dilation_x = s->dilation_x ? s->dilation_x : 1;
  o.border = s->border;
  o.padding = s->padding;
  o.combine = s->combine;
  o.range = s->range;
  o.sets_type = true;
  o.output_type = s->out;
  return o;
}

/* ---- Checking ---- */

enum { MOST_OUTPUTS = 3 };

static bool same(const gconv_image *a, const gconv_image *b) {
  size_t bytes = (size_t)a->width * (size_t)a->channels * gconv_type_bytes(a->type);
  for (int32_t y = 0; y < a->height; y++)
    if (memcmp((const uint8_t *)a->data + (size_t)y * a->row_bytes, (const uint8_t *)b->data + (size_t)y * b->row_bytes,
               bytes) != 0)
      return false;
  return true;
}

/* Runs a shape with an algorithm; its outputs, or none if it is not supported. */
static size_t run(gconv_device *device, const shape *s, const gconv_image *image, const gconv_filters *filters,
                  const char *algorithm, bool verify, gconv_image *outputs) {
  gconv_options options = options_of(s);
  options.algorithm = algorithm;
  gconv_plan *plan = NULL;
  gconv_status status = gconv_plan_filters(device, image, filters, &options, &plan);
  if (status == GCONV_UNSUPPORTED)
    return 0;
  assert_int_equal(status, GCONV_OK);
  size_t count = gconv_plan_outputs(plan);
  assert_true(count <= MOST_OUTPUTS);
  assert_int_equal(gconv_plan_execute(plan, image, outputs, gconv_plan_outputs(plan), NULL), GCONV_OK);
  gconv_verification result;
  if (verify && gconv_plan_verify(plan, image, outputs, gconv_plan_outputs(plan), -1, &result) != GCONV_OK)
    fail_msg("shape %zd, %s: %s", s - shapes, algorithm, gconv_last_error());
  gconv_plan_free(plan);
  return count;
}

static void free_images(gconv_image *images, size_t count) {
  for (size_t i = 0; i < count; i++)
    gconv_image_free(&images[i]);
}

typedef struct pictures {
  gconv_image items[MOST_OUTPUTS];
  size_t count;
} pictures;

/* Returns whether the algorithm supports the shape, of which `expected` are the outputs of `reference`. */
static int check_algorithm(gconv_device *device, const shape *s, const gconv_image *image, const gconv_filters *filters,
                           const gconv_algorithm_info *algorithm, const pictures *expected) {
  gconv_image outputs[MOST_OUTPUTS] = {0};
  size_t count = run(device, s, image, filters, algorithm->name, !algorithm->exact, outputs);
  for (size_t i = 0; i < count && algorithm->exact; i++)
    if (!same(&outputs[i], &expected->items[i]))
      fail_msg("shape %zd: %s has other bits than reference", s - shapes, algorithm->name);
  free_images(outputs, count);
  return count > 0;
}

/* Adds to supported[], by the number of the algorithm. */
static void check_shape(gconv_device *const devices[2], const shape *s, int *supported) {
  gconv_image image = make_image(s);
  gconv_filters filters = make_filters(s);
  pictures expected = {0};
  const gconv_algorithm_info *algorithm;
  expected.count = run(devices[1], s, &image, &filters, "reference", false, expected.items);
  assert_true(expected.count > 0);
  for (size_t i = 0; (algorithm = gconv_algorithm_at(i)); i++)
    for (int d = 0; d < 2 && strcmp(algorithm->device, "cpu") == 0; d++)
      supported[i] += check_algorithm(devices[d], s, &image, &filters, algorithm, &expected);
  free_images(expected.items, expected.count);
  gconv_filters_free(&filters);
  gconv_image_free(&image);
}

static void every_algorithm_is_right_on_wide_images(void **state) {
  (void)state;
  enum { MOST_ALGORITHMS = 100 };
  int supported[MOST_ALGORITHMS] = {0};
  gconv_device *devices[2] = {NULL, NULL};
  const gconv_algorithm_info *algorithm;
  for (int i = 0; i < 2; i++)
    assert_int_equal(gconv_device_open("cpu", i + 1, &devices[i]), GCONV_OK);
  assert_null(gconv_algorithm_at(MOST_ALGORITHMS));
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
    check_shape(devices, &shapes[s], supported);
  for (size_t i = 0; (algorithm = gconv_algorithm_at(i)); i++)
    if (strcmp(algorithm->device, "cpu") == 0 && supported[i] < 8)
      fail_msg("%s supports %d shapes", algorithm->name, supported[i] / 2);
  for (int i = 0; i < 2; i++)
    gconv_device_close(devices[i]);
}

/* Integer levels are made by instructions that saturate. pixel.h says what values become that are no levels. */
static void levels_are_those_of_pixel_h(void **state) {
  (void)state;
  static const float odd[] = {NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 3e9f, -3e9f, -0.0f, -0.4f, -0.6f, 0.5f, 1.5f, 2.5f};
  static const gconv_type types[] = {GCONV_U8, GCONV_U16};
  enum { WIDTH = 150 }; /* two vectors of 64, and a rest */
  gconv_image image = {.type = GCONV_F32, .frames = 1, .height = 1, .width = WIDTH, .channels = 1};
  gconv_device *device = NULL;
  assert_int_equal(gconv_device_open("cpu", 1, &device), GCONV_OK);
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  for (size_t t = 0; t < 2; t++) {
    shape s = {.out = types[t]};
    gconv_options options = options_of(&s);
    options.algorithm = "direct";
    float white = gconv_white(types[t]), tap = 1;
    for (size_t x = 0; x < WIDTH; x++)
      ((float *)image.data)[x] = (x % 3 ? odd[x % 13] : (float)x * white / 140) / white;
    gconv_filter filter = {.name = "one", .rows = 1, .columns = 1, .divisor = 1, .taps = &tap};
    gconv_plan *plan = NULL;
    gconv_image out = {0};
    assert_int_equal(gconv_plan_filters(device, &image, &(gconv_filters){.items = &filter, .count = 1}, &options, &plan),
                     GCONV_OK);
    assert_int_equal(gconv_plan_execute(plan, &image, &out, 1, NULL), GCONV_OK);
    for (size_t x = 0; x < WIDTH; x++) {
      uint32_t level = types[t] == GCONV_U8 ? ((uint8_t *)out.data)[x] : ((uint16_t *)out.data)[x];
      assert_int_equal(level, gconv_to_level(fmaf(((float *)image.data)[x], white, 0.0f), white));
    }
    gconv_image_free(&out);
    gconv_plan_free(plan);
  }
  gconv_image_free(&image);
  gconv_device_close(device);
}

/* The level that C's cast makes of a value. */
static uint32_t cast(gconv_type type, float value) {
  return type == GCONV_U8 ? (uint8_t)(int32_t)value : (uint16_t)(int32_t)value;
}

static gconv_image filtered(gconv_device *device, const gconv_image *image, const gconv_filter *filter,
                            const gconv_options *options) {
  gconv_plan *plan = NULL;
  gconv_image out = {0};
  gconv_verification found;
  gconv_filters filters = {.items = (gconv_filter *)filter, .count = 1};
  if (gconv_plan_filters(device, image, &filters, options, &plan) == GCONV_UNSUPPORTED)
    return out;
  assert_non_null(plan);
  assert_int_equal(gconv_plan_execute(plan, image, &out, 1, NULL), GCONV_OK);
  if (gconv_plan_verify(plan, image, &out, 1, -1, &found) != GCONV_OK)
    fail_msg("%s: %s", options->algorithm, gconv_last_error());
  if (options->range == GCONV_RANGE_WRAP) { /* and what is wrong is seen */
    ((uint8_t *)out.data)[2 * out.row_bytes + 10] ^= 64;
    assert_int_equal(gconv_plan_verify(plan, image, &out, 1, -1, &found), GCONV_MISMATCH);
    ((uint8_t *)out.data)[2 * out.row_bytes + 10] ^= 64;
  }
  gconv_plan_free(plan);
  return out;
}

/* Results of the range wrap are those of float32, cast as C does: of sums that stay integers, too, and of their quotients.
 */
static void wrapping_is_casting(void **state) {
  (void)state;
  static const char *const algorithms[] = {"direct", "integer", "sparse", "im2col", "reference"};
  const shape s = {GCONV_U8, GCONV_U8, 7, 333, 3, 3, 3, 1, ORDINARY, .border = GCONV_BORDER_ZERO};
  gconv_image image = make_image(&s);
  gconv_device *device = NULL;
  int by_integers = 0;
  assert_int_equal(gconv_device_open("cpu", 1, &device), GCONV_OK);
  for (int divisor = 1; divisor <= 257; divisor += divisor < 40 ? 1 : 31)
    for (int kind = 0; kind < 3; kind++) { /* of taps: a mean, integers of both signs, any */
      float taps[9];
      for (int i = 0; i < 9; i++)
        taps[i] = kind == 0 ? (float)draw(29) : kind == 1 ? (float)((int)draw(15) - 7) : draw_tap();
      const gconv_filter filter = {
          .rows = 3, .columns = 3, .anchor_row = 1, .anchor_column = 1, .divisor = (float)divisor, .taps = taps};
      for (size_t a = 0; a < sizeof algorithms / sizeof algorithms[0]; a++)
        for (int type = GCONV_U8; type <= GCONV_U16; type++) {
          gconv_options options = gconv_options_default();
          options.sets_type = true;
          options.output_type = GCONV_F32;
          options.algorithm = "reference";
          options.scale = 255;
          gconv_image floats = filtered(device, &image, &filter, &options);
          options.output_type = (gconv_type)type;
          options.algorithm = algorithms[a];
          options.range = GCONV_RANGE_WRAP;
          options.scale = type == GCONV_U8 ? 1 : 1 / 257.0;
          gconv_image levels = filtered(device, &image, &filter, &options);
          by_integers += levels.data && a == 1;
          for (size_t i = 0; levels.data && i < 7 * 333 * 3; i++) {
            uint32_t got = type == GCONV_U8 ? ((uint8_t *)levels.data)[i] : ((uint16_t *)levels.data)[i];
            if (got != cast((gconv_type)type, ((float *)floats.data)[i]))
              fail_msg("%s, divisor %d, taps %d: %u of %g", algorithms[a], divisor, kind, got,
                       (double)((float *)floats.data)[i]);
          }
          gconv_image_free(&floats);
          gconv_image_free(&levels);
        }
    }
  assert_true(by_integers > 100);
  gconv_image_free(&image);
  gconv_device_close(device);
}

/* Returns the sum of integers at row y, column x, in units of taps, with zeros outside the image. */
static int64_t integer_sum(const gconv_image *image, const float *taps, int32_t size, int32_t y, int32_t x) {
  int64_t sum = 0;
  for (int32_t r = 0; r < size; r++)
    for (int32_t c = 0; c < size; c++) {
      const int32_t from = y + r - size / 2, at = x + c - size / 2;
      if (from >= 0 && from < image->height && at >= 0 && at < image->width)
        sum += (int64_t)taps[r * size + c] *
               (image->type == GCONV_U8 ? ((const uint8_t *)image->data)[(size_t)from * image->row_bytes + (size_t)at]
                                        : ((const uint16_t *)image->data)[(size_t)from * image->row_bytes / 2 + (size_t)at]);
    }
  return sum;
}

/* Makes an image whose samples under the positive taps of one place are white and the others are black, or the opposite:
 * there, the largest sums of all come, and transforms round most. */
static void fill_with_extremes(gconv_image *image, const float *taps, int32_t size, bool opposite) {
  for (int32_t y = 0; y < image->height; y++)
    for (int32_t x = 0; x < image->width; x++) {
      const bool white = (taps[y % size * size + x % size] > 0) != opposite;
      if (image->type == GCONV_U8)
        ((uint8_t *)image->data)[(size_t)y * image->row_bytes + (size_t)x] = white ? 255 : 0;
      else
        ((uint16_t *)image->data)[(size_t)y * image->row_bytes / 2 + (size_t)x] = white ? 65535 : 0;
    }
}

/* Sums of integers are not rounded before the range wrap cuts them: whatever auto chooses, and fft, have those of int64.
 * Sums of 16 bits are beyond what float32 holds. Taps are of rank 1 and 2 (separable), any, or all the same (box). */
static void wraps_integers_exactly(void **state) {
  (void)state;
  enum { MOST = 31, H = 40, W = 48 };
  gconv_device *device = NULL;
  assert_int_equal(gconv_device_open("cpu", 1, &device), GCONV_OK);
  for (int i = 0; i < 3 * 4 * 2 * 3 * 2 * 2; i++) { /* images, kinds of taps, types, sizes, units, algorithms */
    const gconv_type type = i / 12 % 2 ? GCONV_U16 : GCONV_U8;
    const int32_t size = (const int32_t[]){5, 13, MOST}[i / 24 % 3];
    const int kind = i / 3 % 4;
    const float unit = i / 72 % 2 ? 0.125f : 1;
    const shape s = {type, type, H, W, 1, size, size, 1, ORDINARY, .border = GCONV_BORDER_ZERO};
    gconv_image image = make_image(&s);
    float taps[MOST * MOST], factors[4][MOST], integers[MOST * MOST];
    for (int32_t t = 0; t < 4 * size; t++)
      factors[t / size][t % size] = (float)((int)draw(7) - 3);
    for (int32_t t = 0; t < size * size; t++) {
      const int32_t r = t / size, c = t % size;
      integers[t] = kind == 3   ? 3
                    : kind == 2 ? (float)((int)draw(7) - 3)
                                : factors[0][r] * factors[1][c] + (kind == 1 ? factors[2][r] * factors[3][c] : 0);
      taps[t] = integers[t] * unit;
    }
    if (i % 3 > 0)
      fill_with_extremes(&image, integers, size, i % 3 == 2);
    const gconv_filter filter = {
        .rows = size, .columns = size, .anchor_row = size / 2, .anchor_column = size / 2, .divisor = 1, .taps = taps};
    gconv_options options = gconv_options_default();
    options.range = GCONV_RANGE_WRAP;
    options.algorithm = i >= 144 ? "fft" : "auto";
    const gconv_filters filters = {.items = (gconv_filter *)&filter, .count = 1};
    gconv_plan *plan = NULL;
    gconv_image made = {0};
    assert_int_equal(gconv_plan_filters(device, &image, &filters, &options, &plan), GCONV_OK);
    assert_int_equal(gconv_plan_execute(plan, &image, &made, 1, NULL), GCONV_OK);
    gconv_plan_free(plan);
    for (int32_t y = 0; y < H; y++)
      for (int32_t x = 0; x < W; x++) {
        const uint32_t wanted = (uint32_t)(int64_t)((double)integer_sum(&image, integers, size, y, x) * (double)unit);
        const size_t at = (size_t)y * made.row_bytes;
        const uint32_t got =
            type == GCONV_U8 ? ((uint8_t *)made.data)[at + (size_t)x] : ((uint16_t *)made.data)[at / 2 + (size_t)x];
        if (got != (wanted & (type == GCONV_U8 ? 255 : 65535)))
          fail_msg("%s, case %d, row %d, column %d: %u of %u", options.algorithm, i, y, x, got, wanted);
      }
    gconv_image_free(&made);
    gconv_image_free(&image);
  }
  gconv_device_close(device);
}

/* Rows of integer filters share sums, four rows at a time. Images of any height, the rows that are left over, and results of
 * any type are those of the reference. */
static void rows_share_sums(void **state) {
  (void)state;
  static const struct {
    int32_t columns;
    float taps[21];
  } filters[] = {{3, {1, 2, 1, 2, 4, 2, 1, 2, 1}},
                 {3, {-1, 0, 1, -2, 0, 2, -1, 0, 1}},
                 {3, {1, 1, 1, 1, 1, 1, 1, 1, 1}},
                 {3, {1, 2, 1, 3, 6, 3, 1, 2, 1}},
                 {3, {-1, -2, -1, 0, 0, 0, 1, 2, 1}},
                 {1, {1, 2, 1}},
                 {7, {1, 0, 1, 0, 1, 0, 1, 2, 0, 2, 0, 2, 0, 2, 1, 0, 1, 0, 1, 0, 1}}}; /* too many taps to share */
  gconv_device *device = NULL;
  assert_int_equal(gconv_device_open("cpu", 1, &device), GCONV_OK);
  for (int i = 0; i < 9 * 7 * 4 * 4 * 2; i++) { /* heights, filters, types, channels, ranges */
    const int32_t channels = 1 + i / 252 % 4, columns = filters[i / 9 % 7].columns;
    const shape s = {GCONV_U8, GCONV_U8, 1 + i % 9, 130 + i % 200, channels,
                     3,        columns,  1,         ORDINARY,      .alpha = channels == 4};
    const gconv_type type = (gconv_type[]){GCONV_U8, GCONV_F32, GCONV_I16, GCONV_U16}[i / 63 % 4];
    const float *taps = filters[i / 9 % 7].taps;
    gconv_image image = make_image(&s);
    const gconv_filter filter = {.rows = 3,
                                 .columns = columns,
                                 .anchor_row = 1,
                                 .anchor_column = columns / 2,
                                 .divisor = taps[0] > 0 ? 16 : 1,
                                 .taps = (float *)taps};
    gconv_options options = gconv_options_default();
    options.algorithm = "integer";
    options.sets_type = true;
    options.output_type = type;
    options.border = (gconv_border)(i % 5);
    options.range = i >= 1008 && type != GCONV_I16 ? GCONV_RANGE_ABS : GCONV_RANGE_CLAMP;
    gconv_image got = filtered(device, &image, &filter, &options);
    options.algorithm = "reference";
    gconv_image wanted = filtered(device, &image, &filter, &options);
    for (size_t y = 0; y < (size_t)s.height; y++)
      assert_memory_equal((char *)got.data + y * got.row_bytes, (char *)wanted.data + y * wanted.row_bytes,
                          (size_t)s.width * (size_t)s.channels * gconv_type_bytes(type));
    gconv_image_free(&got);
    gconv_image_free(&wanted);
    gconv_image_free(&image);
  }
  gconv_device_close(device);
}

/* Lanes beyond the last sample are dropped, but numbers that are almost 0 make their processor 10 to 30 times slower. So no
 * result depends on this: whatever lay in memory, no lane computes such numbers. */
static void no_lane_computes_what_lay_in_memory(void **state) {
  (void)state;
#ifdef M_PERTURB
  static const shape small[] = {{GCONV_U16, GCONV_U16, 20, 33, 3, 9, 9, 1, ORDINARY, .border = GCONV_BORDER_ZERO},
                                {GCONV_F32, GCONV_F32, 33, 17, 1, 7, 7, 1, ORDINARY, .border = GCONV_BORDER_WRAP},
                                {GCONV_F32, GCONV_F32, 14, 70, 1, 9, 7, 1, SEPARABLE, .border = GCONV_BORDER_REPLICATE},
                                {GCONV_U8, GCONV_F32, 14, 50, 3, 7, 5, 2, RANK_2, .border = GCONV_BORDER_ZERO},
                                {GCONV_U8, GCONV_F32, 30, 41, 1, 5, 5, 1, SPARSE, .stride_x = 2},
                                {GCONV_U8, GCONV_U8, 9, 21, 3, 5, 5, 1, BOX, .border = GCONV_BORDER_ZERO}};
  const gconv_algorithm_info *algorithm;
  gconv_device *device = NULL;
  assert_int_equal(gconv_device_open("cpu", 1, &device), GCONV_OK); /* computes in this thread, of which flags are */
  mallopt(M_MMAP_THRESHOLD, 1 << 28);
  mallopt(M_PERTURB, 0xFE); /* all memory is floats of 2.4e-38 */
  for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
    gconv_image image = make_image(&small[i]);
    gconv_filters filters = make_filters(&small[i]);
    for (size_t a = 0; (algorithm = gconv_algorithm_at(a)); a++) {
      gconv_image outputs[MOST_OUTPUTS] = {0};
      if (strcmp(algorithm->device, "cpu") != 0)
        continue;
      feclearexcept(FE_UNDERFLOW);
      const size_t count = run(device, &small[i], &image, &filters, algorithm->name, false, outputs);
      if (fetestexcept(FE_UNDERFLOW))
        fail_msg("shape %zu: %s computes what lay in memory", i, algorithm->name);
      free_images(outputs, count);
    }
    gconv_filters_free(&filters);
    gconv_image_free(&image);
  }
  mallopt(M_PERTURB, 0);
  gconv_device_close(device);
#endif
}

/* ---- Choosing ---- */

/* The algorithm that is chosen for a 4K RGB photo. */
static const char *chosen(gconv_device *device, const char *spec) {
  gconv_image like = {.frames = 1, .height = 2160, .width = 3840, .channels = 3};
  gconv_filters filters = {0};
  gconv_options options = gconv_options_default();
  gconv_plan *plan = NULL;
  assert_int_equal(gconv_filters_read(spec, NULL, &filters), GCONV_OK);
  assert_int_equal(gconv_plan_filters(device, &like, &filters, &options, &plan), GCONV_OK);
  const char *name = gconv_plan_get_info(plan)->algorithm; /* static */
  gconv_plan_free(plan);
  gconv_filters_free(&filters);
  return name;
}

static void auto_chooses_by_rank_and_zeros(void **state) {
  (void)state;
  gconv_device *device = NULL;
  assert_int_equal(gconv_device_open("cpu", 1, &device), GCONV_OK);
  if (!gconv_cpu_fuses()) { /* fused multiply-adds are so slow there that the spectrum, which has none, wins */
    assert_string_equal(chosen(device, "3x3: 1,2,3 4,5,7 8,9,-1"), "integer");
    assert_string_equal(chosen(device, "3x3: 1,2,3 4,5,7 8,9,-.1"), "fft");
    gconv_device_close(device);
    return;
  }
  assert_string_equal(chosen(device, "3x3: 1,2,3 4,5,7 8,9,-1"), "integer");
  assert_string_equal(chosen(device, "sobel_x"), "integer");
  assert_string_equal(chosen(device, "binomial:size=5"), "integer");
  assert_string_equal(chosen(device, "3x3: 1,2,3 4,5,7 8,9,-.1"), "direct");
  assert_string_equal(chosen(device, "gaussian:size=31,sigma=5"), "separable");
  assert_string_equal(chosen(device, "dog:sigma1=1,sigma2=1.6"), "separable");
  assert_string_equal(chosen(device, "motion:len=9,theta=45"), "sparse");
  assert_string_equal(chosen(device, "disk:radius=15"), "fft");
  gconv_device_close(device);
}

/* ---- Integers ---- */

static void integers_are_found(void **state) {
  (void)state;
  gconv_integers found = gconv_find_integers((float[]){-0.25f, 0, 1.5f, 2}, 4);
  assert_true(found.unit == 0.25f && found.least == -1 && found.largest == 8 && found.positive == 14 && found.negative == 1);
  found = gconv_find_integers((float[]){3, -6, 12}, 3);
  assert_true(found.unit == 1 && found.least == -6 && found.largest == 12);
  found = gconv_find_integers((float[]){0, -0.0f}, 2);
  assert_true(found.unit == 1 && found.least == 0 && found.largest == 0);
  found = gconv_find_integers((float[]){0x1p20f, -0x1p26f}, 2);
  assert_true(found.unit == 0x1p20f && found.least == -64);
  assert_true(gconv_find_integers((float[]){65792}, 1).unit == 256);      /* 65792 * 255 is just below 2^24, as 257 * 2^8 */
  assert_true(gconv_find_integers((float[]){65792, 1}, 2).unit == 1);     /* 65793 * 255 = 2^24 - 1 */
  assert_true(gconv_find_integers((float[]){65792, 1, -1}, 3).unit == 0); /* one more is too much */
  assert_true(gconv_find_integers((float[]){1.0f / 3, 1.0f / 9}, 2).unit == 0); /* rounded taps */
  assert_true(gconv_find_integers((float[]){1, NAN}, 2).unit == 0 && gconv_find_integers((float[]){INFINITY}, 1).unit == 0);
  assert_true(gconv_find_integers((float[]){0x1p-149f}, 1).unit == 0 &&
              gconv_find_integers((float[]){0x1p-64f}, 1).unit == 0x1p-64f);
}

/* ---- Factors ---- */

/* The structure of a filter, after its pairs were seen to make its taps. */
static gconv_structure factor(const float *taps, int32_t rows, int32_t columns) {
  float pairs[256];
  gconv_structure structure;
  int32_t most = rows < columns ? rows : columns;
  assert_true((size_t)most * (size_t)(rows + columns) <= sizeof pairs / sizeof *pairs);
  assert_int_equal(gconv_factor(taps, rows, columns, most, pairs, &structure), GCONV_OK);
  double magnitude = 0, rest = 0;
  for (int32_t i = 0; i < rows * columns; i++) {
    double sum = 0;
    for (int32_t p = 0; p < structure.rank; p++) {
      const float *pair = pairs + p * (rows + columns);
      sum += (double)pair[i / columns] * (double)pair[rows + i % columns];
    }
    magnitude += fabs((double)taps[i]);
    rest += fabs((double)taps[i] - sum);
  }
  assert_true(fabs(rest - structure.residual * magnitude) <= 1e-12 * magnitude);
  assert_true(structure.residual <= GCONV_FACTOR_TOLERANCE);
  return structure;
}

static void integers_have_integer_factors(void **state) {
  (void)state;
  static const float sobel[] = {-1, 0, 1, -2, 0, 2, -1, 0, 1}, laplacian[] = {0, 1, 0, 1, -4, 1, 0, 1, 0};
  static const float six[] = {4, 6, 10, 6, 9, 15}, zero[6] = {0};
  gconv_structure s = factor(sobel, 3, 3);
  assert_int_equal(s.rank, 1);
  assert_true(s.residual == 0 && s.growth == 1);
  s = factor(six, 2, 3);
  assert_int_equal(s.rank, 1);
  assert_true(s.residual == 0);
  s = factor(laplacian, 3, 3);
  assert_int_equal(s.rank, 2);
  assert_true(s.residual == 0);
  assert_int_equal(factor(zero, 2, 3).rank, 0);
}

static void rounded_products_have_one_pair(void **state) {
  (void)state;
  float taps[49], scaled[49];
  for (int i = 0; i < 49; i++) {
    taps[i] = (float)exp(-((i / 7 - 3) * (i / 7 - 3) + (i % 7 - 3) * (i % 7 - 3)) / 2.7);
    scaled[i] = taps[i] * 1e-30f; /* magnitudes do not matter */
  }
  assert_int_equal(factor(taps, 7, 7).rank, 1);
  assert_int_equal(factor(scaled, 7, 7).rank, 1);
  taps[48] += 0.001f;
  assert_int_equal(factor(taps, 7, 7).rank, 2);
  gconv_structure s;
  assert_int_equal(gconv_factor(taps, 7, 7, 1, NULL, &s), GCONV_OK);
  assert_int_equal(s.rank, GCONV_RANK_HIGH);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(levels_are_those_of_pixel_h),
                                     cmocka_unit_test(every_algorithm_is_right_on_wide_images),
                                     cmocka_unit_test(wrapping_is_casting),
                                     cmocka_unit_test(wraps_integers_exactly),
                                     cmocka_unit_test(rows_share_sums),
                                     cmocka_unit_test(no_lane_computes_what_lay_in_memory),
                                     cmocka_unit_test(auto_chooses_by_rank_and_zeros),
                                     cmocka_unit_test(integers_are_found),
                                     cmocka_unit_test(integers_have_integer_factors),
                                     cmocka_unit_test(rounded_products_have_one_pair)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

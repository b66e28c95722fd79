/* SPDX-License-Identifier: MIT */
/* direct makes some sums of bytes from integers, on processors that multiply bytes fast (kernels/cpu/digits.c), and must
 * have the bits of floats all the same. What could go wrong are samples whose sum lies near the next level. So these images
 * are larger than drawn cases of the oracle, and flat in places. */
#include "base/cpu.h"
#include "base/status.h"
#include "bench/make_plan.h"
#include "device/device.h"
#include "gconv.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t lot = 1;

static uint32_t draw(uint32_t below) {
  lot = lot * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)(lot >> 8) * below >> 24);
}

/* ---- Images ---- */

typedef enum pattern { NOISE, FLAT_BLOCKS, RAMP, EXTREMES, PATTERNS } pattern;

static uint8_t sample_of(pattern drawn, int32_t y, int32_t x, int32_t c) {
  const int32_t block = y / 40 * 5 + x / 60 * 4 + 3 * c;
  switch (drawn) {
  case FLAT_BLOCKS: /* of 40 x 60 pixels, of which a third is black */
    return (uint8_t)(block % 3 == 0 ? 0 : block * 97);
  case RAMP: /* whose steps are longer than some filters */
    return (uint8_t)(x / 14 + y / 9 + c);
  case EXTREMES:
    return draw(2) ? 255 : 0;
  default:
    return (uint8_t)draw(256);
  }
}

static gconv_image make_image(pattern drawn, int32_t height, int32_t width, int32_t channels) {
  gconv_image image = {.type = GCONV_U8, .frames = 1, .height = height, .width = width, .channels = channels};
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  for (int32_t y = 0; y < height; y++)
    for (int32_t x = 0; x < width; x++)
      for (int32_t c = 0; c < channels; c++)
        ((uint8_t *)image.data)[(size_t)y * image.row_bytes + (size_t)(x * channels + c)] = sample_of(drawn, y, x, c);
  return image;
}

/* ---- Filters ---- */

/* BLUR: weights of together 1 and a little, which scipy.ndimage's are made to be. PART: of less than 1. NEARLY: of so little
 * less that levels of flat areas are others, but for black. SIGNS: any. EIGHTHS: of which many sums lie half-way between
 * levels. */
typedef enum kind { BLUR, PART, NEARLY, SIGNS, EIGHTHS } kind;

typedef struct shape {
  int32_t rows, columns;
  kind kind;
  bool cut; /* results are cut, as the range "wrap" does */
  double offset;
} shape;

static const shape shapes[] = {
    {1, 2, BLUR, false, 0},    {1, 3, SIGNS, false, 0},   {1, 9, BLUR, false, 0},      {1, 16, PART, true, 0},
    {1, 33, BLUR, true, 0},    {1, 34, BLUR, false, 0},   {1, 7, EIGHTHS, false, 0},   {1, 90, BLUR, true, 0},
    {2, 1, BLUR, false, 0},    {3, 1, EIGHTHS, true, 0},  {4, 1, BLUR, false, 0},      {5, 1, SIGNS, false, 0},
    {6, 1, PART, false, 0},    {18, 1, BLUR, true, 0},    {17, 1, BLUR, true, 0},      {33, 1, BLUR, true, 0},
    {90, 1, BLUR, false, 0},   {2, 2, SIGNS, false, 0},   {2, 3, BLUR, false, 0},      {3, 3, SIGNS, false, 0},
    {3, 3, BLUR, false, 0},    {3, 3, PART, false, 0.3},  {3, 7, BLUR, true, 0},       {3, 3, EIGHTHS, false, 0},
    {1, 17, SIGNS, true, 0},   {19, 1, PART, true, 0.2},  {1, 130, BLUR, true, 0},     {1, 17, NEARLY, true, 0},
    {17, 1, NEARLY, true, 0},  {3, 6, NEARLY, true, 0},   {3, 8, BLUR, true, 0},       {3, 1, BLUR, true, 0},
    {1, 8, EIGHTHS, false, 0}, {2, 4, EIGHTHS, true, 0},  {8, 1, EIGHTHS, false, 0.2}, {4, 4, SIGNS, false, 0},
    {4, 7, BLUR, true, 0},     {5, 5, SIGNS, false, 0},   {5, 5, BLUR, false, 0},      {5, 3, PART, false, 0.3},
    {6, 2, BLUR, false, 0},    {6, 6, EIGHTHS, false, 0}, {7, 7, BLUR, true, 0},       {7, 5, SIGNS, false, 0},
    {8, 3, PART, true, 0},     {8, 9, SIGNS, false, 0},   {9, 9, BLUR, false, 0},      {9, 2, NEARLY, true, 0},
    {5, 7, NEARLY, true, 0},   {3, 9, SIGNS, false, 0},   {10, 3, SIGNS, false, 0},
};

static void make_taps(const shape *s, float *taps) {
  const int32_t count = s->rows * s->columns;
  double sum = 0, values[256];
  for (int32_t i = 0; i < count; i++) {
    const double from_middle = (i - (count - 1) / 2.0) / (count / 8.0 + 0.5);
    values[i] = s->kind == BLUR ? exp(-from_middle * from_middle / 2) : (double)(1 + draw(1000)) / 1000;
    sum += values[i];
  }
  for (int32_t i = 0; i < count; i++)
    taps[i] = s->kind == SIGNS     ? (float)(3 * values[i] - 1.5)
              : s->kind == EIGHTHS ? 0.125f
                                   : (float)(values[i] / sum *
                                             (s->kind == BLUR   ? 1 + 5e-7
                                              : s->kind == PART ? 0.7
                                                                : 0.998));
}

/* ---- Checking ---- */

static gconv_image run(gconv_device *device, const gconv_image *image, gconv_filter *filter, gconv_options options,
                       const char *algorithm) {
  options.algorithm = algorithm;
  gconv_plan *plan = NULL;
  gconv_image out = {0};
  assert_int_equal(gconv_plan_filters(device, image, &(gconv_filters){.items = filter, .count = 1}, &options, &plan),
                   GCONV_OK);
  assert_int_equal(gconv_plan_execute(plan, image, &out, 1, NULL), GCONV_OK);
  gconv_plan_free(plan);
  return out;
}

static size_t count_different(const gconv_image *a, const gconv_image *b) {
  size_t different = 0;
  for (int32_t y = 0; y < a->height; y++)
    for (size_t x = 0; x < (size_t)a->width * (size_t)a->channels; x++)
      different += ((const uint8_t *)a->data)[(size_t)y * a->row_bytes + x] !=
                   ((const uint8_t *)b->data)[(size_t)y * b->row_bytes + x];
  return different;
}

static void check(gconv_device *const devices[2], const gconv_image *image, gconv_filter *filter,
                  const gconv_options *options) {
  gconv_image expected = run(devices[1], image, filter, *options, "reference");
  for (int d = 0; d < 2; d++) {
    gconv_image out = run(devices[d], image, filter, *options, "direct");
    size_t different = count_different(&out, &expected);
    if (different > 0)
      fail_msg("%s, %d x %d taps, image of %d x %d x %d, border %d, %d threads: %zu samples are others", filter->name,
               filter->rows, filter->columns, image->height, image->width, image->channels, (int)options->border, d + 1,
               different);
    gconv_image_free(&out);
  }
  gconv_image_free(&expected);
}

static void check_shape(gconv_device *const devices[2], const gconv_image *image, const shape *s, gconv_border border) {
  float taps[256];
  char name[32];
  make_taps(s, taps);
  snprintf(name, sizeof name, "shape %zd", s - shapes);
  gconv_filter filter = {.name = name,
                         .rows = s->rows,
                         .columns = s->columns,
                         .anchor_row = (int32_t)draw((uint32_t)s->rows),
                         .anchor_column = (int32_t)draw((uint32_t)s->columns),
                         .divisor = 1,
                         .taps = taps};
  gconv_options options = gconv_options_default();
  options.border = border;
  options.border_value = 77.0 / 255;
  options.offset = s->offset;
  if (s->cut)
    options.range = GCONV_RANGE_WRAP;
  check(devices, image, &filter, &options);
}

static void check_image(gconv_device *const devices[2], pattern drawn, int32_t height, int32_t width, int32_t channels) {
  static const gconv_border borders[] = {GCONV_BORDER_ZERO,      GCONV_BORDER_CONSTANT,   GCONV_BORDER_REPLICATE,
                                         GCONV_BORDER_SYMMETRIC, GCONV_BORDER_REFLECT101, GCONV_BORDER_WRAP};
  gconv_image image = make_image(drawn, height, width, channels);
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
    check_shape(devices, &image, &shapes[s], borders[draw(6)]);
  gconv_image_free(&image);
}

static void open_devices(gconv_device *devices[2]) {
  for (int d = 0; d < 2; d++)
    assert_int_equal(gconv_device_open("cpu", d + 1, &devices[d]), GCONV_OK);
}

static void close_devices(gconv_device *devices[2]) {
  for (int d = 0; d < 2; d++)
    gconv_device_close(devices[d]);
}

static void sums_of_integers_have_the_bits_of_floats(void **state) {
  (void)state;
  gconv_device *devices[2] = {NULL, NULL};
  open_devices(devices);
  for (int i = 0; i < PATTERNS; i++) {
    check_image(devices, (pattern)i, 130, 250, 3);
    check_image(devices, (pattern)i, 61, 333, 1);
    check_image(devices, (pattern)i, 6, 1100, 4); /* wider than a block */
    check_image(devices, (pattern)i, 5, 4222, 2);
    check_image(devices, (pattern)i, 1, 1, 3);
    check_image(devices, (pattern)i, 3, 17, 4);
  }
  close_devices(devices);
}

/* ---- Filters that come close to a bound, or break one ---- */

/* A row or column of taps: the first one, and the others, which are equal. */
typedef struct edge {
  char *name;
  int32_t count;
  float first, others, bias;
  bool cut;
  double scale, offset; /* the offset in levels */
} edge;

static void check_edge(const edge *e) {
  float taps[128] = {e->first};
  for (int32_t i = 1; i < e->count; i++)
    taps[i] = e->others;
  gconv_options options = gconv_options_default();
  options.border = GCONV_BORDER_REPLICATE;
  options.scale = e->scale;
  options.offset = e->offset / 255;
  options.range = e->cut ? GCONV_RANGE_WRAP : GCONV_RANGE_CLAMP;
  gconv_device *devices[2] = {NULL, NULL};
  open_devices(devices);
  for (int white = 0; white < 2; white++)
    for (int across = 0; across < 2; across++) {
      gconv_filter filter = {.name = e->name, .rows = 1, .columns = 1, .divisor = 1, .offset = e->bias, .taps = taps};
      *(across ? &filter.columns : &filter.rows) = e->count;
      gconv_image image = make_image(NOISE, 5, 300, 1);
      for (size_t i = 0; white && i < 5 * image.row_bytes; i++)
        ((uint8_t *)image.data)[i] = 255;
      check(devices, &image, &filter, &options);
      gconv_image_free(&image);
    }
  close_devices(devices);
}

/* In white areas, the first tap yields a sum just below a half. Between 128 and 256, float32 has steps of 2^-16. Each of the
 * other products is a little more than half a step, so each addition is rounded up. As integers these taps are 0. So the two
 * sums are as far from each other as the bound allows, but for 2%. */
static void sums_as_far_apart_as_the_bound_allows(void **state) {
  (void)state;
  for (int steps = 1; steps < 127; steps++)
    check_edge(&(edge){"at the bound", 128, (float)((250.5 - ldexp(steps, -16)) / 255), (float)(1.002 * ldexp(1, -17) / 255),
                       0, false, 1, 0});
}

static void filters_at_the_edges_have_the_bits_of_floats(void **state) {
  (void)state;
  static const edge edges[] = {
      {"an offset that rounds up", 2, 0x1p-23f, 0, 0, false, 1, 201.5 - 0x1p-16},
      {"a tap of nearly 1", 3, 0.9985f, 0.001f, 0, false, 1, 0},
      {"sums that become infinite", 2, 2e36f, 0, 0, false, 1e-37, 0},
      {"infinite sums times 0", 2, 3e38f, 0, 0, false, 0, 100},
      {"a bias", 17, 0.0513f, 0.0513f, 1.5f, false, 1, 0},
      {"sums cut below 0", 17, -0.7f, 0.0513f, 0, true, 1, 0},
      {"sums cut beyond 255", 17, 0.07f, 0.07f, 0, true, 1, 0},
      {"taps of 0", 5, 0, 0, 0, false, 1, 0.5},
      {"taps below normal floats", 5, 1e-45f, 3e-42f, 0, false, 1e38, 0},
      {"large taps of both signs", 5, -2000, 500, 0, false, 1, 0},
  };
  for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
    check_edge(&edges[i]);
}

int main(void) {
  if (!gconv_cpu_dots())
    print_message("this processor does not multiply bytes fast, or $GCONV_ISA is set: floats are compared with floats\n");
  const struct CMUnitTest tests[] = {cmocka_unit_test(sums_of_integers_have_the_bits_of_floats),
                                     cmocka_unit_test(sums_as_far_apart_as_the_bound_allows),
                                     cmocka_unit_test(filters_at_the_edges_have_the_bits_of_floats)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

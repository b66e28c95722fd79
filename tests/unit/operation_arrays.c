/* SPDX-License-Identifier: MIT */
/* gconv_plan_execute_device() on a CPU, where arrays are in memory of the host: strides of all kinds that are taken, and
 * those that are refused. tests/gpu/device_memory.cu is the same on a GPU. */
#include "bench/make_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GUARD = 0xA5, HEIGHT = 19, WIDTH = 13 };

static gconv_device *device;
static float taps[9] = {1, 2, 1, 0, 0.5F, 0, -1, -2, -1};

static int open_device(void **state) {
  (void)state;
  return gconv_device_open("cpu", 2, &device) == GCONV_OK ? 0 : -1;
}

static int close_device(void **state) {
  (void)state;
  gconv_device_close(device);
  return 0;
}

static gconv_image make_image(gconv_type type, int32_t frames, int32_t channels, bool planar) {
  gconv_image image = {
      .type = type, .frames = frames, .height = HEIGHT, .width = WIDTH, .channels = channels, .planar = planar};
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  size_t samples = (size_t)frames * (size_t)channels * HEIGHT * WIDTH;
  for (size_t i = 0; i < samples; i++) {
    uint32_t v = (uint32_t)(i * 2654435761U) >> 8;
    if (type == GCONV_U8)
      ((uint8_t *)image.data)[i] = (uint8_t)v;
    else if (type == GCONV_U16)
      ((uint16_t *)image.data)[i] = (uint16_t)v;
    else
      ((float *)image.data)[i] = (float)(v % 1000) / 999;
  }
  return image;
}

/* An array of the samples of an image, `gap` bytes behind each row and plane, all of which are GUARD at first. */
static gconv_array make_array(const gconv_image *image, size_t gap, size_t *bytes) {
  const int64_t size = (int64_t)gconv_type_bytes(image->type), c = image->channels;
  const int64_t pixel = image->planar ? size : c * size, row = pixel * image->width + (int64_t)gap;
  const int64_t plane = row * image->height + (int64_t)gap, planes = image->planar ? c : 1;
  gconv_array array = {.type = image->type, .shape = {image->frames, c, image->height, image->width}};
  array.stride[0] = planes * plane;
  array.stride[1] = image->planar ? plane : size;
  array.stride[2] = row;
  array.stride[3] = pixel;
  *bytes = (size_t)(image->frames * planes * plane);
  array.data = malloc(*bytes);
  assert_non_null(array.data);
  memset(array.data, GUARD, *bytes);
  return array;
}

static uint8_t *sample_of(const gconv_array *a, int64_t n, int64_t c, int64_t y, int64_t x) {
  return (uint8_t *)a->data + n * a->stride[0] + c * a->stride[1] + y * a->stride[2] + x * a->stride[3];
}

static const uint8_t *pixel_of(const gconv_image *i, int64_t n, int64_t c, int64_t y, int64_t x) {
  size_t plane = (size_t)(i->planar ? n * i->channels + c : n), index = (size_t)(i->planar ? x : x * i->channels + c);
  return (const uint8_t *)i->data + plane * i->plane_bytes + (size_t)y * i->row_bytes + index * gconv_type_bytes(i->type);
}

/* Copies the samples of an image to an array, or compares both; then the array's are made GUARD, which all bytes must be. */
static void move_samples(const gconv_image *image, const gconv_array *array, bool compare) {
  size_t size = gconv_type_bytes(image->type);
  for (int32_t n = 0; n < image->frames; n++)
    for (int32_t c = 0; c < image->channels; c++)
      for (int32_t y = 0; y < image->height; y++)
        for (int32_t x = 0; x < image->width; x++) {
          uint8_t *sample = sample_of(array, n, c, y, x);
          if (compare)
            assert_memory_equal(sample, pixel_of(image, n, c, y, x), size);
          memcpy(sample, pixel_of(image, n, c, y, x), size);
          if (compare)
            memset(sample, GUARD, size);
        }
}

static void check_plan(gconv_plan *plan, const gconv_image *in, size_t gap) {
  enum { MOST = 4 };
  size_t count = gconv_plan_outputs(plan), bytes[MOST], in_bytes;
  gconv_image expected[MOST] = {{0}};
  gconv_array from = make_array(in, gap, &in_bytes), to[MOST];
  assert_int_equal(gconv_plan_execute(plan, in, expected, gconv_plan_outputs(plan), NULL), GCONV_OK);
  move_samples(in, &from, false);
  for (size_t i = 0; i < count; i++)
    to[i] = make_array(&expected[i], gap, &bytes[i]);
  assert_int_equal(gconv_plan_execute_device(plan, &from, to, count, NULL), GCONV_OK);
  for (size_t i = 0; i < count; i++) {
    move_samples(&expected[i], &to[i], true);
    for (size_t b = 0; b < bytes[i]; b++)
      assert_int_equal(((uint8_t *)to[i].data)[b], GUARD);
    gconv_image_free(&expected[i]);
    free(to[i].data);
  }
  free(from.data);
}

static void arrays_yield_what_images_do(void **state) {
  (void)state;
  gconv_filter all[2] = {{.name = (char *)"a", .rows = 3, .columns = 3, .taps = taps, .divisor = 1, .anchor_row = 1},
                         {.name = (char *)"b", .rows = 3, .columns = 3, .taps = taps, .divisor = 2, .anchor_row = 1}};
  gconv_filters filters = {.items = all, .count = 2};
  static const struct {
    gconv_type type;
    int32_t frames, channels;
    bool planar;
  } cases[] = {{GCONV_U8, 1, 3, false}, {GCONV_U8, 2, 4, false}, {GCONV_U16, 1, 1, false}, {GCONV_F32, 1, 3, true},
               {GCONV_F32, 2, 5, true}, {GCONV_U16, 3, 2, true}, {GCONV_U8, 2, 1, true}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (size_t gap = 0; gap <= 12; gap += 12) {
      gconv_image in = make_image(cases[i].type, cases[i].frames, cases[i].channels, cases[i].planar);
      gconv_options options = gconv_options_default();
      options.border = GCONV_BORDER_REFLECT101;
      gconv_plan *plan = NULL;
      assert_int_equal(gconv_plan_filters(device, &in, &filters, &options, &plan), GCONV_OK);
      check_plan(plan, &in, gap);
      gconv_plan_free(plan);
      gconv_image_free(&in);
    }
}

static void networks_take_arrays_too(void **state) {
  (void)state;
  static float weights[2 * 3 * 9];
  for (int i = 0; i < 54; i++)
    weights[i] = (float)(i % 7 - 3) / 4;
  gconv_bank bank = {.filters = 2, .channels = 3, .rows = 3, .columns = 3, .weights = weights};
  gconv_layer layer = {.bank = &bank};
  for (int kind = 0; kind < 4; kind++)
    for (size_t gap = 0; gap <= 8; gap += 8) {
      gconv_image in = make_image(kind == 0 ? GCONV_F32 : GCONV_U8, 2, 3, kind < 2);
      gconv_network_options options = {.presentation = kind == 3 ? GCONV_PRESENT_PICTURES : GCONV_PRESENT_TENSOR};
      options.tone.scale = 1;
      gconv_plan *plan = NULL;
      assert_int_equal(gconv_plan_layers(device, &in, &layer, 1, &options, 0, &plan), GCONV_OK);
      check_plan(plan, &in, gap);
      gconv_plan_free(plan);
      gconv_image_free(&in);
    }
}

/* What is changed of a good input array, and what is said of it then. */
static void refuse(gconv_plan *plan, gconv_array in, gconv_array out, size_t count, gconv_status status,
                   const char *fragment) {
  assert_int_equal(gconv_plan_execute_device(plan, &in, &out, count, NULL), status);
  if (!strstr(gconv_last_error(), fragment))
    fail_msg("\"%s\" is not in: %s", fragment, gconv_last_error());
}

static void what_a_plan_cannot_take_is_refused(void **state) {
  (void)state;
  gconv_filter one = {.name = (char *)"a", .rows = 3, .columns = 3, .taps = taps, .divisor = 1};
  gconv_filters filters = {.items = &one, .count = 1};
  gconv_options options = gconv_options_default();
  gconv_image in = make_image(GCONV_U16, 2, 3, false);
  gconv_plan *plan = NULL;
  size_t bytes;
  assert_int_equal(gconv_plan_filters(device, &in, &filters, &options, &plan), GCONV_OK);
  gconv_array good = make_array(&in, 4, &bytes), out = make_array(&in, 4, &bytes), bad;
  move_samples(&in, &good, false);
  refuse(plan, good, out, 2, GCONV_BAD_ARGUMENT, "output_count is 2");
  refuse(plan, good, good, 1, GCONV_BAD_ARGUMENT, "and the input share memory");
#define REFUSE(change, status, fragment)                                                                                    \
  bad = good;                                                                                                               \
  bad.change;                                                                                                               \
  refuse(plan, bad, out, 1, status, fragment)
  REFUSE(data = NULL, GCONV_BAD_ARGUMENT, "no data");
  REFUSE(type = GCONV_U8, GCONV_BAD_ARGUMENT, "type u8");
  REFUSE(shape[2] = HEIGHT + 1, GCONV_BAD_ARGUMENT, "20 x 13");
  REFUSE(stride[3] = 2, GCONV_UNSUPPORTED, "other layout");
  REFUSE(stride[1] = 4, GCONV_UNSUPPORTED, "other layout");
  REFUSE(stride[2] = 6 * WIDTH - 2, GCONV_UNSUPPORTED, "overlap");
  REFUSE(stride[2] = 6 * WIDTH + 1, GCONV_UNSUPPORTED, "split");
  REFUSE(stride[2] = -good.stride[2], GCONV_UNSUPPORTED, "backwards");
  REFUSE(stride[0] = 8, GCONV_UNSUPPORTED, "overlap");
  REFUSE(data = (uint8_t *)good.data + 1, GCONV_UNSUPPORTED, "splits a sample");
  assert_int_equal(gconv_plan_execute_device(plan, &good, &out, 1, NULL), GCONV_OK);
  gconv_plan_free(plan);
  gconv_image_free(&in);
  free(good.data);
  free(out.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arrays_yield_what_images_do),
      cmocka_unit_test(networks_take_arrays_too),
      cmocka_unit_test(what_a_plan_cannot_take_is_refused),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}

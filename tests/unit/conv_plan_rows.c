/* SPDX-License-Identifier: MIT */
/* Plans executed by strips give the bits of the whole image, from windows that hold nothing but the rows that are needed. */
#include "bench/make_plan.h"
#include "gconv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct shape {
  const char *algorithm, *filter;
  gconv_type type;
  int32_t height, width, channels, strip; /* strip: rows, rounded up to the step of the plan */
  gconv_border border;
  gconv_padding padding;
  int32_t stride, dilation; /* 0 means 1 */
  bool gray, linear, alpha;
  gconv_range range;
  int32_t pad; /* rows above and below, of explicit padding */
} shape;

static const shape shapes[] = {
    {"direct", "gaussian:size=9,sigma=2", GCONV_U8, 61, 40, 3, 7, .border = GCONV_BORDER_ZERO},
    {"direct", "gaussian:size=9,sigma=2", GCONV_U8, 61, 40, 3, 1, .border = GCONV_BORDER_SYMMETRIC},
    {"direct", "gaussian:size=15,sigma=2", GCONV_F32, 30, 33, 1, 4, .border = GCONV_BORDER_REFLECT101},
    {"direct", "motion:len=31,theta=60", GCONV_U16, 20, 30, 1, 3, .border = GCONV_BORDER_REPLICATE},
    {"direct", "gaussian:size=9,sigma=2", GCONV_U8, 31, 20, 1, 5, .border = GCONV_BORDER_SYMMETRIC,
     .padding = GCONV_PADDING_FULL},
    {"direct", "gaussian:size=5,sigma=1", GCONV_U8, 50, 20, 4, 6, .padding = GCONV_PADDING_VALID, .stride = 3,
     .alpha = true},
    {"direct", "sobel_x", GCONV_U8, 50, 20, 3, 6, .dilation = 4, .range = GCONV_RANGE_ABS},
    {"direct", "sobel_x", GCONV_U8, 40, 20, 1, 1, .stride = 7},
    {"separable", "gaussian:size=9,sigma=2", GCONV_U8, 61, 40, 3, 10, .border = GCONV_BORDER_REPLICATE},
    {"sparse", "motion:len=9,theta=30", GCONV_U8, 44, 40, 3, 10, .border = GCONV_BORDER_ZERO},
    {"im2col", "sharpen", GCONV_U8, 44, 40, 3, 10, .border = GCONV_BORDER_ZERO},
    {"fft", "log:size=13,sigma=2", GCONV_U8, 700, 90, 1, 1, .border = GCONV_BORDER_SYMMETRIC},
    {"fft", "log:size=13,sigma=2", GCONV_F32, 400, 60, 3, 1, .border = GCONV_BORDER_REPLICATE,
     .padding = GCONV_PADDING_FULL},
    {"direct", "sobel_x", GCONV_U8, 4, 20, 1, 3, .border = GCONV_BORDER_ZERO, .padding = GCONV_PADDING_EXPLICIT, .pad = 50},
    {"direct", "sobel_x", GCONV_U8, 4, 20, 1, 3, .border = GCONV_BORDER_REPLICATE, .padding = GCONV_PADDING_EXPLICIT,
     .pad = 50},
    {"direct", "gaussian:size=9,sigma=2", GCONV_U8, 5, 20, 1, 1, .border = GCONV_BORDER_SYMMETRIC,
     .padding = GCONV_PADDING_EXPLICIT, .pad = 50},
    {"direct", "gaussian:size=9,sigma=2", GCONV_U8, 5, 20, 1, 40, .border = GCONV_BORDER_REFLECT101,
     .padding = GCONV_PADDING_EXPLICIT, .pad = 50},
    {"auto", "gaussian:size=9,sigma=2", GCONV_U8, 61, 40, 3, 7, .gray = true},
    {"auto", "gaussian:size=9,sigma=2", GCONV_U8, 61, 40, 4, 7, .linear = true, .alpha = true},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static gconv_device *device;

static gconv_image make_image(const shape *s) {
  gconv_image image = {
      .type = s->type, .frames = 1, .height = s->height, .width = s->width, .channels = s->channels, .alpha = s->alpha};
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  uint32_t lot = 5;
  for (size_t i = 0; i < (size_t)s->height * (size_t)s->width * (size_t)s->channels; i++) {
    lot = lot * 1664525u + 1013904223u;
    if (s->type == GCONV_U8)
      ((uint8_t *)image.data)[i] = (uint8_t)(lot >> 24);
    else if (s->type == GCONV_U16)
      ((uint16_t *)image.data)[i] = (uint16_t)(lot >> 16);
    else
      ((float *)image.data)[i] = (float)(lot >> 8) * 0x1p-24F;
  }
  return image;
}

static gconv_plan *make_plan(const shape *s, const gconv_image *like) {
  gconv_options options = gconv_options_default();
  gconv_filters filters = {0};
  gconv_plan *plan = NULL;
  options.algorithm = s->algorithm;
  options.border = s->border;
  options.padding = s->padding;
  options.pad_top = options.pad_bottom = s->pad;
  options.stride_y = options.stride_x = s->stride ? s->stride : 1;
  options.dilation_y = options.dilation_x = s->dilation ? s->dilation : 1;
  options.gray = s->gray;
  options.linear = s->linear;
  options.range = s->range;
  assert_int_equal(gconv_filters_read(s->filter, NULL, &filters), GCONV_OK);
  if (gconv_plan_filters(device, like, &filters, &options, &plan) != GCONV_OK)
    fail_msg("%s", gconv_last_error());
  gconv_filters_free(&filters);
  return plan;
}

/* Rows begin .. end - 1 of an image, in memory of their own, so that sanitizers notice accesses outside of them. */
static gconv_image cut(const gconv_image *image, int32_t begin, int32_t end) {
  gconv_image window = *image;
  window.height = end - begin;
  window.icc = NULL;
  assert_int_equal(gconv_image_allocate(&window), GCONV_OK);
  memcpy(window.data, (const uint8_t *)image->data + (size_t)begin * image->row_bytes,
         (size_t)(end - begin) * image->row_bytes);
  return window;
}

static void check_strip(gconv_plan *plan, const gconv_image *in, const gconv_image *whole, int32_t first, int32_t count) {
  int32_t begin, end;
  gconv_plan_rows_needed(plan, first, count, &begin, &end);
  assert_in_range(begin, 0, in->height - 1);
  assert_in_range(end, begin + 1, in->height);
  gconv_image window = cut(in, begin, end), out = cut(whole, first, first + count);
  memset(out.data, 0xA5, out.plane_bytes);
  if (gconv_plan_execute_rows(plan, &(gconv_input_rows){&window, begin}, first, &out, 1, NULL) != GCONV_OK)
    fail_msg("%s", gconv_last_error());
  assert_memory_equal(out.data, (const uint8_t *)whole->data + (size_t)first * whole->row_bytes, out.plane_bytes);
  gconv_image_free(&window);
  gconv_image_free(&out);
}

static void strips_give_the_bits_of_the_whole(void **state) {
  (void)state;
  for (int i = 0; i < SHAPES; i++) {
    const shape *s = &shapes[i];
    gconv_image in = make_image(s), whole = {0};
    gconv_plan *plan = make_plan(s, &in);
    int32_t step = gconv_plan_row_step(plan);
    assert_true(step >= 1);
    assert_int_equal(gconv_plan_execute(plan, &in, &whole, 1, NULL), GCONV_OK);
    int32_t strip = (s->strip + step - 1) / step * step;
    for (int32_t first = 0; first < whole.height; first += strip)
      check_strip(plan, &in, &whole, first, whole.height - first < strip ? whole.height - first : strip);
    gconv_image_free(&in);
    gconv_image_free(&whole);
    gconv_plan_free(plan);
  }
}

static void plans_that_need_the_whole_say_so(void **state) {
  (void)state;
  const shape whole[] = {{"direct", "sobel_x", GCONV_U8, 9, 9, 1, 1, .border = GCONV_BORDER_WRAP},
                         {"direct", "sobel_x", GCONV_U8, 9, 9, 1, 1, .range = GCONV_RANGE_MINMAX}};
  for (int i = 0; i < 2; i++) {
    gconv_image in = make_image(&whole[i]), out = make_image(&whole[i]);
    gconv_plan *plan = make_plan(&whole[i], &in);
    assert_int_equal(gconv_plan_row_step(plan), 0);
    assert_int_equal(gconv_plan_execute_rows(plan, &(gconv_input_rows){&in, 0}, 0, &out, 1, NULL), GCONV_UNSUPPORTED);
    gconv_image_free(&in);
    gconv_image_free(&out);
    gconv_plan_free(plan);
  }
}

static void wrong_parts_are_refused(void **state) {
  (void)state;
  const shape s = {"direct", "gaussian:size=9,sigma=2", GCONV_U8, 61, 40, 3, 7, .border = GCONV_BORDER_ZERO};
  gconv_image in = make_image(&s), window = cut(&in, 10, 30), out = cut(&in, 14, 26);
  gconv_plan *plan = make_plan(&s, &in);
  assert_int_equal(gconv_plan_execute_rows(plan, &(gconv_input_rows){&window, 10}, 14, &out, 1, NULL), GCONV_OK);
  assert_int_equal(gconv_plan_execute_rows(plan, &(gconv_input_rows){&window, 10}, 13, &out, 1, NULL),
                   GCONV_BAD_ARGUMENT); /* row 9 is missing */
  assert_int_equal(gconv_plan_execute_rows(plan, &(gconv_input_rows){&window, 10}, 15, &out, 1, NULL),
                   GCONV_BAD_ARGUMENT); /* row 30 is */
  assert_int_equal(gconv_plan_execute_rows(plan, &(gconv_input_rows){&window, 50}, 54, &out, 1, NULL),
                   GCONV_BAD_ARGUMENT); /* not in the image */
  assert_int_equal(gconv_plan_execute_rows(plan, &(gconv_input_rows){&window, -1}, 3, &out, 1, NULL), GCONV_BAD_ARGUMENT);
  assert_int_equal(gconv_plan_execute_rows(plan, &(gconv_input_rows){&in, 0}, 50, &out, 1, NULL),
                   GCONV_BAD_ARGUMENT); /* beyond the last row */
  out.width--;
  assert_int_equal(gconv_plan_execute_rows(plan, &(gconv_input_rows){&window, 10}, 14, &out, 1, NULL), GCONV_BAD_ARGUMENT);
  gconv_image_free(&in);
  gconv_image_free(&window);
  gconv_image_free(&out);
  gconv_plan_free(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strips_give_the_bits_of_the_whole),
      cmocka_unit_test(plans_that_need_the_whole_say_so),
      cmocka_unit_test(wrong_parts_are_refused),
  };
  if (gconv_device_open("cpu", 3, &device) != GCONV_OK)
    return 1;
  int failures = cmocka_run_group_tests(tests, NULL, NULL);
  gconv_device_close(device);
  return failures;
}

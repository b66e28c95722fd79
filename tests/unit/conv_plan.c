/* SPDX-License-Identifier: MIT */
/* Plans: what they refuse, what they say of themselves, and what verification sees. */
#include "gconv.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static gconv_device *device;

static int open_device(void **state) {
  (void)state;
  return gconv_device_open("cpu", 2, &device) == GCONV_OK ? 0 : -1;
}

static int close_device(void **state) {
  (void)state;
  gconv_device_close(device);
  return 0;
}

static float box[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
static float line[5] = {1, 0, -2, 0, 1};

static gconv_filter box_filter(void) {
  return (gconv_filter){"box", 3, 3, 1, 1, 9, 0, box};
}

static gconv_image make_image(gconv_type type, int32_t channels, bool alpha) {
  gconv_image image = {.type = type, .frames = 1, .height = 20, .width = 30, .channels = channels, .alpha = alpha};
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  memset(image.data, 0, image.plane_bytes);
  return image;
}

/* Makes a plan that must be refused with `status`, and a text that has `text` in it. */
static void refuse(const gconv_image *like, gconv_filter filter, gconv_options options, gconv_status status,
                   const char *text) {
  gconv_plan *plan = NULL;
  gconv_filters filters = {&filter, 1};
  assert_int_equal(gconv_plan_create(device, like, &filters, &options, &plan), status);
  assert_null(plan);
  if (!strstr(gconv_last_error(), text))
    fail_msg("\"%s\" does not say \"%s\"", gconv_last_error(), text);
}

static void bad_filters(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U8, 4, true);
  gconv_options options = gconv_options_default();
  for (int alpha = GCONV_ALPHA_KEEP; alpha <= GCONV_ALPHA_PREMULTIPLY; alpha++) {
    options.alpha = (gconv_alpha)alpha;
    gconv_filter filter = box_filter();
    filter.taps = NULL;
    refuse(&image, filter, options, GCONV_BAD_ARGUMENT, "box has no taps");
    filter = box_filter();
    filter.rows = -1;
    refuse(&image, filter, options, GCONV_BAD_ARGUMENT, "box has no taps");
    filter = box_filter();
    filter.anchor_column = 3;
    refuse(&image, filter, options, GCONV_BAD_ARGUMENT, "anchor");
    filter = box_filter();
    filter.divisor = 0;
    refuse(&image, filter, options, GCONV_BAD_ARGUMENT, "divisor");
    float taps[9] = {0, 0, INFINITY, 0, 0, 0, 0, 0, 0};
    filter = box_filter();
    filter.taps = taps;
    refuse(&image, filter, options, GCONV_BAD_ARGUMENT, "not finite");
  }
  gconv_filter edges = {"edges", 1, 5, 0, 2, 1, 0, line};
  refuse(&image, edges, options, GCONV_BAD_ARGUMENT, "sums to 0");
  gconv_image_free(&image);
}

static void bad_options(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U8, 3, false);
  gconv_options options = gconv_options_default();
  options.stride_x = 0;
  refuse(&image, box_filter(), options, GCONV_BAD_ARGUMENT, "stride");
  options = gconv_options_default();
  options.border = GCONV_BORDER_CONSTANT;
  options.border_value = 255;
  refuse(&image, box_filter(), options, GCONV_BAD_ARGUMENT, "1 is white");
  const double values[] = {1e300, -1e300, 1e38};
  for (int i = 0; i < 3; i++) {
    options = gconv_options_default();
    options.scale = values[i] * 100;
    refuse(&image, box_filter(), options, GCONV_BAD_ARGUMENT, "float32");
    options = gconv_options_default();
    options.offset = values[i] * 10;
    refuse(&image, box_filter(), options, GCONV_BAD_ARGUMENT, "float32");
  }
  options = gconv_options_default();
  options.scale = NAN;
  refuse(&image, box_filter(), options, GCONV_BAD_ARGUMENT, "finite");
  options = gconv_options_default();
  options.padding = GCONV_PADDING_VALID;
  options.dilation_y = 10;
  refuse(&image, box_filter(), options, GCONV_BAD_ARGUMENT, "leaves no output");
  options = gconv_options_default();
  options.block_width = 64;
  refuse(&image, box_filter(), options, GCONV_BAD_ARGUMENT, "a block of 64 x 0");
  options.block_height = 17;
  refuse(&image, box_filter(), options, GCONV_BAD_ARGUMENT, "a block of 64 x 17");
  options = gconv_options_default();
  options.grid_blocks = -1;
  refuse(&image, box_filter(), options, GCONV_BAD_ARGUMENT, "blocks of the grid is -1");
  options = gconv_options_default();
  options.algorithm = "nosuch";
  refuse(&image, box_filter(), options, GCONV_UNSUPPORTED, "it has direct");
  options.algorithm = "fft";
  options.alpha = GCONV_ALPHA_PREMULTIPLY;
  gconv_image transparent = {.type = image.type, .frames = 1, .height = 9, .width = 9, .channels = 4, .alpha = true};
  refuse(&transparent, box_filter(), options, GCONV_UNSUPPORTED, "does not keep zeros");
  image.planar = true;
  image.alpha = true;
  refuse(&image, box_filter(), gconv_options_default(), GCONV_BAD_ARGUMENT, "planar");
  image.planar = image.alpha = false;
  gconv_image_free(&image);
}

static void outputs_are_not_the_input(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U8, 1, false), output = {.type = GCONV_U8};
  gconv_filter filter = box_filter();
  gconv_filters filters = {&filter, 1};
  gconv_options options = gconv_options_default();
  gconv_plan *plan = NULL;
  assert_int_equal(gconv_plan_create(device, &image, &filters, &options, &plan), GCONV_OK);
  assert_int_equal(gconv_plan_execute(plan, &image, &image, NULL), GCONV_BAD_ARGUMENT);
  assert_non_null(strstr(gconv_last_error(), "cannot be the input"));
  assert_int_equal(gconv_plan_execute(plan, &image, &output, NULL), GCONV_OK);
  gconv_image_free(&output);
  gconv_plan_free(plan);
  gconv_image_free(&image);
}

static void several_sizes_are_several_passes(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U8, 1, false);
  gconv_filter both[] = {box_filter(), {"line", 1, 5, 0, 2, 1, 0, line}};
  gconv_filters filters = {both, 2};
  gconv_options options = gconv_options_default();
  options.padding = GCONV_PADDING_VALID;
  gconv_plan *plan = NULL;
  assert_int_equal(gconv_plan_create(device, &image, &filters, &options, &plan), GCONV_OK);
  const gconv_plan_info *info = gconv_plan_get_info(plan);
  assert_int_equal(gconv_plan_outputs(plan), 2);
  assert_int_equal(info->rows, 3);
  assert_int_equal(info->columns, 5);
  assert_true(info->bytes == 20 * 30 + 18 * 28 + 20 * 26);
  assert_true(info->flop == 2.0 * (18 * 28 * 9 + 20 * 26 * 5));
  char *text = NULL;
  assert_int_equal(gconv_plan_explain(plan, &text), GCONV_OK);
  assert_non_null(strstr(text, "for box, 18 x 28 outputs"));
  assert_non_null(strstr(text, "for line, 20 x 26 outputs"));
  free(text);
  gconv_image outputs[2] = {{.type = GCONV_U8}, {.type = GCONV_U8}};
  assert_int_equal(gconv_plan_execute(plan, &image, outputs, NULL), GCONV_OK);
  assert_int_equal(outputs[0].width, 28);
  assert_int_equal(outputs[1].width, 26);
  gconv_image_free(&outputs[0]);
  gconv_image_free(&outputs[1]);
  options.combine = GCONV_COMBINE_SUM;
  gconv_plan_free(plan);
  plan = NULL;
  assert_int_equal(gconv_plan_create(device, &image, &filters, &options, &plan), GCONV_BAD_ARGUMENT);
  gconv_image_free(&image);
}

/* One sample that is not finite must not blind the verification of the others. */
static void infinity_hides_nothing(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_F32, 1, false), output = {.type = GCONV_U8};
  float *samples = image.data;
  for (int i = 0; i < 600; i++)
    samples[i] = (float)(i % 7) / 7;
  samples[0] = INFINITY;
  gconv_filter filter = box_filter();
  gconv_filters filters = {&filter, 1};
  gconv_options options = gconv_options_default();
  options.algorithm = "direct";
  gconv_plan *plan = NULL;
  gconv_verification result;
  assert_int_equal(gconv_plan_create(device, &image, &filters, &options, &plan), GCONV_OK);
  assert_int_equal(gconv_plan_execute(plan, &image, &output, NULL), GCONV_OK);
  assert_int_equal(gconv_plan_verify(plan, &image, &output, -1, &result), GCONV_OK);
  assert_true(result.allowed < 1e-5);
  assert_int_equal(gconv_plan_verify(plan, &image, &output, 0, &result), GCONV_MISMATCH);
  ((float *)output.data)[10 * 30 + 7] += 0.01f;
  assert_int_equal(gconv_plan_verify(plan, &image, &output, -1, &result), GCONV_MISMATCH);
  assert_int_equal(result.y, 10);
  assert_int_equal(result.x, 7);
  gconv_image_free(&output);
  gconv_plan_free(plan);
  gconv_image_free(&image);
}

static void measuring(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U8, 3, false);
  gconv_filter filter = box_filter();
  gconv_filters filters = {&filter, 1};
  gconv_options options = gconv_options_default();
  gconv_plan *plan = NULL;
  double milliseconds[3] = {-1, -1, -1};
  assert_int_equal(gconv_plan_create(device, &image, &filters, &options, &plan), GCONV_OK);
  assert_int_equal(gconv_plan_measure(plan, &image, NULL, 0, milliseconds), GCONV_BAD_ARGUMENT);
  assert_int_equal(gconv_plan_measure(plan, &image, NULL, 2, milliseconds), GCONV_OK);
  assert_true(milliseconds[0] > 0 && milliseconds[1] > 0 && milliseconds[2] == -1);
  assert_int_equal(gconv_device_measure_copy(device, 1 << 20, 3, milliseconds), GCONV_OK);
  assert_true(milliseconds[2] > 0);
  gconv_plan_free(plan);
  gconv_image_free(&image);
}

static void devices(void **state) {
  (void)state;
  gconv_device *other = NULL;
  assert_int_equal(gconv_device_open("gpu", 0, &other), GCONV_BAD_ARGUMENT);
  assert_int_equal(gconv_device_open("cpu:0x", 0, &other), GCONV_BAD_ARGUMENT);
  assert_int_equal(gconv_device_open("cpu:7", 0, &other), GCONV_UNSUPPORTED);
  assert_int_equal(gconv_device_open("cuda:999", 0, &other), GCONV_UNSUPPORTED);
  assert_null(other);
  gconv_device_info info;
  assert_true(gconv_device_at(0, &info));
  assert_string_equal(info.name, "cpu");
  assert_true(info.usable);
  assert_true(gconv_device_at(1, &info));
  assert_true(info.usable == (info.reason[0] == '\0'));
  assert_string_equal(gconv_device_get_info(device)->name, "cpu");
  assert_true(gconv_device_start_ms(device) >= 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_filters),
      cmocka_unit_test(bad_options),
      cmocka_unit_test(outputs_are_not_the_input),
      cmocka_unit_test(several_sizes_are_several_passes),
      cmocka_unit_test(infinity_hides_nothing),
      cmocka_unit_test(measuring),
      cmocka_unit_test(devices),
  };
  return cmocka_run_group_tests_name("plan", tests, open_device, close_device);
}

/* SPDX-License-Identifier: MIT */
/* Plans: what they refuse, what they say of themselves, and what verification sees. */
#include "bench/make_plan.h"
#include "gconv.h"
#include "gconv_science.h"
#include "operation/operation.h"

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
  return (gconv_filter){"box", 3, 3, 1, 1, 9, 0, box, false};
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
  gconv_filters filters = {.items = &filter, .count = 1};
  assert_int_equal(gconv_plan_filters(device, like, &filters, &options, &plan), status);
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
    refuse(&image, filter, options, GCONV_BAD_ARGUMENT, "box: has no taps");
    filter = box_filter();
    filter.rows = -1;
    refuse(&image, filter, options, GCONV_BAD_ARGUMENT, "it needs at least 1 of each");
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
  gconv_filter edges = {"edges", 1, 5, 0, 2, 1, 0, line, false};
  refuse(&image, edges, options, GCONV_BAD_ARGUMENT, "sums to 0");
  gconv_image_free(&image);
}

static void bad_options(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U8, 3, false);
  gconv_options options = gconv_options_default();
  options.stride_x = -1;
  refuse(&image, box_filter(), options, GCONV_BAD_ARGUMENT, "stride (horizontal) is -1");
  options = gconv_options_default();
  options.border = (gconv_border)-1;
  refuse(&image, box_filter(), options, GCONV_BAD_ARGUMENT, "border is -1");
  options = gconv_options_default();
  options.border = GCONV_BORDER_CONSTANT;
  options.border_value = 255;
  refuse(&image, box_filter(), options, GCONV_BAD_ARGUMENT, "1 is white");
  options = gconv_options_default();
  options.offset = 128;
  refuse(&image, box_filter(), options, GCONV_BAD_ARGUMENT, "makes every image white");
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
  options = gconv_options_default();
  options.sets_type = true;
  options.output_type = GCONV_I16;
  options.linear = true;
  refuse(&image, box_filter(), options, GCONV_UNSUPPORTED, "cannot be made with linear light");
  options.linear = false;
  image.has_nodata = true;
  refuse(&image, box_filter(), options, GCONV_UNSUPPORTED, "cannot be made with images with samples of no data");
  image.has_nodata = false;
  options.output_type = (gconv_type)4;
  refuse(&image, box_filter(), options, GCONV_BAD_ARGUMENT, "type is 4: it must be 0 to 3");
  const gconv_image of_int16 = {.type = GCONV_I16, .frames = 1, .height = 9, .width = 9, .channels = 1};
  refuse(&of_int16, box_filter(), gconv_options_default(), GCONV_UNSUPPORTED, "samples of i16, which are results alone");
  image.planar = true;
  image.alpha = true;
  refuse(&image, box_filter(), gconv_options_default(), GCONV_BAD_ARGUMENT, "planar");
  gconv_operation *local = NULL;
  gconv_plan *plan = NULL;
  options = gconv_options_default();
  assert_int_equal(gconv_operation_local(GCONV_STD, 3, 3, &options, &local), GCONV_OK);
  assert_int_equal(gconv_plan_create(device, &image, local, 0, &plan), GCONV_BAD_ARGUMENT);
  assert_non_null(strstr(gconv_last_error(), "planar images with alpha"));
  gconv_operation_free(local);
  image.planar = image.alpha = false;
  gconv_image_free(&image);
}

static void outputs_are_not_the_input(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U8, 1, false), output = {.type = GCONV_U8};
  gconv_filter filter = box_filter();
  gconv_filters filters = {.items = &filter, .count = 1};
  gconv_options options = gconv_options_default();
  gconv_plan *plan = NULL;
  assert_int_equal(gconv_plan_filters(device, &image, &filters, &options, &plan), GCONV_OK);
  assert_int_equal(gconv_plan_execute(plan, &image, &image, 1, NULL), GCONV_BAD_ARGUMENT);
  assert_non_null(strstr(gconv_last_error(), "output 1 and the input share memory"));
  assert_int_equal(gconv_plan_execute(plan, &image, &output, 1, NULL), GCONV_OK);
  gconv_image_free(&output);
  gconv_plan_free(plan);
  gconv_image_free(&image);
}

static void several_sizes_are_several_passes(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U8, 1, false);
  gconv_filter both[] = {box_filter(), {"line", 1, 5, 0, 2, 1, 0, line, false}};
  gconv_filters filters = {.items = both, .count = 2};
  gconv_options options = gconv_options_default();
  options.padding = GCONV_PADDING_VALID;
  gconv_plan *plan = NULL;
  assert_int_equal(gconv_plan_filters(device, &image, &filters, &options, &plan), GCONV_OK);
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
  assert_int_equal(gconv_plan_execute(plan, &image, outputs, gconv_plan_outputs(plan), NULL), GCONV_OK);
  assert_int_equal(outputs[0].width, 28);
  assert_int_equal(outputs[1].width, 26);
  gconv_image_free(&outputs[0]);
  gconv_image_free(&outputs[1]);
  options.combine = GCONV_COMBINE_SUM;
  gconv_plan_free(plan);
  plan = NULL;
  assert_int_equal(gconv_plan_filters(device, &image, &filters, &options, &plan), GCONV_BAD_ARGUMENT);
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
  gconv_filters filters = {.items = &filter, .count = 1};
  gconv_options options = gconv_options_default();
  options.algorithm = "direct";
  gconv_plan *plan = NULL;
  gconv_verification result;
  assert_int_equal(gconv_plan_filters(device, &image, &filters, &options, &plan), GCONV_OK);
  assert_int_equal(gconv_plan_execute(plan, &image, &output, 1, NULL), GCONV_OK);
  assert_int_equal(gconv_plan_verify(plan, &image, &output, 1, -1, &result), GCONV_OK);
  assert_true(result.allowed < 1e-5);
  assert_int_equal(gconv_plan_verify(plan, &image, &output, 1, 0, &result), GCONV_MISMATCH);
  ((float *)output.data)[10 * 30 + 7] += 0.01f;
  assert_int_equal(gconv_plan_verify(plan, &image, &output, 1, -1, &result), GCONV_MISMATCH);
  assert_int_equal(result.y, 10);
  assert_int_equal(result.x, 7);
  gconv_image_free(&output);
  gconv_plan_free(plan);
  gconv_image_free(&image);
}

/* ---- Filters larger than the image ---- */

enum { SMALL_H = 5, SMALL_W = 7, LARGE_R = 33, LARGE_S = 29 };

static void fill_samples(gconv_image *image, bool odd) {
  static const float oddities[] = {INFINITY, -INFINITY, NAN, -0.0f, 1e-42f, -1e-45f, 3e38f, -3e38f};
  for (size_t i = 0; i < image->plane_bytes / gconv_type_bytes(image->type); i++) {
    if (image->type == GCONV_U8)
      ((uint8_t *)image->data)[i] = (uint8_t)(i * 37 + 11);
    else
      ((float *)image->data)[i] = odd && i % 11 == 4 ? oddities[i / 11 % 8] : (float)(i * 29 % 64) / 64 - 0.3f;
  }
}

/* The image amid zeros, as many as the filter reaches, so that all taps count where there is no padding. */
static gconv_image surround(const gconv_image *image, int32_t top, int32_t bottom, int32_t left, int32_t right) {
  gconv_image padded = *image;
  padded.height += top + bottom;
  padded.width += left + right;
  padded.data = NULL;
  assert_int_equal(gconv_image_allocate(&padded), GCONV_OK);
  memset(padded.data, 0, padded.plane_bytes);
  size_t pixel = (size_t)image->channels * gconv_type_bytes(image->type);
  for (int32_t y = 0; y < image->height; y++)
    memcpy((uint8_t *)padded.data + ((size_t)(top + y) * (size_t)padded.width + (size_t)left) * pixel,
           (const uint8_t *)image->data + (size_t)y * (size_t)image->width * pixel, (size_t)image->width * pixel);
  return padded;
}

static gconv_image convolve(const gconv_image *image, gconv_filter *filter, const gconv_options *options, double *flop) {
  gconv_filters filters = {.items = filter, .count = 1};
  gconv_plan *plan = NULL;
  gconv_image output = {.type = options->output_type};
  assert_int_equal(gconv_plan_filters(device, image, &filters, options, &plan), GCONV_OK);
  assert_int_equal(gconv_plan_get_info(plan)->rows, filter->rows);
  assert_int_equal(gconv_plan_get_info(plan)->columns, filter->columns);
  *flop = gconv_plan_get_info(plan)->flop;
  assert_int_equal(gconv_plan_execute(plan, image, &output, 1, NULL), GCONV_OK);
  gconv_plan_free(plan);
  return output;
}

/* Bit by bit, NaN being NaN. */
static void assert_same(const gconv_image *a, const gconv_image *b) {
  assert_int_equal(a->height, b->height);
  assert_int_equal(a->width, b->width);
  for (size_t i = 0; i < a->plane_bytes / sizeof(float); i++) {
    const float *x = (const float *)a->data + i, *y = (const float *)b->data + i;
    if (memcmp(x, y, sizeof *x) != 0 && !(isnan(*x) && isnan(*y)))
      fail_msg("sample %zu is %a, not %a", i, (double)*x, (double)*y);
  }
}

/* Same bits as where all taps are multiplied, with fewer of them. */
static void check_large(const gconv_image *image, gconv_filter *filter, gconv_options options) {
  int32_t down = (filter->rows - 1) * options.dilation_y, across = (filter->columns - 1) * options.dilation_x;
  int32_t row = options.flip ? filter->rows - 1 - filter->anchor_row : filter->anchor_row;
  int32_t column = options.flip ? filter->columns - 1 - filter->anchor_column : filter->anchor_column;
  int32_t top = row * options.dilation_y, left = column * options.dilation_x;
  gconv_image around = surround(image, top, down - top, left, across - left);
  double flop, flop_of_all;
  gconv_image output = convolve(image, filter, &options, &flop);
  options.padding = GCONV_PADDING_VALID;
  gconv_image expected = convolve(&around, filter, &options, &flop_of_all);
  assert_same(&output, &expected);
  assert_true(flop < flop_of_all);
  assert_true(flop <= 2.0 * output.height * output.width * image->channels * (2 * SMALL_H - 1) * (2 * SMALL_W - 1));
  gconv_image_free(&around);
  gconv_image_free(&output);
  gconv_image_free(&expected);
}

static void taps_beyond_a_small_image_are_left_out(void **state) {
  (void)state;
  static const char *const algorithms[] = {"reference", "direct", "sparse", "im2col"};
  static const int32_t steps[][4] = {{1, 1, 1, 1}, {2, 1, 1, 3}, {1, 3, 2, 1}, {4, 9, 3, 2}}; /* strides, dilations */
  static const int32_t anchors[][2] = {{16, 14}, {0, 0}, {32, 28}, {3, 25}};
  float taps[LARGE_R * LARGE_S];
  for (int i = 0; i < LARGE_R * LARGE_S; i++)
    taps[i] = i % 5 == 2 ? 0.0f : i % 97 == 3 ? -0.0f : i % 89 == 7 ? 1e-40f : (float)(i * 31 % 101 - 50) / 64;
  for (unsigned i = 0; i < 4 * 4 * 4 * 2 * 4; i++) {
    const int32_t *step = steps[i / 4 % 4], *anchor = anchors[i / 16 % 4];
    gconv_filter filter = {"large", LARGE_R, LARGE_S, anchor[0], anchor[1], 1, 0, taps, false};
    gconv_image image = {.type = i / 128 % 4 ? GCONV_F32 : GCONV_U8, .frames = 1, .height = SMALL_H, .width = SMALL_W};
    image.channels = 1 + (int32_t)(i / 128 % 3);
    gconv_options options = gconv_options_default();
    options.algorithm = algorithms[i % 4];
    options.sets_type = true;
    options.output_type = GCONV_F32;
    options.stride_y = step[0], options.stride_x = step[1], options.dilation_y = step[2], options.dilation_x = step[3];
    options.flip = i / 64 % 2;
    options.scale = i / 128 % 4 == 2 ? -1 : 1; /* a sum of -0 must not show */
    assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
    fill_samples(&image, i / 128 % 4 == 3);
    check_large(&image, &filter, options);
    gconv_image_free(&image);
  }
}

/* Borders that are not zero use all taps; constant 0 is zero. */
static void other_borders_meet_all_taps(void **state) {
  (void)state;
  float ones[31 * 31];
  for (int i = 0; i < 31 * 31; i++)
    ones[i] = 1;
  gconv_filter filter = {"ones", 31, 31, 15, 15, 1, 0, ones, false};
  gconv_image image = {.type = GCONV_F32, .frames = 1, .height = 3, .width = 3, .channels = 1};
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  for (int i = 0; i < 9; i++)
    ((float *)image.data)[i] = 1;
  for (int border = GCONV_BORDER_ZERO; border <= GCONV_BORDER_WRAP; border++)
    for (int value = 0; value < 2; value++) {
      gconv_options options = gconv_options_default();
      options.border = (gconv_border)border;
      options.border_value = value;
      options.output_type = GCONV_F32;
      options.sets_type = true;
      double flop;
      gconv_image output = convolve(&image, &filter, &options, &flop);
      bool zeros = border == GCONV_BORDER_ZERO || (border == GCONV_BORDER_CONSTANT && value == 0);
      for (int i = 0; i < 9; i++)
        assert_true(((float *)output.data)[i] == (zeros ? 9 : 31 * 31));
      assert_true(flop == 2.0 * 9 * (zeros ? 25 : 31 * 31));
      gconv_image_free(&output);
    }
  gconv_image_free(&image);
}

static void measuring(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U8, 3, false);
  gconv_filter filter = box_filter();
  gconv_filters filters = {.items = &filter, .count = 1};
  gconv_options options = gconv_options_default();
  gconv_plan *plan = NULL;
  double milliseconds[3] = {-1, -1, -1};
  assert_int_equal(gconv_plan_filters(device, &image, &filters, &options, &plan), GCONV_OK);
  assert_int_equal(gconv_plan_measure(plan, &image, NULL, 0, milliseconds), GCONV_BAD_ARGUMENT);
  assert_int_equal(gconv_plan_measure(plan, &image, NULL, 2, milliseconds), GCONV_OK);
  assert_true(milliseconds[0] > 0 && milliseconds[1] > 0 && milliseconds[2] == -1);
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
  assert_true(gconv_device_get_info(device)->start_ms >= 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_filters),
      cmocka_unit_test(bad_options),
      cmocka_unit_test(outputs_are_not_the_input),
      cmocka_unit_test(several_sizes_are_several_passes),
      cmocka_unit_test(infinity_hides_nothing),
      cmocka_unit_test(taps_beyond_a_small_image_are_left_out),
      cmocka_unit_test(other_borders_meet_all_taps),
      cmocka_unit_test(measuring),
      cmocka_unit_test(devices),
  };
  return cmocka_run_group_tests_name("plan", tests, open_device, close_device);
}

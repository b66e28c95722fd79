/* SPDX-License-Identifier: MIT */
/* Chains of operations: of filters, and of filters and a network; their users, and what cannot be a chain. */
#include "bench/make_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

static gconv_operation *make_filters(size_t count, gconv_type type) {
  gconv_filter one = {
      .name = "one", .rows = 3, .columns = 3, .anchor_row = 1, .anchor_column = 1, .divisor = 4, .taps = taps};
  gconv_filter two[2] = {one, one};
  gconv_options options = gconv_options_default();
  gconv_operation *operation = NULL;
  options.sets_type = true;
  options.output_type = type;
  assert_int_equal(gconv_operation_filters(&(gconv_filters){.items = two, .count = count}, &options, &operation), GCONV_OK);
  return operation;
}

static gconv_operation *make_network(gconv_bank *bank) {
  static float weights[9] = {0, 1, 0, 1, -4, 1, 0, 1, 0};
  *bank = (gconv_bank){.filters = 1, .channels = 1, .rows = 3, .columns = 3, .weights = weights};
  gconv_layer layer = {.bank = bank};
  gconv_operation *operation = NULL;
  assert_int_equal(gconv_operation_network(&layer, 1, NULL, &operation), GCONV_OK);
  return operation;
}

static gconv_image make_image(void) {
  gconv_image image = {.type = GCONV_U8, .frames = 1, .height = 11, .width = 14, .channels = 1};
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  for (size_t i = 0; i < 11 * 14; i++)
    ((uint8_t *)image.data)[i] = (uint8_t)((i * 2654435761U) >> 8);
  return image;
}

static void apply(gconv_operation *operation, const gconv_image *in, gconv_image *out) {
  gconv_plan *plan = NULL;
  gconv_verification found;
  *out = (gconv_image){0};
  assert_int_equal(gconv_plan_create(device, in, operation, 0, &plan), GCONV_OK);
  assert_int_equal(gconv_plan_execute(plan, in, out, gconv_plan_outputs(plan), NULL), GCONV_OK);
  assert_int_equal(gconv_plan_verify(plan, in, out, gconv_plan_outputs(plan), -1, &found), GCONV_OK);
  ((uint8_t *)out->data)[5] ^= 0x40;
  assert_int_equal(gconv_plan_verify(plan, in, out, gconv_plan_outputs(plan), -1, &found), GCONV_MISMATCH);
  ((uint8_t *)out->data)[5] ^= 0x40;
  gconv_plan_free(plan);
}

/* The stages are freed before the chain is used: it is one of their users. */
static void check_chain(gconv_operation *first, gconv_operation *second) {
  gconv_image in = make_image(), middle, expected, got;
  gconv_operation *chain = NULL;
  apply(first, &in, &middle);
  apply(second, &middle, &expected);
  assert_int_equal(gconv_operation_chain((gconv_operation *[]){first, second}, 2, &chain), GCONV_OK);
  gconv_operation_free(first);
  gconv_operation_free(second);
  apply(chain, &in, &got);
  gconv_operation_free(chain);
  assert_true(gconv_image_same_shape(&expected, &got));
  assert_memory_equal(expected.data, got.data, expected.plane_bytes);
  gconv_image_free(&in);
  gconv_image_free(&middle);
  gconv_image_free(&expected);
  gconv_image_free(&got);
}

static void test_filters(void **state) {
  (void)state;
  check_chain(make_filters(1, GCONV_F32), make_filters(1, GCONV_U8));
}

static void test_filters_and_a_network(void **state) {
  gconv_bank bank;
  (void)state;
  check_chain(make_filters(1, GCONV_F32), make_network(&bank));
}

static void test_what_is_no_chain(void **state) {
  (void)state;
  gconv_operation *two = make_filters(2, GCONV_F32), *one = make_filters(1, GCONV_F32), *chain = NULL;
  assert_int_equal(gconv_operation_chain((gconv_operation *[]){two, one}, 2, &chain), GCONV_BAD_ARGUMENT);
  assert_non_null(strstr(gconv_last_error(), "makes 2 images"));
  assert_int_equal(gconv_operation_chain(NULL, 0, &chain), GCONV_BAD_ARGUMENT);
  assert_null(chain);
  gconv_operation_free(one);
  gconv_operation_free(two);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_filters),
      cmocka_unit_test(test_filters_and_a_network),
      cmocka_unit_test(test_what_is_no_chain),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}

/* SPDX-License-Identifier: MIT */
/* Networks through the public header: shapes, refusals, the order of outputs. Numbers are tests/oracle/test_layers.c's. */
#include "bench/make_plan.h"
#include "gconv.h"

#include <setjmp.h>
#include <stdarg.h>
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

/* A bank of K x C x R x S weights 1, 2, 3 ... that need no freeing. */
static gconv_bank make_bank(int32_t filters, int32_t channels, int32_t rows, int32_t columns) {
  static float weights[1024];
  for (int i = 0; i < 1024; i++)
    weights[i] = (float)(i + 1);
  return (gconv_bank){.filters = filters, .channels = channels, .rows = rows, .columns = columns, .weights = weights};
}

static gconv_image make_header(int32_t frames, int32_t channels, int32_t height, int32_t width) {
  return (gconv_image){
      .type = GCONV_F32, .frames = frames, .height = height, .width = width, .channels = channels, .planar = true};
}

static gconv_status create(const gconv_image *like, const gconv_layer *layer, const gconv_network_options *options,
                           gconv_plan **network) {
  *network = NULL;
  return gconv_plan_layers(device, like, layer, 1, options, 0, network);
}

/* ---- Shapes ---- */

static void outputs_are_where_padding_says(void **state) {
  (void)state;
  static const struct {
    gconv_layer_padding padding;
    int32_t height, width; /* of 10 x 9 under 3 x 4 with stride 2 */
  } cases[] = {{GCONV_LAYER_DEFAULT, 5, 5}, {GCONV_LAYER_SAME, 5, 5},       {GCONV_LAYER_VALID, 4, 3},
               {GCONV_LAYER_FULL, 6, 6},    {GCONV_LAYER_SAME_UPPER, 5, 5}, {GCONV_LAYER_SAME_LOWER, 5, 5},
               {GCONV_LAYER_EXPLICIT, 5, 4}};
  gconv_bank bank = make_bank(2, 3, 3, 4);
  gconv_image like = make_header(2, 3, 10, 9);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    gconv_layer layer = {.bank = &bank, .padding = cases[i].padding, .stride_y = 2, .stride_x = 2};
    if (layer.padding == GCONV_LAYER_EXPLICIT)
      layer.pad_top = layer.pad_left = 1;
    gconv_plan *network;
    assert_int_equal(create(&like, &layer, NULL, &network), GCONV_OK);
    const gconv_image *out = gconv_plan_output_header(network, 0);
    assert_int_equal(out->frames, 2);
    assert_int_equal(out->channels, 2);
    assert_int_equal(out->height, cases[i].height);
    assert_int_equal(out->width, cases[i].width);
    assert_true(out->planar && out->type == GCONV_F32);
    gconv_plan_free(network);
  }
}

static void geometry_of_the_bank_is_the_default(void **state) {
  (void)state;
  gconv_bank bank = make_bank(4, 2, 3, 3);
  bank.has_geometry = true;
  bank.stride_y = bank.stride_x = 2;
  bank.dilation_y = bank.dilation_x = 1;
  bank.groups = 2;
  bank.pad_top = 1;
  gconv_image like = make_header(1, 4, 9, 9);
  gconv_layer layer = {.bank = &bank};
  gconv_plan *network;
  assert_int_equal(create(&like, &layer, NULL, &network), GCONV_OK);
  assert_int_equal(gconv_plan_output_header(network, 0)->height, 4); /* (9 + 1 - 3) / 2 + 1 */
  assert_int_equal(gconv_plan_layer_info(network, 0)->groups, 2);
  assert_null(gconv_plan_layer_info(network, 1));
  gconv_plan_free(network);
  layer.stride_y = layer.stride_x = 1;
  layer.padding = GCONV_LAYER_VALID;
  assert_int_equal(create(&like, &layer, NULL, &network), GCONV_OK);
  assert_int_equal(gconv_plan_output_header(network, 0)->height, 7);
  gconv_plan_free(network);
}

/* ---- Values ---- */

static void a_bank_of_one_channel_goes_over_each(void **state) {
  (void)state;
  gconv_bank bank = make_bank(2, 1, 1, 1); /* times 1 and times 2 */
  gconv_image in = make_header(2, 3, 1, 1), out = {0};
  gconv_layer layer = {.bank = &bank};
  gconv_plan *network;
  assert_int_equal(gconv_image_allocate(&in), GCONV_OK);
  for (int i = 0; i < 6; i++)
    ((float *)in.data)[i] = (float)(i + 1);
  assert_int_equal(create(&in, &layer, NULL, &network), GCONV_OK);
  assert_true(gconv_plan_layer_info(network, 0)->each);
  assert_int_equal(gconv_plan_execute(network, &in, &out, 1, NULL), GCONV_OK);
  assert_int_equal(out.channels, 6);
  for (int i = 0; i < 12; i++) /* channel c * K + k */
    assert_true(((float *)out.data)[i] == (float)((i / 2 + 1) * (i % 2 + 1)));
  gconv_plan_free(network);
  gconv_image_free(&in);
  gconv_image_free(&out);
}

static void alpha_is_left_out_unless_it_is_taken(void **state) {
  (void)state;
  gconv_bank three = make_bank(1, 3, 1, 1), four = make_bank(1, 4, 1, 1);
  gconv_image like = {.type = GCONV_U8, .frames = 1, .height = 2, .width = 2, .channels = 4, .alpha = true};
  gconv_layer layer = {.bank = &three};
  gconv_plan *network;
  assert_int_equal(create(&like, &layer, NULL, &network), GCONV_OK);
  assert_int_equal(gconv_plan_layer_info(network, 0)->channels, 3);
  gconv_plan_free(network);
  layer.bank = &four;
  assert_int_equal(create(&like, &layer, NULL, &network), GCONV_OK);
  assert_int_equal(gconv_plan_layer_info(network, 0)->channels, 4);
  gconv_plan_free(network);
}

/* ---- Refusals ---- */

static void refuse(gconv_status status, const char *fragment, const gconv_image *like, const gconv_layer *layer,
                   const gconv_network_options *options) {
  gconv_plan *network;
  assert_int_equal(create(like, layer, options, &network), status);
  assert_null(network);
  if (!strstr(gconv_last_error(), fragment))
    fail_msg("\"%s\" is not in: %s", fragment, gconv_last_error());
}

static void what_does_not_fit_is_refused(void **state) {
  (void)state;
  static const float numbers[] = {1, 0};
  gconv_bank bank = make_bank(4, 3, 3, 3);
  gconv_image like = make_header(1, 3, 5, 5), two = make_header(1, 2, 5, 5), none = make_header(0, 3, 5, 5);
  gconv_layer layer = {.bank = &bank};
  gconv_plan *network = NULL;
  assert_int_equal(gconv_plan_layers(device, &like, &layer, 0, NULL, 0, &network), GCONV_BAD_ARGUMENT);
  refuse(GCONV_BAD_ARGUMENT, "takes 3 channels", &two, &layer, NULL);
  refuse(GCONV_BAD_ARGUMENT, "0 frames", &none, &layer, NULL);
  refuse(GCONV_BAD_ARGUMENT, "has no bank", &like, &(gconv_layer){0}, NULL);
  refuse(GCONV_BAD_ARGUMENT, "leaves no output", &like,
         &(gconv_layer){.bank = &bank, .padding = GCONV_LAYER_VALID, .dilation_y = 3}, NULL);
  refuse(GCONV_BAD_ARGUMENT, "at least 1", &like, &(gconv_layer){.bank = &bank, .stride_y = -1}, NULL);
  refuse(GCONV_TOO_LARGE, "the limit is", &like, &(gconv_layer){.bank = &bank, .dilation_x = 1 << 30}, NULL);
  refuse(GCONV_BAD_ARGUMENT, "3 groups do not divide", &like, &(gconv_layer){.bank = &bank, .groups = 3}, NULL);
  refuse(GCONV_BAD_ARGUMENT, "2 means", &like, &layer, &(gconv_network_options){.mean = numbers, .mean_count = 2});
  refuse(GCONV_BAD_ARGUMENT, "above 0", &like, &layer, &(gconv_network_options){.std = numbers + 1, .std_count = 1});
  refuse(GCONV_BAD_ARGUMENT, "stack", &like, &layer, &(gconv_network_options){.combine = GCONV_COMBINE_STACK});
  refuse(GCONV_UNSUPPORTED, "no algorithm dirct", &like, &layer, &(gconv_network_options){.algorithm = "dirct"});
  refuse(GCONV_BAD_ARGUMENT, "no algorithm dirct", &like, &layer, &(gconv_network_options){.without = "dirct"});
}

static void images_of_other_shapes_are_refused(void **state) {
  (void)state;
  gconv_bank bank = make_bank(2, 3, 3, 3);
  gconv_image in = make_header(1, 3, 5, 5), other = make_header(1, 3, 5, 6), out = make_header(1, 2, 5, 6);
  gconv_layer layer = {.bank = &bank};
  gconv_plan *network;
  assert_int_equal(gconv_image_allocate(&in), GCONV_OK);
  assert_int_equal(gconv_image_allocate(&other), GCONV_OK);
  assert_int_equal(gconv_image_allocate(&out), GCONV_OK);
  memset(in.data, 0, 3 * in.plane_bytes);
  assert_int_equal(create(&in, &layer, NULL, &network), GCONV_OK);
  assert_true(gconv_plan_fits(network, &in) && !gconv_plan_fits(network, &other));
  assert_int_equal(gconv_plan_execute(network, &in, &out, 1, NULL), GCONV_BAD_ARGUMENT);
  gconv_image_free(&out);
  assert_int_equal(gconv_plan_execute(network, &other, &out, 1, NULL), GCONV_BAD_ARGUMENT);
  assert_null(out.data);
  assert_int_equal(gconv_plan_execute(network, &in, &out, 1, NULL), GCONV_OK);
  const void *kept = out.data;
  assert_int_equal(gconv_plan_execute(network, &in, &out, 1, NULL), GCONV_OK);
  assert_ptr_equal(out.data, kept);
  gconv_plan_free(network);
  gconv_image_free(&in);
  gconv_image_free(&other);
  gconv_image_free(&out);
}

/* Whatever the limit, what is done in parts has the same bits. */
static void a_small_workspace_divides_the_batch(void **state) {
  (void)state;
  const gconv_algorithm_info *info;
  gconv_bank bank = make_bank(8, 4, 3, 3);
  gconv_image in = make_header(7, 4, 12, 13), whole = {0}, parts = {0};
  gconv_layer layer = {.bank = &bank};
  assert_int_equal(gconv_image_allocate(&in), GCONV_OK);
  for (int i = 0; i < 7 * 4 * 12 * 13; i++)
    ((float *)in.data)[i] = (float)(i % 97) * 0.01F;
  for (size_t i = 0; (info = gconv_layer_algorithm_at(i)); i++) {
    if (strcmp(info->device, "cpu") != 0)
      continue;
    gconv_network_options options = {.algorithm = info->name};
    gconv_plan *network;
    if (create(&in, &layer, &options, &network) == GCONV_UNSUPPORTED)
      continue;
    assert_non_null(network);
    assert_int_equal(gconv_plan_execute(network, &in, &whole, 1, NULL), GCONV_OK);
    options.workspace_bytes =
        2 * gconv_plan_layer_info(network, 0)->workspace_bytes; /* of one of two threads: all or less */
    gconv_plan_free(network);
    for (; options.workspace_bytes > 0 && create(&in, &layer, &options, &network) == GCONV_OK;
         options.workspace_bytes /= 2) {
      assert_int_equal(gconv_plan_execute(network, &in, &parts, 1, NULL), GCONV_OK);
      if (info->exact)
        assert_memory_equal(whole.data, parts.data, 7 * 8 * whole.plane_bytes);
      gconv_plan_free(network);
    }
  }
  gconv_image_free(&in);
  gconv_image_free(&whole);
  gconv_image_free(&parts);
}

static void values_have_names(void **state) {
  (void)state;
  assert_string_equal(gconv_math_name(GCONV_MATH_TF32), "tf32");
  assert_null(gconv_math_name((gconv_math)9));
  assert_string_equal(gconv_activation_name(GCONV_ACTIVATION_RELU), "relu");
  assert_null(gconv_activation_name((gconv_activation)9));
  assert_string_equal(gconv_layer_kind_name(GCONV_LAYER_RESIDUAL), "residual");
  assert_null(gconv_layer_kind_name((gconv_layer_kind)99));
  assert_string_equal(gconv_combine_name(GCONV_COMBINE_ARGMAX), "argmax");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(outputs_are_where_padding_says),       cmocka_unit_test(geometry_of_the_bank_is_the_default),
      cmocka_unit_test(a_bank_of_one_channel_goes_over_each), cmocka_unit_test(alpha_is_left_out_unless_it_is_taken),
      cmocka_unit_test(what_does_not_fit_is_refused),         cmocka_unit_test(images_of_other_shapes_are_refused),
      cmocka_unit_test(a_small_workspace_divides_the_batch),  cmocka_unit_test(values_have_names),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}

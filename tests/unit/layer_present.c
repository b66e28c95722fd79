/* SPDX-License-Identifier: MIT */
/* What the outputs of a network are: pictures, mosaics, labels; some values by hand, and by rows the same as whole. */
#include "image/colour.h"
#include "operation/operation.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

enum { HEIGHT = 23, WIDTH = 17, CHANNELS = 3 };

static gconv_device *device;
static float weights[64];

static int open_device(void **state) {
  (void)state;
  for (int i = 0; i < 64; i++)
    weights[i] = (float)(i * 7 % 11 - 5) / 8;
  return gconv_device_open("cpu", 2, &device) == GCONV_OK ? 0 : -1;
}

static int close_device(void **state) {
  (void)state;
  gconv_device_close(device);
  return 0;
}

static gconv_image make_photo(int32_t frames, int32_t channels) {
  gconv_image photo = {.type = GCONV_U8, .frames = frames, .height = HEIGHT, .width = WIDTH, .channels = channels};
  assert_int_equal(gconv_image_allocate(&photo), GCONV_OK);
  for (size_t i = 0; i < (size_t)frames * photo.plane_bytes; i++)
    ((uint8_t *)photo.data)[i] = (uint8_t)(i * i % 251);
  return photo;
}

static gconv_plan *make_plan(const gconv_image *like, const gconv_bank *bank, const gconv_network_options *options,
                             int32_t rows) {
  gconv_layer layer = {.bank = bank};
  gconv_operation *operation = NULL;
  gconv_plan *plan = NULL;
  assert_int_equal(gconv_operation_network(&layer, 1, options, &operation), GCONV_OK);
  assert_int_equal(gconv_plan_create(device, like, operation, rows, &plan), GCONV_OK);
  assert_int_equal(gconv_operation_outputs(operation), gconv_plan_outputs(plan));
  gconv_operation_free(operation);
  return plan;
}

/* ---- By hand ---- */

/* Two pixels of one channel under filters of one weight: the map of filter k is v * w[k]. */
static void make_two(const gconv_bank *bank, const gconv_network_options *options, size_t count, gconv_image *outputs) {
  gconv_image in = {.type = GCONV_F32, .frames = 1, .height = 1, .width = 2, .channels = 1};
  assert_int_equal(gconv_image_allocate(&in), GCONV_OK);
  ((float *)in.data)[0] = 0.25F;
  ((float *)in.data)[1] = 0.5F;
  gconv_plan *plan = make_plan(&in, bank, options, 0);
  assert_int_equal(gconv_plan_outputs(plan), count);
  assert_int_equal(gconv_plan_execute(plan, &in, outputs, gconv_plan_outputs(plan), NULL), GCONV_OK);
  gconv_plan_free(plan);
  gconv_image_free(&in);
}

static void values_become_samples(void **state) {
  (void)state;
  float two[] = {1, -2};
  gconv_bank bank = {.filters = 2, .channels = 1, .rows = 1, .columns = 1, .weights = two};
  gconv_network_options options = {.presentation = GCONV_PRESENT_PICTURES, .tone = {.scale = 1, .type = GCONV_U8}};
  gconv_image out[2] = {{0}, {0}};
  make_two(&bank, &options, 2, out);
  assert_memory_equal(out[0].data, ((uint8_t[]){64, 128}), 2); /* 63.75; 127.5 to even */
  assert_memory_equal(out[1].data, ((uint8_t[]){0, 0}), 2);
  options.tone.range = GCONV_RANGE_ABS;
  make_two(&bank, &options, 2, out);
  assert_memory_equal(out[1].data, ((uint8_t[]){128, 255}), 2);
  options.tone.range = GCONV_RANGE_MINMAX;
  make_two(&bank, &options, 2, out);
  assert_memory_equal(out[0].data, ((uint8_t[]){0, 255}), 2);
  assert_memory_equal(out[1].data, ((uint8_t[]){255, 0}), 2);
  gconv_image_free(&out[0]);
  gconv_image_free(&out[1]);
}

static void tiles_lie_side_by_side(void **state) {
  (void)state;
  float two[] = {1, 2};
  gconv_bank bank = {.filters = 2, .channels = 1, .rows = 1, .columns = 1, .weights = two};
  gconv_network_options options = {.presentation = GCONV_PRESENT_MOSAIC, .tone = {.scale = 1, .type = GCONV_U8}};
  gconv_image out = {0};
  make_two(&bank, &options, 1, &out);
  assert_int_equal(out.height * 100 + out.width, 402); /* 1 + gap + 1 rows */
  for (int y = 0; y < 4; y++) {
    static const uint8_t rows[4][2] = {{64, 128}, {0, 0}, {0, 0}, {128, 255}};
    assert_memory_equal((uint8_t *)out.data + (size_t)y * out.row_bytes, rows[y], 2);
  }
  gconv_image_free(&out);
}

static void labels_have_colours(void **state) {
  (void)state;
  float three[] = {-1, 1, 0};
  gconv_bank bank = {.filters = 3, .channels = 1, .rows = 1, .columns = 1, .weights = three};
  gconv_network_options options = {
      .combine = GCONV_COMBINE_ARGMAX, .presentation = GCONV_PRESENT_LABELS, .tone = {.type = GCONV_U8}};
  gconv_image out = {0};
  make_two(&bank, &options, 1, &out);
  assert_memory_equal(out.data, ((uint8_t[]){0, 255, 0, 0, 255, 0}), 6); /* of filter 1 of 3: green */
  gconv_image_free(&out);
}

static void what_is_no_picture_is_refused(void **state) {
  (void)state;
  gconv_bank bank = {.filters = 2, .channels = 1, .rows = 1, .columns = 1, .weights = weights};
  gconv_image two = {.type = GCONV_U8, .frames = 1, .height = 4, .width = 4, .channels = 2};
  const gconv_network_options options[] = {
      {.presentation = GCONV_PRESENT_PICTURES},
      {.presentation = GCONV_PRESENT_COMBINED, .combine = GCONV_COMBINE_SUM},
  };
  for (size_t i = 0; i < 2; i++) {
    gconv_layer layer = {.bank = &bank};
    gconv_operation *operation = NULL;
    gconv_plan *plan = NULL;
    assert_int_equal(gconv_operation_network(&layer, 1, &options[i], &operation), GCONV_OK);
    assert_int_equal(gconv_plan_create(device, &two, operation, 0, &plan), GCONV_UNSUPPORTED);
    assert_non_null(strstr(gconv_last_error(), "write .npy"));
    gconv_operation_free(operation);
  }
}

static void grey_is_made_first(void **state) {
  (void)state;
  gconv_image photo = make_photo(1, CHANNELS), gray = {GCONV_F32, 1, photo.height, photo.width, .channels = 1},
              expected = {0}, out = {0};
  gconv_bank bank = {.filters = 2, .channels = 1, .rows = 3, .columns = 3, .weights = weights};
  gconv_network_options options = {0};
  assert_int_equal(gconv_image_allocate(&gray), GCONV_OK);
  for (int32_t y = 0; y < photo.height; y++)
    gconv_colour_grey_to_float_row(photo.type, CHANNELS, false, (uint8_t *)photo.data + (size_t)y * photo.row_bytes,
                                   (float *)gray.data + (size_t)y * (size_t)photo.width, (size_t)photo.width);
  gconv_plan *plan = make_plan(&gray, &bank, &options, 0);
  assert_int_equal(gconv_plan_execute(plan, &gray, &expected, 1, NULL), GCONV_OK);
  gconv_plan_free(plan);
  options.gray = true;
  plan = make_plan(&photo, &bank, &options, 0);
  assert_int_equal(gconv_plan_execute(plan, &photo, &out, 1, NULL), GCONV_OK);
  assert_true(gconv_image_same_shape(&out, &expected));
  assert_memory_equal(out.data, expected.data, 2 * out.plane_bytes);
  gconv_verification found;
  assert_int_equal(gconv_plan_verify(plan, &photo, &out, 1, -1, &found), GCONV_OK);
  gconv_plan_free(plan);
  gconv_image_free(&photo);
  gconv_image_free(&gray);
  gconv_image_free(&expected);
  gconv_image_free(&out);
}

/* ---- By rows ---- */

/* Rows `first` on of an output, in memory of their own; without pixels, for one that is left out. */
static gconv_image make_strip(const gconv_image *header, int32_t rows, bool wanted) {
  gconv_image strip = *header;
  strip.height = rows;
  if (wanted)
    assert_int_equal(gconv_image_allocate(&strip), GCONV_OK);
  return strip;
}

static void check_strip(const gconv_image *whole, const gconv_image *strip, int32_t first) {
  size_t bytes = (size_t)whole->width * (whole->planar ? 1 : (size_t)whole->channels) * gconv_type_bytes(whole->type);
  for (size_t plane = 0; plane < (whole->planar ? (size_t)whole->channels : 1); plane++)
    for (size_t y = 0; y < (size_t)strip->height; y++)
      assert_memory_equal((const uint8_t *)strip->data + plane * strip->plane_bytes + y * strip->row_bytes,
                          (const uint8_t *)whole->data + plane * whole->plane_bytes + ((size_t)first + y) * whole->row_bytes,
                          bytes);
}

/* A strip of a pass, from a window that has just the rows that are needed. */
static void run_strip(gconv_plan *plan, const gconv_image *photo, const gconv_image *wholes, const gconv_plan_pass *pass,
                      int32_t first) {
  enum { MOST = 8 };
  int32_t step = gconv_plan_row_step(plan), count = pass->end - first < step ? pass->end - first : step, begin, end;
  size_t outputs = gconv_plan_outputs(plan);
  gconv_image strips[MOST] = {{0}}, window = *photo;
  gconv_plan_rows_needed(plan, first, count, &begin, &end);
  window.height = end - begin;
  window.data = (uint8_t *)photo->data + (size_t)begin * photo->row_bytes;
  for (size_t i = 0; i < outputs && !pass->surveys; i++)
    strips[i] = make_strip(gconv_plan_output_header(plan, i), count, i != 1);
  assert_int_equal(gconv_plan_execute_rows(plan, &(gconv_input_rows){&window, begin}, first, pass->surveys ? NULL : strips,
                                           gconv_plan_outputs(plan), NULL),
                   GCONV_OK);
  for (size_t i = 0; i < outputs && !pass->surveys; i++) {
    if (strips[i].data)
      check_strip(&wholes[i], &strips[i], first);
    gconv_image_free(&strips[i]);
  }
}

/* Passes are begun before their rows are made, and there are no more than there are. */
static void check_passes(gconv_plan *plan, const gconv_image *photo) {
  gconv_plan_pass pass;
  gconv_image strip = make_strip(gconv_plan_output_header(plan, 0), 1, true);
  if (gconv_plan_passes(plan) > 1)
    assert_int_equal(gconv_plan_execute_rows(plan, &(gconv_input_rows){photo, 0}, 0, &strip, 1, NULL), GCONV_UNSUPPORTED);
  assert_int_equal(gconv_plan_begin_pass(plan, gconv_plan_passes(plan), &pass), GCONV_BAD_ARGUMENT);
  gconv_image_free(&strip);
}

static void check_rows(const gconv_image *photo, const gconv_bank *bank, const gconv_network_options *options,
                       int32_t rows) {
  enum { MOST = 8 };
  gconv_image wholes[MOST] = {{0}};
  gconv_plan *whole = make_plan(photo, bank, options, 0), *plan = make_plan(photo, bank, options, rows);
  assert_int_equal(gconv_plan_execute(whole, photo, wholes, gconv_plan_outputs(whole), NULL), GCONV_OK);
  int32_t made = 0;
  double done = 0; /* the part of the work */
  if (gconv_plan_outputs(plan) == 1)
    check_passes(plan, photo);
  for (size_t i = 0; i < gconv_plan_passes(plan); i++) {
    gconv_plan_pass pass;
    assert_int_equal(gconv_plan_begin_pass(plan, i, &pass), GCONV_OK);
    assert_int_equal(pass.surveys ? 0 : made, pass.first);
    assert_true(fabs(pass.before - done) < 1e-12);
    done = pass.after;
    for (int32_t first = pass.first; first < pass.end; first += gconv_plan_row_step(plan))
      run_strip(plan, photo, wholes, &pass, first);
    made = pass.surveys ? 0 : pass.end;
  }
  assert_int_equal(made, gconv_plan_output_header(plan, 0)->height);
  for (size_t i = 0; i < gconv_plan_outputs(plan); i++)
    gconv_image_free(&wholes[i]);
  gconv_plan_free(whole);
  gconv_plan_free(plan);
}

static void rows_have_the_bits_of_the_whole(void **state) {
  (void)state;
  gconv_image photo = make_photo(1, CHANNELS);
  gconv_bank bank = {.filters = 5, .channels = CHANNELS, .rows = 2, .columns = 2, .weights = weights};
  gconv_bank each = {.filters = 5, .channels = 1, .rows = 3, .columns = 3, .weights = weights};
  for (int tone = 0; tone < 4; tone++)
    for (int kind = 0; kind <= GCONV_PRESENT_LABELS; kind++)
      for (int32_t rows = 1; rows < HEIGHT + 4; rows += 5) {
        gconv_network_options options = {.algorithm = "direct", .presentation = (gconv_presentation)kind};
        options.tone = (gconv_tone){.scale = 2, .offset = 0.125, .fit = tone == 1, .type = (gconv_type)(tone % 3)};
        options.tone.range = tone == 2 ? GCONV_RANGE_MINMAX : tone == 3 ? GCONV_RANGE_SIGNED : GCONV_RANGE_CLAMP;
        options.combine = kind == GCONV_PRESENT_LABELS     ? GCONV_COMBINE_ARGMAX
                          : kind == GCONV_PRESENT_COMBINED ? GCONV_COMBINE_SUM
                                                           : GCONV_COMBINE_NONE;
        check_rows(&photo, &bank, &options, rows);
        check_rows(&photo, &each, &options, rows);
        options.gray = true;
        check_rows(&photo, &each, &options, rows);
      }
  gconv_image_free(&photo);
}

/* Then maps are made twice. Progress does not go back. */
static void rows_without_room_for_files(void **state) {
  (void)state;
  gconv_image photo = make_photo(1, CHANNELS);
  gconv_bank bank = {.filters = 5, .channels = CHANNELS, .rows = 2, .columns = 2, .weights = weights};
  gconv_network_options options = {
      .algorithm = "direct", .presentation = GCONV_PRESENT_PICTURES, .tone = {.scale = 1, .fit = true}};
  struct rlimit most;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &most), 0);
  const struct rlimit few = {100, most.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
  check_rows(&photo, &bank, &options, 6);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &most), 0);
  gconv_image_free(&photo);
}

/* ---- Frames ---- */

static void frames_are_presented_one_by_one(void **state) {
  (void)state;
  gconv_image photos = make_photo(3, CHANNELS), one = photos, all = {0}, alone = {0};
  gconv_bank bank = {.filters = 5, .channels = CHANNELS, .rows = 2, .columns = 2, .weights = weights};
  gconv_network_options options = {
      .algorithm = "direct", .presentation = GCONV_PRESENT_MOSAIC, .tone = {.scale = 1, .fit = true}};
  gconv_plan *plan = make_plan(&photos, &bank, &options, 0);
  assert_int_equal(gconv_plan_execute(plan, &photos, &all, 1, NULL), GCONV_OK);
  gconv_plan_free(plan);
  one.frames = 1;
  plan = make_plan(&one, &bank, &options, 0);
  for (size_t i = 0; i < 3; i++) {
    one.data = (uint8_t *)photos.data + i * photos.plane_bytes;
    assert_int_equal(gconv_plan_execute(plan, &one, &alone, 1, NULL), GCONV_OK);
    assert_memory_equal((uint8_t *)all.data + i * all.plane_bytes, alone.data, alone.plane_bytes);
  }
  gconv_plan_free(plan);
  gconv_image_free(&photos);
  gconv_image_free(&all);
  gconv_image_free(&alone);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_become_samples),       cmocka_unit_test(tiles_lie_side_by_side),
      cmocka_unit_test(labels_have_colours),         cmocka_unit_test(what_is_no_picture_is_refused),
      cmocka_unit_test(grey_is_made_first),          cmocka_unit_test(rows_have_the_bits_of_the_whole),
      cmocka_unit_test(rows_without_room_for_files), cmocka_unit_test(frames_are_presented_one_by_one),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}

/* SPDX-License-Identifier: MIT */
/* Choosing: whatever is switched off, the result of what remains is right; and what tuning makes of estimates. */
#include "bench/make_plan.h"
#include "conv/plan.h"
#include "operation/pick.h"
#include "operation/tuning.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static gconv_device *device;
static const char *device_name = "cpu";
static char folder[] = "/tmp/gconv-test.XXXXXX";

static int open_device(void **state) {
  (void)state;
  if (!mkdtemp(folder) || setenv("GCONV_CACHE", folder, 1) != 0)
    return -1;
  return gconv_device_open(device_name, 2, &device) == GCONV_OK ? 0 : -1;
}

static int close_device(void **state) {
  (void)state;
  char command[64];
  gconv_device_close(device);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

/* ---- Switching off ---- */

static gconv_image make_image(gconv_type type, int32_t channels, bool planar) {
  gconv_image image = {.type = type, .frames = 1, .height = 45, .width = 67, .channels = channels, .planar = planar};
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  uint32_t random = 1;
  for (int32_t i = 0; i < 45 * 67 * channels; i++) {
    random = random * 1664525u + 1013904223u;
    if (type == GCONV_U8)
      ((uint8_t *)image.data)[i] = (uint8_t)(random >> 24);
    else if (type == GCONV_U16)
      ((uint16_t *)image.data)[i] = (uint16_t)(random >> 16);
    else
      ((float *)image.data)[i] = (float)(random >> 8) * 0x1p-24f;
  }
  return image;
}

/* The plan's algorithm, after its result was held to float64; NULL if nothing is left that could do it. */
static const char *chosen_and_right(const gconv_image *image, const gconv_filters *filters, const char *algorithm,
                                    const char *without) {
  gconv_options options = gconv_options_default();
  options.combine = filters->count > 1 ? GCONV_COMBINE_MAGNITUDE : GCONV_COMBINE_NONE;
  options.algorithm = algorithm;
  options.without = without;
  gconv_plan *plan = NULL;
  gconv_status status = gconv_plan_filters(device, image, filters, &options, &plan);
  if (status == GCONV_UNSUPPORTED)
    return NULL;
  assert_int_equal(status, GCONV_OK);
  gconv_image output = {.data = NULL};
  gconv_verification found;
  status = gconv_plan_execute(plan, image, &output, 1, NULL);
  if (status == GCONV_OK)
    status = gconv_plan_verify(plan, image, &output, 1, -1, &found);
  if (status != GCONV_OK)
    fail_msg("%s, without %s: %s", gconv_plan_get_info(plan)->algorithm, without, gconv_last_error());
  const char *name = gconv_plan_get_info(plan)->algorithm;
  gconv_image_free(&output);
  gconv_plan_free(plan);
  return name;
}

/* Whether `name` is one of `names`, which have commas between. */
static bool is_among(const char *name, const char *names) {
  char word[64], list[520];
  snprintf(word, sizeof word, ",%s,", name);
  snprintf(list, sizeof list, ",%s,", names);
  return strstr(list, word) != NULL;
}

/* Switches off what is chosen until nothing is left: each algorithm that can do it comes up, and is right. */
static void exhaust(const gconv_image *image, const char *spec) {
  gconv_filters filters = {0};
  char without[512] = "";
  int rounds = 0;
  assert_int_equal(gconv_filters_read(spec, NULL, &filters), GCONV_OK);
  for (const char *name; (name = chosen_and_right(image, &filters, "auto", without)); rounds++) {
    assert_false(is_among(name, without));
    size_t used = strlen(without);
    snprintf(without + used, sizeof without - used, "%s%s", used ? "," : "", name);
  }
  assert_true(rounds >= 1);
  assert_true(strstr(gconv_last_error(), "some are switched off") || strstr(gconv_last_error(), "rounding may make"));
  const gconv_algorithm *row;
  for (size_t i = 0; (row = gconv_algorithm_row(i)); i++) /* which auto does not take */
    if (row->classic && strcmp(row->info.device, device->type->name) == 0)
      chosen_and_right(image, &filters, row->info.name, NULL);
  gconv_filters_free(&filters);
}

static void whatever_is_switched_off_the_rest_is_right(void **state) {
  (void)state;
  static const char *const specs[] = {
      "sharpen",       "gaussian:size=9,sigma=1.5", "motion:len=15,theta=45",
      "disk:radius=6", "gaussian:size=33,sigma=5",  "3x3: -1,0,1 -2,0,2 -1,0,1; 3x3: -1,-2,-1 0,0,0 1,2,1"};
  for (int type = GCONV_U8; type <= GCONV_F32; type++)
    for (int32_t channels = 1; channels <= 3; channels += 2)
      for (int planar = 0; planar <= channels / 3; planar++) {
        gconv_image image = make_image((gconv_type)type, channels, planar);
        for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
          exhaust(&image, specs[i]);
        gconv_image_free(&image);
      }
}

static void names_must_be_known(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U8, 1, false);
  gconv_filters filters = {0};
  gconv_options options = gconv_options_default();
  gconv_plan *plan = NULL;
  assert_int_equal(gconv_filters_read("sharpen", NULL, &filters), GCONV_OK);
  options.without = "direct,dirct";
  assert_int_equal(gconv_plan_filters(device, &image, &filters, &options, &plan), GCONV_BAD_ARGUMENT);
  assert_non_null(strstr(gconv_last_error(), "dirct"));
  gconv_filters_free(&filters);
  gconv_image_free(&image);
}

/* ---- Libraries ---- */

static int asked;
static const char *is_there(void) {
  asked++;
  return NULL;
}

/* The one that is picked of four: one that costs 5, a library that costs 1 and is there, one that costs 3, and a classic
 * that costs 1. */
static const char *pick(const char *wanted, const char *without) {
  static const gconv_algorithm_info infos[] = {
      {"plain", "cpu", "", true}, {"bought", "cpu", "", false}, {"other", "cpu", "", false}, {"classic", "cpu", "", true}};
  gconv_candidate candidates[] = {{.info = &infos[0]},
                                  {.info = &infos[1], .available = is_there, .library = true},
                                  {.info = &infos[2], .available = is_there},
                                  {.info = &infos[3], .classic = true}};
  FILE *reasons = fopen("/dev/null", "w");
  size_t picked = 4;
  gconv_candidate_price(&candidates[0], 5, 1, NULL);
  gconv_candidate_price(&candidates[1], 1, 1, NULL);
  gconv_candidate_price(&candidates[2], 2, 1.5, "somebody found");
  gconv_candidate_price(&candidates[3], 1, 1, NULL);
  gconv_status status = gconv_pick(candidates, 4, "cpu", wanted, without, reasons, &picked);
  fclose(reasons);
  return status == GCONV_OK ? infos[picked].name : NULL;
}

static void libraries_and_classics_are_asked_for_by_name(void **state) {
  (void)state;
  asked = 0;
  assert_string_equal(pick("auto", NULL), "other");
  assert_int_equal(asked, 1); /* not the library, which would be loaded */
  assert_string_equal(pick("auto", "other"), "plain");
  assert_null(pick("auto", "other,plain"));
  assert_string_equal(pick("bought", NULL), "bought");
  assert_string_equal(pick("classic", NULL), "classic");
}

/* ---- What choices may depend on ---- */

/* The device and what costs are made of, as a machine with so many threads would have them. */
static char *choices_with(int threads, const gconv_image *image, const gconv_filters *filters) {
  gconv_device *other = NULL;
  gconv_plan *plan = NULL;
  gconv_operation *operation = NULL;
  gconv_options options = gconv_options_default();
  assert_int_equal(gconv_device_open(device_name, threads, &other), GCONV_OK);
  assert_int_equal(gconv_operation_filters(filters, &options, &operation), GCONV_OK);
  assert_int_equal(gconv_plan_outline(other, image, operation, 0, &plan), GCONV_OK);
  char *text = NULL;
  assert_true(asprintf(&text, "%s\n%s", gconv_plan_get_info(plan)->algorithm, ((gconv_filter_plan *)plan)->reasons) > 0);
  gconv_plan_free(plan);
  gconv_operation_free(operation);
  gconv_device_close(other);
  return text;
}

/* All prices are equal, not just the choices: near where choices change, the least difference would show. */
static void threads_change_no_price(void **state) {
  (void)state;
  static const char *const specs[] = {"motion:len=25,theta=30", "disk:radius=3", "gaussian:size=9,sigma=1.5", "sharpen",
                                      "log:size=9,sigma=1.4"};
  static const int32_t sides[] = {40, 250, 1000};
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
    for (size_t side = 0; side < sizeof sides / sizeof *sides; side++) {
      gconv_filters filters = {0};
      gconv_image image = {.type = GCONV_U8, .frames = 1, .height = sides[side], .width = 400, .channels = 3};
      assert_int_equal(gconv_filters_read(specs[i], NULL, &filters), GCONV_OK);
      char *one = choices_with(1, &image, &filters);
      for (int threads = 2; threads <= 8; threads += 3) {
        char *several = choices_with(threads, &image, &filters);
        assert_string_equal(one, several);
        free(several);
      }
      free(one);
      gconv_filters_free(&filters);
    }
}

/* What auto takes for a layer of 8 filters of 3 x 3 x 3, and its price for an image, as text. */
static char *layer_choice(int threads, int32_t images, int32_t rows, bool any_batch) {
  float taps[8 * 3 * 9];
  for (size_t i = 0; i < sizeof taps / sizeof *taps; i++)
    taps[i] = (float)i * 0.01f - 1;
  gconv_bank bank = {.weights = taps, .filters = 8, .channels = 3, .rows = 3, .columns = 3};
  gconv_layer layer = {.bank = &bank};
  gconv_image like = {.type = GCONV_F32, .frames = images, .height = 61, .width = 47, .channels = 3, .planar = true};
  gconv_network_options options = {.any_batch = any_batch};
  gconv_device *other = NULL;
  gconv_plan *network = NULL;
  char *text = NULL;
  assert_int_equal(gconv_device_open(device_name, threads, &other), GCONV_OK);
  assert_int_equal(gconv_plan_layers(other, &like, &layer, 1, &options, rows, &network), GCONV_OK);
  const gconv_layer_info *info = gconv_plan_layer_info(network, 0);
  assert_true(asprintf(&text, "%s, %.6g ms", info->algorithm, info->estimate_ms / images) > 0);
  gconv_plan_free(network);
  gconv_device_close(other);
  return text;
}

/* How images are put together, and how many rows are made at a time, is no part of the question. */
static void batches_and_bands_change_no_price(void **state) {
  (void)state;
  char *one = layer_choice(1, 1, 0, true);
  for (int threads = 1; threads <= 8; threads += 7)
    for (int32_t images = 1; images <= 65; images += 16)
      for (int32_t rows = 0; rows <= 16; rows += 16) {
        char *other = layer_choice(threads, images, rows, true);
        assert_string_equal(one, other);
        free(other);
      }
  free(one);
}

/* Small dense layers of batches are not left to the definition, whose loops are 40 times as slow. */
static void small_dense_layers_are_no_reference(void **state) {
  (void)state;
  static const float taps[64 * 64] = {0.5f};
  for (int32_t width = 1; width <= 64; width += 21)
    for (int any_batch = 0; any_batch < 2; any_batch++) {
      gconv_bank bank = {.weights = (float *)taps, .filters = width, .channels = width, .rows = 1, .columns = 1};
      gconv_layer layer = {.bank = &bank};
      gconv_image like = {.type = GCONV_F32, .frames = 1024, .height = 1, .width = 1, .channels = width, .planar = true};
      gconv_network_options options = {.any_batch = any_batch};
      gconv_plan *network = NULL;
      assert_int_equal(gconv_plan_layers(device, &like, &layer, 1, &options, 0, &network), GCONV_OK);
      assert_string_not_equal(gconv_plan_layer_info(network, 0)->algorithm, "reference");
      gconv_plan_free(network);
    }
}

/* ---- Tuning ---- */

static char head[512]; /* the lines that a file of this device begins with */

static void make_head(void) {
  const gconv_device_info *info = gconv_device_get_info(device);
  snprintf(head, sizeof head, "gconv %s\ndevice %.*s\ndriver %s\nmachine 1e8 1e7 0.01\n", gconv_version(),
           (int)(strrchr(info->description, ',') - info->description), info->description, info->driver);
}

/* Reads head and `rest`; NULL if it is taken, else why not. */
static const char *refusal(const char *text, const char *rest, gconv_tuning *tuning) {
  char whole[1024];
  const char *why = NULL;
  snprintf(whole, sizeof whole, "%s%s", text, rest);
  return gconv_tuning_parse(device, whole, tuning, &why) ? NULL : why;
}

static void broken_files_are_refused(void **state) {
  (void)state;
  static const char *const broken[] = {
      "ratio direct u8 1 100 9\n",
      "ratio direct u8 1 100 9 0\n",
      "ratio direct u8 1 100 9 nan\n",
      "ratio direct u9 1 100 9 1\n",
      "ratio direct u8 5 100 9 1\n",
      "ratio direct u8 1 -1 9 1\n",
      "ratio direct u8 1 100 9 1 1\n",
      "ration direct u8 1 100 9 1\n",
      "machine 1 2\n",
      "machine -1 1e7 1\n",
      "ratio direct u8 1 100 inf 1\n",
      "ratio\n",
  };
  gconv_tuning tuning;
  make_head();
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    const char *why = refusal(head, broken[i], &tuning);
    if (!why)
      fail_msg("taken: %s", broken[i]);
    assert_string_equal(why, "it is broken");
  }
  assert_non_null(refusal("", "", &tuning));
  assert_non_null(refusal("", "ratio direct u8 1 100 9 1\n", &tuning));
  assert_string_equal(refusal("gconv 0.0.0\n", "", &tuning), "it was made by another version of gconv");
  char text[700];
  snprintf(text, sizeof text, "gconv %s\ndevice something else\n", gconv_version());
  assert_string_equal(refusal(text, "", &tuning), "it is of another device");
  snprintf(text, sizeof text, "driver other\n%s", head);
  assert_string_equal(refusal(text, "", &tuning), "it is of another driver");
  snprintf(text, sizeof text, "device %s\n%s", gconv_device_get_info(device)->description, head);
  assert_string_equal(refusal(text, "", &tuning), "it is of another device"); /* not just of its kind */
}

static void whole_files_are_taken(void **state) {
  (void)state;
  gconv_tuning tuning, again;
  make_head();
  const char *rest = "# for people\n\nratio nosuch u8 1 100 9 1.5\nratio direct u16 3 1000 25 1.25\n";
  assert_null(refusal(head, rest, &tuning));
  assert_int_equal(tuning.count, 2);
  assert_string_equal(tuning.rows[1].algorithm, "direct");
  assert_int_equal(tuning.rows[1].type, GCONV_U16);
  assert_true(tuning.machine.fma_per_ms == 1e8 && tuning.rows[1].ratio == 1.25);
  char *text = gconv_tuning_print(device, &tuning);
  assert_null(refusal(text, "", &again));
  assert_int_equal(again.count, 2);
  assert_true(again.rows[1].ratio == 1.25 && again.rows[1].taps == 25 && again.machine.launch_ms == 0.01);
  free(text);
  gconv_tuning_free(&again);
  gconv_tuning_free(&tuning);
}

/* Of any device. */
static const gconv_algorithm *row_of(const char *name) {
  const gconv_algorithm *row = NULL;
  for (size_t i = 0; (row = gconv_algorithm_row(i)) && strcmp(row->info.name, name) != 0;)
    i++;
  return row;
}

static double ratio_of(const gconv_tuning *tuning, gconv_type type, int32_t side, int32_t size) {
  gconv_problem problem = {.in_type = type,
                           .images = 1,
                           .planes = 1,
                           .channels = 1,
                           .filters = 1,
                           .rows = size,
                           .columns = size,
                           .out_height = side,
                           .out_width = side};
  return gconv_problem_ratio(&problem, tuning, row_of("direct"));
}

static void ratios_are_interpolated(void **state) {
  (void)state;
  gconv_tuning_row rows[] = {{"direct", GCONV_U8, 1, 100, 1, 1, false},    {"direct", GCONV_U8, 1, 100, 81, 4, false},
                             {"direct", GCONV_U8, 1, 10000, 1, 1, false},  {"direct", GCONV_U8, 1, 10000, 81, 16, false},
                             {"direct", GCONV_F32, 1, 100, 9, 0.5, false}, {"sparse", GCONV_U16, 1, 100, 9, 3, false}};
  gconv_tuning tuning = {.rows = rows, .count = 6};
  assert_true(ratio_of(NULL, GCONV_U8, 10, 3) == 1);
  assert_true(ratio_of(&tuning, GCONV_U16, 10, 3) == 1); /* of another algorithm */
  assert_true(fabs(ratio_of(&tuning, GCONV_U8, 10, 9) - 4) < 1e-9);
  assert_true(fabs(ratio_of(&tuning, GCONV_U8, 10, 3) - 2) < 1e-9); /* 9 taps: half-way from 1 to 81 */
  assert_true(fabs(ratio_of(&tuning, GCONV_U8, 100, 3) - 4) < 1e-9);
  assert_true(fabs(ratio_of(&tuning, GCONV_U8, 1000, 63) - 16) < 1e-9); /* beyond what was measured */
  assert_true(fabs(ratio_of(&tuning, GCONV_U8, 1, 1) - 1) < 1e-9);
  gconv_tuning_row middle = {"direct", GCONV_U8, 1, 1000, 1, 1, false};
  rows[2] = middle; /* sides of a size may be missing */
  assert_true(fabs(ratio_of(&tuning, GCONV_U8, 100, 1) - 16) < 1e-9);
  assert_true(fabs(ratio_of(&tuning, GCONV_F32, 500, 63) - 0.5) < 1e-9);
}

/* Zeros do not count for sparse, nor filters that are combined for the number of samples. */
static void ratios_are_of_the_work(void **state) {
  (void)state;
  gconv_tuning_row rows[] = {{"sparse", GCONV_U8, 1, 100, 9, 2, false},
                             {"sparse", GCONV_U8, 1, 100, 81, 8, false},
                             {"direct", GCONV_U8, 1, 100, 9, 2, false},
                             {"direct", GCONV_U8, 1, 200, 9, 4, false}};
  gconv_tuning tuning = {.rows = rows, .count = 4};
  gconv_problem problem = {
      .in_type = GCONV_U8, .images = 1, .planes = 1, .channels = 1, .filters = 2, .rows = 9, .columns = 9};
  problem.out_height = problem.out_width = 10;
  problem.structure.nonzero_taps = 18;
  assert_true(fabs(gconv_problem_ratio(&problem, &tuning, row_of("sparse")) - 2) < 1e-9);
  assert_true(fabs(gconv_problem_ratio(&problem, &tuning, row_of("direct")) - 4) < 1e-9);
  problem.epilogue.combine = GCONV_COMBINE_MAGNITUDE;
  assert_true(fabs(gconv_problem_ratio(&problem, &tuning, row_of("direct")) - 2) < 1e-9);
}

static const gconv_algorithm *leave_large_ones(const gconv_problem *problem) {
  return problem->rows > 3 ? row_of("direct") : NULL;
}

/* What an algorithm leaves to another one takes as long as with that one. */
static void ratios_are_of_who_does_the_work(void **state) {
  (void)state;
  gconv_tuning_row rows[] = {{"direct", GCONV_U8, 1, 100, 9, 4, false}, {"patches", GCONV_U8, 1, 100, 9, 2, false}};
  gconv_tuning tuning = {.rows = rows, .count = 2};
  const gconv_algorithm patches = {.info = {.name = "patches"}, .leaves_to = leave_large_ones};
  gconv_problem problem = {
      .in_type = GCONV_U8, .images = 1, .planes = 1, .channels = 1, .filters = 1, .rows = 3, .columns = 3};
  problem.out_height = problem.out_width = 10;
  assert_true(fabs(gconv_problem_ratio(&problem, &tuning, &patches) - 2) < 1e-9);
  problem.rows = problem.columns = 5;
  assert_true(fabs(gconv_problem_ratio(&problem, &tuning, &patches) - 4) < 1e-9);
}

static void tuning_changes_the_choice_and_is_remembered(void **state) {
  (void)state;
  gconv_image image = make_image(GCONV_U8, 1, false);
  gconv_filters filters = {0};
  assert_int_equal(gconv_filters_read("sharpen", NULL, &filters), GCONV_OK);
  const char *first = chosen_and_right(&image, &filters, "auto", "");
  gconv_tuning_row row = {"", GCONV_U8, 1, 3000, 9, 500, false};
  snprintf(row.algorithm, sizeof row.algorithm, "%s", first);
  gconv_tuning tuning = {.machine = *gconv_device_get_machine(device), .rows = &row, .count = 1};
  assert_int_equal(gconv_device_set_tuning(device, &tuning), GCONV_OK);
  assert_string_not_equal(chosen_and_right(&image, &filters, "auto", ""), first);
  assert_int_equal(gconv_device_remember_tuning(device), GCONV_OK);
  gconv_device *other = NULL;
  assert_int_equal(gconv_device_open(device_name, 2, &other), GCONV_OK);
  assert_non_null(gconv_device_get_tuning(other));
  assert_int_equal(gconv_device_get_tuning(other)->count, 1);
  gconv_device_close(other);
  assert_int_equal(gconv_device_set_tuning(device, NULL), GCONV_OK);
  assert_int_equal(gconv_device_remember_tuning(device), GCONV_OK);
  assert_string_equal(chosen_and_right(&image, &filters, "auto", ""), first);
  assert_int_equal(gconv_device_open(device_name, 2, &other), GCONV_OK);
  assert_null(gconv_device_get_tuning(other));
  gconv_device_close(other);
  gconv_filters_free(&filters);
  gconv_image_free(&image);
}

int main(int count, char **words) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whatever_is_switched_off_the_rest_is_right),
      cmocka_unit_test(names_must_be_known),
      cmocka_unit_test(libraries_and_classics_are_asked_for_by_name),
      cmocka_unit_test(threads_change_no_price),
      cmocka_unit_test(batches_and_bands_change_no_price),
      cmocka_unit_test(small_dense_layers_are_no_reference),
      cmocka_unit_test(broken_files_are_refused),
      cmocka_unit_test(whole_files_are_taken),
      cmocka_unit_test(ratios_are_interpolated),
      cmocka_unit_test(ratios_are_of_the_work),
      cmocka_unit_test(ratios_are_of_who_does_the_work),
      cmocka_unit_test(tuning_changes_the_choice_and_is_remembered),
  };
  if (count > 1)
    device_name = words[1];
  gconv_device_info info;
  bool usable = false;
  for (size_t i = 0; gconv_device_at(i, &info); i++)
    usable |= info.usable && strncmp(info.name, device_name, strlen(device_name)) == 0;
  if (!usable)
    return 77; /* skipped */
  return cmocka_run_group_tests_name("choose", tests, open_device, close_device);
}

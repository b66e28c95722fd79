/* SPDX-License-Identifier: MIT */
/* Choosing the device by the job: the arithmetic, and what is remembered of starting CUDA. */
#include "conv/device.h"
#include "conv/device_choose.h"
#include "conv/habits.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char folder[] = "/tmp/gconv-test.XXXXXX";

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) && setenv("GCONV_CACHE", folder, 1) == 0 ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

/* One image that is decoded in `hidden` ms. */
static bool pays(double start, double hidden, double gpu, double cpu) {
  gconv_device_choice choice = {.start_ms = start, .end_ms = start / 2, .gpu_ms = gpu, .cpu_ms = cpu};
  gconv_job job = {.images = 1, .hidden_ms = hidden, .host_ms = 1e6};
  return gconv_gpu_pays(&choice, &job);
}

static void a_gpu_pays_where_the_whole_job_is_sooner_done(void **state) {
  (void)state;
  assert_false(pays(280, 20, 1, 20));   /* one photo */
  assert_true(pays(280, 20, 60, 2000)); /* a large filter */
  assert_false(pays(280, 20, 60, 459)); /* 260 + 60 + 140 */
  assert_true(pays(280, 20, 60, 461));  /* likewise */
  assert_true(pays(280, 500, 2, 150));  /* it starts while a large image is decoded */
  assert_false(pays(280, 500, 5, 2));   /* but then has to be faster, and to end */
  assert_false(pays(300, 0, 1e9, 1e9));
}

static void what_several_images_take_is_hidden_by_the_others(void **state) {
  (void)state;
  gconv_device_choice choice = {.start_ms = 200, .end_ms = 100, .gpu_ms = 400, .cpu_ms = 320};
  gconv_job job = {.images = 40, .hidden_ms = 20, .host_ms = 1000};
  assert_true(gconv_gpu_pays(&choice, &job)); /* 180 + 10 + 100 */
  job.host_ms = 390;
  assert_true(gconv_gpu_pays(&choice, &job));
  job.host_ms = 300; /* 180 + 100 + 100 */
  assert_false(gconv_gpu_pays(&choice, &job));
}

static void what_a_gpu_spares_the_host_counts(void **state) {
  (void)state;
  gconv_device_choice choice = {.start_ms = 200, .end_ms = 100, .gpu_ms = 400, .cpu_ms = 200};
  gconv_job job = {.images = 40, .hidden_ms = 20, .host_ms = 600};
  assert_false(gconv_gpu_pays(&choice, &job)); /* 180 + 10 + 100 */
  job.spared_ms = 89;
  assert_false(gconv_gpu_pays(&choice, &job)); /* 290 for 289 */
  job.spared_ms = 91;
  assert_true(gconv_gpu_pays(&choice, &job));
  job.spared_ms = 400; /* 180 + 200 + 100 for 600: the GPU is the slower one */
  assert_true(gconv_gpu_pays(&choice, &job));
  choice.gpu_ms = 600; /* 180 + 400 + 100 for 600 */
  assert_false(gconv_gpu_pays(&choice, &job));
}

/* Photos of 9 ms each by the CPU, of which a GPU spares 3.5, and its decoder 3.2 more. */
static gconv_job photos(double count) {
  return (gconv_job){.images = (size_t)count,
                     .hidden_ms = 60,
                     .host_ms = 8 * count,
                     .spared_ms = 3.5 * count,
                     .decoding_ms = 3.2 * count,
                     .jpeg_bytes = 3.6e6 * count,
                     .cpu_begins = true};
}

static gconv_device_choice prices(double count) {
  return (gconv_device_choice){
      .start_ms = 150, .end_ms = 75, .decoder_ms = 600, .cpu_ms = count, .gpu_ms = 0.5 * count, .decodes = true};
}

static void the_cpu_does_what_it_can_until_a_gpu_is_ready(void **state) {
  (void)state;
  const struct {
    double count;
    bool pays, decodes;
  } cases[] = {{17, false, false}, /* 153: done when the GPU has started */
               {25, false, false}, /* 150 + (1 - 150 / 225) * 112 + 75 for 225 */
               {60, true, false},  /* 150 + (1 - 150 / 540) * 270 + 75 for 540 */
               {150, true, false}, /* 750 + (1 - 750 / 1350) * 300 + 195 = 1078, for 825 without the decoder */
               {400, true, true}}; /* 750 + (1 - 750 / 3600) * 800 + 195 = 1578, for 1950 */
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    gconv_device_choice choice = prices(cases[i].count);
    gconv_job job = photos(cases[i].count);
    assert_int_equal(gconv_gpu_pays(&choice, &job), cases[i].pays);
    if (cases[i].pays)
      assert_int_equal(choice.decodes, cases[i].decodes);
    job.decoding_ms = 0;
    gconv_gpu_pays(&choice, &job);
    assert_false(choice.decodes);
  }
}

static void a_decoder_may_pay_where_all_wait_for_the_gpu(void **state) {
  (void)state;
  gconv_device_choice choice = prices(400);
  gconv_job job = photos(400);
  job.cpu_begins = false; /* 90 + 600 + (1 - 600 / 1800) * 800 + 195 = 1418 for 90 + 1800 + 75 */
  assert_true(gconv_gpu_pays(&choice, &job) && choice.decodes);
  job.jpeg_bytes *= 3; /* which its engines take 2400 ms */
  assert_true(gconv_gpu_pays(&choice, &job) && !choice.decodes);
}

static void expect(const char *text, const char *key, double expected) {
  double found = -1;
  assert_int_equal(gconv_habit_find(text, key, &found), expected > 0);
  if (expected > 0)
    assert_true(found == expected);
}

static void a_line_is_found_by_its_whole_key(void **state) {
  (void)state;
  const char *text = "280.5\tbox driver 1\n190\tbox driver 12\n";
  expect(text, "box driver 1", 280.5);
  expect(text, "box driver 12", 190);
  expect(text, "box driver", 0);
  expect(text, "other", 0);
  expect("", "box", 0);
}

static void what_makes_no_sense_is_not_found(void **state) {
  (void)state;
  const char *const texts[] = {"x\tbox\n",   "\tbox\n",    "280 box\n", "-3\tbox\n", "0\tbox\n", "nan\tbox\n",
                               "inf\tbox\n", "1e9\tbox\n", "280\t\n",   "280",       "\n\n\n",   " 5\tbox\n"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    expect(texts[i], "box", 0);
  expect("garbage\n\n\x01\xff\n250\tbox", "box", 250);
}

static void expect_replaced(const char *text, const char *expected) {
  char *replaced = gconv_habit_replace(text, "box", 200);
  assert_string_equal(replaced, expected);
  free(replaced);
}

static void a_line_is_replaced_and_others_are_kept(void **state) {
  (void)state;
  expect_replaced(NULL, "200\tbox\n");
  expect_replaced("", "200\tbox\n");
  expect_replaced("100\tbox\n300\tother\n", "200\tbox\n300\tother\n");
  expect_replaced("nonsense\n300\tother", "200\tbox\n300\tother\n");
}

static void lines_do_not_become_ever_more(void **state) {
  (void)state;
  char *text = NULL, key[16];
  for (int i = 0; i < 40; i++) {
    snprintf(key, sizeof key, "box %d", i);
    char *next = gconv_habit_replace(text, key, 100 + i);
    free(text);
    text = next;
  }
  expect(text, "box 39", 139);
  expect(text, "box 24", 124);
  expect(text, "box 23", 0);
  free(text);
}

static void a_start_is_remembered_and_calmed(void **state) {
  (void)state;
  double ms = 0;
  assert_false(gconv_habit_recall(GCONV_CUDA_START, &ms));
  assert_true(ms == 300);
  gconv_habit_remember(GCONV_CUDA_START, 200);
  assert_true(gconv_habit_recall(GCONV_CUDA_START, &ms));
  assert_true(ms == 200);
  gconv_habit_remember(GCONV_CUDA_START, 400);
  assert_true(gconv_habit_recall(GCONV_CUDA_START, &ms));
  assert_true(ms == 300);
  assert_false(gconv_habit_recall(GCONV_HOST_PACE, &ms)); /* a file each */
  assert_true(ms == 1);
  gconv_habit_remember(GCONV_HOST_PACE, 1.25);
  assert_true(gconv_habit_recall(GCONV_HOST_PACE, &ms) && ms == 1.25);
  setenv("GCONV_CACHE", "", 1);
  gconv_habit_remember(GCONV_CUDA_START, 5);
  assert_false(gconv_habit_recall(GCONV_CUDA_START, &ms));
  assert_true(ms == 300);
  setenv("GCONV_CACHE", folder, 1);
}

/* What the choice comes to depends on the machine; that it can be made does not. */
static void a_choice_is_made_on_any_machine(void **state) {
  (void)state;
  gconv_device *cpu = NULL;
  assert_int_equal(gconv_device_open("cpu", 2, &cpu), GCONV_OK);
  gconv_filters filters = {0};
  assert_int_equal(gconv_filters_read("gaussian:size=9,sigma=2", NULL, &filters), GCONV_OK);
  gconv_options options = gconv_options_default();
  gconv_image likes[3];
  for (int i = 0; i < 3; i++)
    likes[i] = (gconv_image){.type = GCONV_U8, .frames = 1, .height = 100 + i / 2, .width = 80, .channels = 3};
  gconv_job job = {.likes = likes, .like_count = 3, .images = 3, .filters = &filters, .options = &options};
  gconv_device_choice choice;
  assert_int_equal(gconv_device_choose(cpu, &job, &choice), GCONV_OK);
  if (choice.reason[0]) { /* with a GPU */
    assert_string_equal(choice.name, "cpu");
    double once = choice.cpu_ms;
    job.images = 3000;
    assert_int_equal(gconv_device_choose(cpu, &job, &choice), GCONV_OK);
    assert_true(choice.cpu_ms > 900 * once && choice.cpu_ms < 1100 * once);
  } else { /* nobody has to open a device to know that */
    assert_string_equal(choice.name, "cpu");
  }
  job.like_count = 0;
  const char *there = choice.reason[0] ? "auto" : "cpu";
  assert_int_equal(gconv_device_choose(cpu, &job, &choice), GCONV_OK);
  assert_string_equal(choice.name, there);
  gconv_filters_free(&filters);
  gconv_device_close(cpu);
}

static void what_tuning_found_counts(void **state) {
  (void)state;
  gconv_device *cpu = NULL;
  assert_int_equal(gconv_device_open("cpu", 2, &cpu), GCONV_OK);
  gconv_filters filters = {0};
  assert_int_equal(gconv_filters_read("sobel_x", NULL, &filters), GCONV_OK);
  gconv_options options = gconv_options_default();
  options.algorithm = "direct";
  gconv_image like = {.type = GCONV_U8, .frames = 1, .height = 100, .width = 80, .channels = 3};
  gconv_job job = {.likes = &like, .like_count = 1, .images = 4, .filters = &filters, .options = &options};
  gconv_device_choice before = {.name = "auto"}, after = {.name = "auto"};
  assert_int_equal(gconv_job_estimate(cpu, &job, &before), GCONV_OK);
  gconv_tuning_row row = {"direct", GCONV_U8, 3, 24000, 9, 8, false};
  gconv_tuning tuning = {.machine = *gconv_device_get_machine(cpu), .rows = &row, .count = 1};
  assert_int_equal(gconv_device_set_tuning(cpu, &tuning), GCONV_OK);
  assert_int_equal(gconv_job_estimate(cpu, &job, &after), GCONV_OK);
  assert_true(before.cpu_ms > 0 && fabs(after.cpu_ms / before.cpu_ms - 8) < 1e-9);
  assert_true(after.gpu_ms == before.gpu_ms);
  gconv_filters_free(&filters);
  gconv_device_close(cpu);
}

static void many_threads_are_worth_less_than_their_number(void **state) {
  (void)state;
  assert_true(gconv_threads_worth(1) == 1 && gconv_threads_worth(4) == 4);
  assert_true(gconv_threads_worth(8) > 6 && gconv_threads_worth(8) < 7);
  assert_true(gconv_threads_worth(16) > 11 && gconv_threads_worth(16) < 13);
  gconv_device *cpu = NULL;
  assert_int_equal(gconv_device_open("cpu", 0, &cpu), GCONV_OK);
  const gconv_machine *machine = gconv_device_get_machine(cpu);
  assert_true(fabs(machine->bytes_per_ms / gconv_threads_worth((int)fmin(machine->units, 16)) - 1.2e7) < 1);
  gconv_device_close(cpu);
}

static void a_device_opens_in_two_steps(void **state) {
  (void)state;
  gconv_device_opening *opening = NULL;
  gconv_device *device = NULL;
  assert_int_equal(gconv_device_open_begin("cpu", 2, &opening), GCONV_OK);
  assert_int_equal(gconv_device_open_end(opening, &device), GCONV_OK);
  assert_string_equal(gconv_device_get_info(device)->name, "cpu");
  gconv_device_close(device);
  device = NULL;
  assert_int_equal(gconv_device_open_begin("tpu", 2, &opening), GCONV_OK);
  assert_int_equal(gconv_device_open_end(opening, &device), GCONV_BAD_ARGUMENT);
  assert_non_null(strstr(gconv_last_error(), "tpu"));
  assert_null(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_gpu_pays_where_the_whole_job_is_sooner_done),
      cmocka_unit_test(what_several_images_take_is_hidden_by_the_others),
      cmocka_unit_test(what_a_gpu_spares_the_host_counts),
      cmocka_unit_test(the_cpu_does_what_it_can_until_a_gpu_is_ready),
      cmocka_unit_test(a_decoder_may_pay_where_all_wait_for_the_gpu),
      cmocka_unit_test(a_line_is_found_by_its_whole_key),
      cmocka_unit_test(what_makes_no_sense_is_not_found),
      cmocka_unit_test(a_line_is_replaced_and_others_are_kept),
      cmocka_unit_test(lines_do_not_become_ever_more),
      cmocka_unit_test(a_start_is_remembered_and_calmed),
      cmocka_unit_test(a_choice_is_made_on_any_machine),
      cmocka_unit_test(what_tuning_found_counts),
      cmocka_unit_test(many_threads_are_worth_less_than_their_number),
      cmocka_unit_test(a_device_opens_in_two_steps),
  };
  return cmocka_run_group_tests_name("conv/device choice", tests, make_folder, remove_folder);
}

/* SPDX-License-Identifier: MIT */
/* The library in a thread whose stack is smaller than any C library makes them: nothing large lies there. */
#include "bench/make_plan.h"
#include "gconv.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { STACK_BYTES = 96 << 10 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

static char failure[512]; /* the first; cmocka's assertions are for its own thread */

static void need(const char *what, gconv_status status) {
  if (status != GCONV_OK && !failure[0])
    snprintf(failure, sizeof failure, "%.100s: %.300s", what, gconv_last_error());
}

static void *run_in_thread(void *argument) {
  void (*test)(void);
  memcpy(&test, argument, sizeof test);
  test();
  return NULL;
}

static void run_on_small_stack(void (*test)(void)) {
  pthread_attr_t attributes;
  pthread_t thread;
  if (SANITIZED)
    skip();
  assert_int_equal(pthread_attr_init(&attributes), 0);
  assert_int_equal(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
  assert_int_equal(pthread_create(&thread, &attributes, run_in_thread, &test), 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  assert_string_equal(failure, "");
}

static gconv_image make_photo(void) {
  gconv_image image = {.type = GCONV_U8, .frames = 1, .height = 150, .width = 200, .channels = 3};
  need("photo", gconv_image_allocate(&image));
  for (size_t i = 0; i < image.plane_bytes; i++)
    ((uint8_t *)image.data)[i] = (uint8_t)(i * i >> 7);
  return image;
}

/* ---- Algorithms ---- */

static void filter(gconv_device *device, const char *algorithm, const char *spec) {
  gconv_image photo = make_photo(), result = {0};
  gconv_filters filters = {0};
  gconv_options options = gconv_options_default();
  gconv_plan *plan = NULL;
  options.algorithm = algorithm;
  need(spec, gconv_filters_read(spec, NULL, &filters));
  gconv_status status = gconv_plan_filters(device, &photo, &filters, &options, &plan);
  need(algorithm, status);
  if (status == GCONV_OK)
    need(algorithm, gconv_plan_execute(plan, &photo, &result, 1, NULL));
  gconv_plan_free(plan);
  gconv_filters_free(&filters);
  gconv_image_free(&photo);
  gconv_image_free(&result);
}

static void use_all_algorithms(void) {
  gconv_device *device = NULL;
  const gconv_algorithm_info *info;
  need("cpu", gconv_device_open("cpu", 1, &device));
  for (size_t i = 0; (info = gconv_algorithm_at(i)); i++)
    if (strcmp(info->device, "cpu") == 0) {
      bool box = strcmp(info->name, "box") == 0, integer = strcmp(info->name, "integer") == 0;
      filter(device, info->name, box ? "box:size=5" : integer ? "binomial:size=5" : "gaussian:size=5,sigma=1");
      if (strcmp(info->name, "reference") != 0 && !integer)
        filter(device, info->name, box ? "box:size=201" : "gaussian:size=201,sigma=30");
    }
  gconv_device_close(device);
}

static void test_algorithms(void **state) {
  (void)state;
  run_on_small_stack(use_all_algorithms);
}

/* ---- Formats ---- */

static void use_all_formats(void) {
  gconv_image photo = make_photo();
  const gconv_format_info *format;
  for (size_t i = 0; (format = gconv_format_at(i)); i++) {
    char path[64];
    gconv_image back = {0};
    gconv_write_options options = {.format = format, .threads = 1};
    snprintf(path, sizeof path, "/tmp/gconv-stack-%d.%s", (int)getpid(), format->name);
    if (gconv_format_check(format, &photo) != GCONV_OK)
      continue;
    need(format->name, gconv_image_write(path, &options, &photo));
    need(format->name, gconv_image_read(path, NULL, &back));
    unlink(path);
    gconv_image_free(&back);
  }
  gconv_image_free(&photo);
}

static void test_formats(void **state) {
  (void)state;
  run_on_small_stack(use_all_formats);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_algorithms), cmocka_unit_test(test_formats)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Features of pixels alone, without a classifier: writes them, or measures how fast they are made.
 *
 * usage: bench_features IMAGE FEATURES OUTPUT.npy [CHANNELS [THREADS]]      the features as a file
 *        bench_features IMAGE MODEL RUNS                                    the same of maps of classes
 *        bench_features IMAGE FEATURES RUNS [CHANNELS [THREADS]]            millions of pixels a second, the best of RUNS
 *
 * CHANNELS as for gconv_operation_features(). ROWS in the environment: the features are made of so many rows at a time.
 * DEVICE in the environment: "cuda" in place of "cpu"; then only the time of the kernels counts, without transfers.
 */
#include "gconv_classify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static int complain(void) {
  fprintf(stderr, "%s\n", gconv_last_error());
  return 1;
}

/* Makes the features by bands, each of its own window. */
static gconv_status make_by_rows(gconv_plan *plan, const gconv_image *image, int32_t rows, gconv_image *out) {
  *out = *gconv_plan_output_header(plan, 0);
  gconv_status status = gconv_image_allocate(out);
  int32_t step = gconv_plan_row_step(plan);
  rows = (rows + step - 1) / step * step;
  for (int32_t first = 0; first < out->height && status == GCONV_OK; first += rows) {
    gconv_image part = *out, window = *image;
    int32_t begin, end;
    part.data = (char *)out->data + (size_t)first * out->row_bytes;
    part.height = out->height - first < rows ? out->height - first : rows;
    gconv_plan_rows_needed(plan, first, part.height, &begin, &end);
    window.data = (char *)image->data + (size_t)begin * image->row_bytes;
    window.height = end - begin;
    status = gconv_plan_execute_rows(plan, &(gconv_input_rows){&window, begin}, first, &part, 1, NULL);
  }
  return status;
}

static gconv_status measure(gconv_plan *plan, const gconv_image *image, int runs, gconv_image *out) {
  double best = 0, pixels = (double)image->height * image->width;
  gconv_status status = gconv_plan_execute(plan, image, out, gconv_plan_outputs(plan), NULL);
  for (int i = 0; i < runs && status == GCONV_OK; i++) {
    gconv_timings times = {0};
    double start = now_ms();
    status = gconv_plan_execute(plan, image, out, gconv_plan_outputs(plan), &times);
    double speed = pixels / (times.download_ms > 0 ? times.kernel_ms : now_ms() - start) / 1e3;
    best = speed > best ? speed : best;
  }
  printf("%.3f\n", best);
  return status;
}

/* The operation that makes features, or maps of the classes that a network or a support vector machine in a file names. */
static gconv_status make_operation(const char *text, int channels, gconv_network *network, gconv_svm **svm,
                                   gconv_operation **operation) {
  const gconv_network_options options = {.combine = GCONV_COMBINE_ARGMAX, .presentation = GCONV_PRESENT_CLASSES};
  if (gconv_svm_is_one(text)) {
    gconv_status status = gconv_svm_read(text, svm);
    return status == GCONV_OK ? gconv_operation_svm(*svm, &options, operation) : status;
  }
  if (!gconv_network_is_one(text))
    return gconv_operation_features(text, channels, operation);
  gconv_status status = gconv_network_read(text, network);
  return status == GCONV_OK ? gconv_operation_pixels(network, &options, operation) : status;
}

int main(int count, char **words) {
  gconv_image image = {0}, out = {0};
  gconv_network network = {0};
  gconv_svm *svm = NULL;
  gconv_operation *operation = NULL;
  gconv_device *device = NULL;
  gconv_plan *plan = NULL;
  if (count < 4)
    return 2;
  const char *rows = getenv("ROWS"), *name = getenv("DEVICE");
  bool writes = strstr(words[3], ".npy") != NULL;
  if (gconv_image_read(words[1], NULL, &image) != GCONV_OK ||
      make_operation(words[2], count > 4 ? atoi(words[4]) : 0, &network, &svm, &operation) != GCONV_OK ||
      gconv_device_open(name ? name : "cpu", count > 5 ? atoi(words[5]) : 0, &device) != GCONV_OK ||
      gconv_plan_create(device, &image, operation, 0, &plan) != GCONV_OK)
    return complain();
  gconv_status status = !writes ? measure(plan, &image, atoi(words[3]), &out)
                        : rows  ? make_by_rows(plan, &image, atoi(rows), &out)
                                : gconv_plan_execute(plan, &image, &out, 1, NULL);
  if (status == GCONV_OK && writes)
    status = gconv_image_write(words[3], NULL, &out);
  gconv_plan_free(plan);
  gconv_operation_free(operation);
  gconv_device_close(device);
  gconv_network_free(&network);
  gconv_svm_free(svm);
  gconv_image_free(&image);
  gconv_image_free(&out);
  return status == GCONV_OK ? 0 : complain();
}

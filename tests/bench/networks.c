/* SPDX-License-Identifier: MIT */
/*
 * Times a network on one device, with its input and output in memory of the device: the median, in milliseconds.
 *
 *     bench_networks [--device cuda] [--algorithm NAME] [--math fp32,tf32] [--runs 30] [--in FILE] [--out FILE] MODEL C H W
 *
 * MODEL is a file of gconv or an ONNX model, and gets one image of C x H x W random numbers from 0 to 1. --in FILE writes
 * the image, and --out FILE the results, each to FILE.MATH, as float32. Exit status: 0, 1 if it failed, 2 for a wrong
 * option, 77 without the device.
 */
#include "gconv_learn.h"
#include "layer/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
  const char *device, *algorithm, *math, *runs, *in, *out, *words[4]; /* words: MODEL C H W */
} settings;

enum { MOST_RUNS = 1000 };

static bool parse(int count, char **words, settings *s) {
  static const char *const names[] = {"--device", "--algorithm", "--math", "--runs", "--in", "--out"};
  const char **const texts[] = {&s->device, &s->algorithm, &s->math, &s->runs, &s->in, &s->out};
  int found = 0;
  for (int i = 1; i < count; i++) {
    size_t k = 0;
    while (k < sizeof names / sizeof *names && strcmp(words[i], names[k]) != 0)
      k++;
    if (k < sizeof names / sizeof *names && i + 1 < count)
      *texts[k] = words[++i];
    else if (found < 4)
      s->words[found++] = words[i];
    else
      return false;
  }
  return found == 4;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static gconv_status write_floats(const char *path, const gconv_image *image) {
  const size_t count = (size_t)image->frames * (size_t)image->channels * (size_t)image->height * (size_t)image->width;
  FILE *file = path ? fopen(path, "wb") : NULL;
  const bool written = file && fwrite(image->data, sizeof(float), count, file) == count;
  if (file && fclose(file) == 0 && written)
    return GCONV_OK;
  return path ? gconv_fail(GCONV_IO_ERROR, "cannot write %s", path) : GCONV_OK;
}

static gconv_status measure(const settings *s, gconv_device *device, const gconv_network *network, const gconv_image *in,
                            gconv_math math) {
  double times[MOST_RUNS];
  int runs = atoi(s->runs);
  char path[4096] = "";
  gconv_network_options options = {.algorithm = s->algorithm, .math = math};
  gconv_operation *operation = NULL;
  gconv_plan *plan = NULL;
  gconv_image out = {0};
  runs = runs < 1 ? 1 : runs > MOST_RUNS ? MOST_RUNS : runs;
  if (s->out)
    snprintf(path, sizeof path, "%s.%s", s->out, gconv_math_name(math));
  gconv_status status = gconv_operation_of_network(network, &options, &operation);
  if (status == GCONV_OK)
    status = gconv_plan_create(device, in, operation, 0, &plan);
  if (status == GCONV_OK)
    status = gconv_network_measure_at(plan, in, &out, true, runs, times);
  if (status == GCONV_OK)
    status = write_floats(s->out ? path : NULL, &out);
  if (status == GCONV_OK) {
    qsort(times, (size_t)runs, sizeof *times, by_value);
    printf("gconv  %s  %s  %s  %.4f ms\n", s->words[0], gconv_math_name(math), s->algorithm, times[runs / 2]);
  }
  gconv_image_free(&out);
  gconv_plan_free(plan);
  gconv_operation_free(operation);
  return status;
}

/* Makes the image: xorshift64*. */
static gconv_status make_input(const settings *s, gconv_image *in) {
  uint64_t state = 1;
  *in = (gconv_image){.type = GCONV_F32, .frames = 1, .channels = atoi(s->words[1]), .planar = true};
  in->height = atoi(s->words[2]);
  in->width = atoi(s->words[3]);
  gconv_status status = gconv_image_allocate(in);
  const size_t count = status == GCONV_OK ? (size_t)in->channels * (size_t)in->height * (size_t)in->width : 0;
  for (size_t i = 0; i < count; i++) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    ((float *)in->data)[i] = (float)((double)(state * UINT64_C(2685821657736338717) >> 40) * 0x1p-24);
  }
  return status == GCONV_OK ? write_floats(s->in, in) : status;
}

int main(int count, char **words) {
  settings s = {.device = "cuda", .algorithm = "auto", .math = "fp32", .runs = "30"};
  gconv_device *device = NULL;
  gconv_network network = {0};
  gconv_image in = {0};
  if (!parse(count, words, &s)) {
    fprintf(stderr, "usage: see the head of tests/bench/networks.c\n");
    return 2;
  }
  if (gconv_device_open(s.device, 0, &device) != GCONV_OK) {
    fprintf(stderr, "%s\n", gconv_last_error());
    return 77;
  }
  gconv_status status = gconv_network_is_one(s.words[0]) ? gconv_network_read(s.words[0], &network)
                                                         : gconv_network_import(s.words[0], NULL, &network);
  if (status == GCONV_OK)
    status = make_input(&s, &in);
  for (gconv_math math = GCONV_MATH_FP32; math <= GCONV_MATH_BF16 && status == GCONV_OK; math++)
    if (strstr(s.math, gconv_math_name(math)))
      status = measure(&s, device, &network, &in, math);
  if (status != GCONV_OK)
    fprintf(stderr, "%s: %s\n", s.words[0], gconv_last_error());
  gconv_image_free(&in);
  gconv_network_free(&network);
  gconv_device_close(device);
  return status == GCONV_OK ? 0 : 1;
}

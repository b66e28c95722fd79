/* SPDX-License-Identifier: MIT */
/*
 * Solves layers that another program draws, by every algorithm of a device: `layer_server cpu|cuda`, in one process, as
 * starting CUDA takes longer than any of them. Standard input is a sequence of problems: int32 N C H W K R S groups stride_y
 * stride_x dilation_y dilation_x top left bottom right has_bias, then float32 x, weights and biases. The answers to each:
 * char[32] algorithm, char[8] math, int32 exact, int32 bound_of_largest, double error bound, then float32 y; an algorithm ""
 * ends them. The shape of y is the caller's to know. Exit status 77 without the device.
 */
#include "bench/make_plan.h"
#include "gconv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N, C, H, W, K, R, S, GROUPS, STRIDE_Y, STRIDE_X, DILATION_Y, DILATION_X, TOP, LEFT, BOTTOM, RIGHT, HAS_BIAS, FIELDS };

static float *read_floats(size_t count) {
  float *floats = malloc(count * sizeof *floats);
  if (!floats || fread(floats, sizeof *floats, count, stdin) != count)
    exit(EXIT_FAILURE);
  return floats;
}

static void put(const void *bytes, size_t size) {
  if (fwrite(bytes, 1, size, stdout) != size)
    exit(EXIT_FAILURE);
}

static void answer(const char *name, const gconv_layer_info *info, const gconv_image *y) {
  char algorithm[32] = "", math[8] = "";
  int32_t flags[2] = {info ? info->exact : 0, info ? info->bound_of_largest : 0};
  double bound = info ? info->error_bound : 0;
  snprintf(algorithm, sizeof algorithm, "%s", name);
  snprintf(math, sizeof math, "%s", info ? info->math : "");
  put(algorithm, sizeof algorithm);
  put(math, sizeof math);
  put(flags, sizeof flags);
  put(&bound, sizeof bound);
  if (y)
    put(y->data, (size_t)y->frames * (size_t)y->channels * y->plane_bytes);
}

/* Answers, unless the algorithm cannot, or has no use for the math: then *useless is counted. */
static void solve(gconv_device *device, const gconv_image *x, const gconv_layer *layer, const char *algorithm,
                  gconv_math math, int *useless) {
  gconv_network_options options = {.algorithm = algorithm, .math = math};
  gconv_plan *network = NULL;
  gconv_image y = {0};
  gconv_status status = gconv_plan_layers(device, x, layer, 1, &options, 0, &network);
  if (status == GCONV_UNSUPPORTED)
    return;
  const gconv_layer_info *info = status == GCONV_OK ? gconv_plan_layer_info(network, 0) : NULL;
  if (info && strcmp(info->math, gconv_math_name(math)) != 0) {
    ++*useless;
    gconv_plan_free(network);
    return;
  }
  if (status == GCONV_OK)
    status = gconv_plan_execute(network, x, &y, 1, NULL);
  if (status != GCONV_OK) {
    fprintf(stderr, "%s: %s\n", algorithm, gconv_last_error());
    exit(EXIT_FAILURE);
  }
  answer(algorithm, info, &y);
  gconv_image_free(&y);
  gconv_plan_free(network);
}

static void solve_by_all(gconv_device *device, const gconv_image *x, const gconv_layer *layer) {
  enum { MOST_ALGORITHMS = 64, ENOUGH = 2 }; /* an algorithm that had no use for a math twice will have none */
  static int useless[MOST_ALGORITHMS][GCONV_MATH_BF16 + 1];
  const char *type = gconv_device_get_info(device)->name;
  const gconv_algorithm_info *info;
  for (size_t i = 0; (info = gconv_layer_algorithm_at(i)); i++)
    for (gconv_math math = GCONV_MATH_FP32; math <= GCONV_MATH_BF16; math++)
      if (strncmp(type, info->device, strlen(info->device)) == 0 && i < MOST_ALGORITHMS && useless[i][math] < ENOUGH)
        solve(device, x, layer, info->name, math, &useless[i][math]);
  answer("", NULL, NULL);
  fflush(stdout);
}

static void serve(gconv_device *device, const int32_t *f) {
  gconv_image x = {.type = GCONV_F32, .frames = f[N], .height = f[H], .width = f[W], .channels = f[C], .planar = true};
  gconv_bank bank = {.filters = f[K], .channels = f[C] / f[GROUPS], .rows = f[R], .columns = f[S]};
  gconv_layer layer = {.bank = &bank,
                       .padding = GCONV_LAYER_EXPLICIT,
                       .pad_top = f[TOP],
                       .pad_left = f[LEFT],
                       .pad_bottom = f[BOTTOM],
                       .pad_right = f[RIGHT],
                       .stride_y = f[STRIDE_Y],
                       .stride_x = f[STRIDE_X],
                       .dilation_y = f[DILATION_Y],
                       .dilation_x = f[DILATION_X],
                       .groups = f[GROUPS]};
  x.row_bytes = (size_t)f[W] * sizeof(float);
  x.plane_bytes = x.row_bytes * (size_t)f[H];
  float *samples = read_floats((size_t)f[N] * (size_t)f[C] * (size_t)f[H] * (size_t)f[W]);
  bank.weights = read_floats((size_t)f[K] * (size_t)bank.channels * (size_t)f[R] * (size_t)f[S]);
  bank.biases = f[HAS_BIAS] ? read_floats((size_t)f[K]) : NULL;
  if (gconv_image_allocate(&x) != GCONV_OK)
    exit(EXIT_FAILURE);
  memcpy(x.data, samples, (size_t)f[N] * (size_t)f[C] * x.plane_bytes);
  solve_by_all(device, &x, &layer);
  free(samples);
  free(bank.weights);
  free(bank.biases);
  gconv_image_free(&x);
}

int main(int count, char **words) {
  gconv_device *device = NULL;
  int32_t fields[FIELDS];
  if (gconv_device_open(count > 1 ? words[1] : "cpu", 0, &device) != GCONV_OK) {
    fprintf(stderr, "%s\n", gconv_last_error());
    return 77;
  }
  while (fread(fields, sizeof fields, 1, stdin) == 1)
    serve(device, fields);
  gconv_device_close(device);
  return 0;
}

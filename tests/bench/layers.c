/* SPDX-License-Identifier: MIT */
/*
 * Times the algorithms for layers on random data in the memory of the device: a line a layer and algorithm, with the median
 * milliseconds and TFLOP/s, and the largest error at 2000 outputs relative to the stated bound; what is run again must yield
 * the same bits.
 *
 *     bench_layers [--device cuda] [--algorithm NAME,...] [--math fp32,tf32] [--runs 20] [--only 1,4] [--file FILE]
 *                  [--no-check] [--warm]
 *
 * Each run is of another input and output, so that no cache of a GPU holds any of them; with --warm, of the same.
 * FILE has lines `N C H W K R stride pad [groups]`; without one, common layers and the shapes of batched-convolution papers.
 * Exit status: 0, 1 if an algorithm failed, an error is over its bound or bits differ, 2 for a wrong option, 77 without the
 * device.
 */
#include "bench/make_plan.h"
#include "gconv.h"
#include "layer/network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
  int n, c, h, w, k, r, stride, pad, groups;
} shape;

static const shape builtin[] = {
    {32, 3, 224, 224, 64, 7, 2, 3, 1},  {32, 64, 56, 56, 64, 3, 1, 1, 1},   {32, 128, 28, 28, 128, 3, 1, 1, 1},
    {32, 256, 14, 14, 256, 3, 1, 1, 1}, {32, 512, 7, 7, 512, 3, 1, 1, 1},   {32, 64, 56, 56, 256, 1, 1, 0, 1},
    {16, 3, 224, 224, 64, 3, 1, 1, 1},  {16, 64, 224, 224, 64, 3, 1, 1, 1}, {8, 3, 512, 512, 64, 11, 4, 2, 1},
    {10, 4, 128, 128, 10, 16, 1, 0, 1}, {10, 4, 256, 256, 10, 32, 1, 0, 1}, {256, 3, 128, 128, 128, 8, 1, 0, 1},
    {10, 3, 128, 128, 3, 64, 1, 0, 1},  {1, 3, 2160, 3840, 16, 5, 1, 2, 1}, {1, 3, 2160, 3840, 32, 9, 1, 4, 1}};

typedef struct settings {
  const char *device, *algorithms, *math, *only, *file;
  int runs;
  bool check, warm;
} settings;

enum { MOST_SHAPES = 256, MOST_RUNS = 1000, CHECKED = 2000 };

static bool is_among(const char *name, const char *names) {
  size_t length = strlen(name);
  if (!names)
    return true;
  for (; *names; names += strcspn(names, ","), names += *names == ',')
    if (strcspn(names, ",") == length && strncmp(names, name, length) == 0)
      return true;
  return false;
}

/* xorshift64*, to [-1, 1). */
static float draw(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (float)((double)(*state * UINT64_C(2685821657736338717) >> 40) * 0x1p-23 - 1);
}

static float *draw_floats(size_t count, uint64_t seed) {
  float *floats = malloc(count * sizeof *floats);
  for (size_t i = 0; floats && i < count; i++)
    floats[i] = draw(&seed);
  return floats;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* |error| / (sum |w x| + |b|) at one output. */
static double error_at(const shape *s, const gconv_bank *bank, const float *in, const gconv_image *out, size_t i) {
  int p_size = out->height, q_size = out->width, cg = s->c / s->groups;
  int q = (int)(i % (size_t)q_size), p = (int)(i / (size_t)q_size % (size_t)p_size);
  int k = (int)(i / ((size_t)p_size * (size_t)q_size) % (size_t)s->k);
  size_t n = i / ((size_t)p_size * (size_t)q_size * (size_t)s->k);
  const float *w = bank->weights + (size_t)k * (size_t)(cg * s->r * s->r);
  int first = k / (s->k / s->groups) * cg;
  double sum = bank->biases[k], magnitude = fabs(sum);
  for (int c = 0; c < cg; c++)
    for (int r = 0; r < s->r; r++)
      for (int t = 0; t < s->r; t++, w++) {
        int y = p * s->stride - s->pad + r, x = q * s->stride - s->pad + t;
        if (y < 0 || y >= s->h || x < 0 || x >= s->w)
          continue;
        double product =
            (double)*w *
            (double)in[((n * (size_t)s->c + (size_t)(first + c)) * (size_t)s->h + (size_t)y) * (size_t)s->w + (size_t)x];
        sum += product;
        magnitude += fabs(product);
      }
  double error = fabs((double)((const float *)out->data)[i] - sum) / magnitude;
  return isnan(error) ? INFINITY : error;
}

static double largest_error(const shape *s, const gconv_bank *bank, const float *in, const gconv_image *out) {
  size_t count = (size_t)out->frames * (size_t)out->channels * (size_t)out->height * (size_t)out->width;
  uint64_t state = 99;
  double largest = 0;
  for (int i = 0; i < CHECKED; i++) {
    draw(&state);
    double error = error_at(s, bank, in, out, i == 0 ? 0 : i == 1 ? count - 1 : (size_t)(state % count));
    largest = error > largest ? error : largest;
  }
  return largest;
}

/* Whether an execution yields the same bits as the first one did, though others were between. */
static bool is_repeated(gconv_plan *network, const gconv_image *in, const gconv_image *first) {
  gconv_image again = {0};
  size_t bytes =
      (size_t)first->frames * (size_t)first->channels * (size_t)first->height * (size_t)first->width * sizeof(float);
  bool same = gconv_plan_execute(network, in, &again, 1, NULL) == GCONV_OK && memcmp(first->data, again.data, bytes) == 0;
  gconv_image_free(&again);
  return same;
}

/* A problem with its data, and its row of output so far. */
typedef struct problem {
  const settings *settings;
  gconv_device *device;
  const shape *shape;
  gconv_bank bank;
  gconv_image in;
} problem;

/* False if it failed, or is wrong. */
static bool time_algorithm(const problem *p, const char *algorithm, gconv_math math) {
  gconv_layer layer = {.bank = &p->bank, .padding = GCONV_LAYER_EXPLICIT, .groups = p->shape->groups};
  layer.pad_top = layer.pad_left = layer.pad_bottom = layer.pad_right = p->shape->pad;
  layer.stride_y = layer.stride_x = p->shape->stride;
  gconv_network_options options = {.algorithm = algorithm, .math = math};
  gconv_plan *network = NULL;
  double times[MOST_RUNS];
  gconv_image out = {0};
  gconv_status status = gconv_plan_layers(p->device, &p->in, &layer, 1, &options, 0, &network);
  const gconv_layer_info *info = status == GCONV_OK ? gconv_plan_layer_info(network, 0) : NULL;
  if (info && strcmp(info->math, gconv_math_name(math)) != 0) { /* it has no use for the leave that math gives */
    gconv_plan_free(network);
    return true;
  }
  bool right = status == GCONV_OK || status == GCONV_UNSUPPORTED;
  if (status == GCONV_OK)
    right =
        (status = gconv_network_measure_at(network, &p->in, &out, p->settings->warm, p->settings->runs, times)) == GCONV_OK;
  printf("  %-16s %-4s ", algorithm, gconv_math_name(math));
  if (status != GCONV_OK) {
    printf("%s\n", gconv_last_error());
  } else {
    qsort(times, (size_t)p->settings->runs, sizeof *times, by_value);
    double ms = times[p->settings->runs / 2];
    printf("%9.4f ms %7.2f TFLOP/s  estimate %9.4f", ms, info->flop / ms * 1e-9, info->estimate_ms);
    if (info->batch < info->images)
      printf("  batch %d", info->batch);
    if (p->settings->check) {
      double error = largest_error(p->shape, &p->bank, p->in.data, &out);
      right = error <= info->error_bound;
      printf("  error %.2e of bound %.2e%s", error, info->error_bound, right ? "" : "  OVER");
      if (!is_repeated(network, &p->in, &out)) {
        printf("  OTHER BITS the next time");
        right = false;
      }
    }
    printf("\n");
  }
  fflush(stdout);
  gconv_image_free(&out);
  gconv_plan_free(network);
  return right;
}

static bool time_shape(const settings *wanted, gconv_device *device, const shape *s) {
  problem p = {.settings = wanted, .device = device, .shape = s};
  size_t taps = (size_t)(s->c / s->groups) * (size_t)(s->r * s->r), samples = (size_t)s->c * (size_t)s->h * (size_t)s->w;
  p.bank = (gconv_bank){.filters = s->k, .channels = s->c / s->groups, .rows = s->r, .columns = s->r};
  p.bank.weights = draw_floats(taps * (size_t)s->k, 1);
  p.bank.biases = draw_floats((size_t)s->k, 2);
  p.in = (gconv_image){.type = GCONV_F32, .frames = s->n, .height = s->h, .width = s->w, .channels = s->c, .planar = true};
  p.in.row_bytes = (size_t)s->w * sizeof(float);
  p.in.plane_bytes = p.in.row_bytes * (size_t)s->h;
  p.in.data = draw_floats(samples * (size_t)s->n, 3);
  const char *type = strncmp(wanted->device, "cuda", 4) == 0 ? "cuda" : "cpu";
  printf("%d %d %d %d %d %d %d %d groups %d\n", s->n, s->c, s->h, s->w, s->k, s->r, s->stride, s->pad, s->groups);
  bool right = p.in.data && p.bank.weights && p.bank.biases;
  const gconv_algorithm_info *info;
  for (size_t i = 0; p.in.data && p.bank.weights && p.bank.biases && (info = gconv_layer_algorithm_at(i)); i++)
    for (gconv_math math = GCONV_MATH_FP32; math <= GCONV_MATH_BF16; math++)
      if (strcmp(info->device, type) == 0 && is_among(info->name, wanted->algorithms) &&
          is_among(gconv_math_name(math), wanted->math))
        right &= time_algorithm(&p, info->name, math);
  free(p.in.data);
  free(p.bank.weights);
  free(p.bank.biases);
  return right;
}

static size_t read_shapes(const char *path, shape *shapes) {
  FILE *file = fopen(path, "r");
  char line[256];
  size_t count = 0;
  while (file && count < MOST_SHAPES && fgets(line, sizeof line, file)) {
    shape s = {.groups = 1};
    if (sscanf(line, "%d %d %d %d %d %d %d %d %d", &s.n, &s.c, &s.h, &s.w, &s.k, &s.r, &s.stride, &s.pad, &s.groups) >= 8)
      shapes[count++] = s;
  }
  if (file)
    fclose(file);
  return count;
}

static bool parse(int count, char **words, settings *s) {
  for (int i = 1; i < count; i++) {
    const char **text = strcmp(words[i], "--device") == 0      ? &s->device
                        : strcmp(words[i], "--algorithm") == 0 ? &s->algorithms
                        : strcmp(words[i], "--math") == 0      ? &s->math
                        : strcmp(words[i], "--only") == 0      ? &s->only
                        : strcmp(words[i], "--file") == 0      ? &s->file
                                                               : NULL;
    if (text && i + 1 < count)
      *text = words[++i];
    else if (strcmp(words[i], "--runs") == 0 && i + 1 < count)
      s->runs = atoi(words[++i]);
    else if (strcmp(words[i], "--no-check") == 0)
      s->check = false;
    else if (strcmp(words[i], "--warm") == 0)
      s->warm = true;
    else
      return false;
  }
  return s->runs >= 1 && s->runs <= MOST_RUNS;
}

int main(int count, char **words) {
  settings s = {.device = "cpu", .math = "fp32", .runs = 20, .check = true};
  static shape shapes[MOST_SHAPES];
  size_t shape_count = sizeof builtin / sizeof builtin[0];
  gconv_device *device = NULL;
  if (!parse(count, words, &s)) {
    fprintf(stderr, "usage: see the head of tests/bench/layers.c\n");
    return 2;
  }
  memcpy(shapes, builtin, sizeof builtin);
  if (s.file)
    shape_count = read_shapes(s.file, shapes);
  if (gconv_device_open(s.device, 0, &device) != GCONV_OK) {
    fprintf(stderr, "%s\n", gconv_last_error());
    return 77;
  }
  bool right = shape_count > 0;
  for (size_t i = 0; i < shape_count; i++) {
    char number[24];
    snprintf(number, sizeof number, "%zu", i + 1);
    if (is_among(number, s.only))
      right &= time_shape(&s, device, &shapes[i]);
  }
  gconv_device_close(device);
  return right ? 0 : 1;
}

/* SPDX-License-Identifier: MIT */
/*
 * Every algorithm of one device on images and filters of extreme shapes, where indices overflow and grids end.
 *
 *     test_large [--device cpu|cuda] [--algorithm NAME]
 *
 * Whole oracles would take hours here, so some hundred samples are computed again: the corners, and places drawn by lot. The
 * exact family must give the bits of the definition, the others must stay within their bound. On the CPU, which every
 * continuous integration has, the gigapixel is left out.
 * Exit status: 0, 1 for a failure, 77 if the device cannot be used here.
 */
#include "bench/make_plan.h"
#include "gconv.h"
#include "lot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SPOTS = 200, SKIPPED = 77 };
static const double MOST_CPU_WORK = 7e9; /* multiply-adds of a shape that the CPU is asked for */

/* Samples and taps are small integers where the image is of integers, so that every order of summation is exact. */
typedef struct extreme {
  const char *what;
  gconv_type in, out;
  int32_t channels, height, width, size; /* of the image, and of the square filter */
  gconv_border border;
} extreme;

static const extreme EXTREMES[] = {
    {"a tall strip", GCONV_F32, GCONV_F32, 1, 524280, 3, 3, GCONV_BORDER_ZERO},
    {"a tall strip of RGB", GCONV_U8, GCONV_U8, 3, 524280, 3, 7, GCONV_BORDER_REFLECT101},
    {"a wide strip", GCONV_F32, GCONV_F32, 1, 3, 524280, 31, GCONV_BORDER_ZERO},
    {"a wide strip of RGB", GCONV_U8, GCONV_U8, 3, 3, 524280, 5, GCONV_BORDER_WRAP},
    {"floats stored past the caches", GCONV_F32, GCONV_F32, 3, 1100, 1001, 3, GCONV_BORDER_REFLECT101},
    {"one pixel", GCONV_U8, GCONV_U8, 1, 1, 1, 3, GCONV_BORDER_REPLICATE},
    {"one pixel under a huge filter", GCONV_F32, GCONV_F32, 1, 1, 1, 1025, GCONV_BORDER_REPLICATE},
    {"a filter of 63", GCONV_F32, GCONV_F32, 1, 700, 900, 63, GCONV_BORDER_WRAP},
    {"a filter of 151 on RGB", GCONV_U8, GCONV_U8, 3, 600, 700, 151, GCONV_BORDER_REFLECT101},
    {"a filter of 301", GCONV_F32, GCONV_F32, 1, 900, 1500, 301, GCONV_BORDER_SYMMETRIC},
    {"a huge filter", GCONV_F32, GCONV_F32, 1, 70, 90, 1025, GCONV_BORDER_ZERO},
    {"a huge filter on a larger image", GCONV_F32, GCONV_F32, 1, 1300, 1100, 1025, GCONV_BORDER_REFLECT101},
    {"two gigapixels", GCONV_U8, GCONV_U16, 1, 20000, 100000, 3, GCONV_BORDER_ZERO},
    {"two gigapixels, a larger filter", GCONV_U8, GCONV_U16, 1, 20000, 100000, 9, GCONV_BORDER_SYMMETRIC},
    {"two gigasamples of RGB", GCONV_U8, GCONV_U8, 3, 30000, 25000, 5, GCONV_BORDER_WRAP},
};
enum { COUNT = sizeof EXTREMES / sizeof *EXTREMES };

static double work_of(const extreme *e) {
  return (double)e->height * e->width * e->channels * e->size * e->size;
}

/* ---- The case ---- */

static void fill(const extreme *e, gconv_image *image) {
  uint64_t lot = 7;
  size_t samples = (size_t)e->height * (size_t)e->width * (size_t)e->channels;
  for (size_t i = 0; i < samples; i += 8) {
    uint64_t bits = gconv_lot_next(&lot);
    for (size_t j = i; j < i + 8 && j < samples; j++, bits >>= 8)
      if (e->in == GCONV_U8)
        ((uint8_t *)image->data)[j] = (uint8_t)bits;
      else
        ((float *)image->data)[j] = (float)(bits & 255) / 255 - 0.25F;
  }
}

static bool make_filter(const extreme *e, gconv_filter *filter) {
  static char name[] = "extreme";
  size_t taps = (size_t)e->size * (size_t)e->size;
  uint64_t lot = (uint64_t)e->size;
  *filter = (gconv_filter){.name = name, .rows = e->size, .columns = e->size, .divisor = 1};
  filter->anchor_row = filter->anchor_column = e->size / 2;
  filter->taps = malloc(taps * sizeof(float));
  for (size_t i = 0; filter->taps && i < taps; i++)
    filter->taps[i] =
        e->in == GCONV_F32 ? (float)gconv_lot_below(&lot, 2001) / 1000 - 1 : (float)(gconv_lot_below(&lot, 5) - 1);
  return filter->taps != NULL;
}

/* ---- One sample ---- */

/* Where position i of 0 .. size - 1 is found; -1 for zeros. Written anew: this test shares no line with the product. */
static int64_t settle(gconv_border border, int64_t i, int64_t size) {
  while (i < 0 || i >= size)
    switch (border) {
    case GCONV_BORDER_REPLICATE:
      return i < 0 ? 0 : size - 1;
    case GCONV_BORDER_SYMMETRIC:
      i = i < 0 ? -1 - i : 2 * size - 1 - i;
      break;
    case GCONV_BORDER_REFLECT101:
      if (size == 1)
        return 0;
      i = i < 0 ? -i : 2 * size - 2 - i;
      break;
    case GCONV_BORDER_WRAP:
      i += i < 0 ? size : -size;
      break;
    default:
      return -1;
    }
  return i;
}

static float level_at(const extreme *e, const gconv_image *in, int64_t y, int64_t x, int32_t c) {
  y = settle(e->border, y, e->height);
  x = settle(e->border, x, e->width);
  if (y < 0 || x < 0)
    return 0;
  const uint8_t *row = (const uint8_t *)in->data + (size_t)y * in->row_bytes;
  size_t element = (size_t)x * (size_t)e->channels + (size_t)c;
  return e->in == GCONV_U8 ? (float)row[element] : ((const float *)(const void *)row)[element];
}

/* The chain of fused multiply-adds of the exact family, and the sum in float64. */
static float chain_at(const extreme *e, const gconv_image *in, const float *tap, int64_t y, int64_t x, int32_t c,
                      double *sum) {
  float chain = 0;
  *sum = 0;
  for (int64_t r = 0; r < e->size; r++)
    for (int64_t s = 0; s < e->size; s++, tap++) {
      float level = level_at(e, in, y + r - e->size / 2, x + s - e->size / 2, c);
      chain = fmaf(*tap, level, chain);
      *sum += (double)*tap * (double)level;
    }
  return chain;
}

static double found_at(const extreme *e, const gconv_image *out, int64_t y, int64_t x, int32_t c) {
  const void *row = (const uint8_t *)out->data + (size_t)y * out->row_bytes;
  size_t element = (size_t)x * (size_t)e->channels + (size_t)c;
  return e->out == GCONV_U8    ? ((const uint8_t *)row)[element]
         : e->out == GCONV_U16 ? ((const uint16_t *)row)[element]
                               : (double)((const float *)row)[element];
}

/* What is expected, and how far off it may be. Integers are whole numbers times 1 or 257, in float64 without error; an
 * algorithm that is not exact may be off by its bound, and by a half for rounding. */
static double expect(const extreme *e, const gconv_plan_info *info, float chain, double sum, double magnitude,
                     double *allowed) {
  double scale = e->out == GCONV_U16 ? 257 : 1, white = e->out == GCONV_U16 ? 65535 : 255;
  *allowed = info->exact ? 0 : info->error_bound * magnitude * scale;
  if (e->out == GCONV_F32)
    return info->exact ? (double)chain : sum;
  if (!info->exact)
    *allowed += 0.5;
  return fmin(fmax(sum * scale, 0), white);
}

/* ---- An algorithm ---- */

static bool check_spots(const extreme *e, const gconv_plan_info *info, const gconv_image *in, const gconv_filter *filter,
                        const gconv_image *out) {
  double magnitude = 0, largest = e->in == GCONV_U8 ? 255 : 0.75, sum, allowed;
  for (size_t i = 0; i < (size_t)e->size * (size_t)e->size; i++)
    magnitude += fabs((double)filter->taps[i]) * largest;
  uint64_t lot = 3;
  int spots = e->size > 500 ? SPOTS / 8 : SPOTS;
  for (int i = 0; i < spots; i++) {
    int32_t y = i < 4 ? (i & 1) * (e->height - 1) : gconv_lot_below(&lot, e->height);
    int32_t x = i < 4 ? i / 2 * (e->width - 1) : gconv_lot_below(&lot, e->width), c = i % e->channels;
    float chain = chain_at(e, in, filter->taps, y, x, c, &sum);
    double expected = expect(e, info, chain, sum, magnitude, &allowed), got = found_at(e, out, y, x, c);
    if (!(fabs(got - expected) <= allowed)) {
      printf("FAILED %s, %s: y %d, x %d, channel %d is %.9g, expected %.9g within %.3g\n", info->algorithm, e->what, y, x, c,
             got, expected, allowed);
      return false;
    }
  }
  return true;
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static bool check(const extreme *e, gconv_device *device, const char *algorithm, const gconv_image *in, gconv_filter *filter,
                  gconv_image *out) {
  gconv_options options = gconv_options_default();
  options.border = e->border;
  options.algorithm = algorithm;
  options.sets_type = true;
  options.output_type = e->out;
  gconv_filters filters = {.items = filter, .count = 1};
  gconv_plan *plan = NULL;
  double start = now_ms();
  gconv_status status = gconv_plan_filters(device, in, &filters, &options, &plan);
  if (status == GCONV_UNSUPPORTED) {
    printf("  %-14s not supported\n", algorithm);
    return true;
  }
  memset(out->data, 0xA5, out->plane_bytes);
  if (status == GCONV_OK)
    status = gconv_plan_execute(plan, in, out, gconv_plan_outputs(plan), NULL);
  if (status != GCONV_OK)
    printf("FAILED %s, %s: %s\n", algorithm, e->what, gconv_last_error());
  bool good = status == GCONV_OK && check_spots(e, gconv_plan_get_info(plan), in, filter, out);
  if (good)
    printf("  %-14s %.0f ms\n", algorithm, now_ms() - start);
  gconv_plan_free(plan);
  return good;
}

static bool is_for(const extreme *e, const gconv_algorithm_info *info, const char *device, const char *only) {
  bool cpu = strcmp(device, "cpu") == 0;
  return strcmp(info->device, device) == 0 && (!only || strcmp(info->name, only) == 0) &&
         !(cpu && work_of(e) > MOST_CPU_WORK) && !(strcmp(info->name, "reference") == 0 && work_of(e) > 1e8) &&
         !(strcmp(info->name, "im2col") == 0 && e->size > 200); /* right, but it takes a minute */
}

static int run(const extreme *e, gconv_device *device, const char *name, const char *only) {
  gconv_image in = {.type = e->in, .frames = 1, .height = e->height, .width = e->width, .channels = e->channels}, out = in;
  gconv_filter filter = {0};
  out.type = e->out;
  int failures = 0;
  if (strcmp(name, "cpu") == 0 && work_of(e) > MOST_CPU_WORK)
    return 0;
  printf("%s: %d x %d x %d %s, filter %d x %d\n", e->what, e->height, e->width, e->channels, gconv_type_name(e->in), e->size,
         e->size);
  if (gconv_image_allocate(&in) != GCONV_OK || gconv_image_allocate(&out) != GCONV_OK || !make_filter(e, &filter)) {
    puts("FAILED: out of memory");
    failures++;
  } else {
    fill(e, &in);
    const gconv_algorithm_info *info;
    for (size_t i = 0; (info = gconv_algorithm_at(i)); i++)
      if (is_for(e, info, name, only))
        failures += !check(e, device, info->name, &in, &filter, &out);
  }
  free(filter.taps);
  gconv_image_free(&in);
  gconv_image_free(&out);
  return failures;
}

int main(int count, char **words) {
  const char *name = "cpu", *only = NULL;
  for (int i = 1; i + 1 < count; i += 2)
    if (strcmp(words[i], "--device") == 0)
      name = words[i + 1];
    else if (strcmp(words[i], "--algorithm") == 0)
      only = words[i + 1];
  gconv_device *device = NULL;
  if (gconv_device_open(name, 0, &device) != GCONV_OK) {
    bool skip = strcmp(name, "cpu") != 0;
    printf("%s: %s\n", skip ? "skipped: no GPU" : "FAILED", gconv_last_error());
    return skip ? SKIPPED : EXIT_FAILURE;
  }
  int failures = 0;
  for (int i = 0; i < COUNT; i++) {
    failures += run(&EXTREMES[i], device, name, only);
    fflush(stdout);
  }
  gconv_device_close(device);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

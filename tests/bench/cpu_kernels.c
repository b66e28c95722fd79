/* SPDX-License-Identifier: MIT */
/*
 * How fast the CPU's algorithms are, compared with what the processor can do at all: filters a 4K RGB photo in memory.
 *
 * usage: bench_cpu_kernels [--threads N] [--type u8|u16|f32] [--width W] [--height H] [--channels C] [--algorithm NAME]
 *                          [--filter SPEC] [--runs N] [K ...]
 *
 * An image that fits into the cache shows what a filter takes without the memory: --width 640 --height 256.
 *
 * A K stands for a K x K filter of random taps; --filter takes anything that gconv_filters_read() does. Prints a line a
 * filter: the best and the median of the runs, and the multiply-adds of the definition in % of the peak of as many threads.
 */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/threads.h"
#include "bench/make_plan.h"
#include "gconv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 1001 };

typedef struct arguments {
  int threads, runs;
  gconv_type type;
  int32_t width, height, channels;
  const char *algorithm;
} arguments;

static _Noreturn void die(const char *what) {
  fprintf(stderr, "%s: %s\n", what, gconv_last_error());
  exit(EXIT_FAILURE);
}

/* ---- The peak: chains of multiply-adds that need no memory ---- */

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 24")
#endif

enum { CHAINS = 12, PEAK_TURNS = 2000000 };

#define PEAK(name, target, vector, spread, multiply_add)                                                                    \
  target static void name(float *sink) {                                                                                    \
    vector sums[CHAINS], a = spread(0.999f), b = spread(0.5f);                                                              \
    UNROLL for (int c = 0; c < CHAINS; c++) sums[c] = spread((float)c);                                                     \
    for (int turn = 0; turn < PEAK_TURNS; turn++)                                                                           \
      UNROLL for (int c = 0; c < CHAINS; c++) sums[c] = multiply_add(sums[c], a, b);                                        \
    UNROLL for (int c = 1; c < CHAINS; c++) sums[0] = multiply_add(sums[0], a, sums[c]);                                    \
    memcpy(sink, &sums[0], sizeof *sink);                                                                                   \
  }
#ifdef __x86_64__
#include <immintrin.h>
PEAK(peak_avx512, __attribute__((target("avx512f"))), __m512, _mm512_set1_ps, _mm512_fmadd_ps)
PEAK(peak_avx2, __attribute__((target("avx2,fma"))), __m256, _mm256_set1_ps, _mm256_fmadd_ps)
#else
#define peak_avx512 peak_plain
#define peak_avx2 peak_plain
#endif
#define SAME(x) (x)
PEAK(peak_plain, , float, SAME, fmaf)

static int lanes(void) {
  return gconv_cpu_isa() == GCONV_ISA_AVX512 ? 16 : gconv_cpu_isa() == GCONV_ISA_AVX2 ? 8 : 1;
}

static void peak_turn(void *context, size_t turn, int thread) {
  float sum;
  (void)turn;
  if (gconv_cpu_isa() == GCONV_ISA_AVX512)
    peak_avx512(&sum);
  else if (gconv_cpu_isa() == GCONV_ISA_AVX2)
    peak_avx2(&sum);
  else
    peak_plain(&sum);
  ((volatile float *)context)[thread] = sum;
}

/* GFLOP/s of all threads. */
static double measure_peak(int count) {
  gconv_threads *threads = NULL;
  if (gconv_threads_create(count, &threads) != GCONV_OK)
    die("threads");
  count = gconv_threads_count(threads);
  float *sink = calloc((size_t)count, sizeof *sink);
  double best = INFINITY;
  for (int run = 0; run < 5 && sink; run++) {
    double start = gconv_now_ms();
    gconv_threads_run(threads, (size_t)count, peak_turn, sink);
    best = fmin(best, gconv_now_ms() - start);
  }
  free(sink);
  gconv_threads_free(threads);
  return 2.0 * CHAINS * lanes() * PEAK_TURNS * count / best * 1e-6;
}

/* ---- Cases ---- */

static uint32_t next(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static gconv_image make_photo(const arguments *a) {
  gconv_image image = {.type = a->type, .frames = 1, .height = a->height, .width = a->width, .channels = a->channels};
  if (gconv_image_allocate(&image) != GCONV_OK)
    die("image");
  uint32_t state = 1;
  size_t samples = (size_t)a->width * (size_t)a->height * (size_t)a->channels;
  for (size_t i = 0; i < samples; i++)
    if (a->type == GCONV_U8)
      ((uint8_t *)image.data)[i] = (uint8_t)(next(&state) >> 16); /* the low bits repeat each 65,536 samples */
    else if (a->type == GCONV_U16)
      ((uint16_t *)image.data)[i] = (uint16_t)(next(&state) >> 8);
    else
      ((float *)image.data)[i] = (float)next(&state) * 0x1p-24f;
  return image;
}

static gconv_filters make_filter(int32_t size) {
  gconv_filter *filter = calloc(1, sizeof *filter);
  float *taps = malloc((size_t)size * (size_t)size * sizeof *taps);
  if (!filter || !taps)
    exit(EXIT_FAILURE);
  uint32_t state = 2;
  double sum = 0;
  for (int32_t i = 0; i < size * size; i++)
    sum += fabs((double)(taps[i] = (float)next(&state) * 0x1p-23f - 1.0f));
  for (int32_t i = 0; i < size * size; i++)
    taps[i] = (float)((double)taps[i] / sum);
  *filter = (gconv_filter){.name = strdup("random"),
                           .rows = size,
                           .columns = size,
                           .anchor_row = size / 2,
                           .anchor_column = size / 2,
                           .divisor = 1,
                           .taps = taps};
  return (gconv_filters){.items = filter, .count = 1};
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void measure(gconv_device *device, const arguments *a, const gconv_image *image, const gconv_filters *filters,
                    double peak) {
  gconv_options options = gconv_options_default();
  options.algorithm = a->algorithm;
  gconv_plan *plan = NULL;
  if (gconv_plan_filters(device, image, filters, &options, &plan) != GCONV_OK)
    die("plan");
  gconv_image out = {0};
  double ms[MOST_RUNS];
  for (int run = -1; run < a->runs; run++) { /* the first one warms up */
    gconv_timings timings;
    if (gconv_plan_execute(plan, image, &out, 1, &timings) != GCONV_OK)
      die("execute");
    if (run >= 0)
      ms[run] = timings.kernel_ms;
  }
  qsort(ms, (size_t)a->runs, sizeof *ms, by_size);
  const gconv_plan_info *info = gconv_plan_get_info(plan);
  double samples = (double)out.width * out.height * out.channels, median = ms[a->runs / 2];
  printf("%s %dx%d %-10s best %8.2f ms  median %8.2f ms  %7.0f Msample/s  %6.1f GFLOP/s  %5.1f%% of peak\n",
         filters->items[0].name, info->rows, info->columns, info->algorithm, ms[0], median, samples / median * 1e-3,
         info->flop / median * 1e-6, 100 * info->flop / median * 1e-6 / peak);
  fflush(stdout);
  gconv_image_free(&out);
  gconv_plan_free(plan);
}

static gconv_type parse_type(const char *name) {
  return strcmp(name, "u16") == 0 ? GCONV_U16 : strcmp(name, "f32") == 0 ? GCONV_F32 : GCONV_U8;
}

/* Options first; returns the index of the first K. Filters that --filter names are appended to *filters. */
static int parse(int count, char **words, arguments *a, gconv_filters *filters) {
  int i = 1;
  for (; i + 1 < count && strncmp(words[i], "--", 2) == 0; i += 2) {
    const char *value = words[i + 1];
    if (strcmp(words[i], "--threads") == 0)
      a->threads = atoi(value);
    else if (strcmp(words[i], "--runs") == 0)
      a->runs = atoi(value);
    else if (strcmp(words[i], "--type") == 0)
      a->type = parse_type(value);
    else if (strcmp(words[i], "--width") == 0)
      a->width = atoi(value);
    else if (strcmp(words[i], "--height") == 0)
      a->height = atoi(value);
    else if (strcmp(words[i], "--channels") == 0)
      a->channels = atoi(value);
    else if (strcmp(words[i], "--algorithm") == 0)
      a->algorithm = value;
    else if (strcmp(words[i], "--filter") != 0 || gconv_filters_read(value, NULL, filters) != GCONV_OK)
      die(words[i]);
  }
  if (a->runs < 1 || a->runs > MOST_RUNS)
    a->runs = 7;
  return i;
}

int main(int count, char **words) {
  arguments a = {.runs = 7, .type = GCONV_U8, .width = 3840, .height = 2160, .channels = 3, .algorithm = "auto"};
  gconv_filters named = {0};
  int first = parse(count, words, &a, &named);
  double peak = measure_peak(a.threads);
  printf("# %s, peak %.1f GFLOP/s\n", gconv_isa_name(gconv_cpu_isa()), peak);
  gconv_device *device = NULL;
  if (gconv_device_open("cpu", a.threads, &device) != GCONV_OK)
    die("cpu");
  gconv_image image = make_photo(&a);
  for (size_t k = 0; k < named.count; k++)
    measure(device, &a, &image, &(gconv_filters){.items = &named.items[k], .count = 1}, peak);
  for (int i = first; i < count; i++) {
    int32_t size = atoi(words[i]);
    if (size < 1 || size > 4096)
      continue;
    gconv_filters filters = make_filter(size);
    measure(device, &a, &image, &filters, peak);
    gconv_filters_free(&filters);
  }
  gconv_filters_free(&named);
  gconv_image_free(&image);
  gconv_device_close(device);
  return EXIT_SUCCESS;
}

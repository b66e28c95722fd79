/* SPDX-License-Identifier: MIT */
/*
 * How fast PNGs are read, compared with libpng, which reads them a row at a time into one and the same row.
 *
 * usage: bench_read_png [--runs N] FILE...
 *
 * Prints a line a file: the medians of the runs, which take turns, and their ratio. Both use one thread, and its processor
 * time counts, so that other work on the machine matters less. Fails if the pixels are not the same.
 */
#include "gconv.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_RUNS = 101 };

static _Noreturn void die(const char *name, const char *what) {
  fprintf(stderr, "%s: %s\n", name, what);
  exit(EXIT_FAILURE);
}

static double processor_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* Of all rows, so that the pixels of both readers can be compared: as cheap as can be. */
static uint64_t sum_row(uint64_t sum, const uint8_t *row, size_t bytes) {
  uint64_t word;
  for (size_t i = 0; i + 8 <= bytes; i += 512) {
    memcpy(&word, row + i, 8);
    sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  }
  return sum;
}

/* Milliseconds. */
static double by_libpng(const char *name, uint64_t *sum) {
  double begin = processor_ms();
  FILE *file = fopen(name, "rb");
  if (!file)
    die(name, "cannot be opened");
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL); /* it ends the process on failure */
  png_infop info = png_create_info_struct(png);
  png_init_io(png, file);
  png_read_info(png, info);
  png_set_expand(png);
  png_set_swap(png);
  png_read_update_info(png, info);
  size_t bytes = png_get_rowbytes(png, info);
  uint8_t *row = malloc(bytes);
  *sum = 0;
  for (png_uint_32 y = 0; y < png_get_image_height(png, info); y++) {
    png_read_row(png, row, NULL);
    *sum = sum_row(*sum, row, bytes);
  }
  png_read_end(png, NULL);
  png_destroy_read_struct(&png, &info, NULL);
  free(row);
  fclose(file);
  return processor_ms() - begin;
}

static double by_gconv(const char *name, uint64_t *sum) {
  gconv_image image = {0};
  double begin = processor_ms();
  if (gconv_image_read(name, NULL, &image) != GCONV_OK)
    die(name, gconv_last_error());
  double end = processor_ms();
  *sum = 0;
  for (int32_t y = 0; y < image.height; y++)
    *sum = sum_row(*sum, (const uint8_t *)image.data + (size_t)y * image.row_bytes, image.row_bytes);
  gconv_image_free(&image);
  return end - begin;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, by_size);
  return values[count / 2];
}

int main(int argc, char **argv) {
  int runs = 7, i = 1;
  for (; i + 1 < argc && strcmp(argv[i], "--runs") == 0; i += 2)
    runs = atoi(argv[i + 1]);
  runs = runs < 1 ? 1 : runs > MOST_RUNS ? MOST_RUNS : runs;
  for (; i < argc; i++) {
    double ours[MOST_RUNS], theirs[MOST_RUNS];
    uint64_t our_sum, their_sum;
    by_gconv(argv[i], &our_sum);
    for (int run = 0; run < runs; run++) {
      ours[run] = by_gconv(argv[i], &our_sum);
      theirs[run] = by_libpng(argv[i], &their_sum);
      if (our_sum != their_sum)
        die(argv[i], "the pixels are not libpng's");
    }
    double a = median(ours, runs), b = median(theirs, runs);
    printf("%-30s gconv %7.2f ms   libpng %7.2f ms   %5.2f x\n", argv[i], a, b, b / a);
    fflush(stdout);
  }
  return EXIT_SUCCESS;
}

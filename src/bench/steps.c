/* SPDX-License-Identifier: MIT */
/*
 * The experiment steps: convolution on a GPU in ten steps, from the first kernel of every course to the kernels that auto
 * takes. docs/kernels.md says what each step adds, and why. Steps of one problem stand together, to be compared with each
 * other; a step that the device lacks is left out.
 */
#include "base/memory.h"
#include "bench/bench.h"

#include <string.h>

typedef struct step {
  const char *algorithm, *adds; /* `adds`: at most 20 characters, which fit into the table */
} step;

typedef struct chapter {
  const char *title;
  const char *filter; /* NULL: 7 x 7 random taps */
  gconv_type type;
  step steps[4];
} chapter;

static const chapter chapters[] = {
    {"any filter: 7x7",
     NULL,
     GCONV_F32,
     {{"direct-classic", "1 a thread an output"},
      {"tiled-classic", "2 shared memory"},
      {"tiled", "3 strips"},
      {"direct", "4 sliding sums"}}},
    {"a large filter: 31x31 Gaussian",
     "gaussian:size=31,sigma=5",
     GCONV_F32,
     {{"tiled", "3 strips"}, {"fft", "5 spectra"}, {"separable-classic", "6 two passes"}, {"separable", "7 tensor cores"}}},
    {"bytes and whole numbers: Sobel",
     "sobel_x:", /* with the colon: the built-in filter, even if a file has this name */
     GCONV_U8,
     {{"direct-classic", "1 a thread an output"},
      {"direct", "8 bytes as floats"},
      {"toeplitz", "9 integer tensors"},
      {"integer", "10 packed integers"}}},
};

enum { SIDE = 8192, SIDE_ON_CPU = 1024 };

static gconv_status measure_chapter(gconv_bench *bench, const chapter *c, int32_t side) {
  gconv_bench_row shape = {.image = {side, side, 1, false}, .type = c->type, .images = 1, .filters = 1, .place = side};
  GCONV_ENDED_BY(gconv_image_free) gconv_image image = {0};
  GCONV_ENDED_BY(gconv_filters_free) gconv_filters filters = {0};
  snprintf(shape.group, sizeof shape.group, "%s, %dx%d %s", c->title, side, side, gconv_type_name(c->type));
  GCONV_TRY(gconv_bench_make_image(&shape.image, c->type, &image));
  GCONV_TRY(c->filter ? gconv_filters_read(c->filter, NULL, &filters) : gconv_bench_random_filter(7, &filters));
  for (size_t i = 0; i < sizeof c->steps / sizeof *c->steps; i++) {
    gconv_bench_row row = shape;
    row.algorithm = c->steps[i].algorithm;
    if (!gconv_bench_has_algorithm(bench, false, row.algorithm))
      continue;
    snprintf(row.filter, sizeof row.filter, "%s", c->steps[i].adds);
    gconv_bench_measure(bench, &image, &filters, &row);
    gconv_bench_keep(bench, &row);
    gconv_bench_print_row(bench);
  }
  return GCONV_OK;
}

gconv_status gconv_bench_steps(gconv_bench *bench, int32_t size) {
  const int32_t side = size > 0 ? size : strcmp(bench->type_name, "cuda") == 0 ? SIDE : SIDE_ON_CPU;
  for (size_t i = 0; i < sizeof chapters / sizeof *chapters; i++)
    GCONV_TRY(measure_chapter(bench, &chapters[i], side));
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
/* Completes the settings: from the figure that was named (a known set of cases), else with defaults. */
#include "bench/bench.h"

#include <string.h>

/* ---- Figures ---- */

enum { MOST_IMAGES = 8, MOST_SIZES = 16, MOST_ALGORITHMS = 2 };

typedef struct figure {
  const char *name;
  gconv_bench_image images[MOST_IMAGES];
  gconv_type type;
  int32_t sizes[MOST_SIZES];
  const char *algorithms[MOST_ALGORITHMS];
  bool blocks, grids;
  gconv_bench_plot_kind kind;
} figure;

/* Ended by zeroes, where they are not full; no algorithms: all of the device. */
static const figure figures[] = {
    {.name = "filters",
     .images = {{3840, 2160, 3, false}},
     .type = GCONV_U8,
     .sizes = {3, 5, 7, 9, 11, 13, 15, 17, 21, 25, 31, 41, 51, 63},
     .kind = GCONV_PLOT_FILTER},
    {.name = "images",
     .images = {{256, 256, 1, false},
                {512, 512, 1, false},
                {1024, 1024, 1, false},
                {2048, 2048, 1, false},
                {4096, 4096, 1, false},
                {8192, 8192, 1, false}},
     .type = GCONV_F32,
     .sizes = {7},
     .kind = GCONV_PLOT_IMAGE},
    {.name = "blocks",
     .images = {{4096, 4096, 1, false}},
     .type = GCONV_F32,
     .sizes = {7},
     .algorithms = {"direct", "tiled"},
     .blocks = true,
     .kind = GCONV_PLOT_BLOCK},
    {.name = "grids",
     .images = {{4096, 4096, 1, false}},
     .type = GCONV_F32,
     .sizes = {7},
     .algorithms = {"direct", "tiled"},
     .grids = true,
     .kind = GCONV_PLOT_GRID},
    {.name = "large-2048", .images = {{2048, 2048, 1, false}}, .type = GCONV_F32, .sizes = {128}, .kind = GCONV_PLOT_FILTER},
    {.name = "large-1024", .images = {{1024, 1024, 3, true}}, .type = GCONV_F32, .sizes = {64}, .kind = GCONV_PLOT_FILTER},
    {.name = "roofline",
     .images = {{7680, 4320, 3, true}},
     .type = GCONV_F32,
     .sizes = {3, 5, 7, 9, 11, 15, 21, 31, 63},
     .kind = GCONV_PLOT_ROOFLINE},
};

/* Applies the settings of a figure, where the user has given none. */
static void apply(const figure *chosen, gconv_bench_settings *settings) {
  bool images = settings->image_count == 0, sizes = settings->sizes.count == 0 && settings->filters.count == 0;
  bool algorithms = settings->algorithms.count == 0;
  for (int i = 0; images && i < MOST_IMAGES && chosen->images[i].width > 0; i++)
    settings->images[settings->image_count++] = chosen->images[i];
  for (int i = 0; sizes && i < MOST_SIZES && chosen->sizes[i] > 0; i++)
    settings->sizes.items[settings->sizes.count++] = chosen->sizes[i];
  for (int i = 0; algorithms && i < MOST_ALGORITHMS && chosen->algorithms[i]; i++)
    gconv_texts_add(&settings->algorithms, strdup(chosen->algorithms[i]));
  if (settings->type_count == 0)
    settings->types[settings->type_count++] = chosen->type;
  settings->sweep_blocks |= chosen->blocks && settings->block_count == 0;
  settings->sweep_grids |= chosen->grids && settings->grids.count == 0;
  if (settings->plot_kind < 0 && !settings->sweep_blocks && !settings->sweep_grids) /* else: by what is swept */
    settings->plot_kind = (int)chosen->kind;
}

const char *gconv_bench_figure_at(size_t index) {
  return index < sizeof figures / sizeof *figures ? figures[index].name : NULL;
}

static void apply_figure(gconv_bench_settings *settings) {
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    if (settings->figure && strcmp(figures[i].name, settings->figure) == 0)
      apply(&figures[i], settings);
}

/* ---- What is usual ---- */

static void add_sizes(gconv_bench_settings *settings, const int32_t *sizes) {
  for (; *sizes > 0; sizes++)
    settings->sizes.items[settings->sizes.count++] = *sizes;
}

static void add_filters(gconv_bench_settings *settings, const char *const *filters, size_t count) {
  for (size_t i = 0; i < count; i++)
    gconv_texts_add(&settings->filters, strdup(filters[i]));
}

/* The grid that auto is held to. */
static void fill_auto_grid(gconv_bench_settings *settings) {
  static const gconv_bench_image images[] = {{256, 256, 1, false},  {1024, 1024, 1, false}, {3840, 2160, 3, false},
                                             {3840, 2160, 3, true}, {7680, 4320, 3, false}, {7680, 4320, 3, true}};
  static const int32_t sizes[] = {3, 5, 7, 9, 11, 15, 21, 31, 63, 0};
  static const char *const filters[] = {
      "gaussian:size=5,sigma=1",    "gaussian:size=9,sigma=1.5",
      "gaussian:size=15,sigma=2.5", "gaussian:size=31,sigma=5",
      "gaussian:size=63,sigma=10",  "3x3: -1,0,1 -2,0,2 -1,0,1; 3x3: -1,-2,-1 0,0,0 1,2,1", /* Sobel's magnitude */
      "motion:len=31,theta=30",     "log:size=9,sigma=1.4"};
  bool none = settings->filters.count == 0 && settings->sizes.count == 0;
  if (settings->image_count == 0) {
    memcpy(settings->images, images, sizeof images);
    settings->image_count = sizeof images / sizeof *images;
  }
  for (int type = GCONV_U8; settings->type_count == type; type++)
    if (type <= GCONV_F32)
      settings->types[settings->type_count++] = (gconv_type)type;
  if (!none)
    return;
  add_sizes(settings, sizes);
  add_filters(settings, filters, sizeof filters / sizeof *filters);
}

static void fill_settings(gconv_bench_settings *settings) {
  static const int32_t usual_sizes[] = {3, 5, 7, 9, 11, 15, 31, 0};
  static const char *const usual_filters[] = {"gaussian:sigma=1", "gaussian:sigma=2", "gaussian:sigma=5"};
  static const gconv_bench_block usual_blocks[] = {{8, 8},   {16, 4},  {16, 8},  {16, 16}, {32, 2},  {32, 4},
                                                   {32, 8},  {32, 16}, {32, 32}, {64, 2},  {64, 4},  {64, 8},
                                                   {128, 1}, {128, 2}, {128, 4}, {256, 1}, {256, 2}, {256, 4}};
  static const int32_t usual_grids[] = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
  if (settings->auto_check)
    fill_auto_grid(settings);
  if (settings->runs == 0)
    settings->runs = settings->auto_check ? 9 : 20;
  if (settings->image_count == 0)
    settings->images[settings->image_count++] = (gconv_bench_image){3840, 2160, 3, false};
  if (settings->type_count == 0)
    settings->types[settings->type_count++] = GCONV_U8;
  if (settings->sizes.count == 0 && settings->filters.count == 0) {
    add_sizes(settings, usual_sizes);
    add_filters(settings, usual_filters, sizeof usual_filters / sizeof *usual_filters);
  }
  if (settings->sweep_blocks && settings->block_count == 0) {
    memcpy(settings->blocks, usual_blocks, sizeof usual_blocks);
    settings->block_count = sizeof usual_blocks / sizeof *usual_blocks;
  }
  if (settings->sweep_grids && settings->grids.count == 0) {
    memcpy(settings->grids.items, usual_grids, sizeof usual_grids);
    settings->grids.count = sizeof usual_grids / sizeof *usual_grids;
  }
  if (settings->plot_kind < 0 && settings->block_count > 1)
    settings->plot_kind = GCONV_PLOT_BLOCK;
  if (settings->plot_kind < 0 && settings->grids.count > 1)
    settings->plot_kind = GCONV_PLOT_GRID;
  if (settings->block_count == 0)
    settings->block_count = 1; /* 0 x 0: their own */
  if (settings->grids.count == 0)
    settings->grids.count = 1; /* 0: their own */
}

gconv_status gconv_bench_settle(gconv_bench_settings *settings) {
  if (settings->threads.count == 0)
    settings->threads.count = 1; /* 0: one a processor */
  if (settings->threads.count > 1 && (settings->experiment || settings->auto_check))
    return gconv_fail(GCONV_BAD_ARGUMENT, "--threads: --experiment and --auto-check take one number of threads");
  GCONV_TRY(gconv_bench_check_plot(settings->plot));
  GCONV_TRY(gconv_bench_check_experiment(settings));
  apply_figure(settings);
  if (settings->auto_check) /* of all algorithms */
    gconv_texts_free(&settings->algorithms);
  if (!settings->experiment)
    fill_settings(settings);
  else if (settings->runs == 0)
    settings->runs = 20;
  return GCONV_OK;
}

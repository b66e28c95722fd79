/* SPDX-License-Identifier: MIT */
/* Completes the settings: by the figure (a known set of cases) if one is named, else by defaults. */
#include "bench/settings.h"

#include <string.h>

/* ---- Known grids ---- */

enum { MOST_IMAGES = 8, MOST_SIZES = 16, MOST_FILTERS = 8, MOST_ALGORITHMS = 2 };

/* Arrays that are not full end with zeros. No algorithms: all of the device. */
typedef struct figure {
  const char *name;
  gconv_bench_image images[MOST_IMAGES];
  gconv_type type; /* type of the samples; with `all_types`, u8, u16 and f32 */
  bool all_types;
  int32_t sizes[MOST_SIZES];
  const char *filters[MOST_FILTERS];
  const char *algorithms[MOST_ALGORITHMS];
  bool blocks, grids;
  gconv_bench_plot_kind kind;
} figure;

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

/* The grid of --auto-check. Its parts are also the defaults of other runs. */
static const figure auto_grid = {.images = {{256, 256, 1, false},
                                            {1024, 1024, 1, false},
                                            {3840, 2160, 3, false},
                                            {3840, 2160, 3, true},
                                            {7680, 4320, 3, false},
                                            {7680, 4320, 3, true}},
                                 .all_types = true,
                                 .sizes = {3, 5, 7, 9, 11, 15, 21, 31, 63},
                                 .filters = {"gaussian:size=5,sigma=1", "gaussian:size=9,sigma=1.5",
                                             "gaussian:size=15,sigma=2.5", "gaussian:size=31,sigma=5",
                                             "gaussian:size=63,sigma=10",
                                             "3x3: -1,0,1 -2,0,2 -1,0,1; 3x3: -1,-2,-1 0,0,0 1,2,1", /* Sobel's magnitude */
                                             "motion:len=31,theta=30", "log:size=9,sigma=1.4"}};
static const figure usual = {.images = {{3840, 2160, 3, false}},
                             .type = GCONV_U8,
                             .sizes = {3, 5, 7, 9, 11, 15, 31},
                             .filters = {"gaussian:sigma=1", "gaussian:sigma=2", "gaussian:sigma=5"}};

const char *gconv_bench_figure_at(size_t index) {
  return index < sizeof figures / sizeof *figures ? figures[index].name : NULL;
}

/* ---- Settings that were not given ---- */

static void add_texts(gconv_texts *texts, const char *const *items, int most) {
  for (int i = 0; i < most && items[i]; i++)
    gconv_texts_add(texts, strdup(items[i]));
}

/* Takes images, filters, algorithms and types of a grid, if the user gave none. */
static void fill_from(const figure *grid, gconv_bench_settings *settings) {
  const bool images = settings->grid.image_count == 0,
             filters = settings->grid.sizes.count == 0 && settings->grid.filters.count == 0;
  for (int i = 0; images && i < MOST_IMAGES && grid->images[i].width > 0; i++)
    settings->grid.images[settings->grid.image_count++] = grid->images[i];
  for (int i = 0; filters && i < MOST_SIZES && grid->sizes[i] > 0; i++)
    settings->grid.sizes.items[settings->grid.sizes.count++] = grid->sizes[i];
  if (filters)
    add_texts(&settings->grid.filters, grid->filters, MOST_FILTERS);
  if (settings->grid.algorithms.count == 0)
    add_texts(&settings->grid.algorithms, grid->algorithms, MOST_ALGORITHMS);
  if (settings->grid.type_count > 0)
    return;
  for (int type = GCONV_U8; type <= GCONV_F32; type++)
    if (grid->all_types || type == (int)grid->type)
      settings->grid.types[settings->grid.type_count++] = (gconv_type)type;
}

static void apply_figure(const figure *chosen, gconv_bench_settings *settings) {
  fill_from(chosen, settings);
  settings->sweep_blocks |= chosen->blocks && settings->block_count == 0;
  settings->sweep_grids |= chosen->grids && settings->grids.count == 0;
  if (settings->plot_kind < 0 && !settings->sweep_blocks && !settings->sweep_grids) /* a sweep chooses the plot */
    settings->plot_kind = (int)chosen->kind;
}

static void fill_launches(gconv_bench_settings *settings) {
  static const gconv_bench_block usual_blocks[] = {{8, 8},   {16, 4},  {16, 8},  {16, 16}, {32, 2},  {32, 4},
                                                   {32, 8},  {32, 16}, {32, 32}, {64, 2},  {64, 4},  {64, 8},
                                                   {128, 1}, {128, 2}, {128, 4}, {256, 1}, {256, 2}, {256, 4}};
  static const gconv_bench_list usual_grids = {{16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}, 13};
  if (settings->sweep_blocks && settings->block_count == 0) {
    memcpy(settings->blocks, usual_blocks, sizeof usual_blocks);
    settings->block_count = sizeof usual_blocks / sizeof *usual_blocks;
  }
  if (settings->sweep_grids && settings->grids.count == 0)
    settings->grids = usual_grids;
  if (settings->plot_kind < 0 && settings->block_count > 1)
    settings->plot_kind = GCONV_PLOT_BLOCK;
  if (settings->plot_kind < 0 && settings->grids.count > 1)
    settings->plot_kind = GCONV_PLOT_GRID;
  if (settings->block_count == 0)
    settings->block_count = 1; /* 0 x 0: the algorithm's own */
  if (settings->grids.count == 0)
    settings->grids.count = 1; /* 0: the algorithm's own */
}

static void fill_settings(gconv_bench_settings *settings) {
  if (settings->auto_check)
    fill_from(&auto_grid, settings);
  fill_from(&usual, settings);
}

gconv_status gconv_bench_settle(gconv_bench_settings *settings) {
  if (settings->threads.count == 0)
    settings->threads.count = 1; /* 0: one for each processor */
  settings->grid.several_threads = settings->threads.count > 1;
  if (settings->threads.count > 1 && (settings->experiment || settings->auto_check))
    return gconv_fail(GCONV_BAD_ARGUMENT, "--threads: --experiment and --auto-check take one number of threads");
  GCONV_TRY(gconv_bench_check_plot(settings->plot));
  GCONV_TRY(gconv_bench_check_experiment(settings));
  settings->profile |= gconv_bench_is_of_counters(settings->experiment);
  for (size_t i = 0; settings->figure && i < sizeof figures / sizeof *figures; i++)
    if (strcmp(figures[i].name, settings->figure) == 0)
      apply_figure(&figures[i], settings);
  if (settings->auto_check) /* this compares all algorithms */
    gconv_texts_free(&settings->grid.algorithms);
  if (settings->grid.runs == 0)
    settings->grid.runs = settings->auto_check ? 9 : 20;
  if (!settings->experiment)
    fill_settings(settings);
  fill_launches(settings);
  return GCONV_OK;
}

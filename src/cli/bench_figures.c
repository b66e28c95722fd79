/* SPDX-License-Identifier: MIT */
/* Grids that are known by name: figures that one command draws. */
#include "cli/bench.h"
#include "cli/terminal.h"

#include <string.h>

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

/* What is given by the user stays. */
static void apply(const figure *chosen, gconv_bench_settings *settings) {
  bool images = settings->image_count == 0, sizes = settings->size_count == 0 && settings->filters.count == 0;
  bool algorithms = settings->algorithms.count == 0;
  for (int i = 0; images && i < MOST_IMAGES && chosen->images[i].width > 0; i++)
    settings->images[settings->image_count++] = chosen->images[i];
  for (int i = 0; sizes && i < MOST_SIZES && chosen->sizes[i] > 0; i++)
    settings->sizes[settings->size_count++] = chosen->sizes[i];
  for (int i = 0; algorithms && i < MOST_ALGORITHMS && chosen->algorithms[i]; i++)
    gconv_texts_add(&settings->algorithms, strdup(chosen->algorithms[i]));
  if (settings->type_count == 0)
    settings->types[settings->type_count++] = chosen->type;
  settings->sweep_blocks |= chosen->blocks && settings->block_count == 0;
  settings->sweep_grids |= chosen->grids && settings->grid_count == 0;
  if (settings->plot_kind < 0 && !settings->sweep_blocks && !settings->sweep_grids) /* else: by what is swept */
    settings->plot_kind = (int)chosen->kind;
}

bool gconv_bench_apply_figure(gconv_bench_settings *settings) {
  const char *names[sizeof figures / sizeof *figures + 1] = {NULL};
  gconv_message message;
  int index;
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    names[i] = figures[i].name;
  if (!settings->figure)
    return true;
  if (gconv_option_find(names, settings->figure, &index, &message) != GCONV_OK) {
    gconv_say("--figure %s: %s", settings->figure, message.text);
    return false;
  }
  apply(&figures[index], settings);
  return true;
}

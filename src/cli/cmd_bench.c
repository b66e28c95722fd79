/* SPDX-License-Identifier: MIT */
/* Algorithms against each other and against the machine: data in the memory of the device, medians, no files. */
#include "cli/bench.h"
#include "cli/command.h"
#include "cli/numbers.h"
#include "cli/terminal.h"
#include "cli/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options ---- */

/* WxH, or with `most` of 3 also WxHxC, into numbers; how many there are, 0 if it is anything else. */
static int parse_extents(const char *value, size_t length, int most, int32_t *numbers) {
  char text[64];
  if (length >= sizeof text)
    return 0;
  memcpy(text, value, length);
  text[length] = '\0';
  for (char *at = text; *at; at++)
    *at = *at == 'x' ? ',' : *at == ',' ? '?' : *at;
  int count = gconv_parse_integers(text, most, 1, INT32_MAX, numbers);
  return count >= 2 ? count : 0;
}

static gconv_status parse_image(const gconv_option *option, const char *value, void *memory, gconv_message *message) {
  (void)option;
  gconv_bench_settings *settings = memory;
  size_t length = strlen(value);
  bool planar = length > 0 && value[length - 1] == 'p';
  int32_t parts[3] = {0, 0, 1};
  if (parse_extents(value, length - planar, 3, parts) == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "this takes WIDTHxHEIGHT or WIDTHxHEIGHTxCHANNELS, such as 3840x2160x3");
  if (settings->image_count == GCONV_BENCH_MOST)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "there are %d images already", GCONV_BENCH_MOST);
  settings->images[settings->image_count++] = (gconv_bench_image){parts[0], parts[1], parts[2], planar};
  return GCONV_OK;
}

static gconv_status parse_types(const gconv_option *option, const char *value, void *memory, gconv_message *message) {
  (void)option;
  static const char *const names[] = {"u8", "u16", "f32", NULL}; /* in the order of gconv_type */
  gconv_bench_settings *settings = memory;
  while (*value) {
    char word[16];
    size_t length = strcspn(value, ",");
    int type;
    snprintf(word, sizeof word, "%.*s", (int)length, value);
    GCONV_TRY(gconv_option_find(names, word, &type, message));
    bool known = false;
    for (int i = 0; i < settings->type_count; i++)
      known |= settings->types[i] == (gconv_type)type;
    if (!known)
      settings->types[settings->type_count++] = (gconv_type)type;
    value += length + (value[length] == ',');
  }
  return GCONV_OK;
}

static gconv_status parse_sizes(const gconv_option *option, const char *value, void *memory, gconv_message *message) {
  (void)option;
  gconv_bench_settings *settings = memory;
  settings->size_count = gconv_parse_integers(value, GCONV_BENCH_MOST, 1, 4096, settings->sizes);
  if (settings->size_count == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes sizes from 1 to 4096 with commas between: 3,5,7");
  return GCONV_OK;
}

static gconv_status parse_blocks(const gconv_option *option, const char *value, void *memory, gconv_message *message) {
  (void)option;
  gconv_bench_settings *settings = memory;
  while (*value) {
    size_t length = strcspn(value, ",");
    int32_t sides[2];
    if (parse_extents(value, length, 2, sides) == 0 || settings->block_count == GCONV_BENCH_MOST)
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes WIDTHxHEIGHT in threads, such as 32x8 or 16x16,32x4");
    settings->blocks[settings->block_count++] = (gconv_bench_block){sides[0], sides[1]};
    value += length + (value[length] == ',');
  }
  return GCONV_OK;
}

static gconv_status parse_grids(const gconv_option *option, const char *value, void *memory, gconv_message *message) {
  (void)option;
  gconv_bench_settings *settings = memory;
  settings->grid_count = gconv_parse_integers(value, GCONV_BENCH_MOST, 1, INT32_MAX, settings->grids);
  if (settings->grid_count == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes numbers of blocks with commas between: 132,264,528");
  return GCONV_OK;
}

/* What --sweep may be of: threads of a block, blocks of a grid. */
static gconv_status parse_sweep(const gconv_option *option, const char *value, void *memory, gconv_message *message) {
  (void)option;
  static const char *const names[] = {"block", "grid", NULL};
  gconv_bench_settings *settings = memory;
  int index;
  GCONV_TRY(gconv_option_find(names, value, &index, message));
  *(index == 0 ? &settings->sweep_blocks : &settings->sweep_grids) = true;
  return GCONV_OK;
}

static const char *const plot_kinds[] = {"filter", "image",    "block",
                                         "grid",   "roofline", NULL}; /* as gconv_bench_plot_kind */

#define FIELD(name) offsetof(gconv_bench_settings, name)
/* A row of the table, in the order of its columns. */
#define OPTION(l, n, v, p, ...)                                                                                             \
  { .letter = l, .name = n, .value = v, .parse = p, __VA_ARGS__ }

static const gconv_option options[] = {
    OPTION(0, "image", "WxH[xC[p]]", parse_image, .group = "What is measured",
           .help = "an image of random samples, interleaved or, with p, as planes; may be repeated; default: 3840x2160x3"),
    OPTION(0, "planar", NULL, gconv_option_flag, .field = FIELD(planar), .help = "all images as planes"),
    OPTION(0, "type", "TYPE,...", parse_types,
           .help = "samples of input and output: u8 (default), u16 or f32; several with commas between"),
    OPTION(0, "sizes", "N,N...", parse_sizes,
           .help = "square filters of random taps; default: 3,5,7,9,11,15,31, unless there are filters"),
    OPTION('f', "filter", "FILTER...", gconv_option_texts, .field = FIELD(filters), .several = true,
           .help = "filters, as for the main job; may be repeated"),
    OPTION('a', "algorithm", "NAME...", gconv_option_texts, .field = FIELD(algorithms), .several = true,
           .help = "auto, or algorithms of the device; may be repeated; default: all but reference"),
    OPTION(0, "block", "WxH,...", parse_blocks,
           .help =
               "threads of a block on a GPU, for direct (to 17x17) and tiled; the others have blocks of their own; may be "
               "repeated"),
    OPTION(0, "grid", "N,N...", parse_grids,
           .help = "blocks of a grid on a GPU at most, for direct (to 17x17), tiled and sparse; the others have grids of "
                   "their own"),
    OPTION(0, "sweep", "KIND", parse_sweep,
           .help = "block: the usual blocks, from 8x8 to 256x4; grid: numbers of blocks from 16 to 65536"),
    OPTION(0, "figure", "NAME", gconv_option_text, .field = FIELD(figure),
           .help = "a grid that is known by name: below; other options still count"),
    OPTION(0, "experiment", "NAME", gconv_option_text, .field = FIELD(experiment),
           .help = "layers instead of images, by every algorithm: below; --image, --sizes and -a change what is measured; "
                   "`list` lists them"),

    OPTION('d', "device", "NAME", gconv_option_text, .field = FIELD(device), .group = "How",
           .help = "auto (default: a GPU if one can be used), cpu, cuda or cuda:N; without it, $GCONV_DEVICE counts"),
    OPTION(0, "threads", "N", gconv_option_integer, .field = FIELD(threads), .least = 1, .most = GCONV_MOST_THREADS,
           .help = GCONV_THREADS_HELP),
    OPTION(0, "runs", "N", gconv_option_integer, .field = FIELD(runs), .least = 1, .most = 10000,
           .help = "runs, of which the median counts; default: 20, and fewer where they would take over a second"),
    OPTION(0, "verify", NULL, gconv_option_flag, .field = FIELD(verify),
           .help = "hold all rows of the results to float64, in place of some; slow for large filters"),
    OPTION(0, "auto-check", NULL, gconv_option_flag, .field = FIELD(auto_check),
           .help = "compare what auto chooses with the best algorithm at every point; fails if it is too far behind"),

    OPTION(0, "csv", NULL, gconv_option_flag, .field = FIELD(csv), .group = "Reports", .help = "rows with commas"),
    OPTION(0, "json", NULL, gconv_option_flag, .field = FIELD(json), .help = "one JSON document"),
    OPTION(0, "plot", "FILE", gconv_option_text, .field = FIELD(plot),
           .help = "draw it with gnuplot, too: FILE.svg or FILE.png"),
    OPTION(0, "plot-kind", "KIND", gconv_option_choice, .field = FIELD(plot_kind), .choices = plot_kinds,
           .help = "time against filter (default), image, block or grid; or a roofline: rate against arithmetic intensity"),
    GCONV_OPTIONS_END,
};

/* ---- What is not given ---- */

static void add_sizes(gconv_bench_settings *settings, const int32_t *sizes) {
  for (; *sizes > 0; sizes++)
    settings->sizes[settings->size_count++] = *sizes;
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
  bool none = settings->filters.count == 0 && settings->size_count == 0;
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
  for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
    gconv_texts_add(&settings->filters, strdup(filters[i]));
}

static void fill_settings(gconv_bench_settings *settings) {
  static const int32_t usual_sizes[] = {3, 5, 7, 9, 11, 15, 31, 0};
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
  if (settings->size_count == 0 && settings->filters.count == 0)
    add_sizes(settings, usual_sizes);
  if (settings->sweep_blocks && settings->block_count == 0) {
    memcpy(settings->blocks, usual_blocks, sizeof usual_blocks);
    settings->block_count = sizeof usual_blocks / sizeof *usual_blocks;
  }
  if (settings->sweep_grids && settings->grid_count == 0) {
    memcpy(settings->grids, usual_grids, sizeof usual_grids);
    settings->grid_count = sizeof usual_grids / sizeof *usual_grids;
  }
  if (settings->plot_kind < 0 && settings->block_count > 1)
    settings->plot_kind = GCONV_PLOT_BLOCK;
  if (settings->plot_kind < 0 && settings->grid_count > 1)
    settings->plot_kind = GCONV_PLOT_GRID;
  if (settings->block_count == 0)
    settings->block_count = 1; /* 0 x 0: their own */
  if (settings->grid_count == 0)
    settings->grid_count = 1; /* 0: their own */
}

static gconv_status check_settings(const gconv_bench_settings *settings, gconv_message *message) {
  if (settings->csv && settings->json)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "--csv and --json exclude each other");
  if (settings->auto_check && (settings->csv || settings->json || settings->plot || settings->algorithms.count > 0))
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "--auto-check compares all algorithms, in a table of its own: --csv, --json, --plot and "
                          "--algorithm are for the others");
  return gconv_bench_check_plot(settings, message);
}

/* Refuses options that experiments, which are of layers, do not have. */
static gconv_status check_experiment(const gconv_bench_settings *settings, gconv_message *message) {
  if (settings->planar || settings->type_count > 0 || settings->filters.count > 0 || settings->block_count > 0 ||
      settings->grid_count > 0 || settings->sweep_blocks || settings->sweep_grids || settings->figure || settings->verify ||
      settings->auto_check || settings->plot_kind >= 0)
    return gconv_complain(
        message, GCONV_BAD_ARGUMENT,
        "--experiment measures layers: it takes --image, --sizes, --algorithm, --device, --threads, --runs, "
        "--csv, --json and --plot");
  return GCONV_OK;
}

/* ---- The work ---- */

typedef struct last_group {
  gconv_bench_image image;
  gconv_type type;
} last_group;

static void measure_algorithm(gconv_bench *bench, const gconv_image *image, const gconv_filters *filters,
                              const gconv_bench_row *shape, const char *algorithm, last_group *group) {
  const int grids = bench->settings->grid_count;
  for (int i = 0; i < bench->settings->block_count * grids; i++) {
    gconv_bench_row row = *shape;
    row.algorithm = algorithm;
    row.block = bench->settings->blocks[i / grids];
    row.grid = bench->settings->grids[i % grids];
    gconv_bench_measure(bench, image, filters, &row);
    bool first = group->type != row.type || memcmp(&group->image, &row.image, sizeof row.image) != 0;
    *group = (last_group){row.image, row.type};
    gconv_bench_print_row(bench, &row, first);
    gconv_bench_keep(bench, &row);
  }
}

static void visit(gconv_bench *bench, const gconv_image *image, const gconv_filters *filters, const gconv_bench_row *shape,
                  void *user) {
  const gconv_texts *names = &bench->settings->algorithms;
  const gconv_algorithm_info *info;
  for (size_t i = 0; i < names->count; i++)
    measure_algorithm(bench, image, filters, shape, names->items[i], user);
  for (size_t i = 0; names->count == 0 && (info = gconv_algorithm_at(i)); i++)
    if (strcmp(info->device, bench->type_name) == 0 && strcmp(info->name, "reference") != 0)
      measure_algorithm(bench, image, filters, shape, info->name, user);
}

static bool is_asked_for(const gconv_bench_settings *settings, const gconv_algorithm_info *info) {
  bool asked = settings->algorithms.count == 0 && strcmp(info->name, "reference") != 0;
  for (size_t i = 0; i < settings->algorithms.count; i++)
    asked |= strcmp(settings->algorithms.items[i], info->name) == 0;
  return asked;
}

/* The algorithms for GPUs that take what is hinted at: those whose kernels call block_for() or hinted_grid(). */
static const char *const block_takers[] = {"direct", "tiled", NULL};
static const char *const grid_takers[] = {"direct", "tiled", "sparse", NULL};

static bool takes(const char *const *takers, const char *name) {
  while (*takers && strcmp(*takers, name) != 0)
    takers++;
  return *takers != NULL;
}

static bool has_larger_than(const gconv_bench_settings *settings, int32_t size) {
  for (int i = 0; i < settings->size_count; i++)
    if (settings->sizes[i] > size)
      return true;
  return false;
}

/* Says of which algorithms rows that an option makes differ by chance alone. */
static void note_option(const gconv_bench *bench, const char *option, const char *const *takers) {
  const bool on_gpu = strcmp(bench->type_name, "cuda") == 0, large = has_larger_than(bench->settings, 17);
  const gconv_algorithm_info *info;
  char names[256] = "";
  for (size_t i = 0; (info = gconv_algorithm_at(i)); i++) {
    const size_t used = strlen(names);
    const bool taken = on_gpu && takes(takers, info->name);
    const bool partly = taken && large && strcmp(info->name, "direct") == 0; /* direct_bands.cuh has blocks of its own */
    if (strcmp(info->device, bench->type_name) == 0 && is_asked_for(bench->settings, info) && (!taken || partly))
      snprintf(names + used, sizeof names - used, "%s%s%s", used > 0 ? ", " : "", info->name, partly ? " beyond 17x17" : "");
  }
  if (names[0] != '\0')
    gconv_say("note: %s changes nothing of %s", option, names);
}

static int bench_all(gconv_bench *bench) {
  last_group group = {.type = GCONV_U8};
  gconv_bench_print_head(bench);
  if (bench->settings->auto_check) {
    bench->unchecked = true; /* of this mode, only the times are wanted */
    return gconv_bench_auto(bench);
  }
  if (bench->settings->blocks[0].width > 0)
    note_option(bench, "--block", block_takers);
  if (bench->settings->grids[0] > 0)
    note_option(bench, "--grid", grid_takers);
  int status = gconv_bench_walk(bench, visit, &group);
  gconv_bench_print_end(bench);
  int plotted = bench->settings->plot && status != GCONV_EXIT_USAGE ? gconv_bench_plot(bench) : GCONV_EXIT_OK;
  return status == GCONV_EXIT_OK ? plotted : status;
}

/* `experiment` < 0: none. */
static int start(const gconv_bench_settings *settings, int experiment) {
  gconv_bench bench = {.settings = settings, .patience_ms = HUGE_VAL};
  bool ready = gconv_bench_open(&bench, settings->device, settings->threads) && gconv_bench_measure_machine(&bench);
  int exit = !ready ? GCONV_EXIT_FAILED : experiment >= 0 ? gconv_bench_experiment(&bench, experiment) : bench_all(&bench);
  gconv_bench_close(&bench);
  return exit;
}

/* The settings as they were given, checked and completed; false, and said, if they cannot be. */
static bool settle(gconv_bench_settings *settings, int *experiment) {
  gconv_message message;
  gconv_status status = settings->experiment ? check_experiment(settings, &message) : GCONV_OK;
  if (status == GCONV_OK && settings->experiment && !gconv_bench_find_experiment(settings->experiment, experiment))
    return false;
  if (status == GCONV_OK && !gconv_bench_apply_figure(settings))
    return false;
  if (status == GCONV_OK)
    status = check_settings(settings, &message);
  if (status != GCONV_OK) {
    gconv_say("%s", message.text);
    return false;
  }
  if (*experiment < 0)
    fill_settings(settings);
  else if (settings->runs == 0)
    settings->runs = 20;
  return true;
}

static int run(const gconv_command *self, int count, char *const *words) {
  gconv_bench_settings settings = {.plot_kind = -1};
  gconv_texts operands = {0};
  int status, experiment = -1;
  if (!gconv_command_parse(self, count, words, &settings, &operands, &status))
    return status;
  status = gconv_command_refuse(self, &operands);
  if (status == GCONV_EXIT_OK && settings.experiment && strcmp(settings.experiment, "list") == 0)
    fputs(GCONV_BENCH_EXPERIMENTS, stdout);
  else if (status == GCONV_EXIT_OK)
    status = settle(&settings, &experiment) ? start(&settings, experiment) : GCONV_EXIT_USAGE;
  gconv_texts_free(&operands);
  gconv_texts_free(&settings.filters);
  gconv_texts_free(&settings.algorithms);
  return status;
}

const gconv_command gconv_command_bench = {
    .name = "bench",
    .synopsis = "bench [OPTION...]",
    .help = "how fast the algorithms are on this machine, by themselves",
    .details =
        "Times are of the convolution alone, on samples in the memory of the device, without files and transfers; on\n"
        "a GPU they are from events, and inputs are rotated past its caches. A sample is a channel of a pixel. `copy`\n"
        "is the bandwidth used (input read once, output written once) as a part of that of a copy, and `peak` the\n"
        "multiply-adds as a part of the best rate, both measured in the same run; TFLOP/s count the taps as they are\n"
        "written, whatever the algorithm does with them. `error` is the largest difference to float64, in samples of\n"
        "the result, of some of the rows. Several filters in one FILTER are combined to their magnitude.\n\n"
        "Figures:\n" GCONV_BENCH_FIGURES "\nExperiments:\n" GCONV_BENCH_EXPERIMENTS,
    .options = options,
    .run = run,
};

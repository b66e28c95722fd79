/* SPDX-License-Identifier: MIT */
/*
 * The parts of gconv bench: what is measured (bench_inputs.c), measuring (bench_measure.c), auto against the best
 * (bench_auto.c), figures that are known by name (bench_figures.c), reports (bench_report.c) and plots (bench_plot.c); and
 * experiments with layers (bench_experiments.h).
 */
#ifndef GCONV_CLI_BENCH_H
#define GCONV_CLI_BENCH_H

#include "cli/options.h"

#include <jansson.h>

/* ---- What is wanted ---- */

typedef struct gconv_bench_image {
  int32_t width, height, channels;
  bool planar;
} gconv_bench_image;

typedef struct gconv_bench_block {
  int32_t width, height; /* threads; 0 x 0: the algorithm's own */
} gconv_bench_block;

typedef enum gconv_bench_style { GCONV_BENCH_TEXT, GCONV_BENCH_CSV, GCONV_BENCH_JSON } gconv_bench_style;

/* In the order of their names in cmd_bench.c. */
typedef enum gconv_bench_plot_kind {
  GCONV_PLOT_FILTER,
  GCONV_PLOT_IMAGE,
  GCONV_PLOT_BLOCK,
  GCONV_PLOT_GRID,
  GCONV_PLOT_ROOFLINE
} gconv_bench_plot_kind;

enum { GCONV_BENCH_MOST = 64 }; /* images, sizes, blocks, grids */

/* What is measured: every image with every type, filter, block, number of blocks and algorithm. */
typedef struct gconv_bench_settings {
  gconv_bench_image images[GCONV_BENCH_MOST];
  int image_count;
  gconv_type types[3];
  int type_count;
  int32_t sizes[GCONV_BENCH_MOST]; /* of filters of random taps */
  int size_count;
  gconv_bench_block blocks[GCONV_BENCH_MOST];
  int block_count;
  int32_t grids[GCONV_BENCH_MOST]; /* blocks of a grid; 0: the algorithm's own number */
  int grid_count;
  gconv_texts filters, algorithms;
  int runs, threads;
  bool planar, verify, auto_check, sweep_blocks, sweep_grids;
  bool csv, json;
  const char *device, *plot, *figure, *experiment;
  int plot_kind; /* a gconv_bench_plot_kind, or -1: not given */
} gconv_bench_settings;

/* ---- What was found ---- */

/* One algorithm with one filter on one image. */
typedef struct gconv_bench_row {
  const char *algorithm; /* as asked for: "auto" stays auto */
  const char *chosen;    /* what it came to; static storage */
  gconv_bench_image image;
  gconv_type type;
  gconv_bench_block block;
  int32_t grid; /* blocks at most; 0: the algorithm's own number */
  char filter[48];
  int32_t rows, columns;
  double ms; /* the median */
  double samples, bytes, flop, estimate_ms;
  bool checked;
  double error, allowed; /* against float64, in units of the samples of the output */
  char obstacle[256];    /* why it was not measured; "" if it was */
} gconv_bench_row;

/* One run of the command. */
typedef struct gconv_bench {
  const gconv_bench_settings *settings;
  gconv_device *device;
  const char *type_name; /* of the device: "cpu" or "cuda" */
  gconv_machine machine; /* as measured now */
  gconv_bench_row *rows; /* all so far */
  size_t count;
  double patience_ms; /* what is estimated at more is not measured */
  bool unchecked;     /* results are not looked at */
  bool failed;
} gconv_bench;

/* ---- Inputs ---- */

/* An image of random samples, the same for every run of the program. For gconv_image_free(). */
gconv_status gconv_bench_make_image(const gconv_bench_image *shape, gconv_type type, gconv_image *image);

/* A filter of size x size random taps, appended to *filters. */
gconv_status gconv_bench_random_filter(int32_t size, gconv_filters *filters);

/* The input of a layer and its bank. Zero-initialise before first use. */
typedef struct gconv_bench_layer {
  gconv_image in;      /* f32, planar, samples 0 to 1 */
  gconv_image weights; /* whose planes are those of the bank: number k * C + c */
  gconv_bank bank;     /* borrows them; without biases */
} gconv_bench_layer;

/* A layer of `filters` filters of C x size x size, with random taps from -1/2 to 1/2, for `images` random images of `shape`,
 * which is planar. *layer is for gconv_bench_free_layer(), in success and failure. */
gconv_status gconv_bench_make_layer(const gconv_bench_image *shape, int32_t images, int32_t filters, int32_t size,
                                    gconv_bench_layer *layer);
void gconv_bench_free_layer(gconv_bench_layer *layer);

/* ---- Measuring ---- */

/* The median of at least one number; sorts them. */
double gconv_bench_median(double *numbers, int count);

/* `runs`; or fewer, but at least 3, where so many are estimated to take more than a second together. */
int gconv_bench_affordable_runs(double estimate_ms, int runs);

/* The median of `runs` runs, at most; fewer where they take over a second together. *outputs as gconv_plan_measure(). */
gconv_status gconv_bench_time(gconv_plan *plan, const gconv_image *image, gconv_image *outputs, int runs, double *ms);

/* Measures the row whose algorithm, block and shapes are set, and checks the results. What the algorithm cannot do becomes
 * its obstacle; what fails is said, and becomes one, too. */
void gconv_bench_measure(gconv_bench *bench, const gconv_image *image, const gconv_filters *filters, gconv_bench_row *row);

/* The part of an error text of gconv_plan_create() behind the name of the algorithm, which its row shows anyway. */
const char *gconv_bench_obstacle(const char *text);

/* What auto chooses, in static storage; NULL if it fails. Sets how long other algorithms are waited for. */
const char *gconv_bench_ask_auto(gconv_bench *bench, const gconv_image *image, const gconv_filters *filters);

/* Opens a device, for gconv_bench_close(). NULL: $GCONV_DEVICE or auto. False, and said, if it fails, as for the next. */
bool gconv_bench_open(gconv_bench *bench, const char *device, int threads);
bool gconv_bench_measure_machine(gconv_bench *bench);
void gconv_bench_close(gconv_bench *bench);

/* Calls `visit` for every image, type and filter of the grid. The status that the program ends with. */
typedef void gconv_bench_visit(gconv_bench *bench, const gconv_image *image, const gconv_filters *filters,
                               const gconv_bench_row *shape, void *user);
int gconv_bench_walk(gconv_bench *bench, gconv_bench_visit *visit, void *user);

/* Appends a copy of the row to bench->rows and returns it; valid until the next call. NULL without memory. */
const gconv_bench_row *gconv_bench_keep(gconv_bench *bench, const gconv_bench_row *row);

/* ---- auto ---- */

/* For each point of the grid, how far auto is behind the best algorithm. The status that the program ends with: failed where
 * it is too far (bench_auto.c). */
int gconv_bench_auto(gconv_bench *bench);

/* ---- Figures ---- */

/* Completes the settings of a figure; false, and said, if there is none of the name. */
bool gconv_bench_apply_figure(gconv_bench_settings *settings);

/* Lines of text for --help. */
#define GCONV_BENCH_FIGURES                                                                                                 \
  "  filters      time against the size of the filter: 3840x2160x3, u8, 3 to 63\n"                                          \
  "  images       time against the size of the image: 256^2 to 8192^2, f32, 7 x 7\n"                                        \
  "  blocks       time against the block of threads: 4096^2, f32, 7 x 7, direct and tiled\n"                                \
  "  grids        time against the number of blocks: the same\n"                                                            \
  "  large-2048   a filter of 128 x 128 on 2048 x 2048, f32\n"                                                              \
  "  large-1024   a filter of 64 x 64 on 1024 x 1024 x 3, f32\n"                                                            \
  "  roofline     7680x4320x3 planes, f32, 3 to 63: rate against arithmetic intensity\n"

/* ---- Experiments with layers (bench_experiments.h) ---- */

/* False, and said, if there is none of the name. */
bool gconv_bench_find_experiment(const char *name, int *index);

/* Measures and reports it. The status that the program ends with. */
int gconv_bench_experiment(gconv_bench *bench, int index);

/* Lines of text for --help. */
#define GCONV_BENCH_EXPERIMENTS                                                                                             \
  "  batch        time against the batch, 1 to 10 images of 3x128x128 and 3x256x256, 8 to 64 filters, 3x3 and 8x8\n"        \
  "  algorithms   1 to 256 images of 3x128x128, 128 filters of 8x8\n"                                                       \
  "  sizes        time against the size of the filters, 3 to 32: 10 images of 3x256x256, 32 filters\n"                      \
  "  chunks       time against the workspace, 4 MiB to 2 GiB: 256 images of 3x128x128, 128 filters of 8x8\n"

/* ---- Reports and plots ---- */

/* Of tables and CSV; nothing where rows are printed at the end. */
void gconv_bench_print_head(const gconv_bench *bench);
/* Called for each row as it is known; `first` of an image and type. JSON is printed at the end. */
void gconv_bench_print_row(const gconv_bench *bench, const gconv_bench_row *row, bool first);
void gconv_bench_print_end(const gconv_bench *bench);

/* Prints a report, which it owns from then on; NULL: says that there is no memory for it. */
void gconv_bench_print_json(json_t *report);

/* "3840x2160x3 u8 interleaved" */
void gconv_bench_name_image(const gconv_bench_row *row, char *text, size_t size);

/* Whether the file can be plotted to: svg or png. */
gconv_status gconv_bench_check_plot(const gconv_bench_settings *settings, gconv_message *message);

/* Prints a script of gnuplot that draws into `path`. */
typedef void gconv_bench_script(FILE *out, const void *data, const char *path);
/* Draws `plot`, an .svg or .png, or leaves the script in `plot`.gp where there is no gnuplot; says what went wrong. The
 * status that the program ends with. */
int gconv_bench_draw(const char *plot, gconv_bench_script *script, const void *data);
/* For such scripts: the terminal for the extension of `plot`, with `path` as its output; and `text` in quotes. */
void gconv_bench_print_terminal(FILE *out, const char *plot, const char *path, int width, int height);
void gconv_bench_print_quoted(FILE *out, const char *text);

/* Draws the rows; says what went wrong. The status that the program ends with. */
int gconv_bench_plot(const gconv_bench *bench);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Measures how fast the algorithms are by themselves. settings.c and inputs.c choose the work; measure.c and layers.c
 * measure it; bench.c runs all of it; auto.c compares auto with the best; report.c and plot.c report. experiments.c has
 * experiments with layers, tune.c the measurements of gconv tune.
 *
 * Functions that return a gconv_status leave the text of a failure in gconv_last_error().
 */
#pragma once

#include "base/status.h"
#include "bench/profile.h"
#include "gconv_jobs.h"

#include <stdio.h>

/* ---- What is wanted ---- */

typedef struct gconv_bench_image {
  int32_t width, height, channels;
  bool planar;
} gconv_bench_image;

typedef struct gconv_bench_block {
  int32_t width, height; /* threads; 0 x 0: the algorithm's own */
} gconv_bench_block;

enum { GCONV_BENCH_MOST_SIZE = 4096, GCONV_BENCH_MOST_CASES = 1 << 20 }; /* of --sizes */
enum { GCONV_BENCH_MOST = 64 };                                          /* the most images, sizes, blocks or grids */

typedef struct gconv_bench_list {
  int32_t items[GCONV_BENCH_MOST];
  int count;
} gconv_bench_list;

/* The work to measure: every image with every type, filter and algorithm. A part of the settings. */
typedef struct gconv_bench_grid {
  gconv_bench_image images[GCONV_BENCH_MOST];
  int image_count;
  gconv_type types[3];
  int type_count;
  gconv_bench_list sizes;                  /* sizes of filters of random taps */
  gconv_bench_list batches, layer_filters; /* for experiments with layers: numbers of images and of filters */
  gconv_texts filters, algorithms;
  const char *nets; /* of the experiments with backpropagation: "64-63-26,120-120-120"; NULL: their own */
  int32_t columns;  /* for rbf: numbers of a case; 0: the experiment's own */
  int runs;
  bool planar;          /* all images are planes */
  bool verify;          /* all rows of the results are compared with float64 */
  bool several_threads; /* several numbers of threads are measured, so groups of rows name theirs */
} gconv_bench_grid;

typedef struct gconv_bench_settings gconv_bench_settings; /* settings.h */

/* ---- What was found ---- */

/* A row: one algorithm with one filter on one image. In an experiment, it is an algorithm with a layer on a batch of images,
 * or a method with a net. */
typedef struct gconv_bench_row {
  const char *algorithm; /* the name that was asked for, maybe "auto" */
  const char *chosen;    /* the algorithm that this name chose; static storage */
  bool against;          /* measured on the device of --against, with the algorithm that auto chooses there */
  char group[96];        /* the properties that rows of a group share: "3840x2160x3 u8 interleaved" */
  char filter[48];       /* the properties that differ: "random 3x3", "batch 4" */
  char line[64];         /* the line of an experiment's plot that the row belongs to; "": its algorithm's */
  bool everywhere;       /* the row holds for all places along x */
  bool layer;            /* the row measures a layer */
  gconv_bench_image image;
  gconv_type type;
  gconv_bench_block block;
  int32_t grid;            /* the most blocks; 0: the algorithm's own number */
  int32_t images, filters; /* 1, unless it is a layer */
  int32_t rows, columns;   /* rows and columns of a filter */
  int32_t workspace_mib;   /* the most workspace, in MiB; 0: the default */
  int32_t chunk;           /* images of an execution, so that the workspace suffices */
  double workspace_bytes;  /* bytes of the workspace */
  double place;            /* in an experiment: the number along x */
  int32_t threads;         /* threads that do the device's work on the host */
  double ms, spread_ms;    /* the median, and the distance of the quartiles around it */
  double of_copy, of_fma;  /* fractions of the machine's best rates */
  double samples, bytes, flop, estimate_ms;
  double items;          /* in an experiment with nets: cases or windows in the time `ms` */
  bool draws_speed_up;   /* in an experiment with nets: a plot shows speed_up */
  double p50_ms, p99_ms; /* latencies of windows: the median and the 99th percentile; 0: unknown */
  double rate;           /* in an experiment with nets: a plot shows items / ms * rate; 0: it shows ms */
  double drawn;          /* y in a plot; 0: as the fields around say; below 0: the row has no point */
  double speed_up;       /* the time of one core, or of another base, over `ms`; 0: unknown */
  double share;          /* if rows are parts of a run: the part's share of its time, for a plot; 0: unknown */
  bool checked;
  double error, allowed; /* the error against float64, and its limit, in units of output samples */
  gconv_profile profile; /* with --profile */
  char obstacle[256];    /* why it was not measured; "" if it was */
} gconv_bench_row;

/* One run of bench or tune. Set the first five fields, zero all further fields. */
typedef struct gconv_bench {
  const gconv_bench_settings *settings;
  const gconv_bench_grid *grid;       /* grid of the settings */
  FILE *out;                          /* where tables, CSV and JSON go */
  void (*say)(const char *text);      /* gets notes: of failures of parts, and of options without effect */
  void (*progress)(const char *text); /* gets the name of what is measured next; may be NULL */
  gconv_device *device;
  gconv_device *other;      /* the device of --against, once it is open */
  gconv_device *one, *all;  /* for experiments that measure the CPU: one core; all cores, or NULL if there is one */
  gconv_profiler *profiler; /* profiler of `device`, with --profile; else NULL */
  int threads;              /* threads of the device; 0: one for each processor */
  const char *type_name;    /* type name of the device: "cpu" or "cuda" */
  gconv_machine machine;    /* as measured now */
  gconv_bench_row *rows;    /* [count]: all rows so far; owned */
  size_t count;
  double patience_ms;    /* algorithms that are estimated to take longer are not measured */
  bool unchecked;        /* results are not checked */
  int32_t workspace_mib; /* workspace of layers whose row has none; 0: the default */
  bool failed;           /* something failed, and `say` got a text */
  void *user;            /* data of a gconv_bench_visit */
  /* For an experiment with its own methods (gconv_bench_take_words()). items: what it counts, "cases" or "GB"; NULL in other
   * experiments. kind: name of the column after the methods, "net" or "result". base: the method to which speed-ups are
   * relative, "one-core"; "": rows are parts, and have shares. */
  const char *items, *kind, *base;
  bool latencies;         /* its rows have latencies */
  const char *experiment; /* its name; NULL: there is none */
  /* Launches that the user asked for: every block with every grid. Blocks of 0 x 0 threads, and grids of 0 blocks, stand for
   * the method's own. */
  const gconv_bench_block *blocks;
  int block_count;
  const gconv_bench_list *grids;
} gconv_bench;

/* ---- Running ---- */

/* Opens the device, measures the work of the settings with each number of threads, and reports. bench->failed: a row or a
 * demand failed. The caller closes the bench in any case. */
gconv_status gconv_bench_run(gconv_bench *bench);

/* Gives a text to bench->say. */
void gconv_bench_say(const gconv_bench *bench, const char *format, ...) GCONV_PRINTF(2, 3);

/* ---- Inputs ---- */

/* Makes an image of random samples, the same for every run of the program. gconv_image_free() frees it. */
gconv_status gconv_bench_make_image(const gconv_bench_image *shape, gconv_type type, gconv_image *image);

/* Makes numbers in [0, 1), the same for every run of the program. gconv_release() frees them. `what`: for the error text. */
gconv_status gconv_bench_draw_numbers(size_t count, uint64_t seed, const char *what, float **numbers);

/* Returns the numbers that the user gave, if there are any, else `own`, which end before a 0, or after `most`. Sets *count.
 * given: may be NULL. */
const int32_t *gconv_bench_numbers(const gconv_bench_list *given, const int32_t *own, int32_t most, int32_t *count);

/* Appends a filter of size x size random taps to *filters. */
gconv_status gconv_bench_random_filter(int32_t size, gconv_filters *filters);

/* The input of a layer and its bank. Zero-initialise before first use. */
typedef struct gconv_bench_layer {
  gconv_image in;      /* f32, planar, samples 0 to 1 */
  gconv_image weights; /* plane k * C + c is channel c of filter k */
  gconv_bank bank;     /* borrows the weights; without biases */
} gconv_bench_layer;

/* Makes a layer of `filters` filters of C x size x size, with random taps from -1/2 to 1/2, and `images` random images of
 * `shape`, which is planar. Free *layer with gconv_bench_free_layer(), even after a failure. */
gconv_status gconv_bench_make_layer(const gconv_bench_image *shape, int32_t images, int32_t filters, int32_t size,
                                    gconv_bench_layer *layer);
void gconv_bench_free_layer(gconv_bench_layer *layer);

/* Frees an array of results. NULL is allowed. */
void gconv_bench_free_images(gconv_image *images, size_t count);

/* ---- Measuring ---- */

/* Measures a layer, as gconv_bench_measure() measures filters. Results with GCONV_LAYER_VALID and GCONV_LAYER_SAME are
 * checked; with other paddings, bench->unchecked must be set. If the bank has fewer channels, the layer has groups. */
void gconv_bench_measure_layer(gconv_bench *bench, const gconv_bench_layer *data, gconv_layer_padding padding,
                               gconv_bench_row *row);

/* Returns the median of at least one number, and sorts the numbers. */
double gconv_bench_median(double *numbers, int count);

/* Sets the median of at least one time, and the distance of the quartiles around it. Sorts the times. */
void gconv_bench_take_times(gconv_bench_row *row, double *milliseconds, int runs);

/* Returns `runs`, or fewer, but at least 3, if `runs` runs are estimated to take more than a second together. */
int gconv_bench_affordable_runs(double estimate_ms, int runs);

/* Sets the median time of `runs` runs of the plan, and the distance of the quartiles, in the row; runs fewer times if the
 * runs would take more than a second in total. *outputs as for gconv_plan_measure(). */
gconv_status gconv_bench_time(gconv_plan *plan, const gconv_image *image, gconv_image *outputs, int runs,
                              gconv_bench_row *row);

/* With --profile, executes the plan several times more, and sets row->profile. bench->say gets a failure, and the row stays.
 * If counters cannot be read, later rows have no profiles. */
void gconv_bench_profile(gconv_bench *bench, gconv_plan *plan, const gconv_image *image, gconv_bench_row *row);

/* The same for any work: work() must do the same each time, and return at its end. */
void gconv_bench_profile_work(gconv_bench *bench, gconv_status (*work)(void *user), void *user, gconv_bench_row *row);

/* Whether the device has an algorithm for images, or for layers, of this name. */
bool gconv_bench_has_algorithm(const gconv_bench *bench, bool layers, const char *name);

/* Returns an algorithm to measure, for filters or layers, or NULL past the end. The settings name them; otherwise they are
 * all of the device except reference and classics. */
const char *gconv_bench_algorithm_at(const gconv_bench *bench, bool layers, size_t index);

/* If `status` is a failure, stores its text as the row's obstacle. bench->say gets failures other than GCONV_UNSUPPORTED. */
void gconv_bench_take_status(gconv_bench *bench, gconv_bench_row *row, gconv_status status);

/* Measures the row whose algorithm, block and shapes are set, and checks the results. */
void gconv_bench_measure(gconv_bench *bench, const gconv_image *image, const gconv_filters *filters, gconv_bench_row *row);

/* Returns the part of an error text of gconv_plan_create() after the name of the algorithm, which the row shows anyway. */
const char *gconv_bench_obstacle(const char *text);

/* Returns the choice of auto, in static storage; NULL if it fails. Sets the time limit for other algorithms. */
const char *gconv_bench_ask_auto(gconv_bench *bench, const gconv_image *image, const gconv_filters *filters);

/* Opens a device; NULL: $GCONV_DEVICE or auto. gconv_bench_close() closes it. Any failure is GCONV_UNSUPPORTED. */
gconv_status gconv_bench_open(gconv_bench *bench, const char *device, int threads);
gconv_status gconv_bench_measure_machine(gconv_bench *bench);
void gconv_bench_close(gconv_bench *bench);

/* Calls `visit` for every image, type and filter of the grid. GCONV_BAD_ARGUMENT for a filter that cannot be read. */
typedef void gconv_bench_visit(gconv_bench *bench, const gconv_image *image, const gconv_filters *filters,
                               const gconv_bench_row *shape);
gconv_status gconv_bench_walk(gconv_bench *bench, gconv_bench_visit *visit);

/* Appends a copy of the row, with its fractions of the machine's rates, to bench->rows. */
void gconv_bench_keep(gconv_bench *bench, const gconv_bench_row *row);

/* ---- auto ---- */

/* Measures how much slower auto is than the best algorithm at each point. bench->failed: by more than auto.c allows. */
gconv_status gconv_bench_auto(gconv_bench *bench);

/* ---- Tuning ---- */

/* Measures each algorithm on images, filters and layers of several sizes, for later choices of auto: the ratios of measured
 * and estimated times become the tuning of the device, and its file is written. The machine was measured before.
 * bench->failed: something could not be measured, and bench->say got the reason. */
gconv_status gconv_tune(gconv_bench *bench, bool quick);

/* Removes the tuning of the device. */
gconv_status gconv_tune_forget(gconv_device *device);

/* Prints the tuning that is in force for the device. */
void gconv_tune_print(FILE *out, const gconv_device *device);

/* ---- The race: --algorithm all ---- */

typedef struct gconv_race {
  const gconv_batch *batch;     /* the job; the race uses its device, reading, format and --verify */
  const gconv_filters *filters; /* the filters; not used if there are layers */
  const gconv_options *options;
  const gconv_layer *layers; /* NULL: filters */
  size_t layer_count;
  const gconv_network_options *network;
  const char *among; /* names of algorithms, separated by commas; NULL: all of the device */
  const char *path;  /* path of the image */
  FILE *out;         /* where the table goes */
} gconv_race;

/* Runs every algorithm, checks that they agree, and prints a table. *fastest becomes the name of the fastest, in static
 * storage, and `device` the name of the device. Fails, with gconv_last_error(), if none can run or one is wrong. */
gconv_status gconv_race_run(const gconv_race *race, const char **fastest, char device[32]);

/* ---- Figures ---- */

/* Returns the name of a figure, or NULL past the end. */
const char *gconv_bench_figure_at(size_t index);

/* Lines of text for --help. */
#define GCONV_BENCH_FIGURES                                                                                                 \
  "  filters      time against the size of the filter: 3840x2160x3, u8, 3 to 63\n"                                          \
  "  images       time against the size of the image: 256^2 to 8192^2, f32, 7 x 7\n"                                        \
  "  blocks       time against the block of threads: 4096^2, f32, 7 x 7, direct and tiled\n"                                \
  "  grids        time against the number of blocks: the same\n"                                                            \
  "  large-2048   a filter of 128 x 128 on 2048 x 2048, f32\n"                                                              \
  "  large-1024   a filter of 64 x 64 on 1024 x 1024 x 3, f32\n"                                                            \
  "  roofline     7680x4320x3 planes, f32, 3 to 63: rate against arithmetic intensity\n"

/* ---- Experiments with layers and with nets ---- */

/* Returns the name of an experiment, or NULL past the end. */
const char *gconv_bench_experiment_at(size_t index);

/* Measures and reports the experiment of the settings. */
gconv_status gconv_bench_experiment(gconv_bench *bench);

/* Sets bench->items, kind and base. */
void gconv_bench_take_words(gconv_bench *bench);

/* Experiments in files of their own measure for one size (--sizes), and print rows as they come. */
typedef gconv_status gconv_bench_measure_size(gconv_bench *bench, int32_t size);
gconv_bench_measure_size gconv_bench_backprop, gconv_bench_rbf, gconv_bench_steps, gconv_bench_transfers,
    gconv_bench_windows;

/* Measures the figure of the thesis on batched convolution that the settings name; layer-steps is one, too. */
gconv_status gconv_bench_convolution(gconv_bench *bench);
/* Returns gnuplot's commands for the axes of such a figure. */
const char *gconv_bench_convolution_axes(const char *name);

/* Appends a row of an experiment with nets. `status`: of its measurement. Its speed-up is relative to the row of the base,
 * `one-core`, of the same net. */
void gconv_bench_end_row(gconv_bench *bench, gconv_bench_row *row, gconv_status status);

/* Counts a difference between two results in row->error, which keeps the largest; NaN stays. */
void gconv_bench_note_error(gconv_bench_row *row, double difference);

/* Times `runs` calls of work(user, ...), which sets the milliseconds that it took. */
gconv_status gconv_bench_time_runs(gconv_bench_row *row, int runs, gconv_status (*work)(const void *user, double *ms),
                                   const void *user);

/* Opens the device of --against, if there is one (against.c). */
gconv_status gconv_bench_open_other(gconv_bench *bench);
/* Appends a row for a layer on the other device, with the algorithm that auto chooses there. False: there is no such device,
 * or `shape` is of a workspace. */
bool gconv_bench_measure_other(gconv_bench *bench, const gconv_bench_layer *data, gconv_layer_padding padding,
                               const gconv_bench_row *shape);
/* Finds, in the group that begins with row `first`, the place *from along x from which on the best row of the device is
 * faster than the best row of the other device. HUGE_VAL: nowhere. Returns false unless there are rows of both devices. */
bool gconv_bench_overtakes(const gconv_bench *bench, size_t first, double *from);
/* Prints that place for each group: to bench->out or, with CSV, by bench->say(). JSON has it in its document. */
void gconv_bench_report_overtaking(const gconv_bench *bench);
/* Returns the name of the device on which a row was measured. */
const char *gconv_bench_device_of(const gconv_bench *bench, const gconv_bench_row *row);

/* Lines of text for --help. */
#define GCONV_BENCH_EXPERIMENTS                                                                                             \
  "  batch        time against the batch, 1 to 10 images of 3x128x128 and 3x256x256, 8 to 64 filters, 3x3 and 8x8\n"        \
  "  algorithms   1 to 256 images of 3x128x128, 128 filters of 8x8\n"                                                       \
  "  sizes        time against the size of the filters, 3 to 32: 10 images of 3x256x256, 32 filters\n"                      \
  "  chunks       time against the workspace, 4 MiB to 2 GiB: 256 images of 3x128x128, 128 filters of 8x8\n"                \
  "  figure-5.1a  figures of a thesis (docs/theses.md): launches of a 2-D convolution, 3x1024x1024 with 64x64\n"            \
  "  figure-5.1b  the same, 3x2048x2048 with 128x128\n"                                                                     \
  "  figure-5.2   launches of an image a block: 256 images of 3x128x128, 128 filters of 8x8\n"                              \
  "  figure-5.3a  1 to 16 images and as many filters: 3x256x256 with 8x8\n"                                                 \
  "  figure-5.3b  the same, 3x512x512 with 16x16\n"                                                                         \
  "  figure-5.4a  all loops divided, against an image a block: 10 images of 4x128x128, 10 filters of 16x16\n"               \
  "  figure-5.4b  the same, 4x256x256 with 32x32\n"                                                                         \
  "  figure-5.5   patches in one kernel and in two, 1 to 10 images of 3x128x128, filters of 48 KB\n"                        \
  "  figure-5.6   the same, 3x256x256\n"                                                                                    \
  "  figure-5.7   two kernels against all loops divided: 1 to 256 images, 128 filters of 8x8\n"                             \
  "  figure-5.8   counters (--profile): busy units and memory, instructions, waits of three of these kernels\n"             \
  "  figure-5.9   occupancy by registers, threads of a block and shared memory\n"                                           \
  "  figure-5.10  bytes between memories, with a filter of 48 KB in shared memory\n"                                        \
  "  layer-steps  a layer in ten kernels, from an image a block to the one that auto takes\n"                               \
  "  layouts      a layer with images as NCHW, NC/8HW8 and NHWC\n"                                                          \
  "  backprop     an epoch of four nets by the methods of theses and by gconv's trainer; --sizes: cases, 15360\n"           \
  "  mlp-5.2      figures of theses (docs/theses.md): the kernels of an epoch, a gradient a thread\n"                       \
  "  mlp-5.3      the same, a block a case, and four cases\n"                                                               \
  "  mlp-5.5      whole runs of 1000 epochs, with all before and after\n"                                                   \
  "  mlp-5.6      the same, times as fast as one core\n"                                                                    \
  "  mlp-5.7      nets n-n-2, times as fast as one core; --net: others\n"                                                   \
  "  mlp-16       times as fast by the number of cases: derivatives of each case are kept, cuBLAS a case\n"                 \
  "  mlp-17       the same, ms an epoch\n"                                                                                  \
  "  rbf          two rows of the RBF kernel in six layouts, and extrema; --sizes: cases; --columns: 1000\n"                \
  "  steps        convolution in ten kernels, from the plainest to the last; --sizes: side of the image, 8192\n"            \
  "  transfers    batches to a GPU and back, of pageable and pinned memory; --sizes: images of a batch, 1 to 256\n"         \
  "  windows      a stream of 4 million samples in windows of 50 to 400 through S-S-S-S nets; --sizes: windows\n"           \
  "  windows-1a   figures of an article (docs/theses.md): windows of a launch, and threads of a block\n"                    \
  "  windows-1b   length of the windows, 196 a launch\n"                                                                    \
  "  windows-2a   times as fast as all cores\n"                                                                             \
  "  windows-2b   weights with and without the texture units\n"

/* ---- Reports and plots ---- */

/* Prints the head: of tables for each number of threads, of CSV once. Nothing if rows are printed at the end. */
void gconv_bench_print_head(const gconv_bench *bench);
/* Prints the last row as soon as it is known. JSON is printed at the end. */
void gconv_bench_print_row(const gconv_bench *bench);
gconv_status gconv_bench_print_end(const gconv_bench *bench);

/* Returns GCONV_OK if a plot can be drawn into a file of this name, which may be NULL. */
gconv_status gconv_bench_check_plot(const char *file);
/* Names of the kinds of instructions, and of the ways between memories, of a profile; NULL past the end. */
const char *gconv_bench_kind_name(size_t kind);
const char *gconv_bench_path_name(size_t path);
/* The panels of profiles: speed of light of units and memory; instructions by kind; what warps waited for; bytes between
 * memories; occupancy, registers and shared memory; joules; and, computed, the occupancy of other launches. */
enum {
  GCONV_DRAW_BUSY = 1,
  GCONV_DRAW_INSTRUCTIONS = 2,
  GCONV_DRAW_WAITS = 4,
  GCONV_DRAW_BYTES = 8,
  GCONV_DRAW_WARPS = 16,
  GCONV_DRAW_ENERGY = 32,
  GCONV_DRAW_OCCUPANCY = 64,
  GCONV_DRAW_PROFILE = 63 /* what was measured */
};
/* Draws these panels of the profiles of the rows. */
gconv_status gconv_bench_plot_profiles(const gconv_bench *bench, const char *file, int drawn);
/* Draws the rows. `axes`: an experiment's commands for gnuplot; NULL: by settings->plot_kind. */
gconv_status gconv_bench_plot(const gconv_bench *bench, const char *axes, const char *file);
/* Draws the rows, and in FILE-profile.svg their profiles, if there are any. */
gconv_status gconv_bench_draw(const gconv_bench *bench, const char *axes, const char *file, bool profiles);

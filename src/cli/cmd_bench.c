/* SPDX-License-Identifier: MIT */
/* gconv bench: the work is in src/bench. */
#include "base/ending.h"
#include "base/file.h"
#include "base/memory.h"
#include "bench/settings.h"
#include "cli/command.h"
#include "cli/documented.h"
#include "cli/terminal.h"

#include <limits.h>
#include <string.h>

typedef struct bench_settings {
  gconv_common common;
  gconv_bench_settings bench;
} bench_settings;

/* ---- Kinds of values: shapes, and lists of them ---- */

/* Reads the first `length` letters as WxH or, if `most` is 3, as WxHxC. Returns how many numbers they have; 0: neither. */
static int parse_extents(const char *value, size_t length, int most, int32_t *numbers) {
  char text[64];
  if ((size_t)snprintf(text, sizeof text, "%.*s", (int)length, value) >= sizeof text)
    return 0;
  int count = gconv_parse_integers(text, 'x', most, 1, INT32_MAX, numbers);
  return count >= 2 ? count : 0;
}

gconv_status gconv_take_images(const gconv_given *given) {
  gconv_bench_grid *grid = given->field;
  size_t length = strlen(given->value);
  bool planar = length > 0 && given->value[length - 1] == 'p';
  int32_t parts[3] = {0, 0, 1};
  if (parse_extents(given->value, length - planar, 3, parts) == 0)
    return gconv_refuse("this takes WIDTHxHEIGHT or WIDTHxHEIGHTxCHANNELS, such as 3840x2160x3");
  if (grid->image_count == GCONV_BENCH_MOST)
    return gconv_refuse("there are %d images already", GCONV_BENCH_MOST);
  grid->images[grid->image_count++] = (gconv_bench_image){parts[0], parts[1], parts[2], planar};
  return GCONV_OK;
}

/* "all" adds no name: an empty list means all. */
gconv_status gconv_take_algorithms(const gconv_given *given) {
  GCONV_TRY(gconv_option_find_words(given->option, given->value));
  for (const char *at = given->value; *at; at += strcspn(at, ","), at += *at == ',') {
    int length = (int)strcspn(at, ",");
    if ((length != 3 || strncmp(at, "all", 3) != 0) && !gconv_texts_add(given->field, strndup(at, (size_t)length)))
      return gconv_no_memory();
  }
  return GCONV_OK;
}

gconv_status gconv_take_types(const gconv_given *given) {
  gconv_bench_grid *grid = given->field;
  for (const char *at = given->value; *at; at += strcspn(at, ","), at += *at == ',') {
    char word[16];
    int type, known = 0;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
    GCONV_TRY(gconv_option_find_word(given->option, word, &type)); /* in the order of gconv_type */
    while (known < grid->type_count && grid->types[known] != (gconv_type)type)
      known++;
    if (known == grid->type_count)
      grid->types[grid->type_count++] = (gconv_type)type;
  }
  return GCONV_OK;
}

gconv_status gconv_take_sizes(const gconv_given *given) {
  gconv_bench_list *list = given->field;
  list->count = gconv_parse_integers(given->value, ',', GCONV_BENCH_MOST, 1, given->option->most, list->items);
  if (list->count == 0)
    return gconv_refuse("this takes %s", given->option->takes);
  return GCONV_OK;
}

gconv_status gconv_take_blocks(const gconv_given *given) {
  gconv_bench_settings *bench = given->field;
  for (const char *at = given->value; *at; at += strcspn(at, ","), at += *at == ',') {
    int32_t sides[2];
    if (parse_extents(at, strcspn(at, ","), 2, sides) == 0 || bench->block_count == GCONV_BENCH_MOST)
      return gconv_refuse("this takes WIDTHxHEIGHT in threads, such as 32x8 or 16x16,32x4");
    bench->blocks[bench->block_count++] = (gconv_bench_block){sides[0], sides[1]};
  }
  return GCONV_OK;
}

/* Chooses what is swept: the threads of a block, or the blocks of a grid. */
gconv_status gconv_take_sweep(const gconv_given *given) {
  gconv_bench_settings *bench = given->field;
  int index;
  GCONV_TRY(gconv_option_find_word(given->option, given->value, &index));
  *(index == 0 ? &bench->sweep_blocks : &bench->sweep_grids) = true;
  return GCONV_OK;
}

gconv_status gconv_take_file_or_output(const gconv_given *given) {
  *(const char **)given->field = given->value ? given->value : "-";
  return GCONV_OK;
}

/* ---- Options ---- */

static const char *experiment_at(size_t i) {
  return i == 0 ? "list" : gconv_bench_experiment_at(i - 1);
}

static const gconv_synonym type_words[] = {
    {"uint8 8", "u8", NULL}, {"uint16 16", "u16", NULL}, {"float float32 single", "f32", NULL}, {NULL, NULL, NULL}};

#define OPTION(...) GCONV_OPTION(bench_settings, __VA_ARGS__)
static const gconv_option options[] = {
    GCONV_HEADING("What is measured"),
    OPTION(0, "image", "WxH[xC[p]]", images, bench.grid,
           .help = "an image of random samples, interleaved or, with p, as planes; may be repeated; default: 3840x2160x3"),
    OPTION(0, "planar", NULL, flag, bench.grid.planar, .help = "all images as planes"),
    OPTION(0, "type", "TYPE,...", types, bench.grid, .words = "u8|u16|f32", /* gconv_type */
           .synonyms = type_words,
           .help = "samples of input and output: u8 (default), u16 or f32; several with commas between"),
    OPTION(0, "sizes", "N,N...", sizes, bench.grid.sizes, .most = GCONV_BENCH_MOST_CASES,
           .takes = "sizes from 1 to 4096, or numbers of cases, with commas between: 3,5,7",
           .help = "square filters of random taps; default: 3,5,7,9,11,15,31 and three Gaussians, which are separable, "
                   "unless there are filters"),
    OPTION('f', "filter", "FILTER...", filters, bench.grid.filters, .several = true,
           .help = "filters, as for the main job; may be repeated"),
    OPTION('a', "algorithm", "NAME...", algorithms, bench.grid.algorithms, .several = true,
           .word_at = gconv_word_algorithm_at, .lack = gconv_documented_lack,
           .help =
               "auto, or algorithms of the device, also with commas between: direct,fft; may be repeated; all, the default: "
               "all but reference"),
    OPTION(0, "block", "WxH,...", blocks, bench,
           .help = "threads of a block on a GPU, for direct, tiled and the layers to learn from; the others have blocks of "
                   "their own; may be repeated"),
    OPTION(0, "grid", "N,N...", sizes, bench.grids, .most = INT_MAX,
           .takes = "numbers of blocks with commas between: 132,264,528",
           .help = "blocks of a grid on a GPU at most, for direct, tiled, sparse and the layers to learn from"),
    OPTION(0, "sweep", "KIND", sweep, bench, .words = "block|grid",
           .help = "block: the usual blocks, from 8x8 to 256x4; grid: numbers of blocks from 16 to 65536"),
    OPTION(0, "figure", "NAME", name, bench.figure, .word_at = gconv_bench_figure_at,
           .help = "measure one of the figures listed below; other options change what it measures"),
    OPTION(0, "experiment", "NAME", name, bench.experiment, .word_at = experiment_at,
           .excludes = "planar type filter figure verify auto-check plot-kind",
           .excluded = "--experiment measures layers or nets: it takes --image, --sizes, --batches, --filters, --against, "
                       "--block, --grid, --sweep, --algorithm, --device, --threads, --runs, --csv, --json and --plot",
           .help = "layers or nets instead of images; --image, --sizes, --batches, --filters and -a change what is "
                   "measured; `list` lists them"),
    OPTION(0, "batches", "N,N...", sizes, bench.grid.batches, .most = 65536,
           .takes = "numbers of images with commas between: 1,4,16",
           .help = "of experiments with layers: how many images a layer gets"),
    OPTION(0, "filters", "N,N...", sizes, bench.grid.layer_filters, .most = 65536,
           .takes = "numbers of filters with commas between: 8,64",
           .help = "of experiments with layers: how many filters a layer has"),
    OPTION(0, "net", "N-N-N,...", text, bench.grid.nets,
           .help = "of the experiments with backpropagation: nets by their layers' neurons, such as 64-63-26,468-468-2"),
    OPTION(0, "columns", "N", integer, bench.grid.columns, .least = 1, .most = 65536,
           .help = "of the experiment rbf: numbers of a case; default: 1000"),
    OPTION(0, "against", "DEVICE", text, bench.against, .words = "cpu|cuda", .synonyms = gconv_device_words,
           .help = "of experiments with layers: measure this device, too, with the algorithm that auto chooses there, and "
                   "tell where --device overtakes it"),
    GCONV_HEADING("How"),
    GCONV_ANY_DEVICE_ROW,
    OPTION(0, "threads", "N,N...", sizes, bench.threads, .most = GCONV_MOST_THREADS,
           .takes = "numbers of threads with commas between: 1,2,4",
           .help = GCONV_THREADS_HELP "; several are measured in turn"),
    OPTION(0, "runs", "N", integer, bench.grid.runs, .least = 1, .most = 10000,
           .help = "number of runs, whose median is reported; default: 20, and fewer where 20 would take over a second"),
    OPTION(0, "verify", NULL, flag, bench.grid.verify,
           .help = "compare all rows of the results with float64, not just some; slow for large filters"),
    OPTION(0, "profile", NULL, flag, bench.profile,
           .help = "on an NVIDIA GPU, add what its multiprocessors do, by the counters of the hardware: warps and what they "
                   "wait for, busy units, instructions, bytes, joules; with --plot, draw it in FILE-profile.svg"),
    OPTION(0, "auto-check", NULL, flag, bench.auto_check, .excludes = "csv json plot algorithm profile",
           .excluded = "--auto-check compares all algorithms, in a table of its own: leave out --csv, --json, --plot, "
                       "--profile and --algorithm",
           .help = "compare what auto chooses with the best algorithm at every point; fails if it is too far behind"),
    GCONV_HEADING("Reports"),
    OPTION(0, "csv", "[FILE]", file_or_output, bench.csv, .excludes = "json",
           .help = "rows with commas, into FILE.csv; by itself, to standard output"),
    OPTION(0, "json", "[FILE]", file_or_output, bench.json,
           .help = "one JSON document, into FILE.json; by itself, to standard output"),
    OPTION(0, "plot", "FILE", text, common.plot, .help = "also draw the results with gnuplot: FILE.svg or FILE.png"),
    OPTION(0, "plot-kind", "KIND", word, bench.plot_kind,
           .words = "filter|image|block|grid|roofline", /* gconv_bench_plot_kind */
           .help = "time against filter (default), image, block or grid; or a roofline: rate against arithmetic intensity"),
    GCONV_OPTIONS_END,
};

static void begin(void *record) {
  ((bench_settings *)record)->bench.plot_kind = -1;
}

/* ---- The work ---- */

/* Runs the bench. Its report goes to a file with one of these extensions, or, if `path` is NULL or "-", to standard output.
 * The file appears when it is whole. */
static gconv_status run_into(gconv_bench *bench, const char *path, const char *endings) {
  GCONV_FREED char *text = NULL;
  size_t size = 0;
  gconv_sink *sink = NULL;
  if (!path || strcmp(path, "-") == 0)
    return gconv_bench_run(bench);
  GCONV_TRY(gconv_check_ending(path, endings, "this report", ""));
  GCONV_TRY(gconv_sink_open(path, &sink));
  bench->out = open_memstream(&text, &size);
  gconv_status status = bench->out ? gconv_bench_run(bench) : gconv_fail(GCONV_NO_MEMORY, "no memory for the report");
  if (bench->out && fclose(bench->out) != 0 && status == GCONV_OK)
    status = gconv_fail(GCONV_NO_MEMORY, "no memory for the report");
  GCONV_THEN(status, gconv_sink_write(sink, text, size));
  status = gconv_sink_end(sink, status);
  bench->out = stdout;
  return status;
}

static int run(void *record, const gconv_texts *words) {
  bench_settings *all = record;
  gconv_bench_settings *settings = &all->bench;
  settings->device = all->common.device;
  settings->plot = all->common.plot;
  gconv_bench bench = {.settings = settings, .grid = &settings->grid, .out = stdout, .say = gconv_say_text};
  if (settings->experiment && strcmp(settings->experiment, "list") == 0) {
    fputs(GCONV_BENCH_EXPERIMENTS, stdout);
    return GCONV_EXIT_OK;
  }
  for (int i = 0; i < settings->threads.count; i++)
    settings->threads.items[i] = gconv_settle_threads(settings->threads.items[i], false);
  gconv_status status = gconv_bench_settle(settings);
  GCONV_THEN(status, run_into(&bench, settings->csv ? settings->csv : settings->json, settings->csv ? "csv txt" : "json"));
  gconv_bench_close(&bench);
  return gconv_command_end(status, bench.failed);
}

const gconv_command gconv_command_bench = {
    .name = "bench",
    .synopsis = "bench [OPTION...]",
    .help = "how fast the algorithms are on this machine, by themselves",
    .details =
        "Times are of the convolution alone, on samples in the memory of the device, without files and transfers; on\n"
        "a GPU they are from events, and inputs are rotated past its caches. A sample is a channel of a pixel. `copy`\n"
        "is the bandwidth used (input read once, output written once) as a part of that of a copy, and `peak` the\n"
        "multiply-adds as a part of the best rate, both measured in the same run. TFLOP/s count all taps of a filter;\n"
        "algorithms that do fewer multiply-adds, such as separable, have these as effective rates, and no `peak`.\n"
        "`+-` is half the distance of the quartiles of the runs. `error` is the largest difference to float64, in\n"
        "samples of the result, of some of the rows. Several filters in one FILTER are combined to their magnitude.\n"
        "With --profile, `warps` are those resident in a multiprocessor, as a part of the most that it can hold.\n"
        "`waiting for` has the three most frequent reasons why warps issue no instruction, by the names of NVIDIA's\n"
        "tools, with their parts of the time of all warps (docs/kernels.md explains some).\n\n"
        "Figures:\n" GCONV_BENCH_FIGURES "\n`gconv bench --experiment list` lists the experiments;\n"
        "docs/theses.md has the figures of theses among them\n",
    .options = options,
    .record_bytes = GCONV_RECORD_BYTES(bench_settings, common),
    .begin = begin,
    .run = run,
};

/* SPDX-License-Identifier: MIT */
/* gconv stats: numbers of images: mean, range, percentiles, clamped samples, noise, focus. */
#include "base/ending.h"
#include "base/memory.h"
#include "cli/job.h"
#include "cli/learn.h"
#include "cli/sandbox.h"
#include "cli/stats.h"
#include "cli/terminal.h"

static const float usual_percentiles[] = {1, 50, 99};

typedef struct measuring {
  const gconv_stats_settings *settings;
  gconv_inputs inputs;
  gconv_device *device;
  gconv_filters filters;
  gconv_operation *operation; /* with -f; else NULL */
  double percentiles[GCONV_STATS_PERCENTILES];
  gconv_stats_options options;
  gconv_stats_telling telling;
  gconv_tally tally;
  gconv_stats_place *places; /* owned: of the current file */
} measuring;

static void report(size_t index, gconv_status status, const gconv_stats *stats, const char *error, void *user) {
  measuring *m = user;
  if (status == GCONV_OK && !m->settings->values)
    gconv_stats_tell(&m->telling, index, stats);
  else if (status != GCONV_OK)
    gconv_say("%s", error);
  gconv_tally_add(&m->tally, m->inputs.items[index].path, status);
}

/* ---- Results of a filter --------------------------------------------------------------------------------------------- */

/* Makes the operation of one filter, or of a gradient, whose results are floats. */
static gconv_status make_operation(measuring *m) {
  const gconv_stats_settings *s = m->settings;
  gconv_options options = gconv_options_default();
  for (size_t i = 0; i < s->filters.count; i++)
    GCONV_TRY(gconv_filters_read(s->filters.items[i], NULL, &m->filters));
  if (m->filters.count == 0)
    return GCONV_OK;
  if (s->filters.count > 1 || (m->filters.count > 1 && !m->filters.gradient))
    return gconv_refuse("-f: %zu filters: stats measures the result of one, or of a gradient such as sobel",
                        m->filters.count);
  options.border = s->border.given ? s->border.border : GCONV_BORDER_REFLECT101;
  options.border_value = s->border.value;
  options.combine = m->filters.gradient ? GCONV_COMBINE_MAGNITUDE : GCONV_COMBINE_NONE;
  options.sets_type = true;
  options.output_type = GCONV_F32;
  return gconv_operation_filters(&m->filters, &options, &m->operation);
}

/* Prints the samples, or finds where the extremes are. */
static gconv_status look_at_samples(measuring *m, const char *path, const gconv_image *part, double unit,
                                    const gconv_stats *stats) {
  if (m->settings->values)
    gconv_stats_print_values(path, part, unit, stats, m->inputs.count > 1);
  if (!m->settings->where)
    return GCONV_OK;
  GCONV_NEW(m->places, (size_t)part->channels, "out of memory");
  gconv_stats_find_places(part, unit, &m->settings->area, m->places);
  m->telling.places = m->places;
  m->telling.place_count = part->channels;
  return GCONV_OK;
}

/* Measures an image in memory: the result of a filter, or a part. */
static gconv_status measure_in_memory(measuring *m, const char *path, gconv_stats *stats) {
  const gconv_read_options read = {.max_pixels = m->settings->common.max_pixels};
  GCONV_ENDED_BY(gconv_image_free) gconv_image image = {0}, result = {0};
  gconv_image part;
  gconv_plan *plan = NULL;
  gconv_stats_options options = m->options;
  gconv_status status = gconv_image_read(path, &read, &image);
  if (m->operation) {
    options.unit = image.type == GCONV_U8 ? 255 : image.type == GCONV_U16 ? 65535 : 1;
    GCONV_THEN(status, gconv_plan_create(m->device, &image, m->operation, 0, &plan));
    GCONV_THEN(status, gconv_plan_execute(plan, &image, &result, 1, NULL));
  }
  part = m->operation ? result : image;
  GCONV_THEN(status, gconv_stats_cut(path, &m->settings->area, &part));
  GCONV_THEN(status, gconv_image_stats(&(gconv_compared){.image = &part}, &options, stats));
  GCONV_THEN(status, look_at_samples(m, path, &part, options.unit, stats));
  gconv_plan_free(plan);
  return status;
}

/* ---- The whole ------------------------------------------------------------------------------------------------------- */

static gconv_status take_percentiles(measuring *m) {
  const gconv_numbers *given = &m->settings->percentiles;
  const float *items = given->count > 0 ? given->items : usual_percentiles;
  const int count = given->count > 0 ? given->count : (int)(sizeof usual_percentiles / sizeof *usual_percentiles);
  if (count > GCONV_STATS_PERCENTILES)
    return gconv_refuse("--percentiles: %d numbers: give %d at most", count, (int)GCONV_STATS_PERCENTILES);
  for (int i = 0; i < count; i++) {
    if (!(items[i] >= 0 && items[i] <= 100))
      return gconv_refuse("--percentiles %g: give numbers from 0 to 100", (double)items[i]);
    char text[32]; /* the number as it was written: 99.9 is no float */
    snprintf(text, sizeof text, "%.7g", (double)items[i]);
    m->percentiles[i] = atof(text);
  }
  m->options.percentiles = m->telling.percentiles = m->percentiles;
  m->options.percentile_count = m->telling.percentile_count = count;
  return GCONV_OK;
}

static gconv_status prepare(measuring *m, const gconv_texts *words) {
  const gconv_common *common = &m->settings->common;
  const gconv_texts *specs = common->inputs.count > 0 ? &common->inputs : words;
  if (common->inputs.count > 0 && words->count > 0)
    return gconv_refuse("%s: name all images with -i, or all without", words->items[0]);
  if (specs->count == 0)
    return gconv_refuse("stats: name images or folders: gconv stats photos/");
  if (m->settings->csv && common->json)
    return gconv_refuse("--csv and --json exclude each other");
  if (m->settings->values && (m->settings->csv || common->json || common->plot || m->settings->where ||
                              m->settings->channels || m->settings->percentiles.count > 0))
    return gconv_refuse("--values prints the samples alone: leave out --csv, --json, --plot, --where, --channels and "
                        "--percentiles");
  if (common->plot && !gconv_ends_in(common->plot, ".svg"))
    return gconv_refuse("--plot %s: histograms are drawn as SVG: --plot %s.svg", common->plot, common->plot);
  GCONV_TRY(take_percentiles(m));
  GCONV_TRY(gconv_inputs_find_all(specs, common->recursive, "-", &m->inputs));
  if (common->plot)
    GCONV_TRY(gconv_data_check_output("--plot", common->plot, "svg", "a plot", specs));
  gconv_sandbox_file(common, common->plot);
  GCONV_TRY(make_operation(m));
  GCONV_TRY(gconv_device_open("cpu", gconv_settle_threads(common->threads, common->quiet), &m->device));
  m->options.threads = gconv_device_threads(m->device);
  m->options.max_pixels = common->max_pixels;
  m->telling.settings = m->settings;
  m->telling.inputs = &m->inputs;
  m->telling.list = common->json ? json_array() : NULL;
  return GCONV_OK;
}

static gconv_status measure_all(measuring *m) {
  const size_t count = m->inputs.count;
  GCONV_FREED const char **paths = calloc(count + 1, sizeof *paths);
  if (!paths)
    return gconv_no_memory();
  for (size_t i = 0; i < count; i++)
    paths[i] = m->inputs.items[i].path;
  gconv_status status = GCONV_OK;
  const bool in_memory = m->operation || m->settings->area.width > 0 || m->settings->values || m->settings->where;
  if (!in_memory)
    status = gconv_images_stats(paths, count, &m->options, report, m);
  for (size_t i = 0; in_memory && i < count; i++) {
    gconv_stats stats = {0};
    const gconv_status found = measure_in_memory(m, paths[i], &stats);
    report(i, found, &stats, gconv_last_error(), m);
    gconv_stats_free(&stats);
    free(m->places);
    m->places = NULL;
  }
  return status == GCONV_OK ? gconv_stats_tell_end(&m->telling) : status;
}

#define OPTION(...) GCONV_OPTION(gconv_stats_settings, __VA_ARGS__)
static const gconv_option options[] = {
    GCONV_NO_SANDBOX_ROW,
    OPTION('i', "input", "PATH...", texts, common.inputs, .several = true,
           .help = "images, folders and patterns; -i may be left out"),
    OPTION('r', "recursive", NULL, flag, common.recursive, .help = "also search the sub-folders of folders"),
    OPTION('f', "filter", "FILTER", filters, filters,
           .help = "measure the result of this filter, in levels of the input, neither rounded nor clamped"),
    OPTION(0, "border", "MODE", border, border, .word_at = gconv_word_border_at, .synonyms = gconv_border_words,
           .drawing = GCONV_BORDER_DRAWING, .help = "what lies outside the image, for -f; default: reflect101"),
    OPTION(0, "region", "WxH+X+Y", region, area, .also = "roi crop", .near = "rectangle area window",
           .help = "measure only this rectangle, W x H pixels from column X, row Y on"),
    OPTION(0, "values", NULL, flag, values, .also = "print pixels",
           .help = "print the samples themselves, a line a row, in place of statistics; see --region"),
    OPTION(0, "where", NULL, flag, where, .also = "position peak argmax",
           .help = "also tell where the smallest and the largest sample is, the first of equal ones: column, row and frame "
                   "from 0 on"),
    OPTION(0, "percentiles", "P,...", numbers, percentiles, .also = "quantiles percentile",
           .help = "up to 16 percentiles, from 0 to 100; default: 1,50,99"),
    OPTION(0, "channels", NULL, flag, channels, .help = "for several files, print each channel, not only all together"),
    OPTION(0, "csv", NULL, flag, csv, .help = "print CSV: a line of names, then a line for each channel"),
    OPTION(0, "json", NULL, flag, common.json, .help = "print JSON, with histograms; undefined numbers are null"),
    OPTION(0, "plot", "FILE", text, common.plot, .also = "histogram hist",
           .help = "draw the histogram of each image: FILE.svg"),
    GCONV_MAX_PIXELS_ROW(),
    GCONV_THREADS_ROW,
    GCONV_QUIET_ROW,
    GCONV_OPTIONS_END,
};

static int run(void *record, const gconv_texts *words) {
  measuring m = {.settings = record};
  gconv_end_when_unread(m.settings->common.plot);
  gconv_status status = prepare(&m, words);
  int result = GCONV_EXIT_USAGE;
  GCONV_THEN(status, measure_all(&m));
  if (status != GCONV_OK)
    result = gconv_say_end(status);
  else
    result = gconv_output_is_lost() ? GCONV_EXIT_FAILED : gconv_tally_end(&m.tally);
  json_decref(m.telling.list);
  gconv_operation_free(m.operation);
  gconv_filters_free(&m.filters);
  gconv_device_close(m.device);
  gconv_inputs_free(&m.inputs);
  return result;
}

const gconv_command gconv_command_stats = {
    .name = "stats",
    .synopsis = "stats INPUT... [OPTION...]",
    .help = "numbers of images: mean, range, percentiles, clamped samples, noise, focus; of folders, by all cores",
    .details =
        "Values are levels of the file, 0..255 or 0..65535, or its floats. missing counts NaN, infinities and no\n"
        "data; the other numbers leave these out. black and white are the shares of samples at the ends of the range,\n"
        "as clamped ones are. noise is the standard deviation of noise by Immerkaer; noise_mad by Donoho, from the\n"
        "median, which edges disturb less. focus is the variance of the Laplacian: sharp images have more. \"all\" is\n"
        "all colours together, without alpha.\n\n"
        "Exit status: 0, or 1 if no image could be read, 3 if some could not.\n",
    .options = options,
    .record_bytes = GCONV_RECORD_BYTES(gconv_stats_settings, common),
    .words = GCONV_WORDS_FILES,
    .run = run,
};

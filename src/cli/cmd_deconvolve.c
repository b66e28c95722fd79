/* SPDX-License-Identifier: MIT */
/* gconv deconvolve: undoes a blur whose point spread function is known. */
#include "base/folders.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/learn.h"
#include "cli/picture_filter.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"
#include "gconv_science.h"
#include "image/layout.h"

#include <math.h>
#include <string.h>

typedef struct deconvolve_settings {
  gconv_common common;
  const char *psf;
  int method, iterations, depth; /* depth: a gconv_type, or -1: as the input */
  bool accelerate;
  double total_variation, noise, change;
} deconvolve_settings;

static void begin(void *record) {
  deconvolve_settings *settings = record;
  settings->depth = -1;
}

/* ---- The PSF --------------------------------------------------------------------------------------------------------- */

/* Makes a Gaussian with three sigmas, along z, y and x, by filtering a volume with one point in the middle. */
static gconv_status make_solid(gconv_device *device, const char *spec, const double sigmas[3], gconv_filters *psf) {
  int32_t radius[3];
  for (size_t i = 0; i < 3; i++) {
    if (!(sigmas[i] > 0 && sigmas[i] <= 32))
      return gconv_refuse("--psf %s: each sigma is a number of voxels above 0, at most 32", spec);
    radius[i] = (int32_t)ceil(3 * sigmas[i]);
  }
  GCONV_ENDED_BY(gconv_image_free) gconv_image point = {.type = GCONV_F32, .channels = 1};
  GCONV_ENDED_BY(gconv_image_free) gconv_image picture = {0};
  point.frames = 2 * radius[0] + 1;
  point.height = 2 * radius[1] + 1;
  point.width = 2 * radius[2] + 1;
  const gconv_volume_options options = {.plain = gconv_options_default()};
  GCONV_TRY(gconv_image_allocate(&point));
  memset(point.data, 0, point.plane_bytes * (size_t)point.frames);
  ((float *)gconv_row_at(&point, (size_t)radius[0], radius[1]))[radius[2]] = 1;
  GCONV_TRY(gconv_volume_filter(device, &point, spec, &options, &picture));
  return gconv_picture_filter_make(spec, &picture, psf);
}

/* Reads the PSF: a filter as -f takes it, or a picture. */
static gconv_status read_psf(gconv_device *device, const char *spec, gconv_filters *psf) {
  double sigmas[3];
  int end = 0;
  if (sscanf(spec, "gaussian:sigma=%lfx%lfx%lf%n", &sigmas[0], &sigmas[1], &sigmas[2], &end) == 3 && spec[end] == '\0')
    return make_solid(device, spec, sigmas, psf);
  bool taken;
  GCONV_TRY(gconv_picture_filter_read(spec, NULL, psf, &taken));
  if (taken)
    return GCONV_OK;
  return gconv_filters_read(spec, NULL, psf);
}

/* ---- Reports --------------------------------------------------------------------------------------------------------- */

static bool report(const gconv_deconvolve_step *step, void *user) {
  const deconvolve_settings *settings = user;
  if (settings->common.verbose)
    gconv_say("iteration %d of %d: change %.3g, flux %.6f, deviance %.6g", (int)step->iteration, (int)step->count,
              step->change, step->flux, step->deviance);
  else if (!settings->common.quiet && gconv_terminal_can_erase()) {
    char text[96];
    snprintf(text, sizeof text, "%s iteration %d of %d, change %.3g",
             gconv_progress_bar((size_t)step->iteration, (size_t)step->count), (int)step->iteration, (int)step->count,
             step->change);
    gconv_progress_show(text);
  }
  return gconv_interrupted == 0;
}

static void tell(const deconvolve_settings *settings, const gconv_image *image, const gconv_filters *psf,
                 const gconv_deconvolved *told) {
  gconv_progress_hide();
  if (gconv_interrupted)
    gconv_say("stopped: this is the result after iteration %d of %d", (int)told->last.iteration, (int)told->last.count);
  if (settings->common.quiet)
    return;
  if (image->frames > 1 && psf->count == 1)
    gconv_say("%d planes are restored one by one, as the PSF is one plane: a PSF of several restores them as a volume",
              (int)image->frames);
  if (told->psf_negative > 0 && settings->method == GCONV_RICHARDSON_LUCY)
    gconv_say("%llu negative taps of the PSF are taken for 0", (unsigned long long)told->psf_negative);
  const gconv_filter *plane = psf->items;
  if (told->psf_row != (plane->rows - 1) / 2 || told->psf_column != (plane->columns - 1) / 2 ||
      told->psf_plane != ((int)psf->count - 1) / 2)
    gconv_say("the PSF is centred: its centre of mass is nearest to plane %d, row %d, column %d of %zu x %d x %d taps",
              (int)told->psf_plane, (int)told->psf_row, (int)told->psf_column, psf->count, (int)plane->rows,
              (int)plane->columns);
  if (settings->common.verbose && fabs(told->psf_sum - 1) > 1e-6)
    gconv_say("the PSF is divided by its sum, %.6g", told->psf_sum);
  if (told->negative > 0 && settings->method == GCONV_RICHARDSON_LUCY)
    gconv_say("%llu samples below 0 are taken for 0", (unsigned long long)told->negative);
  if (told->missing > 0)
    gconv_say("%llu samples are missing (NaN, infinite or no data), and have no weight", (unsigned long long)told->missing);
}

/* ---- The result ------------------------------------------------------------------------------------------------------ */

/* Replaces an image of floats by one of another type. Prints how many samples are clamped. */
static gconv_status convert(gconv_image *image, gconv_type type, bool quiet) {
  gconv_image made = gconv_header_with(image, type, image->channels, image->planar);
  uint64_t clamped = 0;
  made.alpha = image->alpha;
  if (type == GCONV_F32)
    return GCONV_OK;
  GCONV_TRY(gconv_image_allocate(&made));
  const double white = type == GCONV_U8 ? 255 : 65535;
  for (size_t p = 0; p < gconv_planes_of(image); p++)
    for (int32_t y = 0; y < image->height; y++) {
      const float *from = gconv_row_at(image, p, y);
      void *to = gconv_row_at(&made, p, y);
      for (size_t x = 0; x < gconv_samples_of(image); x++) {
        const double v = rint((double)from[x] * white);
        clamped += v > white || v < 0;
        gconv_store_at(type, to, x, v > white ? white : v > 0 ? v : 0);
      }
    }
  if (clamped > 0 && !quiet)
    gconv_say("%llu samples of the result lie beyond black and white, and are clamped: --depth float keeps them, in formats "
              "that hold floats",
              (unsigned long long)clamped);
  const gconv_status status = gconv_image_copy_metadata(&made, image);
  gconv_image_free(image);
  *image = made;
  return status;
}

static gconv_status write_result(const deconvolve_settings *settings, gconv_type type, gconv_image *result) {
  const gconv_format_info *format = gconv_format_by_path(settings->common.output);
  const gconv_write_options options = {.keep_existing = settings->common.no_clobber};
  if (format)
    type = gconv_format_type(format, type);
  GCONV_TRY(convert(result, type, settings->common.quiet));
  return gconv_image_write(settings->common.output, &options, result);
}

/* ---- The whole ------------------------------------------------------------------------------------------------------- */

static gconv_status check(const deconvolve_settings *settings, const gconv_texts *inputs) {
  const gconv_common *common = &settings->common;
  if (inputs->count != 1)
    return gconv_refuse("deconvolve: name one image: gconv deconvolve IMAGE --psf P -o OUT");
  if (!settings->psf)
    return gconv_refuse("deconvolve: name the point spread function with --psf: a filter file, a built-in filter such as "
                        "gaussian:sigma=2, or a picture of a point");
  if (!common->output)
    return gconv_refuse("deconvolve: name the result with -o");
  GCONV_TRY(gconv_check_is_there(inputs->items[0]));
  if (gconv_is_folder(inputs->items[0]))
    return gconv_refuse("deconvolve: %s is a folder: name one of its images, and each in a run of its own",
                        inputs->items[0]);
  if (!gconv_format_by_path(common->output))
    return gconv_refuse("-o %s: its extension names no image format", common->output);
  if (settings->method == GCONV_WIENER &&
      (settings->accelerate || settings->total_variation > 0 || settings->change > 0 || settings->iterations > 0))
    return gconv_refuse("--method wiener has no iterations: leave out --iterations, --accelerate, --tv and --stop");
  if (settings->method == GCONV_RICHARDSON_LUCY && settings->noise > 0)
    return gconv_refuse("--noise is for --method wiener: leave it out, or choose that method");
  gconv_texts read = {0};
  char *both[] = {inputs->items[0], (char *)settings->psf};
  read.items = both;
  read.count = 2;
  return gconv_outputs_check_filters(&read, false, &(gconv_outputs){.paths = {(char *[]){(char *)common->output}, 1}},
                                     &(gconv_message){0});
}

/* Before the work, refuses a result that its format cannot hold, or whose folder is missing. */
static gconv_status check_result(const deconvolve_settings *settings, const gconv_image *image) {
  const char *path = settings->common.output, *slash = strrchr(path, '/');
  const gconv_format_info *format = gconv_format_by_path(path);
  gconv_image like = *image; /* a header */
  like.data = NULL;
  like.type = gconv_format_type(format, settings->depth >= 0 ? (gconv_type)settings->depth : image->type);
  GCONV_TRY(gconv_format_check(format, &like));
  char *folder = slash && slash > path ? strndup(path, (size_t)(slash - path)) : NULL;
  const bool there = !folder || gconv_is_folder(folder);
  free(folder);
  return there ? GCONV_OK : gconv_refuse("-o %s: the folder to write it in does not exist", path);
}

static gconv_status deconvolve(const deconvolve_settings *settings, const char *path) {
  const gconv_read_options read = {.max_pixels = settings->common.max_pixels};
  gconv_deconvolve_options options = {.method = (gconv_deconvolution)settings->method,
                                      .iterations = settings->iterations,
                                      .accelerated = settings->accelerate,
                                      .total_variation = settings->total_variation,
                                      .change = settings->change,
                                      .noise = settings->noise,
                                      .deviance = settings->common.verbose,
                                      .report = report,
                                      .user = (void *)settings};
  GCONV_ENDED_BY(gconv_filters_free) gconv_filters psf = {0};
  gconv_device *device = NULL;
  GCONV_ENDED_BY(gconv_image_free) gconv_image image = {0}, result = {0};
  gconv_deconvolved told;
  const char *name =
      settings->common.device && strcmp(settings->common.device, "auto") != 0 ? settings->common.device : "cpu";
  gconv_sandbox_file(&settings->common, settings->common.output);
  gconv_status status =
      gconv_device_open(name, gconv_settle_threads(settings->common.threads, settings->common.quiet), &device);
  GCONV_THEN(status, read_psf(device, settings->psf, &psf));
  GCONV_THEN(status, gconv_image_read(path, &read, &image));
  GCONV_THEN(status, check_result(settings, &image));
  gconv_interrupt_catch(true);
  options.psf_planes = psf.count > 1 ? (int32_t)psf.count : 0;
  if (status == GCONV_OK && psf.count > 1 && image.frames < 2)
    status = gconv_refuse("--psf %s: has %zu planes, and the image one: is it a stack of planes?", settings->psf, psf.count);
  GCONV_THEN(status, gconv_deconvolve(device, &image, &psf.items[0], &options, &result, &told));
  if (status == GCONV_OK) {
    tell(settings, &image, &psf, &told);
    status = write_result(settings, settings->depth >= 0 ? (gconv_type)settings->depth : image.type, &result);
  }
  gconv_progress_hide();
  gconv_device_close(device);
  return status;
}

#define OPTION(...) GCONV_OPTION(deconvolve_settings, __VA_ARGS__)
static const gconv_option options[] = {
    GCONV_NO_SANDBOX_ROW,
    OPTION('i', "input", "PATH...", texts, common.inputs, .several = true, .help = "the image; -i may be left out"),
    OPTION(0, "psf", "P", text, psf, .also = "kernel point-spread-function",
           .help = "the point spread function: a filter file, a filter such as gaussian:sigma=2, what gconv fit found, a "
                   "picture of a point, or, for a volume, a stack of planes"),
    OPTION('o', "output", "FILE", once, common.output, .help = "the result, in any format"),
    OPTION(0, "method", "rl|wiener", word, method, .words = "rl|wiener", .also = "algorithm",
           .help = "rl (default): Richardson-Lucy, for counts, never negative; wiener: in one step, by spectra"),
    OPTION('n', "iterations", "N", integer, iterations, .also = "iter num-iter niter", .least = 1, .most = 1000000,
           .help = "iterations of rl, at most; default: 20"),
    OPTION(0, "accelerate", NULL, flag, accelerate, .also = "accelerated",
           .help = "extrapolate from earlier iterations (Biggs and Andrews): some 5 to 10 times fewer are needed"),
    OPTION(0, "tv", "L", from_zero, total_variation, .takes = "a number from 0 on: 0.002", .also = "total-variation",
           .help = "smooth noise by total variation of this weight, such as 0.002"),
    OPTION(0, "stop", "C", from_zero, change, .takes = "a number from 0 on: 0.001", .also = "tolerance",
           .help = "stop when an iteration changes the result by less than this share, such as 0.001"),
    OPTION(0, "noise", "R", positive, noise, .also = "nsr balance",
           .help = "of wiener: the ratio of the power of noise to that of the image; default: 0.01"),
    OPTION(0, "depth", "8|16|float", word, depth, .words = "8|16|float",
           .help = "depth of the result; default: as the image, or what the format holds"),
    OPTION('d', "device", "NAME", text, common.device, .help = "cpu (default) or cuda, cuda:N"),
    OPTION(0, "no-clobber", NULL, flag, common.no_clobber, .help = "keep a result that exists"),
    GCONV_MAX_PIXELS_ROW(),
    GCONV_THREADS_ROW,
    OPTION('v', "verbose", NULL, flag, common.verbose, .help = "print change, flux and deviance of each iteration"),
    GCONV_QUIET_ROW,
    GCONV_OPTIONS_END,
};

static int run(void *record, const gconv_texts *words) {
  deconvolve_settings *settings = record;
  const gconv_texts *inputs = settings->common.inputs.count > 0 ? &settings->common.inputs : words;
  gconv_status status = GCONV_OK;
  if (settings->common.inputs.count > 0 && words->count > 0)
    status = gconv_refuse("%s: there is one image, %s", words->items[0], settings->common.inputs.items[0]);
  GCONV_THEN(status, check(settings, inputs));
  GCONV_THEN(status, deconvolve(settings, inputs->items[0]));
  const int result = gconv_say_end(status);
  gconv_sandbox_tidy();
  gconv_interrupt_end();
  return result;
}

const gconv_command gconv_command_deconvolve = {
    .name = "deconvolve",
    .synopsis = "deconvolve IMAGE --psf P -o OUT [OPTION...]",
    .help = "undo a blur whose point spread function is known: Richardson-Lucy, Wiener",
    .details =
        "The PSF is divided by its sum, and centred at the tap nearest to its centre of mass. Each colour is\n"
        "restored by itself; alpha stays. With a PSF of several planes, the planes of the image are one volume.\n"
        "Edges: rl restores an image that is larger by the PSF, and weighs its pixels by how much of them was seen\n"
        "(Bertero and Boccacci): it assumes nothing of what lies outside. wiener extends the image by its reflection.\n"
        "The flux is kept. Missing samples (NaN, no data) have no weight, and rl fills them.\n"
        "Ctrl-C writes the result so far; a second one ends the program.\n",
    .options = options,
    .record_bytes = GCONV_RECORD_BYTES(deconvolve_settings, common),
    .begin = begin,
    .words = GCONV_WORDS_FILES,
    .run = run,
};

/* SPDX-License-Identifier: MIT */
/* gconv volume: filters of three dimensions, over stacks of planes. `gconv --volume` is another name. */
#include "base/memory.h"
#include "cli/command.h"
#include "cli/job_holes.h"
#include "cli/sandbox.h"
#include "gconv_science.h"

#include <string.h>
#include <unistd.h>

typedef struct volume_settings {
  gconv_common common;
  const char *filter, *strides, *spacing, *algorithm;
  gconv_given_border border;
  gconv_hole_options holes;
  bool flip, named;
  int depth, range; /* depth: a gconv_type, or -1: as the input */
  double scale, offset;
} volume_settings;

static void begin(void *record) {
  volume_settings *settings = record;
  settings->depth = -1;
  settings->scale = 1;
}

/* Parses numbers along z, y and x: N, or ZxYxX. */
static gconv_status parse_three(const char *option, const char *text, double least, double numbers[3]) {
  char one[32];
  for (int axis = 0; axis < 3; axis++) {
    const size_t length = strcspn(text, "x");
    snprintf(one, sizeof one, "%.*s", length < sizeof one ? (int)length : 0, text);
    if (!gconv_parse_number(one, &numbers[axis]) || !(numbers[axis] >= least) || (text[length] == 'x') != (axis < 2)) {
      if (axis > 0 || text[length] != '\0' || !(numbers[0] >= least) || !gconv_parse_number(one, &numbers[0]))
        return gconv_refuse("%s: one number, or three, ZxYxX", option);
      numbers[1] = numbers[2] = numbers[0];
      return GCONV_OK;
    }
    text += length + 1;
  }
  return GCONV_OK;
}

static gconv_status make_options(const volume_settings *s, const gconv_image *weights, gconv_volume_options *options) {
  double strides[3] = {1, 1, 1};
  *options = (gconv_volume_options){.plain = gconv_options_default()};
  gconv_options *plain = &options->plain;
  if (s->strides)
    GCONV_TRY(parse_three("--stride", s->strides, 1, strides));
  if (s->spacing)
    GCONV_TRY(parse_three("--spacing", s->spacing, 1e-9, options->spacing));
  for (int axis = 0; axis < 3; axis++)
    if (!(strides[axis] <= INT32_MAX) || strides[axis] != (double)(int32_t)strides[axis])
      return gconv_refuse("--stride: strides are whole numbers");
  options->stride_z = (int32_t)strides[0];
  plain->stride_y = (int32_t)strides[1];
  plain->stride_x = (int32_t)strides[2];
  plain->border = s->border.border;
  plain->border_value = s->border.value;
  gconv_hole_options_apply(&s->holes, weights, s->border.given, 0, plain);
  plain->flip = s->flip;
  plain->scale = s->scale;
  plain->offset = s->offset;
  plain->range = (gconv_range)s->range;
  plain->algorithm = s->algorithm;
  plain->sets_type = s->depth >= 0;
  if (plain->sets_type)
    plain->output_type = (gconv_type)s->depth;
  return GCONV_OK;
}

static gconv_status check(const volume_settings *s, const gconv_texts *inputs) {
  if (inputs->count != 1)
    return gconv_refuse("volume: %zu inputs: name one file that holds the planes, such as a .npy array Z x H x W",
                        inputs->count);
  if (!s->filter)
    return gconv_refuse("volume: no filter: -f gaussian:sigma=1x2x2, for example (z, y, x)");
  if (!s->common.output)
    return gconv_refuse("volume: no output: -o result.npy");
  if (!gconv_format_by_path(s->common.output) || !gconv_format_by_path(s->common.output)->multiframe)
    return gconv_refuse("-o %s: a volume is written to a file that holds several planes, such as .npy or .tif",
                        s->common.output);
  char *paths[] = {inputs->items[0], (char *)s->filter, (char *)s->holes.weights}, *output = (char *)s->common.output;
  GCONV_TRY(gconv_outputs_check_filters(&(gconv_texts){paths, s->holes.weights ? 3 : 2}, false,
                                        &(gconv_outputs){.paths = {&output, 1}}, &(gconv_message){0}));
  return gconv_hole_options_check(&s->holes, false);
}

static gconv_status filter(const volume_settings *s, const char *input) {
  gconv_device *device = NULL;
  GCONV_ENDED_BY(gconv_image_free) gconv_image weights = {0};
  gconv_volume_options options;
  const char *name = s->common.device && strcmp(s->common.device, "auto") != 0 ? s->common.device : "cpu";
  gconv_status status = gconv_device_open(name, gconv_settle_threads(s->common.threads, s->common.quiet), &device);
  if (status == GCONV_OK && s->holes.weights)
    status = gconv_read_picture(&s->common, "--weights", s->holes.weights, &weights);
  GCONV_THEN(status, make_options(s, &weights, &options));
  GCONV_THEN(status, gconv_volume_filter_file(device, input, s->common.output, s->filter, &options, s->common.memory));
  gconv_device_close(device);
  return status;
}

static int run(void *record, const gconv_texts *words) {
  volume_settings *settings = record;
  const gconv_texts *inputs = settings->common.inputs.count > 0 ? &settings->common.inputs : words;
  gconv_status status = GCONV_OK;
  if (settings->common.inputs.count > 0 && words->count > 0)
    status = gconv_refuse("%s: there is one volume, %s", words->items[0], settings->common.inputs.items[0]);
  GCONV_THEN(status, check(settings, inputs));
  if (status == GCONV_OK && settings->common.no_clobber && access(settings->common.output, F_OK) == 0)
    status = gconv_fail(GCONV_EXISTS, "%s exists, and --no-clobber keeps it", settings->common.output);
  if (status == GCONV_OK) {
    gconv_sandbox_file(&settings->common, settings->common.output);
    status = filter(settings, inputs->items[0]);
  }
  return gconv_say_end(status);
}

#define OPTION(...) GCONV_OPTION(volume_settings, __VA_ARGS__)
#define CHANGES .changes_results = true
#define KEEPS .changes_results = false
static const gconv_option options[] = {
    GCONV_NO_SANDBOX_ROW,
    OPTION('i', "input", "PATH...", texts, common.inputs, .several = true, .help = "the volume; -i may be left out"),
    OPTION(
        'f', "filter", "FILTER", once, filter,
        .help =
            "gaussian:sigma=1x2x2 (z, y, x; also sigma=2um, order=0x0x1 for a derivative, truncate=4), box:size=3, sobel, "
            "gradient, sobel_x, derivative_z, laplacian, log:sigma=2, dog:sigma1=1, or a .npy of K x R x S taps"),
    OPTION('o', "output", "FILE", once, common.output,
           .help = "the result: .npy, .tif, or another format of several images"),
    OPTION(0, "volume", NULL, flag, named, .help = "the name of this command as an option: gconv --volume"),
    OPTION(0, "flip", NULL, flag, flip, .also = "convolve convolution", .help = "mathematical convolution"),
    OPTION(0, "border", "MODE", border, border, .also = "boundary", .word_at = gconv_word_border_at,
           .synonyms = gconv_border_words, .drawing = GCONV_BORDER_DRAWING,
           .help = "what lies outside the volume, also along z; default: zero"),
    GCONV_HOLE_ROWS(""),
    OPTION(0, "stride", "N|ZxYxX", text, strides, .help = "compute every N-th voxel only; default: 1"),
    OPTION(0, "spacing", "N|ZxYxX", text, spacing, .also = "voxel-size",
           .help = "micrometres between voxels, for lengths such as sigma=2um; default: what the file says (TIFF of ImageJ: "
                   "of z, too)"),
    OPTION(0, "scale", "S", number, scale, .help = "multiply responses; default: 1"),
    OPTION(0, "offset", "O", number, offset, .help = "then add this, where 1 is white; default: 0"),
    OPTION(0, "range", "MODE", word, range, .words = "clamp|abs|signed", .help = "clamp (default), abs or signed"),
    OPTION(0, "depth", "8|16|float", word, depth, .words = "8|16|float",
           .help = "depth of the result; default: as the input"),
    OPTION(0, "algorithm", "NAME", text, algorithm,
           .help = "for the steps along planes and lines; direct gives the same bits on any device"),
    OPTION('d', "device", "NAME", text, common.device, .help = "cpu (default) or cuda, cuda:N"),
    OPTION(0, "memory", "N", count, common.memory, .takes = "a number of bytes, such as 1G",
           .help = "bytes that slabs of planes may take, such as 1G"),
    OPTION(0, "no-clobber", NULL, flag, common.no_clobber, .help = "keep a result that exists"),
    GCONV_THREADS_ROW,
    GCONV_QUIET_ROW,
    GCONV_OPTIONS_END,
};

const gconv_command gconv_command_volume = {
    .name = "volume",
    .synopsis = "volume FILE -f FILTER -o OUT [OPTION...]",
    .help = "filter a stack of planes in three dimensions",
    .details =
        "FILE holds the planes along z: a .npy array Z x H x W, a TIFF of several pages. They are read, filtered and\n"
        "written in slabs, so that a volume may be larger than memory. Filters that are products of three lines, such\n"
        "as Gaussians and boxes, go line by line. `gconv --volume -i FILE ...` is the same.\n\n"
        "  gconv volume cells.tif -f gaussian:sigma=0.5x1x1 --border replicate -o smooth.tif\n",
    .options = options,
    .record_bytes = GCONV_RECORD_BYTES(volume_settings, common),
    .begin = begin,
    .words = GCONV_WORDS_FILES,
    .run = run,
};

/* SPDX-License-Identifier: MIT */
#include "cli/filter_options.h"
#include "cli/bank_options.h"
#include "cli/command.h"
#include "cli/numbers.h"
#include "cli/threads.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

enum { LARGEST_EXTENT = 1 << 30 }; /* of strides, dilations and paddings: the library's */

/* ---- Parsers of single options ------------------------------------------------------------------------------------- */

static const char reflect_text[] = "there are two ways to reflect the row  a b c d:\n"
                                   "  symmetric    c b a | a b c d | d c b    the edge twice (scipy's \"reflect\", vips' "
                                   "\"mirror\")\n"
                                   "  reflect101   d c b | a b c d | c b a    the edge once (NumPy's \"reflect\", OpenCV's "
                                   "default, scipy's \"mirror\")";

/* The names of borders elsewhere, and here. */
static const struct {
  const char *word, *name;
} borders_elsewhere[] = {
    {"edge", "replicate"}, {"nearest", "replicate"}, {"copy", "replicate"},   {"extend", "replicate"},
    {"tile", "wrap"},      {"circular", "wrap"},     {"periodic", "wrap"},    {"black", "zero"},
    {"none", "zero"},      {"zeros", "zero"},        {"white", "constant:1"},
};

static gconv_status parse_border(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  gconv_options *options = &((gconv_settings *)settings)->convolution;
  const char *names[GCONV_OPTION_NAMES] = {NULL};
  for (int i = 0; i < GCONV_OPTION_NAMES - 1; i++)
    names[i] = gconv_border_name((gconv_border)i);
  int border = 0;
  for (size_t i = 0; i < sizeof borders_elsewhere / sizeof *borders_elsewhere; i++)
    if (strcmp(value, borders_elsewhere[i].word) == 0)
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "here this is called %s", borders_elsewhere[i].name);
  if (strcmp(value, "reflect") == 0 || strcmp(value, "mirror") == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "%s", reflect_text);
  if (strncmp(value, "constant:", 9) == 0) {
    if (!gconv_parse_number(value + 9, &options->border_value))
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "constant takes a number, such as constant:0.5");
    border = GCONV_BORDER_CONSTANT;
  } else {
    GCONV_TRY(gconv_option_find(names, value, &border, message));
    if (border == GCONV_BORDER_CONSTANT)
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "constant takes a value, such as constant:0.5");
  }
  options->border = (gconv_border)border;
  return GCONV_OK;
}

static gconv_status parse_combine(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  const char *names[GCONV_OPTION_NAMES] = {NULL};
  gconv_settings *all = settings;
  int count = 0, combine = 0;
  for (; gconv_combine_name((gconv_combine)count); count++)
    names[count] = gconv_combine_name((gconv_combine)count);
  names[count] = "mosaic";
  GCONV_TRY(gconv_option_find(names, value, &combine, message));
  all->mosaic = combine == count;
  all->convolution.combine = all->mosaic ? GCONV_COMBINE_NONE : (gconv_combine)combine;
  if (all->mosaic || combine == GCONV_COMBINE_ARGMAX)
    gconv_bank_settings(option, settings);
  return GCONV_OK;
}

/* Pixels around: N, Y,X or TOP,BOTTOM,LEFT,RIGHT, into the options of images and of layers. */
static gconv_status parse_pads(const char *value, gconv_settings *settings, gconv_message *message) {
  gconv_options *options = &settings->convolution;
  gconv_layer *layer = &settings->layer;
  int32_t pad[4];
  int count = gconv_parse_integers(value, 4, 0, LARGEST_EXTENT, pad);
  if (count == 0 || count == 3)
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "this takes same, valid, full, or pixels up to %d: N, Y,X or TOP,BOTTOM,LEFT,RIGHT; of banks also "
                          "same-upper and same-lower",
                          LARGEST_EXTENT);
  options->padding = GCONV_PADDING_EXPLICIT;
  layer->padding = GCONV_LAYER_EXPLICIT;
  options->pad_top = layer->pad_top = pad[0];
  options->pad_bottom = layer->pad_bottom = count == 4 ? pad[1] : pad[0];
  options->pad_left = layer->pad_left = count == 4 ? pad[2] : pad[count - 1];
  options->pad_right = layer->pad_right = count == 4 ? pad[3] : pad[count - 1];
  return GCONV_OK;
}

static gconv_status parse_padding(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  static const char *const names[] = {"same", "valid", "full", "same-upper", "same-lower"};
  static const gconv_layer_padding of_layer[] = {GCONV_LAYER_SAME, GCONV_LAYER_VALID, GCONV_LAYER_FULL,
                                                 GCONV_LAYER_SAME_UPPER, GCONV_LAYER_SAME_LOWER};
  gconv_settings *all = settings;
  for (int i = 0; i < 5; i++)
    if (strcmp(names[i], value) == 0) {
      all->layer.padding = of_layer[i];
      if (i < 3) /* in the order of gconv_padding */
        all->convolution.padding = (gconv_padding)i;
      else
        gconv_bank_settings(option, settings);
      return GCONV_OK;
    }
  return parse_pads(value, all, message);
}

/* N or Y,X, from 1 to LARGEST_EXTENT, into two int32_t: y, x. */
static gconv_status parse_steps(const char *value, int32_t *y, int32_t *x, gconv_message *message) {
  int32_t steps[2];
  int count = gconv_parse_integers(value, 2, 1, LARGEST_EXTENT, steps);
  if (count == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes one or two integers from 1 to %d: N or Y,X",
                          LARGEST_EXTENT);
  *y = steps[0];
  *x = steps[count - 1];
  return GCONV_OK;
}

static gconv_status parse_stride(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  gconv_options *options = &((gconv_settings *)settings)->convolution;
  gconv_layer *layer = &((gconv_settings *)settings)->layer;
  GCONV_TRY(parse_steps(value, &layer->stride_y, &layer->stride_x, message));
  options->stride_y = layer->stride_y;
  options->stride_x = layer->stride_x;
  return GCONV_OK;
}

static gconv_status parse_dilation(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  gconv_options *options = &((gconv_settings *)settings)->convolution;
  gconv_layer *layer = &((gconv_settings *)settings)->layer;
  GCONV_TRY(parse_steps(value, &layer->dilation_y, &layer->dilation_x, message));
  options->dilation_y = layer->dilation_y;
  options->dilation_x = layer->dilation_x;
  return GCONV_OK;
}

static gconv_status parse_format(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  const gconv_format_info *format = gconv_format_by_name(value);
  if (format && format->writes) {
    ((gconv_settings *)settings)->format = format;
    return GCONV_OK;
  }
  const char *names[32] = {NULL};
  size_t count = 0;
  for (size_t i = 0; count < 31 && (format = gconv_format_at(i)); i++)
    if (format->writes)
      names[count++] = format->name;
  int index;
  return gconv_option_find(names, value, &index, message);
}

/* The algorithms for images, then those for layers; NULL past the end. */
static const gconv_algorithm_info *algorithm_at(size_t index) {
  size_t images = 0;
  while (gconv_algorithm_at(images))
    images++;
  return index < images ? gconv_algorithm_at(index) : gconv_layer_algorithm_at(index - images);
}

static gconv_status parse_algorithm(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  const gconv_algorithm_info *algorithm;
  const char *names[64] = {"auto", "all"};
  size_t count = 2;
  for (size_t i = 0; (algorithm = algorithm_at(i)); i++) {
    size_t known = 0;
    while (known < count && strcmp(names[known], algorithm->name) != 0)
      known++;
    if (known == count && count < 63)
      names[count++] = algorithm->name;
  }
  int index;
  GCONV_TRY(gconv_option_find(names, value, &index, message));
  ((gconv_settings *)settings)->race = index == 1;
  ((gconv_settings *)settings)->algorithm_given = true;
  ((gconv_settings *)settings)->convolution.algorithm = index == 1 ? "auto" : names[index];
  return GCONV_OK;
}

static bool is_algorithm(const char *name, size_t length) {
  const gconv_algorithm_info *algorithm;
  for (size_t i = 0; (algorithm = algorithm_at(i)); i++)
    if (strlen(algorithm->name) == length && strncmp(algorithm->name, name, length) == 0)
      return true;
  return false;
}

static gconv_status parse_without(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  for (const char *name = value; *name;) {
    size_t length = strcspn(name, ",");
    if (!is_algorithm(name, length))
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "there is no algorithm '%.*s': gconv algorithms lists them",
                            (int)length, name);
    name += length + (name[length] == ',');
  }
  ((gconv_settings *)settings)->convolution.without = value;
  return GCONV_OK;
}

/* "0", "0,2" or "all". */
static bool are_gpus(const char *value) {
  enum { MOST_NUMBERS = 64 };
  int32_t numbers[MOST_NUMBERS];
  int count = strcmp(value, "all") == 0 ? 0 : gconv_parse_integers(value, MOST_NUMBERS, 0, INT_MAX, numbers);
  for (int i = 0; i < count; i++)
    for (int k = 0; k < i; k++)
      if (numbers[i] == numbers[k])
        return false;
  return count > 0 || strcmp(value, "all") == 0;
}

gconv_status gconv_parse_device(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  static const char *const names[] = {"auto", "cpu", "cuda", NULL};
  bool numbered = strncmp(value, "cuda:", 5) == 0;
  if (numbered && !are_gpus(value + 5))
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "cuda takes the number of a GPU, such as cuda:0, or several, such as cuda:0,2, or all of them: "
                          "cuda:all");
  if (strcasecmp(value, "gpu") == 0 || strcasecmp(value, "nvidia") == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "here this is called cuda");
  int index;
  if (!numbered)
    GCONV_TRY(gconv_option_find(names, value, &index, message));
  ((gconv_settings *)settings)->device = value;
  return GCONV_OK;
}

static gconv_status parse_max_pixels(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  if (!gconv_parse_count(value, &((gconv_settings *)settings)->max_pixels))
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes a number of pixels, such as 500M (there are k, M and G)");
  return GCONV_OK;
}

static gconv_status parse_workspace(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  uint64_t bytes;
  if (!gconv_parse_count(value, &bytes) || bytes == 0 || bytes > SIZE_MAX / 2)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes a number of bytes, such as 256M (there are k, M and G)");
  ((gconv_settings *)settings)->convolution.workspace_bytes = (size_t)bytes;
  return GCONV_OK;
}

static gconv_status parse_shard(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  return gconv_shard_parse(value, &((gconv_settings *)settings)->shard, message);
}

static gconv_status parse_memory(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  uint64_t bytes;
  if (!gconv_parse_count(value, &bytes) || bytes == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes a number of bytes, such as 2G (there are k, M and G)");
  ((gconv_settings *)settings)->memory = bytes;
  return GCONV_OK;
}

static gconv_status parse_timings(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  static const char *const styles[] = {"table", "json", NULL};
  (void)option;
  int style = 0;
  if (value)
    GCONV_TRY(gconv_option_find(styles, value, &style, message));
  ((gconv_settings *)settings)->timings = GCONV_TIMINGS_TABLE + style;
  return GCONV_OK;
}

static gconv_status parse_verify(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  gconv_settings *all = settings;
  all->verify = true;
  if (value && (!gconv_parse_number(value, &all->tolerance) || all->tolerance < 0))
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes the largest difference allowed, from 0 on");
  return GCONV_OK;
}

static gconv_status parse_range(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  ((gconv_settings *)settings)->tone_given = true;
  return gconv_option_choice(option, value, settings, message);
}

/* ---- The table ----------------------------------------------------------------------------------------------------- */

static const char *const depths[] = {"8", "16", "float", NULL};                      /* gconv_type */
static const char *const alphas[] = {"keep", "filter", "premultiply", "drop", NULL}; /* gconv_alpha */
static const char *const decoders[] = {"cpu", "gpu", "auto", NULL};                  /* gconv_decoder */
static const char *const ranges[] = {"clamp", "abs", "signed", "minmax", NULL};      /* gconv_range */

#define FIELD(name) offsetof(gconv_settings, name)

#define OPTION(letter_, name_, value_, parse_, ...)                                                                         \
  { .letter = letter_, .name = name_, .value = value_, .parse = parse_, __VA_ARGS__ }

const gconv_option gconv_filter_options[] = {
    OPTION('i', "input", "PATH...", gconv_option_texts, .also = "image images source src", .field = FIELD(inputs),
           .several = true, .group = "Input",
           .help = "images, folders, quoted patterns such as 'shots/*.png', or - for standard input; may be repeated"),
    OPTION('r', "recursive", NULL, gconv_option_flag, .field = FIELD(recursive),
           .help = "also search the sub-folders of folders"),
    OPTION('f', "filter", "FILTER...", gconv_option_texts, .also = "kernel mask", .field = FIELD(filters), .several = true,
           .help = "files, built-in filters such as gaussian:size=9,sigma=2 (gconv filters lists them), arrays such as "
                   "'[0 -1 0; -1 5 -1; 0 -1 0]' or '1/4*[[1, 1], [1, 1]]', or ImageMagick kernels such as "
                   "'3x3: 0,-1,0 -1,5,-1 0,-1,0'; may be repeated"),
    OPTION(
        0, "filter-format", "SYNTAX", gconv_option_text, .field = FIELD(syntax),
        .help =
            "the syntax of filter files: matrix, vips, imagemagick, opencv, array or npy; of banks: bank, npy, safetensors "
            "or onnx; default: recognised by content"),
    OPTION(0, "max-pixels", "N", parse_max_pixels,
           .help = "refuse larger images; k, M and G may follow; default: 1073741824"),

    OPTION('o', "output", "PATH", gconv_option_text_once, .also = "dest destination", .field = FIELD(output),
           .group = "Output",
           .help = "a file, a folder (existing, or ending in /), a template with {stem}, {filter}, {index} or {frame}, or - "
                   "for standard output; braces of a name are doubled: {{ and }}"),
    OPTION(
        0, "format", "NAME", parse_format,
        .help =
            "the file format of the results, of those listed below; default: by the extension of the output, otherwise png"),
    OPTION(0, "depth", "8|16|float", gconv_option_choice, .also = "bits type dtype", .field = FIELD(depth),
           .choices = depths, .help = "the sample type of the results; default: that of the input, if the format has it"),
    OPTION(0, "png-level", "N", gconv_option_integer, .also = "compression level", .field = FIELD(png_level), .least = 0,
           .most = 9, .help = "compression of PNG: 0 (none), 1 (fast, the default) to 9 (small)"),
    OPTION(0, "jpeg-quality", "N", gconv_option_integer, .also = "quality", .field = FIELD(jpeg_quality), .least = 1,
           .most = 100, .help = "quality of JPEG, from 1 to 100; default: 90"),
    OPTION(0, "no-clobber", NULL, gconv_option_flag, .also = "no-overwrite keep-existing", .field = FIELD(no_clobber),
           .help = "keep existing results, and count them as failed; default: replace them"),
    OPTION(0, "skip-existing", NULL, gconv_option_flag, .field = FIELD(skip_existing),
           .help = "skip results that exist, whatever they contain"),
    OPTION(
        0, "resume", NULL, gconv_option_flag, .field = FIELD(resume),
        .help =
            "continue an interrupted run: record finished results in .gconv-manifest beside them, and skip those that still "
            "match it, made from the same input with the same filters and options"),
    OPTION(
        0, "shard", "I/N|auto", parse_shard,
        .help =
            "process only part I of N of the images, chosen by a hash of their paths, so that machines can share a folder; "
            "auto and auto/N follow the variables of Slurm arrays and indexed Kubernetes jobs"),

    OPTION(0, "flip", NULL, gconv_option_flag, .also = "convolve convolution rotate", .field = FIELD(convolution.flip),
           .group = "Convolution",
           .help = "mathematical convolution: rotate the filter by 180 degrees; default: correlation"),
    OPTION(0, "border", "MODE", parse_border, .also = "edge boundary",
           .help = "what lies outside the image: zero (default), constant:V, replicate, symmetric, reflect101 or wrap"),
    OPTION(0, "padding", "MODE", parse_padding,
           .help = "the size of the result: same (default), valid, full, or pixels to pad by: N, Y,X or T,B,L,R"),
    OPTION(0, "stride", "N|Y,X", parse_stride, .help = "compute every N-th pixel only; default: 1"),
    OPTION(0, "dilation", "N|Y,X", parse_dilation, .help = "distance between neighbouring taps, in pixels; default: 1"),
    OPTION(0, "gray", NULL, gconv_option_flag, .also = "grey grayscale greyscale mono", .field = FIELD(convolution.gray),
           .help = "convert to grey first: 0.299 R + 0.587 G + 0.114 B"),
    OPTION(0, "linear", NULL, gconv_option_flag, .also = "gamma srgb", .field = FIELD(convolution.linear),
           .help = "filter in linear light: undo the sRGB curve before, redo it after"),
    OPTION(0, "alpha", "MODE", gconv_option_choice, .field = FIELD(alpha), .choices = alphas,
           .help = "keep (default): alpha is copied; filter: filtered like the other channels; premultiply: colours are "
                   "weighted by it; drop: left out"),
    OPTION(
        0, "combine", "MODE", parse_combine, .also = "merge reduce",
        .help =
            "several filters give: none (default), a result each; magnitude, sum, max or stack, one result of all; of banks "
            "also argmax, a map of the strongest response, and mosaic, one picture of all"),
    OPTION(0, "scale", "S", gconv_option_number, .field = FIELD(convolution.scale),
           .help = "multiply responses by S; default: 1"),
    OPTION(0, "offset", "O", gconv_option_number, .also = "bias", .field = FIELD(convolution.offset),
           .help = "then add O, where 1 is white; default: 0"),
    OPTION(0, "range", "MODE", parse_range, .field = FIELD(range), .choices = ranges,
           .help = "how values below 0 and above white are mapped: clamp (default), abs, signed (0 is mid-grey) or minmax"),

    OPTION(0, "then", NULL, gconv_parse_then, .also = "chain next", .group = "Banks (layers)",
           .help =
               "ends the description of a layer: the filters before it are a bank, applied with the stride, padding, "
               "--algorithm ... given before it; what follows describes the layer applied to its outputs; --algorithm after "
               "the last --then also counts for layers without one of their own"),
    OPTION(0, "groups", "G", gconv_parse_groups,
           .help =
               "divide filters and channels into G groups; default: as the file says, otherwise 1; a bank of one channel is "
               "applied to each channel separately"),
    OPTION(0, "activation", "NAME", gconv_parse_activation,
           .help = "applied to the sums: none (default), relu, leaky:A, sigmoid or tanh"),
    OPTION(0, "mean", "M[,M...]", gconv_parse_mean,
           .help = "subtracted from the samples of each channel, where 1 is white; default: 0"),
    OPTION(0, "std", "S[,S...]", gconv_parse_std, .help = "samples are then divided by it; default: 1"),
    OPTION(0, "math", "MODE", gconv_parse_math,
           .help =
               "precision to which products may be rounded: fp32 (default), tf32, fp16 or bf16, on GPUs that gain by it"),
    OPTION(0, "batch", "N", gconv_parse_batch, .help = "images of one size to compute together; default: as memory allows"),
    OPTION(0, "layout", "nchw|nhwc", gconv_parse_layout,
           .help = "the order of the axes of .npy arrays of four dimensions; default: nchw"),

    OPTION('a', "algorithm", "NAME", parse_algorithm, .group = "How it is computed",
           .help = "auto (default), one that gconv algorithms lists, or all: a race of all on one image, which must agree; "
                   "the result is that of the fastest"),
    OPTION(0, "without", "NAMES", parse_without,
           .help = "algorithms that auto, or the race of all, must not use, separated by commas"),
    OPTION(0, "workspace", "SIZE", parse_workspace,
           .help = "memory that an algorithm may use besides the images, on a GPU, and for banks also on the CPU; k, M and "
                   "G may follow; default: 268435456"),
    OPTION('d', "device", "NAME", gconv_parse_device, .also = "gpu cuda backend",
           .help =
               "auto (default: a GPU if the job is done sooner with it), cpu, cuda, cuda:N, or several GPUs, over which the "
               "images are distributed: cuda:0,2 or cuda:all; without this option, $GCONV_DEVICE counts"),
    OPTION(0, "decode", "cpu|gpu|auto", gconv_option_choice, .field = FIELD(decode), .choices = decoders,
           .help = "gpu: decode baseline JPEGs with the GPU's JPEG engines, by nvJPEG; the pixels are the same; "
                   "auto: so where no device is asked for and that is sooner done; default: cpu"),
    OPTION(0, "threads", "N", gconv_option_integer, .also = "cores cpus", .field = FIELD(threads), .least = 1,
           .most = GCONV_MOST_THREADS, .help = GCONV_THREADS_HELP),
    OPTION(0, "jobs", "N", gconv_option_integer, .also = "workers parallel", .field = FIELD(jobs), .least = 1, .most = 4096,
           .help =
               "number of images to process at a time, on the CPU no more than threads; default: as many as threads, where "
               "a GPU decodes half as many more"),
    OPTION(0, "memory", "SIZE", parse_memory,
           .help = "memory of the host that images in progress may use in all; k, M and G may follow; default: half of it"),
    OPTION(0, "fail-fast", NULL, gconv_option_flag, .field = FIELD(fail_fast),
           .help = "start no further image after a failure; default: report it and continue"),

    OPTION(0, "dry-run", NULL, gconv_option_flag, .field = FIELD(dry_run), .group = "Reports",
           .help = "print what would be read and written, and do nothing else"),
    OPTION(0, "timings", "[=table|json]", parse_timings, .also = "time times profile",
           .help = "print where the time went, for each image and in total"),
    OPTION(0, "verify", "[=TOL]", parse_verify, .field = 0,
           .help = "recompute everything in float64; an image whose error exceeds the stated bound, or TOL in units of the "
                   "result's samples, fails and is not written"),
    OPTION(0, "explain", NULL, gconv_option_flag, .field = FIELD(explain),
           .help = "print the device and algorithm chosen for the first image, and why"),
    OPTION('v', "verbose", NULL, gconv_option_flag, .field = FIELD(verbose),
           .help = "also print remarks: how names were interpreted, what was used for each image"),
    OPTION('q', "quiet", NULL, gconv_option_flag, .field = FIELD(quiet),
           .help = "print only errors: no warnings, no progress"),
    GCONV_OPTIONS_END,
};

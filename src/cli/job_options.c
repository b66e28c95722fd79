/* SPDX-License-Identifier: MIT */
/* The options of the main job, in the order of --help, and the kinds of values that no other command has. */
#include "cli/documented.h"
#include "cli/job.h"
#include "cli/job_settings.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The largest stride, dilation and padding, as in the library, and the largest number of a region. */
enum { LARGEST_EXTENT = 1 << 30 };

/* ---- Kinds of values ----------------------------------------------------------------------------------------------- */

static gconv_job_settings *settings_of(const gconv_given *given) {
  return given->record;
}

gconv_status gconv_take_alpha(const gconv_given *given) {
  settings_of(given)->job.alpha_meant = true;
  return gconv_take_word(given);
}

/* Parses pixels around the image: N, Y,X or TOP,BOTTOM,LEFT,RIGHT. */
static gconv_status parse_pads(const char *value, int most, gconv_layer *layer) {
  int32_t pad[4];
  int count = gconv_parse_integers(value, ',', 4, 0, most, pad);
  if (count == 0 || count == 3)
    return gconv_refuse("this takes same, valid, full, or pixels up to %d: N, Y,X or TOP,BOTTOM,LEFT,RIGHT; of banks also "
                        "same-upper and same-lower",
                        most);
  layer->padding = GCONV_LAYER_EXPLICIT;
  layer->pad_top = pad[0];
  layer->pad_bottom = count == 4 ? pad[1] : pad[0];
  layer->pad_left = count == 4 ? pad[2] : pad[count - 1];
  layer->pad_right = count == 4 ? pad[3] : pad[count - 1];
  return GCONV_OK;
}

gconv_status gconv_take_padding(const gconv_given *given) {
  static const gconv_layer_padding paddings[] = {GCONV_LAYER_SAME, GCONV_LAYER_VALID, GCONV_LAYER_FULL,
                                                 GCONV_LAYER_SAME_UPPER, GCONV_LAYER_SAME_LOWER};
  gconv_layer *layer = given->field;
  int index;
  if (gconv_option_find_word(given->option, given->value, &index) != GCONV_OK)
    return parse_pads(given->value, given->option->most, layer);
  layer->padding = paddings[index];
  bool of_banks = layer->padding == GCONV_LAYER_SAME_UPPER || layer->padding == GCONV_LAYER_SAME_LOWER;
  if (of_banks && !settings_of(given)->of_banks)
    settings_of(given)->of_banks = given->option->name;
  return GCONV_OK;
}

void gconv_print_padding(FILE *out, const void *field) {
  const gconv_layer *layer = field;
  fprintf(out, "%d %d %d %d %d", (int)layer->padding, layer->pad_top, layer->pad_left, layer->pad_bottom, layer->pad_right);
}

gconv_status gconv_take_activation(const gconv_given *given) {
  gconv_layer *layer = given->field;
  double slope = 0;
  int index;
  bool leaky = strncmp(given->value, "leaky:", 6) == 0, sigmoid = strncmp(given->value, "sigmoid:", 8) == 0;
  const char *word = leaky ? "leaky" : sigmoid ? "sigmoid" : given->value;
  if (leaky && !gconv_parse_float(given->value + 6, &slope))
    return gconv_refuse("leaky takes the slope for numbers below 0, such as leaky:0.1");
  if (sigmoid && (!gconv_parse_float(given->value + 8, &slope) || slope == 0))
    return gconv_refuse("sigmoid takes its slope, which is not 0, such as sigmoid:0.5");
  GCONV_TRY(gconv_option_find_word(given->option, word, &index));
  layer->activation = (gconv_activation)index;
  layer->slope = !leaky && index == GCONV_ACTIVATION_LEAKY ? 0.01F : (float)slope;
  return GCONV_OK;
}

void gconv_print_activation(FILE *out, const void *field) {
  const gconv_layer *layer = field;
  fprintf(out, "%d %a", (int)layer->activation, (double)layer->slope);
}

gconv_status gconv_take_then(const gconv_given *given) {
  return gconv_job_settings_begin_layer(settings_of(given));
}

gconv_status gconv_take_format(const gconv_given *given) {
  gconv_naming *naming = given->field;
  const gconv_format_info *format = gconv_format_by_name(given->value); /* also finds other names of a format */
  int index;
  naming->same = strcmp(given->value, "same") == 0;
  settings_of(given)->rows = strcmp(given->value, "csv") == 0     ? GCONV_ROWS_CSV
                             : strcmp(given->value, "f32le") == 0 ? GCONV_ROWS_F32LE
                                                                  : GCONV_ROWS_UNKNOWN;
  if (settings_of(given)->rows != GCONV_ROWS_UNKNOWN) {
    naming->format = NULL;
    return GCONV_OK;
  }
  if (!naming->same && (!format || !format->writes))
    return gconv_option_find_word(given->option, given->value, &index);
  naming->format = naming->same ? NULL : format;
  return GCONV_OK;
}

void gconv_print_format(FILE *out, const void *field) {
  const gconv_naming *naming = field;
  fputs(naming->same ? "same" : naming->format ? naming->format->name : "", out);
}

/* Takes a name, or several with commas between, for a race. */
gconv_status gconv_take_algorithm(const gconv_given *given) {
  bool several = strchr(given->value, ',') != NULL;
  const gconv_given all = {given->option, "all", given->record, given->field};
  settings_of(given)->racers = several ? given->value : NULL;
  if (several)
    GCONV_TRY(gconv_option_find_words(given->option, given->value));
  return gconv_take_name(several ? &all : given);
}

gconv_status gconv_take_without(const gconv_given *given) {
  if (given->value[0])
    GCONV_TRY(gconv_option_find_words(given->option, given->value));
  *(const char **)given->field = given->value;
  return GCONV_OK;
}

gconv_status gconv_take_device(const gconv_given *given) {
  *(const char **)given->field = given->value;
  return gconv_check_device(given->value);
}

gconv_status gconv_take_shard(const gconv_given *given) {
  return gconv_shard_parse(given->value, given->field, &(gconv_message){0});
}

/* Parses an offset: a sign, and digits up to `end`. */
static bool parse_offset(const char *text, const char *end, int32_t *offset) {
  char digits[16];
  int64_t number;
  if (end - text < 2 || (size_t)(end - text) > sizeof digits || text[1] < '0' || text[1] > '9')
    return false;
  snprintf(digits, sizeof digits, "%.*s", (int)(end - text - 1), text + 1);
  if (!gconv_parse_integer(digits, 0, LARGEST_EXTENT, &number))
    return false;
  *offset = (int32_t)(text[0] == '-' ? -number : number);
  return true;
}

/* The field is the gconv_area: WxH+X+Y. */
gconv_status gconv_take_region(const gconv_given *given) {
  gconv_area *area = given->field;
  char width[16], height[16];
  int64_t w = 0, h = 0;
  const char *value = given->value, *cross = value + strcspn(value, "x"), *x = cross + strcspn(cross, "+-"),
             *y = *x ? x + 1 + strcspn(x + 1, "+-") : x;
  snprintf(width, sizeof width, "%.*s", (int)(cross - value), value);
  snprintf(height, sizeof height, "%.*s", *cross ? (int)(x - cross - 1) : 0, *cross ? cross + 1 : "");
  if (area->width > 0)
    return gconv_refuse("given twice: it is one rectangle; for several, give a picture that is white in them "
                        "as --mask, or filter one after the other");
  bool good = cross - value < 16 && x - cross < 16 && gconv_parse_integer(width, 1, LARGEST_EXTENT, &w) &&
              gconv_parse_integer(height, 1, LARGEST_EXTENT, &h) && parse_offset(x, y, &area->x) &&
              parse_offset(y, y + strlen(y), &area->y);
  if (!good)
    return gconv_refuse("this takes WIDTHxHEIGHT+X+Y in pixels, such as 640x480+100+50: a rectangle whose "
                        "left column is X and whose top row is Y, counted from 0");
  area->width = (int32_t)w;
  area->height = (int32_t)h;
  return GCONV_OK;
}

void gconv_print_region(FILE *out, const void *field) {
  const gconv_area *area = field;
  fprintf(out, "%d %d %d %d", (int)area->width, (int)area->height, (int)area->x, (int)area->y);
}

/* The field is the gconv_batch. */
gconv_status gconv_take_verify(const gconv_given *given) {
  gconv_batch *batch = given->field;
  batch->verify = true;
  if (given->value && (!gconv_parse_number(given->value, &batch->tolerance) || batch->tolerance < 0))
    return gconv_refuse("this takes the largest difference allowed, from 0 on");
  return GCONV_OK;
}

/* ---- Words of values ------------------------------------------------------------------------------------------------- */

static const char *combine_at(size_t i) {
  return i == GCONV_COMBINE_MOSAIC ? "mosaic" : gconv_combine_name((gconv_combine)i);
}

static const char *activation_at(size_t i) {
  return gconv_activation_name((gconv_activation)i);
}

static const char *written_format_at(size_t index) {
  const gconv_format_info *format;
  for (size_t i = 0; (format = gconv_format_at(i)); i++)
    if (format->writes && index-- == 0)
      return format->name;
  static const char *const others[] = {"same", "csv", "f32le"};
  return index < sizeof others / sizeof *others ? others[index] : NULL;
}

static const gconv_synonym depth_words[] = {
    {"u8 uint8", "8", NULL}, {"u16 uint16", "16", NULL}, {"f32 float32 single", "float", NULL}, {NULL, NULL, NULL}};
static const gconv_synonym combine_words[] = {
    {"mag norm l2 hypot", "magnitude", NULL}, {"add", "sum", NULL}, {"maximum", "max", NULL}, {NULL, NULL, NULL}};
static const gconv_synonym range_words[] = {
    {"clip saturate", "clamp", NULL},
    {"absolute", "abs", NULL},
    {"stretch", "minmax", NULL},
    {"normalize normalise", NULL,
     "minmax maps the smallest value to black and the largest to white; a filter whose "
     "taps sum to 1 is made by dividing it: -f '1/9*[1 1 1; 1 1 1; 1 1 1]'"},
    {NULL, NULL, NULL}};
static const gconv_synonym alpha_words[] = {
    {"copy", "keep", NULL}, {"premultiplied", "premultiply", NULL}, {"remove off", "drop", NULL}, {NULL, NULL, NULL}};
static const gconv_synonym activation_words[] = {
    {"linear", "none", NULL}, {"leaky_relu leakyrelu", "leaky", NULL}, {"logistic", "sigmoid", NULL}, {NULL, NULL, NULL}};

/* ---- Rows ------------------------------------------------------------------------------------------------------------ */

/* changes_: whether the value changes results. If so, the kind must print values. */
#define OPTION(letter_, name_, value_, kind_, field_, changes_, ...)                                                        \
  GCONV_OPTION(gconv_job_settings, letter_, name_, value_, kind_, field_,                                                   \
               .changes_results = (changes_) && sizeof(char[!(changes_) || gconv_prints_##kind_ ? 1 : -1]), __VA_ARGS__)
enum { KEEPS = false, CHANGES = true };

/* Rows that gconv classify has, too, for maps of classes. */
#define MAP_OPTION(...) OPTION(__VA_ARGS__, .of_maps = true, GCONV_NOTED(of_maps))
#define MAP_HEADING(text)                                                                                                   \
  { .heading = text, .of_maps = true }

/* For a row: the option makes plain filters a bank. */
#define OF_BANKS GCONV_NOTED(of_banks)

/* The options that --windows excludes, because it makes no images. */
#define OF_IMAGES                                                                                                           \
  "files-from null recursive exclude in-place preserve-times filter-format max-pixels then suffix depth png-level "         \
  "quality lossless tiff-compression strip skip-existing newer resume shard flip border padding stride dilation region "    \
  "mask gray linear alpha combine normalize scale offset range groups activation mean std white order luma output-name "    \
  "batch layout decode jobs memory fail-fast dry-run verify explain"

const gconv_option gconv_job_options[] = {
    MAP_HEADING("Input"),
    OPTION('i', "input", "PATH...", texts, common.inputs, KEEPS, .also = "image images source src", .several = true,
           .help = "images, folders, quoted patterns such as 'shots/*.png', FILE:3 or data.npz:NAME for one image of a "
                   "file, or - for standard input; may be repeated"),
    OPTION(0, "files-from", "FILE", once, files_from, KEEPS, .near = "list from-file files",
           .help =
               "a list of inputs, a name a line, or - for standard input: find photos -name '*.png' | gconv --files-from - "
               "-f sobel -o out/"),
    OPTION('0', "null", NULL, flag, null_ends, KEEPS, .also = "null-data from0",
           .help = "names in the list of --files-from end with a 0 byte, as find -print0 writes them"),
    OPTION('r', "recursive", NULL, flag, common.recursive, KEEPS, .help = "also search the sub-folders of folders",
           .of_maps = true),
    OPTION(0, "exclude", "PATTERN", texts, exclude, KEEPS, .near = "ignore skip",
           .help = "leave out files and folders whose names are like '*_old*' or, with a /, whose paths below the folder of "
                   "-i are like 'raw/*'; may be repeated"),
    OPTION('f', "filter", "FILTER...", filters, last.filters, KEEPS, .also = "kernel filters", .several = true,
           .help =
               "files, built-in filters such as gaussian:sigma=2 or gaussian:size=9,sigma=2 (sigma alone sets the size, 2 * "
               "ceil(3 * sigma) + 1; gconv filters lists them), arrays such as "
               "'[0 -1 0; -1 5 -1; 0 -1 0]' or '1/4*[[1, 1], [1, 1]]', or ImageMagick kernels such as "
               "'3x3: 0,-1,0 -1,5,-1 0,-1,0'; may be repeated, or have commas between: sobel_x,sobel_y"),
    OPTION(0, "filter-format", "SYNTAX", text, last.syntax, KEEPS, .word_at = gconv_word_syntax_at,
           .help = "the syntax of filter files: matrix, vips, imagemagick, opencv, array or npy; of banks: bank, npy, npz, "
                   "safetensors or onnx; default: recognised by content"),
    GCONV_MAX_PIXELS_ROW(.of_maps = true),
    OPTION(0, "then", NULL, then, before, KEEPS, .near = "chain next",
           .help =
               "apply the filters after it to the result of the filters before it, in float32; with banks, these are the "
               "layers of a network. --padding, --stride, --dilation, --flip and --algorithm hold for the filters up to the "
               "next --then; the last --algorithm also holds for filters that have none"),
    MAP_HEADING("Output"),
    OPTION('o', "output", "PATH", once, common.output, KEEPS, .also = "out dest destination",
           .help = "a file, a folder (existing, or ending in /), a template with {stem}, {filter}, {index}, {frame} or "
                   "{ext}, or - for standard output; braces of a name are doubled: {{ and }}"),
    MAP_OPTION(
        0, "format", "NAME", format, naming, CHANGES, .word_at = written_format_at,
        .help =
            "the file format of the results, one that is listed below, or same: the format of each input; of --windows csv, "
            "npy or f32le; default: by the extension of the output, otherwise png"),
    MAP_OPTION(
        0, "suffix", "TEXT", text, naming.suffix, KEEPS, .also = "postfix", .near = "append",
        .help = "put TEXT after {stem} in the names of results, so that they may lie among the inputs: -o photos/ --suffix "
                "_blur; results of an earlier run are then passed over"),
    OPTION(0, "in-place", NULL, flag, naming.in_place, KEEPS, .also = "inplace", .near = "overwrite backup",
           .excludes = "output format suffix no-clobber skip-existing newer resume",
           .help = "each result replaces its image, which stays as NAME.orig; images that have a NAME.orig are left alone"),
    OPTION(
        0, "depth", "8|16|float|int16|float16", word, depth, CHANGES, .also = "bits dtype", .near = "type",
        .synonyms = depth_words, .words = "8|16|float|int16|float16", /* gconv_type, GCONV_DEPTH_I16, GCONV_DEPTH_F16 */
        .help =
            "the sample type of the results; default: the type of the input, if the format has it; .npy also holds int16, "
            "in the input's own levels (0 to 255 of 8 bits), and float16, where 1 is white as in float"),
    MAP_OPTION(0, "png-level", "N", integer, png_level, CHANGES, .near = "compression level", .least = 0, .most = 9,
               .help = "compression of PNG: 0 (none), 1 (fast, the default) to 9 (small)"),
    OPTION(0, "quality", "N", integer, job.quality, CHANGES, .also = "jpeg-quality webp-quality", .least = 1, .most = 100,
           .excludes = "lossless",
           .help = "quality of JPEG and WebP, from 1 to 100; default: 90; with --format same, JPEG has the quality of its "
                   "input, and WebP is without loss if its input is"),
    OPTION(0, "lossless", NULL, flag, job.lossless, CHANGES, .also = "webp-lossless", .excludes = "quality",
           .help = "WebP without loss; default: with loss, as --quality says"),
    MAP_OPTION(0, "tiff-compression", "NAME", word, job.tiff_compression, CHANGES, .words = "none|deflate|lzw|zstd",
               .help = "compression of TIFF, all without loss: none (default), deflate (fast, on all threads), lzw or zstd"),
    OPTION(0, "strip", NULL, flag, job.strip, CHANGES, .also = "no-metadata no-exif",
           .help = "leave EXIF, XMP and comments out; default: keep them, with the orientation reset and without the "
                   "thumbnail; ICC profile and resolution stay if the format holds them"),
    OPTION(0, "preserve-times", NULL, flag, job.preserve_times, KEEPS, .also = "preserve-time keep-times",
           .near = "mtime preserve times", .help = "give results the modification times of their inputs; default: now"),
    MAP_OPTION(0, "no-clobber", NULL, flag, common.no_clobber, KEEPS, .also = "no-overwrite keep-existing",
               .excludes = "skip-existing",
               .excluded =
                   "--no-clobber and --%s exclude each other: one calls a result that exists a failure, the other does not",
               .help = "keep existing results, and count them as failed; default: replace them"),
    MAP_OPTION(0, "skip-existing", NULL, flag, skip_existing, KEEPS,
               .help = "skip results that exist, whatever they contain"),
    MAP_OPTION(0, "newer", NULL, flag, newer, KEEPS, .excludes = "no-clobber skip-existing resume", .also = "update",
               .help = "skip results that exist and were made after the last change of their images"),
    MAP_OPTION(
        0, "resume", NULL, flag, resume, KEEPS, .excludes = "no-clobber skip-existing",
        .excluded = "--resume excludes --%s: it decides by the manifest, not by whether a file exists",
        .help = "continue an interrupted run: record finished results in .gconv-manifest beside them, and skip those that "
                "still match it, made from the same input with the same filters and options"),
    MAP_OPTION(0, "shard", "I/N|auto", shard, shard, KEEPS, .words = "auto",
               .help =
                   "process only part I of N of the images, chosen by a hash of their paths, so that machines can share a "
                   "folder; auto and auto/N follow the variables of Slurm arrays and indexed Kubernetes jobs"),
    GCONV_HEADING("Convolution"),
    OPTION(0, "flip", NULL, flag, last.layer.flip, CHANGES, .also = "convolve convolution", .near = "rotate",
           .help = "mathematical convolution: rotate the filter by 180 degrees; default: correlation"),
    OPTION(0, "border", "MODE", border, border, CHANGES, .also = "boundary", .near = "edge", .word_at = gconv_word_border_at,
           .synonyms = gconv_border_words, .drawing = GCONV_BORDER_DRAWING,
           .help =
               "what lies outside the image: zero (default), constant:V (V is 0 for black, 1 for white; for float results "
               "any number), replicate, symmetric, reflect101, wrap, or normalize (the taps inside get the weight of those "
               "outside)"),
    OPTION(0, "padding", "MODE", padding, last.layer, CHANGES, .most = LARGEST_EXTENT,
           .words = "same|valid|full|same-upper|same-lower",
           .help = "the size of the result: same (default), valid, full, or pixels to pad by: N, Y,X or T,B,L,R"),
    OPTION(0, "stride", "N|Y,X", pair, last.layer.stride_y, CHANGES, .most = LARGEST_EXTENT,
           .help = "compute every N-th pixel only; default: 1"),
    OPTION(0, "dilation", "N|Y,X", pair, last.layer.dilation_y, CHANGES, .most = LARGEST_EXTENT,
           .help = "distance between neighbouring taps, in pixels; default: 1"),
    OPTION(0, "region", "WxH+X+Y", region, area, CHANGES, .also = "roi", .near = "rectangle area window",
           .help = "filter only this rectangle, W x H pixels from column X, row Y on; the rest of the image stays as it is, "
                   "and filters at the edges of the rectangle read it"),
    GCONV_MASK_ROW,
    GCONV_HOLE_ROWS("; {stem} as in --mask"),
    OPTION(
        0, "gray", NULL, flag, options.gray, CHANGES, .also = "grey grayscale greyscale", .near = "mono",
        .help =
            "convert to grey first: 0.299 R + 0.587 G + 0.114 B (BT.601), with --linear 0.2126 R + 0.7152 G + 0.0722 B of "
            "the light (BT.709); rounded to a level, but not for --depth float"),
    OPTION(0, "linear", NULL, flag, options.linear, CHANGES, .near = "gamma srgb",
           .help = "filter in linear light: undo the sRGB curve before, redo it after"),
    OPTION(0, "alpha", "MODE", alpha, options.alpha, CHANGES, .words = "keep|filter|premultiply|drop", /* gconv_alpha */
           .synonyms = alpha_words,
           .help = "keep (default): alpha is copied; filter: filtered like the other channels, but --range leaves it alone; "
                   "premultiply: colours are weighted by it; drop: left out"),
    OPTION(0, "combine", "MODE", word, combine, CHANGES, .near = "merge reduce", .word_at = combine_at,
           .synonyms = combine_words,
           .help = "what several filters give: none (default, except for sobel, prewitt, scharr or roberts alone): a result "
                   "each; magnitude, sum, max or stack: one result of all; for banks also argmax: a map of the strongest "
                   "response, and mosaic: one picture of all"),
    OPTION(0, "normalize", NULL, flag, normalize, CHANGES, .also = "normalise",
           .help = "divide the taps of each filter by their sum, so that it keeps the brightness; not for banks"),
    OPTION(0, "scale", "S", number, options.scale, CHANGES, .help = "multiply responses by S; default: 1"),
    OPTION(0, "offset", "O", number, options.offset, CHANGES, .also = "bias",
           .help = "then add O, where 1 is white; default: 0"),
    OPTION(0, "range", "MODE", word, range, CHANGES, .words = "clamp|abs|signed|minmax", /* gconv_range */
           .synonyms = range_words,
           .help =
               "how values below 0 and above white are mapped: clamp (default; --depth float keeps them), abs (|v|), signed "
               "(v / 2 + 1/2: 0 is mid-grey) or minmax (from 0 to 1); all but clamp hold for --depth float, too"),
    GCONV_HEADING("Banks (layers)"),
    OPTION(0, "groups", "G", integer, last.layer.groups, CHANGES, OF_BANKS, .least = 1, .most = INT_MAX,
           .takes = "a number of groups, from 1 on",
           .help =
               "divide filters and channels into G groups; default: as the file says, otherwise 1; a bank of one channel "
               "is applied to each channel separately"),
    OPTION(0, "activation", "NAME", activation, last.layer, CHANGES, OF_BANKS, .word_at = activation_at,
           .synonyms = activation_words,
           .help = "applied to the sums: none (default), relu, leaky:A, sigmoid, tanh or softmax"),
    OPTION(0, "mean", "M[,M...]", numbers, mean, CHANGES, OF_BANKS,
           .help = "subtracted from the samples of each channel, where 1 is white; default: 0"),
    OPTION(0, "std", "S[,S...]", numbers, std, CHANGES, OF_BANKS, .help = "samples are then divided by it; default: 1"),
    OPTION(0, "output-name", "NAME", text, output_name, CHANGES, OF_BANKS,
           .help =
               "which output to write of a model that has several; default: the first if -o is a file, and all if it is a "
               "folder or a template with {output}"),
    OPTION(0, "white", "W", number, white, CHANGES, OF_BANKS,
           .help = "the number that is white for a network: 255 if it was trained with levels; samples are multiplied by it "
                   "before --mean and --std, and results that are images like the input are divided by it; default: as the "
                   "file of the network says, else 1"),
    OPTION(0, "order", "rgb|bgr", word, order, CHANGES, OF_BANKS, .words = "default|rgb|bgr",
           .help = "the order of the colours that a network takes and makes; default: as its file says, else rgb"),
    OPTION(0, "luma", NULL, flag, luma, CHANGES, .also = "luminance y-only",
           .help =
               "filter brightness alone, as --gray makes it: the colours of the image stay; a network of one channel gets "
               "brightness, and its results get the colours, enlarged by cubic interpolation; default: each colour is "
               "filtered"),
    OPTION(0, "math", "MODE", word, network.math, CHANGES, OF_BANKS, .word_at = gconv_word_math_at,
           .synonyms = gconv_math_words,
           .help =
               "precision to which products may be rounded: fp32 (default), tf32, fp16 or bf16, on GPUs that gain by it; "
               "with fp16 and bf16, numbers between layers, too"),
    OPTION(0, "batch", "N", integer, job.group, KEEPS, OF_BANKS, .least = 1, .most = 1 << 20,
           .takes = "a number of images, from 1 on",
           .help = "images of one size to compute together; default: as memory allows"),
    OPTION(0, "layout", "nchw|nhwc", word, layout, CHANGES, OF_BANKS, .words = "nchw|nhwc",
           .help = "the order of the axes of .npy arrays of four dimensions; default: nchw"),
    GCONV_HEADING("Signals"),
    OPTION(0, "windows", "S[:HOP]", windows, windows, KEEPS, .near = "window hop frame stream", .excludes = OF_IMAGES,
           .excluded = "--windows and --%s exclude each other: --windows runs a network over a signal, and makes no images",
           .help = "run a network over a signal: each window of S samples, of all channels, gives a row of outputs, and "
                   "windows begin every HOP samples (default: S); -i is .npy or raw samples, also from -; -o is .csv, .npy "
                   "or .f32le; -o - gets CSV, row by row"),
    OPTION(0, "raw", "TYPE[:C]", text, raw, CHANGES,
           .help = "the signal has no header; its samples are f32le, s16le or u8, of C interleaved channels (default: 1). "
                   "Without --windows, inputs are images of such samples: --raw 640x480x3:u16le[+BYTES to skip]"),
    MAP_HEADING("How it is computed"),
    OPTION('a', "algorithm", "NAME", algorithm, last.layer.algorithm, CHANGES, .word_at = gconv_word_algorithm_at,
           .lack = gconv_documented_lack,
           .help =
               "auto (default), one that gconv algorithms lists, several, such as direct,fft, or all; several race on one "
               "image: they must agree, and the fastest one makes the result"),
    OPTION(0, "without", "NAMES", without, options.without, CHANGES, .word_at = gconv_word_algorithm_name_at,
           .lack = gconv_documented_lack,
           .help = "algorithms that auto, or the race of all, must not use, separated by commas"),
    OPTION(0, "workspace", "SIZE", count, workspace, KEEPS, .takes = "a number of bytes, such as 256M",
           .help =
               "memory that an algorithm may use besides the images, on a GPU, and for banks also on the CPU; k, M and G "
               "may follow; default: 268435456"),
    OPTION('d', "device", "NAME", device, common.device, KEEPS, .near = "gpu cuda backend", .synonyms = gconv_device_words,
           .words = "auto|cpu|cuda|cuda:all",
           .help = "auto (default: a GPU if the job is done sooner with it), cpu, cuda, cuda:N, or several GPUs, over which "
                   "the images are distributed: cuda:0,2 or cuda:all; $GCONV_DEVICE sets another default"),
    OPTION(0, "decode", "cpu|gpu|auto", word, job.decoder, KEEPS, .words = "cpu|gpu|auto", /* gconv_decoder */
           .help = "gpu: decode baseline JPEGs with the GPU's JPEG engines, by nvJPEG; the pixels are the same; auto: do so "
                   "if no device is asked for and it is faster; default: cpu"),
    GCONV_THREADS_ROW,
    MAP_OPTION(0, "jobs", "N", integer, job.jobs, KEEPS, .also = "workers parallel", .least = 1, .most = 4096,
               .help = "number of images to process at a time, on the CPU no more than threads; default: as many as "
                       "threads, and half as many more if a GPU decodes"),
    MAP_OPTION(0, "memory", "SIZE", count, common.memory, KEEPS, .takes = "a number of bytes, such as 2G",
               .help =
                   "memory of the host that images in progress may use in all; k, M and G may follow; default: half of it"),
    MAP_OPTION(0, "fail-fast", NULL, flag, job.fail_fast, KEEPS,
               .help = "start no further image after a failure; default: report it and continue"),
    MAP_HEADING("Reports"),
    MAP_OPTION(0, "dry-run", NULL, flag, dry_run, KEEPS,
               .help = "print what would be read and written, and do nothing else"),
    MAP_OPTION(0, "timings", "[=table|json]", word, timings, KEEPS, .also = "time times", .near = "profile",
               .words = "table|json", .least = GCONV_TIMINGS_TABLE,
               .help = "print where the time went, for each image and in total"),
    OPTION(0, "verify", "[=TOL]", verify, job, KEEPS,
           .help = "recompute everything in float64; an image whose error exceeds the stated bound, or TOL in units of the "
                   "result's samples, fails and is not written"),
    MAP_OPTION(0, "explain", NULL, flag, job.explain, KEEPS,
               .help = "print the device and algorithm chosen for the first image, and why"),
    OPTION('v', "verbose", NULL, flag, common.verbose, KEEPS, .excludes = "quiet",
           .help = "also print remarks: how names were interpreted, what was used for each image", .of_maps = true),
    GCONV_QUIET_ROW,
    GCONV_NO_SANDBOX_ROW,
    GCONV_PROBABILITIES_ROW(gconv_job_settings, probabilities),
    GCONV_OPTIONS_END,
};

/* ---- The digest of --resume ----------------------------------------------------------------------------------------- */

/* Prints the settings that change results: of one layer if `of_layer`, else of the job. */
static void print_values(FILE *out, const void *base, bool of_layer) {
  const size_t begin = offsetof(gconv_job_settings, last), end = begin + sizeof(gconv_layer_settings);
  const gconv_option *row;
  for (gconv_option_walk walk = {gconv_job_options, NULL}; (row = gconv_option_next_named(&walk));)
    if (row->changes_results && (row->field >= begin && row->field < end) == of_layer) {
      fprintf(out, "%s ", row->name);
      row->kind->print(out, (const char *)base + row->field - (of_layer ? begin : 0));
      fputc('\n', out);
    }
}

char *gconv_job_describe_settings(const gconv_job_settings *settings) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out)
    return NULL;
  print_values(out, settings, false);
  for (size_t i = 0; i < settings->before_count; i++)
    print_values(out, &settings->before[i], true);
  print_values(out, &settings->last, true);
  if (fclose(out) == 0)
    return text;
  free(text);
  return NULL;
}

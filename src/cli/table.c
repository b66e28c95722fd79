/* SPDX-License-Identifier: MIT */
/* The table of options: those of the main job first, then those of the other commands, in the order of their --help. */
#include "cli/documented.h"
#include "cli/options.h"
#include "cli/terminal.h"

#include <limits.h>
#include <string.h>

enum {
  MOST_THREADS = 4096,     /* generous: a script may name the processors of a larger machine */
  LARGEST_EXTENT = 1 << 30 /* of strides, dilations and paddings: the library's */
};

#define HEADING(of_, text)                                                                                                  \
  { .heading = text, .of = GCONV_OF_##of_ }

/* A row, by its columns; CHANGES or KEEPS says whether another value makes other results. */
#define OPTION(of_, letter_, name_, value_, kind_, field_, changes_, ...)                                                   \
  {                                                                                                                         \
    .of = GCONV_OF_##of_, .letter = letter_, .name = name_, .value = value_, .kind = &gconv_value_##kind_,                  \
    .field = offsetof(gconv_settings, field_), .changes_results = changes_, __VA_ARGS__                                     \
  }
enum { KEEPS = false, CHANGES = true };

/* ---- Words of values ---- */

static const char *border_at(size_t i) {
  return gconv_border_name((gconv_border)i);
}

static const char *combine_at(size_t i) {
  return i == GCONV_COMBINE_MOSAIC ? "mosaic" : gconv_combine_name((gconv_combine)i);
}

static const char *activation_at(size_t i) {
  return gconv_activation_name((gconv_activation)i);
}

static const char *math_at(size_t i) {
  return gconv_math_name((gconv_math)i);
}

static const char *written_format_at(size_t index) {
  const gconv_format_info *format;
  for (size_t i = 0; (format = gconv_format_at(i)); i++)
    if (format->writes && index-- == 0)
      return format->name;
  static const char *const others[] = {"same", "csv", "f32le"};
  return index < sizeof others / sizeof *others ? others[index] : NULL;
}

static const char *syntax_at(size_t i) {
  size_t filters = 0;
  while (gconv_filter_syntax_at(filters))
    filters++;
  return i < filters ? gconv_filter_syntax_at(i) : gconv_bank_syntax_at(i - filters);
}

/* Lists the algorithms for images, then those for layers; a name that both have comes twice. NULL past the end. */
static const gconv_algorithm_info *any_algorithm_at(size_t index) {
  size_t images = 0;
  while (gconv_algorithm_at(images))
    images++;
  return index < images ? gconv_algorithm_at(index) : gconv_layer_algorithm_at(index - images);
}

static bool is_first(size_t index) {
  for (size_t i = 0; i < index; i++)
    if (strcmp(any_algorithm_at(i)->name, any_algorithm_at(index)->name) == 0)
      return false;
  return true;
}

static const char *algorithm_name_at(size_t index) {
  const gconv_algorithm_info *algorithm;
  for (size_t i = 0; (algorithm = any_algorithm_at(i)); i++)
    if (is_first(i) && index-- == 0)
      return algorithm->name;
  return NULL;
}

static const char *algorithm_at(size_t i) {
  static const char *const more[] = {"auto", "all"};
  return i < 2 ? more[i] : algorithm_name_at(i - 2);
}

static const char *experiment_at(size_t i) {
  return i == 0 ? "list" : gconv_bench_experiment_at(i - 1);
}

/* ---- Words of other programs ---- */

#define REFLECT                                                                                                             \
  "there are two ways to reflect the row  a b c d:" GCONV_LINE_BREAK                                                        \
  "symmetric    c b a | a b c d | d c b    the edge twice (scipy's \"reflect\", vips' \"mirror\")" GCONV_LINE_BREAK         \
  "reflect101   d c b | a b c d | c b a    the edge once (NumPy's \"reflect\", OpenCV's default, scipy's \"mirror\")"

static const gconv_synonym border_words[] = {
    {"edge nearest copy extend", "replicate", NULL},
    {"tile circular periodic wraparound", "wrap", NULL},
    {"black zeros", "zero", NULL},
    {"white", "constant:1", NULL},
    {"reflect-101 reflect_101", "reflect101", NULL},
    {"mirror reflect", NULL, REFLECT},
    {"repeat", NULL, "replicate repeats the pixel at the edge, wrap the whole image"},
    {"none ignore", NULL, "zero has black outside the image; --padding valid leaves out the pixels that need any outside"},
    {NULL, NULL, NULL},
};
static const gconv_synonym device_words[] = {{"gpu nvidia", "cuda", NULL}, {"host", "cpu", NULL}, {NULL, NULL, NULL}};
static const gconv_synonym svm_type_words[] = {
    {"svc classification 0", "c-svc", NULL}, {"svr regression 3", "epsilon-svr", NULL}, {NULL, NULL, NULL}};
static const gconv_synonym svm_kernel_words[] = {{"gaussian 2", "rbf", NULL},
                                                 {"0", "linear", NULL},
                                                 {"poly 1", "polynomial", NULL},
                                                 {"3", "sigmoid", NULL},
                                                 {NULL, NULL, NULL}};
static const gconv_synonym svm_scale_words[] = {{"-1,1", "symmetric", NULL},
                                                {"0,1", "unit", NULL},
                                                {"standardize standardise zscore", "standard", NULL},
                                                {NULL, NULL, NULL}};
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
static const gconv_synonym math_words[] = {
    {"float32 f32", "fp32", NULL}, {"float16 f16 half", "fp16", NULL}, {"bfloat16", "bf16", NULL}, {NULL, NULL, NULL}};
static const gconv_synonym type_words[] = {
    {"uint8 8", "u8", NULL}, {"uint16 16", "u16", NULL}, {"float float32 single", "f32", NULL}, {NULL, NULL, NULL}};

#define BORDER_DRAWING                                                                                                      \
  "Borders of the row  a b c d:\n"                                                                                          \
  "  zero         0 0 0 | a b c d | 0 0 0        symmetric    c b a | a b c d | d c b\n"                                    \
  "  constant:V   v v v | a b c d | v v v        reflect101   d c b | a b c d | c b a\n"                                    \
  "  replicate    a a a | a b c d | d d d        wrap         b c d | a b c d | a b c\n"

/* ---- Help texts that several rows share ---- */

#define THREADS_HELP "number of CPU threads, no more than processors; default: one for each"
#define DEVICE_HELP "auto (default: a GPU if one can be used), cpu, cuda or cuda:N; without it, $GCONV_DEVICE counts"

/* What --windows, which makes no images, has no use for. */
#define OF_IMAGES                                                                                                           \
  "files-from null recursive exclude preserve-times filter-format max-pixels then suffix depth png-level quality lossless " \
  "tiff-compression strip skip-existing "                                                                                   \
  "resume shard flip border padding stride dilation region mask gray linear alpha combine scale offset range groups "       \
  "activation mean std batch layout decode jobs memory fail-fast dry-run timings verify explain"

const gconv_option gconv_option_table[] = {
    /* ---- filter ---- */
    HEADING(RUNS, "Input"),
    OPTION(FILTER, 'i', "input", "PATH...", texts, inputs, KEEPS, .also = "image images source src", .several = true,
           .help = "images, folders, quoted patterns such as 'shots/*.png', FILE:3 or data.npz:NAME for one image of a "
                   "file, or - for "
                   "standard input; may be repeated"),
    OPTION(FILTER, 0, "files-from", "FILE", once, files_from, KEEPS, .near = "list from-file files",
           .help =
               "a list of inputs, a name a line, or - for standard input: find photos -name '*.png' | gconv --files-from - "
               "-f sobel -o out/"),
    OPTION(FILTER, '0', "null", NULL, flag, null_ends, KEEPS, .also = "null-data from0",
           .help = "the names of that list end with a 0 byte, as those of find -print0 do"),
    OPTION(RUNS, 'r', "recursive", NULL, flag, recursive, KEEPS, .help = "also search the sub-folders of folders"),
    OPTION(FILTER, 0, "exclude", "PATTERN", texts, exclude, KEEPS, .near = "ignore skip",
           .help =
               "leave out what folders and patterns find: files and folders of such names, '*_old*', or, with a /, of such "
               "paths below the folder of -i, 'raw/*'; may be repeated"),
    OPTION(FILTER, 'f', "filter", "FILTER...", filters, last.filters, KEEPS, .also = "kernel filters", .several = true,
           .help =
               "files, built-in filters such as gaussian:sigma=2 or gaussian:size=9,sigma=2 (sigma alone sets the size, 2 * "
               "ceil(3 * sigma) + 1; gconv filters lists them), arrays such as "
               "'[0 -1 0; -1 5 -1; 0 -1 0]' or '1/4*[[1, 1], [1, 1]]', or ImageMagick kernels such as "
               "'3x3: 0,-1,0 -1,5,-1 0,-1,0'; may be repeated, or have commas between: sobel_x,sobel_y"),
    OPTION(FILTER, 0, "filter-format", "SYNTAX", text, last.syntax, KEEPS, .word_at = syntax_at,
           .help = "the syntax of filter files: matrix, vips, imagemagick, opencv, array or npy; of banks: bank, npy, npz, "
                   "safetensors or onnx; default: recognised by content"),
    OPTION(RUNS, 0, "max-pixels", "N", count, job.max_pixels, KEEPS, .takes = "a number of pixels, such as 500M",
           .help = "refuse larger images; k, M and G may follow; default: 1073741824"),
    OPTION(FILTER, 0, "then", NULL, then, before, KEEPS, .near = "chain next",
           .help =
               "apply what follows to the result of what stands before: one filter after the other, with float32 between; "
               "of banks, the layers of a network. --padding, --stride, --dilation, --flip and --algorithm belong to the "
               "filters beside them; --algorithm behind the last --then holds for all without one of their own"),

    HEADING(RUNS, "Output"),
    OPTION(FILTER, 'o', "output", "PATH", once, naming.output, KEEPS, .also = "out dest destination",
           .help = "a file, a folder (existing, or ending in /), a template with {stem}, {filter}, {index}, {frame} or "
                   "{ext}, or - for standard output; braces of a name are doubled: {{ and }}"),
    OPTION(RUNS, 0, "format", "NAME", format, naming, CHANGES, .word_at = written_format_at,
           .help = "the file format of the results, of those listed below, or same: that of each input; of --windows csv, "
                   "npy or f32le; default: by the extension of the output, otherwise png"),
    OPTION(RUNS, 0, "suffix", "TEXT", text, naming.suffix, KEEPS, .also = "postfix", .near = "append",
           .help =
               "put TEXT behind {stem} in the names of results, so that they may lie among the inputs: -o photos/ --suffix "
               "_blur; results of an earlier run are then passed over"),
    OPTION(FILTER, 0, "depth", "8|16|float|int16|float16", word, depth, CHANGES, .also = "bits dtype", .near = "type",
           .synonyms = depth_words, .words = "8|16|float|int16|float16", /* gconv_type, then those of settings.h */
           .help =
               "the sample type of the results; default: that of the input, if the format has it; .npy also holds int16, "
               "in the input's own levels (0 to 255 of 8 bits), and float16, where 1 is white as in float"),
    OPTION(RUNS, 0, "png-level", "N", integer, png_level, CHANGES, .near = "compression level", .least = 0, .most = 9,
           .help = "compression of PNG: 0 (none), 1 (fast, the default) to 9 (small)"),
    OPTION(FILTER, 0, "quality", "N", integer, job.quality, CHANGES, .also = "jpeg-quality webp-quality", .least = 1,
           .most = 100, .excludes = "lossless",
           .help =
               "quality of JPEG and WebP, from 1 to 100; default: 90, with --format same that of the input, if it is JPEG, "
               "or no loss, if it is WebP without"),
    OPTION(FILTER, 0, "lossless", NULL, flag, job.lossless, CHANGES, .also = "webp-lossless", .excludes = "quality",
           .help = "WebP without loss; default: with loss, as --quality says"),
    OPTION(RUNS, 0, "tiff-compression", "NAME", word, job.tiff_compression, CHANGES, .words = "none|deflate|lzw|zstd",
           .help = "compression of TIFF, all without loss: none (default), deflate (fast, on all threads), lzw or zstd"),
    OPTION(FILTER, 0, "strip", NULL, flag, job.strip, CHANGES, .also = "no-metadata no-exif",
           .help = "leave EXIF, XMP and comments out; default: keep them, with the orientation reset and without the "
                   "thumbnail; ICC profile and resolution always stay"),
    OPTION(FILTER, 0, "preserve-times", NULL, flag, job.preserve_times, KEEPS, .also = "preserve-time keep-times",
           .near = "mtime preserve times",
           .help = "give results the time of the last change that their inputs have; default: now"),
    OPTION(RUNS, 0, "no-clobber", NULL, flag, no_clobber, KEEPS, .also = "no-overwrite keep-existing",
           .excludes = "skip-existing",
           .excluded = "--no-clobber and --%s exclude each other: one calls a result that exists a failure, the other does "
                       "not",
           .help = "keep existing results, and count them as failed; default: replace them"),
    OPTION(RUNS, 0, "skip-existing", NULL, flag, skip_existing, KEEPS,
           .help = "skip results that exist, whatever they contain"),
    OPTION(RUNS, 0, "resume", NULL, flag, resume, KEEPS, .excludes = "no-clobber skip-existing",
           .excluded = "--resume excludes --%s: it decides by the manifest, not by whether a file exists",
           .help =
               "continue an interrupted run: record finished results in .gconv-manifest beside them, and skip those that "
               "still match it, made from the same input with the same filters and options"),
    OPTION(RUNS, 0, "shard", "I/N|auto", shard, shard, KEEPS, .words = "auto",
           .help = "process only part I of N of the images, chosen by a hash of their paths, so that machines can share a "
                   "folder; auto and auto/N follow the variables of Slurm arrays and indexed Kubernetes jobs"),

    HEADING(FILTER, "Convolution"),
    OPTION(FILTER, 0, "flip", NULL, flag, last.layer.flip, CHANGES, .also = "convolve convolution", .near = "rotate",
           .help = "mathematical convolution: rotate the filter by 180 degrees; default: correlation"),
    OPTION(FILTER, 0, "border", "MODE", border, options, CHANGES, .also = "boundary", .near = "edge", .word_at = border_at,
           .synonyms = border_words, .drawing = BORDER_DRAWING,
           .help =
               "what lies outside the image: zero (default), constant:V (V is 0 for black, 1 for white; for float results "
               "any number), replicate, symmetric, reflect101 or wrap"),
    OPTION(FILTER, 0, "padding", "MODE", padding, last.layer, CHANGES, .most = LARGEST_EXTENT,
           .words = "same|valid|full|same-upper|same-lower",
           .help = "the size of the result: same (default), valid, full, or pixels to pad by: N, Y,X or T,B,L,R"),
    OPTION(FILTER, 0, "stride", "N|Y,X", pair, last.layer.stride_y, CHANGES, .most = LARGEST_EXTENT,
           .help = "compute every N-th pixel only; default: 1"),
    OPTION(FILTER, 0, "dilation", "N|Y,X", pair, last.layer.dilation_y, CHANGES, .most = LARGEST_EXTENT,
           .help = "distance between neighbouring taps, in pixels; default: 1"),
    OPTION(FILTER, 0, "region", "WxH+X+Y", region, area, CHANGES, .also = "roi", .near = "rectangle area window",
           .help = "filter only this rectangle, W x H pixels from column X, row Y on: the rest of the image stays, and its "
                   "pixels are the neighbours of those at the edges"),
    OPTION(FILTER, 0, "mask", "FILE", once, mask, KEEPS, .near = "weights alpha-mask",
           .help =
               "filter only where this image, which is as large as the inputs, is white: grey blends the result with the "
               "input, black keeps the input; its alpha counts too"),
    OPTION(
        FILTER, 0, "gray", NULL, flag, options.gray, CHANGES, .also = "grey grayscale greyscale", .near = "mono",
        .help =
            "convert to grey first: 0.299 R + 0.587 G + 0.114 B (BT.601), with --linear 0.2126 R + 0.7152 G + 0.0722 B of "
            "the light (BT.709); rounded to a level, but not for --depth float"),
    OPTION(FILTER, 0, "linear", NULL, flag, options.linear, CHANGES, .near = "gamma srgb",
           .help = "filter in linear light: undo the sRGB curve before, redo it after"),
    OPTION(FILTER, 0, "alpha", "MODE", alpha, options.alpha, CHANGES,
           .words = "keep|filter|premultiply|drop", /* gconv_alpha */
           .synonyms = alpha_words,
           .help = "keep (default): alpha is copied; filter: filtered like the other channels, but --range leaves it alone; "
                   "premultiply: colours are weighted by it; drop: left out"),
    OPTION(FILTER, 0, "combine", "MODE", word, combine, CHANGES, .near = "merge reduce", .word_at = combine_at,
           .synonyms = combine_words,
           .help = "several filters give: none (default, but of sobel, prewitt, scharr or roberts alone), a result each; "
                   "magnitude, sum, max or stack, one result of all; "
                   "of banks also argmax, a map of the strongest response, and mosaic, one picture of all"),
    OPTION(FILTER, 0, "scale", "S", number, options.scale, CHANGES, .help = "multiply responses by S; default: 1"),
    OPTION(FILTER, 0, "offset", "O", number, options.offset, CHANGES, .near = "bias",
           .help = "then add O, where 1 is white; default: 0"),
    OPTION(FILTER, 0, "range", "MODE", word, range, CHANGES, .words = "clamp|abs|signed|minmax", /* gconv_range */
           .synonyms = range_words,
           .help =
               "how values below 0 and above white are mapped: clamp (default; --depth float keeps them), abs (|v|), signed "
               "(v / 2 + 1/2: 0 is mid-grey) or minmax (from 0 to 1); all but clamp hold for --depth float, too"),

    HEADING(FILTER, "Banks (layers)"),
    OPTION(FILTER, 0, "groups", "G", integer, last.layer.groups, CHANGES, .of_banks = true, .least = 1, .most = INT_MAX,
           .takes = "a number of groups, from 1 on",
           .help =
               "divide filters and channels into G groups; default: as the file says, otherwise 1; a bank of one channel "
               "is applied to each channel separately"),
    OPTION(FILTER, 0, "activation", "NAME", activation, last.layer, CHANGES, .of_banks = true, .word_at = activation_at,
           .synonyms = activation_words,
           .help = "applied to the sums: none (default), relu, leaky:A, sigmoid, tanh or softmax"),
    OPTION(FILTER, 0, "mean", "M[,M...]", numbers, mean, CHANGES, .of_banks = true,
           .help = "subtracted from the samples of each channel, where 1 is white; default: 0"),
    OPTION(FILTER, 0, "std", "S[,S...]", numbers, std, CHANGES, .of_banks = true,
           .help = "samples are then divided by it; default: 1"),
    OPTION(
        FILTER, 0, "math", "MODE", word, network.math, CHANGES, .of_banks = true, .word_at = math_at, .synonyms = math_words,
        .help = "precision to which products may be rounded: fp32 (default), tf32, fp16 or bf16, on GPUs that gain by it"),
    OPTION(FILTER, 0, "batch", "N", integer, job.group, KEEPS, .of_banks = true, .least = 1, .most = 1 << 20,
           .takes = "a number of images, from 1 on",
           .help = "images of one size to compute together; default: as memory allows"),
    OPTION(FILTER, 0, "layout", "nchw|nhwc", word, layout, CHANGES, .of_banks = true, .words = "nchw|nhwc",
           .help = "the order of the axes of .npy arrays of four dimensions; default: nchw"),

    HEADING(FILTER, "Signals"),
    OPTION(FILTER, 0, "windows", "S[:HOP]", windows, learn.data, KEEPS, .near = "window hop frame stream",
           .excludes = OF_IMAGES,
           .excluded = "--windows and --%s exclude each other: --windows runs a network over a signal, and makes no images",
           .help = "run a network over a signal: each S samples, of all channels, give a row of outputs, every HOP samples "
                   "(default: S); -i is .npy or raw, - too; -o is .csv, .npy or .f32le; - gets CSV, row by row"),
    OPTION(FILTER, 0, "raw", "TYPE[:C]", text, learn.raw, KEEPS, .excludes = OF_IMAGES,
           .excluded = "--raw and --%s exclude each other: --raw is for signals, which --windows cuts",
           .help = "the signal has no header: f32le, s16le or u8, of C channels, which are neighbours; default: 1"),

    HEADING(RUNS, "How it is computed"),
    OPTION(FILTER, 'a', "algorithm", "NAME", algorithm, last.layer.algorithm, CHANGES, .word_at = algorithm_at,
           .lack = gconv_documented_lack,
           .help =
               "auto (default), one that gconv algorithms lists, or a race on one image of several, direct,fft, or of all: "
               "they must agree, and the result is that of the fastest"),
    OPTION(FILTER, 0, "without", "NAMES", without, options.without, CHANGES, .word_at = algorithm_name_at,
           .lack = gconv_documented_lack,
           .help = "algorithms that auto, or the race of all, must not use, separated by commas"),
    OPTION(FILTER, 0, "workspace", "SIZE", count, workspace, KEEPS, .takes = "a number of bytes, such as 256M",
           .help =
               "memory that an algorithm may use besides the images, on a GPU, and for banks also on the CPU; k, M and G "
               "may follow; default: 268435456"),
    OPTION(FILTER, 'd', "device", "NAME", device, job.device, KEEPS, .near = "gpu cuda backend", .synonyms = device_words,
           .words = "auto|cpu|cuda|cuda:all",
           .help = "auto (default: a GPU if the job is done sooner with it), cpu, cuda, cuda:N, or several GPUs, over which "
                   "the images are distributed: cuda:0,2 or cuda:all; without this option, $GCONV_DEVICE counts"),
    OPTION(FILTER, 0, "decode", "cpu|gpu|auto", word, job.decoder, KEEPS, .words = "cpu|gpu|auto", /* gconv_decoder */
           .help = "gpu: decode baseline JPEGs with the GPU's JPEG engines, by nvJPEG; the pixels are the same; auto: so "
                   "where no device is asked for and that is sooner done; default: cpu"),
    OPTION(FILTER, 0, "threads", "N", integer, job.threads, KEEPS, .also = "cores cpus", .least = 1, .most = MOST_THREADS,
           .help = THREADS_HELP),
    OPTION(RUNS, 0, "jobs", "N", integer, job.jobs, KEEPS, .also = "workers parallel", .least = 1, .most = 4096,
           .help = "number of images to process at a time, on the CPU no more than threads; default: as many as threads, "
                   "where a GPU decodes half as many more"),
    OPTION(RUNS, 0, "memory", "SIZE", count, job.memory, KEEPS, .takes = "a number of bytes, such as 2G",
           .help = "memory of the host that images in progress may use in all; k, M and G may follow; default: half of it"),
    OPTION(RUNS, 0, "fail-fast", NULL, flag, job.fail_fast, KEEPS,
           .help = "start no further image after a failure; default: report it and continue"),

    HEADING(RUNS, "Reports"),
    OPTION(RUNS, 0, "dry-run", NULL, flag, dry_run, KEEPS,
           .help = "print what would be read and written, and do nothing else"),
    OPTION(RUNS, 0, "timings", "[=table|json]", word, timings, KEEPS, .also = "time times", .near = "profile",
           .words = "table|json", .least = GCONV_TIMINGS_TABLE,
           .help = "print where the time went, for each image and in total"),
    OPTION(FILTER, 0, "verify", "[=TOL]", verify, job, KEEPS,
           .help = "recompute everything in float64; an image whose error exceeds the stated bound, or TOL in units of the "
                   "result's samples, fails and is not written"),
    OPTION(RUNS, 0, "explain", NULL, flag, job.explain, KEEPS,
           .help = "print the device and algorithm chosen for the first image, and why"),
    OPTION(RUNS, 'v', "verbose", NULL, flag, verbose, KEEPS, .excludes = "quiet",
           .help = "also print remarks: how names were interpreted, what was used for each image"),
    OPTION(FILTER, 'q', "quiet", NULL, flag, quiet, KEEPS, .help = "print only errors: no warnings, no progress"),

    OPTION(SANDBOXED, 0, "no-sandbox", NULL, flag, no_sandbox, KEEPS, .near = "sandbox landlock",
           .help = "keep the right to change files anywhere; default: where Linux has Landlock, files can be changed only "
                   "below the folder of the results"),

    /* ---- make, info, bank info, bank show, bank convert ---- */
    OPTION(MAKE, 'o', "output", "FILE", once, naming.output, KEEPS, .help = "write to this file; default: standard output"),
    OPTION(BANK_SHOW, 'o', "output", "FILE", once, naming.output, KEEPS,
           .help = "the picture to write; - is standard output, as PNG"),
    OPTION(BANK_CONVERT, 'o', "output", "FILE", once, naming.output, KEEPS,
           .help = "write to this file, .txt, .npy or .safetensors; default: text on standard output"),
    OPTION(BANK_CONVERT, 0, "format", "FORMAT", text, bank_format, KEEPS, .words = "bank|npy|safetensors",
           .help = "bank (text), npy or safetensors; default: by the extension"),
    OPTION(BANK_CONVERT, 0, "net", "LAYERS", text, net, KEEPS,
           .help =
               "what follows each layer of a PyTorch state_dict, which becomes a network: 'relu, /2 relu, mean, softmax'"),
    OPTION(BANK_SHOW, 0, "zoom", "N", integer, sheet.zoom, KEEPS, .least = 1, .most = GCONV_BANK_MAX_ZOOM,
           .help = "pixels of a weight, along each side; default: what makes a sheet of a good size"),
    OPTION(BANK_SHOW, 0, "columns", "N", integer, sheet.columns, KEEPS, .least = 1, .most = 1 << 20,
           .help = "filters side by side; default: what makes a sheet of a good shape"),
    OPTION(BANK_SHOW, 0, "scale", "each|all", word, sheet_scale, KEEPS, .words = "each|all",
           .help = "scale each filter by its largest weight, or all by the largest of all; default: each"),
    OPTION(BANK_INFO, 0, "json", NULL, flag, json, KEEPS, .help = "print JSON"),
    OPTION(INFO, 'r', "recursive", NULL, flag, recursive, KEEPS, .help = "also the sub-folders of folders"),
    OPTION(INFO, 0, "json", NULL, flag, json, KEEPS,
           .help = "print JSON of images and filters: a list; banks and networks have bank info --json"),
    OPTION(MAKE_INFO, 0, "filter-format", "SYNTAX", text, last.syntax, KEEPS, .word_at = syntax_at,
           .help = "the syntax of filter files: matrix, vips, imagemagick, opencv, array or npy; default: recognised by "
                   "content"),
    OPTION(BANK_PARTS, 0, "filter-format", "SYNTAX", text, last.syntax, KEEPS, .word_at = syntax_at,
           .help = "bank, npy, npz, safetensors, onnx, or that of filters; default: by content"),

    /* ---- compare ---- */
    OPTION(COMPARE, 0, "tolerance", "T", tolerance, tolerance, KEEPS, .also = "threshold epsilon delta",
           .help =
               "exit with 1 only if a sample differs by more than T, where 1 is white: 0.01, or 2/255 for two levels of 8 "
               "bits; default: 0"),
    OPTION(COMPARE, 'o', "output", "PATH", once, naming.output, KEEPS, .also = "difference diff picture",
           .help = "write a picture of the differences, in any format; of folders, a folder of pictures, or a template with "
                   "{stem}"),
    OPTION(COMPARE, 0, "suffix", "TEXT", text, naming.suffix, KEEPS, .also = "postfix", .near = "append",
           .help = "put TEXT behind {stem} in the names of pictures, so that they may lie among the images: --suffix _diff; "
                   "files that are called so are not compared"),
    OPTION(COMPARE, 'r', "recursive", NULL, flag, recursive, KEEPS, .help = "also compare the sub-folders of folders"),
    OPTION(COMPARE, 0, "json", NULL, flag, json, KEEPS, .help = "print JSON; null is what is infinite or not defined"),
    OPTION(COMPARE, 0, "max-pixels", "N", count, job.max_pixels, KEEPS, .takes = "a number of pixels, such as 500M",
           .help = "refuse larger images; k, M and G may follow; default: 1073741824"),
    OPTION(COMPARE, 0, "threads", "N", integer, job.threads, KEEPS, .also = "cores cpus", .least = 1, .most = MOST_THREADS,
           .help = THREADS_HELP),
    OPTION(COMPARE, 'q', "quiet", NULL, flag, quiet, KEEPS, .help = "print only errors: the exit status tells the rest"),

    /* ---- fit ---- */
    OPTION(FIT, 'i', "input", "PATH...", texts, inputs, KEEPS, .also = "before", .several = true,
           .help = "the images before the filter: files, folders, quoted patterns, or - for standard input"),
    OPTION(FIT, 't', "target", "PATH...", texts, targets, KEEPS, .also = "after targets", .several = true,
           .help = "the images after it; of several, those whose names are the same, but for the extension, are a pair"),
    OPTION(FIT, 'r', "recursive", NULL, flag, recursive, KEEPS, .help = "also search the sub-folders of folders"),
    OPTION(FIT, 's', "size", "N|RxS", size, fit.rows, KEEPS, .most = GCONV_FIT_MAX_TAPS,
           .help = "the size of the filter: N x N, or R rows and S columns, such as 5x9"),
    OPTION(FIT, 'o', "output", "FILE", once, naming.output, KEEPS, .also = "out",
           .help = "write the filter to this file, as text; default: to standard output"),
    OPTION(FIT, 0, "no-clobber", NULL, flag, no_clobber, KEEPS, .also = "no-overwrite keep-existing",
           .help = "fail if the file of -o exists; default: replace it"),
    OPTION(FIT, 0, "bias", NULL, flag, fit.bias, KEEPS, .near = "offset constant",
           .help = "also fit a constant, which is added to the response: the offset of the file"),
    OPTION(FIT, 0, "ridge", "X", ridge, fit.ridge, KEEPS, .also = "regularization lambda",
           .help = "prefer small taps: add X times the mean square of the samples times the sum of the squares of the taps "
                   "to the mean squared error; default: 0"),
    OPTION(FIT, 0, "border", "MODE", border, options, KEEPS, .also = "boundary", .near = "edge", .word_at = border_at,
           .synonyms = border_words, .drawing = BORDER_DRAWING,
           .help = "what the filter saw outside the image: zero, constant:V, replicate, symmetric, reflect101 or wrap; "
                   "default: only the pixels count where it lies inside"),
    OPTION(FIT, 0, "holdout", "SHARE", share, holdout, KEEPS, .near = "validate test",
           .help = "hold out this share of the pairs, of one pair of its rows, such as 20%, and tell how well the filter "
                   "explains it"),
    OPTION(FIT, 0, "json", NULL, flag, json, KEEPS, .help = "print JSON; null is what is not defined"),
    OPTION(FIT, 0, "max-pixels", "N", count, job.max_pixels, KEEPS, .takes = "a number of pixels, such as 500M",
           .help = "refuse larger images; k, M and G may follow; default: 1073741824"),
    OPTION(FIT, 0, "threads", "N", integer, job.threads, KEEPS, .also = "cores cpus", .least = 1, .most = MOST_THREADS,
           .help = THREADS_HELP),
    OPTION(FIT, 'q', "quiet", NULL, flag, quiet, KEEPS, .help = "print only errors"),

    /* ---- train and classify ---- */
    HEADING(TRAIN, "Data"),
    HEADING(CLASSIFY, "Data"),
    HEADING(SVM, "Data"),
    OPTION(TRAIN, 0, "table", "FILE", text, learn.table, KEEPS, .also = "csv data",
           .help = "cases are rows of CSV, LIBSVM, FANN, \"Y, X\" text, .npy or .npz; known by its content"),
    OPTION(TRAIN, 0, "classes", "FOLDER", text, learn.classes, KEEPS,
           .help = "cases are images, in a folder for each class"),
    OPTION(TRAIN, 'i', "input", "PATH", texts, inputs, KEEPS, .help = "cases are images, a folder of them or one ..."),
    OPTION(TRAIN, 't', "targets", "PATH", once, learn.targets, KEEPS, .also = "target",
           .help = "... and what is wanted of each, of the same name; of a table or signal: a file with the targets"),
    OPTION(TRAIN, 0, "signal", "FILE", text, learn.signal, KEEPS,
           .help = "cases are windows of a signal, .npy or raw; -t has a label or targets for each window, or each sample"),
    OPTION(CLASSIFY, 'i', "input", "PATH", texts, inputs, KEEPS,
           .help = "a table, or images: one, a folder of them, or with --evaluate a folder for each class"),
    OPTION(CLASSIFY, 't', "targets", "FILE", once, learn.targets, KEEPS, .help = "the labels, if they are in another file"),
    OPTION(LEARN, 0, "windows", "S[:HOP]", windows, learn.data, KEEPS,
           .help = "windows of S samples, which begin HOP samples apart; default: S"),
    OPTION(LEARN, 0, "raw", "TYPE[:C]", text, learn.raw, KEEPS,
           .help = "the signal has no header: f32le, s16le or u8, of C channels"),
    OPTION(SVM, 'i', "input", "PATH", texts, inputs, KEEPS, .help = "with --features: an image, or a folder of them ..."),
    OPTION(SVM, 't', "targets", "PATH", once, learn.targets, KEEPS, .also = "target",
           .help = "... and its mask, or a folder of masks of the same names; of a table: a file with the labels"),
    OPTION(TABLES, 0, "label", "NAME|N", text, learn.data.label, KEEPS, .near = "target column",
           .help = "the column of labels, by its name or its number from 1 on; default: the last"),
    OPTION(TRAIN_SVM, 0, "regression", NULL, flag, learn.data.regression, KEEPS,
           .help = "labels that are numbers are to be approximated; default: they are classes"),
    OPTION(TRAIN_SVM, 0, "classification", NULL, flag, learn.data.classification, KEEPS,
           .help = "whole numbers are classes, also if nearly each case has its own; default: these are approximated"),
    OPTION(TABLES, 0, "table-format", "SYNTAX", text, learn.data.syntax, KEEPS, .words = "csv|libsvm|fann|letters|npy",
           .help = "the syntax of tables: csv, libsvm, fann, letters or npy; default: by the content"),
    OPTION(TABLES, 0, "separator", "CHAR", separator, learn.data.separator, KEEPS, .near = "delimiter",
           .help = "between the fields of CSV: a character, or tab; default: found from the first lines"),
    OPTION(TABLES, 0, "missing", "mean|drop", word, learn.missing, KEEPS, .words = "mean|drop", .least = 1,
           .help =
               "numbers that are missing in CSV: put in the mean of the column, or leave the line out; default: an error"),
    OPTION(TRAIN, 0, "patch", "N", integer, learn.data.patch, KEEPS, .least = 1, .most = 32768,
           .help = "N x N pixels of each image, from random places, which differ in each epoch; default: whole images"),
    OPTION(TRAIN_SVM, 0, "features", "LIST", text, learn.data.features, KEEPS, .near = "feature filters",
           .help =
               "cases are the pixels of -i that the masks of -t label, and these are known by features: default, ilastik, "
               "skimage, or kinds with sigmas, 'gaussian 1 2 4, log 1 2' (docs/pixels.md)"),
    OPTION(TRAIN_SVM, 0, "samples", "N", count, learn.samples, KEEPS, .takes = "a number of pixels, such as 20k",
           .help = "with --features: learn at most N of the pixels that are labelled, of each class as many, drawn by "
                   "--seed; default: svm 10000, train all"),
    OPTION(TRAIN, 0, "augment", NULL, flag, learn.data.augment, KEEPS,
           .help = "mirror images at random, and turn them by 90 degrees"),
    OPTION(TABLES, 0, "gray", NULL, flag, learn.data.gray, KEEPS, .also = "grey grayscale greyscale",
           .help = "make images grey first"),
    OPTION(TRAIN, 0, "normalize", "yes|no", word, learn.normalize, KEEPS, .also = "normalise standardize", .words = "yes|no",
           .least = 1,
           .help = "subtract the mean of each column or channel, and divide by its standard deviation, which the network "
                   "keeps; default: yes, of images no"),
    OPTION(TRAIN, 0, "validate", "P%|PATH", text, learn.validate, KEEPS, .also = "validation",
           .help = "measure each epoch with cases that are not learned: a share of the data, or other data, as "
                   "PATH[:TARGETS]; the weights that are best there are kept"),
    HEADING(TRAIN, "Network"),
    OPTION(TRAIN, 0, "net", "TEXT", text, learn.net, KEEPS, .also = "network layers",
           .help = "its layers: 'dense 63 tanh, dense 26 softmax', '4*(conv 16 3x3 relu), conv 1 3x3, residual'"),
    OPTION(TRAIN, 'o', "output", "FILE", once, naming.output, KEEPS, .help = "the trained network: FILE.safetensors"),
    HEADING(SVM, "Model"),
    OPTION(SVM, 'o', "output", "FILE", once, naming.output, KEEPS,
           .help = "the trained model: FILE.model, text as LIBSVM's"),
    OPTION(SVM, 0, "type", "NAME", word, svm.options.type, KEEPS, .words = "c-svc|epsilon-svr", /* gconv_svm_type */
           .synonyms = svm_type_words,
           .help = "c-svc, of classes (default), or epsilon-svr, of numbers, as --regression says"),
    OPTION(SVM, 'k', "kernel", "NAME", word, svm.options.kernel, KEEPS,
           .words = "rbf|linear|polynomial|sigmoid", /* gconv_svm_kernel */
           .synonyms = svm_kernel_words,
           .help = "rbf (default), exp(-gamma |x-y|^2); linear, x y; polynomial, (gamma x y + coef0)^degree; sigmoid, "
                   "tanh(gamma x y + coef0)"),
    OPTION(SVM, 'c', "cost", "C", positive, svm.options.cost, KEEPS, .also = "C", .help = "what an error costs; default: 1"),
    OPTION(SVM, 'g', "gamma", "G", positive, svm.options.gamma, KEEPS, .help = "of the kernel; default: 1 / columns"),
    OPTION(SVM, 0, "degree", "N", integer, svm.options.degree, KEEPS, .least = 1, .most = 1000,
           .help = "of the polynomial; default: 3"),
    OPTION(SVM, 0, "coef0", "X", number, svm.options.coef0, KEEPS, .help = "of polynomial and sigmoid; default: 0"),
    OPTION(SVM, 'p', "tube", "E", tube, svm.options.tube, KEEPS, .near = "epsilon",
           .help = "of regression: errors up to E cost nothing; default: 0.1"),
    OPTION(TRAIN_SVM, 'w', "weight", "CLASS:W", texts, learn.class_weights, KEEPS, .also = "class-weight",
           .help = "an error in this class costs W times as much: C, or the loss of its cases; may be repeated; default: 1"),
    OPTION(SVM, 0, "scale", "RANGE", word, svm.scaling, KEEPS, .words = "none|symmetric|unit|standard", .least = 1,
           .synonyms = svm_scale_words, /* gconv_svm_scaling + 1 */
           .help = "scale each column, to -1 .. 1 (symmetric), 0 .. 1 (unit), or a mean of 0 and a standard deviation of 1 "
                   "(standard); the model keeps how; default: none, of pixels standard"),
    OPTION(SVM, 'b', "probabilities", NULL, flag, svm.options.probabilities, KEEPS, .also = "probability",
           .help = "the model also yields probabilities; takes some 5 times as long"),
    HEADING(SVM, "Training"),
    OPTION(SVM, 'v', "folds", "N", integer, svm.folds, KEEPS, .also = "cross-validation cv", .least = 2, .most = INT_MAX,
           .help = "cross-validation: tell how good a model will be, from N parts of the cases"),
    OPTION(SVM, 0, "grid", NULL, flag, svm.grid, KEEPS,
           .help = "cross-validate over C and gamma, print the table, and train with the best of them"),
    OPTION(SVM, 0, "log2c", "A:B:STEP", powers, svm.grid_cost, KEEPS, .help = "powers of two of the grid; default: -5:15:2"),
    OPTION(SVM, 0, "log2g", "A:B:STEP", powers, svm.grid_gamma, KEEPS, .help = "the same of gamma; default: 3:-15:-2"),
    OPTION(SVM, 'e', "tolerance", "E", positive, svm.options.tolerance, KEEPS,
           .help = "training ends where the conditions of the optimum are missed by less; default: 0.001"),
    OPTION(SVM, 'm', "cache", "MB", megabytes, svm.options.cache_bytes, KEEPS,
           .help = "memory for kernel values, in MB; results are the same; default: 200"),
    OPTION(SVM, 0, "shrinking", "yes|no", word, svm.shrinking, KEEPS, .words = "yes|no", .least = 1,
           .help = "leave cases out that have settled, until the end; default: yes"),
    HEADING(TRAIN, "Training"),
    OPTION(TRAIN, 0, "epochs", "N", integer, learn.epochs, KEEPS, .least = 1, .most = INT_MAX,
           .help = "how often all cases are learned; default: 100"),
    OPTION(TRAIN, 0, "batch", "N|full", batch, learn.training.batch, KEEPS, .also = "batch-size",
           .help = "cases of a step; default: 32"),
    OPTION(TRAIN, 0, "rate", "R", number, learn.training.rate, KEEPS, .also = "lr learning-rate",
           .help = "of a step; default: of adam 0.001, sgd 0.1, momentum 0.02, rprop 0.01"),
    OPTION(TRAIN, 0, "optimizer", "NAME", word, learn.training.optimizer, KEEPS, .also = "optimiser",
           .words = "adam|sgd|momentum|rprop", /* gconv_optimizer */
           .help = "adam (default), sgd, momentum or rprop"),
    OPTION(TRAIN, 0, "momentum", "M", number, learn.training.momentum, KEEPS, .help = "of momentum; default: 0.9"),
    OPTION(TRAIN, 0, "loss", "NAME", word, learn.training.loss, KEEPS, .words = "sse|mse|mae|cross-entropy", .least = 1,
           .help = "what becomes small: sse (half the sum of squares), mse, mae or cross-entropy; default: cross-entropy "
                   "behind softmax, else mse"), /* gconv_loss, from 1 on */
    OPTION(TRAIN, 0, "schedule", "NAME", word, learn.training.schedule, KEEPS,
           .words = "constant|linear|cosine|step", /* gconv_schedule */
           .help = "how the rate goes: constant (default), linear or cosine to 0, step (a tenth after each third)"),
    OPTION(TRAIN, 0, "weight-decay", "D", number, learn.training.weight_decay, KEEPS,
           .help = "each step takes rate * D of a weight off it; default: 0"),
    OPTION(TRAIN, 0, "elimination", "L[:W0]", elimination, learn.training, KEEPS,
           .help = "weight elimination: adds L * sum of (w/W0)^2 / (1 + (w/W0)^2) to the loss; default: 0, and W0 1"),
    OPTION(TRAIN, 0, "patience", "N", integer, learn.patience, KEEPS, .least = 1, .most = INT_MAX,
           .help = "end after N epochs without a smaller loss; default: never"),
    OPTION(TRAIN, 0, "stop-error", "E", number, learn.training.stop_error, KEEPS,
           .help = "end once the loss is no more than E; default: never"),
    OPTION(TRAIN_SVM, 0, "seed", "N", integer, learn.seed, KEEPS, .least = 0, .most = INT_MAX,
           .help = "of all random numbers: one seed, one result; default: 0"),
    OPTION(TRAIN, 'a', "algorithm", "NAME", word, learn.algorithm, KEEPS, .words = "auto|exact",
           .help = "auto (default), the fastest, or exact: the same bytes on every device"),
    OPTION(TRAIN, 0, "math", "MODE", word, learn.training.math, KEEPS, .word_at = math_at, .synonyms = math_words,
           .help = "precision to which products may be rounded: fp32 (default) or tf32, on GPUs that gain by it"),
    OPTION(TRAIN, 0, "save-every", "SECONDS", positive, learn.training.save_seconds, KEEPS, .near = "checkpoint",
           .help = "how often a checkpoint is written beside the output, from which --resume goes on; default: 120"),
    OPTION(TRAIN, 0, "resume", NULL, flag, resume, KEEPS, .also = "continue",
           .help = "go on with a run that was stopped, from FILE.safetensors.checkpoint: the result is the same"),
    OPTION(
        TRAIN, 0, "memory", "SIZE", count, job.memory, KEEPS, .takes = "a number of bytes, such as 2G",
        .help =
            "memory of the host that training may take in all; k, M and G may follow. Numbers beyond it are kept in a file "
            "in $TMPDIR, and images decoded anew. Default: 1 GiB for each table, and for decoded images"),
    OPTION(TRAIN, 'd', "device", "NAME", text, job.device, KEEPS, .words = "cpu|cuda", .synonyms = device_words,
           .help = "cpu (default), cuda or cuda:N"),
    OPTION(CLASSIFY, 'd', "device", "NAME", text, job.device, KEEPS, .words = "auto|cpu|cuda", .synonyms = device_words,
           .help = "cpu, cuda, cuda:N or auto; default: cpu, of support vector machines auto, a GPU where it pays"),
    OPTION(SVM, 'd', "device", "NAME", text, job.device, KEEPS, .words = "auto|cpu|cuda", .synonyms = device_words,
           .help = "auto (default): a GPU where it pays; cpu, cuda or cuda:N. The model is the same"),
    OPTION(TABLES, 0, "threads", "N", integer, job.threads, KEEPS, .also = "cores cpus", .least = 1, .most = MOST_THREADS,
           .help = THREADS_HELP),
    HEADING(TRAIN, "Reports"),
    HEADING(SVM, "Reports"),
    OPTION(SVM, 0, "plot", "FILE", text, learn.plot, KEEPS, .help = "a picture of --grid: FILE.svg"),
    HEADING(CLASSIFY, "Results"),
    OPTION(TRAIN, 0, "report", "FILE", text, learn.report, KEEPS, .also = "html",
           .help = "a page of HTML without outside parts: curves, confusion, learned filters, examples of pairs"),
    OPTION(TRAIN, 0, "plot", "FILE", text, learn.plot, KEEPS, .help = "the curves of loss and accuracy: FILE.svg"),
    OPTION(TRAIN, 'v', "verbose", NULL, flag, verbose, KEEPS, .excludes = "quiet", .also = "explain",
           .help = "also print which device and algorithm were chosen, and why"),
    OPTION(CLASSIFY, 'o', "output", "FILE", once, naming.output, KEEPS,
           .help = "the predictions, CSV; default: standard output, or with --evaluate nowhere"),
    OPTION(CLASSIFY, 0, "report", "FILE", text, learn.report, KEEPS, .also = "html",
           .help = "with --evaluate: a page of HTML without outside parts: confusion, IoU and F1, the worst mistakes"),
    OPTION(CLASSIFY, 0, "evaluate", NULL, flag, learn.evaluate, KEEPS, .also = "eval",
           .help =
               "compare with the labels: print the accuracy, and the table of confusion; of pixels, with the masks of -t"),
    OPTION(RUNS, 0, "probabilities", NULL, flag, learn.probabilities, CHANGES, .also = "proba",
           .help = "of pixels: write the probability of each class, as .npy or as pictures, in place of maps of classes"),
    OPTION(TABLES, 0, "json", NULL, flag, json, KEEPS, .help = "print JSON; train: a line an epoch"),
    OPTION(TABLES, 'q', "quiet", NULL, flag, quiet, KEEPS, .help = "print only errors: no warnings, no progress"),

    /* ---- bench and tune ---- */
    HEADING(BENCH, "What is measured"),
    OPTION(BENCH, 0, "image", "WxH[xC[p]]", images, bench, KEEPS,
           .help = "an image of random samples, interleaved or, with p, as planes; may be repeated; default: 3840x2160x3"),
    OPTION(BENCH, 0, "planar", NULL, flag, bench.planar, KEEPS, .help = "all images as planes"),
    OPTION(BENCH, 0, "type", "TYPE,...", types, bench, KEEPS, .words = "u8|u16|f32", /* gconv_type */
           .synonyms = type_words,
           .help = "samples of input and output: u8 (default), u16 or f32; several with commas between"),
    OPTION(BENCH, 0, "sizes", "N,N...", sizes, bench.sizes, KEEPS, .most = 4096,
           .takes = "sizes from 1 to 4096 with commas between: 3,5,7",
           .help = "square filters of random taps; default: 3,5,7,9,11,15,31 and three Gaussians, which are separable, "
                   "unless there are "
                   "filters"),
    OPTION(BENCH, 'f', "filter", "FILTER...", filters, bench.filters, KEEPS, .several = true,
           .help = "filters, as for the main job; may be repeated"),
    OPTION(BENCH, 'a', "algorithm", "NAME...", algorithms, bench.algorithms, KEEPS, .several = true, .word_at = algorithm_at,
           .lack = gconv_documented_lack,
           .help =
               "auto, or algorithms of the device, also with commas between: direct,fft; may be repeated; all, the default: "
               "all but reference"),
    OPTION(BENCH, 0, "block", "WxH,...", blocks, bench, KEEPS,
           .help = "threads of a block on a GPU, for direct and tiled; the others have blocks of their own; may be "
                   "repeated"),
    OPTION(BENCH, 0, "grid", "N,N...", sizes, bench.grids, KEEPS, .most = INT_MAX,
           .takes = "numbers of blocks with commas between: 132,264,528",
           .help = "blocks of a grid on a GPU at most, for direct, tiled and sparse; the others have grids of "
                   "their own"),
    OPTION(BENCH, 0, "sweep", "KIND", sweep, bench, KEEPS, .words = "block|grid",
           .help = "block: the usual blocks, from 8x8 to 256x4; grid: numbers of blocks from 16 to 65536"),
    OPTION(BENCH, 0, "figure", "NAME", name, bench.figure, KEEPS, .word_at = gconv_bench_figure_at,
           .help = "a grid that is known by name: below; other options still count"),
    OPTION(BENCH, 0, "experiment", "NAME", name, bench.experiment, KEEPS, .word_at = experiment_at,
           .excludes = "planar type filter block grid sweep figure verify auto-check plot-kind",
           .excluded = "--experiment measures layers or nets: it takes --image, --sizes, --batches, --filters, --against, "
                       "--algorithm, --device, --threads, --runs, --csv, --json and --plot",
           .help = "layers or nets instead of images: below; --image, --sizes, --batches, --filters and -a change what is "
                   "measured; `list` lists them"),
    OPTION(BENCH, 0, "batches", "N,N...", sizes, bench.batches, KEEPS, .most = 65536,
           .takes = "numbers of images with commas between: 1,4,16",
           .help = "of experiments with layers: how many images a layer gets"),
    OPTION(BENCH, 0, "filters", "N,N...", sizes, bench.layer_filters, KEEPS, .most = 65536,
           .takes = "numbers of filters with commas between: 8,64",
           .help = "of experiments with layers: how many filters a layer has"),
    OPTION(BENCH, 0, "against", "DEVICE", text, bench.against, KEEPS, .words = "cpu|cuda", .synonyms = device_words,
           .help = "of experiments with layers: measure this device, too, with the algorithm that auto chooses there, and "
                   "tell where --device overtakes it"),
    HEADING(BENCH, "How"),
    OPTION(BENCH_TUNE, 'd', "device", "NAME", text, bench.device, KEEPS, .words = "auto|cpu|cuda", .synonyms = device_words,
           .help = DEVICE_HELP),
    OPTION(TUNE, 0, "threads", "N", integer, tune_threads, KEEPS, .least = 1, .most = MOST_THREADS, .help = THREADS_HELP),
    OPTION(BENCH, 0, "threads", "N,N...", sizes, bench.threads, KEEPS, .most = MOST_THREADS,
           .takes = "numbers of threads with commas between: 1,2,4", .help = THREADS_HELP "; several are measured in turn"),
    OPTION(BENCH, 0, "runs", "N", integer, bench.runs, KEEPS, .least = 1, .most = 10000,
           .help = "runs, of which the median counts; default: 20, and fewer where they would take over a second"),
    OPTION(BENCH, 0, "verify", NULL, flag, bench.verify, KEEPS,
           .help = "hold all rows of the results to float64, in place of some; slow for large filters"),
    OPTION(BENCH, 0, "profile", NULL, flag, bench.profile, KEEPS,
           .help = "on an NVIDIA GPU, add what its multiprocessors do, by the counters of the hardware: how many warps are "
                   "there, and what they wait for"),
    OPTION(BENCH, 0, "auto-check", NULL, flag, bench.auto_check, KEEPS, .excludes = "csv json plot algorithm profile",
           .excluded = "--auto-check compares all algorithms, in a table of its own: --csv, --json, --plot, --profile and "
                       "--algorithm are for the others",
           .help = "compare what auto chooses with the best algorithm at every point; fails if it is too far behind"),
    HEADING(BENCH, "Reports"),
    OPTION(BENCH, 0, "csv", "[FILE]", file_or_output, bench.csv, KEEPS, .excludes = "json",
           .help = "rows with commas, into FILE.csv; by itself, to standard output"),
    OPTION(BENCH, 0, "json", "[FILE]", file_or_output, bench.json, KEEPS,
           .help = "one JSON document, into FILE.json; by itself, to standard output"),
    OPTION(BENCH, 0, "plot", "FILE", text, bench.plot, KEEPS, .help = "draw it with gnuplot, too: FILE.svg or FILE.png"),
    OPTION(BENCH, 0, "plot-kind", "KIND", word, bench.plot_kind, KEEPS,
           .words = "filter|image|block|grid|roofline", /* gconv_bench_plot_kind */
           .help = "time against filter (default), image, block or grid; or a roofline: rate against arithmetic intensity"),
    OPTION(TUNE, 0, "quick", NULL, flag, quick, KEEPS, .help = "u8 and three sizes of filters only"),
    OPTION(TUNE, 0, "show", NULL, flag, show, KEEPS, .excludes = "forget",
           .help = "print what is remembered, and measure nothing"),
    OPTION(TUNE, 0, "forget", NULL, flag, forget, KEEPS, .help = "remove what is remembered, and measure nothing"),

    /* ---- all commands ---- */
    {.of = ~0u, .letter = 'h', .name = "help", .help = "print this help"},
    {.name = NULL},
};

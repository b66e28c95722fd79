/* SPDX-License-Identifier: MIT */
/* The table of options. Those that need a parser of their own have it in filter_parsers.c, and of banks in bank_options.c.
 */
#include "cli/filter_options.h"
#include "cli/bank_options.h"
#include "cli/command.h"
#include "cli/filter_parsers.h"
#include "cli/threads.h"

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
    OPTION(0, "max-pixels", "N", gconv_parse_max_pixels,
           .help = "refuse larger images; k, M and G may follow; default: 1073741824"),

    OPTION('o', "output", "PATH", gconv_option_text_once, .also = "dest destination", .field = FIELD(output),
           .group = "Output",
           .help = "a file, a folder (existing, or ending in /), a template with {stem}, {filter}, {index} or {frame}, or - "
                   "for standard output; braces of a name are doubled: {{ and }}"),
    OPTION(
        0, "format", "NAME", gconv_parse_format,
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
        0, "shard", "I/N|auto", gconv_parse_shard,
        .help =
            "process only part I of N of the images, chosen by a hash of their paths, so that machines can share a folder; "
            "auto and auto/N follow the variables of Slurm arrays and indexed Kubernetes jobs"),

    OPTION(0, "flip", NULL, gconv_option_flag, .also = "convolve convolution rotate", .field = FIELD(convolution.flip),
           .group = "Convolution",
           .help = "mathematical convolution: rotate the filter by 180 degrees; default: correlation"),
    OPTION(0, "border", "MODE", gconv_parse_border, .also = "edge boundary",
           .help = "what lies outside the image: zero (default), constant:V, replicate, symmetric, reflect101 or wrap"),
    OPTION(0, "padding", "MODE", gconv_parse_padding,
           .help = "the size of the result: same (default), valid, full, or pixels to pad by: N, Y,X or T,B,L,R"),
    OPTION(0, "stride", "N|Y,X", gconv_parse_stride, .help = "compute every N-th pixel only; default: 1"),
    OPTION(0, "dilation", "N|Y,X", gconv_parse_dilation,
           .help = "distance between neighbouring taps, in pixels; default: 1"),
    OPTION(0, "gray", NULL, gconv_option_flag, .also = "grey grayscale greyscale mono", .field = FIELD(convolution.gray),
           .help = "convert to grey first: 0.299 R + 0.587 G + 0.114 B"),
    OPTION(0, "linear", NULL, gconv_option_flag, .also = "gamma srgb", .field = FIELD(convolution.linear),
           .help = "filter in linear light: undo the sRGB curve before, redo it after"),
    OPTION(0, "alpha", "MODE", gconv_option_choice, .field = FIELD(alpha), .choices = alphas,
           .help = "keep (default): alpha is copied; filter: filtered like the other channels; premultiply: colours are "
                   "weighted by it; drop: left out"),
    OPTION(
        0, "combine", "MODE", gconv_parse_combine, .also = "merge reduce",
        .help =
            "several filters give: none (default), a result each; magnitude, sum, max or stack, one result of all; of banks "
            "also argmax, a map of the strongest response, and mosaic, one picture of all"),
    OPTION(0, "scale", "S", gconv_option_number, .field = FIELD(convolution.scale),
           .help = "multiply responses by S; default: 1"),
    OPTION(0, "offset", "O", gconv_option_number, .also = "bias", .field = FIELD(convolution.offset),
           .help = "then add O, where 1 is white; default: 0"),
    OPTION(0, "range", "MODE", gconv_parse_range, .field = FIELD(range), .choices = ranges,
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

    OPTION('a', "algorithm", "NAME", gconv_parse_algorithm, .group = "How it is computed",
           .help = "auto (default), one that gconv algorithms lists, or all: a race of all on one image, which must agree; "
                   "the result is that of the fastest"),
    OPTION(0, "without", "NAMES", gconv_parse_without,
           .help = "algorithms that auto, or the race of all, must not use, separated by commas"),
    OPTION(0, "workspace", "SIZE", gconv_parse_workspace,
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
    OPTION(0, "memory", "SIZE", gconv_parse_memory,
           .help = "memory of the host that images in progress may use in all; k, M and G may follow; default: half of it"),
    OPTION(0, "fail-fast", NULL, gconv_option_flag, .field = FIELD(fail_fast),
           .help = "start no further image after a failure; default: report it and continue"),

    OPTION(0, "dry-run", NULL, gconv_option_flag, .field = FIELD(dry_run), .group = "Reports",
           .help = "print what would be read and written, and do nothing else"),
    OPTION(0, "timings", "[=table|json]", gconv_parse_timings, .also = "time times profile",
           .help = "print where the time went, for each image and in total"),
    OPTION(0, "verify", "[=TOL]", gconv_parse_verify, .field = 0,
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

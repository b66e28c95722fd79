/* SPDX-License-Identifier: MIT */
/* gconv bank show and gconv bank convert: a bank, as a picture and as a file. */
#include "base/ending.h"
#include "base/memory.h"
#include "cli/bank.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"
#include "gconv_learn.h"

#include <string.h>
#include <unistd.h>

static int say_failure(gconv_status status) {
  if (status == GCONV_OK)
    return GCONV_EXIT_OK;
  gconv_say("%s", gconv_last_error());
  return status == GCONV_BAD_ARGUMENT || status == GCONV_UNSUPPORTED ? GCONV_EXIT_USAGE : GCONV_EXIT_FAILED;
}

/* ---- show ---- */

typedef struct show_settings {
  gconv_common common;
  gconv_bank_sheet sheet; /* its zoom and columns */
  int scale;              /* 0: by each filter's own largest weight, 1: by the largest of all */
} show_settings;

#define OPTION(...) GCONV_OPTION(show_settings, __VA_ARGS__)
static const gconv_option show_options[] = {
    GCONV_NO_SANDBOX_ROW,
    OPTION('o', "output", "FILE", once, common.output, .help = "the picture to write; - is standard output, as PNG"),
    OPTION(0, "zoom", "N", integer, sheet.zoom, .least = 1, .most = GCONV_BANK_MAX_ZOOM,
           .help = "draw a weight as N x N pixels; default: as fits for a sheet of a good size"),
    OPTION(0, "columns", "N", integer, sheet.columns, .least = 1, .most = 1 << 20,
           .help = "filters side by side; default: as fits for a sheet of a good shape"),
    OPTION(0, "scale", "each|all", word, scale, .words = "each|all",
           .help = "scale each filter by its largest weight, or all by the largest of all; default: each"),
    GCONV_BANK_SYNTAX_ROW,
    GCONV_OPTIONS_END,
};

/* Returns the format of a picture. /dev/stdout may be a file that has another name. */
static const gconv_format_info *choose_format(const char *path) {
  bool standard = strcmp(path, "/dev/stdout") == 0 || strncmp(path, "/dev/fd/", 8) == 0;
  return gconv_output_format(standard ? "-" : path);
}

/* True if there is a place for the picture, and a format; else prints the error. */
static bool check_output(const show_settings *settings, const gconv_texts *specs) {
  const char *path = settings->common.output;
  if (!path)
    gconv_say("bank show: say with -o which picture to write");
  else if (strcmp(path, "-") == 0 && isatty(STDOUT_FILENO))
    gconv_say("-: an image is not written to a terminal: send it to a file or another program");
  else if (!choose_format(path))
    gconv_say("%s: its name does not tell the format of the picture: end it in .png or .jpg", path);
  else
    return gconv_command_may_write(specs, true, path);
  return false;
}

static gconv_status write_picture(const char *path, const gconv_image *image) {
  gconv_write_options options = {.format = choose_format(path)};
  return gconv_image_write(path, &options, image);
}

static int show(void *record, const gconv_texts *specs) {
  show_settings *settings = record;
  GCONV_ENDED_BY(gconv_bank_free) gconv_bank bank = {0};
  GCONV_ENDED_BY(gconv_image_free) gconv_image image = {0};
  gconv_set_log(NULL, NULL);
  gconv_sandbox_file(&settings->common, settings->common.output);
  if (!check_output(settings, specs))
    return GCONV_EXIT_USAGE;
  if (gconv_bank_load(specs, settings->common.syntax, &bank) != GCONV_OK)
    return gconv_say_failed(GCONV_EXIT_USAGE);
  settings->sheet.one_scale = settings->scale == 1;
  gconv_status status = gconv_bank_draw(&bank, &settings->sheet, &image);
  GCONV_THEN(status, write_picture(settings->common.output, &image));
  return say_failure(status);
}

const gconv_command gconv_command_bank_show = {
    .name = "bank show",
    .synopsis = "bank show SPEC... -o FILE [OPTION...]",
    .help = "draw the filters of a bank as a contact sheet",
    .details = "Filters of 3 channels are drawn in colour. Of other filters, each channel is a grey tile, side by side.\n"
               "Weights of 0 are mid-grey.\n",
    .options = show_options,
    .record_bytes = GCONV_RECORD_BYTES(show_settings, common),
    .words = GCONV_WORDS_FILES,
    .run = show,
};

/* ---- convert ---- */

typedef struct convert_settings {
  gconv_common common;
  const char *format; /* NULL: by the extension */
  const char *net;    /* NULL: not given */
} convert_settings;

#undef OPTION
#define OPTION(...) GCONV_OPTION(convert_settings, __VA_ARGS__)
static const gconv_option convert_options[] = {
    GCONV_NO_SANDBOX_ROW,
    OPTION('o', "output", "FILE", once, common.output,
           .help = "write to this .txt, .npy or .safetensors, of a network also .onnx; default: text on standard output"),
    OPTION(0, "format", "FORMAT", text, format, .words = "bank|npy|safetensors",
           .help = "bank (text), npy or safetensors; default: by the extension"),
    OPTION(0, "net", "LAYERS", text, net,
           .help = "make a PyTorch state_dict a network, with what follows each layer: 'relu, /2 relu, mean, softmax'"),
    GCONV_BANK_SYNTAX_ROW,
    GCONV_OPTIONS_END,
};

/* True if the result is a network: the whole file is an ONNX model, a network or a checkpoint, or has weights for --net. */
static bool makes_network(const convert_settings *settings, const gconv_texts *specs) {
  const char *path = settings->common.output;
  bool named = path && (gconv_ends_in(path, ".safetensors") || gconv_ends_in(path, ".onnx"));
  bool of_networks = settings->format ? strcmp(settings->format, "safetensors") == 0 : named;
  if (specs->count != 1 || (!settings->net && (!of_networks || settings->common.syntax)))
    return false;
  return settings->net || gconv_network_is_one(specs->items[0]) || gconv_model_is_one(specs->items[0]);
}

static int convert_network(const convert_settings *settings, const char *path) {
  GCONV_ENDED_BY(gconv_network_free) gconv_network network = {0};
  if (settings->format && settings->common.output && gconv_ends_in(settings->common.output, ".onnx"))
    return say_failure(
        gconv_refuse("--format %s: the name of the file, %s, says that it is an ONNX model: leave out --format",
                     settings->format, settings->common.output));
  gconv_status status = !settings->net && gconv_network_is_one(path) ? gconv_network_read(path, &network)
                                                                     : gconv_network_import(path, settings->net, &network);
  GCONV_THEN(status, gconv_network_write(settings->common.output ? settings->common.output : "-", &network));
  return say_failure(status);
}

static int convert(void *record, const gconv_texts *specs) {
  const convert_settings *settings = record;
  GCONV_ENDED_BY(gconv_bank_free) gconv_bank bank = {0};
  gconv_sandbox_file(&settings->common, settings->common.output);
  if (!gconv_command_may_write(specs, true, settings->common.output))
    return GCONV_EXIT_USAGE;
  if (makes_network(settings, specs))
    return convert_network(settings, specs->items[0]);
  if (gconv_bank_load(specs, settings->common.syntax, &bank) != GCONV_OK)
    return gconv_say_failed(GCONV_EXIT_USAGE);
  gconv_status status = gconv_bank_write(settings->common.output ? settings->common.output : "-", settings->format, &bank);
  return say_failure(status);
}

const gconv_command gconv_command_bank_convert = {
    .name = "bank convert",
    .synopsis = "bank convert SPEC... [-o FILE] [OPTION...]",
    .help = "write a bank or stacked filters as text, .npy or safetensors; a network as ONNX, and a model as a network",
    .details =
        "A network becomes an ONNX model with -o FILE.onnx: other programs run it, and -f applies it, too.\n"
        "An ONNX model, as a whole, becomes a network in safetensors, which -f applies; of a PyTorch nn.Sequential in\n"
        "safetensors, --net says what follows each layer: none, relu, leaky:A, sigmoid, tanh or softmax, dropout,\n"
        "identity and flatten, with /STRIDE, valid, padding:N, pad, dilation:N, groups:N, eps:E, or ROWSxCOLUMNS that\n"
        "a dense layer sees; mean and residual stand alone. BatchNorm is folded into the layer before it.\n\n"
        "Weights keep their bits. Text holds all that a bank has. .npy does not hold biases. Neither .npy nor\n"
        "safetensors holds stride, padding, dilation, groups and the names of filters.\n",
    .options = convert_options,
    .record_bytes = GCONV_RECORD_BYTES(convert_settings, common),
    .words = GCONV_WORDS_FILES,
    .run = convert,
};

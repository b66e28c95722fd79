/* SPDX-License-Identifier: MIT */
/* gconv bank show and gconv bank convert: a bank, as a picture and as a file. */
#include "cli/bank.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"
#include "gconv_learn.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

static int say_usage(const gconv_message *message) {
  gconv_say("%s", message->text);
  return GCONV_EXIT_USAGE;
}

static int say_failure(gconv_status status) {
  if (status == GCONV_OK)
    return GCONV_EXIT_OK;
  gconv_say("%s", gconv_last_error());
  return status == GCONV_BAD_ARGUMENT || status == GCONV_UNSUPPORTED ? GCONV_EXIT_USAGE : GCONV_EXIT_FAILED;
}

/* ---- show ---- */

/* The format of a picture. /dev/stdout may be a file that has another name. */
static const gconv_format_info *choose_format(const char *path) {
  bool standard = strcmp(path, "/dev/stdout") == 0 || strncmp(path, "/dev/fd/", 8) == 0;
  return gconv_output_format(standard ? "-" : path);
}

/* Whether there is a place for the picture, and a format; else it is said. */
static bool check_output(const gconv_settings *settings, const gconv_texts *specs) {
  const char *path = settings->naming.output;
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

static int show(gconv_settings *settings, const gconv_texts *specs) {
  gconv_bank bank = {0};
  gconv_image image = {0};
  gconv_message message;
  gconv_sandbox_file(settings, settings->naming.output);
  if (!check_output(settings, specs))
    return GCONV_EXIT_USAGE;
  if (gconv_bank_load(specs, settings->last.syntax, &bank, &message) != GCONV_OK)
    return say_usage(&message);
  settings->sheet.one_scale = settings->sheet_scale == 1;
  gconv_status status = gconv_bank_draw(&bank, &settings->sheet, &image);
  if (status == GCONV_OK)
    status = write_picture(settings->naming.output, &image);
  gconv_bank_free(&bank);
  gconv_image_free(&image);
  return say_failure(status);
}

const gconv_command gconv_bank_show = {
    .name = "bank show",
    .synopsis = "bank show SPEC... -o FILE [OPTION...]",
    .help = "draw the filters of a bank as a contact sheet",
    .details = "Filters of 3 channels are coloured; of others, each channel has a tile, side by side. Weights of 0 are\n"
               "mid-grey.\n",
    .of = GCONV_OF_BANK_SHOW,
    .words = GCONV_WORDS_FILES,
    .run = show,
};

/* ---- convert ---- */

/* Whether the result is a network: of a file, not of a part of it, that is an ONNX model, a network or a checkpoint; or of
 * weights and --net. */
static bool makes_network(const gconv_settings *settings, const gconv_texts *specs) {
  const char *path = settings->naming.output;
  size_t length = path ? strlen(path) : 0, ending = strlen(".safetensors");
  bool named = length > ending && strcasecmp(path + length - ending, ".safetensors") == 0;
  bool safetensors = settings->bank_format ? strcmp(settings->bank_format, "safetensors") == 0 : named;
  if (specs->count != 1 || (!settings->net && (!safetensors || settings->last.syntax)))
    return false;
  return settings->net || gconv_network_is_one(specs->items[0]) || gconv_model_is_one(specs->items[0]);
}

static int convert_network(const gconv_settings *settings, const char *path) {
  gconv_network network = {0};
  gconv_status status = !settings->net && gconv_network_is_one(path) ? gconv_network_read(path, &network)
                                                                     : gconv_network_import(path, settings->net, &network);
  if (status == GCONV_OK)
    status = gconv_network_write(settings->naming.output ? settings->naming.output : "-", &network);
  gconv_network_free(&network);
  return say_failure(status);
}

static int convert(gconv_settings *settings, const gconv_texts *specs) {
  gconv_bank bank = {0};
  gconv_message message;
  gconv_set_log(gconv_say_warning, NULL);
  gconv_sandbox_file(settings, settings->naming.output);
  if (!gconv_command_may_write(specs, true, settings->naming.output))
    return GCONV_EXIT_USAGE;
  if (makes_network(settings, specs))
    return convert_network(settings, specs->items[0]);
  if (gconv_bank_load(specs, settings->last.syntax, &bank, &message) != GCONV_OK)
    return say_usage(&message);
  gconv_status status =
      gconv_bank_write(settings->naming.output ? settings->naming.output : "-", settings->bank_format, &bank);
  gconv_bank_free(&bank);
  return say_failure(status);
}

const gconv_command gconv_bank_convert = {
    .name = "bank convert",
    .synopsis = "bank convert SPEC... [-o FILE] [OPTION...]",
    .help = "write a bank, or plain filters stacked into one, as text, .npy or safetensors; or a model as a network",
    .details =
        "An ONNX model, as a whole, becomes a network in safetensors, which -f applies; of a PyTorch nn.Sequential in\n"
        "safetensors, --net says what follows each layer: none, relu, leaky:A, sigmoid, tanh or softmax, dropout,\n"
        "identity and flatten, with /STRIDE, valid, padding:N, pad, dilation:N, groups:N, eps:E, or ROWSxCOLUMNS that\n"
        "a dense layer sees; mean and residual stand alone. BatchNorm is folded into the layer before it.\n\n"
        "Weights keep their bits. Text holds all that a bank has; .npy no biases; .npy and safetensors neither\n"
        "stride, padding, dilation and groups, nor the names of filters.\n",
    .of = GCONV_OF_BANK_CONVERT,
    .words = GCONV_WORDS_FILES,
    .run = convert,
};

/* SPDX-License-Identifier: MIT */
/* gconv bank show and gconv bank convert: a bank, as a picture and as a file. */
#include "cli/bank.h"
#include "cli/terminal.h"

#include <string.h>
#include <sys/stat.h>
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

enum { SCALE_EACH, SCALE_ALL };
static const char *const scales[] = {"each", "all", NULL};

struct show {
  const char *output, *syntax;
  int zoom, columns, scale;
};

static const gconv_option show_options[] = {
    {.letter = 'o',
     .name = "output",
     .value = "FILE",
     .help = "the picture to write; - is standard output, as PNG",
     .parse = gconv_option_text_once,
     .field = offsetof(struct show, output)},
    {.name = "zoom",
     .value = "N",
     .help = "pixels of a weight, along each side; default: what makes a sheet of a good size",
     .parse = gconv_option_integer,
     .field = offsetof(struct show, zoom),
     .least = 1,
     .most = GCONV_BANK_MAX_ZOOM},
    {.name = "columns",
     .value = "N",
     .help = "filters side by side; default: what makes a sheet of a good shape",
     .parse = gconv_option_integer,
     .field = offsetof(struct show, columns),
     .least = 1,
     .most = 1 << 20},
    {.name = "scale",
     .value = "each|all",
     .help = "scale each filter by its largest weight, or all by the largest of all; default: each",
     .parse = gconv_option_choice,
     .field = offsetof(struct show, scale),
     .choices = scales},
    GCONV_BANK_SYNTAX_OPTION(struct show),
    GCONV_OPTIONS_END,
};

/* The format of a picture, by its extension; standard output and devices, which need none, get a PNG. NULL: unknown. */
static const gconv_format_info *choose_format(const char *path) {
  struct stat status;
  const gconv_format_info *format = gconv_format_by_path(path);
  bool special = strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
                 (stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode));
  return format || !special ? format : gconv_format_by_name("png");
}

/* Whether there is a place for the picture, and a format; else it is said. */
static bool check_output(const struct show *settings, const gconv_texts *specs) {
  const char *path = settings->output;
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

static int show(const struct show *settings, const gconv_texts *specs) {
  gconv_bank bank = {0};
  gconv_image image = {0};
  gconv_message message;
  if (!check_output(settings, specs))
    return GCONV_EXIT_USAGE;
  if (gconv_bank_load(specs, settings->syntax, &bank, &message) != GCONV_OK)
    return say_usage(&message);
  gconv_bank_sheet sheet = {settings->zoom, settings->columns, settings->scale == SCALE_ALL};
  gconv_status status = gconv_bank_draw(&bank, &sheet, &image);
  if (status == GCONV_OK)
    status = write_picture(settings->output, &image);
  gconv_bank_free(&bank);
  gconv_image_free(&image);
  return say_failure(status);
}

static int run_show(const gconv_command *self, int count, char *const *words) {
  struct show settings = {0};
  gconv_texts specs = {0};
  int status;
  if (!gconv_command_parse(self, count, words, &settings, &specs, &status))
    return status;
  status = show(&settings, &specs);
  gconv_texts_free(&specs);
  return status;
}

const gconv_command gconv_bank_show = {
    .name = "bank show",
    .synopsis = "bank show SPEC... -o FILE [OPTION...]",
    .help = "draw the filters of a bank as a contact sheet",
    .details = "Filters of 3 channels are coloured; of others, each channel has a tile, side by side. Weights of 0 are\n"
               "mid-grey.\n",
    .options = show_options,
    .run = run_show,
};

/* ---- convert ---- */

struct convert {
  const char *output, *format, *syntax;
};

static const gconv_option convert_options[] = {
    {.letter = 'o',
     .name = "output",
     .value = "FILE",
     .help = "write to this file, .txt, .npy or .safetensors; default: text on standard output",
     .parse = gconv_option_text_once,
     .field = offsetof(struct convert, output)},
    {.name = "format",
     .value = "FORMAT",
     .help = "bank (text), npy or safetensors; default: by the extension",
     .parse = gconv_option_text,
     .field = offsetof(struct convert, format)},
    GCONV_BANK_SYNTAX_OPTION(struct convert),
    GCONV_OPTIONS_END,
};

static int convert(const struct convert *settings, const gconv_texts *specs) {
  gconv_bank bank = {0};
  gconv_message message;
  gconv_set_log(gconv_say_warning, NULL);
  if (!gconv_command_may_write(specs, true, settings->output))
    return GCONV_EXIT_USAGE;
  if (gconv_bank_load(specs, settings->syntax, &bank, &message) != GCONV_OK)
    return say_usage(&message);
  gconv_status status = gconv_bank_write(settings->output ? settings->output : "-", settings->format, &bank);
  gconv_bank_free(&bank);
  return say_failure(status);
}

static int run_convert(const gconv_command *self, int count, char *const *words) {
  struct convert settings = {0};
  gconv_texts specs = {0};
  int status;
  if (!gconv_command_parse(self, count, words, &settings, &specs, &status))
    return status;
  status = convert(&settings, &specs);
  gconv_texts_free(&specs);
  return status;
}

const gconv_command gconv_bank_convert = {
    .name = "bank convert",
    .synopsis = "bank convert SPEC... [-o FILE] [OPTION...]",
    .help = "write a bank, or plain filters stacked into one, as text, .npy or safetensors",
    .details = "Weights keep their bits. Text holds all that a bank has; .npy no biases; .npy and safetensors neither\n"
               "stride, padding, dilation and groups, nor the names of filters.\n",
    .options = convert_options,
    .run = run_convert,
};

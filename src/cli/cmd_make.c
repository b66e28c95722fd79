/* SPDX-License-Identifier: MIT */
/* gconv make: filters as text. */
#include "base/memory.h"
#include "cli/command.h"
#include "cli/sandbox.h"

#define OPTION(...) GCONV_OPTION(gconv_common, __VA_ARGS__)
static const gconv_option options[] = {
    GCONV_NO_SANDBOX_ROW,
    OPTION('o', "output", "FILE", once, output,
           .help = "write to this file; one filter also as .npy, .fits or .tif of floats; default: standard output"),
    GCONV_FILTER_SYNTAX_ROW,
    GCONV_OPTIONS_END,
};

static gconv_status read(const gconv_common *settings, const gconv_texts *specs, gconv_filters *filters) {
  if (specs->count == 0)
    return gconv_refuse("make: name a filter, such as gaussian:size=9,sigma=2; gconv filters lists them");
  for (size_t i = 0; i < specs->count; i++) {
    if (!settings->syntax && gconv_bank_is_one(specs->items[i]))
      return gconv_refuse("make: %s is a bank of filters: gconv bank convert prints it", specs->items[i]);
    if (gconv_filters_read(specs->items[i], settings->syntax, filters) != GCONV_OK)
      return GCONV_BAD_ARGUMENT;
  }
  return GCONV_OK;
}

/* Writes one filter as a picture of its taps, such as a PSF as FITS. */
static gconv_status write_picture(const char *path, const gconv_format_info *format, const gconv_filters *filters) {
  const gconv_filter *filter = &filters->items[0];
  if (filters->count > 1 || !format->writes || !format->holds[GCONV_F32])
    return gconv_refuse("%s: filters are written as .txt, and a single one also as .npy, .fits or .tif, which hold floats",
                        path);
  if (filter->offset != 0 || filter->marked || filter->anchor_row != filter->rows / 2 ||
      filter->anchor_column != filter->columns / 2)
    return gconv_refuse("%s: a picture has no place for the offset, gaps or origin of %s: write .txt", path, filter->name);
  gconv_image image = {.type = GCONV_F32, .channels = 1, .frames = 1, .width = filter->columns, .height = filter->rows};
  GCONV_TRY(gconv_image_allocate(&image));
  for (int32_t r = 0; r < filter->rows; r++)
    for (int32_t s = 0; s < filter->columns; s++)
      ((float *)(void *)((uint8_t *)image.data + (size_t)r * image.row_bytes))[s] =
          filter->taps[(size_t)r * (size_t)filter->columns + (size_t)s] / filter->divisor;
  const gconv_status status = gconv_image_write(path, NULL, &image);
  gconv_image_free(&image);
  return status;
}

static gconv_status write(const char *path, const gconv_filters *filters) {
  const gconv_format_info *format = path ? gconv_format_by_path(path) : NULL;
  return format ? write_picture(path, format, filters) : gconv_filters_write(path ? path : "-", filters);
}

static int run(void *record, const gconv_texts *specs) {
  const gconv_common *settings = record;
  GCONV_ENDED_BY(gconv_filters_free) gconv_filters filters = {0};
  gconv_sandbox_file(settings, settings->output);
  int result = gconv_say_end(read(settings, specs, &filters));
  if (result == GCONV_EXIT_OK && !gconv_command_may_write(specs, false, settings->output))
    result = GCONV_EXIT_USAGE;
  if (result == GCONV_EXIT_OK)
    result = gconv_command_end(write(settings->output, &filters), false);
  return result;
}

const gconv_command gconv_command_make = {
    .name = "make",
    .synopsis = "make SPEC... [OPTION...]",
    .help = "print filters as text, to be read again with -f",
    .details = "A SPEC is what -f takes: a file, a built-in filter such as log:size=9,sigma=1.4, or an ImageMagick kernel.\n"
               "Several filters become ImageMagick kernels, which share a file; none may have a divisor or offset.\n",
    .options = options,
    .words = GCONV_WORDS_FILTERS,
    .run = run,
};

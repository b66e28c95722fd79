/* SPDX-License-Identifier: MIT */
#include "cli/job_holes.h"

#include <math.h>
#include <string.h>

const gconv_synonym gconv_nan_words[] = {
    {"propagate", "keep", NULL}, {"interpolate omit ignore", "fill", NULL}, {"preserve", "skip", NULL}, {NULL, NULL, NULL}};

static bool parse_nodata(const char *text, double *value) {
  *value = NAN;
  return strcasecmp(text, "nan") == 0 || gconv_parse_number(text, value);
}

bool gconv_hole_options_leave_out(const gconv_hole_options *holes) {
  return holes->nan == GCONV_NAN_SKIP || holes->nan == GCONV_NAN_FILL || holes->weights ||
         (holes->nodata && holes->nan != GCONV_NAN_ZERO);
}

gconv_status gconv_hole_options_check(const gconv_hole_options *holes, bool of_networks) {
  double number;
  const char *given = holes->nan != GCONV_NAN_KEEP ? "--nan"
                      : holes->weights             ? "--weights"
                      : holes->nodata              ? "--nodata"
                      : holes->preserves           ? "--preserve-nan"
                                                   : NULL;
  if (holes->least_weight < 0 || holes->least_weight > 1)
    return gconv_refuse("--least-weight: this takes a share from 0 to 1");
  if (holes->nodata && !parse_nodata(holes->nodata, &number))
    return gconv_refuse("--nodata %s: this takes a number, or nan", holes->nodata);
  if (of_networks && given)
    return gconv_refuse("%s is for plain filters, not for banks and networks: they see every sample", given);
  return GCONV_OK;
}

void gconv_hole_options_apply(const gconv_hole_options *holes, const gconv_image *weights, bool border_given, size_t stage,
                              gconv_options *options) {
  if (stage > 0 && holes->nan != GCONV_NAN_SKIP)
    return;
  options->nan = (gconv_nan)holes->nan;
  options->preserves = holes->preserves;
  options->least_weight = holes->least_weight;
  if (gconv_hole_options_leave_out(holes) && !border_given)
    options->border = GCONV_BORDER_NORMALIZE;
  if (stage > 0)
    return;
  options->weights = weights->data ? weights : NULL;
  options->sets_nodata = holes->nodata && parse_nodata(holes->nodata, &options->nodata);
}

/* Refuses a picture that --memory has no room for: for its samples, twice if it is rotated or joined, and its weights. */
static gconv_status check_picture(const gconv_common *common, const char *option, const char *path) {
  const double program = 10e6;
  gconv_image header = {0};
  if (common->memory == 0 || strcmp(path, "-") == 0 || gconv_image_read_header(path, &header, NULL) != GCONV_OK)
    return GCONV_OK; /* reading it says why */
  double samples = (double)header.frames * header.height * header.width * (2 * header.channels + 1);
  double bytes = program + samples * (double)gconv_type_bytes(header.type);
  gconv_image_free(&header);
  if (bytes <= (double)common->memory)
    return GCONV_OK;
  return gconv_fail(GCONV_TOO_LARGE, "%s %s: takes about %.0f MB of memory, and --memory allows %.0f MB: raise it to %.0fM",
                    option, path, ceil(bytes / 1e6), ceil((double)common->memory / 1e6), ceil(bytes / 1e6));
}

gconv_status gconv_read_picture(const gconv_common *common, const char *option, const char *path, gconv_image *image) {
  const gconv_read_options options = {.max_pixels = common->max_pixels, .max_bytes = common->memory};
  GCONV_TRY(check_picture(common, option, path));
  gconv_status status = gconv_image_read(path, &options, image);
  return status == GCONV_OK ? status : gconv_fail(status, "%s %s", option, gconv_last_error());
}

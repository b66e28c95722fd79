/* SPDX-License-Identifier: MIT */
#include "cli/picture_filter.h"
#include "base/memory.h"
#include "image/layout.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_TAPS = 1 << 26 /* as of other filters */ };

/* Makes a plane of a PSF from the grey samples of a frame. */
static gconv_status take_frame(const char *path, const gconv_image *image, int32_t frame, gconv_filter *filter) {
  const size_t width = (size_t)image->width, step = (size_t)image->channels, count = width * (size_t)image->height;
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  *filter = (gconv_filter){.name = strndup(name, strcspn(name, ".")),
                           .rows = image->height,
                           .columns = image->width,
                           .taps = calloc(count, sizeof(float)),
                           .divisor = 1,
                           .anchor_row = image->height / 2,
                           .anchor_column = image->width / 2};
  GCONV_NEED_MEMORY(filter->name && filter->taps, "no memory for the PSF");
  for (size_t i = 0; i < count; i++) {
    const void *row = gconv_row_at(image, (size_t)frame, (int64_t)(i / width));
    const double tap = gconv_stored_at(image->type, row, i % width * step);
    if (!isfinite(tap) || (image->has_nodata && tap == image->nodata))
      return gconv_fail(GCONV_BAD_FILE, "%s: is no number in column %zu of row %zu, which a filter needs: set it to 0", path,
                        i % width, i / width);
    filter->taps[i] = (float)tap;
  }
  return GCONV_OK;
}

gconv_status gconv_picture_filter_make(const char *path, const gconv_image *image, gconv_filters *psf) {
  if ((image->planar && image->channels > 1) || image->channels - image->alpha != 1)
    return gconv_refuse("%s: has %d channels: the picture of a point (PSF) is in grey", path, (int)image->channels);
  if ((int64_t)image->width * image->height > MOST_TAPS)
    return gconv_refuse("%s: a filter of %d x %d taps; the limit is %d taps", path, (int)image->height, (int)image->width,
                        (int)MOST_TAPS);
  for (int32_t frame = 0; frame < image->frames; frame++) {
    GCONV_GROW(psf->items, psf->count, "no memory for the PSF");
    GCONV_TRY(take_frame(path, image, frame, &psf->items[psf->count++]));
  }
  return GCONV_OK;
}

gconv_status gconv_picture_filter_read(const char *path, const char *format, gconv_filters *psf, bool *taken) {
  gconv_image picture = {0};
  const gconv_format_info *found = NULL;
  struct stat there; /* what comes through a pipe can be read once alone */
  gconv_status status = GCONV_OK;
  if (stat(path, &there) == 0 && S_ISREG(there.st_mode))
    status = gconv_image_read_header(path, &picture, &found);
  *taken = found && strcmp(found->name, "npy") != 0 && (!format || strcmp(found->name, format) == 0);
  gconv_image_free(&picture);
  if (!*taken)
    return GCONV_OK;
  GCONV_THEN(status, gconv_image_read(path, NULL, &picture));
  GCONV_THEN(status, gconv_picture_filter_make(path, &picture, psf));
  gconv_image_free(&picture);
  return status;
}

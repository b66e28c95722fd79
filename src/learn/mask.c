/* SPDX-License-Identifier: MIT */
#include "base/arguments.h"
#include "base/status.h"
#include "gconv_classify.h"

/* JPEG, and WebP with loss. */
static gconv_status check_format(const char *path) {
  const gconv_format_info *format;
  gconv_image header = {0};
  GCONV_TRY(gconv_image_read_header(path, &header, &format));
  bool changes = format->quality && !header.lossless;
  gconv_image_free(&header);
  if (!changes)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_FILE, "%s: %s changes the numbers of a mask: save it as PNG or TIFF, from its origin", path,
                    format->name);
}

gconv_status gconv_mask_read(const char *path, const gconv_read_options *options, gconv_image *mask) {
  GCONV_NEED(path);
  GCONV_NEED(mask);
  GCONV_TRY(check_format(path));
  GCONV_TRY(gconv_image_read(path, options, mask));
  const char *wrong = mask->frames != 1 ? "holds several images, and a mask is one"
                      : mask->channels - mask->alpha != 1
                          ? "has colours: a mask has one number a pixel, so save it as grey, or with a palette"
                      : mask->type == GCONV_F32 ? "has floats: the numbers of a mask are whole, of 8 or 16 bits"
                                                : NULL;
  if (!wrong)
    return GCONV_OK;
  gconv_image_free(mask);
  return gconv_fail(GCONV_BAD_FILE, "%s: %s", path, wrong);
}

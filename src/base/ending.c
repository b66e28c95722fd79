/* SPDX-License-Identifier: MIT */
#include "base/ending.h"
#include "base/status.h"
#include "base/suggest.h"

#include <stdio.h>
#include <string.h>

bool gconv_ends_in(const char *path, const char *ending) {
  size_t length = strlen(path), end = strlen(ending);
  return length > end && strcmp(path + length - end, ending) == 0;
}

gconv_status gconv_check_ending(const char *path, const char *own, const char *what, const char *advice) {
  static const char known[] =
      "png jpg jpeg jpe jfif pnm ppm pgm pbm pam pfm npy npz tif tiff webp gif bmp svg pdf eps html htm "
      "csv tsv json jsonl xml yml yaml txt md safetensors onnx pt pth h5 hdf5 pkl mat model zip gz "
      "xls xlsx parquet exr hdr avif heic jxl";
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
  if (!dot || dot == name || !gconv_find_word(known, ' ', dot + 1, strlen(dot + 1)) ||
      gconv_find_word(own, ' ', dot + 1, strlen(dot + 1)))
    return GCONV_OK;
  char list[128] = "";
  for (const char *at = own; *at;) {
    size_t length = strcspn(at, " "), used = strlen(list);
    if (used + length + 4 < sizeof list)
      snprintf(list + used, sizeof list - used, "%s.%.*s", used ? ", " : "", (int)length, at);
    at += length + strspn(at + length, " ");
  }
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %s is written as %s, and this name promises %s%s%s", path, what, list, dot,
                    advice[0] ? ": " : "", advice);
}

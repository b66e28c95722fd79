/* SPDX-License-Identifier: MIT */
/* The one table of formats, made of formats.def. */
#include "base/suggest.h"
#include "image/format.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const gconv_format *const formats[] = {
#define FORMAT(name) &gconv_format_##name,
#include "image/formats.def"
#undef FORMAT
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

const gconv_format_info *gconv_format_at(size_t index) {
  return index < FORMATS ? &formats[index]->info : NULL;
}

void gconv_formats_list(char *text, size_t size) {
  text[0] = '\0';
  for (size_t i = 0; i < FORMATS; i++) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", i == 0 ? "" : ", ", formats[i]->info.name);
  }
}

const gconv_format_info *gconv_format_by_name(const char *name) {
  for (size_t i = 0; name && i < FORMATS; i++)
    if (strcasecmp(name, formats[i]->info.name) == 0 ||
        gconv_find_word(formats[i]->info.extensions, ' ', name, strlen(name)))
      return &formats[i]->info;
  return NULL;
}

const gconv_format_info *gconv_format_by_path(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL, *dot = path ? strrchr(slash ? slash : path, '.') : NULL;
  for (size_t i = 0; dot && i < FORMATS; i++)
    if (gconv_find_word(formats[i]->info.extensions, ' ', dot + 1, strlen(dot + 1)))
      return &formats[i]->info;
  return NULL;
}

const gconv_format *gconv_format_by_content(const uint8_t *bytes, size_t size) {
  for (size_t i = 0; i < FORMATS; i++)
    if (formats[i]->sniff(bytes, size))
      return formats[i];
  return NULL;
}

gconv_type gconv_format_type(const gconv_format_info *format, gconv_type wanted) {
  if (!format || (gconv_type_bytes(wanted) > 0 && format->holds[wanted]))
    return wanted;
  for (unsigned type = (unsigned)wanted; type <= GCONV_F32; type++) /* the types are in order of what they can hold */
    if (format->holds[type])
      return (gconv_type)type;
  int best = GCONV_F32;
  while (best > GCONV_U8 && !format->holds[best])
    best--;
  return (gconv_type)best;
}

/* SPDX-License-Identifier: MIT */
/* The table of kinds of values, made of kinds.def. */
#include "cli/options.h"

#include <stdlib.h>

static void release_texts(void *field) {
  gconv_texts_free(field);
}

static void release_numbers(void *field) {
  free(((gconv_numbers *)field)->items);
}

#define IS(type, other) __builtin_types_compatible_p(type, other)
#define RELEASE(type) IS(type, gconv_texts) ? release_texts : IS(type, gconv_numbers) ? release_numbers : NULL
#define gconv_print_no NULL
#define GCONV_KIND(name, type, print, text)                                                                                 \
  const gconv_kind gconv_value_##name = {gconv_take_##name, gconv_print_##print, RELEASE(type)};
#include "cli/kinds.def"

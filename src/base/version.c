/* SPDX-License-Identifier: MIT */
/* The version of the library and what it was built with, both as CMakeLists.txt knows them. */
#include "gconv.h"

const char *gconv_version(void) {
  return GCONV_VERSION;
}

const char *gconv_built_with(size_t index) {
  static const char *const names[] = {GCONV_BUILT_WITH};
  return index < sizeof names / sizeof names[0] ? names[index] : NULL;
}

/* SPDX-License-Identifier: MIT */
/* Returns the version of the library, and the names of the libraries it was built with. CMakeLists.txt defines both. */
#include "gconv.h"

const char *gconv_version(void) {
  return GCONV_VERSION;
}

const char *gconv_built_with(size_t index) {
  static const char *const names[] = {GCONV_BUILT_WITH};
  return index < sizeof names / sizeof names[0] ? names[index] : NULL;
}

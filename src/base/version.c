/* SPDX-License-Identifier: MIT */
/* The version of the library, which is that of the project in CMakeLists.txt. */
#include "gconv.h"

const char *gconv_version(void) {
  return GCONV_VERSION;
}

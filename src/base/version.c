/* SPDX-License-Identifier: MIT */
#include "gconv.h"

const char *gconv_version(void) {
  return GCONV_VERSION;
}

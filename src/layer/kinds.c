/* SPDX-License-Identifier: MIT */
#include "layer/kind.h"

const gconv_layer_work *gconv_layer_work_of(gconv_layer_kind kind) {
#define ROW(name, value) [value] = &gconv_layer_work_##name,
  static const gconv_layer_work *const works[] = {GCONV_EACH_LAYER_KIND(ROW)};
#undef ROW
  return works[kind];
}

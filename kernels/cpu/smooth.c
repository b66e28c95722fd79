/* SPDX-License-Identifier: MIT */
#include "kernels/cpu/smooth.h"

#define TEMPLATE "kernels/cpu/smooth_template.h"
#include "kernels/cpu/each_isa.h"

void gconv_smooth(const gconv_smoothing *smoothing) {
  GCONV_CALL_ISA(smooth, (smoothing));
}

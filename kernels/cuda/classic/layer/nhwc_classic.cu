/* SPDX-License-Identifier: MIT */
#include "layouts.cuh"

LAYOUT(nhwc, "NHWC", 0);

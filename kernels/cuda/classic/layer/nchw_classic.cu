/* SPDX-License-Identifier: MIT */
#include "layouts.cuh"

LAYOUT(nchw, "NCHW", 1);

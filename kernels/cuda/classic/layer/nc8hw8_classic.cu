/* SPDX-License-Identifier: MIT */
#include "layouts.cuh"

LAYOUT(nc8hw8, "NC/8HW8", 8);

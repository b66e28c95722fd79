/* SPDX-License-Identifier: MIT */
/* UNROLLED_FOR is a loop of constant length that is unrolled, so that arrays that it indexes stay in registers. */
#pragma once

#define UNROLLED_FOR _Pragma("unroll") for

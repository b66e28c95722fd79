/* SPDX-License-Identifier: MIT */
/* The clock for measuring times. */
#pragma once

#include "base/both.h"

GCONV_C_BEGIN

/* Returns the milliseconds of a clock that never goes backwards. */
double gconv_now_ms(void);

GCONV_C_END

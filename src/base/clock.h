/* SPDX-License-Identifier: MIT */
/* The clock for measuring times. */
#ifndef GCONV_BASE_CLOCK_H
#define GCONV_BASE_CLOCK_H

#include "base/both.h"

GCONV_C_BEGIN

/* Milliseconds of a clock that never goes backwards. */
double gconv_now_ms(void);

GCONV_C_END

#endif

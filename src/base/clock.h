/* SPDX-License-Identifier: MIT */
#ifndef GCONV_BASE_CLOCK_H
#define GCONV_BASE_CLOCK_H

/* Milliseconds of a clock that never runs backwards. */
double gconv_now_ms(void);

#endif

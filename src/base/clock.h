/* SPDX-License-Identifier: MIT */
/* The clock for measuring times. */
#ifndef GCONV_BASE_CLOCK_H
#define GCONV_BASE_CLOCK_H

#ifdef __cplusplus
extern "C" {
#endif

/* Milliseconds of a clock that never goes backwards. */
double gconv_now_ms(void);

#ifdef __cplusplus
}
#endif

#endif

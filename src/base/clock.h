/* SPDX-License-Identifier: MIT */
/* The clock that times are measured by. */
#ifndef GCONV_BASE_CLOCK_H
#define GCONV_BASE_CLOCK_H

#ifdef __cplusplus
extern "C" {
#endif

/* Milliseconds of a clock that never runs backwards. */
double gconv_now_ms(void);

#ifdef __cplusplus
}
#endif

#endif

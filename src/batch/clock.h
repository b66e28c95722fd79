/* SPDX-License-Identifier: MIT */
#ifndef GCONV_BATCH_CLOCK_H
#define GCONV_BATCH_CLOCK_H

/* Milliseconds of a clock that never runs backwards. */
double gconv_batch_clock_ms(void);

#endif

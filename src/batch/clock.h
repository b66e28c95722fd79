/* SPDX-License-Identifier: MIT */
/* The clock of reports; the library has one of its own, which is not public. */
#ifndef GCONV_BATCH_CLOCK_H
#define GCONV_BATCH_CLOCK_H

/* Milliseconds of a clock that never runs backwards. */
double gconv_batch_clock_ms(void);

#endif

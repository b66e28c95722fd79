/* SPDX-License-Identifier: MIT */
/* Signals that end the program, for commands that have something to save first. */
#pragma once

#include <stdbool.h>

/* 0, or the number of the signal that came while they are caught. */
extern volatile int gconv_interrupted;

/* From now on (or, with false, no longer), the first signal only sets gconv_interrupted; the second ends the program. */
void gconv_interrupt_catch(bool catch);

/* For the handler of main.c: returns whether the signal was caught. Async-signal-safe. */
bool gconv_interrupt_take(int number);

/* From now on, a signal that ends the program prints this line, which is static; NULL: none. */
void gconv_interrupt_say(const char *line);

/* For the handler of main.c: prints that line. Async-signal-safe. */
void gconv_interrupt_tell(void);

/* If a signal was caught, ends the program as the signal would have done. */
void gconv_interrupt_end(void);

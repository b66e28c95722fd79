/* SPDX-License-Identifier: MIT */
/* Signals that end the program, for commands that have something to save first. */
#pragma once

#include <stdbool.h>

/* The number of the signal that was caught; 0: none. */
extern volatile int gconv_interrupted;

/* With true, the next signal only sets gconv_interrupted, and a second one ends the program. With false, any one ends it. */
void gconv_interrupt_catch(bool catch);

/* For the handler of main.c: catches the signal if signals are caught, and returns whether it did. Async-signal-safe. */
bool gconv_interrupt_take(int number);

/* From now on, a signal that ends the program prints this line, a static text; NULL: none. */
void gconv_interrupt_say(const char *line);

/* For the handler of main.c: prints the line of gconv_interrupt_say(). Async-signal-safe. */
void gconv_interrupt_tell(void);

/* If a signal was caught, ends the program as the signal would have done. */
void gconv_interrupt_end(void);

/* SPDX-License-Identifier: MIT */
/* Cases whose results are known without computing, at places where drawn cases cannot go: ties, infinities, transparency. */
#ifndef GCONV_TESTS_BY_HAND_H
#define GCONV_TESTS_BY_HAND_H

#include "gconv.h"

/* Runs them all with an algorithm of the exact family, prints each failure on a line, and returns how many there were. */
int gconv_by_hand_failures(gconv_device *device, const char *algorithm);

#endif

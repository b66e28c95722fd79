/* SPDX-License-Identifier: MIT */
/* How a network was trained, in words. */
#pragma once

/* Of the JSON object that gconv_network has as `trained`: "cross-entropy by adam, rate 0.001, batches of 32, seed 0; ...".
 * What gconv train does not write is told as it stands in the object. For free(); NULL without memory. */
char *gconv_trained_words(const char *json);

/* SPDX-License-Identifier: MIT */
/* Random numbers without a state: each is a function of a seed and two numbers. Philox 4x32 with 10 rounds
 * (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The uses of random numbers. Each use has its own numbers. */
typedef enum gconv_random_use {
  GCONV_RANDOM_WEIGHTS, /* stream: the layer */
  GCONV_RANDOM_ORDER,   /* the order of the cases; stream: the epoch */
  GCONV_RANDOM_SPLIT,   /* the split of a data set */
  GCONV_RANDOM_PATCHES, /* places, flips and rotations; stream: the epoch */
  GCONV_RANDOM_FOLDS,   /* the folds of cross-validation; stream: its purpose */
  GCONV_RANDOM_DRAW     /* which cases of a class are drawn; stream: the class */
} gconv_random_use;

/* Returns 64 random bits: number `index` of a stream. Each use has 2^56 streams. */
uint64_t gconv_random_bits(uint64_t seed, gconv_random_use use, uint64_t stream, uint64_t index);

/* Returns a number in [0, 1), a multiple of 2^-53. */
double gconv_random_uniform(uint64_t seed, gconv_random_use use, uint64_t stream, uint64_t index);

/* Converts 64 random bits to an integer in 0 .. count - 1. count is at least 1. */
size_t gconv_random_below(uint64_t bits, size_t count);

/* Puts items[0 .. count - 1] into a random order (Fisher and Yates). */
void gconv_random_shuffle(uint64_t seed, gconv_random_use use, uint64_t stream, size_t *items, size_t count);

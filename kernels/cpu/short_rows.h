/* SPDX-License-Identifier: MIT */
/* Makes levels of integers from rows of floats, under few taps, in one step: sums stay in registers. */
#pragma once

#include "kernels/algorithm.h"

/* The rows of a band, and the taps over them. Line i of band row j begins at lines[i] + j * pitch, and has the taps taps[i *
 * length ..]. Its neighbouring samples are `distance` floats apart. */
typedef struct gconv_short_rows {
  const float *const *lines;
  const float *taps;
  size_t count, length, distance; /* lines under a row; taps of a line */
  size_t rows, pitch;
} gconv_short_rows;

/* Sets level x of row j to the sum over i, s of taps[i * length + s] * (lines[i] + j * pitch)[x + s * distance], rounded as
 * gconv_to_level() does: levels[j] is where the row's `samples` levels of u8 or u16 go. No sum may reach 2^31 or be NaN.
 * Products are added in the order of the taps. Up to 64 floats beyond the last sample are read.
 *
 * Returns false, and writes nothing, if there is no loop for this processor, length and distance, or if several taps of a
 * line share vectors: gconv_tile_along() adds these in another order. */
bool gconv_short_levels(const gconv_short_rows *rows, gconv_type type, size_t samples, uint8_t *const *levels);

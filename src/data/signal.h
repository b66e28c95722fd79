/* SPDX-License-Identifier: MIT */
/* Signals: a sequence of samples, of one channel or several. */
#pragma once

#include "base/samples.h"
#include "data/store.h"

/* Zero-initialise before first use. */
typedef struct gconv_signal {
  gconv_store store; /* floats, samples x channels */
  size_t samples;    /* samples of a channel */
  int32_t channels;
} gconv_signal;

/* Reads all samples of the file (gconv_samples_open()). */
gconv_status gconv_signal_read(const char *path, const char *syntax, gconv_signal *signal);

/* Puts `count` samples from number `first` on into numbers, channels x count. */
void gconv_signal_get(const gconv_signal *signal, size_t first, size_t count, float *numbers);

void gconv_signal_free(gconv_signal *signal);

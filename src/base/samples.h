/* SPDX-License-Identifier: MIT */
/* Samples of a signal, as they come: those of a .npy file, or raw ones without a header. */
#pragma once

#include "base/element.h"
#include "base/file.h"

enum { GCONV_MOST_SIGNAL_CHANNELS = 65536 };

/* Zero-initialise before first use. */
typedef struct gconv_samples {
  gconv_source source;
  int32_t channels;
  uint64_t count; /* samples of each channel; UINT64_MAX where only the end will tell */
  uint64_t read;  /* numbers that were read */
  /* private */
  const char *type; /* of raw samples; NULL: .npy */
  gconv_element element;
  float unit;       /* what numbers are divided by */
  uint8_t rest[16]; /* the first bytes of a number whose other bytes are not there yet */
  size_t rest_bytes;
  const char *bad; /* what the next number is, if it is not finite */
} gconv_samples;

/* Opens a file, or "-": .npy of samples, or of samples x channels; or raw samples, "f32le", "s16le" or "u8", with
 * ":CHANNELS" after it where they are not one. Those of s16le and u8 are divided by 32768 and 255. syntax NULL: known by
 * the content, then by the extension of the path. A file that gzip compressed is read as what it holds. To be closed in any
 * case. */
gconv_status gconv_samples_open(const char *path, const char *syntax, gconv_samples *samples);
void gconv_samples_close(gconv_samples *samples);

/* Reads what is there, 1 to `most` numbers, and waits only if there is nothing. The channels of a sample are neighbours.
 * *got = 0 only at the end, which must be that of a sample of all channels. Numbers before one that is not finite are
 * still read; then GCONV_BAD_FILE names it. */
gconv_status gconv_samples_read(gconv_samples *samples, size_t most, float *numbers, size_t *got);

/* SPDX-License-Identifier: MIT */
/* Reads samples of a signal as soon as they arrive: from a .npy file, or raw samples without a header. */
#pragma once

#include "base/element.h"
#include "base/file.h"

enum { GCONV_MOST_SIGNAL_CHANNELS = 65536 };

/* Zero-initialise before first use. */
typedef struct gconv_samples {
  gconv_source source;
  int32_t channels;
  uint64_t count; /* samples of each channel; UINT64_MAX: known only at the end */
  uint64_t read;  /* how many numbers have been read */
  /* private */
  const char *type; /* the type of raw samples; NULL: .npy */
  gconv_element element;
  float unit;       /* numbers are divided by it */
  uint8_t rest[16]; /* the first bytes of a number whose other bytes are not there yet */
  size_t rest_bytes;
  const char *bad; /* "NaN" or "infinite", if the next number is; else NULL */
} gconv_samples;

/* Opens a file, or "-". The shape of a .npy file is samples, or samples x channels. Other files have raw samples, whose
 * syntax is "f32le", "s16le" or "u8", with ":CHANNELS" after it if there are several channels. s16le is divided by 32768,
 * and u8 by 255. If `syntax` is NULL, it follows from the content, then from the extension of the path. Files of gzip are
 * decompressed. Call gconv_samples_close(), on failure too. */
gconv_status gconv_samples_open(const char *path, const char *syntax, gconv_samples *samples);
void gconv_samples_close(gconv_samples *samples);

/* Reads the numbers that are there, 1 to `most`. Waits only if there are none. The channels of a sample are neighbours. *got
 * is 0 only at the end of the file. The call fails if the file ends within a sample. If a number is not finite, the numbers
 * before it are still read; the next call fails with GCONV_BAD_FILE, and names the sample. */
gconv_status gconv_samples_read(gconv_samples *samples, size_t most, float *numbers, size_t *got);

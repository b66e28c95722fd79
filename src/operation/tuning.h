/* SPDX-License-Identifier: MIT */
/*
 * Tuning: measured times of a device's algorithms, so that the estimates, which are called prices, fit the user's machine.
 *
 * Without tuning, the choice of auto follows from the problem and the kind of device alone. For a CPU, the choice also
 * depends on whether it has fused multiply-adds. `gconv tune` measures a machine and writes a file for the user. While the
 * file exists, auto uses its ratios. There is one file for each device. It is read when the first price is needed.
 */
#pragma once

#include "gconv.h"

enum { GCONV_ALGORITHM_NAME = 32 }; /* bytes of the longest name, with its final 0 */

/* How long an algorithm took, relative to its estimate, for problems of one size. */
typedef struct gconv_tuning_row {
  char algorithm[GCONV_ALGORITHM_NAME];
  gconv_type type;  /* the type of the input */
  int32_t channels; /* channels of an interleaved pixel; 1 for planes */
  double samples;   /* samples of the outputs of all filters */
  double taps;      /* taps of a filter: R * S */
  double ratio;     /* milliseconds measured / estimated */
  /* Whether the algorithm is for layers. Then the type is f32, `channels` is gconv_tuning_layer_class(), samples are N * K *
   * P * Q, and taps are C / G * R * S. */
  bool layer;
} gconv_tuning_row;

/* Returns the class of a layer, which a row keeps in `channels`: 1 for fewer than 32 filters, else 2. */
int32_t gconv_tuning_layer_class(int32_t filters);

typedef struct gconv_tuning {
  gconv_machine machine;
  gconv_tuning_row *rows; /* owned; any order */
  size_t count;
} gconv_tuning;

/* Frees the rows and zeroes all. NULL is allowed. */
void gconv_tuning_free(gconv_tuning *tuning);

/* ---- The tuning of a device ---- */

/* The data from which the prices of algorithms on a device are computed. */
typedef struct gconv_prices {
  gconv_machine machine;      /* for cost() */
  const gconv_tuning *ratios; /* for gconv_tuning_ratio(); NULL: nothing was measured */
  const char *source;         /* who measured the ratios: "gconv tune found" */
  const char *unit;           /* for people: "", or ", in ms of one thread of the reference CPU" */
} gconv_prices;

/* Returns the prices by the device's file. Without a valid file, GPUs get the ratios of an H200, and CPUs get no ratios. If
 * the file is broken, or is for another device, driver or version, warns once. Thread-safe. `ratios` is valid until
 * gconv_device_set_tuning(). */
gconv_prices gconv_device_prices(const gconv_device *device);

/* Returns the tuning that the device uses: from its file, or from a later gconv_device_set_tuning(). NULL: none. */
const gconv_tuning *gconv_device_get_tuning(const gconv_device *device);

/* Makes the device use a copy of `tuning` for plans made from now on, or no tuning if it is NULL. No other thread may make a
 * plan during the call. */
gconv_status gconv_device_set_tuning(gconv_device *device, const gconv_tuning *tuning);

/* Writes the device's tuning to its file, or removes the file if there is no tuning. May fail with GCONV_IO_ERROR. */
gconv_status gconv_device_remember_tuning(gconv_device *device);

/* Returns the path of the device's file: in $GCONV_CACHE, else in gconv below $XDG_CACHE_HOME, else in .cache/gconv below
 * $HOME. Release it with free(). Returns NULL if there is no such folder. */
char *gconv_device_tuning_path(const gconv_device *device);

/* ---- Ratios ---- */

/* Returns the measured time of problems like `like`, divided by the estimate; 1 if nothing was measured. like->ratio is not
 * used. Between the measured sizes, the logarithm of the ratio is interpolated over the logarithms of taps and samples.
 * Beyond the smallest and the largest size, the ratio is constant. */
double gconv_tuning_ratio(const gconv_tuning *tuning, const gconv_tuning_row *like);

/* ---- The file ---- */

/* Reads the text of a file. Returns false, with the reason in `why`, if the file is not valid for this device, or if there
 * is no memory for a copy of the text. If there is only no memory for the rows, returns true, and tuning->count is 0. */
bool gconv_tuning_parse(const gconv_device *device, const char *text, gconv_tuning *tuning, const char **why);

/* Returns the text of a file; release it with free(). Returns NULL if there is no memory. */
char *gconv_tuning_print(const gconv_device *device, const gconv_tuning *tuning);

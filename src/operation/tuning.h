/* SPDX-License-Identifier: MIT */
/*
 * Tuning: what was measured of a device's algorithms, so that prices fit this machine and not one like it.
 *
 * Without tuning, what auto takes follows from the problem and the kind of device alone; of a CPU, from whether it has fused
 * multiply-adds, too. `gconv tune` measures a machine and writes a file, which is the user's own: as long as it is there,
 * auto follows it as well. There is one file for a device, and it is read when the first price is asked for.
 */
#ifndef GCONV_OPERATION_TUNING_H
#define GCONV_OPERATION_TUNING_H

#include "gconv.h"

enum { GCONV_ALGORITHM_NAME = 32 }; /* bytes of the longest name, with its end */

/* How long an algorithm took, relative to its estimate, for problems of one size. */
typedef struct gconv_tuning_row {
  char algorithm[GCONV_ALGORITHM_NAME];
  gconv_type type;  /* of the input */
  int32_t channels; /* of an interleaved pixel; 1 for planes */
  double samples;   /* of the outputs of all filters */
  double taps;      /* of a filter: R * S */
  double ratio;     /* milliseconds measured / estimated; not used by gconv_tuning_ratio() */
  /* Of an algorithm for layers: then the type is f32, channels are 1 for fewer than 32 filters and 2 for more, samples are
   * N * K * P * Q, and taps C / G * R * S. */
  bool layer;
} gconv_tuning_row;

/* The `channels` of a row of a layer: its class. */
int32_t gconv_tuning_layer_class(int32_t filters);

/* What was measured of a device. */
typedef struct gconv_tuning {
  gconv_machine machine;
  gconv_tuning_row *rows; /* owned; any order */
  size_t count;
} gconv_tuning;

/* Frees the rows and zeroes all. NULL is allowed. */
void gconv_tuning_free(gconv_tuning *tuning);

/* ---- Of a device ---- */

/* What the prices of a device are made of. */
typedef struct gconv_prices {
  gconv_machine machine;      /* for cost() */
  const gconv_tuning *ratios; /* for gconv_tuning_ratio(); NULL: nothing was measured */
  const char *source;         /* who measured them: "gconv tune found" */
  const char *unit;           /* for people: "", or ", in ms of one thread of the reference CPU" */
} gconv_prices;

/* Prices by the device's file. Without a valid one, GPUs have the ratios of an H200, and CPUs none. A file that is broken,
 * or of another device, driver or version, is warned of, once. Thread-safe; `ratios` is valid until
 * gconv_device_set_tuning(). */
gconv_prices gconv_device_prices(const gconv_device *device);

/* What is in force for the device by its file, or by gconv_device_set_tuning() since. NULL: nothing. */
const gconv_tuning *gconv_device_get_tuning(const gconv_device *device);

/* Puts a copy of `tuning` in force, for plans made from now on; NULL: none. No plan may be made meanwhile. */
gconv_status gconv_device_set_tuning(gconv_device *device, const gconv_tuning *tuning);

/* Writes what is in force to the file of the device, or removes the file if that is nothing. GCONV_IO_ERROR. */
gconv_status gconv_device_remember_tuning(gconv_device *device);

/* Where that file is: in $GCONV_CACHE, else in gconv below $XDG_CACHE_HOME, else in .cache/gconv below $HOME. For free();
 * NULL if there is no such folder. */
char *gconv_device_tuning_path(const gconv_device *device);

/* ---- Ratios ---- */

/* The measured time of problems like `like`, relative to the estimate; 1 where nothing was measured. Between the measured
 * sizes, the logarithm of the ratio is interpolated over those of taps and samples; beyond them, it stays. */
double gconv_tuning_ratio(const gconv_tuning *tuning, const gconv_tuning_row *like);

/* ---- The file ---- */

/* Reads the text of a file; false if it cannot be that of this device, with the reason in `why`. Without memory, it is as if
 * there were no rows. */
bool gconv_tuning_parse(const gconv_device *device, const char *text, gconv_tuning *tuning, const char **why);

/* The text of a file, for free(); NULL without memory. */
char *gconv_tuning_print(const gconv_device *device, const gconv_tuning *tuning);

#endif

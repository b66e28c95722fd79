/* SPDX-License-Identifier: MIT */
/* What gconv tune found out about a device: its file, and what it makes of an estimate. */
#ifndef GCONV_CONV_TUNING_H
#define GCONV_CONV_TUNING_H

#include "conv/device.h"

/* Puts the cache file of the device in force: of the CPU, the one of its number of threads. Without one, or with one of
 * something else, nothing is; a file that is broken or of another device, driver or version is worth a warning, once. */
void gconv_tuning_recall(gconv_device *device);

/* The measured time of problems like this, relative to the estimate; 1 where nothing was measured. Between the measured
 * sizes, the logarithm of the ratio is interpolated over those of taps and samples; beyond them, it stays. */
double gconv_tuning_ratio(const gconv_tuning *tuning, const char *algorithm, const gconv_problem *problem);

/* The same for a layer of `filters` filters in true float32, by its outputs and the taps of each. */
double gconv_tuning_layer_ratio(const gconv_tuning *tuning, const char *algorithm, int32_t filters, double outputs,
                                double taps);

/* Sets rows and count to what is known of GPUs that were not tuned (calibration_cuda.def). */
gconv_status gconv_tuning_calibrate(gconv_tuning *tuning);

/* Reads the text of a cache file; false if it cannot be that of this device, with the reason in `why`. Rows of algorithms
 * that the device does not have are passed over. Without memory, it is as if there were no rows. */
bool gconv_tuning_parse(const gconv_device *device, const char *text, gconv_tuning *tuning, const char **why);

/* The text of a cache file, for free(); NULL without memory. */
char *gconv_tuning_print(const gconv_device *device, const gconv_tuning *tuning);

#endif

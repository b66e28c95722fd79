/* SPDX-License-Identifier: MIT */
/* For tests of training that must not depend on threads. */
#ifndef TRAIN_DEVICES_H
#define TRAIN_DEVICES_H

#include "gconv.h"

static gconv_device *devices[2]; /* of 1 thread, and of 2 */

static int open_devices(void **state) {
  (void)state;
  return gconv_device_open("cpu", 1, &devices[0]) == GCONV_OK && gconv_device_open("cpu", 2, &devices[1]) == GCONV_OK ? 0
                                                                                                                      : -1;
}

static int close_devices(void **state) {
  (void)state;
  gconv_device_close(devices[0]);
  gconv_device_close(devices[1]);
  return 0;
}

#endif

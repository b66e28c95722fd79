/* SPDX-License-Identifier: MIT */
/* The part of NVIDIA's CUPTI that profile.c uses, declared here so that building does not need CUPTI. Only CUDA 12.6 and
 * later have the range profiler. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* All functions of CUPTI take a structure. It begins with its size up to the end of its last member, without padding. */
#define HEAD                                                                                                                \
  size_t size;                                                                                                              \
  void *unused
#define SIZE_TO(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

enum { RANGE_PROFILER = 0, RATIO = 1, USER_RANGE = 2, USER_REPLAY = 3 };
enum { INSUFFICIENT_PRIVILEGES = 35, VIRTUAL_INSUFFICIENT_PRIVILEGES = 40 }; /* two results of CUPTI */

typedef struct cupti_head {
  HEAD;
} cupti_head;

typedef struct cupti_chip {
  HEAD;
  size_t device;
  const char *name; /* out */
} cupti_chip;

typedef struct cupti_availability {
  HEAD;
  void *context;
  size_t bytes; /* in and out */
  uint8_t *image;
} cupti_availability;

typedef struct cupti_host {
  HEAD;
  int profiler;
  const char *chip;
  const uint8_t *availability;
  void *host; /* out */
} cupti_host;

typedef struct cupti_host_end {
  HEAD;
  void *host;
} cupti_host_end;

typedef struct cupti_base_metrics {
  HEAD;
  void *host;
  int type;
  const char **names; /* out */
  size_t count;       /* out */
} cupti_base_metrics;

typedef struct cupti_add_metrics {
  HEAD;
  void *host;
  const char **names;
  size_t count;
} cupti_add_metrics;

typedef struct cupti_config_size {
  HEAD;
  void *host;
  size_t bytes; /* out */
} cupti_config_size;

typedef struct cupti_config_image {
  HEAD;
  void *host;
  size_t bytes;
  uint8_t *image;
} cupti_config_image;

typedef struct cupti_evaluate {
  HEAD;
  void *host;
  const uint8_t *counters;
  size_t bytes, range;
  const char **names;
  size_t count;
  double *values;
} cupti_evaluate;

typedef struct cupti_enable {
  HEAD;
  void *context;
  void *profiler; /* out */
} cupti_enable;

typedef struct cupti_profiler { /* for functions with no further arguments */
  HEAD;
  void *profiler;
} cupti_profiler;

typedef struct cupti_counters_size {
  HEAD;
  void *profiler;
  const char **names;
  size_t count, ranges;
  uint32_t nodes;
  size_t bytes; /* out */
} cupti_counters_size;

typedef struct cupti_counters {
  HEAD;
  void *profiler;
  size_t bytes;
  uint8_t *image;
} cupti_counters;

typedef struct cupti_set_config {
  HEAD;
  void *profiler;
  size_t config_bytes;
  const uint8_t *config;
  size_t counters_bytes;
  uint8_t *counters;
  int range, replay;
  size_t ranges;
  uint16_t levels, first_level;
  size_t pass;
  uint16_t level;
} cupti_set_config;

typedef struct cupti_push {
  HEAD;
  void *profiler;
  const char *name;
} cupti_push;

typedef struct cupti_stop {
  HEAD;
  void *profiler;
  size_t pass, level; /* out */
  uint8_t complete;   /* out */
} cupti_stop;

typedef struct cupti_decode {
  HEAD;
  void *profiler;
  size_t dropped; /* out */
} cupti_decode;

#define CUPTI_CALLS(CALL)                                                                                                   \
  CALL(ProfilerInitialize, cupti_head)                                                                                      \
  CALL(DeviceGetChipName, cupti_chip)                                                                                       \
  CALL(ProfilerGetCounterAvailability, cupti_availability)                                                                  \
  CALL(ProfilerHostInitialize, cupti_host)                                                                                  \
  CALL(ProfilerHostDeinitialize, cupti_host_end)                                                                            \
  CALL(ProfilerHostGetBaseMetrics, cupti_base_metrics)                                                                      \
  CALL(ProfilerHostConfigAddMetrics, cupti_add_metrics)                                                                     \
  CALL(ProfilerHostGetConfigImageSize, cupti_config_size)                                                                   \
  CALL(ProfilerHostGetConfigImage, cupti_config_image)                                                                      \
  CALL(ProfilerHostEvaluateToGpuValues, cupti_evaluate)                                                                     \
  CALL(RangeProfilerEnable, cupti_enable)                                                                                   \
  CALL(RangeProfilerDisable, cupti_profiler)                                                                                \
  CALL(RangeProfilerGetCounterDataSize, cupti_counters_size)                                                                \
  CALL(RangeProfilerCounterDataImageInitialize, cupti_counters)                                                             \
  CALL(RangeProfilerSetConfig, cupti_set_config)                                                                            \
  CALL(RangeProfilerStart, cupti_profiler)                                                                                  \
  CALL(RangeProfilerPushRange, cupti_push)                                                                                  \
  CALL(RangeProfilerPopRange, cupti_profiler)                                                                               \
  CALL(RangeProfilerStop, cupti_stop)                                                                                       \
  CALL(RangeProfilerDecodeData, cupti_decode)

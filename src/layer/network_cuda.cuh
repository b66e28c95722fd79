/* SPDX-License-Identifier: MIT */
/* What executions and measurements of layers on a GPU share. */
#pragma once

#include "device/timeline_cuda.h"
#include "layer/network.h"

struct network_run {
  const gconv_network_plan *network;
  gconv_timeline timeline;
  void *buffers[2]; /* tensor i is in buffers[i % 2], where tensor 0 is the input; raw pixels are in buffers[1] */
  size_t bytes[2];
  void *kept; /* the input of the first layer, in place of buffers[0], if a later layer needs it; else NULL */
  void *workspace;
  float *normal; /* means, then deviations, if layers in one kernel normalise pixels */
};

/* The tensors of an execution's input and output, which may be the caller's, and its stream. */
struct route {
  const float *in;
  float *out;
  cudaStream_t stream;
  const gconv_image *planes; /* in place of `in`, for layers in one kernel: planes in memory of the device, whose samples are
                                not normalised yet; or NULL */
};

/* Returns the route within the run's own buffers. */
route gconv_network_own_route(const network_run *run);
/* Uploads rows of an image, and makes the first layer's input of them. The upload is timed by itself. */
gconv_status gconv_network_upload(network_run *run, const gconv_image *in, int64_t in_row, int64_t first);
/* Enqueues all layers, for the output from row `first` on. */
gconv_status gconv_network_run_steps(const network_run *run, const route &way, int64_t first);
gconv_status gconv_network_download(const network_run *run, const gconv_image *out);

/* The functions of gconv_network_type (network_type.cu). */
gconv_status gconv_network_prepare_run(const gconv_network_plan *network, void **result);
gconv_status gconv_network_execute_run(void *memory, const gconv_image *in, bool there, int64_t in_row, int64_t first,
                                       const gconv_image *out, gconv_timings *timings);
gconv_status gconv_network_run_device(void *memory, const gconv_image *in, const gconv_image *out, void *stream);
gconv_status gconv_network_measure_run(void *memory, const gconv_image *in, const gconv_image *out, bool warm, int runs,
                                       double *milliseconds);
void gconv_network_release_run(void *memory);

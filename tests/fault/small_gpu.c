/* SPDX-License-Identifier: MIT */
/*
 * A GPU with little memory, on machines that have none: linked into the program with --wrap, it lets the device "cuda:0" be
 * a CPU which refuses networks whose tensors take more than $SMALL_GPU bytes. What becomes of a bank job then, half as many
 * images at a time, bands, or the CPU, is decided by src/batch, which cannot tell the difference.
 */
#include "gconv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gconv_status __real_gconv_device_choose(gconv_device *cpu, const gconv_job *job, gconv_device_choice *choice);
gconv_status __real_gconv_device_open_begin(const char *name, int threads, gconv_device_opening **opening);
gconv_status __real_gconv_device_open_end(gconv_device_opening *opening, gconv_device **device);
const gconv_device_info *__real_gconv_device_get_info(const gconv_device *device);
gconv_status __real_gconv_network_create(gconv_device *device, const gconv_image *like, const gconv_layer *layers,
                                         size_t count, const gconv_network_options *options, gconv_network **network);

static const gconv_device *small; /* the one that is opened last */
static gconv_device_info info;

gconv_status __wrap_gconv_device_choose(gconv_device *cpu, const gconv_job *job, gconv_device_choice *choice);
gconv_status __wrap_gconv_device_choose(gconv_device *cpu, const gconv_job *job, gconv_device_choice *choice) {
  gconv_status status = __real_gconv_device_choose(cpu, job, choice);
  choice->name = "cuda:0";
  return status;
}

gconv_status __wrap_gconv_device_open_begin(const char *name, int threads, gconv_device_opening **opening);
gconv_status __wrap_gconv_device_open_begin(const char *name, int threads, gconv_device_opening **opening) {
  return __real_gconv_device_open_begin(strcmp(name, "cuda:0") == 0 ? "cpu" : name, threads, opening);
}

gconv_status __wrap_gconv_device_open_end(gconv_device_opening *opening, gconv_device **device);
gconv_status __wrap_gconv_device_open_end(gconv_device_opening *opening, gconv_device **device) {
  gconv_status status = __real_gconv_device_open_end(opening, device);
  if (status != GCONV_OK)
    return status;
  info = *__real_gconv_device_get_info(*device);
  snprintf(info.name, sizeof info.name, "cuda:0");
  small = *device;
  return GCONV_OK;
}

const gconv_device_info *__wrap_gconv_device_get_info(const gconv_device *device);
const gconv_device_info *__wrap_gconv_device_get_info(const gconv_device *device) {
  return device == small ? &info : __real_gconv_device_get_info(device);
}

/* Of the input and of what each layer yields; by rows, what those take. */
static double tensor_bytes(const gconv_network *network, const gconv_image *like) {
  const gconv_image *out = gconv_network_output_header(network);
  const gconv_layer_info *layer;
  double rows = 0, bytes = 4.0 * like->frames * like->channels * like->height * like->width;
  for (size_t i = 0; (layer = gconv_network_get_info(network, i)); i++) {
    bytes += 4.0 * layer->images * layer->filters * layer->out_height * layer->out_width;
    rows = layer->out_height;
  }
  return bytes * out->height / rows;
}

gconv_status __wrap_gconv_network_create(gconv_device *device, const gconv_image *like, const gconv_layer *layers,
                                         size_t count, const gconv_network_options *options, gconv_network **network);
gconv_status __wrap_gconv_network_create(gconv_device *device, const gconv_image *like, const gconv_layer *layers,
                                         size_t count, const gconv_network_options *options, gconv_network **network) {
  gconv_status status = __real_gconv_network_create(device, like, layers, count, options, network);
  const char *most = getenv("SMALL_GPU");
  if (status != GCONV_OK || device != small || !most || tensor_bytes(*network, like) <= atof(most))
    return status;
  gconv_network_free(*network);
  *network = NULL;
  return gconv_set_error(GCONV_NO_MEMORY, "no memory on the small device");
}

/* SPDX-License-Identifier: MIT */
/* Starts the JPEG decoder of a device, if a codec offers one. */
#include "device/decoder.h"
#include "device/device.h"

const char *gconv_device_decoder_obstacle(void) {
#ifdef GCONV_WITH_CUDA
  const gconv_gpu_codec *codec = gconv_gpu_codec_of("cuda");
  return codec ? codec->obstacle() : "this build has no decoder for GPUs";
#else
  return "this gconv was built without CUDA";
#endif
}

static gconv_status start(gconv_device *device) {
  const gconv_gpu_codec *codec = gconv_gpu_codec_of(device->type->name);
  if (!codec)
    return gconv_fail(GCONV_UNSUPPORTED, "this build has no decoder for GPUs");
  return codec->start_decoder(device->index, &device->decoder);
}

gconv_status gconv_device_start_decoder(gconv_device *device) {
  if (device->type == &gconv_device_type_cpu)
    return gconv_fail(GCONV_UNSUPPORTED, "the device %s has no decoder for JPEG of its own: a GPU has, -d cuda",
                      device->info.name);
  pthread_mutex_lock(&device->decoder_lock);
  gconv_status status = device->decoder ? GCONV_OK : start(device);
  pthread_mutex_unlock(&device->decoder_lock);
  if (status != GCONV_OK)
    gconv_warn("%s does not decode JPEGs, the CPU does: %s", device->info.name, gconv_last_error());
  return status;
}

gconv_gpu_decoder *gconv_device_decoder(gconv_device *device) {
  pthread_mutex_lock(&device->decoder_lock);
  gconv_gpu_decoder *decoder = device->decoder;
  pthread_mutex_unlock(&device->decoder_lock);
  return decoder;
}

int gconv_device_decoder_backlog(gconv_device *device) {
  gconv_gpu_decoder *decoder = gconv_device_decoder(device);
  return decoder ? gconv_gpu_codec_of(device->type->name)->backlog(decoder) : 0;
}

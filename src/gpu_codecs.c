/* SPDX-License-Identifier: MIT */
/* The codecs on GPUs of this build, a row each. CMake defines GCONV_WITH_CODEC_CUDA where src/codec_cuda is compiled. */
#include "image/gpu_codec.h"

#include <string.h>

#ifdef GCONV_WITH_CODEC_CUDA
extern const gconv_gpu_codec gconv_gpu_codec_cuda;
#endif

static const gconv_gpu_codec *const codecs[] = {
#ifdef GCONV_WITH_CODEC_CUDA
    &gconv_gpu_codec_cuda,
#endif
    NULL,
};

const gconv_gpu_codec *gconv_gpu_codec_of(const char *device) {
  for (size_t i = 0; codecs[i]; i++)
    if (strcmp(codecs[i]->device, device) == 0)
      return codecs[i];
  return NULL;
}

/* SPDX-License-Identifier: MIT */
/* Features on a GPU: a band of rows at a time, in memory of the device (features_cuda.cu). */
#pragma once

#include "base/both.h"
#include "feature/feature.h"

GCONV_C_BEGIN

/* Computes features of images of one shape. May be used by one thread at a time. */
typedef struct gconv_feature_gpu gconv_feature_gpu;

#ifdef GCONV_WITH_CUDA
/* Returns the height of a band, a multiple of GCONV_TILE_HEIGHT, for images like `like` with `outputs` features of all
 * channels together. All bands of an image have about the same height. */
int32_t gconv_feature_gpu_rows(const gconv_image *like, double outputs);

/* `list` must outlive *gpu. `channels`: how many channels of the image get features. */
gconv_status gconv_feature_gpu_create(gconv_device *device, const gconv_feature_list *list, const gconv_image *like,
                                      int32_t channels, gconv_feature_gpu **gpu);
/* NULL is allowed. */
void gconv_feature_gpu_free(gconv_feature_gpu *gpu);

/* Makes the features of `count` rows of a frame, from row `first` on. If these are more than a band, memory grows. The
 * window begins at row window_row of the image; its pixels are in memory of the host. *out becomes an image in memory of the
 * device, valid until the next call. */
gconv_status gconv_feature_gpu_make(gconv_feature_gpu *gpu, const gconv_image *window, int32_t window_row, int32_t first,
                                    int32_t count, gconv_image *out, gconv_timings *timings);
/* Copies the features in `made` to an image of the host. */
gconv_status gconv_feature_gpu_fetch(gconv_feature_gpu *gpu, const gconv_image *made, const gconv_image *to,
                                     gconv_timings *timings);

/* Returns the bytes of device memory that a gconv_feature_gpu takes. */
double gconv_feature_gpu_bytes(const gconv_feature_list *list, const gconv_image *like, int32_t channels);
#else /* a build without CUDA has no such device */
static inline int32_t gconv_feature_gpu_rows(const gconv_image *like, double outputs) {
  return GCONV_TILE_HEIGHT;
}
static inline gconv_status gconv_feature_gpu_create(gconv_device *device, const gconv_feature_list *list,
                                                    const gconv_image *like, int32_t channels, gconv_feature_gpu **gpu) {
  return GCONV_UNSUPPORTED;
}
static inline void gconv_feature_gpu_free(gconv_feature_gpu *gpu) {}
static inline gconv_status gconv_feature_gpu_make(gconv_feature_gpu *gpu, const gconv_image *window, int32_t window_row,
                                                  int32_t first, int32_t count, gconv_image *out, gconv_timings *timings) {
  return GCONV_UNSUPPORTED;
}
static inline gconv_status gconv_feature_gpu_fetch(gconv_feature_gpu *gpu, const gconv_image *made, const gconv_image *to,
                                                   gconv_timings *timings) {
  return GCONV_UNSUPPORTED;
}
static inline double gconv_feature_gpu_bytes(const gconv_feature_list *list, const gconv_image *like, int32_t channels) {
  return 0;
}
#endif

GCONV_C_END

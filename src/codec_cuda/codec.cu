/* SPDX-License-Identifier: MIT */
/* The row of this room in src/gpu_codecs.c. */
#include "codec_cuda/codec.cuh"

extern "C" const gconv_gpu_codec gconv_gpu_codec_cuda = {
    "cuda",          gconv_jpeg_obstacle, gconv_jpeg_start, gconv_jpeg_backlog, gconv_jpeg_decode,
    gconv_png_bytes, gconv_png_create,    gconv_png_free,   gconv_png_encode};

/* SPDX-License-Identifier: MIT */
/* The part of strided.c for tensors in memory of a GPU (strided_cuda.cu). */
#pragma once

#include "base/both.h"
#include "gconv_embed.h"

GCONV_C_BEGIN

/* Copies a tensor to one of the same shape in memory of GPU number `device`, and converts its elements if they have another
 * type: to float32 or from it. Only enqueues. */
gconv_status gconv_strided_copy_cuda(int device, const gconv_strided *from, const gconv_strided *to, void *stream);

/* Frees memory of a GPU. NULL is allowed. */
void gconv_strided_free_cuda(int device, void *memory);

GCONV_C_END

/* SPDX-License-Identifier: MIT */
/* A flag for numbers beyond the range of float16. Kernels set it, and the host warns. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the flag, in memory of the host that kernels of all GPUs can write. It is not 0 if a number in float16 is infinite
 * or NaN. NULL: there is no memory. The first call allocates the flag, which lives as long as the program. */
int32_t *gconv_cuda_overflow(void);

/* Warns once if the flag is set. Wait for the stream of the kernels before. */
void gconv_cuda_tell_overflow(void);

#ifdef __cplusplus
}
#endif

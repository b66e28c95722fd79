/* SPDX-License-Identifier: MIT */
/* Numbers beyond the range of float16, which kernels note and the host tells of. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns a number in memory of the host that kernels of all GPUs may write: not 0 means that a number became infinite, or
 * was not finite, in float16. NULL: there is no memory for it. The first call allocates it, for as long as the program runs.
 */
int32_t *gconv_cuda_overflow(void);

/* Warns once if it was set, after the stream of the kernels was waited for. */
void gconv_cuda_tell_overflow(void);

#ifdef __cplusplus
}
#endif

/* SPDX-License-Identifier: MIT */
/*
 * --memory, before there is an operation among whose images it is divided (src/batch/memory.c). Until then, filters, banks,
 * headers, a mask and manifests are read. A few of their bytes may ask for gigabytes. Meanwhile the kernel limits the
 * process: any allocation beyond the limit fails as if the machine had no more memory. This ends before a run starts its
 * threads.
 */
#pragma once

#include "cli/options.h"

/* Without this call, the next two do nothing. For main(): this process runs one command, and ends. */
void gconv_memory_limit_permit(void);

/* From now on, the process gets no more memory than --memory, if given, plus what any command needs. Freed memory goes
 * back. */
void gconv_memory_limit_begin(uint64_t memory);

/* From now on, images are counted. The next call does nothing. */
void gconv_memory_limit_end(void);

/* Returns `status`. If the limit may be its cause, gconv_last_error() says what to do. */
gconv_status gconv_memory_limit_explain(uint64_t memory, gconv_status status);

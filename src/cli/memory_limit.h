/* SPDX-License-Identifier: MIT */
/*
 * Enforces --memory while filters, banks, headers, a mask and manifests are read, a few bytes of which may ask for
 * gigabytes: the kernel limits the process, and any allocation beyond the limit fails as if the machine had no more memory.
 * In the main job, this ends before threads start: then --memory is divided among the images (src/batch/memory.c).
 */
#pragma once

#include "cli/options.h"

/* Without this call, the functions below do nothing. main() calls it in a process that runs one command and ends. */
void gconv_memory_limit_permit(void);

/* From now on, the process gets at most `memory` more bytes, or what any command needs, if that is more. 0: no limit. */
void gconv_memory_limit_begin(uint64_t memory);

/* Ends the limit: from now on, the run counts the memory of its images. */
void gconv_memory_limit_end(void);

/* Returns `status`. If the limit may be the cause of a failure, adds to the error what to do. */
gconv_status gconv_memory_limit_explain(uint64_t memory, gconv_status status);

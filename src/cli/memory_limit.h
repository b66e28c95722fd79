/* SPDX-License-Identifier: MIT */
/*
 * --memory, before there is an operation whose images it is divided among (src/batch/memory.c). Filters, banks, headers, a
 * mask and manifests are read by then, and a few bytes of them may want gigabytes. So the kernel holds the process to the
 * limit meanwhile: an allocation beyond it fails as if the machine had no more, whoever asks for it. That ends before a run
 * begins its threads.
 */
#pragma once

#include "cli/options.h"

/* Without this call, the next two do nothing. For main(): this process runs one command, and ends. */
void gconv_memory_limit_permit(void);

/* From now on, what the process takes ends at the value of --memory, if that is given, but for what any command needs; and
 * what it frees goes back to the system. */
void gconv_memory_limit_begin(uint64_t memory);

/* From now on, images are counted. The next call does nothing. */
void gconv_memory_limit_end(void);

/* Returns `status`. Where the limit may be the cause of it, gconv_last_error() tells what to do about that. */
gconv_status gconv_memory_limit_explain(uint64_t memory, gconv_status status);

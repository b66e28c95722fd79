/* SPDX-License-Identifier: MIT */
/*
 * A command reads files of strangers, and a fault in a decoder may give them its rights. So it gives up, before it reads
 * images, its right to change files in any other place than those of its results: by Landlock, of Linux 5.19 and later.
 * Where the kernel lacks it, nothing happens. Reading is not restricted. Threads that were started before keep their rights,
 * so that a command calls these functions before it opens a device.
 */
#pragma once

#include "cli/common.h"

/* Without this call, the functions below do nothing. For main(): this process runs one command, and ends. */
void gconv_sandbox_permit(void);

/* From now on, this thread and those that it starts change files only at the place of `path`: in its folder and below, or,
 * of a device or pipe, itself. NULL and "-": nowhere. Open files stay open, standard output too. */
void gconv_sandbox_file(const gconv_common *common, const char *path);

/* The same of several; NULL among them is passed over. `temporary`: also in $TMPDIR, or /tmp. A command that may use a GPU
 * keeps the right to write where its driver does: in /dev, /proc, folders of temporary files, and caches. */
void gconv_sandbox_files(const gconv_common *common, const char *const *paths, size_t count, bool temporary);

/* The same for the results of a job: below the fixed folders of their template, and where --report goes. These folders are
 * made if the job would make them, as the right to do that is lost, too. */
void gconv_sandbox_outputs(const gconv_common *common, const gconv_outputs *outputs);

/* When results are written: removes the folders that gconv_sandbox_outputs() made, if they are empty. */
void gconv_sandbox_tidy(void);

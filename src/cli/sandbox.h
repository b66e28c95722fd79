/* SPDX-License-Identifier: MIT */
/*
 * A command reads files of strangers, and a fault in a decoder may give them its rights. So before it reads images, it gives
 * up the right to change files elsewhere than in the places of its results: by Landlock, in Linux 5.19 and later. Without
 * Landlock, nothing happens. Reading is not restricted. Threads that were started before keep their rights, so a command
 * calls these functions before it opens a device.
 */
#pragma once

#include "cli/common.h"

/* Without this call, the functions below do nothing. For main(): this process runs one command, and ends. */
void gconv_sandbox_permit(void);

/* From now on, this thread and those that it starts can change files only in the folder of `path` and below; if `path` is a
 * device or pipe, only itself. NULL and "-": nowhere. Open files stay open, standard output too. */
void gconv_sandbox_file(const gconv_common *common, const char *path);

/* Does the same for several paths, some of which may be NULL. `temporary`: also in $TMPDIR, or /tmp. A command that may use
 * a GPU keeps the right to write where its driver does: in /dev, /proc, folders of temporary files, and caches. */
void gconv_sandbox_files(const gconv_common *common, const char *const *paths, size_t count, bool temporary);

/* Does the same for the results of a job: below the fixed folders of their template, and where --report goes. Makes these
 * folders if the job would: the right to do so is lost, too. */
void gconv_sandbox_outputs(const gconv_common *common, const gconv_outputs *outputs);

/* When results are written: removes the folders that gconv_sandbox_outputs() made, if they are empty. */
void gconv_sandbox_tidy(void);

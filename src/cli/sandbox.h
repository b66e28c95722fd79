/* SPDX-License-Identifier: MIT */
/*
 * A command may read a malicious file that takes over the process through a fault in a decoder. So before a command reads
 * images, it gives up the right to change files, except where its results go: by Landlock, in Linux 5.19 and later. Without
 * Landlock, nothing happens. Reading is not restricted. Threads that are already running keep their rights, so a command
 * calls these functions before it opens a device.
 */
#pragma once

#include "cli/common.h"

/* Without this call, the functions below do nothing. main() calls it in a process that runs one command and ends. */
void gconv_sandbox_permit(void);

/* From now on, this thread and those that it starts can change files only in the folder of `path` and below. If `path` is a
 * device or a pipe, they can change only `path`. If it is NULL or "-", they can change no file. Files that are open, such as
 * standard output, can still be written. */
void gconv_sandbox_file(const gconv_common *common, const char *path);

/* Does the same for several paths, some of which may be NULL. If `temporary`, files in $TMPDIR, /var/tmp or /tmp can be
 * changed, too. A command that may use a GPU keeps the right to write where its driver does: in /dev, /proc, folders of
 * temporary files, and caches. */
void gconv_sandbox_files(const gconv_common *common, const char *const *paths, size_t count, bool temporary);

/* Does the same for the results of a job: below the fixed folders of their template, where --report goes and, if
 * `temporary`, in $TMPDIR, /var/tmp or /tmp. If the job makes the folder of its results, makes it now: later, the process
 * has no right to. */
void gconv_sandbox_outputs(const gconv_common *common, const gconv_outputs *outputs, bool temporary);

/* Removes the folders that gconv_sandbox_outputs() made, if they are still empty. Call it after the results are written. */
void gconv_sandbox_tidy(void);

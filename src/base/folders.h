/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/status.h"

/* Returns whether `path` is a folder. Returns false, too, if nothing is there, or it cannot be reached. */
bool gconv_is_folder(const char *path);

/* Returns the folder of a path, "." if it names none, for free(). NULL without memory. */
char *gconv_path_folder(const char *path);

/* Makes the missing folders of `path`, up to its last '/'. They get the mode `mode`, without the umask. If a folder cannot
 * be made, fails with GCONV_IO_ERROR, and names it; its parents may then exist. */
gconv_status gconv_make_folders(const char *path, unsigned mode);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/status.h"

/* False also of what is not there, or cannot be reached. */
bool gconv_is_folder(const char *path);

/* Makes the missing folders of `path`, up to its last '/'. mode: of the folders, before the umask. GCONV_IO_ERROR names the
 * folder that cannot be made; its parents may then exist. */
gconv_status gconv_make_folders(const char *path, unsigned mode);

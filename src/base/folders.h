/* SPDX-License-Identifier: MIT */
#ifndef GCONV_BASE_FOLDERS_H
#define GCONV_BASE_FOLDERS_H

#include "base/status.h"

/* Makes what is missing of the folders around `path`: all that is before its last '/'. `mode` is theirs, without the umask.
 * GCONV_IO_ERROR names the folder that cannot be made; those around it may be there by then. */
gconv_status gconv_make_folders(const char *path, unsigned mode);

#endif

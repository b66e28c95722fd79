/* SPDX-License-Identifier: MIT */
/*
 * Small files that remember what was measured on this machine. They are in $GCONV_CACHE, else in gconv below
 * $XDG_CACHE_HOME, else in .cache/gconv below $HOME. They may be deleted at any time, be shared by machines, and hold
 * anything: what cannot be read counts as not remembered, and what cannot be written is no failure.
 */
#ifndef GCONV_BASE_CACHE_H
#define GCONV_BASE_CACHE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the file called `name` is, or would be: for free(). NULL if there is no such folder, as where none of the variables
 * is set to an absolute path, or without memory. GCONV_CACHE alone may be relative; set to "", nothing is remembered. */
char *gconv_cache_path(const char *name);

/* What is in the file, ended by a 0 byte: for free(). NULL if there is none, or if it is no regular file or over 1 MiB. */
char *gconv_cache_read(const char *name);

/* Replaces the file, whole or not at all, making folders where they are missing. Whether that was possible. */
bool gconv_cache_write(const char *name, const char *text);

#ifdef __cplusplus
}
#endif
#endif

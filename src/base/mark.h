/* SPDX-License-Identifier: MIT */
/* Marks files as results of gconv, so that a later run may replace them even if they lie among inputs. */
#pragma once

#include <stdbool.h>

/* Marks a file with its present content, by an extended attribute. Does nothing on file systems without attributes. */
void gconv_mark(const char *path);

/* Returns whether a file has a mark, and has not changed since it was marked. */
bool gconv_is_marked(const char *path);

/* Returns whether the file system of an open file takes marks. If so, the file has an empty mark afterwards. */
bool gconv_takes_marks(int file);

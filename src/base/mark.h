/* SPDX-License-Identifier: MIT */
/* Marks by which files are known as results of gconv, so that a later run may replace them though they lie among inputs. */
#pragma once

#include <stdbool.h>

/* Marks a file as it is now, by an extended attribute. Nothing happens where the file system has none. */
void gconv_mark(const char *path);

/* Whether a file has a mark, and has not changed since. */
bool gconv_is_marked(const char *path);

/* Whether the file system of an open file takes marks: the file has an empty one then. */
bool gconv_takes_marks(int file);

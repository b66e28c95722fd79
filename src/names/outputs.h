/* SPDX-License-Identifier: MIT */
/* The results: their names, and checks of the places to which they are written. */
#pragma once

#include "names/paths.h"

/* ---- outputs.c: names ---- */

/* Returns whether input number `i` is kept. */
typedef bool gconv_keeps(const gconv_input *input, size_t i, void *user);
/* Drops all inputs that keeps() does not keep, with their results. The names of the kept results stay as they are. */
void gconv_outputs_keep(gconv_inputs *inputs, gconv_outputs *outputs, gconv_keeps *keeps, void *user);
/* Returns whether each frame has a file of its own: the format holds one frame, or the template has {frame}. */
bool gconv_outputs_are_apart(const gconv_outputs *outputs, const gconv_format_info *format);
/* Names result number `result` of frame number `frame` (from 1), for inputs whose frames cannot be counted before they are
 * read. *path is for free(). GCONV_BAD_ARGUMENT if the names of several frames would be the same. */
gconv_status gconv_outputs_name_frame(const gconv_inputs *inputs, const gconv_outputs *outputs, size_t input, size_t result,
                                      size_t frame, char **path);

/* ---- among.c: results that lie among the inputs ---- */

/* Refuses results that the next run would take for inputs. */
gconv_status gconv_outputs_check_among(const gconv_inputs *inputs, const gconv_outputs *outputs);
/* With outputs->in_place: refuses results that cannot replace their inputs by a file of the same kind. */
gconv_status gconv_outputs_check_in_place(const gconv_inputs *inputs, const gconv_outputs *outputs);
/* With a suffix: drops inputs that are results of other inputs, made by an earlier run. */
gconv_status gconv_outputs_drop_earlier(gconv_inputs *inputs, gconv_outputs *outputs);
/* Refuses to replace files in folders where inputs were found, unless a mark or a manifest says that they are results. Sets
 * outputs->among. */
gconv_status gconv_outputs_check_own(const gconv_inputs *inputs, gconv_outputs *outputs);
/* When a run begins: makes the folder of the results, and probes its file system. Refuses names that differ by case alone if
 * the file system ignores case. *takes_marks: true if results can be marked by extended attributes. */
gconv_status gconv_outputs_probe(const gconv_outputs *outputs, bool *takes_marks);

/* ---- check.c: gconv_outputs_check() ---- */

/* Call it before a result is written at `path`. With outputs->make_folders, makes missing folders, and refuses a place
 * outside the folder of -o: a link may have been made since gconv_outputs_check(). Thread-safe. */
gconv_status gconv_outputs_prepare(const gconv_outputs *outputs, const char *path);

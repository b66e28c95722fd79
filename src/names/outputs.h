/* SPDX-License-Identifier: MIT */
/* The results: their names, and whether they may lie where they are named. */
#pragma once

#include "names/paths.h"

/* ---- outputs.c: names ---- */

/* Returns whether input number `i` is kept. */
typedef bool gconv_keeps(const gconv_input *input, size_t i, void *user);
/* Drops all other inputs, with their results. The names of the kept results stay as they are. */
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
/* With in_place: refuses results that could not replace their inputs, as files of the same kind. */
gconv_status gconv_outputs_check_in_place(const gconv_inputs *inputs, const gconv_outputs *outputs);
/* With a suffix: drops inputs that are results of other inputs, made by an earlier run. */
gconv_status gconv_outputs_drop_earlier(gconv_inputs *inputs, gconv_outputs *outputs);
/* Refuses to replace files in folders where inputs were found, unless a mark or a manifest says that they are results. Sets
 * outputs->among. */
gconv_status gconv_outputs_check_own(const gconv_inputs *inputs, gconv_outputs *outputs);
/* Makes the folder of the results, and asks its file system, when a run begins. Refuses names that differ by case alone if
 * the file system ignores case. *takes_marks: results can be marked by extended attributes. */
gconv_status gconv_outputs_probe(const gconv_outputs *outputs, bool *takes_marks);

/* ---- check.c: gconv_outputs_check() ---- */

/* Called before a result is written at `path`. Refuses a place outside the folder of -o, to which a link may lead by now.
 * Makes missing folders, if outputs->make_folders is set. Thread-safe. */
gconv_status gconv_outputs_prepare(const gconv_outputs *outputs, const char *path);

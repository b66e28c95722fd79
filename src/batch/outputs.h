/* SPDX-License-Identifier: MIT */
/* What files are, and the folders that lead to them. */
#ifndef GCONV_BATCH_OUTPUTS_H
#define GCONV_BATCH_OUTPUTS_H

#include "batch/texts.h"

#include <sys/stat.h>

/* What a file or folder is, whatever names lead to it. */
typedef struct gconv_identity {
  dev_t device;
  ino_t inode;
} gconv_identity;

/* For qsort(), bsearch() and tsearch(). */
int gconv_identity_compare(const void *a, const void *b);

/* Finds the identity of a regular file; false for anything else. */
bool gconv_path_identify(const char *path, gconv_identity *identity);

/* The folder of `path` on the heap: "." if it has none. */
char *gconv_path_folder(const char *path);

/* `path` on the heap as one absolute name, whatever links, "." and ".." it goes through; what does not exist yet is taken by
 * its letters. NULL without memory. */
char *gconv_path_canonical(const char *path);

/* Appends the parts of `rest` to the absolute path `real`, which has room for them, by their letters alone. */
void gconv_path_append(char *real, const char *rest);

/* ---- outputs_among.c: parts of gconv_outputs_check() ---- */

/* Refuses results that the next run would filter, too. */
gconv_status gconv_outputs_check_among(const gconv_inputs *inputs, const gconv_outputs *outputs, gconv_message *message);
/* With a suffix: inputs that are results of others were made by an earlier run, and are dropped. */
gconv_status gconv_outputs_drop_earlier(gconv_inputs *inputs, gconv_outputs *outputs, gconv_message *message);
/* Refuses to replace files in folders where inputs were found, but for results that a manifest has. Sets outputs->among. */
gconv_status gconv_outputs_check_own(const gconv_inputs *inputs, gconv_outputs *outputs, gconv_message *message);
/* When a run begins, and asks the file system of the results, whose folder is made: refuses names that differ by case alone
 * where that is ignored; *takes_marks: whether files can be marked as results (extended attributes). */
gconv_status gconv_outputs_probe(const gconv_outputs *outputs, bool *takes_marks, gconv_message *message);

/* Marks a result, so that it is known again as long as its content is the same. */
void gconv_outputs_mark(const char *path);

/* ---- Others ---- */

/* Whether the file may be opened before its turn: what a pipe holds can be read once. */
bool gconv_input_is_file(const char *path);

/* Whether input number `i` is kept. */
typedef bool gconv_keeps(const gconv_input *input, size_t i, void *user);
/* Drops inputs, with their results; the names of the others stay. */
void gconv_outputs_keep(gconv_inputs *inputs, gconv_outputs *outputs, gconv_keeps *keeps, void *user);

/* Makes the folders that lead to `path` where they are missing. May run on several threads. */
gconv_status gconv_outputs_make_folders(const char *path, gconv_message *message);

/* Before a result is written at `path`: refuses, as gconv_outputs_check() does, a place outside the folder of -o, to which a
 * link may lead by now, and makes missing folders, if outputs->make_folders. May run on several threads. */
gconv_status gconv_outputs_prepare(const gconv_outputs *outputs, const char *path, gconv_message *message);

/* Whether each frame has a file of its own: the format holds one, or the template has {frame}. */
bool gconv_outputs_are_apart(const gconv_outputs *outputs, const gconv_format_info *format);

/* *path, for free(): of result number `result` of a frame, from 1, of an input whose frames were not known when the others
 * were named. GCONV_BAD_ARGUMENT if the names of several frames would not differ. */
gconv_status gconv_outputs_name_frame(const gconv_inputs *inputs, const gconv_outputs *outputs, size_t input, size_t result,
                                      size_t frame, char **path, gconv_message *message);

/* Whether writing to `path` cannot be taken back: standard output, a pipe or a device, but for /dev/null. */
bool gconv_output_is_sent(const char *path);

#endif

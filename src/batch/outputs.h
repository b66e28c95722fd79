/* SPDX-License-Identifier: MIT */
/* Naming the results of a run, all of them before the first image is read. */
#ifndef GCONV_BATCH_OUTPUTS_H
#define GCONV_BATCH_OUTPUTS_H

#include "batch/inputs.h"

/* What the names are made from. */
typedef struct gconv_naming {
  const char *output;              /* a file, a folder, a template, or "-" for standard output */
  const gconv_format_info *format; /* NULL: by the extension of `output`, else PNG */
  const gconv_filters *filters;
  bool each_filter; /* one result a filter; else one of them all */
} gconv_naming;

/* Zero-initialise before first use. */
typedef struct gconv_outputs {
  const gconv_format_info *format; /* of every result */
  char *template;                  /* by which they are named, as -o would take it; owned */
  gconv_texts paths;
  size_t *first;     /* paths[first[i] .. first[i + 1] - 1] are those of input i: by filter, then by frame; owned */
  bool make_folders; /* folders that are missing are made when a result is written */
} gconv_outputs;

/*
 * Names every result. naming->output is
 *   - "-": standard output, for one result;
 *   - a template, if it has a "{" that is not doubled: {stem}, {filter}, {index} and {frame} are replaced. {stem} is the
 *     name of the input without folders and extension; {index} counts all results from 1, with as many digits as the last
 *     one has; {frame} counts the frames of one input likewise. The folders of an input (gconv_input.relative) are put in
 *     front of the file name;
 *   - a folder, if it exists as one, ends in "/", or has no known extension and the inputs are many: results go to
 *     FOLDER/<folders of the input>/{stem}.png, {stem}_{filter}.png if there is one a filter;
 *   - else a file, for one result.
 * In what has a "{", {{ and }} stand for single braces; but a folder that is called just as naming->output is that folder.
 * Filters of one name get their number behind it: blur_1, blur_2. A file whose extension is that of a format with frames
 * (.npy) is looked into, and where the format of the results holds only one, each frame has a file: {stem}_{frame}.png in a
 * folder.
 * GCONV_BAD_ARGUMENT says what does not fit, and *outputs is empty.
 */
gconv_status gconv_outputs_name(const gconv_inputs *inputs, const gconv_naming *naming, gconv_outputs *outputs,
                                gconv_message *message);

/* Refuses, with GCONV_BAD_ARGUMENT, results that would land on each other (whatever way their paths take), on an input, or
 * on a folder; and those whose folder is missing (unless it is to be made) or may not be written. Nothing is changed. */
gconv_status gconv_outputs_check(const gconv_inputs *inputs, const gconv_outputs *outputs, gconv_message *message);

/* Refuses likewise results that would replace a file of filters; `filters` are as -f takes them: PATH, or a name, or, of
 * `banks`, PATH:NAME. */
gconv_status gconv_outputs_check_filters(const gconv_texts *filters, bool banks, const gconv_outputs *outputs,
                                         gconv_message *message);

/* Makes the folders that lead to `path` where they are missing. May run on several threads. */
gconv_status gconv_outputs_make_folders(const char *path, gconv_message *message);

/* The format of a result at `path`, by its extension; PNG where a name need not tell it: of "-", standard output, of pipes
 * and devices. NULL: it is not known. */
const gconv_format_info *gconv_output_format(const char *path);

/* Whether a file is at `path` that a result would replace. What is no regular file is written through, and not lost. */
bool gconv_output_exists(const char *path);

/* Whether writing to `path` cannot be taken back: standard output, a pipe or a device, but for /dev/null. */
bool gconv_output_is_sent(const char *path);

/* Frees all and zeroes it. */
void gconv_outputs_free(gconv_outputs *outputs);

#endif

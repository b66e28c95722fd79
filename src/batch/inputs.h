/* SPDX-License-Identifier: MIT */
/* Finding the images that a command line means. */
#ifndef GCONV_BATCH_INPUTS_H
#define GCONV_BATCH_INPUTS_H

#include "batch/message.h"
#include "batch/texts.h"

typedef struct gconv_input {
  char *path;     /* to open it; "-" is standard input */
  char *relative; /* for mirroring: below the folder, or the fixed folders of the pattern, in which it was found; the mere
                     file name for a file, "stdin" for standard input */
} gconv_input;

/* Zero-initialise before first use. */
typedef struct gconv_inputs {
  gconv_input *items; /* owned, with their texts */
  size_t count;
  bool many;        /* several, or a folder or a pattern was given: the results belong in a folder, however many there are */
  size_t unread;    /* files that folders have of formats that are not read, by their extensions ... */
  char *unread_one; /* ... and one of them; owned */
} gconv_inputs;

/*
 * Finds the images that `specs` mean, in their order, each the first that fits of:
 *   - "-", standard input, once;
 *   - an existing folder: its files that have the extension of a readable format, sorted by name; with `recursive` those of
 *     its sub-folders too. Hidden entries are passed over, and so is a folder that links back to one around it, and the
 *     folder that `output`, the value of -o, names: else a second run would take the results of the first for inputs;
 *   - any other existing file;
 *   - a pattern with * ? or [: the files that match, sorted; folders that match count only with `recursive`.
 * GCONV_BAD_ARGUMENT if a spec finds nothing, and *inputs is empty. No image is opened.
 */
gconv_status gconv_inputs_find(const gconv_texts *specs, bool recursive, const char *output, gconv_inputs *inputs,
                               gconv_message *message);

/* Whether the file may be opened before its turn: what a pipe holds can be read once. */
bool gconv_input_is_file(const char *path);

/* Frees all and zeroes the list. */
void gconv_inputs_free(gconv_inputs *inputs);

#endif

/* SPDX-License-Identifier: MIT */
/* The files of a group: reading the pixels of its items, and writing their results. */
#pragma once

#include "batch/run.h"

/* ---- load.c ---- */

/* Decodes all items into group->image, one after the other. Items that cannot be read are reported as failed, and taken out
 * of the group. `reader`: of the only item, at its first row; NULL: all files are opened here. */
gconv_status gconv_group_load(gconv_group *group, gconv_row_reader *reader);

/* ---- frame.c: names and shared files of a frame. `frame` is NULL for a whole input where that is allowed ---- */

/* Names the results of the current frame. */
gconv_status gconv_frame_name(gconv_frame *frame);
/* Call it after a frame was read, and before its results appear. The first frame of a pipe has the name of a single image.
 * If another frame follows, the frame and its writers (NULL: none) get new names. */
gconv_status gconv_frame_settle_names(gconv_frame *frame, gconv_row_writer **writers);
/* Returns whether all frames of a result share a file. NULL is allowed. */
bool gconv_frame_is_shared(const gconv_frame *frame);
/* Gives the caller the writer of shared file n for the current frame. For the first frame, the writer is NULL, and *header
 * gets the number of frames that the file will have. */
gconv_status gconv_frame_take_writer(gconv_frame *frame, const gconv_format_info *format, size_t n, gconv_image *header,
                                     gconv_row_writer **writer);

/* ---- write.c ---- */

/* Writes the worker's results: the files of all items, or their part of the one array. */
gconv_status gconv_group_write(gconv_group *group);
/* Begins the files of results first .. end - 1 of the only item, like the outputs of the plan, with the metadata of `from`.
 * Each writer has `threads` threads, or works on the threads of `shared`. writers[n] is NULL for a result that is not
 * wanted, that could not be begun (it is counted as failed), or that goes into the one array. Returns the most rows that a
 * writer takes at a time. */
int32_t gconv_group_open_files(gconv_group *group, size_t first, size_t end, const gconv_image *from, int threads,
                               gconv_threads *shared, gconv_row_writer **writers);
/* Ends these files. They appear and are counted, or, if `status` is a failure, are discarded and counted as failed. */
void gconv_group_close_files(gconv_group *group, size_t first, size_t end, gconv_row_writer **writers, gconv_status status);
/* Adds rows of all planes, from row `first` on, to result n: to its writer, or to the one array. */
gconv_status gconv_group_add_rows(const gconv_group *group, size_t n, gconv_row_writer *writer, const gconv_image *rows,
                                  int32_t first);
/* Counts result n, which failed with `status`, and discards its writer. */
void gconv_group_drop_file(gconv_group *group, size_t n, gconv_row_writer **writer, gconv_status status);
/* Ends the one array of all results, if there is one. The file appears only if `good` is true. */
gconv_status gconv_array_close(gconv_run *run, bool good);

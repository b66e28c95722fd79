/* SPDX-License-Identifier: MIT */
/* The ways in which a group goes from its files to its results: whole, by rows, by frames, or as a JPEG that a GPU decodes.
 */
#pragma once

#include "batch/run.h"

/* ---- gpu.c: results in parts, and JPEG ---- */

/* Returns the bytes that a group takes if its results are written as they come from a GPU. `whole`: the bytes that it takes
 * otherwise. Returns 0 if the results cannot come in parts, or are written faster as a whole. */
double gconv_parts_bytes(const gconv_group *group, double whole);
/* Executes the plan on pixels in memory. `in_parts`: results are written as they come from the GPU, if that is possible. */
gconv_status gconv_group_execute_pixels(gconv_group *group, bool in_parts);
/* Makes the results from the bytes of a JPEG, all on the GPU. If the GPU cannot decode it, group->common.executed remains
 * false, group->remark has the reason, and the CPU decodes, to the same pixels. `whole`: bytes of the group. */
gconv_status gconv_group_convolve_jpeg(gconv_group *group, gconv_row_reader *reader, double whole);

/* ---- stream.c: by rows ---- */

/* Carries the only item by rows: from `reader`, or, if `reader` is NULL, from the pixels of the group. The plan has a row
 * step. `writers`: how many results are written at a time. Sets group->streamed. */
gconv_status gconv_group_stream(gconv_group *group, gconv_row_reader *reader, size_t writers);

/* ---- frames.c: the frames of an input, one after the other ---- */

/* Carries the only item of a group from the reader to its results. */
typedef gconv_status gconv_carrier(gconv_group *group, gconv_row_reader *reader);
/* Carries all frames of the only item, each by `carrier`, and counts their results. Fails only if there is no device. */
gconv_status gconv_group_carry_frames(gconv_group *group, gconv_row_reader *reader, gconv_carrier *carrier);

/* ---- worker.c ---- */

/* Carries group `number` all the way, and reports it. Fails only if there is no device: then nothing is reported. */
gconv_status gconv_worker_process(gconv_worker *worker, size_t number);

/* ---- groups.c ---- */

/* Orders the inputs, and divides them into groups. */
gconv_status gconv_groups_make(gconv_run *run);

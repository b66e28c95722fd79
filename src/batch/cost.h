/* SPDX-License-Identifier: MIT */
/* The memory that images take, by which it is decided which images go whole, by rows, or together. */
#pragma once

#include "batch/run.h"

/* Fills worker->cost and worker->either for images like the header. */
void gconv_worker_judge(gconv_worker *worker, const gconv_image *header);
/* Returns the bytes of `images` images that are decoded and executed whole. `item`: the item of a single image; NULL: they
 * are a group. `reading`: bytes of their reader. */
double gconv_whole_bytes(gconv_worker *worker, const gconv_item *item, const gconv_image *header, double images,
                         double reading);
/* Returns the bytes of a group of images, each with `metadata` bytes of metadata. */
double gconv_group_bytes(gconv_worker *worker, const gconv_image *header, double images, double metadata);
/* Returns the bytes of an image's reader, without rows, and of the copies of its metadata in the results. */
double gconv_reading_bytes(const gconv_worker *worker, const gconv_row_reader *reader);
/* Returns how many of `alike` images, which have one shape, are executed together. This count follows from the images alone,
 * unless --memory allows fewer. `metadata`: the most bytes of metadata of an image. */
size_t gconv_choose_count(gconv_worker *worker, const gconv_image *header, size_t alike, double metadata);

/* How an image goes by rows. */
typedef struct gconv_cut {
  int32_t rows;   /* rows of a band, for gconv_plan_create(); 0: the plan decides */
  size_t writers; /* results that are written at a time */
  bool whole;     /* the whole input is in memory, although results are made by rows */
  double bytes;   /* bytes of memory */
} gconv_cut;

/* Returns why an item cannot go by rows, or NULL if it can. `reader`: NULL if its pixels are in memory. */
const char *gconv_rows_obstacle(const gconv_group *group, const gconv_item *item, const gconv_row_reader *reader);
/* Returns whether the only item goes by rows: because it takes too much memory as a whole (`whole_bytes`), or because rows
 * are faster. *reason: why the item cannot go by rows, for an error. */
bool gconv_goes_by_rows(const gconv_group *group, const gconv_row_reader *reader, double whole_bytes, const char **reason);
/* Chooses how the only item goes by rows. GCONV_TOO_LARGE if the memory does not suffice. */
gconv_status gconv_rows_cut(const gconv_group *group, const gconv_row_reader *reader, gconv_cut *cut);
/* Returns whether the images of an input are carried one after the other. */
bool gconv_goes_by_frames(gconv_worker *worker, const gconv_row_reader *reader);
/* Reserves `bytes` of memory for all that the worker keeps and makes, and waits for it. GCONV_TOO_LARGE if --memory allows
 * less. `reason`: why the image does not go by rows; NULL if it does. */
gconv_status gconv_worker_admit(gconv_worker *worker, double bytes, const char *reason);

/* ---- strips.c: how an image that goes by rows is cut into strips, and the memory that this takes ---- */

/* Returns the bytes of one row of all outputs. */
size_t gconv_strip_output_bytes(const gconv_plan *plan);
/* Returns the output rows of a strip: a multiple of the plan's step, and of `preferred`, too, unless strips would grow by
 * more than half. There may be fewer rows in the image. */
int32_t gconv_strip_rows(const gconv_plan *plan, int64_t preferred);

/* The numbers of input windows and output strips that are in memory at a time. */
typedef struct gconv_depth {
  int32_t windows, strips;
} gconv_depth;

enum { GCONV_MOST_WINDOWS = 3 };

/* `writer_step`: rows that a writer takes at a time; `strip`: rows of a strip; `strip_bytes`: its bytes in all outputs. */
gconv_depth gconv_strip_depth(int threads, int32_t writer_step, int32_t strip, uint64_t strip_bytes);
/* Returns the bytes that a plan for rows, or its outline, takes with `writers` writers and `threads` threads. */
double gconv_strip_bytes(const gconv_plan *plan, size_t writers, int threads);

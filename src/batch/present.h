/* SPDX-License-Identifier: MIT */
/* From the maps that a network yields to pictures: whole, or some rows at a time. */
#ifndef GCONV_BATCH_PRESENT_H
#define GCONV_BATCH_PRESENT_H

#include "batch/banks.h"

enum { GCONV_MOSAIC_GAP = 2 }; /* pixels between tiles */

/* A picture, and what is on it: tiles first .. first + count - 1, by rows of `columns`. A tile is of one filter, or, where
 * they are combined, of all. */
typedef struct gconv_map_sheet {
  gconv_image picture; /* its header */
  int32_t first, count, columns;
} gconv_map_sheet;

/* Lays out result number `result` of a frame of maps, whose header counts. GCONV_UNSUPPORTED for what is no picture. */
gconv_status gconv_bank_lay(const gconv_bank_batch *job, const gconv_image *maps, size_t result, gconv_map_sheet *sheet);

/* The planes of a tile, in maps of all rows or of some. */
gconv_planes gconv_bank_tile(const gconv_bank_batch *job, const gconv_image *maps, int32_t frame, int32_t tile);

/* Whether the values of a tile must be surveyed, all of them, before it is put anywhere. */
bool gconv_bank_surveys(const gconv_bank_batch *job);

/* Puts a tile, or rows of it, on a picture; labels have colours, and no curve. GCONV_NO_MEMORY for these. */
gconv_status gconv_bank_put(const gconv_bank_batch *job, const gconv_planes *from, gconv_curve curve, gconv_image *picture,
                            int32_t top, int32_t left);

#endif

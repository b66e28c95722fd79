/* SPDX-License-Identifier: MIT */
/* Makes the outputs of a network, such as pictures, from the maps that it yields: whole, or some rows at a time. */
#pragma once

#include "base/threads.h"
#include "layer/tone.h"
#include "operation/losses.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GCONV_MOSAIC_GAP = 2 }; /* black pixels between tiles */

/* A tile is the result of one filter or, if filters are combined, of all filters. Each tile has an output of its own, or all
 * tiles lie side by side on one output. */
typedef struct gconv_presenter {
  gconv_presentation kind;
  gconv_tone tone;
  int32_t height, width;  /* height and width of a tile */
  int32_t planes;         /* planes that make a tile: 1 to 4 */
  int32_t plane_step;     /* channels of the maps from one plane of a tile to the next */
  bool reversed;          /* the last colour of a tile is its first channel */
  int32_t tiles, columns; /* tiles: in all; columns: tiles side by side */
  int32_t channels;       /* channels of a pixel of an output */
  bool alpha;             /* the last channel is the input's alpha, which the caller puts there */
  uint8_t *colours;       /* owned: a pixel for each label, or class */
  gconv_survey *surveys;  /* owned, [tiles]: by rows, in the first pass */
  gconv_curve *curves;    /* owned, [tiles]: by rows, after the first pass */
} gconv_presenter;

/* Decides how maps become outputs. `maps` and `in` are headers of the maps and of the input; `filters` is the number of
 * filters of the last bank. any_size: an image like the input may have another size. The caller calls gconv_presenter_free()
 * in any case. GCONV_UNSUPPORTED if the maps are no picture. */
gconv_status gconv_presenter_make(const gconv_network_options *options, const gconv_image *maps, int32_t filters,
                                  const gconv_image *in, bool any_size, gconv_presenter *presenter);
void gconv_presenter_free(gconv_presenter *presenter);

/* True if the outputs are pictures, not the maps themselves. */
static inline bool gconv_presenter_presents(const gconv_presenter *presenter) {
  return presenter->kind != GCONV_PRESENT_TENSOR;
}

size_t gconv_presenter_outputs(const gconv_presenter *presenter);
/* Returns the header of each output. */
gconv_image gconv_presenter_header(const gconv_presenter *presenter, int32_t frames);

/* Makes all outputs of all frames. */
gconv_status gconv_present(const gconv_presenter *presenter, gconv_threads *threads, const gconv_image *maps,
                           gconv_image *outputs);

/* True if all values must be surveyed before the first row of an output can be made. */
bool gconv_presenter_surveys(const gconv_presenter *presenter);

/* By rows, for one frame. If gconv_presenter_surveys() is true, call gconv_presenter_begin_survey(), then
 * gconv_presenter_survey() for all rows. In any case, call gconv_presenter_end_survey(), which finds the curves. */
gconv_status gconv_presenter_begin_survey(gconv_presenter *presenter);
void gconv_presenter_survey(gconv_presenter *presenter, gconv_threads *threads, const gconv_image *maps, int32_t first);
gconv_status gconv_presenter_end_survey(gconv_presenter *presenter);

/* After gconv_presenter_end_survey(): makes rows of the outputs from rows of the maps, for the tiles in row `tile_row` of
 * the sheet. Output rows beyond the last row of the maps are black. Outputs without pixels are left out. */
void gconv_present_rows(const gconv_presenter *presenter, gconv_threads *threads, const gconv_image *maps, int32_t tile_row,
                        gconv_image *outputs);

/* Looks at the maps of pictures, from row `first` on, for values that were clamped. Stretched pictures and pictures in float
 * lose no values that matter. losses: one for each output. */
void gconv_presenter_watch(const gconv_presenter *presenter, const gconv_image *maps, int32_t first, gconv_losses *losses);

#ifdef __cplusplus
}
#endif

/* SPDX-License-Identifier: MIT */
/* From the maps that a network yields to its outputs: pictures, whole or some rows at a time. */
#pragma once

#include "base/threads.h"
#include "layer/tone.h"
#include "operation/losses.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GCONV_MOSAIC_GAP = 2 }; /* black pixels between tiles */

/* A tile is what one filter makes of an image; or, where filters are combined, all of them. Each tile has an output of its
 * own, or they lie side by side on one. */
typedef struct gconv_presenter {
  gconv_presentation kind;
  gconv_tone tone;
  int32_t height, width;  /* of a tile */
  int32_t planes;         /* that make a tile: 1 or 3 */
  int32_t plane_step;     /* channels of the maps from one plane of a tile to the next */
  int32_t tiles, columns; /* in all; side by side */
  int32_t channels;       /* of a pixel of an output */
  bool alpha;             /* the last of them is the input's alpha, which the caller puts there */
  uint8_t *colours;       /* owned: a pixel for each label, or class */
  gconv_survey *surveys;  /* owned, [tiles]: by rows, in the first pass */
  gconv_curve *curves;    /* owned, [tiles]: by rows, after it */
} gconv_presenter;

/* Decides how `maps` (their header) become outputs; `filters` are those of the last bank, and `in` is the header of the
 * input. *presenter is zeroed, and for gconv_presenter_free() in any case. GCONV_UNSUPPORTED for what is no picture. */
gconv_status gconv_presenter_make(const gconv_network_options *options, const gconv_image *maps, int32_t filters,
                                  const gconv_image *in, gconv_presenter *presenter);
void gconv_presenter_free(gconv_presenter *presenter);

/* Whether the outputs are pictures, not the maps themselves. */
static inline bool gconv_presenter_presents(const gconv_presenter *presenter) {
  return presenter->kind != GCONV_PRESENT_TENSOR;
}

/* The number of outputs, and the header of each. */
size_t gconv_presenter_outputs(const gconv_presenter *presenter);
gconv_image gconv_presenter_header(const gconv_presenter *presenter, int32_t frames);

/* Makes all outputs of all frames. */
gconv_status gconv_present(const gconv_presenter *presenter, gconv_threads *threads, const gconv_image *maps,
                           gconv_image *outputs);

/* Whether all values must be surveyed before the first row of an output can be made. */
bool gconv_presenter_surveys(const gconv_presenter *presenter);

/* By rows, of one frame. Where values are surveyed: begin, then add all rows. In any case: end, which finds the curves. */
gconv_status gconv_presenter_begin_survey(gconv_presenter *presenter);
void gconv_presenter_survey(gconv_presenter *presenter, gconv_threads *threads, const gconv_image *maps, int32_t first);
gconv_status gconv_presenter_end_survey(gconv_presenter *presenter);

/* Then: makes the outputs' rows that some rows of the maps become, those of tiles in row `tile_row`. Rows of the outputs
 * beyond those of the maps are black. Outputs without pixels are left out. */
void gconv_present_rows(const gconv_presenter *presenter, gconv_threads *threads, const gconv_image *maps, int32_t tile_row,
                        gconv_image *outputs);

/* Looks at the maps of pictures, from row `first` on, for values that were clamped. Stretched pictures, and those in float,
 * lose none that matter. `losses`: of each output. */
void gconv_presenter_watch(const gconv_presenter *presenter, const gconv_image *maps, int32_t first, gconv_losses *losses);

#ifdef __cplusplus
}
#endif

/* SPDX-License-Identifier: MIT */
/*
 * Moments of channels. Nodes such as InstanceNormalization and GlobalAveragePool need those of a whole image. An image in
 * tiles is measured tile by tile before such a node runs, so its pixels are never in memory all at once.
 */
#pragma once

#include "graph/node.h"

GCONV_C_BEGIN

/* Moments of the elements of a channel that were added so far. */
struct gconv_plane_moments {
  double count, mean, squares; /* squares: the sum of the squared differences to the mean */
  double smallest, largest;    /* NaN if an element is NaN */
};

/* Adds to moments[c] the elements in rows begin[0] .. end[0] - 1 and columns begin[1] .. end[1] - 1 of each channel c of a
 * tensor 1 x C x H x W of float32. Results do not depend on the number of threads. */
void gconv_plane_moments_add(const gconv_tensor *tensor, const int64_t begin[2], const int64_t end[2],
                             gconv_threads *threads, gconv_plane_moments *moments);

/* Adds all elements of `more`. */
void gconv_plane_moments_join(gconv_plane_moments *moments, const gconv_plane_moments *more);

GCONV_C_END

/* SPDX-License-Identifier: MIT */
/*
 * Graphs as networks of images: one input, N x C x H x W of float32, in which 0 is black and 1 is white. If a model takes N
 * x H x W x C, as models of TensorFlow do, or levels of uint8 or uint16, nodes that convert images are inserted before it.
 */
#pragma once

#include "graph/graph.h"

GCONV_C_BEGIN

/* Finds the sizes of the images that the graph takes (0: any), and whether channels are the last axis. Fails with the reason
 * if the graph takes no image. */
gconv_status gconv_graph_image_size(const gconv_graph *graph, int32_t *channels, int32_t *height, int32_t *width,
                                    bool *channels_last);

/* Returns the level of white if the graph takes integers; 0 if it takes floats, or no image. */
float gconv_graph_white(const gconv_graph *graph);

/* Makes a graph that takes such images and has the output called `output`; NULL: all outputs. It shares names, settings and
 * constants with `graph`, which must outlive it. Free it with gconv_graph_free_image(). */
gconv_status gconv_graph_make_image(const gconv_graph *graph, const char *output, gconv_graph **made);
/* NULL is allowed. */
void gconv_graph_free_image(gconv_graph *made);

GCONV_C_END

/* SPDX-License-Identifier: MIT */
/* Draws the steps of a graph, from the first one at the top, with rails beside them: a rail is a result, from the step that
 * makes it to the last one that takes it. */
#pragma once

#include "gconv_classify.h"

#include <stdio.h>

/* Prints the steps of a plan for a graph as text, one step a line. */
gconv_status gconv_graph_draw_text(FILE *out, const gconv_plan *plan);
/* Draws these steps as a picture in SVG, with a heading. */
gconv_status gconv_graph_draw_svg(FILE *out, const gconv_plan *plan, const char *heading);

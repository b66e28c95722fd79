/* SPDX-License-Identifier: MIT */
/* Plots of what was measured, drawn by gnuplot. */
#ifndef GCONV_BENCH_PLOT_H
#define GCONV_BENCH_PLOT_H

#include "gconv.h"

#include <stdbool.h>
#include <stddef.h>

/* A line joins the points of one series in one panel, in their order. */
typedef struct gconv_plot_point {
  char panel[96], series[128];
  double x, y;
  char label[24]; /* in place of x, where the plot has labels */
} gconv_plot_point;

/* Zero-initialise before first use. */
typedef struct gconv_plot {
  const char *file; /* FILE.svg or FILE.png */
  char title[256];
  const char *axes; /* what gnuplot is told of them */
  bool labels;
  double slope, roof; /* also draw min(x * slope, roof); 0: not */
  gconv_plot_point *points;
  size_t count;
} gconv_plot;

/* Whether a file of this name, which may be NULL, can be drawn. */
gconv_status gconv_plot_check(const char *file);

/* Appends a copy of the point. */
gconv_status gconv_plot_add(gconv_plot *plot, const gconv_plot_point *point);

/* Draws the plot and frees its points. Where there is no gnuplot, leaves the script in FILE.gp: GCONV_UNSUPPORTED. */
gconv_status gconv_plot_draw(gconv_plot *plot);

#endif

/* SPDX-License-Identifier: MIT */
/* Plots by gnuplot. A plot has panels, and a panel has lines. */
#pragma once

#include "base/status.h"

/* A line joins the points of one series in one panel, in their order. */
typedef struct gconv_plot_point {
  char panel[96], series[224];
  double x, y;
  char label[24]; /* for plots with labels in place of x */
  /* Set by gconv_plot_draw(): the index of the first point of the panel, of the series in all panels, and of the series in
   * this panel; and the number of the series' colour and sign, the same in all panels. */
  size_t of_panel, of_series, of_line, number;
} gconv_plot_point;

typedef struct gconv_plot {
  const char *file; /* FILE.svg or FILE.png */
  char title[256];
  const char *axes; /* commands of gnuplot */
  bool labels;
  double slope, roof;       /* also draw min(x * slope, roof), if not 0 */
  gconv_plot_point *points; /* the caller's */
  size_t count;
} gconv_plot;

/* Draws the plot. GCONV_UNSUPPORTED: there is nothing to draw, or no gnuplot; then its script is left beside the picture. */
gconv_status gconv_plot_draw(gconv_plot *plot);

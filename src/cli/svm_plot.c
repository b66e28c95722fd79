/* SPDX-License-Identifier: MIT */
/* gconv svm --grid --plot: a picture of the scores over C and gamma, as SVG. */
#include "cli/page.h"
#include "cli/svm.h"

#include <math.h>

enum { CELL_WIDTH = 64, CELL_HEIGHT = 32, LEFT = 70, TOP = 40, RIGHT = 20, BOTTOM = 60 };

/* Chooses the colour of a score, from white for the worst to dark blue for the best. Returns whether text on it is white. */
static bool choose_colour(const gconv_svm_grid *g, size_t at, int colour[3]) {
  static const int best_colour[] = {8, 48, 107};
  double worst = g->scores[at], best = g->scores[g->best];
  for (size_t i = 0; i < g->rows * g->columns; i++)
    worst = fabs(g->scores[i] - best) > fabs(worst - best) ? g->scores[i] : worst;
  double share = worst != best ? (g->scores[at] - worst) / (best - worst) : 1;
  for (int k = 0; k < 3; k++)
    colour[k] = (int)lround(255 + share * share * (best_colour[k] - 255)); /* colours of the best scores differ most */
  return share > 0.7;
}

static void draw_cell(FILE *out, const gconv_svm_grid *g, size_t at) {
  int colour[3], x = LEFT + (int)(at % g->columns) * CELL_WIDTH, y = TOP + (int)(at / g->columns) * CELL_HEIGHT;
  bool white = choose_colour(g, at, colour);
  fprintf(out, "<rect x='%d' y='%d' width='%d' height='%d' fill='#%02x%02x%02x'%s/>", x, y, CELL_WIDTH, CELL_HEIGHT,
          colour[0], colour[1], colour[2], at == g->best ? " stroke='#d62728' stroke-width='3'" : "");
  fprintf(out, "<text x='%d' y='%d' text-anchor='middle' fill='%s'>%.4g</text>\n", x + CELL_WIDTH / 2,
          y + CELL_HEIGHT / 2 + 4, white ? "white" : "black", g->scores[at]);
}

static void draw(FILE *out, const gconv_svm_grid *g, bool regression, bool gammas) {
  int width = LEFT + (int)g->columns * CELL_WIDTH + RIGHT, height = TOP + (int)g->rows * CELL_HEIGHT + BOTTOM;
  gconv_svg_begin(out, width, height, false);
  fprintf(out, "<text x='%d' y='24' font-weight='bold'>cross-validation: %s</text>\n", LEFT,
          regression ? "mean squared error" : "% right");
  for (size_t i = 0; i < g->rows * g->columns; i++)
    if (i != g->best)
      draw_cell(out, g, i);
  draw_cell(out, g, g->best); /* last, so that its frame is not covered */
  for (size_t c = 0; c < g->columns; c++)
    fprintf(out, "<text x='%d' y='%d' text-anchor='middle'>%g</text>\n", LEFT + (int)c * CELL_WIDTH + CELL_WIDTH / 2,
            height - BOTTOM + 18, gconv_svm_exponent(&g->costs, c));
  fprintf(out, "<text x='%d' y='%d' text-anchor='end'>log2 C</text>\n", width - RIGHT, height - 16);
  for (size_t r = 0; r < g->rows && gammas; r++)
    fprintf(out, "<text x='%d' y='%d' text-anchor='end'>%g</text>\n", LEFT - 8,
            TOP + (int)r * CELL_HEIGHT + CELL_HEIGHT / 2 + 4, gconv_svm_exponent(&g->gammas, r));
  if (gammas)
    fprintf(out, "<text x='8' y='24'>log2 g</text>\n");
  fputs("</svg>\n", out);
}

typedef struct drawing {
  const gconv_svm_run *run;
  const gconv_svm_grid *grid;
} drawing;

static void put(FILE *out, const void *context) {
  const drawing *d = context;
  draw(out, d->grid, d->run->regression, gconv_svm_has_gamma(d->run->options.kernel));
}

gconv_status gconv_svm_write_plot(const gconv_svm_run *run, const gconv_svm_grid *grid, const char *path) {
  return gconv_page_write(path, put, &(drawing){run, grid});
}

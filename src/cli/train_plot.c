/* SPDX-License-Identifier: MIT */
/* The curves of a training, as SVG. */
#include "cli/page.h"
#include "cli/train.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* A curve. Curves of the same scale share a panel. */
typedef struct curve {
  const char *name, *colour;
  size_t at; /* a double of gconv_epoch */
} curve;

static const curve losses[] = {{"training", "#1f77b4", offsetof(gconv_epoch, loss)},
                               {"validation", "#d62728", offsetof(gconv_epoch, validation_loss)}};
static const curve accuracies[] = {{"training", "#1f77b4", offsetof(gconv_epoch, accuracy)},
                                   {"validation", "#d62728", offsetof(gconv_epoch, validation_accuracy)}};
enum { CURVES = 2, WIDTH = 720, HEIGHT = 300, LEFT = 70, RIGHT = 20, TOP = 40, BOTTOM = 45 };

/* What a panel shows: values from low to high, by their logarithms or as they are. */
typedef struct panel {
  const gconv_training_run *run;
  double first, last; /* epochs */
  double scale;       /* what values are multiplied by */
  double low, high;
  bool logarithmic;
  int top;
} panel;

static double value_of(const panel *p, const curve *c, size_t epoch) {
  double value;
  memcpy(&value, (const char *)&p->run->epochs[epoch] + c->at, sizeof value);
  return p->scale * value;
}

static bool find_range(panel *p, const curve *curves) {
  p->low = INFINITY;
  p->high = -INFINITY;
  for (size_t i = 0; i < p->run->epoch_count; i++)
    for (int k = 0; k < CURVES; k++) {
      double value = value_of(p, &curves[k], i);
      if (!isfinite(value))
        continue;
      p->low = value < p->low ? value : p->low;
      p->high = value > p->high ? value : p->high;
    }
  return p->low <= p->high;
}

static double place_x(const panel *p, double epoch) {
  return LEFT + (p->last > p->first ? (epoch - p->first) / (p->last - p->first) : 0.5) * (WIDTH - LEFT - RIGHT);
}

static double place_y(const panel *p, double value) {
  double share =
      p->logarithmic ? (log(value) - log(p->low)) / (log(p->high) - log(p->low)) : (value - p->low) / (p->high - p->low);
  return p->top + HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
}

/* Returns 1, 2 or 5 times a power of ten, so that a range has some 5 steps. */
static double round_step(double range) {
  double power = pow(10, floor(log10(range / 5))), share = range / 5 / power;
  return power * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10);
}

static void draw_tick(FILE *out, const panel *p, double value, const char *unit) {
  double y = place_y(p, value);
  fprintf(out, "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#ddd'/>", LEFT, WIDTH - RIGHT, y, y);
  fprintf(out, "<text x='%d' y='%.1f' text-anchor='end'>%.4g%s</text>\n", LEFT - 6, y + 4, value, unit);
}

static void draw_axes(FILE *out, const panel *p, const char *title, const char *unit) {
  fprintf(out, "<text x='%d' y='%d' font-weight='bold'>%s</text>\n", LEFT, p->top + 20, title);
  if (p->logarithmic) {
    const int digits = log10(p->high / p->low) > 2 ? 1 : 3; /* ticks are at 1, or at 1, 2 and 5 */
    for (int power = (int)floor(log10(p->low)); power <= (int)ceil(log10(p->high)); power++)
      for (int k = 0; k < digits; k++) {
        double value = (k * k + 1) * pow(10, power);
        if (value >= p->low && value <= p->high)
          draw_tick(out, p, value, unit);
      }
  } else {
    double step = round_step(p->high - p->low);
    for (double value = ceil(p->low / step) * step; value <= p->high; value += step)
      draw_tick(out, p, fabs(value) < step / 2 ? 0 : value, unit);
  }
  double step = p->last > p->first ? fmax(1, round_step(p->last - p->first)) : 1;
  for (double epoch = ceil(p->first / step) * step; epoch <= p->last; epoch += step)
    fprintf(out, "<text x='%.1f' y='%d' text-anchor='middle'>%.0f</text>", place_x(p, epoch), p->top + HEIGHT - BOTTOM + 18,
            epoch);
  fprintf(out, "<text x='%d' y='%d' text-anchor='end'>epoch</text>\n", WIDTH - RIGHT, p->top + HEIGHT - 8);
}

static void draw_curve(FILE *out, const panel *p, const curve *c, int number) {
  size_t count = 0;
  double x = 0, y = 0;
  for (size_t i = 0; i < p->run->epoch_count; i++) {
    double value = value_of(p, c, i);
    if (!isfinite(value))
      continue;
    x = place_x(p, (double)p->run->epochs[i].number);
    y = place_y(p, value);
    fprintf(out, "%s%.1f,%.1f", count++ ? " " : "<polyline fill='none' stroke-width='1.5' points='", x, y);
  }
  if (count == 0)
    return;
  fprintf(out, "' stroke='%s'/>\n", c->colour);
  if (count == 1) /* a line of one point is not seen */
    fprintf(out, "<circle cx='%.1f' cy='%.1f' r='3' fill='%s'/>\n", x, y, c->colour);
  fprintf(out, "<text x='%d' y='%d' fill='%s'>%s</text>\n", WIDTH - 200 + 90 * number, p->top + 20, c->colour, c->name);
}

static void draw_panel(FILE *out, panel *p, const curve *curves, const char *title, const char *unit) {
  if (!find_range(p, curves))
    return;
  p->logarithmic = p->low > 0 && p->high / p->low > 5 && unit[0] == '\0';
  if (p->high - p->low <= 1e-9 * fabs(p->high)) { /* a line in the middle: steps of ticks would be lost in rounding */
    p->logarithmic = false;
    double half = p->low != 0 ? fabs(p->low) / 2 : 0.5;
    p->low -= half;
    p->high += half;
  }
  draw_axes(out, p, title, unit);
  for (int k = 0; k < CURVES; k++)
    draw_curve(out, p, &curves[k], k);
  if (p->run->best.number > 0)
    fprintf(out, "<line x1='%.1f' x2='%.1f' y1='%d' y2='%d' stroke='#888' stroke-dasharray='3,3'/>\n",
            place_x(p, (double)p->run->best.number), place_x(p, (double)p->run->best.number), p->top + TOP,
            p->top + HEIGHT - BOTTOM);
}

void gconv_train_draw(FILE *out, const gconv_training_run *run, bool inside) {
  if (run->epoch_count == 0)
    return;
  const gconv_epoch *first = &run->epochs[0], *last = &run->epochs[run->epoch_count - 1];
  const bool classes = !isnan(first->accuracy);
  panel loss = {.run = run, .first = (double)first->number, .last = (double)last->number, .scale = 1}, accuracy = loss;
  accuracy.top = HEIGHT;
  accuracy.scale = 100;
  gconv_svg_begin(out, WIDTH, classes ? 2 * HEIGHT : HEIGHT, inside);
  draw_panel(out, &loss, losses, "loss", "");
  if (classes)
    draw_panel(out, &accuracy, accuracies, "accuracy", "%");
  fputs("</svg>\n", out);
}

/* SPDX-License-Identifier: MIT */
/* The report of gconv stats: a table, CSV, JSON, and histograms drawn as SVG. */
#include "base/memory.h"
#include "base/printable.h"
#include "cli/page.h"
#include "cli/stats.h"
#include "cli/telling.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* ---- Figures: each is named once, for the table, CSV and JSON -------------------------------------------------------- */

typedef struct figure {
  const char *key; /* the key of JSON, and the heading */
  size_t at;       /* the offset of a double in gconv_channel_stats */
  bool before;     /* whether the figure is printed before the percentiles */
} figure;

#define FIGURE(name, before)                                                                                                \
  { #name, offsetof(gconv_channel_stats, name), before }
static const figure figures[] = {FIGURE(mean, true),   FIGURE(std, true),        FIGURE(min, true),
                                 FIGURE(max, true),    FIGURE(black, false),     FIGURE(white, false),
                                 FIGURE(noise, false), FIGURE(noise_mad, false), FIGURE(focus, false)};
enum { FIGURES = sizeof figures / sizeof *figures };

static double value_of(const gconv_channel_stats *c, const figure *f) {
  double value;
  memcpy(&value, (const char *)c + f->at, sizeof value);
  return value;
}

/* Calls visit() with the name and the value of each figure, in the order of the report. */
static void each_figure(const gconv_stats_telling *t, const gconv_channel_stats *c,
                        void (*visit)(void *user, const char *key, double value), void *user) {
  char name[32];
  for (int before = 1; before >= 0; before--) {
    for (size_t i = 0; i < FIGURES; i++)
      if (figures[i].before == before)
        visit(user, figures[i].key, c ? value_of(c, &figures[i]) : NAN);
    for (int i = 0; before && i < t->percentile_count; i++) {
      snprintf(name, sizeof name, "p%g", t->percentiles[i]);
      visit(user, name, c ? c->percentiles[i] : NAN);
    }
  }
}

/* Returns the places of channel i; NULL: they are not wanted, it is all colours together, or all samples are missing. */
static const gconv_stats_place *place_of(const gconv_stats_telling *t, size_t i) {
  return t->places && i < (size_t)t->place_count && t->places[i].min[0] >= 0 ? &t->places[i] : NULL;
}

/* ---- JSON and CSV ---------------------------------------------------------------------------------------------------- */

static void put_json(void *user, const char *key, double value) {
  gconv_json_put(user, key, value);
}

static json_t *describe(const gconv_stats_telling *t, const char *path, const gconv_stats *stats) {
  const gconv_image *image = &stats->image;
  json_t *object = json_object(), *channels = json_array();
  gconv_json_put(object, "path", path);
  gconv_json_put(object, "width", image->width);
  gconv_json_put(object, "height", image->height);
  gconv_json_put(object, "frames", image->frames);
  gconv_json_put(object, "depth", gconv_type_name(image->type));
  gconv_json_put(object, "white_level", stats->white);
  gconv_json_put(object, "histogram_range", json_pack("[f, f]", stats->from, stats->to));
  for (size_t i = 0; i < stats->count; i++) {
    const gconv_channel_stats *c = &stats->channels[i];
    json_t *channel = json_object(), *histogram = json_array();
    gconv_json_put(channel, "channel", (const char *)c->name);
    gconv_json_put(channel, "count", c->count);
    gconv_json_put(channel, "missing", c->missing);
    each_figure(t, c, put_json, channel);
    for (size_t k = 0; k < GCONV_STATS_BINS; k++)
      json_array_append_new(histogram, json_integer((json_int_t)c->histogram[k]));
    const gconv_stats_place *place = place_of(t, i);
    if (place) {
      gconv_json_put(channel, "min_at", json_pack("[i, i, i]", place->min[0], place->min[1], place->min[2]));
      gconv_json_put(channel, "max_at", json_pack("[i, i, i]", place->max[0], place->max[1], place->max[2]));
    }
    gconv_json_put(channel, "histogram", histogram);
    json_array_append_new(channels, channel);
  }
  gconv_json_put(object, "channels", channels);
  return object;
}

static void print_csv_name(void *user, const char *key, double value) {
  printf(",%s", key);
}

static void print_csv_value(void *user, const char *key, double value) {
  if (isnan(value))
    putchar(',');
  else
    printf(",%.10g", value);
}

/* Prints a name by RFC 4180: with a comma, a quote or an end of line, in quotes. A terminal gets no control characters. */
static void print_quoted(const char *text) {
  GCONV_FREED char *printable = isatty(STDOUT_FILENO) ? gconv_printable_copy(text, strlen(text)) : NULL;
  text = printable ? printable : text;
  const bool quotes = strpbrk(text, ",\"\n\r") != NULL;
  if (quotes)
    putchar('"');
  for (; *text; text++)
    fputs(*text == '"' ? "\"\"" : (char[]){*text, '\0'}, stdout);
  if (quotes)
    putchar('"');
}

static void tell_csv(const gconv_stats_telling *t, const char *path, const gconv_stats *stats) {
  if (t->done == 0) {
    printf("path,channel,count,missing");
    each_figure(t, NULL, print_csv_name, NULL);
    puts(t->settings->where ? ",min_x,min_y,min_frame,max_x,max_y,max_frame" : "");
  }
  for (size_t i = 0; i < stats->count; i++) {
    const gconv_channel_stats *c = &stats->channels[i];
    print_quoted(path);
    printf(",%s,%" PRIu64 ",%" PRIu64, c->name, c->count, c->missing);
    each_figure(t, c, print_csv_value, NULL);
    const gconv_stats_place *place = place_of(t, i);
    for (int k = 0; k < 6 && t->settings->where; k++)
      place ? printf(",%d", (int)(k < 3 ? place->min[k] : place->max[k - 3])) : putchar(',');
    putchar('\n');
  }
}

/* ---- The table ------------------------------------------------------------------------------------------------------- */

static void print_name(void *user, const char *key, double value) {
  printf(" %9s", key);
}

static void print_value(void *user, const char *key, double value) {
  if (isnan(value))
    printf(" %9s", "-");
  else if (strcmp(key, "black") == 0 || strcmp(key, "white") == 0)
    printf(value > 0 && value < 0.0001 ? "   <0.01%%" : " %8.2f%%", 100 * value);
  else
    printf(" %9.5g", value);
}

static void tell_place(const char *what, double value, const int32_t at[3], bool frames) {
  printf("%s %.6g at column %d, row %d", what, value, (int)at[0], (int)at[1]);
  if (frames)
    printf(", frame %d", (int)at[2]);
}

static void tell_places(const gconv_stats_telling *t, const gconv_stats *stats) {
  for (size_t i = 0; i < stats->count; i++) {
    const gconv_stats_place *place = place_of(t, i);
    if (!place)
      continue;
    printf("%s: ", stats->channels[i].name);
    tell_place("max", stats->channels[i].max, place->max, stats->image.frames > 1);
    tell_place("; min", stats->channels[i].min, place->min, stats->image.frames > 1);
    putchar('\n');
  }
}

static void tell_table(const gconv_stats_telling *t, const char *path, const gconv_stats *stats) {
  const bool all = t->settings->channels || t->inputs->count == 1;
  if (t->done == 0) {
    printf("%-9s %10s %8s", "channel", "count", "missing");
    each_figure(t, NULL, print_name, NULL);
    puts(all ? "" : "  file");
  }
  if (all && t->inputs->count > 1)
    gconv_print(stdout, "%s\n", path);
  for (size_t i = all ? 0 : stats->count - 1; i < stats->count; i++) {
    const gconv_channel_stats *c = &stats->channels[i];
    if (!all && stats->count == 2 && stats->image.alpha)
      c = &stats->channels[0]; /* the grey channel, not alpha */
    printf("%-9s %10" PRIu64 " %8" PRIu64, c->name, c->count, c->missing);
    each_figure(t, c, print_value, NULL);
    if (all)
      putchar('\n');
    else
      gconv_print(stdout, "  %s\n", path);
  }
  tell_places(t, stats);
}

/* ---- Histograms ------------------------------------------------------------------------------------------------------ */

enum { WIDTH = 560, PANEL = 150, LEFT = 24, TOP = 22, HIGH = 100, STEP = 2 };

/* Draws a channel as steps. Their heights are square roots of counts, so that rare levels are seen beside frequent ones. */
static void draw_channel(FILE *out, const gconv_channel_stats *c, uint64_t most, int top, const char *colour) {
  fprintf(out, "<path fill=\"%s\" fill-opacity=\".35\" stroke=\"%s\" d=\"M%d %d", colour, colour, LEFT, top + HIGH);
  for (int i = 0; i < GCONV_STATS_BINS; i++)
    fprintf(out, "V%.1fh%d", top + HIGH * (1 - sqrt((double)c->histogram[i] / (double)most)), STEP);
  fprintf(out, "V%dz\"/>\n", top + HIGH);
}

static void draw_panel(gconv_stats_telling *t, const char *path, const gconv_stats *stats) {
  static const char *const colours[][2] = {{"red", "#d62728"}, {"green", "#2ca02c"}, {"blue", "#1f77b4"}};
  const int top = (int)t->panels++ * PANEL + TOP;
  uint64_t most = 1;
  fprintf(t->plot, "<text x=\"%d\" y=\"%d\">", LEFT, top - 6);
  gconv_page_text(t->plot, path);
  fputs("</text>\n", t->plot);
  for (size_t i = 0; i < stats->count; i++)
    for (int k = 0; k < GCONV_STATS_BINS && strcmp(stats->channels[i].name, "all") != 0; k++)
      most = stats->channels[i].histogram[k] > most ? stats->channels[i].histogram[k] : most;
  for (size_t i = 0; i < stats->count; i++) {
    const char *name = stats->channels[i].name, *colour = "#555555";
    for (size_t k = 0; k < sizeof colours / sizeof *colours; k++)
      colour = strcmp(name, colours[k][0]) == 0 ? colours[k][1] : colour;
    if (strcmp(name, "all") != 0 && strcmp(name, "alpha") != 0)
      draw_channel(t->plot, &stats->channels[i], most, top, colour);
  }
  fprintf(t->plot,
          "<path stroke=\"#000\" d=\"M%d %dh%d\"/><text x=\"%d\" y=\"%d\">%.6g</text>"
          "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.6g</text>\n",
          LEFT, top + HIGH, STEP * GCONV_STATS_BINS, LEFT, top + HIGH + 14, stats->from, LEFT + STEP * GCONV_STATS_BINS,
          top + HIGH + 14, stats->to);
}

static void put_plot(FILE *out, const void *context) {
  const gconv_stats_telling *t = context;
  gconv_svg_begin(out, WIDTH, (int)t->panels * PANEL + 10, false);
  fputs(t->plot_text, out);
  fputs("</svg>\n", out);
}

/* ---- The whole ------------------------------------------------------------------------------------------------------- */

void gconv_stats_tell(gconv_stats_telling *t, size_t index, const gconv_stats *stats) {
  const char *path = t->inputs->items[index].path;
  if (t->settings->common.json)
    json_array_append_new(t->list, describe(t, path, stats));
  else if (t->settings->csv)
    tell_csv(t, path, stats);
  else
    tell_table(t, path, stats);
  if (t->settings->common.plot) {
    t->plot = t->plot ? t->plot : open_memstream(&t->plot_text, &t->plot_size);
    if (t->plot)
      draw_panel(t, path, stats);
  }
  t->done++;
}

gconv_status gconv_stats_tell_end(gconv_stats_telling *t) {
  gconv_status status = GCONV_OK;
  if (t->settings->common.json && !gconv_tell_end(stdout, json_pack("{s:o}", "images", t->list), JSON_INDENT(1)))
    status = GCONV_NO_MEMORY;
  t->list = NULL;
  if (t->plot && !gconv_close_text(t->plot, &t->plot_text))
    status = gconv_complain(&(gconv_message){0}, GCONV_NO_MEMORY, "out of memory");
  if (status == GCONV_OK && t->plot_text)
    status = gconv_page_write(t->settings->common.plot, put_plot, t);
  free(t->plot_text);
  return status;
}

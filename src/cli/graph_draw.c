/* SPDX-License-Identifier: MIT */
#include "cli/graph_draw.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "cli/page.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_RAILS = 20 /* in a text */, TEXT_BYTES = 400 };

/* The rails of the steps. */
typedef struct rails {
  const gconv_plan *plan;
  size_t count;  /* of steps */
  size_t *rail;  /* owned: the rail of each step */
  size_t *taker; /* owned: for each step, the last step that takes its result; its own number: none */
  size_t *on;    /* owned: for each rail, the last step that was put on it so far; SIZE_MAX: none */
  size_t width;  /* how many rails there are */
} rails;

static void end(rails *r) {
  free(r->rail);
  free(r->taker);
  free(r->on);
}

static void clear_rails(rails *r) {
  for (size_t i = 0; i <= r->count; i++)
    r->on[i] = SIZE_MAX;
}

/* Whether the result that was put on a rail last is needed after step `at`. */
static bool is_used(const rails *r, size_t rail, size_t at) {
  return r->on[rail] != SIZE_MAX && r->taker[r->on[rail]] > at;
}

/* Returns the rail for a step: the leftmost rail of an input that no later step takes, so that a chain is one line; if there
 * is none, the first free rail to the right of its inputs. */
static size_t find_rail(const rails *r, size_t at) {
  const gconv_node_info *node = gconv_plan_node(r->plan, at);
  size_t ending = SIZE_MAX, rail = 0;
  for (size_t k = 0; k < node->input_count; k++) {
    const size_t of_input = r->rail[node->inputs[k]];
    if (r->taker[node->inputs[k]] == at && of_input < ending)
      ending = of_input;
    if (of_input >= rail)
      rail = of_input + 1;
  }
  if (ending != SIZE_MAX)
    return ending;
  while (is_used(r, rail, at))
    rail++;
  return rail;
}

static gconv_status find_rails(const gconv_plan *plan, rails *r) {
  r->plan = plan;
  while (gconv_plan_node(plan, r->count))
    r->count++;
  r->rail = calloc(r->count + 1, sizeof *r->rail);
  r->taker = calloc(r->count + 1, sizeof *r->taker);
  r->on = calloc(r->count + 1, sizeof *r->on);
  GCONV_NEED_MEMORY(r->rail && r->taker && r->on, "no memory for the drawing of a graph");
  for (size_t i = 0; i < r->count; i++) {
    const gconv_node_info *node = gconv_plan_node(plan, i);
    r->taker[i] = i;
    for (size_t k = 0; k < node->input_count; k++)
      r->taker[node->inputs[k]] = i;
  }
  clear_rails(r);
  for (size_t i = 0; i < r->count; i++) {
    r->rail[i] = find_rail(r, i);
    r->on[r->rail[i]] = i;
    r->width = r->rail[i] >= r->width ? r->rail[i] + 1 : r->width;
  }
  return GCONV_OK;
}

/* ---- Words ---- */

static void write_shape(const gconv_node_info *node, char text[TEXT_BYTES]) {
  size_t used = (size_t)snprintf(text, TEXT_BYTES, "%s", node->axes == 0 ? "one number" : "");
  for (int32_t i = 0; i < node->axes && used < TEXT_BYTES; i++)
    used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%" PRId64, i > 0 ? " x " : "", node->shape[i]);
  if (node->type && strcmp(node->type, "float32") != 0 && used < TEXT_BYTES)
    snprintf(text + used, TEXT_BYTES - used, " %s", node->type);
}

static void write_name(const gconv_node_info *node, char text[TEXT_BYTES]) {
  snprintf(text, TEXT_BYTES, "%s '%s'%s%s", node->kind ? node->kind : "input", node->name, node->fused ? " + " : "",
           node->fused ? node->fused : "");
}

/* ---- Text ---- */

static bool takes(const gconv_node_info *node, size_t step) {
  for (size_t k = 0; k < node->input_count; k++)
    if (node->inputs[k] == step)
      return true;
  return false;
}

/* Writes the rails beside a step: "o" is the step, "|" a rail that passes, and "+" a rail whose result the step takes.
 * Dashes lead from "+" to the step. */
static void write_rails(const rails *r, size_t at, char *text) {
  const gconv_node_info *node = gconv_plan_node(r->plan, at);
  size_t first = r->rail[at], last = first;
  for (size_t k = 0; k < node->input_count; k++) {
    const size_t rail = r->rail[node->inputs[k]];
    first = rail < first ? rail : first;
    last = rail > last ? rail : last;
  }
  for (size_t rail = 0; rail < r->width; rail++) {
    const size_t step = r->on[rail];
    const bool between = rail >= first && rail < last, passes = step != SIZE_MAX && r->taker[step] >= at;
    *text++ = rail == r->rail[at] ? 'o' : passes && takes(node, step) ? '+' : passes ? '|' : between ? '-' : ' ';
    *text++ = between ? '-' : ' ';
  }
  *text = '\0';
}

gconv_status gconv_graph_draw_text(FILE *out, const gconv_plan *plan) {
  GCONV_ENDED_BY(end) rails r = {.count = 0};
  GCONV_TRY(find_rails(plan, &r));
  GCONV_FREED char *beside = calloc(2 * r.width + 1, 1);
  GCONV_NEED_MEMORY(beside, "no memory for the drawing of a graph");
  clear_rails(&r);
  for (size_t i = 0; i < r.count; i++) {
    const gconv_node_info *node = gconv_plan_node(plan, i);
    char name[TEXT_BYTES], shape[TEXT_BYTES], parameters[32] = "";
    write_name(node, name);
    write_shape(node, shape);
    if (r.width <= MOST_RAILS)
      write_rails(&r, i, beside);
    r.on[r.rail[i]] = i;
    if (node->parameters > 0)
      snprintf(parameters, sizeof parameters, "%.0f", node->parameters);
    gconv_print(out, "%4zu  %s%-44s  %-22s %10s%s%s%s\n", i + 1, beside, name, shape, parameters,
                node->output ? "  output '" : "", node->output ? node->output : "", node->output ? "'" : "");
  }
  return GCONV_OK;
}

/* ---- SVG ---- */

enum {
  ROW = 30,
  RAIL = 16,
  TOP = 44,
  LEFT = 20,
  BOX = 22,
  LETTER = 7,
  NAME_WIDTH = 420,
  SHAPE_WIDTH = 190,
  NUMBER_WIDTH = 90
};

/* Returns the colour of a group of operators: those that multiply by weights, change the size, or join results. */
static const char *colour_of(const gconv_node_info *node) {
  static const struct {
    const char *colour, *kinds; /* with spaces around each */
  } groups[] = {
      {"#4a7fb5", " Conv ConvTranspose Gemm MatMul ConvInteger QLinearConv MatMulInteger QLinearMatMul "},
      {"#5a9e6f",
       " MaxPool AveragePool GlobalAveragePool GlobalMaxPool Resize Upsample DepthToSpace SpaceToDepth Pad Slice "},
      {"#c98a3c", " Add Sub Mul Div Concat Sum Mean Max Min Where "},
  };
  char word[80];
  snprintf(word, sizeof word, " %.70s ", node->kind ? node->kind : "");
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    if (node->kind && strstr(groups[i].kinds, word))
      return groups[i].colour;
  return node->kind ? "#8a8a8a" : "#444444";
}

static const char *rail_colour(size_t rail) {
  static const char *const colours[] = {"#666", "#b5504a", "#4a7fb5", "#5a9e6f", "#8c6bb1", "#c98a3c", "#3f9aa6"};
  return colours[rail % (sizeof colours / sizeof *colours)];
}

static int row_of(size_t step) {
  return TOP + (int)step * ROW + ROW / 2;
}
static int rail_at(size_t rail) {
  return LEFT + (int)rail * RAIL;
}

/* Draws the rail of a step's result, and the lines from it to the steps that take it. */
static void draw_rail(FILE *out, const rails *r, size_t i) {
  const int x = rail_at(r->rail[i]);
  if (r->taker[i] > i)
    fprintf(out, "<path d='M%d %d V%d' stroke='%s' stroke-width='2' fill='none'/>\n", x, row_of(i), row_of(r->taker[i]),
            rail_colour(r->rail[i]));
  for (size_t at = i + 1; at <= r->taker[i]; at++)
    if (takes(gconv_plan_node(r->plan, at), i) && r->rail[at] != r->rail[i])
      fprintf(out,
              "<path d='M%d %d H%d' stroke='%s' stroke-width='2' fill='none'/><circle cx='%d' cy='%d' r='3' fill='%s'/>\n",
              x, row_of(at), rail_at(r->rail[at]), rail_colour(r->rail[i]), x, row_of(at), rail_colour(r->rail[i]));
}

static void put_text(FILE *out, int x, int y, const char *anchor, const char *text, size_t letters) {
  fprintf(out, "<text x='%d' y='%d' text-anchor='%s'>", x, y, anchor);
  char *cut = strlen(text) > letters ? gconv_format_text("%.*s...", (int)gconv_utf8_cut(text, letters - 3), text) : NULL;
  gconv_page_text(out, cut ? cut : text);
  if (cut) {
    fputs("<title>", out);
    gconv_page_text(out, text);
    fputs("</title>", out);
  }
  fputs("</text>\n", out);
  free(cut);
}

static void draw_step(FILE *out, const rails *r, size_t i, int left) {
  const gconv_node_info *node = gconv_plan_node(r->plan, i);
  const int y = row_of(i);
  char text[TEXT_BYTES];
  fprintf(out, "<circle cx='%d' cy='%d' r='5' fill='%s'/>\n", rail_at(r->rail[i]), y, colour_of(node));
  fprintf(out,
          "<rect x='%d' y='%d' width='%d' height='%d' rx='4' fill='#f6f6f6' stroke='#ddd'/>"
          "<rect x='%d' y='%d' width='5' height='%d' fill='%s'/>\n",
          left, y - BOX / 2, NAME_WIDTH, BOX, left, y - BOX / 2, BOX, colour_of(node));
  write_name(node, text);
  put_text(out, left + 12, y + 4, "start", text, NAME_WIDTH / LETTER);
  write_shape(node, text);
  put_text(out, left + NAME_WIDTH + 12, y + 4, "start", text, SHAPE_WIDTH / LETTER);
  snprintf(text, sizeof text, "%.0f", node->parameters);
  if (node->parameters > 0)
    put_text(out, left + NAME_WIDTH + SHAPE_WIDTH + NUMBER_WIDTH, y + 4, "end", text, TEXT_BYTES);
  snprintf(text, sizeof text, "output '%s'", node->output ? node->output : "");
  if (node->output)
    put_text(out, left + NAME_WIDTH + SHAPE_WIDTH + NUMBER_WIDTH + 16, y + 4, "start", text, 40);
}

gconv_status gconv_graph_draw_svg(FILE *out, const gconv_plan *plan, const char *heading) {
  GCONV_ENDED_BY(end) rails r = {.count = 0};
  GCONV_TRY(find_rails(plan, &r));
  const int left = rail_at(r.width) + RAIL, width = left + NAME_WIDTH + SHAPE_WIDTH + NUMBER_WIDTH + 220;
  gconv_svg_begin(out, width, TOP + (int)r.count * ROW + ROW / 2, false);
  put_text(out, LEFT, 24, "start", heading, 140);
  put_text(out, left + NAME_WIDTH + 12, TOP - 4, "start", "shape", 20);
  put_text(out, left + NAME_WIDTH + SHAPE_WIDTH + NUMBER_WIDTH, TOP - 4, "end", "parameters", 20);
  for (size_t i = 0; i < r.count; i++)
    draw_rail(out, &r, i);
  for (size_t i = 0; i < r.count; i++)
    draw_step(out, &r, i, left);
  fputs("</svg>\n", out);
  return GCONV_OK;
}

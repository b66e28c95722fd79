/* SPDX-License-Identifier: MIT */
#include "cli/evaluation.h"
#include "base/element.h"
#include "cli/learn.h"
#include "cli/page.h"
#include "image/layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Mistakes --------------------------------------------------------------------------------------------------------- */

static bool is_wanted(const gconv_mistakes *mistakes, double certainty) {
  return mistakes->count < GCONV_MISTAKES || certainty > mistakes->items[GCONV_MISTAKES - 1].certainty;
}

gconv_status gconv_mistakes_add(gconv_mistakes *mistakes, const char *name, size_t class, size_t taken_for,
                                double certainty) {
  if (!is_wanted(mistakes, certainty))
    return GCONV_OK;
  gconv_mistake new = {strdup(name), class, taken_for, certainty};
  GCONV_NEED_MEMORY(new.name, "out of memory");
  if (mistakes->count == GCONV_MISTAKES)
    free(mistakes->items[--mistakes->count].name);
  size_t at = mistakes->count++;
  for (; at > 0 && certainty > mistakes->items[at - 1].certainty; at--)
    mistakes->items[at] = mistakes->items[at - 1];
  mistakes->items[at] = new;
  return GCONV_OK;
}

void gconv_mistakes_free(gconv_mistakes *mistakes) {
  for (size_t i = 0; i < mistakes->count; i++)
    free(mistakes->items[i].name);
  *mistakes = (gconv_mistakes){0};
}

/* ---- Pictures --------------------------------------------------------------------------------------------------------- */

static double sample_at(const gconv_image *image, int32_t y, int32_t x, int32_t channel) {
  const size_t at = image->planar ? (size_t)x : (size_t)x * (size_t)image->channels + (size_t)channel;
  const void *row = gconv_row_at(image, image->planar ? (size_t)channel : 0, y);
  return gconv_stored_at(image->type, row, at) / gconv_level_of_white(image->type);
}

static uint8_t level_of(double value) {
  return (uint8_t)(value > 0 ? value < 1 ? lrint(255 * value) : 255 : 0); /* NaN becomes 0 */
}

gconv_status gconv_evaluation_shrink(const gconv_image *image, int32_t step, gconv_image *small) {
  *small = (gconv_image){.type = GCONV_U8, .frames = 1, .channels = 3};
  small->height = (image->height - 1) / step + 1;
  small->width = (image->width - 1) / step + 1;
  GCONV_TRY(gconv_image_allocate(small));
  const bool colours = image->channels - image->alpha >= 3;
  for (int32_t y = 0; y < small->height; y++)
    for (int32_t x = 0; x < small->width; x++)
      for (int32_t c = 0; c < 3; c++) {
        double sum = 0, count = 0;
        for (int32_t v = y * step; v < image->height && v < (y + 1) * step; v++)
          for (int32_t u = x * step; u < image->width && u < (x + 1) * step; u++, count++)
            sum += sample_at(image, v, u, colours ? c : 0);
        ((uint8_t *)small->data)[(size_t)y * small->row_bytes + (size_t)(3 * x + c)] = level_of(sum / count);
      }
  return GCONV_OK;
}

/* ---- The page --------------------------------------------------------------------------------------------------------- */

/* Prints a cell of a table: the name of a class, and its colour, if it has one. */
static void put_name(FILE *out, const char *tag, const gconv_evaluation_page *page, size_t class) {
  fprintf(out, "<%s>", tag);
  if (page->colours && class < page->found->classes)
    fprintf(out, "<span class='colour' style='background:rgb(%d,%d,%d)'></span> ", page->colours[3 * class],
            page->colours[3 * class + 1], page->colours[3 * class + 2]);
  gconv_page_text(out, gconv_confusion_name(page->found, class));
  fprintf(out, "</%s>", tag);
}

static void put_number(FILE *out, double value) {
  if (isfinite(value))
    fprintf(out, "<td>%.4f</td>", value);
  else
    fputs("<td class='none'>none</td>", out);
}

static void put_classes(FILE *out, const gconv_evaluation_page *page) {
  const gconv_confusion *c = page->found;
  if (!c->counts)
    return;
  fprintf(out,
          "<h2>Classes</h2>\n<p>Precision: the share of the class in the %ss predicted as it. Recall: the share of it "
          "that is predicted as such. IoU: the %ss of the class that are predicted as it, divided by those that are either. "
          "F1: the harmonic mean of both.</p>\n<table class='numbers'>\n<tr><th></th><th>%ss</th><th>precision</th>"
          "<th>recall</th><th>IoU</th><th>F1</th></tr>\n",
          page->unit, page->unit, page->unit);
  for (size_t k = 0; k < c->classes; k++) {
    gconv_class_score s = gconv_confusion_score(c, k);
    fputs("<tr>", out);
    put_name(out, "th", page, k);
    fprintf(out, "<td>%.0f</td>", s.wanted);
    put_number(out, s.both / s.got);
    put_number(out, s.both / s.wanted);
    put_number(out, s.iou);
    put_number(out, s.f1);
    fputs("</tr>\n", out);
  }
  fputs("</table>\n", out);
}

static void put_picture(FILE *out, const char *path) {
  enum { SIDE = 128 };
  gconv_image image = {0}, small = {0};
  if (gconv_image_read(path, NULL, &image) == GCONV_OK && image.frames == 1) {
    int32_t longer = image.height > image.width ? image.height : image.width;
    if (gconv_evaluation_shrink(&image, (longer - 1) / SIDE + 1, &small) == GCONV_OK)
      gconv_page_image(out, &small, "mistake", longer < SIDE / 2 ? SIDE / 2 / longer + 1 : 1);
  }
  gconv_image_free(&image);
  gconv_image_free(&small);
}

static void put_mistakes(FILE *out, const gconv_evaluation_page *page) {
  const gconv_mistakes *mistakes = page->mistakes;
  if (!mistakes || mistakes->count == 0)
    return;
  const bool sure = !isnan(mistakes->items[0].certainty);
  fprintf(out,
          "<h2>Mistakes</h2>\n<p>The first %zu%s.</p>\n<table>\n<tr>%s<th>%s</th><th>is</th><th>taken for</th>%s</tr>\n",
          mistakes->count, sure ? ", sorted by the output of the wrong class" : "", page->pictures ? "<th></th>" : "",
          page->unit, sure ? "<th>yields</th>" : "");
  for (size_t i = 0; i < mistakes->count; i++) {
    const gconv_mistake *m = &mistakes->items[i];
    fputs("<tr>", out);
    if (page->pictures) {
      fputs("<td>", out);
      put_picture(out, m->name);
      fputs("</td>", out);
    }
    gconv_page_cell(out, "td", m->name);
    put_name(out, "td", page, m->class);
    put_name(out, "td", page, m->taken_for);
    if (sure)
      fprintf(out, "<td>%.4g</td>", m->certainty);
    fputs("</tr>\n", out);
  }
  fputs("</table>\n", out);
}

static void put_page(FILE *out, const void *context) {
  const gconv_evaluation_page *page = context;
  const gconv_confusion *c = page->found;
  gconv_page_begin(out, "classify --evaluate", page->model);
  fputs("<table class='summary'>\n", out);
  gconv_page_row(out, "model", "%s", page->model);
  gconv_page_row(out, "input", "%s", page->input);
  gconv_page_row(out, "right", "%.2f%%: %zu of %zu %ss", c->cases ? 100.0 * (double)c->right / (double)c->cases : 0,
                 c->right, c->cases, page->unit);
  if (c->unknown > 0)
    gconv_page_row(out, "unknown", "%zu %ss are of classes that the model does not know, and count as wrong", c->unknown,
                   page->unit);
  fputs("</table>\n<h2>Confusion</h2>\n<p>A row is a true class, a column is a predicted class.</p>\n", out);
  gconv_page_confusion(out, c);
  put_classes(out, page);
  put_mistakes(out, page);
  if (page->more)
    page->more(out, page->user);
  gconv_page_end(out);
}

gconv_status gconv_evaluation_write(const char *path, const gconv_evaluation_page *page) {
  return gconv_page_write(path, put_page, page);
}

gconv_status gconv_evaluation_check_report(const char *path, bool evaluates, const gconv_texts *read) {
  if (!path)
    return GCONV_OK;
  if (!evaluates)
    return gconv_refuse("--report %s: is a page of what --evaluate finds", path);
  return gconv_page_check(path, read);
}

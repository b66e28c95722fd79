/* SPDX-License-Identifier: MIT */
/* The report of gconv compare, as text and as JSON. */
#include "base/printable.h"
#include "cli/compare.h"
#include "cli/terminal.h"

#include <inttypes.h>
#include <math.h>

/* ---- Numbers as text ------------------------------------------------------------------------------------------------- */

/* "0.0157 (4 levels of 255)" */
static void print_difference(FILE *out, const gconv_difference *found, double difference) {
  fprintf(out, "%.4g", difference);
  if (found->white > 1 && difference > 0)
    fprintf(out, " (%.4g level%s of %.0f)", difference * found->white, difference * found->white == 1 ? "" : "s",
            found->white);
}

static void print_decibels(FILE *out, double psnr) {
  if (isinf(psnr) && psnr > 0)
    fputs("infinite", out);
  else
    fprintf(out, "%.2f dB", psnr);
}

static void print_ssim(FILE *out, double ssim) {
  if (isnan(ssim))
    fputs("none", out);
  else
    fprintf(out, "%.6f", ssim);
}

/* "0.05%", of which what is not 0 is never printed as 0, nor what is not all as all. */
static void print_share(FILE *out, const gconv_difference *found) {
  double share = 100 * (double)found->differing / (double)found->samples;
  if (share > 0 && share < 0.01)
    fputs("below 0.01%", out);
  else if (share < 100 && share > 99.99)
    fputs("above 99.99%", out);
  else
    fprintf(out, "%.4g%%", share);
}

static void print_place(FILE *out, const gconv_difference *found) {
  if (found->differing == 0)
    return;
  fprintf(out, " at x %d, y %d, channel %d", (int)found->x, (int)found->y, (int)found->channel);
  if (found->a.frames > 1)
    fprintf(out, ", frame %d", (int)found->frame + 1);
}

static void print_shape(FILE *out, const gconv_difference *found) {
  const gconv_image *a = &found->a;
  fprintf(out, "%d x %d, ", (int)a->width, (int)a->height);
  if (a->frames > 1)
    fprintf(out, "%d frames, ", (int)a->frames);
  fprintf(out, "%d channel%s", (int)a->channels, a->channels == 1 ? "" : "s");
  if (a->alpha || found->b.alpha)
    fputs(" (alpha is one)", out);
  fprintf(out, ", %s", gconv_type_name(a->type));
  if (a->type != found->b.type)
    fprintf(out, " against %s, compared in [0, 1] units", gconv_type_name(found->b.type));
}

void gconv_compare_print_line(FILE *out, const gconv_difference *found) {
  if (found->differing == 0) {
    fputs("equal\n", out);
    return;
  }
  fputs("largest ", out);
  print_difference(out, found, found->largest);
  print_place(out, found);
  fprintf(out, ", mean %.4g, RMSE %.4g, PSNR ", found->mean, found->rmse);
  print_decibels(out, found->psnr);
  fputs(", SSIM ", out);
  print_ssim(out, found->ssim);
  fputs(", ", out);
  print_share(out, found);
  fputs(" of samples differ\n", out);
}

void gconv_compare_print_all(FILE *out, const gconv_pair *p) {
  const gconv_difference *found = &p->found;
  gconv_print(out, "%s and %s: ", p->a, p->b);
  print_shape(out, found);
  fputs("\n  largest difference  ", out);
  print_difference(out, found, found->largest);
  print_place(out, found);
  fputs("\n  mean difference     ", out);
  print_difference(out, found, found->mean);
  fputs("\n  RMSE                ", out);
  print_difference(out, found, found->rmse);
  fputs("\n  PSNR                ", out);
  print_decibels(out, found->psnr);
  fputs("\n  SSIM                ", out);
  print_ssim(out, found->ssim);
  if (found->a.width < 7 || found->a.height < 7)
    fputs(": it needs images of 7 x 7 pixels or more", out);
  fprintf(out, "\n  differing samples   %" PRIu64 " of %" PRIu64 " (", found->differing, found->samples);
  print_share(out, found);
  fputs(")\n", out);
}

/* ---- As JSON --------------------------------------------------------------------------------------------------------- */

json_t *gconv_compare_describe(const gconv_difference *found) {
  json_t *object = json_object();
  json_object_set_new(object, "largest", gconv_json_number(found->largest));
  json_object_set_new(object, "at",
                      found->differing == 0 ? json_null()
                                            : json_pack("{s:i, s:i, s:i, s:i}", "frame", (int)found->frame + 1, "x",
                                                        (int)found->x, "y", (int)found->y, "channel", (int)found->channel));
  json_object_set_new(object, "mean", gconv_json_number(found->mean));
  json_object_set_new(object, "rmse", gconv_json_number(found->rmse));
  json_object_set_new(object, "psnr", gconv_json_number(found->psnr));
  json_object_set_new(object, "ssim", gconv_json_number(found->ssim));
  json_object_set_new(object, "differing", json_integer((json_int_t)found->differing));
  json_object_set_new(object, "samples", json_integer((json_int_t)found->samples));
  return object;
}

bool gconv_compare_is_above(const gconv_comparison *c, const gconv_pair *p) {
  return !p->a || !p->b || p->found.largest > c->settings->tolerance;
}

static json_t *describe_pair(const gconv_comparison *c, const gconv_pair *p) {
  const gconv_image *a = &p->found.a;
  bool compared = p->a && p->b && p->status == GCONV_OK;
  json_t *object = compared ? gconv_compare_describe(&p->found) : json_object();
  json_object_set_new(object, "a", gconv_json_text(p->a));
  json_object_set_new(object, "b", gconv_json_text(p->b));
  json_object_set_new(object, "above", p->status == GCONV_OK ? json_boolean(gconv_compare_is_above(c, p)) : json_null());
  if (p->error)
    json_object_set_new(object, "error", gconv_json_text(p->error));
  if (!compared)
    return object;
  json_object_set_new(object, "shape",
                      json_pack("[i, i, i, i]", (int)a->frames, (int)a->height, (int)a->width, (int)a->channels));
  json_object_set_new(object, "types", json_pack("[s, s]", gconv_type_name(a->type), gconv_type_name(p->found.b.type)));
  json_object_set_new(object, "white", json_real(p->found.white));
  if (p->frames)
    json_object_set(object, "frames", p->frames);
  return object;
}

bool gconv_compare_print_json(const gconv_comparison *c) {
  json_t *document;
  if (c->folders) {
    json_t *list = json_array();
    for (size_t i = 0; i < c->count; i++)
      json_array_append_new(list, describe_pair(c, &c->pairs[i]));
    document = json_pack("{s:o, s:f}", "pairs", list, "tolerance", c->settings->tolerance);
  } else {
    document = describe_pair(c, &c->pairs[0]);
    json_object_set_new(document, "tolerance", json_real(c->settings->tolerance));
  }
  bool printed = gconv_json_print(c->out, document, JSON_INDENT(1));
  if (!printed)
    gconv_say("compare: no memory to make JSON");
  json_decref(document);
  return printed;
}

/* ---- Of folders --------------------------------------------------------------------------------------------------- */

void gconv_compare_print_pair(const gconv_comparison *c, const gconv_pair *p) {
  gconv_print(c->out, "%s: ", p->name);
  if (p->a && p->b)
    gconv_compare_print_line(c->out, &p->found);
  else
    gconv_print(c->out, "only %s is there\n", p->a ? p->a : p->b);
}

void gconv_compare_print_folders(const gconv_comparison *c) {
  size_t compared = 0, equal = 0, above = 0, alone = 0, failed = 0;
  const gconv_pair *worst = NULL;
  for (size_t i = 0; i < c->count; i++) {
    const gconv_pair *p = &c->pairs[i];
    bool there = p->a && p->b && p->status == GCONV_OK;
    compared += there;
    alone += !p->a || !p->b;
    failed += p->status != GCONV_OK;
    equal += there && p->found.differing == 0;
    above += there && gconv_compare_is_above(c, p);
    if (there && p->found.differing > 0 && (!worst || p->found.largest > worst->found.largest))
      worst = p;
  }
  fprintf(c->out, "%zu pair%s compared: %zu equal, %zu above the tolerance of %g", compared, compared == 1 ? "" : "s", equal,
          above, c->settings->tolerance);
  if (worst) {
    fputs("; the largest difference is ", c->out);
    print_difference(c->out, &worst->found, worst->found.largest);
    gconv_print(c->out, " in %s", worst->name);
  }
  if (alone > 0)
    fprintf(c->out, "; %zu file%s in one folder only", alone, alone == 1 ? " is" : "s are");
  if (failed > 0)
    fprintf(c->out, "; %zu could not be compared", failed);
  fputs("\n", c->out);
}

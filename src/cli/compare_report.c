/* SPDX-License-Identifier: MIT */
/* The report of gconv compare, as text and as JSON. */
#include "cli/compare.h"
#include "cli/telling.h"

#include <inttypes.h>
#include <math.h>

/* ---- Numbers as text ------------------------------------------------------------------------------------------------- */

typedef struct words {
  char text[160];
} words;

static words format_words(const char *format, ...) GCONV_PRINTF(1, 2);
static words format_words(const char *format, ...) {
  words w;
  GCONV_FORMAT(w.text, sizeof w.text, format);
  return w;
}

/* Returns, for example: "0.0157 (4 levels of 255)". */
static words levels_of(const gconv_difference *found, double difference) {
  const double levels = difference * found->white;
  if (found->white <= 1 || difference <= 0)
    return format_words("%.4g", difference);
  return format_words("%.4g (%.4g level%s of %.0f)", difference, levels, levels == 1 ? "" : "s", found->white);
}

static words psnr_of(const gconv_difference *found) {
  return isinf(found->psnr) && found->psnr > 0 ? format_words("infinite") : format_words("%.2f dB", found->psnr);
}

static words ssim_of(const gconv_difference *found) {
  return isnan(found->ssim) ? format_words("none") : format_words("%.6f", found->ssim);
}

/* Returns, for example: "0.05%". Only a share of exactly 0 becomes 0%, and only all samples become 100%. */
static words share_of(const gconv_difference *found) {
  const double share = 100 * (double)found->differing / (double)found->samples;
  return share > 0 && share < 0.01      ? format_words("below 0.01%%")
         : share < 100 && share > 99.99 ? format_words("above 99.99%%")
                                        : format_words("%.4g%%", share);
}

static words place_of(const gconv_difference *found) {
  words w = format_words(" at x %d, y %d, channel %d", (int)found->x, (int)found->y, (int)found->channel);
  if (found->differing == 0)
    return (words){""};
  return found->a.frames > 1 ? format_words("%s, frame %d", w.text, (int)found->frame + 1) : w;
}

static json_t *describe_place(const gconv_difference *found) {
  return found->differing == 0 ? json_null()
                               : json_pack("{s:i, s:i, s:i, s:i}", "frame", (int)found->frame + 1, "x", (int)found->x, "y",
                                           (int)found->y, "channel", (int)found->channel);
}

static words shape_of(const gconv_difference *found) {
  const gconv_image *a = &found->a;
  words frames = {""}, other = {""};
  if (a->frames > 1)
    frames = format_words("%d frames, ", (int)a->frames);
  if (a->type != found->b.type)
    other = format_words(" against %s, compared in [0, 1] units", gconv_type_name(found->b.type));
  return format_words("%d x %d, %s%d channel%s%s, %s%s", (int)a->width, (int)a->height, frames.text, (int)a->channels,
                      a->channels == 1 ? "" : "s", a->alpha || found->b.alpha ? " (alpha is one)" : "",
                      gconv_type_name(a->type), other.text);
}

/* ---- Figures: each is named once, for a line, for lines, and for JSON ------------------------------------------------ */

/* Reports the figures of a frame or a pair. As text, they stand on one line or, if `apart`, on a line each. */
static void tell_figures(const gconv_telling *t, bool apart, const gconv_difference *found) {
  const bool small = found->a.width < 7 || found->a.height < 7;
  GCONV_TELL_IF(true, t, "largest", apart ? "\n  largest difference  %s" : "largest %s", found->largest,
                levels_of(found, found->largest).text);
  GCONV_TELL_IF(true, t, "at", "%s", describe_place(found), place_of(found).text);
  GCONV_TELL_IF(true, t, "mean", apart ? "\n  mean difference     %s" : ", mean %s", found->mean,
                apart ? levels_of(found, found->mean).text : format_words("%.4g", found->mean).text);
  GCONV_TELL_IF(true, t, "rmse", apart ? "\n  RMSE                %s" : ", RMSE %s", found->rmse,
                apart ? levels_of(found, found->rmse).text : format_words("%.4g", found->rmse).text);
  GCONV_TELL_IF(true, t, "psnr", apart ? "\n  PSNR                %s" : ", PSNR %s", found->psnr, psnr_of(found).text);
  GCONV_TELL_IF(true, t, "ssim", apart ? "\n  SSIM                %s" : ", SSIM %s", found->ssim, ssim_of(found).text);
  if (apart && small)
    gconv_tell_text(t, ": it needs images of 7 x 7 pixels or more");
  GCONV_TELL_IF(apart, t, "differing", "\n  differing samples   %" PRIu64, found->differing, found->differing);
  GCONV_TELL_IF(apart, t, "samples", " of %" PRIu64, found->samples, found->samples);
  gconv_tell_text(t, apart ? " (%s)\n" : ", %s of samples differ\n", share_of(found).text);
}

void gconv_compare_print_line(FILE *out, const gconv_difference *found) {
  if (found->differing == 0)
    fputs("equal\n", out);
  else
    tell_figures(&(gconv_telling){.out = out}, false, found);
}

void gconv_compare_print_all(FILE *out, const gconv_pair *p) {
  gconv_print(out, "%s and %s: %s", p->a, p->b, shape_of(&p->found).text);
  tell_figures(&(gconv_telling){.out = out}, true, &p->found);
}

json_t *gconv_compare_describe(const gconv_difference *found) {
  json_t *object = json_object();
  tell_figures(&(gconv_telling){.json = object}, false, found);
  return object;
}

/* ---- As JSON --------------------------------------------------------------------------------------------------------- */

bool gconv_compare_is_above(const gconv_comparison *c, const gconv_pair *p) {
  return !p->a || !p->b || p->found.largest > c->settings->tolerance;
}

static json_t *describe_pair(const gconv_comparison *c, const gconv_pair *p) {
  const gconv_image *a = &p->found.a;
  bool compared = p->a && p->b && p->status == GCONV_OK;
  json_t *object = compared ? gconv_compare_describe(&p->found) : json_object();
  gconv_json_put(object, "a", p->a);
  gconv_json_put(object, "b", p->b);
  gconv_json_put(object, "above", p->status == GCONV_OK ? json_boolean(gconv_compare_is_above(c, p)) : json_null());
  if (p->error)
    gconv_json_put(object, "error", p->error);
  if (!compared)
    return object;
  gconv_json_put(object, "shape", json_pack("[i, i, i, i]", a->frames, a->height, a->width, a->channels));
  gconv_json_put(object, "types", json_pack("[s, s]", gconv_type_name(a->type), gconv_type_name(p->found.b.type)));
  gconv_json_put(object, "white", p->found.white);
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
    gconv_json_put(document, "tolerance", c->settings->tolerance);
  }
  return gconv_tell_end(c->out, document, JSON_INDENT(1));
}

/* ---- Reports on folders ---------------------------------------------------------------------------------------------- */

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
  if (worst)
    gconv_print(c->out, "; the largest difference is %s in %s", levels_of(&worst->found, worst->found.largest).text,
                worst->name);
  if (alone > 0)
    fprintf(c->out, "; %zu file%s in one folder only", alone, alone == 1 ? " is" : "s are");
  if (failed > 0)
    fprintf(c->out, "; %zu could not be compared", failed);
  fputs("\n", c->out);
}

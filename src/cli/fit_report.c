/* SPDX-License-Identifier: MIT */
/* What gconv fit tells. */
#include "base/json.h"
#include "cli/fit.h"
#include "cli/terminal.h"

#include <inttypes.h>
#include <math.h>

/* ---- For people ------------------------------------------------------------------------------------------------------ */

static void print_quality(const gconv_fitting *f, const gconv_fit_quality *q) {
  if (isnan(q->r2))
    fputs("    R2         not defined, as AFTER is constant\n", f->out);
  else
    fprintf(f->out, "    R2         %.9g\n", q->r2);
  fprintf(f->out, "    residual   %.4g", q->residual);
  if (f->result.white > 1)
    fprintf(f->out, ", which is %.4g levels of %.0f", q->residual * f->result.white, f->result.white);
  fprintf(f->out, "\n    samples    %" PRIu64, q->samples);
  if (q->clipped > 0)
    fprintf(f->out, "; left out: %" PRIu64 " (%.2g%%), as they are black or white in AFTER", q->clipped,
            100 * (double)q->clipped / (double)(q->samples + q->clipped));
  fputs("\n", f->out);
}

static void print_shift(FILE *out, const gconv_fit_result *r) {
  fputs("  AFTER looks shifted:", out);
  if (fabs(r->shift_x) >= 0.05)
    fprintf(out, " %.1f pixels to the %s", fabs(r->shift_x), r->shift_x > 0 ? "right" : "left");
  if (fabs(r->shift_x) >= 0.05 && fabs(r->shift_y) >= 0.05)
    fputs(",", out);
  if (fabs(r->shift_y) >= 0.05)
    fprintf(out, " %.1f pixels %s", fabs(r->shift_y), r->shift_y > 0 ? "down" : "up");
  fputs(". If that is not what the filter does, shift it back, or let --size reach so far.\n", out);
}

static void print_findings(const gconv_fitting *f) {
  const gconv_fit_result *r = &f->result;
  if (r->shifted)
    print_shift(f->out, r);
  else if (r->nonlinear)
    fprintf(f->out,
            "  No linear filter of this size explains AFTER: R2 is low, and what is left is no noise, as residuals of "
            "neighbours correlate (%.2f). Try a larger --size, --bias, or other pairs.\n",
            r->correlation);
  if (r->cut)
    fprintf(f->out, "  The taps at the rim have %.0f%% of the weight: a larger --size may explain more.\n", 100 * r->rim);
}

static void print_text(const gconv_fitting *f) {
  const gconv_fit_result *r = &f->result;
  fprintf(f->out, "%d x %d taps, fitted to %zu pair%s\n", f->fit.rows, f->fit.columns, f->pairs - f->held,
          f->pairs - f->held == 1 ? "" : "s");
  print_quality(f, &r->fitted);
  fprintf(f->out, "    condition  %.2g\n", r->condition);
  if (f->fit.bias)
    fprintf(f->out, "    bias       %.6g\n", r->bias);
  if (f->settings->holdout > 0) {
    if (f->by_rows)
      fprintf(f->out, "  held out: %.4g%% of the rows\n", 100 * f->settings->holdout);
    else
      fprintf(f->out, "  held out: %zu pair%s\n", f->held, f->held == 1 ? "" : "s");
    print_quality(f, &r->held);
  }
  print_findings(f);
}

/* ---- As JSON --------------------------------------------------------------------------------------------------------- */

static void describe(json_t *object, const gconv_fit_result *r, const gconv_fit_quality *q) {
  json_object_set_new(object, "r2", gconv_json_number(q->r2));
  json_object_set_new(object, "residual", gconv_json_number(q->residual));
  json_object_set_new(object, "residual_levels", r->white > 1 ? gconv_json_number(q->residual * r->white) : json_null());
  json_object_set_new(object, "samples", json_integer((json_int_t)q->samples));
  json_object_set_new(object, "clipped", json_integer((json_int_t)q->clipped));
}

static json_t *describe_taps(const gconv_fitting *f) {
  json_t *rows = json_array();
  for (int32_t r = 0; r < f->fit.rows; r++) {
    json_t *row = json_array();
    for (int32_t s = 0; s < f->fit.columns; s++)
      json_array_append_new(row, json_real(f->result.taps[r * f->fit.columns + s]));
    json_array_append_new(rows, row);
  }
  return rows;
}

static bool print_json(const gconv_fitting *f) {
  const gconv_fit_result *r = &f->result;
  json_t *object = json_object(), *held = f->settings->holdout > 0 ? json_object() : json_null();
  json_object_set_new(object, "size", json_pack("[i, i]", (int)f->fit.rows, (int)f->fit.columns));
  json_object_set_new(object, "pairs", json_integer((json_int_t)f->pairs));
  json_object_set_new(object, "without_partner", json_integer((json_int_t)f->alone));
  describe(object, r, &r->fitted);
  json_object_set_new(object, "condition", gconv_json_number(r->condition));
  json_object_set_new(object, "bias", gconv_json_number(r->bias));
  json_object_set_new(object, "taps", describe_taps(f));
  json_object_set_new(object, "linear", json_boolean(!r->nonlinear));
  json_object_set_new(object, "correlation", gconv_json_number(r->correlation));
  json_object_set_new(object, "shift", r->shifted ? json_pack("{s:f, s:f}", "x", r->shift_x, "y", r->shift_y) : json_null());
  json_object_set_new(object, "rim", gconv_json_number(r->rim));
  json_object_set_new(object, "cut", json_boolean(r->cut));
  if (f->settings->holdout > 0) {
    describe(held, r, &r->held);
    json_object_set_new(held, "pairs", json_integer((json_int_t)f->held));
  }
  json_object_set_new(object, "held", held);
  bool printed = gconv_json_print(f->out, object, JSON_INDENT(1));
  if (!printed)
    gconv_say("fit: no memory to make JSON");
  json_decref(object);
  return printed;
}

bool gconv_fit_report(const gconv_fitting *f) {
  if (f->settings->common.json)
    return print_json(f);
  print_text(f);
  return true;
}

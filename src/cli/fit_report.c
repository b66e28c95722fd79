/* SPDX-License-Identifier: MIT */
/* The report of gconv fit. */
#include "cli/fit.h"
#include "cli/telling.h"

#include <inttypes.h>
#include <math.h>

/* ---- For people ------------------------------------------------------------------------------------------------------ */

static void tell_quality(const gconv_telling *t, const gconv_fit_result *r, const gconv_fit_quality *q) {
  if (isnan(q->r2))
    gconv_tell_text(t, "    R2         not defined, as AFTER is constant\n");
  gconv_tell_number(t, "r2", "    R2         %.9g\n", q->r2);
  gconv_tell(t, "residual", "    residual   %.4g", q->residual);
  if (r->white > 1) {
    gconv_tell(t, "residual_levels", ", which is %.4g levels", q->residual * r->white);
    gconv_tell_text(t, " of %.0f", r->white);
  } else {
    gconv_tell_json(t, "residual_levels", json_null());
  }
  gconv_tell(t, "samples", "\n    samples    %" PRIu64, q->samples);
  if (q->clipped > 0)
    gconv_tell_text(t, "; left out: %" PRIu64 " (%.2g%%), as they are black or white in AFTER", q->clipped,
                    100 * (double)q->clipped / (double)(q->samples + q->clipped));
  gconv_tell_json(t, "clipped", q->clipped);
  gconv_tell_text(t, "\n");
}

static void print_shift(FILE *out, const gconv_fit_result *r) {
  fputs("  AFTER looks shifted:", out);
  if (fabs(r->shift_x) >= 0.05)
    fprintf(out, " %.1f pixels to the %s", fabs(r->shift_x), r->shift_x > 0 ? "right" : "left");
  if (fabs(r->shift_x) >= 0.05 && fabs(r->shift_y) >= 0.05)
    fputs(",", out);
  if (fabs(r->shift_y) >= 0.05)
    fprintf(out, " %.1f pixels %s", fabs(r->shift_y), r->shift_y > 0 ? "down" : "up");
  fputs(". If the filter does not do that, shift AFTER back; if it does, choose a --size that reaches so far.\n", out);
}

static void print_findings(const gconv_fitting *f) {
  const gconv_fit_result *r = &f->result;
  if (r->shifted)
    print_shift(f->out, r);
  else if (r->nonlinear)
    fprintf(f->out,
            "  No linear filter of this size explains AFTER: R2 is low, and residuals of neighbours correlate (%.2f), so "
            "that they are no noise. Try a larger --size, --bias, or other pairs.\n",
            r->correlation);
  if (r->cut)
    fprintf(f->out, "  The taps at the rim have %.0f%% of the weight: a larger --size may explain more.\n", 100 * r->rim);
}

/* ---- For programs ---------------------------------------------------------------------------------------------------- */

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

static void describe_findings(json_t *json, const gconv_fit_result *r) {
  gconv_json_put(json, "linear", (bool)!r->nonlinear);
  gconv_json_put(json, "correlation", r->correlation);
  gconv_json_put(json, "shift", r->shifted ? json_pack("{s:f, s:f}", "x", r->shift_x, "y", r->shift_y) : json_null());
  gconv_json_put(json, "rim", r->rim);
  gconv_json_put(json, "cut", r->cut);
}

/* ---- For both -------------------------------------------------------------------------------------------------------- */

static void tell_held(const gconv_telling *t, const gconv_fitting *f) {
  const gconv_telling held = {t->out, t->json && f->settings->holdout > 0 ? json_object() : NULL};
  if (f->settings->holdout <= 0) {
    gconv_tell_json(t, "held", json_null());
    return;
  }
  if (f->by_rows)
    gconv_tell_text(t, "  held out: %.4g%% of the rows\n", 100 * f->settings->holdout);
  else
    gconv_tell_text(t, "  held out: %zu pair%s\n", f->held, f->held == 1 ? "" : "s");
  tell_quality(&held, &f->result, &f->result.held);
  gconv_tell_json(&held, "pairs", f->held);
  gconv_tell_json(t, "held", held.json);
}

static void tell(const gconv_telling *t, const gconv_fitting *f) {
  const gconv_fit_result *r = &f->result;
  const size_t fitted = f->pairs - f->held;
  gconv_tell_json(t, "size", json_pack("[i, i]", f->fit.rows, f->fit.columns));
  gconv_tell_json(t, "pairs", f->pairs);
  gconv_tell_json(t, "without_partner", f->alone);
  gconv_tell_text(t, "%d x %d taps, fitted to %zu pair%s\n", f->fit.rows, f->fit.columns, fitted, fitted == 1 ? "" : "s");
  tell_quality(t, r, &r->fitted);
  gconv_tell(t, "condition", "    condition  %.2g\n", r->condition);
  if (t->json || f->fit.bias)
    gconv_tell(t, "bias", "    bias       %.6g\n", r->bias);
  gconv_tell_json(t, "taps", describe_taps(f));
  if (t->json)
    describe_findings(t->json, r);
  tell_held(t, f);
  if (!t->json)
    print_findings(f);
}

bool gconv_fit_report(const gconv_fitting *f) {
  json_t *json = f->settings->common.json ? json_object() : NULL;
  tell(&(gconv_telling){f->out, json}, f);
  return gconv_tell_end(f->out, json, JSON_INDENT(1));
}

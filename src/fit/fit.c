/* SPDX-License-Identifier: MIT */
/*
 * Finds the filter that makes one image of another with the smallest mean squared error.
 *
 * The files: moments.c sums products of samples, pair.c reads the samples of two images, solve.c solves the normal
 * equations, and patch.c looks for correlation and shifts, which the solution does not show.
 */
#include "fit/fit.h"
#include "base/arguments.h"
#include "image/row_band.h"

#include <math.h>
#include <stdlib.h>

static gconv_status check_fit(const gconv_fit *fit) {
  GCONV_NEED_KNOWN(fit);
  GCONV_TRY(gconv_check_value("rows", fit->rows, 1, GCONV_FIT_MAX_TAPS));
  GCONV_TRY(gconv_check_value("columns", fit->columns, 1, GCONV_FIT_MAX_TAPS));
  int64_t taps = (int64_t)fit->rows * fit->columns;
  if (taps > GCONV_FIT_MAX_TAPS)
    return gconv_fail(GCONV_TOO_LARGE, "a filter of %d x %d has %d taps: at most %d can be fitted", fit->rows, fit->columns,
                      (int)taps, (int)GCONV_FIT_MAX_TAPS);
  if (!(fit->ridge >= 0) || !isfinite(fit->ridge))
    return gconv_fail(GCONV_BAD_ARGUMENT, "ridge is %g: it must be a number from 0 on", fit->ridge);
  GCONV_TRY(gconv_check_value("border", fit->border, GCONV_BORDER_ZERO, GCONV_BORDER_WRAP));
  if (!isfinite(fit->border_value))
    return gconv_fail(GCONV_BAD_ARGUMENT, "border_value is %g: it must be a number", fit->border_value);
  return GCONV_OK;
}

/* Fails if the filter no longer has the size for which the sums were made. */
static gconv_status check_size(const gconv_fit *fit) {
  const gconv_moments *sums = fit->sums->fitted;
  if (sums->rows == fit->rows && sums->columns == fit->columns)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT, "the filter was %d x %d when the first pair was added, and is %d x %d now",
                    sums->rows, sums->columns, fit->rows, fit->columns);
}

static gconv_status make_sums(gconv_fit *fit) {
  gconv_fit_sums *sums = NULL;
  GCONV_TRY(gconv_allocate(sizeof *sums, "sums of products", (void **)&sums));
  *sums = (gconv_fit_sums){0};
  fit->sums = sums;
  gconv_status status = gconv_moments_create(fit->rows, fit->columns, &sums->fitted);
  GCONV_THEN(status, gconv_moments_create(fit->rows, fit->columns, &sums->held));
  if (status != GCONV_OK)
    gconv_fit_free(fit);
  return status;
}

gconv_status gconv_fit_add(gconv_fit *fit, gconv_device *device, const gconv_compared *before, const gconv_compared *after,
                           double held) {
  GCONV_NEED(fit, device);
  GCONV_TRY(check_fit(fit));
  GCONV_TRY(gconv_row_band_check(before, "gconv_fit_add", "before"));
  GCONV_TRY(gconv_row_band_check(after, "gconv_fit_add", "after"));
  if (!(held >= 0 && held <= 1))
    return gconv_fail(GCONV_BAD_ARGUMENT, "held is %g: it must be a share from 0 to 1", held);
  gconv_threads *threads = gconv_device_threads(device);
  if (!fit->sums)
    GCONV_TRY(make_sums(fit));
  GCONV_TRY(check_size(fit));
  GCONV_TRY(gconv_moments_prepare(fit->sums->fitted, gconv_threads_count(threads)));
  GCONV_TRY(gconv_moments_prepare(fit->sums->held, gconv_threads_count(threads)));
  return gconv_fit_add_pair(fit, threads, before, after, held);
}

static gconv_status make_filter(const gconv_fit *fit, gconv_fit_result *result) {
  size_t taps = (size_t)fit->rows * (size_t)fit->columns;
  gconv_filter *filter = calloc(1, sizeof *filter);
  result->filters = (gconv_filters){.items = filter, .count = filter ? 1 : 0};
  GCONV_NEED_MEMORY(filter, "out of memory for the filter");
  *filter = (gconv_filter){.rows = fit->rows,
                           .columns = fit->columns,
                           .anchor_row = fit->rows / 2,
                           .anchor_column = fit->columns / 2,
                           .divisor = 1,
                           .offset = (float)(result->bias * fit->sums->white_before),
                           .name = gconv_format_text("fitted"),
                           .taps = malloc(taps * sizeof *filter->taps)};
  GCONV_NEED_MEMORY(filter->name && filter->taps, "out of memory for the filter");
  for (size_t i = 0; i < taps; i++)
    filter->taps[i] = (float)result->taps[i];
  return gconv_filter_check(filter);
}

static gconv_status solve(const gconv_fit *fit, gconv_threads *threads, gconv_fit_result *result) {
  const gconv_fit_sums *sums = fit->sums;
  GCONV_NEW(result->taps, sums->fitted->taps, "out of memory for the taps");
  GCONV_TRY(gconv_fit_equations(sums->fitted, fit->bias, fit->ridge, result->taps, &result->bias, &result->condition));
  result->fitted = gconv_fit_judge(sums->fitted, result->taps, result->bias);
  result->held = gconv_fit_judge(sums->held, result->taps, result->bias);
  result->white = sums->white_after;
  GCONV_TRY(gconv_fit_look(fit, threads, result));
  if (fit->bias && sums->mixed)
    return gconv_fail(
        GCONV_UNSUPPORTED,
        "the images before have several types: a file of a filter has its bias in levels of one of them. Fit to "
        "images of one type, or without a bias");
  return make_filter(fit, result);
}

gconv_status gconv_fit_solve(const gconv_fit *fit, gconv_device *device, gconv_fit_result *result) {
  GCONV_NEED(fit, device, result);
  GCONV_TRY(check_fit(fit));
  if (!fit->sums)
    return gconv_fail(GCONV_BAD_ARGUMENT, "gconv_fit_solve(): no pair was added");
  GCONV_TRY(check_size(fit));
  gconv_fit_result found = {0};
  gconv_status status = solve(fit, gconv_device_threads(device), &found);
  if (status != GCONV_OK) {
    free(found.taps);
    gconv_filters_free(&found.filters);
    return status;
  }
  *result = found;
  return GCONV_OK;
}

void gconv_fit_free(gconv_fit *fit) {
  if (!fit || !fit->sums)
    return;
  gconv_moments_free(fit->sums->fitted);
  gconv_moments_free(fit->sums->held);
  for (size_t i = 0; i < fit->sums->patch_count; i++) {
    gconv_release(fit->sums->patches[i].x);
    gconv_release(fit->sums->patches[i].t);
    gconv_release(fit->sums->patches[i].counts);
  }
  gconv_release(fit->sums);
  fit->sums = NULL;
}

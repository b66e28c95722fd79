/* SPDX-License-Identifier: MIT */
/*
 * Finds whether the residuals of a fit are noise, and whether the images are shifted. The normal equations do not show this;
 * it is found from patches, small parts in the middle of some images.
 */
#include "fit/fit.h"

#include <math.h>

enum { PROBE = 7 /* rows and columns of the filters with which shifts are searched */ };
static const double LOW_R2 = 0.95, CORRELATED = 0.3; /* gconv_fit_result.nonlinear */
static const double FAR = 0.75; /* pixels from the anchor to the taps' centre; more suggests a shift. Filters of even size,
                                   whose anchor is not in the middle, have up to 0.71 */
static const double USEFUL_R2 = 0.5; /* if R2 is smaller, the taps of a filter mean little */
static const double CLEAR_R2 = 0.8;  /* the least R2 of a filter at another place */
static const double CLEARER = 0.5;   /* the largest residual variance of that filter, as a share of the fitted filter's */
static const double CUT_RIM = 0.5;   /* gconv_fit_result.cut: the least share of taps at the rim */
static const double UNUSUAL = 1.5;   /* the same, as a multiple of the share in a filter of equal taps */

/* The windows of a patch for a filter whose tap (rows / 2, columns / 2) lies `down` rows and `across` columns from the
 * target. The height is below 1 if there are no windows. */
static gconv_windows count_windows(const gconv_fit_patch *p, int32_t rows, int32_t columns, int32_t down, int32_t across) {
  int32_t y = p->top + down - rows / 2, x = p->left + across - columns / 2; /* the first target's first tap, in p->x */
  int32_t first_row = y < 0 ? -y : 0, first_column = x < 0 ? -x : 0;
  int32_t last_row = p->x_height - rows - y, last_column = p->x_width - columns - x;
  gconv_windows w = {.x_stride = (size_t)p->x_width, .t_stride = (size_t)p->width};
  last_row = last_row < p->height - 1 ? last_row : p->height - 1;
  last_column = last_column < p->width - 1 ? last_column : p->width - 1;
  if (last_row < first_row || last_column < first_column)
    return w;
  w.height = last_row - first_row + 1;
  w.width = last_column - first_column + 1;
  w.x = p->x + (size_t)(y + first_row) * w.x_stride + (size_t)(x + first_column);
  w.t = p->t + (size_t)first_row * w.t_stride + (size_t)first_column;
  w.counts = p->counts + (size_t)first_row * w.t_stride + (size_t)first_column;
  return w;
}

/* ---- Residuals ------------------------------------------------------------------------------------------------------- */

typedef struct neighbours {
  double products, squares; /* sums over neighbouring residuals: e_i e_j; half of e_i^2 + e_j^2 */
  uint64_t pairs;
} neighbours;

/* Sets the residual of each window of `w`; NAN for windows that do not count. */
static void find_residuals(const gconv_windows *w, const gconv_fit *fit, const gconv_fit_result *result, double *residuals) {
  for (int32_t i = 0; i < w->height; i++)
    for (int32_t k = 0; k < w->width; k++) {
      size_t at = (size_t)i * w->t_stride + (size_t)k;
      double sum = result->bias;
      for (int32_t r = 0; r < fit->rows; r++)
        for (int32_t s = 0; s < fit->columns; s++)
          sum += result->taps[r * fit->columns + s] * w->x[(size_t)(i + r) * w->x_stride + (size_t)(k + s)];
      residuals[(size_t)i * (size_t)w->width + (size_t)k] = w->counts[at] != 0 ? w->t[at] - sum : NAN;
    }
}

static void add_neighbours(const double *residuals, size_t height, size_t width, size_t down, size_t across,
                           neighbours *sums) {
  for (size_t i = 0; i + down < height; i++)
    for (size_t k = 0; k + across < width; k++) {
      double a = residuals[i * width + k], b = residuals[(i + down) * width + k + across];
      if (isnan(a) || isnan(b))
        continue;
      sums->products += a * b;
      sums->squares += (a * a + b * b) / 2;
      sums->pairs++;
    }
}

static gconv_status correlate_residuals(const gconv_fit *fit, gconv_fit_result *result) {
  neighbours sums = {0};
  for (size_t i = 0; i < fit->sums->patch_count; i++) {
    gconv_windows w = count_windows(&fit->sums->patches[i], fit->rows, fit->columns, 0, 0);
    double *residuals;
    if (w.height < 1)
      continue;
    size_t size[] = {(size_t)w.height, (size_t)w.width, sizeof *residuals};
    GCONV_TRY(gconv_allocate(gconv_checked_product(3, size), "residuals", (void **)&residuals));
    find_residuals(&w, fit, result, residuals);
    add_neighbours(residuals, size[0], size[1], 0, 1, &sums);
    add_neighbours(residuals, size[0], size[1], 1, 0, &sums);
    gconv_release(residuals);
  }
  bool enough = sums.pairs >= GCONV_FIT_FEWEST_SAMPLES && sums.squares > 0;
  result->correlation = enough ? sums.products / sums.squares : NAN;
  result->nonlinear = result->fitted.r2 < LOW_R2 && result->correlation > CORRELATED;
  return GCONV_OK;
}

/* ---- Taps ------------------------------------------------------------------------------------------------------------ */

/* Finds the centre of the squared taps, relative to the anchor. Returns the share of the taps at the rim. */
static double find_centre(const double *taps, int32_t rows, int32_t columns, double *down, double *across) {
  double all = 0, rim = 0;
  *down = *across = 0;
  for (int32_t r = 0; r < rows; r++)
    for (int32_t s = 0; s < columns; s++) {
      double square = taps[r * columns + s] * taps[r * columns + s];
      all += square;
      rim += (rows > 2 && (r == 0 || r == rows - 1)) || (columns > 2 && (s == 0 || s == columns - 1)) ? square : 0;
      *down += square * (r - rows / 2);
      *across += square * (s - columns / 2);
    }
  if (all > 0) {
    *down /= all;
    *across /= all;
  }
  return all > 0 ? rim / all : 0;
}

static double equal_share_of_rim(int32_t rows, int32_t columns) {
  double inner = (rows > 2 ? rows - 2.0 : rows) * (columns > 2 ? columns - 2.0 : columns);
  return 1 - inner / ((double)rows * columns);
}

/* ---- Shifts ---------------------------------------------------------------------------------------------------------- */

/* The best of the filters that were tried at several places: its R2, and the place of its centre. */
typedef struct probe {
  int32_t rows, columns;
  double r2, down, across;
} probe;

static gconv_status try_place(const gconv_fit_sums *sums, gconv_threads *threads, int32_t down, int32_t across,
                              gconv_moments *m, probe *best) {
  double taps[PROBE * PROBE], bias, y, x;
  gconv_moments_reset(m);
  for (size_t i = 0; i < sums->patch_count; i++) {
    gconv_windows w = count_windows(&sums->patches[i], m->rows, m->columns, down, across);
    if (w.height > 0)
      gconv_moments_add(m, threads, &w);
  }
  if (m->samples < 8 * m->taps || m->samples < GCONV_FIT_FEWEST_SAMPLES)
    return GCONV_OK;
  gconv_status status = gconv_fit_equations(m, true, 1e-6, taps, &bias, NULL);
  if (status != GCONV_OK)
    return status == GCONV_UNSUPPORTED ? GCONV_OK : status; /* no result at this place */
  double r2 = gconv_fit_judge(m, taps, bias).r2;
  if (r2 > best->r2) {
    find_centre(taps, m->rows, m->columns, &y, &x);
    best->r2 = r2;
    best->down = down + y;
    best->across = across + x;
  }
  return GCONV_OK;
}

/* Fits small filters at places side by side, as far as patches reach. */
static gconv_status search(const gconv_fit *fit, gconv_threads *threads, probe *best) {
  gconv_moments *m = NULL;
  GCONV_TRY(gconv_moments_create(best->rows, best->columns, &m));
  gconv_status status = gconv_moments_prepare(m, gconv_threads_count(threads));
  int32_t reach_y = GCONV_FIT_PATCH_MARGIN / best->rows * best->rows;
  int32_t reach_x = GCONV_FIT_PATCH_MARGIN / best->columns * best->columns;
  for (int32_t y = -reach_y; y <= reach_y && status == GCONV_OK; y += best->rows)
    for (int32_t x = -reach_x; x <= reach_x && status == GCONV_OK; x += best->columns)
      status = try_place(fit->sums, threads, y, x, m, best);
  gconv_moments_free(m);
  return status;
}

/* The signs are reversed: a tap to the right of the anchor moves samples to the left. */
static void set_shift(gconv_fit_result *result, double down, double across) {
  result->shifted = true;
  result->shift_y = -down;
  result->shift_x = -across;
}

static gconv_status find_shift(const gconv_fit *fit, gconv_threads *threads, gconv_fit_result *result) {
  double down, across;
  result->rim = find_centre(result->taps, fit->rows, fit->columns, &down, &across);
  result->cut =
      result->fitted.r2 >= USEFUL_R2 && result->rim > fmax(CUT_RIM, UNUSUAL * equal_share_of_rim(fit->rows, fit->columns));
  if (hypot(down, across) > FAR && result->fitted.r2 >= USEFUL_R2)
    set_shift(result, down, across);
  if (!(result->fitted.r2 < LOW_R2) || fit->sums->patch_count == 0)
    return GCONV_OK;
  probe best = {.rows = fit->rows == 1 ? 1 : PROBE, .columns = fit->columns == 1 ? 1 : PROBE};
  GCONV_TRY(search(fit, threads, &best));
  if (best.r2 >= CLEAR_R2 && 1 - best.r2 < CLEARER * (1 - result->fitted.r2) && hypot(best.down, best.across) > FAR)
    set_shift(result, best.down, best.across);
  return GCONV_OK;
}

gconv_status gconv_fit_look(const gconv_fit *fit, gconv_threads *threads, gconv_fit_result *result) {
  GCONV_TRY(correlate_residuals(fit, result));
  return find_shift(fit, threads, result);
}

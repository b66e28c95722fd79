/* SPDX-License-Identifier: MIT */
/* The normal equations of a fit, and the quality of their solution. */
#include "base/control.h"
#include "fit/fit.h"

#include <math.h>
#include <string.h>

enum { SHIFTS = 4, MOST_STEPS = 200 };
static const double SMALLEST_PIVOT = 1e-13, LARGEST_CONDITION = 1e13, STEADY = 1e-5;

/* n equations. The lower triangle of `matrix` becomes its Cholesky factor L, matrix = L L'. */
typedef struct equations {
  size_t n;
  double *matrix; /* owned: [n + SHIFTS][n] */
  double *vector; /* owned: [n]: the right side, then the solution */
  double *work;   /* owned: [n] */
} equations;

static gconv_status allocate(size_t n, equations *e) {
  size_t matrix[] = {n + SHIFTS, n, sizeof *e->matrix};
  e->n = n;
  GCONV_TRY(gconv_allocate(gconv_checked_product(3, matrix), "the normal equations", (void **)&e->matrix));
  memset(e->matrix, 0, gconv_checked_product(3, matrix));
  GCONV_TRY(gconv_allocate(n * sizeof *e->vector, "the normal equations", (void **)&e->vector));
  return gconv_allocate(n * sizeof *e->work, "the normal equations", (void **)&e->work);
}

static void release(equations *e) {
  gconv_release(e->matrix);
  gconv_release(e->vector);
  gconv_release(e->work);
}

/* Fills the equations with means of products. If there is a bias, covariances take their place. */
static void fill(const gconv_moments *m, bool has_bias, double ridge, equations *e) {
  double count = (double)m->samples, square = 0;
  for (size_t a = 0; a < e->n; a++)
    square += gconv_moments_product(m, a, a) / count / (double)e->n;
  for (size_t a = 0; a < e->n; a++) {
    gconv_control_poll();
    double mean = has_bias ? m->sums[a] / count : 0;
    for (size_t b = 0; b <= a; b++)
      e->matrix[a * e->n + b] = (gconv_moments_product(m, b, a) - mean * m->sums[b]) / count;
    e->matrix[a * e->n + a] += ridge * square;
    e->vector[a] = (m->cross[a] - mean * m->target) / count;
  }
}

static gconv_status complain_singular(void) {
  return gconv_fail(
      GCONV_UNSUPPORTED,
      "many filters explain these images equally well, as the samples before are too much alike: the image is "
      "constant, smooth or regular. Take other images, a smaller filter, or a small ridge (--ridge 1e-6), which "
      "prefers small taps");
}

/* Factorizes the matrix. Fails if it is singular up to rounding. */
static gconv_status factorize(equations *e) {
  size_t n = e->n;
  for (size_t j = 0; j < n; j++) {
    GCONV_TRY(gconv_control_check());
    const double *row = e->matrix + j * n;
    double whole = row[j], root = 0;
    for (size_t i = j; i < n; i += SHIFTS) {
      double sums[SHIFTS];
      gconv_dots(row, e->matrix + i * n, n, j, sums);
      for (size_t k = 0; k < SHIFTS && i + k < n; k++) {
        double *at = e->matrix + (i + k) * n + j;
        *at -= sums[k];
        if (i + k == j) {
          if (!(*at > SMALLEST_PIVOT * whole))
            return complain_singular();
          *at = root = sqrt(*at);
        } else {
          *at /= root;
        }
      }
    }
  }
  return GCONV_OK;
}

/* The next four functions replace x by L^-1 x, L'^-1 x, L' x and L x. */
static void solve_lower(const equations *e, double *x) {
  for (size_t i = 0; i < e->n; i++) {
    const double *row = e->matrix + i * e->n;
    double sums[SHIFTS];
    gconv_dots(row, x, 0, i, sums);
    x[i] = (x[i] - sums[0]) / row[i];
  }
}

static void solve_upper(const equations *e, double *x) {
  for (size_t i = e->n; i-- > 0;) {
    const double *row = e->matrix + i * e->n;
    x[i] /= row[i];
    for (size_t k = 0; k < i; k++)
      x[k] -= x[i] * row[k];
  }
}

static void multiply_upper(const equations *e, double *x) {
  for (size_t i = 0; i < e->n; i++) {
    const double *row = e->matrix + i * e->n;
    double value = x[i];
    x[i] = 0;
    for (size_t k = 0; k <= i; k++)
      x[k] += value * row[k];
  }
}

static void multiply_lower(const equations *e, double *x) {
  for (size_t i = e->n; i-- > 0;) {
    double sums[SHIFTS];
    gconv_dots(e->matrix + i * e->n, x, 0, i + 1, sums);
    x[i] = sums[0];
  }
}

/* Returns the largest eigenvalue of the matrix, or of its inverse, by power iteration. */
static double find_eigenvalue(const equations *e, bool of_inverse) {
  double *x = e->work, found = 0;
  for (size_t i = 0; i < e->n; i++)
    x[i] = cos(1.7 * (double)i) + 0.3 * sin(0.9 * (double)(i * i % 1009));
  for (int step = 0; step < MOST_STEPS && !gconv_control_stops(gconv_control_here()); step++) {
    double length = 0, before = found;
    for (size_t i = 0; i < e->n; i++)
      length += x[i] * x[i];
    for (size_t i = 0; i < e->n; i++)
      x[i] /= sqrt(length);
    if (of_inverse) {
      solve_lower(e, x);
      found = 0; /* x' M^-1 x = |L^-1 x|^2 */
      for (size_t i = 0; i < e->n; i++)
        found += x[i] * x[i];
      solve_upper(e, x);
    } else {
      multiply_upper(e, x);
      found = 0;
      for (size_t i = 0; i < e->n; i++)
        found += x[i] * x[i];
      multiply_lower(e, x);
    }
    if (fabs(found - before) <= STEADY * found)
      break;
  }
  return found;
}

static gconv_status solve(const gconv_moments *m, bool has_bias, double ridge, equations *e, double *condition) {
  fill(m, has_bias, ridge, e);
  GCONV_TRY(factorize(e));
  solve_lower(e, e->vector);
  solve_upper(e, e->vector);
  if (!condition)
    return GCONV_OK;
  *condition = find_eigenvalue(e, false) * find_eigenvalue(e, true);
  GCONV_TRY(gconv_control_check());
  return *condition <= LARGEST_CONDITION ? GCONV_OK : complain_singular();
}

gconv_status gconv_fit_equations(const gconv_moments *m, bool has_bias, double ridge, double *taps, double *bias,
                                 double *condition) {
  equations e = {0};
  uint64_t unknowns = m->taps + has_bias;
  if (m->samples < unknowns)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%llu samples are too few for %llu unknowns: take more or larger images, or a smaller filter%s",
                      (unsigned long long)m->samples, (unsigned long long)unknowns,
                      m->clipped > 0 ? "; samples that are black or white after the filter do not count" : "");
  gconv_status status = allocate(m->taps, &e);
  GCONV_THEN(status, solve(m, has_bias, ridge, &e, condition));
  *bias = 0;
  for (size_t i = 0; i < m->taps && status == GCONV_OK; i++) {
    taps[i] = e.vector[i];
    *bias -= has_bias ? taps[i] * m->sums[i] / (double)m->samples : 0;
  }
  *bias += has_bias ? m->target / (double)m->samples : 0;
  release(&e);
  return status;
}

gconv_fit_quality gconv_fit_judge(const gconv_moments *m, const double *taps, double bias) {
  gconv_fit_quality q = {.r2 = NAN, .residual = NAN, .samples = m->samples, .clipped = m->clipped};
  double count = (double)m->samples;
  double errors = m->squares - 2 * bias * m->target + bias * bias * count;
  double variance = m->squares - m->target * m->target / count;
  if (m->samples == 0)
    return q;
  for (size_t a = 0; a < m->taps; a++) {
    double products = 0;
    for (size_t b = 0; b < m->taps; b++)
      products += taps[b] * gconv_moments_product(m, a, b);
    errors += taps[a] * (products - 2 * m->cross[a] + 2 * bias * m->sums[a]);
  }
  errors = errors > 0 ? errors : 0; /* rounding may make it negative in a perfect fit */
  q.residual = sqrt(errors / count);
  if (variance > 1e-14 * m->squares)
    q.r2 = 1 - errors / variance;
  return q;
}

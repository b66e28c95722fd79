/* SPDX-License-Identifier: MIT */
/* Filters for edges and textures whose taps are computed. Filters that MATLAB's fspecial has use its formulas and
 * defaults. */
#include "filter/builtin.h"

#include <math.h>

#define MAX_SIDE GCONV_FILTER_MAX_SIDE
static const double pi = 3.14159265358979323846;

/* Makes 4 / (a + 1) * [a/4 (1-a)/4 a/4; (1-a)/4 -1 (1-a)/4; a/4 (1-a)/4 a/4], where a is alpha, times `factor`, plus
 * `centre` in the middle. */
static gconv_status make_laplacian_like(const gconv_builtin *self, double alpha, double factor, double centre,
                                        gconv_filters *list) {
  double corner = factor * alpha / (alpha + 1), side = factor * (1 - alpha) / (alpha + 1);
  double middle = centre - factor * 4 / (alpha + 1);
  const double values[9] = {corner, side, corner, side, middle, side, corner, side, corner};
  gconv_plane plane;
  GCONV_TRY(gconv_plane_begin(self, 3, 3, &plane));
  for (size_t i = 0; i < plane.count; i++)
    plane.values[i] = values[i];
  return gconv_plane_finish(&plane, list);
}

static gconv_status make_laplacian(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  return make_laplacian_like(self, arguments[0].number, 1, 0, list);
}

const gconv_builtin gconv_builtin_laplacian = {
    .name = "laplacian",
    .help = "Laplacian whose corners grow with alpha, from 0 to 1 (fspecial); see laplacian_4 and laplacian_8",
    .parameters = {{"alpha", GCONV_PARAMETER_NUMBER, "0.2", 0, 1, NULL}},
    .make = make_laplacian,
};

static gconv_status make_unsharp(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  return make_laplacian_like(self, arguments[0].number, -1, 1, list);
}

const gconv_builtin gconv_builtin_unsharp = {
    .name = "unsharp",
    .help = "sharpens: the image less its laplacian:alpha (fspecial); sum 1",
    .parameters = {{"alpha", GCONV_PARAMETER_NUMBER, "0.2", 0, 1, NULL}},
    .make = make_unsharp,
};

static gconv_status make_sharpen(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  return make_laplacian_like(self, 0, -arguments[0].number, 1, list);
}

const gconv_builtin gconv_builtin_sharpen = {
    .name = "sharpen",
    .help = "the image less amount times laplacian_4; sum 1",
    .parameters = {{"amount", GCONV_PARAMETER_NUMBER, "1", 0, 1000, NULL}},
    .make = make_sharpen,
};

/* Makes 1 + amount at the anchor, minus amount times the Gaussian. */
static gconv_status make_usm(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  const gconv_argument *sigma = &arguments[1];
  double amount = arguments[2].number;
  gconv_plane plane;
  GCONV_TRY(gconv_plane_begin_gaussian(self, &arguments[0], sigma, &plane));
  gconv_plane_fill_gaussian(&plane, sigma->number, sigma->across);
  for (size_t i = 0; i < plane.count; i++)
    plane.values[i] *= -amount;
  plane.values[(size_t)(plane.rows / 2) * (size_t)plane.columns + (size_t)(plane.columns / 2)] += 1 + amount;
  return gconv_plane_finish(&plane, list);
}

const gconv_builtin gconv_builtin_usm = {
    .name = "usm",
    .also = "unsharp_mask",
    .help = "unsharp mask: sharpens by amount times what gaussian:sigma takes away; sum 1",
    .parameters = {{"size", GCONV_PARAMETER_SIZE, "auto", 0, MAX_SIDE, NULL},
                   {"sigma", GCONV_PARAMETER_PAIR, "1", 0.001, 4096, NULL},
                   {"amount", GCONV_PARAMETER_NUMBER, "1", 0, 1000, NULL}},
    .make = make_usm,
};

/* Makes the Gaussian times (x^2 + y^2 - 2 sigma^2) / sigma^4, minus the mean, so that the sum is 0. */
static gconv_status make_log(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  const gconv_argument *size = &arguments[0], *sigma = &arguments[1];
  double variance = sigma->number * sigma->number, sum = 0;
  int32_t side = size->rows == 0 || (sigma->given && !size->given) ? gconv_side_of_sigma(sigma->number) : 0;
  gconv_plane plane;
  GCONV_TRY(gconv_plane_begin(self, side ? side : size->rows, side ? side : size->columns, &plane));
  gconv_plane_fill_gaussian(&plane, sigma->number, sigma->number);
  for (size_t i = 0; i < plane.count; i++) {
    double y = gconv_plane_y(&plane, (int32_t)(i / (size_t)plane.columns));
    double x = gconv_plane_x(&plane, (int32_t)(i % (size_t)plane.columns));
    plane.values[i] *= (x * x + y * y - 2 * variance) / (variance * variance);
    sum += plane.values[i];
  }
  for (size_t i = 0; i < plane.count; i++)
    plane.values[i] -= sum / (double)plane.count;
  return gconv_plane_finish(&plane, list);
}

const gconv_builtin gconv_builtin_log = {
    .name = "log",
    .also = "laplacian_of_gaussian gaussian_laplace marr marr_hildreth ricker mexican_hat mexicanhat",
    .help = "Laplacian of Gaussian (fspecial); with sigma alone, size = 2 * ceil(3 * sigma) + 1; sum 0",
    .parameters = {{"size", GCONV_PARAMETER_SIZE, "5", 0, MAX_SIDE, NULL},
                   {"sigma", GCONV_PARAMETER_NUMBER, "0.5", 0.001, 4096, NULL}},
    .make = make_log,
};

static gconv_status make_dog(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  double sigma1 = arguments[1].number, sigma2 = arguments[2].number;
  int32_t side = gconv_side_of_sigma(fmax(sigma1, sigma2)), rows = arguments[0].rows, columns = arguments[0].columns;
  gconv_plane narrow, wide;
  GCONV_TRY(gconv_plane_begin(self, rows ? rows : side, rows ? columns : side, &narrow));
  gconv_status status = gconv_plane_begin(self, narrow.rows, narrow.columns, &wide);
  if (status != GCONV_OK) {
    gconv_plane_drop(&narrow);
    return status;
  }
  gconv_plane_fill_gaussian(&narrow, sigma1, sigma1);
  gconv_plane_fill_gaussian(&wide, sigma2, sigma2);
  for (size_t i = 0; i < narrow.count; i++)
    narrow.values[i] -= wide.values[i];
  gconv_plane_drop(&wide);
  return gconv_plane_finish(&narrow, list);
}

const gconv_builtin gconv_builtin_dog = {
    .name = "dog",
    .also = "difference_of_gaussians",
    .help = "difference of Gaussians, sigma1 less sigma2 (Marr and Hildreth); size 2 * ceil(3 * sigma) + 1; sum 0",
    .parameters = {{"size", GCONV_PARAMETER_SIZE, "auto", 0, MAX_SIDE, NULL},
                   {"sigma1", GCONV_PARAMETER_NUMBER, "1", 0.001, 4096, NULL},
                   {"sigma2", GCONV_PARAMETER_NUMBER, "1.6", 0.001, 4096, NULL}},
    .make = make_dog,
};

/* Makes OpenCV's getGaborKernel(ksize, sigma, theta, lambd, gamma, psi), which counts y upwards and x to the left. */
static gconv_status make_gabor(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  double sigma = arguments[1].number, theta = arguments[2].number * pi / 180, lambda = arguments[3].number;
  double gamma = arguments[4].number, psi = arguments[5].number * pi / 180;
  int32_t side = gconv_side_of_sigma(sigma / fmin(gamma, 1)), rows = arguments[0].rows, columns = arguments[0].columns;
  gconv_plane plane;
  GCONV_TRY(gconv_plane_begin(self, rows ? rows : side, rows ? columns : side, &plane));
  for (size_t i = 0; i < plane.count; i++) {
    double y = -gconv_plane_y(&plane, (int32_t)(i / (size_t)plane.columns));
    double x = -gconv_plane_x(&plane, (int32_t)(i % (size_t)plane.columns));
    double along = x * cos(theta) + y * sin(theta), across = y * cos(theta) - x * sin(theta);
    plane.values[i] =
        exp(-(along * along + gamma * gamma * across * across) / (2 * sigma * sigma)) * cos(2 * pi * along / lambda + psi);
  }
  return gconv_plane_finish(&plane, list);
}

const gconv_builtin gconv_builtin_gabor = {
    .name = "gabor",
    .help = "a wave of length lambda under a Gaussian of aspect gamma; angles in degrees (OpenCV's getGaborKernel)",
    .parameters = {{"size", GCONV_PARAMETER_SIZE, "auto", 0, MAX_SIDE, NULL},
                   {"sigma", GCONV_PARAMETER_NUMBER, "2", 0.001, 4096, NULL},
                   {"theta", GCONV_PARAMETER_NUMBER, "0", -360000, 360000, NULL},
                   {"lambda", GCONV_PARAMETER_NUMBER, "4", 0.001, 100000, NULL},
                   {"gamma", GCONV_PARAMETER_NUMBER, "0.5", 0.001, 1000, NULL},
                   {"psi", GCONV_PARAMETER_NUMBER, "0", -360000, 360000, NULL}},
    .make = make_gabor,
};

/* SPDX-License-Identifier: MIT */
/* Point spread functions of telescopes and microscopes: what they make of a star. Their values are taken at the middle of
 * each pixel, as astropy.convolution does by default, and their sum is 1. */
#include "filter/builtin.h"

#include <math.h>

#define MAX_SIDE GCONV_FILTER_MAX_SIDE
#define SIZE_PARAMETER                                                                                                      \
  { "size", GCONV_PARAMETER_SIZE, "auto", 0, MAX_SIDE, NULL }
static const double pi = 3.14159265358979323846;

/* Fills a plane with value(r, a, b), where r is the distance from its middle in pixels, and appends it. A size of "auto"
 * reaches 4 times `width` to each side. */
static gconv_status make_round(const gconv_builtin *self, const gconv_argument *size, double width,
                               double (*value)(double r, double a, double b), double a, double b, gconv_filters *list) {
  const double reach = fmin(ceil(4 * width), MAX_SIDE); /* a larger one is refused with the plane */
  const int32_t side = 2 * (int32_t)reach + 1;
  gconv_plane plane;
  GCONV_TRY(gconv_plane_begin(self, size->rows ? size->rows : side, size->rows ? size->columns : side, &plane));
  for (size_t i = 0; i < plane.count; i++) {
    const double y = gconv_plane_y(&plane, (int32_t)(i / (size_t)plane.columns));
    plane.values[i] = value(hypot(gconv_plane_x(&plane, (int32_t)(i % (size_t)plane.columns)), y), a, b);
  }
  gconv_plane_normalise(&plane);
  return gconv_plane_finish(&plane, list);
}

/* Moffat (1969): (1 + (r / alpha)^2)^-beta. */
static double moffat_at(double r, double alpha, double beta) {
  return pow(1 + r / alpha * (r / alpha), -beta);
}

static gconv_status make_moffat(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  const double fwhm = arguments[1].number, beta = arguments[2].number;
  const double alpha = fwhm / 2 / sqrt(expm1(log(2) / beta)); /* the value at fwhm / 2 is half of the peak */
  return make_round(self, &arguments[0], fwhm, moffat_at, alpha, beta, list);
}

const gconv_builtin gconv_builtin_moffat = {
    .name = "moffat",
    .help = "a star through air: (1 + (r / alpha)^2)^-beta, as wide as fwhm at half of its height (Moffat 1969); sum 1",
    .parameters = {SIZE_PARAMETER,
                   {"fwhm", GCONV_PARAMETER_NUMBER, "3", 0.01, 4096, NULL},
                   {"beta", GCONV_PARAMETER_NUMBER, "2.5", 0.1, 1000, NULL}},
    .make = make_moffat,
};

/* Airy (1835): (2 J1(x) / x)^2, where x = pi first / radius * r, and `first` is where J1(pi x) is 0 for the first time. */
static double airy_at(double r, double radius, double first) {
  const double x = pi * first / radius * r;
  return x == 0 ? 1 : 4 * j1(x) / x * (j1(x) / x);
}

static gconv_status make_airy(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  return make_round(self, &arguments[0], arguments[1].number, airy_at, arguments[1].number, 1.2196698912665045, list);
}

const gconv_builtin gconv_builtin_airy = {
    .name = "airy",
    .also = "airydisk",
    .help =
        "a star through a round lens: (2 J1(x) / x)^2, first dark ring at radius, 1.22 wavelength x f-number (Airy 1835); "
        "sum 1",
    .parameters = {SIZE_PARAMETER, {"radius", GCONV_PARAMETER_NUMBER, "3", 0.01, 4096, NULL}},
    .make = make_airy,
};

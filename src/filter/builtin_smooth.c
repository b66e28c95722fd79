/* SPDX-License-Identifier: MIT */
/* Filters that smooth: all taps are at least 0, and their sum is 1. Filters that MATLAB's fspecial has use its formulas and
 * defaults. */
#include "filter/builtin.h"

#include <float.h>
#include <math.h>

#define MAX_SIDE GCONV_FILTER_MAX_SIDE
static const double pi = 3.14159265358979323846;

static gconv_status make_identity(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  gconv_filter *filter;
  GCONV_TRY(gconv_filter_check_size(self->name, arguments[0].rows, arguments[0].columns));
  GCONV_TRY(gconv_filters_add(list, arguments[0].rows, arguments[0].columns, &filter));
  for (size_t i = 0; i < (size_t)filter->rows * (size_t)filter->columns; i++)
    filter->taps[i] = -0.0f;
  filter->marked = true;
  filter->taps[(size_t)filter->anchor_row * (size_t)filter->columns + (size_t)filter->anchor_column] = 1;
  return GCONV_OK;
}

const gconv_builtin gconv_builtin_identity = {
    .name = "identity",
    .also = "delta impulse",
    .help = "1 at the anchor, 0 elsewhere: leaves images as they are",
    .parameters = {{"size", GCONV_PARAMETER_SIZE, "3", 1, MAX_SIDE, NULL}},
    .make = make_identity,
};

static gconv_status make_average(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  gconv_plane plane;
  GCONV_TRY(gconv_plane_begin(self, arguments[0].rows, arguments[0].columns, &plane));
  for (size_t i = 0; i < plane.count; i++)
    plane.values[i] = 1.0 / (double)plane.count;
  return gconv_plane_finish(&plane, list);
}

const gconv_builtin gconv_builtin_average = {
    .name = "average",
    .also = "box box_blur boxcar mean uniform",
    .help = "box blur: the mean of a box (fspecial); size=5x3: 5 rows, 3 columns",
    .parameters = {{"size", GCONV_PARAMETER_SIZE, "3", 1, MAX_SIDE, NULL}},
    .make = make_average,
};

static gconv_status make_gaussian(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  const gconv_argument *size = &arguments[0], *sigma = &arguments[1];
  gconv_plane plane;
  GCONV_TRY(gconv_plane_begin_gaussian(self, size, sigma, &plane));
  gconv_plane_fill_gaussian(&plane, sigma->number, sigma->across);
  return gconv_plane_finish(&plane, list);
}

const gconv_builtin gconv_builtin_gaussian = {
    .name = "gaussian",
    .also = "gauss gaussian_blur",
    .help = "Gaussian blur (fspecial); sigma alone: size = 2 * ceil(3 * sigma) + 1; size alone: sigma = 0.5; sigma=3x1: "
            "down, across",
    .parameters = {{"size", GCONV_PARAMETER_SIZE, "3", 0, MAX_SIDE, NULL},
                   {"sigma", GCONV_PARAMETER_PAIR, "0.5", 0.001, 4096, NULL}},
    .make = make_gaussian,
};

/* Returns number k of the row of Pascal's triangle that has n numbers, divided by their sum, 2^(n - 1). It is exact in
 * float64 while n <= 54. */
static double binomial_tap(int32_t n, int32_t k) {
  double value = 1;
  for (int32_t i = 0; i < k; i++)
    value = value * (n - 1 - i) / (i + 1); /* an integer at each step */
  return ldexp(value, 1 - n);
}

static gconv_status make_binomial(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  gconv_plane plane;
  GCONV_TRY(gconv_plane_begin(self, arguments[0].rows, arguments[0].columns, &plane));
  for (size_t i = 0; i < plane.count; i++)
    plane.values[i] = binomial_tap(plane.rows, (int32_t)(i / (size_t)plane.columns)) *
                      binomial_tap(plane.columns, (int32_t)(i % (size_t)plane.columns));
  return gconv_plane_finish(&plane, list);
}

const gconv_builtin gconv_builtin_binomial = {
    .name = "binomial",
    .also = "pascal",
    .help = "rows of Pascal's triangle, 1 2 1 / 4 both ways: the Gaussian in small integers",
    .parameters = {{"size", GCONV_PARAMETER_SIZE, "3", 1, 48, NULL}},
    .make = make_binomial,
};

/* ---- disk: the share of each pixel that lies inside a circle ---- */

/* Returns the integral of sqrt(r^2 - t^2) for t from 0 to x, where 0 <= x <= r. */
static double circle_integral(double x, double r) {
  return (x * sqrt(r * r - x * x) + r * r * asin(x / r)) / 2;
}

/* Returns the area of the part of the rectangle 0 .. a, 0 .. b that is inside the circle of radius r around 0. It is
 * negative if either a or b is negative, but not if both are. */
static double corner_area(double a, double b, double r) {
  double sign = (a < 0) == (b < 0) ? 1 : -1;
  a = fmin(fabs(a), r);
  b = fmin(fabs(b), r);
  if (a * a + b * b <= r * r)
    return sign * a * b;
  double x = sqrt(r * r - b * b); /* beyond x, the circle is lower than b */
  return sign * (b * x + circle_integral(a, r) - circle_integral(x, r));
}

/* Returns the area of the pixel around (x, y) that is inside the circle. x and y are whole numbers. */
static double pixel_area(double x, double y, double r) {
  x = fabs(x);
  y = fabs(y);
  if (hypot(x + 0.5, y + 0.5) <= r)
    return 1;
  if (hypot(fmax(x - 0.5, 0), fmax(y - 0.5, 0)) >= r)
    return 0;
  double area = corner_area(x + 0.5, y + 0.5, r) - corner_area(x - 0.5, y + 0.5, r) - corner_area(x + 0.5, y - 0.5, r) +
                corner_area(x - 0.5, y - 0.5, r);
  return fmax(area, 0);
}

static gconv_status make_disk(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  double radius = arguments[0].number;
  int32_t side = 2 * (int32_t)ceil(radius - 0.5) + 1;
  gconv_plane plane;
  GCONV_TRY(gconv_plane_begin(self, side, side, &plane));
  for (int32_t r = 0; r < side; r++)
    for (int32_t s = 0; s < side; s++)
      plane.values[(size_t)r * (size_t)side + (size_t)s] =
          pixel_area(gconv_plane_x(&plane, s), gconv_plane_y(&plane, r), radius);
  gconv_plane_normalise(&plane);
  return gconv_plane_finish(&plane, list);
}

const gconv_builtin gconv_builtin_disk = {
    .name = "disk",
    .also = "disc pillbox lens bokeh",
    .help = "lens blur: the mean of a disk, pixels weighted by the area inside (fspecial)",
    .parameters = {{"radius", GCONV_PARAMETER_NUMBER, "5", 0.001, 4095, NULL}},
    .make = make_disk,
};

/* ---- motion: a line of a given length, one pixel wide, drawn soft (fspecial) ---- */

typedef struct line {
  double half, cosine, sine; /* half of (length - 1); cosine and sine of the direction, 0 <= angle < 180 degrees */
} line;

/* Returns how much of pixel (x, y) the line around the origin covers: 1 minus the pixel's distance from the line, but at
 * least 0. */
static double line_weight(const line *l, double x, double y) {
  double across = y * l->cosine - x * l->sine;
  if (hypot(x, y) >= l->half && fabs(across) <= 1) { /* beyond the end of the line: the distance to the end point */
    double along = l->half - fabs((x + across * l->sine) / l->cosine);
    across = hypot(across, along);
  }
  return fmax(1 + DBL_EPSILON - fabs(across), 0);
}

static gconv_status make_motion(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  double length = arguments[0].number, turns = fmod(arguments[1].number, 180);
  double angle = (turns < 0 ? turns + 180 : turns) / 180 * pi;
  line l = {(length - 1) / 2, cos(angle), sin(angle)};
  double direction = l.cosine < 0 ? -1 : 1, slack = length * DBL_EPSILON; /* keeps 0 and 90 degrees one pixel wide */
  int32_t width = (int32_t)fabs(trunc(l.half * l.cosine + direction - slack));
  int32_t height = (int32_t)trunc(l.half * l.sine + 1 - slack);
  gconv_plane plane;
  GCONV_TRY(gconv_plane_begin(self, 2 * height + 1, 2 * width + 1, &plane));
  for (int32_t y = 0; y <= height; y++) /* angles count counterclockwise: up the image */
    for (int32_t x = 0; x <= width; x++) {
      size_t up = direction > 0 ? (size_t)(height - y) : (size_t)(height + y);
      size_t place = up * (size_t)plane.columns + (size_t)(width + x);
      plane.values[place] = plane.values[plane.count - 1 - place] = line_weight(&l, direction * x, y);
    }
  gconv_plane_normalise(&plane);
  return gconv_plane_finish(&plane, list);
}

const gconv_builtin gconv_builtin_motion = {
    .name = "motion",
    .also = "motion_blur",
    .help = "the blur of a move by len pixels, theta degrees counterclockwise (fspecial)",
    .parameters = {{"len", GCONV_PARAMETER_NUMBER, "9", 1, 32767, NULL},
                   {"theta", GCONV_PARAMETER_NUMBER, "0", -360000, 360000, NULL}},
    .make = make_motion,
};

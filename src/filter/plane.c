/* SPDX-License-Identifier: MIT */
/* Planes of float64 for computing built-in filters. */
#include "base/memory.h"
#include "filter/builtin.h"

#include <float.h>
#include <math.h>
#include <string.h>

gconv_status gconv_plane_begin(const gconv_builtin *self, int32_t rows, int32_t columns, gconv_plane *plane) {
  GCONV_TRY(gconv_filter_check_size(self->name, rows, columns));
  size_t count = (size_t)rows * (size_t)columns;
  void *values = NULL;
  GCONV_TRY(gconv_allocate(count * sizeof(double), "a filter", &values));
  memset(values, 0, count * sizeof(double));
  *plane = (gconv_plane){rows, columns, count, values};
  return GCONV_OK;
}

void gconv_plane_drop(gconv_plane *plane) {
  gconv_release(plane->values);
  *plane = (gconv_plane){0};
}

gconv_status gconv_plane_finish(gconv_plane *plane, gconv_filters *list) {
  gconv_filter *filter;
  gconv_status status = gconv_filters_add(list, plane->rows, plane->columns, &filter);
  for (size_t i = 0; status == GCONV_OK && i < plane->count; i++)
    filter->taps[i] = (float)plane->values[i];
  gconv_plane_drop(plane);
  return status;
}

void gconv_plane_normalise(gconv_plane *plane) {
  double sum = 0;
  for (size_t i = 0; i < plane->count; i++)
    sum += plane->values[i];
  for (size_t i = 0; i < plane->count; i++)
    plane->values[i] /= sum;
}

/* Returns the exponent of a Gaussian. It is 0 at the sample nearest to the centre, whose squared distance is `nearest`. */
static double exponent(double nearest, double y, double x, double sigma) {
  return (nearest - x * x - y * y) / (2 * sigma * sigma);
}

void gconv_plane_fill_gaussian(gconv_plane *plane, double down, double across) {
  double least_y = gconv_plane_y(plane, plane->rows / 2), least_x = gconv_plane_x(plane, plane->columns / 2);
  double near_y = least_y * least_y, near_x = least_x * least_x; /* the square of 0, or of 1/2 if a side is even */
  for (size_t i = 0; i < plane->count; i++) {
    double y = gconv_plane_y(plane, (int32_t)(i / (size_t)plane->columns));
    double x = gconv_plane_x(plane, (int32_t)(i % (size_t)plane->columns));
    double value = exp(down == across ? exponent(near_x + near_y, y, x, down)
                                      : exponent(near_y, y, 0, down) + exponent(near_x, 0, x, across));
    plane->values[i] = value < DBL_EPSILON ? 0 : value; /* the peak is 1, even if it is very narrow */
  }
  gconv_plane_normalise(plane);
}

int32_t gconv_side_of_sigma(double sigma) {
  double side = 2 * ceil(3 * sigma) + 1;
  return side < INT32_MAX ? (int32_t)side : INT32_MAX;
}

gconv_status gconv_plane_begin_gaussian(const gconv_builtin *self, const gconv_argument *size, const gconv_argument *sigma,
                                        gconv_plane *plane) {
  bool by_sigma = size->rows == 0 || (sigma->given && !size->given);
  return gconv_plane_begin(self, by_sigma ? gconv_side_of_sigma(sigma->number) : size->rows,
                           by_sigma ? gconv_side_of_sigma(sigma->across) : size->columns, plane);
}

/* SPDX-License-Identifier: MIT */
/* The kinds of features: one row each. All are computed in float32, in an order that does not depend on tiles or threads. */
#include "base/cpu.h"
#include "feature/feature.h"
#include "kernels/feature_math.h"

#include <string.h>

/* ---- Rows of numbers -------------------------------------------------------------------------------------------------- */

GCONV_VECTOR_LOOP(add, (const float *a, const float *b, float *out, int32_t count), (a, b, out, count)) {
  for (int32_t i = 0; i < count; i++)
    out[i] = a[i] + b[i];
}

GCONV_VECTOR_LOOP(raise, (const float *a, float b, float *out, int32_t count), (a, b, out, count)) {
  for (int32_t i = 0; i < count; i++)
    out[i] = a[i] + b;
}

GCONV_VECTOR_LOOP(subtract, (const float *a, const float *b, float *out, int32_t count), (a, b, out, count)) {
  for (int32_t i = 0; i < count; i++)
    out[i] = a[i] - b[i];
}

GCONV_VECTOR_LOOP(multiply, (const float *a, const float *b, float *out, int32_t count), (a, b, out, count)) {
  for (int32_t i = 0; i < count; i++)
    out[i] = a[i] * b[i];
}

GCONV_VECTOR_LOOP(measure, (const float *a, const float *b, float *out, int32_t count), (a, b, out, count)) {
  for (int32_t i = 0; i < count; i++)
    out[i] = gconv_feature_magnitude(a[i], b[i]);
}

/* Computes the eigenvalues of the matrices [a b; b c], the larger one first. */
GCONV_VECTOR_LOOP(split, (const float *a, const float *b, const float *c, float *large, float *small, int32_t count),
                  (a, b, c, large, small, count)) {
  for (int32_t i = 0; i < count; i++)
    gconv_feature_split(a[i], b[i], c[i], &large[i], &small[i]);
}

GCONV_VECTOR_LOOP(sobel, (const float *at, size_t pitch, float *out, int32_t count), (at, pitch, out, count)) {
  for (int32_t i = 0; i < count; i++)
    out[i] = gconv_feature_sobel(at + i, (ptrdiff_t)pitch);
}

GCONV_VECTOR_LOOP(bend, (const float *at, size_t pitch, float *large, float *small, int32_t count),
                  (at, pitch, large, small, count)) {
  for (int32_t i = 0; i < count; i++)
    gconv_feature_bend(at + i, (ptrdiff_t)pitch, &large[i], &small[i]);
}

/* ---- Kinds ------------------------------------------------------------------------------------------------------------ */

/* Row y of a plane, and of output i. */
#define ROW(plane) ((plane) + (ptrdiff_t)y * (ptrdiff_t)work->pitch)
#define OUT(i) (out[i] + (size_t)y * pitch)
#define EACH_ROW for (int32_t y = 0; y < work->rows; y++)

static void make_gaussian(gconv_feature_work *work, const gconv_feature *feature, float *const *out, size_t pitch) {
  EACH_ROW memcpy(OUT(0), ROW(work->planes[GCONV_PLANE_SMOOTH]), (size_t)work->columns * sizeof(float));
}

static void make_intensity(gconv_feature_work *work, const gconv_feature *feature, float *const *out, size_t pitch) {
  EACH_ROW raise(ROW(work->planes[GCONV_PLANE_SMOOTH]), work->origin, OUT(0), work->columns);
}

static void make_log(gconv_feature_work *work, const gconv_feature *feature, float *const *out, size_t pitch) {
  EACH_ROW add(ROW(work->planes[GCONV_PLANE_XX]), ROW(work->planes[GCONV_PLANE_YY]), OUT(0), work->columns);
}

static void make_gradient(gconv_feature_work *work, const gconv_feature *feature, float *const *out, size_t pitch) {
  EACH_ROW measure(ROW(work->planes[GCONV_PLANE_X]), ROW(work->planes[GCONV_PLANE_Y]), OUT(0), work->columns);
}

static void make_dog(gconv_feature_work *work, const gconv_feature *feature, float *const *out, size_t pitch) {
  gconv_feature_smooth(work, &work->list->scales[feature->second], work->source, 0, work->spare[0]);
  EACH_ROW subtract(ROW(work->planes[GCONV_PLANE_SMOOTH]), ROW(work->spare[0]), OUT(0), work->columns);
}

static void make_hessian(gconv_feature_work *work, const gconv_feature *feature, float *const *out, size_t pitch) {
  EACH_ROW split(ROW(work->planes[GCONV_PLANE_XX]), ROW(work->planes[GCONV_PLANE_XY]), ROW(work->planes[GCONV_PLANE_YY]),
                 OUT(0), OUT(1), work->columns);
}

/* Multiplies two planes, and smooths the product. Outside the image, the product is reflected. If it were computed there, x
 * times y would have the wrong sign: a reflection changes the sign of one derivative. */
static void smooth_product(gconv_feature_work *work, const gconv_scale *scale, const float *a, const float *b, float *to) {
  int32_t rim = scale->radius, count = work->columns + 2 * rim;
  for (int32_t y = -rim; y < work->rows + rim; y++)
    multiply(ROW(a) - rim, ROW(b) - rim, ROW(work->spare[0]) - rim, count);
  gconv_feature_fill_border(work, GCONV_BORDER_REFLECT101, rim, work->spare[0]);
  gconv_feature_smooth(work, scale, work->spare[0], 0, to);
}

static void make_structure(gconv_feature_work *work, const gconv_feature *feature, float *const *out, size_t pitch) {
  const gconv_scale *scale = &work->list->scales[feature->second];
  const float *dx = work->planes[GCONV_PLANE_X], *dy = work->planes[GCONV_PLANE_Y];
  smooth_product(work, scale, dx, dx, work->spare[1]);
  smooth_product(work, scale, dx, dy, work->spare[2]);
  smooth_product(work, scale, dy, dy, work->spare[3]);
  EACH_ROW split(ROW(work->spare[1]), ROW(work->spare[2]), ROW(work->spare[3]), OUT(0), OUT(1), work->columns);
}

static void make_edges(gconv_feature_work *work, const gconv_feature *feature, float *const *out, size_t pitch) {
  float *plane = work->planes[GCONV_PLANE_SMOOTH];
  gconv_feature_fill_border(work, GCONV_BORDER_SYMMETRIC, 1, plane);
  EACH_ROW sobel(ROW(plane), work->pitch, OUT(0), work->columns);
}

static void make_texture(gconv_feature_work *work, const gconv_feature *feature, float *const *out, size_t pitch) {
  float *plane = work->planes[GCONV_PLANE_SMOOTH];
  gconv_feature_fill_linear(work, 2, plane);
  EACH_ROW bend(ROW(plane), work->pitch, OUT(0), OUT(1), work->columns);
}

/* ---- The table -------------------------------------------------------------------------------------------------------- */

enum {
  SMOOTH = 1 << GCONV_PLANE_SMOOTH,
  X = 1 << GCONV_PLANE_X,
  XX = 1 << GCONV_PLANE_XX,
  Y = 1 << GCONV_PLANE_Y,
  XY = 1 << GCONV_PLANE_XY,
  YY = 1 << GCONV_PLANE_YY
};

const gconv_feature_kind gconv_feature_kinds[] = {
    {.info = {"gaussian", NULL, "the image, smoothed by a Gaussian", 1},
     .form = GCONV_FEATURE_GAUSSIAN,
     .planes = SMOOTH,
     .make = make_gaussian},
    {.info = {"log", NULL, "Laplacian of Gaussian: the sum of the second derivatives", 1},
     .form = GCONV_FEATURE_LOG,
     .planes = XX | YY,
     .make = make_log},
    {.info = {"gradient", NULL, "magnitude of the derivatives of a Gaussian", 1},
     .form = GCONV_FEATURE_GRADIENT,
     .planes = X | Y,
     .make = make_gradient},
    {.info = {"dog", NULL, "difference of two Gaussians, of sigma and 0.66 sigma", 1},
     .form = GCONV_FEATURE_DOG,
     .planes = SMOOTH,
     .second = 0.66,
     .make = make_dog},
    {.info = {"structure", NULL, "eigenvalues of the structure tensor, smoothed by sigma / 2, the larger one first", 2},
     .form = GCONV_FEATURE_STRUCTURE,
     .planes = X | Y,
     .second = 0.5,
     .of_planes = true,
     .make = make_structure},
    {.info = {"hessian", NULL, "eigenvalues of the matrix of second derivatives, the larger one first", 2},
     .form = GCONV_FEATURE_HESSIAN,
     .planes = XX | XY | YY,
     .make = make_hessian},
    {.info = {"intensity", NULL, "smoothed as by skimage.filters.gaussian()", 1},
     .form = GCONV_FEATURE_INTENSITY,
     .convention = GCONV_SMOOTH_SKIMAGE,
     .planes = SMOOTH,
     .make = make_intensity},
    {.info = {"edges", NULL, "skimage.filters.sobel() of intensity", 1},
     .form = GCONV_FEATURE_EDGES,
     .convention = GCONV_SMOOTH_SKIMAGE,
     .planes = SMOOTH,
     .rim = 1,
     .make = make_edges},
    {.info = {"texture", NULL, "eigenvalues of the second differences of intensity, as scikit-image takes them", 2},
     .form = GCONV_FEATURE_TEXTURE,
     .convention = GCONV_SMOOTH_SKIMAGE,
     .planes = SMOOTH,
     .rim = 2,
     .make = make_texture},
};
const size_t gconv_feature_kind_count = sizeof gconv_feature_kinds / sizeof *gconv_feature_kinds;

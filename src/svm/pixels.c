/* SPDX-License-Identifier: MIT */
#include "svm/pixels.h"
#include "kernels/cpu/svm/pixels.h"

#include <math.h>
#include <stdlib.h>

/* ---- The form ---- */

/* A kernel value in float32 has a random relative error of some 2^-22. So the error of a pair's value is some 2^-22 of the
 * root of the sum of the squares of its coefficients. */
static bool is_fine_enough(const gconv_svm *model) {
  const double error = 0x1p-22, allowed = 1e-3;
  const size_t rows = gconv_svm_coefficient_rows(model), vectors = model->vectors.count;
  for (size_t r = 0; r < rows; r++) {
    double squares = 0;
    for (size_t i = 0; i < vectors; i++)
      squares += model->coefficients[r * vectors + i] * model->coefficients[r * vectors + i];
    if (!(sqrt(squares) * error <= allowed))
      return false;
  }
  return true;
}

bool gconv_svm_lean_fits(const gconv_svm *model) {
  const gconv_svm_info *info = &model->info;
  return info->type == GCONV_SVM_C_SVC && info->kernel == GCONV_SVM_RBF && info->columns <= GCONV_SVM_PIXEL_COLUMNS &&
         info->class_count >= 2 && info->class_count <= GCONV_SVM_PIXEL_WIDE + 1 && info->vector_count < UINT32_MAX &&
         is_fine_enough(model);
}

gconv_status gconv_svm_lean_make(const gconv_svm *model, gconv_svm_lean *form) {
  const gconv_svm_info *info = &model->info;
  const size_t vectors = model->vectors.count, columns = info->columns, wide = gconv_svm_coefficient_rows(model);
  if (!gconv_svm_lean_fits(model))
    return GCONV_OK;
  form->points = calloc(vectors * columns + 1, sizeof *form->points);
  form->coefficients = malloc((vectors * wide + 1) * sizeof *form->coefficients);
  form->begins = calloc(info->class_count + 1, sizeof *form->begins);
  if (!form->points || !form->coefficients || !form->begins) {
    gconv_svm_lean_free(form);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu support vectors", vectors);
  }
  for (size_t i = 0; i < vectors; i++) {
    const gconv_svm_row *row = &model->vectors.rows[i];
    for (size_t k = 0; k < row->count; k++)
      form->points[i * columns + row->columns[k]] = row->values[k];
    for (size_t w = 0; w < wide; w++)
      form->coefficients[i * wide + w] = (float)model->coefficients[w * vectors + i];
  }
  for (size_t k = 0; k < info->class_count; k++)
    form->begins[k + 1] = form->begins[k] + (uint32_t)model->class_vectors[k];
  form->machine = (gconv_svm_pixels){.columns = columns,
                                     .classes = info->class_count,
                                     .wide = wide,
                                     .gamma = (float)info->gamma,
                                     .points = form->points,
                                     .coefficients = form->coefficients,
                                     .begins = form->begins};
  return GCONV_OK;
}

void gconv_svm_lean_free(gconv_svm_lean *form) {
  free(form->points);
  free(form->coefficients);
  free(form->begins);
  *form = (gconv_svm_lean){0};
}

/* ---- Classes and probabilities ---- */

gconv_status gconv_svm_lean_decide(const gconv_svm *model, const double *sums, size_t pitch, size_t count, double *values,
                                   int32_t *classes, double *probabilities) {
  const size_t k = model->info.class_count, pairs = model->info.pair_count;
  for (size_t i = 0, pair = 0; i < k; i++)
    for (size_t j = i + 1; j < k; j++, pair++) {
      const double *first = sums + (i * (k - 1) + j - 1) * pitch, *second = sums + (j * (k - 1) + i) * pitch;
      for (size_t at = 0; at < count; at++)
        values[at * pairs + pair] = -model->rho[pair] + first[at] + second[at];
    }
  return gconv_svm_decide(model, values, count, classes, probabilities);
}

void gconv_svm_put_planes(const gconv_svm *model, const int32_t *classes, const double *probabilities, size_t count,
                          float *to, size_t plane) {
  const size_t k = model->info.class_count;
  for (size_t c = 0; c < k; c++)
    for (size_t i = 0; i < count; i++)
      to[c * plane + i] = probabilities ? (float)probabilities[i * k + c] : (float)((size_t)classes[i] == c);
}

/* ---- Prediction of planes, by one thread ---- */

/* The parts of a thread's workspace, in the order of the fields. */
typedef struct parts {
  double *sums, *values, *probabilities;
  float *columns;
  int32_t *classes;
  size_t pitch;
} parts;

/* Sets *p to the parts of `memory`, which may be NULL, and returns the bytes that they need. */
static size_t cut(const gconv_svm *model, size_t count, void *memory, parts *p) {
  const gconv_svm_info *info = &model->info;
  const size_t step = GCONV_SVM_PIXELS_AT_ONCE, pitch = (count + step - 1) / step * step;
  const size_t sums = info->class_count * (info->class_count - 1) * pitch;
  double *next = memory;
  *p = (parts){.sums = next, .pitch = pitch};
  p->values = memory ? next + sums : NULL;
  p->probabilities = memory ? p->values + info->pair_count * pitch : NULL;
  void *columns = memory ? p->probabilities + info->class_count * pitch : NULL;
  p->columns = columns;
  void *classes = memory ? p->columns + info->columns * pitch : NULL;
  p->classes = classes;
  return (sums + (info->pair_count + info->class_count) * pitch) * sizeof(double) +
         (info->columns + 1) * pitch * sizeof(float);
}

size_t gconv_svm_lean_bytes(const gconv_svm *model, size_t count) {
  parts p;
  return (cut(model, count, NULL, &p) + 63) / 64 * 64;
}

void gconv_svm_clear_planes(const gconv_svm *model, const float *from, size_t from_plane, size_t count, float *to,
                            size_t plane) {
  for (size_t i = 0; i < count; i++) {
    float lost = 0; /* becomes NaN if a column is NaN or infinite */
    for (size_t c = 0; c < model->info.columns; c++)
      lost += from[c * from_plane + i] * 0.0f;
    for (size_t k = 0; k < model->info.class_count && isnan(lost); k++)
      to[k * plane + i] = lost;
  }
}

gconv_status gconv_svm_lean_make_planes(const gconv_svm *model, const gconv_svm_lean *form, const float *from,
                                        size_t from_plane, size_t count, void *memory, float *to, size_t plane) {
  const bool probable = model->info.probabilities;
  parts p;
  cut(model, count, memory, &p);
  for (size_t c = 0; c < model->info.columns; c++) {
    float *column = p.columns + c * p.pitch;
    gconv_svm_range_column(&model->range, c, from + c * from_plane, count, column);
    for (size_t i = count; i < p.pitch; i++)
      column[i] = 0;
  }
  gconv_svm_pixel_sums(&form->machine, p.columns, p.pitch, p.pitch, p.sums);
  GCONV_TRY(gconv_svm_lean_decide(model, p.sums, p.pitch, count, p.values, probable ? NULL : p.classes,
                                  probable ? p.probabilities : NULL));
  gconv_svm_put_planes(model, p.classes, probable ? p.probabilities : NULL, count, to, plane);
  gconv_svm_clear_planes(model, from, from_plane, count, to, plane);
  return GCONV_OK;
}

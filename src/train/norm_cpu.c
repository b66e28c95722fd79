/* SPDX-License-Identifier: MIT */
/*
 * Batch normalisation on the CPU (Ioffe and Szegedy 2015). Sums over the samples of a channel are float64: of a case row by
 * row, then of the cases by a tree. With N samples in all:
 *
 *   mean = sum x / N;  variance = sum x^2 / N - mean^2;  x^ = (x - mean) * inverse, inverse = 1 / sqrt(variance + epsilon)
 *   y = activation(x^ * scale + bias)
 *   dx = scale * inverse * ((dz - sum dz / N) - x^ * (sum dz x^ / N))
 *
 * The parameters are scale, mean and variance of each channel, then the biases of all channels. Mean and variance have no
 * gradient: each step moves them by a tenth towards those of its cases, whose variance has N - 1 as divisor here. With N =
 * 1, as in a last batch of one case, they stay as they are.
 */
#include "bank/kind.h"
#include "base/memory.h"
#include "kernels/cpu/train/elements.h"
#include "train/engine_cpu.h"

#include <math.h>
#include <string.h>

static const double MOMENTUM = 0.1; /* as PyTorch's default */

/* Lists with a number for each channel. VARIANCE: of the step, for gconv_norm_keep(). */
enum { MEAN, INVERSE, VARIANCE, OF_DZ, OF_PRODUCT, LISTS };

static float *list_of(const gconv_cpu_layer *own, int list) {
  return own->norms + (size_t)list * (size_t)own->layer->problem.channels;
}

static gconv_status prepare(gconv_cpu_engine *e, size_t i) {
  gconv_cpu_layer *own = &e->layers[i];
  const size_t channels = (size_t)own->layer->problem.channels;
  e->values += padded(gconv_learn_in_floats(own->layer));
  own->parameters = own->layer->parameters;
  e->norms++;
  e->norm_width = larger(e->norm_width, 2 * channels);
  GCONV_ALLOCATE(own->norms, LISTS * channels * sizeof *own->norms, "training");
  memset(own->norms, 0, LISTS * channels * sizeof *own->norms);
  return GCONV_OK;
}

static const float *parameters_of(const gconv_cpu_engine *e, size_t i) {
  return e->arrays[GCONV_LEARN_PARAMETERS] + e->layers[i].at;
}

static float inverse_of(double variance) {
  return (float)(1 / sqrt(variance + (double)GCONV_LAYER_EPSILON));
}

/* ---- Statistics of the channels ---- */

void gconv_norm_of_running(gconv_cpu_engine *e, size_t i) {
  const gconv_cpu_layer *own = &e->layers[i];
  const float *parameters = parameters_of(e, i);
  for (int32_t c = 0; c < own->layer->problem.channels; c++) {
    list_of(own, MEAN)[c] = parameters[3 * c + 1];
    list_of(own, INVERSE)[c] = inverse_of((double)parameters[3 * c + 2]);
  }
}

void gconv_norm_sum(const gconv_cpu_engine *e, size_t i, const float *x, double *sums) {
  const gconv_layer_problem *l = &e->layers[i].layer->problem;
  const int64_t plane = gconv_layer_plane(l);
  for (int64_t c = 0; c < l->channels; c++) {
    double sum = 0, squares = 0;
    for (int64_t j = c * plane; j < (c + 1) * plane; j++) {
      sum += (double)x[j];
      squares += (double)x[j] * (double)x[j];
    }
    sums[2 * c] = sum;
    sums[2 * c + 1] = squares;
  }
}

/* Adds the sums of all cases to those of the first. */
static const double *add_cases(gconv_cpu_engine *e, size_t cases) {
  for (size_t step = 1; step < cases; step *= 2)
    for (size_t n = 0; n + step < cases; n += 2 * step)
      for (size_t j = 0; j < e->norm_width; j++)
        e->norm_sums[n * e->norm_width + j] += e->norm_sums[(n + step) * e->norm_width + j];
  return e->norm_sums;
}

void gconv_norm_of_step(gconv_cpu_engine *e, size_t i, size_t cases) {
  const gconv_cpu_layer *own = &e->layers[i];
  const double *sums = add_cases(e, cases), samples = (double)cases * (double)gconv_layer_plane(&own->layer->problem);
  for (int32_t c = 0; c < own->layer->problem.channels; c++) {
    const double mean = sums[2 * c] / samples, variance = fmax(sums[2 * c + 1] / samples - mean * mean, 0);
    list_of(own, MEAN)[c] = (float)mean;
    list_of(own, INVERSE)[c] = inverse_of(variance);
    list_of(own, VARIANCE)[c] = (float)variance;
  }
}

void gconv_norm_of_gradients(gconv_cpu_engine *e, size_t i, size_t cases) {
  const gconv_cpu_layer *own = &e->layers[i];
  const double *sums = add_cases(e, cases), samples = (double)cases * (double)gconv_layer_plane(&own->layer->problem);
  for (int32_t c = 0; c < own->layer->problem.channels; c++) {
    list_of(own, OF_DZ)[c] = (float)(sums[2 * c] / samples);
    list_of(own, OF_PRODUCT)[c] = (float)(sums[2 * c + 1] / samples);
  }
}

void gconv_norm_keep(gconv_cpu_engine *e, size_t cases) {
  for (size_t i = 0; i < e->tail; i++) {
    const gconv_cpu_layer *own = &e->layers[i];
    float *parameters = e->arrays[GCONV_LEARN_PARAMETERS] + own->at;
    const double samples = (double)cases * (double)gconv_layer_plane(&own->layer->problem);
    if (!is_norm(e, i) || samples < 2)
      continue;
    const double unbiased = samples / (samples - 1);
    for (int32_t c = 0; c < own->layer->problem.channels; c++) {
      float *mean = &parameters[3 * c + 1], *variance = &parameters[3 * c + 2];
      *mean = (float)((1 - MOMENTUM) * (double)*mean + MOMENTUM * (double)list_of(own, MEAN)[c]);
      *variance = (float)((1 - MOMENTUM) * (double)*variance + MOMENTUM * (double)list_of(own, VARIANCE)[c] * unbiased);
    }
  }
}

/* ---- A case ---- */

static void forward(const gconv_cpu_case *at, float *y, const gconv_learn_layout *output) {
  const gconv_cpu_layer *own = &at->e->layers[at->layer];
  const gconv_layer_problem *l = &own->layer->problem;
  const int64_t plane = gconv_layer_plane(l);
  const gconv_learn_rows rows = {1, plane, plane, plane, plane};
  const float *parameters = parameters_of(at->e, at->layer);
  for (int64_t c = 0; c < l->channels; c++) {
    const float mean = list_of(own, MEAN)[c], inverse = list_of(own, INVERSE)[c];
    for (int64_t j = c * plane; j < (c + 1) * plane; j++)
      y[j] = (at->x[j] - mean) * inverse * parameters[3 * c];
    gconv_learn_activate_rows(l, &rows, y + c * plane, parameters[3 * l->channels + c], y + c * plane);
  }
}

static void weights(const gconv_cpu_case *at, const float *dz, float *leaf) {
  const gconv_cpu_layer *own = &at->e->layers[at->layer];
  const gconv_layer_problem *l = &own->layer->problem;
  const int64_t plane = gconv_layer_plane(l);
  for (int64_t c = 0; c < l->channels; c++) {
    const float mean = list_of(own, MEAN)[c], inverse = list_of(own, INVERSE)[c];
    double sum = 0, products = 0;
    for (int64_t j = c * plane; j < (c + 1) * plane; j++) {
      const float x = (at->x[j] - mean) * inverse;
      sum += (double)dz[j];
      products += (double)dz[j] * (double)x;
    }
    at->sums[2 * c] = sum;
    at->sums[2 * c + 1] = products;
    leaf[3 * c] = (float)products;
    leaf[3 * c + 1] = leaf[3 * c + 2] = 0;
    leaf[3 * l->channels + c] = (float)sum;
  }
}

static void inputs(const gconv_cpu_case *at, const float *dz, bool sums, float *dx, float *dother, float *leaf) {
  const gconv_cpu_layer *own = &at->e->layers[at->layer];
  const gconv_layer_problem *l = &own->layer->problem;
  const int64_t plane = gconv_layer_plane(l);
  for (int64_t c = 0; c < l->channels; c++) {
    const float mean = list_of(own, MEAN)[c], inverse = list_of(own, INVERSE)[c], of_dz = list_of(own, OF_DZ)[c];
    const float of_product = list_of(own, OF_PRODUCT)[c], factor = parameters_of(at->e, at->layer)[3 * c] * inverse;
    for (int64_t j = c * plane; j < (c + 1) * plane; j++)
      dx[j] = factor * ((dz[j] - of_dz) - (at->x[j] - mean) * inverse * of_product);
  }
}

const gconv_cpu_type gconv_cpu_batchnorm = {
    prepare, gconv_cpu_copy_parameters, gconv_cpu_copy_parameters, NULL, forward, weights, inputs};

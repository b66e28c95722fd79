/* SPDX-License-Identifier: MIT */
/* Backpropagation for numbers of type REAL, in the order of kernels/learn_problem.h. The file that includes this defines
 * REAL, MULTIPLY_ADD(a, b, c), ENTRY, the name of the function, and activate(), derivative(), exponential() and
 * cross_entropy(). */
#include "base/memory.h"
#include "kernels/activation.h"

#include <stdlib.h>
#include <string.h>

static REAL sum_tree(REAL *sums, size_t count) {
  for (; count > 1; count = (count + 1) / 2)
    for (size_t i = 0; i < count; i += 2)
      sums[i / 2] = i + 1 < count ? sums[i] + sums[i + 1] : sums[i];
  return sums[0];
}

/* ---- Forward, of one case ---- */

/* The input under tap (r, s) of the output at (p, q), or 0 outside the image. */
static REAL input_at(const gconv_layer_problem *l, const REAL *x, int64_t c, int64_t p, int64_t q, int64_t r, int64_t s) {
  int64_t row = p * l->stride_y - l->pad_top + r * l->dilation_y, column = q * l->stride_x - l->pad_left + s * l->dilation_x;
  bool inside = row >= 0 && row < l->height && column >= 0 && column < l->width;
  return inside ? x[(c * l->height + row) * l->width + column] : 0;
}

static void forward_conv(const gconv_layer_problem *l, const REAL *weights, const REAL *x, REAL *y) {
  int64_t channels = l->channels / l->groups, taps = gconv_layer_taps(l);
  const REAL *biases = weights + l->filters * taps;
  for (int64_t k = 0; k < l->filters; k++, weights += taps)
    for (int64_t p = 0; p < l->out_height; p++)
      for (int64_t q = 0; q < l->out_width; q++) {
        int64_t first = k / (l->filters / l->groups) * channels, tap = 0;
        REAL sum = 0;
        for (int64_t c = first; c < first + channels; c++)
          for (int64_t r = 0; r < l->rows; r++)
            for (int64_t s = 0; s < l->columns; s++)
              sum = MULTIPLY_ADD(weights[tap++], input_at(l, x, c, p, q, r, s), sum);
        *y++ = activate(l, sum + biases[k]);
      }
}

/* Returns 0 where a part of softmax's sum begins, having added the last part to *parts; else returns the part. */
static REAL begin_part(int64_t k, REAL part, double *parts) {
  if (k % GCONV_SOFTMAX_PART > 0)
    return part;
  *parts += (double)part;
  return 0;
}

static void forward_softmax(const gconv_layer_problem *l, REAL *y) {
  int64_t places = (int64_t)l->out_height * l->out_width;
  for (int64_t i = 0; i < places; i++, y++) {
    REAL largest = y[0], part = 0;
    double parts = 0;
    for (int64_t k = 1; k < l->filters; k++)
      largest = y[k * places] > largest ? y[k * places] : largest;
    for (int64_t k = 0; k < l->filters; k++) {
      part = begin_part(k, part, &parts);
      part += y[k * places] = exponential(y[k * places] - largest);
    }
    REAL sum = (REAL)(parts + (double)part);
    for (int64_t k = 0; k < l->filters; k++)
      y[k * places] /= sum;
  }
}

static void forward_mean(const gconv_layer_problem *l, const REAL *x, REAL *y) {
  int64_t places = (int64_t)l->height * l->width;
  for (int64_t c = 0; c < l->channels; c++, x += places)
    y[c] = mean(x, places);
}

/* Samples of a window, row by row. */
static REAL window_at(const gconv_layer_problem *l, const REAL *x, int64_t c, int64_t p, int64_t q, int64_t r, int64_t s) {
  return x[(c * l->height + p * l->stride_y + r) * l->width + q * l->stride_x + s];
}

static void forward_maxpool(const gconv_layer_problem *l, const REAL *x, REAL *y) {
  for (int64_t c = 0; c < l->channels; c++)
    for (int64_t p = 0; p < l->out_height; p++)
      for (int64_t q = 0; q < l->out_width; q++, y++) {
        *y = window_at(l, x, c, p, q, 0, 0);
        for (int64_t i = 0; i < l->rows * l->columns; i++) {
          REAL v = window_at(l, x, c, p, q, i / l->columns, i % l->columns);
          *y = v > *y ? v : *y;
        }
      }
}

static void forward_avgpool(const gconv_layer_problem *l, const REAL *x, REAL *y) {
  for (int64_t c = 0; c < l->channels; c++)
    for (int64_t p = 0; p < l->out_height; p++)
      for (int64_t q = 0; q < l->out_width; q++) {
        REAL sum = 0;
        for (int64_t i = 0; i < l->rows * l->columns; i++)
          sum += window_at(l, x, c, p, q, i / l->columns, i % l->columns);
        *y++ = sum / (REAL)(l->rows * l->columns);
      }
}

/* Sample (k, p, q) of a shuffled output is which sample of the input. */
static int64_t shuffled(const gconv_layer_problem *l, int64_t k, int64_t p, int64_t q) {
  int64_t n = l->rows, c = (k * n + p % n) * n + q % n;
  return (c * l->height + p / n) * l->width + q / n;
}

/* Weight (k, c, r, s) of an upconv is (c, k, r, s) of the convolution that it is transposed of. For free(). */
static REAL *turn_weights(const gconv_layer_problem *l, const REAL *weights) {
  int64_t plane = (int64_t)l->rows * l->columns;
  REAL *turned = calloc((size_t)(l->filters * l->channels * plane + l->channels), sizeof *turned); /* with biases of 0 */
  for (int64_t i = 0; turned && i < l->filters * l->channels * plane; i++)
    turned[(i / plane % l->channels * l->filters + i / plane / l->channels) * plane + i % plane] = weights[i];
  return turned;
}

static REAL gradient_at(const gconv_layer_problem *l, const REAL *weights, const REAL *dz, int64_t c, int64_t y, int64_t x);

static void forward_upconv(const gconv_layer_problem *l, const REAL *weights, const REAL *x, REAL *y) {
  const gconv_layer_problem turned = gconv_learn_turned(l);
  const REAL *biases = weights + l->filters * l->channels * l->rows * l->columns;
  REAL *w = turn_weights(l, weights);
  for (int64_t k = 0; w && k < l->filters; k++)
    for (int64_t p = 0; p < l->out_height; p++)
      for (int64_t q = 0; q < l->out_width; q++)
        *y++ = activate(l, gradient_at(&turned, w, x, k, p, q) + biases[k]);
  free(w);
}

/* ---- Backward, of one case. dy is replaced by dz, the gradient of the sums ---- */

/* dy = d loss / d outputs; for cross-entropy, d loss / d sums of the last layer. */
static void differentiate_loss(const gconv_learn_net *net, const REAL *y, const REAL *targets, REAL factor, REAL *dy) {
  size_t outputs = gconv_learn_outputs(net);
  for (size_t i = 0; i < outputs; i++) {
    REAL d = y[i] - (net->classes ? (REAL)((size_t)targets[0] == i) : targets[i]);
    switch (net->loss) {
    case GCONV_LOSS_SSE:
      dy[i] = d;
      break;
    case GCONV_LOSS_MAE:
      dy[i] = d > 0 ? factor : d < 0 ? -factor : 0;
      break;
    case GCONV_LOSS_MSE:
    case GCONV_LOSS_CROSS_ENTROPY:
    case GCONV_LOSS_DEFAULT:
      dy[i] = d * factor;
      break;
    }
  }
}

static double loss_of_case(const gconv_learn_net *net, const REAL *y, const REAL *targets) {
  double sum = 0;
  if (net->loss == GCONV_LOSS_CROSS_ENTROPY)
    return cross_entropy(y[(size_t)targets[0]]);
  for (size_t i = 0; i < gconv_learn_outputs(net); i++) {
    double d = (double)y[i] - (net->classes ? (double)((size_t)targets[0] == i) : (double)targets[i]);
    sum += net->loss == GCONV_LOSS_MAE ? fabs(d) : d * d;
  }
  return sum;
}

static void backward_softmax(const gconv_layer_problem *l, const REAL *y, REAL *dy) {
  int64_t places = (int64_t)l->out_height * l->out_width;
  for (int64_t i = 0; i < places; i++, y++, dy++) {
    REAL part = 0;
    double parts = 0;
    for (int64_t k = 0; k < l->filters; k++)
      part = MULTIPLY_ADD(dy[k * places], y[k * places], begin_part(k, part, &parts));
    REAL sum = (REAL)(parts + (double)part);
    for (int64_t k = 0; k < l->filters; k++)
      dy[k * places] = y[k * places] * (dy[k * places] - sum);
  }
}

static void backward_activation(const gconv_layer_problem *l, const REAL *y, REAL *dy) {
  int64_t count = (int64_t)l->filters * l->out_height * l->out_width;
  if (l->activation == GCONV_ACTIVATION_SOFTMAX)
    backward_softmax(l, y, dy);
  else
    for (int64_t i = 0; i < count; i++)
      dy[i] = derivative(l, y[i], dy[i]);
}

/* Returns whether input row y contributes to an output row through this tap; if so, *p is that row. The same for columns. */
static bool find_output(int64_t y, int64_t pad, int64_t tap, int64_t stride, int64_t outputs, int64_t *p) {
  int64_t at = y + pad - tap;
  *p = at / stride;
  return at >= 0 && at % stride == 0 && *p < outputs;
}

static REAL gradient_at(const gconv_layer_problem *l, const REAL *weights, const REAL *dz, int64_t c, int64_t y, int64_t x) {
  int64_t channels = l->channels / l->groups, filters = l->filters / l->groups, first = c / channels * filters, p, q;
  REAL sum = 0;
  for (int64_t k = first; k < first + filters; k++)
    for (int64_t r = l->rows - 1; r >= 0; r--)
      for (int64_t s = l->columns - 1; s >= 0; s--)
        if (find_output(y, l->pad_top, r * l->dilation_y, l->stride_y, l->out_height, &p) &&
            find_output(x, l->pad_left, s * l->dilation_x, l->stride_x, l->out_width, &q))
          sum = MULTIPLY_ADD(weights[((k * channels + c % channels) * l->rows + r) * l->columns + s],
                             dz[(k * l->out_height + p) * l->out_width + q], sum);
  return sum + (REAL)0;
}

/* Adds the gradients of outputs to those inputs that they are made of: of pools and shuffle. */
static void scatter(const gconv_learn_layer *layer, const REAL *x, const REAL *y, const REAL *dz, REAL *dx) {
  const gconv_layer_problem *l = &layer->problem;
  const bool max = layer->kind == GCONV_LAYER_MAXPOOL, shuffles = layer->kind == GCONV_LAYER_SHUFFLE;
  if (!max && !shuffles && layer->kind != GCONV_LAYER_AVGPOOL)
    return;
  for (int64_t k = 0; k < l->filters; k++)
    for (int64_t p = 0; p < l->out_height; p++)
      for (int64_t q = 0; q < l->out_width; q++, y++, dz++)
        for (int64_t i = 0; i < (shuffles ? 1 : l->rows * l->columns); i++) {
          int64_t row = p * l->stride_y + i / l->columns, column = q * l->stride_x + i % l->columns;
          int64_t at = shuffles ? shuffled(l, k, p, q) : (k * l->height + row) * l->width + column;
          if (max && x[at] != *y)
            continue;
          dx[at] += shuffles || max ? *dz : *dz / (REAL)(l->rows * l->columns);
          if (max)
            break; /* the first of equal ones */
        }
}

static void backward_inputs(const gconv_learn_layer *layer, const REAL *weights, const REAL *x, const REAL *y,
                            const REAL *dz, REAL *dx) {
  const gconv_layer_problem *l = &layer->problem;
  size_t count = gconv_learn_in_floats(layer);
  int64_t places = (int64_t)l->height * l->width;
  if (layer->kind == GCONV_LAYER_UPCONV) {
    const gconv_layer_problem turned = gconv_learn_turned(l);
    REAL *w = turn_weights(l, weights);
    if (w)
      forward_conv(&turned, w, dz, dx);
    free(w);
    return;
  }
  for (size_t i = 0; i < count; i++) {
    int64_t at = (int64_t)i;
    switch (layer->kind) {
    case GCONV_LAYER_CONV:
      dx[i] = gradient_at(l, weights, dz, at / places, at % places / l->width, at % l->width);
      break;
    case GCONV_LAYER_MEAN:
      dx[i] = dz[at / places] / (REAL)places;
      break;
    case GCONV_LAYER_RESIDUAL:
    case GCONV_LAYER_CONCAT:
    case GCONV_LAYER_ADD:
      dx[i] = dz[i];
      break;
    case GCONV_LAYER_PRELU:
      dx[i] = x[i] < 0 ? dz[i] * weights[at / places] : dz[i];
      break;
    case GCONV_LAYER_SHUFFLE:
    case GCONV_LAYER_MAXPOOL:
    case GCONV_LAYER_AVGPOOL:
      dx[i] = 0;
      break;
    case GCONV_LAYER_UPCONV:
    case GCONV_LAYER_BATCHNORM:
      break;
    }
  }
  scatter(layer, x, y, dz, dx);
}

/* ---- The gradient of a weight, of all cases ---- */

/* Weight (k, c, r, s), where c counts from the first channel of the group. c = -1: the bias of k. */
typedef struct place_of_weight {
  int64_t k, c, r, s;
} place_of_weight;

/* Adds the products of output rows begin .. end - 1 of a case to a chain. */
static REAL chain(const gconv_layer_problem *l, place_of_weight w, const REAL *x, const REAL *dz, int64_t begin, int64_t end,
                  REAL sum) {
  int64_t first = w.k / (l->filters / l->groups) * (l->channels / l->groups);
  for (int64_t p = begin; p < end; p++)
    for (int64_t q = 0; q < l->out_width; q++)
      sum = MULTIPLY_ADD(w.c < 0 ? (REAL)1 : input_at(l, x, first + w.c, p, q, w.r, w.s),
                         dz[(w.k * l->out_height + p) * l->out_width + q], sum);
  return sum;
}

static REAL sum_dense(const gconv_learn_layer *layer, place_of_weight w, const REAL *x, const REAL *dz, size_t cases,
                      REAL *sums) {
  size_t slices = (cases + GCONV_LEARN_SLICE - 1) / GCONV_LEARN_SLICE;
  for (size_t i = 0; i < slices; i++) {
    sums[i] = 0;
    for (size_t n = i * GCONV_LEARN_SLICE; n < cases && n < (i + 1) * GCONV_LEARN_SLICE; n++)
      sums[i] = chain(&layer->problem, w, x + n * gconv_learn_in_floats(layer), dz + n * gconv_learn_out_floats(layer), 0, 1,
                      sums[i]);
  }
  return sum_tree(sums, slices);
}

static REAL sum_spatial(const gconv_learn_layer *layer, place_of_weight w, const REAL *x, const REAL *dz, size_t cases,
                        REAL *sums) {
  const gconv_layer_problem *l = &layer->problem;
  int64_t bands = gconv_learn_bands(l), rows = gconv_learn_band_rows(l);
  for (size_t n = 0; n < cases; n++, x += gconv_learn_in_floats(layer), dz += gconv_learn_out_floats(layer)) {
    REAL *of_bands = sums + cases;
    for (int64_t b = 0; b < bands; b++) {
      int64_t end = (b + 1) * rows;
      of_bands[b] = chain(l, w, x, dz, b * rows, end < l->out_height ? end : l->out_height, 0);
    }
    sums[n] = sum_tree(of_bands, (size_t)bands);
  }
  return sum_tree(sums, cases);
}

static void backward_weights(const gconv_learn_layer *layer, bool dense, const REAL *x, const REAL *dz, size_t cases,
                             REAL *sums, REAL *gradient) {
  const gconv_layer_problem *l = &layer->problem;
  REAL(*sum)
  (const gconv_learn_layer *, place_of_weight, const REAL *, const REAL *, size_t, REAL *) = dense ? sum_dense : sum_spatial;
  place_of_weight w;
  for (w.k = 0; w.k < l->filters; w.k++)
    for (w.c = 0; w.c < l->channels / l->groups; w.c++)
      for (w.r = 0; w.r < l->rows; w.r++)
        for (w.s = 0; w.s < l->columns; w.s++)
          *gradient++ = sum(layer, w, x, dz, cases, sums);
  for (w = (place_of_weight){.c = -1}; w.k < l->filters; w.k++)
    *gradient++ = sum(layer, w, x, dz, cases, sums);
}

/* Gradients that are sums over places in float64, then over cases by a tree: of the slopes of prelu, and the biases of
 * upconv. */
static void sum_places(const gconv_learn_layer *layer, const REAL *x, const REAL *dz, size_t cases, REAL *sums,
                       REAL *gradient) {
  const int64_t places = (int64_t)gconv_learn_out_places(layer), filters = layer->problem.filters;
  for (int64_t k = 0; k < filters; k++) {
    for (size_t n = 0; n < cases; n++) {
      double sum = 0;
      for (int64_t i = ((int64_t)n * filters + k) * places, end = i + places; i < end; i++)
        sum += layer->kind == GCONV_LAYER_UPCONV ? (double)dz[i] : x[i] < 0 ? (double)x[i] * (double)dz[i] : 0;
      sums[n] = (REAL)sum;
    }
    gradient[k] = sum_tree(sums, cases);
  }
}

static void backward_upconv(const gconv_learn_layer *layer, const REAL *x, const REAL *dz, size_t cases, REAL *sums,
                            REAL *gradient) {
  const gconv_layer_problem *l = &layer->problem;
  const gconv_learn_layer turned = {.kind = GCONV_LAYER_CONV, .problem = gconv_learn_turned(l)};
  for (int64_t k = 0; k < l->filters; k++)
    for (int64_t c = 0; c < l->channels; c++)
      for (int64_t r = 0; r < l->rows; r++)
        for (int64_t s = 0; s < l->columns; s++)
          *gradient++ = sum_spatial(&turned, (place_of_weight){c, k, r, s}, dz, x, cases, sums);
  sum_places(layer, x, dz, cases, sums, gradient);
}

/* ---- Batch normalisation, of all cases ---- */

/* A channel of all cases: REAL as engines round, sums in float64. */
typedef struct norm {
  REAL mean, inverse, of_dz, of_product;
} norm;

/* *sum and *other become the sums of two numbers of each sample of channel c: x and x^2 or, if dz is not NULL, dz and dz x^.
 * Those of the cases go to of_cases[]. */
static void sum_channel(const gconv_learn_layer *layer, int64_t c, size_t cases, const REAL *x, const REAL *dz,
                        const norm *n, double *of_cases, double *sum, double *other) {
  const int64_t plane = (int64_t)gconv_learn_out_places(layer), channels = layer->problem.channels;
  for (size_t i = 0; i < cases; i++) {
    of_cases[i] = of_cases[cases + i] = 0;
    for (int64_t j = ((int64_t)i * channels + c) * plane, end = j + plane; j < end; j++) {
      const REAL normal = (x[j] - n->mean) * n->inverse;
      of_cases[i] += dz ? (double)dz[j] : (double)x[j];
      of_cases[cases + i] += dz ? (double)dz[j] * (double)normal : (double)x[j] * (double)x[j];
    }
  }
  for (int part = 0; part < 2; part++) {
    double *at = of_cases + (size_t)part * cases;
    for (size_t step = 1; step < cases; step *= 2)
      for (size_t i = 0; i + step < cases; i += 2 * step)
        at[i] += at[i + step];
  }
  *sum = of_cases[0];
  *other = of_cases[cases];
}

static norm find_norm(const gconv_learn_layer *layer, int64_t c, size_t cases, const REAL *x, double *of_cases) {
  const double samples = (double)cases * (double)gconv_learn_out_places(layer);
  norm n = {0, 0, 0, 0};
  double sum, squares;
  sum_channel(layer, c, cases, x, NULL, &n, of_cases, &sum, &squares);
  const double mean = sum / samples, variance = fmax(squares / samples - mean * mean, 0);
  n.mean = (REAL)mean;
  n.inverse = (REAL)(1 / sqrt(variance + (double)1e-5F));
  return n;
}

static void forward_norm(const gconv_learn_layer *layer, const REAL *weights, size_t cases, const REAL *x, REAL *y,
                         double *of_cases) {
  const gconv_layer_problem *l = &layer->problem;
  const int64_t plane = (int64_t)gconv_learn_out_places(layer);
  for (int64_t c = 0; c < l->channels; c++) {
    const norm n = find_norm(layer, c, cases, x, of_cases);
    for (size_t i = 0; i < cases; i++)
      for (int64_t j = ((int64_t)i * l->channels + c) * plane, end = j + plane; j < end; j++)
        y[j] = activate(l, (x[j] - n.mean) * n.inverse * weights[3 * c] + weights[3 * l->channels + c]);
  }
}

static void backward_norm(const gconv_learn_layer *layer, const REAL *weights, size_t cases, const REAL *x, const REAL *dz,
                          REAL *dx, double *of_cases, REAL *sums, REAL *gradient) {
  const gconv_layer_problem *l = &layer->problem;
  const int64_t plane = (int64_t)gconv_learn_out_places(layer);
  const double samples = (double)cases * (double)plane;
  for (int64_t c = 0; c < l->channels; c++) {
    norm n = find_norm(layer, c, cases, x, of_cases);
    double sum, products;
    for (size_t i = 0; i < cases; i++) { /* the gradients of cases are REAL, and added by a tree */
      const int64_t floats = l->channels * plane;
      sum_channel(layer, c, 1, x + (int64_t)i * floats, dz + (int64_t)i * floats, &n, of_cases, &sum, &products);
      sums[i] = (REAL)products;
      sums[cases + i] = (REAL)sum;
    }
    gradient[3 * c] = sum_tree(sums, cases);
    gradient[3 * c + 1] = gradient[3 * c + 2] = 0;
    gradient[3 * l->channels + c] = sum_tree(sums + cases, cases);
    sum_channel(layer, c, cases, x, dz, &n, of_cases, &sum, &products);
    n.of_dz = (REAL)(sum / samples);
    n.of_product = (REAL)(products / samples);
    for (size_t i = 0; i < cases; i++)
      for (int64_t j = ((int64_t)i * l->channels + c) * plane, end = j + plane; j < end; j++)
        dx[j] = weights[3 * c] * n.inverse * ((dz[j] - n.of_dz) - (x[j] - n.mean) * n.inverse * n.of_product);
  }
}

/* ---- All layers ---- */

/* values[i]: the inputs of layer i, of all cases; values[count]: the outputs. Layers use the two arrays of gradients
 * alternately. */
typedef struct pass {
  const gconv_learn_net *net;
  const REAL *parameters, *targets;
  size_t cases;
  REAL **values, *gradients[2], *sums;
  REAL **skips;     /* skips[i]: the gradient that layers add to values[i]; NULL: none does */
  double *losses;   /* of the cases */
  double *of_cases; /* room for two numbers of each case */
} pass;

static void forward_layer(const pass *p, size_t i) {
  const gconv_learn_layer *layer = &p->net->layers[i];
  size_t in = gconv_learn_in_floats(layer), out = gconv_learn_out_floats(layer);
  if (layer->kind == GCONV_LAYER_BATCHNORM)
    forward_norm(layer, p->parameters + layer->weights, p->cases, p->values[i], p->values[i + 1], p->of_cases);
  for (size_t n = 0; n < p->cases; n++) {
    const REAL *x = p->values[i] + n * in;
    REAL *y = p->values[i + 1] + n * out;
    switch (layer->kind) {
    case GCONV_LAYER_CONV:
      forward_conv(&layer->problem, p->parameters + layer->weights, x, y);
      break;
    case GCONV_LAYER_MEAN:
      forward_mean(&layer->problem, x, y);
      break;
    case GCONV_LAYER_RESIDUAL:
      for (size_t j = 0; j < out; j++)
        y[j] = x[j] + p->values[0][n * out + j];
      break;
    case GCONV_LAYER_BATCHNORM:
      break;
    case GCONV_LAYER_MAXPOOL:
      forward_maxpool(&layer->problem, x, y);
      break;
    case GCONV_LAYER_AVGPOOL:
      forward_avgpool(&layer->problem, x, y);
      break;
    case GCONV_LAYER_UPCONV:
      forward_upconv(&layer->problem, p->parameters + layer->weights, x, y);
      break;
    case GCONV_LAYER_SHUFFLE:
      for (size_t j = 0; j < out; j++) {
        const int64_t q = (int64_t)j % layer->problem.out_width, rest = (int64_t)j / layer->problem.out_width;
        y[j] = x[shuffled(&layer->problem, rest / layer->problem.out_height, rest % layer->problem.out_height, q)];
      }
      break;
    case GCONV_LAYER_CONCAT:
      for (size_t j = 0; j < out; j++)
        y[j] = j < in ? x[j] : p->values[layer->from][n * (out - in) + j - in];
      break;
    case GCONV_LAYER_ADD:
      for (size_t j = 0; j < out; j++)
        y[j] = x[j] + p->values[layer->from][n * out + j];
      break;
    case GCONV_LAYER_PRELU:
      for (size_t j = 0; j < out; j++)
        y[j] = x[j] < 0 ? x[j] * p->parameters[layer->weights + j / (out / (size_t)layer->problem.channels)] : x[j];
      break;
    }
    if (layer->problem.activation == GCONV_ACTIVATION_SOFTMAX)
      forward_softmax(&layer->problem, y);
  }
}

static double start_backward(const pass *p) {
  const gconv_learn_net *net = p->net;
  size_t outputs = gconv_learn_outputs(net), targets = gconv_learn_target_floats(net);
  REAL factor = (REAL)gconv_learn_factor(net, p->cases);
  double *losses = p->losses;
  for (size_t n = 0; n < p->cases; n++) {
    const REAL *y = p->values[net->count] + n * outputs;
    losses[n] = loss_of_case(net, y, p->targets + n * targets);
    differentiate_loss(net, y, p->targets + n * targets, factor, p->gradients[0] + n * outputs);
  }
  for (size_t count = p->cases; count > 1; count = (count + 1) / 2)
    for (size_t i = 0; i < count; i += 2)
      losses[i / 2] = i + 1 < count ? losses[i] + losses[i + 1] : losses[i];
  return losses[0] * gconv_learn_loss_factor(net, p->cases);
}

static void backward_layer(const pass *p, size_t i, size_t done, REAL *gradient) {
  const gconv_learn_net *net = p->net;
  const gconv_learn_layer *layer = &net->layers[i];
  size_t in = gconv_learn_in_floats(layer), out = gconv_learn_out_floats(layer);
  REAL *dz = p->gradients[done % 2], *dx = p->gradients[(done + 1) % 2];
  for (size_t j = 0; p->skips[i + 1] && j < p->cases * out; j++)
    dz[j] = p->skips[i + 1][j] + dz[j];
  if (i + 1 < net->count || net->loss != GCONV_LOSS_CROSS_ENTROPY)
    for (size_t n = 0; n < p->cases; n++)
      backward_activation(&layer->problem, p->values[i + 1] + n * out, dz + n * out);
  if (layer->kind == GCONV_LAYER_CONV)
    backward_weights(layer, i >= gconv_learn_tail(net), p->values[i], dz, p->cases, p->sums, gradient + layer->weights);
  if (layer->kind == GCONV_LAYER_UPCONV)
    backward_upconv(layer, p->values[i], dz, p->cases, p->sums, gradient + layer->weights);
  if (layer->kind == GCONV_LAYER_PRELU)
    sum_places(layer, p->values[i], dz, p->cases, p->sums, gradient + layer->weights);
  if (layer->kind == GCONV_LAYER_BATCHNORM)
    backward_norm(layer, p->parameters + layer->weights, p->cases, p->values[i], dz, dx, p->of_cases, p->sums,
                  gradient + layer->weights);
  for (size_t n = 0; i > 0 && n < p->cases && layer->kind != GCONV_LAYER_BATCHNORM; n++)
    backward_inputs(layer, p->parameters + layer->weights, p->values[i] + n * in, p->values[i + 1] + n * out, dz + n * out,
                    dx + n * in);
  const bool concat = layer->kind == GCONV_LAYER_CONCAT;
  const size_t other = concat ? out - in : out;
  for (size_t j = 0; layer->from > 0 && j < p->cases * other; j++)
    p->skips[layer->from][j] += concat ? dz[j / other * out + in + j % other] : dz[j];
}

static gconv_status allocate_values(pass *p, const REAL *inputs) {
  const gconv_learn_net *net = p->net;
  size_t most = gconv_learn_in_floats(&net->layers[0]), bands = 1;
  p->values = calloc(net->count + 1, sizeof *p->values);
  p->skips = calloc(net->count + 1, sizeof *p->skips);
  for (size_t i = 0; p->skips && i < net->count; i++) {
    const size_t from = net->layers[i].from;
    if (from > 0 && !p->skips[from])
      p->skips[from] = calloc(gconv_learn_out_floats(&net->layers[from - 1]) * p->cases, sizeof(REAL));
  }
  if (!p->values || !p->skips)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a reference");
  for (size_t i = 0; i <= net->count; i++) {
    size_t floats = i ? gconv_learn_out_floats(&net->layers[i - 1]) : most;
    void *memory = NULL;
    GCONV_TRY(gconv_allocate(floats * p->cases * sizeof(REAL) + 1, "a reference", &memory));
    p->values[i] = memory;
    most = floats > most ? floats : most;
    if (i && net->layers[i - 1].kind == GCONV_LAYER_UPCONV) {
      const gconv_layer_problem turned = gconv_learn_turned(&net->layers[i - 1].problem);
      bands = (size_t)gconv_learn_bands(&turned) > bands ? (size_t)gconv_learn_bands(&turned) : bands;
    }
    if (i && net->layers[i - 1].kind == GCONV_LAYER_CONV && (size_t)gconv_learn_bands(&net->layers[i - 1].problem) > bands)
      bands = (size_t)gconv_learn_bands(&net->layers[i - 1].problem);
  }
  memcpy(p->values[0], inputs, gconv_learn_in_floats(&net->layers[0]) * p->cases * sizeof(REAL));
  for (int i = 0; i < 2; i++) {
    void *memory = NULL;
    GCONV_TRY(gconv_allocate(most * p->cases * sizeof(REAL) + 1, "a reference", &memory));
    p->gradients[i] = memory;
  }
  void *memory = NULL;
  GCONV_TRY(gconv_allocate((2 * p->cases + bands) * sizeof(REAL), "a reference", &memory));
  p->sums = memory;
  GCONV_TRY(gconv_allocate(p->cases * sizeof(double), "a reference", &memory));
  p->losses = memory;
  GCONV_TRY(gconv_allocate(2 * p->cases * sizeof(double), "a reference", &memory));
  p->of_cases = memory;
  return GCONV_OK;
}

static void free_values(pass *p) {
  for (size_t i = 0; p->values && i <= p->net->count; i++)
    gconv_release(p->values[i]);
  for (size_t i = 0; p->skips && i <= p->net->count; i++)
    free(p->skips[i]);
  free(p->skips);
  free(p->values);
  gconv_release(p->gradients[0]);
  gconv_release(p->gradients[1]);
  gconv_release(p->sums);
  gconv_release(p->losses);
  gconv_release(p->of_cases);
}

gconv_status ENTRY(const gconv_learn_net *net, const REAL *parameters, const REAL *inputs, const REAL *targets, size_t cases,
                   double *loss, REAL *gradient, REAL *outputs) {
  pass p = {.net = net, .parameters = parameters, .targets = targets, .cases = cases};
  gconv_status status = allocate_values(&p, inputs);
  if (status == GCONV_OK) {
    for (size_t i = 0; i < net->count; i++)
      forward_layer(&p, i);
    *loss = start_backward(&p);
    for (size_t done = 0; done < net->count; done++)
      backward_layer(&p, net->count - 1 - done, done, gradient);
    if (outputs)
      memcpy(outputs, p.values[net->count], gconv_learn_outputs(net) * cases * sizeof(REAL));
  }
  free_values(&p);
  return status;
}

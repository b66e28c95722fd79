/* SPDX-License-Identifier: MIT */
/* Layers before the tail, as the engine of the CPU computes them for one case: convolutions, transposed convolutions, and
 * kinds whose functions stand in src/layer/kind_NAME.c. */
#include "base/memory.h"
#include "kernels/cpu/train/elements.h"
#include "layer/kind.h"
#include "train/engine_cpu.h"

#include <string.h>

static const float *parameters_of(const gconv_cpu_case *at) {
  return at->e->arrays[GCONV_LEARN_PARAMETERS] + at->e->layers[at->layer].at;
}

/* ---- Convolutions ---- */

static gconv_status prepare_conv(gconv_cpu_engine *e, size_t i) {
  gconv_cpu_layer *own = &e->layers[i];
  const gconv_learn_layer *before = i > 0 ? &e->net->layers[i - 1] : NULL;
  const bool staged = before && yields_rows(before) && !e->layers[i - 1].is_source;
  GCONV_TRY(gconv_learn_conv_prepare(&own->layer->problem, before, staged, before && yields_zeros(before), &own->conv));
  e->values += padded(own->conv.input_floats);
  own->parameters = own->conv.parameters;
  own->weights = own->conv.weights;
  own->bands = (size_t)gconv_learn_bands(&own->layer->problem);
  return GCONV_OK;
}

static void take_conv(const gconv_cpu_layer *own, const float *plain, float *parameters) {
  gconv_learn_conv_take(&own->conv, plain, parameters);
}

static void give_conv(const gconv_cpu_layer *own, const float *parameters, float *plain) {
  gconv_learn_conv_give(&own->conv, parameters, plain);
}

static bool transposes_conv(size_t i, bool learns) {
  return learns && i > 0;
}

static void forward_conv(const gconv_cpu_case *at, float *y, const gconv_learn_layout *output) {
  gconv_learn_conv_forward(&at->e->layers[at->layer].conv, parameters_of(at), at->x, at->seat->workspace, y, output);
}

/* Adds up the gradient of a convolution's weights from one case, band by band. */
static void sum_bands(const gconv_cpu_case *at, const float *x, const float *dz, float *gradient) {
  const gconv_cpu_layer *own = &at->e->layers[at->layer];
  gconv_cpu_seat *s = at->seat;
  if (own->bands == 1) {
    gconv_learn_conv_weights(&own->conv, x, dz, 0, s->workspace, gradient);
    return;
  }
  s->bands.floats = own->conv.parameters;
  for (size_t b = 0; b < own->bands; b++) {
    gconv_learn_conv_weights(&own->conv, x, dz, (int32_t)b, s->workspace, gconv_tree_leaf(&s->bands));
    gconv_tree_push(&s->bands);
  }
  memcpy(gradient, gconv_tree_sum(&s->bands), own->conv.parameters * sizeof *gradient);
}

static void weights_conv(const gconv_cpu_case *at, const float *dz, float *leaf) {
  sum_bands(at, at->x, dz, leaf);
}

static void inputs_conv(const gconv_cpu_case *at, const float *dz, bool sums, float *dx, float *dother, float *leaf) {
  const gconv_cpu_engine *e = at->e;
  const gconv_cpu_layer *own = &e->layers[at->layer];
  gconv_learn_conv_inputs(&own->conv, e->panels + own->panel, dz, at->seat->workspace,
                          sums ? &e->layers[at->layer - 1].layer->problem : NULL, at->x, dx);
}

/* ---- Transposed convolutions: forward is the gradient of inputs of a convolution, and backward is that convolution. The
 * parameters are those of the convolution, whose biases stay 0, then the biases of the layer ---- */

static gconv_status prepare_upconv(gconv_cpu_engine *e, size_t i) {
  gconv_cpu_layer *own = &e->layers[i];
  const gconv_layer_problem conv = gconv_learn_turned(&own->layer->problem);
  GCONV_TRY(gconv_learn_conv_prepare(&conv, true, false, false, &own->conv));
  e->values += padded(gconv_learn_in_floats(own->layer));
  own->parameters = own->conv.parameters + (size_t)own->layer->problem.filters;
  own->weights = own->conv.weights;
  own->bands = (size_t)gconv_learn_bands(&own->conv.problem);
  GCONV_ALLOCATE(own->transposed, own->layer->parameters * sizeof(float) + (size_t)conv.filters * sizeof(float), "training");
  return GCONV_OK;
}

/* Copies weights from K x C x taps to C x K x taps. back: from C x K x taps to K x C x taps. */
static void transpose_weights(const gconv_layer_problem *l, bool back, const float *from, float *to) {
  const int64_t plane = (int64_t)l->rows * l->columns;
  for (int64_t k = 0; k < l->filters; k++)
    for (int64_t c = 0; c < l->channels; c++) {
      const int64_t plain = (k * l->channels + c) * plane, transposed = (c * l->filters + k) * plane;
      memcpy(to + (back ? plain : transposed), from + (back ? transposed : plain), (size_t)plane * sizeof *to);
    }
}

static void take_upconv(const gconv_cpu_layer *own, const float *plain, float *parameters) {
  const gconv_layer_problem *l = &own->layer->problem;
  const size_t weights = (size_t)l->filters * (size_t)l->channels * (size_t)l->rows * (size_t)l->columns;
  float *transposed = own->transposed;
  transpose_weights(l, false, plain, transposed);
  memset(transposed + weights, 0, (size_t)l->channels * sizeof *transposed);
  gconv_learn_conv_take(&own->conv, transposed, parameters);
  memcpy(parameters + own->conv.parameters, plain + weights, (size_t)l->filters * sizeof *parameters);
}

static void give_upconv(const gconv_cpu_layer *own, const float *parameters, float *plain) {
  const gconv_layer_problem *l = &own->layer->problem;
  const size_t weights = (size_t)l->filters * (size_t)l->channels * (size_t)l->rows * (size_t)l->columns;
  gconv_learn_conv_give(&own->conv, parameters, own->transposed);
  transpose_weights(l, true, own->transposed, plain);
  memcpy(plain + weights, parameters + own->conv.parameters, (size_t)l->filters * sizeof *plain);
}

static bool transposes_upconv(size_t i, bool learns) {
  return true;
}

static void forward_upconv(const gconv_cpu_case *at, float *y, const gconv_learn_layout *output) {
  const gconv_cpu_engine *e = at->e;
  const gconv_cpu_layer *own = &e->layers[at->layer];
  const gconv_layer_problem *l = &own->layer->problem;
  const float *biases = parameters_of(at) + own->conv.parameters;
  const int64_t places = (int64_t)l->out_height * l->out_width;
  gconv_learn_conv_inputs(&own->conv, e->panels + own->panel, at->x, at->seat->workspace, NULL, y, y);
  const gconv_learn_rows rows = {1, places, places, places, places};
  for (int64_t k = 0; k < l->filters; k++)
    gconv_learn_activate_rows(l, &rows, y + k * places, biases[k], y + k * places);
}

static void weights_upconv(const gconv_cpu_case *at, const float *dz, float *leaf) {
  const gconv_cpu_layer *own = &at->e->layers[at->layer];
  const gconv_layer_problem *l = &own->layer->problem;
  const int64_t places = (int64_t)l->out_height * l->out_width;
  sum_bands(at, dz, at->x, leaf);
  memset(leaf + own->weights, 0, (own->conv.parameters - own->weights) * sizeof *leaf);
  for (int64_t k = 0; k < l->filters; k++) {
    double sum = 0; /* in the order of the rows */
    for (int64_t i = 0; i < places; i++)
      sum += (double)dz[k * places + i];
    leaf[own->conv.parameters + (size_t)k] = (float)sum;
  }
}

static void inputs_upconv(const gconv_cpu_case *at, const float *dz, bool sums, float *dx, float *dother, float *leaf) {
  const gconv_cpu_layer *own = &at->e->layers[at->layer];
  const gconv_learn_layout plain = gconv_learn_plain_output(&own->conv.problem);
  gconv_learn_conv_forward(&own->conv, parameters_of(at), dz, at->seat->workspace, dx, &plain);
}

/* ---- Kinds with functions of their own ---- */

static gconv_status prepare_kind(gconv_cpu_engine *e, size_t i) {
  gconv_cpu_layer *own = &e->layers[i];
  e->values += padded(gconv_learn_in_floats(own->layer));
  own->parameters = own->layer->parameters;
  return GCONV_OK;
}

void gconv_cpu_copy_parameters(const gconv_cpu_layer *own, const float *from, float *to) {
  if (own->parameters > 0)
    memcpy(to, from, own->parameters * sizeof *to);
}

static gconv_layer_case case_of(const gconv_cpu_case *at) {
  return (gconv_layer_case){&at->e->layers[at->layer].layer->problem, parameters_of(at), at->x, at->other};
}

static void forward_kind(const gconv_cpu_case *at, float *y, const gconv_learn_layout *output) {
  const gconv_learn_layer *layer = at->e->layers[at->layer].layer;
  const gconv_layer_problem *problem = &layer->problem;
  const gconv_layer_work *work = gconv_layer_work_of(layer->kind);
  if (work->learn) {
    const gconv_layer_case one = case_of(at);
    work->learn(&one, y);
    return;
  }
  const gconv_layer_planes planes = {problem, 1, at->x, at->input, (int64_t)problem->height * problem->width, y};
  for (int32_t k = 0; k < problem->filters; k++)
    work->forward(&planes, (size_t)k);
}

static void inputs_kind(const gconv_cpu_case *at, const float *dz, bool sums, float *dx, float *dother, float *leaf) {
  const gconv_layer_case one = case_of(at);
  gconv_layer_work_of(at->e->layers[at->layer].layer->kind)->teach(&one, dz, dx, dother, leaf);
}

const gconv_cpu_type *gconv_cpu_type_of(const gconv_learn_layer *layer) {
  static const gconv_cpu_type conv = {prepare_conv, take_conv,    give_conv,  transposes_conv,
                                      forward_conv, weights_conv, inputs_conv};
  static const gconv_cpu_type upconv = {prepare_upconv, take_upconv,    give_upconv,  transposes_upconv,
                                        forward_upconv, weights_upconv, inputs_upconv};
  static const gconv_cpu_type kind = {
      prepare_kind, gconv_cpu_copy_parameters, gconv_cpu_copy_parameters, NULL, forward_kind, NULL, inputs_kind};
  return layer->kind == GCONV_LAYER_CONV        ? &conv
         : layer->kind == GCONV_LAYER_UPCONV    ? &upconv
         : layer->kind == GCONV_LAYER_BATCHNORM ? &gconv_cpu_batchnorm
                                                : &kind;
}

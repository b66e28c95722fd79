/* SPDX-License-Identifier: MIT */
/* Residual layers: they add the input of the network, as the first layer sees it. */
#include "layer/kind.h"

#include <math.h>
#include <string.h>

static void explain(const gconv_step *step, const gconv_step *pads, FILE *text) {
  fprintf(text, "  residual: the normalised input is added\n");
}

static void verify(const gconv_verified_layer *layer, size_t plane) {
  const size_t count = (size_t)gconv_layer_plane(&layer->step->problem);
  const gconv_field *in = layer->in, *input = layer->input, *out = layer->out;
  for (size_t i = plane * count; i < (plane + 1) * count; i++) {
    out->value[i] = in->value[i] + input->value[i];
    double allowed = in->allowed[i] + input->allowed[i];
    out->allowed[i] = allowed + GCONV_UNIT * (fabs(out->value[i]) + allowed);
  }
}

static void forward(const gconv_layer_planes *planes, size_t plane) {
  const int64_t count = gconv_layer_plane(planes->problem), at = (int64_t)plane * count;
  const float *x = planes->x + at, *input = planes->input + (int64_t)plane * planes->input_plane;
  float *y = planes->y + at;
  for (int64_t i = 0; i < count; i++)
    y[i] = x[i] + input[i];
}

static void teach(const gconv_layer_case *at, const float *dz, float *dx, float *dother, float *gradient) {
  memcpy(dx, dz, (size_t)at->problem->channels * (size_t)gconv_layer_plane(at->problem) * sizeof *dx);
}

GCONV_LAYER_WORK(residual, false, true, gconv_layer_resolve_bare, GCONV_ROWS_AFTER_NO_STEP, explain, verify, forward, teach,
                 GCONV_ON_A_GPU(residual));

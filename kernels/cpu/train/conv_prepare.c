/* SPDX-License-Identifier: MIT */
/* Prepares the training of a convolution: decides once on phases, stages, which products with zeros to leave out, and
 * layouts of weights. */
#include "base/status.h"
#include "conv_parts.h"
#include "kernels/learn_problem.h"

#include <stdlib.h>
#include <string.h>

/* With fewer filters than this, finding zeros takes longer than multiplying by them. */
enum { LEAST_FILTERS = 4 };

/* ---- Phases ---- */

/* The taps along an axis that reach the inputs y = first + j * stride. Input j takes part in output j + shift[i] through
 * tap[i]. Taps are in the order of outputs. */
typedef struct axis_phase {
  int32_t first, inputs, count;
  int32_t *tap, *shift; /* room for all taps */
} axis_phase;

static void fill_axis(axis_phase *a, int32_t size, int32_t taps, int32_t stride, int32_t dilation, int32_t pad) {
  a->inputs = (size - a->first + stride - 1) / stride;
  a->count = 0;
  for (int32_t r = taps - 1; r >= 0; r--) {
    int64_t at = (int64_t)a->first + pad - (int64_t)r * dilation;
    if (at % stride != 0)
      continue;
    a->tap[a->count] = r;
    a->shift[a->count++] = (int32_t)(at / stride);
  }
}

/* Taps read the gradient from -before to end - 1. So its stage has zeros around it. */
typedef struct reach {
  int64_t before, end;
} reach;

static void widen(reach *r, const axis_phase *a) {
  for (int32_t i = 0; i < a->count; i++) {
    r->before = larger(r->before, -(int64_t)a->shift[i]);
    r->end = larger(r->end, (int64_t)a->inputs + a->shift[i]);
  }
}

/* Returns whether it pays to compute sums row by row, without products with zeros. If so, reserves room in the workspace for
 * these sums, and for the marks of `channels` channels with field_rows rows of samples. Else all rows are computed as one
 * row, with the columns between them. */
static bool prepare_blocks(gconv_learn_conv *conv, int64_t filters, int64_t rows, int64_t columns, int64_t pitch,
                           int64_t channels, int64_t field_rows) {
  int64_t sums = rows * gconv_learn_padded(columns);
  if (sums > rows * pitch / 8 * 9 || filters < LEAST_FILTERS)
    return false;
  conv->sums = (size_t)larger((int64_t)conv->sums, sums * filters);
  size_t blocks = (size_t)((columns + BLOCK - 1) / BLOCK), marks = (size_t)(channels * field_rows) * blocks;
  marks += (size_t)(channels * conv->problem.rows) * sizeof(int64_t);
  conv->marks = marks > conv->marks ? marks : conv->marks;
  return true;
}

/* Fills the tables of a phase. The sizes of the stage must be set before. */
static gconv_status fill_phase(gconv_learn_conv *conv, const axis_phase *y, const axis_phase *x, gconv_learn_phase *phase) {
  const gconv_layer_problem *p = &conv->problem;
  size_t filters = (size_t)(p->filters / p->groups), taps = (size_t)y->count * (size_t)x->count;
  *phase = (gconv_learn_phase){y->first, x->first, y->inputs, x->inputs, (int32_t)taps, NULL, NULL, (int64_t)conv->panels};
  phase->tap = malloc(taps * sizeof *phase->tap + 1);
  phase->offsets = malloc(taps * filters * sizeof *phase->offsets + 1);
  GCONV_NEED_MEMORY(phase->tap && phase->offsets, "no memory for training");
  int64_t *offset = phase->offsets;
  for (size_t k = 0; k < filters; k++)
    for (int32_t i = 0; i < y->count; i++)
      for (int32_t j = 0; j < x->count; j++)
        *offset++ =
            (int64_t)k * conv->channel + ((int64_t)conv->above + y->shift[i]) * conv->pitch + conv->left + x->shift[j];
  for (int32_t i = 0; i < y->count; i++)
    for (int32_t j = 0; j < x->count; j++)
      phase->tap[i * x->count + j] = y->tap[i] * p->columns + x->tap[j];
  conv->panels += taps * filters * (size_t)(p->channels / p->groups);
  int64_t places = ((int64_t)y->inputs - 1) * conv->pitch + x->inputs;
  conv->sums = (size_t)larger((int64_t)conv->sums, gconv_learn_padded(places) * (p->channels / p->groups));
  if (p->activation == GCONV_ACTIVATION_RELU && p->stride_y == 1 && p->stride_x == 1)
    conv->skips_inputs = prepare_blocks(conv, p->channels / p->groups, y->inputs, x->inputs, conv->pitch, (int64_t)filters,
                                        conv->channel / conv->pitch);
  return GCONV_OK;
}

static gconv_status prepare_phases(gconv_learn_conv *conv, axis_phase *y, axis_phase *x) {
  const gconv_layer_problem *p = &conv->problem;
  int32_t down = (int32_t)smaller(p->stride_y, p->height), across = (int32_t)smaller(p->stride_x, p->width);
  reach high = {0, p->out_height}, wide = {0, p->out_width};
  for (y->first = 0; y->first < down; y->first++) {
    fill_axis(y, p->height, p->rows, p->stride_y, p->dilation_y, p->pad_top);
    widen(&high, y);
  }
  for (x->first = 0; x->first < across; x->first++) {
    fill_axis(x, p->width, p->columns, p->stride_x, p->dilation_x, p->pad_left);
    widen(&wide, x);
  }
  conv->above = (int32_t)high.before;
  conv->left = (int32_t)wide.before;
  conv->pitch = wide.before + wide.end;
  conv->channel = conv->pitch * (high.before + high.end);
  conv->staged = (size_t)larger((int64_t)conv->staged, conv->channel * p->filters);
  GCONV_NEW(conv->phases, (size_t)down * (size_t)across, "no memory for training");
  for (y->first = 0; y->first < down; y->first++)
    for (x->first = 0; x->first < across; x->first++) {
      fill_axis(y, p->height, p->rows, p->stride_y, p->dilation_y, p->pad_top);
      fill_axis(x, p->width, p->columns, p->stride_x, p->dilation_x, p->pad_left);
      GCONV_TRY(fill_phase(conv, y, x, &conv->phases[conv->phase_count++]));
    }
  return GCONV_OK;
}

/* ---- Preparing ---- */

static gconv_status prepare_offsets(gconv_learn_conv *conv) {
  const gconv_layer_problem *p = &conv->problem;
  size_t plane = (size_t)p->rows * (size_t)p->columns;
  conv->offsets = malloc((size_t)conv->taps * sizeof *conv->offsets);
  GCONV_NEED_MEMORY(conv->offsets, "no memory for training");
  gconv_layer_stage_offsets(&conv->stage, p, conv->offsets);
  for (size_t t = plane; t < (size_t)conv->taps; t++)
    conv->offsets[t] = conv->offsets[t - plane] + conv->stage.channel;
  return GCONV_OK;
}

/* Decides whether vectors of the weights' gradient hold channels in place of filters. */
static gconv_status prepare_by_channels(gconv_learn_conv *conv) {
  const gconv_layer_problem *p = &conv->problem;
  int64_t filters = p->filters / p->groups, channels = p->channels / p->groups, lanes = gconv_learn_padded(1);
  int64_t rows = gconv_learn_band_rows(p);
  conv->group_channels = gconv_learn_padded(channels);
  /* Compares the vectors that a tap multiplies. Vectors of channels need a transposed stage, hence the factor 2. */
  conv->by_channels = 2 * filters * conv->group_channels < channels * conv->group_filters && channels >= lanes;
  if (!conv->by_channels)
    return GCONV_OK;
  conv->by_channel = (size_t)(conv->stage.channel * conv->group_channels);
  conv->taps_at_once = p->stride_x == 1 && p->dilation_x == 1 ? p->columns : 1;
  conv->of_taps = (size_t)(filters * conv->taps_at_once * conv->group_channels);
  conv->places_of_band = malloc((size_t)(rows * p->out_width) * sizeof *conv->places_of_band);
  GCONV_NEED_MEMORY(conv->places_of_band, "no memory for training");
  for (int64_t row = 0; row < rows; row++)
    for (int64_t column = 0; column < p->out_width; column++)
      conv->places_of_band[row * p->out_width + column] = (row * conv->stage.pitch + column) * conv->group_channels;
  return GCONV_OK;
}

gconv_learn_layout gconv_learn_plain_output(const gconv_layer_problem *p) {
  return (gconv_learn_layout){(int64_t)p->out_height * p->out_width, p->out_width, 0};
}

/* Decides on the layout of the input. With strides, or if some rows or columns are under no tap, the stage is a copy. */
static void prepare_input(gconv_learn_conv *conv, bool staged) {
  const gconv_layer_problem *p = &conv->problem;
  const gconv_layer_stage *stage = &conv->stage;
  conv->is_staged = staged && !stage->in_place && p->stride_y == 1 && p->stride_x == 1 && p->pad_top >= 0 &&
                    p->pad_left >= 0 && (int64_t)p->pad_top + p->height <= (int64_t)p->out_height + stage->reach_y &&
                    (int64_t)p->pad_left + p->width <= stage->pitch;
  if (conv->is_staged)
    conv->input = (gconv_learn_layout){stage->channel, stage->pitch, p->pad_top * stage->pitch + p->pad_left};
  else
    conv->input = (gconv_learn_layout){(int64_t)p->height * p->width, p->width, 0};
  conv->input_floats = (size_t)(conv->input.channel * p->channels);
}

/* Decides which products with zeros of the input are left out. */
static void prepare_zeros(gconv_learn_conv *conv) {
  const gconv_layer_problem *p = &conv->problem;
  const gconv_layer_stage *stage = &conv->stage;
  if (p->stride_y != 1 || p->stride_x != 1)
    return;
  conv->skips_forward = prepare_blocks(conv, p->filters / p->groups, p->out_height, p->out_width, stage->pitch,
                                       p->channels / p->groups, (int64_t)p->out_height + stage->reach_y);
  conv->skips_weights = !conv->by_channels;
  if (!conv->skips_weights)
    return;
  conv->gradient_pitch = stage->pitch;
  conv->gradient_before = stage->reach_y * stage->pitch + stage->reach_x;
  int64_t rows = (int64_t)gconv_learn_band_rows(p) + stage->reach_y;
  conv->gradient = (size_t)((conv->gradient_before + rows * stage->pitch + TRANSPOSED) * conv->group_filters * p->groups);
  size_t marks = ((size_t)(rows * stage->pitch) + GCONV_LEARN_SLACK) * sizeof(int32_t);
  conv->marks = marks > conv->marks ? marks : conv->marks;
}

gconv_status gconv_learn_conv_prepare(const gconv_layer_problem *problem, bool inputs, bool staged, bool zeros,
                                      gconv_learn_conv *conv) {
  const gconv_layer_problem *p = problem;
  *conv = (gconv_learn_conv){.problem = *p, .taps = gconv_layer_taps(p)};
  conv->group_filters = gconv_learn_padded(p->filters / p->groups);
  conv->weights = (size_t)p->groups * (size_t)conv->taps * (size_t)conv->group_filters;
  conv->parameters = conv->weights + (size_t)p->groups * (size_t)conv->group_filters;
  conv->stage = gconv_layer_stage_of(p, p->out_height, 1);
  prepare_input(conv, staged);
  conv->staged = conv->is_staged ? 0 : gconv_layer_stage_floats(&conv->stage, p->channels);
  conv->places = ((int64_t)p->out_height - 1) * conv->stage.pitch + p->out_width;
  conv->sums_pitch = gconv_learn_padded(conv->places);
  conv->sums = (size_t)conv->sums_pitch * (size_t)(p->filters / p->groups);
  conv->gradient = (size_t)gconv_learn_band_rows(p) * (size_t)p->out_width * (size_t)conv->group_filters * (size_t)p->groups;
  GCONV_TRY(prepare_offsets(conv));
  GCONV_TRY(prepare_by_channels(conv));
  conv->gradient_pitch = p->out_width;
  if (zeros)
    prepare_zeros(conv);
  if (!inputs)
    return GCONV_OK;
  size_t taps = (size_t)larger(p->rows, p->columns);
  int32_t *room = malloc(4 * taps * sizeof *room);
  GCONV_NEED_MEMORY(room, "no memory for training");
  axis_phase y = {.tap = room, .shift = room + taps}, x = {.tap = room + 2 * taps, .shift = room + 3 * taps};
  gconv_status status = prepare_phases(conv, &y, &x);
  free(room);
  return status;
}

void gconv_learn_conv_free(gconv_learn_conv *conv) {
  for (int32_t i = 0; i < conv->phase_count; i++) {
    free(conv->phases[i].tap);
    free(conv->phases[i].offsets);
  }
  free(conv->phases);
  free(conv->offsets);
  free(conv->places_of_band);
  *conv = (gconv_learn_conv){0};
}

/* ---- Layouts of weights ---- */

void gconv_learn_conv_take(const gconv_learn_conv *conv, const float *plain, float *own) {
  int32_t groups = conv->problem.groups, filters = conv->problem.filters / groups;
  int64_t pitch = conv->group_filters;
  memset(own, 0, conv->parameters * sizeof *own);
  for (int32_t g = 0; g < groups; g++, plain += filters * conv->taps)
    gconv_learn_transpose(plain, conv->taps, filters, conv->taps, own + g * conv->taps * pitch, pitch);
  for (int32_t g = 0; g < groups; g++)
    memcpy(own + conv->weights + g * pitch, plain + (int64_t)g * filters, (size_t)filters * sizeof *own);
}

void gconv_learn_conv_give(const gconv_learn_conv *conv, const float *own, float *plain) {
  int32_t groups = conv->problem.groups, filters = conv->problem.filters / groups;
  int64_t pitch = conv->group_filters;
  for (int32_t g = 0; g < groups; g++)
    for (int64_t k = 0; k < filters; k++)
      for (int64_t t = 0; t < conv->taps; t++)
        *plain++ = own[(g * conv->taps + t) * pitch + k];
  for (int32_t g = 0; g < groups; g++, plain += filters)
    memcpy(plain, own + conv->weights + g * pitch, (size_t)filters * sizeof *own);
}

/* Writes the phases of each group, each phase as [filter][tap of the phase][channel]. */
void gconv_learn_conv_transpose(const gconv_learn_conv *conv, const float *own, float *panels) {
  const gconv_layer_problem *p = &conv->problem;
  int64_t filters = p->filters / p->groups, channels = p->channels / p->groups, plane = (int64_t)p->rows * p->columns;
  for (int32_t g = 0; g < p->groups; g++, own += conv->taps * conv->group_filters)
    for (int32_t i = 0; i < conv->phase_count; i++) {
      const gconv_learn_phase *phase = &conv->phases[i];
      float *to = panels + g * (int64_t)conv->panels + phase->panel;
      for (int32_t t = 0; t < phase->taps; t++) /* [channel][filter] of a tap becomes [filter][channel] */
        gconv_learn_transpose(own + phase->tap[t] * conv->group_filters, plane * conv->group_filters, channels, filters,
                              to + t * channels, phase->taps * channels);
    }
}

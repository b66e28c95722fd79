/* SPDX-License-Identifier: MIT */
/* Computes the three products of conv.h by gather and outer (product.h). */
#include "conv_parts.h"
#include "elements.h"
#include "kernels/learn_math.h"

#include <math.h>
#include <string.h>

/* Floats of staged gradients that the gradient of weights reads at a time, so that they stay in the L1 cache. */
enum { OUTER_FLOATS = 4096 };

/* ---- Workspace ---- */

static size_t padded(size_t floats) {
  return (floats + 15) / 16 * 16;
}

size_t gconv_learn_conv_workspace(const gconv_learn_conv *conv) {
  return padded(conv->staged + GCONV_STAGE_SLACK) +
         padded(larger((int64_t)conv->sums, (int64_t)conv->gradient) + GCONV_LEARN_SLACK) + padded(conv->by_channel) +
         padded(conv->of_taps) + padded(conv->marks / sizeof(float) + 1);
}

static float *sums_of(const gconv_learn_conv *conv, float *workspace) {
  return workspace + padded(conv->staged + GCONV_STAGE_SLACK);
}

static float *channels_of(const gconv_learn_conv *conv, float *workspace) {
  return sums_of(conv, workspace) + padded(larger((int64_t)conv->sums, (int64_t)conv->gradient) + GCONV_LEARN_SLACK);
}

static void *marks_of(const gconv_learn_conv *conv, float *workspace) {
  return channels_of(conv, workspace) + padded(conv->by_channel) + padded(conv->of_taps);
}

/* Returns the staged input for output rows first .. first + rows - 1. */
static const float *stage_input(const gconv_learn_conv *conv, const float *x, int32_t first, int32_t rows, float *staged) {
  if (conv->is_staged)
    return x + first * conv->stage.pitch;
  return gconv_layer_stage_fill(&conv->stage, &conv->problem, x, conv->problem.channels, first, rows, staged);
}

/* ---- Products without zeros ---- */

/* For gather_blocks(): the sizes of the samples that a gather reads, its operand b, and of the taps over them. */
typedef struct field {
  int64_t channels, channel, pitch; /* channels of b; floats from one channel to the next, and from one row */
  int64_t rows, columns;            /* rows and columns of sums */
  int64_t tap_rows, tap_columns, dilation_y, reach_x;
} field;

/* Sets marks[block][row][channel]: true if the taps of the block read any sample in this row that is not 0. `b` points to
 * the first tap's samples. */
static void mark_blocks(const field *f, const float *b, bool *marks) {
  int64_t rows = f->rows + (f->tap_rows - 1) * f->dilation_y;
  for (int64_t column = 0; column < f->columns; column += BLOCK) {
    int64_t count = smaller(BLOCK, f->columns - column) + f->reach_x;
    for (int64_t row = 0; row < rows; row++, marks += f->channels)
      gconv_learn_mark(b + row * f->pitch + column, f->channels, f->channel, count, marks);
  }
}

/* Lists the first tap of each row of taps over marked samples. Returns their number. */
static int64_t list_taps(const field *f, const bool *marks, int64_t *parts) {
  int64_t count = 0, tap = 0;
  for (int64_t c = 0; c < f->channels; c++)
    for (int64_t r = 0; r < f->tap_rows; r++, tap += f->tap_columns) {
      parts[count] = tap;
      count += marks[r * f->dilation_y * f->channels + c];
    }
  return count;
}

/* Computes out[i][row][column] for i < count. Rows of `out` are gconv_learn_padded(columns) floats apart. Rows of taps over
 * zeros are left out. If the weights are finite, that changes at most the sign of a sum of 0. */
static void gather_blocks(gconv_gather *gather, const field *f, int64_t count, const float *b, void *marks, float *out) {
  int64_t pitch = gconv_learn_padded(f->columns), *parts = marks;
  bool *marked = (bool *)(parts + f->channels * f->tap_rows);
  mark_blocks(f, b + gather->offsets[0], marked);
  gather->count = f->tap_columns;
  gather->parts = parts;
  gather->out_pitch = f->rows * pitch;
  for (int64_t column = 0; column < f->columns; column += BLOCK) {
    for (int64_t row = 0; row < f->rows; row++, marked += f->channels) {
      gather->part_count = list_taps(f, marked, parts);
      gconv_learn_gather(gather, count, smaller(BLOCK, f->columns - column), b + row * f->pitch + column,
                         out + row * pitch + column);
    }
    marked += (f->tap_rows - 1) * f->dilation_y * f->channels;
  }
}

static field field_of(const gconv_layer_problem *p, int64_t channels, int64_t channel, int64_t pitch, int64_t rows,
                      int64_t columns) {
  return (field){channels,   channel,       pitch,
                 rows,       columns,       p->rows,
                 p->columns, p->dilation_y, (int64_t)(p->columns - 1) * p->dilation_x};
}

/* Returns whether products with 0 may be left out: all weights are finite, and no bias is -0. A bias of -0 would show the
 * sign of a sum of 0. */
static bool may_skip(const gconv_learn_conv *conv, const float *own) {
  for (size_t i = conv->weights; i < conv->parameters; i++)
    if (own[i] == 0 && signbit(own[i]))
      return false;
  return gconv_learn_finite(own, (int64_t)conv->weights);
}

/* ---- Forward ---- */

void gconv_learn_conv_forward(const gconv_learn_conv *conv, const float *own, const float *x, float *workspace, float *y,
                              const gconv_learn_layout *output) {
  const gconv_layer_problem *p = &conv->problem;
  int64_t filters = p->filters / p->groups, channels = p->channels / p->groups;
  float *sums = sums_of(conv, workspace);
  const float *staged = stage_input(conv, x, 0, p->out_height, workspace);
  const bool skips = conv->skips_forward && may_skip(conv, own);
  const gconv_learn_rows rows = {.rows = p->out_height,
                                 .count = p->out_width,
                                 .from = skips ? gconv_learn_padded(p->out_width) : conv->stage.pitch,
                                 .to = output->pitch};
  const field f = field_of(p, channels, conv->stage.channel, conv->stage.pitch, p->out_height, p->out_width);
  y += output->first;
  for (int32_t g = 0; g < p->groups; g++) {
    const float *biases = own + conv->weights + g * conv->group_filters, *x_of_group = staged + g * channels * f.channel;
    gconv_gather gather = {.a = own + g * conv->taps * conv->group_filters,
                           .a_pitch = conv->group_filters,
                           .offsets = conv->offsets,
                           .count = conv->taps,
                           .out_pitch = conv->sums_pitch};
    if (skips)
      gather_blocks(&gather, &f, filters, x_of_group, marks_of(conv, workspace), sums);
    else
      gconv_learn_gather(&gather, filters, conv->places, x_of_group, sums);
    for (int64_t k = 0; k < filters; k++, y += output->channel)
      gconv_learn_activate_rows(p, &rows, sums + k * gather.out_pitch, biases[k], y);
  }
}

/* ---- The gradient of inputs ---- */

/* Copies dz into its stage, with zeros around it. */
static void stage_gradient(const gconv_learn_conv *conv, const float *dz, float *staged) {
  const gconv_layer_problem *p = &conv->problem;
  memset(staged, 0, ((size_t)conv->channel * (size_t)p->filters + GCONV_STAGE_SLACK) * sizeof *staged);
  for (int32_t k = 0; k < p->filters; k++)
    for (int32_t row = 0; row < p->out_height; row++, dz += p->out_width)
      memcpy(staged + k * conv->channel + ((int64_t)conv->above + row) * conv->pitch + conv->left, dz,
             (size_t)p->out_width * sizeof *dz);
}

/* Stores the sums of a phase as gradients of inputs. `x` and `dx` begin with the group's first channel. Sums of channels are
 * `pitch` floats apart, sums of rows `row_pitch`. */
static void store_phase(const gconv_learn_conv *conv, const gconv_learn_phase *phase, const float *sums, int64_t pitch,
                        int64_t row_pitch, const gconv_layer_problem *before, const float *x, float *dx) {
  const gconv_layer_problem *p = &conv->problem;
  const gconv_learn_layout *input = &conv->input;
  const gconv_learn_rows rows = {phase->rows, phase->columns, p->stride_y * input->pitch, row_pitch,
                                 (int64_t)p->stride_y * p->width};
  int64_t channels = p->channels / p->groups, plane = (int64_t)p->height * p->width;
  x += input->first + phase->first_y * input->pitch + phase->first_x;
  dx += (int64_t)phase->first_y * p->width + phase->first_x;
  for (int64_t c = 0; c < channels; c++, sums += pitch, x += input->channel, dx += plane) {
    if (p->stride_x == 1) {
      gconv_learn_differentiate_to(before, &rows, x, sums, dx);
      continue;
    }
    for (int64_t j = 0; j < rows.rows; j++)
      for (int64_t i = 0; i < rows.count; i++) {
        const float gradient = sums[j * rows.from + i] + 0.0f;
        const int64_t across = i * p->stride_x;
        dx[j * rows.to + across] =
            before ? gconv_learn_slope(before->activation, before->slope, x[j * rows.y + across], gradient) : gradient;
      }
  }
}

void gconv_learn_conv_inputs(const gconv_learn_conv *conv, const float *panels, const float *dz, float *workspace,
                             const gconv_layer_problem *before, const float *x, float *dx) {
  const gconv_layer_problem *p = &conv->problem;
  int64_t filters = p->filters / p->groups, channels = p->channels / p->groups;
  float *sums = sums_of(conv, workspace);
  const bool skips = conv->skips_inputs && gconv_learn_finite(panels, (int64_t)conv->panels * p->groups);
  stage_gradient(conv, dz, workspace);
  for (int32_t g = 0; g < p->groups; g++, dx += channels * p->height * p->width, x += channels * conv->input.channel)
    for (int32_t i = 0; i < conv->phase_count; i++) {
      const gconv_learn_phase *phase = &conv->phases[i];
      int64_t places = ((int64_t)phase->rows - 1) * conv->pitch + phase->columns;
      gconv_gather gather = {.a = panels + g * (int64_t)conv->panels + phase->panel,
                             .a_pitch = channels,
                             .offsets = phase->offsets,
                             .count = filters * phase->taps,
                             .out_pitch = gconv_learn_padded(places)};
      const float *of_group = workspace + g * filters * conv->channel;
      const field f = field_of(p, filters, conv->channel, conv->pitch, phase->rows, phase->columns);
      if (skips)
        gather_blocks(&gather, &f, channels, of_group, marks_of(conv, workspace), sums);
      else
        gconv_learn_gather(&gather, channels, places, of_group, sums);
      int64_t row_pitch = skips ? gconv_learn_padded(phase->columns) : conv->pitch;
      store_phase(conv, phase, sums, gather.out_pitch, row_pitch, before, x, dx);
    }
}

/* ---- The gradient of weights ---- */

/* Transposes the gradients of a band to [place][filter]. If products with zeros are left out, rows have the pitch of the
 * stage, with zeros between and around them. */
static void transpose_gradient(const gconv_learn_conv *conv, const float *dz, int32_t first, int64_t rows,
                               float *transposed) {
  const gconv_layer_problem *p = &conv->problem;
  int64_t filters = p->filters / p->groups, plane = (int64_t)p->out_height * p->out_width;
  int64_t pitch = conv->group_filters * p->groups, step = conv->skips_weights ? 1 : rows;
  int64_t places = step * p->out_width, gap = (conv->gradient_pitch - p->out_width) * pitch;
  if (filters < conv->group_filters)
    memset(transposed, 0, (size_t)(rows * conv->gradient_pitch * pitch) * sizeof *transposed);
  memset(transposed - conv->gradient_before * pitch, 0, (size_t)(conv->gradient_before * pitch) * sizeof *transposed);
  if (conv->skips_weights) /* whole vectors; the next row, or zeros, overwrite the surplus */
    places = (places + TRANSPOSED - 1) / TRANSPOSED * TRANSPOSED;
  dz += (int64_t)first * p->out_width;
  for (int64_t row = 0; row < rows; row += step, dz += step * p->out_width) {
    for (int32_t g = 0; g < p->groups; g++)
      gconv_learn_transpose(dz + g * filters * plane, plane, filters, places, transposed + g * conv->group_filters, pitch);
    transposed += step * conv->gradient_pitch * pitch;
    memset(transposed - gap, 0, (size_t)gap * sizeof *transposed);
  }
  if (conv->skips_weights)
    memset(transposed, 0, (size_t)(conv->stage.reach_y * conv->stage.pitch * pitch) * sizeof *transposed);
}

/* Returns how many rows of outputs have gradients that fit into the L1 cache. */
static int64_t outer_rows(const gconv_learn_conv *conv) {
  return larger(OUTER_FLOATS / (conv->gradient_pitch * conv->group_filters * conv->problem.groups), 1);
}

/* Computes the gradient of a group's weights, with vectors of filters. `transposed` has the gradients [place][filter] of all
 * groups. */
static void weights_by_filters(const gconv_learn_conv *conv, const float *staged, int64_t rows, const float *transposed,
                               float *gradient) {
  const gconv_layer_problem *p = &conv->problem;
  int64_t pitch = conv->group_filters * p->groups, step = outer_rows(conv);
  for (int64_t row = 0; row < rows; row += step) {
    gconv_outer outer = {.offsets = conv->offsets,
                         .rows = smaller(step, rows - row),
                         .x_pitch = conv->stage.pitch,
                         .columns = p->out_width,
                         .g_pitch = pitch,
                         .g_gap = (conv->gradient_pitch - p->out_width) * pitch,
                         .out_pitch = conv->group_filters,
                         .begins = row == 0};
    gconv_learn_outer(&outer, conv->taps, p->filters / p->groups, staged + row * conv->stage.pitch,
                      transposed + row * conv->gradient_pitch * pitch, gradient);
  }
}

/* Returns whether no product of a sample and a gradient has bits below the smallest float, 2^-149. Then all sums are
 * multiples of 2^-149, and none is rounded to -0. The last bit of a float is 2^-23 times its first bit. So the product of
 * the first bits of the least sample and the least gradient must be at least 2^(-149 + 2 * 23) = 2^-103. */
static bool is_above_least(const gconv_learn_conv *conv, const float *staged, int64_t rows, const float *transposed) {
  const gconv_layer_problem *p = &conv->problem;
  float x = INFINITY;
  for (int64_t c = 0; c < p->channels / p->groups; c++)
    x = fminf(x, gconv_learn_least(staged + c * conv->stage.channel, rows * conv->stage.pitch));
  float g = gconv_learn_least(transposed, rows * conv->gradient_pitch * conv->group_filters * p->groups);
  return !(x < INFINITY && g < INFINITY) || ilogbf(x) + ilogbf(g) >= -103;
}

/* The rows of taps, first .. end - 1, that lie over row y of a band's stage for any of the band's `rows` rows of outputs. */
typedef struct tap_rows {
  int64_t first, end;
} tap_rows;

static tap_rows taps_of_row(const gconv_layer_problem *p, int64_t y, int64_t rows) {
  int64_t past = larger(y - rows + 1, 0);
  return (tap_rows){(past + p->dilation_y - 1) / p->dilation_y, smaller(y / p->dilation_y + 1, p->rows)};
}

static bool same_taps(tap_rows a, tap_rows b) {
  return a.first == b.first && a.end == b.end;
}

/* Computes the gradient of a group's weights from the samples that are not 0. Gradients must be finite. Samples at the
 * border are also multiplied by the zeros around the gradients, and an infinite sample times 0 is NaN. So if a sum is not
 * finite, or may be -0, the whole group is computed again. */
static void weights_of_nonzero(const gconv_learn_conv *conv, const float *staged, int64_t rows, const float *transposed,
                               int32_t *list, float *gradient) {
  const gconv_layer_problem *p = &conv->problem;
  const gconv_layer_stage *stage = &conv->stage;
  int64_t filters = p->filters / p->groups, channels = p->channels / p->groups, plane = (int64_t)p->rows * p->columns;
  int64_t pitch = conv->group_filters * p->groups, step = outer_rows(conv), all = rows + stage->reach_y;
  memset(gradient, 0, (size_t)(conv->taps * conv->group_filters) * sizeof *gradient);
  for (int64_t row = 0, count; row < all; row += count) {
    tap_rows r = taps_of_row(p, row, rows);
    for (count = 1; count < step && row + count < all && same_taps(r, taps_of_row(p, row + count, rows)); count++)
      ;
    for (int64_t c = 0; c < channels; c++) {
      const float *x = staged + c * stage->channel + row * stage->pitch;
      gconv_listed listed = {.list = list,
                             .count = gconv_learn_list(x, count * stage->pitch, list),
                             .g_pitch = pitch,
                             .out_pitch = conv->group_filters};
      gconv_learn_outer_listed(&listed, conv->offsets + r.first * p->columns, (r.end - r.first) * p->columns, filters, x,
                               transposed + row * stage->pitch * pitch,
                               gradient + (c * plane + r.first * p->columns) * conv->group_filters);
    }
  }
  if (!gconv_learn_finite(gradient, conv->taps * conv->group_filters) ||
      (gconv_learn_any_zero(gradient, conv->taps, conv->group_filters, filters) &&
       !is_above_least(conv, staged, all, transposed)))
    weights_by_filters(conv, staged, rows, transposed, gradient);
}

/* Computes the gradient of a group's weights, with vectors of channels. */
static void weights_by_channels(const gconv_learn_conv *conv, const float *staged, int64_t rows, const float *transposed,
                                float *workspace, float *gradient) {
  const gconv_layer_problem *p = &conv->problem;
  int64_t filters = p->filters / p->groups, channels = p->channels / p->groups, plane = (int64_t)p->rows * p->columns;
  float *x = channels_of(conv, workspace), *sums = x + padded(conv->by_channel);
  if (filters < conv->group_filters)
    memset(gradient, 0, (size_t)(conv->taps * conv->group_filters) * sizeof *gradient);
  if (channels < conv->group_channels)
    memset(x, 0, conv->by_channel * sizeof *x);
  bool bands = conv->stage.in_place || conv->is_staged; /* the stage of a band is a part of the stage of all rows */
  int64_t floats = bands ? (rows + conv->stage.reach_y) * conv->stage.pitch : conv->stage.channel;
  gconv_learn_transpose(staged, conv->stage.channel, channels, floats, x, conv->group_channels);
  int64_t width = conv->taps_at_once * conv->group_channels;
  gconv_gather gather = {.a = transposed,
                         .a_pitch = conv->group_filters * p->groups,
                         .offsets = conv->places_of_band,
                         .count = rows * p->out_width,
                         .out_pitch = width};
  for (int64_t tap = 0; tap < plane; tap += conv->taps_at_once) {
    gconv_learn_gather(&gather, filters, width, x + conv->offsets[tap] * conv->group_channels, sums);
    for (int64_t k = 0; k < filters; k++)
      for (int64_t s = 0; s < conv->taps_at_once; s++)
        for (int64_t c = 0; c < channels; c++)
          gradient[(c * plane + tap + s) * conv->group_filters + k] = sums[k * width + s * conv->group_channels + c];
  }
}

void gconv_learn_conv_weights(const gconv_learn_conv *conv, const float *x, const float *dz, int32_t band, float *workspace,
                              float *gradient) {
  const gconv_layer_problem *p = &conv->problem;
  int64_t channels = p->channels / p->groups;
  int32_t band_rows = gconv_learn_band_rows(p), first = band * band_rows;
  int64_t rows = smaller(band_rows, p->out_height - first), pitch = conv->group_filters * p->groups;
  float *transposed = sums_of(conv, workspace) + conv->gradient_before * pitch, *biases = gradient + conv->weights;
  const float *staged = stage_input(conv, x, first, (int32_t)rows, workspace);
  transpose_gradient(conv, dz, first, rows, transposed);
  gconv_learn_sum_rows(transposed, rows * conv->gradient_pitch, pitch, biases);
  /* If a sum of gradients is finite, each gradient is. */
  const bool skips = conv->skips_weights && gconv_learn_finite(biases, pitch);
  for (int32_t g = 0; g < p->groups; g++) {
    const float *of_group = staged + g * channels * conv->stage.channel, *dz_of_group = transposed + g * conv->group_filters;
    float *to = gradient + g * conv->taps * conv->group_filters;
    if (conv->by_channels)
      weights_by_channels(conv, of_group, rows, dz_of_group, workspace, to);
    else if (skips)
      weights_of_nonzero(conv, of_group, rows, dz_of_group, marks_of(conv, workspace), to);
    else
      weights_by_filters(conv, of_group, rows, dz_of_group, to);
  }
}

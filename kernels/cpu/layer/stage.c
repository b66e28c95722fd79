/* SPDX-License-Identifier: MIT */
#include "stage.h"
#include "../tile.h"
#include "base/cpu.h"
#include "kernels/activation.h"

#include <string.h>

static int32_t smaller(int32_t a, int32_t b) {
  return a < b ? a : b;
}

gconv_layer_stage gconv_layer_stage_of(const gconv_layer_problem *problem, int32_t rows, int32_t least_width) {
  gconv_layer_stage stage = {
      .phases_y = smaller(problem->rows, gconv_tap_period(problem->stride_y, problem->dilation_y)),
      .phases_x = smaller(problem->columns, gconv_tap_period(problem->stride_x, problem->dilation_x)),
      .reach_y = (int32_t)((int64_t)(problem->rows - 1) * problem->dilation_y / problem->stride_y),
      .reach_x = (int32_t)((int64_t)(problem->columns - 1) * problem->dilation_x / problem->stride_x),
  };
  stage.in_place = problem->stride_y == 1 && problem->stride_x == 1 && problem->pad_top == 0 && problem->pad_left == 0 &&
                   problem->out_width >= least_width && (int64_t)problem->out_height + stage.reach_y <= problem->height &&
                   (int64_t)problem->out_width + stage.reach_x <= problem->width;
  stage.step = 1;
  stage.pitch = stage.in_place ? problem->width : (int64_t)problem->out_width + stage.reach_x;
  stage.phase = stage.in_place ? 0 : stage.pitch * ((int64_t)rows + stage.reach_y);
  stage.channel = stage.in_place ? gconv_layer_in_plane(problem) : stage.phase * stage.phases_y * stage.phases_x;
  return stage;
}

gconv_layer_stage gconv_layer_stage_of_any_step(const gconv_layer_problem *problem, int32_t rows) {
  int64_t last_y =
      (problem->out_height - 1) * (int64_t)problem->stride_y + (problem->rows - 1) * (int64_t)problem->dilation_y;
  int64_t last_x =
      (problem->out_width - 1) * (int64_t)problem->stride_x + (problem->columns - 1) * (int64_t)problem->dilation_x;
  if (problem->pad_top != 0 || problem->pad_left != 0 || last_y >= problem->height || last_x >= problem->width)
    return gconv_layer_stage_of(problem, rows, 1);
  return (gconv_layer_stage){.phases_y = 1,
                             .phases_x = 1,
                             .pitch = (int64_t)problem->width * problem->stride_y,
                             .channel = gconv_layer_in_plane(problem),
                             .step = problem->stride_x,
                             .in_place = true};
}

size_t gconv_layer_stage_floats(const gconv_layer_stage *stage, int64_t channels) {
  return stage->in_place ? 0 : ((size_t)(channels * stage->channel) + GCONV_STAGE_SLACK + 15) / 16 * 16;
}

void gconv_layer_stage_offsets(const gconv_layer_stage *stage, const gconv_layer_problem *problem, int64_t *offsets) {
  for (int32_t r = 0; r < problem->rows; r++)
    for (int32_t s = 0; s < problem->columns; s++) {
      if (stage->in_place) {
        *offsets++ = (int64_t)r * problem->dilation_y * problem->width + (int64_t)s * problem->dilation_x;
        continue;
      }
      int64_t phase = (int64_t)(r % stage->phases_y) * stage->phases_x + s % stage->phases_x;
      int64_t y = (int64_t)r * problem->dilation_y / problem->stride_y;
      int64_t x = (int64_t)s * problem->dilation_x / problem->stride_x;
      *offsets++ = phase * stage->phase + y * stage->pitch + x;
    }
}

static void fill_zeros(float *to, int64_t count) {
  if (count < 16)
    for (int64_t i = 0; i < count; i++)
      to[i] = 0;
  else
    memset(to, 0, (size_t)count * sizeof *to);
}

#ifdef __clang__
#define NO_DEPENDENCES
#else
#define NO_DEPENDENCES _Pragma("GCC ivdep") /* phases do not overlap */
#endif

/* Divide a row into its phases: to[b * phase + i] = from[stride * i + b]. */
#define SPLIT_PARAMETERS (const float *restrict from, float *restrict to, int64_t phase, int64_t count)
GCONV_VECTOR_LOOP(split_by_2, SPLIT_PARAMETERS, (from, to, phase, count)) {
  float *restrict second = to + phase;
  NO_DEPENDENCES for (int64_t i = 0; i < count; i++) {
    to[i] = from[2 * i];
    second[i] = from[2 * i + 1];
  }
}
GCONV_VECTOR_LOOP(split_by_4, SPLIT_PARAMETERS, (from, to, phase, count)) {
  float *restrict second = to + phase, *restrict third = second + phase, *restrict fourth = third + phase;
  NO_DEPENDENCES for (int64_t i = 0; i < count; i++) {
    to[i] = from[4 * i];
    second[i] = from[4 * i + 1];
    third[i] = from[4 * i + 2];
    fourth[i] = from[4 * i + 3];
  }
}

/* Makes phase (a, b) of one channel: each row is row[left + i * stride] for 0 <= i < pitch, or 0 outside the image. */
static void stage_phase(const gconv_layer_stage *stage, const gconv_layer_problem *problem, const float *in, int32_t a,
                        int32_t b, int32_t first, int32_t rows, float *to) {
  const int64_t top = (int64_t)a * problem->dilation_y % problem->stride_y - problem->pad_top;
  const int64_t left = (int64_t)b * problem->dilation_x % problem->stride_x - problem->pad_left;
  const int64_t stride = problem->stride_x, count = stage->pitch, width = problem->width;
  const int64_t from = left < 0 ? gconv_clamp(gconv_divide_up(-left, stride), 0, count) : 0;
  const int64_t end = left < width ? gconv_clamp(gconv_divide_up(width - left, stride), from, count) : from;
  for (int64_t i = 0; i < (int64_t)rows + stage->reach_y; i++, to += count) {
    const int64_t y = ((int64_t)first + i) * problem->stride_y + top;
    if (y < 0 || y >= problem->height) {
      fill_zeros(to, count);
      continue;
    }
    const float *row = in + y * width + left;
    fill_zeros(to, from);
    fill_zeros(to + end, count - end);
    if (stride == 1)
      gconv_layer_copy_row(row + from, to + from, end - from);
    else
      for (int64_t k = from; k < end; k++)
        to[k] = row[stride * k];
  }
}

/* Makes positions begin .. end - 1 of all phases of a row, sample by sample; outside the image, they are 0. */
static void split_edge(const gconv_layer_stage *stage, const gconv_layer_problem *problem, const float *row, int64_t begin,
                       int64_t end, float *to) {
  for (int64_t i = begin; i < end; i++)
    for (int32_t b = 0; b < stage->phases_x; b++) {
      const int64_t x = i * problem->stride_x + b - problem->pad_left;
      to[b * stage->phase + i] = x >= 0 && x < problem->width ? row[x] : 0;
    }
}

/* Returns whether all phases of a row are made in one loop. */
static bool splits(const gconv_layer_stage *stage, const gconv_layer_problem *problem) {
  return (problem->stride_x == 2 || problem->stride_x == 4) && stage->phases_x == problem->stride_x &&
         problem->dilation_x == 1;
}

/* Makes phases (a, 0), (a, 1) ... of one channel. */
static void split_phases(const gconv_layer_stage *stage, const gconv_layer_problem *problem, const float *in, int32_t a,
                         int32_t first, int32_t rows, float *to) {
  const int64_t stride = problem->stride_x, count = stage->pitch;
  const int64_t from = problem->pad_left > 0 ? gconv_clamp(gconv_divide_up(problem->pad_left, stride), 0, count) : 0;
  const int64_t end = gconv_clamp(((int64_t)problem->width + problem->pad_left) / stride, from, count);
  const int64_t top = (int64_t)a * problem->dilation_y % problem->stride_y - problem->pad_top;
  for (int64_t i = 0; i < (int64_t)rows + stage->reach_y; i++, to += stage->pitch) {
    const int64_t y = ((int64_t)first + i) * problem->stride_y + top;
    const float *row = in + y * problem->width;
    if (y < 0 || y >= problem->height) {
      for (int64_t b = 0; b < stride; b++)
        fill_zeros(to + b * stage->phase, count);
      continue;
    }
    split_edge(stage, problem, row, 0, from, to);
    (stride == 2 ? split_by_2 : split_by_4)(row + from * stride - problem->pad_left, to + from, stage->phase, end - from);
    split_edge(stage, problem, row, end, count, to);
  }
}

const float *gconv_layer_stage_fill(const gconv_layer_stage *stage, const gconv_layer_problem *problem, const float *in,
                                    int64_t channels, int32_t first, int32_t rows, float *to) {
  if (stage->in_place)
    return in + first * stage->pitch;
  const bool together = splits(stage, problem);
  for (int64_t c = 0; c < channels; c++, in += gconv_layer_in_plane(problem))
    for (int32_t a = 0; a < stage->phases_y; a++) {
      float *phase = to + c * stage->channel + (int64_t)a * stage->phases_x * stage->phase;
      if (together)
        split_phases(stage, problem, in, a, first, rows, phase);
      for (int32_t b = 0; b < stage->phases_x && !together; b++)
        stage_phase(stage, problem, in, a, b, first, rows, phase + b * stage->phase);
    }
  return to;
}

/* The activation is a constant where this is inlined. So the compiler makes vector code of gconv_activate(), which all
 * devices share. */
GCONV_INLINE void activate_body(float *values, size_t count, gconv_activation activation, float slope) {
  const gconv_layer_problem problem = {.activation = activation, .slope = slope};
  for (size_t i = 0; i < count; i++)
    values[i] = gconv_activate(&problem, values[i]);
}

#define ACTIVATE(name, VALUE)                                                                                               \
  GCONV_VECTOR_LOOP(activate_##name, (float *values, size_t count, float slope), (values, count, slope)) {                  \
    activate_body(values, count, VALUE, slope);                                                                             \
  }
GCONV_EACH_ACTIVATION(ACTIVATE)

void gconv_layer_activate(const gconv_layer_problem *problem, float *values, size_t count) {
#define ROW(name, VALUE) [VALUE] = activate_##name,
  static void (*const functions[])(float *, size_t, float) = {GCONV_EACH_ACTIVATION(ROW)};
#undef ROW
  /* softmax is a separate pass */
  if (problem->activation != GCONV_ACTIVATION_NONE && problem->activation != GCONV_ACTIVATION_SOFTMAX)
    functions[problem->activation](values, count, problem->slope);
  gconv_layer_follow(problem, values, count);
}

GCONV_INLINE void finish_row(const gconv_layer_problem *problem, const float *restrict sums, const float *restrict biases,
                             int64_t count, float *restrict out) {
  for (int64_t f = 0; f < count; f++)
    out[f] = gconv_activate(problem, sums[f] + biases[f]);
}

/* For 32 and 16 filters, the compiler makes loops without remainders. */
GCONV_INLINE void finish_body(const float *sums, int64_t pitch, const float *biases, int64_t count, int64_t rows, float *out,
                              int64_t out_pitch, float slope, gconv_activation activation) {
  const gconv_layer_problem problem = {.activation = activation, .slope = slope};
  for (int64_t n = 0; n < rows; n++, sums += pitch, out += out_pitch)
    if (count == 32)
      finish_row(&problem, sums, biases, 32, out);
    else if (count == 16)
      finish_row(&problem, sums, biases, 16, out);
    else
      finish_row(&problem, sums, biases, count, out);
}

#define FINISH_PARAMETERS                                                                                                   \
  (const float *sums, int64_t pitch, const float *biases, int64_t count, int64_t rows, float *out, int64_t out_pitch,       \
   float slope)
typedef void finish FINISH_PARAMETERS;
#define FINISH(name, VALUE)                                                                                                 \
  GCONV_VECTOR_LOOP(finish_##name, FINISH_PARAMETERS, (sums, pitch, biases, count, rows, out, out_pitch, slope)) {          \
    finish_body(sums, pitch, biases, count, rows, out, out_pitch, slope, VALUE);                                            \
  }
GCONV_EACH_ACTIVATION(FINISH)

void gconv_layer_finish(const gconv_layer_problem *problem, const float *sums, int64_t pitch, const float *biases,
                        int64_t count, int64_t rows, float *out) {
#define ROW(name, VALUE) [VALUE] = finish_##name,
  static finish *const finishes[] = {GCONV_EACH_ACTIVATION(ROW)[GCONV_ACTIVATION_SOFTMAX] = finish_none};
#undef ROW
  finishes[problem->activation](sums, pitch, biases, count, rows, out, problem->filters, problem->slope);
  for (int64_t n = 0; n < rows && problem->tail; n++)
    gconv_layer_follow(problem, out + n * problem->filters, (size_t)count);
}

double gconv_layer_cpu_ms(const gconv_layer_problem *problem, const gconv_machine *machine, double multiplications,
                          double moving_ns) {
  double samples = (double)problem->images * problem->channels * problem->height * problem->width;
  double threads = machine->fma_per_ms / GCONV_REFERENCE_FMA_PER_MS; /* of the reference CPU */
  double moving_ms = (moving_ns + samples * 0.4) * 1e-6 / threads;
  double outputs = (double)problem->images * problem->filters * problem->out_height * problem->out_width;
  double bytes = fmax(outputs * sizeof(float) - 32e6, 0); /* outputs that caches do not keep */
  return machine->launch_ms + multiplications / machine->fma_per_ms + moving_ms + bytes / machine->bytes_per_ms;
}

float gconv_layer_sum(const gconv_layer_problem *problem, const float *in, const float *weights, int64_t row,
                      int64_t column) {
  const int64_t top = row * problem->stride_y - problem->pad_top, left = column * problem->stride_x - problem->pad_left;
  const int64_t channels = problem->channels / problem->groups;
  float sum = 0;
  for (int64_t c = 0; c < channels; c++)
    for (int64_t r = 0; r < problem->rows; r++)
      for (int64_t s = 0; s < problem->columns; s++, weights++) {
        const int64_t y = top + r * problem->dilation_y, x = left + s * problem->dilation_x;
        const bool inside = y >= 0 && y < problem->height && x >= 0 && x < problem->width;
        const int64_t pixel = y * problem->width + x;
        const int64_t at = problem->in_blocks
                               ? (c / GCONV_BLOCK * gconv_layer_in_plane(problem) + pixel) * GCONV_BLOCK + c % GCONV_BLOCK
                               : c * gconv_layer_in_plane(problem) + pixel;
        sum = fmaf(*weights, inside ? in[at] : 0, sum);
      }
  return sum;
}

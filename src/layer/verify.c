/* SPDX-License-Identifier: MIT */
/*
 * Verification: a network once more in float64, with the error that is allowed at each value of each layer. Errors of the
 * layers before are carried on: by sum |weight| * error through a convolution, by the steepest slope through an activation.
 */
#include "operation/verify.h"
#include "base/memory.h"
#include "layer/border.h"
#include "layer/input.h"
#include "operation/stages.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static const double UNIT = 0x1p-24; /* of rounding */

/* A tensor in float64, and how far a correct program may be from each value; both owned, in one piece. */
typedef struct field {
  double *value, *allowed;
  size_t count;
} field;

static gconv_status make_field(size_t count, field *f) {
  void *memory = NULL;
  GCONV_TRY(gconv_allocate(gconv_product(3, (size_t[]){count, 2, sizeof(double)}), "a verification", &memory));
  *f = (field){memory, (double *)memory + count, count};
  return GCONV_OK;
}

static void free_field(field *f) {
  gconv_release(f->value);
  *f = (field){0};
}

/* ---- The input ---- */

static gconv_status make_input(const gconv_network_plan *network, const gconv_image *in, field *f) {
  const gconv_input *input = &network->input;
  size_t height = (size_t)input->height, width = (size_t)input->width, channels = (size_t)input->channels;
  GCONV_TRY(make_field((size_t)input->images * channels * height * width, f));
  double white = (double)gconv_white(input->type);
  for (size_t i = 0; i < f->count; i++) {
    size_t c = i / (height * width) % channels;
    int32_t frame = (int32_t)(i / (height * width * channels));
    double v = gconv_sample_at(in, frame, (int32_t)c, (int64_t)(i / width % height), (int64_t)(i % width)) / white;
    double allowed = white == 1 ? 0 : UNIT * fabs(v);
    if (input->mean) {
      v -= (double)input->mean[c];
      allowed += UNIT * fabs(v);
    }
    if (input->std) {
      v /= (double)input->std[c];
      allowed = allowed / fabs((double)input->std[c]) + UNIT * fabs(v);
    }
    f->value[i] = v;
    f->allowed[i] = allowed;
  }
  return GCONV_OK;
}

/* ---- A layer ---- */

typedef struct layer_job {
  const gconv_step *step;
  const field *in;
  field *out;
  double bound;
} layer_job;

static double activate(const gconv_layer_problem *problem, double v) {
  switch (problem->activation) {
  case GCONV_ACTIVATION_RELU:
    return v < 0 ? 0 : v;
  case GCONV_ACTIVATION_LEAKY:
    return v < 0 ? v * (double)problem->slope : v;
  case GCONV_ACTIVATION_SIGMOID:
    return 1 / (1 + exp(-v * (double)problem->slope));
  case GCONV_ACTIVATION_TANH:
    return tanh(v);
  case GCONV_ACTIVATION_NONE:
  case GCONV_ACTIVATION_SOFTMAX:
    break;
  }
  return v;
}

/* The error after the activation: multiplied by its steepest slope, plus its own error, which is a rounding or that of exp
 * in activation.h. */
static double activate_error(const gconv_layer_problem *problem, double allowed, double v) {
  switch (problem->activation) {
  case GCONV_ACTIVATION_LEAKY:
    return allowed * fmax(1, fabs((double)problem->slope)) + UNIT * fabs(v);
  case GCONV_ACTIVATION_SIGMOID: /* a rounding of slope * v is no more than 0.28 roundings of the result: x s'(x) < 0.28 */
    return allowed * fabs((double)problem->slope) / 4 + 0x1p-20 * fabs(v) + 0.28 * UNIT;
  case GCONV_ACTIVATION_TANH:
    return allowed + 0x1p-20 * fabs(v);
  case GCONV_ACTIVATION_NONE:
  case GCONV_ACTIVATION_RELU:
  case GCONV_ACTIVATION_SOFTMAX:
    break;
  }
  return allowed;
}

/* The sums over the taps of one output. */
typedef struct sums {
  double value;     /* w x */
  double magnitude; /* |w| (|x| + its error) */
  double carried;   /* |w| * error of x */
  double weights;   /* |w|, of all taps */
} sums;

static sums sum_at(const layer_job *job, int32_t n, int32_t k, int32_t p, int32_t q) {
  const gconv_layer_problem *problem = &job->step->problem;
  int32_t channels = problem->channels / problem->groups, first = k / (problem->filters / problem->groups) * channels;
  const float *weight = job->step->weights + k * gconv_layer_taps(problem);
  sums s = {0};
  for (int32_t c = 0; c < channels; c++) {
    int64_t plane = ((int64_t)n * problem->channels + first + c) * problem->height * problem->width;
    for (int32_t r = 0; r < problem->rows; r++)
      for (int32_t t = 0; t < problem->columns; t++, weight++) {
        int64_t y = (int64_t)p * problem->stride_y - problem->pad_top + (int64_t)r * problem->dilation_y;
        int64_t x = (int64_t)q * problem->stride_x - problem->pad_left + (int64_t)t * problem->dilation_x;
        double w = (double)*weight;
        s.weights += fabs(w);
        if (y < 0 || y >= problem->height || x < 0 || x >= problem->width)
          continue;
        double v = job->in->value[plane + y * problem->width + x], e = job->in->allowed[plane + y * problem->width + x];
        s.value += w * v;
        s.magnitude += fabs(w) * (fabs(v) + e);
        s.carried += fabs(w) * e;
      }
  }
  return s;
}

/* The largest |x|, with its error, of the channels that filter k of image n sees. */
static double largest_of(const layer_job *job, int32_t n, int32_t k) {
  const gconv_layer_problem *problem = &job->step->problem;
  int32_t channels = problem->channels / problem->groups, group = k / (problem->filters / problem->groups);
  int64_t plane = (int64_t)problem->height * problem->width, count = channels * plane;
  int64_t first = ((int64_t)n * problem->channels + (int64_t)group * channels) * plane;
  double largest = 0;
  for (int64_t i = first; i < first + count; i++)
    largest = fmax(largest, fabs(job->in->value[i]) + job->in->allowed[i]);
  return largest;
}

/* A plane of the layer's output. */
static void compute_plane(void *context, size_t turn, int thread) {
  const layer_job *job = context;
  const gconv_layer_problem *problem = &job->step->problem;
  (void)thread;
  int32_t n = (int32_t)(turn / (size_t)problem->filters), k = (int32_t)(turn % (size_t)problem->filters);
  double bias = (double)gconv_layer_biases(problem, job->step->weights)[k];
  bool mixes = job->step->algorithm->bound_of_largest;
  double largest = mixes ? largest_of(job, n, k) : 0;
  size_t i = turn * (size_t)problem->out_height * (size_t)problem->out_width;
  for (int32_t p = 0; p < problem->out_height; p++)
    for (int32_t q = 0; q < problem->out_width; q++, i++) {
      sums s = sum_at(job, n, k, p, q);
      double magnitude = mixes ? s.weights * largest : s.magnitude;
      bool certain = isfinite(s.value) && magnitude < FLT_MAX; /* else a sum in float32 may overflow */
      double allowed = certain ? job->bound * (magnitude + fabs(bias)) + s.carried : INFINITY;
      job->out->value[i] = activate(problem, s.value + bias);
      job->out->allowed[i] = activate_error(problem, allowed, job->out->value[i]);
    }
}

/* ---- Layers without weights, and softmax ---- */

/* Sums are float64: what they lose is far below the rounding of the result. */
static void average_plane(const field *in, size_t plane, size_t count, field *out) {
  double sum = 0, allowed = 0, magnitude = 0;
  for (size_t i = plane * count; i < (plane + 1) * count; i++) {
    sum += in->value[i];
    magnitude += fabs(in->value[i]) + in->allowed[i];
    allowed += in->allowed[i];
  }
  const double n = (double)count;
  out->value[plane] = sum / n;
  out->allowed[plane] = allowed / n + UNIT * (fabs(sum) + allowed) / n + (n + 2) * 0x1p-52 * magnitude / n;
}

/* Pads a field. Repeated values keep their error; a constant has none. */
static void pad_field(const gconv_network_plan *network, const gconv_step *step, const field *in, field *out) {
  const gconv_padding_job how = gconv_padding_job_of(network, step, 0);
  for (size_t i = 0; i < out->count; i++) {
    size_t line = i / (size_t)how.columns, plane = line / (size_t)how.rows;
    int64_t y = gconv_padding_row(&how, (int64_t)(line % (size_t)how.rows));
    int64_t x = gconv_padding_column(&how, (int64_t)(i % (size_t)how.columns));
    bool inside = x != GCONV_OUTSIDE && y != GCONV_OUTSIDE;
    size_t from = inside ? (plane * (size_t)how.height + (size_t)y) * (size_t)how.width + (size_t)x : 0;
    out->value[i] = inside ? in->value[from] : (double)how.outside;
    out->allowed[i] = inside ? in->allowed[from] : 0;
  }
}

static void add_input(const field *in, const field *input, field *out) {
  for (size_t i = 0; i < out->count; i++) {
    out->value[i] = in->value[i] + input->value[i];
    double allowed = in->allowed[i] + input->allowed[i];
    out->allowed[i] = allowed + UNIT * (fabs(out->value[i]) + allowed);
  }
}

/* With errors of the values up to e, each output is off by a factor of e^(2e) at most. The exponents v - largest are
 * rounded, which for the sum counts by the weight of each; the exponential has the error that activation.h says, and is 0
 * below e^-87. */
static void normalise_place(field *f, size_t first, size_t count, size_t distance) {
  double largest = f->value[first], error = f->allowed[first], sum = 0, rounded = 0;
  for (size_t k = 1; k < count; k++) {
    largest = fmax(largest, f->value[first + k * distance]);
    error = fmax(error, f->allowed[first + k * distance]);
  }
  for (size_t k = 0; k < count; k++) {
    double e = exp(f->value[first + k * distance] - largest);
    sum += e;
    rounded += e * (largest - f->value[first + k * distance] + 2 * error);
  }
  for (size_t k = 0; k < count; k++) {
    double *value = &f->value[first + k * distance], exponent = largest - *value + 2 * error;
    double own = expm1(2 * error) + UNIT * (exponent + rounded / sum) + 0x1p-20 + (double)count * UNIT;
    *value = exp(*value - largest) / sum;
    f->allowed[first + k * distance] = fmin(1, *value * own + (double)count * 2e-38);
  }
}

static void apply_softmax(const gconv_step *step, field *f) {
  const size_t plane = (size_t)step->problem.out_height * (size_t)step->problem.out_width;
  const size_t filters = (size_t)step->problem.filters;
  for (size_t i = 0; i < (size_t)step->images * plane; i++)
    normalise_place(f, i / plane * filters * plane + i % plane, filters, plane);
}

/* ---- Any layer ---- */

/* Replaces the input of the step by its output. `input` is that of the first. */
static gconv_status apply_step(const gconv_network_plan *network, const gconv_step *step, const field *input,
                               field *tensor) {
  field out;
  const gconv_layer_problem *problem = &step->problem;
  size_t planes = (size_t)step->images * (size_t)problem->filters;
  GCONV_TRY(make_field(planes * (size_t)problem->out_height * (size_t)problem->out_width, &out));
  layer_job job = {step, tensor, &out, step->algorithm ? step->algorithm->error_bound(problem) : 0};
  if (step->pads)
    pad_field(network, step, tensor, &out);
  else
    switch (step->kind) {
    case GCONV_LAYER_CONV:
      gconv_threads_run(network->base.device->threads, planes, compute_plane, &job);
      break;
    case GCONV_LAYER_MEAN:
      for (size_t i = 0; i < planes; i++)
        average_plane(tensor, i, (size_t)problem->height * (size_t)problem->width, &out);
      break;
    case GCONV_LAYER_RESIDUAL:
      add_input(tensor, input, &out);
      break;
    }
  if (step->softmax)
    apply_softmax(step, &out);
  if (tensor->value != input->value)
    free_field(tensor);
  *tensor = out;
  return GCONV_OK;
}

/* ---- Combining ---- */

/* The expected combination of `count` values from i on, `distance` apart. */
static double combine_at(const gconv_network_plan *network, const field *tensor, size_t i, size_t distance,
                         double *allowed) {
  double value = tensor->value[i], error = tensor->allowed[i];
  if (network->combine == GCONV_COMBINE_MAGNITUDE) {
    error = 2 * fabs(value) * error + error * error + UNIT * value * value;
    value *= value;
  }
  for (int32_t k = 1; k < network->combined; k++) {
    double v = tensor->value[i + (size_t)k * distance], e = tensor->allowed[i + (size_t)k * distance];
    if (network->combine == GCONV_COMBINE_MAX) {
      value = fmax(value, v);
      error = fmax(error, e);
      continue;
    }
    bool square = network->combine == GCONV_COMBINE_MAGNITUDE;
    value += square ? v * v : v;
    error += (square ? 2 * fabs(v) * e + e * e : e) + UNIT * (fabs(value) + error);
  }
  if (network->combine == GCONV_COMBINE_MAGNITUDE) { /* |sqrt(a + e) - sqrt(a)| <= e / sqrt(a), and <= sqrt(e) */
    double root = sqrt(value);
    error = fmin(sqrt(error), root > 0 ? error / root : INFINITY) + UNIT * root;
    value = root;
  }
  *allowed = error;
  return value;
}

/* The answer of argmax: the number of the largest value; an answer whose value, with errors, reaches that of the largest is
 * as good. */
static double argmax_at(const gconv_network_plan *network, const field *tensor, size_t i, size_t distance, double got) {
  int32_t best = 0;
  for (int32_t k = 0; k < network->combined; k++)
    if (!isfinite(tensor->value[i + (size_t)k * distance]))
      return (double)NAN;
  for (int32_t k = 1; k < network->combined; k++)
    if (tensor->value[i + (size_t)k * distance] > tensor->value[i + (size_t)best * distance])
      best = k;
  double most = tensor->value[i + (size_t)best * distance] - tensor->allowed[i + (size_t)best * distance];
  for (int32_t k = 0; k < network->combined; k++) {
    size_t at = i + (size_t)k * distance;
    if (k % network->filters == got && !(tensor->value[at] + tensor->allowed[at] < most))
      return got;
  }
  return best % network->filters;
}

/* ---- Comparing ---- */

typedef struct maps_check {
  const gconv_network_plan *network;
  const field *tensor; /* what the last layer yields */
} maps_check;

static gconv_expectation expect_sample(const void *context, const gconv_sample_place *at, double got) {
  const maps_check *check = context;
  const gconv_network_plan *network = check->network;
  const gconv_image *out = &network->out;
  size_t plane = (size_t)out->height * (size_t)out->width;
  size_t number = (size_t)at->frame * (size_t)out->channels + (size_t)at->channel;
  size_t in_plane = (size_t)at->y * (size_t)out->width + (size_t)at->x;
  gconv_expectation v = {0, 0};
  if (network->combine == GCONV_COMBINE_NONE)
    return (gconv_expectation){check->tensor->value[number * plane + in_plane],
                               check->tensor->allowed[number * plane + in_plane]};
  size_t first = number * (size_t)network->combined * plane + in_plane;
  if (network->combine == GCONV_COMBINE_ARGMAX)
    v.value = argmax_at(network, check->tensor, first, plane, got);
  else
    v.value = combine_at(network, check->tensor, first, plane, &v.allowed);
  return v;
}

static gconv_status compare(const gconv_network_plan *network, const field *tensor, const gconv_image *maps,
                            double tolerance, gconv_verification *result) {
  maps_check check = {network, tensor};
  gconv_comparison comparison = {network->base.device->threads,
                                 maps,
                                 0,
                                 tolerance,
                                 1,
                                 expect_sample,
                                 &check,
                                 maps == &network->maps ? NULL : network->base.scope}; /* maps are not blended */
  for (int32_t frame = 0; frame < maps->frames; frame++)
    GCONV_TRY(gconv_compare_frame(&comparison, frame, result));
  return GCONV_OK;
}

gconv_status gconv_network_verify(gconv_plan *plan, const gconv_image *in, const gconv_image *outputs, double tolerance,
                                  double budget, gconv_verification *result) {
  const gconv_network_plan *network = (const gconv_network_plan *)plan;
  (void)budget; /* every output needs all of the layers before */
  if (network->by_rows)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a plan by rows cannot be verified: make one for whole images");
  if (gconv_presenter_presents(&network->presenter) && !network->maps.data)
    return gconv_fail(GCONV_BAD_ARGUMENT, "pictures are verified by the maps of the last execution, and there was none");
  field input = {0}, tensor;
  gconv_image seen = *in;
  if (network->grays)
    GCONV_TRY(gconv_run_before(plan->device->threads, &network->before, &network->seen, in, &seen));
  gconv_status status = make_input(network, &seen, &input);
  tensor = input;
  for (size_t i = 0; i < network->count && status == GCONV_OK; i++)
    status = apply_step(network, &network->steps[i], &input, &tensor);
  if (status == GCONV_OK)
    status = compare(network, &tensor, network->maps.data ? &network->maps : outputs, tolerance, result);
  if (network->grays)
    gconv_image_free(&seen);
  if (tensor.value != input.value)
    free_field(&tensor);
  free_field(&input);
  return status;
}

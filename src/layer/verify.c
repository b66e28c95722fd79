/* SPDX-License-Identifier: MIT */
/*
 * Verification: computes a network once more in float64, with the allowed error of each value of each layer. Errors of
 * earlier layers are carried through a convolution by sum |weight| * error, and through an activation by its steepest slope.
 */
#include "operation/verify.h"
#include "base/memory.h"
#include "kernels/activation.h"
#include "layer/border.h"
#include "layer/input.h"
#include "layer/kind.h"

#include <math.h>

static gconv_status make_field(size_t count, gconv_field *f) {
  void *memory = NULL;
  GCONV_TRY(gconv_allocate(gconv_checked_product(3, (size_t[]){count, 2, sizeof(double)}), "a verification", &memory));
  *f = (gconv_field){memory, (double *)memory + count, count};
  return GCONV_OK;
}

static void free_field(gconv_field *f) {
  gconv_release(f->value);
  *f = (gconv_field){0};
}

/* ---- The input ---- */

static gconv_status make_input(const gconv_network_plan *network, const gconv_image *in, gconv_field *f) {
  const gconv_input *input = &network->input;
  size_t height = (size_t)input->height, width = (size_t)input->width, channels = (size_t)input->channels;
  GCONV_TRY(make_field((size_t)input->images * channels * height * width, f));
  double white = (double)input->white;
  for (size_t i = 0; i < f->count; i++) {
    size_t c = i / (height * width) % channels;
    int32_t frame = (int32_t)(i / (height * width * channels));
    double v = gconv_sample_at(in, frame, gconv_input_channel(input, (int32_t)c), (int64_t)(i / width % height),
                               (int64_t)(i % width)) /
               white;
    double allowed = white == 1 ? 0 : GCONV_UNIT * fabs(v);
    if (input->mean) {
      v -= (double)input->mean[c];
      allowed += GCONV_UNIT * fabs(v);
    }
    if (input->std) {
      v /= (double)input->std[c];
      allowed = allowed / fabs((double)input->std[c]) + GCONV_UNIT * fabs(v);
    }
    f->value[i] = v;
    f->allowed[i] = allowed;
  }
  return GCONV_OK;
}

/* ---- Padding, and softmax ---- */

/* Pads a field. Repeated values keep their error; a constant has none. */
static void pad_field(const gconv_network_plan *network, const gconv_step *step, const gconv_field *in, gconv_field *out) {
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

/* Applies softmax at one place. With errors of the values up to e, each output is off by a factor of e^(2e) at most. The
 * exponents v - largest are rounded. In the sum, each rounding counts with the weight of its exponential. The exponential
 * has the error that activation.h states, and is 0 below e^-87. */
static void normalise_place(gconv_field *f, size_t first, size_t count, size_t distance) {
  const double parts = (double)(count < GCONV_SOFTMAX_PART ? count : GCONV_SOFTMAX_PART + 1); /* chains of additions */
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
    double own = expm1(2 * error) + GCONV_UNIT * (exponent + rounded / sum) + 0x1p-20 + parts * GCONV_UNIT;
    *value = exp(*value - largest) / sum;
    f->allowed[first + k * distance] = fmin(1, *value * own + (double)count * 2e-38);
  }
}

static void apply_softmax(const gconv_step *step, gconv_field *f) {
  const size_t plane = (size_t)step->problem.out_height * (size_t)step->problem.out_width;
  const size_t filters = (size_t)step->problem.filters;
  for (size_t i = 0; i < (size_t)step->images * plane; i++)
    normalise_place(f, i / plane * filters * plane + i % plane, filters, plane);
}

/* ---- Any layer ---- */

static void verify_plane(void *context, size_t turn, int thread) {
  const gconv_verified_layer *job = context;
  gconv_layer_work_of(job->step->kind)->verify(job, turn);
}

/* Replaces the input of the step by its output. `input`: the input of the first step. */
static gconv_status apply_step(const gconv_network_plan *network, const gconv_step *step, const gconv_field *input,
                               gconv_field *tensor) {
  gconv_field out;
  const gconv_layer_problem *problem = &step->problem;
  size_t planes = (size_t)step->images * (size_t)problem->filters;
  GCONV_TRY(make_field(planes * (size_t)problem->out_height * (size_t)problem->out_width, &out));
  gconv_verified_layer job = {step, tensor, input, &out};
  if (step->pads)
    pad_field(network, step, tensor, &out);
  else
    gconv_threads_run(network->base.device->threads, planes, verify_plane, &job);
  if (step->softmax)
    apply_softmax(step, &out);
  if (tensor->value != input->value)
    free_field(tensor);
  *tensor = out;
  return GCONV_OK;
}

/* ---- Combining ---- */

/* Returns the expected combination of `count` values from i on, `distance` apart. */
static double combine_at(const gconv_network_plan *network, const gconv_field *tensor, size_t i, size_t distance,
                         double *allowed) {
  double value = tensor->value[i], error = tensor->allowed[i];
  if (network->combine == GCONV_COMBINE_MAGNITUDE) {
    error = 2 * fabs(value) * error + error * error + GCONV_UNIT * value * value;
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
    error += (square ? 2 * fabs(v) * e + e * e : e) + GCONV_UNIT * (fabs(value) + error);
  }
  if (network->combine == GCONV_COMBINE_MAGNITUDE) { /* |sqrt(a + e) - sqrt(a)| <= e / sqrt(a), and <= sqrt(e) */
    double root = sqrt(value);
    error = fmin(sqrt(error), root > 0 ? error / root : INFINITY) + GCONV_UNIT * root;
    value = root;
  }
  *allowed = error;
  return value;
}

/* Returns the expected answer of argmax: the number of the largest value, or `got` if its value, with errors, reaches the
 * largest. */
static double argmax_at(const gconv_network_plan *network, const gconv_field *tensor, size_t i, size_t distance,
                        double got) {
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
  const gconv_field *tensor; /* the output of the last layer */
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

static gconv_status compare(const gconv_network_plan *network, const gconv_field *tensor, const gconv_image *maps,
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
  return gconv_compare_frames(&comparison, result);
}

/* ---- Graphs ---- */

/* How much rounding may change results of a graph of nodes, relative to the largest value: with the math of fp32, and with
 * another. No bound is known for all kinds of nodes. The largest difference that was measured is a quarter of the first
 * number, in a style network that normalises its results 15 times. */
static const double GRAPH_ROUNDING = 0x1p-12, GRAPH_ROUNDING_OF_OTHER_MATH = 0x1p-6;

/* Plans the graph of a step in float64, for the CPU. */
static gconv_status plan_in_float64(const gconv_step *step, const gconv_device *cpu, gconv_graph_plan **plan) {
  gconv_graph_options options = step->graph->options;
  gconv_tensor input = *gconv_graph_plan_input(step->graph, 0);
  options.device = cpu;
  options.in_float64 = true;
  input.data = NULL;
  GCONV_TRY(gconv_graph_plan_create(step->graph->graph, &input, &options, plan));
  return gconv_graph_plan_allocate(*plan);
}

/* Runs a graph on all images of the field, which becomes the field of its results. */
static gconv_status run_in_float64(const gconv_step *step, gconv_graph_plan *plan, gconv_field *tensor) {
  const size_t images = (size_t)step->images, in = tensor->count / images, out = gconv_step_out_floats(step);
  const double rounding = plan->options.math == GCONV_MATH_FP32 ? GRAPH_ROUNDING : GRAPH_ROUNDING_OF_OTHER_MATH;
  gconv_field made = {0};
  void *memory = NULL;
  double largest = 0;
  gconv_status status = make_field(images * out, &made);
  GCONV_THEN(status, gconv_allocate((in + out) * sizeof(float), "a verification", &memory));
  float *numbers = memory, *results = numbers ? numbers + in : NULL;
  for (size_t i = 0; i < images && status == GCONV_OK; i++) {
    for (size_t k = 0; k < in; k++)
      numbers[k] = (float)tensor->value[i * in + k];
    status = gconv_graph_run_whole(plan, &step->cut, numbers, results, NULL);
    for (size_t k = 0; k < out && status == GCONV_OK; k++) {
      made.value[i * out + k] = (double)results[k];
      largest = fmax(largest, isfinite(results[k]) ? fabs((double)results[k]) : 0);
    }
  }
  for (size_t i = 0; i < made.count && status == GCONV_OK; i++)
    made.allowed[i] = rounding * largest;
  gconv_release(memory);
  free_field(tensor);
  *tensor = made;
  return status;
}

/* Replaces the input of a network that is a graph by its result. */
static gconv_status apply_graph(const gconv_network_plan *network, gconv_field *tensor) {
  const gconv_step *step = &network->steps[0];
  gconv_device *cpu = NULL;
  gconv_graph_plan *plan = NULL;
  gconv_status status = gconv_device_open("cpu", gconv_threads_count(network->base.device->threads), &cpu);
  GCONV_THEN(status, plan_in_float64(step, cpu, &plan));
  GCONV_THEN(status, run_in_float64(step, plan, tensor));
  gconv_graph_plan_free(plan);
  gconv_device_close(cpu);
  return status;
}

/* ---- All ---- */

gconv_status gconv_network_verify(gconv_plan *plan, const gconv_image *in, const gconv_image *outputs, double tolerance,
                                  double budget, gconv_verification *result) {
  const gconv_network_plan *network = (const gconv_network_plan *)plan;
  (void)budget; /* cannot be kept: every output needs all layers */
  if (network->by_rows)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a plan by rows cannot be verified: make one for whole images");
  if (gconv_presenter_presents(&network->presenter) && !network->maps.data)
    return gconv_fail(GCONV_BAD_ARGUMENT, "pictures are verified by the maps of the last execution, and there was none");
  gconv_field input = {0}, tensor;
  gconv_image seen;
  if (network->alphas)
    return gconv_fail(GCONV_UNSUPPORTED, "--verify: alpha that goes through a network is not recomputed: leave out --alpha");
  GCONV_TRY(gconv_network_see(network, in, &seen));
  gconv_status status = make_input(network, &seen, &input);
  tensor = input;
  if (network->steps[0].graph && status == GCONV_OK) {
    status = apply_graph(network, &tensor);
    input = tensor;
  }
  for (size_t i = network->steps[0].graph ? network->count : 0; i < network->count && status == GCONV_OK; i++)
    status = apply_step(network, &network->steps[i], &input, &tensor);
  GCONV_THEN(status, compare(network, &tensor, network->maps.data ? &network->maps : outputs, tolerance, result));
  gconv_network_unsee(network, &seen);
  if (tensor.value != input.value)
    free_field(&tensor);
  free_field(&input);
  return status;
}

/* SPDX-License-Identifier: MIT */
/* Gradients of random networks: the reference against differences of its own loss, the classic against the reference, and
 * the engine of the CPU against the classic, to the last bit. */
#include "kernels/cpu/train/conv.h"
#include "tests/train/classic.h"
#include "train/engine.h"
#include "train/net.h"
#include "train_devices.h"
#include "train_test.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* ---- Random networks ---- */

static uint64_t random_state;

/* From least to most. */
static int draw(int least, int most) {
  return least + (int)((next_random(&random_state) + 1) / 2 * (most - least + 1));
}

/* A network with data for it. */
typedef struct problem {
  char text[512];
  gconv_network network;
  gconv_learn_net net;
  size_t cases, in, target;
  float *parameters, *inputs, *targets;
  double *wide_parameters, *wide_inputs, *wide_targets;
  array_dataset data;
} problem;

static void free_problem(problem *p) {
  gconv_network_free(&p->network);
  gconv_learn_net_free(&p->net);
  free(p->parameters);
  free(p->inputs);
  free(p->targets);
  free(p->wide_parameters);
  free(p->wide_inputs);
  free(p->wide_targets);
}

static const char *draw_activation(void) {
  static const char *const words[] = {"", "relu", "leaky", "leaky=0.3", "sigmoid", "sigmoid=0.5", "tanh", "softmax"};
  return words[draw(0, 7)];
}

static void append(char *text, size_t size, const char *format, ...) GCONV_PRINTF(3, 4);
static void append(char *text, size_t size, const char *format, ...) {
  size_t length = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + length, size - length, format, arguments);
  va_end(arguments);
}

/* One draw a statement: the order of arguments is the compiler's. */
static void draw_conv(char *text, size_t size, int *channels) {
  int groups = *channels % 2 == 0 ? draw(1, 2) : 1, filters = groups * draw(1, 5);
  append(text, size, "conv %d %d", filters, draw(1, 3));
  append(text, size, "x%d", draw(1, 4));
  append(text, size, "/%d", draw(1, 3));
  append(text, size, " dilation:%d groups:%d", draw(1, 2), groups);
  append(text, size, " %s", draw(0, 1) ? "valid" : "");
  append(text, size, " %s, ", draw_activation());
  *channels = filters;
}

/* Layers that run in graphs: a U-Net of one step, with random parts, whose output has the size of its input. */
static void draw_graph(char *text, size_t size, int *channels) {
  static const char *const pools[] = {"maxpool 2x2", "avgpool 2x2", "conv 4 3x3/2 relu", "maxpool 3x3/2", "avgpool 3x2/2"};
  const int filters = draw(1, 5);
  append(text, size, "conv %d 3x3 %s as a, ", filters, draw_activation());
  if (draw(0, 1))
    append(text, size, "prelu as b, add a, ");
  const int pool = draw(0, 4);
  append(text, size, "%s, ", pools[pool]);
  append(text, size, "conv %d %dx3 tanh, ", draw(1, 4) * 4, draw(1, 3));
  switch (pool > 2 ? 3 : draw(0, 2)) {
  case 0:
    append(text, size, "shuffle 2, concat a, ");
    break;
  case 1:
    append(text, size, "upconv %d %dx%d/2 %s, prelu, concat a, ", draw(1, 3), draw(1, 4), draw(1, 4), draw_activation());
    break;
  case 2:
    append(text, size, "upconv %d 2x2/2, add, concat a, ", *channels);
    break;
  default:
    append(text, size, "upconv 2 3x3, ");
    break;
  }
  *channels = 0;
}

static void draw_dense(char *text, size_t size, int outputs) {
  append(text, size, "dense %d %s", outputs, draw_activation());
}

/* A text of layers; *classes: whether its data have classes, and then how many. */
static void draw_text(char *text, size_t size, int channels, size_t *classes) {
  text[0] = '\0';
  int convolutions = draw(0, 3), end = draw(0, 4), first = channels;
  for (int i = 0; i < convolutions; i++)
    draw_conv(text, size, &channels);
  if (draw(0, 1))
    draw_graph(text, size, &channels);
  if (end == 0 && convolutions == 0) {
    draw_dense(text, size, draw(1, 9));
    append(text, size, ", ");
    draw_dense(text, size, first);
    append(text, size, ", residual, ");
    end = 2;
  }
  if (end == 0)
    append(text, size, "conv %d 3x3 %s", first, draw_activation());
  else if (end == 1)
    append(text, size, "mean, dense %d softmax", draw(2, 9));
  else if (end == 2) {
    draw_dense(text, size, draw(1, 20));
    append(text, size, ", ");
    draw_dense(text, size, draw(1, 9));
  } else if (end == 3)
    append(text, size, "dense %d softmax", draw(2, 9));
  else
    append(text, size, "conv %d 1x1 tanh, mean", draw(1, 4));
  *classes = end == 1 || end == 3;
}

/* Draws a network whose inputs have up to `side` rows and columns, with up to `cases` cases; false if it makes no sense. */
static bool draw_network(int side, problem *p) {
  size_t classes;
  int channels = draw(1, 3), height = draw(1, side), width = draw(1, side);
  if (draw(0, 3) == 0)
    height = width = 1;
  draw_text(p->text, sizeof p->text, channels, &classes);
  if (gconv_network_make(p->text, (const int32_t[]){channels, height, width}, 0, random_state, &p->network) != GCONV_OK)
    return false;
  for (size_t i = 0; i < p->network.count; i++)
    if (p->network.layers[i].kind == GCONV_LAYER_CONV && draw(0, 3) == 0)
      p->network.layers[i].flip = true;
  gconv_dataset_info info = {.cases = 1, .channels = channels, .height = height, .width = width};
  for (size_t outputs = 1; outputs < 100000; outputs++) { /* as many as there are */
    info.outputs = outputs;
    info.class_count = classes ? outputs : 0;
    gconv_loss loss = classes && draw(0, 1) ? GCONV_LOSS_CROSS_ENTROPY : (gconv_loss)draw(GCONV_LOSS_SSE, GCONV_LOSS_MAE);
    if (gconv_learn_net_make(&p->network, &info, loss, &p->net) == GCONV_OK)
      return true;
  }
  return false;
}

static double *widen(const float *from, size_t count) {
  double *to = malloc((count + 1) * sizeof *to);
  for (size_t i = 0; i < count; i++)
    to[i] = (double)from[i];
  return to;
}

/* Draws data and weights for the network. */
static void draw_data(problem *p, size_t cases) {
  const gconv_layer_problem *first = &p->net.layers[0].problem;
  size_t outputs = gconv_learn_outputs(&p->net);
  p->cases = cases;
  p->in = gconv_learn_in_floats(&p->net.layers[0]);
  p->target = gconv_learn_target_floats(&p->net);
  p->parameters = malloc(p->net.parameters * sizeof(float));
  p->inputs = malloc(cases * p->in * sizeof(float));
  p->targets = malloc(cases * p->target * sizeof(float));
  gconv_learn_net_take(&p->net, &p->network, p->parameters);
  for (size_t i = 0; i < p->net.parameters; i++) /* biases, too */
    p->parameters[i] += (float)(0.1 * next_random(&random_state));
  for (size_t i = 0; i < cases * p->in; i++)
    p->inputs[i] = (float)next_random(&random_state);
  for (size_t i = 0; i < cases * p->target; i++)
    p->targets[i] = p->net.classes ? (float)draw(0, (int)outputs - 1) : (float)next_random(&random_state);
  p->wide_parameters = widen(p->parameters, p->net.parameters);
  p->wide_inputs = widen(p->inputs, cases * p->in);
  p->wide_targets = widen(p->targets, cases * p->target);
  p->data = make_dataset(cases, first->channels, first->height, first->width, p->net.classes ? outputs : 0, outputs,
                         p->inputs, p->targets);
}

/* A problem that makes sense, the next one. */
static void draw_problem(int side, size_t cases, problem *p) {
  for (;;) {
    *p = (problem){0};
    if (draw_network(side, p))
      break;
    free_problem(p);
  }
  draw_data(p, cases);
}

/* ---- The reference against differences ---- */

static double loss_of(problem *p, double *gradient) {
  double loss;
  assert_int_equal(
      gconv_learn_reference(&p->net, p->wide_parameters, p->wide_inputs, p->wide_targets, p->cases, &loss, gradient, NULL),
      GCONV_OK);
  return loss;
}

/* The derivative by parameter i, from four losses. */
static double difference(problem *p, size_t i, double step, double *scratch) {
  const double at = p->wide_parameters[i];
  double losses[4];
  const double moves[] = {1, -1, 2, -2};
  for (int j = 0; j < 4; j++) {
    p->wide_parameters[i] = at + moves[j] * step;
    losses[j] = loss_of(p, scratch);
  }
  p->wide_parameters[i] = at;
  return (8 * (losses[0] - losses[1]) - (losses[2] - losses[3])) / (12 * step);
}

/* Of n numbers, the largest |v|. */
static double largest_of(const double *values, size_t count) {
  double largest = 0;
  for (size_t i = 0; i < count; i++)
    largest = fmax(largest, fabs(values[i]));
  return largest;
}

/* Compares gradients of the reference with differences. Returns how many lie at a bend. */
static int check_differences(problem *p, int times) {
  int bends = 0;
  size_t count = p->net.parameters;
  double *gradient = malloc(count * sizeof *gradient), *scratch = malloc(count * sizeof *scratch);
  loss_of(p, gradient);
  double largest = largest_of(gradient, count);
  for (int i = 0; i < times; i++) {
    size_t at = (size_t)draw(0, (int)count - 1);
    double d = difference(p, at, 1e-4, scratch), bound = 1e-7 * largest + 1e-11;
    if (fabs(d - difference(p, at, 0.3e-4, scratch)) > bound) /* the bend of a relu, or of |y - t|, lies between them */
      bends++;
    else if (!(fabs(d - gradient[at]) <= bound))
      fail_msg("%s: parameter %zu of %zu has the gradient %.12g, differences say %.12g", p->text, at, count, gradient[at],
               d);
  }
  free(gradient);
  free(scratch);
  return bends;
}

static void reference_is_the_derivative(void **state) {
  (void)state;
  random_state = 1;
  int bends = 0;
  for (int number = 0; number < 150; number++) {
    problem p;
    draw_problem(7, (size_t)draw(1, 3), &p);
    bends += check_differences(&p, 12);
    free_problem(&p);
  }
  assert_in_range(bends, 0, 20);
}

/* ---- Engines ---- */

static void compare_layers(const problem *p, const double *wanted, const float *gradient) {
  for (size_t i = 0; i < p->net.count; i++) {
    const gconv_learn_layer *layer = &p->net.layers[i];
    double largest = largest_of(wanted + layer->weights, layer->parameters);
    for (size_t j = 0; j < layer->parameters; j++)
      if (!(fabs((double)gradient[layer->weights + j] - wanted[layer->weights + j]) <= 1e-5 * largest + 1e-9))
        fail_msg("%s: gradient %zu of layer %zu is %.9g, not %.9g", p->text, j, i, (double)gradient[layer->weights + j],
                 wanted[layer->weights + j]);
  }
}

/* The gradient of the engine on a device. */
static void run_engine(const problem *p, gconv_device *device, size_t batch, gconv_learn_sums *sums, float *gradient) {
  gconv_engine_order order = {
      .device = device, .net = &p->net, .batch = batch, .memory = 1 << 28, .exact = true, .math = GCONV_MATH_FP32};
  void *engine;
  size_t *numbers = malloc(p->cases * sizeof *numbers);
  for (size_t i = 0; i < p->cases; i++)
    numbers[i] = i;
  gconv_learn_cases cases = {&p->data.base, 0, numbers, p->cases, false};
  gconv_learn_sums evaluated;
  assert_int_equal(gconv_engine_cpu.create(&order, &engine), GCONV_OK);
  gconv_engine_cpu.set(engine, GCONV_LEARN_PARAMETERS, p->parameters);
  assert_int_equal(gconv_engine_cpu.backward(engine, &cases, sums), GCONV_OK);
  gconv_engine_cpu.get(engine, GCONV_LEARN_GRADIENT, gradient);
  assert_int_equal(gconv_engine_cpu.evaluate(engine, &cases, &evaluated), GCONV_OK);
  bool norms = false; /* which evaluate by running means */
  for (size_t i = 0; i < p->net.count; i++)
    norms = norms || p->net.layers[i].kind == GCONV_LAYER_BATCHNORM;
  assert_true(norms || ((evaluated.loss == sums->loss || isnan(sums->loss)) && evaluated.hits == sums->hits));
  gconv_engine_cpu.free(engine);
  free(numbers);
}

static void check_engines(problem *p) {
  size_t count = p->net.parameters;
  double *wanted = malloc(count * sizeof *wanted), loss, wanted_loss = loss_of(p, wanted);
  float *classic = malloc(count * sizeof *classic), *gradient = malloc(count * sizeof *gradient);
  assert_int_equal(gconv_learn_classic(&p->net, p->parameters, p->inputs, p->targets, p->cases, &loss, classic, NULL),
                   GCONV_OK);
  if (!(fabs(loss - wanted_loss) <= 1e-5 * wanted_loss + 1e-9)) /* targets are of the order of 1 */
    fail_msg("%s, %zu cases: the loss is %.12g, not %.12g", p->text, p->cases, loss, wanted_loss);
  compare_layers(p, wanted, classic);
  for (int i = 0; i < 2; i++) {
    gconv_learn_sums sums;
    memset(gradient, -1, count * sizeof *gradient);
    run_engine(p, devices[i], p->cases + (size_t)draw(0, 200), &sums, gradient);
    if (sums.loss * gconv_learn_loss_factor(&p->net, p->cases) != loss)
      fail_msg("%s: the engine's loss is not the classic's", p->text);
    for (size_t j = 0; j < count; j++)
      if (memcmp(&gradient[j], &classic[j], sizeof(float)) != 0)
        fail_msg("%s, %zu cases, %d threads: gradient %zu of %zu is %.9g, the classic's %.9g", p->text, p->cases, i + 1, j,
                 count, (double)gradient[j], (double)classic[j]);
  }
  free(wanted);
  free(classic);
  free(gradient);
}

/* Batch normalisation: the reference against differences, and engines against the classic, to the last bit. */
static void norms_agree(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int32_t channels, side;
    size_t outputs;
    bool classes;
  } nets[] = {
      {"conv 5 3x3, batchnorm relu, conv 4 3x3, batchnorm tanh, conv 2 3x3", 2, 6, 72, false},
      {"batchnorm, conv 4 3x3 tanh as a, maxpool 2x2, conv 4 3x3, batchnorm leaky, upconv 3 2x2/2, batchnorm, concat a, "
       "conv 1 3x3",
       2, 6, 36, false},
      {"conv 5 3x3, batchnorm relu as a, conv 5 3x3, batchnorm, add a, mean, dense 4 tanh, dense 3 softmax", 1, 7, 3, true},
      {"dense 6, batchnorm sigmoid, dense 4, batchnorm softmax", 5, 1, 4, true},
      {"conv 3 3x3, prelu, batchnorm", 1, 5, 75, false},
  };
  random_state = 5;
  for (size_t k = 0; k < sizeof nets / sizeof *nets; k++)
    for (size_t cases = 4; cases <= 140; cases += 45) {
      problem p = {0};
      snprintf(p.text, sizeof p.text, "%s", nets[k].text);
      assert_int_equal(
          gconv_network_make(p.text, (const int32_t[]){nets[k].channels, nets[k].side, nets[k].side}, 0, 3, &p.network),
          GCONV_OK);
      const gconv_dataset_info info = {.cases = 1,
                                       .channels = nets[k].channels,
                                       .height = nets[k].side,
                                       .width = nets[k].side,
                                       .outputs = nets[k].outputs,
                                       .class_count = nets[k].classes ? nets[k].outputs : 0};
      assert_int_equal(gconv_learn_net_make(&p.network, &info, GCONV_LOSS_MSE, &p.net), GCONV_OK);
      draw_data(&p, cases);
      if (cases == 4)
        check_differences(&p, 60);
      check_engines(&p);
      free_problem(&p);
    }
}

static void engines_agree(void **state) {
  (void)state;
  random_state = 2;
  for (int number = 0; number < 150; number++) {
    static const int most[] = {3, 40, 300};
    problem p;
    draw_problem(9, (size_t)draw(1, most[number % 3]), &p);
    check_engines(&p);
    free_problem(&p);
  }
}

/* Layers with several bands, several slices, and more cases than a chunk; with few filters over many channels. */
static void large_ones_agree(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int32_t channels, height, width;
    size_t classes, outputs, cases;
  } cases[] = {{"conv 3 3x3 relu, conv 1 3x3, residual", 1, 67, 66, 0, 67 * 66, 3},
               {"conv 3 3x3", 16, 67, 66, 0, 3 * 67 * 66, 2},
               {"conv 1 3x5 valid tanh", 20, 70, 60, 0, 68 * 56, 2},
               {"conv 2 5x3/2", 17, 140, 80, 0, 2 * 70 * 40, 2},
               {"conv 2 3x3 dilation 2 groups 2", 34, 50, 50, 0, 2 * 50 * 50, 2},
               {"conv 2 1x1 tanh, conv 1 2x2/2 valid", 1, 150, 60, 0, 75 * 30, 1},
               {"dense 70 tanh, dense 26 softmax", 16, 1, 1, 26, 26, 1500},
               {"dense 700 softmax, dense 300 softmax", 5, 1, 1, 0, 300, 40},
               {"conv 2 3x3 relu, conv 3 2x2/2 valid tanh, dense 4 softmax", 1, 6, 6, 4, 4, 700}};
  random_state = 3;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    problem p = {0};
    gconv_dataset_info info = {.cases = 1,
                               .channels = cases[i].channels,
                               .height = cases[i].height,
                               .width = cases[i].width,
                               .outputs = cases[i].outputs,
                               .class_count = cases[i].classes};
    snprintf(p.text, sizeof p.text, "%s", cases[i].text);
    assert_int_equal(
        gconv_network_make(p.text, (const int32_t[]){info.channels, info.height, info.width}, info.outputs, 1, &p.network),
        0);
    assert_int_equal(gconv_learn_net_make(&p.network, &info, GCONV_LOSS_DEFAULT, &p.net), 0);
    draw_data(&p, cases[i].cases);
    check_engines(&p);
    free_problem(&p);
  }
}

/* Behind relu, the engine leaves out products with 0. That must not show where products are so small that they become -0,
 * nor where other factors are infinite, which makes them NaN. So this compares gradients alone, and any NaN is like another.
 * Returns how many are not 0. */
static size_t check_gradients(problem *p) {
  size_t count = p->net.parameters, alive = 0;
  float *classic = malloc(count * sizeof *classic), *gradient = malloc(count * sizeof *gradient);
  double loss;
  gconv_learn_sums sums;
  gconv_status status = gconv_learn_classic(&p->net, p->parameters, p->inputs, p->targets, p->cases, &loss, classic, NULL);
  assert_int_equal(status, GCONV_OK);
  run_engine(p, devices[1], p->cases, &sums, gradient);
  for (size_t j = 0; j < count; j++) {
    alive += gradient[j] != 0;
    if (memcmp(&gradient[j], &classic[j], sizeof(float)) != 0 && !(isnan(gradient[j]) && isnan(classic[j])))
      fail_msg("%s: gradient %zu of %zu is %.9g, the classic's %.9g", p->text, j, count, (double)gradient[j],
               (double)classic[j]);
  }
  free(classic);
  free(gradient);
  return alive;
}

static void zeros_are_left_out(void **state) {
  (void)state;
  static const char *const texts[] = {
      "conv 16 3x3 relu, conv 16 3x3 relu, conv 1 3x3",
      "conv 5 3x3 relu, conv 7 5x5 relu, conv 9 1x1 relu, conv 1 3x3 relu",
      "conv 8 3x3 relu, conv 24 3x3 groups:2 relu, conv 12 3x3 dilation:2 groups:4 relu, conv 1 3x3",
      "conv 20 3x3 valid relu, conv 33 3x2 relu, conv 6 2x5 tanh, conv 4 3x3 valid relu, conv 2 3x3/2",
      "conv 4 5x1 relu, conv 4 1x7 relu, conv 18 7x7 relu, conv 1 3x3",
      "conv 8 3x3 relu, conv 8 3x3"};
  static const struct {
    float scale, weights; /* of inputs, targets and biases; of weights */
    bool weight, target;  /* one of them is infinite */
    bool dead;            /* all outputs of the first layer are 0 */
    bool corner;          /* the first input is infinite, but no output of the second layer */
  } kinds[] = {{.scale = 1, .weights = 1},
               {.scale = 3e-23f, .weights = 1},
               {.scale = 1e-21f, .weights = 0.1f},
               {.scale = 3e38f, .weights = 3},
               {.scale = 1, .weights = 1, .weight = true},
               {.scale = 1, .weights = 1, .weight = true, .dead = true},
               {.scale = 1, .weights = 1, .target = true, .dead = true},
               {.scale = 1, .weights = 1, .corner = true}};
  size_t networks = 0, alive = 0;
  random_state = 4;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0] * (sizeof kinds / sizeof kinds[0]); i++) {
    size_t kind = i % (sizeof kinds / sizeof kinds[0]);
    int side = draw(24, 30);
    problem p = {0};
    gconv_dataset_info info = {.cases = 1, .channels = 1, .height = side, .width = draw(24, 30)};
    snprintf(p.text, sizeof p.text, "%s", texts[i / (sizeof kinds / sizeof kinds[0])]);
    assert_int_equal(gconv_network_make(p.text, (const int32_t[]){1, info.height, info.width}, 0, i, &p.network), GCONV_OK);
    while (gconv_learn_net_make(&p.network, &info, GCONV_LOSS_SSE, &p.net) != GCONV_OK)
      info.outputs++;
    draw_data(&p, 2);
    for (size_t l = 0; l < p.net.count; l++) {
      const gconv_learn_layer *layer = &p.net.layers[l];
      size_t biases = (size_t)layer->problem.filters;
      for (size_t j = 0; j < layer->parameters; j++)
        p.parameters[layer->weights + j] *= j < layer->parameters - biases ? kinds[kind].weights : kinds[kind].scale;
    }
    if (kinds[kind].weight)
      p.parameters[p.net.layers[1].weights + 1] = INFINITY;
    for (int32_t k = 0; kinds[kind].dead && k < p.net.layers[0].problem.filters; k++)
      p.parameters[p.net.layers[0].parameters - 1 - (size_t)k] = -100;
    for (size_t j = 0; j < p.cases * p.in; j++)
      p.inputs[j] *= kinds[kind].scale;
    if (kinds[kind].corner) {
      const gconv_learn_layer *second = &p.net.layers[1];
      p.inputs[0] = INFINITY;
      for (size_t j = 0; j < second->parameters; j++) {
        float *own = &p.parameters[second->weights + j];
        *own = j < second->parameters - (size_t)second->problem.filters ? -fabsf(*own) : 5;
      }
    }
    for (size_t j = 0; j < p.cases * p.target; j++)
      p.targets[j] *= kinds[kind].scale;
    if (kinds[kind].target)
      p.targets[0] = INFINITY;
    alive += check_gradients(&p) > 0;
    networks++;
    free_problem(&p);
  }
  assert_true(2 * alive > networks);
}

/* Fails unless each of the numbers is +0. */
static void check_plus_zeros(const float *numbers, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (numbers[i] != 0 || signbit(numbers[i]))
      fail_msg("%s %zu is %a, not +0", name, i, (double)numbers[i]);
}

/* A layer of `side` x `side` taps without stride, padding and groups, for one image. */
static gconv_layer_problem plain_layer(int32_t channels, int32_t height, int32_t width, int32_t filters, int32_t side) {
  return (gconv_layer_problem){.images = 1,
                               .channels = channels,
                               .height = height,
                               .width = width,
                               .filters = filters,
                               .rows = side,
                               .columns = side,
                               .groups = 1,
                               .stride_y = 1,
                               .stride_x = 1,
                               .dilation_y = 1,
                               .dilation_x = 1,
                               .out_height = height - side + 1,
                               .out_width = width - side + 1};
}

/* In these chains, a sum is rounded to -0, and a product of +0 behind it makes it +0. If only the latter is left out, the
 * sum stays -0. Networks hardly ever show that, so one layer is computed here. */
static void zeros_keep_their_sign(void **state) {
  (void)state;
  enum { CHANNELS = 2, FILTERS = 4, WIDTH = 64 };
  const gconv_layer_problem p = plain_layer(CHANNELS, 1, WIDTH, FILTERS, 1);
  float plain[FILTERS * (CHANNELS + 1)], own[256], y[FILTERS * WIDTH];
  float x[CHANNELS * WIDTH + GCONV_STAGE_SLACK] = {0}, dz[FILTERS * WIDTH + GCONV_STAGE_SLACK] = {0};
  gconv_learn_conv conv;
  assert_int_equal(gconv_learn_conv_prepare(&p, false, false, true, &conv), GCONV_OK);
  assert_true(conv.skips_forward && conv.skips_weights);
  assert_true(conv.parameters <= sizeof own / sizeof own[0]);
  float *workspace = calloc(gconv_learn_conv_workspace(&conv), sizeof *workspace);
  const gconv_learn_layout output = gconv_learn_plain_output(&p);
  for (int k = 0; k < FILTERS; k++) { /* -2^-200, then 0; and a bias that would show the -0 */
    plain[k * CHANNELS] = -0x1p-100f;
    plain[k * CHANNELS + 1] = 1;
    plain[FILTERS * CHANNELS + k] = -0.0f;
  }
  for (int i = 0; i < WIDTH; i++)
    x[i] = 0x1p-100f;
  gconv_learn_conv_take(&conv, plain, own);
  gconv_learn_conv_forward(&conv, own, x, workspace, y, &output);
  check_plus_zeros(y, FILTERS * WIDTH, "output");
  /* a * b is m * 2^24 + 1, so the sum of weight 0 is -2^-150, which is rounded to -0: with larger factors, it could not. */
  const float a = 0xfffff5p-75f, b = 0xd1745dp-75f, m = 0xd17454p-75f;
  memset(x, 0, sizeof x);
  x[0] = m;
  x[1] = a;
  for (int k = 0; k < FILTERS; k++) {
    dz[k * WIDTH] = 0x1p-51f;
    dz[k * WIDTH + 1] = -b;
    dz[k * WIDTH + 2] = 1;
  }
  assert_true(signbit(fmaf(a, -b, m * 0x1p-51f)));
  memset(own, -1, sizeof own);
  gconv_learn_conv_weights(&conv, x, dz, 0, workspace, own);
  for (int c = 0; c < CHANNELS; c++)
    check_plus_zeros(own + c * conv.group_filters, FILTERS, "gradient");
  free(workspace);
  gconv_learn_conv_free(&conv);
}

/* Vectors of filters have lanes behind the last filter. Their weights are trained as others are, so they need gradients. */
static void lanes_behind_filters_have_gradients(void **state) {
  (void)state;
  static const int32_t filters[] = {1, 3, 5, 16, 17};
  for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
    const gconv_layer_problem p = plain_layer(16, 12, 20, filters[i], 3);
    gconv_learn_conv conv;
    assert_int_equal(gconv_learn_conv_prepare(&p, false, false, true, &conv), GCONV_OK);
    float *workspace = calloc(gconv_learn_conv_workspace(&conv), sizeof *workspace);
    float *x = calloc(16 * 12 * 20 + GCONV_STAGE_SLACK, sizeof *x),
          *dz = calloc(17 * 10 * 18 + GCONV_STAGE_SLACK, sizeof *dz);
    float *gradient = malloc(conv.parameters * sizeof *gradient);
    for (int j = 0; j < 16 * 12 * 20; j++)
      x[j] = (float)(j % 7);
    for (int j = 0; j < filters[i] * 10 * 18; j++)
      dz[j] = (float)(j % 5);
    memset(gradient, -1, conv.parameters * sizeof *gradient);
    gconv_learn_conv_weights(&conv, x, dz, 0, workspace, gradient);
    assert_true(gconv_learn_finite(gradient, (int64_t)conv.parameters));
    free(gradient);
    free(dz);
    free(x);
    free(workspace);
    gconv_learn_conv_free(&conv);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reference_is_the_derivative),
      cmocka_unit_test(engines_agree),
      cmocka_unit_test(norms_agree),
      cmocka_unit_test(large_ones_agree),
      cmocka_unit_test(zeros_are_left_out),
      cmocka_unit_test(zeros_keep_their_sign),
      cmocka_unit_test(lanes_behind_filters_have_gradients),
  };
  return cmocka_run_group_tests(tests, open_devices, close_devices);
}

/* SPDX-License-Identifier: MIT */
/*
 * Steps of training, for test_steps.py.
 *
 * usage: train_steps reference|cpu TEXT CHANNELS HEIGHT WIDTH OUTPUTS CLASSES CASES LOSS STEPS RATE
 *                    [OPTIMIZER MOMENTUM DECAY LAMBDA W0]
 *
 * Standard input has the inputs and targets of all cases, in float64; LOSS and OPTIMIZER are the numbers of the
 * enumerations. Each step takes all cases. Standard output gets, in float64: the parameters at first, the loss of each step,
 * the parameters in the end. `reference` steps down the gradient of the reference, in float64; `cpu` is the trainer.
 */
#include "classic.h"
#include "train/net.h"
#include "unit/train_test.h"

#include <stdio.h>

static void check(gconv_status status) {
  if (status == GCONV_OK)
    return;
  fprintf(stderr, "%s\n", gconv_last_error());
  exit(1);
}

static void *need(void *memory) {
  if (!memory)
    exit(2);
  return memory;
}

static void put(const double *values, size_t count) {
  if (fwrite(values, sizeof *values, count, stdout) != count)
    exit(3);
}

static double *get(size_t count) {
  double *values = need(malloc((count + 1) * sizeof *values));
  if (fread(values, sizeof *values, count, stdin) != count)
    exit(4);
  return values;
}

static float *narrow(const double *values, size_t count) {
  float *narrowed = need(malloc((count + 1) * sizeof *narrowed));
  for (size_t i = 0; i < count; i++)
    narrowed[i] = (float)values[i];
  return narrowed;
}

static void put_floats(const float *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    put(&(double){(double)values[i]}, 1);
}

static void step_down(const gconv_learn_net *net, double *parameters, const double *inputs, const double *targets,
                      size_t cases, int steps, double rate) {
  double *gradient = need(malloc(net->parameters * sizeof *gradient));
  for (int i = 0; i < steps; i++) {
    double loss;
    check(gconv_learn_reference(net, parameters, inputs, targets, cases, &loss, gradient, NULL));
    put(&loss, 1);
    for (size_t j = 0; j < net->parameters; j++)
      parameters[j] -= rate * gradient[j];
  }
  put(parameters, net->parameters);
  free(gradient);
}

static void train(const gconv_learn_net *net, const gconv_network *network, const gconv_dataset *data,
                  const gconv_training_options *options) {
  gconv_device *device;
  gconv_trainer *trainer;
  check(gconv_device_open("cpu", 2, &device));
  check(gconv_trainer_create(device, network, options, data, NULL, &trainer));
  for (size_t i = 0; i < options->epochs; i++) {
    gconv_epoch epoch;
    check(gconv_trainer_epoch(trainer, &epoch));
    put(&epoch.loss, 1);
  }
  gconv_network trained = {0};
  float *parameters = need(malloc(net->parameters * sizeof *parameters));
  check(gconv_trainer_network(trainer, true, &trained));
  gconv_learn_net_take(net, &trained, parameters);
  put_floats(parameters, net->parameters);
  free(parameters);
  gconv_network_free(&trained);
  gconv_trainer_free(trainer);
  gconv_device_close(device);
}

int main(int count, char **words) {
  if (count < 12)
    return 5;
  int32_t channels = atoi(words[3]), height = atoi(words[4]), width = atoi(words[5]);
  size_t outputs = (size_t)atoi(words[6]), classes = (size_t)atoi(words[7]), cases = (size_t)atoi(words[8]);
  gconv_training_options options = {
      .loss = (gconv_loss)atoi(words[9]), .epochs = (size_t)atoi(words[10]), .rate = atof(words[11]), .batch = SIZE_MAX};
  if (count > 16) {
    options.optimizer = (gconv_optimizer)atoi(words[12]);
    options.momentum = atof(words[13]);
    options.weight_decay = atof(words[14]);
    options.elimination = atof(words[15]);
    options.elimination_scale = atof(words[16]);
  }
  gconv_network network = {0};
  gconv_learn_net net;
  check(gconv_network_make(words[2], (const int32_t[]){channels, height, width}, outputs, 1, &network));
  size_t in = (size_t)channels * (size_t)height * (size_t)width, target = classes ? 1 : outputs;
  double *inputs = get(cases * in), *targets = get(cases * target);
  float *narrow_inputs = narrow(inputs, cases * in), *narrow_targets = narrow(targets, cases * target);
  array_dataset data =
      make_dataset(cases, channels, height, width, classes ? outputs : 0, outputs, narrow_inputs, narrow_targets);
  check(gconv_learn_net_make(&network, &data.base.info, options.loss, &net));
  float *first = need(malloc(net.parameters * sizeof *first));
  double *parameters = need(malloc(net.parameters * sizeof *parameters));
  gconv_learn_net_take(&net, &network, first);
  put_floats(first, net.parameters);
  for (size_t i = 0; i < net.parameters; i++)
    parameters[i] = (double)first[i];
  if (strcmp(words[1], "reference") == 0)
    step_down(&net, parameters, inputs, targets, cases, (int)options.epochs, options.rate);
  else
    train(&net, &network, &data.base, &options);
  void *const all[] = {inputs, targets, narrow_inputs, narrow_targets, first, parameters};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    free(all[i]);
  gconv_learn_net_free(&net);
  gconv_network_free(&network);
  return 0;
}

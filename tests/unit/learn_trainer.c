/* SPDX-License-Identifier: MIT */
/* The trainer: that it learns, ends when it shall, and goes on after interruptions to the very same bytes. */
#include "learn_test.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

static gconv_device *devices[2]; /* of 1 thread, and of 2 */

static int open_devices(void **state) {
  (void)state;
  return gconv_device_open("cpu", 1, &devices[0]) == GCONV_OK && gconv_device_open("cpu", 2, &devices[1]) == GCONV_OK ? 0
                                                                                                                      : -1;
}

static int close_devices(void **state) {
  (void)state;
  gconv_device_close(devices[0]);
  gconv_device_close(devices[1]);
  return 0;
}

enum { CASES = 300, SIDE = 6 };

/* Pictures of bars, lying or standing, with noise: two classes. */
static float pictures[CASES * SIDE * SIDE], classes[CASES];

static void draw_pictures(void) {
  uint64_t random = 1;
  for (size_t n = 0; n < CASES; n++) {
    int at = (int)(next_random(&random) * 3 + 3), standing = (int)(n % 2);
    classes[n] = (float)standing;
    for (int i = 0; i < SIDE * SIDE; i++)
      pictures[n * SIDE * SIDE + (size_t)i] = (float)(next_random(&random) * 0.3 + ((standing ? i % SIDE : i / SIDE) == at));
  }
}

static gconv_trainer *train(const char *text, const gconv_training_options *options, const gconv_device *device,
                            const gconv_dataset *data, const gconv_dataset *validation, gconv_epoch *epoch) {
  gconv_network network = {0};
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  gconv_trainer *trainer = NULL;
  if (gconv_network_make(text, info->channels, info->height, info->width, info->outputs, 1, &network) != GCONV_OK)
    fail_msg("%s", gconv_last_error());
  if (gconv_trainer_create((gconv_device *)device, &network, options, data, validation, NULL, &trainer) != GCONV_OK)
    fail_msg("%s", gconv_last_error());
  gconv_network_free(&network);
  do
    if (gconv_trainer_epoch(trainer, epoch) != GCONV_OK)
      fail_msg("%s", gconv_last_error());
  while (!epoch->ended);
  return trainer;
}

static void learns_what_bars_are(void **state) {
  (void)state;
  static const struct {
    const char *text;
    gconv_optimizer optimizer;
    gconv_loss loss;
    double rate;
  } cases[] = {{"dense 8 tanh, dense 2 softmax", GCONV_OPTIMIZER_ADAM, GCONV_LOSS_DEFAULT, 0.01},
               {"dense 8 sigmoid, dense 2 sigmoid", GCONV_OPTIMIZER_RPROP, GCONV_LOSS_SSE, 0},
               {"conv 4 3x3 relu, conv 4 3x3/2 leaky, dense 2 softmax", GCONV_OPTIMIZER_SGD, GCONV_LOSS_DEFAULT, 0},
               {"conv 6 1x5 valid relu, conv 6 5x1 valid relu, mean, dense 2 softmax", GCONV_OPTIMIZER_ADAM,
                GCONV_LOSS_DEFAULT, 0.01},
               {"dense 8 relu, dense 2", GCONV_OPTIMIZER_MOMENTUM, GCONV_LOSS_MSE, 0}};
  array_dataset data = make_dataset(200, 1, SIDE, SIDE, 2, 2, pictures, classes);
  array_dataset test = make_dataset(100, 1, SIDE, SIDE, 2, 2, pictures + 200 * SIDE * SIDE, classes + 200);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    gconv_training_options options = {
        .optimizer = cases[i].optimizer, .loss = cases[i].loss, .rate = cases[i].rate, .epochs = 40};
    gconv_epoch epoch;
    gconv_trainer *trainer = train(cases[i].text, &options, devices[i % 2], &data.base, &test.base, &epoch);
    if (epoch.validation_accuracy < 0.95 || epoch.number != 40)
      fail_msg("%s: accuracy %g, loss %g", cases[i].text, epoch.validation_accuracy, epoch.loss);
    gconv_trainer_free(trainer);
  }
}

int main(void) {
  draw_pictures();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(learns_what_bars_are),
  };
  return cmocka_run_group_tests(tests, open_devices, close_devices);
}

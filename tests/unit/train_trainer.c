/* SPDX-License-Identifier: MIT */
/* The trainer: that it learns, ends when it shall, and goes on after interruptions to the very same bytes. */
#include "train/trainer.h"
#include "train_devices.h"
#include "train_test.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

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
  if (gconv_network_make(text, (const int32_t[]){info->channels, info->height, info->width}, info->outputs, 1, &network) !=
      GCONV_OK)
    fail_msg("%s", gconv_last_error());
  if (gconv_trainer_create((gconv_device *)device, &network, options, data, validation, &trainer) != GCONV_OK)
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

/* The rates of a schedule: exact at its beginning and middle, and near the library's cosine everywhere. */
static void a_cosine_falls_to_nothing(void **state) {
  (void)state;
  const gconv_training_options options = {.optimizer = GCONV_OPTIMIZER_SGD,
                                          .schedule = GCONV_SCHEDULE_COSINE,
                                          .rate = 1,
                                          .weight_decay = 1, /* `keep` is 1 - rate then */
                                          .epochs = 1000,
                                          .elimination_scale = 1};
  for (uint64_t epoch = 0; epoch <= options.epochs; epoch++) {
    gconv_learn_step step = gconv_training_step(&options, epoch, epoch + 1);
    double wanted = 0.5 * (1 + cos(3.14159265358979323846 * (double)epoch / (double)options.epochs));
    assert_true(fabs((double)step.rate - wanted) <= 6e-8 * wanted + 3e-16);
    assert_true(fabs((double)step.keep - (1 - wanted)) <= 6e-8 * (1 - wanted) + 3e-16);
  }
  assert_true(gconv_training_step(&options, 0, 1).rate == 1.0f);
  assert_true(gconv_training_step(&options, 500, 1).rate == 0.5f);
}

/* ---- Interruptions ---- */

/* A data set that sets a flag before it reads the cases of some step. */
typedef struct stopping_dataset {
  array_dataset cases;
  int left; /* reads until then */
  volatile int stop;
} stopping_dataset;

static gconv_status stopping_read(const gconv_dataset *dataset, uint64_t epoch, const size_t *cases, size_t count,
                                  float *inputs, float *targets) {
  stopping_dataset *set = (stopping_dataset *)dataset;
  if (--set->left == 0)
    set->stop = 1;
  return array_read(dataset, epoch, cases, count, inputs, targets);
}

static const gconv_dataset_type stopping_type = {.read = stopping_read, .free = array_free};

static void compare_networks(const char *what, const gconv_network *a, const gconv_network *b) {
  assert_int_equal(a->count, b->count);
  for (size_t i = 0; i < a->count; i++) {
    const gconv_bank *first = &a->banks[i], *second = &b->banks[i];
    size_t count = (size_t)first->filters * (size_t)first->channels * (size_t)first->rows * (size_t)first->columns;
    if (a->layers[i].kind == GCONV_LAYER_CONV &&
        (memcmp(first->weights, second->weights, count * sizeof(float)) != 0 ||
         memcmp(first->biases, second->biases, (size_t)first->filters * sizeof(float)) != 0))
      fail_msg("%s: layer %zu has other weights than without interruptions", what, i);
  }
  assert_string_equal(a->trained, b->trained);
}

static void make_trainer(gconv_device *device, const gconv_network *network, const gconv_training_options *options,
                         const gconv_dataset *data, const gconv_dataset *validation, const char *checkpoint,
                         gconv_trainer **trainer) {
  gconv_training_options resumed = *options;
  resumed.resume_from = checkpoint;
  if (gconv_trainer_create(device, network, &resumed, data, validation, trainer) != GCONV_OK)
    fail_msg("%s", gconv_last_error());
}

static void goes_on_to_the_same_bytes(void **state) {
  (void)state;
  static const struct {
    const char *text;
    gconv_training_options options;
  } cases[] = {{"dense 8 tanh, dense 2 softmax", {.epochs = 5, .batch = 16, .schedule = GCONV_SCHEDULE_COSINE}},
               {"dense 8 sigmoid, dense 2", {.optimizer = GCONV_OPTIMIZER_RPROP, .epochs = 9, .elimination = 1e-3}},
               {"conv 3 3x3/2 leaky, dense 4 tanh, dense 2 softmax",
                {.optimizer = GCONV_OPTIMIZER_MOMENTUM, .epochs = 4, .batch = 7, .weight_decay = 0.01}},
               {"conv 2 3x3 relu, mean, dense 2 softmax", {.epochs = 3, .batch = 32, .patience = 2}}};
  uint64_t random = 5;
  char path[64];
  snprintf(path, sizeof path, "/tmp/gconv_learn_%ld.safetensors", (long)getpid());
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    array_dataset plain = make_dataset(200, 1, SIDE, SIDE, 2, 2, pictures, classes);
    array_dataset test = make_dataset(100, 1, SIDE, SIDE, 2, 2, pictures + 200 * SIDE * SIDE, classes + 200);
    const gconv_dataset *validation = i % 2 ? NULL : &test.base;
    gconv_training_options options = cases[i].options;
    gconv_epoch whole, epoch;
    gconv_network network = {0}, wanted[2] = {0};
    gconv_trainer *trainer = train(cases[i].text, &options, devices[0], &plain.base, validation, &whole);
    for (int last = 0; last < 2; last++)
      assert_int_equal(gconv_trainer_network(trainer, last, &wanted[last]), GCONV_OK);
    gconv_trainer_free(trainer);
    assert_int_equal(gconv_network_make(cases[i].text, (const int32_t[]){1, SIDE, SIDE}, 2, 1, &network), GCONV_OK);
    for (int round = 0; round < 12; round++) {
      stopping_dataset data = {.cases = plain};
      data.cases.base.type = &stopping_type;
      options.stop = &data.stop;
      bool begun = false;
      int turn = 0;
      do { /* each part on a device with another number of threads, in a trainer of its own */
        data.left = 1 + (int)((next_random(&random) + 1) * 30);
        data.stop = 0;
        make_trainer(devices[turn++ % 2], &network, &options, &data.cases.base, validation, begun ? path : NULL, &trainer);
        do
          assert_int_equal(gconv_trainer_epoch(trainer, &epoch), GCONV_OK);
        while (!epoch.ended && !epoch.interrupted);
        if (!epoch.ended) {
          assert_int_equal(gconv_trainer_save(trainer, path), GCONV_OK);
          gconv_trainer_free(trainer);
        }
        begun = true;
      } while (!epoch.ended);
      assert_true(epoch.loss == whole.loss && epoch.number == whole.number && strcmp(epoch.ended, whole.ended) == 0);
      for (int last = 0; last < 2; last++) {
        gconv_network result = {0};
        assert_int_equal(gconv_trainer_network(trainer, last, &result), GCONV_OK);
        compare_networks(cases[i].text, &result, &wanted[last]);
        gconv_network_free(&result);
      }
      gconv_trainer_free(trainer);
    }
    gconv_network_free(&network);
    gconv_network_free(&wanted[0]);
    gconv_network_free(&wanted[1]);
  }
  unlink(path);
}

static void refuses_checkpoints_of_other_settings(void **state) {
  (void)state;
  char path[64];
  snprintf(path, sizeof path, "/tmp/gconv_learn_other_%ld.safetensors", (long)getpid());
  array_dataset data = make_dataset(200, 1, SIDE, SIDE, 2, 2, pictures, classes), other = data;
  gconv_training_options options = {.epochs = 1};
  gconv_epoch epoch;
  gconv_network network = {0}, wider = {0};
  gconv_trainer *trainer = train("dense 8 tanh, dense 2 softmax", &options, devices[0], &data.base, NULL, &epoch), *next;
  assert_int_equal(gconv_trainer_save(trainer, path), GCONV_OK);
  assert_int_equal(gconv_network_make("dense 8 tanh, dense 2 softmax", (const int32_t[]){1, SIDE, SIDE}, 2, 1, &network),
                   GCONV_OK);
  assert_int_equal(gconv_network_make("dense 9 tanh, dense 2 softmax", (const int32_t[]){1, SIDE, SIDE}, 2, 1, &wider),
                   GCONV_OK);
  other.base.info.cases = 199;
  static const struct {
    gconv_training_options options;
    int network, data;
    const char *error;
  } cases[] = {{{.rate = 0.5}, 0, 0, "its rate was 0.001, and is 0.5 now"},
               {{.batch = 8}, 0, 0, "its batch was 32"},
               {{.seed = 3}, 0, 0, "its seed was \"0\""},
               {{.optimizer = GCONV_OPTIMIZER_SGD}, 0, 0, "its optimizer was \"adam\""},
               {{0}, 0, 1, "its cases was 200"},
               {{0}, 1, 0, "was made with another network"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    gconv_training_options changed = cases[i].options;
    changed.resume_from = path;
    gconv_status status = gconv_trainer_create(devices[0], cases[i].network ? &wider : &network, &changed,
                                               cases[i].data ? &other.base : &data.base, NULL, &next);
    if (status == GCONV_OK || !strstr(gconv_last_error(), cases[i].error))
      fail_msg("%s, not: %s", status == GCONV_OK ? "it is taken" : gconv_last_error(), cases[i].error);
  }
  options.epochs = 2; /* more of them are no other setting */
  make_trainer(devices[0], &network, &options, &data.base, NULL, path, &next);
  assert_int_equal(gconv_trainer_epoch(next, &epoch), GCONV_OK);
  assert_true(epoch.number == 2 && epoch.ended);
  gconv_trainer_free(next);
  gconv_trainer_free(trainer);
  gconv_network trained = {0};
  assert_int_equal(gconv_network_write(path, &network), GCONV_OK);
  options.resume_from = path;
  assert_int_not_equal(gconv_trainer_create(devices[0], &network, &options, &data.base, NULL, &next), GCONV_OK);
  assert_non_null(strstr(gconv_last_error(), "is a network, but no checkpoint"));
  gconv_network_free(&trained);
  gconv_network_free(&network);
  gconv_network_free(&wider);
  unlink(path);
}

/* ---- Ends ---- */

static void ends_when_it_shall(void **state) {
  (void)state;
  array_dataset data = make_dataset(200, 1, SIDE, SIDE, 2, 2, pictures, classes);
  array_dataset noise =
      make_dataset(100, 1, SIDE, SIDE, 2, 2, pictures + 200 * SIDE * SIDE, classes + 3); /* whose classes are wrong */
  gconv_epoch epoch;
  gconv_training_options options = {.epochs = 200, .rate = 0.01, .stop_error = 0.05};
  gconv_trainer_free(train("dense 8 tanh, dense 2 softmax", &options, devices[0], &data.base, NULL, &epoch));
  assert_true(epoch.number < 200 && epoch.loss <= 0.05 && strstr(epoch.ended, "one to stop at"));
  options = (gconv_training_options){.epochs = 200, .rate = 0.01, .patience = 3};
  gconv_trainer *trainer = train("dense 8 tanh, dense 2 softmax", &options, devices[0], &data.base, &noise.base, &epoch);
  const size_t number = epoch.number;
  assert_true(number < 200 && strstr(epoch.ended, "patience"));
  char path[64];
  gconv_network network = {0};
  snprintf(path, sizeof path, "/tmp/gconv_learn_ends_%ld.safetensors", (long)getpid());
  assert_int_equal(gconv_trainer_save(trainer, path), GCONV_OK);
  gconv_trainer_free(trainer);
  assert_int_equal(gconv_network_make("dense 8 tanh, dense 2 softmax", (const int32_t[]){1, SIDE, SIDE}, 2, 1, &network),
                   GCONV_OK);
  for (int more = 0; more < 2; more++) { /* with more patience, training goes on from the checkpoint */
    options.patience = more ? 100 : 3;
    make_trainer(devices[0], &network, &options, &data.base, &noise.base, path, &trainer);
    assert_int_equal(gconv_trainer_epoch(trainer, &epoch), GCONV_OK);
    assert_true(epoch.number == number + (size_t)more && !epoch.ended == (more == 1));
    gconv_trainer_free(trainer);
  }
  gconv_network_free(&network);
  unlink(path);
}

static void keeps_the_best_when_it_diverges(void **state) {
  (void)state;
  array_dataset data = make_dataset(200, 1, SIDE, SIDE, 0, 36, pictures, pictures);
  for (int batch = 0; batch < 2; batch++) {
    gconv_epoch epoch;
    gconv_training_options options = {
        .optimizer = GCONV_OPTIMIZER_SGD, .loss = GCONV_LOSS_SSE, .rate = 3, .epochs = 100, .batch = batch ? 200 : 32};
    gconv_trainer *trainer = train("dense 8, dense 36", &options, devices[0], &data.base, NULL, &epoch);
    gconv_network best = {0};
    assert_true(epoch.number < 100 && strstr(epoch.ended, "smaller rate"));
    assert_int_equal(gconv_trainer_network(trainer, false, &best), GCONV_OK);
    for (int i = 0; i < 8 * 36; i++)
      assert_true(isfinite(best.banks[0].weights[i]));
    gconv_network_free(&best);
    gconv_trainer_free(trainer);
  }
}

static void says_what_does_not_fit(void **state) {
  (void)state;
  array_dataset data = make_dataset(200, 1, SIDE, SIDE, 2, 2, pictures, classes);
  array_dataset wanted = make_dataset(200, 1, SIDE, SIDE, 0, 36, pictures, pictures);
  static const struct {
    const char *text;
    gconv_training_options options;
    int targets, height;
    const char *error;
  } cases[] = {
      {"dense 3 softmax", {0}, 0, SIDE, "the network has 3 outputs (3 x 1 x 1), but the data have 2 classes"},
      {"conv 2 3x3 softmax", {0}, 0, 0, "end the network in \"mean\""},
      {"dense 2", {.loss = GCONV_LOSS_CROSS_ENTROPY}, 0, SIDE, "needs a last layer with the activation softmax"},
      {"dense 36 softmax", {.loss = GCONV_LOSS_CROSS_ENTROPY}, 1, SIDE, "needs data with classes"},
      {"dense 2", {0}, 0, 5, "takes inputs of 1 x 5 x 5, but the data are 1 x 6 x 6"},
      {"dense 2", {.rate = -1}, 0, SIDE, "the rate is -1"},
      {"dense 2", {.rate = NAN}, 0, SIDE, "the rate is nan"},
      {"dense 2", {.momentum = 0.5}, 0, SIDE, "a momentum is for the optimizer momentum"},
      {"dense 2", {.optimizer = GCONV_OPTIMIZER_RPROP, .batch = 5}, 0, SIDE, "full batches only"},
      {"dense 2", {.optimizer = GCONV_OPTIMIZER_RPROP, .schedule = GCONV_SCHEDULE_STEP}, 0, SIDE, "takes no schedule"},
      {"dense 2", {.optimizer = (gconv_optimizer)9}, 0, SIDE, "the optimizer"},
      {"dense 2", {.algorithm = "gemm"}, 0, SIDE, "not \"gemm\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    gconv_network network = {0};
    gconv_trainer *trainer = NULL;
    assert_int_equal(
        gconv_network_make(cases[i].text, (const int32_t[]){1, cases[i].height, cases[i].height}, 0, 1, &network), GCONV_OK);
    gconv_status status = gconv_trainer_create(devices[0], &network, &cases[i].options,
                                               cases[i].targets ? &wanted.base : &data.base, NULL, &trainer);
    if (status == GCONV_OK || !strstr(gconv_last_error(), cases[i].error))
      fail_msg("%s: %s, not: %s", cases[i].text, status == GCONV_OK ? "it is taken" : gconv_last_error(), cases[i].error);
    gconv_network_free(&network);
  }
  array_dataset square = wanted, wide = wanted;
  gconv_network network = {0};
  gconv_trainer *trainer = NULL;
  square.base.info.target_channels = wide.base.info.target_channels = 1;
  square.base.info.target_height = square.base.info.target_width = 6;
  wide.base.info.target_height = 4, wide.base.info.target_width = 9;
  assert_int_equal(gconv_network_make("conv 1 3x3", (const int32_t[]){1, SIDE, SIDE}, 0, 1, &network), GCONV_OK);
  assert_int_not_equal(gconv_trainer_create(devices[0], &network, NULL, &square.base, &wide.base, &trainer), GCONV_OK);
  assert_non_null(
      strstr(gconv_last_error(), "the targets of the validation are 1 x 4 x 9, those of the training 1 x 6 x 6"));
  gconv_network_free(&network);
}

static void refuses_borders(void **state) {
  (void)state;
  array_dataset data = make_dataset(200, 1, SIDE, SIDE, 2, 2, pictures, classes);
  const gconv_training_options options = {.epochs = 1};
  gconv_network network = {0};
  gconv_trainer *trainer = NULL;
  assert_int_equal(gconv_network_make("conv 2 3x3 relu, dense 2 softmax", (const int32_t[]){1, SIDE, SIDE}, 2, 1, &network),
                   GCONV_OK);
  network.layers[0].border = GCONV_BORDER_WRAP;
  assert_int_equal(gconv_trainer_create(devices[0], &network, &options, &data.base, NULL, &trainer), GCONV_UNSUPPORTED);
  assert_non_null(strstr(gconv_last_error(), "layer 1 has border wrap, which cannot be trained"));
  gconv_network_free(&network);
}

int main(void) {
  draw_pictures();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(learns_what_bars_are),      cmocka_unit_test(a_cosine_falls_to_nothing),
      cmocka_unit_test(goes_on_to_the_same_bytes), cmocka_unit_test(refuses_checkpoints_of_other_settings),
      cmocka_unit_test(ends_when_it_shall),        cmocka_unit_test(keeps_the_best_when_it_diverges),
      cmocka_unit_test(says_what_does_not_fit),    cmocka_unit_test(refuses_borders),
  };
  return cmocka_run_group_tests(tests, open_devices, close_devices);
}

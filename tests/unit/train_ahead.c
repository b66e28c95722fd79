/* SPDX-License-Identifier: MIT */
/* Steps that are taken ahead, while others are told (ahead.c): by an engine that takes several at a time, as that of a GPU
 * does, but computes as that of the CPU. What is told, and what others see of the weights meanwhile, is as if the steps were
 * taken one by one. */
#include "train/trainer.h"
#include "train_devices.h"
#include "train_test.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { CASES = 40, INPUTS = 5, AT_A_TIME = 7, EPOCHS = 40 };

static float inputs[CASES * INPUTS], classes[CASES];
static array_dataset data;

static int draw_cases(void **state) {
  uint64_t random = 3;
  for (size_t n = 0; n < CASES; n++) {
    classes[n] = (float)(n % 3);
    for (size_t i = 0; i < INPUTS; i++)
      inputs[n * INPUTS + i] = (float)(next_random(&random) + (i == n % 3));
  }
  data = make_dataset(CASES, INPUTS, 1, 1, 3, 3, inputs, classes);
  return open_devices(state);
}

/* ---- An engine that takes several steps at a time. Between start() and await(), nobody may call it. ---- */

static const gconv_trainer *of; /* the trainer whose engine is at work */
static gconv_learn_sums sums_of[AT_A_TIME];
static size_t at_work;
static int starts, again; /* calls of start(), and of set() behind the first of them */

static gconv_status start(void *engine, const gconv_learn_cases *cases, const gconv_learn_step *steps, size_t count,
                          double best) {
  assert_int_equal(at_work, 0);
  assert_int_equal(cases->count, CASES);
  starts++;
  for (; at_work < count && at_work < AT_A_TIME; at_work++) {
    gconv_learn_sums *sums = &sums_of[at_work];
    assert_int_equal(gconv_engine_cpu.backward(engine, cases, sums), GCONV_OK);
    const double loss = sums->loss * gconv_learn_loss_factor(&of->net, CASES);
    if (!isfinite(loss)) {
      at_work++;
      break;
    }
    if (loss < best) {
      gconv_engine_cpu.keep(engine);
      best = loss;
    }
    assert_int_equal(gconv_engine_cpu.update(engine, &steps[at_work]), GCONV_OK);
  }
  return GCONV_OK;
}

static gconv_status await(void *engine, gconv_learn_sums *sums, size_t *taken) {
  (void)engine;
  assert_true(at_work > 0);
  memcpy(sums, sums_of, at_work * sizeof *sums);
  *taken = at_work;
  at_work = 0;
  return GCONV_OK;
}

static void set(void *engine, gconv_learn_array array, const float *values) {
  assert_int_equal(at_work, 0);
  again++;
  gconv_engine_cpu.set(engine, array, values);
}

static void get(const void *engine, gconv_learn_array array, float *values) {
  assert_int_equal(at_work, 0);
  gconv_engine_cpu.get(engine, array, values);
}

static void keep(void *engine) {
  assert_int_equal(at_work, 0);
  gconv_engine_cpu.keep(engine);
}

static bool is_finite(const void *engine) {
  assert_int_equal(at_work, 0);
  return gconv_engine_cpu.is_finite(engine);
}

/* ---- The same for batches, of an engine that is told of the next epoch while it is at work ---- */

static size_t told[CASES]; /* its cases */
static uint64_t told_epoch;
static int tellings; /* as many of them as were true */
static bool is_told;

static gconv_status start_batches(void *engine, const gconv_learn_cases *cases, const gconv_learn_step *steps, size_t count,
                                  double best) {
  (void)best;
  assert_int_equal(at_work, 0);
  if (is_told) {
    assert_int_equal(cases->epoch, told_epoch);
    assert_int_equal(cases->count, CASES);
    assert_memory_equal(cases->numbers, told, sizeof told);
    tellings++;
  }
  is_told = false;
  const size_t batch = of->options.batch;
  for (; at_work < count; at_work++) {
    gconv_learn_cases some = *cases;
    some.numbers += at_work * batch;
    some.count = CASES - at_work * batch < batch ? CASES - at_work * batch : batch;
    assert_int_equal(gconv_engine_cpu.backward(engine, &some, &sums_of[at_work]), GCONV_OK);
    assert_int_equal(gconv_engine_cpu.update(engine, &steps[at_work]), GCONV_OK);
  }
  return GCONV_OK;
}

static void prepare(void *engine, const gconv_learn_cases *next) {
  (void)engine;
  assert_true(at_work > 0);
  is_told = next != NULL;
  if (next) {
    assert_int_equal(next->count, CASES);
    memcpy(told, next->numbers, sizeof told);
    told_epoch = next->epoch;
  }
}

/* ---- Two trainers, one of which goes ahead ---- */

static gconv_engine_type several;

static void make(const gconv_training_options *options, gconv_trainer *trainers[2]) {
  const char *text = options->loss == GCONV_LOSS_MSE ? "dense 4, dense 3" : "dense 4 tanh, dense 3 softmax";
  gconv_network network = {0};
  assert_int_equal(gconv_network_make(text, (const int32_t[]){INPUTS, 1, 1}, 3, 1, &network), GCONV_OK);
  for (int i = 0; i < 2; i++)
    if (gconv_trainer_create(devices[0], &network, options, &data.base, NULL, &trainers[i]) != GCONV_OK)
      fail_msg("%s", gconv_last_error());
  gconv_network_free(&network);
  several = gconv_engine_cpu;
  several.backward = NULL;
  several.update = NULL;
  several.start = start;
  several.await = await;
  several.set = set;
  several.get = get;
  several.keep = keep;
  several.is_finite = is_finite;
  trainers[1]->type = &several;
  of = trainers[1];
  at_work = 0;
  starts = again = 0;
}

static void compare_networks(gconv_trainer *trainers[2], bool last) {
  gconv_network networks[2] = {{0}, {0}};
  for (int i = 0; i < 2; i++)
    assert_int_equal(gconv_trainer_network(trainers[i], last, &networks[i]), GCONV_OK);
  for (size_t i = 0; i < networks[0].count; i++) {
    const gconv_bank *a = &networks[0].banks[i], *b = &networks[1].banks[i];
    assert_memory_equal(a->weights, b->weights, (size_t)a->filters * (size_t)a->channels * sizeof(float));
    assert_memory_equal(a->biases, b->biases, (size_t)a->filters * sizeof(float));
  }
  assert_string_equal(networks[0].trained, networks[1].trained);
  gconv_network_free(&networks[0]);
  gconv_network_free(&networks[1]);
}

/* An epoch of both. Returns whether that was the last one. */
static bool compare_epoch(gconv_trainer *trainers[2]) {
  gconv_epoch epochs[2];
  for (int i = 0; i < 2; i++)
    assert_int_equal(gconv_trainer_epoch(trainers[i], &epochs[i]), GCONV_OK);
  assert_int_equal(epochs[0].number, epochs[1].number);
  assert_memory_equal(&epochs[0].loss, &epochs[1].loss, sizeof epochs[0].loss);
  assert_memory_equal(&epochs[0].accuracy, &epochs[1].accuracy, sizeof epochs[0].accuracy);
  assert_int_equal(epochs[0].best, epochs[1].best);
  assert_ptr_equal(epochs[0].ended, epochs[1].ended);
  return epochs[0].ended != NULL;
}

static void free_both(gconv_trainer *trainers[2]) {
  gconv_trainer_free(trainers[0]);
  gconv_trainer_free(trainers[1]);
}

/* ---- Tests ---- */

static const gconv_training_options kinds[] = {
    {.optimizer = GCONV_OPTIMIZER_SGD, .rate = 0.3, .batch = SIZE_MAX, .epochs = EPOCHS},
    {.optimizer = GCONV_OPTIMIZER_MOMENTUM, .rate = 2, .batch = SIZE_MAX, .epochs = EPOCHS}, /* it goes to and fro */
    {.optimizer = GCONV_OPTIMIZER_RPROP, .epochs = EPOCHS},
    {.optimizer = GCONV_OPTIMIZER_ADAM, .batch = SIZE_MAX, .epochs = EPOCHS, .schedule = GCONV_SCHEDULE_COSINE}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void what_is_told_is_the_same(void **state) {
  (void)state;
  for (size_t kind = 0; kind < KINDS; kind++) {
    gconv_trainer *trainers[2];
    make(&kinds[kind], trainers);
    for (int epoch = 1; !compare_epoch(trainers); epoch++)
      if (epoch == AT_A_TIME + 1)
        assert_int_equal(starts, 3); /* the first steps are told, the next ones begun to be, and others under way */
    assert_int_equal(starts, (EPOCHS + AT_A_TIME - 1) / AT_A_TIME);
    assert_int_equal(again, 0);
    compare_networks(trainers, false);
    compare_networks(trainers, true);
    free_both(trainers);
  }
}

static void weights_are_those_of_the_epoch_that_was_told(void **state) {
  (void)state;
  uint64_t random = 5;
  for (size_t kind = 0; kind < KINDS; kind++)
    for (int round = 0; round < 20; round++) {
      gconv_trainer *trainers[2];
      make(&kinds[kind], trainers);
      while (!compare_epoch(trainers))
        if (next_random(&random) < (round % 2 ? -0.8 : 0)) /* at 10% or half of the epochs */
          compare_networks(trainers, next_random(&random) < 0);
      compare_networks(trainers, false);
      compare_networks(trainers, true);
      assert_true(again > 0);
      free_both(trainers);
    }
}

static void stops_and_goes_on(void **state) {
  (void)state;
  for (int at = 1; at < 2 * AT_A_TIME + 3; at++) {
    volatile int stop = 0;
    gconv_training_options options = kinds[3];
    gconv_trainer *trainers[2];
    options.stop = &stop;
    make(&options, trainers);
    for (int epoch = 1; epoch <= at; epoch++)
      assert_false(compare_epoch(trainers));
    stop = 1; /* the trainer is asked for no more epochs until its state is saved, as gconv train does */
    compare_networks(trainers, true);
    stop = 0;
    while (!compare_epoch(trainers))
      ;
    compare_networks(trainers, false);
    free_both(trainers);
  }
}

static void may_be_freed_while_steps_are_under_way(void **state) {
  (void)state;
  gconv_trainer *trainers[2];
  make(&kinds[0], trainers);
  assert_false(compare_epoch(trainers));
  assert_true(at_work > 0);
  free_both(trainers);
}

static void divergence_is_told_as_without(void **state) {
  (void)state;
  static const double rates[] = {1.3, 1.5, 30, 1e6}; /* sooner and sooner */
  for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
    const gconv_training_options options = {
        .loss = GCONV_LOSS_MSE, .optimizer = GCONV_OPTIMIZER_SGD, .rate = rates[i], .batch = SIZE_MAX, .epochs = EPOCHS};
    gconv_trainer *trainers[2];
    make(&options, trainers);
    int epochs = 1;
    while (!compare_epoch(trainers))
      epochs++;
    assert_true(epochs < EPOCHS);
    compare_networks(trainers, false);
    free_both(trainers);
  }
}

static void the_next_epoch_is_told_while_a_device_works(void **state) {
  (void)state;
  const gconv_training_options options = {.rate = 0.01, .batch = 16, .epochs = EPOCHS};
  gconv_trainer *trainers[2];
  make(&options, trainers);
  several.start = start_batches;
  several.prepare = prepare;
  tellings = 0;
  is_told = false;
  while (!compare_epoch(trainers))
    ;
  assert_int_equal(tellings, EPOCHS - 1);
  assert_false(is_told); /* there is no epoch behind the last one */
  compare_networks(trainers, false);
  free_both(trainers);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_told_is_the_same),
      cmocka_unit_test(weights_are_those_of_the_epoch_that_was_told),
      cmocka_unit_test(stops_and_goes_on),
      cmocka_unit_test(may_be_freed_while_steps_are_under_way),
      cmocka_unit_test(divergence_is_told_as_without),
      cmocka_unit_test(the_next_epoch_is_told_while_a_device_works),
  };
  return cmocka_run_group_tests(tests, draw_cases, close_devices);
}

/* SPDX-License-Identifier: MIT */
/* Convolutions that roll (src/graph/rolling.h) make the bytes of the same convolutions one after the other, and stop soon.
 */
#include "base/memory.h"
#include "gconv_embed.h"
#include "graph/rolling.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CHAINS = 300, MOST_STAGES = 5, LEAST_ROLLED = 200 };

static gconv_device *device;
static uint64_t state = 88172645463325252U;

static int32_t draw(int32_t from, int32_t to) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return from + (int32_t)(state * UINT64_C(2685821657736338717) >> 33) % (to - from + 1);
}

static float *draw_floats(int64_t count) {
  float *floats = malloc((size_t)(count + 256) * sizeof *floats); /* kernels may read beyond the end */
  assert_non_null(floats);
  for (int64_t i = 0; i < count + 256; i++)
    floats[i] = (float)draw(-1000, 1000) / 1000;
  return floats;
}

/* A chain: problems of whole maps, and the algorithms. */
typedef struct chain {
  int32_t count, images;
  gconv_layer_problem problems[MOST_STAGES];
  const char *names[MOST_STAGES];
} chain;

/* Draws a stage whose input is the output of `before`, and its algorithm. */
static gconv_layer_problem draw_stage(const gconv_layer_problem *before, const char **name) {
  static const char *const names[] = {"direct", "gemm", "pointwise", "depthwise", "winograd", "winograd4"};
  gconv_layer_problem p = {.images = before->images, .channels = before->filters, .groups = 1, .slope = 0.1F};
  *name = names[draw(0, 5)];
  p.height = before->out_height;
  p.width = before->out_width;
  p.in_blocks = before->out_blocks;
  p.out_blocks = draw(0, 1);
  p.filters = draw(0, 2) > 0 ? 16 * draw(1, 3) : draw(1, 20);
  p.rows = p.columns = strcmp(*name, "pointwise") == 0 ? 1 : (*name)[0] == 'w' ? 3 : 2 * draw(0, 2) + 1;
  if (strcmp(*name, "depthwise") == 0)
    p.groups = p.filters = p.channels;
  p.dilation_y = p.dilation_x = p.rows > 1 && (*name)[0] != 'w' && draw(0, 4) == 0 ? 2 : 1;
  p.stride_y = p.stride_x = (*name)[0] != 'w' && draw(0, 4) == 0 ? 2 : 1;
  p.pad_top = p.pad_left = strcmp(*name, "pointwise") == 0 ? 0 : draw(0, p.rows - 1);
  p.out_height = (p.height + 2 * p.pad_top - (p.rows - 1) * p.dilation_y - 1) / p.stride_y + 1;
  p.out_width = (p.width + 2 * p.pad_left - (p.columns - 1) * p.dilation_x - 1) / p.stride_x + 1;
  p.activation = draw(0, 1) ? GCONV_ACTIVATION_RELU : draw(0, 1) ? GCONV_ACTIVATION_LEAKY : GCONV_ACTIVATION_NONE;
  return p;
}

static chain draw_chain(void) {
  chain c = {.count = draw(2, MOST_STAGES), .images = draw(1, 4) == 1 ? 2 : 1};
  gconv_layer_problem before = {.images = c.images, .filters = draw(1, 20), .out_height = draw(60, 160)};
  before.out_width = draw(17, 70);
  for (int32_t i = 0; i < c.count; i++)
    before = c.problems[i] = draw_stage(&before, &c.names[i]);
  c.problems[c.count - 1].out_blocks = false;
  return c;
}

static bool choose(const chain *c, gconv_solver *solvers) {
  for (int32_t i = 0; i < c->count; i++) {
    gconv_layer_choice *choice = &solvers[i].choice;
    solvers[i].constant = true;
    choice->whole = choice->problem = c->problems[i];
    choice->whole.workspace_limit = choice->problem.workspace_limit = (size_t)1 << 28;
    choice->whole.threads = choice->problem.threads = 2;
    choice->images = choice->chosen_for = c->images;
    if (gconv_layer_choose(device, NULL, c->names[i], choice, NULL) != GCONV_OK)
      return false;
  }
  return true;
}

static void give_weights(const chain *c, gconv_solver *solvers, float *const *numbers) {
  for (int32_t i = 0; i < c->count; i++) {
    const gconv_layer_problem *p = &c->problems[i];
    float *weights;
    assert_int_equal(gconv_solver_open(&solvers[i], &weights), GCONV_OK);
    memcpy(weights, numbers[i], (size_t)(p->filters * (gconv_layer_taps(p) + 1)) * sizeof *weights);
    assert_int_equal(gconv_solver_pack(&solvers[i]), GCONV_OK);
  }
}

static float *map_of(const gconv_layer_problem *p) {
  return draw_floats(p->images * gconv_layer_image_floats(p->filters, (int64_t)p->out_height * p->out_width, p->out_blocks));
}

/* Runs one convolution after the other. */
static float *run_apart(const chain *c, const gconv_solver *solvers, const float *in) {
  const float *from = in;
  float *map = NULL;
  for (int32_t i = 0; i < c->count; i++) {
    const gconv_layer_choice *choice = &solvers[i].choice;
    const size_t seat = (choice->workspace_bytes + 63) / 64 * 64;
    void *workspace = NULL;
    float *to = map_of(&c->problems[i]);
    assert_int_equal(gconv_allocate(2 * seat + 64, "a workspace", &workspace), GCONV_OK);
    assert_int_equal(gconv_layer_execute_cpu(choice->algorithm, &choice->problem, c->images, solvers[i].weights, from, to,
                                             device->threads, workspace, seat),
                     GCONV_OK);
    gconv_release(workspace);
    free(map);
    from = map = to;
  }
  return map;
}

static float *run_rolling(const chain *c, const gconv_rolling *rolling, const float *in) {
  void *memory = NULL;
  float *out = map_of(&c->problems[c->count - 1]);
  const size_t bytes = gconv_rolling_bytes(rolling);
  assert_int_equal(gconv_allocate(bytes, "the bands", &memory), GCONV_OK);
  memset(memory, 0xff, bytes); /* NaN */
  assert_int_equal(gconv_rolling_run(rolling, c->images, in, out, device->threads, memory), GCONV_OK);
  gconv_release(memory);
  return out;
}

/* Returns whether all stages of a chain rolled. */
static bool try_chain(const chain *c) {
  gconv_solver apart[MOST_STAGES] = {{.constant = true}}, together[MOST_STAGES] = {{.constant = true}};
  gconv_solver *list[MOST_STAGES];
  float *numbers[MOST_STAGES];
  gconv_rolling *rolling = NULL;
  for (int32_t i = 0; i < c->count; i++) {
    numbers[i] = draw_floats(c->problems[i].filters * (gconv_layer_taps(&c->problems[i]) + 1));
    list[i] = &together[i];
  }
  const bool can = choose(c, apart) && choose(c, together);
  if (can)
    assert_int_equal(gconv_rolling_make(list, (size_t)c->count, 0, device->threads, &rolling), GCONV_OK);
  const bool all = rolling && rolling->count == (size_t)c->count;
  if (all) {
    const gconv_layer_problem *first = &c->problems[0], *last = &c->problems[c->count - 1];
    float *in =
        draw_floats(c->images * gconv_layer_image_floats(first->channels, gconv_layer_plane(first), first->in_blocks));
    give_weights(c, apart, numbers);
    give_weights(c, together, numbers);
    float *wanted = run_apart(c, apart, in), *made = run_rolling(c, rolling, in);
    assert_memory_equal(made, wanted, (size_t)last->images * last->filters * last->out_height * last->out_width * 4);
    free(in);
    free(wanted);
    free(made);
  }
  gconv_rolling_free(rolling);
  for (int32_t i = 0; i < c->count; i++) {
    free(numbers[i]);
    gconv_release(apart[i].weights);
    gconv_release(together[i].weights);
  }
  return all;
}

static bool has_outputs(const chain *c) {
  for (int32_t i = 0; i < c->count; i++)
    if (c->problems[i].out_height < 1 || c->problems[i].out_width < 1)
      return false;
  return true;
}

static void test_bytes(void **unused) {
  int32_t rolled = 0;
  (void)unused;
  assert_int_equal(gconv_device_open("cpu", 2, &device), GCONV_OK);
  for (int32_t i = 0, tried = 0; i < CHAINS && tried < 100 * CHAINS; tried++) {
    const chain c = draw_chain();
    if (has_outputs(&c) && try_chain(&c))
      rolled++, i++;
  }
  assert_true(rolled >= LEAST_ROLLED);
  gconv_device_close(device);
}

/* ---- Stops ---- */

static pthread_t caller;
static atomic_int flag, calls; /* calls of the tail: all, or those of a helper */

static void count_calls(const gconv_layer_tail *tail, float *values, size_t count) {
  (void)tail, (void)values, (void)count;
  atomic_fetch_add(&calls, 1);
}

/* Wants no more once a thread other than the caller has made outputs. */
static void stop_in_helper(const gconv_layer_tail *tail, float *values, size_t count) {
  (void)tail, (void)values, (void)count;
  if (!pthread_equal(pthread_self(), caller)) {
    atomic_store(&flag, 1);
    atomic_fetch_add(&calls, 1);
  }
}

/* A helper ends after the band at work: a strip may be half of a large image, which takes many seconds. */
static void test_stops(void **unused) {
  gconv_layer_tail tail = {.apply = count_calls};
  gconv_layer_problem p = {.images = 1, .channels = 8, .filters = 8, .height = 320, .width = 512, .groups = 1};
  (void)unused;
  p.rows = p.columns = 3;
  p.pad_top = p.pad_left = p.stride_y = p.stride_x = p.dilation_y = p.dilation_x = 1;
  p.out_height = p.height;
  p.out_width = p.width;
  chain c = {.count = 2, .images = 1, .problems = {p, p}, .names = {"direct", "direct"}};
  c.problems[1].tail = &tail;
  gconv_solver solvers[MOST_STAGES] = {{.constant = true}}, *list[] = {&solvers[0], &solvers[1]};
  gconv_rolling *rolling = NULL;
  float *numbers[] = {draw_floats(8 * 73), draw_floats(8 * 73)}, *in = map_of(&p);
  assert_int_equal(gconv_device_open("cpu", 2, &device), GCONV_OK);
  assert_true(choose(&c, solvers));
  assert_int_equal(gconv_rolling_make(list, 2, 0, device->threads, &rolling), GCONV_OK);
  assert_true(rolling && rolling->bands > 8);
  give_weights(&c, solvers, numbers);
  free(run_rolling(&c, rolling, in));
  const int64_t of_band = atomic_load(&calls) / rolling->bands;
  void *memory = NULL;
  assert_int_equal(gconv_allocate(gconv_rolling_bytes(rolling), "the bands", &memory), GCONV_OK);
  float *out = map_of(&p);
  const gconv_control control = {.stop = (const volatile int *)(const void *)&flag};
  caller = pthread_self();
  tail.apply = stop_in_helper;
  gconv_control_use(&control);
  for (atomic_store(&calls, 0); atomic_load(&calls) == 0;) { /* until a helper is awake in time */
    const gconv_status status = gconv_rolling_run(rolling, 1, in, out, device->threads, memory);
    assert_int_equal(status, atomic_load(&flag) ? GCONV_STOPPED : GCONV_OK);
  }
  gconv_control_use(NULL);
  assert_true(atomic_load(&calls) <= of_band);
  gconv_rolling_free(rolling);
  gconv_release(memory);
  free(in);
  free(out);
  for (int32_t i = 0; i < 2; i++) {
    free(numbers[i]);
    gconv_release(solvers[i].weights);
  }
  gconv_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_stops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

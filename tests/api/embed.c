/* SPDX-License-Identifier: MIT */
/* Programs that embed the library, as reviewers wrote them: views, overlaps, shared plans, wrong counts, pipes, fork, memory
 * of the caller. Built with the sanitizers of the build. */
#include "gconv_embed.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                                    \
  ((condition) ? (void)0 : (fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, gconv_last_error()), exit(1)))

enum { WIDTH = 97, HEIGHT = 61, THREADS = 8, RUNS = 200 };

/* Random levels; as f32, in [0, 1]. */
static gconv_image picture(gconv_type type, unsigned seed) {
  gconv_image image = {.type = type, .frames = 1, .height = HEIGHT, .width = WIDTH, .channels = 3};
  CHECK(gconv_image_allocate(&image) == GCONV_OK);
  for (size_t i = 0; i < (size_t)WIDTH * HEIGHT * 3; i++) {
    uint8_t level = (uint8_t)((seed = seed * 1103515245u + 12345u) >> 16);
    if (type == GCONV_U8)
      ((uint8_t *)image.data)[i] = level;
    else
      ((float *)image.data)[i] = (float)level / 255.0f;
  }
  return image;
}

static gconv_image photo(unsigned seed) {
  return picture(GCONV_U8, seed);
}

/* What is made of filters: `options` NULL are the defaults. */
static gconv_operation *filters_of(const char *spec, const gconv_options *options) {
  const gconv_options defaults = gconv_options_default();
  gconv_filters filters = {0};
  gconv_operation *operation = NULL;
  CHECK(gconv_filters_read(spec, NULL, &filters) == GCONV_OK);
  CHECK(gconv_operation_filters(&filters, options ? options : &defaults, &operation) == GCONV_OK);
  gconv_filters_free(&filters);
  return operation;
}

/* A layer of two filters for each channel, then the mean of each: its bank may go once there is a plan. */
static gconv_plan *plan_of_network(gconv_device *device, const gconv_image *like) {
  gconv_filters filters = {0};
  gconv_bank bank = {0};
  gconv_operation *operation = NULL;
  gconv_plan *plan = NULL;
  CHECK(gconv_filters_read("sobel", NULL, &filters) == GCONV_OK && gconv_bank_stack(&filters, &bank) == GCONV_OK);
  const gconv_layer layers[] = {{.bank = &bank, .activation = GCONV_ACTIVATION_TANH}, {.kind = GCONV_LAYER_MEAN}};
  CHECK(gconv_operation_network(layers, 2, NULL, &operation) == GCONV_OK);
  CHECK(gconv_plan_create(device, like, operation, 0, &plan) == GCONV_OK);
  gconv_operation_free(operation);
  gconv_bank_free(&bank);
  gconv_filters_free(&filters);
  return plan;
}

static gconv_plan *plan_of_chain(gconv_device *device, const gconv_image *like) {
  gconv_operation *stages[] = {filters_of("gaussian:size=5,sigma=1", NULL), filters_of("sobel_x", NULL)}, *chain = NULL;
  gconv_plan *plan = NULL;
  CHECK(gconv_operation_chain(stages, 2, &chain) == GCONV_OK);
  gconv_operation_free(stages[0]);
  gconv_operation_free(stages[1]);
  CHECK(gconv_plan_create(device, like, chain, 0, &plan) == GCONV_OK);
  gconv_operation_free(chain);
  return plan;
}

/* `spec`: of filters, or "network", or "chain". */
static gconv_plan *plan_for(gconv_device *device, const gconv_image *like, const char *spec) {
  if (strcmp(spec, "network") == 0)
    return plan_of_network(device, like);
  if (strcmp(spec, "chain") == 0)
    return plan_of_chain(device, like);
  gconv_operation *operation = filters_of(spec, NULL);
  gconv_plan *plan = NULL;
  CHECK(gconv_plan_create(device, like, operation, 0, &plan) == GCONV_OK);
  gconv_operation_free(operation);
  return plan;
}

/* Options of zeros are the defaults. */
static void zeros(gconv_device *device) {
  const gconv_options none = {0};
  const gconv_type types[] = {GCONV_U8, GCONV_F32};
  for (int i = 0; i < 2; i++) {
    gconv_image in = picture(types[i], 30), expected = {0}, out = {0};
    gconv_operation *operation = filters_of("sharpen", &none);
    gconv_plan *plan = NULL, *defaults = plan_for(device, &in, "sharpen");
    CHECK(gconv_plan_create(device, &in, operation, 0, &plan) == GCONV_OK);
    CHECK(gconv_plan_execute(defaults, &in, &expected, 1, NULL) == GCONV_OK);
    CHECK(gconv_plan_execute(plan, &in, &out, 1, NULL) == GCONV_OK);
    CHECK(gconv_image_same_shape(&out, &expected) && memcmp(out.data, expected.data, out.plane_bytes) == 0);
    gconv_plan_free(plan);
    gconv_plan_free(defaults);
    gconv_operation_free(operation);
    gconv_image_free(&in);
    gconv_image_free(&expected);
    gconv_image_free(&out);
  }
}

static void refuse(gconv_status status, const char *word) {
  CHECK(status == GCONV_BAD_ARGUMENT);
  CHECK(strstr(gconv_last_error(), word) != NULL);
}

/* A plan of two outputs with room for one, and none. */
static void wrong_counts(gconv_device *device) {
  gconv_image in = photo(1), out[2] = {{.type = GCONV_U8}, {.type = GCONV_U8}};
  gconv_plan *plan = plan_for(device, &in, "sobel");
  CHECK(gconv_plan_outputs(plan) == 2);
  refuse(gconv_plan_execute(plan, &in, out, 1, NULL), "output_count is 1, and the plan yields 2");
  refuse(gconv_plan_execute(plan, &in, out, 0, NULL), "output_count is 0");
  refuse(gconv_plan_execute(plan, &in, out, 3, NULL), "output_count is 3");
  CHECK(!out[0].data && !out[1].data);
  CHECK(gconv_plan_execute(plan, &in, out, 2, NULL) == GCONV_OK);
  gconv_image both[2] = {out[0], out[0]};
  refuse(gconv_plan_execute(plan, &in, both, 2, NULL), "output 2 and output 1 share memory");
  gconv_image_free(&out[0]);
  gconv_image_free(&out[1]);
  gconv_image_free(&in);
  gconv_plan_free(plan);
}

/* Outputs at all shifts from the input, in one buffer: refused, or right. */
static void overlaps(gconv_device *device) {
  gconv_image in = photo(2), expected = {.type = GCONV_U8};
  gconv_plan *plan = plan_for(device, &in, "gaussian:size=5,sigma=1");
  CHECK(gconv_plan_execute(plan, &in, &expected, 1, NULL) == GCONV_OK);
  const size_t row = WIDTH * 3, all = row * HEIGHT, wide = 2 * row + 20;
  uint8_t *buffer = malloc(4 * all + 64 + wide * HEIGHT);
  int refused = 0, right = 0;
  for (size_t shift = 0; shift <= 2 * all; shift += 1 + shift / 7) {
    gconv_image a = in, b = in;
    memcpy(a.data = buffer + all, in.data, all);
    b.data = buffer + shift;
    gconv_status status = gconv_plan_execute(plan, &a, &b, 1, NULL);
    bool apart = shift == 0 || shift >= 2 * all;
    CHECK(status == (apart ? GCONV_OK : GCONV_BAD_ARGUMENT));
    CHECK(!apart || memcmp(b.data, expected.data, all) == 0);
    *(status == GCONV_OK ? &right : &refused) += 1;
  }
  CHECK(refused > 20 && right > 0);
  for (size_t left = 0; left <= wide - row; left++) { /* views of one wide picture: right where they lie beside each other */
    gconv_image a = in, b = in;
    a.row_bytes = b.row_bytes = wide;
    a.plane_bytes = b.plane_bytes = wide * HEIGHT;
    a.data = buffer + row + 20;
    b.data = buffer + left;
    for (size_t y = 0; y < HEIGHT; y++)
      memcpy((uint8_t *)a.data + y * wide, (uint8_t *)in.data + y * row, row);
    gconv_status status = gconv_plan_execute(plan, &a, &b, 1, NULL);
    CHECK(status == (left <= 20 ? GCONV_OK : GCONV_BAD_ARGUMENT));
    for (size_t y = 0; y < HEIGHT && status == GCONV_OK; y++)
      CHECK(memcmp((uint8_t *)b.data + y * wide, (uint8_t *)expected.data + y * row, row) == 0);
  }
  free(buffer);
  gconv_image_free(&expected);
  gconv_image_free(&in);
  gconv_plan_free(plan);
}

typedef struct shared {
  gconv_plan *plan;
  gconv_image in, expected;
} shared;

static void *use(void *context) {
  const shared *s = context;
  gconv_image out = {0};
  for (int i = 0; i < RUNS; i++) {
    CHECK(gconv_plan_execute(s->plan, &s->in, &out, 1, NULL) == GCONV_OK);
    const size_t bytes = out.plane_bytes * (out.planar ? (size_t)out.channels : 1);
    CHECK(memcmp(out.data, s->expected.data, bytes) == 0);
    memset(out.data, 0x5a, bytes);
  }
  gconv_image_free(&out);
  return NULL;
}

/* One plan, each thread with an image of its own. */
static void one_plan_in_many_threads(gconv_device *device, gconv_type type, const char *spec) {
  shared all[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    all[i] = (shared){.in = picture(type, (unsigned)i + 3)};
    all[i].plan = i == 0 ? plan_for(device, &all[0].in, spec) : all[0].plan;
    CHECK(gconv_plan_execute(all[0].plan, &all[i].in, &all[i].expected, 1, NULL) == GCONV_OK);
  }
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, use, &all[i]) == 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  gconv_plan_free(all[0].plan);
  for (int i = 0; i < THREADS; i++) {
    gconv_image_free(&all[i].in);
    gconv_image_free(&all[i].expected);
  }
}

/* A child uses the plan, frees it and closes the device; SIGPIPE and the handlers of the caller stay what they were. */
static void fork_and_pipes(void) {
  gconv_device *device = NULL;
  CHECK(gconv_device_open("cpu", 4, &device) == GCONV_OK);
  gconv_image in = photo(20), expected = {.type = GCONV_U8}, out = {.type = GCONV_U8};
  gconv_plan *plan = plan_for(device, &in, "gaussian:size=5,sigma=1");
  CHECK(gconv_plan_execute(plan, &in, &expected, 1, NULL) == GCONV_OK);
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    CHECK(gconv_plan_execute(plan, &in, &out, 1, NULL) == GCONV_OK);
    CHECK(memcmp(out.data, expected.data, out.plane_bytes) == 0);
    gconv_plan_free(plan);
    gconv_device_close(device);
    _exit(0);
  }
  int status = -1, ends[2];
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(pipe(ends) == 0 && close(ends[0]) == 0);
  char path[32];
  snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
  gconv_write_options options = {.format = gconv_format_by_name("pnm")};
  CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
  CHECK(gconv_image_write(path, &options, &expected) == GCONV_IO_ERROR);
  CHECK(dup2(ends[1], STDOUT_FILENO) >= 0);
  CHECK(gconv_image_write("-", &options, &expected) == GCONV_IO_ERROR);
  CHECK(strstr(gconv_last_error(), strerror(EPIPE)) != NULL);
  CHECK(signal(SIGPIPE, SIG_DFL) == SIG_DFL);
  close(ends[1]);
  gconv_plan_free(plan);
  gconv_device_close(device);
  gconv_image_free(&in);
  gconv_image_free(&out);
  gconv_image_free(&expected);
}

/* ---- Memory of the caller ---- */

enum { HEADER = 2 << 20 }; /* before each block: so free() of one that is the caller's would be noticed */

typedef struct heap {
  pthread_mutex_t lock;
  size_t taken, live; /* blocks: all that were taken, and those that are not back */
  bool empty;
} heap;

static void *take(size_t bytes, size_t alignment, void *user) {
  heap *h = user;
  pthread_mutex_lock(&h->lock);
  uint8_t *memory = h->empty || bytes < 1 << 20 ? NULL : aligned_alloc(alignment, HEADER + bytes);
  h->taken += memory != NULL;
  h->live += memory != NULL;
  pthread_mutex_unlock(&h->lock);
  if (memory)
    memset(memory, 0xff, HEADER); /* what malloc() would keep its size in */
  return memory ? memory + HEADER : NULL;
}

static void give_back(void *memory, void *user) {
  heap *h = user;
  pthread_mutex_lock(&h->lock);
  h->live--;
  pthread_mutex_unlock(&h->lock);
  free((uint8_t *)memory - HEADER);
}

static void large_memory_of_the_caller(gconv_device *device) {
  heap h = {.lock = PTHREAD_MUTEX_INITIALIZER};
  const gconv_allocator allocator = {take, give_back, &h};
  gconv_image in = {.type = GCONV_F32, .frames = 1, .height = 900, .width = 1100, .channels = 3}, out = {0}, other = {0};
  gconv_bytes_out bytes = {0};
  gconv_write_options options = {.format = gconv_format_by_name("npy")};
  CHECK(gconv_set_allocator(&allocator) == GCONV_OK);
  CHECK(gconv_image_allocate(&in) == GCONV_OK && h.taken == 1);
  memset(in.data, 0, in.plane_bytes);
  gconv_plan *plans[] = {plan_for(device, &in, "gaussian:size=31,sigma=6"), plan_for(device, &in, "network"),
                         plan_for(device, &in, "chain")};
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
    gconv_image *results = calloc(gconv_plan_outputs(plans[i]), sizeof *results);
    CHECK(results && gconv_plan_execute(plans[i], &in, results, gconv_plan_outputs(plans[i]), NULL) == GCONV_OK);
    for (size_t k = 0; k < gconv_plan_outputs(plans[i]); k++)
      gconv_image_free(&results[k]);
    free(results);
    CHECK(gconv_plan_held_bytes(plans[i]) < (size_t)1 << 30);
  }
  const size_t taken = h.taken;
  CHECK(taken > 4);
  CHECK(gconv_image_encode(&bytes, &options, &in) == GCONV_OK);
  CHECK(gconv_image_decode(&(gconv_bytes_in){.data = bytes.data, .size = bytes.size}, NULL, &other) == GCONV_OK);
  CHECK(h.taken > taken);
  h.empty = true;
  CHECK(gconv_plan_execute(plans[0], &in, &out, 1, NULL) == GCONV_NO_MEMORY && !out.data);
  h.empty = false;
  CHECK(gconv_plan_execute(plans[0], &in, &out, 1, NULL) == GCONV_OK);
  CHECK(gconv_set_allocator(NULL) == GCONV_OK); /* what it has given still goes back to it */
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
    gconv_plan_free(plans[i]);
  gconv_image_free(&in);
  gconv_image_free(&out);
  gconv_image_free(&other);
  free(bytes.data);
  CHECK(h.live == 0);
  CHECK(gconv_set_allocator(&(gconv_allocator){.allocate = take}) == GCONV_BAD_ARGUMENT);
}

int main(void) {
  static const char *const specs[] = {"gaussian:size=5,sigma=1", "gaussian:size=31,sigma=6", "network", "chain"};
  for (int threads = 1; threads <= 3; threads += 2) {
    gconv_device *device = NULL;
    CHECK(gconv_device_open("cpu", threads, &device) == GCONV_OK);
    wrong_counts(device);
    overlaps(device);
    zeros(device);
    large_memory_of_the_caller(device);
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
      one_plan_in_many_threads(device, GCONV_U8, specs[i]);
      one_plan_in_many_threads(device, GCONV_F32, specs[i]);
    }
    gconv_device_close(device);
  }
  fork_and_pipes();
  return 0;
}

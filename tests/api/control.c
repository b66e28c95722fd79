/* SPDX-License-Identifier: MIT */
/* Calls that are stopped and watched, the threads of a process, and the memory of plans. After a stop, objects are usable,
 * and no file is half-written. */
#include "gconv_classify.h"
#include "gconv_embed.h"
#include "gconv_jobs.h"
#include "gconv_learn.h"
#include "gconv_science.h"

#include <dirent.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                                                    \
  ((condition) ? (void)0 : (fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, gconv_last_error()), exit(1)))

enum { THREADS = 8 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int count_entries(const char *folder) {
  int count = 0;
  DIR *open = opendir(folder);
  CHECK(open);
  for (struct dirent *entry; (entry = readdir(open));)
    count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  closedir(open);
  return count;
}

static gconv_image picture(gconv_type type, int32_t height, int32_t width) {
  gconv_image image = {.type = type, .frames = 1, .height = height, .width = width, .channels = 3};
  unsigned seed = 3;
  CHECK(gconv_image_allocate(&image) == GCONV_OK);
  for (size_t i = 0; i < image.plane_bytes / gconv_type_bytes(type); i++) {
    const uint8_t level = (uint8_t)((seed = seed * 1103515245u + 12345u) >> 16);
    if (type == GCONV_U8)
      ((uint8_t *)image.data)[i] = level;
    else
      ((float *)image.data)[i] = (float)level / 255;
  }
  return image;
}

static gconv_operation *filters_of(const char *spec, const char *algorithm) {
  gconv_options options = gconv_options_default();
  gconv_filters filters = {0};
  gconv_operation *operation = NULL;
  options.algorithm = algorithm;
  CHECK(gconv_filters_read(spec, NULL, &filters) == GCONV_OK);
  CHECK(gconv_operation_filters(&filters, &options, &operation) == GCONV_OK);
  gconv_filters_free(&filters);
  return operation;
}

static gconv_operation *local_of(int32_t size) {
  const gconv_options options = gconv_options_default();
  gconv_operation *operation = NULL;
  CHECK(gconv_operation_local(GCONV_STD, size, size, &options, &operation) == GCONV_OK);
  return operation;
}

static gconv_operation *chain_of(void) {
  gconv_operation *stages[] = {filters_of("gaussian:size=5,sigma=1", "auto"), filters_of("sobel_x", "auto")}, *chain = NULL;
  CHECK(gconv_operation_chain(stages, 2, &chain) == GCONV_OK);
  gconv_operation_free(stages[0]);
  gconv_operation_free(stages[1]);
  return chain;
}

/* Two layers of 16 filters each; the bank lives as long as the program. */
static gconv_operation *network_of(void) {
  static float weights[16 * 16 * 9];
  static gconv_bank first = {.filters = 16, .channels = 3, .rows = 3, .columns = 3, .weights = weights};
  static gconv_bank second = {.filters = 16, .channels = 16, .rows = 3, .columns = 3, .weights = weights};
  gconv_operation *operation = NULL;
  for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
    weights[i] = (float)(i % 7) / 100 - 0.03F;
  const gconv_layer layers[] = {{.bank = &first}, {.bank = &second}};
  CHECK(gconv_operation_network(layers, 2, NULL, &operation) == GCONV_OK);
  return operation;
}

static gconv_plan *plan_of(gconv_device *device, const gconv_image *like, gconv_operation *operation) {
  gconv_plan *plan = NULL;
  CHECK(gconv_plan_create(device, like, operation, 0, &plan) == GCONV_OK);
  gconv_operation_free(operation);
  return plan;
}

/* ---- Threads of the process ---- */

static void check_limit_of_threads(void) {
  gconv_device *devices[3] = {NULL};
  CHECK(gconv_device_open("cpu", 2, &devices[0]) == GCONV_OK); /* a sanitizer may start a thread with the first one */
  gconv_device_close(devices[0]);
  const int before = count_entries("/proc/self/task");
  gconv_limit_threads(4);
  for (int i = 0; i < 3; i++)
    CHECK(gconv_device_open("cpu", 3, &devices[i]) == GCONV_OK); /* 2 helpers, 1, and none */
  CHECK(count_entries("/proc/self/task") == before + 3);
  gconv_image in = picture(GCONV_U8, 61, 97), out = {0}, expected = {0};
  gconv_plan *plan = plan_of(devices[2], &in, filters_of("sharpen", "auto"));
  gconv_plan *other = plan_of(devices[0], &in, filters_of("sharpen", "auto"));
  CHECK(gconv_plan_execute(plan, &in, &out, 1, NULL) == GCONV_OK);
  CHECK(gconv_plan_execute(other, &in, &expected, 1, NULL) == GCONV_OK);
  CHECK(memcmp(out.data, expected.data, out.plane_bytes) == 0);
  gconv_plan_free(plan);
  gconv_plan_free(other);
  gconv_device_close(devices[0]); /* its helpers may be started again */
  CHECK(gconv_device_open("cpu", 3, &devices[0]) == GCONV_OK);
  gconv_limit_threads(0);
  gconv_device_close(devices[1]);
  CHECK(gconv_device_open("cpu", 6, &devices[1]) == GCONV_OK);
  CHECK(count_entries("/proc/self/task") == before + 2 + 5);
  for (int i = 0; i < 3; i++)
    gconv_device_close(devices[i]);
  gconv_image_free(&in);
  gconv_image_free(&out);
  gconv_image_free(&expected);
}

/* ---- Memory of plans ---- */

static size_t allocated(void) {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/* A plan holds what malloc() says that it took, and an execution with it, within the sizes of lists and texts. */
static void check_memory_of(gconv_device *device, const gconv_image *in, gconv_operation *operation) {
  gconv_image out = {0};
  gconv_plan *warm = NULL;
  CHECK(gconv_plan_create(device, in, operation, 0, &warm) == GCONV_OK);
  CHECK(gconv_plan_execute(warm, in, &out, 1, NULL) == GCONV_OK);
  gconv_plan_free(warm);
  const size_t before = allocated();
  gconv_plan *plan = plan_of(device, in, operation);
  CHECK(gconv_plan_execute(plan, in, &out, 1, NULL) == GCONV_OK);
  const size_t took = allocated() - before, held = gconv_plan_held_bytes(plan);
  CHECK(held > 0);
  if (before > 0 && (held > took + 4096 || held + 65536 < took - took / 20)) { /* sanitizers do not count */
    fprintf(stderr, "a plan holds %zu bytes, and took %zu\n", held, took);
    exit(1);
  }
  gconv_plan_trim(plan);
  CHECK(gconv_plan_held_bytes(plan) == held);
  gconv_plan_free(plan);
  gconv_image_free(&out);
}

typedef struct plan_user {
  gconv_plan *plan;
  const gconv_image *in, *expected;
} plan_user;

static void *execute_often(void *context) {
  const plan_user *u = context;
  gconv_image out = {0};
  for (int i = 0; i < 20; i++) {
    CHECK(gconv_plan_execute(u->plan, u->in, &out, 1, NULL) == GCONV_OK);
    CHECK(memcmp(out.data, u->expected->data, out.plane_bytes) == 0);
    CHECK(gconv_plan_held_bytes(u->plan) > 0);
    if (i % 5 == 0)
      gconv_plan_trim(u->plan);
  }
  gconv_image_free(&out);
  return NULL;
}

typedef struct meeting {
  gconv_plan *plan;
  const gconv_image *in;
  pthread_barrier_t barrier;
} meeting;

static _Thread_local bool has_met;

/* Waits at its first call, until two threads execute the plan at the same time. */
static bool meet(const char *what, double done, void *user) {
  (void)what, (void)done;
  if (!has_met) /* the same figures may come again */
    pthread_barrier_wait(user);
  has_met = true;
  return true;
}

static void *execute_together(void *context) {
  meeting *m = context;
  gconv_image out = {0};
  has_met = false;
  const gconv_control control = {.progress = meet, .user = &m->barrier};
  gconv_control_use(&control);
  CHECK(gconv_plan_execute(m->plan, m->in, &out, 1, NULL) == GCONV_OK);
  gconv_control_use(NULL);
  gconv_image_free(&out);
  return NULL;
}

/* Two threads at the same time make the plan hold twice as much, until it is trimmed. */
static void check_two(gconv_plan *plan, const gconv_image *in) {
  const size_t alone = gconv_plan_held_bytes(plan);
  meeting m = {.plan = plan, .in = in};
  pthread_t thread;
  CHECK(pthread_barrier_init(&m.barrier, NULL, 2) == 0);
  CHECK(pthread_create(&thread, NULL, execute_together, &m) == 0);
  execute_together(&m);
  pthread_join(thread, NULL);
  pthread_barrier_destroy(&m.barrier);
  CHECK(gconv_plan_held_bytes(plan) == 2 * alone);
  gconv_plan_trim(plan);
  CHECK(gconv_plan_held_bytes(plan) == alone);
}

static void check_memory(gconv_device *device) {
  gconv_image in = picture(GCONV_F32, 300, 400), expected = {0};
  check_memory_of(device, &in, filters_of("gaussian:size=31,sigma=6", "direct"));
  check_memory_of(device, &in, filters_of("gaussian:size=31,sigma=6", "separable"));
  check_memory_of(device, &in, chain_of());
  check_memory_of(device, &in, network_of());
  gconv_plan *plan = plan_of(device, &in, filters_of("gaussian:size=15,sigma=3", "separable"));
  CHECK(gconv_plan_execute(plan, &in, &expected, 1, NULL) == GCONV_OK);
  const size_t alone = gconv_plan_held_bytes(plan);
  check_two(plan, &in);
  pthread_t threads[THREADS];
  plan_user u = {plan, &in, &expected};
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, execute_often, &u) == 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  const size_t many = gconv_plan_held_bytes(plan);
  CHECK(many >= alone && many <= THREADS * alone && many % alone == 0);
  gconv_plan_trim(plan);
  CHECK(gconv_plan_held_bytes(plan) == alone);
  execute_often(&u);
  gconv_plan_free(plan);
  gconv_image_free(&in);
  gconv_image_free(&expected);
}

/* ---- Stops ---- */

typedef struct watch {
  pthread_t thread;
  const char *what; /* only this counts; NULL: all */
  double stop_at;   /* stops when so much is done */
  double last;      /* ... of what was told last */
  const char *told; /* what was told last */
  int calls;
} watch;

static bool follow(const char *what, double done, void *user) {
  watch *w = user;
  CHECK(pthread_equal(pthread_self(), w->thread) && done >= 0 && done <= 1);
  if (w->told && strcmp(what, w->told) == 0 && done < w->last && done > 0) {
    fprintf(stderr, "%s goes back from %g to %g\n", what, w->last, done);
    exit(1);
  }
  w->told = what;
  w->last = done;
  w->calls++;
  return (w->what && strcmp(what, w->what) != 0) || done < w->stop_at;
}

#define check_stopped(status, why) /* a macro, so that a failure tells its line */                                          \
  do {                                                                                                                      \
    CHECK((status) == GCONV_STOPPED);                                                                                       \
    CHECK(strstr(gconv_last_error(), why) != NULL);                                                                         \
  } while (0)

/* A plan that is stopped leaves its output empty, and yields the same bits afterwards. */
static void check_plan(gconv_device *device, const gconv_image *in, gconv_operation *operation) {
  gconv_image expected = {0}, out = {0};
  gconv_plan *plan = plan_of(device, in, operation);
  int flag = 1;
  watch w = {.thread = pthread_self(), .stop_at = 2};
  const gconv_control flagged = {.stop = &flag}, late = {.deadline = now() - 1}, early = {.deadline = now() + 1000};
  const gconv_control watched = {.progress = follow, .user = &w};
  CHECK(gconv_plan_execute(plan, in, &expected, 1, NULL) == GCONV_OK);
  CHECK(gconv_control_use(&flagged) == NULL);
  check_stopped(gconv_plan_execute(plan, in, &out, 1, NULL), "the caller wants no more");
  CHECK(!out.data);
  CHECK(gconv_control_use(&late) == &flagged);
  check_stopped(gconv_plan_execute(plan, in, &out, 1, NULL), "the deadline has passed");
  gconv_control_use(&early);
  CHECK(gconv_plan_execute(plan, in, &out, 1, NULL) == GCONV_OK);
  const size_t bytes = out.plane_bytes * (out.planar ? (size_t)out.channels : 1);
  CHECK(memcmp(out.data, expected.data, bytes) == 0);
  gconv_control_use(&watched);
  memset(out.data, 0x5a, bytes);
  CHECK(gconv_plan_execute(plan, in, &out, 1, NULL) == GCONV_OK);
  CHECK(memcmp(out.data, expected.data, bytes) == 0 && w.calls > 0);
  w = (watch){.thread = pthread_self(), .stop_at = 0};
  nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL); /* progress is told at most so often */
  check_stopped(gconv_plan_execute(plan, in, &out, 1, NULL), "the caller wants no more");
  check_stopped(gconv_plan_execute(plan, in, &out, 1, NULL), "the caller wants no more"); /* until it is used again */
  CHECK(gconv_control_use(NULL) == &watched);
  CHECK(gconv_plan_execute(plan, in, &out, 1, NULL) == GCONV_OK);
  CHECK(memcmp(out.data, expected.data, bytes) == 0);
  gconv_plan_free(plan);
  gconv_image_free(&out);
  gconv_image_free(&expected);
}

static bool tell_always(const char *what, double done, void *user) {
  (void)what, (void)done;
  *(int *)user += 1;
  return true;
}

/* Controls within each other hold together: the outer one stops and watches, too. */
static void check_nested(gconv_device *device, const gconv_image *in) {
  gconv_image out = {0};
  gconv_plan *plan = plan_of(device, in, filters_of("gaussian:size=5,sigma=1", "auto"));
  int flag = 0, outer_calls = 0, inner_calls = 0;
  const gconv_control outer = {.stop = &flag, .progress = tell_always, .user = &outer_calls};
  const gconv_control inner = {.progress = tell_always, .user = &inner_calls, .outer = &outer};
  gconv_control_use(&outer);
  CHECK(gconv_control_use(&inner) == &outer);
  CHECK(gconv_plan_execute(plan, in, &out, 1, NULL) == GCONV_OK);
  CHECK(outer_calls > 0 && inner_calls == outer_calls);
  flag = 1;
  check_stopped(gconv_plan_execute(plan, in, &out, 1, NULL), "the caller wants no more");
  CHECK(gconv_control_use(&outer) == &inner);
  check_stopped(gconv_plan_execute(plan, in, &out, 1, NULL), "the caller wants no more");
  const gconv_control late = {.deadline = now() - 1}, none = {.outer = &late};
  gconv_control_use(&none);
  check_stopped(gconv_plan_execute(plan, in, &out, 1, NULL), "the deadline has passed");
  gconv_control_use(NULL);
  CHECK(gconv_plan_execute(plan, in, &out, 1, NULL) == GCONV_OK);
  gconv_plan_free(plan);
  gconv_image_free(&out);
}

static void *raise_flag(void *flag) {
  nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  __atomic_store_n((int *)flag, 1, __ATOMIC_RELAXED);
  return NULL;
}

/* Another thread stops an execution long before its end. */
static void check_stop_from_outside(gconv_device *device, gconv_operation *operation) {
  gconv_image in = picture(GCONV_F32, 2000, 2000), out = {0};
  gconv_plan *plan = plan_of(device, &in, operation);
  pthread_t thread;
  static int flag;
  const gconv_control control = {.stop = &flag};
  __atomic_store_n(&flag, 0, __ATOMIC_RELAXED);
  gconv_control_use(&control);
  CHECK(pthread_create(&thread, NULL, raise_flag, &flag) == 0);
  gconv_status status = gconv_plan_execute(plan, &in, &out, 1, NULL);
  gconv_control_use(NULL);
  pthread_join(thread, NULL);
  check_stopped(status, "the caller wants no more");
  CHECK(!out.data);
  gconv_plan_free(plan);
  gconv_image_free(&in);
}

/* Reading and writing: nothing is left behind, and no file is replaced. */
static void check_files(void) {
  static const char *const names[] = {"a.png", "a.tif", "a.jpg", "a.pnm", "a.npy", "a.webp"};
  gconv_image image = picture(GCONV_U8, 2500, 2000), read = {0}, again = {0};
  gconv_bytes_out out = {0};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    watch w = {.thread = pthread_self(), .stop_at = 2};
    const gconv_control control = {.progress = follow, .user = &w};
    const gconv_write_options options = {.format = gconv_format_by_path(names[i]), .lossless = false};
    CHECK(gconv_image_write(names[i], &options, &image) == GCONV_OK);
    CHECK(gconv_image_read(names[i], NULL, &read) == GCONV_OK);
    const int files = count_entries(".");
    gconv_control_use(&control);
    CHECK(gconv_image_encode(&out, &options, &image) == GCONV_OK && w.calls > 1);
    const gconv_bytes_in in = {.data = out.data, .size = out.size};
    CHECK(gconv_image_decode(&in, NULL, &again) == GCONV_OK);
    CHECK(memcmp(read.data, again.data, read.plane_bytes) == 0);
    gconv_image_free(&again);
    w = (watch){.thread = pthread_self(), .stop_at = 0.2};
    check_stopped(gconv_image_decode(&in, NULL, &again), "the caller wants no more");
    CHECK(!again.data);
    gconv_control_use(&control);
    check_stopped(gconv_image_write("new", &options, &image), "the caller wants no more");
    CHECK(access("new", F_OK) != 0 && count_entries(".") == files);
    gconv_control_use(&control);
    check_stopped(gconv_image_encode(&out, &options, &image), "the caller wants no more");
    CHECK(out.size == 0);
    gconv_control_use(NULL);
    CHECK(gconv_image_read(names[i], NULL, &again) == GCONV_OK);
    CHECK(memcmp(read.data, again.data, read.plane_bytes) == 0);
    gconv_image_free(&again);
    gconv_image_free(&read);
    unlink(names[i]);
  }
  free(out.data);
  gconv_image_free(&image);
}

static void count_report(const gconv_report *report, void *user) {
  (void)report;
  ++*(int *)user;
}

/* A job: what it has written is whole, and all else is not there. */
static void check_job(void) {
  gconv_image image = picture(GCONV_U8, 200, 300);
  char *paths[12];
  gconv_texts specs = {.items = paths};
  gconv_inputs inputs = {0};
  gconv_outputs outputs = {0};
  gconv_message message = {0};
  gconv_batch_summary summary;
  gconv_filters filters = {0};
  int reported = 0;
  watch w = {.thread = pthread_self(), .what = "running a job", .stop_at = 0.4};
  const gconv_control control = {.progress = follow, .user = &w};
  for (; specs.count < 12; specs.count++) {
    char name[32];
    snprintf(name, sizeof name, "in%02zu.png", specs.count);
    paths[specs.count] = strdup(name);
    CHECK(gconv_image_write(name, NULL, &image) == GCONV_OK);
  }
  gconv_operation *operation = filters_of("sharpen", "auto");
  CHECK(gconv_filters_read("sharpen", NULL, &filters) == GCONV_OK);
  CHECK(gconv_inputs_find(&specs, false, "out/", &inputs, &message) == GCONV_OK);
  const gconv_naming naming = {.output = "out/", .filters = &filters};
  CHECK(gconv_outputs_name(&inputs, &naming, &outputs, &message) == GCONV_OK);
  gconv_batch batch = {.inputs = &inputs,
                       .outputs = &outputs,
                       .operation = operation,
                       .device = "cpu",
                       .threads = 2,
                       .jobs = 1,
                       .report = count_report,
                       .user = &reported};
  outputs.make_folders = true;
  gconv_control_use(&control);
  CHECK(gconv_batch_run(&batch, &summary, &message) == GCONV_OK);
  gconv_control_use(NULL);
  /* at image 5, 0.42 is done: it is stopped, and those behind it are not begun */
  CHECK(summary.written == 5 && summary.failed == 7 && reported == 6 && count_entries("out") == 5);
  CHECK(gconv_batch_run(&batch, &summary, &message) == GCONV_OK);
  CHECK(summary.written == 12 && summary.failed == 0 && count_entries("out") == 12);
  for (size_t i = 0; i < 12; i++) {
    char name[32];
    snprintf(name, sizeof name, "out/in%02zu.png", i);
    CHECK(unlink(name) == 0 && unlink(paths[i]) == 0);
    free(paths[i]);
  }
  CHECK(rmdir("out") == 0);
  gconv_outputs_free(&outputs);
  gconv_inputs_free(&inputs);
  gconv_filters_free(&filters);
  gconv_operation_free(operation);
  gconv_image_free(&image);
}

/* ---- Learning ---- */

static gconv_dataset *table_of(void) {
  gconv_dataset *data = NULL;
  FILE *table = fopen("table.csv", "w");
  CHECK(table);
  for (int i = 0; i < 400; i++)
    fprintf(table, "%g,%g,%s\n", sin(i), cos(2.0 * i), sin(3.0 * i) > 0 ? "a" : "b");
  CHECK(fclose(table) == 0);
  CHECK(gconv_dataset_open(&(gconv_dataset_options){.inputs = "table.csv"}, &data) == GCONV_OK);
  unlink("table.csv");
  return data;
}

/* Trains two epochs; with `control`, whose watch stops at each half, and goes on. Returns the network. */
static gconv_network train(gconv_device *device, const gconv_dataset *data, const gconv_control *control) {
  gconv_network net = {0}, made = {0};
  gconv_trainer *trainer = NULL;
  gconv_epoch epoch = {0};
  int stops = 0;
  const gconv_training_options options = {.epochs = 2, .batch = 16, .algorithm = "exact"};
  CHECK(gconv_network_make("dense 8 tanh, dense 2 softmax", (const int32_t[]){2, 1, 1}, 2, 1, &net) == GCONV_OK);
  CHECK(gconv_trainer_create(device, &net, &options, data, NULL, &trainer) == GCONV_OK);
  while (!epoch.ended) {
    gconv_control_use(stops % 2 == 0 ? control : NULL);
    CHECK(gconv_trainer_epoch(trainer, &epoch) == GCONV_OK);
    stops += epoch.interrupted || stops % 2 == 1;
  }
  gconv_control_use(NULL);
  CHECK(!control || stops >= 2);
  CHECK(gconv_trainer_network(trainer, true, &made) == GCONV_OK);
  gconv_trainer_free(trainer);
  gconv_network_free(&net);
  return made;
}

static void check_training(gconv_device *device, const gconv_dataset *data) {
  watch w = {.thread = pthread_self(), .what = "training", .stop_at = 0.5};
  const gconv_control control = {.progress = follow, .user = &w};
  gconv_network plain = train(device, data, NULL), stopped = train(device, data, &control);
  for (size_t i = 0; i < plain.count; i++) {
    const gconv_bank *a = plain.layers[i].bank, *b = stopped.layers[i].bank;
    if (a)
      CHECK(memcmp(a->weights, b->weights, (size_t)a->filters * (size_t)a->channels * sizeof *a->weights) == 0);
  }
  gconv_network_free(&plain);
  gconv_network_free(&stopped);
}

static void check_svm(gconv_device *device, const gconv_dataset *data) {
  gconv_svm *model = NULL;
  int flag = 1;
  const gconv_control control = {.stop = &flag};
  gconv_control_use(&control);
  check_stopped(gconv_svm_train(NULL, data, device, &model), "the caller wants no more");
  CHECK(!model);
  watch w = {.thread = pthread_self(), .stop_at = 2};
  const gconv_control watched = {.progress = follow, .user = &w};
  gconv_control_use(&watched);
  CHECK(gconv_svm_train(NULL, data, device, &model) == GCONV_OK);
  CHECK(w.calls > 0 && strcmp(w.told, "training") == 0);
  const float rows[8] = {0};
  int32_t classes[4];
  CHECK(gconv_svm_predict(model, device, rows, 4, &(gconv_svm_results){.classes = classes}) == GCONV_OK);
  CHECK(strcmp(w.told, "predicting") == 0);
  gconv_control_use(&control);
  check_stopped(gconv_svm_predict(model, device, rows, 4, &(gconv_svm_results){.classes = classes}),
                "the caller wants no more");
  gconv_control_use(NULL);
  gconv_svm_free(model);
}

static void check_fit(gconv_device *device) {
  gconv_image before = picture(GCONV_U8, 120, 160);
  const gconv_compared pair = {.image = &before};
  gconv_fit fit = {.rows = 3, .columns = 3};
  gconv_fit_result result = {0};
  int flag = 1;
  const gconv_control control = {.stop = &flag};
  gconv_control_use(&control);
  check_stopped(gconv_fit_add(&fit, device, &pair, &pair, 0), "the caller wants no more");
  gconv_control_use(NULL);
  CHECK(gconv_fit_add(&fit, device, &pair, &pair, 0) == GCONV_OK);
  gconv_control_use(&control);
  check_stopped(gconv_fit_solve(&fit, device, &result), "the caller wants no more");
  gconv_control_use(NULL);
  CHECK(gconv_fit_solve(&fit, device, &result) == GCONV_OK);
  free(result.taps);
  gconv_filters_free(&result.filters);
  gconv_fit_free(&fit);
  gconv_image_free(&before);
}

int main(void) {
  char folder[] = "/tmp/gconv-control-XXXXXX";
  setenv("GCONV_MOST_THREADS", "8", 1);
  if (!mkdtemp(folder) || chdir(folder) != 0)
    return 1;
  check_limit_of_threads();
  check_files();
  check_job();
  gconv_dataset *data = table_of();
  for (int threads = 1; threads <= 3; threads += 2) {
    gconv_device *device = NULL;
    gconv_image in = picture(GCONV_U8, 700, 500);
    CHECK(gconv_device_open("cpu", threads, &device) == GCONV_OK);
    check_memory(device);
    check_plan(device, &in, filters_of("gaussian:size=5,sigma=1", "auto"));
    check_plan(device, &in, filters_of("gaussian:size=9,sigma=2", "separable"));
    check_plan(device, &in, chain_of());
    check_plan(device, &in, network_of());
    check_plan(device, &in, local_of(5));
    check_nested(device, &in);
    check_stop_from_outside(device, filters_of("gaussian:size=45,sigma=9", "direct"));
    check_stop_from_outside(device, local_of(301));
    check_training(device, data);
    check_svm(device, data);
    check_fit(device);
    gconv_image_free(&in);
    gconv_device_close(device);
  }
  gconv_dataset_free(data);
  return chdir("/") != 0 || rmdir(folder) != 0;
}

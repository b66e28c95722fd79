/* SPDX-License-Identifier: MIT */
/*
 * The experiment backprop: the time of an epoch of four nets, by the methods of theses of 2010 and 2014
 * (kernels/cuda/experiments), and by gconv's trainer, on the CPU and on the GPU. The figures of these theses use some of
 * the methods, or measure parts of an epoch or whole runs (docs/theses.md).
 *
 * Each method first takes a step of rate 1 from the same weights: the difference of the weights is its gradient, which is
 * compared with the trainer's on one core. Then epochs are timed: the kernels of the classics by events on the GPU, the
 * trainer from call to return.
 */
#include "kernels/cuda/experiments/backprop.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/suggest.h"
#include "bench/bench.h"
#include "data/dataset.h"
#include "device/device.h"
#include "gconv_learn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EPOCHS = 100 }; /* the most epochs of a run */

static const double ALLOWED = 1e-4;      /* difference from one core's gradient, relative to the largest of a tensor */
static const double SHORTEST_RUN_MS = 5; /* shorter epochs are timed several at a time */

/* The trainer makes a GPU compute many epochs at a time, and reports them one by one. So a run of few epochs may take no
 * time, because all of them were computed before. Runs become longer until their times agree. */
static const double SPREAD = 0.25;       /* the most, relative to the median; else runs become LONGER times as long */
static const double MOST_RUNS_MS = 4000; /* runs that take longer together are not repeated */
enum { LONGER = 4, MOST_TRIES = 8 };

typedef enum quantity { AN_EPOCH, ITS_PARTS, A_RUN } quantity;
typedef enum axis { PARAMETERS, INPUTS, CASES } axis;

typedef struct figure {
  const char *name;
  const char *nets;    /* with commas between; --net replaces them */
  const char *methods; /* the methods besides one core, with commas between; NULL: all */
  quantity what;
  axis along;
  /* What a plot shows. NULL: times; "": how many times as fast as one core; a method: how many times it is as fast as the
   * others. */
  const char *draws;
} figure;

#define TWO_NETS "64-63-26,120-120-120"
static const figure figures[] = {
    {"backprop", "2-511-2,64-63-26,120-120-120,468-468-2", NULL, AN_EPOCH, PARAMETERS, NULL},
    {"mlp-5.2", TWO_NETS, "gradient-a-thread", ITS_PARTS, PARAMETERS, NULL},
    {"mlp-5.3", TWO_NETS, "one-case-host,four-cases-host,four-cases", ITS_PARTS, PARAMETERS, NULL},
    {"mlp-5.5", TWO_NETS, "gradient-a-thread,four-cases-host,trainer", A_RUN, PARAMETERS, NULL},
    {"mlp-5.6", TWO_NETS, "gradient-a-thread,four-cases-host,trainer", A_RUN, PARAMETERS, ""},
    {"mlp-5.7", "50-50-2,100-100-2,150-150-2,200-200-2,250-250-2,300-300-2,350-350-2,400-400-2,468-468-2",
     "one-case-host,four-cases-host,trainer", AN_EPOCH, INPUTS, ""},
    {"mlp-16", "105-32-2", "derivatives-kept,cublas-a-case", AN_EPOCH, CASES, "derivatives-kept"},
    {"mlp-17", "105-32-2", "derivatives-kept,cublas-a-case,trainer", AN_EPOCH, CASES, NULL},
};

enum { EPOCHS_OF_A_RUN = 1000, PART_RUNS = 9 };

/* ---- The cases, and a net with its first weights ---- */

/* A data set of random numbers in memory, which is also the problem of an experiment with one net. */
typedef struct problem {
  gconv_dataset base;
  gconv_backprop_net net;
  gconv_network network;
  char name[48];           /* "64-63-26"; room for GCONV_BACKPROP_LAYERS + 1 widths of GCONV_BACKPROP_NEURONS */
  size_t count;            /* number of parameters */
  float *inputs, *targets; /* owned: cases x widths */
  float *parameters;       /* owned, in the order of backprop.h */
  float *after;            /* owned: parameters after a step */
  float *gradient;         /* owned: the gradient of one core */
} problem;

static gconv_status read_cases(const gconv_dataset *dataset, uint64_t epoch, const size_t *cases, size_t count,
                               float *inputs, float *targets) {
  const problem *p = (const problem *)dataset;
  size_t in = gconv_dataset_input_floats(&dataset->info), out = gconv_dataset_target_floats(&dataset->info);
  for (size_t i = 0; i < count; i++) {
    memcpy(inputs + i * in, p->inputs + cases[i] * in, in * sizeof *inputs);
    if (targets)
      memcpy(targets + i * out, p->targets + cases[i] * out, out * sizeof *targets);
  }
  return GCONV_OK;
}

static void keep_cases(gconv_dataset *dataset) {}

static const gconv_dataset_type cases_type = {.read = read_cases, .free = keep_cases};

/* Copies the weights of a network of this net's shape. */
static void copy_parameters(const gconv_backprop_net *net, const gconv_network *network, float *parameters) {
  for (int32_t l = 1; l <= net->layers; l++) {
    const gconv_bank *bank = &network->banks[l - 1];
    size_t weights = (size_t)net->widths[l] * (size_t)net->widths[l - 1], biases = (size_t)net->widths[l];
    float *own = parameters + gconv_backprop_parameters(net, l);
    memcpy(own, bank->weights, weights * sizeof *own);
    if (bank->biases)
      memcpy(own + weights, bank->biases, biases * sizeof *own);
    else
      memset(own + weights, 0, biases * sizeof *own);
  }
}

static void free_problem(problem *p) {
  gconv_network_free(&p->network);
  gconv_release(p->inputs);
  gconv_release(p->targets);
  gconv_release(p->parameters);
  gconv_release(p->after);
  gconv_release(p->gradient);
}

/* Layers begin with the random weights that `gconv train --seed 1` begins with. */
static gconv_status fill_problem(problem *p) {
  const gconv_backprop_net *net = &p->net;
  char text[240] = "";
  size_t used = 0, named = (size_t)snprintf(p->name, sizeof p->name, "%d", (int)net->widths[0]);
  for (int32_t l = 1; l <= net->layers; l++) {
    used += (size_t)snprintf(text + used, sizeof text - used, "%sdense %d sigmoid", l > 1 ? ", " : "", (int)net->widths[l]);
    named += (size_t)snprintf(p->name + named, sizeof p->name - named, "-%d", (int)net->widths[l]);
  }
  int32_t in = net->widths[0], out = net->widths[net->layers];
  p->count = (size_t)gconv_backprop_parameters(net, net->layers + 1);
  p->base = (gconv_dataset){.type = &cases_type,
                            .info = {.cases = (size_t)net->cases,
                                     .channels = in,
                                     .height = 1,
                                     .width = 1,
                                     .outputs = (size_t)out,
                                     .target_channels = out,
                                     .target_height = 1,
                                     .target_width = 1}};
  GCONV_TRY(gconv_network_make(text, (const int32_t[]){in, 1, 1}, (size_t)out, 1, &p->network));
  GCONV_TRY(gconv_bench_draw_numbers((size_t)net->cases * (size_t)in, 1, "cases", &p->inputs));
  GCONV_TRY(gconv_bench_draw_numbers((size_t)net->cases * (size_t)out, 2, "cases", &p->targets));
  GCONV_TRY(gconv_bench_draw_numbers(p->count, 0, "weights", &p->parameters));
  GCONV_TRY(gconv_bench_draw_numbers(p->count, 0, "weights", &p->after));
  GCONV_TRY(gconv_bench_draw_numbers(p->count, 0, "weights", &p->gradient));
  copy_parameters(net, &p->network, p->parameters);
  return GCONV_OK;
}

/* ---- Methods ---- */

/* How a net is trained: by gconv's trainer on a device, or by a classic method on the GPU. */
typedef struct method {
  const char *name;
  gconv_device *device;
  bool classic;
  size_t number; /* number of the classic method */
} method;

/* A net in training by a method. */
typedef struct learner {
  gconv_trainer *trainer;
  gconv_backprop *classic;
  int epochs; /* epochs of a run */
} learner;

static void free_learner(learner *l) {
  gconv_trainer_free(l->trainer);
#ifdef GCONV_WITH_CUDA
  gconv_backprop_free(l->classic);
#endif
}

static gconv_status make_learner(const problem *p, const method *m, double rate, learner *l) {
  *l = (learner){0};
#ifdef GCONV_WITH_CUDA
  if (m->classic) {
    const gconv_backprop_order order = {m->number, p->net, p->inputs, p->targets, p->parameters, (float)rate};
    return gconv_backprop_create(&order, &l->classic);
  }
#endif
  const gconv_training_options options = {
      .loss = GCONV_LOSS_SSE, .optimizer = GCONV_OPTIMIZER_SGD, .rate = rate, .batch = SIZE_MAX, .epochs = INT32_MAX};
  return gconv_trainer_create(m->device, &p->network, &options, &p->base, NULL, &l->trainer);
}

static gconv_status train(const learner *l, int epochs, double *milliseconds) {
#ifdef GCONV_WITH_CUDA
  if (l->classic)
    return gconv_backprop_train(l->classic, epochs, milliseconds);
#endif
  double start = gconv_now_ms();
  for (int i = 0; i < epochs; i++) {
    gconv_epoch epoch;
    GCONV_TRY(gconv_trainer_epoch(l->trainer, &epoch));
    if (epoch.ended)
      return gconv_fail(GCONV_MISMATCH, "training ended: %s", epoch.ended);
  }
  *milliseconds = gconv_now_ms() - start;
  return GCONV_OK;
}

static gconv_status get_parameters(const problem *p, const learner *l, float *parameters) {
#ifdef GCONV_WITH_CUDA
  if (l->classic)
    return gconv_backprop_get(l->classic, parameters);
#endif
  GCONV_ENDED_BY(gconv_network_free) gconv_network network = {0};
  GCONV_TRY(gconv_trainer_network(l->trainer, true, &network));
  copy_parameters(&p->net, &network, parameters);
  return GCONV_OK;
}

/* ---- Gradients ---- */

/* Returns the largest difference from one core's gradient, relative to the largest number of the tensor. A tensor is the
 * weights or the biases of a layer. */
static double compare_gradients(const problem *p, const float *gradient) {
  double worst = 0;
  for (int32_t i = 0; i < 2 * p->net.layers; i++) {
    int32_t l = i / 2 + 1;
    size_t weights = (size_t)p->net.widths[l] * (size_t)p->net.widths[l - 1];
    size_t first = (size_t)gconv_backprop_parameters(&p->net, l) + (i % 2 ? weights : 0);
    size_t count = i % 2 ? (size_t)p->net.widths[l] : weights;
    double largest = 0, difference = 0;
    for (size_t k = first; k < first + count; k++) {
      double d = fabs((double)gradient[k] - (double)p->gradient[k]);
      largest = fmax(largest, fabs((double)p->gradient[k]));
      difference = d <= difference ? difference : d; /* a NaN stays */
    }
    double relative = difference / largest;
    worst = relative <= worst ? worst : relative;
  }
  return isnan(worst) ? HUGE_VAL : worst;
}

/* Finds the gradient by a step of rate 1. Gradients of other methods are compared with the gradient of the first. */
static gconv_status check_gradient(problem *p, const method *m, bool first, gconv_bench_row *row) {
  learner l;
  double unused;
  gconv_device_enter(m->device);
  gconv_status status = make_learner(p, m, 1, &l);
  GCONV_THEN(status, train(&l, 1, &unused));
  GCONV_THEN(status, get_parameters(p, &l, p->after));
  free_learner(&l);
  gconv_device_leave(m->device);
  GCONV_TRY(status);
  for (size_t i = 0; i < p->count; i++)
    p->after[i] = p->parameters[i] - p->after[i];
  if (first)
    memcpy(p->gradient, p->after, p->count * sizeof *p->gradient);
  row->checked = !first;
  row->error = compare_gradients(p, p->after);
  row->allowed = ALLOWED;
  if (row->error <= row->allowed)
    return GCONV_OK;
  return gconv_fail(GCONV_MISMATCH, "its gradient differs from one core's by %.2g of the largest, where %.2g is allowed",
                    row->error, row->allowed);
}

/* ---- Times ---- */

/* Times a whole run, with preparation and end. If epochs take long, trains fewer, and scales their time up to a run. */
static gconv_status time_run(const problem *p, const method *m, gconv_bench_row *row) {
  enum { MOST_MS = 4000 };
  learner l;
  double ms, first;
  const double start = gconv_now_ms();
  gconv_device_enter(m->device);
  gconv_status status = make_learner(p, m, 0.5 / p->net.cases, &l);
  const double made = gconv_now_ms();
  GCONV_THEN(status, train(&l, 1, &first));
  const double an_epoch = gconv_now_ms() - made;
  const int rest = an_epoch * EPOCHS_OF_A_RUN > MOST_MS ? (int)fmax(1, MOST_MS / an_epoch) : EPOCHS_OF_A_RUN - 1;
  const double begin = gconv_now_ms();
  GCONV_THEN(status, train(&l, rest, &ms));
  GCONV_THEN(status, get_parameters(p, &l, p->after));
  const double end = gconv_now_ms();
  free_learner(&l);
  gconv_device_leave(m->device);
  row->ms = begin - start + (end - begin) / rest * (EPOCHS_OF_A_RUN - 1) + gconv_now_ms() - end;
  row->items = (double)p->net.cases * EPOCHS_OF_A_RUN;
  return status;
}

/* Keeps a row for each part of an epoch, with the part's time in 100 epochs. */
static gconv_status time_parts(gconv_bench *bench, const problem *p, const method *m, const gconv_bench_row *like) {
#ifdef GCONV_WITH_CUDA
  const char *names[GCONV_BACKPROP_PARTS];
  double all[GCONV_BACKPROP_PARTS][PART_RUNS], ms[GCONV_BACKPROP_PARTS];
  int count = 0;
  learner l;
  gconv_device_enter(m->device);
  gconv_status status = make_learner(p, m, 0.5 / p->net.cases, &l);
  for (int i = -1; status == GCONV_OK && i < PART_RUNS; i++) { /* the first warms up */
    status = gconv_backprop_time_parts(l.classic, names, ms, &count);
    for (int k = 0; i >= 0 && k < count; k++)
      all[k][i] = ms[k] * EPOCHS;
  }
  free_learner(&l);
  gconv_device_leave(m->device);
  double together = 0; /* medians, as the rows have them */
  for (int k = 0; status == GCONV_OK && k < count; k++)
    together += gconv_bench_median(all[k], PART_RUNS);
  for (int k = 0; status == GCONV_OK && k < count; k++) {
    gconv_bench_row row = *like;
    snprintf(row.filter, sizeof row.filter, "%.32s %.14s", p->name, names[k]);
    snprintf(row.line, sizeof row.line, "%s: %s", m->name, names[k]);
    gconv_bench_take_times(&row, all[k], PART_RUNS);
    row.share = row.ms / together;
    row.items = (double)p->net.cases * EPOCHS;
    gconv_bench_end_row(bench, &row, GCONV_OK);
  }
  return status;
#else
  return GCONV_OK;
#endif
}

/* Trains, and sets *ms to the time of an epoch. */
static gconv_status run_epochs(const void *user, double *ms) {
  const learner *l = user;
  GCONV_TRY(train(l, l->epochs, ms));
  *ms /= l->epochs;
  return GCONV_OK;
}

/* Times runs of more and more epochs, until their times agree; fails if they never do. A run that takes hardly any time does
 * not count: the trainer had computed its epochs before the run began. */
static gconv_status time_long_runs(const gconv_bench *bench, learner *l, gconv_bench_row *row) {
  bool counts = false;
  for (int i = 0; i < MOST_TRIES; i++, l->epochs *= LONGER) {
    const double begin = gconv_now_ms();
    const int runs = gconv_bench_affordable_runs(row->ms * l->epochs, bench->grid->runs);
    GCONV_TRY(gconv_bench_time_runs(row, runs, run_epochs, l));
    counts = row->ms * l->epochs >= SHORTEST_RUN_MS / 2;
    if (counts && row->spread_ms <= SPREAD * row->ms)
      return GCONV_OK;
    if (gconv_now_ms() - begin > MOST_RUNS_MS)
      break;
  }
  if (counts && row->ms > 2 * row->spread_ms)
    return GCONV_OK;
  return gconv_fail(GCONV_UNSUPPORTED, "no figure: its runs differ by %.3g ms an epoch around %.3g ms", row->spread_ms,
                    row->ms);
}

static gconv_status run_an_epoch(void *user) {
  double ms;
  return train(user, 1, &ms);
}

/* Takes an epoch to warm up, one to see how long epochs take, and the runs. The rate is divided by the cases, so that
 * weights stay small. */
static gconv_status time_epochs(gconv_bench *bench, const problem *p, const method *m, gconv_bench_row *row) {
  learner l;
  double ms = 0;
  gconv_device_enter(m->device);
  gconv_status status = make_learner(p, m, 0.5 / p->net.cases, &l);
  for (int i = 0; status == GCONV_OK && i < 2; i++)
    status = train(&l, 1, &ms);
  row->ms = ms;
  l.epochs = ms * EPOCHS < SHORTEST_RUN_MS ? EPOCHS : (int)fmax(1, SHORTEST_RUN_MS / ms);
  GCONV_THEN(status, time_long_runs(bench, &l, row));
  if (status == GCONV_OK && m->classic) /* the trainer computes epochs ahead, so no single epoch can be profiled */
    gconv_bench_profile_work(bench, run_an_epoch, &l, row);
  free_learner(&l);
  gconv_device_leave(m->device);
  return status;
}

/* ---- The grid ---- */

enum { MOST_METHODS = 16 };

static gconv_bench_row begin_row(const figure *f, const problem *p, const method *m, bool first) {
  static const char *const titles[] = {
      [AN_EPOCH] = "an epoch", [ITS_PARTS] = "the parts of 100 epochs", [A_RUN] = "whole runs of 1000 epochs"};
  gconv_bench_row row = {.algorithm = m->name, .items = p->net.cases, .threads = first ? 1 : 0};
  row.place = f->along == PARAMETERS ? (double)p->count : f->along == INPUTS ? p->net.widths[0] : p->net.cases;
  row.draws_speed_up = f->draws != NULL;
  snprintf(row.filter, sizeof row.filter, "%s", p->name);
  if (f->along == CASES) /* all in one panel */
    snprintf(row.group, sizeof row.group, "%s, all cases in each step; %s", p->name, titles[f->what]);
  else
    snprintf(row.group, sizeof row.group, "%d cases, all in each step; sigmoids, half the sum of squares; %s",
             (int)p->net.cases, titles[f->what]);
  return row;
}

/* Gives the rows from `first` on lines that hold a method against the others. */
static void draw_against(gconv_bench *bench, const char *name, size_t first) {
  size_t own = first;
  while (own < bench->count && strcmp(bench->rows[own].algorithm, name) != 0)
    own++;
  for (size_t i = first; i < bench->count && own < bench->count; i++) {
    gconv_bench_row *row = &bench->rows[i];
    row->drawn = i == own || bench->rows[own].obstacle[0] ? -1 : row->ms / bench->rows[own].ms;
    snprintf(row->line, sizeof row->line, "%.30s against %.20s", name, row->algorithm);
  }
}

static gconv_status measure_net(gconv_bench *bench, const figure *f, problem *p, const method *methods, size_t count) {
  const size_t first = bench->count;
  GCONV_TRY(fill_problem(p));
  for (size_t i = 0; i < count; i++) {
    gconv_bench_row row = begin_row(f, p, &methods[i], i == 0);
    const bool parts = f->what == ITS_PARTS && methods[i].classic;
    gconv_status status = check_gradient(p, &methods[i], i == 0, &row);
    if (status == GCONV_OK && f->what == ITS_PARTS && !parts)
      continue; /* only the gradient of a core is needed */
    if (status == GCONV_OK && parts)
      status = time_parts(bench, p, &methods[i], &row);
    else if (status == GCONV_OK)
      status = f->what == A_RUN ? time_run(p, &methods[i], &row) : time_epochs(bench, p, &methods[i], &row);
    if (status != GCONV_OK || !parts)
      gconv_bench_end_row(bench, &row, status);
  }
  if (f->draws && f->draws[0])
    draw_against(bench, f->draws, first);
  return GCONV_OK;
}

#ifdef GCONV_WITH_CUDA
static bool takes(const figure *f, const char *name) {
  return !f->methods || gconv_find_word(f->methods, ',', name, strlen(name));
}
#endif

/* Lists the methods of this machine. One core is first, because other methods are compared with it. */
static size_t list_methods(const gconv_bench *bench, const figure *f, method *methods) {
  const bool has_gpu = strcmp(bench->type_name, "cuda") == 0;
  size_t count = 0;
  methods[count++] = (method){"one-core", bench->one, false, 0};
  if (bench->all && (!f->methods || !has_gpu))
    methods[count++] = (method){"all-cores", bench->all, false, 0};
#ifdef GCONV_WITH_CUDA
  const char *name;
  for (size_t i = 0; has_gpu && count < MOST_METHODS - 1 && (name = gconv_backprop_method_at(i)); i++)
    if (takes(f, name))
      methods[count++] = (method){name, bench->device, true, i};
  if (has_gpu && takes(f, "trainer"))
    methods[count++] = (method){"trainer", bench->device, false, 0};
#endif
  return count;
}

/* Reads a net such as 64-63-26 from the front of *text, and moves *text to the next net. */
static gconv_status read_net(const char **text, gconv_backprop_net *net) {
  const char *at = *text;
  const int length = (int)strcspn(at, ",");
  net->layers = -1;
  do {
    char *end;
    const long width = strtol(at, &end, 10);
    if (end == at || width < 1 || width > GCONV_BACKPROP_NEURONS || net->layers == GCONV_BACKPROP_LAYERS ||
        (*end != '-' && *end != ',' && *end != '\0'))
      return gconv_fail(GCONV_BAD_ARGUMENT, "--net %.*s: a net has 2 to %d layers of 1 to %d neurons, such as 64-63-26",
                        length, *text, GCONV_BACKPROP_LAYERS + 1, GCONV_BACKPROP_NEURONS);
    net->widths[++net->layers] = (int32_t)width;
    at = end + (*end == '-');
  } while (*at != ',' && *at != '\0');
  if (net->layers < 1)
    return gconv_fail(GCONV_BAD_ARGUMENT, "--net %.*s: a net has an input and at least one layer, such as 64-63-26", length,
                      *text);
  *text = at + (*at == ',');
  return GCONV_OK;
}

gconv_status gconv_bench_backprop(gconv_bench *bench, int32_t cases) {
  const figure *f = figures;
  while (strcmp(f->name, bench->experiment) != 0)
    f++;
  method methods[MOST_METHODS];
  const size_t count = list_methods(bench, f, methods);
  const char *nets = bench->grid->nets ? bench->grid->nets : f->nets;
  gconv_status status = GCONV_OK;
  while (status == GCONV_OK && *nets) {
    problem p = {.net = {.cases = cases}};
    status = read_net(&nets, &p.net);
    GCONV_THEN(status, measure_net(bench, f, &p, methods, count));
    free_problem(&p);
  }
  return status;
}

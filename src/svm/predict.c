/* SPDX-License-Identifier: MIT */
/* Predictions of rows: values of pairs, classes and probabilities. */
#include "base/arguments.h"
#include "base/memory.h"
#include "device/device.h"
#include "svm/svm.h"

#include <math.h>
#include <string.h>

/* ---- Values of the machines ---- */

enum { TURN_ROWS = GCONV_SVM_TOGETHER };

/* The workspace of a thread. */
typedef struct seat {
  double kernel[TURN_ROWS][GCONV_SVM_BLOCK];
  double *scratch, *sums; /* scratch: the columns of a row; sums: a turn's rows x rows of coefficients */
} seat;

typedef struct predicting {
  const gconv_svm *model;
  const gconv_svm_row *rows;
  size_t count;
  double *values;
  seat *seats;
  gconv_controlled *control; /* the caller's; NULL: none */
} predicting;

/* Adds the sums of a class's vectors to the values of its pairs. */
static void add_class(const gconv_svm *model, size_t class, const double *sums, double *values) {
  size_t classes = model->info.class_count;
  if (model->info.type != GCONV_SVM_C_SVC) {
    values[0] += sums[0];
    return;
  }
  for (size_t i = 0, pair = class == 0 ? 0 : class - 1; i < class; pair += classes - 2 - i, i++) /* (i, class) */
    values[pair] += sums[i];
  size_t first = class * (2 * classes - class - 1) / 2; /* (class, class + 1) */
  for (size_t j = class + 1; j < classes; j++)
    values[first + j - class - 1] += sums[j - 1];
}

/* Adds to the sums of each row: kernel values times coefficients of the vectors begin .. end - 1, which are of one class. */
static void add_vectors(const predicting *p, seat *s, const gconv_svm_row *rows, size_t count, size_t begin, size_t end) {
  const gconv_svm *model = p->model;
  size_t wide = gconv_svm_coefficient_rows(model);
  for (size_t block = begin / GCONV_SVM_BLOCK; block * GCONV_SVM_BLOCK < end; block++) {
    size_t first = block * GCONV_SVM_BLOCK, from = begin > first ? begin : first;
    size_t to = end < first + GCONV_SVM_BLOCK ? end : first + GCONV_SVM_BLOCK;
    for (size_t r = 0; r < count; r++)
      gconv_svm_row_wide(&model->formula, &model->points, &rows[r], block, 1, s->scratch, s->kernel[r]);
    const double(*values)[GCONV_SVM_BLOCK] = (const double(*)[GCONV_SVM_BLOCK])(s->kernel[0] + (from - first));
    gconv_svm_add_products(values, model->by_vector + from * wide, to - from, wide, s->sums);
  }
}

static void predict_turn(void *context, size_t turn, int at) {
  const predicting *p = context;
  const gconv_svm *model = p->model;
  seat *s = &p->seats[at];
  size_t machines = gconv_svm_machines(model), wide = gconv_svm_coefficient_rows(model);
  size_t first = turn * TURN_ROWS, count = p->count - first < TURN_ROWS ? p->count - first : TURN_ROWS;
  if (gconv_control_stops(p->control))
    return;
  double *values = p->values + first * machines;
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < machines; k++)
      values[i * machines + k] = -model->rho[k];
  size_t classes = model->info.type == GCONV_SVM_C_SVC ? model->info.class_count : 1;
  for (size_t class = 0, begin = 0; class < classes; class ++) {
    size_t vectors = model->info.type == GCONV_SVM_C_SVC ? model->class_vectors[class] : model->vectors.count;
    memset(s->sums, 0, TURN_ROWS * wide * sizeof *s->sums); /* sums after the last row are not used */
    add_vectors(p, s, p->rows + first, count, begin, begin + vectors);
    for (size_t i = 0; i < count; i++)
      add_class(model, class, s->sums + i * wide, values + i * machines);
    begin += vectors;
  }
}

static gconv_status values_on_cpu(const gconv_svm *model, gconv_threads *threads, const gconv_svm_row *rows, size_t count,
                                  double *values) {
  predicting p = {.model = model, .rows = rows, .count = count, .values = values, .control = gconv_control_here()};
  size_t seats = threads ? (size_t)gconv_threads_count(threads) : 1, columns = model->info.columns;
  size_t wide = TURN_ROWS * gconv_svm_coefficient_rows(model);
  GCONV_FREED double *memory = calloc(seats * (columns + wide), sizeof *memory);
  p.seats = calloc(seats, sizeof *p.seats);
  gconv_status status = memory && p.seats ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for predictions");
  for (size_t i = 0; i < seats && status == GCONV_OK; i++) {
    p.seats[i].scratch = memory + i * (columns + wide);
    p.seats[i].sums = p.seats[i].scratch + columns;
  }
  if (status == GCONV_OK)
    gconv_svm_each(threads, (count + TURN_ROWS - 1) / TURN_ROWS, predict_turn, &p);
  free(p.seats);
  return status == GCONV_OK ? gconv_control_check() : status;
}

#ifdef GCONV_WITH_CUDA
/* Copies the support vectors to the GPU, unless it has them already. */
static gconv_status bring_model(gconv_svm *model, gconv_device *device) {
  const size_t classes = model->info.type == GCONV_SVM_C_SVC ? model->info.class_count : 1;
  if (model->gpu && model->gpu_device == device && model->gpu_index == device->index)
    return GCONV_OK;
  gconv_svm_gpu_free(model->gpu);
  model->gpu = NULL;
  uint32_t *begins;
  GCONV_NEW(begins, classes + 1, "no memory for %zu classes", classes);
  for (size_t c = 0; c < classes; c++)
    begins[c + 1] =
        begins[c] + (uint32_t)(model->info.type == GCONV_SVM_C_SVC ? model->class_vectors[c] : model->vectors.count);
  const gconv_svm_gpu_model there = {
      .begins = begins, .by_vector = model->by_vector, .classes = classes, .wide = gconv_svm_coefficient_rows(model)};
  gconv_status status = gconv_svm_gpu_create(device, &model->formula, model->vectors.rows, model->vectors.count,
                                             model->info.columns, &model->gpu);
  GCONV_THEN(status, gconv_svm_gpu_set_model(model->gpu, &there));
  if (status == GCONV_OK) {
    model->gpu_device = device;
    model->gpu_index = device->index;
  } else {
    gconv_svm_gpu_free(model->gpu);
    model->gpu = NULL;
  }
  free(begins);
  return status;
}

void gconv_svm_leave_gpu(gconv_svm *model, const gconv_device *device) {
  pthread_mutex_lock(&model->gpu_lock);
  if (model->gpu && model->gpu_device == device) {
    gconv_svm_gpu_free(model->gpu);
    model->gpu = NULL;
  }
  pthread_mutex_unlock(&model->gpu_lock);
}

static gconv_status values_on_gpu(gconv_svm *model, gconv_device *device, const gconv_svm_row *rows, size_t count,
                                  double *values) {
  const size_t machines = gconv_svm_machines(model), wide = gconv_svm_coefficient_rows(model);
  const size_t classes = model->info.type == GCONV_SVM_C_SVC ? model->info.class_count : 1;
  GCONV_FREED double *sums = malloc((classes * wide * count + wide + 1) * sizeof *sums);
  GCONV_NEED_MEMORY(sums, "no memory for %zu predictions", count);
  pthread_mutex_lock(&model->gpu_lock);
  gconv_status status = bring_model(model, device);
  GCONV_THEN(status, gconv_svm_gpu_sum(model->gpu, rows, count, sums));
  pthread_mutex_unlock(&model->gpu_lock);
  double *own = sums + classes * wide * count;
  for (size_t i = 0; i < count && status == GCONV_OK; i++) {
    for (size_t k = 0; k < machines; k++)
      values[i * machines + k] = -model->rho[k];
    for (size_t class = 0; class < classes; class ++) {
      for (size_t k = 0; k < wide; k++)
        own[k] = sums[(class * wide + k) * count + i];
      add_class(model, class, own, values + i * machines);
    }
  }
  return status;
}

gconv_status gconv_svm_values(const gconv_svm *model, gconv_device *device, const gconv_svm_row *rows, size_t count,
                              double *values) {
  enum { GPU_ROWS = 4096 }; /* the most rows of coefficients on a GPU; with more classes, the CPU sums */
  GCONV_TRY(gconv_svm_model_prepare((gconv_svm *)model));
  if (!gconv_svm_gpu_computes(device, &model->formula) || gconv_svm_coefficient_rows(model) > GPU_ROWS)
    return values_on_cpu(model, gconv_device_threads(device), rows, count, values);
  gconv_status status = values_on_gpu((gconv_svm *)model, device, rows, count, values);
  if (status != GCONV_NO_MEMORY)
    return status;
  gconv_warn_once("predicted on the CPU", "the CPU predicts instead of the GPU: %s", gconv_last_error());
  return values_on_cpu(model, gconv_device_threads(device), rows, count, values);
}
#else
gconv_status gconv_svm_values(const gconv_svm *model, gconv_device *device, const gconv_svm_row *rows, size_t count,
                              double *values) {
  GCONV_TRY(gconv_svm_model_prepare((gconv_svm *)model));
  return values_on_cpu(model, gconv_device_threads(device), rows, count, values);
}
#endif

/* ---- Classes and probabilities ---- */

size_t gconv_svm_vote(const double *values, size_t class_count, size_t *votes) {
  size_t best = 0;
  memset(votes, 0, class_count * sizeof *votes);
  for (size_t i = 0, k = 0; i < class_count; i++)
    for (size_t j = i + 1; j < class_count; j++, k++)
      votes[values[k] > 0 ? i : j]++;
  for (size_t c = 1; c < class_count; c++)
    best = votes[c] > votes[best] ? c : best;
  return best;
}

static double sigmoid(double value, double a, double b) {
  double x = value * a + b;
  return x >= 0 ? exp(-x) / (1 + exp(-x)) : 1 / (1 + exp(x));
}

/* Minimises sum over i and j of (r[j][i] p[i] - r[i][j] p[j])^2 (the second method of Wu, Lin and Weng, 2004). */
static void couple(size_t k, const double *r, double *Q, double *Qp, double *p) {
  const double enough = 0.005 / (double)k;
  size_t rounds = k > 100 ? k : 100;
  for (size_t t = 0; t < k; t++) {
    p[t] = 1 / (double)k;
    Q[t * k + t] = 0;
    for (size_t j = 0; j < k; j++)
      if (j != t) {
        Q[t * k + t] += r[j * k + t] * r[j * k + t];
        Q[t * k + j] = -r[j * k + t] * r[t * k + j];
      }
  }
  for (size_t round = 0; round < rounds; round++) {
    double pQp = 0, worst = 0;
    for (size_t t = 0; t < k; t++) {
      Qp[t] = 0;
      for (size_t j = 0; j < k; j++)
        Qp[t] += Q[t * k + j] * p[j];
      pQp += p[t] * Qp[t];
    }
    for (size_t t = 0; t < k; t++)
      worst = fmax(worst, fabs(Qp[t] - pQp));
    if (worst < enough)
      return;
    for (size_t t = 0; t < k; t++) {
      double difference = (-Qp[t] + pQp) / Q[t * k + t];
      p[t] += difference;
      pQp = (pQp + difference * (difference * Q[t * k + t] + 2 * Qp[t])) / (1 + difference) / (1 + difference);
      for (size_t j = 0; j < k; j++) {
        Qp[j] = (Qp[j] + difference * Q[t * k + j]) / (1 + difference);
        p[j] /= 1 + difference;
      }
    }
  }
}

/* Computes probabilities of classes from the values of pairs (Wu, Lin and Weng, 2004). scratch: class_count * (2 *
 * class_count + 1) numbers. */
static void couple_pairs(const gconv_svm *model, const double *values, double *scratch, double *probabilities) {
  const double least = 1e-7;
  size_t k = model->info.class_count;
  double *r = scratch, *Q = r + k * k, *Qp = Q + k * k;
  for (size_t i = 0, pair = 0; i < k; i++)
    for (size_t j = i + 1; j < k; j++, pair++) {
      double p = sigmoid(values[pair], model->prob_a[pair], model->prob_b[pair]);
      r[i * k + j] = fmin(fmax(p, least), 1 - least);
      r[j * k + i] = 1 - r[i * k + j];
    }
  if (k == 2) {
    probabilities[0] = r[1];
    probabilities[1] = r[2];
  } else {
    couple(k, r, Q, Qp, probabilities);
  }
}

/* ---- All rows ---- */

gconv_status gconv_svm_decide(const gconv_svm *model, const double *values, size_t count, int32_t *classes,
                              double *probabilities) {
  size_t k = model->info.class_count, machines = gconv_svm_machines(model);
  GCONV_FREED size_t *votes = calloc(k + 1, sizeof *votes);
  GCONV_FREED double *scratch = calloc(2 * k * k + k + 1, sizeof *scratch);
  if (!votes || !scratch)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu classes", k);
  for (size_t i = 0; i < count; i++) {
    size_t best = classes ? gconv_svm_vote(values + i * machines, k, votes) : 0;
    if (probabilities) {
      double *p = probabilities + i * k;
      couple_pairs(model, values + i * machines, scratch, p);
      best = 0;
      for (size_t c = 1; c < k; c++)
        best = p[c] > p[best] ? c : best;
    }
    if (classes)
      classes[i] = (int32_t)best;
  }
  return GCONV_OK;
}

/* Makes cases of the rows of `numbers`: scaled and without zeros. */
static gconv_status take_rows(const gconv_svm *model, const float *numbers, size_t count, gconv_svm_cases *cases) {
  size_t columns = model->info.columns;
  GCONV_FREED float *row = malloc((columns + 1) * sizeof *row);
  gconv_status status = row ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for a row of %zu columns", columns);
  cases->columns = columns;
  for (size_t i = 0; i < count && status == GCONV_OK; i++) {
    gconv_svm_range_row(&model->range, columns, numbers + i * columns, row);
    status = gconv_svm_cases_add(cases, row);
  }
  gconv_svm_cases_finish(cases);
  return status;
}

static gconv_status predict_part(const gconv_svm *model, gconv_device *device, const float *rows, size_t count,
                                 double *values, int32_t *classes, double *probabilities) {
  GCONV_ENDED_BY(gconv_svm_cases_free) gconv_svm_cases cases = {0};
  GCONV_TRY(take_rows(model, rows, count, &cases));
  GCONV_TRY(gconv_svm_values(model, device, cases.rows, count, values));
  const bool decides = model->info.type == GCONV_SVM_C_SVC && (classes || probabilities);
  return decides ? gconv_svm_decide(model, values, count, classes, probabilities) : GCONV_OK;
}

gconv_status gconv_svm_predict(const gconv_svm *model, gconv_device *device, const float *rows, size_t count,
                               const gconv_svm_results *results) {
  enum { MOST = 4096, VALUES = 1 << 24 };
  GCONV_NEED(model, device, rows, results);
  GCONV_TRY(GCONV_CHECK_KNOWN(results, "results"));
  int32_t *classes = results->classes;
  double *values = results->values, *probabilities = results->probabilities;
  const gconv_svm_info *info = &model->info;
  if (classes && info->type != GCONV_SVM_C_SVC)
    return gconv_fail(GCONV_BAD_ARGUMENT, "gconv_svm_predict(): a model of regression has no classes: it yields values");
  if (probabilities && !info->probabilities)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the model yields no probabilities: train it with them (gconv svm -b)");
  for (size_t i = 0; i < count * info->columns; i++)
    if (!isfinite(rows[i]))
      return gconv_fail(GCONV_BAD_ARGUMENT,
                        "row %zu, column %zu (from 1) is %g: a prediction needs finite numbers; the means of the training, "
                        "which fill gaps, are in the notes of the model",
                        i / info->columns + 1, i % info->columns + 1, (double)rows[i]);
  size_t machines = gconv_svm_machines(model);
  size_t at_a_time = VALUES / machines < 1 ? 1 : VALUES / machines < MOST ? VALUES / machines : MOST;
  GCONV_FREED double *own = values ? NULL : malloc(at_a_time * machines * sizeof *own);
  gconv_status status = values || own ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for predictions");
  for (size_t first = 0; first < count && status == GCONV_OK; first += at_a_time) {
    size_t part = count - first < at_a_time ? count - first : at_a_time;
    status = gconv_control_step("predicting", (double)first / (double)count);
    GCONV_THEN(status, predict_part(model, device, rows + first * info->columns, part,
                                    values ? values + first * machines : own, classes ? classes + first : NULL,
                                    probabilities ? probabilities + first * info->class_count : NULL));
  }
  return status;
}

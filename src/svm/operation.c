/* SPDX-License-Identifier: MIT */
/*
 * A support vector machine as an operation on features of pixels. Its input has a channel for each column. Its output has a
 * channel for each class: votes or probabilities. An identity layer follows, so that these become pictures as the outputs of
 * a network do: maps of classes, or a picture for each class.
 */
#include "operation/operation.h"
#include "base/arguments.h"
#include "base/clock.h"
#include "base/control.h"
#include "base/memory.h"
#include "device/device.h"
#include "image/layout.h"
#include "svm/pixels.h"

#include <stdatomic.h>

enum {
  PIXELS = 4096, /* pixels that are predicted at a time */
  TURN = 512,    /* pixels that a thread predicts at a time, in float32 */
  STRIP = 64     /* rows of a strip, as for features */
};

typedef struct svm_operation {
  gconv_operation base;
  const gconv_svm *model;
  gconv_bank same; /* the identity layer: a weight of 1 for each class */
} svm_operation;

typedef struct svm_plan {
  gconv_plan base;
  const gconv_svm *model;
  gconv_svm_lean form;   /* owned: the model in float32, if it fits; else zeros */
  uint8_t *works;        /* owned, with `form`: memory of each thread for TURN pixels */
  float *rows;           /* owned, without `form`: PIXELS x columns */
  int32_t *classes;      /* owned, without `form`: PIXELS; NULL in models with probabilities */
  double *probabilities; /* owned, without `form`: PIXELS x classes; NULL in models without probabilities */
#ifdef GCONV_WITH_CUDA
  gconv_svm_there *there; /* owned: the model on a GPU */
#endif
} svm_plan;

/* ---- Executing -------------------------------------------------------------------------------------------------------- */

/* Pixels of a row of a frame, from column `x` on. */
typedef struct piece {
  const gconv_image *in, *out;
  int32_t frame, in_y, out_y, x, count;
} piece;

static float *samples_of(const gconv_image *image, int32_t frame, size_t channel, int32_t y, int32_t x) {
  uint8_t *plane = (uint8_t *)image->data + ((size_t)frame * (size_t)image->channels + channel) * image->plane_bytes;
  return (float *)(void *)(plane + (size_t)y * image->row_bytes) + x;
}

static void gather(const svm_plan *plan, const piece *p, size_t at) {
  const size_t columns = plan->model->info.columns;
  for (size_t c = 0; c < columns; c++) {
    const float *from = samples_of(p->in, p->frame, c, p->in_y, p->x);
    float *to = plan->rows + at * columns + c;
    for (int32_t i = 0; i < p->count; i++)
      to[(size_t)i * columns] = isfinite(from[i]) ? from[i] : 0; /* else scatter() sets the pixel's outputs to NaN */
  }
}

static void scatter(const svm_plan *plan, const piece *p, size_t at) {
  const size_t classes = plan->model->info.class_count;
  float *to = samples_of(p->out, p->frame, 0, p->out_y, p->x);
  const size_t plane = p->out->plane_bytes / sizeof(float);
  gconv_svm_put_planes(plan->model, plan->classes ? plan->classes + at : NULL,
                       plan->probabilities ? plan->probabilities + at * classes : NULL, (size_t)p->count, to, plane);
  gconv_svm_clear_planes(plan->model, samples_of(p->in, p->frame, 0, p->in_y, p->x), p->in->plane_bytes / sizeof(float),
                         (size_t)p->count, to, plane);
}

/* Computes all rows of `out`, whose first row belongs to row in_row of `in`. Pieces of several rows are predicted together.
 */
static gconv_status predict_rows(const svm_plan *plan, const gconv_image *in, int32_t in_row, const gconv_image *out,
                                 gconv_timings *timings) {
  const double start = gconv_now_ms();
  const int64_t all = (int64_t)out->frames * out->height * out->width;
  for (int64_t first = 0; first < all; first += PIXELS) {
    const size_t count = all - first < PIXELS ? (size_t)(all - first) : PIXELS;
    for (int pass = 0; pass < 2; pass++) {
      for (size_t at = 0; at < count;) {
        const int64_t pixel = first + (int64_t)at, row = pixel / out->width;
        piece p = {in, out, (int32_t)(row / out->height), 0, (int32_t)(row % out->height), (int32_t)(pixel % out->width), 0};
        p.in_y = in_row + p.out_y;
        p.count = out->width - p.x < (int64_t)(count - at) ? out->width - p.x : (int32_t)(count - at);
        if (pass == 0)
          gather(plan, &p, at);
        else
          scatter(plan, &p, at);
        at += (size_t)p.count;
      }
      if (pass == 0)
        GCONV_TRY(gconv_svm_predict(plan->model, plan->base.device, plan->rows, count,
                                    &(gconv_svm_results){.classes = plan->classes, .probabilities = plan->probabilities}));
    }
  }
  timings->kernel_ms += gconv_now_ms() - start;
  return GCONV_OK;
}

/* Rows that threads predict in float32. */
typedef struct making {
  const svm_plan *plan;
  const gconv_image *in, *out;
  int32_t in_row;
  size_t across;      /* turns of a row */
  atomic_bool failed; /* memory was lacking */
} making;

static void make_turn(void *context, size_t turn, int seat) {
  making *job = context;
  const svm_plan *plan = job->plan;
  const gconv_image *in = job->in, *out = job->out;
  const size_t row = turn / job->across, bytes = gconv_svm_lean_bytes(plan->model, TURN);
  const int32_t frame = (int32_t)(row / (size_t)out->height), y = (int32_t)(row % (size_t)out->height);
  const int32_t x = (int32_t)(turn % job->across) * TURN, count = out->width - x < TURN ? out->width - x : TURN;
  if (gconv_svm_lean_make_planes(plan->model, &plan->form, samples_of(in, frame, 0, job->in_row + y, x),
                                 in->plane_bytes / sizeof(float), (size_t)count, plan->works + (size_t)seat * bytes,
                                 samples_of(out, frame, 0, y, x), out->plane_bytes / sizeof(float)) != GCONV_OK)
    atomic_store(&job->failed, true);
}

static gconv_status make_planes(const svm_plan *plan, const gconv_image *in, int32_t in_row, const gconv_image *out,
                                gconv_timings *timings) {
  const double start = gconv_now_ms();
  making job = {.plan = plan, .in = in, .out = out, .in_row = in_row};
  job.across = ((size_t)out->width + TURN - 1) / TURN;
  gconv_threads_run_or_stop(plan->base.device->threads, job.across * (size_t)out->height * (size_t)out->frames, make_turn,
                            &job);
  timings->kernel_ms += gconv_now_ms() - start;
  GCONV_TRY(gconv_control_check());
  return atomic_load(&job.failed) ? gconv_fail(GCONV_NO_MEMORY, "no memory for predictions") : GCONV_OK;
}

static gconv_status make_rows(const svm_plan *plan, const gconv_image *in, int32_t in_row, const gconv_image *out,
                              gconv_timings *timings) {
  return plan->works ? make_planes(plan, in, in_row, out, timings) : predict_rows(plan, in, in_row, out, timings);
}

static gconv_status execute(gconv_plan *plan, const gconv_plan_input *in, gconv_image *outputs, gconv_timings *timings) {
  return make_rows((const svm_plan *)plan, in->image, 0, outputs, timings);
}

static int32_t row_step(const gconv_plan *plan) {
  return plan->like.frames == 1 ? 1 : 0;
}

static void rows_needed(const gconv_plan *plan, int32_t first, int32_t count, int32_t *begin, int32_t *end) {
  *begin = first;
  *end = first + count;
}

static gconv_status execute_rows(gconv_plan *plan, const gconv_image *window, int32_t window_row, int32_t first,
                                 gconv_image *outputs, gconv_timings *timings) {
  return make_rows((const svm_plan *)plan, window, first - window_row, outputs, timings);
}

#ifdef GCONV_WITH_CUDA
static gconv_status make_rows_there(gconv_plan *base, const gconv_image *window, bool there, int32_t window_row,
                                    int32_t first, int32_t count, gconv_image *out, gconv_timings *timings) {
  gconv_image rows = *window;
  if (!there)
    return gconv_fail(GCONV_UNSUPPORTED, "on a GPU, a support vector machine must follow the features of pixels");
  rows.data = (uint8_t *)window->data + (size_t)(first - window_row) * window->row_bytes;
  rows.height = count;
  return gconv_svm_there_make(((const svm_plan *)base)->there, &rows, out, timings);
}
#endif

/* ---- Reports ---------------------------------------------------------------------------------------------------- */

static void explain(const gconv_plan *base, FILE *text) {
  const gconv_svm_info *info = &((const svm_plan *)base)->model->info;
  fprintf(text, "a support vector machine: %zu vectors of %zu columns, %zu classes, %s, in %s\n", info->vector_count,
          info->columns, info->class_count, info->probabilities ? "by probability" : "by votes of pairs",
          gconv_svm_lean_fits(((const svm_plan *)base)->model) ? "float32" : "float64");
}

static double held_bytes(const gconv_operation *operation) {
  const gconv_svm_info *info = &((const svm_operation *)operation)->model->info;
  const double numbers = (double)info->columns * (sizeof(double) + sizeof(float) + sizeof(uint32_t));
  return (double)info->vector_count * (numbers + 2 * (double)info->class_count * sizeof(double));
}

static void find_need(const gconv_plan *base, gconv_need *need) {
  const gconv_svm_info *info = &((const svm_plan *)base)->model->info;
  const double pairs = (double)info->pair_count + (double)info->class_count;
  need->fixed = PIXELS * (3 * (double)info->columns * sizeof(float) + pairs * sizeof(double));
}

/* ---- The plan --------------------------------------------------------------------------------------------------------- */

static void free_plan(gconv_plan *base) {
  svm_plan *plan = (svm_plan *)base;
#ifdef GCONV_WITH_CUDA
  gconv_svm_there_free(plan->there);
#endif
  gconv_svm_lean_free(&plan->form);
  free(plan->works);
  free(plan->rows);
  free(plan->classes);
  free(plan->probabilities);
  free(plan);
}

static gconv_status make_buffers(svm_plan *plan) {
  const gconv_svm_info *info = &plan->model->info;
  GCONV_TRY(gconv_svm_lean_make(plan->model, &plan->form));
#ifdef GCONV_WITH_CUDA
  if (plan->base.device->type == &gconv_device_type_cuda)
    GCONV_TRY(gconv_svm_there_create(plan->base.device, plan->model, &plan->form, &plan->there));
#endif
  if (plan->form.machine.columns > 0) {
    plan->works = malloc(gconv_svm_lean_bytes(plan->model, TURN) * (size_t)gconv_threads_count(plan->base.device->threads));
    return plan->works ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for a plan");
  }
  plan->rows = malloc(PIXELS * info->columns * sizeof *plan->rows);
  if (info->probabilities)
    plan->probabilities = malloc(PIXELS * info->class_count * sizeof *plan->probabilities);
  else
    plan->classes = malloc(PIXELS * sizeof *plan->classes);
  return plan->rows && (plan->classes || plan->probabilities) ? GCONV_OK
                                                              : gconv_fail(GCONV_NO_MEMORY, "no memory for a plan");
}

/* Returns the time that a thread with AVX2 takes for a pixel. It decides whether a GPU is worth starting
 * (src/batch/worth.c). */
static double nanoseconds(const gconv_svm *model) {
  const double columns = (double)model->info.columns, vectors = (double)model->info.vector_count;
  return vectors * (gconv_svm_lean_fits(model) ? 0.5 + 0.06 * columns : 3 + 0.15 * columns);
}

static gconv_status fill_plan(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *base) {
  svm_plan *plan = (svm_plan *)base;
  const gconv_image *like = order->like;
  plan->model = ((const svm_operation *)operation)->model;
  const gconv_svm_info *info = &plan->model->info;
  if (like->type != GCONV_F32 || !like->planar || (size_t)like->channels != info->columns)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the model takes %zu planes of float32, and gets %d channels", info->columns,
                      (int)like->channels);
  GCONV_NEW(base->outputs, 1, "no memory for a plan");
  base->output_count = 1;
  *base->outputs = gconv_header_with(like, GCONV_F32, (int32_t)info->class_count, true);
  gconv_plan_describe(base, "svm", gconv_svm_lean_fits(plan->model) ? "fp32" : "fp64");
  base->info.estimate_ms = 1e-6 * nanoseconds(plan->model) * like->frames * like->height * (double)like->width;
  return order->extent == GCONV_PLAN_WHOLE ? make_buffers(plan) : GCONV_OK;
}

static const gconv_plan_type svm_plan_type = {.bytes = sizeof(svm_plan),
                                              .free = free_plan,
                                              .execute = execute,
                                              .row_step = row_step,
                                              .rows_needed = rows_needed,
                                              .execute_rows = execute_rows,
#ifdef GCONV_WITH_CUDA
                                              .make_rows_there = make_rows_there,
#endif
                                              .explain = explain,
                                              .find_need = find_need};

/* ---- The operation ---------------------------------------------------------------------------------------------------- */

static void free_operation(gconv_operation *base) {
  svm_operation *operation = (svm_operation *)base;
  free(operation->same.weights);
  free(operation);
}

static int32_t strip(const gconv_operation *operation, const gconv_plan_order *order) {
  (void)operation, (void)order; /* on a GPU, the stage of features chooses more rows */
  return STRIP;
}

static const gconv_operation_type svm_type = {.name = "a support vector machine",
                                              .free = free_operation,
                                              .held_bytes = held_bytes,
                                              .plan_type = &svm_plan_type,
                                              .fill_plan = fill_plan,
                                              .strip = strip,
                                              .shares = true};

static gconv_status make_operation(const gconv_svm *model, svm_operation **result) {
  const size_t classes = model->info.class_count;
  svm_operation *operation = calloc(1, sizeof *operation);
  float *weights = malloc(classes * sizeof *weights);
  if (!operation || !weights) {
    free(operation);
    free(weights);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for an operation");
  }
  for (size_t k = 0; k < classes; k++)
    weights[k] = 1;
  operation->base = (gconv_operation){&svm_type, 1, NULL};
  operation->model = model;
  operation->same = (gconv_bank){.filters = (int32_t)classes, .channels = 1, .rows = 1, .columns = 1, .weights = weights};
  *result = operation;
  return GCONV_OK;
}

/* Makes the three stages: features, the machine, and the layer that makes pictures of its outputs. */
static gconv_status make_stages(const gconv_svm *model, int32_t channels, const gconv_network_options *options,
                                gconv_operation **result) {
  gconv_operation *stages[3] = {NULL, NULL, NULL};
  svm_operation *machine = NULL;
  gconv_status status = gconv_operation_features(model->features, channels, &stages[0]);
  GCONV_THEN(status, gconv_features_expect(stages[0], model->info.notes));
  GCONV_THEN(status, make_operation(model, &machine));
  if (status == GCONV_OK) {
    const gconv_layer layer = {.bank = &machine->same, .groups = machine->same.filters};
    stages[1] = &machine->base; /* lives as long as the chain, and so does its bank, which the layer uses */
    status = gconv_operation_network(&layer, 1, options, &stages[2]);
  }
  GCONV_THEN(status, gconv_operation_chain(stages, 3, result));
  for (size_t i = 0; i < 3; i++)
    gconv_operation_free(stages[i]);
  return status;
}

gconv_status gconv_operation_svm(const gconv_svm *model, const gconv_network_options *options, gconv_operation **result) {
  static const gconv_network_options defaults;
  int32_t count;
  GCONV_NEED(model);
  GCONV_NEED_AS(result, "operation");
  if (!model->features)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the model has no features: it takes the rows of tables");
  GCONV_TRY(gconv_features_resolve(model->features, NULL, &count));
  if (model->info.class_count > UINT16_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "a map of %zu classes: it holds up to %d", model->info.class_count, UINT16_MAX);
  gconv_network_options own = options ? *options : defaults;
  GCONV_FREED uint16_t *values = NULL;
  own.gray = false;         /* the features convert to grey */
  own.algorithm = "direct"; /* the layer multiplies by 1, and must not round */
  own.without = NULL;
  own.mean = own.std = NULL;
  own.mean_count = own.std_count = 0;
  if (own.presentation == GCONV_PRESENT_CLASSES && !own.class_values) {
    GCONV_NEW(values, model->info.class_count, "no memory for the classes of a model");
    GCONV_TRY(gconv_class_values(model->info.classes, model->info.class_count, values));
    own.class_values = values;
    own.class_value_count = model->info.class_count;
  }
  return make_stages(model, (int32_t)model->info.columns / count, &own, result);
}

/* SPDX-License-Identifier: MIT */
#include "cli/predict.h"
#include "base/memory.h"
#include "cli/options.h"
#include "cli/terminal.h"

#include <math.h>
#include <string.h>

enum { BATCH_FLOATS = 1 << 22, MOST_BATCH = 1024 };

gconv_status gconv_predictor_open(const gconv_network *network, gconv_device *device, int32_t channels, int32_t height,
                                  int32_t width, gconv_predictor *predictor) {
  gconv_predictor *p = predictor;
  p->input_floats = (size_t)channels * (size_t)height * (size_t)width;
  size_t batch = BATCH_FLOATS / p->input_floats;
  p->in = (gconv_image){.type = GCONV_F32,
                        .frames = (int32_t)(batch < 1            ? 1
                                            : batch > MOST_BATCH ? MOST_BATCH
                                                                 : batch),
                        .height = height,
                        .width = width,
                        .channels = channels,
                        .planar = true};
  const gconv_network_options options = {.any_batch = true,
                                         .mean = network->mean,
                                         .std = network->std,
                                         .mean_count = network->mean_count,
                                         .std_count = network->std_count};
  GCONV_TRY(gconv_image_allocate(&p->in));
  GCONV_TRY(gconv_operation_of_network(network, &options, &p->operation));
  GCONV_TRY(gconv_plan_create(device, &p->in, p->operation, 0, &p->plan));
  const gconv_image *out = gconv_plan_output_header(p->plan, 0);
  p->output_floats = (size_t)out->channels * (size_t)out->height * (size_t)out->width;
  return GCONV_OK;
}

gconv_status gconv_predictor_run(gconv_predictor *p, const float *inputs, size_t count, float *outputs) {
  size_t batch = (size_t)p->in.frames;
  for (size_t done = 0; done < count; done += batch) {
    size_t step = count - done < batch ? count - done : batch;
    float *to = p->in.data;
    memcpy(to, inputs + done * p->input_floats, step * p->input_floats * sizeof *to);
    memset(to + step * p->input_floats, 0, (batch - step) * p->input_floats * sizeof *to);
    GCONV_TRY(gconv_plan_execute(p->plan, &p->in, &p->out, 1, NULL));
    memcpy(outputs + done * p->output_floats, p->out.data, step * p->output_floats * sizeof *outputs);
  }
  return GCONV_OK;
}

void gconv_predictor_free(gconv_predictor *predictor) {
  gconv_plan_free(predictor->plan);
  gconv_operation_free(predictor->operation);
  gconv_image_free(&predictor->in);
  gconv_image_free(&predictor->out);
  *predictor = (gconv_predictor){0};
}

void gconv_prediction_set(gconv_prediction *prediction, const float *outputs, size_t count) {
  size_t best = 0; /* the first of the largest */
  for (size_t i = 1; i < count; i++)
    if (outputs[i] > outputs[best])
      best = i;
  prediction->outputs = outputs;
  prediction->count = count;
  prediction->taken_for = best;
  prediction->certainty = (double)outputs[best];
}

/* ---- Batches ---- */

/* A model, with memory for some cases at a time. */
typedef struct batch {
  gconv_predictor network; /* has no plan if `svm` predicts */
  const gconv_svm *svm;
  gconv_device *device;
  size_t room, *cases;
  float *inputs, *targets, *outputs;
  int32_t *classes;               /* of a support vector machine with classes */
  double *values, *probabilities; /* of a support vector machine without classes, and with probabilities */
} batch;

static gconv_status allocate_batch(size_t target_floats, batch *b) {
  const gconv_svm_info *info = b->svm ? gconv_svm_get_info(b->svm) : NULL;
  const size_t columns = info ? info->columns : b->network.input_floats, classes = info ? info->class_count : 0;
  b->room = info ? BATCH_FLOATS / (columns + classes + 1) + 1 : (size_t)b->network.in.frames;
  b->cases = malloc(b->room * sizeof *b->cases);
  b->inputs = malloc(b->room * columns * sizeof *b->inputs);
  b->targets = malloc(b->room * (target_floats + 1) * sizeof *b->targets);
  b->outputs = malloc(b->room * (b->network.output_floats + 1) * sizeof *b->outputs);
  b->classes = malloc(b->room * sizeof *b->classes);
  b->values = malloc(b->room * sizeof *b->values);
  b->probabilities = malloc(b->room * (classes + 1) * sizeof *b->probabilities);
  bool good = b->cases && b->inputs && b->targets && b->outputs && b->classes && b->values && b->probabilities;
  return good ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for %zu cases", b->room);
}

static void free_batch(batch *b) {
  gconv_predictor_free(&b->network);
  free(b->cases);
  free(b->inputs);
  free(b->targets);
  free(b->outputs);
  free(b->classes);
  free(b->values);
  free(b->probabilities);
}

static gconv_status apply(batch *b, size_t count) {
  if (!b->svm)
    return gconv_predictor_run(&b->network, b->inputs, count, b->outputs);
  const gconv_svm_info *info = gconv_svm_get_info(b->svm);
  const bool classes = info->class_count > 0;
  const gconv_svm_results results = {.classes = classes ? b->classes : NULL,
                                     .values = classes ? NULL : b->values,
                                     .probabilities = classes && info->probabilities ? b->probabilities : NULL};
  return gconv_svm_predict(b->svm, b->device, b->inputs, count, &results);
}

/* Sets the prediction of case number `i` of a batch. */
static void take_result(const batch *b, size_t i, gconv_prediction *found) {
  if (!b->svm) {
    gconv_prediction_set(found, b->outputs + i * b->network.output_floats, b->network.output_floats);
    return;
  }
  const gconv_svm_info *info = gconv_svm_get_info(b->svm);
  const bool classes = info->class_count > 0;
  found->count = 1;
  found->value = classes ? 0 : b->values[i];
  found->taken_for = classes ? (size_t)b->classes[i] : SIZE_MAX;
  found->certainty =
      classes && info->probabilities ? b->probabilities[i * info->class_count + found->taken_for] : (double)NAN;
}

static gconv_status predict_batch(batch *b, const gconv_dataset *data, size_t first, size_t count,
                                  gconv_confusion *confusion, gconv_predicted *each, void *user) {
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  for (size_t i = 0; i < count; i++)
    b->cases[i] = first + i;
  GCONV_TRY(gconv_dataset_read(data, 0, b->cases, count, b->inputs, info->outputs > 0 ? b->targets : NULL));
  GCONV_TRY(apply(b, count));
  for (size_t i = 0; i < count; i++) {
    gconv_prediction found = {.number = info->rows ? info->rows[first + i] : first + i,
                              .class = SIZE_MAX,
                              .targets = info->outputs > 0 ? b->targets + i * info->outputs : NULL};
    take_result(b, i, &found);
    if (info->class_count > 0) {
      found.class = (size_t)b->targets[i];
      found.targets = NULL;
      gconv_confusion_add(confusion, found.class, found.taken_for);
    }
    if (each)
      GCONV_TRY(each(user, &found));
  }
  return GCONV_OK;
}

static gconv_status open_network(batch *b, const gconv_network *network, const gconv_dataset_info *info) {
  GCONV_TRY(gconv_predictor_open(network, b->device, info->channels, info->height, info->width, &b->network));
  const size_t outputs = b->network.output_floats;
  if (network->class_count > 0 && outputs != network->class_count)
    return gconv_refuse("the network yields %zu numbers for a case, where it has %zu classes: it ends in neither \"mean\" "
                        "nor a dense layer, and cannot classify",
                        outputs, network->class_count);
  if (info->class_count > 0 && outputs != info->class_count)
    return gconv_refuse("the network has %zu outputs, and the data %zu classes", outputs, info->class_count);
  if (info->class_count == 0 && info->outputs > 0 && outputs != info->outputs)
    return gconv_refuse("the network has %zu outputs, and the data %zu targets", outputs, info->outputs);
  return GCONV_OK;
}

/* Lists the rows of the file that did not become cases. */
static gconv_status list_left_out(const gconv_dataset_info *info, gconv_confusion *confusion) {
  GCONV_NEW(confusion->left_out, info->left_out + 1, "no memory for the numbers of %zu rows", info->left_out);
  for (size_t row = 0, i = 0; confusion->left_out_count < info->left_out; row++)
    if (i < info->cases && info->rows[i] == row)
      i++;
    else
      confusion->left_out[confusion->left_out_count++] = row + 1;
  return GCONV_OK;
}

static gconv_status begin_confusion(const gconv_dataset_info *info, gconv_confusion *confusion) {
  GCONV_TRY(gconv_confusion_begin(info->classes, info->class_count, confusion));
  GCONV_TRY(list_left_out(info, confusion));
  for (size_t i = 0; i < info->other_count; i++)
    if (!gconv_texts_add(&confusion->others, strdup(info->others[i])))
      return gconv_fail(GCONV_NO_MEMORY, "no memory for the names of classes");
  return GCONV_OK;
}

gconv_status gconv_predict_all(const gconv_network *network, const gconv_svm *svm, gconv_device *device,
                               const gconv_dataset *data, gconv_confusion *confusion, gconv_predicted *each, void *user) {
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  GCONV_ENDED_BY(free_batch) batch b = {.svm = network ? NULL : svm, .device = device};
  gconv_status status = network ? open_network(&b, network, info) : GCONV_OK;
  if (status == GCONV_OK && info->class_count > 0)
    status = begin_confusion(info, confusion);
  GCONV_THEN(status, allocate_batch(info->class_count > 0 ? 1 : info->outputs, &b));
  for (size_t first = 0; first < info->cases && status == GCONV_OK; first += b.room)
    status =
        predict_batch(&b, data, first, info->cases - first < b.room ? info->cases - first : b.room, confusion, each, user);
  return status;
}

/* ---- Confusion ---- */

gconv_status gconv_confusion_begin(const char *const *names, size_t classes, gconv_confusion *confusion) {
  *confusion = (gconv_confusion){.names = names, .classes = classes};
  if (classes > GCONV_CONFUSION_CLASSES)
    return GCONV_OK;
  confusion->counts = calloc(classes * classes, sizeof *confusion->counts);
  return confusion->counts ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for a table of %zu classes", classes);
}

const char *gconv_confusion_name(const gconv_confusion *c, size_t class) {
  return class < c->classes ? c->names[class] : c->others.items[class - c->classes];
}

gconv_status gconv_confusion_find_other(gconv_confusion *c, const char *name, size_t length, size_t *class) {
  for (size_t i = 0; i < c->others.count; i++)
    if (strlen(c->others.items[i]) == length && strncmp(c->others.items[i], name, length) == 0) {
      *class = c->classes + i;
      return GCONV_OK;
    }
  *class = c->classes + c->others.count;
  return gconv_texts_add(&c->others, strndup(name, length))
             ? GCONV_OK
             : gconv_fail(GCONV_NO_MEMORY, "no memory for the names of classes");
}

void gconv_confusion_tell_others(const gconv_confusion *c, const char *input, const char *unit) {
  enum { MOST_SHOWN = 5 };
  char names[300] = "";
  size_t used = 0;
  if (c->unknown == 0)
    return;
  for (size_t i = 0; i < c->others.count && i < MOST_SHOWN; i++)
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%.40s", i > 0 ? ", " : "", c->others.items[i]);
  gconv_say("%s: %zu of %zu %ss are of classes that the model does not know, and count as wrong: %s%s", input, c->unknown,
            c->cases, unit, names, c->others.count > MOST_SHOWN ? " ..." : "");
}

void gconv_confusion_add(gconv_confusion *confusion, size_t class, size_t taken_for) {
  confusion->unknown += class >= confusion->classes;
  if (confusion->counts && class < confusion->classes && taken_for < confusion->classes)
    confusion->counts[class * confusion->classes + taken_for]++;
  confusion->cases++;
  confusion->right += class == taken_for;
}

gconv_class_score gconv_confusion_score(const gconv_confusion *c, size_t class) {
  gconv_class_score s = {.both = (double)c->counts[class * c->classes + class]};
  for (size_t k = 0; k < c->classes; k++) {
    s.wanted += (double)c->counts[class * c->classes + k];
    s.got += (double)c->counts[k * c->classes + class];
  }
  s.iou = s.both / (s.wanted + s.got - s.both);
  s.f1 = 2 * s.both / (s.wanted + s.got);
  return s;
}

void gconv_confusion_free(gconv_confusion *confusion) {
  free(confusion->counts);
  free(confusion->left_out);
  gconv_texts_free(&confusion->others);
  *confusion = (gconv_confusion){0};
}

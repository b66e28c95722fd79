/* SPDX-License-Identifier: MIT */
/*
 * Scales targets of regression for training: (target - mean) / standard deviation. The trainer sees a data set with scaled
 * targets. In the file of the network, the weights of the last layer include the scale, so that the network yields targets
 * in their own unit.
 */
#include "base/memory.h"
#include "data/dataset.h"
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>

/* ---- The data set ---- */

typedef struct scaled_set {
  gconv_dataset base;
  const gconv_dataset *whole;
  const gconv_target_scale *scales; /* the trainer owns them */
} scaled_set;

static void scale_targets(const scaled_set *set, size_t cases, float *targets) {
  const size_t outputs = set->base.info.outputs;
  for (size_t i = 0; i < cases; i++)
    for (size_t k = 0; k < outputs; k++)
      targets[i * outputs + k] = (float)(((double)targets[i * outputs + k] - set->scales[k].offset) / set->scales[k].factor);
}

static gconv_status read_scaled(const gconv_dataset *dataset, uint64_t epoch, const size_t *cases, size_t count,
                                float *inputs, float *targets) {
  const scaled_set *set = (const scaled_set *)dataset;
  GCONV_TRY(gconv_dataset_read(set->whole, epoch, cases, count, inputs, targets));
  if (targets)
    scale_targets(set, count, targets);
  return GCONV_OK;
}

static uint64_t digest(const gconv_dataset *dataset, uint64_t hash) {
  const gconv_dataset *whole = ((const scaled_set *)dataset)->whole;
  return whole->type->digest ? whole->type->digest(whole, hash) : hash;
}

static void free_scaled(gconv_dataset *dataset) {
  free(dataset);
}

static const gconv_dataset_type type = {.read = read_scaled, .free = free_scaled, .digest = digest};

gconv_status gconv_dataset_scale(const gconv_dataset *whole, const gconv_target_scale *scales, gconv_dataset **made) {
  scaled_set *set = calloc(1, sizeof *set);
  GCONV_NEED_MEMORY(set, "no memory for a data set");
  *set = (scaled_set){{.type = &type, .info = whole->info, .varies = whole->varies}, whole, scales};
  set->base.info.notes = (gconv_column_notes){0};
  *made = &set->base;
  return GCONV_OK;
}

/* ---- Which scale ---- */

/* Sums over the targets of an output. The first target is subtracted from all. */
typedef struct sums {
  double first, moved, squares, least, most;
} sums;

typedef struct target_sums {
  sums *all;
  size_t outputs;
} target_sums;

static void add_targets(void *context, size_t first, size_t count, const float *inputs, const float *targets) {
  const target_sums *t = context;
  for (size_t i = 0; i < count * t->outputs; i++) {
    sums *s = &t->all[i % t->outputs];
    const double target = (double)targets[i];
    if (first == 0 && i < t->outputs)
      *s = (sums){.first = target, .least = target, .most = target};
    s->moved += target - s->first;
    s->squares += (target - s->first) * (target - s->first);
    s->least = fmin(s->least, target);
    s->most = fmax(s->most, target);
  }
}

/* Chooses the scale of an output. Targets near what a new network yields are not scaled: -1 to 1, 0 and 1, or standardised
 * targets. */
static gconv_target_scale choose(const sums *s, size_t cases) {
  const double n = (double)cases, moved = s->moved / n, variance = s->squares / n - moved * moved;
  const double mean = s->first + moved, deviation = variance > 0 ? sqrt(variance) : 0;
  const bool constant = deviation <= 1e-6 * fabs(mean), near = fabs(mean) <= 2 && deviation <= 4 && deviation >= 0.01;
  if (near || (constant && fabs(mean) <= 2))
    return (gconv_target_scale){0, 1};
  return (gconv_target_scale){mean, constant ? 1 : deviation};
}

/* Finds the smallest and the largest output of the last layer. */
static void find_limits(const gconv_learn_layer *last, double *least, double *most) {
  *least = -(double)INFINITY, *most = (double)INFINITY;
  switch (last->problem.activation) {
  case GCONV_ACTIVATION_RELU:
    *least = 0;
    break;
  case GCONV_ACTIVATION_TANH:
    *least = -1, *most = 1;
    break;
  case GCONV_ACTIVATION_SIGMOID:
  case GCONV_ACTIVATION_SOFTMAX:
    *least = 0, *most = 1;
    break;
  case GCONV_ACTIVATION_NONE:
  case GCONV_ACTIVATION_LEAKY:
    break;
  }
}

static void warn_of_limits(const gconv_learn_layer *last, const sums *all, size_t outputs) {
  double least, most;
  find_limits(last, &least, &most);
  for (size_t k = 0; k < outputs; k++)
    if (all[k].least < least || all[k].most > most) {
      gconv_warn(
          "target %zu goes from %g to %g, but the activation of the last layer only yields numbers from %g to %g: end the "
          "network with a layer without activation, \"dense %zu\"",
          k + 1, all[k].least, all[k].most, least, most, outputs);
      return;
    }
}

static void report_scales(const gconv_target_scale *scales, size_t outputs) {
  for (size_t k = 0; k < outputs; k++)
    if (scales[k].factor != 1 || scales[k].offset != 0) {
      gconv_warn("targets are scaled for training: minus the mean, divided by the standard deviation (of target %zu, %.6g "
                 "and %.6g); losses are of scaled targets, but the network yields targets in their own unit",
                 k + 1, scales[k].offset, scales[k].factor);
      return;
    }
}

/* True if the weights of the last layer can include a scale. */
static bool is_linear(const gconv_learn_layer *last) {
  return last->kind == GCONV_LAYER_CONV && gconv_learn_out_places(last) == 1 &&
         last->problem.activation == GCONV_ACTIVATION_NONE;
}

gconv_status gconv_target_scales_find(const gconv_learn_net *net, const gconv_dataset *data, gconv_target_scale **scales) {
  const gconv_dataset_info *info = &data->info;
  const gconv_learn_layer *last = &net->layers[net->count - 1];
  *scales = NULL;
  if (net->classes || info->target_height > 1 || info->target_width > 1 || data->varies)
    return GCONV_OK;
  GCONV_FREED sums *all = calloc(info->outputs, sizeof *all);
  GCONV_FREED gconv_target_scale *found = calloc(info->outputs, sizeof *found);
  GCONV_NEED_MEMORY(all && found, "no memory for the scales of %zu targets", info->outputs);
  GCONV_TRY(gconv_dataset_each(data, true, add_targets, &(target_sums){all, info->outputs}));
  bool any = false;
  for (size_t k = 0; k < info->outputs; k++) {
    found[k] = choose(&all[k], info->cases);
    any = any || found[k].factor != 1 || found[k].offset != 0;
  }
  warn_of_limits(last, all, info->outputs);
  if (any && is_linear(last)) {
    report_scales(found, info->outputs);
    *scales = gconv_taken(&found);
  }
  return GCONV_OK;
}

/* ---- The weights of the last layer ---- */

/* Changes the weights and bias of each output y so that it becomes factor * y + offset. back: undoes this. */
static void move_weights(const gconv_learn_net *net, const gconv_target_scale *scales, bool back, float *parameters) {
  const gconv_learn_layer *last = &net->layers[net->count - 1];
  const size_t outputs = (size_t)last->problem.filters, taps = last->parameters / outputs - 1;
  float *weights = parameters + last->weights, *biases = weights + outputs * taps;
  for (size_t k = 0; k < outputs; k++) {
    const double factor = back ? 1 / scales[k].factor : scales[k].factor;
    for (size_t i = 0; i < taps; i++)
      weights[k * taps + i] = (float)((double)weights[k * taps + i] * factor);
    biases[k] = (float)(back ? ((double)biases[k] - scales[k].offset) / scales[k].factor
                             : (double)biases[k] * scales[k].factor + scales[k].offset);
  }
}

void gconv_target_scales_give(const gconv_learn_net *net, const gconv_target_scale *scales, float *parameters) {
  if (scales)
    move_weights(net, scales, false, parameters);
}

/* True if all biases are 0, as in a network that was just made. Its outputs are about 1, whatever the targets are. */
static bool is_new(const gconv_network *network) {
  const gconv_bank *last = &network->banks[network->count - 1];
  bool zeroes = !network->trained;
  for (int32_t k = 0; k < last->filters && zeroes && last->biases; k++)
    zeroes = last->biases[k] == 0;
  return zeroes;
}

void gconv_target_scales_take(const gconv_learn_net *net, const gconv_target_scale *scales, const gconv_network *network,
                              float *parameters) {
  if (scales && !is_new(network))
    move_weights(net, scales, true, parameters);
}

/* SPDX-License-Identifier: MIT */
/* What a trained network stores besides its weights: notes about the data set, and about its training. */
#include "bank/column_notes.h"
#include "bank/network_file.h"
#include "base/arguments.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "data/dataset.h"
#include "train/trainer.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Notes about the data set ---- */

/* Copies the data's classes to the network. If the network has classes, they must be equal. */
static gconv_status take_classes(gconv_network *network, const gconv_dataset_info *info) {
  if (network->class_count > 0 && network->class_count != info->class_count)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the network has %zu classes, the data have %zu", network->class_count,
                      info->class_count);
  for (size_t i = 0; info->classes && i < network->class_count; i++)
    if (strcmp(network->classes[i], info->classes[i]) != 0)
      return gconv_fail(GCONV_BAD_ARGUMENT, "class %zu is \"%s\" in the network, and \"%s\" in the data", i + 1,
                        network->classes[i], info->classes[i]);
  if (network->class_count > 0 || info->class_count == 0 || !info->classes)
    return GCONV_OK;
  network->classes = calloc(info->class_count, sizeof *network->classes);
  network->class_count = network->classes ? info->class_count : 0;
  for (size_t i = 0; i < network->class_count; i++) {
    network->classes[i] = strdup(info->classes[i]);
    GCONV_NEED_MEMORY(network->classes[i], "no memory for the names of classes");
  }
  return network->classes ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for the names of classes");
}

/* Stores the name of the column of targets, so that it need not be given for other tables. */
static gconv_status take_label(gconv_network *network, const gconv_dataset_info *info) {
  const char *label = info->label ? info->label : "";
  if (network->label || !*label || !gconv_utf8_is_whole(label, strlen(label))) /* the file is UTF-8 */
    return GCONV_OK;
  network->label = strdup(label);
  return network->label ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for a network");
}

static bool are_utf8(const gconv_column_notes *notes) {
  for (size_t i = 0; notes->names && i < notes->count; i++)
    if (!gconv_utf8_is_whole(notes->names[i], strlen(notes->names[i])))
      return false;
  return true;
}

static void free_names(gconv_column_notes *notes) {
  for (size_t i = 0; i < notes->count; i++)
    free(notes->names[i]);
  free(notes->names);
  notes->names = NULL;
}

/* Stores the notes about columns. A network that was trained before keeps its own notes. The data must have been opened with
 * these. */
static gconv_status take_notes(gconv_network *network, const gconv_dataset_info *info) {
  const gconv_column_notes *own = &network->notes, *found = &info->notes;
  for (size_t c = 0; c < own->count && own->count == found->count; c++)
    if ((own->origins ? own->origins[c] : 0) != (found->origins ? found->origins[c] : 0))
      return gconv_fail(GCONV_BAD_ARGUMENT,
                        "the network subtracts %.17g from column %zu, but the data subtract %.17g: open them with the "
                        "network's notes as options.like",
                        own->origins ? own->origins[c] : 0, c + 1, found->origins ? found->origins[c] : 0);
  if (own->count > 0 || found->count != (size_t)network->channels)
    return GCONV_OK;
  GCONV_TRY(gconv_column_notes_copy(found, &network->notes));
  if (!are_utf8(&network->notes)) {
    gconv_warn("the names of the columns are not UTF-8, so the network does not store them: other tables must have the same "
               "order of columns");
    free_names(&network->notes);
  }
  return GCONV_OK;
}

/* Stores the features and colours of a data set of pixels. The network then takes pictures of any size. */
static gconv_status take_features(gconv_network *network, const gconv_dataset_info *info) {
  if (!info->features)
    return GCONV_OK;
  if (network->features && strcmp(network->features, info->features) != 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the network has other features than the data: %s", network->features);
  for (size_t i = 0; i < network->count; i++)
    if (!network->layers[i].bank || network->layers[i].bank->rows > 1 || network->layers[i].bank->columns > 1)
      return gconv_fail(
          GCONV_BAD_ARGUMENT,
          "layer %zu is not dense: a network of features sees one pixel at a time, whose surroundings are in the "
          "features: take dense layers alone",
          i + 1);
  if (!network->features && !(network->features = strdup(info->features)))
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a network");
  if (!network->palette && info->palette) {
    network->palette = malloc(3 * info->class_count);
    GCONV_NEED_MEMORY(network->palette, "no memory for a network");
    memcpy(network->palette, info->palette, 3 * info->class_count);
  }
  return GCONV_OK;
}

gconv_status gconv_network_take_data(gconv_network *network, const gconv_dataset_info *info) {
  GCONV_TRY(take_classes(network, info));
  GCONV_TRY(take_label(network, info));
  GCONV_TRY(take_notes(network, info));
  return take_features(network, info);
}

/* ---- Notes about training ---- */

static void add_number(json_t *json, const char *key, double value) {
  if (isfinite(value))
    json_object_set_new(json, key, json_real(value));
}

/* Returns the options and the course of training as JSON; NULL: no memory. */
static char *describe(const gconv_trainer *t, bool last) {
  const gconv_training_options *o = &t->options;
  const gconv_training_state *s = &t->state;
  json_t *json = json_object();
  json_object_set_new(json, "loss", json_string(gconv_loss_name(t->net.loss)));
  json_object_set_new(json, "optimizer", json_string(gconv_optimizer_name(o->optimizer)));
  json_object_set_new(json, "schedule", json_string(gconv_schedule_name(o->schedule)));
  add_number(json, "rate", o->rate);
  if (o->optimizer == GCONV_OPTIMIZER_MOMENTUM)
    add_number(json, "momentum", o->momentum);
  if (o->weight_decay > 0)
    add_number(json, "weight_decay", o->weight_decay);
  if (o->elimination > 0) {
    add_number(json, "elimination", o->elimination);
    add_number(json, "elimination_scale", o->elimination_scale);
  }
  json_object_set_new(json, "batch", json_integer((json_int_t)o->batch));
  json_object_set_new(json, "seed", json_integer((json_int_t)(o->seed & INT64_MAX)));
  json_object_set_new(json, "cases", json_integer((json_int_t)gconv_dataset_get_info(t->data)->cases));
  json_object_set_new(json, "epochs", json_integer((json_int_t)(last ? s->epochs : s->best_epoch)));
  json_object_set_new(json, "steps", json_integer((json_int_t)s->steps));
  add_number(json, "smallest_loss", s->best_loss);
  if (t->validation)
    json_object_set_new(json, "validation_cases", json_integer((json_int_t)gconv_dataset_get_info(t->validation)->cases));
  char *text = json_dumps(json, JSON_COMPACT);
  json_decref(json);
  return text;
}

gconv_status gconv_trainer_network(const gconv_trainer *trainer, bool last, gconv_network *network) {
  GCONV_NEED(trainer, network);
  GCONV_TRY(gconv_network_check_empty("gconv_trainer_network", network));
  GCONV_TRY(gconv_ahead_settle((gconv_trainer *)trainer)); /* changes nothing that callers can see */
  GCONV_FREED float *parameters = malloc(trainer->net.parameters * sizeof *parameters);
  GCONV_NEED_MEMORY(parameters, "no memory for the trained network");
  trainer->type->get(trainer->engine, last ? GCONV_LEARN_PARAMETERS : GCONV_LEARN_BEST, parameters);
  GCONV_ENDED_BY(gconv_network_free) gconv_network copy = {0};
  GCONV_TRY(gconv_network_copy(&trainer->network, &copy));
  gconv_target_scales_give(&trainer->net, trainer->scales, parameters);
  gconv_learn_net_give(&trainer->net, parameters, &copy);
  if (copy.features)
    copy.height = copy.width = 0;
  free(copy.trained);
  copy.trained = describe(trainer, last);
  GCONV_NEED_MEMORY(copy.trained, "no memory for the trained network");
  *network = copy;
  copy = (gconv_network){0};
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
/* Checkpoints: the file of a network with the weights of the last step, and with the state of training. Its extra tensors
 * are the best weights, the two arrays of the optimiser, and the last weights for scaled targets. Its JSON has the state,
 * the options that must be the same when training continues, and a checksum of all this. */
#include "bank/network_file.h"
#include "base/arguments.h"
#include "base/checksum.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "train/trainer.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

enum { VERSION = 2, TENSORS = 4, LAST = 3 };
static const char *const tensor_names[TENSORS] = {GCONV_EXTRA_PREFIX "best", GCONV_EXTRA_PREFIX "first",
                                                  GCONV_EXTRA_PREFIX "second", GCONV_EXTRA_PREFIX "last"};
static const gconv_learn_array arrays[TENSORS] = {GCONV_LEARN_BEST, GCONV_LEARN_FIRST, GCONV_LEARN_SECOND,
                                                  GCONV_LEARN_PARAMETERS};

/* ---- Numbers in JSON ---- */

static json_t *whole(uint64_t value) {
  return json_integer((json_int_t)value);
}

static double get_real(const json_t *json, const char *key, double otherwise) {
  const json_t *value = json_object_get(json, key);
  return json_is_number(value) ? json_number_value(value) : otherwise;
}

static uint64_t get_whole(const json_t *json, const char *key) {
  json_int_t value = json_integer_value(json_object_get(json, key));
  return value > 0 ? (uint64_t)value : 0;
}

/* ---- Checksum ---- */

static uint64_t add_json(uint64_t hash, const json_t *json) {
  GCONV_FREED char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
  return gconv_fnv1a(hash, text ? text : "", text ? strlen(text) : 0);
}

/* Writes the checksum of the setting, the state and the arrays (`count` floats each) as 16 hexadecimal digits. */
static void sum_up(const json_t *json, const float *const floats[TENSORS], size_t count, char text[24]) {
  uint64_t hash = add_json(GCONV_FNV1A_BASIS, json_object_get(json, "setting"));
  hash = add_json(hash, json_object_get(json, "state"));
  for (int i = 0; i < TENSORS; i++) {
    const uint32_t sum = gconv_crc32(0, (const uint8_t *)(const void *)floats[i], count * sizeof(float));
    hash = gconv_fnv1a(hash, &sum, sizeof sum);
  }
  snprintf(text, 24, "%016" PRIx64, hash);
}

/* ---- Writing ---- */

/* Returns the digest of a data set, 16 hexadecimal digits, or "none" without a data set or digest. */
static json_t *digest_of(const gconv_dataset *data) {
  char text[24] = "none";
  if (data && data->type->digest)
    snprintf(text, sizeof text, "%016" PRIx64, data->type->digest(data, GCONV_FNV1A_BASIS));
  return json_string(text);
}

static json_t *describe_scales(const gconv_trainer *t) {
  json_t *list = json_array();
  for (size_t k = 0; k < gconv_learn_outputs(&t->net); k++)
    json_array_append_new(list, json_pack("[f, f]", t->scales[k].offset, t->scales[k].factor));
  return list;
}

static json_t *describe_weights(const gconv_trainer *t) {
  json_t *list = json_array();
  for (size_t c = 0; c < gconv_dataset_get_info(t->data)->class_count; c++)
    json_array_append_new(list, json_real((double)t->net.class_weights[c]));
  return list;
}

/* Returns the options and data that must be the same when training continues. The number of epochs matters only to
 * schedules. */
static json_t *describe_setting(const gconv_trainer *t) {
  const gconv_training_options *o = &t->options;
  const gconv_dataset_info *info = gconv_dataset_get_info(t->data);
  json_t *json = json_object();
  char seed[32];
  snprintf(seed, sizeof seed, "%llu", (unsigned long long)o->seed);
  json_object_set_new(json, "loss", json_string(gconv_loss_name(t->net.loss)));
  json_object_set_new(json, "optimizer", json_string(gconv_optimizer_name(o->optimizer)));
  json_object_set_new(json, "schedule", json_string(gconv_schedule_name(o->schedule)));
  json_object_set_new(json, "epochs", whole(o->schedule == GCONV_SCHEDULE_CONSTANT ? 0 : o->epochs));
  json_object_set_new(json, "rate", gconv_json_number(o->rate));
  json_object_set_new(json, "momentum", gconv_json_number(o->momentum));
  json_object_set_new(json, "weight decay", gconv_json_number(o->weight_decay));
  json_object_set_new(json, "elimination", gconv_json_number(o->elimination));
  json_object_set_new(json, "elimination scale", gconv_json_number(o->elimination_scale));
  json_object_set_new(json, "batch", whole(o->batch));
  json_object_set_new(json, "seed", json_string(seed));
  json_object_set_new(json, "algorithm", json_string(o->algorithm));
  json_object_set_new(json, "math", json_string(gconv_math_name(o->math)));
  json_object_set_new(json, "cases", whole(info->cases));
  json_object_set_new(json, "outputs", whole(gconv_learn_outputs(&t->net)));
  json_object_set_new(json, "validation cases", whole(t->validation ? gconv_dataset_get_info(t->validation)->cases : 0));
  json_object_set_new(json, "data", digest_of(t->data));
  json_object_set_new(json, "validation data", digest_of(t->validation));
  if (t->scales)
    json_object_set_new(json, "scales of targets", describe_scales(t));
  if (t->net.class_weights)
    json_object_set_new(json, "class weights", describe_weights(t));
  return json;
}

static json_t *describe_state(const gconv_training_state *s) {
  return json_pack("{sososososososososo sososososo}", "epochs", whole(s->epochs), "at", whole(s->at), "steps",
                   whole(s->steps), "loss", gconv_json_number(s->loss), "hits", whole(s->hits), "best_loss",
                   gconv_json_number(s->best_loss), "best_epoch", whole(s->best_epoch), "ending", whole((uint64_t)s->ending),
                   "last_loss", gconv_json_number(s->last.loss), "last_accuracy", gconv_json_number(s->last.accuracy),
                   "last_validation_loss", gconv_json_number(s->last.validation_loss), "last_validation_accuracy",
                   gconv_json_number(s->last.validation_accuracy), "last_best", whole(s->last.best), "last_number",
                   whole(s->last.number));
}

static char *describe(const gconv_trainer *t, const float *const floats[TENSORS]) {
  char sum[24];
  json_t *json = json_object();
  json_object_set_new(json, "version", json_integer(VERSION));
  json_object_set_new(json, "setting", describe_setting(t));
  json_object_set_new(json, "state", describe_state(&t->state));
  sum_up(json, floats, t->net.parameters, sum);
  json_object_set_new(json, "checksum", json_string(sum));
  char *text = json_dumps(json, JSON_COMPACT);
  json_decref(json);
  return text;
}

gconv_status gconv_trainer_save(const gconv_trainer *trainer, const char *path) {
  GCONV_NEED(trainer, path);
  size_t count = trainer->net.parameters;
  GCONV_FREED float *room = malloc(TENSORS * count * sizeof *room);
  GCONV_ENDED_BY(gconv_network_free) gconv_network network = {0};
  GCONV_NEED_MEMORY(room, "no memory for a checkpoint");
  GCONV_TRY(gconv_trainer_network(trainer, true, &network));
  gconv_named_array tensors[TENSORS];
  const float *floats[TENSORS];
  for (int i = 0; i < TENSORS; i++) {
    trainer->type->get(trainer->engine, arrays[i], room + i * count);
    floats[i] = room + i * count;
    tensors[i] = (gconv_named_array){.name = (char *)tensor_names[i],
                                     .type = GCONV_NAMED_F32,
                                     .dimensions = 1,
                                     .shape = {count},
                                     .data = room + i * count};
  }
  GCONV_FREED char *json = describe(trainer, floats);
  GCONV_NEED_MEMORY(json, "no memory for a checkpoint");
  return gconv_network_file_write(path, &network,
                                  &(gconv_network_extras){.tensors = tensors, .count = TENSORS, .json = json});
}

/* ---- Reading ---- */

static gconv_status complain_setting(const char *path, const char *key, const json_t *before, const json_t *now) {
  enum { HOW = JSON_ENCODE_ANY | JSON_REAL_PRECISION(9) };
  if (strcmp(key, "data") == 0 || strcmp(key, "validation data") == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s was made with other %s: go on with the same, or begin anew", path, key);
  GCONV_FREED char *was = before ? json_dumps(before, HOW) : NULL, *is = json_dumps(now, HOW);
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s was made with another setting: its %s was %s, and is %s now: go on with the same, or begin anew",
                    path, key, was ? was : "not given", is ? is : "?");
}

/* Fails if the checkpoint was made with another setting, and names the part that differs. */
static gconv_status check_setting(const gconv_trainer *t, const char *path, const json_t *found) {
  json_t *wanted = describe_setting(t), *value;
  const char *key;
  gconv_status status = GCONV_OK;
  json_object_foreach(wanted, key, value) {
    const json_t *other = json_object_get(found, key);
    if (status == GCONV_OK && !(other && json_equal(value, other)))
      status = complain_setting(path, key, other, value);
  }
  const json_t *weights = json_object_get(found, "class weights"), *none = json_null();
  if (status == GCONV_OK && weights && !t->net.class_weights)
    status = complain_setting(path, "class weights", weights, none);
  json_decref(wanted);
  return status;
}

static bool same_floats(const float *a, int32_t count_a, const float *b, int32_t count_b) {
  return count_a == count_b && (count_a == 0 || memcmp(a, b, (size_t)count_a * sizeof *a) == 0);
}

static gconv_status check_normalisation(const gconv_trainer *t, const char *path, const gconv_network *found) {
  const gconv_network *network = &t->network;
  if (same_floats(network->mean, network->mean_count, found->mean, found->mean_count) &&
      same_floats(network->std, network->std_count, found->std, found->std_count))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s was made with another mean and standard deviation of the inputs: go on with the same, or begin anew",
                    path);
}

/* True if the state has all fields of a checkpoint: numbers, or null for numbers that are not finite. */
static bool is_whole_state(const json_t *json) {
  static const char *const keys[] = {"epochs",
                                     "at",
                                     "steps",
                                     "loss",
                                     "hits",
                                     "best_loss",
                                     "best_epoch",
                                     "ending",
                                     "last_loss",
                                     "last_accuracy",
                                     "last_validation_loss",
                                     "last_number"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const json_t *value = json_object_get(json, keys[i]);
    if (!json_is_number(value) && !json_is_null(value))
      return false;
  }
  return true;
}

static gconv_status take_state(const char *path, const json_t *json, uint64_t cases, gconv_training_state *s) {
  if (!is_whole_state(json))
    return gconv_fail(GCONV_BAD_FILE, "%s: is damaged: the state of training is missing, or a part of it is", path);
  uint64_t ending = get_whole(json, "ending");
  *s = (gconv_training_state){
      .epochs = get_whole(json, "epochs"),
      .at = get_whole(json, "at"),
      .steps = get_whole(json, "steps"),
      .loss = get_real(json, "loss", NAN),
      .hits = get_whole(json, "hits"),
      .best_loss = get_real(json, "best_loss", INFINITY),
      .best_epoch = get_whole(json, "best_epoch"),
      .ending = ending < GCONV_ENDINGS ? (gconv_ending)ending : GCONV_ENDING_NONE,
      .last = {.loss = get_real(json, "last_loss", NAN),
               .accuracy = get_real(json, "last_accuracy", NAN),
               .validation_loss = get_real(json, "last_validation_loss", NAN),
               .validation_accuracy = get_real(json, "last_validation_accuracy", NAN),
               .best = get_whole(json, "last_best") != 0,
               .number = (size_t)get_whole(json, "last_number")},
  };
  const bool none_yet = s->best_epoch == 0;
  if (s->at > cases || s->hits > s->at || ending >= GCONV_ENDINGS || s->best_epoch > s->epochs + 1 ||
      none_yet != !isfinite(s->best_loss) || (isnan(s->loss) && s->ending != GCONV_ENDING_DIVERGED))
    return gconv_fail(GCONV_BAD_FILE, "%s: is damaged: the state of training contradicts itself", path);
  return GCONV_OK;
}

/* Returns the numbers of a tensor. It must have one for each parameter; otherwise, sets an error and returns NULL. */
static const float *find_floats(const gconv_trainer *t, const char *path, const gconv_network_extras *extras,
                                const char *name) {
  const gconv_named_array *tensor = gconv_network_extras_find(extras, name);
  if (tensor && tensor->type == GCONV_NAMED_F32 && gconv_named_array_items(tensor) == t->net.parameters)
    return tensor->data;
  gconv_fail(GCONV_BAD_FILE, "%s: the tensor %s %s", path, name,
             tensor ? "does not have a float32 number for each weight" : "is missing");
  return NULL;
}

/* Sets the engine's arrays. In checkpoints of version 1, the weights of the network are also the last weights, and there is
 * no checksum. */
static gconv_status set_arrays(gconv_trainer *t, const char *path, const gconv_learn_net *net, const gconv_network *network,
                               const gconv_network_extras *extras, const json_t *json) {
  const bool old = get_whole(json, "version") == 1;
  const char *wanted = json_string_value(json_object_get(json, "checksum"));
  const float *found[TENSORS] = {NULL};
  char sum[24];
  GCONV_FREED float *parameters = malloc(net->parameters * sizeof *parameters);
  GCONV_NEED_MEMORY(parameters, "no memory for a checkpoint");
  gconv_learn_net_take(net, network, parameters);
  for (int i = 0; i < TENSORS; i++) {
    found[i] = old && i == LAST ? parameters : find_floats(t, path, extras, tensor_names[i]);
    if (!found[i])
      return GCONV_BAD_FILE;
  }
  sum_up(json, found, net->parameters, sum);
  if (!old && (!wanted || strcmp(wanted, sum) != 0))
    return gconv_fail(GCONV_BAD_FILE, "%s: is damaged: its checksum is wrong", path);
  for (int i = 0; i < TENSORS; i++)
    t->type->set(t->engine, arrays[i], found[i]);
  return GCONV_OK;
}

static gconv_status take_weights(gconv_trainer *t, const char *path, const gconv_network *network,
                                 const gconv_network_extras *extras, const json_t *json) {
  const gconv_dataset_info *info = gconv_dataset_get_info(t->data);
  GCONV_ENDED_BY(gconv_learn_net_free) gconv_learn_net net = {0};
  GCONV_TRY(gconv_learn_net_make(network, info, t->net.loss, &net));
  bool same = net.count == t->net.count && net.parameters == t->net.parameters;
  for (size_t i = 0; same && i < net.count; i++)
    same = net.layers[i].kind == t->net.layers[i].kind && net.layers[i].from == t->net.layers[i].from &&
           memcmp(&net.layers[i].problem, &t->net.layers[i].problem, sizeof net.layers[i].problem) == 0;
  if (same)
    return set_arrays(t, path, &net, network, extras, json);
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s was made with another network: go on with the same, or begin anew", path);
}

static gconv_status restore_from(gconv_trainer *t, const char *path, const gconv_network *network,
                                 const gconv_network_extras *extras, const json_t *json) {
  const unsigned long long version = get_whole(json, "version");
  gconv_training_state state;
  if (version < 1 || version > VERSION)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: a checkpoint of version %llu, but this gconv reads versions 1 to %d", path,
                      version, VERSION);
  GCONV_TRY(check_setting(t, path, json_object_get(json, "setting")));
  GCONV_TRY(check_normalisation(t, path, network));
  GCONV_TRY(take_state(path, json_object_get(json, "state"), gconv_dataset_get_info(t->data)->cases, &state));
  GCONV_TRY(take_weights(t, path, network, extras, json));
  if (state.ending != GCONV_ENDING_DIVERGED) /* the number of epochs, patience and stop_error may have changed */
    state.ending = gconv_ending_of(&t->options, &state);
  t->state = state;
  return GCONV_OK;
}

gconv_status gconv_trainer_restore(gconv_trainer *trainer, const char *path) {
  GCONV_ENDED_BY(gconv_network_free) gconv_network network = {0};
  GCONV_ENDED_BY(gconv_network_extras_free) gconv_network_extras extras = {0};
  GCONV_TRY(gconv_network_file_read(path, &network, &extras));
  if (!extras.json)
    return gconv_fail(GCONV_BAD_FILE, "%s is a network, but no checkpoint of training", path);
  json_t *json = json_loads(extras.json, 0, NULL);
  gconv_status status = restore_from(trainer, path, &network, &extras, json);
  json_decref(json);
  return status;
}

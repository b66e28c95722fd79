/* SPDX-License-Identifier: MIT */
/* The JSON in a network's file, in the entry "gconv" of __metadata__: everything but the weights. Unknown keys are kept in
 * gconv_network.others, and written again. It has unknown keys of layers as {"layers": [{...}, ...]}. */
#include "bank/kind.h"
#include "bank/network_file.h"
#include "base/lists.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1 };

/* ---- Words ---- */

static const char *const losses[] = {GCONV_EACH_LOSS(GCONV_NAMED)};
static const char *const kinds[] = {GCONV_EACH_LAYER_KIND(GCONV_NAMED_AS)};
#define COUNT(array) (sizeof array / sizeof *array)

static gconv_status take_object(const gconv_json_part *p, const char *key, char **text) {
  const json_t *value = json_object_get(p->json, key);
  if (!value || json_is_null(value))
    return GCONV_OK;
  if (!json_is_object(value))
    return gconv_json_fail(p, GCONV_BAD_FILE, "its '%s' is no object", key);
  *text = json_dumps(value, JSON_COMPACT);
  return *text ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", p->where);
}

/* ---- Reading a layer ---- */

static gconv_status take_layer(const gconv_json_part *p, gconv_layer *layer, gconv_bank *bank) {
  int kind = -1;
  if (!json_is_object(p->json) || !json_object_get(p->json, "kind"))
    return gconv_json_fail(p, GCONV_BAD_FILE, "it is no object with a 'kind'");
  GCONV_TRY(gconv_json_take_word(p, "kind", kinds, COUNT(kinds), &kind));
  layer->kind = (gconv_layer_kind)kind;
  const gconv_layer_form *form = gconv_layer_form_of(layer->kind);
  layer->bank = form->has_bank ? bank : NULL;
  GCONV_TRY(form->take(p, layer));
  gconv_json_drop_keys(p, form->keys);
  return GCONV_OK;
}

/* Reads the layers. In the JSON, only their unknown keys stay; without unknown keys, "layers" is removed. */
static gconv_status take_layers(const gconv_json_part *whole, gconv_network *network) {
  json_t *layers = json_object_get(whole->json, "layers");
  size_t count = json_array_size(layers), left = 0;
  if (count == 0)
    return gconv_json_fail(whole, GCONV_BAD_FILE, "its JSON has no list of 'layers'");
  if (count > GCONV_NETWORK_MAX_LAYERS)
    return gconv_json_fail(whole, GCONV_TOO_LARGE, "a network of %zu layers; the limit is %d", count,
                           GCONV_NETWORK_MAX_LAYERS);
  network->layers = calloc(count, sizeof *network->layers);
  network->banks = calloc(count, sizeof *network->banks);
  GCONV_NEED_MEMORY(network->layers && network->banks, "%s: no memory for a network", whole->where);
  network->count = count;
  for (size_t i = 0; i < count; i++) {
    const gconv_json_part p = {whole->where, i + 1, json_array_get(layers, i)};
    GCONV_TRY(take_layer(&p, &network->layers[i], &network->banks[i]));
    left += json_object_size(p.json);
  }
  if (left == 0)
    json_object_del(whole->json, "layers");
  return GCONV_OK;
}

/* ---- Reading the network ---- */

static gconv_status take_version(const gconv_json_part *p) {
  const json_t *version = json_object_get(p->json, "version");
  if (!gconv_json_is_number_from(version, 1))
    return gconv_json_fail(p, GCONV_BAD_FILE, "its JSON has no 'version', a whole number from 1 on");
  if (json_integer_value(version) > VERSION)
    return gconv_json_fail(p, GCONV_UNSUPPORTED,
                           "it is a network of version %" JSON_INTEGER_FORMAT
                           ", and this gconv (%s) reads version %d: take a "
                           "newer gconv",
                           json_integer_value(version), gconv_version(), VERSION);
  return GCONV_OK;
}

static gconv_status take_input(const gconv_json_part *p, gconv_network *network) {
  json_t *input = json_object_get(p->json, "input");
  int32_t *const channels[] = {&network->channels}, *const height[] = {&network->height}, *const width[] = {&network->width};
  if (!json_is_object(input) || !json_object_get(input, "channels"))
    return gconv_json_fail(p, GCONV_BAD_FILE, "its JSON has no 'input', an object with 'channels'");
  const gconv_json_part inside = {p->where, 0, input};
  GCONV_TRY(gconv_json_take_numbers(&inside, "channels", 1, 1, channels));
  GCONV_TRY(gconv_json_take_numbers(&inside, "height", 0, 1, height));
  GCONV_TRY(gconv_json_take_numbers(&inside, "width", 0, 1, width));
  gconv_json_drop_keys(&inside, GCONV_KEYS("channels", "height", "width"));
  if (json_object_size(input) == 0)
    json_object_del(p->json, "input");
  return GCONV_OK;
}

/* Reads the colours of the classes, each three numbers from 0 to 255. */
static gconv_status take_palette(const gconv_json_part *p, gconv_network *network) {
  const json_t *palette = json_object_get(p->json, "palette");
  if (!palette || json_is_null(palette))
    return GCONV_OK;
  bool good = json_is_array(palette) && json_array_size(palette) == network->class_count && network->class_count > 0;
  network->palette = good ? malloc(3 * network->class_count) : NULL;
  if (good && !network->palette)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", p->where);
  for (size_t i = 0; good && i < 3 * network->class_count; i++) {
    const json_t *colour = json_array_get(palette, i / 3), *level = json_array_get(colour, i % 3);
    good = json_array_size(colour) == 3 && gconv_json_is_number_from(level, 0) && json_integer_value(level) <= UINT8_MAX;
    network->palette[i] = good ? (uint8_t)json_integer_value(level) : 0;
  }
  return good ? GCONV_OK
              : gconv_json_fail(p, GCONV_BAD_FILE,
                                "its 'palette' is no list of colours, [R, G, B] from 0 to 255, one a class");
}

/* Reads notes about the columns of the table that the network was trained on: {"names": [...], "means": [...] ...}. */
static gconv_status take_notes(const gconv_json_part *whole, gconv_network *network) {
  const gconv_json_part p = {whole->where, 0, json_object_get(whole->json, "columns")};
  gconv_column_notes *notes = &network->notes;
  const size_t count = (size_t)network->channels;
  size_t found;
  if (!p.json || json_is_null(p.json))
    return GCONV_OK;
  if (!json_is_object(p.json))
    return gconv_json_fail(whole, GCONV_BAD_FILE, "its 'columns' is no object");
  notes->count = count;
  GCONV_TRY(gconv_json_take_texts(&p, "names", count, &notes->names, &found));
  GCONV_TRY(gconv_json_take_list(&p, "means", count, false, &notes->means, &found));
  GCONV_TRY(gconv_json_take_list(&p, "deviations", count, false, &notes->deviations, &found));
  return gconv_json_take_list(&p, "origins", count, false, &notes->origins, &found);
}

/* Reads a number of 64 bits. Numbers above INT64_MAX, which jansson cannot hold, are texts of digits in the file. */
static gconv_status take_seed(const gconv_json_part *p, uint64_t *seed) {
  const json_t *value = json_object_get(p->json, "seed");
  const char *text = json_string_value(value);
  bool digits = text && *text && strspn(text, "0123456789") == strlen(text);
  if (!value || json_is_null(value))
    return GCONV_OK;
  errno = 0;
  *seed = digits ? strtoull(text, NULL, 10) : (uint64_t)json_integer_value(value);
  if (errno == 0 && (digits || (json_is_integer(value) && json_integer_value(value) >= 0)))
    return GCONV_OK;
  return gconv_json_fail(p, GCONV_BAD_FILE, "its 'seed' is no whole number from 0 to 2^64 - 1");
}

static const char *const orders[] = {[GCONV_ORDER_RGB] = "rgb", [GCONV_ORDER_BGR] = "bgr"};

/* Whether the object has this key, with a value that is not null. */
static bool has(const gconv_json_part *p, const char *key) {
  const json_t *value = json_object_get(p->json, key);
  return value && !json_is_null(value);
}

/* Reads the value of white and the order of the colours. */
static gconv_status take_colours(const gconv_json_part *p, gconv_network *network) {
  double white = 0;
  int order = GCONV_ORDER_DEFAULT;
  if (has(p, "white")) {
    GCONV_TRY(gconv_json_take_number(p, "white", &white));
    if (!isfinite((float)white) || !((float)white > 0))
      return gconv_json_fail(p, GCONV_BAD_FILE, "its 'white' is no number above 0");
  }
  if (has(p, "order"))
    GCONV_TRY(gconv_json_take_word(p, "order", orders, COUNT(orders), &order));
  network->white = (float)white;
  network->order = (gconv_colour_order)order;
  return GCONV_OK;
}

static gconv_status take_all(const gconv_json_part *p, gconv_network *network) {
  int loss = GCONV_LOSS_DEFAULT;
  size_t means, deviations;
  GCONV_TRY(take_version(p));
  GCONV_TRY(take_input(p, network));
  GCONV_TRY(take_layers(p, network));
  GCONV_TRY(gconv_json_take_list(p, "mean", 0, true, &network->mean, &means));
  GCONV_TRY(gconv_json_take_list(p, "std", 0, true, &network->std, &deviations));
  network->mean_count = (int32_t)means, network->std_count = (int32_t)deviations;
  GCONV_TRY(take_colours(p, network));
  GCONV_TRY(gconv_json_take_texts(p, "classes", 0, &network->classes, &network->class_count));
  GCONV_TRY(gconv_json_take_text(p, "label", &network->label));
  GCONV_TRY(gconv_json_take_text(p, "features", &network->features));
  GCONV_TRY(take_palette(p, network));
  GCONV_TRY(take_notes(p, network));
  if (!json_is_null(json_object_get(p->json, "loss")))
    GCONV_TRY(gconv_json_take_word(p, "loss", losses, COUNT(losses), &loss));
  network->loss = (gconv_loss)loss;
  GCONV_TRY(take_seed(p, &network->seed));
  GCONV_TRY(take_object(p, "trained", &network->trained));
  gconv_json_drop_keys(p, GCONV_KEYS("version", "mean", "std", "classes", "label", "loss", "seed", "trained", "features",
                                     "palette", "columns", "white", "order"));
  if (json_object_size(p->json) == 0)
    return GCONV_OK;
  network->others = json_dumps(p->json, JSON_COMPACT);
  return network->others ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", p->where);
}

gconv_status gconv_network_of_json(const char *where, const char *text, gconv_network *network) {
  json_error_t error;
  json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
  const gconv_json_part whole = {where, 0, json};
  if (!json)
    return gconv_fail(GCONV_BAD_FILE, "%s: the entry 'gconv' of its __metadata__ is not valid JSON: %s, at byte %d of it",
                      where, error.text, error.position);
  gconv_status status = json_is_object(json)
                            ? take_all(&whole, network)
                            : gconv_json_fail(&whole, GCONV_BAD_FILE, "the entry 'gconv' is no JSON object");
  json_decref(json);
  return status;
}

/* ---- Writing: if a part is NULL for lack of memory, the whole is NULL ---- */

static json_t *make_layers(const gconv_network *network, const json_t *others) {
  const json_t *kept = json_object_get(others, "layers");
  json_t *layers = json_array();
  bool good = layers;
  for (size_t i = 0; i < network->count && good; i++) {
    const gconv_layer *layer = &network->layers[i];
    json_t *made = json_pack("{s:s}", "kind", kinds[layer->kind]);
    good = made && gconv_layer_form_of(layer->kind)->put(layer, made);
    json_t *more = json_array_size(kept) == network->count ? json_array_get(kept, i) : NULL;
    if (made && json_is_object(more))
      json_object_update_missing(made, more);
    good = json_array_append_new(layers, made) == 0 && good;
  }
  if (good)
    return layers;
  json_decref(layers);
  return NULL;
}

/* Returns the list, or NULL, and frees the list, if an item could not be added. */
static json_t *whole_list(json_t *list, size_t count) {
  if (json_array_size(list) == count)
    return list;
  json_decref(list);
  return NULL;
}

static json_t *make_floats(const float *floats, int32_t count) {
  json_t *list = json_array();
  for (int32_t i = 0; i < count; i++)
    json_array_append_new(list, json_real((double)floats[i]));
  return whole_list(list, (size_t)count);
}

static json_t *make_texts(char *const *texts, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(list, json_string(texts[i]));
  return whole_list(list, count);
}

static json_t *make_palette(const uint8_t *palette, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++, palette += 3)
    json_array_append_new(list, json_pack("[i, i, i]", palette[0], palette[1], palette[2]));
  return whole_list(list, count);
}

static json_t *make_seed(uint64_t seed) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, seed);
  return seed <= INT64_MAX ? json_integer((json_int_t)seed) : json_string(text);
}

/* Parses `text`, which has to be an object. *json is NULL if there is no text. */
static gconv_status parse_object(const char *what, const char *text, json_t **json) {
  json_error_t error;
  *json = text ? json_loads(text, JSON_REJECT_DUPLICATES, &error) : NULL;
  if (!text || json_is_object(*json))
    return GCONV_OK;
  json_decref(*json);
  *json = NULL;
  return gconv_fail(GCONV_BAD_ARGUMENT, "the text '%s' of a network is no JSON object", what);
}

static json_t *make_notes(const gconv_column_notes *notes) {
  const struct {
    const char *key;
    const double *numbers;
  } lists[] = {{"means", notes->means}, {"deviations", notes->deviations}, {"origins", notes->origins}};
  json_t *made = json_object();
  bool good = !notes->names || gconv_json_put(made, "names", make_texts(notes->names, notes->count));
  for (size_t k = 0; k < COUNT(lists); k++) {
    json_t *list = lists[k].numbers ? json_array() : NULL;
    for (size_t i = 0; i < notes->count && list; i++)
      json_array_append_new(list, json_real(lists[k].numbers[i]));
    good = (!lists[k].numbers || gconv_json_put(made, lists[k].key, whole_list(list, notes->count))) && good;
  }
  if (good)
    return made;
  json_decref(made);
  return NULL;
}

/* Takes ownership of `trained`. */
static json_t *make_all(const gconv_network *network, json_t *trained, json_t *others) {
  json_t *input =
      json_pack("{s:i, s:i, s:i}", "channels", network->channels, "height", network->height, "width", network->width);
  json_t *root = json_pack("{s:i, s:o, s:o}", "version", VERSION, "input", input, "layers", make_layers(network, others));
  const char *const loss = losses[network->loss];
  const bool good =
      root && (network->mean_count == 0 || gconv_json_put(root, "mean", make_floats(network->mean, network->mean_count))) &&
      (network->std_count == 0 || gconv_json_put(root, "std", make_floats(network->std, network->std_count))) &&
      (network->white <= 0 || gconv_json_put(root, "white", json_real((double)network->white))) &&
      (network->order == GCONV_ORDER_DEFAULT || gconv_json_put(root, "order", json_string(orders[network->order]))) &&
      (network->class_count == 0 || gconv_json_put(root, "classes", make_texts(network->classes, network->class_count))) &&
      (!network->label || gconv_json_put(root, "label", json_string(network->label))) &&
      (!loss || gconv_json_put(root, "loss", json_string(loss))) &&
      (!network->features || gconv_json_put(root, "features", json_string(network->features))) &&
      (!network->palette || network->class_count == 0 ||
       gconv_json_put(root, "palette", make_palette(network->palette, network->class_count))) &&
      (network->notes.count == 0 || gconv_json_put(root, "columns", make_notes(&network->notes))) &&
      gconv_json_put(root, "seed", make_seed(network->seed)) && (!trained || json_object_set(root, "trained", trained) == 0);
  if (good && json_is_object(json_object_get(others, "input")))
    json_object_update_missing(input, json_object_get(others, "input"));
  if (good && others)
    json_object_update_missing(root, others);
  json_decref(trained);
  if (good)
    return root;
  json_decref(root);
  return NULL;
}

gconv_status gconv_network_to_json(const gconv_network *network, char **text) {
  json_t *trained = NULL, *others = NULL;
  GCONV_TRY(parse_object("trained", network->trained, &trained));
  gconv_status status = parse_object("others", network->others, &others);
  if (status != GCONV_OK) {
    json_decref(trained);
    return status;
  }
  json_t *json = make_all(network, trained, others);
  *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
  json_decref(json);
  json_decref(others);
  return *text ? GCONV_OK
               : gconv_fail(GCONV_BAD_ARGUMENT, "the JSON of a network cannot be made: are all of its texts UTF-8?");
}

/* SPDX-License-Identifier: MIT */
/* What the file of a network says besides weights: JSON in the entry "gconv" of __metadata__. Keys that are not known here
 * are kept in gconv_network.others, and written again: those of layers as {"layers": [{...}, ...]}. */
#include "bank/network_file.h"
#include "base/lists.h"
#include "base/printable.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, SHOWN_BYTES = 60 /* of a text of the file, in an error text */ };

/* ---- Words ---- */

const char *const gconv_activation_words[GCONV_ACTIVATIONS] = {
    GCONV_EACH_ACTIVATION(GCONV_NAMED_AS)[GCONV_ACTIVATION_SOFTMAX] = "softmax"};
static const char *const losses[] = {GCONV_EACH_LOSS(GCONV_NAMED)};
static const char *const borders[] = {"zero", "constant", "replicate", "symmetric", "reflect101", "wrap"};
static const char *const paddings[] = {NULL, "same", "valid", "full", NULL, "same_upper", "same_lower"};
#define COUNT(array) (sizeof array / sizeof *array)

/* Returns the number of `word` among the words, or -1. */
static int find_word(const char *word, const char *const *words, size_t count) {
  for (size_t i = 0; word && i < count; i++)
    if (words[i] && strcmp(words[i], word) == 0)
      return (int)i;
  return -1;
}

/* ---- Reading values ---- */

/* What is read: the whole, or a layer. */
typedef struct part {
  const char *where; /* the file */
  size_t layer;      /* from 1 on; 0: the whole */
  json_t *json;      /* an object */
} part;

static gconv_status fail_part(const part *p, gconv_status status, const char *format, ...) GCONV_PRINTF(3, 4);
static gconv_status fail_part(const part *p, gconv_status status, const char *format, ...) {
  char text[512], layer[32] = "";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  gconv_make_printable(text);
  if (p->layer > 0)
    snprintf(layer, sizeof layer, "layer %zu: ", p->layer);
  return gconv_fail(status, "%s: %s%s", p->where, layer, text);
}

/* Sets *word to the number of the word that `key` has, if it is there. */
static gconv_status take_word(const part *p, const char *key, const char *const *words, size_t count, int *word) {
  const json_t *value = json_object_get(p->json, key);
  if (!value)
    return GCONV_OK;
  if (!json_is_string(value))
    return fail_part(p, GCONV_BAD_FILE, "its '%s' is no text", key);
  *word = find_word(json_string_value(value), words, count);
  if (*word >= 0)
    return GCONV_OK;
  return fail_part(p, GCONV_UNSUPPORTED,
                   "its %s is '%.*s', which this gconv (%s) does not know: a newer one wrote the file, or it is damaged",
                   key, SHOWN_BYTES, json_string_value(value), gconv_version());
}

static bool is_number_from(const json_t *value, int32_t least) {
  return json_is_integer(value) && json_integer_value(value) >= least && json_integer_value(value) <= INT32_MAX;
}

/* Sets `count` numbers, if they are there: a list of as many, or one number for all. */
static gconv_status take_numbers(const part *p, const char *key, int32_t least, size_t count, int32_t *const numbers[]) {
  const json_t *value = json_object_get(p->json, key);
  bool list = json_is_array(value), good = !value || (list ? json_array_size(value) == count : true);
  for (size_t i = 0; value && i < count && good; i++) {
    const json_t *item = list ? json_array_get(value, i) : value;
    good = is_number_from(item, least);
    *numbers[i] = good ? (int32_t)json_integer_value(item) : 0;
  }
  if (good)
    return GCONV_OK;
  return fail_part(p, GCONV_BAD_FILE, "its '%s' is neither a whole number from %d on nor a list of %zu of them", key, least,
                   count);
}

static bool is_finite(const json_t *value) {
  return json_is_number(value) && isfinite((float)json_number_value(value));
}

/* Reads a list of floats, if it is there. */
static gconv_status take_floats(const part *p, const char *key, float **floats, int32_t *count) {
  const json_t *value = json_object_get(p->json, key);
  size_t size = json_array_size(value);
  if (!value || json_is_null(value))
    return GCONV_OK;
  if (size < 1 || size > INT32_MAX)
    return fail_part(p, GCONV_BAD_FILE, "its '%s' is no list of numbers", key);
  *floats = calloc(size, sizeof **floats);
  if (!*floats)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", p->where);
  *count = (int32_t)size;
  for (size_t i = 0; i < size; i++) {
    if (!is_finite(json_array_get(value, i)))
      return fail_part(p, GCONV_BAD_FILE, "number %zu of its '%s' is no finite number", i + 1, key);
    (*floats)[i] = (float)json_number_value(json_array_get(value, i));
  }
  return GCONV_OK;
}

/* Keeps an object as text. */
static gconv_status take_object(const part *p, const char *key, char **text) {
  const json_t *value = json_object_get(p->json, key);
  if (!value || json_is_null(value))
    return GCONV_OK;
  if (!json_is_object(value))
    return fail_part(p, GCONV_BAD_FILE, "its '%s' is no object", key);
  *text = json_dumps(value, JSON_COMPACT);
  return *text ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", p->where);
}

/* Takes known keys out, so that the others stay, and tells of these. Lists of layers and the input are told of by
 * themselves.
 */
static void drop_keys(const part *p, const char *const *keys, size_t count) {
  const char *key, *first = NULL;
  size_t unknown = 0;
  json_t *value;
  char where[32] = "";
  for (size_t i = 0; i < count; i++)
    json_object_del(p->json, keys[i]);
  json_object_foreach(p->json, key, value) {
    if (p->layer == 0 && (json_is_object(value) || json_is_array(value)) &&
        (strcmp(key, "layers") == 0 || strcmp(key, "input") == 0))
      continue;
    first = first ? first : key;
    unknown++;
  }
  if (unknown == 0)
    return;
  char *name = gconv_printable_copy(first, SHOWN_BYTES);
  if (p->layer > 0)
    snprintf(where, sizeof where, "layer %zu: ", p->layer);
  gconv_warn("%s: %s%zu key%s not known here and change%s nothing: '%s'%s", p->where, where, unknown,
             unknown == 1 ? " is" : "s are", unknown == 1 ? "s" : "", name ? name : "", unknown == 1 ? "" : " ...");
  free(name);
}

/* ---- Reading a layer ---- */

static gconv_status take_padding(const part *p, gconv_layer *layer) {
  int32_t *const pads[] = {&layer->pad_top, &layer->pad_left, &layer->pad_bottom, &layer->pad_right};
  int padding = GCONV_LAYER_SAME;
  if (json_is_string(json_object_get(p->json, "padding"))) {
    GCONV_TRY(take_word(p, "padding", paddings, COUNT(paddings), &padding));
  } else if (json_object_get(p->json, "padding")) {
    padding = GCONV_LAYER_EXPLICIT;
    GCONV_TRY(take_numbers(p, "padding", 0, 4, pads));
  }
  layer->padding = (gconv_layer_padding)padding;
  return GCONV_OK;
}

static gconv_status take_border(const part *p, gconv_layer *layer) {
  const json_t *value = json_object_get(p->json, "border_value");
  int border = GCONV_BORDER_ZERO;
  GCONV_TRY(take_word(p, "border", borders, COUNT(borders), &border));
  if (value && !is_finite(value))
    return fail_part(p, GCONV_BAD_FILE, "its 'border_value' is no finite number");
  if (json_number_value(value) != 0 && border != GCONV_BORDER_CONSTANT)
    gconv_warn("%s: layer %zu: its 'border_value' changes nothing: that is of the border constant", p->where, p->layer);
  layer->border = (gconv_border)border;
  layer->border_value = json_number_value(value);
  return GCONV_OK;
}

static gconv_status take_conv(const part *p, gconv_layer *layer) {
  int32_t *const stride[] = {&layer->stride_y, &layer->stride_x}, *const groups[] = {&layer->groups};
  int32_t *const dilation[] = {&layer->dilation_y, &layer->dilation_x};
  const json_t *slope = json_object_get(p->json, "slope"), *flip = json_object_get(p->json, "flip");
  int activation = GCONV_ACTIVATION_NONE;
  layer->stride_y = layer->stride_x = layer->dilation_y = layer->dilation_x = 1;
  GCONV_TRY(take_numbers(p, "stride", 1, 2, stride));
  GCONV_TRY(take_numbers(p, "dilation", 1, 2, dilation));
  GCONV_TRY(take_numbers(p, "groups", 1, 1, groups));
  GCONV_TRY(take_padding(p, layer));
  GCONV_TRY(take_border(p, layer));
  GCONV_TRY(take_word(p, "activation", gconv_activation_words, GCONV_ACTIVATIONS, &activation));
  if (slope && !is_finite(slope))
    return fail_part(p, GCONV_BAD_FILE, "its 'slope' is no finite number");
  if (slope && json_number_value(slope) != 0 && activation != GCONV_ACTIVATION_LEAKY &&
      activation != GCONV_ACTIVATION_SIGMOID)
    gconv_warn("%s: layer %zu: its 'slope' changes nothing: that is of leaky and sigmoid", p->where, p->layer);
  if (flip && !json_is_boolean(flip))
    return fail_part(p, GCONV_BAD_FILE, "its 'flip' is neither true nor false");
  layer->activation = (gconv_activation)activation;
  layer->slope = (float)json_number_value(slope);
  layer->flip = json_is_true(flip);
  return GCONV_OK;
}

const char *gconv_layer_kind_name(gconv_layer_kind kind) {
  switch (kind) {
  case GCONV_LAYER_CONV:
    return "conv";
  case GCONV_LAYER_MEAN:
    return "mean";
  case GCONV_LAYER_RESIDUAL:
    return "residual";
  }
  return NULL;
}

enum { MOST_KINDS = 16 };

static gconv_status take_layer(const part *p, gconv_layer *layer) {
  static const char *const conv_keys[] = {"kind",     "stride", "padding",    "border", "border_value",
                                          "dilation", "groups", "activation", "slope",  "flip"};
  const char *kinds[MOST_KINDS] = {NULL};
  int kind = -1, count = 0;
  while ((kinds[count] = gconv_layer_kind_name((gconv_layer_kind)count)))
    count++;
  if (!json_is_object(p->json) || !json_object_get(p->json, "kind"))
    return fail_part(p, GCONV_BAD_FILE, "it is no object with a 'kind'");
  GCONV_TRY(take_word(p, "kind", kinds, count, &kind));
  layer->kind = (gconv_layer_kind)kind;
  if (layer->kind == GCONV_LAYER_CONV)
    GCONV_TRY(take_conv(p, layer));
  drop_keys(p, conv_keys, layer->kind == GCONV_LAYER_CONV ? COUNT(conv_keys) : 1);
  return GCONV_OK;
}

/* Of layers, only unknown keys stay in the JSON, and none of them if no layer has any. */
static gconv_status take_layers(const part *whole, gconv_network *network) {
  json_t *layers = json_object_get(whole->json, "layers");
  size_t count = json_array_size(layers), left = 0;
  if (count == 0)
    return fail_part(whole, GCONV_BAD_FILE, "its JSON has no list of 'layers'");
  if (count > GCONV_NETWORK_MAX_LAYERS)
    return fail_part(whole, GCONV_TOO_LARGE, "a network of %zu layers; the limit is %d", count, GCONV_NETWORK_MAX_LAYERS);
  network->layers = calloc(count, sizeof *network->layers);
  network->banks = calloc(count, sizeof *network->banks);
  if (!network->layers || !network->banks)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", whole->where);
  network->count = count;
  for (size_t i = 0; i < count; i++) {
    const part p = {whole->where, i + 1, json_array_get(layers, i)};
    GCONV_TRY(take_layer(&p, &network->layers[i]));
    network->layers[i].bank = network->layers[i].kind == GCONV_LAYER_CONV ? &network->banks[i] : NULL;
    left += json_object_size(p.json);
  }
  if (left == 0)
    json_object_del(whole->json, "layers");
  return GCONV_OK;
}

/* ---- Reading the whole ---- */

static gconv_status take_version(const part *p) {
  const json_t *version = json_object_get(p->json, "version");
  if (!is_number_from(version, 1))
    return fail_part(p, GCONV_BAD_FILE, "its JSON has no 'version', a whole number from 1 on");
  if (json_integer_value(version) > VERSION)
    return fail_part(p, GCONV_UNSUPPORTED,
                     "it is a network of version %" JSON_INTEGER_FORMAT ", and this gconv (%s) reads version %d: take a "
                     "newer gconv",
                     json_integer_value(version), gconv_version(), VERSION);
  return GCONV_OK;
}

static gconv_status take_input(const part *p, gconv_network *network) {
  static const char *const keys[] = {"channels", "height", "width"};
  json_t *input = json_object_get(p->json, "input");
  int32_t *const channels[] = {&network->channels}, *const height[] = {&network->height}, *const width[] = {&network->width};
  if (!json_is_object(input) || !json_object_get(input, "channels"))
    return fail_part(p, GCONV_BAD_FILE, "its JSON has no 'input', an object with 'channels'");
  const part inside = {p->where, 0, input};
  GCONV_TRY(take_numbers(&inside, "channels", 1, 1, channels));
  GCONV_TRY(take_numbers(&inside, "height", 0, 1, height));
  GCONV_TRY(take_numbers(&inside, "width", 0, 1, width));
  drop_keys(&inside, keys, COUNT(keys));
  if (json_object_size(input) == 0)
    json_object_del(p->json, "input");
  return GCONV_OK;
}

static gconv_status take_classes(const part *p, gconv_network *network) {
  const json_t *classes = json_object_get(p->json, "classes");
  size_t count = json_array_size(classes);
  if (!classes || json_is_null(classes))
    return GCONV_OK;
  if (count == 0)
    return fail_part(p, GCONV_BAD_FILE, "its 'classes' are no list of texts");
  network->classes = calloc(count, sizeof *network->classes);
  if (!network->classes)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", p->where);
  for (; network->class_count < count; network->class_count++) {
    const char *name = json_string_value(json_array_get(classes, network->class_count));
    if (!name)
      return fail_part(p, GCONV_BAD_FILE, "number %zu of its 'classes' is no text", network->class_count + 1);
    if (!(network->classes[network->class_count] = strdup(name)))
      return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", p->where);
  }
  return GCONV_OK;
}

/* Copies a text, or leaves NULL. */
static gconv_status take_text(const part *p, const char *key, char **text) {
  const json_t *value = json_object_get(p->json, key);
  if (value && !json_is_null(value) && !json_is_string(value))
    return fail_part(p, GCONV_UNSUPPORTED, "its '%s' is no text, which is all that this gconv (%s) reads", key,
                     gconv_version());
  if (json_is_string(value) && !(*text = strdup(json_string_value(value))))
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", p->where);
  return GCONV_OK;
}

/* The colours of the classes, each three numbers from 0 to 255. */
static gconv_status take_palette(const part *p, gconv_network *network) {
  const json_t *palette = json_object_get(p->json, "palette");
  if (!palette || json_is_null(palette))
    return GCONV_OK;
  bool good = json_is_array(palette) && json_array_size(palette) == network->class_count && network->class_count > 0;
  network->palette = good ? malloc(3 * network->class_count) : NULL;
  if (good && !network->palette)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", p->where);
  for (size_t i = 0; good && i < 3 * network->class_count; i++) {
    const json_t *colour = json_array_get(palette, i / 3), *level = json_array_get(colour, i % 3);
    good = json_array_size(colour) == 3 && is_number_from(level, 0) && json_integer_value(level) <= UINT8_MAX;
    network->palette[i] = good ? (uint8_t)json_integer_value(level) : 0;
  }
  return good ? GCONV_OK
              : fail_part(p, GCONV_BAD_FILE, "its 'palette' is no list of colours, [R, G, B] from 0 to 255, one a class");
}

/* A list of `count` numbers, if it is there. */
static gconv_status take_doubles(const part *p, const char *key, size_t count, double **numbers) {
  const json_t *list = json_object_get(p->json, key);
  bool good = !list || json_array_size(list) == count;
  if (!list)
    return GCONV_OK;
  *numbers = good ? malloc(count * sizeof **numbers) : NULL;
  if (good && !*numbers)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", p->where);
  for (size_t i = 0; i < count && good; i++) {
    good = json_is_number(json_array_get(list, i));
    (*numbers)[i] = json_number_value(json_array_get(list, i));
  }
  return good ? GCONV_OK : fail_part(p, GCONV_BAD_FILE, "its columns' '%s' is no list of %zu numbers", key, count);
}

/* Of the columns of the table that it was trained on: {"names": [...], "means": [...] ...}. */
static gconv_status take_notes(const part *whole, gconv_network *network) {
  const part p = {whole->where, 0, json_object_get(whole->json, "columns")};
  const json_t *names = json_object_get(p.json, "names");
  gconv_column_notes *notes = &network->notes;
  const size_t count = (size_t)network->channels;
  bool good = !names || json_array_size(names) == count;
  if (!p.json || json_is_null(p.json))
    return GCONV_OK;
  notes->count = count;
  notes->names = names && good ? calloc(count, sizeof *notes->names) : NULL;
  for (size_t i = 0; notes->names && i < count && good; i++) {
    const char *name = json_string_value(json_array_get(names, i));
    good = name && (notes->names[i] = strdup(name));
  }
  if (!good || (names && !notes->names))
    return fail_part(whole, GCONV_BAD_FILE, "the 'names' of its 'columns' are no list of %zu texts", count);
  GCONV_TRY(take_doubles(&p, "means", count, &notes->means));
  GCONV_TRY(take_doubles(&p, "deviations", count, &notes->deviations));
  return take_doubles(&p, "origins", count, &notes->origins);
}

/* A number of 64 bits; those that JSON's integers here cannot hold are a text of digits. */
static gconv_status take_seed(const part *p, uint64_t *seed) {
  const json_t *value = json_object_get(p->json, "seed");
  const char *text = json_string_value(value);
  bool digits = text && *text && strlen(text) <= 20 && strspn(text, "0123456789") == strlen(text);
  if (!value || json_is_null(value))
    return GCONV_OK;
  if (!digits && (!json_is_integer(value) || json_integer_value(value) < 0))
    return fail_part(p, GCONV_BAD_FILE, "its 'seed' is no whole number from 0 on");
  *seed = digits ? strtoull(text, NULL, 10) : (uint64_t)json_integer_value(value);
  return GCONV_OK;
}

static gconv_status take_all(const part *p, gconv_network *network) {
  static const char *const keys[] = {"version", "mean",    "std",      "classes", "label",  "loss",
                                     "seed",    "trained", "features", "palette", "columns"};
  int loss = GCONV_LOSS_DEFAULT;
  GCONV_TRY(take_version(p));
  GCONV_TRY(take_input(p, network));
  GCONV_TRY(take_layers(p, network));
  GCONV_TRY(take_floats(p, "mean", &network->mean, &network->mean_count));
  GCONV_TRY(take_floats(p, "std", &network->std, &network->std_count));
  GCONV_TRY(take_classes(p, network));
  GCONV_TRY(take_text(p, "label", &network->label));
  GCONV_TRY(take_text(p, "features", &network->features));
  GCONV_TRY(take_palette(p, network));
  GCONV_TRY(take_notes(p, network));
  if (!json_is_null(json_object_get(p->json, "loss")))
    GCONV_TRY(take_word(p, "loss", losses, COUNT(losses), &loss));
  network->loss = (gconv_loss)loss;
  GCONV_TRY(take_seed(p, &network->seed));
  GCONV_TRY(take_object(p, "trained", &network->trained));
  drop_keys(p, keys, COUNT(keys));
  if (json_object_size(p->json) == 0)
    return GCONV_OK;
  network->others = json_dumps(p->json, JSON_COMPACT);
  return network->others ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", p->where);
}

gconv_status gconv_network_of_json(const char *where, const char *text, gconv_network *network) {
  json_error_t error;
  json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
  const part whole = {where, 0, json};
  if (!json)
    return gconv_fail(GCONV_BAD_FILE, "%s: the entry 'gconv' of its __metadata__ is not valid JSON: %s, at byte %d of it",
                      where, error.text, error.position);
  gconv_status status = json_is_object(json) ? take_all(&whole, network)
                                             : fail_part(&whole, GCONV_BAD_FILE, "the entry 'gconv' is no JSON object");
  json_decref(json);
  return status;
}

/* ---- Writing: what is NULL by lack of memory makes all of it NULL ---- */

/* The value that counts: the layer's, else the bank's, else this one. */
static int32_t resolve(int32_t given, bool of_bank, int32_t bank, int32_t otherwise) {
  return given != 0 ? given : of_bank ? bank : otherwise;
}

static json_t *make_padding(const gconv_layer *layer) {
  const gconv_bank *bank = layer->bank;
  gconv_layer_padding padding = layer->padding;
  bool of_bank = padding == GCONV_LAYER_DEFAULT && bank->has_geometry;
  if (padding == GCONV_LAYER_DEFAULT)
    padding = !bank->has_geometry ? GCONV_LAYER_SAME
              : bank->same_upper  ? GCONV_LAYER_SAME_UPPER
              : bank->same_lower  ? GCONV_LAYER_SAME_LOWER
                                  : GCONV_LAYER_EXPLICIT;
  if (padding != GCONV_LAYER_EXPLICIT)
    return json_string(paddings[padding]);
  return of_bank ? json_pack("[i, i, i, i]", bank->pad_top, bank->pad_left, bank->pad_bottom, bank->pad_right)
                 : json_pack("[i, i, i, i]", layer->pad_top, layer->pad_left, layer->pad_bottom, layer->pad_right);
}

static json_t *make_conv(const gconv_layer *layer) {
  const gconv_bank *bank = layer->bank;
  bool has = bank->has_geometry;
  int32_t groups = resolve(layer->groups, has && bank->groups > 1, bank->groups, 0);
  json_t *made = json_pack(
      "{s:s, s:[i, i], s:o, s:[i, i], s:s}", "kind", gconv_layer_kind_name(layer->kind), "stride",
      resolve(layer->stride_y, has, bank->stride_y, 1), resolve(layer->stride_x, has, bank->stride_x, 1), "padding",
      make_padding(layer), "dilation", resolve(layer->dilation_y, has, bank->dilation_y, 1),
      resolve(layer->dilation_x, has, bank->dilation_x, 1), "activation", gconv_activation_words[layer->activation]);
  bool good = made && (groups == 0 || json_object_set_new(made, "groups", json_integer(groups)) == 0) &&
              (layer->slope == 0 || json_object_set_new(made, "slope", json_real((double)layer->slope)) == 0) &&
              (!layer->flip || json_object_set_new(made, "flip", json_true()) == 0) &&
              (layer->border == GCONV_BORDER_ZERO ||
               json_object_set_new(made, "border", json_string(borders[layer->border])) == 0) &&
              (layer->border != GCONV_BORDER_CONSTANT ||
               json_object_set_new(made, "border_value", json_real(layer->border_value)) == 0);
  if (good)
    return made;
  json_decref(made);
  return NULL;
}

static json_t *make_layers(const gconv_network *network, const json_t *others) {
  const json_t *kept = json_object_get(others, "layers");
  json_t *layers = json_array();
  bool good = layers;
  for (size_t i = 0; i < network->count && good; i++) {
    const gconv_layer *layer = &network->layers[i];
    json_t *made =
        layer->kind == GCONV_LAYER_CONV ? make_conv(layer) : json_pack("{s:s}", "kind", gconv_layer_kind_name(layer->kind));
    json_t *more = json_array_size(kept) == network->count ? json_array_get(kept, i) : NULL;
    if (made && json_is_object(more))
      json_object_update_missing(made, more);
    good = json_array_append_new(layers, made) == 0;
  }
  if (good)
    return layers;
  json_decref(layers);
  return NULL;
}

static json_t *make_floats(const float *floats, int32_t count) {
  json_t *list = json_array();
  for (int32_t i = 0; i < count; i++)
    json_array_append_new(list, json_real((double)floats[i]));
  return list;
}

static json_t *make_texts(char *const *texts, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(list, json_string(texts[i]));
  if (json_array_size(list) == count)
    return list;
  json_decref(list);
  return NULL;
}

static json_t *make_palette(const uint8_t *palette, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++, palette += 3)
    json_array_append_new(list, json_pack("[i, i, i]", palette[0], palette[1], palette[2]));
  return list;
}

static json_t *make_seed(uint64_t seed) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, seed);
  return seed <= INT64_MAX ? json_integer((json_int_t)seed) : json_string(text);
}

/* Sets *json to the object that a text is; NULL if there is no text. */
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
  bool good = !notes->names || json_object_set_new(made, "names", make_texts(notes->names, notes->count)) == 0;
  for (size_t k = 0; k < COUNT(lists); k++) {
    json_t *list = lists[k].numbers ? json_array() : NULL;
    for (size_t i = 0; i < notes->count && list; i++)
      json_array_append_new(list, json_real(lists[k].numbers[i]));
    good = good && (!list || json_object_set_new(made, lists[k].key, list) == 0);
  }
  if (good)
    return made;
  json_decref(made);
  return NULL;
}

/* Takes `trained` over. */
static json_t *make_all(const gconv_network *network, json_t *trained, json_t *others) {
  json_t *input =
      json_pack("{s:i, s:i, s:i}", "channels", network->channels, "height", network->height, "width", network->width);
  json_t *root = json_pack("{s:i, s:o, s:o}", "version", VERSION, "input", input, "layers", make_layers(network, others));
  bool good = root;
  if (good && network->mean_count > 0)
    good = json_object_set_new(root, "mean", make_floats(network->mean, network->mean_count)) == 0;
  if (good && network->std_count > 0)
    good = json_object_set_new(root, "std", make_floats(network->std, network->std_count)) == 0;
  if (good && network->class_count > 0)
    good = json_object_set_new(root, "classes", make_texts(network->classes, network->class_count)) == 0;
  if (good && network->label)
    good = json_object_set_new(root, "label", json_string(network->label)) == 0;
  if (good && losses[network->loss])
    good = json_object_set_new(root, "loss", json_string(losses[network->loss])) == 0;
  if (good && network->features)
    good = json_object_set_new(root, "features", json_string(network->features)) == 0;
  if (good && network->palette && network->class_count > 0)
    good = json_object_set_new(root, "palette", make_palette(network->palette, network->class_count)) == 0;
  if (good && network->notes.count > 0)
    good = json_object_set_new(root, "columns", make_notes(&network->notes)) == 0;
  good = good && json_object_set_new(root, "seed", make_seed(network->seed)) == 0;
  if (good && trained)
    good = json_object_set(root, "trained", trained) == 0;
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

/* SPDX-License-Identifier: MIT */
/* The file of a network: its layers' tensors, l<i>.weight and l<i>.bias, and JSON for everything else (network_json.c). */
#include "bank/network_file.h"
#include "bank/column_notes.h"
#include "bank/kind.h"
#include "base/arguments.h"
#include "base/lists.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

static const char NETWORK_KEY[] = "gconv", CHECKPOINT_KEY[] = "gconv-checkpoint";

enum { NAME_BYTES = 40 }; /* bytes of a name such as "l4095.weight" */

/* ---- Freeing ---- */

static void free_tensors(gconv_network_tensor *tensors, size_t count) {
  for (size_t i = 0; tensors && i < count; i++)
    free(tensors[i].name);
  free(tensors);
}

void gconv_network_free(gconv_network *network) {
  if (!network)
    return;
  for (size_t i = 0; network->banks && i < network->count; i++)
    gconv_bank_free(&network->banks[i]);
  for (size_t i = 0; network->classes && i < network->class_count; i++)
    free(network->classes[i]);
  free(network->layers);
  free(network->banks);
  free(network->mean);
  free(network->std);
  free(network->classes);
  free(network->trained);
  free(network->features);
  free(network->label);
  free(network->palette);
  gconv_column_notes_free(&network->notes);
  free(network->others);
  free_tensors(network->inputs, network->input_count);
  free_tensors(network->outputs, network->output_count);
  if (network->graph)
    ((gconv_graph_head *)network->graph)->free(network->graph);
  *network = (gconv_network){0};
}

void gconv_network_move_notes(gconv_network *from, gconv_network *to) {
  to->classes = gconv_taken(&from->classes);
  to->class_count = from->class_count;
  from->class_count = 0;
  to->label = gconv_taken(&from->label);
  to->features = gconv_taken(&from->features);
  to->palette = gconv_taken(&from->palette);
  to->trained = gconv_taken(&from->trained);
  to->notes = from->notes;
  from->notes = (gconv_column_notes){0};
  to->loss = from->loss;
  to->seed = from->seed;
  to->white = from->white;
  to->order = from->order;
}

gconv_status gconv_network_take_notes(const char *where, const char *text, int64_t outputs, gconv_network *network) {
  GCONV_ENDED_BY(gconv_network_free) gconv_network noted = {0};
  if (!text)
    return GCONV_OK;
  gconv_status status = gconv_network_of_json(where, text, &noted);
  if (status == GCONV_OK && noted.channels == network->channels &&
      (outputs == 0 || noted.class_count == 0 || (int64_t)noted.class_count == outputs)) {
    gconv_network_move_notes(&noted, network);
  } else if (status != GCONV_NO_MEMORY) {
    gconv_warn("%s: gconv's notes in the model do not fit the model, and are ignored", where);
    status = GCONV_OK;
  }
  return status;
}

void gconv_network_extras_free(gconv_network_extras *extras) {
  if (!extras)
    return;
  for (size_t i = 0; i < extras->count; i++)
    gconv_named_array_free(&extras->tensors[i]);
  free(extras->tensors);
  free(extras->json);
  *extras = (gconv_network_extras){0};
}

const gconv_named_array *gconv_network_extras_find(const gconv_network_extras *extras, const char *name) {
  for (size_t i = 0; i < extras->count; i++)
    if (strcmp(extras->tensors[i].name, name) == 0)
      return &extras->tensors[i];
  return NULL;
}

/* ---- Checks ---- */

/* Checks that a layer can take the channels of its input. Sizes depend on the image, and are not checked. */
static gconv_status check_layer(const char *where, gconv_status status, const gconv_network *network, size_t i,
                                gconv_layer_shape *shapes) {
  const gconv_layer *layer = &network->layers[i];
  gconv_layer_shape at = shapes[i];
  if (layer->from < 0 || (size_t)layer->from > i)
    return gconv_fail(status, "%s: layer %zu takes the output of layer %d, which does not stand before it", where, i + 1,
                      layer->from);
  if (gconv_layer_form_of(layer->kind)->has_bank != (layer->bank != NULL))
    return gconv_fail(status, "%s: layer %zu: %s", where, i + 1,
                      layer->bank ? "kinds without weights have no bank" : "a kind with weights needs a bank");
  const gconv_status followed = gconv_layer_form_of(layer->kind)->follow(layer, gconv_layer_other(layer, shapes), &at);
  shapes[i + 1] = (gconv_layer_shape){.channels = at.channels};
  if (followed == GCONV_OK)
    return GCONV_OK;
  return gconv_fail_in(followed == GCONV_BAD_ARGUMENT ? status : followed, "%s: layer %zu", where, i + 1);
}

static gconv_status check_notes(const char *where, gconv_status status, const gconv_network *network) {
  const gconv_column_notes *notes = &network->notes;
  if (notes->count != 0 && notes->count != (size_t)network->channels)
    return gconv_fail(status, "%s: it has notes of %zu columns, but takes %d", where, notes->count, network->channels);
  for (size_t c = 0; c < notes->count; c++)
    if ((notes->means && !isfinite(notes->means[c])) ||
        (notes->deviations && !(notes->deviations[c] >= 0 && isfinite(notes->deviations[c]))) ||
        (notes->origins && !isfinite(notes->origins[c])))
      return gconv_fail(status, "%s: what it notes of column %zu is no finite number", where, c + 1);
  return GCONV_OK;
}

static gconv_status check_normalisation(const char *where, gconv_status status, const gconv_network *network) {
  const int32_t counts[] = {network->mean_count, network->std_count};
  for (int i = 0; i < 2; i++)
    if (counts[i] != 0 && counts[i] != 1 && counts[i] != network->channels)
      return gconv_fail(status, "%s: %d numbers of '%s' for %d channels: one is needed, or one for each channel", where,
                        counts[i], i == 0 ? "mean" : "std", network->channels);
  for (int32_t i = 0; i < network->mean_count; i++)
    if (!network->mean || !isfinite(network->mean[i]))
      return gconv_fail(status, "%s: number %d of 'mean' is not finite", where, i + 1);
  for (int32_t i = 0; i < network->std_count; i++)
    if (!network->std || !isfinite(network->std[i]) || network->std[i] <= 0)
      return gconv_fail(status, "%s: number %d of 'std' is not finite and above 0", where, i + 1);
  if (!isfinite(network->white) || network->white < 0)
    return gconv_fail(status, "%s: 'white' is no finite number above 0", where);
  if ((int)network->order < GCONV_ORDER_DEFAULT || network->order > GCONV_ORDER_BGR)
    return gconv_fail(status, "%s: there is no order of colours %d", where, (int)network->order);
  return GCONV_OK;
}

gconv_status gconv_network_check(const char *where, gconv_status status, const gconv_network *network) {
  GCONV_FREED gconv_layer_shape *shapes = calloc(network->count + 1, sizeof *shapes);
  GCONV_NEED_MEMORY(shapes, "no memory for a network");
  shapes[0].channels = network->channels;
  if ((network->height == 0) != (network->width == 0))
    return gconv_fail(status, "%s: an input of height %d and width %d: both are 0, for any size, or none", where,
                      network->height, network->width);
  for (size_t i = 0; i < network->count; i++)
    GCONV_TRY(check_layer(where, status, network, i, shapes));
  const gconv_layer_shape at = shapes[network->count];
  if (network->class_count > 0 && network->class_count != (size_t)at.channels)
    return gconv_fail(status, "%s: %zu classes, but the last layer has %d outputs", where, network->class_count,
                      at.channels);
  GCONV_TRY(check_notes(where, status, network));
  return check_normalisation(where, status, network);
}

gconv_status gconv_network_check_empty(const char *function, const gconv_network *network) {
  return network->layers ? gconv_fail(GCONV_BAD_ARGUMENT, "%s(): network is not empty", function) : GCONV_OK;
}

/* ---- Reading ---- */

static gconv_status fail_tensor(const gconv_bank_file *file, const char *name, const char *wrong) {
  return gconv_fail(GCONV_BAD_FILE, "%s: tensor '%s' %s", file->path, name, wrong);
}

static gconv_status read_biases(gconv_bank_file *file, const char *name, gconv_bank *bank) {
  size_t index;
  if (!gconv_safetensors_find(file, name, &index))
    return GCONV_OK;
  const gconv_bank_entry *entry = &file->entries[index];
  if (!gconv_safetensors_is_floating(file, index) || entry->dimensions != 1 || entry->shape[0] != (uint64_t)bank->filters)
    return gconv_fail(GCONV_BAD_FILE, "%s: tensor '%s' is not %d floating-point numbers, one a filter", file->path, name,
                      bank->filters);
  GCONV_TRY(gconv_bank_add_biases(bank));
  return gconv_safetensors_read_floats(file, index, bank->biases);
}

static gconv_status read_layer(gconv_bank_file *file, size_t i, gconv_bank *bank) {
  char weight[NAME_BYTES], bias[NAME_BYTES];
  size_t index;
  snprintf(weight, sizeof weight, "l%zu.weight", i);
  snprintf(bias, sizeof bias, "l%zu.bias", i);
  if (!gconv_safetensors_find(file, weight, &index))
    return gconv_fail(GCONV_BAD_FILE, "%s: layer %zu has weights, but there is no tensor '%s'", file->path, i + 1, weight);
  const gconv_bank_entry *entry = &file->entries[index];
  if (entry->obstacle)
    return fail_tensor(file, weight, entry->obstacle);
  const gconv_bank_shape shape = {entry->shape[0], entry->shape[1], entry->shape[2], entry->shape[3]};
  GCONV_TRY(gconv_bank_check_shape(file->path, shape));
  GCONV_TRY(gconv_bank_allocate(shape, bank));
  GCONV_TRY(gconv_bank_rename(bank, entry->other[0]));
  GCONV_TRY(gconv_safetensors_read_floats(file, index, bank->weights));
  GCONV_TRY(read_biases(file, bias, bank));
  char where[NAME_BYTES];
  snprintf(where, sizeof where, "layer %zu", i + 1);
  gconv_status status = gconv_bank_check_finite(where, GCONV_BAD_FILE, bank);
  return status == GCONV_OK ? status : gconv_fail_in(status, "%s", file->path);
}

/* Returns the i of a tensor's name l<i>.weight or l<i>.bias; SIZE_MAX if the name is another. */
static size_t layer_of(const char *name) {
  char wanted[NAME_BYTES];
  const size_t digits = *name == 'l' ? strspn(name + 1, "0123456789") : 0,
               layer = strtoull(digits ? name + 1 : "0", NULL, 10);
  if (digits == 0 || digits > 9)
    return SIZE_MAX;
  snprintf(wanted, sizeof wanted, "l%zu.%s", layer, strcmp(name + 1 + digits, ".bias") == 0 ? "bias" : "weight");
  return strcmp(name, wanted) == 0 ? layer : SIZE_MAX;
}

/* Fails if there are tensors of layers that the network does not have. Warns of other tensors, except tensors of a
 * checkpoint. */
static gconv_status check_taken(const gconv_bank_file *file, const gconv_network *network) {
  size_t others = 0, first = 0;
  for (size_t i = 0; i < file->count; i++) {
    const char *name = gconv_safetensors_name(file, i);
    const size_t layer = layer_of(name);
    if (strncmp(name, GCONV_EXTRA_PREFIX, strlen(GCONV_EXTRA_PREFIX)) == 0 ||
        (layer < network->count && network->layers[layer].bank))
      continue;
    if (name[0] == 'l' && name[1] >= '0' && name[1] <= '9')
      return gconv_fail(GCONV_BAD_FILE, "%s: tensor '%.40s' belongs to none of the network's %zu layers", file->path,
                        file->entries[i].name, network->count);
    first = others++ == 0 ? i : first;
  }
  if (others > 0)
    gconv_warn("%s: %zu of its tensors belong to no layer and change nothing: '%.40s'%s", file->path, others,
               file->entries[first].name, others > 1 ? " ..." : "");
  return GCONV_OK;
}

static gconv_status read_extra(gconv_bank_file *file, size_t index, gconv_network_extras *extras) {
  GCONV_GROW(extras->tensors, extras->count, "%s: no memory for a list of tensors", file->path);
  extras->tensors[extras->count] = (gconv_named_array){0};
  GCONV_TRY(gconv_safetensors_read_tensor(file, index, &extras->tensors[extras->count]));
  extras->count++;
  return GCONV_OK;
}

static gconv_status read_extras(gconv_bank_file *file, gconv_network_extras *extras) {
  const char *json = gconv_safetensors_metadata(file, CHECKPOINT_KEY);
  json_error_t error;
  json_t *parsed = json ? json_loads(json, JSON_REJECT_DUPLICATES, &error) : NULL;
  bool good = !json || json_is_object(parsed);
  json_decref(parsed);
  if (!good)
    return gconv_fail(GCONV_BAD_FILE, "%s: the entry '%s' of its __metadata__ is no JSON object", file->path,
                      CHECKPOINT_KEY);
  if (json && !(extras->json = strdup(json)))
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a checkpoint", file->path);
  for (size_t i = 0; i < file->count; i++)
    if (strncmp(gconv_safetensors_name(file, i), GCONV_EXTRA_PREFIX, strlen(GCONV_EXTRA_PREFIX)) == 0)
      GCONV_TRY(read_extra(file, i, extras));
  return GCONV_OK;
}

static gconv_status read_network(gconv_bank_file *file, gconv_network *network, gconv_network_extras *extras) {
  const char *json = gconv_safetensors_metadata(file, NETWORK_KEY);
  if (!json)
    return gconv_fail(GCONV_BAD_FILE,
                      "%s: holds tensors, but no network: its __metadata__ has no entry '%s'; `gconv bank convert` makes "
                      "networks of models",
                      file->path, NETWORK_KEY);
  GCONV_TRY(gconv_network_of_json(file->path, json, network));
  for (size_t i = 0; i < network->count; i++)
    if (network->layers[i].bank)
      GCONV_TRY(read_layer(file, i, &network->banks[i]));
  GCONV_TRY(check_taken(file, network));
  GCONV_TRY(gconv_network_check(file->path, GCONV_BAD_FILE, network));
  return extras ? read_extras(file, extras) : GCONV_OK;
}

/* Reads and closes the file. `status` is the result of opening it. */
static gconv_status read_file(gconv_bank_file *file, gconv_status status, gconv_network *network,
                              gconv_network_extras *extras) {
  gconv_network made = {0};
  gconv_network_extras more = {0};
  GCONV_THEN(status, read_network(file, &made, extras ? &more : NULL));
  gconv_bank_file_close(file);
  if (status != GCONV_OK) {
    gconv_network_free(&made);
    gconv_network_extras_free(&more);
    return status;
  }
  *network = made;
  if (extras)
    *extras = more;
  return GCONV_OK;
}

gconv_status gconv_network_file_read(const char *path, gconv_network *network, gconv_network_extras *extras) {
  gconv_bank_file *file = NULL;
  gconv_status status = gconv_bank_file_open_path(path, gconv_bank_syntax_safetensors.name, &file);
  return read_file(file, status, network, extras);
}

gconv_status gconv_network_file_read_bytes(const char *name, uint8_t *bytes, size_t size, gconv_network *network,
                                           gconv_network_extras *extras) {
  gconv_bank_file *file = NULL;
  gconv_status status = gconv_bank_file_open_bytes(name, bytes, size, gconv_bank_syntax_safetensors.name, &file);
  return read_file(file, status, network, extras);
}

gconv_status gconv_network_read(const char *path, gconv_network *network) {
  GCONV_NEED(path);
  GCONV_NEED(network);
  GCONV_TRY(gconv_network_check_empty("gconv_network_read", network));
  return gconv_network_file_read(path, network, NULL);
}

bool gconv_network_is_one(const char *path) {
  struct stat status;
  gconv_bank_file *file = NULL;
  bool is = path && stat(path, &status) == 0 && S_ISREG(status.st_mode) &&
            gconv_bank_file_open_path(path, NULL, &file) == GCONV_OK && file->syntax == &gconv_bank_syntax_safetensors &&
            gconv_safetensors_metadata(file, NETWORK_KEY);
  gconv_bank_file_close(file);
  return is;
}

/* ---- Writing ---- */

gconv_status gconv_network_check_given(const gconv_network *network) {
  GCONV_NEED_KNOWN(network);
  if (network->graph)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s; so it is a graph of nodes, which is neither trained nor written as layers: use the ONNX model "
                      "itself",
                      ((const gconv_graph_head *)network->graph)->obstacle);
  GCONV_NEED_AS(network->layers, "network->layers");
  if (network->count < 1 || network->count > GCONV_NETWORK_MAX_LAYERS)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a network of %zu layers; there can be 1 to %d", network->count,
                      GCONV_NETWORK_MAX_LAYERS);
  GCONV_TRY(gconv_check_value("the network's channels", network->channels, 1, INT32_MAX));
  GCONV_TRY(gconv_check_value("the network's height", network->height, 0, INT32_MAX));
  GCONV_TRY(gconv_check_value("the network's width", network->width, 0, INT32_MAX));
  GCONV_TRY(gconv_check_value("the network's loss", network->loss, GCONV_LOSS_DEFAULT, GCONV_EACH_LOSS(GCONV_COUNTED)));
  for (size_t i = 0; i < network->count; i++) {
    char where[NAME_BYTES];
    snprintf(where, sizeof where, "layer %zu", i + 1);
    GCONV_TRY(gconv_layer_check(&network->layers[i], where));
    if (network->layers[i].bank)
      GCONV_TRY(gconv_bank_check(network->layers[i].bank));
  }
  GCONV_TRY(gconv_network_check("the network", GCONV_BAD_ARGUMENT, network));
  for (size_t i = 0; i < network->class_count; i++)
    if (!network->classes || !network->classes[i])
      return gconv_fail(GCONV_BAD_ARGUMENT, "class %zu of the network has no name", i + 1);
  return GCONV_OK;
}

/* Fails unless a file with these extras could be read again. */
static gconv_status check_extras(const gconv_network_extras *extras) {
  for (size_t i = 0; i < extras->count; i++) {
    const gconv_named_array *tensor = &extras->tensors[i];
    if (strncmp(tensor->name, GCONV_EXTRA_PREFIX, strlen(GCONV_EXTRA_PREFIX)) != 0)
      return gconv_fail(GCONV_BAD_ARGUMENT, "the name of the extra tensor '%s' does not begin with '%s'", tensor->name,
                        GCONV_EXTRA_PREFIX);
  }
  return GCONV_OK;
}

/* The contents of a file: the tensors of the layers, then the extras. Zero-initialise. */
typedef struct contents {
  gconv_named_array *tensors; /* the names of the first `own` are owned */
  size_t own, count;
  json_t *metadata;
} contents;

static bool add_tensor(contents *c, size_t layer, const char *part, gconv_named_array tensor) {
  tensor.name = gconv_format_text("l%zu.%s", layer, part);
  c->tensors[c->own] = tensor;
  c->own += tensor.name != NULL;
  return tensor.name;
}

static gconv_status list_tensors(const gconv_network *network, const gconv_network_extras *extras, contents *c) {
  c->tensors = calloc(2 * network->count + (extras ? extras->count : 0), sizeof *c->tensors);
  bool good = c->tensors;
  for (size_t i = 0; i < network->count && good; i++) {
    const gconv_bank *bank = network->layers[i].bank;
    if (!bank)
      continue;
    const uint64_t sizes[] = {(uint64_t)bank->filters, (uint64_t)bank->channels, (uint64_t)bank->rows,
                              (uint64_t)bank->columns};
    gconv_named_array weights = {.dimensions = 4, .data = bank->weights}, biases = {.dimensions = 1, .data = bank->biases};
    memcpy(weights.shape, sizes, sizeof sizes);
    biases.shape[0] = sizes[0];
    good = add_tensor(c, i, "weight", weights) && (!bank->biases || add_tensor(c, i, "bias", biases));
  }
  c->count = c->own;
  for (size_t i = 0; good && extras && i < extras->count; i++)
    c->tensors[c->count++] = extras->tensors[i];
  return good ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory to write a network");
}

static gconv_status make_metadata(const gconv_network *network, const gconv_network_extras *extras, contents *c) {
  char *json = NULL;
  GCONV_TRY(gconv_network_to_json(network, &json));
  c->metadata = json_pack("{s:s}", NETWORK_KEY, json);
  free(json);
  if (c->metadata && extras && extras->json &&
      json_object_set_new(c->metadata, CHECKPOINT_KEY, json_string(extras->json)) != 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the JSON of a checkpoint is not UTF-8");
  return c->metadata ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory to write a network");
}

static void free_contents(contents *c) {
  for (size_t i = 0; i < c->own; i++)
    free(c->tensors[i].name);
  free(c->tensors);
  json_decref(c->metadata);
}

static gconv_status write_contents(const char *path, const contents *c) {
  gconv_sink *sink = NULL;
  GCONV_TRY(gconv_sink_open(path, &sink));
  return gconv_sink_end(sink, gconv_safetensors_write(sink, c->tensors, c->count, c->metadata));
}

gconv_status gconv_network_file_write(const char *path, const gconv_network *network, const gconv_network_extras *extras) {
  GCONV_ENDED_BY(free_contents) contents c = {0};
  GCONV_TRY(gconv_network_check_given(network));
  if (extras)
    GCONV_TRY(check_extras(extras));
  GCONV_TRY(list_tensors(network, extras, &c));
  GCONV_TRY(make_metadata(network, extras, &c));
  return write_contents(path, &c);
}

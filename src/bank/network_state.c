/* SPDX-License-Identifier: MIT */
/* A state_dict of PyTorch's nn.Sequential, in safetensors, as a network: "0.weight", "2.weight" ... are its layers in the
 * order of their numbers. What stands between them, and how convolutions are applied, is not in the file: a text says it. */
#include "bank/network_file.h"
#include "base/arguments.h"
#include "base/memory.h"
#include "base/printable.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 60, WORD_BYTES = 40 /* bytes of a word of the text */ };
static const double EPSILON = 1e-5; /* of BatchNorm2d, by default */

/* ---- The tensors of layers ---- */

typedef struct part {
  size_t index;    /* of the weights' entry */
  uint64_t number; /* of the module in the nn.Sequential */
  size_t stem;     /* bytes of the name before "weight" */
} part;

typedef struct state {
  gconv_bank_file *file;
  part *parts; /* owned; sorted by number */
  size_t count;
  gconv_network *network;
  int64_t channels; /* behind the last layer; 0 before the first */
} state;

/* Finds "<prefix><number>.weight"; *prefix gets its length. */
static bool is_weight(const char *name, part *p, size_t *prefix) {
  static const char ending[] = ".weight";
  size_t length = strlen(name), end = length - (sizeof ending - 1), begin = end;
  if (length < sizeof ending || strcmp(name + end, ending) != 0)
    return false;
  while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9')
    begin--;
  errno = 0;
  p->number = end - begin > 0 ? strtoull(name + begin, NULL, 10) : 0;
  p->stem = end + 1;
  *prefix = begin;
  return begin < end && end - begin < 10;
}

static int compare_parts(const void *a, const void *b) {
  const part *x = a, *y = b;
  return (x->number > y->number) - (x->number < y->number);
}

static gconv_status find_parts(state *s) {
  const char *first = NULL;
  size_t shared = 0, prefix;
  s->parts = calloc(s->file->count + 1, sizeof *s->parts);
  if (!s->parts)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", s->file->path);
  for (size_t i = 0; i < s->file->count; i++) {
    const char *name = gconv_safetensors_name(s->file, i);
    part p = {.index = i};
    if (!is_weight(name, &p, &prefix))
      continue;
    if (first && (prefix != shared || strncmp(first, name, shared) != 0))
      return gconv_fail(
          GCONV_UNSUPPORTED,
          "%s: the names of its tensors tell no order of layers: '%.*s' and '%.*s' count by themselves; those of "
          "one nn.Sequential are numbered",
          s->file->path, SHOWN_BYTES, s->file->entries[s->parts[0].index].name, SHOWN_BYTES, s->file->entries[i].name);
    first = first ? first : name;
    shared = prefix;
    s->parts[s->count++] = p;
  }
  if (s->count == 0)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: has no tensors '0.weight', '2.weight' ... of an nn.Sequential", s->file->path);
  qsort(s->parts, s->count, sizeof *s->parts, compare_parts);
  return GCONV_OK;
}

/* Finds the tensor beside the weights of a part: "bias", "running_mean". */
static bool find_beside(const state *s, const part *p, const char *what, size_t *index) {
  char *name = gconv_format_text("%.*s%s", (int)p->stem, gconv_safetensors_name(s->file, p->index), what);
  bool found = name && gconv_safetensors_find(s->file, name, index);
  free(name);
  return found;
}

/* ---- The text ---- */

/* An item of the text: a layer without weights, or how one with weights is applied. */
typedef struct item {
  gconv_layer layer;
  int32_t rows, columns; /* that a dense layer sees; 0: not given */
} item;

/* Parses "A" or "AxB", both from 1 on. */
static bool parse_pair(const char *text, int32_t *a, int32_t *b) {
  char *end;
  long first = strtol(text, &end, 10), second = first;
  if (end == text || text[0] < '0' || text[0] > '9')
    return false;
  if (*end == 'x') {
    const char *more = end + 1;
    second = more[0] >= '0' && more[0] <= '9' ? strtol(more, &end, 10) : 0;
  }
  *a = (int32_t)first;
  *b = (int32_t)second;
  return *end == '\0' && first >= 1 && second >= 1 && first <= GCONV_FILTER_MAX_SIDE && second <= GCONV_FILTER_MAX_SIDE;
}

static bool take_activation(const char *word, gconv_layer *layer) {
  size_t length = strcspn(word, ":=");
  for (int i = 0; i < GCONV_ACTIVATIONS; i++)
    if (strlen(gconv_activation_words[i]) == length && strncmp(word, gconv_activation_words[i], length) == 0) {
      bool sloped = i == GCONV_ACTIVATION_LEAKY || i == GCONV_ACTIVATION_SIGMOID;
      char *end = (char *)word + length;
      layer->activation = (gconv_activation)i;
      layer->slope = i == GCONV_ACTIVATION_LEAKY ? 0.01F : 0;
      if (word[length] && sloped)
        layer->slope = strtof(word + length + 1, &end);
      return *end == '\0' && isfinite(layer->slope) && (!word[length] || end > word + length + 1);
    }
  return false;
}

/* By the names of borders, and those that padding_mode of PyTorch has for them. */
static bool take_border(const char *word, gconv_layer *layer) {
  static const struct {
    const char *word;
    gconv_border border;
  } borders[] = {
      {"replicate", GCONV_BORDER_REPLICATE}, {"symmetric", GCONV_BORDER_SYMMETRIC}, {"reflect101", GCONV_BORDER_REFLECT101},
      {"reflect", GCONV_BORDER_REFLECT101},  {"wrap", GCONV_BORDER_WRAP},           {"circular", GCONV_BORDER_WRAP}};
  for (size_t i = 0; i < sizeof borders / sizeof *borders; i++)
    if (strcmp(word, borders[i].word) == 0) {
      layer->border = borders[i].border;
      return true;
    }
  return false;
}

static bool take_word(const char *word, item *it) {
  gconv_layer *layer = &it->layer;
  int32_t a, b;
  if (take_border(word, layer))
    return true;
  if (strcmp(word, "mean") == 0 || strcmp(word, "residual") == 0)
    layer->kind = word[0] == 'm' ? GCONV_LAYER_MEAN : GCONV_LAYER_RESIDUAL;
  else if (strcmp(word, "same") == 0)
    layer->padding = GCONV_LAYER_SAME;
  else if (strcmp(word, "valid") == 0)
    layer->padding = GCONV_LAYER_VALID;
  else if (word[0] == '/')
    return parse_pair(word + 1, &layer->stride_y, &layer->stride_x);
  else if (strncmp(word, "dilation:", 9) == 0)
    return parse_pair(word + 9, &layer->dilation_y, &layer->dilation_x);
  else if (strncmp(word, "groups:", 7) == 0)
    return parse_pair(word + 7, &layer->groups, &b);
  else if (strcmp(word, "padding:0") == 0)
    layer->padding = GCONV_LAYER_VALID;
  else if (strncmp(word, "padding:", 8) == 0 && parse_pair(word + 8, &a, &b)) {
    layer->padding = GCONV_LAYER_EXPLICIT;
    layer->pad_top = layer->pad_bottom = a;
    layer->pad_left = layer->pad_right = b;
  } else if (word[0] >= '0' && word[0] <= '9')
    return parse_pair(word, &it->rows, &it->columns);
  else
    return take_activation(word, layer);
  return true;
}

/* Parses the words up to the next comma. *text is moved behind it; it is NULL behind the last item. */
static gconv_status parse_item(const char **text, size_t number, item *it) {
  const char *at = *text;
  *it = (item){.layer.padding = GCONV_LAYER_SAME};
  it->layer.stride_y = it->layer.stride_x = it->layer.dilation_y = it->layer.dilation_x = it->layer.groups = 1;
  for (;;) {
    at += strspn(at, " \t\n");
    size_t length = strcspn(at, " \t\n,");
    char word[WORD_BYTES];
    if (length == 0)
      break;
    snprintf(word, sizeof word, "%.*s", (int)(length < WORD_BYTES ? length : WORD_BYTES), at);
    if (length >= WORD_BYTES || !take_word(word, it))
      return gconv_fail(
          GCONV_BAD_ARGUMENT,
          "--net: item %zu: '%s' is none of none, relu, leaky:A, sigmoid, tanh, softmax, mean, residual, /STRIDE, "
          "same, valid, padding:N, replicate, symmetric, reflect, circular, dilation:N, groups:N, and ROWSxCOLUMNS of a "
          "dense layer",
          number, word);
    at += length;
  }
  *text = *at == ',' ? at + 1 : NULL;
  if (it->layer.kind != GCONV_LAYER_CONV)
    it->layer = (gconv_layer){.kind = it->layer.kind};
  return GCONV_OK;
}

/* ---- Layers ---- */

static gconv_status fail_part(const state *s, const part *p, const char *format, ...) GCONV_PRINTF(3, 4);
static gconv_status fail_part(const state *s, const part *p, const char *format, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return gconv_fail(GCONV_UNSUPPORTED, "%s: tensor '%.*s' %s", s->file->path, SHOWN_BYTES, s->file->entries[p->index].name,
                    text);
}

/* A Linear layer of K x (C * rows * columns) weights is a convolution of its whole input. */
static gconv_status shape_dense(const state *s, const part *p, const item *it, gconv_bank_shape *shape) {
  const gconv_bank_entry *entry = &s->file->entries[p->index];
  const uint64_t features = entry->shape[1], given = (uint64_t)it->rows * (uint64_t)it->columns;
  uint64_t channels = s->channels > 0 ? (uint64_t)s->channels : given > 0 ? features / given : features;
  uint64_t pixels = channels > 0 && features % channels == 0 ? features / channels : 0;
  uint64_t side = (uint64_t)(sqrt((double)pixels) + 0.5), rows = given > 0 ? (uint64_t)it->rows : side;
  uint64_t columns = given > 0 ? (uint64_t)it->columns : side;
  if (pixels == 0 || rows * columns != pixels)
    return fail_part(s, p,
                     "is a dense layer of %" PRIu64 " inputs behind %" PRIu64
                     " channels: say in --net how many rows and columns it sees, such as 7x5",
                     features, channels);
  if (given == 0 && pixels > 1)
    gconv_warn("%s: '%.*s' is taken to see %" PRIu64 " x %" PRIu64 " pixels of %" PRIu64
               " channels; --net can say otherwise",
               s->file->path, SHOWN_BYTES, entry->name, rows, columns, channels);
  *shape = (gconv_bank_shape){entry->shape[0], channels, rows, columns};
  return GCONV_OK;
}

static gconv_status read_biases(state *s, const part *p, gconv_bank *bank) {
  size_t index;
  if (!find_beside(s, p, "bias", &index))
    return GCONV_OK;
  const gconv_bank_entry *entry = &s->file->entries[index];
  if (!gconv_safetensors_is_floating(s->file, index) || entry->dimensions != 1 || entry->shape[0] != (uint64_t)bank->filters)
    return fail_part(s, p, "has a bias that is not %d floating-point numbers", bank->filters);
  GCONV_TRY(gconv_bank_add_biases(bank));
  return gconv_safetensors_read_floats(s->file, index, bank->biases);
}

static gconv_status add_layer(state *s, const gconv_layer *layer) {
  gconv_network *network = s->network;
  if (network->count == GCONV_NETWORK_MAX_LAYERS)
    return gconv_fail(GCONV_TOO_LARGE, "%s: more than %d layers, which is the limit", s->file->path,
                      GCONV_NETWORK_MAX_LAYERS);
  network->layers[network->count] = *layer;
  network->layers[network->count].bank = layer->kind == GCONV_LAYER_CONV ? &network->banks[network->count] : NULL;
  network->count++;
  return GCONV_OK;
}

static gconv_status add_weights(state *s, const part *p, const item *it) {
  const gconv_bank_entry *entry = &s->file->entries[p->index];
  gconv_bank_shape shape = {entry->shape[0], entry->shape[1], entry->shape[2], entry->shape[3]};
  gconv_layer layer = it->layer;
  if (!gconv_safetensors_is_floating(s->file, p->index) || (entry->dimensions != 2 && entry->dimensions != 4))
    return fail_part(s, p, "has %d dimensions of %s: layers here have 4, or 2 if they are dense, of floating-point numbers",
                     entry->dimensions, entry->type);
  if (entry->dimensions == 4 && it->rows > 0)
    return fail_part(s, p, "is no dense layer: its rows and columns are in the file");
  if (entry->dimensions == 2) {
    GCONV_TRY(shape_dense(s, p, it, &shape));
    layer.padding = GCONV_LAYER_VALID;
    layer.border = GCONV_BORDER_ZERO;
  }
  GCONV_TRY(gconv_bank_check_shape(s->file->path, shape));
  GCONV_TRY(add_layer(s, &layer));
  gconv_bank *bank = &s->network->banks[s->network->count - 1];
  if (s->channels == 0) {
    uint64_t channels = shape.channels * (uint64_t)layer.groups;
    s->network->channels = channels <= INT32_MAX ? (int32_t)channels : INT32_MAX;
    if (entry->dimensions == 2) {
      s->network->height = (int32_t)shape.rows;
      s->network->width = (int32_t)shape.columns;
    }
  }
  s->channels = (int64_t)shape.filters;
  GCONV_TRY(gconv_bank_allocate(shape, bank));
  GCONV_TRY(gconv_safetensors_read_floats(s->file, p->index, bank->weights));
  return read_biases(s, p, bank);
}

/* ---- BatchNorm2d ---- */

static gconv_status read_statistics(state *s, const part *p, const char *what, int32_t count, float **numbers) {
  size_t index = p->index;
  void *memory = NULL;
  if (strcmp(what, "weight") != 0 && !find_beside(s, p, what, &index))
    return fail_part(s, p, "has 1 dimension, and no '%s' beside it as a BatchNorm2d has", what);
  const gconv_bank_entry *entry = &s->file->entries[index];
  if (!gconv_safetensors_is_floating(s->file, index) || entry->dimensions != 1 || entry->shape[0] != (uint64_t)count)
    return fail_part(s, p, "normalises %" PRIu64 " channels by its '%s', and the layer before it has %d", entry->shape[0],
                     what, count);
  GCONV_TRY(gconv_allocate((size_t)count * sizeof(float), "the numbers of a layer", &memory));
  *numbers = memory;
  return gconv_safetensors_read_floats(s->file, index, memory);
}

void gconv_bank_fold(gconv_bank *bank, const float *scale, const float *offset, const float *mean, const float *variance,
                     double epsilon) {
  const size_t taps = (size_t)bank->channels * (size_t)bank->rows * (size_t)bank->columns;
  for (size_t k = 0; k < (size_t)bank->filters; k++) {
    const double factor = (double)scale[k] / sqrt((double)variance[k] + epsilon);
    for (size_t i = k * taps; i < (k + 1) * taps; i++)
      bank->weights[i] = (float)((double)bank->weights[i] * factor);
    bank->biases[k] = (float)(((double)bank->biases[k] - (double)mean[k]) * factor + (double)offset[k]);
  }
}

/* Its activation is that of the layer before it, which PyTorch applies behind it. */
static gconv_status fold_normalization(state *s, const part *p) {
  static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
  float *numbers[4] = {NULL, NULL, NULL, NULL};
  gconv_network *network = s->network;
  gconv_bank *bank = network->count > 0 ? &network->banks[network->count - 1] : NULL;
  if (!bank || !bank->weights)
    return fail_part(s, p, "has 1 dimension, and follows no layer into which a BatchNorm2d could be folded");
  gconv_status status = gconv_bank_add_biases(bank);
  for (int i = 0; i < 4 && status == GCONV_OK; i++)
    status = read_statistics(s, p, names[i], bank->filters, &numbers[i]);
  if (status == GCONV_OK)
    gconv_bank_fold(bank, numbers[0], numbers[1], numbers[2], numbers[3], EPSILON);
  for (int i = 0; i < 4; i++)
    gconv_release(numbers[i]);
  return status;
}

/* ---- The whole ---- */

static bool is_normalization(const state *s, size_t i) {
  return i < s->count && s->file->entries[s->parts[i].index].dimensions == 1;
}

/* Each item without `mean` and `residual` takes the next weights, and what normalises their outputs. */
static gconv_status add_items(state *s, const char *text) {
  size_t next = 0, number = 1;
  for (; text; number++) {
    item it;
    GCONV_TRY(parse_item(&text, number, &it));
    if (it.layer.kind != GCONV_LAYER_CONV) {
      GCONV_TRY(add_layer(s, &it.layer));
      continue;
    }
    if (next == s->count)
      return gconv_fail(GCONV_BAD_ARGUMENT, "--net: item %zu: the file has weights for no more layers", number);
    GCONV_TRY(add_weights(s, &s->parts[next++], &it));
    while (is_normalization(s, next))
      GCONV_TRY(fold_normalization(s, &s->parts[next++]));
  }
  if (next == s->count)
    return GCONV_OK;
  return gconv_fail(
      GCONV_BAD_ARGUMENT,
      "--net has %zu item%s, and the next weights are '%.*s': each layer with weights needs an item, such as relu, "
      "or none",
      number - 1, number == 2 ? "" : "s", SHOWN_BYTES, s->file->entries[s->parts[next].index].name);
}

gconv_status gconv_network_of_state(gconv_bank_file *file, const char *text, gconv_network *network) {
  state s = {.file = file, .network = network};
  network->layers = calloc(GCONV_NETWORK_MAX_LAYERS, sizeof *network->layers);
  network->banks = calloc(GCONV_NETWORK_MAX_LAYERS, sizeof *network->banks);
  gconv_status status = network->layers && network->banks
                            ? find_parts(&s)
                            : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", file->path);
  if (status == GCONV_OK)
    status = add_items(&s, text);
  for (size_t i = 0; i < network->count && status == GCONV_OK; i++)
    if (network->layers[i].bank)
      status = gconv_bank_check_finite(file->path, GCONV_BAD_FILE, network->layers[i].bank);
  if (status == GCONV_OK)
    status = gconv_network_check(file->path, GCONV_BAD_FILE, network);
  free(s.parts);
  return status;
}

/* SPDX-License-Identifier: MIT */
/* A state_dict of PyTorch's nn.Sequential, in safetensors, as a network: "0.weight", "2.weight" ... are its layers in the
 * order of their numbers. The text of --net gives what the file lacks: the modules between them, strides and padding. All
 * tensors must be understood, and the text must name a module for each number without tensors. */
#include "bank/network_state.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SHOWN_BYTES = 60 };
static const double EPSILON = 1e-5; /* epsilon of BatchNorm2d, by default */

typedef struct state {
  gconv_bank_file *file;
  gconv_state_modules modules;
  gconv_network *network;
  int64_t channels;      /* after the last layer; 0 before the first */
  bool flat;             /* the last layer was dense */
  bool warned_numbers;   /* a warning said that only modules with tensors are numbered */
  uint64_t position;     /* the number that the next module has */
  gconv_layer waiting;   /* it has the activation that a step in `steps` applies */
  double epsilon;        /* epsilon of BatchNorm2d after the last layer; below 0: not given */
  bool warned_epsilon;   /* a warning named the epsilon that is taken by default */
  gconv_net_step *steps; /* owned: steps after the last module with tensors that have not been taken yet */
  size_t step_count;
} state;

/* ---- Layers ---- */

static gconv_status add_layer(state *s, const gconv_layer *layer) {
  gconv_layer *added;
  return gconv_network_append(s->network, s->file->path, layer, gconv_layer_form_of(layer->kind)->has_bank, &added);
}

/* Finds the shape of a Linear layer's bank: K x (C * rows * columns) weights are a convolution of the whole input. */
static gconv_status shape_dense(const state *s, const gconv_state_module *m, const gconv_bank_entry *entry,
                                const gconv_net_item *item, gconv_bank_shape *shape) {
  const uint64_t features = entry->shape[1], given = (uint64_t)item->rows * (uint64_t)item->columns;
  uint64_t channels = s->channels > 0 ? (uint64_t)s->channels : given > 0 ? features / given : features;
  uint64_t pixels = channels > 0 && features % channels == 0 ? features / channels : 0;
  uint64_t side = (uint64_t)(sqrt((double)pixels) + 0.5), rows = given > 0 ? (uint64_t)item->rows : side;
  uint64_t columns = given > 0 ? (uint64_t)item->columns : side;
  if (item->shaped)
    return gconv_state_fail(s->file, m,
                            "is a dense layer, Linear, which has no stride, padding, dilation, groups and border");
  if (pixels == 0 || rows * columns != pixels)
    return gconv_state_fail(s->file, m,
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

/* Refuses a ConvTranspose2d. Its weights are inputs x outputs x rows x columns, and have the names of a Conv2d's weights. */
static gconv_status check_conv(const state *s, const gconv_state_module *m, const gconv_bank_entry *entry,
                               const gconv_net_item *item) {
  const uint64_t *shape = entry->shape, channels = (uint64_t)s->channels;
  const bool biased = m->entries[GCONV_STATE_BIAS] && gconv_state_entry(s->file, m, GCONV_STATE_BIAS)->dimensions == 1;
  const uint64_t biases = biased ? gconv_state_entry(s->file, m, GCONV_STATE_BIAS)->shape[0] : shape[0];
  if (item->rows > 0)
    return gconv_state_fail(s->file, m, "is no dense layer: its rows and columns are in the file");
  if ((biases != shape[0] && biases == shape[1] * (uint64_t)item->layer.groups) ||
      (channels > 0 && shape[1] * (uint64_t)item->layer.groups != channels && shape[0] == channels))
    return gconv_state_fail(s->file, m,
                            "has the shape of a ConvTranspose2d, %" PRIu64 " x %" PRIu64
                            " (inputs x outputs), behind %" PRIu64 " channels: transposed convolutions are not read",
                            shape[0], shape[1], channels);
  return GCONV_OK;
}

/* With "same", PyTorch pads filters of even sizes more at the end than at the beginning. With a stride, PyTorch has no
 * "same". */
static gconv_status settle_padding(const state *s, const gconv_state_module *m, gconv_bank_shape shape, gconv_layer *layer) {
  if (layer->padding != GCONV_LAYER_SAME || (shape.rows % 2 == 1 && shape.columns % 2 == 1))
    return GCONV_OK;
  if (layer->stride_y > 1 || layer->stride_x > 1)
    return gconv_state_fail(s->file, m,
                            "has filters of %" PRIu64 " x %" PRIu64 " and a stride: say padding:N or valid in --net",
                            shape.rows, shape.columns);
  layer->padding = GCONV_LAYER_SAME_UPPER;
  return GCONV_OK;
}

/* Makes weight = g * v / |v|, where |v| is taken over a whole filter. */
static gconv_status apply_length(state *s, const gconv_state_module *m, gconv_bank *bank) {
  const size_t taps = (size_t)bank->channels * (size_t)bank->rows * (size_t)bank->columns;
  GCONV_FREED float *lengths = NULL;
  GCONV_TRY(gconv_state_read(s->file, m, GCONV_STATE_LENGTH, bank->filters, 1, &lengths));
  for (size_t k = 0; k < (size_t)bank->filters; k++) {
    float *weights = bank->weights + k * taps;
    double squares = 0;
    for (size_t i = 0; i < taps; i++)
      squares += (double)weights[i] * (double)weights[i];
    for (size_t i = 0; i < taps; i++)
      weights[i] = (float)((double)lengths[k] * (double)weights[i] / sqrt(squares));
  }
  return GCONV_OK;
}

static gconv_status read_bank(state *s, const gconv_state_module *m, gconv_state_part source, gconv_bank_shape shape,
                              gconv_bank *bank) {
  GCONV_TRY(gconv_bank_check_shape(s->file->path, shape));
  GCONV_TRY(gconv_bank_allocate(shape, bank));
  GCONV_TRY(gconv_safetensors_read_floats(s->file, m->entries[source] - 1, bank->weights));
  if (source == GCONV_STATE_DIRECTION)
    GCONV_TRY(apply_length(s, m, bank));
  return m->entries[GCONV_STATE_BIAS] ? gconv_state_read(s->file, m, GCONV_STATE_BIAS, bank->filters, 0, &bank->biases)
                                      : GCONV_OK;
}

static gconv_status add_weights(state *s, const gconv_state_module *m, const gconv_net_item *item) {
  const gconv_state_part source = gconv_state_source(m);
  const gconv_bank_entry *entry = gconv_state_entry(s->file, m, source);
  const bool dense = gconv_state_is_dense(s->file, m);
  gconv_bank_shape shape = {entry->shape[0], entry->shape[1], entry->shape[2], entry->shape[3]};
  gconv_layer layer = item->layer;
  layer.activation = GCONV_ACTIVATION_NONE;
  layer.slope = 0;
  GCONV_TRY(dense ? shape_dense(s, m, entry, item, &shape) : check_conv(s, m, entry, item));
  if (dense)
    layer.padding = GCONV_LAYER_VALID;
  GCONV_TRY(settle_padding(s, m, shape, &layer));
  GCONV_TRY(add_layer(s, &layer));
  if (s->channels == 0) {
    uint64_t channels = shape.channels * (uint64_t)layer.groups;
    s->network->channels = channels <= INT32_MAX ? (int32_t)channels : INT32_MAX;
    s->network->height = dense ? (int32_t)shape.rows : 0;
    s->network->width = dense ? (int32_t)shape.columns : 0;
  }
  s->channels = (int64_t)shape.filters;
  s->flat = dense;
  s->waiting = item->layer;
  s->epsilon = item->epsilon;
  return read_bank(s, m, source, shape, &s->network->banks[s->network->count - 1]);
}

/* ---- BatchNorm2d ---- */

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

/* Adds a layer that leaves each channel as it is, for a BatchNorm2d that cannot be folded into the layer before. */
static gconv_status add_identity(state *s, int64_t channels) {
  const gconv_layer layer = {.padding = GCONV_LAYER_VALID,
                             .stride_y = 1,
                             .stride_x = 1,
                             .dilation_y = 1,
                             .dilation_x = 1,
                             .groups = (int32_t)channels};
  const gconv_bank_shape shape = {(uint64_t)channels, 1, 1, 1};
  GCONV_TRY(gconv_bank_check_shape(s->file->path, shape));
  GCONV_TRY(add_layer(s, &layer));
  gconv_bank *bank = &s->network->banks[s->network->count - 1];
  GCONV_TRY(gconv_bank_allocate(shape, bank));
  for (int64_t k = 0; k < channels; k++)
    bank->weights[k] = 1;
  if (s->channels == 0)
    s->network->channels = (int32_t)channels;
  s->channels = channels;
  return GCONV_OK;
}

/* Folds a BatchNorm2d into the layer before it. If an activation or another step is between, folds it into an identity
 * layer. */
static gconv_status add_normalization(state *s, const gconv_state_module *m) {
  static const struct {
    gconv_state_part part;
    float otherwise;
  } parts[] = {{GCONV_STATE_WEIGHT, 1}, {GCONV_STATE_BIAS, 0}, {GCONV_STATE_MEAN, 0}, {GCONV_STATE_VARIANCE, 1}};
  float *numbers[4] = {NULL, NULL, NULL, NULL};
  const gconv_bank_entry *mean = gconv_state_entry(s->file, m, GCONV_STATE_MEAN);
  if (mean->dimensions != 1 || mean->shape[0] < 1 || mean->shape[0] > INT32_MAX ||
      (s->channels > 0 && mean->shape[0] != (uint64_t)s->channels))
    return gconv_state_fail(s->file, m, "normalises %" PRIu64 " channels, and the layer before it has %" PRId64,
                            mean->shape[0], s->channels);
  if (!gconv_network_open_layer(s->network))
    GCONV_TRY(add_identity(s, (int64_t)mean->shape[0]));
  gconv_bank *bank = &s->network->banks[s->network->count - 1];
  gconv_status status = gconv_bank_add_biases(bank);
  for (int i = 0; i < 4 && status == GCONV_OK; i++)
    status = gconv_state_read(s->file, m, parts[i].part, bank->filters, parts[i].otherwise, &numbers[i]);
  if (status == GCONV_OK)
    gconv_bank_fold(bank, numbers[0], numbers[1], numbers[2], numbers[3], s->epsilon >= 0 ? s->epsilon : EPSILON);
  if (s->epsilon < 0 && !s->warned_epsilon) {
    s->warned_epsilon = true;
    gconv_warn("%s: its BatchNorm2d are taken to have eps=%g, as by default in PyTorch; --net can say eps:E", s->file->path,
               EPSILON);
  }
  for (int i = 0; i < 4; i++)
    gconv_release(numbers[i]);
  return status;
}

/* ---- Steps without weights ---- */

/* Takes the first waiting step. */
static gconv_status take_step(state *s) {
  const gconv_net_step step = s->steps[0];
  gconv_layer *layer = gconv_network_open_layer(s->network);
  memmove(s->steps, s->steps + 1, --s->step_count * sizeof *s->steps);
  switch (step.does) {
  case GCONV_NET_LAYER:
    return add_layer(s, &(gconv_layer){.kind = step.kind});
  case GCONV_NET_ACTIVATION:
    if (layer) {
      layer->activation = s->waiting.activation;
      layer->slope = s->waiting.slope;
    }
    return GCONV_OK;
  case GCONV_NET_NOTHING:
  case GCONV_NET_FLATTEN:
    break;
  }
  return GCONV_OK;
}

/* Returns how many numbers of an nn.Sequential a step takes. */
static uint64_t modules_of(gconv_net_step step) {
  return step.does == GCONV_NET_LAYER ? (uint64_t)gconv_layer_form_of(step.kind)->modules : 1;
}

/* Returns how many numbers the waiting steps take. *flatten: a Flatten is among them. */
static uint64_t count_steps(const state *s, bool *flatten) {
  uint64_t count = 0;
  *flatten = false;
  for (size_t i = 0; i < s->step_count; i++) {
    count += modules_of(s->steps[i]);
    *flatten = *flatten || s->steps[i].does == GCONV_NET_FLATTEN;
  }
  return count;
}

static gconv_status fail_gap(const state *s, const gconv_state_module *m, uint64_t gap, uint64_t named) {
  return gconv_state_fail(s->file, m,
                          "has a number that leaves room for %" PRIu64
                          " module%s without tensors before it, and --net names %" PRIu64
                          " there: activations, mean, flatten, dropout, identity and, before a layer, pad; others, such as "
                          "pooling, are not read",
                          gap, gap == 1 ? "" : "s", named);
}

/* Takes the steps before a BatchNorm2d: one for each number without tensors before its own number. */
static gconv_status take_steps_before(state *s, const gconv_state_module *m) {
  uint64_t gap = m->number - s->position;
  bool flatten;
  if (gap > 0 && (!s->modules.counts || count_steps(s, &flatten) < gap))
    return fail_gap(s, m, gap, count_steps(s, &flatten));
  while (gap > 0) {
    gap -= modules_of(s->steps[0]);
    GCONV_TRY(take_step(s));
  }
  s->position = m->number + 1;
  return GCONV_OK;
}

/* Takes all steps before a module with weights. PyTorch needs a Flatten between feature maps and a dense layer; --net may
 * leave it out. */
static gconv_status take_all_steps(state *s, const gconv_state_module *m, bool padded) {
  const bool dense = gconv_state_is_dense(s->file, m);
  const uint64_t gap = m->number - s->position;
  bool flatten;
  const uint64_t named = count_steps(s, &flatten) + padded;
  const bool hidden = dense && !s->flat && !flatten && gap == named + 1;
  if (s->modules.counts && gap != named && !hidden)
    return fail_gap(s, m, gap, named);
  if (s->modules.counts && dense && !s->flat && s->channels > 0 && !flatten && !hidden)
    return gconv_state_fail(
        s->file, m,
        "is a dense layer after feature maps, and its number leaves no room for a Flatten between: such a layer acts "
        "along their rows, which no layer of gconv does");
  if (!s->modules.counts && gap != named && !hidden && !s->warned_numbers) {
    s->warned_numbers = true;
    gconv_warn("%s: the numbers of its tensors do not count what --net names before '%.*s': they are taken for the order of "
               "layers alone",
               s->file->path, SHOWN_BYTES, gconv_state_name(s->file, m));
  }
  while (s->step_count > 0)
    GCONV_TRY(take_step(s));
  s->position = m->number + 1;
  return GCONV_OK;
}

static gconv_status wait_for(state *s, const gconv_net_item *item) {
  for (size_t i = 0; i < item->count; i++) {
    GCONV_GROW(s->steps, s->step_count, "%s: no memory for a network", s->file->path);
    s->steps[s->step_count++] = item->steps[i];
  }
  return GCONV_OK;
}

/* ---- All items ---- */

static gconv_status add_normalizations(state *s, size_t *next) {
  for (; *next < s->modules.count && gconv_state_is_normalization(&s->modules.items[*next]); ++*next) {
    GCONV_TRY(take_steps_before(s, &s->modules.items[*next]));
    GCONV_TRY(add_normalization(s, &s->modules.items[*next]));
  }
  return GCONV_OK;
}

/* Each item of a layer takes the next module with weights. The number of a BatchNorm2d says before which of the waiting
 * steps it stands. */
static gconv_status add_items(state *s, const char *text) {
  size_t next = 0, number = 1;
  for (; text; number++) {
    gconv_net_item item;
    GCONV_TRY(gconv_net_item_parse(&text, number, &item));
    if (item.weights) {
      GCONV_TRY(add_normalizations(s, &next));
      if (next == s->modules.count)
        return gconv_fail(GCONV_BAD_ARGUMENT, "item %zu of --net: the file has weights for no more layers", number);
      GCONV_TRY(take_all_steps(s, &s->modules.items[next], item.padded));
      GCONV_TRY(add_weights(s, &s->modules.items[next++], &item));
    }
    GCONV_TRY(wait_for(s, &item));
  }
  GCONV_TRY(add_normalizations(s, &next));
  while (s->step_count > 0)
    GCONV_TRY(take_step(s));
  if (next == s->modules.count)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "there is %s in --net for the weights '%.*s': each layer with weights needs an item, such as "
                    "relu, or none",
                    number == 1 ? "no item" : "no further item", SHOWN_BYTES,
                    gconv_state_name(s->file, &s->modules.items[next]));
}

gconv_status gconv_network_of_state(gconv_bank_file *file, const char *text, gconv_network *network) {
  state s = {.file = file, .network = network, .epsilon = -1};
  gconv_status status = gconv_state_find(file, &s.modules);
  s.position = s.modules.first;
  s.warned_numbers = s.modules.own;
  GCONV_THEN(status, add_items(&s, text));
  free(s.modules.items);
  free(s.steps);
  return status;
}

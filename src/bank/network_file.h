/* SPDX-License-Identifier: MIT */
/* The file of a network, with what a checkpoint adds to it: gconv_network_read() and gconv_network_write() read and write it
 * without these extras. docs/filter-formats.md describes the file. */
#pragma once

#include "bank/safetensors.h"
#include "gconv_learn.h"

enum { GCONV_NETWORK_MAX_LAYERS = 4096 };

/* Names of extra tensors begin with this. */
#define GCONV_EXTRA_PREFIX "optimizer."

/* What a checkpoint has besides the network. Zero-initialise before reading. */
typedef struct gconv_network_extras {
  gconv_named_array *tensors; /* their names begin with GCONV_EXTRA_PREFIX; owned, if they were read */
  size_t count;
  char *json; /* a JSON object, the entry "gconv-checkpoint" of __metadata__, or NULL; owned, if it was read */
} gconv_network_extras;

/* Frees all members of *extras, and zeroes it. NULL is allowed. */
void gconv_network_extras_free(gconv_network_extras *extras);

/* Returns the extra tensor called `name`, or NULL. */
const gconv_named_array *gconv_network_extras_find(const gconv_network_extras *extras, const char *name);

/* Reads into *network and *extras, which must be empty. If `extras` is NULL, extras are skipped. */
gconv_status gconv_network_file_read(const char *path, gconv_network *network, gconv_network_extras *extras);

/* Reads a file whose bytes are in memory. `name` is for error texts. */
gconv_status gconv_network_file_read_bytes(const char *name, uint8_t *bytes, size_t size, gconv_network *network,
                                           gconv_network_extras *extras);

/* Writes the file whole or not at all. `extras` may be NULL. */
gconv_status gconv_network_file_write(const char *path, const gconv_network *network, const gconv_network_extras *extras);

/* Fails with `status` unless the layers fit each other: channels from layer to layer, groups, classes, means, and weights
 * that are finite. `where` begins the text. */
gconv_status gconv_network_check(const char *where, gconv_status status, const gconv_network *network);

/* Checks a network that a caller made: first its arrays, kinds and numbers, then all that gconv_network_check() checks. */
gconv_status gconv_network_check_given(const gconv_network *network);

/* Appends a layer to a network whose arrays have room for GCONV_NETWORK_MAX_LAYERS, and gives it its bank, if it has one.
 * Fails at the limit. */
gconv_status gconv_network_append(gconv_network *network, const char *where, const gconv_layer *layer, bool has_bank,
                                  gconv_layer **added);
/* Returns the last layer if it has a bank and no activation yet; else NULL. */
gconv_layer *gconv_network_open_layer(const gconv_network *network);

/* Moves the notes: names of classes, label, loss, seed, value of white, order of colours, features, palette, and notes of
 * columns and of training. Layers, shapes, mean and std stay. */
void gconv_network_move_notes(gconv_network *from, gconv_network *to);

/* Fails unless `network`, which `function` is about to fill, is empty. */
gconv_status gconv_network_check_empty(const char *function, const gconv_network *network);

/* The first members of each graph (src/graph/graph.h). gconv_network_free() frees a graph by them. */
typedef struct gconv_graph_head {
  void (*free)(struct gconv_graph *graph);
  char *obstacle; /* owned: why it is no chain of layers */
} gconv_graph_head;

/* ---- Models of other programs ---- */

/* Appends layers with the weights of a state_dict to *network, which is empty except for its arrays. net is the text that
 * gconv_network_import() takes. On failure the caller frees *network. */
gconv_status gconv_network_of_state(gconv_bank_file *file, const char *net, gconv_network *network);
/* Takes the notes, such as names of classes and the value of white, from `text`: the JSON of gconv_network_to_json() that
 * gconv put into an ONNX model, or NULL. Its layers are not taken. Warns if the notes do not fit the network's channels and
 * `outputs` (0: not known). */
gconv_status gconv_network_take_notes(const char *where, const char *text, int64_t outputs, gconv_network *network);

/* Folds a batch normalisation, scale * (v - mean) / sqrt(variance + epsilon) + offset of each filter, into a bank that has
 * biases. */
void gconv_bank_fold(gconv_bank *bank, const float *scale, const float *offset, const float *mean, const float *variance,
                     double epsilon);

/* ---- Everything but the weights ---- */

/* The names of the activations in files and texts of networks, by gconv_activation. */
enum { GCONV_ACTIVATIONS = GCONV_ACTIVATION_SOFTMAX + 1 };
extern const char *const gconv_activation_words[GCONV_ACTIVATIONS];
/* Finds the activation that the text from `begin` to `end` names. A sign and a slope may follow the name: "leaky=0.1",
 * "leaky:0.1". *sign: the place of the sign; NULL: there is none. */
bool gconv_activation_find(const char *begin, const char *end, gconv_activation *activation, const char **sign);
/* True if the activation uses gconv_layer.slope. */
bool gconv_activation_has_slope(gconv_activation activation);

/* Fills *network, which is empty, from the text of __metadata__["gconv"]. Its banks stay empty. On failure the caller frees
 * it. */
gconv_status gconv_network_of_json(const char *where, const char *text, gconv_network *network);

/* Makes the text of __metadata__["gconv"]. The caller frees it. GCONV_BAD_ARGUMENT if a text of the network is not UTF-8, or
 * if `trained` or `others` is no JSON object. */
gconv_status gconv_network_to_json(const gconv_network *network, char **text);

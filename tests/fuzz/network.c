/* SPDX-License-Identifier: MIT */
/* What reads networks, fed with anything (libFuzzer): FUZZ_SUBJECT "" is the reader of networks and checkpoints, "onnx" and
 * "safetensors" make networks of models and of weights. Networks that are taken must be sound. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds) {
  if (!holds)
    abort();
}

static void check_network(const gconv_network *network) {
  char *json = NULL;
  demand(network->count >= 1 && network->count <= GCONV_NETWORK_MAX_LAYERS);
  demand(gconv_network_check("input", GCONV_BAD_FILE, network) == GCONV_OK);
  for (size_t i = 0; i < network->count; i++)
    if (network->layers[i].kind == GCONV_LAYER_CONV)
      demand(gconv_bank_check(network->layers[i].bank) == GCONV_OK);
  demand(gconv_network_to_json(network, &json) == GCONV_OK);
  free(json);
}

static gconv_status import(uint8_t *bytes, size_t size, gconv_network *network) {
  gconv_bank_file *file = NULL;
  gconv_network made = {.layers = calloc(GCONV_NETWORK_MAX_LAYERS, sizeof *made.layers), /* as network_import.c does */
                        .banks = calloc(GCONV_NETWORK_MAX_LAYERS, sizeof *made.banks)};
  demand(made.layers && made.banks);
  gconv_status status = gconv_bank_file_open_bytes("input", bytes, size, FUZZ_SUBJECT, &file);
  if (status == GCONV_OK && strcmp(FUZZ_SUBJECT, "onnx") == 0) {
    gconv_graph *graph = NULL;
    status = gconv_graph_read(file, &graph);
    GCONV_THEN(status, gconv_graph_read_chain(file, graph, &made, &(bool){false}));
    gconv_graph_free(graph);
  } else if (status == GCONV_OK) {
    status = gconv_network_of_state(file, "relu /2, mean, leaky:0.1 padding:1", &made);
  }
  gconv_bank_file_close(file);
  for (size_t i = 0; i < made.count && status == GCONV_OK; i++)
    if (made.layers[i].bank)
      status = gconv_bank_check_finite("input", GCONV_BAD_FILE, made.layers[i].bank);
  if (status == GCONV_OK)
    *network = made;
  else
    gconv_network_free(&made);
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *bytes = malloc(size ? size : 1); /* no more than there are, so that a step too far is seen */
  gconv_network network = {0};
  gconv_network_extras extras = {0};
  demand(bytes != NULL);
  if (size > 0)
    memcpy(bytes, data, size);
  if ((FUZZ_SUBJECT[0] ? import(bytes, size, &network)
                       : gconv_network_file_read_bytes("input", bytes, size, &network, &extras)) == GCONV_OK)
    check_network(&network);
  else
    demand(!network.layers && !network.banks && !network.classes && !extras.tensors && !extras.json);
  gconv_network_free(&network);
  gconv_network_extras_free(&extras);
  free(bytes);
  return 0;
}

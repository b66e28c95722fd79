/* SPDX-License-Identifier: MIT */
/* What the kinds of layers share: layers without a bank and without fields, and adding a layer to a network. */
#include "bank/network_onnx.h"

const gconv_onnx_operator gconv_layer_no_operators[] = {{0}};

gconv_status gconv_layer_take_bare(const gconv_json_part *part, gconv_layer *layer) {
  (void)part;
  (void)layer;
  return GCONV_OK;
}

bool gconv_layer_put_bare(const gconv_layer *layer, json_t *object) {
  (void)layer;
  return object != NULL;
}

gconv_status gconv_layer_check_bare(const gconv_layer *layer, const char *where) {
  if (layer->bank || layer->activation != GCONV_ACTIVATION_NONE || layer->border != GCONV_BORDER_ZERO)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: a layer of this kind has no bank, no activation and no border", where);
  return GCONV_OK;
}

gconv_status gconv_network_append(gconv_network *network, const char *where, const gconv_layer *layer, bool has_bank,
                                  gconv_layer **added) {
  if (network->count == GCONV_NETWORK_MAX_LAYERS)
    return gconv_fail(GCONV_TOO_LARGE, "%s: more than %d layers, which is the limit", where, GCONV_NETWORK_MAX_LAYERS);
  *added = &network->layers[network->count];
  **added = *layer;
  (*added)->bank = has_bank ? &network->banks[network->count] : NULL;
  network->count++;
  return GCONV_OK;
}

gconv_layer *gconv_network_open_layer(const gconv_network *network) {
  gconv_layer *last = network->count > 0 ? &network->layers[network->count - 1] : NULL;
  return last && last->bank && last->activation == GCONV_ACTIVATION_NONE ? last : NULL;
}

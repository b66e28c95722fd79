/* SPDX-License-Identifier: MIT */
/* What the kinds of layers share: layers without a bank and without fields, adding a layer to a network, and what a layer's
 * bank says. */
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

/* ---- What the bank says ---- */

static int32_t given_or(int32_t given, bool of_bank, int32_t bank, int32_t otherwise) {
  return given != 0 ? given : of_bank ? bank : otherwise;
}

gconv_layer gconv_layer_settled(const gconv_layer *layer) {
  const gconv_bank *bank = layer->bank;
  const bool has = bank->has_geometry, all = has && layer->padding == GCONV_LAYER_DEFAULT;
  gconv_layer settled = *layer;
  if (layer->padding == GCONV_LAYER_DEFAULT)
    settled.padding = !has               ? GCONV_LAYER_SAME
                      : bank->same_upper ? GCONV_LAYER_SAME_UPPER
                      : bank->same_lower ? GCONV_LAYER_SAME_LOWER
                                         : GCONV_LAYER_EXPLICIT;
  if (settled.padding != GCONV_LAYER_EXPLICIT)
    settled.pad_top = settled.pad_left = settled.pad_bottom = settled.pad_right = 0;
  else if (all)
    settled.pad_top = bank->pad_top, settled.pad_left = bank->pad_left, settled.pad_bottom = bank->pad_bottom,
    settled.pad_right = bank->pad_right;
  settled.stride_y = given_or(layer->stride_y, has, bank->stride_y, 1);
  settled.stride_x = given_or(layer->stride_x, has, bank->stride_x, 1);
  settled.dilation_y = given_or(layer->dilation_y, has, bank->dilation_y, 1);
  settled.dilation_x = given_or(layer->dilation_x, has, bank->dilation_x, 1);
  settled.groups = given_or(layer->groups, has && bank->groups > 1, bank->groups, 0);
  return settled;
}

/* SPDX-License-Identifier: MIT */
/* Functions that the kinds of layers share: kinds without a bank and fields, appending a layer to a network, and defaults
 * from a layer's bank. */
#include "bank/bank.h"
#include "bank/kind.h"
#include "bank/network_file.h"
#include "base/memory.h"

gconv_status gconv_layer_take_bare(const gconv_json_part *part, gconv_layer *layer) {
  return GCONV_OK;
}

bool gconv_layer_put_bare(const gconv_layer *layer, json_t *object) {
  return object != NULL;
}

gconv_status gconv_layer_check_bare(const gconv_layer *layer, const char *where) {
  if (layer->bank || layer->activation != GCONV_ACTIVATION_NONE || layer->border != GCONV_BORDER_ZERO)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: a layer of this kind has no bank, no activation and no border", where);
  return GCONV_OK;
}

/* ---- Windows, and earlier outputs ---- */

gconv_status gconv_layer_take_window(const gconv_json_part *part, gconv_layer *layer) {
  int32_t *const window[] = {&layer->window_y, &layer->window_x}, *const stride[] = {&layer->stride_y, &layer->stride_x};
  layer->stride_y = layer->stride_x = 1;
  if (!json_object_get(part->json, "window"))
    return gconv_json_fail(part, GCONV_BAD_FILE, "it has no 'window', [rows, columns]");
  GCONV_TRY(gconv_json_take_numbers(part, "window", 1, 2, window));
  return gconv_json_take_numbers(part, "stride", 1, 2, stride);
}

bool gconv_layer_put_window(const gconv_layer *layer, json_t *object) {
  return gconv_json_put(object, "window", json_pack("[i, i]", layer->window_y, layer->window_x)) &&
         gconv_json_put(object, "stride", json_pack("[i, i]", layer->stride_y, layer->stride_x));
}

gconv_status gconv_layer_check_window(const gconv_layer *layer, const char *where) {
  GCONV_TRY(gconv_layer_check_bare(layer, where));
  if (layer->window_y < 1 || layer->window_x < 1 || layer->stride_y < 1 || layer->stride_x < 1)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: windows of %d x %d with the stride %d,%d: all must be at least 1", where,
                      layer->window_y, layer->window_x, layer->stride_y, layer->stride_x);
  return GCONV_OK;
}

gconv_status gconv_layer_follow_window(const gconv_layer *layer, const gconv_layer_shape *other, gconv_layer_shape *at) {
  if (at->height == 0) {
    at->moved = true;
    return GCONV_OK;
  }
  if (at->height < layer->window_y || at->width < layer->window_x)
    return gconv_fail(GCONV_BAD_ARGUMENT, "windows of %d x %d (rows, columns) do not lie inside an input of %d x %d",
                      layer->window_y, layer->window_x, at->height, at->width);
  at->height = (at->height - layer->window_y) / layer->stride_y + 1;
  at->width = (at->width - layer->window_x) / layer->stride_x + 1;
  return GCONV_OK;
}

gconv_status gconv_layer_take_from(const gconv_json_part *part, gconv_layer *layer) {
  int32_t number = -1, *const from[] = {&number};
  GCONV_TRY(gconv_json_take_numbers(part, "from", 0, 1, from));
  layer->from = number + 1;
  return GCONV_OK;
}

bool gconv_layer_put_from(const gconv_layer *layer, json_t *object) {
  return layer->from == 0 || gconv_json_put(object, "from", json_integer(layer->from - 1));
}

gconv_status gconv_layer_enlarge(int32_t down, int32_t across, gconv_layer_shape *at) {
  at->moved = at->moved || at->height == 0;
  if (at->height > INT32_MAX / down || at->width > INT32_MAX / across)
    return gconv_fail(GCONV_TOO_LARGE, "it makes an image of more than %d rows or columns", INT32_MAX);
  at->height *= down;
  at->width *= across;
  return GCONV_OK;
}

gconv_status gconv_layer_check_sizes(const char *does, const gconv_layer_shape *at, const gconv_layer_shape *other) {
  if (at->height == 0 || other->height == 0 || (at->height == other->height && at->width == other->width))
    return GCONV_OK;
  return gconv_fail(
      GCONV_BAD_ARGUMENT,
      "%s an output of %d x %d (height, width) to one of %d x %d: the sizes must be equal. Pools leave out rows "
      "and columns that fill no window: take images, or a --patch, whose sides the pools divide",
      does, other->height, other->width, at->height, at->width);
}

gconv_status gconv_layer_check_weights(const gconv_bank *bank, const char *where) {
  if (!bank || !bank->weights)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s has no bank, or one without weights", where);
  if (bank->filters < 1 || bank->channels < 1 || bank->rows < 1 || bank->columns < 1)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: a bank of %d filters, %d channels and %d x %d taps: all must be at least 1",
                      where, bank->filters, bank->channels, bank->rows, bank->columns);
  const size_t sizes[] = {(size_t)bank->filters, (size_t)bank->channels, (size_t)bank->rows, (size_t)bank->columns,
                          sizeof *bank->weights};
  if (gconv_checked_product(5, sizes) > PTRDIFF_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "%s: a bank of %d x %d x %d x %d weights is larger than any memory", where,
                      bank->filters, bank->channels, bank->rows, bank->columns);
  return gconv_bank_check_finite(where, GCONV_BAD_ARGUMENT, bank);
}

/* ---- Networks ---- */

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

/* ---- Defaults from the bank ---- */

static int32_t given_or(int32_t given, bool of_bank, int32_t bank, int32_t otherwise) {
  return given != 0 ? given : of_bank ? bank : otherwise;
}

gconv_layer gconv_layer_settled(const gconv_layer *layer) {
  const gconv_bank *bank = layer->bank;
  const bool has = bank->has_geometry, takes_pads = has && layer->padding == GCONV_LAYER_DEFAULT;
  gconv_layer settled = *layer;
  if (layer->padding == GCONV_LAYER_DEFAULT)
    settled.padding = !has               ? GCONV_LAYER_SAME
                      : bank->same_upper ? GCONV_LAYER_SAME_UPPER
                      : bank->same_lower ? GCONV_LAYER_SAME_LOWER
                                         : GCONV_LAYER_EXPLICIT;
  if (settled.padding != GCONV_LAYER_EXPLICIT)
    settled.pad_top = settled.pad_left = settled.pad_bottom = settled.pad_right = 0;
  else if (takes_pads)
    settled.pad_top = bank->pad_top, settled.pad_left = bank->pad_left, settled.pad_bottom = bank->pad_bottom,
    settled.pad_right = bank->pad_right;
  settled.stride_y = given_or(layer->stride_y, has, bank->stride_y, 1);
  settled.stride_x = given_or(layer->stride_x, has, bank->stride_x, 1);
  settled.dilation_y = given_or(layer->dilation_y, has, bank->dilation_y, 1);
  settled.dilation_x = given_or(layer->dilation_x, has, bank->dilation_x, 1);
  settled.groups = given_or(layer->groups, has && bank->groups > 1, bank->groups, 0);
  return settled;
}

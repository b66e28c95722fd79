/* SPDX-License-Identifier: MIT */
/* Makes networks of models that other programs wrote. */
#include "bank/network_file.h"
#include "base/arguments.h"

#include <stdlib.h>
#include <string.h>

static gconv_status import(gconv_bank_file *file, const char *net, gconv_network *network) {
  const bool onnx = file->syntax == &gconv_bank_syntax_onnx;
  if (!onnx && file->syntax != &gconv_bank_syntax_safetensors)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: networks are made of ONNX and safetensors, not of %s", file->path,
                      file->syntax->name);
  if (onnx && net)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: --net is for weights alone: an ONNX model says itself what its layers are",
                      file->path);
  if (onnx)
    return gconv_network_of_onnx(file, network);
  if (!net)
    return gconv_fail(
        GCONV_BAD_ARGUMENT,
        "%s: has weights alone: say with --net what becomes of each layer's outputs, such as 'relu, relu, softmax'",
        file->path);
  return gconv_network_of_state(file, net, network);
}

/* Imports into a network with room for GCONV_NETWORK_MAX_LAYERS layers: readers append layers. */
static gconv_status import_whole(gconv_bank_file *file, const char *net, gconv_network *network) {
  network->layers = calloc(GCONV_NETWORK_MAX_LAYERS, sizeof *network->layers);
  network->banks = calloc(GCONV_NETWORK_MAX_LAYERS, sizeof *network->banks);
  if (!network->layers || !network->banks)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", file->path);
  GCONV_TRY(import(file, net, network));
  for (size_t i = 0; i < network->count; i++)
    if (network->layers[i].bank)
      GCONV_TRY(gconv_bank_check_finite(file->path, GCONV_BAD_FILE, network->layers[i].bank));
  return gconv_network_check(file->path, GCONV_BAD_FILE, network);
}

gconv_status gconv_network_import(const char *path, const char *net, gconv_network *network) {
  gconv_bank_file *file = NULL;
  gconv_network made = {0};
  GCONV_NEED(path);
  GCONV_NEED(network);
  GCONV_TRY(gconv_network_check_empty("gconv_network_import", network));
  GCONV_TRY(gconv_bank_file_open_path(path, NULL, &file));
  gconv_status status = import_whole(file, net, &made);
  gconv_bank_file_close(file);
  if (status == GCONV_OK)
    *network = made;
  else
    gconv_network_free(&made);
  return status;
}

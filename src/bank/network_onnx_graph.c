/* SPDX-License-Identifier: MIT */
/* What makers of layers read of an ONNX model: constants, lists of integers, and the layers before. */
#include "bank/network_onnx.h"
#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

gconv_status gconv_onnx_no_memory(const gconv_onnx_graph *g) {
  return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", g->model->file->path);
}

bool gconv_onnx_is_one_pixel(const gconv_onnx_graph *g) {
  return g->height == 1 && g->width == 1;
}

enum { MOST_USES = 64 /* the most numbers that are read, for each byte of the file */ };

/* ---- Constants ---- */

uint64_t gconv_onnx_count_numbers(const gconv_onnx_tensor *tensor) {
  uint64_t count = 1;
  for (size_t i = 0; i < tensor->dimensions && i < GCONV_BANK_DIMENSIONS; i++) {
    uint64_t size = tensor->shape[i] > 0 ? (uint64_t)tensor->shape[i] : 0;
    count = size > 0 && count > UINT64_MAX / size ? UINT64_MAX : count * size;
  }
  return count;
}

gconv_status gconv_onnx_find_constant(const gconv_onnx_graph *g, const gconv_onnx_node *n, int input, const char *what,
                                      const gconv_onnx_tensor **tensor) {
  *tensor = gconv_onnx_has_input(n, input) ? gconv_onnx_find_tensor(g->model, n->inputs[input]) : NULL;
  if (!*tensor)
    return gconv_onnx_fail_node(
        n, GCONV_UNSUPPORTED, "takes its %s from what other nodes compute: only initialisers and Constants are read", what);
  if (!gconv_onnx_is_floating((*tensor)->type) || (*tensor)->dimensions > GCONV_BANK_DIMENSIONS)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has %s that are not float, double, float16 or bfloat16", what);
  return GCONV_OK;
}

gconv_status gconv_onnx_read_numbers(gconv_onnx_graph *g, const gconv_onnx_node *n, const gconv_onnx_tensor *tensor,
                                     float **numbers) {
  gconv_bank_file *file = g->model->file;
  const uint64_t count = gconv_onnx_count_numbers(tensor);
  void *memory = NULL;
  if (count == 0 || count > GCONV_BANK_MAX_WEIGHTS)
    return gconv_onnx_fail_node(n, GCONV_TOO_LARGE, "has a tensor of %" PRIu64 " numbers: there can be 1 to %d", count,
                                GCONV_BANK_MAX_WEIGHTS);
  g->claimed += tensor->external ? 0 : count;
  if (g->claimed / MOST_USES > file->source.size + (UINT64_C(1) << 18))
    return gconv_fail(GCONV_TOO_LARGE,
                      "%s: its nodes share weights so often that all together are more than %d times as large "
                      "as the file: that is the limit",
                      file->path, MOST_USES);
  GCONV_TRY(gconv_onnx_tensor_check(file, tensor, count));
  GCONV_TRY(gconv_allocate((size_t)count * sizeof(float), "the weights of a layer", &memory));
  gconv_status status = gconv_onnx_tensor_elements(file, tensor, (size_t)count, memory);
  if (status == GCONV_OK)
    *numbers = memory;
  else
    gconv_release(memory);
  return status;
}

gconv_status gconv_onnx_read_floats(gconv_onnx_graph *g, const gconv_onnx_node *n, int input, const char *what,
                                    int64_t count, float **numbers) {
  const gconv_onnx_tensor *tensor;
  GCONV_TRY(gconv_onnx_find_constant(g, n, input, what, &tensor));
  if (tensor->dimensions != 1 || tensor->shape[0] != count)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "has %" PRIu64 " numbers of %zu-dimensional shape as %s, where a list of %" PRId64
                                " is expected",
                                gconv_onnx_count_numbers(tensor), tensor->dimensions, what, count);
  return gconv_onnx_read_numbers(g, n, tensor, numbers);
}

gconv_status gconv_onnx_read_added(gconv_onnx_graph *g, const gconv_onnx_node *n, int input, size_t axes, int64_t count,
                                   float **numbers) {
  const gconv_onnx_tensor *tensor;
  GCONV_TRY(gconv_onnx_find_constant(g, n, input, "biases", &tensor));
  const uint64_t have = gconv_onnx_count_numbers(tensor);
  const size_t behind = axes - 2; /* axes that stand after the channels */
  const bool one = have == 1 && tensor->dimensions <= axes;
  bool each = have == (uint64_t)count && tensor->dimensions <= axes && tensor->dimensions > behind;
  if (each)
    each = tensor->shape[tensor->dimensions - 1 - behind] == count;
  if (!one && !each)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "adds %" PRIu64 " numbers of %zu-dimensional shape, which ONNX broadcasts along other axes "
                                "than the %" PRId64 " channels",
                                have, tensor->dimensions, count);
  float *read = NULL;
  GCONV_TRY(gconv_onnx_read_numbers(g, n, tensor, &read));
  if (each) {
    *numbers = read;
    return GCONV_OK;
  }
  void *memory = NULL;
  gconv_status status = gconv_allocate((size_t)count * sizeof(float), "the biases of a layer", &memory);
  *numbers = memory;
  for (int64_t i = 0; status == GCONV_OK && i < count; i++)
    (*numbers)[i] = *read;
  gconv_release(read);
  return status;
}

gconv_status gconv_onnx_read_list(gconv_onnx_graph *g, const gconv_onnx_node *n, const char *name, int input,
                                  gconv_onnx_integers *list, bool *given) {
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(n, name);
  *given = a || gconv_onnx_has_input(n, input);
  *list = a ? a->integers : (gconv_onnx_integers){{0}, 0};
  bool known = list->count <= GCONV_ONNX_INTEGERS;
  if (!a && *given) {
    const gconv_onnx_tensor *tensor = gconv_onnx_find_tensor(g->model, n->inputs[input]);
    known = tensor != NULL;
    if (tensor)
      GCONV_TRY(gconv_onnx_tensor_integers(g->model->file, tensor, list, &known));
  }
  return known ? GCONV_OK
               : gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                      "takes its %s from what is no short list of int64, an initialiser or Constant", name);
}

bool gconv_onnx_are_height_and_width(const gconv_onnx_integers *axes) {
  int64_t a = axes->numbers[0] + (axes->numbers[0] < 0 ? 4 : 0), b = axes->numbers[1] + (axes->numbers[1] < 0 ? 4 : 0);
  return axes->count == 2 && ((a == 2 && b == 3) || (a == 3 && b == 2));
}

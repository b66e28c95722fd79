/* SPDX-License-Identifier: MIT */
/* Reads and copies the constants of a model for the makers of layers. */
#include "bank/bank.h"
#include "base/memory.h"
#include "graph/chain.h"

#include <inttypes.h>

enum { MOST_USES = 64 /* the most numbers that are copied, for each byte of the file */ };

const gconv_graph_value *gconv_chain_constant(const gconv_chain *c, int32_t input) {
  const int32_t number = input < c->node->in_count ? c->node->in[input] : -1;
  return number >= 0 && c->graph->values[number].constant ? &c->graph->values[number] : NULL;
}

gconv_status gconv_chain_find_constant(const gconv_chain *c, const gconv_onnx_node *n, int32_t input, const char *what,
                                       const gconv_graph_value **constant) {
  *constant = gconv_chain_constant(c, input);
  if (!*constant)
    return gconv_onnx_fail_node(
        n, GCONV_UNSUPPORTED, "takes its %s from what other nodes compute: only initialisers and Constants are read", what);
  return gconv_tensor_type_is_real((*constant)->tensor.type)
             ? GCONV_OK
             : gconv_onnx_fail_node(n, GCONV_UNSUPPORTED, "has %s that are not float, double, float16 or bfloat16", what);
}

gconv_status gconv_chain_copy_numbers(gconv_chain *c, const gconv_onnx_node *n, const gconv_graph_value *constant,
                                      float **numbers) {
  const int64_t count = gconv_tensor_elements(&constant->tensor);
  gconv_tensor copy = constant->tensor;
  if (count < 1 || count > GCONV_BANK_MAX_WEIGHTS)
    return gconv_onnx_fail_node(n, GCONV_TOO_LARGE, "has a tensor of %" PRId64 " numbers: there can be 1 to %d", count,
                                GCONV_BANK_MAX_WEIGHTS);
  c->claimed += constant->external ? 0 : count;
  if ((uint64_t)c->claimed / MOST_USES > n->file->source.size + (UINT64_C(1) << 18))
    return gconv_fail(GCONV_TOO_LARGE,
                      "%s: its nodes share weights so often that all together are more than %d times as large "
                      "as the file: that is the limit",
                      n->file->path, MOST_USES);
  GCONV_TRY(gconv_allocate((size_t)count * sizeof(float), "the weights of a layer", &copy.data));
  copy.type = GCONV_TENSOR_F32;
  gconv_tensor_convert(&constant->tensor, &copy, 0, count);
  *numbers = copy.data;
  return GCONV_OK;
}

gconv_status gconv_chain_copy_list(gconv_chain *c, const gconv_onnx_node *n, int32_t input, const char *what, int64_t count,
                                   float **numbers) {
  const gconv_graph_value *constant;
  GCONV_TRY(gconv_chain_find_constant(c, n, input, what, &constant));
  const gconv_tensor *tensor = &constant->tensor;
  if (tensor->axes != 1 || tensor->shape[0] != count)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "has %" PRId64 " numbers of %d-dimensional shape as %s, where a list of %" PRId64
                                " is expected",
                                gconv_tensor_elements(tensor), tensor->axes, what, count);
  return gconv_chain_copy_numbers(c, n, constant, numbers);
}

gconv_status gconv_chain_copy_added(gconv_chain *c, const gconv_onnx_node *n, int32_t input, int32_t axes, int64_t count,
                                    float **numbers) {
  const gconv_graph_value *constant;
  GCONV_TRY(gconv_chain_find_constant(c, n, input, "biases", &constant));
  const gconv_tensor *tensor = &constant->tensor;
  const int64_t have = gconv_tensor_elements(tensor);
  const int32_t after = axes - 2; /* axes after the channels */
  const bool one = have == 1 && tensor->axes <= axes;
  const bool each =
      have == count && tensor->axes <= axes && tensor->axes > after && tensor->shape[tensor->axes - 1 - after] == count;
  if (!one && !each)
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "adds %" PRId64 " numbers of %d-dimensional shape, which ONNX broadcasts along other axes "
                                "than the %" PRId64 " channels",
                                have, tensor->axes, count);
  if (each)
    return gconv_chain_copy_numbers(c, n, constant, numbers);
  void *memory = NULL;
  GCONV_TRY(gconv_allocate((size_t)count * sizeof(float), "the biases of a layer", &memory));
  *numbers = memory;
  for (int64_t i = 0; i < count; i++)
    (*numbers)[i] = (float)gconv_tensor_number(tensor, 0);
  return GCONV_OK;
}

gconv_status gconv_chain_read_list(gconv_chain *c, const gconv_onnx_node *n, const char *name, int32_t input,
                                   gconv_onnx_integers *list, bool *given) {
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(n, name);
  const gconv_graph_value *constant = a ? NULL : gconv_chain_constant(c, input);
  const gconv_tensor *tensor = constant ? &constant->tensor : NULL;
  const int64_t count = tensor ? gconv_tensor_elements(tensor) : 0;
  *given = a || gconv_onnx_has_input(n, input);
  *list = a ? a->integers : (gconv_onnx_integers){{0}, (size_t)count};
  if (*given &&
      (list->count > GCONV_ONNX_INTEGERS ||
       (!a && (!tensor || tensor->axes > 1 || (tensor->type != GCONV_TENSOR_I64 && tensor->type != GCONV_TENSOR_BOOL)))))
    return gconv_onnx_fail_node(n, GCONV_UNSUPPORTED,
                                "takes its %s from a tensor that is no short list of int64, or not constant", name);
  for (int64_t i = 0; i < count; i++)
    list->numbers[i] = gconv_tensor_integer(tensor, i);
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
/* Functions of ONNX models: operators that the model itself defines by nodes. A call is replaced by the nodes of its
 * function, whose values get unique names. */
#pragma once

#include "bank/onnx.h"

/* The most nodes that the calls of a model become, and how deep functions may call each other. */
enum { GCONV_ONNX_MOST_CALLED = 1 << 16, GCONV_ONNX_MOST_DEPTH = 32 };

/* Reads the function in this message. Free it even after a failure. */
gconv_status gconv_onnx_function_find(gconv_message_reader message, gconv_onnx_function *function);
void gconv_onnx_function_free(gconv_onnx_function *function);

/* Reads a version of a set of operators: sets *opset if the set is the standard's. */
gconv_status gconv_onnx_take_opset(gconv_message_reader message, uint64_t *opset);

/* Returns the function of this name, domain and overload, each of which may be NULL; NULL if the model has none. */
const gconv_onnx_function *gconv_onnx_function_called(const gconv_onnx_model *model, const char *name, const char *domain,
                                                      const char *overload);

/* Gives take() each node of a function as if it stood in place of the call: inputs, outputs and attributes are those of the
 * call. All other names get a prefix: the name of the call's first output, and the name of the function. Fails if the call
 * has more inputs or outputs than the function. */
gconv_status gconv_onnx_function_follow(const gconv_onnx_function *function, const gconv_onnx_node *call,
                                        gconv_onnx_taker *take, void *context);

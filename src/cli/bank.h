/* SPDX-License-Identifier: MIT */
/* Banks that a command line names: cmd_bank.c, and bank_info.c. */
#pragma once

#include "cli/command.h"
#include "gconv_learn.h"

#include <jansson.h>

/* True if only banks have this syntax. False for npy, and for NULL. */
bool gconv_bank_is_own_syntax(const char *syntax);

/* Reads plain filters and stacks them into *bank, which must be empty. The error is gconv_last_error(). */
gconv_status gconv_bank_stack_specs(const gconv_texts *specs, const char *syntax, gconv_bank *bank);

/* True if `spec` is a bank, false if it is plain filters. `syntax` may be NULL. */
bool gconv_bank_is_meant(const char *spec, const char *syntax);

/* Prints what the file of banks that `spec` names holds. After a failure, prints the error and returns false. */
bool gconv_bank_print(const char *spec);

/* True if `path` names a whole ONNX model, which can become a network. False if it names a node of a model. */
bool gconv_model_is_one(const char *path);

/* Reads the network of a file into *network, which must be empty. An ONNX model becomes a network. */
gconv_status gconv_network_load(const char *path, gconv_network *network);

/* Prints what the network at `path` is. The error is gconv_last_error(). */
gconv_status gconv_network_print(const char *path);
/* Prints the nodes of an ONNX model, or the layers if it is a chain of them. If `output` is not NULL, draws the
 * nodes into this file, which must be SVG, instead, and fails for a chain. */
gconv_status gconv_graph_print(const char *path, const char *output);

/* Prints what the support vector machine at `path` is (svm_info.c). */
gconv_status gconv_svm_print(const char *path);

/* Returns in words how a network was trained, from its JSON object `trained`: "cross-entropy by adam, rate 0.001, batches of
 * 32, seed 0; ...". Entries that gconv train does not write are copied. For free(); NULL without memory. */
char *gconv_trained_words(const char *json);

/* Prints "classes 3: a, b, c", or nothing if there are none. */
void gconv_print_classes(const char *const *classes, size_t count);

/* Returns the number of weights of a bank, without biases; 0 for NULL. */
size_t gconv_count_weights(const gconv_bank *bank);

/* Makes a JSON object that says what a network is. */
gconv_status gconv_network_describe(const char *path, json_t **json);

/* Reads one bank, or several plain filters stacked into one, into *bank, which must be empty. */
gconv_status gconv_bank_load(const gconv_texts *specs, const char *syntax, gconv_bank *bank);

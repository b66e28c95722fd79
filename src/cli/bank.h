/* SPDX-License-Identifier: MIT */
/* Banks that a command line names: cmd_bank.c, and bank_info.c. */
#pragma once

#include "cli/command.h"
#include "gconv_learn.h"

#include <jansson.h>

/* Whether only banks have this syntax, so not npy; NULL is none. */
bool gconv_bank_is_own_syntax(const char *syntax);

/* Reads plain filters and stacks them into *bank, which must be empty. The error is gconv_last_error(). */
gconv_status gconv_bank_stack_specs(const gconv_texts *specs, const char *syntax, gconv_bank *bank);

/* Whether `spec` is to be read as a bank, with `syntax`, which may be NULL; else it is plain filters. */
bool gconv_bank_is_meant(const char *spec, const char *syntax);

/* Prints what the file of banks that `spec` names holds; false, and an error was printed, if that fails. */
bool gconv_bank_print(const char *spec);

/* Whether `path` names an ONNX model as a whole, which a network may be made of, not one of its nodes. */
bool gconv_model_is_one(const char *path);

/* Reads the network that a file holds or, of an ONNX model, that is made of it, into *network, which must be empty. */
gconv_status gconv_network_load(const char *path, gconv_network *network);

/* Prints what a network is: gconv_network_is_one(path). The error is gconv_last_error(). */
gconv_status gconv_network_print(const char *path);

/* The same of a support vector machine (svm_info.c). */
gconv_status gconv_svm_print(const char *path);

/* How a network was trained, of the JSON object that it has as `trained`, in words: "cross-entropy by adam, rate 0.001,
 * batches of 32, seed 0; ...". What gconv train does not write is told as it stands in the object. For free(); NULL without
 * memory. */
char *gconv_trained_words(const char *json);

/* Prints "classes 3: a, b, c", or nothing if there are none. */
void gconv_print_classes(const char *const *classes, size_t count);

/* How many weights a bank has, without biases. NULL has none. */
size_t gconv_count_weights(const gconv_bank *bank);

/* What a network is, as an object for the caller. */
gconv_status gconv_network_describe(const char *path, json_t **json);

/* Reads one bank, or several plain filters stacked into one, into *bank, which must be empty. */
gconv_status gconv_bank_load(const gconv_texts *specs, const char *syntax, gconv_bank *bank);

/* SPDX-License-Identifier: MIT */
/* Converts a network of files and callers to the form that engines train: the shapes of all layers, and the parameters in
 * one array. */
#pragma once

#include "gconv_learn.h"
#include "kernels/learn_problem.h"

/* Resolves the layers for the inputs and targets of `info`. Fails if the network does not fit the data, or cannot be
 * trained. Free with gconv_learn_net_free(). */
gconv_status gconv_learn_net_make(const gconv_network *network, const gconv_dataset_info *info, gconv_loss loss,
                                  gconv_learn_net *net);
/* NULL is allowed. */
void gconv_learn_net_free(gconv_learn_net *net);

/* gconv_learn_net_take() copies the weights of the network to parameters, gconv_learn_net_give() copies them back. Filters
 * of layers with `flip` are rotated by 180 degrees. */
void gconv_learn_net_take(const gconv_learn_net *net, const gconv_network *network, float *parameters);
void gconv_learn_net_give(const gconv_learn_net *net, const float *parameters, gconv_network *network);

/* Copies the network, with biases for all banks, into *copy, which must be empty. */
gconv_status gconv_network_copy(const gconv_network *network, gconv_network *copy);

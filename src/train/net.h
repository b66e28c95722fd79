/* SPDX-License-Identifier: MIT */
/* From a network, as files and callers have it, to what engines train: shapes of all layers, and parameters in one array. */
#ifndef GCONV_TRAIN_NET_H
#define GCONV_TRAIN_NET_H

#include "gconv_learn.h"
#include "kernels/learn_problem.h"

/* Resolves the layers for inputs and targets as `info` describes them, into *net. Fails where the network does not fit the
 * data, and where it cannot be trained. Free with gconv_learn_net_free(). */
gconv_status gconv_learn_net_make(const gconv_network *network, const gconv_dataset_info *info, gconv_loss loss,
                                  gconv_learn_net *net);
/* NULL is allowed. */
void gconv_learn_net_free(gconv_learn_net *net);

/* Copies the weights of the network into parameters, and back. Filters that are to be turned are turned. */
void gconv_learn_net_take(const gconv_learn_net *net, const gconv_network *network, float *parameters);
void gconv_learn_net_give(const gconv_learn_net *net, const float *parameters, gconv_network *network);

/* Copies the network, with biases for all banks, into *copy, which must be empty. */
gconv_status gconv_network_copy(const gconv_network *network, gconv_network *copy);

#endif

/* SPDX-License-Identifier: MIT */
#pragma once

#include "gconv_learn.h"

/* Does gconv_network_make() without its checks of arguments; `most`: the most weights and biases. */
gconv_status gconv_network_make_within(const char *text, int32_t channels, int32_t height, int32_t width, size_t outputs,
                                       uint64_t seed, size_t most, gconv_network *network);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "gconv_science.h"

/* Fails with GCONV_BAD_ARGUMENT if an option is wrong. */
gconv_status gconv_stats_check(const gconv_stats_options *options);

/* SPDX-License-Identifier: MIT */
#pragma once

#include "gconv_science.h"

/* Refuses options that are wrong. */
gconv_status gconv_stats_check(const gconv_stats_options *options);

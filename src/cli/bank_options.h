/* SPDX-License-Identifier: MIT */
/* The options that only banks have. Settings are gconv_settings. */
#ifndef GCONV_CLI_BANK_OPTIONS_H
#define GCONV_CLI_BANK_OPTIONS_H

#include "cli/options.h"
#include "cli/settings.h"

/* The settings, in which it is noted that this option was given. */
gconv_settings *gconv_bank_settings(const gconv_option *option, void *settings);

gconv_option_parser gconv_parse_then, gconv_parse_activation, gconv_parse_groups, gconv_parse_mean, gconv_parse_std,
    gconv_parse_math, gconv_parse_batch, gconv_parse_layout;

#endif

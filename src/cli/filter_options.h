/* SPDX-License-Identifier: MIT */
/* The options of the main job. */
#ifndef GCONV_CLI_FILTER_OPTIONS_H
#define GCONV_CLI_FILTER_OPTIONS_H

#include "cli/options.h"
#include "cli/settings.h"

extern const gconv_option gconv_filter_options[];

/* What -d takes, and $GCONV_DEVICE. */
gconv_option_parser gconv_parse_device;

#endif

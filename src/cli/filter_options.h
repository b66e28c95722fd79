/* SPDX-License-Identifier: MIT */
/* The options of the main job. */
#ifndef GCONV_CLI_FILTER_OPTIONS_H
#define GCONV_CLI_FILTER_OPTIONS_H

#include "cli/options.h"

/* They fill a gconv_settings (settings.h). */
extern const gconv_option gconv_filter_options[];

#endif

/* SPDX-License-Identifier: MIT */
/* The parsers of options of the main job that choose among names or take more than a number. Settings are gconv_settings. */
#ifndef GCONV_CLI_FILTER_PARSERS_H
#define GCONV_CLI_FILTER_PARSERS_H

#include "cli/options.h"
#include "cli/settings.h"

gconv_option_parser gconv_parse_border, gconv_parse_combine, gconv_parse_padding, gconv_parse_stride, gconv_parse_dilation,
    gconv_parse_range;

gconv_option_parser gconv_parse_format, gconv_parse_max_pixels, gconv_parse_shard, gconv_parse_memory, gconv_parse_timings,
    gconv_parse_verify;

gconv_option_parser gconv_parse_algorithm, gconv_parse_without, gconv_parse_workspace, gconv_parse_device;

#endif

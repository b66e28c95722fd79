/* SPDX-License-Identifier: MIT */
/* The parts of `gconv bank`: cmd_bank.c chooses between them. */
#ifndef GCONV_CLI_BANK_H
#define GCONV_CLI_BANK_H

#include "cli/command.h"

extern const gconv_command gconv_bank_info, gconv_bank_show, gconv_bank_convert;

/* Whether `spec` is to be read as a bank, with `syntax`, which may be NULL; else it is plain filters. */
bool gconv_bank_is_meant(const char *spec, const char *syntax);

/* Reads one bank, or several plain filters stacked into one, into *bank, which must be empty. */
gconv_status gconv_bank_load(const gconv_texts *specs, const char *syntax, gconv_bank *bank, gconv_message *message);

/* An option of all parts: const char *, by its field. */
#define GCONV_BANK_SYNTAX_OPTION(settings)                                                                                  \
  {                                                                                                                         \
    .name = "filter-format", .value = "SYNTAX",                                                                             \
    .help = "bank, npy, safetensors, onnx, or that of filters; default: by content", .parse = gconv_option_text,            \
    .field = offsetof(settings, syntax)                                                                                     \
  }

#endif

/* SPDX-License-Identifier: MIT */
/* Writes banks, in any syntax that can be written. */
#include "bank/syntax.h"
#include "base/arguments.h"

#include <string.h>

static gconv_status find_format(const char *path, const char *format, const gconv_bank_syntax **syntax) {
  if (format)
    GCONV_TRY(gconv_bank_syntax_by_name(format, syntax));
  else
    *syntax = strcmp(path, "-") == 0 ? &gconv_bank_syntax_text : gconv_bank_syntax_by_path(path);
  if (*syntax && (*syntax)->write)
    return GCONV_OK;
  return gconv_fail(GCONV_UNSUPPORTED, "%s: banks are written as text (.txt), .npy or .safetensors, not as %s", path,
                    *syntax ? (*syntax)->name : "what this extension says");
}

static bool has_names(const gconv_bank *bank) {
  for (int32_t k = 0; bank->names && k < bank->filters; k++)
    if (bank->names[k])
      return true;
  return false;
}

/* Warns of what `syntax`, which is not text, cannot store. Fails if biases would be lost. */
static gconv_status check_losses(const char *path, const gconv_bank_syntax *syntax, const gconv_bank *bank) {
  if (syntax == &gconv_bank_syntax_npy)
    for (int32_t k = 0; bank->biases && k < bank->filters; k++)
      if (bank->biases[k] != 0)
        return gconv_fail(GCONV_UNSUPPORTED,
                          "%s: the bank has biases, for which .npy has no place: write .safetensors or text (.txt)", path);
  if (bank->has_geometry)
    gconv_warn("%s: stride, padding, dilation and groups are left out: %s cannot store them, text (.txt) can", path,
               syntax->extension);
  if (has_names(bank))
    gconv_remark("%s: the names of the filters are left out: %s cannot store them, text (.txt) can", path,
                 syntax->extension);
  return GCONV_OK;
}

gconv_status gconv_bank_write(const char *path, const char *format, const gconv_bank *bank) {
  const gconv_bank_syntax *syntax = NULL;
  gconv_sink *sink = NULL;
  GCONV_NEED(path, bank);
  GCONV_TRY(find_format(path, format, &syntax));
  GCONV_TRY(gconv_bank_check(bank));
  if (syntax != &gconv_bank_syntax_text)
    GCONV_TRY(check_losses(path, syntax, bank));
  GCONV_TRY(gconv_sink_open(path, &sink));
  return gconv_sink_end(sink, syntax->write(sink, bank));
}

/* SPDX-License-Identifier: MIT */
/* The table of syntaxes, and how the syntax of a file is found. */
#include "bank/syntax.h"

#include <string.h>
#include <strings.h>

static const gconv_bank_syntax *const syntaxes[] = {
    &gconv_bank_syntax_text,        &gconv_bank_syntax_npy,  &gconv_bank_syntax_npz,
    &gconv_bank_syntax_safetensors, &gconv_bank_syntax_onnx,
};
enum { SYNTAXES = sizeof syntaxes / sizeof *syntaxes };

const char *gconv_bank_syntax_at(size_t index) {
  return index < SYNTAXES ? syntaxes[index]->name : NULL;
}

gconv_status gconv_bank_syntax_by_name(const char *name, const gconv_bank_syntax **syntax) {
  for (size_t i = 0; i < SYNTAXES; i++)
    if (strcmp(syntaxes[i]->name, name) == 0) {
      *syntax = syntaxes[i];
      return GCONV_OK;
    }
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "there is no syntax of banks called '%s'; known are bank, npy, npz, safetensors and onnx", name);
}

const gconv_bank_syntax *gconv_bank_syntax_by_path(const char *path) {
  for (size_t i = 0; i < SYNTAXES; i++) {
    size_t length = strlen(path), ending = strlen(syntaxes[i]->extension);
    if (length > ending && strcasecmp(path + length - ending, syntaxes[i]->extension) == 0)
      return syntaxes[i];
  }
  return NULL;
}

const gconv_bank_syntax *gconv_bank_syntax_find(const char *name, const uint8_t *bytes, size_t size) {
  for (size_t i = 0; i < SYNTAXES; i++)
    if (syntaxes[i]->recognise(bytes, size))
      return syntaxes[i];
  const gconv_bank_syntax *named = gconv_bank_syntax_by_path(name);
  return named == &gconv_bank_syntax_text ? NULL : named; /* other texts have this extension, too */
}

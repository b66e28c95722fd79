/* SPDX-License-Identifier: MIT */
/* The table of the syntaxes of tables, in the order in which they are tried. */
#include "data/table.h"

static const gconv_table_syntax *const syntaxes[] = {
    &gconv_table_syntax_npy,     &gconv_table_syntax_libsvm, &gconv_table_syntax_fann,
    &gconv_table_syntax_letters, &gconv_table_syntax_idx,    &gconv_table_syntax_csv,
};
enum { SYNTAXES = sizeof syntaxes / sizeof *syntaxes };

const gconv_table_syntax *gconv_table_syntax_at(size_t index) {
  return index < SYNTAXES ? syntaxes[index] : NULL;
}

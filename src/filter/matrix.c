/* SPDX-License-Identifier: MIT */
/* Reads the plain matrix: rows of numbers, as MATLAB's dlmwrite and save -ascii, numpy.savetxt, and people write it. */
#include "filter/rows.h"

static bool recognise(const gconv_content *content) {
  size_t rows, columns;
  return gconv_rows_count(gconv_text_begin(content), &rows, &columns);
}

static gconv_status parse(const gconv_content *content, gconv_filters *list) {
  GCONV_TRY(gconv_text_check(content));
  gconv_text text = gconv_text_begin(content);
  gconv_status status = gconv_rows_read(&text, 0, 0, list);
  int32_t width, height;
  if (status == GCONV_BAD_FILE && !recognise(content) && gconv_vips_promises(content, &width, &height))
    status = gconv_fail(status, "%s (if a vips matrix is meant: its first line promises %d row%s of %d number%s)",
                        gconv_last_error(), height, height == 1 ? "" : "s", width, width == 1 ? "" : "s");
  if (status == GCONV_OK)
    gconv_filter_warn_rounded(content->name, &list->items[list->count - 1]);
  return status;
}

const gconv_syntax gconv_syntax_matrix = {
    .name = "matrix",
    .help = "rows of numbers, one a line; fractions such as 1/9; # and % start comments",
    .recognise = recognise,
    .parse = parse,
};

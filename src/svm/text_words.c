/* SPDX-License-Identifier: MIT */
/* Lines, words and numbers in the text of a model. */
#include "base/memory.h"
#include "svm/text.h"

#include <errno.h>
#include <math.h>
#include <string.h>

bool gconv_svm_text_number(char **at, double *number) {
  char *word = *at + strspn(*at, GCONV_SVM_BLANKS), *end;
  size_t length = strcspn(word, GCONV_SVM_BLANKS);
  if (length == 0 || strspn(word, "+-.0123456789eE") != length)
    return false;
  errno = 0;
  *number = strtod(word, &end);
  *at = end;
  return end == word + length && isfinite(*number);
}

bool gconv_svm_text_count(char **at, uint64_t most, uint64_t *count) {
  double number;
  if (!gconv_svm_text_number(at, &number) || number < 0 || number > (double)most || number != floor(number))
    return false;
  *count = (uint64_t)number;
  return true;
}

bool gconv_svm_text_is_end(const char *at) {
  return at[strspn(at, GCONV_SVM_BLANKS)] == '\0';
}

gconv_status gconv_svm_text_add(gconv_svm_numbers *l, double number) {
  GCONV_GROW(l->items, l->count, "no memory for the numbers of a model");
  l->items[l->count++] = number;
  return GCONV_OK;
}

gconv_status gconv_svm_text_line(gconv_svm_reading *r, bool *found) {
  GCONV_TRY(gconv_lines_next_filled(&r->lines, found));
  if (*found) { /* removes trailing blanks */
    size_t length = strlen(r->lines.text);
    while (length > 0 && strchr(GCONV_SVM_BLANKS, r->lines.text[length - 1]))
      r->lines.text[--length] = '\0';
  }
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
/*
 * The parser of the filter syntax FUZZ_SUBJECT, or, if that is empty, of the one that the content has, fed with anything
 * (libFuzzer). Filters that are taken must be sound, and must come back from their own text with every bit.
 */
#include "filter/syntax.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_ANALYSED = 4096 };

static void demand(bool holds) {
  if (!holds)
    abort();
}

/* A copy with the 0 that a gconv_content has behind it. */
static gconv_content content_of(const void *data, size_t size) {
  uint8_t *bytes = malloc(size + 1);
  demand(bytes != NULL);
  if (size > 0)
    memcpy(bytes, data, size);
  bytes[size] = 0;
  return (gconv_content){"input", bytes, size};
}

static gconv_status parse(const gconv_content *content, const char *name, gconv_filters *list) {
  const gconv_syntax *syntax = NULL;
  GCONV_TRY(name[0] ? gconv_syntax_by_name(name, &syntax) : gconv_syntax_find(content, &syntax));
  syntax->recognise(content);
  return syntax->parse(content, list);
}

static void demand_equal(const gconv_filter *a, const gconv_filter *b) {
  demand(a->rows == b->rows && a->columns == b->columns);
  demand(a->anchor_row == b->anchor_row && a->anchor_column == b->anchor_column);
  demand(a->divisor == b->divisor && a->offset == b->offset);
  for (size_t i = 0; i < (size_t)a->rows * (size_t)a->columns; i++)
    demand(a->taps[i] == b->taps[i]);
}

static void check_round_trip(const gconv_filter *filter) {
  char *text = NULL;
  gconv_status status = gconv_filter_to_text(filter, &text);
  demand(status == GCONV_OK || status == GCONV_UNSUPPORTED || status == GCONV_NO_MEMORY);
  if (status != GCONV_OK)
    return;
  gconv_filters again = {0};
  gconv_content content = content_of(text, strlen(text));
  status = parse(&content, "", &again);
  demand(status == GCONV_OK || status == GCONV_NO_MEMORY);
  if (status == GCONV_OK) {
    demand(again.count == 1);
    demand_equal(filter, &again.items[0]);
  }
  gconv_filters_free(&again);
  free(content.bytes);
  free(text);
}

static void check(const gconv_filter *filter) {
  demand(gconv_filter_check(filter) == GCONV_OK);
  check_round_trip(filter);
  gconv_filter_analysis analysis;
  if ((int64_t)filter->rows * filter->columns <= MOST_ANALYSED)
    gconv_filter_analyze(filter, &analysis);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  gconv_content content = content_of(data, size);
  gconv_filters list = {0};
  gconv_status status = parse(&content, FUZZ_SUBJECT, &list);
  if (status == GCONV_OK)
    status = gconv_filters_name(&list, 0, "fuzz");
  for (size_t i = 0; status == GCONV_OK && i < list.count; i++)
    check(&list.items[i]);
  gconv_filters_free(&list);
  free(content.bytes);
  return 0;
}

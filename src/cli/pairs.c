/* SPDX-License-Identifier: MIT */
#include "cli/pairs.h"
#include "base/memory.h"
#include "base/partners.h"

#include <string.h>

/* True if the file may be a picture of an earlier run: its name ends in the suffix of pictures. */
static bool is_picture(const gconv_input *input, const char *suffix) {
  size_t length = gconv_stem_length(input->relative), end = suffix ? strlen(suffix) : 0;
  return end > 0 && length >= end && memcmp(input->relative + length - end, suffix, end) == 0;
}

/* Files, and their names. */
typedef struct file_list {
  const gconv_input **items; /* owned */
  const char **names;        /* owned; the texts are the inputs' */
  size_t count;
} file_list;

/* Lists the inputs without pictures of an earlier run. */
static bool list_inputs(const gconv_inputs *inputs, const char *suffix, file_list *list) {
  list->items = calloc(inputs->count + 1, sizeof *list->items);
  list->names = calloc(inputs->count + 1, sizeof *list->names);
  if (!list->items || !list->names)
    return false;
  for (size_t i = 0; i < inputs->count; i++)
    if (!is_picture(&inputs->items[i], suffix)) {
      list->names[list->count] = inputs->items[i].relative;
      list->items[list->count++] = &inputs->items[i];
    }
  return true;
}

static void free_list(file_list *list) {
  free(list->items);
  free(list->names);
}

static gconv_matched match(const gconv_input *a, const gconv_input *b) {
  return (gconv_matched){.a = a, .b = b, .name = (a ? a : b)->relative};
}

static bool match_names(const gconv_inputs *a, const gconv_inputs *b, const char *suffix, gconv_matched *pairs,
                        size_t *count) {
  GCONV_ENDED_BY(free_list) file_list of_a = {0}, of_b = {0};
  GCONV_FREED gconv_partners *partners = NULL;
  bool good = list_inputs(a, suffix, &of_a) && list_inputs(b, suffix, &of_b) &&
              gconv_partners_find(of_a.names, of_a.count, of_b.names, of_b.count, &partners, count) == GCONV_OK;
  for (size_t i = 0; good && i < *count; i++)
    pairs[i] = match(partners[i].a == GCONV_ALONE ? NULL : of_a.items[partners[i].a],
                     partners[i].b == GCONV_ALONE ? NULL : of_b.items[partners[i].b]);
  return good;
}

gconv_status gconv_pairs_find(const gconv_inputs *a, const gconv_inputs *b, bool by_name, const char *suffix,
                              gconv_matched **pairs, size_t *count) {
  gconv_matched *all = calloc(a->count + b->count + 1, sizeof *all);
  bool good = all != NULL;
  if (good && by_name) {
    good = match_names(a, b, suffix, all, count);
  } else if (good) {
    all[0] = match(&a->items[0], &b->items[0]);
    *count = 1;
  }
  if (!good) {
    free(all);
    return gconv_no_memory();
  }
  *pairs = all;
  return GCONV_OK;
}

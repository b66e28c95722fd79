/* SPDX-License-Identifier: MIT */
#include "cli/pairs.h"

#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b) {
  return strcmp((*(const gconv_input *const *)a)->relative, (*(const gconv_input *const *)b)->relative);
}

static size_t stem_length(const char *name) {
  const char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
  return dot ? (size_t)(dot - name) : strlen(name);
}

static int order_stems(const gconv_input *a, const gconv_input *b) {
  size_t length_a = stem_length(a->relative), length_b = stem_length(b->relative);
  int order = memcmp(a->relative, b->relative, length_a < length_b ? length_a : length_b);
  return order != 0 ? order : (length_a > length_b) - (length_a < length_b);
}

static int compare_stems(const void *a, const void *b) {
  return order_stems(*(const gconv_input *const *)a, *(const gconv_input *const *)b);
}

/* Whether the file is, by its name, a picture that an earlier run wrote. */
static bool is_picture(const gconv_input *input, const char *suffix) {
  size_t length = stem_length(input->relative), end = suffix ? strlen(suffix) : 0;
  return end > 0 && length >= end && memcmp(input->relative + length - end, suffix, end) == 0;
}

/* Files of one folder that have no partner yet. */
typedef struct file_list {
  const gconv_input **items; /* owned */
  size_t count;
} file_list;

/* The inputs but for pictures of an earlier run, sorted by their relative names. */
static file_list list_inputs(const gconv_inputs *inputs, const char *suffix) {
  file_list list = {.items = calloc(inputs->count + 1, sizeof *list.items)};
  for (size_t i = 0; list.items && i < inputs->count; i++)
    if (!is_picture(&inputs->items[i], suffix))
      list.items[list.count++] = &inputs->items[i];
  if (list.items)
    qsort(list.items, list.count, sizeof *list.items, compare_names);
  return list;
}

/* Pairs as they are found. */
typedef struct matching {
  gconv_matched *pairs;
  size_t count;
} matching;

static void add_pair(matching *m, const gconv_input *a, const gconv_input *b) {
  m->pairs[m->count++] = (gconv_matched){.a = a, .b = b, .name = (a ? a : b)->relative};
}

/* Takes the files that have a partner, and are NULL now, from the list. */
static void keep_lonely(file_list *list) {
  size_t kept = 0;
  for (size_t i = 0; i < list->count; i++)
    if (list->items[i])
      list->items[kept++] = list->items[i];
  list->count = kept;
}

/* Files of one name in both are a pair. Both lists are sorted by name. */
static void pair_names(matching *m, file_list *a, file_list *b) {
  for (size_t i = 0, k = 0; i < a->count && k < b->count;) {
    int order = strcmp(a->items[i]->relative, b->items[k]->relative);
    if (order == 0) {
      add_pair(m, a->items[i], b->items[k]);
      a->items[i] = b->items[k] = NULL;
    }
    i += order <= 0;
    k += order >= 0;
  }
}

/* How many files of a list that is sorted by stem share the stem of items[i]. */
static size_t count_stem(const file_list *list, size_t i) {
  size_t count = 1;
  while (i + count < list->count && order_stems(list->items[i], list->items[i + count]) == 0)
    count++;
  return count;
}

/* Files whose names differ by the extension alone are a pair, if each side has only one: gconv writes folders as PNG,
 * whatever they were. Sorts both lists by stem. */
static void pair_stems(matching *m, file_list *a, file_list *b) {
  qsort(a->items, a->count, sizeof *a->items, compare_stems);
  qsort(b->items, b->count, sizeof *b->items, compare_stems);
  for (size_t i = 0, k = 0; i < a->count && k < b->count;) {
    int order = order_stems(a->items[i], b->items[k]);
    size_t many_a = count_stem(a, i), many_b = count_stem(b, k);
    if (order == 0 && many_a == 1 && many_b == 1) {
      add_pair(m, a->items[i], b->items[k]);
      a->items[i] = b->items[k] = NULL;
    }
    i += order <= 0 ? many_a : 0;
    k += order >= 0 ? many_b : 0;
  }
}

static void pair_off(matching *m, file_list *a, file_list *b) {
  pair_names(m, a, b);
  keep_lonely(a);
  keep_lonely(b);
  pair_stems(m, a, b);
  keep_lonely(a);
  keep_lonely(b);
  for (size_t i = 0; i < a->count; i++)
    add_pair(m, a->items[i], NULL);
  for (size_t k = 0; k < b->count; k++)
    add_pair(m, NULL, b->items[k]);
}

static int order_pairs(const void *a, const void *b) {
  return strcmp(((const gconv_matched *)a)->name, ((const gconv_matched *)b)->name);
}

static bool match_names(const gconv_inputs *a, const gconv_inputs *b, const char *suffix, matching *m) {
  file_list of_a = list_inputs(a, suffix), of_b = list_inputs(b, suffix);
  bool good = of_a.items && of_b.items;
  if (good)
    pair_off(m, &of_a, &of_b);
  free(of_a.items);
  free(of_b.items);
  qsort(m->pairs, m->count, sizeof *m->pairs, order_pairs);
  return good;
}

gconv_status gconv_pairs_find(const gconv_inputs *a, const gconv_inputs *b, bool by_name, const char *suffix,
                              gconv_matched **pairs, size_t *count, gconv_message *message) {
  matching m = {.pairs = calloc(a->count + b->count + 1, sizeof *m.pairs)};
  bool good = m.pairs != NULL;
  if (good && by_name)
    good = match_names(a, b, suffix, &m);
  else if (good)
    add_pair(&m, &a->items[0], &b->items[0]);
  if (!good) {
    free(m.pairs);
    return gconv_complain_memory(message);
  }
  *pairs = m.pairs;
  *count = m.count;
  return GCONV_OK;
}

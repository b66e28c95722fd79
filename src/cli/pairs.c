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

static bool same_stem(const gconv_input *a, const gconv_input *b) {
  size_t length = stem_length(a->relative);
  return length == stem_length(b->relative) && strncmp(a->relative, b->relative, length) == 0;
}

/* The inputs, sorted by their relative names; for free(). */
static const gconv_input **sort_inputs(const gconv_inputs *inputs) {
  const gconv_input **sorted = calloc(inputs->count + 1, sizeof *sorted);
  for (size_t i = 0; sorted && i < inputs->count; i++)
    sorted[i] = &inputs->items[i];
  if (sorted)
    qsort(sorted, inputs->count, sizeof *sorted, compare_names);
  return sorted;
}

/* Pairs as they are found. */
typedef struct matching {
  gconv_matched *pairs;
  size_t count;
} matching;

static void add_pair(matching *m, const gconv_input *a, const gconv_input *b) {
  m->pairs[m->count++] = (gconv_matched){.a = a, .b = b, .name = (a ? a : b)->relative};
}

/* Files of one name in both are a pair; and so are, of what is left, files whose names differ by the extension alone, if
 * each side has only one: gconv writes folders as PNG, whatever they were. Both lists are sorted, and pairs leave them. */
static void pair_off(matching *m, const gconv_input **a, size_t a_count, const gconv_input **b, size_t b_count) {
  for (size_t i = 0, k = 0; i < a_count && k < b_count;) {
    int order = strcmp(a[i]->relative, b[k]->relative);
    if (order == 0) {
      add_pair(m, a[i], b[k]);
      a[i] = b[k] = NULL;
    }
    i += order <= 0;
    k += order >= 0;
  }
  for (size_t i = 0; i < a_count; i++) {
    size_t found = b_count, many = 0;
    for (size_t k = 0; a[i] && k < b_count; k++)
      if (b[k] && same_stem(a[i], b[k])) {
        found = k;
        many++;
      }
    for (size_t k = 0; many == 1 && k < a_count; k++)
      many += k != i && a[k] && same_stem(a[k], a[i]);
    if (many == 1) {
      add_pair(m, a[i], b[found]);
      a[i] = b[found] = NULL;
    }
  }
  for (size_t i = 0; i < a_count; i++)
    if (a[i])
      add_pair(m, a[i], NULL);
  for (size_t k = 0; k < b_count; k++)
    if (b[k])
      add_pair(m, NULL, b[k]);
}

static int order_pairs(const void *a, const void *b) {
  return strcmp(((const gconv_matched *)a)->name, ((const gconv_matched *)b)->name);
}

static bool match_names(const gconv_inputs *a, const gconv_inputs *b, matching *m) {
  const gconv_input **of_a = sort_inputs(a), **of_b = sort_inputs(b);
  bool good = of_a && of_b;
  if (good)
    pair_off(m, of_a, a->count, of_b, b->count);
  free(of_a);
  free(of_b);
  qsort(m->pairs, m->count, sizeof *m->pairs, order_pairs);
  return good;
}

gconv_status gconv_pairs_find(const gconv_inputs *a, const gconv_inputs *b, bool by_name, gconv_matched **pairs,
                              size_t *count, gconv_message *message) {
  matching m = {.pairs = calloc(a->count + b->count + 1, sizeof *m.pairs)};
  bool good = m.pairs != NULL;
  if (good && by_name)
    good = match_names(a, b, &m);
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

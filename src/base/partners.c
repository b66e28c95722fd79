/* SPDX-License-Identifier: MIT */
#include "base/partners.h"
#include "base/memory.h"

#include <string.h>

size_t gconv_stem_length(const char *path) {
  const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
  return dot ? (size_t)(dot - path) : strlen(path);
}

/* A name that has no partner yet, and its number in its list. */
typedef struct name {
  const char *text;
  size_t number;
} name;

typedef struct name_list {
  name *items; /* owned */
  size_t count;
} name_list;

static int compare_names(const void *a, const void *b) {
  return strcmp(((const name *)a)->text, ((const name *)b)->text);
}

static int order_stems(const name *a, const name *b) {
  size_t length_a = gconv_stem_length(a->text), length_b = gconv_stem_length(b->text);
  int order = memcmp(a->text, b->text, length_a < length_b ? length_a : length_b);
  return order != 0 ? order : (length_a > length_b) - (length_a < length_b);
}

static int compare_stems(const void *a, const void *b) {
  return order_stems(a, b);
}

/* A pair, with the name by which pairs are sorted. */
typedef struct found {
  const char *name;
  gconv_partners partners;
} found;

typedef struct matching {
  found *items;
  size_t count;
} matching;

static void add(matching *m, const name *a, const name *b) {
  m->items[m->count++] = (found){(a ? a : b)->text, {a ? a->number : GCONV_ALONE, b ? b->number : GCONV_ALONE}};
}

/* Adds a pair, and removes its names from their lists. */
static void add_pair(matching *m, name *a, name *b) {
  add(m, a, b);
  a->text = b->text = NULL;
}

static void keep_unpaired(name_list *list) {
  size_t kept = 0;
  for (size_t i = 0; i < list->count; i++)
    if (list->items[i].text)
      list->items[kept++] = list->items[i];
  list->count = kept;
}

/* Adds pairs of equal names. Both lists are sorted by name. */
static void pair_names(matching *m, name_list *a, name_list *b) {
  for (size_t i = 0, k = 0; i < a->count && k < b->count;) {
    int order = strcmp(a->items[i].text, b->items[k].text);
    if (order == 0)
      add_pair(m, &a->items[i], &b->items[k]);
    i += order <= 0;
    k += order >= 0;
  }
}

/* Returns how many names, from items[i] on, have the stem of items[i]. The list is sorted by stem. */
static size_t count_stem(const name_list *list, size_t i) {
  size_t count = 1;
  while (i + count < list->count && order_stems(&list->items[i], &list->items[i + count]) == 0)
    count++;
  return count;
}

/* Sorts both lists by stem, and adds pairs of equal stems. */
static void pair_stems(matching *m, name_list *a, name_list *b) {
  qsort(a->items, a->count, sizeof *a->items, compare_stems);
  qsort(b->items, b->count, sizeof *b->items, compare_stems);
  for (size_t i = 0, k = 0; i < a->count && k < b->count;) {
    int order = order_stems(&a->items[i], &b->items[k]);
    size_t many_a = count_stem(a, i), many_b = count_stem(b, k);
    if (order == 0 && many_a == 1 && many_b == 1)
      add_pair(m, &a->items[i], &b->items[k]);
    i += order <= 0 ? many_a : 0;
    k += order >= 0 ? many_b : 0;
  }
}

static void pair_off(matching *m, name_list *a, name_list *b) {
  pair_names(m, a, b);
  keep_unpaired(a);
  keep_unpaired(b);
  pair_stems(m, a, b);
  keep_unpaired(a);
  keep_unpaired(b);
  for (size_t i = 0; i < a->count; i++)
    add(m, &a->items[i], NULL);
  for (size_t k = 0; k < b->count; k++)
    add(m, NULL, &b->items[k]);
}

static int order_found(const void *a, const void *b) {
  return strcmp(((const found *)a)->name, ((const found *)b)->name);
}

/* Returns the names, sorted. */
static name_list list_names(const char *const *names, size_t count) {
  name_list list = {.items = calloc(count + 1, sizeof *list.items), .count = count};
  for (size_t i = 0; list.items && i < count; i++)
    list.items[i] = (name){names[i], i};
  if (list.items)
    qsort(list.items, count, sizeof *list.items, compare_names);
  return list;
}

gconv_status gconv_partners_find(const char *const *a, size_t a_count, const char *const *b, size_t b_count,
                                 gconv_partners **partners, size_t *count) {
  const size_t most = a_count + b_count + 1;
  name_list of_a = list_names(a, a_count), of_b = list_names(b, b_count);
  GCONV_FREED name *a_names = of_a.items, *b_names = of_b.items;
  GCONV_FREED found *items = calloc(most, sizeof *items);
  gconv_partners *result = items && a_names && b_names ? calloc(most, sizeof *result) : NULL;
  GCONV_NEED_MEMORY(result, "no memory for %zu names of files", a_count + b_count);
  matching m = {.items = items};
  pair_off(&m, &of_a, &of_b);
  qsort(m.items, m.count, sizeof *m.items, order_found);
  for (size_t i = 0; i < m.count; i++)
    result[i] = m.items[i].partners;
  *partners = result;
  *count = m.count;
  return GCONV_OK;
}

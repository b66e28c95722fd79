/* SPDX-License-Identifier: MIT */
/* Which files gconv compare compares with each other, and what their pictures are called. */
#include "cli/compare.h"

#include <stdlib.h>
#include <string.h>

/* ---- Folders --------------------------------------------------------------------------------------------------------- */

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

static void add_pair(gconv_comparison *c, const gconv_input *a, const gconv_input *b) {
  c->pairs[c->count++] = (gconv_pair){.a = a ? a->path : NULL, .b = b ? b->path : NULL, .name = (a ? a : b)->relative};
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
static void pair_names(gconv_comparison *c, file_list *a, file_list *b) {
  for (size_t i = 0, k = 0; i < a->count && k < b->count;) {
    int order = strcmp(a->items[i]->relative, b->items[k]->relative);
    if (order == 0) {
      add_pair(c, a->items[i], b->items[k]);
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
static void pair_stems(gconv_comparison *c, file_list *a, file_list *b) {
  qsort(a->items, a->count, sizeof *a->items, compare_stems);
  qsort(b->items, b->count, sizeof *b->items, compare_stems);
  for (size_t i = 0, k = 0; i < a->count && k < b->count;) {
    int order = order_stems(a->items[i], b->items[k]);
    size_t many_a = count_stem(a, i), many_b = count_stem(b, k);
    if (order == 0 && many_a == 1 && many_b == 1) {
      add_pair(c, a->items[i], b->items[k]);
      a->items[i] = b->items[k] = NULL;
    }
    i += order <= 0 ? many_a : 0;
    k += order >= 0 ? many_b : 0;
  }
}

static void pair_off(gconv_comparison *c, file_list *a, file_list *b) {
  pair_names(c, a, b);
  keep_lonely(a);
  keep_lonely(b);
  pair_stems(c, a, b);
  keep_lonely(a);
  keep_lonely(b);
  for (size_t i = 0; i < a->count; i++)
    add_pair(c, a->items[i], NULL);
  for (size_t k = 0; k < b->count; k++)
    add_pair(c, NULL, b->items[k]);
}

static int order_pairs(const void *a, const void *b) {
  return strcmp(((const gconv_pair *)a)->name, ((const gconv_pair *)b)->name);
}

gconv_status gconv_compare_find_pairs(gconv_comparison *c, gconv_message *message) {
  const gconv_inputs *a = &c->sides[0], *b = &c->sides[1];
  c->pairs = calloc(a->count + b->count + 1, sizeof *c->pairs);
  if (!c->pairs)
    return gconv_complain_memory(message);
  if (!c->folders) {
    add_pair(c, &a->items[0], &b->items[0]);
    return GCONV_OK;
  }
  file_list of_a = list_inputs(a, c->settings->naming.suffix), of_b = list_inputs(b, c->settings->naming.suffix);
  bool good = of_a.items && of_b.items;
  if (good)
    pair_off(c, &of_a, &of_b);
  free(of_a.items);
  free(of_b.items);
  qsort(c->pairs, c->count, sizeof *c->pairs, order_pairs);
  return good ? GCONV_OK : gconv_complain_memory(message);
}

/* ---- Pictures -------------------------------------------------------------------------------------------------------- */

/* No picture may replace an image, and none another. */
static gconv_status check_pictures(gconv_comparison *c, gconv_inputs *named, gconv_message *message) {
  size_t pictures = c->pictures.paths.count;
  gconv_inputs both = {.items = calloc(2 * named->count, sizeof *both.items), .count = 2 * named->count, .many = true};
  size_t *first = calloc(2 * named->count + 1, sizeof *first);
  gconv_status status = both.items && first ? GCONV_OK : gconv_complain_memory(message);
  for (size_t i = 0; i < 2 * named->count && status == GCONV_OK; i++) {
    const gconv_pair *p = &c->pairs[i % named->count];
    const char *path = i < named->count ? p->a : p->b;
    char *there = (char *)(path ? path : p->a ? p->a : p->b);
    both.items[i] = (gconv_input){.path = there, .file = there, .relative = (char *)p->name};
    first[i + 1] = i + 1 < pictures ? i + 1 : pictures;
  }
  if (status == GCONV_OK) {
    size_t *own = c->pictures.first;
    c->pictures.first = first;
    status = gconv_outputs_check(&both, &c->pictures, message);
    c->pictures.first = own;
  }
  free(first);
  free(both.items);
  return status;
}

gconv_status gconv_compare_name_pictures(gconv_comparison *c, gconv_message *message) {
  gconv_filter label = {.name = "difference"};
  const gconv_filters labels = {.items = &label, .count = 1};
  const gconv_naming naming = {
      .output = c->settings->naming.output, .suffix = c->settings->naming.suffix, .filters = &labels};
  gconv_inputs named = {.items = calloc(c->count + 1, sizeof *named.items), .count = c->count, .many = c->folders};
  if (!named.items)
    return gconv_complain_memory(message);
  for (size_t i = 0; i < c->count; i++) /* by their names alone: the frames of an image are in one picture */
    named.items[i] = (gconv_input){.path = "-", .file = "-", .relative = (char *)c->pairs[i].name};
  gconv_status status = gconv_outputs_name(&named, &naming, &c->pictures, message);
  if (status == GCONV_OK)
    status = check_pictures(c, &named, message);
  for (size_t i = 0; i < c->count && status == GCONV_OK; i++)
    c->pairs[i].picture = c->pictures.paths.items[i];
  free(named.items);
  return status;
}

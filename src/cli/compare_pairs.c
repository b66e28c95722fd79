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

static void add_pair(gconv_comparison *c, const gconv_input *a, const gconv_input *b) {
  c->pairs[c->count++] = (gconv_pair){.a = a ? a->path : NULL, .b = b ? b->path : NULL, .name = (a ? a : b)->relative};
}

/* Files of one name in both are a pair; and so are, of what is left, files whose names differ by the extension alone, if
 * each side has only one: gconv writes folders as PNG, whatever they were. Both lists are sorted, and pairs leave them. */
static void pair_off(gconv_comparison *c, const gconv_input **a, size_t a_count, const gconv_input **b, size_t b_count) {
  for (size_t i = 0, k = 0; i < a_count && k < b_count;) {
    int order = strcmp(a[i]->relative, b[k]->relative);
    if (order == 0) {
      add_pair(c, a[i], b[k]);
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
      add_pair(c, a[i], b[found]);
      a[i] = b[found] = NULL;
    }
  }
  for (size_t i = 0; i < a_count; i++)
    if (a[i])
      add_pair(c, a[i], NULL);
  for (size_t k = 0; k < b_count; k++)
    if (b[k])
      add_pair(c, NULL, b[k]);
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
  const gconv_input **of_a = sort_inputs(a), **of_b = sort_inputs(b);
  if (of_a && of_b)
    pair_off(c, of_a, a->count, of_b, b->count);
  bool good = of_a && of_b;
  free(of_a);
  free(of_b);
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
  const gconv_naming naming = {.output = c->settings->naming.output, .filters = &labels};
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

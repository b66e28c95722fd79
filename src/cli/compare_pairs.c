/* SPDX-License-Identifier: MIT */
/* Which files gconv compare compares with each other, and what their pictures are called. */
#include "cli/compare.h"
#include "cli/pairs.h"

#include <stdlib.h>

gconv_status gconv_compare_find_pairs(gconv_comparison *c) {
  gconv_matched *matched = NULL;
  GCONV_TRY(gconv_pairs_find(&c->sides[0], &c->sides[1], c->folders, c->settings->suffix, &matched, &c->count));
  c->pairs = calloc(c->count + 1, sizeof *c->pairs);
  for (size_t i = 0; c->pairs && i < c->count; i++) {
    const gconv_input *x = matched[i].a, *y = matched[i].b;
    c->pairs[i] = (gconv_pair){.a = x ? x->path : NULL, .b = y ? y->path : NULL, .name = matched[i].name};
  }
  free(matched);
  return c->pairs ? GCONV_OK : gconv_no_memory();
}

/* ---- Pictures -------------------------------------------------------------------------------------------------------- */

/* Refuses pictures that would replace an image or another picture. */
static gconv_status check_pictures(gconv_comparison *c, gconv_inputs *named) {
  size_t pictures = c->pictures.paths.count;
  gconv_inputs both = {.items = calloc(2 * named->count, sizeof *both.items), .count = 2 * named->count, .many = true};
  size_t *first = calloc(2 * named->count + 1, sizeof *first);
  gconv_status status = both.items && first ? GCONV_OK : gconv_no_memory();
  for (size_t i = 0; i < 2 * named->count && status == GCONV_OK; i++) {
    const gconv_pair *p = &c->pairs[i % named->count];
    const char *path = i < named->count ? p->a : p->b;
    char *there = (char *)(path ? path : p->a ? p->a : p->b);
    both.items[i] = (gconv_input){.path = there, .file = there, .relative = (char *)p->name, .found = c->folders};
    first[i + 1] = i + 1 < pictures ? i + 1 : pictures;
  }
  if (status == GCONV_OK) {
    size_t *own = c->pictures.first;
    c->pictures.first = first;
    status = gconv_outputs_check(&both, &c->pictures, &(gconv_message){0});
    c->pictures.first = own;
  }
  free(first);
  free(both.items);
  return status;
}

gconv_status gconv_compare_name_pictures(gconv_comparison *c) {
  gconv_filter label = {.name = "difference"};
  const gconv_filters labels = {.items = &label, .count = 1};
  const gconv_naming naming = {.output = c->settings->common.output, .suffix = c->settings->suffix, .filters = &labels};
  gconv_inputs named = {.items = calloc(c->count + 1, sizeof *named.items), .count = c->count, .many = c->folders};
  GCONV_NEED_MEMORY(named.items, "out of memory");
  for (size_t i = 0; i < c->count; i++) /* no path is given: the frames of an image are in one picture */
    named.items[i] = (gconv_input){.path = "-", .file = "-", .relative = (char *)c->pairs[i].name};
  gconv_status status = gconv_outputs_name(&named, &naming, &c->pictures, &(gconv_message){0});
  GCONV_THEN(status, check_pictures(c, &named));
  for (size_t i = 0; i < c->count && status == GCONV_OK; i++)
    c->pairs[i].picture = c->pictures.paths.items[i];
  free(named.items);
  return status;
}

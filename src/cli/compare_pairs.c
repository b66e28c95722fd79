/* SPDX-License-Identifier: MIT */
/* Which files gconv compare compares with each other, and what their pictures are called. */
#include "base/memory.h"
#include "cli/compare.h"
#include "cli/pairs.h"

gconv_status gconv_compare_find_pairs(gconv_comparison *c) {
  GCONV_FREED gconv_matched *matched = NULL;
  GCONV_TRY(gconv_pairs_find(&c->sides[0], &c->sides[1], c->folders, c->settings->suffix, &matched, &c->count));
  c->pairs = calloc(c->count + 1, sizeof *c->pairs);
  for (size_t i = 0; c->pairs && i < c->count; i++) {
    const gconv_input *x = matched[i].a, *y = matched[i].b;
    c->pairs[i] = (gconv_pair){.a = x ? x->path : NULL, .b = y ? y->path : NULL, .name = matched[i].name};
  }
  return c->pairs ? GCONV_OK : gconv_no_memory();
}

/* ---- Pictures -------------------------------------------------------------------------------------------------------- */

/* Refuses pictures that would replace an image or another picture. */
static gconv_status check_pictures(gconv_comparison *c, gconv_inputs *named) {
  size_t pictures = c->pictures.paths.count;
  GCONV_FREED gconv_input *items = calloc(2 * named->count, sizeof *items);
  GCONV_FREED size_t *first = calloc(2 * named->count + 1, sizeof *first);
  gconv_inputs both = {.items = items, .count = 2 * named->count, .many = true};
  GCONV_NEED_MEMORY(items && first, "out of memory");
  for (size_t i = 0; i < 2 * named->count; i++) {
    const gconv_pair *p = &c->pairs[i % named->count];
    const char *path = i < named->count ? p->a : p->b;
    char *there = (char *)(path ? path : p->a ? p->a : p->b);
    items[i] = (gconv_input){.path = there, .file = there, .relative = (char *)p->name, .found = c->folders};
    first[i + 1] = i + 1 < pictures ? i + 1 : pictures;
  }
  size_t *own = c->pictures.first;
  c->pictures.first = first;
  const gconv_status status = gconv_outputs_check(&both, &c->pictures, &(gconv_message){0});
  c->pictures.first = own;
  return status;
}

gconv_status gconv_compare_name_pictures(gconv_comparison *c) {
  gconv_filter label = {.name = "difference"};
  const gconv_filters labels = {.items = &label, .count = 1};
  const gconv_naming naming = {.output = c->settings->common.output, .suffix = c->settings->suffix, .filters = &labels};
  GCONV_FREED gconv_input *items = calloc(c->count + 1, sizeof *items);
  gconv_inputs named = {.items = items, .count = c->count, .many = c->folders};
  GCONV_NEED_MEMORY(items, "out of memory");
  for (size_t i = 0; i < c->count; i++) /* no path is given: the frames of an image are in one picture */
    items[i] = (gconv_input){.path = "-", .file = "-", .relative = (char *)c->pairs[i].name};
  GCONV_TRY(gconv_outputs_name(&named, &naming, &c->pictures, &(gconv_message){0}));
  GCONV_TRY(check_pictures(c, &named));
  for (size_t i = 0; i < c->count; i++)
    c->pairs[i].picture = c->pictures.paths.items[i];
  return GCONV_OK;
}

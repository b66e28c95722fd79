/* SPDX-License-Identifier: MIT */
/* Parts of a data set. */
#include "bank/column_notes.h"
#include "base/arguments.h"
#include "base/checksum.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/random.h"

#include <math.h>

typedef struct part {
  gconv_dataset base;
  const gconv_dataset *whole;
  size_t *cases; /* owned: the numbers of the cases in the whole, ascending */
  size_t *rows;  /* owned: the number of each case's row, if the whole left rows out; or NULL */
} part;

static gconv_status read_part(const gconv_dataset *dataset, uint64_t epoch, const size_t *cases, size_t count, float *inputs,
                              float *targets) {
  enum { STEP = 256 };
  const part *p = (const part *)dataset;
  size_t width = gconv_dataset_input_floats(&dataset->info), outputs = gconv_dataset_target_floats(&dataset->info);
  for (size_t done = 0; done < count; done += STEP) {
    size_t numbers[STEP], step = count - done < STEP ? count - done : STEP;
    for (size_t i = 0; i < step; i++)
      numbers[i] = p->cases[cases[done + i]];
    GCONV_TRY(p->whole->type->read(p->whole, epoch, numbers, step, inputs + done * width,
                                   targets ? targets + done * outputs : NULL));
  }
  return GCONV_OK;
}

static size_t class_of(const gconv_dataset *dataset, size_t index) {
  const part *p = (const part *)dataset;
  return p->whole->type->class_of(p->whole, p->cases[index]);
}

static size_t group_of(const gconv_dataset *dataset, size_t index) {
  const part *p = (const part *)dataset;
  return p->whole->type->group_of ? p->whole->type->group_of(p->whole, p->cases[index]) : p->cases[index];
}

static uint64_t digest(const gconv_dataset *dataset, uint64_t hash) {
  const part *p = (const part *)dataset;
  hash = p->whole->type->digest ? p->whole->type->digest(p->whole, hash) : hash;
  return gconv_fnv1a(hash, p->cases, dataset->info.cases * sizeof *p->cases);
}

static void free_part(gconv_dataset *dataset) {
  part *p = (part *)dataset;
  free(p->cases);
  free(p->rows);
  free(p);
}

static const gconv_dataset_type type = {
    .read = read_part, .free = free_part, .class_of = class_of, .group_of = group_of, .digest = digest};

/* Groups of cases (a group is drawn as a whole), and the groups that were drawn. */
typedef struct drawing {
  size_t *groups; /* the group of each case, from 0 on */
  size_t *items;  /* the groups of one class, in random order */
  size_t group_count;
  bool *drawn; /* for each group: whether it is drawn */
} drawing;

static void number_groups(const gconv_dataset *dataset, drawing *d) {
  for (size_t i = 0; i < dataset->info.cases; i++) {
    bool same =
        i > 0 && dataset->type->group_of && dataset->type->group_of(dataset, i) == dataset->type->group_of(dataset, i - 1);
    d->group_count += !same;
    d->groups[i] = d->group_count - 1;
  }
}

/* Draws a fraction of the groups in items[0 .. count). Returns how many are drawn. */
static size_t draw(drawing *d, size_t count, double fraction, uint64_t seed, uint64_t class) {
  gconv_random_shuffle(seed, GCONV_RANDOM_SPLIT, class, d->items, count);
  size_t wanted = (size_t)floor(fraction * (double)count + 0.5);
  for (size_t i = 0; i < wanted; i++)
    d->drawn[d->items[i]] = true;
  return wanted;
}

/* Draws a share of each class. Cases are sorted by class by counting. */
static gconv_status draw_classes(const gconv_dataset *dataset, drawing *d, double fraction, uint64_t seed, size_t *drawn) {
  size_t classes = dataset->info.class_count, cases = dataset->info.cases;
  GCONV_FREED size_t *begins = calloc(classes + 1, sizeof *begins), *sorted = malloc(cases * sizeof *sorted);
  GCONV_NEED_MEMORY(begins && sorted, "no memory to part %zu cases", cases);
  for (size_t i = 0; i < cases; i++)
    begins[dataset->type->class_of(dataset, i) + 1]++;
  for (size_t k = 0; k < classes; k++)
    begins[k + 1] += begins[k];
  for (size_t i = 0; i < cases; i++)
    sorted[begins[dataset->type->class_of(dataset, i)]++] = i;
  for (size_t k = 0, begin = 0; k < classes; begin = begins[k++]) {
    for (size_t i = begin; i < begins[k]; i++)
      d->items[i - begin] = d->groups[sorted[i]];
    *drawn += draw(d, begins[k] - begin, fraction, seed, k);
  }
  return GCONV_OK;
}

static gconv_status number_rows(part *p) {
  const size_t *rows = p->whole->info.rows;
  if (!rows)
    return GCONV_OK;
  p->rows = malloc((p->base.info.cases + 1) * sizeof *p->rows);
  for (size_t i = 0; p->rows && i < p->base.info.cases; i++)
    p->rows[i] = rows[p->cases[i]];
  p->base.info.rows = p->rows;
  return p->rows ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for a part of %zu cases", p->base.info.cases);
}

static gconv_status make_part(const gconv_dataset *whole, const drawing *d, bool drawn, gconv_dataset **made) {
  part *p;
  size_t count = 0;
  GCONV_NEW(p, 1, "no memory for a part of %zu cases", whole->info.cases);
  *p = (part){.base = {.type = &type, .info = whole->info, .varies = whole->varies}, .whole = whole};
  p->base.info.notes = (gconv_column_notes){0};
  *made = &p->base;
  GCONV_NEW(p->cases, whole->info.cases, "no memory for a part of %zu cases", whole->info.cases);
  for (size_t i = 0; i < whole->info.cases; i++)
    if (d->drawn[d->groups[i]] == drawn)
      p->cases[count++] = i;
  p->base.info.cases = count;
  p->base.info.rows = p->cases;
  GCONV_TRY(number_rows(p));
  p->base.gaps = whole->gaps;
  p->base.noted = whole->noted;
  return gconv_column_notes_copy(&whole->info.notes, &p->base.info.notes);
}

/* Unless a model has means and deviations, computes them from `first`, the part for training, and copies them to `second`.
 * Sets the fills of both parts. */
static gconv_status note_parts(gconv_dataset *first, gconv_dataset *second) {
  if (first->info.notes.means && !first->noted) {
    GCONV_TRY(gconv_dataset_measure(first));
    gconv_column_notes_free(&second->info.notes);
    GCONV_TRY(gconv_column_notes_copy(&first->info.notes, &second->info.notes));
  }
  GCONV_TRY(gconv_dataset_fill(first));
  return gconv_dataset_fill(second);
}

static gconv_status split(const gconv_dataset *dataset, drawing *d, double fraction, uint64_t seed, gconv_dataset **first,
                          gconv_dataset **second) {
  size_t drawn = 0;
  number_groups(dataset, d);
  if (dataset->info.class_count > 0 && dataset->type->class_of) {
    GCONV_TRY(draw_classes(dataset, d, fraction, seed, &drawn));
  } else {
    for (size_t i = 0; i < d->group_count; i++)
      d->items[i] = i;
    drawn = draw(d, d->group_count, fraction, seed, 0);
  }
  if (drawn == 0 || drawn == d->group_count)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%g%% of %zu %s leave no case for one of the two parts", 100 * fraction,
                      d->group_count, dataset->type->group_of ? "pictures" : "cases");
  GCONV_ENDED_BY(gconv_dataset_free_at) gconv_dataset *rest = NULL, *share = NULL;
  GCONV_TRY(make_part(dataset, d, false, &rest));
  GCONV_TRY(make_part(dataset, d, true, &share));
  GCONV_TRY(note_parts(rest, share));
  *first = gconv_taken(&rest);
  *second = gconv_taken(&share);
  return GCONV_OK;
}

gconv_status gconv_dataset_split(const gconv_dataset *dataset, double fraction, uint64_t seed, gconv_dataset **first,
                                 gconv_dataset **second) {
  GCONV_NEED(dataset, first, second);
  if (!(fraction > 0 && fraction < 1))
    return gconv_fail(GCONV_BAD_ARGUMENT, "fraction is %g: it must be between 0 and 1", fraction);
  const size_t cases = dataset->info.cases;
  GCONV_FREED size_t *groups = malloc(cases * sizeof *groups), *items = malloc(cases * sizeof *items);
  GCONV_FREED bool *drawn = calloc(cases, sizeof *drawn);
  GCONV_NEED_MEMORY(groups && items && drawn, "no memory to part %zu cases", cases);
  return split(dataset, &(drawing){.groups = groups, .items = items, .drawn = drawn}, fraction, seed, first, second);
}

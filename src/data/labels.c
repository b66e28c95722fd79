/* SPDX-License-Identifier: MIT */
#include "data/labels.h"
#include "base/checksum.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "data/field.h"

#include <math.h>
#include <search.h>
#include <string.h>

typedef struct label {
  size_t number;
  char name[];
} label;

static int compare(const void *a, const void *b) {
  return strcmp(((const label *)a)->name, ((const label *)b)->name);
}

/* Copies the text without blanks around it. A number is written in its shortest form. */
static label *make_label(gconv_labels *labels, const char *begin, const char *end, bool *is_number, bool *is_fraction) {
  enum { NUMBER_BYTES = 40, DIGITS = 15, ALL_DIGITS = 17 };
  char text[NUMBER_BYTES];
  double value = 0;
  *is_number = gconv_field_read(begin, end, &value) == GCONV_FIELD_NUMBER;
  *is_fraction = *is_number && value != floor(value);
  if (*is_number && fabs(value) < 0x1p53) { /* float64 cannot tell larger numbers apart */
    int length = snprintf(text, sizeof text, "%.*g", DIGITS, value == 0 ? 0.0 : value);
    if (strtod(text, NULL) != value) /* snprintf() and strtod() have the same locale */
      length = snprintf(text, sizeof text, "%.*g", ALL_DIGITS, value);
    begin = text;
    end = text + length;
  }
  while (begin < end && (*begin == ' ' || *begin == '\t'))
    begin++;
  while (begin < end && (end[-1] == ' ' || end[-1] == '\t'))
    end--;
  size_t length = (size_t)(end - begin);
  label *made = malloc(sizeof *made + length + 1);
  if (made) {
    memcpy(made->name, begin, length);
    made->name[length] = '\0';
    made->number = labels->count + labels->other_count;
  }
  return made;
}

static gconv_status complain(void) {
  return gconv_fail(GCONV_NO_MEMORY, "no memory for the names of classes");
}

static gconv_status add_name(char ***list, size_t *count, const char *name) {
  char **names = gconv_grown(*list, *count, sizeof *names), *copy = names ? strdup(name) : NULL;
  *list = names ? names : *list;
  if (!copy)
    return complain();
  names[(*count)++] = copy;
  return GCONV_OK;
}

static gconv_status add(gconv_labels *labels, label *made, bool is_number, bool is_fraction) {
  if (labels->known)
    return add_name(&labels->others, &labels->other_count, made->name);
  GCONV_TRY(add_name(&labels->names, &labels->count, made->name));
  labels->all_numbers = is_number && (labels->all_numbers || labels->count == 1);
  if (is_fraction && !labels->fraction && !(labels->fraction = strdup(made->name)))
    return complain();
  labels->fractions |= is_fraction;
  return GCONV_OK;
}

gconv_status gconv_labels_begin(gconv_labels *labels, const char *const *names, size_t count) {
  const char *wrong = NULL;
  for (size_t i = 0; i < count; i++) {
    size_t number;
    if (!names[i])
      return gconv_fail(GCONV_BAD_ARGUMENT, "class %zu has no name", i);
    GCONV_TRY(gconv_labels_find(labels, names[i], names[i] + strlen(names[i]), &number, &wrong));
    if (wrong || number != i)
      return gconv_fail(GCONV_BAD_ARGUMENT, "class %zu, '%s', has the name of another", i, names[i]);
  }
  labels->known = count > 0;
  return GCONV_OK;
}

gconv_status gconv_labels_find(gconv_labels *labels, const char *begin, const char *end, size_t *number,
                               const char **wrong) {
  bool is_number, is_fraction;
  GCONV_FREED label *made = make_label(labels, begin, end, &is_number, &is_fraction);
  label **node = made ? tsearch(made, &labels->tree, compare) : NULL;
  *wrong = NULL;
  if (!node)
    return complain();
  if (*node != made) {
    *number = (*node)->number;
    return GCONV_OK;
  }
  if (labels->known && !labels->takes_others)
    *wrong = "is none of the classes that are known from training";
  else if (labels->count + labels->other_count >= GCONV_MOST_CLASSES)
    *wrong = "is one class too many: there may be 65536. Is this the column of labels? If labels are numbers to be "
             "approximated, say --regression";
  else if (made->name[0] == '\0')
    *wrong = "is empty";
  else if (!gconv_utf8_is_whole(made->name, strlen(made->name)))
    *wrong = "is no UTF-8, which networks keep their classes in: convert it, such as by iconv -f latin1 -t utf-8";
  gconv_status status = *wrong ? GCONV_OK : add(labels, made, is_number, is_fraction);
  if (*wrong || status != GCONV_OK) {
    tdelete(made, &labels->tree, compare);
    return status;
  }
  *number = made->number;
  made = NULL; /* the tree has it */
  return GCONV_OK;
}

typedef struct place {
  double value;
  size_t old;
} place;

static int compare_places(const void *a, const void *b) {
  const place *x = a, *y = b;
  return x->value < y->value ? -1 : x->value > y->value ? 1 : x->old < y->old ? -1 : x->old > y->old;
}

gconv_status gconv_labels_sort(gconv_labels *labels, size_t **order) {
  *order = NULL;
  if (labels->known || !labels->all_numbers)
    return GCONV_OK;
  GCONV_FREED place *places = malloc(labels->count * sizeof *places);
  GCONV_FREED char **names = malloc(labels->count * sizeof *names);
  GCONV_FREED size_t *numbers = malloc(labels->count * sizeof *numbers);
  if (!places || !names || !numbers)
    return complain();
  for (size_t i = 0; i < labels->count; i++)
    places[i] = (place){strtod(labels->names[i], NULL), i};
  qsort(places, labels->count, sizeof *places, compare_places);
  for (size_t i = 0; i < labels->count; i++) {
    names[i] = labels->names[places[i].old];
    numbers[places[i].old] = i;
  }
  free(labels->names);
  labels->names = gconv_taken(&names);
  *order = gconv_taken(&numbers);
  return GCONV_OK;
}

const char *gconv_labels_not_finite(const gconv_labels *labels) {
  const char *found = NULL;
  for (size_t i = 0; i < labels->count; i++) {
    double value;
    const char *name = labels->names[i];
    gconv_field kind = gconv_field_read(name, name + strlen(name), &value);
    if (kind == GCONV_FIELD_TEXT)
      return NULL;
    if (kind != GCONV_FIELD_NUMBER)
      found = name;
  }
  return labels->count > 1 ? found : NULL;
}

void gconv_labels_forget_first(gconv_labels *labels) {
  free(labels->names[0]);
  labels->count--;
  memmove(labels->names, labels->names + 1, labels->count * sizeof *labels->names);
  labels->all_numbers = true;
  for (size_t i = 0; i < labels->count && labels->all_numbers; i++) {
    double value;
    const char *name = labels->names[i];
    labels->all_numbers = gconv_field_read(name, name + strlen(name), &value) == GCONV_FIELD_NUMBER;
  }
}

uint64_t gconv_labels_digest(const gconv_labels *labels, uint64_t hash) {
  for (size_t i = 0; i < labels->count; i++)
    hash = gconv_fnv1a(hash, labels->names[i], strlen(labels->names[i]) + 1);
  return hash;
}

void gconv_labels_free(gconv_labels *labels) {
  tdestroy(labels->tree, free);
  for (size_t i = 0; i < labels->count; i++)
    free(labels->names[i]);
  for (size_t i = 0; i < labels->other_count; i++)
    free(labels->others[i]);
  free(labels->names);
  free(labels->others);
  free(labels->fraction);
  *labels = (gconv_labels){0};
}

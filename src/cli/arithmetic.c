/* SPDX-License-Identifier: MIT */
/* Stages of arithmetic, such as -f subtract:input or -f mix:other.png,0.3, and local statistics, such as -f std:size=5. */
#include "cli/arithmetic.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool gconv_word_is_arithmetic(const char *word, gconv_arithmetic *kind) {
  const size_t length = strcspn(word, ":");
  if (word[length] != ':' || access(word, F_OK) == 0) /* a file of this name comes first, as with filters */
    return false;
  for (int k = 0; k < GCONV_BRIGHTNESS; k++) {
    const char *name = gconv_arithmetic_name((gconv_arithmetic)k);
    *kind = (gconv_arithmetic)k;
    if (strlen(name) == length && strncmp(name, word, length) == 0)
      return true;
  }
  return false;
}

/* Parses "KIND:FILE", or "mix:FILE,WEIGHT". */
static gconv_status parse(const char *word, gconv_stage_arithmetic *a) {
  char *path = strdup(strchr(word, ':') + 1);
  GCONV_NEED_MEMORY(path, "out of memory");
  a->given = true;
  a->path = path;
  if (a->kind == GCONV_MIX) {
    char *comma = strrchr(path, ',');
    if (!comma || !gconv_parse_number(comma + 1, &a->amount))
      return gconv_refuse(
          "-f %s: mix takes a second image and its weight: mix:input,0.3 is 0.3 of the result and 0.7 of the "
          "input",
          word);
    *comma = 0;
  }
  if (*path == 0 || strcmp(path, "-") == 0)
    return gconv_refuse("-f %s: name a file, or input: the picture before the filters", word);
  if (a->kind == GCONV_FLAT && strcmp(path, "input") == 0)
    return gconv_refuse("-f %s: flat takes the picture of a flat field: flat:FILE", word);
  return GCONV_OK;
}

static gconv_status read_other(const gconv_common *common, const char *word, gconv_stage_arithmetic *a) {
  const gconv_read_options options = {.max_pixels = common->max_pixels, .max_bytes = common->memory};
  if (strcmp(a->path, "input") == 0 && access("input", F_OK) != 0)
    return GCONV_OK;
  const gconv_status status = gconv_image_read(a->path, &options, &a->other);
  return status == GCONV_OK ? status : gconv_fail(status, "-f %s: %s", word, gconv_last_error());
}

/* Returns the name of the local statistic that a word names, alone or with a size; NULL: it names none. */
static const char *find_statistic(const char *word) {
  const size_t length = strcspn(word, ":");
  for (int k = 0; gconv_statistic_name((gconv_statistic)k); k++) {
    const char *name = gconv_statistic_name((gconv_statistic)k);
    if (strlen(name) == length && strncmp(name, word, length) == 0 && access(word, F_OK) != 0)
      return name;
  }
  return NULL;
}

static gconv_status name_filter(gconv_filters *filters, const char *name) {
  free(filters->items[0].name);
  filters->items[0].name = strdup(name);
  GCONV_NEED_MEMORY(filters->items[0].name, "out of memory");
  return GCONV_OK;
}

/* Reads the window of a statistic: a box of the size that the word names. */
static gconv_status read_window(const char *word, const char *statistic, gconv_stage_arithmetic *a, gconv_filters *filters) {
  char box[64];
  snprintf(box, sizeof box, "average%s", word + strlen(statistic));
  if (strlen(word) > 40 || gconv_filters_read(box, NULL, filters) != GCONV_OK)
    return gconv_refuse("-f %s: a local statistic takes the size of its window: %s:size=5, or %s:size=5x7 (rows x columns)",
                        word, statistic, statistic);
  a->statistic = statistic;
  return name_filter(filters, statistic);
}

gconv_status gconv_stage_make_filters(const gconv_stage_arithmetic *a, const gconv_filters *filters,
                                      const gconv_options *options, bool border_given, gconv_operation **operation) {
  gconv_statistic statistic = GCONV_VARIANCE;
  gconv_options own = *options;
  if (!a || !a->statistic)
    return gconv_operation_filters(filters, options, operation);
  while (gconv_statistic_name(statistic) != a->statistic)
    statistic++;
  own.border = border_given ? own.border : GCONV_BORDER_NORMALIZE;
  return gconv_operation_local(statistic, filters->items[0].rows, filters->items[0].columns, &own, operation);
}

gconv_status gconv_stage_read_arithmetic(const gconv_common *common, const gconv_texts *words, gconv_stage_arithmetic *a,
                                         gconv_filters *filters) {
  for (size_t i = 0; i < words->count; i++) {
    const char *word = words->items[i], *statistic = find_statistic(word);
    if (!statistic && !gconv_word_is_arithmetic(word, &a->kind))
      continue;
    if (words->count > 1)
      return gconv_refuse("-f %s: this is a stage of its own: put --then between it and -f %s", word, words->items[i == 0]);
    if (statistic)
      return read_window(word, statistic, a, filters);
    GCONV_TRY(parse(word, a));
    GCONV_TRY(read_other(common, word, a));
    GCONV_TRY(gconv_filters_read("identity", NULL, filters));
    GCONV_TRY(name_filter(filters, gconv_arithmetic_name(a->kind)));
  }
  return GCONV_OK;
}

gconv_status gconv_stages_compute(gconv_operation **stages, size_t *count, const gconv_stage_arithmetic *a) {
  gconv_operation *inner = NULL, *result = NULL;
  gconv_status status = gconv_operation_chain(stages, *count, &inner);
  GCONV_THEN(status, gconv_operation_arithmetic(*count == 1 ? stages[0] : inner, a->kind, a->amount,
                                                a->other.data ? &a->other : NULL, &result));
  gconv_operation_free(inner);
  if (status != GCONV_OK)
    return status;
  for (size_t i = 0; i < *count; i++)
    gconv_operation_free(stages[i]);
  stages[0] = result;
  *count = 1;
  return GCONV_OK;
}

void gconv_stage_free_arithmetic(gconv_stage_arithmetic *a) {
  free(a->path);
  gconv_image_free(&a->other);
}

/* SPDX-License-Identifier: MIT */
/*
 * Prints a data set as JSON, for tests: dataset_dump KIND INPUTS [NAME=VALUE...], names as the fields of
 * gconv_dataset_options; and epoch=N, split=FRACTION (which prints the second part), passes=N (reads all as often). Fails
 * with the text of the error.
 */
#include "gconv_learn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gconv_dataset_options options;
static unsigned long epoch;
static double fraction;
static const char *classes[64];

static void set(const char *name, const char *value) {
  if (strcmp(name, "targets") == 0)
    options.targets = value;
  else if (strcmp(name, "syntax") == 0)
    options.syntax = value;
  else if (strcmp(name, "label") == 0)
    options.label = value;
  else if (strcmp(name, "missing") == 0)
    options.missing = value;
  else if (strcmp(name, "separator") == 0)
    options.separator = value[0];
  else if (strcmp(name, "regression") == 0)
    options.regression = true;
  else if (strcmp(name, "classification") == 0)
    options.classification = true;
  else if (strcmp(name, "one_hot") == 0)
    options.one_hot = true;
  else if (strcmp(name, "unlabelled") == 0)
    options.unlabelled = true;
  else if (strcmp(name, "augment") == 0)
    options.augment = true;
  else if (strcmp(name, "gray") == 0)
    options.gray = true;
  else if (strcmp(name, "columns") == 0)
    options.columns = strtoul(value, NULL, 10);
  else if (strcmp(name, "window") == 0)
    options.window = atoi(value);
  else if (strcmp(name, "hop") == 0)
    options.hop = atoi(value);
  else if (strcmp(name, "patch") == 0)
    options.patch = atoi(value);
  else if (strcmp(name, "seed") == 0)
    options.seed = strtoul(value, NULL, 10);
  else if (strcmp(name, "epoch") == 0)
    epoch = strtoul(value, NULL, 10);
  else if (strcmp(name, "split") == 0)
    fraction = atof(value);
  else if (strcmp(name, "class") == 0)
    classes[options.class_count++] = value;
  else
    exit(2);
}

static void print_texts(const char *name, const char *const *texts, size_t count) {
  printf("\"%s\": [", name);
  for (size_t i = 0; texts && i < count; i++) {
    printf("%s\"", i ? ", " : "");
    for (const char *at = texts[i]; *at; at++)
      printf(*at == '"' || *at == '\\' ? "\\%c" : "%c", *at);
    printf("\"");
  }
  printf("], ");
}

static void print_floats(const char *name, const float *numbers, size_t count, const char *end) {
  printf("\"%s\": [", name);
  for (size_t i = 0; i < count; i++)
    printf("%s%.9g", i ? ", " : "", (double)numbers[i]);
  printf("]%s", end);
}

static int dump(const gconv_dataset *dataset) {
  const gconv_dataset_info *info = gconv_dataset_get_info(dataset);
  size_t width = (size_t)info->channels * (size_t)info->height * (size_t)info->width;
  size_t outputs = info->class_count ? 1 : info->outputs;
  float *inputs = malloc((info->cases * width + 1) * sizeof *inputs), *targets = malloc((info->cases * outputs + 1) * 4);
  size_t *cases = malloc((info->cases + 1) * sizeof *cases);
  for (size_t i = 0; i < info->cases; i++)
    cases[i] = info->cases - 1 - i; /* not in the order of the file */
  if (gconv_dataset_read(dataset, epoch, cases, info->cases, inputs, outputs ? targets : NULL) != GCONV_OK) {
    fprintf(stderr, "%s\n", gconv_last_error());
    return 1;
  }
  printf("{\"cases\": %zu, \"shape\": [%d, %d, %d], \"outputs\": %zu, \"target\": [%d, %d, %d], ", info->cases,
         info->channels, info->height, info->width, info->outputs, info->target_channels, info->target_height,
         info->target_width);
  for (size_t i = 0; info->rows && i < info->cases; i++)
    printf("%s%zu%s", i == 0 ? "\"rows\": [" : ", ", info->rows[i], i + 1 == info->cases ? "], " : "");
  print_texts("classes", info->classes, info->class_count);
  print_texts("columns", info->columns, info->columns ? width : 0);
  print_floats("inputs", inputs, info->cases * width, ", ");
  print_floats("targets", targets, info->cases * outputs, "}\n");
  free(inputs);
  free(targets);
  free(cases);
  return 0;
}

static void say(gconv_log_level level, const char *text, void *user) {
  (void)level;
  (void)user;
  fprintf(stderr, "warning: %s\n", text);
}

int main(int count, char **words) {
  static const char *const kinds[] = {"table", "windows", "classes", "pairs"};
  gconv_dataset *dataset = NULL, *first = NULL, *second = NULL;
  gconv_set_log(say, NULL);
  options.inputs = words[2];
  options.classes = classes;
  for (int i = 0; i < 4; i++)
    if (strcmp(words[1], kinds[i]) == 0)
      options.kind = (gconv_dataset_kind)i;
  for (int i = 3; i < count; i++) {
    char *equals = strchr(words[i], '=');
    *equals = '\0';
    set(words[i], equals + 1);
  }
  gconv_status status = gconv_dataset_open(&options, &dataset);
  if (status == GCONV_OK && fraction > 0)
    status = gconv_dataset_split(dataset, fraction, options.seed, &first, &second);
  if (status != GCONV_OK)
    fprintf(stderr, "%s\n", gconv_last_error());
  int result = status == GCONV_OK ? dump(second ? second : dataset) : 1;
  gconv_dataset_free(first);
  gconv_dataset_free(second);
  gconv_dataset_free(dataset);
  return result;
}

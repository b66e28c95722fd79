/* SPDX-License-Identifier: MIT */
#include "cli/bank_options.h"
#include "cli/numbers.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

gconv_settings *gconv_bank_settings(const gconv_option *option, void *settings) {
  gconv_settings *all = settings;
  all->bank_option = option->name;
  return all;
}

/* Puts what was given of the layer so far aside, and begins the next. */
gconv_status gconv_parse_then(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)value;
  gconv_settings *all = gconv_bank_settings(option, settings);
  if (all->filters.count == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "there is no bank before it: -f BANK --then -f BANK");
  if (all->mosaic || all->convolution.combine != GCONV_COMBINE_NONE)
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "--combine stands before it, but is for what the last bank yields: put it behind the last --then");
  if (all->race)
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "--algorithm all stands before it, but times all layers together: put it behind the last --then");
  gconv_layer_settings *layers = realloc(all->layers, (all->layer_count + 1) * sizeof *layers);
  if (!layers)
    return gconv_complain_memory(message);
  all->layers = layers;
  all->layer.flip = all->convolution.flip;
  all->layer.algorithm = all->algorithm_given ? all->convolution.algorithm : NULL;
  all->algorithm_given = false;
  all->convolution.algorithm = "auto";
  layers[all->layer_count++] = (gconv_layer_settings){all->filters, all->syntax, all->layer};
  all->filters = (gconv_texts){0};
  all->syntax = NULL;
  all->layer = (gconv_layer){0};
  all->convolution.flip = false;
  return GCONV_OK;
}

gconv_status gconv_parse_activation(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  gconv_layer *layer = &gconv_bank_settings(option, settings)->layer;
  const char *names[GCONV_OPTION_NAMES] = {NULL};
  for (int i = 0; gconv_activation_name((gconv_activation)i); i++)
    names[i] = gconv_activation_name((gconv_activation)i);
  double slope = 0.01;
  if (strncmp(value, "leaky:", 6) == 0) {
    if (!gconv_parse_number(value + 6, &slope))
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "leaky takes the slope below 0, such as leaky:0.1");
    value = "leaky";
  }
  int index;
  GCONV_TRY(gconv_option_find(names, value, &index, message));
  layer->activation = (gconv_activation)index;
  layer->slope = (float)slope;
  return GCONV_OK;
}

gconv_status gconv_parse_groups(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  int64_t groups;
  if (!gconv_parse_integer(value, 1, INT_MAX, &groups))
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes a number of groups, from 1 on");
  gconv_bank_settings(option, settings)->layer.groups = (int32_t)groups;
  return GCONV_OK;
}

/* Numbers with commas between; *numbers is owned by the settings. */
static gconv_status parse_numbers(const char *value, float **numbers, int *count, gconv_message *message) {
  char *copy = strdup(value), *next = copy;
  float *list = calloc(strlen(value) + 1, sizeof *list);
  int found = 0;
  bool good = copy && list;
  for (char *word; good && (word = strsep(&next, ",")); found++) {
    double number;
    good = gconv_parse_number(word, &number);
    list[found] = good ? (float)number : 0;
  }
  free(copy);
  if (!good) {
    free(list);
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes a number, or one for each channel with commas between");
  }
  free(*numbers);
  *numbers = list;
  *count = found;
  return GCONV_OK;
}

gconv_status gconv_parse_mean(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  gconv_settings *all = gconv_bank_settings(option, settings);
  return parse_numbers(value, &all->mean, &all->mean_count, message);
}

gconv_status gconv_parse_std(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  gconv_settings *all = gconv_bank_settings(option, settings);
  return parse_numbers(value, &all->std, &all->std_count, message);
}

gconv_status gconv_parse_math(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  const char *names[GCONV_OPTION_NAMES] = {NULL};
  for (int i = 0; gconv_math_name((gconv_math)i); i++)
    names[i] = gconv_math_name((gconv_math)i);
  return gconv_option_find(names, value, &gconv_bank_settings(option, settings)->math, message);
}

gconv_status gconv_parse_batch(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  int64_t batch;
  if (!gconv_parse_integer(value, 1, 1 << 20, &batch))
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes a number of images, from 1 on");
  gconv_bank_settings(option, settings)->batch = (int)batch;
  return GCONV_OK;
}

gconv_status gconv_parse_layout(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  static const char *const layouts[] = {"nchw", "nhwc", NULL};
  int layout;
  GCONV_TRY(gconv_option_find(layouts, value, &layout, message));
  gconv_bank_settings(option, settings)->nhwc = layout == 1;
  return GCONV_OK;
}

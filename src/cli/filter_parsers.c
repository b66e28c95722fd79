/* SPDX-License-Identifier: MIT */
#include "cli/filter_parsers.h"
#include "cli/bank_options.h"
#include "cli/numbers.h"

#include <string.h>

enum { LARGEST_EXTENT = 1 << 30 }; /* of strides, dilations and paddings: the library's */

/* ---- What the convolution is ---- */

static const char reflect_text[] = "there are two ways to reflect the row  a b c d:\n"
                                   "  symmetric    c b a | a b c d | d c b    the edge twice (scipy's \"reflect\", vips' "
                                   "\"mirror\")\n"
                                   "  reflect101   d c b | a b c d | c b a    the edge once (NumPy's \"reflect\", OpenCV's "
                                   "default, scipy's \"mirror\")";

/* The names of borders elsewhere, and here. */
static const struct {
  const char *word, *name;
} borders_elsewhere[] = {
    {"edge", "replicate"}, {"nearest", "replicate"}, {"copy", "replicate"},   {"extend", "replicate"},
    {"tile", "wrap"},      {"circular", "wrap"},     {"periodic", "wrap"},    {"black", "zero"},
    {"none", "zero"},      {"zeros", "zero"},        {"white", "constant:1"},
};

gconv_status gconv_parse_border(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  gconv_options *options = &((gconv_settings *)settings)->convolution;
  const char *names[GCONV_OPTION_NAMES] = {NULL};
  for (int i = 0; i < GCONV_OPTION_NAMES - 1; i++)
    names[i] = gconv_border_name((gconv_border)i);
  int border = 0;
  for (size_t i = 0; i < sizeof borders_elsewhere / sizeof *borders_elsewhere; i++)
    if (strcmp(value, borders_elsewhere[i].word) == 0)
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "here this is called %s", borders_elsewhere[i].name);
  if (strcmp(value, "reflect") == 0 || strcmp(value, "mirror") == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "%s", reflect_text);
  if (strncmp(value, "constant:", 9) == 0) {
    if (!gconv_parse_number(value + 9, &options->border_value))
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "constant takes a number, such as constant:0.5");
    border = GCONV_BORDER_CONSTANT;
  } else {
    GCONV_TRY(gconv_option_find(names, value, &border, message));
    if (border == GCONV_BORDER_CONSTANT)
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "constant takes a value, such as constant:0.5");
  }
  options->border = (gconv_border)border;
  return GCONV_OK;
}

gconv_status gconv_parse_combine(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  const char *names[GCONV_OPTION_NAMES] = {NULL};
  gconv_settings *all = settings;
  int count = 0, combine = 0;
  for (; gconv_combine_name((gconv_combine)count); count++)
    names[count] = gconv_combine_name((gconv_combine)count);
  names[count] = "mosaic";
  GCONV_TRY(gconv_option_find(names, value, &combine, message));
  all->mosaic = combine == count;
  all->convolution.combine = all->mosaic ? GCONV_COMBINE_NONE : (gconv_combine)combine;
  if (all->mosaic || combine == GCONV_COMBINE_ARGMAX)
    gconv_bank_settings(option, settings);
  return GCONV_OK;
}

gconv_status gconv_parse_range(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  ((gconv_settings *)settings)->tone_given = true;
  return gconv_option_choice(option, value, settings, message);
}

/* Pixels around: N, Y,X or TOP,BOTTOM,LEFT,RIGHT, into the options of images and of layers. */
static gconv_status parse_pads(const char *value, gconv_settings *settings, gconv_message *message) {
  gconv_options *options = &settings->convolution;
  gconv_layer *layer = &settings->layer;
  int32_t pad[4];
  int count = gconv_parse_integers(value, 4, 0, LARGEST_EXTENT, pad);
  if (count == 0 || count == 3)
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "this takes same, valid, full, or pixels up to %d: N, Y,X or TOP,BOTTOM,LEFT,RIGHT; of banks also "
                          "same-upper and same-lower",
                          LARGEST_EXTENT);
  options->padding = GCONV_PADDING_EXPLICIT;
  layer->padding = GCONV_LAYER_EXPLICIT;
  options->pad_top = layer->pad_top = pad[0];
  options->pad_bottom = layer->pad_bottom = count == 4 ? pad[1] : pad[0];
  options->pad_left = layer->pad_left = count == 4 ? pad[2] : pad[count - 1];
  options->pad_right = layer->pad_right = count == 4 ? pad[3] : pad[count - 1];
  return GCONV_OK;
}

gconv_status gconv_parse_padding(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  static const char *const names[] = {"same", "valid", "full", "same-upper", "same-lower"};
  static const gconv_layer_padding of_layer[] = {GCONV_LAYER_SAME, GCONV_LAYER_VALID, GCONV_LAYER_FULL,
                                                 GCONV_LAYER_SAME_UPPER, GCONV_LAYER_SAME_LOWER};
  gconv_settings *all = settings;
  for (int i = 0; i < 5; i++)
    if (strcmp(names[i], value) == 0) {
      all->layer.padding = of_layer[i];
      if (i < 3) /* in the order of gconv_padding */
        all->convolution.padding = (gconv_padding)i;
      else
        gconv_bank_settings(option, settings);
      return GCONV_OK;
    }
  return parse_pads(value, all, message);
}

/* N or Y,X, from 1 to LARGEST_EXTENT, into two int32_t: y, x. */
static gconv_status parse_steps(const char *value, int32_t *y, int32_t *x, gconv_message *message) {
  int32_t steps[2];
  int count = gconv_parse_integers(value, 2, 1, LARGEST_EXTENT, steps);
  if (count == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes one or two integers from 1 to %d: N or Y,X",
                          LARGEST_EXTENT);
  *y = steps[0];
  *x = steps[count - 1];
  return GCONV_OK;
}

gconv_status gconv_parse_stride(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  gconv_options *options = &((gconv_settings *)settings)->convolution;
  gconv_layer *layer = &((gconv_settings *)settings)->layer;
  GCONV_TRY(parse_steps(value, &layer->stride_y, &layer->stride_x, message));
  options->stride_y = layer->stride_y;
  options->stride_x = layer->stride_x;
  return GCONV_OK;
}

gconv_status gconv_parse_dilation(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  gconv_options *options = &((gconv_settings *)settings)->convolution;
  gconv_layer *layer = &((gconv_settings *)settings)->layer;
  GCONV_TRY(parse_steps(value, &layer->dilation_y, &layer->dilation_x, message));
  options->dilation_y = layer->dilation_y;
  options->dilation_x = layer->dilation_x;
  return GCONV_OK;
}

/* ---- Files, algorithms, devices ---- */

gconv_status gconv_parse_format(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  const gconv_format_info *format = gconv_format_by_name(value);
  if (format && format->writes) {
    ((gconv_settings *)settings)->format = format;
    return GCONV_OK;
  }
  const char *names[32] = {NULL};
  size_t count = 0;
  for (size_t i = 0; count < 31 && (format = gconv_format_at(i)); i++)
    if (format->writes)
      names[count++] = format->name;
  int index;
  return gconv_option_find(names, value, &index, message);
}

/* The algorithms for images, then those for layers; NULL past the end. */
static const gconv_algorithm_info *algorithm_at(size_t index) {
  size_t images = 0;
  while (gconv_algorithm_at(images))
    images++;
  return index < images ? gconv_algorithm_at(index) : gconv_layer_algorithm_at(index - images);
}

gconv_status gconv_parse_algorithm(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  const gconv_algorithm_info *algorithm;
  const char *names[64] = {"auto", "all"};
  size_t count = 2;
  for (size_t i = 0; (algorithm = algorithm_at(i)); i++) {
    size_t known = 0;
    while (known < count && strcmp(names[known], algorithm->name) != 0)
      known++;
    if (known == count && count < 63)
      names[count++] = algorithm->name;
  }
  int index;
  GCONV_TRY(gconv_option_find(names, value, &index, message));
  ((gconv_settings *)settings)->race = index == 1;
  ((gconv_settings *)settings)->algorithm_given = true;
  ((gconv_settings *)settings)->convolution.algorithm = index == 1 ? "auto" : names[index];
  return GCONV_OK;
}

static bool is_algorithm(const char *name, size_t length) {
  const gconv_algorithm_info *algorithm;
  for (size_t i = 0; (algorithm = algorithm_at(i)); i++)
    if (strlen(algorithm->name) == length && strncmp(algorithm->name, name, length) == 0)
      return true;
  return false;
}

gconv_status gconv_parse_without(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  for (const char *name = value; *name;) {
    size_t length = strcspn(name, ",");
    if (!is_algorithm(name, length))
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "there is no algorithm '%.*s': gconv algorithms lists them",
                            (int)length, name);
    name += length + (name[length] == ',');
  }
  ((gconv_settings *)settings)->convolution.without = value;
  return GCONV_OK;
}

gconv_status gconv_parse_device(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  return gconv_settings_take_device(settings, value, message);
}

gconv_status gconv_parse_max_pixels(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  if (!gconv_parse_count(value, &((gconv_settings *)settings)->max_pixels))
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes a number of pixels, such as 500M (there are k, M and G)");
  return GCONV_OK;
}

gconv_status gconv_parse_workspace(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  uint64_t bytes;
  if (!gconv_parse_count(value, &bytes) || bytes == 0 || bytes > SIZE_MAX / 2)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes a number of bytes, such as 256M (there are k, M and G)");
  ((gconv_settings *)settings)->convolution.workspace_bytes = (size_t)bytes;
  return GCONV_OK;
}

gconv_status gconv_parse_shard(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  return gconv_shard_parse(value, &((gconv_settings *)settings)->shard, message);
}

gconv_status gconv_parse_memory(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  uint64_t bytes;
  if (!gconv_parse_count(value, &bytes) || bytes == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes a number of bytes, such as 2G (there are k, M and G)");
  ((gconv_settings *)settings)->memory = bytes;
  return GCONV_OK;
}

gconv_status gconv_parse_timings(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  static const char *const styles[] = {"table", "json", NULL};
  (void)option;
  int style = 0;
  if (value)
    GCONV_TRY(gconv_option_find(styles, value, &style, message));
  ((gconv_settings *)settings)->timings = GCONV_TIMINGS_TABLE + style;
  return GCONV_OK;
}

gconv_status gconv_parse_verify(const gconv_option *option, const char *value, void *settings, gconv_message *message) {
  (void)option;
  gconv_settings *all = settings;
  all->verify = true;
  if (value && (!gconv_parse_number(value, &all->tolerance) || all->tolerance < 0))
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes the largest difference allowed, from 0 on");
  return GCONV_OK;
}

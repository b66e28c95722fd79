/* SPDX-License-Identifier: MIT */
/* The kinds of values that single options of the main job have. */
#include "cli/job_settings.h"

#include <string.h>

enum { LARGEST = 1 << 30 }; /* of the numbers of a region */

static gconv_job_settings *settings_of(const gconv_given *given) {
  return given->record;
}

/* ---- --alpha ---- */

gconv_status gconv_take_alpha(const gconv_given *given) {
  settings_of(given)->job.alpha_meant = true;
  return gconv_take_word(given);
}

/* ---- Options of a layer: their field is the gconv_layer ---- */

/* Pixels around: N, Y,X or TOP,BOTTOM,LEFT,RIGHT. */
static gconv_status parse_pads(const char *value, int most, gconv_layer *layer, gconv_message *message) {
  int32_t pad[4];
  int count = gconv_parse_integers(value, 4, 0, most, pad);
  if (count == 0 || count == 3)
    return gconv_refuse(message,
                        "this takes same, valid, full, or pixels up to %d: N, Y,X or TOP,BOTTOM,LEFT,RIGHT; of banks also "
                        "same-upper and same-lower",
                        most);
  layer->padding = GCONV_LAYER_EXPLICIT;
  layer->pad_top = pad[0];
  layer->pad_bottom = count == 4 ? pad[1] : pad[0];
  layer->pad_left = count == 4 ? pad[2] : pad[count - 1];
  layer->pad_right = count == 4 ? pad[3] : pad[count - 1];
  return GCONV_OK;
}

gconv_status gconv_take_padding(const gconv_given *given) {
  static const gconv_layer_padding paddings[] = {GCONV_LAYER_SAME, GCONV_LAYER_VALID, GCONV_LAYER_FULL,
                                                 GCONV_LAYER_SAME_UPPER, GCONV_LAYER_SAME_LOWER};
  gconv_layer *layer = given->field;
  gconv_message unknown;
  int index;
  if (gconv_option_find_word(given->option, given->value, &index, &unknown) != GCONV_OK)
    return parse_pads(given->value, given->option->most, layer, given->message);
  layer->padding = paddings[index];
  bool of_banks = layer->padding == GCONV_LAYER_SAME_UPPER || layer->padding == GCONV_LAYER_SAME_LOWER;
  if (of_banks && !settings_of(given)->of_banks)
    settings_of(given)->of_banks = given->option->name;
  return GCONV_OK;
}

void gconv_print_padding(FILE *out, const void *field) {
  const gconv_layer *layer = field;
  fprintf(out, "%d %d %d %d %d", (int)layer->padding, layer->pad_top, layer->pad_left, layer->pad_bottom, layer->pad_right);
}

gconv_status gconv_take_activation(const gconv_given *given) {
  gconv_layer *layer = given->field;
  double slope = 0;
  int index;
  bool leaky = strncmp(given->value, "leaky:", 6) == 0, sigmoid = strncmp(given->value, "sigmoid:", 8) == 0;
  const char *word = leaky ? "leaky" : sigmoid ? "sigmoid" : given->value;
  if (leaky && !gconv_parse_float(given->value + 6, &slope))
    return gconv_refuse(given->message, "leaky takes the slope below 0, such as leaky:0.1");
  if (sigmoid && (!gconv_parse_float(given->value + 8, &slope) || slope == 0))
    return gconv_refuse(given->message, "sigmoid takes its slope, which is not 0, such as sigmoid:0.5");
  GCONV_TRY(gconv_option_find_word(given->option, word, &index, given->message));
  layer->activation = (gconv_activation)index;
  layer->slope = !leaky && index == GCONV_ACTIVATION_LEAKY ? 0.01F : (float)slope;
  return GCONV_OK;
}

void gconv_print_activation(FILE *out, const void *field) {
  const gconv_layer *layer = field;
  fprintf(out, "%d %a", (int)layer->activation, (double)layer->slope);
}

gconv_status gconv_take_then(const gconv_given *given) {
  return gconv_job_settings_begin_layer(settings_of(given), given->message);
}

/* ---- Others ---- */

gconv_status gconv_take_format(const gconv_given *given) {
  gconv_naming *naming = given->field;
  const gconv_format_info *format = gconv_format_by_name(given->value); /* by other names, too */
  int index;
  naming->same = strcmp(given->value, "same") == 0;
  settings_of(given)->rows = strcmp(given->value, "csv") == 0     ? GCONV_ROWS_CSV
                             : strcmp(given->value, "f32le") == 0 ? GCONV_ROWS_F32LE
                                                                  : GCONV_ROWS_UNKNOWN;
  if (settings_of(given)->rows != GCONV_ROWS_UNKNOWN) {
    naming->format = NULL;
    return GCONV_OK;
  }
  if (!naming->same && (!format || !format->writes))
    return gconv_option_find_word(given->option, given->value, &index, given->message);
  naming->format = naming->same ? NULL : format;
  return GCONV_OK;
}

void gconv_print_format(FILE *out, const void *field) {
  const gconv_naming *naming = field;
  fputs(naming->same ? "same" : naming->format ? naming->format->name : "", out);
}

/* A name, or several with commas between, for a race. */
gconv_status gconv_take_algorithm(const gconv_given *given) {
  bool several = strchr(given->value, ',') != NULL;
  const gconv_given all = {given->option, "all", given->record, given->field, given->message};
  settings_of(given)->racers = several ? given->value : NULL;
  if (several)
    GCONV_TRY(gconv_option_find_words(given->option, given->value, given->message));
  return gconv_take_name(several ? &all : given);
}

gconv_status gconv_take_without(const gconv_given *given) {
  if (given->value[0])
    GCONV_TRY(gconv_option_find_words(given->option, given->value, given->message));
  *(const char **)given->field = given->value;
  return GCONV_OK;
}

gconv_status gconv_take_device(const gconv_given *given) {
  *(const char **)given->field = given->value;
  return gconv_check_device(given->value, given->message);
}

gconv_status gconv_take_shard(const gconv_given *given) {
  return gconv_shard_parse(given->value, given->field, given->message);
}

/* The sign and the digits of an offset, which end at `end`. */
static bool parse_offset(const char *text, const char *end, int32_t *offset) {
  char digits[16];
  int64_t number;
  if (end - text < 2 || (size_t)(end - text) > sizeof digits || text[1] < '0' || text[1] > '9')
    return false;
  snprintf(digits, sizeof digits, "%.*s", (int)(end - text - 1), text + 1);
  if (!gconv_parse_integer(digits, 0, LARGEST, &number))
    return false;
  *offset = (int32_t)(text[0] == '-' ? -number : number);
  return true;
}

/* The field is the gconv_area: WxH+X+Y. */
gconv_status gconv_take_region(const gconv_given *given) {
  gconv_area *area = given->field;
  char width[16], height[16];
  int64_t w = 0, h = 0;
  const char *value = given->value, *cross = value + strcspn(value, "x"), *x = cross + strcspn(cross, "+-"),
             *y = *x ? x + 1 + strcspn(x + 1, "+-") : x;
  snprintf(width, sizeof width, "%.*s", (int)(cross - value), value);
  snprintf(height, sizeof height, "%.*s", *cross ? (int)(x - cross - 1) : 0, *cross ? cross + 1 : "");
  if (area->width > 0)
    return gconv_refuse(given->message,
                        "given twice: it is one rectangle; for several, give a picture that is white in them "
                        "as --mask, or filter one after the other");
  bool good = cross - value < 16 && x - cross < 16 && gconv_parse_integer(width, 1, LARGEST, &w) &&
              gconv_parse_integer(height, 1, LARGEST, &h) && parse_offset(x, y, &area->x) &&
              parse_offset(y, y + strlen(y), &area->y);
  if (!good)
    return gconv_refuse(given->message, "this takes WIDTHxHEIGHT+X+Y in pixels, such as 640x480+100+50: a rectangle whose "
                                        "left column is X and whose top row is Y, counted from 0");
  area->width = (int32_t)w;
  area->height = (int32_t)h;
  return GCONV_OK;
}

void gconv_print_region(FILE *out, const void *field) {
  const gconv_area *area = field;
  fprintf(out, "%d %d %d %d", (int)area->width, (int)area->height, (int)area->x, (int)area->y);
}

/* The field is the gconv_batch. */
gconv_status gconv_take_verify(const gconv_given *given) {
  gconv_batch *batch = given->field;
  batch->verify = true;
  if (given->value && (!gconv_parse_number(given->value, &batch->tolerance) || batch->tolerance < 0))
    return gconv_refuse(given->message, "this takes the largest difference allowed, from 0 on");
  return GCONV_OK;
}

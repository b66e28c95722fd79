/* SPDX-License-Identifier: MIT */
/* The kinds of values that single options of bench have: shapes, and lists of them. */
#include "bench/bench.h"
#include "cli/options.h"

#include <string.h>

/* WxH, or with `most` of 3 also WxHxC, into numbers; how many there are, 0 if it is anything else. */
static int parse_extents(const char *value, size_t length, int most, int32_t *numbers) {
  char text[64];
  if (length >= sizeof text)
    return 0;
  memcpy(text, value, length);
  text[length] = '\0';
  for (char *at = text; *at; at++)
    *at = *at == 'x' ? ',' : *at == ',' ? '?' : *at;
  int count = gconv_parse_integers(text, most, 1, INT32_MAX, numbers);
  return count >= 2 ? count : 0;
}

gconv_status gconv_take_images(const gconv_given *given) {
  gconv_bench_settings *bench = given->field;
  size_t length = strlen(given->value);
  bool planar = length > 0 && given->value[length - 1] == 'p';
  int32_t parts[3] = {0, 0, 1};
  if (parse_extents(given->value, length - planar, 3, parts) == 0)
    return gconv_refuse(given->message, "this takes WIDTHxHEIGHT or WIDTHxHEIGHTxCHANNELS, such as 3840x2160x3");
  if (bench->image_count == GCONV_BENCH_MOST)
    return gconv_refuse(given->message, "there are %d images already", GCONV_BENCH_MOST);
  bench->images[bench->image_count++] = (gconv_bench_image){parts[0], parts[1], parts[2], planar};
  return GCONV_OK;
}

/* "all" adds none: so it is all. */
gconv_status gconv_take_algorithms(const gconv_given *given) {
  GCONV_TRY(gconv_option_find_words(given->option, given->value, given->message));
  for (const char *at = given->value; *at; at += strcspn(at, ","), at += *at == ',') {
    int length = (int)strcspn(at, ",");
    if ((length != 3 || strncmp(at, "all", 3) != 0) && !gconv_texts_add(given->field, strndup(at, (size_t)length)))
      return gconv_complain_memory(given->message);
  }
  return GCONV_OK;
}

gconv_status gconv_take_types(const gconv_given *given) {
  gconv_bench_settings *bench = given->field;
  for (const char *at = given->value; *at; at += strcspn(at, ","), at += *at == ',') {
    char word[16];
    int type, known = 0;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
    GCONV_TRY(gconv_option_find_word(given->option, word, &type, given->message)); /* in the order of gconv_type */
    while (known < bench->type_count && bench->types[known] != (gconv_type)type)
      known++;
    if (known == bench->type_count)
      bench->types[bench->type_count++] = (gconv_type)type;
  }
  return GCONV_OK;
}

gconv_status gconv_take_sizes(const gconv_given *given) {
  gconv_bench_list *list = given->field;
  list->count = gconv_parse_integers(given->value, GCONV_BENCH_MOST, 1, given->option->most, list->items);
  if (list->count == 0)
    return gconv_refuse(given->message, "this takes %s", given->option->takes);
  return GCONV_OK;
}

gconv_status gconv_take_blocks(const gconv_given *given) {
  gconv_bench_settings *bench = given->field;
  for (const char *at = given->value; *at; at += strcspn(at, ","), at += *at == ',') {
    int32_t sides[2];
    if (parse_extents(at, strcspn(at, ","), 2, sides) == 0 || bench->block_count == GCONV_BENCH_MOST)
      return gconv_refuse(given->message, "this takes WIDTHxHEIGHT in threads, such as 32x8 or 16x16,32x4");
    bench->blocks[bench->block_count++] = (gconv_bench_block){sides[0], sides[1]};
  }
  return GCONV_OK;
}

/* What is swept: threads of a block, blocks of a grid. */
gconv_status gconv_take_sweep(const gconv_given *given) {
  gconv_bench_settings *bench = given->field;
  int index;
  GCONV_TRY(gconv_option_find_word(given->option, given->value, &index, given->message));
  *(index == 0 ? &bench->sweep_blocks : &bench->sweep_grids) = true;
  return GCONV_OK;
}

gconv_status gconv_take_file_or_output(const gconv_given *given) {
  *(const char **)given->field = given->value ? given->value : "-";
  return GCONV_OK;
}

/* SPDX-License-Identifier: MIT */
/* How a network was trained, in words. */
#include "base/memory.h"
#include "cli/bank.h"

#include <string.h>

/* How entries become words. Rows without a key end a part of the sentence. */
static const struct {
  const char *key, *joint; /* joint: the text before the value, unless it begins a part */
  const char *before, *after;
  enum { SIX_DIGITS, WHOLE, UNLESS_CONSTANT } how;
} rows[] = {
    {"loss", ", ", "", "", SIX_DIGITS},
    {"optimizer", " by ", "", "", SIX_DIGITS},
    {"rate", ", ", "rate ", "", SIX_DIGITS},
    {"schedule", ", ", "schedule ", "", UNLESS_CONSTANT},
    {"momentum", ", ", "momentum ", "", SIX_DIGITS},
    {"weight_decay", ", ", "weight decay ", "", SIX_DIGITS},
    {"elimination", ", ", "weight elimination ", "", SIX_DIGITS},
    {"elimination_scale", ":", "", "", SIX_DIGITS},
    {"batch", ", ", "batches of ", "", WHOLE},
    {"seed", ", ", "seed ", "", WHOLE},
    {NULL, "", "", "", WHOLE},
    {"steps", ", ", "", " steps", WHOLE},
    {"cases", " with ", "", " cases", WHOLE},
    {NULL, "", "", "", WHOLE},
    {"epochs", ", ", "weights of epoch ", "", WHOLE},
    {"smallest_loss", ", ", "smallest loss ", "", SIX_DIGITS},
    {"validation_cases", " ", "of ", " cases for validation", WHOLE},
    {NULL, "", "", "", WHOLE},
};

/* True for a batch of all cases, which has no number. */
static bool is_full_batch(const json_t *object, const char *key) {
  const json_t *cases = json_object_get(object, "cases");
  return strcmp(key, "batch") == 0 && json_is_number(cases) &&
         json_number_value(json_object_get(object, key)) >= json_number_value(cases);
}

static void put_others(FILE *out, json_t *object) {
  const char *key, *joint = "";
  json_t *value;
  json_object_foreach(object, key, value) {
    GCONV_FREED char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    if (text)
      fprintf(out, "%s%s %s", joint, key, text);
    joint = ", ";
  }
  fputs(joint[0] ? "; " : "", out);
}

/* Prints a row's value with `joint` before it. False: the object has no such value, or one that is left out. */
static bool put_row(FILE *out, const json_t *object, size_t row, const char *joint) {
  const json_t *value = json_object_get(object, rows[row].key);
  const char *text = json_string_value(value);
  if (json_is_number(value) && is_full_batch(object, rows[row].key))
    return fprintf(out, "%sfull batches", joint);
  if (json_is_number(value))
    return fprintf(out, rows[row].how == WHOLE ? "%s%s%.0f%s" : "%s%s%.6g%s", joint, rows[row].before,
                   json_number_value(value), rows[row].after);
  if (!text || (rows[row].how == UNLESS_CONSTANT && strcmp(text, "constant") == 0))
    return false;
  return fprintf(out, "%s%s%s", joint, rows[row].before, text);
}

static void put_words(FILE *out, json_t *object) {
  bool begun = false;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!rows[i].key)
      fputs(begun ? "; " : "", out);
    begun = rows[i].key && (put_row(out, object, i, begun ? rows[i].joint : "") || begun);
    if (rows[i].key)
      json_object_del(object, rows[i].key);
  }
  put_others(out, object);
}

char *gconv_trained_words(const char *json) {
  json_error_t error;
  char *text = NULL;
  size_t size = 0;
  json_t *object = json_loads(json, 0, &error);
  FILE *out = open_memstream(&text, &size);
  if (out && object)
    put_words(out, object);
  json_decref(object);
  if (!out || !gconv_close_text(out, &text))
    return NULL;
  if (size >= 2) /* the last "; " */
    text[size - 2] = '\0';
  return text;
}

/* SPDX-License-Identifier: MIT */
#include "cli/trained.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text in the making, and what of the object is not in it yet. */
typedef struct words {
  FILE *out;
  json_t *object;
  bool begun; /* the part of the sentence has a word */
} words;

/* Puts the next part behind a comma. */
__attribute__((format(printf, 2, 3))) static void put(words *w, const char *format, ...) {
  va_list arguments;
  fputs(w->begun ? ", " : "", w->out);
  va_start(arguments, format);
  vfprintf(w->out, format, arguments);
  va_end(arguments);
  w->begun = true;
}

static void end_part(words *w) {
  fputs(w->begun ? "; " : "", w->out);
  w->begun = false;
}

/* The text of this key, or NULL. Valid until forget(). */
static const char *text_of(const words *w, const char *key) {
  return json_string_value(json_object_get(w->object, key));
}

static bool has(const words *w, const char *key) {
  return json_is_number(json_object_get(w->object, key));
}

static double number_of(const words *w, const char *key) {
  return json_number_value(json_object_get(w->object, key));
}

static void forget(words *w, const char *const *keys) {
  for (size_t i = 0; keys[i]; i++)
    json_object_del(w->object, keys[i]);
}

/* "cross-entropy by adam, rate 0.001, schedule cosine, batches of 32, seed 0" */
static void put_method(words *w) {
  static const char *const told[] = {"loss",        "optimizer",         "schedule", "rate", "momentum", "weight_decay",
                                     "elimination", "elimination_scale", "batch",    "seed", NULL};
  const char *loss = text_of(w, "loss"), *optimizer = text_of(w, "optimizer"), *schedule = text_of(w, "schedule");
  if (loss || optimizer)
    put(w, "%s%s%s", loss ? loss : "", loss && optimizer ? " by " : "", optimizer ? optimizer : "");
  if (has(w, "rate"))
    put(w, "rate %.6g", number_of(w, "rate"));
  if (schedule && strcmp(schedule, "constant") != 0)
    put(w, "schedule %s", schedule);
  if (has(w, "momentum"))
    put(w, "momentum %.6g", number_of(w, "momentum"));
  if (has(w, "weight_decay"))
    put(w, "weight decay %.6g", number_of(w, "weight_decay"));
  if (has(w, "elimination"))
    put(w, "weight elimination %.6g:%.6g", number_of(w, "elimination"),
        has(w, "elimination_scale") ? number_of(w, "elimination_scale") : 1);
  bool full = has(w, "batch") && has(w, "cases") && number_of(w, "batch") >= number_of(w, "cases");
  if (full)
    put(w, "full batches");
  else if (has(w, "batch"))
    put(w, "batches of %.0f", number_of(w, "batch"));
  if (has(w, "seed"))
    put(w, "seed %.0f", number_of(w, "seed"));
  forget(w, told);
  end_part(w);
}

/* "400 steps with 120 cases; weights of epoch 98, smallest loss 0.365 of 30 cases for validation" */
static void put_course(words *w) {
  static const char *const told[] = {"steps", "cases", "epochs", "smallest_loss", "validation_cases", NULL};
  if (has(w, "steps"))
    put(w, "%.0f steps", number_of(w, "steps"));
  if (has(w, "cases"))
    fprintf(w->out, "%s%.0f cases", w->begun ? " with " : "", number_of(w, "cases"));
  w->begun = w->begun || has(w, "cases");
  end_part(w);
  if (has(w, "epochs"))
    put(w, "weights of epoch %.0f", number_of(w, "epochs"));
  if (has(w, "smallest_loss"))
    put(w, "smallest loss %.6g", number_of(w, "smallest_loss"));
  if (has(w, "validation_cases"))
    fprintf(w->out, " of %.0f cases for validation", number_of(w, "validation_cases"));
  forget(w, told);
  end_part(w);
}

static void put_others(words *w) {
  const char *key;
  json_t *value;
  json_object_foreach(w->object, key, value) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    if (text)
      put(w, "%s %s", key, text);
    free(text);
  }
  end_part(w);
}

char *gconv_trained_words(const char *json) {
  json_error_t error;
  char *text = NULL;
  size_t size = 0;
  words w = {.object = json_loads(json, 0, &error), .out = open_memstream(&text, &size)};
  if (w.out && w.object) {
    put_method(&w);
    put_course(&w);
    put_others(&w);
  }
  json_decref(w.object);
  bool good = w.out && fclose(w.out) == 0;
  if (!good) {
    free(text);
    return NULL;
  }
  if (size >= 2) /* the last "; " */
    text[size - 2] = '\0';
  return text;
}

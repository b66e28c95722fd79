/* SPDX-License-Identifier: MIT */
#include "cli/learn.h"
#include "base/ending.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "gconv_classify.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *gconv_cases_missing(const gconv_cases *cases) {
  return cases->missing == 0 ? NULL : cases->missing == 1 ? "mean" : "drop";
}

/* ---- Weights of classes --------------------------------------------------------------------------------------------- */

gconv_status gconv_class_weights_read(const gconv_texts *texts, gconv_class_weight **weights) {
  *weights = calloc(texts->count + 1, sizeof **weights);
  for (size_t i = 0; i < texts->count && *weights; i++) {
    const char *text = texts->items[i], *colon = strrchr(text, ':');
    gconv_class_weight *weight = &(*weights)[i];
    if (!colon || colon == text || !gconv_parse_number(colon + 1, &weight->weight) || !(weight->weight > 0))
      return gconv_refuse("--weight %s: this takes a class, a colon and a number above 0: --weight spam:2.5", text);
    weight->class_name = strndup(text, (size_t)(colon - text));
    GCONV_NEED_MEMORY(weight->class_name, "out of memory");
  }
  return *weights ? GCONV_OK : gconv_no_memory();
}

void gconv_class_weights_free(gconv_class_weight *weights, size_t count) {
  for (size_t i = 0; i < count && weights; i++)
    free((char *)weights[i].class_name);
  free(weights);
}

/* ---- Outputs ---------------------------------------------------------------------------------------------------------- */

gconv_status gconv_data_check_output(const char *what, const char *path, const char *endings, const char *content,
                                     const gconv_texts *inputs) {
  struct stat own, other;
  char *folder = gconv_path_folder(path);
  gconv_status status = folder ? GCONV_OK : gconv_no_memory();
  bool there = stat(path, &own) == 0;
  if (status == GCONV_OK && there && S_ISDIR(own.st_mode))
    status = gconv_refuse("%s %s: is a folder: name a file", what, path);
  else if (status == GCONV_OK && (!there || S_ISREG(own.st_mode)) && access(folder, F_OK) != 0)
    status = gconv_refuse("%s %s: there is no folder %s", what, path, folder);
  else if (status == GCONV_OK && (!there || S_ISREG(own.st_mode)) && access(folder, W_OK) != 0)
    status = gconv_refuse("%s %s: cannot write into the folder %s: %s", what, path, folder, strerror(errno));
  for (size_t i = 0; i < inputs->count && there && status == GCONV_OK; i++)
    if (stat(inputs->items[i], &other) == 0 && own.st_dev == other.st_dev && own.st_ino == other.st_ino)
      status = gconv_refuse("%s %s: would replace a file that is read: name another", what, path);
  free(folder);
  if (status == GCONV_OK && gconv_check_ending(path, endings, content, "") != GCONV_OK)
    status = gconv_fail(GCONV_BAD_ARGUMENT, "%s %s", what, gconv_last_error());
  return status;
}

/* ---- Texts ------------------------------------------------------------------------------------------------------------ */

void gconv_data_describe(const gconv_dataset_info *info, gconv_dataset_kind kind, char *text, size_t size) {
  char shape[80], targets[80] = "";
  if (kind == GCONV_DATASET_PIXELS)
    snprintf(shape, sizeof shape, "%d features", (int)info->channels);
  else if (kind == GCONV_DATASET_TABLE && info->height == 1 && info->width == 1)
    snprintf(shape, sizeof shape, "%d number%s", (int)info->channels, info->channels == 1 ? "" : "s");
  else if (kind == GCONV_DATASET_WINDOWS)
    snprintf(shape, sizeof shape, "%d samples", (int)info->width);
  else
    snprintf(shape, sizeof shape, "%d x %d pixels", (int)info->width, (int)info->height);
  if (info->channels > 1 && (info->width > 1 || info->height > 1))
    snprintf(shape + strlen(shape), sizeof shape - strlen(shape), " in %d channels", (int)info->channels);
  if (info->class_count > 0)
    snprintf(targets, sizeof targets, ", %zu classes", info->class_count);
  else if (kind != GCONV_DATASET_PAIRS && info->outputs > 0)
    snprintf(targets, sizeof targets, ", %zu target%s", info->outputs, info->outputs == 1 ? "" : "s");
  snprintf(text, size, "%zu case%s of %s%s", info->cases, info->cases == 1 ? "" : "s", shape, targets);
}

void gconv_data_print_pixels(const char *masks, const gconv_dataset_info *info) {
  enum { MOST_SHOWN = 10 };
  gconv_print(stderr, "%s: classes are the numbers ", masks);
  for (size_t k = 0; k < info->class_count && k < MOST_SHOWN; k++)
    gconv_print(stderr, "%s%s", k > 0 ? ", " : "", info->classes[k]);
  fprintf(stderr, "%s, in this order; 0 is unlabelled\n", info->class_count > MOST_SHOWN ? " ..." : "");
  if (info->cases < info->labelled)
    fprintf(stderr, "%zu of %zu labelled pixels are learned, as many of each class: --samples N takes more or fewer\n",
            info->cases, info->labelled);
}

void gconv_data_print_features(FILE *out) {
  const gconv_feature_info *info;
  fputs("\nFeatures of pixels, for --features; sigmas follow a kind, sets have their own:\n", out);
  for (size_t i = 0; (info = gconv_feature_at(i)); i++)
    fprintf(out, "  %-9s  %s%s\n", info->name, info->list ? "set: " : "", info->help);
}

/* Prints a name in a column of `width` characters. Cuts longer names, between characters. */
static void print_name(FILE *out, int width, const char *name) {
  enum { LONGEST = 12 };
  size_t size = strlen(name), used = 0;
  int characters = 0;
  while (used < size && characters < LONGEST) {
    size_t bytes = gconv_utf8_bytes(name + used, size - used);
    used += bytes > 0 ? bytes : 1;
    characters++;
  }
  gconv_print(out, "%*s%.*s", width - characters > 0 ? width - characters : 0, "", (int)used, name);
}

static void print_matrix(FILE *out, const gconv_confusion *c) {
  enum { NARROW = 6, WIDE = 12 };
  int width = NARROW;
  for (size_t k = 0; k < c->classes; k++)
    width = (int)strnlen(c->names[k], WIDE) > width ? (int)strnlen(c->names[k], WIDE) : width;
  gconv_print(out, "%*s  taken for\n", WIDE, "");
  fprintf(out, "%*s", WIDE, "");
  for (size_t k = 0; k < c->classes; k++)
    print_name(out, width + 1, c->names[k]);
  fputc('\n', out);
  for (size_t i = 0; i < c->classes; i++) {
    print_name(out, WIDE, c->names[i]);
    for (size_t k = 0; k < c->classes; k++)
      fprintf(out, " %*llu", width, (unsigned long long)c->counts[i * c->classes + k]);
    fputc('\n', out);
  }
}

/* Prints the most frequent mistakes. */
static void print_worst(FILE *out, const gconv_confusion *c) {
  enum { SHOWN = 10 };
  uint64_t last = UINT64_MAX;
  size_t shown = 0;
  while (shown < SHOWN && last > 1) { /* by counts, from the largest down */
    uint64_t most = 0;
    for (size_t i = 0; i < c->classes * c->classes; i++)
      if (i / c->classes != i % c->classes && c->counts[i] < last && c->counts[i] > most)
        most = c->counts[i];
    if (most == 0)
      return;
    for (size_t i = 0; i < c->classes * c->classes && shown < SHOWN; i++)
      if (i / c->classes != i % c->classes && c->counts[i] == most) {
        gconv_print(out, "  %llu x %s was taken for %s\n", (unsigned long long)most, c->names[i / c->classes],
                    c->names[i % c->classes]);
        shown++;
      }
    last = most;
  }
}

void gconv_data_print_confusion(FILE *out, const gconv_confusion *confusion) {
  enum { MOST_SHOWN = 10 };
  if (!confusion->counts)
    fprintf(out, "  (no table of %zu classes: it would be too large)\n", confusion->classes);
  else if (confusion->classes <= MOST_SHOWN)
    print_matrix(out, confusion);
  else
    print_worst(out, confusion);
}

json_t *gconv_data_confusion_json(const gconv_confusion *c) {
  json_t *names = json_array(), *rows = json_array(), *iou = json_array(), *f1 = json_array();
  json_t *left_out = json_array();
  for (size_t i = 0; i < c->left_out_count; i++)
    json_array_append_new(left_out, json_integer((json_int_t)c->left_out[i]));
  for (size_t i = 0; i < c->classes; i++) {
    json_array_append_new(names, gconv_json_text(c->names[i]));
    if (!c->counts)
      continue;
    json_t *row = json_array();
    for (size_t k = 0; k < c->classes; k++)
      json_array_append_new(row, json_integer((json_int_t)c->counts[i * c->classes + k]));
    json_array_append_new(rows, row);
    json_array_append_new(iou, gconv_json_number(gconv_confusion_score(c, i).iou));
    json_array_append_new(f1, gconv_json_number(gconv_confusion_score(c, i).f1));
  }
  return json_pack("{s:f, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "accuracy",
                   c->cases ? (double)c->right / (double)c->cases : 0.0, "cases", (json_int_t)c->cases, "unknown",
                   (json_int_t)c->unknown, "left_out", left_out, "classes", names, "confusion", rows, "iou", iou, "f1", f1);
}

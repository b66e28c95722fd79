/* SPDX-License-Identifier: MIT */
/* What gconv train and gconv classify share: data sets as options name them. */
#ifndef GCONV_CLI_LEARN_H
#define GCONV_CLI_LEARN_H

#include "cli/predict.h"
#include "cli/settings.h"

#include <jansson.h>

/* What is learned from. Zero-initialise before first use. */
typedef struct gconv_data {
  gconv_dataset *all;        /* the data that are named */
  gconv_dataset *first;      /* the part of them that is learned, where some are for validation; else NULL */
  gconv_dataset *validation; /* the other part, or other data; NULL: there is none */
  gconv_texts paths;         /* of everything that is read */
} gconv_data;

/* Takes what gconv_last_error() tells into the message, unless the status is GCONV_OK; returns the status. */
gconv_status gconv_learn_complain(gconv_status status, gconv_message *message);

/* Takes words that name data in place of --table, --classes, --signal, -i and -t: a folder is images by class, another file
 * than a picture a table, or, with --windows, a signal. A second word is the targets. */
gconv_status gconv_data_take_words(gconv_settings *settings, const gconv_texts *words, gconv_message *message);

/* GCONV_OK if the options name one kind of data, with the kind and paths in settings->learn.data. */
gconv_status gconv_data_choose(gconv_settings *settings, gconv_message *message);

/* Opens what the options name. */
gconv_status gconv_data_open(const gconv_settings *settings, gconv_data *data, gconv_message *message);
/* The cases that are learned. */
const gconv_dataset *gconv_data_cases(const gconv_data *data);
void gconv_data_close(gconv_data *data);

/* Refuses an output that cannot be made, would replace one of the files that are read, or promises another format by its
 * name than it gets. `what` is the option: "-o"; `own`: its extensions, with blanks between; `content`: "a model". */
gconv_status gconv_data_check_output(const char *what, const char *path, const char *own, const char *content,
                                     const gconv_texts *inputs, gconv_message *message);

/* "20,000 cases of 16 numbers, 26 classes". */
void gconv_data_describe(const gconv_dataset_info *info, gconv_dataset_kind kind, char *text, size_t size);

/* Tells how the numbers of masks became classes, and how many of the labelled pixels were drawn, on standard error. */
void gconv_data_print_pixels(const char *masks, const gconv_dataset_info *info);
/* Lists kinds and sets of features, for --help. */
void gconv_data_print_features(FILE *out);

/* Reads weights of classes, "CLASS:W", into *weights, which gconv_class_weights_free() frees. */
gconv_status gconv_class_weights_read(const gconv_texts *texts, gconv_class_weight **weights, gconv_message *message);
void gconv_class_weights_free(gconv_class_weight *weights, size_t count);

/* Prints a table of confusion, or, of many classes, the pairs that were taken for each other most often. */
void gconv_data_print_confusion(FILE *out, const gconv_confusion *confusion);

/* The same as JSON: {"accuracy": ..., "classes": [...], "confusion": [[...]], "iou": [...], "f1": [...]}. */
json_t *gconv_data_confusion_json(const gconv_confusion *confusion);

#endif

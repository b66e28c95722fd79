/* SPDX-License-Identifier: MIT */
/* What gconv train, svm and classify share: cases as options name them, and reports. */
#pragma once

#include "cli/common.h"
#include "cli/predict.h"

#include <jansson.h>
#include <limits.h>

/* The cases: a part of the records of these commands. */
typedef struct gconv_cases {
  gconv_dataset_options data; /* what options set; kind and inputs follow from the option that names the data */
  const char *targets;
  gconv_windows windows;     /* windows of a signal */
  const char *raw;           /* the type of its samples */
  int missing;               /* 0: not given, 1: mean, 2: drop */
  gconv_texts class_weights; /* "CLASS:W" */
  uint64_t samples;          /* for pixels: the most that are learned; 0: not given */
  int seed;
} gconv_cases;

/* ---- Rows of options ---- */

#define GCONV_WINDOWS_ROWS(record_, windows_, raw_)                                                                         \
  GCONV_OPTION(record_, 0, "windows", "S[:HOP]", windows, windows_,                                                         \
               .help = "windows of S samples, which begin HOP samples apart (default: S)"),                                 \
      GCONV_OPTION(record_, 0, "raw", "TYPE[:C]", text, raw_,                                                               \
                   .help = "the signal has no header: f32le, s16le or u8, of C channels")
#define GCONV_LABEL_ROW(record_, cases_)                                                                                    \
  GCONV_OPTION(record_, 0, "label", "NAME|N", text, cases_.data.label, .near = "target column",                             \
               .help = "the column of labels, by its name or its number from 1 on; default: the last")
#define GCONV_APPROXIMATED_ROWS(record_, cases_)                                                                            \
  GCONV_OPTION(record_, 0, "regression", NULL, flag, cases_.data.regression,                                                \
               .help = "labels that are numbers are to be approximated; default: they are classes"),                        \
      GCONV_OPTION(record_, 0, "classification", NULL, flag, cases_.data.classification,                                    \
                   .help =                                                                                                  \
                       "whole numbers are classes, even if nearly each case has its own; default: such are approximated")
#define GCONV_TABLE_ROWS(record_, cases_)                                                                                   \
  GCONV_OPTION(record_, 0, "table-format", "SYNTAX", text, cases_.data.syntax, .words = "csv|libsvm|fann|letters|npy|idx",  \
               .help = "the syntax of tables: csv, libsvm, fann, letters, npy or idx; default: by the content"),            \
      GCONV_OPTION(record_, 0, "separator", "CHAR", separator, cases_.data.separator, .near = "delimiter",                  \
                   .help = "what separates fields of CSV: a character, or tab; default: found from the first lines"),       \
      GCONV_OPTION(                                                                                                         \
          record_, 0, "missing", "mean|drop", word, cases_.missing, .words = "mean|drop", .least = 1,                       \
          .help =                                                                                                           \
              "numbers that are missing in CSV: put in the mean of the column, or leave the line out; default: an error")
#define GCONV_ONE_HOT_ROW(record_, cases_)                                                                                  \
  GCONV_OPTION(record_, 0, "one-hot", NULL, flag, cases_.data.one_hot, .near = "words categories dummies",                  \
               .help = "columns of words in CSV: each word becomes a column of 0 and 1; default: words are an error")
#define GCONV_FEATURES_ROWS(record_, cases_)                                                                                \
  GCONV_OPTION(record_, 0, "features", "LIST", text, cases_.data.features, .near = "feature filters",                       \
               .help =                                                                                                      \
                   "cases are the pixels of -i that the masks of -t label, described by these features: default, ilastik, " \
                   "skimage, or kinds with sigmas, 'gaussian 1 2 4, log 1 2' (docs/pixels.md)"),                            \
      GCONV_OPTION(record_, 0, "samples", "N", count, cases_.samples, .takes = "a number of pixels, such as 20k",           \
                   .help = "with --features: learn at most N labelled pixels, as many of each class, drawn by --seed; "     \
                           "default: svm 10000, train all")
#define GCONV_GRAY_ROW(record_, cases_)                                                                                     \
  GCONV_OPTION(record_, 0, "gray", NULL, flag, cases_.data.gray, .also = "grey grayscale greyscale",                        \
               .help = "make images grey first")
#define GCONV_WEIGHT_ROW(record_, cases_)                                                                                   \
  GCONV_OPTION(                                                                                                             \
      record_, 'w', "weight", "CLASS:W", texts, cases_.class_weights, .also = "class-weight",                               \
      .help = "an error in this class costs W times as much (it multiplies C, or the loss); may be repeated; default: 1")
#define GCONV_SEED_ROW(record_, cases_)                                                                                     \
  GCONV_OPTION(record_, 0, "seed", "N", integer, cases_.seed, .least = 0, .most = INT_MAX,                                  \
               .help = "the seed of random numbers: the same seed makes the same result; default: 0")
#define GCONV_CASES_JSON_ROW                                                                                                \
  GCONV_COMMON_OPTION(0, "json", NULL, flag, json, .help = "print JSON; of train, a line each epoch")

/* ---- Data ---- */

/* Returns data.missing for a value of --missing. */
const char *gconv_cases_missing(const gconv_cases *cases);

/* Refuses an output that cannot be made, would replace a file that is read, or has the name of another format. `what` is the
 * option, such as "-o"; `endings` its extensions, with blanks between; `content` what is written, such as "a model". */
gconv_status gconv_data_check_output(const char *what, const char *path, const char *endings, const char *content,
                                     const gconv_texts *inputs);

/* Describes data in words, such as: "20000 cases of 16 numbers, 26 classes". */
void gconv_data_describe(const gconv_dataset_info *info, gconv_dataset_kind kind, char *text, size_t size);

/* Prints on standard error how the numbers of masks became classes, and how many of the labelled pixels were drawn. */
void gconv_data_print_pixels(const char *masks, const gconv_dataset_info *info);
/* Lists kinds and sets of features, for --help. */
void gconv_data_print_features(FILE *out);

/* Reads weights of classes, "CLASS:W", into *weights, which gconv_class_weights_free() frees. */
gconv_status gconv_class_weights_read(const gconv_texts *texts, gconv_class_weight **weights);
void gconv_class_weights_free(gconv_class_weight *weights, size_t count);

/* Prints the confusion matrix; for many classes, only the most frequent mistakes. */
void gconv_data_print_confusion(FILE *out, const gconv_confusion *confusion);

/* Makes JSON of a confusion matrix: {"accuracy": ..., "left_out": [rows that are no cases], "classes": [...],
 * "confusion": [[...]], "iou": [...], "f1": [...]}. */
json_t *gconv_data_confusion_json(const gconv_confusion *confusion);

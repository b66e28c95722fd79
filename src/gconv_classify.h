/* SPDX-License-Identifier: MIT */
/*
 * Classifying: features of pixels, and networks that name the class of each pixel.
 *
 *     gconv_features_resolve()     the features that a text means: "gaussian 1 2 4, log 1 2"
 *     gconv_operation_features()   an image becomes its features: a channel each
 *     gconv_operation_pixels()     an image becomes a map of classes: features, then a network
 *
 * The rules of gconv.h hold here: functions return a status, and leave a text that gconv_last_error() returns.
 */
#ifndef GCONV_CLASSIFY_H
#define GCONV_CLASSIFY_H

#include "gconv_learn.h"

#if defined(__GNUC__) /* what a shared library shows */
#pragma GCC visibility push(default)
#endif
#ifdef __cplusplus
extern "C" {
#endif

/* ---- Features of pixels -------------------------------------------------------------------------------------------- */

/* A kind of feature, or a set of them that has a name. */
typedef struct gconv_feature_info {
  const char *name; /* "gaussian" */
  const char *list; /* of a set: what it stands for, "gaussian 1 2, log 1"; NULL: a kind */
  const char *help; /* one line */
  int outputs;      /* channels for each sigma and each channel of the image; of a set, in all */
} gconv_feature_info;

/* The kinds, then the sets, each in a fixed order; NULL past the end. Static storage. */
const gconv_feature_info *gconv_feature_at(size_t index);

/* Reads a list of features: kinds with commas between, each with the sigmas at which it is computed, in pixels, such as
 * "gaussian 1 2 4, log 1 2"; names of sets may stand among them. *list becomes the same list with all sets written out, for
 * free(), and *count the number of features of each channel of an image. Either may be NULL. docs/pixels.md has the
 * formulas. GCONV_BAD_ARGUMENT tells the word that is wrong. */
gconv_status gconv_features_resolve(const char *text, char **list, int32_t *count);

/* An image becomes its features: planar f32, of as many channels as features, those of the first channel of the image first.
 * Samples of integers are divided by white; alpha is left out. `channels`: 1: the image is made grey first; 3: grey images
 * become RGB; 0: all channels are taken as they are. The CPU alone computes features: on a GPU there is no plan
 * (GCONV_UNSUPPORTED). The results have the same bits for any number of threads and any rows at a time. In a chain, only
 * some rows of them are in memory at a time. */
gconv_status gconv_operation_features(const char *features, int32_t channels, gconv_operation **operation);

/* ---- Classes of pixels --------------------------------------------------------------------------------------------- */

/* The number that each class has in masks and maps, class_count of them: what it is called, if all are called whole numbers
 * up to 65535, which is so of networks that were trained on masks; else its place among the classes, from 1 on. Of a network
 * without classes, nothing is stored. GCONV_TOO_LARGE for more classes than there are numbers. */
gconv_status gconv_network_class_values(const gconv_network *network, uint16_t *values);

/* An image becomes what the network makes of the features that it names (gconv_network.features): a chain of
 * gconv_operation_features() and gconv_operation_of_network(), by rows, so that the features are never in memory as a whole.
 * Options as there; with GCONV_PRESENT_CLASSES, options->class_values NULL stands for gconv_network_class_values(). The
 * network must outlive the operation. GCONV_BAD_ARGUMENT for a network without features. */
gconv_status gconv_operation_pixels(const gconv_network *network, const gconv_network_options *options,
                                    gconv_operation **operation);

#ifdef __cplusplus
}
#endif
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#endif

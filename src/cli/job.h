/* SPDX-License-Identifier: MIT */
/*
 * The main job, images in and results out, as its parts share it:
 *   job.c        what the settings come to, before the first image
 *   job_results.c  names of the results, and checks with them
 *   inputs.c     what is told of the search for inputs
 *   networks.c   networks and support vector machines, which -f names by the path of their file alone
 *   job_warnings.c  warnings of what most users do not expect
 *   report.c     what is told of the images
 *   digest.c     what tells it from other jobs
 *   cmd_filter.c the work, and the command
 */
#pragma once

#include "cli/common.h"
#include "cli/timings.h"
#include "gconv_classify.h"

typedef struct gconv_job_settings gconv_job_settings; /* job_settings.h */

/* Zero-initialise all but the settings and their `common`. */
typedef struct gconv_main_job {
  gconv_job_settings *settings;
  const gconv_common *common;
  gconv_inputs inputs;
  gconv_outputs outputs;
  bool has_banks; /* what makes the results is a bank or a network; else filters */
  bool has_networks, combine_given, border_given;
  const char *made_bank;    /* the option, such as "batch", that alone makes a bank of plain filters; NULL: none does */
  const gconv_texts *specs; /* the words of -f behind the last --then */
  gconv_network *networks;  /* one a stage, empty where that is no network; owned */
  gconv_svm *svm;           /* behind the last --then, one that names the classes of pixels; NULL: that is none. Owned */
  uint64_t svm_digest;      /* of the bytes of its file */
  gconv_filters filters;
  gconv_filters *before; /* those before each --then, one a stage; owned */
  size_t before_count;
  gconv_bank *banks;   /* one a layer; NULL: there are none. Owned, as is the next */
  gconv_layer *layers; /* how each stage is applied, with its bank, if there are banks */
  size_t layer_count;
  gconv_options options;         /* of filters, and of the pictures of banks */
  gconv_network_options network; /* of banks */
  gconv_batch batch;
  gconv_palette palette;      /* of maps of classes */
  gconv_area area;            /* of --region; its mask is the next, while the operation is made */
  gconv_image mask;           /* of --mask; no pixels before gconv_job_read_mask(), and behind gconv_job_make_operation() */
  gconv_operation *operation; /* owned; NULL before gconv_job_make_operation() */
  gconv_manifest *manifest;   /* with --resume */
  gconv_timings_total total;
  FILE *out;                  /* where reports go: standard output, unless an image goes there */
  bool progress;              /* a line of progress is wanted */
  char raced[32];             /* the device of the race, with --algorithm all */
  gconv_chosen_device device; /* behind the run: which one did it, and why */
  size_t written;             /* results so far: gconv_batch.written */
  size_t leftovers;           /* of runs that were killed, which gconv_job_open_manifest() has removed */
  size_t missed;              /* inputs, or folders of them, that could not be looked at */
} gconv_main_job;

/* ---- job.c ---- */

/* Everything that can be known before the first image is read, of settings that are finished: reads filters or banks, finds
 * the inputs, names the outputs, for which it looks into headers, keeps those of this shard, and makes job->batch of it all.
 */
gconv_status gconv_job_prepare(gconv_main_job *job);

/* Reads the image of --mask, if there is one, and warns: of dark rims, of which it may have none, and of surprises. */
gconv_status gconv_job_read_mask(gconv_main_job *job);

/* Makes job->batch.operation of what the job has: behind everything that can change its options. */
gconv_status gconv_job_make_operation(gconv_main_job *job);

/* Opens the manifest, where --resume wants one and it is not open yet. With `writes` it goes on, else it is only read. */
gconv_status gconv_job_open_manifest(gconv_main_job *job, bool writes);

/* What cmd_filter.c does for another command: runs the job of settings whose words were taken, and calls `then`, unless it
 * is NULL, if all went well, whose status counts then. Returns what the program ends with. */
int gconv_job_run(gconv_job_settings *settings, int (*then)(const gconv_main_job *job, void *user), void *user);

/* Frees what the job owns. */
void gconv_job_free(gconv_main_job *job);

/* ---- job_results.c ---- */

/* Names the results, and decides how those of banks are shown. */
gconv_status gconv_job_name_results(gconv_main_job *job);
/* Refuses options that do not go with these results. */
gconv_status gconv_job_check_results(const gconv_main_job *job);

/* ---- inputs.c ---- */

/* As gconv_inputs_find(), for commands that do all or nothing: what could not be looked at is an error. */
gconv_status gconv_inputs_find_all(const gconv_texts *specs, bool recursive, const char *output, gconv_inputs *inputs);

/* Tells what a search has passed over, unless `quiet`, and what it could not look at. Returns how many are of the last kind:
 * where there is any, not all was done. */
size_t gconv_inputs_tell(const gconv_inputs *inputs, bool quiet);

/* ---- networks.c ---- */

/* Reads the networks that -f names, and refuses what does not go with them. */
gconv_status gconv_job_read_networks(gconv_main_job *job);

/* The network behind the last --then; NULL if that is none. */
const gconv_network *gconv_job_last_network(const gconv_main_job *job);

/* What names the classes of pixels, behind the last --then: a network or a support vector machine. Texts are theirs. */
typedef struct gconv_classifier {
  const char *const *classes; /* names; of a network whose outputs are no classes, none */
  size_t class_count;
  const uint8_t *palette; /* the colour of each class, R G B; or NULL */
} gconv_classifier;

/* Whether the job has one. */
bool gconv_job_find_classifier(const gconv_main_job *job, gconv_classifier *classifier);

/* The colour of a class in maps: its own, or one that is easy to tell from others. */
void gconv_classifier_colour(const gconv_classifier *classifier, size_t class, uint8_t colour[3]);

/* What a network makes of an image: one of as many channels and the same size; numbers, 1 x 1 pixel; or maps. */
typedef enum gconv_network_makes { GCONV_MAKES_MAPS, GCONV_MAKES_IMAGES, GCONV_MAKES_NUMBERS } gconv_network_makes;
/* Decides what results of the last network or machine are, where --combine does not: sets the presentation, or the
 * combination, of job->network; else they are maps, as those of banks. */
gconv_status gconv_job_present_network(gconv_main_job *job, const gconv_format_info *format);

/* ---- job_warnings.c ---- */

/* Warns of a job, prepared and with its mask, whose results few expect: the rim is dark, or a frame of false edges, as the
 * filter takes the zeros outside the image for black; pictures are stretched to full contrast by an option of banks;
 * derivatives of sobel stand beside other filters; alpha is multiplied by the sum of the taps. */
void gconv_job_warn(const gconv_main_job *job);

/* ---- report.c ---- */

/* Tells of one image, of which `user`, a gconv_main_job, has the settings: gconv_batch.report. */
void gconv_job_report(const gconv_report *report, void *user);

/* --explain: the lines of `explanation`, and why the device was chosen; "": it was asked for. */
void gconv_job_print_explanation(const char *explanation, const char *device_reason);

/* From now on, a signal that ends the program tells how many results of the job are written; NULL: of none. */
void gconv_job_count_for_signals(const gconv_main_job *job);

/* For a signal handler: the line that tells it. */
void gconv_job_say_interrupted(void);

/* Tells of the whole run. */
void gconv_job_report_all(const gconv_main_job *job, const gconv_batch_summary *summary);

/* ---- job_options.c, digest.c ---- */

/* What of the settings changes results, as text: equal texts, equal results. For free(); NULL without memory. */
char *gconv_job_describe_settings(const gconv_job_settings *settings);

/* A number that two runs share only if they make the same results of the same inputs, as far as was asked: the version of
 * the program, the coefficients of the filters or of the layers' banks (with the geometry that their files have), and the
 * options that change results. Where it is computed, and by how many threads, has no part in it. GCONV_NO_MEMORY. */
gconv_status gconv_job_digest(const gconv_main_job *job, uint64_t *digest);

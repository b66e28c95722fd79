/* SPDX-License-Identifier: MIT */
/*
 * The main job, images in and results out: what its parts share.
 *   job.c        makes the job of its settings, before the first image is read
 *   job_operation.c  the operation: stages of filters, banks and networks
 *   job_results.c  names of the results, and checks with them
 *   inputs.c     reports on the search for inputs
 *   networks.c   networks and support vector machines, whose files -f names
 *   job_masks.c  masks and weights, of which each image may have its own
 *   job_warnings.c  warnings of what most users do not expect
 *   report.c     reports on the images
 *   digest.c     the digest that distinguishes it from other jobs
 *   cmd_filter.c the work, and the command
 */
#pragma once

#include "cli/arithmetic.h"
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
  bool has_banks; /* the last stage is a bank or a network; false: filters */
  bool has_networks, combine_given, border_given;
  const char *made_bank;    /* the option, such as "batch", for which plain filters become a bank; NULL: none */
  const gconv_texts *specs; /* the words of -f after the last --then */
  gconv_network *networks;  /* owned: one for each stage, empty if the stage is no network */
  gconv_svm *svm;           /* owned: the last stage, if it is a support vector machine for pixels; else NULL */
  uint64_t svm_digest;      /* a hash of the bytes of its file */
  gconv_filters filters;
  gconv_filters *before; /* owned: the filters before each --then */
  size_t before_count;
  gconv_stage_arithmetic *arithmetic; /* owned: one for each stage; NULL: no plain filters */
  gconv_bank *banks;                  /* owned: one for each layer; NULL: no banks */
  gconv_layer *layers;                /* owned: how each stage is applied, with its bank, if any */
  size_t layer_count;
  gconv_options options;         /* options of filters, and of the pictures of banks */
  gconv_network_options network; /* options of banks */
  gconv_batch batch;
  gconv_palette palette; /* colours of maps of classes */
  gconv_area area;       /* the area of --region; while the operation is made, also the area of `mask` */
  const char *mask_name; /* as --mask has it; NULL: not given */
  const struct gconv_hole_options *holes;
  gconv_outputs masks, many_weights; /* paths of the mask and weights of each image; empty: all images share one */
  gconv_image weights;               /* the picture of --weights; has pixels as long as `mask` */
  gconv_image mask;           /* the mask of --mask; has pixels from gconv_job_read_mask() to gconv_job_make_operation() */
  gconv_operation *operation; /* owned; NULL before gconv_job_make_operation() */
  gconv_manifest *manifest;   /* with --resume */
  gconv_timings_total total;
  FILE *out;                  /* where reports go: standard output, unless an image goes there */
  bool progress;              /* a line of progress is wanted */
  char raced[32];             /* the device of the race, with --algorithm all */
  gconv_chosen_device device; /* after the run: the device that did the work, and why */
  size_t written;             /* results so far: gconv_batch.written */
  size_t leftovers;           /* files of killed runs that gconv_job_open_manifest() has removed */
  size_t missed;              /* inputs, or folders, that could not be read */
} gconv_main_job;

/* ---- job.c ---- */

/* Prepares a job whose settings are finished, up to the first image: reads filters or banks, finds the inputs, reads their
 * headers where names of outputs depend on them, names the outputs, keeps the inputs of this shard, and makes job->batch. */
gconv_status gconv_job_prepare(gconv_main_job *job);

/* Opens the manifest, if --resume wants one and it is not open yet. With `writes` it is continued, else only read. */
gconv_status gconv_job_open_manifest(gconv_main_job *job, bool writes);

/* Runs the job of these settings, after gconv_job_settings_take_words() (cmd_filter.c). If all went well, calls `then`,
 * unless it is NULL, and returns its exit status; else returns that of the job. */
int gconv_job_run(gconv_job_settings *settings, int (*then)(const gconv_main_job *job, void *user), void *user);

/* Frees what the job owns. */
void gconv_job_free(gconv_main_job *job);

/* ---- job_operation.c ---- */

/* Returns how results are combined: as `asked`, if >= 0; else derivatives, such as sobel's, become their magnitude. */
int gconv_job_choose_combine(const gconv_filters *filters, int asked);

/* Makes options of plain filters from the settings of a layer, with defaults for options that were not given. */
void gconv_job_make_plain_options(gconv_layer *layer, gconv_options *options);

/* Makes job->batch.operation. Call it after everything that can change the options. */
gconv_status gconv_job_make_operation(gconv_main_job *job);

/* ---- job_results.c ---- */

/* Names the results, and decides how results of banks are shown. */
gconv_status gconv_job_name_results(gconv_main_job *job);
/* Refuses options that do not go with these results. */
gconv_status gconv_job_check_results(const gconv_main_job *job);

/* ---- inputs.c ---- */

/* Does gconv_inputs_find() for commands that need all their inputs: one that cannot be read is an error. */
gconv_status gconv_inputs_find_all(const gconv_texts *specs, bool recursive, const char *output, gconv_inputs *inputs);

/* Prints the inputs that a search could not read, and returns how many. Unless `quiet`, also prints what it passed over. */
size_t gconv_inputs_tell(const gconv_inputs *inputs, bool quiet);

/* ---- networks.c ---- */

/* Reads the networks that -f names, and refuses options that do not go with them. */
gconv_status gconv_job_read_networks(gconv_main_job *job);

/* Whether a stage of a job is a network: a chain of layers, or a graph. */
static inline bool gconv_job_is_network(const gconv_network *stage) {
  return stage->layers || stage->graph;
}

/* Whether a network runs as a graph of nodes: it is one, or has layers of kinds from maxpool on. */
static inline bool gconv_job_is_graph(const gconv_network *network) {
  bool is = network->graph;
  for (size_t i = 0; i < network->count; i++)
    is = is || network->layers[i].kind >= GCONV_LAYER_MAXPOOL;
  return is;
}

/* Chooses the outputs of the last network, if it has several: the one of --output-name, if given; all, if each can have a
 * file of its own in a folder or by a template; else the first, and prints that. */
gconv_status gconv_job_choose_outputs(gconv_main_job *job, bool one_file);
/* Whether the job writes several outputs of a network. */
bool gconv_job_has_several_outputs(const gconv_main_job *job);

/* Returns how many channels a network makes of an image. */
int32_t gconv_job_count_channels(const gconv_network *network);

/* Returns the network of the last stage; NULL if it is no network. */
const gconv_network *gconv_job_last_network(const gconv_main_job *job);

/* The last stage, if it names classes of pixels: a network or a support vector machine, which owns the texts. */
typedef struct gconv_classifier {
  const char *const *classes; /* names; none if outputs are no classes */
  size_t class_count;
  const uint8_t *palette; /* the colour of each class, R G B; or NULL */
} gconv_classifier;

/* Finds the classifier of the job. Returns false if there is none. */
bool gconv_job_find_classifier(const gconv_main_job *job, gconv_classifier *classifier);

/* Finds the colour of a class in maps: that of the model or, if it has none, one that is easily distinguished. */
void gconv_classifier_colour(const gconv_classifier *classifier, size_t class, uint8_t colour[3]);

/* What a network makes of an image: an image of the same channels and size; numbers, 1 x 1 pixel; or maps. */
typedef enum gconv_network_makes { GCONV_MAKES_MAPS, GCONV_MAKES_IMAGES, GCONV_MAKES_NUMBERS } gconv_network_makes;
/* Decides what the results of the last network or machine are, unless --combine does: sets the presentation, or the
 * combination, of job->network. If it sets neither, results are maps, as those of banks are. */
gconv_status gconv_job_present_network(gconv_main_job *job, const gconv_format_info *format);

/* ---- job_masks.c ---- */

/* Reads the pictures of --mask and --weights, if given. If each image has its own, reads those of the first, and fails if
 * one does not exist, or the job `resumes`. Then warns of results that few expect (gconv_job_warn()). */
gconv_status gconv_job_read_mask(gconv_main_job *job, bool resumes);
/* Does gconv_batch_run() for all images or, if each has its own mask or weights, for one image after the other. */
gconv_status gconv_job_run_batch(gconv_main_job *job, gconv_batch_summary *summary);

/* ---- job_warnings.c ---- */

/* Warns of results that few expect, after gconv_job_read_mask(): the rim is dark, or has false edges, because zeros outside
 * the image are black; an option of banks stretches pictures to full contrast; derivatives of sobel stand beside other
 * filters; alpha is multiplied by the sum of the taps. */
void gconv_job_warn(const gconv_main_job *job);

/* ---- report.c ---- */

/* Reports one image: gconv_batch.report. `user` is the gconv_main_job. */
void gconv_job_report(const gconv_report *report, void *user);
/* Shows how much of a large image is done, and how much time is left: gconv_batch.advance. */
void gconv_job_advance(double done, double elapsed_ms, void *user);

/* Prints, for --explain, the lines of `explanation`, and why the device was chosen; "": it was asked for. */
void gconv_job_print_explanation(const char *explanation, const char *device_reason);

/* From now on, a signal that ends the program prints how many results of the job are written; NULL: no longer. */
void gconv_job_count_for_signals(const gconv_main_job *job);

/* For a signal handler: prints how many results of that job are written. */
void gconv_job_say_interrupted(void);

/* Reports the whole run. */
void gconv_job_report_all(const gconv_main_job *job, const gconv_batch_summary *summary);

/* ---- job_options.c, digest.c ---- */

/* Returns the settings that change results, as text: equal settings have equal texts. For free(); NULL without memory. */
char *gconv_job_describe_settings(const gconv_job_settings *settings);

/* Computes a number that two runs share only if they ask for the same results of the same inputs. It depends on the version
 * of the program, the coefficients of filters or banks (with the geometry in their files), and the options that change
 * results, not on devices and threads. GCONV_NO_MEMORY. */
gconv_status gconv_job_digest(const gconv_main_job *job, uint64_t *digest);

/* SPDX-License-Identifier: MIT */
/* gconv compare: by how much two images, or the images of two folders, differ. */
#include "base/folders.h"
#include "base/mark.h"
#include "cli/compare.h"
#include "cli/job.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>

/* The exit statuses, as of cmp and diff. */
enum { WITHIN = GCONV_EXIT_OK, ABOVE = 1, TROUBLE = GCONV_EXIT_USAGE };

/* ---- One pair -------------------------------------------------------------------------------------------------------- */

typedef struct frame_report {
  const gconv_comparison *comparison;
  gconv_pair *pair;
} frame_report;

static bool speaks(const gconv_comparison *c) {
  return !c->settings->common.quiet && !c->settings->common.json;
}

static void report_frame(const gconv_difference *found, void *user) {
  const frame_report *report = user;
  if (found->a.frames < 2)
    return;
  if (report->comparison->settings->common.json) {
    json_t *frames = report->pair->frames ? report->pair->frames : (report->pair->frames = json_array());
    json_array_append_new(frames, gconv_compare_describe(found));
  } else if (!report->comparison->settings->common.quiet && !report->comparison->folders) {
    fprintf(report->comparison->out, "frame %d: ", (int)found->frame + 1);
    gconv_compare_print_line(report->comparison->out, found);
  }
}

/* Refuses a tolerance of 1 or more for integer images, where 1 is white: all would pass. The user meant levels. */
static gconv_status check_tolerance(const gconv_comparison *c, const gconv_difference *found) {
  double tolerance = c->settings->tolerance;
  if (found->white == 1 || tolerance < 1)
    return GCONV_OK;
  gconv_say("--tolerance %g: 1 is white, so that all images would pass; %g level%s of %.0f %s --tolerance %g/%.0f",
            tolerance, tolerance, tolerance == 1 ? "" : "s", found->white, tolerance == 1 ? "is" : "are", tolerance,
            found->white);
  return GCONV_BAD_ARGUMENT;
}

static gconv_status compare_pair(const gconv_comparison *c, gconv_pair *p) {
  const gconv_compared a = {.path = p->a}, b = {.path = p->b};
  const gconv_write_options write = {.format = c->pictures.format};
  frame_report report = {c, p};
  const gconv_compare_options options = {.max_pixels = c->settings->common.max_pixels,
                                         .threads = gconv_device_threads(c->device),
                                         .picture = p->picture,
                                         .write = &write,
                                         .report = report_frame,
                                         .user = &report};
  gconv_status status = GCONV_OK;
  if (p->picture && c->pictures.make_folders)
    status = gconv_make_folders(p->picture, 0777);
  GCONV_THEN(status, gconv_image_compare(&a, &b, &options, &p->found));
  if (status == GCONV_OK && p->picture && c->pictures.among)
    gconv_mark(p->picture);
  if (status == GCONV_OK)
    return check_tolerance(c, &p->found);
  gconv_say("%s", gconv_last_error());
  p->error = strdup(gconv_last_error());
  return status;
}

/* ---- The whole ------------------------------------------------------------------------------------------------------- */

static gconv_status find_side(gconv_comparison *c, char *spec, gconv_inputs *side) {
  gconv_texts specs = {&spec, 1};
  const char *output = c->settings->common.output ? c->settings->common.output : "-";
  GCONV_TRY(gconv_inputs_find_all(&specs, c->settings->common.recursive, output, side));
  if (!c->folders && side->count != 1)
    return gconv_refuse("%s: is %zu files: name one image, or a folder", spec, side->count);
  return GCONV_OK;
}

static gconv_status prepare(gconv_comparison *c, const gconv_texts *words) {
  if (words->count != 2)
    return gconv_refuse("compare: name two images, or two folders: gconv compare A B");
  char *a = words->items[0], *b = words->items[1];
  c->folders = gconv_is_folder(a);
  if (gconv_is_folder(a) != gconv_is_folder(b))
    return gconv_refuse("%s is a folder, and %s is not: compare two images, or two folders", c->folders ? a : b,
                        c->folders ? b : a);
  if (strcmp(a, "-") == 0 && strcmp(b, "-") == 0)
    return gconv_refuse("-: standard input can be read only once");
  GCONV_TRY(find_side(c, a, &c->sides[0]));
  GCONV_TRY(find_side(c, b, &c->sides[1]));
  GCONV_TRY(gconv_compare_find_pairs(c));
  if (c->settings->common.output)
    GCONV_TRY(gconv_compare_name_pictures(c));
  gconv_sandbox_outputs(&c->settings->common, &c->pictures, false);
  if (gconv_device_open("cpu", gconv_settle_threads(c->settings->common.threads, c->settings->common.quiet), &c->device) !=
      GCONV_OK)
    return GCONV_BAD_ARGUMENT;
  return GCONV_OK;
}

/* Compares all pairs, and reports each when it is done. */
static int compare_all(gconv_comparison *c) {
  int worst = WITHIN;
  for (size_t i = 0; i < c->count; i++) {
    gconv_pair *p = &c->pairs[i];
    if (p->a && p->b)
      p->status = compare_pair(c, p);
    int status = p->status != GCONV_OK ? TROUBLE : gconv_compare_is_above(c, p) ? ABOVE : WITHIN;
    worst = status > worst ? status : worst;
    if (!speaks(c) || p->status != GCONV_OK)
      continue;
    if (c->folders)
      gconv_compare_print_pair(c, p);
    else
      gconv_compare_print_all(c->out, p);
  }
  if (speaks(c) && c->folders)
    gconv_compare_print_folders(c);
  if (c->settings->common.json && !c->settings->common.quiet && !gconv_compare_print_json(c))
    worst = TROUBLE;
  return gconv_output_is_lost() ? TROUBLE : worst;
}

#define OPTION(...) GCONV_OPTION(gconv_compare_settings, __VA_ARGS__)
static const gconv_option options[] = {
    GCONV_NO_SANDBOX_ROW,
    OPTION(0, "tolerance", "T", from_zero, tolerance,
           .takes = "a number from 0 on, where 1 is white: 0.01, or 2/255 for two levels of 8 bits",
           .also = "threshold epsilon delta",
           .help =
               "exit with 1 only if a sample differs by more than T, where 1 is white: 0.01, or 2/255 for two levels of 8 "
               "bits; default: 0"),
    OPTION('o', "output", "PATH", once, common.output, .also = "difference diff picture",
           .help = "write a picture of the differences, in any format; of folders, a folder of pictures, or a template with "
                   "{stem}"),
    OPTION(0, "suffix", "TEXT", text, suffix, .also = "postfix", .near = "append",
           .help = "put TEXT after {stem} in the names of pictures, so that they may lie among the images: --suffix _diff; "
                   "files that are called so are not compared"),
    OPTION('r', "recursive", NULL, flag, common.recursive, .help = "also compare the sub-folders of folders"),
    OPTION(0, "json", NULL, flag, common.json, .help = "print JSON; infinite and undefined numbers are null"),
    GCONV_MAX_PIXELS_ROW(),
    GCONV_THREADS_ROW,
    OPTION('q', "quiet", NULL, flag, common.quiet, .help = "print only errors: the exit status tells the rest"),
    GCONV_OPTIONS_END,
};

static int run(void *record, const gconv_texts *words) {
  const gconv_compare_settings *settings = record;
  gconv_comparison c = {.settings = settings};
  int status = TROUBLE;
  c.out = settings->common.output && strcmp(settings->common.output, "-") == 0 ? stderr : stdout;
  if (prepare(&c, words) == GCONV_OK)
    status = compare_all(&c);
  else
    gconv_say("%s", gconv_last_error());
  gconv_sandbox_tidy();
  for (size_t i = 0; i < c.count; i++) {
    json_decref(c.pairs[i].frames);
    free(c.pairs[i].error);
  }
  free(c.pairs);
  gconv_outputs_free(&c.pictures);
  gconv_inputs_free(&c.sides[0]);
  gconv_inputs_free(&c.sides[1]);
  gconv_device_close(c.device);
  return status;
}

const gconv_command gconv_command_compare = {
    .name = "compare",
    .synopsis = "compare A B [OPTION...]",
    .help = "by how much two images, or two folders of them, differ: largest and mean difference, PSNR, SSIM",
    .details = "Differences are |a - b|, where 1 is white. Images of different types are compared in these units; they\n"
               "must have the same size and number of channels, alpha included. PSNR and SSIM (Wang 2004) are those of\n"
               "scikit-image. Files of two folders are compared by their names, with a line for each and one for all.\n\n"
               "The picture of -o shows the largest difference of any channel: equal is black; one level of 255 (of\n"
               "65535, if samples are finer) is the grey level 32; each doubling adds the same, up to white.\n\n"
               "Exit status: 0 if no sample differs by more than the tolerance, 1 if one does or a folder lacks a file,\n"
               "2 if the request was wrong or images could not be compared.\n",
    .options = options,
    .record_bytes = GCONV_RECORD_BYTES(gconv_compare_settings, common),
    .words = GCONV_WORDS_ANY,
    .run = run,
};

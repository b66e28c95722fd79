/* SPDX-License-Identifier: MIT */
/* gconv fit: which filter made one image of another? */
#include "base/ending.h"
#include "cli/fit.h"
#include "cli/job.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- What was given -------------------------------------------------------------------------------------------------- */

static gconv_status check_given(const gconv_fit_settings *s) {
  if (s->common.inputs.count == 0)
    return gconv_refuse("fit: no image before the filter: name one, or a folder, with -i");
  if (s->targets.count == 0)
    return gconv_refuse("fit: no image after the filter: name one, or a folder, with -t");
  if (s->fit.rows == 0)
    return gconv_refuse("fit: how large is the filter? Say --size 7, or --size ROWSxCOLUMNS");
  size_t standard_input = 0;
  for (size_t i = 0; i < s->common.inputs.count; i++)
    standard_input += strcmp(s->common.inputs.items[i], "-") == 0;
  for (size_t i = 0; i < s->targets.count; i++)
    standard_input += strcmp(s->targets.items[i], "-") == 0;
  if (standard_input > 1)
    return gconv_refuse("-: standard input can be read only once");
  return GCONV_OK;
}

/* Pairs the images. A file that the user named must have a partner; files of folders without one are counted. */
static gconv_status find_pairs(gconv_fitting *f) {
  const gconv_inputs *before = &f->sides[0], *after = &f->sides[1];
  bool one = before->count == 1 && after->count == 1 && !before->many && !after->many;
  GCONV_TRY(gconv_pairs_find(before, after, !one, NULL, &f->matched, &f->count));
  for (size_t i = 0; i < f->count; i++) {
    const gconv_input *alone = !f->matched[i].a ? f->matched[i].b : !f->matched[i].b ? f->matched[i].a : NULL;
    f->pairs += !alone;
    f->alone += alone != NULL;
    if (alone && !f->alone_one)
      f->alone_one = alone;
    if (alone && !alone->found)
      return gconv_refuse("%s: has no partner among the images of %s: both must have the same name, but for the extension",
                          alone->path, f->matched[i].a ? "-t" : "-i");
  }
  if (f->pairs == 0)
    return gconv_refuse("fit: no pair: none of %zu files before and %zu after have the same name, such as %s", before->count,
                        after->count, f->alone_one->path);
  return GCONV_OK;
}

static bool is_same_file(const char *a, const char *b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static gconv_status check_output(const gconv_fitting *f) {
  const char *output = f->settings->common.output;
  if (!output || strcmp(output, "-") == 0)
    return GCONV_OK;
  if (gconv_check_ending(output, "txt", "a filter", "gconv bank convert FILE.txt -o FILE.npy makes an array of it") !=
      GCONV_OK)
    return gconv_fail(GCONV_BAD_ARGUMENT, "-o %s", gconv_last_error());
  for (size_t side = 0; side < 2; side++)
    for (size_t i = 0; i < f->sides[side].count; i++)
      if (is_same_file(output, f->sides[side].items[i].file))
        return gconv_refuse("%s: the filter would replace an image: choose another name with -o", output);
  if (f->settings->common.no_clobber && gconv_output_exists(output))
    return gconv_fail(GCONV_EXISTS, "%s: exists, and --no-clobber keeps it", output);
  return GCONV_OK;
}

static gconv_status prepare(gconv_fitting *f) {
  const gconv_fit_settings *s = f->settings;
  const char *output = s->common.output ? s->common.output : "-";
  GCONV_TRY(check_given(s));
  GCONV_TRY(gconv_inputs_find_all(&s->common.inputs, s->common.recursive, output, &f->sides[0]));
  GCONV_TRY(gconv_inputs_find_all(&s->targets, s->common.recursive, output, &f->sides[1]));
  GCONV_TRY(find_pairs(f));
  GCONV_TRY(check_output(f));
  f->fit = s->fit;
  f->fit.whole = s->border.given;
  f->fit.border = s->border.border;
  f->fit.border_value = s->border.value;
  f->fit.max_pixels = s->common.max_pixels;
  f->by_rows = floor((double)f->pairs * s->holdout) < 1;
  gconv_sandbox_file(&s->common, s->common.output);
  if (gconv_device_open("cpu", gconv_settle_threads(s->common.threads, s->common.quiet), &f->device) != GCONV_OK)
    return GCONV_BAD_ARGUMENT;
  return GCONV_OK;
}

/* ---- The fit --------------------------------------------------------------------------------------------------------- */

/* Returns the share of pair number `index` that is held out. If pairs are held out as a whole, every (1 / holdout)-th is. */
static double held_of(const gconv_fitting *f, size_t index) {
  double share = f->settings->holdout;
  return f->by_rows ? share : floor((double)(index + 1) * share) - floor((double)index * share);
}

static gconv_status add_pairs(gconv_fitting *f) {
  size_t done = 0;
  for (size_t i = 0; i < f->count; i++) {
    const gconv_matched *m = &f->matched[i];
    if (!m->a || !m->b)
      continue;
    const gconv_compared before = {.path = m->a->path}, after = {.path = m->b->path};
    double held = held_of(f, done++);
    f->held += !f->by_rows && held > 0;
    GCONV_TRY(gconv_fit_add(&f->fit, f->device, &before, &after, held));
  }
  return GCONV_OK;
}

static int fit(gconv_fitting *f) {
  const gconv_fit_settings *s = f->settings;
  if (f->alone > 0 && !s->common.quiet)
    gconv_say("fit: %zu file%s no partner, such as %s", f->alone, f->alone == 1 ? " has" : "s have", f->alone_one->path);
  gconv_status status = add_pairs(f);
  GCONV_THEN(status, gconv_fit_solve(&f->fit, f->device, &f->result));
  GCONV_THEN(status, gconv_filters_write(s->common.output ? s->common.output : "-", &f->result.filters));
  bool reported = status != GCONV_OK || (s->common.quiet && !s->common.json) || gconv_fit_report(f);
  return gconv_command_end(status, !reported);
}

#define OPTION(...) GCONV_OPTION(gconv_fit_settings, __VA_ARGS__)
static const gconv_option options[] = {
    GCONV_NO_SANDBOX_ROW,
    OPTION('i', "input", "PATH...", texts, common.inputs, .also = "before", .several = true,
           .help = "the images before the filter: files, folders, quoted patterns, or - for standard input"),
    OPTION('t', "target", "PATH...", texts, targets, .also = "after targets", .several = true,
           .help = "the images after the filter; with several, two of the same name, but for the extension, are a pair"),
    OPTION('r', "recursive", NULL, flag, common.recursive, .help = "also search the sub-folders of folders"),
    OPTION('s', "size", "N|RxS", size, fit.rows, .most = GCONV_FIT_MAX_TAPS,
           .help = "the size of the filter: N x N, or R rows and S columns, such as 5x9"),
    OPTION('o', "output", "FILE", once, common.output, .also = "out",
           .help = "write the filter to this file, as text; default: to standard output"),
    OPTION(0, "no-clobber", NULL, flag, common.no_clobber, .also = "no-overwrite keep-existing",
           .help = "fail if the file of -o exists; default: replace it"),
    OPTION(0, "bias", NULL, flag, fit.bias, .near = "offset constant",
           .help = "also fit a constant, which is added to the response: the offset of the file"),
    OPTION(0, "ridge", "X", from_zero, fit.ridge, .takes = "a number from 0 on, such as 1e-6",
           .also = "regularization lambda",
           .help = "prefer small taps: add X times the mean square of the samples times the sum of the squares of the taps "
                   "to the mean squared error; default: 0"),
    OPTION(0, "border", "MODE", border, border, .also = "boundary", .near = "edge", .word_at = gconv_word_border_at,
           .synonyms = gconv_border_words, .drawing = GCONV_BORDER_DRAWING,
           .help = "what the filter saw outside the image: zero, constant:V, replicate, symmetric, reflect101 or wrap; "
                   "default: only pixels count where the filter lies inside the image"),
    OPTION(0, "holdout", "SHARE", share, holdout, .near = "validate test",
           .help = "hold out this share of the pairs, such as 20%, or of the rows of a single pair, and report how well the "
                   "filter explains them"),
    OPTION(0, "json", NULL, flag, common.json, .help = "print JSON; undefined numbers are null"),
    GCONV_MAX_PIXELS_ROW(),
    GCONV_THREADS_ROW,
    OPTION('q', "quiet", NULL, flag, common.quiet, .help = "print only errors"),
    GCONV_OPTIONS_END,
};

static int run(void *record, const gconv_texts *words) {
  const gconv_fit_settings *settings = record;
  gconv_fitting f = {.settings = settings};
  f.out = settings->common.output && strcmp(settings->common.output, "-") != 0 ? stdout : stderr;
  int status = gconv_say_end(prepare(&f));
  if (status == GCONV_EXIT_OK)
    status = fit(&f);
  gconv_sandbox_tidy();
  gconv_filters_free(&f.result.filters);
  free(f.result.taps);
  gconv_fit_free(&f.fit);
  free(f.matched);
  gconv_inputs_free(&f.sides[0]);
  gconv_inputs_free(&f.sides[1]);
  gconv_device_close(f.device);
  return status;
}

const gconv_command gconv_command_fit = {
    .name = "fit",
    .synopsis = "fit -i BEFORE -t AFTER --size N [-o FILE] [OPTION...]",
    .help = "which filter made one image of another? the one of least squares, from a pair of images or folders of them",
    .details =
        "The filter is the one whose results have the smallest mean squared error, over all pairs and colours. Alpha\n"
        "does not count, and neither do samples of 8 or 16 bits that are black or white after the filter, as they may\n"
        "be cut off there. R2 is the share of the variance that the filter explains. A large condition number, 1e8\n"
        "and more, says that the images hardly tell filters apart: small errors of samples make large errors of taps.\n\n"
        "A line says so if no filter of this size explains the images (R2 is below 0.95, and residuals of neighbours\n"
        "correlate by more than 0.3, so that they are no noise), if AFTER looks shifted, or if the filter looks cut\n"
        "off.\n",
    .options = options,
    .record_bytes = GCONV_RECORD_BYTES(gconv_fit_settings, common),
    .words = GCONV_WORDS_NONE,
    .run = run,
};

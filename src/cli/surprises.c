/* SPDX-License-Identifier: MIT */
/* Warnings of options that are allowed together, but make something else than most users expect. */
#include "cli/command.h"
#include "cli/job.h"
#include "cli/job_settings.h"
#include "cli/terminal.h"

#include <math.h>

/* The first of several filters that stands for two derivatives, such as sobel; NULL: none. */
static const char *find_gradient(const gconv_texts *specs) {
  const char *found = NULL;
  for (size_t i = 0; specs->count > 1 && i < specs->count && !found; i++) {
    gconv_filters filters = {0};
    if (gconv_word_builtin(specs->items[i]) && gconv_filters_read(specs->items[i], NULL, &filters) == GCONV_OK &&
        filters.gradient)
      found = specs->items[i];
    gconv_filters_free(&filters);
  }
  return found;
}

/* -f sobel is one picture of edges; -f sobel,prewitt is four of derivatives. */
static void warn_of_derivatives(const gconv_main_job *job) {
  if (job->has_banks || job->has_networks || job->combine_given)
    return;
  const char *gradient = find_gradient(&job->settings->last.filters);
  if (gradient)
    gconv_say("warning: %s: beside other filters it gives its two derivatives, a result each: leave the others out for "
              "their magnitude (--combine none, if derivatives are meant)",
              gradient);
}

/* alpha premultiply filters alpha, so taps that sum to 2 make alpha twice as large. Colours stay as they are, because they
 * are divided by that alpha. A sum of 0 is refused later. */
static void warn_of_sums(const gconv_main_job *job) {
  const double tolerance = 0.01;
  bool premultiply = !job->has_banks && job->options.alpha == GCONV_ALPHA_PREMULTIPLY, told = false;
  for (size_t i = 0; premultiply && i < job->filters.count && !told; i++) {
    double sum = gconv_job_sum_of(&job->filters.items[i]);
    told = fabs(sum) > tolerance && fabs(sum - 1) > tolerance;
    if (told)
      gconv_say("warning: %s: its taps sum to %.4g, by which --alpha premultiply multiplies alpha, and --scale is for "
                "colours alone: divide the taps, so that their sum is 1",
                job->filters.items[i].name, sum);
  }
}

/* With an option that only banks have, such as --batch, plain filters are applied as a bank, and the pictures of a bank are
 * stretched to full contrast. Nobody expects --batch to change pixels. */
static void warn_of_stretching(const gconv_main_job *job) {
  const gconv_job_settings *settings = job->settings;
  bool filters = !job->has_networks && settings->combine < GCONV_COMBINE_ARGMAX && !gconv_job_settings_have_bank(settings);
  bool pictures = job->network.presentation != GCONV_PRESENT_TENSOR && job->network.tone.fit;
  if (settings->of_banks && filters && pictures)
    gconv_say(
        "warning: --%s is for banks, and makes one of the filters, whose pictures are stretched to full contrast: leave "
        "it out, or give --range clamp for levels as they are",
        settings->of_banks);
}

void gconv_job_warn_of_surprises(const gconv_main_job *job) {
  if (job->common->quiet)
    return;
  warn_of_stretching(job);
  warn_of_derivatives(job);
  warn_of_sums(job);
}

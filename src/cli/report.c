/* SPDX-License-Identifier: MIT */
/* The messages of the main job: about each image when it is done, and about all in the end. */
#include "base/printable.h"
#include "cli/job.h"
#include "cli/terminal.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* ---- Reports on an image -------------------------------------------------------------------------------------------- */

static void show_progress(const gconv_main_job *job, const gconv_report *report) {
  size_t done = job->total.inputs, all = job->inputs.count;
  char text[160];
  double seconds = report->elapsed_ms * 1e-3;
  snprintf(text, sizeof text, "%s %zu/%zu images, %.1f Mpix/s, %.0f s left", gconv_progress_bar(done, all), done, all,
           seconds > 0 ? (double)job->total.pixels * 1e-6 / seconds : 0.0, seconds * (double)(all - done) / (double)done);
  gconv_progress_show(text);
}

void gconv_job_advance(double done, double elapsed_ms, void *user) {
  enum { BEGIN_MS = 2000, EACH_MS = 200 }; /* short work needs no line */
  static double shown;                     /* only one thread processes an image by rows */
  const double left = elapsed_ms * 1e-3 * (1 - done) / done;
  char text[160];
  if (elapsed_ms < BEGIN_MS || elapsed_ms - shown < EACH_MS)
    return;
  shown = elapsed_ms;
  if (left < 60)
    snprintf(text, sizeof text, "%s %.0f%%, %.0f s left", gconv_progress_bar((size_t)(done * 1000), 1000), done * 100, left);
  else
    snprintf(text, sizeof text, "%s %.0f%%, %.0f:%02.0f min left", gconv_progress_bar((size_t)(done * 1000), 1000),
             done * 100, floor(left / 60), floor(fmod(left, 60)));
  gconv_progress_show(text);
}

/* Prints a passed --verify, in the same form as the error of a mismatch. */
static void print_verification(FILE *out, const gconv_report *report) {
  const gconv_verification *found = &report->verification;
  if (found->max_error == 0) {
    gconv_print(out, "%s: equal to float64, %llu samples compared\n", report->input->path,
                (unsigned long long)found->compared);
    return;
  }
  gconv_print(out,
              "%s: largest error %.3g of the %.3g allowed: output %zu, frame %d, row %d, column %d, channel %d is %.9g, and "
              "float64 gives %.9g; %llu samples compared\n",
              report->input->path, found->max_error, found->allowed, found->output, (int)found->frame + 1, (int)found->y,
              (int)found->x, (int)found->channel, found->got, found->expected, (unsigned long long)found->compared);
}

void gconv_job_print_explanation(const char *explanation, const char *device_reason) {
  for (size_t length; *explanation; explanation += length + (explanation[length] == '\n')) {
    length = strcspn(explanation, "\n");
    gconv_print(stderr, "%.*s\n", (int)length, explanation);
  }
  if (device_reason[0])
    gconv_print(stderr, "this device, because %s\n", device_reason);
}

static void print_remarks(const gconv_main_job *job, const gconv_report *report) {
  if (report->explanation)
    gconv_job_print_explanation(report->explanation, report->device_reason);
  if (job->common->verbose && report->remark)
    gconv_say("%s: %s", report->input->path, report->remark);
  if (job->common->verbose && report->executed)
    gconv_say("%s: %s, %s, %s, %.1f ms", report->input->path, report->plan.device, report->plan.algorithm, report->plan.math,
              report->total_ms);
  bool matches = report->verified && report->verification.max_error <= report->verification.allowed;
  if (matches && job->total.style != GCONV_TIMINGS_JSON)
    print_verification(job->out, report);
}

void gconv_job_report(const gconv_report *report, void *user) {
  gconv_main_job *job = user;
  gconv_progress_hide();
  print_remarks(job, report);
  for (size_t i = 0; i < report->errors->count; i++)
    gconv_say("%s", report->errors->items[i]);
  if (report->failed > 0 && report->errors->count == 0)
    gconv_say("%s: failed, and there is no memory to say why", report->input->path);
  gconv_timings_report(&job->total, report);
  if (job->progress)
    show_progress(job, report);
}

/* ---- Reports on the run --------------------------------------------------------------------------------------------- */

/* Prints what starting CUDA cost. */
static void remark_on_start(const gconv_batch_summary *summary) {
  double hidden = summary->device.start_ms - summary->device_wait_ms;
  if (strncmp(summary->device.name, "cuda", 4) == 0 && summary->device.start_ms > 0)
    gconv_say("%s: CUDA started in %.0f ms, of which %.0f ms were hidden behind reading and decoding", summary->device.name,
              summary->device.start_ms, hidden > 0 ? hidden : 0);
}

/* Prints what --resume did with existing results. In a first run there are none. */
static void remark_on_resumption(const gconv_batch_summary *summary) {
  static const char *const taken_up[] = {[GCONV_FOUND_NEW] = "new",
                                         [GCONV_FOUND_OTHER_JOB] = "of other filters, options or another version",
                                         [GCONV_FOUND_OTHER_INPUT] = "of inputs that changed",
                                         [GCONV_FOUND_OTHER_RESULT] = "missing or changed"};
  const size_t *found = summary->found, done = found[GCONV_FOUND_DONE];
  char text[256] = "";
  size_t used = 0;
  if (found[GCONV_FOUND_NEW] == summary->written + summary->passed + summary->failed)
    return;
  for (size_t i = GCONV_FOUND_NEW; i <= GCONV_FOUND_OTHER_RESULT; i++)
    if (found[i] > 0)
      used +=
          (size_t)snprintf(text + used, sizeof text - used, "%s %zu %s", used ? "," : "; taken up:", found[i], taken_up[i]);
  gconv_say("--resume: %zu result%s done%s", done, done == 1 ? " was" : "s were", used ? text : ", which is all");
}

/* Prints, for example: "94 of 144 written, 12 passed over; clamped to black: 7 images; --resume continues". Prints nothing
 * for a single result: it was written, or an error says why not. */
static void report_count(const gconv_main_job *job, const gconv_batch_summary *summary) {
  size_t all = summary->written + summary->passed + summary->failed;
  char passed[64] = "", of[32] = "";
  bool resumes = summary->failed > 0 && job->manifest;
  if (job->common->quiet || all < 2 || (summary->failed == 0 && summary->written < 2))
    return;
  if (summary->written < all)
    snprintf(of, sizeof of, " of %zu", all);
  if (summary->passed > 0)
    snprintf(passed, sizeof passed, ", %zu passed over", summary->passed);
  gconv_say("%zu%s written%s%s%s%s", summary->written, of, passed, summary->warned[0] ? "; " : "", summary->warned,
            resumes ? "; --resume continues" : "");
}

void gconv_job_report_all(const gconv_main_job *job, const gconv_batch_summary *summary) {
  size_t leftovers = job->leftovers + summary->leftovers;
  gconv_progress_hide();
  if (leftovers > 0 && !job->common->quiet)
    gconv_say("removed %zu unfinished file%s that a killed run had left", leftovers, leftovers > 1 ? "s" : "");
  if (job->manifest && !job->common->quiet)
    remark_on_resumption(summary);
  if (job->common->verbose)
    remark_on_start(summary);
  if (summary->begun < job->inputs.count)
    gconv_say("%s: %zu of %zu images were not read",
              job->batch.one_array ? "no array is written, as it would not be whole" : "stopped by --fail-fast",
              job->inputs.count - summary->begun, job->inputs.count);
  gconv_timings_end(&job->total, summary);
  report_count(job, summary);
}

/* ---- When a signal ends the program --------------------------------------------------------------------------------- */

/* The job whose results the handler counts; NULL: none. */
static _Atomic(const gconv_main_job *) counted;

void gconv_job_count_for_signals(const gconv_main_job *job) {
  atomic_store(&counted, job);
}

static char *put_text(char *to, const char *text) {
  while (*text)
    *to++ = *text++;
  return to;
}

static char *put_number(char *to, size_t number) {
  char digits[24], *at = digits + sizeof digits;
  *--at = '\0';
  do
    *--at = (char)('0' + number % 10);
  while (number /= 10);
  return put_text(to, at);
}

/* Calls only what a signal handler may call. */
void gconv_job_say_interrupted(void) {
  const gconv_main_job *job = atomic_load(&counted);
  char line[256], *end = line;
  if (!job || job->common->quiet)
    return;
  end = put_text(end, job->progress || job->batch.advance ? "\r\033[Kgconv: interrupted: " : "gconv: interrupted: ");
  end = put_number(end, __atomic_load_n(&job->written, __ATOMIC_RELAXED));
  end = put_text(end, " of ");
  end = put_number(end, job->batch.one_array ? 1 : job->outputs.paths.count);
  end = put_text(end, " written");
  if (job->manifest)
    end = put_text(end, "; --resume continues");
  else if (job->outputs.in_place)
    end = put_text(end, "; the same command makes the rest");
  else if (job->outputs.paths.count > 1 && !job->batch.one_array)
    end = put_text(end, "; --skip-existing makes the rest");
  end = put_text(end, "\n");
  ssize_t ignored = write(STDERR_FILENO, line, (size_t)(end - line));
  (void)ignored;
}
